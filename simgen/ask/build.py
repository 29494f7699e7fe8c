"""What `simgen build` is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY  # noqa: TC003 - dataclasses look for it
from typing import TypeAlias

from simgen.ask.choice import Asked, ChoiceField, asking, choice
from simgen.ask.kinds import (
    Commas,
    Flag,
    KeyValues,
    NameList,
    Path,
    Real,
    Texts,
    ValueKind,
    Whole,
    Word,
)

Text: TypeAlias = ChoiceField[str | None, str | None]
Number: TypeAlias = ChoiceField[float | None, float | None]
Count: TypeAlias = ChoiceField[int | None, int | None]
YesNo: TypeAlias = ChoiceField[bool, bool]
NamesOf: TypeAlias = ChoiceField[str | Iterable[str] | None, str | None]
File: TypeAlias = str | os.PathLike[str]
FileOrNone: TypeAlias = ChoiceField[File | None, str | None]
Words: TypeAlias = ChoiceField[str | Iterable[str], tuple[str, ...]]
YesNoOrNone: TypeAlias = ChoiceField[bool | None, bool | None]
Files: TypeAlias = ChoiceField[File | Iterable[File], tuple[str, ...]]
Setting: TypeAlias = str | int | float | bool
Settings: TypeAlias = ChoiceField[
    Mapping[str, Setting] | Iterable[tuple[str, Setting] | str] | None, tuple[tuple[str, str], ...]
]
QUEUES = 8  # as many kernels as MGPUSim's command processor runs at once


# fmt: off
@asking
class BuildChoices(Asked):
    """What is done with a workload; None and empty: as the workload or its config says."""

    _: KW_ONLY
    set: Settings = choice("--set", KeyValues("K=V"), (), key="settings",
        completes="settings", text=
        "Set a config key (n=4; in a network, conv1.n=4) or a $VARIABLE of a template. Repeatable.")
    passes: NamesOf = choice("--pass", NameList("P"), completes="passes", text=
        "Passes of a network, separated by commas: fwd, bwd, sgd (parameter update). [default: "
        "fwd]")
    layers: NamesOf = choice("--layers", NameList("L"), completes="layers", text=
        "Build only these layers: a range such as conv1..pool1, or names separated by commas.")
    algo: Text = choice("--algo", ValueKind("A"), key="algorithm", completes="algorithms", text=
        "Algorithm of every layer that has a choice; see `simgen list algorithms`.")
    type: Text = choice("--type", ValueKind("T"), completes="types", text=
        "Element type of the input, such as f16 or bf16. One layer: {set} conv1.type=T. "
        "[default: f32]")
    rate: Number = choice("--rate", Real(), text=
        "Learning rate of pass sgd. [default: 0.01; for adam 0.001]")
    loss_scale: Number = choice(
        "--loss-scale", Real("S", 2.0**-24, 2.0**24, told="2^-24 to 2^24"), text=
        "Multiply the first gradients of the backward pass by S, and divide the updates of pass "
        "sgd by S. This keeps small f16 gradients from vanishing. [default: 1]")
    optimizer: Text = choice("--optimizer", ValueKind("O"), completes="optimizers", text=
        "Optimiser of pass sgd: sgd, adam or adamw, with settings appended: "
        "sgd,momentum=0.9,weight_decay=5e-4,nesterov=true. [default: sgd]")
    loss: Text = choice("--loss", ValueKind("L"), completes="losses", text=
        "Loss at the end of the network: cross_entropy, squared_error or none. [default: with "
        "{inference.off}, cross_entropy in place of a last softmax]")
    steps: Count = choice("--steps", Whole("N", 1, 10_000), text=
        "Number of training steps. Each step starts from the parameters of the one before and "
        "has its own batch and labels. [default: 1]")
    inference: YesNoOrNone = choice("--inference", Flag(off="--training"), text=
        "Mode of the whole network. Inference: batch normalisation uses running statistics, and "
        "dropout is off. Training: it uses statistics of the batch, and the passes are "
        "fwd,bwd,sgd unless {passes} is given. [default: as the config says]")
    fuse: YesNo = choice("--fuse", Flag(), False, text=
        "Merge batch normalisation and activations into the kernel of the preceding convolution "
        "or fully connected layer. Pass fwd only.")
    reuse_memory: YesNo = choice("--reuse-memory", Flag(), False, text=
        "Reuse a tensor's memory after its last use. Pass fwd only.")
    values: Files = choice("--values", Texts("FILE"), (), completes="values", text=
        "Your own input values: a .npz, .npy, .safetensors or HDF5 file whose arrays are named as "
        "in data.h5. Repeatable. `exact`: draw whole numbers whose sums are not rounded. `model`: "
        "use the parameters of the ONNX model that is built.")
    data: FileOrNone = choice("--data", Path("FILE"), text=
        "Samples for inputs and labels: MNIST or CIFAR-10 images in their binary formats, a "
        "text, or pairs of sentences separated by tabs. simgen includes "
        "digits-images-idx3-ubyte.gz and words.txt.")
    plan_for: Text = choice("--plan-for", ValueKind("M"), completes="machines", text=
        "Machine that tiles, splits and algorithms are chosen for; see `simgen list machines`. "
        "Change its hardware with gem5-gfx902,num_compute_units=16. [default: that of the first "
        "simulated target, or of the GPU; a bundle keeps its own]")
    scale_to: Number = choice("--scale-to", Real("OPS", 1), text=
        "Shrink a product, convolution or recurrent layer to at most OPS operations, such as "
        "2e7. Remainders of tiles, operations per byte and work-groups per compute unit are "
        "kept. `simgen show` prints the new sizes.")
    matrix: Text = choice("--matrix", Word("", ("auto", "yes", "no", "tf32")), text=
        "Use matrix cores: auto = where faster, never for f32; yes; no; tf32 = auto, plus f32 "
        "products in TF32 (11 bits). [default: auto]")
    layout: Text = choice("--layout", ValueKind("F"), completes="layouts", text=
        "Order of image axes in memory, nchw or nhwc. Filters: {set} filter_layout=krsc. simgen "
        "adds a conversion where a kernel needs the other order. [default: nchw]")
    queues: Count = choice("--queues", Whole("N", 1, QUEUES), text=
        "Run independent layers and passes concurrently in N queues: CUDA streams, command "
        "queues of MGPUSim's timing model, AQL queues of gem5. [default: 1]")
    phase: Text = choice("--phase", Word("", ("decode", "prefill")), text=
        "Step of a language model's config.json: one new token for each text, or whole texts. "
        "[default: decode]")
    batch: Count = choice("--batch", Whole("N", 1, 65_536), text=
        "Number of texts that a language model's config.json is built for. [default: 1]")
    context: Count = choice("--context", Whole("N", 1, 2**24), text=
        "Tokens of each text of a language model's config.json. [default: 2048, or what the model "
        "has]")
    tp: Count = choice("--tp", Whole("N", 1, 64), text=
        "Build one GPU's share of N of a language model's config.json, without all-reduces. "
        "[default: 1]")
    own_weights: YesNo = choice("--own-weights", Flag(), False, text=
        "Give each layer of a language model's config.json weights of its own. [default: equal "
        "layers have the same]")
    seed: ChoiceField[int, int] = choice("--seed", Whole(), 0, text=
        "Seed of the random inputs. [default: 0]")


@asking
class Destination(Asked):
    """Which bundle a build makes, and for which targets."""

    _: KW_ONLY
    targets: Words = choice("--target", Commas("T"), (), also="-t", completes="build_targets", text=
        "Target, or several separated by commas. Repeatable. [default: gem5-se and host]")
    output: FileOrNone = choice("-o", Path("DIR"), also="--output", text=
        "Folder of the bundle. [default: ./WORKLOAD]")


@asking
class Making(Asked):
    """What `simgen build` does beside making the bundle."""

    _: KW_ONLY
    run: YesNo = choice("--run", Flag(), False, text=
        "Also run the bundle on its first usable target; list the other usable ones.")
    replace: YesNo = choice("--replace", Flag(), False, text=
        "Remove results that this build makes invalid.")
# fmt: on
