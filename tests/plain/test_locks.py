"""Who may work in a bundle at once; nobody who was killed is in the way."""

from __future__ import annotations

import contextlib
import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from command_line import process
from handmade import build, lowered, run_by_hand, small, tree

import simgen
from simgen.bundle import result_folders
from simgen.bundle import writing as bundles
from simgen.errors import DamagedError, RefusedError
from simgen.ground.storage import files, locks, seal
from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache
from simgen.running import run_folder
from simgen.targets.cuda import Cuda
from simgen.tensors import state_file

HOLDER = """
import sys
from pathlib import Path
from simgen.ground.storage import locks
how, bundle = sys.argv[1], Path(sys.argv[2])
with {"run": lambda: locks.running(bundle, bundle / "results", "cuda"),
      "diff": lambda: locks.reading(bundle)}[how]():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(name="made")
def made_bundle(tmp_path):
    return build(tmp_path / "net", small())


@contextlib.contextmanager
def holding(how, bundle):
    """Another process that runs the bundle's cuda target, or compares."""
    words = [sys.executable, "-c", HOLDER, how, str(bundle)]
    root = str(Path(__file__).resolve().parents[2])
    with subprocess.Popen(
        words, stdin=-1, stdout=-1, text=True, env={**os.environ, "PYTHONPATH": root}
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        yield holder
        holder.stdin.close()


def running(made, name="cuda"):
    return locks.running(made.path, made.path / "results", name)


def test_a_second_run_of_a_result_is_refused_and_one_of_another_is_not(made):
    with holding("run", made.path) as holder:
        with (
            pytest.raises(
                RefusedError, match=rf"on cuda is under way \(process {holder.pid}\); wai"
            ),
            running(made),
        ):
            pass
        with running(made, "cuda@repeats=2"):
            assert locks.is_running(made.path / "results", "cuda@repeats=2")
    with running(made) as handles:
        assert len(handles) == 2
    assert os.listdir(made.path / "results") == []


def test_who_was_killed_holds_nothing(made):
    with holding("run", made.path) as holder:
        holder.kill()
        holder.wait()
        assert os.listdir(made.path / "results") == [".lock-cuda"]
        with running(made):
            pass
        build(made.path, small(seed=1))


@pytest.mark.parametrize("how", ["run", "diff"])
def test_a_bundle_in_use_is_not_replaced_and_can_be_added_to(made, how):
    run_by_hand(made)
    before = tree(made.path)
    with holding(how, made.path) as holder:
        with pytest.raises(
            RefusedError, match=rf"in use .* \(process {holder.pid}\); wait until it ends"
        ):
            build(made.path, small(seed=1), replace_results=True)
        after = {n: c for n, c in tree(made.path).items() if locks.RESULT not in n}
        assert after == before
        assert set(build(made.path, small(), Cuda(), other()).targets) == {"cuda", "other"}
        assert build(made.path, small(), Cuda(), other()).results("cuda")
    assert not build(made.path, small(seed=1), replace_results=True).ran()


def other():
    """A second target that needs no compiler."""
    from test_bundle import Other

    return Other()


def test_without_locks_all_goes_on(made, monkeypatch):
    def none(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", none)
    with running(made), running(made), locks.reading(made.path):
        pass
    build(made.path, small(seed=1))


def test_a_lock_of_a_file_that_was_replaced_is_taken_again(made):
    """A build that waits for another one's manifest gets the new one's lock."""
    with locks.adding(made.path):
        inode = (made.path / "manifest.json").stat().st_ino
        got = []

        def wait():
            with locks.adding(made.path):
                got.append((made.path / "manifest.json").stat().st_ino)

        waiting = threading.Thread(target=wait)
        waiting.start()
        files.write_atomic(made.path / "manifest.json", (made.path / "manifest.json").read_bytes())
    waiting.join(timeout=30)
    assert got == [(made.path / "manifest.json").stat().st_ino]
    assert got != [inode]


# ------------------------------------------------------------------ builds at once


def one_build(path, target, seed, barrier):
    barrier.wait()
    bundles.write(path, small(seed=seed), (target,), Builder(Cache(path.parent / "c")), PROVENANCE)


PROVENANCE = {"simgen": "0", "config": {}}


@pytest.mark.parametrize("there", [False, True])
def test_builds_at_once_add_up(tmp_path, there):
    fork = multiprocessing.get_context("fork")
    for attempt in range(4):
        path = tmp_path / str(attempt)
        if there:
            run_by_hand(build(path, small(), other()), target="other")
        barrier = fork.Barrier(3)
        targets = (Cuda(), Cuda(), other())
        team = [fork.Process(target=one_build, args=(path, t, 0, barrier)) for t in targets]
        for each in team:
            each.start()
        for each in team:
            each.join(60)
        assert [each.exitcode for each in team] == [0, 0, 0]
        made = bundles.load(path)
        assert set(made.targets) == {"cuda", "other"}
        for target in made.targets:
            bundles.verify(made, target)
        bundles.verify_values(made)
        assert made.has("other") is there
    assert not [name for name in os.listdir(tmp_path) if name.startswith(files.PART)]


def planned_build(path, targets, barrier):
    barrier.wait()
    simgen.plan("softmax_fwd", set={"n": 2}).build(path, targets=targets)


def test_builds_at_once_that_are_planned_for_different_machines_add_up(tmp_path, monkeypatch):
    """The first one's plan is all targets' plan; before, the last to end replaced the others'."""
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path / "cache"))
    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier(2)
    names = ("cuda", "null")
    for attempt in range(4):
        path = tmp_path / str(attempt)
        team = [fork.Process(target=planned_build, args=(path, [n], barrier)) for n in names]
        for each in team:
            each.start()
        for each in team:
            each.join(60)
        assert [each.exitcode for each in team] == [0, 0]
        assert set(bundles.load(path).targets) == set(names)


