"""What stands for what gem5 executes wrongly computes the same, by the manuals: each form that the
probe tries is rewritten, and what comes out executed instruction by instruction."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from census import census

from simgen.isa.legalise import facts, gem5_rules
from simgen_examine.conform import bundling, description, floats, integers
from simgen_examine.conform.arithmetic import BITS, FUNCTIONS, bits_of
from simgen_examine.conform.expected import Expected
from simgen_examine.conform.float_mode import USUAL
from simgen_examine.conform.forms import forms

ARCH = "gfx902"
TABLE = facts.table("gem5", "24.1", ARCH)
KNOWN = {each.name: each for each in description.instructions(ARCH)}
CONSTANTS = {"0": 0, "1.0": 0x3F800000, "2.0": 0x40000000, "4.0": 0x40800000, "0.5": 0x3F000000}


def replaced(*lines: str, table=TABLE, arch=ARCH) -> list[str]:
    head = [
        f'\t.amdgcn_target "amdgcn-amd-amdhsa--{arch}"',
        "\t.text",
        "\t.type\tk,@function",
        "k:",
    ]
    tail = ["\ts_endpgm", ".Lend_k:", "\t.size\tk, .Lend_k-k",
            "\t.set k.num_vgpr, 40", "\t.set k.numbered_sgpr, 64"]  # fmt: skip
    made = gem5_rules.rewrite("\n".join([*head, *(f"\t{x}" for x in lines), *tail]), table, arch)
    found = made.text.split("k:\n")[1].split("\ts_endpgm")[0].splitlines()
    assert made.instructions == len(lines) + 1
    real = [line for line in found if not line.endswith(":")]
    assert made.added == len(real) - len(lines)
    return [line.partition(";")[0].strip() for line in found]


class Lanes:
    """Registers of 1,024 lanes, and instructions without modifiers of their results."""

    def __init__(self, given: np.ndarray) -> None:
        count = given.shape[2]
        self.held = {f"v{4 + 2 * n + w}": given[n, w] for n in range(3) for w in range(2)}
        self.masks = {"s[34:35]": bits_of(BITS, count)}
        self.count = count

    def words(self, operand: str, type_: str = "") -> np.ndarray:
        if pair := re.fullmatch(r"v\[(\d+):(\d+)\]", operand):
            return np.stack([self.held[f"v{n}"] for n in range(int(pair[1]), int(pair[2]) + 1)])
        if operand in self.held:
            return np.stack([self.held[operand], np.zeros(self.count, np.uint32)])
        if type_ == "f64":
            halves = np.array([float(operand)]).view(np.uint32)
            return np.stack([np.full(self.count, half, np.uint32) for half in halves])
        value = CONSTANTS[operand] if operand in CONSTANTS else int(operand, 0)
        return np.stack([np.full(self.count, value & 0xFFFFFFFF, np.uint32)] * 2)

    def execute(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        of = KNOWN[re.sub(r"_e(32|64)$", "", word)]
        assert not re.search(r"clamp|mul:|div:", rest)
        to, *operands = rest.split(", ")
        carried = operands.pop(0) if of.results[1:] == ("vcc",) else ""
        types = [each for each in of.sources if "vcc" not in each]
        sources = []
        for operand, type_ in zip(operands, types, strict=False):
            bare = operand.removeprefix("neg(").strip("-|)")
            plain = type_.lstrip("=#@")
            if plain != "f64" and operand.lstrip("-").isdigit():
                sources.append(integers.typed(self.words(operand, plain), plain))
                continue
            value = integers.typed(self.words(bare, plain), plain)
            value = floats.absolute(value) if "|" in operand else value
            sources.append(floats.negated(value) if operand.startswith(("-", "neg")) else value)
        carry = [self.masks[operands[-1]]] if "vcc" in of.sources else []
        with np.errstate(all="ignore"):
            found = FUNCTIONS[of.function](*sources, *carry)
        if carried:
            found, left = found
            self.masks[carried] = left.value if isinstance(left, Expected) else left
        found = found.value if isinstance(found, Expected) else found
        if of.results[0] == "vcc":
            self.masks[to] = found
        else:
            words = np.ascontiguousarray(found).view(np.uint32).reshape(self.count, -1)
            first, last = (re.findall(r"\d+", to) * 2)[:2]
            for at, number in enumerate(range(int(first), int(last) + 1)):
                self.held[f"{to[0]}{number}"] = words[:, at].copy()


@cache
def tried():
    """Of each instruction and modifier that gem5 ignores and a rule replaces, the forms."""
    found = {}
    for form in forms(ARCH):
        how = form.plan.modifiers
        told = {"neg": how.neg, "abs": how.absolute, "clamp": how.clamp, "omod": how.omod != 1.0}
        ignored = {m for m, on in told.items() if on and form.mnemonic in TABLE.ignores[m]}
        if any(gem5_rules.has_rule(form.mnemonic, m) for m in ignored) and not form.setup:
            found.setdefault((form.mnemonic, *sorted(ignored)), []).append(form)
    return found


def test_modifiers_that_gem5_ignores():
    count = 0
    for members in tried().values():
        for form in members:
            given = bundling.tried(form.signature, form.scalar)
            lines = replaced(form.text)
            assert len(lines) > 1, form.text
            lanes = Lanes(given)
            for line in lines:
                lanes.execute(line)
            (outcome, *_) = form.outcome(given)
            if outcome.type == "mask":
                right = outcome.expected.right(lanes.masks["s[30:31]"])
            else:
                made = [lanes.held[f"v{10 + n}"] for n in range(outcome.words)]
                right = outcome.right(np.stack(made))
            assert right.all(), (form.text, lines, given[:, 0, np.flatnonzero(~right)[:3]])
            count += 1
    assert count > 200
    words = {word for word, *_ in tried()}
    assert {"v_cmp_lt_f32_e64", "v_cndmask_b32_e64", "v_fma_f32", "v_add_f32_e64"} <= words
    assert {"v_add_f64", "v_fma_f64", "v_cvt_f64_f32_e64"} <= words


# Instructions that are wrong whatever their modifiers are, and how many stand for each.
FLOATS = {"v_sin_f32": 19, "v_cos_f32": 18, "v_cvt_f16_f32": 18}


@pytest.mark.parametrize("name", FLOATS)
def test_floats_that_gem5_computes_wrongly(name: str):
    count = 0
    for form in forms(ARCH):
        if form.mnemonic not in (f"{name}_e32", f"{name}_e64") or form.setup or form.mode != USUAL:
            continue
        given = bundling.tried(form.signature, form.scalar)
        lines = replaced(form.text)
        if form.mnemonic.endswith("_e32") and form.text.endswith("v4"):
            assert len(lines) == FLOATS[name]
        lanes = Lanes(given)
        for line in lines:
            lanes.execute(line)
        (outcome,) = form.outcome(given)
        made = lanes.held["v10"][None]
        right = outcome.right(made)
        assert right.all(), (form.text, given[:, 0, np.flatnonzero(~right)[:3]])
        count += 1
    assert count >= 4


WHOLE = {
    "v_cvt_i32_f32_e32": 6, "v_cvt_i32_f64_e32": 6, "v_cvt_flr_i32_f32_e32": 7,
    "v_cvt_rpi_i32_f32_e32": 11, "v_mul_legacy_f32_e32": 5, "v_mad_legacy_f32": 6,
    "v_cvt_u32_f32_e32": 11, "v_cvt_u32_f64_e32": 12, "v_fract_f32_e32": 4, "v_fract_f64_e32": 5,
    "v_rndne_f32_e32": 3, "v_rndne_f64_e32": 10, "v_rcp_f64_e32": 3, "v_rsq_f64_e32": 3,
    "v_add_f64": 1, "v_mul_f64": 1, "v_ldexp_f64": 6,
}  # fmt: skip


@census("name", WHOLE)
def test_doubles_and_whole_numbers(name: str):
    """Sources of all kinds: constants and scalars may not stand beside each other."""
    assert name in {**TABLE.wrong, **TABLE.edges}
    long = name.replace("_e32", "_e64")
    plain = [
        form for form in forms(ARCH)
        if form.mnemonic in (name, long) and form.mode == USUAL and not form.lanes + 1 & form.lanes
    ]  # fmt: skip
    assert len(replaced(plain[0].text)) == WHOLE[name]
    count = 0
    for form in plain:
        how = form.plan.modifiers
        if how.clamp or any("s_" in line for line in form.setup):
            continue
        given = bundling.tried(form.signature, form.scalar)
        lanes = Lanes(given)
        for line in replaced(form.text):
            lanes.execute(line)
        (outcome,) = form.outcome(given)
        made = [lanes.held[f"v{10 + n}"] for n in range(outcome.words)]
        right = outcome.right(np.stack(made))
        assert right.all(), (form.text, given[:, :, np.flatnonzero(~right)[:3]])
        count += 1
    assert count >= 5


INTEGERS = {"v_subbrev_co_u32_e64": 1, "v_sad_u32": 4, "v_sad_hi_u8": 3, "v_med3_f32": 6}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_and_medians(name: str):
    assert name in {**TABLE.wrong, **TABLE.edges}
    form = next(each for each in forms(ARCH) if each.mnemonic == name)
    given = bundling.tried(form.signature, form.scalar)
    lines = replaced(form.text)
    assert len(lines) == INTEGERS[name]
    lanes = Lanes(given)
    for line in lines:
        lanes.execute(line)
    value, *carry = form.outcome(given)
    assert value.right(lanes.held["v10"][None]).all()
    assert all(each.expected.right(lanes.masks["s[30:31]"]).all() for each in carry)


@pytest.mark.parametrize(("name", "count"), [("v_dot4_i32_i8", 12), ("v_dot2_i32_i16", 6)])
def test_sums_of_products(name: str, count: int):
    later = facts.table("gem5", "24.1", "gfx942")
    lines = replaced(f"{name} v10, v4, v6, v8", table=later)
    assert len(lines) == count
    given = np.random.default_rng(4).integers(0, 1 << 32, (3, 2, 500), np.uint32)
    lanes = Lanes(given)
    for line in lines:
        lanes.execute(line)
    kind = {12: np.int8, 6: np.int16}[count]
    a, b = (given[n, 0].copy().view(kind).reshape(500, -1).astype(np.int64) for n in range(2))
    right = (a * b).sum(1) + given[2, 0].view(np.int32)
    assert np.array_equal(lanes.held["v10"], (right & 0xFFFFFFFF).astype(np.uint32))
    clamped = f"{name} v10, v4, v6, v8 clamp"
    assert replaced(clamped, table=later) == [clamped]


@pytest.mark.parametrize("name", ["v_add_u32_e64", "v_sub_u32_e64", "v_subrev_u32_e64"])
def test_sums_that_saturate(name: str):
    (form,) = (each for each in forms(ARCH) if each.mnemonic == name and "clamp" in each.text)
    given = bundling.tried(form.signature, form.scalar)
    lines = replaced(form.text)
    assert len(lines) == 2
    lanes = Lanes(given)
    for line in lines:
        lanes.execute(line)
    (outcome,) = form.outcome(given)
    assert outcome.right(lanes.held["v10"][None]).all()
    plain = form.text.removesuffix(" clamp")
    assert replaced(plain) == [plain]


# Version -> instructions that it lacks, or has wrong, and how many stand for each.
LACKING = {
    "21.2": {"v_xad_u32": 2},
    "23.1": {"v_pk_add_u16": 7, "v_pk_sub_i16": 7, "v_pk_mad_u16": 12, "v_pk_max_i16": 11,
             "v_pk_lshlrev_b16": 8, "v_pk_ashrrev_i16": 10, "v_cndmask_b32_e64": 2},
    "24.0": {"v_alignbyte_b32": 2, "v_add_i32": 1, "v_sub_i16": 2, "v_med3_i16": 8,
             "v_max3_u16": 6, "v_min3_i16": 6, "v_cvt_pk_u16_u32": 4, "v_cvt_pk_i16_i32": 8,
             "v_mul_i32_i24_e64": 1, "v_add_i32 clamp": 8, "v_sub_i32 clamp": 8,
             "v_trunc_f32_e64 clamp": 4},
}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "name"), [(v, name) for v, names in LACKING.items() for name in names]
)
def test_what_a_version_lacks(version: str, name: str) -> None:
    """Each form that the probe tries, by the manual, at its values."""
    table, key = facts.table("gem5", version, ARCH), name
    name, _, clamp = name.partition(" ")
    lost = table.ends + tuple({**table.wrong, **table.edges}) + table.ignores["neg"]
    assert name in lost + table.ignores["clamp"]
    taken = [f for f in forms(ARCH) if f.mnemonic == name and not f.setup]
    taken = [f for f in taken if ("clamp" in f.text) is bool(clamp) and f.mode == USUAL]
    if name.startswith("v_cndmask"):
        taken = [f for f in taken if "-v" in f.text or "|" in f.text]
    assert taken
    for form in taken:
        given = bundling.tried(form.signature, form.scalar)
        lines = replaced(form.text, table=table)
        lanes = Lanes(given)
        lanes.held["v10"] = np.zeros(lanes.count, np.uint32)
        for line in lines:
            lanes.execute(line)
        (outcome,) = form.outcome(given)
        assert outcome.right(lanes.held["v10"][None]).all(), (form.text, lines)
    assert len(replaced(taken[0].text, table=table)) == LACKING[version][key], lines


def test_products_of_16_bits_and_an_exchange() -> None:
    """By NumPy's integers."""
    given = np.random.default_rng(4).integers(0, 1 << 32, (3, 2, 500), np.uint32)
    table = facts.table("gem5", "24.0", ARCH)
    for name, kind in (("v_mad_u32_u16", np.uint16), ("v_mad_i32_i16", np.int16)):
        lanes = Lanes(given)
        for line in replaced(f"{name} v10, v4, v6, v8", table=table):
            lanes.execute(line)
        a, b = (given[n, 0].astype(np.uint16).view(kind).astype(np.int64) for n in range(2))
        right = (a * b + given[2, 0]) & 0xFFFFFFFF
        assert np.array_equal(lanes.held["v10"], right.astype(np.uint32))
    assert replaced("v_swap_b32 v4, v6", table=table) == [
        "v_mov_b32_e32 v40, v4", "v_mov_b32_e32 v4, v6", "v_mov_b32_e32 v6, v40"]  # fmt: skip


