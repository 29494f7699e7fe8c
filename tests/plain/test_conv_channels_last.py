"""Convolutions of copies with channels last: what they write, and where there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from launch_geometry import problems_of

from simgen.errors import ConfigError
from simgen.frontend import network, problem
from simgen.ir import Pass
from simgen.machine import find

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
