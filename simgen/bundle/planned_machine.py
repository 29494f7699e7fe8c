"""Which machine a bundle is planned for.

All targets of a bundle execute the same launches, so that what they measure can be compared: so
there is one plan. It is for the machine under study, and that is the simulated one. The host has no
plan of its own: it checks kernels that run elsewhere, and a target that is added to its bundle
later finds the plan that it would have had at first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices
from simgen.bundle import folder
from simgen.errors import SimgenError, UsageError, printable
from simgen.ground.machine import TF32, YES, Machine, descriptions, find, named
from simgen.targets import TARGETS, Target

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from simgen.ground.ir import Workload

DEFAULT = "gem5-se"  # the target of whose machine a bundle is that runs anywhere


@dataclass(frozen=True)
class PlannedMachine:
    """A machine, and why it was taken."""

    machine: Machine
    why: str


def choose(
    text: str | None, targets: Sequence[Target], matrix: str | None = None
) -> PlannedMachine:
    """The machine that `text` (--plan-for) names, or that of the targets.

    `matrix` says whether its matrix instructions are used (--matrix).

    Raises:
        UsageError: there is no such machine, or it has none of these instructions.
    """
    return with_matrix(_chosen(text, targets), matrix)


def with_matrix(found: PlannedMachine, matrix: str | None) -> PlannedMachine:
    """The same with its matrix instructions used, or not; None: as it is.

    Raises:
        UsageError: it has none of these instructions.
    """
    machine = found.machine
    if matrix is not None:
        machine = machine.with_options(
            {"matrix": matrix}, f"{BuildChoices.matrix} {printable(matrix)}"
        )
    if machine.use_matrix == YES and not machine.matrix:
        having = [name for name, told in descriptions().items() if told.machine.matrix]
        raise UsageError(
            f"{BuildChoices.matrix} yes: {machine.name} has no matrix instructions; leave it out, "
            f"or take {BuildChoices.plan_for} {', '.join(having[:-1])} or {having[-1]}"
        )
    if machine.use_matrix == TF32 and TF32 not in {each.factors for each in machine.matrix}:
        having = [
            name
            for name, told in descriptions().items()
            if TF32 in {each.factors for each in told.machine.matrix}
        ]
        raise UsageError(
            f"{BuildChoices.matrix} tf32: {machine.name} has no matrix instructions for it; leave "
            f"it out, or take {BuildChoices.plan_for} {', '.join(having[:-1])} or {having[-1]}"
        )
    return PlannedMachine(machine, found.why)


def _chosen(text: str | None, targets: Sequence[Target]) -> PlannedMachine:
    if text is not None:
        return PlannedMachine(
            find(text, f"{BuildChoices.plan_for} {text}"), f"{BuildChoices.plan_for.flag} names it"
        )
    having = [(target, target.machine) for target in targets if target.machine]
    for target, name in having:
        if target.simulates:
            return PlannedMachine(named(name), f"{target.name} is the first simulated target")
    for target, name in having:
        return PlannedMachine(named(name), f"{target.name} is the first target on a GPU")
    usual = TARGETS[DEFAULT]().machine
    assert usual
    return PlannedMachine(named(usual), f"no target has a machine, and {DEFAULT} is the default")


def of_bundle(path: Path) -> Workload | None:
    """The workload of the bundle at `path`; None where there is none that can be read."""
    try:
        return folder.load(path).workload
    except (SimgenError, OSError):
        return None
