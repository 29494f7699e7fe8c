"""The rewriting of assembly text: what changes, what stays, what is refused."""

from __future__ import annotations

import pytest
from census import census

from simgen.errors import DamagedError, RefusedError, UsageError
from simgen.ground import resources
from simgen.isa import legalise
from simgen.isa.legalise import Model, NoRuleError, extract, roles
from simgen.isa.legalise.assembly import (
    CONTRACTED,
    DYNAMIC_LDS,
    AssemblyKernel,
    Instruction,
    instruction,
    parse,
    registers,
)
from simgen.isa.legalise.flow import Flow
from simgen.isa.legalise.implemented import (
    Unimplemented,
    implemented,
    instructions,
    unimplemented,
)
from simgen.isa.legalise.simulators import native
from simgen.isa.legalise.table import ARCHS, RULES
from simgen.targets.mgpusim.target import model

EXEC = ("exec_lo", "exec_hi")


def rewrite(text: str, arch: str) -> legalise.Legalised:
    return legalise.rewrite(text, model(arch))


def module(
    *lines: str, arch: str = "gfx942", name: str = "k", vgprs: int = 7, sgprs: int = 10
) -> str:
    """A module as clang prints it, with one kernel."""
    body = "\n".join(line if line.endswith(":") else f"\t{line}" for line in lines)
    accum = "\t\t.amdhsa_accum_offset 8\n" if arch == "gfx942" else ""
    return f"""\t.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
\t.text
\t.type\t{name},@function
{name}:                                      ; @{name}
{body}
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel {name}
\t\t.amdhsa_next_free_vgpr {vgprs}
\t\t.amdhsa_next_free_sgpr {sgprs}
{accum}\t.end_amdhsa_kernel
\t.text
\t.set {name}.num_vgpr, {vgprs}
\t.set {name}.num_agpr, 0
\t.set {name}.numbered_sgpr, {sgprs}
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .offset:         0
        .size:           8
    .name:           {name}
    .sgpr_count:     {sgprs + 6}
    .vgpr_count:     {vgprs}
amdhsa.target:   amdgcn-amd-amdhsa--{arch}
...
\t.end_amdgpu_metadata
"""


def body(text: str, name: str = "k") -> list[str]:
    """The instructions of a module, without comments."""
    (kernel,) = parse(text.split("\n"))
    assert kernel.name == name
    return [str(i) for i in kernel.items.values() if isinstance(i, Instruction)][:-1]


def after(*lines: str, arch: str = "gfx942") -> list[str]:
    return body(rewrite(module(*lines, arch=arch), arch).text)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_kernel_that_needs_nothing_stays_the_same_to_the_byte(arch):
    text = module("v_mul_f32_e32 v0, v1, v2", "s_cbranch_scc1 .LBB0_1", ".LBB0_1:", arch=arch)
    made = rewrite(text, arch)
    assert (made.text, made.replaced, made.added) == (text, {}, 0)


def test_a_small_literal_is_moved_to_both_halves():
    moves = ["v_mov_b32_e32 v0, 0x3e8", "v_mov_b32_e32 v1, 0"]
    assert after("v_mov_b64_e32 v[0:1], 0x3e8") == moves
    moves = ["v_mov_b32_e32 v0, 0x80000000", "v_mov_b32_e32 v1, 0"]  # as LLVM gives it to unsigned
    assert after("v_mov_b64_e32 v[0:1], 0x80000000") == moves


def test_replacements_are_counted_by_mnemonic():
    made = rewrite(module("v_floor_f32_e32 v0, v1", "v_mov_b64_e32 v[0:1], v[2:3]"), "gfx942")
    assert made.replaced == {"v_floor_f32_e32": 1, "v_mov_b64_e32": 1}
    assert made.added == len(body(made.text)) - 2 == 4


def test_the_replaced_instruction_stays_as_a_comment():
    assert (
        "; for v_floor_f32_e32 v0, v1" in rewrite(module("v_floor_f32_e32 v0, v1"), "gfx942").text
    )


# Registers -----------------------------------------------------------------------------------


