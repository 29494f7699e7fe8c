"""What a model says twice: attributes, parameters and declared shapes that contradict each other;
and infinities, which tensors here are not.

The judge is ONNX Runtime: what it refuses is refused, what it computes has its shape and values,
but for outputs that are declared otherwise, which it takes with a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest
from census import census
from imported_models import by_references
from onnx import TensorProto, helper, numpy_helper

from simgen.ask.build import BuildChoices
from simgen.bundle.planning import Plan
from simgen.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Array = np.ndarray[Any, np.dtype[Any]]
onnxruntime.set_default_logger_severity(4)
RANDOM = np.random.default_rng(0)


def some(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def model_of(
    kind: str,
    x: Sequence[int],
    tensors: Sequence[Array | None] = (),
    declared: Sequence[int] | None = None,
    opset: int = 17,
    outputs: int = 1,
    **attributes: Any,
) -> onnx.ModelProto:
    inputs = ["x", *(f"t{at}" if t is not None else "" for at, t in enumerate(tensors))]
    names = [f"y{at}" for at in range(outputs)]
    info = helper.make_tensor_value_info
    known = [numpy_helper.from_array(t, f"t{at}") for at, t in enumerate(tensors) if t is not None]
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, names, "node", **attributes)], "graph",
        [info("x", TensorProto.FLOAT, x)], [info("y0", TensorProto.FLOAT, declared)], known,
    )  # fmt: skip
    sets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9)


FILTERS = (2, 3, 3, 3)
GATES, STATES = (1, 20, 3), (1, 20, 5)  # of an LSTM with 5 outputs


def conv(*more: Array, **attributes: Any) -> onnx.ModelProto:
    return model_of("Conv", (1, 3, 8, 8), [some(*FILTERS), *more], **attributes)


def pool(extent: int, kind: str = "MaxPool", opset: int = 17, **more: Any) -> onnx.ModelProto:
    return model_of(kind, (1, 1, extent, extent), opset=opset, **more)


def transposed(kernel: int, *more: Array, **attributes: Any) -> onnx.ModelProto:
    filters = some(2, 3, kernel, kernel)
    return model_of("ConvTranspose", (1, 2, 4, 4), [filters, *more], **attributes)


def lstm(*tensors: Array | None, **more: Any) -> onnx.ModelProto:
    return model_of("LSTM", (4, 2, 3), tensors, hidden_size=5, **more)


def norm(at: int, count: Sequence[int]) -> onnx.ModelProto:
    vectors = [np.abs(some(3)) + 1 for _ in range(4)]
    vectors[at] = np.abs(some(*count)) + 1
    return model_of("BatchNormalization", (1, 3, 4, 4), vectors)


def attention(k: Sequence[int], v: Sequence[int], q: Sequence[int], **more: int) -> onnx.ModelProto:
    return model_of("Attention", q, [some(*k), some(*v)], opset=23, **more)


REFUSED = {
    "has a bias of 1, where 2 fits": conv(some(1)),
    "has a bias of 3, where 2 fits": conv(some(3)),
    "has a bias of 1x2, where 2 fits": conv(some(1, 2)),
    "filters of 3x3, and its kernel_shape is 5x5": conv(kernel_shape=[5, 5]),
    "has 1 strides for 2 axes": conv(strides=[2]),
    "has 1 dilations for 2 axes": conv(dilations=[2]),
    "has 2 pads for 4 axes": conv(pads=[1, 1]),
    "has pads beside auto_pad SAME_UPPER": conv(pads=[1] * 4, auto_pad="SAME_UPPER"),
    "has pads beside auto_pad VALID": conv(pads=[0] * 4, auto_pad="VALID"),
    "has filters of 3 axes": model_of("Conv", (1, 3, 8, 8), [some(2, 3, 3)]),
    "2 groups for 3 filters": model_of("Conv", (1, 4, 8, 8), [some(3, 2, 3, 3)], group=2),
    "0 groups": model_of("Conv", (1, 4, 8, 8), [some(3, 4, 3, 3)], group=0),
    "filters for 3 channels, in 1 groups": model_of("Conv", (1, 4, 8, 8), [some(3, 3, 3, 3)]),
    "kernel_shape is 2x2": transposed(3, kernel_shape=[2, 2]),
    "has a bias of 2, where 3 fits": transposed(3, some(2)),
    "has a bias of 3, where 6 fits": transposed(3, some(3), group=2),
    "output_padding 2": transposed(3, strides=[2, 2], output_padding=[2, 2], pads=[0, 0, 2, 2]),
    "has pads beside auto_pad SAME_LOWER": transposed(3, pads=[1] * 4, auto_pad="SAME_LOWER"),
    "pads 2 and 2 for a window of 2": pool(6, kernel_shape=[2, 2], pads=[2] * 4),
    "pads 3 and 3": pool(6, "AveragePool", kernel_shape=[2, 2], pads=[3] * 4, count_include_pad=1),
    "has a kernel of 1 axes for 2": pool(6, kernel_shape=[3]),
    "has biases of 1x10, where 1x40": lstm(some(*GATES), some(*STATES), some(1, 10)),
    "has biases of 1x80": lstm(some(*GATES), some(*STATES), some(1, 80)),
    "has weights of 1x24x3": lstm(some(1, 24, 3), some(*STATES)),
    "has weights of 1x20x4": lstm(some(1, 20, 4), some(*STATES)),
    "recurrent weights of 1x20x4": lstm(some(*GATES), some(1, 20, 4)),
    "has weights of 2x20x3": lstm(some(2, 20, 3), some(2, 20, 5)),
    "a first state of 1x1x5, where 1x2x5": lstm(
        some(*GATES), some(*STATES), None, None, some(1, 1, 5), some(1, 2, 5)
    ),
    "a first cell of 2x2x5, where 1x2x5": lstm(
        some(*GATES), some(*STATES), None, None, some(1, 2, 5), some(2, 2, 5)
    ),
    "has lengths of 1": lstm(some(*GATES), some(*STATES), None, np.array([4], np.int32)),
    "peepholes of 1x3": lstm(
        some(*GATES), some(*STATES), None, None, None, None, np.zeros((1, 3), np.float32)
    ),
    "has biases of 1x15": model_of(
        "GRU", (4, 2, 3), [some(1, 15, 3), some(1, 15, 5), some(1, 15)],
        hidden_size=5, linear_before_reset=1,
    ),
    "has weights of 1x5x3, where 1x4x3": model_of(
        "RNN", (4, 2, 3), [some(1, 5, 3), some(1, 5, 5)], hidden_size=4
    ),
    "multiplies 2x3 by 4x5": model_of("Gemm", (2, 3), [some(4, 5)]),
    "has a bias of 3, which is none for 2x4": model_of("Gemm", (2, 3), [some(3, 4), some(3)]),
    "has a bias of 1x1x4": model_of("Gemm", (2, 3), [some(3, 4), some(1, 1, 4)]),
    "has a scale of 2, where 3": norm(0, [2]),
    "has a bias of 1, where 3": norm(1, [1]),
    "has a mean of 1x3, where 3": norm(2, [1, 3]),
    "has a variance of 2, where 3": norm(3, [2]),
    "has a scale of 3, which is none": model_of("LayerNormalization", (2, 3, 4), [some(3)]),
    "has a bias of 3, which is none": model_of(
        "LayerNormalization", (2, 3, 4), [some(4), some(3)]
    ),
    "its axis is 3, of 3": model_of("LayerNormalization", (2, 3, 4), [some(4)], axis=3),
    "makes 3x5 of 2x6": model_of("Reshape", (2, 6), [whole(3, 5)]),
    "makes 5x-1 of 2x6": model_of("Reshape", (2, 6), [whole(5, -1)]),
    "has num_outputs 3, and 2": model_of(
        "Split", (2, 6), opset=18, outputs=2, axis=1, num_outputs=3
    ),
    r"its perm is \[0, 0, 1\]": model_of("Transpose", (2, 6, 3), perm=[0, 0, 1]),
    "takes element 7 of 5": model_of("Gather", (5, 6), [np.array(7)]),
    "takes element -6 of 5": model_of("Gather", (5, 6), [np.array(-6)]),
    "blocks of 2, which 1x6x2x2 is not cut into": model_of(
        "DepthToSpace", (1, 6, 2, 2), blocksize=2
    ),
    "blocks of 2, which 1x4x3x3": model_of("SpaceToDepth", (1, 4, 3, 3), blocksize=2),
    "its size is 2": model_of("LRN", (1, 4, 3, 3), size=2),
    "slopes of 3, which is none for 2x3x4": model_of("PRelu", (2, 3, 4), [some(3)]),
    "a lower bound of 3": model_of("Clip", (2, 3), [np.zeros(3, np.float32)]),
    "0, 0., of 2": model_of("Slice", (5, 6), [whole(1, 2), whole(4, 4), whole(0, 0)]),
    "has 5 q_num_heads for 12": attention(
        (1, 4, 12), (1, 4, 12), (1, 4, 12), q_num_heads=5, kv_num_heads=5
    ),
    "has 4, 3 and 3 heads": attention(
        (1, 4, 12), (1, 4, 12), (1, 4, 12), q_num_heads=4, kv_num_heads=3
    ),
    "features and keys of 12, 4 keys and 5": attention(
        (1, 2, 4, 12), (1, 2, 5, 12), (1, 2, 4, 12)
    ),
    "queries of 12 features and keys of 8": attention((1, 2, 4, 8), (1, 2, 4, 12), (1, 2, 4, 12)),
    "has 1, 2 and 2 samples": attention((2, 2, 4, 12), (2, 2, 4, 12), (1, 2, 4, 12)),
}  # fmt: skip
# What ONNX Runtime takes, with a warning or in a way of its own.
DECLARED = {
    "a lower bound of 2, above its upper one of 1": model_of(
        "Clip", (2, 3), [np.array(2, np.float32), np.array(1, np.float32)]
    ),  # which takes the upper one
    "gives 1x2x6x6, which the model declares as 1x2x5x6": conv(declared=(1, 2, 5, 6)),
    "gives 2x4, which the model declares as 2x5": model_of(
        "Gemm", (2, 3), [some(3, 4)], declared=(2, 5)
    ),
    "gives 2x4, which the model declares as 2x4x1": model_of(
        "Gemm", (2, 3), [some(3, 4)], declared=(2, 4, 1)
    ),
    "gives 4x2x3, which the model declares as 2x3": model_of(
        "Add", (2, 3), [some(4, 2, 3)], declared=(2, 3)
    ),
    "gives 1x1x2x2, which the model declares as 1x1x3x3": pool(
        4, kernel_shape=[2, 2], strides=[3, 3], pads=[1] * 4, ceil_mode=1, declared=(1, 1, 3, 3)
    ),
    "auto_pad SAME_UPPER, which pads 1 and 1 along axis 2, and pads 2 and 2": pool(
        6, kernel_shape=[3, 3], pads=[2] * 4, auto_pad="SAME_UPPER"
    ),
}
TAKEN = {
    **{
        f"{kind} {opset}, windows of {k} by {s}, pads {p}, {n}": pool(
            n, kind, opset, kernel_shape=[k, k], strides=[s, s], pads=[p] * 4, ceil_mode=1
        )
        for kind in ("MaxPool", "AveragePool")
        for opset in (11, 22)
        for k, s, p, n in ((2, 3, 1, 4), (3, 2, 1, 4), (2, 2, 1, 3), (2, 3, 0, 6), (3, 3, 1, 7))
    },
    "in one dimension": model_of(
        "MaxPool", (1, 1, 4), kernel_shape=[2], strides=[3], pads=[1, 1], ceil_mode=1
    ),
    **{
        f"transposed, {mode} {more} {k}": transposed(
            k, some(3), auto_pad=mode, strides=[2, 2], output_padding=[more] * 2
        )
        for mode, more, k in (("SAME_UPPER", 0, 3), ("SAME_UPPER", 1, 2), ("SAME_UPPER", 1, 3),
                              ("SAME_UPPER", 1, 4), ("SAME_LOWER", 0, 3), ("SAME_LOWER", 1, 3),
                              ("VALID", 0, 4))
    },
    "pads of torch": transposed(3, strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]),
    "other sides": transposed(4, strides=[2, 2], pads=[0, 2, 1, 0]),
    "extents of 8": transposed(3, strides=[2, 2], output_shape=[8, 8]),
    "extents of 7": transposed(3, strides=[2, 2], output_shape=[7, 7]),
    "biases of 40": lstm(some(*GATES), some(*STATES), some(1, 40)),
    "C by rows": model_of("Gemm", (2, 3), [some(3, 4), some(2, 1)]),
    "one scale": model_of("LayerNormalization", (2, 3, 4), [some(1)]),
    "no upper bound": model_of(
        "Clip", (2, 3), [np.array(0, np.float32), np.array(np.inf, np.float32)]
    ),
}  # fmt: skip


def by_runtime(model: onnx.ModelProto, x: Array) -> Array:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return np.asarray(session.run(["y0"], {"x": x})[0])


def input_of(model: onnx.ModelProto) -> Array:
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@census("fact", [*REFUSED, *DECLARED])
def test_what_contradicts_itself_is_refused(fact: str, tmp_path: Path) -> None:
    model = (REFUSED | DECLARED)[fact]
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ConfigError, match=f"node cannot be imported: .*{fact}") as caught:
        Plan(str(tmp_path / "m.onnx"), BuildChoices())
    assert "\n" not in str(caught.value)
    if fact in REFUSED:
        with pytest.raises(Exception):  # noqa: B017, PT011 - of many kinds
            by_runtime(model, input_of(model))


@census("case", TAKEN)
def test_extents_are_those_of_the_runtime(case: str, tmp_path: Path) -> None:
    model, path = TAKEN[case], tmp_path / "m.onnx"
    onnx.save(model, path)
    x = input_of(model)
    expected, found = by_runtime(model, x), by_references(path, {"x": x})["y0"]
    assert found.size == expected.size
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


SEEN = np.array([[True, True, True], [True, False, True]])
NONE_SEEN = np.array([[True, True, True], [False, False, False]])
# Mask, what follows it -> the fact with which it is refused.
HIDING = {
    "hidden keys": (SEEN, "Softmax", ""),
    "hidden keys of a half": (SEEN, "Sigmoid", ""),
    "no key": (NONE_SEEN, "Softmax", "Softmax .* is NaN where a mask leaves a row of nothing"),
    "an output": (SEEN, "", "takes an infinity, and tensors here are finite"),
    "a logarithm": (SEEN, "LogSoftmax", "takes an infinity, and tensors here are finite"),
}


@pytest.mark.parametrize("kind", ["Add", "Where"])
@census("case", HIDING)
def test_infinities_are_what_the_runtime_makes_of_them(
    kind: str, case: str, tmp_path: Path
) -> None:
    """What is refused is infinite or NaN in ONNX Runtime."""
    seen, after, fact = HIDING[case]
    low = np.float32(-np.inf)
    known = {"m": np.where(seen, np.float32(0), low)} if kind == "Add" else {"m": seen, "low": low}
    read = ["x", "m"] if kind == "Add" else ["m", "x", "low"]
    nodes = [helper.make_node(kind, read, ["s" if after else "y0"], "masking")]
    nodes += [helper.make_node(after, ["s"], ["y0"], "after")] if after else []
    graph = helper.make_graph(
        nodes, "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, seen.shape)],
        [helper.make_tensor_value_info("y0", TensorProto.FLOAT, seen.shape)],
        [numpy_helper.from_array(np.asarray(each), name) for name, each in known.items()],
    )  # fmt: skip
    sets = [helper.make_opsetid("", 17)]
    model, path = helper.make_model(graph, opset_imports=sets, ir_version=9), tmp_path / "m.onnx"
    onnx.save(model, path)
    x = input_of(model)
    expected = by_runtime(model, x)
    assert np.isfinite(expected).all() == (not fact)
    if fact:
        with pytest.raises(ConfigError, match=fact):
            by_references(path, {"x": x})
    else:
        found = by_references(path, {"x": x})["y0"]
        np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=1e-6)
