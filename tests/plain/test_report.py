"""The report: metrics by layer, as a table, a CSV file and a page."""

import csv
import html
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from simgen.bundle.results import Result
from simgen.bundle.writing import Bundle
from simgen.cli import present
from simgen.errors import UsageError
from simgen.frontend import config, network
from simgen.ground.ir import Pass
from simgen.ground.machine import find
from simgen.reports.pages import drawing, figures, series, summary
from simgen.reports.pages import page as report_page
from simgen.reports.pages.series import Grouped, Roofline
from simgen.reports.pages.summary import RunFacts
from simgen.workload import lowering

TEXT = "[Activation]\nname=a\nn=2\nc=3\n[Softmax]\nname=<s>\nprevious_layer=a\n".replace("<s>", "s")


def bundle():
    net = network.resolve(config.parse(TEXT, "t.dnnmark"))
    return Bundle(Path("b"), {}, lowering.lower(net, "net", (Pass.FORWARD,), 0))


def result(name, *launches):
    return Result(name, {}, launches, {})


def found():
    emulated = result("emulator", {"instructions": 10.0}, {"instructions": 20.0})
    timed = result(
        "simulator",
        {"seconds": 2.0, "l1_hits": 3.0, "l1_misses": 1.0, "valu_instructions": 5.0},
        {"seconds": 4.0, "l1_hits": 0.0, "l1_misses": 0.0, "valu_instructions": 7.0},
    )
    return report_page.rows(bundle(), [emulated, timed])


def test_each_layer_gets_its_own_launches():
    rows = found()
    assert [(r.target, r.step) for r in rows] == [
        ("emulator", "a fwd"),
        ("emulator", "s fwd"),
        ("simulator", "a fwd"),
        ("simulator", "s fwd"),
    ]
    assert [r.metrics.get("instructions") for r in rows] == [10.0, 20.0, None, None]


def test_rates_follow_from_counts():
    first, second = found()[2:]
    assert report_page.derived(first)["l1_hit_rate"] == 0.75
    assert report_page.derived(first)["operations_per_second"] == first.operations / 2.0
    assert "l1_hit_rate" not in report_page.derived(second)  # nothing was accessed


def test_what_a_target_does_not_count_is_empty():
    lines = list(csv.DictReader(io.StringIO(report_page.to_csv(found()))))
    assert lines[0]["instructions"] == "10"
    assert lines[0]["seconds"] == ""
    assert float(lines[3]["seconds"]) == 4.0


def test_rows_say_the_machine_of_the_plan_and_the_types_of_elements(tmp_path, capsys):
    cast = "[Cast]\nname=t\nprevious_layer=a\ntype=f16\n"
    text = TEXT.replace("_layer=a", "_layer=t").replace("[Softmax]", f"{cast}[Softmax]")
    net = network.resolve(
        config.parse(text, "t.dnnmark"),
        machine=find("gem5-gfx902,num_compute_units=16", "test"),
    )
    made = Bundle(Path("b"), {}, lowering.lower(net, "net", (Pass.FORWARD,), 0))
    rows = report_page.rows(
        made, [result("sim", *({"seconds": 1.0} for _ in made.workload.launches))]
    )
    lines = list(csv.DictReader(io.StringIO(report_page.to_csv(rows))))
    planned = "gem5-gfx902,num_compute_units=16"
    assert [(x["layer"], x["type"]) for x in lines] == [
        ("a", "f32"),
        ("t", "f32, f16"),
        ("s", "f16"),
    ]
    assert {x["planned_for"] for x in lines} == {planned}
    assert f"<td>{planned}</td>" in report_page.write(tmp_path, rows).read_text()
    present.report(rows)
    out = capsys.readouterr().out
    assert "f32, f16" in out
    assert f"planned for {planned}\n" in out
    usual = found()
    present.report([*usual, *rows])
    assert planned in capsys.readouterr().out.splitlines()[-2]
    present.report(usual)
    assert "type" not in capsys.readouterr().out


def specs(page):
    """What the page's script draws."""
    pattern = r'<div class="plot"[^>]*><script type="application/json">(.*?)</script></div>'
    return [json.loads(each) for each in re.findall(pattern, page)]


def test_the_page_shows_all_and_is_the_same_twice(tmp_path):
    first = report_page.write(tmp_path / "one", found()).read_text()
    again = report_page.write(tmp_path / "two", found()).read_text()

    assert first == again
    assert first.count('<div class="plot"') == len(specs(first)) >= 4
    assert "L1 hit rate" in first
    assert "L2 hit rate" not in first  # nobody counted it
    assert "simulator" in first
    for each in specs(first):
        assert each["data"]


