"""Narrow elements of any extents, planned for the tensor cores of an H200.

The kernels run on the host, beside float64. benchmarks/native/any_shape.py runs them on a GPU,
beside PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import simgen

if TYPE_CHECKING:
    from pathlib import Path

# Workload, what is set, and parts of its kernels' names.
CASES: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    # Both factors are copied to rows of whole lines.
    (
        "gemm_fwd",
        {"type": "bf16", "m": 329, "n": 1131, "k": 557, "transa": "true"},
        ("rows_557x329to384_16_557x1131to1152_16", "left384_right1152"),
    ),
    # So are the results, from rows of 16 bytes.
    (
        "gemm_fwd",
        {"type": "f16", "m": 222, "n": 11409, "k": 81},
        ("rows_222x81to128_16", "rows_222x11416to11409_16"),
    ),
    ("conv_bwd_data", {"type": "bf16", "n": 1, "c": 16, "h": 6, "w": 6, "num_output": 24,
                       "kernel_size": 3, "stride": 2, "pad": 1}, ("channels_last",) * 3),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "parts"), CASES, ids=lambda each: str(each)[:30])
def test_any_extents_are_right(
    name: str, given: dict[str, Any], parts: tuple[str, ...], tmp_path: Path
) -> None:
    plan = simgen.plan(name, plan_for="h200", set=given)
    names = [kernel.name for kernel in plan.workload.kernels]
    for part in parts:
        assert any(part in each for each in names), names
    built = plan.build(tmp_path / "b", "host")
    built.run("host")
    report = built.diff().reports[0]
    assert report.passed, report
