"""All forms of an architecture, whatever they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.conform import description
from simgen.conform.atomics import atomics
from simgen.conform.buffers import buffers
from simgen.conform.eight_bits import eight_bit_conversions
from simgen.conform.forms import forms
from simgen.conform.ids import ids
from simgen.conform.matrix import products
from simgen.conform.modes import modes
from simgen.conform.movements import movements
from simgen.conform.scalar_atomics import scalar_atomics
from simgen.conform.scalar_memory import scalar_loads, scalar_stores
from simgen.conform.sequences import sequences
from simgen.conform.stores import stores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.conform.forms import Form

_KINDS = (
    movements, stores, atomics, buffers, products, scalar_loads, scalar_stores,
    scalar_atomics, modes, eight_bit_conversions, sequences,
)  # fmt: skip


def catalogue(arch: str) -> Iterator[Form]:
    """The forms, instructions on registers first, ids last."""
    known = description.words(arch)
    yield from forms(arch)
    for kind in _KINDS:
        yield from kind(arch, known)
    yield from ids()
