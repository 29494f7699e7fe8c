"""Every row of the tables of lint is found in machine code, whose text assembles back."""

from __future__ import annotations

import json
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest
from click.testing import CliRunner

from simgen.cli.main import cli
from simgen.frontend import network, problem
from simgen.ground import resources
from simgen.isa import legalise, toolchain
from simgen.isa.legalise import facts
from simgen.isa.legalise.machine_code import FORMATS, Decoded
from simgen.isa.legalise.simulators import Model
from simgen.isa.lint import containers, disassembly, functions, linting, naming
from simgen.isa.lint.containers import Held
from simgen.isa.lint.gem5 import Gem5
from simgen.isa.lint.verdicts import NOTE
from simgen.kernels import render
from simgen.workload import lowering

WIDE = {each.name for each in FORMATS if each.nbytes == 8}
CONTROLS = " quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf"


def assembled(lines: list[str], arch: str) -> list[Decoded]:
    text = f'.amdgcn_target "amdgcn-amd-amdhsa--{arch}"\n.type f,@function\nf:\n'
    code = toolchain.assemble_foreign(text + "\n".join(lines) + "\n.size f, .-f\n", arch, "f.s")
    (_, (function,), _) = functions.functions_of(code, "f.s")
    return naming.decoded(function.code)


@cache
def instructions(arch: str) -> dict[str, Decoded]:
    """An instruction of each mnemonic, by it."""
    by_name = {
        line.split()[0]: line
        for of in naming.encodings(arch).values()
        for lines in of.values()
        for line in lines
        if not line.startswith("v_mfma_scale")  # it is two instructions
    }
    found = assembled(list(by_name.values()), arch)
    assert len(found) == len(by_name)
    return {naming.name(item, arch): item for item in found}


# Products of matrices, by the manuals of MI100 and, of those that are new with it, MI350: of the
# latter, other new ones too.
NEW = {
    "gfx908": [
        f"v_mfma_{kind} a[0:{words - 1}], {factors}, {factors}, a[0:{words - 1}]"
        for factors, kinds in {
            "v1": {"f32_32x32x1f32": 32, "f32_16x16x1f32": 16, "f32_4x4x1f32": 4,
                   "f32_32x32x2f32": 16, "f32_16x16x4f32": 4, "i32_32x32x4i8": 32,
                   "i32_16x16x4i8": 16, "i32_4x4x4i8": 4, "i32_32x32x8i8": 16,
                   "i32_16x16x16i8": 4, "f32_32x32x2bf16": 32, "f32_16x16x2bf16": 16,
                   "f32_4x4x2bf16": 4, "f32_32x32x4bf16": 16, "f32_16x16x8bf16": 4},
            "v[2:3]": {"f32_32x32x4f16": 32, "f32_16x16x4f16": 16, "f32_4x4x4f16": 4,
                       "f32_32x32x8f16": 16, "f32_16x16x16f16": 4},
        }.items()
        for kind, words in kinds.items()
    ],
    "gfx950": [
        "v_mfma_f32_16x16x32_f16 v[0:3], v[4:7], v[8:11], v[0:3]",
        "v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[20:23], v[0:15]",
        "v_mfma_i32_16x16x64_i8 v[0:3], v[4:7], v[8:11], v[0:3]",
        "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[0:3]",
        "v_smfmac_f32_16x16x64_f16 v[0:3], v[4:7], v[8:15], v16",
        "v_bitop3_b32 v0, v1, v2, v3",
        "v_cvt_scalef32_pk_f32_fp4 v[0:1], v2, v3",
        "v_cvt_scalef32_2xpk16_fp6_f32 v[0:5], v[6:21], v[22:37], v38",
        "v_permlane32_swap_b32_e32 v0, v1",
        "ds_read_b64_tr_b16 v[0:1], v2",
        "global_load_lds_dwordx4 v[2:3], off",
    ],
}  # fmt: skip


@pytest.mark.parametrize("arch", NEW)
def test_what_a_processor_is_for_has_its_name(arch):
    items = assembled(NEW[arch], arch)
    assert [naming.name(item, arch) for item in items] == [line.split()[0] for line in NEW[arch]]
    judge = linting.judge_of(Model("gem5", "25.1", arch))
    products = {item.offset for item in items if "mfma" in naming.name(item, arch)}
    found = {item.offset: judged[0] for item, judged in judge(items)}
    # They have no time there, without which gem5 ends.
    assert {found.get(offset) for offset in products} == {"ends"}


