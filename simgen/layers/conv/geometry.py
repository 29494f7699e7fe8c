"""Where a convolution reads: one problem with three unknowns, and the axes of a gather.

A convolution, its gradients and its transpose are three questions about one relation between an
image (N, C, H, W), a bank of filters (K, C / G, R, S) and a result (N, K, P, Q):

    result[n,k,p,q] = sum over c,r,s of  image[n, c, p u + r d - a, q v + s e - b] * filter[k,c,r,s]

`to_result` asks for the result and `to_image` for the gradient of the image. Both are gathers: each
element that is written is a sum over filter taps, and a `GatherAxis` says along rows or columns
where each tap reads. The third question, the gradient of the filters, needs no more than
`Geometry`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, gcd
from typing import TYPE_CHECKING

from simgen.ground.dtypes import DType
from simgen.ground.machine import Machine, fitted
from simgen.layers.epilogue import NOTHING, Epilogue
from simgen.layers.product.elements import constant, name_of

if TYPE_CHECKING:
    from simgen.ground.ir import Constants

PHASES = 16  # sub-problems of `to_image` at most: each is a kernel of its own


@dataclass(frozen=True)
class Geometry:
    """Extents of image, filters and result; pairs are (rows, columns)."""

    batch: int  # N
    channels: int  # C, of the image
    filters: int  # K, channels of the result
    groups: int  # G
    image: tuple[int, int]  # H, W
    result: tuple[int, int]  # P, Q
    kernel: tuple[int, int]  # R, S
    pad: tuple[int, int]  # a, b
    stride: tuple[int, int]  # u, v
    dilation: tuple[int, int]  # d, e
    flipped: bool  # filter[r, s] of the relation is stored at [R-1-r, S-1-s]
    machine: Machine = field(default_factory=fitted, repr=False)  # machine that it is planned for
    dtype: DType = DType.F32  # element type of source, filters and target
    shifted: bool = False  # whether some have a zero point that is not 0
    last: bool = False  # whether kernels may read images as they are stored, with channels last

    @property
    def group_channels(self) -> int:
        return self.channels // self.groups

    @property
    def group_filters(self) -> int:
        return self.filters // self.groups

    @property
    def taps(self) -> int:
        """R S."""
        return self.kernel[0] * self.kernel[1]

    @property
    def size(self) -> int:
        """Elements of all filters."""
        return self.filters * self.group_channels * self.taps

    @property
    def pixels(self) -> int:
        """P Q."""
        return self.result[0] * self.result[1]

    @property
    def straightened(self) -> Geometry:
        """The same geometry, with the taps in the order of the image."""
        return replace(self, flipped=False)

    @property
    def constants(self) -> tuple[tuple[str, int], ...]:
        """What templates/kernels/constants/geometry.h declares."""
        pairs = ("image", "result", "kernel", "pad", "stride", "dilation")
        return (
            ("batch", self.batch),
            ("groups", self.groups),
            ("group_channels", self.group_channels),
            ("group_filters", self.group_filters),
            *((f"{name}_{side}", getattr(self, name)[at])
              for name in pairs for at, side in enumerate("hw")),
            ("flipped", int(self.flipped)),
        )  # fmt: skip

    @property
    def name(self) -> str:
        """Part of a kernel's name that tells geometries apart."""
        text = f"{self.batch}x{self.channels}x{self.image[0]}x{self.image[1]}"
        text += f"_{self.filters}x{self.kernel[0]}x{self.kernel[1]}"
        for letter, pair, usual in (
            ("p", self.pad, None), ("s", self.stride, (1, 1)), ("d", self.dilation, (1, 1)),
        ):  # fmt: skip
            if pair != usual:
                text += f"_{letter}{pair[0]}" + (f"x{pair[1]}" if pair[0] != pair[1] else "")
        # If the stride leaves a remainder, two image sizes have one result size.
        text += f"_g{self.groups}" if self.groups > 1 else ""
        return text + ("_last" if self.last else "") + ("_flipped" if self.flipped else "")


