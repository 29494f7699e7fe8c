"""What the MODE register makes of floats: how results are rounded, which subnormals are zeros.

Single precision has fields of its own; double and half precision share theirs. A kernel begins with
what its descriptor says; `s_setreg_b32` changes it.

    FP_ROUND   0 to the nearest, of two the even one   1 towards +inf   2 towards -inf   3 towards 0
    FP_DENORM  bit 0: sources may be subnormal, bit 1: results may; those that may not are zeros of
               their sign

Source: AMD, Vega Instruction Set Architecture Reference Guide, section 3.5 (MODE) and the one on
denormalised numbers and rounding of its chapter on vector ALU operations; the same fields are in
those of other generations.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen_examine.conform import floats
from simgen_examine.conform.expected import Expected, is_subnormal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simgen_examine.conform.expected import Values, Where

NEAREST, UP, DOWN, ZERO = range(4)
KEEP = 3  # subnormals of sources and results
_IN, _OUT = 1, 2
_ROUNDS = ("", "rounding up", "rounding down", "rounding to 0")
_KEEPS = ("flushing subnormals", "flushing subnormal results", "flushing subnormal sources", "")


@dataclass(frozen=True)
class FloatMode:
    """The fields of MODE that a kernel begins with."""

    round_32: int = NEAREST
    round_16_64: int = NEAREST
    denorm_32: int = KEEP
    denorm_16_64: int = KEEP
    ieee: bool = True

    @property
    def directives(self) -> dict[str, int]:
        """Directives of a kernel's descriptor."""
        return {
            "float_round_mode_32": self.round_32, "float_round_mode_16_64": self.round_16_64,
            "float_denorm_mode_32": self.denorm_32, "float_denorm_mode_16_64": self.denorm_16_64,
            "ieee_mode": int(self.ieee),
        }  # fmt: skip

    @property
    def text(self) -> str:
        """In words, what is not as usual."""
        single, other = (
            " and ".join(filter(None, (_ROUNDS[rounds], _KEEPS[keeps])))
            for rounds, keeps in (
                (self.round_32, self.denorm_32), (self.round_16_64, self.denorm_16_64)
            )
        )  # fmt: skip
        if single == other:
            return single
        parts = ((single, "f32"), (other, "f16 and f64"))
        return ", ".join(f"{what} of {types}" for what, types in parts if what)

    def rounds(self, dtype: Any) -> int:
        """How results of a type are rounded."""
        return self.round_32 if dtype == np.float32 else self.round_16_64

    def keeps(self, dtype: Any) -> int:
        """Which subnormals of a type there are."""
        return self.denorm_32 if dtype == np.float32 else self.denorm_16_64


USUAL = FloatMode()
# As kernels have it that use output modifiers.
FLUSHING = FloatMode(denorm_32=0, ieee=False)

_SUMS: dict[str, Callable[..., Any]] = {
    "fadd": operator.add,
    "fsub": operator.sub,
    "fsubrev": lambda a, b: b - a,
    "fma": lambda a, b, c: a * b + c,
}
_EXACT: dict[str, Callable[..., Any]] = {
    **_SUMS, "fmul": operator.mul, "cvt_f32": lambda a: a, "cvt_f16": lambda a: a,
}  # fmt: skip
# Products that are rounded before they are added, or may be; they take no subnormals.
UNFUSED = ("mad", "mad16")
HONOUR = (*_EXACT, *UNFUSED)  # functions of the description that MODE changes


def computed(name: str, mode: FloatMode, *sources: Values) -> Expected:
    """What an instruction of the function `name`, one of HONOUR, leaves in a mode.

    Of integers, the manuals do not say how they are rounded: as MODE says or to the nearest is
    right. So is either zero where a sum vanishes and is rounded towards -inf; and zero where a
    result is the least normal number only after rounding, and subnormal results are flushed.
    """
    with np.errstate(all="ignore"):
        given = [_as_read(each, mode) for each in sources]
        if name in UNFUSED:
            return _twice(name, mode, *given)
        found = _rounded(name, mode, given)
    if given[0].dtype.kind != "f":
        nearest = _nearest(name, given)
        return Expected(found.value, other=nearest)
    return found


