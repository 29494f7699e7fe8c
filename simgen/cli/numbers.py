"""Numbers on the command line: click's own types take NaN, and call a value an "integer range"."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from simgen.errors import printable

if TYPE_CHECKING:
    from click import Context, Parameter

    FloatType = click.ParamType[float]
else:
    FloatType = click.ParamType  # which the oldest click does not let be subscripted

LARGEST = 2**63  # of seconds, operations and all else that is no whole number


class Whole(click.IntRange):
    """A whole number from `min` to `max`, both included."""

    name = "whole number"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if abs(number) >= 2**63:
            self.fail(f"{printable(str(value))} is too large; write a smaller one", param, ctx)
        return number


class Real(click.FloatRange):
    """A finite number in a range."""

    name = "number"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number; write one", param, ctx)
        if abs(number) >= LARGEST:
            self.fail(f"{value!r} is too large; write one below {LARGEST:g}", param, ctx)
        return number


class Share(FloatType):
    """A part of a whole, up to a half: 5% or 0.05."""

    name = "share"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> float:
        try:
            text = str(value)
            found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            found = math.nan
        if not 0 < found <= 0.5:
            self.fail(f"{value!r} is not a part of the whole; write one such as 5%", param, ctx)
        return found


SECONDS = Real(0, min_open=True)
SEED = Whole(0, 2**63 - 1)
