"""One place in a kernel where an instruction is replaced: temporaries, liveness, what is put there.

Temporaries are registers above the kernel's own. They hold nothing between two instructions of the
kernel, so that every place uses the same few.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from simgen.errors import RefusedError
from simgen.isa.legalise import roles
from simgen.isa.legalise.assembly import (
    CONTRACTED,
    DYNAMIC_LDS,
    GROUP,
    VCC,
    AssemblyKernel,
    Instruction,
    integer,
    is_inline,
    is_vgpr,
    raise_ids,
    readable,
    registers,
    source_modifiers,
)

if TYPE_CHECKING:
    from collections.abc import Container

    from simgen.isa.legalise.flow import Flow

    Mark = tuple[Instruction, int, int, tuple[int, int, bool]]

PACKED = ("gfx90a", "gfx940", "gfx941", "gfx942")  # numbers of work-items
MOST_VGPRS = 256
MOST_SGPRS = 102  # s0 to s101 on gfx8 and gfx9
MOST_ITEMS = 1024  # work-items of a work-group, at most
MOST_LDS = 0x10000  # bytes
_NEED_THREAD = (
    "ds_bpermute", "ds_permute", "ds_swizzle", "v_mbcnt", "global_atomic", "flat_atomic", "ds_add",
    "ds_sub", "ds_min", "ds_max", "ds_and", "ds_or", "ds_xor", "ds_wrxchg", "ds_cmpst",
)  # fmt: skip
SIGN = "0x80000000"
MAGNITUDE = "0x7fffffff"
INFINITY = "0x7f800000"
_PLACE = re.compile(r"([\w.$]+)@(?:rel32|gotpcrel32)@lo")
_COMMUTES = frozenset(
    [
        "add_f32",
        "mul_f32",
        "min_f32",
        "max_f32",
        "and_b32",
        "or_b32",
        "xor_b32",
        "min_i32",
        "max_i32",
        "min_u32",
        "max_u32",
        "mul_i32_i24",
        "mul_u32_u24",
        "add_u32",
        "add_u16",
        "mul_lo_u16",
    ]
)
_REVERSED = {"sub_f32": "subrev_f32", "subrev_f32": "sub_f32"}


class NoRuleError(RefusedError):
    """An instruction that the simulator lacks and that cannot be replaced."""

    def __init__(self, kernel: str, item: Instruction, arch: str, fact: str) -> None:
        super().__init__(f"kernel {kernel}: {item.mnemonic} ({arch}): {fact}")
        self.kernel, self.item = kernel, item
        self.fact = f"{item.mnemonic} ({arch}): {fact}"


@dataclass
class Registers:
    """Temporaries of one kernel, and how many of them some place needed at once."""

    kernel: AssemblyKernel
    vgprs: int = field(init=False)  # what the kernel owns in the end
    sgprs: int = field(init=False)
    infinity: str = field(init=False)  # a scalar that keeps +inf from the kernel's start
    uses_infinity: bool = False
    thread: str = field(init=False)  # a vector register that keeps the work-item's number
    uses_thread: bool = False
    uses_lane_words: bool = False
    emulated: dict[str, str] = field(default_factory=dict)  # mnemonic -> why it cannot be timed

    def __post_init__(self) -> None:
        self.vgprs, self.sgprs = self.kernel.vgprs, self.kernel.sgprs
        self.thread = f"v{self.kernel.vgprs}"
        kept = any(
            isinstance(item, Instruction)
            and (item.mnemonic.startswith(_NEED_THREAD) or item.mnemonic.endswith("_dpp"))
            for item in self.kernel.items.values()
        )
        self.first_vgpr = -(-(self.kernel.vgprs + kept) // 2) * 2  # gfx90a and later: even pairs
        self.infinity = f"s{self.kernel.sgprs}"
        self.first_sgpr = (self.kernel.sgprs + 2) // 2 * 2

    @property
    def many_dimensions(self) -> bool:
        """Whether the kernel asks for more than the x of its work-items."""
        return self.kernel.counts.get("system_vgpr_workitem_id", (0, 0))[1] > 0

    @property
    def most_items(self) -> int:
        """The most work-items that a group may have."""
        return self.kernel.metadata.get(".max_flat_workgroup_size", (0, MOST_ITEMS))[1]

    @property
    def asked_lds(self) -> int:
        """Bytes of LDS that launches ask for, which begin where the kernel's own end."""
        return self.kernel.counts.get(DYNAMIC_LDS, (0, 0))[1]

    @property
    def own_lds(self) -> int:
        """Bytes of LDS that the kernel declares."""
        return self.kernel.counts.get("group_segment_fixed_size", (0, 0))[1]

    @property
    def all_lds(self) -> int:
        """Bytes of LDS that a launch owns."""
        return self.own_lds + self.asked_lds

    @property
    def lane_words(self) -> int:
        """Byte offset in LDS of a word for each work-item, behind all that a launch owns."""
        return -(-self.all_lds // 16) * 16

    @property
    def lane_nbytes(self) -> int:
        return -(-self.most_items // 64) * 64 * 4

    @property
    def needed(self) -> tuple[int, int, bool]:
        """What the kernel owns so far, to go back to."""
        return self.vgprs, self.sgprs, self.uses_infinity

    @needed.setter
    def needed(self, counts: tuple[int, int, bool]) -> None:
        self.vgprs, self.sgprs, self.uses_infinity = counts

    @property
    def group(self) -> list[int]:
        """Extents of work-groups, if they have several dimensions and the kernel's text tells."""
        found = [self.kernel.counts.get(name, (0, 0))[1] for name in GROUP]
        return found if found[0] else []

    def numbering(self, arch: str, lines: list[str]) -> list[str]:
        """What begins a kernel whose work-items need their number in the group; may be repeated.

        gfx90a and later have the numbers of all dimensions in v0, of 10 bits each.
        """
        if not self.group:
            return [f"v_mov_b32_e32 {self.thread}, v0"]
        packed, other = arch in PACKED, f"v{self.first_vgpr}"
        self.own(vgprs=max(self.first_vgpr + 1, 0 if packed else 3))
        raise_ids(lines, self.kernel, 2 + (self.group[2] > 1))
        x, y, z = self.group
        third = [f"v_lshrrev_b32_e32 {other}, 20, v0"] * packed
        second = f"v_mov_b32_e32 {self.thread}, v1"
        made = [f"v_bfe_u32 {self.thread}, v0, 10, 10" if packed else second]
        if z > 1:
            made += [*third, f"v_mul_u32_u24_e32 {other}, {y:#x}, {other if packed else 'v2'}"]
            made.append(_sum(arch, self.thread, other))
        made.append(f"v_mul_u32_u24_e32 {self.thread}, {x:#x}, {self.thread}")
        made.append(f"v_and_b32_e32 {other}, 0x3ff, v0" if packed else f"v_mov_b32_e32 {other}, v0")
        made.append(_sum(arch, self.thread, other))
        if packed and not self.many_dimensions:  # which takes v0 for the first number
            made.append(f"v_mov_b32_e32 v0, {other}")
        return made

    def own(self, *, vgprs: int = 0, sgprs: int = 0) -> None:
        self.vgprs, self.sgprs = max(self.vgprs, vgprs), max(self.sgprs, sgprs)


def _sum(arch: str, to: str, other: str) -> str:
    return f"v_add_u32_e32 {to}, {'vcc, ' * arch.startswith('gfx8')}{to}, {other}"


class Site:
    """Collects in `out` what stands in place of one instruction."""

    def __init__(self, arch: str, item: Instruction, at: int, flow: Flow, pool: Registers) -> None:
        self.arch = arch
        self.gcn3 = arch.startswith("gfx8")
        self.item = item
        self.out: list[Instruction] = []
        self.lost: Container[str] = ()  # mnemonics that a version has wrong, or not at all
        self.infinities = True  # whether v_cvt_f32_f16 keeps their signs
        self.native: Container[str] | None = None  # all that a version has right, if that is known
        self._at, self._flow, self._pool = at, flow, pool
        self._vgprs, self._sgprs = pool.first_vgpr, pool.first_sgpr

    def has(self, mnemonic: str) -> bool:
        """Whether the simulator executes an instruction right."""
        if self.native is not None:
            return mnemonic in self.native
        return mnemonic not in self.lost and bool(roles.forms(mnemonic, self.arch))

    def own(self, *, vgprs: int) -> None:
        """Let the kernel own so many vector registers."""
        self._pool.own(vgprs=vgprs)

    # What is needed behind this place ---------------------------------------------------------

    @property
    def scc_live(self) -> bool:
        return self._flow.live_after(self._at, "scc")

    @property
    def vcc_live(self) -> bool:
        return any(self._flow.live_after(self._at, half) for half in VCC)

    def definitions(self, register: str) -> list[Instruction]:
        """What may have written the value that a register has here; empty if that is not known."""
        return self._flow.definitions(self._at, register) or []

    def constant(self, operand: str) -> int | None:
        """The 32-bit integer that a source has here, whatever way was taken; None if not known."""
        value = integer(operand)
        if value is not None or not operand.startswith("s"):
            return value
        found = {
            integer(item.operands[1]) if item.mnemonic in ("s_mov_b32", "s_movk_i32") else None
            for item in self.definitions(operand)
        }
        return found.pop() if len(found) == 1 else None

    def recent(self, register: str) -> Instruction | None:
        """What wrote a register last, if that was a little before, with no label in between."""
        return self._flow.recent(self._at, register)

    def named_place(self) -> str:
        """The symbol that is added to the address of this place, if one is."""
        items = self._pool.kernel.items
        following = [items[at] for at in sorted(items) if at > self._at][:1]
        found = [_PLACE.match(each) for i in following for each in getattr(i, "operands", ())]
        return next((readable(each[1]) for each in found if each), "")

    def become(self, mnemonic: str, *operands: str) -> None:
        """Let another rule replace this instruction as another one."""
        self.item = replace(self.item, mnemonic=mnemonic, operands=operands, tail=())

    def held(self, value: int) -> str:
        """A temporary with a constant."""
        register = self.vgpr()
        self.put("v_mov_b32_e32", register, hex(value))
        return register

    def label(self, name: str) -> str:
        """A name for a place in what is put here."""
        return f".Lsimgen_{name}_{self._at}"

    # Lanes ------------------------------------------------------------------------------------

    def thread(self) -> str:
        """A vector register with the number of the work-item in its group."""
        if self._pool.many_dimensions and not self._pool.group:
            raise self.refusal(
                "is replaced in work-groups of one dimension, or of extents that are known",
                "compute y and z from x, or build it from its source",
            )
        self._pool.uses_thread = True
        return self._pool.thread

    def lane(self) -> str:
        """A temporary with the number of the lane."""
        held = self.vgpr()
        self.put("v_and_b32_e32", held, "63", self.thread())
        return held

    def lane_words(self) -> int:
        """Byte offset in LDS of a word for each work-item of the group (`Registers.lane_words`)."""
        if self._pool.lane_words + self._pool.lane_nbytes > MOST_LDS:
            raise self.refusal("needs more LDS than there is", "let the kernel use less of it")
        self._pool.uses_lane_words = True
        return self._pool.lane_words

    @property
    def one_wavefront(self) -> bool:
        """Whether a work-group is a single wavefront."""
        return self._pool.most_items <= 64

    @property
    def is_contracted(self) -> bool:
        """Whether products and sums of the source may have become one instruction."""
        return CONTRACTED in self._pool.kernel.counts

    def only_emulated(self, why: str) -> None:
        """What is put here is right in emulation only."""
        self._pool.emulated[self.item.mnemonic] = why

    # Temporaries ------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """The instruction and the temporaries that are in use, to go back to with `reset`."""
        return self.item, self._vgprs, self._sgprs, self._pool.needed

    def reset(self, mark: Mark) -> None:
        self.item, self._vgprs, self._sgprs, self._pool.needed = mark

    def vgpr(self) -> str:
        self._vgprs += 1
        self._check(self._vgprs, MOST_VGPRS, "vector")
        self._pool.own(vgprs=self._vgprs)
        return f"v{self._vgprs - 1}"

    def vgpr_pair(self) -> tuple[str, str, str]:
        """(pair, its low register, its high register)."""
        self._vgprs += self._vgprs % 2
        low, high = self.vgpr(), self.vgpr()
        return f"v[{low[1:]}:{high[1:]}]", low, high

    def sgpr(self) -> str:
        self._sgprs += 1
        self._check(self._sgprs, MOST_SGPRS, "scalar")
        self._pool.own(sgprs=self._sgprs)
        return f"s{self._sgprs - 1}"

    def sgpr_pair(self) -> tuple[str, str, str]:
        """(pair, its low register, its high register)."""
        self._sgprs += self._sgprs % 2
        low, high = self.sgpr(), self.sgpr()
        return f"s[{low[1:]}:{high[1:]}]", low, high

    def infinity(self) -> str:
        """A scalar register that holds +inf everywhere in the kernel."""
        self._pool.uses_infinity = True
        self._check(int(self._pool.infinity[1:]) + 1, MOST_SGPRS, "scalar")
        self._pool.own(sgprs=int(self._pool.infinity[1:]) + 1)
        return self._pool.infinity

    def _check(self, count: int, most: int, kind: str) -> None:
        if count > most:
            raise self.refusal(
                f"its replacement needs {count} {kind} registers of {most}",
                "let the kernel hold fewer values at once",
            )

    def refusal(self, fact: str, cure: str) -> NoRuleError:
        """The error that names this instruction and its kernel."""
        return NoRuleError(self._pool.kernel.name, self.item, self.arch, f"{fact}; {cure}")

    # Emitting ---------------------------------------------------------------------------------

    def put(self, mnemonic: str, *operands: str, tail: tuple[str, ...] = ()) -> None:
        """An instruction that the simulator executes right as it is."""
        self.out.append(Instruction(mnemonic, operands, tail, self.item.source_line))

    def plain(self, operand: str) -> str:
        """A source without modifiers: itself, or a temporary with neg and abs applied."""
        neg, absolute, body = source_modifiers(operand)
        if not neg and not absolute:
            return body
        if len(registers(body)) == 2:  # a double: its sign is in the upper half
            low, body = self.halves(body)
            whole, lower, held = self.vgpr_pair()
            self.put("v_mov_b32_e32", lower, low)
        else:
            whole = held = self.vgpr()
        if not is_vgpr(body):
            self.put("v_mov_b32_e32", held, body)
            body = held
        if absolute:
            what, mask = ("v_or_b32_e32", SIGN) if neg else ("v_and_b32_e32", MAGNITUDE)
        else:
            what, mask = "v_xor_b32_e32", SIGN
        self.put(what, held, mask, body)
        return whole

    def in_vgpr(self, operand: str) -> str:
        """A source without modifiers in a vector register."""
        body = self.plain(operand)
        if is_vgpr(body):
            return body
        held = self.vgpr()
        self.put("v_mov_b32_e32", held, body)
        return held

    def vop3_source(self, operand: str) -> str:
        """A source that a VOP3 instruction takes next to a scalar one; modifiers stay."""
        neg, absolute, body = source_modifiers(operand)
        if is_vgpr(body) or (is_inline(body) and not neg and not absolute):
            return operand
        held = self.in_vgpr(body)
        held = f"|{held}|" if absolute else held
        return f"-{held}" if neg else held

    def in_sgpr(self, operand: str) -> str:
        """A 32-bit scalar source in a scalar register."""
        held = self.sgpr()
        self.put("s_mov_b32", held, operand)
        return held

    def binary(self, name: str, result: str, a: str, b: str) -> None:
        """v_NAME_e32: the second source must be a vector register."""
        a, b = self.plain(a), self.plain(b)
        if not is_vgpr(b) and is_vgpr(a) and name in _COMMUTES:
            a, b = b, a
        elif not is_vgpr(b) and is_vgpr(a) and name in _REVERSED:
            a, b, name = b, a, _REVERSED[name]
        self.put(f"v_{name}_e32", result, a, self.in_vgpr(b))

    def add(self, result: str, a: str, b: str) -> None:
        """32-bit integer sum that leaves VCC alone: gfx803 has no add without a carry."""
        if not self.gcn3:
            self.binary("add_u32", result, a, b)
            return
        carry, _, _ = self.sgpr_pair()
        self.put("v_add_u32_e64", result, carry, self.vop3_source(a), self.vop3_source(b))

    def subtract(self, result: str, a: str, b: str) -> None:
        """32-bit integer difference that leaves VCC alone."""
        if not self.gcn3:
            self.put("v_sub_u32_e32", result, self.plain(a), self.in_vgpr(b))
            return
        borrow, _, _ = self.sgpr_pair()
        self.put("v_sub_u32_e64", result, borrow, self.in_vgpr(a), self.in_vgpr(b))

    def add_64(self, result: tuple[str, str], a: tuple[str, str], b: str, carry: str = "") -> None:
        """64-bit sum of a pair of vector registers and a 32-bit value that is not negative."""
        carry = carry or self.sgpr_pair()[0]
        low, high = ("v_add_u32_e64", "v_addc_u32_e64") if self.gcn3 else (
            "v_add_co_u32_e64", "v_addc_co_u32_e64",
        )  # fmt: skip
        self.put(low, result[0], carry, a[0], self.vop3_source(b))
        self.put(high, result[1], carry, a[1], "0", carry)

    def test_scc(self, register: str) -> None:
        """SCC = the register is not zero."""
        self.put("s_cmp_lg_u32", register, "0")

    def saving_scc(self) -> SavedScc:
        """Keeps SCC over a block of scalar instructions, where somebody needs it."""
        return SavedScc(self)

    def unsigned_source(self, operand: str) -> str:
        """A source that is not a negative inline constant, which MGPUSim extends to 64 bits."""
        value = integer(operand)
        if value is None or not -16 <= value < 0:
            return operand
        return (
            self.in_sgpr(operand) if self.item.mnemonic.startswith("s_") else self.in_vgpr(operand)
        )

    def halves(self, operand: str) -> tuple[str, str]:
        """The 32-bit halves of a 64-bit source: registers or an integer constant."""
        parts = registers(operand)
        if len(parts) == 2:
            if parts[0] in VCC or parts[0].startswith("exec"):  # read as a whole, or wrongly
                pair, low, high = self.sgpr_pair()
                self.put("s_mov_b64", pair, operand)
                return low, high
            return parts[0], parts[1]
        value = integer(operand)
        # A literal is the same however it is made 64 bits long, unless it has bit 31.
        if value is None or not (is_inline(operand) or 0 <= value < 2**31):
            raise self.refusal(f"64-bit source {operand}", "use integers and pairs of registers")
        return operand, "-1" if value < 0 else "0"

    def select(self, result: str, if_false: str, if_true: str, mask: str) -> None:
        self.put("v_cndmask_b32_e64", result, if_false, if_true, mask)


class SavedScc:
    """A context: SCC behind it is what it was in front of it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._held = ""

    def __enter__(self) -> None:
        if self._site.scc_live:
            self._held = self._site.sgpr()
            self._site.put("s_cselect_b32", self._held, "1", "0")

    def __exit__(self, *_: object) -> None:
        if self._held:
            self._site.test_scc(self._held)
