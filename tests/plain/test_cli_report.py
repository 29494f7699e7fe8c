"""report as a user meets it: what it writes, what it says, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace

from command_line import fails
from handmade import build, run_by_hand, small

from simgen.bundle import run_record
from simgen.running import run_folder
from simgen.targets.cuda import Cuda


def ran(path, **options):
    made = build(path, small(**options))
    folder = run_by_hand(made)
    os.utime(folder / "complete", (1e9, 1e9))
    return made


def asked(path, query):
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def lines(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_report_writes_a_page_tables_and_a_database(simgen, tmp_path):
    ran(tmp_path / "one")
    ran(tmp_path / "two", word="softmax_bwd")
    done = simgen("report one two -o out")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "page: out/report.html"
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        ".simgen",
        "correlation.csv",
        "metrics.csv",
        "report.html",
        "timeline.json",
        "trace.sqlite3",
    ]
    assert [(x["bundle"], x["pass"]) for x in lines(out / "metrics.csv")] == [
        ("one", "fwd"),
        ("two", "bwd"),
    ]
    assert asked(out / "trace.sqlite3", "SELECT bundle, pass, target, seconds FROM layer") == [
        ("one", "fwd", "cuda", 1e-6),
        ("two", "bwd", "cuda", 1e-6),
    ]
    assert asked(out / "trace.sqlite3", "SELECT DISTINCT finished FROM run") == [
        ("2001-09-09T01:46:40+00:00",)
    ]


def test_bundles_of_one_name_are_told_apart_by_their_paths(simgen, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        ran(tmp_path / folder / "net")
    assert simgen("report a/net b/net -o out -q").code == 0
    assert [x["bundle"] for x in lines(tmp_path / "out/metrics.csv")] == ["a/net", "b/net"]


def test_names_that_are_no_text_do_not_break_a_report(simgen, tmp_path):
    name = os.fsdecode(b"b\xff\n<i>")
    ran(tmp_path / name)
    done = simgen("report", name, "-o", "out")
    assert (done.code, done.err) == (0, "")
    assert {row["bundle"] for row in lines(tmp_path / "out" / "metrics.csv")} == {r"b\udcff\n<i>"}
    assert asked(tmp_path / "out" / "trace.sqlite3", "SELECT name FROM bundle") == [
        (r"b\udcff\n<i>",)
    ]
    assert "<i>" not in (tmp_path / "out" / "report.html").read_text()


def test_names_are_no_mathematics_and_none_is_hidden(simgen, tmp_path):
    """Libraries that draw read TeX between dollars, hide a name with "_", and take some HTML."""
    names = (r"$\frac$", "_hidden", "a$b$c", "\u6a21\u578b")
    for at, name in enumerate(names):
        ran(tmp_path / name, seed=at)
    done = simgen("report", *names, "-o", "out")
    assert (done.code, done.err) == (0, "")
    page = (tmp_path / "out/report.html").read_text()
    for name in names:
        assert page.count(json.dumps(f"{name}, cuda")) > 1


def test_a_seed_may_have_64_bits_and_the_folder_a_name_by_itself(simgen, tmp_path):
    ran(tmp_path / "one", seed=2**64 - 1)
    assert simgen("report one").out.endswith("page: report/report.html\n")
    assert asked(tmp_path / "report/trace.sqlite3", "SELECT seed FROM bundle") == [
        (str(2**64 - 1),)
    ]


def test_the_machine_is_that_of_the_run_and_not_that_of_the_report(simgen, tmp_path):
    made = ran(tmp_path / "net")
    folder = made.path / "results/cuda"
    run = run_folder.begin(made, Cuda(), "cuda", {}).run
    run_record.write(folder, replace(run, machine={**run.machine, "processor": "another one"}))
    assert simgen("report net -o out -q").code == 0
    query = "SELECT value FROM property WHERE part = 'machine' AND name = 'processor'"
    assert asked(tmp_path / "out/trace.sqlite3", query) == [("another one",)]


def test_a_bundle_that_has_not_run_is_named(simgen, tmp_path):
    ran(tmp_path / "one")
    build(tmp_path / "two", small())
    done = simgen("report one two -o out")
    assert done.code == 0
    assert "not in the report: two, which has not run" in done.out


def test_what_cannot_be_reported_is_refused_before_anything_is_written(simgen, tmp_path):
    build(tmp_path / "idle", small())
    fails(simgen("report idle -o out"), 2, "idle", "nothing has run yet", "simgen run idle")
    ran(tmp_path / "one")
    fails(simgen("report one ./one -o out"), 2, "given twice")
    (tmp_path / "one/results/cuda/launches.csv").unlink()
    fails(simgen("report one -o out"), 7, "launches.csv")
    assert not (tmp_path / "out").exists()
