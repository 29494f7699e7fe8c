"""How far a run has come: gem5's statistics, tables of launches, and what is said of them."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from handmade import lowered, lowered_text

from simgen.cli import following
from simgen.running import time_left
from simgen.targets import launch_rows
from simgen.targets.base import Progress
from simgen.targets.gem5 import stats
from simgen.workload import costs

NET = "[Bypass]\nname=a\nn=64\nc=64\n[FullyConnected]\nname=b\nnum_output=64\nprevious_layer=a\n"
DUMP = """
---------- Begin Simulation Statistics ----------
simTicks                                 {ticks}   # Number of ticks simulated (Tick)
finalTick                                {final}   # never reset (Tick)
simFreq                            1000000000000   # ((Tick/Second))
system.cpu1.shaderActiveTicks            {active}  # (Unspecified)
system.cpu1.CUs0.numInstrExecuted        40        # (Unspecified)
system.cpu1.CUs0.wavefronts0.numInstrExecuted 40   # (Unspecified)
system.cpu1.CUs1.numInstrExecuted        2         # (Unspecified)

---------- End Simulation Statistics   ----------
"""


def dump(final: int, active: int = 5) -> str:
    return DUMP.format(ticks=final // 2, final=final, active=active)


def test_statistics_are_followed_as_they_grow(tmp_path):
    path = tmp_path / stats.FILE
    follower = stats.StatsFollower(path)
    follower.update()
    assert (follower.kernels, follower.seconds, follower.instructions) == (0, 0.0, 0.0)
    text = dump(2_000_000) + dump(3_000_000, active=0) + dump(8_000_000)
    seen = []
    for cut, end in pairwise([0, *range(7, len(text), 97), len(text)]):
        with path.open("a") as file:
            file.write(text[cut:end])
        follower.update()
        seen.append(follower.kernels)
    assert seen == sorted(seen)
    assert (follower.kernels, follower.seconds) == (2, 8e-6)
    assert follower.instructions == 3 * 42
    assert len(stats.kernels(path)) == 2


def test_a_table_of_launches_counts_whole_lines(tmp_path):
    look = launch_rows.watch(tmp_path)
    assert look() == Progress(0)
    path = tmp_path / launch_rows.FILE
    path.write_text("kernel,host_seconds,seconds,cycles,instructions\na,1,2e-6,5,10\nb,1,3e-6,")
    assert look() == Progress(1, 2e-6, 10.0)
    path.write_text("kernel,host_seconds,instructions\na,1,10\nb,1,20\n")
    assert look() == Progress(2, None, 30.0)
    path.write_text("launch,kernel,seconds\n0,a,1.5\n")  # of this machine's clock
    assert look() == Progress(1, None, None)


def test_launches_count_by_their_operations():
    workload = lowered_text(NET)
    first, second = costs.weights(workload)[0], sum(costs.weights(workload)[1:])
    assert first == 2 * 64 * 64  # an element read and one written
    assert second == pytest.approx(2 * 64**3 + 64 * 64 * 3 + 64 * 64, rel=0.05)


def test_what_is_left_is_foretold_from_what_has_run():
    meter = time_left.Meter(lowered_text(NET))
    assert meter.look(Progress(0), 5.0).left is None
    done, whole = costs.weights(meter_workload := lowered_text(NET))[0], None
    whole = sum(costs.weights(meter_workload))
    found = meter.look(Progress(1, 2e-6, 100.0), 10.0)
    assert found.left == pytest.approx(10.0 * (whole - done) / done)
    assert (found.done, found.step.layer) == (1, "b")
    assert found.simulated_per_second == pytest.approx(2e-7)
    # The launch that runs takes time, which is no longer left.
    assert meter.look(Progress(1), 12.0).left == pytest.approx(found.left - 2)
    assert meter.look(Progress(1), 1e9).left is None
    last = meter.look(Progress(99), 20.0)
    assert (last.done, last.step) == (last.total, None)


def test_little_work_foretells_nothing():
    workload = lowered("vgg16")
    meter = time_left.Meter(workload)
    relu = next(at for at, s in enumerate(workload.steps) if s.layer == "relu1_1")
    assert relu == 1
    assert meter.look(Progress(1), 1.0).left is None


def test_a_line_of_progress(capsys):
    workload = lowered_text(NET)
    with following.running("gem5-se", workload, quiet=True) as follow:
        assert follow is None
    with following.running("gem5-se", workload, quiet=False) as follow:
        follow.progress(Progress(0), 1.0)
        follow.progress(Progress(1, 138e-6, 1e6), 10.0)
        follow.progress(Progress(1, 138e-6, 1e6), 11.0)
        follow.tick(25.0)
    lines = capsys.readouterr().err.splitlines()
    pattern = (
        r"gem5-se: 1 of \d launches, b fwd, 138 us simulated, 13\.8 us/s, 10 s so far, .* left"
    )
    assert re.fullmatch(pattern, lines[0])
    assert lines[1:] == ["gem5-se: 25 s"]


def test_before_the_first_launch_progress_tells_what_is_prepared(capsys):
    with following.running("mgpusim", lowered_text(NET), quiet=False) as follow:
        follow.preparing("building the simulator (first run only)", 40.0)
        follow.progress(Progress(0), 1.0)
        follow.progress(Progress(1), 11.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "mgpusim: building the simulator (first run only), 40 s so far"
    assert lines[1].startswith("mgpusim: 1 of ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3.2, "3 s"), (75, "1 min 15 s"), (3600, "1 h 00 min"), (7384, "2 h 03 min")],
)
def test_durations(seconds, text):
    assert following.duration(seconds) == text