def test_products_of_matrices_of_gfx908_are_no_concern_of_gfx90a():
    line = "v_mfma_f32_16x16x4f32 {}, v1, v2, {}"
    for version, ends in (("24.1", False), ("25.0", True)):
        for arch, to in (("gfx908", "a[0:3]"), ("gfx90a", "v[4:7]")):
            (item,) = assembled([line.format(to, to)], arch)
            judge = linting.judge_of(Model("gem5", version, arch))
            found = [judged for _, judged in judge([item]) if judged[0] != NOTE]
            assert bool(found) is (ends and arch == "gfx908")


def changed(item: Decoded, modifier: str) -> Decoded:
    if modifier == "negative" and item.format == "SOPK":
        bits = 1 << 15
    elif item.form == "global":  # whose samples have no base
        bits = 1 << 12 if modifier == "negative" else 0
        base = item.word & ~(127 << 48) if modifier == "base" else item.word
        return Decoded(item.offset, item.format, item.opcode, base | bits, item.nbytes, item.form)
    else:
        bits = {"abs": 1 << 8, "neg": 1 << 61, "clamp": 1 << 15, "omod": 1 << 59,
                "cbsz": 1 << 8, "blgp": 1 << 61,
                "negative": 1 << 52 | 1 << 17}[modifier]  # fmt: skip
    return Decoded(item.offset, item.format, item.opcode, item.word | bits, item.nbytes)


@pytest.mark.parametrize("arch", ["gfx803", "gfx902", "gfx908", "gfx90a", "gfx942", "gfx950"])
def test_each_row_is_found(arch):
    known = instructions(arch)
    assert len(known) > 1100
    rows = 0
    for version in facts.versions("gem5"):
        table = facts.table("gem5", version, arch)
        if table is None:
            continue
        judge = Gem5(Model("gem5", version, arch), table, ()).judged
        plain = [w for w in (*table.ends, *table.no_form, *table.wrong, *table.edges) if w in known]
        cases = [known[word] for word in plain]
        cases += [
            changed(known[word], modifier)
            for modifier, words in table.ignores.items()
            for word in words
            if word in known
        ]
        found = [item for item, judged in judge(cases) if judged[0] != NOTE]
        assert all(a is b for a, b in zip_longest(found, cases)), version
        based = table.ignores.get("base", ())  # as the samples are
        rest = [known[w] for w in known if w not in {*plain, *based}]
        others = list(judge([each for each in rest if table.moves or each.form != "dpp"]))
        assert {judged[0] for _, judged in others} <= {NOTE}
        told = {naming.name(item, arch) for item, _ in [*others, *judge(cases)]}
        assert {*table.notes} & {*known} <= told
        rows += len(cases)
    assert rows > 1000


GEM5_FORMS = {
    "v_add_f32_dpp v10, v4, v6 row_half_mirror row_mask:0xf bank_mask:0xf": True,
    "v_mov_b32_dpp v10, v4 row_half_mirror row_mask:0xf bank_mask:0xf": True,
    "v_add_f32_dpp v10, v4, v6 row_mirror row_mask:0xf bank_mask:0xf": True,
    "v_add_f32_dpp v10, v4, v6 row_shr:1 row_mask:0xf bank_mask:0xf": False,
    "v_cvt_f32_i32_e64 v10, s50": True,
    "v_cvt_f32_i32_e64 v10, 7": True,
    "v_cvt_f32_i32_e64 v10, v4": False,
    "v_cvt_f32_i32_e32 v10, s50": False,
    "v_cndmask_b32_e64 v10, -v4, v6, s[34:35]": True,
    "v_cndmask_b32_e64 v10, v4, v6, s[34:35]": False,
    "v_cmp_lt_f32_e64 s[30:31], v4, -v6": True,
    "v_cmp_lt_f64_e64 s[30:31], v[4:5], -|v[6:7]|": False,
    "v_cmp_tru_f32_e64 s[30:31], v4, -v6": False,
    "v_cmp_class_f32_e64 s[30:31], v4, v6": True,
    "ds_swizzle_b32 v10, v4 offset:swizzle(QUAD_PERM,3,0,2,1)": True,
    "ds_bpermute_b32 v10, v15, v4": False,
    "ds_write_b8_d16_hi v14, v4": True,
    "ds_write_b8 v14, v4": False,
    "global_atomic_inc v[14:15], v6, off": True,
    "flat_atomic_dec_x2 v[14:15], v[6:7]": True,
    "global_atomic_add v[14:15], v6, off": False,
}
MGPUSIM_FORMS = {
    "flat_load_dword v10, v[14:15]": "adds s[0:1]",
    "global_load_dword v10, v[14:15], off": "",
    "v_add_f64 v[10:11], 1.0, v[6:7]": "takes constants of 32 bits",
    "v_add_f64 v[10:11], v[4:5], v[6:7]": "",
    "v_med3_u32 v10, v4, v6, v6": "where two sources are equal",
    "s_abs_i32 s0, s1": "SCC",
    "s_not_b32 s0, s1": "SCC",
    "v_rcp_f64_e32 v[10:11], -4.0": "takes constants of 32 bits",
    "v_rcp_f64_e32 v[10:11], v[4:5]": "",
    "v_fma_f32 v10, v4, v6, v8": "rounds the product",
    "v_max3_f32 v10, v4, v6, v8": "where operands are NaN",
    "v_max3_f32 v10, v4, v6, v8 mul:2": "does not execute it right",
    "v_cmp_class_f32_e64 s[30:31], |v4|, v6": "signalling NaN",
    "v_cmp_class_f32_e64 s[30:31], v4, v6": "",
}


