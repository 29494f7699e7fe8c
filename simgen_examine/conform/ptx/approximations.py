"""What approximate instructions may compute: a value, and the error that the PTX manual states.

Errors are absolute, relative or in units of the last place (ulps); the value is that of double
precision, which is far nearer than any of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen_examine.conform.expected import Expected, is_subnormal

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen_examine.conform.expected import Values, Where
    from simgen_examine.conform.ptx.operation import OpcodeText

FUNCTIONS: dict[str, Callable[..., Expected]] = {}


def _quiet(function: Callable[..., Expected]) -> Callable[..., Expected]:
    """The function of an operation and arrays of floats, called without NumPy's warnings."""

    def quietly(*sources: Any) -> Expected:
        with np.errstate(all="ignore"):
            return function(*sources)

    return quietly


@dataclass(frozen=True)
class Near(Expected):
    """A result within `bound` of `about`, or exactly `value` where that is no finite number."""

    about: Values = None  # in double precision
    bound: Values = None

    def right(self, found: Values) -> Where:
        """As `Expected.right`."""
        with np.errstate(all="ignore"):
            near = np.abs(found.astype(np.float64) - self.about) <= self.bound
        return super().right(found) | near


def _near(
    op: OpcodeText, about: Values, kind: Any, *, relative: float = 0.0, ulps: float = 0.0,
    absolute: Values = 0.0, free: Where | None = None,
) -> Near:  # fmt: skip
    """Results of the type `kind`; what flushes may give a zero in place of a subnormal number."""
    value = about.astype(kind)
    last = np.spacing(np.abs(value)).astype(np.float64)
    bound = np.abs(about) * relative + last * ulps + absolute
    # No finite result is nearer than its type allows; of a subnormal one, which has few bits, its
    # last bit may be another.
    least = float(np.finfo(kind).tiny)
    finest = np.where(np.abs(about) < least, last, last / 2)
    bound = np.where(np.isfinite(about), np.maximum(bound, finest), 0.0)
    other = value
    if op.ftz:
        value = np.where(np.abs(about) < least, np.copysign(kind(0), value), value)
        other = np.where(np.abs(about) - bound < least, np.copysign(kind(0), value), value)
    # Next to the largest number, either it or infinity.
    edge = np.isfinite(about) & (np.abs(about) + bound >= float(np.finfo(kind).max))
    other = np.where(edge, np.copysign(kind(np.inf), value), other)
    return Near(value, free, other=other.astype(kind), about=about, bound=bound)


def _flushed(op: OpcodeText, a: Values) -> Values:
    """Sources in double precision; where it flushes, without subnormal ones."""
    kept = np.where(is_subnormal(a), np.copysign(a.dtype.type(0), a), a) if op.ftz else a
    return kept.astype(np.float64)


def _gross(op: OpcodeText, of: Callable[[Values], Values], a: Values) -> Expected:
    """Result from the upper word, with 20 bits of fraction; an error of one unit in the last is
    allowed."""
    upper = (a.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    nan = np.isnan(a)
    about = of(np.where(is_subnormal(upper), np.copysign(0.0, upper), upper))
    return _near(op, about, np.float64, relative=2.0**-19, free=nan & ~np.isnan(upper))


def _div(op: OpcodeText, a: Values, b: Values) -> Expected:
    """2 ulps for |b| of 2^-126 to 2^126; above, zero, or NaN of infinity."""
    x, y = _flushed(op, a), _flushed(op, b)
    told = _near(op, x / y, np.float32, ulps=2)
    small = (y != 0) & (np.abs(y) < 2.0**-126)
    large = (np.abs(y) > 2.0**126) & np.isfinite(y)
    gone = np.where(np.isinf(x), np.float32(np.nan), np.copysign(np.float32(0), told.value))
    # Nobody promises either of them for a large b of later machines.
    other: Any = np.where(large & ~np.isnan(x), gone, told.other)  # type: ignore[arg-type]
    return replace(told, free=small | _underflows(x, y), other=other.astype(np.float32))


def _underflows(x: Values, y: Values) -> Where:
    """Where a * (1/b) may lose subnormal bits in between."""
    with np.errstate(all="ignore"):
        return np.abs(1 / y) < 2.0**-126


def _angle(op: OpcodeText, of: Callable[[Values], Values], a: Values) -> Expected:
    """In radians; of more than 100 pi, no error is told."""
    x = _flushed(op, a)
    bound = np.where(np.abs(x) <= 2 * np.pi, 2.0**-20.5, 2.0**-14.7)
    beyond = (np.abs(x) > 100 * np.pi) & np.isfinite(x)
    return _near(op, of(np.where(beyond, 0.0, x)), np.float32, absolute=bound, free=beyond)


def _lg2(op: OpcodeText, a: Values) -> Expected:
    x = _flushed(op, a)
    inner = (x > 0.5) & (x < 2)
    about = np.log2(x)
    bound = np.where(inner, 2.0**-22, np.abs(about) * 2.0**-22)
    return _near(op, about, np.float32, absolute=np.where(np.isfinite(bound), bound, 0.0))


_ROWS: dict[str, Callable[..., Expected]] = {
    "near_rcp": lambda op, a: _near(op, 1 / _flushed(op, a), np.float32, ulps=1),
    "near_rsqrt": lambda op, a: _near(
        op, 1 / np.sqrt(_flushed(op, a)), np.float32, relative=2.0**-22.9
    ),
    # no bound is told; it is called an approximation, and has to be one to 2^-40
    "near_rsqrt64": lambda op, a: _near(op, 1 / np.sqrt(a), np.float64, relative=2.0**-40),
    "near_sqrt": lambda op, a: _near(op, np.sqrt(_flushed(op, a)), np.float32, relative=2.0**-23),
    "near_gross_rcp": lambda op, a: _gross(op, lambda x: 1 / x, a),
    "near_gross_rsqrt": lambda op, a: _gross(op, lambda x: 1 / np.sqrt(x), a),
    "near_div": _div,
    "near_lg2": _lg2,
    "near_div_full": lambda op, a, b: _near(
        op, _flushed(op, a) / _flushed(op, b), np.float32, ulps=2
    ),
    "near_sin": lambda op, a: _angle(op, np.sin, a),
    "near_cos": lambda op, a: _angle(op, np.cos, a),
    "near_ex2": lambda op, a: _near(op, np.exp2(_flushed(op, a)), np.float32, ulps=2.5),
    "near_tanh": lambda op, a: _near(
        op, np.tanh(a.astype(np.float64)), np.float32, relative=2.0**-11
    ),
    "near_tanh16": lambda op, a: _near(
        op, np.tanh(a.astype(np.float64)), np.float16, absolute=2.0**-10.987
    ),
    "near_ex2_16": lambda op, a: _near(
        op, np.exp2(a.astype(np.float64)), np.float16, relative=2.0**-9.9
    ),
}
FUNCTIONS |= {name: _quiet(function) for name, function in _ROWS.items()}
