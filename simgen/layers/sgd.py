"""Stochastic gradient descent: one step of a parameter against its gradient.

    y = x - (rate / loss_scale) * dx                            by default; otherwise

    g = dx / loss_scale + weight_decay * x
    v' = momentum * v + g                                       new_v
    y = x - rate * v'                                           `nesterov`: g + momentum * v'

v is the velocity, zero before the first step; without momentum there is none, and v' is g. These
are PyTorch's formulas (torch.optim.SGD without dampening). Caffe multiplies g by the rate before it
enters v, which differs if the rate changes. simgen/layers/optimiser.py describes x, dx, y and
`copy`. By default, rate / loss_scale is one constant, rounded once.

Source: Robbins and Monro, "A stochastic approximation method", 1951; Polyak, "Some methods of
speeding up the convergence of iteration methods", 1964; Sutskever et al., "On the importance of
initialization and momentum in deep learning", 2013 (nesterov). Pass `sgd` of a network has one such
layer for each parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, DType, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import exactness
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, U, float32, identifier
from simgen.layers import elementwise
from simgen.layers.base import Lowering, Sums, key
from simgen.layers.contract import Contract
from simgen.layers.optimiser import NORMAL, Optimiser
from simgen.layers.written import Writes, dense, writes

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values


@dataclass(frozen=True)
class SGD(Optimiser):
    kind = "sgd"
    section = "SGD"
    contract: ClassVar[Contract] = Contract(exact_settings=("rate=0.125",))

    momentum: float = key("momentum", 0.0, "momentum", 0.0, 1.0)
    weight_decay: float = key("weight_decay", 0.0, "weight decay, part of the gradient", 0.0, 1.0)
    nesterov: bool = key("nesterov", False, "Nesterov momentum")

    @property
    def step(self) -> float:
        """What dx is multiplied by in a plain step, as float32."""
        return float32(self.rate / self.loss_scale)

    @property
    def _plain(self) -> bool:
        return not self._stays and not self._decay

    @property
    def _stays(self) -> float:
        """The momentum, as float32."""
        return float32(self.momentum)

    @property
    def _decay(self) -> float:
        return float32(self.weight_decay)

    @property
    def states(self) -> tuple[tuple[str, Fill], ...]:
        return (("v", NORMAL),) if self._stays else ()

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        if self.nesterov and not self._stays:
            raise ValueError("nesterov looks ahead by the momentum, which is 0; set momentum")
        return super().output(inputs)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """A multiply-add per element; the scale, and one more for each of the others."""
        more = bool(self._decay) + bool(self._stays) + self.nesterov
        return (2 if self._plain else 3 + 2 * more) * inputs[0].size, 0

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        types, of_types = self.types_of()
        copy = ("copy",) if self.copies else ()
        sizes: Constants = (("size", x.size), ("vector", elementwise.VECTOR))
        if self._plain:
            name = "_".join([f"sgd_{x.size}_r{identifier(self.step)}", *types])
            narrow = ("with_narrow", int(self.copies or self.gradient_type != DType.F32))
            constants = (*sizes, ("rate", self.step), *self.switches, narrow, *of_types)
            kernel = Kernel(name, "descend.hip", elementwise.BLOCK, constants)
            args = ("x", "dx", "y", *copy)
            return Lowering((kernel,), (Launch(name, elementwise.grid(x.size), args),))
        numbers = {
            "rate": float32(self.rate),
            "scale": self.scale,
            "decay": self._decay,
            "momentum": self._stays,
        }
        words = (name[0] + identifier(value) for name, value in numbers.items())
        ahead = ["ahead"] if self.nesterov else []
        name = "_".join(["sgd", str(x.size), *words, *ahead, *types])
        switches = (("with_velocity", int(bool(self._stays))), ("nesterov", int(self.nesterov)))
        constants = (*sizes, *numbers.items(), *switches, *self.switches, *of_types)
        kernel = Kernel(name, "momentum.hip", elementwise.BLOCK, constants)
        carried, left = (("v",), ("new_v",)) if self._stays else ((), ())
        args = ("x", "dx", *carried, "y", *left, *copy)
        return Lowering((kernel,), (Launch(name, elementwise.grid(x.size), args),))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        x, dx = tensors["x"], tensors["dx"]
        if self._plain:
            made = {"y": x - self.step * dx}
        else:
            _, v, d = self._moves(tensors)
            made = {"y": x - float32(self.rate) * d, **({"new_v": v} if self._stays else {})}
        return {**made, **({"copy": made["y"]} if self.copies else {})}

    def _moves(self, tensors: Tensors) -> tuple[Array, Array, Array]:
        """Gradient with decay, velocity, and what the rate multiplies."""
        g = self.scale * tensors["dx"] + self._decay * tensors["x"]
        v = self._stays * tensors["v"] + g if self._stays else g
        return g, v, g + self._stays * v if self.nesterov else v

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        # Sums are rounded, and by MGPUSim, whose fused() is none, their products too.
        x = tensors["x"]
        made = self.reference(tensors, direction)
        y = made["y"]
        bounds = {}
        if self._plain:
            bound = U * (np.abs(y) + np.abs(x - y)) * SECOND_ORDER + TINY
        else:
            g, v, d = self._moves(tensors)
            scaled = self.scale * tensors["dx"]
            error = U * (np.abs(scaled) + np.abs(g - scaled) + np.abs(g)) + 3 * TINY
            moved = error
            if self._stays:
                moved = error + U * (np.abs(v - g) + np.abs(v)) + 2 * TINY
                bounds["new_v"] = moved * SECOND_ORDER
            if self.nesterov:
                moved = self._stays * moved + error + U * (np.abs(d - g) + np.abs(d)) + 2 * TINY
            bound = float32(self.rate) * moved + U * (np.abs(y) + np.abs(x - y)) + 2 * TINY
            bound = bound * SECOND_ORDER
        return {"y": bound, **bounds, **({"copy": bound} if self.copies else {})}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums(2) if self._plain else None

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        if not self._plain:
            return {}
        x, dx = tensors["x"], tensors["dx"]
        grain = min(exactness.grain(x), exactness.grain(dx, np.array([self.step])))
        if not grain:
            return {}
        magnitudes = np.abs(x) + np.abs(self.step * dx)
        y = exactness.settled(x - self.step * dx, magnitudes, grain)
        return {"y": y, **({"copy": y} if self.copies else {})}


@writes("descend")
def _plain(c: Values, block: int) -> list[Writes]:
    arguments = (-1, -2) if c["with_copy"] else (-1,)
    return [dense(at, c["size"], c["vector"], block) for at in arguments]


@writes("momentum")
def _with_velocity(c: Values, block: int) -> list[Writes]:
    count = 1 + c["with_velocity"] + c["with_copy"]
    return [dense(-1 - at, c["size"], c["vector"], block) for at in range(count)]
