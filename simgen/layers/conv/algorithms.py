"""The algorithms of a convolution: which config value means which, and what each one computes.

    direct         sums over the taps, with pixels in registers and filters in LDS
    implicit_gemm  a matrix product whose second factor, the unrolled windows, is never in memory
    im2col         unrolls the windows in a workspace, and then multiplies
    channels_last  implicit GEMM of copies with channels last; for f16 and bf16 on NVIDIA's cores
    winograd       F(2 x 2, 3 x 3): 16 products in place of 36; for 3 x 3 filters of stride 1
    fft            Fourier transforms of tiles; for stride 1 and filters of up to 17 x 17 pixels

DNNMark's values are those of cuDNN's enumerations. cuDNN's algorithms are not simgen's; each value
stands for the one that is nearest in kind. `algofwd`, `cudnnv7` and the numbers of `algod` above 1
are those of a fork.

Source of the fork's: pyotr777/DNNMark at 8699639 (core/include/dnn_utility.h, layers/conv_layer.h).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod, sqrt
from typing import TYPE_CHECKING, Protocol

from simgen.ask.build import BuildChoices
from simgen.ground.arrays import np
from simgen.ground.dtypes import DType
from simgen.ground.ir import Launch, TensorSpec
from simgen.ground.machine import YES, Machine, fitted
from simgen.ground.numerics import rounding
from simgen.ground.numerics.rounding import U
from simgen.ground.numerics.spread import Spread, correlated, repeats
from simgen.layers.base import CHUNKS, Choice, Lowering
from simgen.layers.conv import (
    channels_last,
    implicit_gemm,
    spread_of_sums,
)
from simgen.layers.conv import (
    direct as conv_direct,
)
from simgen.layers.conv import (
    fft as conv_fft,
)
from simgen.layers.conv import spread_of_transforms as transforms
from simgen.layers.conv import (
    winograd as conv_winograd,
)
from simgen.layers.conv.geometry import PHASES, Gather, Geometry, Names, Split, to_image, to_result
from simgen.layers.product import fragment
from simgen.layers.product.matrix_product import Channels, sum_of

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.conv.transform_tiles import Products
    from simgen.layers.product.tile import Tile


FEW_ROWS = 16  # output channels; twice as many, where there are
MANY_PIXELS = 2**15  # pixels; fitted on an H200
FEW_OF_ONE = 8  # rows, or products, with filters of one tap
FEW_PRODUCTS = 128  # products in a sum; for the filters' gradient, columns
SMALL_PRODUCTS = 2**24  # multiply-adds
MIN_GROUP_RATIO = 4  # work-groups in place of one, for a product's two kernels to pay; units for it
# Multiply-adds from which transformed tiles are faster than direct products, measured on an H200. A
# slower machine with the same launch cost needs proportionally fewer.
MIN_TRANSFORMED_PRODUCTS = 2**29  # multiply-adds
TRANSFORMED_CHANNELS = 32  # on both sides
TAPS = 9
WORKSPACE = 2**29 + 2**23  # elements at most: 2 GiB, and 2 frequencies beside 128 of them


Workspaces = tuple[tuple[str, TensorSpec], ...]  # (port, tensor)


class Algorithm(StrEnum):
    DIRECT = "direct"
    IMPLICIT_GEMM = "implicit_gemm"
    IM2COL = "im2col"
    CHANNELS_LAST = "channels_last"
    WINOGRAD = "winograd"
    FFT = "fft"


OURS = frozenset(str(each) for each in Algorithm)


class Transform(Protocol):
    """What a module knows that transforms tiles, multiplies and transforms back."""

    TAKES: str  # which geometries, for a message

    def fits(self, each: Gather) -> bool: ...
    def fits_filters(self, g: Geometry) -> bool: ...
    def workspaces(self, each: Gather) -> tuple[tuple[str, TensorSpec], ...]: ...
    def filter_workspaces(self, g: Geometry) -> tuple[tuple[str, TensorSpec], ...]: ...
    def products(self, each: Gather) -> Products: ...
    def filter_products(self, g: Geometry) -> Products: ...
    def gather(self, each: Gather, names: Names) -> Lowering: ...
    def filters(self, g: Geometry, names: Names) -> Lowering: ...
    def bound(self, source: Array, filters: Array, each: Gather) -> Array: ...
    def filter_bound(self, image: Array, result: Array, g: Geometry) -> Array: ...


TRANSFORMS: dict[Algorithm, Transform] = {
    Algorithm.WINOGRAD: conv_winograd,
    Algorithm.FFT: conv_fft,
}


class ConvAlgo(StrEnum):
    """Forward and backward-filter algorithm; numbers are cudnnConvolutionBwdFilterAlgo_t.

    A number above 0 leaves the forward algorithm at implicit GEMM, as in DNNMark.
    """

    ALGO_0 = "0"  # what DNNMark takes when nothing is given: simgen chooses, as for "auto"
    ALGO_1 = "1"  # implicit GEMM, as 3
    ALGO_FFT = "2"  # this one and ALGO_FFT_TILING: in tiles
    ALGO_3 = "3"
    ALGO_WINOGRAD = "4"
    ALGO_WINOGRAD_NONFUSED = "5"
    ALGO_FFT_TILING = "6"
    FFT = "fft"  # forward too
    WINOGRAD = "winograd"  # forward too
    CUDNN = "cudnn"  # ask the library's heuristics: simgen's
    CUDNN_V7 = "cudnnv7"  # the same, by a later function of the library
    AUTO = "auto"  # let the library measure: simgen's heuristics
    DIRECT = "direct"  # this one and the next three: simgen's own names, for all passes
    IMPLICIT_GEMM = "implicit_gemm"
    IM2COL = "im2col"
    CHANNELS_LAST = "channels_last"


class ForwardAlgo(StrEnum):
    """Forward algorithm; cudnnConvolutionFwdAlgo_t, and simgen's own names."""

    UNSAID = ""  # as `algo` says
    ALGO_IMPLICIT_GEMM = "0"
    ALGO_IMPLICIT_PRECOMP_GEMM = "1"
    ALGO_GEMM = "2"
    ALGO_DIRECT = "3"
    ALGO_FFT = "4"
    ALGO_FFT_TILING = "5"
    ALGO_WINOGRAD = "6"
    ALGO_WINOGRAD_NONFUSED = "7"
    FFT = "fft"
    WINOGRAD = "winograd"
    CUDNN = "cudnn"
    CUDNN_V7 = "cudnnv7"
    AUTO = "auto"
    DIRECT = "direct"
    IMPLICIT_GEMM = "implicit_gemm"
    IM2COL = "im2col"
    CHANNELS_LAST = "channels_last"


