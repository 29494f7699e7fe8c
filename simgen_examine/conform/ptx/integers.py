"""What instructions on whole numbers compute, as the PTX manual says it, in Python's integers.

Results are cut to their type by who calls; `.sat` limits them here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen_examine.conform.ptx.operation import FUNCTIONS, does, limited, signed, width, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen_examine.conform.ptx.operation import OpcodeText

NOT_FOUND = 0xFFFFFFFF


def _saturated(op: OpcodeText, number: int) -> int:
    return limited(number, op.type) if op.has("sat") else number


def _halves(value: int, type_: str) -> list[int]:
    """The two elements of a packed value, the lower first."""
    element = type_.removesuffix("x2")
    return [wrapped(value >> shift, element) for shift in (0, 16)]


def _packed(low: int, high: int) -> int:
    return (low & 0xFFFF) | (high & 0xFFFF) << 16


@does
def add(op: OpcodeText, a: int, b: int) -> int:
    if op.type.endswith("x2"):
        return _packed(
            *(x + y for x, y in zip(_halves(a, op.type), _halves(b, op.type), strict=True))
        )
    return _saturated(op, a + b)


@does
def mul(op: OpcodeText, a: int, b: int) -> int:
    """The lower half of the product, the upper one, or all of it."""
    return a * b >> width(op.type) if op.has("hi") else a * b


@does
def mul24(op: OpcodeText, a: int, b: int) -> int:
    """Product of the lower 24 bits: bits 31 to 0, or 47 to 16."""
    product = _low24(a, op.type) * _low24(b, op.type)
    return product >> 16 if op.has("hi") else product


def _low24(number: int, type_: str) -> int:
    low = number & 0xFFFFFF
    return low - (1 << 24) if signed(type_) and low >> 23 else low


@does
def div(op: OpcodeText, a: int, b: int) -> int | None:
    """Towards zero. Nobody tells what a division by zero, or one that overflows, gives."""
    if b == 0 or _overflows(op, a, b):
        return None
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


@does
def rem(op: OpcodeText, a: int, b: int) -> int | None:
    if b == 0 or _overflows(op, a, b):
        return None
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _overflows(op: OpcodeText, a: int, b: int) -> bool:
    return signed(op.type) and b == -1 and a == -(1 << width(op.type) - 1)


def _extreme(op: OpcodeText, a: int, b: int) -> int:
    of = min if op.root == "min" else max
    relu = op.has("relu")
    if op.type.endswith("x2"):
        found = [of(pair) for pair in zip(_halves(a, op.type), _halves(b, op.type), strict=True)]
        return _packed(*(max(each, 0) if relu else each for each in found))
    return max(of(a, b), 0) if relu else of(a, b)


@does
def bfind(op: OpcodeText, a: int) -> int:
    """The highest bit that is not the sign's."""
    found = (~a if a < 0 else a).bit_length() - 1
    if found < 0:
        return NOT_FOUND
    return width(op.type) - 1 - found if op.has("shiftamt") else found


@does
def bfe(op: OpcodeText, a: int, b: int, c: int) -> int | None:
    """c bits from bit b on; what is beyond the highest one is the sign."""
    if _too_far(op, b, c):
        return None
    bits, pos, length = width(op.type), b & 0xFF, c & 0xFF
    if not length:
        return 0
    if pos >= bits:
        return -1 if a < 0 else 0
    length = min(length, bits - pos)
    low = a >> pos & (1 << length) - 1
    return low - (1 << length) if signed(op.type) and low >> length - 1 else low


@does
def bfi(op: OpcodeText, a: int, b: int, c: int, d: int) -> int | None:
    """d bits of a put into b from bit c on."""
    if _too_far(op, c, d):
        return None
    pos, length = c & 0xFF, d & 0xFF
    mask = ((1 << length) - 1 << pos) & (1 << width(op.type)) - 1
    return (a << pos & mask) | (b & ~mask)


def _too_far(op: OpcodeText, *told: int) -> bool:
    """Places and lengths are restricted to 0 to 255, and cut to 8 bits, which an H100 does not do
    with fields of 64 bits: nothing is expected there."""
    return width(op.type) == 64 and max(told) > 255


