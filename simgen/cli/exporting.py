"""export: bundles and results for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from simgen.cli import completing, streams
from simgen.cli.answers import answer, json_option
from simgen.cli.options import verbosity
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
@click.option(
    "--as",
    "form",
    required=True,
    metavar="FORMAT",
    shell_complete=completing.exports,
    help="Format; see `simgen list exports`.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="PATH",
    help="File or folder to write, which must not exist; - is stdout.",
)
@click.option(
    "--result",
    metavar="R",
    shell_complete=completing.baselines,
    help="Result to export: a target, or a point of a sweep. [default: the only one; for csv and "
    "parquet, all]",
)
@click.option(
    "--model",
    metavar="K=N,...",
    help="latency: facts about the model that its layers do not show, for Vidur: "
    "n_head=32,n_kv_head=32,vocab_size=32768.",
)
@json_option
@verbosity
def export(
    bundles: tuple[Path, ...],
    form: str,
    output: Path,
    result: str | None,
    model: str | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Write bundles and measurements in formats of other tools.

    \b
    simgen export lenet5 --as chakra --result mgpusim -o traces
    simgen export llm-8 llm-64 llm-512 --as latency -o tables
    simgen export lenet5 --as csv -o launches.csv
    """
    import contextlib

    from simgen.bundle import writing
    from simgen.reports.exports import base

    chosen = base.with_model(base.find(form), model)
    streamed = str(output) == streams.STREAM
    if streamed and (as_json or not chosen.file):
        what = "--json: JSON and the file are both for stdout" if as_json else f"{form}: a folder"
        raise UsageError(f"-o -: {what}; name a file or folder with -o")
    with contextlib.ExitStack() as held:
        made = [held.enter_context(writing.opened(path)) for path in bundles]
        lines = base.write(chosen, made, held.enter_context(streams.written(output)), result)
    quiet = quiet or streamed
    if as_json:
        answer("export", {"format": form, "output": str(output), "notes": lines})
    elif not quiet:
        print("\n".join(lines))
