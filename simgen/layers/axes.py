"""Axes of tensors of any rank, as config keys name them."""

from __future__ import annotations

import re
from math import prod

MAX_INT = 2**31 - 1  # as in simgen.layers.base, which imports this


def behind_batch(key: str, axis: int, shape: tuple[int, ...]) -> int:
    """The axis that `axis` means in `shape`: from 1 on, as axis 0 is the batch. A negative one
    counts from the end, so that -1 is the last.

    Raises:
        ValueError: there is no such axis; `key` is what the config calls it.
    """
    rank = len(shape)
    found = axis + rank if axis < 0 else axis
    if 1 <= found < rank:
        return found
    extents = " x ".join(map(str, shape))
    if rank < 2:
        raise ValueError(f"a tensor of {extents} has a batch only; give it another axis")
    fact = "is the batch" if found == 0 else "is none of its axes"
    raise ValueError(
        f"{key} is {axis}, which {fact} in a tensor of {extents}; write 1 to {rank - 1}, or -1 for "
        "the last"
    )


def rows(shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    """(rows, elements of a row) where `axis` and all behind it are one row."""
    return prod(shape[:axis]), prod(shape[axis:])


def extents(key: str, text: str, least: int = -1) -> tuple[int, ...]:
    """The numbers of a config's value with x between them, as 16x-1; `key` is what it is called.

    Raises:
        ValueError: it is something else, or one is less than `least`.
    """
    words = text.split("x")
    if not all(re.fullmatch(r"-?[0-9]{1,10}", word) for word in words):
        raise ValueError(f"{key} is {text!r}; write numbers with x between them, as 16x128x768")
    found = tuple(map(int, words))
    if min(found) < least or max(found) > MAX_INT:
        raise ValueError(f"{key} is {text!r}; write numbers of {least} to {MAX_INT}")
    return found