def _as_read(source: Values, mode: FloatMode) -> Values:
    if source.dtype.kind != "f" or mode.keeps(source.dtype) & _IN:
        return source
    return _flushed(source)


def _flushed(values: Values) -> Values:
    zero = values.dtype.type(0)
    return np.where(is_subnormal(values), np.copysign(zero, values), values)


def _nearest(name: str, sources: Sequence[Values]) -> Values:
    found = floats.FUNCTIONS[name](*sources)
    return found.value if isinstance(found, Expected) else found


def _rounded(name: str, mode: FloatMode, sources: Sequence[Values]) -> Expected:
    near = _nearest(name, sources)
    tiny = np.finfo(near.dtype).tiny
    side, vanishes, small = _sides(name, tuple(map(_Hashed, sources)))
    value = _directed(near, side, mode.rounds(near.dtype))
    other = np.where(vanishes, -value, value)
    if mode.rounds(near.dtype) != DOWN or name not in _SUMS:
        other = value
    if not mode.keeps(near.dtype) & _OUT:
        zero = np.copysign(near.dtype.type(0), value)
        other = np.where((np.abs(value) == tiny) & small, zero, other)
        value, other = _flushed(value), _flushed(other)
    return Expected(value, other=other)


def _directed(near: Values, side: Values, rounds: int) -> Values:
    """From the nearest number, and on which side of it the exact one lies, the one to take."""
    of = near.dtype.type
    if rounds == UP:
        return np.where(side > 0, np.nextafter(near, of(np.inf)), near)
    if rounds == DOWN:
        return np.where(side < 0, np.nextafter(near, of(-np.inf)), near)
    if rounds == ZERO:
        less = np.where(np.signbit(near), side > 0, side < 0)
        return np.where(less, np.nextafter(near, of(0)), near)
    return near


class _Hashed:
    """An array as a key: the same sources are tried in several modes and encodings."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.key = (values.dtype.str, values.tobytes())

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self.key == other.key


@lru_cache(maxsize=64)
def _sides(name: str, sources: tuple[_Hashed, ...]) -> tuple[Values, Where, Where]:
    """Whether the exact result is above (1) or below (-1) the nearest number, or neither; where it
    is 0; and where it is below the least normal number. Of what is not finite, nothing."""
    given = [each.values for each in sources]
    near = _nearest(name, given)
    tiny = Fraction(float(np.finfo(near.dtype).tiny))
    side = np.zeros(near.shape, np.int8)
    vanishes, small = np.zeros(near.shape, bool), np.zeros(near.shape, bool)
    finite = np.logical_and.reduce([np.isfinite(each) for each in given])
    for at in np.flatnonzero(finite):
        exact = _EXACT[name](*(Fraction(each[at].item()) for each in given))
        if np.isinf(near[at]):
            side[at] = -1 if near[at] > 0 else 1
        else:
            found = Fraction(float(near[at]))
            side[at] = (exact > found) - (exact < found)
        vanishes[at], small[at] = exact == 0, 0 < abs(exact) < tiny
    return side, vanishes, small


def _twice(name: str, mode: FloatMode, a: Values, b: Values, c: Values) -> Expected:
    """A product and a sum, each rounded; what is subnormal on the way is not told."""
    product = _rounded("fmul", mode, [a, b]).value
    total = _rounded("fadd", mode, [product, c])
    fused = _rounded("fma", mode, [a, b, c])
    tiny = np.finfo(a.dtype).tiny
    free = np.zeros(a.shape, bool)
    for each in (a, b, c, product, total.value, fused.value):
        free |= is_subnormal(each) | (np.abs(each) == tiny)
    # Zeros that a sum or a flushed product leave have signs that are not told.
    free |= (total.value == 0) | (fused.value == 0)
    return Expected(total.value, free, other=fused.value if name == "mad16" else total.other)
