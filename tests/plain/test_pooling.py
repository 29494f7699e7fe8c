"""Pooling where maxima are equal, where windows reach over the image, and its extents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from simgen.frontend import config, network
from simgen.ground.ir import Pass, TensorSpec
from simgen.layers.pool.pooling import Pooling, Rounding
from simgen.layers.window import positions

if TYPE_CHECKING:
    from pathlib import Path


def gradient(layer: Pooling, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    shape = np.broadcast_to(np.nan, x.shape)
    return layer.reference({"x": x, "dy": dy, "dx": shape}, Pass.BACKWARD)["dx"]


def test_the_first_of_equal_maxima_in_row_major_order_gets_the_gradient():
    layer = Pooling(kernel_h=2, kernel_w=2, stride_h=2, stride_w=2)
    x = np.array([[0, 7, 5, 1], [7, 0, 5, 5]], float).reshape(1, 1, 2, 4)
    dx = gradient(layer, x, np.array([10.0, 20.0]).reshape(1, 1, 1, 2))
    np.testing.assert_array_equal(dx[0, 0], [[0, 10, 20, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("pad", "means"),
    [
        (0, [[1, 1], [1, 1]]),
        (1, [[0.4444, 0.6667, 0.3333], [0.6667, 1, 0.5], [0.3333, 0.5, 0.25]]),
    ],
)
def test_means_with_padding_are_those_of_cudnn(pad, means):
    """cuDNN 9.19 on an H200, asked with CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING: 4 x 4 of ones.

    Beyond the padding, where the extents are rounded up, nothing counts; MIOpen's kernels divide by
    all elements of the window there (0.6667 and 0.4444 with pad 0).
    """
    text = f"[Pooling]\nn=1\nc=1\nh=4\nw=4\npool_mode=avg_include_padding\npad={pad}\n"
    (layer,) = network.resolve(config.parse(text, "x.dnnmark")).layers
    y = layer.layer.reference({"x": np.ones((1, 1, 4, 4))}, Pass.FORWARD)["y"]
    np.testing.assert_allclose(y[0, 0], means, atol=5e-5)


def test_the_padding_is_never_a_maximum():
    layer = Pooling(pad_h=2, pad_w=2, stride_h=1, stride_w=1)
    x = np.full((1, 1, 2, 2), -np.inf)
    y = layer.reference({"x": x}, Pass.FORWARD)["y"]
    dx = gradient(layer, x, np.ones_like(y))
    # Each of the 16 windows holds something; those that hold nothing but the rest have that.
    np.testing.assert_array_equal(dx[0, 0], [[9, 3], [3, 1]])


def test_overlapping_windows_add_up():
    layer = Pooling(stride_h=1, stride_w=1)
    x = np.zeros((1, 1, 5, 5))
    x[0, 0, 2, 2] = 1.0
    dx = gradient(layer, x, np.arange(9.0).reshape(1, 1, 3, 3))
    assert dx[0, 0, 2, 2] == 36
    assert dx.sum() == 36


@pytest.mark.parametrize(
    ("extent", "kernel", "pad", "stride", "floor", "ceil"),
    [
        (256, 3, 0, 2, 127, 128),
        (55, 3, 0, 2, 27, 27),  # AlexNet: the stride divides
        (112, 3, 1, 2, 56, 57),  # ResNet's first pooling
        (4, 2, 0, 3, 1, 2),
        (3, 1, 0, 4, 1, 1),  # the next window would begin beyond the image
        (5, 2, 1, 6, 1, 1),  # and here at the padding behind it
    ],
)
def test_extents_of_both_roundings(extent, kernel, pad, stride, floor, ceil):
    # torch.nn.MaxPool2d gives the same, with ceil_mode.
    window = (extent, kernel, pad, stride)
    assert positions("height", *window) == floor
    assert positions("height", *window, round_up=True) == ceil
    layer = Pooling(kernel_h=kernel, kernel_w=kernel, pad_h=pad, pad_w=pad,
                    stride_h=stride, stride_w=stride)  # fmt: skip
    x = TensorSpec((1, 1, extent, extent))
    assert layer.output((x,)).shape == (1, 1, ceil, ceil), "as in DNNMark, unless told otherwise"
    down = replace(layer, rounding=Rounding.FLOOR)
    assert down.output((x,)).shape == (1, 1, floor, floor)


# Extents of DNNMark's sample configs, by ceil of its pool_layer.h.
DNNMARK_SAMPLES = {
    "[Pooling]\nn=100\nc=3\nh=256\nw=256\npool_mode=max\nkernel_size=3\npad=0\nstride=2\n": 128,
    "[Pooling]\nn=1\nc=32\nh=32\nw=32\npool_mode=max\nkernel_size=3\npad=0\nstride=2\n": 16,
}


@pytest.mark.parametrize(("text", "extent"), DNNMARK_SAMPLES.items())
def test_configs_of_dnnmark_have_its_extents(tmp_path: Path, text: str, extent: int):
    file = tmp_path / "pool_config.dnnmark"
    file.write_text(text)
    (placed,) = network.resolve(config.read_config(file, {})).layers
    assert placed.output.shape[2:] == (extent, extent)
    (down,) = network.resolve(config.read_config(file, {}), [("round_mode", "floor")]).layers
    assert down.output.shape[2:] == (extent - 1, extent - 1)
