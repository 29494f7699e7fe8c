"""What a model computes on this CPU, with its own weights, against ONNX's evaluator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from imported_models import by_evaluator, random_inputs
from onnx import TensorProto, helper, numpy_helper
from quantised_model import check_on

import simgen
from simgen.frontend.importing import onnx_model

if TYPE_CHECKING:
    from pathlib import Path


class Builder:
    """Nodes, each of the one before; parameters as they are asked for."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(5)
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []

    def tensor(self, values: Any) -> str:
        self.tensors.append(numpy_helper.from_array(values, f"t{len(self.tensors)}"))
        return self.tensors[-1].name

    def weights(self, *shape: int) -> str:
        deviation = (2 / np.prod(shape[1:])) ** 0.5
        return self.tensor((self.random.standard_normal(shape) * deviation).astype(np.float32))

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        made = [f"v{len(self.nodes)}_{at}" for at in range(outputs)]
        name = f"/{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), made, name, **attributes))
        return made[0] if outputs == 1 else made

    def conv(self, x: str, filters: int, channels: int, size: int = 1, **more: Any) -> str:
        group = more.get("group", 1)
        w = self.weights(filters, channels // group, size, size)
        b = self.tensor(self.random.standard_normal(filters).astype(np.float32) * np.float32(0.1))
        return str(self.node("Conv", x, w, b, **more))


def mobile(b: Builder, x: str) -> str:
    """What MobileNet, ShuffleNet, EfficientNet and Tiny YOLO have beside plain convolutions."""
    x = b.conv(x, 8, 3, 3, strides=[2, 2], auto_pad="SAME_UPPER")
    x = b.node("LeakyRelu", x, alpha=0.1)
    x = b.node("MaxPool", x, kernel_shape=[2, 2], strides=[1, 1], auto_pad="SAME_UPPER")
    low, high = b.tensor(np.array(0, np.float32)), b.tensor(np.array(6, np.float32))
    y = b.node("Clip", b.conv(x, 8, 8, 3, group=8, pads=[1, 1, 1, 1]), low, high)
    x = b.node("Add", x, b.conv(y, 8, 8))
    gate = b.node("HardSigmoid", b.conv(b.node("GlobalAveragePool", x), 8, 8), alpha=1 / 6)
    x = b.node("Mul", x, gate)
    one, other = b.node("Split", x, outputs=2, axis=1)
    x = b.node("Concat", b.node("HardSwish", b.conv(one, 4, 4)), other, axis=1)
    x = b.node("Reshape", x, b.tensor(np.array([0, 2, 4, 8, 8])))
    x = b.node("Transpose", x, perm=[0, 2, 1, 3, 4])
    x = b.node("Reshape", x, b.tensor(np.array([0, 8, 8, 8])))
    x = b.node("ReduceMean", x, axes=[2, 3], keepdims=0)
    return str(b.node("Softmax", b.node("MatMul", x, b.weights(8, 10))))


def test_a_mobile_network(tmp_path: Path) -> None:
    b = Builder()
    end = mobile(b, "data")
    given = helper.make_tensor_value_info("data", TensorProto.FLOAT, (2, 3, 16, 16))
    made = helper.make_tensor_value_info(end, TensorProto.FLOAT, None)
    graph = helper.make_graph(b.nodes, "mobile", [given], [made], b.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)])
    path = tmp_path / "mobile.onnx"
    onnx.save(model, path)
    inputs = random_inputs(model)
    np.savez(tmp_path / "own.npz", **{"data.y": inputs["data"]})
    plan = simgen.plan(path, values=["model", tmp_path / "own.npz"])
    bundle = plan.build(tmp_path / "mobile", "host")
    result = bundle.run("host")
    assert bundle.diff()
    found = result.outputs[onnx_model.read_model(path, {}).outputs[end]].values
    expected = by_evaluator(model, inputs)[end]
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-4, atol=1e-6)


def test_a_quantised_network(tmp_path: Path) -> None:
    check_on("host", tmp_path)
