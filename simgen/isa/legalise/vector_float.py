"""Rules for 32-bit float arithmetic on vectors."""

from __future__ import annotations

from simgen.isa.legalise.assembly import is_constant, is_inline, is_number, registers
from simgen.isa.legalise.site import SIGN, Site
from simgen.isa.legalise.table import GFX803, GFX942, rule


def negated(operand: str) -> str:
    """The source with its sign turned round; constants are left out."""
    return operand[1:] if operand.startswith("-") else f"-{operand}"


@rule("v_add_f32_e64")
def add(site: Site) -> None:
    """a + b as a - (-b): the subtraction is there with all modifiers."""
    result, a, b = site.item.operands
    if is_constant(b):
        a, b = b, a
    if is_constant(b):
        a = site.in_vgpr(a)
        a, b = b, a
    site.put("v_sub_f32_e64", result, a, negated(b))


@rule("v_subrev_f32_e64")
def subtract_reversed(site: Site) -> None:
    result, a, b = site.item.operands
    site.put("v_sub_f32_e64", result, b, a)


@rule("v_mul_f32_e64", GFX803)
def multiply(site: Site) -> None:
    result, a, b = site.item.operands
    site.binary("mul_f32", result, a, b)


@rule("v_max_f32*")
def maximum(site: Site) -> None:
    """A NaN loses against a number, as on hardware; MGPUSim's own instruction lets it win.

    Its v_med3_f32 sorts NaNs to the front and v_max3_f32 skips those behind the first source. Of
    two zeros with different signs either may come out, as IEEE 754 allows.
    """
    result, a, b = site.item.operands
    if a == b:  # quietens a NaN
        site.put("v_max_f32_e32", result, *(2 * (site.in_vgpr(a),)))
    elif is_number(a) or is_number(b):
        _against_constant(site, "v_max3_f32", result, a, b)
    else:
        larger(site, result, a, b)


@rule("v_min_f32*")
def minimum(site: Site) -> None:
    result, a, b = site.item.operands
    if a == b:
        site.put("v_min_f32_e32", result, *(2 * (site.in_vgpr(a),)))
    elif is_number(a) or is_number(b):
        _against_constant(site, "v_min3_f32", result, a, b)
    else:
        held = site.vgpr()
        a, b = (site.in_vgpr(o) if is_constant(o) else o for o in (a, b))
        larger(site, held, negated(a), negated(b))
        site.put("v_xor_b32_e32", result, SIGN, held)


def _against_constant(site: Site, name: str, result: str, a: str, b: str) -> None:
    if is_number(b):
        a, b = b, a
    if site.gcn3 and not b.startswith(("-", "|")):  # there the two-source form does the same
        two = name.replace("3_f32", "_f32_e32")
        site.put(two, result, a, site.in_vgpr(b))
        return
    b = site.vop3_source(b)
    site.put(name, result, a if is_inline(a) else site.in_vgpr(a), b, b)


def larger(site: Site, result: str, a: str, b: str) -> None:
    """The middle one of a, b and +inf: inf, when that is what comes first."""
    site.put("v_med3_f32", result, site.vop3_source(a), site.vop3_source(b), site.infinity())


@rule("v_max3_f32")
def maximum_of_3(site: Site) -> None:
    result, a, b, c = site.item.operands
    held = site.vgpr()
    larger(site, held, a, b)
    larger(site, result, held, c)


@rule("v_min3_f32")
def minimum_of_3(site: Site) -> None:
    result, a, b, c = (site.in_vgpr(o) if is_constant(o) else o for o in site.item.operands)
    held = site.vgpr()
    larger(site, held, negated(a), negated(b))
    larger(site, held, held, negated(c))
    site.put("v_xor_b32_e32", result, SIGN, held)


