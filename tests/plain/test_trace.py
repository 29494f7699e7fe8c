"""The trace database: every launch tied to its layer, and sums that equal the report's."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from handmade import BOTH, build, lowered_text, small

from simgen.bundle.results import Result
from simgen.reports.pages import page, trace

# Two equal layers share a kernel; the third has two launches in its last pass.
TEXT = """
[Softmax]
name=s1
n=4
c=6
[Softmax]
name=s2
previous_layer=s1
[FullyConnected]
name=fc
num_output=300
previous_layer=s2
"""
WHEN = datetime(2026, 3, 1, 12, 30, tzinfo=timezone(timedelta(hours=2)))
TOLD = {
    "simgen": "0.1.0",
    "compiler": "ziglang 1",
    "settings": {"arch": "gfx902", "m5ops": False},
    "config": {"passes": ["fwd"]},
    "machine": {"gpu": "it's"},
}


@pytest.fixture(name="net")
def network_bundle(tmp_path):
    return build(tmp_path / "net", lowered_text(TEXT, BOTH))


def result(made, target, **factors):
    """Metrics of which each launch has another value."""
    launches = tuple(
        {name: factor * (at + 1) for name, factor in factors.items()}
        for at in range(len(made.workload.launches))
    )
    return Result(target, {}, launches, TOLD)


def written(path, *found):
    trace.write(path, found)
    return path


def asked(path, query, *values):
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(query, values)]


@pytest.fixture(name="filled")
def filled_database(net, tmp_path):
    timed = result(net, "gem5-se", seconds=1e-6, l1_hits=3.0, l1_misses=1.0, instructions=10.0)
    merged = result(net, "mgpusim", l1_hits=1.0, l1_mshr_hits=2.0, l1_misses=1.0)
    return written(
        tmp_path / "trace.sqlite3",
        ("first", net, [trace.TracedRun(timed, WHEN), trace.TracedRun(merged, WHEN)]),
        ("second", net, [trace.TracedRun(timed, WHEN)]),
    )


def test_every_launch_knows_its_layer_and_which_run_of_its_kernel_it_is(net, filled):
    query = """SELECT DISTINCT launch, layer, pass, kernel, invocation FROM launch_metric
        WHERE bundle = 'first' AND target = 'gem5-se' ORDER BY launch"""
    rows = asked(filled, query)
    pairs = [(step, launch) for step in net.workload.steps for launch in step.launches]
    assert [(r["launch"], r["layer"], r["pass"], r["kernel"]) for r in rows] == [
        (at, step.layer, str(step.direction), launch.kernel)
        for at, (step, launch) in enumerate(pairs)
    ]
    forward = [r for r in rows if r["layer"] in ("s1", "s2") and r["pass"] == "fwd"]
    assert len({r["kernel"] for r in forward}) == 1
    assert [r["invocation"] for r in forward] == [1, 2]


def test_sums_of_a_layer_are_those_of_the_report(net, filled):
    assert max(len(step.launches) for step in net.workload.steps) > 1
    timed = result(net, "gem5-se", seconds=1e-6, l1_hits=3.0, l1_misses=1.0, instructions=10.0)
    wanted = page.rows(net, [timed])
    query = "SELECT * FROM layer WHERE bundle = 'second' ORDER BY step"
    for row, line in zip(wanted, asked(filled, query), strict=True):
        assert (line["layer"], line["pass"]) == (row.layer, row.pass_)
        assert line["operations"] == row.operations
        assert line["bytes"] == row.bytes
        values = {**row.metrics, **page.derived(row)}
        for name in ("seconds", "instructions", "l1_accesses", "l1_misses", "l1_hit_rate"):
            assert line[name] == pytest.approx(values[name])
        for name in ("operations_per_second", "bytes_per_second"):
            assert line[name] == pytest.approx(values[name])
        assert line["l2_hit_rate"] is None
        assert line["dram_read_bytes"] is None


def test_an_mshr_hit_is_an_access_that_fetches_nothing(filled):
    rates = asked(filled, "SELECT l1_hit_rate, seconds FROM layer WHERE target = 'mgpusim'")
    assert rates
    assert all(row == {"l1_hit_rate": 0.75, "seconds": None} for row in rates)


def test_a_run_tells_when_where_and_with_what(filled):
    runs = asked(filled, "SELECT run.*, name FROM run JOIN bundle ON bundle.id = run.bundle")
    assert [(r["name"], r["target"]) for r in runs] == [
        ("first", "gem5-se"),
        ("first", "mgpusim"),
        ("second", "gem5-se"),
    ]
    assert {r["finished"] for r in runs} == {"2026-03-01T10:30:00+00:00"}
    query = "SELECT part, name, value FROM property WHERE run = ? ORDER BY part, name"
    assert [tuple(row.values()) for row in asked(filled, query, runs[0]["id"])] == [
        ("config", "passes", '["fwd"]'),
        ("machine", "gpu", "it's"),
        ("settings", "arch", "gfx902"),
        ("settings", "m5ops", "false"),
    ]


def test_the_file_is_sound_and_alone(filled, tmp_path):
    assert asked(filled, "PRAGMA integrity_check") == [{"integrity_check": "ok"}]
    assert asked(filled, "PRAGMA foreign_key_check") == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net", "trace.sqlite3"]


def test_another_report_replaces_the_file_whole(net, tmp_path):
    path = tmp_path / "trace.sqlite3"
    for target in ("cuda", "host"):
        run = trace.TracedRun(result(net, target, seconds=1.0), WHEN)
        written(path, ("net", net, [run]))
        assert asked(path, "SELECT target FROM run") == [{"target": target}]


def test_a_failure_leaves_the_file_that_was_there(net, filled, tmp_path):
    before = filled.read_bytes()
    short = replace(result(net, "cuda", seconds=1.0), launches=({"seconds": 1.0},))
    with pytest.raises(ValueError, match="shorter"):
        trace.write(filled, [("net", net, [trace.TracedRun(short, WHEN)])])
    assert filled.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net", "trace.sqlite3"]


def test_a_full_disk_is_told_with_the_name_of_the_file(net, tmp_path, monkeypatch):
    connect = sqlite3.connect

    def small(path):
        database = connect(path)
        database.execute("PRAGMA max_page_count = 2")
        return database

    monkeypatch.setattr(sqlite3, "connect", small)
    with pytest.raises(OSError, match=r"full.*trace\.sqlite3") as caught:
        trace.write(tmp_path / "full" / trace.FILE, [("net", net, ())])
    assert caught.value.errno == errno.ENOSPC
    assert list((tmp_path / "full").iterdir()) == []


def test_a_bundle_that_has_not_run_is_there_without_runs(tmp_path):
    made = build(tmp_path / "s", small())
    path = written(tmp_path / "t", ("s", made, []))
    (row,) = asked(path, "SELECT workload, digest, data, seed FROM bundle")
    assert row == {
        "workload": "softmax_fwd",
        "digest": made.digest,
        "data": made.manifest["data"]["id"],
        "seed": "0",
    }
    assert asked(path, "SELECT count(*) AS n FROM launch") == [{"n": 1}]
    assert asked(path, "SELECT * FROM layer") == []


def test_what_is_not_a_number_has_no_row(net, tmp_path):
    run = trace.TracedRun(result(net, "x", seconds=float("nan"), cycles=1.0), datetime.now(UTC))
    path = written(tmp_path / "t", ("net", net, [run]))
    assert asked(path, "SELECT DISTINCT name FROM metric") == [{"name": "cycles"}]
