"""mmap.bin: float32 values for programs that map them as they are, such as DNNMark.

A bundle has it beside data.h5 where one of its targets asks for it (`Target.mapped_nbytes`), as
large as the one that asks for most. The manifest tells its size, seed and digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simgen.errors import DamagedError
from simgen.tensors import data_file
from simgen.tensors import digest as data_digest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = "mmap.bin"
KEY = "mapped"  # in the manifest
DIGEST = "sha256"


def recipe(nbytes: int, seed: int, kept: Mapping[str, Any]) -> dict[str, Any]:
    """The entry for a manifest whose new targets ask for `nbytes`; empty where nobody asks.

    `kept` is the manifest of targets that stay, or empty. A file that stays has its digest.
    """
    before = kept.get(KEY, {})
    size = max(nbytes, before.get("nbytes", 0))
    if not size:
        return {}
    asked = {"file": FILE, "nbytes": size, "seed": seed}
    same = asked.items() <= before.items()
    return {KEY: {**asked, DIGEST: before[DIGEST]} if same and DIGEST in before else asked}


def is_there(folder: Path, manifest: Mapping[str, Any]) -> bool:
    """Whether the file that the manifest tells of, if it does, is there with its size."""
    wanted = manifest.get(KEY)
    path = folder / FILE
    return not wanted or (path.is_file() and path.stat().st_size == wanted["nbytes"])


def is_whole(folder: Path, manifest: Mapping[str, Any]) -> bool:
    """Whether the file that the manifest tells of, if it does, is there as it was made."""
    wanted = manifest.get(KEY)
    if not wanted:
        return True
    try:
        digest = is_there(folder, manifest) and data_digest.file_digest(
            folder / FILE, wanted["nbytes"]
        )
    except DamagedError:
        return False
    return bool(digest) and digest == wanted.get(DIGEST)


def write(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Make the file that the manifest tells of; returns its entry with the digest.

    Raises:
        MissingError: the disk is too small.
    """
    wanted = manifest.get(KEY)
    if not wanted:
        return {}
    data_file.write_raw(folder / FILE, wanted["nbytes"], wanted["seed"])
    return {KEY: {**wanted, DIGEST: data_digest.file_digest(folder / FILE, wanted["nbytes"])}}
