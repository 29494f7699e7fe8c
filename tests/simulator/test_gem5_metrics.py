"""What gem5 counts, in the shared vocabulary: relations that hold on its default machine."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

import simgen
from simgen.ground import metrics
from simgen.reports.pages import page, trace
from simgen.targets.gem5.se import Gem5Se

lacks = Gem5Se().needs.missing()
pytestmark = [
    pytest.mark.gem5,
    pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks))),
]

TEXT = """
[Pooling]
name=pool
n=1
c=4
h=16
w=16
[Softmax]
name=softmax
previous_layer=pool
"""
UNITS, SLOTS = 4, 40  # compute units; wavefronts that one of them holds
LINE = 64  # bytes of a DRAM burst


def test_counts_fit_together_and_reach_the_trace_database():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:  # gem5 redirects /tmp
        Path(place, "net.dnnmark").write_text(TEXT)
        plan = simgen.plan(Path(place, "net.dnnmark"))
        bundle = plan.build(Path(place, "net"), "gem5-se")
        result = bundle.run("gem5-se", timeout=1200.0)
        rows = simgen.report([bundle], Path(place, "report")).rows
        with closing(sqlite3.connect(Path(place, "report", trace.FILE))) as database:
            asked = database.execute("SELECT layer, cycles, l1_hit_rate FROM layer").fetchall()
    for launched, counted in zip(plan.workload.launches, result.launches, strict=True):
        check(counted, launched.grid[0])
    rates = [page.derived(row)["l1_hit_rate"] for row in rows]
    assert asked == [
        (row.layer, row.metrics["cycles"], pytest.approx(rate)) for row, rate in zip(rows, rates)
    ]


def check(counted: dict[str, float], groups: int) -> None:
    assert counted["work_groups"] == groups
    assert 0 < counted["seconds"] < counted["simulated_seconds"]
    assert counted["cu_cycles"] == UNITS * counted["cycles"]
    assert 0 < counted["cu_active_cycles"] <= counted["cu_cycles"]
    assert counted["wavefront_slot_cycles"] == SLOTS * counted["cu_active_cycles"]
    stalls = sum(value for name, value in counted.items() if name.startswith("stall_"))
    assert 0 < counted["wavefront_cycles"] == stalls + counted["ready_cycles"]
    kinds = [name for names in metrics.parts("instructions").values() for name in names]
    assert 0 < sum(counted.get(name, 0.0) for name in kinds) < counted["instructions"]
    assert counted["lds_reads"] + counted["lds_writes"] == counted["lds_instructions"]
    first = [f"{cache}_misses" for cache in ("l1", "l1_scalar", "l1_instruction")]
    assert counted["l2_hits"] + counted["l2_misses"] == sum(counted[name] for name in first)
    assert counted["dram_read_bytes"] == LINE * counted["dram_reads"] > 0
    assert counted["dram_written_bytes"] == LINE * counted["dram_writes"]
