"""Direct convolutions with the work-groups that large problems get, at sizes that tests can run.

A work-item computes more results, and a work-group has more items, where there is work for all
units of a GPU. Here the GPU has one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from layer_bundles import Problem, distinct_kernels, failures, make, plan
from layer_variants import Variant, accepts, inputs_of
from machine_code import mgpusim_runs, no_scratch_no_stack_no_spills, together

from simgen.frontend import network
from simgen.ground.machine import fitted
from simgen.isa import toolchain
from simgen.layers import LAYERS, base
from simgen.targets.host import Host

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.ground.ir import Kernel, Pass
    from simgen.kernels.build import Builder

FORWARD, DATA, WEIGHT = PASSES = LAYERS["conv"].passes
SHAPES = ((3, 6, 19, 150), (2, 3, 33, 64))  # rows longer than a line, and whole float4s
BASE = {"kernel_size": "3", "pad": "1", "algo": "direct", "num_output": "6"}
VARIANTS = [
    Variant(kind, tuple({**BASE, **own}.items()))
    for kind, own in (
        ("conv", {}),
        ("conv", {"num_output": "3", "bias": "true", "conv_mode": "convolution"}),
        ("conv", {"num_output": "10", "kernel_size_h": "1", "pad_h": "0"}),
        ("conv", {"num_output": "3", "stride": "2", "conv_mode": "transpose"}),
        ("conv", {"kernel_size_w": "6", "stride_h": "4", "stride_w": "3", "num_output": "2"}),
        ("conv", {"num_output": "12", "group": "3", "dilation": "2"}),
        ("conv", {"kernel_size_h": "1", "dilation_w": "20", "pad_w": "20"}),
        ("fused_conv", {"batch_norm": "true", "bias": "true", "activation_mode": "tanh"}),
    )
]
# Constants of a template, with values that no smaller problem has.
REACHED: dict[str, dict[str, set[Any]]] = {
    "conv_direct": {"sets": {1, 2, 4}, "wide": {1, 4}, "block": {256}, "unrolled": {0, 1}},
    "conv_direct_filters": {"segments": {1, 2}, "sparse": {0, 1}, "block": {256}},
}


@pytest.fixture(autouse=True)
def one_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers are planned for a machine that these problems fill."""
    small = replace(fitted(), units=1)
    for module in (base, network):
        monkeypatch.setattr(module, "fitted", lambda: small)


def problems(direction: Pass) -> dict[str, Problem]:
    found = (
        (f"v{at}_{'x'.join(map(str, shape))}", Problem(variant, shape))
        for at, variant in enumerate(VARIANTS)
        for shape in SHAPES
        if direction in variant.layer.able and accepts(variant.layer, shape)
    )
    return distinct_kernels(found, direction)


def kernels() -> list[Kernel]:
    found = {
        kernel.name: kernel
        for direction in PASSES
        for problem in problems(direction).values()
        for kernel in problem.variant.layer.lower(
            inputs_of(problem.variant.layer, problem.shape), direction
        ).kernels
    }
    return list(found.values())


@pytest.mark.parametrize("template", REACHED)
def test_the_problems_reach(template: str) -> None:
    found = [
        {**dict(kernel.constants), "block": kernel.block}
        for kernel in kernels()
        if kernel.template == f"{template}.hip"
    ]
    for constant, wanted in REACHED[template].items():
        assert wanted <= {constants[constant] for constants in found}


@pytest.mark.skipif(bool(Host().needs.missing()), reason="this machine cannot run the host target")
@pytest.mark.parametrize("direction", PASSES)
def test_large_work_groups_are_right(tmp_path: Path, builder: Builder, direction: Pass) -> None:
    found = problems(direction)
    made = make(tmp_path, plan(found, direction), builder, sanitize=True)
    assert not failures(made.good())


@pytest.mark.parametrize("arch", ["gfx803", "gfx942"])
def test_large_work_items_keep_to_their_registers(arch: str) -> None:
    wanted = kernels()
    text = toolchain.assembly(together(wanted), arch)
    no_scratch_no_stack_no_spills(text)
    mgpusim_runs(wanted, text, arch)


def test_spectra_have_room_for_more_tiles(tmp_path: Path, builder: Builder) -> None:
    """33 tiles do not end with a sector: zeros follow them."""
    variant = Variant("conv", tuple({**BASE, "algo": "fft"}.items()))
    planned = plan({"fft": Problem(variant, (33, 3, 5, 6))}, *PASSES)
    assert {dict(kernel.constants).get("held") for kernel in planned.kernels} == {None, 40}
    assert not failures(make(tmp_path, planned, builder, sanitize=True).good())
