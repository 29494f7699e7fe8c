"""What of MGPUSim's hardware runs can change: what its public builders take.

Options have gem5's names where they mean the same. They are those of the timing model; the emulator
has no hardware. templates/launchers/mgpusim/hardware.go reads them.
"""

from __future__ import annotations

from simgen.targets.base import CLOCK, SIZE, RunOption


def _count(name: str, text: str) -> RunOption:
    return RunOption(f"SIMGEN_{name}", f"{text} [default: the GPU's]", least=1)


def _size(name: str, text: str) -> RunOption:
    variable = f"SIMGEN_{name}"
    return RunOption(variable, f"{text} [default: the GPU's]", pattern=SIZE, example="16KiB")


TOPOLOGIES = ("pairs", "star", "full")
HARDWARE = {
    "num_compute_units": _count("NUM_COMPUTE_UNITS", "compute units of a GPU"),
    "cu_per_sa": _count("CU_PER_SA", "compute units of a shader array"),
    "wfs_per_simd": _count("WFS_PER_SIMD", "wavefronts per SIMD unit"),
    "vreg_file_size": _count("VREG_FILE_SIZE", "vector registers per SIMD unit"),
    "lds_size": _count("LDS_SIZE", "bytes of LDS per compute unit"),
    "tcp_size": _size("TCP_SIZE", "L1 cache of a compute unit"),
    "tcp_latency": _count("TCP_LATENCY", "cycles of a bank of L1"),
    "tcp_assoc": _count("TCP_ASSOC", "ways of L1"),
    "tcc_size": _size("TCC_SIZE", "L2 cache"),
    "tcc_latency": _count("TCC_LATENCY", "cycles of a bank of L2"),
    "tcc_assoc": _count("TCC_ASSOC", "ways of L2"),
    "scalar_latency": _count("SCALAR_LATENCY", "cycles of the cache of scalars"),
    "scalar_assoc": _count("SCALAR_ASSOC", "ways of the cache of scalars"),
    "sqc_latency": _count("SQC_LATENCY", "cycles of the cache of instructions"),
    "num_tccs": _count("NUM_TCCS", "banks of L2, each with a memory controller"),
    "gpu_clock": RunOption(
        "SIMGEN_GPU_CLOCK", "clock of the GPU [default: its own]", pattern=CLOCK, example="1.5GHz"
    ),
    "dram_latency": _count(
        "DRAM_LATENCY",
        "latency of a memory controller in cycles: of 1 GHz (mi300a), or of the GPU clock (r9nano)",
    ),
    "topology": RunOption(
        "SIMGEN_TOPOLOGY",
        "switches of several GPUs: two at each (pairs), all at one (star), or one for each and a "
        "link between any two (full) [default: pairs]",
        TOPOLOGIES,
    ),
}
