"""A small network that costs what a list of workloads does: one layer for each kind of theirs.

Each workload counts alike, whatever its size: its operations are divided by their sum, and so are
its bytes and its parameters. What remains is, for each kind of layer k and for one operation in
all, how many operations, how many compulsory bytes, and how many bytes of parameters that kind has
(`Profile`). A network of B operations should have B times as many of each. Its layers do not read
each other, so that each has the sizes that it needs.

A layer of a kind is one of the workloads', with the keys that it has there; of those that cost the
most, the one that fits best. What is changed are its extents and the keys that are sizes. Numbers
that are equal stay equal, as the features that a layer reads and those that the next one has. From
all shrunk alike, one after the other, or two against each other, are set to where the distance

    (ln operations ratio)^2 + (ln bytes ratio)^2 + s (ln ratio of bytes of parameters)^2,
    s = their share of the bytes, 1 at most

is smallest, until none moves. Small layers cannot have every intensity: a product of m x k by k x n
has less than min(m, n, k) / 2 operations for each byte of float32, and a third of that where all
three are alike. So how near it came is counted in the network that is written (`Distance`), and
told.

Source: the method of clustering by what parts cost, and of weights for them: T. Sherwood et al.,
"Automatically Characterizing Large Scale Program Behavior" (SimPoint), ASPLOS 2002; operation mix
and intensity as what characterizes a workload: S. Williams et al., "Roofline", CACM 52(4), 2009.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, permutations
from math import exp, log, log2
from typing import TYPE_CHECKING

from simgen.errors import ConfigError, UsageError
from simgen.frontend import config, network
from simgen.ground.ir import DType, Node, OpCount, Pass, TensorSpec, Workload
from simgen.layers import LAYERS, Layer
from simgen.layers.base import MAX_INT, field_types
from simgen.workload import costs, lowering

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simgen.ground.machine import Machine

MADE = ("sgd",)  # layers that pass sgd adds: they follow from parameters
SIZES = (
    "m", "n", "k", "batch", "num_output", "hidden_size", "vocabulary", "features", "candidates",
)  # fmt: skip
TRIED = 3  # layers of a kind, those that cost the most
LARGEST = 1024  # limit for any number, unless it is larger in the workloads
ROUNDS = 12
NOTHING = 1e-12  # operations for one in all: a kind without any


@dataclass(frozen=True)
class KindCost:
    """Cost of a kind of layer, for one operation of the whole workload."""

    operations: float = 0.0
    nbytes: float = 0.0  # bytes that must be read and written
    parameters: float = 0.0  # bytes of them

    def __add__(self, other: KindCost) -> KindCost:
        return KindCost(
            self.operations + other.operations,
            self.nbytes + other.nbytes,
            self.parameters + other.parameters,
        )

    def times(self, factor: float) -> KindCost:
        return KindCost(self.operations * factor, self.nbytes * factor, self.parameters * factor)

    @property
    def intensity(self) -> float:
        """Operations for each byte."""
        return self.operations / self.nbytes if self.nbytes else 0.0

    def distance(self, wanted: KindCost) -> float:
        """As the module's docstring has it."""
        found = log(max(self.nbytes, 1.0) / max(wanted.nbytes, 1.0)) ** 2
        if wanted.operations > NOTHING * wanted.nbytes:
            found += log(max(self.operations, 1.0) / max(wanted.operations, 1.0)) ** 2
        if wanted.parameters:
            weight = min(1.0, wanted.parameters / wanted.nbytes)
            apart = log(max(self.parameters, 1.0) / max(wanted.parameters, 1.0))
            found += weight * apart**2
        return found


Profile = dict[str, KindCost]  # by kind of layer


@dataclass(frozen=True)
class Imitated:
    """A workload that is to be imitated."""

    name: str
    workload: Workload
    layers: tuple[str, ...]  # names of those that its config has


@dataclass(frozen=True)
class Distance:
    """How far a profile is from the one that was wanted; all are 0 to 1.

    operations, traffic: the sum of the differences of all kinds' shares, halved (total variation).
    intensity: 1 - 2^-d, where d is the mean over kinds of |log2| of what their intensities differ
        by, each kind by its share of the bytes: 0.5 is a factor of two.
    parameters: the difference of parameters' shares of all bytes.
    """

    operations: float
    traffic: float
    intensity: float
    parameters: float

    @property
    def largest(self) -> float:
        return max(self.operations, self.traffic, self.intensity, self.parameters)

    def __str__(self) -> str:
        return (
            f"distance: operations {self.operations:.3f}, traffic {self.traffic:.3f}, "
            f"intensity {self.intensity:.3f}, parameters {self.parameters:.3f}"
        )


@dataclass(frozen=True)
class Synthesis:
    """A network, as the text of its config, and what it was made for."""

    text: str
    wanted: Profile  # for one operation
    made: Profile  # the same, counted in the network
    distance: Distance
    work: OpCount  # counts of the network


