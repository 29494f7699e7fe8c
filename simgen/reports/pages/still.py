"""Figures that Matplotlib draws: SVG of a study's page, and files for paper.

Bars have hatches and lines have markers, so that colours are not needed. The colours are those of
M. Okabe and K. Ito, "Color Universal Design" (2008), which people with any kind of colour vision
tell apart. The same numbers make the same bytes.
"""

from __future__ import annotations

import importlib.util
import io
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.errors import MissingError
from simgen.ground.metrics import quantity
from simgen.reports.pages.series import is_wide, needs_log_axis, outliers, roofs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from simgen.reports.pages.series import (
        Curves,
        Dotted,
        Front,
        Grouped,
        Picture,
        Roofline,
        Series,
        Stacked,
    )  # fmt: skip

DOTS_PER_INCH, PRINTED_DOTS = 96, 300
SLANTED = 4  # more places than this have slanted names
PLAIN = (0.01, 1e4)  # ends of axes with plain numbers; others have 20 k, 3 G, 5 µ
GROUP = 0.8  # part of the distance between two places that bars cover
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#777777",
)  # fmt: skip
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "||||", "++++")
MARKERS = "osD^vP*X"
LETTER = 0.55  # width of a letter on average, as a part of the size of the type
LONGEST = 28  # letters of a name below an axis or in a legend
UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
POINTS = 72  # in an inch
NAME = 0.13  # inches that an upright name takes of the width


@dataclass(frozen=True)
class Look:
    """The size of a figure and of its type; inches and points."""

    width: float
    height: float
    size: float
    paper: bool

    def letters(self, columns: int) -> int:
        """Letters of a legend's entry that leave room for so many columns."""
        return int(self.width * POINTS / columns / (self.size * LETTER)) - 5


def svg(of: Picture) -> str:
    """SVG as a page has it: it is as wide as its places want, and text stays text."""
    places = getattr(of, "places", getattr(of, "values", ()))
    bars = len(getattr(of, "series", ())) if of.kind == "grouped" else 1
    width = max(5.0, 1.6 + len(places) * max(0.5, 0.25 * bars))
    (text,) = _saved(of, Look(width, 3.6, 9, paper=False), ["svg"], "none")
    return text.decode()[text.index(b"<svg") :]


def printed(of: Picture, forms: Sequence[str], inches: float) -> list[bytes]:
    """Files for paper: as wide as that, their type 7 to 9 points, their fonts embedded."""
    height = min(max(0.62 * inches, 1.9), 4.5)
    return _saved(of, Look(inches, height, 8, paper=True), forms, "path")


def need() -> None:
    """See that Matplotlib is here: before long work whose figures it draws.

    Raises:
        MissingError: it is not.
    """
    if importlib.util.find_spec("matplotlib") is None:
        cure = "install it: python -m pip install matplotlib (the extra `figures`)"
        raise MissingError(f"figures: matplotlib is not installed; {cure}")


def _saved(of: Picture, look: Look, forms: Sequence[str], letters: str) -> list[bytes]:
    need()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    settings: Any = {
        "font.size": look.size, "axes.labelsize": look.size, "xtick.labelsize": look.size - 1,
        "ytick.labelsize": look.size - 1, "legend.fontsize": look.size - 1,
        "hatch.linewidth": 0.4, "lines.linewidth": 1.2, "lines.markersize": 4,
        "axes.linewidth": 0.6, "pdf.fonttype": 42, "svg.hashsalt": "simgen",
        "svg.fonttype": letters,
    }  # fmt: skip
    made = []
    with mpl.rc_context(settings), warnings.catch_warnings():
        # The reader of an SVG has glyphs that the font lacks by which the figure is laid out.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure = Figure((look.width, look.height), DOTS_PER_INCH, layout="constrained")
        axes = figure.subplots()
        _DRAWS[of.kind](axes, look, of)
        axes.spines[["top", "right"]].set_visible(False)
        _legend(figure, axes, look)
        for form in forms:
            out = io.BytesIO()
            dots = PRINTED_DOTS if form == "png" else DOTS_PER_INCH
            figure.savefig(out, format=form, metadata=UNDATED.get(form), dpi=dots)
            made.append(out.getvalue())
    return made


# ------------------------------------------------------------------ kinds of figures