class DataAlgo(StrEnum):
    """Backward-data algorithm; cudnnConvolutionBwdDataAlgo_t, and simgen's own names."""

    ALGO_0 = "0"  # what DNNMark takes when nothing is given: `algo` if that is a name of simgen's
    ALGO_1 = "1"  # implicit GEMM
    ALGO_FFT = "2"
    ALGO_FFT_TILING = "3"
    ALGO_WINOGRAD = "4"
    ALGO_WINOGRAD_NONFUSED = "5"
    CUDNN = "cudnn"
    CUDNN_V7 = "cudnnv7"
    AUTO = "auto"
    FFT = "fft"
    FFT_TILING = "fft_tiling"
    WINOGRAD = "winograd"
    WINOGRAD_NONFUSED = "winograd_nonfused"
    DIRECT = "direct"
    IMPLICIT_GEMM = "implicit_gemm"
    IM2COL = "im2col"
    CHANNELS_LAST = "channels_last"


class Unknown(StrEnum):
    """What is computed from the other two."""

    RESULT = "result"
    IMAGE = "image"
    FILTERS = "filters"


CHOSEN = ("0", "cudnn", "cudnnv7", "auto")  # simgen chooses; 0 is what DNNMark takes by itself
_FORWARD = {
    **dict.fromkeys("01", Algorithm.IMPLICIT_GEMM), "2": Algorithm.IM2COL, "3": Algorithm.DIRECT,
    **dict.fromkeys("45", Algorithm.FFT), **dict.fromkeys("67", Algorithm.WINOGRAD),
}  # fmt: skip
_DATA = {
    "1": Algorithm.IMPLICIT_GEMM,
    **dict.fromkeys(("2", "3", "fft_tiling"), Algorithm.FFT),
    **dict.fromkeys(("4", "5", "winograd_nonfused"), Algorithm.WINOGRAD),
}


