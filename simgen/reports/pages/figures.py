"""Figures of a study as SVG text: the same bytes for the same numbers, text left as text."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

from simgen.reports.pages.series import is_wide, needs_log_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from simgen.reports.pages.series import Series

DOTS_PER_INCH = 96
HEIGHT = 3.6  # inches
SLANTED = 4  # more places than this have slanted names
PLAIN = (0.01, 1e4)  # ends of axes with plain numbers; others have 20 k, 3 G, 5 µ
COLUMNS = 3  # columns of a legend
COLOURS = 10  # colours of the default cycle
GROUP = 0.8  # part of the distance between two places that bars cover


def grouped(
    places: Sequence[str],
    series: Series,
    unit: str,
    whole: float | None = None,
    level: float | None = None,
) -> str:
    """A group of bars at each place, one for each of the series; None leaves a gap.

    The axis is logarithmic where linear bars would hide the small ones, but not where values are
    shares of a `whole`: it goes from 0 to that. At `level`, a line goes across.
    """
    figure, axes = _figure(places, len(series))
    width = GROUP / len(series)
    for nth, (label, values) in enumerate(series.items()):
        at = [place + (nth - (len(series) - 1) / 2) * width for place in range(len(places))]
        axes.bar(at, [value or 0.0 for value in values], width, label=_plain(label))
    if level is not None:
        axes.axhline(level, color="0.4", linewidth=1)
    if whole is None:
        _scale(axes, series)
    else:
        axes.set_ylim(0, whole)
    return _finish(figure, axes, places, unit)


def lines(
    values: Sequence[str], sizes: Sequence[float] | None, series: Series, across: str, unit: str
) -> str:
    """A line for each of the series over the values of an option, placed by what they measure,
    or one after the other where that is None; doublings have the same distance."""
    figure, axes = _figure(values, 1)
    at = list(sizes) if sizes else [float(place) for place in range(len(values))]
    for label, found in series.items():
        shown = [(x, y) for x, y in zip(at, found, strict=True) if y is not None]
        axes.plot([x for x, _ in shown], [y for _, y in shown], marker="o", label=_plain(label))
    if sizes and needs_log_axis(sizes):
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
    _scale(axes, series)
    axes.set_xlabel(_plain(across))
    return _finish(figure, axes, values, unit, at)


def stacked(places: Sequence[str], parts: Series, unit: str) -> str:
    """One bar at each place, of the parts from below to above."""
    figure, axes = _figure(places, 1)
    if len(parts) > COLOURS:  # no colour twice
        import matplotlib as mpl

        axes.set_prop_cycle(color=mpl.colormaps["tab20"].colors)  # type: ignore[attr-defined]
    base = [0.0] * len(places)
    for label, values in parts.items():
        heights = [value or 0.0 for value in values]
        axes.bar(range(len(places)), heights, 0.6, bottom=base, label=_plain(label))
        base = [low + height for low, height in zip(base, heights, strict=True)]
    axes.set_ylim(bottom=0)
    return _finish(figure, axes, places, unit)


def _plain(text: str) -> str:
    """A name as it is: between dollars it would be mathematics, and hidden behind a "_"."""
    shown = text.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def _figure(places: Sequence[str], bars: int) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    width = max(5.0, 1.6 + len(places) * max(0.5, 0.25 * bars))
    figure = Figure(figsize=(width, HEIGHT), dpi=DOTS_PER_INCH)
    return figure, figure.subplots()


def _scale(axes: Axes, series: Series) -> None:
    """A logarithmic axis where a linear one would hide the small values."""
    if is_wide(series):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)


def _finish(
    figure: Figure,
    axes: Axes,
    places: Sequence[str],
    unit: str,
    at: Sequence[float] | None = None,
) -> str:
    from matplotlib.ticker import EngFormatter

    slanted = len(places) > SLANTED
    axes.set_xticks(
        at or range(len(places)),
        [_plain(place) for place in places],
        rotation=35 if slanted else 0,
        ha="right" if slanted else "center",
        rotation_mode="anchor" if slanted else "default",
    )
    axes.set_ylabel(unit)
    if axes.get_yscale() == "linear" and not PLAIN[0] < axes.get_ylim()[1] < PLAIN[1]:
        axes.yaxis.set_major_formatter(EngFormatter())
    # Above the axes and to the left: a wide figure is read from there.
    axes.legend(
        frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=COLUMNS
    )
    return _svg(figure, axes)


def _svg(figure: Figure, axes: Axes) -> str:
    import matplotlib as mpl

    axes.spines[["top", "right"]].set_visible(False)
    text = io.StringIO()
    with (
        mpl.rc_context({"svg.hashsalt": "simgen", "svg.fonttype": "none"}),
        warnings.catch_warnings(),
    ):
        # The browser has glyphs that the font lacks by which the figure is laid out.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(text, format="svg", metadata={"Date": None}, bbox_inches="tight")
    svg = text.getvalue()
    return svg[svg.index("<svg") :]
