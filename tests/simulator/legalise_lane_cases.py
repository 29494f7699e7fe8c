"""Rows of what moves values between lanes, divides, counts in 64 bits, or works one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from legalise_rows import CDNA3, MASK, MASK_BITS, UNTOUCHED, VCC, Inputs, Row, f32, first
from legalise_semantics import class_of, each

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Expected = Callable[[Inputs], Mapping[int, Array]]

HALF_ON, ALL_ON = "s_mov_b64 exec, s[26:27]", "s_mov_b64 exec, -1"


def lane(w: Inputs) -> Array:
    return np.arange(w.items) % 64


def active(w: Inputs) -> Array:
    return w.bit(MASK_BITS) == 1


def of_lane(w: Inputs, values: Array, source: Array) -> Array:
    """Each item's value from another lane of its wavefront."""
    return values[first(w) + source % 64]


# Division and 64 bits ------------------------------------------------------------------------


def _floats() -> list[Row]:
    def quotient(w: Inputs) -> dict[int, Array]:
        return {0: (w.f[0] / w.f[1]).view(np.uint32)}

    def wide(of: Callable[[Array, Array], Array]) -> Expected:
        def expected(w: Inputs) -> dict[int, Array]:
            return {0: f32(of(w.f[0].astype(np.float64), w.f[1].astype(np.float64))).view("u4")}

        return expected

    def error(w: Inputs) -> dict[int, Array]:
        a, b = w.f[0], w.f[1]
        product = a.astype(np.float64) * b.astype(np.float64)
        return {0: f32(product - (a * b).astype(np.float64)).view(np.uint32)}

    def remainder(w: Inputs) -> dict[int, Array]:
        """b - a * a, rounded once: exact whole numbers of 2^-300."""
        found = np.empty(w.items, np.float32)
        for k, (a, b) in enumerate(zip(w.f[0].tolist(), w.f[1].tolist())):
            if not (np.isfinite(a) and np.isfinite(b)):
                found[k] = np.float32(b) - np.float32(a) * np.float32(a)
            else:
                found[k] = rounded(b, a)
        return {0: found.view(np.uint32)}

    def whole(least: int, most: int, sign: int = 1) -> Callable[[Inputs], dict[int, Array]]:
        def of(w: Inputs) -> dict[int, Array]:
            x = sign * w.f[0].astype(np.float64) * w.f[1]
            held = np.clip(np.trunc(np.nan_to_num(x, nan=0.0)), least, most).astype(np.int64)
            return {0: (held & 0xFFFFFFFF).astype(np.uint32), 1: 0 * w.u[0], 2: 0 * w.u[0],
                    3: 0 * w.u[0]}  # fmt: skip

        return of

    divide = (
        "v_div_scale_f32 v13, s[28:29], v3, v3, v2; v_rcp_f32_e32 v12, v13; "
        "v_div_scale_f32 v11, vcc, v2, v3, v2; v_mul_f32_e32 v10, v11, v12; "
        "v_div_fmas_f32 v10, v10, v12, v11; v_div_fixup_f32 v10, v10, v3, v2; "
        "s_mov_b64 vcc, s[24:25]; v_mov_b32_e32 v11, 0; v_mov_b32_e32 v12, 0; v_mov_b32_e32 v13, 0"
    )
    widen = "v_cvt_f64_f32_e32 v[10:11], v2; v_cvt_f64_f32_e32 v[12:13], v3; "
    narrow = "; v_cvt_f32_f64_e32 v10, v[10:11]"
    rows = [
        Row("k_divide", divide, lambda w: {**quotient(w), 1: 0 * w.u[0], 2: 0 * w.u[0],
                                           3: 0 * w.u[0]}, floats=True),
        Row("k_divide_modified", "v_div_fixup_f32 v10, v4, |v3|, -v2",
            lambda w: {0: (-w.f[0] / abs(w.f[1])).view(np.uint32)}, floats=True),
        Row("k_error", "v_mul_f32_e32 v11, v2, v3; v_fma_f32 v10, v2, v3, -v11; "
            "v_mov_b32_e32 v11, 0", lambda w: {**error(w), 1: 0 * w.u[0]}, CDNA3, floats=True),
        Row("k_remainder", "v_fma_f32 v10, -v2, v2, v3", remainder, floats=True),
        Row("k_remainder_kept", "v_mov_b32_e32 v10, v3; v_fmac_f32_e64 v10, -v2, v2", remainder,
            CDNA3, floats=True),
        Row("k_setreg", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3; v_mov_b32_e32 v10, v2",
            lambda w: {0: w.u[0]}),
        Row("k_inverse_64", f"{widen} v_rcp_f64_e32 v[10:11], v[10:11]{narrow}",
            wide(lambda a, b: 1 / a), floats=True),
        Row("k_add_long_64", f"{widen} v_add_f64 v[10:11], 1.0, v[10:11]{narrow}",
            wide(lambda a, b: 1 + a), floats=True),
        Row("k_from_int_64", f"v_cvt_f64_i32_e32 v[10:11], v2{narrow}",
            lambda w: {0: f32(w.i[0]).view(np.uint32)}, floats=True),
        Row("k_from_unsigned_64", f"v_cvt_f64_u32_e32 v[10:11], v2{narrow}",
            lambda w: {0: f32(w.u[0]).view(np.uint32)}, floats=True),
        Row("k_from_unsigned_64_long", f"v_cvt_f64_u32_e64 v[10:11], s8{narrow}",
            lambda w: {0: f32(w.u[0][first(w)]).view(np.uint32)}, floats=True),
        Row("k_from_int_64_long", f"v_cvt_f64_i32_e64 v[10:11], s8{narrow}",
            lambda w: {0: f32(w.i[0][first(w)]).view(np.uint32)}, floats=True),
        Row("k_widen_long", "v_cvt_f64_f32_e64 v[10:11], -|v2|; v_cvt_f32_f64_e64 v10, v[10:11]",
            lambda w: {0: (w.u[0] | np.uint32(1 << 31))}, floats=True),
    ]  # fmt: skip
    rest = "; v_mov_b32_e32 v11, 0; v_mov_b32_e32 v12, 0; v_mov_b32_e32 v13, 0"
    for kind, least, most in (("i32", -(2**31), 2**31 - 1), ("u32", 0, 2**32 - 1)):
        for form, neg, sign in (("e32", "", 1), ("e64", "-", -1)):
            name = f"v_cvt_{kind}_f64_{form}"
            code = (
                f"{widen} v_mul_f64 v[10:11], v[10:11], v[12:13]; {name} v10, {neg}v[10:11]{rest}"
            )
            rows.append(Row(f"k_{name}", code, whole(least, most, sign)))
    # NaN, subnormal doubles, infinity, zeros, others.
    for kind, low, keep, put in (
        ("nan", "v2", 0xFFFFFFFF, 0x7FF00000), ("small", "v2", 0x800FFFFF, 0),
        ("infinite", "0", 0x80000000, 0x7FF00000), ("zero", "0", 0x80000000, 0),
        ("any", "v2", 0xFFFFFFFF, 0),
    ):  # fmt: skip

        def classes(w: Inputs, low=low, keep=keep, put=put) -> dict[int, Array]:  # type: ignore[no-untyped-def]
            upper = w.u[1] & np.uint32(keep) | np.uint32(put)
            wide = upper.astype(np.uint64) << np.uint64(32) | (w.u[0] if low == "v2" else 0)
            held = each(lambda x, m: class_of(x, m, 11, 52), wide, w.u[2])
            return {0: 0 * w.u[0], 1: 0 * w.u[0], MASK: held.astype(np.uint32)}

        code = f"v_and_b32_e32 v11, {keep:#x}, v3; v_or_b32_e32 v11, {put:#x}, v11; "
        code += f"v_mov_b32_e32 v10, {low}; v_cmp_class_f64_e64 s[22:23], v[10:11], v4; "
        code += "v_mov_b32_e32 v10, 0; v_mov_b32_e32 v11, 0"
        rows.append(Row(f"class_64_{kind}", code, classes))
        short = code.replace("_e64 s[22:23]", "_e32 vcc")
        of = lambda w, of=classes: {VCC if k == MASK else k: v for k, v in of(w).items()}  # noqa: E731
        rows.append(Row(f"class_64_{kind}_short", short, of))
    for power in ("-4", "30", "0xfffffc02"):
        n = (int(power, 0) ^ 1 << 31) - (1 << 31) if power[1:2] == "x" else int(power)
        rows.append(
            Row(f"k_power_64_{power}",
                f"{widen} v_mov_b32_e32 v12, {power}; v_mov_b32_e32 v13, 0; "
                f"v_ldexp_f64 v[10:11], -|v[10:11]|, {power if power[1] != 'x' else 'v12'}; "
                f"v_mov_b32_e32 v12, 0{narrow}",
                wide(lambda a, b, n=n: np.ldexp(-abs(a), n)), floats=True)
        )  # fmt: skip
    for name, of in {"add": np.add, "mul": np.multiply}.items():
        rows.append(
            Row(f"k_{name}_64", f"{widen} v_{name}_f64 v[10:11], v[10:11], v[12:13]{narrow}",
                wide(of), floats=True)
        )  # fmt: skip
        rows.append(
            Row(f"k_{name}_64_neg", f"{widen} v_{name}_f64 v[10:11], v[10:11], -|v[12:13]|{narrow}",
                wide(lambda a, b, of=of: of(a, -abs(b))), floats=True)
        )  # fmt: skip
    return rows


