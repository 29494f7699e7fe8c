"""Whether the compute units of the machine that a workload is planned for hold its kernels.

What a kernel takes is known once it is compiled. One whose work-group fits into no compute unit
would never start: simulators then wait for ever, or end with a panic.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices
from simgen.errors import RefusedError
from simgen.ground.machine import Machine, architectures, named
from simgen.isa import code_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.ir import Kernel, Workload
    from simgen.isa.code_object import KernelInfo
    from simgen.targets.base import Target


def check(target: str, arch: str, workload: Workload, name: str, info: KernelInfo) -> None:
    """Raise RefusedError unless a work-group of the kernel fits into a compute unit.

    Code for another architecture than the machine's is not what was planned: it is let pass.
    """
    machine = workload.machine
    if machine.arch != arch:
        return
    for what, need, have in _needs(machine, workload.kernel(name), info):
        if need > have:
            steps = (s for s in workload.steps if any(name == each.kernel for each in s.launches))
            layer = "".join(f' (layer "{s.layer}", {s.direction})' for s in list(steps)[:1])
            raise RefusedError(
                f"{target}: kernel {name}{layer}: a work-group takes {need} {what}, and "
                f"{machine.label} has {have}; plan for another machine with {BuildChoices.plan_for}"
            )


def check_asked(target: Target, workload: Workload) -> None:
    """Refuse kernels that keep more in LDS than a work-group of the target's machine may have.

    Raises:
        RefusedError: one does.
    """
    machine = target.machine and named(target.machine)
    if not machine or machine.arch == workload.machine.arch:
        return
    room = max(machine.group_lds_nbytes, machine.asked_lds_nbytes)
    for kernel in workload.kernels:
        if kernel.chained and kernel.lds_nbytes > room:
            raise RefusedError(
                f"{target.name}: kernel {kernel.name}: a work-group takes {kernel.lds_nbytes} "
                f"bytes of LDS, and {machine.name} has {room}; build with {BuildChoices.algo} "
                f"steps, or with {BuildChoices.plan_for} {machine.name}"
            )


def check_all(target: str, arch: str, workload: Workload, objects: Mapping[str, bytes]) -> None:
    """The same of the kernels of a workload, by name: of code objects, where they can be read.

    Raises:
        RefusedError: a kernel does not fit.
        DamagedError: what has to be looked at is no code object, or does not hold its kernel.
    """
    # Descriptors of RDNA, whose code no simulator runs, are not read; plans know its LDS.
    if workload.machine.arch == arch and architectures()[arch].elf_machine is not None:
        for name, elf in objects.items():
            check(
                target, arch, workload, name, code_object.kernels(elf)[workload.kernel(name).symbol]
            )


def _needs(machine: Machine, kernel: Kernel, info: KernelInfo) -> tuple[tuple[str, int, int], ...]:
    """(what, how much a work-group takes, how much there is)."""
    asked = kernel.lds_nbytes if kernel.source else 0
    of_simd = ceil(ceil(kernel.block / machine.wavefront) / machine.simds)  # wavefronts
    return (
        ("bytes of LDS", info.lds_nbytes + asked, machine.group_lds_nbytes),
        ("wavefronts of a SIMD unit", of_simd, machine.wavefronts),
        ("vector registers of a SIMD unit", of_simd * info.vgprs, machine.registers),
    )
