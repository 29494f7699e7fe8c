"""Tables of measurements, a column for each name: types that all files and data frames share.

A count is a whole number, another metric a float, yes or no a bool, and what is not known None. So
CSV (`true`, all digits of a float), Parquet, pandas and polars have the same types and values.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from simgen.errors import MissingError
from simgen.ground import metrics

Value = str | int | float | bool
SCALARS = (str, int, float, bool)
_COUNTS = {n for n, each in metrics.METRICS.items() if each.kind is metrics.Kind.COUNTER}


def typed(text: str) -> Value:
    """What a setting's text says: 4, 0.5, True, or a word."""
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"-?(0|[1-9]\d{0,17})", text, re.ASCII):
        return int(text)
    if re.fullmatch(r"-?\d{1,18}(\.\d{1,18})?(e[+-]?\d{1,3})?", text, re.ASCII):
        return float(text)
    return text


def columns(heads: Iterable[str], lines: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The columns of lines, each of one type."""
    return {head: _alike(head, [line.get(head) for line in lines]) for head in heads}


def _alike(head: str, values: list[Any]) -> list[Any]:
    known = [each for each in values if each is not None]
    kinds = {type(each) for each in known}
    if head in _COUNTS and kinds <= {int, float} and all(float(x).is_integer() for x in known):
        return [None if each is None else int(each) for each in values]
    if len(kinds) < 2:
        return values
    kind = float if kinds == {int, float} else str
    return [None if each is None else kind(each) for each in values]


def cell(value: object) -> object:
    """A value in CSV; a float has all its digits."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else repr(value) if isinstance(value, float) else value


def cells(table: Mapping[str, Sequence[Any]]) -> list[list[object]]:
    """The lines of a table, as CSV has them."""
    return [[cell(each) for each in line] for line in zip(*table.values())]


class Tidy(ABC):
    """What has a table: a line for each observation."""

    @abstractmethod
    def columns(self) -> dict[str, list[Any]]:
        """The table's columns by name; None stands for what is not known."""

    def to_pandas(self) -> Any:
        """The table as a DataFrame of pandas.

        Raises:
            MissingError: pandas is not installed.
        """
        return _frame("pandas", self.columns())

    def to_polars(self) -> Any:
        """The table as a DataFrame of polars.

        Raises:
            MissingError: polars is not installed.
        """
        return _frame("polars", self.columns())


def _frame(library: str, table: Mapping[str, Sequence[Any]]) -> Any:
    from importlib import import_module

    try:
        found = import_module(library)
    except ImportError:
        cure = f"install it: python -m pip install {library}"
        raise MissingError(f"{library}: not installed; {cure}") from None
    return found.DataFrame(dict(table))
