"""Tokens in the order of their experts, for products that take one expert at a time.

    counts[e]  how many ids are e
    begins[e]  the sum over j < e of counts[j], each rounded up to a multiple of R: (E + 1)
    y[p]       at begins[e] + r the r-th i with ids[i] = e; T K where there is none
    experts    of each R places the e that they belong to; E where they belong to none

    ids  (T, K), or any shape: int32 in [0, E)      R  `block_rows`

Without a layer before, ids come from the data file: of each token so many different experts as the
last axis has, whose frequencies follow Zipf's law with the exponent `skew`.

Source: moe_align_block_size of vLLM. Gale et al., "MegaBlocks: Efficient Sparse Training with
Mixture-of-Experts", 2022, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import STEEPEST, DType, Pass, TensorSpec
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.contract import Contract
from simgen.layers.experts.blocks import MOST, Blocks, routes
from simgen.layers.indices import outside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.layers.base import Tensors

F = Pass.FORWARD


@dataclass(frozen=True)
class ExpertBlocks(Layer):
    kind = "expert_blocks"
    section = "ExpertBlocks"
    contract: ClassVar[Contract] = Contract(copies=(F,), kernels="expert")
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    input_names: ClassVar[tuple[str, ...]] = ("ids",)
    output_names: ClassVar[tuple[str, ...]] = ("y", "experts", "begins")
    indices: ClassVar[tuple[str, ...]] = ("ids",)
    sample: ClassVar[Mapping[str, str]] = {"shape": "64x8"}

    experts: int = key("experts", 128, "experts that there are", 1, MOST)
    rows: int = key("block_rows", 16, "places of a block", 1, 256)
    skew: float = key(
        "skew", 0.5, "Zipf exponent of random ids; 0: uniform", 0.0, STEEPEST, hint=True
    )

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec(x.shape, DType.I32),)

    def _blocks(self, inputs: tuple[TensorSpec, ...]) -> Blocks:
        return Blocks(inputs[0].size, self.experts, self.rows, self.experts)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        return next(iter(self.outputs(inputs).values()))

    def outputs(self, inputs: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
        (ids,) = inputs
        if ids.shape[-1] > self.experts:
            fact = f"a token has {ids.shape[-1]} experts, and there are {self.experts}"
            raise ValueError(f"{fact}; make experts larger")
        blocks = self._blocks(inputs)
        blocks.check()
        return blocks.specs(*self.output_names)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        return (
            Port("ids", inputs[0], routes(inputs[0], self.experts, self.skew)),
            *(Port(name, spec) for name, spec in self.outputs(inputs).items()),
            *self._blocks(inputs).scratch(),
        )

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        return self._blocks(inputs).lower("ids", *self.output_names)[0]

    def fault(self, given: Mapping[str, NDArray[Any]], inputs: tuple[TensorSpec, ...]) -> str:
        return outside("ids", given.get("ids"), 0, self.experts - 1)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        ids = tensors["ids"]
        found = Blocks(ids.size, self.experts, self.rows, self.experts).found(ids)
        return {
            name: values.astype(np.float64)
            for name, values in zip(self.output_names, found, strict=True)
        }

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        return {port: np.zeros_like(v) for port, v in self.reference(tensors, direction).items()}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums()
