"""Every layer that takes narrow types, in sizes that its kernels move by fours and in others.

The arithmetic is that of float32, which other tests have in all sizes: here are the sizes that tell
kernels of narrow elements apart. With EVERY_VARIANT set in the environment, each is in both types.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from covering import covering
from layer_bundles import Problem, failures, make, plan
from layer_variants import accepts, inputs_of, lowered, seconds, shapes_of, variants

from simgen.ground.dtypes import BF16, F16
from simgen.layers import LAYERS, conversion
from simgen.targets.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from simgen.ground.dtypes import DType
    from simgen.ground.ir import Kernel, Pass
    from simgen.kernels.build import Builder
    from simgen.layers.base import Layer

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

# Rests modulo 2, 4 and 256, rows that a work-group cannot hold, strided rows.
SHAPES = (
    (1, 1, 1, 1), (5, 13, 1, 1), (1, 1000, 1, 1), (2, 4099, 1, 1), (2, 3, 5, 7), (1, 18, 8, 8),
    (2, 300, 1, 3), (3, 37, 11, 11), (301, 6, 1, 1), (2, 2, 48, 48),
)  # fmt: skip
EVERY = bool(os.environ.get("EVERY_VARIANT"))
TYPES = (F16, BF16)
PASSES = [
    (kind, direction)
    for kind in lowered()
    if LAYERS[kind].any_float
    for direction in LAYERS[kind].passes
]
CASES = [
    (kind, direction, dtype)
    for number, (kind, direction) in enumerate(PASSES)
    for dtype in (TYPES if EVERY else (TYPES[number % 2],))
]


def takes(layer: Layer, shape: tuple[int, ...]) -> bool:
    """Whether it does, and has no input of bytes already."""
    return accepts(layer, shape) and all(x.dtype.nbytes > 1 for x in inputs_of(layer, shape))


def kernels_of(problem: Problem, direction: Pass, dtype: DType) -> tuple[Kernel, ...]:
    layer = problem.variant.layer
    inputs = tuple(replace(x, dtype=dtype) for x in inputs_of(layer, problem.shape))
    return conversion.lower(layer, inputs, direction).kernels


def problems(kind: str) -> dict[tuple[Pass, DType], dict[str, Problem]]:
    """By pass and type, those of a layer's variants and shapes that cover the constants of its
    kernels, whichever pass has them, and each template of each pass."""
    found: dict[tuple[Pass, DType], dict[str, Problem]] = {
        (direction, dtype): {
            f"v{number}_{'x'.join(map(str, shape))}": Problem(variant, shape)
            for number, variant in enumerate(variants(kind))
            for shape in shapes_of(kind, SHAPES)
            if direction in variant.layer.able and takes(variant.layer, shape)
        }
        for each, direction, dtype in CASES
        if each == kind
    }
    kernels = {
        (case, name): kernels_of(problem, *case)
        for case, own in found.items()
        for name, problem in own.items()
    }
    labels = {
        (case, name): [(f"template of {case}", kernel.template) for kernel in own]
        for (case, name), own in kernels.items()
    }
    costs = {
        (case, name): seconds(problem.variant.layer, problem.shape, case[0])
        for case, own in found.items()
        for name, problem in own.items()
    }
    kept = covering(kernels, pairs=False, sizes=EVERY, labels=labels, costs=costs)
    return {
        case: {name: own[name] for its, name in kept if its == case} for case, own in found.items()
    }


@pytest.mark.parametrize(("kind", "direction", "dtype"), CASES, ids=str)
def test_narrow_tensors_of_each_layer(
    tmp_path: Path, builder: Builder, once: Callable[..., Any], kind: str, direction: Pass,
    dtype: DType,
) -> None:  # fmt: skip
    """With every access checked: nothing is read or written behind the last word of a tensor."""
    found = once(problems, kind)[direction, dtype]
    work = plan(found, direction, dtype=dtype)
    verdicts = make(tmp_path, work, builder, sanitize=True).good()
    assert set(verdicts) == set(found)
    wrong = failures(verdicts)
    assert not wrong, "\n".join(f"{line}\n  {found[line.split(':')[0]].variant}" for line in wrong)
