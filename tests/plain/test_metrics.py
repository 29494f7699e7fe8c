"""The table of metrics: all that measures or shows uses its names, and one row adds a metric."""

from __future__ import annotations

import itertools
import re
import sqlite3

import pytest

from simgen import metrics, resources
from simgen.metrics import GIVEN, METRICS, PARTS, Kind, Metric


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
    with sqlite3.connect(":memory:") as database:
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
    counted = {name for name, metric in METRICS.items() if not metric.formula}
    assert listed <= counted


def test_parts_of_figures_are_metrics_with_a_label_each():
    for key, (_, _, needed, _) in PARTS.items():
        assert needed in METRICS
        parts = metrics.parts(key)
        assert len(parts) > 1
        assert all(names for names in parts.values())
    assert metrics.parts("instructions")["vector memory"] == (
        "vector_memory_reads", "vector_memory_writes",
    )  # fmt: skip


def test_a_metric_that_is_not_in_the_table_has_no_unit():
    assert metrics.unit("seconds") == "seconds"
    assert metrics.unit("own_counter") == ""