def test_what_conform_has_found_in_gem5():
    cases = assembled(list(GEM5_FORMS), "gfx942")
    for version in ("24.0", "24.1", "25.0", "25.1"):
        table = facts.table("gem5", version, "gfx942")
        judge = Gem5(Model("gem5", version, "gfx942"), table, ()).judged
        found = {item.offset for item, _ in judge(cases)}
        wanted = dict(GEM5_FORMS)
        if version == "25.1":  # which reads the signs of comparisons of f32 (#2350)
            wanted["v_cmp_lt_f32_e64 s[30:31], v4, -v6"] = False
        assert [item.offset in found for item in cases] == list(wanted.values())


OFFSETS = {
    "global_load_dword v1, v[2:3], off offset:1": True,
    "global_load_dwordx4 v[4:7], v2, s[6:7] offset:-6": True,
    "global_load_dwordx2 v[4:5], v[2:3], off offset:4": False,
    "global_store_short v[2:3], v4, off offset:7": True,
    "global_store_short v[2:3], v4, off offset:6": False,
    "global_load_ubyte v1, v[2:3], off offset:7": False,
    "flat_store_dwordx3 v[2:3], v[4:6] offset:2": True,
    "ds_read_b32 v1, v2 offset:1": False,  # LDS has no lines
}


@pytest.mark.parametrize("version", ["22.1", "24.1", "25.1"])
def test_offsets_that_are_not_aligned(version):
    cases = assembled(list(OFFSETS), "gfx902")
    table = facts.table("gem5", version, "gfx902")
    judge = Gem5(Model("gem5", version, "gfx902"), table, ()).judged
    told = {item.offset: judged[0] for item, judged in judge(cases) if judged[0] != NOTE}
    wanted = [item.offset for item, of in zip(cases, OFFSETS.values(), strict=True) if of]
    assert told == dict.fromkeys(wanted, "edges")


def test_what_a_rule_has_corrected_is_not_told():
    line = "v_div_fixup_f32 v10, v4, v6, v8"
    right = "v_cndmask_b32_e64 v10, v10, v11, s[0:1]"
    other = right.replace("v10, v10", "v12, v10")
    items = assembled([line, right, line, other, line], "gfx902")
    judge = linting.judge_of(Model("gem5", "24.1", "gfx902"))
    assert [item.offset for item, _ in judge(items)] == [items[2].offset, items[4].offset]


SCALAR_LOADS = {
    "s_load_dword s48, s[10:11], -0x40": True,
    "s_load_dwordx16 s[48:63], s[10:11], 0x7ffff": False,
    "s_load_dwordx2 s[48:49], s[10:11], s13": False,
    "s_load_dwordx2 s[48:49], s[10:11], s13 offset:-0x40": True,
    "s_buffer_load_dword s48, s[16:19], 0x40": True,
}


@pytest.mark.parametrize("version", ["21.1", "23.1", "24.1", "25.1"])
def test_scalar_loads_on_gem5(version):
    table = facts.table("gem5", version, "gfx900")
    judge = Gem5(Model("gem5", version, "gfx900"), table, ("scalar_offset",)).judged
    cases = assembled(list(SCALAR_LOADS), "gfx902")
    found = {item.offset for item, _ in judge(cases)}
    assert [item.offset in found for item in cases] == list(SCALAR_LOADS.values())