def _doubles() -> list[Row]:
    """Comparisons of the products of v2 with itself and v3, whose lower halves differ."""
    products = (
        "v_cvt_f64_f32_e32 v[10:11], v2; v_cvt_f64_f32_e32 v[12:13], v3; "
        "v_mul_f64 v[12:13], v[10:11], v[12:13]; v_mul_f64 v[10:11], v[10:11], v[10:11]; "
    )
    clear = "".join(f"; v_mov_b32_e32 v{n}, 0" for n in range(10, 14))

    def of_products(of: Callable[[Array, Array], Array], *, signs: bool, half: bool) -> Expected:
        def expected(w: Inputs) -> dict[int, Array]:
            a, b = w.f[0].astype(np.float64), w.f[1].astype(np.float64)
            a, b = (-(a * a), abs(a * b)) if signs else (a * a, a * b)
            found = np.asarray(of(np.float64(0.5) if half else a, b)).astype(np.uint32)
            zero = np.zeros_like(found)
            return {**dict.fromkeys(range(4), zero), MASK: found}

        return expected

    rows = []
    for c, of in ORDERED.items():
        masked = "s_mov_b64 s[22:23], vcc; s_mov_b64 vcc, s[24:25]"
        cases = {
            "short": (f"v_cmp_{c}_f64_e32 vcc, v[10:11], v[12:13]; {masked}", False, False),
            "long": (f"v_cmp_{c}_f64_e64 s[22:23], -v[10:11], |v[12:13]|", True, False),
            "constant": (f"v_cmp_{c}_f64_e64 s[22:23], 0.5, v[12:13]", False, True),
        }
        rows += [
            Row(f"k_{c}_64_{name}", f"{products}{code}{clear}",
                of_products(of, signs=signs, half=half), floats=True)
            for name, (code, signs, half) in cases.items()
        ]  # fmt: skip
    return rows


