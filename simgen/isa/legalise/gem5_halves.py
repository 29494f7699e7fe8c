"""16-bit floats on gem5, which has no scalar arithmetic of them: through 32 bits.

A half is exact in 32 bits, and what is rounded to them and then to 16 is rounded right: of sums,
products and quotients (24 >= 2 * 11 + 2; Figueroa, "When is double rounding innocuous?", 1995),
and of all that is exact there. a b + c is not: see `fused`. v_cvt_f32_f16 is right of a register
alone, from 24.0 on (before, it is made of whole numbers), but for the sign of an infinity in 24.0;
v_cvt_f16_f32 is `gem5_floats.narrowed`.

The two halves of packed arithmetic round as memory has it that nobody has set (from 24.0 on, which
is the first with such instructions), so each of them is computed by itself.

The upper half of a result is zero, as on gfx8 and gfx9.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

from simgen.isa.legalise import gem5_floats, half, packed_halves
from simgen.isa.legalise.assembly import integer, is_constant, is_vgpr, source_modifiers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simgen.isa.legalise.site import Site

MAGNITUDE, SIGN = "0x7fffffff", "0x80000000"
INFINITE = "0xf800000"  # bits of an infinite half, in the place of those of a float of 32 bits
NEXT_TO_ONE = "0x3f7fe000"  # the greatest half below 1
LARGEST = {"u16": ("0", "0xffff"), "i16": ("0xffff8000", "0x7fff")}


def _widened(site: Site, operand: str) -> str:
    """A source as a float of 32 bits in a vector register, with its modifiers."""
    return half.widened(site, operand, _converted)


def _converted(site: Site, result: str, x: str) -> None:
    if "v_cvt_f32_f16_e32" in site.lost:
        half.widen_bits(site, result, x)
        return
    sign = "" if site.infinities else site.vgpr()
    if sign:
        site.put("v_lshlrev_b32_e32", sign, "16", x)
    site.put("v_cvt_f32_f16_e32", result, x)
    if sign:
        site.put("v_bfi_b32", result, site.in_sgpr(MAGNITUDE), result, sign)


def _finished(site: Site, result: str, value: str) -> None:
    """The half of a float of 32 bits that no one else needs, held in [0, 1] where clamp says so."""
    if "clamp" in site.item.tail:
        gem5_floats.clamp(site, value)
    gem5_floats.narrowed(site, result, value)


def widen(site: Site) -> None:
    """v_cvt_f32_f16, whose long form gem5 24.0 always clamps."""
    result, x = site.item.operands
    if is_vgpr(x) and not site.item.tail:
        _converted(site, result, x)
        return
    site.put("v_mov_b32_e32", result, _widened(site, x))
    for word in site.item.tail:
        if word in gem5_floats.FACTORS:
            gem5_floats.scale(site, result, word)
    if "clamp" in site.item.tail:
        gem5_floats.clamp(site, result)


def arithmetic(site: Site) -> None:
    """v_add, v_sub, v_subrev, v_mul."""
    result, *sources = site.item.operands
    a, b = (_widened(site, each) for each in sources)
    site.put(f"v_{_verb(site)}_f32_e32", a, a, b)
    _finished(site, result, a)


def extreme(site: Site) -> None:
    """v_min, v_max, of two or three: a NaN loses against a number; -0 is below 0."""
    result, *sources = site.item.operands
    first, *others = (_widened(site, each) for each in sources)
    for other in others:
        _extreme(site, _verb(site)[:3], first, other)
    _finished(site, result, first)


def _extreme(site: Site, verb: str, a: str, b: str) -> None:
    """a = the lesser, or the greater: of what is equal, all sign bits or any."""
    same, both = site.sgpr_pair()[0], site.vgpr()
    site.put("v_cmp_eq_f32_e64", same, a, b)
    site.put(f"v_{'or' if verb == 'min' else 'and'}_b32_e32", both, a, b)
    site.put(f"v_{verb}_f32_e32", a, a, b)
    site.select(a, a, both, same)


def median(site: Site) -> None:
    """v_med3: max(min(a, b), min(max(a, b), c)); with a NaN, the least of all."""
    result, *sources = site.item.operands
    a, b, c = (_widened(site, each) for each in sources)
    low, high, least, nan = site.vgpr(), site.vgpr(), site.vgpr(), site.sgpr_pair()[0]
    for to, verb in ((low, "min"), (high, "max")):
        site.put(f"v_{verb}_f32_e32", to, a, b)
    site.put("v_min_f32_e32", least, low, c)
    site.put("v_min_f32_e32", high, high, c)
    site.put("v_max_f32_e32", low, low, high)
    for first, second in ((a, b), (c, c)):
        site.put("v_cmp_u_f32_e64", nan, first, second)
        site.select(low, low, least, nan)
    _finished(site, result, low)


def fused(site: Site) -> None:
    """v_fma, v_mad, v_mac, v_madmk, v_madak: the product is exact in 32 bits; the sum of 64 bits is
    rounded to 32 to odd, so that the rounding to 16 is as if it were the only one.

    That sum is inexact only if c is 2^31 times the product and more, which is too little to bring
    c, a half, to the middle between two of these.
    """
    result, *sources = site.item.operands
    if "mac" in site.item.mnemonic:
        sources.append(result)
    a, b, c = (_widened(site, each) for each in sources)
    total, _, _ = site.vgpr_pair()
    other, _, _ = site.vgpr_pair()
    inexact, above = site.sgpr_pair()[0], site.sgpr_pair()[0]
    site.put("v_mul_f32_e32", a, a, b)
    site.put("v_cvt_f64_f32_e32", total, a)
    site.put("v_cvt_f64_f32_e32", other, c)
    site.put("v_add_f64", total, total, other)
    site.put("v_cvt_f32_f64_e32", a, total)
    site.put("v_cvt_f64_f32_e32", other, a)
    site.put("v_cmp_lg_f64_e64", inexact, other, total)
    site.put("v_cmp_gt_f64_e64", above, f"|{other}|", f"|{total}|")
    site.put("v_subb_u32_e64" if site.gcn3 else "v_subb_co_u32_e64", a, above, a, "0", above)
    site.put("v_cndmask_b32_e64", b, "0", "1", inexact)
    site.put("v_or_b32_e32", a, a, b)
    _finished(site, result, a)


def unary(site: Site) -> None:
    """What gem5 has of 32 bits."""
    result, x = site.item.operands
    x = _widened(site, x)
    site.put(f"v_{_verb(site)}_f32_e32", x, x)
    _finished(site, result, x)


def nearest(site: Site) -> None:
    """v_rndne: with the sign of what becomes zero."""
    result, x = site.item.operands
    x, held = _widened(site, x), site.vgpr()
    site.put("v_rndne_f32_e32", held, x)
    site.put("v_bfi_b32", held, site.in_sgpr(MAGNITUDE), held, x)
    _finished(site, result, held)


def fraction(site: Site) -> None:
    """v_fract: x less the whole number below, and less than 1."""
    result, x = site.item.operands
    x, held, above = _widened(site, x), site.vgpr(), site.sgpr_pair()[0]
    site.put("v_floor_f32_e32", held, x)
    site.put("v_sub_f32_e32", held, x, held)
    site.put("v_mov_b32_e32", x, NEXT_TO_ONE)
    site.put("v_cmp_gt_f32_e64", above, held, x)
    site.select(held, held, x, above)
    _finished(site, result, held)


def sine(site: Site) -> None:
    """v_sin, v_cos: those of 32 bits."""
    result, x = site.item.operands
    whole, held = site.item, site.vgpr()
    site.become(f"v_{_verb(site)}_f32_e32", held, _widened(site, x))
    (gem5_floats.sine if "sin" in site.item.mnemonic else gem5_floats.cosine)(site)
    site.item = whole
    _finished(site, result, held)


def exponent(site: Site) -> None:
    """v_frexp_exp_i16_f16."""
    result, x = site.item.operands
    site.put("v_frexp_exp_i32_f32_e32", result, _widened(site, x))
    site.put("v_and_b32_e32", result, "0xffff", result)


def scaled(site: Site) -> None:
    """v_ldexp: subnormal floats of 32 bits are less than any half."""
    result, x, by = site.item.operands
    x, held = _widened(site, x), site.vgpr()
    site.put("v_bfe_i32", held, site.vop3_source(by), "0", "16")
    site.put("v_ldexp_f32", x, x, held)
    _finished(site, result, x)


def from_whole(site: Site) -> None:
    """v_cvt_f16_u16, v_cvt_f16_i16."""
    result, x = site.item.operands
    kind, held = site.item.mnemonic.split("_")[3][0], site.vgpr()
    site.put(f"v_bfe_{kind}32", held, site.in_vgpr(x), "0", "16")
    site.put(f"v_cvt_f32_{kind}32_e32", held, held)
    _finished(site, result, held)


def to_whole(site: Site) -> None:
    """v_cvt_u16_f16, v_cvt_i16_f16: a NaN becomes 0, what is too large the nearest number."""
    result, x = site.item.operands
    kind = site.item.mnemonic.split("_")[2]
    least, most = LARGEST[kind]
    x = _widened(site, x)
    if kind == "u16":
        site.put("v_max_f32_e32", x, "0", x)
    site.put(f"v_cvt_{kind[0]}32_f32_e32", x, x)
    site.put(f"v_max_{kind[0]}32_e32", x, least, x)
    site.put(f"v_min_{kind[0]}32_e32", x, most, x)
    site.put("v_and_b32_e32", result, "0xffff", x)


def compare(site: Site) -> None:
    """v_cmp, v_cmpx: the order is the same."""
    result, *sources = site.item.operands
    a, b = (_widened(site, each) for each in sources)
    word = site.item.mnemonic.partition("_f16")[0]
    if word.endswith("_lg"):
        gem5_floats.apart(site, word, result, a, b)
    else:
        site.put(f"{word}_f32_e64", result, a, b)


def classified(site: Site) -> None:
    """v_cmp_class: the bits as those of a float of 32 bits, whose exponent they do not fill, but
    for infinities and NaNs, which get all of it."""
    result, x, mask = site.item.operands
    neg, absolute, body = source_modifiers(x)
    held, sign, special = site.vgpr(), site.vgpr(), site.sgpr_pair()[0]
    value = integer(body)
    if value is None and is_constant(body):
        body = _of_half(float(body))
    x = site.in_vgpr(body)
    site.put("v_and_b32_e32", sign, "0x8000", x)
    site.put("v_and_b32_e32", held, "0x7fff", x)
    site.put("v_lshlrev_b32_e32", sign, "16", sign)
    if absolute:
        site.put("v_mov_b32_e32", sign, "0")
    if neg:
        site.put("v_xor_b32_e32", sign, SIGN, sign)
    site.put("v_lshlrev_b32_e32", held, "13", held)
    site.put("v_cmp_le_u32_e64", special, site.in_sgpr(INFINITE), held)
    filled = site.vgpr()
    site.put("v_or_b32_e32", filled, "0x7f800000", held)
    site.select(held, held, filled, special)
    site.put("v_or_b32_e32", held, held, sign)
    word = site.item.mnemonic.partition("_f16")[0]
    site.put(f"{word}_f32_e64", result, held, site.in_vgpr(mask))


def quotient(site: Site) -> None:
    """v_div_fixup_f16: the quotient of 32 bits, which gem5's v_div_fixup_f32 makes anew."""
    result, estimate, d, n = site.item.operands
    whole, held = site.item, site.vgpr()
    d, n = _widened(site, d), _widened(site, n)
    site.become("v_div_fixup_f32", held, site.in_vgpr(estimate), d, n)
    gem5_floats.quotient(site)
    site.item = whole
    _finished(site, result, held)


