"""The machines of a study on each target: A, and B where the target has another to compare with.

MGPUSim has two GPUs of two families, as the ICPE'18 study had; gem5 has one, which B is with twice
the compute units. A GPU that is here is A: a second one is another run of the study.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simgen.errors import MissingError, RefusedError, UsageError, did_you_mean
from simgen.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simgen.targets import Target

DEFAULT = ("gem5-se", "mgpusim", "cuda", "hip", "host")  # order of the usable targets


@dataclass(frozen=True)
class StudyPlace:
    """A target as one of the machines of a study."""

    target: str
    machine: str  # A or B
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # settings of the target
    options: Mapping[str, str | int] = field(default_factory=dict)  # options of its runs

    def made(self, **more: Any) -> Target:
        """The target, with its settings and more of them."""
        return TARGETS[self.target](**TARGETS[self.target].implied({**self.settings, **more}))

    @property
    def bundle(self) -> str:
        """What its settings add to the name of a bundle."""
        return "-".join((self.target, *map(str, self.settings.values())))


TIMING: Mapping[str, str | int] = {"mode": "timing"}
ROUNDS: Mapping[str, str | int] = {"warmup": 2, "repeats": 10}
PLACES: Mapping[str, tuple[StudyPlace, ...]] = {
    "gem5-se": (
        StudyPlace("gem5-se", "A", "gem5's APU, 4 compute units"),
        StudyPlace("gem5-se", "B", "the same with 8", options={"num_compute_units": 8}),
    ),
    "mgpusim": (
        StudyPlace("mgpusim", "A", "MGPUSim's R9 Nano", {"arch": "gfx803"}, TIMING),
        StudyPlace("mgpusim", "B", "MGPUSim's MI300A", {"arch": "gfx942"}, TIMING),
    ),
    "cuda": (StudyPlace("cuda", "A", "the NVIDIA GPU", options=ROUNDS),),
    "hip": (StudyPlace("hip", "A", "the AMD GPU", options=ROUNDS),),
    "host": (StudyPlace("host", "A", "this CPU"),),
}


def chosen(
    names: Sequence[str], output: Path, elsewhere: Sequence[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """The targets of a study that can run here, or run elsewhere, and why not the others that were
    looked at.

    Raises:
        UsageError: a target has no part in studies.
        MissingError: one that was asked for, or all, cannot run here.
        RefusedError: one that was asked for refuses the place.
    """
    for option, given in (("--targets", names), ("--elsewhere", elsewhere)):
        for name in given:
            if name not in PLACES:
                raise UsageError(f"{option} {name!r}: {did_you_mean(name, PLACES)}")
    found, passed = [], {}
    for name in (*(names or DEFAULT), *(each for each in elsewhere if each not in names)):
        if name in elsewhere:
            found += [name] if name not in found else []
            continue
        needs = TARGETS[name]().needs
        lacks = [str(lack) for lack in needs.missing()]
        refusal = needs.refusal(output)
        if names and lacks:
            raise MissingError(
                f"--targets {name}: {' | '.join(lacks)}, or run it on another machine with "
                f"--elsewhere {name}"
            )
        if names and refusal:
            raise RefusedError(f"--targets {name}: {refusal}")
        if lacks or refusal:
            passed[name] = lacks[0] if lacks else str(refusal)
        else:
            found.append(name)
    if not found:
        why = " | ".join(f"{name}: {reason}" for name, reason in passed.items())
        raise MissingError(f"study: no target can run here: {why}")
    return found, passed
