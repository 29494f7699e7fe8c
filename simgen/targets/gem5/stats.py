"""gem5's statistics file: one dump after another.

`apu_se.py` (gem5 24.0 and later) dumps and resets the statistics whenever a kernel ends, at the
m5_work_begin and m5_work_end pseudo-instructions, and when the program exits.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, TYPE_CHECKING

from simgen.errors import DamagedError
from simgen.ground.storage.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FILE = "stats.txt"
# What a CPU has executed: to 22.1, and later.
_OWN_INSTRUCTIONS = re.compile(r"\.(exec_context\.thread_\d+|commitStats\d+)\.numInsts\Z")

# stats.txt -> metric: the sum over the GPU's components of the statistics whose last part is this.
COMPUTE_UNIT = {  # SHADER.CUs*.NAME
    "numInstrExecuted": "instructions",
    "vALUInsts": "valu_instructions",
    "sALUInsts": "salu_instructions",  # without branches
    "ldsNoFlatInsts": "lds_instructions",
    "globalReads": "vector_memory_reads",  # flat and global instructions
    "globalWrites": "vector_memory_writes",
    "scalarMemReads": "scalar_memory_reads",
    "numVecOpsExecuted": "vector_operations",  # instructions times active work-items
    "groupReads": "lds_reads",
    "groupWrites": "lds_writes",
    "ldsBankAccesses": "lds_bank_accesses",
    "threadCyclesVALU": "valu_operations",
    "completedWfs": "wavefronts",
    "completedWGs": "work_groups",
    "totalCycles": "cu_active_cycles",
}
# SHADER.CUs*.NAME: instructions times active work-items, of float32. Those of fused and of unfused
# multiply-adds are among all of them, which are not told apart any further.
FLOATS = "numVecOpsExecutedF32"
MULTIPLY_ADDS = tuple(f"numVecOpsExecuted{kind}32" for kind in ("FMA", "MAC", "MAD"))
# SHADER.CUs*.ScoreboardCheckStage.stallCycles::NAME: in each cycle of a unit that runs, each of its
# wavefront slots counts once, for what keeps its wavefront from being scheduled.
STALLS = "ScoreboardCheckStage.stallCycles::"
EMPTY = "WFStop"  # no wavefront in the slot, or one that has ended
REASONS = {
    "IBEmpty": "stall_fetch_cycles",  # the next instruction is not fetched yet
    "WaitCnt": "stall_wait_cycles",  # s_waitcnt: memory or LDS
    "BarrierWait": "stall_barrier_cycles",
    "VgprBusy": "stall_vgpr_cycles",  # a result that is not written yet
    "SgprBusy": "stall_sgpr_cycles",
    "InstrReady": "ready_cycles",  # not stalled; it may still have to wait for its turn
}
CACHES = {  # ...CONTROLLER*.*cache.NAME
    "tcp_cntrl": "l1",
    "scalar_cntrl": "l1_scalar",
    "sqc_cntrl": "l1_instruction",
    "tcc_cntrl": "l2",
}
CACHE = {"m_demand_hits": "hits", "m_demand_misses": "misses"}
# ...mem_ctrls*.dram*.NAME. A controller's own statistics of these names also count requests that
# its write queue answers, and `bytesRead::*` of a dram counts those too.
DRAM = {
    "dramBytesRead": "dram_read_bytes",
    "bytesRead": "dram_read_bytes",  # its name before v23.1
    "dramBytesWritten": "dram_written_bytes",
    "bytesWritten": "dram_written_bytes",
    "readBursts": "dram_reads",
    "writeBursts": "dram_writes",
}
TICKS_PER_SECOND = 1e12  # where the file does not say
BLOCK = "---------- Begin Simulation Statistics"
END = "---------- End Simulation Statistics"
LONGEST_LINE = 2**20  # bytes; a vector or a histogram may stand on one line
MOST_STATISTICS = 2**21  # statistics of a dump, at most
MOST_AT_ONCE = 2**26  # bytes that are looked at while a file grows
# Range of a statistic: larger values make sums infinite, smaller ones make ratios infinite.
MIN_VALUE, MAX_VALUE = 1e-30, 1e30


@dataclass(frozen=True)
class Interval:
    """Seconds of simulated time since its beginning, in which the GPU was active."""

    start: float
    end: float
    clock: float  # shader cycles per second


def kernels(path: Path) -> list[dict[str, float]]:
    """Metrics of each kernel, in the order in which they ran.

    Raises:
        DamagedError: the file is missing or holds no dump, or the GPU worked in none of them.
    """
    found, dumps = [], 0
    for block in blocks(path):
        dumps += 1
        metrics = kernel_metrics(block)
        if metrics is not None:
            _check(path, metrics)
            found.append(metrics)
    if not found:
        raise DamagedError(
            f"{path}: no kernel ran: shaderActiveTicks is 0 in each of {dumps} dumps; "
            "read log.txt beside it, and run it again"
        )
    return found


def _check(path: Path, metrics: Mapping[str, float]) -> None:
    odd = next((name for name, value in metrics.items() if not 0 <= value < math.inf), None)
    if odd is not None:
        fact = f"{odd} is {metrics[odd]:g}, which is neither a time nor a count"
        raise DamagedError(f"{path}: {fact}; run it again")


def active(path: Path) -> list[Interval]:
    """The intervals in which some compute unit was active, in order.

    Raises:
        DamagedError: the file is missing or holds no dump, or the GPU worked in none of them.
    """
    found: list[Interval] = []
    for block in blocks(path):
        shader = _shader(block)
        ticks = block.get(shader, 0.0) if shader else 0.0
        end, per_second = block.get("finalTick", 0.0), block.get("simFreq") or TICKS_PER_SECOND
        if not shader or not ticks:
            continue
        before = found[-1].end if found else 0.0
        if not 0 < ticks <= end or end / per_second <= before:
            raise DamagedError(f"{path}: its times do not follow each other; run it again")
        start = max(before, (end - ticks) / per_second)
        found.append(Interval(start, end / per_second, per_second / (_period(block, shader) or 1)))
    if not found:
        raise DamagedError(f"{path}: no kernel ran; read log.txt beside it, and run it again")
    return found


def cpu_instructions(path: Path) -> list[int]:
    """Instructions that the simulated CPUs executed before each dump; their sum is the run's.

    Raises:
        DamagedError: the file is missing or holds no dump.
    """
    counts, own = [], []
    for block in blocks(path):
        counts.append(int(block.get("simInsts", 0.0)))
        own.append(sum(value for name, value in block.items() if _OWN_INSTRUCTIONS.search(name)))
    # To 24.0, simInsts is no statistic that a dump resets (feeb3b2d67); those of the CPUs are.
    if any(0 < each < count for count, each in zip(counts[1:], own[1:], strict=True)):
        return [count - before for before, count in pairwise([0, *counts])]
    return counts


def blocks(path: Path) -> Iterator[dict[str, float]]:
    """The statistics of each dump in `stats.txt`, in order, by full name.

    Values that are no numbers up to MAX_VALUE are left out: rates of what did not happen are nan.

    Raises:
        DamagedError: the file is missing or holds no dump.
    """
    values: dict[str, float] | None = None
    try:
        with open_regular(path) as lines:
            for line in _lines(lines):
                if line.startswith(BLOCK):
                    if values is not None:
                        yield values
                    values = {}
                elif values is not None:
                    values.update(_statistic(line))
                    if len(values) > MOST_STATISTICS:
                        raise ValueError(f"more than {MOST_STATISTICS} statistics in a dump")
    except (OSError, ValueError) as error:
        raise DamagedError(
            f"{path}: {getattr(error, 'strerror', None) or error}; run it again"
        ) from None
    if values is None:
        raise DamagedError(f"{path}: holds no statistics; run it again")
    yield values


def _lines(file: IO[bytes]) -> Iterator[str]:
    """The lines of a text file, each of them of bounded length.

    Raises:
        ValueError: one is longer, as it is in what is no statistics file.
    """
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise ValueError(f"a line of more than {LONGEST_LINE} bytes")
        yield line.decode("ascii", "replace")


class StatsFollower:
    """Reads a `stats.txt` that grows: how many kernels have ended, when, and what they executed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kernels = 0
        self.seconds = 0.0  # simulated time at the last dump
        self.instructions = 0.0  # as kernel_metrics
        self._read = 0  # bytes
        self._rest = ""  # the line that is not whole yet
        self._ticks_per_second = TICKS_PER_SECOND
        self._active = False  # the GPU, in this dump
        self._executed = 0.0  # in this dump

    def update(self) -> None:
        """Take in what was added. A file that is not there yet is empty."""
        try:
            with open_regular(self.path) as file:
                file.seek(self._read)
                added = file.read(MOST_AT_ONCE)
        except OSError:
            return
        self._read += len(added)
        lines = (self._rest + added.decode("ascii", "replace")).split("\n")
        self._rest = lines.pop()[-LONGEST_LINE:]
        for line in lines:
            self._take(line)

    def _take(self, line: str) -> None:
        if line.startswith(END):
            self.kernels += self._active
            self.instructions += self._executed
            self._active, self._executed = False, 0.0
        elif line.startswith("simFreq"):
            self._ticks_per_second = _value(line) or TICKS_PER_SECOND
        elif line.startswith("finalTick"):
            self.seconds = _value(line) / self._ticks_per_second
        elif ".shaderActiveTicks" in line:
            self._active = self._active or _value(line) > 0
        elif ".numInstrExecuted" in line and ".wavefronts" not in line:
            self._executed += _value(line)


