"""DNNMark: what its primitives do to a GPU, one by one."""

from __future__ import annotations

from simgen.reports.studies.definition import Case, Draws, Figure, Study

SMALL = (("c", "4"), ("h", "16"), ("w", "16"))
WINDOW = (("num_output", "8"),)
PRIMITIVES = {
    "conv": (*SMALL, *WINDOW),
    "pool": SMALL,
    "lrn": SMALL,
    "activation": SMALL,
    "fc": (("c", "256"), ("num_output", "64")),
    "bn": (("c", "64"),),
    "softmax": (("c", "100"),),
}
CASES = tuple(
    Case(f"{kind}_{way}", f"{kind}_{way}", (("n", "{n}"),), reduced=reduced)
    for kind, reduced in PRIMITIVES.items()
    for way in ("fwd", "bwd")
)

STUDY = Study(
    "dnnmark",
    "Profiles of DNNMark's primitives",
    "S. Dong, D. Kaeli: DNNMark: A Deep Neural Network Benchmark Suite for GPUs. GPGPU-10, 2017",
    "The abstract: selected primitives were measured on an NVIDIA K40. It prints no values, and "
    "the pages with figures 9 to 12 could not be read: which of them shows which profile is this "
    "study's order, and nothing stands beside ours.",
    CASES,
    (
        Figure(
            "figure-9", "Figure 9", "Eligible warps and instructions per cycle",
            "wavefronts that could issue in a cycle of a compute unit, and what the GPU issued",
            Draws.CASES, ("eligible_wavefronts", "instructions_per_cycle"),
        ),
        Figure(
            "figure-10", "Figure 10", "Utilization of functional units",
            "how much of what they could issue at most ALUs and load/store units did",
            Draws.CASES,
            ("alu_utilization", "ldst_utilization", "special_utilization"),
        ),
        Figure(
            "figure-11", "Figure 11", "Utilization of the memories",
            "bytes that each level moved, by what it can move at most",
            Draws.CASES,
            ("l1_utilization", "lds_utilization", "l2_utilization", "dram_utilization"),
        ),
        Figure(
            "figure-12", "Figure 12", "Warp execution efficiency",
            "work-items of a wavefront that execute its instructions; next to it, those whose "
            "predicate is true",
            Draws.CASES,
            ("warp_execution_efficiency", "warp_nonpredicated_efficiency"),
        ),
    ),
    reduced_batches=(1, 4),
)  # fmt: skip