@rule("v_med3_f32")
def median(site: Site) -> None:
    """With two NaNs and a number MGPUSim returns a NaN; hardware returns the number.

    What is neither below +inf nor a number is replaced by the largest number of the three, which
    is the same where it is +inf itself.
    """
    result, *sources = site.item.operands
    if sum(is_number(source) for source in sources) >= 2:
        a, b, c = (site.in_vgpr(o) if not is_inline(o) and is_constant(o) else o for o in sources)
        site.put("v_med3_f32", result, a, b, c)
        return
    a, b, c = (site.vop3_source(source) for source in sources)
    middle, most = site.vgpr(), site.vgpr()
    mask, _, _ = site.sgpr_pair()
    site.put("v_med3_f32", middle, a, b, c)
    larger(site, most, a, b)
    larger(site, most, most, c)
    site.put("v_cmp_nlt_f32_e64", mask, middle, site.infinity())
    site.select(result, middle, most, mask)


@rule("v_madmk_f32", GFX803)
def multiply_by_literal(site: Site) -> None:
    result, a, factor, b = site.item.operands
    site.put("v_mad_f32", result, site.vop3_source(a), site.in_vgpr(factor), b)


@rule("v_cndmask_b32_e64")
def select(site: Site) -> None:
    """Modifiers of the values are dropped by MGPUSim."""
    result, a, b, mask = site.item.operands
    a, b = site.plain(a), site.plain(b)
    # At most one scalar register besides the mask is none: gfx9 reads one in all.
    site.select(result, a, b, mask)


@rule("v_pk_add_f32 v_pk_fma_f32 v_pk_mul_f32", GFX942)
def packed(site: Site) -> None:
    """Right as it is, unless the halves want different signs or the upper half of a constant."""
    item = site.item
    sources = item.operands[1:]
    lower, upper = _bits(site, "op_sel", "0"), _bits(site, "op_sel_hi", "1")
    neg, neg_upper = _bits(site, "neg_lo", "0"), _bits(site, "neg_hi", "0")
    wide = any(
        is_constant(source) and (low == "1" or high == "1")
        for source, low, high in zip(sources, lower, upper, strict=True)
    )
    if wide:
        raise site.refusal("a constant in the upper half", "keep the constant in a register")
    if neg == neg_upper:
        site.put(item.mnemonic, *item.operands, tail=item.tail)
        return
    scalar = {"v_pk_add_f32": "add", "v_pk_mul_f32": "v_mul_f32_e64", "v_pk_fma_f32": "v_fma_f32"}
    low, high = registers(item.operands[0])
    held = site.vgpr()
    for target, half, signs in ((held, lower, neg), (high, upper, neg_upper)):
        parts = [
            ("-" if sign == "1" else "")
            + site.in_vgpr((registers(source) or 2 * (source,))[int(at)])
            for source, at, sign in zip(sources, half, signs, strict=True)
        ]
        name = scalar[item.mnemonic]
        if name == "add":
            name, parts[1] = "v_sub_f32_e64", negated(parts[1])
        site.put(name, target, *parts)
    site.put("v_mov_b32_e32", low, held)


@rule("v_pk_mov_b32", GFX942)
def packed_move(site: Site) -> None:
    result, *sources = site.item.operands
    picked = [
        (registers(source) or (source, source))[int(at)]
        for source, at in zip(sources, _bits(site, "op_sel", "0"), strict=True)
    ]
    low, high = registers(result)
    if picked[1] == low:
        held = site.vgpr()
        site.put("v_mov_b32_e32", held, picked[1])
        picked[1] = held
    site.put("v_mov_b32_e32", low, picked[0])
    site.put("v_mov_b32_e32", high, picked[1])


def _bits(site: Site, name: str, default: str) -> list[str]:
    """A list such as op_sel:[0,1], one digit for each source."""
    text = site.item.modifier(name)
    count = len(site.item.operands) - 1
    return text.strip("[]").split(",") if text else [default] * count


def clamp(site: Site, result: str) -> None:
    """result = min(max(result, 0), 1), a NaN becomes 0."""
    site.put("v_med3_f32", result, result, "0", "1.0")


def scale(site: Site, result: str, factor: str) -> None:
    """The output modifier mul:2, mul:4 or div:2."""
    site.put(
        "v_mul_f32_e32", result, {"mul:2": "2.0", "mul:4": "4.0", "div:2": "0.5"}[factor], result
    )
