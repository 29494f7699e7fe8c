"""gem5's statistics file: one dump after another.

`apu_se.py` (gem5 24.0 and later) dumps and resets the statistics whenever a kernel ends, at the
m5_work_begin and m5_work_end pseudo-instructions, and when the program exits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FILE = "stats.txt"

# stats.txt -> metric: the sum over the GPU's components of the statistics whose last part is this.
COMPUTE_UNIT = {  # SHADER.CUs*.NAME
    "numInstrExecuted": "instructions",
    "vALUInsts": "valu_instructions",
    "sALUInsts": "salu_instructions",
    "ldsNoFlatInsts": "lds_instructions",
    "globalReads": "vector_memory_reads",  # flat and global instructions
    "globalWrites": "vector_memory_writes",
    "scalarMemReads": "scalar_memory_reads",
    "numVecOpsExecuted": "vector_operations",  # instructions times active work-items
    "ldsBankAccesses": "lds_bank_accesses",
    "completedWfs": "wavefronts",
    "completedWGs": "work_groups",
}
CACHES = {"tcp_cntrl": "l1", "tcc_cntrl": "l2"}  # ...CONTROLLER*.*cache.NAME
CACHE = {"m_demand_hits": "hits", "m_demand_misses": "misses"}
BLOCK = "---------- Begin Simulation Statistics"


def kernels(path: Path) -> list[dict[str, float]]:
    """Metrics of each kernel, in the order in which they ran.

    Raises:
        DamagedError: the file is missing or holds no dump.
    """
    return [metrics for block in blocks(path) if (metrics := kernel_metrics(block)) is not None]


def cpu_instructions(path: Path) -> list[int]:
    """Instructions that the simulated CPUs executed before each dump; their sum is the run's.

    Raises:
        DamagedError: the file is missing or holds no dump.
    """
    return [int(block.get("simInsts", 0.0)) for block in blocks(path)]


def blocks(path: Path) -> Iterator[dict[str, float]]:
    """The statistics of each dump in `stats.txt`, in order, by full name.

    Values that are no numbers (distributions) are left out.

    Raises:
        DamagedError: the file is missing or holds no dump.
    """
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise DamagedError(f"{path}: {error.strerror}; run it again") from None
    _, *dumps = text.split(BLOCK)
    if not dumps:
        raise DamagedError(f"{path}: holds no statistics; run it again")
    for dump in dumps:
        values = {}
        for line in dump.splitlines():
            words = line.split(None, 2)
            if len(words) < 2:
                continue
            try:
                values[words[0]] = float(words[1])
            except ValueError:
                continue
        yield values


def kernel_metrics(block: Mapping[str, float]) -> dict[str, float] | None:
    """Metrics of a dump in which a kernel ended; None for any other dump.

    The shader is a CPU after the others, so that its name depends on their number: the one that
    counts `shaderActiveTicks`.
    """
    shader = next((n for n in block if n.endswith(".shaderActiveTicks")), None)
    if shader is None or not block[shader]:
        return None
    units = shader.removesuffix("shaderActiveTicks") + "CUs"
    metrics = {"seconds": block.get("simSeconds", 0.0), "shader_active_ticks": block[shader]}
    metrics |= dict.fromkeys(COMPUTE_UNIT.values(), 0.0)
    metrics |= {f"{c}_{kind}": 0.0 for c in CACHES.values() for kind in CACHE.values()}
    for name, value in block.items():
        head, _, last = name.rpartition(".")
        # A unit's wavefront slots have statistics of the same names: SHADER.CUs0.wavefronts0.NAME.
        if last in COMPUTE_UNIT and head.startswith(units) and head[len(units) :].isdigit():
            metrics[COMPUTE_UNIT[last]] += value
        elif last in CACHE:
            for controller, cache in CACHES.items():
                if f".{controller}" in name:
                    metrics[f"{cache}_{CACHE[last]}"] += value
    return metrics
