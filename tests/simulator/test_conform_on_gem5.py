"""The probe on gem5: what ends it costs no other form its finding, and what is wrong is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simgen.targets.gem5.se import Gem5Se
from simgen_examine.conform.judging import Found
from simgen_examine.conform.probe import Trial

if TYPE_CHECKING:
    from pathlib import Path

lacks = Gem5Se().needs.missing()
pytestmark = [
    pytest.mark.gem5,
    pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks))),
]


def test_what_ends_it_and_what_is_wrong(place: Path):
    only = "^(v_add_u32_|v_cvt_f32_i32_e64|v_mov_b32_dpp|s_(add_u32|addk_i32) |s_load_dword |"
    only += "global_(load|store)_dword )"
    said: list[str] = []
    run = Trial("gem5-se", only=only, tell=said.append)
    found = {(each.form.mnemonic, each.form.what): each for each in run.findings(place)}
    kinds = {key: each.found for key, each in found.items()}
    assert kinds["v_add_u32_e32", "e32"] is Found.RIGHT
    assert kinds["v_add_u32_e64", "e64, clamp"] is Found.WRONG
    assert kinds["v_add_u32_sdwa", "SDWA, to BYTE_1, UNUSED_PAD"] is Found.RIGHT
    assert kinds["v_add_u32_sdwa", "SDWA, to BYTE_1, UNUSED_PRESERVE"] is Found.ENDS
    assert kinds["v_cvt_f32_i32_e64", "e64"] is Found.RIGHT
    assert kinds["v_cvt_f32_i32_e64", "e64, a scalar"] is Found.ENDS
    assert kinds["v_cvt_f32_i32_e64", "e64, clamp"] is Found.WRONG
    assert kinds["v_mov_b32_dpp", "DPP, row_half_mirror"] is Found.ENDS
    assert kinds["v_mov_b32_dpp", "DPP, row_shr:3"] is not Found.ENDS
    assert kinds["s_add_u32", "registers"] is Found.RIGHT
    assert kinds["s_addk_i32", "with 32767"] is Found.RIGHT
    assert kinds["s_load_dword", "constant"] is Found.RIGHT
    assert kinds["s_load_dword", "register and constant"] is Found.WRONG
    assert kinds["s_load_dword", "negative constant"] is Found.ENDS
    assert kinds["global_load_dword", "address + 1"] is Found.WRONG
    assert found["global_load_dword", "address + 1"].wrong == 55
    assert kinds["global_load_dword", "offset 0"] is Found.RIGHT
    for what in ("offset 0", "offset 0, some lanes", "scalar base, negative offset"):
        assert kinds["global_store_dword", what] is Found.RIGHT
    assert "`!scalar'" in found["v_cvt_f32_i32_e64", "e64, a scalar"].reason
    assert not list(place.iterdir())
    assert run.runs <= 4
