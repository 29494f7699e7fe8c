"""Guards, branches, calls, barriers, fences and the registers that tell a thread who it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simgen_examine.conform import values
from simgen_examine.conform.arithmetic import Wanted
from simgen_examine.conform.expected import Expected
from simgen_examine.conform.ptx.forms import (
    PtxForm,
    Shown,
    column,
    constant,
    form,
    one_by_one,
    output,
    wanted,
)
from simgen_examine.conform.ptx.kernels import INDEX, KEPT, NAME, OUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simgen_examine.conform.values import Words

    Extents = tuple[int, ...]

GUARDS = "9.3 Predicated Execution"
FLOW = "9.7.12 Control Flow Instructions"
SECTION = "9.7.13 Parallel Synchronization and Communication Instructions"
REGISTERS = "10 Special Registers"
BLOCK = 256
MASK = 0xFFFFFFFF
SHAPES = (
    ((4, 1, 1), (256, 1, 1)), ((2, 2, 2), (8, 4, 4)), ((3, 1, 2), (5, 7, 3)),
    ((1, 5, 1), (33, 2, 3)),
)  # fmt: skip


def control(arch: str) -> Iterator[PtxForm]:
    """Forms of control flow for a machine."""
    del arch
    yield from _guards()
    yield from _flow()
    yield from _literals()
    yield from _barriers()
    yield from _fences()
    yield from _ids()


def _form(
    name: str, text: str, what: str, of: Callable[[int, int, int], int], section: str = FLOW,
    setup: tuple[str, ...] = (), constants: tuple[str, ...] = (), after: tuple[str, ...] = (),
) -> PtxForm:  # fmt: skip
    """A form that computes %r11, which holds 5 before, from a, b and the thread's number."""

    def answers(words: Words) -> list[Wanted]:
        a, b = column(words[0], "u32"), column(words[1], "u32")
        return [wanted("u32", [of(a[n], b[n], n) for n in range(values.TUPLES)])]

    return form(name, section, text, what, "u32 u32", "u32", answers,
                setup=("mov.u32 %r11, 5;", *setup), after=after, constants=constants)  # fmt: skip


_ODD = ("and.b32 %r31, %r1, 1;", "setp.ne.u32 %p1, %r31, 0;")


def _guards() -> Iterator[PtxForm]:
    for sign, when in (("", 1), ("!", 0)):
        guard = f"@{sign}%p1"
        for text, of in _GUARDED:
            yield _form(
                f"guard {text.split()[0]}", f"{guard} {text}", guard, _where(when, of, 5), GUARDS,
                _ODD,
            )  # fmt: skip
        yield _form(
            "guard setp", f"{guard} setp.lt.u32 %p2, %r1, %r2;", guard,
            _where(when, lambda a, b: int(a < b), 1), GUARDS,
            (*_ODD, "setp.eq.u32 %p2, %r1, %r1;"), after=("selp.u32 %r11, 1, 0, %p2;",),
        )  # fmt: skip
        for root, text, kept, more in _MOVED:

            def moved(a: int, when: int = when, kept: int = kept) -> int:
                return a if a & 1 == when else kept

            yield form(f"{root}.global.u32", GUARDS, f"{guard} {text}", guard, "u32", "u32",
                       one_by_one("u32", "u32", moved), f"guard {root}", **more)  # fmt: skip


_MOVED: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    ("st", f"st.global.u32 [{OUT}], %r1;", KEPT,
     {"results": (Shown("memory", "", 1),), "setup": _ODD}),
    ("ld", "ld.global.u32 %r11, [%rd91];", 5, {"setup": ("mov.u32 %r11, 5;", *_ODD)}),
)  # fmt: skip
_GUARDED: tuple[tuple[str, Callable[[int, int], int]], ...] = (
    ("add.s32 %r11, %r1, %r2;", lambda a, b: a + b),
    ("mul.lo.u32 %r11, %r1, %r2;", lambda a, b: a * b),
)


def _where(when: int, of: Callable[[int, int], int], before: int) -> Callable[[int, int, int], int]:
    """What the lanes of odd, or of even a, have; the others keep what was there."""
    return lambda a, b, _: of(a, b) if a & 1 == when else before


def _label(text: str) -> str:
    return text.replace("$", f"L_{NAME}_")


