"""What a cell makes of its sums at one time step, and the gradients of that, element by element.

Formulas take and give numbers that carry a bound of their own error
(simgen/ground/numerics/running.py), in the order of operations of
templates/kernels/recurrent_step.hip and recurrent_back.hip. Arrays of sums and of gates are (...,
gates, units), all others (..., units).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.ir import Pass
from simgen.ground.numerics.rounding import SECOND_ORDER
from simgen.ground.numerics.running import Bounded, fused
from simgen.layers.activation import Activation, ActivationMode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array

SIGMOID, TANH, RELU = ActivationMode.SIGMOID, ActivationMode.TANH, ActivationMode.RELU
# For each function: its largest slope, and the largest slope of the slope.
CURVES = {SIGMOID: (0.25, 0.0963), TANH: (1.0, 0.7699), RELU: (1.0, 0.0)}


class RecurrentCell(StrEnum):
    LSTM = "lstm"
    GRU = "gru"
    RELU = "relu"
    TANH = "tanh"

    @property
    def gates(self) -> int:
        return {RecurrentCell.LSTM: 4, RecurrentCell.GRU: 3}.get(self, 1)

    @property
    def gated(self) -> bool:
        """Whether the gates are kept for the backward pass; without them, h tells the slope."""
        return self.gates > 1

    @property
    def operations(self) -> tuple[int, int]:
        """(operations, transcendental functions) of a unit at a step, beside the sums and biases:
        those of its functions, as in COUNTS of layers/activation.py, and what joins them."""
        return {
            RecurrentCell.LSTM: (3 * 2 + 2 * 3 + 4 + 4, 5 * 2),
            RecurrentCell.GRU: (2 * 2 + 3 + 4 + 3, 3 * 2),
            RecurrentCell.RELU: (1 + 1, 0),
            RecurrentCell.TANH: (3 + 1, 2),
        }[self]

    @property
    def backward_operations(self) -> tuple[int, int]:
        """The same of the gradients."""
        return {
            RecurrentCell.LSTM: (2 + 3 + 4 + 4 + 4 + 4 + 5 + 1 + 3, 2),
            RecurrentCell.GRU: (2 + 5 + 5 + 4 + 1 + 1, 0),
            RecurrentCell.RELU: (2, 0),
            RecurrentCell.TANH: (5, 0),
        }[self]


def forward(
    cell: RecurrentCell, inside: Bounded, sums: Bounded, h: Bounded, c: Bounded | None
) -> dict[str, Bounded]:
    """h and what is kept, from the parts of the sums that come from x and from h.

    `h` and `c` are those of the step before; each part has its bias.
    """
    if cell is RecurrentCell.GRU:
        reset, update = (_through(SIGMOID, _gate(inside, at) + _gate(sums, at)) for at in (0, 1))
        candidate = _gate(sums, 2)
        new = _through(TANH, fused(reset, candidate, _gate(inside, 2)))
        return {
            "h": fused(update, h - new, new),
            "gates": _gates(reset, update, new),
            "candidate": candidate,
        }
    if cell is RecurrentCell.LSTM:
        assert c is not None
        functions = (SIGMOID, SIGMOID, TANH, SIGMOID)
        i, f, g, o = (
            _through(mode, _gate(inside, at) + _gate(sums, at)) for at, mode in enumerate(functions)
        )
        state = fused(f, c, i * g)
        return {
            "h": o * _through(TANH, state),
            "cell": state,
            "gates": _gates(i, f, g, o),
        }
    mode = RELU if cell is RecurrentCell.RELU else TANH
    return {"h": _through(mode, _gate(inside, 0) + _gate(sums, 0))}


def backward(
    cell: RecurrentCell, dh: Bounded, carry: Bounded | None, kept: Mapping[str, Array]
) -> dict[str, Bounded]:
    """Gradients of the sums: `dgates` of the parts from x and, of a GRU, `drec` of those from h.

    `dh` is all of the gradient of h; `carry` is what the step behind left: of an LSTM, the gradient
    of c there times f. `kept` are gates, cell, candidate and h of the forward pass, and, as
    `cell_before` and `h_before`, those of the step before; they are exact.
    """
    known = {name: _exact_operand(values, dh) for name, values in kept.items()}
    if cell is RecurrentCell.LSTM:
        assert carry is not None
        i, f, g, o = (_gate(known["gates"], at) for at in range(4))
        squashed = _through(TANH, known["cell"])
        output = (dh * squashed) * _sigmoid_slope(o)
        dc = fused(dh * o, _tanh_slope(squashed), carry)
        gates = _gates(
            (dc * g) * _sigmoid_slope(i),
            (dc * known["cell_before"]) * _sigmoid_slope(f),
            (dc * i) * _tanh_slope(g),
            output,
        )
        return {"dgates": gates, "carry": dc * f}
    if cell is RecurrentCell.GRU:
        reset, update, new = (_gate(known["gates"], at) for at in range(3))
        dz = (dh * (known["h_before"] - new)) * _sigmoid_slope(update)
        rest, _ = update.beside_one()
        dn = (dh * rest) * _tanh_slope(new)
        dr = (dn * known["candidate"]) * _sigmoid_slope(reset)
        return {
            "dgates": _gates(dr, dz, dn),
            "drec": _gates(dr, dz, dn * reset),
            "carry": dh * update,
        }
    if cell is RecurrentCell.RELU:
        return {"dgates": _gates(dh.where(known["h"].value > 0))}
    return {"dgates": _gates(dh * _tanh_slope(known["h"]))}


def _gate(sums: Bounded, at: int) -> Bounded:
    error = None if sums.error is None else np.broadcast_to(sums.error, sums.value.shape)
    return Bounded(sums.value[..., at, :], None if error is None else error[..., at, :])


def _gates(*each: Bounded) -> Bounded:
    errors = [one.error for one in each if one.error is not None]
    value = np.stack([one.value for one in each], axis=-2)
    return Bounded(value, np.stack(errors, axis=-2) if errors else None)


def _exact_operand(values: Array, like: Bounded) -> Bounded:
    """An exact operand of a formula whose errors are followed, or not, as those of `like` are."""
    return Bounded(values, None if like.error is None else np.zeros_like(values))


def _through(mode: ActivationMode, x: Bounded) -> Bounded:
    """A function of numbers that are off: an error of x counts as much as the steepest slope from
    there, and the function has one of its own."""
    function = Activation(mode=mode)
    y = function.reference({"x": x.value}, Pass.FORWARD)["y"]
    if x.error is None:
        return Bounded(y)
    own = function.tolerance({"x": x.value}, Pass.FORWARD)["y"]
    slope = {SIGMOID: y * (1 - y), TANH: (1 - y) * (1 + y)}.get(mode, np.ones_like(y))
    most, bend = CURVES[mode]
    steepest = np.minimum(most, slope + bend * x.error)
    return Bounded(y, own * SECOND_ORDER + steepest * x.error)


def _sigmoid_slope(y: Bounded) -> Bounded:
    rest, _ = y.beside_one()
    return y * rest


def _tanh_slope(y: Bounded) -> Bounded:
    less, more = y.beside_one()
    return less * more
