"""What an imported model fixes keeps its values, and only trained parameters are drawn.

Programs in tests/data/fixed are of PyTorch 2.15 (archives without notes on sources), with what
their modules gave in io.npz:

    places        sine table (buffer), a product with sqrt(8), LayerScale (parameter)
    rotary        tables of cosines and sines, causal attention
    padded_*      attention by a causal mask that leaves no key where it pads on the left: bool,
                  0 and -inf, 0 and -3.4e38, the last one in parts; bool by an input of the program
    gates         normalised pixels, batch normalisation, a gate by channel, SiLU, a line
    one_hot       a code as a factor of a product
    table         two tables of words, of which one is a buffer
    frozen        a parameter that training leaves alone, and one that is a number
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from census import census
from imported_models import by_evaluator, by_references
from onnx import TensorProto, helper, numpy_helper

from simgen.ask.build import BuildChoices
from simgen.bundle.planning import Plan
from simgen.errors import SimgenError
from simgen.frontend.importing import onnx_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = np.ndarray[Any, np.dtype[Any]]

FIXED = Path(__file__).parents[1] / "data" / "fixed"
DRAWN = {  # program -> inputs that are drawn, and launches
    "places": ("x.y layer_norm.gamma layer_norm.beta linear_product.w linear_product.b p_g.y", 6),
    "rotary": ("q.y k.y v.y", 17),
    "padded_bool": ("q.y k.y v.y", 5),
    "padded_inf": ("q.y k.y v.y", 5),
    "padded_low": ("q.y k.y v.y", 5),
    "padded_parts": ("q.y k.y v.y", 5),
    "padded_input": ("q.y k.y v.y keep.y", 10),
    "gates": (
        "x.y conv2d.w conv2d.b batch_norm.w batch_norm.b batch_norm.running_mean "
        "batch_norm.running_var",
        7,
    ),
    "one_hot": ("x.y linear.w linear.b", 2),
    "table": ("i.y embedding.w", 3),
    "frozen": ("x.y linear.w linear.b", 4),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_program_computes_what_pytorch_does(name: str) -> None:
    """With the weights of the file; without them, those alone are drawn."""
    with np.load(FIXED / "io.npz") as known:
        held = {
            each.partition(".")[2]: known[each] for each in known if each.startswith(f"{name}.")
        }
    expected = held.pop("y")
    inputs = {n: v.astype(np.int32) if v.dtype.kind in "bi" else v for n, v in held.items()}
    (found,) = by_references(FIXED / f"{name}.pt2", inputs).values()
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=2e-5, atol=2e-6)
    plan = Plan(str(FIXED / f"{name}.pt2"), BuildChoices())
    drawn, launches = DRAWN[name]
    assert {b.name for b in plan.workload.inputs if b.values is None} == set(drawn.split())
    assert sum(len(step.launches) for step in plan.workload.steps) == launches
    of_model = Plan(str(FIXED / f"{name}.pt2"), BuildChoices(values=("model",)))
    for buffer, values in plan.constants.items():
        assert np.array_equal(values, of_model.values[buffer])


def test_constants_are_those_of_the_file() -> None:
    """The table of sines, to the bit."""
    with zipfile.ZipFile(FIXED / "places.pt2") as archive:
        names = {n.split("/", 1)[1]: n for n in archive.namelist()}
        told = json.loads(archive.read(names["data/weights/model_weights_config.json"]))["config"]
        bytes_ = archive.read(names[f"data/weights/{told['table']['path_name']}"])
    plan = Plan(str(FIXED / "places.pt2"), BuildChoices())
    (values,) = plan.constants.values()
    assert np.array_equal(values, np.frombuffer(bytes_, np.float32).reshape(6, 8)[:5])


def test_parameters_are_trained_where_training_changes_none(tmp_path: Path) -> None:
    """As of a model that was frozen whole before it was exported."""
    path = tmp_path / "m.pt2"
    with zipfile.ZipFile(FIXED / "frozen.pt2") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("weights_config.json"):
                content = content.replace(b'"requires_grad": true', b'"requires_grad": false')
            new.writestr(name, content)
    drawn = {b.name for b in Plan(str(path), BuildChoices()).workload.inputs if b.values is None}
    assert drawn == {"x.y", "linear.w", "linear.b", "p_p.y"}


# ---- ONNX ----


def saved(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Array],
    tensors: dict[str, Array],
    opset: int = 23,
) -> onnx.ModelProto:
    def info(name: str, values: Array) -> onnx.ValueInfoProto:
        element = helper.np_dtype_to_tensor_dtype(values.dtype)
        return helper.make_tensor_value_info(name, element, values.shape)

    ends = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    known = [numpy_helper.from_array(values, name) for name, values in tensors.items()]
    given = [info(name, values) for name, values in inputs.items()]
    graph = helper.make_graph(list(nodes), "graph", given, ends, known)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    onnx.save(model, path)
    return model


def drawn_of(path: Path) -> set[str]:
    return {b.name for b in Plan(str(path), BuildChoices()).workload.inputs if b.values is None}


def f32(values: Any) -> Array:
    return np.array(values, np.float32)


RANDOM = np.random.default_rng(5)


def some(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def test_outputs_that_no_layer_computes_are_named(tmp_path: Path) -> None:
    """ONNX's evaluator gives both outputs; only one of them depends on the input."""
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("Neg", ["table"], ["turned"]),
    ]
    path = tmp_path / "m.onnx"
    model = saved(path, nodes, {"x": some(2, 3)}, {"table": some(2, 3)})
    model.graph.output.append(helper.make_tensor_value_info("turned", TensorProto.FLOAT, (2, 3)))
    onnx.save(model, path)
    assert set(by_evaluator(model, {"x": some(2, 3)})) == {"y", "turned"}
    assert Plan(str(path), BuildChoices()).notes[:2] == (
        "outputs of the model: y is y.y",
        "outputs that the model fixes, with no layer: turned",
    )


