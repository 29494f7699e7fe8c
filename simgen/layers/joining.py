"""Kernels that join tensors along an axis, or take one apart: copies of rows.

Seen from `axis` on, each part is rows of its own length, which lie side by side in the whole.
Narrow elements are copied as words where all rows are whole ones. Else a work-item makes four
neighbours of what is written, from wherever they come.
"""

from __future__ import annotations

import hashlib
from itertools import accumulate
from math import ceil, prod
from typing import TYPE_CHECKING

from simgen.ground.dtypes import WORD, DType
from simgen.ground.ir import Constants, Kernel, Launch, TensorSpec
from simgen.layers import elementwise
from simgen.layers.base import Lowering
from simgen.layers.written import Places, Writes, cut_by, dense, writes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simgen.layers.written import Values

BLOCK = 256  # work-items
EACH = 4  # elements of a work-item: one 16-byte access, or four of 4 bytes


def copies(
    prefix: str,
    parts: Sequence[TensorSpec],
    axis: int,
    ports: tuple[Sequence[str], Sequence[str]],
    joins: bool,
) -> Lowering:
    """One launch that joins tensors, the `parts`, along an axis to one or, if not `joins`, takes
    that one apart. `ports` are those that it reads and writes; the kernel's name begins with
    `prefix`. Work-groups are those of the first part, then those of the second, and so on.
    """
    n = prod(parts[0].shape[:axis])
    rows = [prod(part.shape[axis:]) for part in parts]  # elements that lie side by side
    element = parts[0].dtype
    if all(row * element.nbytes % WORD == 0 for row in rows):  # copied as words
        rows, element = [row * element.nbytes // WORD for row in rows], DType.F32
    # A row that does not start on a multiple of four has no 16-byte accesses.
    vector = 1 if any(row % EACH for row in rows) and not element.is_narrow else EACH
    groups = [ceil(n * row / (BLOCK * EACH)) for row in rows]
    mixed = joins and element.is_narrow
    text = "_".join(map(str, rows))
    if len(text) > 80:  # a name that compilers and logs take, however many parts there are
        text = hashlib.sha256(text.encode()).hexdigest()[:32]
    constants: Constants = (
        ("inputs", len(rows)),
        ("samples", n),
        ("rows", " ".join(map(str, rows))),
        ("starts", " ".join(map(str, accumulate(rows, initial=0)))),
        ("vector", vector),
        *elementwise.element(element),
    )
    if not mixed:
        starts = " ".join(map(str, accumulate(groups, initial=0)))
        constants = (*constants, ("groups", starts), ("each", EACH))
    template = "concat_forward.hip" if joins else "concat_backward.hip"
    template = "concat_mixed.hip" if mixed else template
    name = f"{prefix}_{n}x{text}{elementwise.suffix(element)}"
    kernel = Kernel(name, template, BLOCK, constants)
    reads, writes = ports
    count = ceil(n * sum(rows) / (BLOCK * EACH)) if mixed else sum(groups)
    return Lowering((kernel,), (Launch(name, (count, 1, 1), (*reads, *writes)),))


@writes("concat_forward")
def _joined(c: Values, block: int) -> Iterator[Writes]:
    starts = _numbers(c["starts"])
    for row, start, first in zip(_numbers(c["rows"]), starts, _numbers(c["groups"])):
        own = (Places(c["samples"], starts[-1]), Places(row))
        yield Writes(-1, cut_by(*own, group=block * c["each"]), offset=start, first=first)


@writes("concat_mixed")
def _mixed(c: Values, block: int) -> list[Writes]:
    return [dense(-1, c["samples"] * sum(_numbers(c["rows"])), c["vector"], block)]


@writes("concat_backward")
def _parted(c: Values, block: int) -> Iterator[Writes]:
    for at, (row, first) in enumerate(zip(_numbers(c["rows"]), _numbers(c["groups"]))):
        own = Places(c["samples"], row), Places(row)
        yield Writes(1 + at, cut_by(*own, group=block * c["each"]), first=first)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split()]
