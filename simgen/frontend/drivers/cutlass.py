"""cutlass_profiler: `cutlass_profiler --operation=Gemm --m=1024 --n=1024 --k=128 --A=f16:column`.

cutlass_profiler runs every kernel that fits a line; the line stands for one of them here. Types are
f32 and matrices lie by columns, unless tensors say otherwise, or --kernels does by the names of
SGEMM and HGEMM and by nn, nt, tn and tt. Names of other kernels need --A. Other options that choose
a kernel (`--op_class`, `--cta_m`, ...) are passed over. Images are NHWC, and filters KRSC.

Source: gemm_operation_profiler.cu and conv2d_operation_profiler.cu of tools/profiler/src, and
media/docs/cpp/profiler.md of CUTLASS.
"""

from __future__ import annotations

import re
from typing import Any

from simgen.errors import UsageError, did_you_mean, printable
from simgen.frontend.drivers.base import (
    MEASURING,
    NARROW_SUMS,
    Driver,
    GivenOptions,
    read_options,
    value_in,
)
from simgen.frontend.drivers.defaults import DEFAULTS
from simgen.frontend.operation import ConvOperation, FilterMode, GemmOperation, LibraryOperation
from simgen.ground.ir import Pass
from simgen.layers.layout import FilterLayout, Layout

