"""Fully connected layer of circulant blocks, whose products are convolutions of blocks.

    forward   y[n, p k + i]  = sum over q, j of  w[p, q, (i - j) mod k] * x[n, q k + j]
    backward  dx[n, q k + j] = sum over p, i of  w[p, q, (i - j) mod k] * dy[n, p k + i]
              dw[p, q, d]    = sum over n, j of  x[n, q k + j] * dy[n, p k + (j + d) mod k]

    x, dx  (N, C, H, W) seen as (N, Q k), k = block_size     w, dw  (P, Q, k)
    y, dy  (N, P k, 1, 1)                                     P k = num_output

Real Fourier transforms turn the convolutions into products at k / 2 + 1 frequencies. Each is a
matrix product in real numbers: a row has the real parts of a row of blocks and then the imaginary
ones, and w is stored as ((re, -im), (im, re)). The kernels are a transform of each factor, a batch
of matrix products (simgen/layers/product/matrix_product.py) and a transform back.

Source: Ding et al., "CirCNN: Accelerating and Compressing Deep Neural Networks Using
Block-Circulant Weight Matrices", 2017, section 3; DNNMark's BCMFullyConnectedLayer (branch
circulant_block_method, core/include/layers/bcm_fc_layer.h). Its `optimization` says how many
kernels share what lies between transforms: here that is one in any case, as with KF.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, sqrt
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.machine import NO
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, U, accumulated
from simgen.ground.numerics.spread import Spread
from simgen.layers.base import IN_PARTS, Choice, Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.product.matrix_product import FACTORS, Product
from simgen.layers.product.tile import SPLITS
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

BLOCK = 64  # work-items, each with a block in its registers
SIZES = (2, 4, 8, 16, 32, 64)  # sizes of blocks
STEP_ERROR = 5  # times U of the 2-norm, that one of log2(k) steps of a transform loses


class Optimization(StrEnum):
    NO = "NO"
    O1 = "O1"
    O2 = "O2"
    KF = "KF"


@dataclass(frozen=True)
class BlockCirculant(Layer):
    kind = "bcm_fc"
    section = "BCMFullyConnected"
    rank: ClassVar[int | None] = 4
    contract: ClassVar[Contract] = Contract(rounds=True)
    passes: ClassVar[tuple[Pass, ...]] = IN_PARTS
    parameters: ClassVar[tuple[str, ...]] = ("w",)
    data_parallel = True
    shape_given = ("dx",)
    sample: ClassVar[Mapping[str, str]] = {
        "n": "100",
        "c": "8192",
        "h": "1",
        "w": "1",
        "num_output": "8192",
    }

    num_output: int = key("num_output", 4096, "number of outputs per image", 1)
    block_size: int = key("block_size", 32, "rows and columns of a circulant block", 2)
    optimization: Optimization = key(
        "optimization",
        Optimization.NO,
        "DNNMark's choice of kernels; simgen always uses those of KF",
        hint=True,
    )

    @property
    def _frequencies(self) -> int:
        return self.block_size // 2 + 1

    def _extents(self, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """(N, P, Q).

        Raises:
            ValueError: there are no such blocks.
        """
        n, inputs = shape[0], int(np.prod(shape[1:]))
        k = self.block_size
        if k not in SIZES:
            raise ValueError(f"block_size is {k}; let it be one of {', '.join(map(str, SIZES))}")
        for extent, what in ((self.num_output, "num_output"), (inputs, "inputs of an image")):
            if extent % k:
                fact = f"{extent} {what} are not whole blocks of {k}"
                raise ValueError(f"{fact}; choose another block_size")
        return n, self.num_output // k, inputs // k

    def weights(self, x: TensorSpec) -> TensorSpec:
        """w: (P, Q, k)."""
        _, p, q = self._extents(x.shape)
        return TensorSpec((p, q, self.block_size))

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        for direction in self.passes:
            self.product(x.shape, direction).check()
        return TensorSpec((x.shape[0], self.num_output, 1, 1))

    def product(self, shape: tuple[int, ...], direction: Pass) -> Product:
        """The matrix products of a pass, one for each frequency."""
        n, p, q = self._extents(shape)
        extents = {
            Pass.FORWARD: (n, 2 * p, 2 * q, False, True),
            Pass.BACKWARD_DATA: (n, 2 * q, 2 * p, False, False),
            Pass.BACKWARD_WEIGHT: (2 * p, 2 * q, n, True, False),
        }[direction]
        # Whatever --matrix says: spectra are float32 as everything is here.
        machine = replace(self.machine, use_matrix=NO)
        return Product(*extents, batch=self._frequencies, machine=machine)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """2.5 k log2 k for each transform of a block, as FFTW counts real ones, and 8 for each
        product of complex numbers and its sum."""
        n, p, q = self._extents(inputs[0].shape)
        steps = self.block_size.bit_length() - 1
        blocks = n * q + n * p + p * q
        return 5 * self.block_size * steps * blocks // 2 + 8 * n * p * q * self._frequencies, 0

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        y, w = self.output(inputs), self.weights(x)
        usual = Fill.usual(x.dtype)
        # He et al., "Delving Deep into Rectifiers", 2015: activations keep their size.
        weights = Fill.usual(w.dtype, sqrt(2 / (w.shape[1] * w.shape[2])))
        workspaces = self._workspaces(x.shape, direction)
        if direction is Pass.FORWARD:
            return (Port("x", x, usual), Port("w", w, weights), *workspaces, Port("y", y))
        if direction is Pass.BACKWARD_DATA:
            return (Port("w", w, weights), Port("dy", y, usual), *workspaces, Port("dx", x))
        return (Port("x", x, usual), Port("dy", y, usual), *workspaces, Port("dw", w))

    def _workspaces(self, shape: tuple[int, ...], direction: Pass) -> list[Port]:
        """Spectra of both factors and of what is written, and partial sums."""
        made = []
        for port in FACTORS[direction]:
            down, across = self._blocks(port, shape)
            rows = 2 * down if port in ("w", "dw") else down
            spec = TensorSpec((self._frequencies, rows, 2 * across))
            made.append(Port(f"{port}_spectrum", spec, scratch=True))
        workspaces = self.product(shape, direction).workspaces()
        return [*made, *(Port(name, spec, scratch=True) for name, spec in workspaces.items())]

    def _blocks(self, port: str, shape: tuple[int, ...]) -> tuple[int, int]:
        """Rows of blocks of a tensor, and blocks of each, for the shape of x."""
        n, p, q = self._extents(shape)
        return {"x": (n, q), "y": (n, p), "w": (p, q)}[port.removeprefix("d")]

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        written, left, right = FACTORS[direction]
        kernels, launches = [], []
        for port in (left, right):
            kernel, launch = self._transform(x.shape, port, back=False)
            kernels.append(kernel)
            launches.append(launch)
        product = self.product(x.shape, direction)
        a, b, y = (f"{port}_spectrum" for port in (left, right, written))
        made, calls = product.lower(f"bcm_fc_{direction}", a, b, None, y)
        kernel, launch = self._transform(x.shape, written, back=True)
        kernels += [*made, kernel]
        return Lowering(tuple(dict.fromkeys(kernels)), (*launches, *calls, launch))

    def _transform(self, shape: tuple[int, ...], port: str, *, back: bool) -> tuple[Kernel, Launch]:
        down, across = self._blocks(port, shape)
        steps = ("filters", "gradient") if port in ("w", "dw") else ("rows", "results")
        step = steps[back]
        constants = (
            ("step", step),
            ("size", self.block_size),
            ("down", down),
            ("across", across),
        )
        name = f"bcm_fc_{step}_{down}x{across}x{self.block_size}"
        kernel = Kernel(name, "circulant.hip", BLOCK, constants)
        args = (f"{port}_spectrum", port) if back else (port, f"{port}_spectrum")
        return kernel, Launch(name, (ceil(down * across / BLOCK), 1, 1), args)

    def choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        (x,) = inputs
        return self.product(x.shape, direction).choices

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        """The product with the whole matrix, without a transform."""
        if direction is Pass.BACKWARD_WEIGHT:
            dy, x = self._rows(tensors["dy"]), self._rows(tensors["x"])
            whole = (dy.T @ x).reshape(-1, self.block_size, x.shape[1] // self.block_size,
                                       self.block_size)  # fmt: skip
            at = np.arange(self.block_size)
            parts = [whole[:, (at + d) % self.block_size, :, at].sum(axis=0) for d in at]
            return {"dw": np.stack(parts, axis=-1)}
        w = self._matrix(tensors["w"])
        if direction is Pass.FORWARD:
            return {"y": (self._rows(tensors["x"]) @ w.T)[:, :, None, None]}
        return {"dx": (self._rows(tensors["dy"]) @ w).reshape(tensors["dx"].shape)}

    def _rows(self, tensor: Array) -> Array:
        return tensor.reshape(len(tensor), -1)

    def _matrix(self, w: Array) -> Array:
        """(P k, Q k)."""
        p, q, k = w.shape
        at = np.arange(k)
        blocks = w[:, :, (at[:, None] - at) % k]  # (P, Q, k, k)
        found: Array = blocks.swapaxes(1, 2).reshape(p * k, q * k)
        return found

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """Error bounds by norms of blocks: a product of spectra has the product of its factors'
        norms.

        A step of a transform multiplies one of two numbers by a root of one (its parts are rounded,
        and so are those of the product: 2 sqrt(2) + 1 roundings of its magnitude at most) and adds:
        less than STEP_ERROR U of the 2-norm in each of log2 k steps (Higham, "Accuracy and
        Stability of Numerical Algorithms", 2002, section 24.1). An error in a spectrum changes a
        result by a mean of products over all frequencies, at most by the product of both 2-norms
        (Cauchy and Schwarz, Parseval). So all three transforms count alike, and so do the sums of
        products, whose real and imaginary parts have each `accumulated` of the terms' magnitudes.
        """
        port, whole, _ = self._norms(tensors, direction)
        terms = self._terms(tensors, direction)
        lost = 3 * self._steps * STEP_ERROR * U * SECOND_ORDER**3
        lost += sqrt(2) * accumulated(terms + SPLITS + 1) * SECOND_ORDER
        flushed = 64 * (terms + self._steps) * self.block_size * TINY * (1 + whole)
        return {port: self._spread_out(whole * lost + flushed, port, tensors)}

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        """Roundings of different steps and blocks are drawn by themselves, none larger than the
        bound of one; those of the roots of one are not, and count whole."""
        port, whole, root = self._norms(tensors, direction)
        terms = self._terms(tensors, direction)
        drawn = STEP_ERROR * sqrt(3 * self._steps) * root + 2 * sqrt(terms + SPLITS) * whole
        sigma = U * SECOND_ORDER**3 * (drawn + 3 * self._steps * whole)
        sigma += 64 * (terms + self._steps) * self.block_size * TINY * (1 + whole)
        spread_out = self._spread_out(sigma, port, tensors)
        return {port: Spread(np.minimum(spread_out, tolerance[port]))}

    @property
    def _steps(self) -> int:
        """Steps of a transform."""
        return self.block_size.bit_length() - 1

    def _terms(self, tensors: Tensors, direction: Pass) -> int:
        shape = tensors["x" if "x" in tensors else "dx"].shape
        return self.product(shape, direction).k

    def _norms(self, tensors: Tensors, direction: Pass) -> tuple[str, Array, Array]:
        """The port that is written; for each of its blocks the sum of the products of 2-norms of
        blocks, and the root of the sum of their squares."""
        port, *factors = FACTORS[direction]
        left, right = (
            np.sqrt(np.square(t.reshape(len(t), -1, self.block_size)).sum(axis=-1))
            for t in (tensors[factor] for factor in factors)
        )
        if direction is Pass.FORWARD:
            right = right.T
        if direction is Pass.BACKWARD_WEIGHT:
            left = left.T
        return port, left @ right, np.sqrt(np.square(left) @ np.square(right))

    def _spread_out(self, blocks: Array, port: str, tensors: Tensors) -> Array:
        """The same for each element of a block."""
        each = np.repeat(blocks[..., None], self.block_size, axis=-1)
        if port == "dw":
            return each
        shape = tensors["dx"].shape if port == "dx" else (len(blocks), self.num_output, 1, 1)
        return each.reshape(shape)


@writes("circulant")
def _written(c: Values, block: int) -> list[Writes]:
    down, across, size = c["down"], c["across"], c["size"]
    if c["step"] in ("results", "gradient"):
        return [
            Writes(-1, cut_by(Places(down * across, size), group=block), inside=(Places(size),))
        ]
    blocks = cut_by(Places(down, 2 * across), Places(across), group=block)
    halves = 2 if c["step"] == "filters" else 1
    matrix = 2 * halves * down * across
    lower = (Places(2, 2 * down * across),) if halves == 2 else ()
    inside = (Places(size // 2 + 1, matrix), *lower, Places(2, across))
    return [Writes(-1, blocks, inside=inside)]
