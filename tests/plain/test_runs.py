"""Runs that were stopped, and how they are made ready to go on."""

from __future__ import annotations

import csv
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from threading import Timer

import pytest
from handmade import build, lowered, run_by_hand

from simgen.ask.run import RunChoices
from simgen.bundle import results, run_record
from simgen.bundle import writing as bundles
from simgen.errors import DamagedError, UsageError
from simgen.running import process as running
from simgen.running import run_folder, runs
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.host import Host, HostPackage
from simgen.targets.launch_rows import RowsReader
from simgen.tensors import data_file, state_file
from simgen.tensors.state_file import Mark

GONE = 2**22 + 1  # a process that Linux cannot have


@pytest.fixture(name="made")
def a_bundle(tmp_path, monkeypatch):
    """LeNet-5 for a host target whose folder needs no compiler."""
    from simgen.targets.base import File

    monkeypatch.setattr(HostPackage, "folder", lambda *args: {"run.sh": File(b"exit 1\n")})
    return build(tmp_path / "b", lowered("lenet5"), Host())


def stop(made, finished, *, rows=None, name="stopped-host", variables=None, result="host"):
    """What a run leaves that was stopped after some steps, of which each has one launch or more."""
    start = run_folder.begin(made, Host(), result, variables or {})
    folder = made.path / bundles.RESULTS / name
    start.folder.rename(folder)
    marks = [Mark.FINISHED if at in finished else Mark.TO_RUN for at in steps_of(made)]
    identity = data_file.data_id(made.workload)
    state_file.write(folder / state_file.FILE, made.workload, identity, marks, {})
    write_rows(folder, made, rows)
    (folder / "log.txt").write_text("before\n")
    return folder


