"""The worker processes of the host target: forked once, and gone when the run is."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from simgen.targets.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import HostBundle

    Make = Callable[..., HostBundle]

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

WHO = """
KERNEL(1, who)
{
    y[blockIdx.x] = sys(39 /* getpid */, 0, 0, 0, 0, 0, 0); // below 2^24, so exact
}
"""
DOUBLE = """
KERNEL(64, twice)
{
    __shared__ float partial[64];
    partial[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[64 * blockIdx.x + threadIdx.x] = 2 * partial[threadIdx.x ^ 1];
}
"""
NOT_WRITTEN = DOUBLE.replace("    partial[threadIdx.x] = x[threadIdx.x];\n", "").replace(
    "twice", "careless"
)
SPIN = """
KERNEL(1, spin)
{
    while (x[0] == 0)
        __asm__ volatile("" ::: "memory");
    y[0] = 0;
}
"""
KILLED = """
KERNEL(1, victim)
{
    y[0] = sys(SYS_KILL, sys(39 /* getpid */, 0, 0, 0, 0, 0, 0), 9, 0, 0, 0, 0);
}
"""
X = np.zeros(64, "f4")


def two(make: Make, kernels: dict[str, tuple[int, str]], **options: Any) -> HostBundle:
    """Each kernel once, in order; the first has two work-groups."""
    outputs = {f"a.y{at}": (128,) for at in range(len(kernels))}
    launches = [
        (name, (1 if at else 2, 1, 1), ("a.x", f"a.y{at}")) for at, name in enumerate(kernels)
    ]
    return make(kernels, launches, {"a.x": X}, outputs, **options)


@pytest.mark.parametrize("processes", [1, 3])
def test_the_same_processes_run_all_launches(host_bundle: Make, processes: int) -> None:
    outputs = {f"a.y{at}": (64,) for at in range(40)}
    launches = [("who", (64, 1, 1), ("a.x", name)) for name in outputs]
    bundle = host_bundle({"who": (1, WHO)}, launches, {"a.x": X}, outputs)
    found = {float(who) for values in bundle.good(processes).values() for who in values}
    assert 1 <= len(found) <= processes


def test_no_more_workers_than_work_groups(host_bundle: Make) -> None:
    bundle = two(host_bundle, {"who": (1, WHO), "spin": (1, SPIN)})
    process, workers = spinning(bundle, processes=16)
    assert len(workers) == 2
    process.kill()
    process.wait(timeout=60)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_its_parent(host_bundle: Make, how: signal.Signals) -> None:
    """One of them is in the middle of a kernel, the other asleep."""
    process, workers = spinning(two(host_bundle, {"who": (1, WHO), "spin": (1, SPIN)}), 2)
    process.send_signal(how)
    assert process.wait(timeout=60) == -how
    end = time.monotonic() + 60
    while any(is_alive(worker) for worker in workers):
        assert time.monotonic() < end
        time.sleep(0.01)


def spinning(bundle: HostBundle, processes: int) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A run that is in the launch that never ends, and its workers."""
    results = [bundle.path / name for name in ("out", "csv")]
    command = [bundle.program, bundle.path / "data.h5", *results, str(processes)]
    process = subprocess.Popen(command)
    children = Path("/proc", str(process.pid), "task", str(process.pid), "children")
    end = time.monotonic() + 60
    while True:
        workers = [int(text) for text in children.read_text().split()]
        if len(workers) == 2 and sum(map(processor_time, workers)) > 2:
            return process, workers
        assert time.monotonic() < end
        time.sleep(0.01)


def processor_time(process: int) -> int:
    """User time of a process, in ticks."""
    try:
        return int(Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[11])
    except OSError:
        return 0


def is_alive(process: int) -> bool:
    try:
        state = Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # a container need not have an init that collects it


def test_a_worker_that_is_killed_is_missed(host_bundle: Make) -> None:
    bundle = two(host_bundle, {"who": (1, WHO), "victim": (1, KILLED)})
    assert bundle.error() == "victim: a worker was killed by signal 9"


@pytest.mark.parametrize("sanitize", [False, True])
def test_what_fails_later_is_blamed_on_the_right_launch(host_bundle: Make, sanitize: bool) -> None:
    bad = DOUBLE.replace("twice", "bad").replace(
        "+ threadIdx.x] =", "+ (threadIdx.x == 5 ? 2048 : threadIdx.x)] ="
    )
    bundle = two(host_bundle, {"twice": (64, DOUBLE), "bad": (64, bad)}, sanitize=sanitize)
    line = bundle.error()
    assert line.startswith("bad: work-group 0, work-item 5: ")
    assert "7680 bytes past the end of buffer a.y1" in line


def test_checked_launches_know_nothing_of_those_before(host_bundle: Make) -> None:
    """LDS of an earlier launch is neither a race nor written."""
    again = {name: (64, DOUBLE.replace("twice", name)) for name in ("first", "second", "third")}
    two(host_bundle, again, sanitize=True).good(1)
    careless = {"twice": (64, DOUBLE), "careless": (64, NOT_WRITTEN)}
    bundle = two(host_bundle, careless, sanitize=True, folder="careless")
    assert "careless: work-group 0, work-item 0: reads LDS before it is written" in bundle.error()