def test_stored_tensors_are_trained_where_they_are_parameters_of_layers(tmp_path: Path) -> None:
    """What is stored as an operand keeps its values, and what nodes write down does everywhere."""
    node = helper.make_node
    fixed = numpy_helper.from_array(some(4, 4))
    nodes = [
        node("MatMul", ["x", "w"], ["a"], "trained"),
        node("Constant", [], ["c"], value=fixed),
        node("MatMul", ["a", "c"], ["b"], "fixed"),
        node("Transpose", ["v"], ["turned"], perm=[1, 0]),
        node("Gemm", ["b", "turned"], ["d"], "trained_too"),
        node("Mul", ["d", "gate"], ["e"], "gated"),
        node("LayerNormalization", ["e", "g"], ["n"], "norm"),
        node("Add", ["n", "table"], ["y"], "placed"),
    ]
    tensors = {"w": some(4, 4), "v": some(4, 4), "gate": some(4), "g": some(4),
               "table": some(3, 4)}  # fmt: skip
    model = saved(tmp_path / "m.onnx", nodes, {"x": some(3, 4)}, tensors)
    assert drawn_of(tmp_path / "m.onnx") == {"x.y", "trained.w", "trained_too.w", "norm.gamma"}
    beta = Plan(str(tmp_path / "m.onnx"), BuildChoices()).constants["norm.beta"]
    assert not beta.any()  # the model has none: it is not drawn either
    inputs = {"x": some(3, 4)}
    found = by_references(tmp_path / "m.onnx", inputs)["y"]
    np.testing.assert_allclose(found, by_evaluator(model, inputs)["y"], rtol=1e-4, atol=1e-5)