def _value(line: str) -> float:
    return next(iter(_statistic(line).values()), 0.0)


def _statistic(line: str) -> dict[str, float]:
    """The name and the value of a line, if there is one."""
    words = line.split(None, 2)
    try:
        value = float(words[1])
    except (IndexError, ValueError):
        return {}
    return {words[0]: value} if not value or MIN_VALUE <= abs(value) <= MAX_VALUE else {}


def kernel_metrics(block: Mapping[str, float]) -> dict[str, float] | None:
    """Metrics of a dump in which a kernel ended; None for any other dump.

    `seconds` and `cycles` (of the shader's clock) are the time in which any compute unit was
    active; `simulated_seconds` is all that passed since the dump before, the CPU's part included.
    `cu_cycles` are `cycles` of all compute units, `cu_active_cycles` those in which they ran;
    `wavefront_slot_cycles` are the latter times the wavefront slots of a unit, `wavefront_cycles`
    those of slots that held a wavefront. DRAM traffic is that of the CPU too.

    The shader is a CPU after the others, so that its name depends on their number: the one that
    counts `shaderActiveTicks`.
    """
    shader = _shader(block)
    if shader is None or not block[shader]:
        return None
    counts = [*COMPUTE_UNIT.values(), *REASONS.values()]
    metrics = _times(block, shader) | dict.fromkeys(counts, 0.0)
    metrics |= dict.fromkeys(("wavefront_slot_cycles", "wavefront_cycles"), 0.0)
    metrics |= dict.fromkeys(("f32_fma_operations", "f32_other_operations"), 0.0)
    metrics |= {f"{c}_{kind}": 0.0 for c in CACHES.values() for kind in CACHE.values()}
    metrics |= dict.fromkeys(DRAM.values(), 0.0)
    units = shader.removesuffix("shaderActiveTicks") + "CUs"
    seen = set()
    for name, value in block.items():
        if name.startswith(units):
            unit, _, rest = name.removeprefix(units).partition(".")
            seen.add(unit)
            _add_unit(metrics, rest, value)
        else:
            _add_memory(metrics, name, value)
    if "cycles" in metrics:
        metrics["cu_cycles"] = metrics["cycles"] * len(seen)
    return metrics