def test_an_mshr_hit_counts_as_a_hit():
    (row,) = report_page.rows(
        one("s"), [result("t", {"l1_hits": 1.0, "l1_mshr_hits": 2.0, "l1_misses": 1.0})]
    )
    assert report_page.derived(row)["l1_accesses"] == 4
    assert report_page.derived(row)["l1_hit_rate"] == 0.75


def test_shares_and_dram_rates_follow_from_counts():
    counts = {
        "seconds": 2.0,
        "simulated_seconds": 4.0,  # the DRAM's bytes are of all of it
        "dram_read_bytes": 6.0,
        "dram_written_bytes": 2.0,
        "cycles": 10.0,
        "instructions": 5.0,
        "cu_cycles": 40.0,
        "cu_active_cycles": 10.0,
        "wavefront_slot_cycles": 0.0,
        "wavefront_cycles": 0.0,
    }
    (row,) = report_page.rows(one("s"), [result("t", counts)])
    found = report_page.derived(row)
    assert found["dram_bytes_per_second"] == 2.0
    assert found["instructions_per_cycle"] == 0.5
    assert found["cu_utilization"] == 0.25
    assert "occupancy" not in found


def one(name):
    """A bundle of a workload of one layer."""
    net = network.resolve(config.parse(f"[Softmax]\nname={name}\nn=2\nc=3\n", "t.dnnmark"))
    return Bundle(Path("b"), {}, lowering.lower(net, f"{name}_fwd", (Pass.FORWARD,), 0))


def test_two_bundles_of_a_workload_stay_apart(tmp_path):
    """A sweep: the same layers, in bundles of different names."""
    sweep = [
        row
        for name, seconds in (("small", 1.0), ("large", 2.0))
        for row in report_page.rows(one("s"), [result("sim", {"seconds": seconds})], name)
    ]
    page = report_page.write(tmp_path, sweep).read_text()
    assert "small, sim" in page
    assert "large, sim" in page
    lines = list(csv.DictReader(io.StringIO(report_page.to_csv(sweep))))
    assert [(x["bundle"], x["workload"], x["seconds"]) for x in lines] == [
        ("small", "s_fwd", "1.0"),
        ("large", "s_fwd", "2.0"),
    ]


@pytest.mark.parametrize(
    "manifest",
    [
        {"config": {"settings": ["n=2"]}, "config_text": "[Softmax]\nn=100\n"},
        {"config": {"settings": []}, "config_text": "[Softmax]\nname=s\nn=2\nc=3\n"},
    ],
)
def test_a_base_bundle_has_the_setting_that_a_sweep_of_it_changed(manifest, capsys):
    found = [
        row
        for name, held in (("s_fwd@n=1", {}), ("s_fwd", manifest))
        for row in report_page.rows(
            replace(one("s"), manifest=held), [result("sim", {"seconds": 1.0})], name
        )
    ]
    lines = csv.DictReader(io.StringIO(report_page.to_csv(found)))
    assert [line["n"] for line in lines] == ["1", "2"]
    for show in (present.report, present.results):
        show(found)
        told = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
        assert ["s_fwd", "2"] in told


def compared(count):
    """Rows of `count` workloads of a layer each on two targets, of which b takes twice as long."""
    return [
        row
        for nth in range(1, count + 1)
        for row in report_page.rows(
            one(f"s{nth}"),
            [result("a", {"seconds": nth * 1e-6}), result("b", {"seconds": nth * 2e-6})],
        )
    ]


def test_targets_are_correlated_over_all_bundles(tmp_path):
    page = report_page.write(tmp_path, compared(3)).read_text()
    text = (tmp_path / "correlation.csv").read_text()
    (line,) = csv.DictReader(io.StringIO(text))
    assert (line["reference"], line["target"], line["layers"]) == ("a", "b", "3")
    assert float(line["pearson_r"]) == 1
    assert float(line["mean_absolute_percentage_error"]) == 100
    assert float(line["scale"]) == 0.5
    assert float(line["scaled_mean_absolute_percentage_error"]) < 1e-9
    assert "Time on b against a" in page
    assert "s1_fwd" in page  # places are named after workloads, series after targets
    assert "s1_fwd, a" not in page


def test_too_few_layers_to_correlate_are_said_in_the_page(tmp_path):
    page = report_page.write(tmp_path, compared(2)).read_text()
    assert "2 common layers, 3 are needed" in page
    assert "Time on b against a" not in page


