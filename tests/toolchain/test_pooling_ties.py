"""Equal maxima, infinities, zeros of both signs: kernels choose the element of the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from layer_bundles import Problem, failures, make, plan
from layer_variants import Variant

from simgen.ground.ir import Pass
from simgen.targets.host import Host

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

# One work-item for a window, with and without vectors; several; windows that are whole images;
# more than one tile in each direction.
GEOMETRIES = {
    "vectors": ((2, 3, 8, 12), "3", "1", "2"),
    "single": ((2, 3, 9, 7), "3", "2", "1"),
    "shared": ((1, 2, 12, 12), "9", "4", "3"),
    "whole": ((3, 2, 6, 6), "6", "0", "1"),
    "tiles": ((1, 1, 70, 272), "3", "1", "1"),
    "odd_tiles": ((1, 1, 70, 271), "3", "1", "2"),
}


@pytest.mark.parametrize("sanitize", [False, True], ids=["fast", "sanitize"])
@pytest.mark.parametrize("values", [(1.0,), (-np.inf,), (-np.inf, 1.0), (0.0, -0.0), (1.0, 2.0)])
def test_equal_maxima(
    tmp_path: Path, builder: Builder, values: tuple[float, ...], sanitize: bool
) -> None:
    found = {
        name: Problem(
            Variant("pool", (("kernel_size", kernel), ("pad", pad), ("stride", stride))), shape
        )
        for name, (shape, kernel, pad, stride) in GEOMETRIES.items()
    }
    made = make(tmp_path, plan(found, Pass.BACKWARD), builder, sanitize=sanitize)
    rng = np.random.default_rng(5)
    for name, problem in found.items():
        x = rng.choice(np.array(values, np.float32), problem.shape)
        made.rewrite(f"{name}.x", lambda dataset, x=x: np.copyto(dataset, x))
    assert not failures(made.good())
