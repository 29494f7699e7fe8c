"""Narrow tensors on MGPUSim, whose own conversions and stores of 16 bits are wrong or missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narrow
import pytest

from simgen.bundle import results
from simgen.bundle import writing as bundles
from simgen.ground.ir import Pass
from simgen.running import process
from simgen.targets.mgpusim.target import MGPUSim

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.kernels.build import Builder

lacks = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))


@pytest.mark.parametrize(
    ("dtype", "arch", "mode"),
    # Each type and each architecture; backward once: the text is that of the host (test_narrow.py),
    # and each instruction is right on each (test_legalise_runs.py).
    [
        ("f16", "gfx942", "emu"),
        ("bf16", "gfx803", "emu"),
        ("bf16", "gfx803", "timing"),
        ("i8", "gfx942", "timing"),
        ("i8", "gfx803", "emu"),  # of which results are narrowed
    ],
)
def test_a_network_of_narrow_tensors_is_right(
    tmp_path: Path, builder: Builder, dtype: str, arch: str, mode: str
) -> None:
    target = MGPUSim(arch=arch)
    integers = narrow.QUANTISED if mode == "emu" else narrow.NETWORK
    every = dtype == "f16"
    passes = (Pass.FORWARD, Pass.BACKWARD, Pass.UPDATE) if every else (Pass.FORWARD,)
    if dtype == "i8":
        work = narrow.planned_integers(integers)
    else:
        work = narrow.planned(dtype, passes=passes)
    bundle = bundles.write(tmp_path / "b", work, [target], builder, narrow.PROVENANCE)
    folder = process.run(bundle, "mgpusim", environment={"SIMGEN_MODE": mode}, timeout=600)
    assert narrow.wrong(bundle, results.collect(bundle, target, folder)) == []
