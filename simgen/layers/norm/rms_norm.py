"""Normalisation of rows by their root mean square, alone and with what stands beside it.

Rows are distributed over work-items as in [LayerNorm]. Tensors have the type of the input; gamma
and sums are float32. If rows are no multiple of four, narrow elements are converted before and
after, but for NVIDIA GPUs (reduction.by_fours).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.formats import FORMATS, NumberFormat
from simgen.ground.ir import Distribution, Fill, Launch, Pass, TensorSpec
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, U
from simgen.layers import elementwise, gelu
from simgen.layers.base import Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.norm.batch_norm_errors import product
from simgen.layers.norm.layer_norm import PARTS, LayerNorm, usual
from simgen.layers.norm.layer_norm_errors import LayerNormErrors
from simgen.layers.quantised import quantised

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

F, BX, BW = Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT
Z = Fill(Distribution.NORMAL, 0.0, 2.0)
TOKENS = FORMATS[NumberFormat.FP8_TOKEN]
SMALL = 2.0**-5  # deviation of x, or about the Euclidean norm of rows, so that epsilon shows


@dataclass(frozen=True)
class RMSNorm(LayerNorm):
    """Normalisation of rows by their root mean square.

        forward   y = gamma * x * r         r = 1 / sqrt(sum(x^2) / D + epsilon)
        backward  g = dy * gamma
                  dx = r * (g - x * r^2 * sum(g * x) / D)
                  dgamma = sum(dy * x * r)      over all rows

        x, y, dx, dy   of any rank: `axis` and all axes behind it form a row, of D elements
        gamma, dgamma  the extents of a row

    `axis` counts from the end if it is negative: -1 is the last one. Backward computes r again.

    Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019, eq. 4;
    RMSNormalization of ONNX, whose `axis` this is.
    """

    kind = "rms_norm"
    section = "RMSNorm"
    contract: ClassVar[Contract] = Contract(rounds=True, slope_shape=(2, 2, 3, 16))
    passes: ClassVar[tuple[Pass, ...]] = (F, BX, BW)
    parameters: ClassVar[tuple[str, ...]] = ("gamma",)
    reads: ClassVar[Mapping[Pass, tuple[str, ...]]] = {
        F: ("x", "gamma"),
        BX: ("x", "dy", "gamma"),
        BW: ("x", "dy"),
    }
    writes: ClassVar[Mapping[Pass, tuple[str, ...]]] = {F: ("y",), BX: ("dx",), BW: ("dgamma",)}
    template: ClassVar[str] = "rms_norm.hip"  # for the forward pass
    flops: ClassVar[Mapping[Pass, int]] = {F: 4, BX: 10, BW: 5}  # operations of an element

    epsilon: float = key("epsilon", 1e-5, "constant added to mean squares", 1e-12, 1e6)

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        return (x,) * len(self.input_names)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        return super().output((beside(self, inputs),) if len(self.input_names) > 1 else inputs)

    def _specs(self, x: TensorSpec) -> dict[str, TensorSpec]:
        return super()._specs(x) | dict.fromkeys(("x0", "x1", "s", "z"), x)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Per element forward: square and its sum, two products. Backward: square and sum; g, x
        times r, the dot product, four operations to dx; three to dgamma. Per row: a division by D,
        epsilon, square root and reciprocal."""
        rows, _ = self.view(inputs[0].shape)
        return self.flops[direction] * inputs[0].size + 2 * rows, 2 * rows

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        whole = self._rows(inputs[0].shape).vector == elementwise.VECTOR
        return super().moves(inputs, direction) if whole else ()

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x = inputs[0]
        specs, fills = self._specs(x), dict(self._fills(self.view(x.shape)[1]))
        if direction is BW:  # long sums, in whose errors epsilon would drown
            fills["x"] = Fill(Distribution.NORMAL, 0.0, SMALL)
        chunks = self._columns(x.shape).chunks if direction is BW else 1
        part = TensorSpec((chunks, *specs["gamma"].shape))
        return (
            *(Port(name, specs[name], fills[name]) for name in self.reads[direction]),
            *(Port(name, specs[name]) for name in self.writes[direction]),
            *((Port("invstd", specs["invstd"], scratch=True),) if direction is BW else ()),
            *((Port(PARTS[0], part, scratch=True),) if chunks > 1 else ()),
        )

    def _fills(self, length: int) -> Mapping[str, Fill]:
        return usual(length)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        x = inputs[0] if self.moves(inputs, direction) else TensorSpec(inputs[0].shape)
        template = self.template if direction is F else "rms_norm_backward.hip"
        whole, what = direction is not BW, "roots" if direction is BW else ""
        kernel, grid = self._by_rows(x, direction, template, self._epsilon, whole=whole, what=what)
        if whole:
            args = (*self.reads[direction], *self.writes[direction])
            return Lowering((kernel,), (Launch(kernel.name, grid, args),))
        sums = self._over_rows(x, centred=False)
        roots = Launch(kernel.name, grid, ("x", "invstd"))
        return Lowering((kernel, *sums.kernels), (roots, *sums.launches))

    def _root(self, x: Array) -> Array:
        """r of each row."""
        share = self.share or 1 / x.shape[1]
        r: Array = 1 / np.sqrt(np.square(x).sum(axis=1, keepdims=True) * share + self._epsilon)
        return r

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        x, length, flat = self._flat(tensors)
        r = self._root(x)
        if direction is F:
            return self._shaped({"y": flat["gamma"] * x * r}, tensors)
        normal = x * r
        if direction is BW:
            return self._shaped({"dgamma": (flat["dy"] * normal).sum(axis=0)}, tensors)
        g = flat["dy"] * flat["gamma"]
        dx = r * (g - normal * (g * normal).sum(axis=1, keepdims=True) / length)
        return self._shaped({"dx": dx}, tensors)

    def _errors(self, tensors: Tensors, direction: Pass, *, proxy: bool) -> Tensors:
        x, _, flat = self._flat(tensors)
        tiling = self._rows(tensors["x"].shape, self._tensors(direction))
        errors = LayerNormErrors(tiling, proxy)
        if direction is F:
            found = self._forward_errors(errors, flat)
        else:
            root = errors.root(x, self._epsilon)
            columns = LayerNormErrors(self._columns(tensors["x"].shape), proxy)
            of_pass = errors.root_data if direction is BX else columns.root_parameter
            found = {self.writes[direction][0]: of_pass(flat, *root)}
        bounds = {n: np.where(b > 0, b * SECOND_ORDER + TINY, 0.0) for n, b in found.items()}
        return self._shaped(bounds, tensors)

    def _forward_errors(self, errors: LayerNormErrors, flat: Tensors) -> Tensors:
        x = flat["x"]
        r, r_error = errors.root(x, self._epsilon)
        return {"y": product(x * r, product(x, 0.0, r, r_error), flat["gamma"], 0.0)}


