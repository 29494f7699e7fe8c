"""AlexNet layer by layer on two GPUs: times, stalls, functional units and memories."""

from __future__ import annotations

from dataclasses import replace

from simgen.reports.studies.definition import (
    Case,
    Draws,
    Figure,
    Printed,
    Read,
    Sentence,
    Study,
)

ABSTRACT = "abstract"
REDUCED = (
    ("conv1.h", "33"), ("conv1.w", "33"), ("conv1.kernel_size", "5"), ("conv1.stride", "2"),
    ("conv1.num_output", "8"), ("conv2.num_output", "16"), ("conv3.num_output", "16"),
    ("conv4.num_output", "16"), ("conv5.num_output", "16"),
    ("fc6.num_output", "32"), ("fc7.num_output", "32"), ("fc8.num_output", "50"),
)  # fmt: skip

BACK = "bwd"
LINEAR, RELU, EVERY = r"(conv|fc)\d", r"relu\d", ""
SECTION = "its sections on layers"
TIMES = tuple(Read(f"figure-{n}", "seconds", EVERY, machine=m) for n, m in ((6, "A"), (7, "B")))


def _part(text: str, which: str, relation: str, bound: float) -> tuple[Sentence, ...]:
    """A sentence about a part of the time, on each machine."""
    return tuple(
        Sentence(
            f"{text} ({whole.machine})", SECTION, replace(whole, places=which), whole, relation,
            bound,
        )
        for whole in TIMES
    )  # fmt: skip


STATEMENTS = (
    Sentence(
        "conv2 has 896 M operations, forward and for one image", "Table 1",
        Read("table-1", "operations of one image", "^conv2 fwd"), None, "=", 896e6,
    ),
    *_part("convolutions and fully connected layers dominate the time", LINEAR, ">", 0.5),
    *_part("activations take 3 % of the time", RELU, "~", 0.03),
    *(
        Sentence(
            f"ReLU has no hits in L2 ({machine})", SECTION,
            Read(figure, "l2_hit_rate", r"^relu2", "mean", machine), None, "<", 0.01,
        )
        for figure, machine in (("figure-13", "A"), ("figure-14", "B"))
    ),
    *(
        Sentence(
            f"shared memory moves about 4 times as much as L1 or texture caches ({machine})",
            SECTION,
            Read("figure-16a", "lds_bytes_per_second", r"(conv|fc)\d", "mean", machine),
            Read("figure-16a", "l1_bytes_per_second", r"(conv|fc)\d", "mean", machine),
            "about", 4.0,
        )
        for machine in "AB"
    ),
    Sentence(
        "the weight gradient of fc6 waits for instructions (A)", SECTION,
        Read("figure-10", "stall_fetch_cycles", "^fc6 bwd_weight"),
        Read("figure-10", "wavefront_cycles", "^fc6 bwd_weight"), ">", 0.25,
    ),
    Sentence(
        "without L1, a layer gains up to 6.2 %", ABSTRACT,
        Read("bypass", "speed_up", "^(?!all)", "most"), None, "~", 0.062, minus=1,
    ),
    Sentence(
        "the layer that gains most without L1 is a convolution's weight gradient", SECTION,
        Read("bypass", "speed_up", r"^conv\d bwd_weight", "most"),
        Read("bypass", "speed_up", "^(?!all)", "most"), "=", 1.0,
    ),
    Sentence(
        "without L1, the application gains very little (less than 3 %)", ABSTRACT,
        Read("bypass", "speed_up", "^all$"), None, "<", 0.03, minus=1,
    ),
    Sentence(
        "fused kernels gain 4.0 % of a whole iteration", ABSTRACT,
        Read("fusion", "speed_up", "^whole iteration"), None, "~", 0.04, minus=1,
    ),
    Sentence(
        "loads from global memory leave L1 idle (on a Kepler)", SECTION,
        unsaid="it is about the caches of a Kepler, whose L1 serves local memory alone",
    ),
    Sentence(
        "stalls by memory throttle are gone on the GTX 1080", SECTION,
        unsaid="it is about a counter of nvprof that no target has, on two NVIDIA GPUs",
    ),
)  # fmt: skip
SELECTED = (
    "softmax bwd", "fc6 bwd_data", "fc6 bwd_weight", "pool2 bwd", "lrn2 bwd", "relu2 bwd",
    "conv2 bwd_data", "conv2 bwd_weight",
)  # fmt: skip
LEFT = "what stays in L2 when a layer ends counts as written by a later one, or never"