def test_temporaries_lie_above_the_kernels_own_and_are_counted_everywhere():
    made = rewrite(module("v_floor_f32_e32 v0, v1"), "gfx942").text
    # 7 vector registers round to 8, because pairs must be even, and two more are needed.
    assert body(made)[0] == "v_trunc_f32_e32 v8, v1"
    for line in (
        ".amdhsa_next_free_vgpr 10", ".amdhsa_next_free_sgpr 14", ".amdhsa_accum_offset 12",
        ".set k.num_vgpr, 10", ".set k.num_agpr, 0", ".set k.numbered_sgpr, 14",
        ".vgpr_count:     10", ".sgpr_count:     20",
    ):  # fmt: skip
        assert line in made


def test_registers_that_are_reserved_and_not_used_are_there_for_temporaries():
    reserved = module("v_floor_f32_e32 v0, v1").replace("free_sgpr 10", "free_sgpr 100")
    made = rewrite(reserved.replace("free_vgpr 7", "free_vgpr 85"), "gfx803").text
    assert body(made)[0] == "v_trunc_f32_e32 v8, v1"
    for line in (
        ".amdhsa_next_free_vgpr 85", ".amdhsa_next_free_sgpr 100",
        ".set k.num_vgpr, 10", ".set k.numbered_sgpr, 14",
    ):  # fmt: skip
        assert line in made


def test_only_the_kernel_that_needs_it_grows():
    first, second = module("s_nop 0", name="a"), module("v_floor_f32_e32 v0, v1", name="b")
    made = rewrite(first + second, "gfx942").text
    assert made.count(".amdhsa_next_free_vgpr 7") == 1
    assert made.index(".amdhsa_next_free_vgpr 7") < made.index(".amdhsa_next_free_vgpr 10")


def test_infinity_is_loaded_once_at_the_start():
    lines = ["v_max_f32_e32 v0, v1, v2", "v_max_f32_e32 v1, v1, v2"]
    found = after(*lines)
    assert found[0] == "s_mov_b32 s10, 0x7f800000"
    assert found[1:] == ["v_med3_f32 v0, v1, v2, s10", "v_med3_f32 v1, v1, v2, s10"]


@pytest.mark.parametrize(("vgprs", "sgprs", "kind"), [(256, 10, "vector"), (7, 101, "scalar")])
def test_too_few_registers_are_refused(vgprs, sgprs, kind):
    text = module("v_floor_f32_e32 v0, v1", vgprs=vgprs, sgprs=sgprs)
    with pytest.raises(RefusedError, match=f"kernel k: v_floor_f32_e32 .*{kind} registers"):
        rewrite(text, "gfx942")


# SCC, VCC and EXEC ---------------------------------------------------------------------------


def test_a_scalar_load_adds_no_register_to_a_constant():
    assert after("s_load_dword s0, s[2:3], s6 offset:0x0")[0].startswith(
        "s_load_dword s0, s[2:3], s6"
    )
    assert not after("s_load_dword s0, s[2:3], s6 offset:0x0")[0].split(";")[0].count("offset")
    add, load = after("s_load_dword s0, s[2:3], s6 offset:0x10")[:2]
    total = add.split()[1].rstrip(",")
    assert add.startswith(f"s_add_u32 {total}, s6, 0x10")
    assert load.startswith(f"s_load_dword s0, s[2:3], {total}")


def test_a_constant_below_zero_is_added_to_the_base():
    add, carry, load = after("s_load_dwordx2 s[0:1], s[2:3], -0x10")[:3]
    low, high = (line.split()[1].rstrip(",") for line in (add, carry))
    assert add.startswith(f"s_add_u32 {low}, s2, 0xfffffff0")
    assert carry.startswith(f"s_addc_u32 {high}, s3, -1")
    assert load.startswith(f"s_load_dwordx2 s[0:1], s[{low[1:]}:{high[1:]}], 0x0")
    load = after("s_load_dword s0, s[2:3], s6 offset:-0x10")[2]
    assert load.startswith(f"s_load_dword s0, s[{low[1:]}:{high[1:]}], s6")
    assert "offset" not in load


