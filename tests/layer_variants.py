"""Every lowered layer with every choice of its keys: what contract tests run over.

A layer that is registered in LAYERS and says which passes it has gets all contract tests.
"""

from __future__ import annotations

import itertools
import math
import os
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from census import check_all, named
from covering import covering

from simgen.ground.ir import Pass, TensorSpec
from simgen.layers import LAYERS, Layer
from simgen.layers.base import Collective, field_types
from simgen.layers.conv.algorithms import ForwardAlgo
from simgen.tensors.random_values import generate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from dataclasses import Field

    from simgen.ground.ir import Kernel

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Variant:
    """A layer with all of its parameters given, as config text."""

    kind: str
    parameters: tuple[tuple[str, str], ...]

    @property
    def layer(self) -> Layer:
        return LAYERS[self.kind].from_config([(k, v, "test") for k, v in self.parameters])

    def __str__(self) -> str:
        return "-".join((self.kind, *(value for _, value in self.parameters)))


def lowered() -> list[str]:
    """Kinds of the layers that have kernels."""
    return sorted(kind for kind, layer in LAYERS.items() if layer.passes)


PAIRED = 8  # values of a parameter that is varied together with each other one
MOST = 40  # combinations of a layer's choices; with more, one choice at a time is varied

# Parameters of all variants of a layer, where its defaults are too large or too narrow.
BASE: dict[str, dict[str, str]] = {
    "conv": {
        "num_output": "6", "kernel_size_h": "3", "kernel_size_w": "3", "pad_h": "1", "pad_w": "1",
    },
    "pool": {"pad_h": "1", "pad_w": "1"},
    "fc": {"num_output": "7"},
    "bcm_fc": {"num_output": "64", "block_size": "4"},
    "gemm": {"m": "33", "n": "20", "k": "19"},
    "cache": {"page": "4"},
    "top_k": {"top_k": "3"},
    "scaled_fc": {"num_output": "20", "group_size": "0"},
    "embedding": {"vocabulary": "37", "features": "6", "zipf": "1.0"},
    "expert_blocks": {"skew": "0.5", "experts": "8"},
    "experts": {"skew": "0.5", "format": "mxfp4"},
    "sampled_softmax": {"vocabulary": "37", "samples": "9", "zipf": "1.0"},
    "sparse_gemm": {"m": "33", "n": "20", "k": "40", "sparsity": "0.75"},
    "structured_gemm": {"m": "33", "n": "20", "k": "40"},
    "fused_conv": {  # what conv is tested with is left as it is
        "num_output": "6", "kernel_size_h": "3", "kernel_size_w": "3", "pad_h": "1", "pad_w": "1",
        "conv_mode": "cross_correlation", "propagation": "true", "algo": "direct", "algod": "0",
        "conv_fwd_pref": "fastest", "conv_bwd_filter_pref": "fastest",
        "conv_bwd_data_pref": "fastest", "batch_norm": "true", "activation": "true",
        "layout": "nchw", "filter_layout": "kcrs",
    },
    "fused_fc": {"num_output": "7", "batch_norm": "true", "activation": "true"},
    "sgd": {"nesterov": "false"},  # it needs momentum
}  # fmt: skip


def _product(m: int, n: int, k: int, transposed: str, alpha: str, beta: str) -> dict[str, str]:
    """Parameters of a gemm; `transposed` says which sides are: "", "a", "b" or "ab"."""
    sides = {f"{side}_t": str(side in transposed).lower() for side in "ab"}
    return {"m": str(m), "n": str(n), "k": str(k), **sides, "alpha": alpha, "beta": beta}


def _products(batch: int, *product: Any) -> dict[str, str]:
    """The same of a batch."""
    return {"batch": str(batch), **_product(*product)}


def _pooled(mode: str, kernel: str, pad: str, stride: str, rounding: str) -> dict[str, str]:
    """Parameters of a pooling layer; extents are HxW."""
    extents = {"kernel_size": kernel, "pad": pad, "stride": stride}
    given = {f"{k}_{a}": v for k, text in extents.items() for a, v in zip("hw", text.split("x"))}
    return {"pool_mode": mode, **given, "round_mode": rounding}


def _convolved(kernel: str, pad: str, stride: str = "1x1", **other: str) -> dict[str, str]:
    """Parameters of a convolution; extents are HxW."""
    extents = {"kernel_size": kernel, "pad": pad, "stride": stride}
    extents["dilation"] = other.pop("dilation", "1x1")
    given = {f"{k}_{a}": v for k, text in extents.items() for a, v in zip("hw", text.split("x"))}
    return {**given, **other}