@dataclass(frozen=True)
class _Sized:
    """A layer with other numbers in the place of its own."""

    node: Node
    sizes: Mapping[int, int]  # a number of the layer -> what it has become

    def of(self, number: int) -> int:
        return self.sizes.get(number, number)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return tuple(
            TensorSpec(tuple(map(self.of, each.shape)), each.dtype) for each in self.node.inputs
        )

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return tuple(
            (key, str(self.of(int(text))) if _is_size(self.node.kind, key) else text)
            for key, text in self.node.parameters
        )

    def layer(self, machine: Machine) -> Layer:
        """Raises ConfigError or ValueError if there is no such layer."""
        entries = [(key, text, self.node.name) for key, text in self.parameters]
        made = LAYERS[self.node.kind].from_config(entries, machine).reading(self.inputs)
        made.output(self.inputs)
        return made

    def cost(self, passes: Sequence[Pass], machine: Machine) -> KindCost | None:
        """None: there is no such layer."""
        try:
            layer = self.layer(machine)
            steps = dict.fromkeys(own for each in passes for own in layer.steps(each))
            if any(each.size > MAX_INT for each in layer.outputs(self.inputs).values()):
                return None
            count = sum((layer.count(self.inputs, own) for own in steps), OpCount())
            ports = chain.from_iterable(layer.ports(self.inputs, own) for own in steps)
            parameters = {p.name: p.spec.nbytes for p in ports if p.name in layer.parameters}
        except (ConfigError, ValueError):
            return None
        moved = count.read_bytes + count.written_bytes
        work = count.flops + count.transcendentals
        return KindCost(float(work), float(moved), float(sum(parameters.values())))


def profile(workload: Workload) -> Profile:
    """What each kind of layer costs, for one operation of the workload.

    Raises:
        UsageError: it has no operations.
    """
    found: Profile = {}
    for each in costs.costs_of(workload):
        moved = each.count.read_bytes + each.count.written_bytes
        work = each.count.flops + each.count.transcendentals
        own = {name for step in workload.steps if step.layer == each.layer
               for port, name in step.reads if port in LAYERS[each.kind].parameters}  # fmt: skip
        held = sum(workload.buffer(name).spec.nbytes for name in own)
        steps = sum(step.layer == each.layer for step in workload.steps)
        cost = KindCost(float(work), float(moved), held / steps)
        found[each.kind] = found.get(each.kind, KindCost()) + cost
    whole = sum(each.operations for each in found.values())
    if not whole:
        cure = "name one that computes something"
        raise UsageError(f"{workload.name}: it only moves data, and has no operations; {cure}")
    return {kind: each.times(1 / whole) for kind, each in found.items()}


def synthesise(
    sources: Sequence[Imitated],
    passes: Sequence[Pass],
    operations: float,
    about: Sequence[str] = (),
) -> Synthesis:
    """A network of about so many operations in these passes that costs what the sources do.

    `about` are lines of what it was made with, for the comment that its config begins with.

    Raises:
        UsageError: a source has no operations.
    """
    wanted: Profile = {}
    for source in sources:
        for kind, each in profile(source.workload).items():
            wanted[kind] = wanted.get(kind, KindCost()) + each.times(1 / len(sources))
    machine = sources[0].workload.machine
    chosen = []
    for kind, nodes in _candidates(sources).items():
        aim = wanted[kind].times(operations)
        fits = [_fitted(node, aim, passes, machine) for node in nodes]
        found = [each for each in fits if each is not None]
        if found:
            chosen.append(min(found, key=lambda each: each[0])[1])
    text = _text(chosen, ())
    planned = _lowered(text, passes, machine)
    made = profile(planned)
    apart = distance(made, wanted)
    return Synthesis(
        _text(chosen, (*about, str(apart))),
        wanted,
        made,
        apart,
        costs.total(costs.costs_of(planned)),
    )


def _lowered(text: str, passes: Sequence[Pass], machine: Machine) -> Workload:
    resolved = network.resolve(config.parse(text, "the synthetic network"), machine=machine)
    return lowering.lower(resolved, "synthetic", passes, 0)


def _candidates(sources: Sequence[Imitated]) -> dict[str, list[Node]]:
    """By kind, the layers that cost the most in their workload, different ones."""
    cost: dict[str, dict[Node, float]] = {}
    for source in sources:
        found = costs.costs_of(source.workload)
        whole = sum(_weight(each.count) for each in found)
        for each in found:
            node = source.workload.node(each.layer)
            if each.layer in source.layers and node.kind not in MADE:
                own = cost.setdefault(node.kind, {})
                plain = replace(_complete(node), name=node.kind)
                own[plain] = own.get(plain, 0.0) + _weight(each.count) / whole
    return {kind: sorted(own, key=own.__getitem__)[: -TRIED - 1 : -1] for kind, own in cost.items()}


