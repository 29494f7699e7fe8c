"""Private memory that becomes ordinary memory: the text, and what is refused."""

from __future__ import annotations

import re

import pytest

from simgen.errors import RefusedError
from simgen.isa.legalise import private_memory

KERNEL = """\
\t.type\tk,@function
k:
{lines}
\ts_endpgm
\t.amdhsa_kernel k
\t\t.amdhsa_private_segment_fixed_size {nbytes}
\t\t.amdhsa_kernarg_size 28
\t\t.amdhsa_user_sgpr_dispatch_ptr 1
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr {arguments}
\t\t.amdhsa_next_free_vgpr 11
\t\t.amdhsa_next_free_sgpr 21
\t.end_amdhsa_kernel
\t.size\tk, .Lend-k
\t.set k.num_vgpr, 11
\t.set k.numbered_sgpr, 21
"""
PROLOGUE = 16


def made(*lines: str, nbytes: int = 36, arguments: int = 1, arch: str = "gfx902") -> list[str]:
    text = KERNEL.format(
        lines="\n".join(f"\t{each}" for each in lines), nbytes=nbytes, arguments=arguments
    )
    return private_memory.rewrite(text, arch).text.split("\n")


def body(*lines: str, **more: object) -> list[str]:
    """What stands for instructions, behind the prologue."""
    text = made(*lines, **more)  # type: ignore[arg-type]
    start, end = text.index("k:"), text.index("\ts_endpgm")
    return [each.partition(";")[0].strip() for each in text[start + 1 + PROLOGUE : end]]


def test_accesses():
    assert body("scratch_load_dword v1, v2, off offset:4") == [
        "v_add_u32_e32 v12, v2, v11", "global_load_dword v1, v12, s[22:23] offset:4"]  # fmt: skip
    assert body("scratch_store_dwordx2 off, v[4:5], s3 offset:-8 glc") == [
        "v_add_u32_e32 v12, s3, v11", "global_store_dwordx2 v12, v[4:5], s[22:23] offset:-8 glc",
    ]  # fmt: skip
    assert body("scratch_load_ubyte_d16_hi v1, off, off") == [
        "global_load_ubyte_d16_hi v1, v11, s[22:23]"
    ]
    assert body("scratch_store_byte v2, v1, s3") == [
        "v_add_u32_e32 v12, v2, v11", "v_add_u32_e32 v12, s3, v12",
        "global_store_byte v12, v1, s[22:23]",
    ]  # fmt: skip


def test_what_is_set_up_for_scratch_goes():
    found = body("s_add_u32 flat_scratch_lo, s2, s5", "s_addc_u32 flat_scratch_hi, s3, 0",
                 "v_mov_b32_e32 v1, 0")  # fmt: skip
    assert [each for each in found if each] == ["v_mov_b32_e32 v1, 0"]


def test_where_the_memory_of_a_lane_is():
    """A wavefront's number is counted behind the arguments; each lane has whole grains."""
    text = made("scratch_load_dword v1, v2, off", nbytes=36)
    start = [each.strip() for each in text[text.index("k:") + 1 :][:PROLOGUE]]
    assert start[0] == "s_load_dwordx2 s[22:23], s[2:3], 0x20"
    (count,) = (each for each in start if "atomic" in each)
    assert re.fullmatch(r"global_atomic_add v12, v11, v12, s\[2:3\] offset:40 glc", count)
    assert "s_mul_i32 s26, s26, 0xc00" in start  # 64 lanes of 48 bytes
    assert "s_mov_b32 s27, 0x30" in start
    assert start[-1] == "s_mov_b64 exec, s[24:25]"
    assert "\t\t.amdhsa_private_segment_fixed_size 0" in text
    assert "\t\t.amdhsa_kernarg_size 48" in text
    assert "\t\t.amdhsa_next_free_vgpr 13" in text
    assert "\t\t.amdhsa_next_free_sgpr 28" in text
    assert any("sc0" in each for each in made("s_nop 0", arch="gfx942"))


def test_kernels_without_it_stay():
    text = KERNEL.format(lines="\tv_mov_b32_e32 v1, 0", nbytes=0, arguments=1)
    found = private_memory.rewrite(text, "gfx902")
    assert (found.text, found.added, found.instructions) == (text, 0, 2)


@pytest.mark.parametrize(
    ("line", "fact", "more"),
    [
        ("s_mov_b64 s[4:5], src_private_base", "passes a pointer to private memory on", {}),
        ("s_mov_b32 s4, flat_scratch_lo", "reads flat_scratch", {}),
        ("scratch_atomic_add v1, v2, off", "has scratch_atomic_add", {}),
        ("s_nop 0", "takes no arguments", {"arguments": 0}),
    ],
)
def test_what_is_refused(line: str, fact: str, more: dict[str, int]):
    with pytest.raises(RefusedError, match=f"kernel k: it {fact}.*; index local arrays by const"):
        made(line, **more)


def test_too_few_registers():
    text = KERNEL.format(lines="\ts_nop 0", nbytes=8, arguments=1).replace(
        "num_vgpr, 11", "num_vgpr, 255"
    )
    with pytest.raises(RefusedError, match="no register left"):
        private_memory.rewrite(text, "gfx902")
