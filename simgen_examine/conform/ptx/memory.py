"""Loads, stores and atomics: of all widths, vectors and spaces, into registers that may be wider.

The source of a load lies where the other forms' sources do, or was put into shared, local or
constant memory before; what a store or an atomic leaves is read back, all of 8 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simgen_examine.conform import values
from simgen_examine.conform.ptx.description import number
from simgen_examine.conform.ptx.exact import FORMATS
from simgen_examine.conform.ptx.forms import (
    PtxForm,
    Shown,
    column,
    constant,
    form,
    loaded,
    one_by_one,
    output,
    register,
    wanted,
)  # fmt: skip
from simgen_examine.conform.ptx.kernels import IN, INDEX, KEPT, NAME, OUT, PLANE
from simgen_examine.conform.ptx.operation import FUNCTIONS, OpcodeText, width, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from simgen_examine.conform.arithmetic import Wanted
    from simgen_examine.conform.ptx.forms import Answers
    from simgen_examine.conform.values import Words

_NONE: tuple[str, ...] = ()
SECTION = "9.7.9 Data Movement and Conversion Instructions"
SYNCHRONISATION = "9.7.13 Parallel Synchronization and Communication Instructions"
_TYPES = ("u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64",
          "f32", "f64")  # fmt: skip
_QUALIFIED = (
    "ld.volatile.global", "ld.weak.global", "ld.relaxed.gpu.global", "ld.acquire.gpu.global",
    "ld.relaxed.sys.global", "ld.global.ca", "ld.global.cg", "ld.global.cs", "ld.global.lu",
    "ld.global.cv", "ld.global.nc", "ld.global.L1::no_allocate", "ldu.global",
)  # fmt: skip
_STORED = (
    "st.volatile.global", "st.weak.global", "st.relaxed.gpu.global", "st.release.gpu.global",
    "st.global.wb", "st.global.cg", "st.global.cs", "st.global.wt",
)  # fmt: skip
FILLED = KEPT << 32 | KEPT
TABLE = tuple(0x0123456789ABCDEF * (n + 1) & (1 << 64) - 1 for n in range(8))  # constant memory
_AT = "%rd31"  # an address
MEMORY = (Shown("memory", "", 2),)


def memory(arch: str) -> Iterator[PtxForm]:
    """Forms of loads and stores for a machine."""
    yield from _loads()
    yield from _vector_loads()
    yield from _stores()
    yield from _vector_stores()
    yield from _parameters()
    yield from _addresses()
    yield from _atomics(arch)
    yield from _meeting()


def _least(type_: str) -> str:
    """The narrowest register type for values of a type."""
    return f"{type_[0]}16" if width(type_) == 8 else type_


def _loads() -> Iterator[PtxForm]:
    for type_ in _TYPES:
        size = width(type_) // 8
        for offset in sorted({0, size, 8 - size}):
            if offset + size <= 8:
                yield _load(f"ld.global.{type_}", type_, offset, IN)
        yield _load(f"ld.{type_}", type_, 8 - size, IN)
        for space in ("shared", "local", "const"):
            yield _load(f"ld.{space}.{type_}", type_, 8 - size, space)
        if type_[0] != "f":
            for wide in (32, 64):
                if wide > width(_least(type_)):
                    yield _load(f"ld.global.{type_}", type_, 8 - size, IN, wide)
    for name in _QUALIFIED:
        yield _load(f"{name}.u32", "u32", 4, IN)
    for type_ in ("u32", "s8"):
        yield _load(f"ld.{type_}", type_, 4, "generic shared")
        yield _load(f"ld.{type_}", type_, 4, "generic local")


def _load(name: str, type_: str, offset: int, where: str, wide: int = 0) -> PtxForm:
    """A load of some bytes of a 64-bit source."""
    into = f"{type_[0]}{wide}" if wide else _least(type_)
    held = register(into, 11)
    setup, variables, constants, address = _placed(where)
    sources = ("" if where in (IN, "const") else "%rd1",)
    what = f"byte {offset}" + (f", into {wide} bits" if wide else "")
    if where not in (IN, *name.split(".")):
        what += f", {where}"

    def answers(words: Words) -> list[Wanted]:
        given = column(words[0], "b64")
        if where == "const":
            given = [TABLE[n & 7] for n in range(values.TUPLES)]
        return [wanted(into, [wrapped(each >> 8 * offset, type_) for each in given])]

    return form(
        name, SECTION, f"{name} {held}, [{address}+{offset}];", what, "b64", into, answers,
        f"{name.split('.')[0]}.{type_}", sources=sources, setup=setup, variables=variables,
        constants=constants,
    )  # fmt: skip


def _placed(where: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], str]:
    """Lines that put %rd1 somewhere, declarations, those outside, and the address."""
    space = where.removeprefix("generic ")
    mine = [f"and.b32 %r31, {INDEX}, 255;", "mul.wide.u32 %rd32, %r31, 8;"]
    to_generic = (f"cvta.{space}.u64 {_AT}, {_AT};",) if space != where else ()
    if space == "shared":
        lines = (*mine, f"mov.u64 {_AT}, cells;", f"add.u64 {_AT}, {_AT}, %rd32;",
                 f"st.shared.u64 [{_AT}], %rd1;", *to_generic)  # fmt: skip
        return lines, (".shared .align 8 .b8 cells[2048];",), (), _AT
    if space == "local":
        lines = (f"mov.u64 {_AT}, cell;", f"st.local.u64 [{_AT}], %rd1;", *to_generic)
        return lines, (".local .align 8 .b8 cell[8];",), (), _AT
    if space == "const":
        made = ", ".join(str(byte) for each in TABLE for byte in each.to_bytes(8, "little"))
        lines = (f"and.b32 %r31, {INDEX}, 7;", "mul.wide.u32 %rd32, %r31, 8;",
                 f"mov.u64 {_AT}, table_{NAME};", f"add.u64 {_AT}, {_AT}, %rd32;")  # fmt: skip
        return lines, (), (f".const .align 8 .b8 table_{NAME}[64] = {{{made}}};",), _AT
    return (), (), (), where


def _sixteen(base: str) -> tuple[str, ...]:
    """An address of 16 bytes for each of 512 threads."""
    return (f"ld.param.u64 {_AT}, [{base}];", f"and.b32 %r31, {INDEX}, 511;",
            "mul.wide.u32 %rd32, %r31, 16;", f"add.u64 {_AT}, {_AT}, %rd32;")  # fmt: skip


def _vector_loads() -> Iterator[PtxForm]:
    for many in (2, 4):
        for type_ in _TYPES:
            if many * width(type_) > 128:
                continue
            for space in ("global", ""):
                yield _vector_load(many, type_, space)
            if type_[0] in "su" and width(type_) < 32:
                yield _vector_load(many, type_, "global", 32)


def _vector_load(many: int, type_: str, space: str, wide: int = 0) -> PtxForm:
    name = ".".join(filter(None, ("ld", space, f"v{many}", type_)))
    into = f"{type_[0]}{wide}" if wide else _least(type_)
    held = [register(into, 11 + n) for n in range(many)]

    def answers(words: Words) -> list[Wanted]:
        given = column(words[0], "b64")
        pairs = [given[2 * n % values.TUPLES] | given[2 * n % values.TUPLES + 1] << 64
                 for n in range(values.TUPLES)]  # fmt: skip
        return [
            wanted(into, [wrapped(each >> n * width(type_), type_) for each in pairs])
            for n in range(many)
        ]

    return form(
        name, SECTION, f"{name} {{{', '.join(held)}}}, [{_AT}];",
        (space or "generic") + (f", into {wide} bits" if wide else ""), "b64",
        " ".join([into] * many), answers, f"ld.v{many}.{type_}", sources=("",),
        setup=_sixteen("p_in"),
    )  # fmt: skip


def _written(before: Sequence[int], type_: str, offset: int, given: Sequence[int]) -> list[int]:
    """64-bit words with some bytes replaced."""
    bits, shift = width(type_), 8 * offset
    mask = (1 << bits) - 1
    return [old & ~(mask << shift) | (new & mask) << shift
            for old, new in zip(before, given, strict=True)]  # fmt: skip


def _stores() -> Iterator[PtxForm]:
    for type_ in _TYPES:
        size = width(type_) // 8
        for offset in sorted({0, size, 8 - size}):
            if offset + size <= 8:
                yield _store(f"st.global.{type_}", type_, offset, "global")
        yield _store(f"st.{type_}", type_, 8 - size, "generic")
        for space in ("shared", "local"):
            yield _store(f"st.{space}.{type_}", type_, 8 - size, space)
        if type_[0] != "f" and width(type_) < 64:
            yield _store(f"st.global.{type_}", type_, 8 - size, "global", 64)
    for name in _STORED:
        yield _store(f"{name}.u32", "u32", 4, "global")


def _store(name: str, type_: str, offset: int, where: str, wide: int = 0) -> PtxForm:
    of = f"{type_[0]}{wide}" if wide else _least(type_)

    def answers(words: Words) -> list[Wanted]:
        before = [FILLED] * values.TUPLES
        return [wanted("b64", _written(before, type_, offset, column(words[0], of)))]

    more: dict[str, Any] = {"results": MEMORY}
    address = OUT
    if where in ("shared", "local"):
        # 64-bit constants are tried by themselves: this one is made of halves.
        filled = (f"mov.u32 %r33, {KEPT:#x};", "mov.b64 %rd33, {%r33, %r33};")
        placed, variables, _, address = _placed(where)
        more = {
            "setup": (*filled, *(line.replace("%rd1;", "%rd33;") for line in placed)),
            "after": (f"ld.{where}.u64 %rd11, [{address}];",), "variables": variables,
        }  # fmt: skip
    return form(
        name, SECTION, f"{name} [{address}+{offset}], {register(of, 1)};",
        f"byte {offset}" + (f", from {wide} bits" if wide else ""), of, "b64", answers,
        f"{name.split('.')[0]}.{type_}", **more,
    )  # fmt: skip


def _vector_stores() -> Iterator[PtxForm]:
    for many in (2, 4):
        for type_ in _TYPES:
            if many * width(type_) <= 64:
                yield _vector_store(many, type_)
    for many, type_ in ((2, "u64"), (2, "f64"), (4, "u32"), (4, "f32")):
        yield _wide_vector_store(many, type_)


def _vector_store(many: int, type_: str) -> PtxForm:
    of = _least(type_)

    def answers(words: Words) -> list[Wanted]:
        now = [FILLED] * values.TUPLES
        for n in range(many):
            now = _written(now, type_, n * width(type_) // 8, column(words[n], of))
        return [wanted("b64", now)]

    return _several(many, type_, of, OUT, "8 bytes or less", answers)


def _wide_vector_store(many: int, type_: str) -> PtxForm:
    """16 bytes of each of 512 threads."""

    def answers(words: Words) -> list[Wanted]:
        columns = [column(words[n], type_) for n in range(many)]
        found = []
        for thread in range(values.TUPLES // 2):
            whole = sum(columns[n][thread] << n * width(type_) for n in range(many))
            found += [whole & (1 << 64) - 1, whole >> 64]
        return [wanted("b64", found)]

    return _several(many, type_, type_, _AT, "16 bytes", answers, setup=_sixteen("p_out"),
                    block=(128, 1, 1))  # fmt: skip


def _several(
    many: int, type_: str, of: str, address: str, what: str, answers: Answers, **more: Any
) -> PtxForm:
    name, held = f"st.global.v{many}.{type_}", ", ".join(register(of, 1 + n) for n in range(many))
    return form(name, SECTION, f"{name} [{address}], {{{held}}};", what, " ".join([of] * many),
                "b64", answers, f"st.v{many}.{type_}", results=MEMORY, **more)  # fmt: skip


def _parameters() -> Iterator[PtxForm]:
    """Parts of a parameter, against the whole of it."""
    for type_, offset in (("u32", 0), ("u32", 4), ("u16", 2), ("u8", 1), ("s8", 0), ("b64", 0)):
        shift = 8 * offset
        least = _least(type_)
        held = register(least, 21)
        bits = width(type_)
        to = f"cvt.{type_[0]}64.{type_} %rd12, {held};" if bits < 64 else f"mov.u64 %rd12, {held};"
        whole = ["ld.param.u64 %rd13, [p_in];", f"shr.u64 %rd13, %rd13, {shift};"]
        up = 64 - bits
        whole += [f"shl.b64 %rd13, %rd13, {up};",
                  f"shr.{'s' if type_[0] == 's' else 'u'}64 %rd13, %rd13, {up};"]  # fmt: skip
        yield form(
            f"ld.param.{type_}", SECTION, f"ld.param.{type_} {held}, [p_in+{offset}];",
            f"byte {offset}", "", "b64", constant("b64", 0), results=(output("u64", 11),),
            after=(to, *whole, "sub.u64 %rd11, %rd12, %rd13;"),
        )  # fmt: skip


def _addresses() -> Iterator[PtxForm]:
    """Generic addresses and spaces."""
    for space in ("global", "shared", "local"):
        for asked in ("global", "shared", "local"):
            setup, variables, _, _ = _placed(f"generic {space}")
            if space == "global":
                setup = (f"mov.u64 {_AT}, {OUT};",)
            setup = tuple(line for line in setup if not line.startswith("st."))
            yield form(
                f"isspacep.{asked}", SECTION, f"isspacep.{asked} %p11, {_AT};",
                f"of {space} memory", "", "pred", constant("pred", int(space == asked)),
                "isspacep", setup=setup,
                after=("selp.u32 %r11, 1, 0, %p11;",), variables=variables,
            )  # fmt: skip
    for space in ("shared", "local"):
        setup, variables, _, _ = _placed(f"generic {space}")
        yield form(
            f"cvta.to.{space}.u64", SECTION, f"cvta.to.{space}.u64 %rd34, {_AT};",
            "there and back", "b64", "b64", one_by_one("b64", "b64", lambda a: a), "cvta.u64",
            setup=setup, after=(f"ld.{space}.u64 %rd11, [%rd34];",), variables=variables,
        )  # fmt: skip


# Atomics: types, function, least machine.
_ATOMIC = (
    ("add", ("u32", "s32", "u64"), "add", 70), ("add", ("f32", "f64"), "fadd", 70),
    ("add.noftz", ("f16", "f16x2"), "fadd", 70), ("add.noftz", ("bf16", "bf16x2"), "fadd", 90),
    ("min", ("u32", "s32", "u64", "s64"), "minimum", 70),
    ("max", ("u32", "s32", "u64", "s64"), "maximum", 70),
    ("and", ("b32", "b64"), "bit_and", 70), ("or", ("b32", "b64"), "bit_or", 70),
    ("xor", ("b32", "b64"), "bit_xor", 70), ("exch", ("b32", "b64"), "exchange", 70),
    ("inc", ("u32",), "wrap_up", 70), ("dec", ("u32",), "wrap_down", 70),
    ("cas", ("b16", "b32", "b64"), "swap", 70),
)  # fmt: skip
_OWN: dict[str, Callable[..., int]] = {
    "exchange": lambda _, a, b: b,
    "wrap_up": lambda _, a, b: 0 if a >= b else a + 1,
    "wrap_down": lambda _, a, b: b if a == 0 or a > b else a - 1,
    "swap": lambda _, a, b, c: c if a == b else a,
}


def _atomics(arch: str) -> Iterator[PtxForm]:
    for name, types, function, least in _ATOMIC:
        for type_ in types:
            if number(arch) < least:
                continue
            for space in ("global", "shared", ""):
                yield _atomic("atom", space, name, type_, function)
                if name not in ("exch", "cas"):
                    yield _atomic("red", space, name, type_, function)
    for qualifier in ("relaxed.gpu", "acquire.cta", "release.sys", "acq_rel.gpu", "gpu", "cta"):
        yield _atomic(f"atom.{qualifier}", "global", "add", "u32", "add")
    yield _atomic("red.relaxed.gpu", "global", "add", "u32", "add")


def _atomic(root: str, space: str, name: str, type_: str, function: str) -> PtxForm:
    """On a cell of the thread's own; its value before is the first source."""
    # A scope stands before the space, as it does in the manual.
    opcode_name = ".".join(filter(None, (root, space, name, type_)))
    returns = root.startswith("atom")
    count = 3 if name == "cas" else 2
    held = [register(type_, 1 + n) for n in range(count)]
    kind = loaded(type_)
    setup: tuple[str, ...] = (f"st.global.{kind} [{OUT}+{PLANE}], {held[0]};",)
    address, after, variables = f"{OUT}+{PLANE}", _NONE, _NONE
    cell = Shown("memory", "", (width(type_) + 31) // 32)
    if space == "shared":
        mine, variables, _, address = _placed("shared")
        setup = (*mine[:-1], f"st.shared.{kind} [{address}], {held[0]};")
        after = (f"ld.shared.{kind} {register(type_, 12)}, [{address}];",)
        cell = output(type_, 12)
    own = _OWN.get(function) or FUNCTIONS[function]
    op = OpcodeText(f"{name.split('.')[0]}.{type_}")

    def answers(words: Words) -> list[Wanted]:
        columns = [column(words[n], type_) for n in range(count)]
        found = [own(op, *row) for row in zip(*columns, strict=True)]
        if type_ == "f32":  # subnormals are flushed in global memory, and kept in shared memory
            found = [None if _subnormal(*row, one) else one
                     for one, *row in zip(found, *columns, strict=True)]  # fmt: skip
        before = [wanted(type_, columns[0])] if returns else [wanted(type_, [None] * len(found))]
        return [*before, wanted(type_, found)]

    result = register(type_, 11)
    first = output(type_, 11) if returns else Shown("memory", "", cell.words)
    operands = [f"[{address}]", *held[1:]]
    return form(
        opcode_name, SYNCHRONISATION,
        f"{opcode_name} {', '.join([result, *operands] if returns else operands)};",
        ".".join(filter(None, (root.partition(".")[2], space or "generic"))),
        " ".join([type_] * count), type_, answers, f"{root.split('.')[0]}.{name}.{type_}",
        results=(first, cell), setup=setup, after=after, variables=variables,
    )  # fmt: skip


def _subnormal(*bits: object) -> bool:
    of = FORMATS["f32"]
    return any(isinstance(each, int) and 0 < each & of.sign - 1 < of.normal for each in bits)


def _meeting() -> Iterator[PtxForm]:
    """All threads at one cell."""
    for name, type_, of in (
        ("add", "u32", lambda cell, all_: cell + sum(all_)),
        ("max", "u32", lambda cell, all_: max(cell, *all_)),
        ("min", "s32", lambda cell, all_: min(cell, *all_)),
        ("xor", "b32", lambda cell, all_: cell ^ int(np.bitwise_xor.reduce(all_))),
        ("add", "u64", lambda cell, all_: cell + sum(all_)),
    ):
        for root in ("atom", "red"):
            returns = f"{register(type_, 11)}, " if root == "atom" else ""

            def answers(words: Words, type_: str = type_, of: object = of) -> list[Wanted]:
                given = column(words[0], type_)
                start = FILLED if width(type_) == 64 else KEPT
                cell = of(start, given) & (1 << width(type_)) - 1  # type: ignore[operator]
                cells = [FILLED] * values.TUPLES
                cells[0] = cell if width(type_) == 64 else KEPT << 32 | cell
                return [wanted("b64", cells)]

            opcode = f"{root}.global.{name}.{type_}"
            yield form(
                opcode, SYNCHRONISATION, f"{opcode} {returns}[{_AT}], {register(type_, 1)};",
                "all threads at one cell", type_, type_, answers, f"{root}.{name}.{type_}",
                results=MEMORY, setup=(f"ld.param.u64 {_AT}, [p_out];",),
            )  # fmt: skip
