"""Inputs of whole numbers on the host: every sum of every layer comes out to the bit, by any order
of summation, and a product that is left out is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from layer_bundles import Problem, failures, make, plan
from layer_variants import Variant, accepts

from simgen.ground.ir import Pass
from simgen.kernels import render
from simgen.targets.host import Host
from simgen.tensors import exact_values

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

F, B = Pass.FORWARD, Pass.BACKWARD
IMAGE = (2, 6, 9, 11)


def problem(kind: str, shape: tuple[int, int, int, int] = IMAGE, **given: object) -> Problem:
    return Problem(Variant(kind, tuple((k, str(v)) for k, v in given.items())), shape)


SUMS = ("direct", "implicit_gemm", "im2col", "winograd")
THREE = {"kernel_size": 3, "pad": 1, "num_output": 9}
PROBLEMS = {
    **{f"conv_{algo}": problem("conv", algo=algo, **THREE) for algo in SUMS},
    **{f"bias_{algo}": problem("conv", algo=algo, bias="true", **THREE) for algo in SUMS},
    **{
        f"transpose_{algo}": problem("conv", algo=algo, conv_mode="transpose", **THREE)
        for algo in SUMS
    },
    "groups": problem("conv", algo="direct", group=3, stride=2, conv_mode="convolution", **THREE),
    "large": problem("conv", (1, 64, 4, 4), algo="implicit_gemm", kernel_size=3, num_output=64),
    "fc": problem("fc", num_output=17, bias="true"),
    "fc_long": problem("fc", (2, 5000, 1, 1), num_output=9),
    "pool": problem("pool", stride=1, pad=1),
    "mean": problem("pool", pool_mode="avg"),
    "mean_padded": problem("pool", pool_mode="avg_include_padding", stride=1, pad=1),
    "mean_whole": problem("pool", (2, 3, 16, 16), pool_mode="avg", kernel_size=16),
    "add": problem("add", inputs=3),
    "concat": problem("concat", inputs=3),
    "bypass": problem("bypass"),
    "dropout": problem("dropout", dropout_probability=0.3),
    "relu": problem("activation"),
    "clipped": problem("activation", activation_mode="clipped_relu"),
}
FORWARD = {
    "gemm": problem("gemm", m=33, n=20, k=1100, alpha=-0.75, beta=0.5),
    "gemm_short": problem("gemm", m=3, n=300, k=515, alpha=0.1, transa="true"),
    "sgd": problem("sgd", rate=0.125),
    "fused_conv": problem("fused_conv", bias="true", **THREE),
    "fused_fc": problem("fused_fc", num_output=7, activation_mode="clipped_relu"),
}


@pytest.mark.parametrize("direction", [F, B])
def test_every_sum_is_exact(direction: Pass, tmp_path: Path, builder: Builder) -> None:
    problems = PROBLEMS | (FORWARD if direction is F else {})
    for each in problems.values():
        layer = each.variant.layer
        assert not layer.takes_input or accepts(layer, each.shape)
    made = make(tmp_path, exact_values.with_exact_values(plan(problems, direction)), builder)
    verdicts = made.good()
    assert verdicts.keys() == problems.keys()
    assert failures(verdicts) == []
    assert [name for name, verdict in verdicts.items() if not verdict.exact] == []


@dataclass(frozen=True)
class Mutant:
    old: str
    new: str
    right: bool


PRODUCT = "k < last; k += SLICES"
LAST = "held[f * BLOCK + s * LANES + lane]"
MUTANTS = {
    "one product dropped": Mutant(PRODUCT, "k + 1 < last; k += SLICES", False),
    "another order": Mutant(LAST, "held[f * BLOCK + (SLICES - s) * LANES + lane]", True),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_lost_product_is_seen_and_another_order_is_right(
    name: str, tmp_path: Path, builder: Builder
) -> None:
    mutant = MUTANTS[name]
    planned = exact_values.with_exact_values(plan({"gemm": FORWARD["gemm_short"]}, F))
    text = {
        kernel: source for kernel, source in render.kernels(planned).items() if mutant.old in source
    }
    assert text
    sources = {kernel: source.replace(mutant.old, mutant.new) for kernel, source in text.items()}
    made = make(tmp_path, planned, builder, sources=sources)
    verdict = made.good()["gemm"]
    assert verdict.passed is mutant.right
    if not mutant.right:  # each product counts, so each result is wrong
        assert verdict.comparison.outside == verdict.comparison.elements
