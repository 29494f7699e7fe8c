"""The points of a sweep: a workload on one target, at each point of a grid of settings.

A setting is a run option of the target, or one of `simgen build` (running/siblings.py). A point is
a result of its own, in a folder beside the target's (bundle/result_names.py), in the bundle or in
one beside it. What is asked for again is found by its name, so that a sweep goes on where it ended,
and grows.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from simgen.ask.run import RunCommand
from simgen.bundle import result_names
from simgen.errors import UsageError, did_you_mean, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simgen.targets import Target
    from simgen.targets.base import RunOption

T = TypeVar("T")
MOST_SETTINGS = 60  # among which one line is no list any more


@dataclass(frozen=True)
class SweepPoint:
    """One run of a sweep."""

    target: str
    options: Mapping[str, str | int]  # options of `simgen run`, in the target's order
    built: Mapping[str, str] = field(default_factory=dict)  # settings of `simgen build`
    cut: str = ""  # into pieces, one of result_names.CUTS; empty: it runs whole

    @property
    def name(self) -> str:
        """Name of the point: all of its settings."""
        return result_names.of_point(self.target, {**self.built, **self.options})

    @property
    def home(self) -> str:
        """Tells which bundle it is of; empty: the one that is swept."""
        return result_names.of_point("", self.built) if self.built else ""

    @property
    def result(self) -> str:
        """Name of the result in its bundle."""
        return result_names.of_run(self.target, self.options, [self.cut] if self.cut else [])


def points(
    target: Target, asked: RunCommand, buildable: Callable[[], Sequence[str]]
) -> list[SweepPoint]:
    """The points of a grid of `SETTING=VALUE,VALUE...`, the last one varying fastest, but settings
    of a build more slowly than options of the run.

    Options that have one value throughout are part of each point, and so is how it is cut into
    pieces. What is no option of the target is one of `buildable()`, which is asked for then.

    Raises:
        UsageError: there is no such setting, it stands twice, or a value is none of it.
    """
    values: dict[str, list[str | int]] = {}
    builds: dict[str, list[str]] = {}
    fixed = asked.options
    cut = ",".join(result_names.of_asked(asked)) if asked.by_pieces else ""
    for text in asked.grid:
        name, words = _axis(text)
        spelled = name.removeprefix("--").replace("-", "_")
        place = f"{RunCommand.grid} {printable(text)}"
        if spelled in values or spelled in fixed or {name, spelled} & builds.keys():
            raise UsageError(f"{place}: {name} is given twice; leave one out")
        if spelled in target.run_options:
            values[spelled] = _option_values(target.run_options[spelled], words, place)
        else:
            known = buildable()
            found = next((each for each in (name, spelled) if each in known), None)
            if found is None:
                words = [*target.run_options, *known]
                listing = "simgen run --help" if len(words) > MOST_SETTINGS else ""
                cure = did_you_mean(spelled, words, listing)
                raise UsageError(f"{place}: no setting of a build, nor of {target.name}; {cure}")
            builds[found] = list(dict.fromkeys(words))
    return [
        SweepPoint(target.name, {k: run[k] for k in target.run_options if k in run}, built, cut)
        for built in _product(builds)
        for run in ({**fixed, **each} for each in _product(values))
    ]


def _axis(text: str) -> tuple[str, list[str]]:
    """The name and the values of `SETTING=VALUE,VALUE...`."""
    name, equals, rest = text.partition("=")
    if not equals or not name.strip().strip("-"):
        raise UsageError(
            f"{RunCommand.grid} {printable(text)}: not an option with values; "
            "write OPTION=VALUE,VALUE"
        )
    return name.strip(), [each.strip() for each in rest.split(",")]


def _option_values(option: RunOption, words: Sequence[str], place: str) -> list[str | int]:
    """The values that they are, each once."""
    try:
        return list(dict.fromkeys(map(option.read, words)))
    except ValueError as error:
        raise UsageError(f"{place}: {error}") from None


def _product(axes: Mapping[str, Sequence[T]]) -> list[dict[str, T]]:
    return [dict(zip(axes, each)) for each in itertools.product(*axes.values())]
