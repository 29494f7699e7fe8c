"""Time steps by matrix instructions, which the host emulates: whole tiles and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simgen
from simgen.errors import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

# (cell, more settings, samples, units, type, compute units, samples of the largest tile): with few
# compute units, tiles are large.
CASES = (
    ("lstm", {}, 3, 16, "f16", 132, 16),
    ("gru", {"reverse": "true", "initial_state": "true"}, 35, 72, "f16", 4, 64),
    ("gru", {"input_mode": "skip"}, 70, 40, "bf16", 1, 64),
    ("relu", {"bias": "false"}, 33, 24, "f16", 2, 32),
)


@pytest.mark.parametrize(("cell", "more", "batch", "hidden", "dtype", "units", "samples"), CASES)
def test_forward_and_backward_are_right(
    tmp_path: Path,
    cell: str,
    more: dict[str, str],
    batch: int,
    hidden: int,
    dtype: str,
    units: int,
    samples: int,
) -> None:
    features = hidden if "input_mode" in more else 12
    keys = {"shape": f"3x{batch}x{features}", "cell": cell, "hidden_size": str(hidden), **more}
    config = tmp_path / "steps.dnnmark"
    config.write_text("\n".join(["[Recurrent]", *(f"{key}={keys[key]}" for key in keys), ""]))
    machine = f"h200,num_compute_units={units}"
    made = simgen.plan(str(config), passes="fwd,bwd", type=dtype, plan_for=machine)
    steps = [kernel for kernel in made.workload.kernels if "recurrent_" in kernel.template]
    assert {kernel.template for kernel in steps} == {"recurrent_step.hip", "recurrent_back.hip"}
    assert all(dict(kernel.constants)["with_matrix"] for kernel in steps)
    assert max(dict(kernel.constants)["samples"] for kernel in steps) == samples
    bundle = made.build(tmp_path / "bundle", "host")
    bundle.run("host")
    bundle.diff("host", "reference").check()


def test_without_matrix_instructions_nothing_is_rounded_between_steps() -> None:
    def templates(**options: str) -> dict[str, int]:
        made = simgen.plan(
            "recurrent_fwd", set={"shape": "3x4x16"}, type="f16", plan_for="h200", **options
        )
        return {k.template: dict(k.constants).get("with_matrix", 0) for k in made.workload.kernels}

    assert templates()["recurrent_step.hip"] == 1
    assert templates(matrix="no")["recurrent_step.hip"] == 0
    assert "cast.hip" in templates(matrix="no")
    assert "cast.hip" not in templates()


def test_a_machine_without_them_refuses_steps_that_have_them(tmp_path: Path) -> None:
    made = simgen.plan("recurrent_fwd", set={"shape": "3x4x16"}, type="f16", plan_for="h200")
    with pytest.raises(RefusedError, match="no matrix instruction 16x8x16 f16; build with"):
        made.build(tmp_path / "bundle", "gem5-se")
