"""Sweeps: what a grid means, where points keep their results, and what commands make of them."""

from __future__ import annotations

import csv
import io
import os
import sqlite3
import subprocess
from contextlib import closing

import pytest
from command_line import fails
from handmade import build, lowered_text, run_by_hand, small, with_manifest

from simgen import api
from simgen.ask.run import RunCommand
from simgen.bundle import manifest, result_names
from simgen.bundle import writing as bundles
from simgen.errors import RunError, UsageError
from simgen.reports.pages import sweep_figures
from simgen.running import process, sweep_points
from simgen.targets.cuda import Cuda, NvidiaGpu
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.mgpusim.target import MGPUSim

ONE, TWO = "cuda@repeats=2", "cuda@repeats=10"
NET = "[Activation]\nname=a\nn=2\nc=3\n[Softmax]\nname=s\nprevious_layer=a\n"


# ------------------------------------------------------------------ grids


def test_a_grid_is_all_combinations_in_the_target_s_own_order():
    grid = ["tcp-size=16KiB,32KiB", "num_compute_units=2, 4,2"]
    found = sweep_points.points(Gem5Se(), RunCommand(grid=grid, options={}), list)
    assert [point.name for point in found] == [
        "gem5-se@num_compute_units=2,tcp_size=16KiB",
        "gem5-se@num_compute_units=4,tcp_size=16KiB",
        "gem5-se@num_compute_units=2,tcp_size=32KiB",
        "gem5-se@num_compute_units=4,tcp_size=32KiB",
    ]


def test_options_that_do_not_vary_are_part_of_each_point():
    found = sweep_points.points(
        MGPUSim(), RunCommand(grid=["gpus=1,2"], options={"mode": "timing"}), list
    )
    assert [dict(point.options) for point in found] == [
        {"mode": "timing", "gpus": 1},
        {"mode": "timing", "gpus": 2},
    ]
    assert result_names.options_of(found[1].name) == {"mode": "timing", "gpus": "2"}
    assert result_names.target_of(found[1].name) == "mgpusim"
    assert result_names.options_of("mgpusim") == {}


@pytest.mark.parametrize(
    ("grid", "fixed", "words"),
    [
        (["num_compute_unit=2"], {}, "did you mean 'num_compute_units'?"),
        (["num_compute_units"], {}, "write OPTION=VALUE,VALUE"),
        (["=2"], {}, "write OPTION=VALUE,VALUE"),
        (["num_compute_units="], {}, "'': write a whole number, 1 or more"),
        (["num_compute_units=2,0"], {}, "'0': write a whole number, 1 or more"),
        (["num_compute_units=2,²"], {}, "write a whole number"),
        (["tcp_size=16KiB,../x"], {}, "'../x': write it like 16KiB"),
        (["reg_alloc_policy=simpel"], {}, "did you mean 'simple'?"),
        (["lds_size=1", "lds_size=2"], {}, "lds_size is given twice"),
        (["lds_size=1"], {"lds_size": 3}, "lds_size is given twice"),
    ],
)
def test_what_is_no_grid_is_refused(grid, fixed, words):
    with pytest.raises(UsageError, match="--sweep") as raised:
        sweep_points.points(Gem5Se(), RunCommand(grid=grid, options=fixed), list)
    assert words in str(raised.value)


def test_results_are_sorted_by_what_their_options_measure():
    ordered = [f"t@x={v}" for v in ("2", "10", "900B", "16KiB", "1MiB", "1.5GHz", "dynamic")]
    assert sorted(sorted(ordered), key=result_names.rank) == ordered


# ------------------------------------------------------------------ bundles


