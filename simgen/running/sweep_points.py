"""The points of a sweep: one bundle on one target, at each point of a grid of its run options.

A point is a result of its own, in a folder beside the target's (bundle/result_names.py). What is
asked for again is found by its name, so that a sweep goes on where it ended, and grows.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.bundle import result_names
from simgen.errors import UsageError, did_you_mean, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.targets import Target


@dataclass(frozen=True)
class SweepPoint:
    """One run of a sweep."""

    target: str
    options: Mapping[str, str | int]  # of `simgen run`, in the order in which the target has them

    @property
    def name(self) -> str:
        """Of the result."""
        return result_names.of_point(self.target, self.options)


def points(target: Target, grid: Sequence[str], fixed: Mapping[str, str | int]) -> list[SweepPoint]:
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
        SweepPoint(target.name, {k: all_[k] for k in target.run_options if k in all_})
        for all_ in ({**fixed, **each} for each in made)
    ]


def _axis(target: Target, text: str) -> tuple[str, list[str | int]]:
    """An option and its values, each once, from `OPTION=VALUE,VALUE...`."""
    place = f"--sweep {printable(text)}"
    word, equals, rest = text.partition("=")
    name = word.strip().removeprefix("--").replace("-", "_")
    if not equals or not name:
        raise UsageError(f"{place}: not an option with values; write OPTION=VALUE,VALUE")
    option = target.run_options.get(name)
    if option is None:
        cure = did_you_mean(name, target.run_options)
        raise UsageError(f"{place}: {target.name} has no such option; {cure}")
    try:
        return name, list(dict.fromkeys(option.read(each.strip()) for each in rest.split(",")))
    except ValueError as error:
        raise UsageError(f"{place}: {error}") from None
