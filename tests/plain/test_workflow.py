"""A sweep's file, the jobs and requests that it becomes, and what is said where they fail."""

from __future__ import annotations

import importlib.machinery
import json
import subprocess
import sys
import types

import pytest
from click.testing import CliRunner

from simgen.ask.build import BuildChoices
from simgen.ask.run import RunChoices
from simgen.bundle.planning import Plan, chosen_targets
from simgen.cli import main
from simgen.errors import (
    ConfigError,
    DamagedError,
    MissingError,
    RefusedError,
    RunError,
    UsageError,
)
from simgen.ground.storage import locks
from simgen.running import pieces as cuts
from simgen.running.workflow import engine, executors, jobs, planning, sweep_spec, writing
from simgen.running.workflow.executors import Executor

SPEC = """
workloads = ["lenet5", "softmax_fwd"]
targets = ["mgpusim", "host"]
pieces = "representatives"
jobs = 3

[build]
n = [1, 2]
seed = 7

[run]
num_compute_units = [32, 64]

[run.mgpusim]
mode = "timing"
"""


def made(text, tmp_path, container=""):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    spec = sweep_spec.read_spec(path)
    return planning.of_spec(spec, container)


@pytest.fixture(scope="module", name="workflow")
def of_two_workloads(tmp_path_factory):
    return made(SPEC, tmp_path_factory.mktemp("spec"))


def test_lists_are_swept_and_each_combination_is_a_bundle_or_a_point(workflow):
    homes = [each.path for each in workflow.bundles.values()]
    assert homes == [f"bundles/{name}@n={n}" for name in ("lenet5", "softmax_fwd") for n in (1, 2)]
    build = workflow.bundles["lenet5-n-1"].build
    assert build == "lenet5 --target mgpusim --target host --set n=1 --seed 7"
    of_first = [each for each in workflow.points.values() if each.bundle == "lenet5-n-1"]
    assert [each.result for each in of_first] == [
        "mgpusim@mode=timing,num_compute_units=32,representatives",
        "mgpusim@mode=timing,num_compute_units=64,representatives",
        "host@representatives",
    ]
    assert of_first[2].run == ("--on host --representatives --jobs 3 --warm previous --unless-done")
    assert len(workflow.points) == 4 * 3


def test_a_piece_is_a_job_that_asks_for_what_is_foretold(workflow):
    point = next(iter(workflow.points.values()))
    targets = chosen_targets(["mgpusim"], {})
    plan = Plan("lenet5", BuildChoices(set={"n": 1}), targets)
    _, expected = cuts.plan(plan.workload, RunChoices(representatives=True, jobs=3))
    assert len(point.pieces) == len(expected) > 1
    assert min(point.pieces) > jobs.LEAST_MINUTES
    (target,) = targets
    least = target.needs.memory_nbytes(plan.workload) / jobs.MIB + jobs.SIMGEN_MIB
    assert point.memory_mb >= least
    host = workflow.points["lenet5-n-1.host-representatives"]
    assert set(host.pieces) == {jobs.UNKNOWN_MINUTES}


def test_parts_of_networks_are_points_of_their_own(tmp_path):
    text = (
        'workloads = ["lenet5"]\ntargets = ["host"]\npieces = "all"\nlayers = ["conv1", "ip1..ip2"]'
    )
    found = made(text, tmp_path)
    assert [each.result for each in found.points.values()] == [
        "host@conv1,pieces", "host@ip1..ip2,pieces",
    ]  # fmt: skip


def test_the_folder_is_read_back_and_not_overwritten_with_another_build(workflow, tmp_path):
    folder = tmp_path / "w"
    writing.write(folder, workflow, Executor("local"), 2)
    assert writing.read_workflow(folder) == workflow
    (folder / "bundles/lenet5@n=1/results").mkdir(parents=True)
    writing.write(folder, workflow, Executor("local"), 2)
    other = made(SPEC.replace("seed = 7", "seed = 8"), tmp_path)
    with pytest.raises(RefusedError, match=r"of another build.*lenet5@n=1.*; write this one else"):
        writing.write(folder, other, Executor("local"), 2)
    (folder / "workflow.json").write_text("{}")
    result = CliRunner().invoke(
        main.cli, ["sweep", str(tmp_path / "sweep.toml"), "-o", str(folder), "--workflow-only"]
    )
    assert "damaged" in str(result.exception)


