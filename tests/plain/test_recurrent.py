"""Time steps: judged each by itself, from the states that a result has, and run in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from census import census
from handmade import build, lowered, lowered_text, run_by_hand

from simgen.bundle import results
from simgen.errors import SimgenError, UsageError
from simgen.frontend import config, network
from simgen.ground import machine
from simgen.ground.dtypes import DType
from simgen.ground.ir import Pass, TensorSpec
from simgen.layers.recurrent.cells import RecurrentCell
from simgen.layers.recurrent.recurrent import InputMode, Recurrent
from simgen.layers.recurrent.unrolled import StepAlgo
from simgen.targets.cuda import Cuda
from simgen.tensors import data_file
from simgen.verdict.diff import diff
from simgen.workload import lowering

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from simgen.verdict.verdict import Diff

F, BX, BW = Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT
STEPS, BATCH, HIDDEN = 120, 2, 24


def verdict_on(path: Path, workload: Any, change: Callable[[dict[str, Any]], None]) -> Diff:
    """Of a result by hand, whose tensors are the reference's but for what `change` does."""
    made = build(path, workload)
    folder = run_by_hand(made, change)
    result = results.collect(made, Cuda(), folder)
    inputs = data_file.load(made.path / "data.h5", made.workload)
    return diff(made.workload, inputs, result, None)


def test_bounds_of_the_last_step_are_those_of_the_first() -> None:
    """Where errors grow with each step, a right result is far from the reference of exact states,
    and near to that of its own."""
    layer = Recurrent(cell=RecurrentCell.TANH, bias=False).reading(
        (TensorSpec((STEPS, BATCH, HIDDEN)),)
    )
    random = np.random.default_rng(5)
    x, w, r = (
        random.standard_normal(shape).astype(np.float32)
        for shape in ((STEPS, BATCH, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, HIDDEN))
    )
    h, y = np.zeros((BATCH, HIDDEN), np.float32), []
    for x_t in x:
        h = np.tanh(x_t @ w.T / np.float32(8) + h @ r.T)  # all in float32
        y.append(h)
    read = {"x": x.astype(float), "w": w.astype(float) / 8, "r": r.astype(float)}
    there = read | {"y": np.stack(y).astype(float)}
    own, bound = layer.reference(there, F)["y"], layer.tolerance(there, F)["y"]
    assert (np.abs(own - there["y"]) <= bound).all()
    assert bound[-60:].max() < 2 * bound[:60].max() < 1e-3
    free = np.abs(layer.reference(read, F)["y"] - there["y"])
    assert free[:5].max() < 1e-4
    assert free[-20:].max() > 0.1


@pytest.mark.parametrize("cell", ["lstm", "gru", "relu", "tanh"])
def test_a_step_that_is_wrong_is_told_whichever_it_is(tmp_path: Path, cell: str) -> None:
    settings = (("shape", "7x3x10"), ("cell", cell))
    workload = lowered("recurrent_fwd", *settings)
    assert verdict_on(tmp_path / "right", workload, lambda tensors: None).passed

    def spoil(tensors: dict[str, Any]) -> None:
        tensors["recurrent.y"][5, 2, 7] += 1e-3

    found = verdict_on(tmp_path / "wrong", workload, spoil)
    (y,) = [each for each in found.verdicts if each.tensor == "recurrent.y"]
    places = {point.index for point in y.comparison.worst if point.ratio > 1}
    assert not y.passed
    assert (5, 2, 7) in places
    assert {(t, n) for t, n, _ in places} <= {(5, 2), (6, 2)}  # the next one had another state


def test_a_state_that_no_step_reads_is_told(tmp_path: Path) -> None:
    """All steps as if they were the first: each is right for itself, and none for its state."""
    workload = lowered("recurrent_fwd", ("shape", "5x2x6"), ("cell", "gru"))

    def forget(tensors: dict[str, Any]) -> None:
        layer = Recurrent(cell=RecurrentCell.GRU)
        inputs = data_file.load(tmp_path / "b" / "data.h5", workload)
        read = {port: inputs[f"recurrent.{port}"].astype(float) for port in ("w", "r", "bw", "br")}
        x = inputs["recurrent.x"].astype(float)
        for t in range(5):
            alone = np.stack([x[t], x[t]])
            made = layer.reference({**read, "x": alone}, F)
            for port, values in made.items():
                tensors[f"recurrent.{port}"][t] = values[0]

    found = verdict_on(tmp_path / "b", workload, forget)
    assert not found.passed


NET = "[Recurrent]\nname=a\nshape=3x2x4\n[Recurrent]\nname=b\nprevious_layer=a\ncell=gru\n"


