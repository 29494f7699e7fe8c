"""The store of a sweep: written, read back, and what its points say together."""

from __future__ import annotations

import csv
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest
from handmade import build, small

from simgen.bundle.results import Result
from simgen.errors import DamagedError, UsageError
from simgen.reports.pages import explored_page, exploring, store, trace
from simgen.reports.pages.store import StoredPoint

WHEN = datetime(2026, 3, 1, tzinfo=UTC)
TOLD = {"simgen": "0.1.0", "compiler": "ziglang 1"}


def point(seconds, operations=1000, bundle="net", result="gem5-se", **settings):
    name = f"{result}@{','.join(f'{k}={v}' for k, v in settings.items())}" if settings else result
    given = {name: str(value) for name, value in settings.items()}
    if "@" in bundle:
        key, _, value = bundle.partition("@")[2].partition("=")
        given = {key: value, **given}
    return StoredPoint(
        bundle, "net", "m", name, given, {"seconds": seconds} if seconds else {}, operations, 10,
        "same", "0.1.0",
    )  # fmt: skip


def test_points_that_do_the_same_are_beside_the_first_of_them():
    found = [point(4.0, units=1), point(2.0, units=2), point(3.0, 2000, units=1)]
    one, two, other = exploring.compared(found)
    assert (one.speed_up, two.speed_up, other.speed_up) == (1.0, 2.0, 1.0)
    named = exploring.compared(found, "net:gem5-se@units=2")
    assert [each.speed_up for each in named] == [0.5, 1.0, 1.0]
    with pytest.raises(UsageError, match=r"no such result; did you mean .gem5-se@units=2"):
        exploring.compared(found, "gem5-se@units=3")


def test_figures_of_one_name_tell_their_operations():
    made = exploring.compared([point(4.0), point(3.0, 2000, "other"), point(1.0, 3000, "more")])
    assert list(explored_page._groups(made)) == [
        "net on gem5-se", "net on gem5-se, 2e+03 operations", "net on gem5-se, 3e+03 operations",
    ]  # fmt: skip


def test_the_front_has_what_nothing_beats_in_time_and_hardware():
    found = [
        point(4.0, units=1, tcp="16KiB"),
        point(2.0, units=2, tcp="16KiB"),
        point(2.0, units=4, tcp="16KiB"),  # as fast with less
        point(1.9, units=2, tcp="32KiB"),
        point(2.5, units=2, tcp="8KiB"),
        point(None, units=8, tcp="8KiB"),
    ]
    made = exploring.compared(found)
    assert [each.pareto for each in made] == [True, True, False, True, True, False]
    assert set(made[0].objectives) == {"seconds", "units", "tcp"}
    assert made[5].speed_up is None


def test_where_no_hardware_is_swept_traffic_is_what_there_is_to_save():
    found = [point(2.0, bundle="net@algo=a"), point(1.0, bundle="net@algo=b")]
    for each, traffic in zip(found, (5.0, 9.0), strict=True):
        each.metrics[exploring.DRAM] = traffic
    assert [each.pareto for each in exploring.compared(found)] == [True, True]
    found[1].metrics[exploring.DRAM] = 5.0
    assert [each.pareto for each in exploring.compared(found)] == [False, True]


def test_a_default_result_beside_a_sweep_changes_no_objective():
    swept = [point(4.0, units=1), point(2.0, units=2), point(2.0, units=4)]
    alone = exploring.compared(swept)
    made = exploring.compared([point(1.0), *swept])
    assert [each.pareto for each in made] == [False, True, True, False]
    assert [each.objectives for each in made[1:]] == [each.objectives for each in alone]
    assert exploring.beside_fronts(alone) == []
    assert exploring.beside_fronts(made) == [
        "Pareto: 1 of 4 points say no units, net on gem5-se the first of them; they are beside the "
        "front"
    ]


def test_two_sweeps_from_one_default_have_the_traffic_as_objective():
    found = [
        point(3.0, units=1),
        point(2.0, units=2),
        point(2.5, tcp="8KiB"),
        point(2.4, tcp="16KiB"),
    ]
    for each in found:
        each.metrics[exploring.DRAM] = 5.0
    made = exploring.compared(found)
    assert {*made[0].objectives} == {"seconds", exploring.DRAM}
    assert [each.pareto for each in made] == [False, True, False, False]