# Values of keys that have a number for each of four axes.
NUMBERS_OF_AXES = ("0x1x0x1", "0x0x2x1", "0x2x1x3", "3x2x1x0", "1x1x2x1")

# Of pooling: kernel, padding, stride. Gaps, overlaps, rests, windows that work-items share, whole
# images.
GEOMETRIES = (
    "1x2 0x0 2x3 floor", "2x2 0x0 2x2 floor", "2x2 0x0 2x2 ceil", "3x3 0x0 2x2 floor",
    "3x3 1x1 1x1 floor", "3x3 0x0 2x2 ceil", "2x3 1x2 3x1 ceil", "5x2 4x1 1x4 floor",
    "2x2 0x0 5x3 ceil", "4x4 1x1 4x4 ceil", "5x4 2x3 3x9 floor", "8x7 0x0 1x1 floor",
    "9x9 4x4 2x1 ceil", "9x7 0x0 1x1 floor", "7x11 0x0 2x1 floor", "1x64 0x63 1x2 floor",
    "2x24 0x23 1x2 floor",
)  # fmt: skip

NARROW_STEP = {"gradient_type": "f16", "copy_type": "f16", "loss_scale": "1024"}

# Parameters that a layer's contract is tested with too, beside its defaults.
EXTRA: dict[str, list[dict[str, str]]] = {
    "add": [{"inputs": "3"}],
    "broadcast": [{"operand": each} for each in ("1x1x1x0", "0x1x0x1", "1x1x1x1")],
    "cast": [{"type": "bf16"}, {"type": "f32"}],
    "concat": [{"inputs": "3"}, {"axis": "-1"}],
    "sgd": [
        {"gradient_type": "f16", "copy_type": "bf16", "loss_scale": "1024"},
        {"momentum": "0.9"},
        {"weight_decay": "0.125"},
        {"momentum": "0.9", "weight_decay": "0.125", "nesterov": "true", **NARROW_STEP},
    ],
    "adam": [
        {"weight_decay": "0.125"},
        {"weight_decay": "0.125", "decoupled": "true", **NARROW_STEP},
    ],
    "reduce_mean": [{"axis": "-1"}],
    "rearrange": [
        {"order": "0x2x1x3"},
        {"mode": "crop", "begin": "0x1x0x2", "step": "1x2x1x1"},
        {"mode": "crop", "begin": "0x1x4x4", "to": "0x1x4x0"},
        {"mode": "pad", "before": "0x1x2x0", "behind": "1x0x3x0", "value": "1.5"},
        {"mode": "pad", "before": "0x0x1x1", "behind": "0x0x0x2", "value": "-3.4e38"},
        {"mode": "expand", "to": "0x0x0x12"},
    ],
    "attention": [
        {"causal": "true", "keys": "37", "kv_heads": "2", "algo": "split"},
        {"causal": "true", "window": "3", "sinks": "true"},
        {"mask": "keep", "kv_heads": "1", "value_size": "12", "softcap": "0.75"},
        {"lengths": "true", "page": "4", "causal": "true", "kv_heads": "2", "keys": "43"},
        {"lengths": "true", "page": "3", "keys": "140", "algo": "split", "sinks": "true"},
        {"mask": "bias", "value_size": "5", "keys": "70", "lengths": "true", "scale": "0.5"},
    ],
    "rope": [
        {"rotary": "4", "positions": "true"},
        {"rotary": "4", "interleaved": "true", "scaling": "llama3", "original": "64"},
        {"base": "500000", "scaling": "yarn", "original": "256", "positions": "true"},
        {"scaling": "linear", "interleaved": "true"},
        {"rotary": "12", "positions": "true", "sections": "3x2x1x0"},
        {"turning_heads": "1", "rotary": "4"},
        {"turning_heads": "2", "interleaved": "true"},
        {"scaling": "llama3", "positions": "true", "original": "512", "factor": "32"},
    ],
    "attention_sum": [{"candidates": "9", "log": "true"}],
    "embedding": [{"features": "8"}, {"features": "5", "zipf": "0.0"}],
    "slice": [{"axis": "2"}, {"axis": "-1", "outputs": "3"}],
    "sampled_softmax": [{"samples": "64", "zipf": "0.0"}],
    "cross_entropy": [{"axis": "-1"}, {"axis": "2", "ignore_index": "1"}],
    "softmax": [{"softmax_axis": "-1"}, {"softmax_axis": "2", "softmax_algo": "log"}],
    "cache": [
        {"page": "3", "pages": "40", "cache_type": "f8e5m2"},
        {"value_size": "12", "v_scale": "2.5"},
    ],
    "causal_conv": [
        {"width": "2", "state": "true", "keep": "true"},
        {"width": "8", "bias": "true", "silu": "true", "keep": "true"},
    ],
    "chunk_output": [{"chunk": "3", "value_heads": "4", "value_size": "12"}, {"chunk": "5"}],
    "chunk_state": [{"chunk": "3", "value_heads": "4", "value_size": "12"}, {"chunk": "5"}],
    "delta_rule": [{"value_heads": "4", "value_size": "12", "state": "true"}, {"value_size": "70"}],
    "top_k": [{"top_k": "1"}],
    "top_p": [{"share": "1.0"}],
    "recurrent": [  # weights with fewer and more columns than rows, sums in several pieces
        {"hidden_size": "5"},
        {"hidden_size": "20", "cell": "gru", "reverse": "true"},
        {"hidden_size": "131", "cell": "tanh", "bias": "false"},
    ],
    "layer_norm": [{"axis": "1"}, {"axis": "2", "epsilon": "0.001"}],
    "rms_norm": [{"axis": "1"}, {"axis": "2", "epsilon": "0.001"}],
    "qk_rms_norm": [{"query_heads": "2", "key_heads": "0"}],
    "dropout": [
        {"dropout_probability": "0"},
        {"dropout_probability": "0.5", "random_seed": "777"},
        {"dropout_probability": "1"},
    ],
    "bcm_fc": [  # every size of a block
        {"block_size": size, "num_output": outputs}
        for size, outputs in (
            ("2", "6"),
            ("8", "40"),
            ("16", "16"),
            ("32", "96"),
            ("64", "192"),
        )
    ],
    "router": [
        {"top_k": "1", "normalised": "false"},
        {"groups": "2", "weight_scale": "2.5"},
        {"groups": "4", "top_groups": "2", "correction": "true", "scores_mode": "sigmoid"},
        {"top_k": "8", "correction": "true", "weight_scale": "2.5"},
    ],
    "expert_blocks": [{"block_rows": "1"}, {"experts": "5", "block_rows": "4"}],
    "experts": [
        {"stored": "3"},
        {"intermediate": "20", "experts": "70"},
        {"top_k": "5"},
        {
            "scaled_weights": "true",
            "format": "fp8_group",
            "block_rows": "128",
            "intermediate": "128",
        },
    ],
    "quantise": [
        {"format": "fp8_group", "group_size": "32"},
        {"format": "int4", "group_size": "64"},
        {"format": "mxfp6", "group_size": "0"},
    ],
    "scaled_fc": [
        {"scaled_x": "true", "block_rows": "3"},
        {"scaled_x": "true", "block_rows": "128", "num_output": "131", "group_size": "64"},
        {"format": "int4", "group_size": "32", "result": "bf16"},
    ],
    "lrn": [
        {"lrn_mode": mode, "local_size": size}
        for mode in ("cross_channel_dim1", "within_channel")
        for size in ("1", "2", "3", "6", "16")
    ],
    "pool": [
        _pooled(mode, *geometry.split())
        for mode in ("max", "avg_exclude_padding", "avg_include_padding")
        for geometry in GEOMETRIES
        if mode != "avg_include_padding" or " 0x0 " not in geometry
    ],
    "conv": [  # rectangles, rests, groups, gaps, each for more than one algorithm
        _convolved("5x5", "2x2", num_output="20"),
        _convolved("5x5", "2x2", num_output="18", algo="implicit_gemm"),
        _convolved("3x3", "1x1", "2x2", bias="true"),
        _convolved("3x3", "1x1", "2x2", algo="implicit_gemm", conv_mode="convolution"),
        _convolved("3x3", "1x1", "2x2", algo="im2col"),
        _convolved("2x4", "0x3", "3x1", dilation="1x2", num_output="9"),
        _convolved("2x4", "0x3", "3x1", dilation="1x2", algo="implicit_gemm", bias="true"),
        _convolved("3x3", "1x1", group="3", num_output="12"),
        _convolved("3x3", "1x1", group="3", num_output="3", conv_mode="convolution"),
        _convolved("3x3", "1x1", group="3", num_output="33", algo="implicit_gemm", bias="true"),
        _convolved("3x3", "1x1", group="3", num_output="12", algo="im2col", bias="true"),
        _convolved("3x3", "1x1", group="3", num_output="12", algo="winograd", bias="true"),
        _convolved("3x3", "1x0", algo="winograd", conv_mode="convolution", num_output="9"),
        _convolved("3x3", "1x0", algo="winograd", conv_mode="transpose"),
        _convolved("3x3", "2x2", dilation="2x2", conv_mode="convolution", num_output="17"),
        _convolved("3x3", "1x1", "2x2", conv_mode="transpose", bias="true"),
        _convolved("4x3", "1x0", "2x3", conv_mode="transpose", algo="implicit_gemm", bias="true"),
        _convolved("7x6", "3x2", "5x4"),
        _convolved("7x6", "3x2", "5x4", algo="implicit_gemm"),
        _convolved("7x6", "3x2", "5x4", algo="im2col", conv_mode="convolution"),
        _convolved("3x2", "2x1", dilation="2x3", algo="implicit_gemm", conv_mode="convolution"),
        _convolved("3x2", "2x1", dilation="2x3", algo="im2col", group="3", num_output="9"),
        _convolved("1x1", "0x0", algo="implicit_gemm", num_output="8"),
        _convolved("1x1", "0x0", "2x2", algo="implicit_gemm", num_output="8"),
        _convolved("1x1", "1x2", "3x3"),
        _convolved("1x11", "0x5", "1x1"),
        _convolved("1x3", "0x20", "1x1", dilation="1x20"),
        _convolved("5x4", "2x1", algo="fft", num_output="18", bias="true"),
        _convolved("11x10", "5x4", algo="fft", conv_mode="cross_correlation"),
        _convolved("3x3", "1x0", algo="fft", group="3", num_output="12", bias="true"),
        _convolved("3x2", "4x3", dilation="4x3", algo="fft"),
        _convolved("3x5", "1x2", algo="fft", conv_mode="transpose", bias="true"),
        _convolved("3x2", "1x0", "2x1", layout="nhwc", filter_layout="krsc", bias="true"),
    ],
    "fc": [
        {"num_output": "130", "bias": "true"},
        {"num_output": "5", "bias": "true", "axis": "-1"},
    ],
    "fused_fc": [
        {"num_output": "130", "bias": "true", "activation_mode": "elu", "activation_alpha": "0.5"},
        {"activation_mode": "clipped_relu", "activation_ceiling": "2.5"},
        {"bias": "true", "activation": "false"},
        {"bias": "true", "batch_norm": "false"},
        {"batch_norm": "false", "activation": "false"},
    ],
    "fused_conv": [
        *(
            {"algo": algo, **other}
            for algo, mode in (
                ("direct", "tanh"),
                ("implicit_gemm", "clipped_relu"),
                ("im2col", "sigmoid"),
                ("winograd", "elu"),
                ("fft", "soft_relu"),
            )
            for other in (
                {"bias": "true", "activation_mode": mode},
                {"bias": "true", "batch_norm": "false"},
                {"activation": "false"},
            )
        ),
        {"activation_mode": "elu", "activation_alpha": "0.5"},
        {"activation_mode": "clipped_relu", "activation_ceiling": "2.5"},
        {"batch_norm": "false", "activation": "false"},
        _convolved("3x3", "1x1", "2x2", conv_mode="transpose"),
        _convolved("3x3", "1x1", group="3", num_output="12"),
        _convolved("3x3", "1x1", group="3", num_output="33", algo="implicit_gemm"),
    ],
    "gemm": [  # ones, primes, no multiples of tiles, short sides, long sums that are cut
        _product(1, 1, 1, "", "1.0", "0.0"),
        _product(1, 1, 300, "", "1.0", "0.0"),
        _product(1, 5, 3, "b", "-0.75", "0.5"),
        _product(2, 3, 70, "a", "1.0", "-2.0"),
        _product(70, 1, 67, "", "1.0", "0.0"),
        _product(1, 70, 67, "ab", "0.5", "1.0"),
        _product(1, 60, 1000, "", "1.0", "0.0"),
        _product(60, 1, 1000, "a", "1.0", "3.0"),
        _product(4, 300, 515, "b", "1.0", "0.0"),
        _product(300, 4, 514, "ab", "1.0", "0.0"),
        _product(37, 8, 2048, "", "2.0", "1.0"),
        _product(8, 37, 512, "a", "1.0", "0.0"),
        _product(3, 2, 5000, "", "1.0", "0.0"),
        _product(5, 2, 105, "a", "1.0", "0.0"),  # the long side is read along itself, written apart
        _product(101, 67, 33, "a", "1.0", "0.0"),
        _product(130, 200, 9, "b", "-1.0", "0.0"),
        _product(64, 64, 64, "", "1.0", "1.0"),
        _product(128, 132, 40, "ab", "1.0", "0.0"),
        _product(20, 24, 5000, "", "1.5", "0.5"),
        _product(13, 9, 1031, "b", "1.0", "0.0"),
        _products(3, 33, 20, 19, "", "1.0", "0.0"),
        _products(5, 7, 130, 9, "b", "0.5", "1.0"),
        _products(2, 64, 3, 1031, "a", "1.0", "0.0"),
        _products(4, 1, 40, 64, "ab", "-1.0", "2.0"),
    ],
    "sparse_gemm": [  # few columns and many, by fours and not, empty rows, full ones, long ones
        {"m": "1", "n": "1", "k": "1", "sparsity": "0"},
        {"m": "70", "n": "1", "k": "300"},
        {"m": "37", "n": "2", "k": "515", "sparsity": "0.5"},
        {"m": "5", "n": "8", "k": "2000", "sparsity": "0.9"},
        {"m": "300", "n": "3", "k": "7", "nonzeros": "100"},
        {"m": "9", "n": "300", "k": "130", "sparsity": "0.95"},
        {"m": "67", "n": "13", "k": "33", "sparsity": "0"},
        {"m": "20", "n": "66", "k": "50", "nonzeros": "9"},
        {"m": "34", "n": "20", "k": "40", "sparsity": "0.5", "side": "2"},
        {"m": "33", "n": "3", "k": "42", "sparsity": "0.5", "side": "3"},
        {"m": "64", "n": "264", "k": "96", "sparsity": "0.5", "side": "16"},
    ],
    "structured_gemm": [
        {"m": "1", "n": "1", "k": "4"},
        {"m": "67", "n": "13", "k": "36"},
        {"m": "9", "n": "300", "k": "64"},
        {"m": "20", "n": "66", "k": "132"},
    ],
}


