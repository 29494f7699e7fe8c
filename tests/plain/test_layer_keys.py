"""Config keys and values of the layers that are understood but not lowered yet."""

from __future__ import annotations

from dataclasses import fields
from math import prod

import pytest
from census import census
from layer_variants import fields_of_floats

from simgen.errors import ConfigError
from simgen.ground.ir import TensorSpec
from simgen.layers import LAYERS
from simgen.layers.base import COMMON_KEYS, Layer
from simgen.layers.bypass import Bypass
from simgen.layers.conv.convolution import Convolution
from simgen.layers.dropout import Dropout
from simgen.layers.norm.batch_norm import BatchNorm
from simgen.layers.norm.lrn import LRN
from simgen.layers.pool.pooling import Pooling
from simgen.layers.product.fully_connected import FullyConnected

EXTENTS = {
    f"{name}{axis}": ["1", "3", "64"]
    for name in ("kernel_size", "stride", "pad")
    for axis in ("", "_h", "_w")
} | {f"pad{axis}": ["0", "1", "7"] for axis in ("", "_h", "_w")}
PREFERENCES = ["no_workspace", "fastest", "specify_workspace_limit"]
CHOSEN = ["auto", "cudnn", "cudnnv7"]
# All that DNNMark knows, for NVIDIA and for AMD GPUs.
DNNMARK: dict[type[Layer], dict[str, list[str]]] = {
    Convolution: {
        "conv_mode": ["convolution", "cross_correlation", "transpose"],
        "num_output": ["1", "96"],
        **EXTENTS,
        "propagation": ["true", "false"],
        "algo": [
            "fft",
            "winograd",
            "0",
            "1",
            "2",
            "3",
            "4",
            "5",
            "6",
            "cudnn",
            "cudnnv7",  # a fork's
            "auto",
            "direct",
            "implicit_gemm",
            "im2col",
            "channels_last",  # simgen's
        ],
        "algod": [
            "fft",
            "winograd",
            "0",
            "1",
            "winograd_nonfused",
            "fft_tiling",
            *"2345",
            *CHOSEN,  # a fork's
            "direct",
            "implicit_gemm",
            "im2col",
            "channels_last",  # simgen's
        ],
        "algofwd": [
            "",
            *"01234567",
            "fft",
            "winograd",
            *CHOSEN,
            "direct",
            "implicit_gemm",
            "im2col",
            "channels_last",
        ],  # a fork's
        "workspace_size": ["0", "1", "250000000"],  # a fork's
        "dilation": ["1", "2"],
        "dilation_h": ["1", "3"],
        "dilation_w": ["1", "3"],  # Caffe's
        "group": ["1", "2"],
        "bias": ["true", "false"],  # Caffe's, and simgen's
        "conv_fwd_pref": PREFERENCES,
        "conv_bwd_filter_pref": PREFERENCES,
        "conv_bwd_data_pref": PREFERENCES,
        **{
            f"conv_{way}_limit": ["0", "4096"] for way in ("fwd", "bwd_filter", "bwd_data")
        },  # simgen's
        "layout": ["nchw", "nhwc"],
        "filter_layout": ["kcrs", "krsc"],  # simgen's
    },
    Pooling: {
        "pool_mode": ["max", "avg", "avg_include_padding", "avg_exclude_padding"],
        **EXTENTS,
        "round_mode": ["floor", "ceil"],  # Caffe's
        "pad_behind_h": ["0", "2"],
        "pad_behind_w": ["0", "1"],  # ONNX's, of windows that are not in the middle
    },
    LRN: {
        "lrn_mode": ["cross_channel_dim1", "within_channel"],
        "local_size": ["1", "5"],
        "alpha": ["0", "0.0001"],
        "beta": ["0.75"],
        "k": ["1", "2.0"],
    },
    FullyConnected: {
        "num_output": ["1", "4096"],
        "bias": ["true", "false"],  # simgen's
        "axis": ["1", "-1"],  # Caffe's
    },
    BatchNorm: {
        "batchnorm_mode": ["per_activation", "spatial"],
        "batchnorm_statistics": ["batch", "running"],  # not DNNMark's
        "save_intermediates": ["true", "false"],
        "exp_avg_factor": ["0", "0.5", "1"],
        "epsilon": ["1e-5", "2e-5", "1e-12"],  # DNNMark takes 1e-5 at least
    },
    Dropout: {"dropout_probability": ["0", ".5", "1"], "random_seed": ["0", "777"]},
    Bypass: {},
}
DEFAULTS: dict[type[Layer], dict[str, str]] = {
    Convolution: {
        "conv_mode": "cross_correlation", "num_output": "32", "kernel_size": "5", "pad": "2",
        "stride": "1", "propagation": "true", "algo": "0", "algod": "0",
        "conv_fwd_pref": "fastest", "conv_bwd_filter_pref": "fastest",
        "conv_bwd_data_pref": "fastest",
    },
    Pooling: {"pool_mode": "max", "kernel_size": "3", "pad": "0", "stride": "2"},
    LRN: {
        "lrn_mode": "cross_channel_dim1", "local_size": "5", "alpha": "1e-4", "beta": "0.75",
        "k": "2",
    },
    FullyConnected: {"num_output": "4096"},
    BatchNorm: {
        "batchnorm_mode": "per_activation", "save_intermediates": "true", "exp_avg_factor": "1",
        "epsilon": "1e-5", "batchnorm_statistics": "batch",
    },
    Dropout: {"dropout_probability": "0.5", "random_seed": "0"},
    Bypass: {},
}  # fmt: skip
EVERY = pytest.mark.parametrize("layer", DNNMARK, ids=lambda layer: layer.section)


