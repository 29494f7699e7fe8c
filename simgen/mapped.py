"""mmap.bin: float32 values for programs that map them as they are, such as DNNMark.

A bundle has it beside data.h5 where one of its targets asks for it (`Target.mapped_nbytes`), as
large as the one that asks for most. The manifest tells its size and seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simgen import data

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = "mmap.bin"
KEY = "mapped"  # in the manifest


def recipe(nbytes: int, seed: int, kept: Mapping[str, Any]) -> dict[str, Any]:
    """The entry for a manifest whose new targets ask for `nbytes`; empty where nobody asks.

    `kept` is the manifest of targets that stay, or empty.
    """
    size = max(nbytes, kept.get(KEY, {}).get("nbytes", 0))
    return {KEY: {"file": FILE, "nbytes": size, "seed": seed}} if size else {}


def is_current(folder: Path, manifest: Mapping[str, Any]) -> bool:
    """Whether the file that the manifest tells of, if it does, is there as a whole."""
    wanted = manifest.get(KEY)
    path = folder / FILE
    return not wanted or (path.is_file() and path.stat().st_size == wanted["nbytes"])


def is_kept(folder: Path, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a bundle's file, made for the manifest `before`, is also that of `after`."""
    return bool(after.get(KEY)) and before.get(KEY) == after[KEY] and (folder / FILE).is_file()


def write(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Make the file that the manifest tells of.

    Raises:
        MissingError: the disk is too small.
    """
    wanted = manifest.get(KEY)
    if wanted:
        data.write_raw(folder / FILE, wanted["nbytes"], wanted["seed"])