def test_scc_is_saved_only_where_somebody_reads_it():
    free = after(
        "s_mul_i32 s0, s1, s2", "s_cmp_eq_u32 s0, 0", "s_cbranch_scc1 .L", ".L:", arch="gfx803"
    )
    assert free[0] == "s_mul_i32 s0, s1, s2"
    kept = after(
        "s_cmp_eq_u32 s3, 0", "s_mul_i32 s0, s1, s2", "s_cbranch_scc1 .L", ".L:", arch="gfx803"
    )
    assert kept[1:4] == ["s_cselect_b32 s12, 1, 0", "s_mul_i32 s0, s1, s2", "s_cmp_lg_u32 s12, 0"]


def test_scc_is_followed_around_a_loop():
    lines = [".L:", "s_cbranch_scc1 .M", "s_mul_i32 s0, s1, s2", "s_branch .L", ".M:"]
    assert "s_cselect_b32 s12, 1, 0" in after(*lines, arch="gfx803")


def test_vcc_is_saved_around_a_comparison_that_goes_through_it():
    compare = "v_cmp_eq_f32_e64 s[0:1], v1, v2"
    free = after(compare, "v_cmp_gt_f32_e32 vcc, v1, v2", "s_cbranch_vccz .L", ".L:")
    assert free[:2] == ["v_cmp_eq_f32_e32 vcc, v1, v2", "s_mov_b64 s[0:1], vcc"]
    kept = after(compare, "v_cndmask_b32_e32 v0, v1, v2, vcc")
    assert kept[0] == "s_mov_b64 s[12:13], vcc"
    assert kept[3] == "s_mov_b64 vcc, s[12:13]"


def test_a_branch_out_of_the_kernel_keeps_everything_alive():
    kernel = AssemblyKernel(
        "k", 0, {1: instruction("s_nop 0"), 2: instruction("s_branch elsewhere")}
    )
    assert all(Flow(kernel, "gfx942").live_after(1, r) for r in ("scc", "vcc_lo", "vcc_hi"))


def test_halves_of_vcc_are_read_through_a_pair():
    assert after("s_mov_b32 s0, vcc_hi") == ["s_mov_b64 s[12:13], vcc", "s_mov_b32 s0, s13"]


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("s_cmp_eq_u32 vcc_hi, s3", "s_cmp_eq_u32 s13, s3"),
        ("s_cmp_eq_u32 s3, vcc_lo", "s_cmp_eq_u32 s3, s12"),
        ("s_cmpk_eq_u32 vcc_hi, 0x7", "s_cmp_eq_u32 s13, 0x7"),
        ("s_bitcmp1_b32 exec_hi, 3", "s_and_b32 s14, s13, 0x8"),
        ("v_readfirstlane_b32 s0, v1", "v_readfirstlane_b32 s0, v1"),
    ],
)
def test_a_half_is_read_through_a_pair_in_any_operand(line, used):
    assert used in after(line)
    assert "vcc_hi" not in "".join(after(line))


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("s_addk_i32 vcc_hi, 0x7", "s_add_i32 s13, s13, 0x7"),
        ("s_mov_b32 vcc_hi, s3", "s_mov_b32 s13, s3"),
        ("s_mov_b32 exec_lo, s3", "s_mov_b32 s12, s3"),
        ("v_readfirstlane_b32 vcc_lo, v3", "v_readfirstlane_b32 s12, v3"),
    ],
)
def test_a_half_that_is_written_goes_back_with_the_other(line, used):
    mask = "exec" if "exec" in line else "vcc"
    assert after(line) == [f"s_mov_b64 s[12:13], {mask}", used, f"s_mov_b64 {mask}, s[12:13]"]


def test_halves_of_vcc_live_and_die_apart():
    kernel = parse(module("s_nop 0", "s_mov_b32 vcc_lo, s0", "s_mov_b32 s1, vcc_hi").split("\n"))[0]
    flow, (nop, *_) = Flow(kernel, "gfx942"), sorted(kernel.items)
    assert flow.live_after(nop, "vcc_hi")
    assert not flow.live_after(nop, "vcc_lo")


