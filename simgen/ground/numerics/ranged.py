"""Arrays of float64 with the range of float32: what overflows becomes infinite, what is lost is 0.

A layer's reference that is computed with them shows what a right float32 kernel may be left with
where a number on the way is out of range, though the result is not. Partial sums count too: a sum
whose absolute terms overflow may be infinite in some order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.ground.dtypes import FLUSHED, DType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

_SAID = {
    "exp": "exp({0:.4g})", "exp2": "exp2({0:.4g})", "expm1": "expm1({0:.4g})",
    "multiply": "{0:.4g} * {1:.4g}", "square": "{0:.4g} * {0:.4g}", "power": "{0:.4g} ** {1:.4g}",
    "add": "{0:.4g} + {1:.4g}", "subtract": "{0:.4g} - {1:.4g}", "divide": "{0:.4g} / {1:.4g}",
}  # fmt: skip
OVER, UNDER = " overflows float32 in this algorithm", " underflows float32 in this algorithm"
NEAR = 2.0**-20  # a sum of one sign is that of its absolute terms, but for rounding
_SUMS = ("matmul", "vecdot", "einsum", "dot", "tensordot")


class Ranged(np.ndarray):
    """`log` is shared by all that is computed from it: what was out of range first."""

    log: dict[str, str]

    def __array_finalize__(self, made: Any) -> None:
        self.log = getattr(made, "log", {})

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **said: Any
    ) -> Any:
        given = [_plain(each) for each in inputs]
        if out is not None:
            said["out"] = tuple(_plain(each) for each in out)
        found = getattr(ufunc, method)(*given, **said)
        if not isinstance(found, (np.ndarray, np.floating)) or found.dtype.kind != "f":
            return found

        def again(*values: NDArray[Any]) -> Any:
            rest = {key: value for key, value in said.items() if key != "out"}
            return getattr(ufunc, method)(*values, **rest)

        is_sum = (method == "reduce" and ufunc is np.add) or ufunc.__name__ in _SUMS
        return self._limited(found, given, ufunc.__name__, again if is_sum else None, method)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func.__name__ in _SUMS:
            plain = [_plain(each) for each in args]
            kwargs = {key: value for key, value in kwargs.items() if key != "out"}
            found = func(*plain, **kwargs)

            def again(*values: Any) -> Any:
                return func(*values, **kwargs)

            return self._limited(np.asarray(found), plain, func.__name__, again, "")
        return self._kept(super().__array_function__(func, types, args, kwargs))

    def _kept(self, found: Any) -> Any:
        """Ranged again, where a function of NumPy has made plain arrays."""
        if isinstance(found, (list, tuple)):
            return type(found)(self._kept(each) for each in found)
        if type(found) is np.ndarray and found.dtype.kind == "f":
            found = found.view(Ranged)
            found.log = self.log
        return found

    def _limited(
        self,
        found: Any,
        given: list[Any],
        name: str,
        again: Callable[..., Any] | None,
        method: str,
    ) -> Any:
        size = np.abs(found)
        over = np.isfinite(size) & (size >= DType.F32.overflow)
        parts = np.zeros_like(over)
        if again and _large(given):
            absolute = again(*(np.abs(e) if isinstance(e, np.ndarray) else e for e in given))
            cancels = np.abs(absolute) > size * (1 + NEAR)
            parts = np.isfinite(found) & cancels & (np.abs(absolute) >= DType.F32.overflow)
        lost = (size > 0) & (size < FLUSHED)
        if OVER not in self.log and (over.any() or parts.any()):
            self.log[OVER] = _cause(name, method, given, over, again is not None) + OVER
        if UNDER not in self.log and lost.any():
            self.log[UNDER] = _cause(name, method, given, lost, False) + UNDER
        limited = np.where(over, np.copysign(np.inf, found), found)
        limited = np.where(parts, np.nan, limited)
        limited = np.where(lost, 0.0, limited)
        if isinstance(found, np.ndarray) and type(found) is np.ndarray and found.ndim:
            found[...] = limited  # `out` is a view of an array that is there
            return self._kept(found)
        return self._kept(np.asarray(limited))


def ranged(values: NDArray[Any], log: dict[str, str]) -> NDArray[Any]:
    """The values, ranged; whole numbers as they are."""
    if values.dtype.kind != "f":
        return values
    found = np.array(values, np.float64).view(Ranged)
    found.log = log
    return found


def _plain(values: Any) -> Any:
    return values.view(np.ndarray) if isinstance(values, Ranged) else values


def _large(given: list[Any]) -> bool:
    """Whether a sum of so large terms might overflow on the way."""
    most = [float(np.max(np.abs(e), initial=0.0, where=np.isfinite(e)))
            for e in given if isinstance(e, np.ndarray) and e.dtype.kind == "f"]  # fmt: skip
    terms = max((e.size for e in given if isinstance(e, np.ndarray)), default=1)
    with np.errstate(all="ignore"):
        return bool(np.prod(most) * terms >= DType.F32.overflow)


def _cause(name: str, method: str, given: list[Any], over: Any, is_sum: bool) -> str:
    """Half a line: what overflows."""
    if is_sum or method not in ("__call__", ""):
        return "a sum"
    text = _SAID.get(name)
    if text is None:
        return name
    at = np.unravel_index(int(np.argmax(over)), over.shape) if over.ndim else ()
    operands = [np.broadcast_to(each, over.shape)[at] for each in given]
    return text.format(*map(float, operands))


def sizes(bounds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float64]]:
    """The sum of the numbers whose roundings have these bounds; none is larger."""
    u = DType.F32.roundoff
    return {port: np.asarray(bound, np.float64) / u for port, bound in bounds.items()}


def without(
    values: NDArray[Any], sums: NDArray[Any], given: Mapping[str, NDArray[Any]]
) -> NDArray[Any]:
    """The values, NaN where sums on the way, so large at most, overflow; `given` keeps why."""
    size = np.abs(_plain(np.asarray(sums)))
    lost = ~(size < DType.F32.overflow)
    for each in given.values():
        if isinstance(each, Ranged) and lost.any():
            each.log.setdefault(OVER, f"a sum of up to {np.fmax.reduce(size[lost]):.3g}{OVER}")
    return np.where(lost, np.nan, values)


def cause(log: dict[str, str]) -> str:
    """What was out of range, in half a line."""
    return log.get(OVER) or log.get(UNDER) or "a number on the way is out of float32's range"
