"""Quantisation: numbers of few bits, and a scale of each group of neighbours in a row.

    scales[g]  s, from m = max |x| over group g
    y[i]       x[i] / s, rounded to the nearest number of the format, of two to the even one, and
               saturated

    format       elements   group    s
    fp8_token    f8e4m3fn   a row    m / 448, float32 (of m at least 1e-10)
    fp8_group    f8e4m3fn   128      the same
    mxfp8        f8e4m3fn   32       2^(floor(log2 m) - 8), e8m0
    mxfp8_e5m2   f8e5m2     32       2^(floor(log2 m) - 15), e8m0
    mxfp6        f6e2m3     32       2^(floor(log2 m) - 2), e8m0
    mxfp6_e3m2   f6e3m2     32       2^(floor(log2 m) - 4), e8m0
    mxfp4        f4e2m1     32       2^(floor(log2 m) - 2), e8m0
    nvfp4        f4e2m1     16       m / 6, rounded to f8e4m3fn
    int4         i4         128      m / 7, rounded to f16; m of float32 has 14 bits here and above

    x  of any rank; rows lie along the last axis, of D elements
    y  in place of D, D elements of 8 bits, or as many bytes as D elements of fewer bits take
    scales  in place of D, the groups of a row

`group_size` changes groups, where the format does not say them. Elements of less than a byte lie
one behind the other, the first one lowest; e8m0 is a byte (simgen/ground/formats.py).

Where scales are not float32, quotients are rounded to 21 bits before elements are chosen. Those of
numbers of 16 bits then fall on the right side of what is between two elements. So machines agree to
the bit.

Source: OCP Microscaling Formats (MX) Specification 1.0, 2023, section 6.3; DeepSeek-AI,
"DeepSeek-V3 Technical Report", 2024, section 3.3.2; per_token_group_quant_fp8 of vLLM and SGLang.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.formats import EACH, FORMATS, Groups, NumberFormat
from simgen.ground.ir import Constants, Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics.powers import next_power_of_two
from simgen.ground.numerics.rounding import float32
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.elementwise import BLOCK
from simgen.layers.quantised import quantised
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

F = Pass.FORWARD
NARROW_LANES = 64  # the most work-items of a group, where scales share a word
SCALES = "scales"
# Every 64th element is larger: so scales differ, and one that is of another group shows.
X = Fill(Distribution.NORMAL, 0.0, 3.0, every=64, times=11.0)


@dataclass(frozen=True)
class Quantise(Layer):
    kind = "quantise"
    section = "Quantise"
    contract: ClassVar[Contract] = Contract(rounds=True)  # quotients are any numbers
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    output_names: ClassVar[tuple[str, ...]] = ("y", SCALES)
    per_sample = True
    any_float = True
    sample: ClassVar[Mapping[str, str]] = {"shape": "64x2048"}

    format: NumberFormat = key(
        "format", NumberFormat.FP8_TOKEN, "the elements, and what shares a scale"
    )
    group_size: int = key("group_size", 0, "elements with one scale; 0: as the format has", 0)

    @property
    def groups(self) -> Groups:
        return FORMATS[self.format]

    def _group(self, row: int) -> int:
        """Elements of a group, in a row of so many."""
        return self.groups.of(row, self.group_size)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        return self.outputs(inputs)["y"]

    def outputs(self, inputs: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
        (x,) = inputs
        *outer, row = x.shape
        if not outer:
            raise ValueError("x has one axis; give it rows, as 64x2048")
        groups = self.groups
        made = TensorSpec((*outer, groups.element.extent(row)), groups.element.dtype)
        return {"y": made, SCALES: TensorSpec((*outer, row // self._group(row)), groups.scale)}

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Per element a comparison and a product, and two to saturate; per group a scale and its
        inverse."""
        groups = self.outputs(inputs)[SCALES].size
        return 4 * inputs[0].size + groups, groups

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        return (
            Port("x", x, X),
            *(Port(name, spec) for name, spec in self.outputs(inputs).items()),
        )

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        groups, group = self.groups, self._group(x.shape[-1])
        lanes = min(BLOCK, next_power_of_two(ceil(group / EACH)))
        if groups.scale.is_narrow:
            lanes = min(lanes, NARROW_LANES)
        element, count = groups.element, x.size // group
        constants: Constants = (
            ("groups", count),
            ("group", group),
            ("lanes", lanes),
            ("largest", element.largest),
            ("inverse", float32(1 / element.largest)),
            ("top", element.top),
            ("number", element.c),
            ("scale", groups.c),
            ("largest_scale", groups.scale.largest if groups.scale.is_float else 0.0),
            *elementwise.element(x.dtype),
        )
        name = f"quantise_{self.format}_{count}x{group}{elementwise.suffix(x.dtype)}"
        kernel = Kernel(name, "quantise.hip", BLOCK, constants)
        grid = (ceil(count / (BLOCK // lanes)), 1, 1)
        return Lowering((kernel,), (Launch(name, grid, ("x", "y", SCALES)),))

    def _evaluated(self, tensors: Tensors) -> dict[str, tuple[Array, Array]]:
        """(value, bound) of both outputs."""
        x = tensors["x"]
        return quantised(x, self.groups, self._group(x.shape[-1]))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        return {port: value for port, (value, _) in self._evaluated(tensors).items()}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        return {port: bound for port, (_, bound) in self._evaluated(tensors).items()}


@writes("quantise")
def _quantised(c: Values, block: int) -> list[Writes]:
    own, bits = block // c["lanes"], BITS[c["number"]]
    y = Places(c["groups"] * c["group"] * bits // 8, 1, c["group"] * bits // 8)
    return [
        Writes(-2, cut_by(y, group=own)),
        Writes(-1, cut_by(Places(c["groups"]), group=own)),
    ]


BITS = {each.element.c: each.element.bits for each in FORMATS.values()}
