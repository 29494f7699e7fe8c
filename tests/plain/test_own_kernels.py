"""What a description of a user's own kernels may say; its expressions; host code is left out."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib

import numpy as np
import pytest
from census import census
from command_line import ROOT, fails

from simgen.errors import ConfigError, MissingError, UsageError
from simgen.frontend import kernel_pieces, own_kernel, ptx_text, triton_text
from simgen.ground.dtypes import DType
from simgen.ground.ir import Distribution, Fill, Language, TensorSpec, from_json, to_json
from simgen.isa import cures, lacking
from simgen.kernels import own, triton
from simgen.layers.own import Definition, expression, inexact, layer
from simgen.layers.own.expression import ExpressionError
from simgen.tensors import random_values

EXAMPLES = sorted((ROOT / "examples" / "kernels").glob("*.toml"))
GOOD = """
source = "k.hip"
kernel = "scale"
inputs = { x = "f32[n, 2*n] uniform(-1, 1)" }
outputs = { y = "f32[n, 2*n]", count = "i32[4] constant(7)" }
scratch = { part = "f32[8]" }
args = ["x", "y", "count", "part", "i64 n", "f32 n / 4"]
items = [100, 3]
block = [16, 2]
lds = "4 * n"
parameters = { n = 6 }
reference = { y = "x * 2", count = "count + 1" }
"""


def described(tmp_path, text=GOOD, settings=()):
    (tmp_path / "k.hip").write_text("__global__ void scale(float* x) { }\nint main() { }\n")
    (tmp_path / "k.toml").write_text(text)
    return own_kernel.read_kernel_file(tmp_path / "k.toml", settings)


def test_a_description_becomes_tensors_kernels_and_launches(tmp_path):
    made = described(tmp_path, settings=[("n", "5")]).definition
    x, y, count, part = made.tensors
    assert (x.spec.shape, x.fill.distribution) == ((5, 10), Distribution.UNIFORM)
    assert (y.fill, count.fill.a, count.initial, part.fill) == (None, 7, "count_before", None)
    (kernel,), (launch,) = made.kernels, made.launches
    assert (kernel.block, kernel.extents, kernel.lds_nbytes) == (32, (16, 2, 1), 20)
    assert launch.grid == (7, 2, 1)
    assert launch.args == ("x", "y", "count", "part")
    quarter = int.from_bytes(np.float32(1.25).tobytes(), "little")
    assert [(v.at, v.nbytes, v.bits) for v in launch.values] == [(4, 8, 5), (5, 4, quarter)]
    assert from_json(Definition, to_json(made)) == made


def test_a_bundle_keeps_all_that_it_is_built_again_from(tmp_path):
    made = described(tmp_path)
    assert own_kernel.is_one(made.text)
    again = own_kernel.again(made.text, made.source, [("n", "9")])
    assert again.definition == described(tmp_path, settings=[("n", "9")]).definition


def test_loops_and_workspaces_in_lds(tmp_path):
    text = GOOD.replace('lds = "4 * n"\n', 'for = { i = "range(3)", j = "range(i)" }\n')
    text = text.replace('"i64 n", "f32 n / 4"', '"local 20", "i32 10 * i + j", "local n"')
    launches = described(tmp_path, text).definition.launches
    assert [launch.values[1].bits for launch in launches] == [10, 20, 21]
    assert [(v.bits, v.local) for v in launches[0].values] == [(0, True), (10, False), (32, True)]
    assert described(tmp_path, text).definition.kernels[0].lds_nbytes == 48


BAD = [
    ('source = "k.hip"', 'source = "k.txt"', "known: .hip"),
    ('source = "k.hip"', 'source = "gone.hip"', "cannot be read"),
    ('source = "k.hip"', "", "no source"),
    ('kernel = "scale"', 'kernel = "a; b"', "name a function"),
    ("block = [16, 2]", "block = [64, 64]", "1024 at most"),
    ("block = [16, 2]", "block = 0", "none of 1"),
    ("items = [100, 3]", "", "write grid"),
    ("items = [100, 3]", 'items = "n / 4"', "write //"),
    ("f32[n, 2*n] uniform", "g32[n, 2*n] uniform", "did you mean"),
    ("f32[n, 2*n] uniform(-1, 1)", "f32[n, 2*n] unifrom", "did you mean"),
    ("f32[n, 2*n] uniform(-1, 1)", "f32", "write it like"),
    ('"i64 n"', '"i8 1000"', "is no i8"),
    ('"i64 n"', '"i64 m"', "known: n"),
    ('"i64 n"', '"z"', "no tensor, and no number"),
    ('"part", ', "", "no launch has it"),
    ('"x * 2"', '"w * 2"', "no tensor or parameter"),
    ('"x * 2"', '"x *"', "is not an expression"),
    (', count = "count + 1"', "", "no reference for the output count"),
    ("parameters = { n = 6 }", "parameters = { n = '9**9**9' }", "too large"),
    ("lds = ", "lsd = ", "did you mean 'lds'?"),
    ("reference = {", "reference = [", "not TOML"),
    ("reference = {", "flops = -1\nreference = {", "flops is"),
    ('"x * 2"', '"x if x > 0 else 2"', "np.where"),
    ('"x * 2"', '"int"', "is no number"),
    ('"x * 2"', '"np.uint64(x)"', "no function 'uint64' here; cast with x.astype(int)"),
    ('"x * 2"', '"x.astype(np.float32)"', "np.float32: cast with x.astype(int)"),
    ("reference = {", "tolerance = 1\nreference = {", "no number from 0 to below 1"),
    ("n = 6", f"n = {'1' * 5000}", "not TOML"),
    ("uniform(-1, 1)", f"uniform(-1, {'1' * 400})", "too large"),
]


@census("old, new, words", BAD)
def test_what_cannot_be_is_refused_in_one_line(simgen, tmp_path, old, new, words):
    assert old in GOOD
    described(tmp_path)
    (tmp_path / "k.toml").write_text(GOOD.replace(old, new))
    fails(simgen("build k.toml --target host"), 2, words)
    assert not (tmp_path / "k").exists()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("sys.exit(0)", "it fails (SystemExit: 0)"),
        ("return x + 1j", "it returns no numbers for y"),
        ("return ['1'] * x.size", "it returns no numbers for y"),
    ],
)
def test_programs_that_return_no_numbers_are_refused(simgen, tmp_path, body, words):
    (tmp_path / "k.hip").write_text("__global__ void k(const float* x, float* y) { y[0] = x[0]; }")
    (tmp_path / "k.py").write_text(f"import sys\ndef f(x):\n    {body}\n")
    (tmp_path / "k.toml").write_text(
        'source = "k.hip"\ninputs = { x = "f32[4]" }\noutputs = { y = "f32[4]" }\n'
        'args = ["x", "y"]\nitems = 1\nblock = 1\nreference = "k.py:f"\ntolerance = 0\n'
    )
    fails(simgen("build k.toml --target host"), 2, words)
    assert not (tmp_path / "k").exists()


def test_no_layer_imitates_kernels_of_users(simgen, tmp_path):
    described(tmp_path)
    fails(simgen("new network k.toml -o m.dnnmark"), 2, "kernels of your own")


@pytest.mark.parametrize(
    ("language", "said", "cure"),
    [
        (
            Language.TRITON,
            "kernel s_k: v_rcp_f16_e32: it ends there; compile with -mllvm",
            "float32",
        ),
        (Language.TRITON, "kernel k: buffer_inv: it panics; keep arrays out", 'sem="relaxed"'),
        (Language.TRITON, "v_foo_b32: it panics; anything", "write the function without"),
        (Language.HIP, "kernel k: v_foo_b32: it panics; clear the sign bit", "clear the sign bit"),
        (Language.HIP, "kernel k: v_foo_b32: it panics; use fused()", "without what becomes that"),
        (Language.HIP, "kernel k: ds_max_rtn_u32: it ends; write it", "change global memory"),
        (
            Language.OPENCL,
            "kernel k: flat_load_dword: no; write it",
            "global memory or to LDS alone",
        ),
        (Language.HIP, "kernel k: v_rsq_f64_e32: no; write it", "functions of doubles in float32"),
        (Language.OPENCL, "kernel k: s_sendmsg (gfx90a): it ends; use --algo", "printf"),
        (Language.ASSEMBLY, "kernel k: s_foo: it ends; use --algo", "without what becomes that"),
        (Language.HIP, "kernel k: it takes 3 arguments; write 3 args", "write 3 args"),
        (None, "kernel k: s_foo: it ends; use --algo", "use --algo"),
    ],
)
def test_cures_are_for_the_kind_of_source(language, said, cure):
    fact, _, found = cures.fitting(said, language).rpartition("; ")
    assert fact == said.rpartition("; ")[0]
    assert cure in found


def test_whole_numbers_wrap_around_as_in_c():
    x = np.array([2_000_000_001, -7, 2**31 - 1])
    found = expression.evaluate("x * 2654435761", {"x": x})
    made = layer._values(found, TensorSpec((3,), DType.I32), 2.0**-24)
    assert made.value.tolist() == (x * 2654435761).astype(np.int32).tolist()


@pytest.mark.parametrize("option", ["--training", "--pass fwd", "--algo gemm", "--type f16"])
def test_options_of_layers_are_refused(simgen, tmp_path, option):
    described(tmp_path)
    fails(simgen(f"build k.toml --target host {option}"), 2, "kernels of your own")


def test_unknown_parameters_are_refused(simgen, tmp_path):
    described(tmp_path)
    fails(simgen("build k.toml --target host --set m=4"), 2, "--set 'm'", "known: n")


def test_expressions_of_another_shape_are_refused_before_anything_is_compiled(simgen, tmp_path):
    described(tmp_path)
    (tmp_path / "k.toml").write_text(GOOD.replace('"x * 2"', '"x[0]"'))
    fails(simgen("build k.toml --target host"), 2, "has shape (12,), and the output (6, 12)")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "x.__class__", "open('a')", "(lambda: 1)()", "[i for i in x]",
        "x.tofile('a')", "np.load('a')", "f'{x}'", "x if (y := 1) else 2",
        "np.ones((2**20, 2**20))",
        "2 ** 10000", "1 << 100000", "x.dtype", "'a' * 9",
    ],
)  # fmt: skip
def test_expressions_are_no_programs(text):
    with pytest.raises(ExpressionError):
        expression.evaluate(text, {"x": np.arange(4)})


FORMULAS = [
    "a + b * 3", "(a - b) / (a * a + 1)", "np.exp(a) * b", "np.sqrt(abs(a)) - b ** 3",
    "(a.reshape(8, 25) @ b.reshape(25, 8)).ravel()[:50].repeat(4)", "np.tanh(a + b)",
    "np.where(a > b, a * b, b)", "np.cumsum(a * b)", "a.mean() + np.maximum(a, b) + 0 * a.sum()",
    "np.sort(a * b)", "a.reshape(2, 100).sum(axis=1).repeat(100)", "np.log(a * a + 0.5)",
]  # fmt: skip


@pytest.mark.parametrize("formula", FORMULAS)
def test_float32_keeps_to_the_bounds_of_a_formula(formula):
    """Bounds that hold, and are not as wide as the values."""
    random = np.random.default_rng(1)
    given = {name: random.standard_normal(200).astype(np.float32) for name in "ab"}
    exact = {name: inexact.inexact_of(values) for name, values in given.items()}
    found = expression.evaluate(formula, exact)
    single = eval(formula, {"np": np, **given})
    assert np.all(np.abs(single - found.value) <= found.bound)
    assert np.median(found.bound) < 1e-3 * np.abs(found.value).max()


def test_host_code_is_left_out_line_for_line():
    text = """#include <hip/hip_runtime.h>