def test_a_bundle_knows_its_points_and_keeps_them_when_it_is_built_again(tmp_path):
    made = build(tmp_path / "net", small())
    for name in (TWO, ONE, "cuda"):
        run_by_hand(made, target=name)
    assert made.ran() == ["cuda", ONE, TWO]
    other = build(tmp_path / "net", small(), Cuda(), provenance={"simgen": "1", "config": {}})
    assert other.ran() == ["cuda", ONE, TWO]
    assert build(tmp_path / "net", small(seed=1), replace_results=True).ran() == []


def script(made, text):
    """Give the bundle a run.sh of its own, as if it had been built so."""
    path = made.path / "cuda/run.sh"
    path.write_text(text)
    files = {**made.manifest["files"], "cuda/run.sh": manifest.sha256(path.read_bytes())}
    with_manifest(made, files=files)
    return bundles.load(made.path)


# Runs like a target's: leaves what `results/cuda` holds, and fails where there are 10 rounds.
RUN = """
cd "${0%/*}/.."
echo "$SIMGEN_RESULT $SIMGEN_REPEATS" >>calls
[ "$SIMGEN_REPEATS" != 10 ] || { echo "simgen: error: cuda: ten is too many" >&2; exit 5; }
rm -rf "results/$SIMGEN_RESULT"
cp -r results/cuda "results/$SIMGEN_RESULT"
"""


@pytest.fixture
def ready(tmp_path, monkeypatch):
    """A bundle whose run.sh needs no GPU."""
    monkeypatch.setattr(NvidiaGpu, "missing", lambda self, bundle=None: [])
    made = build(tmp_path / "net", small())
    run_by_hand(made)
    return script(made, RUN)


def calls(made):
    path = made.path / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_each_point_is_a_result_and_one_that_is_done_is_not_run_again(simgen, ready):
    done = simgen("run net --on cuda --sweep repeats=2,3 --warmup 1")
    assert (done.code, done.err) == (0, ""), done
    assert calls(ready) == ["cuda@warmup=1,repeats=2 2", "cuda@warmup=1,repeats=3 3"]
    assert "2 points, 0 done before" in done.out
    told = simgen("run net --on cuda --sweep repeats=2,3,4 --warmup 1")
    assert "3 points, 2 done before" in told.out
    assert calls(ready)[2:] == ["cuda@warmup=1,repeats=4 4"]
    assert simgen("run net --on cuda --sweep repeats=2 --warmup 1 --again -q").out == ""
    assert calls(ready)[3:] == ["cuda@warmup=1,repeats=2 2"]


def test_a_point_that_fails_is_named_and_the_others_go_on(simgen, ready):
    done = simgen("run net --on cuda --sweep repeats=2,10,3")
    assert done.code == 5
    assert done.err.splitlines() == [
        "failed: cuda@repeats=10: cuda: ten is too many",
        "simgen: error: net: 1 of 3 points failed: cuda@repeats=10; "
        "the same command runs them again",
    ]
    assert ready.ran() == ["cuda", "cuda@repeats=2", "cuda@repeats=3"]


def test_a_sweep_from_python_is_that_of_the_command(own_folder, ready, capfd):
    made, lines = api.load("net"), []
    found = made.sweep("cuda", {"repeats": [2, 3]}, options={"warmup": 1}, notice=lines.append)
    assert list(found) == ["cuda@warmup=1,repeats=2", "cuda@warmup=1,repeats=3"]
    assert calls(ready) == ["cuda@warmup=1,repeats=2 2", "cuda@warmup=1,repeats=3 3"]
    assert lines[0] == "1 of 2: cuda@warmup=1,repeats=2"
    assert list(made.sweep("cuda", {"repeats": [3]}, options={"warmup": 1})) == list(found)[1:]
    assert len(calls(ready)) == 2
    made.sweep("cuda", {"repeats": [3]}, options={"warmup": 1}, again=True)
    assert len(calls(ready)) == 3
    with pytest.raises(RunError, match=r"^net: 1 of 2 points failed: cuda@repeats=10; "):
        made.sweep("cuda", {"repeats": [10, 2]}, notice=lines.append)
    assert "failed: cuda@repeats=10: cuda: ten is too many" in lines
    assert made.result("cuda@repeats=2").launches
    with pytest.raises(UsageError, match="grid 'repeats=x': 'x': write a whole number"):
        made.sweep("cuda", {"repeats": ["x"]})
    with pytest.raises(UsageError, match="no option is given"):
        made.sweep("cuda", {})
    assert capfd.readouterr() == ("", "")


