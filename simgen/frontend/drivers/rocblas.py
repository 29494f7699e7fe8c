"""rocblas-bench: `rocblas-bench -f gemm_ex --transposeA N -m 1024 -n 1024 -k 1024 --a_type f16_r`.

What rocBLAS logs with ROCBLAS_LAYER=2 are such lines. Matrices have no gaps in simgen: leading
dimensions and strides that rocblas-bench raises to the least that is possible are taken as that,
and others are refused. That holds for its defaults too, 128 and 128 * 128. Sums are of type f32,
whatever --compute_type says of f16, which a note says. Unless --outofplace is given, d is c.

Source: main of clients/benchmarks/client.cpp of rocBLAS; its example of gemm_ex.
"""

from __future__ import annotations

from collections.abc import Iterable

from simgen.errors import UsageError
from simgen.frontend.drivers.base import (
    MEASURING,
    NARROW_SUMS,
    Driver,
    GivenOptions,
    read_options,
    value_in,
)
from simgen.frontend.operation import GemmOperation, LibraryOperation

RESULTS = {"f32": "f32", "f16": "f16", "bf16": "bf16", "i8": "i32"}  # type of a, b -> of c, d
NAMES = {each: f"{each}_r" for each in (*RESULTS, "i32")}
TYPES = {name: each for each, name in NAMES.items()} | {"s": "f32", "h": "f16"}
FUNCTIONS = ("gemm", "gemm_ex", "gemm_strided_batched", "gemm_strided_batched_ex")
TRANSPOSED = {"N": False, "T": True, "C": True}  # real numbers are their own conjugates
SAYING = {"function": "f", "precision": "r", "sizem": "m", "sizen": "n", "sizek": "k"}
PLAIN = (
    *("transposeA", "transposeB", "alpha", "beta", "batch_count", "compute_type"),
    *(f"{each}_type" for each in "abcd"),
    *(f"ld{each}" for each in "abcd"),
    *(f"stride_{each}" for each in "abcd"),
)
MEASURED = (
    *("initialization", "iters", "i", "cold_iters", "j", "verify", "v", "test", "t"),
    *("algo", "solution_index", "flags", "device", "parallel_devices", "workspace", "api"),
    *("use_hipblaslt", "math_mode", "flush_batch_count", "flush_memory_size"),
    *("function_filter", "name_filter", "geam_ex_op", "composite_compute_type", "init"),
    # what products of real numbers have not
    *("alphai", "betai", "kl", "ku", "incx", "incy", "stride_x", "stride_y"),
    *("side", "uplo", "diag"),
)
FLAGS = (  # without a value, and of measuring
    *("any_stride", "outofplace", "fortran", "atomics_allowed", "atomics_not_allowed"),
    *("log_function_name", "log_datatype", "z", "HMM"),
)


class RocblasBench(Driver):
    name = "rocblas"
    program = "rocblas-bench"

    def read(self, words: list[str], program: str) -> LibraryOperation:
        flags = {f"-{'-' * (len(name) > 1)}{name}" for name in FLAGS}
        rest = [word for word in words if word not in flags]
        given = read_options(rest, spellings(PLAIN, MEASURED), self.program)
        function = given.one_of("-f", {name: name for name in FUNCTIONS})
        m, n, k = (given.whole(name) for name in ("-m", "-n", "-k"))
        ta, tb = (given.one_of(f"--transpose{each}", TRANSPOSED) for each in "AB")
        batch = given.whole("--batch_count")
        if batch > 1 and "batched" not in function:
            cure = f"{function} takes 1; write -f gemm_strided_batched_ex"
            raise given.refuse("--batch_count", cure)
        given.found["-r"] = given.text("-r").lower()
        separate = "--outofplace" in words
        if not separate:
            for name in ("d_type", "ldd", "stride_d"):
                given.found.pop(f"--{name}", None)
            given.found["--d_type"] = given.text("--c_type") or given.text("-r")
        dtype = element_type(given)
        shapes = {"a": (k, m) if ta else (m, k), "b": (n, k) if tb else (k, n), "c": (m, n)}
        for each, (tall, wide) in {**shapes, **({"d": (m, n)} if separate else {})}.items():
            packed(given, f"--ld{each}", tall)
            if batch > 1:
                raised = each in "cd" and "--any_stride" not in words
                packed(given, f"--stride_{each}", tall * wide, raised=raised)
        alpha, beta = given.number("--alpha"), given.number("--beta")
        return GemmOperation(m, n, k, ta, tb, batch, alpha, beta, dtype)

    def notes(self, words: list[str]) -> tuple[str, ...]:
        return (NARROW_SUMS,) if value_in(words, "--compute_type") in ("f16_r", "h") else ()

    def lines(self, operation: LibraryOperation) -> list[str]:
        if not isinstance(operation, GemmOperation):
            raise self.cannot(f"line for {operation.title}")
        return [f"{self.program} {_text(operation)}"]


