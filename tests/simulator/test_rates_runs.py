"""Rates of a simulated machine: LDS is faster than caches, and they than DRAM."""

from __future__ import annotations

import pytest

import simgen
from simgen.bundle import writing as bundles
from simgen.reports.pages import page
from simgen.reports.rates import keeping, measuring
from simgen.running.runs import Listener
from simgen.targets.mgpusim.target import MGPUSim

lacks = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))


def test_rates_of_one_unit_and_what_reports_know_of_them(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(keeping, "FOLDER", str(tmp_path / "rates"))
    measured = measuring.measure(MGPUSim(), {"num_compute_units": 1}, Listener(), None)
    found = {each.name: each for each in measured.rates}
    value = {name: each.value for name, each in found.items()}
    assert value["L1, latency"] < value["L2, latency"] < value["DRAM, latency"]
    assert value["LDS, latency"] < value["L1, latency"]
    # One unit gets about its peak of arithmetic, and cannot ask for all that DRAM has.
    assert (found["multiply-adds, f32"].share or 0) > 0.5
    assert 0 < (found["DRAM, bandwidth"].share or 0) < 0.1

    plan = simgen.plan("softmax_fwd", set={"n": 2})
    made = plan.build(tmp_path / "bundle", targets=["mgpusim"])
    shortfalls = {}
    for units in (1, 2):
        result = made.run("mgpusim", options={"num_compute_units": units, "mode": "timing"})
        with bundles.opened(made.path) as bundle:
            (row,) = page.rows(bundle, [result])
        shortfalls[units] = row.shortfall
    assert shortfalls[2] is None
    assert (shortfalls[1] or "").startswith("DRAM, bandwidth reaches ")
