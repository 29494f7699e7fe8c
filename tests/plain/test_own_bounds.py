"""Bounds of users' 16-bit kernels are those of float32 arithmetic, unless the text says otherwise.

The judges are kernels in NumPy's float32 with NumPy's conversions (benchmarks/own_bounds): a sample
of right ones passes, a sample of mutants does not. The benchmark runs 500 of each.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from command_line import ROOT, fails

from simgen.errors import ConfigError
from simgen.frontend import own_kernel
from simgen.frontend.narrow_text import rounds
from simgen.ground.dtypes import DType
from simgen.ground.ir import Pass
from simgen.ground.numerics import spread
from simgen.layers.own import OwnKernel, expression, inexact
from simgen.verdict.compare import Comparison
from simgen.verdict.verdict import Outcome, Verdict

sys.path.insert(0, str(ROOT / "benchmarks" / "own_bounds"))
import run as benchmark
from kernels import KERNELS, ORDERS, spoilt, total

TOML = """
source = "k.hip"
parameters = { n = 2048 }
inputs = { x = "f16[4, n]", w = "f16[n]" }
outputs = { y = "f16[4, n]" }
args = ["x", "w", "y", "i32 n", "f32 1e-5"]
grid = 4
block = 64
reference = "x / np.sqrt(np.mean(x ** 2, axis=1, keepdims=True) + 1e-5) * w"
"""
HIP = """
__global__ void k(const _Float16* x, const _Float16* w, _Float16* y, int n, float e) {
    float s = 0;
    for (int i = 0; i < n; i++) { float v = (float)x[i]; s += v * v; }
    y[0] = (_Float16)(s * e * (float)w[0]);
}
"""


def made(folder, toml=TOML, hip=HIP):
    (folder / "k.hip").write_text(hip)
    (folder / "k.toml").write_text(toml)
    return own_kernel.read_kernel_file(folder / "k.toml", ()).definition


def test_right_kernels_are_not_refused():
    counts, odd = benchmark.run(24, 5, mutants=False)
    assert not [each for each in odd if each[6] == "different"]
    assert sum(each["same"] for each in counts.values()) >= 18


def test_mutants_are_caught():
    _, odd = benchmark.run(22, 5, mutants=True)
    assert len(odd) <= 1, odd


@pytest.mark.parametrize("n", [2000, 2048, 100_000])
def test_the_type_of_storage_is_not_that_of_arithmetic(tmp_path, n):
    layer = OwnKernel(definition=made(tmp_path, TOML.replace("2048", str(n))))
    rng = np.random.default_rng(n)
    given = {"x": rng.normal(0, 1, (4, n)), "w": rng.normal(0, 1, n)}
    given = {name: values.astype(np.float16).astype(float) for name, values in given.items()}
    bound = layer.tolerance(given, Pass.FORWARD)["y"]
    right = layer.reference(given, Pass.FORWARD)["y"]
    assert (bound < (1e-4 if n < 10_000 else 1e-3) * np.abs(right)).mean() > 0.99
    narrow = OwnKernel(
        definition=made(tmp_path, TOML.replace("2048", str(n)) + 'accumulate = "f16"')
    )
    assert (narrow.tolerance(given, Pass.FORWARD)["y"] > 10 * bound).any()


COMPUTING = [
    ("s += (float)x[i] * (float)w[i]; y[i] = (_Float16)s;", False),
    ("float v = x[i]; y[i] = static_cast<_Float16>(v * s);", False),
    ("s += x[i] * w[i];", True),
    ("_Float16 s = 0;", True),
    ("y[i] = (_Float16)(s * r) * w[i];", True),
    ("y[i] = (_Float16)((float)(_Float16)s * r);", True),
    ("y[i] += s;", True),
    ("y[i] = __hmul(x[i], w[i]);", True),
]


@pytest.mark.parametrize(("body", "found"), COMPUTING, ids=[body for body, _ in COMPUTING])
def test_the_text_shows_what_is_rounded_on_the_way(body, found):
    text = f"__global__ void k(const _Float16 *x, const _Float16* w, _Float16* y) {{ {body} }}"
    assert rounds(text, "k", "f16") is found


def test_keys_say_what_is_computed_in(tmp_path):
    assert (made(tmp_path).accumulate, made(tmp_path).arithmetic) == ("", "")
    said = made(tmp_path, TOML + 'accumulate = "f16"')
    assert (said.accumulate, said.arithmetic) == ("f16", "f16")
    assert made(tmp_path, TOML + 'arithmetic = "bf16"').arithmetic == "bf16"
    assert made(tmp_path, TOML, HIP.replace("float v", "_Float16 v")).arithmetic == "f16"
    with pytest.raises(ConfigError, match="accumulate is 'i32'; write f16, bf16, f32 or f64"):
        made(tmp_path, TOML + 'accumulate = "i32"')


def test_what_overflows_on_the_way_has_no_bound():
    x = inexact.inexact_of(np.array([100.0, 1.0]))
    found = expression.evaluate("np.exp(x) / np.exp(x)", {"x": x})
    np.testing.assert_array_equal(np.isfinite(found.bound), [False, True])
    masked = expression.evaluate(
        "np.exp(np.where(m, x, -np.inf) - 100)", {"x": x, "m": [True, False]}
    )
    assert np.isfinite(masked.bound).all()
    assert masked.value[1] == 0


def test_another_order_is_said():
    """3 x + (x + 1) in float32, against 4 x + 1; in NumPy."""
    x = np.random.default_rng(1).normal(0, 1, 4000).astype(np.float32)
    found = np.float32(3) * x + (x + np.float32(1))
    expected = expression.evaluate("4 * x + 1", {"x": inexact.inexact_of(x.astype(float))})
    for off, outcome in ((0, Outcome.NOTHING), (1e-5, Outcome.DIFFERENT)):
        compared = Comparison(x.shape, by_reference=True)
        wrong = found + np.float32(off)
        compared.add(0, wrong, expected.value, expected.value, expected.bound)
        verdict = Verdict("k", "fwd", "k.y", compared, ())
        assert verdict.outcome is outcome
        said = "outside the bound of the reference's own order" in verdict.reasons[0]
        assert said == (outcome is Outcome.NOTHING)


ARGUMENTS = [
    ('"f32 1e-5"', '"i32 2"', "argument 5, 'i32 2', is no float, and k takes 'float e'"),
    ('"i32 n"', '"f32 n"', "argument 4, 'f32 n', is no integer, and k takes 'int n'"),
    ('"w", "y"', '"i64 3", "y"', "argument 2, 'i64 3', is a number, and k takes an address"),
    ('"y", "i32 n"', '"y", "w"', "argument 4, 'w', is a tensor, and k takes a number, 'int n'"),
]


@pytest.mark.parametrize(("old", "new", "words"), ARGUMENTS, ids=[new for _, new, _ in ARGUMENTS])
def test_numbers_of_another_kind_are_refused(simgen, tmp_path, old, new, words):
    (tmp_path / "k.hip").write_text(HIP)
    (tmp_path / "k.toml").write_text(TOML.replace(old, new))
    fails(simgen("build k.toml --target host"), 2, words)


WRITING = ["x[i] = 1;", "*x += 1;", "atomicAdd(&x[i], 1);", "auto* q = (float4*)x; q[i].x = 2;"]


@pytest.mark.parametrize("body", WRITING)
def test_a_kernel_that_writes_an_input_is_refused(tmp_path, body):
    text = HIP.replace("const _Float16* x", "_Float16* x").replace(
        "float s = 0;", body + " float s = 0;"
    )
    with pytest.raises(ConfigError, match="k writes x, an input; make it an output that holds"):
        made(tmp_path, hip=text)
    held = TOML.replace('inputs = { x = "f16[4, n]", ', "inputs = { ").replace(
        'outputs = { y = "f16[4, n]"', 'outputs = { y = "f16[4, n]", x = "f16[4, n] normal(0, 1)"'
    )
    said = 'reference = { y = "x * w", x = "x" }\n'
    made(tmp_path, held[: held.index("reference")] + said, text)


BF16 = DType.table["bf16"].array
TERMS = {
    "squares of bfloat16": lambda rng, n: np.square(
        rng.normal(0, 1, n).astype(BF16).astype(np.float32)
    ),
    "squares of float16": lambda rng, n: np.square(rng.normal(0, 1, n).astype(np.float16)),
    "exponentials": lambda rng, n: np.exp(rng.normal(0, 1, n)),
    "of both signs": lambda rng, n: rng.normal(0, 1, n),
    "one value": lambda _rng, n: np.full(n, 0.1),
}


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("n", [2000, 100_000])
def test_right_sums_of_any_order_are_within_what_is_counted(name, n):
    """The sums are NumPy's in float32; the right one is its sum in float64."""
    rng = np.random.default_rng(n)
    terms = np.float32(TERMS[name](rng, n))
    given = np.array([terms, rng.permutation(terms), np.sort(terms), np.sort(terms)[::-1]])
    mean, sigma = spread.any_order(np.float64(given), 6.0)
    found = np.array([[total(each, order) for order in ORDERS] for each in given], float)
    off = np.abs(found - np.sum(terms, dtype=float))
    assert (off.max(axis=1) <= mean + 4 * sigma).all()
    several = [total(rng.permutation(terms), "sequential") for _ in range(50)]
    off = np.abs(np.float64(several) - np.sum(terms, dtype=float))
    assert off.max() <= mean[0] + 5 * sigma[0]
    if name != "one value":  # and no more is allowed than is needed
        assert (
            mean[0] + 6 * sigma[0]
            < (20 if name == "of both signs" else 8 if n < 10_000 else 4) * off.max()
        )


