"""gem5's statistics file: what a dump says of a kernel, in the shared vocabulary."""

from __future__ import annotations

import struct

import pytest

from simgen.errors import DamagedError
from simgen.ground import resources
from simgen.targets.gem5 import queue_times, stats
from simgen.targets.gem5.se import Gem5Se

# Lines of a stats.txt of gem5 v24.0 with two compute units of 40 slots, shortened.
KERNEL = """
---------- Begin Simulation Statistics ----------
simSeconds                                   0.000018                       # Seconds (Second)
simTicks                                     18073000                       # Ticks (Tick)
simFreq                                  1000000000000                       # ((Tick/Second))
system.clk_domain.clock                          1000                       # Clock period (Tick)
system.cpu0.clk_domain.clock                      500                       # Clock period (Tick)
system.cpu1.clk_domain.clock                     2000                       # Clock period (Tick)
system.cpu1.shaderActiveTicks                 6807999                       # ticks (Unspecified)
system.cpu1.CUs0.vALUInsts                         96                       # (Unspecified)
system.cpu1.CUs0.vALUInstsPerWF                    24                       # (Unspecified)
system.cpu1.CUs0.numInstrExecuted                 142                       # (Unspecified)
system.cpu1.CUs0.numVecOpsExecutedF32            5000                       # (Unspecified)
system.cpu1.CUs0.numVecOpsExecutedFMA32          1024                       # (Unspecified)
system.cpu1.CUs0.numVecOpsExecutedMAC32           512                       # (Unspecified)
system.cpu1.CUs0.numVecOpsExecutedMFMAF32          64                       # (Unspecified)
system.cpu1.CUs0.threadCyclesVALU                6000                       # (Unspecified)
system.cpu1.CUs0.totalCycles                     3000                       # (Unspecified)
system.cpu1.CUs0.wavefronts00.totalCycles         999                       # not of the unit
system.cpu1.CUs0.ScoreboardCheckStage.stallCycles::WFStop       100000      # (Unspecified)
system.cpu1.CUs0.ScoreboardCheckStage.stallCycles::IBEmpty         6406      # (Unspecified)
system.cpu1.CUs0.ScoreboardCheckStage.stallCycles::WaitCnt         8194      # (Unspecified)
system.cpu1.CUs0.ScoreboardCheckStage.stallCycles::BarrierWait         7      # (Unspecified)
system.cpu1.CUs0.ScoreboardCheckStage.stallCycles::VgprBusy         1599      # (Unspecified)
system.cpu1.CUs0.ScoreboardCheckStage.stallCycles::SgprBusy           50      # (Unspecified)
system.cpu1.CUs0.ScoreboardCheckStage.stallCycles::InstrReady          521      # (Unspecified)
system.cpu1.CUs1.vALUInstsPerWF                   nan                       # (Unspecified)
system.cpu1.CUs1.totalCycles                      400                       # (Unspecified)
system.cpu1.CUs1.ScoreboardCheckStage.stallCycles::WFStop           16000      # (Unspecified)
system.mem_ctrls.readBursts                       147                       # (Count)
system.mem_ctrls.bytesReadSys                    9408                       # (Byte)
system.mem_ctrls.dram.bytesRead::ruby.dir_cntrl0         9408                # (Byte)
system.mem_ctrls.dram.bytesRead::total           9408                       # (Byte)
system.mem_ctrls.dram.readBursts                  131                       # (Count)
system.mem_ctrls.dram.writeBursts                  94                       # (Count)
system.mem_ctrls.dram.{read}              8384                       # (Byte)
system.mem_ctrls.dram.{written}           6016                       # (Byte)
system.ruby.cp_cntrl0.L2cache.m_demand_hits          65                       # a CPU's
system.ruby.dir_cntrl0.L3CacheMemory.m_demand_misses          147             # of the directory
system.ruby.scalar_cntrl0.L1cache.m_demand_misses            1                # misses
system.ruby.sqc_cntrl0.L1cache.m_demand_hits            3                     # hits
system.ruby.tcc_cntrl0.L2cache.m_demand_misses           93                   # misses
system.ruby.tcc_cntrl0.L2cache.m_demand_accesses           93                 # both
system.ruby.tcp_cntrl0.L1cache.m_demand_hits          108                     # hits
system.ruby.tcp_cntrl1.L1cache.m_demand_misses           86                   # misses

---------- End Simulation Statistics   ----------
"""
NEW = {"read": "dramBytesRead", "written": "dramBytesWritten"}
OLD = {"read": "bytesRead", "written": "bytesWritten"}  # before v23.1
IDLE = KERNEL.format(**NEW).replace("6807999", "0")


