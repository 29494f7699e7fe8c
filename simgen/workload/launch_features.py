"""What is known of a launch before it runs: that by which its cost can be estimated."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from simgen.workload import costs

if TYPE_CHECKING:
    from simgen.ir import Workload


@dataclass(frozen=True)
class Features:
    """Of one launch.

    Attributes:
        template: the text that its kernel is made of.
        wavefronts: how many run in all, of 64 work-items.
        operations: that its step needs, for each of 64 work-items.
        nbytes: of the tensors that are its arguments, each once.
    """

    template: str
    wavefronts: int
    operations: float
    nbytes: int


WAVEFRONT = 64  # work-items; of the machines that are simulated


def of(workload: Workload) -> list[Features]:
    """The features of all launches, in their order."""
    found = []
    for step in workload.steps:
        count = costs.of_step(workload, step).count
        operations = (count.flops + count.transcendentals) / WAVEFRONT
        for launch in step.launches:
            kernel = workload.kernel(launch.kernel)
            wavefronts = prod(launch.grid) * -(-kernel.block // WAVEFRONT)
            used = dict.fromkeys(launch.args)
            nbytes = sum(workload.buffer(name).spec.held for name in used)
            found.append(Features(kernel.template, wavefronts, operations, nbytes))
    return found
