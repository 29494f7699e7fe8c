"""The timeline that Perfetto opens: its events add up to the times of the result."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from handmade import lowered

from simgen.bundle.results import Result
from simgen.bundle.writing import Bundle
from simgen.reports.pages import timeline


def kept(events):
    """The slices that Perfetto's trace processor keeps (json_trace_tokenizer.cc, slice_tracker.cc).

    `ts` and `dur` are rounded to whole ns, each by itself, halves away from 0. By start, and the
    longer one first, what ends by then is closed; what ends after the one that it begins in is
    dropped.
    """
    found, open_ = [], {}
    for each in events:
        if each["ph"] == "X":
            start, length = (math.floor(each[key] * 1000.0 + 0.5) for key in ("ts", "dur"))
            found.append((start, -length, (each["pid"], each["tid"]), each["name"]))
    for slice_ in sorted(found, key=lambda each: each[:2]):
        start, end = slice_[0], slice_[0] - slice_[1]
        stack = open_.setdefault(slice_[2], [])
        while stack and (
            stack[-1][1] < start or (stack[-1][1] == start and not stack[-1][0] == start == end)
        ):
            stack.pop()
        if all(end <= outer for _, outer in stack):
            stack.append((start, end))
        else:
            found.remove(slice_)
    return [(name, start, -length) for start, length, _, name in found]


@pytest.fixture(name="told")
def events(tmp_path):
    bundle = Bundle(Path("net"), {}, lowered("lenet5", ("n", "2")))
    counts = [
        {"seconds": 1e-6 * (at + 1), "l1_hits": 3.0} for at in range(len(bundle.workload.launches))
    ]
    silent = Result("emu", {}, tuple({"instructions": 1.0} for _ in counts), {})
    runs = [Result("sim", {}, tuple(counts), {"inferred": [[2, 1]]}), silent]
    timeline.write(tmp_path / timeline.FILE, [("net", bundle, runs)])
    found = json.loads((tmp_path / timeline.FILE).read_text())["traceEvents"]
    return bundle.workload, counts, found


def test_each_launch_and_step_has_its_time(told):
    workload, counts, found = told
    launches = [each for each in found if each.get("cat") == "launch"]
    steps = [each for each in found if each.get("cat") == "step"]
    assert [each["name"] for each in launches] == [launch.kernel for launch in workload.launches]
    assert [each["dur"] for each in launches] == pytest.approx([1e6 * c["seconds"] for c in counts])
    assert [each["name"] for each in steps] == [f"{s.layer} {s.direction}" for s in workload.steps]
    whole = sum(1e6 * each["seconds"] for each in counts)
    assert sum(each["dur"] for each in steps) == pytest.approx(whole)
    ends = [each["ts"] + each["dur"] for each in launches]
    assert [each["ts"] for each in launches[1:]] == pytest.approx(ends[:-1])
    assert launches[0]["args"]["l1_hits"] == 3
    assert [each["args"].get("inferred") for each in launches[:4]] == [None, None, 1, None]


def test_a_run_without_times_has_no_track(told):
    _, _, found = told
    names = [each["args"]["name"] for each in found if each["name"] == "process_name"]
    assert names == ["net on sim"]


def awkward(count, clock, seed):
    """Seconds of launches: whole cycles, from none to 1e5, and a day of them, of a clock in Hz."""
    drawn = random.Random(seed)
    return [int(10 ** drawn.uniform(-1, 5)) / clock for _ in range(count - 1)] + [86400.0]


@pytest.mark.parametrize("clock", [0.3e9, 1e9, 1.132e9, 1.801e9, 2.1e9, 7.77e9])
def test_perfetto_loses_no_slice(tmp_path, clock):
    bundle = Bundle(Path("net"), {}, lowered("lenet5", ("n", "2")))
    count = len(bundle.workload.launches)
    runs = [
        Result(f"r{at}", {}, tuple({"seconds": s} for s in awkward(count, clock, at)), {})
        for at in range(20)
    ]
    timeline.write(tmp_path / timeline.FILE, [("net", bundle, runs)])
    found = json.loads((tmp_path / timeline.FILE).read_text())["traceEvents"]
    assert len(kept(found)) == len(runs) * (count + len(bundle.workload.steps))
    begun = 0.0
    launches = (e for e in found if e.get("cat") == "launch")
    for event, metrics in zip(launches, runs[0].launches):
        end = begun + 1e9 * metrics["seconds"]
        assert 1000 * event["ts"] == pytest.approx(begun, abs=0.51)
        assert 1000 * (event["ts"] + event["dur"]) == pytest.approx(end, abs=0.51)
        begun = end