# Where a layer has many kernels: the shapes that tell them apart, in place of all.
SHAPES_OF: dict[str, tuple[tuple[int, ...], ...]] = {
    "all_reduce": (  # of one sample there is none
        (2, 6, 2, 3), (3, 1, 1, 1), (67, 4, 1, 1), (2, 4099, 1, 1), (3, 37, 11, 11),
    ),
    "conv": (
        (1, 1, 1, 1), (2, 3, 5, 7), (2, 6, 9, 12), (3, 27, 11, 11), (2, 2, 48, 48),
        (1, 2, 2, 150),
    ),
    "fused_conv": ((1, 1, 1, 1), (2, 3, 5, 7), (1, 64, 4, 4), (2, 6, 9, 12)),
    "fused_fc": ((1, 1, 1, 1), (2, 3, 5, 7), (3, 5000, 1, 1), (100, 520, 1, 1)),
    "bcm_fc": ((1, 64, 1, 1), (3, 128, 1, 1), (2, 4, 4, 8), (70, 192, 1, 1)),
    "recurrent": (  # time steps, samples, features
        (2, 1, 1), (3, 2, 4), (4, 17, 10), (2, 2, 2, 35), (2, 5, 68), (9, 3, 1),
    ),
    "rearrange": (
        (1, 1, 1), (2, 6, 5, 3), (3, 2, 9, 1), (2, 4, 8, 8), (30, 100),
    ),
    "quantised_add_rms_norm": ((1, 4), (2, 3, 8), (5, 72), (3, 1000), (67, 4), (2, 4096)),
    "quantise": ((1, 128), (2, 3, 256), (5, 640), (1, 4736)),
    "scaled_fc": ((2, 3, 256), (5, 640), (70, 384)),
    "reduce_mean": ((1, 1, 1), (2, 5, 3), (3, 7, 8), (2, 4, 37), (2, 3, 5, 12)),
    "attention": (  # samples, heads, queries, elements
        (1, 1, 1, 1), (2, 4, 9, 8), (1, 4, 1, 64), (1, 6, 70, 36), (2, 2, 5, 130), (1, 8, 33, 4),
    ),
    "rope": ((1, 1, 1, 2), (2, 3, 9, 8), (1, 2, 33, 20), (3, 1, 2, 14), (1, 2, 5, 64)),
    "attention_sum": ((1, 1), (2, 5), (3, 17, 1), (30, 100), (2, 601)),
    "reduce_sum": ((1, 1, 1), (2, 5, 3), (2, 3, 5, 12)),
    "cache": ((1, 1, 1), (9, 2, 6), (70, 3, 20)),  # tokens, heads, elements
    "causal_conv": ((1, 1, 1), (2, 5, 3), (3, 1, 8), (2, 9, 300)),
    "chunk_output": ((1, 1, 1, 1), (2, 7, 2, 8), (1, 5, 4, 20), (3, 1, 2, 6)),
    "chunk_state": ((1, 1, 1, 1), (2, 7, 2, 8), (1, 5, 4, 20), (3, 1, 2, 6)),
    "delta_rule": ((1, 1, 1, 1), (2, 7, 2, 8), (1, 5, 4, 20), (3, 1, 2, 6)),
    "qk_rms_norm": ((2, 2, 1), (2, 3, 7), (3, 2, 9, 64), (2, 4, 3000)),
    "top_k": ((1, 3), (3, 2, 75), (2, 1200), (2, 3001)),
    "top_p": ((1, 1), (5, 7), (2, 1200), (3, 3001)),
    "sample": ((1, 1), (5, 7), (2, 1200), (3, 3001), (1, 5004)),
    "router": ((1, 8), (2, 3, 16), (5, 128), (9, 200)),
    "expert_blocks": ((1, 1), (3, 4), (7, 5), (700, 3)),
    "experts": ((1, 4), (3, 20), (2, 5, 64), (40, 132), (3, 128)),
    "embedding": ((1, 1), (2, 5), (3, 4, 13), (3, 1500), (2, 3001)),  # places
    "mask": ((1, 1, 1), (2, 3, 5), (3, 2, 7, 9), (2, 17, 33), (2, 64, 64), (5, 3, 1, 130)),
    "heads": (
        (1, 1, 2), (2, 3, 10), (3, 17, 48), (2, 300, 6), (1, 2, 1, 1), (3, 2, 9, 8), (2, 2, 100, 3),
    ),
    "sparse_gemm": ((1, 1, 1, 1),),  # keys say all extents
    "structured_gemm": ((1, 1, 1, 1),),
    "slice": ((1, 2, 1, 1), (2, 6, 2, 6), (3, 300, 1, 3), (5, 514, 1, 1), (2, 4, 48, 48)),
}  # fmt: skip

