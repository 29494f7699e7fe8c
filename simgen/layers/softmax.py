"""Softmax over the channels of each pixel, or over a whole image.

    forward   y  = exp(x - m) / sum(exp(x - m))       m = max(x), or 0 with algo "fast"
              y  = 0 where all elements are hidden    algo "masked"
              y  = x - m - log(sum(exp(x - m)))       algo "log"
    backward  dx = y * (dy - sum(y * dy))
              dx = dy - exp(y) * sum(dy)              algo "log"

max and sum run over the middle axis of the view (outer, axis, inner) of a tensor:

    mode "channel"   (N, C, H, W) -> (N, C, H * W)
    mode "instance"  (N, C, H, W) -> (N, C * H * W, 1)

as cuDNN's cudnnSoftmaxForward and cudnnSoftmaxBackward define it. A row is one (outer, inner). In
mode "channel", softmax_axis says which axis that is (Caffe's `axis`), of a tensor of any rank: 1,
or -1 for the last.

Hidden elements are below half of the type's lowest number, as attention masks make them, and algo
"masked" limits m to that value. If a query sees no key, its attention is 0.

All tensors have the type of the input; maxima and sums are float32. Narrow elements move by fours:
if rows are no multiple of four, or not contiguous, a second launch makes y or dx from each row's
intermediate results. Contiguous rows do not need it on NVIDIA GPUs (reduction.by_fours).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, log, prod
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, Distribution, DType, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import rounding
from simgen.ground.numerics.powers import next_power_of_two
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, U, float32
from simgen.layers import axes, elementwise
from simgen.layers.base import Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.reduction import BLOCK, EACH, FINALS, WARP, by_fours, by_warps, keeping, keeps
from simgen.layers.written import Places, Writes, cut_by, writes, writes_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

HELD = 16  # elements of a row that one of BLOCK work-items keeps in registers
# For longer rows, which have a work-group each: a work-item's registers besides its elements, and
# the elements up to which an H200 hides one work-group's latency behind another.
OTHER_REGISTERS, OVERLAPPED_ELEMENTS = 28, 40
WIDEST = 1024  # work-items
FLUSHED, NEAR = 95.0, 16.0  # exp(-x) is 0 in float32 from about x on, within


class SoftmaxAlgo(StrEnum):
    FAST = "fast"  # no subtraction of the maximum: overflows from x = 88 on
    ACCURATE = "accurate"
    LOG = "log"
    MASKED = "masked"  # accurate, and 0 where all elements of a row are hidden


class SoftmaxMode(StrEnum):
    INSTANCE = "instance"
    CHANNEL = "channel"


@dataclass(frozen=True)
class SoftmaxMapping:
    """How a work-group's items lie over rows."""

    rows: int  # rows per work-group
    slices: int  # work-items per row
    vector: int  # elements per load
    held: int  # elements of a row per work-item
    in_registers: bool  # all of them, as float32; otherwise a row is read again
    kept: bool = False  # but for those of 16 bits, which registers keep as they are stored

    @property
    def block(self) -> int:
        """Work-items of a work-group."""
        return self.rows * self.slices

    @property
    def additions(self) -> int:
        """Roundings on the longest way from an element to its row's sum."""
        return self.held + ceil(self.slices / FINALS) + min(self.slices, FINALS)


