"""A line of a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simgen.bundle import verdict_file

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Row:
    """What one target measured for one step: sums over the step's launches."""

    bundle: str
    workload: str
    planned_for: str  # a machine
    layer: str
    direction: str
    types: str  # of the elements of its tensors
    target: str
    operations: int  # that the algorithm needs: flops and transcendentals
    nbytes: int  # that it must move
    metrics: Mapping[str, float]
    peaks: Mapping[str, float] = field(default_factory=dict)  # of the machine that ran it
    kind: str = ""  # of the layer
    verdict: str = verdict_file.UNCHECKED  # of `simgen diff`, against the reference
    inferred_from: str = ""  # the layers and passes that ran in its place; empty: it ran
    # float32 operations and bytes of DRAM in a second, of the machine that ran it, at most
    roof: tuple[float, float] | None = None
    steps: int = 0  # of the workload, layers and passes; of a part of it there are fewer rows
    # Of metrics that samples of work-groups tell, half of the interval that holds 95 of 100.
    errors: Mapping[str, float] = field(default_factory=dict)
    # What `simgen rates` found of the simulated machine to be far below what it is configured for;
    # None where that was never measured, empty where nothing is, or no simulator ran it.
    shortfall: str | None = ""
    options: Mapping[str, str] = field(default_factory=dict)  # of the run, that are not as usual

    @property
    def step(self) -> str:
        return f"{self.layer} {self.direction}"
