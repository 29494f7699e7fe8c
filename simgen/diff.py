"""Did it compute the right thing? Results against the reference, and against each other.

Each layer is judged by itself: its reference is computed in float64 from the inputs that it had
*in that result*, so that the layer's own tolerance holds however deep in a network it is, and the
first layer that fails is the one that is wrong. Layers that did not run, because the run was about
others, are not judged. Two results agree in an element when they are no
farther apart than both tolerances together and the distance of their references.

Where memory is reused, the inputs of most layers are gone: only the network's last tensors are
judged, by the bound that `simgen.chain` gives.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen import chain, data, results, shard
from simgen.compare import ULP_CLASSES, Comparison, suspicions
from simgen.errors import UsageError
from simgen.ir import Pass
from simgen.network import make_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from simgen.ir import Step, Workload
    from simgen.layers import Layer
    from simgen.results import Result

REFERENCE = "reference"
SLICE = 2**21  # elements compared at a time, where a layer treats each sample (n) by itself


@dataclass(frozen=True)
class Verdict:
    """One tensor of one step, in A and in B."""

    layer: str
    direction: str
    tensor: str
    comparison: Comparison
    suspicions: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return self.comparison.passed and not self.suspicions

    @property
    def exact(self) -> bool:
        """Whether every element had to have the same bits, but for the sign of a zero."""
        return self.comparison.exact == self.comparison.elements


@dataclass(frozen=True)
class Diff:
    a: str
    b: str
    verdicts: tuple[Verdict, ...]  # in the order of the workload's steps

    @property
    def passed(self) -> bool:
        return all(verdict.passed for verdict in self.verdicts)

    @property
    def first_diverging(self) -> Verdict | None:
        return next((verdict for verdict in self.verdicts if not verdict.passed), None)

    @property
    def failure(self) -> str:
        """Why the pair does not pass, in half a line; empty where it does."""
        first = self.first_diverging
        if first is None:
            return ""
        place = f"layer {first.layer}, {first.tensor}"
        if first.comparison.passed:  # equal, but nothing that proves anything
            return f"{place}, is distrusted: {first.suspicions[0]}"
        return f"{self.a} and {self.b} differ first in {place}"


def diff(
    workload: Workload,
    inputs: Mapping[str, NDArray[Any]],
    a: Result,
    b: Result | None,
    progress: Callable[[int, int], None] | None = None,
) -> Diff:
    """Compare `a` with `b`, or with the reference where `b` is None.

    Raises:
        UsageError: they are results of different workloads or different data.
    """
    for result in (a, b) if b else (a,):
        _check_same(workload, result)
    if chain.reuses_memory(workload):
        return Diff(a.name, b.name if b else REFERENCE, tuple(_whole(workload, inputs, a, b)))
    verdicts = []
    ran = set.intersection(*(results.steps(each, workload) for each in (a, b) if each))
    if b and not ran:
        raise UsageError(f"{a.name}, {b.name}: no layer ran in both; compare with the reference")
    for done, step in enumerate(workload.steps):
        if progress:
            progress(done, len(workload.steps))
        if done in ran:
            verdicts += _step(workload, step, inputs, a, b)
    return Diff(a.name, b.name if b else REFERENCE, tuple(verdicts))


def to_json(report: Diff) -> dict[str, Any]:
    """What `simgen diff --json` prints for one pair."""
    return {
        "a": report.a,
        "b": report.b,
        "passed": report.passed,
        "first_diverging_layer": v.layer if (v := report.first_diverging) else None,
        "tensors": [_verdict_json(verdict) for verdict in report.verdicts],
    }


def ulp_classes() -> list[str]:
    """Names of the classes of the ULP histogram, in order."""
    names = ["0", "1", "2"]
    names += [f"{low + 1}..{high}" for low, high in itertools.pairwise(ULP_CLASSES[2:-1])]
    return [*names, f"> {ULP_CLASSES[-2]}", "NaN or inf"]


def _check_same(workload: Workload, result: Result) -> None:
    if results.is_statistics_only(result):
        raise UsageError(
            f"{result.name}: leaves no outputs to compare, its results are statistics only; "
            "read them with simgen report"
        )
    names = {buffer.name: buffer.spec.shape for buffer in workload.outputs}
    got = {name: output.values.shape for name, output in result.outputs.items()}
    if got != names or len(result.launches) != len(workload.launches):
        raise UsageError(
            f"{result.name}: a result of another workload; run this bundle again on that target"
        )
    if result.provenance.get("data") != data.data_id(workload).hex():
        raise UsageError(
            f"{result.name}: a result from other input data; build with the same --seed and run it"
        )


def _step(
    workload: Workload,
    step: Step,
    inputs: Mapping[str, NDArray[Any]],
    a: Result,
    b: Result | None,
) -> list[Verdict]:
    layer = make_layer(workload.node(step.layer))
    comparisons = {port: Comparison(workload.buffer(name).spec.shape) for port, name in step.writes}
    for part in _slices(workload, step, layer):
        shapes = {
            p: workload.buffer(n).spec.shape for p, n in step.writes if p in layer.shape_given
        }
        wanted = [
            _expected(layer, step, inputs, result, part, shapes) for result in (a, b) if result
        ]
        for port, name in step.writes:
            ref_a, bound = wanted[0][0][port], wanted[0][1][port]
            ours = a.outputs[name].values[part]
            theirs: NDArray[Any] = ref_a
            if b:
                ref_b, bound_b = wanted[1][0][port], wanted[1][1][port]
                theirs = b.outputs[name].values[part]
                bound = bound + bound_b + np.abs(ref_a - ref_b)
            stride = theirs.size // len(theirs)
            comparisons[port].add((part.start or 0) * stride, ours, theirs, ref_a, bound)
    return [
        Verdict(
            step.layer, str(step.direction), name,
            comparisons[port], tuple(_suspicions(comparisons[port], name, a, b)),
        )
        for port, name in step.writes
    ]  # fmt: skip


def _whole(
    workload: Workload, inputs: Mapping[str, NDArray[Any]], a: Result, b: Result | None
) -> Iterator[Verdict]:
    """Verdicts on the outputs alone, from the reference of the whole network."""
    expected = chain.expected(workload, inputs)
    for step in workload.steps:
        for _, name in step.writes:
            if name not in expected:
                continue
            reference, bound = expected[name]
            comparison = Comparison(reference.shape)
            theirs = b.outputs[name].values if b else reference
            bound = 2 * bound if b else bound
            comparison.add(0, a.outputs[name].values, theirs, reference, bound)
            found = tuple(_suspicions(comparison, name, a, b))
            yield Verdict(step.layer, str(step.direction), name, comparison, found)


def _slices(workload: Workload, step: Step, layer: Layer) -> Iterator[slice]:
    """Slices of the first axis (N); one for everything where samples depend on each other."""
    if not layer.per_sample or step.direction is Pass.BACKWARD_WEIGHT:
        yield slice(None)
        return
    ports = [pair for pair in (*step.reads, *step.writes) if pair[0] not in layer.parameters]
    specs = [workload.buffer(name).spec for _, name in ports]
    n = specs[0].shape[0]
    each = max(spec.size // n for spec in specs)
    count = max(1, SLICE // each)
    for start in range(0, n, count):
        yield slice(start, min(start + count, n))


def _expected(
    layer: Layer,
    step: Step,
    inputs: Mapping[str, NDArray[Any]],
    result: Result,
    part: slice,
    shapes: Mapping[str, tuple[int, ...]],
) -> tuple[Mapping[str, NDArray[np.float64]], Mapping[str, NDArray[np.float64]]]:
    """(reference, tolerance) of the step, from what it read in `result`."""
    read = {
        port: (result.outputs[name].values if name in result.outputs else inputs[name])[
            slice(None) if port in layer.parameters else part
        ]
        for port, name in step.reads
    }
    tensors = {port: values.astype(np.float64) for port, values in read.items()}
    tensors |= {port: np.broadcast_to(np.nan, shape)[part] for port, shape in shapes.items()}
    # Of samples by themselves the bounds are the same in any share of the batch.
    whole = part == slice(None)
    gpus = int(result.provenance.get("machine", {}).get("gpus", 1)) if whole else 1
    with np.errstate(all="ignore"):  # what a wrong result holds may be anything
        return shard.expected(layer, tensors, step.direction, gpus)


def _suspicions(comparison: Comparison, name: str, a: Result, b: Result | None) -> Iterator[str]:
    results: Sequence[Result] = (a, b) if b else (a,)
    for which, result in enumerate(results):
        output = result.outputs[name]
        for text in suspicions(comparison, which, output.untouched, output.guard_intact):
            yield f"{result.name}: {text}"


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    c = verdict.comparison
    return {
        "layer": verdict.layer,
        "pass": verdict.direction,
        "tensor": verdict.tensor,
        "passed": verdict.passed,
        "elements": c.elements,
        "outside_tolerance": c.outside,
        "without_tolerance": c.exact,
        "max_error": _finite(c.max_error),
        "max_error_over_tolerance": _finite(c.max_ratio),
        "max_ulps": c.max_ulps,
        "ulps": dict(zip(ulp_classes(), c.ulps)),
        "nan_or_inf_on_one_side": c.special,
        "distrusted": list(verdict.suspicions),
        "worst": [
            {"index": list(p.index), "a": _finite(p.a), "b": _finite(p.b),
             "error": _finite(p.error), "tolerance": _finite(p.bound)}
            for p in c.worst
        ],
    }  # fmt: skip


def _finite(value: float) -> float | str:
    """JSON has no infinity and no NaN."""
    return value if np.isfinite(value) else str(value)
