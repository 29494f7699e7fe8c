"""Rows of scores whose elements are all hidden: 0 by every way that Softmax has over rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from layer_bundles import Problem, failures, make, plan
from layer_variants import Variant
from scipy import special

from simgen.ground.ir import DType, Pass

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.kernels.build import Builder

MASKED = (("softmax_algo", "masked"), ("softmax_axis", "-1"))
SHAPES = {  # rows in registers, with a rest, several for a work-group, and longer than that
    "fours": (3, 5, 64), "rest": (3, 5, 7), "wide": (2, 2, 1000), "long": (2, 2, 4100),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_rows_of_hidden_keys(tmp_path: Path, builder: Builder, dtype: str) -> None:
    """All but one key, all keys, and none are hidden; SciPy judges the others. What was added to
    the lowest number of 16 bits may be -inf."""
    problems = {name: Problem(Variant("softmax", MASKED), shape) for name, shape in SHAPES.items()}
    made = make(tmp_path, plan(problems, Pass.FORWARD, dtype=DType.table[dtype]), builder)
    lowest = {"f32": np.finfo(np.float32).min, "f16": -np.inf, "bf16": -3.3e38}[dtype]
    random = np.random.default_rng(2)
    given: dict[str, NDArray[Any]] = {}
    for name, shape in SHAPES.items():
        x = random.standard_normal(shape).astype(np.float32)
        x[0, 0, 1:], x[0, 1], x[1, 0, ::2] = lowest, lowest, lowest
        given[name] = x
        made.rewrite(f"{name}.x", lambda into, x=x: np.copyto(into, x.astype(into.dtype)))
    assert not failures(made.good())
    found = made.outputs()
    for name, x in given.items():
        y = found[f"{name}.y"].astype(np.float64).reshape(x.shape)
        assert (y[0, 1] == 0).all()
        kept = np.ones(x.shape[:2], bool)
        kept[0, 1] = False
        limit = 1e-5 if dtype == "f32" else 1e-2
        np.testing.assert_allclose(y[kept], special.softmax(x[kept], axis=-1), limit, limit)
