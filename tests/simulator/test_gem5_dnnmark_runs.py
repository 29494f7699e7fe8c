"""The command line of --launcher dnnmark through the real apu_se.py, up to the program.

DNNMark itself needs ROCm 4.0. In its place lies a program that is static, so that it starts here:
the one of --launcher kfd, which complains of DNNMark's arguments.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import bundle_script
import gem5_here
import pytest

import simgen
from simgen.errors import UsageError
from simgen.targets.gem5.se import Gem5Se

lacks = Gem5Se().needs.missing()
pytestmark = [
    pytest.mark.gem5,
    pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks))),
]


def database(folder: Path, kernels: Path) -> None:
    """A kernel database with a text in place of each code object that `kernels` asks for."""
    module = bundle_script.module("kernel_database")
    folder.mkdir(parents=True)
    arch = gem5_here.ARCHS[0]
    entries = dict.fromkeys(module.wanted(kernels, arch), b"code")
    module.write(folder / f"{arch}_4.ukdb", entries)


def test_gem5_starts_the_program_with_its_arguments(monkeypatch):
    plan = simgen.plan("softmax_fwd", set={"n": 4})
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        root = Path(place)
        kfd = plan.build(root / "kfd", "gem5-se")
        made = plan.build(root / "dnn mark", Gem5Se(launcher="dnnmark"))
        program = root / "DNN Mark/build/benchmarks/test_fwd_softmax/dnnmark_test_fwd_softmax"
        program.parent.mkdir(parents=True)
        program.write_bytes((kfd.path / "gem5-se" / "binary").read_bytes())
        program.chmod(0o755)
        kernels = made.path / "gem5-se" / "kernels.csv"
        database(root / "home/.cache/miopen/2.9.0", kernels)
        monkeypatch.setenv("DNNMARK", str(root / "DNN Mark"))
        monkeypatch.setenv("HOME", str(root / "home"))
        monkeypatch.setenv("SIMGEN_DOCKER", "0")
        monkeypatch.setenv("SIMGEN_PYTHON", sys.executable)
        with pytest.raises(UsageError, match="not as many as it takes; write BINARY DATA OUTPUTS"):
            made.run("gem5-se", timeout=1200.0)
