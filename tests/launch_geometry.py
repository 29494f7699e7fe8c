"""Declarations of what kernels write (simgen/layers/written.py), counted out.

What is counted is a number for each element of each port: how often a pass writes it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.layers.written import declaration, written
from simgen.layers.written_elements import elements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from simgen.ground.ir import Kernel, Launch
    from simgen.layers.base import Lowering, Port
    from simgen.layers.written import Writes

    Elements = NDArray[np.int64]


def problems_of(lowering: Lowering, ports: Sequence[Port]) -> list[str]:
    """What is wrong with the launches of a pass that writes these ports.

    Each element of a port is written once, and of a workspace once before it is read: then its
    place may be used again.
    """
    kernels = {kernel.name: kernel for kernel in lowering.kernels}
    counts = {port.name: np.zeros(port.spec.size, np.int64) for port in ports}
    nbytes = {port.name: port.spec.dtype.nbytes for port in ports}  # of an element
    scratch = {port.name for port in ports if port.scratch}
    used: dict[str, NDArray[np.bool_]] = {}  # of workspaces that were read
    wrong = []
    for launch in lowering.launches:
        kernel = kernels[launch.kernel]
        declared = written(kernel)
        wrong += misfits(launch, declared, kernel.block)
        writes = {launch.args[each.argument] for each in declared}
        for port in scratch & set(launch.args) - writes:
            used[port] = used.get(port, False) | (counts[port] > 0)
            if (counts[port] > 1).any():
                wrong.append(f"{port}: some several times, before {launch.kernel}")
            counts[port][:] = 0
        for each in declared:
            wrong += _count(launch, each, counts, nbytes)
    for port, times in counts.items():
        whole = used.get(port, False) | (times > 0)
        if not whole.all() or (times > 1).any():
            several = (times > 1).sum()
            wrong.append(f"{port}: {(~whole).sum()} of {times.size} never, {several} several times")
    return wrong


def _count(
    launch: Launch, each: Writes, counts: dict[str, Elements], nbytes: dict[str, int]
) -> list[str]:
    """Counts what a launch writes; what is wrong with it."""
    port, offset = launch.places[each.argument]
    if port not in counts:
        return [f"{launch.kernel} writes {port}, which the pass does not"]
    times, found = counts[port], elements(each) + offset // nbytes[port]
    if each.again:
        if not (times == 1).all():
            return [f"{launch.kernel} changes {port}, which was not written once before"]
        times[:] = 0
    if found.min() < 0 or found.max() >= times.size:
        return [
            f"{launch.kernel}: {found.min()} to {found.max()} of {port}, which has {times.size}"
        ]
    times += np.bincount(found, minlength=times.size)
    return []


def misfits(launch: Launch, declared: Sequence[Writes], block: int) -> list[str]:
    """Where a launch is not of the work-groups and work-items that write."""
    wrong = []
    ends = {0}
    for each in sorted(declared, key=lambda each: each.first):
        x, *rest = each.grid
        if each.first not in ends:
            wrong.append(f"{launch.kernel}: no work-group before {each.first} ends there")
        ends.add(each.first + x)
        if tuple(rest) != launch.grid[1:]:
            wrong.append(f"{launch.kernel}: grid {launch.grid}, and {each.grid} write")
        if each.items not in (None, block):
            wrong.append(f"{launch.kernel}: {block} work-items, and {each.items} write")
    if max(ends) != launch.grid[0]:
        wrong.append(f"{launch.kernel}: grid {launch.grid}, and {max(ends)} along x write")
    return wrong


class _Noted(dict[str, Any]):
    """Constants of a kernel, of which it notes those that are read."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel.constants)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


def of_geometry(kernel: Kernel) -> Kernel:
    """The kernel with those constants alone that decide what it writes."""
    constants = _Noted(kernel)
    list(declaration(kernel)(constants, kernel.block))
    kept = tuple((name, value) for name, value in kernel.constants if name in constants.read)
    return replace(kernel, constants=kept)
