"""Digests of large files, made by all cores.

A piece of a file has the SHA-256 of a tree: of the digests of its blocks of BLOCK_NBYTES, put
together in order. The digest of a file is that of the digests of its pieces.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from simgen.tensors.block_io import blocks_of, for_each_block
from simgen.tensors.header import DatasetEntry, Header, damaged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from simgen.tensors.block_io import Block, Progress


def gaps(header: Header) -> list[DatasetEntry]:
    """What lies before, between and behind the datasets: the header and HDF5's structures."""
    found, at = [], 0
    for entry in sorted(header.entries, key=lambda each: each.offset):
        if entry.offset > at:
            found.append(DatasetEntry(at, entry.offset - at))
        at = max(at, entry.offset + entry.nbytes)
    return [*found, DatasetEntry(at, header.file_nbytes - at)] if at < header.file_nbytes else found


def trees(
    path: Path,
    pieces: Sequence[DatasetEntry],
    threads: int | None = None,
    progress: Progress | None = None,
) -> list[str]:
    """The tree digest of each piece of a file, in hex.

    Raises:
        DamagedError: the file cannot be read, or not to the end of a piece.
    """

    def work(block: Block, buffer: memoryview) -> bytes:
        if os.preadv(handle, [buffer], block.offset) != len(buffer):
            raise damaged(path, "cannot be read to its end")
        return hashlib.sha256(buffer).digest()

    blocks = blocks_in(pieces)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            digests = for_each_block(blocks, work, threads, progress)
        finally:
            os.close(handle)
    except OSError as error:
        raise damaged(path, f"cannot be read ({error.strerror or error})") from error
    return tree_digests(blocks, digests, len(pieces))


def file_digest(path: Path, nbytes: int, progress: Progress | None = None) -> str:
    """The digest of a file that is one piece.

    Raises:
        DamagedError: as `trees`.
    """
    return digest_of(trees(path, [DatasetEntry(0, nbytes)], progress=progress))


def digest_of(pieces: Sequence[str]) -> str:
    """The digest of a file, from those of its pieces."""
    return hashlib.sha256("\n".join(pieces).encode()).hexdigest()


def blocks_in(pieces: Sequence[DatasetEntry]) -> list[Block]:
    """The blocks of all pieces, in their order."""
    return [block for at, p in enumerate(pieces) for block in blocks_of(at, p.offset, p.nbytes)]


def tree_digests(blocks: Sequence[Block], digests: Sequence[bytes], pieces: int) -> list[str]:
    """The tree digest of each piece, in hex, from those of its blocks."""
    made = [hashlib.sha256() for _ in range(pieces)]
    for block, digest in zip(blocks, digests, strict=True):
        made[block.tensor].update(digest)
    return [tree.hexdigest() for tree in made]
