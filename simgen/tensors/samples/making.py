"""Files of samples where the real ones are not at hand: the same formats, like statistics.

    mnist    images of 28 x 28 on black, a shape for each of 10 classes, moved and with noise; idx
             files of images and labels
    cifar10  coloured images of 32 x 32, of 10 classes, in binary records
    text     words w0, w1, ... whose frequencies follow Zipf's law, in lines; every other word is
             what follows the one before it wherever that stands so, for a model to learn
    pairs    such sentences, each with its words translated one by one and turned round

All follow from a seed. A model learns the classes, which says that training works, and no more.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from simgen.errors import UsageError
from simgen.ground.arrays import np
from simgen.ground.storage.files import atomic_file
from simgen.tensors.samples.images import COLOURS, SIDE, labels_of

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

CLASSES = 10
DIGIT = 28  # pixels of a side
LINE = 20  # words, about
VOCABULARY = 1000
KINDS = ("mnist", "cifar10", "text", "pairs")
MAX_SAMPLES = 1_000_000  # samples


def write(path: Path, kind: str, samples: int, seed: int) -> list[Path]:
    """Files of so many images, lines or pairs; returns what was written.

    Raises:
        UsageError: the name of an idx file of images does not tell that of its labels.
    """
    random = np.random.Generator(np.random.Philox(seed))
    if kind == "mnist":
        beside = labels_of(path)
        if beside == path:
            fact = f'{path}: has no "images" in its name, which tells that of the labels'
            raise UsageError(f"{fact}; call it digits-images-idx3-ubyte, for example")
        pixels, labels = _images(random, samples, 1, DIGIT)
        _idx(path, pixels[:, 0])
        _idx(beside, labels)
        return [path, beside]
    if kind == "cifar10":
        pixels, labels = _images(random, samples, COLOURS, SIDE)
        records = np.concatenate([labels[:, np.newaxis], pixels.reshape(samples, -1)], axis=1)
        content = records.tobytes()
    else:
        content = _text(random, samples, pairs=kind == "pairs").encode()
    with atomic_file(path) as file:
        file.write(content)
    return [path]


def _idx(path: Path, values: NDArray[Any]) -> None:
    head = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
    with atomic_file(path) as file:
        file.write(head + values.tobytes())


def _images(
    random: np.random.Generator, count: int, colours: int, side: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Pixels (count, colours, side, side) and classes (count,).

    A class is a smooth field, of which what lies above a threshold is bright: some 20 % of MNIST's
    pixels. Images are moved by up to 2 pixels, and each bright pixel has a brightness of its own.
    """
    labels = random.integers(0, CLASSES, count).astype(np.uint8)
    coarse = random.standard_normal((CLASSES, colours, 8, 8))
    line = np.linspace(0, 7, side)
    low = np.minimum(line.astype(int), 6)
    share = line - low
    rows = coarse[:, :, low] * (1 - share)[:, None] + coarse[:, :, low + 1] * share[:, None]
    fields = rows[..., low] * (1 - share) + rows[..., low + 1] * share
    shapes = fields > np.quantile(fields, 0.8, axis=(1, 2, 3), keepdims=True)
    moves = random.integers(-2, 3, (count, 2))
    pixels = np.zeros((count, colours, side, side), np.uint8)
    for at, (label, move) in enumerate(zip(labels, moves)):
        bright = np.roll(shapes[label], tuple(move), axis=(1, 2))
        pixels[at] = bright * random.integers(160, 256, bright.shape)
        if colours > 1:
            pixels[at] //= 2
            pixels[at] += random.integers(0, 120, bright.shape, np.uint8)
    return pixels, labels


def _text(random: np.random.Generator, lines: int, *, pairs: bool) -> str:
    shares = 1 / np.arange(1, VOCABULARY + 1)
    shares /= shares.sum()
    followers = random.permutation(VOCABULARY)
    made = []
    for _ in range(lines):
        length = int(random.integers(LINE // 2, LINE * 3 // 2))
        words = random.choice(VOCABULARY, length, p=shares)
        words[1::2] = followers[words[:-1:2]]
        line = " ".join(f"w{word}" for word in words)
        if pairs:
            line += "\t" + " ".join(f"v{followers[word]}" for word in words[::-1])
        made.append(line + "\n")
    return "".join(made)
