"""What a study is: cases that are run, at several sizes of the batch, and figures of them.

A study is one file beside this one that makes a Study and registers it. What its publication prints
is a Printed with the place that it was read in; nothing is there that was not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from simgen.ask.build import BuildChoices
from simgen.errors import UsageError, did_you_mean, printable

Settings = tuple[tuple[str, str], ...]  # keys of a config, and values
STUDIES: dict[str, Study] = {}  # by name; importing simgen.reports.studies fills it


class Draws(StrEnum):
    """What a figure sets side by side."""

    LAYERS = "layers"  # its metrics, by layer and pass
    PARTS = "parts"  # the parts of a figure of metrics.PARTS, by layer and pass
    CASES = "cases"  # its metrics, by case: of all layers and passes together
    KERNELS = "kernels"  # the same of the kernel that takes most of a case's time, and its name
    MACHINES = "machines"  # its metrics on machines A and B, by layer and pass
    BATCHES = "batches"  # its metric by layer and pass, at each size of the batch
    SPEED_UP = "speed-up"  # the time on machine A by that on B, by layer and pass
    BYPASS = "bypass"  # the time with L1 by that without, by layer and pass
    CLOCKS = "clocks"  # the time by layer and pass at several clocks, on machine A
    UNITS = "units"  # the same with several numbers of compute units
    GPUS = "gpus"  # the time of all layers and passes on several numbers of GPUs, by case
    LIMITS = "limits"  # what limits each layer and pass, and the numbers that say it
    FUSION = "fusion"  # the time of the forward pass by that with fused kernels
    TYPES = "types"  # shares of the time by kind of layer, by case
    PHASES = "phases"  # shares of the time by pass, by case
    MEMORY = "memory"  # bytes by what they hold, by case
    SIZES = "sizes"  # bytes against the size of the batch, by case
    EXTENTS = "extents"  # bytes against the size of images or sentences, by case
    TABLE = "table"  # layers, their shapes and work


OF_PLAN = {Draws.MEMORY, Draws.SIZES, Draws.EXTENTS, Draws.TABLE}  # known before anything runs


@dataclass(frozen=True)
class Case:
    """A workload of a study. Settings are keys of its config; {n} in them is the batch's
    size."""

    name: str
    workload: str
    batch: Settings
    passes: str | None = None  # with commas between them; None: the workload's own
    settings: Settings = ()  # as the publication has them
    reduced: Settings = ()  # for a study of minutes
    extents: tuple[str, ...] = ()  # keys of the size of its images or sentences


@dataclass(frozen=True)
class Printed:
    """A value that the publication prints."""

    what: str
    value: str
    place: str  # where it was read


@dataclass(frozen=True)
class Figure:
    """One figure, or table, of a study."""

    name: str  # name of its files
    number: str  # as the publication counts, or as the study does
    title: str
    says: str  # how it is to be read, in one line
    draws: Draws
    metrics: tuple[str, ...] = ()
    part: str = ""  # one of metrics.PARTS
    machine: str = "A"  # or B, or both, one after the other
    direction: str = ""  # the passes whose names begin so
    places: tuple[str, ...] = ()  # layers and passes that the publication selects; empty: all
    printed: tuple[Printed, ...] = ()


@dataclass(frozen=True)
class Read:
    """A number that is read from the values of a figure, on a target."""

    figure: str  # its name
    quantity: str
    places: str  # expression for the names of layers and passes, or of cases
    how: str = "sum"  # or mean, most, least: of what is there
    machine: str = "A"


@dataclass(frozen=True)
class Sentence:
    """A sentence of the publication in our words, and the numbers that decide whether it holds.

    With `over` alone, its number is compared with `bound`; else its part of that of `under`.
    """

    text: str
    place: str  # where it was read
    over: Read | None = None
    under: Read | None = None
    relation: str = ">"  # or <, =, or about and ~: within a factor (statements.FACTORS)
    bound: float = 0.0
    minus: float = 0.0  # taken from the number: 1 for what a speed-up gains
    unsaid: str = ""  # why no target decides it


@dataclass(frozen=True)
class Study:
    """A publication's figures, and what is run for them."""

    name: str
    title: str
    source: str  # the publication
    known: str  # what of it could be read
    cases: tuple[Case, ...]
    figures: tuple[Figure, ...]
    statements: tuple[Sentence, ...] = ()
    batches: tuple[int, ...] = (16, 64, 128)
    reduced_batches: tuple[int, ...] = (1, 2, 4)

    def __post_init__(self) -> None:
        STUDIES[self.name] = self

    def draws(self, *kinds: Draws) -> bool:
        """Whether some figure is one of these."""
        return any(figure.draws in kinds for figure in self.figures)


def find(name: str) -> Study:
    """The study of this name.

    Raises:
        UsageError: there is none.
    """
    if name not in STUDIES:
        raise UsageError(f"study {name!r}: no such study; {did_you_mean(name, STUDIES)}")
    return STUDIES[name]


def check(study: Study, given: Iterable[tuple[str, str]]) -> None:
    """Refuse settings CASE:KEY of a case that the study does not have.

    Raises:
        UsageError: there is one.
    """
    names = [case.name for case in study.cases]
    for key, _ in given:
        of, colon, _ = key.partition(":")
        if colon and of not in names:
            cure = did_you_mean(of, names)
            raise UsageError(
                f"{BuildChoices.set} {printable(key)}: {study.name} has no such case; {cure}"
            )


FACTORS = (1, 1.5, 2)  # times the usual size of images and sentences
LAST = re.compile(r"\d+$")


def settings_of(
    case: Case, batch: int, given: Iterable[tuple[str, str]], *, reduced: bool, factor: float = 1
) -> Settings:
    """All settings of a case at a size of the batch. Those that are given as CASE:KEY are for one
    case, the others for all; they stand before the study's own. Images and sentences are `factor`
    times as large.

    Raises:
        UsageError: one is the size of the batch.
    """
    sizes = {name for key, _ in case.batch for name in (key, key.rpartition(".")[2])}
    usual = (*case.batch, *case.settings, *(case.reduced if reduced else ()))
    own = {key: text.format(n=batch) for key, text in usual}
    for key, value in given:
        of, colon, rest = key.partition(":")
        if colon and of != case.name:
            continue
        name = rest if colon else key
        if name in sizes:
            raise UsageError(f"{BuildChoices.set} {key}: the study sets it; give --batch")
        own[name] = value
    for key in case.extents:
        own[key] = LAST.sub(lambda number: str(int(factor * int(number[0]))), own[key])
    return tuple(own.items())
