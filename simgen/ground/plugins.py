"""What other packages bring: entry points of the groups `simgen.targets`, `simgen.commands` and
`simgen.exports`, as the metadata of installed distributions has them."""

from __future__ import annotations

import importlib.util
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

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


def beside(command: str, name: str) -> Any:
    """What has this name in the module that brings a command: the same for Python.

    Raises:
        MissingError: no package brings it.
    """
    entry = named("simgen.commands").get(command)
    if entry is None:
        raise MissingError(f"simgen {command}: no installed package has it; install simgen again")
    load(entry)
    return getattr(import_module(entry.module), name)


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