constexpr int SIZE = 8; // }
struct Pair { int a; int b; };
static std::vector<int> table = { 1, 2 };
template <int N> __device__ int twice(int x) { return "}"[0] ? 2 * x : N; }
namespace inner {
void host() { if (1) { puts("{"); } }
__global__ void kernel(int* x)
{
    x[0] = twice<SIZE>(x[0]); /* } */
}
}
int main() { inner::kernel<<<1, 1>>>(0); }
"""
    kept, variables = kernel_pieces.kernels_only(text)
    assert not variables
    assert kept.count("\n") == text.count("\n")
    lines = dict(enumerate(kept.split("\n"), 1))
    for at in (2, 3, 5, 6, 8, 10, 12):
        assert lines[at] == text.split("\n")[at - 1]
    assert not any(word in kept for word in ("std", "puts", "main"))


@pytest.mark.parametrize(
    ("text", "type_of", "names"),
    [
        ("__device__ float whole;", "typedef float simgen_type_whole;", ("whole",)),
        ("__constant__ float m[3][3];", "typedef float simgen_type_m[3][3];", ("m",)),
        ("static __device__ int count = 0;", "typedef int simgen_type_count;", ("count",)),
        (
            "__device__ int low, high[2];",
            "typedef int simgen_type_low, simgen_type_high[2];",
            ("low", "high"),
        ),
        ("__constant__ struct { int a; } m;", "typedef struct { int a; } simgen_type_m;", ("m",)),
        ("const __constant__ struct { int a; } m[2] = { { 1 }, { 2 } };", None, ()),
        ("__device__ int f(int x) { return x; }\n__device__ Op table[] = { f, &f };", None, ()),
        ("__constant__ const float table[2] = { 1, 2 };", None, ()),
        ("__device__ int twice(int x) { return 2 * x; }", None, ()),
        ("template <class T> __global__ void k(T* x) { __shared__ T y; }", None, ()),
        ("struct __device__ Pair { int a; };", None, ()),
    ],
)
def test_variables_of_the_whole_gpu_become_types(text, type_of, names):
    assert kernel_pieces.kernels_only(text) == (type_of or text, names)


WHOLE_FILE = """#include "gone.h"
using std::vector;
typedef std::vector<float> Many;
using Complex = std::complex<float>;
__device__ int low, high;
namespace cg = cooperative_groups;
__constant__ float mask[4];
__device__ unsigned tickets = 0;
struct Host { std::vector<int> v; __device__ int size() { return 1; } };
struct __align__(8) Pair { float a; __device__ float twice() { return 2 * a; } };
__device__ Host unused(Host h) { return h; }
__device__ float helper(Pair p) { return p.twice() + mask[1]; }
extern "C"
{
    void host(int);
}
__global__ void other(Host* h) { atomicAdd(&tickets, 1); }
__global__ void k(float* x) { Pair p; x[0] = helper(p); }
"""


def test_a_kernel_gets_what_it_needs_of_its_file():
    cut, variables = kernel_pieces.kernels_only(WHOLE_FILE)
    assert variables == ("low", "high", "mask", "tickets")
    kept = kernel_pieces.needed(cut, "k")
    for word in ("helper", "Pair", "simgen_type_mask[4]", "__global__ void k"):
        assert word in kept
    for word in ("Host", "tickets", "other", "unused", "host", "vector", "Complex", "low"):
        assert word not in kept
    assert kept.count("\n") == WHOLE_FILE.count("\n")
    assert "low, simgen_type_high" in kernel_pieces.needed(cut.replace("twice() +", "high +"), "k")
    assert 'extern "C"\n{' in kept
    assert kept.count("{") == kept.count("}")


def test_names_that_macros_make_keep_all():
    text = (
        "#define K(n) __global__ void k_##n(float* x) { x[0] = f(n); }\n"
        "__device__ int f(int x) { return x; }\nK(1)\n"
    )
    assert kernel_pieces.needed(text, "k_1") == text


@pytest.mark.parametrize(
    ("entry", "chosen"),
    [
        ("k<float, 128>", "_Z1kIfLi128EEvv"),
        ("k<float, 0x40u>", "_Z1kIfLi64EEvv"),
        ("k<unsigned int, -3>", "_Z1kIjLin3EEvv"),
        ("app::k<bool, true>", "_ZN3app1kIbLb1EEEvv"),
        ("k<Pair<int>, 4>", "_Z1kI4PairIiELi4EEvv"),
        ("k", "_Z1kv"),
        ("k<float>", ""),
    ],
)
def test_an_instance_of_a_template_is_told_by_its_arguments(entry, chosen):
    symbols = (
        "_Z1kIfLi128EEvv", "_Z1kIfLi64EEvv", "_Z1kIjLin3EEvv", "_ZN3app1kIbLb0EEEvv",
        "_ZN3app1kIbLb1EEEvv", "_Z1kI4PairIiELi4EEvv", "_Z1kv",
    )  # fmt: skip
    text = "".join(f"\t.amdhsa_kernel {each}\n" for each in symbols)
    if chosen:
        assert own.renamed(text, entry, "made") == text.replace(f" {chosen}\n", " made\n")
    else:
        with pytest.raises(UsageError, match="several kernels are called so"):
            own.renamed(text, entry, "made")


VARIABLES = """
source = "v.hip"
kernel = "k"
inputs = { mask = "f32[4]" }
outputs = { x = "f32[1]" }
args = ["x"]
items = 1
block = 64
reference = "mask[1]"
"""


def test_tensors_stand_for_variables_of_the_whole_gpu(simgen, tmp_path):
    (tmp_path / "v.hip").write_text(WHOLE_FILE)
    (tmp_path / "v.toml").write_text(VARIABLES)
    made = own_kernel.read_kernel_file(tmp_path / "v.toml", ()).definition
    assert made.launches[0].args == ("x", "mask")
    assert made.kernels[0].source.variables == ("mask",)
    (tmp_path / "v.toml").write_text(VARIABLES.replace("mask =", "mask2 =").replace("mask[1]", "0"))
    fails(simgen("build v.toml --target host"), 2, "give it as a tensor of this name")
    (tmp_path / "v.toml").write_text(VARIABLES)
    fails(simgen("build v.toml --target hip"), 4, "mask is a variable of the whole GPU")
    assert simgen("build v.toml --target cuda").code == 0
    text = (tmp_path / "v/cuda/own/k.cu").read_text()
    assert "simgen_type_mask *>(simgen_variable(0))" in text


@pytest.mark.parametrize(
    ("name", "text", "warp"),
    [
        ("k.cu", "#include <cuda_runtime.h>\n", 32),
        ("k.cu", '#include "hip/hip_runtime.h"\n', 64),
        ("k.cu", "int main() { hipFree(0); }\n", 64),
        ("k.hip", "", 64),
    ],
)
def test_warps_of_cuda_have_32_lanes(tmp_path, name, text, warp):
    (tmp_path / name).write_text(f"{text}__global__ void scale(float* x) {{ }}\n")
    (tmp_path / "k.toml").write_text(GOOD.replace("k.hip", name))
    made = own_kernel.read_kernel_file(tmp_path / "k.toml", ()).definition
    assert made.kernels[0].source.warp == warp


def test_structures_are_laid_out_as_in_c(tmp_path):
    text = GOOD.replace('"i64 n"', '"{ u8 1, i32 n, f64 0.5 }"')
    value = described(tmp_path, text).definition.launches[0].values[0]
    half = int.from_bytes(np.float64(0.5).tobytes(), "little")
    assert (value.nbytes, value.words) == (16, (1 | 6 << 32, half))


@pytest.mark.parametrize(
    ("source", "said", "contract"),
    [
        ("k.hip", "", "fast"), ("k.cu", "", "fast"), ("k.cl", "", "on"), ("k.cl", "fast", "fast"),
        ("k.hip", "off", "off"), ("k.cu", "on", "on"),
        ("k.hip", "slow", "contract is 'slow'; write one of fast, on, off, in quotes"),
        ("k.ptx", "off", "contract is of HIP, CUDA, OpenCL C, and fast or off of Triton; this is"),
    ],
)  # fmt: skip
def test_multiply_adds_are_fused_as_each_language_has_it(tmp_path, source, said, contract):
    text = "__kernel void scale(float *x) { }" if source == "k.cl" else "__global__ void scale() {}"
    (tmp_path / source).write_text(".entry scale() { ret; }" if source == "k.ptx" else text)
    toml = GOOD.replace('"k.hip"', f'"{source}"')
    (tmp_path / "k.toml").write_text(f'contract = "{said}"\n{toml}' if said else toml)
    if " " in contract:
        with pytest.raises(ConfigError, match=re.escape(contract)):
            own_kernel.read_kernel_file(tmp_path / "k.toml", ())
        return
    made = own_kernel.read_kernel_file(tmp_path / "k.toml", ())
    again = own_kernel.again(made.text, made.source, ())
    assert [k.source.contract for k in again.definition.kernels] == [contract]
    assert f"contract({contract})" in own.device_text(made.definition.kernels[0].source)


def test_defines_are_numbers_parameters_or_text(tmp_path):
    text = f'defines = {{ N = "n", T = "float2", M = 3 }}\n{GOOD}'
    made = described(tmp_path, text).definition
    assert made.kernels[0].source.defines == (("N", "6"), ("T", "float2"), ("M", "3"))


def test_values_of_bytes_are_all_there_are(tmp_path):
    text = GOOD.replace("f32[n, 2*n] uniform(-1, 1)", "u8[n]").replace('y = "x * 2"', 'y = "0"')
    fill = described(tmp_path, text).definition.tensors[0].fill
    assert (fill.a, fill.b) == (0, 256)


@pytest.mark.parametrize(
    ("kind", "usual", "whole"),
    [
        ("i8", (-128, 128), (-5, 6)), ("i16", (-128, 128), (-5, 6)),
        ("i64", (-32768, 32768), (-5, 6)),
        ("u8", (0, 256), (0, 6)), ("u16", (0, 256), (0, 6)), ("u32", (0, 65536), (0, 6)),
        ("u64", (0, 65536), (0, 6)),
    ],
)  # fmt: skip
def test_values_of_whole_numbers(tmp_path, kind, usual, whole):
    zero = GOOD.replace('y = "x * 2"', 'y = "0"')
    for values, ends in (("", usual), (" whole(5)", whole), (" constant(7)", (7, 8))):
        text = zero.replace("f32[n, 2*n] uniform(-1, 1)", f"{kind}[n]{values}")
        fill = described(tmp_path, text).definition.tensors[0].fill
        assert (fill.a, fill.b) == ends
        made = random_values.generate("x", TensorSpec((500,), DType.table[kind]), fill, 0)
        assert ends[0] <= made.min() <= made.max() < ends[1]
        assert made.dtype == DType.table[kind].array


def test_whole_numbers_of_all_their_bits():
    for kind, low, high in (("u32", 2**31, 2**32), ("i64", -(2**62), 2**62), ("u64", 0, 2**62)):
        spec = TensorSpec((1000,), DType.table[kind])
        made = random_values.generate("x", spec, Fill(Distribution.UNIFORM, low, high), 0)
        assert low <= int(made.min()) < low + (high - low) // 16
        assert high - (high - low) // 16 < int(made.max()) < high


def test_numbers_that_a_float_does_not_hold_are_refused(tmp_path):
    text = GOOD.replace("f32[n, 2*n] uniform(-1, 1)", "i64[n] constant(2**60 + 1)")
    with pytest.raises(ConfigError, match=r"more than 53 bits; give such values with --values"):
        described(tmp_path, text)


def test_numbers_with_signs_and_without_do_not_become_floats():
    large, signed = np.array([2**63 + 1], np.uint64), np.array([-1])
    known = {"large": large, "signed": signed}
    assert expression.evaluate("large >> 3", known)[0] == 2**60
    with pytest.raises(ExpressionError, match="no type for both"):
        expression.evaluate("large + signed", known)


def test_lists_of_values_are_summed():
    x = np.arange(12).reshape(3, 4)
    known = {"x": x, "n": 2}
    found = expression.evaluate(
        "sum([x[i, j:j + n] for i in range(3) for j in range(3) if i])", known
    )
    assert np.array_equal(found, sum(x[i, j : j + 2] for i in (1, 2) for j in range(3)))
    assert expression.names("sum([x[i] for i in range(n)])") - expression.PLAIN == {"x", "n"}
    for large in ("arange(2**28 + 1)", "zeros((2**15, 2**14))", "eye(2**15)"):
        with pytest.raises(ExpressionError, match="takes too much memory"):
            expression.evaluate(large, {})
    with pytest.raises(ExpressionError, match="rounds"):
        expression.evaluate("[i for i in range(200) for j in range(200)]", {})


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ("use of undeclared identifier 'printf'; did you mean 'rintf'?", "; kernels print nothing"),
        ("use of undeclared identifier 'hipcub'", "; CUB, Thrust and rocPRIM are not here"),
        ("unknown type name 'hipTextureObject_t'", "; textures and surfaces are not here"),
        ("unknown type name 'real'", "; bring what it includes and is not beside it: gone.h"),
        ("expected ';'", "; correct it"),
    ],
)
def test_what_a_compiler_lacks_has_a_cure(said, cure):
    source = '#pragma simgen_not_there "gone.h"\n'
    found = lacking.message(said, source)
    assert cure in found
    assert "did you mean" not in found


def test_triton_imports_in_branches_are_kept():
    text = (
        "import triton\nif new():\n    try:\n"
        "        from triton.language.extra.libdevice import rsqrt\n"
        "    except ImportError:\n        from triton.language.math import rsqrt\n"
    )
    kept = [line for line in triton_text.kernels_only(text).split("\n") if line]
    assert kept == ["import triton", "from triton.language.math import rsqrt"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_understood(path):
    assert own_kernel.read_kernel_file(path, ()).definition.launches


TRITON = """import torch
import triton
import triton.language as tl

