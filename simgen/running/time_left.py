"""How far a run has come and how long it will take, from its launches and what they have to do.

A launch counts by what its step needs: operations and words moved (`simgen.workload.costs`), shared
evenly by the launches of the step. What is left takes as long, for what it counts, as what has run.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from simgen.workload import costs

if TYPE_CHECKING:
    from simgen.ground.ir import Launch, Step, Workload
    from simgen.targets.base import Progress

MIN_SHARE_DONE = 0.01  # part of the work that must be done before the rest is predicted


@dataclass(frozen=True)
class Pace:
    """A moment of a run. Times are in seconds."""

    done: int  # launches that have ended
    total: int
    step: Step | None  # step whose launch is running; None: all have ended
    launch: Launch | None
    simulated: float | None  # time, where the target has one
    instructions: float | None
    passed: float  # since the start
    left: float | None  # None: too little has ended, or the guess has been wrong

    @property
    def simulated_per_second(self) -> float | None:
        """Simulated seconds for each second of this machine."""
        return self.simulated / self.passed if self.simulated and self.passed else None

    @property
    def instructions_per_second(self) -> float | None:
        return self.instructions / self.passed if self.instructions and self.passed else None


class Meter:
    """Follows one run of a workload."""

    def __init__(self, workload: Workload) -> None:
        self.pairs = [(step, launch) for step in workload.steps for launch in step.launches]
        self.sums = [0.0, *accumulate(costs.weights(workload))]
        self.done = 0
        self.since = 0.0  # when the last launch ended, as far as was seen

    def look(self, progress: Progress, passed: float) -> Pace:
        """What `progress` means, `passed` seconds after the start."""
        total = len(self.pairs)
        done = min(progress.launches, total)
        if done != self.done:
            self.done, self.since = done, passed
        step, launch = self.pairs[done] if done < total else (None, None)
        left = None
        if self.sums[done] > MIN_SHARE_DONE * self.sums[-1]:
            whole = self.since * self.sums[-1] / self.sums[done]
            left = whole - passed if whole > passed else None
        simulated, instructions = progress.simulated_seconds, progress.instructions
        return Pace(done, total, step, launch, simulated, instructions, passed, left)