def _packed() -> list[Row]:
    """Halves below 2, and all but infinities and NaNs: with these and without large ones."""

    def words(w: Inputs, k: int, mask: int) -> tuple[Array, Array]:
        found = w.u[k] & np.uint32(mask)
        low, high = (found & 0xFFFF).astype(np.uint16), (found >> 16).astype(np.uint16)
        return low.view(np.float16).astype(np.float64), high.view(np.float16).astype(np.float64)

    def joined(low: Array, high: Array) -> Array:
        with np.errstate(over="ignore"):
            bits = [
                each.astype(np.float16).view(np.uint16).astype(np.uint32) for each in (low, high)
            ]
        return bits[0] | bits[1] << np.uint32(16)

    def expected(of: Callable[..., Array], mask: int, count: int, *, crossed: bool) -> Expected:
        def found(w: Inputs) -> dict[int, Array]:
            lows, highs = zip(*(words(w, k, mask) for k in range(count)), strict=True)
            if crossed:  # the first source has its halves the other way round, the last a sign
                lows, highs = (highs[0], *lows[1:]), (lows[0], *highs[1:])
                lows = (*lows[:-1], -lows[-1])
            zero = np.zeros_like(w.u[0])
            return {0: joined(of(*lows), of(*highs)), 1: zero, 2: zero, 3: zero}

        return found

    operations: dict[str, tuple[int, Callable[..., Array]]] = {
        "add": (2, lambda a, b: a + b), "mul": (2, lambda a, b: a * b),
        "fma": (3, lambda a, b, c: a * b + c), "max": (2, np.fmax), "min": (2, np.fmin),
    }  # fmt: skip
    rows = []
    for name, (count, of) in operations.items():
        for mask in (0xBFFFBFFF, 0xFBFFFBFF):
            clean = "".join(f"v_and_b32_e32 v{11 + k}, {mask:#x}, v{2 + k}; " for k in range(count))
            sources = ", ".join(f"v{11 + k}" for k in range(count))
            last = ",".join("0" * (count - 1) + "1")
            first_upper = ",".join("1" + "0" * (count - 1))
            others = ",".join("0" + "1" * (count - 1))
            forms = {
                "": False,
                f" op_sel:[{first_upper}] op_sel_hi:[{others}] neg_lo:[{last}]": True,
            }
            clear = "; v_mov_b32_e32 v11, 0; v_mov_b32_e32 v12, 0; v_mov_b32_e32 v13, 0"
            rows += [
                Row(f"k_pk_{name}_{mask:x}_{crossed}",
                    f"{clean}v_pk_{name}_f16 v10, {sources}{tail}{clear}",
                    expected(of, mask, count, crossed=crossed), CDNA3)
                for tail, crossed in forms.items()
            ]  # fmt: skip
    low = "v_and_b32_e32 v11, 0xbfffbfff, v2; v_and_b32_e32 v12, 0xbfffbfff, v3; "
    clear = "; v_mov_b32_e32 v11, 0; v_mov_b32_e32 v12, 0"

    def of_lower(of: Callable[[Array, Array], Array]) -> Expected:
        def found(w: Inputs) -> dict[int, Array]:
            zero = np.zeros_like(w.u[0])
            a, b = (words(w, k, 0xBFFFBFFF)[0] for k in range(2))
            return {0: of(a, b), 1: zero, 2: zero}

        return found

    rows += [
        Row("k_fma_16", f"{low}v_fma_f16 v10, v11, -v12, |v11|{clear}",
            of_lower(lambda a, b: joined(-a * b + abs(a), np.zeros_like(a)))),
        Row("k_pack_16", f"{low}v_pack_b32_f16 v10, -v11, |v12|{clear}",
            of_lower(lambda a, b: joined(-a, abs(b))), CDNA3),
    ]  # fmt: skip
    return rows