def test_a_rule_does_not_overwrite_a_source_that_it_has_yet_to_read():
    """v_med3_u32 with its result in a source, and a rule that writes it too early."""
    apart = after("v_xnor_b32_e32 v0, v1, v2")
    assert after("v_xnor_b32_e32 v1, v1, v2") == [i.replace("v0", "v1") for i in apart]
    early = after("v_mov_b64_e32 v[2:3], v[1:2]")
    assert early == [
        "v_mov_b32_e32 v8, v1", "v_mov_b32_e32 v9, v2",
        "v_mov_b32_e32 v2, v8", "v_mov_b32_e32 v3, v9",
    ]  # fmt: skip


def test_loads_below_a_word_are_bytes():
    """The timing model has no other that is right."""
    assert after("global_load_ushort v0, v1, s[2:3] offset:4") == [
        "global_load_ubyte v8, v1, s[2:3] offset:4",
        "global_load_ubyte v9, v1, s[2:3] offset:5",
        "s_waitcnt vmcnt(0) lgkmcnt(0)",
        "v_lshlrev_b32_e32 v9, 8, v9",
        "v_or_b32_e32 v0, v8, v9",
    ]
    assert after("global_load_ubyte v0, v1, s[2:3]") == ["global_load_ubyte v0, v1, s[2:3]"]
    assert after("flat_load_sbyte v0, v[2:3]", arch="gfx803")[0] == "flat_load_ubyte v8, v[2:3]"


def test_a_median_of_a_value_and_two_numbers_stays():
    assert after("v_med3_f32 v0, v1, 0, 1.0") == ["v_med3_f32 v0, v1, 0, 1.0"]
    assert len(after("v_med3_f32 v0, v1, -1, 1.0")) > 1  # -1 is a NaN
    assert len(after("v_med3_f32 v0, v1, v2, v3")) > 1


def test_a_constant_that_is_a_nan_is_no_number():
    assert after("v_max_f32_e32 v0, 2.0, v1") == ["v_max3_f32 v0, 2.0, v1, v1"]
    assert "v_med3_f32" in " ".join(after("v_max_f32_e32 v0, -3, v1"))
    assert len(after("v_cmp_o_f32_e32 vcc, -1, v1")) > 2


# Roles -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
def test_every_instruction_of_the_tables_has_its_roles(arch):
    for name in native(model(arch)) | RULES[arch].keys():
        assert roles.forms(name, arch), name


@census("line, reads, writes", [
        ("s_addc_u32 s0, s1, 5", {"s1", "scc"}, {"s0", "scc"}),
        ("s_cselect_b64 vcc, s[2:3], -1", {"s2", "s3", "scc"}, {"vcc_lo", "vcc_hi"}),
        ("s_addk_i32 s0, 0x7", {"s0"}, {"s0", "scc"}),
        ("s_cmpk_eq_u32 vcc_hi, 0x7", {"vcc_hi"}, {"scc"}),
        ("s_and_saveexec_b64 s[0:1], vcc", {"vcc_lo", "vcc_hi", *EXEC},
         {"s0", "s1", "scc", *EXEC}),
        ("v_addc_co_u32_e32 v0, vcc, -1, v2, vcc", {"v2", "vcc_lo", "vcc_hi", *EXEC},
         {"v0", "vcc_lo", "vcc_hi"}),
        ("v_fmac_f32_e32 v0, v1, v2", {"v0", "v1", "v2", *EXEC}, {"v0"}),
        ("v_sub_f32_e64 v0, -|v1|, s2", {"v1", "s2", *EXEC}, {"v0"}),
        ("v_div_fmas_f32 v0, v1, v2, v3", {"v1", "v2", "v3", "vcc_lo", "vcc_hi", *EXEC}, {"v0"}),
        ("global_atomic_add v0, v1, s[2:3]", {"v0", "v1", "s2", "s3", *EXEC}, set()),
        ("global_atomic_add v5, v0, v1, s[2:3] sc0", {"v0", "v1", "s2", "s3", *EXEC}, {"v5"}),
        ("ds_read2_b32 v[0:1], v2 offset0:3", {"v2", *EXEC}, {"v0", "v1"}),
        ("s_waitcnt vmcnt(0)", set(), set()),
        ("s_waitcnt vmcnt(0) lgkmcnt(0)", set(), set()),
        ("s_barrier", set(), set()),
        ("s_cbranch_vccz .L", {"vcc_lo", "vcc_hi"}, set()),
    ])  # fmt: skip
