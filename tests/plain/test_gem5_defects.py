"""Assembly text for gem5: what its model gets wrong is written in another way."""

from __future__ import annotations

import pytest

from simgen.errors import RefusedError
from simgen.isa.legalise import Model, rewrite

FRAME = """\
\t.type\tk,@function
k:                                      ; @k
; %bb.0:
{}
\ts_endpgm
\t.section\t.rodata
\t.amdhsa_kernel k
\t\t.amdhsa_next_free_vgpr 40
\t.end_amdhsa_kernel
"""


def rewritten(
    *lines: str, b128: bool = True, arch: str = "gfx902", version: str = "24.0"
) -> list[str]:
    model = Model("gem5", version if b128 else "21.2", arch)
    text = rewrite(FRAME.format("\n".join(f"\t{line}" for line in lines)), model).text
    inside = text.split("; %bb.0:\n")[1].split("\ts_endpgm")[0]
    return [line.strip() for line in inside.splitlines()]


@pytest.mark.parametrize(
    "mnemonic",
    ["v_lshrrev_b16_e32", "v_mul_lo_u16_e32", "v_sub_u16_e32", "v_add_u16_e64", "v_mad_u16"],
)
def test_the_upper_half_of_a_16_bit_result_is_cleared(mnemonic):
    line = f"{mnemonic} v7, 3, v2"
    assert rewritten(line) == [line, "v_and_b32_e32 v7, 0xffff, v7"]


@pytest.mark.parametrize(
    "line",
    ["v_cmp_gt_u16_e32 vcc, 3, v2", "v_lshrrev_b32_e32 v7, 3, v2", "v_cvt_f16_f32_e32 v7, v2"],
)
def test_other_instructions_stay(line):
    assert rewritten(line) == [line]


def test_a_scalar_load_with_a_register_has_no_constant():
    load = "s_load_dword s0, s[12:13], s6"
    assert rewritten(f"{load} offset:0x0") == [load]
    for line in (load, "s_load_dword s0, s[12:13], 0x20", "s_load_dwordx4 s[0:3], s[4:5], 0x0"):
        assert rewritten(line) == [line]
    assert rewritten(f"{load} offset:0x10") == [
        f"s_add_u32 s2, s12, 0x10  ; for {load} offset:0x10",
        "s_addc_u32 s3, s13, 0",
        "s_load_dword s0, s[2:3], s6",
    ]
    with pytest.raises(RefusedError, match=r"kernel k: s_load_dword .* gem5 leaves out"):
        rewritten(f"{load} offset:0x10", version="develop")  # whose sources nobody has read


@pytest.mark.parametrize(
    ("operands", "wanted"),
    [
        ("s1, s2, s3", ["s_lshl_b32 s1, s2, 2", "s_add_u32 s1, s1, s3"]),
        ("s1, s1, s3", ["s_lshl_b32 s1, s1, 2", "s_add_u32 s1, s1, s3"]),
        ("s1, s2, s1", ["s_add_u32 s1, s1, s2"] * 4),
        ("s1, s1, s1", ["s_mul_i32 s1, s1, 5"]),
    ],
)
def test_a_shift_and_an_addition_are_two_instructions(operands, wanted):
    assert rewritten(f"s_lshl2_add_u32 {operands}") == wanted


def test_what_a_version_lacks_is_refused():
    with pytest.raises(RefusedError, match=r"kernel k: ds_append \(gfx902\): gem5 24\.0 ends"):
        rewritten("ds_append v1")


def test_three_words_of_lds_become_two_and_one():
    assert rewritten("ds_read_b96 v[4:6], v9 offset:16") == [
        "ds_read_b64 v[4:5], v9 offset:16",
        "ds_read_b32 v6, v9 offset:24",
    ]
    assert rewritten("ds_write_b96 v9, v[4:6]") == [
        "ds_write_b64 v9, v[4:5]",
        "ds_write_b32 v9, v6 offset:8",
    ]


