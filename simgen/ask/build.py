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
        "Set a config key (n=4; in a network, conv1.n=4) or a $VARIABLE of a template; may be "
        "repeated.")
    passes: NamesOf = choice("--pass", NameList("P"), completes="passes", text=
        "Passes of a network: fwd, bwd, sgd (parameter update), or several, such as fwd,bwd. "
        "[default: fwd]")
    layers: NamesOf = choice("--layers", NameList("L"), completes="layers", text=
        "A slice of a network: conv1..pool1, or layers separated by commas.")
    algo: Text = choice("--algo", ValueKind("A"), key="algorithm", completes="algorithms", text=
        "The algorithm of all layers that have a choice; see `simgen list algorithms`.")
    type: Text = choice("--type", ValueKind("T"), completes="types", text=
        "The type of the input's elements, as f16 or bf16; of a layer: {set} conv1.type=T. "
        "[default: f32]")
    rate: Number = choice("--rate", Real(), text=
        "Learning rate of pass sgd. [default: 0.01; of adam 0.001]")
    loss_scale: Number = choice(
        "--loss-scale", Real("S", 2.0**-24, 2.0**24, told="2^-24 to 2^24"), text=
        "Multiply the gradients that the backward pass begins with, and divide steps of pass sgd "
        "by the same: small gradients then do not vanish in f16. [default: 1]")
    optimizer: Text = choice("--optimizer", ValueKind("O"), text=
        "What pass sgd does: sgd, adam or adamw, with settings behind it: "
        "sgd,momentum=0.9,weight_decay=5e-4,nesterov=true. [default: sgd]")
    loss: Text = choice("--loss", ValueKind("L"), text=
        "The loss that the network ends in: cross_entropy, squared_error, or none. [default: with "
        "{inference.off}, cross_entropy in the place of a last softmax]")
    steps: Count = choice("--steps", Whole("N", 1, 10_000), text=
        "Training steps, each with the parameters that the one before left, and with a batch and "
        "labels of its own. [default: 1]")
    inference: YesNoOrNone = choice("--inference", Flag(off="--training"), text=
        "For the whole network: in inference, batch normalisation uses running statistics and "
        "there is no dropout; in training, it uses those of the batch, and the passes are "
        "fwd,bwd,sgd unless {passes} names others. [default: as the config says]")
    fuse: YesNo = choice("--fuse", Flag(), False, text=
        "Merge batch normalisation and activations into the kernel of the convolution or fully "
        "connected layer before them; pass fwd only.")
    reuse_memory: YesNo = choice("--reuse-memory", Flag(), False, text=
        "Give a tensor's memory to later ones after its last use; pass fwd only.")
    values: Files = choice("--values", Texts("FILE"), (), text=
        "Input values of your own: a .npz, .npy or HDF5 file whose arrays are named as in "
        "data.h5; may be repeated. The word `exact` draws whole numbers whose sums are not "
        "rounded, and `model` takes the parameters of the ONNX model that is built.")
    data: FileOrNone = choice("--data", Path("FILE"), text=
        "Samples for inputs and labels: images of MNIST or CIFAR-10 in their binary formats, a "
        "text, or pairs of sentences with tabs between them; or what comes with simgen: "
        "digits-images-idx3-ubyte.gz, words.txt.")
    plan_for: Text = choice("--plan-for", ValueKind("M"), completes="machines", text=
        "The machine to choose tiles, splits and algorithms for, of `simgen list machines`; with "
        "other hardware: gem5-gfx902,num_compute_units=16. [default: that of the first simulated "
        "target, or of the GPU; a bundle keeps its own]")
    scale_to: Number = choice("--scale-to", Real("OPS", 1), text=
        "Make a product, convolution or recurrent layer smaller until it has at most so many "
        "operations, as 2e7, and keep what its kernels meet: remainders of tiles, operations per "
        "byte, work-groups per unit. `simgen show` says what became of it.")
    matrix: Text = choice("--matrix", Word("", ("auto", "yes", "no", "tf32")), text=
        "Whether the machine's matrix instructions multiply: auto where that pays, and of f32 "
        "nowhere; tf32 so, but products of f32 too, cut off to 11 bits. [default: auto]")
    layout: Text = choice("--layout", ValueKind("F"), text=
        "The storage format of images, nchw or nhwc, of a convolution by itself; filters have "
        "{set} filter_layout=krsc. Where kernels want another, launches convert. [default: nchw]")
    queues: Count = choice("--queues", Whole("N", 1, QUEUES), text=
        "Run layers and passes that do not depend on each other at once, in so many queues: CUDA "
        "streams, command queues of MGPUSim's timing model, AQL queues of gem5. [default: 1]")
    seed: ChoiceField[int, int] = choice("--seed", Whole(), 0, text=
        "Seed of the random inputs. [default: 0]")


@asking
class Destination(Asked):
    """Which bundle a build makes, and for which targets."""

    _: KW_ONLY
    targets: Words = choice("--target", Commas("T"), (), also="-t", completes="build_targets", text=
        "A target, or several with commas between them; may be repeated. [default: gem5-se and "
        "host]")
    output: FileOrNone = choice("-o", Path("DIR"), also="--output", text=
        "The folder of the bundle. [default: ./WORKLOAD]")


@asking
class Making(Asked):
    """What `simgen build` does beside making the bundle."""

    _: KW_ONLY
    run: YesNo = choice("--run", Flag(), False, text=
        "Run it too, on the first target that can run here; the others are named.")
    replace: YesNo = choice("--replace", Flag(), False, text=
        "Remove results that this build makes invalid.")
# fmt: on
