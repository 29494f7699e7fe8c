"""How things stand in bundles: `simgen status` and `simgen show BUNDLE`."""

from __future__ import annotations

import shutil

import pytest
from command_line import CUDA, fails

from simgen.bundle import folder as bundles
from simgen.bundle import pieces, run_record, verdict_file
from simgen.bundle.run_record import Run
from simgen.ground.storage import locks, seal
from simgen.running import status
from simgen.targets.base import Progress
from simgen.targets.cuda import CudaWatcher
from simgen.targets.launch_rows import RowsWatcher
from simgen.tensors import state_file
from simgen.tensors.state_file import Mark
from simgen.workload.pieces import Piece


def rows(simgen, line="status --json"):
    return {each["result"]: each for each in simgen(line).json()["results"]}


def begun(path, name, *marks):
    """What a run leaves whose steps have those marks."""
    made = bundles.load(path)
    made_by = path / "results" / name
    made_by.mkdir(parents=True)
    steps = tuple(range(len(made.workload.steps)))
    run_record.write(made_by, Run(made.digest, made.targets["cuda"], {}, steps))
    state_file.write(made_by / state_file.FILE, made.workload, bytes(32), marks, {})
    return made


def test_each_state_of_a_run_is_told(simgen, ran, tmp_path):
    assert rows(simgen)["cuda"] | {"when": ""} == {
        "bundle": "net",
        "result": "cuda",
        "state": "finished",
        "steps": 2,
        "of": 2,
        "when": "",
        "verdict": "not checked",
        "fact": "",
        "verdicts": {},
    }
    assert simgen("diff net -q").code == 0
    assert rows(simgen)["cuda"]["verdict"] == "right"
    shutil.rmtree(ran.path / "results" / "cuda")
    assert rows(simgen)["cuda"]["state"] == "not run"
    (ran.path / "results" / "failed-cuda").mkdir()
    assert rows(simgen)["cuda"]["fact"].endswith("results/failed-cuda/log.txt")
    begun(ran.path, "stopped-cuda", Mark.FINISHED, Mark.TO_RUN)
    shutil.rmtree(ran.path / "results" / "failed-cuda")
    left = rows(simgen)["cuda"]
    assert (left["state"], left["steps"], left["of"]) == ("stopped", 1, 2)
    assert "simgen run net --on cuda --resume" in left["fact"]
    begun(ran.path, ".part-cuda@repeats=2.999999999", Mark.FINISHED, Mark.FINISHED)
    with locks.running(ran.path, ran.path / "results", "cuda@repeats=2"):
        found = rows(simgen, "status net --json")["cuda@repeats=2"]
    assert (found["state"], found["steps"]) == ("running", 2)
    shutil.rmtree(ran.path / "results" / "stopped-cuda")
    (ran.path / "results" / "cuda").mkdir()
    assert rows(simgen)["cuda"]["state"] == "damaged"


def test_a_simulator_that_marks_no_steps_is_followed(simgen, ran, monkeypatch):
    """By the lines of launches.csv, as MGPUSim writes it."""
    monkeypatch.setattr(CudaWatcher, "watch", RowsWatcher.watch)
    folder = ran.path / "results" / ".part-cuda@repeats=3.999999999"
    folder.mkdir(parents=True)
    made = bundles.load(ran.path)
    steps = tuple(range(len(made.workload.steps)))
    run_record.write(folder, Run(made.digest, made.targets["cuda"], {}, steps))
    kernels = [launch.kernel for step in made.workload.steps for launch in step.launches]
    with locks.running(ran.path, ran.path / "results", "cuda@repeats=3"):
        for count in range(len(kernels)):
            lines = ["kernel,seconds", *(f"{kernel},1e-6" for kernel in kernels[:count]), "cut"]
            (folder / "launches.csv").write_text("\n".join(lines))
            found = rows(simgen, "status net --json")["cuda@repeats=3"]
            ends = [len(step.launches) for step in made.workload.steps]
            whole = sum(sum(ends[: at + 1]) <= count for at in range(len(ends)))
            assert (found["state"], found["steps"], found["of"]) == ("running", whole, len(steps))
            told = f"{count} of {len(kernels)} launches"
            assert found["fact"].endswith(told) == bool(count)