LANELESS = {  # an access to memory: what is said of it, by rewritings of a version
    "s_load_dword s6, s[0:1], 0x24": "a token there that it has not taken",
    "ds_write_b32 v0, v1": "goes on counting",
    "s_memtime s[6:7]": None,
}


@pytest.mark.parametrize(("access", "said"), LANELESS.items())
def test_accesses_without_active_lanes_on_gem5(access, said):
    save, restore = "s_and_saveexec_b64 s[2:3], vcc", "s_or_b64 exec, exec, s[2:3]"
    skipped = [save, "s_cbranch_execz 3", access, "s_nop 0", restore]
    behind = [save, "s_cbranch_execz 1", "s_nop 0", access, restore]
    legalised = [save, "s_cbranch_execz 8", access, restore, access, "s_endpgm",
                 "s_mov_b64 exec, -1", access, "s_mov_b64 exec, 0", "s_branch -8"]  # fmt: skip
    for version, arch in (("23.1", "gfx902"), ("24.0", "gfx942")):
        judge = linting.judge_of(Model("gem5", version, arch))
        for lines, there in (([save, access, restore], 1), (behind, 1), (skipped, 0),
                             (legalised, 0)):  # fmt: skip
            found = [why for _, (word, why, _) in judge(assembled(lines, arch)) if word == "ends"]
            assert [said in why for why in found if said] == [True] * (there if said else 0)
    assert not [*linting.judge_of(Model("gem5", "23.0", "gfx902"))(
        assembled([save, "s_load_dword s6, s[0:1], 0x24", restore], "gfx902"))]  # fmt: skip


MATRIX_FORMS = {
    "v_mfma_f32_16x16x4f32 v[40:43], v4, v6, v[40:43]": False,
    "v_mfma_f32_16x16x4f32 v[40:43], v4, v6, v[40:43] blgp:3": True,
    "v_mfma_f32_16x16x1f32 v[40:55], v4, v6, v[40:55] cbsz:1 abid:1": True,
    "v_mfma_f64_16x16x4f64 v[40:47], v[4:5], v[6:7], v[40:47]": True,
    "v_mfma_f32_16x16x8bf16 v[40:43], v4, v6, v[40:43]": True,
}


@pytest.mark.parametrize("version", ["24.0", "24.1", "25.0", "25.1"])
def test_products_of_matrices_on_gem5(version):
    table = facts.table("gem5", version, "gfx90a")
    judge = Gem5(Model("gem5", version, "gfx90a"), table, ()).judged
    cases = assembled(list(MATRIX_FORMS), "gfx90a")
    found = {item.offset for item, judged in judge(cases) if judged[0] != NOTE}
    assert [item.offset in found for item in cases] == list(MATRIX_FORMS.values())


NOTED = {
    "v_mul_f32_e32 v1, v2, v3": "a subnormal first factor",
    "v_mul_f32_e64 v1, -v2, v3": "a subnormal first factor",
    "v_max_f32_e32 v1, v2, v3": "zeros with both signs",
    "v_min3_f32 v1, v2, v3, v4": "zeros with both signs",
    "v_max_f64 v[2:3], v[4:5], v[6:7]": "zeros with both signs",
    "v_div_scale_f32 v1, vcc, v2, v3, v2": "scales nothing",
    "buffer_load_dwordx4 v[4:7], v1, s[4:7], 0 offen": "behind its end too; of swizzled",
    "buffer_load_dword v4, v1, s[4:7], 0 offen": "of swizzled buffers",
    "v_mfma_f32_16x16x4f32 v[40:43], v4, v6, v[40:43]": "no lanes that EXEC",
    "v_add_f32_e32 v1, v2, v3": "",
    "v_fma_f32 v1, v2, v3, v4": "",
    "v_med3_i32 v1, v2, v3, v4": "",
    "global_load_dwordx4 v[4:7], v[8:9], off": "",
}


@pytest.mark.parametrize("version", ["24.0", "24.1", "25.0", "25.1"])
def test_what_nearly_all_kernels_have_is_noted(version):
    judge = linting.judge_of(Model("gem5", version, "gfx90a"))
    cases = assembled(list(NOTED), "gfx90a")
    told = {item.offset: judged for item, judged in judge(cases)}
    for item, (line, why) in zip(cases, NOTED.items(), strict=True):
        assert (item.offset in told) == bool(why), line
        verdict, reason, _ = told.get(item.offset, (NOTE, "", ""))
        assert verdict == NOTE, line
        assert why in reason, line


