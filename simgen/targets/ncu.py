"""`ncu.csv`: what Nsight Compute counted of each launch, in the vocabulary of
simgen.ground.metrics.

The file is the page `raw` of `ncu --csv`: lines of the profiler's own that begin with "==", a line
of names, one of units, and a line for each launch, in their order. Kernels have the names that the
workload gives them. It counts launch by launch, each alone, after caches were emptied, and runs a
launch several times, since its counters do not fit into one.
"""

from __future__ import annotations

import csv
import itertools
from typing import IO, TYPE_CHECKING

from simgen.errors import DamagedError, printable
from simgen.ground.storage.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

FILE = "ncu.csv"
KERNEL = "Kernel Name"
SECTOR = 32  # bytes
DURATION = "gpu__time_duration.sum"
ISSUED = "smsp__issue_active.sum"
# Metrics of ncu -> ours, and the factor between them in base units.
COUNTS: Mapping[str, tuple[str, float]] = {
    DURATION: ("counted_seconds", 1e-9),
    "sm__cycles_elapsed.max": ("cycles", 1),
    "sm__cycles_elapsed.sum": ("cu_cycles", 1),
    "sm__cycles_active.sum": ("cu_active_cycles", 1),
    "sm__warps_active.sum": ("wavefront_cycles", 1),
    "smsp__inst_executed.sum": ("instructions", 1),
    "smsp__thread_inst_executed.sum": ("thread_instructions", 1),
    "smsp__thread_inst_executed_pred_on.sum": ("thread_instructions_on", 1),
    "smsp__warps_eligible.sum": ("ready_cycles", 1),
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": ("f32_fma_operations", 1),
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": ("f32_add_operations", 1),
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": ("f32_mul_operations", 1),
    "smsp__sass_inst_executed_op_shared.sum": ("lds_instructions", 1),
    # 32 banks of 4 bytes (Nsight Compute CLI: shared_load_transactions of nvprof and others)
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": ("lds_reads", 1),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": ("lds_writes", 1),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": ("lds_bytes", 128),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": ("l1_reads", 1),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": ("l1_writes", 1),
    "lts__t_sectors_op_read.sum": ("l2_reads", 1),
    "lts__t_sectors_op_write.sum": ("l2_writes", 1),
    "smsp__sass_inst_executed_op_global_ld.sum": ("vector_memory_reads", 1),
    "smsp__sass_inst_executed_op_global_st.sum": ("vector_memory_writes", 1),
    "l1tex__t_sectors.sum": ("l1_sector_bytes", SECTOR),
    "l1tex__t_sectors_lookup_hit.sum": ("l1_hits", 1),
    "l1tex__t_sectors_lookup_miss.sum": ("l1_misses", 1),
    "lts__t_sectors.sum": ("l2_sector_bytes", SECTOR),
    "lts__t_sectors_lookup_hit.sum": ("l2_hits", 1),
    "lts__t_sectors_lookup_miss.sum": ("l2_misses", 1),
    "dram__bytes_read.sum": ("dram_read_bytes", 1),
    "dram__bytes_write.sum": ("dram_written_bytes", 1),
    "dram__sectors_read.sum": ("dram_reads", 1),
    "dram__sectors_write.sum": ("dram_writes", 1),
}
_PEAK = "avg.pct_of_peak_sustained_elapsed"
# Per cent of a peak -> the time that the same work takes at the peak.
BUSY: Mapping[str, str] = {
    f"sm__inst_executed_pipe_fma.{_PEAK}": "alu_busy_seconds",
    f"sm__inst_executed_pipe_xu.{_PEAK}": "special_busy_seconds",
    f"sm__inst_executed_pipe_lsu.{_PEAK}": "ldst_busy_seconds",
    f"sm__inst_executed_pipe_cbu.{_PEAK}": "control_busy_seconds",
    f"l1tex__data_pipe_lsu_wavefronts_mem_shared.{_PEAK}": "lds_busy_seconds",
    f"l1tex__throughput.{_PEAK}": "l1_busy_seconds",
    f"lts__throughput.{_PEAK}": "l2_busy_seconds",
    f"dram__throughput.{_PEAK}": "dram_busy_seconds",
}
# Why a warp does not issue -> what it is with us. In ncu they are warps, on average, for each cycle
# in which one issued: times the number of those, cycles of warps.
STALLS: Mapping[str, str] = {
    "no_instruction": "stall_fetch_cycles",
    "imc_miss": "stall_fetch_cycles",  # the cache of constants and of instructions
    "branch_resolving": "stall_fetch_cycles",
    "long_scoreboard": "stall_wait_cycles",  # L1, L2, DRAM
    "short_scoreboard": "stall_wait_cycles",  # shared memory, special functions
    "drain": "stall_wait_cycles",  # stores at the end
    "membar": "stall_wait_cycles",
    "barrier": "stall_barrier_cycles",
    "wait": "stall_dependency_cycles",  # the latency of the instruction before
    "gmma": "stall_dependency_cycles",
    "math_pipe_throttle": "stall_pipe_cycles",
    "mio_throttle": "stall_pipe_cycles",
    "lg_throttle": "stall_pipe_cycles",
    "tex_throttle": "stall_pipe_cycles",
    "dispatch_stall": "stall_other_cycles",
    "sleeping": "stall_other_cycles",
    "misc": "stall_other_cycles",
}
THREADS = "device__attribute_max_threads_per_multiprocessor"
WARP = 32
MOST_COLUMNS = 4096
LONGEST_LINE = 2**18  # bytes
MOST_NOTES = 10_000  # lines of the profiler's own
MIN_VALUE, MAX_VALUE = 1e-30, 1e30


