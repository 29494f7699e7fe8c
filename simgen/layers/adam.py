"""Adam and AdamW: one step of a parameter, by the moments of its gradient.

    g  = dx / loss_scale + weight_decay * x                     `decoupled`: without the decay
    m' = beta1 * m + (1 - beta1) * g                            new_m
    v' = beta2 * v + (1 - beta2) * g^2                          new_v
    c' = beta * c + (1 - beta)                                  new_c, of both betas
    y  = x - rate * (m' / c1') / (sqrt(v' / c2') + epsilon)     `decoupled`: x - rate weight_decay x

m, v and c are zero before the first step. After t steps, c is 1 - beta^t, the bias correction. As a
state, it continues from step to step with one kernel for all steps. This formula subtracts nothing,
so it has no cancellation. c has two elements; the last work-group writes it.

With `decoupled`, the decay is not in the moments (AdamW). simgen/layers/optimiser.py describes x,
dx, y and `copy`.

Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, algorithm 1; Loshchilov
and Hutter, "Decoupled Weight Decay Regularization", 2019; torch.optim.Adam and AdamW.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics.rounding import RCP, SECOND_ORDER, SQRT, TINY, U, float32
from simgen.layers import elementwise
from simgen.layers.base import Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.optimiser import Optimiser
from simgen.layers.written import Places, Writes, cut_by, dense, writes

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

CORRECTIONS = TensorSpec((2,))
# One in SPARSE elements is so small that epsilon shows.
SPARSE, SMALL = 8, 1e-7


@dataclass(frozen=True)
class Adam(Optimiser):
    kind = "adam"
    section = "Adam"
    contract: ClassVar[Contract] = Contract(rounds=True)
    per_sample = False  # c is one of the whole parameter

    beta1: float = key("beta1", 0.9, "decay rate of the first moment", 0.0, 0.999999)
    beta2: float = key("beta2", 0.999, "decay rate of the second moment", 0.0, 0.999999)
    epsilon: float = key("epsilon", 1e-8, "constant added to the root, for stability", 1e-12, 1.0)
    weight_decay: float = key("weight_decay", 0.0, "weight decay", 0.0, 1.0)
    decoupled: bool = key("decoupled", False, "apply the weight decay outside the gradient (AdamW)")

    @property
    def states(self) -> tuple[tuple[str, Fill], ...]:
        return (
            ("m", Fill(Distribution.NORMAL, 0.0, 0.25, every=SPARSE, times=SMALL)),
            ("v", Fill(Distribution.UNIFORM, 0.0, 1.0, every=SPARSE, times=SMALL**2)),
        )

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x, dx, *rest = super().ports(inputs, direction)
        small = Fill(Distribution.NORMAL, 0.0, 1.0, every=SPARSE, times=SMALL)
        return (replace(x, fill=small), replace(dx, fill=small), *rest)

    def state_ports(self, x: TensorSpec) -> tuple[Port, ...]:
        # After some steps, the betas' shares of the new values are small.
        some = Port("c", CORRECTIONS, Fill(Distribution.UNIFORM, 0.25, 0.75))
        return (*super().state_ports(x), some, Port("new_c", CORRECTIONS))

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Per element: the scale, two averages, a square, two corrections, a sum, a product, the
        step; a root and a division. The decay is one more multiply-add."""
        size = inputs[0].size
        return (13 + 2 * bool(self.weight_decay)) * size, 2 * size

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        types, of_types = self.types_of()
        decay = self.weight_decay
        numbers = {
            "rate": float32(self.rate),
            "scale": self.scale,
            "beta1": float32(self.beta1),
            "rest1": float32(1 - self.beta1),
            "beta2": float32(self.beta2),
            "rest2": float32(1 - self.beta2),
            "epsilon": float32(self.epsilon),
            "decay": 0.0 if self.decoupled else float32(decay),
            "kept": self._kept,
        }
        # Nine numbers in full are longer than a name may be.
        said = hashlib.sha256(repr(numbers).encode()).hexdigest()[:16]
        name = "_".join(["adam", str(x.size), said, *types])
        (groups, _, _) = elementwise.grid(x.size)
        constants = (
            ("size", x.size),
            ("vector", elementwise.VECTOR),
            *numbers.items(),
            *self.switches,
            *of_types,
        )
        kernel = Kernel(name, "adam.hip", elementwise.BLOCK, constants)
        copy = ("copy",) if self.copies else ()
        args = ("x", "dx", "m", "v", "c", "y", "new_m", "new_v", *copy, "new_c")
        return Lowering((kernel,), (Launch(name, (groups + 1, 1, 1), args),))

    @property
    def _kept(self) -> float:
        """The share of x that a decoupled decay leaves, as float32."""
        return float32(1 - self.rate * self.weight_decay) if self.decoupled else 1.0

    def _gradient(self, tensors: Tensors) -> tuple[Array, Array]:
        """dx to scale, and with the decay."""
        scaled = self.scale * tensors["dx"]
        decay = 0.0 if self.decoupled else float32(self.weight_decay)
        return scaled, scaled + decay * tensors["x"]

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        _, g = self._gradient(tensors)
        m = float32(self.beta1) * tensors["m"] + float32(1 - self.beta1) * g
        v = float32(self.beta2) * tensors["v"] + float32(1 - self.beta2) * g**2
        betas = (self.beta1, self.beta2)
        kept, rest = (
            np.array([float32(b) for b in each]) for each in (betas, [1 - b for b in betas])
        )
        c = kept * tensors["c"] + rest
        # The kernel's order matters for what may overflow.
        root = np.sqrt(v) * np.sqrt(1 / c[1]) + float32(self.epsilon)
        y = self._kept * tensors["x"] - float32(self.rate) * (m * (1 / c[0]) * (1 / root))
        made = {"y": y, "new_m": m, "new_v": v, "new_c": c}
        return {**made, **({"copy": y} if self.copies else {})}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        # Sums are rounded, and by MGPUSim, whose fused() is none, their products too.
        made = self.reference(tensors, direction)
        y, m, v, c = (made[name] for name in ("y", "new_m", "new_v", "new_c"))
        scaled, g = self._gradient(tensors)
        b1, r1, r2 = float32(self.beta1), float32(1 - self.beta1), float32(1 - self.beta2)
        error = U * (np.abs(scaled) + np.abs(g - scaled) + np.abs(g)) + 3 * TINY
        part = r1 * np.abs(g)
        of_m = r1 * error + U * (np.abs(b1 * tensors["m"]) + part + np.abs(m)) + 3 * TINY
        # g^2 doubles the error of g. The square and its share are rounded; the rest is as for m.
        square = r2 * g**2
        of_v = 2 * r2 * np.abs(g) * error + 2 * U * square
        of_v = of_v + U * (np.abs(v - square) + np.abs(v)) + 4 * TINY
        of_c = U * (3 * np.abs(c)) + TINY
        # m' and v' by their corrections: reciprocals of rounded c, a root, products.
        relative = 3 * U + RCP
        numerator = np.abs(m) / c[0]
        of_numerator = of_m / c[0] + numerator * (relative + 2 * U)
        low = np.sqrt(np.maximum(v - of_v, 0) / c[1])
        high = np.sqrt((v + of_v) / c[1])
        root = np.sqrt(v / c[1])
        whole = root + float32(self.epsilon)
        of_root = high - low + high * (SQRT * 2 + relative / 2 + 2 * U) + U * whole
        rate = float32(self.rate)
        quotient = numerator / whole
        off = (of_numerator + quotient * of_root) / np.maximum(whole - of_root, whole / 2)
        bound = rate * (off + quotient * (RCP + 2 * U))
        x = self._kept * tensors["x"]
        bound = bound + U * (np.abs(x) + np.abs(x - y) + np.abs(y)) + 3 * TINY
        found = {"y": bound, "new_m": of_m, "new_v": of_v, "new_c": of_c}
        found = {name: each * SECOND_ORDER for name, each in found.items()}
        return {**found, **({"copy": found["y"]} if self.copies else {})}


@writes("adam")
def _written(c: Values, block: int) -> list[Writes]:
    count = 3 + c["with_copy"]
    each = [dense(-2 - at, c["size"], c["vector"], block) for at in range(count)]
    groups = each[0].grid[0]
    return [*each, Writes(-1, cut_by(Places(2, 1, 2)), first=groups)]
