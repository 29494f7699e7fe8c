"""What gem5 ignores or computes wrongly, legalised by the command's function, in gem5."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import gem5_here
import numpy as np
import pytest

import simgen
from simgen.isa import toolchain
from simgen.isa.lint import rewriting
from simgen.targets.gem5 import apu_se
from simgen.targets.gem5.se import Gem5Se
from simgen_examine.conform import values
from simgen_examine.conform.float_mode import FLUSHING, USUAL
from simgen_examine.conform.judging import Found
from simgen_examine.conform.probe import Trial

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.gem5,
    pytest.mark.skipif(not os.environ.get("GEM5"), reason="GEM5 is not set"),
    pytest.mark.skipif(gem5_here.FAMILY != apu_se.VEGA, reason="the code here is for gfx902"),
]
VERSION = gem5_here.VERSION
# Each leaves its result in v4; v2 is x, of which v0 is the number, and s[4:5] the address.
CASES = {
    "clamp": ("v_add_f32_e64 v4, v2, v2 clamp", "np.clip(2 * x, 0, 1)"),
    "omod": ("v_mul_f32_e64 v4, v2, v2 mul:2", "2 * x * x"),
    "halved": ("v_add_f32_e64 v4, v2, 1.0 div:2", "(x + 1) / 2"),
    "abs": (
        "v_cmp_gt_f32_e64 vcc, |v2|, 0.5\nv_mov_b32 v5, 1.0\nv_cndmask_b32_e32 v4, 0, v5, vcc",
        "np.where(np.abs(x) > 0.5, 1, 0)",
    ),
    "neg": (
        "v_cmp_gt_f32_e64 vcc, -v2, 0.5\nv_mov_b32 v5, 1.0\nv_cndmask_b32_e32 v4, 0, v5, vcc",
        "np.where(-x > 0.5, 1, 0)",
    ),
    "chosen": (
        "v_cmp_gt_f32_e32 vcc, 0, v2\nv_cndmask_b32_e64 v4, v2, -v2, vcc",
        "np.abs(x)",
    ),
    "zeros above": (
        "v_add_u32 v5, 3, v0\nv_ffbh_u32 v4, v5\nv_cvt_f32_u32 v4, v4",
        "31 - np.floor(np.log2(np.arange(n) + 3))",
    ),
    "clamp of f64": (
        "v_cvt_f64_f32 v[6:7], v2\nv_add_f64 v[6:7], v[6:7], v[6:7] clamp\n"
        "v_cvt_f32_f64 v4, v[6:7]",
        "np.clip(2 * x, 0, 1)",
    ),
    "omod of f64": (
        "v_cvt_f64_f32 v[6:7], v2\nv_mul_f64 v[6:7], v[6:7], v[6:7] div:2\n"
        "v_cvt_f32_f64 v4, v[6:7]",
        "x * x / 2",
    ),
    "behind a buffer": (  # of 12 bytes, of which 4 to 19 are asked for
        "s_mov_b32 s16, s4\ns_and_b32 s17, s5, 0xffff\ns_mov_b32 s18, 12\n"
        "s_mov_b32 s19, 0x27000\ns_buffer_load_dwordx4 s[20:23], s[16:19], 0x4\n"
        "s_waitcnt lgkmcnt(0)\nv_mov_b32 v5, s22\nv_add_f32 v4, s20, v5\nv_mul_f32 v4, s21, v4\n"
        "v_mov_b32 v5, s23\nv_add_f32 v4, v4, v5\nv_add_f32 v4, v4, v2",
        "x[1] * x[2] + x",
    ),
    "below zero": (
        "s_add_u32 s8, s4, 64\ns_addc_u32 s9, s5, 0\ns_load_dword s10, s[8:9], -0x3c\n"
        "s_waitcnt lgkmcnt(0)\nv_add_f32 v4, s10, v2",
        "x[1] + x",
    ),
    # Beside a vector instruction with scalar sources, which stay as they are.
    "beside a register": (
        "s_mov_b32 s11, 40\ns_mov_b32 s12, 2.0\ns_load_dword s10, s[4:5], s11 offset:0x54\n"
        "v_mul_f32 v5, s12, v2\ns_waitcnt lgkmcnt(0)\nv_add_f32 v4, s10, v5\n"
        "v_cvt_f32_u32 v6, s11\nv_add_f32 v4, v4, v6",
        "x[31] + 2 * x + 40",
    ),
    "beside a register, two words": (
        "s_movk_i32 s11, 0x10\ns_load_dwordx2 s[8:9], s[4:5], s11 offset:0x20\n"
        "s_waitcnt lgkmcnt(0)\nv_sub_f32 v4, s9, v2\nv_mul_f32 v4, s8, v4",
        "x[12] * (x[13] - x)",
    ),
    "upper byte": (
        "v_lshlrev_b32 v5, 2, v0\nv_lshlrev_b32 v6, 16, v0\nv_mov_b32 v7, 0\nds_write_b32 v5, v7\n"
        "ds_write_b8_d16_hi v5, v6\nds_read_b32 v4, v5\ns_waitcnt lgkmcnt(0)\nv_cvt_f32_u32 v4, v4",
        "np.arange(n) * 1.0",
    ),
}
KERNEL = """\
.amdgcn_target "amdgcn-amd-amdhsa--gfx902"
.globl k
.p2align 8
.type k,@function
k:
s_load_dwordx4 s[4:7], s[0:1], 0x0
v_lshlrev_b32 v1, 2, v0
s_mov_b32 m0, -1
s_waitcnt lgkmcnt(0)
global_load_dword v2, v1, s[4:5]
s_waitcnt vmcnt(0)
{code}
global_store_dword v1, v4, s[6:7]
s_endpgm
.Lend:
.size k, .Lend-k
.rodata
.p2align 6
.amdhsa_kernel k
 .amdhsa_user_sgpr_kernarg_segment_ptr 1
 .amdhsa_next_free_vgpr 12
 .amdhsa_next_free_sgpr 24
 .amdhsa_group_segment_fixed_size 256
