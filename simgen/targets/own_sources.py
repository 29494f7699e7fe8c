"""Kernels that users bring, on their way to code objects, beside those of simgen.

HIP and OpenCL C go through the same stages as kernels of simgen. Assembly and code objects are what
they are: a simulator gets them rewritten (simgen.isa.lint.rewriting), a GPU as they came.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simgen.ask.build import Destination
from simgen.ask.choice import spelled
from simgen.errors import RefusedError, SimgenError
from simgen.ground.ir import Kernel, Language, Workload
from simgen.ground.machine import architectures
from simgen.isa import code_object, cures, toolchain
from simgen.isa.legalise import Legalised, Model, facts
from simgen.isa.legalise.assembly import CONTRACTED, readable
from simgen.isa.lint import functions, linting, rewriting
from simgen.isa.lint.containers import Held
from simgen.kernels import own, stages
from simgen.kernels.cache import Cache, Key
from simgen.targets import kernargs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.kernels.build import Builder
    from simgen.kernels.stages import Products, Stage
    from simgen.targets.base import Target

MACHINE_CODE = (Language.ASSEMBLY, Language.OBJECT)
EVERY = tuple(Language)


def check(target: Target, workload: Workload) -> None:
    """Refuse kernels in a language that the target has no use for.

    Raises:
        RefusedError: there is one.
    """
    for kernel in workload.kernels:
        if kernel.source and kernel.source.language not in target.own_languages:
            can = ", ".join(target.own_languages)
            what = f"runs no {kernel.source.language}" if can else "runs no kernels of your own"
            cure = f"bring {can}" if can else "take host, mgpusim or gem5-se"
            raise RefusedError(f"{target.name}: kernel {kernel.name}: {what}; {cure}, or build "
                               f"with another {Destination.targets}")  # fmt: skip
        if kernel.source and kernel.source.variables and not target.own_variables:
            raise RefusedError(
                f"{target.name}: kernel {kernel.name}: {kernel.source.variables[0]} is a variable "
                "of the whole GPU; pass it as an argument, or take host, mgpusim or gem5-se"
            )


def products(
    builder: Builder, made_by: Sequence[Stage], model: Model, workload: Workload,
    sources: Mapping[str, str],
) -> dict[str, Products]:  # fmt: skip
    """What the stages make of each kernel of the workload, in order.

    Raises:
        RefusedError: a user's kernel is none that the model runs.
        SimgenError: as `Builder.products`.
    """
    known = {kernel.name: kernel for kernel in workload.kernels}
    # Arguments in LDS lie where the kernel's own ends at last, behind what rules take.
    for launch in workload.launches:
        if any(value.local for value in launch.values):
            known[launch.kernel] = replace(known[launch.kernel], lds_nbytes=0)
    compiled: dict[str, Any] = {
        name: known[name] if known[name].source else text
        for name, text in sources.items()
        if not _is_machine_code(known[name])
    }
    # All kernels of users in a workload are of one source.
    language = next((each.source.language for each in workload.kernels if each.source), None)
    try:
        found = builder.products(made_by, compiled)
    except RefusedError as refusal:
        cures.fit(refusal, language)
        raise
    for name, products in found.items():
        if known[name].source:
            whole = (
                model.simulator != facts.MGPUSIM
            )  # which copies a function, and nothing beside it
            own.check_image(products[stages.LEGALISED].text, name, whole)
    made = {
        name: found[name] if name in found else _rewritten(known[name], model) for name in sources
    }
    for name, products in made.items():
        if known[name].source:
            _check_loadable(known[name], products[stages.CODE_OBJECT], model.arch)
            _check_launch(known[name], products[stages.CODE_OBJECT])
        # The stages rewrite all text of simgen's kernels for MGPUSim, by the rules that lint asks.
        if builder.linted and (known[name].source or model.simulator != facts.MGPUSIM):
            fused = f"{name}.{CONTRACTED}," in products[stages.LEGALISED].text
            refuse(name, products[stages.CODE_OBJECT], model, builder.cache, language, fused)
    return made


def refuse(
    name: str, elf: bytes, model: Model, cache: Cache, language: Language | None = None,
    contracted: bool = False,
) -> None:  # fmt: skip
    """Refuse machine code of a kernel that lint would refuse for a version of a simulator;
    `language` is that of a user's source, whose products and sums may be one instruction if
    `contracted`.

    The stages rewrite text: what a source writes as data (`.long` in inline assembly) is seen here.

    Raises:
        RefusedError: it has such an instruction.
    """
    if model.simulator != facts.MGPUSIM and facts.table_of(model) is None:
        return
    key = Key("lint")
    key.add("label", f"lint {model.simulator} {model.version} {model.arch} {name}")
    key.add("rules", linting.identity())
    key.add("model", f"{model.simulator} {model.version} {model.arch}")
    key.add("code object", hashlib.sha256(elf).hexdigest())
    key.add("contracted", str(contracted))

    def look() -> bytes:
        held = Held(Path(name), "", elf, contracted)
        (looked,) = linting.code_objects([held], model.simulator, model.version)
        first = next((each for each in looked.findings if each.refused), None)
        return f"{first.instruction}: {first.reason}; {first.cure}".encode() if first else b""

    if why := cache.kept(key, look).decode():
        command = f"simgen lint --simulator {model.simulator}@{model.version}"
        raise RefusedError(f"kernel {name}: {cures.fitting(why, language)} ({command})")


def _is_machine_code(kernel: Kernel) -> bool:
    return kernel.source is not None and kernel.source.language in MACHINE_CODE


def _rewritten(kernel: Kernel, model: Model) -> Products:
    """What stages would have made of machine code."""
    source = kernel.source
    assert source is not None
    if source.arch != model.arch:
        raise RefusedError(
            f"kernel {kernel.name}: it is for {source.arch}, and the target for {model.arch}; "
            f"build with {spelled('arch')} {source.arch}"
        )
    place = f"kernel {kernel.name}"
    if source.language is Language.ASSEMBLY:
        elf = toolchain.assemble_foreign(source.text, source.arch, f"{kernel.name}.s")
    else:
        elf = base64.b64decode(source.text)
    made = Legalised("")
    if model.simulator:
        elf, made = rewriting.rewritten(
            elf, place, model.simulator, model.version, kernel.lds_nbytes
        )
    return {stages.SOURCE: kernel, stages.LEGALISED: made, stages.CODE_OBJECT: elf}


def _check_loadable(kernel: Kernel, elf: bytes, arch: str) -> None:
    """Refuse what no launcher of ours can start."""
    if architectures()[arch].elf_machine is None:
        known = ", ".join(name for name, e in architectures().items() if e.elf_machine is not None)
        fact = f"no launcher here reads the machine code of {arch}, to start kernels that you wrote"
        raise RefusedError(f"kernel {kernel.name}: {fact}; build for one of {known}")
    try:
        found = code_object.kernels(elf)
    except SimgenError as error:
        fact = str(error).removeprefix("code object: ")
        place = "" if fact.startswith(f"kernel {kernel.symbol} ") else f"kernel {kernel.name}: "
        raise RefusedError(f"{place}{fact}") from None
    for left in functions.not_loaded(elf, f"kernel {kernel.name}"):
        fact = f"{readable(left)} {linting.NOT_LOADED}"
        raise RefusedError(f"kernel {kernel.name}: {fact}; {linting.INTO_TEXT}")
    if kernel.symbol not in found:
        raise RefusedError(
            f"kernel {kernel.name}: the code object has {', '.join(sorted(found))}; name one"
        )


def _check_launch(kernel: Kernel, elf: bytes) -> None:
    """Refuse work-groups that the code's metadata rules out.

    Raises:
        RefusedError: they are larger than what it is compiled for, or another than it requires.
    """
    told = kernargs.metadata(elf, kernel)
    required = told.get(".reqd_workgroup_size")
    if required is not None and list(kernel.extents) != list(required):
        raise RefusedError(
            f"kernel {kernel.name}: it is compiled for work-groups of {list(required)} alone "
            f"(.reqd_workgroup_size), and the launch has {list(kernel.extents)}; write that block"
        )
    most = told.get(".max_flat_workgroup_size", kernel.block)
    if kernel.block > most:
        raise RefusedError(
            f"kernel {kernel.name}: it is compiled for work-groups of at most {most} work-items "
            f"(.max_flat_workgroup_size), and the launch has {kernel.block}; make block smaller"
        )
