"""A whole workload in float64: the reference of each step from what the references before it gave.

Where memory is reused, only the last tensors of a run are left to compare, and they differ from
the reference by what the roundings of all layers add up to. To first order that is

    d = sum over layers l of  J_l e_l        J_l: derivative of the output by what layer l writes

with errors |e_l| <= t_l, the tolerances that the layers derive. Roundings taken as independent and
of mean zero (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J.
Sci. Comput. 41(5), 2019), Hoeffding's inequality bounds an element of d: with probability p it is
larger than s sqrt(2 log(2 / p)), where s^2 = sum of (J_l t_l)^2, element by element. s is measured:
it is the standard deviation of the output when every tensor on the way is moved by t_l up or down
at random. For an element whose sample comes out small by chance, that of the whole tensor counts.
"""

from __future__ import annotations

from math import log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.frontend.network import make_layer
from simgen.ground.ir import Pass, Role, Step, Workload
from simgen.ground.numerics import exactness, storing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from simgen.layers import Layer
    from simgen.layers.base import Tensors

    Array = NDArray[np.float64]
    Change = Callable[[Layer, Step, Tensors, Tensors], Tensors]

SAMPLES = 4  # runs with moved tensors
RISK = 1e-6  # probability that a tensor of a correct result is judged wrong


def reuses_memory(workload: Workload) -> bool:
    """Whether tensors that steps write are gone after a run."""
    scratch = {buffer.name for buffer in workload.buffers if buffer.role is Role.SCRATCH}
    return any(name in scratch for step in workload.steps for _, name in step.writes)


def port_shapes(workload: Workload, step: Step, layer: Layer) -> dict[str, tuple[int, ...]]:
    """The shapes in which a step sees its tensors, by port. A buffer has the one of the layer that
    gives it; behind a view, it is another with as many elements."""
    direction = Pass.FORWARD if step.direction is Pass.UPDATE else step.direction
    ports = layer.ports(workload.node(step.layer).inputs, direction)
    return {port.name: port.spec.shape for port in ports}


def wide(values: NDArray[Any]) -> NDArray[Any]:
    """Values as float64; those of 64 bits that it does not hold as they are."""
    return (
        values if values.dtype.kind in "iu" and values.itemsize == 8 else values.astype(np.float64)
    )


def run(
    workload: Workload, inputs: Mapping[str, NDArray[Any]], change: Change | None = None
) -> Iterator[tuple[Step, dict[str, Array]]]:
    """Each step with the tensors that it writes, by buffer.

    `change` gets (layer, step, what it reads, what it writes), both by port, and returns what the
    steps after it shall read.
    """
    last = {name: at for at, step in enumerate(workload.steps) for _, name in step.reads}
    held: dict[str, Array] = {}
    for at, step in enumerate(workload.steps):
        layer = make_layer(workload.node(step.layer), workload.machine)
        shapes = port_shapes(workload, step, layer)
        tensors = {
            port: (held[name] if name in held else wide(inputs[name])).reshape(shapes[port])
            for port, name in step.reads
        }
        for port, _ in step.writes:
            if port in layer.shape_given:
                tensors[port] = np.broadcast_to(np.nan, shapes[port])
        written = dict(layer.reference(tensors, step.direction))
        for port, known in layer.exact(tensors, step.direction).items():
            written[port] = exactness.filled(written[port], known)
        if change:
            written = dict(change(layer, step, tensors, written))
        made = {
            name: written[port].reshape(workload.buffer(name).spec.shape)
            for port, name in step.writes
        }
        yield step, made
        held = {name: t for name, t in (held | made).items() if last.get(name, -1) > at}


def expected(
    workload: Workload, inputs: Mapping[str, NDArray[Any]]
) -> dict[str, tuple[Array, Array]]:
    """(reference, bound on a result's distance from it) of each output, by buffer."""
    references = dict(_outputs(workload, run(workload, inputs)))
    squares = {name: np.zeros_like(values) for name, values in references.items()}
    for sample in range(SAMPLES):
        moved = run(
            workload, inputs, _mover(workload, np.random.Generator(np.random.Philox(sample)))
        )
        for name, values in _outputs(workload, moved):
            squares[name] += (values - references[name]) ** 2 / SAMPLES
    found = {}
    for name, reference in references.items():
        deviation = np.sqrt(np.maximum(squares[name], squares[name].mean()))
        found[name] = (reference, sqrt(2 * log(2 * reference.size / RISK)) * deviation)
    return found


def _outputs(
    workload: Workload, steps: Iterator[tuple[Step, dict[str, Array]]]
) -> Iterator[tuple[str, Array]]:
    names = {buffer.name for buffer in workload.outputs}
    for _, made in steps:
        for name, values in made.items():
            if name in names:
                yield name, values


def _mover(workload: Workload, random: np.random.Generator) -> Change:
    """Moves each element by its layer's tolerance, up or down."""

    def move(layer: Layer, step: Step, tensors: Tensors, written: Tensors) -> Tensors:
        tolerance = dict(layer.tolerance(tensors, step.direction))
        for port, known in layer.exact(tensors, step.direction).items():
            tolerance[port] = exactness.cleared(tolerance[port], known)
        for port, name in step.writes:  # rounded as they are stored
            dtype = workload.buffer(name).spec.dtype
            if storing.is_rounded(dtype):
                magnitude = np.abs(written[port]) + tolerance[port]
                tolerance[port] = tolerance[port] + storing.half_step(magnitude, dtype)
        return {
            port: values + tolerance[port] * random.choice((-1.0, 1.0), values.shape)
            for port, values in written.items()
        }

    return move
