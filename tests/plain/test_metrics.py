"""The table of metrics: all that measures or shows uses its names, and one row adds a metric."""

from __future__ import annotations

import csv
import itertools
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import h5py
import pytest
from handmade import build, lowered_text, small

from simgen.bundle.results import Result, save
from simgen.cli import following, present
from simgen.ground import metrics, resources
from simgen.ground.metrics import GIVEN, METRICS, PARTS, Kind, Metric
from simgen.reports.pages import page, trace
from simgen.targets.gem5 import stats
from simgen.targets.launch_rows import ROUND_COLUMNS

if TYPE_CHECKING:
    from pathlib import Path


def test_rows_are_whole_and_names_are_names():
    for name, metric in METRICS.items():
        assert name == metric.name
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert metric.unit
        assert metric.title
        assert {figure for figure, _ in metric.parts} <= PARTS.keys()
    titles = [metric.title for metric in METRICS.values()]
    assert len(set(titles)) == len(titles)
    assert len(METRICS) == len(metrics._ROWS)


def test_formulas_have_terms_that_are_counted_or_stand_above():
    known = {*GIVEN, *(m.name for m in METRICS.values() if not m.formula)}
    for metric in METRICS.values():
        if metric.formula:
            words = set(re.findall(r"[a-z]\w+", metric.formula)) - {"coalesce", "max"}
            assert words <= known, metric.name
            known.add(metric.name)