def test_the_profile_leaves_to_the_users_what_that_may_say(workflow):
    slurm = Executor("slurm", settings=executors.BY_QUEUE)
    own = writing.profile(slurm, 40, workflow)
    assert (own["jobs"], own["retries"], own["slurm-status-command"]) == (40, 2, "squeue")
    beside = writing.profile(Executor("slurm", "theirs"), 40, workflow)
    assert not {"jobs", "retries", "latency-wait"} & beside.keys()


def test_an_executor_whose_jobs_share_no_folder_is_refused(monkeypatch):
    """A plugin says so itself, as Snakemake's interface has it."""
    for name, shares in (("kubernetes", None), ("far", False), ("near", True)):
        module = types.ModuleType(f"snakemake_executor_plugin_{name}")
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
        module.common_settings = types.SimpleNamespace(implies_no_shared_fs=not shares)
        if shares is not None:
            monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(sys.modules, "snakemake", module)
        if shares:
            assert executors.find(name) == Executor(name)
            continue
        with pytest.raises(UsageError, match=f"{name}: its jobs do not see this folder; use local"):
            executors.find(name)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (("workloads", "workload"), "did you mean workloads"),
        (('targets = ["mgpusim", "host"]', ""), "it names no targets"),
        (('"mgpusim"', '"mgpusin"'), "did you mean mgpusim"),
        (("jobs = 3", "jobs = 0"), "jobs"),
        (('"representatives"', '"representative"'), "did you mean representatives"),
        (('pieces = "representatives"', 'layers = ["conv1"]'), "layers run by pieces"),
        (("num_compute_units", "num_compute_unit"), "did you mean num_compute_units"),
        (("[32, 64]", "[]"), "not a value, nor a list"),
        (("[run.mgpusim]", "[run.gem5-se]"), "not a target"),
        (("n = [1, 2]", 'type = ["f32", "../x"]'), "../x"),
        (("seed = 7", "output = 7"), "the sweep gives it"),
        (("seed = 7", "fuse = 7"), "write true or false"),
        (('"lenet5", ', '"softmax_fwd", '), "two bundles would be called softmax_fwd@n=1"),
        (("[build]", "[build"), "not TOML"),
    ],
)
def test_what_a_file_cannot_say_is_told_in_a_line(change, fact, tmp_path):
    with pytest.raises((ConfigError, UsageError)) as error:
        made(SPEC.replace(*change), tmp_path)
    assert fact in str(error.value).replace("'", "")
    assert "\n" not in str(error.value)


def test_executors_that_are_not_here_are_told_with_their_cure(monkeypatch):
    with pytest.raises(UsageError, match="not a name"):
        executors.find("Slurm!")
    assert executors.find("lsf", starts=False).name == "lsf"
    monkeypatch.setattr(executors.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        MissingError, match="Snakemake is not installed; python -m pip install snakemake snake"
    ):
        executors.find("local")
    monkeypatch.setattr(
        executors.importlib.util, "find_spec", lambda name: name if name == "snakemake" else None
    )
    with pytest.raises(MissingError, match="pip install snakemake-executor-plugin-slurm"):
        executors.find("slurm")
    with pytest.raises(MissingError, match=r"not installed; .*did you mean .slurm"):
        executors.find("slurmm")
    monkeypatch.setattr(executors.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingError, match="no sbatch on PATH"):
        executors.find("slurm")


PRINTED = """\
Error in rule piece:
    jobid: 3
    log: logs/pieces/p/1.log, /x/.snakemake/slurm_logs/7.log (check log file(s) for error details)
Error in rule piece:
    log: logs/pieces/p/2.log (check log file(s) for error details)
"""


POINT = jobs.JobPoint("b", "r", "", 1, 1, (1, 1))
SMALL = jobs.Workflow("", "", jobs.RESULTS, False, "", {"b": jobs.JobBundle("b", "", "", 1)},
                      {"p": POINT})  # fmt: skip


def failure(folder, printed=PRINTED, tell=lambda _: None):
    seen = engine._Seen(folder, tell)
    for line in printed.splitlines(keepends=True):
        seen.take(line)
    return engine._failure(folder, SMALL, seen)


