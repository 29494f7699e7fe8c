"""The networks that travel with simgen: what they are, and that numbers live through them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from simgen.frontend import network, problem
from simgen.ground import resources
from simgen.ground.ir import Pass
from simgen.tensors.random_values import generate
from simgen.workload import costs, lowering, reference

if TYPE_CHECKING:
    from simgen.frontend.network import Placed
    from simgen.ground.ir import Workload

TRAINING = (Pass.FORWARD, Pass.BACKWARD, Pass.UPDATE)
NETWORKS = sorted(path.stem for path in resources.folder("data").glob("*.dnnmark"))

# Trained parameters and multiply-adds of convolutions and matrix products for one image, as they
# are published for these networks: Caffe's model zoo, the papers, and torchvision's models.
# (ResNet-50 v1.5 has the stride of its blocks in the 3x3 convolution, v1 in the first one.)
PUBLISHED = {
    "alexnet": (60_965_224, 724_406_816),
    "vgg16": (138_357_544, 15_470_264_320),
    "lenet5": (431_080, 2_293_000),
    "cifar_quick": (145_578, 12_353_536),
    "resnet18": (11_689_512, 1_814_073_344),
    "resnet50": (25_557_032, 4_089_184_256),
    "resnet50_v1": (25_557_032, 3_857_973_248),
}
LAST_IMAGES = {  # what the first matrix product, or the mean before it, reads
    "alexnet": ("pool5", (1, 256, 6, 6)),
    "vgg16": ("pool5", (1, 512, 7, 7)),
    "lenet5": ("pool2", (1, 50, 4, 4)),
    "cifar_quick": ("pool3", (1, 64, 4, 4)),
    "resnet18": ("res5b_relu", (1, 512, 7, 7)),
    "resnet50": ("res5c_relu", (1, 2048, 7, 7)),
    "resnet50_v1": ("res5c_relu", (1, 2048, 7, 7)),
}
SMALL = {  # settings with which the float64 references take a second or so
    "alexnet": [("n", "2"), ("h", "67"), ("w", "67")],
    "vgg16": [("n", "2"), ("h", "32"), ("w", "32")],
    "lenet5": [("n", "3")],
    "lenet5_i8": [("n", "3")],
    "cifar_quick": [("n", "3")],
    "resnet18": [("n", "2"), ("h", "64"), ("w", "64"), ("pool5.kernel_size", "2")],
    "resnet50": [("n", "2"), ("h", "64"), ("w", "64"), ("pool5.kernel_size", "2")],
    "resnet50_v1": [("n", "2"), ("h", "64"), ("w", "64"), ("pool5.kernel_size", "2")],
    "classifier": [],
    "attention": [],
    "transformer": [],
    "language_model": [],
    "seq2seq": [],
    "aoa_reader": [],
    "detector": [],
    "speech": [],
    "recommender": [],
}
TEXTS = {"language_model", "seq2seq", "aoa_reader"}
AREAS = {"detector", "speech", "recommender"}  # of MLPerf, in sizes of ours
UNPUBLISHED = {"classifier", "attention", "transformer", *TEXTS, *AREAS}
INFERRED = ("lenet5_i8",)  # of integers, which are not trained


def passes_of(name: str) -> tuple[Pass, ...]:
    return (Pass.FORWARD,) if name in INFERRED else TRAINING


def layers(name: str) -> dict[str, Placed]:
    found = problem.find(name, (), None)
    return {placed.node.name: placed for placed in network.resolve(found.config).layers}


def lowered(name: str, settings: list[tuple[str, str]], passes: tuple[Pass, ...]) -> Workload:
    found = problem.find(name, settings, passes)
    net = network.resolve(found.config, found.settings)
    return lowering.lower(net, found.name, found.passes, 0)


def test_every_network_is_known_here():
    assert set(NETWORKS) == {*PUBLISHED, *INFERRED} | UNPUBLISHED == set(SMALL)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_multiply_adds_are_the_published_ones(name):
    planned = lowered(name, [], (Pass.FORWARD,))
    macs = sum(
        each.count.flops // 2 for each in costs.costs_of(planned) if each.kind in ("conv", "fc")
    )
    biases = sum(
        math.prod(each.output)
        for each in costs.costs_of(planned)
        if any(b.name == f"{each.layer}.b" and each.kind != "bn" for b in planned.buffers)
    )
    parameters, published = PUBLISHED[name]
    assert costs.memory(planned)["parameters"] == 4 * parameters
    assert published <= macs <= published + biases, "a bias may count as an addition"


@pytest.mark.parametrize("name", LAST_IMAGES)
def test_images_shrink_as_published(name):
    layer, shape = LAST_IMAGES[name]
    assert layers(name)[layer].output.shape == shape


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_is_for_one_image_unless_told(name):
    first = next(iter(layers(name).values()))
    assert first.node.inputs[0].shape[0] == (64 if name == "classifier" else 1)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_batch_rescales_the_whole_network(name):
    planned = lowered(name, [("n", "5")], passes_of(name))
    for node in planned.nodes:
        if node.kind != "sgd":
            # Recurrent layers have time steps first.
            assert all(5 in spec.shape[:2] for spec in node.inputs)


@pytest.mark.parametrize("name", NETWORKS)
def test_numbers_neither_vanish_nor_explode(name):
    """Through all references of a training step, forward, backward and update."""
    planned = lowered(name, SMALL[name], passes_of(name))
    inputs = {
        b.name: generate(b.name, b.spec, b.fill, 0).reshape(b.spec.shape) for b in planned.inputs
    }
    seen = 0
    for step, made in reference.run(planned, inputs):
        for buffer, values in made.items():
            assert np.isfinite(values).all(), buffer
            size = float(np.sqrt(np.mean(values**2)))
            assert 1e-6 < size < 1e6, (step.layer, step.direction, buffer, size)
            seen += 1
    assert seen == len(planned.outputs)
