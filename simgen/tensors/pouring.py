"""Arrays into places of a file, with all cores: each block is read, digested and written once."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from simgen.ground import arrays
from simgen.tensors.block_io import BLOCK_NBYTES, Block, BlockFile, blocks_of, for_each_block
from simgen.tensors.digest import tree_digests

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray


class Poured(NamedTuple):
    """An array as it was written."""

    tree: str  # digest, as simgen.tensors.digest makes it
    untouched: int  # elements that are the canary


def pour(
    path: Path, values: Sequence[NDArray[Any]], places: Sequence[int | None], canary: int
) -> list[Poured]:
    """Write each array to its place, in bytes from the start of a file that is long enough.

    An empty array has no place.
    """
    flat = [_bytes(each) for each in values]
    file = BlockFile(path, path.stat().st_size)

    def work(block: Block, buffer: memoryview) -> bytes:
        import numpy as np

        start = block.index * BLOCK_NBYTES
        np.copyto(np.frombuffer(buffer, "u1"), flat[block.tensor][start : start + block.nbytes])
        file.write(buffer, block.offset)
        found = untouched(np.frombuffer(buffer, values[block.tensor].dtype), canary)
        return hashlib.sha256(buffer).digest() + found.to_bytes(8)

    try:
        blocks = [
            block
            for at, (each, place) in enumerate(zip(flat, places, strict=True))
            for block in blocks_of(at, place or 0, each.size)
        ]
        told = for_each_block(blocks, work)
    finally:
        file.close()
    counts = [0] * len(values)
    for block, each in zip(blocks, told, strict=True):
        counts[block.tensor] += int.from_bytes(each[32:])
    made = tree_digests(blocks, [each[:32] for each in told], len(values))
    return [Poured(tree, count) for tree, count in zip(made, counts, strict=True)]


def mapped(
    path: Path, values: Sequence[NDArray[Any]], places: Sequence[int | None]
) -> list[NDArray[Any]]:
    """What `pour` has written, read-only: a page is read when it is used."""
    import numpy as np

    if not any(places):
        return list(values)
    file = np.asarray(np.memmap(path, np.uint8, "r"))
    return [
        each if place is None
        else file[place : place + each.nbytes].view(each.dtype).reshape(each.shape)
        for each, place in zip(values, places, strict=True)
    ]  # fmt: skip


def trees(values: Sequence[NDArray[Any]]) -> list[str]:
    """The tree digest of each array."""
    flat = [_bytes(each) for each in values]

    def work(block: Block, _: memoryview) -> bytes:
        start = block.index * BLOCK_NBYTES
        return hashlib.sha256(flat[block.tensor][start : start + block.nbytes]).digest()

    blocks = [block for at, each in enumerate(flat) for block in blocks_of(at, 0, each.size)]
    return tree_digests(blocks, for_each_block(blocks, work), len(values))


def untouched(values: NDArray[Any], canary: int) -> int:
    """Elements that are still the canary; of bytes and short whole numbers, which may be so by
    chance, whole words."""
    import numpy as np

    flat = values.reshape(-1)
    if flat.itemsize == 1 or (flat.itemsize == 2 and flat.dtype.kind in "iu"):
        each = 4 // flat.itemsize
        words = flat[: flat.size // each * each].view("<u4")
        return each * int(np.count_nonzero(words == canary))
    bits = flat.view(f"<u{flat.itemsize}")
    pattern = np.full(2, canary, "<u4").view(bits.dtype)
    period = max(1, 4 // flat.itemsize)
    return sum(int(np.count_nonzero(bits[at::period] == pattern[at])) for at in range(period))


def _bytes(values: NDArray[Any]) -> Any:
    return arrays.ascontiguousarray(values).reshape(-1).view("u1")
