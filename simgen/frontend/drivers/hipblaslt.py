"""hipblaslt-bench: `hipblaslt-bench -m 1024 -n 512 -k 1024 --transA N --a_type f16_r ...`.

What hipBLASLt logs with HIPBLASLT_LOG_MASK=32 are such lines. Matrices have no gaps in simgen, as
of rocblas-bench. Types that are not given are f16_r. A bias that the same kernel adds is left out;
activations and scales are refused.

Source: the tuning guide of hipBLASLt (docs/how-to/how-to-use-hipblaslt-offline-tuning.rst), whose
lines these are; log_bench in library/src/amd_detail/rocblaslt.
"""

from __future__ import annotations

from simgen.errors import UsageError
from simgen.frontend.drivers.base import NARROW_SUMS, Driver, read_options, value_in
from simgen.frontend.drivers.rocblas import (
    NAMES,
    RESULTS,
    TRANSPOSED,
    element_type,
    packed,
    spellings,
    strides,
)
from simgen.frontend.operation import GemmOperation, LibraryOperation

# Options without a value: of measuring; a bias; and what changes the result.
FLAGS = (
    *("any_stride", "flush", "print_kernel_info", "use_gpu_timer", "c_equal_d", "verify", "HMM"),
    *("log_function_name", "use_user_args"),
)
BIAS = ("bias_vector",)
OTHERS = (
    *("grouped_gemm", "gradient", "use_e", "scaleAlpha_vector", "amaxD", "swizzleA", "swizzleB"),
    *("amaxScaleA", "amaxScaleB", "scaleC", "scaleD"),
)
PLAIN = (
    *("transA", "transB", "alpha", "beta", "batch_count", "compute_type", "activation_type"),
    *(f"{each}_type" for each in "abcd"),
    *(f"ld{each}" for each in "abcd"),
    *(f"stride_{each}" for each in "abcd"),
    *(f"scale{each}" for each in "AB"),
    *(f"compute_input_type{each}" for each in "AB"),
)
MEASURED = (
    *("api_method", "algo_method", "solution_index", "requested_solution", "scale_type"),
    *("bias_type", "bias_source", "aux_type", "initialization", "iters", "i", "cold_iters", "j"),
    *("rotating", "workspace", "device", "splitk", "wgm", "lde", "stride_e", "function_filter"),
    *("activation_arg1", "activation_arg2"),
)


class HipblasltBench(Driver):
    name = "hipblaslt"
    program = "hipblaslt-bench"

    def read(self, words: list[str], program: str) -> LibraryOperation:
        for flag in OTHERS:
            if f"--{flag}" in words:
                fact = f"--{flag} is given, which no layer has"
                raise UsageError(f"{self.program}: {fact}; leave it out")
        flags = {"-v", *(f"--{flag}" for flag in (*FLAGS, *BIAS))}
        rest = [word for word in words if word not in flags]
        given = read_options(rest, spellings(PLAIN, MEASURED), self.program)
        given.only("-f", ("matmul",), "it has matmul alone")
        given.only("--activation_type", ("none",), "let a layer of its own follow")
        for each in "AB":
            given.only(f"--scale{each}", ("0",), "scales are not read; leave them out")
            given.only(f"--compute_input_type{each}", (), "factors are not cast; leave it out")
        m, n, k = (given.whole(name) for name in ("-m", "-n", "-k"))
        ta, tb = (given.one_of(f"--trans{each}", TRANSPOSED) for each in "AB")
        given.found["-r"] = given.text("-r").lower()
        given.found["--compute_type"] = given.text("--compute_type").removeprefix("c_")
        dtype = element_type(given)
        batch = given.whole("--batch_count")
        shapes = {"a": (k, m) if ta else (m, k), "b": (n, k) if tb else (k, n)}
        for each, (tall, wide) in {**shapes, "c": (m, n), "d": (m, n)}.items():
            packed(given, f"--ld{each}", tall)
            if batch > 1:
                raised = "--any_stride" not in words
                packed(given, f"--stride_{each}", tall * wide, raised=raised)
        alpha, beta = given.number("--alpha"), given.number("--beta")
        return GemmOperation(m, n, k, ta, tb, batch, alpha, beta, dtype)

    def notes(self, words: list[str]) -> tuple[str, ...]:
        biased = any(f"--{flag}" in words for flag in BIAS)
        left = ("the bias that --bias_vector adds is left out",) if biased else ()
        narrow = value_in(words, "--compute_type").removeprefix("c_") == "f16_r"
        return (*left, *((NARROW_SUMS,) if narrow else ()))

    def lines(self, operation: LibraryOperation) -> list[str]:
        if not isinstance(operation, GemmOperation):
            raise self.cannot(f"line for {operation.title}")
        return [f"{self.program} {_text(operation)}"]


def _text(gemm: GemmOperation) -> str:
    first, last = NAMES[gemm.type], NAMES[RESULTS[gemm.type]]
    sums = NAMES["i32" if gemm.type == "i8" else "f32"]
    lda, ldb = (gemm.k if gemm.ta else gemm.m), (gemm.n if gemm.tb else gemm.k)
    words = [f"-m {gemm.m} -n {gemm.n} -k {gemm.k} --lda {lda} --ldb {ldb}"]
    words += [f"--ldc {gemm.m} --ldd {gemm.m}"]
    words += strides(gemm)
    words += [f"--alpha {gemm.alpha!r} --beta {gemm.beta!r}"]
    words += [f"--transA {'NT'[gemm.ta]} --transB {'NT'[gemm.tb]} --batch_count {gemm.batch}"]
    words += [f"--a_type {first} --b_type {first} --c_type {last} --d_type {last}"]
    return " ".join([*words, f"--compute_type {sums}"])
