"""Did it compute the right thing? Results against the reference, and against each other.

Each layer is judged by itself: its reference is computed in float64 from the inputs that it had *in
that result*, so that the layer's own tolerance holds however deep in a network it is, and the first
layer that fails is the one that is wrong. Beside the bound of each element, which a right element
never leaves, stands the judge of whole tensors (simgen/ground/numerics/spread.py), which sees what
is too small for the bounds of long sums; that a right tensor fails there has a probability of 1e-9.
Layers that did not run, because the run was about others, are not judged. Time steps of a layer are
judged in the same way: each from the states that the one before left in that result. Two results
agree in an element when they are no farther apart than both tolerances together and the distance of
their references. What the reference contradicts in one of them is wrong in the pair too, however
well the two agree.

All results and pairs are judged in one walk over the steps. A step's reference is computed once for
all results in which it read the same bits.

Where memory is reused, the inputs of most layers are gone: only the network's last tensors are
judged, by the bound that `simgen.workload.reference` gives, alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.ask.build import BuildChoices
from simgen.bundle import sampled
from simgen.errors import UsageError
from simgen.frontend.network import make_layer
from simgen.ground.dtypes import FLUSHED, DType
from simgen.ground.ir import Pass, Step, TensorSpec, Workload
from simgen.ground.numerics import ranged, storing
from simgen.ground.numerics.spread import Spread, both
from simgen.tensors import data_file
from simgen.verdict import shares
from simgen.verdict.compare import Beyond, Comparison, suspicions
from simgen.verdict.verdict import REFERENCE, Diff, Verdict
from simgen.workload import reference as chain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from simgen.bundle.results import Result
    from simgen.layers import Layer

    Arrays = Mapping[str, NDArray[Any]]
    # For each port that a step writes in one result: reference, bound, spread, what is out of
    # range.
    Expected = Mapping[
        str,
        tuple[NDArray[np.float64], NDArray[np.float64], Spread | None, "_Range | None"],
    ]
    Progress = Callable[[int, int], None]

SLICE = 2**21  # elements compared at a time, and computed, where a layer treats samples (n) alone


@dataclass
class _Pair:
    """A result and the reference, or two results, by their places, while they are judged."""

    a: int
    b: int | None
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def sides(self) -> tuple[int, ...]:
        return (self.a,) if self.b is None else (self.a, self.b)


@dataclass
class _Range:
    """What is left of a step's results where numbers on the way are out of float32's range.

    Computed where a result is out of tolerance, and once for all ports.
    """

    layer: Layer
    tensors: Arrays
    direction: Pass
    _log: dict[str, str] = field(default_factory=dict)

    def beyond(
        self,
        port: str,
        dtype: DType,
        reference: NDArray[np.float64],
        bound: NDArray[np.float64],
        part: slice,
    ) -> Beyond | None:
        values = self._found.get(port)
        if values is None or values.size != reference.size:
            return None
        values, reference, bound = values.reshape(-1)[part], reference[part], bound[part]
        sizes = self._sizes[port].reshape(-1)[part]
        with np.errstate(all="ignore"):
            large = sizes - np.abs(reference) >= DType.F32.overflow  # without the result itself
            # `values` are not rounded to the port's type.
            near = np.abs(values - reference) <= bound + storing.rounding(reference, dtype)
            infinite = np.isinf(values) & (np.abs(reference) >= DType.F32.overflow)
            same_sign = np.sign(values) == np.sign(reference)
        right = near | (values == reference) | np.isnan(reference) | (infinite & same_sign)
        lost = (values == 0) & (np.abs(reference) >= FLUSHED)
        mask = ~right | lost
        if not mask.any() and not large.any():
            return None
        return Beyond(mask, self._cause(sizes[large]), values, large)

    def _cause(self, large: NDArray[np.float64]) -> str:
        if self._log or not large.size:
            return ranged.cause(self._log)
        finite = large[np.isfinite(large)]
        size = f" of up to {np.max(finite):.3g}" if finite.size else ""
        return f"sums{size} on the way may overflow float32"

    @cached_property
    def _found(self) -> Arrays:
        with np.errstate(all="ignore"):
            given = {p: ranged.ranged(v, self._log) for p, v in self.tensors.items()}
            made = self.layer.as_computed(given, self.direction)
        return {port: np.asarray(values) for port, values in made.items()}

    @cached_property
    def _sizes(self) -> Arrays:
        """The sum of all numbers that are rounded for an element, or more, since its bound allows
        for each of their roundings."""
        with np.errstate(all="ignore"):
            return ranged.sizes(self.layer.tolerance(self.tensors, self.direction))


def diff(
    workload: Workload,
    inputs: Arrays,
    a: Result,
    b: Result | None,
    progress: Progress | None = None,
) -> Diff:
    """Compare `a` with `b`, or with the reference where `b` is None. Raises as `judge` does."""
    found, pairs = ((a, b), [(0, 1)]) if b else ((a,), [])
    return judge(workload, inputs, found, pairs, progress)[-1]


def judge(
    workload: Workload,
    inputs: Arrays,
    found: Sequence[Result],
    pairs: Sequence[tuple[int, int]] = (),
    progress: Progress | None = None,
) -> tuple[Diff, ...]:
    """Each result against the reference, then `pairs` of them, by their places in `found`.

    Raises:
        UsageError: they are results of different workloads or different data, or there is nothing
            to compare in one of them or in both of a pair.
    """
    for result in found:
        _check_same(workload, result)
    judged = [_Pair(at, None) for at in range(len(found))]
    judged += [_Pair(a, b) for a, b in pairs]
    if chain.reuses_memory(workload):
        _judge_last(workload, inputs, found, judged)
    else:
        _judge_steps(workload, inputs, found, judged, progress)
    return tuple(
        Diff(
            found[pair.a].name,
            REFERENCE if pair.b is None else found[pair.b].name,
            tuple(pair.verdicts),
            tuple(note for side in pair.sides for note in _notes(found[side])),
        )
        for pair in judged
    )


def _notes(result: Result) -> list[str]:
    """What was not run, and what its bounds allow for that is no rounding of a GPU."""
    inferred = len(result.inferred)
    of = f"{inferred} of {len(result.launches)} launches"
    ran = [f"{result.name}: {of} were not run, since others are like them"] if inferred else []
    taken = result.samples.keys() - result.inferred.keys()
    if taken:
        many = "1 launch" if len(taken) == 1 else f"{len(taken)} launches"
        ran.append(
            f"{result.name}: of {many} a sample of the work-groups ran; what the others would "
            "write was not computed, and nothing is said of it"
        )
    built = result.provenance.get("settings", {}).get("gem5_version", "")
    version = result.provenance.get("machine", {}).get("gem5_version", built)
    return ran + [
        f"{result.name}: gem5 {version} rounds each product of {each.factors} matrix instructions "
        f"to {each.factors}; the bounds of this result allow for that"
        for each in result.rounds_products
    ]


def _check_same(workload: Workload, result: Result) -> None:
    if result.is_statistics_only:
        raise UsageError(
            f"{result.name}: leaves only statistics, and no outputs to compare; "
            "read them with simgen report"
        )
    names = {buffer.name: buffer.spec.shape for buffer in workload.outputs}
    got = {name: output.values.shape for name, output in result.outputs.items()}
    ran = [workload.steps[at] for at in result.steps(workload)]
    wrote = {name for step in ran for _, name in step.writes if name in names}
    whole = wrote <= got.keys() if result.provenance.get("pieces") else got == names
    same = whole and got.items() <= names.items()
    if not same or len(result.launches) != len(workload.launches):
        raise UsageError(
            f"{result.name}: a result of another workload; run this bundle again on that target"
        )
    if result.provenance.get("data") != data_file.data_id(workload).hex():
        raise UsageError(
            f"{result.name}: a result from other input data; build with the same "
            f"{BuildChoices.seed} and run it again"
        )


def _judge_steps(
    workload: Workload,
    inputs: Arrays,
    found: Sequence[Result],
    judged: Sequence[_Pair],
    progress: Progress | None,
) -> None:
    ran = [result.steps(workload) for result in found]
    both = [set.intersection(*(ran[side] for side in pair.sides)) for pair in judged]
    for pair, steps in zip(judged, both, strict=True):
        if not steps and pair.b is not None:
            names = ", ".join(found[side].name for side in pair.sides)
            raise UsageError(f"{names}: no layer ran in both; compare with the reference")
        if not steps:
            name = found[pair.a].name
            raise UsageError(f"{name}: no layer ran, nothing to compare; run it again")
    for done in range(len(workload.steps)):
        if progress:
            progress(done, len(workload.steps))
        _judge_step(workload, done, inputs, found, [p for p, s in zip(judged, both) if done in s])


def _judge_step(
    workload: Workload,
    index: int,
    inputs: Arrays,
    found: Sequence[Result],
    judged: Sequence[_Pair],
) -> None:
    """Add the verdicts on what a step writes to the pairs that have it."""
    step = workload.steps[index]
    layer = make_layer(workload.node(step.layer), workload.machine)
    layers = [_as_there(layer, result) for result in found]
    shapes = chain.port_shapes(workload, step, layer)
    specs = {
        port: replace(workload.buffer(name).spec, shape=shapes[port]) for port, name in step.writes
    }
    given = {port: spec.shape for port, spec in specs.items() if port in layer.shape_given}
    taken = [result.samples for result in found]
    masks = [sampled.computed(workload, index, each) if each else {} for each in taken]
    comparisons = [
        {p: Comparison(s.shape, s.dtype, layer.by_reference) for p, s in specs.items()}
        for _ in judged
    ]
    have = [pair.a for pair in judged if pair.b is None]
    had = {at: _tensors_read(step, index, inputs, found[at], shapes) for at in have}
    for part in _slices(workload, step, layer, shapes):
        shared: list[tuple[Arrays, int, Layer, Expected]] = []
        expected = {
            at: _expected(layers[at], step, had[at], found[at], part, given, shared, specs)
            for at in have
        }
        for pair, made in zip(judged, comparisons, strict=True):
            for port, name in step.writes:
                wrote = (found[side].outputs[name].values for side in pair.sides)
                sides = [values.reshape(shapes[port])[part] for values in wrote]
                start = (part.start or 0) * (sides[0].size // len(sides[0]))
                own = [masks[side][name] for side in pair.sides if name in masks[side]]
                mask = np.logical_and.reduce(own)[start : start + sides[0].size] if own else None
                _compare(made[port], start, port, sides, [expected[s] for s in pair.sides], mask)
    for port, name in step.writes:
        compared = [made[port] for made in comparisons]
        _conclude(step, name, found, judged, compared)


def _as_there(layer: Layer, result: Result) -> Layer:
    """The layer with the bounds of what the simulator of a result is known to compute otherwise."""
    wrong = result.rounds_products
    if not wrong:
        return layer
    return replace(layer, machine=replace(layer.machine, rounds_products=wrong))


def _judge_last(
    workload: Workload, inputs: Arrays, found: Sequence[Result], judged: Sequence[_Pair]
) -> None:
    """Verdicts on the outputs alone, from the reference of the whole network."""
    whole = chain.expected(workload, inputs)
    for step in workload.steps:
        for _, name in step.writes:
            if name not in whole:
                continue
            spec, expected = workload.buffer(name).spec, {name: (*whole[name], None, None)}
            compared = [Comparison(spec.shape, spec.dtype) for _ in judged]
            for pair, made in zip(judged, compared, strict=True):
                sides = [found[side].outputs[name].values for side in pair.sides]
                _compare(made, 0, name, sides, [expected] * len(sides))
            _conclude(step, name, found, judged, compared)


def _conclude(
    step: Step,
    name: str,
    found: Sequence[Result],
    judged: Sequence[_Pair],
    compared: Sequence[Comparison],
) -> None:
    """A verdict for each pair; those with the reference come first."""
    wrong = set()
    for pair, comparison in zip(judged, compared, strict=True):
        of_both = tuple(found[side].name for side in pair.sides if side in wrong)
        texts = tuple(_suspicions(comparison, name, [found[side] for side in pair.sides]))
        verdict = Verdict(step.layer, str(step.direction), name, comparison, texts, of_both)
        if pair.b is None and not verdict.passed:
            wrong.add(pair.a)
        pair.verdicts.append(verdict)


def _compare(
    into: Comparison,
    start: int,
    port: str,
    sides: Sequence[NDArray[Any]],
    expected: Sequence[Expected],
    mask: NDArray[np.bool_] | None = None,
) -> None:
    """Add elements from `start` on of one result and the reference, or of two results; of those
    that were not all computed, what `mask` has."""
    values = [side.reshape(-1) for side in sides]
    references = [each[port][0].reshape(-1) for each in expected]
    bounds = [each[port][1].reshape(-1) for each in expected]
    spreads = [each[port][2] for each in expected]
    for at in range(0, values[0].size, SLICE):
        part = slice(at, at + SLICE)
        reference, bound, spread = references[0][part], bounds[0][part], _part(spreads[0], part)
        theirs: NDArray[Any] = reference
        apart: NDArray[np.float64] | float = 0.0
        if len(sides) == 2:
            theirs, other = values[1][part], _part(spreads[1], part)
            with np.errstate(invalid="ignore"):  # both may be infinite
                apart = reference - references[1][part]
            bound = bound + bounds[1][part] + np.abs(apart)
            spread = both(spread, other) if spread and other else None
        kept = None if mask is None else mask[part]
        beyond = partial(_beyond, port, into.dtype, expected, references, part)
        into.add(start + at, values[0][part], theirs, reference, bound, spread, apart, kept, beyond)


def _beyond(
    port: str,
    dtype: DType,
    expected: Sequence[Expected],
    references: Sequence[NDArray[np.float64]],
    part: slice,
) -> Beyond | None:
    """What is out of range in one result, or in one of two."""
    found = [
        around.beyond(port, dtype, reference, each[port][1].reshape(-1), part)
        for each, reference in zip(expected, references, strict=True)
        if (around := each[port][3])
    ]
    made = [each for each in found if each]
    if len(expected) == 1 or not made:
        return next(iter(made), None)
    masks = [each.mask if each.large is None else each.mask | each.large for each in made]
    return Beyond(np.any(masks, axis=0), made[0].cause)


def _part(spread: Spread | None, part: slice) -> Spread | None:
    return spread and spread.part(part)


def _slices(
    workload: Workload, step: Step, layer: Layer, shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[slice]:
    """Slices of the first axis (N); one for everything where samples depend on each other."""
    by_sample = layer.by_sample(workload.node(step.layer).inputs)
    if not by_sample or step.direction is Pass.BACKWARD_WEIGHT:
        yield slice(None)
        return
    seen = [shapes[port] for port, _ in (*step.reads, *step.writes) if port not in layer.parameters]
    n = seen[0][0]
    each = max(prod(shape) // n for shape in seen)
    count = max(1, SLICE // each)
    for start in range(0, n, count):
        yield slice(start, min(start + count, n))


def _expected(
    layer: Layer,
    step: Step,
    had: Arrays,
    result: Result,
    part: slice,
    given: Mapping[str, tuple[int, ...]],
    shared: list[tuple[Arrays, int, Layer, Expected]],
    specs: Mapping[str, TensorSpec],
) -> Expected:
    """What the step should write in `result`, from the tensors that it `had` there.

    `shared` has what was read and expected in other results, and gets this one's.
    """
    read = {
        port: had[port][slice(None) if port in layer.parameters else part] for port, _ in step.reads
    }
    carried = layer.carried(step.direction)
    read |= {p: result.outputs[name].values[part] for p, name in step.writes if p in carried}
    # If samples are independent, bounds are the same in any share of the batch.
    whole = part == slice(None) and step.direction is not Pass.UPDATE
    gpus = result.provenance.get("gpus", 1) if whole else 1
    for other, count, judged_by, expected in shared:
        same = count == gpus and judged_by == layer
        if same and all(_same_bits(read[port], other[port]) for port in read):
            return expected
    with np.errstate(all="ignore"):  # what a wrong result holds may be anything
        tensors = {port: chain.wide(values) for port, values in read.items()}
        tensors |= {port: np.broadcast_to(np.nan, shape)[part] for port, shape in given.items()}
        found = shares.expected(layer, tensors, step.direction, gpus, specs)
        around = _Range(layer, tensors, step.direction)
        expected = {port: (*each, around) for port, each in found.items()}
    shared.append((read, gpus, layer, expected))
    return expected


def _tensors_read(
    step: Step,
    index: int,
    inputs: Arrays,
    result: Result,
    shapes: Mapping[str, tuple[int, ...]],
) -> Arrays:
    """What the step with this index read in a result, by port, in the shapes that it saw."""
    found = {}
    for port, name in step.reads:
        if (index, name) in result.given:
            values = result.given[index, name]
        else:
            values = result.outputs[name].values if name in result.outputs else inputs[name]
        found[port] = values.reshape(shapes[port])
    return found


def _same_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a is b or np.array_equal(_bits(a), _bits(b))


def _bits(values: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(values).view(f"<u{values.itemsize}")


def _suspicions(comparison: Comparison, name: str, sides: Sequence[Result]) -> Iterator[str]:
    for which, result in enumerate(sides):
        output = result.outputs[name]
        for text in suspicions(comparison, which, output.untouched, output.guard_intact):
            yield f"{result.name}: {text}"