def for_forward(algo: ConvAlgo, forward_algo: ForwardAlgo = ForwardAlgo.UNSAID) -> Algorithm | None:
    """What the config wants of the forward pass; None: simgen chooses."""
    if forward_algo is not ForwardAlgo.UNSAID:
        return _FORWARD.get(forward_algo) or (
            None if forward_algo in CHOSEN else Algorithm(forward_algo)
        )
    if algo in CHOSEN:
        return None
    return Algorithm(algo) if algo in OURS else Algorithm.IMPLICIT_GEMM


def for_data(algo: ConvAlgo, data_algo: DataAlgo) -> Algorithm | None:
    """The same of the backward-data pass."""
    if data_algo is DataAlgo.ALGO_0:
        return Algorithm(algo) if algo in OURS else None
    return _DATA.get(data_algo) or (None if data_algo in CHOSEN else Algorithm(data_algo))


def for_filters(algo: ConvAlgo) -> Algorithm | None:
    """The same of the backward-weight pass."""
    if algo in (ConvAlgo.ALGO_FFT, ConvAlgo.ALGO_FFT_TILING):
        return Algorithm.FFT
    if algo in (ConvAlgo.ALGO_WINOGRAD, ConvAlgo.ALGO_WINOGRAD_NONFUSED):
        return Algorithm.WINOGRAD
    return for_forward(algo)


def choose(g: Geometry, unknown: Unknown) -> Algorithm:
    """The algorithm that should be fastest on the machine."""
    return reasoned(g, unknown)[0]


def reasoned(g: Geometry, unknown: Unknown) -> tuple[Algorithm, str]:
    """The algorithm that should be fastest on the machine, and why.

    Where there is much to compute, one that transforms tiles. Otherwise: a tile of a matrix product
    needs some 32 rows and many products in each sum. Where there are few channels on either side,
    most of it would be idle: then direct, but for 1 x 1, whose direct kernel uses no element twice.
    So it is where there is little to compute at all: direct kernels execute the fewest
    instructions, which counts in simulators.
    """
    by_matrix = g.machine.use_matrix == YES
    transformed = _transformed(g, unknown) if g.dtype.is_float else None
    last = channels_last.fits(g, unknown is Unknown.FILTERS, gathers_of(g, unknown))
    if transformed and not by_matrix and not last:
        return transformed, "there is much to compute in many channels"
    if not last and not maps(g, unknown):
        return Algorithm.IMPLICIT_GEMM, "the filters are too large for direct"
    channels, filters = g.group_channels, g.group_filters
    rows, depth = {
        Unknown.RESULT: (filters, channels * g.taps),
        Unknown.IMAGE: (channels, filters * g.taps),
        Unknown.FILTERS: (filters, channels * g.taps),
    }[unknown]
    few_pixels = g.batch * g.pixels * fitted().units < MANY_PIXELS * g.machine.units
    few_rows = FEW_ROWS if few_pixels else 2 * FEW_ROWS
    # Matrix cores multiply a tile that is half empty in less time than scalars take for the rest.
    few_rows = FEW_OF_ONE - 1 if last else few_rows
    few = rows <= few_rows or depth <= FEW_PRODUCTS
    if g.taps == 1:
        few = min(rows, depth) < FEW_OF_ONE
    little = g.batch * g.pixels * g.size <= SMALL_PRODUCTS and not _idles(g, unknown)
    if few and maps(g, unknown):
        return Algorithm.DIRECT, f"a product of {rows} rows and sums of {depth} would fill no tile"
    if last and not little:
        return Algorithm.CHANNELS_LAST, f"{g.machine.name} multiplies {g.dtype} with channels last"
    if by_matrix:
        why = f"{BuildChoices.matrix.flag} yes: matrix instructions multiply its tiles"
        return Algorithm.IMPLICIT_GEMM, why
    if little:
        return Algorithm.DIRECT, "little to compute: the fewest instructions"
    return Algorithm.IMPLICIT_GEMM, f"{rows} rows and sums of {depth} fill a product's tiles"


