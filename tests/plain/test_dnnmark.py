"""Workloads as DNNMark runs them: the config in its grammar, its program, what it cannot do."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from census import census
from handmade import BOTH, lowered, lowered_text

from simgen.errors import ConfigError
from simgen.frontend import config, network
from simgen.ground.ir import Pass
from simgen.workload import lowering
from simgen_rocm import dnnmark

# DNNMark's core/include/dnn_config_keywords.h.
PLACE = ["name", "n", "c", "h", "w", "previous_layer"]
WINDOW = [
    "kernel_size", "pad", "stride", "kernel_size_h", "kernel_size_w", "pad_h", "pad_w",
    "stride_h", "stride_w",
]  # fmt: skip
KEYWORDS = {
    "Convolution": [
        "conv_mode", "algo", "algod", "propagation", "num_output", *WINDOW,
        "conv_fwd_pref", "conv_bwd_filter_pref", "conv_bwd_data_pref",
    ],
    "Pooling": ["pool_mode", *WINDOW],
    "LRN": ["lrn_mode", "local_size", "alpha", "beta", "k"],
    "Activation": ["activation_mode"],
    "FullyConnected": ["num_output"],
    "Softmax": ["softmax_algo", "softmax_mode"],
    "BatchNorm": ["batchnorm_mode", "save_intermediates", "exp_avg_factor", "epsilon"],
    "Bypass": [],
}  # fmt: skip
KINDS = ("conv", "pool", "lrn", "activation", "softmax", "bn", "bypass", "fc")
EXTENTS = (("n", "3"), ("c", "5"), ("h", "9"), ("w", "11"))
COMPOSED = """
[Convolution]
name=conv1
n=2
c=3
h=32
w=32
num_output=4
kernel_size=5
pad=2
[Pooling]
name=pool1
previous_layer=conv1
[FullyConnected]
name=fc1
previous_layer=pool1
num_output=6
"""


def small(kind, direction):
    return lowered(f"{kind}_{direction}", *EXTENTS)


def entries(text):
    """Section -> its entries, of a config with one section of each layer."""
    found = config.parse(text, "net.dnnmark").sections
    return {section.name: {e.key: e.value for e in section.entries} for section in found}


# ------------------------------------------------------------------ the config


@census("direction", ["fwd", "bwd"])
@census("kind", KINDS)
def test_every_key_is_one_of_dnnmark_s(kind, direction):
    general, layer = config.parse(
        dnnmark.config(dnnmark.plan(small(kind, direction))), "x"
    ).sections
    assert [(e.key, e.value) for e in general.entries] == [("run_mode", "standalone")]
    assert {entry.key for entry in layer.entries} <= {*PLACE, *KEYWORDS[layer.name]}


@pytest.mark.parametrize("kind", KINDS)
def test_the_config_says_the_same_when_it_is_read_again(kind):
    run = dnnmark.plan(small(kind, "bwd"))
    text = dnnmark.config(run)
    read = network.resolve(config.parse(text, "again.dnnmark"))
    again = lowering.lower(read, "again", (Pass.BACKWARD,), 0)
    assert dnnmark.config(dnnmark.plan(again)) == text.replace(
        "# conv: conv_mode=cross_correlation in place of convolution, which DNNMark built for ROCm "
        "takes for a transposed one; the work is the same\n",
        "",
    )


def test_only_a_first_layer_says_its_extents():
    found = entries(dnnmark.config(dnnmark.plan(lowered_text(COMPOSED))))
    assert found["DNNMark"] == {"run_mode": "composed"}
    assert [found["Convolution"][key] for key in ("n", "c", "h", "w")] == ["2", "3", "32", "32"]
    assert found["Convolution"]["previous_layer"] == "null"
    assert found["Pooling"]["previous_layer"] == "conv1"
    assert not {"n", "c", "h", "w"} & {*found["Pooling"], *found["FullyConnected"]}


def test_settings_are_resolved():
    found = entries(dnnmark.config(dnnmark.plan(lowered("lrn_fwd", *EXTENTS, ("k", "1.5")))))
    assert found["LRN"]["k"] == "1.5"
    assert found["LRN"]["local_size"] == "5"  # a default of simgen's, which must not be DNNMark's


def test_a_pass_of_the_filters_alone_does_not_propagate():
    for word, says in (("conv_bwd_weight", "false"), ("conv_bwd", "true")):
        found = entries(dnnmark.config(dnnmark.plan(lowered(word, *EXTENTS))))
        assert found["Convolution"]["propagation"] == says


def test_what_differs_is_told_in_comments():
    floor = lowered("pool_fwd", ("h", "8"), ("w", "8"), ("round_mode", "floor"))
    text = dnnmark.config(dnnmark.plan(floor))
    assert "# pool: DNNMark's results are 4 x 4, not 3 x 3; with round_mode=ceil both" in text
    ceil = lowered("pool_fwd", ("h", "8"), ("w", "8"))
    assert "#" not in dnnmark.config(dnnmark.plan(ceil))


# ------------------------------------------------------------------ what it cannot do


@census(
    "word, setting, fact",
    [
        ("dropout_fwd", None, "has no [Dropout]"),
        ("gemm_fwd", None, "has no [Gemm]"),
        ("softmax_fwd", ("softmax_algo", "log"), "softmax_algo=log: DNNMark built for ROCm"),
        ("bn_fwd", ("epsilon", "9e-6"), "DNNMark stops at epsilon=9e-06, which is less than 1e-05"),
        ("softmax_fwd", ("softmax_mode", "instance"), "set softmax_mode=channel"),
        ("activation_fwd", ("activation_mode", "clipped_relu"), "activation_mode=clipped_relu"),
        ("pool_fwd", ("pool_mode", "avg_include_padding"), "pool_mode=avg_include_padding"),
        ("bn_fwd", ("save_intermediates", "false"), "set save_intermediates=true"),
        ("bn_fwd", ("batchnorm_statistics", "running"), "no key 'batchnorm_statistics'"),
        ("conv_fwd", ("conv_mode", "transpose"), "conv_mode=transpose"),
        ("conv_fwd", ("algo", "direct"), "algo=direct"),
        ("conv_fwd", ("group", "1"), None),
        ("conv_fwd", ("dilation", "2"), "no key 'dilation_h'; set dilation_h=1"),
        ("conv_fwd", ("bias", "true"), "no key 'bias'; set bias=false"),
        ("pool_bwd", ("kernel_size", "16"), "windows of up to 255 elements"),
        ("pool_fwd", ("kernel_size", "16"), None),
    ],
)
def test_what_dnnmark_lacks_is_refused(word, setting, fact):
    work = lowered(word, *([setting] if setting else []))
    if fact is None:
        dnnmark.plan(work)
        return
    with pytest.raises(ConfigError) as caught:
        dnnmark.plan(work)
    message = str(caught.value)
    assert fact in message
    assert message.startswith("layer '")
    assert "; " in message
    assert "\n" not in message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("word", ["fc_bwd_weight", "fc_bwd_data", "conv_bwd_data"])
def test_a_part_of_a_backward_pass_is_refused(word):
    with pytest.raises(ConfigError, match="build with --pass bwd"):
        dnnmark.plan(lowered(word, ("n", "2"), ("c", "4")))


# ------------------------------------------------------------------ the program


@census("direction", ["fwd", "bwd"])
@census("kind", KINDS)
def test_a_layer_has_a_program_for_each_pass(kind, direction):
    run = dnnmark.plan(small(kind, direction))
    assert run.program == f"test_{direction}_{kind}"
    assert run.executable == f"dnnmark_test_{direction}_{kind}"
    assert not run.composed


@pytest.mark.parametrize(
    ("layers", "passes", "program"),
    [
        (3, (Pass.FORWARD,), "test_fwd_composed_model"),
        (3, (Pass.BACKWARD,), "test_bwd_composed_model"),
        (1, BOTH, "test_composed_model"),
        (3, BOTH, "test_composed_model"),
        (4, BOTH, "test_alexnet"),
        (21, BOTH, "test_alexnet"),
        (22, BOTH, "test_VGG"),
        (58, BOTH, "test_VGG"),
    ],
)
def test_a_network_has_a_program_with_enough_handles(layers, passes, program):
    run = dnnmark.plan(lowered_text(chain(layers), passes))
    assert run.program == program
    assert run.composed


@pytest.mark.parametrize(
    ("layers", "passes", "cure"),
    [(4, (Pass.FORWARD,), "--pass fwd,bwd"), (59, BOTH, "take fewer with --layers")],
)
def test_a_network_beyond_the_handles_is_refused(layers, passes, cure):
    with pytest.raises(ConfigError, match=cure):
        dnnmark.plan(lowered_text(chain(layers), passes))


def chain(layers):
    text = "[Bypass]\nname=l0\nn=2\nc=3\nh=1\nw=1\n"
    return text + "".join(
        f"[Bypass]\nname=l{at}\nprevious_layer=l{at - 1}\n" for at in range(1, layers)
    )


# ------------------------------------------------------------------ shapes and sizes


def test_pooling_is_rounded_up_and_the_next_layer_sees_it():
    conv, pool, fc = dnnmark.plan(lowered_text(COMPOSED)).layers
    assert conv.y == (2, 4, 32, 32)
    assert pool.x == conv.y
    assert pool.y == (2, 4, 16, 16)
    assert fc.x == pool.y
    assert fc.parameters == (4 * 16 * 16 * 6,)


def test_backward_runs_from_the_last_layer_to_the_first():
    run = dnnmark.plan(lowered_text(COMPOSED, BOTH))
    found = [(layer, str(direction)) for layer, direction, _ in dnnmark.dispatches(run)]
    assert found == [
        ("conv1", "fwd"), ("pool1", "fwd"), ("fc1", "fwd"),
        ("fc1", "bwd_weight"), ("fc1", "bwd_data"), ("pool1", "bwd"),
        ("conv1", "bwd_weight"), ("conv1", "bwd_data"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "settings", "nbytes"),
    [
        ("softmax_fwd", (("n", "100"), ("c", "1000")), 400_000),
        # y, dy and x. Of 400000 bytes 97 pages count, so that the third begins at 194 pages.
        ("softmax_bwd", (("n", "100"), ("c", "1000")), 2 * 97 * 4096 + 400_000),
        # Weights of 20 bytes, which count for no page, and x behind them.
        ("fc_fwd", (("n", "2"), ("c", "5"), ("num_output", "1")), 40),
    ],
)
def test_the_mapped_file_is_as_large_as_what_is_read_from_it(word, settings, nbytes):
    assert dnnmark.mapped_nbytes(dnnmark.plan(lowered(word, *settings))) == nbytes


def test_the_memory_holds_all_tensors_and_their_gradients():
    work = lowered("lrn_bwd", *EXTENTS)
    tensors = 4 * 3 * 5 * 9 * 11 * 4
    assert dnnmark.memory_nbytes(dnnmark.plan(work)) > tensors + dnnmark.RUNTIME_NBYTES


@pytest.mark.parametrize("optimization", ["NO", "O1", "O2", "KF"])
def test_block_circulant_layers_have_all_keys_of_their_branch(simgen, tmp_path, optimization):
    config = tmp_path / "bcm.dnnmark"
    config.write_text(
        "[DNNMark]\nrun_mode=standalone\n\n[BCMFullyConnected]\nname=relu1\nn=3025\nc=384\nh=1\nw=1\n"
        f"num_output=128\nblock_size=16\noptimization={optimization}\n"
    )
    assert simgen(f"show {config} --pass fwd,bwd").code == 0
    done = simgen(f"show {config} --set block_size=48")
    assert done.code == 2
    assert "block_size is 48; let it be one of 2, 4, 8, 16, 32, 64" in done.err
    done = simgen(f"show {config} --set block_size=64 --set c=200")
    assert "200 inputs of an image are not whole blocks of 64; choose another" in done.err


def test_a_convolution_has_its_image_unrolled_for_each_pass():
    layer = SimpleNamespace(kind="conv", kernel_h=3, kernel_w=5)
    placed = SimpleNamespace(layer=layer, x=(2, 4, 9, 9), y=(2, 6, 7, 8), passes=(1, 2))
    assert dnnmark._workspace(placed) == 2 * (4 * 3 * 5) * (7 * 8)