def spellings(plain: Iterable[str], measured: Iterable[str]) -> dict[str, str]:
    """How options are written -> the name of messages: the short one, if there is one."""
    found: dict[str, str] = {}
    for long, short in SAYING.items():
        found |= {f"--{long}": f"-{short}", f"-{short}": f"-{short}"}
    found |= {f"--{name}": f"--{name}" for name in plain}
    found["--batch"] = "--batch_count"
    return found | {f"-{'-' * (len(name) > 1)}{name}": MEASURING for name in measured}


def element_type(given: GivenOptions) -> str:
    """The element type, if those of all matrices are what simgen gives them.

    Raises:
        UsageError: they are not.
    """
    names = (*(f"--{each}_type" for each in "abcd"), "--compute_type")
    usual = "" if all(given.text(name) for name in names) else given.text("-r")
    if usual:
        given.one_of("-r", TYPES)
    for name in names:
        given.found[name] = given.text(name) or usual
    a, *others = (given.one_of(name, TYPES) for name in names)
    if a not in RESULTS:
        raise UsageError(f"{given.place}: a is of type {a}; take one of {', '.join(RESULTS)}")
    result, sums = RESULTS[a], ("i32",) if a == "i8" else ("f32", a)
    for name, found, wanted in zip(names[1:], others, ((a,), (result,), (result,), sums)):
        if found not in wanted:
            fact = f"{name} is {found}, where a is {a}"
            raise UsageError(f"{given.place}: {fact}; simgen has {wanted[0]} there")
    return a


def packed(given: GivenOptions, name: str, least: int, *, raised: bool = True) -> None:
    """Raises UsageError if matrices lie further apart than they have to, or in each other."""
    found = given.whole(name, 0)
    if found > least or (found < least and not raised):
        raise given.refuse(name, f"matrices have no gaps in simgen: write {name} {least}")


def _text(gemm: GemmOperation) -> str:
    function = "gemm_strided_batched_ex" if gemm.batch > 1 else "gemm_ex"
    first, last = NAMES[gemm.type], NAMES[RESULTS[gemm.type]]
    sums = NAMES["i32" if gemm.type == "i8" else "f32"]
    lda, ldb = (gemm.k if gemm.ta else gemm.m), (gemm.n if gemm.tb else gemm.k)
    words = [f"-f {function} --transposeA {'NT'[gemm.ta]} --transposeB {'NT'[gemm.tb]}"]
    words += [f"-m {gemm.m} -n {gemm.n} -k {gemm.k} --alpha {gemm.alpha!r}"]
    words += [f"--a_type {first} --lda {lda} --b_type {first} --ldb {ldb} --beta {gemm.beta!r}"]
    words += [f"--c_type {last} --ldc {gemm.m} --d_type {last} --ldd {gemm.m}"]
    words += [*strides(gemm), *([f"--batch_count {gemm.batch}"] if gemm.batch > 1 else [])]
    return " ".join([*words, f"--compute_type {sums}"])


def strides(gemm: GemmOperation) -> list[str]:
    """The options of a batch."""
    sizes = (gemm.m * gemm.k, gemm.k * gemm.n, gemm.m * gemm.n, gemm.m * gemm.n)
    pairs = zip("abcd", sizes, strict=True) if gemm.batch > 1 else ()
    return [f"--stride_{each} {size}" for each, size in pairs]