def _shader(block: Mapping[str, float]) -> str | None:
    return next((name for name in block if name.endswith(".shaderActiveTicks")), None)


def _period(block: Mapping[str, float], shader: str) -> float | None:
    """Ticks of a cycle of the shader."""
    return block.get(shader.replace(".shaderActiveTicks", ".clk_domain.clock"))


def named() -> dict[str, str]:
    """The metrics, in gem5's words."""
    names = {metric: name for name, metric in COMPUTE_UNIT.items()}
    names |= {metric: f"stallCycles::{reason}" for reason, metric in REASONS.items()}
    for controller, cache in CACHES.items():
        names |= {f"{cache}_{kind}": f"{controller}.{name}" for name, kind in CACHE.items()}
    names |= {metric: f"dram.{name}" for name, metric in reversed(DRAM.items())}
    multiply_adds = " + ".join(MULTIPLY_ADDS)
    return names | {
        "seconds": "shaderActiveTicks / simFreq",
        "simulated_seconds": "simTicks / simFreq",
        "shader_active_ticks": "shaderActiveTicks",
        "cycles": "shaderActiveTicks / clock",
        "cu_cycles": "shaderActiveTicks / clock * CUs",
        "f32_fma_operations": multiply_adds,
        "f32_other_operations": f"{FLOATS} - ({multiply_adds})",
        "wavefront_slot_cycles": "all stallCycles",
        "wavefront_cycles": f"stallCycles without {EMPTY}",
    }


def _times(block: Mapping[str, float], shader: str) -> dict[str, float]:
    per_second = block.get("simFreq") or TICKS_PER_SECOND
    ticks = block[shader]
    times = {
        "seconds": ticks / per_second,
        "simulated_seconds": block.get("simTicks", 0.0) / per_second,
        "shader_active_ticks": ticks,
    }
    if "hostSeconds" in block:
        times["host_seconds"] = block["hostSeconds"]
    period = _period(block, shader)
    if period:
        times["cycles"] = ticks // period
    return times


def _add_unit(metrics: dict[str, float], name: str, value: float) -> None:
    """Add a statistic of a compute unit. Its wavefront slots have statistics of the same names
    (wavefronts0.NAME), which are not added again."""
    if name in COMPUTE_UNIT:
        metrics[COMPUTE_UNIT[name]] += value
    elif name in MULTIPLY_ADDS:
        metrics["f32_fma_operations"] += value
        metrics["f32_other_operations"] -= value
    elif name == FLOATS:
        metrics["f32_other_operations"] += value
    elif name.startswith(STALLS):
        reason = name.removeprefix(STALLS)
        metrics["wavefront_slot_cycles"] += value
        if reason != EMPTY:
            metrics["wavefront_cycles"] += value
        if reason in REASONS:
            metrics[REASONS[reason]] += value


def _add_memory(metrics: dict[str, float], name: str, value: float) -> None:
    """Add a statistic of a cache or of the DRAM."""
    head, _, last = name.rpartition(".")
    if last in CACHE:
        for controller, cache in CACHES.items():
            if f".{controller}" in head:
                metrics[f"{cache}_{CACHE[last]}"] += value
    elif last in DRAM and ".mem_ctrl" in head and head.rpartition(".")[2].startswith("dram"):
        metrics[DRAM[last]] += value