LOG2E: tl.constexpr = 1.4426950408889634
DEVICE = torch.device("cuda")


def is_hip():
    return True


@triton.autotune(
    configs=[triton.Config({"SIZE": 64})],
    key=["n"],
)
@triton.jit(do_not_specialize=["shift"])
def scale(x, y, n, step, shift, factor, SIZE: tl.constexpr, ACTIVE: tl.constexpr = None):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(y + at * step, factor * tl.load(x + at, at < n) + shift, at < n)


@triton.jit
def helper(x):
    return x


if __name__ == "__main__":
    scale[(1,)](1)
"""
OF_TRITON = """
source = "k.py"
kernel = "scale"
inputs = { x = "f16[n]" }
outputs = { y = "f32[n]" }
args = ["x", "y", "i32 n", "i32 step", "i32 1", "f32 2"]
constexprs = { SIZE = "n // 2" }
grid = 2
num_warps = 2
parameters = { n = 256, step = 1 }
reference = "x * 2 + 1"
"""


def of_triton(tmp_path, text=OF_TRITON, settings=()):
    (tmp_path / "k.py").write_text(TRITON)
    (tmp_path / "k.toml").write_text(text)
    return own_kernel.read_kernel_file(tmp_path / "k.toml", settings)


def test_a_triton_function_is_specialised_as_triton_does(tmp_path):
    made = of_triton(tmp_path).definition
    (kernel,), (launch,) = made.kernels, made.launches
    build = kernel.source.triton
    assert (kernel.block, launch.grid, build.warps, build.stages) == (128, (2, 1, 1), 2, 2)
    assert dict(build.signature) == {
        "x": "*fp16", "y": "*fp32", "n": "i32", "step": "constexpr", "shift": "i32",
        "factor": "fp32", "SIZE": "constexpr", "ACTIVE": "constexpr",
    }  # fmt: skip
    assert dict(build.constants) == {"step": "1", "SIZE": "128", "ACTIVE": "None"}
    assert build.multiples == ("x", "y", "n")
    assert [(v.at, v.bits) for v in launch.values] == [(2, 256), (3, 1), (4, 0x40000000)]
    assert from_json(Definition, to_json(made)) == made
    (other,) = of_triton(tmp_path, settings=[("step", "3"), ("n", "40")]).definition.kernels
    assert (other.source.triton.multiples, len(other.source.triton.constants)) == (("x", "y"), 2)


def test_of_a_triton_file_functions_and_constants_are_kept(tmp_path):
    (kernel,) = of_triton(tmp_path).definition.kernels
    kept, lines = kernel.source.text.split("\n"), TRITON.split("\n")
    assert len(kept) == len(lines)
    assert all(each in ("", line) for each, line in zip(kept, lines))
    assert all(each in kernel.source.text for each in ("LOG2E", "@triton.jit(do_not"))
    assert not any(
        word in kernel.source.text for word in ("torch", "is_hip", "autotune", "Config", "__name__")
    )


BAD_TRITON = [
    ('kernel = "scale"', 'kernel = "scala"', "did you mean 'scale'?"),
    ('kernel = "scale"', "", "scale, helper"),
    ('constexprs = { SIZE = "n // 2" }', "", "no value for its constexpr SIZE"),
    ("SIZE =", "SIZES =", "did you mean 'SIZE'?"),
    ('SIZE = "n // 2"', 'SIZE = "m"', "constexpr SIZE"),
    ('SIZE = "n // 2"', "SIZE = [1]", "constexpr SIZE"),
    ("grid = 2", "grid = 0", "none of 1"),
    ("grid = 2", "items = 2", "write grid"),
    ("grid = 2", "grid = 2\nblock = 64", "num_warps"),
    ("num_warps = 2", "num_warps = 3", "power of two"),
    ("num_warps = 2", "num_warps = 64", "1 to 16"),
    ("num_warps = 2", "num_stages = 0", "1 to 16"),
    (', "f32 2"', "", "it takes 6 arguments beside constexprs"),
    ('"f32 2"', '"local 64"', "local is of OpenCL"),
]


@pytest.mark.parametrize(
    ("old", "new", "words"), BAD_TRITON, ids=[(new or old)[:60] for old, new, _ in BAD_TRITON]
)
def test_what_a_triton_function_cannot_be_is_refused(simgen, tmp_path, old, new, words):
    assert old in OF_TRITON
    of_triton(tmp_path)
    (tmp_path / "k.toml").write_text(OF_TRITON.replace(old, new))
    fails(simgen("build k.toml --target mgpusim --arch gfx942"), 2, words)
    assert not (tmp_path / "k").exists()


def test_python_that_is_none_is_refused_with_its_line(simgen, tmp_path):
    of_triton(tmp_path)
    (tmp_path / "k.py").write_text(TRITON.replace("def helper(x):", "def helper(x:"))
    fails(simgen("build k.toml --target mgpusim --arch gfx942"), 2, "the source, line 24")


def test_targets_without_triton_say_so(simgen, tmp_path):
    of_triton(tmp_path)
    fails(simgen("build k.toml --target host"), 4, "runs no triton")
    words = "Triton compiles nothing for gfx803"
    fails(simgen("build k.toml --target mgpusim --arch gfx803"), 4, words)


def test_keys_of_triton_are_of_triton(simgen, tmp_path):
    described(tmp_path)
    (tmp_path / "k.toml").write_text(GOOD.replace("lds =", "num_warps = 2\nlds ="))
    fails(simgen("build k.toml --target host"), 2, "num_warps is of Triton functions")


@pytest.mark.parametrize("found", [None, "2.3.1", "3.8.0", "3.10.0"])
def test_triton_of_another_version_is_missing(tmp_path, monkeypatch, found):
    def version(name):
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(importlib.metadata, "version", version)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (brought,) = project["optional-dependencies"]["triton"]
    cure = f"; install it: python -m pip install '{brought}'"
    with pytest.raises(MissingError, match=f"{re.escape(cure)}$"):
        triton.version()


def test_a_bundle_does_not_compile_triton_by_itself(tmp_path):
    made = of_triton(tmp_path)
    with pytest.raises(ConfigError, match="which a bundle does not execute"):
        own_kernel.again(made.text, made.source, ())


def test_a_triton_kernel_has_its_lds_and_nothing_behind_its_arguments():
    text = """\t\t.amdhsa_group_segment_fixed_size 0
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .address_space:  global
        .value_kind:     global_buffer
      - .offset:         8
        .value_kind:     by_value
      - .address_space:  global
        .value_kind:     global_buffer
      - .offset:         24
        .value_kind:     hidden_block_count_x
    .group_segment_fixed_size: 0
