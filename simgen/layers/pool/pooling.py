"""Pooling: the largest value or the mean of each window of a channel.

    forward   y[n,c,p,q] = max or mean of  x[n, c, p u - a + r, q v - b + s]   over r < R, s < S
    backward  dx = dy of every window in which the element was the maximum (the first, if several)
              dx = sum of dy / (elements of the window), over the windows that hold the element

    x, dx  (N, C, H, W)     y, dy  (N, C, P, Q)     P = ceil((H + 2 a - R) / u) + 1, Q likewise
    R, S   kernel_size      a, b   pad              u, v   stride         (height, width each)

Of equal maxima, the first in row-major order gets the gradient. Padding is never a maximum. In the
mean, "avg_include_padding" counts padding as zeros and divides by R S. "avg_exclude_padding" and
"avg" divide by the number of elements inside the image. The result of a window that holds a NaN is
not defined.

The division by the stride is rounded up, as in DNNMark and Caffe, but no window begins beyond the
image. Means exclude what windows hold beyond the padding. With round_mode "floor", the division is
rounded down, as in cuDNN, MIOpen and, by default, PyTorch. With pad_behind, the padding below and
on the right differs from that above and on the left, as in ONNX: H + 2 a becomes H + a + a'.

All tensors have the type of the input; sums and means are float32, and places of maxima 32-bit
integers. Narrow elements are stored by fours: if rows are no multiple of four, work-items have one
element each and exchange them. If so many work-items share a window that a work-group has fewer
than four windows, y is float32, and a launch converts it.

For i8, y has the scale of x and its `zero_point`, which is the value of padding. Means are rounded
to the nearest whole number, ties to even, on every machine.

Source: cudnnPoolingForward and cudnnPoolingBackward; "avg" is miopenPoolingAverage of MIOpen. The
extents are those of DNNMark's pool_layer.h and of Caffe's and PyTorch's ceil mode; with "floor",
of cudnnGetPooling2dForwardOutputDim.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil, gcd, prod, sqrt
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, Distribution, DType, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import exactness, ranged
from simgen.ground.numerics.powers import next_power_of_two
from simgen.ground.numerics.rounding import RCP, SECOND_ORDER, TINY, U, float32
from simgen.ground.numerics.spread import Spread, repeats, stages
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.contract import Contract
from simgen.layers.pool import along_axis, gradient_tile
from simgen.layers.pool import written as written
from simgen.layers.requantisation import check_zero_point, zero_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.pool.along_axis import Ints, PooledAxis

BLOCK = 256  # work-items
LEVELS = 32  # values of x on either side of 0: few, so that many windows have more than one maximum
UNROLLED = 64  # elements of a window up to which one work-item reads it, without a loop
ROW = 24  # elements of a row, at most: the tests of more need too many scalar registers
# elements up to which a row, or a window that is the whole image, counts as small
SMALL_WINDOW = 16
MAX_ROW_ELEMENTS = 8  # elements of a row that a work-item makes
MOST_WHOLE = 2**24 // 255  # 8-bit integers whose sum float32 has
EACH = 8  # elements of a shared window for each work-item, while a work-group has enough of them


class PoolingMode(StrEnum):
    MAX = "max"
    AVG = "avg"  # DNNMark: AMD only, where the next two are missing
    AVG_INCLUDE_PADDING = "avg_include_padding"
    AVG_EXCLUDE_PADDING = "avg_exclude_padding"


class Rounding(StrEnum):
    FLOOR = "floor"
    CEIL = "ceil"


@dataclass(frozen=True)
class Pooling(Layer):
    kind = "pool"
    section = "Pooling"
    rank: ClassVar[int | None] = 4
    contract: ClassVar[Contract] = Contract(cancels=True)  # means
    shape_given = ("dx",)
    per_sample = True
    any_float = True
    integers: ClassVar[tuple[DType, ...]] = (DType.I8,)
    sample: ClassVar[Mapping[str, str]] = {
        "n": "100",
        "c": "3",
        "h": "256",
        "w": "256",
        "pool_mode": "max",
        "kernel_size": "3",
        "pad": "0",
        "stride": "2",
    }

    mode: PoolingMode = key(
        "pool_mode", PoolingMode.MAX, "maximum of a window, or its mean with or without the padding"
    )
    kernel_h: int = key("kernel_size kernel_size_h", 3, "height of a window", 1)
    kernel_w: int = key("kernel_size kernel_size_w", 3, "width of a window", 1)
    pad_h: int = key("pad pad_h", 0, "rows above and below the image", 0)
    pad_w: int = key("pad pad_w", 0, "columns on both sides of the image", 0)
    stride_h: int = key("stride stride_h", 2, "rows from one window to the next", 1)
    stride_w: int = key("stride stride_w", 2, "columns from one window to the next", 1)
    behind_h: int = key("pad_behind_h", -1, "rows below the image; -1: as above it", -1)
    behind_w: int = key("pad_behind_w", -1, "columns on its right side; -1: as on the left", -1)
    rounding: Rounding = key(
        "round_mode", Rounding.CEIL, "rounding of the number of windows"
    )  # Caffe's name
    zero_point: int = zero_key("")

    def axes(self, shape: tuple[int, ...]) -> tuple[PooledAxis, PooledAxis]:
        """Windows along the height and the width of an (N, C, H, W) shape.

        Raises:
            ValueError: there is no window, or one without any element.
        """
        up = self.rounding is Rounding.CEIL
        _, _, h, w = shape
        return (
            along_axis.axis(
                "height", h, self.kernel_h, self.pad_h, self.behind_h, self.stride_h, round_up=up
            ),
            along_axis.axis(
                "width", w, self.kernel_w, self.pad_w, self.behind_w, self.stride_w, round_up=up
            ),
        )

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        rows, columns = self.axes(x.shape)
        check_zero_point(x.dtype, self.zero_point)
        if self.mode is PoolingMode.AVG_INCLUDE_PADDING and not self._is_even:
            fact = "padding counts in means, and its sides differ"
            raise ValueError(f"{fact}; leave pad_behind out, or insert [Rearrange] with mode=pad")
        window = self.kernel_h * self.kernel_w
        if not x.dtype.is_float and window > MOST_WHOLE and self.mode is not PoolingMode.MAX:
            fact = f"a mean of {window} elements of {x.dtype} would be rounded twice"
            raise ValueError(f"{fact}; let a window have {MOST_WHOLE} at most")
        return TensorSpec((*x.shape[:2], rows.windows, columns.windows), x.dtype)

    @property
    def _is_even(self) -> bool:
        """Whether both sides are padded alike."""
        return self.behind_h in (-1, self.pad_h) and self.behind_w in (-1, self.pad_w)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Per element of y, for windows of R S elements, the padding counted as elements.

        Forward: R S - 1 comparisons, or as many additions and a multiplication. Backward: the
        comparisons once more, to find the maximum, and one addition; or a multiplication and R S
        additions.
        """
        more = int(direction is Pass.BACKWARD) - int(self.mode is PoolingMode.MAX)
        return (self.kernel_h * self.kernel_w + more) * self.output(inputs).size, 0

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        """The backward pass of "max" searches x again, so that nothing but x is kept from the
        forward pass. Where work-items share a window, that is a kernel of its own: in `first` it
        leaves where the maximum of each window is, as r S + s."""
        (x,) = inputs
        y, normal = self.output(inputs), Fill.usual(x.dtype)
        # levels that the type can represent
        levels = float(min(LEVELS, 2 ** (x.dtype.mantissa + 1)))
        leveled = self.mode is PoolingMode.MAX and x.dtype.is_float
        source = Fill(Distribution.WHOLE, levels, 1.0) if leveled else normal
        if direction is Pass.FORWARD:
            return (Port("x", x, source), Port("y", y))
        gradients = (Port("dy", y, normal), Port("dx", x))
        if self.mode is not PoolingMode.MAX:
            return gradients
        if self._in_one(x):
            return (Port("x", x, source), *gradients)
        first = Port("first", TensorSpec(y.shape, DType.I32), scratch=True)
        return (Port("x", x, source), *gradients, first)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        largest = self.mode is PoolingMode.MAX
        if direction is Pass.FORWARD:
            forward = self._reduction(x, "max" if largest else "mean")
            steps: list[tuple[tuple[Kernel, int], tuple[str, ...]]] = [(forward, ("x", "y"))]
        elif largest and self._in_one(x):
            steps = [(self._searching(x), ("x", "dy", "dx"))]
        elif largest:
            first, gathering = self._reduction(x, "first"), self._gathering(x)
            steps = [(first, ("x", "first")), (gathering, ("dy", "first", "dx"))]
        else:
            steps = [(self._gathering(x), ("dy", "dx"))]
        kernels = tuple(kernel for (kernel, _), _ in steps)
        launches = (Launch(kernel.name, (grid, 1, 1), args) for (kernel, grid), args in steps)
        return Lowering(kernels, tuple(launches))

    def _in_one(self, x: TensorSpec) -> bool:
        """Whether one kernel searches the maxima and makes dx: it stores narrow ones by fours."""
        vector, _ = self._searched(x.shape)
        by_fours = x.shape[3] % elementwise.VECTOR == 0 and vector == elementwise.VECTOR
        return self.slices(x.shape) == 1 and (by_fours or not x.dtype.is_narrow)

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        shared = BLOCK // self.slices(inputs[0].shape)  # windows of a work-group
        return ("x", "dy", "dx", *(("y",) if shared % elementwise.VECTOR == 0 else ()))

    def _reduction(self, x: TensorSpec, op: str) -> tuple[Kernel, int]:
        """The kernel from x to the maximum, its place or the mean of each window; its grid.

        The place only where work-items share a window.
        """
        shape = x.shape
        rows, columns = self.axes(shape)
        planes = shape[0] * shape[1]
        slices = self.slices(shape)
        if slices > 1 or op == "first":
            stored = "y" in self.moves((x,), Pass.FORWARD) and x.dtype.is_narrow
            result = elementwise.as_float(x.dtype, self.zero_point)
            constants: Constants = (
                ("slices", slices), *((("result", result),) if stored else ())
            )  # fmt: skip
            template, items = "pooling_shared.hip", rows.windows * columns.windows * slices
        else:
            load, results = self._vectors(columns)
            # Two windows one above the other read the rows once that both hold.
            tall = 2 if self.stride_h < self.kernel_h and self._small else 1
            if x.dtype.is_narrow and (results != 4 or columns.windows % 4):
                load, results, tall = 1, 1, 1  # side by side in memory, for all widths
            constants = (("load", load), ("results", results), ("rows", tall))
            template = "pooling.hip"
            items = ceil(rows.windows / tall) * ceil(columns.windows / results)
        name, sizes = self._sizes(shape)
        suffix, counted = self._mean_of(shape, op)
        element = elementwise.element(x.dtype, self.zero_point)
        constants = (("op", op), *sizes, *counted, *constants, *element)
        direction = Pass.BACKWARD if op == "first" else Pass.FORWARD
        suffix += elementwise.suffix(x.dtype, self.zero_point)
        kernel = Kernel(f"pool_{direction}_{op}_{name}{suffix}", template, BLOCK, constants)
        return kernel, ceil(planes * items / BLOCK)

    def _vectors(self, columns: PooledAxis) -> tuple[int, int]:
        """Elements of a load, and results of a work-item."""
        if columns.extent % 4 or self.stride_w > 8:
            return 1, 1
        # Neighbouring work-items then begin a multiple of 16 bytes apart.
        return 4, 4 if columns.windows % 4 == 0 else 4 // gcd(self.stride_w, 4)

    @property
    def _small(self) -> bool:
        return self.kernel_h * self.kernel_w <= SMALL_WINDOW

    def _searched(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Elements of dx that a work-item makes at a time, and windows that it searches."""
        load, _ = self._vectors(self.axes(shape)[1])
        # Tiles begin with any window: searches begin at 16 bytes if so many windows lie between.
        results = 4 // gcd(self.stride_w, 4) if load == 4 else 1
        # Neighbours share windows. Where rows begin anywhere, they are stored one by one.
        vector = 4 if 4 % self.stride_w == 0 else self.stride_w
        if self.kernel_w > SMALL_WINDOW or vector > MAX_ROW_ELEMENTS:
            vector = 1
        return vector, results

    def _searching(self, x: TensorSpec) -> tuple[Kernel, int]:
        """The kernel from x and dy to dx of "max", where one work-item reads a window; its grid."""
        shape = x.shape
        rows, columns = self.axes(shape)
        planes = shape[0] * shape[1]
        load, _ = self._vectors(columns)
        vector, results = self._searched(shape)
        tile = gradient_tile.choose(planes, rows, columns, BLOCK, results, vector)
        name, sizes = self._sizes(shape)
        constants: Constants = (
            *sizes, ("load", load), ("results", results), ("vector", vector), *tile.constants,
            *elementwise.element(x.dtype),
        )  # fmt: skip
        name += elementwise.suffix(x.dtype)
        kernel = Kernel(f"pool_bwd_max_{name}", "pooling_backward_max.hip", BLOCK, constants)
        return kernel, tile.groups(planes, rows, columns)

    def _vector(self, w: int) -> int:
        """Elements of a row of dx that a work-item makes."""
        # Four neighbours are in the same place of their windows in each work-item.
        return 4 if w % 4 == 0 and 4 % self.stride_w == 0 and self.kernel_w <= SMALL_WINDOW else 1

    def _gathering(self, x: TensorSpec) -> tuple[Kernel, int]:
        """The kernel from dy to dx, of "max" with the places of the maxima; its grid."""
        shape = x.shape
        op = "max" if self.mode is PoolingMode.MAX else "mean"
        name, sizes = self._sizes(shape)
        suffix, counted = self._mean_of(shape, op)
        vector = self._vector(shape[3])
        places = ("with_places", int(self.mode is PoolingMode.MAX))
        constants: Constants = (
            places, *sizes, *counted, ("vector", vector), *elementwise.element(x.dtype)
        )  # fmt: skip
        suffix += elementwise.suffix(x.dtype)
        kernel = Kernel(f"pool_bwd_{op}_{name}{suffix}", "pooling_backward.hip", BLOCK, constants)
        return kernel, ceil(prod(shape) // vector / BLOCK)

    def _sizes(self, shape: tuple[int, ...]) -> tuple[str, Constants]:
        """What all kernels are made of, as part of a name and as constants."""
        rows, columns = self.axes(shape)
        planes, (h, w) = shape[0] * shape[1], shape[2:]
        sizes = {"planes": planes, "h": h, "w": w, "p": rows.windows, "q": columns.windows}
        name = f"{planes}x{h}x{w}_{rows.windows}x{columns.windows}"
        for what in ("kernel", "pad", "stride"):
            along = {axis: getattr(self, f"{what}_{axis}") for axis in "hw"}
            sizes |= {f"{what}_{axis}": value for axis, value in along.items()}
            name += f"_{what[0]}{along['h']}x{along['w']}"
        return name, tuple(sizes.items())

    def _mean_of(self, shape: tuple[int, ...], op: str) -> tuple[str, Constants]:
        """The same of what counts in a mean; nothing to tell apart where there is none."""
        rows, columns = self.axes(shape)
        (margin_h, margin_w), even = self.margins, True
        if op == "mean":
            even = not (rows.clipped(margin_h) or columns.clipped(margin_w))
        if even:
            margin_h, margin_w = 0, 0  # never read
        name = "" if even else f"_m{margin_h}x{margin_w}"
        return name, (("even", int(even)), ("margin_h", margin_h), ("margin_w", margin_w))

    @property
    def margins(self) -> tuple[int, int]:
        """Rows and columns around the image that count in a mean."""
        included = self.mode is PoolingMode.AVG_INCLUDE_PADDING
        return (self.pad_h, self.pad_w) if included else (0, 0)

    def slices(self, shape: tuple[int, ...]) -> int:
        """Work-items that share a window: several where it is large, or where whole images are
        averaged, whose elements lie side by side."""
        window = self.kernel_h * self.kernel_w
        whole = shape[2:] == (self.kernel_h, self.kernel_w) and self.pad_h == self.pad_w == 0
        if window <= (SMALL_WINDOW if whole else UNROLLED) and self.kernel_w <= ROW:
            return 1
        most = (
            BLOCK // elementwise.VECTOR if self._is_integer else BLOCK
        )  # integers are stored by fours
        return int(min(most, next_power_of_two(ceil(window / EACH))))

    @property
    def _is_integer(self) -> bool:
        """Whether all are integers."""
        return not self.dtype.is_float

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.FORWARD:
            x = tensors["x"]
            if self.mode is PoolingMode.MAX:
                return {"y": self._largest(x)[0]}
            if self._is_integer:
                return {"y": np.rint(self._mean(x - self.zero_point)) + self.zero_point}
            return {"y": self._mean(x)}
        return {"dx": self._gradient(tensors, tensors["dy"])}

    def as_computed(self, tensors: Tensors, direction: Pass) -> Tensors:
        """A mean whose sum may overflow is anything."""
        made = self.reference(tensors, direction)
        if self.mode is PoolingMode.MAX or self._is_integer:
            return made
        if direction is Pass.FORWARD:
            sums = {"y": self._windows(np.abs(tensors["x"]))}
        else:
            most = np.max(self._counted(tensors["dx"].shape))
            sums = {"dx": self._gradient(tensors, np.abs(tensors["dy"])) * most}
        return {port: ranged.without(y, sums[port], tensors) for port, y in made.items()}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        if self.mode is PoolingMode.MAX:
            if direction is Pass.FORWARD:
                return {"y": np.zeros_like(self._largest(tensors["x"])[0])}  # one of its operands
            dy = tensors["dy"]
            # Additions of the zeros of other windows are exact, and so is the first that is not.
            hits = self._gradient(tensors, np.ones_like(dy))
            bound = self._gradient(tensors, np.abs(dy)) * np.maximum(hits - 1, 0) * U
            return {"dx": bound * SECOND_ORDER}
        # Each element of the sum is rounded by the additions after it, by the product with the
        # reciprocal of the number of elements, and by that: 1 / float(n), or fast_rcp(float(n)).
        shape = tensors["x" if direction is Pass.FORWARD else "dx"].shape
        if self._is_integer:
            return {"y": np.zeros_like(self._mean(tensors["x"]))}
        reciprocal = 2 * U if self._even(shape) else U + RCP
        if direction is Pass.FORWARD:
            roundings = (self._additions(shape) + 1) * U + reciprocal
            return {"y": self._mean(np.abs(tensors["x"])) * roundings * SECOND_ORDER + TINY}
        terms = ceil(self.kernel_h / self.stride_h) * ceil(self.kernel_w / self.stride_w)
        bound = self._gradient(tensors, np.abs(tensors["dy"])) * (terms * U + reciprocal)
        return {"dx": bound * SECOND_ORDER + TINY}

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        if self._is_integer or self.mode is PoolingMode.MAX or direction is Pass.BACKWARD:
            # Few roundings, or none.
            return super().spread(tensors, direction, tolerance)
        x = tensors["x"]
        slices, window = self.slices(x.shape), self.kernel_h * self.kernel_w
        tree = (ceil(window / slices), *(2,) * (slices.bit_length() - 1))
        inside = stages(*(tree if slices > 1 else (self.kernel_w, self.kernel_h)))
        equal = min(window, repeats(x.reshape(-1, x.shape[2] * x.shape[3])))
        root = np.sqrt(self._mean(np.square(x)) / self._counted(x.shape))
        rest = 4 * U * np.abs(self._mean(x)) + TINY  # the division
        sigma = sqrt(equal) * inside * U * SECOND_ORDER * root + rest
        return {"y": Spread(np.minimum(sigma, tolerance["y"]))}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        window = self.kernel_h * self.kernel_w
        if self.mode is PoolingMode.MAX and direction is Pass.FORWARD:
            return Sums()
        halves = window == next_power_of_two(window) and self._even(inputs[0].shape)
        return Sums(window, whole=self.mode is PoolingMode.MAX or halves)

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        """Exact results. A mean is a sum, then one product with 1 / float(R S), if all windows are
        full.
        """
        forward, largest = direction is Pass.FORWARD, self.mode is PoolingMode.MAX
        source, shape = tensors["x" if forward else "dy"], tensors["x" if forward else "dx"].shape
        if self._is_integer or (forward and largest) or not (largest or self._even(shape)):
            return {}
        grain = exactness.grain(source)
        if not grain:
            return {}
        sums, sizes = (
            self._windows(t) if forward else self._gradient(tensors, t, mean=False)
            for t in (source, np.abs(source))
        )
        made = exactness.settled(sums, sizes, grain)
        if not largest:
            made = exactness.scaled(made, float32(1 / (self.kernel_h * self.kernel_w)))
        return {"y" if forward else "dx": made}

    def _additions(self, shape: tuple[int, ...]) -> int:
        """Roundings on the longest way from an element to its window's sum."""
        slices = self.slices(shape)
        if slices == 1:
            return self.kernel_h + self.kernel_w - 2
        return ceil(self.kernel_h * self.kernel_w / slices) + slices.bit_length() - 2

    def _even(self, shape: tuple[int, ...]) -> bool:
        clipped = [axis.clipped(margin) for axis, margin in zip(self.axes(shape), self.margins)]
        return not any(clipped)

    def _counted(self, shape: tuple[int, ...]) -> Array:
        """(P, Q): elements that count in the mean of each window."""
        rows, columns = self.axes(shape)
        margin_h, margin_w = self.margins
        found: Array = np.outer(rows.counted(margin_h), columns.counted(margin_w)).astype(float)
        return found

    def _mean(self, x: Array) -> Array:
        found: Array = self._windows(x) / self._counted(x.shape)
        return found

    def _windows(self, x: Array) -> Array:
        """The sum of each window."""
        rows, columns = self.axes(x.shape)
        return along_axis.total(rows, along_axis.total(columns, x).swapaxes(2, 3)).swapaxes(2, 3)

    def _largest(self, x: Array) -> tuple[Array, Ints]:
        """The maxima (N, C, P, Q), and their indices in a plane of x."""
        rows, columns = self.axes(x.shape)
        across, s = along_axis.largest(columns, x)
        best, r = along_axis.largest(rows, across.swapaxes(2, 3))
        h = (r + rows.starts).swapaxes(2, 3)
        w = np.take_along_axis(s, h, axis=2) + columns.starts
        return best.swapaxes(2, 3), h * columns.extent + w

    def _gradient(self, tensors: Tensors, dy: Array, *, mean: bool = True) -> Array:
        """dx of some dy: it is linear in that. Without `mean`, it is not divided by elements."""
        shape = tensors["dx"].shape
        if self.mode is not PoolingMode.MAX:
            rows, columns = self.axes(shape)
            across = along_axis.spread(columns, dy / self._counted(shape) if mean else dy)
            return along_axis.spread(rows, across.swapaxes(2, 3)).swapaxes(2, 3)
        _, at = self._largest(tensors["x"])
        plane = shape[2] * shape[3]
        planes = np.arange(shape[0] * shape[1]).reshape(*shape[:2], 1, 1) * plane
        size = shape[0] * shape[1] * plane
        found: Array = np.bincount((planes + at).reshape(-1), dy.reshape(-1), size).astype(float)
        return found.reshape(shape)
