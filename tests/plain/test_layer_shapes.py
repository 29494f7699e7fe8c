"""Shapes and operation counts of the layers that are understood but not lowered yet."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgen.frontend import config
from simgen.ground.ir import DType, OpCount, Pass, TensorSpec
from simgen.layers import LAYERS
from simgen.layers.add import Add
from simgen.layers.base import COMMON_KEYS, Layer
from simgen.layers.bypass import Bypass
from simgen.layers.conv.convolution import ConvMode, Convolution
from simgen.layers.dropout import Dropout
from simgen.layers.loss.sampled_softmax import SampledSoftmax
from simgen.layers.loss.squared_error import SquaredError
from simgen.layers.norm.batch_norm import BatchNorm
from simgen.layers.norm.lrn import LRN
from simgen.layers.pool.pooling import Pooling, Rounding
from simgen.layers.pool.pooling import PoolingMode as PoolMode
from simgen.layers.product.fully_connected import FullyConnected
from simgen.layers.window import positions, spread

DATA = Path(__file__).parents[1] / "data"
SHARED = Path(__file__).parents[3] / "shared" / "data" / "dnnmark"
F, B = Pass.FORWARD, Pass.BACKWARD


def made(layer: type[Layer], **entries: object) -> Layer:
    return layer.from_config([(k, str(v), f"f:{i}") for i, (k, v) in enumerate(entries.items(), 1)])


# ------------------------------------------------------------------ shapes


def fitting(extent: int, kernel: int, pad: int, stride: int) -> int:
    """Windows that lie inside the padded axis, by trying all positions."""
    starts = range(0, extent + 2 * pad, stride)
    return sum(start + kernel <= extent + 2 * pad for start in starts)


SMALL = st.integers(1, 12)
WINDOWS = st.tuples(st.integers(1, 40), SMALL, st.integers(0, 11), SMALL)


@given(WINDOWS)
def test_positions_are_the_windows_that_fit(window):
    expected = fitting(*window)
    if expected:
        assert positions("height", *window) == expected
    else:
        with pytest.raises(ValueError, match="a kernel height of "):
            positions("height", *window)


@given(WINDOWS)
def test_spread_is_the_inverse_of_positions(window):
    extent, kernel, pad, stride = window
    if (extent - 1) * stride + kernel > 2 * pad:
        transposed = spread("width", extent, kernel, pad, stride)
        assert positions("width", transposed, kernel, pad, stride) == extent
    else:
        with pytest.raises(ValueError, match="leaves nothing of the transposed width"):
            spread("width", extent, kernel, pad, stride)


def exists(mode: ConvMode, window: tuple[int, int, int, int]) -> bool:
    """Whether a convolution along one axis has an output."""
    extent, kernel, pad, stride = window
    if mode is ConvMode.TRANSPOSE:
        return (extent - 1) * stride + kernel > 2 * pad
    return fitting(*window) > 0


@given(h=WINDOWS, w=WINDOWS, mode=st.sampled_from(ConvMode))
def test_convolution_shapes(h, w, mode):
    layer = made(
        Convolution,
        conv_mode=mode,
        num_output=7,
        kernel_size_h=h[1], kernel_size_w=w[1],
        pad_h=h[2], pad_w=w[2],
        stride_h=h[3], stride_w=w[3],
    )  # fmt: skip
    x = TensorSpec((2, 3, h[0], w[0]))
    if not all(exists(mode, window) for window in (h, w)):
        with pytest.raises(ValueError, match="; make the "):
            layer.output((x,))
        return
    extent = spread if mode is ConvMode.TRANSPOSE else positions
    assert layer.output((x,)) == TensorSpec((2, 7, extent("height", *h), extent("width", *w)))
    channels = (3, 7) if mode is ConvMode.TRANSPOSE else (7, 3)
    assert layer.weights(x).shape == (*channels, h[1], w[1])


@given(h=WINDOWS, w=WINDOWS, mode=st.sampled_from(PoolMode), rounding=st.sampled_from(Rounding))
def test_every_pooling_window_holds_an_element(h, w, mode, rounding):
    layer = made(
        Pooling,
        pool_mode=mode,
        round_mode=rounding,
        kernel_size_h=h[1], kernel_size_w=w[1],
        pad_h=h[2], pad_w=w[2],
        stride_h=h[3], stride_w=w[3],
    )  # fmt: skip
    try:
        n, c, p, q = layer.output((TensorSpec((2, 3, h[0], w[0])),)).shape
    except ValueError:
        assert h[2] >= h[1] or w[2] >= w[1] or not fitting(*h) or not fitting(*w)
        return
    most = 1 if rounding is Rounding.CEIL else 0
    assert (n, c) == (2, 3)
    assert 0 <= p - fitting(*h) <= most
    assert 0 <= q - fitting(*w) <= most
    for windows, (extent, kernel, pad, stride) in ((p, h), (q, w)):
        for index in range(windows):
            start = index * stride - pad
            assert start < extent
            assert start + kernel > 0


@pytest.mark.parametrize("layer", [LRN, BatchNorm, Dropout, Bypass])
def test_elementwise_layers_keep_the_shape(layer):
    x = TensorSpec((2, 3, 5, 7))
    assert layer().output((x,)) == x


def test_fully_connected_lays_images_flat():
    layer = FullyConnected(num_output=10)
    x = TensorSpec((2, 3, 5, 7))
    assert layer.output((x,)) == TensorSpec((2, 10, 1, 1))
    assert layer.weights(x) == TensorSpec((10, 105))


def test_a_kernel_that_does_not_fit_is_a_fact_with_a_cure():
    layer = made(Convolution, kernel_size=11, pad=1)
    fact = "a kernel width of 11 does not fit into 8 + 2 * 1 padded pixels"
    cure = "make the kernel smaller or the padding larger"
    with pytest.raises(ValueError, match=f"^{re.escape(fact)}; {cure}$"):
        layer.output((TensorSpec((1, 3, 32, 8)),))


# ------------------------------------------------------------------ whole networks


def shapes(parsed: config.Config) -> dict[str, tuple[Layer, TensorSpec, TensorSpec]]:
    """Layer, x and y of each layer section by its name."""
    kinds = {layer.section: layer for layer in LAYERS.values()}
    found: dict[str, tuple[Layer, TensorSpec, TensorSpec]] = {}
    for section in parsed.sections[1:]:
        own = [(e.key, e.value, e.where) for e in section.entries if e.key not in COMMON_KEYS]
        layer = kinds[section.name].from_config(own)
        common = {e.key: e.value for e in section.entries if e.key in COMMON_KEYS}
        if common.get("previous_layer", "null") == "null":
            x = TensorSpec(tuple(int(common[extent]) for extent in "nchw"))
        else:
            x = found[common["previous_layer"]][2]
        found[common["name"]] = (layer, x, layer.output((x,)))
    return found


ALEXNET = shapes(config.read_config(DATA / "alexnet.dnnmark"))


def test_alexnet_shapes():
    # Krizhevsky et al. 2012, figure 2, both towers together.
    expected = {
        "conv1": (96, 55, 55), "relu1": (96, 55, 55), "norm1": (96, 55, 55),
        "pool1": (96, 27, 27), "conv2": (256, 27, 27), "pool2": (256, 13, 13),
        "conv3": (384, 13, 13), "conv4": (384, 13, 13), "conv5": (256, 13, 13),
        "pool5": (256, 6, 6), "fc6": (4096, 1, 1), "fc7": (4096, 1, 1), "fc8": (1000, 1, 1),
        "softmax": (1000, 1, 1),
    }  # fmt: skip
    assert {name: ALEXNET[name][2].shape for name in expected} == {
        name: (2, *shape) for name, shape in expected.items()
    }


def test_alexnet_multiply_adds():
    # Per image, of AlexNet without groups; weights in all: 62,367,776 without the biases.
    expected = {
        "conv1": 105_415_200, "conv2": 447_897_600, "conv3": 149_520_384,
        "conv4": 224_280_576, "conv5": 149_520_384,
        "fc6": 37_748_736, "fc7": 16_777_216, "fc8": 4_096_000,
    }  # fmt: skip
    found = {}
    weights = 0
    for name in expected:
        layer, x, _ = ALEXNET[name]
        assert isinstance(layer, Convolution | FullyConnected)
        found[name] = layer.count((x,), F).flops / 2 / x.shape[0]
        weights += layer.weights(x).size
    assert found == expected
    assert weights == 62_367_776


# ------------------------------------------------------------------ operation counts

X = TensorSpec((2, 3, 8, 10))


def test_convolution_counts_follow_the_loops():
    layer = made(Convolution, num_output=4, kernel_size_h=3, kernel_size_w=5, pad=1, stride=2)
    taps = itertools.product(*map(range, layer.output((X,)).shape), range(3), range(3), range(5))
    macs = sum(1 for _ in taps)
    y, w = layer.output((X,)).nbytes, layer.weights(X).nbytes
    assert layer.count((X,), F) == OpCount(2 * macs, 0, X.nbytes + w, y)
    assert layer.count((X,), Pass.BACKWARD_WEIGHT) == OpCount(2 * macs, 0, X.nbytes + y, w)
    assert layer.count((X,), Pass.BACKWARD_DATA) == OpCount(2 * macs, 0, y + w, X.nbytes)


def test_the_first_layer_needs_no_gradient_of_its_input():
    layer = Convolution(propagation=False)
    whole, y = Convolution().count((X,), B), layer.output((X,)).nbytes
    w = layer.weights(X).nbytes
    assert layer.count((X,), B) == OpCount(whole.flops // 2, 0, X.nbytes + y, w)
    assert layer.count((X,), F) == Convolution().count((X,), F)


def test_a_transposed_convolution_is_the_backward_of_a_convolution():
    there = made(Convolution, conv_mode="transpose", num_output=6, kernel_size=3, pad=1, stride=2)
    y = there.output((X,))
    back = made(Convolution, num_output=X.shape[1], kernel_size=3, pad=1, stride=2)
    assert back.output((y,)) == X
    assert back.weights(y) == there.weights(X)
    assert back.count((y,), F).flops == there.count((X,), F).flops


def test_pooling_counts():
    y = Pooling().output((X,))
    assert Pooling().count((X,), F) == OpCount(8 * y.size, 0, X.nbytes, y.nbytes)
    assert Pooling().count((X,), B) == OpCount(9 * y.size, 0, X.nbytes + y.nbytes, X.nbytes)
    mean = Pooling(mode=PoolMode.AVG)
    assert mean.count((X,), F) == OpCount(9 * y.size, 0, X.nbytes, y.nbytes)
    assert mean.count((X,), B) == OpCount(10 * y.size, 0, y.nbytes, X.nbytes)


def test_fully_connected_counts():
    layer = FullyConnected(num_output=7)
    w, y = layer.weights(X).nbytes, layer.output((X,)).nbytes
    macs = 2 * 240 * 7
    assert layer.count((X,), F) == OpCount(2 * macs, 0, X.nbytes + w, y)
    assert layer.count((X,), Pass.BACKWARD_WEIGHT) == OpCount(2 * macs, 0, X.nbytes + y, w)
    assert layer.count((X,), Pass.BACKWARD_DATA) == OpCount(2 * macs, 0, y + w, X.nbytes)


def test_batch_norm_counts():
    image, channels = 4 * 240, 4 * 3  # bytes of a statistic
    per_activation = BatchNorm().count((X,), F)
    assert per_activation.read_bytes == X.nbytes + 2 * image
    assert per_activation.written_bytes == X.nbytes + 4 * image
    assert per_activation.transcendentals == 240
    spatial = made(BatchNorm, batchnorm_mode="spatial", exp_avg_factor=0.5)
    assert spatial.count((X,), F) == OpCount(
        6 * X.size + 33, 3, X.nbytes + 4 * channels, X.nbytes + 4 * channels
    )
    assert spatial.count((X,), B) == OpCount(
        9 * X.size + 9, 0, 2 * X.nbytes + 3 * channels, X.nbytes + 2 * channels
    )
    again = made(BatchNorm, batchnorm_mode="spatial", save_intermediates="false")
    assert again.count((X,), F).written_bytes == X.nbytes + 2 * channels
    assert again.count((X,), B) == OpCount(
        12 * X.size + 18, 3, 2 * X.nbytes + channels, X.nbytes + 2 * channels
    )


def test_lrn_counts():
    assert LRN().count((X,), F) == OpCount(9 * X.size, 2 * X.size, X.nbytes, X.nbytes)
    assert LRN().count((X,), B) == OpCount(18 * X.size, 3 * X.size, 2 * X.nbytes, X.nbytes)
    square = made(LRN, lrn_mode="within_channel", local_size=3)
    assert square.count((X,), F).flops == 13 * X.size


def test_squared_error_counts():
    """A subtraction and a multiply-add of each element, the mean of each sample; then a subtraction
    and a product, and one with the gradient of the loss."""
    x = TensorSpec((6, 7))
    assert SquaredError().count((x,), F).flops == 3 * 42 + 2 * 6
    assert SquaredError().count((x,), B).flops == 2 * 42 + 1


@pytest.mark.parametrize("direction", Pass)
def test_dropout_and_bypass_counts(direction):
    assert Dropout().count((X,), direction) == OpCount(2 * X.size, 0, X.nbytes, X.nbytes)
    assert Bypass().count((X,), direction) == OpCount(0, 0, X.nbytes, X.nbytes)


# ------------------------------------------------------------------ DNNMark's own configs


VARIABLES = {
    "N": "4", "C": "3", "H": "32", "W": "32", "K": "8", "S": "3", "P": "1", "U": "1",
    "CUDNN_CBFA": "algo=fft", "CUDNN_CBDA": "", "conv_bwd_filter_pref": "fastest",
}  # fmt: skip
FOREIGN = sorted(SHARED.glob("*.dnn*")) or [
    pytest.param(None, marks=pytest.mark.skip(reason="DNNMark's own configs are not there"))
]


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.name if path else "none")
def test_configs_of_dnnmark(path):
    parsed = config.read_config(path, VARIABLES)
    assert parsed.sections[0].name == "DNNMark"
    found = shapes(parsed)
    assert len(found) == len(parsed.sections) - 1
    assert set(parsed.variables) <= set(VARIABLES)
    if path.stem.endswith("_config") and len(found) == 1:
        # One layer alone: the built-in workload of that layer has the same numbers.
        layer = next(iter(found.values()))[0]
        entries = {e.key: e.value for e in parsed.sections[1].entries}
        assert layer.sample.items() <= entries.items()


def test_words_that_a_table_lacks_are_named():
    layer, inputs = SampledSoftmax(vocabulary=10), (TensorSpec((2, 3, 4)),)
    right, wrong = np.array([[0, 9, 3]]), np.array([[0, 10, -1]])
    assert layer.fault({"labels": right, "samples": right}, inputs) == ""
    for port in ("labels", "samples"):
        found = layer.fault({"labels": right, "samples": right, port: wrong}, inputs)
        assert found == f"{port}[0, 1] is 10; write 0 to 9"


def test_sums_count_elements_and_copies_count_words():
    """Of 2 x 3 x 4 x 5 = 120 elements of 16 bits, 60 words of 32 bits."""
    x = TensorSpec((2, 3, 4, 5), DType.table["f16"])
    for direction, size in ((F, 120), (B, 60)):
        (kernel,) = made(Add).lower((x, x), direction).kernels
        assert dict(kernel.constants)["size"] == size


def test_a_share_of_one_gpu_has_the_plain_name():
    x = (TensorSpec((2, 3, 4, 5)),)
    names = [replace(made(SquaredError), gpus=gpus).lower(x, B).kernels[0].name for gpus in (1, 2)]
    assert names == ["squared_error_bwd_120", "squared_error_bwd_120_of2"]


def test_a_window_of_one_pixel_has_no_neighbours():
    """Its gradient needs no sum over other windows: one kernel, and nothing in between."""
    layer, x = made(LRN, lrn_mode="within_channel", local_size=1), TensorSpec((2, 3, 4, 4))
    assert len(layer.lower((x,), B).kernels) == 1
    assert [port.name for port in layer.ports((x,), B)] == ["x", "dy", "dx"]
    other = made(LRN, lrn_mode="within_channel", local_size=2)
    assert len(other.lower((x,), B).kernels) == 2
