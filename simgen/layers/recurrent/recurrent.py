"""Recurrent layers: one layer, in one direction of time.

    x, dx  (T, N, C...) seen as (T, N, C)      y, dy  (T, N, H), H = hidden_size
    w  (G H, C)      r  (G H, H)      bw, br  (G H,), with bias=true only      G gates: see below

With h_0 = c_0 = 0, or as the inputs h0 and c0 (N, H) say (initial_state=true; c0 is float32), for
t = 1 ... T (or, with reverse=true, from T on down):

    relu, tanh   h_t = f(w x_t + bw + r h_(t-1) + br)
    lstm         i, f, o = sigmoid(w_g x_t + bw_g + r_g h_(t-1) + br_g)   for each of the gates g
                 g = tanh(the same of g)
                 c_t = f c_(t-1) + i g            h_t = o tanh(c_t)
    gru          r, z = sigmoid(w_g x_t + bw_g + r_g h_(t-1) + br_g)
                 n = tanh(w_n x_t + bw_n + r (r_n h_(t-1) + br_n))
                 h_t = (1 - z) n + z h_(t-1)

The gates lie one behind the other in w, r and the biases: i, f, g, o and r, z, n. With
input_mode=skip, x_t (C = H) stands in the place of w x_t in all of them, and there is no w.

Source: NVIDIA cuDNN, cudnnRNNMode_t (CUDNN_RNN_RELU, CUDNN_RNN_TANH, CUDNN_LSTM, CUDNN_GRU, with
CUDNN_RNN_DOUBLE_BIAS; gates in the order of its linLayerID), cudnnRNNInputMode_t; torch.nn.RNN,
LSTM and GRU, whose weight_ih, weight_hh, bias_ih and bias_hh are w, r, bw and br. Hochreiter and
Schmidhuber, "Long short-term memory", 1997; Cho et al., "Learning phrase representations using RNN
encoder-decoder", 2014, but with the reset gate behind the product, as in cuDNN.

The products with w are one for all steps (matrix_product.py); then each step is a launch of one
kernel (step.py), since simulators have no barrier of a whole grid. Forward leaves for backward
what the cell made of its sums: `gates`, `cell` (c) or `candidate` (r_n h + br_n). Backward runs the
steps the other way: each makes the gradients of its sums, `dgates` (of a gru `drec` too, those of
the parts with r, where the reset gate stands between), and leaves in `carry` what goes to the step
before past the weights. dx, and then dw, dr and the biases' gradients, are products and sums over
all steps.

Stacked layers are several of these. Of a layer in both directions, one has reverse=true, and a
[Concat] with axis=-1 joins them.

All that goes from step to step is float32: of narrow types, y is what the float32 tensor `state` is
rounded to. Where matrix instructions multiply 16-bit floats (step.py), they multiply y in place of
it, and gradients that are rounded as y is. Results are judged step by step: `reference` and
`tolerance` get the states that a result has (`carried`), so that bounds do not grow with T.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod, sqrt
from typing import TYPE_CHECKING, ClassVar

from simgen.dtypes import DType
from simgen.ir import Distribution, Fill, Launch, OpCount, Pass, TensorSpec
from simgen.layers import conversion, layout
from simgen.layers.base import MAX_INT, Choice, Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.product.elements import Elements
from simgen.layers.product.matrix_product import LARGEST, Product, sum_of
from simgen.layers.recurrent import cells
from simgen.layers.recurrent.cells import RecurrentCell
from simgen.layers.recurrent.step import (
    DEPTH,
    MatrixTile,
    StepKernels,
    StepTile,
    by_matrix,
    tile_of,
)
from simgen.numerics import storing
from simgen.numerics.rounding import SECOND_ORDER, TINY, U
from simgen.numerics.running import Bounded
from simgen.numerics.spread import Spread, order, sum_spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from simgen.ir import Kernel
    from simgen.layers.base import Tensors
    from simgen.numerics.rounding import Array
else:
    from simgen import arrays as np

F, BX, BW = Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT
FLOAT = DType.F32.nbytes
STEP_BY_MATRIX = (
    Choice("step's product", "mma.sync", "the machine has it for 16-bit floats of whole runs"),
)


class InputMode(StrEnum):
    LINEAR = "linear"
    SKIP = "skip"


@dataclass(frozen=True)
class Sizes:
    """Extents of a problem."""

    steps: int
    batch: int
    features: int
    hidden: int
    gates: int

    @property
    def rows(self) -> int:
        """Samples of all steps."""
        return self.steps * self.batch

    @property
    def sums(self) -> int:
        """Of a sample at a step."""
        return self.gates * self.hidden


@dataclass(frozen=True)
class Recurrent(Layer):
    kind = "recurrent"
    section = "Recurrent"
    # What a function rounds is no whole number, and a sum with what went before is no exact one.
    contract: ClassVar[Contract] = Contract(rounds=True, slope_shape=(4, 2, 3))
    passes: ClassVar[tuple[Pass, ...]] = (F, BX, BW)
    parameters: ClassVar[tuple[str, ...]] = ("w", "r", "bw", "br")
    rank: ClassVar[int | None] = None
    any_float = True
    data_first = True
    axis_names: ClassVar[tuple[str, ...]] = ("steps", "batch", "features")
    shape_given: ClassVar[tuple[str, ...]] = ("dx", "dh0", "dc0")
    sample: ClassVar[Mapping[str, str]] = {"shape": "25x16x512"}
    input_names: ClassVar[tuple[str, ...]] = ("x", "h0", "c0")

    cell: RecurrentCell = key(
        "cell", default=RecurrentCell.LSTM, text="what a unit is; relu and tanh have no gates"
    )
    hidden_size: int = key(
        "hidden_size", default=0, least=0, text="units; 0: as many as features of the input"
    )
    input_mode: InputMode = key(
        "input_mode", default=InputMode.LINEAR, text="whether x is multiplied by weights, or not"
    )
    bias: bool = key("bias", default=True, text="add a bias to each of both products?")
    reverse: bool = key("reverse", default=False, text="begin with the last time step?")
    initial_state: bool = key(
        "initial_state",
        default=False,
        text="begin with states h0 and c0, which previous_layer names behind x, and not with zero?",
    )

    @property
    def states(self) -> tuple[str, ...]:
        """Ports of the states that it begins with; none: these are zero."""
        if not self.initial_state:
            return ()
        return ("h0", "c0") if self.cell is RecurrentCell.LSTM else ("h0",)

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        if not self.states:
            return (x,)
        specs = self._specs(x)
        return (x, *(specs[port] for port in self.states))

    @property
    def skips(self) -> bool:
        return self.input_mode is InputMode.SKIP

    def sizes(self, shape: tuple[int, ...]) -> Sizes:
        """Of the shape of x.

        Raises:
            ValueError: it has no time steps, samples and features, or they do not fit the layer.
        """
        if len(shape) < 3:
            told = " x ".join(map(str, shape))
            raise ValueError(f"x is {told}; give it time steps, samples and features: 25x16x512")
        steps, batch, features = shape[0], shape[1], prod(shape[2:])
        if steps < 2 and not self.initial_state:
            cure = "give it two or more, or initial_state=true"
            raise ValueError(f"one time step has nothing before it; {cure}")
        hidden = self.hidden_size or features
        if self.skips and hidden != features:
            raise ValueError(
                f"input_mode=skip adds {features} features of x to {hidden} units; make them as "
                "many, or take input_mode=linear"
            )
        return Sizes(steps, batch, features, hidden, self.cell.gates)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        x, *given = inputs
        s = self.sizes(x.shape)
        self._check_states(x, given)
        largest = max(s.sums * s.hidden, s.rows * s.sums, s.sums * s.features)
        if largest > min(LARGEST, MAX_INT):
            raise ValueError(f"a tensor of {largest} elements is larger than {LARGEST}; cut it")
        for product in self._products(s, x.dtype, F).values():
            product.check()
        return TensorSpec((s.steps, s.batch, s.hidden), x.dtype)

    def _check_states(self, x: TensorSpec, given: list[TensorSpec]) -> None:
        """Raises ValueError if the inputs behind x are no states to begin with."""
        if len(given) != len(self.states):
            wanted = ", ".join(("x", *self.states))
            told = "true" if self.initial_state else "false"
            fact = f"it has {1 + len(given)} inputs, and initial_state={told} wants {wanted}"
            raise ValueError(f"{fact}; name as many in previous_layer")
        specs = self._specs(x)
        for port, spec in zip(self.states, given, strict=True):
            if spec != specs[port]:
                told, right = (
                    f"{' x '.join(map(str, each.shape))} of {each.dtype}"
                    for each in (spec, specs[port])
                )
                raise ValueError(f"{port} is {told}; give it samples and units: {right}")

    # ---- Tensors ----

    def _dtype(self) -> DType:
        return self.types[0] if self.types else DType.F32

    def _state(self, dtype: DType) -> str:
        """The port of h in float32."""
        return "state" if dtype.is_narrow else "y"

    def _specs(self, x: TensorSpec) -> dict[str, TensorSpec]:
        """Of all ports but workspaces, whether the layer has them or not."""
        s, dtype = self.sizes(x.shape), x.dtype
        y = (s.steps, s.batch, s.hidden)
        specs = dict.fromkeys(("state", "cell", "candidate", "carry"), TensorSpec(y))
        gates = TensorSpec((s.steps, s.batch, s.gates, s.hidden))
        specs |= dict.fromkeys(("gates", "dgates", "drec"), gates)
        specs |= {"x": x, "y": TensorSpec(y, dtype), "w": TensorSpec((s.sums, s.features), dtype)}
        specs |= {"r": TensorSpec((s.sums, s.hidden), dtype)}
        specs |= dict.fromkeys(("bw", "br"), TensorSpec((s.sums,), dtype))
        specs |= {"h0": TensorSpec(y[1:], dtype), "c0": TensorSpec(y[1:])}
        own = ("x", "y", "w", "r", "bw", "br", "h0", "c0")
        return specs | {f"d{port}": specs[port] for port in own}

    def _reads(self, direction: Pass, state: str) -> tuple[str, ...]:
        w = () if self.skips else ("w",)
        if direction is F:
            return ("x", *self.states, *w, "r", *(("bw", "br") if self.bias else ()))
        if direction is BW:
            gru, x = self.cell is RecurrentCell.GRU, () if self.skips else ("x",)
            inside = ("dgates",) if self.bias or not (gru and self.skips) else ()
            return (*x, *self.states[:1], state, *inside, *(("drec",) if gru else ()))
        kept = {
            RecurrentCell.LSTM: ("gates", "cell"),
            RecurrentCell.GRU: ("gates", "candidate", state),
        }.get(self.cell, (state,))
        # Of the states to begin with, what a cell's gradients are made of.
        before = {RecurrentCell.LSTM: self.states[1:], RecurrentCell.GRU: self.states}
        return (*w, *before.get(self.cell, ()), "r", "dy", *kept)

    def _writes(self, direction: Pass, state: str) -> tuple[str, ...]:
        gru, lstm = self.cell is RecurrentCell.GRU, self.cell is RecurrentCell.LSTM
        if direction is F:
            more = ("state",) if state != "y" else ()
            kept = ("gates", "cell") if lstm else ("gates", "candidate") if gru else ()
            return ("y", *more, *kept)
        if direction is BX:
            passed = ("drec", "carry") if gru else ("carry",) if lstm else ()
            return ("dx", *(f"d{port}" for port in self.states), "dgates", *passed)
        biases = ("dbw", "dbr") if self.bias else ()
        return (*(() if self.skips else ("dw",)), "dr", *biases)

    def carried(self, direction: Pass) -> tuple[str, ...]:
        state = self._state(self._dtype())
        if direction is BW:
            return ()
        names = (state, "cell") if direction is F else ("dgates", "drec", "carry")
        return tuple(name for name in self._writes(direction, state) if name in names)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x, *_ = inputs
        s, specs, state = self.sizes(x.shape), self._specs(x), self._state(x.dtype)
        fills = self._fills(s)
        scratch = {}
        if direction is F and not self.skips:
            scratch["sums"] = TensorSpec((s.steps, s.batch, s.gates, s.hidden))
        for port, product in self._products(s, x.dtype, direction).items():
            if product.workspace:
                scratch[f"{port}_partial"] = product.workspace
        if direction is BW and "dr_later" in self._products(s, x.dtype, direction):
            scratch["dr_later"] = TensorSpec(specs["r"].shape)
        if direction is F and self.states and self._by_matrix(s, x.dtype):
            scratch["h0_wide"] = TensorSpec(specs["h0"].shape)
        for port, space in self._rounded(s, x.dtype, direction).items():
            scratch[space] = TensorSpec(specs[port].shape, x.dtype)
        if direction is BX and self._by_matrix(s, x.dtype):
            scratch["r_turned"] = TensorSpec((s.hidden, s.sums), x.dtype)
        return (
            *(Port(name, specs[name], fills[name]) for name in self._reads(direction, state)),
            *(Port(name, specs[name]) for name in self._writes(direction, state)),
            *(Port(name, spec, scratch=True) for name, spec in scratch.items()),
        )

    def _fills(self, s: Sizes) -> dict[str, Fill]:
        """Weights as torch.nn.LSTM draws them; kept tensors about as cells would leave them."""
        normal, uniform = Distribution.NORMAL, Distribution.UNIFORM
        own = 1 / sqrt(s.hidden)
        h = Fill(normal, 0.0, 0.5, low=-0.99, high=0.99)
        if self.cell is RecurrentCell.RELU:
            h = Fill(normal, 0.0, 1.0, low=0.0)
        small = Fill(normal, 0.0, 1.0)
        return {
            "x": Fill(normal, 0.0, 1.0),
            "w": Fill(uniform, -sqrt(3 / s.features), sqrt(3 / s.features)),
            "r": Fill(uniform, -own, own),
            **dict.fromkeys(("bw", "br"), Fill(normal, 0.0, 0.25)),
            **dict.fromkeys(("y", "state", "h0"), h),
            **dict.fromkeys(("dy", "dgates", "drec"), small),
            "gates": Fill(uniform, 0.0625, 0.9375),
            **dict.fromkeys(("cell", "candidate", "c0"), Fill(normal, 0.0, 0.75)),
        }

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        x, *_ = inputs
        s = self.sizes(x.shape)
        if direction is F:
            # A step's x of a skipping layer begins on a word where its elements fill one.
            own = ("x",) if not self.skips or s.batch * s.hidden * x.dtype.nbytes % 4 == 0 else ()
            state = ("h0",) if self._by_matrix(s, x.dtype) else ()
            return (*own, *state, "w", "r", "bw", "br", "y")
        stored = tuple(
            port for port, made in self._products(s, x.dtype, direction).items() if made.stores
        )
        own = ("h0",) if direction is BW and self._by_matrix(s, x.dtype) else ()
        return (*own, "w", "r", "x", *stored)

    # ---- Work ----

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Two operations for each term of a product: of all steps with w, of all that have one
        before with r; an addition for each bias and each sum that is joined; those of the cell."""
        x, *_ = inputs
        s, specs, state = self.sizes(x.shape), self._specs(x), self._state(x.dtype)
        read = sum(specs[name].nbytes for name in self._reads(direction, state))
        written = sum(specs[name].nbytes for name in self._writes(direction, state))
        inside = 0 if self.skips else 2 * s.rows * s.sums * s.features
        steps = s.steps - (0 if self.states else 1)
        recurrent = 2 * steps * s.batch * s.sums * s.hidden
        units, sums = s.rows * s.hidden, s.rows * s.sums
        flops, functions = inside + recurrent, 0
        if direction is F:
            own, functions = self.cell.operations
            flops += own * units + (2 * sums if self.bias else 0)
        elif direction is BX:
            own, functions = self.cell.backward_operations
            flops += (own + (s.gates - 1 if self.skips else 0)) * units
        else:
            flops += 2 * sums if self.bias else 0
        return OpCount(flops, functions * units, read, written)

    def _products(self, s: Sizes, dtype: DType, direction: Pass) -> dict[str, Product]:
        """Those over all steps, by what they write."""
        made: dict[str, Product] = {}
        narrow, wide = dtype, DType.F32
        of_gradients = dtype if self._by_matrix(s, dtype) else wide
        if direction is F and not self.skips:
            types = Elements(narrow, narrow, narrow, wide)
            made["sums"] = self._product((s.rows, s.sums, s.features), (False, True), types)
        if direction is BX and not self.skips:
            types = Elements(of_gradients, narrow, wide, narrow)
            made["dx"] = self._product((s.rows, s.features, s.sums), (False, False), types)
        if direction is BX and self.states:
            types = Elements(of_gradients, narrow, wide, narrow)
            extents, adds = (s.batch, s.hidden, s.sums), self.cell is RecurrentCell.GRU
            made["dh0"] = self._product(extents, (False, False), types, adds=adds)
        if direction is BW:
            rows, types = s.rows - s.batch, Elements(of_gradients, narrow, wide, narrow)
            if not self.skips:
                made["dw"] = self._product((s.sums, s.features, s.rows), (True, False), types)
            types = Elements(of_gradients, of_gradients, wide, narrow)
            if self.states and rows:  # of the first step alone, to which those of later ones come
                later = replace(types, result=wide)
                made["dr_later"] = self._product((s.sums, s.hidden, rows), (True, False), later)
            extents = (s.sums, s.hidden, s.batch if self.states else rows)
            made["dr"] = self._product(extents, (True, False), types, adds="dr_later" in made)
        return made

    def _product(
        self,
        extents: tuple[int, int, int],
        transposed: tuple[bool, bool],
        types: Elements,
        *,
        adds: bool = False,
    ) -> Product:
        bias, beta = self.bias and transposed == (False, True), float(adds)
        return Product(
            *extents, *transposed, beta=beta, bias=bias, elements=types, machine=self.machine
        )

    def _kernels(self, s: Sizes, dtype: DType, direction: Pass, inputs: TensorSpec) -> StepKernels:
        moved = self.moves((inputs,), direction)
        x = dtype if self.skips and "x" in moved else DType.F32
        sums = self._sums_of_a_unit(direction)
        return StepKernels(
            self.cell, s.batch, s.hidden, self.skips, self.bias, x, dtype, self.machine, sums
        )

    def _sums_of_a_unit(self, direction: Pass) -> int:
        return self.cell.gates if direction is F else 1

    def _tile(self, s: Sizes, direction: Pass) -> StepTile | MatrixTile:
        sums = self._sums_of_a_unit(direction)
        return tile_of(self.machine, s.batch, s.hidden, sums, self._dtype())

    def _by_matrix(self, s: Sizes, dtype: DType) -> bool:
        return by_matrix(self.machine, dtype, s.hidden)

    def _factor(self, s: Sizes, dtype: DType, values: Array) -> Array:
        """States or gradients as products have them."""
        return storing.nearest(values, dtype) if self._by_matrix(s, dtype) else values

    @property
    def _passed(self) -> str:
        """The port of the gradients that go on from step to step."""
        return "drec" if self.cell is RecurrentCell.GRU else "dgates"

    def _rounded(self, s: Sizes, dtype: DType, direction: Pass) -> dict[str, str]:
        """Port -> the workspace that has it in the type of the weights, for products."""
        if direction is F or not self._by_matrix(s, dtype):
            return {}
        ports = [self._passed] + ([] if self.skips else ["dgates"])
        ports += [self._state(dtype)] if direction is BW else []
        return {port: f"{port}_rounded" for port in ports}

    # ---- Launches ----

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        x, *_ = inputs
        s, dtype = self.sizes(x.shape), x.dtype
        if direction is F:
            return self._lower_forward(s, x)
        if direction is BX:
            return self._lower_backward(s, x)
        return self._lower_weights(s, dtype)

    def _order(self, steps: int) -> list[int]:
        """Time steps as they are run forward."""
        found = list(range(steps))
        return found[::-1] if self.reverse else found

    def _lower_forward(self, s: Sizes, x: TensorSpec) -> Lowering:
        state, dtype = self._state(x.dtype), x.dtype
        kernels: list[Kernel] = []
        launches: list[Launch] = []
        for port, product in self._products(s, dtype, F).items():
            bias = "bw" if self.bias else None
            made = product.lower("recurrent_fwd", "x", "w", bias, port, f"{port}_partial")
            kernels, launches = [*made[0]], [*made[1]]
        steps = self._kernels(s, dtype, F, x)
        lstm, gru = self.cell is RecurrentCell.LSTM, self.cell is RecurrentCell.GRU
        unit, gate = s.batch * s.hidden * FLOAT, s.batch * s.sums * FLOAT
        inside = s.batch * s.hidden * steps.x.nbytes if self.skips else gate
        narrow = s.batch * s.hidden * dtype.nbytes
        if self.states and steps.by_matrix:
            widened = conversion.cast(s.batch * s.hidden, dtype, DType.F32, "h0", "h0_wide")
            kernels += widened.kernels
            launches += widened.launches
        before = -1
        for t in self._order(s.steps):
            begins, last = before < 0, max(before, 0)
            kernel = steps.forward(first=begins and not self.states)
            h, of_y, c = (state, last * unit), ("y", last * narrow), ("cell", last * unit)
            if begins and self.states:
                h, of_y, c = ("h0_wide" if steps.by_matrix else "h0", 0), ("h0", 0), ("c0", 0)
            places = [("x" if self.skips else "sums", t * inside), h, ("r", 0)]
            places += [of_y] if steps.by_matrix else []
            if self.bias:
                places += [("bw", 0), ("br", 0)] if self.skips else [("br", 0)]
            places += [c] if lstm else []
            places += [("gates", t * gate)] if self.cell.gated else []
            places += [("cell", t * unit)] if lstm else []
            places += [("candidate", t * unit)] if gru else []
            places += [(state, t * unit)]
            places += [("y", t * narrow)] if steps.by_matrix else []
            kernels.append(kernel)
            launches.append(_launch(kernel, steps.grid, places))
            before = t
        if state != "y" and not steps.by_matrix:
            rounded = conversion.cast(s.rows * s.hidden, DType.F32, dtype, state, "y")
            kernels += rounded.kernels
            launches += rounded.launches
        return Lowering(tuple(dict.fromkeys(kernels)), tuple(launches))

    def _lower_backward(self, s: Sizes, x: TensorSpec) -> Lowering:
        state = self._state(x.dtype)
        steps = self._kernels(s, x.dtype, BX, x)
        lstm, gru = self.cell is RecurrentCell.LSTM, self.cell is RecurrentCell.GRU
        unit, gate = s.batch * s.hidden * FLOAT, s.batch * s.sums * FLOAT
        kernels: list[Kernel] = []
        launches: list[Launch] = []
        prefix, order = f"recurrent_{BX}", self._order(s.steps)
        rounded, recurrent, r = self._rounded(s, x.dtype, BX), self._passed, "r"
        narrow = s.batch * s.sums * x.dtype.nbytes
        if steps.by_matrix:
            r = "r_turned"
            turned = layout.turn("recurrent_turn", 1, s.sums, s.hidden, x.dtype, x.dtype, "r", r)
            kernels, launches = [*turned.kernels], [*turned.launches]
        for at in range(s.steps - 1, -1, -1):
            t, start = order[at], at == 0
            begins = start and bool(self.states)
            before, behind = order[max(at - 1, 0)], order[min(at + 1, s.steps - 1)]
            kernel = steps.backward(first=at == s.steps - 1, start=start and not begins)
            passed = (recurrent, behind * gate)
            if steps.by_matrix:
                passed = (rounded[recurrent], behind * narrow)
            places = [("dy", t * unit), passed, (r, 0)]
            if self.cell.gated:
                places += [("carry", behind * unit), ("gates", t * gate)]
            else:
                places += [(state, t * unit)]
            c, h = ("cell", before * unit), (state, before * unit)
            c, h = (("c0", 0), ("h0", 0)) if begins else (c, h)
            places += [("cell", t * unit), c] if lstm else []
            places += [("candidate", t * unit), h] if gru else []
            places += [("drec", t * gate)] if gru else []
            places += [("carry", t * unit)] if self.cell.gated else []
            places += [("dx", t * unit)] if self.skips else []
            places += [("dgates", t * gate)]
            places += [(rounded["dgates"], t * narrow)] if steps.rounds_gates else []
            places += [(rounded[recurrent], t * narrow)] if steps.by_matrix else []
            kernels.append(kernel)
            launches.append(_launch(kernel, steps.grid, places))
        for port, product in self._products(s, x.dtype, BX).items():
            left = rounded.get("dgates", "dgates")
            if port == "dh0":
                left, added = rounded.get(recurrent, recurrent), "carry" if gru else None
                made = product.lower(prefix, left, "r", added, port, f"{port}_partial")
                size = narrow if rounded else gate
                first = {left: order[0] * size, "carry": order[0] * unit}
                made = made[0], tuple(_placed(launch, first) for launch in made[1])
            else:
                made = product.lower(prefix, left, "w", None, port, f"{port}_partial")
            kernels += made[0]
            launches += made[1]
        if "c0" in self.states:  # what the first step leaves for one before
            copied, grid = sum_of(self.machine, f"{prefix}_dc0", 1, s.batch * s.hidden)
            kernels.append(copied)
            launches.append(_launch(copied, grid, [("carry", order[0] * unit), ("dc0", 0)]))
        return Lowering(tuple(dict.fromkeys(kernels)), tuple(launches))

    def _lower_weights(self, s: Sizes, dtype: DType) -> Lowering:
        kernels: list[Kernel] = []
        launches: list[Launch] = []
        prefix, state, recurrent = f"recurrent_{BW}", self._state(dtype), self._passed
        rounded = self._rounded(s, dtype, BW)
        for port, space in rounded.items():
            size = s.rows * (s.hidden if port == state else s.sums)
            made_narrow = conversion.cast(size, DType.F32, dtype, port, space)
            kernels += made_narrow.kernels
            launches += made_narrow.launches
        nbytes = dtype.nbytes if rounded else FLOAT
        h, gradients = rounded.get(state, state), rounded.get(recurrent, recurrent)
        for port, product in self._products(s, dtype, BW).items():
            inside = rounded.get("dgates", "dgates")
            left, right = (inside, "x") if port == "dw" else (gradients, h)
            first: dict[str, int] = {}
            if port == "dr" and self.states:
                right, first = (
                    "h0",
                    {gradients: self._order(s.steps)[0] * s.batch * s.sums * nbytes},
                )
            elif port != "dw":  # h of each step, and the gradients of the sums of the next one
                side = (h, s.hidden) if self.reverse else (gradients, s.sums)
                first = {side[0]: s.batch * side[1] * nbytes}
            added = "dr_later" if port == "dr" and product.beta else None
            made = product.lower(prefix, left, right, added, port, f"{port}_partial")
            kernels += made[0]
            launches += [_placed(launch, first) if first else launch for launch in made[1]]
        if self.bias:
            total, grid = sum_of(self.machine, f"{prefix}_bias", s.rows, s.sums)
            kernels.append(total)
            launches += [
                Launch(total.name, grid, pair) for pair in (("dgates", "dbw"), (recurrent, "dbr"))
            ]
        return Lowering(tuple(dict.fromkeys(kernels)), tuple(launches))

    def choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        x, *_ = inputs
        s = self.sizes(x.shape)
        made = [c for p in self._products(s, x.dtype, direction).values() for c in p.choices]
        if direction is BW:
            return tuple(made)
        tile = tile_of(self.machine, s.batch, s.hidden, self._sums_of_a_unit(direction), x.dtype)
        x_groups, y_groups, _ = tile.grid(s.batch, s.hidden)
        groups = f"{x_groups * y_groups} work-groups for {self.machine.units} compute units"
        why = f"units by samples of a work-group; each step has {groups}"
        how = Choice("step", f"{tile.units}x{tile.samples}", why)
        return (how, *(STEP_BY_MATRIX if self._by_matrix(s, x.dtype) else ()), *made)

    def tiles(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Mapping[str, int]:
        x, *_ = inputs
        if len(x.shape) != len(self.axis_names):
            return {}
        s = self.sizes(x.shape)
        own = {"hidden_size": DEPTH} if self.hidden_size and not self.skips else {}
        features = {} if self.hidden_size and self.skips else {"features": DEPTH}
        return (
            {
                "steps": 1,
                "batch": tile_of(self.machine, s.batch, s.hidden, self.cell.gates, x.dtype).samples,
            }
            | own
            | features
        )

    # ---- Values ----

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        found = self._followed(tensors, direction, None)
        return {port: each.value for port, each in found.items()}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._errors(tensors, direction, proxy=False)

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        """A rounding of a sum reaches all gates of its unit at most."""
        found = self._errors(tensors, direction, proxy=True)
        shared = 1 if direction is BW else self.cell.gates
        return {
            port: Spread(np.minimum(sigma, tolerance[port]), shared)
            for port, sigma in found.items()
        }

    def _errors(self, tensors: Tensors, direction: Pass, *, proxy: bool) -> dict[str, Array]:
        found = self._followed(tensors, direction, proxy)
        return {port: e.error for port, e in found.items() if e.error is not None}

    def _followed(
        self, tensors: Tensors, direction: Pass, proxy: bool | None
    ) -> dict[str, Bounded]:
        """What a pass writes; None: without errors."""
        dtype = self._dtype()
        known = {BX: "dx", BW: self._state(dtype) if self.skips else "x"}.get(direction, "x")
        x = TensorSpec(tensors[known].shape, dtype)
        follow = {F: self._forward, BX: self._backward, BW: self._weights}[direction]
        found = follow(self.sizes(x.shape), x.dtype, tensors, proxy)
        shapes = self._specs(x)
        return {port: _shaped(each, shapes[port].shape) for port, each in found.items()}

    def _forward(
        self, s: Sizes, dtype: DType, tensors: Tensors, proxy: bool | None
    ) -> dict[str, Bounded]:
        state = self._state(dtype)
        inside, r = self._inside(s, dtype, tensors, proxy), tensors["r"]
        tile = self._tile(s, F)

        def made(part: Bounded, h: Array, c: Array, proxy: bool | None) -> dict[str, Bounded]:
            found = tile.sums_of(self._factor(s, dtype, h), r.T, proxy=proxy)
            sums = _shaped(found, (*h.shape[:-1], s.gates, s.hidden))
            if self.bias:
                sums = sums + _exact(tensors["br"].reshape(s.gates, s.hidden), proxy)
            return cells.forward(self.cell, part, sums, _exact(h, proxy), _exact(c, proxy))

        h, c = tensors.get(state), tensors.get("cell")
        if h is None:
            h, c = np.zeros((2, s.steps, s.batch, s.hidden))
            before = np.zeros((2, s.batch, s.hidden))
            before[0], before[1] = tensors.get("h0", 0.0), tensors.get("c0", 0.0)
            for t in self._order(s.steps):
                each = made(Bounded(inside.value[t]), before[0], before[1], None)
                before[0] = h[t] = each["h"].value
                before[1] = c[t] = each["cell"].value if "cell" in each else 0.0
        c = np.zeros_like(h) if c is None else c
        first = tensors.get("h0"), tensors.get("c0")
        found = made(inside, self._shifted(h, first[0]), self._shifted(c, first[1]), proxy)
        found["y"] = found.pop("h")
        return found if state == "y" else {**found, "state": found["y"]}

    def _inside(self, s: Sizes, dtype: DType, tensors: Tensors, proxy: bool | None) -> Bounded:
        """The parts of the sums that come from x, with their bias: (T, N, gates, units)."""
        x = tensors["x"].reshape(s.rows, s.features)
        bw = tensors["bw"] if self.bias else np.zeros(s.sums)
        if self.skips:
            shape = (s.steps, s.batch, s.gates, s.hidden)
            part = _exact(np.broadcast_to(x.reshape(s.steps, s.batch, 1, s.hidden), shape), proxy)
            return part + _exact(bw.reshape(s.gates, s.hidden), proxy) if self.bias else part
        (product,) = self._products(s, dtype, F).values()
        value = x @ tensors["w"].T + bw
        found = _of_product(product, x, tensors["w"].T, value, proxy)
        return _shaped(found, (s.steps, s.batch, s.gates, s.hidden))

    def _shifted(self, states: Array, first: Array | None = None, *, behind: bool = False) -> Array:
        """States of the step before, or behind, each one in the order of the run; where there is
        none, `first`, or zeros."""
        nothing = np.zeros_like(states[:1]) if first is None else first.reshape(states[:1].shape)
        if self.reverse is behind:
            return np.concatenate([nothing, states[:-1]])
        return np.concatenate([states[1:], nothing])

    def _backward(
        self, s: Sizes, dtype: DType, tensors: Tensors, proxy: bool | None
    ) -> dict[str, Bounded]:
        state, r = self._state(dtype), tensors["r"]
        kept = {name: tensors[name] for name in ("gates", "cell", "candidate") if name in tensors}
        if "cell" in kept:
            kept["cell_before"] = self._shifted(kept["cell"], tensors.get("c0"))
        if self.cell is not RecurrentCell.LSTM:
            before = self._shifted(tensors[state], tensors.get("h0"))
            kept |= {"h": tensors[state], "h_before": before}
        tile, recurrent = self._tile(s, BX), self._passed

        def made(
            dy: Array, behind: Array, carry: Array, own: Mapping[str, Array], proxy: bool | None
        ) -> dict[str, Bounded]:
            rows = self._factor(s, dtype, behind.reshape(*behind.shape[:-2], s.sums))
            dh = _exact(dy, proxy) + tile.sums_of(rows, r, proxy=proxy)
            if self.cell is RecurrentCell.GRU:
                dh = dh + _exact(carry, proxy)
            return cells.backward(self.cell, dh, _exact(carry, proxy), own)

        passed, carry = tensors.get(recurrent), tensors.get("carry")
        if passed is None:
            passed = np.zeros((s.steps, s.batch, s.gates, s.hidden))
            carry = np.zeros((s.steps, s.batch, s.hidden))
            behind, carried = np.zeros_like(passed[0]), np.zeros_like(carry[0])
            for t in self._order(s.steps)[::-1]:
                own = {name: values[t] for name, values in kept.items()}
                each = made(tensors["dy"][t], behind, carried, own, None)
                behind = passed[t] = each[recurrent].value
                carried = carry[t] = each["carry"].value if "carry" in each else 0.0 * carried
        carry = np.zeros((s.steps, s.batch, s.hidden)) if carry is None else carry
        after = self._shifted(passed, behind=True), self._shifted(carry, behind=True)
        found = made(tensors["dy"], *after, kept, proxy)
        dgates = tensors.get("dgates", found["dgates"].value)
        found["dx"] = self._dx(s, dtype, dgates, tensors, proxy)
        found |= self._to_states(s, dtype, passed, tensors.get("carry", carry), r, proxy)
        if "c0" in self.states:  # what the first step leaves for one before
            first, left = self._order(s.steps)[0], found["carry"]
            error = None if left.error is None else left.error[first]
            found["dc0"] = Bounded(left.value[first], error)
        return found

    def _to_states(
        self, s: Sizes, dtype: DType, passed: Array, carry: Array, r: Array, proxy: bool | None
    ) -> dict[str, Bounded]:
        """The gradient of h0, from what the first step passes on."""
        if not self.states:
            return {}
        first = self._order(s.steps)[0]
        left = self._factor(s, dtype, passed[first].reshape(s.batch, s.sums))
        product, value = self._products(s, dtype, BX)["dh0"], left @ r
        value = value + carry[first] if product.beta else value
        return {"dh0": _of_product(product, left, r, value, proxy)}

    def _dx(
        self, s: Sizes, dtype: DType, dgates: Array, tensors: Tensors, proxy: bool | None
    ) -> Bounded:
        """From the gradients of the sums as a result has them."""
        if self.skips:
            value = dgates.sum(axis=-2)
            bound = s.gates * U * np.abs(dgates).sum(axis=-2) * SECOND_ORDER + TINY
            return Bounded(value, None if proxy is None else bound)
        product = self._products(s, dtype, BX)["dx"]
        left, right = self._factor(s, dtype, dgates.reshape(s.rows, s.sums)), tensors["w"]
        return _of_product(product, left, right, left @ right, proxy)

    def _weights(
        self, s: Sizes, dtype: DType, tensors: Tensors, proxy: bool | None
    ) -> dict[str, Bounded]:
        state, products = self._state(dtype), self._products(s, dtype, BW)
        drec = tensors[self._passed].reshape(s.steps, s.batch, s.sums)
        dgates = tensors.get("dgates", drec).reshape(s.rows, s.sums)
        found: dict[str, Bounded] = {}
        if "dw" in products:
            x, left = tensors["x"].reshape(s.rows, s.features), self._factor(s, dtype, dgates).T
            found["dw"] = _of_product(products["dw"], left, x, left @ x, proxy)
        h, gradients = (self._factor(s, dtype, each) for each in (tensors[state], drec))
        later, earlier = (gradients[:-1], h[1:]) if self.reverse else (gradients[1:], h[:-1])
        left, right = later.reshape(-1, s.sums).T, earlier.reshape(-1, s.hidden)
        if not self.states:
            found["dr"] = _of_product(products["dr"], left, right, left @ right, proxy)
        else:
            found["dr"] = self._with_first(s, products, (left, right), gradients, tensors, proxy)
        if self.bias:
            found["dbw"] = _of_sum(dgates, proxy)
            found["dbr"] = _of_sum(drec.reshape(s.rows, s.sums), proxy)
        return found

    def _with_first(
        self,
        s: Sizes,
        products: Mapping[str, Product],
        later: tuple[Array, Array],
        gradients: Array,
        tensors: Tensors,
        proxy: bool | None,
    ) -> Bounded:
        """The gradient of r where the first step has a state before it, from the factors of all
        other steps and those of this one."""
        left = gradients[self._order(s.steps)[0]].T
        right = self._factor(s, self._dtype(), tensors["h0"])
        if "dr_later" not in products:
            return _of_product(products["dr"], left, right, left @ right, proxy)
        others = _of_product(products["dr_later"], *later, later[0] @ later[1], proxy)
        made = _of_product(products["dr"], left, right, left @ right + others.value, proxy)
        if made.error is None or others.error is None:
            return made
        return Bounded(made.value, made.error + others.error)


def _launch(kernel: Kernel, grid: tuple[int, int, int], places: list[tuple[str, int]]) -> Launch:
    """With arguments at (port, bytes from its start)."""
    names, offsets = zip(*places, strict=True)
    return Launch(kernel.name, grid, names, offsets)


def _placed(launch: Launch, starts: Mapping[str, int]) -> Launch:
    """With some arguments so many bytes behind their start."""
    return replace(launch, offsets=tuple(starts.get(name, 0) for name in launch.args))


def _exact(values: Array, proxy: bool | None) -> Bounded:
    """What was not rounded."""
    return Bounded(values, None if proxy is None else np.zeros_like(values))


def _shaped(each: Bounded, shape: tuple[int, ...]) -> Bounded:
    error = None if each.error is None else each.error.reshape(shape)
    return Bounded(each.value.reshape(shape), error)


def _of_product(product: Product, a: Array, b: Array, y: Array, proxy: bool | None) -> Bounded:
    if proxy is None:
        return Bounded(y)
    hard = product.bound(a, b, y)
    return Bounded(y, product.spread(a, b, y, hard) if proxy else hard)


def _of_sum(rows: Array, proxy: bool | None) -> Bounded:
    """Sums over the rows: in whatever order, each takes part in as many additions at most."""
    value = rows.sum(axis=0)
    if proxy is None:
        return Bounded(value)
    hard = len(rows) * U * np.abs(rows).sum(axis=0) * SECOND_ORDER + TINY
    return Bounded(value, sum_spread(rows.T, order(len(rows)), hard) if proxy else hard)
