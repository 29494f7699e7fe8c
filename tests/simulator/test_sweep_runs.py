"""Sweeps over real simulators: points, what they are judged by, failures and interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gem5_here
import pytest
from loaded import program

from simgen import api
from simgen.targets.gem5 import stats
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.mgpusim.target import MGPUSim

ROOT = Path(__file__).resolve().parents[2]
no_mgpusim, no_gem5 = MGPUSim().needs.missing(), Gem5Se().needs.missing()
mgpusim = pytest.mark.skipif(bool(no_mgpusim), reason=" | ".join(map(str, no_mgpusim)))
gem5 = pytest.mark.skipif(bool(no_gem5), reason=" | ".join(map(str, no_gem5)))
TIMEOUT = 1200


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "simgen", *words]


def simgen(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program(), *words], cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT
    )


def build(place: Path, target: str, *settings: str) -> None:
    words = [word for each in settings for word in ("--set", each)]
    if target == "gem5-se":
        words += ["--gem5-version", gem5_here.VERSION, "--arch", gem5_here.ARCHS[0]]
    done = simgen("build", "activation_fwd", "-t", target, *words, "-o", "net", "-q", cwd=place)
    assert done.returncode == 0, done.stderr


def judged(place: Path) -> list[dict[str, Any]]:
    done = simgen("diff", "net", "--json", cwd=place)
    pairs: list[dict[str, Any]] = json.loads(done.stdout)["pairs"]
    assert all(pair["verdict"] == "same" for pair in pairs)
    return pairs


@mgpusim
def test_gpus_that_do_not_divide_the_batch_fail_and_the_others_are_right(place: Path):
    build(place, "mgpusim", "n=4", "c=3", "h=8", "w=8")
    words = ("run", "net", "--on", "mgpusim", "--sweep", "gpus=1,2,3")
    done = simgen(*words, cwd=place)
    assert done.returncode == 5
    assert "failed: mgpusim@gpus=3: " in done.stderr
    names = [pair["a"] for pair in judged(place) if pair["b"] == "reference"]
    assert names == ["mgpusim@gpus=1", "mgpusim@gpus=2"]
    assert "3 points, 2 done before" in simgen(*words, cwd=place).stdout


@mgpusim
def test_settings_of_the_build_and_of_the_run_are_swept_together(place: Path) -> None:
    sizes = {"n": 2, "c": 2, "h": 6, "w": 6, "num_output": 2, "kernel_size": 3}
    made = api.plan("conv_fwd", set=sizes).build(place / "net", "mgpusim")
    grid = {"algo": ["direct", "winograd"], "gpus": [1, 2]}
    found = made.sweep("mgpusim", grid, timeout=TIMEOUT)
    assert list(found) == [
        f"mgpusim@algo={algo},gpus={gpus}" for algo in ("direct", "winograd") for gpus in (1, 2)
    ]
    beside = sorted(place.glob("net@*"))
    assert [len(api.load(path).ran) for path in beside] == [2, 2]
    assert all(api.load(path).diff(strict=True) for path in beside)


@gem5
@pytest.mark.gem5
def test_points_on_gem5_are_right_and_their_times_are_those_of_their_hardware(place: Path):
    build(place, "gem5-se", "n=2", "c=8", "h=16", "w=16")
    grid = ("--sweep", "num_compute_units=1,4", "--sweep", "gpu_clock=500MHz,1GHz")
    done = simgen("run", "net", "--on", "gem5-se", *grid, cwd=place)
    assert done.returncode == 0, done.stderr
    pairs = judged(place)
    assert len(pairs) == 4 + 3  # with the reference, and with the first point
    done = simgen("report", "net", "-o", "out", "-q", cwd=place)
    assert done.returncode == 0, done.stderr
    page = (place / "out/report.html").read_text()
    assert "Time against num_compute_units: gem5-se" in page
    ticks = {}
    for folder in sorted((place / "net/results").glob("gem5-se@*")):
        options = folder.name.partition("@")[2].split(",")
        log = (folder / "log.txt").read_text()
        assert all(f"simgen: option: --{each.replace('_', '-')}" in log for each in options)
        ticks[tuple(options)] = stats.kernels(folder / stats.FILE)[0]["seconds"]
    slow, fast = "gpu_clock=500MHz", "gpu_clock=1GHz"
    for units in ("num_compute_units=1", "num_compute_units=4"):
        assert ticks[units, slow] > ticks[units, fast]


@gem5
@pytest.mark.gem5
def test_hardware_too_small_for_a_work_group_is_one_failed_point(place: Path):
    build(place, "gem5-se", "n=1", "c=4", "h=8", "w=8")
    grid = ("--sweep", "vreg_file_size=1,2048")
    done = simgen("run", "net", "--on", "gem5-se", *grid, cwd=place)
    assert done.returncode == 5
    assert "failed: gem5-se@vreg_file_size=1: " in done.stderr
    assert "a work-group needs" in done.stderr
    assert (place / "net/results/gem5-se@vreg_file_size=2048/complete").exists()


@gem5
@pytest.mark.gem5
def test_an_interrupted_sweep_goes_on_by_the_same_command(place: Path):
    build(place, "gem5-se", "n=2", "c=8", "h=16", "w=16")
    words = ("run", "net", "--on", "gem5-se", "--sweep", "num_compute_units=1,2,4")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command(*words), cwd=place, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        # A shell starts what runs in its background with the signal ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    first = place / "net/results/gem5-se@num_compute_units=1/complete"
    while not first.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert "points left; the same command continues" in err
    before = first.stat().st_mtime_ns
    done = simgen(*words, cwd=place)
    assert done.returncode == 0, done.stderr
    assert first.stat().st_mtime_ns == before
    assert len([pair for pair in judged(place) if pair["b"] == "reference"]) == 3
