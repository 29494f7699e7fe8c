"""Activations keep a small relative error in their tails, on all magnitudes of float32.

What is expected is computed here in float64, by other formulas than the layer's where there are
some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from layer_bundles import Problem, failures, make, plan
from layer_variants import Variant
from scipy import special

from simgen.ground.ir import Pass
from simgen.ground.numerics.rounding import TINY, U

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.kernels.build import Builder

    Array = NDArray[np.float64]

MAGNITUDES = np.geomspace(2.0**-140, 2.0**127, 4000, dtype=np.float64).astype(np.float32)
DENSE = np.linspace(0, 110, 8001).astype(np.float32)
POSITIVE = np.unique(np.concatenate([[np.float32(0)], MAGNITUDES, DENSE]))
BOTH_SIGNS = np.concatenate([-POSITIVE[::-1], POSITIVE])

FORWARD: dict[str, Callable[[Array], Array]] = {
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "sigmoid": special.expit,
    "tanh": lambda x: np.sign(x) * -np.expm1(-2 * np.abs(x)) / (1 + np.exp(-2 * np.abs(x))),
    "soft_relu": lambda x: -special.log_expit(-x),
    "gelu": lambda x: x * special.ndtr(x),
    "gelu_tanh": lambda x: x * special.expit(_exponent(x)),
    "silu": lambda x: x * special.expit(x),
}
# Of y, for the values that y can have.
SLOPE: dict[str, tuple[Callable[[Array], Array], Array]] = {
    "elu": (lambda y: np.where(y > 0, 1.0, y + 1), -np.geomspace(1e-30, 1, 5000)),
    "sigmoid": (lambda y: y * (1 - y), np.geomspace(1e-30, 1, 5000)),
    "tanh": (lambda y: (1 - y) * (1 + y), np.geomspace(1e-30, 1, 5000)),
    "soft_relu": (lambda y: -np.expm1(-y), np.geomspace(1e-30, 1e30, 5000)),
}
# Of x: near -0.75 it is 0, so that its error is one of its two terms.
SLOPE_OF_X: dict[str, Callable[[Array], tuple[Array, Array]]] = {
    "gelu": lambda x: (special.ndtr(x), x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)),
    "gelu_tanh": lambda x: (
        special.expit(_exponent(x)),
        x * special.expit(_exponent(x)) * special.expit(-_exponent(x)) * _exponent_slope(x),
    ),
    "silu": lambda x: (special.expit(x), x * special.expit(x) * special.expit(-x)),
}
NEAR_ONE = 1 - np.arange(1, 3000) * 2.0**-24


def _exponent(x: Array) -> Array:
    near = np.clip(x, -100, 100)  # beyond, a cube would exceed float64 with what is made of it
    exponent: Array = 2 * np.sqrt(2 / np.pi) * (near + 0.044715 * near**3)
    return exponent


def _exponent_slope(x: Array) -> Array:
    near = np.clip(x, -100, 100)
    slope: Array = 2 * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * near**2)
    return slope


def launched(
    place: Path, builder: Builder, mode: str, direction: Pass, **values: NDArray[np.float32]
) -> Array:
    """What the host target gives for these inputs; it must pass `simgen diff`."""
    variant = Variant("activation", (("activation_mode", mode),))
    return of_layer(place, builder, variant, direction, **values)


def of_layer(
    place: Path, builder: Builder, variant: Variant, direction: Pass, **values: NDArray[np.float32]
) -> Array:
    size = next(iter(values.values())).size
    made = make(place, plan({"a": Problem(variant, (1, 1, 1, size))}, direction), builder)
    for port, given in values.items():
        made.rewrite(f"a.{port}", _setter(given))
    assert not failures(made.good())
    (found,) = made.outputs().values()
    return found.reshape(-1).astype(np.float64)


def _setter(values: NDArray[np.float32]) -> Callable[[NDArray[np.float32]], None]:
    return lambda into: np.copyto(into, values.reshape(into.shape))


def assert_relative(found: Array, wanted: Array, limit: Array | float) -> None:
    error = np.abs(found - wanted)
    allowed = limit * np.abs(wanted) + 4 * TINY
    worst = int(np.argmax(error / allowed))
    assert (error <= allowed).all(), (worst, found[worst], wanted[worst])


@pytest.mark.parametrize("mode", FORWARD)
def test_forward(tmp_path: Path, builder: Builder, mode: str) -> None:
    x = BOTH_SIGNS
    found = launched(tmp_path, builder, mode, Pass.FORWARD, x=x)
    wide = x.astype(np.float64)
    wanted = FORWARD[mode](wide)
    # 2 U |x| is what rounding x log2(e) makes of an exponential; where that is 0, x is no matter.
    exponent = np.abs(wide)
    if "gelu" in mode:  # 5 U of exponents that are a square or a cube, where x < 0
        exponent = np.where(wide < 0, 2.5 * np.maximum(wide**2 / 2, np.abs(_exponent(wide))), 0.0)
    assert_relative(found, wanted, (34 + 2 * np.minimum(exponent, 2.5 * 110)) * U)


@pytest.mark.parametrize("mode", SLOPE)
def test_backward(tmp_path: Path, builder: Builder, mode: str) -> None:
    slope, range_of_y = SLOPE[mode]
    near = {"elu": -NEAR_ONE, "tanh": np.concatenate([-NEAR_ONE, NEAR_ONE])}.get(mode, NEAR_ONE)
    y = np.unique(np.concatenate([range_of_y, near]).astype(np.float32))
    dy = np.where(np.arange(y.size) % 2, np.float32(-1.7), np.float32(3.1)).astype(np.float32)
    found = launched(tmp_path, builder, mode, Pass.BACKWARD, y=y, dy=dy)
    wanted = dy.astype(np.float64) * slope(y.astype(np.float64))
    assert_relative(found, wanted, 24 * U)


@pytest.mark.parametrize("mode", SLOPE_OF_X)
def test_backward_from_x(tmp_path: Path, builder: Builder, mode: str) -> None:
    x = np.concatenate([BOTH_SIGNS, np.linspace(-1, -0.5, 3000, dtype=np.float32)])
    dy = np.where(np.arange(x.size) % 2, np.float32(-1.7), np.float32(3.1)).astype(np.float32)
    found = launched(tmp_path, builder, mode, Pass.BACKWARD, x=x, dy=dy)
    wide = x.astype(np.float64)
    first, second = SLOPE_OF_X[mode](wide)
    exponent = np.where(wide < 0, np.maximum(wide**2 / 2, np.abs(_exponent(wide))), 0.0)
    terms = first + np.abs(second)
    error = np.abs(found - dy * (first + second))
    # What is flushed is an exponential, which counts as much as its factor: less than 300.
    allowed = np.abs(dy) * (terms * (40 + 5 * np.minimum(exponent, 110)) * U + 300 * TINY)
    worst = int(np.argmax(error / allowed))
    assert (error <= allowed).all(), (x[worst], found[worst], error[worst] / allowed[worst])


@pytest.mark.parametrize(
    ("kind", "mode", "of_nan"),
    [
        ("activation", "relu", 0.0),
        ("activation", "clipped_relu", 0.0),
        ("piecewise", "clip", -1.0),
        ("piecewise", "hard_sigmoid", 0.0),
        ("piecewise", "hard_swish", np.nan),
        ("piecewise", "leaky_relu", np.nan),
    ],
)
def test_minima_and_maxima_leave_a_nan_out(
    tmp_path: Path, builder: Builder, kind: str, mode: str, of_nan: float
) -> None:
    """As what overflowed in a step of training may leave it to the next one."""
    x = np.array([np.nan, 0.5, -np.nan, -0.5, np.inf, 2.0, -2.0, 0.0], np.float32)
    variant = Variant(kind, ((f"{kind}_mode", mode),))
    found = of_layer(tmp_path, builder, variant, Pass.FORWARD, x=np.tile(x, 8))
    assert np.array_equal(found[[0, 2]], [of_nan, of_nan], equal_nan=True)