@does
def fns(_: OpcodeText, mask: int, base: int, offset: int) -> int | None:
    """The n-th bit that is set, from a bit on, up or down."""
    if base > 31 or offset == -(1 << 31):  # which has no magnitude
        return None
    if offset == 0:
        return base if mask >> base & 1 else NOT_FOUND
    step = 1 if offset > 0 else -1
    there = [at for at in range(base, 32 if step > 0 else -1, step) if mask >> at & 1]
    return there[abs(offset) - 1] if abs(offset) <= len(there) else NOT_FOUND


@does
def szext(op: OpcodeText, a: int, b: int) -> int:
    """The lower b bits, with the sign of the highest of these, or zeros."""
    count = b & 31
    if op.has("clamp") and b >= 32:
        return a
    if not count:
        return 0
    low = a & (1 << count) - 1
    return low - (1 << count) if signed(op.type) and low >> count - 1 else low


@does
def bmsk(op: OpcodeText, a: int, b: int) -> int:
    """b ones from bit a on."""
    start, count = a & 31, b & 31
    if op.has("clamp"):
        if a >= 32:
            return 0
        count = min(b, 32)
    return ((1 << count) - 1 << start) & 0xFFFFFFFF


def _bytes(value: int, type_: str) -> list[int]:
    return [wrapped(value >> shift, f"{type_[0]}8") for shift in (0, 8, 16, 24)]


@does
def dp4a(op: OpcodeText, a: int, b: int, c: int) -> int:
    left, right = _bytes(a, op.types[0]), _bytes(b, op.types[1])
    return c + sum(x * y for x, y in zip(left, right, strict=True))


@does
def dp2a(op: OpcodeText, a: int, b: int, c: int) -> int:
    left = [wrapped(a >> shift, f"{op.types[0][0]}16") for shift in (0, 16)]
    right = _bytes(b, op.types[1])[2 if op.has("hi") else 0 :][:2]
    return c + sum(x * y for x, y in zip(left, right, strict=True))


@does
def lop3(op: OpcodeText, a: int, b: int, c: int) -> int:
    """Any function of three bits, by its table in the tail."""
    table, found = int(op.tail.strip(", "), 0), 0
    for row in range(8):
        if table >> row & 1:
            terms = (each if row >> at & 1 else ~each for each, at in ((a, 2), (b, 1), (c, 0)))
            both = 0xFFFFFFFF
            for term in terms:
                both &= term
            found |= both
    return found


@does
def shf(op: OpcodeText, a: int, b: int, c: int) -> int:
    """A word of a 64-bit value that is shifted."""
    count = min(c, 32) if op.has("clamp") else c & 31
    whole = b << 32 | a
    return (whole << count) >> 32 if op.has("l") else whole >> count


_MODES: dict[str, Callable[[int], list[int]]] = {
    "f4e": lambda n: [n, n + 1, n + 2, n + 3],
    "b4e": lambda n: [n, n - 1 & 7, n - 2 & 7, n - 3 & 7],
    "rc8": lambda n: [n] * 4,
    "ecl": lambda n: [max(n, at) for at in range(4)],
    "ecr": lambda n: [min(n, at) for at in range(4)],
    "rc16": lambda n: [2, 3, 2, 3] if n & 1 else [0, 1, 0, 1],
}


@does
def prmt(op: OpcodeText, a: int, b: int, c: int) -> int:
    """Four bytes of eight. Without a mode, the top bit of a selector asks for the byte's sign."""
    whole, found = b << 32 | a, 0
    mode = next((each for each in op.parts if each in _MODES), "")
    picked = _MODES[mode](c & 3) if mode else [c >> shift & 15 for shift in (0, 4, 8, 12)]
    for at, which in enumerate(picked):
        byte = whole >> 8 * (which & 7) & 0xFF
        if which & 8:
            byte = 0xFF if byte >> 7 else 0
        found |= byte << 8 * at
    return found


@does
def compare(op: OpcodeText, a: int, b: int, p: int | None = None) -> int:
    """Comparison of whole numbers, combined with a predicate."""
    of = op.parts[1]
    found = {
        "eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b,
        "lo": a < b, "ls": a <= b, "hi": a > b, "hs": a >= b,
    }[of]  # fmt: skip
    return joined(op, int(found), p)


def joined(op: OpcodeText, found: int, p: int | None) -> int:
    """The truth of a comparison with that of a predicate."""
    if p is None:
        return found
    return found & p if op.has("and") else found | p if op.has("or") else found ^ p


