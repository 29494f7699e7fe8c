"""One machine at several clocks, or with several numbers of compute units: which of them each layer
can do with.

Layers that memory holds up lose little with a slow clock. Kernels follow each other in one run of
a simulator, whose clocks are fixed when it starts; so all layers run at each setting, and each
layer's own setting is taken from these runs, as if changing it took no time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.errors import MissingError, UsageError
from simgen.studies.definition import Draws, Figure
from simgen.studies.drawn import add_line, halves, table_of
from simgen.study import figures
from simgen.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.studies.drawn import Drawn, DrawnFrom

SLACK = 0.05  # time that a layer may lose against its fastest setting
PREFIXES = {"MHz": 1e6, "GHz": 1e9}


@dataclass(frozen=True)
class Axis:
    """What is set: an option of `simgen run` that some targets have, and of `simgen study`."""

    option: str
    spelling: str
    unit: str
    spent: str  # what a layer takes of it: the setting, times its time
    figure: Figure
    others: str  # why other targets have it not


CLOCKS = Axis(
    "gpu_clock",
    "--clocks",
    "hertz",
    "cycles of the clock",
    Figure(
        "clocks", "Clocks", "Time of each layer at several clocks",
        "time of each layer and pass with the whole GPU at each clock, and the slowest clock with "
        f"which it takes at most {SLACK:.0%} more than with its fastest; the switching energy of "
        "the GPU's units follows the cycles of their clock, and what a lower voltage saves beside "
        "that, no simulator here knows",
        Draws.CLOCKS, ("seconds",),
    ),
    "its clock is not simgen's to set: the administrator's of a GPU, the system's of a CPU",
)  # fmt: skip
UNITS = Axis(
    "num_compute_units",
    "--units",
    "units",
    "seconds of compute units",
    Figure(
        "units", "Compute units", "Time of each layer on several numbers of compute units",
        "time of each layer and pass with so many units, and the least of them with which it takes "
        f"at most {SLACK:.0%} more than with its fastest number",
        Draws.UNITS, ("seconds",),
    ),
    "it has no mask of compute units that simgen could set",
)  # fmt: skip
AXES = {Draws.CLOCKS: CLOCKS, Draws.UNITS: UNITS}


def value(word: str) -> float:
    """The number that a setting is: hertz of a clock."""
    for prefix, factor in PREFIXES.items():
        if word.endswith(prefix):
            return float(word.removesuffix(prefix)) * factor
    return float(word)


def read(axis: Axis, words: Sequence[str], targets: Sequence[str]) -> tuple[str, ...]:
    """Settings from what a user wrote, the smallest first.

    Raises:
        UsageError: one is none, or there are not two.
        MissingError: none of the targets has them.
    """
    takers = [name for name in targets if takes(axis, name)]
    if not takers:
        fact = "; ".join(f"{name}: {axis.others}" for name in targets)
        raise MissingError(f"{axis.spelling}: {fact}; take --targets gem5-se or mgpusim")
    for word in words:
        try:
            TARGETS[takers[0]].run_options[axis.option].read(word)
        except ValueError as error:
            raise UsageError(f"{axis.spelling} {error}") from None
    if len({value(word) for word in words}) < 2:
        raise UsageError(f"{axis.spelling}: takes two or more to compare; write them with commas")
    return tuple({value(word): word for word in sorted(words, key=value)}.values())


def takes(axis: Axis, target: str) -> bool:
    return axis.option in TARGETS[target].run_options


def variant(axis: Axis, word: str) -> str:
    """What points at this setting are called."""
    return f"{axis.option} {word}"


def draw(of: DrawnFrom, made: Drawn, target: str) -> None:
    """Times at all settings, and what each layer does with."""
    axis = AXES[of.figure.draws]
    words = of.scope.clocks if axis is CLOCKS else of.scope.units
    found = {word: of.at(target, variant=variant(axis, word)) for word in words}
    for runs in zip(*found.values(), strict=False):
        case = runs[0].point.case.name
        times: dict[str, dict[str, float]] = {}  # place -> setting -> seconds
        for word, each in zip(found, runs, strict=True):
            for place, values in table_of(of, [each], ["seconds"]).items():
                if seconds := values.get("seconds"):
                    times.setdefault(place, {})[word] = seconds
                    add_line(made, each, case, place, f"seconds at {word}", "seconds", seconds)
        times = {place: at for place, at in times.items() if len(at) == len(words)}
        if not times:
            continue
        least = {place: enough(at) for place, at in times.items()}
        for place, word in least.items():
            quantity = f"least within {SLACK:.0%}"
            add_line(made, runs[0], case, place, quantity, axis.unit, value(word))
        head = ("layer and pass", *words, f"least within {SLACK:.0%}")
        made.cells += [head] if not made.cells else []
        made.cells += [
            (f"{target} {place}", *(f"{seconds:.4g} s" for seconds in at.values()), least[place])
            for place, at in times.items()
        ]
        made.notes.append(f"{target}, {case}: {_sum(axis, times, least)}")
        series = {word: [at[word] for at in times.values()] for word in words}
        caption = f"{runs[0].point.place.title}, batch {runs[0].point.batch}"
        for title, shown, cut in halves(caption, list(times), dict(series)):
            made.pictures.append((title, figures.grouped(shown, cut, "seconds")))


def enough(at: dict[str, float]) -> str:
    """The smallest setting whose time is within SLACK of the least."""
    fastest = min(at.values())
    return min((word for word in at if at[word] <= (1 + SLACK) * fastest), key=value)


def _sum(axis: Axis, times: dict[str, dict[str, float]], least: dict[str, str]) -> str:
    """Time and what is spent, of each layer at its own setting against all at the largest."""
    largest = max(next(iter(times.values())), key=value)
    whole = sum(at[largest] for at in times.values())
    own = sum(at[least[place]] for place, at in times.items())
    spent = sum(at[least[place]] * value(least[place]) for place, at in times.items())
    return (
        f"each layer at its own, against all at {largest}: time {own / whole - 1:+.1%}, "
        f"{axis.spent} {spent / (whole * value(largest)) - 1:+.1%}"
    )
