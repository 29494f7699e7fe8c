"""ONNX models as workloads. The judge is ONNX's own evaluator."""

from __future__ import annotations

import json
import os
import re
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from imported_models import by_evaluator, by_references, random_inputs
from onnx import TensorProto, helper, numpy_helper

from simgen.ask.build import BuildChoices
from simgen.bundle.planning import Plan
from simgen.errors import MissingError, SimgenError
from simgen.frontend.importing import aten, onnx_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Array = np.ndarray[Any, np.dtype[Any]]

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
FLOAT = TensorProto.FLOAT


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[int | str]],
    outputs: Sequence[str],
    tensors: dict[str, Array],
    opset: int = 17,
) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info(n, FLOAT, shape) for n, shape in inputs.items()]
    made = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    known = [numpy_helper.from_array(values, name) for name, values in tensors.items()]
    graph = helper.make_graph(list(nodes), "graph", given, made, known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def cnn(batch: int | str = 2) -> onnx.ModelProto:
    """What a small classifier has, with the names that exporters give."""
    random = np.random.default_rng(1)
    tensors = {
        name: random.standard_normal(shape).astype(np.float32) * 0.3
        for name, shape in {
            "w1": (8, 3, 3, 3), "b1": (8,), "scale": (8,), "shift": (8,), "mean": (8,),
            "w2": (10, 8 * 8 * 8), "b2": (10,),
        }.items()
    }  # fmt: skip
    tensors["var"] = random.uniform(0.5, 2, 8).astype(np.float32)
    node = helper.make_node
    nodes = [
        node("Conv", ["data", "w1", "b1"], ["c"], "/features/0/Conv", pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"], "bn1"),
        node("Relu", ["n"], ["r"], "relu1"),
        node("MaxPool", ["r"], ["p"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
        node("Dropout", ["p"], ["d"], "drop1"),
        node("Flatten", ["d"], ["f"], "flatten"),
        node("Gemm", ["f", "w2", "b2"], ["g"], "fc", transB=1),
        node("Softmax", ["g"], ["prob"], "prob"),
    ]
    return model_of(nodes, {"data": (batch, 3, 16, 16)}, ["prob"], tensors)


def test_a_classifier_is_what_it_was(tmp_path: Path) -> None:
    model, path = cnn(), tmp_path / "cnn.onnx"
    onnx.save(model, path)
    inputs = random_inputs(model)
    found, expected = by_references(path, inputs), by_evaluator(model, inputs)
    np.testing.assert_allclose(found["prob"], expected["prob"], rtol=1e-4, atol=1e-6)
    plan = Plan(str(path), BuildChoices())
    names = [placed.node.name for placed in plan.network.layers]
    assert names == ["data", "features_0_Conv", "bn1", "relu1", "pool1", "flatten", "fc", "prob"]


def test_an_open_extent_takes_a_value(tmp_path: Path) -> None:
    path = tmp_path / "cnn.onnx"
    onnx.save(cnn("batch"), path)
    with pytest.raises(SimgenError, match=r"no value for the extent batch .*--set NAME=VALUE"):
        Plan(str(path), BuildChoices())
    with pytest.raises(SimgenError, match=r"--set batc: did you mean 'batch'\?"):
        Plan(str(path), BuildChoices(set=(("batc", "5"),)))
    plan = Plan(str(path), BuildChoices(set=(("batch", "5"),)))
    assert plan.network.layers[-1].output.shape == (5, 10)
    again = Plan(str(path), BuildChoices(set=(("batch", "5"), ("n", "3"))))
    assert again.network.layers[-1].output.shape == (3, 10)


def test_an_extent_without_a_bound_is_named_by_its_axis(tmp_path: Path) -> None:
    model, path = cnn("batch"), tmp_path / "cnn.onnx"
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 2**62
    onnx.save(model, path)
    with pytest.raises(SimgenError, match=r"axis 2 of input \S+ has 4,611,686,018,427,387,904 "):
        Plan(str(path), BuildChoices(set=(("batch", "1"),)))


def test_what_cannot_be_imported_is_named_at_once(tmp_path: Path) -> None:
    node = helper.make_node
    nodes = [
        node("Relu", ["x"], ["a"], "first"),
        node("Einsum", ["a", "a"], ["b"], "second", equation="nchw,nchw->nc"),
        node("Relu", ["b"], ["c"], "third"),
        node("NonZero", ["c"], ["d"], "fourth"),
        node("Own", ["a"], ["f"], "sixth", domain="com.example"),
    ]
    path = tmp_path / "m.onnx"
    onnx.save(model_of(nodes, {"x": (1, 2, 3, 3)}, ["d", "f"], {}), path)
    with pytest.raises(SimgenError) as caught:
        Plan(str(path), BuildChoices())
    message = str(caught.value)
    assert message.startswith(f"{path}: 3 nodes cannot be imported: Einsum (second) no layer")
    assert "NonZero (fourth) gives a tensor whose shape depends on values" in message
    assert "com.example.Own (sixth) an operator of another domain" in message
    assert "\n" not in message


def test_a_tensor_of_another_shape_than_is_declared(tmp_path: Path) -> None:
    """A parameter that is declared as an input too, as old files have it; and one of a program."""
    model, path = cnn(), tmp_path / "m.onnx"
    model.graph.input.append(helper.make_tensor_value_info("b1", FLOAT, (9,)))
    onnx.save(model, path)
    with pytest.raises(SimgenError, match="tensor 'b1' has 8, which the model declares as 9; corr"):
        Plan(str(path), BuildChoices())
    program = tmp_path / "m.pt2"
    with zipfile.ZipFile(DATA / "program.pt2") as old, zipfile.ZipFile(program, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("weights_config.json"):
                told = json.loads(content)
                meta = next(iter(told["config"].values()))["tensor_meta"]
                meta["sizes"] = meta["sizes"][::-1] if len(meta["sizes"]) > 1 else [{"as_int": 1}]
                content = json.dumps(told).encode()
            new.writestr(name, content)
    with pytest.raises(SimgenError, match=r"has .*, which its graph declares as "):
        Plan(str(program), BuildChoices(set=((EXTENT, "2"),)))


def test_what_stands_behind_a_refused_node_is_not_named(tmp_path: Path) -> None:
    """Shapes of what is lost, and what follows from them, are computed here."""
    n = Chain()
    up = n("Resize", "x", "", n.known([1, 1, 2, 2]), mode="nearest")
    batch = n("Gather", n("Shape", up), n.known([0], np.int64))
    end = n("Add", n("Erf", up), n("ConstantOfShape", batch))
    path = tmp_path / "m.onnx"
    onnx.save(model_of(n.nodes, {"x": (1, 3, 4, 4)}, [end], n.tensors, 13), path)
    with pytest.raises(SimgenError, match=r": 1 node cannot be imported: Resize \(resize0\) no l"):
        Plan(str(path), BuildChoices())


def test_layers_that_take_less_than_a_model_says_are_named_at_once(tmp_path: Path) -> None:
    n = Chain()
    x, ones = "x", [n.known([1.0, 1.0]) for _ in range(4)]
    for _ in range(2):
        x = n("BatchNormalization", x, *ones, epsilon=0.0)
    path = tmp_path / "m.onnx"
    onnx.save(model_of(n.nodes, {"x": (1, 2, 3, 3)}, [x], n.tensors), path)
    with pytest.raises(SimgenError) as caught:
        Plan(str(path), BuildChoices())
    for name in ("batchnormalization0", "batchnormalization1"):
        assert f"BatchNormalization ({name}): epsilon is 0.0; it must be" in str(caught.value)


def test_invented_names_are_no_other_values(tmp_path: Path) -> None:
    """Values of the model are called as those that are made for others would be."""
    n = Chain()
    nodes = [
        helper.make_node("RotaryEmbedding", ["x", "cos", "sin"], ["a"], "a"),
        helper.make_node("Attention", ["a", "a", "a"], ["a_1"], "b"),
        helper.make_node("Attention", ["a_1", "a", "a"], ["a_scores"], "c", is_causal=1),
        helper.make_node("Where", ["chosen", "a_scores", "zero"], ["a_1_kept"], "d"),
        helper.make_node("Neg", ["a_1_kept"], ["a_half0"], "e"),
        helper.make_node("Neg", ["a_half0"], ["a_half1"], "f"),
    ]
    n.tensors = {
        "cos": np.cos(np.arange(20, dtype=np.float32)).reshape(1, 5, 4),
        "sin": np.sin(np.arange(20, dtype=np.float32)).reshape(1, 5, 4),
        "chosen": np.arange(8) % 3 > 0, "zero": np.zeros(1, np.float32),
    }  # fmt: skip
    n.nodes = nodes
    n.judged(tmp_path / "m.onnx", ["a_half1"], {"x": (1, 2, 5, 8)}, 23)


def test_extents_of_one_spelling_are_two(tmp_path: Path) -> None:
    """`a-b` and `a/b` are two names, and so is an axis without one that is called by its place."""
    nodes = [
        helper.make_node("Relu", ["x"], ["y"], "y"),
        helper.make_node("Relu", ["z"], ["w"], "w"),
    ]
    inputs = {"x": ("a-b", 2, ""), "z": ("a/b", "x_2")}
    path = tmp_path / "m.onnx"
    onnx.save(model_of(nodes, inputs, ["y", "w"], {}), path)
    with pytest.raises(SimgenError, match="for the extents a_b, x_2, a_b_2, x_2_2 "):
        Plan(str(path), BuildChoices())


def test_a_gru_in_two_directions(tmp_path: Path) -> None:
    """As PyTorch exports it: both biases, the reset gate behind the product, states as inputs."""
    random = np.random.default_rng(3)
    shapes = {"w": (2, 12, 3), "r": (2, 12, 4), "b": (2, 24), "h": (2, 5, 4)}
    tensors = {n: random.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    nodes = [
        helper.make_node(
            "GRU", ["x", "w", "r", "b", "", "h"], ["y", "y_h"], "gru",
            hidden_size=4, linear_before_reset=1, direction="bidirectional",
        ),
        helper.make_node("Transpose", ["y"], ["t"], "turned", perm=[0, 2, 1, 3]),
        helper.make_node("Constant", [], ["to"], value_ints=[0, 0, -1]),
        helper.make_node("Reshape", ["t", "to"], ["joined"], "joined"),
    ]  # fmt: skip
    model = model_of(nodes, {"x": (6, 5, 3)}, ["joined", "y_h"], tensors)
    path = tmp_path / "gru.onnx"
    onnx.save(model, path)
    inputs = random_inputs(model)
    found, expected = by_references(path, inputs), by_evaluator(model, inputs)
    for name, values in expected.items():
        made = found[name].reshape(values.shape)
        np.testing.assert_allclose(made, values, rtol=1e-4, atol=1e-5)


class Chain:
    """Nodes of a model of float32, each with one output; numbers are tensors of it."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, Array] = {}
        self.random = np.random.default_rng(7)

    def known(self, values: Any, kind: Any = np.float32) -> str:
        name = f"t{len(self.tensors)}"
        self.tensors[name] = np.array(values, kind)
        return name

    def weights(self, *shape: int) -> str:
        return self.known(self.random.standard_normal(shape) * 0.3)

    def __call__(self, kind: str, *inputs: str | float, **attributes: Any) -> str:
        names = [each if isinstance(each, str) else self.known(each) for each in inputs]
        made = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [made], made, **attributes))
        return made

    def judged(
        self, path: Path, outputs: Sequence[str], inputs: dict[str, Sequence[int]], opset: int
    ) -> list[str]:
        """Compares with ONNX's evaluator; the layers that compute something."""
        model = model_of(self.nodes, inputs, outputs, self.tensors, opset)
        onnx.save(model, path)
        given = random_inputs(model)
        found, expected = by_references(path, given), by_evaluator(model, given)
        for name, values in expected.items():
            made = found[name].reshape(values.shape)
            np.testing.assert_allclose(made, values, rtol=1e-4, atol=1e-5, err_msg=name)
        sections = onnx_model.read_model(path, {}).config.sections
        return [each.name for each in sections if each.name not in ("Input", "Reshape")]


def test_activations_in_parts(tmp_path: Path) -> None:
    """As exporters write them: the second to fourth of Transformers, the fifth by tf2onnx."""
    n = Chain()
    of_erf = n("Add", n("Erf", n("Div", "x", 2**0.5)), 1.0)
    outputs = [n("Mul", n("Mul", "x", of_erf), 0.5)]
    outputs += [n("Mul", n("Mul", "x", 0.5), of_erf)]
    cube = n("Mul", n("Pow", "x", 3.0), 0.044715)
    inner = n("Tanh", n("Mul", n("Add", "x", cube), 0.7978845608))
    outputs += [n("Mul", n("Mul", "x", 0.5), n("Add", inner, 1.0))]
    square = n("Add", n("Mul", n("Mul", "x", 0.044715), "x"), 1.0)
    fast = n("Tanh", n("Mul", n("Mul", "x", 0.7978845608), square))
    outputs += [n("Mul", n("Mul", "x", 0.5), n("Add", fast, 1.0))]
    half = n("Mul", n("Add", n("Erf", n("Mul", "x", 0.70710677)), 1.0), 0.5)
    outputs += [n("Mul", half, "x")]
    outputs += [n("Mul", "x", n("Sigmoid", "x"))]
    six = n("Clip", n("Add", "x", 3.0), 0.0, 6.0)
    outputs += [n("Div", n("Mul", "x", six), 6.0), n("Mul", six, 1 / 6)]
    outputs += [n("Mul", "x", n("HardSigmoid", "x", alpha=1 / 6))]
    made = n.judged(tmp_path / "m.onnx", outputs, {"x": (3, 5, 8)}, 15)
    assert made == ["Activation"] * 5 + ["Piecewise"] * 4


def test_an_activation_that_only_looks_like_one(tmp_path: Path) -> None:
    """With another number in it, it is computed node by node, or refused by name."""
    n = Chain()
    outputs = [n("Mul", "x", n("Sigmoid", n("Add", "x", 1.702)))]
    assert "Multiply" in n.judged(tmp_path / "m.onnx", outputs, {"x": (3, 8)}, 15)
    n = Chain()
    outputs = [n("Mul", n("Mul", "x", n("Add", n("Erf", n("Div", "x", 1.5)), 1.0)), 0.5)]
    with pytest.raises(SimgenError, match=r"1 node cannot be imported: Erf \(erf1\) no layer"):
        n.judged(tmp_path / "m.onnx", outputs, {"x": (3, 8)}, 15)


def layer_norm(n: Chain, x: str, features: int, form: int) -> str:
    """In parts: by PyTorch before operator set 17, by tf2onnx, and with one parameter."""
    axes = [-1] if form != 1 else [2]
    mean = n("ReduceMean", x, axes=axes)
    centred = n("Sub", x, mean)
    square = n("Pow", centred, 2.0) if form != 1 else n("Mul", centred, centred)
    root = n("Sqrt", n("Add", n("ReduceMean", square, axes=axes), 1e-12))
    gamma = n.weights(features)
    if form == 1:
        factor = n("Mul", n("Reciprocal", root), gamma)
        shift = n("Sub", n.weights(features), n("Mul", mean, factor))
        return n("Add", n("Mul", x, factor), shift)
    scaled = n("Mul", n("Div", centred, root), gamma)
    return scaled if form == 2 else n("Add", scaled, n.weights(1, 1, features))


def test_a_block_of_a_transformer_in_parts(tmp_path: Path) -> None:
    """BERT's, as PyTorch exports it for operator set 14: biases behind products, four heads."""
    n = Chain()
    batch, words, features, heads = 2, 6, 16, 4

    def linear(x: str, outputs: int, inputs: int = features) -> str:
        return n("Add", n.weights(outputs), n("MatMul", x, n.weights(inputs, outputs)))

    def split(x: str, order: list[int]) -> str:
        cut = n("Reshape", x, n.known([batch, words, heads, features // heads], np.int64))
        return n("Transpose", cut, perm=order)

    x = layer_norm(n, "x", features, 1)
    q, v = (split(linear(x, features), [0, 2, 1, 3]) for _ in range(2))
    scores = n("Div", n("MatMul", q, split(linear(x, features), [0, 2, 3, 1])), 2.0)
    seen = n("MatMul", n("Softmax", scores, axis=-1), v)
    joined = n("Transpose", seen, perm=[0, 2, 1, 3])
    joined = n("Reshape", joined, n.known([batch, words, features], np.int64))
    x = layer_norm(n, n("Add", linear(joined, features), x), features, 0)
    inner = linear(x, 4 * features)
    gate = n("Add", n("Erf", n("Div", inner, 2**0.5)), 1.0)
    inner = n("Mul", n("Mul", inner, gate), 0.5)
    outputs = [layer_norm(n, n("Add", linear(inner, features, 4 * features), x), features, 2)]
    made = n.judged(tmp_path / "m.onnx", outputs, {"x": (batch, words, features)}, 14)
    assert [made.count(each) for each in ("LayerNorm", "Activation", "Gemm")] == [3, 1, 2]
    assert not {"ReduceMean", "Erf"} & set(made)


def test_rows_by_their_root_mean_square(tmp_path: Path) -> None:
    """As Transformers' Llama is exported, with a Cast of float32; then the operator of set 23."""
    n = Chain()
    x = n("Cast", "x", to=FLOAT)
    square = n("Add", n("ReduceMean", n("Pow", x, 2.0), n.known([-1], np.int64)), 1e-6)
    scaled = n("Mul", x, n("Reciprocal", n("Sqrt", square)))
    one = n("Mul", n.weights(12), scaled)
    root = n("Sqrt", n("Add", n("ReduceMean", n("Mul", one, one), n.known([2], np.int64)), 1e-5))
    other = n("Div", one, root)
    last = n("RMSNormalization", other, n.weights(6, 12), axis=1, epsilon=1e-3)
    outputs = [n("Mul", n("Swish", last), one)]
    made = n.judged(tmp_path / "m.onnx", outputs, {"x": (2, 6, 12)}, 24)
    assert made == ["RMSNorm"] * 3 + ["Piecewise", "Multiply"]


def test_differences_and_quotients_of_what_is_computed(tmp_path: Path) -> None:
    """Of two activations, of a number by one, and with rows and columns broadcast."""
    n = Chain()
    gate = n("Add", n("Sigmoid", "x"), 0.5)
    outputs = [n("Sub", "x", gate), n("Div", "x", gate), n("Sub", 1.0, gate), n("Div", 2.0, gate)]
    row = n("ReduceMean", gate, axes=[2])
    outputs += [n("Sub", "x", row), n("Div", "x", row), n("Div", row, gate)]
    made = n.judged(tmp_path / "m.onnx", outputs, {"x": (2, 3, 8)}, 15)
    # gate and 1 - gate are lines; a number, and means of rows, are read by broadcasting.
    counts = [made.count(each) for each in ("Subtract", "Divide", "Piecewise", "Broadcast")]
    assert counts == [1, 1, 2, 4]


def test_masks_of_attention(tmp_path: Path) -> None:
    """As GPT-2 and scaled_dot_product_attention are exported; then a choice that is no mask."""
    n = Chain()
    scores = (2, 4, 5, 7)
    seen = np.tril(np.ones((1, 1, 5, 7), bool), 2)
    chosen = n("Where", n.known(seen, bool), "x", float(np.finfo(np.float32).min))
    hidden = n("Where", n.known(~seen, bool), -1e9, "x")
    added = n("Add", "x", n.known(np.where(seen, 0, -np.inf)))
    outputs = [n("Softmax", each, axis=-1) for each in (chosen, hidden, added)]
    outputs += [n("Where", n.known(seen, bool), n("Neg", "x"), n("Pow", n.weights(5, 7), 2.0))]
    made = n.judged(tmp_path / "m.onnx", outputs, {"x": scores}, 17)
    assert made[:6] == ["Mask"] * 3 + ["Softmax"] * 3
    assert set(made[6:]) == {"Piecewise", "Broadcast"}


def test_a_mask_of_lengths(tmp_path: Path) -> None:
    """Keys behind a sample's length are hidden: Range, Unsqueeze, Less and Where."""
    n = Chain()
    lengths = n("Unsqueeze", "lengths", n.known([1, 2, 3], np.int64))
    test = n("Less", n.known(np.arange(6), np.int64), lengths)
    outputs = [n("Softmax", n("Where", test, "x", -1e9), axis=3)]
    model = model_of(n.nodes, {"x": (3, 2, 4, 6)}, outputs, n.tensors)
    model.graph.input.append(helper.make_tensor_value_info("lengths", TensorProto.INT64, (3,)))
    onnx.save(model, tmp_path / "m.onnx")
    x = np.random.default_rng(0).standard_normal((3, 2, 4, 6)).astype(np.float32)
    given = {"x": x, "lengths": np.array([6, 1, 4])}
    found, expected = by_references(tmp_path / "m.onnx", given), by_evaluator(model, given)
    np.testing.assert_allclose(found[outputs[0]], expected[outputs[0]], rtol=1e-4, atol=1e-6)
    (section,) = (
        each for each in onnx_model.read_model(tmp_path / "m.onnx", {}).config.sections
        if each.name == "Mask"
    )  # fmt: skip
    assert [each.value for each in section.entries if each.key == "mask"] == ["lengths"]


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (None, "no such file"),
        (b"", "without nodes"),
        (b"\xff" * 100, "no ONNX model, or a damaged one"),
        (LFS, "a pointer of Git LFS"),
        (cnn().SerializeToString().replace(b"bn1", b"b\xff1"), "a name in it is not UTF-8 text"),
    ],
    ids=["none", "empty", "bytes", "pointer", "name"],
)
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes | None, fact: str) -> None:
    path = tmp_path / "m.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SimgenError, match=fact):
        Plan(str(path), BuildChoices())


def test_tensors_outside_of_the_file(tmp_path: Path) -> None:
    """They are read from beside it, and only where values are asked for."""
    model, path = cnn(), tmp_path / "cnn.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=100)
    inputs = random_inputs(cnn())
    found, expected = by_references(path, inputs), by_evaluator(cnn(), inputs)
    np.testing.assert_allclose(found["prob"], expected["prob"], rtol=1e-4, atol=1e-6)
    os.remove(tmp_path / "weights")
    assert Plan(str(path), BuildChoices()).workload.inputs
    with pytest.raises(SimgenError, match="tensor 'w1' of the model cannot be read"):
        _ = Plan(str(path), BuildChoices(values=("model",))).workload


def test_a_parameter_that_nodes_cannot_compute(tmp_path: Path) -> None:
    """Which shows where its values are wanted: a table is larger than what is computed at once."""
    n = Chain()
    rows = n("GatherND", n.weights(3, 2000), n.known([[0], [7]], np.int64))
    model = model_of(n.nodes, {"x": (4, 2)}, [n("MatMul", "x", rows)], n.tensors)
    onnx.save(model, tmp_path / "m.onnx")
    assert Plan(str(tmp_path / "m.onnx"), BuildChoices()).workload.inputs
    with pytest.raises(SimgenError, match=r"values of 'matmul1\.w' cannot be had \(cannot be comp"):
        _ = Plan(str(tmp_path / "m.onnx"), BuildChoices(values=("model",))).workload


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingError, match="not installed; python -m pip install onnx"):
        Plan(str(tmp_path / "m.onnx"), BuildChoices())


def test_values_of_no_model() -> None:
    with pytest.raises(SimgenError, match="--values model: softmax_fwd is made of no model"):
        _ = Plan("softmax_fwd", BuildChoices(values=("model",))).workload


@pytest.mark.parametrize(
    "name", [path.stem.removeprefix("light_") for path in sorted(LIGHT.glob("*.onnx"))]
)
def test_networks_of_the_zoo_import_whole(name: str) -> None:
    """With the weights that ONNX's tests have in place of the real ones: constants."""
    path = LIGHT / f"light_{name}.onnx"
    model = onnx.load(path)
    kinds = [node.op_type for node in model.graph.node if node.op_type != "ConstantOfShape"]
    sections = [section.name for section in onnx_model.read_model(path, {}).config.sections]
    assert sections.count("Convolution") == kinds.count("Conv")
    assert sections.count("FullyConnected") == kinds.count("Gemm")
    assert sections.count("Pooling") == sum("Pool" in kind for kind in kinds)
    plan = Plan(str(path), BuildChoices())
    (output,) = (each for each in model.graph.output)
    shape = tuple(dim.dim_value for dim in output.type.tensor_type.shape.dim)
    assert np.prod(plan.network.layers[-1].output.shape) == np.prod(shape)


def test_a_normalisation_of_torch_export(tmp_path: Path) -> None:
    """What rms_norm becomes is one layer again."""
    n = Chain()
    call = aten.Call(n.nodes, {})
    call.target, call.output = "rms_norm.default", "made"
    call.arguments = {"input": "x", "normalized_shape": [6, 8], "weight": n.weights(6, 8)}
    aten.OPERATORS[call.target](call)
    n.tensors |= {each.name: numpy_helper.to_array(each) for each in call.tensors}
    made = n.judged(tmp_path / "m.onnx", ["made"], {"x": (3, 6, 8)}, 17)
    assert made == ["RMSNorm"]


STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
          (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip
"""Of MobileNetV2: expansion, channels, blocks, first stride (Sandler et al., 2018, table 2)."""


def test_mobilenet_v2_of_the_zoo(tmp_path: Path) -> None:
    """Which ONNX's tests have not: the same nodes, with an open batch and an extent of 64. Operator
    set 10, Clip with attributes, and a batch that Shape and Gather find."""
    n = Chain()

    def conv(x: str, filters: int, channels: int, size: int, **more: Any) -> str:
        deviation = (2 / (channels * size * size)) ** 0.5
        w = n.known(n.random.standard_normal((filters, channels, size, size)) * deviation)
        return n("Conv", x, w, n.weights(filters), pads=[size // 2] * 4, **more)

    x, channels = n("Clip", conv("input", 32, 3, 3, strides=[2, 2]), min=0.0, max=6.0), 32
    for expansion, filters, blocks, first in STAGES:
        for stride in (first, *(1,) * (blocks - 1)):
            inner, y = expansion * channels, x
            if expansion > 1:
                y = n("Clip", conv(y, inner, channels, 1), min=0.0, max=6.0)
            y = conv(y, inner, 1, 3, strides=[stride, stride], group=inner)
            y = conv(n("Clip", y, min=0.0, max=6.0), filters, inner, 1)
            x = n("Add", x, y) if stride == 1 and channels == filters else y
            channels = filters
    x = n("GlobalAveragePool", n("Clip", conv(x, 1280, channels, 1), min=0.0, max=6.0))
    batch = n("Unsqueeze", n("Gather", n("Shape", x), n.known(0, np.int64)), axes=[0])
    rows = n("Reshape", x, n("Concat", batch, n.known([-1], np.int64), axis=0))
    end = n("Gemm", rows, n.weights(1000, 1280), n.weights(1000), transB=1)
    model = model_of(n.nodes, {"input": ("batch_size", 3, 64, 64)}, [end], n.tensors, 10)
    path, settings = tmp_path / "mobilenetv2.onnx", {"batch_size": "1"}
    onnx.save(model, path)
    sections = [each.name for each in onnx_model.read_model(path, settings).config.sections]
    counts = {each: sections.count(each) for each in set(sections)}
    assert counts == {"Input": 1, "Convolution": 52, "Activation": 35, "Add": 10, "Pooling": 1,
                      "Reshape": 1, "FullyConnected": 1}  # fmt: skip
    given = {"input": n.random.standard_normal((1, 3, 64, 64)).astype(np.float32)}
    found, expected = by_references(path, given, settings), by_evaluator(model, given)
    scale = np.abs(expected[end]).max()
    np.testing.assert_allclose(found[end] / scale, expected[end] / scale, rtol=0, atol=1e-4)


DATA = Path(__file__).parents[1] / "data"
EXTENT = "s77"  # as PyTorch calls it


def test_a_program_of_torch_export() -> None:
    """An archive that PyTorch 2.15 has written, and what the module gave."""
    with np.load(DATA / "program_io.npz") as known:
        inputs, expected = {"x": known["x"]}, known["y"]
    with pytest.raises(SimgenError, match="no value for the extent"):
        Plan(str(DATA / "program.pt2"), BuildChoices())
    found = by_references(DATA / "program.pt2", inputs, {EXTENT: "2"})
    np.testing.assert_allclose(found["softmax"], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (lambda name, b: b.replace(b"aten.silu.default", b"aten.erfinv.default"),
         "aten.erfinv.default (silu) no layer computes it"),
        (lambda name, b: b[:-5] if name.endswith("weight_0") else b, "is damaged"),
        (lambda name, b: b"{}" if name.endswith("model.json") else b, "in another form"),
        (lambda name, b: b[:50] if name.endswith("model.json") else b, "in another form"),
        (lambda name, b: re.sub(rb'"as_int": ?[0-9]+', b'"as_int": 1e999', b)
         if name.endswith("weights_config.json") else b, "in another form (OverflowError"),
        (lambda name, b: re.sub(rb'(aten.relu.default", "inputs": \[)[^]]*\]', rb"\1]", b),
         "in another form (IndexError"),
    ],
    ids=["operator", "weights", "graph", "json", "infinite", "no arguments"],
)  # fmt: skip
def test_a_program_that_is_none(
    tmp_path: Path, change: Callable[[str, bytes], bytes], fact: str
) -> None:
    path = tmp_path / "m.pt2"
    with zipfile.ZipFile(DATA / "program.pt2") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    with pytest.raises(SimgenError) as caught:
        Plan(str(path), BuildChoices(set=((EXTENT, "2"),)))
    assert fact in str(caught.value)
    assert "\n" not in str(caught.value)