@dataclass(frozen=True)
class AddRMSNorm(RMSNorm):
    """A sum of two tensors and the normalisation of its rows, in one launch, forward only.

        s = x0 + x1
        y = gamma * s / sqrt(sum(s^2) / D + epsilon)

        x0, x1, s, y  of any rank: `axis` and all axes behind it form a row, of D elements
        gamma         the extents of a row

    Of narrow elements, y is made of the sum before that is rounded.

    Source: the residual connections of Touvron et al., "LLaMA", 2023; fused_add_rms_norm of vLLM.
    """

    kind = "add_rms_norm"
    section = "AddRMSNorm"
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    input_names: ClassVar[tuple[str, ...]] = ("x0", "x1")
    output_names: ClassVar[tuple[str, ...]] = ("y", "s")
    reads: ClassVar[Mapping[Pass, tuple[str, ...]]] = {F: ("x0", "x1", "gamma")}
    writes: ClassVar[Mapping[Pass, tuple[str, ...]]] = {F: ("y", "s")}
    template: ClassVar[str] = "rms_norm_add.hip"
    flops: ClassVar[Mapping[Pass, int]] = {F: 5}

    def outputs(self, inputs: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
        return dict.fromkeys(self.output_names, self.output(inputs))

    def _fills(self, length: int) -> Mapping[str, Fill]:
        fills = usual(length)
        return {**fills, "x0": fills["x"], "x1": fills["x"]}

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        s = tensors["x0"] + tensors["x1"]
        return {**super().reference({**tensors, "x": s}, direction), "s": s}

    def _flat(self, tensors: Tensors) -> tuple[Array, int, dict[str, Array]]:
        return super()._flat({**tensors, "x": tensors["x0"] + tensors["x1"]})

    def _errors(self, tensors: Tensors, direction: Pass, *, proxy: bool) -> Tensors:
        summed = {**tensors, "x": tensors["x0"] + tensors["x1"]}
        return super()._errors(summed, direction, proxy=proxy)

    def _forward_errors(self, errors: LayerNormErrors, flat: Tensors) -> Tensors:
        """The sum is rounded, and so is twice its square."""
        s, off = flat["x"], U * np.abs(flat["x"])
        r, r_error = errors.root(s, self._epsilon, 3)
        return {"y": product(s * r, product(s, off, r, r_error), flat["gamma"], 0.0), "s": off}


@dataclass(frozen=True)
class QuantisedAddRMSNorm(AddRMSNorm):
    """The same with y as 8-bit floats, and a scale of each row.

        s = x0 + x1
        v = gamma * s / sqrt(sum(s^2) / D + epsilon)
        scales = max |v| / 448, of |v| at least 1e-10      y = v / scales

        x0, x1, s  of any rank: `axis` and all axes behind it form a row, of D elements
        y          the same, of f8e4m3fn; scales of each row, float32
        gamma      the extents of a row

    Source: rmsnorm2d_fwd_with_add_dynamicquant of AITER; [Quantise] with format=fp8_token.
    """

    kind = "quantised_add_rms_norm"
    section = "QuantisedAddRMSNorm"
    output_names: ClassVar[tuple[str, ...]] = ("y", "scales", "s")
    writes: ClassVar[Mapping[Pass, tuple[str, ...]]] = {F: ("y", "scales", "s")}
    template: ClassVar[str] = "rms_norm_quantised.hip"
    flops: ClassVar[Mapping[Pass, int]] = {F: 9}

    def outputs(self, inputs: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
        specs = self._specs(self.output(inputs))
        return {name: specs[name] for name in self.output_names}

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        x = super().output(inputs)
        _, length = self.view(x.shape)
        if length % elementwise.VECTOR:
            raise ValueError(f"rows have {length} elements; let them be a multiple of 4")
        return x

    def _specs(self, x: TensorSpec) -> dict[str, TensorSpec]:
        specs = super()._specs(x)
        y = TensorSpec(x.shape, TOKENS.element.dtype)
        return {**specs, "y": y, "scales": specs["mean"]}

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        made = super().lower(inputs, direction)
        (kernel,) = made.kernels
        constants = (*kernel.constants, ("number", TOKENS.element.c))
        return Lowering((replace(kernel, constants=constants),), made.launches)

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        x, length, flat = self._flat(tensors)
        made = quantised(flat["gamma"] * x * self._root(x), TOKENS, length)
        found = {port: value for port, (value, _) in made.items()}
        shape = tensors["x0"].shape
        return self._shaped({**found, "s": x}, {"x": x.reshape(shape)})

    def _forward_errors(self, errors: LayerNormErrors, flat: Tensors) -> Tensors:
        found = super()._forward_errors(errors, flat)
        x = flat["x"]
        value = flat["gamma"] * x * self._root(x)
        made = quantised(value, TOKENS, x.shape[1], found["y"])
        return {"s": found["s"], **{port: bound for port, (_, bound) in made.items()}}


@dataclass(frozen=True)
class GatedRMSNorm(RMSNorm):
    """Normalisation of rows by their root mean square, times a gate, forward only.

        y = gamma * x / sqrt(sum(x^2) / D + epsilon) * z / (1 + exp(-z))

        x, z, y  of any rank: `axis` and all axes behind it form a row, of D elements
        gamma    the extents of a row

    Source: Dao and Gu, "Transformers are SSMs", 2024, section 7, with the gate behind the norm;
    Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024.
    """

    kind = "gated_rms_norm"
    section = "GatedRMSNorm"
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    input_names: ClassVar[tuple[str, ...]] = ("x", "z")
    reads: ClassVar[Mapping[Pass, tuple[str, ...]]] = {F: ("x", "z", "gamma")}
    writes: ClassVar[Mapping[Pass, tuple[str, ...]]] = {F: ("y",)}
    template: ClassVar[str] = "rms_norm_gated.hip"
    flops: ClassVar[Mapping[Pass, int]] = {F: 8}

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Four operations and an exponential with a reciprocal more for each element."""
        flops, of_rows = super().work(inputs, direction)
        return flops, of_rows + 2 * inputs[0].size

    def _fills(self, length: int) -> Mapping[str, Fill]:
        return {**usual(length), "z": Z}

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        y = super().reference(tensors, direction)["y"]
        return {"y": y * gelu.forward(tensors["z"], gelu.SILU)}

    def _forward_errors(self, errors: LayerNormErrors, flat: Tensors) -> Tensors:
        x, gate = flat["x"], gelu.forward(flat["z"], gelu.SILU)
        r = self._root(x)
        (error,) = super()._forward_errors(errors, flat).values()
        off = gelu.forward_bound(flat["z"], gate, gelu.SILU)
        return {"y": product(flat["gamma"] * x * r, error + TINY, gate, off)}


@dataclass(frozen=True)
class QKRMSNorm(RMSNorm):
    """Normalisation of the heads of queries and keys by their root mean square, forward only.

        y[h] = gamma[0] x[h] / sqrt(sum(x[h]^2) / D + epsilon)     the first heads, those of queries
        y[h] = gamma[1] x[h] / sqrt(sum(x[h]^2) / D + epsilon)     then those of keys
        y[h] = x[h]                                                the rest, those of values

        x, y  (..., heads, D)      gamma  (2, D)

    Source: fusedQkRmsNorm of RTP-LLM; the norms of Yang et al., "Qwen3 Technical Report", 2025.
    """

    kind = "qk_rms_norm"
    section = "QKRMSNorm"
    contract: ClassVar[Contract] = Contract(rounds=True)
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    writes: ClassVar[Mapping[Pass, tuple[str, ...]]] = {F: ("y",)}
    template: ClassVar[str] = "rms_norm_heads.hip"
    sample: ClassVar[Mapping[str, str]] = {"shape": "4x8x64", "query_heads": "4", "key_heads": "2"}

    axis: int = field(default=-1, metadata={"keys": ()})  # a row is a head
    query_heads: int = key("query_heads", 1, "heads of queries, the first ones", 1)
    key_heads: int = key("key_heads", 1, "heads of keys, behind them; what follows is copied", 0)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        normed = self.query_heads + self.key_heads
        if len(x.shape) < 3 or x.shape[-2] < normed:
            told = " x ".join(map(str, x.shape))
            fact = f"x is {told}, without {normed} heads of queries and keys"
            raise ValueError(f"{fact}; give it tokens, heads and elements: 4x{normed + 1}x64")
        return super().output(inputs)

    def _specs(self, x: TensorSpec) -> dict[str, TensorSpec]:
        return super()._specs(x) | {"gamma": TensorSpec((2, x.shape[-1]))}

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        x = inputs[0]
        flops, functions = super().work(inputs, direction)
        heads, normed = x.shape[-2], self.query_heads + self.key_heads
        return flops // heads * normed, functions // heads * normed

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (kernel,), (launch,) = vars(super().lower(inputs, direction)).values()
        heads = (inputs[0].shape[-2], self.query_heads, self.key_heads)
        own = tuple(zip(("heads", "query_heads", "key_heads"), heads))
        name = f"{kernel.name}_{'_'.join(map(str, heads))}"
        kernel = replace(kernel, name=name, constants=(*kernel.constants, *own))
        return Lowering((kernel,), (replace(launch, kernel=name),))

    def _heads(self, tensors: Tensors) -> Array:
        """0 for rows that are heads of queries, 1 for those of keys, 2 for others: (rows, 1)."""
        heads, ends = tensors["x"].shape[-2], (self.query_heads, self.query_heads + self.key_heads)
        which = np.searchsorted(ends, np.arange(heads), side="right")
        rows: Array = np.tile(which, tensors["x"].size // tensors["x"].shape[-1] // heads)
        return rows[:, np.newaxis]

    def _flat(self, tensors: Tensors) -> tuple[Array, int, dict[str, Array]]:
        x, length, flat = super()._flat({"x": tensors["x"]})
        gamma = np.concatenate([tensors["gamma"], np.ones((1, length))])
        return x, length, {**flat, "gamma": gamma[self._heads(tensors)[:, 0]]}

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        y = super().reference(tensors, direction)["y"]
        copied = self._heads(tensors).reshape(*tensors["x"].shape[:-1], 1) > 1
        return {"y": np.where(copied, tensors["x"], y)}

    def _errors(self, tensors: Tensors, direction: Pass, *, proxy: bool) -> Tensors:
        error = super()._errors(tensors, direction, proxy=proxy)["y"]
        copied = self._heads(tensors).reshape(*tensors["x"].shape[:-1], 1) > 1
        return {"y": np.where(copied, 0.0, error)}


@dataclass(frozen=True)
class L2Norm(RMSNorm):
    """Normalisation of rows by their Euclidean norm, forward only.

        y = x / sqrt(sum(x^2) + epsilon)

        x, y  of any rank: `axis` and all axes behind it form a row

    Source: the queries and keys of Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024.
    """

    kind = "l2_norm"
    section = "L2Norm"
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    parameters: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[Mapping[Pass, tuple[str, ...]]] = {F: ("x",)}
    writes: ClassVar[Mapping[Pass, tuple[str, ...]]] = {F: ("y",)}
    template: ClassVar[str] = "l2_norm.hip"
    flops: ClassVar[Mapping[Pass, int]] = {F: 3}
    share: ClassVar[float] = 1.0

    epsilon: float = key("epsilon", 1e-6, "constant added to sums of squares", 1e-12, 1e6)

    def _fills(self, length: int) -> Mapping[str, Fill]:
        return {"x": Fill(Distribution.NORMAL, 0.0, SMALL / sqrt(length))}

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        x, _, _ = self._flat(tensors)
        return self._shaped({"y": x * self._root(x)}, tensors)

    def _forward_errors(self, errors: LayerNormErrors, flat: Tensors) -> Tensors:
        r, r_error = errors.root(flat["x"], self._epsilon, share=self.share)
        return {"y": product(flat["x"], 0.0, r, r_error)}


def beside(layer: RMSNorm, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
    """What both inputs of a layer are.

    Raises:
        ValueError: there is one input, or they differ.
    """
    if len(inputs) != 2:
        raise ValueError(f"[{layer.section}] has one input; name two in previous_layer")
    if inputs[0] != inputs[1]:
        one, other = (f"{' x '.join(map(str, x.shape))} of {x.dtype}" for x in inputs)
        raise ValueError(f"one input is {one}, the other {other}; give them the same extents")
    return inputs[0]