@pytest.mark.parametrize("version", ["24.0", "24.1"])
@pytest.mark.parametrize(
    ("line", "signs"),
    [
        ("v_dot2_f32_f16 v2, v4, v6, v8", (1, 1, 1)),
        ("v_dot2_f32_f16 v2, v4, v6, v8 neg_lo:[1,0,1] neg_hi:[0,0,1]", (-1, 1, -1)),
        ("v_dot2c_f32_f16_e32 v2, v4, v6", (1, 1, 1)),
    ],
)
def test_a_sum_of_two_products_of_halves(version: str, line: str, signs: tuple[int, ...]) -> None:
    """Exact sums of whole numbers, and float32's of others: a product of halves is exact there."""
    rng = np.random.default_rng(3)
    whole = rng.integers(-60, 60, (2, 2, 300)).astype(np.float16)
    others = rng.normal(size=(2, 2, 300)).astype(np.float16)
    a, b = pairs = np.concatenate([whole, others], 2)
    c = np.concatenate([rng.integers(-9, 9, 300), rng.normal(size=300)]).astype(np.float32)
    lanes = Lanes(np.zeros((3, 2, 600), np.uint32))
    for name, each in zip(("v4", "v6"), pairs, strict=True):
        words = each.view(np.uint16).astype(np.uint32)
        lanes.held[name] = words[0] | words[1] << 16
    lanes.held["v8"] = lanes.held["v2"] = c.view(np.uint32)
    for each in replaced(line, table=facts.table("gem5", version, "gfx942"), arch="gfx942"):
        lanes.execute(each)
    products = a.astype(np.float64) * b.astype(np.float64)
    low, high, start = (sign * each for sign, each in zip(signs, (*products, c), strict=True))
    right = (high + (low + start).astype(np.float32)).astype(np.float32)
    assert np.array_equal(lanes.held["v2"].view(np.float32), right)