_CALLED = (
    f".func (.reg .b32 %r90) f_{NAME}(.reg .b32 %r91, .reg .b32 %r92) {{ .reg .b32 %r93; "
    "mul.lo.u32 %r93, %r91, 3; add.u32 %r90, %r93, %r92; ret; }"
)
_CALLED_BY_PARAMETERS = (
    f".func (.param .b32 out) g_{NAME}(.param .b32 x, .param .b32 y) {{ .reg .b32 %r90, %r91, "
    "%r92; ld.param.b32 %r91, [x]; ld.param.b32 %r92, [y]; sub.u32 %r90, %r91, %r92; "
    "st.param.b32 [out], %r90; ret; }"
)


def _flow() -> Iterator[PtxForm]:
    yield _form("bra", _label("@%p1 bra $1; add.u32 %r11, %r1, %r2; bra $2; $1: "
                "sub.u32 %r11, %r1, %r2; $2:"), "if and else",
                lambda a, b, _: a - b if a & 1 else a + b, setup=_ODD)  # fmt: skip
    yield _form("bra", _label("@!%p1 bra $1; add.u32 %r11, %r11, %r1; $1: "
                "xor.b32 %r11, %r11, %r2;"), "if",
                lambda a, b, _: (5 + a if a & 1 else 5) & MASK ^ b, setup=_ODD)  # fmt: skip
    nested = (
        "@!%p1 bra $3; @!%p2 bra $1; add.u32 %r11, %r11, 1; bra $2; $1: add.u32 %r11, %r11, 10; "
        "$2: add.u32 %r11, %r11, 100; $3: add.u32 %r11, %r11, 1000;"
    )
    second = ("and.b32 %r32, %r2, 1;", "setp.ne.u32 %p2, %r32, 0;")
    yield _form("bra", _label(nested), "nested",
                lambda a, b, _: 1005 + ((100 + (1 if b & 1 else 10)) if a & 1 else 0),
                setup=(*_ODD, *second))  # fmt: skip
    loop = (
        "$1: setp.eq.u32 %p1, %r32, 0; @%p1 bra $2; add.u32 %r11, %r11, %r2; "
        "xor.b32 %r11, %r11, %r32; sub.u32 %r32, %r32, 1; bra $1; $2:"
    )
    yield _form("bra", _label(loop), "loop, as often as each lane says", _looped,
                setup=("and.b32 %r32, %r1, 15;",))  # fmt: skip
    broken = (
        "$1: add.u32 %r11, %r11, %r32; add.u32 %r32, %r32, 1; setp.gt.u32 %p1, %r32, %r33; "
        "@%p1 bra $2; setp.lt.u32 %p2, %r32, 12; @%p2 bra $1; add.u32 %r11, %r11, 1000; $2:"
    )
    yield _form("bra", _label(broken), "loop with two ends", _two_ends,
                setup=("mov.u32 %r32, 0;", "and.b32 %r33, %r1, 15;"))  # fmt: skip
    yield _form("bra.uni", _label("bra.uni $1; add.u32 %r11, %r11, 1; $1:"), "over a line",
                lambda *_: 5)  # fmt: skip
    yield _form("brx.idx", _label("$t: .branchtargets $1, $2, $3; brx.idx %r32, $t; "
                "$1: add.u32 %r11, %r11, 1; $2: add.u32 %r11, %r11, 10; $3: "
                "add.u32 %r11, %r11, 100;"), "table of three",
                lambda a, *_: 5 + (111, 110, 100)[a % 3],
                setup=("rem.u32 %r32, %r1, 3;",))  # fmt: skip
    yield _form("call", f"call.uni (%r11), f_{NAME}, (%r1, %r2);", "registers",
                lambda a, b, _: 3 * a + b, constants=(_CALLED,))  # fmt: skip
    by_parameters = (
        "{ .param .b32 u; .param .b32 v; .param .b32 w; st.param.b32 [u], %r1; "
        f"st.param.b32 [v], %r2; call.uni (w), g_{NAME}, (u, v); ld.param.b32 %r11, [w]; }}"
    )
    yield _form("call", by_parameters, "parameters", lambda a, b, _: a - b,
                constants=(_CALLED_BY_PARAMETERS,))  # fmt: skip
    for word in ("exit", "ret"):
        yield _form(word, f"@%p1 {word};", "some lanes",
                    lambda a, *_: KEPT if a & 1 else 5, setup=_ODD)  # fmt: skip
    yield _form("mov of a predicate", "mov.pred %p3, %p1; @%p3 add.u32 %r11, %r11, 1;", "guard",
                lambda a, *_: 6 if a & 1 else 5, GUARDS, _ODD)  # fmt: skip
    scope = "{ .reg .b32 %r11; mov.u32 %r11, 9; } add.u32 %r11, %r11, 1;"
    yield _form("scope", scope, "a register of the same name inside", lambda *_: 6,
                "7.1 Statements")  # fmt: skip