@pytest.fixture(name="measured")
def measured_metrics(tmp_path):
    path = tmp_path / "stats.txt"
    path.write_text(KERNEL.format(**NEW) + IDLE)
    (metrics,) = stats.kernels(path)
    return metrics


def test_times_are_of_the_gpu_and_of_the_whole_interval(measured):
    assert measured["seconds"] == 6807999e-12
    assert measured["simulated_seconds"] == 18073000e-12  # with all digits; simSeconds has two
    assert measured["cycles"] == 3403  # of the shader's clock, not of the CPU's


def test_units_are_summed_and_nothing_of_their_wavefronts_again(measured):
    assert measured["instructions"] == 142
    assert measured["valu_instructions"] == 96
    assert measured["cu_active_cycles"] == 3400
    assert measured["cu_cycles"] == 2 * 3403


def test_each_slot_counts_once_in_each_cycle(measured):
    reasons = ("fetch", "wait", "barrier", "vgpr", "sgpr")
    stalls = [measured[f"stall_{reason}_cycles"] for reason in reasons]
    assert stalls == [6406, 8194, 7, 1599, 50]
    assert measured["ready_cycles"] == 521
    assert measured["wavefront_cycles"] == sum(stalls) + 521
    assert measured["wavefront_slot_cycles"] == measured["wavefront_cycles"] + 116000


def test_multiply_adds_are_told_apart_from_other_floating_point_operations(measured):
    assert measured["f32_fma_operations"] == 1024 + 512
    assert measured["f32_other_operations"] == 5000 - 1024 - 512
    assert measured["valu_operations"] == 6000


def test_the_caches_are_those_of_the_gpu(measured):
    assert (measured["l1_hits"], measured["l1_misses"]) == (108, 86)
    assert (measured["l1_scalar_hits"], measured["l1_scalar_misses"]) == (0, 1)
    assert (measured["l1_instruction_hits"], measured["l1_instruction_misses"]) == (3, 0)
    assert (measured["l2_hits"], measured["l2_misses"]) == (0, 93)


@pytest.mark.parametrize("names", [NEW, OLD])
def test_dram_traffic_is_what_left_the_controller(tmp_path, names):
    path = tmp_path / "stats.txt"
    path.write_text(KERNEL.format(**names))
    (metrics,) = stats.kernels(path)
    assert (metrics["dram_reads"], metrics["dram_writes"]) == (131, 94)
    assert (metrics["dram_read_bytes"], metrics["dram_written_bytes"]) == (8384, 6016)


def test_every_metric_is_a_number(measured):
    assert all(value == value for value in measured.values())


def test_a_dump_has_a_bound(tmp_path, monkeypatch):
    path = tmp_path / "stats.txt"
    path.write_text(IDLE)
    monkeypatch.setattr(stats, "MOST_STATISTICS", len(next(stats.blocks(path))))
    assert list(stats.blocks(path))
    monkeypatch.setattr(stats, "MOST_STATISTICS", stats.MOST_STATISTICS - 1)
    with pytest.raises(DamagedError, match=r"more than \d+ statistics in a dump; run it"):
        list(stats.blocks(path))


def test_a_run_without_a_kernel_is_an_error(tmp_path):
    path = tmp_path / "stats.txt"
    path.write_text(IDLE + IDLE)
    with pytest.raises(DamagedError, match="no kernel ran: shaderActiveTicks is 0 in each of 2"):
        stats.kernels(path)