def test_roles_say_what_is_read_and_written(line, reads, writes):
    found = roles.effect(instruction(line), "gfx942")
    assert (found.reads, found.writes) == (reads, writes)


def test_carries_and_limits_are_roles_of_their_architecture():
    add = instruction("v_add_u32_e32 v0, vcc, v1, v2")
    assert roles.effect(add, "gfx803").writes == {"v0", "vcc_lo", "vcc_hi"}
    assert roles.roles_of(add, "gfx942") is None
    with pytest.raises(NoRuleError, match="the form with 4 operands"):
        after("v_add_u32_e32 v0, vcc, v1, v2")
    assert "m0" in roles.effect(instruction("ds_read_b32 v0, v1"), "gfx803").reads
    assert "m0" not in roles.effect(instruction("ds_read_b32 v0, v1"), "gfx942").reads


# Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "v_mfma_f32_4x4x1f32 a[0:3], v0, v1, a[0:3]",
        "scratch_load_dword v0, off, s0",
        "ds_inc_u64 v0, v[2:3]",
        "v_div_scale_f64 v[0:1], vcc, v[2:3], v[2:3], v[4:5]",
        "ds_swizzle_b32 v0, v1 offset:0x8055",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3",
        "v_pk_mul_lo_u16 v0, v1, 3",
        "v_sub_co_u32_e64 v0, vcc, v1, v2 clamp",
        "v_pk_mul_f32 v[0:1], v[2:3], 2.0",
        "v_unheard_of_f32 v0, v1",
    ],
)
def test_what_has_no_rule_is_refused_with_instruction_kernel_and_cure(line):
    with pytest.raises(RefusedError) as caught:
        rewrite(module(line), "gfx942")
    message = str(caught.value)
    assert message.startswith(f"kernel k: {line.split()[0]} (gfx942): ")
    assert "; " in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("kernel.hip:42:7", 42),
        ("prelude.h:3:5 @[ kernel.hip:42:7 @[ kernel.hip:50:1 ] ]", 42),  # inlined twice
        ("prelude.h:3:5", 0),
    ],
)
def test_the_source_line_is_told_where_the_compiler_tells_it(place, line):
    text = module(f".loc\t1 3 5                          ; {place}", "ds_inc_u64 v0, v[2:3]")
    with pytest.raises(NoRuleError) as caught:
        rewrite(text, "gfx942")
    assert caught.value.item.source_line == line


def test_unknown_simulators_and_architectures_are_refused():
    with pytest.raises(UsageError, match="did you mean 'mgpusim'"):
        legalise.rewrite("", Model("mgpsim", "4.2.0", "gfx942"))
    with pytest.raises(UsageError, match=r"mgpusim '4\.1\.0': no such version; .*'4.2.0'"):
        legalise.rewrite("", Model("mgpusim", "4.1.0", "gfx942"))
    with pytest.raises(UsageError, match="did you mean 'gfx942'"):
        rewrite("", "gfx940")


# The tables ----------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
def test_the_data_file_holds_what_the_simulator_is_known_to_implement(arch):
    table = implemented(model(arch))
    assert table["VOP1"][1] == "v_mov_b32_e32"
    assert 10 in table["SOPP"]  # s_barrier, outside of the emulator's switch
    assert 31 not in table["VOP1"]  # v_floor_f32
    assert (459 in table["VOP3a"]) == (arch == "gfx942")  # v_fma_f32
    assert (255 in table["DS"]) == (arch == "gfx942")  # ds_read_b128


def test_machine_code_is_checked_against_the_data_file():
    words = [0x7E000301, 0x7E003F01, 0xD100000A, 0x00000000, 0x7E0002FF, 0x12345678, 0xBF810000]
    code = b"".join(word.to_bytes(4, "little") for word in words)
    assert [(name, opcode) for _, name, opcode in instructions(code)] == [
        ("VOP1", 1), ("VOP1", 31), ("VOP3a", 256), ("VOP1", 1), ("SOPP", 1),
    ]  # fmt: skip
    assert unimplemented(code, model("gfx942")) == [Unimplemented(1, "VOP1", 31)]


