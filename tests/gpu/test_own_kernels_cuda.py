"""Kernels of users on this GPU: the hardware is the judge of what the names of HIP mean here."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import own_native
import pytest

import simgen
from simgen.targets.cuda import Cuda

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.gpu

if importlib.util.find_spec("cupy") is None or Cuda().needs.missing():
    pytest.skip("no CuPy or no NVIDIA GPU on this machine", allow_module_level=True)


@pytest.mark.parametrize(("name", "suffix"), own_native.CASES)
def test_they_are_right(tmp_path: Path, name: str, suffix: str) -> None:
    path = own_native.write(name, suffix, tmp_path)
    bundle = simgen.plan(str(path)).build(tmp_path / "b", "cuda")
    bundle.run(timeout=300)
    judged = bundle.diff()
    assert judged, judged.failure