def test_a_build_that_is_overtaken_keeps_what_came_first(made, monkeypatch):
    """Another build adds its target after this one has looked."""
    digests, came = bundles._digests, []

    def overtaken(found):
        if not came:
            came.append(1)
            build(made.path, small(), Cuda(), other())
        return digests(found)

    monkeypatch.setattr(bundles, "_digests", overtaken)
    again = build(made.path, small(), other())
    assert set(again.targets) == {"cuda", "other"}


def test_a_result_that_comes_while_a_build_is_made_is_not_lost(made, monkeypatch):
    written = bundles.data_file.write_data

    def late(*words, **named):
        run_by_hand(made)
        return written(*words, **named)

    monkeypatch.setattr(bundles.data_file, "write_data", late)
    with pytest.raises(RefusedError, match="results of cuda would be lost, because the workload"):
        build(made.path, small(seed=1))
    assert made.has("cuda")


# ------------------------------------------------------------------ what is worth keeping


def test_stopped_and_killed_runs_are_kept_and_not_lost_without_a_word(tmp_path):
    made = build(tmp_path / "net", lowered("lenet5"))
    names = ("stopped-cuda", f"{files.PART}cuda@repeats=2.{2**22 + 1}")
    for name in names:
        folder = made.path / "results" / name
        folder.mkdir(parents=True)
        marks = [
            state_file.Mark.FINISHED,
            *[state_file.Mark.TO_RUN] * (len(made.workload.steps) - 1),
        ]
        state_file.write(folder / state_file.FILE, made.workload, bytes(32), marks, {})
    idle = made.path / "results" / f"{files.PART}cuda.{2**22 + 2}"
    idle.mkdir()
    (made.path / "results/notes.txt").write_text("mine")
    (made.path / "src/prelude.h").unlink()  # so that the folder is replaced
    build(made.path, lowered("lenet5"))
    assert sorted(os.listdir(made.path / "results")) == sorted([*names, "notes.txt"])
    told = "results of notes.txt, a stopped run of cuda"
    with pytest.raises(RefusedError, match=r"a stopped run of cuda(@repeats=2)?, .* would be lost"):
        build(made.path, small())
    assert told.split(", ")[0] in result_folders.listing(list(result_folders.entries(made.path)))


def test_a_damaged_manifest_does_not_cost_results(made):
    run_by_hand(made)
    manifest = json.loads((made.path / "manifest.json").read_text())
    (made.path / "manifest.json").write_text(json.dumps({**manifest, "name": "x"}))
    with pytest.raises(
        RefusedError, match=r"because its manifest\.json is damaged; choose another"
    ):
        build(made.path, small())
    (made.path / "manifest.json").write_text("{")
    with pytest.raises(DamagedError, match="into another folder with -o, and move results/"):
        bundles.load(made.path)


@pytest.mark.parametrize("name", ["cuda.{}", "cuda.{}.old"])
def test_a_result_whose_run_was_killed_while_it_took_its_place_gets_its_name(made, name):
    folder = run_by_hand(made)
    seal.write(folder, made.digest)
    part = folder.with_name(f"{files.PART}{name}".format(2**22 + 1))
    folder.rename(part)
    with bundles.opened(made.path) as found:
        assert found.results("cuda") == folder
    folder.rename(folder.with_name(f"{files.PART}{name}".format(os.getpid())))
    with bundles.opened(made.path) as found:  # its run goes on
        assert found.results("cuda") is None


def test_interrupting_a_run_leaves_no_lock(made, tmp_path):
    """Ctrl-C while simgen waits for a build that replaces the bundle."""
    with locks.replacing(made.path):
        waiting = process("diff", str(made.path), stderr=subprocess.PIPE)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(timeout=1.5)
        waiting.send_signal(signal.SIGINT)
        _, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 130, err
    assert run_folder.stopped(made, "cuda") is None


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "no")])
def test_what_ends_the_wait_for_a_lock_is_told_and_leaves_no_file_open(
    tmp_path, monkeypatch, error
):
    def ended(handle, how):
        raise error

    monkeypatch.setattr(locks.fcntl, "flock", ended)
    opened = len(os.listdir("/proc/self/fd"))
    with pytest.raises(type(error)) as caught:
        locks._locked(tmp_path / "lock", locks.fcntl.LOCK_EX, make=True)
    assert caught.value is error
    assert len(os.listdir("/proc/self/fd")) == opened