def _unordered(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


ORDERED: dict[str, Callable[[Array, Array], Array]] = {
    "lt": np.less, "le": np.less_equal, "eq": np.equal, "gt": np.greater, "ge": np.greater_equal,
    "lg": lambda a, b: (a < b) | (a > b), "o": lambda a, b: ~_unordered(a, b), "u": _unordered,
    "nlt": lambda a, b: ~(a < b), "nle": lambda a, b: ~(a <= b), "neq": lambda a, b: ~(a == b),
    "ngt": lambda a, b: ~(a > b), "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
}  # fmt: skip


def rounded(b: float, a: float) -> np.float32:
    """b - a * a in float32, rounded once, from whole numbers of 2^-298."""
    exact = int(b * 2.0**149) * 2**149 - int(a * 2.0**149) ** 2
    if exact == 0:
        return np.float32(b - a * a)  # the sign of zero is that of any width
    return nearest(exact, -298)


def nearest(whole: int, exponent: int) -> np.float32:
    """whole * 2^exponent to the nearest float32, ties to even."""
    size = abs(whole)
    shift = max(size.bit_length() - 24, -149 - exponent, 0)
    quotient, rest = size >> shift, size & ((1 << shift) - 1)
    half = 1 << shift >> 1
    quotient += rest > half or (rest == half and shift > 0 and quotient & 1)
    with np.errstate(all="ignore"):
        value = np.float32(np.ldexp(float(quotient), shift + exponent))
    return -value if whole < 0 else value


# Lanes ---------------------------------------------------------------------------------------


def _single() -> list[Row]:
    def written(w: Inputs) -> dict[int, Array]:
        return {0: np.where(lane(w) == 17, w.u[0][first(w)], w.u[1])}

    def written_there(w: Inputs) -> dict[int, Array]:
        return {0: np.where(lane(w) == w.u[1][first(w)] % 64, w.u[0][first(w)], w.u[1])}

    def below(w: Inputs, mask: Array, *, upper: bool) -> Array:
        before = [max(0, k - 32) if upper else min(k, 32) for k in lane(w)]
        return np.array(
            [(int(m) & ((1 << n) - 1)).bit_count() for m, n in zip(mask, before)], np.uint32
        )

    rows = [
        Row("k_readlane", "v_readlane_b32 s20, v2, 13",
            lambda w: {4: w.u[0][first(w) + 13]}),
        Row("k_readlane_far", "v_readlane_b32 s20, v2, 61",
            lambda w: {4: w.u[0][first(w) + 61]}),
        Row("k_readlane_there", f"{HALF_ON}; v_readlane_b32 s20, v2, s9; {ALL_ON}",
            lambda w: {4: of_lane(w, w.u[0], w.u[1][first(w)])}),
        Row("k_writelane", "v_mov_b32_e32 v10, v3; v_writelane_b32 v10, s8, 17", written),
        Row("k_writelane_there",
            f"v_mov_b32_e32 v10, v3; {HALF_ON}; v_writelane_b32 v10, s8, s9; {ALL_ON}",
            written_there),
    ]  # fmt: skip
    for half, upper in (("lo", False), ("hi", True)):
        name = f"v_mbcnt_{half}_u32_b32"
        rows += [
            Row(f"k_{name}", f"{name} v10, v2, v3",
                lambda w, u=upper: {0: below(w, w.u[0], upper=u) + w.u[1]}),
            Row(f"k_{name}_all", f"{name} v10, -1, 5",
                lambda w, u=upper: {0: below(w, 0 * w.u[0] + np.uint32(0xFFFFFFFF), upper=u) + 5}),
            Row(f"k_{name}_scalar", f"{name} v10, s8, v3",
                lambda w, u=upper: {0: below(w, w.u[0][first(w)], upper=u) + w.u[1]}),
        ]  # fmt: skip
    return rows


def _exchanges() -> list[Row]:
    def gathered(source: Callable[[Inputs], Array]) -> Callable[[str, str], list[Row]]:
        def both(name: str, code: str) -> list[Row]:
            def some(w: Inputs) -> dict[int, Array]:
                there = active(w)[first(w) + source(w) % 64]
                found = np.where(there, of_lane(w, w.u[0], source(w)), 0)
                return {0: np.where(active(w), found, UNTOUCHED)}

            return [
                Row(name, code, lambda w: {0: of_lane(w, w.u[0], source(w))}),
                Row(f"{name}_partial", f"{HALF_ON}; {code}; {ALL_ON}", some),
            ]

        return both

    def sent(w: Inputs) -> dict[int, Array]:
        found = np.zeros(w.items, np.uint32)
        found[first(w) + (lane(w) * 5 + 3) % 64] = w.u[0]
        return {0: found}

    def sent_by_some(w: Inputs) -> dict[int, Array]:
        found, on = np.zeros(w.items, np.uint32), active(w)
        found[(first(w) + (lane(w) * 5 + 3) % 64)[on]] = w.u[0][on]
        return {0: np.where(on, found, UNTOUCHED)}

    wait = "; s_waitcnt lgkmcnt(0)"
    send = (
        "v_and_b32_e32 v20, 63, v0; v_mul_u32_u24_e32 v20, 20, v20; "
        f"ds_permute_b32 v10, v20, v2 offset:12{wait}"
    )
    rows = [
        *gathered(lambda w: (w.u[1] >> 2).astype(int))(
            "k_bpermute", f"ds_bpermute_b32 v10, v3, v2{wait}"),
        *gathered(lambda w: (w.u[1] + np.uint32(20) >> 2).astype(int))(
            "k_bpermute_offset", f"ds_bpermute_b32 v10, v3, v2 offset:20{wait}"),
        Row("k_permute", send, sent),
        Row("k_permute_partial", f"{HALF_ON}; {send}; {ALL_ON}", sent_by_some),
    ]  # fmt: skip
    swizzles: dict[str, Callable[[Array], Array]] = {
        "swizzle(SWAP,1)": lambda k: k ^ 1,
        "swizzle(SWAP,16)": lambda k: k ^ 16,
        "swizzle(REVERSE,8)": lambda k: k ^ 7,
        "swizzle(BROADCAST,4,2)": lambda k: k // 4 * 4 + 2,
        "swizzle(QUAD_PERM,3,0,2,1)": lambda k: k // 4 * 4 + np.array([3, 0, 2, 1])[k % 4],
        'swizzle(BITMASK_PERM,"01pip")': lambda k: (k & 32) | 8 | (k & 5) | ((k & 2) ^ 2),
    }
    for at, (text, of) in enumerate(swizzles.items()):
        rows += gathered(lambda w, of=of: of(lane(w)))(
            f"k_swizzle{at}", f"ds_swizzle_b32 v10, v2 offset:{text}{wait}"
        )
    return rows


def _across() -> list[Row]:
    """Data-parallel moves: the source of each lane, or -1 where there is none."""

    def in_row(of: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return lambda k: np.where(
            (of(k % 16) >= 0) & (of(k % 16) < 16), k // 16 * 16 + of(k % 16), -1
        )

    controls: dict[str, Callable[[Array], Array]] = {
        "quad_perm:[2,3,0,0]": lambda k: k // 4 * 4 + np.array([2, 3, 0, 0])[k % 4],
        "row_shl:3": in_row(lambda k: k + 3),
        "row_shr:1": in_row(lambda k: k - 1),
        "row_ror:5": lambda k: k // 16 * 16 + (k - 5) % 16,
        "row_mirror": lambda k: k ^ 15,
        "row_half_mirror": lambda k: k ^ 7,
        "row_bcast:15": lambda k: np.where(k >= 16, k // 16 * 16 - 1, -1),
        "row_bcast:31": lambda k: np.where(k >= 32, 31, -1),
    }

    def moved(
        of: Callable[[Array], Array], rows: int, banks: int, *, zero: bool, some: bool
    ) -> Expected:
        def expected(w: Inputs) -> dict[int, Array]:
            k = lane(w)
            source = of(k)
            on = active(w) if some else np.ones(w.items, bool)
            there = (source >= 0) & on[first(w) + source % 64]
            chosen = on & (rows >> k // 16 & 1 == 1) & (banks >> k % 16 // 4 & 1 == 1)
            value = np.where(there, of_lane(w, w.u[0], source), 0)
            return {0: np.where(chosen & (there | zero), value, w.u[1])}

        return expected

    found = []
    for at, (control, of) in enumerate(controls.items()):
        for rows, banks, zero, some in (
            (15, 15, False, False),
            (15, 15, True, True),
            (10, 7, False, True),
        ):
            tail = f"row_mask:{rows:#x} bank_mask:{banks:#x}" + " bound_ctrl:1" * zero
            code = f"v_mov_b32_dpp v10, v2 {control} {tail}"
            if some:
                code = f"{HALF_ON}; {code}; {ALL_ON}"
            name = f"k_dpp{at}_{rows}_{int(zero)}_{int(some)}"
            found.append(
                Row(
                    name,
                    f"v_mov_b32_e32 v10, v3; {code}",
                    moved(of, rows, banks, zero=zero, some=some),
                )
            )
    return found


def rows() -> list[Row]:
    """All of them."""
    return [*_floats(), *_doubles(), *_packed(), *_single(), *_exchanges(), *_across()]
