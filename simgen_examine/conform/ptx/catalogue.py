"""All forms of a machine, whatever they do."""

from __future__ import annotations

from collections.abc import Iterator

from simgen_examine.conform.ptx.control import control
from simgen_examine.conform.ptx.forms import PtxForm, forms
from simgen_examine.conform.ptx.memory import memory
from simgen_examine.conform.ptx.warps import warps


def catalogue(arch: str) -> Iterator[PtxForm]:
    """The forms, instructions on registers first."""
    yield from forms(arch)
    yield from memory(arch)
    yield from warps(arch)
    yield from control(arch)