def test_runs_of_which_nothing_more_is_known_are_told(simgen, ran, monkeypatch):
    """Without a watcher; by pieces; before the run has written what it is about."""
    begun(ran.path, ".part-cuda@repeats=3.999999999", Mark.TO_RUN, Mark.TO_RUN)
    folder = ran.path / "results" / ".part-cuda@repeats=3.999999999"

    def told():
        found = rows(simgen, "status net --json")["cuda@repeats=3"]
        return found["state"], found["steps"], found["of"], "launches" in found["fact"]

    with locks.running(ran.path, ran.path / "results", "cuda@repeats=3"):
        assert told() == ("running", 0, 2, False)
        monkeypatch.setattr(CudaWatcher, "watch", lambda *_: None)
        assert told() == ("running", 0, 2, False)
        monkeypatch.setattr(CudaWatcher, "watch", lambda *_: lambda: Progress(1))
        assert told() == ("running", 1, 2, True)
        made = bundles.load(ran.path)
        cuts = (Piece((), (0,)), Piece((0,), (1,)))
        pieces_of = Run(made.digest, made.targets["cuda"], {}, (0, 1), pieces=cuts)
        run_record.write(folder, pieces_of)
        assert told() == ("running", 0, 2, False)
        (folder / pieces.FOLDER).mkdir()
        pieces.path(folder, cuts[1]).touch()
        assert told() == ("running", 1, 2, False)
        (folder / run_record.FILE).write_text("{")
        assert told() == ("running", None, None, False)
    # What a run by pieces leaves goes on by the command that began it.
    run_record.write(folder, pieces_of)
    found = rows(simgen, "status net --json")["cuda@repeats=3"]
    assert (found["state"], found["steps"], found["of"]) == ("stopped", 1, 2)
    assert found["fact"] == "the command that began it goes on"
    # The result before, which a run puts aside, is no run.
    folder.rename(f"{folder}.old")
    assert "cuda@repeats=3" not in rows(simgen, "status net --json")


def test_a_verdict_of_some_steps_and_logs_of_failures_are_told(simgen, ran):
    assert simgen("diff net -q").code == 0
    result = ran.path / "results" / "cuda"
    outcomes = verdict_file.read_outcomes(result)
    assert len(outcomes) > 1
    changed = {**outcomes, next(iter(outcomes)): verdict_file.WRONG}
    verdict_file.save(result, seal.read_seal(result).digest, changed)
    assert rows(simgen)["cuda"]["verdict"] == f"1 different, {len(outcomes) - 1} right"
    failed = ran.path / "results" / "failed-cuda"
    failed.write_text("log")
    assert rows(simgen)["cuda"]["state"] == "finished", "it ran since"
    shutil.rmtree(result)
    found = rows(simgen)["cuda"]
    assert (found["state"], found["fact"]) == ("failed", "log: net/results/failed-cuda")
    with locks.running(ran.path, ran.path / "results", "cuda"):
        assert rows(simgen)["cuda"]["state"] == "running"


def test_what_is_no_bundle_has_no_status(simgen, tmp_path):
    fails(simgen("status"), 2, ".: no bundle here; make one with: simgen build")
    fails(simgen("status nowhere"), 2, "nowhere: no such folder")
    with pytest.raises(status.UsageError):
        status.bundles_in([tmp_path])


def test_a_damaged_bundle_is_a_line_among_the_others(simgen, ran, tmp_path):
    assert simgen(f"build softmax_fwd {CUDA} -o broken").code == 0
    shutil.copytree(tmp_path / "broken", tmp_path / "cut")
    with (tmp_path / "broken/workload.json").open("a") as file:
        file.write(" ")
    (tmp_path / "cut/manifest.json").write_text("{")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/manifest.json").write_text("{}")
    found = simgen("status --json").json()["results"]
    assert [(each["bundle"], each["state"]) for each in found] == [
        ("broken", "damaged"), ("cut", "damaged"), ("net", "finished")
    ]  # fmt: skip
    assert "build it again" in found[0]["fact"]


def test_watching_ends_when_nothing_runs(simgen, ran):
    done = simgen("status net --watch")
    assert done.code == 0
    assert done.out.split()[:2] == ["net", "cuda"]
    fails(simgen("status net --watch --json"), 2, "leave out --watch or --json")


def test_a_bundle_is_shown_as_it_was_built(simgen, ran):
    shown = simgen("show net")
    assert shown.code == 0, shown
    assert shown.out.startswith("net: a bundle of ")
    assert "cuda     finished   2 of 2" in shown.out
    told = simgen("show net --json").json()
    assert told["results"][0]["state"] == "finished"
    assert (
        told["workload"]["nodes"]
        == simgen("show classifier --set n=8 --json").json()["workload"]["nodes"]
    )


def test_a_bundle_of_a_workloads_name_is_shown_unless_options_ask_for_the_workload(simgen):
    assert simgen(f"build softmax_fwd {CUDA} --set n=4").code == 0
    assert "n=4" in simgen("show softmax_fwd").out
    assert "4x" not in simgen("show softmax_fwd --set n=3").out
    fails(simgen("show softmax_fwd --budget nonsense"), 2, "--budget")


def test_a_page_has_a_bar_for_each_result_and_refreshes_only_while_something_runs(simgen, ran):
    assert simgen("status net --watch --page live.html").code == 0
    page = (ran.path.parent / "live.html").read_text()
    assert page.count("<progress") == 1
    assert 'value="100"' in page
    assert "http-equiv" not in page
    fails(simgen("status net --page live.html"), 2, "--page: it is refreshed by --watch")
