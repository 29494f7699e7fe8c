"""Convolution of images with a bank of K = num_output filters.

    forward   y[n,k,p,q]  = sum over c,r,s of  x[n, c, p u + r d - a, q v + s e - b] * w[k,c,r,s]
                            [+ bias[k]]
    backward  dw[k,c,r,s] = sum over n,p,q of  x[n, c, p u + r d - a, q v + s e - b] * dy[n,k,p,q]
              dx[n,c,i,j] = sum over k,r,s of  dy[n, k, (i - r d + a) / u, (j - s e + b) / v]
                            * w[k,c,r,s], where both divisions are exact
              db[k]       = sum over n,p,q of  dy[n,k,p,q]

    x, dx  (N, C, H, W)     w, dw  (K, C / G, R, S)   y, dy  (N, K, P, Q)    b, db  (K,), bias=true
    R, S   kernel_size      a, b   pad                u, v   stride          (height, width each)
    d, e   dilation         G      group: the sum over c runs over the C / G channels of k's group
    P = floor((H + 2 a - (R - 1) d - 1) / u) + 1, Q likewise; outside of x and y all is zero

This is conv_mode "cross_correlation". "convolution" turns the filters by 180 degrees: w[k,c,r,s] is
replaced by w[k, c, R-1-r, S-1-s], with the same shapes. "transpose" swaps the roles of y and dx: w
is (C, K / G, R, S) and P = (H - 1) u + (R - 1) d + 1 - 2 a.

For x and w of i8, y is i32, or i8 if scales are given. 8-bit floats may have scales
(simgen/layers/requantisation.py). With scales, a bias is in units of the sums; y is x_scale w_scale
/ y_scale times the sums.

Source: cudnnConvolutionForward and its two backward functions; "transpose" is miopenTranspose of
MIOpen. (On AMD GPUs, DNNMark's branch develop turns "convolution" into miopenTranspose with the
shapes of "cross_correlation", and older ones into the latter. In simgen, a config means the same on
every machine: what it means in cuDNN.)
`group` and `dilation` are keys of Caffe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from math import gcd, prod, sqrt
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.dtypes import DType
from simgen.ground.ir import Fill, OpCount, Pass, TensorSpec
from simgen.ground.numerics import exactness
from simgen.ground.numerics.integers import wrapped
from simgen.ground.numerics.rounding import TINY, U, accumulated
from simgen.ground.numerics.spread import Spread, sum_spread
from simgen.layers.base import IN_PARTS, MAX_INT, Choice, Lowering, Port, Sums, key
from simgen.layers.contract import Contract
from simgen.layers.conv import (
    algorithms as conv_algorithms,
)
from simgen.layers.conv import (
    bias as conv_bias,
)
from simgen.layers.conv import (
    reference as conv_reference,
)
from simgen.layers.conv import written as written
from simgen.layers.conv.algorithms import ConvAlgo, DataAlgo, ForwardAlgo
from simgen.layers.conv.channels_last_copies import RUN
from simgen.layers.conv.geometry import Geometry, Names
from simgen.layers.conv.job import Algorithm, ConvJob, Unknown
from simgen.layers.epilogue import Epilogue
from simgen.layers.layout import LAST, ChoosesLayout
from simgen.layers.requantisation import (
    SCALES,
    ScaledTensors,
    factor,
    per_channel_key,
    scale_key,
    zero_key,
)
from simgen.layers.window import positions, spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors


# If a kernel has no tiles of a product: steps that leave extents as divisible as they are.
UNTILED, UNTILED_PIXELS = 32, 8  # channels or filters; rows or columns of a result


class ConvMode(StrEnum):
    CONVOLUTION = "convolution"
    CROSS_CORRELATION = "cross_correlation"
    TRANSPOSE = "transpose"  # DNNMark: AMD only


class Preference(StrEnum):
    """How much memory an algorithm may take that simgen chooses: none, or up to workspace_size."""

    NO_WORKSPACE = "no_workspace"
    FASTEST = "fastest"
    SPECIFY_WORKSPACE_LIMIT = "specify_workspace_limit"


def _preference(name: str, direction: str) -> Any:
    text = f"of an algorithm that is chosen by size, in {direction}: may it have a workspace?"
    return key(name, Preference.FASTEST, text, hint=True)


def _limit(name: str, direction: str) -> Any:
    text = f"bytes of its workspace in {direction}, with specify_workspace_limit; 0: workspace_size"
    return key(name, default=0, least=0, hint=True, text=text)


@dataclass(frozen=True)
class Convolution(ChoosesLayout, ScaledTensors):
    kind = "conv"
    section = "Convolution"
    rank: ClassVar[int | None] = 4
    contract: ClassVar[Contract] = Contract(
        rounding_algorithms=(str(Algorithm.FFT),),
        spreading_algorithms=(str(Algorithm.FFT), str(Algorithm.WINOGRAD)),
    )
    passes: ClassVar[tuple[Pass, ...]] = IN_PARTS
    parameters: ClassVar[tuple[str, ...]] = ("w", "b", SCALES)
    algorithms: ClassVar[tuple[str, ...]] = tuple(map(str, Algorithm))
    shape_given = ("dx",)
    any_float = True
    integers: ClassVar[tuple[DType, ...]] = (DType.I8,)
    per_sample = True
    sample: ClassVar[Mapping[str, str]] = {
        "n": "126",
        "c": "3",
        "h": "256",
        "w": "256",
        "conv_mode": "convolution",
        "num_output": "32",
        "kernel_size": "5",
        "pad": "2",
        "stride": "1",
    }

    mode: ConvMode = key(
        "conv_mode",
        ConvMode.CROSS_CORRELATION,
        "turn filters by 180 degrees (convolution) or not; or the transposed convolution",
    )
    num_output: int = key("num_output", 32, "number of filters (channels of y)", 1)
    kernel_h: int = key("kernel_size kernel_size_h", 5, "height of a filter", 1)
    kernel_w: int = key("kernel_size kernel_size_w", 5, "width of a filter", 1)
    pad_h: int = key("pad pad_h", 2, "rows above and below the image", 0)
    pad_w: int = key("pad pad_w", 2, "columns on both sides of the image", 0)
    stride_h: int = key("stride stride_h", 1, "rows from one window to the next", 1)
    stride_w: int = key("stride stride_w", 1, "columns from one window to the next", 1)
    dilation_h: int = key("dilation dilation_h", 1, "rows from one tap to the next", 1)
    dilation_w: int = key("dilation dilation_w", 1, "columns from one tap to the next", 1)
    group: int = key("group", 1, "number of groups of channels that are convolved separately", 1)
    bias: bool = key("bias", False, "add a bias to each channel of y")
    x_scale: float = scale_key("x")
    x_zero_point: int = zero_key("x")
    w_scale: float = scale_key("w")
    w_zero_point: int = zero_key("w")
    w_scale_per_channel: bool = per_channel_key()
    y_scale: float = scale_key("y")
    y_zero_point: int = zero_key("y")
    propagation: bool = key(
        "propagation", True, "compute dx; the first layer needs none", hint=True
    )
    algo: ConvAlgo = key(
        "algo",
        ConvAlgo.ALGO_0,
        "algorithm; 0: chosen by size; DNNMark's values apply to forward and bwd_weight",
        hint=True,
    )
    data_algo: DataAlgo = key(
        "algod",
        DataAlgo.ALGO_0,
        "algorithm of bwd_data, if algo is a value of DNNMark's",
        hint=True,
    )
    forward_algo: ForwardAlgo = key(
        "algofwd",
        ForwardAlgo.UNSAID,
        "algorithm of forward, numbered as in cudnnConvolutionFwdAlgo_t; empty: as algo says",
        hint=True,
    )
    workspace_nbytes: int = key(
        "workspace_size",
        1,
        "upper limit of an algorithm's workspace in bytes; 0 and 1: no limit",
        0,
        hint=True,
    )
    forward_preference: Preference = _preference("conv_fwd_pref", "forward")
    forward_limit: int = _limit("conv_fwd_limit", "forward")
    filter_limit: int = _limit("conv_bwd_filter_limit", "bwd_weight")
    data_limit: int = _limit("conv_bwd_data_limit", "bwd_data")
    filter_preference: Preference = _preference("conv_bwd_filter_pref", "bwd_weight")
    data_preference: Preference = _preference("conv_bwd_data_pref", "bwd_data")

    @property
    def _is_integer(self) -> bool:
        """Whether all are integers, which nothing rounds."""
        return not self.dtype.is_float

    @property
    def propagates(self) -> bool:
        return self.propagation

    @property
    def epilogue(self) -> Epilogue:
        """What a forward pass does to y before it is stored."""
        return Epilogue(
            requantisation=self.requantisation(self.dtype), factor=self.factor_of_floats
        )

    @property
    def factor_of_floats(self) -> float:
        """What sums of floats are multiplied by."""
        return factor(self.scales) if self.dtype.is_float else 1.0

    @property
    def forward_only(self) -> str:
        return "with scales" if self.y_scale else ""

    def weights(self, x: TensorSpec) -> TensorSpec:
        """w: (K, C / G, R, S), and (C, K / G, R, S) for "transpose"."""
        channels = (self.num_output, x.shape[1] // self.group)
        if self.mode is ConvMode.TRANSPOSE:
            channels = (x.shape[1], self.num_output // self.group)
        return TensorSpec((*channels, self.kernel_h, self.kernel_w), x.dtype)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        self.check_formats(x.dtype)
        if x.shape[1] % self.group or self.num_output % self.group:
            fact = f"{x.shape[1]} channels and {self.num_output} filters"
            raise ValueError(f"{fact} in groups of equal size; make group a divisor of both")
        shape = (x.shape[0], self.num_output, *self._extents(x.shape))
        made = Epilogue(requantisation=self.requantisation(x.dtype)).result(x.dtype)
        y = TensorSpec(shape, made)
        for direction in self.passes if x.dtype.is_float else (Pass.FORWARD,):
            job = self._job(x.shape, direction, x.dtype)
            job.check()
            tensors = (x, y, self.weights(x), *(spec for _, spec in job.workspaces()))
            largest = max(spec.size for spec in tensors)
            if largest > MAX_INT:
                fact = f"a tensor of {largest} elements is larger than {MAX_INT}"
                raise ValueError(f"{fact}; make n smaller")
        return y

    def _extents(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """P, Q for an (N, C, H, W) shape."""
        extent = spread if self.mode is ConvMode.TRANSPOSE else positions
        rows = (self.kernel_h - 1) * self.dilation_h + 1
        columns = (self.kernel_w - 1) * self.dilation_w + 1
        return (
            extent("height", shape[2], rows, self.pad_h, self.stride_h),
            extent("width", shape[3], columns, self.pad_w, self.stride_w),
        )

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """One fused multiply-add per filter tap, in each of y, dw and dx.

        2 K C / G R S per pixel of y ("transpose": of x), the taps that fall into the padding too,
        as DeepBench and MIOpenDriver count. A bias adds N K P Q to y, and to db. Every tensor
        counts once in the bytes; without `propagation` the backward pass neither computes dx nor
        reads w.
        """
        (x,) = inputs
        y, w = self.output(inputs), self.weights(x)
        n, _, p, q = (x if self.mode is ConvMode.TRANSPOSE else y).shape
        products = 2 * w.size * n * p * q
        added, b = (y.size, x.dtype.product.nbytes * self.num_output) if self.bias else (0, 0)
        if direction is Pass.FORWARD:
            factors = self.epilogue.requantisation.tensors(self.num_output, 1.0)
            read = x.nbytes + w.nbytes + b + sum(port.spec.nbytes for port in factors)
            return OpCount(products + added, 0, read, y.nbytes)
        filters = OpCount(products + added, 0, x.nbytes + y.nbytes, w.nbytes + b)
        # For gradients, y stands for dy, and x for dx.
        data = OpCount(products, 0, w.nbytes + y.nbytes, x.nbytes)
        if direction is Pass.BACKWARD_WEIGHT:
            return filters
        if direction is Pass.BACKWARD_DATA:
            return data
        once = OpCount(data.flops, 0, w.nbytes, x.nbytes)  # dy is read already
        return filters + once if self.propagation else filters

    def plain_ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        y, w = self.output(inputs), self.weights(x)
        fan_in = x.shape[1] // self.group * self.kernel_h * self.kernel_w
        normal = Fill.usual(x.dtype)
        weights = Fill.usual(w.dtype, sqrt(2 / fan_in))  # He et al. 2015
        b = TensorSpec((self.num_output,), x.dtype.product)
        work = [
            Port(name, spec, scratch=True)
            for name, spec in self._job(x.shape, direction, x.dtype).workspaces()
        ]
        if direction is Pass.FORWARD:
            shift = [Port("b", b, Fill.usual(b.dtype, 0.1))] if self.bias else []
            scales = self.epilogue.requantisation.tensors(self.num_output, self.w_scale)
            read = (Port("x", x, normal), Port("w", w, weights), *shift, *scales)
            return (*read, *work, Port("y", y))
        if direction is Pass.BACKWARD_DATA:
            return (Port("w", w, weights), Port("dy", y, normal), *work, Port("dx", x))
        gradients = [Port("dw", w)]
        if self.bias:
            gradients.append(Port("db", b))
            work += [
                Port(name, s, scratch=True)
                for name, s in conv_bias.workspaces(y.shape, self.machine)
            ]
        return (Port("x", x, normal), Port("dy", y, normal), *work, *gradients)

    def plain_lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        job = self._job(x.shape, direction, x.dtype)
        made = job.lower()
        if direction is not Pass.BACKWARD_WEIGHT or not self.bias:
            return made
        y, moved = self.output(inputs).shape, self.plain_moves(inputs, direction)
        read, stored = (x.dtype if port in moved else DType.F32 for port in ("dy", "db"))
        bias = conv_bias.lower(y, self.machine, read, stored)
        return Lowering((*made.kernels, *bias.kernels), (*made.launches, *bias.launches))

    def plain_moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        (x,) = inputs
        job = self._job(x.shape, direction, x.dtype)
        read = ("x", "w", "b", "dy") if job.reads else ()
        stored = (job.names.target,) if job.stores else ()
        summed = conv_bias.stores(self.output(inputs).shape, self.machine)
        return (*read, *stored, *(("db",) if summed else ()))

    def plain_choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        wanted = {
            Pass.FORWARD: conv_algorithms.for_forward(self.algo, self.forward_algo),
            Pass.BACKWARD_DATA: conv_algorithms.for_data(self.algo, self.data_algo),
            Pass.BACKWARD_WEIGHT: conv_algorithms.for_filters(self.algo),
        }
        (x,) = inputs
        job = self._job(x.shape, direction, x.dtype)
        return conv_algorithms.choices(job, asked=bool(wanted[direction]))

    def tiles(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Mapping[str, int]:
        if self.mode is ConvMode.TRANSPOSE or self.group > 1:
            return {}
        (x,) = inputs
        job, g = self._job(x.shape, direction, x.dtype), self.geometry(x.shape)
        found = job.tile
        if not found:
            image = {"h": UNTILED_PIXELS * self.stride_h, "w": UNTILED_PIXELS * self.stride_w}
            return {"n": 1, "c": UNTILED, "num_output": UNTILED, **image}
        # Filters and channels by pixels, or, of dw, filters by taps; then what is summed up.
        rows, columns, depth = found.rows, found.columns, found.depth
        of_data = direction is Pass.BACKWARD_DATA
        pixels = depth if direction is Pass.BACKWARD_WEIGHT else columns
        summed = columns if direction is Pass.BACKWARD_WEIGHT else depth
        row = x.shape[3] if of_data else g.result[1]
        taps = summed // gcd(summed, g.taps)
        return {
            "n": pixels // gcd(pixels, prod(x.shape[2:]) if of_data else g.pixels),
            "c": rows if of_data else taps,
            "num_output": taps if of_data else rows,
            "h": self.stride_h * pixels // gcd(pixels, row),
            "w": self.stride_w * pixels,
        }

    def geometry(self, shape: tuple[int, ...], dtype: DType | None = None) -> Geometry:
        """The relation between x, of an (N, C, H, W) shape, w and y.

        x is its image and y its result; for "transpose", y is the image and x the result. `dtype`
        is the type of their elements; None: that which the layer knows.
        """
        n, c, h, w = shape
        transposed = self.mode is ConvMode.TRANSPOSE
        image, result = (h, w), self._extents(shape)
        channels, filters = c, self.num_output
        if transposed:
            image, result, channels, filters = result, image, filters, channels
        return Geometry(
            batch=n,
            channels=channels,
            filters=filters,
            groups=self.group,
            image=image,
            result=result,
            kernel=(self.kernel_h, self.kernel_w),
            pad=(self.pad_h, self.pad_w),
            stride=(self.stride_h, self.stride_w),
            dilation=(self.dilation_h, self.dilation_w),
            flipped=self.mode is ConvMode.CONVOLUTION,
            machine=self.machine,
            dtype=dtype or self.dtype,
            shifted=bool(self.x_zero_point or self.w_zero_point),
            last=self._reads_last(channels, filters, dtype or self.dtype),
        )

    def _reads_last(self, channels: int, filters: int, dtype: DType) -> bool:
        """Whether images lie as channels_last multiplies them, in whole runs of channels."""
        whole = channels % RUN == 0 and filters % RUN == 0
        return self.layout in LAST and whole and dtype.is_float and dtype.nbytes == 2

    def native(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> frozenset[str]:
        (x,) = inputs
        return self._job(x.shape, direction, x.dtype).native() & set(self.images)

    @cached_property
    def _jobs(self) -> dict[object, ConvJob]:
        return {}

    def _job(self, shape: tuple[int, ...], direction: Pass, dtype: DType | None = None) -> ConvJob:
        asked = shape, direction, dtype
        if asked not in self._jobs:
            self._jobs[asked] = self._planned(*asked)
        return self._jobs[asked]

    def _planned(self, shape: tuple[int, ...], direction: Pass, dtype: DType | None) -> ConvJob:
        g, transposed = self.geometry(shape, dtype), self.mode is ConvMode.TRANSPOSE
        if self.bias and direction is Pass.BACKWARD_WEIGHT:  # dy is summed up as it was computed
            g = replace(g, last=False)
        added = self.bias and direction is Pass.FORWARD
        suffix = "_".join(
            (str(direction), *(("transpose",) if transposed else ()), g.name,
             *(("bias",) if added else ()), *self.epilogue.name)
        )  # fmt: skip
        if direction is Pass.BACKWARD_WEIGHT:
            image, result = ("dy", "x") if transposed else ("x", "dy")
            wanted = conv_algorithms.for_filters(self.algo)
            names = Names(suffix, image, result, "dw")
            room = self._room(self.filter_preference, self.filter_limit)
            return conv_algorithms.job_of(g, Unknown.FILTERS, wanted, names, room=room)
        if direction is Pass.FORWARD:
            unknown = Unknown.IMAGE if transposed else Unknown.RESULT
            zeros = self.x_zero_point, self.w_zero_point
            names = Names(
                suffix, "x", "w", "y", "b" if added else "", self.epilogue, zero_points=zeros
            )
            wanted = conv_algorithms.for_forward(self.algo, self.forward_algo)
            room = self._room(self.forward_preference, self.forward_limit)
            return conv_algorithms.job_of(g, unknown, wanted, names, room=room)
        unknown = Unknown.RESULT if transposed else Unknown.IMAGE
        wanted = conv_algorithms.for_data(self.algo, self.data_algo)
        room = self._room(self.data_preference, self.data_limit)
        return conv_algorithms.job_of(g, unknown, wanted, Names(suffix, "dy", "w", "dx"), room=room)

    def _room(self, preference: Preference, limit: int) -> int | None:
        """Bytes of workspace that an algorithm may have that simgen chooses; None: any number."""
        if preference is Preference.NO_WORKSPACE:
            return 0
        if preference is Preference.SPECIFY_WORKSPACE_LIMIT and limit:
            return limit
        return self.workspace_nbytes if self.workspace_nbytes > 1 else None

    def _computed(self, tensors: Tensors, direction: Pass) -> Array:
        """y, dx or dw, without the bias."""
        g = self.geometry(tensors["x" if "x" in tensors else "dx"].shape)
        transposed = self.mode is ConvMode.TRANSPOSE
        if direction is Pass.BACKWARD_WEIGHT:
            image, result = (tensors["x"], tensors["dy"])[:: -1 if transposed else 1]
            return conv_reference.filter_gradient(image, result, g)
        forward = direction is Pass.FORWARD
        source, w = tensors["x" if forward else "dy"], tensors["w"]
        if self._is_integer:  # what is around the image is 0
            source, w = source - self.x_zero_point, w - self.w_zero_point
        if forward is transposed:
            return conv_reference.image_gradient(source, w, g)
        return conv_reference.result(source, w, g)

    def _biased(self, tensors: Tensors, direction: Pass) -> Array:
        """The same, with the bias."""
        made = self._computed(tensors, direction)
        added = self.bias and direction is Pass.FORWARD
        return made + tensors["b"][:, None, None] if added else made

    def plain_reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        made = self._biased(tensors, direction)
        if direction is Pass.BACKWARD_DATA:
            return {"dx": made}
        if direction is Pass.BACKWARD_WEIGHT:
            db = {"db": tensors["dy"].sum(axis=(0, 2, 3))} if self.bias else {}
            return {"dw": made, **db}
        if self._is_integer:
            factors = tensors.get(SCALES, np.ones(1))[:, None, None]
            made = self.epilogue.requantisation.of(wrapped(made), factors)
        return {"y": self.epilogue.factor * made}

    def plain_tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        if self._is_integer:
            return {"y": np.zeros_like(self._computed(tensors, direction))}
        # Bounds go with the sums of the absolute values of the terms.
        given = tensors["x" if "x" in tensors else "dx"].shape
        job = self._job(given, direction)
        absolute = {port: np.abs(tensor) for port, tensor in tensors.items()}
        sums = self._computed(absolute, direction)
        bound = job.bound(sums, absolute[job.names.source], absolute[job.names.filters])
        if direction is Pass.BACKWARD_DATA:
            return {"dx": bound}
        if direction is Pass.BACKWARD_WEIGHT:
            if not self.bias:
                return {"dw": bound}
            depth = conv_bias.depth(tensors["dy"].shape, self.machine)
            total = np.abs(tensors["dy"]).sum(axis=(0, 2, 3))
            return {"dw": bound, "db": total * accumulated(depth) + TINY}
        if self.bias:
            # One more rounding, of the sum of both. Where there are partial sums, the bias is added
            # to the first of them, and takes part in the sum of all.
            b = np.abs(tensors["b"])[:, None, None]
            bound = bound + U * (sums + bound) + accumulated(job.splits) * b + TINY
            sums = sums + b
        if self.epilogue.factor == 1:
            return {"y": bound}
        # One more product, which is rounded, or flushed to zero.
        return {"y": self.epilogue.factor * (bound + U * (sums + bound)) + TINY}

    def plain_spread(
        self, tensors: Tensors, direction: Pass, tolerance: Tensors
    ) -> Mapping[str, Spread]:
        if self._is_integer:
            return {port: Spread(bound) for port, bound in tolerance.items()}
        given = tensors["x" if "x" in tensors else "dx"].shape
        job = self._job(given, direction)
        port = {Pass.FORWARD: "y", Pass.BACKWARD_DATA: "dx", Pass.BACKWARD_WEIGHT: "dw"}[direction]
        scale = self.epilogue.factor if direction is Pass.FORWARD else 1.0
        hard = tolerance[port] / scale
        found = job.spread(tensors[job.names.source], tensors[job.names.filters], hard)
        if self.bias and direction is Pass.FORWARD:
            b = np.abs(tensors["b"])[:, None, None]
            y = self._biased(tensors, direction)
            sigma = found.sigma + U * np.abs(y) + accumulated(job.splits) * b
            found = Spread(np.minimum(sigma, hard), found.shared)
        if direction is Pass.FORWARD and self.epilogue.factor != 1:
            y = np.abs(self.plain_reference(tensors, direction)["y"])
            sigma = self.epilogue.factor * found.sigma + U * y + TINY
            found = Spread(np.minimum(sigma, tolerance[port]), found.shared)
        made = {port: found}
        if "db" in tolerance:
            dy = tensors["dy"].swapaxes(0, 1).reshape(self.num_output, -1)
            inside = conv_bias.inside(tensors["dy"].shape, self.machine)
            made["db"] = Spread(sum_spread(dy, inside, tolerance["db"]))
        return made

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        (x,) = inputs
        job, g = self._job(x.shape, direction, x.dtype), self.geometry(x.shape)
        growth = job.growth
        if not growth:
            return None
        if direction is Pass.BACKWARD_WEIGHT:
            return Sums(g.batch * g.pixels, growth)
        channels = g.group_channels if job.unknown is Unknown.RESULT else g.group_filters
        return Sums(channels * g.taps + (self.bias and direction is Pass.FORWARD), growth)

    def plain_exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        if self._is_integer:
            return self.plain_reference(tensors, direction)
        job = self._job(tensors["x" if "x" in tensors else "dx"].shape, direction)
        grain = job.grain * exactness.grain(tensors[job.names.source], tensors[job.names.filters])
        port = job.names.target
        found = {}
        if grain:
            absolute = {name: np.abs(tensor) for name, tensor in tensors.items()}
            sizes = job.magnitudes(
                self._computed(absolute, direction),
                absolute[job.names.source],
                absolute[job.names.filters],
            )
            if job.names.bias:
                grain = min(grain, exactness.grain(tensors["b"]))
                sizes = sizes + absolute["b"][:, None, None]
            values = self._biased(tensors, direction)
            found[port] = exactness.settled(values, sizes, grain)
            if direction is Pass.FORWARD and self.epilogue.factor != 1:  # one product of each
                found[port] = exactness.scaled(found[port], self.epilogue.factor)
        if self.bias and direction is Pass.BACKWARD_WEIGHT:
            dy, axes = tensors["dy"], (0, 2, 3)
            sizes, of_dy = np.abs(dy).sum(axis=axes), exactness.grain(dy)
            found["db"] = exactness.settled(dy.sum(axis=axes), sizes, of_dy)
        return found
