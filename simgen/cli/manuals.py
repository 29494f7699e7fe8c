"""Man pages of all commands, made from what `--help` is made from; wheels have them.

simgen.1            the commands, the environment, the exit codes
simgen-build.1      a command; of groups too: simgen-new-layer.1
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from simgen.cli import variables
from simgen.cli.main import cli
from simgen.cli.options import Commands

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

INDENT = re.compile(r"^[ \t]+", re.M)


def pages(version: str) -> dict[str, str]:
    """Name of its file -> text, in the man macros of roff."""
    found = {"-".join(words): (words, command) for words, command in _all(("simgen",), cli)}
    return {
        f"{name}.1": _page(name, words, command, version, found)
        for name, (words, command) in found.items()
    }


def _all(
    words: tuple[str, ...], command: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        below = command.all() if isinstance(command, Commands) else command.commands
        for name, each in below.items():
            yield from _all((*words, name), each)


def _page(
    name: str,
    words: tuple[str, ...],
    command: click.Command,
    version: str,
    known: Mapping[str, tuple[tuple[str, ...], click.Command]],
) -> str:
    parent = click.Context(cli, **cli.context_settings)
    context = click.Context(command, parent, " ".join(words))
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH {_quoted(name.upper())} 1 "" {_quoted(f"simgen {version}")} {_quoted("simgen")}',
        ".SH NAME", f"{_text(name)} \\- {_text(_first(command))}",
        ".SH SYNOPSIS", f".B {_text(' '.join(words))}", _text(usage),
        ".SH DESCRIPTION", *_body(_paragraphs(command)),
    ]  # fmt: skip
    records = [
        record
        for each in command.get_params(context)
        if isinstance(each, click.Option) and (record := each.get_help_record(context))
    ]
    lines += [".SH OPTIONS", *_entries(records)]
    below = {other: each for other, (_, each) in known.items() if other.rpartition("-")[0] == name}
    if below:
        rows = [(other.rpartition("-")[2], _first(each)) for other, each in below.items()]
        lines += [".SH COMMANDS", *_entries(rows)]
    if name == "simgen":
        lines += [".SH ENVIRONMENT", *_entries((v.name, v.text) for v in variables.general())]
        lines += [".PP", _text("Options of simgen run have variables, too: simgen list variables.")]
        others = list(below)
    else:
        others = [name.rpartition("-")[0], *below]
    lines += [".SH SEE ALSO", ",\n".join(f".BR {_text(each)} (1)" for each in others)]
    return "\n".join(lines).replace(",\n.BR", " ,\n.BR") + "\n"


def _paragraphs(command: click.Command) -> list[str]:
    return (command.help or "").partition("\f")[0].strip().split("\n\n")


def _first(command: click.Command) -> str:
    return " ".join(_paragraphs(command)[0].split()).rstrip(".")


def _body(paragraphs: Iterable[str]) -> Iterator[str]:
    for each in paragraphs:
        if each.lstrip().startswith("\b"):
            yield from (".PP", ".nf", *map(_text, _verbatim(each)), ".fi")
        else:
            yield from (".PP", _text(" ".join(each.split())))


def _verbatim(paragraph: str) -> list[str]:
    return INDENT.sub("", paragraph.replace("\b", "", 1)).strip("\n").split("\n")


def _entries(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for what, told in rows:
        yield from (".TP", f".B {_text(what)}", _text(" ".join(told.split()) or "-"))


def _text(text: str) -> str:
    """Text for roff: no escapes, no requests at the beginning of a line, ASCII's own marks."""
    for mark, escape in (("\\", "\\e"), ("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"),
                         ("^", "\\(ha"), ("~", "\\(ti")):  # fmt: skip
        text = text.replace(mark, escape)
    return f"\\&{text}" if text.startswith(".") else text


def _quoted(text: str) -> str:
    return f'"{_text(text)}"'
