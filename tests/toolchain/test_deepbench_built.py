"""A problem of DeepBench's lists, whole, on this CPU."""

from __future__ import annotations

import simgen


def test_a_problem_is_built_run_and_right(tmp_path):
    """128 x 1 x 1024 of the device set, with c read, as DeepBench has beta = 1."""
    made = simgen.plan("deepbench/gemm/243").build(tmp_path / "bundle", "host")
    made.run("host")
    assert made.diff(strict=True)
