"""Memory instructions that a wavefront may come to with no active lane: for gem5, a branch."""

from __future__ import annotations

import pytest
from test_gem5_defects import rewritten

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
    from simgen.compile.legalise import Model, names

    for version in ("21.2", "23.1"):
        assert "empty_exec" not in names(Model("gem5", version, "gfx803"))
        assert "empty_exec" in names(Model("gem5", version, "gfx902"))