def test_scalars_that_gem5_lacks() -> None:
    lower = replaced("s_pack_ll_b32_b16 s3, s4, 0x12345")
    assert lower == ["s_mov_b32 s68, 0x12345", "s_and_b32 s66, s4, 0xffff",
                     "s_lshl_b32 s67, s68, 16", "s_or_b32 s66, s66, s67",
                     "s_mov_b32 s3, s66"]  # fmt: skip
    upper = replaced("s_pack_hh_b32_b16 s3, s4, s5")
    assert upper[:2] == ["s_lshr_b32 s66, s4, 16", "s_and_b32 s67, s5, 0xffff0000"]
    mode = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3"  # which gem5 does not read
    assert replaced(mode) == ["s_nop 0"]
    other = mode.replace("MODE", "TRAPSTS")
    assert replaced(other) == [other]


def test_a_comparison_that_leaves_exec() -> None:
    """gfx8's v_cmpx_neq_f32: the long encoding, which has no literal, writes EXEC."""
    table = facts.table("gem5", "22.1", "gfx803")
    line = "v_cmpx_neq_f32_e32 vcc, 0x40490fdb, v6"
    assert replaced(line, table=table, arch="gfx803") == [
        "v_mov_b32_e32 v40, 0x40490fdb", "v_cmpx_neq_f32_e64 vcc, v40, v6"]  # fmt: skip
    assert replaced(line, table=facts.table("gem5", "22.1", ARCH)) == [line]


