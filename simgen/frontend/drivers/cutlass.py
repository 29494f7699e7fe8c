"""cutlass_profiler: `cutlass_profiler --operation=Gemm --m=1024 --n=1024 --k=128 --A=f16:column`.

Which kernel of CUTLASS is profiled (`--kernels`, `--op_class`, `--cta_m`, ...) is passed over.
Matrices without a layout are by columns. Images are NHWC there; in simgen they lie as NCHW.

Source: gemm_operation_profiler.cu and conv2d_operation_profiler.cu of tools/profiler/src, and
media/docs/cpp/profiler.md of CUTLASS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simgen.errors import UsageError, did_you_mean
from simgen.frontend.drivers.base import MEASURING, Driver, GivenOptions, read_options
from simgen.frontend.operation import ConvOperation, FilterMode, GemmOperation
from simgen.ir import Pass

if TYPE_CHECKING:
    from simgen.frontend.operation import LibraryOperation

TYPES = {"f32": "f32", "f16": "f16", "bf16": "bf16", "s8": "i8"}
NAMES = {each: name for name, each in TYPES.items()}
RESULTS = {**{name: name for name in TYPES}, "s8": "s32"}
BY_COLUMNS = {"column": True, "col": True, "n": True, "row": False, "t": False}
KINDS = {
    "fprop": Pass.FORWARD,
    "dgrad": Pass.BACKWARD_DATA,
    "wgrad": Pass.BACKWARD_WEIGHT,
}
GEMM_TENSORS, CONV_TENSORS = ("A", "B", "C", "D"), ("Activation", "Filter", "Output")
GEMM = ("m", "n", "k", "alpha", "beta", "batch_count", *GEMM_TENSORS)
CONV = (
    *("n", "h", "w", "c", "k", "r", "s", "p", "q", "g", "pad_h", "pad_w"),
    *("stride_h", "stride_w", "dilation_h", "dilation_w", "conv_kind", "conv_mode"),
    *("alpha", "beta", *CONV_TENSORS),
)
KERNEL = (  # which one, how it is checked and timed, and where that is written
    *("accum", "accumulator-type", "op_class", "op-class", "kernels", "min_cc", "max_cc", "stages"),
    *(f"{part}_{axis}" for part in ("cta", "warps", "inst", "cluster") for axis in "mnk"),
    *("split_k_mode", "split_k_slices", "raster_order", "swizzle_size", "gemm_kind"),
    *("iterator_algorithm", "iterator_algo", "eq_gemm_provider", "mode", "device", "seed", "dist"),
    *("llc-capacity", "initialization", "initialization-provider", "library-algo-mode"),
    *("workspace-count", "profiling-iterations", "profiling-duration", "min-iterations"),
    *("warmup-iterations", "use-cuda-graphs", "sleep-duration", "profiling-enabled", "providers"),
    *("verification-enabled", "verification-providers", "verification-required", "epsilon"),
    *("nonzero-floor", "save-workspace", "append", "output", "junit-output", "report-not-run"),
    *("tags", "verbose", "sort-results", "print-kernel-before-running"),
)


class CutlassProfiler(Driver):
    name = "cutlass"
    program = "cutlass_profiler"

    def read(self, words: list[str], program: str) -> LibraryOperation:
        spelled = {f"--{name}": f"--{name}" for name in (*GEMM, *CONV, "operation")}
        spelled |= {f"--{name}": MEASURING for name in KERNEL}
        given = read_options(words, spelled, self.program, joined=True)
        readers = {"gemm": (GEMM, _gemm), "conv2d": (CONV, _conv)}
        operation = given.text("--operation", "").lower()
        if operation not in readers:
            cure = did_you_mean(operation, ("Gemm", "Conv2d"))
            raise UsageError(f"{self.program}: --operation is {operation!r}; {cure}")
        known, reader = readers[operation]
        for name in given.found.keys() - {f"--{each}" for each in (*known, "operation")}:
            raise given.refuse(name, f"{operation} has no such option; leave it out")
        return reader(given)

    def lines(self, operation: LibraryOperation) -> list[str]:
        if isinstance(operation, GemmOperation):
            return [f"{self.program} --operation=Gemm {_gemm_text(operation)}"]
        if not isinstance(operation, ConvOperation):
            raise self.cannot(f"line for {operation.title}")
        if operation.bias:
            raise self.cannot("convolution with a bias")
        kinds = [name for name, each in KINDS.items() if each in operation.passes]
        text = _conv_text(operation)
        return [f"{self.program} --operation=Conv2d --conv_kind={kind} {text}" for kind in kinds]


def _type(given: GivenOptions, tensors: tuple[str, ...], result: str) -> str:
    """The element type, if those of all tensors are what simgen gives them.

    Raises:
        UsageError: they are not.
    """
    first = given.text(f"--{tensors[0]}", "f32").partition(":")[0]
    if first not in TYPES:
        raise given.refuse(f"--{tensors[0]}", did_you_mean(first, TYPES))
    for name in tensors[1:]:
        wanted = RESULTS[first] if name >= result else first
        if given.text(f"--{name}", wanted).partition(":")[0] not in (wanted, "*"):
            raise given.refuse(f"--{name}", f"where --{tensors[0]} is {first}, write {wanted}")
    return TYPES[first]


def _by_columns(given: GivenOptions, name: str) -> bool:
    layout = given.text(f"--{name}", "f32:column").partition(":")[2] or "column"
    if layout not in BY_COLUMNS:
        raise given.refuse(f"--{name}", did_you_mean(layout, BY_COLUMNS))
    return BY_COLUMNS[layout]


def _gemm(given: GivenOptions) -> GemmOperation:
    dtype = _type(given, GEMM_TENSORS, "C")
    m, n, k = (given.whole(f"--{name}", 1024) for name in "mnk")
    ta, tb = (not _by_columns(given, name) for name in "AB")
    result = _by_columns(given, "C")
    if "--D" in given.found and _by_columns(given, "D") is not result:
        raise given.refuse("--D", "give it the layout of --C")
    if not result:  # by rows: the transposed problem by columns
        m, n, ta, tb = n, m, not tb, not ta
    alpha, beta = given.number("--alpha", 1.0), given.number("--beta", 0.0)
    return GemmOperation(m, n, k, ta, tb, given.whole("--batch_count", 1), alpha, beta, dtype)


def _gemm_text(gemm: GemmOperation) -> str:
    first = NAMES[gemm.type]
    layouts = [f"{first}:{('column', 'row')[each]}" for each in (gemm.ta, gemm.tb)]
    tensors = f"--A={layouts[0]} --B={layouts[1]} --C={RESULTS[first]}:column"
    scales = f"--alpha={gemm.alpha!r} --beta={gemm.beta!r} --batch_count={gemm.batch}"
    return f"--m={gemm.m} --n={gemm.n} --k={gemm.k} {tensors} {scales}"


def _conv(given: GivenOptions) -> ConvOperation:
    dtype = _type(given, CONV_TENSORS, "Output")
    for name in CONV_TENSORS:
        given.only(
            f"--{name}",
            [f"{word}{layout}" for word in ("*", *RESULTS, "s32") for layout in ("", ":nhwc")],
            "only nhwc is read",
        )
    for name, wanted in (("--alpha", 1.0), ("--beta", 0.0)):
        if given.number(name, wanted) != wanted:
            raise given.refuse(name, f"simgen's convolutions have {wanted:g}; leave it out")
    usual = {"n": 1, "h": 16, "w": 16, "c": 64, "k": 64, "r": 3, "s": 3}
    sizes: dict[str, Any] = {name: given.whole(f"--{name}", value) for name, value in usual.items()}
    sizes |= {name: given.whole(f"--{name}", 1, 0) for name in ("pad_h", "pad_w")}
    steps = [f"{name}_{axis}" for name in ("stride", "dilation") for axis in "hw"]
    sizes |= {name: given.whole(f"--{name}", 1) for name in steps}
    made = ConvOperation(
        **sizes,
        group=given.whole("--g", 1),
        mode=given.one_of("--conv_mode", {str(each): each for each in FilterMode}, "cross"),
        passes=(given.one_of("--conv_kind", KINDS, "fprop"),),
        type=dtype,
    )
    for name, extent in zip(("--p", "--q"), made.extents, strict=True):
        if given.whole(name, max(extent, 1)) != extent:
            raise given.refuse(name, f"pads and strides give {extent}; leave it out")
    return made


def _conv_text(conv: ConvOperation) -> str:
    keys = ("n", "h", "w", "c", "k", "r", "s", "pad_h", "pad_w", "stride_h", "stride_w")
    said = [f"--{key}={getattr(conv, key)}" for key in (*keys, "dilation_h", "dilation_w")]
    first = NAMES[conv.type]
    tensors = f"--Activation={first}:nhwc --Filter={first}:nhwc --Output={RESULTS[first]}:nhwc"
    return f"{' '.join(said)} --g={conv.group} --conv_mode={conv.mode} {tensors}"