def _looped(a: int, b: int, _: int) -> int:
    found = 5
    for left in range(a & 15, 0, -1):
        found = (found + b & MASK) ^ left
    return found


def _two_ends(a: int, _: int, __: int) -> int:
    found, count = 5, 0
    while True:
        found, count = found + count, count + 1
        if count > a & 15:
            return found
        if count >= 12:
            return found + 1000


def _literals() -> Iterator[PtxForm]:
    """Constants as the manual writes them."""
    section = "4.5 Constants"
    for text, value in (("33U", 33), ("0x1FU", 31), ("017", 15), ("0b1011", 11), ("(1+2)*3", 9),
                        ("0xFFFFFFFF", MASK), ("4294967295", MASK),
                        ("-2147483648", 1 << 31)):  # fmt: skip
        yield _form("literal of 32 bits", f"add.u32 %r11, %r1, {text};", text,
                    lambda a, _, __, v=value: a + v, section)  # type: ignore[misc]  # fmt: skip
    for text, value in (("9223372036854775807", (1 << 63) - 1), ("-4294967297", -(1 << 32) - 1),
                        ("0x8000000000000000", 1 << 63), ("4294967296", 1 << 32)):  # fmt: skip
        yield form("mov.u64", section, f"mov.u64 %rd11, {text};", text, "", "u64",
                   constant("u64", value), "literal of 64 bits")  # fmt: skip
    for text, bits in (("0f3f8ccccd", 0x3F8CCCCD), ("0F3F8CCCCD", 0x3F8CCCCD), ("-2.5", 0xC0200000),
                       ("1.0e2", 0x42C80000), ("0.1", 0x3DCCCCCD)):  # fmt: skip
        yield form("mov.f32", section, f"mov.f32 %f11, {text};", text, "", "f32",
                   constant("b32", bits), "literal of f32")  # fmt: skip


