"""A kernel that stores its registers at a moment of a chosen visit of one of its blocks.

A block is what lies between labels and branches, at most `LONGEST` instructions of it. Each
wavefront counts in a scalar register how many blocks it has begun; when the count is the one that
is asked for, it branches to a routine behind the kernel, which stores all registers and branches
back. So the program goes on as it would have, and barriers meet. What the routine needs lies in
registers behind those of the kernel; SCC, VCC and EXEC are kept. All registers that a kernel does
not get a value for begin as zero, so that what is left of others does not differ.

Memory is written in planes of 64 words, of a wavefront: HEADER, vcc, exec, the scalar registers
that it was given, and what scalar and vector registers hold now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simgen.errors import RefusedError
from simgen.isa.code_object import PACKED_IDS
from simgen.isa.legalise import assembly
from simgen.isa.legalise.assembly import AssemblyKernel, Instruction, Label
from simgen.isa.lint.rewriting import MOST_SGPRS, changed, descriptor_of

LONGEST = 48  # instructions of a block
LANES = 64
PLANE = LANES * 4  # bytes
MARK = 0x51D0
END = 0xFFFF_FFFF  # the visit that is the end of the kernel
HEADER = ("mark", "point", "visits", "scc", "base_lo", "base_hi")
GIVEN = "given"
SPECIAL = ("vcc_lo", "vcc_hi", "exec_lo", "exec_hi")
SUFFIX = "_stores"  # suffix of the name of a kernel that stores its registers
OWN_SCALARS, OWN_VECTORS = 14, 6
# Scalar registers that a kernel is given, by the bits of kernel_code_properties in its descriptor.
_USER = ((0, 4), (1, 2), (2, 2))  # before the address of the arguments


@dataclass(frozen=True)
class Moment:
    """When registers are stored, by which wavefronts."""

    visit: int = END  # blocks that a wavefront has begun, this one with them, from 1 on
    first: int = 0  # wavefront, counted over the grid
    waves: int = 1
    block: int | None = None  # store before each instruction of this one, and behind the last


@dataclass(frozen=True)
class Launched:
    """What a launch is like."""

    grid: tuple[int, int, int]
    group: tuple[int, int, int]
    pointer_at: int  # byte of the arguments at which an address of the arena lies
    distance: int  # bytes from there to where registers go


@dataclass(frozen=True)
class Blocks:
    """A kernel's text, and where its blocks begin."""

    arch: str
    symbol: str
    vgprs: int
    sgprs: int
    user: int  # scalar registers that a kernel is given: addresses, mostly
    items: tuple[Instruction, ...]
    starts: tuple[int, ...]  # numbers of instructions

    def of(self, block: int) -> range:
        """The numbers of a block's instructions."""
        ends = (*self.starts[1:], len(self.items))
        return range(self.starts[block], ends[block])

    @property
    def names(self) -> tuple[str, ...]:
        """What is in the planes of a moment."""
        scalars = (f"s{n}" for n in range(self.sgprs))
        given = (f"{GIVEN}{n}" for n in range(self.user))
        return (*HEADER, *SPECIAL, *given, *scalars, *(f"v{n}" for n in range(self.vgprs)))

    @property
    def nbytes(self) -> int:
        """Bytes of a wavefront's registers at one moment."""
        return len(self.names) * PLANE


def blocks(code: bytes, symbol: str, arch: str) -> Blocks:
    """The blocks of a kernel.

    Raises:
        RefusedError: its code cannot be moved.
    """
    found: list[Blocks] = []
    user = descriptor_of(code, symbol, f"kernel {symbol}")[6] >> 1 & 31

    def look(text: str) -> str:
        kernel = _parsed(text.split("\n"), symbol)
        lines = sorted(kernel.items)
        items = [kernel.items[at] for at in lines]
        real = tuple(item for item in items if isinstance(item, Instruction))
        found.append(
            Blocks(arch, symbol, kernel.vgprs, kernel.sgprs, user, real, tuple(_starts(items)))
        )
        return text

    changed(code, f"kernel {symbol}", look)
    return found[0]


def _parsed(lines: Sequence[str], symbol: str) -> AssemblyKernel:
    # `changed` gives a module whose functions have no .type of theirs.
    typed = [f"\t.type\t{symbol},@function", *lines]
    (kernel,) = (each for each in assembly.parse(typed) if each.name == symbol)
    return AssemblyKernel(
        kernel.name, kernel.start - 1, {at - 1: item for at, item in kernel.items.items()},
        kernel.vgprs, kernel.sgprs,
        {name: (at - 1, value) for name, (at, value) in kernel.counts.items()},
        {name: (at - 1, value) for name, (at, value) in kernel.metadata.items()},
    )  # fmt: skip


