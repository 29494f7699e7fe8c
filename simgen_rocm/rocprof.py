"""`rocprof-N.csv`: what rocprofv3 counted of each launch, in the vocabulary of
simgen.ground.metrics.

Each file is the counter_collection.csv of a pass of its own over all launches, because the counters
of GROUPS do not fit into one: a line for each launch and counter, with the kernel's name, the
counter's, and its value over all its instances. Counters are those of AMD's MI200 and MI300. From
the documentation of rocprofv3 (ROCprofiler-SDK, "Using rocprofv3", "Kernel counter collection
output") and of the counters (ROCm, "MI300 and MI200 Series performance counters and metrics"), and
its source (generateCSV.cpp, which adds up instances); never seen running.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from simgen.errors import DamagedError, printable
from simgen.ground.storage.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

QUAD = 4  # cycles, which counters of wavefronts count in
KILOBYTE = 1024
# What is asked for in each pass: no more than 6 counters of the sequencer, and 2 of each cache.
GROUPS: tuple[tuple[str, ...], ...] = (
    ("SQ_WAVES", "SQ_INSTS", "SQ_INSTS_VALU", "SQ_INSTS_SALU", "SQ_INSTS_LDS", "SQ_INSTS_SMEM"),
    ("SQ_INSTS_VMEM_RD", "SQ_INSTS_VMEM_WR", "SQ_WAVE_CYCLES", "SQ_BUSY_CU_CYCLES", "SQ_WAIT_ANY"),
    ("SQC_DCACHE_HITS", "SQC_DCACHE_MISSES", "SQC_DCACHE_MISSES_DUPLICATE"),
    ("SQC_ICACHE_HITS", "SQC_ICACHE_MISSES", "SQC_ICACHE_MISSES_DUPLICATE"),
    ("TCP_TOTAL_CACHE_ACCESSES_sum", "TCP_TCC_READ_REQ_sum", "TCC_HIT_sum", "TCC_MISS_sum"),
    ("FETCH_SIZE",),
    ("WRITE_SIZE",),
)
# Counters -> our metrics, and the factor between them.
COUNTS: Mapping[str, tuple[str, float]] = {
    "SQ_WAVES": ("wavefronts", 1),
    "SQ_INSTS": ("instructions", 1),
    "SQ_INSTS_VALU": ("valu_instructions", 1),  # MFMA among them
    "SQ_INSTS_SALU": ("salu_instructions", 1),
    "SQ_INSTS_LDS": ("lds_instructions", 1),  # on MI200 it includes flat instructions
    "SQ_INSTS_SMEM": ("scalar_memory_reads", 1),
    "SQ_INSTS_VMEM_RD": ("vector_memory_reads", 1),
    "SQ_INSTS_VMEM_WR": ("vector_memory_writes", 1),
    "SQ_WAVE_CYCLES": ("wavefront_cycles", QUAD),
    "SQ_BUSY_CU_CYCLES": ("cu_active_cycles", QUAD),
    "SQ_WAIT_ANY": ("stall_other_cycles", QUAD),  # for anything: memory, barriers, results
    "SQC_DCACHE_HITS": ("l1_scalar_hits", 1),
    "SQC_DCACHE_MISSES": ("l1_scalar_misses", 1),
    "SQC_DCACHE_MISSES_DUPLICATE": ("l1_scalar_mshr_hits", 1),
    "SQC_ICACHE_HITS": ("l1_instruction_hits", 1),
    "SQC_ICACHE_MISSES": ("l1_instruction_misses", 1),
    "SQC_ICACHE_MISSES_DUPLICATE": ("l1_instruction_mshr_hits", 1),
    "TCP_TCC_READ_REQ_sum": ("l1_misses", 1),  # reads that L1 asks L2 for
    "TCC_HIT_sum": ("l2_hits", 1),
    "TCC_MISS_sum": ("l2_misses", 1),
    "FETCH_SIZE": ("dram_read_bytes", KILOBYTE),
    "WRITE_SIZE": ("dram_written_bytes", KILOBYTE),
}
ACCESSES = "TCP_TOTAL_CACHE_ACCESSES_sum"  # accesses of L1; those that are no misses are hits
ARCHS = ("gfx90a", "gfx942")  # MI200 and MI300

DISPATCH, KERNEL = "Dispatch_Id", "Kernel_Name"
COUNTER, VALUE = "Counter_Name", "Counter_Value"
START, END = "Start_Timestamp", "End_Timestamp"  # nanoseconds
NEEDED = {DISPATCH, KERNEL, COUNTER, VALUE, START, END}
DESCRIPTOR = ".kd"  # ends the symbol by which a runtime knows a kernel
MOST_COLUMNS = 100
LONGEST_LINE = 2**16  # bytes
MOST_LINES = 10_000_000
MIN_VALUE, MAX_VALUE = 1e-30, 1e30


def file_of(number: int) -> str:
    """The file of the pass with this number, from 1 on."""
    return f"rocprof-{number}.csv"


def read_metrics(results: Path, kernels: Sequence[str]) -> list[dict[str, float]]:
    """Our metrics of each launch of `kernels`, in their order; none where nothing was counted.

    Raises:
        DamagedError: a file is not one that rocprofv3 left for these launches.
    """
    made: list[dict[str, float]] = [{} for _ in kernels]
    if not (results / file_of(1)).exists():
        return made
    for number, counters in enumerate(GROUPS, 1):
        path = results / file_of(number)
        try:
            found = _dispatches(path, {*kernels})
            names = [each.kernel for each in found]
            if names != list(kernels):
                raise ValueError(
                    f"counts {len(names)} launches that are not the workload's {len(kernels)}"
                )
            for ours, each in zip(made, found, strict=True):
                ours |= _metrics(each, counters)
        except (OSError, ValueError, csv.Error) as error:
            fact = getattr(error, "strerror", None) or error
            raise DamagedError(f"{path}: cannot be read ({fact}); run the bundle again") from None
    return made


def named() -> dict[str, str]:
    """Our metrics, in words of the profiler."""
    found = {ours: name + (f" * {by}" if by != 1 else "") for name, (ours, by) in COUNTS.items()}
    found["l1_hits"] = f"{ACCESSES} - TCP_TCC_READ_REQ_sum"
    found["counted_seconds"] = f"{END} - {START}"
    return found


@dataclass
class _Dispatch:
    """What the lines of a launch say."""

    kernel: str
    seconds: float
    values: dict[str, float] = field(default_factory=dict)


def _dispatches(path: Path, kernels: set[str]) -> list[_Dispatch]:
    """Dispatches of a pass, by their numbers; the runtime's own launches are left out."""
    found: dict[int, _Dispatch] = {}
    with open_regular(path) as file:
        lines = csv.reader(_lines(file))
        head = next(lines, [])
        if len(head) > MOST_COLUMNS or len({*head}) < len(head) or not {*head} >= NEEDED:
            raise ValueError("not the columns of counter_collection.csv")
        for line in lines:
            if len(line) != len(head):
                raise ValueError(f"line {lines.line_num} has {len(line)} fields for {len(head)}")
            row = dict(zip(head, line))
            kernel = row[KERNEL].removesuffix(DESCRIPTOR)
            if kernel not in kernels:
                continue
            seconds = (_number(END, row[END]) - _number(START, row[START])) * 1e-9
            number = int(_number(DISPATCH, row[DISPATCH]))
            own = found.setdefault(number, _Dispatch(kernel, max(0.0, seconds)))
            if own.kernel != kernel or row[COUNTER] in own.values:
                raise ValueError(f"dispatch {number} has {printable(row[COUNTER])} twice")
            own.values[row[COUNTER]] = _number(row[COUNTER], row[VALUE])
    return [found[number] for number in sorted(found)]