@pytest.mark.parametrize("formula", ["a ** b", "min(a, b)", "a if b else c", "'a'", "a.b", "f(*a)"])
def test_other_formulas_are_refused(formula: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(METRICS, "odd", Metric("odd", "u", Kind.RATE, "t", formula))
    with pytest.raises(ValueError, match="formulas have"):
        metrics.derived({"a": 1.0, "b": 2.0})
    with pytest.raises(ValueError, match="formulas have"):
        metrics.sql("odd")


def test_the_database_computes_what_the_report_does():
    """Each formula on every choice of terms that are absent, zero, and two other numbers."""
    with closing(sqlite3.connect(":memory:")) as database:
        for metric in METRICS.values():
            terms = metrics.counted([metric.name])
            given = [name for name in GIVEN if name in metric.formula]
            names = [*terms, *given]
            if not metric.formula:
                continue
            query = f"SELECT {metrics.sql(metric.name)} FROM (SELECT {{}})"
            choices = (None, 0.0, 3.0, 8.0) if len(names) <= 4 else (None, 5.0)
            for values in itertools.product(choices, repeat=len(names)):
                row = ", ".join(f"? AS {name}" for name in names)
                (got,) = database.execute(query.format(row), values).fetchone()
                present = {n: v for n, v in zip(names, values, strict=True) if v is not None}
                assert metrics.derived(present).get(metric.name) == got, (metric.name, present)


def test_what_targets_count_is_in_the_table():
    runner = (resources.folder("templates") / "launchers" / "mgpusim" / "metrics.go").read_text()
    listed = set(re.findall(r'"([a-z][a-z0-9]*(?:_[a-z0-9]+)+)"', runner)) - {"req_in"}
    assert {"l1_mshr_hits", "all_reduce_seconds", "host_seconds"} <= listed
    by_gem5 = {*stats.COMPUTE_UNIT.values(), *stats.REASONS.values(), *stats.DRAM.values()}
    by_gem5 |= {f"{c}_{kind}" for c in stats.CACHES.values() for kind in stats.CACHE.values()}
    counted = {name for name, metric in METRICS.items() if not metric.formula}
    assert listed | by_gem5 | {*ROUND_COLUMNS} <= counted


def test_parts_of_figures_are_metrics_with_a_label_each():
    for key, (_, _, needed, _) in PARTS.items():
        assert needed in METRICS
        parts = metrics.parts(key)
        assert len(parts) > 1
        assert all(names for names in parts.values())
    assert metrics.parts("instructions")["vector memory"] == (
        "vector_memory_reads", "vector_memory_writes",
    )  # fmt: skip


def test_one_row_adds_a_metric_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """To the table and the page of a report, correlations, the trace database and the terminal."""
    row = Metric(
        "bank_conflicts", "conflicts / access", Kind.SHARE, "Bank conflicts",
        "lds_conflicts / lds_reads", compared=True, figure=True, column="conflicts",
    )  # fmt: skip
    counted = Metric("lds_conflicts", "cycles", Kind.COUNTER, "Cycles of bank conflicts")
    monkeypatch.setitem(METRICS, counted.name, counted)  # what the row is made from
    monkeypatch.setitem(METRICS, row.name, row)
    text = "".join(
        f"[Softmax]\nname=s{n}\n" + (f"previous_layer=s{n - 1}\n" if n else "n=2\nc=3\n")
        for n in range(3)
    )
    made = build(tmp_path / "net", lowered_text(text))
    told = {"simgen": "1", "compiler": "c"}
    results = [
        Result(name, {}, tuple({"lds_conflicts": n * k, "lds_reads": 8.0} for n in (1, 2, 3)), told)
        for name, k in (("a", 1.0), ("b", 2.0))
    ]
    rows = page.rows(made, results)

    html = page.write(tmp_path, rows).read_text()
    assert "<figcaption>Bank conflicts</figcaption>" in html
    lines = list(csv.DictReader((tmp_path / "metrics.csv").read_text().splitlines()))
    assert {line["bank_conflicts"] for line in lines if line["target"] == "a"} == {
        "0.125", "0.25", "0.375",
    }  # fmt: skip
    assert "bank_conflicts" in {each.quantity for each in page.correlations(rows)}
    when = datetime(2026, 1, 1, tzinfo=UTC)
    runs = [trace.TracedRun(each, when) for each in results]
    trace.write(tmp_path / "t", [("net", made, runs)])
    with closing(sqlite3.connect(tmp_path / "t")) as database:
        found = database.execute("SELECT bank_conflicts FROM layer WHERE target = 'b'").fetchall()
    assert found == [(0.25,), (0.5,), (0.75,)]
    present.report(rows)
    assert "12.5%" in capsys.readouterr().out


def test_results_have_units(tmp_path: Path):
    made = build(tmp_path / "b", small())
    found = Result("cuda", {}, ({"seconds": 1.0, "own_counter": 2.0},), {})
    save(found, made.workload, tmp_path / "results.h5")
    with h5py.File(tmp_path / "results.h5") as file:
        assert file["launches/seconds"].attrs["unit"] == b"seconds"
        assert "unit" not in file["launches/own_counter"].attrs


def test_a_metric_that_is_not_in_the_table_has_no_unit():
    assert metrics.unit("seconds") == "seconds"
    assert metrics.unit("own_counter") == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.000123, "123 us"), (999.4e-6, "999 us"), (999.6e-6, "1 ms"), (0.99951, "1 s"),
        (999.9e-9, "1 us"), (5e-13, "0.0005 ns"), (0.0, "0 ns"), (1234.0, "1230 s"),
    ],
)  # fmt: skip
def test_a_time_is_rounded_before_its_unit_is_chosen(value, text):
    assert metrics.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(999.6e9, "1 TB/s"), (123456, "123 kB/s"), (0.5, "500 mB/s"), (2.5e18, "2500 PB/s")],
)
def test_a_rate_has_the_prefix_of_its_rounded_number(value, text):
    assert metrics.quantity(value, "B/s") == text


def test_counts_and_sizes_and_durations_go_on_to_the_next_unit():
    assert [present.count(each) for each in (999, 999.4, 999999, 1234567, 12.6)] == [
        "999", "999", "1M", "1.23M", "13"
    ]  # fmt: skip
    assert [present.size(each) for each in (1023, 1024**2 - 10, 1536)] == [
        "1023 B", "1.0 MiB", "1.5 KiB"
    ]  # fmt: skip
    assert [following.duration(each) for each in (59.4, 59.7, 3599.8)] == [
        "59 s", "1 min 00 s", "1 h 00 min"
    ]  # fmt: skip