def test_what_a_factor_scales_is_not_drawn(tmp_path: Path) -> None:
    """Gemm's alpha and beta; ONNX's evaluator says what they make."""
    node = helper.make_node("Gemm", ["x", "w", "c"], ["y"], "p", alpha=0.125, beta=3.0)
    tensors = {"w": some(4, 5), "c": some(5)}
    model = saved(tmp_path / "m.onnx", [node], {"x": some(3, 4)}, tensors)
    assert drawn_of(tmp_path / "m.onnx") == {"x.y"}
    plan = Plan(str(tmp_path / "m.onnx"), BuildChoices())
    inputs = {"x": some(3, 4)}
    made = inputs["x"] @ plan.constants["p.w"].T + plan.constants["p.b"]
    np.testing.assert_allclose(made, by_evaluator(model, inputs)["y"], rtol=1e-5, atol=1e-6)


def test_rows_of_a_table_that_multiply_are_no_words(tmp_path: Path) -> None:
    """Cosines and sines of places, which an input chooses; a table of words is trained."""
    node = helper.make_node
    nodes = [
        node("Gather", ["words", "ids"], ["x"], "embedded"),
        node("MatMul", ["x", "w"], ["q"], "projected"),
        node("Reshape", ["q", "cut"], ["heads"], "cut"),
        node("RotaryEmbedding", ["heads", "cos", "sin", "ids"], ["y"], "turned"),
    ]
    angles = np.outer(np.arange(6), [1.0, 0.1]).astype(np.float32)
    tensors = {"words": some(6, 8), "cut": np.array([2, 3, 8]), "cos": np.cos(angles),
               "sin": np.sin(angles), "w": some(8, 8)}  # fmt: skip
    nodes[3].attribute.append(helper.make_attribute("num_heads", 2))
    saved(tmp_path / "m.onnx", nodes, {"ids": np.array([[0, 1, 2], [3, 4, 5]])}, tensors)
    assert drawn_of(tmp_path / "m.onnx") == {"ids.y", "embedded.w", "projected.w"}


def test_a_batch_that_is_set_leaves_constants_alone(tmp_path: Path) -> None:
    node = helper.make_node
    nodes = [node("Mul", ["x", "gate"], ["a"], "gated"), node("Relu", ["a"], ["y"], "end")]
    saved(tmp_path / "m.onnx", nodes, {"x": some(2, 3, 4)}, {"gate": some(1, 3, 1)})
    plan = Plan(str(tmp_path / "m.onnx"), BuildChoices(set=(("n", "5"),)))
    assert plan.workload.buffer("end.y").spec.shape == (5, 3, 4)
    assert plan.constants["gate.y"].shape == (1, 3, 1)


def test_a_window_of_keys_is_a_table(tmp_path: Path) -> None:
    """A mask of 0 and -inf that is no triangle; ONNX's evaluator judges it."""
    node = helper.make_node
    near = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 1
    nodes = [node("Add", ["x", "window"], ["a"], "masked"), node("Softmax", ["a"], ["y"], axis=-1)]
    tensors = {"window": np.where(near, 0, -np.inf).astype(np.float32)}
    model = saved(tmp_path / "m.onnx", nodes, {"x": some(2, 2, 6, 6)}, tensors)
    inputs = {"x": some(2, 2, 6, 6)}
    found = by_references(tmp_path / "m.onnx", inputs)["y"]
    np.testing.assert_allclose(found, by_evaluator(model, inputs)["y"], rtol=1e-4, atol=1e-6)
    values = Plan(str(tmp_path / "m.onnx"), BuildChoices()).constants["window.y"]
    assert values.min() == np.finfo(np.float32).min
    narrow = Plan(str(tmp_path / "m.onnx"), BuildChoices(type="f16")).constants["window.y"]
    assert narrow.min() == np.finfo(np.float16).min


def test_a_constant_that_is_no_number_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["x", "gate"], ["y"], "gated")]
    saved(tmp_path / "m.onnx", nodes, {"x": some(2, 3)}, {"gate": f32([1, np.nan, 2])})
    plan = Plan(str(tmp_path / "m.onnx"), BuildChoices())
    with pytest.raises(
        SimgenError, match=r"^constant of the model: gate\.y: \[1\] is nan, not a f"
    ):
        _ = plan.workload


