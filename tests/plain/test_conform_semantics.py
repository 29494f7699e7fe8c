"""What instructions compute, against known vectors and against other ways to compute it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from census import census

from simgen_examine.conform import arithmetic, description, floats, integers, values
from simgen_examine.conform.expected import Expected

F, D, U, I = np.float32, np.float64, np.uint32, np.int32  # noqa: E741
NAN, INF = np.nan, np.inf
ARCHITECTURES = ("gfx803", "gfx902", "gfx90a", "gfx942")

# (function, type of the sources, sources, result): from the manuals' words, worked out by hand.
VECTORS = [
    ("highest_zeros", U, [[0, 1, 0x80000000, 0x00FF0000]], [0xFFFFFFFF, 31, 0, 8]),
    ("lowest_one", U, [[0, 1, 0x80000000, 0x00FF0000]], [0xFFFFFFFF, 0, 31, 16]),
    ("highest_sign", U, [[0, 0xFFFFFFFF, 1, 0xF0000000]], [0xFFFFFFFF, 0xFFFFFFFF, 31, 4]),
    ("bfrev", U, [[1, 0xF0000000, 0]], [0x80000000, 0x0000000F, 0]),
    ("bfi", U, [[0xFF00], [0x1234], [0xABCD]], [0x12CD]),
    ("alignbit", U, [[1], [0x80000000], [31]], [3]),
    ("alignbyte", U, [[0x11223344], [0xAABBCCDD], [1]], [0x44AABBCC]),
    ("perm", U, [[0x11223344], [0x8899AABB], [0x0D0C0704]], [0xFF001144]),
    ("perm", U, [[0x7FFF8000], [0x8000FFFF], [0x0B0A0908]], [0x00FFFFFF]),
    ("mul_24", U, [[0xFF000003], [0x01000005]], [15]),
    ("mul_24", I, [[0x00FFFFFF], [5]], [-5]),
    ("mul_hi_24", U, [[0xFFFFFF], [0xFFFFFF]], [0xFFFF]),
    ("mul_hi", I, [[-2], [3]], [-1]),
    ("bfe", I, [[0x80], [4], [4]], [-8]),
    ("bfe", U, [[0xABCD1234], [8], [8]], [0x12]),
    ("sad_u8", U, [[0x01FF0310], [0x0200FF00], [1]], [1 + 255 + 252 + 16 + 1]),
    ("dot4", U, [[0x01020304], [0x01010101], [5]], [15]),
    ("subb", U, [[0], [0xFFFFFFFF]], None),
    ("cvt_i32", F, [[1.9, -1.9, 3e9, -3e9, NAN, INF]], [1, -1, 2**31 - 1, -(2**31), 0, 2**31 - 1]),
    ("cvt_u32", F, [[1.9, -1.9, 5e9, NAN]], [1, 0, 2**32 - 1, 0]),
    ("cvt_nearest_i32", F, [[0.5, 1.5, -0.5]], [1, 2, 0]),
    ("rndne", F, [[0.5, 1.5, 2.5, -0.5]], [0.0, 2.0, 2.0, -0.0]),
    ("fract", F, [[1.25, -0.25]], [0.25, 0.75]),
    ("off_i4", U, [[0, 7, 8, 15, 0x10]], [0.0, 7 / 16, -0.5, -1 / 16, 0.0]),
    ("frexp_mant", F, [[8.0, 0.75, INF]], [0.5, 0.75, INF]),
    ("frexp_exp", F, [[8.0, 0.75, INF, NAN]], [4, 0, 0, 0]),
    ("fmin", F, [[0.0, NAN, 1.0], [-0.0, 2.0, NAN]], [-0.0, 2.0, 1.0]),
    ("fmax", F, [[0.0, NAN, 1.0], [-0.0, 2.0, NAN]], [0.0, 2.0, 1.0]),
    ("fmed3", F, [[1.0, 5.0], [2.0, NAN], [3.0, 4.0]], [2.0, 4.0]),
    ("fma", D, [[3.0, INF], [1.7e308, 1.0], [-INF, -INF]], [-INF, NAN]),
    ("fma", F, [[3.0, INF], [3.4e38, 1.0], [-INF, -INF]], [-INF, NAN]),
    ("fmul_legacy", F, [[0.0, 2.0], [INF, 3.0]], [0.0, 6.0]),
    ("pkrtz", F, [[1.0, 65535.0], [-2.0, 1.0 + 2**-11]], [0xC0003C00, 0x3C007BFF]),
    ("div_fixup", F, [[9.0, 9, 9, 9], [0.0, INF, 0, 2], [-1.0, 3, 0, -6]], [-INF, 0.0, NAN, -9.0]),
]  # fmt: skip


@census("name, type_, sources, result", [each for each in VECTORS if each[3] is not None])
def test_known_vectors(name: str, type_: type, sources: list[list[float]], result: list[float]):
    found = arithmetic.FUNCTIONS[name](*(np.array(each, type_) for each in sources))
    value = found.value if isinstance(found, Expected) else found
    assert Expected(value).right(np.array(result).astype(value.dtype)).all(), value


def test_products_of_halves_and_sums_of_words():
    of = integers.FUNCTIONS["mad_halves"]
    least, most = np.array([-(2**15)], np.int16), np.array([2**16 - 1], np.uint16)
    assert of(least, least, np.array([-1], I)).tolist() == [2**30 - 1]
    assert of(least, ~least, np.array([2], I)).tolist() == [2 - 2**15 * (2**15 - 1)]
    assert of(most, most, np.array([2**17], U)).tolist() == [1]  # 2^32 + 1


def test_borrows_and_carries():
    a, b, carry = np.array([0, 5], U), np.array([0xFFFFFFFF, 5], U), np.array([True, True])
    difference, borrowed = integers.FUNCTIONS["subb"](a, b, carry)
    assert difference.tolist() == [0, 0xFFFFFFFF]
    assert borrowed.tolist() == [True, True]
    total, carried = integers.FUNCTIONS["addc"](b, a, carry)
    assert total.tolist() == [0, 11]
    assert carried.tolist() == [True, False]


@pytest.mark.parametrize("type_", ["f16", "f32", "f64"])
def test_a_fused_multiply_add_is_rounded_once(type_: str):
    words = values.tuples((type_, type_, type_))
    a, b, c = (integers.typed(words[at], type_) for at in range(3))
    found = floats.FUNCTIONS["fma"](a, b, c)
    number = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & np.isfinite(found) & (found != 0)
    assert number.sum() > 100
    for at in np.flatnonzero(number):
        exact = Fraction(float(a[at])) * Fraction(float(b[at])) + Fraction(float(c[at]))
        error = abs(Fraction(float(found[at])) - exact)
        for other in (-INF, INF):
            with np.errstate(over="ignore", under="ignore"):
                neighbour = float(np.nextafter(found[at], found.dtype.type(other)))
            if np.isfinite(neighbour):
                assert error <= abs(Fraction(neighbour) - exact)


def test_classes_of_floats():
    bits = [0x7F800001, 0x7FC00000, 0xFF800000, 0xBF800000, 0x80000001, 0x80000000, 0, 1,
            0x3F800000, 0x7F800000]  # fmt: skip
    a = np.array(bits, U).view(F)
    for at in range(len(bits)):
        found = floats.FUNCTIONS["fclass"](a, np.full(len(bits), 1 << at, U))
        assert found.tolist() == [n == at for n in range(len(bits))]


def test_what_is_right_is_no_wider_than_it_says():
    one = np.array([1.0], F)
    near = Expected(one, ulps=1)
    assert near.right(np.nextafter(one, F(2))).all()
    assert not near.right(one + np.finfo(F).eps * 2).any()
    assert not near.right(np.array([NAN], F)).any()
    assert not Expected(np.array([0.0], F)).right(np.array([-0.0], F)).any()
    assert Expected(np.array([NAN], F)).right(np.array([0xFFC00001], U).view(F)).all()


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_function_of_the_description_is_there(arch: str):
    found = list(description.instructions(arch))
    assert len(found) > 400
    assert {each.function for each in found} <= set(arithmetic.FUNCTIONS)
