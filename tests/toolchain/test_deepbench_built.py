"""Problems of DeepBench's lists on this CPU, whole and scaled down, in types of their sets."""

from __future__ import annotations

import pytest

import simgen

PROBLEMS = [  # c is read, as DeepBench has beta = 1
    ("deepbench/gemm/243", {}),
    ("deepbench/gemm/243", {"type": "f16"}),
    ("deepbench/conv/38", {"scale_to": 4e6, "type": "f16"}),
    ("deepbench/rnn/13", {"scale_to": 3e6}),
    ("deepbench/rnn/35", {"scale_to": 3e6, "type": "f16", "passes": "bwd_data"}),
    ("deepbench/conv/42", {"scale_to": 1e7, "passes": "bwd_data"}),
]


@pytest.mark.parametrize(("name", "choices"), PROBLEMS)
def test_a_problem_is_built_run_and_right(tmp_path, name, choices):
    made = simgen.plan(name, **choices).build(tmp_path / "bundle", "host")
    made.run("host")
    assert made.diff(strict=True)