def test_comparisons_of_16_bits():
    *masks, compare = replaced("v_cmpx_ge_u16_e64 s[30:31], v4, s50")
    assert masks == ["v_and_b32_e32 v40, 0xffff, v4", "v_mov_b32_e32 v42, s50",
                     "v_and_b32_e32 v41, 0xffff, v42"]  # fmt: skip
    assert compare == "v_cmpx_ge_u32_e64 s[30:31], v40, v41"


def test_scalars_that_gem5_computes_wrongly():
    assert replaced("s_sext_i32_i8 s3, s2", "s_mov_b32 s0, s1")[0] == "s_bfe_i32 s3, s2, 0x80000"
    kept = replaced("s_sext_i32_i16 s3, 0x12345", "s_cselect_b32 s0, s1, s2")  # which needs SCC
    assert kept[:2] == ["s_mov_b32 s3, 0x12345", "s_cselect_b32 s66, 1, 0"]
    assert kept[2:4] == ["s_bfe_i32 s3, s3, 0x100000", "s_cmp_lg_u32 s66, 0"]
    assert replaced("s_absdiff_i32 s3, s1, s2") == ["s_sub_i32 s3, s1, s2", "s_abs_i32 s3, s3"]
    whole = "s_bfe_i64 s[2:3], s[4:5], 0x280008"  # 40 bits from bit 8 on
    assert replaced(whole) == [
        "s_lshl_b64 s[2:3], s[4:5], 16", "s_ashr_i64 s[2:3], s[2:3], 24"]  # fmt: skip
    beyond = "s_bfe_u64 s[2:3], s[4:5], 0x400030"  # of 64 bits, the 16 that there are
    assert replaced(beyond)[0] == "s_lshl_b64 s[2:3], s[4:5], 0"
    assert replaced(beyond)[1] == "s_lshr_b64 s[2:3], s[2:3], 48"
    few = "s_bfe_u64 s[2:3], s[4:5], 0x1f0008"
    assert replaced(few) == [few]


# Halves, of which gem5 has no arithmetic: a form of each kind, and how many stand for it.
HALVES = {
    "v_add_f16_e32": 21, "v_subrev_f16_e64": 21, "v_mul_f16_e32": 21, "v_min_f16_e32": 24,
    "v_max_f16_e64": 24, "v_max3_f16": 29, "v_med3_f16": 30, "v_fma_f16": 32, "v_mad_f16": 32,
    "v_rcp_f16_e32": 20, "v_rsq_f16_e64": 20, "v_sqrt_f16_e32": 20, "v_log_f16_e32": 20,
    "v_exp_f16_e32": 20, "v_floor_f16_e32": 20, "v_ceil_f16_e32": 20, "v_trunc_f16_e32": 20,
    "v_frexp_mant_f16_e32": 20, "v_frexp_exp_i16_f16_e32": 3, "v_rndne_f16_e32": 22,
    "v_fract_f16_e32": 24, "v_sin_f16_e32": 38, "v_cos_f16_e32": 37, "v_ldexp_f16_e32": 21,
    "v_cvt_f16_u16_e32": 20, "v_cvt_f16_i16_e32": 20, "v_cvt_u16_f16_e32": 6,
    "v_cvt_i16_f16_e32": 5, "v_cmp_lt_f16_e64": 3, "v_cmp_lg_f16_e64": 5, "v_cmp_u_f16_e64": 3,
    "v_cmp_class_f16_e64": 10, "v_pack_b32_f16": 3, "v_cvt_f32_f16_e32": 1,
}  # fmt: skip


# Of 23.1, which has no v_cvt_f32_f16 either: 9 more for each source.
OF_23_1 = {"v_add_f16_e32": 39, "v_cvt_f32_f16_e32": 10, "v_cmp_lt_f16_e64": 21}


