"""Runs of the host target that are ended in the middle and go on; runs of some layers."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from interrupting import command, finished, go_on, outputs, stop
from network_bundles import TRAINING, built

import simgen
from simgen.bundle import result_names, results
from simgen.bundle import writing as bundles
from simgen.ground.ir import Pass
from simgen.running import process as launch
from simgen.running import run_folder, selection
from simgen.targets.host import Host
from simgen.tensors import data_file as data
from simgen.tensors import state_file
from simgen.verdict import diff

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.bundle.writing import Bundle

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)
TIMEOUT = 300.0


@pytest.fixture(scope="module", name="made")
def trained_network(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """LeNet-5, trained on 64 pictures: seconds on one process, in 20 steps and more."""
    return lenet(tmp_path_factory.mktemp("host") / "net", 64)


def lenet(path: Path, samples: int) -> Bundle:
    plan = simgen.plan("lenet5", set={"n": samples}, passes=TRAINING)
    return built(path, plan, Host())


@pytest.fixture(scope="module", name="whole")
def uninterrupted(made: Bundle) -> bytes:
    launch.run(made, "host", timeout=TIMEOUT)
    return outputs(made, "host")


def passes(made: Bundle, name: str) -> bool:
    folder = made.results(name)
    assert folder
    result = results.collect(made, Host(), folder, name)
    inputs = data.load(made.path / bundles.DATA, made.workload)
    return diff.diff(made.workload, inputs, result, None).passed


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_run_that_is_ended_goes_on_to_the_same_bits(
    made: Bundle, whole: bytes, how: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMGEN_PROCESSES", "1")
    told = stop(made, "host", 3, how)
    assert "go on after the last finished layer with: simgen run" in told
    assert "--on host --resume" in told
    said = go_on(made, "host")
    assert f" of {len(made.workload.launches)} launches\n" in said
    assert outputs(made, "host") == whole
    folder = made.path / "results/host"
    result = results.collect(made, Host(), folder)
    assert all(each["seconds"] > 0 for each in result.launches)
    assert 3 <= result.provenance["resumed"][0] < len(result.launches)
    assert not (folder / state_file.FILE).exists()
    left = {path.name for path in (made.path / "results").iterdir()}
    assert "host" in left
    assert not {name for name in left if name.startswith((bundles.STOPPED, ".part-"))}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_a_program_that_is_ended_ends_its_run(made: Bundle, how: signal.Signals) -> None:
    """A signal to a program of somebody's own, which heeds no signals."""
    text = f"import simgen; simgen.load({str(made.path)!r}).run('host', replace=True)"
    program = subprocess.Popen([sys.executable, "-c", text])
    while not finished(made, "host"):
        assert program.poll() is None, "the run was over too soon"
        time.sleep(0.001)
    program.send_signal(how)
    assert program.wait(timeout=TIMEOUT) == 128 + how
    assert run_folder.stopped(made, "host"), "which is refused while its processes have locks"
    go_on(made, "host")


def crash(made: Bundle) -> None:
    """Run the first step: the file of what layers leave may not grow beyond its tensors."""
    planned = made.workload
    end = max(each.offset + each.nbytes for each in planned.left if each.step == 0)
    most = state_file.head_nbytes(planned) + end - planned.state_offset
    done = subprocess.run(
        command(made, "host"),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )
    assert done.returncode == 3
    assert "state.bin: cannot be written; check the space on the disk" in done.stderr
    assert run_folder.stopped(made, "host")


def test_a_crash_can_be_continued_too(made: Bundle, whole: bytes) -> None:
    crash(made)
    go_on(made, "host")
    assert outputs(made, "host") == whole


def test_the_time_of_a_launch_is_written_once(made: Bundle, tmp_path: Path) -> None:
    """Not a whole file after each step: that is the square of the layers."""
    pipe = tmp_path / "launches.csv"
    os.mkfifo(pipe)
    program, data_file = made.path / "host" / made.workload.name, made.path / bundles.DATA
    results = [tmp_path / "out", pipe, "", tmp_path / "state"]
    process = subprocess.Popen([program, data_file, *results])
    lines = pipe.read_text().splitlines()
    assert process.wait(timeout=TIMEOUT) == 0
    assert lines[0] == "launch,kernel,seconds"
    found = [line.rpartition(",")[0] for line in lines[1:]]
    assert found == [f"{at},{each.kernel}" for at, each in enumerate(made.workload.launches)]


@pytest.fixture(scope="module", name="small")
def few_pictures(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """With a whole result."""
    made = lenet(tmp_path_factory.mktemp("host") / "small", 3)
    launch.run(made, "host", timeout=TIMEOUT)
    return made


@pytest.mark.parametrize("source", [None, "host"])
def test_some_layers_run_by_themselves(small: Bundle, source: str | None) -> None:
    made = small
    text = "conv2..ip1"
    steps = selection.selected(made.workload, text)
    assert {made.workload.steps[at].direction for at in steps} >= {Pass.FORWARD}
    name = result_names.of_run("host", {}, [text])
    folder = made.results("host") if source else None
    read = results.collect(made, Host(), folder) if folder else None
    start = run_folder.begin(
        made, Host(), name, {}, steps, layers=text, inputs=source or "reference"
    )
    selection.prepare(start, made, read)
    launch.run(made, "host", start=start, timeout=TIMEOUT)
    assert passes(made, name)
    result = results.collect(made, Host(), made.path / "results" / name, name)
    ran = {name for at in steps for _, name in made.workload.steps[at].writes}
    given = {
        n
        for at in selection.writers_before(made.workload, steps)
        for _, n in made.workload.steps[at].writes
    }
    for tensor, output in result.outputs.items():
        untouched = output.untouched == output.values.size
        assert untouched is (tensor not in ran | given), tensor
        assert output.guard_intact
    if source:  # the same inputs give the same bits
        want = results.collect(made, Host(), made.path / "results/host")
        for tensor in ran:
            np.testing.assert_array_equal(
                result.outputs[tensor].values, want.outputs[tensor].values, err_msg=tensor
            )


def test_a_network_that_reuses_memory_goes_on(tmp_path: Path) -> None:
    plan = simgen.plan("lenet5", set={"n": 4}, reuse_memory=True)
    made = built(tmp_path / "net", plan, Host())
    launch.run(made, "host", timeout=TIMEOUT)
    whole = outputs(made, "host")
    crash(made)
    go_on(made, "host")
    assert outputs(made, "host") == whole


def test_a_checked_run_goes_on(tmp_path: Path) -> None:
    made = built(tmp_path / "net", simgen.plan("lenet5"), Host(sanitize=True))
    crash(made)
    go_on(made, "host")
    assert passes(made, "host")
