"""`machine.json`, in which a run writes down what ran it: a GPU, a simulator, and how many."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - a schema's types are read when it is used
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from simgen.errors import DamagedError
from simgen.storage import schema
from simgen.storage.files import read_regular
from simgen.storage.schema import Sized

if TYPE_CHECKING:
    from pathlib import Path

    Facts = Mapping[str, bool | int | float | str]

FILE = "machine.json"
MAX_NBYTES = 2**20


@dataclass(frozen=True)
class _Machine:
    facts: Mapping[str, bool | int | float | Annotated[str, Sized(0, 1000)]]


def read(results: Path) -> Facts:
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
    """As a result's provenance has them."""
    return {name: str(value) for name, value in facts.items()}
