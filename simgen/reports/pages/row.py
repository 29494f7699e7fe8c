"""A line of a report: one layer and pass of one result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from simgen.bundle import result_names, verdict_file


@dataclass(frozen=True)
class Row:
    """What a result has of a layer in a pass: sums over its launches.

    Attributes:
        pass_: fwd, bwd, bwd_data, bwd_weight or sgd.
        operations, bytes: what the algorithm needs.
        metrics: what was measured, by name.
        verdict: the last one of `simgen diff`.
    """

    bundle: str
    workload: str
    planned_for: str  # a machine
    layer: str
    pass_: str
    type: str  # element types of its tensors, with commas
    result: str  # name of the result: a target, or TARGET@OPTION=VALUE,...
    operations: int  # operations that the algorithm needs: flops and transcendentals
    bytes: int  # bytes that it must move
    metrics: Mapping[str, float]
    # peak rates of the machine that ran it
    peaks: Mapping[str, float] = field(default_factory=dict)
    kind: str = ""  # kind of the layer
    verdict: str = verdict_file.UNCHECKED  # verdict of `simgen diff` against the reference
    inferred_from: str = ""  # the layers and passes that ran in its place; empty: it ran
    # float32 operations and bytes of DRAM in a second, of the machine that ran it, at most
    roof: tuple[float, float] | None = None
    steps: int = 0  # steps of the workload, layers and passes; a part of it has fewer rows
    # For metrics from samples of work-groups: half of the 95% confidence interval.
    errors: Mapping[str, float] = field(default_factory=dict)
    # What `simgen rates` found of the simulated machine to be far below what it is configured for;
    # None where that was never measured, empty where nothing is, or no simulator ran it.
    shortfall: str | None = ""
    options: Mapping[str, str] = field(
        default_factory=dict
    )  # options of the run that are not the usual ones
    launch_seconds: float = 0.0  # what its launches cost the machine that ran it in any case

    # what the bundle was built with, whatever its name tells
    built: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """The target that it ran on."""
        return result_names.target_of(self.result)

    @property
    def seconds(self) -> float:
        """Its time; NaN where the target counts none."""
        return self.metrics.get("seconds", math.nan)

    @property
    def settings(self) -> dict[str, str]:
        """What its names say was swept or given: settings of the build, options of the run."""
        return {
            **result_names.options_of(self.bundle),
            **result_names.options_of(self.result),
            **self.options,
        }

    def setting(self, name: str) -> str:
        """A setting that the names of this row or of others tell; empty if unknown."""
        return self.settings.get(name, self.built.get(name, ""))

    @property
    def step(self) -> str:
        return f"{self.layer} {self.pass_}"
