"""Time steps of float32 as NVIDIA's GPUs have them: more units and samples of a work-item, and the
next piece on its way while one is multiplied. Here the CPU runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simgen
from simgen.ground import machine
from simgen.ground.dtypes import DType
from simgen.layers.recurrent.step import BLOCK, FLOAT, VECTOR, StepTile, tile_of

if TYPE_CHECKING:
    from pathlib import Path

# (cell, more settings, samples, units, compute units): with few of these, tiles are large.
CASES = (
    ("lstm", {}, 33, 70, 1),
    ("gru", {"reverse": "true", "initial_state": "true"}, 5, 132, 4),
    ("relu", {"input_mode": "skip", "bias": "false"}, 9, 260, 4),
)


@pytest.mark.parametrize(("cell", "more", "batch", "hidden", "units"), CASES)
def test_forward_and_backward_are_right(
    tmp_path: Path, cell: str, more: dict[str, str], batch: int, hidden: int, units: int
) -> None:
    features = hidden if "input_mode" in more else 12
    keys = {"shape": f"3x{batch}x{features}", "cell": cell, "hidden_size": str(hidden), **more}
    config = tmp_path / "steps.dnnmark"
    config.write_text("\n".join(["[Recurrent]", *(f"{key}={keys[key]}" for key in keys), ""]))
    planned_for = f"h200,num_compute_units={units}"
    made = simgen.plan(str(config), passes="fwd,bwd", algo="steps", plan_for=planned_for)
    steps = [dict(k.constants) for k in made.workload.kernels if "recurrent_" in k.template]
    assert all(each["with_prefetch"] for each in steps)
    assert max(each["own"] for each in steps) > 1
    bundle = made.build(tmp_path / "bundle", "host")
    bundle.run("host")
    bundle.diff("host", "reference").check()


@pytest.mark.parametrize("sums", [1, 3, 4])
@pytest.mark.parametrize("name", ["h200", "a100", "mgpusim-mi300a", "gem5-gfx902"])
def test_every_tile_fits(name: str, sums: int) -> None:
    found = machine.find(name, "")
    for batch in (1, 2, 3, 8, 16, 31, 32, 64, 700):
        for hidden in (1, 16, 63, 512, 1536, 4096):
            tile = tile_of(found, batch, hidden, sums, DType.F32)
            assert isinstance(tile, StepTile)
            rows = tile.samples + sums * tile.units
            assert FLOAT * rows * (tile.depth + VECTOR) <= found.group_lds_nbytes
            partial = FLOAT * tile.slices * (sums * tile.samples * tile.units + 1)
            assert partial <= found.group_lds_nbytes
            assert tile.slices * VECTOR <= tile.depth  # a slice has a whole access
            assert tile.depth % (tile.slices * VECTOR) == 0
            # Each work-item has some units, some samples and a slice, and no other one has them.
            lanes = (tile.units // tile.own) * (tile.samples // tile.held)
            assert lanes * tile.slices == BLOCK
            assert tile.units % tile.own == tile.samples % tile.held == 0
