"""AlexNet layer by layer on two GPUs: times, stalls, functional units and memories."""

from __future__ import annotations

from simgen.reports.studies.definition import Case, Draws, Figure, Printed, Study

ABSTRACT = "abstract"
REDUCED = (
    ("conv1.h", "33"), ("conv1.w", "33"), ("conv1.kernel_size", "5"), ("conv1.stride", "2"),
    ("conv1.num_output", "8"), ("conv2.num_output", "16"), ("conv3.num_output", "16"),
    ("conv4.num_output", "16"), ("conv5.num_output", "16"),
    ("fc6.num_output", "32"), ("fc7.num_output", "32"), ("fc8.num_output", "50"),
)  # fmt: skip

STUDY = Study(
    "icpe18",
    "Characterization of AlexNet",
    "S. Dong, X. Gong, Y. Sun, T. Baruah, D. Kaeli: Characterizing the Microarchitectural "
    "Implications of a Convolutional Neural Network (CNN) Execution on GPUs. ICPE 2018",
    "The abstract, and the scripts of its artifact (branch experiments-nvidia-gpu of DNNMark): "
    "batches of 16, 64 and 128, a Kepler and a Pascal GPU, and the counters behind each plot. The "
    "numbers of figures follow the order of these scripts; the values of their bars could not be "
    "read.",
    (Case("alexnet", "alexnet", (("conv1.n", "{n}"),), "fwd,bwd", REDUCED),),
    (
        Figure(
            "table-1", "Table 1", "Layers of AlexNet",
            "shapes, parameters and work of each layer and pass, counted from the shapes",
            Draws.TABLE,
        ),
        Figure(
            "figure-6", "Figure 6", "Time of each layer over batch sizes, machine A",
            "time of the kernels of a layer in a pass", Draws.BATCHES, ("seconds",),
        ),
        Figure(
            "figure-7", "Figure 7", "Time of each layer over batch sizes, machine B",
            "time of the kernels of a layer in a pass", Draws.BATCHES, ("seconds",), machine="B",
        ),
        Figure(
            "figure-8", "Figure 8", "Speed-up of machine B over machine A",
            "time on A by time on B: above 1, B is faster", Draws.SPEED_UP, ("seconds",),
        ),
        Figure(
            "figure-9", "Figure 9", "Floating-point instructions by kind",
            "float32 instructions of work-items (a multiply-add is one)", Draws.PARTS,
            part="floats",
        ),
        Figure(
            "figure-10", "Figure 10", "Stalls, machine A",
            "what wavefronts do with their cycles", Draws.PARTS, part="waits",
        ),
        Figure(
            "figure-11", "Figure 11", "Stalls, machine B",
            "what wavefronts do with their cycles", Draws.PARTS, part="waits", machine="B",
        ),
        Figure(
            "figure-12", "Figure 12", "Utilization of functional units",
            "how much of what it could issue at most each kind of unit did", Draws.LAYERS,
            ("alu_utilization", "special_utilization", "ldst_utilization", "control_utilization"),
        ),
        Figure(
            "figure-13", "Figure 13", "Cache hit rates",
            "accesses that each cache answers itself", Draws.LAYERS,
            ("l1_hit_rate", "l2_hit_rate"),
        ),
        Figure(
            "figure-14", "Figure 14", "Memory transactions of L1, LDS and L2",
            "accesses that reach each of them", Draws.LAYERS,
            ("l1_accesses", "lds_instructions", "l2_accesses"),
        ),
        Figure(
            "figure-15", "Figure 15", "Memory transactions of L2 and DRAM",
            "accesses that reach L2, and bursts that the DRAM reads and writes", Draws.LAYERS,
            ("l2_accesses", "dram_reads", "dram_writes"),
        ),
        Figure(
            "figure-16", "Figure 16", "Throughput of each memory level",
            "bytes in a second", Draws.LAYERS,
            ("l1_bytes_per_second", "l2_bytes_per_second", "dram_bytes_per_second"),
        ),
        Figure(
            "figure-17", "Figure 17", "Utilization of each memory level",
            "throughput by what the machine can move at most", Draws.LAYERS,
            ("l1_utilization", "lds_utilization", "l2_utilization", "dram_utilization"),
        ),
        Figure(
            "bypass", "L1 bypass", "Speed-up with loads that pass by L1",
            "time with L1 by time without: above 1, it is faster without", Draws.BYPASS,
            ("seconds",),
            printed=(
                Printed("largest speed-up of a layer", "6.2 %", ABSTRACT),
                Printed("speed-up of the application", "very limited", ABSTRACT),
            ),
        ),
        Figure(
            "fusion", "Kernel fusion", "Speed-up with fused kernels",
            "time of the forward pass by that with activations merged into the kernels before them",
            Draws.FUSION, ("seconds",),
            printed=(Printed("speed-up of the application, on average", "4.0 %", ABSTRACT),),
        ),
    ),
)  # fmt: skip
