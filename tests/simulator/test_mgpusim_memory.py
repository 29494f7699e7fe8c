"""Caches and DRAM of MGPUSim's timing model: metrics and options against figures made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simgen
from simgen.errors import SimgenError
from simgen.ground import metrics
from simgen.reports.pages import peaks
from simgen.targets.mgpusim.target import MGPUSim

if TYPE_CHECKING:
    from pathlib import Path

    from simgen import BuiltBundle

LACKS = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))
TIMEOUT = 600.0

# Twice over lines 4 KiB apart, one load after the other: the values read are 0.
STRIDED = """
extern "C" __global__ void vector(const int* x, int* y, int lines)
{
    int sum = threadIdx.x;
    for (int turn = 0; turn < 2; turn++)
        for (int line = 0; line < lines; line++)
            sum += x[line * 1024 + sum];
    y[threadIdx.x] = sum;
}
extern "C" __global__ void scalar(const int* __restrict__ x, int* __restrict__ y, int lines)
{
    int sum = 0;
    for (int turn = 0; turn < 2; turn++)
        for (int line = 0; line < lines; line++)
            sum += x[line * 1024 + sum];
    y[threadIdx.x] = sum;
}
"""
STRIDED_TOML = """
source = "strided.hip"
kernel = "{kernel}"
parameters = {{ lines = {lines}, n = {n} }}
inputs = {{ x = "i32[n] zeros" }}
outputs = {{ y = "i32[{items}]" }}
args = ["x", "y", "i32 lines"]
items = "{items}"
block = {items}
[reference]
y = "np.arange({items})"
"""
COPY = """
extern "C" __global__ void copy(const float* x, float* y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i];
}
"""
COPY_TOML = """
source = "copy.hip"
parameters = { n = 65536 }
inputs = { x = "f32[n]" }
outputs = { y = "f32[n]" }
args = ["x", "y"]
items = "n"
block = 256
[reference]
y = "x"
"""


def strided(place: Path, kernel: str, lines: int, arch: str = "gfx942") -> BuiltBundle:
    place.mkdir(parents=True, exist_ok=True)
    (place / "strided.hip").write_text(STRIDED)
    text = STRIDED_TOML.format(kernel=kernel, lines=lines, n=lines * 1024, items=1)
    (place / "strided.toml").write_text(text)
    return simgen.plan(str(place / "strided.toml")).build(place / "b", MGPUSim(arch=arch))


def copied(place: Path, arch: str) -> BuiltBundle:
    (place / "copy.hip").write_text(COPY)
    (place / "copy.toml").write_text(COPY_TOML)
    return simgen.plan(str(place / "copy.toml")).build(place / "b", MGPUSim(arch=arch))


def timed(bundle: BuiltBundle, **options: int | str) -> dict[str, float]:
    """The metrics of the only launch, and what follows from them."""
    result = bundle.run("mgpusim", timeout=TIMEOUT, options={"mode": "timing", **options})
    assert bundle.diff(result.name)
    (launch,) = result.launches
    return {**launch, **metrics.derived({**launch, **peaks.peaks_of(result)})}


def test_latency_bandwidth_and_outstanding_requests_of_a_dram_with_one_latency(
    tmp_path: Path,
) -> None:
    """The R9 Nano's memory answers all after so many cycles of 1 GHz; what is there at once follows
    from that and the rate by Little's law."""
    bundle = copied(tmp_path, "gfx803")
    for cycles in (100, 250):
        found = timed(bundle, dram_latency=cycles, tcc_size="64KiB")
        assert found["dram_reads"] >= 65536 * 4 / 64  # lines
        assert found["dram_writes"] > 0  # L2 does not hold all that is written
        for kind in ("read", "write"):
            assert found[f"dram_{kind}_latency"] == pytest.approx(cycles * 1e-9, rel=1e-4)
        rate = (found["dram_reads"] + found["dram_writes"]) / found["seconds"]
        assert found["dram_outstanding"] == pytest.approx(cycles * 1e-9 * rate, rel=1e-4)
        nbytes = 64 * (found["dram_reads"] + found["dram_writes"])
        assert found["dram_bytes_per_second"] == pytest.approx(nbytes / found["seconds"])
        assert 0 < found["dram_utilization"] < 1


def test_latency_of_a_dram_with_rows(tmp_path: Path) -> None:
    """One request at a time takes the pipeline's stages and two cycles of 1 GHz, and 52 more where
    its row is not open (the MI300A of MGPUSim's samples)."""
    bundle = strided(tmp_path, "vector", 8)
    for stages in (5, 25):
        found = timed(bundle, dram_latency=stages)
        total = 1e9 * found["dram_read_latency"] * found["dram_reads"]
        misses = (total - (stages + 2) * found["dram_reads"]) / 52
        assert misses == pytest.approx(round(misses), abs=0.02)
        assert 1 <= round(misses) < found["dram_reads"]
        assert found["dram_outstanding"] < 1


@pytest.mark.parametrize(
    ("kernel", "lines", "cache", "option", "few"),
    [
        ("vector", 8, "l1", "tcp_assoc", {"tcp_size": "16KiB"}),
        ("scalar", 8, "l1_scalar", "scalar_assoc", {}),  # 16 KiB
        ("vector", 32, "l2", "tcc_assoc", {"num_tccs": 1, "tcc_size": "64KiB", "tcp_size": "4KiB"}),
    ],
)
def test_lines_of_one_set_stay_where_it_has_as_many_ways(
    tmp_path: Path, kernel: str, lines: int, cache: str, option: str, few: dict[str, int | str]
) -> None:
    """Lines 4 KiB apart fall into one set of all these caches, the least recently used leaves."""
    bundle = strided(tmp_path, kernel, lines)
    for ways, hits in ((lines // 2, 0), (lines, lines)):
        found = timed(bundle, num_compute_units=1, **few, **{option: ways})
        assert found[f"{cache}_hits"] == hits


def test_latencies_of_scalars_and_instructions(tmp_path: Path) -> None:
    bundle = strided(tmp_path, "scalar", 8)
    few = {"num_compute_units": 1, "scalar_assoc": 8}
    before = timed(bundle, **few)
    slow = timed(bundle, **few, scalar_latency=40)
    assert before["l1_scalar_hits"] == 8  # each load waits for the one before
    assert slow["cycles"] - before["cycles"] == pytest.approx(8 * 39, rel=0.05)
    slow = timed(bundle, **few, sqc_latency=40)
    fetches = before["l1_instruction_hits"] + before["l1_instruction_misses"]
    assert 39 < slow["cycles"] - before["cycles"] < 39 * fetches


@pytest.mark.parametrize(
    ("option", "value", "fact"),
    [
        ("tcp_assoc", 3, "tcp_assoc is 3, and tcp_size, of 32768 bytes, has no whole number"),
        ("tcc_assoc", 7, "tcc_assoc is 7, and a bank of L2 .*, of 2097152 bytes"),
        ("scalar_assoc", 512, "scalar_assoc is 512, and the cache of scalars, of 16384 bytes"),
        ("tcc_size", "100kB", "tcc_size is 100000; write a multiple of 1024"),
        ("tcc_size", "33KiB", "tcc_assoc is 16, and a bank of L2 .*, of 2112 bytes"),
        ("tcp_assoc", 0, "tcp_assoc '0': write a whole number, 1 or more"),
    ],
)
def test_ways_that_do_not_divide_a_cache_are_refused(
    tmp_path: Path, option: str, value: int | str, fact: str
) -> None:
    bundle = strided(tmp_path, "vector", 1)
    with pytest.raises(SimgenError, match=fact):
        timed(bundle, **{option: value})
