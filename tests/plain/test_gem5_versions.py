"""What versions of gem5 before 24.0 do wrongly is made of what they do right: executed one lane at
a time by the manuals' rules (Vega ISA, GCN3 ISA), beside what the instruction itself computes."""

from __future__ import annotations

import random
import re

import pytest
from test_gem5_rules import replaced

from simgen.isa.legalise import facts

MASK = 0xFFFFFFFF
EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678, 0xF0E0D0C0)
RANDOM = random.Random(7)
VALUES = (*EDGES, *(RANDOM.getrandbits(32) for _ in range(20)))
OLD = facts.table("gem5", "22.0", "gfx902")


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Lane:
    """Registers of one lane, EXEC with all bits, and SCC."""

    def __init__(self, **held: int) -> None:
        self.held, self.scc = dict(held), 0

    def read(self, operand: str, wide: bool = False) -> int:
        if pair := re.fullmatch(r"([sv])\[(\d+):(\d+)\]", operand):
            low, high = (self.held[f"{pair[1]}{pair[n]}"] for n in (2, 3))
            return low | high << 32
        if operand in self.held:
            return self.held[operand]
        return int(operand, 0) & ((1 << 64) - 1 if wide else MASK)

    def write(self, operand: str, value: int) -> None:
        if pair := re.fullmatch(r"([sv])\[(\d+):(\d+)\]", operand):
            self.held[f"{pair[1]}{pair[2]}"] = value & MASK
            self.held[f"{pair[1]}{pair[3]}"] = value >> 32 & MASK
        else:
            self.held[operand] = value & MASK

    def execute(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        word = re.sub(r"_e(32|64)$", "", word)
        to, *operands = rest.split(", ")
        if word.startswith("s_cmp"):
            a, b = self.read(to), self.read(operands[0])
            if "_i32" in word:
                a, b = signed(a), signed(b)
            kind = word.split("_")[2]
            self.scc = int({"lt": a < b, "gt": a > b, "lg": a != b, "eq": a == b}[kind])
            return
        gcn3 = word == "v_addc_u32" or (word == "v_add_u32" and len(operands) == 3)
        if word in ("v_add_co_u32", "v_addc_co_u32") or gcn3:
            carry = operands.pop(0)
            more = self.held.get(operands.pop()) if "addc" in word else 0
            total = sum(map(self.read, operands)) + (more or 0)
            self.write(to, total)
            self.held[carry] = total >> 32
            return
        if word == "s_cselect_b32":
            self.write(to, self.read(operands[not self.scc]))
            return
        wide = word.endswith(("64",))
        found = OPERATIONS[word](*(self.read(each, wide) for each in operands))
        self.write(to, found)
        if word in SETS_SCC:
            self.scc = int(bool(found & ((1 << 64) - 1 if wide else MASK)))


OPERATIONS = {
    "s_mov_b32": lambda a: a, "v_mov_b32": lambda a: a,
    "s_and_b32": lambda a, b: a & b, "v_and_b32": lambda a, b: a & b,
    "s_and_b64": lambda a, b: a & b, "s_or_b64": lambda a, b: a | b,
    "v_or_b32": lambda a, b: a | b, "v_xor_b32": lambda a, b: a ^ b,
    "s_add_u32": lambda a, b: a + b, "s_sub_u32": lambda a, b: a - b,
    "v_add_u32": lambda a, b: a + b, "v_sub_u32": lambda a, b: a - b,
    "s_mul_i32": lambda a, b: a * b, "s_min_u32": min,
    "s_lshl_b32": lambda a, b: a << (b & 31), "s_lshr_b32": lambda a, b: a >> (b & 31),
    "s_ashr_i32": lambda a, b: signed(a) >> (b & 31),
    "s_lshl_b64": lambda a, b: a << (b & 63), "s_ashr_i64": lambda a, b: signed(a, 64) >> (b & 63),
    "s_bfe_u32": lambda a, b: a >> (b & 31) & ((1 << (b >> 16 & 127)) - 1),
    "v_lshlrev_b32": lambda a, b: b << (a & 31), "v_lshrrev_b32": lambda a, b: b >> (a & 31),
    "v_ashrrev_i32": lambda a, b: signed(b) >> (a & 31),
    "v_bfe_i32": lambda a, b, c: field(a, b, c),
    "v_bfe_u32": lambda a, b, c: a >> b & ((1 << c) - 1),
    "v_mad_i32_i24": lambda a, b, c: signed(a, 24) * signed(b, 24) + c,
    "v_bfm_b32": lambda a, b: ((1 << (a & 31)) - 1) << (b & 31),
}  # fmt: skip
SETS_SCC = ("s_and_b32", "s_ashr_i32", "s_lshl_b32", "s_lshl_b64", "s_ashr_i64", "s_bfe_u32")


def field(value: int, first: int, width: int, bits: int = 32) -> int:
    """S_BFE and V_BFE with a sign: (S0 >> first) & mask, extended from its last bit."""
    return signed(signed(value, bits) >> first, width) if width else 0


def run(line: str, table=OLD, arch="gfx902", **held: int) -> Lane:
    lane = Lane(**held)
    for each in replaced(line, table=table, arch=arch):
        assert each != line
        lane.execute(each)
    return lane


@pytest.mark.parametrize(("first", "width"), [(8, 8), (0, 1), (31, 1), (16, 16), (4, 0), (20, 30)])
def test_fields_with_a_sign(first: int, width: int) -> None:
    gfx8 = facts.table("gem5", "23.1", "gfx803")  # where no version extends it
    for value in VALUES:
        right = field(value, first, width) & MASK
        for known in (True, False):
            v = str(first), str(width)
            operands = ", ".join(v if known else ("v2", "v3"))
            lane = run(f"v_bfe_i32 v0, v1, {operands}", v1=value, v2=first, v3=width)
            assert lane.held["v0"] == right
        where = width << 16 | first
        for table, arch in ((OLD, "gfx902"), (gfx8, "gfx803")):
            known = run(f"s_bfe_i32 s0, s1, {where:#x}", table, arch, s1=value)
            lane = run("s_bfe_i32 s0, s1, s2", table, arch, s1=value, s2=where)
            assert known.held["s0"] == lane.held["s0"] == right
            assert known.scc == lane.scc == bool(right)


@pytest.mark.parametrize(("first", "width"), [(0, 31), (8, 24), (40, 8), (63, 1), (16, 40)])
def test_fields_of_64_bits(first: int, width: int) -> None:
    for low, high in zip(VALUES, VALUES[::-1], strict=True):
        lane = run(f"s_bfe_i64 s[0:1], s[2:3], {width << 16 | first:#x}", s2=low, s3=high)
        right = field(low | high << 32, first, width, 64) & (1 << 64) - 1
        assert lane.read("s[0:1]") == right


def permuted(high: int, low: int, chosen: int) -> int:
    """V_PERM_B32: bytes of {S0, S1}, whose lowest is S1's, by the bytes of S2."""
    both, found = high << 32 | low, 0
    for at in range(4):
        pick = chosen >> 8 * at & 0xFF
        if pick < 8:
            byte = both >> 8 * pick & 0xFF
        elif pick < 12:  # the signs of 16-bit parts
            byte = 0xFF * (both >> (16 * (pick - 8) + 15) & 1)
        else:
            byte = 0xFF * (pick > 12)
        found |= byte << 8 * at
    return found


@pytest.mark.parametrize(
    "chosen",
    [0x5040100, 0x7060302, 0x3020100, 0x4050607, 0xC0C0006, 0xD0C0B0A, 0x9080C0D, 0x1010101],
)
def test_bytes_that_are_chosen(chosen: int) -> None:
    for a, b in zip(VALUES, VALUES[::-1], strict=True):
        lane = Lane(v1=a, v2=b, s5=chosen)
        made = replaced(f"s_mov_b32 s5, {chosen:#x}", "v_perm_b32 v1, v1, v2, s5", table=OLD)
        for line in made[1:]:
            lane.execute(line)
        assert lane.held["v1"] == permuted(a, b, chosen)
    if chosen == 0x5040100:
        assert len(made) == 4


def test_three_that_are_ored() -> None:
    for a, b, c in zip(VALUES, VALUES[1:], VALUES[2:], strict=False):
        for to in ("v0", "v1", "v2", "v3"):
            lane = run(f"v_or3_b32 {to}, v1, v2, v3", v1=a, v2=b, v3=c)
            assert lane.held[to] == a | b | c
        assert run("v_or3_b32 v0, s1, 7, v3", s1=a, v3=c).held["v0"] == a | 7 | c


@pytest.mark.parametrize("kind", ["u", "i"])
def test_upper_halves_of_products(kind: str) -> None:
    table = facts.table("gem5", "21.2", "gfx902")
    for a, b in zip(VALUES, VALUES[::-1], strict=True):
        lane = run(f"s_mul_hi_{kind}32 s1, s1, s2", table, s1=a, s2=b)
        product = a * b if kind == "u" else signed(a) * signed(b)
        assert lane.held["s1"] == product >> 32 & MASK


def test_sums_of_four_products() -> None:
    """V_DOT4C_I32_I8: D += the products of the bytes of S0 and S1."""
    table = facts.table("gem5", "24.0", "gfx90a")
    for a, b, c in zip(VALUES, VALUES[1:], VALUES[2:], strict=False):
        line = "v_dot4c_i32_i8_e32 v0, v1, v2"
        lane = run(line, table, "gfx90a", v0=c, v1=a, v2=b)
        products = (signed(a >> n, 8) * signed(b >> n, 8) for n in (0, 8, 16, 24))
        assert lane.held["v0"] == sum(products, c) & MASK


def test_constants_below_zero() -> None:
    assert replaced("s_movk_i32 s0, 0xfc00", table=OLD) == ["s_mov_b32 s0, 0xfffffc00"]
    assert replaced("s_movk_i32 s0, 0x7c00", table=OLD) == ["s_movk_i32 s0, 0x7c00"]
    assert replaced("s_cmovk_i32 s0, 0xffff", table=OLD) == ["s_cmov_b32 s0, -1"]
    assert replaced("s_cmpk_lt_i32 s0, 0xff80", table=OLD) == ["s_cmp_lt_i32 s0, 0xffffff80"]
    same = "s_addk_i32 s0, 0xffff"  # whose constant is one of 16 bits with a sign there
    assert replaced(same, table=OLD) == [same]
    later = facts.table("gem5", "22.1", "gfx902")
    assert replaced("s_movk_i32 s0, 0xfc00", table=later) == ["s_movk_i32 s0, 0xfc00"]


@pytest.mark.parametrize("literal", [0x12345678, 0xF0000000])
def test_constants_of_32_bits_beside_64(literal: int) -> None:
    table = facts.table("gem5", "23.1", "gfx902")
    made = replaced(f"s_and_b64 s[0:1], s[2:3], {literal:#x}", table=table)
    assert made[:-1] == [f"s_mov_b32 s66, {literal:#x}", "s_mov_b32 s67, 0"]
    shifted = replaced(f"s_ashr_i64 s[0:1], {literal:#x}, s4", table=table)
    assert shifted[1] == f"s_mov_b32 s67, {'-1' if literal >> 31 else '0'}"
    double = replaced("v_cmp_lt_f64_e32 vcc, 0x40590000, v[2:3]", table=table)
    assert double[:2] == ["s_mov_b32 s66, 0", "s_mov_b32 s67, 0x40590000"]
    amount = "s_lshl_b64 s[0:1], s[2:3], 0x12345"
    assert replaced(amount, table=table) == [amount]
    kept = f"s_and_b64 s[0:1], s[2:3], {literal:#x}"
    assert replaced(kept, table=facts.table("gem5", "24.0", "gfx902")) == [kept]


@pytest.mark.parametrize(
    ("operands", "address"),
    [("v1, s[2:3]", 0x7_0000_0010 + 0xFFFF_FFF0), ("v1, s[2:3] offset:-8", 0x8_0000_0000 - 8),
     ("v[4:5], off offset:-4096", 0x3_0000_0000 - 4096)],
)  # fmt: skip
def test_addresses_of_global_memory(operands: str, address: int) -> None:
    """Vega ISA, GLOBAL: ADDR = SGPR_base(64) + VGPR_offset(32) + instr_offset, or VGPR(64) + it."""
    table = facts.table("gem5", "21.2", "gfx902")
    *before, access = replaced(f"global_load_dword v0, {operands}", table=table)
    lane = Lane(v1=0xFFFF_FFF0, v4=0, v5=3, s2=0x10, s3=7)
    for line in before:
        lane.execute(line)
    found = re.fullmatch(r"global_load_dword v0, (v\[\d+:\d+\]), off(?: offset:(-?\d+))?", access)
    assert found
    assert lane.read(found[1]) + int(found[2] or 0) == address
    assert int(found[2] or 0) >= 0


def test_a_register_behind_the_last_one() -> None:
    """To 22.1, the offset beside a base is read as two registers; 23.0 reads one."""
    from simgen.isa.legalise import gem5_rules

    for version, owned in (("22.1", 41), ("23.0", 40)):
        table = facts.table("gem5", version, "gfx902")
        text = (
            '\t.amdgcn_target "amdgcn-amd-amdhsa--gfx902"\n\t.type\tk,@function\nk:\n'
            "\tglobal_load_dword v0, v39, s[0:1]\n\ts_endpgm\n.Lend:\n\t.size\tk, .Lend-k\n"
            "\t.set k.num_vgpr, 40\n\t.set k.numbered_sgpr, 64\n"
        )
        made = gem5_rules.rewrite(text, table, "gfx902").text
        assert f".set k.num_vgpr, {owned}" in made


def test_exchanges() -> None:
    assert replaced("v_readfirstlane_b32 s40, v3", table=OLD) == [
        "s_ff1_i32_b64 s40, exec", "v_readlane_b32 s40, v3, s40"]  # fmt: skip
    swizzled = replaced("ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,16)")
    assert swizzled[-1].startswith("ds_bpermute_b32 v0, ")
    assert "v_xor_b32_e32 v42, 16, v42" in swizzled
    assert not [line for line in swizzled if line.startswith("ds_swizzle")]
    through = replaced("ds_read2st64_b32 v[0:1], v0 offset0:1 offset1:3", table=OLD)
    assert through == ["ds_read_b32 v1, v0 offset:768", "ds_read_b32 v0, v0 offset:256"]
    gfx8 = facts.table("gem5", "21.0", "gfx803")
    assert replaced("s_cmp_lt_u32 s0, s1", table=gfx8, arch="gfx803") == ["s_cmp_gt_u32 s1, s0"]


def test_the_upper_half_of_vcc() -> None:
    made = replaced("s_add_u32 vcc_hi, vcc_hi, s3", table=OLD)
    assert made == ["s_mov_b64 s[66:67], vcc", "s_add_u32 s67, s67, s3", "s_mov_b64 vcc, s[66:67]"]


# An access (%s: what it loads or stores, and the address), and the version's table.
ACCESSES = [
    (words, line, version, arch)
    for words, version, arch in (
        (2, "24.0", "gfx902"), (2, "22.1", "gfx803"), (2, "21.1", "gfx902"), (3, "21.1", "gfx902"),
        (4, "21.1", "gfx902"), (3, "21.0", "gfx803"), (4, "21.0", "gfx803"),
    )
    for line in (
        ("flat_{}_dwordx{} {}", ) if arch == "gfx803" else
        ("global_{}_dwordx{} {}, off", "global_{}_dwordx{} {}, off offset:4092",
         "global_{}_dwordx{} {}, off offset:-8", "flat_{}_dwordx{} {} offset:24 glc")
    )
]  # fmt: skip


@pytest.mark.parametrize(("words", "line", "version", "arch"), ACCESSES)
@pytest.mark.parametrize("align", [4, 8])
def test_accesses_that_lie_in_two_lines(
    words: int, line: str, version: str, arch: str, align: int
) -> None:
    """Each word is where the manuals have it, and no part of the access may cross a line."""
    table = facts.table("gem5", version, arch)
    for verb, data in (("load", 4), ("load", 2), ("load", 0), ("store", 4)):
        group = f"v[{data}:{data + words - 1}]"
        both = f"{group}, v[2:3]" if verb == "load" else f"v[2:3], {group}"
        whole = line.format(verb, words, both)
        got = replaced(f"{whole} ; align {align}", table=table, arch=arch)
        if align == 8 and words == 2:
            assert got == [whole]
            continue
        offset = re.search(r"offset:(-?\d+)", whole)
        start = (5 << 32) + 0x7FFFF8
        base = start - (int(offset[1]) if offset else 0)
        lane = Lane(v2=base & MASK, v3=base >> 32, **{f"v{4 + n}": 100 + n for n in range(4)})
        memory = {start + 4 * n: 200 + n for n in range(words)}
        for part in got:
            word, _, rest = part.partition(" ")
            if not word.startswith(("flat", "global")):
                lane.execute(part)
                continue
            assert ("glc" in part) is ("glc" in whole)
            places = re.findall(r"v\[?[\d:]+\]?", rest)
            address, held = places if verb == "store" else reversed(places)
            more = re.search(r"offset:(-?\d+)", part)
            at = lane.read(address) + (int(more[1]) if more else 0)
            numbers = [int(n) for n in re.findall(r"\d+", held)]
            assert at % (4 * (1 + numbers[-1] - numbers[0])) == 0 or align == 4
            assert align == 8 or len(numbers) == 1
            for n, register in enumerate(range(numbers[0], numbers[-1] + 1)):
                if verb == "load":
                    lane.held[f"v{register}"] = memory[at + 4 * n]
                else:
                    memory[at + 4 * n] = lane.held[f"v{register}"]
        expected = [(200 if verb == "load" else 100) + n for n in range(words)]
        left = [lane.held[f"v{data + n}"] for n in range(words)]
        assert (left if verb == "load" else list(memory.values())) == expected, got


def test_only_what_may_lie_in_two_lines_is_split() -> None:
    for line in (
        "global_load_dwordx2 v[0:1], v[2:3], off",
        "global_load_dwordx4 v[4:7], v[2:3], off ; align 4",
        "ds_read_b64 v[0:1], v2 ; align 4", "global_load_dword v0, v[2:3], off ; align 4",
    ):  # fmt: skip
        assert replaced(line, table=OLD) == [line.partition(" ;")[0]]