def write_rows(folder, made, count=None):
    with (folder / "launches.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["launch", "kernel", "seconds"])
        for at, launch in list(enumerate(made.workload.launches))[:count]:
            writer.writerow([at, launch.kernel, at + 0.5])


def steps_of(made):
    return range(len(made.workload.steps))


def launches(made, steps):
    return [
        str(at) for at in range(sum(len(made.workload.steps[i].launches) for i in range(steps)))
    ]


def test_a_stopped_run_goes_on_with_the_steps_that_are_left(made):
    folder = stop(made, {0, 1, 2}, rows=5)
    assert run_folder.stopped(made, "host") == folder
    start, variables = run_folder.resume(made, Host(), "host", {})
    assert (start.folder, variables) == (folder, {})
    assert start.todo.steps == made.workload.steps[3:]
    assert list(start.run.finished) == launches(made, 3)
    assert start.run.finished["1"] == {"seconds": 1.5}
    assert start.run.resumed == (len(launches(made, 3)),)
    assert (folder / "earlier/1/log.txt").read_text() == "before\n"
    assert sorted(p.name for p in folder.iterdir()) == ["earlier", "run.json", "state.bin"]
    # Stopped again at once, it is as it was; after more steps, those are added.
    again, _ = run_folder.resume(made, Host(), "host", {})
    assert again.run.finished == start.run.finished
    state_file.mark(
        folder / state_file.FILE, [Mark.FINISHED] * 4 + [Mark.TO_RUN] * (len(steps_of(made)) - 4)
    )
    with (folder / "launches.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["launch", "kernel", "seconds"])
        for launch in made.workload.steps[3].launches:
            writer.writerow([0, launch.kernel, 9.0])
    third, _ = run_folder.resume(made, Host(), "host", {})
    assert third.todo.steps == made.workload.steps[4:]
    assert third.run.finished[launches(made, 4)[-1]] == {"seconds": 9.0}
    assert (folder / "earlier/2/launches.csv").exists()


def test_a_joined_result_has_the_metrics_of_all_launches(made):
    stop(made, {0, 1, 2}, rows=5)
    start, _ = run_folder.resume(made, Host(), "host", {})
    folder = run_by_hand(made, target="host")
    (start.folder / run_record.FILE).rename(folder / run_record.FILE)
    with (folder / "launches.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["launch", "kernel", "seconds"])
        for launch in start.todo.launches:
            writer.writerow([0, launch.kernel, 7.0])
    found = results.collect(made, Host(), folder)
    seconds = [launch["seconds"] for launch in found.launches]
    before = [at + 0.5 for at in range(len(launches(made, 3)))]
    assert seconds == [*before, *[7.0] * len(start.todo.launches)]
    assert found.provenance["resumed"] == [len(before)]
    results.save(found, made.workload, folder / results.FILE)
    assert results.load(folder / results.FILE).provenance["resumed"] == [len(before)]


def test_a_step_without_its_metrics_is_run_again(made, monkeypatch):
    class Late(RowsReader):
        """The last line came too late."""

        def salvaged(self, results, workload):
            return super().salvaged(results, workload)[:-1]

    monkeypatch.setattr(Host, "reader", Late())
    stop(made, {0, 1, 2})
    start, _ = run_folder.resume(made, Host(), "host", {})
    assert start.todo.steps == made.workload.steps[2:]
    marks = state_file.read_marks(
        start.folder / state_file.FILE, made.workload, data_file.data_id(made.workload)
    )
    assert marks[:3] == [Mark.FINISHED, Mark.FINISHED, Mark.TO_RUN]


def test_where_all_steps_are_finished_the_last_is_run_again(made):
    stop(made, set(steps_of(made)))
    start, _ = run_folder.resume(made, Host(), "host", {})
    assert start.todo.steps == made.workload.steps[-1:]


def test_a_killed_run_is_found_and_the_farthest_is_taken(made):
    stop(made, {0, 1}, name="stopped-host")
    killed = stop(made, {0, 1, 2}, name=f".part-host.{GONE}")
    stop(made, set(), name=f".part-host.{GONE + 1}")
    stop(made, {0, 1, 2, 3}, name=f".part-other.{GONE}")
    assert run_folder.stopped(made, "host") == killed
    assert run_folder.results_stopped(made, "host") == ["host"]
    run_folder.sweep_away(made, "host")
    assert killed.exists()
    assert not (made.path / f"results/.part-host.{GONE + 1}").exists()


def test_the_result_that_a_killed_run_has_replaced_goes(made):
    """And stays where the new one is not there."""
    run_by_hand(made, target="host")
    results = made.path / "results"
    olds = [results / f".part-{name}.old" for name in (f"host.{GONE}", f"host.{os.getpid()}")]
    for each in olds:
        shutil.copytree(results / "host", each)
    (results / "host").rename(results / "away")
    run_folder.sweep_away(made, "host")
    assert [each.exists() for each in olds] == [True, True]
    (results / "away").rename(results / "host")
    run_folder.sweep_away(made, "host")
    assert [each.exists() for each in olds] == [False, True]


def test_a_folder_in_which_a_process_works_is_left_alone(made):
    folder = stop(made, {0}, name=f".part-host.{GONE}")
    script = "import time; print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", script], cwd=folder, stdout=-1) as process:
        process.stdout.readline()
        with pytest.raises(UsageError, match=f"process {process.pid} still works in it"):
            run_folder.stopped(made, "host")
        process.kill()
    assert run_folder.stopped(made, "host") == folder


def test_a_stopped_run_tells_how_to_go_on_whoever_looks_at_it(made, monkeypatch):
    """^C may come between two statements of what reads the folder, which then holds a file open;
    and what was killed may take longer to end than anybody waits."""
    folder = stop(made, {0})
    start = run_folder.begin(made, Host(), "host", {})
    watched = running._Watched(Host(), made, start, GONE)
    with (folder / state_file.FILE).open("rb"):
        assert run_folder.stopped(made, "host") == folder
        with subprocess.Popen(["sleep", "600"], cwd=folder) as process:
            monkeypatch.setattr(running, "GRACE", 0.2)
            slow = watched.cure()
            monkeypatch.setattr(running, "GRACE", 600.0)
            monkeypatch.setattr(running, "LOOK", 0.0)
            Timer(0.2, process.kill).start()
            assert watched.cure() == slow
    assert slow.startswith("; go on after the last finished layer with: simgen run ")
    assert slow.endswith("--on host --resume")


def test_nothing_is_found_that_is_of_another_workload_or_target(made):
    folder = stop(made, {0})
    text = (folder / run_record.FILE).read_text()
    for old, new in ((made.digest, "0" * 64), ('"sanitize": false', '"sanitize": true'), ("{", "")):
        (folder / run_record.FILE).write_text(text.replace(old, new))
        assert run_folder.stopped(made, "host") is None
    with pytest.raises(UsageError, match="no run on host that was stopped"):
        run_folder.resume(made, Host(), "host", {})
    (folder / run_record.FILE).write_text(text)
    (folder / state_file.FILE).write_bytes(b"no state" + bytes(56) + b"\1" * 8)
    with pytest.raises(DamagedError, match="not the state"):
        run_folder.resume(made, Host(), "host", {})


def test_a_run_goes_on_with_the_variables_that_it_had(made, monkeypatch):
    monkeypatch.setattr(Host, "variables", ("SIMGEN_A", "SIMGEN_B"))
    stop(made, {0}, variables={"SIMGEN_A": "1"})
    assert run_folder.resume(made, Host(), "host", {})[1] == {"SIMGEN_A": "1"}
    assert run_folder.resume(made, Host(), "host", {"SIMGEN_A": "1"})[1] == {"SIMGEN_A": "1"}
    with pytest.raises(UsageError, match="SIMGEN_A is 2, and the stopped run had 1; leave it"):
        run_folder.resume(made, Host(), "host", {"SIMGEN_A": "2"})
    with pytest.raises(UsageError, match="SIMGEN_B is 2, and the stopped run had none"):
        run_folder.resume(made, Host(), "host", {"SIMGEN_B": "2"})


def test_a_folder_that_never_began_is_removed_and_a_stopped_one_is_not(made):
    start = run_folder.begin(made, Host(), "host", {})
    assert start.folder.name == f".part-host.start-{platform.node()}-{os.getpid()}"
    run_folder.discard(start)
    assert not start.folder.exists()
    stop(made, {0})
    start, _ = run_folder.resume(made, Host(), "host", {})
    run_folder.discard(start)
    assert start.folder.exists()


def test_a_stopped_run_survives_a_build_that_changes_another_target(made, monkeypatch):
    from simgen.targets.cuda import Cuda

    stop(made, {0})
    stop(made, {0}, name="stopped-host@conv2", result="host@conv2")  # of which nothing is complete
    again = build(made.path, made.workload, Cuda())
    assert set(again.targets) == {"host", "cuda"}
    for name in ("host", "host@conv2"):
        assert run_folder.stopped(again, name) == made.path / f"results/stopped-{name}"


@pytest.mark.parametrize("launcher", ["hip", "dnnmark"])
def test_what_a_launcher_cannot_keep_is_not_asked_of_it(launcher):
    target = Gem5Se(launcher=launcher)
    with pytest.raises(UsageError, match=r"--keep: gem5-se: .* runs all layers; build "):
        runs.check(RunChoices(options={"keep": "yes"}), target)
    runs.check(RunChoices(options={"keep": "no"}), target)
    runs.check(RunChoices(options={"keep": "yes"}), Gem5Se())


# ------------------------------------------------------------------ damage


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"finished": 4}, "finished: expected an object, got 4"),
        ({"finished": {"0": {"seconds": "x"}}}, "expected float, got 'x'"),
        ({"finished": {"0": {"seconds": -1}}}, "not from 0"),
        ({"finished": {"x": {}}}, "'x' is not a launch of the workload"),
        ({"finished": {"99": {}}}, "'99' is not a launch of the workload"),
        ({"steps": []}, "not steps of the workload"),
        ({"steps": [99]}, "not steps of the workload"),
        ({"steps": [1, 0]}, "not steps of the workload"),
        ({"steps": [True]}, "expected int, got True"),
        ({"steps": 3}, "expected a list"),
        ({"resumed": None}, "expected a list, got None"),
        ({"settings": []}, "expected an object"),
        ({"variables": {"X": 1}}, "expected str, got 1"),
        ({"more": 1}, "expected the fields"),
    ],
)
def test_a_damaged_record_of_a_run_is_told(made, change, fact):
    folder = stop(made, {0, 1})
    told = json.loads((folder / run_record.FILE).read_text())
    (folder / run_record.FILE).write_text(json.dumps({**told, **change}))
    with pytest.raises(DamagedError, match=re.escape(fact)) as caught:
        run_record.read_run(folder, made.workload)
    assert str(caught.value).startswith(f"{folder / run_record.FILE}: damaged (Run")
    assert run_folder.stopped(made, "host") is None  # it is not gone on with
