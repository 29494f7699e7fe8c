"""One machine at several clocks, or with several numbers of compute units: which of them each layer
can do with.

Layers that memory holds up lose little with a slow clock. Kernels follow each other in one run of
a simulator, whose clocks are fixed when it starts; so all layers run at each setting, and each
layer's own setting is taken from these runs, as if changing it took no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simgen.errors import MissingError, UsageError
from simgen.reports.studies.definition import Draws, Figure
from simgen.targets import TARGETS

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
GPUS = Axis(
    "gpus",
    "--gpus",
    "GPUs",
    "seconds of GPUs",
    Figure(
        "gpus", "Scalability", "Time and efficiency on several GPUs",
        "time of all layers and passes with the batch shared by so many GPUs, the all-reduces of "
        "gradients included; efficiency is the time on one GPU by that on n, divided by n",
        Draws.GPUS, ("seconds",),
    ),
    "it runs on one GPU here",
)  # fmt: skip
AXES = {Draws.CLOCKS: CLOCKS, Draws.UNITS: UNITS, Draws.GPUS: GPUS}


def value(word: str) -> float:
    """The number that a setting is: hertz of a clock."""
    for prefix, factor in PREFIXES.items():
        if word.endswith(prefix):
            return float(word.removesuffix(prefix)) * factor
    return float(word)


def parse_settings(
    axis: Axis, words: Sequence[str], targets: Sequence[str], batch: int = 0
) -> tuple[str, ...]:
    """Settings from what a user wrote, the smallest first; GPUs share the batch.

    Raises:
        UsageError: one is none, or there are not two.
        MissingError: none of the targets has them.
    """
    takers = [name for name in targets if takes(axis, name)]
    if not takers:
        fact = "; ".join(f"{name}: {axis.others}" for name in targets)
        cure = (
            "take --targets mgpusim or cuda"
            if axis is GPUS
            else "take --targets gem5-se or mgpusim"
        )
        raise MissingError(f"{axis.spelling}: {fact}; {cure}")
    for word in words:
        try:
            TARGETS[takers[0]].run_options[axis.option].read(word)
        except ValueError as error:
            raise UsageError(f"{axis.spelling} {error}") from None
    if len({value(word) for word in words}) < 2:
        raise UsageError(f"{axis.spelling}: takes two or more to compare; write them with commas")
    found = tuple({value(word): word for word in sorted(words, key=value)}.values())
    if axis is GPUS and (bad := [word for word in found if batch % value(word)]):
        fact = f"does not divide the batch of {batch}"
        cure = f"give --batch a multiple of {bad[0]}, or other --gpus"
        raise UsageError(f"{axis.spelling} {bad[0]}: {fact}; {cure}")
    return found


def takes(axis: Axis, target: str) -> bool:
    return axis.option in TARGETS[target].run_options


def variant(axis: Axis, word: str) -> str:
    """What points at this setting are called."""
    return f"{axis.option} {word}"
