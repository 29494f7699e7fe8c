"""What instructions on floats compute, as the PTX manual says it, in exact numbers rounded once.

Values are bits. Any NaN stands for all of them. With `.ftz`, subnormal sources and results of f32
and f16 become zeros of their sign; of a result that rounds up to the least normal number, nobody
tells whether it is flushed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen_examine.conform.ptx import exact
from simgen_examine.conform.ptx.exact import FORMATS, FloatFormat, Number, decoded, encoded
from simgen_examine.conform.ptx.integers import joined, told_as
from simgen_examine.conform.ptx.operation import (
    FUNCTIONS,
    Either,
    OpcodeText,
    does,
    limited,
    width,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Result = int | Either


def element(type_: str) -> str:
    """Element type of a packed type."""
    return type_.removesuffix("x2")


def flushed(bits: int, of: FloatFormat) -> int:
    """A subnormal as a zero of its sign."""
    magnitude = bits & of.sign - 1
    return bits & of.sign if magnitude < of.normal else bits


def source(op: OpcodeText, bits: int, type_: str) -> Number:
    """A source as the instruction sees it."""
    of = FORMATS[type_]
    return decoded(flushed(bits, of) if op.ftz and type_ != "f64" else bits, of)


def result(op: OpcodeText, number: Number, type_: str) -> Result:
    """A number as the instruction leaves it: rounded, flushed, limited."""
    of = FORMATS[type_]
    found = encoded(number, of, op.rounding)
    if op.has("sat"):
        if number.nan or number.sign:
            return Either(0, of.sign) if number.zero else 0
        return min(found, of.one) if not op.ftz else flushed(min(found, of.one), of)
    if op.has("relu") and not number.nan and number.sign:
        return Either(0, of.sign) if number.zero or not found & of.sign - 1 else 0
    if op.has("satfinite") and number.infinite | (found & of.sign - 1 == of.infinity):
        found = found & of.sign | of.infinity - 1
    if op.ftz and type_ != "f64":
        if found & of.sign - 1 == of.normal and _below(number, of):
            return Either(found, found & of.sign)
        return flushed(found, of)
    return found


def _below(number: Number, of: FloatFormat) -> bool:
    """Whether a finite number is below the least normal one, before it is rounded."""
    least = decoded(of.normal, of)
    return exact.order(Number(0, number.whole, number.exponent), least) == -1


def _each(op: OpcodeText, does_: Callable[..., Result], *sources: int) -> Result:
    """The same with both halves of packed values."""
    if not op.type.endswith("x2"):
        return does_(*sources)
    halves = [does_(*((each >> shift) & 0xFFFF for each in sources)) for shift in (0, 16)]
    pairs = [(h.first, h.second) if isinstance(h, Either) else (h, h) for h in halves]
    first, second = (low | high << 16 for low, high in zip(*pairs, strict=True))
    return first if first == second else Either(first, second)


def _computed(op: OpcodeText, of: Callable[..., Number], *sources: int) -> Result:
    type_ = element(op.type)

    def one(*values: int) -> Result:
        return result(op, of(*(source(op, each, type_) for each in values)), type_)

    return _each(op, one, *sources)


def _signs(op: OpcodeText, a: int, of: Callable[[int, int], int]) -> Result:
    format_ = FORMATS[element(op.type)]

    def one(bits: int) -> int:
        found = of(bits, format_.sign)
        return flushed(found, format_) if op.ftz else found

    return _each(op, one, a)


def _extreme(op: OpcodeText, a: int, b: int, *, least: bool) -> Result:
    """Smaller or larger value: with a NaN and a number, the number, except with `.NaN`; -0 is below
    0."""
    of = FORMATS[element(op.type)]

    def one(x: int, y: int) -> int:
        if op.ftz:
            x, y = flushed(x, of), flushed(y, of)
        sign = (x ^ y) & of.sign
        if op.has("abs"):
            x, y = x & ~of.sign, y & ~of.sign
        left, right = decoded(x, of), decoded(y, of)
        if left.nan or right.nan:
            if op.has("NaN") or (left.nan and right.nan):
                return of.nan
            found = y if left.nan else x
        else:
            below = exact.order(left, right) == -1 or (
                left.zero and right.zero and left.sign > right.sign
            )
            found = x if below == least else y
        return (found & ~of.sign) | sign if op.has("xorsign") else found

    return _each(op, one, a, b)


@does
def copysign(op: OpcodeText, a: int, b: int) -> int:
    """The sign of a, the magnitude of b."""
    sign = FORMATS[op.type].sign
    return (a & sign) | (b & ~sign)


@does
def testp(op: OpcodeText, a: int) -> int:
    of = FORMATS[op.type]
    number = decoded(a, of)
    subnormal = not number.zero and a & of.sign - 1 < of.normal
    return int({
        "finite": not (number.nan or number.infinite), "infinite": number.infinite,
        "number": not number.nan, "notanumber": number.nan, "subnormal": subnormal,
        "normal": not (number.nan or number.infinite or subnormal),
    }[op.parts[1]])  # fmt: skip


_ORDERED = {"eq": (0,), "ne": (-1, 1), "lt": (-1,), "le": (-1, 0), "gt": (1,), "ge": (1, 0)}


def _holds(op: OpcodeText, a: int, b: int, type_: str) -> int:
    """A comparison: those that end with u are true of NaNs."""
    found = exact.order(source(op, a, type_), source(op, b, type_))
    of = op.parts[1]
    if of in ("num", "nan"):
        return int((found is None) == (of == "nan"))
    if found is None:
        return int(of.endswith("u"))
    return int(found in _ORDERED[of.removesuffix("u")])


@does
def fcompare(op: OpcodeText, a: int, b: int, p: int | None = None) -> int:
    return joined(op, _holds(op, a, b, op.type), p)


@does
def fcompare2(op: OpcodeText, a: int, b: int) -> tuple[int, int]:
    """Comparison of packed values: a truth for each half, the lower first."""
    low, high = (
        _holds(op, a >> shift & 0xFFFF, b >> shift & 0xFFFF, element(op.type)) for shift in (0, 16)
    )
    return low, high


@does
def fslct(op: OpcodeText, a: int, b: int, c: int) -> int:
    """By the sign of a float; -0 is not below 0, of a NaN it is b."""
    found = exact.order(source(op, c, "f32"), Number(0))
    return b if found is None or found < 0 else a


_WHOLE = {"rni": exact.NEAREST, "rzi": exact.ZERO, "rmi": exact.DOWN, "rpi": exact.UP}


@does
def to_integer(op: OpcodeText, a: int) -> int:
    """Limited to the type; of a NaN, 0, or where 64 bits take part, 2^(n-1)."""
    to, of = op.types
    number = source(op, a, of)
    if number.nan:
        return wrapped(1 << width(to) - 1, to) if of == "f64" or width(to) == 64 else 0
    if number.infinite:
        return limited(-(1 << 70) if number.sign else 1 << 70, to)
    # Far beyond any type, a number is as good as its first bits there.
    if number.exponent > 70:
        return limited(-(1 << 70) if number.sign else 1 << 70, to)
    return limited(exact.floored(number, _WHOLE[op.rounding]), to)


@does
def from_integer(op: OpcodeText, a: int) -> Result:
    to, of = op.types
    value = wrapped(a, of)
    return result(op, Number(int(value < 0), abs(value)), to)


@does
def float_to_float(op: OpcodeText, a: int) -> Result | None:
    """Another format, or a whole number of the same one."""
    to, of = op.types
    number = decoded(flushed(a, FORMATS[of]) if op.ftz and of == "f32" else a, FORMATS[of])
    how = _WHOLE.get(op.rounding)
    if how and not (number.nan or number.infinite or number.zero):
        number = Number(number.sign, abs(exact.floored(number, how)))
    if op.rounding == "rna":
        return _tf32(number, a)
    told = result(_with(op, flush=op.ftz and to == "f32"), number, to)
    if op.ftz and to == "f16" and not number.whole and op.rounding in (exact.DOWN, exact.UP):
        # The manual flushes such a source; an H100 rounds it, away from zero as the case may be.
        kept = result(_with(op, flush=False), decoded(a, FORMATS[of]), to)
        if told != kept and isinstance(told, int) and isinstance(kept, int):
            return Either(told, kept)
    return told


def _tf32(number: Number, a: int) -> int | None:
    """f32 with 10 bits of fraction, halfway cases away from zero; the other bits are zeros. What
    becomes of a NaN is not told."""
    if number.nan or number.infinite:
        return a if number.infinite else None
    magnitude = (a & 0x7FFFFFFF) + 0x1000 & ~0x1FFF
    return (a & 0x80000000) | magnitude


def _with(op: OpcodeText, *, flush: bool) -> OpcodeText:
    """The same, which flushes its result or does not."""
    if flush == op.ftz:
        return op
    return OpcodeText(op.name.replace(".ftz", ""), op.tail)


@does
def two_to_packed(op: OpcodeText, a: int, b: int) -> Result:
    """a to the upper half, b to the lower."""
    of = element(op.types[0])
    high, low = (result(op, decoded(each, FORMATS["f32"]), of) for each in (a, b))
    pairs = [(h.first, h.second) if isinstance(h, Either) else (h, h) for h in (low, high)]
    first, second = (x | y << 16 for x, y in zip(*pairs, strict=True))
    return first if first == second else Either(first, second)


FUNCTIONS |= {
    "fadd": lambda op, a, b: _computed(op, lambda x, y: exact.plus(x, y, op.rounding), a, b),
    "fsub": lambda op, a, b: _computed(
        op, lambda x, y: exact.plus(x, y.negated(), op.rounding), a, b
    ),
    "fmul": lambda op, a, b: _computed(op, exact.times, a, b),
    # a b + c, rounded once
    "fma": lambda op, a, b, c: _computed(
        op, lambda x, y, z: exact.plus(exact.times(x, y), z, op.rounding), a, b, c
    ),
    "fdiv": lambda op, a, b: _computed(op, exact.over, a, b),
    "frcp": lambda op, a: _computed(op, lambda x: exact.over(Number(0, 1), x), a),
    "fsqrt": lambda op, a: _computed(op, exact.root, a),
    "fabs": lambda op, a: _signs(op, a, lambda bits, sign: bits & ~sign),
    "fneg": lambda op, a: _signs(op, a, lambda bits, sign: bits ^ sign),
    "fmin": lambda op, a, b: _extreme(op, a, b, least=True),
    "fmax": lambda op, a, b: _extreme(op, a, b, least=False),
    "fset": lambda op, a, b, p=None: told_as(op, fcompare(op, a, b, p)),
}