def test_why_jobs_failed_is_said_in_one_line(tmp_path):
    assert "do not see this folder" in str(failure(tmp_path))
    logs = tmp_path / "logs/pieces/p"
    logs.mkdir(parents=True)
    (logs / "1.log").write_text("simgen: error: host: it needs more; give it more\n")
    told = failure(tmp_path)
    assert isinstance(told, RunError)
    assert "2 jobs failed: pieces/p/1: host: it needs more; give it more" in str(told)
    done = tmp_path / "done/pieces/p"
    done.mkdir(parents=True)
    (done / "1").touch()  # by a later try
    (logs / "2.log").write_text("OSError: [Errno 28] No space left on device\n")
    assert isinstance(failure(tmp_path), MissingError)
    refused = PRINTED + (
        "    message: SLURM sbatch failed. The error message was 'sbatch: error: Memory\n"
        "sbatch: error: Requested node configuration is not available'.\n"
    )
    (logs / "1.log").unlink()
    (logs / "2.log").unlink()
    assert "SLURM does not take the jobs (sbatch: error: Requested node" in str(
        failure(tmp_path, refused)
    )
    locked = failure(tmp_path, "LockException:\nError: Directory cannot be locked. Please make\n")
    assert isinstance(locked, RefusedError)


def test_logs_of_jobs_that_have_not_ended_well_are_not_read_again(tmp_path):
    result = tmp_path / "b/results/r"
    for path in (
        "logs/ran/b/r.log",
        "logs/judged/b/r.log",
        "logs/pieces/p/1.log",
        "b/results/r/complete",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("simgen: error: of the last time\n")
    engine._forget(tmp_path, SMALL)
    left = [each.name for each in (tmp_path / "logs").rglob("*.log")]
    assert sorted(left) == ["1.log", "r.log"]
    (result / "complete").unlink()
    engine._forget(tmp_path, SMALL)
    assert not list((tmp_path / "logs").rglob("*.log"))


def test_marks_of_pieces_that_are_gone_are_taken_back(tmp_path):
    mark = tmp_path / "done/pieces/p/1"
    kept = tmp_path / "b/results/stopped-r"
    kept.mkdir(parents=True)
    mark.parent.mkdir(parents=True)
    mark.touch()
    engine._forget(tmp_path, SMALL)
    assert mark.exists()
    kept.rmdir()
    engine._forget(tmp_path, SMALL)
    assert not mark.exists()


@pytest.mark.parametrize("change", ["twice", "nowhere", "place"])
def test_points_are_of_bundles_and_have_results_of_their_own(workflow, tmp_path, change):
    writing.write(tmp_path, workflow, Executor("local"), 2)
    told = json.loads((tmp_path / "workflow.json").read_text())
    one, *others = told["points"].values()
    if change == "twice":
        others[0].update(bundle=one["bundle"], result=one["result"])
    elif change == "nowhere":
        one["bundle"] = "\x1b[31m"
    else:
        told["bundles"]["other"] = next(iter(told["bundles"].values()))
    (tmp_path / "workflow.json").write_text(json.dumps(told))
    with pytest.raises(DamagedError, match=r"stands in it twice|no bundle '\\x1b\[31m'"):
        writing.read_workflow(tmp_path)


def test_what_a_killed_snakemake_has_locked_is_unlocked(workflow, tmp_path, monkeypatch):
    """But not while somebody works there, nor what somebody else has left."""
    held = tmp_path / engine.LOCKS / "0.input.lock"
    seen = []
    monkeypatch.setattr(engine, "_run", lambda folder, *_: seen.append(held.exists()))
    held.parent.mkdir(parents=True)
    for killed, works in ((False, False), (True, True), (True, False)):
        held.parent.mkdir(parents=True, exist_ok=True)
        held.touch()
        if killed:
            (tmp_path / locks.WORK).touch()
        script = "import time; print(flush=True); time.sleep(600)"
        process = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path if works else "/",
                                   stdout=subprocess.PIPE)  # fmt: skip
        with process:
            process.stdout.readline()
            engine.run(tmp_path, workflow, None, print)
            process.kill()
    assert seen == [True, True, False]
    with locks.working(tmp_path), pytest.raises(RefusedError, match="another snakemake works"):
        engine.run(tmp_path, workflow, None, print)