def stalled(reason: str) -> str:
    """What ncu calls the stalls for a reason."""
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


def read_metrics(results: Path, kernels: Sequence[str]) -> list[dict[str, float]]:
    """Our metrics of each launch of `kernels`, in their order; none where there is no such file.

    Raises:
        DamagedError: the file is not one that ncu left for these launches.
    """
    path = results / FILE
    if not path.exists():
        return [{} for _ in kernels]
    try:
        rows, duration = _rows(path, len(kernels) + 1)
        names = [row.get(KERNEL, "") for row in rows]
        if names != list(kernels):
            raise ValueError(
                f"counts {len(names)} launches that are not the workload's {len(kernels)}"
            )
        return [_metrics(row, duration) for row in rows]
    except (OSError, ValueError, csv.Error) as error:
        fact = getattr(error, "strerror", None) or error
        raise DamagedError(f"{path}: cannot be read ({fact}); run the bundle again") from None


def named() -> dict[str, str]:
    """Our metrics, in ncu's words."""
    found = {ours: name for name, (ours, _) in COUNTS.items()}
    found["wavefront_slot_cycles"] = f"{_name('cu_active_cycles')} * warps that an SM holds"
    for name, ours in BUSY.items():
        found[ours] = f"{name} * {DURATION}"
    for ours in dict.fromkeys(STALLS.values()):
        reasons = ", ".join(reason for reason, of in STALLS.items() if of == ours)
        found[ours] = f"average_warps_issue_stalled of {reasons} * {ISSUED}"
    return found


def _name(ours: str) -> str:
    return next(name for name, (metric, _) in COUNTS.items() if metric == ours)


def _rows(path: Path, most: int) -> tuple[list[dict[str, str]], float]:
    """The lines of launches by column, at most so many; and nanoseconds in a unit of durations."""
    found = []
    with open_regular(path) as file:
        lines = csv.reader(_lines(file))
        head, units = next(lines, []), next(lines, [])
        if len(head) > MOST_COLUMNS or len({*head}) < len(head) or len(units) != len(head):
            raise ValueError("more columns than there may be, or two of one name")
        unit = dict(zip(head, units))
        wrong = next((n for n in _UNITS if n in unit and unit[n] not in _UNITS[n]), None)
        if wrong:
            raise ValueError(f"{wrong} is not in {next(iter(_UNITS[wrong]))}")
        for row in itertools.islice(lines, most):
            if len(row) != len(head):
                raise ValueError(f"line {lines.line_num} has {len(row)} fields for {len(head)}")
            found.append(dict(zip(head, row)))
    return found, _UNITS[DURATION].get(unit.get(DURATION, ""), 1.0)


# Units that may stand in the table, and how many of the first is one; versions of ncu spell them
# differently.
_UNITS = {
    DURATION: {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6,
               "s": 1e9, "second": 1e9},
    "dram__bytes_read.sum": {"byte": 1.0},
    "dram__bytes_write.sum": {"byte": 1.0},
}  # fmt: skip


def _lines(file: IO[bytes]) -> Iterator[str]:
    """The lines of the table, each of them short; those of the profiler's own are left out."""
    notes = 0
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise ValueError(f"a line of more than {LONGEST_LINE} bytes")
        if line.startswith(b"=="):
            notes += 1
            if notes > MOST_NOTES:
                raise ValueError("no table")
            continue
        yield line.decode()


def _metrics(row: Mapping[str, str], duration: float) -> dict[str, float]:
    """What a line says; durations are in units of so many nanoseconds.

    A metric that this GPU lacks has no column, or is n/a.
    """
    values = {name: _value(name, row[name]) for name in _WANTED if row.get(name, "n/a") != "n/a"}
    if DURATION in values:
        values[DURATION] *= duration
    found = {
        ours: values[name] * factor for name, (ours, factor) in COUNTS.items() if name in values
    }
    seconds = found.get("counted_seconds")
    if seconds is not None:
        found |= {o: values[n] / 100 * seconds for n, o in BUSY.items() if n in values}
    for reason, ours in STALLS.items():
        if stalled(reason) in values and ISSUED in values:
            cycles = values[stalled(reason)] * values[ISSUED]
            found[ours] = found.get(ours, 0.0) + cycles
    if THREADS in values and "cu_active_cycles" in found:
        found["wavefront_slot_cycles"] = found["cu_active_cycles"] * values[THREADS] / WARP
    return found


_WANTED = (*COUNTS, *BUSY, *map(stalled, STALLS), ISSUED, THREADS)


def _value(name: str, text: str) -> float:
    """A number that is finite and not below 0; ncu writes commas between thousands."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        raise ValueError(f"{name} is {printable(text)}, which is not a number") from None
    if value and not MIN_VALUE <= value <= MAX_VALUE:
        raise ValueError(f"{name} is {printable(text)}, which is no count")
    return value