LOW = np.finfo(np.float32).min
PADDED = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], bool)  # left padding, of two samples


@census("opset", [23, 24, 25])
@census("causal", [0, 1])
@census("form", ["bool", "inf", "low", "input", "input_low", "none"])
def test_queries_that_see_no_key(form: str, causal: int, opset: int, tmp_path: Path) -> None:
    """They are 0 where keys are hidden by bool or -inf, and a mean where by a finite number: as
    ONNX's evaluator has it since the erratum of 1.23, and ONNX Runtime 1.32 in operator set 25."""
    seen = PADDED[:, np.newaxis, np.newaxis]
    masks = {"bool": seen, "input": seen, "inf": np.where(seen, 0, -np.inf).astype(np.float32),
             "low": np.where(seen, 0, LOW).astype(np.float32)}  # fmt: skip
    mask = masks.get(form.removeprefix("input_"))
    if mask is not None:  # whole: the evaluator takes a mask of one row for one query
        mask = np.broadcast_to(mask, (2, 1, 5, 5)).copy()
        mask[1, 0, 3] = False if mask.dtype == bool else mask.min()
    inputs = {name: some(2, 2, 5, 4) for name in "qkv"}
    tensors = {} if mask is None or form.startswith("input") else {"mask": mask}
    inputs |= {"mask": mask} if form.startswith("input") else {}
    names = ["q", "k", "v", *(["mask"] if mask is not None else [])]
    nodes = [helper.make_node("Attention", names, ["y"], "attention", is_causal=causal)]
    model = saved(tmp_path / "m.onnx", nodes, inputs, tensors, opset)
    expected = by_evaluator(model, inputs)["y"]
    given = {n: v.astype(np.int32) if v.dtype == bool else v for n, v in inputs.items()}
    found = by_references(tmp_path / "m.onnx", given)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    empty = form in ("bool", "inf", "input") and mask is not None
    assert (found == 0).all(axis=-1).any() == empty


@pytest.mark.parametrize("windows", [(1, -1), (-1, 1), (1, 0), (0, 2)])
def test_windows_of_keys(windows: tuple[int, int], tmp_path: Path) -> None:
    """Of operator set 25: seven queries for five keys, of which the last ones see none."""
    inputs = {"q": some(1, 2, 7, 4), "k": some(1, 2, 5, 4), "v": some(1, 2, 5, 4)}
    kinds = {"left_window_size": windows[0], "right_window_size": windows[1]}
    nodes = [helper.make_node("Attention", ["q", "k", "v"], ["y"], "attention", **kinds)]
    model = saved(tmp_path / "m.onnx", nodes, inputs, {}, 25)
    found = by_references(tmp_path / "m.onnx", inputs)["y"]
    np.testing.assert_allclose(found, by_evaluator(model, inputs)["y"], rtol=1e-4, atol=1e-5)


def test_what_pytorch_writes_for_rows_of_nan(tmp_path: Path) -> None:
    """Softmax, IsNaN and Where, of operator sets without Attention."""
    node = helper.make_node
    nodes = [
        node("Where", ["seen", "zero", "low"], ["bias"]),
        node("Add", ["x", "bias"], ["scores"], "masked"),
        node("Softmax", ["scores"], ["rows"], "weights", axis=-1),
        node("IsNaN", ["rows"], ["lost"]),
        node("Where", ["lost", "zero", "rows"], ["y"]),
    ]
    seen = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]], bool)
    numbers = {"zero": np.zeros((), np.float32), "low": np.array(-np.inf, np.float32)}
    model = saved(tmp_path / "m.onnx", nodes, {"x": some(2, 2, 3, 3)}, {"seen": seen} | numbers, 18)
    inputs = {"x": some(2, 2, 3, 3)}
    with np.errstate(all="ignore"):
        expected = by_evaluator(model, inputs)["y"]
    found = by_references(tmp_path / "m.onnx", inputs)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    sections = [
        each.name for each in onnx_model.read_model(tmp_path / "m.onnx", {}).config.sections
    ]
    assert sections == ["Input", "Input", "Broadcast", "Softmax"]


