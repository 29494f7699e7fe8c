"""States that go from a recurrent layer to another, forward and backward, on MGPUSim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simgen
from simgen.targets.mgpusim.target import MGPUSim

if TYPE_CHECKING:
    from pathlib import Path

LACKS = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(LACKS), reason=" | ".join(map(str, LACKS)))
ENCODER = "[Recurrent]\nname=encoder\nshape=3x3x9\nhidden_size=20\nfinal_state=true\n"
DECODER = "[Recurrent]\nname=decoder\ninitial_state=true\nhidden_size=20\n"
CASES = (  # architecture, cell, states, reversed, which steps
    ("gfx942", "lstm", ("hy", "cy"), "false", "persistent"),
    ("gfx803", "gru", ("hy",), "true", "steps"),
)


@pytest.mark.parametrize(("arch", "cell", "states", "reverse", "algo"), CASES)
def test_states_pass_between_layers(
    tmp_path: Path, arch: str, cell: str, states: tuple[str, ...], reverse: str, algo: str
) -> None:
    given = ",".join(f"encoder.{state}" for state in states)
    own = f"cell={cell}\nreverse={reverse}\nalgo={algo}\n"
    config = tmp_path / "states.dnnmark"
    config.write_text(f"{ENCODER}{own}{DECODER}{own}previous_layer=encoder,{given}\n")
    plan = simgen.plan(str(config), passes="fwd,bwd")
    bundle = plan.build(tmp_path / "b", MGPUSim(arch=arch))
    bundle.run("mgpusim", timeout=300.0)
    verdict = bundle.diff("mgpusim", "reference")
    assert verdict, verdict.failure
    steps = [each for each in plan.workload.kernels if "recurrent_" in each.template]
    assert any(kernel.chained for kernel in steps) is (algo == "persistent")