@census("which", [*HALVES, *(f"23.1 {name}" for name in OF_23_1)])
def test_halves(which: str):
    older, _, name = which.rpartition(" ")
    count, table = 0, facts.table("gem5", older or "24.1", ARCH)
    for form in forms(ARCH):
        if form.mnemonic != name or form.mode != USUAL or form.lanes + 1 & form.lanes:
            continue
        if any("s_" in line for line in form.setup):
            continue
        lines = replaced(form.text, table=table)
        if not count:
            assert len(lines) == (OF_23_1 if older else HALVES)[name]
        given = bundling.tried(form.signature, form.scalar)
        lanes = Lanes(given)
        for line in lines:
            lanes.execute(line)
        (outcome,) = form.outcome(given)
        if outcome.type == "mask":
            right = outcome.expected.right(lanes.masks["s[30:31]"])
        else:
            right = outcome.right(np.stack([lanes.held["v10"]]))
        assert right.all(), (form.text, given[:, 0, np.flatnonzero(~right)[:3]])
        count += 1
    assert count


@pytest.mark.parametrize("version", ["22.1", "23.1"])
def test_halves_of_gfx8(version: str):
    """Which has no sum of three, and none that leaves no carry; executed under gfx9's names."""
    table = facts.table("gem5", version, "gfx803")
    lines = replaced("v_cvt_f16_f32_e32 v10, v4", table=table, arch="gfx803")
    assert not [x for x in lines if "add3" in x or "subrev" in x]
    lanes = Lanes(bundling.tried(("f32",), scalar=False))
    x = lanes.held["v4"].view(np.float32)
    for line in lines:
        if line.startswith("s_mov_b32"):
            register, value = line.removeprefix("s_mov_b32 ").split(", ")
            lanes.held[register] = np.full(lanes.count, int(value, 0), np.uint32)
        else:
            lanes.execute(re.sub(r"^v_(add|sub)_u32_e64", r"v_\1_co_u32_e64", line))
    with np.errstate(over="ignore"):
        wanted = x.astype(np.float16)
    found = lanes.held["v10"].astype(np.uint16).view(np.float16)
    same = found.view(np.uint16) == wanted.view(np.uint16)
    assert (same | (np.isnan(found) & np.isnan(wanted))).all()


def test_fused_halves_are_rounded_once():
    """Products of nearly 1/2 beside whole numbers of 11 bits: what makes them more or less than a
    tie is beyond the last place of 32 bits."""
    a = np.arange(0x3C00, 0x4000, dtype=np.uint16)
    b = (0.5 / a.view(np.float16).astype(np.float64)).astype(np.float16).view(np.uint16)
    a, b = (np.concatenate([each] * 4) for each in (a, b))
    c = np.random.default_rng(3).integers(0x6400, 0x6800, a.size).astype(np.uint16)
    given = np.zeros((3, 2, a.size), np.uint32)
    given[:, 0] = np.stack([a, b, c])
    lanes = Lanes(given)
    for line in replaced("v_fma_f16 v10, v4, v6, v8"):
        lanes.execute(line)
    exact = [each.view(np.float16).astype(np.float64) for each in (a, b, c)]
    right = (exact[0] * exact[1] + exact[2]).astype(np.float16).view(np.uint16)  # exact in 53 bits
    assert np.array_equal(lanes.held["v10"], right)
    through = exact[0].astype(np.float32) * exact[1].astype(np.float32)
    once = (through.astype(np.float64) + exact[2]).astype(np.float32).astype(np.float16)
    assert np.count_nonzero(once.view(np.uint16) != right) > 100


def test_halves_that_have_no_rule():
    for line in ("v_add_f16_e64 v10, v4, v6 mul:2", "v_fma_f16 v10, v4, v6, v8 op_sel:[1,0,0,0]",
                 "v_add_f16_sdwa v10, v4, v6 dst_sel:DWORD"):  # fmt: skip
        assert replaced(line) == [line]
    chosen = replaced("v_pack_b32_f16 v10, v4, v6 op_sel:[1,0]")
    assert chosen[0] == "v_lshrrev_b32_e32 v40, 16, v4"


