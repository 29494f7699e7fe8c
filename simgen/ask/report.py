"""What a report, or a study's figures, are asked for."""

from __future__ import annotations

from dataclasses import KW_ONLY  # noqa: TC003 - a marker that dataclasses look for
from typing import TYPE_CHECKING, TypeAlias

from simgen.ask.choice import Asked, ChoiceField, asking, choice
from simgen.ask.kinds import Commas, Length, ValueKind, Word
from simgen.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from simgen.ask.build import Text, Words

    Width: TypeAlias = ChoiceField[str | float | None, float | None]

FORMATS = ("pdf", "svg", "png")
COLUMN = 3.3  # inches: a column of most proceedings


# fmt: off
@asking
class FigureChoices(Asked):
    """How figures leave the page."""

    _: KW_ONLY
    figures: Words = choice("--figures", Commas("F,F"), (), completes="figures", text=
        "Also write the figures to DIR/figures, as pdf, svg or png.")
    width: Width = choice("--width", Length("W"), text=
        "Width of these figures, such as 3.3in or 84mm. [default: 3.3in]")

    def __post_init__(self) -> None:
        """
        Raises:
            UsageError: there is no such format, or a width without one.
        """
        choice = FigureChoices
        for word in self.figures:
            if word not in FORMATS:
                cure = did_you_mean(word, FORMATS)
                raise UsageError(f"{choice.figures} {word!r}: unknown format; {cure}")
        if self.width and not self.figures:
            raise UsageError(f"{choice.width}: it is for figures; add {choice.figures} pdf")

    @property
    def inches(self) -> float:
        return self.width or COLUMN


@asking
class ReportChoices(FigureChoices):
    """How a report looks."""

    _: KW_ONLY
    title: Text = choice("--title", ValueKind(), text="Title of the report.")
    author: Text = choice("--author", ValueKind(), text="Author, below the title.")
    form: Text = choice("--as", Word("", ("html", "tex")), text=
        "With tex, DIR/report.tex too: tables and figures for a paper.")
# fmt: on
