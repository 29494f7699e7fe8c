"""Convolutions of copies with channels last: right on the host, which emulates mma.sync by lanes.

What a GPU makes of the same kernels, and of those with wgmma, is in tests/gpu.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from layer_bundles import Problem, failures, make, plan
from layer_variants import Variant
from test_mma import Mutant

from simgen.ground.ir import DType, Pass
from simgen.ground.machine import find
from simgen.kernels import render
from simgen.layers.conv import channels_last
from simgen.targets.host import Host

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

PASSES = (Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT)


def problem(shape: tuple[int, ...], text: str) -> Problem:
    """A convolution; `text` are its settings."""
    given = dict(each.split("=") for each in text.split())
    return Problem(Variant("conv", (("algo", "channels_last"), *given.items())), shape)


# Channels that fill runs and panels, and that do not; taps at borders, with gaps, turned; strides
# with phases, and with pixels that no tap meets; rows of pixels by fours and not; chunks of pixels.
PROBLEMS = {
    "padded": problem((2, 20, 9, 7), "num_output=40 kernel_size=3 pad=1 bias=true"),
    "whole": problem((2, 64, 5, 4), "num_output=64 kernel_size=1 conv_mode=cross_correlation"),
    "strided": problem(
        (3, 5, 8, 9), "num_output=11 kernel_size=3 pad=1 stride=2 conv_mode=cross_correlation"
    ),
    "unmet": problem((2, 9, 8, 6), "num_output=24 kernel_size=1 stride=2"),
    "twins": problem((2, 24, 8, 6), "num_output=40 kernel_size=3 pad=1 stride=2"),
    "spread": problem(
        (2, 24, 5, 4), "num_output=16 kernel_size=2 stride=2 bias=true conv_mode=transpose"
    ),
    "planes": problem((3, 64, 4, 6), "num_output=72 kernel_size=1 pad=0 bias=true"),
    "gaps": problem(
        (1, 8, 11, 10), "num_output=16 kernel_size_h=2 kernel_size_w=3 pad=2 dilation=2"
    ),
    "long": problem((2, 72, 17, 19), "num_output=8 kernel_size=1 pad=1"),
    "many": problem((9, 64, 13, 11), "num_output=136 kernel_size=1 pad=1 bias=true"),
    "many_planes": problem((9, 64, 12, 14), "num_output=136 kernel_size=1 pad=0"),
}


@pytest.mark.parametrize(
    ("dtype", "machine", "names"),
    [
        ("bf16", "h200", "padded twins planes long"),
        ("bf16", "h200,num_compute_units=1", "many many_planes"),  # work-groups of several tiles
        ("f16", "a100", "whole strided unmet spread gaps planes"),
    ],
)
def test_convolutions_are_right(
    tmp_path: Path,
    builder: Builder,
    monkeypatch: pytest.MonkeyPatch,
    dtype: str,
    machine: str,
    names: str,
) -> None:
    """On an H200 by the tiles of warpgroups, if windows have maps."""
    options = channels_last._options
    monkeypatch.setattr(channels_last, "_options", lambda *given: options(*given)[:1])
    problems = {name: PROBLEMS[name] for name in names.split()}
    planned = plan(problems, *PASSES, dtype=DType.table[dtype], machine=find(machine, "test"))
    made = [kernel for kernel in planned.kernels if "stages" in dict(kernel.constants)]
    by_warpgroups = [bool(kernel.maps) for kernel in made]
    assert all(by_warpgroups) is machine.startswith("h200")
    several = [bool(dict(kernel.constants).get("streams")) for kernel in made]
    assert any(several) is ("=1" in machine)
    if any(several):
        assert len(made) == len(problems) * len(PASSES)
    else:
        assert len(made) > len(problems) * len(PASSES)  # phases
    assert not failures(make(tmp_path, planned, builder).good())


def test_no_access_is_out_of_bounds(tmp_path: Path, builder: Builder) -> None:
    """Where results are stored by fours: races are looked for in words."""
    fours = {"fours": problem((2, 20, 8, 6), "num_output=40 kernel_size=3 pad=1 bias=true")}
    machine = find("a100", "test")
    planned = plan(fours, *PASSES[:2], dtype=DType.table["f16"], machine=machine)
    assert not failures(make(tmp_path, planned, builder, sanitize=True).good())


SMALL = problem((1, 16, 5, 6), "num_output=24 kernel_size=3 pad=1 conv_mode=cross_correlation")
MUTANTS = {
    Pass.FORWARD: (
        Mutant("nothing", "", ""),
        Mutant("a border that is not seen",
               "return r >= ROWS_SOURCE ||", "return r > ROWS_SOURCE ||"),
        Mutant("another tap", "unsigned>(r) * KERNEL_W", "unsigned>(2 - r) * KERNEL_W"),
        Mutant("a run of other channels",
               "channel = (step + k) % OF_TAP;\n            return",
               "channel = (step + k) % OF_TAP ^ 8;\n            return"),
        Mutant("results of another row", "own + lane / 4 * PITCH", "own + (lane / 4 ^ 1) * PITCH"),
    ),
    Pass.BACKWARD_WEIGHT: (
        Mutant("nothing", "", ""),
        Mutant("taps turned", "FLIPPED ? TAPS - 1 - tap : tap", "FLIPPED ? tap : TAPS - 1 - tap"),
        Mutant("pixels of the row before", "unsigned y = pixel / RESULT_W * STRIDE_H, x",
               "unsigned y = pixel / IMAGE_H * STRIDE_H, x"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("direction", "mutant"),
    [(direction, mutant) for direction, some in MUTANTS.items() for mutant in some],
    ids=str,
)
def test_a_mutant_is_caught(
    tmp_path: Path, builder: Builder, direction: Pass, mutant: Mutant
) -> None:
    planned = plan({"c": SMALL}, direction, dtype=DType.table["bf16"], machine=find("h200", "test"))
    texts = {k: text for k, text in render.kernels(planned).items() if mutant.old in text}
    assert texts
    changed = {name: text.replace(mutant.old, mutant.new) for name, text in texts.items()}
    (verdict,) = make(tmp_path, planned, builder, sources=changed, optimise=False).good().values()
    assert verdict.passed is (mutant.what == "nothing")