def test_a_point_without_a_metric_does_not_empty_the_front():
    found = [
        point(each, bundle=f"net@algo={name}")
        for each, name in ((2.0, "a"), (1.0, "b"), (0.5, "c"))
    ]
    found[0].metrics[exploring.DRAM] = 5.0
    found[1].metrics[exploring.DRAM] = 9.0
    made = exploring.compared(found)
    assert [each.pareto for each in made] == [True, True, False]
    assert exploring.beside_fronts(made)[0].startswith("Pareto: 1 of 3 points say no dram_bytes")


def test_sensitivity_is_of_points_that_differ_in_one_setting_alone():
    found = [point(8.0 / units**0.5 * cost, units=units, l1=l1)
             for units in (1, 2, 4) for l1, cost in (("16KiB", 1.0), ("32KiB", 0.5))]  # fmt: skip
    made = {(each.setting, each.value): each for each in exploring.sensitivity(found)}
    of_units = made["units", "4"]
    assert (of_units.pairs, of_units.against) == (2, "1")
    assert of_units.mean == pytest.approx(2.0)
    assert of_units.exponent == pytest.approx(0.5)
    assert made["l1", "32KiB"].pairs == 3
    assert made["l1", "32KiB"].exponent == pytest.approx(1.0)
    batch = [point(2.0, 1000, "net@n=1"), point(3.0, 4000, "net@n=4")]
    (of_batch,) = exploring.sensitivity(batch)  # other work: rates, not times
    assert of_batch.mean == pytest.approx(4000 / 3 / 500)


@pytest.fixture(name="stored")
def store_of_two_points(tmp_path):
    """Of three, one of which has not run."""
    made = build(tmp_path / "sweep/bundles/net@n=4", small())
    count = len(made.workload.launches)
    runs = [
        trace.TracedRun(
            Result(f"gem5-se@units={units}", {}, ({"seconds": 1e-6 / units, "instructions": 5.0},)
                   * count, TOLD),
            WHEN, {"softmax fwd": "same"},
        )
        for units in (2, 1)
    ]  # fmt: skip
    name = made.path.name
    points = [(name, f"gem5-se@units={units}", made.digest) for units in (1, 2, 4)]
    path = tmp_path / "sweep" / store.FILE
    trace.write(path, [(name, made, runs)], points)
    return path


def test_what_is_stored_is_read_in_the_order_of_the_sweep(stored):
    found = store.read_points(stored)
    assert [each.result for each in found.points] == ["gem5-se@units=1", "gem5-se@units=2"]
    assert found.missing == (("net@n=4", "gem5-se@units=4"),)
    first = found.points[0]
    assert first.settings == {"n": "4", "units": "1"}
    assert first.metrics["seconds"] == pytest.approx(1e-6)
    assert (first.operations > 0, first.verdict) == (True, "same")


def test_a_report_of_a_store_has_tables_and_says_what_is_missing(stored, tmp_path):
    made = explored_page.write(stored, tmp_path / "report")
    assert any("1 of 3 points have not run" in line for line in made.doubts)
    with (tmp_path / "report/points.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["speed_up"] for line in lines] == ["1.0", "2.0"]
    with (tmp_path / "report/sensitivity.csv").open() as file:
        (line,) = csv.DictReader(file)
    assert (line["setting"], line["value"], line["rate_ratio"]) == ("units", "2", "2")
    assert "Pareto fronts" in made.page.read_text()


def test_a_store_of_another_build_is_refused(stored, tmp_path):
    (stored.parent / "bundles/net@n=4/workload.json").write_text("{}")
    with pytest.raises(UsageError, match=r"half a store, of another build of net@n=4.*collect"):
        explored_page.write(stored, tmp_path / "report")


def test_what_is_no_store_of_this_version_is_told(stored, tmp_path):
    (tmp_path / "x").write_text("x")
    with pytest.raises(UsageError, match="neither a bundle nor a store"):
        store.read_points(tmp_path / "x")
    with closing(sqlite3.connect(stored)) as database:
        database.execute("UPDATE metric SET value = -1.0")
        database.commit()
    with pytest.raises(DamagedError, match="another type"):
        store.read_points(stored)
    with closing(sqlite3.connect(stored)) as database:
        database.execute("PRAGMA user_version = 2")
    with pytest.raises(UsageError, match="another version of simgen"):
        store.read_points(stored)
