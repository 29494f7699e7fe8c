"""Concatenation along the channels.

    forward   y = x0, x1, ... one behind the other along axis C
    backward  dx_i = the channels of dy that x_i has in y

    x_i, dx_i  (N, C_i, H, W)      y, dy  (N, C_0 + C_1 + ..., H, W)

Source: Szegedy et al., "Going deeper with convolutions", 2015, figure 2 ("DepthConcat"). By itself
the layer has `inputs` inputs of one shape; in a network, those that `previous_layer` names.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING, ClassVar

from simgen.dtypes import TOGETHER
from simgen.ir import Kernel, Launch, OpCount, Pass, TensorSpec
from simgen.layers import elementwise
from simgen.layers.base import Lowering
from simgen.layers.multi_input import GRADIENTS, INPUTS, Several, reads_and_writes
from simgen.layers.written import Places, Writes, cut, writes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from simgen.ir import Constants
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values
else:
    from simgen import arrays as np

BLOCK = 256  # work-items
EACH = 4  # elements of a work-item: one 16-byte access, or four of 4 bytes


@dataclass(frozen=True)
class Concat(Several):
    kind = "concat"
    section = "Concat"
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "128", "h": "28", "w": "28"}

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        self.check(inputs, (0, 2, 3))
        n, _, h, w = inputs[0].shape
        return TensorSpec((n, sum(x.shape[1] for x in inputs), h, w), inputs[0].dtype)

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Each element is read and written once."""
        nbytes = self.output(inputs).nbytes
        return OpCount(0, 0, nbytes, nbytes)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        """One launch. Its work-groups are those of x0, then those of x1, and so on."""
        n = inputs[0].shape[0]
        rows = [x.size // n for x in inputs]  # elements of a sample
        if self.moves(inputs, direction):  # copied as words
            rows = [elementwise.words(x) // n for x in inputs]
        # A row that does not start on a multiple of four has no 16-byte accesses.
        vector = 1 if any(row % EACH for row in rows) else EACH
        groups = [ceil(n * row / (BLOCK * EACH)) for row in rows]
        text = "_".join(map(str, rows))
        if len(text) > 80:  # a name that compilers and logs take, however many inputs there are
            text = hashlib.sha256(text.encode()).hexdigest()[:32]
        constants: Constants = (
            ("direction", str(direction)),
            ("samples", n),
            ("rows", " ".join(map(str, rows))),
            ("starts", " ".join(map(str, accumulate(rows, initial=0)))),
            ("groups", " ".join(map(str, accumulate(groups, initial=0)))),
            ("vector", vector),
            ("each", EACH),
        )
        kernel = Kernel(f"concat_{direction}_{n}x{text}", "concat.hip.j2", BLOCK, constants)
        reads, writes = reads_and_writes(direction, len(inputs))
        launch = Launch(kernel.name, (sum(groups), 1, 1), (*reads, *writes))
        return Lowering((kernel,), (launch,))

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        n = inputs[0].shape[0]
        by_fours = all(x.size // n % TOGETHER == 0 for x in inputs)
        return (*INPUTS, "y", *GRADIENTS, "dy") if by_fours else ()

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        if direction is Pass.FORWARD:
            xs = [tensors[name] for name in INPUTS if name in tensors]
            return {"y": np.concatenate(xs, axis=1)}
        names = [name for name in GRADIENTS if name in tensors]
        channels = [tensors[name].shape[1] for name in names]
        ends = list(accumulate(channels))[:-1]
        return dict(zip(names, np.split(tensors["dy"], ends, axis=1)))

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        # A copy has no error.
        wanted = self.reference(tensors, direction)
        return {name: np.zeros_like(values) for name, values in wanted.items()}


@writes("concat")
def _written(c: Values, block: int) -> Iterator[Writes]:
    rows, starts, groups = ([int(n) for n in c[k].split()] for k in ("rows", "starts", "groups"))
    for at, (row, start, first) in enumerate(zip(rows, starts, groups)):
        if c["direction"] == "fwd":
            own = (Places(c["samples"], starts[-1]), Places(row))
            yield Writes(-1, cut(*own, group=block * c["each"]), offset=start, first=first)
        else:
            own = Places(c["samples"], row), Places(row)
            yield Writes(1 + at, cut(*own, group=block * c["each"]), first=first)
