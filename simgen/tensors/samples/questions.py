"""Questions about texts, with candidates: the files of the Children's Book Test (CBTest).

    1 A sentence of the document .
    ...
    20 Another one .
    21 A question with a word XXXXX in it .<tab>answer<tab><tab>candidate|candidate|...
    (an empty line)

All have one vocabulary, whose first numbers are PAD and END, as those of pairs.

Source: F. Hill et al., "The Goldilocks Principle", 2016, and its data (cbtest_NE_train.txt, ...).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.ground.arrays import np
from simgen.tensors.samples.images import fault
from simgen.tensors.samples.texts import END, PAD, PAD_ID, numbered

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_FIRST = re.compile(r"\s*1 \S")
_LINE = re.compile(r"(\d+)\s+(.*)")


@dataclass(frozen=True)
class Questions:
    """Questions: for each the words of its document, its own words, the candidates and
    the answer."""

    documents: tuple[tuple[str, ...], ...]
    queries: tuple[tuple[str, ...], ...]
    candidates: tuple[tuple[str, ...], ...]
    answers: tuple[int, ...]

    @property
    def told(self) -> str:
        longest = max(map(len, self.documents))
        return (
            f"questions, {len(self.queries)} of them, with {max(map(len, self.candidates))} "
            f"candidates and documents of up to {longest} words"
        )

    def ids(
        self, vocabulary: int, lengths: Sequence[int]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Numbers of documents, queries and candidates, cut off at these lengths or padded."""
        sides = (self.documents, self.queries, self.candidates)
        every = (word for side in sides[:2] for each in side for word in each)
        known = numbered(every, vocabulary, (PAD, END))
        made = []
        for side, length in zip(sides, lengths, strict=True):
            rows = np.full((len(side), length), PAD_ID, np.int32)
            for row, words in zip(rows, side, strict=True):
                ids = [known.get(word, vocabulary - 1) for word in words[:length]]
                row[: len(ids)] = ids
            made.append(rows)
        return made[0], made[1], made[2]


def is_one(text: str) -> bool:
    """Whether a text begins as such a file: sentences, and a question that has candidates."""
    story = text.lstrip("\n").partition("\n\n")[0].strip().split("\n")
    return bool(_FIRST.match(story[0])) and _LINE.match(story[-1]) is not None and (
        story[-1].count("\t") == 3 and "|" in story[-1].rpartition("\t")[2]
    )  # fmt: skip


def read_questions(path: Path, text: str) -> Questions:
    """The questions in a text.

    Raises:
        UsageError: a line is neither a sentence nor a question, or its answer is no candidate.
    """
    document: list[str] = []
    asked = True
    found: list[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], int]] = []
    for at, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            if not asked:
                break
            document = []
            continue
        match = _LINE.match(line.strip())
        if match is None:
            raise fault(path, f"line {at} has no number, as those of CBTest have; copy it again")
        sentence, *rest = match[2].split("\t")
        if not rest:
            document += sentence.split()
            asked = False
            continue
        candidates = tuple(each.strip() for each in rest[-1].split("|") if each.strip())
        answer = rest[0].strip()
        if len(rest) != 3 or answer not in candidates:
            fact = f"line {at} is no question of CBTest, whose answer is one of its candidates"
            raise fault(path, f"{fact}; copy it again, or remove the question")
        query = tuple(sentence.split())
        found.append((tuple(document), query, candidates, candidates.index(answer)))
        asked = True
    if not asked:
        raise fault(path, f"the document that ends before line {at} has no question; copy it again")
    documents, queries, choices, answers = zip(*found, strict=True)
    return Questions(documents, queries, choices, answers)
