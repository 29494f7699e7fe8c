"""What simulating a workload will take: instructions, simulated time, this machine's time, memory.

`data/costs.json` has, by target, what was fitted to runs (benchmarks/costs): a launch has

    instructions = W a + F b + B c     by template: wavefronts, operations / 64, words / 64
    host seconds = instructions h      by template, on the machine of the fit
    seconds      = k0 (+ f for the first) + k1 instructions / W / clock
                   + k2 instructions / units / clock + k3 bytes / DRAM bandwidth

and templates that no run had take the median of the others. How much faster or slower this machine
and this build of the simulator are tells a probe: a small workload, run once, whose host time is
divided by what the fit says of it. It is kept in the user's cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated

from simgen.errors import UsageError, did_you_mean
from simgen.ground import resources
from simgen.ground.storage.files import read_regular
from simgen.ground.storage.schema import Within, from_json, parse
from simgen.workload import launch_features, pieces

if TYPE_CHECKING:
    from simgen.ground.ir import Workload
    from simgen.targets import Target
    from simgen.workload.launch_features import Features
    from simgen.workload.pieces import Piece

FILE = "costs.json"
MAX_NBYTES = 2**20
WORD = 256  # bytes of a word of each of 64 work-items
Factor = Annotated[float, Within(0, 1e12)]


@dataclass(frozen=True)
class TemplateCost:
    """Costs of launches of one template."""

    wavefront: Factor  # instructions of each
    operation: Factor  # instructions for an operation of 64 work-items
    word: Factor  # instructions for a word of 64 work-items
    host: Factor  # seconds of an instruction, on the machine of the fit


@dataclass(frozen=True)
class TargetCosts:
    """Costs of one target."""

    templates: Mapping[str, TemplateCost]
    other: TemplateCost  # cost of any other template
    launch: Factor  # seconds that each takes in any case
    first: Factor  # additional cost of the first launch in a process
    latency: Factor  # cycles of an instruction of one wavefront
    issue: Factor  # cycles of an instruction of a compute unit
    dram: Factor  # factor for the time that the bytes take at the DRAM's bandwidth
    start: Factor  # seconds that a process takes, on the machine of the fit
    memory: Factor  # bytes of a process
    arena: Factor  # bytes for each byte of tensors


@dataclass(frozen=True)
class Cost:
    """What launches take."""

    instructions: float
    seconds: float  # simulated
    host: float  # seconds of one process

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.instructions + other.instructions,
            self.seconds + other.seconds,
            self.host + other.host,
        )


NONE = Cost(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Estimate:
    """Estimate of a workload on a target."""

    launches: tuple[Cost, ...]
    start: float  # host seconds of each process
    memory: int  # bytes of each process

    def of(self, workload: Workload, step: int) -> Cost:
        first = workload.first_launches[step]
        return sum(self.launches[first : first + len(workload.steps[step].launches)], NONE)

    @property
    def whole(self) -> Cost:
        """Cost of all launches and of the process that runs them."""
        return sum(self.launches, Cost(0.0, 0.0, self.start))

    def sampled(self, shares: Mapping[int, float]) -> Estimate:
        """The same where of these launches, by index, only such a part of the work-groups runs."""
        launches = [
            Cost(cost.instructions * share, cost.seconds, cost.host * share)
            for cost, share in (
                (cost, shares.get(at, 1.0)) for at, cost in enumerate(self.launches)
            )
        ]
        return replace(self, launches=tuple(launches))

    def of_piece(self, workload: Workload, piece: Piece) -> float:
        """Host seconds of its process: what runs uncounted, what is measured, and the start."""
        return self.start + sum(self.of(workload, at).host for at in piece.all)

    def by_pieces(self, workload: Workload, cuts: Sequence[Piece], jobs: int) -> float:
        """Host seconds of these pieces, so many at a time.

        The largest that is left begins when a process has ended.
        """
        free = [0.0] * jobs
        weights = pieces.weights(workload, cuts)
        for piece in sorted(cuts, key=weights.__getitem__, reverse=True):
            free[free.index(min(free))] += self.of_piece(workload, piece)
        return max(free)


@cache
def table() -> Mapping[str, TargetCosts]:
    """What was fitted, by target."""
    path = resources.folder("data") / FILE
    return from_json(dict[str, TargetCosts], parse(read_regular(path, MAX_NBYTES)))


def estimate(workload: Workload, target: Target, factor: float = 1.0) -> Estimate:
    """What a run takes; `factor`: how much longer this machine takes than that of the fit.

    Raises:
        UsageError: nothing was fitted for the target.
    """
    known = table()
    if target.name not in known:
        fact = f"--cost: no costs were fitted for {target.name}"
        raise UsageError(f"{fact}; {did_you_mean(target.name, known)}")
    costs = known[target.name]
    launches = [
        _cost(each, costs, workload, factor) for each in launch_features.features_of(workload)
    ]
    launches[0] += Cost(0.0, costs.first, 0.0)
    memory = round(costs.memory + costs.arena * workload.arena_nbytes)
    return Estimate(tuple(launches), costs.start * factor, memory)


def _cost(features: Features, costs: TargetCosts, workload: Workload, factor: float) -> Cost:
    machine = workload.machine
    of = costs.templates.get(features.template, costs.other)
    count = (
        features.wavefronts * of.wavefront
        + features.operations * of.operation
        + features.nbytes / WORD * of.word
    )
    seconds = (
        costs.launch
        + costs.latency * count / features.wavefronts / machine.clock
        + costs.issue * count / machine.units / machine.clock
        + costs.dram * features.nbytes / machine.dram_rate
    )
    return Cost(count, seconds, count * of.host * factor)