def _idles(g: Geometry, unknown: Unknown) -> bool:
    """Whether direct kernels leave most units idle, and a product cut into chunks many fewer."""
    gathers = gathers_of(g, unknown)
    if not gathers:
        return False  # the filters' gradient shares the pixels out in any case
    direct = sum(conv_direct.groups(each) for each in gathers)
    if MIN_GROUP_RATIO * direct > g.machine.units:
        return False
    return implicit_gemm.groups(gathers) >= MIN_GROUP_RATIO * direct


def _transformed(g: Geometry, unknown: Unknown) -> Algorithm | None:
    """The algorithm that transforms tiles, if one pays.

    Winograd's has the smaller filters, which counts where there are many channels and few pixels;
    spectra of the larger tiles of FFT take less to move and to multiply where these are full.
    """
    channels = min(g.group_channels, g.group_filters)
    products, at = g.batch * g.pixels * g.size, (fitted(), g.machine)
    first, own = (each.units * each.fmas * each.launch_cycles for each in at)
    if (
        products * first < MIN_TRANSFORMED_PRODUCTS * own
        or channels < TRANSFORMED_CHANNELS
        or g.taps < TAPS
    ):
        return None
    fitting = [
        each
        for each in (Algorithm.WINOGRAD, Algorithm.FFT)
        if _fits(each, g, unknown)
        and _largest(each, g, unknown) <= WORKSPACE
        and _moving_pays(each, g, unknown)
    ]
    return min(fitting, key=lambda each: _seconds(each, g, unknown), default=None)


def _seconds(algorithm: Algorithm, g: Geometry, unknown: Unknown) -> float:
    """Estimate of the time to multiply, and to write workspaces and read them."""
    of = TRANSFORMS[algorithm]
    filters = unknown is Unknown.FILTERS
    made = of.filter_products(g) if filters else of.products(gathers_of(g, unknown)[0])
    return made.cycles / g.machine.clock + _moving(_nbytes(algorithm, g, unknown), g.machine)


def _moving(nbytes: int, machine: Machine) -> float:
    """Seconds to write so many bytes once and to read them once."""
    stays = nbytes <= machine.l2_nbytes
    return 2 * nbytes / (machine.l2_rate * machine.clock if stays else machine.dram_rate)


def _moving_pays(algorithm: Algorithm, g: Geometry, unknown: Unknown) -> bool:
    """Whether it costs no more to move the workspaces than to multiply directly, of which more than
    half is saved, or no more beside that than where it was seen to pay."""
    nbytes, products = _nbytes(algorithm, g, unknown), g.batch * g.pixels * g.size

    def share(machine: Machine) -> float:
        """Ratio of the time to move workspaces to the time of the products."""
        return _moving(nbytes, machine) * machine.rate / products

    return share(g.machine) <= max(1.0, share(fitted()))


def _fits(algorithm: Algorithm, g: Geometry, unknown: Unknown) -> bool:
    """Whether one that transforms tiles can do the geometry."""
    of = TRANSFORMS[algorithm]
    return of.fits_filters(g) if unknown is Unknown.FILTERS else of.fits(gathers_of(g, unknown)[0])


def _workspaces(algorithm: Algorithm, g: Geometry, unknown: Unknown) -> Workspaces:
    of = TRANSFORMS[algorithm]
    if unknown is Unknown.FILTERS:
        return of.filter_workspaces(g)
    return of.workspaces(gathers_of(g, unknown)[0])


def _nbytes(algorithm: Algorithm, g: Geometry, unknown: Unknown) -> int:
    """Size of all workspaces in bytes."""
    return sum(spec.nbytes for _, spec in _workspaces(algorithm, g, unknown))


def _largest(algorithm: Algorithm, g: Geometry, unknown: Unknown) -> int:
    """Elements of the largest workspace."""
    return max(spec.size for _, spec in _workspaces(algorithm, g, unknown))


def maps(g: Geometry, unknown: Unknown) -> bool:
    """Whether the direct kernels can do the geometry."""
    if unknown is Unknown.FILTERS:
        return conv_direct.maps_filters(g)
    return conv_direct.maps_gathers(gathers_of(g, unknown))


def gathers_of(g: Geometry, unknown: Unknown) -> tuple[Gather, ...]:
    """What computes a result or an image; nothing where the filters are computed."""
    if unknown is Unknown.FILTERS:
        return ()
    return to_result(g) if unknown is Unknown.RESULT else to_image(g)