@pytest.mark.parametrize("passes", [(F, Pass.BACKWARD), (F, BW, BX)])
def test_weights_get_the_gradients_that_the_pass_for_data_leaves(passes: tuple[Pass, ...]) -> None:
    planned = lowered_text(NET, passes)
    backward = [(step.layer, step.direction) for step in planned.steps[2:]]
    assert backward == [("b", BX), ("b", BW), ("a", BX), ("a", BW)]
    written = {name for step in planned.steps for _, name in step.writes}
    assert {"a.dgates", "b.drec", "a.y", "b.y"} <= written
    assert {b.name.partition(".")[2] for b in planned.inputs} <= {"x", "w", "r", "bw", "br", "dy"}


def test_states_are_not_thrown_away() -> None:
    net = network.resolve(config.parse(NET, "net.dnnmark"))
    with pytest.raises(UsageError, match="--reuse-memory: the time steps of layer 'a'"):
        lowering.lower(net, "net", (F,), 0, reuse_memory=True)


def test_each_step_is_one_launch_and_begins_where_the_last_one_ended() -> None:
    settings = (("shape", "4x3x8"), ("cell", "relu"), ("input_mode", "skip"), ("reverse", "true"))
    settings += (("algo", "steps"),)
    planned = lowered("recurrent_fwd", *settings)
    assert len(planned.launches) == 4
    nbytes = 3 * 8 * 4
    before = [dict(launch.places[1:2])["recurrent.y"] for launch in planned.launches]
    after = [launch.places[-1] for launch in planned.launches]
    assert after == [("recurrent.y", t * nbytes) for t in (3, 2, 1, 0)]
    assert before[1:] == [t * nbytes for t in (3, 2, 1)]
    first, *others = (launch.kernel for launch in planned.launches)
    assert first.endswith("_first")
    assert set(others) == {first.removesuffix("_first")}


# (machine, cell, samples, units, type, algo) -> of a step forward, then backward: units x samples
# of a work-group, samples x units of a work-item, slices x terms of a sum in local memory,
# work-items, and bytes that a launch asks for.
PLANNED = {
    ("gem5-gfx902", "lstm", 1, 512, "f32", "steps"): (
        "16x1 1x1 16x64 256 0", "16x1 1x1 16x64 256 0"),
    ("gem5-gfx902", "gru", 16, 40, "f32", "persistent"): (
        "16x16 4x1 4x48 256 22288", "32x8 2x1 2x120 256 19840"),
    ("mgpusim-mi300a", "lstm", 16, 1024, "f32", "steps"): (
        "8x16 4x1 8x64 256 0", "8x16 4x1 8x64 256 0"),
    ("mgpusim-mi300a", "tanh", 64, 128, "f32", "persistent"): (
        "32x4 1x1 2x128 256 19008", "32x4 1x1 2x128 256 19008"),
    ("h200", "lstm", 1, 512, "f32", "auto"): (
        "4x1 1x1 128x512 512 41728", "4x1 1x1 128x2048 512 41040"),
    ("h200", "gru", 128, 1024, "f32", "steps"): ("16x32 8x1 4x128 256 0", "16x32 8x4 16x128 256 0"),
    ("h200", "lstm", 64, 256, "f32", "steps"): ("8x16 4x2 16x128 256 0", "8x16 4x8 64x256 256 0"),
    ("a100", "tanh", 16, 64, "f32", "steps"): ("4x4 1x4 64x256 256 0", "4x4 1x4 64x256 256 0"),
    ("h200", "lstm", 16, 512, "f16", "auto"): (
        "8x16 1x1 8x64 256 49696", "8x16 1x1 16x64 512 43072"),
    ("h200", "gru", 64, 1024, "bf16", "auto"): (
        "16x32 1x1 8x64 256 149536", "32x16 1x1 8x64 256 221216"),
    ("h200", "lstm", 128, 1024, "f16", "steps"): (
        "16x64 1x1 4x512 256 196608", "32x32 1x1 8x1792 256 229376"),
    ("a100", "gru", 16, 1024, "f16", "steps"): (
        "16x16 1x1 8x1280 256 163840", "16x16 1x1 8x2048 256 131072"),
    ("h200", "lstm", 16, 100, "f16", "steps"): ("4x4 1x4 64x256 256 0", "4x4 1x4 64x256 256 0"),
}  # fmt: skip


@pytest.mark.parametrize("problem", PLANNED, ids=lambda each: "-".join(map(str, each)))
def test_what_is_planned_for_a_step(problem: Any) -> None:
    name, cell, batch, hidden, dtype, algo = problem
    x = TensorSpec((9, batch, hidden), DType.table[dtype])
    layer = Recurrent(cell=RecurrentCell(cell), algo=StepAlgo(algo), machine=machine.find(name, ""))
    u = layer.reading((x,)).unrolled(x)
    forward, backward = u.kernels(F), u.kernels(BX)
    kernels = forward.forward(first=False), backward.backward(first=False, start=False)
    found = tuple(
        f"{tile.units}x{tile.samples} {tile.held}x{tile.own} {tile.slices}x{tile.depth} "
        f"{kernel.block} {kernel.lds_nbytes}"
        for tile, kernel in zip((forward.tile, backward.tile), kernels, strict=True)
    )
    assert found == PLANNED[problem]


