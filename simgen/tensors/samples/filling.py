"""What a file of samples gives to the inputs of a workload: images, words, and their labels.

A training step gets the next samples of the file, which begins again at its end. Pixels are scaled
to [-1, 1]. Of a text, each sample of a batch reads on in a part of its own, as many words in each
step as its input has places; labels are the words that follow. Of pairs, the first input of words
is the source, a second one the target, whose following words are the labels. Lengths are those of
the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simgen import resources
from simgen.frontend.network import make_layer
from simgen.ir import Pass, Role
from simgen.layers.base import PortRole
from simgen.tensors import own_values
from simgen.tensors.samples import images, texts
from simgen.tensors.samples.images import Images, content, fault
from simgen.tensors.samples.texts import END_ID, PAD_ID, Pairs, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from simgen.ir import Buffer, Node, Workload

    Samples = Images | Text | Pairs
    _Given = Iterator[tuple[Buffer, NDArray[Any]]]
else:
    from simgen import arrays as np

LABELS = "labels"  # port of losses
SHIPPED = "samples"  # folder in data


@dataclass(frozen=True)
class _Batch:
    """What one training step reads of samples, and the layers that read it."""

    number: int  # from 0 on
    inputs: list[tuple[Buffer, Node]]
    lengths: list[Buffer]
    labels: list[tuple[Buffer, Node]]


def find(word: str) -> Path:
    """The file that the word names, one of the user's or one that comes with simgen."""
    path = Path(word)
    shipped = resources.folder("data") / SHIPPED / word
    return shipped if not path.exists() and "/" not in word and shipped.is_file() else path


def read(path: Path) -> Samples:
    """The samples in a file.

    Raises:
        UsageError: it cannot be read, or is not what its beginning or its size says.
    """
    raw = content(path)
    if not raw:
        raise fault(path, "holds nothing; name a text, or a file of images")
    if images.is_idx(raw):
        return images.mnist(path, raw)
    if images.is_cifar(path, raw):
        return images.cifar(path, raw)
    if raw[:3] == b"\0\0\x08"[: len(raw[:3])] or b"\0" in raw[:4]:
        images.idx(path, raw)  # what is wrong with it
    return texts.read(path, raw)


def values(path: Path, workload: Workload) -> dict[str, NDArray[Any]]:
    """The tensors of the workload, by name, that the samples in the file give.

    Raises:
        UsageError: as `read`, or samples and inputs do not fit together.
    """
    found = read(path)
    steps = _steps(workload)
    if not steps or not steps[0].inputs:
        raise fault(path, f"{workload.name} has no input for samples; leave it out")
    of_step: Callable[[_Batch], _Given]
    if isinstance(found, Images):
        of_step = partial(_of_images, path, found)
    elif isinstance(found, Text):
        of_step = partial(_of_text, path, found, _vocabulary(path, "a text", steps[0], workload))
    else:
        of_step = partial(_of_pairs, path, found, _vocabulary(path, "pairs", steps[0], workload))
    made: dict[str, NDArray[Any]] = {}
    for step in steps:
        for buffer, each in of_step(step):
            made[buffer.name] = np.ascontiguousarray(each.astype(buffer.spec.dtype.array))
    wrong = own_values.fault(made, workload)
    if wrong:
        raise fault(path, wrong)
    return made


def _steps(workload: Workload) -> list[_Batch]:
    """Inputs and labels of each training step, but for those that have values already; a step
    begins where its first layer runs again."""
    given = {b.name: b for b in workload.buffers if b.role is Role.INPUT and b.values is None}
    layers = {node.name: make_layer(node, workload.machine) for node in workload.nodes}
    steps: list[_Batch] = []
    ran: set[str] = set()
    for step in workload.steps:
        if step.direction is not Pass.FORWARD:
            continue
        if not steps or step.layer in ran:
            steps.append(_Batch(len(steps), [], [], []))
            ran = set()
        ran.add(step.layer)
        for port, name in step.reads:
            buffer = given.pop(name, None)  # each is read by several layers, and given once
            if buffer is None:
                continue
            place = (buffer, workload.node(step.layer))
            if port == LABELS:
                steps[-1].labels.append(place)
            elif port in layers[step.layer].lengths:
                steps[-1].lengths.append(buffer)
            elif layers[step.layer].role(port) is PortRole.INPUT:
                steps[-1].inputs.append(place)
    return steps