def _barriers() -> Iterator[PtxForm]:
    """A value that another warp wrote into shared memory."""
    put = (f"and.b32 %r31, {INDEX}, 255;", "shl.b32 %r32, %r31, 2;", "mov.u32 %r33, board;",
           "add.u32 %r34, %r33, %r32;", "st.shared.u32 [%r34], %r1;")  # fmt: skip
    get = ("add.u32 %r35, %r31, 77;", "and.b32 %r35, %r35, 255;", "shl.b32 %r35, %r35, 2;",
           "add.u32 %r35, %r33, %r35;", "ld.shared.u32 %r11, [%r35];")  # fmt: skip
    board = (".shared .align 4 .b8 board[1024];",)

    def exchanged(words: Words) -> list[Wanted]:
        a = column(words[0], "u32")
        return [wanted("u32", [a[n // BLOCK * BLOCK + (n + 77) % BLOCK]
                               for n in range(values.TUPLES)])]  # fmt: skip

    for text in ("bar.sync 0;", "bar.sync 3;", "bar.sync 1, 256;", "barrier.sync 0;",
                 "barrier.sync.aligned 2, 256;", "bar.cta.sync 0;"):  # fmt: skip
        yield form(text.split()[0], SECTION, text, text.partition(" ")[2].rstrip(";"), "u32", "u32",
                   exchanged, setup=put, after=get, variables=board)  # fmt: skip
    yield from _reductions()


def _reductions() -> Iterator[PtxForm]:
    rows = (("popc.u32", "%r11", sum), ("and.pred", "%p11", lambda of: int(all(of))),
            ("or.pred", "%p11", lambda of: int(any(of))))  # fmt: skip
    for name, result, of in rows:
        for inverted in (False, True):

            def answers(words: Words, of: object = of, inverted: bool = inverted) -> list[Wanted]:
                bits = [(each & 1) ^ inverted for each in column(words[0], "u32")]
                # The first blocks have mixed truths; the third has none, the last one all.
                bits[2 * BLOCK : 3 * BLOCK] = [int(inverted)] * BLOCK
                bits[3 * BLOCK :] = [int(not inverted)] * BLOCK
                found: list[int] = []
                for start in range(0, values.TUPLES, BLOCK):
                    found += [of(bits[start : start + BLOCK])] * BLOCK  # type: ignore[operator]
                return [wanted("u32", found)]

            yield form(
                f"bar.red.{name}", SECTION,
                f"bar.red.{name} {result}, 0, {'!' if inverted else ''}%p1;",
                "inverted" if inverted else "truths", "u32", "u32", answers,
                setup=(f"shr.u32 %r31, {INDEX}, 8;", "and.b32 %r32, %r1, 1;",
                       "setp.eq.u32 %p31, %r31, 2;", "selp.u32 %r32, 0, %r32, %p31;",
                       "setp.eq.u32 %p31, %r31, 3;", "selp.u32 %r32, 1, %r32, %p31;",
                       "setp.ne.u32 %p1, %r32, 0;"),
                after=() if result == "%r11" else ("selp.u32 %r11, 1, 0, %p11;",),
            )  # fmt: skip


_FENCES = (
    "membar.cta;", "membar.gl;", "membar.sys;", "fence.acq_rel.cta;", "fence.acq_rel.gpu;",
    "fence.sc.gpu;", "fence.sc.sys;", "bar.warp.sync -1;", "nanosleep.u32 20;", "pmevent 3;",
    "prefetch.global.L1 [%rd91];", "prefetch.global.L2 [%rd91];",
)  # fmt: skip


def _fences() -> Iterator[PtxForm]:
    """What stands between a store and a load of the same thread has to change neither."""
    for text in _FENCES:
        yield form(text.split()[0].rstrip(";"), SECTION, text, "between a store and a load", "u32",
                   "u32", one_by_one("u32", "u32", lambda a: a),
                   setup=(f"st.global.u32 [{OUT}+8192], %r1;",),
                   after=(f"ld.global.u32 %r11, [{OUT}+8192];",))  # fmt: skip


def _ids() -> Iterator[PtxForm]:
    for grid, block in SHAPES:
        for name, axes in _IDS:
            texts = [f"mov.u32 %r{11 + n}, %{name}{axis};" for n, axis in enumerate(axes)]

            def answers(
                _: Words, name: str = name, axes: tuple[str, ...] = axes, grid: Extents = grid,
                block: Extents = block,
            ) -> list[Wanted]:  # fmt: skip
                rows = [_told(name, *each, grid, block) for each in _places(grid, block)]
                return [_left_over([row[n] for row in rows]) for n in range(len(axes))]

            shape = f"grid {'x'.join(map(str, grid))}, block {'x'.join(map(str, block))}"
            yield form("mov.u32", REGISTERS, " ".join(texts), shape, "", "u32", answers,
                       f"%{name}", grid=grid, block=block, place="ids",
                       results=tuple(output("u32", 11 + n) for n in range(len(axes))))  # fmt: skip
    yield _form("WARP_SZ", "add.u32 %r11, %r1, WARP_SZ;", "constant", lambda a, *_: a + 32,
                "4.5.5 Predefined Constants")  # fmt: skip


_IDS = (
    *((name, (".x", ".y", ".z")) for name in ("tid", "ntid", "ctaid", "nctaid")),
    *((name, ("",)) for name in ("laneid", "lanemask_eq", "lanemask_lt", "lanemask_le",
                                 "lanemask_gt", "lanemask_ge")),
)  # fmt: skip


def _told(
    name: str, mine: Extents, group: Extents, at: int, grid: Extents, block: Extents
) -> Extents:
    """What a special register holds in a thread."""
    lane = at % 32
    bit = 1 << lane
    return {
        "tid": mine, "ntid": block, "ctaid": group, "nctaid": grid, "laneid": (lane,),
        "lanemask_eq": (bit,), "lanemask_lt": (bit - 1,), "lanemask_le": (2 * bit - 1,),
        "lanemask_gt": (MASK & ~(2 * bit - 1),), "lanemask_ge": (MASK & ~(bit - 1),),
    }[name]  # fmt: skip


def _places(grid: Extents, block: Extents) -> list[tuple[Extents, Extents, int]]:
    """For each thread: its ids, those of its block, and its number in the block."""
    return [
        ((x, y, z), (i, j, k), (z * block[1] + y) * block[0] + x)
        for k in range(grid[2]) for j in range(grid[1]) for i in range(grid[0])
        for z in range(block[2]) for y in range(block[1]) for x in range(block[0])
    ]  # fmt: skip


def _left_over(found: list[int]) -> Wanted:
    """Behind the last thread, and what the last place got from others, anything is right."""
    free = np.arange(values.TUPLES) >= len(found)
    whole = np.zeros(values.TUPLES, np.uint32)
    whole[: len(found)] = found
    return Wanted("u32", Expected(whole, free))
