"""Kernels of users in simulators: two dimensions, LDS that launches ask for, OpenCL C, assembly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import simgen
from simgen.errors import SimgenError
from simgen.targets.mgpusim.target import MGPUSim

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "kernels"
LACKS = MGPUSim().needs.missing()
TIMEOUT = 600.0


@pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))
@pytest.mark.parametrize("name", ["transpose", "histogram", "scale"])
def test_right_in_mgpusim(tmp_path: Path, name: str) -> None:
    bundle = simgen.plan(str(EXAMPLES / f"{name}.toml")).build(tmp_path / name, "mgpusim")
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


@pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))
def test_ids_that_the_timing_model_does_not_give_are_refused(tmp_path: Path) -> None:
    plan = simgen.plan(str(EXAMPLES / "transpose.toml"))
    bundle = plan.build(tmp_path / "b", MGPUSim(arch="gfx942"))
    with pytest.raises(SimgenError, match="no ids of work-items in the second and third"):
        bundle.run(timeout=TIMEOUT, options={"mode": "timing"})
    assert not (tmp_path / "b" / "results" / "mgpusim").exists()


@pytest.mark.skipif(not os.environ.get("GEM5"), reason="GEM5 is not set")
@pytest.mark.parametrize("name", ["reduce", "histogram"])
def test_right_in_gem5(place: Path, name: str) -> None:
    bundle = simgen.plan(str(EXAMPLES / f"{name}.toml")).build(place / name, "gem5-se")
    bundle.run(timeout=TIMEOUT)
    assert bundle.diff(strict=True)


@pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))
def test_launches_see_what_others_wrote(tmp_path: Path) -> None:
    """MGPUSim leaves lines in first-level caches that a launch from another unit writes over."""
    (tmp_path / "add.hip").write_text(
        'extern "C" __global__ void add(int* out) {\n'
        "  out[blockIdx.x * blockDim.x + threadIdx.x] += 1 + threadIdx.x;\n}\n"
    )
    file = tmp_path / "add.toml"
    file.write_text(
        'source = "add.hip"\noutputs = { out = "i32[6, 256] zeros" }\n'
        'reference = "np.broadcast_to(6 * (1 + np.arange(256)), (6, 256))"\n'
        '[[launch]]\nargs = ["out"]\ngrid = 6\nblock = 256\nfor = { time = "range(6)" }\n'
    )
    bundle = simgen.plan(str(file)).build(tmp_path / "add", "mgpusim")
    bundle.run(timeout=TIMEOUT, options={"mode": "timing", "num_compute_units": 8})
    assert bundle.diff(strict=True)
