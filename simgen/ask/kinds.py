"""Kinds of values that choices have: how one is read, and how it is written on the command line.

A value is read from its text, whether it comes from the command line, a file or Python, so that
every front accepts and refuses the same.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from simgen.errors import did_you_mean, whole_number

LONGEST = 100_000  # characters of a text
FLAGS = {"yes": True, "true": True, "no": False, "false": False}
LARGEST = 2**63
INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}
PAPER = (1.5, 20.0)  # inches


@dataclass(frozen=True)
class ValueKind:
    """A text."""

    metavar: str = "TEXT"
    python = "str"  # the type of its values
    several = False  # its values are tuples, and the option gives an item at a time

    def read(self, value: Any) -> Any:
        """The value that `value`, or its text, is.

        Raises:
            ValueError: it is none; the message is the cure, or "fact; cure".
        """
        text = os.fspath(value) if isinstance(value, os.PathLike) else value
        if isinstance(text, str) and len(text) <= LONGEST:
            return str(text)
        raise ValueError("write a text")

    def word(self, value: Any) -> str:
        """The value, or an item of it, as it is written on the command line."""
        return str(value)

    def to_json(self, value: Any) -> Any:
        return value

    @property
    def range(self) -> str:
        """The values that it may have, where they are numbers."""
        return ""


@dataclass(frozen=True)
class Path(ValueKind):
    """A file or folder."""

    python = "str | os.PathLike[str]"


@dataclass(frozen=True)
class Word(ValueKind):
    """One of some words."""

    values: tuple[str, ...] = ()

    def read(self, value: Any) -> str:
        if str(value) in self.values:
            return str(value)
        raise ValueError(f"unknown; {did_you_mean(str(value), self.values)}")


@dataclass(frozen=True)
class Flag(ValueKind):
    """Yes or no: an option without a value; `off` is one that says no."""

    off: str = ""
    python = "bool"

    def read(self, value: Any) -> bool:
        if (text := str(value).lower()) in FLAGS:
            return FLAGS[text]
        raise ValueError("write yes or no")


@dataclass(frozen=True)
class Whole(ValueKind):
    """A whole number in a range, both ends included."""

    least: int = 0
    most: int = LARGEST - 1
    metavar: str = "N"
    python = "int"

    def read(self, value: Any) -> int:
        text = str(value)
        if not re.fullmatch(r"-?\d+", text, re.ASCII):
            raise ValueError(whole_number(text, f"write a whole number, {self.range}"))
        found = int(text) if len(text) < 25 else LARGEST
        if self.least <= found <= self.most:
            return found
        below = ", below 2^63" if found >= LARGEST else ""
        raise ValueError(f"write a whole number, {self.range}{below}")

    @property
    def range(self) -> str:
        if self.most == LARGEST - 1:
            return f"{self.least} or more"
        return f"{self.least} to {self.most}"


@dataclass(frozen=True)
class Real(ValueKind):
    """A finite number in a range; `above` says that `least` is not part of it."""

    least: float = 0.0
    most: float = math.inf
    above: bool = False
    told: str = ""  # the range, in another way
    metavar: str = "R"
    python = "float"

    def read(self, value: Any) -> float:
        try:
            found = float(str(value))
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            raise ValueError("not a finite number; write one")
        if found >= LARGEST:  # seconds that no clock counts, for one
            raise ValueError(f"too large; write a number, {self.range}, below 2^63")
        if self.least <= found <= self.most and not (self.above and found == self.least):
            return found
        raise ValueError(f"write a number, {self.range}")

    @property
    def range(self) -> str:
        if math.isinf(self.most):
            return f"above {self.least:g}" if self.above else f"{self.least:g} or more"
        return self.told or f"{self.least:g} to {self.most:g}"


@dataclass(frozen=True)
class Share(ValueKind):
    """A part of a whole, up to a half: 5% or 0.05."""

    metavar: str = "P%"
    python = "float"

    def read(self, value: Any) -> float:
        text = str(value)
        try:
            found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            found = math.nan
        if 0 < found <= 0.5:
            return found
        raise ValueError("not a part of the whole; write one such as 0.05 or 5%")

    def word(self, value: float) -> str:
        text = f"{100 * value:g}%"
        return text if self.read(text) == value else repr(value)


@dataclass(frozen=True)
class Length(ValueKind):
    """A width on paper, kept in inches."""

    python = "str | float"

    def read(self, value: Any) -> float:
        text = f"{value}in" if isinstance(value, int | float) else str(value).strip()
        found = re.fullmatch(r"(\d{1,4}(?:\.\d{1,4})?) ?(in|cm|mm|pt)", text, re.ASCII)
        inches = float(found[1]) * INCHES[found[2]] if found else 0.0
        if PAPER[0] <= inches <= PAPER[1]:
            return inches
        raise ValueError(
            f"not a width of {PAPER[0]:g} to {PAPER[1]:g} in; write one such as 3.3in or 84mm"
        )

    def word(self, value: float) -> str:
        return f"{value:.4g}in"


@dataclass(frozen=True)
class NameList(ValueKind):
    """Names with commas between them, or a slice of a network; in Python, also several texts."""

    python = "str | Iterable[str]"

    def read(self, value: Any) -> str:
        words = [value] if isinstance(value, str) or not isinstance(value, Iterable) else value
        return ",".join(str(ValueKind.read(self, each)) for each in words)


@dataclass(frozen=True)
class Texts(ValueKind):
    """Texts or paths, each given by itself; in Python, one or several."""

    python = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
    several = True

    def read(self, value: Any) -> tuple[Any, ...]:
        alone = isinstance(value, str | os.PathLike) or not isinstance(value, Iterable)
        return tuple(map(self.item, [value] if alone else value))

    def item(self, value: Any) -> Any:
        """One of them."""
        return ValueKind.read(self, value)

    def to_json(self, value: tuple[Any, ...]) -> list[str]:
        return [self.word(each) for each in value]


@dataclass(frozen=True)
class Commas(Texts):
    """The same, where commas may part them, too."""

    def read(self, value: Any) -> tuple[str, ...]:
        return tuple(word.strip() for each in super().read(value) for word in each.split(","))


@dataclass(frozen=True)
class KeyValues(Texts):
    """KEY=VALUE, each given by itself; in Python, a mapping. The last one of a key counts."""

    python = "Mapping[str, str | int | float | bool]"

    def read(self, value: Any) -> tuple[tuple[str, str], ...]:
        found: dict[str, str] = {}
        for key, text in super().read(value.items() if isinstance(value, Mapping) else value):
            found.pop(key, None)  # in the place of the last one
            found[key] = text
        return tuple(found.items())

    def item(self, value: Any) -> tuple[str, str]:
        if isinstance(value, tuple) and len(value) == 2:
            key, given = value
            text = str(given).lower() if isinstance(given, bool) else str(given)
            if isinstance(key, str) and len(text) <= LONGEST:
                return key, text.strip()
        elif isinstance(value, str) and len(value) <= LONGEST:
            key, equals, text = value.partition("=")
            if equals and key.strip():
                return key.strip(), text.strip(" \t")
        raise ValueError("not a setting; write KEY=VALUE, such as n=4", value)

    def word(self, value: tuple[str, str]) -> str:
        return f"{value[0]}={value[1]}"


@dataclass(frozen=True)
class Options(ValueKind):
    """Options that a target brings: the command line has one of its own for each of them."""

    python = "Mapping[str, str | int]"
    several = True

    def read(self, value: Any) -> Mapping[str, str | int]:
        if isinstance(value, Mapping) and all(
            isinstance(k, str) and type(v) in (str, int) for k, v in value.items()
        ):
            return dict(value)
        raise ValueError("write values by the names of options")
