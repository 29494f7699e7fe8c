"""The probe on the emulator of MGPUSim: what is known to be wrong is found, and nothing else is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from simgen.cli import main
from simgen.errors import MismatchError
from simgen.isa import toolchain
from simgen.isa.legalise import Model
from simgen.isa.lint import functions, linting, naming
from simgen.targets.mgpusim.target import MGPUSim
from simgen_examine.conform.float_mode import FLUSHING, USUAL
from simgen_examine.conform.judging import Found
from simgen_examine.conform.probe import Trial

if TYPE_CHECKING:
    from pathlib import Path

    from simgen_examine.conform.judging import Seen

lacks = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))


def told(found: dict[tuple[str, str], Seen]) -> set[tuple[str, str]]:
    """Those of which lint says something, whatever reads their results."""
    head = '.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n.type f,@function\nf:\n'
    usual = {key: each.form for key, each in found.items() if not each.form.shape}
    lines = {key: form.text for key, form in usual.items() if form.mode in (USUAL, FLUSHING)}
    text = head + "".join(f"{line}\n" for line in lines.values()) + ".size f, .-f\n"
    code = toolchain.assemble_foreign(text, "gfx942", "forms")
    (_, (function,), _) = functions.functions_of(code, "forms")
    items = naming.decoded(function.code)
    judge = linting.judge_of(Model("mgpusim", "4.2.0", "gfx942"))
    assert not isinstance(judge, str)
    at = {item.offset for item, _ in judge(items)}
    return {key for key, item in zip(lines, items, strict=True) if item.offset in at}


def test_mgpusim(tmp_path: Path):
    vector = "v_(fma_f32|add_f32|mov_b64|cmp_ge_f32_e64|bfi_b32|sub_f32|cndmask_b32_e64)"
    others = "s_movk_i32|s_add_u32|ds_read_b|flat_load_dword v"
    others += "|s_load_dwordx4 |s_buffer_load_dword "
    others += "|s_setreg_"
    others += "|flat_store_dword |global_store_(dword|byte) |ds_write_b(32|64) |ids "
    run = Trial("mgpusim", "gfx942", only=rf"^({vector}|{others})")
    found = {(each.form.instruction.name, each.form.what): each for each in run.findings(tmp_path)}
    kinds = {key: each.found for key, each in found.items()}
    assert kinds["v_add_f32", "e32"] is Found.RIGHT
    assert kinds["s_add_u32", "registers"] is Found.RIGHT
    assert kinds["v_fma_f32", "e64"] is Found.WRONG  # rounds twice
    assert kinds["v_mov_b64", "e32"] is Found.WRONG  # moves one half
    assert kinds["v_cmp_ge_f32", "e64"] is Found.WRONG  # is <=
    assert kinds["v_sub_f32", "e64, clamp"] is Found.WRONG
    assert kinds["s_movk_i32", "with -2"] is Found.WRONG
    assert kinds["v_bfi_b32", "e64"] is Found.MISSING
    assert kinds["v_add_f32", "DPP, row_shr:3"] is Found.MISSING  # and ends the simulator
    assert kinds["v_cndmask_b32", "e64, -a"] is Found.WRONG
    assert kinds["s_load_dwordx4", "constant"] is Found.RIGHT
    assert kinds["s_load_dwordx4", "register and constant"] is Found.WRONG  # without the register
    assert kinds["s_buffer_load_dword", "buffer of bytes, constant"] is Found.MISSING
    assert kinds["ds_read_b64", "offset 0"] is Found.RIGHT
    assert kinds["ds_read_b64", "offset 8"] is Found.WRONG
    assert kinds["flat_load_dword", "offset 0"] is Found.ENDS  # adds s[0:1] to the address
    assert kinds["flat_store_dword", "offset 0, some lanes"] is Found.ENDS
    for what in ("offset 0", "offset 0, some lanes", "address + 1", "scalar base, negative offset"):
        assert kinds["global_store_dword", what] is Found.RIGHT
    assert kinds["global_store_byte", "offset 0"] is Found.MISSING
    assert kinds["ds_write_b32", "offset 0, some lanes"] is Found.RIGHT
    assert kinds["ds_write_b64", "offset 0"] is Found.MISSING
    # It ignores the mode in which a kernel begins, and has nothing that sets it.
    rounded = {what: kind for (name, what), kind in kinds.items() if name == "v_add_f32"}
    assert rounded["e32, rounding up"] is Found.WRONG
    assert rounded["e32, flushing subnormals"] is Found.WRONG
    assert kinds["s_setreg_b32", "then v_add_f32, rounding to 0 of f32"] is Found.MISSING
    bad = {key for key, kind in kinds.items() if kind is not Found.RIGHT}
    assert not {key for key in bad if found[key].form.mode in (USUAL, FLUSHING)} - told(found)
    numbered = [kind for (name, _), kind in kinds.items() if name == "ids"]
    assert set(numbered) == {Found.RIGHT}
    assert len(numbered) == 10
    moved = found["v_mov_b64", "e32"]
    assert moved.wrong == moved.lanes == 1024
    assert not list(tmp_path.iterdir())
    assert run.runs == 1, "the emulator goes on behind what it lacks"
    json.dumps([vars(each) for each in moved.examples])


def test_what_legalise_makes_of_forms_is_tried_and_the_others_are_told(tmp_path: Path):
    only = r"^(v_bfi_b32|v_sad_u16|v_max_u32_(e32|sdwa)|global_load_dwordx3(?= .*offset:40)"
    only += r"|v_rcp_f64_e64(?=.* -?\|?v.*\]\|?$)) "
    found = Trial("mgpusim", "gfx942", only=only, legalised=True).findings(tmp_path)
    kinds = {(each.form.mnemonic, each.found) for each in found}
    assert kinds == {
        ("v_bfi_b32", Found.RIGHT),  # MGPUSim lacks it: other instructions are in its place
        ("v_sad_u16", Found.REFUSED),
        ("v_max_u32_e32", Found.RIGHT),
        ("v_max_u32_sdwa", Found.REFUSED),
        ("global_load_dwordx3", Found.RIGHT),  # the third word is beyond the largest offset
        ("v_rcp_f64_e64", Found.RIGHT),  # with the signs of pairs of registers changed
    }
    assert sum(each.form.mnemonic == "v_rcp_f64_e64" for each in found) == 5
    reasons = {each.form.mnemonic: each.reason for each in found if each.reason}
    assert "simgen has no replacement" in reasons["v_sad_u16"]
    assert "cannot be written as text here" in reasons["v_max_u32_sdwa"]


def test_what_ends_it_though_legalised_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Forms that only look as if they were legalised."""
    monkeypatch.setattr(Trial, "_legalised", lambda self, name, elf: elf)
    only = "^(v_bfi_b32|v_or_b32_e32) "
    run = Trial("mgpusim", "gfx942", only=only, legalised=True)
    kinds = {(each.form.mnemonic, each.found) for each in run.findings(tmp_path)}
    assert kinds == {("v_bfi_b32", Found.MISSING), ("v_or_b32_e32", Found.RIGHT)}
    assert run.runs > 4


@pytest.mark.parametrize(
    ("only", "fails"), [("^v_(bfi_b32|max_u32_sdwa) ", False), ("^v_mul_f32_e64 ", True)]
)
def test_refused_forms_are_nothing_that_is_wrong(only: str, fails: bool):
    words = ["conform", "--on", "mgpusim", "--legalised", "--only", only]
    done = CliRunner().invoke(main.cli, words)
    assert isinstance(done.exception, MismatchError) is fails
    assert (" refused; " in done.stdout) is not fails
