"""A layer made smaller, so that a simulator can run it, with what its kernels meet kept.

Among the problems with at most the wanted operations, whose extents are smaller by whole tiles of
the kernel, and so leave the same remainders of tiles, planned for the machine or for one like it
with a half, a quarter, ... of its compute units, the one is taken

1. that has the same kernel: algorithm (which is set, where a layer has a choice), tile, sums whole
   or in chunks
2. whose operations per byte and work-groups per compute unit are nearest: the sum of the binary
   logarithms of both ratios is the least

and the first rule gives way where no problem keeps it. What was kept and what was not is told.
Filters, pads and strides stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import log2, prod
from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices
from simgen.errors import UsageError
from simgen.layers import LAYERS, Layer
from simgen.layers.base import CHUNKS, EXTENTS, SHAPE, Choice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simgen.frontend.network import Network, Placed
    from simgen.ground.ir import Pass, TensorSpec
    from simgen.ground.machine import Machine

OPTION = BuildChoices.scale_to
UNITS = "num_compute_units"  # the option of runs
PROBLEMS = 2000  # approximate number of problems that are counted
PLANNED = 12  # problems planned for each machine: those with the nearest operations per byte
# part of the wanted operations: smaller problems are not planned, if larger ones are
LEAST_SHARE = 0.4
ALIKE = 0.1  # relative difference up to which a figure is reported as kept


@dataclass(frozen=True)
class Scaled:
    """Settings that make the layer smaller, the machine for it, and what is to be told."""

    settings: tuple[tuple[str, str], ...]
    machine: Machine
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Figures:
    """What of a problem is to be kept."""

    kernel: tuple[str, ...]  # what was chosen for it
    intensity: float  # operations per compulsory byte
    groups: float  # work-groups of its largest launch, for each compute unit

    def distance(self, other: Figures) -> tuple[bool, float]:
        ratios = (self.intensity / other.intensity, self.groups / other.groups)
        return self.kernel != other.kernel, sum(abs(log2(ratio)) for ratio in ratios)


@dataclass(frozen=True)
class Smaller:
    """A problem with smaller extents."""

    placed: Placed
    direction: Pass
    extents: Mapping[str, int]
    fixed: tuple[tuple[str, str], ...] = ()  # what was chosen for the whole problem

    def layer(self, machine: Machine) -> Layer:
        """It, planned for a machine."""
        node, axes = self.placed.node, _axes(self.placed.layer)
        own = {k: str(v) for k, v in self.extents.items() if k not in axes}
        texts = {**dict(node.parameters), **dict(self.fixed), **own}
        return LAYERS[node.kind].from_config(((k, v, node.name) for k, v in texts.items()), machine)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        given = self.placed.node.inputs
        axes = _axes(self.placed.layer)
        if not axes:
            return given
        x = given[0]
        sizes = zip(axes, x.shape, strict=True)
        smaller = replace(x, shape=tuple(self.extents.get(key, size) for key, size in sizes))
        if len(given) == 1:
            return (smaller,)
        return self.layer(self.placed.layer.machine).workload_inputs(smaller)

    def cost(self) -> tuple[float, float]:
        """Operations, and operations per compulsory byte.

        Raises:
            ValueError: a filter does not fit any more, or the algorithm.
        """
        layer = self.layer(self.placed.layer.machine)
        count = layer.count(self.inputs, self.direction)
        return count.flops, count.flops / (count.read_bytes + count.written_bytes)

    def figures(self, machine: Machine) -> Figures:
        layer, inputs = self.layer(machine), self.inputs
        layer.output(inputs)
        chosen = map(_without_number, layer.choices(inputs, self.direction))
        groups = max(prod(e.grid) for e in layer.lower(inputs, self.direction).launches)
        return Figures(tuple(chosen), self.cost()[1], groups / machine.units)


def scaled(network: Network, passes: Sequence[Pass], most: float) -> Scaled:
    """The only layer of a network, in one pass, with at most so many operations.

    Raises:
        UsageError: there are several layers or passes, it cannot be made smaller at all, or not
            so small.
    """
    where = f"{OPTION} {most:g}"
    placed, direction = _only(network, passes, where)
    full = Smaller(placed, direction, {})
    work, intensity = full.cost()
    machine = network.machine
    if work <= most:
        return Scaled((), machine, (f"not scaled: {work:.3g} operations, at most {most:g}",))
    tiles = placed.layer.tiles(placed.node.inputs, direction)
    sizes = {key: _value(placed, key) for key in tiles}
    if not sizes:
        fact = f"[{placed.layer.section}] has no rule for that in pass {direction}"
        raise UsageError(f"{where}: {fact}; set its sizes with {BuildChoices.set}")
    fixed = _algorithm(placed, direction)
    costs = list(_smaller(placed, direction, sizes, tiles, fixed))
    near = [each for each in costs if each[0] <= most]
    if not near:
        least = min(flops for flops, _, _ in costs)
        raise UsageError(f"{where}: the least problem like it has {least:.3g}; give that or more")
    near = [each for each in near if each[0] >= LEAST_SHARE * most] or near
    near.sort(key=lambda each: (abs(log2(each[1] / intensity)), -each[0]))
    wanted = full.figures(machine)
    distance, flops, units, made = min(
        (
            (small.figures(each).distance(wanted), -flops, -each.units, at)
            for each in _machines(machine)
            for at, (flops, _, small) in enumerate(near[:PLANNED])
        ),
    )
    del distance
    chosen, fewer = near[made][2], _with_units(machine, -units)
    changed = {key: size for key, size in chosen.extents.items() if size != sizes[key]}
    told = ", ".join(f"{key} {size} of {sizes[key]}" for key, size in changed.items())
    told += "".join(f", {key}={value}" for key, value in fixed)
    notes = [f"scaled down to {-flops:.3g} operations of {work:.3g}: {told}"]
    if fewer != machine:
        notes.append(
            f"for {fewer.units} of {machine.units} compute units: run it with "
            f"--{UNITS.replace('_', '-')} {fewer.units}"
        )
    remainders = ", ".join(f"{key} by {step}" for key, step in tiles.items())
    notes += _comparison(chosen.figures(fewer), wanted, remainders)
    return Scaled((*fixed, *_settings(chosen, changed)), fewer, tuple(notes))


def _only(network: Network, passes: Sequence[Pass], where: str) -> tuple[Placed, Pass]:
    """The layer of a network that has one, and its pass.

    Raises:
        UsageError: there are several.
    """
    if len(network.layers) != 1 or len(passes) != 1:
        cure = f"take one with {BuildChoices.layers} and {BuildChoices.passes}, or set n=1"
        raise UsageError(f"{where}: one layer in one pass is scaled, and here are more; {cure}")
    (placed,) = network.layers
    steps = placed.layer.steps(passes[0])
    if len(steps) != 1:
        cure = f"take one, as {' or '.join(steps)}" if steps else "take another"
        raise UsageError(f"{where}: pass {passes[0]} is {len(steps)} of its passes; {cure}")
    return placed, steps[0]


def _machines(machine: Machine) -> Iterator[Machine]:
    """The machine, and ones like it with a half, a quarter, ... of its compute units."""
    units = machine.units
    while units:
        yield _with_units(machine, units)
        units //= 2


def _with_units(machine: Machine, units: int) -> Machine:
    return machine if units == machine.units else machine.with_options({UNITS: units}, str(OPTION))


def _without_number(choice: Choice) -> str:
    """What was chosen; of chunks of a sum, whether there are several: how many follows from the
    extents."""
    if choice.what != CHUNKS:
        return choice.chosen
    return "whole sums" if choice.chosen == "1" else "sums in chunks"


def _value(placed: Placed, key: str) -> int:
    """The extent that a config key says."""
    layer = placed.layer
    if key in _axes(layer):
        return placed.node.inputs[0].shape[layer.axis_names.index(key)]
    value: int = getattr(layer, layer.config_keys()[key][0])
    return value


def _axes(layer: Layer) -> tuple[str, ...]:
    """Names of the extents that are those of an input."""
    return layer.axis_names if layer.takes_input else ()


def _settings(small: Smaller, changed: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """What sets the extents that are others; those of an input without keys for them are its
    shape."""
    axes = _axes(small.placed.layer)
    whole = axes not in ((), EXTENTS) and any(key in axes for key in changed)
    yield from ((k, str(size)) for k, size in changed.items() if not (whole and k in axes))
    if whole:
        yield SHAPE, "x".join(map(str, small.inputs[0].shape))


def _algorithm(placed: Placed, direction: Pass) -> tuple[tuple[str, str], ...]:
    """The algorithm that was chosen for a layer, as a setting, where it has a choice."""
    layer = placed.layer
    made = {each.chosen for each in layer.choices(placed.node.inputs, direction)}
    return tuple(("algo", each) for each in layer.algorithms if each in made)


def _smaller(
    placed: Placed,
    direction: Pass,
    sizes: Mapping[str, int],
    tiles: Mapping[str, int],
    fixed: tuple[tuple[str, str], ...],
) -> Iterator[tuple[float, float, Smaller]]:
    """Problems with smaller extents: operations, operations per byte, the problem."""
    most = max(3, int(PROBLEMS ** (1 / len(sizes))))
    for values in product(*(_values(sizes[key], tiles[key], most) for key in sizes)):
        small = Smaller(placed, direction, dict(zip(sizes, values, strict=True)), fixed)
        try:
            yield (*small.cost(), small)
        except ValueError:
            continue


def _values(size: int, step: int, most: int) -> list[int]:
    """At most so many values of an extent that is smaller by whole steps, from it down to one step
    or less, with equal ratios between the numbers of steps."""
    rest, tiles = size % step, size // step
    shares = (tiles ** (-each / (most - 1)) for each in range(most)) if tiles else ()
    counts = {round(tiles * share) for share in shares} | {tiles, 0 if rest else 1}
    return sorted(rest + count * step for count in counts if 0 < rest + count * step <= size)


def _comparison(made: Figures, full: Figures, remainders: str) -> Iterator[str]:
    """What of the full problem was kept, and what not."""
    kept, changed = [f"remainders ({remainders})"], list[str]()
    same = made.kernel == full.kernel
    kernel, was = ", ".join(made.kernel), ", ".join(full.kernel)
    (kept if same else changed).append(f"kernel ({kernel}{'' if same else f' for {was}'})")
    for what, ours, theirs in (
        ("operations per byte", made.intensity, full.intensity),
        ("work-groups per unit", made.groups, full.groups),
    ):
        alike = abs(ours / theirs - 1) <= ALIKE
        (kept if alike else changed).append(f"{what} ({ours:.3g} of {theirs:.3g})")
    yield f"kept: {'; '.join(kept)}"
    if changed:
        yield f"not kept: {'; '.join(changed)}"
