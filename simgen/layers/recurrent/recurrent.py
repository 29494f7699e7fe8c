"""Recurrent layers: one layer, in one direction of time.

    x, dx  (T, N, C...) seen as (T, N, C)      y, dy  (T, N, H), H = hidden_size
    w  (G H, C)      r  (G H, H)      bw, br  (G H,), with bias=true only      G gates: see below

With h_0 = c_0 = 0, or as the inputs h0 and c0 (N, H) say (initial_state=true; c0 is float32), for
t = 1 ... T (or, with reverse=true, from T on down; final_state=true: hy and cy are the last ones):

    relu, tanh   h_t = f(w x_t + bw + r h_(t-1) + br)
    lstm         i, f, o = sigmoid(w_g x_t + bw_g + r_g h_(t-1) + br_g)   for each of the gates g
                 g = tanh(the same of g)
                 c_t = f c_(t-1) + i g            h_t = o tanh(c_t)
    gru          r, z = sigmoid(w_g x_t + bw_g + r_g h_(t-1) + br_g)
                 n = tanh(w_n x_t + bw_n + r (r_n h_(t-1) + br_n))
                 h_t = (1 - z) n + z h_(t-1)

The gates are stored in sequence in w, r and the biases: i, f, g, o and r, z, n. With
input_mode=skip, x_t (C = H) replaces w x_t in all of them, and there is no w.

Source: NVIDIA cuDNN, cudnnRNNMode_t (CUDNN_RNN_RELU, CUDNN_RNN_TANH, CUDNN_LSTM, CUDNN_GRU, with
CUDNN_RNN_DOUBLE_BIAS; gates in the order of its linLayerID), cudnnRNNInputMode_t; torch.nn.RNN,
LSTM and GRU, whose weight_ih, weight_hh, bias_ih and bias_hh are w, r, bw and br. Hochreiter and
Schmidhuber, "Long short-term memory", 1997; Cho et al., "Learning phrase representations using RNN
encoder-decoder", 2014, but with the reset gate behind the product, as in cuDNN.

The products with w are one kernel for all steps (matrix_product.py). Then each step is a launch of
one kernel (step.py), since simulators have no barrier of a whole grid. With algo=persistent,
weights stay in local memory (persistent.py). That pays if work-groups of a launch can wait for each
other, as on NVIDIA's GPUs, where these launches are one.

Forward stores intermediate results of the cell for backward: `gates`, `cell` (c) or `candidate`
(r_n h + br_n). Backward runs the steps in reverse. Each makes the gradients of its sums, `dgates`,
and stores in `carry` the gradient that reaches the previous step without passing the weights. For a
gru, it also makes `drec`, the gradients of the parts with r, which the reset gate separates. dx,
and then dw, dr and the biases' gradients, are products and sums over all steps.

Stacked layers are several of these. A bidirectional layer is two, one with reverse=true, joined by
a [Concat] with axis=-1.

All state between steps is float32: for narrow types, y is the rounded copy of the float32 tensor
`state`. If matrix instructions multiply 16-bit floats (step.py), they use y instead of the state,
and gradients that are rounded like y. Results are checked step by step: `reference` and `tolerance`
get the states of the result (`carried`), so bounds do not grow with T.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod, sqrt
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, Fill, Pass, TensorSpec
from simgen.ground.numerics.spread import Spread
from simgen.layers.base import MAX_INT, Choice, Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.product.matrix_product import LARGEST
from simgen.layers.recurrent import lowering, values
from simgen.layers.recurrent.cells import RecurrentCell
from simgen.layers.recurrent.step import DEPTH
from simgen.layers.recurrent.unrolled import StepAlgo, Unrolled, state_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.ground.numerics.running import Bounded
    from simgen.layers.base import Tensors

F, BX, BW = Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT
STEP_BY_MATRIX = (
    Choice("step's product", "mma.sync", "the machine has it for 16-bit floats of whole runs"),
)


class InputMode(StrEnum):
    LINEAR = "linear"
    SKIP = "skip"


@dataclass(frozen=True)
class Recurrent(Layer):
    kind = "recurrent"
    section = "Recurrent"
    # What a function rounds is no whole number, and a sum with what went before is no exact one.
    contract: ClassVar[Contract] = Contract(rounds=True, slope_shape=(4, 2, 3))
    passes: ClassVar[tuple[Pass, ...]] = (F, BX, BW)
    parameters: ClassVar[tuple[str, ...]] = ("w", "r", "bw", "br")
    any_float = True
    data_first = True
    axis_names: ClassVar[tuple[str, ...]] = ("steps", "batch", "features")
    shape_given: ClassVar[tuple[str, ...]] = ("dx", "dh0", "dc0")
    sample: ClassVar[Mapping[str, str]] = {"shape": "25x16x512"}
    input_names: ClassVar[tuple[str, ...]] = ("x", "h0", "c0")
    output_names: ClassVar[tuple[str, ...]] = ("y", "hy", "cy")
    algorithms: ClassVar[tuple[str, ...]] = (StepAlgo.STEPS, StepAlgo.PERSISTENT)

    cell: RecurrentCell = key(
        "cell", RecurrentCell.LSTM, "kind of unit; relu and tanh have no gates"
    )
    hidden_size: int = key(
        "hidden_size", 0, "number of units; 0: as many as the input has features", 0
    )
    input_mode: InputMode = key(
        "input_mode", InputMode.LINEAR, "multiply x by weights, or use it directly"
    )
    bias: bool = key("bias", True, "add a bias to each of the two products")
    reverse: bool = key("reverse", False, "process time steps from last to first")
    initial_state: bool = key(
        "initial_state",
        False,
        "start from states h0 and c0, which previous_layer names after x, instead of zero",
    )
    final_state: bool = key(
        "final_state", False, "also output the final states: hy, and cy of an lstm"
    )
    algo: StepAlgo = key(
        "algo",
        StepAlgo.AUTO,
        "keep the recurrent weights in LDS; auto: if a launch has many steps",
        hint=True,
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
        specs = self.unrolled(x).specs
        return (x, *(specs[port] for port in self.states))

    @property
    def skips(self) -> bool:
        return self.input_mode is InputMode.SKIP

    def unrolled(self, x: TensorSpec) -> Unrolled:
        """Over the time steps of x.

        Raises:
            ValueError: it has no time steps, samples and features, or they do not fit the layer.
        """
        if len(x.shape) < 3:
            told = " x ".join(map(str, x.shape))
            raise ValueError(f"x is {told}; give it time steps, samples and features: 25x16x512")
        if x.shape[0] < 2 and not self.initial_state:
            cure = "give it two or more, or initial_state=true"
            raise ValueError(f"one time step has nothing before it; {cure}")
        features = prod(x.shape[2:])
        hidden = self.hidden_size or features
        if self.skips and hidden != features:
            raise ValueError(
                f"input_mode=skip adds {features} features of x to {hidden} units; make them as "
                "many, or take input_mode=linear"
            )
        return Unrolled(
            x, self.cell, hidden, self.bias, self.skips, self.reverse, self.states,
            self.final_state, self.algo, self.machine,
        )  # fmt: skip

    @property
    def ends(self) -> tuple[str, ...]:
        """Ports of the states that it ends with, where they are outputs."""
        if not self.final_state:
            return ()
        return ("hy", "cy") if self.cell is RecurrentCell.LSTM else ("hy",)

    def outputs(self, inputs: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
        x, *_ = inputs
        y, specs = self.output(inputs), self.unrolled(x).specs
        return {"y": y, **{port: specs[port] for port in self.ends}}

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        x, *given = inputs
        u = self.unrolled(x)
        self._check_states(u, given)
        largest = max(u.sums * u.hidden, u.rows * u.sums, u.sums * u.features)
        if largest > min(LARGEST, MAX_INT):
            raise ValueError(f"a tensor of {largest} elements is larger than {LARGEST}; cut it")
        for product in u.products(F).values():
            product.check()
        return u.specs["y"]

    def _check_states(self, u: Unrolled, given: list[TensorSpec]) -> None:
        """Raises ValueError if the inputs behind x are no states to begin with."""
        if len(given) != len(self.states):
            wanted = ", ".join(("x", *self.states))
            told = "true" if self.initial_state else "false"
            fact = f"it has {1 + len(given)} inputs, and initial_state={told} wants {wanted}"
            raise ValueError(f"{fact}; name as many in previous_layer")
        specs = u.specs
        for port, spec in zip(self.states, given, strict=True):
            if spec != specs[port]:
                told, right = (
                    f"{' x '.join(map(str, each.shape))} of {each.dtype}"
                    for each in (spec, specs[port])
                )
                raise ValueError(f"{port} is {told}; give it samples and units: {right}")

    # ---- Tensors ----

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
        # Initial states that a cell's gradients need.
        before = {RecurrentCell.LSTM: self.states[1:], RecurrentCell.GRU: self.states}
        gradients = ("dy", *(f"d{port}" for port in self.ends))
        return (*w, *before.get(self.cell, ()), "r", *gradients, *kept)

    def _writes(self, direction: Pass, state: str) -> tuple[str, ...]:
        gru, lstm = self.cell is RecurrentCell.GRU, self.cell is RecurrentCell.LSTM
        if direction is F:
            more = ("state",) if state != "y" else ()
            kept = ("gates", "cell") if lstm else ("gates", "candidate") if gru else ()
            return ("y", *self.ends, *more, *kept)
        if direction is BX:
            passed = ("drec", "carry") if gru else ("carry",) if lstm else ()
            return ("dx", *(f"d{port}" for port in self.states), "dgates", *passed)
        biases = ("dbw", "dbr") if self.bias else ()
        return (*(() if self.skips else ("dw",)), "dr", *biases)

    def carried(self, direction: Pass) -> tuple[str, ...]:
        state = state_of(self.dtype)
        if direction is BW:
            return ()
        names = (state, "cell") if direction is F else ("dgates", "drec", "carry")
        return tuple(name for name in self._writes(direction, state) if name in names)

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x, *_ = inputs
        u = self.unrolled(x)
        specs, fills, products = u.specs, self._fills(u), u.products(direction)
        scratch = {}
        if direction is F and not self.skips:
            scratch["sums"] = TensorSpec(specs["gates"].shape)
        for port, product in products.items():
            scratch |= product.workspaces(f"{port}_partial")
        if direction is BW and "dr_later" in products:
            scratch["dr_later"] = TensorSpec(specs["r"].shape)
        if direction is F and self.states and u.by_matrix:
            scratch["h0_wide"] = TensorSpec(specs["h0"].shape)
        for port, space in u.rounded(direction).items():
            scratch[space] = TensorSpec(specs[port].shape, x.dtype)
        if direction is BX and u.by_matrix:
            scratch["r_turned"] = TensorSpec((u.hidden, u.sums), x.dtype)
        return (
            *(Port(name, specs[name], fills[name]) for name in self._reads(direction, u.state)),
            *(Port(name, specs[name]) for name in self._writes(direction, u.state)),
            *(Port(name, spec, scratch=True) for name, spec in scratch.items()),
        )

    def _fills(self, u: Unrolled) -> dict[str, Fill]:
        """Weights as torch.nn.LSTM draws them; kept tensors about as cells would leave them."""
        normal, uniform = Distribution.NORMAL, Distribution.UNIFORM
        own = 1 / sqrt(u.hidden)
        h = Fill(normal, 0.0, 0.5, low=-0.99, high=0.99)
        if self.cell is RecurrentCell.RELU:
            h = Fill(normal, 0.0, 1.0, low=0.0)
        small = Fill(normal, 0.0, 1.0)
        return {
            "x": Fill(normal, 0.0, 1.0),
            "w": Fill(uniform, -sqrt(3 / u.features), sqrt(3 / u.features)),
            "r": Fill(uniform, -own, own),
            **dict.fromkeys(("bw", "br"), Fill(normal, 0.0, 0.25)),
            **dict.fromkeys(("y", "state", "h0"), h),
            **dict.fromkeys(("dy", "dhy", "dcy", "dgates", "drec"), small),
            "hy": h,
            "gates": Fill(uniform, 0.0625, 0.9375),
            **dict.fromkeys(("cell", "candidate", "c0", "cy"), Fill(normal, 0.0, 0.75)),
        }

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        x, *_ = inputs
        u = self.unrolled(x)
        if direction is F:
            own = ("x",) if not self.skips or u.begins_on_words else ()
            state = ("h0",) if u.by_matrix else ()
            return (*own, *state, "w", "r", "bw", "br", "y", "hy")
        stored = tuple(port for port, made in u.products(direction).items() if made.stores)
        own = ("h0",) if direction is BW and u.by_matrix else ()
        return (*own, "w", "r", "x", *stored)

    # ---- Work ----

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Two operations for each term of a product: of all steps with w, of all that have one
        before with r; an addition for each bias and each sum that is joined; those of the cell."""
        u = self.unrolled(inputs[0])
        inside = 0 if self.skips else 2 * u.rows * u.sums * u.features
        steps = u.steps - (0 if self.states else 1)
        recurrent = 2 * steps * u.batch * u.sums * u.hidden
        units, sums = u.rows * u.hidden, u.rows * u.sums
        flops, functions = inside + recurrent, 0
        if direction is F:
            own, functions = self.cell.operations
            flops += own * units + (2 * sums if self.bias else 0)
        elif direction is BX:
            own, functions = self.cell.backward_operations
            flops += (own + (u.gates - 1 if self.skips else 0)) * units
            flops += u.batch * u.hidden if self.ends else 0
        else:
            flops += 2 * sums if self.bias else 0
        return flops, functions * units

    # ---- Launches ----

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        x, *_ = inputs
        lower = {F: lowering.forward, BX: lowering.backward, BW: lowering.weights}
        return lower[direction](self.unrolled(x))

    def choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        x, *_ = inputs
        u = self.unrolled(x)
        made = [c for product in u.products(direction).values() for c in product.choices]
        if direction is BW:
            return tuple(made)
        tile = u.tile(direction)
        kept = tile.kept > 0
        x_groups, y_groups, _ = tile.grid(u.batch, u.hidden)
        groups = f"{x_groups * y_groups} work-groups for {self.machine.units} compute units"
        why = f"units by samples of a work-group; each step has {groups}"
        how = Choice("step", f"{tile.units}x{tile.samples}", why)
        return (self._algorithm(u, kept), how, *(STEP_BY_MATRIX if u.by_matrix else ()), *made)

    def _algorithm(self, u: Unrolled, kept: bool) -> Choice:
        """What was chosen for the steps, and why."""
        if self.algo is not StepAlgo.AUTO:
            why = "algo says so"
        elif kept:
            why = "LDS holds the recurrent weights from step to step of one launch"
        elif u.machine.joins_groups:
            why = "LDS does not hold the recurrent weights"
        else:
            why = "each step is a launch: work-groups of one cannot wait for each other"
        return Choice("algorithm", StepAlgo.PERSISTENT if kept else StepAlgo.STEPS, why)

    def tiles(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Mapping[str, int]:
        x, *_ = inputs
        if len(x.shape) != len(self.axis_names):
            return {}
        own = {"hidden_size": DEPTH} if self.hidden_size and not self.skips else {}
        features = {} if self.hidden_size and self.skips else {"features": DEPTH}
        return {"steps": 1, "batch": self.unrolled(x).tile(F).samples} | own | features

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
        dtype = self.dtype
        known = {BX: "dx", BW: state_of(dtype) if self.skips else "x"}.get(direction, "x")
        unrolled = self.unrolled(TensorSpec(tensors[known].shape, dtype))
        return values.followed(unrolled, tensors, direction, proxy)
