"""General matrix product, y = alpha op(A) op(B) + beta c.

    y(i, j) = alpha * sum over p of  op(A)(i, p) op(B)(p, j)  +  beta * c(i, j)

    op(A)  (m, k)  a lies in memory as (m, k), with transa=true as (k, m)
    op(B)  (k, n)  b lies in memory as (k, n), with transb=true as (n, k)
    y, c   (m, n)  c is read only where beta is not zero

All matrices lie by rows. BLAS and DeepBench lay theirs by columns, which is the same problem with
the two sides changed: their (m, n, k, transa, transb) is (n, m, k, transb, transa) here.

Source: SGEMM of Dongarra et al., "A Set of Level 3 Basic Linear Algebra Subprograms", 1990;
DeepBench's GEMM tables name the transpositions a_t and b_t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ir import Distribution, Fill, OpCount, Pass, TensorSpec
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.product.matrix_product import Product
from simgen.numerics import exactness
from simgen.numerics.spread import Spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from simgen.layers.base import Tensors
    from simgen.numerics.rounding import Array
else:
    from simgen import arrays as np


@dataclass(frozen=True)
class Gemm(Layer):
    kind = "gemm"
    section = "Gemm"
    passes = (Pass.FORWARD,)
    takes_input = False
    sample: ClassVar[Mapping[str, str]] = {"m": "256", "n": "256", "k": "256"}

    m: int = key("m", default=256, least=1, text="rows of y")
    n: int = key("n", default=256, least=1, text="columns of y")
    k: int = key("k", default=256, least=1, text="length of the sums")
    transa: bool = key("transa", "a_t", default=False, text="whether a lies in memory transposed")
    transb: bool = key("transb", "b_t", default=False, text="whether b lies in memory transposed")
    alpha: float = key("alpha", default=1.0, least=-1e6, most=1e6, text="factor of the product")
    beta: float = key(
        "beta",
        default=0.0,
        least=-1e6,
        most=1e6,
        text="factor of c; c is read only where it is not 0",
    )

    @property
    def product(self) -> Product:
        alpha, beta = float(np.float32(self.alpha)), float(np.float32(self.beta))
        extents = self.m, self.n, self.k
        return Product(*extents, self.transa, self.transb, alpha, beta, machine=self.machine)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        self.product.check()
        return TensorSpec((self.m, self.n))

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """2 m n k, and for each result one multiplication by alpha, unless it is 1, and one
        multiply-add with beta, unless it is 0. Every matrix counts once in the bytes."""
        results = self.m * self.n
        product = self.product
        per_result = 2 * self.k + (product.alpha != 1) + 2 * (product.beta != 0)
        read = self.m * self.k + self.k * self.n + (results if product.beta != 0 else 0)
        return OpCount(per_result * results, 0, 4 * read, 4 * results)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        a = TensorSpec((self.k, self.m) if self.transa else (self.m, self.k))
        b = TensorSpec((self.n, self.k) if self.transb else (self.k, self.n))
        y = TensorSpec((self.m, self.n))
        normal = Fill(Distribution.NORMAL, 0.0, 1.0)
        # Results of about one, whatever k is.
        weights = Fill(Distribution.NORMAL, 0.0, self.k**-0.5)
        workspace = self.product.workspace
        return (
            Port("a", a, normal),
            Port("b", b, weights),
            *((Port("c", y, normal),) if self.product.beta != 0 else ()),
            Port("y", y),
            *((Port("partial", workspace, scratch=True),) if workspace else ()),
        )

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        product = self.product
        added = "c" if product.beta != 0 else None
        return Lowering(*product.lower("gemm_fwd", "a", "b", added, "y"))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        product = self.product
        a, b = self._sides(tensors)
        y: Array = product.alpha * (a @ b)
        return {"y": y + product.beta * tensors["c"] if product.beta != 0 else y}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        a, b = self._sides(tensors)
        y = self.reference(tensors, direction)["y"]
        return {"y": self.product.bound(a, b, y)}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums(self.k + (self.product.beta != 0))

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        a, b = self._sides(tensors)
        alpha, beta = self.product.alpha, self.product.beta
        grain = exactness.grain(a, b)
        if not grain:
            return {}
        magnitudes = np.abs(a) @ np.abs(b)
        if beta == 0:  # the product with alpha is the one that is rounded
            sums = exactness.settled(a @ b, magnitudes, grain)
            return {"y": exactness.scaled(sums, alpha)}
        scales = [exactness.grain(np.array([scale])) for scale in (alpha, beta)]
        least = min(grain, grain * scales[0], exactness.grain(tensors["c"]) * scales[1])
        total = np.maximum(1.0, abs(alpha)) * magnitudes + np.abs(beta * tensors["c"])
        y = self.reference(tensors, direction)["y"]
        return {"y": exactness.settled(y, total, least)}

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        a, b = self._sides(tensors)
        y = self.reference(tensors, direction)["y"]
        return {"y": Spread(self.product.spread(a, b, y, tolerance["y"]))}

    def _sides(self, tensors: Tensors) -> tuple[Array, Array]:
        """op(A) and op(B)."""
        a, b = tensors["a"], tensors["b"]
        return (a.T if self.transa else a), (b.T if self.transb else b)