.end_amdhsa_kernel
.amdgpu_metadata
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 256
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 30
    .vgpr_count: 12
    .max_flat_workgroup_size: 64
    .args:
      - {{.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}}
amdhsa.version: [1, 2]
.end_amdgpu_metadata
"""
BUNDLE = """\
source = "k.co"
kernel = "k"
inputs = {{ x = "f32[n]" }}
outputs = {{ y = "f32[n]" }}
args = ["x", "y"]
grid = 1
block = 64
parameters = {{ n = 64 }}
reference = "{reference}"
"""


@pytest.mark.parametrize("name", CASES)
def test_what_is_replaced_is_right(place: Path, name: str) -> None:
    code, reference = CASES[name]
    theirs = toolchain.assemble_foreign(KERNEL.format(code=code), "gfx902", "k.s")
    ours, _ = rewriting.rewritten(theirs, "k.co", "gem5", VERSION)
    assert ours != theirs
    (place / "k.co").write_bytes(ours)
    (place / "k.toml").write_text(BUNDLE.format(reference=reference))
    bundle = simgen.plan(str(place / "k.toml")).build(place / "b", "gem5-se")
    bundle.run(timeout=600.0)
    assert bundle.diff(strict=True)


# Forms of the probe, with all of its values: what is wrong in gem5 as it is.
PROBED = {
    "^v_(sin|cos|cvt_f16)_f32_e": 39,
    "^v_(fma|max|add|mul)_f64 .*clamp": 4,
    "^v_((trunc|ceil|floor|rndne|ldexp|cvt_f32)_f(16|32|64)(_e64)?|(add|sub)_i(16|32)) .*clamp": 19,
    "^v_(cvt_[iu]32|fract|rndne|rcp|rsq)_f64_e(32|64) (?!.*clamp)": 54,
    "^v_(cvt_[iu]32|cvt_flr_i32|fract|rndne)_f32_e(32|64) (?!.*(clamp|mul:|div:))": 50,
    "^v_(cvt_rpi_i32_f32_e(32|64)|m(ul|ad)_legacy_f32(_e(32|64))?) (?!.*(clamp|mul:|div:))": 41,
    "^v_(add|mul|ldexp)_f64 (?!.*clamp)": 31,
    "^v_(add|mul|fma|max3?|min|med3|rndne|fract|sin|ldexp|cvt_u16|div_fixup)_f16(_e(32|64))? ": 171,
    "^v_(cmpx?_(lt|lg|nge)_f16_e(32|64)|pack_b32_f16|cvt_f(16_i16|32_f16)_e64) ": 105,
    "^v_(mad_f32|mac_f32_e32|mad[am]k_f32|cmp_lg_f32_e64) (?!.*(clamp|mul:|div:))": 35,
    "^(s_(sext_i32_i(8|16)|absdiff_i32)|v_(subbrev_co_u32_e64|cmpx_(ge|gt|le)_u16_e64|sad_u32"
    "|sad_hi_u8|med3_f32)) (?!.*(clamp|mul:|div:))": 59,
    "^v_(ldexp_f32|(add|sub|subrev)_u32_e64) ": 30,
    "^v_mul_i32_i24_e(32|64) ": 9,
    r"^v_div_fixup_f.. \S+ v\S*20": 2,  # whole divisions
    "^(flat|global)_atomic_(inc|dec) ": 20,
    "^((flat|global)_store_byte_d16_hi|ds_write_b(8|16)_d16_hi) ": 20,
    "^s_buffer_load_dword(x16)? ": 10,
    "^s_load_dwordx2 .*(-0x40|offset)": 2,
}


@pytest.mark.parametrize(("only", "count"), PROBED.items())
def test_forms_are_right_by_the_manuals(place: Path, only: str, count: int) -> None:
    """In the usual modes: gem5 ignores the others, whatever an instruction becomes."""
    every = Trial("gem5-se", only=only, version=VERSION, legalised=True).findings(place)
    found = [each for each in every if each.form.mode in (USUAL, FLUSHING)]
    wrong = [f"{each.form.text}: {each.examples[:1]}" for each in found
             if each.found is not Found.RIGHT]  # fmt: skip
    assert (len(found), wrong) == (count, [])


COUNTED = """\
__global__ void counted(unsigned* counter, unsigned* seen)
{
    unsigned old;
    asm volatile("global_atomic_inc %0, %1, %2, off glc\\n s_waitcnt vmcnt(0)"
                 : "=v"(old) : "v"(counter), "v"(6u) : "memory");
    atomicAdd(seen + old, old + 1);
}
"""
TALLY = """\
source = "counted.hip"
kernel = "counted"
outputs = { counter = "i32[1] zeros", seen = "i32[7] zeros" }
args = ["counter", "seen"]
grid = 2
block = 256
[reference]
counter = "counter + 512 % 7"
seen = "seen + (np.arange(7) + 1) * np.where(np.arange(7) < 512 % 7, 74, 73)"
"""


def test_lanes_that_count_together(place: Path) -> None:
    """All work-items count up to the same limit, over and over."""
    (place / "counted.hip").write_text(COUNTED)
    (place / "counted.toml").write_text(TALLY)
    target = Gem5Se(gem5_version=VERSION)
    bundle = simgen.plan(str(place / "counted.toml")).build(place / "b", target)
    bundle.run(timeout=600.0)
    assert bundle.diff(strict=True)


def right_if_legalised(place: Path, name: str) -> None:
    """A user's kernel, of NAME.toml: right as it is built, and wrong with --no-legalise."""
    made = simgen.plan(str(place / f"{name}.toml"))
    for legalise in (True, False):
        bundle = made.build(place / f"b{legalise}", Gem5Se(gem5_version=VERSION, legalise=legalise))
        bundle.run(timeout=600.0)
        assert bool(bundle.diff(strict=True)) is legalise


