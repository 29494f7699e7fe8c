"""Fused layers write the same bits as the layers by themselves, with every algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from simgen.bundle import results
from simgen.bundle import writing as bundles
from simgen.check.diff import diff
from simgen.compile.build import Builder
from simgen.compile.cache import Cache
from simgen.frontend import config, network
from simgen.frontend.fusion import fuse
from simgen.ir import Pass
from simgen.running import process
from simgen.targets.host import Host
from simgen.tensors import data_file
from simgen.workload import lowering

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

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


def computed(place: Path, found: network.Network) -> NDArray[np.float32]:
    made = lowering.lower(found, "test", [Pass.FORWARD], 0)
    builder = Builder(Cache(place / "cache"))
    bundle = bundles.write(place / "b", made, [Host(sanitize=True)], builder, PROVENANCE)
    folder = process.run(bundle, "host", timeout=300)
    result = results.collect(bundle, Host(sanitize=True), folder)
    report = diff(made, data_file.load(bundle.path / bundles.DATA, made), result, None)
    assert report.passed, report.first_diverging
    y: NDArray[np.float32] = np.asarray(result.outputs["act.y"].values)
    return y


PROVENANCE = {"simgen": "test", "config": {}}


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_as_apart(tmp_path: Path, name: str) -> None:
    found = network.resolve(config.parse("\n".join(CASES[name]), "test"))
    apart = computed(tmp_path / "apart", found)
    together = computed(tmp_path / "fused", fuse(found, [Pass.FORWARD]))
    assert len(np.unique(apart)) > apart.size // 4
    np.testing.assert_array_equal(together.view(np.uint32), apart.view(np.uint32))