def near_ties(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Numerators and denominators whose quotient is subnormal, and in the middle of two numbers,
    or next to that: q d of such q, and the numbers beside."""
    places = rng.integers(1, 52, count)
    middle = (rng.integers(1 << 51, 1 << 52, count) >> places) * 2 + 1  # halves of the last place
    digits = np.minimum(52 - np.int64(np.log2(middle)), 30)
    d = rng.integers(1, np.int64(1) << digits).astype(np.float64)
    n = middle * d  # exact
    n = (n.view(np.int64) + rng.integers(-1, 2, count)).view(np.float64)
    # n / d is about the whole number `middle`, which is to be halves of 2^-1074.
    by = rng.integers(-400, 400, count)
    return np.ldexp(n, by - 538), np.ldexp(d, by + 537)


def test_quotients_of_doubles():
    """Of all magnitudes, special ones, and of ties where the result is subnormal; the estimate
    that v_div_fixup_f64 gets does not matter."""
    rng = np.random.default_rng(7)
    special = bundling.tried(("f64", "f64"), False)[:2].reshape(2, 2, -1)
    any_ = rng.integers(0, 1 << 32, (2, 2, 3000), np.uint32)
    close = rng.normal(size=(2, 3000)).view(np.uint32).reshape(2, 3000, 2).transpose(0, 2, 1)
    ties = np.stack(near_ties(rng, 6000)).view(np.uint32).reshape(2, 6000, 2).transpose(0, 2, 1)
    pairs = np.concatenate([special, any_, close, ties], 2)
    given = np.concatenate([pairs, pairs[:1]], 0)
    lines = replaced("v_div_fixup_f64 v[10:11], v[8:9], v[6:7], -v[4:5]")
    assert len(lines) == 38
    lanes = Lanes(given)
    for line in lines:
        lanes.execute(line)
    n, d = (np.ascontiguousarray(each.T).view(np.float64)[:, 0] for each in pairs)
    with np.errstate(all="ignore"):
        right = Expected(-n / d).right(
            np.ascontiguousarray(np.stack([lanes.held["v10"], lanes.held["v11"]], 1))
            .view(np.float64)[:, 0]
        )  # fmt: skip
        subnormal = (np.abs(n / d) < 2.0**-1022) & (n / d != 0)
    assert right.all(), (n[~right][:3], d[~right][:3])
    assert subnormal.sum() > 5000


def test_doubles_that_are_divided_are_not_scaled():
    one, other = replaced("v_div_scale_f64 v[10:11], vcc, v[4:5], v[6:7], v[4:5]")
    assert (one, other) == ("v_max_f64 v[10:11], v[4:5], v[4:5]", "s_mov_b64 vcc, 0")
    assert replaced("v_div_fmas_f64 v[10:11], v[4:5], v[6:7], v[8:9]") == [
        "v_fma_f64 v[10:11], v[4:5], v[6:7], v[8:9]"
    ]


def test_zeros_above_the_highest_one():
    lines = replaced("v_ffbh_u32_e32 v10, v4")
    assert len(lines) == 2
    given = bundling.tried(("u32",), False)
    lanes = Lanes(given)
    for line in lines:
        lanes.execute(line)
    wanted = [32 - int(n).bit_length() if n else 0xFFFFFFFF for n in given[0, 0]]
    assert lanes.held["v10"].tolist() == wanted


def test_a_byte_of_the_upper_half():
    shift, store = replaced("ds_write_b8_d16_hi v14, v4 offset:5")
    assert re.fullmatch(r"v_lshrrev_b32_e32 (v\d+), 16, v4", shift)
    assert store == f"ds_write_b8 v14, {shift.split()[1].rstrip(',')} offset:5"


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ("ds_write_b16_d16_hi v14, v4 offset:6", "ds_write_b16 v14, {} offset:6"),
        ("global_store_byte_d16_hi v14, v4, s[8:9] offset:-3",
         "global_store_byte v14, {}, s[8:9] offset:-3"),
        ("global_store_byte_d16_hi v[14:15], v4, off", "global_store_byte v[14:15], {}, off"),
        ("flat_store_byte_d16_hi v[14:15], v4 offset:7", "flat_store_byte v[14:15], {} offset:7"),
    ],
)  # fmt: skip
def test_stores_of_the_upper_half(line, plain):
    shift, store = replaced(line)
    assert re.fullmatch(r"v_lshrrev_b32_e32 (v\d+), 16, v4", shift)
    assert store == plain.format(shift.split()[1].rstrip(","))


@pytest.mark.parametrize(
    ("operands", "address"),
    [("s[10:11], -0x40", 0x1_0000_0020 - 0x40), ("s[10:11], s13 offset:0x84", 0x2_0000_0093),
     ("s[10:11], s13 offset:-0x40", 0x1_FFFF_FFCF), ("s[10:11], s13", 0x2_0000_000F),
     ("s[10:11], 0x84", 0x1_0000_00A4)],
)  # fmt: skip
def test_addresses_of_scalar_loads(operands: str, address: int):
    """As gem5 has them: the base, and a constant without a sign or a register."""
    held = {"s10": 0x20, "s11": 1, "s13": 0xFFFFFFEF}
    carry = 0
    *before, load = replaced(f"s_load_dwordx2 s[48:49], {operands}", "s_mov_b32 s0, s1")[:-1]
    for line in before:
        word, to, a, b = line.replace(",", "").split()
        a, b = (held[each] if each in held else int(each, 0) & 0xFFFFFFFF for each in (a, b))
        whole = a + b + (carry if word == "s_addc_u32" else 0)
        assert word in ("s_add_u32", "s_addc_u32")
        held[to], carry = whole & 0xFFFFFFFF, whole >> 32
    found = re.fullmatch(r"s_load_dwordx2 s\[48:49\], s\[(\d+):(\d+)\], (\S+)", load)
    low, high, offset = found.groups()
    total = held[f"s{low}"] | held[f"s{high}"] << 32
    total += held[offset] if offset in held else int(offset, 0)
    assert "offset:" not in load
    assert "-" not in load
    assert total & (1 << 64) - 1 == address


def test_quotients_by_zeros_and_infinities():
    """gem5's own quotient, but for zeros and infinities below: those by a product."""
    *before, fixup, select = replaced("v_div_fixup_f32 v10, v4, -v6, |v8|")
    assert fixup == "v_div_fixup_f32 v10, v4, -v6, |v8|"
    assert select.startswith("v_cndmask_b32_e64 v10, v10, ")
    kind, below, above = (
        np.array([*each, 0], np.uint32)
        for each in ([0] * 7, [0, 1 << 31, 0x7F800000, 0xFF800000, 0, 0x3F800000, 0x40000000],
                     [0x3F800000, 0x3F800000, 0x40000000, 0xC0000000, 0, 0x40000000, 0xBF800000])
    )  # fmt: skip
    given = np.zeros((3, 2, 8), np.uint32)
    given[0, 0], given[1, 0], given[2, 0] = kind, below ^ np.uint32(1 << 31), above
    lanes = Lanes(given)
    for line in before:
        lanes.execute(line)
    *_, special, mask = select.replace(",", "").split()
    with np.errstate(all="ignore"):
        right = np.abs(above.view(np.float32)) / below.view(np.float32)
    chosen = np.isin(below & 0x7FFFFFFF, (0, 0x7F800000))
    assert np.array_equal(lanes.masks[mask], chosen)
    made = lanes.held[special].view(np.float32)
    assert np.array_equal(made[chosen], right[chosen], equal_nan=True)
    assert np.array_equal(np.signbit(made[chosen][:4]), np.signbit(right[chosen][:4]))


class Scalars:
    """Scalar registers, SCC, and a memory of which each word is its own address."""

    def __init__(self, held: dict[str, int]) -> None:
        self.held, self.scc, self.read = dict(held), 0, set[int]()

    def value(self, operand: str) -> int:
        return self.held[operand] if operand in self.held else int(operand, 0) & 0xFFFFFFFF

    def run(self, lines: list[str]) -> None:
        places = {line[:-1]: at for at, line in enumerate(lines) if line.endswith(":")}
        at = 0
        while at < len(lines):
            line, at = lines[at], at + 1
            if line.endswith(":"):
                continue
            word, _, rest = line.partition(" ")
            to, *operands = rest.split(", ")
            if word in ("s_branch", f"s_cbranch_scc{self.scc}"):
                at = places[to]
            elif word.startswith("s_load"):
                low, high = (self.held[f"s{n}"] for n in re.findall(r"\d+", operands[0]))
                first, last = (re.findall(r"\d+", to) * 2)[:2]
                for n, number in enumerate(range(int(first), int(last) + 1)):
                    address = (low | high << 32) + int(operands[1], 0) + 4 * n
                    self.read.add(address)
                    self.held[f"s{number}"] = address & 0xFFFFFFFF
            elif not word.startswith("s_cbranch"):
                self.arithmetic(word, to, operands)

    def arithmetic(self, word: str, to: str, operands: list[str]) -> None:
        if word.startswith("s_cmp"):
            a, b = self.value(to), self.value(operands[0])
            self.scc = int({"lg": a != b, "lt": a < b, "ge": a >= b}[word.split("_")[2]])
            return
        a, b = (*map(self.value, operands), 0)[:2]
        whole = {
            "s_mov_b32": a, "s_and_b32": a & b, "s_max_u32": max(a, b), "s_mul_i32": a * b,
            "s_mul_hi_u32": a * b >> 32, "s_add_u32": a + b, "s_addc_u32": a + b + self.scc,
            "s_sub_u32": a - b, "s_cselect_b32": a if self.scc else b,
            "s_bfe_u32": a >> (b & 31) & (1 << (b >> 16)) - 1, "s_lshr_b32": a >> (b & 31),
        }[word]  # fmt: skip
        if word in ("s_add_u32", "s_addc_u32", "s_sub_u32"):
            self.scc = int(not 0 <= whole <= 0xFFFFFFFF)
        elif word in ("s_and_b32", "s_max_u32", "s_bfe_u32", "s_lshr_b32"):
            self.scc = int(whole != 0)
        self.held[to] = whole & 0xFFFFFFFF


@census("words", [1, 2, 4, 8, 16])
@census(
    "stride, records, offset, constant",
    [
        (0, 100, 36, 0), (0, 100, 40, 0), (0, 100, 98, 0), (0, 100, 200, 0), (0, 7, 0, 0),
        (16, 5, 60, 8), (16, 5, 1000, 8), (0x3FFF, 0xFFFFFFFF, 0xFFFFFFC0, 0), (0, 0, 0, 0),
    ],
)  # fmt: skip
def test_scalar_loads_from_buffers(
    words: int, stride: int, records: int, offset: int, constant: int
):
    """What lies in the buffer is read; of the rest, nothing, and the result is 0."""
    to = "s48" if words == 1 else f"s[48:{47 + words}]"
    name = f"s_buffer_load_dword{f'x{words}' if words > 1 else ''}"
    operands = "s13 offset:0x8" if constant else "s13"
    tail = "s_cselect_b32 s0, s1, s2"  # so that somebody needs SCC
    load = f"{name} {to}, s[16:19], {operands}"
    arch = "gfx803" if words == 2 and not constant else ARCH  # which has no s_mul_hi_u32
    table = TABLE if arch == ARCH else facts.table("gem5", "22.1", arch)
    *lines, last = replaced(load, tail, table=table, arch=arch)
    assert last == tail
    assert arch == ARCH or "s_mul_hi" not in "".join(lines)
    base = 0x12_3456_7000
    held = {
        "s16": base & 0xFFFFFFFF,
        "s17": base >> 32 | stride << 16,
        "s18": records,
        "s13": offset,
    }
    for scc in (0, 1):
        machine = Scalars(held)
        machine.scc = scc
        machine.run(lines)
        assert machine.scc == scc
        size = min(records * max(stride, 1), 0xFFFFFFFF)
        first = (offset + constant) & ~3
        inside = [first + 4 * n + 4 <= size for n in range(words)]
        wanted = [(base + first + 4 * n) & 0xFFFFFFFF if of else 0 for n, of in enumerate(inside)]
        assert [machine.held[f"s{48 + n}"] for n in range(words)] == wanted
        assert machine.read == {base + first + 4 * n for n, of in enumerate(inside) if of}


def test_atomics_that_count_to_a_limit():
    once = replaced("global_atomic_inc v14, v6, s[6:7] offset:8")
    assert len(once) == 13
    (swap,) = (line for line in once if "atomic" in line)
    found = re.fullmatch(
        r"global_atomic_cmpswap (v\d+), v14, v\[(\d+):(\d+)\], s\[6:7\] offset:8 glc", swap
    )
    assert found
    assert int(found[3]) == int(found[2]) + 1
    wide = ("flat_atomic_dec_x2", "v[10:11], v[14:15], v[6:7] glc")
    (kept,) = replaced(" ".join(wide))  # 24.1 compares 32 bits of 64
    assert kept == " ".join(wide)
    before = facts.table("gem5", "23.1", ARCH)
    lines = replaced(" ".join(wide), table=before)
    (swap,) = (line for line in lines if "atomic" in line)
    assert re.fullmatch(r"flat_atomic_cmpswap_x2 v\[\d+:\d+\], v\[14:15\], v\[\d+:\d+\] glc", swap)
    assert lines[-2].startswith("v_mov_b32_e32 v10, ")


def test_what_a_version_does_right_stays():
    newest = facts.table("gem5", "25.1", ARCH)
    line = "v_cmp_lt_f32_e64 s[30:31], |v4|, -v6"
    assert replaced(line, table=newest) == [line]
    assert replaced("v_cmp_lt_f64_e64 s[30:31], |v[4:5]|, v[6:7]") == [
        "v_cmp_lt_f64_e64 s[30:31], |v[4:5]|, v[6:7]"
    ]
    assert len(replaced(line)) == 3
    assert replaced("v_add_f32_e64 v10, v4, -v6") == ["v_add_f32_e64 v10, v4, -v6"]


def test_temporaries_are_owned():
    head = ["\t.type\tk,@function", "k:", "\tv_cmp_lt_f32_e64 vcc, |v4|, v6", "\ts_endpgm",
            ".Lend_k:", "\t.size\tk, .Lend_k-k", "\t.set k.num_vgpr, 7",
            "\t.set k.numbered_sgpr, 8"]  # fmt: skip
    made = gem5_rules.rewrite("\n".join(head), TABLE, ARCH).text
    held = int(re.search(r"v_and_b32_e32 v(\d+)", made)[1])
    assert held >= 7
    assert int(re.search(r"num_vgpr, (\d+)", made)[1]) == held + 1


def test_the_sign_of_an_infinite_half() -> None:
    """gem5 24.0 makes infinity of -infinity (bdba981753): V_BFI_B32 takes the sign of the half."""
    line = "v_cvt_f32_f16_e32 v4, v6"
    assert replaced(line) == [line]
    shift, convert, mask, insert = replaced(line, table=facts.table("gem5", "24.0", ARCH))
    assert convert == line
    assert re.fullmatch(r"v_lshlrev_b32_e32 v(4\d), 16, v6", shift)
    assert re.fullmatch(r"s_mov_b32 s(\d+), 0x7fffffff", mask)
    sign, bits = shift.split()[1].strip(","), mask.split()[1].strip(",")
    assert insert == f"v_bfi_b32 v4, {bits}, v4, {sign}"


# Values of both halves: edges of rounding, overflow, subnormals, infinities, NaN; and all kinds.
EDGES_OF_HALVES = np.array(
    [
        0x3555, 0xBB1C, 0x0001, 0x83FF, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x8000, 0x3C01, 0xC248,
        0x0400, 0x6A3D, 0xA01B, 0x2FFF, 0x1001,
    ],
    np.uint16,
).view(np.float16)  # fmt: skip


@pytest.mark.parametrize("verb", ["add", "mul", "min", "max"])
@pytest.mark.parametrize(
    ("modifiers", "chosen", "signs"),
    [
        ("", ((0, 0), (1, 1)), ((0, 0), (0, 0))),
        (" op_sel:[1,0] op_sel_hi:[0,1]", ((1, 0), (0, 1)), ((0, 0), (0, 0))),
        (" neg_lo:[0,1] neg_hi:[1,0]", ((0, 0), (1, 1)), ((0, 1), (1, 0))),
        (" op_sel_hi:[1,0] clamp", ((0, 0), (1, 0)), ((0, 0), (0, 0))),
    ],
)
def test_two_halves_are_computed_one_by_one(
    verb: str, modifiers: str, chosen: tuple, signs: tuple
) -> None:
    """By NumPy's float16, which rounds to nearest even (IEEE 754); NaNs lose of min and max."""
    lower, upper = np.meshgrid(EDGES_OF_HALVES, EDGES_OF_HALVES)
    pairs = np.stack([lower.ravel(), upper.ravel()])
    sources = [pairs, np.roll(pairs, 7, 1)]
    lanes = Lanes(np.zeros((3, 2, pairs.shape[1]), np.uint32))
    for at, each in enumerate(sources):
        words = each.view(np.uint16).astype(np.uint32)
        lanes.held[f"v{4 + 2 * at}"] = words[0] | words[1] << 16
    line = f"v_pk_{verb}_f16 v2, v4, v6{modifiers}"
    for each in replaced(line, table=facts.table("gem5", "24.1", ARCH)):
        lanes.execute(each)
    made = lanes.held["v2"]
    function = {"add": np.add, "mul": np.multiply, "min": np.fmin, "max": np.fmax}[verb]
    for half, (places, minus) in enumerate(zip(chosen, signs, strict=True)):
        with np.errstate(all="ignore"):
            taken = [source[place] for source, place in zip(sources, places, strict=True)]
            a, b = (-each if sign else each for each, sign in zip(taken, minus, strict=True))
            right = function(a, b)
            if "clamp" in modifiers:
                right = np.where(np.isnan(right), np.float16(0), np.clip(right, 0, 1))
        found = (made >> (16 * half) & 0xFFFF).astype(np.uint16).view(np.float16)
        same = (found == right) | (np.isnan(found) & np.isnan(right))
        assert same.all(), (line, a[~same][:3], b[~same][:3], found[~same][:3], right[~same][:3])
