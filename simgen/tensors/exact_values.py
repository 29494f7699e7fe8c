"""Inputs of whole numbers, so small that sums of the workload's layers are exact in float32.

A layer tells how many terms the sums of a pass have (`Layer.sums`). Where all terms of a sum come
from the data file, numbers up to a are drawn such that

    a^2 * terms <= 2^24

and no sum of them is rounded, whatever the numbers are (simgen/ground/numerics/exactness.py). There
are no zeros among them, so that each product counts in its sum. (Where sums are so long that the
numbers have few bits, a kernel that rounds its inputs to a narrower type changes nothing: random
values show that.)

In a network, sums are terms of the next sums, and grow. Weights are then -1, 0 and 1, with so many
zeros that a sum of squares grows by g^2 from one layer to the next: of k terms, a share 2 g^2 / k
(He et al. 2015, who count that activations lose half of it). Behind n such layers numbers are about
g^n, and sums of the absolute values of terms g^n 2 g^2, or g^m g^n terms, where gradients of
parameters multiply what comes from both sides. g is as large as these stay below 2^20, which leaves
a factor of 16 to chance. Where a tensor has a type that ends below 2^24, as f16 does, these limits
are lower by as much. How exact a result is, `simgen diff` finds in the tensors themselves.

Inputs of a layer whose sums are never exact, or that gets what such a layer wrote, stay as they
are.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from math import floor, sqrt
from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices
from simgen.errors import UsageError
from simgen.frontend.network import make_layer
from simgen.ground.ir import Buffer, Distribution, DType, Fill, Role, Workload
from simgen.tensors import sparse_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.layers.base import Sums

WORD = "exact"  # in place of a file of --values
MAX_GRAINS = round(1 / DType.F32.roundoff)  # grains of a number of the type that kernels compute in
AIM = 2**20  # grains of sums that are not bounded but estimated
LARGEST = 300  # largest number; more than bfloat16's 8 bits hold, which would round
LARGEST_AT_START = 8  # the same where no sums ask for more, and at the start of a network


@dataclass(frozen=True)
class _Step:
    """What a step means for the size of its inputs."""

    sums: Sums
    given: int  # factors of a term that come from the data file, weights apart
    depth: int  # layers with weights that the other factors went through, together
    weighted: bool


@dataclass
class _Survey:
    """The steps whose sums can be exact."""

    depths: dict[str, int] = field(default_factory=dict)  # depths of whole tensors that steps wrote
    broken: set[str] = field(default_factory=set)  # tensors that are not whole
    # terms of weights
    terms: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    inputs: set[str] = field(default_factory=set)  # inputs that get new values
    integers: bool = False  # whether a step reads any: its sums are exact in any case
    steps: list[_Step] = field(default_factory=list)


def with_exact_values(workload: Workload) -> Workload:
    """The workload with whole numbers in place of other random values, where that may help.

    Raises:
        UsageError: it helps nowhere.
    """
    survey = _survey(workload)
    if not survey.inputs and not survey.integers:
        raise UsageError(
            f"{BuildChoices.values} {WORD}: no layer of {workload.name} has "
            "exact sums of inputs that are exact "
            f"themselves; leave it out, or choose an {BuildChoices.algo} other than fft"
        )
    ends = (b.spec.dtype.largest for b in workload.buffers if b.spec.dtype.is_float)
    largest, weights = _sizes(survey, min(1.0, min(ends, default=MAX_GRAINS) / MAX_GRAINS))
    buffers = []
    for buffer in workload.buffers:
        if buffer.name in survey.inputs and buffer.fill:
            whole, clips = weights.get(buffer.name, largest), (buffer.fill.low, buffer.fill.high)
            # largest whole number of the type
            most = min(whole.a, 2.0 ** (buffer.spec.dtype.mantissa + 1))
            buffer = replace(buffer, fill=replace(whole, a=most, low=clips[0], high=clips[1]))
        buffers.append(buffer)
    return replace(workload, buffers=tuple(buffers))


def _survey(workload: Workload) -> _Survey:
    found = _Survey()
    buffers = {buffer.name: buffer for buffer in workload.buffers}
    for step in workload.steps:
        node = workload.node(step.layer)
        layer = make_layer(node, workload.machine)
        sums = layer.sums(node.inputs, step.direction)
        read = {name for _, name in step.reads}
        if _is_integer(buffers[step.reads[0][1]]):
            found.integers = True
            found.broken |= {name for _, name in step.writes if buffers[name].spec.dtype.is_float}
            continue
        if sums is None or read & found.broken:
            found.broken |= {name for _, name in step.writes}
            continue
        weights = {name for port, name in step.reads if port in layer.parameters}
        for name in weights:
            found.terms[name] = max(found.terms[name], sums.terms)
        found.inputs |= {name for name in read if _is_drawn(buffers[name])}
        data = read - weights
        depth = sum(found.depths.get(name, 0) for name in data)
        given = len({name for name in data if buffers[name].role is Role.INPUT})
        found.steps.append(_Step(sums, given, depth, bool(weights)))
        for _, name in step.writes:
            found.depths[name] = depth + bool(weights)
            if not sums.whole:
                found.broken.add(name)
    return found


def _is_drawn(buffer: Buffer) -> bool:
    return buffer.role is Role.INPUT and buffer.spec.dtype.is_float


def _is_integer(buffer: Buffer) -> bool:
    """Whether it holds whole numbers to compute with, and no indices."""
    fill = buffer.fill and buffer.fill.distribution
    return not buffer.spec.dtype.is_float and fill not in (
        *sparse_pattern.INDICES,
        Distribution.ZIPF,
        Distribution.ROUTES,
    )


def _sizes(survey: _Survey, room: float) -> tuple[Fill, dict[str, Fill]]:
    """Fills of inputs, and those of weights, by buffer, that have others.

    `room` is the share of float32's numbers up to MAX_GRAINS that the types of tensors have.
    """
    longest = max((step.sums.terms * step.sums.growth for step in survey.steps), default=1)
    if not any(step.depth for step in survey.steps):
        largest = min(
            LARGEST if longest > 1 else LARGEST_AT_START, floor(sqrt(room * MAX_GRAINS / longest))
        )
        share = 1.0 if largest else sqrt(room * AIM / longest)
        return _whole_fill(max(1, largest), share), {}
    chosen, growth = 1, 1.0
    for largest in (LARGEST_AT_START, 4, 2, 1):
        chosen, growth = (
            largest,
            min(_growths(survey, largest, room * AIM), default=float(MAX_GRAINS)),
        )
        if growth >= 2:
            break
    kept = 2 * max(1.0, growth) ** 2
    weights = {name: _whole_fill(1, min(1.0, kept / terms)) for name, terms in survey.terms.items()}
    return _whole_fill(chosen, 1.0), weights


def _growths(survey: _Survey, largest: int, aim: float) -> Iterator[float]:
    """What each step leaves as growth from layer to layer, for inputs up to `largest`."""
    for step in survey.steps:
        room = aim / (largest**step.given * step.sums.growth)
        if step.weighted:
            yield (room / 2) ** (1 / (step.depth + 2))
        elif step.depth:
            yield (room / step.sums.terms) ** (1 / step.depth)


def _whole_fill(largest: int, share: float) -> Fill:
    return Fill(Distribution.WHOLE, float(largest), share)