def _starts(items: Sequence[Instruction | Label]) -> list[int]:
    starts, number, fresh, length = [], 0, True, 0
    for item in items:
        if isinstance(item, Label):
            fresh = True
            continue
        if fresh or length == LONGEST:
            starts.append(number)
            length = 0
        fresh = item.mnemonic == "s_branch" or item.mnemonic.startswith("s_cbranch")
        length += 1
        number += 1
    return starts


def storing(code: bytes, of: Blocks, launched: Launched, moment: Moment) -> bytes:
    """The code object of a kernel that stores its registers.

    Raises:
        RefusedError: there are not so many registers, or its branches would be too long.
    """
    more = OWN_SCALARS + of.user
    if of.sgprs + more + 1 > MOST_SGPRS:
        raise RefusedError(
            f"kernel {of.symbol}: it takes {of.sgprs} scalar registers, and storing registers "
            f"takes {more} more, which there are not; take a kernel with fewer"
        )
    made = _Storing(code, of, launched, moment)
    names = {of.symbol: of.symbol + SUFFIX}
    return changed(code, f"kernel {of.symbol}", made.text, names)


class _Storing:
    """Writes the text."""

    def __init__(self, code: bytes, of: Blocks, launched: Launched, moment: Moment) -> None:
        self.of, self.launched, self.moment = of, launched, moment
        told = descriptor_of(code, of.symbol, f"kernel {of.symbol}")
        self.rsrc2, self.flags = told[6], told[7]
        first = of.sgprs + of.sgprs % 2
        self.base = f"s[{first}:{first + 1}]"
        self.low, self.high = f"s{first}", f"s{first + 1}"
        self.exec = f"s[{first + 2}:{first + 3}]"
        self.vcc = f"s[{first + 4}:{first + 5}]"
        self.all = f"s[{first + 6}:{first + 7}]"
        self.count, self.scc, self.point, self.wave, self.free = (
            f"s{first + n}" for n in range(8, 13)
        )
        self.given = [f"s{first + OWN_SCALARS + n}" for n in range(of.user)]
        self.saved = {"vcc_lo": f"s{first + 4}", "vcc_hi": f"s{first + 5}",
                      "exec_lo": f"s{first + 2}", "exec_hi": f"s{first + 3}"}  # fmt: skip
        v = of.vgprs + of.vgprs % 2
        self.lane, self.lane_high, self.at, self.at_high, self.word, self.other = (
            f"v{v + n}" for n in range(6)
        )
        self.address = f"v[{v + 2}:{v + 3}]"
        gfx8 = of.arch.startswith("gfx8")
        self.add = "v_add_u32_e32" if gfx8 else "v_add_co_u32_e32"
        self.addc = "v_addc_u32_e32" if gfx8 else "v_addc_co_u32_e32"
        self.store = (
            f"flat_store_dword {self.address}, {{}}" if gfx8
            else f"global_store_dword {self.address}, {{}}, off"
        )  # fmt: skip

    def text(self, text: str) -> str:
        lines = text.split("\n")
        kernel = _parsed(lines, self.of.symbol)
        before: dict[int, list[str]] = {}
        behind: dict[int, list[str]] = {}
        number = 0
        for at in sorted(kernel.items):
            item = kernel.items[at]
            if isinstance(item, Label):
                continue
            before[at] = self._before(number, item)
            if number == len(self.of.items) - 1:
                behind[at] = self._routine()
            number += 1
        first = min(before)
        before[first] = [*self._start(), *before[first]]
        assembly.raise_counts(
            lines, kernel, self.of.vgprs + self.of.vgprs % 2 + OWN_VECTORS,
            self.of.sgprs + self.of.sgprs % 2 + OWN_SCALARS + self.of.user,
        )  # fmt: skip
        made: list[str] = []
        for at, line in enumerate(lines):
            made += [*_tabbed(before.get(at, ())), line, *_tabbed(behind.get(at, ()))]
        return "\n".join(made)

    def _before(self, number: int, item: Instruction) -> list[str]:
        """What comes in front of an instruction."""
        moment, lines = self.moment, list[str]()
        if number in self.of.starts:
            point = self.of.starts.index(number)
            lines += [f"s_cselect_b32 {self.scc}, 1, 0", f"s_add_u32 {self.count}, {self.count}, 1"]
            if moment.block is None and moment.visit != END:
                lines += self._stop(point)
            lines.append(f"s_cmp_lg_u32 {self.scc}, 0")
        if moment.block is not None:
            chosen = self.of.of(moment.block)
            if number in chosen:
                lines += self._step(number - chosen.start)
            elif number == chosen.stop:  # the count is already one higher
                lines = [*self._step(len(chosen)), *lines]
        if moment.visit == END and item.mnemonic == "s_endpgm":
            lines += [
                f"s_cselect_b32 {self.scc}, 1, 0",
                *self._branch(len(self.of.starts) + number),
            ]
        return lines

    def _step(self, slot: int) -> list[str]:
        """Store before an instruction of the chosen block."""
        return [
            f"s_cselect_b32 {self.scc}, 1, 0", *self._stop(slot), f"s_cmp_lg_u32 {self.scc}, 0",
        ]  # fmt: skip

    def _stop(self, point: int) -> list[str]:
        """Store if this is the visit; its label is where both ways go on."""
        return [
            f"s_cmp_lg_u32 {self.count}, {self.moment.visit}", f"s_cbranch_scc1 .Lgoes_on{point}",
            *self._branch(point),
        ]  # fmt: skip

    def _branch(self, point: int) -> list[str]:
        return [f"s_mov_b32 {self.point}, {point}", "s_branch .Lstores", f".Lgoes_on{point}:"]

    @property
    def _points(self) -> list[int]:
        """The numbers of all places that registers are stored at."""
        if self.moment.block is not None:
            chosen = self.of.of(self.moment.block)
            more = chosen.stop < len(self.of.items)
            return list(range(len(chosen) + more))
        if self.moment.visit != END:
            return list(range(len(self.of.starts)))
        return [
            len(self.of.starts) + number
            for number, item in enumerate(self.of.items)
            if item.mnemonic == "s_endpgm"
        ]

    def _routine(self) -> list[str]:
        lines = [
            ".Lstores:", "s_waitcnt vmcnt(0) lgkmcnt(0)", f"s_mov_b64 {self.exec}, exec",
            f"s_mov_b64 {self.vcc}, vcc",
            f"s_sub_u32 {self.free}, {self.wave}, {self.moment.first}",
            f"s_cmp_ge_u32 {self.free}, {self.moment.waves}", "s_cbranch_scc1 .Lrestores",
            f"s_mov_b64 exec, {self.all}",
            f"v_mov_b32_e32 {self.at}, {self.lane}",
            f"v_mov_b32_e32 {self.at_high}, {self.lane_high}",
        ]  # fmt: skip
        if self.moment.block is not None:
            lines += [
                f"s_mul_i32 {self.free}, {self.point}, {self.of.nbytes:#x}",
                f"{self.add} {self.at}, vcc, {self.free}, {self.at}",
                f"{self.addc} {self.at_high}, vcc, 0, {self.at_high}, vcc",
            ]
        for name in self.of.names:
            lines += [
                *self._word(name),
                f"{self.add} {self.at}, vcc, {PLANE:#x}, {self.at}",
                f"{self.addc} {self.at_high}, vcc, 0, {self.at_high}, vcc",
            ]
        lines += ["s_waitcnt vmcnt(0) lgkmcnt(0)", ".Lrestores:", f"s_mov_b64 exec, {self.exec}",
                  f"s_mov_b64 vcc, {self.vcc}", "s_nop 4"]  # fmt: skip
        for point in self._points:
            lines += [f"s_cmp_eq_u32 {self.point}, {point}", f"s_cbranch_scc1 .Lgoes_on{point}"]
        return [*lines, "s_endpgm"]

    def _word(self, name: str) -> list[str]:
        """Store one register of each lane."""
        if name[0] == "v" and name[1:].isdigit():
            return [self.store.format(name)]
        source = {
            "mark": f"{MARK:#x}", "point": self.point, "visits": self.count, "scc": self.scc,
            "base_lo": self.low, "base_hi": self.high, **self.saved,
            **{f"{GIVEN}{n}": register for n, register in enumerate(self.given)},
        }.get(name, name)  # fmt: skip
        return [f"v_mov_b32_e32 {self.word}, {source}", self.store.format(self.word)]

    # What a kernel begins with ----------------------------------------------------------------

    def _start(self) -> list[str]:
        user = self.rsrc2 >> 1 & 31
        arguments = sum(count for bit, count in _USER if self.flags >> bit & 1)
        enabled = [axis for axis in range(3) if self.rsrc2 >> 7 + axis & 1]
        group_ids = {axis: f"s{user + n}" for n, axis in enumerate(enabled)}
        given = user + len(enabled)
        x, y, _ = self.launched.group
        waves = -(-x * y * self.launched.group[2] // LANES)
        pair = f"s[{arguments}:{arguments + 1}]"
        lines = [
            f"s_mov_b64 {self.all}, exec",
            *(f"s_mov_b32 {register}, s{n}" for n, register in enumerate(self.given)),
            f"s_load_dwordx2 {self.base}, {pair}, {self.launched.pointer_at:#x}",
            *self._item(), f"v_lshrrev_b32_e32 {self.other}, 6, {self.at}",
            f"v_readfirstlane_b32 {self.free}, {self.other}",
            *self._group(group_ids),
            f"s_mul_i32 {self.wave}, {self.wave}, {waves}",
            f"s_add_u32 {self.wave}, {self.wave}, {self.free}",
            f"v_and_b32_e32 {self.at}, 63, {self.at}", f"v_lshlrev_b32_e32 {self.at}, 2, {self.at}",
            "s_waitcnt lgkmcnt(0)", f"s_sub_u32 {self.free}, {self.wave}, {self.moment.first}",
            f"s_mul_i32 {self.free}, {self.free}, {self.of.nbytes:#x}",
            f"s_add_u32 {self.point}, {self.free}, {self.launched.distance:#x}",
            f"v_mov_b32_e32 {self.lane_high}, {self.high}",
            f"{self.add} {self.lane}, vcc, {self.point}, {self.at}",
            f"v_mov_b32_e32 {self.at}, 0",
            f"{self.addc} {self.at}, vcc, 0, {self.at}, vcc",
            f"{self.add} {self.lane}, vcc, {self.low}, {self.lane}",
            f"{self.addc} {self.lane_high}, vcc, {self.at}, {self.lane_high}, vcc",
        ]  # fmt: skip
        ids = 1 if self.of.arch in PACKED_IDS else 1 + (self.rsrc2 >> 11 & 3)
        lines += [f"v_mov_b32_e32 v{n}, 0" for n in range(ids, self.of.vgprs)]
        lines += [f"s_mov_b32 s{n}, 0" for n in range(given, self.of.sgprs)]
        return [*lines, f"s_mov_b32 {self.count}, 0", "s_mov_b64 vcc, 0", "s_cmp_lg_u32 0, 0"]

    def _item(self) -> list[str]:
        """The work-item's number in its group, to `at`."""
        x, y, z = self.launched.group
        if self.of.arch in PACKED_IDS:
            ids = [
                [f"v_lshrrev_b32_e32 {self.other}, {10 * axis}, v0",
                 f"v_and_b32_e32 {self.other}, 0x3ff, {self.other}"]
                for axis in range(3)
            ]  # fmt: skip
        else:
            ids = [[f"v_mov_b32_e32 {self.other}, v{axis}"] for axis in range(3)]
        lines = [*ids[0], f"v_mov_b32_e32 {self.at}, {self.other}"]
        for axis, stride, extent in ((1, x, y), (2, x * y, z)):
            if extent > 1:
                lines += [
                    *ids[axis], f"v_mov_b32_e32 {self.word}, {stride:#x}",
                    f"v_mul_lo_u32 {self.other}, {self.other}, {self.word}",
                    f"{self.add} {self.at}, vcc, {self.at}, {self.other}",
                ]  # fmt: skip
        return lines

    def _group(self, ids: dict[int, str]) -> list[str]:
        """The work-group's number in the grid, to `wave`."""
        x, y, _ = self.launched.grid
        lines = [f"s_mov_b32 {self.wave}, {ids.get(0, 0)}"]
        for axis, stride in ((1, x), (2, x * y)):
            if axis in ids:
                lines += [f"s_mul_i32 {self.point}, {ids[axis]}, {stride:#x}",
                          f"s_add_u32 {self.wave}, {self.wave}, {self.point}"]  # fmt: skip
        return lines


def _tabbed(lines: Sequence[str]) -> list[str]:
    return [line if line.endswith(":") else f"\t{line}" for line in lines]
