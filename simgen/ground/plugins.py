"""What other packages bring: entry points of the groups `simgen.targets`, `simgen.commands` and
`simgen.exports`, as the metadata of installed distributions has them."""

from __future__ import annotations

import importlib.util
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from simgen.errors import ENDING, MissingError, one_line


@cache
def named(group: str) -> dict[str, EntryPoint]:
    """Name -> entry point of one group, in the order of names."""
    return {each.name: each for each in sorted(entry_points(group=group), key=lambda e: e.name)}


def load(entry: EntryPoint) -> object:
    """What an entry point stands for.

    Raises:
        MissingError: it cannot be imported.
    """
    try:
        return entry.load()
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code in [128 + each for each in ENDING]:
            raise  # this process was asked to end meanwhile
        why = one_line(f"{type(error).__name__}: {error}")
        raise MissingError(fault(entry, f"cannot be loaded: {why}")) from error


def fault(entry: EntryPoint, what: str) -> str:
    """What is wrong with an entry point: place, fact and cure."""
    owner = entry.dist.name if entry.dist else entry.value
    return f"{owner}: {entry.group}: {entry.name}: {what}; mend or uninstall {owner}"


def load_all(group: str) -> None:
    """Import all that a group has, so that it registers itself."""
    for each in named(group).values():
        load(each)


def template(name: str) -> Path | None:
    """Where PACKAGE:PATH lies, a template in the folder `templates` of an importable package."""
    package, colon, path = name.partition(":")
    found = importlib.util.find_spec(package) if colon else None
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "templates" / path
