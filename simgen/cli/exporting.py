"""export: bundles and results for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simgen.ask.checks import ExportChoices
from simgen.cli import completing, streams
from simgen.cli.answers import answer, json_option
from simgen.cli.options import asked, asks, verbosity
from simgen.errors import UsageError


@click.command()
@click.argument(
    "bundles",
    nargs=-1,
    required=True,
    metavar="BUNDLE...",
    type=click.Path(path_type=Path),
    shell_complete=completing.bundle,
)
@asks(ExportChoices)
@json_option
@verbosity
def export(
    bundles: tuple[Path, ...], as_json: bool, quiet: bool, verbose: bool, **given: Any
) -> None:
    """Write bundles and measurements in formats of other tools.

    \b
    simgen export lenet5 --as chakra --result mgpusim -o traces
    simgen export llm-8 llm-64 llm-512 --as latency -o tables
    simgen export lenet5 --as csv -o launches.csv
    """
    from simgen.reports.exports import base

    wanted = asked(ExportChoices, given)
    chosen = base.chosen(wanted)
    streamed = wanted.output == streams.STREAM
    if streamed and (as_json or not chosen.file):
        what = (
            "--json: JSON and the file are both for stdout"
            if as_json
            else f"{chosen.name}: a folder"
        )
        raise UsageError(f"-o -: {what}; name a file or folder with -o")
    with streams.written(Path(wanted.output or "")) as path:
        made = base.export(bundles, wanted, path)
    if as_json:
        answer("export", {"format": made.format, "output": wanted.output, "notes": made.notes})
    elif not quiet and not streamed:
        print("\n".join(made.notes))


for _each in export.params:
    _each.required |= _each.name in (ExportChoices.form.name, ExportChoices.output.name)
