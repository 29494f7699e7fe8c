"""Tensors of narrow types around kernels that do not move them: converted to float32, and back.

Kernels move narrow elements by fours. Where rows do not lie so, or a kernel knows float32 alone,
the elements of a port go through a workspace: a launch before widens them, one after narrows them.
What is rounded is the same, once, as it is stored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simgen.ground.ir import Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics.rounding import identifier
from simgen.layers.base import Layer, Lowering, Port
from simgen.layers.elementwise import BLOCK, VECTOR, as_float, grid, zeros
from simgen.layers.written import writes_all

if TYPE_CHECKING:
    from simgen.ground.dtypes import DType


def ports(layer: Layer, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
    """The layer's ports, and the workspaces of those that are converted."""
    own = layer.ports(inputs, direction)
    converted = _converted(layer, inputs, direction, own)
    return (*own, *(Port(_wide(p), TensorSpec(p.spec.shape), scratch=True) for p in converted))


def lower(layer: Layer, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
    """The layer's kernels and launches, between those that convert."""
    made = layer.lower(inputs, direction)
    converted = _converted(layer, inputs, direction, layer.ports(inputs, direction))
    if not converted:
        return made
    own = {port.name: _wide(port) for port in converted}
    launches = (
        replace(launch, args=tuple(own.get(arg, arg) for arg in launch.args))
        for launch in made.launches
    )
    before = [
        cast(p.spec.size, p.spec.dtype, TensorSpec(()).dtype, p.name, own[p.name])
        for p in converted
        if p.fill is not None
    ]
    after = [
        cast(p.spec.size, TensorSpec(()).dtype, p.spec.dtype, own[p.name], p.name)
        for p in converted
        if p.fill is None
    ]
    parts = (*before, Lowering(made.kernels, tuple(launches)), *after)
    kernels = dict.fromkeys(kernel for part in parts for kernel in part.kernels)
    return Lowering(tuple(kernels), tuple(launch for part in parts for launch in part.launches))


def cast(
    size: int,
    source: DType,
    target: DType,
    reads: str,
    writes: str,
    scale: float = 1.0,
    zero_points: tuple[int, int] = (0, 0),
) -> Lowering:
    """One launch that converts `size` elements of port `reads` to port `writes`.

    Numbers are multiplied by `scale`; `zero_points` are those of both, where they are of 8 bits.
    """
    ends = [f"{each.name}{zeros(zero)}" for each, zero in zip((source, target), zero_points)]
    name = f"cast_{'_'.join(ends)}_{size}" + (f"_a{identifier(scale)}" if scale != 1 else "")
    constants = (
        ("source", as_float(source, zero_points[0])),
        ("target", as_float(target, zero_points[1])),
        ("scale", scale),
        ("size", size),
        ("vector", VECTOR),
    )
    kernel = Kernel(name, "cast.hip", BLOCK, constants)
    return Lowering((kernel,), (Launch(name, grid(size), (reads, writes)),))


def _converted(
    layer: Layer, inputs: tuple[TensorSpec, ...], direction: Pass, own: tuple[Port, ...]
) -> list[Port]:
    moved = layer.moves(inputs, direction)
    return [p for p in own if p.spec.dtype.is_narrow and not p.scratch and p.name not in moved]


def _wide(port: Port) -> str:
    return f"{port.name}_f32"


writes_all("cast")
