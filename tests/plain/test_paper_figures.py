"""Figures that leave the page: their size, their type, and that colours are not needed."""

import re
import struct
import xml.etree.ElementTree as ET

import pytest

from simgen.ask.kinds import Length
from simgen.ask.report import FigureChoices
from simgen.errors import UsageError
from simgen.reports.pages import figures, latex, limits, still
from simgen.reports.pages.row import Row
from simgen.reports.pages.series import Curves, Dotted, Front, Grouped, Roofline, Stacked

LAYERS = [f"conv{n} fwd" for n in range(9)]
DOTS = {n: (1.0 + at, 9.0 - at) for at, n in enumerate(LAYERS)}
EVERY_KIND = {
    "grouped": figures.Plot(Grouped(LAYERS, {"a$": [1.0] * 9, "_b": [None, *[2.0] * 8]}, "bytes")),
    "stacked": figures.Plot(
        Stacked(LAYERS, {"a": [1.0] * 9, "b": [2.0] * 9}, "s", {"a": [0.1] * 9})
    ),
    "curves": figures.Plot(
        Curves(["4", "8", "16"], [4, 8, 16], {"x": [1, 2, 3]}, "units", "s", [1, 2, 4])
    ),
    "dotted": figures.Plot(Dotted(DOTS, "a", "b", 2.0)),
    "front": figures.Plot(Front(DOTS, LAYERS[:3], "a", "b")),
    "roofline": figures.Plot(Roofline(dict.fromkeys(LAYERS, (1e9, 1e6, 1e-3)), 1e13, 1e12)),
}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_file_is_as_wide_as_asked_and_embeds_its_fonts(tmp_path, kind):
    plot = EVERY_KIND[kind]
    paths = [tmp_path / f"x.{form}" for form in ("pdf", "svg", "png")]
    plot.save(*paths, inches=3.3)
    pdf, svg, png = (path.read_bytes() for path in paths)
    box = re.search(rb"/MediaBox \[ ([0-9. ]+) \]", pdf)[1].split()
    assert float(box[2]) == pytest.approx(3.3 * 72)
    assert b"/FontFile2" in pdf  # TrueType; publishers refuse Type 3
    assert b"/Type3" not in pdf
    assert float(ET.fromstring(svg).get("width").removesuffix("pt")) == pytest.approx(3.3 * 72)
    assert b"<text" not in svg  # outlines need no font
    assert struct.unpack(">I", png[16:20])[0] == 990  # 300 dots in an inch
    again = [tmp_path / f"y.{form}" for form in ("pdf", "svg", "png")]
    plot.save(*again, inches=3.3)
    assert [path.read_bytes() for path in again] == [pdf, svg, png]


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_browser_and_paper_draw_the_same_kinds(kind):
    assert '<div class="plot"' in EVERY_KIND[kind].element
    assert EVERY_KIND[kind].svg.startswith("<svg")


def test_no_two_series_look_the_same():
    looks = [tuple(sorted(still._bar(nth, "").items())) for nth in range(56)]
    assert len(set(looks)) == 56


@pytest.mark.parametrize(
    ("text", "inches"), [("3.3in", 3.3), ("84mm", 84 / 25.4), ("8.4 cm", 8.4 / 2.54), (3.5, 3.5)]
)
def test_a_width_has_a_unit(text, inches):
    assert Length().read(text) == pytest.approx(inches)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"figures": "jpg"}, "--figures 'jpg': unknown format"),
        ({"width": "3.3in"}, "--width: it is for figures; add --figures pdf"),
        ({"figures": "pdf", "width": "3 ells"}, "--width '3 ells': not a width of 1.5 to 20 in"),
        ({"figures": "pdf", "width": "1in"}, "--width '1in': not a width"),
    ],
)
def test_what_is_no_figure_is_refused(given, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        FigureChoices(**given)


def row(seconds, operations=0, nbytes=0, launch=0.0, roof=(1e12, 1e9), **counts):
    return Row("b", "w", "m", "conv_1", "fwd", "f32", "t@n=4", operations, nbytes,
               {"seconds": seconds, **counts}, roof=roof, launch_seconds=launch)  # fmt: skip


# 32 of 160 slots of a unit are taken, and 2 of 4 units have work: a tenth in all.
FEW = {"wavefront_cycles": 32.0, "wavefront_slot_cycles": 160.0, "cu_active_cycles": 2.0,
       "cu_cycles": 4.0}  # fmt: skip


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (row(1.0, operations=600_000_000_000), "compute 60%"),
        (row(1.0, nbytes=700_000_000), "bandwidth 70%"),
        (row(1.0, launch=0.9), "launch 90%"),
        (row(1.0, launch=0.2, nbytes=300_000_000), "latency (bandwidth 30%)"),
        (row(1.0, launch=0.2, **FEW), "occupancy 10%"),
        (row(1.0, launch=0.6, **FEW), "launch 60%"),
        (row(1.0, launch=0.4, **FEW), "latency (launch 40%)"),
        (row(1.0, launch=0.2, **{**FEW, "wavefront_cycles": 96.0}), "latency (launch 20%)"),
        (row(1.0, roof=None), "None"),
    ],
)
def test_the_largest_bound_limits_a_layer_and_latency_where_none_is_half(found, said):
    assert str(limits.limit_of(found)) == said


def test_latex_gets_names_as_they_are(tmp_path):
    head = {"title": "50% & more_", "author": "", "sentences": ["It took 5 us."], "summary": [],
            "against": None}  # fmt: skip
    text = latex.text([row(5e-6)], [("A_b", tmp_path / "figures/01-a.pdf")], tmp_path, head)
    assert r"\title{50\% \& more\_}" in text
    assert r"It took 5\,\textmu{}s." in text
    assert r"\includegraphics{figures/01-a.pdf}" in text
    assert r"b & t@n=4 & conv\_1 fwd" in text
    assert text.count(r"\begin{") == text.count(r"\end{")
