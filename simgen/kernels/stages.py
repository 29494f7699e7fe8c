"""What a kernel becomes on its way from rendered source to what a machine runs: ordered stages.

    amdgcn   source -> assembly -> legalised -> code object -> checked
    x86      source -> program: all kernels and their launcher are compiled together
    nvptx    source: NVIDIA's compiler makes the rest on the machine that has the GPU
    ptx      source -> PTX -> legalised: a simulator reads the text

Each stage makes its product of the one before. Compiling and assembling are cached separately, so
that what a stage between them leaves as it is costs nothing twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simgen.ask.build import BuildChoices
from simgen.errors import RefusedError
from simgen.ground.ir import Kernel
from simgen.isa import code_object, legalise, toolchain
from simgen.isa.legalise import Legalised, Model, cache_policy, facts, history
from simgen.isa.legalise import ptx as ptx_text
from simgen.isa.legalise.implemented import Unimplemented, unimplemented
from simgen.kernels import own, render
from simgen.kernels.cache import Cache, Key

# Patterns in a kernel's source, for labels in the cache:
_MACRO = r"^#define KERNEL (\w+)$"
_ENTRY = r"__global__[^(]*(?:\([^)]*\))?\s*void\s+(\w+)"

SOURCE = "source"
ASSEMBLY = "assembly"  # text of clang
LEGALISED = "legalised"  # legalise.Legalised: the text that is assembled, and what that took
CODE_OBJECT = "code object"  # linked ELF
CHECKED = "checked"  # the same, of which each instruction is known to be implemented
PROGRAM = "program"  # x86-64 ELF
PTX = "PTX"  # text of clang

Products = Mapping[str, Any]  # by the names above


@dataclass(frozen=True)
class Stage:
    """Makes `product` of what the stage before it made."""

    product: str
    make: Callable[[Any, Cache], Any]


class UnimplementedError(RefusedError):
    """Machine code has an instruction that the simulator lacks."""

    def __init__(self, kernel: str, lack: Unimplemented, model: Model) -> None:
        super().__init__(f"kernel {kernel}: {lack} ({model.arch}): {model.simulator} lacks it")
        self.kernel, self.lack = kernel, lack


def amdgcn(
    model: Model, *, l1: str = cache_policy.CACHED, version: int = 5, edges: bool = False,
    private: bool = False,
) -> tuple[Stage, ...]:  # fmt: skip
    """The stages of a kernel for an AMD GPU, or for a model of one in a simulator.

    Their source is a rendered kernel; `version` is that of code objects, `edges` and `private`
    as `legalise.names`. For what the simulator does not execute right they raise
    `legalise.NoRuleError` and `UnimplementedError`.
    """
    arch, keeps = model.arch, history.keeps_scalars(model)
    gem5 = model.simulator == facts.GEM5  # which loses what lies across two lines
    names = legalise.names(model, l1=l1, code_object=version, edges=edges, private=private)

    def compiled(source: str | Kernel, cache: Cache) -> str:
        if isinstance(source, Kernel):
            matrix = not model.simulator or bool(legalise.support(model).matrix)
            rounded = model.simulator == facts.MGPUSIM  # which rounds products
            return own.assembly(
                source, arch, cache, matrix=matrix, gem5=gem5, rounded=rounded, keeps=keeps
            )
        whole = render.self_contained(source)
        entry = re.search(_MACRO, source, re.MULTILINE) or re.search(_ENTRY, source)
        flags = toolchain.device_flags(whole, arch, keeps_scalars=keeps, gem5=gem5)
        key = _device_key(ASSEMBLY, entry, flags, arch)
        key.add("source", whole)
        return cache.get_or_build(
            key, lambda: toolchain.assembly(whole, arch, flags=flags).encode()
        ).decode()

    def legalised(text: str, cache: Cache) -> Legalised:
        _check_matrix(text, model)
        return legalise.rewrite(text, model, names)

    def assembled(made: Legalised, cache: Cache) -> bytes:
        entry = re.search(r"^\s*\.amdhsa_kernel\s+(\w+)", made.text, re.MULTILINE)
        key = _device_key(CODE_OBJECT, entry, toolchain.ASSEMBLER_FLAGS, arch)
        key.add("assembly", made.text)
        return cache.get_or_build(key, lambda: toolchain.assemble(made.text, arch))

    def checked(elf: bytes, cache: Cache) -> bytes:
        for kernel in code_object.kernels(elf):
            lacks = unimplemented(code_object.instructions(elf, kernel), model)
            if lacks:
                raise UnimplementedError(kernel, lacks[0], model)
        return elf

    stages = (
        Stage(ASSEMBLY, compiled),
        Stage(LEGALISED, legalised),
        Stage(CODE_OBJECT, assembled),
    )
    known = legalise.support(model).opcodes
    return (*stages, Stage(CHECKED, checked)) if known else stages


def _check_matrix(text: str, model: Model) -> None:
    """Refuse matrix instructions that a version of a simulator lacks.

    Raises:
        RefusedError: there is one.
    """
    if not model.simulator:
        return
    known = legalise.support(model).matrix
    for found in re.findall(r"^\s+(v_s?mfma\w+)", text, re.MULTILINE):
        if found not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise RefusedError(
                f"{model.simulator} {model.version}: it does not implement {found} "
                f"({model.arch}); {has}; build with {BuildChoices.matrix} no, or write a kernel "
                "of your own without it"
            )


def x86(
    main: str, flags: Sequence[str], libraries: Mapping[str, Sequence[str]] | None = None,
    beside: bytes = b"",
) -> tuple[Stage, ...]:  # fmt: skip
    """The stage of an x86-64 program. Its source is files by name; `main` is one of them, and the
    others it includes or embeds.

    The program is static, with an object `beside` it, if there is one, or linked dynamically to
    `libraries` (`toolchain.compile_dynamic`).
    """

    def compiled(files: Mapping[str, bytes], cache: Cache) -> bytes:
        key = _host_key("program", files, main, flags)
        if beside:
            key.add("beside", beside)
        if libraries is None:
            return cache.get_or_build(
                key, lambda: toolchain.compile_host(files, main, flags, beside)
            )
        key.add("libraries", "\n".join(f"{n}: {' '.join(f)}" for n, f in libraries.items()))
        return cache.get_or_build(
            key, lambda: toolchain.compile_dynamic(files, main, flags, libraries)
        )

    return (Stage(PROGRAM, compiled),)


def x86_object(files: Mapping[str, bytes], main: str, flags: Sequence[str], cache: Cache) -> bytes:
    """What `x86` takes as `beside`, from files as it has them."""
    key = _host_key("object", files, main, flags)
    return cache.get_or_build(key, lambda: toolchain.host_object(files, main, flags))


def _host_key(kind: str, files: Mapping[str, bytes], main: str, flags: Sequence[str]) -> Key:
    """The key of what is made for x86-64 from files."""
    key = Key(f"x86-64 {kind}")
    key.add("label", f"{kind} {main}")
    key.add("compiler", toolchain.identity())
    key.add("flags", "\n".join((*toolchain.HOST_FLAGS, *flags)))
    for name in sorted(files):
        content = files[name]
        key.add(name, content if b"\0" in content else content.decode())
    return key


def nvptx() -> tuple[Stage, ...]:
    """None: the rendered source travels as it is."""
    return ()


def ptx(arch: str, version: str) -> tuple[Stage, ...]:
    """The stages of a kernel for a version of GPGPU-Sim (data/ptx).

    Their source is a rendered kernel. For what the simulator does not execute right they raise
    RefusedError.
    """

    def compiled(source: str, cache: Cache) -> str:
        whole = render.clang_cuda() + render.self_contained(source)
        entry = re.search(_MACRO, source, re.MULTILINE) or re.search(_ENTRY, source)
        key = _device_key(PTX, entry, toolchain.ptx_flags(arch), arch)
        key.add("source", whole)
        return cache.get_or_build(key, lambda: toolchain.ptx(whole, arch).encode()).decode()

    def legalised(text: str, cache: Cache) -> Legalised:
        return ptx_text.rewrite(text, version)

    return (Stage(PTX, compiled), Stage(LEGALISED, legalised))


def names(stages: Sequence[Stage]) -> tuple[str, ...]:
    """The products in order, beginning with the source."""
    return (SOURCE, *(stage.product for stage in stages))


def _device_key(kind: str, entry: re.Match[str] | None, flags: Sequence[str], arch: str) -> Key:
    """The key of what is made for a GPU, but for what it is made from; `entry` tells the kernel."""
    key = Key(kind)
    key.add("label", f"{kind} {arch} {entry[1] if entry else '?'}")
    key.add("compiler", toolchain.identity())
    key.add("flags", "\n".join(flags))
    key.add("arch", arch)
    return key
