"""Which bundles this machine has built: an empty file for each target of one, in the user's cache.

Its name follows from what is executed, so that a bundle may be moved, and that changing a program
makes another one of it. `simgen run` says once that it executes what it has no note of.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from typing import TYPE_CHECKING

from simgen.kernels import cache

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from simgen.bundle.folder import Bundle

FOLDER = "built"
FACT = "this machine did not build it"


def _note(bundle: Bundle, target: str) -> Path:
    files = bundle.manifest["files"]
    own = sorted((name, files[name]) for name in files if name.startswith(f"{target}/"))
    key = hashlib.sha256(json.dumps([bundle.digest, target, own]).encode()).hexdigest()
    return cache.notes(FOLDER) / key


def is_known(bundle: Bundle, target: str) -> bool:
    """Whether this machine has built it, or was told that it has not."""
    return _note(bundle, target).exists()


def remember(bundle: Bundle, targets: Iterable[str]) -> None:
    """Note it. Without a cache that can be written, nothing is known."""
    for target in targets:
        path = _note(bundle, target)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


def warning(bundle: Bundle, targets: Iterable[str]) -> str:
    """What to say before they run, once; "" where there is nothing to say."""
    unknown = [target for target in targets if not is_known(bundle, target)]
    remember(bundle, unknown)
    if not unknown:
        return ""
    return f"{bundle.path}: {FACT}; its run executes programs of it ({', '.join(unknown)})"
