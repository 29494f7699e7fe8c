"""Figures as values: a browser draws one from Plotly's JSON, Matplotlib draws it for paper."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.ask.report import COLUMN, FORMATS
from simgen.ground.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from simgen.ask.report import FigureChoices
    from simgen.reports.pages.series import Series

FOLDER = "figures"
LONGEST = 60  # letters of a file's name
OWN = re.compile(rf"\d\d-[a-z0-9-]{{1,{LONGEST}}}\.({'|'.join(FORMATS)})")


@dataclass(frozen=True)
class Plot:
    """A figure: which one it is, and what it shows."""

    kind: str  # a function of simgen.reports.pages.interactive and still
    shown: Mapping[str, Any]

    @property
    def element(self) -> str:
        """HTML that the script of a page draws."""
        from simgen.reports.pages import interactive

        return str(getattr(interactive, self.kind)(**self.shown))

    @property
    def svg(self) -> str:
        """SVG for a page, with text as text; the same bytes for the same values."""
        from simgen.reports.pages import still

        return still.svg(self.kind, self.shown)

    def _repr_html_(self) -> str:
        return self.svg

    def save(self, *paths: Path, inches: float = COLUMN) -> None:
        """Write it, as the format that the ending of each path names."""
        from simgen.reports.pages import still

        forms = [path.suffix[1:] for path in paths]
        for path, data in zip(
            paths, still.printed(self.kind, self.shown, forms, inches), strict=True
        ):
            write_atomic(path, data)


def write(
    folder: Path, drawn: Iterable[tuple[str, Plot]], wanted: FigureChoices
) -> list[tuple[str, Path]]:
    """Write the figures that are wanted, NN-TITLE.FORMAT each; title and path of each, of the
    first format."""
    made = []
    if wanted.figures:
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():  # figures of an earlier report, and nobody else's files
            if OWN.fullmatch(path.name):
                path.unlink()
    for nth, (title, plot) in enumerate(drawn if wanted.figures else (), 1):
        name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:LONGEST].rstrip("-")
        paths = [folder / f"{nth:02}-{name}.{form}" for form in wanted.figures]
        plot.save(*paths, inches=wanted.inches)
        made.append((title, paths[0]))
    return made


def grouped(
    places: Sequence[str],
    series: Series,
    unit: str,
    whole: float | None = None,
    level: float | None = None,
) -> Plot:
    """A group of bars at each place, one for each of the series; None leaves a gap.

    The axis is logarithmic where linear bars would hide the small ones, but not where values are
    shares of a `whole`: it goes from 0 to that. At `level`, a line goes across.
    """
    return Plot("grouped", {"places": places, "series": series, "unit": unit, "whole": whole,
                            "level": level})  # fmt: skip


def stacked(
    places: Sequence[str],
    parts: Series,
    unit: str,
    errors: Series | None = None,
    across: str = "",
) -> Plot:
    """One bar at each place, of the parts from below to above; `errors` are half of the interval
    of a part, at its end. `across` is what the places are values of."""
    return Plot("stacked", {"places": places, "parts": parts, "unit": unit, "errors": errors,
                            "across": across})  # fmt: skip


def lines(
    values: Sequence[str],
    sizes: Sequence[float] | None,
    series: Series,
    across: str,
    unit: str,
    ideal: Sequence[float] | None = None,
) -> Plot:
    """A line for each of the series over the values of an option, placed by what they measure,
    or one after the other where that is None; doublings have the same distance. `ideal` is a
    broken line behind them."""
    return Plot("lines", {"values": values, "sizes": sizes, "series": series, "across": across,
                          "unit": unit, "ideal": ideal})  # fmt: skip


def against(
    points: Mapping[str, tuple[float, float]], across: str, up: str, scale: float | None
) -> Plot:
    """A dot for each name's (x, y), x and y above 0, on logarithmic axes, with the lines y = x and
    x = `scale` y. The dots farthest from that line have their names beside them."""
    return Plot("against", {"points": points, "across": across, "up": up, "scale": scale})


def front(
    points: Mapping[str, tuple[float, float]], best: Collection[str], across: str, up: str
) -> Plot:
    """A dot for each name's (x, y), and a line through the `best` of them, on logarithmic axes
    where values are wide apart."""
    return Plot("front", {"points": points, "best": best, "across": across, "up": up})


def roofline(
    points: Mapping[str, tuple[float, float, float]], operations: float, rate: float
) -> Plot:
    """A dot for each name's (operations, bytes, seconds), all above 0, below the roof of a machine
    that does `operations` and moves `rate` bytes in a second; larger ones take more of the time.

    Williams, Waterman, Patterson: Roofline, CACM 52 (2009).
    """
    return Plot("roofline", {"points": points, "operations": operations, "rate": rate})