def pack(site: Site) -> None:
    """v_pack_b32_f16: two halves side by side, of halves that op_sel chooses."""
    result, *sources = site.item.operands
    chosen = (site.item.modifier("op_sel") or "[0,0]").strip("[]").split(",")
    parts = []
    for source, upper in zip(sources, chosen, strict=False):
        neg, absolute, body = source_modifiers(source)
        value, held = integer(body), site.vgpr()
        if value is None and is_constant(body):
            body = _of_half(float(body))
        elif value is not None:
            body = hex(value & 0xFFFF)
        if upper == "1":
            site.put("v_lshrrev_b32_e32", held, "16", site.in_vgpr(body))
        else:
            site.put("v_and_b32_e32", held, "0xffff", site.in_vgpr(body))
        if absolute:
            site.put("v_and_b32_e32", held, "0x7fff", held)
        if neg:
            site.put("v_xor_b32_e32", held, "0x8000", held)
        parts.append(held)
    site.put("v_lshl_or_b32", result, parts[1], "16", parts[0])


def _parts(site: Site, sources: list[str]) -> Iterator[list[str]]:
    """The lower halves that packed sources have by their modifiers, and the upper ones."""
    item = site.item
    for chosen, default, negated in (("op_sel", "0", "neg_lo"), ("op_sel_hi", "1", "neg_hi")):
        uppers = packed_halves.digits(item, chosen, default)
        signs = packed_halves.digits(item, negated, "0")
        words = []
        for source, upper, sign in zip(sources, uppers, signs, strict=False):
            word = packed_halves.half_of(site, source, upper)
            words.append(f"-{word}" if sign else word)
        yield words


