"""Models as quantisers write them, with DequantizeLinear and QuantizeLinear between their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from imported_models import by_evaluator, random_inputs
from onnx import TensorProto, helper, numpy_helper

import simgen
from simgen.frontend.importing import onnx_model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Quantised:
    """A model whose tensors have a scale and a zero point."""

    def __init__(self, kind: type[np.integer[Any]] = np.int8) -> None:
        self.kind = kind
        self.random = np.random.default_rng(3)
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []

    def known(self, values: Any, kind: Any = np.float32) -> str:
        self.tensors.append(numpy_helper.from_array(np.array(values, kind), self.name("t")))
        return self.tensors[-1].name

    def name(self, word: str) -> str:
        return f"{word}{len(self.nodes)}_{len(self.tensors)}"

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        made = self.name(kind.lower())
        self.nodes.append(helper.make_node(kind, list(inputs), [made], made, **attributes))
        return made

    def scale(self, scale: Any, zero: Any = 0, kind: Any = None) -> tuple[str, str]:
        return self.known(scale), self.known(zero, kind or self.kind)

    def q(self, x: str, scale: float, zero: int = 0) -> str:
        """Quantised, and real again."""
        own = self.scale(scale, zero)
        return self.node("DequantizeLinear", self.node("QuantizeLinear", x, *own), *own)

    def weights(self, shape: Sequence[int], scale: Any, axis: int = 0, zero: int = 0) -> str:
        values = self.random.integers(-100, 100, shape)
        zeros = np.full(np.shape(scale), zero)
        of = self.known(values, np.int8), *self.scale(scale, zeros, np.int8)
        return self.node("DequantizeLinear", *of, axis=axis)

    def bias(self, count: int, scale: Any) -> str:
        values = self.known(self.random.integers(-900, 900, count), np.int32)
        zeros = np.zeros(np.shape(scale))
        return self.node("DequantizeLinear", values, *self.scale(scale, zeros, np.int32), axis=0)

    def model(self, inputs: dict[str, Sequence[int]], outputs: Sequence[str]) -> onnx.ModelProto:
        given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
        made = [
            helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs
        ]
        graph = helper.make_graph(self.nodes, "quantised", given, made, self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def network() -> onnx.ModelProto:
    """Of 8-bit integers from end to end: convolutions with scales of channels and of the tensor,
    Relu, pooling, a residual sum, a product. Zero points are odd, even and 0."""
    b = Quantised()
    x = b.q("x", 2**-5, 3)
    weights = b.weights((8, 4, 3, 3), [2.0**-8] * 4 + [2.0**-7] * 4)
    x = b.q(b.node("Relu", b.node("Conv", x, weights, pads=[1, 1, 1, 1])), 2**-4, -5)
    x = b.q(b.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), 2**-4, -5)
    y = b.q(b.node("Conv", x, b.weights((8, 8, 1, 1), 2.0**-8)), 2**-4, 1)
    x = b.q(b.node("Flatten", b.q(b.node("Add", x, y), 2**-3, 2)), 2**-3, 2)
    return b.model(
        {"x": (2, 4, 10, 10)}, [b.q(b.node("MatMul", x, b.weights((200, 10), 2**-9)), 1)]
    )


def check_on(target: str, folder: Path) -> None:
    """Builds, runs and judges the network: by references, and to the bit by ONNX's evaluator."""
    model, path = network(), folder / "quantised.onnx"
    onnx.save(model, path)
    inputs = random_inputs(model)
    np.savez(folder / "own.npz", **{"x.y": inputs["x"]})
    bundle = simgen.plan(path, values=["model", folder / "own.npz"]).build(folder / "b", target)
    result = bundle.run(target)
    assert bundle.diff()
    (end,) = (each.name for each in model.graph.output)
    found = result.outputs[onnx_model.read_model(path, {}).outputs[end]].values
    expected = by_evaluator(model, inputs)[end]
    assert len(np.unique(expected)) > 8, "saturated, or nearly empty"
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
