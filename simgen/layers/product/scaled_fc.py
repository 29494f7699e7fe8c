"""Fully connected layer of numbers that share scales in groups or blocks, forward only.

    y[m, n] = sum over k of  x[m, k] w[n, k] w_scales[n / R, k / G]  [x_scales[m, k / G]]

    x, x_scales  (..., K) of any rank, (..., K / G)
    w, w_scales  (N, K), (N / R rounded up, K / G); N = num_output
    y            (..., N), of the type `result`

w has a format of [Quantise] and, with `scaled_x`, x has it too; if not, x has floats. K elements of
less than a byte take as many bytes as there. `group_size` is G of formats that do not say it, and R
is `block_rows`, rows of w with the same scales. So format=fp8_group with block_rows=128 has blocks
of 128 x 128, as weights of DeepSeek-V3 have, beside x with groups of 128.

Numbers become float32 as they are loaded, times their scales. Sums are float32.

Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.3.2; w8a8_block_fp8_matmul of
SGLang and vLLM; OCP Microscaling Formats (MX) Specification 1.0, 2023, section 6.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.dtypes import U8, DType
from simgen.ground.formats import EACH, FORMATS, Groups, NumberFormat
from simgen.ground.ir import Pass, TensorSpec
from simgen.ground.numerics.spread import Spread
from simgen.layers.base import Choice, Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.product.elements import Elements
from simgen.layers.product.scaled import ScaledProduct
from simgen.layers.quantised import Side

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

F = Pass.FORWARD


@dataclass(frozen=True)
class ScaledFullyConnected(Layer):
    kind = "scaled_fc"
    section = "ScaledFullyConnected"
    contract: ClassVar[Contract] = Contract(rounds=True)  # scales are any numbers
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    input_names: ClassVar[tuple[str, ...]] = ("x", "x_scales")
    parameters: ClassVar[tuple[str, ...]] = ("w", "w_scales")
    data_parallel = True
    any_float = True
    integers: ClassVar[tuple[DType, ...]] = (DType.I8, U8)
    sample: ClassVar[Mapping[str, str]] = {"shape": "64x2048", "num_output": "2048"}

    num_output: int = key("num_output", 2048, "elements of a row of y", 1)
    format: NumberFormat = key(
        "format", NumberFormat.FP8_GROUP, "the elements of w, and what shares a scale"
    )
    scaled_x: bool = key("scaled_x", False, "x has this format too, and scales in x_scales")
    group_size: int = key("group_size", 0, "elements with one scale; 0: as the format has", 0)
    block_rows: int = key("block_rows", 1, "rows of w that have the same scales", 1)
    result: DType = key("result", DType.F32, "element type of y")

    @property
    def takes(self) -> tuple[str, ...]:
        return self.input_names if self.scaled_x else self.input_names[:1]

    @property
    def groups(self) -> Groups:
        return FORMATS[self.format]

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        if not self.scaled_x:
            return (x,)
        *outer, row = x.shape
        groups = self.groups
        stored = TensorSpec((*outer, groups.element.extent(row)), groups.element.dtype)
        return stored, TensorSpec((*outer, row // groups.of(row, self.group_size)), groups.scale)

    def _row(self, x: TensorSpec) -> int:
        """K."""
        return self.groups.element.count(x.shape[-1]) if self.scaled_x else x.shape[-1]

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        if len(inputs) != len(self.takes):
            fact = (
                f"[{self.section}] reads {' and '.join(self.takes)}, and has {len(inputs)} inputs"
            )
            raise ValueError(f"{fact}; name each, as previous_layer=quantise.y,quantise.scales")
        x, *scales = inputs
        if len(x.shape) < 2:
            raise ValueError("x has one axis; give it rows, as 64x2048")
        row, groups = self._row(x), self.groups
        if row % EACH:
            raise ValueError(f"rows of x have {row} elements; let them be a multiple of {EACH}")
        if self.scaled_x and x.dtype != groups.element.dtype:
            fact = f"x is {x.dtype}, and {self.format} is stored as {groups.element.dtype}"
            raise ValueError(f"{fact}; take y of [Quantise] with format={self.format}")
        if not self.scaled_x and not x.dtype.is_float:
            raise ValueError(f"x is {x.dtype}; take floats, or scaled_x=true and its x_scales")
        shape = (*x.shape[:-1], row // groups.of(row, self.group_size))
        for each in scales:
            if each != TensorSpec(shape, groups.scale):
                told, own = (" x ".join(map(str, s)) for s in (each.shape, shape))
                fact = f"x_scales are {told} of {each.dtype}, and x has {own} of {groups.scale}"
                raise ValueError(f"{fact}; take both from one [Quantise]")
        if not self.result.is_float or self.result.nbytes not in (2, 4):
            raise ValueError(f"result is {self.result}; write f32, f16 or bf16")
        self._product(inputs).check()
        return TensorSpec((*x.shape[:-1], self.num_output), self.result)

    def _product(self, inputs: tuple[TensorSpec, ...]) -> ScaledProduct:
        x, row = inputs[0], self._row(inputs[0])
        group = self.groups.of(row, self.group_size)
        left = Side(x.dtype)
        if self.scaled_x:
            left = Side(x.dtype, self.groups, group)
        return ScaledProduct(
            prod(x.shape[:-1]),
            self.num_output,
            row,
            b_transposed=True,
            elements=replace(Elements(), result=self.result),
            machine=self.machine,
            left=left,
            right=Side(x.dtype, self.groups, group, self.block_rows),
        )

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """A product and a sum for each term, as if nothing had scales."""
        made = self._product(inputs)
        return 2 * made.m * made.n * made.k, 0

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x, *scales = inputs
        made = self._product(inputs)
        (of_x, _), (of_w, of_scales) = made.left.fills, made.right.fills
        w, w_scales = made.right.tensors(made.n, made.k)
        return (
            Port("x", x, of_x),
            *(Port("x_scales", each, of_scales) for each in scales),
            Port("w", w, of_w),
            Port("w_scales", w_scales, of_scales),
            Port("y", self.output(inputs)),
            *(Port(name, spec, scratch=True) for name, spec in made.workspaces().items()),
        )

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        scales = ("x_scales", "w_scales") if self.scaled_x else ("w_scales",)
        return Lowering(
            *self._product(inputs).lower("scaled_fc", "x", "w", None, "y", scales=scales)
        )

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        stored = ("y",) if self._product(inputs).stores else ()
        return ("x", "x_scales", "w", "w_scales", *stored)

    def choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        return self._product(inputs).choices

    def _sides(self, tensors: Tensors) -> tuple[ScaledProduct, Array, Array]:
        """The product, and its factors (m, k) and (k, n)."""
        x, dtype = tensors["x"], self.groups.element.dtype if self.scaled_x else self.dtype
        made = self._product((TensorSpec(x.shape, dtype),))
        left = made.left.numbers(x, tensors.get("x_scales")).reshape(made.m, made.k)
        return made, left, made.right.numbers(tensors["w"], tensors["w_scales"]).T

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        _, left, right = self._sides(tensors)
        return {"y": (left @ right).reshape(*tensors["x"].shape[:-1], self.num_output)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        made, left, right = self._sides(tensors)
        y = self.reference(tensors, direction)["y"]
        return {"y": made.bound(left, right, left @ right).reshape(y.shape)}

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        made, left, right = self._sides(tensors)
        hard = tolerance["y"].reshape(made.m, made.n)
        sigma = made.spread(left, right, left @ right, hard)
        return {"y": Spread(sigma.reshape(tolerance["y"].shape))}