STUDY = Study(
    "icpe18",
    "Characterization of AlexNet",
    "S. Dong, X. Gong, Y. Sun, T. Baruah, D. Kaeli: Characterizing the Microarchitectural "
    "Implications of a Convolutional Neural Network (CNN) Execution on GPUs. ICPE 2018",
    "The quantities of Figures 6 to 17, the network, its batches of 16, 64 and 128, its machines, "
    "an NVIDIA K40 (A) and a GTX 1080 (B), and the counters of nvprof behind each plot, from the "
    "abstract and from its artifact (branch experiments-nvidia-gpu of DNNMark). The heights of the "
    "bars are not public as text.",
    (Case("alexnet", "alexnet_dnnmark", (("conv1.n", "{n}"),), "fwd,bwd", reduced=REDUCED),),
    (
        Figure(
            "table-1", "Table 1", "Layers of AlexNet",
            "shapes, parameters and work of each layer and pass, counted from the shapes",
            Draws.TABLE,
            printed=(Printed("operations of conv2 forward, of one image", "896 M", "Table 1"),),
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
            "figure-9", "Figure 9", "Floating-point instructions, machines A and B",
            "float32 instructions of work-items in the backward pass; then as nvprof's "
            "flop_count_sp has them, where a multiply-add is two",
            Draws.MACHINES, ("f32_instructions", "f32_flops"), machine="AB", direction=BACK,
        ),
        Figure(
            "figure-10", "Figure 10", "Stalls, machine A",
            "what wavefronts do with their cycles in the backward pass", Draws.PARTS,
            part="waits", direction=BACK,
        ),
        Figure(
            "figure-11", "Figure 11", "Stalls, machine B",
            "what wavefronts do with their cycles in the backward pass", Draws.PARTS,
            part="waits", machine="B", direction=BACK,
        ),
        Figure(
            "figure-12", "Figure 12", "ALU utilization, machines A and B",
            "how much of what they could issue at most vector ALUs did, in the backward pass",
            Draws.MACHINES, ("alu_utilization",), machine="AB", direction=BACK,
        ),
        Figure(
            "figure-13", "Figure 13", "Cache hit rates, machine A",
            "accesses that each cache answers itself, in the backward pass of selected layers; L1 "
            "is what a GPU reads global memory through, be it L1 or its texture cache",
            Draws.LAYERS, ("l1_hit_rate", "l2_hit_rate"), direction=BACK, places=SELECTED,
        ),
        Figure(
            "figure-14", "Figure 14", "Cache hit rates, machine B",
            "the same on B", Draws.LAYERS, ("l1_hit_rate", "l2_hit_rate"), machine="B",
            direction=BACK, places=SELECTED,
        ),
        Figure(
            "figure-15a", "Figure 15a", "Memory transactions near the core",
            "reads and writes of L1, LDS and L2 in the backward pass of selected layers; the "
            "machine is not named to us, so that it is drawn for both",
            Draws.LAYERS,
            ("l1_reads", "l1_writes", "lds_reads", "lds_writes", "l2_reads", "l2_writes"),
            machine="AB", direction=BACK, places=SELECTED,
        ),
        Figure(
            "figure-15b", "Figure 15b", "Memory transactions near the DRAM",
            f"reads and writes of L2 and of the DRAM, on both machines; {LEFT}",
            Draws.LAYERS, ("l2_reads", "l2_writes", "dram_reads", "dram_writes"),
            machine="AB", direction=BACK, places=SELECTED,
        ),
        Figure(
            "figure-16a", "Figure 16a", "Throughput of shared memory and L1",
            "bytes in a second that LDS and L1 move, on both machines", Draws.LAYERS,
            ("lds_bytes_per_second", "l1_bytes_per_second"),
            machine="AB", direction=BACK, places=SELECTED,
        ),
        Figure(
            "figure-16b", "Figure 16b", "Throughput of L2 and DRAM",
            f"bytes in a second that L2 and the DRAM move, on both machines; {LEFT}", Draws.LAYERS,
            ("l2_bytes_per_second", "dram_bytes_per_second"),
            machine="AB", direction=BACK, places=SELECTED,
        ),
        Figure(
            "figure-17", "Figure 17", "Utilization of each memory, machine B",
            "throughput by what the machine can move at most", Draws.LAYERS,
            ("lds_utilization", "l1_utilization", "l2_utilization", "dram_utilization"),
            machine="B", direction=BACK, places=SELECTED,
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
            "time of the forward pass by that with activations merged into the kernels before "
            "them; of a whole iteration, the backward pass is as it is",
            Draws.FUSION, ("seconds",),
            printed=(Printed("speed-up of the application, on average", "4.0 %", ABSTRACT),),
        ),
    ),
    STATEMENTS,
)  # fmt: skip
