"""The gradient of a bias: the sum of dy over samples and pixels, for each channel."""

from __future__ import annotations

from math import ceil, log2, prod
from typing import TYPE_CHECKING

from simgen.ground.dtypes import DType
from simgen.ground.ir import Kernel, Launch, TensorSpec
from simgen.ground.numerics.spread import stages
from simgen.layers.base import Lowering
from simgen.layers.conv.geometry import Split
from simgen.layers.product.elements import constant, name_of
from simgen.layers.product.matrix_product import sum_of

if TYPE_CHECKING:
    from simgen.ground.machine import Machine

BLOCK = 256  # work-items
GROUPS_OF_UNIT = 4  # work-groups for each compute unit, that fill a GPU
MIN_ELEMENTS = 16 * BLOCK  # elements of a work-group, unless a channel has fewer
PARTIAL = "db_partial"  # the port


def split(shape: tuple[int, ...], machine: Machine) -> Split:
    """How the elements of a channel are shared out, for dy of an (N, K, P, Q) shape."""
    n, k, *pixels = shape
    total = n * prod(pixels)
    vector = _vector(shape)
    splits = max(1, min(ceil(GROUPS_OF_UNIT * machine.units / k), total // MIN_ELEMENTS))
    chunk = ceil(total / splits / vector) * vector
    rounds = ceil(chunk / (BLOCK * vector))
    return Split(chunk, ceil(total / chunk), rounds + vector // 2 + int(log2(BLOCK)))


def workspaces(shape: tuple[int, ...], machine: Machine) -> tuple[tuple[str, TensorSpec], ...]:
    """(port, tensor) of partial sums."""
    splits = split(shape, machine).splits
    return ((PARTIAL, TensorSpec((splits, shape[1]))),) if splits > 1 else ()


def stores(shape: tuple[int, ...], machine: Machine) -> bool:
    """Whether db is stored by fours, as narrow elements must be."""
    return split(shape, machine).splits > 1


def lower(
    shape: tuple[int, ...], machine: Machine, read: DType = DType.F32, stored: DType = DType.F32
) -> Lowering:
    """db from dy, whose elements have the types `stored` and `read`."""
    n, k, *pixels = shape
    shared = split(shape, machine)
    constants = (
        ("batch", n),
        ("filters", k),
        ("pixels", prod(pixels)),
        ("chunk", shared.chunk),
        ("splits", shared.splits),
        ("vector", _vector(shape)),
        *constant("resultelement", read),
    )
    name = "_".join(("conv_bias_bwd_weight", f"{n}x{k}x{prod(pixels)}", *name_of((read,))))
    first = Kernel(name, "conv_bias.hip", BLOCK, constants)
    several = shared.splits > 1
    launch = Launch(name, (shared.splits, k, 1), ("dy", PARTIAL if several else "db"))
    if not several:
        return Lowering((first,), (launch,))
    second, grid = sum_of(machine, "conv_bias", shared.splits, k, result=stored)
    return Lowering((first, second), (launch, Launch(second.name, grid, (PARTIAL, "db"))))


def inside(shape: tuple[int, ...], machine: Machine) -> float:
    """Rounding inside a channel's sum, in the terms of simgen/ground/numerics/spread.py."""
    shared, vector = split(shape, machine), _vector(shape)
    rounds = ceil(shared.chunk / (BLOCK * vector))
    return stages(2, 2 if vector == 4 else 1, 2 * rounds, *(2,) * int(log2(BLOCK)), shared.splits)


def depth(shape: tuple[int, ...], machine: Machine) -> int:
    """Roundings on the longest way from an element into its sum."""
    shared = split(shape, machine)
    return shared.depth + shared.splits


def _vector(shape: tuple[int, ...]) -> int:
    """Elements of a load."""
    return 4 if prod(shape[2:]) % 4 == 0 else 1
