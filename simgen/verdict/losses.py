"""The loss of each training step, in each result and in the reference.

Each layer of each step is judged from what it read in its result, so no bound grows with the steps.
The losses here are for people: the reference is the same training in float64 from the beginning,
which roundings lead away from, a little further with each step.

A classifier's accuracy is the part of the rows of a step's own batch whose score is the highest at
their label, before the step's update; rows whose label does not count are left out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import isnan
from typing import TYPE_CHECKING, Any

from simgen.frontend.network import make_layer
from simgen.ground.ir import Pass, Workload
from simgen.layers.loss.cross_entropy import CrossEntropy
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
        accuracies: likewise, of a classifier.
        seconds: likewise, the time of all launches up to the end of this training step.
    """

    step: int
    tensor: str
    reference: float
    results: dict[str, float]
    accuracies: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

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
    times = {result.name: _times(workload, result) for result in found}
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
            _accuracies(workload, at, inputs, [r for r in found if at in ran[r.name]]),
            {r.name: passed[step] for r in found if (passed := times[r.name]).get(step)},
        )
        for name, (at, step) in wanted.items()
    )


def _accuracies(
    workload: Workload, at: int, inputs: Mapping[str, NDArray[Any]], found: Sequence[Result]
) -> dict[str, float]:
    """Result -> part of the rows that a loss's scores have right; none of other losses."""
    step = workload.steps[at]
    layer = make_layer(workload.node(step.layer), workload.machine)
    reads = dict(step.reads)
    scores, labels = reads.get("x", ""), inputs.get(reads.get("labels", ""))
    if not isinstance(layer, CrossEntropy) or labels is None:
        return {}
    counts = labels.reshape(-1) != layer.ignore_index
    right = {}
    for result in found:
        if scores in result.outputs and counts.any():
            best = result.outputs[scores].values.argmax(axis=layer.axis).reshape(-1)
            right[result.name] = float((best == labels.reshape(-1))[counts].mean())
    return right


def _times(workload: Workload, result: Result) -> dict[int, float]:
    """Training step -> seconds from the first launch to its end; none where one has no time."""
    found: dict[int, float] = {}
    total, nth, before = 0.0, 1, None
    launches = iter(result.launches)
    for step in workload.steps:
        nth += before is Pass.UPDATE and step.direction is not Pass.UPDATE
        before = step.direction
        for _ in step.launches:
            total += next(launches).get("seconds", float("nan"))
        found[nth] = total
    return {} if isnan(total) else found


def reached(
    found: Sequence[StepLoss], *, loss: float | None = None, accuracy: float | None = None
) -> dict[str, StepLoss | None]:
    """Result -> the first step whose loss is at most this, or whose accuracy at least; None where
    no step's is."""
    names = dict.fromkeys(name for each in found for name in each.results)

    def enough(each: StepLoss, name: str) -> bool:
        if loss is not None:
            return each.results.get(name, float("inf")) <= loss
        return each.accuracies.get(name, -1.0) >= (accuracy or 0.0)

    return {name: next((e for e in found if enough(e, name)), None) for name in names}


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
