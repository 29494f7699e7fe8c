"""verdict.json beside a result: what `simgen diff` said of it against the reference.

It holds for the very files that were compared, by the digest of the result's seal; the next run
takes the place of both. Reports mark what it does not say is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from typing import TYPE_CHECKING, Any

from simgen import __version__, seal
from simgen.errors import DamagedError
from simgen.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = seal.VERDICT
RIGHT = "same"  # as simgen.verdict says it, which has the other outcomes
UNCHECKED = "not checked"  # nobody has compared it since it ran
SILENT = "no outputs"  # there is nothing to compare
DIGEST = "sha256"


def save(folder: Path, result: str, outcomes: Mapping[str, str]) -> None:
    """Keep the outcomes, by step ("LAYER PASS"), of the result with that digest, where it lies."""
    told = {"result": result, "simgen": __version__, "steps": dict(outcomes)}
    with contextlib.suppress(OSError):  # a bundle that can only be read
        write_atomic(folder / FILE, (json.dumps({**told, DIGEST: _digest(told)}) + "\n").encode())


def read(folder: Path) -> Mapping[str, str]:
    """The outcomes of the result as it is now, by step; none where it was not compared.

    Raises:
        DamagedError: the file is not what was written.
    """
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_bytes())
        digest = found.pop(DIGEST)
        if digest != _digest(found):
            raise ValueError("not what was written")
        same = found["result"] == seal.read(folder).digest
        return dict(found["steps"]) if same else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(
            f"{path}: damaged ({str(error)[:80]}); compare it again with: simgen diff"
        ) from None


def _digest(told: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