def _grouped(axes: Axes, look: Look, of: Grouped) -> None:
    places, series = _cut(_fitting(look, of.series), of.places, of.series)
    width = GROUP / len(series)
    for nth, (label, values) in enumerate(series.items()):
        at = [place + (nth - (len(series) - 1) / 2) * width for place in range(len(places))]
        axes.bar(at, [value or 0.0 for value in values], width, **_bar(nth, label))
    if of.level is not None:
        axes.axhline(of.level, color="0.4", linewidth=1)
    if of.whole is None:
        _scale(axes, series)
    else:
        axes.set_ylim(0, of.whole)
    _name(axes, look, places, of.unit)


def _stacked(axes: Axes, look: Look, of: Stacked) -> None:
    kept = _fitting(look, of.parts)
    _, halves = _cut(kept, of.places, of.errors or {})
    places, parts = _cut(kept, of.places, {k: v for k, v in of.parts.items() if any(v)} or of.parts)
    base = [0.0] * len(places)
    for nth, (label, values) in enumerate(parts.items()):
        heights = [value or 0.0 for value in values]
        half = [value or 0.0 for value in halves.get(label, ())]
        style = {"error_kw": {"elinewidth": 0.8, "capsize": 2}, **_bar(nth, label)}
        style["yerr"] = half if any(half) else None
        axes.bar(range(len(places)), heights, 0.6, bottom=base, **style)
        base = [low + height for low, height in zip(base, heights, strict=True)]
    axes.set_ylim(bottom=0)
    axes.set_xlabel(_plain(of.across))
    _name(axes, look, places, of.unit)


def _curves(axes: Axes, look: Look, of: Curves) -> None:
    at = list(of.sizes) if of.sizes else [float(place) for place in range(len(of.values))]
    if of.ideal:
        axes.plot(at, of.ideal, color="0.5", linestyle="--", linewidth=0.9, label="ideal")
    for nth, (label, found) in enumerate(of.series.items()):
        shown = [(x, y) for x, y in zip(at, found, strict=True) if y is not None]
        style: Any = {"color": COLOURS[nth % len(COLOURS)], "marker": MARKERS[nth % len(MARKERS)]}
        axes.plot([x for x, _ in shown], [y for _, y in shown], label=_plain(label), **style)
    if of.sizes and needs_log_axis(of.sizes):
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
    if of.ideal and of.sizes and needs_log_axis(of.sizes):
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        _scale(axes, of.series)
    axes.set_xlabel(_plain(of.across))
    _name(axes, look, of.values, of.unit, at)


def _dotted(axes: Axes, look: Look, of: Dotted) -> None:
    ends = [value for point in of.points.values() for value in point]
    span = [10.0 ** math.floor(math.log10(min(ends))), 10.0 ** math.ceil(math.log10(max(ends)))]
    axes.plot(span, span, color="0.7", linewidth=0.9, label="equal")
    if of.scale:
        fit = [end / of.scale for end in span]
        axes.plot(span, fit, color=COLOURS[3], linestyle="--", label=f"x = {of.scale:.3g} y")
    worst = outliers(of.points, of.scale)
    _dots(axes, list(of.points.values()), "layers")
    for name in worst:
        axes.annotate(_short(name), of.points[name], fontsize=look.size - 1, ha="center",
                      xytext=(0, 4), textcoords="offset points")  # fmt: skip
    _log(axes, of.across, of.up)


def _front(axes: Axes, look: Look, of: Front) -> None:
    ends = sorted(of.points[name] for name in of.best)
    style: dict[str, Any] = {"color": COLOURS[0], "marker": "o", "label": "on the front"}
    axes.plot([x for x, _ in ends], [y for _, y in ends], **style)
    others = [of.points[name] for name in of.points if name not in of.best]
    if others:
        _dots(axes, others, "the others", COLOURS[3], "s")
    for axis, scale, nth in (
        (axes.set_xlim, axes.set_xscale, 0),
        (axes.set_ylim, axes.set_yscale, 1),
    ):
        if is_wide({"": [point[nth] for point in of.points.values()]}):
            scale("log")
        else:
            axis(0)
    axes.set_xlabel(_plain(of.across))
    axes.set_ylabel(_plain(of.up))
    _engineer(axes)


def _roofline(axes: Axes, look: Look, of: Roofline) -> None:
    shown, (low, ridge, high) = roofs(of.points, of.operations, of.rate)
    label = f"{quantity(of.operations, 'op/s')}, {quantity(of.rate, 'B/s')}"
    axes.plot(
        [low, ridge, high], [low * of.rate, of.operations, of.operations], color="0.25", label=label
    )
    total = sum(t for _, _, t in of.points.values())
    sizes = [8 + 120 * of.points[name][2] / total for name in shown]
    at = list(shown.values())
    _dots(axes, at, "layers", size=sizes)
    _log(axes, "operations per byte", "operations/s")