def _weight(count: OpCount) -> float:
    moved = count.read_bytes + count.written_bytes
    return count.flops + count.transcendentals + moved / costs.WORD


def _complete(node: Node) -> Node:
    """With all keys that are sizes, where no input says them."""
    layer = LAYERS[node.kind]
    given = {key for key, _ in node.parameters}
    if layer.takes_input or node.inputs:
        return node
    more = tuple(
        (name, str(each.default))
        for each in layer.keyed_fields()
        for name in each.metadata["keys"][:1]
        if _is_size(node.kind, name) and not given & set(each.metadata["keys"])
    )
    return replace(node, parameters=(*node.parameters, *more))


@cache
def _is_size(kind: str, key: str) -> bool:
    """Whether the key of such layers is an extent, and no factor of the same name."""
    layer = LAYERS[kind]
    fields = layer.config_keys().get(key, ())
    return key in SIZES and all(field_types(layer)[name] is int for name in fields)


def _fitted(
    node: Node, aim: KindCost, passes: Sequence[Pass], machine: Machine
) -> tuple[float, _Sized] | None:
    """(distance, the layer) where that is smallest; None: there is none."""
    keys = {int(text) for key, text in node.parameters if _is_size(node.kind, key)}
    numbers = sorted({extent for each in node.inputs for extent in each.shape} | keys - {0})

    def tried(sizes: Mapping[int, int]) -> float:
        cost = _Sized(node, sizes).cost(passes, machine)
        return cost.distance(aim) if cost else float("inf")

    shrunk = (
        {number: max(1, round(number**share)) for number in numbers}
        for share in (at / 20 for at in range(21))
    )
    best = min(shrunk, key=tried)
    least = tried(best)
    for _ in range(ROUNDS):
        before = least
        for other in _neighbours(best):
            found = tried(other)
            if found < least:
                best, least = other, found
        if least == before:
            break
    return None if least == float("inf") else (least, _Sized(node, best))


def _neighbours(sizes: Mapping[int, int]) -> Iterator[dict[int, int]]:
    """With another value of one number; then with one grown and another shrunk, which keeps their
    product, so that operations stay and bytes do not."""
    for number in sizes:
        for value in _ladder(max(number, LARGEST)):
            yield {**sizes, number: value}
    for one, other in permutations(sizes, 2):
        for factor in (2.0, 1.25, 1.1):
            grown, shrunk = round(sizes[one] * factor), round(sizes[other] / factor)
            if grown <= max(one, LARGEST) and shrunk:
                yield {**sizes, one: grown, other: shrunk}


def _ladder(most: int) -> Iterator[int]:
    """Numbers up to `most`: all small ones, then steps of about a quarter, at last multiples of
    4."""
    at = 1
    while at < most:
        yield at
        step = max(1, at // 4)
        at += step if at < 16 else max(4, step // 4 * 4)
    yield most


def distance(made: Profile, wanted: Profile) -> Distance:
    """How far one profile is from another."""
    kinds = made.keys() | wanted.keys()

    def shares(which: Profile, field: str) -> dict[str, float]:
        whole = sum(getattr(each, field) for each in which.values())
        return {kind: getattr(which.get(kind, KindCost()), field) / whole for kind in kinds}

    def variation(field: str) -> float:
        a, b = shares(made, field), shares(wanted, field)
        return sum(abs(a[kind] - b[kind]) for kind in kinds) / 2

    apart = weight = 0.0
    traffic = shares(wanted, "nbytes")
    for kind in kinds:
        a, b = (each.get(kind, KindCost()).intensity for each in (made, wanted))
        if a and b:
            apart += traffic[kind] * abs(log2(a / b))
            weight += traffic[kind]
    parameters = [
        sum(each.parameters for each in which.values()) / sum(e.nbytes for e in which.values())
        for which in (made, wanted)
    ]
    return Distance(
        variation("operations"),
        variation("nbytes"),
        1 - exp(-log(2) * apart / weight) if weight else 0.0,
        abs(parameters[0] - parameters[1]),
    )


def _text(chosen: Sequence[_Sized], about: Sequence[str]) -> str:
    """The config: each layer reads tensors of the data file."""
    lines = [*(f"# {line}" for line in about), "[DNNMark]", "run_mode=standalone"]
    for each in chosen:
        layer, names = LAYERS[each.node.kind], []
        for at, spec in enumerate(each.inputs):
            names.append(f"{each.node.name}_x{at}")
            lines += ["", "[Input]", f"name={names[-1]}"]
            lines.append("shape=" + "x".join(map(str, spec.shape)))
            lines += [f"type={spec.dtype}"] if spec.dtype != DType.F32 else []
        lines += ["", f"[{layer.section}]", f"name={each.node.name}"]
        lines += [f"previous_layer={','.join(names)}"] if names else []
        lines += [f"{key}={text}" for key, text in each.parameters]
    return "\n".join(lines) + "\n"