@dataclass(frozen=True)
class GatherAxis:
    """One axis of a gather.

    Element i, 0 <= i < count, lies at first + step i of the tensor that is written, which has
    `extent` places. Its tap t, 0 <= t < taps, takes the filter at filter_first + filter_step t and
    reads place (start + stride i + gap t) / divide, if that is a whole number in [0, source).
    """

    count: int
    extent: int
    first: int
    step: int
    source: int
    start: int
    stride: int
    taps: int
    gap: int
    divide: int
    filter_first: int
    filter_step: int

    @property
    def whole(self) -> bool:
        """Every place is written: this is no phase."""
        return self.count == self.extent

    @property
    def met(self) -> int:
        """Taps of one element that lie inside of the source, at most."""
        between = self.divide // gcd(self.gap, self.divide)  # from one that divides to the next
        apart = self.gap * between // self.divide
        return min(ceil(self.taps / between), (self.source - 1) // apart + 1)


@dataclass(frozen=True)
class Gather:
    """A result, or the gradient of an image, or one phase of it.

    The filter of output channel o and input channel i, both counted in their group, starts at
    group * group_stride + o * out_stride + i * in_stride.
    """

    batch: int
    groups: int
    group_out: int  # channels that are written, in one group
    group_in: int  # channels that are read
    rows: GatherAxis
    columns: GatherAxis
    kernel: tuple[int, int]  # R, S, as stored
    out_stride: int
    in_stride: int
    group_stride: int
    machine: Machine = field(default_factory=fitted, repr=False)
    dtype: DType = DType.F32
    shifted: bool = False

    @property
    def depth(self) -> int:
        """Products in the sum that is one element, those with padding too."""
        return self.group_in * self.rows.taps * self.columns.taps

    @property
    def met(self) -> int:
        """Products in that sum without those with padding, at most: zeros do not round."""
        return self.group_in * self.rows.met * self.columns.met

    @property
    def count(self) -> int:
        """Elements that are written in each channel, over the batch."""
        return self.batch * self.rows.count * self.columns.count

    @property
    def whole(self) -> bool:
        """Whether it writes all of the tensor, and is no phase of it."""
        return self.rows.whole and self.columns.whole

    @property
    def straight(self) -> bool:
        """A filter's taps, and those of the next input channel, lie in the order of the sum."""
        taps = (self.rows.taps, self.columns.taps)
        steps = all(axis.filter_step == 1 or axis.taps == 1 for axis in (self.rows, self.columns))
        return taps == self.kernel and steps and self.in_stride == taps[0] * taps[1]

    @property
    def constants(self) -> tuple[tuple[str, int], ...]:
        """What templates/kernels/constants/gather.h declares."""
        return (
            ("batch", self.batch),
            ("groups", self.groups),
            ("group_out", self.group_out),
            ("group_in", self.group_in),
            ("kernel_w", self.kernel[1]),
            ("out_stride", self.out_stride),
            ("in_stride", self.in_stride),
            ("group_stride", self.group_stride),
            *((f"rows_{name}", value) for name, value in vars(self.rows).items()),
            *((f"columns_{name}", value) for name, value in vars(self.columns).items()),
        )

    def some(self, *names: str) -> tuple[tuple[str, int], ...]:
        """Members of `constants` that a kernel reads."""
        known = dict(self.constants)
        return tuple((name, known[name]) for name in names)


def to_result(g: Geometry) -> tuple[Gather, ...]:
    """The gather that computes the result; one element."""
    rows, columns = (_result_axis(g, at) for at in (0, 1))
    taps = g.taps
    return (
        Gather(
            g.batch, g.groups, g.group_filters, g.group_channels, rows, columns, g.kernel,
            out_stride=g.group_channels * taps,
            in_stride=taps,
            group_stride=g.group_filters * g.group_channels * taps,
            machine=g.machine,
            dtype=g.dtype,
            shifted=g.shifted,
        ),
    )  # fmt: skip


def to_image(g: Geometry) -> tuple[Gather, ...]:
    """The gathers that compute the gradient of the image; together they write all of it.

    With a stride, only some taps meet a result: those of one remainder. Pixels with equal
    remainders are a phase, which is a gather of stride 1 over its own taps.
    """
    phased = g.stride[0] * g.stride[1] <= PHASES and all(
        phase_taps(g, at, phase) for at in (0, 1) for phase in range(min(g.stride[at], g.image[at]))
    )
    axes = [_phases(g, at) if phased else [_divided_axis(g, at)] for at in (0, 1)]
    taps = g.taps
    return tuple(
        Gather(
            g.batch, g.groups, g.group_channels, g.group_filters, rows, columns, g.kernel,
            out_stride=taps,
            in_stride=g.group_channels * taps,
            group_stride=g.group_filters * g.group_channels * taps,
            machine=g.machine,
            dtype=g.dtype,
            shifted=g.shifted,
        )
        for rows in axes[0]
        for columns in axes[1]
    )  # fmt: skip


def _result_axis(g: Geometry, at: int) -> GatherAxis:
    last = g.kernel[at] - 1
    return GatherAxis(
        count=g.result[at],
        extent=g.result[at],
        first=0,
        step=1,
        source=g.image[at],
        start=-g.pad[at],
        stride=g.stride[at],
        taps=g.kernel[at],
        gap=g.dilation[at],
        divide=1,
        filter_first=last if g.flipped else 0,
        filter_step=-1 if g.flipped else 1,
    )


def _divided_axis(g: Geometry, at: int) -> GatherAxis:
    """Pixel i meets the result at (i + a - r d) / u: taps in order of falling r."""
    last = g.kernel[at] - 1
    return GatherAxis(
        count=g.image[at],
        extent=g.image[at],
        first=0,
        step=1,
        source=g.result[at],
        start=g.pad[at] - last * g.dilation[at],
        stride=1,
        taps=g.kernel[at],
        gap=g.dilation[at],
        divide=g.stride[at],
        filter_first=0 if g.flipped else last,
        filter_step=1 if g.flipped else -1,
    )


def phase_taps(g: Geometry, at: int, phase: int) -> list[int]:
    """The r that meet a result, for the pixels phase, phase + u, ..."""
    return [
        r
        for r in range(g.kernel[at])
        if (phase + g.pad[at] - r * g.dilation[at]) % g.stride[at] == 0
    ]


def _phases(g: Geometry, at: int) -> list[GatherAxis]:
    return [phase_axis(g, at, phase) for phase in range(min(g.stride[at], g.image[at]))]


def phase_axis(g: Geometry, at: int, phase: int) -> GatherAxis:
    """The pixels phase, phase + u, ..., which some taps meet."""
    stride, dilation = g.stride[at], g.dilation[at]
    between = stride // gcd(stride, dilation)  # from one r of a phase to the next one
    taps = phase_taps(g, at, phase)
    last = taps[-1]
    return GatherAxis(
        count=ceil((g.image[at] - phase) / stride),
        extent=g.image[at],
        first=phase,
        step=stride,
        source=g.result[at],
        start=(phase + g.pad[at] - last * dilation) // stride,
        stride=1,
        taps=len(taps),
        gap=between * dilation // stride,
        divide=1,
        filter_first=g.kernel[at] - 1 - last if g.flipped else last,
        filter_step=between if g.flipped else -between,
    )


@dataclass(frozen=True)
class Split:
    """A long sum that is shared out to work-groups."""

    chunk: int  # terms of a work-group, in the unit of its kernel
    splits: int  # partial sums; 1: the sum itself is written
    depth: int  # roundings on the longest way from a product into a partial sum


@dataclass(frozen=True)
class Names:
    """What the kernels of one pass are called, and the ports that they read and write."""

    suffix: str  # tells the pass, the mode and the geometry
    source: str  # the image, where filters are computed
    filters: str  # the result, where filters are computed
    target: str
    bias: str = ""  # "" for none
    epilogue: Epilogue = NOTHING  # what is done to each element before it is stored
    dtype: DType = DType.F32  # element type of the source
    stored: DType = DType.F32  # element type of the target
    zero_points: tuple[int, int] = (0, 0)  # zero points of source and filters, for integers

    @property
    def partial(self) -> str:
        """The port of partial sums of the target."""
        return f"{self.target}_partial"

    def kernel(self, algorithm: str, phase: int | None = None) -> str:
        """A kernel's name, of a gather that has phases or not."""
        types = name_of((self.dtype, self.stored)) if self.dtype.is_narrow else ()
        zeros = "_".join(f"{each}".replace("-", "m") for each in self.zero_points)
        types = (*types, f"z{zeros}") if any(self.zero_points) else types
        end = ("" if phase is None else f"_phase{phase}") + "".join(f"_{each}" for each in types)
        return f"conv_{algorithm}_{self.suffix}{end}"

    @property
    def constants(self) -> Constants:
        """Constants of a kernel that computes the target from the source: changes to each sum."""
        return (("with_bias", int(bool(self.bias))), *self.epilogue.constants)

    @property
    def gather_args(self) -> tuple[str, ...]:
        """Arguments of a kernel that computes the target from the source."""
        added = (*((self.bias,) if self.bias else ()), *self.epilogue.ports)
        return (self.source, self.filters, *added, self.target)

    @property
    def summing(self) -> Names:
        """Names of a kernel that leaves partial sums."""
        return replace(self, epilogue=NOTHING, stored=self.dtype.accumulation)

    def elements(self, *types: str) -> Constants:
        """The element types of what is read, of a kernel that calls them so, if not float32."""
        zeros = dict(zip(("source", "filter"), self.zero_points))
        of = ((each, zeros.get(each, 0)) for each in types)
        return tuple(
            made for each, zero in of for made in constant(f"{each}element", self.dtype, zero)
        )

    @property
    def result(self) -> Constants:
        """The element types of what is written, and of what it is the sum of."""
        return (*constant("element", self.stored), *constant("total", self.dtype.accumulation))

    @property
    def added(self) -> Constants:
        """The element type of a bias."""
        return constant("addedelement", self.dtype.product)