SMALLEST = (2, 6, 2, 3)
CONTRACT_SHAPES = (SMALLEST, (1, 1, 1, 1), (3, 64, 1, 1), (2, 5000, 1, 1), (1, 37, 9, 7))
# Images of which windows fit into one or the other, one to cut in two and in three; tokens.
LARGER = ((3, 9, 7), (3, 7, 11), (6, 12, 12), (5, 8), (8, 8, 8))

# What a layer's kernels need beside the shapes that all layers are tested with: more chunks than a
# work-item adds up by itself; an image that is one window, and two with tiles narrower than a row;
# a row that fits into no unit's registers.
ALSO: dict[str, tuple[tuple[int, ...], ...]] = {
    "bn": ((4400, 3, 1, 1),),
    "pool": ((1, 37, 9, 7), (1, 1, 9, 1027), (1, 1, 11, 1028)),
    "softmax": ((1, 60001, 1, 1),),
}


# (key, value) of choices that tensors of float32 do not have: they have tests of their own.
OF_NARROW_TYPES = {("algo", "channels_last"), ("algod", "channels_last")}
# Other words for algorithms that have variants; test_convolution.py says what they mean.
RESPELLED = {
    ("algo", "cudnnv7"),
    *(("algod", word) for word in ("2", "3", "4", "5", "cudnn", "cudnnv7", "auto")),
    *(("algofwd", str(word)) for word in ForwardAlgo if word),
}


