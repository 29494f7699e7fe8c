"""Floats and whole numbers on gem5: what its conversions, fractions and rounding get wrong.

* v_cvt_i32_*: 2^30 and more, and -2^30 and less, become the largest and least number
* v_cvt_u32_*: so does 2^31 and more; what is negative becomes its bits, and not 0
* v_fract_*: of negative numbers, it is negative; v_fract_f64_e64 reads 32 bits of 64
* v_rndne_f64 adds 1/2, which is rounded itself: of 2^52 + 1 it makes 2^52 + 2, and all halves from
  2^31 on go down
* v_rndne_f32, v_rcp_f64, v_rsq_f64: the sign of a zero

Each is right by AMD's manuals in gem5's other instructions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.isa.legalise.assembly import is_inline, registers, source_modifiers

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.isa.legalise.site import Site

MAGNITUDE = "0x7fffffff"
TWO_TO_52 = "0x43300000"  # the upper half
TWO_TO_31 = {"f32": "0x4f000000", "f64": "0x41e00000"}  # for 64 bits, the upper half


def to_signed(site: Site) -> None:
    """v_cvt_i32, v_cvt_flr_i32, v_cvt_rpi_i32: the magnitude as a number without a sign, held in
    what the sign leaves room for, and the sign again."""
    result, x = site.item.operands
    kind = _type(site)
    if "flr" in site.item.mnemonic or "rpi" in site.item.mnemonic:
        held, x = site.vgpr(), _beside(site, x)
        site.put("v_floor_f32_e64", held, x)
        if "rpi" in site.item.mnemonic:
            _half_up(site, held, x)
        x = held
    x = _beside(site, x)
    sign, made = site.vgpr(), site.vgpr()
    site.put("v_ashrrev_i32_e32", sign, "31", _signed(site, x))
    body = source_modifiers(x)[2]
    site.put(f"v_cvt_u32_{kind}_e64", made, f"|{body}|")
    most = site.vgpr()
    site.put("v_xor_b32_e32", most, MAGNITUDE, sign)  # 2^31 - 1, or 2^31
    site.put("v_min_u32_e32", made, made, most)
    site.put("v_xor_b32_e32", made, made, sign)
    site.subtract(result, made, sign)


def _half_up(site: Site, whole: str, x: str) -> None:
    """Add 1 to the whole number below x where x is a half above it, or more: their difference is
    exact but where it is next to 1, and x + 1/2 would be rounded. Of infinity it is no number."""
    more, above = site.vgpr(), site.sgpr_pair()[0]
    site.put("v_sub_f32_e64", more, x, whole)
    site.put("v_cmp_le_f32_e64", above, "0.5", more)
    site.put("v_cndmask_b32_e64", more, "0", "1.0", above)
    site.put("v_add_f32_e32", whole, whole, more)


def to_unsigned(site: Site) -> None:
    """v_cvt_u32: what is negative, or no number, gives 0. Of 2^31 and more, the rest is converted,
    and the bit put before it; a rest that has the bit itself is too large."""
    result, x = site.item.operands
    kind = _type(site)
    made, held = _value(site, kind), _value(site, kind)
    above, bit = site.sgpr_pair()[0], site.vgpr()
    site.put(f"v_max_{_long(kind)}", _text(made), _beside(site, x), "0")
    if kind == "f64":
        site.put("v_mov_b32_e32", held[0], "0")
    site.put("v_mov_b32_e32", held[-1], TWO_TO_31[kind])
    site.put(f"v_cmp_le_{kind}_e64", above, _text(held), _text(made))
    site.put("v_cndmask_b32_e64", held[-1], "0", held[-1], above)
    site.put(f"v_fma_{kind}", _text(made), _text(held), "-1.0", _text(made))
    site.put(f"v_cvt_u32_{kind}_e32", made[0], _text(made))
    site.put("v_bfrev_b32_e32", bit, "1")
    site.put("v_cndmask_b32_e64", bit, "0", bit, above)
    site.put("v_or_b32_e32", bit, bit, made[0])
    site.put("v_ashrrev_i32_e32", made[0], "31", made[0])
    site.put("v_or_b32_e32", result, made[0], bit)


def fraction(site: Site) -> None:
    """x less the whole number below; what that rounds to 1 is the number before 1, whose bits are
    one less."""
    result, x = site.item.operands
    kind = _type(site)
    made, borrow = _value(site, kind), site.sgpr_pair()[0]
    x = _beside(site, x)
    site.put(f"v_floor_{kind}_e64", _text(made), x)
    site.put(f"v_fma_{kind}", _text(made), _text(made), "-1.0", x)
    site.put(f"v_cmp_le_{kind}_e64", borrow, "1.0", _text(made))
    sub = "v_subb_u32_e64" if site.gcn3 else "v_subb_co_u32_e64"
    for to, word in zip(registers(result), made, strict=True):
        site.put(sub, to, borrow, word, "0", borrow)


def nearest(site: Site) -> None:
    """v_rndne_f64: the magnitude and 2^52, whose last place is that of whole numbers, less 2^52."""
    result, x = site.item.operands
    x = _beside(site, x)
    body = source_modifiers(x)[2]
    words, to = registers(body), registers(result)
    whole, made = site.vgpr_pair(), site.vgpr_pair()
    below = site.sgpr_pair()[0]
    site.put("v_mov_b32_e32", whole[1], "0")
    site.put("v_mov_b32_e32", whole[2], TWO_TO_52)
    site.put("v_add_f64", made[0], f"|{body}|", whole[0])
    site.put("v_add_f64", made[0], made[0], f"-{whole[0]}")
    site.put("v_cmp_lt_f64_e64", below, f"|{body}|", whole[0])
    sign = _signed(site, x)
    for word, rounded in zip((site.in_vgpr(words[0]), sign), made[1:], strict=True):
        site.put("v_cndmask_b32_e64", rounded, word, rounded, below)
    site.put("v_bfi_b32", to[1], site.in_sgpr(MAGNITUDE), made[2], sign)
    site.put("v_mov_b32_e32", to[0], made[1])


def signed(site: Site) -> None:
    """What gem5 makes of it, with the source's sign."""
    result, x = site.item.operands
    sign = _signed(site, _beside(site, x))
    if sign in registers(result):
        held = site.vgpr()
        site.put("v_mov_b32_e32", held, sign)
        sign = held
    high = registers(result)[-1]
    site.put(site.item.mnemonic, result, x)
    site.put("v_bfi_b32", high, site.in_sgpr(MAGNITUDE), high, sign)


