"""What stands for an instruction that a simulator lacks or executes wrongly: an expression.

A function gets the sources in the order of assembly text (what is read and written among them), as
words, or as a `Wide` of words; it gives the results in that order. Which simulator needs it, the
table of its instructions says. A source whose number is known is that number.
"""

from __future__ import annotations

import inspect
from functools import partial
from operator import rshift
from typing import TYPE_CHECKING, Any, NamedTuple

from simgen.isa.legalise import doubles, roles
from simgen.isa.legalise.assembly import integer, is_vgpr, registers, source_modifiers
from simgen.isa.legalise.expression import (
    ALL,
    SIGN,
    Term,
    Word,
    add_co,
    carry,
    emit,
    eq,
    fgt,
    flt,
    fmin,
    fmul,
    from_byte,
    fsub,
    ge,
    gt,
    imad24,
    le,
    lt,
    lt_64,
    mul24,
    mulhi,
    ne,
    pair,
    rev,
    sad_u8,
    sar,
    sge,
    sgt,
    sle,
    slt,
    smax,
    smin,
    sub_co,
    term,
    to_u32,
    trunc,
    umax,
    umin,
    where,
)
from simgen.isa.legalise.table import ARCHS, GFX803, GFX942, rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simgen.isa.legalise.site import Site

    Expression = Callable[..., Any]

ONE, MINUS_ONE, ALMOST_ONE = 0x3F800000, 0xBF800000, 0x3F7FFFFF  # floats
TWO_TO_64 = 0x5F800000
LOW, MAGNITUDE = 0xFFFF, 0x7FFFFFFF
KNOWN = ("selector", "first", "width")  # sources whose numbers are looked for


class Wide(NamedTuple):
    """The words of 64 bits."""

    low: Word
    high: Word


def sx(x: Word) -> Word:
    """The lower half with its sign."""
    return sar(x << 16, 16)


def ones(x: Word) -> Word:
    """How many bits are 1 (Warren, "Hacker's Delight", chapter 5)."""
    x = x - (x >> 1 & 0x55555555)
    x = (x >> 2 & 0x33333333) + (x & 0x33333333)
    x = (x >> 4) + x & 0x0F0F0F0F
    return x * 0x01010101 >> 24


def lowest(x: Word) -> Word:
    """The place of the lowest 1: the zeros below it are the bits of (x - 1) & ~x. -1 if none."""
    return where(eq(x, 0), ALL, ones(x - 1 & ~x))


def half_sign(a: Word, b: Word) -> Word:
    """What an unsigned product is too large by, in its upper half."""
    return (sar(a, 31) & b) + (sar(b, 31) & a)


def below(mask: Word, more: Word, lane: Word, *, upper: bool) -> Word:
    """The bits of half a mask that belong to lanes below the own one: of lanes 0 to 31, or the
    others. With n = lane - first, those are the lower n bits: (1 << n) - 1 for n in 0 to 31."""
    bits = (1 << lane) - 1
    near = gt(32, lane) if upper else le(32, lane)
    return ones(mask & where(near, 0 if upper else ALL, bits)) + more


def align(high: Word, low: Word, n: Word) -> Word:
    """The lower half of {high, low} >> n: high << (32 - n) as (high << 1) << (31 - n)."""
    return high << 1 << (n ^ 31) | low >> n


def field(x: Word, first: Word, width: Word) -> Word:
    """Bits with the sign of the uppermost one."""
    first, width = (x & 31 if isinstance(x, int) else x for x in (first, width))
    if isinstance(first, int) and isinstance(width, int):
        if not width:
            return 0
        return sar(x << max(32 - first - width, 0), max(32 - width, first))
    beyond = 1 << width
    return (sar(x, first) & beyond - 1 ^ beyond >> 1) - (beyond >> 1)


def picked(high: Word, low: Word, selector: Word) -> Word:
    """Each byte of the selector picks one of eight: 0 to 3 of the second source, 4 to 7 of the
    first. 8 to 11 are the signs of the four upper bytes of 16 bits, 12 is 0, the others are 255."""
    if isinstance(selector, int):
        return picked_known(high, low, selector)
    found: Word = 0
    for at in range(4):
        pick = selector >> 8 * at & 255
        byte = where(lt(3, pick), high, low) >> (pick << 3)
        sign = sar(where(lt(9, pick), high, low) << ((~pick & 1) << 4), 31)
        byte = where(lt(7, pick), sign, byte)
        byte = where(lt(12, pick), ALL, where(eq(12, pick), 0, byte)) & 255
        found = byte << 8 * at | found
    return found


