"""Which machine a bundle is planned for.

All targets of a bundle execute the same launches, so that what they measure can be compared: so
there is one plan. It is for the machine under study, and that is the simulated one. The host has no
plan of its own: it checks kernels that run elsewhere, and a target that is added to its bundle
later finds the plan that it would have had at first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.bundle import folder
from simgen.errors import SimgenError
from simgen.machine import find, named
from simgen.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from simgen.ir import Workload
    from simgen.machine import Machine
    from simgen.targets import Target

DEFAULT = "gem5-se"  # the target of whose machine a bundle is that runs anywhere


@dataclass(frozen=True)
class PlannedMachine:
    """A machine, and why it was taken."""

    machine: Machine
    why: str


def choose(text: str | None, targets: Sequence[Target]) -> PlannedMachine:
    """The machine that `text` (--plan-for) names, or that of the targets.

    Raises:
        UsageError: there is no such machine.
    """
    if text is not None:
        return PlannedMachine(find(text, f"--plan-for {text}"), "--plan-for names it")
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
