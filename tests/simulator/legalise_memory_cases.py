"""Rows of loads, stores and control: what has an effect beside its registers.

Global addresses: s[4:5] points to the input, word k of item i at 4 * (k * items + i); every
wavefront reads from its start. LDS: each work-group is one wavefront, which has 32 KiB.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from legalise_rows import CDNA3, GCN3, MASK_BITS, SCC, VCC, VCC_BITS, Inputs, Row
from legalise_semantics import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Array = NDArray[Any]

LANE = "v_and_b32_e32 v20, 63, v0"
LDS_DONE = "s_waitcnt lgkmcnt(0)"
DONE = "s_waitcnt vmcnt(0) lgkmcnt(0)"
ADD_64 = {
    "gfx803": "v_add_u32_e32 {0}, vcc, {2}, {4}; v_addc_u32_e64 {1}, vcc, 0, {3}, vcc; "
    "s_mov_b64 vcc, s[24:25]",
}


def rows() -> list[Row]:
    found = [
        *_lds(),
        *_loads(),
        *_stores(),
        *_scalar_loads(),
        *_branches(),
        *_saveexec(),
        *_other(),
    ]
    return [replace(row, name=f"{row.name}.{k}") for k, row in enumerate(found)]


def _words(count: int) -> Callable[[Inputs], dict[int, Array]]:
    return lambda w: {k: w.u[k] for k in range(count)}


# LDS -------------------------------------------------------------------------------------------


def _lds() -> Iterator[Row]:
    """Each lane owns 16 bytes. One side of each row is made of single words."""
    at = f"{LANE}; v_lshlrev_b32_e32 v20, 4, v20"
    for offset in (0, 512, 1020, 1032, 4096, 16384):
        single = [f"ds_write_b32 v20, v{2 + k} offset:{offset + 4 * k}" for k in range(4)]
        reads = [f"ds_read_b32 v{10 + k}, v20 offset:{offset + 4 * k}" for k in range(4)]
        for width, bits in ((1, 32), (2, 64), (3, 96), (4, 128)):
            data = "v2" if width == 1 else f"v[2:{1 + width}]"
            to = "v10" if width == 1 else f"v[10:{9 + width}]"
            if width > 2 and offset % 16:
                continue
            code = [at, *single[:width], LDS_DONE, f"ds_read_b{bits} {to}, v20 offset:{offset}"]
            yield Row(f"ds_read_b{bits}.{offset}", "; ".join([*code, LDS_DONE]), _words(width))
            code = [at, f"ds_write_b{bits} v20, {data} offset:{offset}", LDS_DONE, *reads[:width]]
            yield Row(f"ds_write_b{bits}.{offset}", "; ".join([*code, LDS_DONE]), _words(width))
            move = f"v_mov_b32_e32 v{9 + width}, v20"  # the address in the result
            code = [at, *single[:width], LDS_DONE, move]
            code.append(f"ds_read_b{bits} {to}, v{9 + width} offset:{offset}")
            yield Row(f"ds_read_b{bits}.in.{offset}", "; ".join([*code, LDS_DONE]), _words(width))
    yield from _lds_pairs()
    # A byte of each word.
    code = f"{at}; ds_write_b32 v20, v2; {LDS_DONE}; ds_write_b8 v20, v3 offset:{{0}}; {LDS_DONE}; "
    for k in range(4):
        yield Row(
            f"ds_write_b8.{k}", code.format(k) + f"ds_read_b32 v10, v20; {LDS_DONE}",
            lambda w, k=k: {0: w.u[0] & np.uint32(ALL ^ 255 << 8 * k) | (w.u[1] & 255) << 8 * k},
        )  # fmt: skip


def _lds_pairs() -> Iterator[Row]:
    """Two elements at offsets in units of their size, or of 64 times that."""
    for width, (first, second), apart in (
        (1, (0, 1), ""), (1, (3, 2), ""), (1, (128, 255), ""), (2, (0, 1), ""), (2, (65, 130), ""),
        (1, (0, 1), "st64"), (1, (1, 5), "st64"), (1, (9, 2), "st64"),
        (2, (0, 1), "st64"), (2, (3, 1), "st64"),
    ):  # fmt: skip
        size = 4 * width
        step = size * 64 if apart else size
        # Strided elements of all lanes lie side by side.
        at = f"{LANE}; v_lshlrev_b32_e32 v20, {2 + (width > 1) if apart else 4}, v20"
        if not apart and second - first > 1:
            at = f"{LANE}; v_lshlrev_b32_e32 v20, {2 + (width > 1)}, v20"
            first, second = 0, 64
        name, bits = f"{apart}_b{32 * width}", (first, second)
        offsets = f"offset0:{first} offset1:{second}"
        singles = [(first * step + 4 * k, k) for k in range(width)]
        singles += [(second * step + 4 * k, width + k) for k in range(width)]
        writes = [f"ds_write_b32 v20, v{2 + k} offset:{where}" for where, k in singles]
        reads = [f"ds_read_b32 v{10 + k}, v20 offset:{where}" for where, k in singles]
        values = ("v2", "v3") if width == 1 else ("v[2:3]", "v[4:5]")
        to = f"v[10:{9 + 2 * width}]"
        tag = f"{name}.{bits[0]}.{bits[1]}"
        code = [at, *writes, LDS_DONE, f"ds_read2{name} {to}, v20 {offsets}", LDS_DONE]
        yield Row(f"ds_read2{tag}", "; ".join(code), _words(2 * width))
        code[3] = f"ds_write2{name} v20, {', '.join(values)} {offsets}"
        code = [at, code[3], LDS_DONE, *reads, LDS_DONE]
        yield Row(f"ds_write2{tag}", "; ".join(code), _words(2 * width))
        for held in range(2 * width):  # the address in the result
            move = f"v_mov_b32_e32 v{10 + held}, v20"
            code = [at, *writes, LDS_DONE, move, f"ds_read2{name} {to}, v{10 + held} {offsets}"]
            yield Row(f"ds_read2{tag}.in{held}", "; ".join([*code, LDS_DONE]), _words(2 * width))


# Global memory ---------------------------------------------------------------------------------


def _address(step: int, offset: int, arch: str) -> str:
    """v[20:21] (gfx803) or v20 beside s[4:5]: step * lane + offset."""
    code = f"{LANE}; v_mul_u32_u24_e32 v20, {step}, v20; v_add_u32_e32 v20, {{}}{offset:#x}, v20"
    if arch == "gfx942":
        return code.format("")
    return (
        code.format("vcc, ") + "; v_mov_b32_e32 v21, s5; "
        + ADD_64["gfx803"].format("v20", "v21", "s4", "v21", "v20")
    )  # fmt: skip


def _loads() -> Iterator[Row]:
    kinds: dict[str, tuple[int, int, Callable[[Array], Array]]] = {
        "dword": (4, 1, lambda b: b.view("<u4")),
        "dwordx2": (8, 2, lambda b: b.view("<u4")),
        "dwordx3": (12, 3, lambda b: b.view("<u4")),
        "dwordx4": (16, 4, lambda b: b.view("<u4")),
        "ubyte": (1, 1, lambda b: b.astype(np.uint32)),
        "sbyte": (1, 1, lambda b: b.view("i1").astype(np.int32).view(np.uint32)),
        "ushort": (2, 1, lambda b: b.view("<u2").astype(np.uint32)),
        "sshort": (2, 1, lambda b: b.view("<i2").astype(np.int32).view(np.uint32)),
    }
    for what, (size, width, view) in kinds.items():
        to = "v10" if width == 1 else f"v[10:{9 + width}]"
        narrow = size < 4
        for step, offset in ((size, 0), (size + 4 * (not narrow) + narrow, 64), (size, 3 * narrow)):

            def expected(
                w: Inputs, step: int = step, offset: int = offset, size: int = size,
                width: int = width, view: Callable[[Array], Array] = view,
            ) -> dict[int, Array]:  # fmt: skip
                memory = np.ascontiguousarray(w.u).view(np.uint8).reshape(-1)
                places = offset + step * (np.arange(w.items) % 64)
                raw = memory[places[:, None] + np.arange(size)]
                values = view(np.ascontiguousarray(raw)).reshape(w.items, width)
                return {k: values[:, k] for k in range(width)}

            tag = f"{what}.{step}.{offset}"
            a, b = (_address(step, offset, arch) for arch in ("gfx942", "gfx803"))
            name = f"global_load_{what}"
            yield Row(f"{name}.{tag}", f"{a}; {name} {to}, v20, s[4:5]; {DONE}", expected, CDNA3)
            less = f"v_subrev_u32_e32 v20, 24, v20; {name} {to}, v20, s[4:5] offset:24"
            if offset >= 24:
                yield Row(f"{name}.{tag}.o", f"{a}; {less}; {DONE}", expected, CDNA3)
            off = (
                "v_mov_b32_e32 v21, s5; v_add_co_u32_e32 v20, vcc, s4, v20; "
                "v_addc_co_u32_e32 v21, vcc, 0, v21, vcc; s_mov_b64 vcc, s[24:25]; "
                f"{name} {to}, v[20:21], off"
            )
            yield Row(f"{name}.{tag}.off", f"{a}; {off}; {DONE}", expected, CDNA3)
            move = f"v_mov_b32_e32 v{9 + width}, v20; {name} {to}, v{9 + width}, s[4:5]"
            yield Row(f"{name}.{tag}.in", f"{a}; {move}; {DONE}", expected, CDNA3)
            name = f"flat_load_{what}"
            yield Row(f"{name}.{tag}", f"{b}; {name} {to}, v[20:21]; {DONE}", expected, GCN3)
            if width > 1:
                move = "v_mov_b32_e32 v10, v20; v_mov_b32_e32 v11, v21"
                code = f"{b}; {move}; {name} {to}, v[10:11]; {DONE}"
                yield Row(f"{name}.{tag}.in", code, expected, GCN3)


def _stores() -> Iterator[Row]:
    for width in (1, 2, 3, 4):
        what = "dword" if width == 1 else f"dwordx{width}"
        data = "v2" if width == 1 else f"v[2:{1 + width}]"

        def region(w: Inputs, width: int = width) -> Array:
            return w.u[:width].T.copy()

        more: dict[str, Any] = {"region": region, "words": width}
        index = f"v_mul_u32_u24_e32 v20, {4 * width}, v0"
        name = f"global_store_{what}"
        add = f"{index}; v_add_u32_e32 v20, v19, v20"
        code = f"{add}; {name} v20, {data}, s[6:7]; {DONE}"
        yield Row(f"{name}.0", code, _nothing, CDNA3, **more)
        code = f"{add}; v_add_u32_e32 v20, 16, v20; {name} v20, {data}, s[6:7] offset:-16; {DONE}"
        yield Row(f"{name}.1", code, _nothing, CDNA3, **more)
        name = f"flat_store_{what}"
        add = f"{index}; {ADD_64['gfx803'].format('v20', 'v21', 'v18', 'v19', 'v20')}"
        code = f"{add}; {name} v[20:21], {data}; {DONE}"
        yield Row(f"{name}.0", code, _nothing, GCN3, **more)


def _nothing(w: Inputs) -> dict[int, Array]:
    return {}


def _scalar_loads() -> Iterator[Row]:
    """Words from the start of the input, which all wavefronts read."""

    def two(a: int, b: int) -> Callable[[Inputs], dict[int, Array]]:
        return lambda w: {4: np.full(w.items, w.u[0][a]), 5: np.full(w.items, w.u[0][b])}

    wait = "s_waitcnt lgkmcnt(0)"
    for count in (1, 2, 4, 8, 16):
        name = "s_load_dword" + (f"x{count}" if count > 1 else "")
        to = "s36" if count == 1 else f"s[36:{35 + count}]"
        last = f"s_mov_b32 s20, s36; s_mov_b32 s21, s{35 + count}"
        for offset in (0, 64):
            code = f"{name} {to}, s[4:5], {offset:#x}; {wait}; {last}"
            yield Row(f"{name}.{offset}", code, two(offset // 4, offset // 4 + count - 1))
        if count < 16:
            code = f"s_movk_i32 s31, 0x40; {name} {to}, s[4:5], s31; {wait}; {last}"
            yield Row(f"{name}.s", code, two(16, 15 + count))
        further = (
            "s_cselect_b32 s29, 1, 0; s_add_u32 s30, s4, 0x80; s_addc_u32 s31, s5, 0; "
            "s_cmp_lg_u32 s29, 0; s_movk_i32 s28, 0x20; "
        )
        for tag, operands in (
            ("below", "s[30:31], -0x40"), ("both", "s[30:31], s28 offset:-0x60"),
            ("sum", "s[4:5], s28 offset:0x20"),
        ):  # fmt: skip
            code = f"{further}{name} {to}, {operands}; {wait}; {last}"
            yield Row(f"{name}.{tag}", code, two(16, 15 + count), CDNA3)
        if count == 16:
            code = f"s_movk_i32 s31, 0x40; {name} {to}, s[4:5], s31; {wait}; {last}"
            yield Row(f"{name}.s", code, two(16, 15 + count))
        if count > 1:  # the base in the result
            base = f"s_mov_b64 s[36:37], s[4:5]; {name} {to}, s[36:37], 0x40; {wait}; {last}"
            yield Row(f"{name}.in", base, two(16, 15 + count))
    halves = "s_load_dword {}, s[4:5], 0x40; " + wait
    for half, shift in (("vcc_lo", 0), ("vcc_hi", 32)):
        yield Row(
            f"s_load_dword.{half}", halves.format(half),
            lambda w, shift=shift: {VCC: _lanes(
                w, VCC_BITS & ~(ALL << shift) | int(w.u[0][16]) << shift)},
        )  # fmt: skip
    yield Row(
        "s_load_dwordx2.vcc", f"s_load_dwordx2 vcc, s[4:5], 0x40; {wait}",
        lambda w: {VCC: _lanes(w, int(w.u[0][16]) | int(w.u[0][17]) << 32)},
    )  # fmt: skip


def _lanes(w: Inputs, pattern: int) -> Array:
    return w.bit(pattern)


# Control ---------------------------------------------------------------------------------------


def _branches() -> Iterator[Row]:
    """s20 says which way it went."""
    code = "{}; s_mov_b32 s20, 1; {} @over; s_mov_b32 s20, 2; @over:; s_mov_b64 exec, -1"

    def row(
        name: str, before: str, branch: str, taken: Callable[[Inputs], Any], **more: Any
    ) -> Row:
        def expected(w: Inputs) -> dict[int, Array]:
            way = np.where(np.broadcast_to(taken(w), (w.items,)), np.uint32(1), np.uint32(2))
            return {4: way, **{k: of(w) for k, of in more.items() if isinstance(k, int)}}

        return Row(f"{branch}.{name}", code.format(before, branch), expected, scalar=True,
                   lanes=0)  # fmt: skip

    yield row("", "s_nop 0", "s_branch", lambda w: True)
    less = "s_cmp_lt_u32 s8, s9"
    for branch, when in (("s_cbranch_scc0", 0), ("s_cbranch_scc1", 1)):
        made = row("", less, branch, lambda w, when=when: (w.u[0] < w.u[1]) == bool(when))
        yield _with_scc(made, lambda w: (w.u[0] < w.u[1]).astype(np.uint32))
    masks = (
        ("s_mov_b64 {}, 0", True),
        ("s_mov_b64 {}, s[24:25]", False),
        ("s_mov_b64 {}, 1", False),
    )
    for mask in ("vcc", "exec"):
        for k, (before, zero) in enumerate(masks):
            for branch, when in ((f"s_cbranch_{mask}z", True), (f"s_cbranch_{mask}nz", False)):
                yield row(str(k), before.format(mask), branch, lambda w, t=zero == when: t)
    loop = "s_and_b32 s21, s8, 7; s_mov_b32 s20, 0; @again:; s_add_u32 s20, s20, 3; "
    loop += (
        "s_cmp_lg_u32 s21, 0; s_cbranch_scc0 @out; s_sub_u32 s21, s21, 1; s_branch @again; @out:"
    )
    yield Row("loop", f"{loop}; s_cmp_eq_u32 s8, s8",
              lambda w: {4: 3 + 3 * (w.u[0] & 7), 5: 0 * w.u[0]}, scalar=True)  # fmt: skip


def _with_scc(row: Row, of: Callable[[Inputs], Array]) -> Row:
    return replace(row, expected=lambda w: {**row.expected(w), SCC: of(w)})


def _saveexec() -> Iterator[Row]:
    """The old EXEC in a pair, the new one seen in which lanes of v10 are written."""
    full = 2**64 - 1
    table: dict[str, Callable[[int, int], int]] = {
        "and": lambda s, e: s & e, "or": lambda s, e: s | e, "xor": lambda s, e: s ^ e,
        "andn1": lambda s, e: ~s & e, "andn2": lambda s, e: s & ~e, "orn2": lambda s, e: s | ~e,
        "nand": lambda s, e: ~(s & e), "nor": lambda s, e: ~(s | e), "xnor": lambda s, e: ~(s ^ e),
    }  # fmt: skip
    forms = (  # before, operands, EXEC before, the source, where the result goes
        ("s_mov_b64 exec, s[24:25]", "s[20:21], s[26:27]", VCC_BITS, MASK_BITS, "s"),
        ("s_nop 0", "s[20:21], vcc", full, VCC_BITS, "s"),
        ("s_mov_b64 exec, s[26:27]", "vcc, vcc", MASK_BITS, VCC_BITS, "vcc"),
        ("s_mov_b64 exec, s[24:25]; s_mov_b64 s[20:21], s[26:27]", "s[20:21], s[20:21]",
         VCC_BITS, MASK_BITS, "s"),
        ("s_mov_b64 exec, s[24:25]", "s[20:21], 0", VCC_BITS, 0, "s"),
        ("s_mov_b64 exec, s[24:25]", "s[20:21], -1", VCC_BITS, full, "s"),
    )  # fmt: skip
    for name, of in table.items():
        for k, (before, operands, old, source, to) in enumerate(forms):
            new = of(source, old) & full
            code = (
                f"{before}; s_{name}_saveexec_b64 {operands}; v_mov_b32_e32 v10, 7; "
                "s_mov_b64 exec, -1"
            )

            def expected(
                w: Inputs, new: int = new, old: int = old, to: str = to
            ) -> dict[int, Array]:
                found = {
                    0: np.where(w.bit(new) == 1, np.uint32(7), np.uint32(0x5EED0000)),
                    SCC: np.full(w.items, new != 0, np.uint32),
                }
                if to == "vcc":
                    return {**found, VCC: w.bit(old)}
                parts = {4: old & ALL, 5: old >> 32}
                return {**found, **{n: np.full(w.items, x, np.uint32) for n, x in parts.items()}}

            archs = CDNA3 if name == "andn1" else (*CDNA3, *GCN3)
            yield Row(f"s_{name}_saveexec_b64.{k}", code, expected, archs)


def _other() -> Iterator[Row]:
    hints = ("s_nop 3", "s_setprio 2", "s_sleep 1", "s_barrier", "s_waitcnt 0",
             "s_waitcnt vmcnt(2) expcnt(1) lgkmcnt(3)")  # fmt: skip
    for k, hint in enumerate(hints):
        yield Row(f"{hint.split()[0]}.{k}", f"{hint}; v_mov_b32_e32 v10, v2", _words(1))
    first = (MASK_BITS & -MASK_BITS).bit_length() - 1
    yield Row(
        "v_readfirstlane_b32.partial",
        "s_mov_b64 exec, s[26:27]; v_readfirstlane_b32 s20, v2; s_mov_b64 exec, -1",
        lambda w: {4: w.u[0][np.arange(w.items) // 64 * 64 + first]},
    )  # fmt: skip
