"""A mixture of experts: of each token, the gated networks of those experts that were chosen for it.

    h[t, k, :] = f(x[t, :] w0[e]^T) (x[t, :] w1[e]^T)      e = ids[t, k]
    y[t, :]    = sum over k of weights[t, k] h[t, k, :] w2[e]^T

    x, y      (T, D)          weights, ids  (T, K): float32, and int32 in [0, E)
    w_gate_up (S, 2 F, D)     w0 in the first F rows of each expert, w1 in the others
    w_down    (S, D, F)       f is that of [Gate], by `gate_mode`

Of E experts, `stored` have weights (S), by default all. If not all, those that tokens chose have
them in turn: the first in the order of experts has the first. So S of at least the experts that are
chosen is read as in a whole mixture, and the others cost no memory. Results are those of the
weights that there are.

Weights have the type of x; what is between the products is float32. With `scaled_weights`, weights
have a `format` of [Quantise] and scales of groups along their rows, in w_gate_up_scales (S, 2 F / R
rounded up, D / G) and w_down_scales. R is `block_rows`, rows with the same scales; format=fp8_group
with block_rows=128 has blocks of 128 x 128, as DeepSeek-V3 has. Pairs are
sorted by experts into blocks (blocks.py), whose rows are multiplied together. Without layers
before, ids are as in [ExpertBlocks].

Source: Shazeer et al., "Outrageously Large Neural Networks", 2017; Jiang et al., "Mixtral of
Experts", 2024, section 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.formats import FORMATS, NumberFormat
from simgen.ground.ir import (
    STEEPEST,
    Constants,
    Distribution,
    DType,
    Fill,
    Kernel,
    Launch,
    Pass,
    TensorSpec,
)
from simgen.ground.numerics.powers import next_power_of_two
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, accumulated
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.experts.blocks import MOST, Blocks, routes
from simgen.layers.gate_unit import GateMode, unit, unit_slope
from simgen.layers.indices import outside
from simgen.layers.quantised import Side
from simgen.layers.with_error import WithError
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

F = Pass.FORWARD
LANES = 16  # work-items of an element
COLUMNS = BLOCK // LANES
MOST_ROWS = 16  # in a block, at most
OF_SUM = 64  # work-items of a work-group that adds up rows
WEIGHTS = ("w_gate_up", "w_down")
SCALES = tuple(f"{each}_scales" for each in WEIGHTS)
INDEX = ("order", "experts", "begins")


@dataclass(frozen=True)
class Experts(Layer):
    kind = "experts"
    section = "Experts"
    contract: ClassVar[Contract] = Contract(
        rounds=True, gathers=(*WEIGHTS, *SCALES), kernels="expert"
    )
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    input_names: ClassVar[tuple[str, ...]] = ("x", "weights", "ids")
    indices: ClassVar[tuple[str, ...]] = ("ids",)
    parameters: ClassVar[tuple[str, ...]] = (*WEIGHTS, *SCALES)
    any_float = True
    sample: ClassVar[Mapping[str, str]] = {"shape": "16x256", "experts": "16", "top_k": "4"}

    experts: int = key("experts", 8, "experts that there are", 1, MOST)
    top_k: int = key("top_k", 2, "experts of a token, without a layer that chooses", 1, 32)
    width: int = key("intermediate", 64, "elements between an expert's products", 4)
    stored: int = key("stored", 0, "experts that have weights; 0: all", 0, MOST)
    mode: GateMode = key("gate_mode", GateMode.SWIGLU, "the function of the gates")
    scaled: bool = key("scaled_weights", False, "weights have a format, and scales beside")
    format: NumberFormat = key("format", NumberFormat.MXFP4, "the format of scaled weights")
    block_rows: int = key("block_rows", 1, "rows of scaled weights with the same scales", 1)
    skew: float = key(
        "skew", 0.5, "Zipf exponent of random ids; 0: uniform", 0.0, STEEPEST, hint=True
    )

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        pairs = (*x.shape[:-1], self.top_k)
        return (x, TensorSpec(pairs), TensorSpec(pairs, DType.I32))

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        if len(inputs) != 3:
            fact = f"[Experts] has {len(inputs)} inputs"
            raise ValueError(f"{fact}; name x, weights and ids: norm,router.y,router.ids")
        x, weights, ids = inputs
        for name, each in (("weights", weights), ("ids", ids)):
            if each.shape[:-1] != x.shape[:-1]:
                told, own = (" x ".join(map(str, s.shape)) for s in (each, x))
                raise ValueError(f"{name} are {told}, but x is {own}; give both the same tokens")
        if weights.shape != ids.shape:
            raise ValueError("weights and ids differ in shape; take both from one [Router]")
        if ids.shape[-1] > self.experts:
            fact = f"a token has {ids.shape[-1]} experts, and there are {self.experts}"
            raise ValueError(f"{fact}; make experts larger")
        if self.stored > self.experts:
            fact = f"stored is {self.stored}, and there are {self.experts} experts"
            raise ValueError(f"{fact}; write {self.experts} or less, or 0 for all")
        if x.shape[-1] % VECTOR or self.width % VECTOR:
            fact = f"rows have {x.shape[-1]} elements, and intermediate is {self.width}"
            raise ValueError(f"{fact}; make both multiples of {VECTOR}")
        self._blocks(inputs).check()
        for depth in (x.shape[-1], self.width):
            self._side(x.dtype, depth)
        return x

    def _side(self, dtype: DType, depth: int) -> Side:
        """How weights of rows of `depth` lie, where x has a type.

        Raises:
            ValueError: rows are no whole groups.
        """
        if not self.scaled:
            return Side(dtype)
        groups = FORMATS[self.format]
        return Side(dtype, groups, groups.of(depth), self.block_rows)

    def _blocks(self, inputs: tuple[TensorSpec, ...]) -> Blocks:
        pairs = inputs[2].size
        rows = min(MOST_ROWS, next_power_of_two(ceil(pairs / self.experts)))
        return Blocks(pairs, self.experts, rows, self.stored or self.experts)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Per pair three products of F D, the gates, and its part of the sum."""
        x, _, ids = inputs
        pairs, depth = ids.size, x.shape[-1]
        return pairs * (6 * self.width * depth + 4 * self.width + 2 * depth), pairs * self.width

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x, weights, ids = inputs
        blocks, depth = self._blocks(inputs), x.shape[-1]
        normal = Distribution.NORMAL
        weights_of = []
        extents = (2 * self.width, depth), (depth, self.width)
        for names, each in zip(zip(WEIGHTS, SCALES), extents, strict=True):
            side = self._side(x.dtype, each[1])
            fills = side.fills if self.scaled else (Fill(normal, 0.0, each[1] ** -0.5),)
            for name, spec, fill in zip(names, side.tensors(*each), fills):
                whole = TensorSpec((blocks.stored, *spec.shape), spec.dtype)
                weights_of.append(Port(name, whole, fill))
        index = blocks.specs(*INDEX)
        return (
            Port("x", x, Fill(normal, 0.0, 1.0)),
            Port("weights", weights, Fill(Distribution.UNIFORM, 0.0, 2.0 / ids.shape[-1])),
            Port("ids", ids, routes(ids, self.experts, self.skew)),
            *weights_of,
            Port("y", x),
            *(Port(name, spec, scratch=True) for name, spec in index.items()),
            *blocks.scratch(),
            Port("h", TensorSpec((blocks.places, self.width)), scratch=True),
            Port("rows", TensorSpec((blocks.places, depth)), scratch=True),
        )

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        x, _, ids = inputs
        blocks, depth, top_k = self._blocks(inputs), x.shape[-1], ids.shape[-1]
        sorting, keys = blocks.lower("ids", *INDEX)
        up, up_launch = self._product(blocks, top_k, x.dtype, depth, gated=True)
        down, down_launch = self._product(blocks, top_k, x.dtype, depth, gated=False)
        name = f"expert_sum_{blocks.pairs}_{top_k}x{depth}{elementwise.suffix(x.dtype)}"
        constants = (
            ("pairs", blocks.pairs),
            ("top_k", top_k),
            ("width", depth),
            *elementwise.element(x.dtype),
        )
        total = Kernel(name, "expert_sum.hip", OF_SUM, constants)
        grid = (blocks.pairs // top_k, ceil(depth / (OF_SUM * VECTOR)), 1)
        last = Launch(name, grid, ("rows", "weights", "ids", keys, "begins", "y"))
        kernels = (*sorting.kernels, up, down, total)
        return Lowering(kernels, (*sorting.launches, up_launch, down_launch, last))

    def _product(
        self, blocks: Blocks, top_k: int, dtype: DType, depth: int, *, gated: bool
    ) -> tuple[Kernel, Launch]:
        """One of the two products; the first is gated, and takes the rows of tokens."""
        wide, deep = (self.width, depth) if gated else (depth, self.width)
        what = f"up_{self.mode}" if gated else "down"
        form = f"{blocks.pairs}_{top_k}_{blocks.rows}_{blocks.stored}_{blocks.places}_{wide}x{deep}"
        side = self._side(dtype, deep)
        told = f"_{side.name}" if self.scaled else ""
        name = f"experts_{what}_{form}{told}{elementwise.suffix(dtype)}"
        scale: str = side.groups.c if side.groups else "float"
        constants: Constants = (
            ("function", str(self.mode if gated else GateMode.SWIGLU)),
            ("gated", int(gated)),
            ("gathered", int(gated)),
            ("pairs", blocks.pairs),
            ("top_k", top_k),
            ("rows", blocks.rows),
            ("stored", blocks.stored),
            ("width", wide),
            ("depth", deep),
            ("places", blocks.places),
            ("lanes", LANES),
            *(elementwise.element(dtype) if gated else ()),
            ("weight", side.c),
            ("scale", scale),
            ("group", side.group),
            ("sharing", side.sharing),
            ("scaled_weights", int(self.scaled)),
        )
        kernel = Kernel(name, "expert_product.hip", BLOCK, constants)
        first, at = ("x", 0) if gated else ("h", 1)
        scales = SCALES[at : at + 1] if self.scaled else ()
        args = (first, WEIGHTS[at], *scales, "order", "experts", "h" if gated else "rows")
        return kernel, Launch(name, (blocks.blocks, ceil(wide / COLUMNS), 1), args)

    def fault(self, given: Mapping[str, NDArray[Any]], inputs: tuple[TensorSpec, ...]) -> str:
        return outside("ids", given.get("ids"), 0, self.experts - 1)

    def _evaluated(self, tensors: Tensors) -> WithError:
        """Each chosen expert's tokens by themselves."""
        ids = tensors["ids"].astype(np.int64)
        top_k, depth = ids.shape[-1], tensors["x"].shape[-1]
        x, weights = tensors["x"].reshape(-1, depth), tensors["weights"].reshape(-1)
        slots = Blocks(ids.size, self.experts, 1, self.stored or self.experts).slots(ids)
        parts = [
            (name, self._side(self.dtype, deep), [tensors[s] for s in (scale,) if self.scaled])
            for name, scale, deep in zip(WEIGHTS, SCALES, (depth, self.width), strict=True)
        ]
        rows, off = np.zeros((ids.size, depth)), np.zeros((ids.size, depth))
        for e in np.unique(ids):
            pairs = np.flatnonzero(ids.reshape(-1) == e)
            w, down = (
                side.numbers(tensors[name][slots[e]], *(t[slots[e]] for t in scales))
                for name, side, scales in parts
            )
            halves = [
                self._product_of(WithError(x[pairs // top_k]), part)
                for part in (w[: self.width], w[self.width :])
            ]
            gate = halves[0]
            value = unit(gate.value, self.mode)
            steep = np.abs(unit_slope(gate.value, self.mode).value) + np.abs(gate.error)
            active = WithError(value.value, value.error + steep * gate.error)
            made = self._product_of(active * halves[1], down)
            rows[pairs], off[pairs] = made.value, made.error
        scaled = np.abs(weights)[:, np.newaxis] * (np.abs(rows) + off)
        y = (weights[:, np.newaxis] * rows).reshape(-1, top_k, depth).sum(axis=1)
        error = (np.abs(weights)[:, np.newaxis] * off).reshape(-1, top_k, depth).sum(axis=1)
        error += accumulated(top_k + 1) * scaled.reshape(-1, top_k, depth).sum(axis=1)
        error = (error + (top_k + 1) * TINY) * SECOND_ORDER
        shape = tensors["x"].shape
        return WithError(y.reshape(shape), error.reshape(shape))

    @staticmethod
    def _product_of(a: WithError, w: Array) -> WithError:
        """a w^T. A work-item adds up every LANES-th four terms, each product rounded where it is
        not fused, as a weight's with its scale is; then LANES sums are added up."""
        terms = w.shape[1]
        depth = min(ceil(terms / (LANES * VECTOR)) * VECTOR + LANES + 1, terms + 1)
        error = np.zeros_like(a.value) + a.error
        size = (np.abs(a.value) + error) @ np.abs(w).T
        return WithError(
            a.value @ w.T, accumulated(depth + 1) * size + error @ np.abs(w).T + terms * TINY
        )

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        return {"y": self._evaluated(tensors).value}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        error: Array = np.zeros_like(tensors["x"]) + self._evaluated(tensors).error
        return {"y": error}


@writes("expert_product")
def _rows(c: Values, block: int) -> list[Writes]:
    columns = block // c["lanes"]
    x = cut_by(Places(c["places"], c["width"], c["rows"]))
    return [Writes(-1, x, y=cut_by(Places(c["width"], 1, columns)))]


@writes("expert_sum")
def _sums(c: Values, block: int) -> list[Writes]:
    tokens = c["pairs"] // c["top_k"]
    columns = cut_by(Places(c["width"], 1, VECTOR), group=block)
    return [Writes(-1, cut_by(Places(tokens, c["width"])), y=columns)]