def test_elements_of_swizzled_buffers_have_a_field_on_gfx8():
    """There, gem5's reading of it is right."""
    judge = linting.judge_of(Model("gem5", "21.0", "gfx803"))
    (item,) = assembled(["buffer_load_dword v4, v1, s[4:7], 0 offen"], "gfx803")
    assert not [judged for _, judged in judge([item]) if judged[0] == NOTE]


def test_products_of_halves_are_rounded():
    for version, arch in (("24.1", "gfx90a"), ("25.1", "gfx950")):
        lines = ["v_mfma_f32_16x16x16f16 v[0:3], v[4:5], v[6:7], v[0:3]",
                 "v_mfma_f32_16x16x4f32 v[0:3], v4, v5, v[0:3]"]  # fmt: skip
        judge = linting.judge_of(Model("gem5", version, arch))
        found = [judged for _, judged in judge(assembled(lines, arch)) if judged[0] != NOTE]
        assert [(verdict, "rounds each product" in why) for verdict, why, _ in found] == [
            ("edges", True)
        ]


def test_each_product_that_gem5_has_takes_a_time_that_it_knows():
    """From 25.0 on, others end it: those that 24.1 executes are all there."""
    for arch in ("gfx90a", "gfx942"):
        lacking = {}
        for version in ("24.1", "25.0", "25.1"):
            table = facts.table("gem5", version, arch)
            lacking[version] = {word for word in table.ends if word.startswith("v_mfma")}
        assert lacking["24.1"] == lacking["25.0"] == lacking["25.1"]
        assert len({w for w in instructions(arch) if w.startswith("v_mfma")} - lacking["25.1"]) > 8


def test_opcodes_that_mean_something_else_on_newer_gpus():
    """v_fmac_f64 has the opcode of v_mul_legacy_f32; from 25.0 on, gem5 goes by the GPU."""
    for version, taken in (("24.1", True), ("25.0", False), ("25.1", False)):
        table = facts.table("gem5", version, "gfx90a")
        judge = Gem5(Model("gem5", version, "gfx90a"), table, ()).judged
        found = list(judge(assembled(["v_fmac_f64_e32 v[2:3], v[4:5], v[6:7]"], "gfx90a")))
        assert bool(found) is taken, version


@pytest.mark.parametrize("arch", ["gfx803", "gfx902"])
def test_signs_of_comparisons(arch):
    """gem5 reads those of f64, from 25.1 on of v_cmp of f32 too; those of f16 mostly end it."""
    known = instructions(arch)
    conditions = [
        "lt",
        "eq",
        "le",
        "gt",
        "lg",
        "ge",
        "o",
        "u",
        "nge",
        "nlg",
        "ngt",
        "nle",
        "neq",
        "nlt",
    ]
    for version in facts.versions("gem5"):
        if not (table := facts.table("gem5", version, arch)):
            continue
        judge = Gem5(Model("gem5", version, arch), table, ()).judged
        kinds = [(word, type_) for word in ("cmp", "cmpx") for type_ in ("f16", "f32", "f64")]
        for word, type_ in kinds:
            refused = type_ != "f64" and (version, word, type_) != ("25.1", "cmp", "f32")
            words = [f"v_{word}_{condition}_{type_}_e64" for condition in conditions]
            signed = [changed(known[word], m) for word in words for m in ("abs", "neg")]
            # But for v_cmp_lg_f32, which is wrong of NaNs, signs or not.
            verdicts = [judged[0] for _, judged in judge(signed) if judged[0] != "edges"]
            assert len(verdicts) == len(signed) * refused, (version, word, type_)
            assert set(verdicts) <= {"ends", "wrong"}


def test_what_conform_has_found_in_mgpusim():
    cases = assembled(list(MGPUSIM_FORMS), "gfx942")
    judge = linting.judge_of(Model("mgpusim", "4.2.0", "gfx942"))
    found = {item.offset: judged[1] for item, judged in judge(cases)}
    for item, (line, why) in zip(cases, MGPUSIM_FORMS.items(), strict=True):
        assert (item.offset in found) == bool(why), line
        assert why in found.get(item.offset, ""), line


