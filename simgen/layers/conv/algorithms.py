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

from enum import StrEnum
from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices
from simgen.ground.machine import YES, Machine, fitted
from simgen.layers.base import Choice
from simgen.layers.conv import direct as conv_direct
from simgen.layers.conv import implicit_gemm
from simgen.layers.conv.channels_last import ChannelsLast
from simgen.layers.conv.direct import Direct
from simgen.layers.conv.implicit_gemm import Im2col, ImplicitGemm
from simgen.layers.conv.job import Algorithm, ConvJob, Unknown
from simgen.layers.conv.transformed import Fourier, Transformed, Winograd

if TYPE_CHECKING:
    from simgen.layers.conv.geometry import Gather, Geometry, Names

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

OURS = frozenset(str(each) for each in Algorithm)


METHODS: dict[Algorithm, type[ConvJob]] = {
    each.algorithm: each for each in (Direct, ImplicitGemm, Im2col, ChannelsLast, Winograd, Fourier)
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
    instructions, which counts in simulators. With channels last even small ones are faster on an
    H200, by 1.9 times at the geometric mean of 70 (benchmarks/native/RESULTS.md).
    """
    by_matrix = g.machine.use_matrix == YES
    transformed = _transformed(g, unknown) if g.dtype.is_float else None
    last, direct = ChannelsLast(g, unknown).fits, Direct(g, unknown)
    if transformed and not by_matrix and not last:
        return transformed, "there is much to compute in many channels"
    if not last and not direct.fits:
        return Algorithm.IMPLICIT_GEMM, "the filters are too large for direct"
    channels, filters = g.group_channels, g.group_filters
    rows, depth = {
        Unknown.RESULT: (filters, channels * g.taps),
        Unknown.IMAGE: (channels, filters * g.taps),
        Unknown.FILTERS: (filters, channels * g.taps),
    }[unknown]
    few_pixels = g.batch * g.pixels * fitted().units < MANY_PIXELS * g.machine.units
    few_rows = FEW_ROWS if few_pixels else 2 * FEW_ROWS
    few = rows <= few_rows or depth <= FEW_PRODUCTS
    # Matrix cores multiply a tile that is half empty in less time than scalars take for the rest.
    if g.taps == 1 or last:
        few = min(rows, depth) < FEW_OF_ONE
    if few and direct.fits:
        return Algorithm.DIRECT, f"a product of {rows} rows and sums of {depth} would fill no tile"
    if last:
        return Algorithm.CHANNELS_LAST, f"{g.machine.name} multiplies {g.dtype} with channels last"
    if by_matrix:
        why = f"{BuildChoices.matrix.flag} yes: matrix instructions multiply its tiles"
        return Algorithm.IMPLICIT_GEMM, why
    if g.batch * g.pixels * g.size <= SMALL_PRODUCTS and not _idles(g, direct.gathers):
        return Algorithm.DIRECT, "little to compute: the fewest instructions"
    return Algorithm.IMPLICIT_GEMM, f"{rows} rows and sums of {depth} fill a product's tiles"


def _idles(g: Geometry, gathers: tuple[Gather, ...]) -> bool:
    """Whether direct kernels leave most units idle, and a product cut into chunks many fewer."""
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
    jobs = (Winograd(g, unknown), Fourier(g, unknown))
    fitting = [each for each in jobs
               if each.fits and each.largest <= WORKSPACE and _moving_pays(each)]  # fmt: skip
    return min(fitting, key=_seconds).algorithm if fitting else None


def _seconds(job: Transformed) -> float:
    """Estimate of the time to multiply, and to write workspaces and read them."""
    machine = job.g.machine
    return job.multiplied.cycles / machine.clock + _moving(job.nbytes, machine)


def _moving(nbytes: int, machine: Machine) -> float:
    """Seconds to write so many bytes once and to read them once."""
    stays = nbytes <= machine.l2_nbytes
    return 2 * nbytes / (machine.l2_rate * machine.clock if stays else machine.dram_rate)


def _moving_pays(job: Transformed) -> bool:
    """Whether it costs no more to move the workspaces than to multiply directly, of which more than
    half is saved, or no more beside that than where it was seen to pay."""
    g, nbytes = job.g, job.nbytes
    products = g.batch * g.pixels * g.size

    def share(machine: Machine) -> float:
        """Ratio of the time to move workspaces to the time of the products."""
        return _moving(nbytes, machine) * machine.rate / products

    return share(g.machine) <= max(1.0, share(fitted()))


def job_of(
    g: Geometry,
    unknown: Unknown,
    wanted: Algorithm | None,
    names: Names,
    *,
    room: int | None = None,
) -> ConvJob:
    """The job of the requested algorithm, or of the one that simgen chooses.

    It chooses one whose workspaces have at most so many bytes as there is `room`; where there is
    none, one that has the fewest.
    """
    job = METHODS[wanted or choose(g, unknown)](g, unknown, names)
    if wanted or room is None or job.nbytes <= room:
        return job
    direct = Direct(g, unknown, names)
    jobs = [ImplicitGemm(g, unknown, names), *([direct] if direct.fits else [])]
    return min(jobs, key=lambda each: each.nbytes)


def choices(job: ConvJob, *, asked: bool) -> tuple[Choice, ...]:
    """What is planned; `asked` says that the config has chosen the algorithm."""
    chosen, why = reasoned(job.g, job.unknown)
    if asked:
        why = "the config asks for it"
    elif chosen is not job.algorithm:
        why = f"{chosen} would need a larger workspace"
    return (Choice("algorithm", str(job.algorithm), why), *job.planned())
