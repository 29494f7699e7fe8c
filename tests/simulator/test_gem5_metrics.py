"""What gem5 counts, in the shared vocabulary: relations that hold on its default machine."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from simgen.bundle import results
from simgen.bundle import writing as bundles
from simgen.compile.build import Builder
from simgen.compile.cache import Cache
from simgen.frontend import config, network
from simgen.ir import Pass
from simgen.running import process
from simgen.study import page, trace
from simgen.targets.gem5.se import Gem5Se
from simgen.workload import lowering

lacks = Gem5Se().missing()
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
PROVENANCE = {"simgen": "test", "config": {}}
UNITS, SLOTS = 4, 40  # compute units; wavefronts that one of them holds
LINE = 64  # bytes of a DRAM burst


def test_counts_fit_together_and_reach_the_trace_database():
    work = lowering.lower(
        network.resolve(config.parse(TEXT, "t.dnnmark")), "net", (Pass.FORWARD,), 0
    )
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:  # gem5 redirects /tmp
        builder = Builder(Cache(Path(place, "cache")))
        bundle = bundles.write(Path(place, "net"), work, [Gem5Se()], builder, PROVENANCE)
        folder = process.run(bundle, "gem5-se", timeout=1200.0)
        result = results.collect(bundle, Gem5Se(), folder)
        trace.write(
            Path(place, trace.FILE), [("net", bundle, [trace.TracedRun(result, datetime.now(UTC))])]
        )
        with closing(sqlite3.connect(Path(place, trace.FILE))) as database:
            asked = database.execute("SELECT layer, cycles, l1_hit_rate FROM layer").fetchall()
    for launched, metrics in zip(work.launches, result.launches, strict=True):
        check(metrics, launched.grid[0])
    rows = page.rows(bundle, [result])
    rates = [page.derived(row)["l1_hit_rate"] for row in rows]
    assert asked == [
        (row.layer, row.metrics["cycles"], pytest.approx(rate)) for row, rate in zip(rows, rates)
    ]


def check(metrics: dict[str, float], groups: int) -> None:
    assert metrics["work_groups"] == groups
    assert 0 < metrics["seconds"] < metrics["simulated_seconds"]
    assert metrics["cu_cycles"] == UNITS * metrics["cycles"]
    assert 0 < metrics["cu_active_cycles"] <= metrics["cu_cycles"]
    assert metrics["wavefront_slot_cycles"] == SLOTS * metrics["cu_active_cycles"]
    stalls = sum(value for name, value in metrics.items() if name.startswith("stall_"))
    assert 0 < metrics["wavefront_cycles"] == stalls + metrics["ready_cycles"]
    kinds = [name for names in page.INSTRUCTIONS.values() for name in names]
    assert 0 < sum(metrics.get(name, 0.0) for name in kinds) < metrics["instructions"]
    assert metrics["lds_reads"] + metrics["lds_writes"] == metrics["lds_instructions"]
    first = [f"{cache}_misses" for cache in ("l1", "l1_scalar", "l1_instruction")]
    assert metrics["l2_hits"] + metrics["l2_misses"] == sum(metrics[name] for name in first)
    assert metrics["dram_read_bytes"] == LINE * metrics["dram_reads"] > 0
    assert metrics["dram_written_bytes"] == LINE * metrics["dram_writes"]
