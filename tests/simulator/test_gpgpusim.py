"""The gpgpusim target on GPGPU-Sim itself; needs GPGPUSIM_ROOT, the folder of a build."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narrow
import pytest
from layer_bundles import Problem, plan
from layer_variants import Variant, problems_of_one_gpu

from simgen.bundle import results
from simgen.bundle import writing as bundles
from simgen.ir import Pass
from simgen.layers import LAYERS
from simgen.machine import named
from simgen.running import process
from simgen.targets.gpgpusim.simulator import GpgpuSim

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.compile.build import Builder

lacks = GpgpuSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))

TIMEOUT = 900.0  # seconds
PASSES = (Pass.FORWARD, Pass.BACKWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT)


def problems() -> dict[str, Problem]:
    """The small problems that MGPUSim runs too, by layer and algorithm."""
    found: dict[str, Problem] = {}
    for name, settings in problems_of_one_gpu():
        kind = max((each for each in LAYERS if name.startswith(f"{each}_")), key=len)
        own = dict(each.split("=") for each in settings)
        images = "nchw" if "h" in own else ""
        extents = [own.pop(each) for each in images] or own.pop("shape", "1").split("x")
        named_ = "_".join((kind, *extents, own.get("algo", "")))
        variant = Variant(kind, tuple(own.items()))
        found.setdefault(named_, Problem(variant, tuple(map(int, extents))))
    return found


def test_every_layer_and_pass_is_right(tmp_path: Path, builder: Builder) -> None:
    target = GpgpuSim()
    work = plan(problems(), *PASSES, machine=named(target.machine))
    bundle = bundles.write(tmp_path / "b", work, [target], builder, narrow.PROVENANCE)
    folder = process.run(bundle, "gpgpusim", timeout=TIMEOUT)
    assert narrow.wrong(bundle, results.collect(bundle, target, folder)) == []