def test_extraction_reads_a_decoder_and_an_emulator(tmp_path):
    functions = "".join(
        f"func (u *ALU) {function}(state InstEmuState) {{\n\tswitch inst.Opcode {{\n"
        "\tcase 0x10, 2 + 1: // both\n\t\tu.run(state)\n\tcase 99:\n\t\tu.other(state)\n"
        "\tdefault:\n\t\tlog.Panicf()\n\t}\n}\n\n"
        for function in extract.RUNNERS.values()
    )
    for folder in extract.EMULATORS.values():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "alu.go").write_text(functions)
    decoder = tmp_path / extract.DECODER
    decoder.parent.mkdir(parents=True)
    decoder.write_text(
        "".join(
            f'd.addInstType(&InstType{{"name{n}", {n}, FormatTable[{f}], 0}})\n'
            for f in extract.RUNNERS
            for n in ("0x10", "1 + 2", "7")
        )
    )
    found = extract.extract(tmp_path, "9.9")["architectures"]["gfx803"]
    assert set(found["native"]) == native(model("gfx803"))
    assert found["opcodes"]["VOP1"] == {3: "name1 + 2", 16: "name0x10"}
    assert extract.main([str(tmp_path / "nowhere"), "1"]) == DamagedError.exit_code


def test_the_data_file_travels_with_simgen():
    assert (resources.folder("data") / "isa" / "mgpusim-4.2.0.json").is_file()


@pytest.mark.parametrize("arch", ARCHS)
def test_the_tables_name_instructions_in_full(arch):
    for name in native(model(arch)) | RULES[arch].keys():
        assert name[:2] in ("v_", "s_", "ds", "fl", "gl", "bu"), name
        assert "*" not in name
        assert not name.endswith(".")


# Parsing -------------------------------------------------------------------------------------


def test_an_instruction_is_taken_apart_and_put_together_again():
    for code in (
        "v_add_f32_e64 v0, -|v1|, s2 clamp mul:2",
        "global_load_dwordx4 v[0:3], v4, s[2:3] offset:16",
        "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel_hi:[1,0,1] neg_lo:[0,0,1]",
        "s_waitcnt vmcnt(0) lgkmcnt(0)",
        "ds_read2_b32 v[0:1], v2 offset0:3 offset1:4",
        "s_endpgm",
    ):
        assert str(instruction(code)) == code
    found = instruction("v_pk_mul_f32 v[0:1], v[2:3], 2.0 op_sel_hi:[1,0]")
    assert found.operands == ("v[0:1]", "v[2:3]", "2.0")
    assert found.modifier("op_sel_hi") == "[1,0]"


def test_registers_of_an_operand():
    assert registers("v[2:4]") == ("v2", "v3", "v4")
    assert registers("vcc") == ("vcc_lo", "vcc_hi")
    assert registers("s7") == ("s7",)
    assert registers("1.0") == ()


# What is right in emulation only, lanes and LDS ----------------------------------------------

GROUP = """\t.amdhsa_group_segment_fixed_size 1028
\t.amdhsa_system_vgpr_workitem_id {}
\t.end_amdhsa_kernel"""
SIZES = "    .group_segment_fixed_size: 1028\n    .max_flat_workgroup_size: {}\n"


def sized(text: str, items: int = 256, dimensions: int = 1) -> str:
    """The module with LDS of its own and a largest work-group."""
    text = text.replace("\t.end_amdhsa_kernel", GROUP.format(dimensions - 1))
    return text.replace("    .name: ", f"{SIZES.format(items)}    .name: ")


def test_atomics_and_narrow_stores_say_that_they_cannot_be_timed():
    made = rewrite(module("global_atomic_add v0, v1, s[2:3]", "v_add_f32_e32 v0, v1, v2"), "gfx942")
    assert list(made.emulated) == ["global_atomic_add"]
    assert "right in emulation only" in made.emulated["global_atomic_add"]
    assert (
        "--mode emu"
        in rewrite(module("flat_store_byte v[0:1], v2"), "gfx803").emulated["flat_store_byte"]
    )
    assert rewrite(module("v_add_f32_e32 v0, v1, v2"), "gfx942").emulated == {}


