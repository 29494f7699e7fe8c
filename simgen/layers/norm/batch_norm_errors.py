"""What the kernels of batch normalisation lose: bounds of first order, from float32 inputs.

All values are float64 arrays, with one element for each feature or for each element of x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.numerics.rounding import RCP, SQRT, U
from simgen.layers import reduction

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.reduction import Tiling


@dataclass(frozen=True)
class BatchNormErrors:
    """Error bounds for sums over `axes`, which the kernels compute tile by tile."""

    tiling: Tiling
    axes: tuple[int, ...]

    @property
    def inverse(self) -> float:
        """Relative error of a product with 1 / M: the constant's and the product's rounding."""
        m = self.tiling.elements
        return 0.0 if m & (m - 1) == 0 else 2 * U

    @property
    def finish(self) -> int:
        """Roundings in the sum over chunks."""
        return 0 if self.tiling.chunks == 1 else reduction.finishing(self.tiling.chunks).additions

    def moments(self, x: Array, var: Array) -> tuple[Array, Array]:
        """Absolute errors of the mean and of the variance."""
        chunks, tile = self.tiling.chunks, self.tiling.additions * U
        if chunks == 1:
            mean_error = (tile + self.inverse) * self._mean(np.abs(x))
            # About a mean that is wrong by e, the mean square is larger by e^2. Rounded: the
            # difference, which counts twice, each fused product, and the division by M.
            relative = tile + (0 if self.tiling.elements == 1 else 3 * U) + self.inverse
            return mean_error, relative * (var + mean_error**2) + mean_error**2
        # The chunk's division by its length; its weight, the product with that, their sum.
        chunk = tile + 2 * U
        mean_error = (chunk + (2 + self.finish) * U) * self._mean(np.abs(x))
        # n_i (mean_i - mean)^2 changes by 2 n_i (mean_i - mean) e. Summed over chunks, that is no
        # more than 2 M sqrt(var) times the root of the mean of e^2, by Cauchy and Schwarz, and
        # the chunk's own e is no more than `chunk` times the root mean square of its elements.
        e = chunk * np.sqrt(self._mean(np.square(x))) + mean_error
        relative = tile + 3 * U + (3 + self.finish) * U + 2 * U
        return mean_error, relative * (var + e**2) + 2 * np.sqrt(var) * e + e**2

    def gradients(
        self,
        tensors: Tensors,
        d: tuple[Array, Array],
        r: tuple[Array, Array],
        scale_error: Array,
        frozen: bool,
    ) -> Tensors:
        """`d` is x - mean and `r` 1 / sqrt(var + epsilon), each with its absolute error."""
        dy, w = tensors["dy"], tensors["w"]
        db_error, dot_error = self.sum_error(dy), self.dot_error(dy, *d)
        dot = self._sum(dy * d[0])
        dw, dw_error = dot * r[0], product(dot, dot_error, *r)
        found = {"dw": dw_error, "db": db_error}
        scale = w * r[0]
        if frozen:
            return found | {"dx": product(scale, scale_error, dy, 0.0)}
        m = self.tiling.elements
        db = self._sum(dy)
        shift, shift_error = db / m, (db_error + self.inverse * (np.abs(db) + db_error)) / m
        slope = dw * r[0] / m
        slope_error = product(dw, dw_error, *r) / m
        slope_error += self.inverse * (np.abs(slope) + slope_error)
        shifted_error = shift_error + U * (np.abs(dy - shift) + shift_error)
        inner = dy - shift - d[0] * slope
        inner_error = shifted_error + product(*d, slope, slope_error)
        inner_error += U * (np.abs(inner) + inner_error)
        return found | {"dx": product(scale, scale_error, inner, inner_error)}

    def running(self, old: Array, new: Array, new_error: Array, keep: float, scale: float) -> Array:
        """Absolute error of keep old + scale new: constants, products and the sum are rounded."""
        error: Array = scale * new_error
        if scale != 1:
            error = error + 2 * U * scale * np.abs(new)
        if keep:
            error = error + 3 * U * keep * np.abs(old) + U * scale * np.abs(new)
        return error

    def sum_error(self, dy: Array) -> Array:
        """Absolute error of the sums of dy."""
        return (self.tiling.additions + self.finish) * U * self._sum(np.abs(dy))

    def dot_error(self, dy: Array, d: Array, d_error: Array) -> Array:
        """The same of dy d. Each product is fused with the addition of it, one rounding more."""
        depth = (self.tiling.additions + self.finish + 1) * U
        worst = self._sum(np.abs(dy) * (np.abs(d) + d_error))
        return self._sum(np.abs(dy) * d_error) + depth * worst

    def _sum(self, values: Array) -> Array:
        total: Array = values.sum(axis=self.axes, keepdims=True)
        return total

    def _mean(self, values: Array) -> Array:
        return self._sum(values) / self.tiling.elements


def product(a: Array, a_error: Array | float, b: Array, b_error: Array | float) -> Array:
    """Absolute error of a b from those of its factors, and its own rounding.

    A fused multiply-add has that rounding too: MGPUSim does not fuse.
    """
    a, b = np.abs(a), np.abs(b)
    error = a * b_error + b * a_error + a_error * b_error
    return error + U * (a * b + error)


def inverse_root(var: Array, var_error: Array, epsilon: float) -> tuple[Array, Array]:
    """1 / sqrt(var + epsilon), and its absolute error. The computed variance is not negative."""
    total = var + epsilon
    r = 1 / np.sqrt(total)
    least = np.maximum(total - var_error, epsilon) * (1 - U)
    most = (total + var_error) * (1 + U)  # farther off where the variance is all but 0
    above = np.sqrt(total / least) * (1 + SQRT) * (1 + RCP) - 1
    below = 1 - np.sqrt(total / most) * (1 - SQRT) * (1 - RCP)
    return r, r * np.maximum(above, below)
