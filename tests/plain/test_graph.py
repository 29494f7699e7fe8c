"""Graphs of named tensors of any rank: what reads what, gradients through all of it, refusals."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from census import census
from handmade import lowered, lowered_text

from simgen.errors import ConfigError, RefusedError
from simgen.frontend import config, network
from simgen.ground.ir import Pass, Role, from_json, to_json
from simgen.layers import LAYERS
from simgen.layers.base import PortRole
from simgen.tensors.random_values import generate
from simgen.workload import costs, reference
from simgen.workload.sharding import split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simgen.ground.ir import Workload

    Array = NDArray[np.float64]

BOTH = (Pass.FORWARD, Pass.BACKWARD)
TRAINING = (*BOTH, Pass.UPDATE)

# A block of a transformer, less its heads: several outputs of one layer, tensors with several
# readers, parameters of three kinds, products of what layers give.
BLOCK = """\
[Input]
name=tokens
shape=2x5x6
[LayerNorm]
name=norm
previous_layer=tokens
[FullyConnected]
name=qkv
previous_layer=norm
axis=-1
num_output=12
bias=true
[Slice]
name=parts
previous_layer=qkv
outputs=3
axis=-1
[Gemm]
name=scores
previous_layer=parts,parts.y1
transb=true
alpha=0.5
[Softmax]
name=weights
previous_layer=scores
softmax_axis=-1
[Gemm]
name=context
previous_layer=weights.y,parts.y2
[Concat]
name=both
previous_layer=context,parts.y0
axis=2
[FullyConnected]
name=out
previous_layer=both
axis=2
num_output=6
[Add]
name=sum
previous_layer=out,tokens
"""


def drawn(workload: Workload) -> dict[str, NDArray[Any]]:
    """Values of the tensors of the data file, in float64."""
    return {
        b.name: generate(b.name, b.spec, b.fill, 0).reshape(b.spec.shape).astype(np.float64)
        for b in workload.inputs
        if b.fill
    }


def computed(workload: Workload, inputs: dict[str, NDArray[Any]]) -> dict[str, Array]:
    return {n: t for _, made in reference.run(workload, inputs) for n, t in made.items()}


def reads(workload: Workload, layer: str) -> dict[str, str]:
    """Port -> buffer of a layer's first step."""
    return dict(next(step for step in workload.steps if step.layer == layer).reads)


# ---- What reads what ----


def test_a_layer_s_name_means_its_first_tensor_and_a_dot_any():
    planned = lowered_text(BLOCK)
    assert reads(planned, "norm")["x"] == "tokens.y"
    assert reads(planned, "scores") == {"a": "parts.y0", "b": "parts.y1"}
    assert reads(planned, "context") == {"a": "weights.y", "b": "parts.y2"}
    assert reads(planned, "both") == {"x0": "context.y", "x1": "parts.y0"}
    shapes = {b.name: b.spec.shape for b in planned.buffers}
    assert shapes["scores.y"] == (2, 5, 5)
    assert shapes["both.y"] == (2, 5, 8)
    assert shapes["norm.gamma"] == (6,)
    assert shapes["norm.mean"] == (2, 5)


def test_an_input_is_run_by_nobody_and_has_one_tensor_for_all_its_readers():
    planned = lowered_text(BLOCK, BOTH)
    assert "tokens" not in {step.layer for step in planned.steps}
    assert planned.buffer("tokens.y").role is Role.INPUT
    assert planned.buffer("tokens.dy").role is Role.OUTPUT
    assert reads(planned, "tokens_grad") == {"x0": "sum.dx1", "x1": "norm.dx"}


def test_a_graph_is_json_and_back():
    planned = lowered_text(BLOCK, TRAINING)
    assert from_json(type(planned), to_json(planned)) == planned


def test_a_slice_of_a_graph_reads_what_is_left_out_from_the_data_file():
    found = config.parse(BLOCK, "net.dnnmark")
    kept = network.resolve(found, layers="scores..weights")
    assert [placed.node.name for placed in kept.layers] == ["scores", "weights"]
    assert [str(source) for source in kept.layers[0].sources] == ["parts.y0", "parts.y1"]


# ---- Gradients ----


