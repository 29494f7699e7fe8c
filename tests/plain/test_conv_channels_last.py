"""Convolutions of copies with channels last: what they write, and where there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from launch_geometry import problems_of

import simgen
from simgen.errors import ConfigError
from simgen.frontend import network, problem
from simgen.ground.ir import Pass
from simgen.ground.machine import find

if TYPE_CHECKING:
    from simgen.frontend.network import Placed

PASSES = {
    "conv_fwd": Pass.FORWARD,
    "conv_bwd_data": Pass.BACKWARD_DATA,
    "conv_bwd_weight": Pass.BACKWARD_WEIGHT,
}
SETTINGS = (
    "n=2 c=20 h=9 w=7 num_output=40 kernel_size=3 pad=1",
    "n=3 c=64 h=8 w=6 num_output=72 kernel_size=1 pad=0 stride=2",
    "n=3 c=5 h=9 w=11 num_output=24 kernel_size=3 pad=1 stride=2 conv_mode=cross_correlation",
    "n=3 c=24 h=8 w=12 num_output=40 kernel_size=3 pad=1 stride=2",
    "n=3 c=64 h=8 w=9 num_output=72 kernel_size=1 pad=0",
    "n=4 c=72 h=33 w=31 num_output=130 kernel_size=1 pad=1",
)


def placed(name: str, settings: str, machine: str = "h200", dtype: str = "bf16") -> Placed:
    given = tuple(tuple(each.split("=")) for each in settings.split())
    found = problem.find(name, (*given, ("algo", "channels_last")), None)  # type: ignore[arg-type]
    planned = find(machine, "test")
    (layer,) = network.resolve(found.config, found.settings, machine=planned, dtype=dtype).layers
    return layer


@pytest.mark.parametrize("machine", ["h200", "a100"])
@pytest.mark.parametrize("name", PASSES)
def test_each_element_is_written_once(name: str, machine: str) -> None:
    wrong = []
    for settings in SETTINGS:
        one = placed(name, settings, machine)
        lowering = one.layer.lower(one.node.inputs, PASSES[name])
        ports = one.layer.ports(one.node.inputs, PASSES[name])
        wrong += problems_of(lowering, [port for port in ports if port.fill is None])
        templates = {kernel.template for kernel in lowering.kernels}
        assert templates & {"conv_last.hip", "conv_last_filters.hip"}
    assert not wrong


# (machine, n, c, h, filters, their side, stride) -> of y and of dx: rows x columns x depth of a
# tile, its stages, splits and work-items that move factors; of the filters the same.
PLANNED = {
    ("h200", 1, 64, 56, 64, 3, 1): "16x64x64x8x1x0 64x16x64x8x1x0 64x64x64x8x10x128",
    ("h200", 8, 256, 14, 1024, 1, 1): "64x128x64x4x1x128 64x128x64x8x1x128 64x64x64x8x1x128",
    ("h200", 256, 1024, 14, 256, 1, 1): "128x256x64x4x1x0 128x128x64x6x1x128 128x64x64x8x4x128",
    ("h200", 100, 192, 17, 320, 3, 1): "128x256x64x4x1x0 128x256x64x4x1x0 128x256x64x4x6x0",
    ("h200", 5, 512, 28, 128, 1, 1): "64x128x64x8x1x128 64x64x64x2x1x128 64x64x64x8x6x128",
    ("a100", 1, 64, 56, 64, 3, 1): "16x64x64x8x1x0 64x16x64x8x1x0 64x64x64x8x10x0",
    ("a100", 256, 1024, 14, 256, 1, 1): "128x128x64x2x1x0 128x128x64x2x1x0 128x128x64x5x6x0",
    ("a100", 100, 192, 17, 320, 3, 1): "64x128x64x3x1x0 64x128x64x6x1x0 128x128x64x5x2x0",
}
TILE = ("tile_m", "tile_n", "tile_k", "stages", "splits", "movers")


@pytest.mark.parametrize("plan", PLANNED, ids=lambda each: "-".join(map(str, each)))
def test_which_tiles_are_planned(plan: tuple[str, int, int, int, int, int, int]) -> None:
    machine, n, c, h, filters, side, stride = plan
    settings = (
        f"n={n} c={c} h={h} w={h} num_output={filters} kernel_size={side} stride={stride} "
        f"pad={side // 2}"
    )
    found = []
    for name, direction in PASSES.items():
        one = placed(name, settings, machine, "f16")
        for kernel in one.layer.lower(one.node.inputs, direction).kernels:
            has = dict(kernel.constants)
            if kernel.template in ("conv_last.hip", "conv_last_filters.hip"):
                found.append("x".join(str(has[each]) for each in TILE))
                assert {each.nbytes for each in kernel.maps} <= {2}  # of f16
    assert " ".join(found) == PLANNED[plan]


@pytest.mark.parametrize(
    ("settings", "machine", "dtype"),
    [
        ("c=6 num_output=6 group=2", "h200", "bf16"),
        ("c=6 num_output=6", "h200", "f32"),
        ("c=6 num_output=6", "mi300a", "bf16"),
        ("c=6 num_output=6", "h200,matrix=no", "f16"),
    ],
)
def test_what_has_no_kernels_is_refused(settings: str, machine: str, dtype: str) -> None:
    with pytest.raises(ConfigError, match=r"channels_last takes one group of f16 or bf16, planned"):
        placed("conv_fwd", settings, machine, dtype)


@pytest.mark.parametrize(
    ("stride", "fact"),
    [(4, "of which some pixels meet no tap"), (5, "pixels have 25 phases, more than 16")],
)
def test_strides_that_leave_pixels_out_are_named(stride: int, fact: str) -> None:
    settings = f"c=64 h=64 w=64 num_output=64 kernel_size=3 pad=0 stride={stride}"
    with pytest.raises(ConfigError, match=rf"cannot compute dx.*{fact}; choose algod=implicit"):
        placed("conv_bwd_data", settings, "h100", "f16")
    assert placed("conv_bwd_data", f"{settings} algod=implicit_gemm", "h100", "f16")


@pytest.mark.parametrize("direction", ["fwd", "bwd_weight"])
def test_few_filters_are_multiplied_by_matrix_cores_too(direction: str) -> None:
    """Scalars took 23 times as long as cuDNN for 16 filters; half of a tile is idle now."""
    settings = {"n": 8, "c": 368, "h": 23, "w": 23, "num_output": 16, "kernel_size": 7, "pad": 3}
    planned = simgen.plan(f"conv_{direction}", set=settings, type="bf16", plan_for="h200").workload
    assert any(kernel.name.startswith("conv_last_") for kernel in planned.kernels)
