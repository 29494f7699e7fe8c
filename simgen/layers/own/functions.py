"""The functions of NumPy that expressions of users may call, and what each does with errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from simgen.layers.own import inexact
from simgen.layers.own.inexact import FLOAT32, Decision, Inexact

MAX_ELEMENTS = 2**28  # elements of an array
LONGEST_RANGE = 2**16
CONSTANTS = {
    "pi": math.pi,
    "e": math.e,
    "inf": math.inf,
    "newaxis": None,
    "int": int,
    "float": float,
}


def limited(found: Any) -> Any:
    """Raise MemoryError for what nobody can compare with a tensor."""
    array = found.value if isinstance(found, (Inexact, Decision)) else found
    if isinstance(array, np.ndarray) and array.size > MAX_ELEMENTS:
        raise MemoryError
    return found


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, (Inexact, Decision)) else value


def _unary(rule: Callable[[Inexact], Inexact], exact: Callable[[Any], Any] | None = None) -> Any:
    """A function of one argument; `exact` computes it for whole numbers whose results are whole."""

    def call(x: Any) -> Any:
        if exact and not isinstance(x, (Inexact, Decision)):
            return exact(x)
        return rule(inexact.inexact_of(x, getattr(x, "u", FLOAT32)))

    return call


def _binary(rule: Callable[[Inexact, Inexact], Inexact], exact: Callable[[Any, Any], Any]) -> Any:
    def call(a: Any, b: Any) -> Any:
        u = next((each.u for each in (a, b) if isinstance(each, Inexact)), None)
        if u is None:
            return exact(_plain(a), _plain(b))
        return rule(inexact.inexact_of(a, u), inexact.inexact_of(b, u))

    return call


def _moving(function: Callable[..., Any]) -> Any:
    """Chooses elements, or puts them elsewhere."""

    def call(x: Any, *more: Any, **said: Any) -> Any:
        _check_extent(x, more, said)
        more = tuple(_plain(each) for each in more)
        if isinstance(x, Inexact):
            return x.moved(lambda each: function(each, *more, **said))
        return function(_plain(x), *more, **said)

    return call


def _joining(function: Callable[..., Any]) -> Any:
    """Puts several arrays together."""

    def call(parts: Any, *more: Any, **said: Any) -> Any:
        u = next((each.u for each in parts if isinstance(each, Inexact)), None)
        if u is None:
            return function([_plain(each) for each in parts], *more, **said)
        given = [inexact.inexact_of(each, u) for each in parts]
        values = function([each.value for each in given], *more, **said)
        return Inexact(values, function([each.bound for each in given], *more, **said), u, 1.0)

    return call


def _check_extent(x: Any, more: Any, said: Any) -> None:
    """What repeats elements could take all memory before anybody sees its size."""
    numbers = np.concatenate([np.ravel(_plain(each)) for each in (*more, *said.values(), 1)
                              if isinstance(each, (int, tuple))] or [np.ones(1)])  # fmt: skip
    if (
        np.size(_plain(x)) * float(np.max(np.abs(numbers.astype(float)), initial=1))
        > 64.0 * MAX_ELEMENTS
    ):
        raise MemoryError


def _added(values: tuple[Any, ...]) -> Any:
    """The sum of values in a list, which have one shape."""
    total = values[0]
    for each in values[1:]:
        total = FUNCTIONS["add"](total, each)
    return total


def _summing(function: Callable[..., Any]) -> Any:
    def call(x: Any, axis: Any = None, **said: Any) -> Any:
        if isinstance(x, tuple) and any(isinstance(v, (Inexact, np.ndarray)) for v in x):
            return _added(x)
        if not isinstance(x, (Inexact, Decision)):
            return function(x, axis=axis, **said)
        x = inexact.inexact_of(x, getattr(x, "u", FLOAT32))
        axes = tuple(range(x.value.ndim) if axis is None else np.atleast_1d(axis))
        terms = math.prod(x.value.shape[each] for each in axes)
        return inexact.summed(x, partial(function, axis=axis, **said), terms, axes)

    return call


def _mean(x: Any, axis: Any = None, **said: Any) -> Any:
    total = FUNCTIONS["sum"](inexact.inexact_of(x, getattr(x, "u", FLOAT32)), axis=axis, **said)
    terms = np.size(_plain(x)) / max(np.size(total.value), 1)
    return inexact.divide(total, inexact.inexact_of(terms, total.u))


def _extreme(function: Callable[..., Any]) -> Any:
    def call(x: Any, axis: Any = None, **said: Any) -> Any:
        if isinstance(x, Inexact):
            return inexact.extreme(x, partial(function, axis=axis, **said))
        return function(_plain(x), axis=axis, **said)

    return call


def _sort(x: Any, axis: Any = -1) -> Any:
    return _extreme(np.sort)(x, axis=axis)


def _product(function: Callable[..., Any], terms: Callable[[Any, Any], int]) -> Any:
    def call(a: Any, b: Any, *more: Any, **said: Any) -> Any:
        u = next((each.u for each in (a, b) if isinstance(each, Inexact)), None)
        if u is None:
            return function(a, b, *more, **said)
        x, y = inexact.inexact_of(a, u), inexact.inexact_of(b, u)
        return inexact.bilinear(
            x, y, lambda p, q: function(p, q, *more, **said), terms(x.value, y.value)
        )

    return call


def _where(condition: Any, a: Any, b: Any) -> Any:
    u = next((each.u for each in (a, b) if isinstance(each, Inexact)), None)
    if u is None and not isinstance(condition, Decision):
        return np.where(condition, _plain(a), _plain(b))
    u = u or FLOAT32
    return inexact.choose(condition, inexact.inexact_of(a, u), inexact.inexact_of(b, u))


def _exact_only(function: Callable[..., Any]) -> Any:
    """Apply a function to exact values only: whole numbers, or inputs as they are."""

    def call(x: Any, *more: Any, **said: Any) -> Any:
        if isinstance(x, Inexact) and np.any(x.bound):
            raise ValueError("its argument was computed, and might be another number on a GPU")
        return function(_plain(x), *(_plain(each) for each in more), **said)

    return call


def _array_maker(function: Callable[..., Any]) -> Any:
    """A new array of numbers."""

    def call(*args: Any) -> Any:
        sizes = [abs(float(n)) for n in np.ravel(args[0])]
        if math.prod(max(each, 1.0) for each in sizes) > MAX_ELEMENTS:
            raise MemoryError
        return function(*args)

    return call


def _arange(*args: Any) -> Any:
    if any(abs(float(each)) > MAX_ELEMENTS for each in args):
        raise MemoryError
    return np.arange(*args)


def _eye(n: int) -> Any:
    return np.eye(n) if n <= math.isqrt(MAX_ELEMENTS) else limited(np.broadcast_to(0.0, (n, n)))


def _range(*args: int) -> range:
    found = range(*args)
    if len(found) > LONGEST_RANGE:
        raise ValueError(f"range: of more than {LONGEST_RANGE} numbers")
    return found


def _astype(x: Any, kind: Any) -> Any:
    if kind is int:
        if isinstance(x, Inexact):
            made = inexact.stepped(x, np.trunc)
            return made if np.any(made.bound) else made.value.astype(np.int64)
        return np.asarray(_plain(x)).astype(np.int64)
    return inexact.inexact_of(x, getattr(x, "u", FLOAT32))


def _inner(a: Any, b: Any) -> int:
    return int(a.shape[-1])


def _clip(x: Any, low: Any, high: Any) -> Any:
    return FUNCTIONS["minimum"](FUNCTIONS["maximum"](x, low), high)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": _unary(lambda x: replace(x, value=np.abs(x.value)), np.abs),
    "sqrt": _unary(inexact.root),
    "exp": _unary(inexact.exponential),
    "exp2": _unary(lambda x: x.increasing(np.exp2)),
    "log": _unary(lambda x: inexact.logarithm(x, np.log)),
    "log2": _unary(lambda x: inexact.logarithm(x, np.log2)),
    "log10": _unary(lambda x: inexact.logarithm(x, np.log10)),
    "log1p": _unary(lambda x: inexact.logarithm(x, np.log1p)),
    "expm1": _unary(lambda x: inexact.logarithm(x, np.expm1)),
    "arctan": _unary(lambda x: inexact.logarithm(x, np.arctan)),
    "tanh": _unary(lambda x: inexact.logarithm(x, np.tanh)),
    "sin": _unary(lambda x: inexact.periodic(x, np.sin)),
    "cos": _unary(lambda x: inexact.periodic(x, np.cos)),
    "floor": _unary(lambda x: inexact.stepped(x, np.floor), np.floor),
    "ceil": _unary(lambda x: inexact.stepped(x, np.ceil), np.ceil),
    "rint": _unary(lambda x: inexact.stepped(x, np.rint), np.rint),
    "trunc": _unary(lambda x: inexact.stepped(x, np.trunc), np.trunc),
    "sign": _unary(lambda x: inexact.stepped(x, np.sign), np.sign),
    "square": lambda x: FUNCTIONS["multiply"](x, x),
    "add": _binary(inexact.add, np.add),
    "subtract": _binary(inexact.subtract, np.subtract),
    "multiply": _binary(inexact.multiply, np.multiply),
    "maximum": _binary(lambda a, b: inexact.pairwise(a, b, np.maximum), np.maximum),
    "minimum": _binary(lambda a, b: inexact.pairwise(a, b, np.minimum), np.minimum),
    "power": _binary(inexact.power, np.power),
    "sum": _summing(np.sum),
    "cumsum": _summing(np.cumsum),
    "mean": _mean,
    "max": _extreme(np.max),
    "min": _extreme(np.min),
    "sort": _sort,
    "matmul": _product(np.matmul, _inner),
    "dot": _product(np.dot, _inner),
    "outer": lambda a, b: FUNCTIONS["multiply"](FUNCTIONS["reshape"](a, (-1, 1)),
                                                FUNCTIONS["reshape"](b, (1, -1))),
    "convolve_same": _product(partial(np.convolve, mode="same"), lambda a, b: min(a.size, b.size)),
    "convolve_valid": _product(partial(np.convolve, mode="valid"),
                               lambda a, b: min(a.size, b.size)),
    "where": _where,
    "clip": _clip,
    "astype": _astype,
    "argsort": _exact_only(partial(np.argsort, kind="stable")),
    "argmax": _exact_only(np.argmax),
    "argmin": _exact_only(np.argmin),
    "bincount": _exact_only(np.bincount),
    "arange": _arange,
    "zeros": _array_maker(np.zeros),
    "ones": _array_maker(np.ones),
    "full": _array_maker(np.full),
    "eye": _eye,
    "range": _range,
    "len": lambda x: len(_plain(x)),
    **{name: _moving(getattr(np, name)) for name in (
        "reshape", "transpose", "ravel", "flip", "roll", "tile", "repeat", "take", "tril", "triu",
        "squeeze", "expand_dims", "broadcast_to", "swapaxes", "moveaxis", "diagonal", "pad")},
    **{name: _joining(getattr(np, name)) for name in ("concatenate", "stack")},
}  # fmt: skip
METHODS = frozenset(("reshape", "transpose", "ravel", "sum", "mean", "max", "min", "cumsum", "dot",
                     "astype", "clip", "take", "repeat", "squeeze", "swapaxes", "diagonal",
                     "argsort", "argmax", "argmin"))  # fmt: skip
