"""Memory instructions that a wavefront may come to with no active lane: for gem5, a branch, or all
lanes for a while."""

from __future__ import annotations

import pytest
from test_gem5_defects import FRAME, rewritten

from simgen.isa.legalise import Model, names, rewrite

SAVE = "s_and_saveexec_b64 s[0:1], vcc"
WRITE = "ds_write_b32 v0, v1"
RESTORE = "s_or_b64 exec, exec, s[0:1]"
ELSE = ["s_or_saveexec_b64 s[2:3], s[0:1]", "s_xor_b64 exec, exec, s[2:3]"]
LOAD = "global_load_dword v1, v0, s[4:5]"


def branched(*lines: str, arch: str = "gfx902") -> list[str]:
    """Instructions behind branches that were put there, with those they jump over."""
    made = rewritten(*lines, arch=arch)
    assert [x for x in made if "no_lane" not in x] == [x for x in lines if x]
    jumps = [at for at, line in enumerate(made) if line.startswith("s_cbranch_execz .Lno_lane")]
    found = []
    for at in jumps:
        end = made.index(f"{made[at].split()[1]}:")
        found += made[at + 1 : end]
    return found


@pytest.mark.parametrize(
    "memory", [WRITE, LOAD, "ds_read_b32 v1, v0", "flat_load_dword v1, v[2:3]"]
)
def test_memory_in_a_condition_is_branched_around(memory):
    assert branched(SAVE, "v_add_u32_e32 v0, v1, v2", memory, RESTORE, memory) == [memory]


def test_a_branch_that_is_there_is_enough():
    assert not branched(SAVE, "s_cbranch_execz .L1", WRITE, ".L1:", RESTORE, WRITE)


def test_the_other_side_of_a_condition_is_branched_around_too():
    other = "ds_write_b32 v0, v2"
    lines = (
        SAVE,
        "s_xor_b64 s[0:1], exec, s[0:1]",
        WRITE,
        *ELSE,
        other,
        "s_or_b64 exec, exec, s[2:3]",
    )
    assert branched(*lines, LOAD) == [WRITE, other]


def test_conditions_within_one_another():
    inner = "s_and_saveexec_b64 s[2:3], s[6:7]"
    lines = (SAVE, inner, WRITE, "s_or_b64 exec, exec, s[2:3]", LOAD, RESTORE, "ds_read_b32 v1, v0")
    assert branched(*lines) == [WRITE, LOAD]


def test_a_few_in_a_row_share_a_branch():
    made = rewritten(SAVE, WRITE, LOAD, RESTORE)
    assert sum(line.startswith("s_cbranch_execz") for line in made) == 1
    assert made[2:4] == [WRITE, LOAD]
    assert made[4].startswith(".Lno_lane")


@pytest.mark.parametrize(
    "narrows",
    ["s_and_b64 exec, exec, vcc", "s_mov_b64 exec, s[2:3]", "v_cmpx_gt_f32_e32 v0, v1",
     "s_andn2_b64 exec, exec, s[2:3]", "s_and_b32 exec_lo, exec_lo, s2"],
)  # fmt: skip
def test_whatever_narrows_exec_counts(narrows):
    assert branched(narrows, WRITE, "s_mov_b64 exec, -1", WRITE) == [WRITE]


def test_behind_a_loop_that_lanes_leave_one_by_one():
    loop = (".L1:", "s_andn2_b64 exec, exec, s[0:1]", "s_cbranch_execnz .L1")
    assert branched(*loop, WRITE, RESTORE, WRITE) == [WRITE]


def test_gcn3_takes_its_counts_back():
    for version in ("21.2", "23.1"):
        assert "empty_exec" not in names(Model("gem5", version, "gfx803"))
        assert "empty_exec" in names(Model("gem5", version, "gfx902"))


SCALAR = "s_load_dword s6, s[0:1], 0x24"


