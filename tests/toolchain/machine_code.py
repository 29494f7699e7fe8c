"""Many kernels compiled together, and what simulators need of their machine code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simgen.isa import code_object, legalise, toolchain
from simgen.isa.legalise.implemented import unimplemented
from simgen.kernels import render
from simgen.targets.mgpusim.target import model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.ground.ir import Kernel


def together(kernels: Sequence[Kernel]) -> str:
    """One source of many kernels, each in a namespace of its own."""
    include = f'#include "{render.PRELUDE}"\n'
    bodies = [render.kernel(kernel).replace(include, "") for kernel in kernels]
    spaces = [f"namespace kernel_{at} {{\n{body}\n}}\n" for at, body in enumerate(bodies)]
    return render.self_contained(include + "".join(spaces))


def metadata(text: str, key: str) -> list[str]:
    """The values of a key in the metadata of all kernels of an assembly text."""
    return re.findall(rf"^\s+(?:- )?\.{key}:\s+(\S+)$", text, re.M)


def no_scratch_no_stack_no_spills(text: str) -> None:
    assert set(metadata(text, "private_segment_fixed_size")) == {"0"}
    assert set(metadata(text, "uses_dynamic_stack")) <= {"false"}
    assert set(metadata(text, "vgpr_spill_count")) == {"0"}
    assert set(metadata(text, "sgpr_spill_count")) == {"0"}


def mgpusim_runs(kernels: Sequence[Kernel], text: str, arch: str) -> None:
    """Fails unless all of the assembly text can be rewritten to what MGPUSim implements."""
    elf = toolchain.assemble(legalise.rewrite(text, model(arch)).text, arch)
    for kernel in kernels:
        lacks = unimplemented(code_object.instructions(elf, kernel.name), model(arch))
        assert not lacks, f"{kernel.name}: {', '.join(map(str, lacks))}"
