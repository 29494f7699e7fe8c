"""The probe on GPGPU-Sim: what is known to be wrong is found, and what is right is called so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simgen.targets import TARGETS
from simgen_examine.conform.judging import Found
from simgen_examine.conform.ptx.trial import PtxTrial

if TYPE_CHECKING:
    from pathlib import Path

lacks = TARGETS["gpgpusim"]().needs.missing()
pytestmark = pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))

R, W, E, M = Found.RIGHT, Found.WRONG, Found.ENDS, Found.MISSING
BITS = "0x123456789abcdef0"
# (begin of the text, in words, what is found): the issue of GPGPU-Sim's that has them, or its line.
KNOWN = [
    ("selp.u32 %r11, %r1, %r2, !%p3", "inverted predicate", W),  # 343
    ("bfe.u32 %r11, %r1, %r2, %r3", "registers", W),  # 343
    ("add.rm.f32", ".rm, registers", E),  # 343
    ("cvt.rz.f32.s32", ".rz, registers", W),  # 343
    (f"add.u64 %rd11, %rd1, {BITS}", f"b {BITS}", W),  # 343
    ("mad.hi.u32 %r11, %r1, %r2, %r3", ".hi, registers", W),  # 164
    ("shfl.sync.bfly.b32", "b 1, c 0x1f", W),  # 230
    ("setp.eq.b32", ".eq, registers, sources that were computed", W),
    ("setp.eq.b32", ".eq, registers", R),
    ("ld.global.s8 %rs11", "byte 7", W),
    ("cvt.s8.s32", "registers", W),
    ("mul.hi.s64 %rd11, %rd1, %rd2", ".hi, registers", W),
    ("add.s32 %r11, %r1, %r2", "registers", R),
    ("add.rn.f32 %f11, %f1, %f2", ".rn, registers", R),
    ("ld.global.u32 %r11", "byte 4", R),
    ("atom.global.add.u32 %r11", "global", R),
    ("@%p1 bra", "if and else", R),
    ("lop3.b32", "registers", M),
]


def test_gpgpu_sim(tmp_path: Path):
    words = (r"selp\.u32|bfe\.u32|add\.(rm|rn)\.f32|cvt\.rz\.f32\.s32|add\.u64|mad\.hi\.u32|"
             r"shfl\.sync\.bfly|setp\.eq\.b32|ld\.global\.s8|cvt\.s8\.s32|mul\.hi\.s64|add\.s32|"
             r"ld\.global\.u32|atom\.global\.add\.u32|@%p1 bra|lop3")  # fmt: skip
    found = PtxTrial("gpgpusim", only=rf"^({words})").findings(tmp_path)
    # Nothing ends because a kernel's needs were not told.
    assert not [each for each in found if "get_kernel_info" in each.reason]
    for begin, what, kind in KNOWN:
        alike = [each for each in found if each.form.text.startswith(begin)]
        seen = [each for each in alike if each.form.what == what]
        assert seen, (begin, what)
        assert {each.found for each in seen} == {kind}, (begin, what, seen[0].reason)
