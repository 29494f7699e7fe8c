"""What instructions are tried with: special values of each type against each other, and others.

Every value is given as the words of the registers that hold it, so that what a NumPy conversion
would do to a signalling NaN does not matter.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

LANES = 64  # lanes of a wavefront
TUPLES = 1024  # tuples of values that each instruction is tried with: 16 wavefronts
SOURCES = 3  # sources of an instruction, at most
SEED = 1

# Zeros, subnormals, the least and largest normal numbers, ones, halfway cases, what does not fit
# into narrower types or integers, infinities and NaNs.
_F32 = (
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x3F800000,
    0xBF800000, 0x3F000000, 0x3FC00000, 0xC0200000, 0x40490FDB, 0x4B000001, 0x4F000000, 0xCF000000,
    0x4F800000, 0x477FE000, 0x477FF000, 0x33000001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
    0x7FC00000, 0xFFC12345, 0x7F800001,
)  # fmt: skip
_F64 = (
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x800FFFFFFFFFFFFF,
    0x0010000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 0x3FE0000000000000,
    0xC004000000000000, 0x41E0000000000000, 0xC1E0000000000000, 0x41EFFFFFFFE00000,
    0x47EFFFFFF0000000, 0x36A0000000000001, 0x4340000000000001, 0x7FEFFFFFFFFFFFFF,
    0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000,
    0xFFF8000000012345, 0x7FF0000000000001, 0x41D8000000000000, 0x41E8000000100000,
    0x4330000000000001, 0x000123456789ABCD,
)  # fmt: skip
_F16 = (
    0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x8400, 0x3C00, 0xBC00, 0x3800, 0x3E00, 0xC100, 0x4248,
    0x6401, 0x77FF, 0x7800, 0xF800, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE45, 0x7C01,
)  # fmt: skip
_BF16 = tuple(sorted({each >> 16 for each in _F32}))
_I32 = (
    0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFF,
    0x800000, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xAAAAAAAA, 0xFFFFFFFE, 0xFFFFFFFF,
)  # fmt: skip
_I64 = (
    0, 1, 2, 31, 32, 63, 64, 65, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000,
    0xFFFFFFFF00000000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0x8000000000000001,
    0xAAAAAAAA55555555,
    0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF, 0x0123456789ABCDEF, 0x8000000080000000,
    0x0000000180000000,
)  # fmt: skip
_I16 = (0, 1, 2, 3, 15, 16, 17, 0x7F, 0x80, 0xFF, 0x100, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xAAAA,
        0xFFFE, 0xFFFF)  # fmt: skip

BITS = {"f32": 32, "f64": 64, "f16": 16, "i32": 32, "u32": 32, "b32": 32, "i64": 64, "u64": 64,
        "b64": 64, "i16": 16, "u16": 16, "b16": 16, "pk_f16": 32, "pk_i16": 32, "pk_u16": 32,
        "pk_bf16": 32, "pk_f32": 64, "f32_fp8": 32, "f32_bf8": 32, "bf16": 16,
        "f32_f16": 32, "f32_bf16": 32, "f64_f32": 64, "f64_f16": 64}  # fmt: skip
# Several elements of a matrix: "4xf16". xf32 is held as f32. fp8 and bf8 are gfx942's: without
# infinities, 0x80 is the only NaN, and exponents have a bias of 8 and 16.
_SEVERAL = re.compile(r"(\d+)x(\w+)")
_ELEMENTS: dict[str, Any] = {
    name: np.dtype(of)
    for name, of in (("f32", "f4"), ("xf32", "f4"), ("f64", "f8"), ("f16", "f2"), ("bf16", "u2"),
                     ("i8", "i1"), ("u8", "u1"), ("i32", "i4"), ("fp8", "u1"), ("bf8", "u1"))
}  # fmt: skip
MANTISSA = {"fp8": 3, "bf8": 2}  # bits
# Numbers of f32 next to those of 8 bits: some of these, those halfway between two, of which either
# is the even one, and their neighbours; subnormal ones, the largest, and what is beyond.
_NEAR_EIGHT = {
    "f32_fp8": (0.0, -0.0, 1.0, 1.0625, -1.1875, 1.0625 + 2**-23, 1.1875 - 2**-23, -1.75, 0.0078125,
                2**-11, -3 * 2**-11, 2**-11 + 2**-34, -(2**-12), 2**-10, 7.5 * 2**-10, 5.5 * 2**-10,
                240.0, -232.0, 247.99998, -248.0, 256.0, 448.0, -1e30, 2**-140, np.inf, -np.inf,
                np.nan),
    "f32_bf8": (0.0, -0.0, 1.0, 1.125, -1.375, 1.125 + 2**-23, 1.375 - 2**-23, -1.75, 2**-15,
                2**-18, -3 * 2**-18, 2**-18 + 2**-41, -(2**-19), 2**-17, 3.5 * 2**-17, 2.5 * 2**-17,
                57344.0, -53248.0, 61439.996, -61440.0, 65536.0, 114688.0, -1e30, 2**-140, np.inf,
                -np.inf, np.nan),
}  # fmt: skip


def _near(bits: int, least: int) -> tuple[float, ...]:
    """Numbers next to those with so many bits of fraction, whose least one is 2^least: halfway to
    the next ones, of which either is the even one, and a little to both sides."""
    last, little = 2.0**-bits, 2.0 ** (-bits - 12)
    halves = [sign * (1 + (n + 0.5) * last) for n in range(4) for sign in (1, -1)]
    beside = [each + sign * little for each in halves[::3] for sign in (1, -1)]
    low = [(n + 0.5) * 2.0**least for n in range(4)]
    lower = [each + sign * 2.0 ** (least - 12) for each in low[:2] for sign in (1, -1)]
    return (*halves, *beside, *low, *lower, *(-each for each in low))


# Values for conversions into a narrower type.
_NEAR_NARROW = {
    "f32_f16": _near(10, -24), "f32_bf16": _near(7, -133), "f64_f32": _near(23, -149),
    # What is halfway in f16, once it was rounded to f32.
    "f64_f16": (*_near(10, -24), 1 + 2.0**-11 + 2.0**-40, 1 + 3 * 2.0**-11 - 2.0**-40),
}  # fmt: skip
_SPECIAL = {
    "f32": _F32, "f64": _F64, "f16": _F16,
    **{name: tuple(np.array(of, np.float32).view(np.uint32).tolist())
       for name, of in _NEAR_EIGHT.items()},
    **{name: _F32 + tuple(np.array(of, np.float32).view(np.uint32).tolist())
       for name, of in _NEAR_NARROW.items() if name.startswith("f32")},
    **{name: _F64 + tuple(np.array(of, np.float64).view(np.uint64).tolist())
       for name, of in _NEAR_NARROW.items() if name.startswith("f64")},
}  # fmt: skip
_OF_BITS = {16: _I16, 32: _I32, 64: _I64}
# Instructions with three sources have fewer special values, so that all combinations occur.
_FEW = {
    "f32": (0, 0x80000000, 0x3F800000, 0xBF800000, 0x40400000, 0x3EAAAAAB, 0x7F7FFFFF,
            0x7F800000, 0xFF800000, 0x7FC00000),
    "f64": (0, 1 << 63, 0x3FF0000000000000, 0xBFF0000000000000, 0x4008000000000000,
            0x3FD5555555555555, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000,
            0xFFF0000000000000, 0x7FF8000000000000),
    "f16": (0, 0x8000, 0x3C00, 0xBC00, 0x4200, 0x3555, 0x7BFF, 0x7C00, 0xFC00, 0x7E00),
    "bf16": (0, 0x8000, 0x3F80, 0xBF80, 0x4040, 0x3EAB, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0),
    32: (0, 1, 5, 31, 32, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF),
    16: (0, 1, 5, 15, 16, 0xFF, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF),
    64: (0, 1, 31, 63, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF, 1 << 63,
         (1 << 64) - 2, (1 << 64) - 1),
}  # fmt: skip


def bits(type_: str) -> int:
    """How wide a value is."""
    if several := _SEVERAL.fullmatch(type_):
        return int(several[1]) * int(_ELEMENTS[several[2]].itemsize) * 8
    return BITS[type_]


def words(type_: str) -> int:
    """Registers that a value takes."""
    return (bits(type_) + 31) // 32


def tuples(signature: Sequence[str]) -> Words:
    """The words of the sources of TUPLES instructions: (source, word, tuple).

    Sources are of the types `signature`. What is above a value of 16 bits is not zero.
    """
    rng = np.random.default_rng([SEED, *(ord(letter) for letter in ".".join(signature))])
    found = np.zeros((max(SOURCES, len(signature)), 2, TUPLES), np.uint32)
    if signature and _SEVERAL.fullmatch(signature[0]):
        for at, each in enumerate(signature):
            found[at] = _whole_numbers(each, rng)
        return found
    columns = [_special(each, len(signature)) for each in signature]
    met = list(itertools.product(*columns))
    if len(met) > TUPLES * 3 // 4:
        chosen = rng.permutation(len(met))[: TUPLES * 3 // 4]
        met = [met[each] for each in sorted(chosen)]
    for at, type_ in enumerate(signature):
        values = np.array([row[at] for row in met], np.uint64)
        values = np.concatenate([values, _others(type_, TUPLES - len(met), rng)])
        low = values & np.uint64(0xFFFFFFFF)
        if bits(type_) == 16:
            low |= rng.integers(1, 1 << 16, TUPLES).astype(np.uint64) << np.uint64(16)
        found[at] = low, values >> np.uint64(32)
    return found


def _whole_numbers(type_: str, rng: np.random.Generator) -> Words:
    """Elements of matrices: of floats, whole numbers whose products have more bits than they.
    Of `u8`, all bytes in each place."""
    count, kind = _several(type_)
    if kind == "u8":
        steps, starts = np.arange(1, 2 * count, 2), np.arange(count) * 85
        numbers = np.arange(TUPLES)[:, None] * steps + starts & 0xFF
        every = np.zeros((TUPLES, 8), np.uint8)
        every[:, :count] = numbers
        return every.view(np.uint32).T
    most = {"i8": 128, "i32": 1 << 30, "f64": 1 << 20}.get(kind, 255)
    numbers = rng.integers(-most, most, (TUPLES, count))
    if kind in MANTISSA:
        told = eight_bits(kind)
        whole = np.flatnonzero((told == np.rint(told)) & (np.abs(told) <= 30))  # NaN is not
        made = whole[numbers % len(whole)].astype(np.uint8)
    elif kind == "bf16":
        made = (numbers.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    else:
        made = numbers.astype(_ELEMENTS[kind])
    found = np.zeros((TUPLES, 8), np.uint8)
    found[:, : bits(type_) // 8] = np.ascontiguousarray(made).view(np.uint8)
    return found.view(np.uint32).T


def elements(words: Words, type_: str) -> NDArray[np.float64]:
    """The numbers in words of several elements, (word, tuple), as (tuple, element)."""
    _, kind = _several(type_)
    held = np.ascontiguousarray(words[: bits(type_) // 32].T)
    if kind == "bf16":
        halves = held.view(np.uint16).astype(np.uint32) << np.uint32(16)
        return halves.view(np.float32).astype(np.float64)
    if kind in MANTISSA:
        return eight_bits(kind)[held.view(np.uint8)]
    numbers: NDArray[np.float64] = held.view(_ELEMENTS[kind]).astype(np.float64)
    return numbers


def eight_bits(kind: str) -> NDArray[np.float64]:
    """What each byte is as an 8-bit float of gfx942, `fp8` or `bf8`."""
    bits_below = MANTISSA[kind]
    code = np.arange(256)
    exponent, mantissa = code >> bits_below & (0x7F >> bits_below), code & (1 << bits_below) - 1
    bias = 1 << 6 - bits_below
    fraction = np.where(exponent == 0, 0, 1 << bits_below) + mantissa
    sized = fraction * 2.0 ** (np.maximum(exponent, 1) - bias - bits_below)
    found: NDArray[np.float64] = np.where(code == 0x80, np.nan, np.where(code >> 7, -sized, sized))
    return found


def _several(type_: str) -> tuple[int, str]:
    found = _SEVERAL.fullmatch(type_)
    assert found is not None, type_
    return int(found[1]), found[2]


def _special(type_: str, count: int) -> Sequence[int]:
    element, wide = type_.removeprefix("pk_"), type_.startswith("pk_")
    few = count > 2
    values = (_FEW if few else _SPECIAL).get(element)
    if type_ == "bf16" and not few:
        values = _BF16
    if values is None:
        values = (_FEW if few else _OF_BITS)[16 if "16" in element else bits(element)]
    if not wide:
        return values
    shift = bits(type_) // 2
    turned = [*values[5:], *values[:5]]
    return [low | high << shift for low, high in zip(values, turned, strict=True)]


def _others(type_: str, count: int, rng: np.random.Generator) -> NDArray[np.uint64]:
    """Any bits, and, of floats, numbers of like size."""
    found = (
        rng.integers(0, 1 << 64, count, np.uint64, endpoint=False)
        if count
        else np.zeros(0, np.uint64)
    )
    kinds: dict[str, Any] = {"f32": (np.float32, np.uint32), "f64": (np.float64, np.uint64),
                             "f16": (np.float16, np.uint16)}  # fmt: skip
    type_ = type_.partition("_")[0] if type_ in _NEAR_EIGHT | _NEAR_NARROW else type_
    if type_ in kinds:
        float_, whole = kinds[type_]
        like = (rng.standard_normal(count) * 2.0 ** rng.integers(-4, 5, count)).astype(float_)
        return np.where(
            np.arange(count) % 4 != 0, like.view(whole).astype(np.uint64), found & _mask(type_)
        )
    if type_ == "bf16":
        return _others("f32", count, rng) >> np.uint64(16)
    if type_ == "pk_bf16":
        parts = [_others("f32", count, rng) >> np.uint64(16) for _ in range(2)]
        return parts[0] | parts[1] << np.uint64(16)
    small = rng.integers(0, 40, count).astype(np.uint64)
    return np.where(np.arange(count) % 4 == 0, small, found & _mask(type_))


def _mask(type_: str) -> np.uint64:
    return np.uint64((1 << bits(type_)) - 1)
