"""Texts as numbers of words, and pairs of sentences.

    text   words with white space between them; each line ends in one more, END (as WikiText's do)
    pairs  two sentences on each line, with a tab between them, and other columns (columns.py)

Words are numbered by how often they come, the most frequent first, among equals in the order of
the alphabet; those that a vocabulary has no place for are its last number. Of pairs, both sides
have one vocabulary, whose first numbers are PAD and END.

Source: S. Merity et al., "Pointer Sentinel Mixture Models", 2016 (WikiText).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.ground.arrays import np
from simgen.tensors.samples import columns
from simgen.tensors.samples.images import fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

PAD, END = "<pad>", "<eos>"
PAD_ID, END_ID = 0, 1  # in pairs


@dataclass(frozen=True)
class Text:
    """Words in a row."""

    words: tuple[str, ...]
    columns: str = ""  # names of the table's columns

    @property
    def told(self) -> str:
        return f"a text of {len(self.words)} words{', ' * bool(self.columns)}{self.columns}"

    def ids(self, vocabulary: int) -> NDArray[Any]:
        """The number of each word."""
        known = numbered(self.words, vocabulary)
        return np.array([known.get(word, vocabulary - 1) for word in self.words], np.int32)


@dataclass(frozen=True)
class Pairs:
    """Sentences, each a row of words, and what each is to become."""

    sources: tuple[tuple[str, ...], ...]
    targets: tuple[tuple[str, ...], ...]
    columns: str = ""  # names of the table's columns

    @property
    def told(self) -> str:
        return f"pairs, {len(self.sources)} of them{', ' * bool(self.columns)}{self.columns}"

    def ids(self, vocabulary: int, length: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Numbers of both sides, (pairs, length): END behind each sentence, cut off or padded."""
        every = (word for side in (self.sources, self.targets) for each in side for word in each)
        known = numbered(every, vocabulary, (PAD, END))
        sides = []
        for side in (self.sources, self.targets):
            rows = np.full((len(side), length), known[PAD], np.int32)
            for row, sentence in zip(rows, side):
                ids = [known.get(word, vocabulary - 1) for word in (*sentence, END)][:length]
                row[: len(ids)] = ids
            sides.append(rows)
        return sides[0], sides[1]


def numbered(words: Iterable[str], vocabulary: int, first: Sequence[str] = ()) -> dict[str, int]:
    """Word -> number, of all but the last number, which is that of the unknown ones."""
    counts = Counter(words)
    for word in first:
        counts.pop(word, None)
    ranked = [*first, *sorted(counts, key=lambda word: (-counts[word], word))]
    return {word: at for at, word in enumerate(ranked[: max(1, vocabulary - 1)])}


def read_words(path: Path, text: str) -> Text | Pairs:
    """Words, or pairs where the lines are a table of them.

    Raises:
        UsageError: it has no words, or is a table whose sentences nobody can tell.
    """
    table = columns.read_sentences(path, text)
    if table and len(table.rows[0]) == 2:
        sides = [tuple(tuple(side.split()) for side in row) for row in table.rows]
        sources, targets = zip(*sides, strict=True)
        return Pairs(sources, targets, table.told)
    lines = [row[0] for row in table.rows] if table else text.split("\n")
    words = tuple(word for line in lines if line.strip() for word in (*line.split(), END))
    if not words or "\0" in text:
        raise fault(path, "holds no words; name a text, or a file of images")
    return Text(words, table.told if table else "")
