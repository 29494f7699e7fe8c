"""What is known of a launch before it runs: that by which its cost can be estimated."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from simgen.workload import costs

if TYPE_CHECKING:
    from simgen.ground.ir import Kernel, Workload


@dataclass(frozen=True)
class Features:
    """What the time of one launch depends on.

    Attributes:
        template: the text that its kernel is made of.
        wavefronts: how many run in all, of 64 work-items.
        operations: that its step needs, for each of 64 work-items; of a product of matrices, those
            of whole tiles, which its work-groups compute beyond the borders too.
        nbytes: of the tensors that are its arguments, each once; of a table, what is read.
    """

    template: str
    wavefronts: int
    operations: float
    nbytes: int


TILED = ("gemm.hip",)
TABLES = ("embedding.hip",)
TILE = ("m", "n", "k", "batch", "chunk", "tile_m", "tile_n", "tile_k")
WAVEFRONT = 64  # work-items; of the machines that are simulated


def features_of(workload: Workload) -> list[Features]:
    """The features of all launches, in their order."""
    found = []
    for step in workload.steps:
        count = costs.of_step(workload, step).count
        operations = (count.flops + count.transcendentals) / WAVEFRONT
        for launch in step.launches:
            kernel = workload.kernel(launch.kernel)
            own = _of_tiles(kernel) if kernel.template in TILED else operations
            wavefronts = prod(launch.grid) * -(-kernel.block // WAVEFRONT)
            used = dict.fromkeys(launch.args)
            nbytes = sum(workload.buffer(name).spec.held for name in used)
            if kernel.template in TABLES:
                nbytes = min(nbytes, count.read_bytes + count.written_bytes)
            found.append(Features(kernel.template, wavefronts, own, nbytes))
    return found


def _of_tiles(kernel: Kernel) -> float:
    """Multiplications and additions of whole tiles, along k too, for each of 64 work-items."""
    of = {name: int(value) for name, value in kernel.constants if name in TILE}
    whole = {axis: -(-of[axis] // of[f"tile_{axis}"]) * of[f"tile_{axis}"] for axis in "mn"}
    depth = 0
    for first in range(0, of["k"], of["chunk"]):  # what each work-group along k sums up
        part = min(of["chunk"], of["k"] - first)
        depth += -(-part // of["tile_k"]) * of["tile_k"]
    return 2 * of["batch"] * whole["m"] * whole["n"] * depth / WAVEFRONT
