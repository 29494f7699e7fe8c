"""legalise as a command: somebody's code object becomes one that a simulator executes right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from simgen.cli import main
from simgen.errors import RefusedError
from simgen.isa import code_object, toolchain
from simgen.isa.lint import containers, functions, linting, metadata, rewriting
from simgen.isa.lint.elf import opened

# As somebody writes it by hand: with no size of the function.
HEAD = """\
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.globl k
.p2align 8
.type k,@function
k:
"""
TAIL = """
s_endpgm
.rodata
.p2align 6
.amdhsa_kernel k
 .amdhsa_user_sgpr_kernarg_segment_ptr 1
 .amdhsa_group_segment_fixed_size {lds}
 .amdhsa_next_free_vgpr 8
 .amdhsa_next_free_sgpr 16
{accum}
.end_amdhsa_kernel
.amdgpu_metadata
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 22
    .vgpr_count: 8
    .max_flat_workgroup_size: 64
    .args:
      - .offset: 0
        .size: {nbytes}
        .value_kind: {kind}
amdhsa.version: [1, 2]
.end_amdgpu_metadata
"""


def text(
    *lines: str, arch: str = "gfx942", lds: int = 0, kind: str = "global_buffer", nbytes: int = 8
) -> str:
    accum = " .amdhsa_accum_offset 8" if arch in ("gfx90a", "gfx942") else ""
    tail = TAIL.format(accum=accum, lds=lds, kind=kind, nbytes=nbytes)
    return HEAD.format(arch=arch) + "\n".join(lines) + tail


def elf(*lines: str, arch: str = "gfx942", **of: Any) -> bytes:
    return toolchain.assemble_foreign(text(*lines, arch=arch, **of), arch, "k.s")


@pytest.mark.parametrize(
    ("arch", "simulator", "version", "line"),
    [
        ("gfx942", "mgpusim", "4.2.0", "v_bfi_b32 v0, v1, v2, v7"),
        ("gfx803", "mgpusim", "4.2.0", "v_floor_f32_e32 v0, v1"),
        ("gfx902", "gem5", "24.0", "ds_read_b96 v[4:6], v0"),
        ("gfx902", "gem5", "24.0", "v_add_u16_e32 v0, v1, v2"),
    ],
)
def test_what_has_a_rule_is_replaced(tmp_path, arch, simulator, version, line):
    before = elf("v_cmp_gt_u32_e32 vcc, v0, v1", "s_cbranch_vccz .Lend", line, ".Lend:", arch=arch)
    after, made = rewriting.rewritten(before, "k", simulator, version)
    judged = [
        [f.instruction for (each,) in [tuple(linting.code_objects(
            [containers.Held(tmp_path, "", code)], simulator, version))]
         for f in each.findings if f.refused]
        for code in (before, after)
    ]  # fmt: skip
    assert judged == [[line.split()[0]], []]
    old, new = code_object.kernels(before)["k"], code_object.kernels(after)["k"]
    assert (new.kernarg_nbytes, new.scratch_nbytes) == (old.kernarg_nbytes, old.scratch_nbytes)
    used = 1 + max(
        int(n) for kind, n, _ in rewriting._REGISTER.findall(made.text) if kind == "v" and n
    )
    assert new.vgprs >= used
    with opened(after, "after") as file:
        told = rewriting.metadata_of(file)["amdhsa.kernels"][0]
    assert (told[".name"], told[".kernarg_segment_size"]) == ("k", 16)


GEM5 = (
    "v_add_f32_e64 v4, v0, v1 clamp", "v_fma_f32 v4, v0, -v1, |v2| clamp mul:2",
    "v_cmp_lt_f32_e64 s[0:1], |v0|, -s4", "v_cndmask_b32_e64 v4, -v0, |v1|, s[0:1]",
    "v_ffbh_u32_e32 v4, v0", "ds_write_b8_d16_hi v0, v1 offset:3",
    "s_load_dword s4, s[2:3], -0x40", "s_load_dwordx4 s[4:7], s[2:3], s8 offset:0x40",
)  # fmt: skip


@pytest.mark.parametrize("version", ["24.0", "24.1", "25.1"])
def test_what_gem5_ignores_is_replaced(tmp_path, version):
    before = elf(*GEM5, arch="gfx902")

    def refused(code: bytes) -> list[str]:
        held = [containers.Held(tmp_path, "", code)]
        (looked,) = linting.code_objects(held, "gem5", version)
        return [(f.instruction, f.cure) for f in looked.findings if f.refused]

    found = refused(before)
    # 25.1 reads the signs of v_cmp of f32.
    assert len(found) == len(GEM5) - (version == "25.1")
    assert {cure for _, cure in found} == {"simgen legalise replaces it"}
    after, made = rewriting.rewritten(before, "k", "gem5", version)
    assert refused(after) == []
    assert sum(made.replaced.values()) == len(found)
    assert made.added > len(found)


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("s_getpc_b64 s[0:1]", "cannot be moved"),
        ("v_mfma_f32_32x32x1_2b_f32 v[0:31], v32, v33, v[0:31]", "cannot be written as text"),
        ("v_qsad_pk_u16_u8 v[0:1], v[2:3], v4, v[6:7]", "k"),
    ],
)
def test_what_has_none_is_refused(line, fact):
    with pytest.raises(RefusedError, match=fact):
        rewriting.rewritten(elf(line), "k", "mgpusim", "4.2.0")


def test_the_command_writes_all_or_nothing(tmp_path, capsys, monkeypatch):
    source, out = tmp_path / "k.s", tmp_path / "k.co"

    def run() -> tuple[int, str]:
        words = ["legalise", str(source), "--simulator", "mgpusim", "-o", str(out)]
        monkeypatch.setattr("sys.argv", ["simgen", *words])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return ended.value.code, capsys.readouterr().err

    source.write_text(text("s_getpc_b64 s[0:1]"))
    code, message = run()
    assert (code, message.count("\n"), out.exists()) == (4, 1, False)
    source.write_text(text("v_floor_f32_e32 v0, v1"))
    assert run() == (0, "")
    assert [each.name for each in functions.functions_of(out.read_bytes(), "")[1]] == ["k"]
    before = out.read_bytes()
    code, message = run()
    assert (code, out.read_bytes()) == (2, before)
    assert f"-o {out}: it is there already" in message
    out.unlink()
    source.write_text(text("v_flor_f32 v0, v1"))
    code, message = run()
    assert code == 2
    assert "k.s:6: invalid instruction" in message
    assert not Path(out).exists()


def test_metadata_is_read_as_it_was_packed():
    value = {"a": [1, -5, 300, 70000, True, None, "x" * 40], "b": {"c": 2**40}}
    packed = (
        b"\x82\xa1a\x97\x01\xfb\xcd\x01\x2c\xce\x00\x01\x11\x70\xc3\xc0\xd9\x28" + b"x" * 40
        + b"\xa1b\x81\xa1c\xcf" + (2**40).to_bytes(8, "big")
    )  # fmt: skip
    assert metadata.unpacked(packed) == value
    for length in range(len(packed)):
        with pytest.raises(ValueError, match="metadata"):
            metadata.unpacked(packed[:length])


def test_constants_whose_sign_is_turned():
    """A minus before a number would be another constant; what stands for a product has such."""
    before = elf("v_fma_f64 v[0:1], v[2:3], neg(1.0), neg(0)", "v_mul_f64 v[0:1], v[2:3], v[2:3]",
                 arch="gfx902")  # fmt: skip
    once, made = rewriting.rewritten(before, "k", "gem5", "24.1")
    assert made.replaced == {"v_mul_f64": 1}
    again, made = rewriting.rewritten(once, "k", "gem5", "24.1")
    assert not made.replaced
    codes = [functions.functions_of(each, "k")[1][0].code for each in (once, again)]
    assert codes[0] == codes[1]


ASKED = re.compile(r"ds_\w+ .*offset:(\d+)")


@pytest.mark.parametrize("asked", [None, 0, 1000])
def test_what_rules_take_of_lds_lies_behind_what_launches_ask_for(asked):
    """A kernel that may have dynamic LDS, which begins where its own 128 bytes end."""
    lines = ("ds_read_b32 v1, v0 offset:64", "ds_bpermute_b32 v2, v0, v1")
    before = elf(*lines, lds=128)
    if asked is None:
        with pytest.raises(RefusedError, match=r"^k: kernel k: .*say with --dynamic-lds BYTES"):
            rewriting.rewritten(before, "k", "mgpusim", "4.2.0")
        # Alone, exchanges of lanes access no LDS.
        rewriting.rewritten(elf(lines[1], lds=128), "k", "mgpusim", "4.2.0")
        return
    after, made = rewriting.rewritten(before, "k", "mgpusim", "4.2.0", asked)
    first, *others = {int(at) for at in ASKED.findall(made.text)} - {64}
    begin = -(-(128 + asked) // 16) * 16
    assert (first, others) == (begin, [])
    assert code_object.kernels(after)["k"].lds_nbytes + asked >= begin + 4 * 64


def test_local_arguments_lie_behind_what_rules_take():
    """Launchers of OpenCL put them where the kernel's LDS ends, and ask for no other."""
    lines = ("ds_read_b32 v1, v0 offset:128", "ds_bpermute_b32 v2, v0, v1")
    before = elf(*lines, lds=128, kind="dynamic_shared_pointer", nbytes=4)
    after, _ = rewriting.rewritten(before, "k", "mgpusim", "4.2.0")
    assert code_object.kernels(after)["k"].lds_nbytes >= 128 + 4 * 64