QUOTIENTS = """\
__global__ void quotients(const float* x, const float* y, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] / (i % 5 ? y[i] : 1 / (0 * y[i]));
}
"""


def test_quotients_by_zeros_and_infinities(place: Path) -> None:
    (place / "quotients.hip").write_text(QUOTIENTS)
    (place / "quotients.py").write_text(
        "import numpy as np\n"
        "def expected(x, y, n):\n"
        "    with np.errstate(all='ignore'):\n"
        "        return x / np.where(np.arange(n) % 5, y, 1 / (0 * y))\n"
    )
    settings = SETTINGS.replace("near", "quotients").replace('["x", ', '["x", "y", ')
    settings = settings.replace('"f32[n]" }', '"f32[n] whole(2)", y = "f32[n] whole(2)" }', 1)
    settings = settings.partition("reference")[0]
    settings += 'reference = "quotients.py:expected"\ntolerance = 1e-7\n'
    (place / "quotients.toml").write_text(settings)
    right_if_legalised(place, "quotients")


DOUBLES = """\
__device__ double canonical(double x) { return x == x ? x : __builtin_nan(""); }

__global__ void doubles(const double* x, const double* y, double* quotient, double* root,
                        double* fraction, double* nearest, int* whole, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    quotient[i] = canonical(x[i] / y[i]);
    root[i] = canonical(sqrt(x[i]));
    fraction[i] = canonical(__builtin_amdgcn_fract(x[i]));
    nearest[i] = canonical(__builtin_rint(x[i]));
    whole[i] = (int)(unsigned)__builtin_fmin(__builtin_fmax(x[i], -2147483648.0), 4294967295.0);
}
"""
EXPECTED = """\
import numpy as np

def expected(x, y):
    x, y = (np.ascontiguousarray(each, np.int32).view(np.float64) for each in (x, y))
    with np.errstate(all="ignore"):
        below = np.nextafter(1.0, 0.0)
        made = {"quotient": x / y, "root": np.sqrt(x), "nearest": np.rint(x),
                "fraction": np.minimum(x - np.floor(x), below)}
    words = np.where(np.isnan(x), -(2.0**31), np.clip(x, -(2.0**31), 2.0**32 - 1))
    whole = np.maximum(np.trunc(words), 0).astype(np.uint32).view(np.int32)
    made = {name: np.where(np.isnan(each), np.nan, each) for name, each in made.items()}
    return {"whole": whole, **{name: each.view(np.int32) for name, each in made.items()}}
"""
OF_DOUBLES = """\
source = "doubles.hip"
kernel = "doubles"
parameters = { n = 6000 }
inputs = { x = "i32[2 * n]", y = "i32[2 * n]" }
args = ["x", "y", "quotient", "root", "fraction", "nearest", "whole", "i32 n"]
items = "n"
block = 256
reference = "doubles.py:expected"
tolerance = 0
[outputs]
quotient = "i32[2 * n]"
root = "i32[2 * n]"
fraction = "i32[2 * n]"
nearest = "i32[2 * n]"
whole = "i32[n]"
"""


