"""Target cuda on several GPUs: the bundle's own programs, with NumPy in the place of CuPy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from handmade import PROVENANCE, lowered

from simgen.bundle import results
from simgen.bundle import writing as bundles
from simgen.errors import UsageError
from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache
from simgen.targets.cuda import Cuda
from simgen.tensors import data_file


def built(path: Path, gpus: int, *settings: tuple[str, str]) -> bundles.Bundle:
    whole = lowered("all_reduce_fwd", ("n", "12"), *settings)
    builder = Builder(Cache(path.parent / "cache"))
    return bundles.write(path, whole, [Cuda(gpus=gpus)], builder, PROVENANCE)


def run(made: bundles.Bundle, **variables: str) -> subprocess.CompletedProcess[str]:
    fake = made.path.parent / "fake"
    fake.mkdir()
    (fake / "cupy.py").write_text((Path(__file__).parent / "fake_cupy.py").read_text())
    own = {"SIMGEN_PYTHON": sys.executable, "PYTHONPATH": str(fake), **variables}
    words = ["sh", str(made.path / "cuda/run.sh")]
    return subprocess.run(words, env={**os.environ, **own}, capture_output=True, text=True)


@pytest.mark.parametrize(("gpus", "route", "launches"), [(3, "ring", 12), (4, "tree", 6)])
def test_every_gpu_has_the_sum(tmp_path: Path, gpus: int, route: str, launches: int) -> None:
    """A ring takes 2 (n - 1) stages on n GPUs, a tree n - 1 additions and as many copies."""
    made = built(tmp_path / "b", gpus, ("c", "1001"), ("route", route))
    done = run(made, SIMGEN_REPEATS="2")
    assert not done.returncode, done.stderr
    result = results.collect(made, Cuda(gpus=gpus), made.path / "results/cuda")
    assert result.provenance["gpus"] == gpus
    vectors = data_file.load(made.path / "data.h5", made.workload)["all_reduce.x"]
    found = result.outputs["all_reduce.y"]
    np.testing.assert_allclose(found.values, vectors.sum(0, np.float64), rtol=1e-5, atol=1e-5)
    assert (found.untouched, found.guard_intact) == (0, True)
    (launch,) = result.launches
    assert launch["all_reduce_launches"] == launches
    assert launch["all_reduce_bus_bytes"] == pytest.approx(4 * 1001 * 2 * (gpus - 1) / gpus)


@pytest.mark.parametrize(
    ("variables", "code", "fact"),
    [
        ({"FAKE_GPUS": "2"}, 3, "3 GPUs are asked for, and this machine has 2; take --gpus 2"),
        ({"SIMGEN_L2": "cold"}, 2, "SIMGEN_L2: is for one GPU; leave it out"),
        ({"SIMGEN_GPUS": "5"}, 2, "there are no kernels for 5 GPUs; build with --gpus 5"),
    ],
)
def test_what_several_gpus_cannot_do_is_one_line(
    tmp_path: Path, variables: dict[str, str], code: int, fact: str
) -> None:
    done = run(built(tmp_path / "b", 3), **variables)
    assert done.returncode == code
    assert fact in done.stderr
    assert done.stderr.count("\n") == 1


def test_impossible_numbers_of_gpus_are_refused() -> None:
    with pytest.raises(UsageError, match="--gpus 65: no such number of GPUs"):
        Cuda(gpus=65)
