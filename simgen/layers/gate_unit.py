"""The functions of gated linear units, their slopes, and the errors of both."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.numerics import rounding
from simgen.ground.numerics.rounding import RCP, SECOND_ORDER, TINY, U
from simgen.layers import gelu
from simgen.layers.with_error import WithError

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array


class GateMode(StrEnum):
    SWIGLU = "swiglu"
    GEGLU = "geglu"
    GEGLU_TANH = "geglu_tanh"
    GLU = "glu"


UNITS = {GateMode.SWIGLU: "silu", GateMode.GEGLU: "gelu", GateMode.GEGLU_TANH: "gelu_tanh"}


def unit(x: Array, mode: GateMode) -> WithError:
    """f(x). The sigmoid of glu: as in [Activation]."""
    if mode is not GateMode.GLU:
        y = gelu.forward(x, UNITS[mode])
        return WithError(y, gelu.forward_bound(x, y, UNITS[mode]) * SECOND_ORDER)
    e = np.exp(-np.abs(x))
    y = np.where(x >= 0, 1.0, e) / (1 + e)
    share = np.where(x > 0, e, 1.0) / (1 + e)
    return WithError(y, (y * (share * rounding.exp(x) + U + RCP) + TINY) * SECOND_ORDER)


def unit_slope(x: Array, mode: GateMode) -> WithError:
    """f'(x); of glu e r^2 with e = exp(-|x|), r = 1 / (1 + e), which has no difference."""
    if mode is not GateMode.GLU:
        bound = gelu.slope_bound(x, UNITS[mode]) * SECOND_ORDER
        return WithError(gelu.slope(x, UNITS[mode]), bound)
    e = np.exp(-np.abs(x))
    relative = 3 * rounding.exp(x) + 2 * (U + RCP) + 2 * U
    return WithError(e / (1 + e) ** 2, (e * relative + 2 * TINY) * SECOND_ORDER)