def picked_known(high: Word, low: Word, selector: int) -> Word:
    """Bytes that move together, together."""
    parts: dict[Word, int] = {}  # a moved source -> bits of the result
    for at in range(4):
        pick, here = selector >> 8 * at & 255, 0xFF << 8 * at
        if pick < 8:
            source, by = (low, high)[pick >> 2], 8 * (at - (pick & 3))
            part = source << by if by >= 0 else source >> -by
        elif pick < 12:
            source = (low, high)[pick - 8 >> 1]
            part = sar(source << 16 * (1 - (pick & 1)), 31)
        else:
            part = ALL if pick > 12 else 0
        parts[part] = parts.get(part, 0) | here
    constant = parts.pop(ALL, 0) | parts.pop(0, 0) * 0
    found: Word = 0
    for part, bits in parts.items():
        found = found | kept(part, bits)
    return found | constant


def kept(part: Word, bits: int) -> Word:
    """Some bits of a word that was moved by a constant."""
    by = part.args[0] if part.op in ("lshlrev_b32", "lshrrev_b32") else 0
    left = {"lshlrev_b32": ALL << by & ALL, "lshrrev_b32": ALL >> by}.get(part.op, ALL)
    return part if bits == left else part & bits


def product_sum(width: int, shifted: Callable[[Word, int], Word] = sar) -> Expression:
    """The products of parts of two words, signed by an arithmetic shift, and a third word."""

    def of(a: Word, b: Word, total: Word) -> Word:
        for at in range(0, 32, width):
            x, y = (shifted(each << 32 - width - at, 32 - width) for each in (a, b))
            total = imad24(x, y, total)
        return total

    return of


def saturated(a: Word, b: Word, total: Word, changed: Word) -> Word:
    """The sum if it fits, else the limit on the side of the first source."""
    return where(slt(changed, 0), sar(a, 31) ^ MAGNITUDE, total)


def limited(total: Word, limit: int) -> tuple[Word, Word]:
    """A sum, or its limit where it has a carry; and the carry, which gfx8 has an operand for."""
    return where(carry(total), limit, total), carry(total)


def clamped_16(total: Word) -> Word:
    return smin(smax(total, -0x8000 & ALL), MAGNITUDE >> 16) & LOW


def multiplied(a: Word, b: Word, c: Wide, *, signed: bool) -> tuple[Wide, Word]:
    """The product of 64 bits, added to a number; and the carry."""
    high = mulhi(a, b)
    if signed:
        high = high - (sar(a, 31) & b) - (sar(b, 31) & a)
    low = add_co(a * b, c.low)
    upper = add_co(high, c.high, carry(low))
    return Wide(low, upper), carry(upper)


def differing(a: Wide, b: Wide) -> Word:
    """A word that is 0 where all 64 bits are equal."""
    return (a.low ^ b.low) | (a.high ^ b.high)


def less_64(a: Wide, b: Wide, *, signed: bool) -> Word:
    turned = SIGN if signed else 0
    return lt_64(pair(a.low, a.high ^ turned), pair(b.low, b.high ^ turned))


def more_64(a: Wide, b: Wide, *, signed: bool) -> Word:
    return less_64(b, a, signed=signed)


def not_less_64(less: Expression, a: Wide, b: Wide) -> Word:
    return ~less(a, b)


def each_half(of: Expression, *sources: Wide) -> Word:
    """An operation on the halves that each source gives, one behind the other."""
    low, high = (of(*halves) for halves in zip(*sources, strict=True))
    return (low & LOW) | high << 16


def floored(x: Word, beyond: Expression = flt, step: int = ONE) -> Word:
    """trunc(x), less `step` where that lies on the wrong side. -0 stays -0: x - 0 is x."""
    whole = trunc(x)
    return fsub(whole, where(beyond(x, whole), step, 0))


