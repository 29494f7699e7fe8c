"""Layer normalisation: zero mean and unit variance of each row, then an affine map.

    forward   mean = sum(x) / D      var = sum((x - mean)^2) / D      r = 1 / sqrt(var + epsilon)
              y = gamma * (x - mean) * r + beta
    backward  g = dy * gamma
              dx     = r * (g - sum(g) / D - (x - mean) * r^2 * sum(g * (x - mean)) / D)
              dbeta  = sum(dy)      dgamma = sum(dy * (x - mean) * r)       over all rows

    x, y, dx, dy  of any rank: `axis` and all axes behind it form a row, of D elements
    gamma, beta, dgamma, dbeta  the extents of a row      mean, invstd  mean and r, those before it

`axis` counts from the end if it is negative: -1 is the last one. Forward is the same in training
and in inference; it stores mean and r for backward.

x, y, dx and dy have the type of the input. gamma, beta, their gradients, mean, r and the sums are
float32. Narrow elements move by fours: if rows are no multiple of four, a second launch makes y or
dx from each row's intermediate results, but for NVIDIA GPUs (reduction.by_fours).

Source: Ba, Kiros and Hinton, "Layer Normalization", 2016, eq. 3 and 4; torch.nn.LayerNorm;
LayerNormalization of ONNX, whose `axis` is this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics.powers import next_power_of_two
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, float32, identifier
from simgen.ground.numerics.spread import Spread
from simgen.layers import axes, elementwise
from simgen.layers.base import Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.norm import written as written
from simgen.layers.norm.layer_norm_errors import LayerNormErrors
from simgen.layers.reduction import (
    BLOCK,
    EACH,
    FINALS,
    HELD,
    Tiling,
    by_fours,
    keeping,
    keeps,
    rows_over_items,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

F, BX, BW = Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT
# The data file's x has small variances, so that epsilon shows.
X_MEAN, X_STD = 1 / 32, 1 / 8
# For sums over rows: the rows that a work-item adds up, if each compute unit gets enough work-
# groups, and the columns of a work-group, each a vector or one element.
DEPTHS = (64, 8)
GROUPS_OF_SUMS = 4
COLUMNS = {elementwise.VECTOR: 256, 1: 64}
# For sums over chunks: the chunks that a work-item adds up, and the most work-items of a column.
TERMS, MOST_SLICES = 8, 32
READS = {F: ("x", "gamma", "beta"), BX: ("x", "dy", "gamma", "mean", "invstd"),
         BW: ("x", "dy", "mean", "invstd")}  # fmt: skip
WRITES = {F: ("y", "mean", "invstd"), BX: ("dx",), BW: ("dgamma", "dbeta")}
OF_ROWS = ("mean", "invstd")  # ports with a value for each row
OF_COLUMNS = ("gamma", "beta", "dgamma", "dbeta")  # ports with a value for each element of a row
PARTS = ("part_dgamma", "part_dbeta")  # workspaces: the sums over some rows
ROW_SUMS = ("shift", "tilt")  # the same: of each row, what becomes a part of dx


@dataclass(frozen=True)
class LayerNorm(Layer):
    kind = "layer_norm"
    section = "LayerNorm"
    # With three elements, a variance may be close to zero.
    contract: ClassVar[Contract] = Contract(rounds=True, slope_shape=(2, 2, 3, 16))
    passes: ClassVar[tuple[Pass, ...]] = (F, BX, BW)
    parameters: ClassVar[tuple[str, ...]] = ("gamma", "beta")
    per_sample = True
    any_float = True
    sample: ClassVar[Mapping[str, str]] = {"shape": "8x128x768"}
    reads: ClassVar[Mapping[Pass, tuple[str, ...]]] = READS
    writes: ClassVar[Mapping[Pass, tuple[str, ...]]] = WRITES
    share: ClassVar[float] = 0  # factor of a row's sums; 0: 1 / D

    axis: int = key(
        "axis", -1, "first axis of a row; the row extends to the last axis; -1 is the last"
    )
    epsilon: float = key("epsilon", 1e-5, "constant added to variances", 1e-12, 1e6)

    def view(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """(rows, elements of a row)."""
        return axes.rows(shape, axes.behind_batch("axis", self.axis, shape))

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        self.view(x.shape)
        return x

    def _specs(self, x: TensorSpec) -> dict[str, TensorSpec]:
        """Specs of all ports except the workspaces."""
        axis = axes.behind_batch("axis", self.axis, x.shape)
        row, column = TensorSpec(x.shape[:axis]), TensorSpec(x.shape[axis:])
        specs = {**dict.fromkeys(OF_ROWS, row), **dict.fromkeys(OF_COLUMNS, column)}
        return specs | dict.fromkeys(("x", "y", "dx", "dy"), x)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Per element: sum, difference, square and its sum, three operations to y; backward, nine
        to dx and five to the sums of the parameters. Per row: two divisions by D, epsilon, square
        root and reciprocal; backward, four products."""
        rows, _ = self.view(inputs[0].shape)
        flops, of_row = {F: (8, 3), BX: (9, 4), BW: (5, 0)}[direction]
        return flops * inputs[0].size + of_row * rows, 2 * rows if direction is F else 0

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        specs, fills = self._specs(x), usual(self.view(x.shape)[1])
        chunks = self._columns(x.shape).chunks if direction is BW else 1
        part = TensorSpec((chunks, *specs["gamma"].shape))
        apart = ROW_SUMS if direction is BX and self._apart(x) else ()
        return (
            *(Port(name, specs[name], fills[name]) for name in self.reads[direction]),
            *(Port(name, specs[name]) for name in self.writes[direction]),
            *(Port(name, part, scratch=True) for name in PARTS if chunks > 1),
            *(Port(name, specs["mean"], scratch=True) for name in apart),
        )

    def _apart(self, x: TensorSpec) -> bool:
        """Whether rows of narrow elements begin or end within a word."""
        return x.dtype.is_narrow and self._rows(x.shape).vector < elementwise.VECTOR

    def _rows(self, shape: tuple[int, ...], tensors: int = 1) -> Tiling:
        """How rows are spread: as in softmax, neighbouring work-items have neighbouring elements
        of a row, which one work-group has whole. It reads so many `tensors`."""
        _, length = self.view(shape)
        # With one tensor, twice as many: each element of gamma and beta serves more rows.
        twice = tensors == 1 and next_power_of_two(length) == length
        over = by_fours(length, self.dtype, self.machine)
        if self._by_halves and over[0] > 1:
            return keeping(length, over, tensors, 2 * EACH if twice else EACH)
        return rows_over_items(length, over)

    @property
    def _by_halves(self) -> bool:
        """Whether a GPU whose loads hide each other reads elements of 16 bits."""
        return self.dtype.nbytes == 2 and self.machine.is_nvidia

    def _tensors(self, direction: Pass) -> int:
        """Tensors like x that a pass goes over by rows; that of parameters reads them by columns,
        behind what each row has of x alone."""
        over = (name not in (*OF_ROWS, *OF_COLUMNS) for name in self.reads[direction])
        return 1 if direction is BW else sum(over)

    def _kept(self, tiling: Tiling, tensors: int) -> bool:
        """Whether work-items keep their elements of so many tensors in registers."""
        more = self._by_halves and tiling.vector > 1
        return keeps(tiling, tensors) if more else tiling.held <= HELD

    def _columns(self, shape: tuple[int, ...]) -> Tiling:
        """How the sums over rows are spread: a work-group has some columns of some rows."""
        rows, length = self.view(shape)
        vector = elementwise.VECTOR if length % elementwise.VECTOR == 0 else 1
        lanes = min(COLUMNS[vector] // vector, next_power_of_two(length // vector))
        slices = BLOCK // lanes
        held, least = DEPTHS
        while held > least:
            tiling = Tiling(rows, lanes, slices, vector, held)
            if tiling.groups(length // vector) >= GROUPS_OF_SUMS * self.machine.units:
                break
            held //= 2
        return Tiling(rows, lanes, slices, vector, min(held, ceil(rows / slices)))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        if direction is BW:
            return self._over_rows(x)
        apart, epsilon, template = self._apart(x), 0.0, "layer_norm_backward.hip"
        if direction is F:
            epsilon, template = self._epsilon, "layer_norm_forward.hip"
        kernel, grid = self._by_rows(x, direction, template, epsilon, whole=not apart)
        name = kernel.name
        args = (*READS[direction], *WRITES[direction])
        if not apart:
            return Lowering((kernel,), (Launch(name, grid, args),))
        own = ("x", *OF_ROWS) if direction is F else (*READS[BX], *ROW_SUMS)
        rest, launch = self._apply(x, direction)
        return Lowering((kernel, rest), (Launch(name, grid, own), launch))

    def _by_rows(
        self,
        x: TensorSpec,
        direction: Pass,
        template: str,
        epsilon: float,
        *,
        whole: bool,
        what: str = "",
    ) -> tuple[Kernel, tuple[int, int, int]]:
        """What goes over rows, and its grid; if not `whole`, it leaves what there is of each."""
        rows, length = self.view(x.shape)
        tensors = self._tensors(direction)
        tiling = self._rows(x.shape, tensors)
        told = f"_e{identifier(self.epsilon)}" if epsilon else ""
        constants: Constants = (
            ("rows", rows),
            ("axis", length),
            ("group_rows", tiling.lanes),
            ("slices", tiling.slices),
            ("vector", tiling.vector),
            ("held", tiling.held),
            ("kept", int(self._kept(tiling, tensors))),
            ("finals", min(FINALS, tiling.slices)),
            ("inverse", float32(self.share or 1 / length)),
            ("epsilon", epsilon),
            ("with_result", int(whole)),
            *elementwise.element(x.dtype),
        )
        name = f"{self.kind}_{what or direction}_{rows}x{length}{told}{elementwise.suffix(x.dtype)}"
        return Kernel(name, template, tiling.block, constants), (ceil(rows / tiling.lanes), 1, 1)

    def _apply(self, x: TensorSpec, direction: Pass) -> tuple[Kernel, Launch]:
        """What makes y or dx of what there is of each row, four neighbours at a time."""
        rows, length = self.view(x.shape)
        name = f"layer_norm_{direction}_apply_{rows}x{length}{elementwise.suffix(x.dtype)}"
        template, args = "layer_norm_apply_backward.hip", (*READS[BX], *ROW_SUMS, "dx")
        if direction is F:
            template, args = "layer_norm_apply.hip", (*READS[F], *OF_ROWS, "y")
        constants: Constants = (
            ("axis", length),
            ("size", x.size),
            ("vector", elementwise.VECTOR),
            *elementwise.element(x.dtype),
        )
        kernel = Kernel(name, template, elementwise.BLOCK, constants)
        return kernel, Launch(name, elementwise.grid(x.size), args)

    def _over_rows(self, x: TensorSpec, *, centred: bool = True) -> Lowering:
        """dgamma and, where rows are `centred`, dbeta: sums of chunks of rows, and where there are
        several, their sums."""
        rows, length = self.view(x.shape)
        tiling = self._columns(x.shape)
        prefix = f"{self.kind}_{BW}"
        reads = READS[BW] if centred else ("x", "dy", "invstd")
        writes, parts = (WRITES[BW], PARTS) if centred else (WRITES[BW][:1], PARTS[:1])
        kernel = Kernel(
            f"{prefix}_{rows}x{length}{elementwise.suffix(x.dtype)}",
            "layer_norm_sums.hip",
            BLOCK,
            (
                ("rows", rows),
                ("axis", length),
                ("vector", tiling.vector),
                ("lanes", tiling.lanes),
                ("slices", tiling.slices),
                ("held", tiling.held),
                ("chunks", tiling.chunks),
                ("finals", min(FINALS, tiling.slices)),
                ("centred", int(centred)),
                *elementwise.element(x.dtype),
            ),
        )
        grid = (tiling.groups(length // tiling.vector), 1, 1)
        if tiling.chunks == 1:
            return Lowering((kernel,), (Launch(kernel.name, grid, (*reads, *writes)),))
        ends, second = self._ends(tiling, length, centred=centred)
        sums = Launch(kernel.name, grid, (*reads, *parts))
        return Lowering((kernel, ends), (sums, Launch(ends.name, second, (*parts, *writes))))

    def _ends(
        self, tiling: Tiling, length: int, *, centred: bool
    ) -> tuple[Kernel, tuple[int, int, int]]:
        """What adds up the sums of chunks, of both gradients in one launch."""
        slices = min(MOST_SLICES, next_power_of_two(ceil(tiling.chunks / TERMS)))
        lanes = BLOCK // slices
        kernel = Kernel(
            f"{self.kind}_{BW}_end_{tiling.chunks}x{length}",
            "layer_norm_sums_end.hip",
            BLOCK,
            (
                ("axis", length),
                ("chunks", tiling.chunks),
                ("vector", tiling.vector),
                ("lanes", lanes),
                ("slices", slices),
                ("centred", int(centred)),
            ),
        )
        return kernel, ((1 + centred) * ceil(length / (lanes * tiling.vector)), 1, 1)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        x, length, flat = self._flat(tensors)
        if direction is F:
            mean = x.mean(axis=1, keepdims=True)
            r = 1 / np.sqrt(np.square(x - mean).mean(axis=1, keepdims=True) + self._epsilon)
            y = flat["gamma"] * (x - mean) * r + flat["beta"]
            return self._shaped({"y": y, "mean": mean, "invstd": r}, tensors)
        d, r, dy = x - flat["mean"], flat["invstd"], flat["dy"]
        if direction is BW:
            sums = {"dgamma": (dy * (d * r)).sum(axis=0), "dbeta": dy.sum(axis=0)}
            return self._shaped(sums, tensors)
        g = dy * flat["gamma"]
        slope = np.square(r) * (g * d).sum(axis=1, keepdims=True) / length
        dx = r * (g - g.sum(axis=1, keepdims=True) / length - d * slope)
        return self._shaped({"dx": dx}, tensors)

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._errors(tensors, direction, proxy=False)

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        """One error of a row's sum reaches all of the row, and none of a column another one."""
        _, length, _ = self._flat(tensors)
        shared = {"y": length, "dx": length}
        return {
            port: Spread(np.minimum(sigma, tolerance[port]), shared.get(port, 1))
            for port, sigma in self._errors(tensors, direction, proxy=True).items()
        }

    def _errors(self, tensors: Tensors, direction: Pass, *, proxy: bool) -> Tensors:
        _, _, flat = self._flat(tensors)
        shape = tensors["x"].shape
        by_rows = self._rows(shape, self._tensors(direction))
        tiling = self._columns(shape) if direction is BW else by_rows
        errors = LayerNormErrors(tiling, proxy)
        if direction is F:
            found = self._forward_errors(errors, flat)
        else:
            of_pass = errors.parameters if direction is BW else errors.data
            found = of_pass({name: flat[name] for name in READS[direction]})
        # What is exact cannot fall below the smallest normal number either.
        bounds = {n: np.where(b > 0, b * SECOND_ORDER + TINY, 0.0) for n, b in found.items()}
        return self._shaped(bounds, tensors)

    def _forward_errors(self, errors: LayerNormErrors, flat: Tensors) -> Tensors:
        return errors.forward(flat["x"], flat["gamma"], flat["beta"], self._epsilon)

    @property
    def _epsilon(self) -> float:
        return float32(self.epsilon)

    def _flat(self, tensors: Tensors) -> tuple[Array, int, dict[str, Array]]:
        """(x as rows, their length, all tensors as (rows, length), with 1 where they have one)."""
        rows, length = self.view(tensors["x"].shape)
        extents = {**dict.fromkeys(OF_ROWS, (rows, 1)), **dict.fromkeys(OF_COLUMNS, (1, length))}
        flat = {
            name: values.reshape(extents.get(name, (rows, length)))
            for name, values in tensors.items()
        }
        return flat["x"], length, flat

    def _shaped(self, made: Tensors, tensors: Tensors) -> dict[str, Array]:
        specs = self._specs(TensorSpec(tensors["x"].shape))
        return {name: values.reshape(specs[name].shape) for name, values in made.items()}


def usual(length: int) -> dict[str, Fill]:
    """Statistics about as rows of the data file's x would give them."""
    normal, invstd = Distribution.NORMAL, 1 / X_STD
    return {
        "x": Fill(normal, X_MEAN, X_STD),
        "dy": Fill(normal, 0.0, 1.0),
        "gamma": Fill(normal, 1.0, 0.25),
        "beta": Fill(normal, 0.0, 0.25),
        "mean": Fill(normal, X_MEAN, X_STD / sqrt(length)),
        "invstd": Fill(normal, invstd, invstd / sqrt(2 * length), low=invstd / 4),
    }