def apart(*lines: str, **model: str) -> list[str]:
    """Scalar accesses of a wavefront that may have no active lane, as they are executed then."""
    text = "\n".join(f"\t{line}" for line in lines)
    given = Model("gem5", model.get("version", "24.0"), model.get("arch", "gfx902"))
    made = [x.strip() for x in rewrite(FRAME.format(text), given).text.splitlines()]
    found = []
    for at, line in enumerate(made):
        if line.startswith("s_cbranch_execz .Llaneless"):
            begin = made.index(f"{line.split()[1]}:")
            assert begin > made.index("s_endpgm")
            assert made[begin + 1] == "s_mov_b64 exec, -1"
            end = made.index("s_mov_b64 exec, 0", begin)
            taken = made[begin + 2 : end]
            back = made[end + 1].removeprefix("s_branch ")
            assert made[at + 1 : at + 2 + len(taken)] == [*taken, f"{back}:"]
            found += taken
    return found


def test_scalar_loads_in_a_condition_are_executed_with_all_lanes():
    """As clang sinks them: autoidx2 of the tests' kernels, whose first wave ended gem5 24.0."""
    other = "s_load_dwordx4 s[8:11], s[0:1], 0x0"
    lines = [SAVE, "s_xor_b64 s[0:1], exec, s[0:1]", SCALAR, ELSE[0], other, ELSE[1]]
    ends = ["s_cbranch_execz .L6", other, ".L6:", "s_or_b64 exec, exec, s[2:3]", other]
    assert apart(*lines, *ends) == [SCALAR]
    assert apart(SAVE, SCALAR, other, RESTORE, other) == [SCALAR, other]


@pytest.mark.parametrize(
    "access",
    ["s_load_dwordx16 s[16:31], s[0:1], 0x0", "s_store_dword s6, s[0:1], 0x0", SCALAR],
)
def test_every_scalar_access_takes_no_token(access):
    assert apart(SAVE, access, RESTORE) == [access]
    assert not apart(SAVE, "s_memtime s[6:7]", RESTORE)  # which asks no memory
    loads = apart(SAVE, "s_buffer_load_dwordx2 s[6:7], s[8:11], 0x0", RESTORE)
    assert [x.split()[0] for x in loads] == ["s_load_dword", "s_load_dwordx2"]  # for it


@pytest.mark.parametrize("version", ["23.1", "24.0", "24.1", "25.1"])
def test_tokens_since_23_1(version):
    for arch in ("gfx803",) if version == "23.1" else ("gfx902", "gfx942"):
        assert apart(SAVE, SCALAR, RESTORE, version=version, arch=arch) == [SCALAR]
    emptied = "buffer_wbinvl1_vol"  # takes no token either; VEGA's waves branch around it
    assert apart(SAVE, emptied, RESTORE, version="23.1", arch="gfx803") == [emptied]
    assert not apart(SAVE, SCALAR, RESTORE, version="23.0")


def test_what_a_branch_leads_around_is_in_doubt_behind_it():
    lines = (SAVE, "s_cbranch_execz .L1", WRITE, ".L1:", "s_nop 0", WRITE, RESTORE, WRITE)
    assert branched(*lines) == [WRITE]
    assert apart(SAVE, WRITE, SCALAR, RESTORE, SCALAR) == [SCALAR]


def test_the_other_side_of_a_condition_is_no_deeper():
    sides = (SAVE, "s_xor_b64 s[0:1], exec, s[0:1]", "s_andn2_saveexec_b64 s[0:1], s[0:1]")
    assert not branched(*sides, "v_mov_b32_e32 v2, 0", RESTORE, WRITE)
    assert branched(*sides, WRITE, RESTORE) == [WRITE]


def test_all_lanes_for_a_while():
    whole = ("s_or_saveexec_b64 s[2:3], -1", WRITE, "s_mov_b64 exec, s[2:3]", WRITE)
    assert not branched(*whole)
    assert branched(SAVE, *whole, RESTORE, WRITE) == [WRITE]
