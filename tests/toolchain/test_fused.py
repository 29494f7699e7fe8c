"""Fused layers write the same bits as the layers by themselves, with every algorithm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from layer_bundles import failures, make

from simgen.frontend import config, network
from simgen.frontend.fusion import fuse
from simgen.ground.ir import Pass
from simgen.targets.host import Host
from simgen.workload import lowering

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

CONV = "[Convolution]\nname=conv\nn=2\nc=5\nh=9\nw=12\nnum_output=10\nkernel_size=3\npad=1\n"
DEEP = "[Convolution]\nname=conv\nn=1\nc=96\nh=4\nw=4\nnum_output=6\nkernel_size=3\npad=1\n"
TURNED = CONV + "stride=2\nconv_mode=transpose\n"
FC = "[FullyConnected]\nname=fc\nn={}\nc={}\nnum_output={}\nbias=true\n"
BN = (
    "[BatchNorm]\nname=bn\nbatchnorm_mode=spatial\nbatchnorm_statistics=running\n"
    "previous_layer={}\n"
)
ACT = "[Activation]\nname=act\nactivation_mode={}\nprevious_layer={}\n"
CASES = {
    **{
        f"{algorithm}-{what}": (CONV + f"algo={algorithm}\n{extra}", *after)
        for algorithm in ("direct", "implicit_gemm", "im2col", "winograd", "fft")
        for what, extra, after in (
            ("relu", "", (ACT.format("relu", "conv"),)),
            ("bias-tanh", "bias=true\n", (ACT.format("tanh", "conv"),)),
            ("bn-relu", "bias=true\n", (BN.format("conv"), ACT.format("relu", "bn"))),
        )
    },
    "split": (DEEP + "algo=implicit_gemm\n", BN.format("conv"), ACT.format("elu", "bn")),
    "phases": (TURNED, BN.format("conv"), ACT.format("sigmoid", "bn")),
    "groups": (CONV + "group=5\n", BN.format("conv"), ACT.format("clipped_relu", "bn")),
    "fc-few": (FC.format(3, 300, 9), ACT.format("relu", "fc")),
    "fc-split": (FC.format(2, 5000, 9), BN.format("fc"), ACT.format("relu", "bn")),
    "fc-tiles": (FC.format(40, 70, 37), BN.format("fc"), ACT.format("soft_relu", "bn")),
}


def renamed(name: str) -> str:
    """The sections of a case, whose layers are called after it."""
    text = "\n".join(CASES[name])
    return re.sub(r"^(name|previous_layer)=(.*)$", rf"\1={name}-\2", text, flags=re.M)


def computed(
    place: Path, found: network.Network, builder: Builder
) -> dict[str, NDArray[np.float32]]:
    """Case -> its last result, which the reference says to be right."""
    made = lowering.lower(found, "test", [Pass.FORWARD], 0)
    run = make(place, made, builder, sanitize=True)
    assert not failures(run.good())
    outputs = run.outputs()
    return {name: outputs[f"{name}-act.y"] for name in CASES}


def test_the_same_bits_as_apart(tmp_path: Path, builder: Builder) -> None:
    """All cases beside each other, so that few programs have them."""
    apart = network.resolve(config.parse("\n".join(map(renamed, CASES)), "test"))
    fused = fuse(apart, [Pass.FORWARD])
    assert len(fused.layers) == len(CASES)
    alone = computed(tmp_path / "apart", apart, builder)
    together = computed(tmp_path / "fused", fused, builder)
    for name, y in alone.items():
        assert len(np.unique(y)) > y.size // 4, name
        np.testing.assert_array_equal(together[name].view(np.uint32), y.view(np.uint32), name)
