"""What the kernels of layer normalisation lose: bounds of first order, from float32 inputs.

Tensors are float64 arrays (rows, length); gamma and beta (1, length), mean and r (rows, 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.numerics.rounding import U
from simgen.ground.numerics.spread import stages, sum_spread
from simgen.layers import reduction
from simgen.layers.norm.batch_norm_errors import inverse_root, product

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.reduction import Tiling


@dataclass(frozen=True)
class LayerNormErrors:
    """Absolute bounds or, where `proxy`, proxy standard deviations no larger than these."""

    tiling: Tiling  # tiling of the sums, over rows or over columns
    proxy: bool

    def forward(self, x: Array, gamma: Array, beta: Array, epsilon: float) -> Tensors:
        length = self.tiling.elements
        mean = x.mean(axis=1, keepdims=True)
        d = x - mean
        var = np.square(d).mean(axis=1, keepdims=True)
        mean_error = self._sum(x, 0) / length + self._inverse * np.abs(mean)
        # About a mean that is wrong by e, the mean square is larger by e^2. Rounded: the
        # difference, which counts twice, each fused product, and the division.
        more = 0 if length == 1 else 3
        var_error = self._sum(np.square(d), more) / length + self._inverse * var
        var_error = var_error * (1 + 2 * U) + mean_error**2
        r, r_error = inverse_root(var, var_error, epsilon)
        d_error = mean_error + U * (np.abs(d) + mean_error)
        scaled, scaled_error = d * r, product(d, d_error, r, r_error)
        weighted_error = product(scaled, scaled_error, gamma, 0.0)
        y = scaled * gamma + beta
        y_error = weighted_error + U * (np.abs(y) + weighted_error)
        return {"y": y_error, "mean": mean_error, "invstd": r_error}

    def root(
        self, x: Array, epsilon: float, more: int = 1, share: float = 0
    ) -> tuple[Array, Array]:
        """1 / sqrt(sum(x^2) share + epsilon), where a share of 0 is 1 / D, and its error bound.
        Roundings: each square that is not fused, or `more`, and the division.
        """
        inverse = self._inverse if not share else 0.0
        share = share or 1 / self.tiling.elements
        square = np.square(x).sum(axis=1, keepdims=True) * share
        error = self._sum(np.square(x), more) * share + inverse * square
        return inverse_root(square, error * (1 + 2 * U), epsilon)

    def root_data(self, given: Tensors, r: Array, r_error: Array) -> Array:
        """Error bound of dx of [RMSNorm]. Rounded beside the sum: g and, where it is not fused, its
        product with x."""
        x, g, length = given["x"], given["dy"] * given["gamma"], self.tiling.elements
        dot, dot_error = (g * x).sum(axis=1, keepdims=True), self._sum(g * x, 2)
        slope = dot * np.square(r) / length
        relative = self._inverse + 2 * U + 2 * r_error / r
        slope_error = dot_error * np.square(r) / length * (1 + relative) + relative * np.abs(slope)
        inner = g - x * slope
        inner_error = U * np.abs(g) + product(x, 0.0, slope, slope_error)
        inner_error = inner_error + U * (np.abs(inner) + inner_error)
        return product(r, r_error, inner, inner_error)

    def root_parameter(self, given: Tensors, r: Array, r_error: Array) -> Array:
        """Error bound of dgamma of [RMSNorm]. Each term rounds x r and, where it is not fused, the
        product with dy."""
        terms, off = given["dy"] * given["x"] * r, np.abs(given["dy"] * given["x"]) * r_error
        found: Array = self._sum(terms.T, 2) + off.sum(axis=0)[:, np.newaxis]
        return found

    def data(self, given: Tensors) -> Tensors:
        """Error bound of dx. mean and r are inputs; the difference to the mean is rounded once."""
        d, r, g = given["x"] - given["mean"], given["invstd"], given["dy"] * given["gamma"]
        length = self.tiling.elements
        # Rounded beside the sums: g; g, d and, where it is not fused, their product.
        total, total_error = g.sum(axis=1, keepdims=True), self._sum(g, 1)
        dot, dot_error = (g * d).sum(axis=1, keepdims=True), self._sum(g * d, 3)
        shift = total / length
        shift_error = total_error / length + self._inverse * np.abs(shift)
        slope = dot * np.square(r) / length
        slope_error = dot_error * np.square(r) / length + (self._inverse + 2 * U) * np.abs(slope)
        shifted, shifted_error = g - shift, U * np.abs(g) + shift_error
        shifted_error = shifted_error + U * (np.abs(shifted) + shifted_error)
        inner = shifted - d * slope
        inner_error = shifted_error + product(d, U * np.abs(d), slope, slope_error)
        inner_error = inner_error + U * (np.abs(inner) + inner_error)
        return {"dx": product(r, 0.0, inner, inner_error)}

    def parameters(self, given: Tensors) -> Tensors:
        """Error bounds of the sums over rows. Each term rounds the difference, its product with r
        and, where it is not fused, the product with dy.
        """
        dy = given["dy"]
        terms = dy * (given["x"] - given["mean"]) * given["invstd"]
        return {"dgamma": self._sum(terms.T, 3), "dbeta": self._sum(dy.T, 0)}

    @property
    def _inverse(self) -> float:
        """Relative error of a product with 1 / D: the constant's and the product's rounding."""
        length = self.tiling.elements
        return 0.0 if length & (length - 1) == 0 else 2 * U

    def _sum(self, terms: Array, more: int) -> Array:
        """Error bound of the sum of each row, whose terms have `more` roundings: (rows, 1)."""
        tiling, chunks = self.tiling, self.tiling.chunks
        depth = tiling.additions + (chunks if chunks > 1 else 0) + more
        hard: Array = depth * U * np.abs(terms).sum(axis=1)
        if self.proxy:
            finals = min(tiling.slices, reduction.FINALS)
            inside = stages(tiling.held, tiling.slices // finals, finals, chunks)
            hard = sum_spread(terms, inside + more, hard)
        return hard[:, np.newaxis]
