"""The probe on gem5: what ends it costs no other form its finding, and what is wrong is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gem5_here
import pytest

from simgen.targets.gem5 import apu_se
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


RIGHT, WRONG, ENDS = Found.RIGHT, Found.WRONG, Found.ENDS
OLD = float(gem5_here.VERSION) < 24.0
GCN3 = gem5_here.FAMILY != apu_se.VEGA
PRESERVE = "SDWA, to BYTE_1, UNUSED_PRESERVE"
KINDS = {  # mnemonic and form -> what is found
    ("v_add_u32_e32", "e32"): RIGHT,
    ("v_add_u32_sdwa", "SDWA, to BYTE_1, UNUSED_PAD"): WRONG if OLD else RIGHT,
    ("v_add_u32_sdwa", PRESERVE): ENDS,
    ("v_cvt_f32_i32_e64", "e64"): RIGHT,
    ("v_cvt_f32_i32_e64", "e64, a scalar"): ENDS,
    ("v_cvt_f32_i32_e64", "e64, clamp"): WRONG,
    ("v_mov_b32_dpp", "DPP, row_half_mirror"): WRONG if OLD else ENDS,
    ("v_mov_b32_dpp", "DPP, row_shr:3"): WRONG if OLD else RIGHT,
    ("s_add_u32", "registers"): RIGHT,
    ("s_addk_i32", "with 32767"): RIGHT,
    ("s_load_dword", "constant"): RIGHT,
}
VEGA_KINDS = {
    ("v_add_u32_e64", "e64, clamp"): WRONG,
    ("s_load_dword", "register and constant"): WRONG,
    ("s_load_dword", "negative constant"): ENDS,
    ("global_load_dword", "address + 1"): WRONG,
    ("global_load_dword", "offset 0"): RIGHT,
    ("global_store_dword", "offset 0"): RIGHT,
    ("global_store_dword", "offset 0, some lanes"): RIGHT,
    ("global_store_dword", "scalar base, negative offset"): RIGHT,
}


def test_what_ends_it_and_what_is_wrong(place: Path):
    only = "^(v_add_u32_|v_cvt_f32_i32_e64|v_mov_b32_dpp|s_(add_u32|addk_i32) |s_load_dword |"
    only += "global_(load|store)_dword )"
    said: list[str] = []
    arch, version = gem5_here.ARCHS[0], gem5_here.VERSION
    run = Trial("gem5-se", only=only, arch=arch, version=version, tell=said.append)
    found = {(each.form.mnemonic, each.form.what): each for each in run.findings(place)}
    expected = KINDS | ({} if GCN3 else VEGA_KINDS)
    assert {key: found[key].found for key in expected} == expected
    assert GCN3 or found["global_load_dword", "address + 1"].wrong == 55
    assert "`!scalar'" in found["v_cvt_f32_i32_e64", "e64, a scalar"].reason
    assert not list(place.iterdir())
    assert run.runs <= 4