def product_sum(site: Site) -> None:
    """v_dot2_f32_f16, v_dot2c_f32_f16: products are exact, and each sum is rounded once."""
    result, a, b, *rest = site.item.operands
    total, held = (rest or [result])[0], site.vgpr()
    if packed_halves.digits(site.item, "neg_lo", "0")[2:] == [True]:
        total = f"-{total}"
    for words in _parts(site, [a, b]):
        site.put("v_fma_f32", held, *(_widened(site, word) for word in words), total)
        total = held
    if "clamp" in site.item.tail:
        gem5_floats.clamp(site, held)
    site.put("v_mov_b32_e32", result, held)


def packed(site: Site) -> None:
    """v_pk_add, v_pk_mul, v_pk_fma, v_pk_min, v_pk_max: each half by itself."""
    item = site.item
    result, *sources = item.operands
    verb = item.mnemonic.split("_")[2]
    rule = {"add": arithmetic, "mul": arithmetic, "fma": fused}.get(verb, extreme)
    halves = []
    for parts in _parts(site, sources):
        halves.append(site.vgpr())
        words = [halves[-1], *parts]
        tail = ("clamp",) if "clamp" in item.tail else ()
        site.item = replace(item, mnemonic=f"v_{verb}_f16", operands=tuple(words), tail=tail)
        rule(site)
    site.item = item
    site.put("v_lshl_or_b32", result, halves[1], "16", halves[0])