def shapes_of(kind: str, usual: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """The shapes that tell a layer's kernels apart; `usual` are a test's own, for any layer."""
    return (*SHAPES_OF.get(kind, usual), *ALSO.get(kind, ()))


def fields_of_floats(layer: type[Layer]) -> list[Field[Any]]:
    """The fields that a config sets, without those that mean something for integers alone."""
    return [each for each in layer.keyed_fields() if not each.metadata["of_integers"]]


def variants(kind: str) -> list[Variant]:
    """Combinations of a layer's choices; numbers at their default and at one other value."""
    layer = LAYERS[kind]
    choices = [
        [(_key(f), text) for text in _texts(field_types(layer)[f.name], f, BASE.get(kind, {}))]
        for f in fields_of_floats(layer)
    ]
    if math.prod(map(len, choices)) <= MOST:
        made = list(itertools.product(*choices))
    else:
        base = tuple(choice[0] for choice in choices)
        made = [base]
        for at, choice in enumerate(choices):
            made += [(*base[:at], other, *base[at + 1 :]) for other in choice[1:]]
    for extra in EXTRA.get(kind, []):
        made.append(tuple((key, extra.get(key, value)) for key, value in made[0]))
        assert set(extra) <= dict(made[0]).keys(), extra
    return [
        Variant(kind, parameters)
        for parameters in dict.fromkeys(made)
        if not OF_NARROW_TYPES.intersection(parameters)
    ]


def _key(field: Any) -> str:
    """The config key that sets this field and, where there is one, no other."""
    return str(field.metadata["keys"][-1])


def _texts(type_: Any, field: Any, base: dict[str, str]) -> list[str]:
    if _key(field) in base:
        return [base[_key(field)]]
    if issubclass(type_, StrEnum):
        return [str(choice) for choice in type_ if (_key(field), str(choice)) not in RESPELLED]
    if type_ is bool:
        return ["false", "true"]
    if type_ is not float:
        return [str(field.default)]
    least, other = field.metadata["least"], field.default * 0.375
    return [str(field.default), str(other if least is None or other >= least else least * 4)]


@cache
def covering_variants(kind: str) -> list[Variant]:
    """The variants that show each choice of parameters, each two choices, and each of kernels.

    With EVERY_VARIANT set in the environment, all of them.
    """
    found = variants(kind)
    if os.environ.get("EVERY_VARIANT"):
        return found
    known = {str(variant): variant for variant in found}
    values: defaultdict[str, set[str]] = defaultdict(set)
    for variant in found:
        for key, value in variant.parameters:
            values[key].add(value)
    labels = {}
    for name, variant in known.items():
        own = [one for one in variant.parameters if len(values[one[0]]) > 1]
        few = [one for one in own if len(values[one[0]]) <= PAIRED]
        labels[name] = [*own, *combinations(few, 2)]
    kernels = {name: list(_kernels(variant)) for name, variant in known.items()}
    return [known[name] for name in covering(kernels, pairs=False, sizes=False, labels=labels)]


def _kernels(variant: Variant) -> Iterator[Kernel]:
    """In all passes, for shapes that are usual."""
    layer = variant.layer
    for shape in contract_shapes(layer):
        for direction in layer.able:
            yield from layer.lower(inputs_of(layer, shape), direction).kernels


def each_pass(test: Callable[[Variant, Pass], None]) -> Callable[..., None]:
    """A test of each (variant, pass), as one for each layer."""

    def whole(kind: str) -> None:
        own = covering_variants(kind)
        check_all(test, ({"variant": v, "direction": d} for v in own for d in v.layer.able))

    return pytest.mark.parametrize("kind", lowered())(named(test, whole))


def each_variant(test: Callable[[Variant], None]) -> Callable[..., None]:
    """A test of each variant, as one for each layer."""

    def whole(kind: str) -> None:
        check_all(test, ({"variant": variant} for variant in covering_variants(kind)))

    return pytest.mark.parametrize("kind", lowered())(named(test, whole))


def fitting(layer: Layer, *shape: int) -> tuple[int, ...]:
    """The shape or, for windows that do not fit into that, one with as many larger images."""
    larger = [
        *((shape[0], *image) for image in LARGER),
        *((shape[0], *each[1:]) for each in SHAPES_OF.get(layer.kind, ())),
    ]
    return next(each for each in (shape, *larger) if accepts(layer, each))


def contract_shapes(layer: Layer) -> list[tuple[int, ...]]:
    """Those that the contract of a layer is tested with."""
    shapes = SHAPES_OF.get(layer.kind, CONTRACT_SHAPES)
    return [shape for shape in shapes if accepts(layer, shape)] or [fitting(layer, *SMALLEST)]


def inputs_of(layer: Layer, shape: tuple[int, ...]) -> tuple[TensorSpec, ...]:
    """The inputs of the layer by itself, for an input of this shape where it takes one."""
    return layer.workload_inputs(TensorSpec(shape)) if layer.takes_input else ()


def accepts(layer: Layer, shape: tuple[int, ...]) -> bool:
    """Whether the layer takes an input of this shape."""
    try:
        layer.output(inputs_of(layer, shape))
    except ValueError:
        return False
    return True


def read_tensors(layer: Layer, shape: tuple[int, ...], direction: Pass) -> dict[str, Array]:
    """What `reference` gets: the ports that are read, from their own distributions; float64."""
    ports = layer.ports(inputs_of(layer, shape), direction)
    shapes = {
        port.name: np.broadcast_to(np.nan, port.spec.shape)
        for port in ports
        if port.name in layer.shape_given
    }
    return shapes | {
        port.name: generate(port.name, port.spec, port.fill, 1)
        .reshape(port.spec.shape)
        .astype(np.float64)
        for port in ports
        if port.fill is not None
    }


# A small problem of a layer in the simulators: settings as `--set` takes them.
SMALL = {"n": "2", "c": "6", "h": "5", "w": "7"}
SMALL_OF: dict[str, dict[str, str]] = {
    "fc": {**SMALL, "num_output": "9"},
    "bcm_fc": {"n": "2", "c": "48", "h": "1", "w": "1", "num_output": "32", "block_size": "8"},
    "fused_fc": {**SMALL, "num_output": "9", "batch_norm": "true"},
    "fused_conv": {**SMALL, "batch_norm": "true", "activation_mode": "tanh"},
    "gemm": {"m": "33", "n": "17", "k": "19"},
    "sparse_gemm": {"m": "33", "n": "12", "k": "40", "sparsity": "0.75"},
    "structured_gemm": {"m": "33", "n": "12", "k": "40"},
    "heads": {"shape": "2x5x6", "heads": "3"},
    "cache": {"shape": "9x2x6", "page": "4"},
    "causal_conv": {"shape": "2x9x6", "state": "true", "keep": "true"},
    "reduce_sum": {"shape": "2x5x6"},
    "sample": {"shape": "3x70"},
    "chunk_output": {"shape": "2x5x2x8", "value_heads": "4", "value_size": "12"},
    "chunk_state": {"shape": "2x5x2x8", "value_heads": "4", "value_size": "12"},
    "delta_rule": {"shape": "2x5x2x8", "value_heads": "4", "value_size": "12"},
    "quantise": {"shape": "3x64", "format": "mxfp6"},
    "quantised_add_rms_norm": {"shape": "3x20"},
    "scaled_fc": {"shape": "5x64", "num_output": "12", "group_size": "16"},
    "qk_rms_norm": {"shape": "3x5x12", "query_heads": "2", "key_heads": "2"},
    "top_k": {"shape": "3x70", "top_k": "9"},
    "top_p": {"shape": "3x70"},
    "router": {"shape": "5x16"},
    "expert_blocks": {"shape": "5x3", "experts": "9", "block_rows": "4"},
    "experts": {"shape": "3x20", "experts": "5", "intermediate": "12", "stored": "4"},
    "embedding": {"shape": "3x11", "vocabulary": "9", "features": "6"},
    "mask": {"shape": "2x5x7", "mask": "lengths"},
    "attention": {"shape": "2x4x9x8", "kv_heads": "2", "causal": "true", "softcap": "1.5"},
    "rope": {"shape": "2x3x5x12", "rotary": "8", "scaling": "yarn", "positions": "true"},
    "attention_sum": {"shape": "3x11", "vocabulary": "5", "log": "true"},
    "reduce_mean": {"shape": "2x5x6"},
    "recurrent": {"shape": "3x2x6", "cell": "gru"},
    "rearrange": {"shape": "2x4x3x5x7"},
}


ANY_ALGORITHM = {"kernel_size": "3", "pad": "1"}  # filters that every algorithm takes


def small_problems() -> list[tuple[str, tuple[str, ...]]]:
    """(workload, settings) for every pass of every lowered layer, by each of its algorithms."""
    found = []
    for kind in lowered():
        sizes = SMALL_OF.get(kind, SMALL)
        choices: list[dict[str, str]] = [{}]
        choices += [
            {**(ANY_ALGORITHM if kind.endswith("conv") else {}), "algo": name}
            for name in LAYERS[kind].algorithms
            if ("algo", name) not in OF_NARROW_TYPES
        ]
        found += [
            (f"{kind}_{direction}", tuple(f"{k}={v}" for k, v in {**sizes, **choice}.items()))
            for direction in LAYERS[kind].passes
            for choice in choices
        ]
    return found


def problems_of_one_gpu() -> list[tuple[str, tuple[str, ...]]]:
    """Those of `small_problems` that a build for one GPU takes."""
    several = {
        f"{kind}_{each}"
        for kind in lowered()
        if issubclass(LAYERS[kind], Collective)
        for each in Pass
    }
    return [each for each in small_problems() if each[0] not in several]


def seconds(layer: Layer, shape: tuple[int, ...], direction: Pass) -> float:
    """About what the test of a pass takes, checked and not optimised: for each kernel, and for each
    operation and work-item."""
    inputs = inputs_of(layer, shape)
    lowering = layer.lower(inputs, direction)
    blocks = {kernel.name: kernel.block for kernel in lowering.kernels}
    items = sum(math.prod(each.grid) * blocks[each.kernel] for each in lowering.launches)
    return 0.03 * len(blocks) + 1e-7 * (layer.count(inputs, direction).flops + 40 * items)