def test_what_this_machine_lacks_ends_the_sweep(simgen, tmp_path, monkeypatch):
    from simgen.targets.base import Lack

    lacks = [Lack("no GPU", "buy one")]
    monkeypatch.setattr(NvidiaGpu, "missing", lambda self, bundle=None: lacks)
    build(tmp_path / "net", small())
    fails(simgen("run net --on cuda --sweep repeats=2,3 -q"), 3, "no GPU")
    fails(simgen("run net --on cuda --again"), 2, "--again: it is for --sweep")


def test_launch_takes_no_result_of_another_name_for_its_own(ready):
    ready = script(ready, "exit 0\n")
    with pytest.raises(RunError, match="left no result"):
        process.run(ready, "cuda")  # there is one, of a run before
    with pytest.raises(RunError, match="left no result"):
        process.run(ready, "cuda", result="cuda@repeats=7")


@pytest.mark.parametrize("name", ["../x", "cuda@a/b", "host@x=1", "cuda@x=1 2", "cuda@\n"])
def test_run_sh_takes_no_name_that_is_not_a_result_of_its_target(tmp_path, name):
    made = build(tmp_path / "net", small())
    done = subprocess.run(
        ["sh", made.path / "cuda/run.sh"],
        env={"PATH": os.environ["PATH"], "SIMGEN_RESULT": name},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("simgen: error: cuda: SIMGEN_RESULT ")
    assert not (made.path / "results").exists()


# ------------------------------------------------------------------ results


def test_diff_judges_points_like_any_result(simgen, tmp_path):
    made = build(tmp_path / "net", small())
    for name in ("cuda", ONE, TWO):
        run_by_hand(made, target=name)
    found = simgen("diff net --json").json()["pairs"]
    assert [(pair["a"], pair["b"]) for pair in found] == [
        ("cuda", "reference"), (ONE, "reference"), (TWO, "reference"), ("cuda", ONE), ("cuda", TWO),
    ]  # fmt: skip
    found = simgen(f"diff net {ONE} {TWO} --json").json()["pairs"]
    assert [(pair["a"], pair["b"]) for pair in found] == [
        (ONE, "reference"), (TWO, "reference"), (ONE, TWO),
    ]  # fmt: skip
    fails(simgen("diff net cuda@repeat=2"), 2, f"did you mean '{ONE}'?")

    def wrong(tensors):
        next(iter(tensors.values()))[:] = 7

    run_by_hand(made, wrong, target=TWO)
    fails(simgen("diff net"), 6)


def test_the_report_has_a_line_and_a_series_for_each_point(simgen, tmp_path):
    made = build(tmp_path / "net", lowered_text(NET))
    for name in ("cuda", ONE, TWO):
        run_by_hand(made, target=name)
    assert simgen("report net -o out -q").code == 0
    table = (tmp_path / "out/metrics.csv").read_text()
    lines = list(csv.DictReader(io.StringIO(table)))
    assert [line["result"] for line in lines] == ["cuda", "cuda", ONE, ONE, TWO, TWO]
    page = (tmp_path / "out/report.html").read_text()
    assert "Time against repeats: cuda" in page
    with closing(sqlite3.connect(tmp_path / "out/trace.sqlite3")) as database:
        query = (
            "SELECT run.result, value FROM property JOIN run ON run.id = run "
            "WHERE part = 'options' AND property.name = 'repeats'"
        )
        assert database.execute(query).fetchall() == [(ONE, "2"), (TWO, "10")]


def test_a_dry_run_lists_the_points_and_runs_none(simgen, tmp_path):
    made = build(tmp_path / "net", lowered_text(NET))
    run_by_hand(made, target=ONE)
    done = simgen("run net --on cuda --sweep repeats=2,10 --dry-run")
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines() if line.startswith(" cuda")]
    assert lines == [[ONE, "done"], [TWO, "to", "run"]]
    assert done.out.splitlines()[-1] == "1 of 2 points to run"
    assert made.ran() == [ONE]
    fails(simgen("run net --dry-run"), 2, "--dry-run: it is for --sweep")