def part_of_float(x: Word, part: Expression) -> Word:
    """The mantissa of x, from 1/2 to 1, or the exponent: a `part` of the bits of a normal number,
    which is 2^64 x where x is `small`. Zeros, infinity and NaN are their own mantissas, and have
    the exponent 0. OpenCL C's quotients are made with these."""
    size = x & MAGNITUDE
    small = lt(size, 0x800000)
    made, other = part(where(small, fmul(TWO_TO_64, x), x), small)
    return where(lt(size - 1, MAGNITUDE - 0x800000), made, x if other is None else other)


def to_int(x: Word) -> Word:
    """Through the unsigned conversion of |x|: that one saturates, and gives 0 for a NaN.

    With s = -1 for a negative x and 0 else: (min(u, 0x7fffffff ^ s) ^ s) - s.
    """
    sign = sar(x, 31)
    return (umin(to_u32(x & MAGNITUDE), sign ^ MAGNITUDE) ^ sign) - sign


def class_bit(x: Word, classes: Word, digits: int = 23) -> Word:
    """The bit of a mask that the class of a float has; classes in the order of the numbers.

    0, 1: NaN, signalling or quiet; 2 to 9: -inf, normal, subnormal, -0, +0, subnormal, normal, inf.
    """
    size, infinity = x & MAGNITUDE, (1 << 31) - (1 << digits)
    steps = [where(ge(size, least), 1, 0) for least in (1, 1 << digits, infinity)]
    kind = steps[0] + steps[1] + steps[2]
    kind = where(slt(x, 0), 5 - kind, kind + 6)
    kind = where(gt(size, infinity), size >> digits - 1 & 1, kind)
    return ne(classes >> kind & 1, 0)


def class_bit_64(x: Wide, classes: Word) -> Word:
    """The same of the upper half, whose last bit stands for the lower one."""
    return class_bit(x.high | where(ne(x.low, 0), 1, 0), classes, 20)


