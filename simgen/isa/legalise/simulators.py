"""What each version of a simulator does with each architecture: the files of data/isa.

One file for each version, `SIMULATOR-VERSION.json`, so that a new version is a new file:

    simulator, version
    image, dumps         of gem5: the image in which it is built and run; whether apu_se.py dumps
                         the statistics when a kernel ends
    debug_flags          of gem5: those with which it says that a kernel has ended, if it does not
                         without them
    lacks                of gem5: mnemonics that its model of gfx9 knows and stops at
    architectures        of each:
        rewritings       names of what is done to assembly text, in order (`legalise.REWRITINGS`)
        native           mnemonics that it executes right, of which rules may make others
        learnt           of those with a rule, the ones that this version needs none for
        matrix           mnemonics of the matrix instructions that it has
        rounds_products  types of factors whose products these round to that type, and how
        opcodes          format -> opcode -> the simulator's own name: all that it implements
        syscall_emulation, full_system, refused
                         of gem5: whether apu_se.py simulates it; the scripts that boot Linux on it;
                         why apu_se.py does not, where the version before it does

The table is keyed by (simulator, version, architecture).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from simgen.errors import DamagedError, UsageError, did_you_mean
from simgen.ground import resources
from simgen.ground.machine import ProductRounding  # noqa: TC001 - as above
from simgen.ground.storage import schema
from simgen.ground.storage.files import read_regular

FOLDER = "isa"
MAX_NBYTES = 2**24  # size limit of a file
LATEST = "develop"  # a version behind all that have numbers


@dataclass(frozen=True)
class Support:
    """What a version of a simulator does with an architecture."""

    rewritings: tuple[str, ...] = ()
    native: tuple[str, ...] = ()
    learnt: tuple[str, ...] = ()
    matrix: tuple[str, ...] = ()
    rounds_products: tuple[ProductRounding, ...] = ()
    opcodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    syscall_emulation: bool = False
    full_system: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class Simulator:
    """A version of a simulator: one file of data/isa."""

    simulator: str
    version: str
    architectures: Mapping[str, Support]
    image: str = ""
    dumps: bool = False
    debug_flags: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


class Model(NamedTuple):
    """The key of the table: an architecture as a version of a simulator has it, or as a GPU has."""

    simulator: str  # empty: a GPU, or nobody's in particular
    version: str
    arch: str

    @classmethod
    def gpu(cls, arch: str) -> Model:
        """An architecture as AMD made it: nothing is to be rewritten."""
        return cls("", "", arch)


@cache
def versions(simulator: str) -> Mapping[str, Simulator]:
    """The versions of a simulator by name, oldest first; empty if there is no such simulator.

    Raises:
        DamagedError: a file of the table is not what it should be.
    """
    paths = (resources.folder("data") / FOLDER).glob(f"{simulator}-*.json")
    found = {}
    for path in paths:
        try:
            made = schema.from_json(Simulator, schema.parse(read_regular(path, MAX_NBYTES)))
        except (OSError, ValueError) as error:
            fact = getattr(error, "strerror", None) or error
            raise DamagedError(f"{path}: damaged ({fact}); install simgen again") from None
        if path.stem != f"{made.simulator}-{made.version}":
            raise DamagedError(
                f"{path}: holds the table of {made.simulator} {made.version}; rename it so"
            )
        found[made.version] = made
    return dict(sorted(found.items(), key=lambda item: age(item[0])))


def age(version: str) -> tuple[bool, list[int]]:
    """24.1 comes after 24.0, and `develop` after both."""
    return version == LATEST, [int(part) for part in version.split(".") if part.isdecimal()]


@cache
def support(model: Model) -> Support:
    """The row of the table.

    Raises:
        UsageError: there is none.
    """
    if not model.simulator:
        return Support()
    known = versions(model.simulator)
    if not known:
        cure = did_you_mean(model.simulator, simulators())
        raise UsageError(f"legalise: {model.simulator!r}: no such simulator; {cure}")
    if model.version not in known:
        cure = did_you_mean(model.version, known)
        raise UsageError(f"legalise: {model.simulator} {model.version!r}: no such version; {cure}")
    of_version = known[model.version].architectures
    if model.arch not in of_version:
        cure = did_you_mean(model.arch, of_version)
        raise UsageError(f"legalise: {model.simulator} has no table for {model.arch!r}; {cure}")
    return of_version[model.arch]


def as_it_says(model: Model, said: str) -> Model:
    """The model in the version that a simulator says it is, if the table has that.

    "24.1.0.0" is 24.1, and so is "DEVELOP-FOR-24.1", which became it.
    """
    found = re.search(r"\d+\.\d+", said)
    of_version = versions(model.simulator).get(found[0]) if found else None
    known = of_version is not None and model.arch in of_version.architectures
    return model._replace(version=found[0]) if found and known else model


@cache
def native(model: Model) -> frozenset[str]:
    """Mnemonics that the model executes right as they are."""
    return frozenset(support(model).native)


@cache
def lacking(model: Model) -> frozenset[str]:
    """Mnemonics at which the model ends the simulation."""
    if not model.simulator or not model.arch.startswith("gfx9"):
        return frozenset()
    return frozenset(versions(model.simulator)[model.version].lacks)


def simulators() -> list[str]:
    """Names of all simulators that the table knows."""
    paths = (resources.folder("data") / FOLDER).glob("*-*.json")
    return sorted({path.stem.partition("-")[0] for path in paths})
