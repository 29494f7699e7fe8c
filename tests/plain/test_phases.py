"""A whole network for inference or for training: what its layers do, and which are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simgen.errors import ConfigError
from simgen.frontend import config, network, problem
from simgen.frontend.fusion import fuse
from simgen.ground.ir import Pass
from simgen.layers import LAYERS
from simgen.layers.base import Phase

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import Simgen

CONV = "[Convolution]\nname=conv\nn=2\nc=3\nh=6\nw=6\nnum_output=4\nkernel_size=3\npad=1\n"
BN = "[BatchNorm]\nname=bn\nbatchnorm_mode=spatial\nprevious_layer=conv\n"
DROPOUTS = "[Dropout]\nname=drop1\nprevious_layer=bn\n[Dropout]\nname=drop2\nprevious_layer=drop1\n"
JOIN = "[Add]\nname=sum\nprevious_layer=drop2,bn\n"
LAST = "[Dropout]\nname=last\nprevious_layer=sum\n"


def resolved(text: str, phase: Phase | None, *settings: tuple[str, str]) -> network.Network:
    return network.resolve(config.parse(text, "test"), settings, phase=phase)


def test_inference_has_running_statistics_and_no_dropout() -> None:
    found = resolved(CONV + BN + DROPOUTS + JOIN + LAST, Phase.INFERENCE)
    assert [each.node.name for each in found.layers] == ["conv", "bn", "sum"]
    assert found.layers[1].layer.frozen  # type: ignore[attr-defined]
    assert found.layers[2].previous == ("bn", "bn"), "readers read what the dropout read"


def test_training_has_statistics_of_the_batch_whatever_the_config_says() -> None:
    frozen = BN + "batchnorm_statistics=running\n"
    for phase, expected in ((None, True), (Phase.TRAINING, False)):
        found = resolved(CONV + frozen + DROPOUTS, phase)
        assert found.layers[1].layer.frozen is expected  # type: ignore[attr-defined]
        assert [each.node.kind for each in found.layers] == ["conv", "bn", "dropout", "dropout"]


def test_a_setting_decides_for_its_layer() -> None:
    own = ("bn.batchnorm_statistics", "batch")
    found = resolved(CONV + BN, Phase.INFERENCE, own)
    assert not found.layers[1].layer.frozen  # type: ignore[attr-defined]


def test_a_first_layer_that_does_nothing_is_refused_at_its_line() -> None:
    text = "[Dropout]\nname=drop\nn=2\nc=3\nh=1\nw=1\n[Bypass]\nname=copy\nprevious_layer=drop\n"
    with pytest.raises(ConfigError, match=r"test:1: layer 'drop' is first and does nothing in inf"):
        resolved(text, Phase.INFERENCE)


def test_a_circle_of_layers_that_do_nothing_is_one() -> None:
    text = CONV + "[Dropout]\nname=a\nprevious_layer=b\n[Dropout]\nname=b\nprevious_layer=a\n"
    reader = "[Bypass]\nname=copy\nprevious_layer=a\n"
    with pytest.raises(ConfigError, match="in a circle"):
        resolved(text + reader, Phase.INFERENCE)


def test_phases_are_settings_of_the_layers() -> None:
    for layer in LAYERS.values():
        for entries in layer.phases.values():
            assert entries.keys() <= layer.config_keys().keys()


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnet50_v1"])
def test_the_networks_that_come_with_simgen_can_be_fused_for_inference(name: str) -> None:
    found = network.resolve(problem.find(name, (), None).config, phase=Phase.INFERENCE)
    made = fuse(found, [Pass.FORWARD])
    kinds = [each.node.kind for each in made.layers]
    assert "bn" not in kinds
    convolutions = sum(each.node.kind == "conv" for each in found.layers)
    assert kinds.count("fused_conv") == convolutions


def test_training_runs_all_passes_unless_told(simgen: Simgen) -> None:
    def passes(words: str) -> set[str]:
        steps = simgen(f"show lenet5 {words} --json").json()["workload"]["steps"]
        return {step["direction"] for step in steps}

    assert {"fwd", "sgd"} < passes("--training")
    assert passes("--training --pass fwd") == {"fwd"}
    assert passes("--inference") == {"fwd"}


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ("resnet18 --inference --pass fwd,bwd", "--inference: "),
        ("resnet18 --fuse", "add --inference, or leave it out"),
        ("conv_fwd --layers drop", "no layer named"),
        ("lenet5 --training --layers ip1..softmax", "'loss' in the place of 'softmax'; write loss"),
    ],
)
def test_what_does_not_go_together_is_one_line(simgen: Simgen, words: str, fact: str) -> None:
    done = simgen(f"show {words}")
    assert done.code == 2
    assert fact in done.err
    assert done.err.count("\n") == 1


def test_the_command_is_told_again(simgen: Simgen, tmp_path: Path) -> None:
    out = simgen(f"build conv_fwd --inference --target host --set n=1 -o {tmp_path / 'b'}").out
    assert " --inference " in next(line for line in out.splitlines() if "reproduce" in line)
