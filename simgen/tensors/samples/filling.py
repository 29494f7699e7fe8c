"""What a file of samples gives to the inputs of a workload: images, words, and their labels.

A training step gets the next samples of the file, which begins again at its end. Pixels are scaled
to [-1, 1]. Of a text, each sample of a batch reads on in a part of its own, as many words in each
step as its input has places; labels are the words that follow. Of pairs, the first input of words
is the source, a second one the target, whose following words are the labels. Lengths are those of
the source. Of questions, [AttentionSum] says which input is the document and which the candidates;
labels are the places of the answers among these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simgen.ask.build import BuildChoices
from simgen.frontend.network import make_layer
from simgen.ground import resources
from simgen.ground.arrays import np
from simgen.ground.ir import Buffer, Node, Pass, Role, Workload
from simgen.layers.base import PortRole
from simgen.tensors import own_values
from simgen.tensors.samples import images, questions, texts
from simgen.tensors.samples.images import Images, content, fault
from simgen.tensors.samples.questions import Questions
from simgen.tensors.samples.texts import END_ID, PAD_ID, Pairs, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Samples = Images | Text | Pairs | Questions
    _Given = Iterator[tuple[Buffer, NDArray[Any]]]

SET = BuildChoices.set
COARSE = 20  # classes of CIFAR-100, where the network tells so many apart
LABELS = "labels"  # port of losses
SHIPPED = "samples"  # folder in data
_MARKUP = re.compile(r"""\s*(?:[{\[]\s*["\[{]|<(?:\?xml|!DOCTYPE|tmx|html)\b)""", re.I)


@dataclass(frozen=True)
class _Batch:
    """What one training step reads of samples, and the layers that read it."""

    number: int  # from 0 on
    inputs: list[tuple[Buffer, Node]]  # inputs, each with the first layer that reads it
    lengths: list[Buffer]
    labels: list[tuple[Buffer, Node]]


def find(word: str) -> Path:
    """The file that the word names, one of the user's or one that comes with simgen."""
    path = Path(word)
    shipped = resources.folder("data") / SHIPPED / word
    return shipped if not path.exists() and "/" not in word and shipped.is_file() else path


def read_samples(path: Path) -> Samples:
    """The samples in a file.

    Raises:
        UsageError: it cannot be read, or is not what its beginning or its size says.
    """
    raw = content(path)
    if not raw:
        raise fault(path, "holds nothing; name a text, or a file of images")
    if images.is_idx(raw):
        return images.mnist(path, raw)
    images.check_foreign(path, raw)
    kind = images.cifar_kind(path, raw)
    if kind:
        return images.cifar(path, raw, kind)
    if raw[:3] == b"\0\0\x08"[: len(raw[:3])] or b"\0" in raw[:4]:
        images.idx(path, raw)  # what is wrong with it
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fact = f"byte {error.start} is in no UTF-8 text, nor is it a file of images"
        raise fault(path, f"{fact}; name one of MNIST, CIFAR or a text") from None
    text = text.replace("\r\n", "\n")
    if text.lstrip()[:1] in ("{", "[", "<") and _MARKUP.match(text):
        fact = "JSON or XML, whose sentences nothing tells from its keys"
        raise fault(path, f"{fact}; write them into columns with a tab between them")
    return (
        questions.read_questions(path, text)
        if questions.is_one(text)
        else texts.read_words(path, text)
    )


def values(path: Path, found: Samples, workload: Workload) -> dict[str, NDArray[Any]]:
    """The tensors of the workload, by name, that the samples in the file give.

    Raises:
        UsageError: samples and inputs do not fit together.
    """
    steps = _steps(workload)
    if not steps or not steps[0].inputs:
        raise fault(path, f"{workload.name} has no input for samples; leave it out")
    of_step: Callable[[_Batch], _Given]
    if isinstance(found, Images):
        of_step = partial(_of_images, path, found)
    elif isinstance(found, Questions):
        of_step = partial(_of_questions, path, found, workload)
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
        raise fault(path, f"{fact}; give both with {BuildChoices.values}")
    flat = [extent for extent in shape[1:] if extent > 1] == [prod(image)]
    if not buffer.spec.dtype.is_float or not (shape[1:] == image or flat):
        fact = f"images of {_times(image)}, but {buffer.name} takes {_times(shape[1:])}"
        raise fault(path, f"{fact} of {buffer.spec.dtype}; change the network with {SET}")
    if not len(found.pixels):
        raise fault(path, "holds no images; name another")
    at = np.arange(step.number * shape[0], (step.number + 1) * shape[0]) % len(found.pixels)
    pixels = found.pixels[at].astype(np.float32) / np.float32(127.5) - np.float32(1)
    yield buffer, pixels.reshape(shape)
    for labels, loss in step.labels:
        if labels.spec.shape != shape[:1]:
            fact = f"a label for each of {shape[0]} images, but {labels.name} has"
            raise fault(path, f"{fact} {_times(labels.spec.shape)}; take other data")
        classes = found.labels
        if found.coarse is not None and loss.inputs[0].shape[1:2] == (COARSE,):
            classes = found.coarse
        yield labels, classes[at].astype(np.int32)


def _of_questions(path: Path, found: Questions, workload: Workload, step: _Batch) -> _Given:
    """By the layer that sums up attention: its indices are the document, and another input of
    words is the question."""
    named = {buffer.name: buffer for buffer, _ in step.inputs}
    ports: dict[str, str] = {}
    for each in workload.steps:
        read = {port: name for port, name in each.reads if name in named}
        if "candidates" in read and "ids" in read:
            ports = {"document": read["ids"], "candidates": read["candidates"]}
    rest = [name for name in named if name not in ports.values()]
    if not ports or len(rest) != 1 or step.lengths:
        takes = ", ".join(named)
        fact = f"{found.told}, but {takes} are no document, question and candidates"
        raise fault(path, f"{fact} (for [AttentionSum]); take other data")
    buffers = [named[name] for name in (ports["document"], rest[0], ports["candidates"])]
    samples, choices = buffers[2].spec.shape
    for buffer in buffers:
        if len(buffer.spec.shape) != 2 or buffer.spec.shape[0] != samples:
            fact = f"questions, but {buffer.name} has {_times(buffer.spec.shape)}"
            raise fault(
                path,
                f"{fact}, and {samples} candidates; change the network with {SET}",
            )
    most = max(map(len, found.candidates))
    if choices < most:
        fact = f"questions with {most} candidates, but {buffers[2].name} takes {choices}"
        raise fault(path, f"{fact}; change the network with {SET}")
    rows = _rows_of_tables(step, workload)
    at = np.arange(step.number * samples, (step.number + 1) * samples) % len(found.queries)
    made = found.ids(min(rows), [buffer.spec.shape[1] for buffer in buffers])
    for buffer, ids in zip(buffers, made, strict=True):
        yield buffer, ids[at]
    for labels, _ in step.labels:
        if labels.spec.shape != (samples,):
            fact = f"an answer to each of {samples} questions, but {labels.name} has"
            raise fault(path, f"{fact} {_times(labels.spec.shape)}; take other data")
        yield labels, np.array(found.answers, np.int32)[at]


def _vocabulary(path: Path, what: str, step: _Batch, workload: Workload) -> int:
    """Rows of the smallest word table that reads the inputs.

    Raises:
        UsageError: an input is no words.
    """
    layers = {node.name: make_layer(node, workload.machine) for node in workload.nodes}
    for buffer, node in step.inputs:
        if not layers[node.name].tables or len(buffer.spec.shape) != 2:
            fact = f"{what}, but {buffer.name} takes no words (samples x words, for [Embedding])"
            raise fault(path, f"{fact}; take other data")
    words = [buffer.name for buffer, _ in step.inputs]
    if what == "a text" and len(words) > 1:
        fact = f"{what}, but {' and '.join(words)} are several inputs of words"
        raise fault(path, f"{fact}; give pairs, two sentences on each line with a tab between them")
    return min(_rows_of_tables(step, workload))


def _rows_of_tables(step: _Batch, workload: Workload) -> list[int]:
    """Rows of each word table that reads the inputs."""
    layers = {node.name: make_layer(node, workload.machine) for node in workload.nodes}
    names = {buffer.name for buffer, _ in step.inputs}
    rows = []
    for each in workload.steps:
        read = dict(each.reads)
        for port, table in layers[each.layer].tables.items():
            if read.get(port) in names and table in read:
                rows.append(workload.buffer(read[table]).spec.shape[0])
    return rows


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
        raise fault(path, f"{fact} lengths; change the network with {SET}")
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
