"""Figures as values: a browser draws one from Plotly's JSON, Matplotlib draws it for paper."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.ask.report import COLUMN, FORMATS, FigureChoices
from simgen.ground.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from simgen.reports.pages.series import Picture

FOLDER = "figures"
LONGEST = 60  # letters of a file's name
OWN = re.compile(rf"\d\d-[a-z0-9-]{{1,{LONGEST}}}\.({'|'.join(FORMATS)})")


@dataclass(frozen=True)
class Plot:
    """A figure that can be drawn."""

    shown: Picture

    @property
    def element(self) -> str:
        """HTML that the script of a page draws."""
        from simgen.reports.pages import interactive

        return str(getattr(interactive, self.shown.kind)(self.shown))

    @property
    def svg(self) -> str:
        """SVG for a page, with text as text; the same bytes for the same values."""
        from simgen.reports.pages import still

        return still.svg(self.shown)

    def _repr_html_(self) -> str:
        return self.svg

    def save(self, *paths: Path, inches: float = COLUMN) -> None:
        """Write it, as the format that the ending of each path names."""
        from simgen.reports.pages import still

        forms = [path.suffix[1:] for path in paths]
        for path, data in zip(paths, still.printed(self.shown, forms, inches), strict=True):
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