def test_gradients_flow_through_every_tensor_to_every_parameter_and_input():
    """The backward passes of the whole graph are the derivative of its forward passes."""
    planned = lowered_text(BLOCK, BOTH)
    inputs = drawn(planned)
    found = computed(planned, inputs)
    forward = lowered_text(BLOCK)
    slope = inputs.pop("sum.dy")

    def loss(name: str, at: int, step: float) -> float:
        moved = inputs[name].copy()
        moved.reshape(-1)[at] += step
        return float((computed(forward, {**inputs, name: moved})["sum.y"] * slope).sum())

    step = 1e-5
    assert len(inputs) == 6
    for name, values in inputs.items():
        layer, port = name.split(".")
        gradient = found[f"{layer}.d{port}"].reshape(-1)
        assert gradient.any()
        for at in range(0, values.size, 1 + values.size // 12):
            slope_here = (loss(name, at, step) - loss(name, at, -step)) / (2 * step)
            assert math.isclose(slope_here, gradient[at], rel_tol=1e-5, abs_tol=1e-6), (name, at)


def test_attention_is_the_formula_of_its_paper_in_both_passes():
    """Vaswani et al. 2017, eq. 1, row by row, and derivatives by hand."""
    planned = lowered("attention", passes=BOTH)
    inputs = drawn(planned)
    found = computed(planned, inputs)
    q, k, v = (inputs[f"{name}.y"] for name in ("query", "key", "value"))
    dy = inputs["context.dy"]
    scale = 1 / math.sqrt(q.shape[-1])
    wanted = {name: np.zeros_like(q) for name in ("context.y", "query.dy", "key.dy", "value.dy")}
    for sample, head, row in np.ndindex(*q.shape[:3]):
        at = (sample, head)
        scores = scale * np.array([q[at][row] @ each for each in k[at]])
        p = np.exp(scores - scores.max())
        p /= p.sum()
        out = dy[at][row]
        wanted["context.y"][at][row] = p @ v[at]
        wanted["value.dy"][at] += np.outer(p, out)
        dp = v[at] @ out
        ds = scale * p * (dp - p @ dp)
        wanted["query.dy"][at][row] = ds @ k[at]
        wanted["key.dy"][at] += np.outer(ds, q[at][row])
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=2e-7, atol=2e-7, err_msg=name)


# ---- Roles ----


def test_parameters_are_known_by_their_role():
    planned = lowered_text(BLOCK, TRAINING)
    updated = {name for step in planned.steps if step.direction is Pass.UPDATE
               for _, name in step.writes}  # fmt: skip
    assert updated == {"norm.new_gamma", "norm.new_beta", "qkv.new_w", "qkv.new_b", "out.new_w"}
    held = costs.memory(planned)
    assert held["parameters"] == held["new parameters"] == 4 * (6 + 6 + 72 + 12 + 48)
    gradients = {b.name for b in planned.outputs if b.name.split(".")[1].startswith("d")}
    assert held["gradients"] == sum(planned.buffer(name).spec.nbytes for name in gradients)


def test_a_role_is_what_a_layer_declares_and_no_letter():
    norm, gemm = LAYERS["layer_norm"](), LAYERS["gemm"]()
    assert norm.role("gamma") is PortRole.PARAMETER
    assert norm.role("dgamma") is PortRole.GRADIENT
    assert norm.role("mean") is PortRole.OTHER
    assert gemm.role("b") is PortRole.INPUT
    assert gemm.role("db") is PortRole.GRADIENT
    assert LAYERS["fc"]().role("b") is PortRole.PARAMETER


# ---- Refusals ----

PAIR = "[Input]\nname=a\nshape=2x3x4\n[Input]\nname=b\nshape=2x4x5\n"