SLIGHT = [
    ("rms_norm", "n - 1", 30_000, "backward", 9),
    ("layer_norm", "n - 1", 30_000, "pairwise", 9),
    ("unit_rows", "tail missing", 30_000, "sequential", 9),
    ("rms_norm", "first term missing", 30_000, "warps", 9),
    ("softmax", "first term twice", 100_000, "pairwise", 13),
    ("gemv", "cut off", 30_000, "strided", 11),
]


@pytest.mark.parametrize(
    ("name", "fault", "n", "order", "seed"), SLIGHT, ids=[f"{s[0]}-{s[1]}" for s in SLIGHT]
)
def test_errors_of_many_terms_are_told_from_roundings(tmp_path, name, fault, n, order, seed):
    """One part in 60,000 of a result of float16, whose numbers are one in 2,000 apart."""
    kernel = next(each for each in KERNELS if each.name == name)
    layer = benchmark.described(kernel, "f16", 3 if n < 100_000 else 2, n, tmp_path)
    tensors = benchmark.values(layer, np.random.default_rng(seed))
    found = [
        spoilt(kernel.compute(tensors, order, each, np.float16), each, np.float16)
        for each in ("", fault)
    ]
    outcomes = [benchmark.judge(layer, tensors, each)[0] for each in found]
    assert outcomes == ["same", "different"]
