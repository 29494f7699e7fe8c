"""Rates of a simulated machine: LDS is faster than caches, and they than DRAM."""

from __future__ import annotations

import pytest

from simgen.rates import measuring
from simgen.running.runs import Listener
from simgen.targets.mgpusim.target import MGPUSim

lacks = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))


def test_rates_of_one_unit() -> None:
    measured = measuring.measure(MGPUSim(), {"num_compute_units": 1}, Listener(), None)
    found = {each.name: each for each in measured.rates}
    value = {name: each.value for name, each in found.items()}
    assert value["L1, latency"] < value["L2, latency"] < value["DRAM, latency"]
    assert value["LDS, latency"] < value["L1, latency"]
    # One unit gets about its peak of arithmetic, and cannot ask for all that DRAM has.
    assert (found["multiply-adds, f32"].share or 0) > 0.5
    assert 0 < (found["DRAM, bandwidth"].share or 0) < 0.1
