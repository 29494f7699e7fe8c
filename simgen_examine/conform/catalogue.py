"""All forms of an architecture, whatever they do."""

from __future__ import annotations

from collections.abc import Iterator

from simgen_examine.conform import description
from simgen_examine.conform.atomics import atomics
from simgen_examine.conform.buffers import buffers
from simgen_examine.conform.eight_bits import eight_bit_conversions
from simgen_examine.conform.forms import Form, forms
from simgen_examine.conform.ids import ids
from simgen_examine.conform.matrix import products
from simgen_examine.conform.modes import modes
from simgen_examine.conform.movements import movements
from simgen_examine.conform.scalar_atomics import scalar_atomics
from simgen_examine.conform.scalar_memory import scalar_loads, scalar_stores
from simgen_examine.conform.sequences import sequences
from simgen_examine.conform.stores import stores

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