@dataclass(frozen=True)
class Softmax(Layer):
    kind = "softmax"
    section = "Softmax"
    contract: ClassVar[Contract] = Contract(rounds=True)
    per_sample = True
    any_float = True
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "1000", "h": "1", "w": "1"}

    algo: SoftmaxAlgo = key(
        "softmax_algo",
        SoftmaxAlgo.ACCURATE,
        "fast: no maximum subtracted; log: logarithm; masked: 0 in rows that are all -inf",
    )
    mode: SoftmaxMode = key(
        "softmax_mode",
        SoftmaxMode.CHANNEL,
        "over the channels of each pixel, or over a whole image",
    )
    axis: int = key("softmax_axis", 1, "mode channel: the axis, 1 or another; -1 is the last")

    def view(self, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """(outer, axis, inner) of an (N, ...) shape."""
        if self.mode is SoftmaxMode.INSTANCE:
            return shape[0], prod(shape[1:]), 1
        at = axes.behind_batch("softmax_axis", self.axis, shape)
        return prod(shape[:at]), shape[at], prod(shape[at + 1 :])

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        self.view(x.shape)
        return x

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Per element: [max, subtract], exp, add, multiply; backward: multiply-add, subtract,
        multiply. Per row: one reciprocal or logarithm."""
        (x,) = inputs
        outer, _, inner = self.view(x.shape)
        if direction is Pass.FORWARD:
            return (2 if self.algo is SoftmaxAlgo.FAST else 4) * x.size, x.size + outer * inner
        return (3 * x.size, x.size) if self.algo is SoftmaxAlgo.LOG else (4 * x.size, 0)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        if direction is Pass.FORWARD:
            # Around 100, exp overflows float32: what forgets to subtract the maximum gives NaN.
            mean = 0.0 if self.algo is SoftmaxAlgo.FAST else 100.0
            ends = (Port("x", x, Fill(Distribution.NORMAL, mean, 2.0)), Port("y", x))
            return (*ends, *self._kept(x, direction))
        _, axis, _ = self.view(x.shape)
        # About what a forward pass gives: rows of y that sum to one, whatever the axis.
        y = Fill(Distribution.UNIFORM, 0.0, 2.0 / axis)
        if self.algo is SoftmaxAlgo.LOG:
            y = Fill(Distribution.UNIFORM, -log(axis) - 1.0, -log(axis))
        dy = Fill(Distribution.NORMAL, 0.0, 1.0)
        return (Port("y", x, y), Port("dy", x, dy), Port("dx", x), *self._kept(x, direction))

    def _kept(self, x: TensorSpec, direction: Pass) -> tuple[Port, ...]:
        """Workspaces: what there is of each row, where rows begin or end within a word."""
        if not x.dtype.is_narrow or self.mapped(x.shape, direction).vector == elementwise.VECTOR:
            return ()
        outer, _, inner = self.view(x.shape)
        names = ("peak", "scale") if direction is Pass.FORWARD else ("total",)
        return tuple(Port(name, TensorSpec((outer, inner)), scratch=True) for name in names)

    def mapped(self, shape: tuple[int, ...], direction: Pass) -> SoftmaxMapping:
        """The mapping of work-items to rows.

        Rows that lie contiguous (inner = 1) are cut into slices of neighbouring elements, so that
        a wavefront reads neighbouring addresses. Otherwise neighbouring work-items take
        neighbouring rows, for the same reason.
        """
        _, axis, inner = self.view(shape)
        if inner == 1:
            vector, reach = by_fours(axis, self.dtype, self.machine)
            forward = direction is Pass.FORWARD
            if axis > BLOCK * HELD:
                return self._long(axis, (vector, reach), 1 if forward else 2)
            if forward and self._keeps(vector) and reach > WARP * EACH:
                few = by_warps(axis, (vector, reach), EACH)
                return SoftmaxMapping(few.lanes, few.slices, vector, few.held, True)
            each = EACH if vector > 1 and self._by_halves else vector
            slices = min(BLOCK, next_power_of_two(ceil(reach / each)))
            held = ceil(reach / (slices * vector)) * vector
            return SoftmaxMapping(BLOCK // slices, slices, vector, held, True)
        rows = 64 if inner >= 64 or axis < 16 else 16
        slices = BLOCK // rows
        held = ceil(axis / slices)
        return SoftmaxMapping(rows, slices, 1, held, held <= HELD)

    @property
    def _by_halves(self) -> bool:
        """Whether a GPU whose loads hide each other reads elements of 16 bits."""
        narrow = self.dtype.nbytes == 2
        return narrow and self.machine.wavefront == WARP

    def _keeps(self, vector: int) -> bool:
        """Whether work-items may keep elements by accesses of so many as `keeping` has them."""
        return vector > 1 and self._by_halves and self.machine.is_nvidia

    def _long(self, axis: int, over: tuple[int, int], tensors: int) -> SoftmaxMapping:
        """A work-group for each row. All of its `tensors` rows are in registers, if the machine
        has as many; if not, a work-group is as large as can be, so that few rows are under way
        and the cache still has them when they are read again. `over` is what `by_fours` gives.
        """
        machine, (vector, reach) = self.machine, over
        if machine.wavefront != WARP:
            held = ceil(reach / (BLOCK * vector)) * vector
            return SoftmaxMapping(1, BLOCK, vector, held, False)
        places = machine.simds * machine.wavefronts * machine.wavefront
        blocks = [block for block in (BLOCK, 2 * BLOCK, WIDEST) if block <= max(BLOCK, places)]
        made = [
            SoftmaxMapping(1, block, vector, ceil(reach / (block * vector)) * vector, True)
            for block in blocks
        ]

        def room(block: int) -> int:
            """Elements of a work-item, where a unit has one work-group."""
            registers = machine.simds * machine.registers * machine.wavefront // block
            return min(machine.item_registers, registers) - OTHER_REGISTERS

        few = [
            each
            for each in made
            if tensors * each.held <= min(OVERLAPPED_ELEMENTS, room(each.block))
        ]
        rows = keeping(axis, over, tensors, EACH)
        if not few and self._keeps(vector) and keeps(rows, tensors):
            return SoftmaxMapping(1, rows.slices, vector, rows.held, False, True)
        fitting = [each for each in made[1:] if tensors * each.held <= room(each.block)]
        return next(iter(few or fitting[::-1]), replace(made[-1], in_registers=False))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        outer, axis, inner = self.view(x.shape)
        reads, made = (("x",), "y") if direction is Pass.FORWARD else (("y", "dy"), "dx")
        kept = tuple(port.name for port in self._kept(x, direction))
        name = f"softmax_{direction}_{self.algo}_{outer}x{axis}x{inner}"
        name += elementwise.suffix(x.dtype)
        kernel, grid = self.kernel(name, x, direction, whole=not kept)
        if not kept:
            return Lowering((kernel,), (Launch(kernel.name, grid, (*reads, made)),))
        rest, launch = self._apply(x, direction, (*reads, *kept, made))
        return Lowering((kernel, rest), (Launch(kernel.name, grid, (*reads, *kept)), launch))

    def kernel(
        self, name: str, x: TensorSpec, direction: Pass, *, whole: bool
    ) -> tuple[Kernel, tuple[int, int, int]]:
        """What goes over rows, and its grid; if not `whole`, it leaves what there is of each row:
        the maximum and the sum's reciprocal or logarithm, or backward the sum.
        """
        outer, axis, inner = self.view(x.shape)
        mapped = self.mapped(x.shape, direction)
        ends: Constants = (("floor", self._floor(x.dtype)),)
        kernel = Kernel(
            name,
            "softmax_forward.hip" if direction is Pass.FORWARD else "softmax_backward.hip",
            mapped.block,
            (
                ("algo", str(self.algo)),
                ("rows", outer * inner),
                ("axis", axis),
                ("inner", inner),
                ("group_rows", mapped.rows),
                ("slices", mapped.slices),
                ("vector", mapped.vector),
                ("held", mapped.held),
                ("in_registers", int(mapped.in_registers)),
                ("kept", int(mapped.kept)),
                ("finals", FINALS),
                ("with_result", int(whole)),
                *(ends if direction is Pass.FORWARD else ()),
                *elementwise.element(x.dtype),
            ),
        )
        return kernel, (ceil(outer * inner / mapped.rows), 1, 1)

    def _apply(
        self, x: TensorSpec, direction: Pass, args: tuple[str, ...]
    ) -> tuple[Kernel, Launch]:
        """What makes y or dx of what there is of each row, four neighbours at a time."""
        outer, axis, inner = self.view(x.shape)
        name = f"softmax_{direction}_apply_{self.algo}_{outer}x{axis}x{inner}"
        kernel = Kernel(
            name + elementwise.suffix(x.dtype),
            "softmax_apply.hip" if direction is Pass.FORWARD else "softmax_apply_backward.hip",
            elementwise.BLOCK,
            (
                ("algo", str(self.algo)),
                ("axis", axis),
                ("inner", inner),
                ("size", x.size),
                ("vector", elementwise.VECTOR),
                *elementwise.element(x.dtype),
            ),
        )
        return kernel, Launch(kernel.name, elementwise.grid(x.size), args)

    @property
    def _is_masked(self) -> bool:
        return self.algo is SoftmaxAlgo.MASKED

    def _floor(self, dtype: DType) -> float:
        """What hidden elements are below, so far that exp of the difference is 0."""
        return float32(-dtype.largest / 2) if self._is_masked else 0.0

    def _height(self, x: Array) -> Array:
        """For each row: the distance of its maximum above what a hidden row's exponentials need."""
        height: Array = x.max(axis=1, keepdims=True)
        return height - self._floor(self.dtype) + FLUSHED

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        shape = next(iter(tensors.values())).shape
        rows = {name: self._rows(value) for name, value in tensors.items()}
        if direction is Pass.FORWARD:
            if self._is_masked:
                hidden = self._height(rows["x"]) < 0
                d, log_sum = self._forward(np.where(hidden, 0.0, rows["x"]))
                return {"y": np.where(hidden, 0.0, np.exp(d - log_sum)).reshape(shape)}
            d, log_sum = self._forward(rows["x"])
            y = d - log_sum
            return {"y": (y if self.algo is SoftmaxAlgo.LOG else np.exp(y)).reshape(shape)}
        y, dy = rows["y"], rows["dy"]
        if self.algo is SoftmaxAlgo.LOG:
            dx = dy - np.exp(y) * dy.sum(axis=1, keepdims=True)
        else:
            dx = y * (dy - (y * dy).sum(axis=1, keepdims=True))
        return {"dx": dx.reshape(shape)}

    def as_computed(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is not Pass.FORWARD or self.algo is not SoftmaxAlgo.FAST:
            return self.reference(tensors, direction)
        e = np.exp(self._rows(tensors["x"]))
        return {"y": (e / e.sum(axis=1, keepdims=True)).reshape(tensors["x"].shape)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        shape = next(iter(tensors.values())).shape
        rows = {name: self._rows(value) for name, value in tensors.items()}
        summed = self.mapped(shape, direction).additions * U  # relative, for terms of one sign
        if direction is Pass.FORWARD:
            if self._is_masked:
                height = self._height(rows["x"])
                bound = self._forward_bound(np.where(height < 0, 0.0, rows["x"]), summed)
                bound = np.where(height < 0, 0.0, bound * SECOND_ORDER)
                # Next to it, the exponentials may be flushed to zero, or not.
                return {"y": np.where(np.abs(height) < NEAR, 1.0, bound).reshape(shape)}
            return {"y": (self._forward_bound(rows["x"], summed) * SECOND_ORDER).reshape(shape)}
        y, dy = rows["y"], rows["dy"]
        if self.algo is SoftmaxAlgo.LOG:
            total = dy.sum(axis=1, keepdims=True)
            total_error = np.abs(dy).sum(axis=1, keepdims=True) * summed
            e = np.exp(y)
            product = e * (np.abs(total) * rounding.exp(y) + total_error)
            bound = product + U * np.abs(dy - e * total) + TINY
        else:
            total = (y * dy).sum(axis=1, keepdims=True)
            total_error = np.abs(y * dy).sum(axis=1, keepdims=True) * (summed + U)
            bound = np.abs(y) * (total_error + 2 * U * np.abs(dy - total)) + TINY
        return {"dx": (bound * SECOND_ORDER).reshape(shape)}

    def _rows(self, tensor: Array) -> Array:
        return tensor.reshape(self.view(tensor.shape)).astype(np.float64)

    def _forward(self, x: Array) -> tuple[Array, Array]:
        """x - m, and the logarithm of the sum of its exponentials."""
        d = x if self.algo is SoftmaxAlgo.FAST else x - x.max(axis=1, keepdims=True)
        peak = d.max(axis=1, keepdims=True)
        return d, peak + np.log(np.exp(d - peak).sum(axis=1, keepdims=True))

    def _forward_bound(self, x: Array, summed: float) -> Array:
        d, log_sum = self._forward(x)
        d = rounding.lifted(d)
        # Each exponential: the rounded subtraction moves its argument by U |d|.
        each = rounding.exp(d) + U * np.abs(d)
        share: Array = np.exp(d - log_sum)
        total_error: Array = (share * each).sum(axis=1, keepdims=True) + summed  # relative
        if self.algo is not SoftmaxAlgo.LOG:
            return share * (each + total_error + rounding.RCP + U) + TINY
        log_error: Array = float(np.log(2)) * rounding.log2(np.exp(log_sum)) + 2 * U * np.abs(
            log_sum
        )
        y: Array = d - log_sum
        return total_error + log_error + U * (np.abs(d) + np.abs(y)) + TINY


@writes("softmax_forward")
def _forward(c: Values, block: int) -> list[Writes]:
    return [_elements(c)] if c["with_result"] else [_rows(c, -1), _rows(c, -2)]


@writes("softmax_backward")
def _backward(c: Values, block: int) -> list[Writes]:
    return [_elements(c) if c["with_result"] else _rows(c, -1)]


writes_all("softmax_apply", "softmax_apply_backward")


def _elements(c: Values) -> Writes:
    """All of the rows."""
    axis, inner = c["axis"], c["inner"]
    held = c["slices"] * c["held"] if c["in_registers"] else axis  # by one turn of a work-group
    rows = cut_by(Places(c["rows"] // inner, axis * inner), Places(inner), group=c["group_rows"])
    items = c["group_rows"] * c["slices"]
    return Writes(-1, rows + cut_by(Places(axis, inner, held)), items=items)


def _rows(c: Values, argument: int) -> Writes:
    """One place for each row."""
    items = c["group_rows"] * c["slices"]
    return Writes(argument, cut_by(Places(c["rows"]), group=c["group_rows"]), items=items)