def _of_images(path: Path, found: Images, step: _Batch) -> _Given:
    buffer, *others = (*(buffer for buffer, _ in step.inputs), *step.lengths)
    shape, image = buffer.spec.shape, found.pixels.shape[1:]
    if others:
        fact = f"images, but {others[0].name} is an input too, beside {buffer.name}"
        raise fault(path, f"{fact}; give both with --values")
    flat = [extent for extent in shape[1:] if extent > 1] == [prod(image)]
    if not buffer.spec.dtype.is_float or not (shape[1:] == image or flat):
        fact = f"images of {_times(image)}, but {buffer.name} takes {_times(shape[1:])}"
        raise fault(path, f"{fact} of {buffer.spec.dtype}; change the network with --set")
    if not len(found.pixels):
        raise fault(path, "holds no images; name another")
    at = np.arange(step.number * shape[0], (step.number + 1) * shape[0]) % len(found.pixels)
    pixels = found.pixels[at].astype(np.float32) / np.float32(127.5) - np.float32(1)
    yield buffer, pixels.reshape(shape)
    for labels, _ in step.labels:
        if labels.spec.shape != shape[:1]:
            fact = f"a label for each of {shape[0]} images, but {labels.name} has"
            raise fault(path, f"{fact} {_times(labels.spec.shape)}; take other data")
        yield labels, found.labels[at].astype(np.int32)


def _vocabulary(path: Path, what: str, step: _Batch, workload: Workload) -> int:
    """Of the tables of words that read the inputs, the smallest one's rows.

    Raises:
        UsageError: an input is no words.
    """
    layers = {node.name: make_layer(node, workload.machine) for node in workload.nodes}
    for buffer, node in step.inputs:
        if not layers[node.name].tables or len(buffer.spec.shape) != 2:
            fact = f"{what}, but {buffer.name} takes no words (samples x words, for [Embedding])"
            raise fault(path, f"{fact}; take other data")
    names = {buffer.name for buffer, _ in step.inputs}
    rows = []
    for each in workload.steps:
        read = dict(each.reads)
        for port, table in layers[each.layer].tables.items():
            if read.get(port) in names and table in read:
                rows.append(workload.buffer(read[table]).spec.shape[0])
    return min(rows)


def _of_text(path: Path, found: Text, vocabulary: int, step: _Batch) -> _Given:
    ids = found.ids(vocabulary)
    for buffer, _ in step.inputs:
        samples, length = buffer.spec.shape
        rows = ids[: len(ids) // samples * samples].reshape(samples, -1)
        if rows.shape[1] <= length:
            fact = f"a text of {len(ids)} words, too few for {samples} samples of {length}"
            raise fault(path, f"{fact} and what follows them; take a longer one")
        at = (step.number * length + np.arange(length)) % (rows.shape[1] - 1)
        yield buffer, rows[:, at]
        for lengths in step.lengths:
            yield lengths, _lengths(path, lengths, np.ones((samples, length)))
        for labels, _ in step.labels:
            _check_words(path, labels, buffer)
            yield labels, rows[:, at + 1].reshape(labels.spec.shape)


def _of_pairs(path: Path, found: Pairs, vocabulary: int, step: _Batch) -> _Given:
    (source, _), *others = step.inputs
    samples, length = source.spec.shape
    at = np.arange(step.number * samples, (step.number + 1) * samples) % len(found.sources)
    of_source, of_target = found.ids(vocabulary, length)
    yield source, of_source[at]
    for lengths in step.lengths:
        yield lengths, _lengths(path, lengths, of_source[at] != PAD_ID)
    if len(others) > 1:
        raise fault(path, f"pairs, but {others[1][0].name} is a third input; take other data")
    for target, _ in others:
        _, of_target = found.ids(vocabulary, target.spec.shape[1])
        if target.spec.shape[0] != samples:
            raise fault(path, f"pairs, but {target.name} has other samples; take other data")
        begun = np.roll(of_target[at], 1, axis=1)  # each word is told those before it
        begun[:, 0] = END_ID
        yield target, begun
    for labels, loss in step.labels:
        _check_words(path, labels, others[0][0] if others else source)
        ignored = dict(loss.parameters).get("ignore_index", "-100")
        right = np.where(of_target[at] == PAD_ID, np.int32(ignored), of_target[at])
        yield labels, right.reshape(labels.spec.shape)


def _lengths(path: Path, lengths: Buffer, counted: NDArray[Any]) -> NDArray[Any]:
    """How many words of each sample count.

    Raises:
        UsageError: there is not one length for each sample.
    """
    if lengths.spec.shape != counted.shape[:1]:
        fact = f"{len(counted)} samples, but {lengths.name} has {_times(lengths.spec.shape)}"
        raise fault(path, f"{fact} lengths; change the network with --set")
    found: NDArray[Any] = counted.sum(axis=1)
    return found


def _check_words(path: Path, labels: Buffer, words: Buffer) -> None:
    """Raises:
    UsageError: there is not one label for each word.
    """
    if labels.spec.shape != words.spec.shape:
        fact = f"a label for each word of {_times(words.spec.shape)}, but {labels.name} has"
        raise fault(path, f"{fact} {_times(labels.spec.shape)}; take other data")


def _times(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
