"""Kernels of users in simulators: two dimensions, LDS that launches ask for, OpenCL C, assembly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import simgen
from simgen.errors import SimgenError
from simgen.targets.gem5.se import Gem5Se
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


LANES = """
__constant__ int table[4];
__device__ __forceinline__ int total(int v)
{
    for (int by = 16; by > 0; by /= 2)
        v += __shfl_xor_sync(0xffffffff, v, by);
    return v;
}
__global__ void lanes(const int* x, int* sums, unsigned* votes, int* firsts, int n)
{
    namespace cg = cooperative_groups;
    const cg::thread_block_tile<8> tile = cg::tiled_partition<8>(cg::this_thread_block());
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    sums[i] = total(x[i]) + table[threadIdx.x / warpSize % 4];
    votes[i] = __ballot_sync(0xffffffff, x[i] & 1);
    const long long wide = tile.shfl((long long)x[i] << 32 | 1, 3);
    firsts[i] = (int)(wide >> 32) + cg::reduce(tile, x[i], cg::plus<int>());
}
"""
LANES_TOML = """
source = "lanes.cu"
parameters = { n = 256 }
inputs = { x = "i32[n] uniform(0, 1000)", table = "i32[4] uniform(0, 9)" }
outputs = { sums = "i32[n]", votes = "i32[n]", firsts = "i32[n]" }
args = ["x", "sums", "votes", "firsts", "i32 n"]
items = "n"
block = 128
[reference]
warps = "x.reshape(n // 32, 32)"
sums = "np.repeat(warps.sum(1) + np.tile(table, 2), 32)"
votes = "np.repeat(((warps & 1) << np.arange(32)).sum(1), 32)"
tiles = "x.reshape(n // 8, 8)"
firsts = "np.repeat(tiles[:, 3] + tiles.sum(1), 8)"
"""


@pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))
@pytest.mark.parametrize("mode", ["emu", "timing"])
def test_warps_of_cuda_are_halves_of_wavefronts(tmp_path: Path, mode: str) -> None:
    (tmp_path / "lanes.cu").write_text(LANES)
    (tmp_path / "lanes.toml").write_text(LANES_TOML)
    bundle = simgen.plan(tmp_path / "lanes.toml").build(tmp_path / "b", MGPUSim(arch="gfx942"))
    bundle.run(timeout=TIMEOUT, options={"mode": mode})
    assert bundle.diff(strict=True)


@pytest.mark.skipif(not os.environ.get("GEM5"), reason="GEM5 is not set")
@pytest.mark.parametrize("arch", ["gfx902", "gfx942"])
def test_warps_and_variables_in_gem5(tmp_path: Path, place: Path, arch: str) -> None:
    (tmp_path / "lanes.cu").write_text(LANES)
    (tmp_path / "lanes.toml").write_text(LANES_TOML)
    bundle = simgen.plan(tmp_path / "lanes.toml").build(place / "b", Gem5Se(arch=arch))
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
