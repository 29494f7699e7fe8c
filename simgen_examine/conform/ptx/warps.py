"""Instructions in which the threads of a warp meet: shuffles, votes, matches, sums."""

from __future__ import annotations

import functools
import operator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from simgen_examine.conform import values
from simgen_examine.conform.ptx.description import number
from simgen_examine.conform.ptx.forms import PtxForm, column, constant, form, register, wanted
from simgen_examine.conform.ptx.kernels import INDEX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from simgen_examine.conform.arithmetic import Wanted
    from simgen_examine.conform.values import Words

LANES = 32
ALL = 0xFFFFFFFF
SHUFFLES = "9.7.9 Data Movement and Conversion Instructions: shfl.sync"
SECTION = "9.7.13 Parallel Synchronization and Communication Instructions"
# Values of `c`: clamp in the lower bits, mask of segments above: a warp, parts of 8 and of 4 lanes,
# a clamp in the middle.
_CLAMPS = {"up": (0, 0x1800, 0x1C00, 9), "": (0x1F, 0x181F, 0x1C1F, 20)}


def warps(arch: str) -> Iterator[PtxForm]:
    """Forms that exchange values within warps, for a machine."""
    yield from _shuffles()
    yield from _votes()
    yield from _matches()
    yield from _parts()
    if number(arch) >= 80:
        yield from _sums()


def _by_warp(of: Callable[..., Sequence[int]], *columns: Sequence[int]) -> list[int]:
    """Columns of all threads, warp by warp."""
    found: list[int] = []
    for start in range(0, values.TUPLES, LANES):
        found += of(*(each[start : start + LANES] for each in columns))
    return found


def shuffled(mode: str, lane: int, b: int, c: int) -> int | None:
    """The lane that one gets its value from; None: it keeps its own."""
    by, clamp, mask = b & 31, c & 31, c >> 8 & 31
    most, least = (lane & mask) | (clamp & ~mask & 31), lane & mask
    if mode == "up":
        return lane - by if lane - by >= most else None
    to = {"down": lane + by, "bfly": lane ^ by, "idx": least | (by & ~mask & 31)}[mode]
    return to if to <= most else None


def _shuffles() -> Iterator[PtxForm]:
    for mode in ("up", "down", "bfly", "idx"):
        for told in ("register", 1, 5, 16):
            for clamp in (*_CLAMPS.get(mode, _CLAMPS[""]), "register"):
                if "register" in (told, clamp) or clamp in _CLAMPS.get(mode, _CLAMPS[""])[:2]:
                    yield _shuffle(mode, told, clamp)
                    if told == "register":
                        yield _alone(_shuffle(mode, told, clamp))


def _shuffle(mode: str, told: str | int, clamp: str | int) -> PtxForm:
    b = "%r2" if told == "register" else str(told)
    c = "%r32" if clamp == "register" else f"{clamp:#x}"

    def answers(words: Words) -> list[Wanted]:
        a, by = column(words[0], "b32"), column(words[1], "u32")
        if told != "register":
            by = [int(told)] * values.TUPLES
        limits = column(words[2], "u32") if clamp == "register" else [int(clamp)] * values.TUPLES

        def one(a: Sequence[int], by: Sequence[int], limits: Sequence[int]) -> list[int]:
            found = []
            for lane in range(LANES):
                at = shuffled(mode, lane, by[lane], limits[lane])
                found.append(a[lane if at is None else at] << 1 | (at is not None))
            return found

        both = _by_warp(one, a, by, limits)
        return [wanted("b32", [each >> 1 for each in both]),
                wanted("pred", [each & 1 for each in both])]  # fmt: skip

    name, by_register = f"shfl.sync.{mode}.b32", clamp == "register"
    return form(
        name, SHUFFLES, f"{name} %r11|%p11, %r1, {b}, {c}, 0xffffffff;",
        f"b {told}, c {clamp if by_register else hex(int(clamp))}",
        "b32 u32 u32" if by_register else "b32 u32", "b32 u32", answers, f"shfl.sync.{mode}",
        setup=("and.b32 %r32, %r3, 0x1f1f;",) if by_register else (),
        after=("selp.u32 %r12, 1, 0, %p11;",),
    )  # fmt: skip


