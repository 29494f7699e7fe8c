"""Quantised ONNX models as networks of 8-bit integers. The judge is ONNX's own evaluator.

Scales are powers of two, so that nothing but QuantizeLinear rounds in the evaluator, which computes
with float32: results are compared bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from imported_models import by_evaluator, by_references, random_inputs
from quantised_model import Quantised

from simgen.ask.build import BuildChoices
from simgen.bundle.planning import Plan
from simgen.errors import SimgenError
from simgen.frontend.importing import onnx_model

if TYPE_CHECKING:
    from pathlib import Path

    Array = np.ndarray[Any, np.dtype[Any]]


def judged(path: Path, model: onnx.ModelProto, opset: int = 21) -> list[str]:
    """Compares bits with ONNX's evaluator, which begins at 19; layers that compute something."""
    later = onnx.ModelProto()
    later.CopyFrom(model)
    later.opset_import[0].version = opset
    onnx.save(later, path)
    given = random_inputs(model)
    found, expected = by_references(path, given), by_evaluator(model, given)
    for name, values in expected.items():
        made = found[name].reshape(values.shape)
        np.testing.assert_array_equal(made, values, err_msg=name)
        assert len(np.unique(values)) > 8, "saturated, or nearly empty"
    sections = onnx_model.read_model(path, {}).config.sections
    return [each.name for each in sections if each.name not in ("Input", "Reshape")]


def network(m: Quantised, low: int) -> str:
    """A residual network between QuantizeLinear and DequantizeLinear, as calibrators write it."""
    x = m.q("x", 1 / 32, low + 131)
    scales = 2.0 ** m.random.integers(-9, -6, 8)
    w, b = m.weights((8, 3, 3, 3), scales), m.bias(8, scales / 32)
    y = m.q(m.node("Relu", m.node("Conv", x, w, b, pads=[1] * 4, strides=[2, 2])), 1 / 8, low)
    y = m.q(m.node("MaxPool", y, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1]), 1 / 8, low)
    w, b = m.weights((8, 4, 1, 1), 1 / 64, zero=3), m.bias(8, 1 / 512)
    other = m.q(m.node("Relu", m.node("Conv", y, w, b, group=2)), 1 / 4, low + 100)
    y = m.q(m.node("Relu", m.node("Add", y, other)), 1 / 4, low + 120)
    y = m.q(m.node("Concat", y, other, axis=1), 1 / 2, low + 128)
    y = m.q(m.node("GlobalAveragePool", y), 1 / 2, low + 128)
    y = m.q(m.node("Flatten", y), 1 / 4, low + 110)
    w, b = m.weights((10, 16), scales[0]), m.bias(10, scales[0] / 4)
    y = m.q(m.node("Gemm", y, w, b, transB=1), 1 / 4, low + 128)
    w = m.weights((10, 5), 2.0 ** m.random.integers(-9, -6, 5), axis=1)
    y = m.q(m.node("MatMul", y, w), 1 / 16, low + 128)
    return m.node("MatMul", y, m.weights((5, 40), 1 / 128))


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_a_network_between_quantise_and_dequantise(
    tmp_path: Path, kind: type[np.integer[Any]]
) -> None:
    m = Quantised(kind)
    end = network(m, np.iinfo(kind).min)
    opset = {np.int8: 21, np.uint8: 13}[kind]
    made = judged(tmp_path / "m.onnx", m.model({"x": (2, 3, 9, 9)}, [end]), opset)
    assert made == [
        "Cast", "Convolution", "Pooling", "Convolution", "Activation", "Add", "Activation", "Cast",
        "Cast", "Concat", "Pooling", "Cast", "FullyConnected", "FullyConnected", "FullyConnected",
        "Cast",
    ]  # fmt: skip


