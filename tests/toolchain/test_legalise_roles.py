"""The table of operand roles against the assembler: number and width of operands of each form."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from simgen.isa.legalise import roles
from simgen.isa.legalise.table import ARCHS

# A form that neither architecture of the table has may be one of their relatives'.
TARGETS = ("gfx942", "gfx803", "gfx900", "gfx90a")
SHORT_ONLY = ("v_readfirstlane_b32", "v_swap_b32")
_SCALAR_RESULT = ("v_readfirstlane_b32", "v_readlane_b32")


def example(name: str, form: roles.Roles) -> str:
    """The form with registers of the widths that the table says."""
    operands = []
    for number, operand in enumerate(form.operands):
        operands.append(_operand(name, operand, 16 * (number + 1)))
    returns = "_atomic_" in name and form.operands[0].role == "d"
    tail = " sc0" if returns else " quad_perm:[0,1,2,3]" if name.endswith("_dpp") else ""
    return f"{name} {', '.join(operands)}{tail}".strip()


def _operand(name: str, operand: roles.Operand, low: int) -> str:
    if operand.role == "i":
        return "sc1" if name.startswith("buffer_") else "0x1"
    if operand.role == "o":
        return "s[2:3]"
    scalar = name.startswith("s_") or operand.lane_mask
    scalar = scalar or (name in _SCALAR_RESULT and operand.role == "d")
    scalar = scalar or (name == "v_readlane_b32" and low > 32)
    if name == "v_writelane_b32" and operand.role == "s":  # one scalar in all
        return "s2" if low == 32 else "1"
    kind, width = "s" if scalar else "v", operand.width or 1
    return f"{kind}{low}" if width == 1 else f"{kind}[{low}:{low + width - 1}]"


def accepted(lines: list[str], target: str) -> set[str]:
    """Those of the lines that the assembler takes; before gfx942, sc0 is called glc."""
    text = "\n".join(lines) + "\n"
    text = text if target == "gfx942" else text.replace(" sc0", " glc")
    done = subprocess.run(
        [sys.executable, "-m", "ziglang", "clang", "-target", "amdgcn-amd-amdhsa",
         f"-mcpu={target}", "-ferror-limit=0", "-c", "-x", "assembler", "-", "-o", "/dev/null"],
        input=text, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    wrong = {int(at) for at in re.findall(r"<stdin>:(\d+):\d+: error", done.stderr)}
    return {line for at, line in enumerate(lines, 1) if at not in wrong}


@pytest.fixture(scope="module")
def forms() -> dict[str, set[str]]:
    """Name -> its forms as text, over both architectures."""
    found: dict[str, set[str]] = {}
    for arch in ARCHS:
        for name, several in roles.table(arch).items():
            found.setdefault(name, set()).update(example(name, form) for form in several)
    return found


def test_the_assembler_knows_every_form_of_the_table(forms):
    left = {line for several in forms.values() for line in several}
    for target in TARGETS:
        left -= accepted(sorted(left), target)
    assert sorted(left) == []


def test_a_wrong_width_would_be_seen():
    wrong = ["v_add_f64 v[0:1], v[2:3], v4", "s_and_b64 s[0:1], s[2:3], s4", "s_brev_b64 s0, s1"]
    assert accepted([*wrong, "s_nop 0x1"], "gfx942") == {"s_nop 0x1"}
