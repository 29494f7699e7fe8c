"""What jobs of a cluster leave, beside a run on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simgen.ground import metrics

if TYPE_CHECKING:
    import simgen


def as_run_here(bundle: simgen.Bundle, target: str) -> None:
    """Outputs bit for bit, and all that is told of launches but this machine's time."""
    by_jobs = bundle.result(f"{target}@representatives")
    assert bundle.diff(by_jobs.name).outcome == "same"
    here = bundle.run(target, representatives=True, replace=True)
    for name, tensor in here.outputs.items():
        np.testing.assert_array_equal(by_jobs.outputs[name].values, tensor.values)
    timed = {*metrics.OF_HOST, *(["seconds"] if target == "host" else [])}
    for ran, expected in zip(by_jobs.launches, here.launches, strict=True):
        kept = {name: value for name, value in expected.items() if name not in timed}
        assert {name: ran[name] for name in kept} == kept