def test_four_words_become_two_and_two_where_gem5_does_not_read_four():
    line = "ds_read_b128 v[4:7], v9 offset:16"
    assert rewritten(line) == [line]
    assert rewritten(line, b128=False) == [
        "ds_read_b64 v[4:5], v9 offset:16",
        "ds_read_b64 v[6:7], v9 offset:24",
    ]
    assert rewritten("ds_read_b128 v[4:7], v5", b128=False) == [
        "ds_read_b64 v[6:7], v5 offset:8",
        "ds_read_b64 v[4:5], v5",
    ]
    assert rewritten("ds_write_b128 v9, v[4:7]", b128=False) == [
        "ds_write_b64 v9, v[4:5]",
        "ds_write_b64 v9, v[6:7] offset:8",
    ]


@pytest.mark.parametrize(("address", "first"), [("v4", "b32"), ("v5", "b32"), ("v6", "b64")])
def test_a_load_s_address_is_not_overwritten_before_its_last_use(address, first):
    lines = rewritten(f"ds_read_b96 v[4:6], {address}")
    assert lines[0].startswith(f"ds_read_{first} ")
    assert all(address in line for line in lines)


def test_waits_do_not_count_what_became_two_operations():
    wait = "s_waitcnt vmcnt(1) lgkmcnt(4)"
    assert rewritten(wait) == [wait]
    assert rewritten("ds_read_b96 v[4:6], v9", wait)[-1] == "s_waitcnt vmcnt(1) lgkmcnt(0)"


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_packed_floats_with_a_constant_or_a_sign_become_two(arch):
    plain = "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[0:1] op_sel_hi:[1,0,1]"
    assert rewritten(plain, arch=arch) == [plain]
    assert rewritten("v_pk_fma_f32 v[0:1], v[0:1], 0.5, v[30:31] op_sel_hi:[1,0,1]", arch=arch) == [
        "v_fma_f32 v0, v0, 0.5, v30",
        "v_fma_f32 v1, v1, 0.5, v31",
    ]
    assert rewritten(
        "v_pk_add_f32 v[0:1], v[2:3], s[4:5] neg_lo:[0,1] neg_hi:[0,1]", arch=arch
    ) == [
        "v_add_f32_e64 v0, v2, -s4",
        "v_add_f32_e64 v1, v3, -s5",
    ]
    backwards = "v_pk_mul_f32 v[0:1], v[0:1], 2.0 op_sel:[0,0] op_sel_hi:[0,0]"
    assert rewritten(backwards, arch=arch) == [
        "v_mul_f32_e64 v1, v0, 2.0",
        "v_mul_f32_e64 v0, v0, 2.0",
    ]
    crossed = "v_pk_mul_f32 v[0:1], v[0:1], 2.0 op_sel:[1,0] op_sel_hi:[0,0]"
    first, second, third = rewritten(crossed, arch=arch)
    free = first.split()[1].rstrip(",")
    assert first == f"v_mul_f32_e64 {free}, v1, 2.0"
    assert second == "v_mul_f32_e64 v1, v0, 2.0"
    assert third == f"v_mov_b32_e32 v0, {free}"
    assert free not in ("v0", "v1")


# What clang of ziglang 0.17 reserves for lenet5_i8's second convolution on gfx90a, of which it has
# 168 and no accumulation register; and a kernel that has more than gem5 has.
@pytest.mark.parametrize(
    ("reserved", "offset", "accumulated", "left"),
    [(257, 168, 0, 168), (257, 168, 60, 228), (300, 200, 100, 300), (256, 168, 0, 256)],
)
def test_registers_that_a_kernel_has_not_are_not_reserved(reserved, offset, accumulated, left):
    text = FRAME.format("").replace("next_free_vgpr 40", f"next_free_vgpr {reserved}")
    text = text.replace("\t.end_amd", f"\t\t.amdhsa_accum_offset {offset}\n\t.end_amd")
    text += f"\t.set k.num_vgpr, 168\n\t.set k.num_agpr, {accumulated}\n"
    made = rewrite(text, Model("gem5", "24.0", "gfx90a")).text
    assert f".amdhsa_next_free_vgpr {left}\n" in made
    assert made.replace(f"next_free_vgpr {left}", f"next_free_vgpr {reserved}") == text
