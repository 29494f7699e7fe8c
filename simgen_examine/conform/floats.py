"""What instructions on floats compute, as the vendor's manuals say it.

Subnormals are kept, as kernels of ours have it, but for instructions that never take them: there
any result of theirs is right. Where the manuals allow an error, so does `Expected.ulps`.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen_examine.conform.expected import Expected, is_signalling, is_subnormal, unsigned_bits

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen_examine.conform.expected import Values, Where

FUNCTIONS: dict[str, Callable[..., Any]] = {}
U32 = np.uint32
SINE_ERROR = 2.0**-14  # generous: the manuals give no bound
QUIET = {2: 0x0200, 4: 0x00400000, 8: 1 << 51}


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called without NumPy's warnings."""

    @functools.wraps(function)
    def quietly(*sources: Any, **more: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*sources, **more)

    return quietly


def does(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give the description a function by its name."""
    FUNCTIONS[function.__name__] = _quiet(function)
    return FUNCTIONS[function.__name__]


@does
def fmul_legacy(a: Values, b: Values) -> Expected:
    """0 times anything is 0, of NaN and infinity too. It does not take subnormals."""
    value = np.where((a == 0) | (b == 0), np.zeros_like(a), a * b)
    zero = (a == 0) | (b == 0)  # the sign of a zero product is not told
    return Expected(value, _subnormals(a, b, a * b), other=np.where(zero, -value, value))


def _extreme(a: Values, b: Values, of: Callable[[Values, Values], Values]) -> Expected:
    """Smaller or larger value: with a NaN and a number, the number; -0 is below 0. Signalling NaNs
    are left out."""
    least = of is np.minimum
    value = np.where(np.isnan(a), b, np.where(np.isnan(b), a, of(a, b)))
    zeros = (a == 0) & (b == 0)
    negative = np.signbit(a) | np.signbit(b) if least else np.signbit(a) & np.signbit(b)
    zero = np.zeros_like(a)
    value = np.where(zeros, np.where(negative, -zero, zero), value)
    return Expected(value, is_signalling(a) | is_signalling(b))


def _extreme3(a: Values, b: Values, c: Values, of: Any) -> Expected:
    first = _extreme(a, b, of)
    second = _extreme(first.value, c, of)
    return second.freed(is_signalling(a) | is_signalling(b) | is_signalling(c))


@does
def fmed3(a: Values, b: Values, c: Values) -> Expected:
    """The middle of three; with a NaN, the least of all three."""
    nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    middle = np.sort(np.stack([a, b, c]), 0)[1]
    value = np.where(nan, _extreme3(a, b, c, np.minimum).value, middle)
    signalling = is_signalling(a) | is_signalling(b) | is_signalling(c)
    zeros = ((a == 0).astype(int) + (b == 0) + (c == 0)) > 1  # their order is not told
    return Expected(value, signalling | (zeros & (value == 0)))


def fused(a: Values, b: Values, c: Values) -> Values:
    plain = a * b + c
    if a.dtype == np.float64:
        return _fused_exactly(a, b, c, plain)
    # The product of two floats of at most 24 bits is exact in 53. The sum there is rounded to odd,
    # so that the rounding to the type that follows gives what one rounding would.
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    even = total.view(np.uint64) & np.uint64(1) == 0
    off = np.isfinite(total) & (error != 0) & even
    away = (error > 0) == (total > 0)
    step = np.where(away, np.int64(1), np.int64(-1))
    odd = np.where(off, total.view(np.int64) + step, total.view(np.int64)).view(np.float64)
    return odd.astype(a.dtype)


def _fused_exactly(a: Values, b: Values, c: Values, plain: Values) -> Values:
    # Products of numbers are none of infinity, although they may round to it.
    number = np.isfinite(a) & np.isfinite(b)
    found: Values = np.where(number & np.isinf(c), c, plain)
    for at in np.flatnonzero(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)):
        exact = Fraction(float(a[at])) * Fraction(float(b[at])) + Fraction(float(c[at]))
        if exact == 0:  # zeros have signs that fractions have not
            continue
        try:
            found[at] = exact.numerator / exact.denominator
        except OverflowError:
            found[at] = np.inf if exact > 0 else -np.inf
    return found


@does
def mad(a: Values, b: Values, c: Values) -> Expected:
    """a b + c, rounded twice. It does not take subnormals."""
    product = a * b
    return Expected(product + c, _subnormals(a, b, c, product, product + c))


@does
def mad_legacy(a: Values, b: Values, c: Values) -> Expected:
    product = np.where((a == 0) | (b == 0), np.zeros_like(a), a * b)
    zero = (product == 0) & (c == 0)
    return Expected(product + c, _subnormals(a, b, c, product, product + c) | zero)


def _subnormals(*values: Values) -> Where:
    return functools.reduce(np.bitwise_or, [is_subnormal(each) for each in values])


@does
def fract(a: Values) -> Expected:
    """a - floor(a), below 1; of infinities the manuals differ."""
    most = np.nextafter(a.dtype.type(1), a.dtype.type(0))
    value = np.minimum(a - np.floor(a), most)
    zero = value == 0
    return Expected(value, np.isinf(a) | _subnormals(a), other=np.where(zero, -value, value))


@does
def rsq(a: Values) -> Expected:
    wide = _wider(a)
    return _approximate((1 / np.sqrt(wide)).astype(a.dtype), a, 1)


def _estimate(value: Values, a: Values) -> Expected:
    """Estimates of 64-bit floats start an iteration: right to some 2^-24, allow 2^-20."""
    return _approximate(value, a, 1 << 32)


@does
def log2(a: Values) -> Expected:
    """Within 2 ulps; next to 1, where the result vanishes, within an ulp of 1."""
    value = np.log2(_wider(a)).astype(a.dtype)
    of = _approximate(value, a, 2)
    return Expected(of.value, of.free, of.ulps, absolute=float(np.finfo(a.dtype).eps))


def _approximate(value: Values, a: Values, ulps: int) -> Expected:
    """Within some ulps; what is subnormal before or after is not told."""
    return Expected(value, _subnormals(a, value), ulps)


def _wider(a: Values) -> Values:
    return a.astype(np.float64)


def _turned(a: Values, of: Callable[[Values], Values]) -> Expected:
    turns = _wider(a)
    value = of(2 * np.pi * (turns - np.rint(turns))).astype(a.dtype)
    beyond = (np.abs(a) > 256) & ~np.isinf(a)  # here the manuals differ
    error = max(SINE_ERROR, float(np.finfo(a.dtype).eps) * 4)
    return Expected(value, beyond | np.isinf(a) | is_subnormal(a), absolute=error)


@does
def frexp_exp(a: Values) -> Values:
    kind: Any = np.int16 if a.dtype == np.float16 else np.int32
    return np.where(np.isfinite(a), np.frexp(a)[1], 0).astype(kind)


@does
def ldexp(a: Values, b: Values) -> Values:
    """a 2^b, rounded once."""
    by = np.clip(b.astype(np.int64), -5000, 5000)
    if a.dtype == np.float64:
        found = np.array([_scaled(float(x), int(n)) for x, n in zip(a, by, strict=True)])
        return np.where(np.isfinite(a), found, a)
    wide = np.ldexp(a.astype(np.float64), np.clip(by, -600, 600))
    return wide.astype(a.dtype)


def _scaled(value: float, by: int) -> float:
    if not np.isfinite(value) or value == 0:
        return value
    exact = Fraction(value) * Fraction(2) ** by
    try:
        return exact.numerator / exact.denominator or np.copysign(0.0, value)
    except OverflowError:
        return float(np.copysign(np.inf, value))


def _narrowed(a: Values, to: Any) -> Expected:
    return Expected(a.astype(to))


def _saturated(values: Values, to: Any) -> Values:
    of = np.iinfo(to)
    number = np.where(np.isnan(values), 0.0, values)
    return np.clip(number, of.min, of.max).astype(np.int64).astype(to)


def _byte(a: Values, at: int) -> Values:
    return (a >> U32(8 * at) & U32(0xFF)).astype(np.float32)


FUNCTIONS |= {f"ubyte{at}": functools.partial(_byte, at=at) for at in range(4)}


@does
def off_i4(a: Values) -> Values:
    """The low four bits, signed, in sixteenths."""
    low = (a & U32(15)).astype(np.int32)
    return ((low ^ 8) - 8).astype(np.float32) / np.float32(16)


@does
def pkrtz(a: Values, b: Values) -> Expected:
    """Two halves, rounded towards 0."""
    low, high = (unsigned_bits(_to_zero(each)).astype(U32) for each in (a, b))
    made = low | high << U32(16)
    nan = np.isnan(a) | np.isnan(b)
    return Expected(made, nan)


def _to_zero(a: Values) -> Values:
    near = a.astype(np.float16)
    over = np.abs(near.astype(np.float64)) > np.abs(a.astype(np.float64))
    less = np.nextafter(near, np.float16(0))
    return np.where(over, less, near)


@does
def div_fixup(a: Values, b: Values, c: Values) -> Expected:
    """The quotient `a` of c / b, put right where c or b are special."""
    negative = np.signbit(b) ^ np.signbit(c)

    def signed(magnitude: float) -> Values:
        return np.where(negative, a.dtype.type(-magnitude), a.dtype.type(magnitude))

    value = np.where(negative, -np.abs(a), np.abs(a))
    exponents = np.frexp(c)[1].astype(int) - np.frexp(b)[1]
    value = np.where(np.isinf(b) | (c == 0), signed(0.0), value)
    value = np.where((b == 0) | np.isinf(c), signed(np.inf), value)
    both = (b == 0) & (c == 0) | np.isinf(b) & np.isinf(c)
    value = np.where(both | np.isnan(b) | np.isnan(c), a.dtype.type(np.nan), value)
    plain = np.isfinite(b) & np.isfinite(c) & (b != 0) & (c != 0)
    most = {4: 100, 8: 900, 2: 8}[a.dtype.itemsize]
    # Quotients that may overflow or be subnormal are rounded by rules of their own.
    return Expected(
        value, plain & ((np.abs(exponents) > most) | _subnormals(a, b, c) | np.isnan(a))
    )


@does
def div_fmas(a: Values, b: Values, c: Values, carry: Where) -> Expected:
    """a b + c, and scaled where VCC is set: by what, is left out."""
    value = fused(a, b, c)
    return Expected(value, carry | is_subnormal(value))


@does
def div_scale(a: Values, b: Values, c: Values) -> tuple[Expected, Expected]:
    """`a`, scaled where c / b would be subnormal or overflow; VCC tells div_fmas of it.

    `a` is b or c. Left out is what is near the limits.
    """
    top = {4: 126, 8: 1022}[a.dtype.itemsize]
    apart = {4: 96, 8: 768}[a.dtype.itemsize]
    low = {4: 25, 8: 55}[a.dtype.itemsize]
    of_b, of_c = np.frexp(b)[1].astype(int), np.frexp(c)[1].astype(int)
    ordinary = np.isfinite(b) & np.isfinite(c) & (b != 0) & (c != 0)
    ordinary &= (np.abs(of_b) < top - 4) & (of_c > low - top) & (np.abs(of_c - of_b) < apart - 2)
    far = np.isfinite(b) & np.isfinite(c) & (b != 0) & (c != 0) & ~_subnormals(b, c)
    far &= of_c - of_b > apart + 2
    zero = (b == 0) | (c == 0)
    value = np.where(zero, a.dtype.type(np.nan), a)
    told = ordinary | (zero & ~np.isnan(b) & ~np.isnan(c) & ~np.isinf(b) & ~np.isinf(c))
    return Expected(value, ~told), Expected(far, ~(ordinary | far))


@does
def fclass(a: Values, b: Values) -> Where:
    """Whether a float is of a class that the mask `b` has a bit for."""
    negative, subnormal = np.signbit(a), is_subnormal(a)
    nan, signalling, infinite = np.isnan(a), is_signalling(a), np.isinf(a)
    normal = np.isfinite(a) & ~subnormal & (a != 0)
    classes = (
        signalling, nan & ~signalling, infinite & negative, normal & negative,
        subnormal & negative, (a == 0) & negative, (a == 0) & ~negative, subnormal & ~negative,
        normal & ~negative, infinite & ~negative,
    )  # fmt: skip
    found = np.zeros(a.shape, bool)
    for at, each in enumerate(classes):
        found |= each & (b >> b.dtype.type(at) & b.dtype.type(1) != 0)
    return found


_COMPARE: dict[str, Callable[[Values, Values], Where]] = {
    "f": lambda a, b: np.zeros(a.shape, bool),
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": lambda a, b: a >= b,
    "o": lambda a, b: ~np.isnan(a) & ~np.isnan(b),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: a != b,
    "nlt": lambda a, b: ~(a < b),
    "tru": lambda a, b: np.ones(a.shape, bool),
}
FUNCTIONS |= {f"fcmp_{name}": function for name, function in _COMPARE.items()}


def negated(values: Values) -> Values:
    """With the sign bit turned, of NaNs too."""
    bits = unsigned_bits(values)
    top = bits.dtype.type(1 << bits.dtype.itemsize * 8 - 1)
    return (bits ^ top).view(values.dtype)


def absolute(values: Values) -> Values:
    """Without the sign bit."""
    bits = unsigned_bits(values)
    top = bits.dtype.type(1 << bits.dtype.itemsize * 8 - 1)
    return (bits & ~top).view(values.dtype)


def clamped(of: Expected) -> Expected:
    """Held in [0, 1]; NaN becomes 0 (DX10_CLAMP). The sign of a zero is not told."""
    held = _held(of.value)
    other = np.where(held == 0, -held, held)
    if of.other is not None:
        also = _held(of.other)
        other = np.where(also == held, other, also)
    return Expected(held, of.free, of.ulps, other, of.absolute)


def _held(value: Values) -> Values:
    with np.errstate(all="ignore"):
        held = np.where(np.isnan(value), 0, np.clip(value, 0, 1)).astype(value.dtype)
    return np.where(held == 0, np.zeros_like(held), held)


def multiplied(of: Expected, by: float) -> Expected:
    """With the output modifier: times 2, 4 or 1/2. Zeros and subnormals are left out."""
    with np.errstate(all="ignore"):
        value = (of.value * of.value.dtype.type(by)).astype(of.value.dtype)
        least = _subnormals(value, of.value) | (value == 0)
    free = least if of.free is None else of.free | least
    return Expected(value, free, of.ulps, absolute=of.absolute * by)


_ROWS: dict[str, Callable[..., Any]] = {
    "fadd": lambda a, b: a + b,
    "fsub": lambda a, b: a - b,
    "fsubrev": lambda a, b: b - a,
    "fmul": lambda a, b: a * b,
    "fmin": lambda a, b: _extreme(a, b, np.minimum),
    "fmax": lambda a, b: _extreme(a, b, np.maximum),
    "fmin3": lambda a, b, c: _extreme3(a, b, c, np.minimum),
    "fmax3": lambda a, b, c: _extreme3(a, b, c, np.maximum),
    "fma": fused,  # a b + c, rounded once, whatever the type
    # multiply-add of halves. Whether the product is rounded is unspecified for some chips
    "mad16": lambda a, b, c: Expected(
        (a * b) + c, _subnormals(a, b, c, a * b, a * b + c), other=fused(a, b, c)
    ),
    "trunc": lambda a: np.trunc(a),
    "ceil": lambda a: np.ceil(a),
    "floor": lambda a: np.floor(a),
    "rndne": lambda a: np.rint(a),
    "rcp": lambda a: _approximate(a.dtype.type(1) / a, a, 1),
    "sqrt": lambda a: _approximate(np.sqrt(a), a, 1),
    "rcp64": lambda a: _estimate(1 / a, a),
    "rsq64": lambda a: _estimate(1 / np.sqrt(a), a),
    "sqrt64": lambda a: _estimate(np.sqrt(a), a),
    "exp2": lambda a: _approximate(np.exp2(_wider(a)).astype(a.dtype), a, 2),
    "sin": lambda a: _turned(a, np.sin),  # sine of turns: sin(2 pi a), for |a| of at most 256
    "cos": lambda a: _turned(a, np.cos),
    "frexp_mant": lambda a: np.where(np.isfinite(a), np.frexp(a)[0].astype(a.dtype), a),
    "cvt_f32": lambda a: _narrowed(a, np.float32),
    "cvt_f64": lambda a: a.astype(np.float64),
    "cvt_f16": lambda a: _narrowed(a, np.float16),
    "cvt_i32": lambda a: _saturated(np.trunc(_wider(a)), np.int32),
    "cvt_u32": lambda a: _saturated(np.trunc(_wider(a)), np.uint32),
    "cvt_i16": lambda a: _saturated(np.trunc(_wider(a)), np.int16),
    "cvt_u16": lambda a: _saturated(np.trunc(_wider(a)), np.uint16),
    "cvt_nearest_i32": lambda a: _saturated(np.floor(_wider(a) + 0.5), np.int32),
    "cvt_floor_i32": lambda a: _saturated(np.floor(_wider(a)), np.int32),
}
FUNCTIONS |= {name: _quiet(function) for name, function in _ROWS.items()}