def _lines(file: IO[bytes]) -> Iterator[str]:
    """The lines, each of them short, and not endlessly many."""
    for _ in range(MOST_LINES):
        line = file.readline(LONGEST_LINE + 1)
        if not line:
            return
        if len(line) > LONGEST_LINE:
            raise ValueError(f"a line of more than {LONGEST_LINE} bytes")
        yield line.decode()
    raise ValueError(f"more than {MOST_LINES} lines")


def _metrics(found: _Dispatch, counters: Sequence[str]) -> dict[str, float]:
    """What a launch has of the counters of a pass; the first pass says how long it took."""
    values = found.values
    lacks = next((name for name in counters if name not in values), None)
    if lacks:
        raise ValueError(f"a launch without {lacks}")
    made = {COUNTS[n][0]: values[n] * COUNTS[n][1] for n in counters if n in COUNTS}
    if ACCESSES in counters:
        made["l1_hits"] = max(0.0, values[ACCESSES] - values["TCP_TCC_READ_REQ_sum"])
    if counters == GROUPS[0]:
        made["counted_seconds"] = found.seconds
    return made


def _number(name: str, text: str) -> float:
    """A number that is finite and not below 0."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{printable(name)} is {printable(text)}, not a number") from None
    if value and not MIN_VALUE <= value <= MAX_VALUE:
        raise ValueError(f"{printable(name)} is {printable(text)}, which is no count")
    return value