def test_doubles_bit_for_bit(place: Path) -> None:
    """Numbers of all magnitudes, special ones, and quotients that are subnormal: as they come, a
    numerator of 2^53 makes a NaN."""
    rng = np.random.default_rng(5)
    special = values.tuples(("f64", "f64"))[:2].transpose(0, 2, 1)
    any_ = rng.integers(0, 1 << 32, (2, 2000, 2), np.uint32)
    numbers = rng.normal(scale=1e9, size=(2, 1000)).view(np.uint32).reshape(2, 1000, 2)
    least = np.ldexp(rng.integers(1, 1 << 26, (2, 1976)) * 1.0, [[-1040], [20]])
    given = [special, any_, numbers, least.view(np.uint32).reshape(2, 1976, 2)]
    x, y = np.concatenate(given, 1).reshape(2, -1).view(np.int32)
    np.savez(place / "values.npz", **{"doubles.x": x, "doubles.y": y})
    (place / "doubles.hip").write_text(DOUBLES)
    (place / "doubles.py").write_text(EXPECTED)
    (place / "doubles.toml").write_text(OF_DOUBLES)
    made = simgen.plan(str(place / "doubles.toml"), values=str(place / "values.npz"))
    for legalise in (True, False):
        target = Gem5Se(gem5_version=VERSION, legalise=legalise)
        bundle = made.build(place / f"b{legalise}", target)
        bundle.run(timeout=600.0)
        assert bool(bundle.diff(strict=True)) is legalise


HALF = """\
__global__ void halves(const _Float16* x, const _Float16* y, const _Float16* z, _Float16* sum,
                       _Float16* product, _Float16* quotient, _Float16* both, _Float16* larger,
                       int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    sum[i] = x[i] + y[i];
    product[i] = x[i] * y[i];
    quotient[i] = x[i] / y[i];
    both[i] = __builtin_fmaf16(x[i], y[i], z[i]);
    larger[i] = x[i] > y[i] ? -x[i] : (_Float16)((float)x[i] * (float)y[i]);
}
"""
OF_HALVES = """\
source = "halves.hip"
kernel = "halves"
parameters = { n = 3000 }
inputs = { x = "f16[n]", y = "f16[n]", z = "f16[n]" }
args = ["x", "y", "z", "sum", "product", "quotient", "both", "larger", "i32 n"]
items = "n"
block = 256
[outputs]
sum = "f16[n]"
product = "f16[n]"
quotient = "f16[n]"
both = "f16[n]"
larger = "f16[n]"
[reference]
sum = "x + y"
product = "x * y"
quotient = "x / y"
both = "x * y + z"
larger = "np.where(x > y, -x, x * y)"
"""


