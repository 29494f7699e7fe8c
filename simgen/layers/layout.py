"""Storage formats: in which order the axes of a layer's images and filters lie in memory.

A layer whose kernels read and write one format gets the others through conversions: launches of
its own pass, which are counted and timed with it; what they read as it is stored needs none
(`native`). What a layer computes does not depend on that, and so it has everything of itself in the
order of its kernels: `plain_ports`, `plain_lower`, `plain_reference`, ... From there
`ChoosesLayout` makes what it has, with the tensors as they are stored.

    nchw, nhwc    images (samples, channels, rows, columns); channels last
    kcrs, krsc    filters (filters, channels, rows, columns); channels last ("packed")

DeepBench lets a library choose its formats, where conversions are timed.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, prod
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.ir import DType, Kernel, Launch, Pass, TensorSpec
from simgen.layers.base import Choice, Layer, Lowering, Port, key
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.written import Places, Writes, cut_by, dense, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.spread import Spread
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

SIDE = 32  # side of a tile that is transposed in LDS


class Layout(StrEnum):
    """Order of the axes of images."""

    NCHW = "nchw"
    NHWC = "nhwc"


class FilterLayout(StrEnum):
    KCRS = "kcrs"
    KRSC = "krsc"


LAST = (Layout.NHWC, FilterLayout.KRSC)  # with channels as the last axis
TO_LAST, FROM_LAST = (0, 2, 3, 1), (0, 3, 1, 2)  # axes of what is made


@dataclass(frozen=True)
class ChoosesLayout(Layer):
    """A layer whose images and filters may lie in other orders than its kernels have them."""

    images: ClassVar[tuple[str, ...]] = ("x", "y", "dx", "dy")
    filters: ClassVar[tuple[str, ...]] = ("w", "dw")

    layout: Layout = key("layout", Layout.NCHW, "order of the axes of images")
    filter_layout: FilterLayout = key(
        "filter_layout", FilterLayout.KCRS, "order of the axes of filters"
    )

    @property
    def formats(self) -> tuple[str, ...]:
        """What is stored otherwise than a layer before or behind it has its tensors."""
        return (str(self.layout),) if self.layout in LAST else ()

    def check_formats(self, dtype: DType) -> None:
        """Raises ValueError if tensors of this type cannot be converted."""
        if not dtype.is_float and any(map(self._turned, (*self.images, *self.filters))):
            cure = "leave layout and filter_layout out"
            raise ValueError(f"conversions of formats move floats, and x is {dtype}; {cure}")

    def _turned(self, port: str) -> bool:
        """Whether a port's tensor is stored with channels last."""
        images = port in self.images and self.layout in LAST
        return images or (port in self.filters and self.filter_layout in LAST)

    def native(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> frozenset[str]:
        """Ports with channels last that its kernels read as they are stored."""
        return frozenset()

    # ---- What a layer of this kind has, in the order of its kernels ----

    @abstractmethod
    def plain_ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]: ...
    @abstractmethod
    def plain_lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering: ...
    @abstractmethod
    def plain_moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]: ...
    @abstractmethod
    def plain_choices(
        self, inputs: tuple[TensorSpec, ...], direction: Pass
    ) -> tuple[Choice, ...]: ...
    @abstractmethod
    def plain_reference(self, tensors: Tensors, direction: Pass) -> Tensors: ...
    @abstractmethod
    def plain_tolerance(self, tensors: Tensors, direction: Pass) -> Tensors: ...
    @abstractmethod
    def plain_exact(self, tensors: Tensors, direction: Pass) -> Tensors: ...
    @abstractmethod
    def plain_spread(
        self, tensors: Tensors, direction: Pass, tolerance: Tensors
    ) -> Mapping[str, Spread]: ...

    # ---- The same, as it is stored ----

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        plain = self.plain_ports(inputs, direction)
        stored = (
            replace(p, spec=_stored(p.spec)) if self._turned(p.name) and not p.scratch else p
            for p in plain
        )
        spaces = self._workspaces(inputs, direction)
        return (*stored, *(Port(_plain(name), spec, scratch=True) for name, spec in spaces.items()))

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        turned = (name for name in (*self.images, *self.filters) if self._turned(name))
        return tuple(dict.fromkeys((*self.plain_moves(inputs, direction), *turned)))

    def _workspaces(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> dict[str, TensorSpec]:
        """Port -> what its kernels read or write in its place: of float32, if they must have it."""
        moved, native = self.plain_moves(inputs, direction), self.native(inputs, direction)
        return {
            p.name: p.spec if p.name in moved else TensorSpec(p.spec.shape)
            for p in self.plain_ports(inputs, direction)
            if self._turned(p.name) and not p.scratch and p.name not in native
        }

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        made = self.plain_lower(inputs, direction)
        spaces = self._workspaces(inputs, direction)
        if not spaces:
            return made
        launches = (
            replace(each, args=tuple(_plain(arg) if arg in spaces else arg for arg in each.args))
            for each in made.launches
        )
        name, before, after = f"{self.kind}_turn", [], []
        for port in self.plain_ports(inputs, direction):
            space = spaces.get(port.name)
            if space is None:
                continue
            n, channels, *pixels = space.shape
            if port.fill is not None:  # it is read
                sides, types = (prod(pixels), channels), (port.spec.dtype, space.dtype)
                before.append(turn(name, n, *sides, *types, port.name, _plain(port.name)))
            else:
                sides, types = (channels, prod(pixels)), (space.dtype, port.spec.dtype)
                after.append(turn(name, n, *sides, *types, _plain(port.name), port.name))
        parts = (*before, Lowering(made.kernels, tuple(launches)), *after)
        kernels = dict.fromkeys(kernel for part in parts for kernel in part.kernels)
        return Lowering(tuple(kernels), tuple(launch for part in parts for launch in part.launches))

    def choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        plain, spaces = self.plain_choices(inputs, direction), self._workspaces(inputs, direction)
        native = ", ".join(sorted(self.native(inputs, direction)))
        if native:
            plain = (*plain, Choice("layout", str(self.layout), f"{native}: read as it is stored"))
        if not spaces:
            return plain
        formats = [str(each) for each in (self.layout, self.filter_layout) if each in LAST]
        convert = "a launch converts" if len(spaces) == 1 else f"{len(spaces)} launches convert"
        why = f"{convert} {', '.join(spaces)}: its kernels have channels before pixels"
        return (*plain, Choice("layout", ", ".join(formats), why))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._as_stored(self.plain_reference(self._as_computed(tensors), direction))

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._as_stored(self.plain_tolerance(self._as_computed(tensors), direction))

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._as_stored(self.plain_exact(self._as_computed(tensors), direction))

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        given, bounds = self._as_computed(tensors), self._as_computed(tolerance)
        found = self.plain_spread(given, direction, bounds)
        sigmas = self._as_stored({port: each.sigma for port, each in found.items()})
        return {port: replace(each, sigma=sigmas[port]) for port, each in found.items()}

    def _as_computed(self, tensors: Tensors) -> Tensors:
        return {p: t.transpose(FROM_LAST) if self._turned(p) else t for p, t in tensors.items()}

    def _as_stored(self, tensors: Tensors) -> Tensors:
        return {p: t.transpose(TO_LAST) if self._turned(p) else t for p, t in tensors.items()}


def _stored(spec: TensorSpec) -> TensorSpec:
    return replace(spec, shape=tuple(spec.shape[axis] for axis in TO_LAST))


def _plain(port: str) -> str:
    """The workspace that kernels have in place of a port."""
    return f"{port}_plain"


def turn(
    prefix: str,
    batch: int,
    rows: int,
    columns: int,
    source: DType,
    target: DType,
    reads: str,
    written: str,
) -> Lowering:
    """One launch that makes (batch, columns, rows) of (batch, rows, columns).

    Narrow elements are stored by fours. Where rows of the result do not lie so, work-items gather
    four that are neighbours there; otherwise tiles are turned in LDS.
    """
    tiled = not target.is_narrow or rows % VECTOR == 0
    name = f"{prefix}_{batch}x{rows}x{columns}_{source.name}_{target.name}"
    constants = (
        ("source", source.c), ("target", target.c), ("batch", batch), ("rows", rows),
        ("columns", columns), ("tiled", int(tiled)),
    )  # fmt: skip
    kernel = Kernel(name, "turn.hip", BLOCK, constants)
    grid = (ceil(columns / SIDE), ceil(rows / SIDE), batch)
    if not tiled:
        grid = (ceil(batch * rows * columns / (BLOCK * VECTOR)), 1, 1)
    return Lowering((kernel,), (Launch(name, grid, (reads, written)),))


@writes("turn")
def _written(c: Values, block: int) -> list[Writes]:
    batch, rows, columns = c["batch"], c["rows"], c["columns"]
    if not c["tiled"]:
        return [dense(-1, batch * rows * columns, VECTOR, block)]
    x, y = cut_by(Places(columns, rows, SIDE)), cut_by(Places(rows, 1, SIDE))
    return [Writes(-1, x, y, cut_by(Places(batch, rows * columns)))]
