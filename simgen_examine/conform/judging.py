"""Results of a probe, lane by lane, against what the description says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from simgen_examine.conform import assembly, bundling, values
from simgen_examine.conform.arithmetic import KEPT, Wanted
from simgen_examine.conform.bundling import Batch, Probed
from simgen_examine.conform.description import SCALAR_MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from simgen_examine.conform.forms import Form
    from simgen_examine.conform.values import Words

EXAMPLES = 4  # lanes that differ, shown as examples
MOST_SHOWN = 8  # results of a lane; of more, the first that differs


class Tried(Protocol):
    """An instruction as it is written once, of any instruction set."""

    @property
    def text(self) -> str: ...

    @property
    def instruction(self) -> Any: ...

    @property
    def signature(self) -> tuple[str, ...]: ...

    @property
    def scalar(self) -> bool: ...

    @property
    def window(self) -> int: ...

    def outcome(self, given: Words) -> list[Wanted]:
        """What has to come out."""
        ...

    def holder(self, at: int, count: int) -> str:
        """What holds the result of so many words that begins with a word."""
        ...


class Found(StrEnum):
    """What a simulator makes of a form."""

    RIGHT = "right"
    WRONG = "wrong"
    MISSING = "missing"  # not decoded, or said not to be implemented
    ENDS = "ends"  # the simulator ends there
    REFUSED = "refused"  # not tried: `simgen legalise` makes nothing of it


@dataclass(frozen=True)
class Example:
    """A lane that differs: words as hexadecimal numbers, the lowest last."""

    number: int  # index of the tuple of values
    sources: tuple[str, ...]
    expected: str
    found: str
    # With several results: where the first difference is, its expected value, and the found one.
    first: tuple[str, str, str] = ("", "", "")


@dataclass(frozen=True)
class Seen:
    """What was seen of a form."""

    form: Any  # a Tried
    found: Found
    reason: str = ""  # what the simulator said
    wrong: int = 0  # lanes
    lanes: int = 0  # lanes compared
    examples: tuple[Example, ...] = ()


def findings(
    probe: Probed, results: NDArray[np.uint32], refused: Mapping[tuple[str, int], tuple[Found, str]]
) -> list[Seen]:
    """Findings for each form of a probe; `results` are those of all batches.

    `refused` has what the simulator did not execute, by kernel and number in it.
    """
    found = []
    for batch in probe.batches:
        given = bundling.tried(batch.forms[0].signature, batch.forms[0].scalar)
        for at, (form, place) in enumerate(zip(batch.forms, batch.places, strict=True)):
            if (batch.name, at) in refused:
                found.append(Seen(form, *refused[batch.name, at]))
                continue
            count = assembly.words(form)
            first = place // 4
            words = result_words(form, results[first : first + count * values.TUPLES])
            found.append(judged(form, words, given))
    return found


def of_batch(batch: Batch, results: NDArray[np.uint32]) -> list[Seen]:
    """Findings for each form of a batch that ran alone; `results` are its results only."""
    return findings(Probed("", (batch,), np.zeros(0, np.int32), batch.nbytes), results, {})


def result_words(form: Form, region: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The words of a form's results, (word, tuple): those of registers lie word by word, those of
    windows lane by lane."""
    count = len(form.outputs) * values.TUPLES
    registers = region[:count].reshape(-1, values.TUPLES)
    windows = region[count:].reshape(values.TUPLES, form.window).T
    return np.concatenate([registers, windows])


def judged(form: Tried, words: NDArray[np.uint32], given: Words | None = None) -> Seen:
    """A form whose results are `words`, (word, tuple); `given` are its sources, if at hand."""
    if given is None:
        given = bundling.tried(form.signature, form.scalar)
    outcomes = form.outcome(given)
    good = np.ones(values.TUPLES, bool)
    at = 0
    shown: list[tuple[Wanted, int]] = []
    for outcome in outcomes:
        good &= outcome.right(words[at : at + outcome.words])
        shown.append((outcome, at))
        at += outcome.words
    assert at == len(words), form.text
    if good.all():
        return Seen(form, Found.RIGHT, lanes=values.TUPLES)
    bad = np.flatnonzero(~good)
    # Ordinary values first: they tell more than what is special.
    chosen = sorted(bad, key=lambda lane: _strange(form, given[:, :, lane]))[:EXAMPLES]
    examples = tuple(_example(form, given, words, shown, int(lane)) for lane in chosen)
    return Seen(form, Found.WRONG, "", len(bad), values.TUPLES, examples)


def _strange(form: Tried, words: NDArray[np.uint32]) -> int:
    count = 0
    for at, type_ in enumerate(form.signature):
        if type_.startswith("f"):
            top = int(words[at, values.words(type_) - 1])
            exponent = top >> 10 & 31 if type_ == "f16" else top >> 20 & 0x7FF
            count += exponent in (0, 31, 0x7FF, 0x7F8, 0x7F9)
        else:
            count += int(words[at, 0]) in (0, 0xFFFFFFFF)
    return count


def _example(
    form: Tried,
    given: NDArray[np.uint32],
    words: NDArray[np.uint32],
    outcomes: Sequence[tuple[Wanted, int]],
    lane: int,
) -> Example:
    sources = tuple(
        _hexadecimal(given[at, : values.words(type_), lane])
        for at, type_ in enumerate(form.signature)
    )
    if form.instruction.format == SCALAR_MEMORY:
        sources = sources if form.window else ()  # the sources of loads are in memory
    elif form.scalar:
        sources = (*sources, f"scc={given[2, 0, lane]}")
    expected, found, differ = [], [], []
    for outcome, at in outcomes:
        part = words[at : at + outcome.words]
        expected.append(_expected_in(outcome, lane))
        found.append(_got(outcome, part, lane))
        if not outcome.right(part)[lane]:
            differ.append((form.holder(at, outcome.words), expected[-1], found[-1]))
    first = differ[0]
    if len(expected) > MOST_SHOWN:
        expected, found = ([f"{first[0]}: {each}"] for each in first[1:])
    return Example(lane, sources, " ".join(expected), " ".join(found), first)


def _expected_in(outcome: Wanted, lane: int) -> str:
    """What was expected in a lane."""
    value = outcome.expected
    if value.free is not None and np.all(value.free[..., lane]):
        return "any"
    if outcome.kept is not None and outcome.kept[lane]:
        return f"{KEPT:#x}"
    if outcome.type in ("mask", "scc"):
        return str(int(value.value[lane]))
    one = value.value[..., lane]
    if one.ndim:
        return ":".join(_bits(each) for each in one[::-1])
    return _bits(one)


def _bits(value: Any) -> str:
    width = value.dtype.itemsize
    number = int(np.asarray(value).view(f"u{width}"))
    text = f"0x{number:0{2 * width}x}"
    return f"{text} ({value!s})" if value.dtype.kind == "f" else text


def _got(outcome: Wanted, words: NDArray[np.uint32], lane: int) -> str:
    if outcome.type == "scc":
        return str(int(words[0, lane]))
    if outcome.type == "mask":
        whole = int(words[0, lane]) | int(words[1, lane]) << 32
        return str(whole >> lane % values.LANES & 1)
    text = _hexadecimal(words[:, lane])
    if outcome.expected.value.ndim == 1 and outcome.type in ("f32", "f64", "f16"):
        typed = words[:, lane].copy().view({"f32": "f4", "f64": "f8", "f16": "f2"}[outcome.type])[0]
        return f"{text} ({typed!s})"
    return text


def _hexadecimal(words: NDArray[np.uint32]) -> str:
    return "0x" + "".join(f"{int(word):08x}" for word in words[::-1])