def test_notes_are_told_once(tmp_path):
    path = tmp_path / "kernel.s"
    lines = ["v_mul_f32_e32 v0, v1, v2", "v_mul_f32_e64 v0, v1, v2", "v_max_f32_e32 v0, v1, v2"]
    head = '.amdgcn_target "amdgcn-amd-amdhsa--gfx902"\n.globl k\n.type k,@function\nk:\n'
    path.write_text(head + "\n".join([*lines, lines[0], "s_endpgm"]) + "\n")
    looked = list(linting.code_objects([*containers.code_objects(path)] * 2, "gem5", "24.1"))
    assert not [each for of in looked for each in of.findings]
    notes = [(note.mnemonics, note.times) for note in linting.notes_of(looked)]
    assert notes == [(("v_mul_f32_e32", "v_mul_f32_e64"), 6), (("v_max_f32_e32",), 2)]
    assert [note.times for note in looked[0].notes] == [3, 1]
    shown = CliRunner().invoke(cli, ["lint", str(path), "--simulator", "gem5@24.1"])
    assert shown.exit_code == 0
    assert "note: v_mul_f32_e32, v_mul_f32_e64 (3 times): takes a subnormal" in shown.output
    told = CliRunner().invoke(cli, ["lint", str(path), "-s", "gem5@24.1", "--json"])
    (held,) = json.loads(told.output)["code_objects"]
    assert [(n["instructions"], n["times"]) for n in held["notes"]] == [
        (["v_mul_f32_e32", "v_mul_f32_e64"], 3), (["v_max_f32_e32"], 1),
    ]  # fmt: skip


def test_source_lines_and_forms(tmp_path):
    """What a user sees of his assembly: the line, the modifier, the form."""
    text = [
        '.amdgcn_target "amdgcn-amd-amdhsa--gfx902"', ".globl k", ".type k,@function", "k:",
        "v_cmp_lt_f32_e64 s[0:1], |v0|, v1", "v_add_f32_e32 v0, v1, v2",
        f"v_add_u32_dpp v0, v1, v2{CONTROLS}", "s_endpgm",
    ]  # fmt: skip
    path = tmp_path / "kernel.s"
    path.write_text("\n".join(text) + "\n")
    (looked,) = linting.code_objects(containers.code_objects(path), "gem5", "24.0")
    assert [(f.kernel, f.line.rpartition(":")[2], f.verdict) for f in looked.findings] == [
        ("k", "5", "wrong"),
        ("k", "7", "wrong"),
    ]


def assembles_back(elf: bytes, arch: str) -> int:
    """Checks that the text of each instruction of a code object is that instruction; how many."""
    texts: dict[str, bytes] = {}
    for function in functions.functions_of(elf, "")[1]:
        for item in naming.decoded(function.code):
            if not naming.name(item, arch).startswith(("s_branch", "s_cbranch")):
                texts[disassembly.text(item, arch, str)] = coded(item)
    assert [coded(item) for item in assembled(list(texts), arch)] == list(texts.values())
    return len(texts)


def test_text_assembles_to_the_same_bytes():
    entries = sorted(resources.folder("cachefiles").glob("*/*/inputs.txt"))[::3]
    made = [
        assembles_back(path.with_name("blob").read_bytes(), "gfx902")
        for path in entries
        if "code object gfx902 " in path.read_text()[:300]
    ]
    assert len(made) > 15
    assert sum(made) > 1500


@pytest.mark.parametrize("arch", ["gfx803", "gfx942"])
def test_what_is_rewritten_for_mgpusim_is_not_refused(arch):
    """And what the compiler made is, in each kernel."""
    model = Model("mgpusim", "4.2.0", arch)
    for name in ("softmax_fwd", "pool_fwd", "bn_fwd", "conv_fwd"):
        found = problem.find(name, [], None)
        work = lowering.lower(network.resolve(found.config, found.settings), name, found.passes, 0)
        source = next(iter(render.kernels(work).values()))
        text = toolchain.assembly(render.self_contained(source), arch)
        verdicts = []
        for made in (text, legalise.rewrite(text, model).text):
            held = Held(Path(name), "", toolchain.assemble(made, arch))
            assert assembles_back(held.code, arch) > 50
            (looked,) = linting.code_objects([held], "mgpusim", "4.2.0")
            verdicts.append(any(each.refused for each in looked.findings))
        assert verdicts == [True, False], name


def coded(item: Decoded) -> bytes:
    words = item.word.to_bytes(8, "little")[: 8 if item.format in WIDE else 4]
    return words + item.extra.to_bytes(4, "little") * (item.nbytes > len(words))
