"""Code objects for a simulator that lacks instructions: legalised, checked, and their cost told."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.ask.choice import spelled
from simgen.errors import RefusedError
from simgen.isa import legalise
from simgen.isa.legalise import Model, cache_policy
from simgen.kernels import render, source_line, stages
from simgen.targets import fit, own_sources

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder

_NUMBERED = re.compile(r"kernel (\w+) .*?(instruction (\d+), \w+)")  # what a launcher says


@dataclass(frozen=True)
class Kernels:
    """Linked code objects by kernel, and what was replaced in each."""

    objects: Mapping[str, bytes]
    replaced: Mapping[str, legalise.Legalised]  # empty if nothing was to be replaced

    def emulated(self) -> bytes:
        """A line for each kernel that is right in emulation only, and why; empty if there is none.

        `run.sh` says the first of them where such kernels are to be timed.
        """
        return "".join(
            f"kernel {name}: {mnemonic}: {why}\n"
            for name, made in sorted(self.replaced.items())
            for mnemonic, why in list(made.emulated.items())[:1]
        ).encode()


def build(
    workload: Workload,
    sources: Mapping[str, str],
    builder: Builder,
    target: str,
    model: Model,
    l1: str = cache_policy.CACHED,
) -> Kernels:
    """Compile rendered kernels for a simulator, or as they are for a GPU.

    `l1` is the cache policy of vector loads.

    Raises:
        RefusedError: an instruction is not there in the simulator and has no replacement. Names
            target, kernel, layer, pass, template and the line of the rendered source. Or a kernel
            does not fit into the machine that the workload is planned for.
    """
    try:
        chain = stages.amdgcn(model, l1=l1, edges=workload.is_own)
        made = own_sources.products(builder, chain, model, workload, sources)
    except legalise.NoRuleError as refusal:
        source = sources.get(refusal.kernel)  # a function that a kernel calls has no source
        found = source_line.of_refusal(source, model) if source else None
        place = _place(workload, refusal.kernel, found)
        raise RefusedError(f"{target}: {place}: {refusal.fact}") from None
    except stages.UnimplementedError as refusal:
        raise RefusedError(f"{target}: {_lacking(workload, sources, refusal, model)}") from None
    objects = {name: products[stages.CODE_OBJECT] for name, products in made.items()}
    fit.check_all(target, model.arch, workload, objects)
    replaced = {name: products[stages.LEGALISED] for name, products in made.items()}
    return Kernels(objects, replaced if model.simulator else {})


def _lacking(
    workload: Workload,
    sources: Mapping[str, str],
    refusal: stages.UnimplementedError,
    model: Model,
) -> str:
    """Which instruction of the machine code the simulator lacks, and where it comes from."""
    kernel, lack = refusal.kernel, refusal.lack
    place = (sources[kernel], render.prelude(), model, kernel, lack.number)
    found = source_line.of_instruction(*place)
    what = f"{found.instruction} ({model.arch}, {lack})" if found else f"{lack} ({model.arch})"
    return (
        f"{_place(workload, kernel, found)}: {what}: the simulator does not implement it; write "
        f"the kernel without it, or see the simulator as it is with {spelled('legalise', False)}"
    )


def _place(workload: Workload, kernel: str, found: source_line.Origin | None) -> str:
    steps = [s for s in workload.steps for launch in s.launches if launch.kernel == kernel]
    layer = f' (layer "{steps[0].layer}", {steps[0].direction})' if steps else ""
    templates = [k.template for k in workload.kernels if k.name == kernel]
    template = f", kernels/{templates[0]}" if templates and templates[0] else ""
    line = f", rendered line {found.line}, {found.quoted}" if found and found.line else ""
    return f"kernel {kernel}{layer}{template}{line}"


def located(fact: str, bundle: Path, workload: Workload, model: Model) -> str:
    """A launcher's error with the line of the source, where it names an instruction by number.

    "instruction 12, v_exp_f32" becomes "v_exp_f32_e32 v0, v1 (src/KERNEL.hip:34 of
    kernels/TEMPLATE, 'y[at] = ...;')"; all else stays.
    """
    said = _NUMBERED.search(fact)
    if not said:
        return fact
    kernel, words, number = said[1], said[2], int(said[3])
    # A kernel of a share of the batch lies in that share's folder.
    sources = [bundle / "src" / f"{kernel}.hip", *bundle.glob(f"*/*/src/{kernel}.hip")]
    try:
        path = next(path for path in sources if path.is_file())
        source, prelude = path.read_text(), (bundle / "src" / "prelude.h").read_text()
    except (OSError, StopIteration, UnicodeDecodeError):
        return fact
    found = source_line.of_instruction(source, prelude, model, kernel, number)
    if found is None:
        return fact
    template = next((k.template for k in workload.kernels if k.name == kernel), None)
    file = path.relative_to(bundle)
    place = f"{file}:{found.line}" if found.line else str(file)
    place += f" of kernels/{template}" if template else ""
    text = f", {found.quoted}" if found.line else ""
    return fact.replace(words, f"{found.instruction} ({place}{text})", 1)
