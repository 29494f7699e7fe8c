"""The machines of a study on each target: A, and B where the target has another to compare with.

GPGPU-Sim has two GPUs of NVIDIA's, of the families that the ICPE'18 study had, and MGPUSim two of
AMD's; gem5 has one, which B is with twice the compute units. A GPU that is here is A; two of other
machines are A and B.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from simgen.errors import MissingError, RefusedError, UsageError, did_you_mean, printable
from simgen.targets import TARGETS, Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


DEFAULT = ("gem5-se", "mgpusim", "cuda", "hip", "host")  # order of the usable targets


@dataclass(frozen=True)
class StudyPlace:
    """A target as one of the machines of a study."""

    target: str
    machine: str  # A or B
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # settings of the target
    options: Mapping[str, str | int] = field(default_factory=dict)  # options of its runs
    host: str = ""  # the user's name of the machine that it is on, if there are two

    def made(self, **more: Any) -> Target:
        """The target, with its settings and more of them."""
        return TARGETS[self.target](**TARGETS[self.target].implied({**self.settings, **more}))

    @property
    def bundle(self) -> str:
        """What its settings add to the name of a bundle."""
        return "-".join((self.where, *map(str, self.settings.values())))

    @property
    def where(self) -> str:
        """The target, and the machine that it is on."""
        return f"{self.target}-{self.host}" if self.host else self.target


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
    "gpgpusim": (
        StudyPlace(
            "gpgpusim", "A", "GPGPU-Sim's TITAN (Kepler)", {"config": "SM3_KEPLER_TITAN"}, TIMING
        ),
        StudyPlace(
            "gpgpusim", "B", "GPGPU-Sim's TITAN X (Pascal)", {"config": "SM6_TITANX"}, TIMING
        ),
    ),
    "cuda": (StudyPlace("cuda", "A", "the NVIDIA GPU", options=ROUNDS),),
    "hip": (StudyPlace("hip", "A", "the AMD GPU", options=ROUNDS),),
    "host": (StudyPlace("host", "A", "this CPU"),),
}


HOST = re.compile(r"[a-z0-9_]{1,20}")  # a user's name of a machine


def places(target: str, elsewhere: Sequence[str] = ()) -> tuple[StudyPlace, ...]:
    """The machines of a target; `elsewhere` has those of other computers, as cuda, or as cuda=NAME
    for each of two."""
    words = (word.partition("=") for word in elsewhere)
    hosts = [host for name, equals, host in words if name == target and equals]
    usual = PLACES[target]
    if not hosts:
        return usual
    title = usual[0].title.removeprefix("the ")
    return tuple(
        replace(usual[0], machine=machine, title=f"{host}'s {title}", host=host)
        for machine, host in zip("AB", hosts)
    )


def away(elsewhere: Sequence[str]) -> set[str]:
    """The targets that run elsewhere."""
    return {word.partition("=")[0] for word in elsewhere}


def _check_hosts(elsewhere: Sequence[str]) -> None:
    for target in away(elsewhere) & PLACES.keys():
        words = [word for word in elsewhere if word.partition("=")[0] == target]
        hosts = [word.partition("=")[2] for word in words if "=" in word]
        if words == [target]:
            continue
        if len(PLACES[target]) > 1:
            raise UsageError(f"--elsewhere {words[0]}: {target} has machines A and B already")
        if len(hosts) != len(words) or len({*hosts}) != 2:
            raise UsageError(f"--elsewhere {','.join(words)}: write two: {target}=a,{target}=b")
        wrong = next((host for host in hosts if not HOST.fullmatch(host)), None)
        if wrong is not None:
            cure = "take up to 20 of a-z, 0-9 and _"
            raise UsageError(f"--elsewhere {target}={printable(wrong)}: not a name; {cure}")


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
    _check_hosts(elsewhere)
    elsewhere = list(dict.fromkeys(word.partition("=")[0] for word in elsewhere))
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