def told_as(op: OpcodeText, truth: int) -> int:
    """A truth value as the result of `set`: all ones, or 1.0."""
    one = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}.get(op.types[0], -1)
    return one if truth else 0


@does
def convert(op: OpcodeText, a: int) -> int:
    """A whole number as one of another type."""
    of, to = op.types[1], op.types[0]
    a = wrapped(a, of)
    return limited(a, to) if op.has("sat") else wrapped(a, to)


def carried(op: OpcodeText, a: int, b: int, c: int | None, carry: int) -> tuple[int, int]:
    """A sum of the extended precision, and its carry or borrow."""
    bits = width(op.type)
    a, b = a & (1 << bits) - 1, b & (1 << bits) - 1
    if op.root.startswith("sub"):
        return a - b - carry, int(a - b - carry < 0)
    if c is None:
        return a + b + carry, a + b + carry >> bits
    product = wrapped(a, op.type) * wrapped(b, op.type)
    part = (product >> bits if op.has("hi") else product) & (1 << bits) - 1
    c &= (1 << bits) - 1
    return part + c + carry, part + c + carry >> bits


@does
def carry_out(op: OpcodeText, *sources: int) -> tuple[int, int]:
    """With .cc: the result, and the carry as the instruction behind shows it.

    addc and the like get theirs from the last source: it is not zero.
    """
    *rest, last = sources
    takes = op.root.endswith("c")
    terms = rest if takes else list(sources)
    found, carry = carried(op, terms[0], terms[1], terms[2] if len(terms) > 2 else None,
                           int(takes and last != 0))  # fmt: skip
    return found, -carry if op.root.startswith("sub") else carry


@does
def without_carry(op: OpcodeText, *sources: int) -> int:
    """With .cc, but for the carry."""
    found: int = carry_out(op, *sources)[0]
    return found


@does
def carry_in(op: OpcodeText, *sources: int) -> int:
    """Without .cc, and a carry from the last source."""
    *terms, last = sources
    return carried(op, terms[0], terms[1], terms[2] if len(terms) > 2 else None, int(last != 0))[0]


@does
def low_and_high(op: OpcodeText, a: int) -> tuple[int, int]:
    """The halves of a value of 32 or 64 bits, as two registers."""
    bits = width(op.type) // 2
    return a & (1 << bits) - 1, a >> bits


@does
def joined_halves(op: OpcodeText, a: int, b: int) -> int:
    bits = width(op.type) // 2
    return a | b << bits


@does
def packed_limits(op: OpcodeText, a: int, b: int, c: int = 0) -> int:
    """cvt.pack: two 32-bit numbers limited to a type, and behind them, parts of the third."""
    to = op.types[0]
    bits = width(to)
    mask = (1 << bits) - 1
    pair = (limited(a, to) & mask) << bits | (limited(b, to) & mask)
    return pair | c << 2 * bits


FUNCTIONS |= {
    "sub": lambda op, a, b: _saturated(op, a - b),
    "mad": lambda op, a, b, c: _saturated(op, mul(op, a, b) + c),
    "mad24": lambda op, a, b, c: _saturated(op, wrapped(mul24(op, a, b), op.type) + c),
    "sad": lambda _, a, b, c: c + abs(a - b),
    "absolute": lambda _, a: abs(a),
    "neg": lambda _, a: -a,
    "minimum": _extreme,
    "maximum": _extreme,
    "popc": lambda _, a: a.bit_count(),
    "clz": lambda op, a: width(op.type) - a.bit_length(),
    "brev": lambda op, a: int(f"{a:0{width(op.type)}b}"[::-1], 2),
    "cnot": lambda _, a: int(a == 0),
    "bit_and": lambda _, a, b: a & b,
    "bit_or": lambda _, a, b: a | b,
    "bit_xor": lambda _, a, b: a ^ b,
    "bit_not": lambda _, a: ~a,
    "shl": lambda op, a, b: a << min(b, width(op.type)),
    "shr": lambda op, a, b: a >> min(b, width(op.type)),
    "move": lambda _, a: a,
    "selp": lambda _, a, b, p: a if p else b,
    "set_": lambda op, a, b, p=None: told_as(op, compare(op, a, b, p)),
    "slct": lambda _, a, b, c: a if c >= 0 else b,
}
