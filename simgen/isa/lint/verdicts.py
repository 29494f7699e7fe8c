"""How the findings of a simulator are said: one of four words, the reason, the cure.

    ends    the simulation ends there, or goes on with garbage
    wrong   it goes on, and the result is another than a GPU has
    edges   results are wrong for a few special values only (infinities, subnormals)
    note    the same, of what nearly all kernels have and hardly any notices: told once

Code with a finding of the first two is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simgen.isa.legalise.machine_code import Decoded

ENDS, WRONG, EDGES, NOTE = "ends", "wrong", "edges", "note"
REFUSED = (ENDS, WRONG)
LEGALISE = "simgen legalise replaces it"
KEEP_OUT = "keep such values out"
OTHERWISE = "write the kernel without it, or run it on another simulator"
NO_CONTROLS = {"sdwa": "compile with -mllvm -amdgpu-sdwa-peephole=0",
               "dpp": "compile with -mllvm -amdgpu-dpp-combine=0"}  # fmt: skip

Judged = tuple[str, str, str]  # one of the four, reason, cure
# What is to be said of a function's instructions:
Judge = Callable[["list[Decoded]"], Iterator["tuple[Decoded, Judged]"]]
