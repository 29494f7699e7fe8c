"""The timeline that Perfetto opens: its events add up to the times of the result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from handmade import lowered

from simgen.bundle.results import Result
from simgen.bundle.writing import Bundle
from simgen.study import timeline


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
