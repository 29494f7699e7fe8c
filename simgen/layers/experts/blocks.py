"""Pairs of a token and an expert, sorted by experts, in blocks of places that have one expert each.

Keys e P + i of P pairs are sorted as those of [Embedding] are, by the same kernels. A block has
`rows` places; behind an expert's last pair they stay empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, DType, Fill, Kernel, Launch, TensorSpec
from simgen.ground.numerics.powers import next_power_of_two
from simgen.layers.base import Lowering, Port
from simgen.layers.elementwise import BLOCK
from simgen.layers.written import Writes, dense, writes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simgen.layers.written import Values

CHUNK = 2048  # keys that a work-group sorts
KEYS = 2**32  # keys have 32 bits
MOST = 1024  # experts


@dataclass(frozen=True)
class Blocks:
    pairs: int
    experts: int
    rows: int  # places of a block
    stored: int  # experts with weights of their own; if not all, those that have pairs do in turn

    @property
    def blocks(self) -> int:
        """The most blocks that any routing needs."""
        if self.pairs <= self.experts:
            return self.pairs
        return self.experts + (self.pairs - self.experts) // self.rows

    @property
    def places(self) -> int:
        return self.blocks * self.rows

    def check(self) -> None:
        """Raises ValueError where there are too many."""
        if self.experts > MOST:
            raise ValueError(f"there are {self.experts} experts; {MOST} is the most")
        if self.experts * self.pairs >= KEYS:
            fact = f"{self.pairs} pairs of {self.experts} experts have no keys of 32 bits"
            raise ValueError(f"{fact}; give it fewer tokens")

    @property
    def names(self) -> tuple[str, ...]:
        """Workspaces of keys."""
        return ("keys0", "keys1") if self.pairs > CHUNK else ("keys0",)

    def specs(self, order: str, experts: str, begins: str) -> dict[str, TensorSpec]:
        sizes = {order: self.places, experts: self.blocks, begins: self.experts + 1}
        return {name: TensorSpec((size,), DType.I32) for name, size in sizes.items()}

    def scratch(self) -> tuple[Port, ...]:
        keys = TensorSpec((self.pairs,), DType.I32)
        return tuple(Port(name, keys, scratch=True) for name in self.names)

    def lower(self, ids: str, *written: str) -> tuple[Lowering, str]:
        """The launches that write the order, the blocks' experts and where each begins; and the
        port of the sorted keys."""
        chunk = min(CHUNK, max(2, next_power_of_two(self.pairs)))
        places = self.pairs
        kernels = [
            Kernel(
                f"expert_sort_{places}",
                "embedding_sort.hip",
                BLOCK,
                (("places", places), ("chunk", chunk)),
            )
        ]
        launches = [Launch(kernels[0].name, (ceil(places / chunk), 1, 1), (ids, "keys0"))]
        run, source = chunk, 0
        while run < places:
            name = f"expert_merge_{places}_{run}"
            constants = (("places", places), ("run", run))
            kernels.append(Kernel(name, "embedding_merge.hip", BLOCK, constants))
            args = (f"keys{source}", f"keys{1 - source}")
            launches.append(Launch(name, (ceil(places / BLOCK), 1, 1), args))
            run, source = 2 * run, 1 - source
        name = f"expert_blocks_{places}_{self.experts}_{self.rows}_{self.stored}"
        told = (
            ("pairs", places),
            ("experts", self.experts),
            ("rows", self.rows),
            ("places", self.places),
            ("stored", self.stored),
        )
        kernels.append(Kernel(name, "expert_blocks.hip", BLOCK, told))
        sorted_keys = f"keys{source}"
        groups = ceil(max(self.places, self.experts + 1) / BLOCK)
        launches.append(Launch(name, (groups, 1, 1), (sorted_keys, *written)))
        return Lowering(tuple(kernels), tuple(launches)), sorted_keys

    def found(self, ids: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """(order, experts of blocks, begins), as the kernels write them."""
        flat = ids.reshape(-1).astype(np.int64)
        counts = np.bincount(flat, minlength=self.experts)
        padded = -(-counts // self.rows) * self.rows
        begins = np.concatenate([[0], np.cumsum(padded)])
        order = np.full(self.places, self.pairs)
        firsts = np.concatenate([[0], np.cumsum(counts)])
        by_expert = np.argsort(flat, kind="stable")
        behind = np.arange(flat.size) - firsts[flat[by_expert]]
        order[begins[flat[by_expert]] + behind] = by_expert
        owners = np.repeat(np.arange(self.experts), padded // self.rows)
        slots = self.slots(flat)[owners]
        experts = np.full(self.blocks, self.experts)
        experts[: slots.size] = slots
        return order, experts, begins

    def slots(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Where each expert's weights lie."""
        if self.stored == self.experts:
            return np.arange(self.experts)
        there: NDArray[Any] = (
            np.bincount(ids.reshape(-1).astype(np.int64), minlength=self.experts) > 0
        )
        return np.asarray((np.cumsum(there) - there) % self.stored)


def routes(ids: TensorSpec, experts: int, skew: float) -> Fill:
    """Random ids: different ones along the last axis."""
    return Fill(Distribution.ROUTES, float(experts), skew, nonzeros=ids.shape[-1])


@writes("expert_blocks")
def _blocks(c: Values, block: int) -> list[Writes]:
    blocks = c["places"] // c["rows"]
    each = max(block // c["rows"], 1)
    return [
        dense(-3, c["places"], 1, block),
        dense(-2, blocks, 1, each),
        dense(-1, c["experts"] + 1, 1, block),
    ]