# ------------------------------------------------------------------ figures


def times(**seconds):
    return {step: {"seconds": value} for step, value in seconds.items()}


def drawn_of(points, waits):
    """The figures of points whose options are those of their names."""
    given = {name: result_names.options_of(name) for name in points}
    return [(title, plot.element) for title, plot in sweep_figures.drawn(points, given, waits)]


def test_a_sweep_of_one_option_has_lines_of_layers_and_of_two_options_lines_of_the_other():
    one = {"t@x=1": times(a=1.0, b=2.0), "t@x=2": times(a=0.5, b=1.0), "t": times(a=3.0)}
    ((title, svg),) = drawn_of(one, {"ready": ("ready_cycles",)})
    assert title == "Time against x: t"
    assert '"name":"a"' in svg
    assert '"name":"b"' in svg
    two = {f"t@x={x},y={y}": times(a=x * y) for x in (1, 2) for y in (3, 4)}
    drawn = drawn_of(two, {})
    assert [title for title, _ in drawn] == ["Time against x: t", "Time against y: t"]
    assert '"name":"y=3"' in drawn[0][1]
    assert '"name":"x=2"' in drawn[1][1]


def test_the_speed_up_over_units_has_its_ideal_line():
    points = {f"t@num_compute_units={n}": times(a=8.0 / n, b=1.0) for n in (2, 4, 8)}
    given = {name: result_names.options_of(name) for name in points}
    plots = dict(sweep_figures.drawn(points, given, {}))
    shown = plots["Speed-up against num_compute_units: t"].shown
    assert shown.ideal == [1.0, 2.0, 4.0]
    assert shown.series["a"] == [1.0, 2.0, 4.0]
    assert shown.series["all layers"] == [1.0, 5 / 3, 2.5]


def test_two_sweeps_of_a_target_have_their_own_figures():
    points = {f"t@x={x}": times(a=x) for x in (1, 2)}
    points |= {f"t@mode=m,y={y}": times(a=y) for y in (3, 4, 5)}
    points |= {"t@z=1": times(a=1.0), "t@a..b": times(a=1.0)}  # nothing to draw, and a part
    titles = [title for title, _ in drawn_of(points, {})]
    assert titles == ["Time against x: t", "Time against y: t"]


def test_of_many_layers_the_slowest_have_their_own_line_and_the_rest_one():
    layers = {f"layer{at}": float(at + 1) for at in range(20)}
    ((_, svg),) = drawn_of({"t@x=1": times(**layers), "t@x=2": times(**layers)}, {})
    assert '"name":"layer19"' in svg
    assert '"name":"layer0"' not in svg
    assert '"name":"the others"' in svg


def test_what_wavefronts_wait_for_is_shown_where_it_is_counted():
    waits = {"ready": ("ready_cycles",)}
    points = {f"t@x={x}": {"a": {"seconds": 1.0, "ready_cycles": x}} for x in (1.0, 2.0)}
    titles = [title for title, _ in drawn_of(points, waits)]
    assert titles == ["Time against x: t", "What wavefronts wait for against x: t"]


def test_an_emulator_that_counts_no_time_has_no_figure():
    points = {f"t@x={x}": {"a": {"instructions": 5.0}} for x in (1, 2)}
    assert drawn_of(points, {}) == []