"""
    made = triton.with_its_own(text, 4096, 2)
    kinds = ["global_buffer", "by_value", "hidden_none", "hidden_block_count_x"]
    assert re.findall(r"value_kind: +(\w+)", made) == kinds
    assert re.findall(r"segment_fixed_size:? (\d+)", made) == ["4096", "4096"]


PTX = """.version 7.0
.target sm_52
.address_size 64
.visible .entry twice(.param .u64 x, .param .u64 y)
{
    .reg .b64 %a<5>;
    .reg .b32 %i;
    .reg .f32 %v;
    ld.param.u64 %a1, [x];
    ld.param.u64 %a2, [y];
    mov.u32 %i, %tid.x;
    mul.wide.u32 %a3, %i, 4;
    add.u64 %a1, %a1, %a3;
    add.u64 %a2, %a2, %a3;
    ld.global.f32 %v, [%a1];
    add.f32 %v, %v, %v;
    st.global.f32 [%a2], %v;
    ret;
}
"""
OF_PTX = """
source = "k.ptx"
kernel = "twice"
inputs = { x = "f32[64]" }
outputs = { y = "f32[64]" }
args = ["x", "y"]
grid = 1
block = 64
reference = "2 * x"
"""


def test_ptx_goes_to_nvidia_gpus_as_it_is(simgen, tmp_path):
    (tmp_path / "k.ptx").write_text(PTX)
    (tmp_path / "k.toml").write_text(OF_PTX)
    fails(simgen("build k.toml --target mgpusim"), 4, "runs no ptx")
    assert simgen("build k.toml --target cuda").code == 0
    assert (tmp_path / "k/cuda/own/twice.ptx").read_text() == PTX
    (tmp_path / "k.toml").write_text(OF_PTX.replace('kernel = "twice"', 'kernel = "twise"'))
    fails(simgen("build k.toml --target cuda -o other"), 2, "did you mean 'twice'?")


BAD_PTX = [
    (
        'args = ["x", "y"]',
        'args = ["x"]',
        "twice takes 2 arguments (k.ptx, line 4), and args has 1",
    ),
    ('args = ["x", "y"]', 'args = ["x", "y", "i32 3"]', "args has 3; write 2"),
    ('args = ["x", "y"]', 'args = ["x", "i32 3"]', ".param y has 8 bytes (k.ptx, line 4), and i32"),
    ('args = ["x", "y"]', 'args = ["x", "local 64"]', "local is of OpenCL"),
    (
        ".param .u64 y",
        "/* , */ .param\n.align 4 .b8 y[12]",
        ".param y has 12 bytes (k.ptx, line 4)",
    ),
    (".param .u64 y", "\n.param .u32 y", "(k.ptx, line 5), and the tensor y is an address of 8;"),
    (".param .u64 y", ".param .texref y", "line 4: .param y is a texref"),
    (".param .u64 y", ".param .u6 y", "line 4: '.param .u6 y' is no parameter of a kernel"),
    ("(.param .u64 x, .param .u64 y)", "", "takes 0 arguments"),
]


@pytest.mark.parametrize(
    ("old", "new", "words"), BAD_PTX, ids=[new[:60] or "none" for _, new, _ in BAD_PTX]
)
def test_arguments_that_are_not_those_of_the_ptx(simgen, tmp_path, old, new, words):
    assert (old in PTX) != (old in OF_PTX)
    (tmp_path / "k.ptx").write_text(PTX.replace(old, new))
    (tmp_path / "k.toml").write_text(OF_PTX.replace(old, new))
    fails(simgen("build k.toml --target cuda"), 2, words)
    assert not (tmp_path / "k").exists()


def test_parameters_that_compilers_write():
    """As clang, nvcc and Triton do; of the kernel that is asked for."""
    text = """/* .entry k(.param .u8 no) */
.visible .entry a(.param .u32 a_0) { ret; }
.weak .entry k$1 // (.param .u8 no)
( .param .u64 .ptr .global .align 16 k_0,
  .param .align 8 .b8 k_1[24], .param .b16 k_2 ,
  .param .f32 k_3, .param .f16x2 %k_4 )
.maxntid 128, 1, 1 { ret; }
"""
    assert ptx_text.entries(text) == ["a", "k$1"]
    found = ptx_text.parameters(text, "k$1", "")
    assert [(each.nbytes, each.line) for each in found] == [(8, 4), (24, 5), (2, 5), (4, 6), (4, 6)]


def test_cpp_goes_to_nvidia_gpus_behind_names_of_hip(simgen, tmp_path):
    described(tmp_path)
    assert simgen("build k.toml --target cuda").code == 0
    text = (tmp_path / "k/cuda/own/scale.cu").read_text()
    assert "hipThreadIdx_x threadIdx.x" in text
    assert "main" not in text.split('#line 1 "source.cu"')[1]
    fails(simgen("build k.toml --target cuda --l1 bypass -o other"), 4, "leave --l1 out")
