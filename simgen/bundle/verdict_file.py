"""verdict.json beside a result: what `simgen diff` said of it against the reference.

It holds for the very files that were compared, by the digest of the result's seal; the next run
takes the place of both. Reports mark what it does not say is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.errors import DamagedError
from simgen.ground.storage import schema, seal
from simgen.ground.storage.files import read_regular, write_atomic
from simgen.ground.version import version

if TYPE_CHECKING:
    from pathlib import Path

FILE = seal.VERDICT
WRONG = "different"
RIGHT = "same"  # as simgen.verdict.verdict says it, which has the other outcomes
NOTHING = "proved nothing"
UNCHECKED = "not checked"  # nobody has compared it since it ran
INFERRED = "inferred"  # it did not run: its metrics are those of launches that are like its own
SILENT = "no outputs"  # there is nothing to compare
DIGEST = "sha256"
MAX_NBYTES = 2**26


@dataclass(frozen=True)
class StoredVerdict:
    """What the file holds."""

    result: str
    simgen: str
    steps: Mapping[str, str]
    sha256: str


def counted(outcomes: Sequence[str]) -> str:
    """ "all 8 right", or "22 right, 2 prove nothing": how many are what."""
    count = Counter(map(str, outcomes))
    if len(count) == 1 and RIGHT in count:
        return f"all {len(outcomes)} right" if len(outcomes) > 1 else "right"
    verb = "proves nothing" if count[NOTHING] == 1 else "prove nothing"
    words = {RIGHT: "right", NOTHING: verb}
    order = (WRONG, RIGHT, NOTHING, *count)
    found = [each for each in dict.fromkeys(order) if count[each]]
    return ", ".join(f"{count[each]} {words.get(each, each)}" for each in found)


def save(folder: Path, result: str, outcomes: Mapping[str, str]) -> None:
    """Keep the outcomes, by step ("LAYER PASS"), of the result with that digest, where it lies."""
    told = {"result": result, "simgen": version(), "steps": dict(outcomes)}
    with contextlib.suppress(OSError):  # a bundle that can only be read
        write_atomic(folder / FILE, (json.dumps({**told, DIGEST: _digest(told)}) + "\n").encode())


def read_outcomes(folder: Path) -> Mapping[str, str]:
    """The outcomes of the result as it is now, by step; none where it was not compared.

    Raises:
        DamagedError: the file is not what was written.
    """
    path = folder / FILE
    try:
        told = schema.parse(read_regular(path, MAX_NBYTES))
        found = schema.from_json(StoredVerdict, told)
        if found.sha256 != _digest({k: v for k, v in told.items() if k != DIGEST}):
            raise ValueError("not what was written")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        fact = getattr(error, "strerror", None) or error
        raise DamagedError(
            f"{path}: damaged ({fact}); compare it again with: simgen diff"
        ) from None
    return found.steps if found.result == seal.read_seal(folder).digest else {}


def _digest(told: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