def _type(site: Site) -> str:
    return "f64" if "f64" in site.item.mnemonic else "f32"


def _long(kind: str) -> str:
    return kind if kind == "f64" else f"{kind}_e64"


def _value(site: Site, kind: str) -> tuple[str, ...]:
    """The registers of a temporary float."""
    return site.vgpr_pair()[1:] if kind == "f64" else (site.vgpr(),)


def _text(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"v[{words[0][1:]}:{words[1][1:]}]"


def _beside(site: Site, x: str) -> str:
    """A source, with its modifiers, where it may stand beside a constant: one that is none."""
    body = source_modifiers(x)[2]
    if registers(body):
        return x
    kind = _type(site)
    words = _value(site, kind)
    if is_inline(body):
        site.put(f"v_max_{_long(kind)}", _text(words), x, x)
    else:
        if kind == "f64":
            site.put("v_mov_b32_e32", words[0], "0")
        site.put("v_mov_b32_e32", words[-1], body)
    return _text(words)


def _signed(site: Site, x: str) -> str:
    """A vector register with the sign bit of a source in registers."""
    neg, absolute, body = source_modifiers(x)
    word = registers(body)[-1]
    word = f"|{word}|" if absolute else word
    return site.in_vgpr(f"-{word}" if neg else word)


def _both(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}_{encoding}" for name in names for encoding in ("e32", "e64"))


RULES: dict[str, Callable[[Site], None]] = {
    **dict.fromkeys(
        _both("v_cvt_i32_f32", "v_cvt_i32_f64", "v_cvt_flr_i32_f32", "v_cvt_rpi_i32_f32"), to_signed
    ),
    **dict.fromkeys(_both("v_cvt_u32_f32", "v_cvt_u32_f64"), to_unsigned),
    **dict.fromkeys(_both("v_fract_f32", "v_fract_f64"), fraction),
    **dict.fromkeys(_both("v_rndne_f64"), nearest),
    **dict.fromkeys(_both("v_rndne_f32", "v_rcp_f64", "v_rsq_f64"), signed),
}