def _alone(of: PtxForm) -> PtxForm:
    """A shuffle that sets no predicate."""
    return replace(
        of, text=of.text.replace("|%p11", ""), what=f"{of.what}, no predicate",
        results=of.results[:1], after=(), answers=lambda words: of.answers(words)[:1],
    )  # fmt: skip


def _mask_of(truths: Sequence[int]) -> int:
    return sum(bool(each) << lane for lane, each in enumerate(truths))


_VOTES: dict[str, Callable[[int, int], int]] = {
    "all": lambda mask, there: int(mask == there), "any": lambda mask, _: int(mask != 0),
    "uni": lambda mask, there: int(mask in (0, there)), "ballot": lambda mask, _: mask,
}  # fmt: skip


def _votes() -> Iterator[PtxForm]:
    """Votes on mixed truths, and on truths that are equal in many warps."""
    for mode in _VOTES:
        for mixed in (True, False):
            for inverted in (False, True):
                yield _vote(mode, mixed=mixed, inverted=inverted)


def _vote(mode: str, *, mixed: bool, inverted: bool) -> PtxForm:
    """Where not `mixed`, all lanes of warps of even numbers have one truth, and others another."""

    def answers(words: Words) -> list[Wanted]:
        truths = [each & 1 for each in column(words[0], "b32")]
        if not mixed:
            truths = [(n >> 5) & 1 for n in range(values.TUPLES)]
        if inverted:
            truths = [1 - each for each in truths]

        def one(truths: Sequence[int]) -> list[int]:
            return [_VOTES[mode](_mask_of(truths), ALL)] * LANES

        return [wanted("b32", _by_warp(one, truths))]

    of = "b32" if mode == "ballot" else "pred"
    setup: tuple[str, ...] = ("and.b32 %r31, %r1, 1;",)
    if not mixed:
        setup = (f"shr.u32 %r31, {INDEX}, 5;", "and.b32 %r31, %r31, 1;")
    name = f"vote.sync.{mode}.{of}"
    result = "%r11" if of == "b32" else "%p11"
    return form(
        name, SECTION, f"{name} {result}, {'!' if inverted else ''}%p1, 0xffffffff;",
        ("mixed truths" if mixed else "truths by warps") + (", inverted" if inverted else ""),
        "b32", "b32", answers, f"vote.sync.{mode}", setup=(*setup, "setp.ne.u32 %p1, %r31, 0;"),
        after=() if of == "b32" else ("selp.u32 %r11, 1, 0, %p11;",),
    )  # fmt: skip


def _matches() -> Iterator[PtxForm]:
    for type_ in ("b32", "b64"):
        for mode in ("any", "all"):
            yield _match(mode, type_)


