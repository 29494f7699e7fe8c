"""Local response normalisation: each value divided by a power of its neighbourhood's energy.

    forward   s = k + alpha / m * sum of x[j]^2 over the window of x[i]        m = elements in it
              y = x * s^-beta
    backward  dx[i] = dy[i] s[i]^-beta - 2 alpha beta / m * x[i] * sum over j of dy[j] y[j] / s[j]
              where j runs over the elements whose window holds i

    x, y, dx, dy  (N, C, H, W)      L = local_size

    lrn_mode "cross_channel_dim1"  window: channels c - floor((L-1)/2) .. c + floor(L/2),  m = L
    lrn_mode "within_channel"      window: L x L pixels around (h, w), likewise,           m = L^2

A window that reaches over the edge holds fewer elements; m stays the same.

x, y, dx and dy have the type of the input; sums and intermediate values are float32. Narrow results
are stored by fours. If work-items make columns one by one, because lines are no multiple of four or
windows are wide, results are float32, and a launch converts them.

Source: cudnnLRNCrossChannelForward and Backward; "within_channel" is miopenLRNWithinChannel of
MIOpen. After Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks",
2012, section 3.3, whose alpha is alpha / m here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from math import ceil, sqrt
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics.rounding import (
    EXP2,
    RCP,
    SECOND_ORDER,
    TINY,
    U,
    float32,
    identifier,
    log2,
)
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.norm import written as written

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

BLOCK = 256  # work-items
WIDE = {
    "forward": 8,
    "backward": 5,
    "ratio": 8,
    "gradient": 8,
}  # windows of 4 elements side by side
ENOUGH = 2**15  # work-items that fill a GPU; if there are fewer, several share the axis


class LrnMode(StrEnum):
    CROSS_CHANNEL_DIM1 = "cross_channel_dim1"
    WITHIN_CHANNEL = "within_channel"  # DNNMark: AMD only


@dataclass(frozen=True)
class LRN(Layer):
    kind = "lrn"
    section = "LRN"
    rank: ClassVar[int | None] = 4
    contract: ClassVar[Contract] = Contract(rounds=True)
    per_sample = True
    any_float = True
    sample: ClassVar[Mapping[str, str]] = {
        "n": "100",
        "c": "32",
        "h": "256",
        "w": "256",
        "lrn_mode": "cross_channel_dim1",
        "local_size": "5",
        "alpha": "0.001",
        "beta": "0.75",
        "k": "1.0",
    }

    # Lower bounds of beta and k, and the upper bound of the window: CUDNN_LRN_MIN_BETA, _MIN_K and
    # _MAX_N. With alpha >= 0 the first two keep s positive, so that its power is a number.
    mode: LrnMode = key(
        "lrn_mode", LrnMode.CROSS_CHANNEL_DIM1, "the window runs across channels, or over pixels"
    )
    local_size: int = key("local_size", 5, "extent of the window", 1, 16)
    alpha: float = key("alpha", 1e-4, "factor of the sum of squares", 0, 1e6)
    beta: float = key("beta", 0.75, "exponent of the sum", 0.01, 100)
    k: float = key("k", 2.0, "constant of the sum", 1e-5, 1e6)

    @property
    def across(self) -> bool:
        """Whether a window holds neighbours in a line of the view, too."""
        return self.mode is LrnMode.WITHIN_CHANNEL and self.local_size > 1

    @property
    def window(self) -> int:
        """m: elements of a window that lies inside the image."""
        return self.local_size**2 if self.across else self.local_size

    @property
    def before(self) -> int:
        """Elements of a window before its centre; behind it are as many, or one more."""
        return (self.local_size - 1) // 2

    def view(self, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """(outer, axis, inner) of an (N, C, H, W) shape: windows extend along the axis."""
        n, c, h, w = shape
        return (n * c, h, w) if self.across else (n, c, h * w)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Per element, for windows of m elements, those over the edge too.

        Forward: a square (shared by the windows), m - 1 additions, a multiplication and an
        addition for s; the power as exp(-beta log(s)); a multiplication. Backward: s and its power
        again, dy s^-beta, the ratio dy y / s with a reciprocal, m - 1 additions, three for dx.
        """
        size, power = inputs[0].size, self.window + 3  # two transcendentals beside these
        if direction is Pass.FORWARD:
            return (power + 1) * size, 2 * size
        return (power + 3 + (self.window - 1) + 3) * size, 3 * size

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        """The backward pass needs no y: y / s = x s^(-beta - 1), and s it must compute anyway.

        Where windows extend both ways, `ratio` is dy y / s.
        """
        (x,) = inputs
        # So large that the energy of a window counts as much as k: else y is about x k^-beta.
        spread = min(sqrt(self.k / self.alpha), 1e3) if self.alpha else 1.0
        values = Port("x", x, Fill(Distribution.NORMAL, 0.0, spread))
        if direction is Pass.FORWARD:
            return (values, Port("y", x))
        dy = Port("dy", x, Fill(Distribution.NORMAL, 0.0, 1.0))
        names = self._between(x) if self.across else ()
        wide = TensorSpec(x.shape)
        return (values, dy, Port("dx", x), *(Port(name, wide, scratch=True) for name in names))

    def _between(self, x: TensorSpec) -> tuple[str, ...]:
        """Workspaces of a backward pass of two steps. The first leaves a term of each result, in
        its place, or where that has too few bits, in one of these."""
        narrow = x.dtype.is_narrow and self._stores_by_fours(x, Pass.BACKWARD)
        return ("ratio", "term") if narrow else ("ratio",)

    def _stores_by_fours(self, x: TensorSpec, direction: Pass) -> bool:
        """Whether work-items make four neighbours in a line."""
        part = "gradient" if self.across else "backward"
        return self._vector(x.shape, "forward" if direction is Pass.FORWARD else part) == 4

    def _vector(self, shape: tuple[int, ...], part: str) -> int:
        """Neighbours in a line that a work-item makes."""
        return 4 if self.view(shape)[2] % 4 == 0 and self.local_size <= WIDE[part] else 1

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        made = ("y", "dx") if self._stores_by_fours(inputs[0], direction) else ()
        return ("x", "dy", *made)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        if direction is Pass.FORWARD:
            parts: dict[str, tuple[str, ...]] = {"forward": ("x", "y")}
        elif self.across:
            between = self._between(x)
            parts = {
                "ratio": ("x", "dy", "ratio", "term" if "term" in between else "dx"),
                "gradient": ("x", *between, "dx"),
            }
        else:
            parts = {"backward": ("x", "dy", "dx")}
        made = {part: self._kernel(x, direction, part) for part in parts}
        launches = (Launch(made[part][0].name, made[part][1], args) for part, args in parts.items())
        return Lowering(tuple(kernel for kernel, _ in made.values()), tuple(launches))

    def _kernel(
        self, x: TensorSpec, direction: Pass, part: str
    ) -> tuple[Kernel, tuple[int, int, int]]:
        """The kernel of one part of a pass, and its grid."""
        outer, axis, inner = self.view(x.shape)
        before, after = self.before, self.local_size - 1 - self.before
        if part == "gradient":  # over the windows that hold an element, not over the window of it
            before, after = after, before
        vector = self._vector(x.shape, part)
        items = outer * inner // vector
        segments = min(ceil(ENOUGH / items), ceil(axis / (2 * self.local_size)))
        length = ceil(ceil(axis / segments) / self.local_size) * self.local_size
        alpha, beta = float32(self.alpha) / self.window, float32(self.beta)
        constants: Constants = (
            ("outer", outer),
            ("axis", axis),
            ("inner", inner),
            ("window", self.local_size),
            ("before", before),
            ("after", after),
            ("left", before if self.across else 0),
            ("right", after if self.across else 0),
            ("vector", vector),
            ("length", length),
            ("alpha", float32(alpha)),
            ("beta", beta),
            ("k", float32(self.k)),
            ("minus", float32(-2 * alpha * beta)),
            *self._types(x, direction, part),
        )
        mode = "within" if self.across else "across"
        numbers = "_".join(identifier(v) for v in (self.alpha, self.beta, self.k))
        step = "" if part in ("forward", "backward") else f"_{part}"
        name = f"lrn_{direction}{step}_{mode}{self.local_size}_{outer}x{axis}x{inner}_{numbers}"
        name += elementwise.suffix(x.dtype)
        kernel = Kernel(name, f"lrn_{part}.hip", BLOCK, constants)
        return kernel, (ceil(items / BLOCK), ceil(axis / length), 1)

    def _types(self, x: TensorSpec, direction: Pass, part: str) -> Constants:
        """Constants that name element types; of a gradient, where its first step's terms are."""
        stored = x.dtype.is_narrow and self._stores_by_fours(x, direction) and part != "ratio"
        return (
            *elementwise.element(x.dtype),
            *((("result", x.dtype.c),) if stored else ()),
            *((("with_term", int("term" in self._between(x))),) if part == "gradient" else ()),
        )

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        x = tensors["x"]
        s = self._energy(x)
        power = s ** -float32(self.beta)
        if direction is Pass.FORWARD:
            return {"y": x * power}
        dy = tensors["dy"]
        return {"dx": dy * power - self._slope * x * self._windows(dy * x * power / s, held=True)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        x, beta = tensors["x"], float32(self.beta)
        s = self._energy(x)
        # s: additions in a chain of fused multiply-adds along the axis, and one across it; the
        # rounded alpha / m, and the last addition.
        chain = 2 * self.local_size - 1 if self.across else self.local_size
        s_error = ((chain + 1) * U * (s - float32(self.k)) + U * s) / s
        # The power, exp2(-beta log2(s)): errors of the exponent count with ln 2 in the result.
        exponent = beta * (log2(s) + U * np.abs(np.log2(s)))
        power = s**-beta
        power_error = beta * s_error + float(np.log(2)) * exponent + EXP2
        if direction is Pass.FORWARD:
            return {"y": np.abs(x) * power * (power_error + U) * SECOND_ORDER + TINY}
        term = np.abs(tensors["dy"]) * power
        ratio = term * np.abs(x) / s
        # Products with dy, x and the reciprocal of s; then additions along the axis (and across).
        additions = 2 * (self.local_size - 1) if self.across else self.local_size - 1
        ratio_error = ratio * (power_error + s_error + RCP + (3 + additions) * U)
        factor = self._slope * np.abs(x)
        sums = self._windows(ratio_error + 3 * U * ratio, held=True)  # 3: the factor's roundings
        dx = np.abs(self.reference(tensors, direction)["dx"])
        bound = term * (power_error + U) + factor * sums + U * dx
        return {"dx": bound * SECOND_ORDER + TINY * (1 + factor * self.window)}

    @property
    def _slope(self) -> float:
        """2 alpha beta / m."""
        return 2 * float32(self.alpha) * float32(self.beta) / self.window

    def _energy(self, x: Array) -> Array:
        """s."""
        found: Array = float32(self.k) + float32(self.alpha) / self.window * self._windows(x * x)
        return found

    def _windows(self, x: Array, *, held: bool = False) -> Array:
        """The sum over each element's window; `held`: over the elements whose window holds it."""
        before, after = self.before, self.local_size - 1 - self.before
        if held:
            before, after = after, before
        for axis in (2, 3) if self.across else (1,):
            extent = x.shape[axis]
            around = [(before, after) if a == axis else (0, 0) for a in range(4)]
            padded = np.moveaxis(np.pad(x, around), axis, 0)
            parts = (padded[k : k + extent] for k in range(self.local_size))
            x = np.moveaxis(reduce(np.add, parts), 0, axis)
        return x
