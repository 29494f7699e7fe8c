"""A sweep: one bundle on one target, at each point of a grid of the target's run options.

A point is a result of its own, in a folder beside the target's: `TARGET@OPTION=VALUE,...`, with the
options in the order in which the target has them. What is asked for again is found by its name, so
that a sweep goes on where it ended, and grows.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.errors import UsageError, did_you_mean, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.targets import Target

MARK = "@"  # between a target and a point
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([KMG]i|[kMG])?(?:B|Hz)?")


@dataclass(frozen=True)
class Point:
    """One run of a sweep."""

    target: str
    options: Mapping[str, str | int]  # of `simgen run`, in the order in which the target has them

    @property
    def name(self) -> str:
        """Of the result: letters, digits and .,=_@- only."""
        return f"{self.target}{MARK}" + ",".join(f"{k}={v}" for k, v in self.options.items())


def points(target: Target, grid: Sequence[str], fixed: Mapping[str, str | int]) -> list[Point]:
    """The points of a grid of `OPTION=VALUE,VALUE...`, the last option varying fastest.

    `fixed` are options that have one value throughout; they are part of each point.

    Raises:
        UsageError: the target has no such option, an option stands twice, or a value is none of it.
    """
    values: dict[str, list[str | int]] = {}
    for text in grid:
        name, found = _axis(target, text)
        if name in values or name in fixed:
            raise UsageError(f"--sweep {printable(text)}: {name} is given twice; leave one out")
        values[name] = found
    made = [dict(zip(values, each)) for each in itertools.product(*values.values())]
    return [
        Point(target.name, {k: all_[k] for k in target.run_options if k in all_})
        for all_ in ({**fixed, **each} for each in made)
    ]


def _axis(target: Target, text: str) -> tuple[str, list[str | int]]:
    """An option and its values, each once, from `OPTION=VALUE,VALUE...`."""
    place = f"--sweep {printable(text)}"
    word, equals, rest = text.partition("=")
    name = word.strip().removeprefix("--").replace("-", "_")
    if not equals or not name:
        raise UsageError(f"{place}: no option with values; write OPTION=VALUE,VALUE")
    option = target.run_options.get(name)
    if option is None:
        cure = did_you_mean(name, target.run_options)
        raise UsageError(f"{place}: {target.name} has no such option; {cure}")
    try:
        return name, list(dict.fromkeys(option.read(each.strip()) for each in rest.split(",")))
    except ValueError as error:
        raise UsageError(f"{place}: {error}") from None


def target_of(result: str) -> str:
    """The target of a result, of a sweep or not."""
    return result.partition(MARK)[0]


def options_of(result: str) -> dict[str, str]:
    """The options of a point by the name of its result; empty where it is of no sweep."""
    pairs = [each.partition("=") for each in result.partition(MARK)[2].split(",")]
    return {name: value for name, equals, value in pairs if equals}


def magnitude(value: str) -> float | None:
    """What a value measures, in bytes, Hz or pieces: 1024.0 of "1KiB". None of a word."""
    found = QUANTITY.fullmatch(value)
    return float(found[1]) * UNITS[found[2] or ""] if found else None


def rank(result: str) -> tuple[object, ...]:
    """Sorts results of a target: numbers by what they measure."""
    parts = []
    for name, value in options_of(result).items():
        size = magnitude(value)
        parts.append((name, size is None, size or 0.0, value))
    return tuple(parts)
