"""`machine.json`, in which a run writes down what ran it: a GPU, a simulator, and how many.

Beside it, `programs.sha256` has the digests of the machine's programs that run.sh started.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from simgen.errors import DamagedError
from simgen.ground.storage import schema
from simgen.ground.storage.files import read_regular
from simgen.ground.storage.schema import Sized

if TYPE_CHECKING:
    from pathlib import Path

    Facts = Mapping[str, bool | int | float | str]

FILE = "machine.json"
PROGRAMS = "programs.sha256"
PROGRAM = re.compile(r"([0-9a-f]{64})  ([a-z0-9_]{1,40})")
MAX_NBYTES = 2**20


@dataclass(frozen=True)
class _Machine:
    facts: Mapping[str, bool | int | float | Annotated[str, Sized(0, 1000)]]


def read_facts(results: Path) -> Facts:
    """The facts that a run has left.

    Raises:
        DamagedError: there are none, or they are no facts.
    """
    path = results / FILE
    try:
        told = schema.parse(read_regular(path, MAX_NBYTES))
        return schema.from_json(_Machine, {"facts": told}).facts
    except FileNotFoundError:  # a program of an older version leaves none
        raise DamagedError(f"{path}: is missing; build the bundle again and run it") from None
    except (OSError, ValueError) as error:
        fact = getattr(error, "strerror", None) or error
        raise DamagedError(f"{path}: {fact}; run it again") from None


def texts(facts: Facts) -> dict[str, str]:
    """Values as strings, as provenance stores them."""
    return {name: str(value) for name, value in facts.items()}


def programs(results: Path) -> dict[str, str]:
    """The digests of the programs that a run started, by "NAME_sha256"; empty if none is told.

    Raises:
        DamagedError: the file is not what run.sh writes.
    """
    path = results / PROGRAMS
    try:
        lines = read_regular(path, MAX_NBYTES).decode(errors="replace").splitlines()
    except FileNotFoundError:  # the run needed none, or sha256sum is not there
        return {}
    except OSError as error:
        raise DamagedError(f"{path}: {error.strerror}; run it again") from None
    found = [PROGRAM.fullmatch(line) for line in lines]
    if not all(found):
        raise DamagedError(f"{path}: not what the run left; run it again")
    return {f"{each[2]}_sha256": each[1] for each in found if each}