def _match(mode: str, type_: str) -> PtxForm:
    """Matches of values that some lanes share: remainders by 3; for `all`, also one value
    per warp."""

    def answers(words: Words) -> list[Wanted]:
        given = [each & 3 for each in column(words[0], type_)]
        if mode == "all":
            given = [each if n & 32 else n >> 5 for n, each in enumerate(given)]

        def one(given: Sequence[int]) -> list[int]:
            alike = [_mask_of([each == mine for each in given]) for mine in given]
            if mode == "any":
                return alike
            return [each if each == ALL else 0 for each in alike]

        found = _by_warp(one, given)
        told = [wanted("b32", found)]
        return (
            [*told, wanted("pred", [int(each != 0) for each in found])] if mode == "all" else told
        )

    name = f"match.{mode}.sync.{type_}"
    source, kept = register(type_, 1), register(type_, 31)
    setup = [f"and.{type_} {kept}, {source}, 3;"]
    if mode == "all":
        setup += [f"shr.u32 %r33, {INDEX}, 5;", "and.b32 %r34, %r33, 1;",
                  "setp.eq.u32 %p31, %r34, 0;"]  # fmt: skip
        if type_ == "b64":
            setup.append("cvt.u64.u32 %rd33, %r33;")
        setup.append(f"selp.{type_} {kept}, {register(type_, 33)}, {kept}, %p31;")
    both = mode == "all"
    return form(
        name, SECTION, f"{name} %r11{'|%p11' if both else ''}, {kept}, 0xffffffff;", type_, type_,
        "b32 u32" if both else "b32", answers, f"match.{mode}.sync", setup=tuple(setup),
        after=("selp.u32 %r12, 1, 0, %p11;",) if both else (),
    )  # fmt: skip


def _parts() -> Iterator[PtxForm]:
    """Lanes of a warp that others do not follow."""
    lane = (f"and.b32 %r31, {INDEX}, 31;", "and.b32 %r32, %r31, 3;", "setp.eq.u32 %p1, %r32, 1;",
            "mov.u32 %r11, 7;")  # fmt: skip
    mask = 0x22222222
    chosen = [n & 3 == 1 for n in range(values.TUPLES)]

    def of(told: Callable[[int, Sequence[int]], int]) -> Callable[[Words], list[Wanted]]:
        def answers(words: Words) -> list[Wanted]:
            a = column(words[0], "b32")
            found = []
            for n in range(values.TUPLES):
                warp = a[n // LANES * LANES : n // LANES * LANES + LANES]
                found.append(told(n % LANES, warp) if chosen[n] else 7)
            return [wanted("b32", found)]

        return answers

    rows = (
        ("activemask.b32", "activemask.b32 %r11;", lambda *_: mask),
        ("vote.sync.ballot", f"vote.sync.ballot.b32 %r11, %p2, {mask:#x};",
         lambda _, warp: _mask_of([each & 1 for each in warp]) & mask),
        ("shfl.sync.idx", f"shfl.sync.idx.b32 %r11, %r1, 29, 0x1f, {mask:#x};",
         lambda _, warp: warp[29]),
        ("shfl.sync.down", f"shfl.sync.down.b32 %r11, %r1, 4, 0x1f, {mask:#x};",
         lambda at, warp: warp[at + 4 if at + 4 < LANES else at]),
    )  # fmt: skip
    for family, text, told in rows:
        yield form(text.split()[0], SECTION, f"@%p1 {text}", "one lane of four", "b32", "b32",
                   of(told), family,
                   setup=(*lane, "and.b32 %r33, %r1, 1;", "setp.ne.u32 %p2, %r33, 0;"))  # fmt: skip
    yield form("activemask.b32", SECTION, "activemask.b32 %r11;", "all lanes", "", "b32",
               constant("b32", ALL))  # fmt: skip


_SUMS: dict[str, tuple[str, Callable[[Sequence[int]], int]]] = {  # types, and what is computed
    "add": ("us", sum), "min": ("us", min), "max": ("us", max),
    **{name: ("b", partial(functools.reduce, of)) for name, of in
       (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor))},
}  # fmt: skip


def _sums() -> Iterator[PtxForm]:
    for name, (types, of) in _SUMS.items():
        for type_ in (f"{letter}32" for letter in types):

            def answers(words: Words, type_: str = type_, of: Any = of) -> list[Wanted]:
                given = column(words[0], type_)
                return [wanted(type_, _by_warp(lambda warp: [of(warp)] * LANES, given))]

            yield form(f"redux.sync.{name}.{type_}", SECTION,
                       f"redux.sync.{name}.{type_} %r11, %r1, 0xffffffff;", type_, type_, type_,
                       answers, f"redux.sync.{name}")  # fmt: skip
