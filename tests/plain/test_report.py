"""The report: metrics by layer, as a table, a CSV file and a page."""

import csv
import io
import xml.etree.ElementTree as ET
from pathlib import Path

from simgen import config, network, report, workload
from simgen.bundle import Bundle
from simgen.ir import Pass
from simgen.results import Result

TEXT = "[Activation]\nname=a\nn=2\nc=3\n[Softmax]\nname=<s>\nprevious_layer=a\n".replace("<s>", "s")


def bundle():
    net = network.resolve(config.parse(TEXT, "t.dnnmark"))
    return Bundle(Path("b"), {}, workload.lower(net, "net", (Pass.FORWARD,), 0))


def result(name, *launches):
    return Result(name, {}, launches, {})


def found():
    emulated = result("emulator", {"instructions": 10.0}, {"instructions": 20.0})
    timed = result(
        "simulator",
        {"seconds": 2.0, "l1_hits": 3.0, "l1_misses": 1.0, "valu_instructions": 5.0},
        {"seconds": 4.0, "l1_hits": 0.0, "l1_misses": 0.0, "valu_instructions": 7.0},
    )
    return report.rows(bundle(), [emulated, timed])


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
    assert report.derived(first)["l1_hit_rate"] == 0.75
    assert report.derived(first)["operations_per_second"] == first.operations / 2.0
    assert "l1_hit_rate" not in report.derived(second)  # nothing was accessed


def test_what_a_target_does_not_count_is_empty():
    lines = list(csv.DictReader(io.StringIO(report.to_csv(found()))))
    assert lines[0]["instructions"] == "10"
    assert lines[0]["seconds"] == ""
    assert float(lines[3]["seconds"]) == 4.0


def test_the_page_shows_all_and_is_the_same_twice(tmp_path):
    first = report.write(tmp_path / "one", found()).read_text()
    again = report.write(tmp_path / "two", found()).read_text()

    assert first == again
    assert first.count("<svg") == first.count("</svg>") >= 4
    assert "L1 hit rate" in first
    assert "L2 hit rate" not in first  # nobody counted it
    assert "simulator" in first
    for part in first.split("<svg")[1:]:
        ET.fromstring("<svg" + part[: part.index("</svg>") + 6])


def test_names_are_escaped_in_the_page(tmp_path):
    rows = report.rows(bundle(), [result("<b>&", {"seconds": 1.0}, {"seconds": 1.0})])
    page = report.write(tmp_path, rows).read_text()
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp;" in page