@pytest.mark.parametrize(("items", "timed"), [(64, True), (65, False), (256, False)])
def test_one_wavefront_may_be_timed_in_its_own_lds(items, timed):
    made = rewrite(sized(module("ds_add_u32 v0, v1"), items), "gfx942")
    assert (made.emulated == {}) == timed


@pytest.mark.parametrize(("items", "nbytes"), [(64, 1040 + 256), (65, 1040 + 512), (256, 2064)])
def test_exchanges_get_a_word_of_lds_for_each_work_item(items, nbytes):
    made = rewrite(sized(module("ds_bpermute_b32 v0, v1, v2"), items), "gfx942").text
    assert f".amdhsa_group_segment_fixed_size {nbytes}\n" in made
    assert f".group_segment_fixed_size: {nbytes}\n" in made
    assert "offset:1040" in made


def test_lds_of_a_launch_ends_with_a_word():
    """Rules read the word around a byte."""
    text = f"{sized(module('v_mov_b32_e32 v0, v1'))}\n\t.set k.{DYNAMIC_LDS}, 449\n"
    made = rewrite(text, "gfx942").text
    assert f".amdhsa_group_segment_fixed_size {1480 - 449}\n" in made


def test_exchanges_are_refused_where_work_items_have_more_dimensions_or_lds_is_full():
    text = module("ds_bpermute_b32 v0, v1, v2")
    with pytest.raises(NoRuleError, match="of one dimension"):
        rewrite(sized(text, dimensions=2), "gfx942")
    with pytest.raises(NoRuleError, match="more LDS than there is"):
        rewrite(sized(text).replace("fixed_size 1028", "fixed_size 65536"), "gfx942")


def test_only_fused_steps_that_cancel_are_computed_in_64_bits():
    def wide(*lines: str) -> bool:
        return "v_mul_f64" in rewrite(module(*lines), "gfx942").text

    assert wide("v_mul_f32_e32 v3, v1, v2", "v_fma_f32 v4, v1, v2, -v3")
    assert wide("v_fma_f32 v4, -v1, v1, v2")
    assert wide("v_add_u32_e32 v3, -1, v1", "v_fma_f32 v4, -v3, v1, v2")
    assert not wide("v_fma_f32 v4, v1, v2, v3")
    assert not wide("v_fma_f32 v4, -v1, v2, v3")
    assert not wide("v_mul_f32_e32 v3, v1, v2", ".L:", "v_fma_f32 v4, v1, v2, -v3")

    # Of a source whose own products and sums became one instruction, they may look the same.
    def own(*lines: str) -> bool:
        text = f"{module(*lines)}\n\t.set k.{CONTRACTED}, 1\n"
        return rewrite(text, "gfx942").text.count("v_cvt_f32_f64") > 0

    assert own("v_mul_f32_e32 v3, v1, v2", "v_fma_f32 v4, v1, v2, -v3")
    assert own("v_mul_f32_e32 v3, 0x3fb8aa3b, v1", "v_fma_f32 v4, v1, s0, -v3")
    assert own("v_add_u32_e32 v3, -1, v1", "v_fma_f32 v4, -v3, v1, v2")
    assert own("v_fma_f32 v1, v1, v3, v1", "v_fma_f32 v4, -v1, v1, v2")
    assert own("v_fmac_f32_e32 v1, v1, v3", "v_fma_f32 v4, -v1, v1, v2", "v_fma_f32 v5, v4, v3, v1")
    assert not own("v_fma_f32 v4, -v1, v1, v2"), "c - y * y"
    assert not own("v_fma_f32 v4, -v1, v1, v2", "v_fma_f32 v5, v4, v3, v2"), "(c - y * y) * a + b"
    assert not own("v_mul_f32_e32 v3, v1, v2", "v_fma_f32 v4, v1, v5, -v3"), "a * c - a * b"