PARTLY = frozenset({"v_bfe_i32"})  # native, but not of all fields
TABLE: dict[str, Expression] = {
    # 32 bits
    "v_mad_u32_u24": lambda a, b, c: mul24(a, b) + c,
    "v_mul_hi_u32_u24*": lambda a, b: mulhi(a & 0xFFFFFF, b & 0xFFFFFF),
    "v_mul_hi_i32": lambda a, b: mulhi(a, b) - half_sign(a, b),
    "v_bfi_b32": lambda mask, x, y: y ^ (mask & (x ^ y)),
    "v_alignbit_b32": lambda high, low, n: align(high, low, n & 31),
    "v_alignbyte_b32": lambda high, low, n: align(high, low, (n & 3) << 3),
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_xnor_b32*": lambda a, b: ~(a ^ b),
    "v_med3_u32": lambda a, b, c: umax(umin(a, b), umin(umax(a, b), c)),
    "v_sad_u32": lambda a, b, c: umax(a, b) - umin(a, b) + c,
    "v_swap_b32": lambda a, b: (b, a),
    "v_bcnt_u32_b32": lambda x, more: ones(x) + more,
    "v_ffbl_b32*": lowest,
    "v_ffbh_u32*": lambda x: lowest(rev(x)),
    "v_ffbh_i32*": lambda x: lowest(rev(x ^ sar(x, 31))),
    "v_mbcnt_lo_u32_b32": lambda mask, more, lane: below(mask, more, lane, upper=False),
    "v_mbcnt_hi_u32_b32": lambda mask, more, lane: below(mask, more, lane, upper=True),
    "v_perm_b32": picked,
    "v_bfe_i32": field,
    "v_sad_hi_u8": lambda a, b, c: (sad_u8(a, b, 0) << 16) + c,
    "v_dot4_i32_i8": product_sum(8),
    "v_dot2_i32_i16": product_sum(16),
    "v_dot8_i32_i4": product_sum(4),
    "v_dot4_u32_u8": product_sum(8, rshift),
    "v_dot2_u32_u16": product_sum(16, rshift),
    "v_dot8_u32_u4": product_sum(4, rshift),
    "v_dot4c_i32_i8_e32": lambda old, a, b: product_sum(8)(a, b, old),
    "v_dot2c_i32_i16_e32": lambda old, a, b: product_sum(16)(a, b, old),
    "v_dot8c_i32_i4_e32": lambda old, a, b: product_sum(4)(a, b, old),
    "v_add_i32": lambda a, b: a + b,
    "v_sub_i32": lambda a, b: a - b,
    "v_add_i32 clamp": lambda a, b: saturated(a, b, a + b, (a ^ (a + b)) & (b ^ (a + b))),
    "v_sub_i32 clamp": lambda a, b: saturated(a, b, a - b, (a ^ b) & (a ^ (a - b))),
    "v_add_u32 clamp": lambda a, b: limited(add_co(a, b), ALL),
    "v_sub_u32 clamp": lambda a, b: limited(sub_co(a, b), 0),
    "v_subrev_u32 clamp": lambda a, b: limited(sub_co(b, a), 0),
    # 64 bits
    "v_mad_u64_u32": lambda a, b, c: multiplied(a, b, c, signed=False),
    "v_mad_i64_i32": lambda a, b, c: multiplied(a, b, c, signed=True),
    # 16 bits: the upper half of the result is zero on gfx8 and gfx9
    "v_add_u16*": lambda a, b: a + b & LOW,
    "v_sub_u16*": lambda a, b: a - b & LOW,
    "v_subrev_u16*": lambda a, b: b - a & LOW,
    "v_mul_lo_u16*": lambda a, b: mul24(a, b) & LOW,
    "v_mad_u16": lambda a, b, c: mul24(a, b) + c & LOW,
    "v_lshlrev_b16*": lambda n, x: x << (n & 15) & LOW,
    "v_lshrrev_b16*": lambda n, x: (x & LOW) >> (n & 15),
    "v_ashrrev_i16*": lambda n, x: sar(sx(x), n & 15) & LOW,
    "v_min_u16*": lambda a, b: umin(a & LOW, b & LOW),
    "v_max_u16*": lambda a, b: umax(a & LOW, b & LOW),
    "v_min_i16*": lambda a, b: smin(sx(a), sx(b)) & LOW,
    "v_max_i16*": lambda a, b: smax(sx(a), sx(b)) & LOW,
    "v_mad_u32_u16": lambda a, b, c: mul24(a & LOW, b & LOW) + c,
    "v_mad_i32_i16": lambda a, b, c: imad24(sx(a), sx(b), c),
    "v_cvt_pk_u16_u32": lambda a, b: umin(a, LOW) | umin(b, LOW) << 16,
    "v_cvt_pk_i16_i32": lambda a, b: clamped_16(a) | clamped_16(b) << 16,
    "v_add_u16 clamp": lambda a, b: umin((a & LOW) + (b & LOW), LOW),
    "v_sub_u16 clamp": lambda a, b: smax((a & LOW) - (b & LOW), 0),
    "v_subrev_u16 clamp": lambda a, b: smax((b & LOW) - (a & LOW), 0),
    "v_add_i16": lambda a, b: a + b & LOW,
    "v_sub_i16": lambda a, b: a - b & LOW,
    "v_add_i16 clamp": lambda a, b: clamped_16(sx(a) + sx(b)),
    "v_sub_i16 clamp": lambda a, b: clamped_16(sx(a) - sx(b)),
    # Floats
    "v_floor_f32*": floored,
    "v_ceil_f32*": lambda x: floored(x, fgt, MINUS_ONE),
    "v_fract_f32*": lambda x: fmin(fsub(x, floored(x)), ALMOST_ONE),  # below 1 where it rounds to 1
    "v_frexp_mant_f32*": lambda x: part_of_float(
        x, lambda bits, small: (bits & 0x807FFFFF | 0x3F000000, None)
    ),
    "v_frexp_exp_i32_f32*": lambda x: part_of_float(
        x, lambda bits, small: ((bits >> 23 & 255) - where(small, 126 + 64, 126), 0)
    ),
    "v_cvt_i32_f32*": to_int,
    **{f"v_cvt_f32_ubyte{n}*": lambda x, n=n: from_byte(x >> 8 * n) for n in (1, 2, 3)},
    "v_cmp_class_f32*": lambda x, classes: class_bit(x, classes),
    "v_cmp_class_f64*": class_bit_64,
    # Two of 16 bits
    "v_pk_mul_lo_u16": lambda a, b: each_half(mul24, a, b),
    "v_pk_mad_u16": lambda a, b, c: each_half(lambda x, y, z: mul24(x & LOW, y & LOW) + z, a, b, c),
    "v_pk_lshlrev_b16": lambda n, a: each_half(lambda k, x: x << (k & 15), n, a),
    "v_pk_lshrrev_b16": lambda n, a: each_half(lambda k, x: (x & LOW) >> (k & 15), n, a),
    "v_pk_ashrrev_i16": lambda n, a: each_half(lambda k, x: sar(sx(x), k & 15), n, a),
    "v_pk_min_u16": lambda a, b: each_half(lambda x, y: umin(x & LOW, y & LOW), a, b),
    "v_pk_max_u16": lambda a, b: each_half(lambda x, y: umax(x & LOW, y & LOW), a, b),
    "v_pk_min_i16": lambda a, b: each_half(lambda x, y: smin(sx(x), sx(y)), a, b),
    "v_pk_max_i16": lambda a, b: each_half(lambda x, y: smax(sx(x), sx(y)), a, b),
    **{f"v_pk_add_{k}16": lambda a, b: each_half(lambda x, y: x + y, a, b) for k in "ui"},
    **{f"v_pk_sub_{k}16": lambda a, b: each_half(lambda x, y: x - y, a, b) for k in "ui"},
}
for _kind, _part, _least, _most in (("i", sx, smin, smax), ("u", lambda x: x & LOW, umin, umax)):
    for _name, _of in (
        ("min3", lambda a, b, c, least, most: least(least(a, b), c)),
        ("max3", lambda a, b, c, least, most: most(most(a, b), c)),
        ("med3", lambda a, b, c, least, most: most(least(a, b), least(most(a, b), c))),
    ):
        TABLE[f"v_{_name}_{_kind}16"] = (
            lambda a, b, c, of=_of, part=_part, least=_least, most=_most:
            of(part(a), part(b), part(c), least, most) & LOW
        )  # fmt: skip
