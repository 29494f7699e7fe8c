"""Kernels have the constants that their files declare, and what is declared is read.

A constant that nobody reads hides which of two kernels' texts differ, and why.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from layer_variants import SHAPES_OF, Variant, accepts, each_pass, inputs_of

from simgen.ground import resources
from simgen.kernels import kernel_source

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.ground.ir import Pass

SHAPES = ((2, 3, 5, 7), (2, 300, 1, 1))
KERNELS = resources.folder("templates") / "kernels"
INCLUDE = re.compile(r'^#include "(.+)"$', re.M)
DECLARED = re.compile(r"^(?:constexpr \w+|#define|using) (\w+)", re.M)


@each_pass
def test_kernels_have_the_constants_of_their_files(variant: Variant, direction: Pass) -> None:
    for shape in SHAPES_OF.get(variant.kind, SHAPES):
        if not accepts(variant.layer, shape):
            continue
        for kernel in variant.layer.lower(inputs_of(variant.layer, shape), direction).kernels:
            names = [name for name, _ in kernel.constants]
            declared = kernel_source.constants(kernel.template)
            assert len(set(names)) == len(names)
            # Kernels of float32, as the samples are, say nothing of types.
            types = kernel_source.types(kernel.template)
            assert declared - types <= set(names) <= declared, kernel.name


def test_every_constant_is_read() -> None:
    read: dict[Path, set[str]] = {}  # by header of constants
    for file in KERNELS.glob("*.hip"):
        files = included(file)
        code = "".join(f.read_text() for f in files if f.parent == KERNELS)
        for header in (f for f in files if f.parent != KERNELS):
            read.setdefault(header, set()).update(re.findall(r"\w+", code))
    assert set(read) == set((KERNELS / "constants").iterdir())
    for header, words in read.items():
        assert set(DECLARED.findall(header.read_text())) <= words, header.name


def included(file: Path) -> set[Path]:
    """It, and what it includes but for the prelude, directly or not."""
    found = {file}
    for name in INCLUDE.findall(file.read_text()):
        if name != kernel_source.PRELUDE:
            found |= included(KERNELS / name)
    return found
