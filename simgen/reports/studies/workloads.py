"""Deep-learning workloads as an HPC centre sees them: where time and memory go, by network."""

from __future__ import annotations

from simgen.reports.studies.definition import Case, Draws, Figure, Settings, Study

VGG_WIDTHS = {1: 4, 2: 8, 3: 16, 4: 32, 5: 32}
RESNET_WIDTHS = {2: 8, 3: 16, 4: 32, 5: 64}


def _image(first: str, extent: int) -> Settings:
    return ((f"{first}.h", str(extent)), (f"{first}.w", str(extent)))


def _resnet() -> Settings:
    """An eighth of the channels."""
    blocks = [
        (f"res{stage}{block}_branch{branch}", width)
        for stage, width in RESNET_WIDTHS.items()
        for block in "ab"
        for branch in (("1",) if block == "a" and stage > 2 else ()) + ("2a", "2b")
    ]
    widths = tuple((f"{name}.num_output", str(width)) for name, width in blocks)
    own = (("conv1.num_output", "8"), ("pool5.kernel_size", "1"))
    return (*_image("conv1", 32), *own, *widths)


def _same(value: str, *keys: str) -> Settings:
    return tuple((key, value) for key in keys)


REDUCED: dict[str, Settings] = {
    "vgg16": (
        *_image("conv1_1", 32),
        *(
            (f"conv{stage}_{nth}.num_output", str(width))
            for stage, width in VGG_WIDTHS.items()
            for nth in range(1, 3 if stage < 3 else 4)
        ),
        ("fc6.num_output", "64"),
        ("fc7.num_output", "64"),
        ("fc8.num_output", "100"),
    ),
    "resnet18": _resnet(),
    "seq2seq": (
        *_same("{n}x4", "source.shape", "target.shape"),
        *_same("50", "source_words.vocabulary", "target_words.vocabulary", "projection.num_output"),
        *_same("16", "source_words.features", "target_words.features"),
        *_same("16", *(f"{of}{nth}.hidden_size" for of in ("encoder", "decoder") for nth in "12")),
        *_same("16", "keys.num_output", "combined.num_output"),
    ),
    "language_model": (
        ("words.shape", "{n}x5"),
        *_same("50", "embedding.vocabulary", "projection.num_output"),
        *_same("16", "embedding.features", "lstm1.hidden_size", "lstm2.hidden_size"),
    ),
    "aoa_reader": (
        ("document.shape", "{n}x12"),
        *_same("{n}x4", "query.shape", "candidates.shape"),
        *_same("40", "document_words.vocabulary", "query_words.vocabulary", "scores.vocabulary"),
        *_same("8", "document_words.features", "query_words.features"),
        *_same(
            "8",
            *(
                f"{of}_{way}.hidden_size"
                for of in ("document", "query")
                for way in ("forwards", "backwards")
            ),
        ),
    ),
}
BATCH: dict[str, Settings] = {
    "vgg16": (("conv1_1.n", "{n}"),),
    "resnet18": (("conv1.n", "{n}"),),
    "seq2seq": (*_same("{n}x20", "source.shape", "target.shape"), ("lengths.shape", "{n}")),
    "language_model": (("words.shape", "{n}x25"),),
    "aoa_reader": (
        ("document.shape", "{n}x60"),
        ("query.shape", "{n}x15"),
        ("candidates.shape", "{n}x10"),
    ),
}
# Sizes of images, of networks whose batch does not say them; those of sentences are in BATCH.
IMAGES: dict[str, Settings] = {"vgg16": _image("conv1_1", 224), "resnet18": _image("conv1", 224)}
EXTENTS = {
    **{name: tuple(key for key, _ in settings) for name, settings in IMAGES.items()},
    "seq2seq": ("source.shape", "target.shape"),
    "language_model": ("words.shape",),
    "aoa_reader": ("document.shape", "query.shape", "candidates.shape"),
}
CASES = tuple(
    Case(
        name,
        name,
        BATCH[name],
        "fwd,bwd,sgd",
        IMAGES.get(name, ()),
        REDUCED[name],
        EXTENTS[name],
    )
    for name in BATCH
)

STUDY = Study(
    "workloads",
    "Analysis of deep-learning workloads",
    "An analysis of VGG, ResNet, Seq2seq, an RNN language model and an attention-over-attention "
    "reader for HPC centres",
    "Its list of figures; its text could not be read, so that nothing of it stands beside ours.",
    CASES,
    (
        Figure(
            "types", "Figure 1", "Time per type of operation",
            "share of a training step that each kind of layer takes", Draws.TYPES, ("seconds",),
        ),
        Figure(
            "phases", "Figure 2", "Time per phase",
            "share of a training step: forward, backward, and the update of parameters",
            Draws.PHASES, ("seconds",),
        ),
        Figure(
            "memory", "Figure 3", "Memory by what it holds",
            "bytes of all tensors of a training step, each once", Draws.MEMORY,
        ),
        Figure(
            "sizes", "Figure 4", "Memory against the size of the batch",
            "bytes of all tensors of a training step, the sum of the kinds of Figure 3; then by "
            "those of one network", Draws.SIZES,
        ),
        Figure(
            "extents", "Figure 4b", "Memory against the size of images and sentences",
            "bytes of all tensors of a training step with images or sentences that are larger; "
            "then by those of one network", Draws.EXTENTS,
        ),
        Figure(
            "counters", "Figure 5", "Hardware counters and operations per second",
            "of a whole training step: its rates are sums of counts by sums of time",
            Draws.CASES,
            (
                "instructions_per_cycle", "occupancy", "alu_utilization", "l1_hit_rate",
                "l2_hit_rate", "dram_utilization", "operations_per_second",
                "dram_bytes_per_second",
            ),
        ),
    ),
    reduced_batches=(1, 2, 4),
)  # fmt: skip
