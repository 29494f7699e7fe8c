"""Concatenation along an axis: the channels, unless the config says otherwise.

    forward   y = x0, x1, ... one behind the other along the axis
    backward  dx_i = the part of dy that x_i has in y

    x_i, dx_i  (N, C_i, H, W)      y, dy  (N, C_0 + C_1 + ..., H, W)      or any rank

Source: Szegedy et al., "Going deeper with convolutions", 2015, figure 2 ("DepthConcat"); Concat of
Caffe, whose `axis` this is. By itself the layer has `inputs` inputs of one shape; in a network,
those that `previous_layer` names.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, prod
from typing import TYPE_CHECKING, ClassVar

from simgen.ir import Kernel, Launch, OpCount, Pass, TensorSpec
from simgen.layers import axes
from simgen.layers.base import Lowering, key
from simgen.layers.several import GRADIENTS, INPUTS, Several, reads_and_writes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from simgen.ir import Constants
    from simgen.layers.base import Tensors
    from simgen.layers.rounding import Array
else:
    from simgen import arrays as np

BLOCK = 256  # work-items
EACH = 4  # elements of a work-item: one 16-byte access, or four of 4 bytes


@dataclass(frozen=True)
class Concat(Several):
    kind = "concat"
    section = "Concat"
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "128", "h": "28", "w": "28"}

    axis: int = key("axis", default=1)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        shape = inputs[0].shape
        axis = axes.behind_batch("axis", self.axis, shape)
        self.check(inputs, [each for each in range(len(shape)) if each != axis])
        total = sum(x.shape[axis] for x in inputs)
        return TensorSpec((*shape[:axis], total, *shape[axis + 1 :]), inputs[0].dtype)

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Each element is read and written once."""
        nbytes = self.output(inputs).nbytes
        return OpCount(0, 0, nbytes, nbytes)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        axis = axes.behind_batch("axis", self.axis, inputs[0].shape)
        ports = reads_and_writes(direction, len(inputs))
        joins = direction is Pass.FORWARD
        return copies(f"{self.kind}_{direction}", [x.shape for x in inputs], axis, ports, joins)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.FORWARD:
            xs = [tensors[name] for name in INPUTS if name in tensors]
            return {"y": np.concatenate(xs, axis=self._axis(xs[0]))}
        names = [name for name in GRADIENTS if name in tensors]
        axis = self._axis(tensors["dy"])
        extents = [tensors[name].shape[axis] for name in names]
        ends = list(accumulate(extents))[:-1]
        return dict(zip(names, np.split(tensors["dy"], ends, axis=axis)))

    def _axis(self, tensor: Array) -> int:
        return axes.behind_batch("axis", self.axis, tensor.shape)

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        # A copy has no error.
        wanted = self.reference(tensors, direction)
        return {name: np.zeros_like(values) for name, values in wanted.items()}


def copies(
    prefix: str,
    shapes: Sequence[tuple[int, ...]],
    axis: int,
    ports: tuple[Sequence[str], Sequence[str]],
    joins: bool,
) -> Lowering:
    """One launch that joins tensors of the `shapes` along an axis to one or, if not `joins`, takes
    that one apart. `ports` are those that it reads and writes; the kernel's name begins with
    `prefix`. Work-groups are those of the first part, then those of the second, and so on.
    """
    n = prod(shapes[0][:axis])
    rows = [prod(shape[axis:]) for shape in shapes]  # elements that lie side by side
    # A row that does not start on a multiple of four has no 16-byte accesses.
    vector = 1 if any(row % EACH for row in rows) else EACH
    groups = [ceil(n * row / (BLOCK * EACH)) for row in rows]
    text = "_".join(map(str, rows))
    if len(text) > 80:  # a name that compilers and logs take, however many parts there are
        text = hashlib.sha256(text.encode()).hexdigest()[:32]
    constants: Constants = (
        ("direction", str(Pass.FORWARD if joins else Pass.BACKWARD)),
        ("samples", n),
        ("rows", " ".join(map(str, rows))),
        ("starts", " ".join(map(str, accumulate(rows, initial=0)))),
        ("groups", " ".join(map(str, accumulate(groups, initial=0)))),
        ("vector", vector),
        ("each", EACH),
    )
    kernel = Kernel(f"{prefix}_{n}x{text}", "concat.hip.j2", BLOCK, constants)
    reads, writes = ports
    launch = Launch(kernel.name, (sum(groups), 1, 1), (*reads, *writes))
    return Lowering((kernel,), (launch,))