TABLE["v_pk_mad_i16"] = TABLE["v_pk_mad_u16"]
TABLE["v_mad_legacy_u16"] = TABLE["v_mad_i16"] = TABLE["v_mad_u16"]
for _name, _u, _i in zip(
    ("lt", "le", "eq", "ne", "ge", "gt"), (lt, le, eq, ne, ge, gt), (slt, sle, eq, ne, sge, sgt),
    strict=True,
):  # fmt: skip
    TABLE[f"v_cmp_{_name}_u16*"] = lambda a, b, of=_u: of(a & LOW, b & LOW)
    TABLE[f"v_cmp_{_name}_i16*"] = lambda a, b, of=_i: of(sx(a), sx(b))
for _kind in "ui":
    _less: Expression = partial(less_64, signed=_kind == "i")
    _more: Expression = partial(more_64, signed=_kind == "i")
    TABLE |= {
        f"v_cmp_lt_{_kind}64*": _less,
        f"v_cmp_gt_{_kind}64*": _more,
        f"v_cmp_ge_{_kind}64*": partial(not_less_64, _less),
        f"v_cmp_le_{_kind}64*": partial(not_less_64, _more),
        f"v_cmp_eq_{_kind}64*": lambda a, b: eq(differing(a, b), 0),
        f"v_cmp_ne_{_kind}64*": lambda a, b: ne(differing(a, b), 0),
    }


# Use ---------------------------------------------------------------------------------------------


def flattened(results: Any) -> Iterator[Word]:
    """All words and masks of what an expression gives."""
    if isinstance(results, tuple):
        for each in results:
            yield from flattened(each)
    else:
        yield results


def key_of(mnemonic: str, tail: tuple[str, ...] = ()) -> str:
    """The name in the table; "" if it is not there."""
    base = roles.base(mnemonic)
    name = f"{base} clamp" if "clamp" in tail else base
    return name if name in EXPRESSIONS else ""


EXPRESSIONS = {roles.base(name.rstrip("*")): of for name, of in TABLE.items()}


