"""Layers that become one: which do, which do not, and what the workload is then."""

from __future__ import annotations

import pytest

from simgen.errors import ConfigError, UsageError
from simgen.frontend import config, network
from simgen.frontend.fusion import fuse
from simgen.ground.ir import Pass, Workload, from_json, to_json
from simgen.workload import costs, lowering

CONV = "[Convolution]\nname=conv\nn=2\nc=3\nh=6\nw=6\nnum_output=4\nkernel_size=3\npad=1\n"
BN = "[BatchNorm]\nname=bn\nbatchnorm_mode={}\nbatchnorm_statistics={}\nprevious_layer={}\n"
RELU = "[Activation]\nname=relu\nactivation_mode=relu\nprevious_layer={}\n"
POOL = "[Pooling]\nname=pool\nkernel_size=2\nstride=2\nprevious_layer={}\n"
FC = "[FullyConnected]\nname=fc\nnum_output=5\nprevious_layer={}\n"


def resolved(*sections: str) -> network.Network:
    return network.resolve(config.parse("\n".join(sections), "test"))


def fused(*sections: str) -> Workload:
    found = fuse(resolved(*sections), [Pass.FORWARD])
    return lowering.lower(found, "test", [Pass.FORWARD], 0)


def kinds(made: Workload) -> dict[str, str]:
    return {node.name: node.kind for node in made.nodes}


def test_what_follows_is_done_in_the_same_kernel() -> None:
    made = fused(
        CONV, BN.format("spatial", "running", "conv"), RELU.format("bn"), FC.format("relu")
    )
    assert kinds(made) == {"relu": "fused_conv", "fc": "fc"}
    assert [len(step.launches) for step in made.steps] == [1, 1]
    names = {buffer.name for buffer in made.buffers}
    assert {"conv.x", "conv.w", "bn.w", "bn.running_var", "relu.y", "fc.w", "fc.y"} <= names
    assert not {"conv.y", "bn.y"} & names


def test_it_reads_the_tensors_that_the_layers_would_read() -> None:
    sections = (CONV + "bias=true\n", BN.format("spatial", "running", "conv"), RELU.format("bn"))
    made, apart = fused(*sections), lowering.lower(resolved(*sections), "test", [Pass.FORWARD], 0)
    inputs = {(b.name, b.spec, b.fill) for b in made.inputs}
    assert inputs == {(b.name, b.spec, b.fill) for b in apart.inputs}


def test_the_workload_comes_back_from_its_file() -> None:
    made = fused(CONV, RELU.format("conv") + "activation_ceiling=3\n")
    again = from_json(Workload, to_json(made))
    assert again == made
    layer = network.make_layer(again.nodes[0], again.machine)
    assert layer.lower(again.nodes[0].inputs, Pass.FORWARD).kernels == made.kernels


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ((CONV, RELU.format("conv")), {"relu": "fused_conv"}),
        ((CONV, BN.format("spatial", "running", "conv")), {"bn": "fused_conv"}),
        ((CONV, FC.format("conv"), RELU.format("fc")), {"conv": "conv", "relu": "fused_fc"}),
        (
            (CONV, FC.format("conv"), BN.format("per_activation", "running", "fc")),
            {"conv": "conv", "bn": "fused_fc"},
        ),
        (  # only up to what a kernel cannot do
            (CONV, RELU.format("conv"), BN.format("spatial", "running", "relu")),
            {"relu": "fused_conv", "bn": "bn"},
        ),
    ],
)
def test_chains(sections: tuple[str, ...], expected: dict[str, str]) -> None:
    assert kinds(fused(*sections)) == expected


@pytest.mark.parametrize(
    "sections",
    [
        (CONV,),
        (CONV, POOL.format("conv"), RELU.format("pool")),
        (CONV, RELU.format("conv"), POOL.format("conv")),  # two readers
        (
            CONV,
            BN.format("spatial", "batch", "conv"),
            RELU.format("bn"),
        ),  # statistics are not known
        (CONV, BN.format("per_activation", "running", "conv")),  # not one for each channel
    ],
)
def test_what_cannot_be_fused_is_told(sections: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"--fuse: no \[Convolution\]"):
        fused(*sections)


def test_a_fused_layer_with_an_impossible_choice_is_refused_at_its_line() -> None:
    text = CONV.replace("Convolution", "FusedConvolution") + "stride=2\nalgod=winograd\n"
    with pytest.raises(ConfigError, match=r"^test:1: layer 'conv': filters of 3 x 3 with stride 2"):
        resolved(text)


@pytest.mark.parametrize("passes", [[Pass.BACKWARD], [Pass.FORWARD, Pass.BACKWARD]])
def test_backward_passes_are_refused(passes: list[Pass]) -> None:
    with pytest.raises(UsageError, match="--fuse: a backward pass reads"):
        fuse(resolved(CONV, RELU.format("conv")), passes)


def test_operations_stay_and_traffic_falls() -> None:
    sections = (CONV, BN.format("spatial", "running", "conv"), RELU.format("bn"))
    apart = costs.total(
        costs.costs_of(lowering.lower(resolved(*sections), "test", [Pass.FORWARD], 0))
    )
    made = costs.total(costs.costs_of(fused(*sections)))
    assert (made.flops, made.transcendentals) == (apart.flops, apart.transcendentals)
    between = 2 * 2 * 4 * 6 * 6 * 4  # two tensors, 2 x 4 x 6 x 6 elements each
    assert made.written_bytes == apart.written_bytes - between
    assert made.read_bytes == apart.read_bytes - between
