"""A report as LaTeX, `report.tex`: a table of the results, one of the layers, and the figures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simgen.ground.metrics import seconds
from simgen.kernels import render
from simgen.reports.pages import limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simgen.reports.pages.row import Row

FILE = "report.tex"
SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{each: f"\\{each}" for each in "&%$#_{}"},
}  # fmt: skip


def escaped(text: str) -> str:
    """A text as LaTeX prints it."""
    shown = "".join(SPECIAL.get(letter, letter) for letter in text)
    return re.sub(r"(?<=\d) us\b", r"\\,\\textmu{}s", shown).replace("…", r"\ldots{}")


def text(
    found: Sequence[Row],
    drawn: Sequence[tuple[str, Path]],
    folder: Path,
    head: Mapping[str, object],
) -> str:
    """The file, with paths of the figures from `folder`."""
    layers = [
        (
            row.bundle, row.result, row.step, row.kind,
            seconds(row.metrics["seconds"]) if row.metrics.get("seconds") else "",
            str(limits.limit_of(row) or ""), row.verdict,
        )
        for row in found
    ]  # fmt: skip
    pictures = [(title, path.relative_to(folder).as_posix()) for title, path in drawn]
    return render.text("report.tex.j2", escaped=escaped, layers=layers, pictures=pictures, **head)