def made(layer: type[Layer], **entries: object) -> Layer:
    return layer.from_config([(k, str(v), f"f:{i}") for i, (k, v) in enumerate(entries.items(), 1)])


def refusal(layer: type[Layer], **entries: object) -> str:
    with pytest.raises(ConfigError) as caught:
        made(layer, **entries)
    return str(caught.value)


@EVERY
def test_every_key_and_value_of_dnnmark_is_accepted_and_matters(layer):
    known = {name for f in fields_of_floats(layer) for name in f.metadata["keys"]}
    assert known == set(DNNMARK[layer])
    for key, values in DNNMARK[layer].items():
        results = {made(layer, **{key: value}) for value in values}
        assert len(results) == len(values), key


@EVERY
def test_defaults_are_those_of_dnnmark(layer):
    assert made(layer, **DEFAULTS[layer]) == layer()


@EVERY
def test_the_layer_is_registered(layer):
    assert LAYERS[layer.kind] is layer


@EVERY
def test_an_unknown_key_is_refused(layer):
    assert refusal(layer, prevous_layer="x").endswith("did you mean 'previous_layer'?")
    for key in layer.config_keys():
        message = refusal(layer, **{f"{key}z": "1"})
        assert message.startswith(f"f:1: unknown key '{key}z' in [{layer.section}]; did you mean '")


@EVERY
def test_a_misspelt_value_is_refused(layer):
    for key, values in DNNMARK[layer].items():
        for value in values:
            if value.isidentifier() and value not in ("true", "false"):
                expected = f"f:1: {key} is '{value}s'; did you mean '{value}'?"
                assert refusal(layer, **{key: f"{value}s"}) == expected


@census(
    "layer, key, value, fact",
    [
        (Convolution, "num_output", "0", "num_output is 0; it must be at least 1"),
        (Convolution, "kernel_size_w", "-1", "kernel_size_w is -1; it must be at least 1"),
        (Convolution, "pad", "-1", "pad is -1; it must be at least 0"),
        (Convolution, "stride_h", "0", "stride_h is 0; it must be at least 1"),
        (Convolution, "kernel_size", str(2**31), "kernel_size is 2147483648; it must be at most"),
        (Convolution, "kernel_size", "3.5", "kernel_size is '3.5'; write a whole number"),
        (Convolution, "kernel_size", "", "kernel_size is ''; write a whole number"),
        (Convolution, "propagation", "0", "propagation is '0'; write true or false"),
        (Pooling, "stride", "0", "stride is 0; it must be at least 1"),
        (LRN, "k", "0", "k is 0.0; it must be at least 1e-05"),
        (LRN, "alpha", "nan", "alpha is 'nan'; write a finite number"),
        (BatchNorm, "epsilon", "0", "epsilon is 0.0; it must be at least 1e-12"),
        (BatchNorm, "exp_avg_factor", "1.1", "exp_avg_factor is 1.1; it must be at most 1"),
        (Dropout, "dropout_probability", "1.01", "dropout_probability is 1.01; it must be at most"),
        (Dropout, "random_seed", "-1", "random_seed is -1; it must be at least 0"),
        (FullyConnected, "num_output", "four", "num_output is 'four'; write a whole number"),
    ],
)
def test_values_out_of_range_are_refused(layer, key, value, fact):
    assert refusal(layer, **{key: value}).startswith(f"f:1: {fact}")


@pytest.mark.parametrize("layer", [Convolution, Pooling])
def test_the_last_key_to_set_an_extent_wins(layer):
    both = made(layer, kernel_size_h=7, kernel_size=3, kernel_size_w=4)
    assert (both.kernel_h, both.kernel_w) == (3, 4)
    assert made(layer, pad=2, pad_h=1).pad_w == 2
    assert made(layer, stride_w=5).stride_h == layer().stride_h


@EVERY
def test_the_sample_is_a_valid_config(layer):
    own = {k: v for k, v in layer.sample.items() if k not in COMMON_KEYS}
    x = TensorSpec(tuple(int(layer.sample[extent]) for extent in "nchw"))
    y = made(layer, **own).output((x,))
    assert prod(y.shape) > 0


@census("kind", sorted(LAYERS))
def test_the_reference_says_what_each_key_is(kind):
    for each in LAYERS[kind].keyed_fields():
        assert 4 < len(each.metadata["text"]) < 90, each.name


CONV = (
    "propagation algo data_algo forward_algo workspace_nbytes forward_preference "
    "forward_limit filter_limit data_limit filter_preference data_preference"
)


def test_which_keys_are_hints() -> None:
    """Those of which an empty one is none, and that do not change what a layer computes."""
    found = {
        kind: " ".join(each.name for each in fields(layer) if each.metadata.get("hint"))
        for kind, layer in LAYERS.items()
    }
    assert {kind: names for kind, names in found.items() if names} == {
        "all_reduce": "route", "attention": "algo", "attention_sum": "vocabulary zipf",
        "bcm_fc": "optimization",
        "conv": CONV, "fused_conv": CONV, "embedding": "zipf",
        "expert_blocks": "skew", "experts": "skew", "input": "deviation", "recurrent": "algo",
    }  # fmt: skip