COUNTED = "simgen: {} launches had ended\n"  # the last line, of run.sh
ENTERED = "src/sim/simulate.cc:199: info: Entering event queue @ 0.  Starting simulation...\n"


@pytest.mark.parametrize(
    ("log", "done"),
    [
        ("error: unrecognized arguments: --x\n\n" + COUNTED.format(0), None),
        (ENTERED + "fatal: Out of memory, please increase\n\n" + COUNTED.format(0), 0),
        (ENTERED + "fatal: unimplemented VEGA instruction: v_x\n\n" + COUNTED.format(2), 2),
        (ENTERED + "simgen: error: ../../data.h5: is truncated\n\n" + COUNTED.format(0), None),
        (ENTERED + "simgen: error: launch 1 (k): not finished\n\n" + COUNTED.format(1), 1),
        (ENTERED + "simgen: error: gem5-se: the run was killed\n" + COUNTED.format(1), 1),
        (ENTERED + "simgen: 4 queues at once\n" + COUNTED.format(1), None),
        (ENTERED, None),
    ],
)
@pytest.mark.parametrize("version", ["24.0", "22.1"])
def test_the_launch_at_which_gem5_died_is_counted(log: str, done: int | None, version: str):
    assert Gem5Se(gem5_version=version).watcher.launches_done(log) == done
    if version == "24.0":
        of_runtime = Gem5Se(launcher="hip").watcher.launches_done(log)
        assert of_runtime == (done or None)


def test_a_kernel_that_hangs_is_told_with_a_cure():
    said = (resources.folder("templates") / "launchers/gem5_se.c").read_text()
    cure = "find out whether it is the kernel with: simgen build --target host --sanitize"
    assert cure in said.replace('"\n        "', "")
    fact = "not finished after 9 ms of simulated time"
    log = f"simgen: error: launch 1 (k_2): {fact}; {cure}\n"
    assert Gem5Se().watcher.diagnosis(log) == f"{fact}; {cure}"


# Two intervals of activity, of 6.807999 us each: from 3.192001 and from 23.192001 us on.
ENDS = (10_000_000, 30_000_000)


def timed(tmp_path, times):
    path = tmp_path / "stats.txt"
    dumps = [KERNEL.format(**NEW).replace("simFreq", f"finalTick {end}\nsimFreq") for end in ENDS]
    path.write_text("".join(dumps) + IDLE)
    (tmp_path / queue_times.FILE).write_bytes(b"".join(struct.pack("<QQ", *each) for each in times))
    return queue_times.metrics(tmp_path / queue_times.FILE, stats.active(path), len(times))


def test_times_of_launches_that_overlap_are_those_in_which_the_gpu_was_active(tmp_path):
    # The second ends first, and the third runs alone; ends are seen late, but for the last of all.
    found = timed(tmp_path, [(1_000, 12_000), (2_000, 6_000), (21_000, 29_999)])
    assert [each["seconds"] for each in found] == pytest.approx(
        [6.807999e-6, 6e-6 - 3.192001e-6, 6.807999e-6]
    )
    assert [each["elapsed_seconds"] for each in found] == pytest.approx(
        [10e-6 - 6e-6, 6e-6 - 3.192001e-6, 6.807999e-6]
    )
    assert sum(each["elapsed_seconds"] for each in found) == pytest.approx(2 * 6.807999e-6)
    assert [each["simulated_seconds"] for each in found] == pytest.approx([11e-6, 4e-6, 8.999e-6])
    assert [each["cycles"] for each in found] == [3403, 1403, 3403]  # of 2 ns


@pytest.mark.parametrize("times", [[(5, 4)], [(0, 4)]])
def test_times_of_queues_that_no_launch_can_have_are_damage(tmp_path, times):
    with pytest.raises(DamagedError, match="ends before it begins"):
        timed(tmp_path, times)


def test_times_of_another_number_of_launches_are_damage(tmp_path):
    timed(tmp_path, [(1, 2)])
    intervals = stats.active(tmp_path / "stats.txt")
    with pytest.raises(DamagedError, match="not the times of 2 launches"):
        queue_times.metrics(tmp_path / queue_times.FILE, intervals, 2)