_DRAWS: dict[str, Callable[..., None]] = {
    "grouped": _grouped, "stacked": _stacked, "curves": _curves, "dotted": _dotted,
    "front": _front, "roofline": _roofline,
}  # fmt: skip


# ------------------------------------------------------------------ what they have in common


def _plain(text: str) -> str:
    """A name as it is: between dollars it would be mathematics, and hidden behind a "_"."""
    shown = text.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def _short(text: str, most: int = LONGEST) -> str:
    """A name with its middle left out, where it is longer than that."""
    most = max(most, 8)
    if len(text) > most:
        text = f"{text[: most // 2 - 1]}…{text[-(most - most // 2) :]}"
    return _plain(text)


def _bar(nth: int, label: str) -> dict[str, Any]:
    """Colours and hatches repeat with different periods: no two of 56 look the same."""
    hatch = HATCHES[(nth + nth // len(COLOURS)) % len(HATCHES)]
    look = {"color": COLOURS[nth % len(COLOURS)], "edgecolor": "white", "linewidth": 0}
    return {**look, "hatch": hatch, "label": _plain(label)}


def _dots(
    axes: Axes,
    at: Sequence[tuple[float, float]],
    label: str,
    colour: str = COLOURS[0],
    marker: str = "o",
    size: float | Sequence[float] = 16,
) -> None:
    x, y = [x for x, _ in at], [y for _, y in at]
    axes.scatter(
        x, y, size, c=colour, marker=marker, alpha=0.8, linewidths=0, label=label, zorder=3
    )


def _fitting(look: Look, series: Series) -> list[int]:
    """As many places as have names beside each other on paper: those with the largest values."""
    weights = [sum(abs(value or 0.0) for value in values) for values in zip(*series.values())]
    room = max(int((look.width - 0.6) / NAME), 4) if look.paper else len(weights)
    return sorted(sorted(range(len(weights)), key=lambda at: -weights[at])[:room])


def _cut(
    kept: Sequence[int], places: Sequence[str], series: Series
) -> tuple[list[str], dict[str, Sequence[float | None]]]:
    cut: dict[str, Sequence[float | None]]
    cut = {label: [values[at] for at in kept] for label, values in series.items()}
    return [places[at] for at in kept], cut


def _scale(axes: Axes, series: Series) -> None:
    """A logarithmic axis where a linear one would hide the small values."""
    if is_wide(series):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)


def _log(axes: Axes, across: str, up: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(_plain(across))
    axes.set_ylabel(_plain(up))


def _engineer(axes: Axes) -> None:
    from matplotlib.ticker import EngFormatter

    for axis, scale, end in (
        (axes.xaxis, axes.get_xscale(), axes.get_xlim()[1]),
        (axes.yaxis, axes.get_yscale(), axes.get_ylim()[1]),
    ):
        if scale == "linear" and not PLAIN[0] < end < PLAIN[1]:
            axis.set_major_formatter(EngFormatter())


def _name(
    axes: Axes, look: Look, places: Sequence[str], unit: str, at: Sequence[float] | None = None
) -> None:
    from matplotlib.ticker import EngFormatter

    letters = look.letters(len(places)) + 5 if look.paper else 0
    fits = len(places) <= SLANTED and (not look.paper or max(map(len, places), default=0) < letters)
    upright = look.paper and len(places) * 2.2 * NAME > look.width
    axes.set_xticks(
        at or range(len(places)),
        [_short(place) for place in places],
        rotation=0 if fits or at else 90 if upright else 35,
        ha="center" if fits or at or upright else "right",
        va="top",
        rotation_mode="default" if fits or at or upright else "anchor",
    )
    axes.set_ylabel(unit)
    if axes.get_yscale() == "linear" and not PLAIN[0] < axes.get_ylim()[1] < PLAIN[1]:
        axes.yaxis.set_major_formatter(EngFormatter())


def _legend(figure: Figure, axes: Axes, look: Look) -> None:
    """Above the axes and to the left: a wide figure is read from there."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    longest = max(map(len, labels))
    columns = next((n for n in (4, 3, 2) if longest <= look.letters(n) and n <= len(labels)), 1)
    names = [_short(label, max(look.letters(columns), 12)) for label in labels]
    rows = -(-len(labels) // columns)
    if look.paper:  # the axes keep their height
        figure.set_figheight(look.height + max(rows - 2, 0) * 1.45 * look.size / POINTS)
    figure.legend(handles, names, frameon=False, loc="outside upper left", ncols=columns,
                  handlelength=1.4, columnspacing=1.0, borderaxespad=0.2)  # fmt: skip
