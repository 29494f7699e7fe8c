"""Layers of training, texts, masks and time steps on MGPUSim, in shapes that fit nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narrow
import pytest
from awkward import MORE, PROBLEMS
from layer_bundles import plan

from simgen.bundle import results
from simgen.bundle import writing as bundles
from simgen.ir import Pass
from simgen.running import process
from simgen.targets.mgpusim.target import GPUS, MGPUSim

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.compile.build import Builder

lacks = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))

PASSES = (Pass.FORWARD, Pass.BACKWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT)


@pytest.mark.parametrize("arch", GPUS.values())
def test_every_pass_is_right(tmp_path: Path, builder: Builder, arch: str) -> None:
    target = MGPUSim(arch=arch)
    work = plan(PROBLEMS | MORE, *PASSES)
    bundle = bundles.write(tmp_path / "b", work, [target], builder, narrow.PROVENANCE)
    folder = process.run(bundle, "mgpusim", environment={"SIMGEN_MODE": "emu"}, timeout=600)
    assert narrow.wrong(bundle, results.collect(bundle, target, folder)) == []