@census("text, place, words", [
        ("[Slice]\nname=s\nprevious_layer=a\naxis=-1\n[Bypass]\nprevious_layer=s.y2\n", 12,
         "'s.y2', but 's' has none; did you mean 's.y1'?"),
        ("[Bypass]\nprevious_layer=a.x\n", 8, "did you mean 'a.y'?"),
        ("[Bypass]\nprevious_layer=a.\n", 8, "write layer or layer.tensor"),
        ("[Bypass]\nprevious_layer=aa.y\n", 8, "which is not a layer here; did you mean 'a'?"),
        ("[Input]\nname=c\nprevious_layer=a\n", 9, "names 1, but [Input] takes 0"),
        ("[Gemm]\nprevious_layer=a\n", 7, "[Gemm] needs a, b, and previous_layer names 1; name"),
        ("[Gemm]\nbeta=1\nprevious_layer=a,b\n", 7, "as beta is not 0, [Gemm] needs a, b, c, and"),
        ("[Gemm]\nprevious_layer=a,a\n", 7, "k is 4 in one and 3 in the other"),
        ("[Gemm]\nprevious_layer=a,b\nm=3\n", 9, "has its inputs from previous_layer"),
        ("[Input]\nname=c\nshape=4x5\n[Gemm]\nprevious_layer=a,c\n", 10, "the same axes before"),
        ("[Input]\nname=c\nshape=7\n[Gemm]\nprevious_layer=a,c\n", 10, "no matrix"),
        ("[Gemm]\nbeta=1\nprevious_layer=a,b,a\n", 7, "c is 2 x 3 x 4, but y is 2 x 3 x 5"),
        ("[Softmax]\nprevious_layer=a\nsoftmax_axis=3\n", 7, "none of its axes in a tensor of 2"),
        ("[Softmax]\nprevious_layer=a\nsoftmax_axis=-3\n", 7, "is the batch in a tensor of 2"),
        ("[Slice]\nprevious_layer=a\n", 7, "axis 1 has 3 elements, which is not a multiple of 2"),
        ("[Concat]\nprevious_layer=a,b\n", 7, "x0 is 2 x 3 x 4, but x1 is 2 x 4 x 5"),
        ("[Pooling]\nprevious_layer=a\n", 7, "takes a tensor (N, C, H, W), but 'a' gives one of"),
        ("[Bypass]\nprevious_layer=a\nc=3\n", 9, "gets a tensor of 2 x 3 x 4; leave it out"),
        ("[Bypass]\nprevious_layer=a\nshape=2x3\n", 9, "output has 2 x 3 x 4; leave it out"),
        ("[Bypass]\nshape=2x3\nn=2\n", 9, "n is given beside shape"),
        ("[Bypass]\nshape=2x\n", 8, "write extents with x between them"),
        ("[Bypass]\nshape=2x0\n", 8, "it must be at least 1"),
        ("[Bypass]\nshape=1x1x1x1x1x1x1x1x1\n", 8, "write 8 at most"),
        ("[LRN]\nshape=2x3\n", 8, "takes (N, C, H, W); write four extents"),
    ])  # fmt: skip
def test_tensors_that_do_not_fit_are_refused_at_their_line(text, place, words):
    with pytest.raises(ConfigError) as caught:
        network.resolve(config.parse(PAIR + text, "net.dnnmark"))
    message = str(caught.value)
    assert message.startswith(f"net.dnnmark:{place}: ")
    assert words in message


def test_a_product_and_a_softmax_follow_each_other_in_any_rank():
    """Tables without a batch, as DeepBench has them, too."""
    text = "[Gemm]\nname=g\nm=3\nn=4\nk=5\n[Softmax]\nname=s\nprevious_layer=g\n"
    planned = lowered_text(text, BOTH)
    assert planned.buffer("s.y").spec.shape == (3, 4)
    assert reads(planned, "s") == {"x": "g.y"}


# ---- Settings ----


def shapes(*settings: tuple[str, str]) -> list[tuple[int, ...]]:
    found = network.resolve(config.parse(PAIR, "net.dnnmark"), settings)
    return [placed.output.shape for placed in found.layers]


def test_the_batch_is_the_first_extent_of_a_shape():
    assert shapes(("n", "7")) == [(7, 3, 4), (7, 4, 5)]
    assert shapes(("b.n", "7")) == [(2, 3, 4), (7, 4, 5)]
    assert shapes(("shape", "6x2")) == [(6, 2), (6, 2)]


def test_extents_take_the_place_of_a_shape_and_it_takes_theirs():
    assert shapes(("a.n", "9"), ("a.c", "8"))[0] == (9, 8, 1, 1)
    assert shapes(("a.c", "8"))[0] == (2, 8, 1, 1)
    assert shapes(("a.c", "8"), ("a.shape", "2x2"))[0] == (2, 2)


# ---- Several GPUs ----


def test_a_batch_of_products_is_shared_and_one_product_is_not():
    made = split(lowered("attention", ("n", "4"), passes=BOTH), 2)
    shape = made.workload.buffer("scores.y").spec.shape
    assert shape == (2, 4, 64, 64)
    assert not any(made.reductions)
    flat = re.sub(r"shape=2x", "shape=", PAIR) + "[Gemm]\nprevious_layer=a,b\n"
    with pytest.raises(RefusedError, match="needs the whole batch"):
        split(lowered_text(flat), 2)


def test_gradients_of_a_graph_s_parameters_are_added_up():
    made = split(lowered_text(BLOCK, TRAINING), 2)
    results = {each.result for after in made.reductions for each in after}
    assert results == {"norm.dgamma", "norm.dbeta", "qkv.dw", "qkv.db", "out.dw"}