def _of_half(number: float) -> str:
    return hex(int.from_bytes(struct.pack("<e", number), "little"))


def _verb(site: Site) -> str:
    return site.item.mnemonic.removeprefix("v_").rpartition("_f16")[0]


def _plain(rule: Callable[[Site], None]) -> Callable[[Site], None]:
    """A rule of instructions whose results are not multiplied: gem5 has nothing of 16 bits that
    output modifiers go with, and ends."""

    def made(site: Site) -> None:
        if any(word in gem5_floats.FACTORS for word in site.item.tail):
            site.out.append(site.item)
            return
        rule(site)

    return made


_CONDITIONS = "lt eq le gt lg ge o u nge nlg ngt nle neq nlt"
_ALL: dict[Callable[[Site], None], str] = {
    arithmetic: "add sub subrev mul",
    extreme: "min max min3 max3",
    median: "med3",
    fused: "fma mad mac madmk madak",
    unary: "rcp rsq sqrt log exp floor ceil trunc frexp_mant",
    nearest: "rndne", fraction: "fract", sine: "sin cos", scaled: "ldexp", quotient: "div_fixup",
}  # fmt: skip
_NAMED: dict[Callable[[Site], None], tuple[str, ...]] = {
    widen: ("v_cvt_f32_f16",),
    exponent: ("v_frexp_exp_i16_f16",),
    from_whole: ("v_cvt_f16_u16", "v_cvt_f16_i16"),
    to_whole: ("v_cvt_u16_f16", "v_cvt_i16_f16"),
    compare: tuple(f"v_{cmp}_{c}_f16" for cmp in ("cmp", "cmpx") for c in _CONDITIONS.split()),
    classified: ("v_cmp_class_f16", "v_cmpx_class_f16"),
    pack: ("v_pack_b32_f16",),
    product_sum: ("v_dot2_f32_f16", "v_dot2c_f32_f16"),
    packed: tuple(f"v_pk_{verb}_f16" for verb in ("add", "mul", "fma", "min", "max")),
    **{rule: tuple(f"v_{name}_f16" for name in names.split()) for rule, names in _ALL.items()},
}
RULES: dict[str, Callable[[Site], None]] = {
    f"{name}{encoding}": rule if rule in (widen, product_sum) else _plain(rule)
    for rule, names in _NAMED.items()
    for name in names
    for encoding in ("", "_e32", "_e64")
}