@pytest.mark.parametrize("arch", [e for e in ("gfx902", "gfx942") if e in gem5_here.ARCHS])
def test_halves(place: Path, arch: str) -> None:
    """Of which gem5 has no arithmetic but the packed one."""
    (place / "halves.hip").write_text(HALF)
    (place / "halves.toml").write_text(OF_HALVES)
    bits = np.random.default_rng(2).integers(1, 0x7C00, (3, 3000)).astype(np.uint16)
    given = dict(zip("xyz", bits.view(np.float16), strict=True))
    np.savez(place / "values.npz", **{f"halves.{name}": each for name, each in given.items()})
    made = simgen.plan(str(place / "halves.toml"), values=str(place / "values.npz"))
    bundle = made.build(place / "b", Gem5Se(gem5_version=VERSION, arch=arch))
    found = bundle.run(timeout=600.0).outputs
    x, y, z = given.values()
    with np.errstate(all="ignore"):
        exact = x.astype(np.float64) * y.astype(np.float64) + z  # no tie is lost in 53 bits
        right = {"sum": x + y, "product": x * y, "quotient": x / y,
                 "both": exact.astype(np.float16),
                 "larger": np.where(x > y, -x, x * y)}  # fmt: skip
    for name, each in right.items():
        left = found[f"halves.{name}"].values
        assert np.array_equal(left.view(np.uint16), each.view(np.uint16)), name


PACKED = """\
#pragma pack(1)
struct Record { unsigned char tag; int value; };
#pragma pack()
__global__ void near(const int* x, int* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = ((const Record*)x)[i].value;
}
"""


def test_what_lies_across_two_lines(place: Path) -> None:
    """Of packed structures: the compiler is told to load them byte by byte."""
    (place / "near.hip").write_text(PACKED)
    (place / "near.py").write_text(
        "import numpy as np\n"
        "def expected(x, n):\n"
        "    whole = np.ascontiguousarray(x, np.int32).view(np.uint8).reshape(-1, 5)\n"
        "    return whole[:n, 1:].copy().view(np.int32).reshape(-1)\n"
    )
    settings = SETTINGS.replace('x = "f32[n]"', 'x = "i32[1250]"').replace('"f32[n]"', '"i32[n]"')
    settings = settings.partition("reference")[0]
    settings += 'reference = "near.py:expected"\ntolerance = 0\n'
    (place / "near.toml").write_text(settings)
    right_if_legalised(place, "near")


PAIRS = """\
__global__ void near(const int* x, int* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int first = x[i], second = x[i + 1];
    out[2 * i + 1] = 3 * first - second;
    out[2 * i + 2] = second;
    if (i == 0)
        out[0] = x[n];
}
"""


def test_pairs_of_words_across_two_lines(place: Path) -> None:
    """The compiler makes one load, and one store, of two words."""
    (place / "near.hip").write_text(PAIRS)
    settings = SETTINGS.replace('x = "f32[n]"', 'x = "i32[n + 1]"')
    settings = settings.replace('"f32[n]"', '"i32[2 * n + 1]"').partition("reference")[0]
    pairs = "np.stack([3 * x[:-1] - x[1:], x[1:]], 1)"
    reference = f"np.concatenate([x[-1:], {pairs}.reshape(-1)])"
    (place / "near.toml").write_text(f'{settings}reference = "{reference}"\ntolerance = 0\n')
    right_if_legalised(place, "near")


SOURCE = """\
__global__ void near(const float* x, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = fabsf(x[i]) > 0.5f ? x[i] : -x[i];
}
"""
SETTINGS = """\
source = "near.hip"
kernel = "near"
parameters = { n = 1000 }
inputs = { x = "f32[n]" }
outputs = { out = "f32[n]" }
args = ["x", "out", "i32 n"]
items = "n"
block = 256
reference = "np.where(np.abs(x) > 0.5, x, -x)"
"""


def test_a_users_kernel_is_right_as_it_is_built_and_wrong_without(place: Path) -> None:
    (place / "near.hip").write_text(SOURCE)
    (place / "near.toml").write_text(SETTINGS)
    made = simgen.plan(str(place / "near.toml"))
    for legalise in (True, False):
        target = Gem5Se(gem5_version=VERSION, legalise=legalise)
        bundle = made.build(place / f"b{legalise}", target)
        bundle.run(timeout=600.0)
        assert bool(bundle.diff(strict=True)) is legalise