def test_operators_of_integers(tmp_path: Path) -> None:
    """QLinearConv, MaxPool, Reshape and QLinearMatMul, as the operator form of quantisers has them.
    Zero points of results are even: the evaluator adds them before it rounds halves to even."""
    m = Quantised()
    x = m.node("QuantizeLinear", "x", *m.scale(1 / 32, 3))
    w = m.known(m.random.integers(-100, 100, (8, 3, 3, 3)), np.int8)
    scales = m.scale(2.0 ** m.random.integers(-9, -6, 8), np.zeros(8))
    b, y = m.known(m.random.integers(-900, 900, 8), np.int32), m.scale(1 / 8, -20)
    x = m.node("QLinearConv", x, *m.scale(1 / 32, 3), w, *scales, *y, b, dilations=[2, 2])
    x = m.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = m.node("Reshape", x, m.known([2, 2, 16], np.int64))
    w = m.known(m.random.integers(-100, 100, (16, 6)), np.int8)
    one = m.node("QLinearMatMul", x, *y, w, *m.scale(1 / 128, 5), *m.scale(1 / 4, 4))
    of_both = m.scale(1 / 4, 4)
    other = m.node("Reshape", one, m.known([2, 6, 2], np.int64))
    both = m.node("QLinearMatMul", one, *of_both, other, *of_both, *m.scale(16, 2))
    ends = [
        m.node("DequantizeLinear", one, *of_both),
        m.node("DequantizeLinear", both, *m.scale(16, 2)),
    ]
    made = judged(tmp_path / "m.onnx", m.model({"x": (2, 3, 8, 8)}, ends[:1]))
    assert made == ["Cast", "Convolution", "Pooling", "FullyConnected", "Cast"]


def test_what_integers_lack_is_computed_with_floats(tmp_path: Path) -> None:
    """A bias behind a product, a factor that the model knows, a mean with another scale."""
    m = Quantised()
    y = m.q("x", 1 / 32)
    y = m.node("Add", m.node("MatMul", y, m.weights((6, 8), 1 / 64)), m.bias(8, 1 / 2048))
    y = m.q(m.node("Mul", m.q(y, 1 / 4), m.known(0.5)), 1 / 8)
    y = m.q(m.node("Reshape", y, m.known([2, 8, 5, 1], np.int64)), 1 / 8)
    y = m.q(m.node("AveragePool", y, kernel_shape=[2, 1]), 1 / 16)
    made = judged(tmp_path / "m.onnx", m.model({"x": (2, 5, 6)}, [y]))
    assert made.count("Cast") == 8


def conv(m: Quantised, scale: Any = 1 / 64, zero: Any = 0, bias: float = 1 / 2048) -> str:
    of = m.known(np.ones((4, 3, 1, 1)), np.int8), *m.scale(scale, zero, np.int8)
    w = m.node("DequantizeLinear", *of, axis=0)
    return m.node("Conv", m.q("x", 1 / 32), w, m.bias(4, bias))


def uint8(m: Quantised) -> str:
    m.kind = np.uint8
    return m.node("QuantizeLinear", "x", *m.scale(1 / 4))


def one_sided(m: Quantised) -> str:
    w = m.weights((4, 3, 2, 2), 1 / 64)
    return m.q(m.node("Conv", m.q("x", 1 / 32), w, pads=[0, 0, 1, 1]), 1 / 4)


CHANNELS = (1 / 64, 1 / 32, 1 / 16, 1 / 8)
REFUSED = {
    "zero points": (lambda m: m.q(conv(m, CHANNELS, (0, 1, 0, 2), CHANNELS), 1 / 4),
                    "QLinearConv (conv", "weights with several zero points; quantise them symm"),
    "channels": (lambda m: conv(m, CHANNELS, (0,) * 4, CHANNELS),
                 "QLinearConv (conv", "sums stay real; quantise its result"),
    "bias": (lambda m: m.q(conv(m, bias=1 / 16), 1 / 4), "(conv", "a bias with another scale"),
    "computed": (lambda m: m.node("QuantizeLinear", "x", m.node("ReduceMean", "x", keepdims=0)),
                 "QuantizeLinear (quantizelinear", "has a scale that is computed"),
    "missing": (lambda m: m.node("QuantizeLinear", "x", ""), "(quanti", "has no input y_scale"),
    "none": (lambda m: m.node("QuantizeLinear", "x"), "(quantizelinear", "has no input y_scale"),
    "zero": (lambda m: m.q("x", 0.0), "(quantizelinear", "its scale is 0; give it one above 0"),
    "16 bits": (lambda m: m.node("QuantizeLinear", "x", *m.scale(1 / 4, 0, np.int16)),
                "(quantizelinear", "other integers than of 8 bits; quantise it to int8"),
    "uint8": (uint8, "(quantizelinear", "an output of uint8; end the model in DequantizeLinear"),
    "pads": (one_sided, "QLinearConv (conv", "padding that differs on two sides"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_mapped_is_refused_by_name(tmp_path: Path, name: str) -> None:
    change, node, fact = REFUSED[name]
    m, path = Quantised(), tmp_path / "m.onnx"
    onnx.save(m.model({"x": (2, 3, 5, 5)}, [change(m)]), path)
    with pytest.raises(SimgenError) as caught:
        Plan(str(path), BuildChoices())
    message = str(caught.value)
    assert "cannot be imported" in message
    assert node in message
    assert fact in message
    assert "\n" not in message
