"""Which columns of a table of sentences are the sentences, by what stands in each.

    manythings.org     source  target  attribution
    Tatoeba, pairs     number  source  number  target
    Tatoeba            number  language  sentence  [user  date  date]
    Leipzig Corpora    number  sentence
    OPUS, ParaCrawl    [address  address]  source  target  score ...

Tabs stand between columns, and commas in a file that is called .csv. What says where sentences come
from, numbers, dates and codes of languages are none. A first line that names the columns is left
out.

Source: https://www.manythings.org/anki/, https://tatoeba.org/en/downloads,
https://wortschatz.uni-leipzig.de/en/download.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.tensors.samples.images import fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_NUMBER = re.compile(r"[-+]?(?:\d+(?:[.,]\d+)*|[.,]\d+)(?:[eE][-+]?\d+)?%?|\d{4}-\d\d-\d\d.*|\\N|")
_SOURCE = re.compile(r"https?://|www\.|tatoeba\.org|\bCC[- ]?(?:BY|0)\b|\battribution\b|", re.I)
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?")
_CODE = re.compile(  # languages of corpora, by ISO 639
    r"(?:ar|bg|bn|ca|cs|da|de|el|en|es|et|fa|fi|fr|ga|he|hi|hr|hu|id|is|it|ja|ka|kk|ko|lt|lv|mk|ms|"
    r"mt|nb|ne|nl|no|pl|pt|ro|ru|si|sk|sl|sq|sr|sv|sw|ta|te|th|tr|uk|ur|vi|xh|yo|zh|zu|"
    r"eng|deu|fra|spa|ita|por|rus|zho|jpn|hin)(?:[-_][A-Za-z]{2,4})?"
)
_HEADING = re.compile(
    r"(?:source|src|target|tgt|trg|input|output|text|sentence|translation|id|lang(?:uage)?|"
    r"english|french|german|spanish|italian|portuguese|russian|chinese|japanese|hindi|score)"
    r"(?:[ _.-]?(?:words|sentences?|text|lang(?:uage)?|\d|en|de|fr|es))*(?:/sentences)?",
    re.I,
)
LINES_PER_CODE = 10  # lines for each code of a language, where there are several
HALF = 2


@dataclass(frozen=True)
class SentenceTable:
    """Rows of one or two sentences."""

    rows: tuple[tuple[str, ...], ...]
    told: str  # which columns of the file they are; empty: all of them


def read_sentences(path: Path, text: str) -> SentenceTable | None:
    """The sentences of a table; None: it is none.

    Raises:
        UsageError: it is one whose sentences nobody can tell, or some are missing.
    """
    lines = [(at, line) for at, line in enumerate(text.split("\n"), 1) if line.strip()]
    rows = [(at, [each.strip() for each in line.lstrip("\t").split("\t")]) for at, line in lines]
    if path.name.removesuffix(".gz").endswith(".csv") and "\t" not in text:
        reader = csv.reader(io.StringIO(text))
        rows = [(reader.line_num, [each.strip() for each in row]) for row in reader if any(row)]
    without = next((at for at, row in rows if len(row) < 2), None)
    if without is not None:
        several = sum(len(row) > 1 for _, row in rows)
        if several * HALF < len(rows):
            return None
        fact = f"line {without} has one column, and {several} of {len(rows)} lines have more"
        raise fault(path, f"{fact}; write a source and a target on each line, or no tabs")
    if not rows:
        return None
    fewest, most = (of(len(row) for _, row in rows) for of in (min, max))
    heading = _is_heading([row[:fewest] for _, row in rows])
    rows = rows[heading:]
    chosen = _sentences([row[:fewest] for _, row in rows])
    if not 1 <= len(chosen) <= 2:
        which = ", ".join(str(at + 1) for at in chosen) or "none"
        fact = f"lines of {fewest} columns, of which {which} may be sentences"
        raise fault(path, f"{fact}; leave the source and the target alone, with a tab between them")
    for at, row in rows:
        for column in chosen:
            if not row[column]:
                raise fault(path, f"line {at} has nothing in column {column + 1}; remove the line")
    told = ""
    if len(chosen) < most:
        many = str(most) if fewest == most else f"{fewest} to {most}"
        noun = "columns" if len(chosen) > 1 else "column"
        told = f"{noun} {' and '.join(str(at + 1) for at in chosen)} of {many}"
    if heading:
        told += f"{', ' * bool(told)}without the first line, which names them"
    return SentenceTable(tuple(tuple(row[at] for at in chosen) for _, row in rows), told)


def _sentences(rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns that may be sentences."""
    columns = list(zip(*rows, strict=True))
    kinds = [_kind(column) for column in columns]
    if kinds[:3] == ["", "", "source"]:
        return [0, 1]
    if kinds[:3] == ["number", "language", ""]:
        return [2]
    return [at for at, kind in enumerate(kinds) if not kind]


def _kind(column: Sequence[str]) -> str:
    """What stands in a column; empty: perhaps sentences."""
    if not any(column):
        return "nothing"
    if all(_NUMBER.fullmatch(each) for each in column):
        return "number"
    if all(not each or _SOURCE.search(each)[0] for each in column):  # type: ignore[index]
        return "source"
    codes = set(column)
    few = len(codes) == 1 < len(column) or len(codes) * LINES_PER_CODE <= len(column)
    return "language" if few and all(map(_LANGUAGE.fullmatch, codes)) else ""


def _is_heading(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns."""
    first, *rest = rows
    if not rest:
        return False
    codes = len(set(first)) > 1 and all(map(_CODE.fullmatch, first))
    if codes or all(map(_HEADING.fullmatch, first)):
        return True
    kinds = [(_kind(column), _kind(column[1:])) for column in zip(*rows, strict=True)]
    return any(whole != of_rest == "number" for whole, of_rest in kinds)
