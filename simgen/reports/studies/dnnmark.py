"""DNNMark: what its primitives do to a GPU, one by one."""

from __future__ import annotations

from simgen.frontend.dnnmark import SIZES
from simgen.reports.studies.definition import Case, Draws, Figure, Read, Sentence, Study

SMALL = (("c", "4"), ("h", "16"), ("w", "16"))
REDUCED = {  # for a study of minutes
    "conv": (*SMALL, ("num_output", "8")),
    "fc": (("c", "256"), ("num_output", "64")),
    "softmax": (("c", "100"),),
}
CASES = tuple(
    Case(
        f"{kind}_{way}",
        f"{kind}_{way}",
        (("n", "{n}"),),
        settings=tuple(each for each in size if each[0] != "n"),
        reduced=REDUCED.get(kind, SMALL),
    )
    for kind, size in SIZES.items()
    for way in ("fwd", "bwd")
)
BALANCE = 14.9  # operations at a K40's peak for a byte of its DRAM: 4.29e12 / 288e9
BOTH = "first of the kernel that takes most of the time, as the paper has one for each primitive"

STUDY = Study(
    "dnnmark",
    "Profiles of DNNMark's primitives",
    "S. Dong, D. Kaeli: DNNMark: A Deep Neural Network Benchmark Suite for GPUs. GPGPU-10, 2017",
    "The quantities of Figures 9 to 12, the sizes of Table 3, which are those of DNNMark's "
    "configs of November 2016, and that Table 4 has one kernel for each primitive. The heights of "
    "the bars, on an NVIDIA K40, and the sentences about them are not public as text. The "
    "quantities are those of nvprof: ipc, achieved_occupancy, eligible_warps_per_cycle and "
    "utilizations.",
    CASES,
    (
        Figure(
            "table-3", "Table 3", "Primitives and their sizes",
            "sizes of each primitive, counted from the plan", Draws.TABLE,
        ),
        Figure(
            "figure-9", "Figure 9", "Instructions per cycle",
            f"wavefront instructions in an active cycle of a compute unit; {BOTH}",
            Draws.KERNELS, ("unit_instructions_per_cycle",),
        ),
        Figure(
            "figure-10", "Figure 10", "Achieved occupancy",
            f"wavefronts in an active cycle of a compute unit, by those that it can hold; {BOTH}",
            Draws.KERNELS, ("occupancy",),
        ),
        Figure(
            "figure-11", "Figure 11", "Eligible wavefronts per active cycle",
            f"wavefronts that could issue in an active cycle of a compute unit; {BOTH}",
            Draws.KERNELS, ("eligible_wavefronts",),
        ),
        Figure(
            "figure-12", "Figure 12", "Utilization of memories and functional units",
            "what each of them did, by what it can do at most; L1 and shared memory are one on a "
            f"K40 and apart on AMD's GPUs; {BOTH}",
            Draws.KERNELS,
            ("l1_utilization", "lds_utilization", "l2_utilization", "dram_utilization",
             "alu_utilization", "ldst_utilization"),
        ),
        Figure(
            "limits", "Conclusions", "What limits each primitive",
            "the part of its time that operations take at the machine's peak, that bytes take at "
            "its DRAM's rate, and that launches cost in any case; below a quarter each, the part "
            "of slots for wavefronts that are taken, where that is below a quarter",
            Draws.LIMITS, ("occupancy",),
        ),
    ),
    (
        *(
            Sentence(
                f"{kind} takes much {much}: {word} operations for a byte than a K40's {BALANCE}",
                "abstract",
                Read("table-3", "operations", f"^{kind}_fwd"),
                Read("table-3", "bytes", f"^{kind}_fwd"), relation, BALANCE,
            )
            for kind, much, word, relation in (
                ("conv", "computing", "more", ">"),
                ("fc", "computing", "more", ">"),
                ("pool", "data", "fewer", "<"),
            )
        ),
        *(
            Sentence(
                f"the conclusion on {kind}", "its section of results",
                unsaid="the paper's text is not public; figure limits has what limits it here",
            )
            for kind in ("activation", "convolution", "pooling", "LRN", "fully connected layers")
        ),
    ),
    batches=(100,),
    reduced_batches=(4,),
)  # fmt: skip
