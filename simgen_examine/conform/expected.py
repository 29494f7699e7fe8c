"""What an instruction has to leave in a register: values, and where the manuals leave freedom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    # Arrays whose type of elements is known when they are made; those of truth values.
    Values = Any
    Where = Any

_FLOATS = {"f32": np.float32, "f64": np.float64, "f16": np.float16}
TYPES: dict[str, Any] = {
    **_FLOATS, "i32": np.int32, "u32": np.uint32, "b32": np.uint32, "i64": np.int64,
    "u64": np.uint64, "b64": np.uint64, "i16": np.int16, "u16": np.uint16, "b16": np.uint16,
}  # fmt: skip
_WHOLE: dict[int, Any] = {2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED: dict[int, Any] = {2: np.int16, 4: np.int32, 8: np.int64}


@dataclass(frozen=True)
class Expected:
    """Expected value for each tuple of sources; a value of another type is given by its bits.

    Where `free`, anything is right. Floats are right within `ulps` of the value, if that is a
    number, and any NaN stands for all of them. `other` is as right as `value`.
    """

    value: Values
    free: Where | None = None
    ulps: int = 0
    other: Values | None = None
    absolute: float = 0.0  # error of a float that is right, too

    def freed(self, where: Where) -> Expected:
        """The same, with anything right where `where`."""
        return replace(self, free=where if self.free is None else self.free | where)

    def right(self, found: Values) -> Where:
        """Where what was found, of the same type, is right."""
        good = _same(found, self.value)
        if self.other is not None:
            good |= _same(found, self.other)
        if self.ulps:
            good |= np.abs(_order(found) - _order(self.value)) <= self.ulps
        if self.absolute:
            with np.errstate(all="ignore"):
                good |= np.abs(found.astype(np.float64) - self.value) <= self.absolute
        return good if self.free is None else good | self.free


@dataclass(frozen=True)
class BrainFloats(Expected):
    """Values of bf16, as their bits: any NaN stands for all of them."""

    def right(self, found: Values) -> Where:
        """As `Expected.right`."""
        nan = (self.value & 0x7FFF > 0x7F80) & (found & 0x7FFF > 0x7F80)
        good = (found == self.value) | nan
        if self.other is not None:
            good |= found == self.other
        return good if self.free is None else good | self.free


@dataclass(frozen=True)
class EitherByte(Expected):
    """Words of which each byte is that of `value` or of `other`."""

    def right(self, found: Values) -> Where:
        """As `Expected.right`."""
        assert self.other is not None
        good = np.ones(found.shape, bool)
        for shift in (np.uint32(each) for each in (0, 8, 16, 24)):
            allowed = [each >> shift & np.uint32(0xFF) for each in (self.value, self.other)]
            byte = found >> shift & np.uint32(0xFF)
            good &= (byte == allowed[0]) | (byte == allowed[1])
        return good if self.free is None else good | self.free


def unsigned_bits(values: Values) -> Values:
    """The bits of values as unsigned integers."""
    return values.view(_WHOLE[values.dtype.itemsize]) if values.dtype != np.bool_ else values


def is_subnormal(values: Values) -> Where:
    """Where floats are subnormal, and not zero."""
    with np.errstate(all="ignore"):
        return (values != 0) & (np.abs(values) < np.finfo(values.dtype).tiny)


def is_signalling(values: Values) -> Where:
    """Where floats are signalling NaNs."""
    quiet = unsigned_bits(values) >> np.finfo(values.dtype).nmant - 1 & 1
    return np.isnan(values) & (quiet == 0)


def _same(found: Values, value: Values) -> Where:
    same: Where = unsigned_bits(found) == unsigned_bits(value)
    if value.dtype.kind == "f":
        same = same | (np.isnan(found) & np.isnan(value))
    return same


def _order(values: Values) -> Values:
    """Floats as integers in the same order, neighbours one apart; NaNs far from all others."""
    signed = values.view(_SIGNED[values.dtype.itemsize]).astype(np.int64)
    least = np.int64(np.iinfo(_SIGNED[values.dtype.itemsize]).min)
    ordered = np.where(signed < 0, least - signed, signed)
    return np.where(np.isnan(values), np.int64(1) << 60, ordered).astype(np.float64)