def test_one_target_has_nothing_to_agree_with(tmp_path):
    rows = report_page.rows(one("s"), [result("a", {"seconds": 1.0})])
    assert "it takes two to compare" in report_page.write(tmp_path, rows).read_text()
    assert (tmp_path / "correlation.csv").read_text().count("\n") == 1


def drawn(element):
    (spec,) = specs(element)
    return spec["layout"]


def test_large_and_small_bars_share_a_logarithmic_axis():
    near = drawn(figures.Plot(Grouped(["p"], {"a": [1.0], "b": [2.0]}, "s")).element)
    far = drawn(figures.Plot(Grouped(["p"], {"a": [1.0], "b": [1e6]}, "s")).element)
    assert "type" not in near["yaxis"]
    assert far["yaxis"]["type"] == "log"


def test_names_are_escaped_in_the_page(tmp_path):
    rows = report_page.rows(bundle(), [result("<b>&", {"seconds": 1.0}, {"seconds": 1.0})])
    page = report_page.write(tmp_path, rows).read_text()
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp;" in page


def test_parts_are_shown_as_shares_of_their_sum():
    found = series.shares({"a": [1.0, None, 0.0], "b": [3.0, 2.0, None]})
    assert found == {"a": [0.25, 0.0, None], "b": [0.75, 1.0, None]}


def test_a_figure_of_very_many_layers_shows_the_largest(monkeypatch):
    monkeypatch.setattr(drawing, "MOST_PLACES", 3)
    places, series = (
        list("abcde"),
        {"x": [5.0, 1.0, None, 2.0, 0.0], "y": [None, 0.0, 9.0, 1.0, 0.5]},
    )
    title, shown, values = drawing._readable("Time", places, series)
    assert title == "Time, the largest 3 of 5"
    assert list(shown) == ["a", "c", "d"]
    assert values == {"x": [5.0, None, 2.0], "y": [None, 9.0, 1.0]}
    monkeypatch.setattr(drawing, "MOST_PLACES", 5)
    assert drawing._readable("Time", places, series) == ("Time", places, series)


def test_rates_far_apart_are_drawn_from_0_to_1():
    rates = {"x": [0.001, 0.9]}
    axis = drawn(figures.Plot(Grouped(["a", "b"], rates, "hits / accesses", 1.0)).element)["yaxis"]
    assert axis["range"] == [0, 1]
    assert (
        drawn(figures.Plot(Grouped(["a", "b"], rates, "bytes")).element)["yaxis"]["type"] == "log"
    )


def timed(name, *seconds):
    return result(name, *({"seconds": each} for each in seconds))


def test_the_steps_that_take_most_are_named_first():
    (run,) = summary.run_summaries(report_page.rows(bundle(), [timed("sim", 1.0, 3.0)]), [])
    assert [(each.step, each.share) for each in run.top] == [("s fwd", 0.75), ("a fwd", 0.25)]
    assert (run.seconds, run.mood, run.verdict) == ("4 s", "open", "not checked")


def test_a_baseline_says_how_much_faster_the_others_are(tmp_path):
    part = result("part", {"seconds": 1.0}, {})  # of some layers: it is left out
    ran = [timed("old", 4.0, 2.0), timed("new", 1.0, 4.0), timed("host", 1.0, 1.0), part]
    rows = report_page.rows(bundle(), ran, "b")
    told = [
        RunFacts("b", "old", (("options", "l1=4, l2=1"), ("ended", "then"), ("machine", "gpu=x"),
                              ("simulator", "24.0, l1=4"))),
        RunFacts("b", "new", (("options", "l1=8, l2=1"), ("ended", "now"),
                              ("machine", "gpu=x, units=2"), ("simulator", "25.0, l1=4"))),
    ]  # fmt: skip
    against = summary.against(rows, told, "b", "old")
    page = report_page.write(tmp_path, rows, told, against).read_text()
    here, line = against.passed_over
    assert here.endswith("b on host, as the times of this computer's CPU are not those of a GPU")
    assert line.endswith("as it has times of 1 of 2 layers and passes")
    assert f"N{line[1:]}." in page
    assert "options: l1=4 &rarr; l1=8" in page
    assert "machine: none &rarr; units=2" in page
    assert "simulator: 24.0, l1=4 &rarr; 25.0, l1=4" in page  # no settings alone
    assert "ended: then" not in page
    lines = list(csv.DictReader(io.StringIO((tmp_path / "baseline.csv").read_text())))
    assert [(each["layer"], each["speed_up"]) for each in lines] == [("a", "4"), ("s", "0.5")]


