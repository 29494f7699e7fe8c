"""Whole numbers on MGPUSim: the bits that every right machine gives, in a training step too."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from loaded import program

from simgen.targets.mgpusim.target import MGPUSim

if TYPE_CHECKING:
    from pathlib import Path

lacks = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))

PROBLEMS = {
    "training": "lenet5 --layers conv1..ip2 --pass fwd,bwd,sgd --rate 0.125 --set n=2 --set h=16 "
    "--set w=16",
    "winograd": "conv_fwd --set n=1 --set c=5 --set h=8 --set w=9 --set kernel_size=3 --set pad=1 "
    "--set num_output=8 --algo winograd",
}


def simgen(*words: str, where: Path) -> str:
    done = subprocess.run(
        [program(), *words],
        cwd=where, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("problem", "runs"),
    [("training", ((), ("--gpus", "2"))), ("winograd", (("--mode", "timing"),))],
    ids=PROBLEMS,
)
def test_every_tensor_is_exact(
    problem: str, runs: tuple[tuple[str, ...], ...], tmp_path: Path
) -> None:
    words = PROBLEMS[problem].split()
    simgen("build", *words, "--values", "exact", "-t", "mgpusim", "-o", "b", "-q", where=tmp_path)
    for options in runs:
        simgen("run", "b", "-q", *options, where=tmp_path)
    pairs = json.loads(simgen("diff", "b", "--json", where=tmp_path))["pairs"]
    assert len(pairs) == len(runs) * (len(runs) + 1) // 2  # with the reference, and with each other
    for pair in pairs:
        assert pair["tensors"]
        for tensor in pair["tensors"]:
            assert tensor["without_tolerance"] == tensor["elements"], tensor
            assert tensor["max_error"] == 0