def test_a_triangle_behind_padding_is_no_mask_of_its_own(tmp_path: Path) -> None:
    """What another mask hides is lower than [Mask] makes it: a row of nothing but that, as left
    padding has, would see the keys behind it."""
    node = helper.make_node
    nodes = [
        node("Add", ["x", "padding"], ["a"], "padded"),
        node("Add", ["a", "triangle"], ["b"], "causal"),
        node("Softmax", ["b"], ["y"], "weights", axis=-1),
    ]
    triangle = np.where(np.tril(np.ones((4, 4))) > 0, 0, LOW).astype(np.float32)
    padding = f32([LOW, 0, 0, 0])
    tensors = {"padding": padding, "triangle": triangle}
    model = saved(tmp_path / "m.onnx", nodes, {"x": some(2, 2, 4, 4)}, tensors)
    inputs = {"x": some(2, 2, 4, 4)}
    found = by_references(tmp_path / "m.onnx", inputs)["y"]
    np.testing.assert_allclose(found, by_evaluator(model, inputs)["y"], rtol=1e-4, atol=1e-6)


# ---- What is said of them ----


def test_show_lists_constants(tmp_path: Path, simgen: Any) -> None:
    """With their numbers, or a digest; JSON has them too."""
    nodes = [
        helper.make_node("Mul", ["x", "gate"], ["a"], "gated"),
        helper.make_node("Add", ["a", "table"], ["b"], "placed"),
        helper.make_node("Add", ["b", "zeros"], ["y"], "shifted"),
    ]
    table, zeros = f32(np.arange(9)).reshape(3, 3), f32(np.zeros((3, 3)))
    tensors = {"gate": f32([0.5, 2, -1.25]), "table": table, "zeros": zeros}
    saved(tmp_path / "m.onnx", nodes, {"x": some(3, 3)}, tensors)
    digest = f"sha256 {hashlib.sha256(table.tobytes()).hexdigest()[:16]}"
    wanted = {"gate.y": "0.5 2 -1.25", "table.y": digest, "zeros.y": "0 throughout"}
    said = simgen("show", str(tmp_path / "m.onnx")).out
    lines = [line for line in said.splitlines() if line.split()[1:2] == ["constant"]]
    rows = {line.split()[0]: line for line in lines}
    assert rows.keys() == wanted.keys()
    assert all(rows[name].endswith(each) for name, each in wanted.items())
    told = json.loads(simgen("show", str(tmp_path / "m.onnx"), "--json").out)
    assert told["constants"] == wanted


def test_a_bundle_knows_what_its_model_fixes(tmp_path: Path) -> None:
    """It is none of a user's values, so that its build line is known."""
    nodes = [helper.make_node("Mul", ["x", "gate"], ["y"], "gated")]
    saved(tmp_path / "m.onnx", nodes, {"x": some(2, 3)}, {"gate": f32([1, 0, 2])})
    own = tmp_path / "own.npz"
    np.savez(own, **{"gate.y": f32([3, 4, 5])})
    kept = [
        Plan(str(tmp_path / "m.onnx"), BuildChoices(values=values)).provenance()["config"]
        for values in ((), (str(own),))
    ]
    assert [each.get("constants") for each in kept] == [["gate.y"], None]
    model = tmp_path / "m.onnx"
    digests = {
        values: Plan(str(model), BuildChoices(values=values)).workload.buffer("gate.y")
        for values in ((), ("model",), (str(own),))
    }
    assert digests[()] == digests["model",] != digests[str(own),]