def test_a_baseline_that_is_none_is_refused():
    names = [("a", "cuda"), ("b", "cuda"), ("b", "host")]
    assert summary.baseline("b:cuda", names) == ("b", "cuda")
    assert summary.baseline("host", names) == ("b", "host")
    with pytest.raises(UsageError, match="several bundles have it; write a:cuda"):
        summary.baseline("cuda", names)
    with pytest.raises(UsageError, match="no such result; did you mean 'host'"):
        summary.baseline("hots", names)
    emulated = report_page.rows(
        bundle(), [result("emu", {"instructions": 1.0}, {}), timed("t", 1.0, 1.0)], "b"
    )
    with pytest.raises(UsageError, match="it counted no time"):
        summary.against(emulated, [], "b", "emu")
    with pytest.raises(UsageError, match="no other result can be compared with it"):
        summary.against(emulated, [], "b", "t")
    other = report_page.rows(one("other"), [timed("u", 1.0)], "c")
    with pytest.raises(UsageError, match="c on u has other layers"):
        summary.against([*emulated, *other], [], "b", "t")


def test_a_roof_is_that_of_the_machine():
    points = {"conv": (1e9, 1e6, 1e-3), "nothing": (0.0, 0.0, 0.0)}
    (spec,) = specs(figures.Plot(Roofline(points, 1e13, 1e12)).element)
    roof, dots = spec["data"]
    assert roof["y"][-1] == 1e13
    assert roof["x"][1] == 10  # operations per byte where the two rates meet
    assert dots["x"] == [1000]
    assert dots["y"] == [1e12]


def test_times_of_this_computers_cpu_are_no_correlation(tmp_path):
    rows = [
        row
        for nth in range(1, 5)
        for row in report_page.rows(one(f"s{nth}"), [timed("host", nth), timed("mgpusim", nth)])
    ]
    page = report_page.write(tmp_path, rows).read_text()
    assert "say nothing about a GPU" in page
    assert (tmp_path / "correlation.csv").read_text().count("\n") == 1


BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
LOOK = """<script>
  let errors = 0;
  addEventListener("error", () => errors++);
  setTimeout(() => {
    document.querySelectorAll("details").forEach((each) => each.open = true);
    document.querySelector("#metrics th:nth-child(4)").click();
    const filter = document.querySelector("#filter");
    filter.value = "SOFTMAXSOFT"; filter.dispatchEvent(new Event("input"));
  }, 2000);
  /* Figures are drawn when a frame sees them, or when they are printed: in virtual time,
   * Chromium has no frames at times. */
  const look = (left) => {
    const plots = document.querySelectorAll(".plot").length;
    const drawn = document.querySelectorAll(".plot .main-svg").length;
    if (drawn < plots && left > 0) {
      if (left == 1)
        ["beforeprint", "afterprint"].forEach((each) => dispatchEvent(new Event(each)));
      return setTimeout(() => look(left - 1), 500);
    }
    const wide = document.documentElement.scrollWidth - innerWidth;
    const rows = [...document.querySelectorAll("#metrics tbody tr")];
    const shown = rows.filter((each) => !each.hidden);
    document.title = JSON.stringify({
      errors, wide, shown: shown.length, drawn, plots,
      wider: [...document.querySelectorAll("body *")].filter((each) => !each.closest(".wide")
        && each.getBoundingClientRect().right > innerWidth)
        .map((each) => each.className || each.tagName) });
  };
  setTimeout(() => look(20), 6000);
</script>"""


@pytest.mark.skipif(not BROWSER, reason="there is no Chromium")
@pytest.mark.parametrize("width", [1400, 700])
def test_a_browser_draws_the_page_without_scrolling_sideways(tmp_path, width):
    rows = [
        row
        for name in ("softmax" * 9, "other")
        for row in report_page.rows(one(name), [timed("sim", 1.0), timed("cuda", 2.0)])
    ]
    page = report_page.write(tmp_path, rows, (), None)
    page.write_text(page.read_text().replace("</html>", f"{LOOK}</html>"))
    words = (
        "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},9000",
        "--virtual-time-budget=20000", "--dump-dom", f"--user-data-dir={tmp_path / 'profile'}",
    )  # fmt: skip
    command = [BROWSER, *words, page.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    told = json.loads(html.unescape(re.search(rb"<title>(.*?)</title>", done.stdout)[1].decode()))
    assert (told["errors"], told["shown"]) == (0, 2)
    assert told["wide"] <= 0, told["wider"]
    assert told["drawn"] >= told["plots"] > 0