TYPES = {"f32": "f32", "f16": "f16", "bf16": "bf16", "s8": "i8"}
NAMES = {each: name for name, each in TYPES.items()}
RESULTS = {**{name: name for name in TYPES}, "s8": "s32"}
BY_COLUMNS = {"column": True, "col": True, "n": True, "row": False, "t": False}
KINDS = {
    "fprop": Pass.FORWARD,
    "dgrad": Pass.BACKWARD_DATA,
    "wgrad": Pass.BACKWARD_WEIGHT,
}
ALIASES = {  # how an option may be written too -> its name
    **{f"problem-size::{each}": each for each in "mnk"},
    **{f"epilogue::{each}": each for each in ("alpha", "beta")},
    **{f"input_{each}": each for each in "nhwc"},
    **{f"filter_{each}": each for each in "krs"},
    **{f"output_{each}": each for each in "pq"},
    "batch-count": "batch_count", "groups": "g",
}  # fmt: skip
GEMM_TENSORS, CONV_TENSORS = ("A", "B", "C", "D"), ("Activation", "Filter", "Output")
GEMM = ("m", "n", "k", "alpha", "beta", "batch_count", *GEMM_TENSORS)
CONV = (
    *("n", "h", "w", "c", "k", "r", "s", "p", "q", "g", "pad_h", "pad_w"),
    *("stride_h", "stride_w", "dilation_h", "dilation_w", "conv_kind", "conv_mode"),
    *("alpha", "beta", *CONV_TENSORS),
)
KERNEL = (  # which one, how it is checked and timed, and where that is written
    *("accum", "accumulator-type", "op_class", "op-class", "opcode-class", "min_cc", "max_cc"),
    *("stages", "threadblock-stages", "minimum-compute-capability", "maximum-compute-capability"),
    *(
        f"{part}::{axis}"
        for part in (
            "threadblock-shape",
            "cluster-shape",
            "warp-count",
            "instruction-shape",
            "cluster-shape-fallback",
        )
        for axis in "mnk"
    ),
    *(f"cluster_{axis}_fallback" for axis in "mnk"),
    *("raster-order", "swizzle-size", "split-k-mode", "split-k-slices", "use_pdl", "use-pdl"),
    *("eq-gemm-provider", "enable-best-kernel-for-fixed-shape", "kernels-file", "ignore-kernels"),
    *("compute-capability", "allocations", "library-algos", "device-info"),
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
        names = (*GEMM, *CONV, "operation", "kernels")
        spelled = {f"--{name}": f"--{name}" for name in names}
        spelled |= {f"--{alias}": f"--{name}" for alias, name in ALIASES.items()}
        spelled |= {f"--{name}": MEASURING for name in KERNEL}
        given = read_options(words, spelled, self.program, "cutlass_profiler gemm", joined=True)
        kernels = given.found.pop("--kernels", "").lower()
        readers = {"gemm": (GEMM, _gemm), "conv2d": (CONV, _conv)}
        operation = given.found.pop("--operation", "").lower()
        way = re.search(rf"gemm|{'|'.join(KINDS)}(?!3d)", kernels)
        if not operation and way:
            operation = "gemm" if way[0] == "gemm" else "conv2d"
        if operation == "conv2d" and way and way[0] in KINDS:
            given.found.setdefault("--conv_kind", way[0])
        if not operation:
            fact = "without --operation, it profiles every kind"
            cure = "add --operation=Gemm or --operation=Conv2d"
            raise UsageError(f"{self.program}: {fact}; {cure}")
        if operation not in readers:
            fact = f"--operation is {printable(operation)}"
            raise UsageError(f"{self.program}: {fact}; simgen reads Gemm and Conv2d")
        known, reader = readers[operation]
        for name in given.found.keys() - {f"--{each}" for each in known}:
            raise given.refuse(name, f"{operation} has no such option; leave it out")
        given.usual = DEFAULTS[f"{self.program} {operation}"].values
        first = GEMM_TENSORS[0] if operation == "gemm" else CONV_TENSORS[0]
        if kernels not in ("", "*", "all"):
            _fill_in(given, kernels, first)
        return reader(given)

    def notes(self, words: list[str]) -> tuple[str, ...]:
        narrow = value_in(words, "--accum", "--accumulator-type") == "f16"
        said = (NARROW_SUMS,) if narrow else ()
        if any(word.startswith(("--A=", "--Activation=", "--kernels=")) for word in words):
            return said
        return ("cutlass_profiler runs kernels of every type that fits; this is f32", *said)

    def by_rows(self, words: list[str]) -> bool:
        return value_in(words, "--C").endswith((":row", ":t"))

    def lines(self, operation: LibraryOperation) -> list[str]:
        if isinstance(operation, GemmOperation):
            return [f"{self.program} --operation=Gemm {_gemm_text(operation)}"]
        if not isinstance(operation, ConvOperation):
            raise self.cannot(f"line for {operation.title}")
        if operation.bias:
            raise self.cannot("convolution with a bias")
        layouts = (operation.layout, operation.filter_layout)
        if layouts != (Layout.NHWC, FilterLayout.KRSC):
            raise self.cannot("convolution of NCHW images and KCRS filters")
        kinds = [name for name, each in KINDS.items() if each in operation.passes]
        text = _conv_text(operation)
        return [f"{self.program} --operation=Conv2d --conv_kind={kind} {text}" for kind in kinds]


def _fill_in(given: GivenOptions, kernels: str, tensor: str) -> None:
    """What the names of kernels say of factors, where their tensors do not.

    Raises:
        UsageError: they do not tell the type either.
    """
    type_, _, layout = given.text(f"--{tensor}").partition(":")
    if type_ in ("", "*"):
        found = re.search(r"(?:^|[^a-z0-9])(s|h\d*)(?:gemm|fprop|dgrad|wgrad)", kernels)
        if not found:
            fact = f"--kernels is {printable(kernels)}, which may be of several types"
            raise UsageError(f"{given.place}: {fact}; add --{tensor}=f16, or another type")
        given.found[f"--{tensor}"] = f"{'f32' if found[1] == 's' else 'f16'}:{layout}"
    order = re.search(r"_([nt])([nt])(?![a-z0-9])", kernels)
    for name, letter in zip("AB", order.groups() if order and tensor == "A" else ()):
        type_, _, layout = given.text(f"--{name}").partition(":")
        given.found[f"--{name}"] = f"{type_ or '*'}:{layout or letter}"


def _type(given: GivenOptions, tensors: tuple[str, ...], result: str) -> str:
    """The element type, if those of all tensors are what simgen gives them.

    Raises:
        UsageError: they are not.
    """
    first = given.text(f"--{tensors[0]}").partition(":")[0]
    first = "f32" if first in ("", "*") else first
    if first not in TYPES:
        raise given.refuse(f"--{tensors[0]}", did_you_mean(first, TYPES))
    for name in tensors[1:]:
        wanted = RESULTS[first] if name >= result else first
        if given.text(f"--{name}").partition(":")[0] not in (wanted, "*", ""):
            raise given.refuse(f"--{name}", f"where --{tensors[0]} is {first}, write {wanted}")
    return TYPES[first]


def _by_columns(given: GivenOptions, name: str) -> bool:
    layout = given.text(f"--{name}").partition(":")[2]
    layout = "column" if layout in ("", "*") else layout
    if layout not in BY_COLUMNS:
        raise given.refuse(f"--{name}", did_you_mean(layout, BY_COLUMNS))
    return BY_COLUMNS[layout]


def _gemm(given: GivenOptions) -> GemmOperation:
    dtype = _type(given, GEMM_TENSORS, "C")
    m, n, k = (given.whole(f"--{name}") for name in "mnk")
    ta, tb = (not _by_columns(given, name) for name in "AB")
    result = _by_columns(given, "C")
    if "--D" in given.found and _by_columns(given, "D") is not result:
        raise given.refuse("--D", "give it the layout of --C")
    if not result:  # by rows: the transposed problem by columns
        m, n, ta, tb = n, m, not tb, not ta
    alpha, beta = given.number("--alpha"), given.number("--beta")
    return GemmOperation(m, n, k, ta, tb, given.whole("--batch_count"), alpha, beta, dtype)


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
            [f"{word}{layout}" for word in ("*", *RESULTS, "s32") for layout in ("", ":", ":nhwc")],
            "only nhwc is read",
        )
    for name, wanted in (("--alpha", 1.0), ("--beta", 0.0)):
        if given.number(name) != wanted:
            raise given.refuse(name, f"simgen's convolutions have {wanted:g}; leave it out")
    sizes: dict[str, Any] = {name: given.whole(f"--{name}") for name in "nhwckrs"}
    sizes |= {name: given.whole(f"--{name}", 0) for name in ("pad_h", "pad_w")}
    steps = [f"{name}_{axis}" for name in ("stride", "dilation") for axis in "hw"]
    sizes |= {name: given.whole(f"--{name}") for name in steps}
    made = ConvOperation(
        **sizes,
        group=given.whole("--g"),
        mode=given.one_of("--conv_mode", {str(each): each for each in FilterMode}),
        layout=Layout.NHWC,
        filter_layout=FilterLayout.KRSC,
        passes=(given.one_of("--conv_kind", KINDS),),
        type=dtype,
    )
    for name, extent in zip(("--p", "--q"), made.extents, strict=True):
        if name in given.found and given.whole(name) != extent:
            raise given.refuse(name, f"pads and strides give {extent}; leave it out")
    return made


def _conv_text(conv: ConvOperation) -> str:
    keys = ("n", "h", "w", "c", "k", "r", "s", "pad_h", "pad_w", "stride_h", "stride_w")
    said = [f"--{key}={getattr(conv, key)}" for key in (*keys, "dilation_h", "dilation_w")]
    first = NAMES[conv.type]
    tensors = f"--Activation={first}:nhwc --Filter={first}:nhwc --Output={RESULTS[first]}:nhwc"
    return f"{' '.join(said)} --g={conv.group} --conv_mode={conv.mode} {tensors}"