def replace(site: Site) -> None:
    """Put what the site's instruction is replaced with."""
    item = site.item
    of = EXPRESSIONS[key_of(item.mnemonic, item.tail)]
    form = roles.roles_of(item, site.arch)
    assert form
    names = list(inspect.signature(of).parameters)
    texts: dict[Term, str] = {}
    given: list[Any] = []
    targets: list[str] = []
    for operand, role in roles.pairs(item, form):
        if role.is_written:
            targets += [operand] if role.lane_mask else registers(operand)
        if role.is_read:
            given.append(_source(site, operand, role.width, names[len(given)], texts))
    if item.mnemonic.startswith("v_pk_"):
        given = _halves(site, given)
    if "lane" in names:
        given.append(lane := term("source", "lane"))
        texts[lane] = site.lane()
    emit(site, texts, list(zip(targets, flattened(of(*given)), strict=False)))


_NOT_GFX8 = (
    "v_and_or_b32 v_or3_b32 v_xad_u32 v_xnor_b32* v_add_i32 v_sub_i32 v_add_i16 v_sub_i16 "
    "v_dot4_i32_i8 v_dot2_i32_i16 v_dot8_i32_i4 v_dot4_u32_u8 v_dot2_u32_u16 v_dot8_u32_u4 "
    "v_min3_i16 v_max3_i16 v_med3_i16 v_min3_u16 v_max3_u16 v_med3_u16 "
    "v_mad_u32_u16 v_mad_i32_i16"
)
# The architecture has no such instruction, a rule of its own, or lacks what is put there.
_OTHERWISE = {
    *((name, GFX803) for name in (*_NOT_GFX8.split(), *(n for n in TABLE if n[:5] == "v_pk_"))),
    ("v_cmp_class_f32*", GFX942),
    *(("v_sad_hi_u8", arch) for arch in ARCHS),
}


def put(site: Site, result: str, of: Expression, *sources: str) -> None:
    """What an expression makes of some operands, in a register, a pair of them or a mask."""
    texts: dict[Term, str] = {}
    given = [
        _source(site, each, len(registers(source_modifiers(each)[2])), f"source{n}", texts)
        for n, each in enumerate(sources)
    ]
    targets = registers(result) if is_vgpr(result) else (result,)
    emit(site, texts, list(zip(targets, flattened(of(*given)), strict=True)))


def replace_if_plain(site: Site) -> None:
    """The same, but an instruction stays that has modifiers which neither choose halves nor make
    it another row of the table."""
    item = site.item
    others = {word for word in item.tail if not word.startswith("op_sel")}
    if others <= {"clamp"} and key_of(item.mnemonic, item.tail):
        replace(site)
    else:
        site.out.append(item)


for _key in TABLE:
    for _arch in ARCHS:
        if roles.forms(_key.rstrip("*"), _arch) and (_key, _arch) not in _OTHERWISE:
            rule(_key, _arch)(replace)


def _source(site: Site, operand: str, width: int, name: str, texts: dict[Term, str]) -> Any:
    """A source as a number, a word or a pair of them; `texts` gets the operand."""
    if width == 2:
        is_double = "_f64" in site.item.mnemonic
        parts = site.halves(site.plain(doubles.source(site, operand) if is_double else operand))
        halves = [_word(half, f"{name}{at}", texts) for at, half in enumerate(parts)]
        if registers(operand)[:1] and operand.startswith("v"):
            texts[term("pair", *halves)] = operand
        return Wide(*halves)
    known = site.constant(operand) if name in KNOWN else None
    return _word(site.plain(operand), name, texts) if known is None else known & ALL


def _halves(site: Site, words: list[Term]) -> list[Wide]:
    """The halves that op_sel and op_sel_hi choose of each source.

    Raises:
        NoRuleError: the upper half of a constant is chosen, which it has not, but 0.
    """
    chosen = []
    for name, default in (("op_sel", "0"), ("op_sel_hi", "1")):
        told = site.item.modifier(name)
        picks = told.strip("[]").split(",") if told else [default] * len(words)
        if any(w.op == "number" and w.args[0] and p == "1" for w, p in zip(words, picks)):
            raise site.refusal(
                "a constant there has no replacement", "keep the constant in a register"
            )
        chosen.append([w >> 16 * int(p) for w, p in zip(words, picks, strict=True)])
    return [Wide(*halves) for halves in zip(*chosen, strict=True)]


def _word(text: str, name: str, texts: dict[Term, str]) -> Word:
    value = integer(text)
    if value is not None:
        return term("number", value)
    made = term("source", name)
    texts[made] = text
    return made
