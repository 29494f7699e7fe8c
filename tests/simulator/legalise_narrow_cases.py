"""Rows of bytes and shorts in LDS and memory, of atomics, and of 16-bit floats."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from legalise_rows import BOTH, CDNA3, GCN3, MASK_BITS, UNTOUCHED, VCC, Inputs, Row
from legalise_semantics import f16

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Array = NDArray[Any]

LANE = "v_and_b32_e32 v20, 63, v0"
LDS_DONE = "s_waitcnt lgkmcnt(0)"
DONE = "s_waitcnt vmcnt(0) lgkmcnt(0)"
SOME, ALL_OF_THEM = "s_mov_b64 exec, s[26:27]", "s_mov_b64 exec, -1"


def rows() -> list[Row]:
    return [*_lds(), *_halves(), *_saturating(), *_local_atomics(), *_global_atomics(),
            *_wide_local_atomics(), *_wide_atomics(), *_fences(), *_stores()]  # fmt: skip


def _join(*parts: str) -> str:
    return "; ".join(parts)


# LDS below a word ----------------------------------------------------------------------------


def _signed(x: Array, bits: int) -> Array:
    return ((x.astype(np.int64) ^ 1 << bits - 1) - (1 << bits - 1)).astype(np.uint32)


def _lds() -> Iterator[Row]:
    """Each lane owns eight bytes, which hold its words 0 and 1."""
    own = f"{LANE}; v_lshlrev_b32_e32 v20, 3, v20"
    put = "ds_write_b32 v20, v2 offset:512; ds_write_b32 v20, v3 offset:516"
    for offset in (512, 513, 514, 515, 516, 519):
        for kind in ("u8", "i8", "u16", "i16"):
            bits = int(kind[1:])
            if bits == 16 and offset % 2:
                continue
            code = _join(own, put, LDS_DONE, f"ds_read_{kind} v10, v20 offset:{offset}", LDS_DONE)

            def read(w: Inputs, o: int = offset - 512, k: str = kind) -> dict[int, Array]:
                value = w.u64(0) >> np.uint64(8 * o) & np.uint64((1 << int(k[1:])) - 1)
                value = value.astype(np.uint32)
                return {0: _signed(value, int(k[1:])) if k[0] == "i" else value}

            yield Row(f"m_read_{kind}_{offset}", code, read)
    for name in ("u8_d16", "u16_d16", "u8_d16_hi", "u16_d16_hi"):
        code = _join(
            own, put, LDS_DONE, "v_mov_b32_e32 v10, v4",
            f"ds_read_{name} v10, v20 offset:514", LDS_DONE,
        )  # fmt: skip

        def half(w: Inputs, k: str = name) -> dict[int, Array]:
            value = w.u[0] >> 16 & (255 if k.startswith("u8") else 0xFFFF)
            if k.endswith("hi"):
                return {0: w.u[2] & 0xFFFF | value << 16}
            return {0: w.u[2] & 0xFFFF0000 | value}

        yield Row(f"m_read_{name}", code, half, CDNA3)
    for name, offset, mask, shift in (
        ("ds_write_b16", 514, 0xFFFF0000, 0), ("ds_write_b16", 512, 0xFFFF, 0),
        ("ds_write_b16_d16_hi", 512, 0xFFFF, 16), ("ds_write_b8_d16_hi", 513, 0xFF00, 16),
    ):  # fmt: skip
        code = _join(
            own, put, LDS_DONE, f"{name} v20, v4 offset:{offset}", LDS_DONE,
            "ds_read_b32 v10, v20 offset:512", "ds_read_b32 v11, v20 offset:516", LDS_DONE,
        )  # fmt: skip

        def write(w: Inputs, m: int = mask, s: int = shift, o: int = offset) -> dict[int, Array]:
            value = (w.u[2] >> s).astype(np.uint64) << np.uint64(8 * (o - 512))
            return {0: w.u[0] & ~np.uint32(m) | value.astype(np.uint32) & np.uint32(m), 1: w.u[1]}

        yield Row(f"m_{name}_{offset}", code, write, CDNA3 if "d16" in name else (*CDNA3, *GCN3))


# 16-bit floats -------------------------------------------------------------------------------


def _halves() -> Iterator[Row]:
    """Results are read as 32-bit floats, in which a NaN has no bits."""

    def widened(values: Array) -> dict[int, Array]:
        return {0: values.astype(np.float32).view(np.uint32)}

    operations: dict[str, Callable[[Array, Array], Array]] = {
        "add": np.add, "sub": np.subtract, "subrev": lambda a, b: b - a, "mul": np.multiply,
        "max": np.fmax, "min": np.fmin,
    }  # fmt: skip
    widen = "v_cvt_f32_f16_e32 v10, v10"
    for name, of in operations.items():
        more: dict[str, Any] = {"floats": True, "any_zero": name in ("max", "min")}
        for form, code, a, b in (
            ("e32", "v2, v3", lambda w: f16(w.u[0]), lambda w: f16(w.u[1])),
            ("e32", "0.5, v3", lambda w: np.float16(0.5), lambda w: f16(w.u[1])),
            ("e64", "-v2, |v3|", lambda w: -f16(w.u[0]), lambda w: abs(f16(w.u[1]))),
        ):

            def computed(w: Inputs, of=of, a=a, b=b) -> dict[int, Array]:  # type: ignore[no-untyped-def]
                return widened(of(a(w), b(w)))

            label = f"k_{name}_f16_{form}_{code.split(',')[0]}"
            yield Row(label, _join(f"v_{name}_f16_{form} v10, {code}", widen), computed, **more)
    alone: dict[str, Callable[[Array], Array]] = {
        "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc, "rndne": np.rint,
        "rcp": lambda x: 1 / x, "sqrt": np.sqrt, "rsq": lambda x: 1 / np.sqrt(x.astype(float)),
    }  # fmt: skip
    for name, each in alone.items():
        for form in ("e32", "e64"):

            def of_one(w: Inputs, of=each) -> dict[int, Array]:  # type: ignore[no-untyped-def]
                x = f16(w.u[0]).astype(np.float32)
                return widened(of(x).astype(np.float32).astype(np.float16))

            code = _join(f"v_{name}_f16_{form} v10, v2", widen)
            yield Row(f"k_{name}_f16_{form}", code, of_one, floats=True)
    for kind, whole in (("i16", np.int16), ("u16", np.uint16)):
        for form in ("e32", "e64"):
            yield Row(
                f"k_cvt_f16_{kind}_{form}", _join(f"v_cvt_f16_{kind}_{form} v10, v2", widen),
                lambda w, whole=whole: widened(
                    (w.u[0] & 0xFFFF).astype(np.uint16).view(whole).astype(np.float16)
                ), floats=True,
            )  # fmt: skip
    yield Row(
        "k_div_fixup_f16", _join("v_div_fixup_f16 v10, v4, v3, v2", widen),
        lambda w: widened((f16(w.u[0]).astype(np.float32) / f16(w.u[1])).astype(np.float16)),
        floats=True,
    )  # fmt: skip

    def classes(w: Inputs) -> dict[int, Array]:
        word = w.u[0] & 0xFFFF
        size, below = word & 0x7FFF, word >> 15 == 1
        kind = np.select([size == 0, size < 0x400, size < 0x7C00, size == 0x7C00], [6, 7, 8, 9], 9)
        kind = np.where(below, 11 - kind, kind)
        kind = np.where(size > 0x7C00, size >> 9 & 1, kind)
        return {VCC: (w.u[1] >> kind.astype(np.uint32) & 1).astype(np.uint32)}

    for form in ("e32", "e64"):
        yield Row(f"k_class_f16_{form}", f"v_cmp_class_f16_{form} vcc, v2, v3", classes, CDNA3)
    orders: dict[str, Callable[[Array, Array], Array]] = {
        "lt": np.less, "eq": np.equal, "le": np.less_equal, "gt": np.greater,
        "lg": lambda a, b: (a < b) | (a > b), "ge": np.greater_equal,
        "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    }  # fmt: skip
    opposite = {"nge": "ge", "nlg": "lg", "ngt": "gt", "nle": "le", "neq": "eq", "nlt": "lt",
                "u": "o"}  # fmt: skip
    for name in (*orders, *opposite):

        def compared(w: Inputs, name: str = name) -> dict[int, Array]:
            found = orders[opposite.get(name, name)](f16(w.u[0]), f16(w.u[1]))
            return {VCC: (~found if name in opposite else found).astype(np.uint32)}

        for form in ("e32", "e64"):
            yield Row(f"k_cmp_{name}_f16_{form}", f"v_cmp_{name}_f16_{form} vcc, v2, v3", compared)


def _saturating() -> Iterator[Row]:
    def clipped(total: Array, bits: int) -> dict[int, Array]:
        most = (1 << bits - 1) - 1
        return {0: (np.clip(total, -most - 1, most) & ((1 << bits) - 1)).astype(np.uint32)}

    for name, sign in (("add", 1), ("sub", -1)):

        def wide(w: Inputs, sign: int = sign) -> dict[int, Array]:
            return clipped(w.i[0].astype(np.int64) + sign * w.i[1].astype(np.int64), 32)

        def short(w: Inputs, sign: int = sign) -> dict[int, Array]:
            a, b = ((u & 0xFFFF).astype(np.uint16).view(np.int16).astype(int) for u in w.u[:2])
            return clipped(a + sign * b, 16)

        yield Row(f"k_{name}_i32_clamp", f"v_{name}_i32 v10, v2, v3 clamp", wide, CDNA3)
        yield Row(f"k_{name}_i16_clamp", f"v_{name}_i16 v10, v2, v3 clamp", short, CDNA3)

    for name, a, b in (("add", 1, 1), ("sub", 1, -1), ("subrev", -1, 1)):
        for bits in (32, 16):

            def unsigned(w: Inputs, a: int = a, b: int = b, bits: int = bits) -> dict[int, Array]:
                most = (1 << bits) - 1
                first, second = ((u & most).astype(np.int64) for u in w.u[:2])
                return {0: np.clip(a * first + b * second, 0, most).astype(np.uint32)}

            what = f"v_{name}_u{bits}_e64 v10, "
            yield Row(f"k_{name}_u{bits}_clamp", f"{what}v2, v3 clamp", unsigned, CDNA3)
            carry = "s[28:29], " if bits == 32 else ""
            yield Row(f"k_{name}_u{bits}_clamp_gcn3", f"{what}{carry}v2, v3 clamp", unsigned, GCN3)


# Atomics: right in emulation only ------------------------------------------------------------


def _i(x: int) -> int:
    return x - (1 << 32) if x >> 31 else x


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda old, x: old + x, "sub": lambda old, x: old - x,
    "smin": lambda old, x: min(_i(old), _i(x)), "umin": min,
    "smax": lambda old, x: max(_i(old), _i(x)), "umax": max,
    "and": lambda old, x: old & x, "or": lambda old, x: old | x, "xor": lambda old, x: old ^ x,
    "swap": lambda old, x: x,
}  # fmt: skip


PLACES = 4  # that the lanes of a wavefront share


def _in_turn(
    w: Inputs, of: Callable[..., int], *, some: bool = False, start: int = 5, bits: int = 32
) -> tuple[Array, Array]:
    """(what each item finds, what is left for each item's place), lane by lane."""
    given = (w.u64(0), w.u64(2)) if bits == 64 else (w.u[0], w.u[1])
    found, left = np.zeros_like(given[0]), np.zeros_like(given[0])
    on = w.bit(MASK_BITS if some else 2**64 - 1) == 1
    for first in range(0, w.items, 64):
        held = [start] * PLACES
        for k in range(64):
            if on[first + k]:
                found[first + k] = held[k % PLACES]
                values = (int(each[first + k]) for each in given)
                held[k % PLACES] = of(held[k % PLACES], *values) & (1 << bits) - 1
        for k in range(64):
            left[first + k] = held[k % PLACES]
    return found, left


def _f(of: Callable[[Any, Any], Any]) -> Callable[[int, int, int], int]:
    def both(old: int, x: int, _: int) -> int:
        a, b = (np.uint32(v).view(np.float32) for v in (old, x))
        with np.errstate(all="ignore"):
            return int(np.float32(of(a, b)).view(np.uint32))

    return both


def _exchanged(old: int, new: int, expected: int) -> int:
    return new if old == expected else old


def _local_atomics() -> Iterator[Row]:
    """Lanes that are equal modulo 4 share a word of LDS, which holds 5 (or 5.0) before."""
    words = "v_and_b32_e32 v20, 3, v0; v_lshlrev_b32_e32 v20, 2, v20"
    names = {
        "add_{}u32": ("add", False), "sub_{}u32": ("sub", False), "min_{}i32": ("smin", False),
        "min_{}u32": ("umin", False), "max_{}i32": ("smax", False), "max_{}u32": ("umax", False),
        "and_{}b32": ("and", False), "or_{}b32": ("or", False), "xor_{}b32": ("xor", False),
        "add_{}f32": ("add_f32", True), "min_{}f32": ("fmin", True), "max_{}f32": ("fmax", True),
        "cmpst_{}b32": ("cmpst", False), "wrxchg_{}b32": ("swap", False),
    }  # fmt: skip
    floats = {"add_f32": np.add, "fmin": np.fmin, "fmax": np.fmax}
    for name, (operation, is_float) in names.items():
        start = 0x40A00000 if is_float else 5
        of: Callable[..., int]
        if operation == "cmpst":
            of = _exchanged
        elif is_float:
            of = _f(floats[operation])
        else:
            of = lambda old, x, _, o=operation: OPERATIONS[o](old, x)  # noqa: E731
        data = "v3, v2" if operation == "cmpst" else "v2"
        for returns in (False, True):
            if operation == "swap" and not returns:
                continue
            instruction = f"ds_{name.format('rtn_' if returns else '')} "
            instruction += f"{'v10, ' if returns else ''}v20, {data} offset:1024"

            def expected(w: Inputs, of=of, returns=returns, start=start):  # type: ignore[no-untyped-def]
                found, left = _in_turn(w, of, start=start)
                return {1: left, **({0: found} if returns else {})}

            code = _join(
                words, f"v_mov_b32_e32 v21, {start:#x}",
                "ds_write_b32 v20, v21 offset:1024", LDS_DONE, instruction, LDS_DONE,
                "ds_read_b32 v11, v20 offset:1024", LDS_DONE,
            )  # fmt: skip
            yield Row(
                f"m_{instruction.split()[0]}", code, expected,
                floats=is_float, any_zero=is_float, timed=False,
            )  # fmt: skip


def _wide_local_atomics() -> Iterator[Row]:
    """The same with 64 bits, words 0 and 1 of each item."""
    names = {
        "add_{}u64": "add", "sub_{}u64": "sub", "min_{}i64": "smin", "min_{}u64": "umin",
        "max_{}i64": "smax", "max_{}u64": "umax", "and_{}b64": "and", "or_{}b64": "or",
        "xor_{}b64": "xor", "cmpst_{}b64": "cmpswap", "wrxchg_{}b64": "swap",
        "add_{}f64": "add_f64",
    }  # fmt: skip
    kinds = _wide()
    start = f"v_mov_b32_e32 v22, {WIDE_START & 0xFFFFFFFF:#x}; v_mov_b32_e32 v23, 5"
    for (name, operation), returns in product(names.items(), (False, True)):
        if operation == "swap" and not returns:
            continue
        data = {"cmpswap": "v[22:23], v[2:3]", "add_f64": "v[24:25]"}.get(operation, "v[2:3]")
        instruction = f"ds_{name.format('rtn_' if returns else '')} "
        instruction += f"{'v[10:11], ' if returns else ''}v20, {data} offset:1024"

        def expected(w: Inputs, of=kinds[operation], returns=returns):  # type: ignore[no-untyped-def]
            found, left = _in_turn(w, of, start=WIDE_START, bits=64)
            seen = enumerate((*(_halves_of(found) if returns else ()), *_halves_of(left)))
            return {k if returns else k + 2: each for k, each in seen}

        yield Row(
            f"m_{instruction.split()[0]}",
            _join(
                "v_and_b32_e32 v20, 3, v0; v_lshlrev_b32_e32 v20, 3, v20", start, FINITE,
                "ds_write_b64 v20, v[22:23] offset:1024", LDS_DONE, instruction, LDS_DONE,
                "ds_read_b64 v[12:13], v20 offset:1024", LDS_DONE,
            ),
            expected, CDNA3 if operation == "add_f64" else BOTH, timed=False,
        )  # fmt: skip


# In memory, s[6:7] + v19 (gfx942) or v[18:19] (gfx803) is the place of item 0's word.


def _place(index: str, arch: str) -> str:
    """Code that puts the place into v20 (gfx942) or v[20:21]; `index` leaves it in bytes in v20."""
    if arch == "gfx942":
        return f"{index}; v_add_u32_e32 v20, v19, v20"
    return (
        f"{index}; v_add_u32_e32 v20, vcc, v18, v20; v_mov_b32_e32 v21, v19; "
        "v_addc_u32_e64 v21, vcc, 0, v21, vcc; s_mov_b64 vcc, s[24:25]"
    )


OWN = "v_lshlrev_b32_e32 v20, 2, v0"
SHARED = "v_and_b32_e32 v20, 0xffffffc3, v0; v_lshlrev_b32_e32 v20, 2, v20"


def _access(name: str, arch: str, result: str, data: str, more: str = "") -> str:
    if arch == "gfx942":
        return f"global_{name} {result}v20, {data}, s[6:7]{' sc0' if result else ''}{more}"
    return f"flat_{name} {result}v[20:21], {data}{' glc' if result else ''}"


def _global_atomics() -> Iterator[Row]:
    """Lanes that are equal modulo 4 share a word; half of the lanes, by turns."""
    kinds: dict[str, Callable[..., int]] = {
        name: lambda old, x, _, of=of: of(old, x) for name, of in OPERATIONS.items()
    }
    kinds |= {"cmpswap": _exchanged, "add_f32": _f(np.add)}
    for (name, of), arch in ((kind, arch) for kind in kinds.items() for arch in (*CDNA3, *GCN3)):
        data = "v[2:3]" if name == "cmpswap" else "v2"
        start = 0x40A00000 if name == "add_f32" else 5
        for result, some in (("", False), ("v10, ", True)):
            instruction = _access(f"atomic_{name}", arch, result, data)
            code = _join(
                _place(OWN, arch), f"v_mov_b32_e32 v22, {start:#x}",
                _access("store_dword", arch, "", "v22"), DONE, _place(SHARED, arch),
                *((SOME,) if some else ()), instruction, DONE, *((ALL_OF_THEM,) if some else ()),
            )  # fmt: skip

            def expected(w: Inputs, of=of, some=some, start=start):  # type: ignore[no-untyped-def]
                found, _ = _in_turn(w, of, some=some, start=start)
                on = w.bit(MASK_BITS) == 1
                return {0: np.where(on, found, UNTOUCHED)} if some else {}

            def region(w: Inputs, of=of, some=some, start=start) -> Array:  # type: ignore[no-untyped-def]
                _, left = _in_turn(w, of, some=some, start=start)
                shared = np.arange(w.items) % 64 < PLACES
                return np.where(shared, left, np.uint32(start))[:, None]

            yield Row(
                f"g_{instruction.split()[0]}_{int(some)}", code, expected, (arch,), timed=False,
                region=region, words=1, floats=name == "add_f32",
            )  # fmt: skip


def _i64(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


def _halves_of(x: Array) -> tuple[Array, Array]:
    return (x & np.uint64(0xFFFFFFFF)).astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)


WIDE_START = 5 << 32 | 0x80000003


FINITE = "v_and_b32_e32 v25, 0xbfffffff, v3; v_mov_b32_e32 v24, v2"  # words 0 and 1 as a double


def _wide() -> dict[str, Callable[..., int]]:
    kinds: dict[str, Callable[..., int]] = {
        name: lambda old, x, _, of=of: of(old, x) for name, of in OPERATIONS.items()
    }
    return kinds | {
        "smin": lambda old, x, _: min(old, x, key=_i64),
        "smax": lambda old, x, _: max(old, x, key=_i64),
        "cmpswap": lambda old, x, _: x if old == WIDE_START else old,
        "add_f64": _sum_of_doubles,
    }


def _sum_of_doubles(old: int, x: int, _: int) -> int:
    a, b = (np.uint64(v).view(np.float64) for v in (old, x & ~(1 << 62)))
    return int((a + b).view(np.uint64))


def _wide_atomics() -> Iterator[Row]:
    """Of 64 bits, with words 0 and 1 of each item; cmpswap compares with what is there at first."""
    kinds = _wide()
    for (name, of), arch in ((kind, arch) for kind in kinds.items() for arch in (*CDNA3, *GCN3)):
        data, more = "v[2:3]", ()
        if name == "add_f64":
            if arch != "gfx942":
                continue
            data, more = "v[24:25]", (FINITE,)
        if name == "cmpswap":
            data = "v[2:5]"
            more = (f"v_mov_b32_e32 v4, {WIDE_START & 0xFFFFFFFF:#x}; v_mov_b32_e32 v5, 5",)
        for result, some in (("", False), ("v[10:11], ", True)):
            wide = name if name == "add_f64" else f"{name}_x2"
            instruction = _access(f"atomic_{wide}", arch, result, data)
            code = _join(
                _place(OWN.replace("2, v0", "3, v0"), arch),
                f"v_mov_b32_e32 v22, {WIDE_START & 0xFFFFFFFF:#x}; v_mov_b32_e32 v23, 5",
                _access("store_dwordx2", arch, "", "v[22:23]"), DONE,
                _place(SHARED.replace("2, v20", "3, v20"), arch), *more,
                *((SOME,) if some else ()), instruction, DONE, *((ALL_OF_THEM,) if some else ()),
            )  # fmt: skip

            def expected(w: Inputs, of=of, some=some):  # type: ignore[no-untyped-def]
                found, _ = _in_turn(w, of, some=some, start=WIDE_START, bits=64)
                on = w.bit(MASK_BITS) == 1
                parts = enumerate(_halves_of(found))
                return {k: np.where(on, each, UNTOUCHED + k) for k, each in parts} if some else {}

            def region(w: Inputs, of=of, some=some) -> Array:  # type: ignore[no-untyped-def]
                _, left = _in_turn(w, of, some=some, start=WIDE_START, bits=64)
                shared = np.arange(w.items) % 64 < PLACES
                return np.stack(_halves_of(np.where(shared, left, np.uint64(WIDE_START))), axis=1)

            yield Row(
                f"g_{instruction.split()[0]}_{int(some)}", code, expected, (arch,), timed=False,
                region=region, words=2,
            )  # fmt: skip


def _fences() -> Iterator[Row]:
    """Of the whole GPU, as clang puts them around a fence of agent scope."""
    for code, archs in (
        (f"buffer_wbl2 sc1; {DONE}; buffer_inv sc1", CDNA3),
        ("buffer_wbinvl1_vol; buffer_wbinvl1", GCN3),
    ):
        code = _join(code, "v_mov_b32_e32 v10, v2")
        yield Row(f"g_fence_{archs[0]}", code, lambda w: {0: w.u[0]}, archs, timed=False)


def _stores() -> Iterator[Row]:
    """Lane by lane, into the first words of the wavefront, which hold word 1 of their items."""
    names = ("store_byte", "store_short", "store_byte_d16_hi", "store_short_d16_hi")
    for name, arch, some in (
        (n, a, s) for n in names for a in (*CDNA3, *GCN3) for s in (False, True)
    ):
        if arch == "gfx803" and "d16" in name:
            continue
        nbytes, shift = (1 if "byte" in name else 2), (16 if "d16" in name else 0)
        packed = (
            "v_and_b32_e32 v20, 63, v0; v_and_b32_e32 v22, 0xffffffc0, v0; "
            f"v_lshlrev_b32_e32 v22, 2, v22; v_lshlrev_b32_e32 v20, {nbytes - 1}, v20; "
            "v_or_b32_e32 v20, v22, v20"
        )
        more = ""
        if arch == "gfx942" and some:  # an offset, and the address as a pair
            packed, more = f"{packed}; v_add_u32_e32 v20, 4, v20", " offset:-4"
        code = _join(
            _place(OWN, arch), _access("store_dword", arch, "", "v3"), DONE, _place(packed, arch),
            *((SOME,) if some else ()), _access(name, arch, "", "v2", more), DONE,
            *((ALL_OF_THEM,) if some else ()),
        )  # fmt: skip

        def region(w: Inputs, n: int = nbytes, shift: int = shift, some: bool = some) -> Array:
            left, on = w.u[1].copy(), w.bit(MASK_BITS if some else 2**64 - 1) == 1
            memory = left.view("u1")
            for item in np.flatnonzero(on):
                at = item // 64 * 256 + item % 64 * n
                value = int(w.u[0][item]) >> shift
                memory[at : at + n] = list((value & (1 << 8 * n) - 1).to_bytes(n, "little"))
            return left[:, None]

        yield Row(
            f"g_{name}_{arch}_{int(some)}", code, lambda w: {}, (arch,), timed=False,
            region=region, words=1,
        )  # fmt: skip
