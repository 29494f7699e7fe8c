"""What a notebook shows of values: a line, a table, a figure."""

from handmade import build, lowered_text, run_by_hand

import simgen

NET = "[Softmax]\nname=a\nn=4\nc=10\nh=1\nw=1\n"


def test_values_have_a_line_and_a_table_and_figures_are_objects(tmp_path):
    made = build(tmp_path / "net", lowered_text(NET))
    run_by_hand(made)
    bundle = simgen.load(tmp_path / "net")
    verdict = bundle.diff()
    assert repr(verdict).endswith("net: 1 result, 1 tensor: all right>")
    assert "<td>a.y</td><td>same</td>" in verdict._repr_html_()
    assert repr(bundle.result("cuda")).startswith("<Result cuda: 1 launches, 1 outputs")
    report = simgen.report([bundle], tmp_path / "out", figures="svg", width="84mm")
    assert "1 results, 1 rows>" in repr(report)
    assert "<td>a</td><td>fwd</td>" in report._repr_html_()
    plot = report.figures["Time by layer: cuda"]
    assert plot._repr_html_().startswith("<svg")
    assert len(list((tmp_path / "out/figures").glob("*.svg"))) == len(report.figures)
