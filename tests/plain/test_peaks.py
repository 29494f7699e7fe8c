"""What a machine can do at most, as a result tells which one it was."""

from __future__ import annotations

import pytest

from simgen.bundle.results import Result
from simgen.ground import machine, metrics
from simgen.reports.pages import peaks


def result(target: str, facts=None, settings=None, options=None) -> Result:
    told = {
        "target": target, "machine": facts or {}, "settings": settings or {},
        "options": options or {},
    }  # fmt: skip
    return Result(target, {}, (), told)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        (result("mgpusim", {"gpu": "r9nano"}), "mgpusim-r9nano"),
        (result("mgpusim", {"gpu": "mi300a"}, options={"gpu": "r9nano"}), "mgpusim-r9nano"),
        (result("gem5-se", settings={"arch": "gfx902"}), "gem5-gfx902"),
        (result("gem5-se", settings={"arch": "gfx942"}), "gem5-se-gfx942"),
        (result("cuda", {"gpu": "NVIDIA H100 80GB HBM3"}), "h100"),
        (result("cuda", {"gpu": "NVIDIA H200"}), "h200"),
    ],
)
def test_a_result_tells_its_machine(told, name):
    assert peaks.ran_on(told).name == name
    assert set(peaks.peaks_of(told)) == set(metrics.PEAKS)


@pytest.mark.parametrize(
    "told",
    [
        result("mgpusim", {"gpu": "mi300a", "hardware": "num_compute_units=4,tcc_size=1MiB"}),
        result("mgpusim", {"gpu": "mi300a"}, options={"num_compute_units": "4"}),
        result("gem5-se", {"gem5_options": "--num-compute-units=4"}, {"arch": "gfx902"}),
    ],
)
def test_with_the_hardware_that_its_run_had(told):
    assert peaks.ran_on(told).units == 4


@pytest.mark.parametrize(
    "told",
    [
        result("cuda", {"gpu": "NVIDIA GeForce GTX 1080"}),
        result("host"),
        result("mgpusim", {"gpu": "mi300a", "hardware": "num_compute_units=many"}),
    ],
)
def test_what_is_not_known_has_no_peaks(told):
    assert peaks.peaks_of(told) == {}


def test_a_utilization_is_what_was_done_by_what_could_be():
    told = result("mgpusim", {"gpu": "mi300a", "hardware": "num_compute_units=2"})
    of = machine.named("mgpusim-mi300a")
    counts = {"valu_instructions": 300.0, "cu_cycles": 2000.0, "cycles": 1000.0,
              "l2_hits": 10.0, "l2_misses": 6.0}  # fmt: skip
    found = metrics.derived({**counts, **peaks.peaks_of(told)})
    assert found["alu_utilization"] == 300 / (2000 * of.fmas / of.wavefront)
    assert found["l2_utilization"] == 16 * of.line_nbytes / (1000 * of.l2_rate)
    assert "alu_utilization" not in metrics.derived(counts)


def test_what_a_profiler_counted_stands_before_a_formula():
    counted = {"dram_busy_seconds": 2.0, "counted_seconds": 8.0, "dram_read_bytes": 1.0}
    assert metrics.derived(counted)["dram_utilization"] == 0.25
