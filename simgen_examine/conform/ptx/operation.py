"""An opcode of PTX, read: its types and what it says of rounding, flushing and limits."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simgen_examine.conform.ptx.exact import NEAREST

FUNCTIONS: dict[str, Callable[..., Any]] = {}
_TYPE = re.compile(r"(?:[suf]|b|bf|tf)\d+(?:x2)?|pred")
_ROUNDINGS = ("rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna")


@dataclass(frozen=True)
class Either:
    """Results of which each is right."""

    first: int
    second: int


def does(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give the description a function by its name.

    It gets an `OpcodeText` and its sources: whole numbers, those of floats as their bits, those of
    predicates 0 or 1. It returns such a number; an `Either`; None where anything is right; a tuple
    of these, one for each result.
    """
    FUNCTIONS[function.__name__] = function
    return function


@dataclass(frozen=True)
class OpcodeText:
    """An opcode and what stands behind its operands."""

    name: str  # add.rn.ftz.f32
    tail: str = ""  # , 0x1b

    @functools.cached_property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.name.split("."))

    @property
    def root(self) -> str:
        return self.parts[0]

    @functools.cached_property
    def types(self) -> tuple[str, ...]:
        return tuple(each for each in self.parts if _TYPE.fullmatch(each))

    @property
    def type(self) -> str:
        """The last type, which most sources have."""
        return self.types[-1]

    def has(self, part: str) -> bool:
        """Whether the opcode says so."""
        return part in self.parts

    @property
    def ftz(self) -> bool:
        return "ftz" in self.parts

    @functools.cached_property
    def rounding(self) -> str:
        """ "rn", ..., or to whole numbers, "rni", ...; the nearest one where it says nothing."""
        return next((each for each in self.parts if each in _ROUNDINGS), NEAREST)


def width(type_: str) -> int:
    """Bits of a value."""
    if type_ == "pred":
        return 1
    return int(re.sub(r"\D", "", type_.removesuffix("x2"))) * (2 if type_.endswith("x2") else 1)


def signed(type_: str) -> bool:
    """Whether a whole number of the type may be below zero."""
    return type_.startswith("s")


def wrapped(number: int, type_: str) -> int:
    """A whole number as one of the type, what is above cut off."""
    bits = width(type_)
    low = number & (1 << bits) - 1
    return low - (1 << bits) if signed(type_) and low >> bits - 1 else low


def limited(number: int, type_: str) -> int:
    """The nearest whole number that the type has."""
    bits = width(type_)
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed(type_) else (0, (1 << bits) - 1)
    return min(max(number, least), most)
