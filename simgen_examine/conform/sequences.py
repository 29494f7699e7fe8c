"""Quotients of floats as compilers write them: several instructions for one result.

v_div_scale of both, v_rcp, multiply-adds, v_div_fmas, v_div_fixup. What the manuals tell of each
leaves freedom, and one takes what another has left; the quotient has none: it is rounded to nearest
even, a subnormal one too, as IEEE 754 has it. A form is named by the last instruction.

Source: LLVM, llvm/lib/Target/AMDGPU/SIISelLowering.cpp (LowerFDIV32, LowerFDIV64), as clang writes
it for gfx8 and gfx9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simgen_examine.conform import values
from simgen_examine.conform.arithmetic import Computed, Wanted
from simgen_examine.conform.description import SEQUENCE, Described
from simgen_examine.conform.expected import Expected
from simgen_examine.conform.forms import RESULT, Form
from simgen_examine.conform.integers import typed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen_examine.conform.values import Words

# a in v[4:5], b in v[6:7]; v20 and above are free.
_QUOTIENT_64 = (
    "v_div_scale_f64 v[20:21], s[48:49], v[6:7], v[6:7], v[4:5]",
    "v_div_scale_f64 v[28:29], vcc, v[4:5], v[6:7], v[4:5]",
    "v_rcp_f64_e32 v[26:27], v[20:21]",
    *("v_fma_f64 v[18:19], -v[20:21], v[26:27], 1.0",
      "v_fma_f64 v[26:27], v[26:27], v[18:19], v[26:27]") * 2,
    "v_mul_f64 v[18:19], v[28:29], v[26:27]",
    "v_fma_f64 v[20:21], -v[20:21], v[18:19], v[28:29]",
    "v_div_fmas_f64 v[20:21], v[20:21], v[26:27], v[18:19]",
)  # fmt: skip
_QUOTIENT_32 = (
    "v_div_scale_f32 v20, s[48:49], v6, v6, v4",
    "v_div_scale_f32 v21, vcc, v4, v6, v4",
    "v_rcp_f32_e32 v26, v20",
    "v_fma_f32 v27, -v20, v26, 1.0",
    "v_fma_f32 v26, v27, v26, v26",
    "v_mul_f32_e32 v27, v21, v26",
    "v_fma_f32 v28, -v20, v27, v21",
    "v_fma_f32 v27, v28, v26, v27",
    "v_fma_f32 v20, -v20, v27, v21",
    "v_div_fmas_f32 v20, v20, v26, v27",
)


@dataclass(frozen=True)
class Rounded(Computed):
    """The result of a sequence, rounded once."""

    type: str = "f64"

    def outcome(self, words: Words, lanes: int) -> list[Wanted]:
        """As `Computed.outcome`."""
        del lanes
        a, b = (typed(words[at], self.type) for at in range(2))
        with np.errstate(all="ignore"):
            return [Wanted(self.type, Expected(a / b))]


def sequences(arch: str, known: frozenset[str]) -> Iterator[Form]:
    """The forms of an architecture."""
    del arch
    for text, before in (
        ("v_div_fixup_f32 v10, v20, v6, v4", _QUOTIENT_32),
        ("v_div_fixup_f64 v[10:11], v[20:21], v[6:7], v[4:5]", _QUOTIENT_64),
    ):
        name = text.split()[0]
        kind = name.rpartition("_")[2]
        of = Described(name, SEQUENCE, (kind,), (kind, kind), "")
        plan = Rounded(of, type=kind)
        outputs = tuple(f"v{RESULT + n}" for n in range(values.words(kind)))
        if name in known:
            yield Form(of, text, "a / b, as compilers write it", of.sources, before, outputs, plan)