STATES = (
    "[Input]\nname=x0\nshape=3x2x4\n[Input]\nname=h\nshape=2x4\n[Input]\nname=c\nshape=2x4\n"
    "[Recurrent]\nname=r\ninitial_state=true\nprevious_layer="
)


def test_a_layer_begins_with_the_states_that_others_give() -> None:
    planned = lowered_text(STATES + "x0,h,c\n", (F, Pass.BACKWARD))
    forward, data, weights = planned.steps
    assert dict(forward.reads)["h0"] == "h.y"
    assert dict(forward.reads)["c0"] == "c.y"
    first, second = [launch for launch in forward.launches if "lstm" in launch.kernel][:2]
    assert first.kernel == second.kernel  # none is without a product
    assert first.args[1] == "h.y"
    assert second.args[1] == "r.y"
    assert {"dh0", "dc0"} <= dict(data.writes).keys()
    assert dict(weights.reads)["h0"] == "h.y"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("x0", "it has 1 inputs, and initial_state=true wants x, h0, c0; name as many"),
        ("x0,h", "it has 2 inputs, and initial_state=true wants x, h0, c0; name as many"),
        ("x0,x0,c", "h0 is 3 x 2 x 4 of f32; give it samples and units: 2 x 4 of f32"),
        ("x0,h,c\ncell=gru", "it has 3 inputs, and initial_state=true wants x, h0; name as many"),
    ],
)
def test_states_that_do_not_fit_are_refused(given: str, told: str) -> None:
    with pytest.raises(SimgenError, match=told):
        lowered_text(STATES + f"{given}\n", (F,))


def test_one_step_has_a_state_before_it_or_is_refused() -> None:
    settings = (("shape", "1x2x4"), ("cell", "relu"))
    with pytest.raises(SimgenError, match="give it two or more, or initial_state=true"):
        lowered("recurrent_fwd", *settings)
    planned = lowered("recurrent_bwd_weight", *settings, ("initial_state", "true"))
    assert planned.launches[1].args[1] == "recurrent.h0"


@census("cell, gates", [("lstm", 4), ("gru", 3), ("tanh", 1), ("relu", 1)])
@census("bias", [True, False])
@census("states, ends", [(True, False), (False, False), (False, True)])
def test_operations_of_a_layer_are_those_of_its_products_and_its_cell(
    cell, gates, bias, states, ends
):
    """Products as fvcore and DeepSpeed count them: 2 GATES (C + H) H a step and sample. Without
    initial states there is nothing to multiply at the first step."""
    t, n, c, h = 3, 5, 7, 11
    layer = Recurrent(
        cell=RecurrentCell(cell), hidden_size=h, bias=bias, initial_state=states, final_state=ends
    ).reading((TensorSpec((t, n, c)),))
    specs = (TensorSpec((t, n, c)),)
    steps = t if states else t - 1
    products = 2 * n * gates * h * (t * c + steps * h)
    biases = 2 * t * n * gates * h if bias else 0
    count = {direction: layer.count(specs, direction) for direction in Pass if direction in
             (Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT)}  # fmt: skip
    units = t * n * h
    # Gates: three sigmoids of a negation, an addition and a division, two tanh of 3; i g, f c + ..
    # and o tanh(c); sums of both parts.
    own = {"lstm": 3 * 2 + 2 * 3 + 4 + 4, "gru": 2 * 2 + 3 + 4 + 3, "tanh": 3 + 1, "relu": 1 + 1}
    functions = {"lstm": 10, "gru": 6, "tanh": 2, "relu": 0}
    skipping = Recurrent(
        cell=RecurrentCell(cell), hidden_size=h, input_mode=InputMode.SKIP, initial_state=True
    ).reading((TensorSpec((t, n, h)),))
    backward = skipping.count((TensorSpec((t, n, h)),), Pass.BACKWARD_DATA)
    back = {"lstm": 30, "gru": 18, "tanh": 5, "relu": 2}  # RecurrentCell.backward_operations
    # The gradient of x is the sum of those of the gates.
    assert backward.flops == 2 * n * gates * h * t * h + (back[cell] + gates - 1) * units
    forward, weight = count[Pass.FORWARD], count[Pass.BACKWARD_WEIGHT]
    assert forward.flops == products + biases + own[cell] * units
    assert forward.transcendentals == functions[cell] * units
    assert weight.flops == products + biases
    assert weight.transcendentals == 0
    data = count[Pass.BACKWARD_DATA]
    assert data.flops == products + back[cell] * units + (n * h if ends else 0)
    assert data.transcendentals == (2 * units if cell == "lstm" else 0)