@dataclass(frozen=True)
class ConvJob:
    """One pass of a convolution, by one algorithm."""

    g: Geometry
    unknown: Unknown
    algorithm: Algorithm
    names: Names

    @classmethod
    def of(
        cls,
        g: Geometry,
        unknown: Unknown,
        wanted: Algorithm | None,
        names: Names,
        *,
        room: int | None = None,
    ) -> ConvJob:
        """The job of the requested algorithm, or of the one that simgen chooses.

        It chooses one whose workspaces have at most so many bytes as there is `room`; where there
        is none, one that has the fewest.
        """
        job = cls(g, unknown, wanted or choose(g, unknown), names)
        if wanted or room is None or job._workspace_nbytes <= room:
            return job
        others = [Algorithm.IMPLICIT_GEMM, *([Algorithm.DIRECT] if maps(g, unknown) else [])]
        jobs = [cls(g, unknown, each, names) for each in others]
        return min(jobs, key=lambda each: each._workspace_nbytes)

    @property
    def _workspace_nbytes(self) -> int:
        return sum(spec.nbytes for _, spec in self.workspaces())

    @property
    def reads(self) -> bool:
        """Whether the kernels read narrow elements: transforms take float32."""
        return self.algorithm not in TRANSFORMS

    @property
    def stores(self) -> bool:
        """Whether they store them, or the sum of what they leave does; if not, it is float32."""
        if not self.g.dtype.is_float:
            return True
        if not self.reads or self.splits > 1:
            return self.reads
        return self._by_fours

    @property
    def _sums_follow(self) -> bool:
        """Whether another kernel adds partial sums, or stores integers by fours."""
        narrow = self._result.is_narrow and not self.g.dtype.is_float
        return self.splits > 1 or (narrow and not self._by_fours)

    @property
    def _result(self) -> DType:
        """The type of what is computed."""
        return self.names.epilogue.result(self.g.dtype)

    @property
    def _by_fours(self) -> bool:
        """Whether the kernels store by fours what they compute."""
        gathers = self._gathers()
        if self._last:
            return True  # one by one, where they do not lie by fours
        if self.algorithm is not Algorithm.DIRECT:
            return implicit_gemm.stores(gathers, self.g)
        return bool(gathers) and all(conv_direct.stores(each) for each in gathers)

    @property
    def typed(self) -> Names:
        """The names with the types of elements that the kernels have."""
        dtype = self.g.dtype if self.reads else DType.F32
        if self._sums_follow and self.splits == 1:
            names = replace(self.names, dtype=dtype).summing
            return replace(names, target=self.names.partial)
        return replace(self.names, dtype=dtype, stored=self._result if self.stores else DType.F32)

    def check(self) -> None:
        """Raises:
        ValueError: the algorithm cannot do the geometry.
        """
        (r, s), (u, v), (d, e) = self.g.kernel, self.g.stride, self.g.dilation
        fact = f"filters of {r} x {s} with stride {u} x {v} and dilation {d} x {e}"
        if self.algorithm is Algorithm.DIRECT and not maps(self.g, self.unknown):
            room = f"{self.g.machine.group_lds_nbytes} bytes of LDS of {self.g.machine.label}"
            raise ValueError(
                f"{fact} are too large for algorithm direct and the {room}; choose implicit_gemm"
            )
        for_integers = (Algorithm.DIRECT, Algorithm.IMPLICIT_GEMM)
        if not self.g.dtype.is_float and self.algorithm not in for_integers:
            fact = f"algorithm {self.algorithm} takes no {self.g.dtype}"
            raise ValueError(f"{fact}; choose {' or '.join(for_integers)}, or leave algo out")
        if self._last and not channels_last.fits(self.g, self._of_filters, self._gathers()):
            if channels_last.multiplies(self.g, self._of_filters):
                raise ValueError(
                    f"{fact}: algorithm channels_last cannot compute {self.names.target}, of which "
                    f"{self._strided}; choose {self._instead}"
                )
            raise ValueError(
                f"{fact}: algorithm channels_last takes one group of f16 or bf16, planned for an "
                f"NVIDIA GPU with {BuildChoices.matrix}; choose implicit_gemm"
            )
        if self.algorithm in TRANSFORMS and not _fits(self.algorithm, self.g, self.unknown):
            takes = TRANSFORMS[self.algorithm].TAKES
            raise ValueError(f"{fact}; {self.algorithm} takes {takes}: choose implicit_gemm")

    @property
    def _strided(self) -> str:
        """What strides make of the pixels of an image that is computed."""
        phases = prod(self.g.stride)
        if phases > PHASES:
            return f"pixels have {phases} phases, more than {PHASES}"
        return "some pixels meet no tap"

    @property
    def _instead(self) -> str:
        """The key that gives this pass another algorithm, and no other pass where that can be."""
        return "algod=implicit_gemm" if self.names.target == "dx" else "implicit_gemm"

    def choices(self, *, asked: bool) -> tuple[Choice, ...]:
        """What is planned; `asked` says that the config has chosen the algorithm."""
        chosen, why = reasoned(self.g, self.unknown)
        if asked:
            why = "the config asks for it"
        elif chosen is not self.algorithm:
            why = f"{chosen} would need a larger workspace"
        first = Choice("algorithm", str(self.algorithm), why)
        if not self.reads:
            why = f"transforms take no {self.g.dtype}: launches convert what they read and write"
            return (first, Choice("elements", "f32", why)) if self.g.dtype.is_narrow else (first,)
        if self._last:
            return (first, *channels_last.choices(self.g, self._gathers()))
        if self.algorithm is not Algorithm.DIRECT:
            if self.unknown is Unknown.FILTERS:
                return (first, *implicit_gemm.filter_choices(self.g))
            return (first, *implicit_gemm.gather_choices(self._gathers()))
        if self.unknown is not Unknown.FILTERS:
            return (first,)
        units = self.g.machine.units
        chunks = Choice(CHUNKS, str(self.splits), f"{units} units share the pixels")
        return (first, chunks)

    @property
    def tile(self) -> Tile | None:
        """Tile of the matrix product, if the algorithm is one."""
        if self.algorithm in TRANSFORMS or self.algorithm is Algorithm.DIRECT:
            return None
        if self._last:
            return channels_last.tile_of(self.g, self._gathers())
        if self.unknown is Unknown.FILTERS:
            return implicit_gemm.filter_tile(self.g)
        return implicit_gemm.gather_tile(self._gathers())

    def workspaces(self) -> Workspaces:
        """(port, tensor) of what the pass's own kernels write and read."""
        if self.algorithm in TRANSFORMS:
            return _workspaces(self.algorithm, self.g, self.unknown)
        found = []
        if self._last:
            found += channels_last.workspaces(self.g, self._gathers(), self.names)
            if self._of_filters:
                partial = channels_last.partial(self.g)
                return tuple(found) + (((self.names.partial, partial),) if partial else ())
        if self.algorithm is Algorithm.IM2COL:
            gathers = self._gathers() if self._gathers() else to_result(self.g)
            found.append((implicit_gemm.WINDOWS, implicit_gemm.windows(gathers)))
        if self._sums_follow:
            shape = (self.splits, self._size())
            found.append((self.names.partial, TensorSpec(shape, self.g.dtype.accumulation)))
        return tuple(found)

    def lower(self) -> Lowering:
        """Kernels and launches, without those of the bias's gradient."""
        made, splits = self._products(), self.splits
        if not self._sums_follow or (self._last and self._of_filters):
            return made
        channels = Channels(self.names.epilogue, *self._channels())
        stored = self._result if self.stores else DType.F32
        kernel, grid = sum_of(
            self.g.machine,
            "conv",
            splits,
            self._size(),
            channels=channels,
            of=self.g.dtype.accumulation,
            added=self.g.dtype.accumulation,
            result=stored,
        )
        args = (self.names.partial, *self.names.epilogue.ports, self.names.target)
        launch = Launch(kernel.name, grid, args)
        return Lowering((*made.kernels, kernel), (*made.launches, launch))

    def bound(self, sums: Array, source: Array, filters: Array) -> Array:
        """Bound on the error of each element that is computed.

        `sums` are those of the absolute values of the terms, and `source` and `filters` the
        absolute values of what the job reads.
        """
        if self.algorithm in TRANSFORMS:
            of = TRANSFORMS[self.algorithm]
            if self.unknown is Unknown.FILTERS:
                return of.filter_bound(source, filters, self.g)
            return of.bound(source, filters, self._gathers()[0])
        split = self._split()
        depth = split.depth + (split.splits if split.splits > 1 else 0)
        relative, absolute = self._lost(source, filters)
        rounded = rounding.accumulated(depth) + relative
        made: Array = sums * rounded + 16 * (depth + 1) * rounding.TINY + absolute
        return made

    @property
    def _matrix_tile(self) -> Tile | None:
        """Tile of matrix instructions, if they multiply."""
        found = self.tile
        return found if found and found.matrix else None

    def _lost(self, source: Array, filters: Array) -> tuple[float, float]:
        """What matrix instructions change sums by, beside roundings of float32."""
        if self._matrix_tile is None:
            return 0.0, 0.0
        g, gathers = self.g, self._gathers()
        terms = max(each.met for each in gathers) if gathers else g.batch * g.pixels
        return fragment.lost_of(terms, source, filters, g.dtype, g.machine)

    def spread(self, source: Array, filters: Array, hard: Array) -> Spread:
        """Spread of the errors of each computed element; `hard` are its bounds."""
        g, of_filters = self.g, self.unknown is Unknown.FILTERS
        if self.algorithm not in TRANSFORMS:
            root, squares = self._walked(source, filters)
            equal = self._equal(source, filters)
            split = self._split()
            depth = split.depth + (split.splits if split.splits > 1 else 0)
            relative, absolute = self._lost(np.abs(source), np.abs(filters))
            magnitude = (hard - absolute) / (rounding.accumulated(depth) + relative)
            sigma = U * root * rounding.SECOND_ORDER + 16 * (depth + 1) * rounding.TINY
            if relative or absolute:
                sigma = sigma + relative * magnitude + absolute
            if self._matrix_tile is not None and fragment.biased(g.dtype, g.machine):
                return Spread(hard)
            gathers = self._gathers()
            terms = max(each.met for each in gathers) if gathers else g.batch * g.pixels
            return Spread(correlated(sigma, hard, terms, squares, magnitude, equal))
        fft = self.algorithm is Algorithm.FFT
        # A rounding of a transformed filter reaches all that it is multiplied with, and so on.
        if of_filters:
            of = transforms.fourier_filters if fft else transforms.winograd_filters
            sigma, equal = of(source, filters, g)
            shared = (g.group_filters + g.group_channels) * g.taps
        else:
            (each,) = self._gathers()
            sigma, equal = (transforms.fourier if fft else transforms.winograd)(
                source, filters, each
            )
            steps = conv_fft.tiles_of(each).steps if fft else (2, 2)
            shared = each.count + each.group_out * steps[0] * steps[1]
        largest = max(np.abs(t).max(initial=1.0) for t in (source, filters))
        flushed = 2.0**24 * largest * rounding.TINY  # in no more than 2^24 elements of tiles
        sigma = sqrt(equal) * sigma * rounding.SECOND_ORDER + flushed
        return Spread(np.minimum(sigma, hard), shared)

    def _walked(self, source: Array, filters: Array) -> tuple[Array, Array]:
        """Roots of the sums of all squared partial sums, and sums of squared products."""
        split = self._split()
        if self._last and not self._of_filters:  # taps before channels
            return spread_of_sums.in_any_order(source, filters, self.g, split, self._of_result)
        if self.unknown is Unknown.RESULT:
            return spread_of_sums.result(source, filters, self.g, split)
        if self.unknown is Unknown.IMAGE:
            return spread_of_sums.image_gradient(source, filters, self.g, split)
        ends, inside = self._filter_chunks(split)
        return spread_of_sums.filter_gradient(source, filters, self.g, ends, inside)

    def _filter_chunks(self, split: Split) -> tuple[list[int], tuple[int, ...]]:
        """Ends of the chunks of all samples' pixels, and the stages of a chunk's sum."""
        total = self.g.batch * self.g.pixels
        if self.algorithm is Algorithm.DIRECT:
            return conv_direct.filter_chunks(self.g)
        return [min(total, split.chunk * (at + 1)) for at in range(split.splits)], ()

    def _equal(self, source: Array, filters: Array) -> float:
        """How many equal products a sum may have: no more than equal factors of either side."""
        if self.unknown is Unknown.FILTERS:
            channels = (t.swapaxes(0, 1).reshape(t.shape[1], -1) for t in (source, filters))
            return min(repeats(each) for each in channels)
        g = self.g
        w = filters.reshape(g.groups, g.group_filters, g.group_channels, g.taps)
        w = w if self.unknown is Unknown.RESULT else w.swapaxes(1, 2)
        rows = np.ascontiguousarray(w).reshape(-1, w.shape[2] * g.taps)
        return min(repeats(rows), repeats(source.reshape(len(source), -1)))

    @property
    def grain(self) -> float:
        """What the grain of products becomes by transformations; 0: they have none."""
        if self.algorithm not in TRANSFORMS:
            return 1.0
        return conv_winograd.GRAIN if self.algorithm is Algorithm.WINOGRAD else 0.0

    @property
    def growth(self) -> int:
        """How much larger sums can be on their way than by themselves, in grains; 0: no grain."""
        if self.algorithm not in TRANSFORMS:
            return 1
        return conv_winograd.GROWTH if self.algorithm is Algorithm.WINOGRAD else 0

    def magnitudes(self, sums: Array, source: Array, filters: Array) -> Array:
        """Bound on all that is added up on the way to each element; arguments as of `bound`."""
        if self.algorithm is not Algorithm.WINOGRAD:
            return sums
        if self.unknown is Unknown.FILTERS:
            return conv_winograd.filter_magnitude(source, filters, self.g)
        return conv_winograd.magnitude(source, filters, self._gathers()[0])

    @property
    def splits(self) -> int:
        """Partial sums of which each element that is computed is the sum."""
        return self._split().splits

    @property
    def _last(self) -> bool:
        return self.algorithm is Algorithm.CHANNELS_LAST

    @property
    def _of_filters(self) -> bool:
        return self.unknown is Unknown.FILTERS

    @property
    def _of_result(self) -> bool:
        return self.unknown is Unknown.RESULT

    def _products(self) -> Lowering:
        unrolled = self.algorithm is Algorithm.IM2COL
        if self._last and self._of_filters:
            return channels_last.filters(self.g, self.typed)
        if self._last:
            return channels_last.gather(self.g, self._gathers(), self.typed)
        if self.algorithm in TRANSFORMS:
            of = TRANSFORMS[self.algorithm]
            if self.unknown is Unknown.FILTERS:
                return of.filters(self.g, self.typed)
            return of.gather(self._gathers()[0], self.typed)
        if self.unknown is Unknown.FILTERS:
            if self.algorithm is Algorithm.DIRECT:
                return conv_direct.filters(self.g, self.typed)
            return implicit_gemm.filters(self.g, self.typed, unrolled=unrolled)
        if self.algorithm is Algorithm.DIRECT:
            return conv_direct.gather(self._gathers(), self.typed)
        return implicit_gemm.gather(self._gathers(), self.typed, unrolled=unrolled)

    def _gathers(self) -> tuple[Gather, ...]:
        return gathers_of(self.g, self.unknown)

    def _channels(self) -> tuple[int, int]:
        """Channels of what is computed, and elements of each, where it is no filters."""
        g = self.g
        if self.unknown is Unknown.RESULT:
            return g.filters, g.pixels
        return g.channels, g.image[0] * g.image[1]

    def _size(self) -> int:
        """Elements of what is computed."""
        g = self.g
        if self.unknown is Unknown.FILTERS:
            return g.size
        if self.unknown is Unknown.RESULT:
            return g.batch * g.filters * g.pixels
        return g.batch * g.channels * g.image[0] * g.image[1]

    def _split(self) -> Split:
        """How the sums are shared out."""
        direct = self.algorithm is Algorithm.DIRECT
        if self.algorithm in TRANSFORMS:
            return Split(1, 1, 1)  # what they share out, their own kernels add
        if self._last:
            return channels_last.split(self.g, self._gathers())
        if self.unknown is Unknown.FILTERS:
            return (
                conv_direct.filter_split(self.g) if direct else implicit_gemm.filter_split(self.g)
            )
        gathers = self._gathers()
        if direct:
            return Split(gathers[0].depth, 1, max(each.met for each in gathers))
        return implicit_gemm.gather_split(gathers)
