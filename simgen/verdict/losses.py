"""The loss of each training step, in each result and in the reference.

Each layer of each step is judged from what it read in its result, so no bound grows with the steps.
The losses here are for people: the reference is the same training in float64 from the beginning,
which roundings lead away from, a little further with each step.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from simgen.frontend.network import make_layer
from simgen.ground.ir import Pass, Workload
from simgen.layers.loss.mean import Loss
from simgen.workload import reference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from simgen.bundle.results import Result
    from simgen.verdict.diff import Progress


@dataclass(frozen=True)
class StepLoss:
    """One loss in one training step.

    Attributes:
        step: from 1 on.
        tensor: the loss, as results have it.
        reference: in float64.
        results: by result; of those in which it ran.
    """

    step: int
    tensor: str
    reference: float
    results: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def losses_of(
    workload: Workload,
    inputs: Mapping[str, NDArray[Any]],
    found: Sequence[Result],
    progress: Progress | None = None,
) -> tuple[StepLoss, ...]:
    """All losses of the workload in these results, by steps; none where nothing is trained, or
    there is too little memory for the whole training. `progress` is told (steps done, all)."""
    wanted = _losses(workload)
    if reference.reuses_memory(workload) or not wanted:
        return ()
    right: dict[str, float] = {}
    most = max(at for at, _ in wanted.values()) + 1
    try:
        for done, (_, made) in enumerate(reference.run(workload, inputs), 1):
            if progress:
                progress(done, most)
            right |= {name: float(made[name][0]) for name in wanted if name in made}
            if len(right) == len(wanted):
                break
    except MemoryError:  # verdicts need less: they hold one step at a time
        return ()
    ran = {result.name: result.steps(workload) for result in found}
    return tuple(
        StepLoss(
            step,
            name,
            right[name],
            {
                result.name: float(result.outputs[name].values[0])
                for result in found
                if at in ran[result.name]
            },
        )
        for name, (at, step) in wanted.items()
    )


def _losses(workload: Workload) -> dict[str, tuple[int, int]]:
    """Tensor of a loss -> (index of what writes it, training step)."""
    if not any(step.direction is Pass.UPDATE for step in workload.steps):
        return {}
    layers = {node.name: make_layer(node, workload.machine) for node in workload.nodes}
    found: dict[str, tuple[int, int]] = {}
    counts: dict[str, int] = {}
    for at, step in enumerate(workload.steps):
        if step.direction is Pass.FORWARD and isinstance(layers[step.layer], Loss):
            counts[step.layer] = counts.get(step.layer, 0) + 1
            found[dict(step.writes)["y"]] = (at, counts[step.layer])
    return found
