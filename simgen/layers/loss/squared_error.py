"""Mean squared error: the loss of a regression, from results and targets.

    losses = sum((x - target)^2) / size         of each sample, of `size` elements
    y      = sum(losses) / N
    dx     = dy * 2 / (N size) * (x - target)

x       results, (N, ...)
target  what they should be, of the same shape and type, from the data file
y       the mean of all squares

dy is 1, times the loss scale, if no other layer reads y. Each work-group has one sample.

Source: torch.nn.MSELoss. (EuclideanLoss of Caffe is size / 2 times as large.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, U, accumulated, float32
from simgen.layers import elementwise
from simgen.layers.base import Lowering, Port
from simgen.layers.contract import Contract
from simgen.layers.loss import mean
from simgen.layers.loss.mean import ONE, Loss
from simgen.layers.reduction import BLOCK, FINALS
from simgen.layers.written import Places, Writes, cut_by, writes, writes_all

if TYPE_CHECKING:
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values


def _each(n: int) -> int:
    """Elements of an access to a sample of n."""
    return elementwise.VECTOR if n % elementwise.VECTOR == 0 else 1


@dataclass(frozen=True)
class SquaredError(Loss):
    kind = "squared_error"
    section = "SquaredError"
    from_data = "target"
    data_parallel = True
    agreed: ClassVar[tuple[str, ...]] = ("y",)
    contract: ClassVar[Contract] = Contract(rounds=True)

    @property
    def summed(self) -> tuple[str, ...]:  # type: ignore[override]  # of the class in other layers
        return mean.TOTALS[:1] if self.gpus > 1 else ()

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Per element a subtraction and a multiply-add; backward a subtraction and a product."""
        (x,) = inputs
        return 3 * x.size + 2 * x.shape[0] if direction is Pass.FORWARD else 2 * x.size + 1, 0

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        normal = Fill(Distribution.NORMAL, 0.0, 1.0)
        ends = (Port("x", x, normal), Port("target", x, normal))
        if direction is Pass.BACKWARD:
            return (*ends, mean.SEED, Port("dx", x))
        totals = (Port(name, ONE, scratch=True) for name in self.summed)
        return (*ends, Port("losses", TensorSpec(x.shape[:1])), Port("y", ONE), *totals)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        n = x.shape[0]
        size = x.size // n
        suffix = elementwise.suffix(x.dtype)
        if direction is Pass.BACKWARD:
            share = float32(2 / (x.size * self.gpus))
            of = f"_of{self.gpus}" if self.gpus > 1 else ""
            name = f"{self.kind}_bwd_{x.size}{of}{suffix}"
            constants = (
                ("size", x.size),
                ("vector", elementwise.VECTOR),
                ("share", share),
                ("with_narrow", int(x.dtype.is_narrow)),
                *elementwise.element(x.dtype),
            )
            kernel = Kernel(name, "squared_error_backward.hip", elementwise.BLOCK, constants)
            launch = Launch(name, elementwise.grid(x.size), ("x", "target", "dy", "dx"))
            return Lowering((kernel,), (launch,))
        constants = (
            ("samples", n),
            ("size", size),
            ("vector", _each(size)),
            ("share", float32(1 / size)),
            ("finals", FINALS),
            *elementwise.element(x.dtype),
        )
        name = f"{self.kind}_{n}x{size}{suffix}"
        each = Kernel(name, "squared_error.hip", BLOCK, constants)
        launch = Launch(name, (n, 1, 1), ("x", "target", "losses"))
        if self.gpus > 1:
            parts, at_parts = mean.share_of(self.kind, n, 1.0, ("losses",))
            return Lowering((each, *parts), (launch, *at_parts))
        last, at_last = mean.launch(self.kind, n, float32(1 / n), ("losses", "y"))
        return Lowering((each, last), (launch, at_last))

    def afterwards(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        if direction is Pass.BACKWARD:
            return super().afterwards(inputs, direction)
        return mean.of_totals(self.kind, float32(1 / (inputs[0].shape[0] * self.gpus)))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        d = tensors["x"] - tensors["target"]
        if direction is Pass.BACKWARD:
            return {"dx": tensors["dy"] * 2 / (d.size * self.gpus) * d}
        losses = np.square(d).reshape(len(d), -1).mean(axis=1)
        return {"losses": losses, "y": np.array([losses.mean()])}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        made = self.reference(tensors, direction)
        if direction is Pass.BACKWARD:
            # The difference, the constant, the factor and the product, each rounded.
            return {"dx": 4 * U * np.abs(made["dx"]) * SECOND_ORDER + TINY}
        n, size = len(tensors["x"]), tensors["x"].size // len(tensors["x"])
        # Terms of one sign. Each is the square of a rounded difference, and rounded where a machine
        # does not fuse; then the constant and the product.
        held = ceil(size / (BLOCK * _each(size))) * _each(size)
        relative = accumulated(held + mean.GROUP_SUM + 5)
        losses = made["losses"]
        mean_error = (relative + accumulated(mean.additions(n) + 2)) * made["y"]
        return {
            "losses": relative * losses * SECOND_ORDER + TINY,
            "y": mean_error * SECOND_ORDER + TINY,
        }


@writes("squared_error")
def _forward(c: Values, block: int) -> list[Writes]:
    return [Writes(-1, cut_by(Places(c["samples"])), items=block)]


writes_all("squared_error_backward")
