"""manifest.json: what a bundle holds, with digests, and the last of them its own."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from simgen.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT = "simgen bundle 1"
FILE = "manifest.json"
DIGEST = "sha256"  # of the manifest without this entry; in "data", of data.h5


def sealed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with its own digest."""
    rest = {name: value for name, value in manifest.items() if name != DIGEST}
    return {**rest, DIGEST: sha256(_json(rest))}


def text(manifest: Mapping[str, Any]) -> bytes:
    """What the file holds of a sealed manifest."""
    return _json(manifest)


def read(path: Path) -> dict[str, Any]:
    """The manifest in a file, as it was written.

    Raises:
        UsageError: it is another program's.
        OSError, ValueError, KeyError, TypeError: it cannot be read, or is damaged.
    """
    found = json.loads(path.read_bytes())
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UsageError(
            f"{path}: not the manifest of a simgen bundle; "
            "name another folder, or make one with: simgen build"
        )
    check(found)
    if found[DIGEST] != sealed(found)[DIGEST]:
        raise ValueError("not what was written")
    return found


def check(manifest: Mapping[str, Any]) -> None:
    """Raise ValueError or KeyError unless it has all that later stages ask it for."""
    for key in ("name", "simgen", "compiler"):
        if not isinstance(manifest[key], str):
            raise ValueError(f"{key} is no text")
    for key in ("config", "targets", "files", "data"):
        if not isinstance(manifest[key], dict):
            raise ValueError(f"{key} is no object")
    for name in (*manifest["files"], *manifest["targets"]):
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"{name!r} lies outside of the bundle")
    if not isinstance(manifest["data"]["id"], str):
        raise ValueError("data.id is no text")


def is_ours(path: Path) -> bool:
    """Whether a folder may be replaced. One whose manifest is damaged may be anybody's."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("format") == FORMAT


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(manifest: Mapping[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=1) + "\n").encode()
