"""Tensors of narrow types on the host: every layer that has them, every rounding, and mistakes."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import narrow
import numpy as np
import pytest
from layer_bundles import make

from simgen.bundle import results
from simgen.ground.dtypes import BF16, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F16, DType, Special
from simgen.ground.ir import Pass
from simgen.kernels import render
from simgen.targets.host import Host

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from layer_bundles import Made

    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

SWEEP = 2**16


def wrong(made: Made) -> list[str]:
    done = made.run()
    assert (done.returncode, done.stderr) == (0, "")
    folder = made.bundle.results("host")
    assert folder is not None
    return narrow.wrong(made.bundle, results.collect(made.bundle, made.target, folder))


@pytest.mark.parametrize("dtype", narrow.TYPES)
def test_a_network_of_narrow_tensors_is_right(tmp_path: Path, builder: Builder, dtype: str) -> None:
    """With every access checked: nothing is read or written behind the last word of a tensor."""
    work = narrow.planned(dtype)
    assert {b.spec.dtype.name for b in work.outputs} == {dtype, "f32", "bf16"}
    assert wrong(make(tmp_path, work, builder, sanitize=True)) == []


def casts(tmp_path: Path, dtypes: list[DType]) -> Workload:
    """Casts of float32 to each type, and of its numbers to float32 and back."""
    sections = [
        f"[Cast]\nname=to_{dtype}\nn={SWEEP}\nc=1\nfrom=f32\ntype={dtype}\n\n"
        f"[Cast]\nname=from_{dtype}\nprevious_layer=to_{dtype}\ntype=f32\n"
        for dtype in dtypes
    ]
    config = tmp_path / "casts.dnnmark"
    config.write_text("\n".join(sections))
    return narrow.planned("f32", config)


def hard(dtype: DType) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Ties and their neighbours, subnormal numbers, the ends of the range, NaN: float32."""
    shift = 23 - dtype.mantissa
    at = np.arange(SWEEP // 4, dtype=np.uint32)
    step, offset = np.divmod(at, 8)
    near = (step << shift) + (1 << (shift - 1)) + offset - 4  # around ties, bit by bit
    ends = (dtype.largest, dtype.overflow, 2.0**dtype.least_exponent, dtype.vanishing, 1.0)
    parts = [
        (np.float32(end).view(np.uint32) + near - near[len(near) // 2]).view(np.float32)
        for end in ends[:3]
    ]
    odd = np.array([0.0, np.inf, np.nan, 1e-45, *ends, 0.1], np.float32)
    parts.append(np.resize(odd, SWEEP - sum(map(len, parts))))
    made = np.concatenate(parts)
    made[np.isnan(made)] = np.nan  # others could become the canary
    signs = np.resize(np.array([0, 0, 1 << 31], np.uint32), SWEEP)
    return (made.view(np.uint32) ^ signs).view(np.float32)


def with_hard_inputs(made: Made, dtypes: list[DType]) -> Made:
    for dtype in dtypes:
        values = hard(dtype).reshape(SWEEP, 1, 1, 1)
        made.rewrite(f"to_{dtype}.x", lambda x, values=values: x.__setitem__(..., values))
    return made


def test_every_kind_of_number_is_rounded_right(tmp_path: Path, builder: Builder) -> None:
    """A cast has no tolerance: the bits are those of the package that NumPy has the types from."""
    dtypes = [F16, BF16, F8E4M3FN, F8E5M2, F8E4M3FNUZ, F8E5M2FNUZ]
    made = with_hard_inputs(make(tmp_path, casts(tmp_path, dtypes), builder), dtypes)
    assert made.run().returncode == 0
    outputs = made.outputs()
    for dtype in dtypes:
        with np.errstate(all="ignore"):
            stored = hard(dtype).astype(dtype.array)
        narrowed = outputs[f"to_{dtype}.y"].reshape(-1)
        widened = outputs[f"from_{dtype}.y"].reshape(-1)
        numbers = ~np.isnan(stored)
        assert 0.3 < numbers.mean() < 1
        assert (np.isnan(narrowed) == ~numbers).all()
        assert (narrowed.view("u1") == stored.view("u1")).reshape(SWEEP, -1)[numbers].all()
        assert np.array_equal(widened, stored.astype(np.float32), equal_nan=True)


HALF = "(1u << (SHIFT - 1)) - 1 + (magnitude >> SHIFT & 1)"
MAGNITUDE = "as_uint(x) & 0x7fffffffu;\n        /* Half"
MISTAKES = {
    "truncation": (HALF, "0"),
    "ties away from zero": (HALF, "1u << (SHIFT - 1)"),
    "two roundings": (
        MAGNITUDE,
        "((as_uint(x) & 0x7fffffffu) + (1u << (SHIFT - 4))) >> (SHIFT - 3) << (SHIFT - 3);\n"
        "        /* Half",
    ),
    "swapped halves": ("opaque(x) | opaque(y) << 16", "opaque(y) | opaque(x) << 16"),
    "upper half not shifted": ("T::widen(x >> 16)", "T::widen(x)"),
}
OVERFLOW = (
    "SPECIAL == Special::IEEE     ? {}\n"
    + 41 * " "
    + ": SPECIAL == Special::FINITE ? {}\n"
    + 70 * " "
    + ": {}"
)
MISTAKES_OF_BYTES = {
    **{what: MISTAKES[what] for what in ("truncation", "ties away from zero", "two roundings")},
    "swapped bytes": ("opaque(x) | opaque(y) << 8", "opaque(y) | opaque(x) << 8"),
    "second byte not shifted": ("T::widen(word >> 8)", "T::widen(word)"),
    "the largest number in place of infinity or NaN": (
        OVERFLOW.format("INFINITE", "SIGN - 1", "SIGN"),
        OVERFLOW.format("INFINITE - 1", "SIGN - 2", "SIGN - 1"),
    ),
}


@pytest.mark.parametrize(
    ("dtypes", "mistakes"),
    [
        ([F16, BF16], MISTAKES),
        ([F8E4M3FN, F8E5M2, F8E4M3FNUZ, F8E5M2FNUZ], MISTAKES_OF_BYTES),
    ],
    ids=["16 bits", "8 bits"],
)
def test_mistakes_in_moving_and_rounding_are_seen(
    tmp_path: Path, builder: Builder, dtypes: list[DType], mistakes: dict[str, tuple[str, str]]
) -> None:
    work = casts(tmp_path, dtypes)
    for number, (right, mistaken) in zip(count(), mistakes.values()):
        sources = {
            name: text.replace(right, mistaken) for name, text in render.kernels(work).items()
        }
        assert all(mistaken in text for text in sources.values())
        made = make(tmp_path / str(number), work, builder, sources=sources, optimise=False)
        found = {line.split(":")[0] for line in wrong(with_hard_inputs(made, dtypes))}
        ends = ("from" if "widen" in right else "to",)
        assert found >= {f"{end}_{dtype}.y" for end in ends for dtype in dtypes}, mistaken


def test_a_sum_in_the_narrow_type_is_seen(tmp_path: Path, builder: Builder) -> None:
    """Of a row of 300: what is computed with is float32, whatever is stored."""
    work = narrow.planned("bf16")
    right = "sum += value[k];"
    sources = {
        name: text.replace(right, "sum = Element::widen(Element::narrow(sum + value[k]));")
        for name, text in render.kernels(work).items()
        if name == "softmax_fwd_accurate_5x300x1_bf16" and right in text
    }
    assert sources
    found = wrong(make(tmp_path, work, builder, sources=sources, optimise=False))
    assert [line.split(":")[0] for line in found] == ["rows.y"]


# What is float32, made narrow: kernel -> (text, mistaken text, value in it, wrong tensors).
ROUNDED = "Element::widen(Element::narrow({}))"
MADE_NARROW = {
    "layer_norm_fwd_12x7": ("result += own[k];", "result = {};", "result + own[k]", {"short.mean"}),
    "bn_moments_3x5x9": ("= centre;", "= {};", "centre", {"odd.saved_mean"}),
    "bn_sums_3x5x9": ("sum_dy += slope[k];", "sum_dy = {};", "sum_dy + slope[k]", {"odd.db"}),
    "lrn_bwd_gradient": (", term[place + v]);", ", {});", "term[place + v]", {"patches.dx"}),
    "pool_fwd_mean_6x9x12": (": a + b;", ": {};", "a + b", {"pool.y"}),
    "softmax_bwd_accurate_2x90x1": ("totals[row] = sum;", "totals[row] = {};", "sum",
                                    {"images.dx", "tanh.dy"}),
    "sgd_30": ("return fused(-RATE, dx, x);", "return Copy::widen(Copy::narrow({}));",
               "fused(-RATE, dx, x)", {"trained.new_master_w"}),
}  # fmt: skip


def test_statistics_sums_and_masters_that_are_narrow_are_seen(
    tmp_path: Path, builder: Builder
) -> None:
    work = narrow.planned("bf16")
    sources = dict(render.kernels(work))
    for kernel, (right, mistaken, value, _) in MADE_NARROW.items():
        names = [name for name in sources if name.startswith(kernel) and "apply" not in name]
        for name in names:
            assert right in sources[name], name
            by = mistaken.format(value if "Copy" in mistaken else ROUNDED.format(value))
            sources[name] = sources[name].replace(right, by)
        assert names, kernel
    found = {
        line.split(":")[0]
        for line in wrong(make(tmp_path, work, builder, sources=sources, optimise=False))
    }
    for kernel, (*_, tensors) in MADE_NARROW.items():
        assert found & tensors, kernel


PRODUCTS = """
[Gemm]
name=tiled
m=36
n=20
k=70
[Gemm]
name=short
m=2
n=40
k=66
[Convolution]
name=direct
n=2
c=3
h=6
w=8
num_output=8
kernel_size=3
pad=1
algo=direct
"""
SUMS = (
    "sum[i][j] = fused(left[i], right[j], sum[i][j]);",
    "sum.x = fused(factor, of.x, sum.x);",
    "sum[set][i][k] = fused(pixel[set][at], weight[k], sum[set][i][k]);",
)
NARROWED = "{0}::widen({0}::narrow("
PRODUCT_MISTAKES = {
    "truncation": {HALF: "0"},
    "two roundings": dict([MISTAKES["two roundings"]]),
    "a sum in the narrow type": {
        text: text.replace("= fused", f"= {NARROWED}fused").replace(";", "));") for text in SUMS
    },
    "a step of k that is left out": {
        "next < last;": "next + Tile::K < last;",
        "k < last; k += SLICES)": "k + SLICES < last; k += SLICES)",
        "c < channels;": "c + 1 < channels;",
    },
}


@pytest.mark.parametrize("dtype", [BF16, F16, F8E4M3FN, F8E5M2], ids=str)
@pytest.mark.parametrize("mistake", PRODUCT_MISTAKES)
def test_mistakes_in_products_are_seen(
    tmp_path: Path, builder: Builder, mistake: str, dtype: DType
) -> None:
    """In tiles, with a short side, and of a convolution."""
    config = tmp_path / "products.dnnmark"
    config.write_text(PRODUCTS)
    work = narrow.planned(dtype.name, config, (Pass.FORWARD,))
    sources = render.kernels(work)
    for right, wrong_text in PRODUCT_MISTAKES[mistake].items():
        assert any(right in text for text in sources.values()), right
        by = wrong_text.replace("{0}", dtype.c)
        sources = {name: text.replace(right, by) for name, text in sources.items()}
    made = make(tmp_path, work, builder, sources=sources, optimise=False)
    seen = {line.split(":")[0] for line in wrong(made)}
    assert seen == {"tiled.y", "short.y", "direct.y"}


SCALED = """
[FullyConnected]
name=tiled
n=36
c=70
num_output=20
bias=true
x_scale=.5
w_scale=.3
y_scale=.125
[FullyConnected]
name=short
n=2
c=700
num_output=7
x_scale=.5
w_scale=.3
y_scale=.125
[Gemm]
name=matrix
m=9
n=9
k=601
beta=1
a_scale=3
b_scale=.7
y_scale=.5
[Convolution]
name=direct
n=2
c=3
h=6
w=8
num_output=8
kernel_size=3
pad=1
algo=direct
bias=true
x_scale=.5
w_scale=.3
y_scale=.125
[Convolution]
name=product
n=2
c=5
h=7
w=5
num_output=11
kernel_size=3
stride=2
algo=implicit_gemm
bias=true
x_scale=.5
w_scale=.3
y_scale=.125
[Convolution]
name=tiles
n=1
c=4
h=8
w=8
num_output=8
kernel_size=3
pad=1
algo=winograd
x_scale=.5
w_scale=.3
y_scale=.125
"""


@pytest.mark.parametrize("dtype", ["f8e4m3fn", "f8e5m2"])
def test_scales_of_8_bit_floats(tmp_path: Path, builder: Builder, dtype: str) -> None:
    config = tmp_path / "scaled.dnnmark"
    config.write_text(SCALED)
    work = narrow.planned(dtype, config, (Pass.FORWARD,))
    assert wrong(make(tmp_path / "right", work, builder, sanitize=True)) == []
    sources = {
        name: text.replace("*= ALPHA;", "+= 0 * ALPHA;").replace("x *= FACTOR;", "")
        for name, text in render.kernels(work).items()
    }
    found = wrong(make(tmp_path / "unscaled", work, builder, sources=sources, optimise=False))
    assert {line.split(":")[0] for line in found} == {b.name for b in work.outputs}


@pytest.fixture
def new_type() -> Iterator[DType]:
    """A type that simgen does not have: one row, and nothing else."""
    yield DType("f8e3m4", 1, "float8_e3m4", 0xFFFF7FFF, 3, 4, 3, Special.IEEE)
    del DType.table["f8e3m4"]


def test_a_new_type_is_one_row(tmp_path: Path, builder: Builder, new_type: DType) -> None:
    made = make(tmp_path, casts(tmp_path, [new_type]), builder)
    assert wrong(with_hard_inputs(made, [new_type])) == []
    config = tmp_path / "net.dnnmark"
    layers = narrow.CONFIG.read_text().replace("c=300\n", "c=300\nsoftmax_algo=fast\n")
    # Around the maxima are numbers up to 32, which this type has not.
    layers = layers.replace("pool_mode=max\n", "pool_mode=avg\n")
    config.write_text(layers)
    work = narrow.planned(new_type.name, config)
    assert wrong(make(tmp_path / "net", work, builder, sanitize=True)) == []
