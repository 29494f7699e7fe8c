"""sweep: a file of workloads and settings, run as jobs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from simgen.ask.report import FigureChoices
from simgen.ask.run import JobChoices, RunChoices
from simgen.cli.answers import answer, json_option
from simgen.cli.numbers import number
from simgen.cli.options import asked, asks, verbosity
from simgen.cli.workflows import start


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder of the workflow. [default: SPEC without its ending]",
)
@number("--jobs", kind=RunChoices.jobs.kind, help="Jobs at a time. [default: as SPEC says]")
@asks(JobChoices, FigureChoices)
@click.option("--dry-run", is_flag=True, help="Print the points, and write and run nothing.")
@json_option
@verbosity
def sweep(
    spec: Path,
    output: Path | None,
    jobs: int | None,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    """Build, run, check and report what SPEC describes, as jobs.

    SPEC is a TOML file with workloads, targets, and settings of builds and runs; lists are swept.
    DIR gets a Snakemake workflow with bundles, results and the report. Finished jobs are not
    repeated: the same command continues, and so does `snakemake` in DIR.

    \b
    simgen sweep sweep.toml
    simgen sweep sweep.toml --executor slurm
    simgen sweep sweep.toml -o study --workflow-only

    Exit code 5: jobs failed.
    """
    from simgen.cli import sweeping
    from simgen.running.workflow import starting

    how, looks = asked(JobChoices, given), asked(FigureChoices, given)
    made = starting.sweep(spec, output, jobs, how)
    quiet = quiet or as_json
    if dry_run:
        sweeping.points([*made.points.items()], as_json)
        return
    start(made.folder, made.workflow, how, made.jobs, quiet)
    if looks.figures and not how.workflow_only:
        from simgen.reports.pages import explored_page, store

        explored_page.write(made.folder / store.FILE, made.page.parent, looks=looks)
    page = None if how.workflow_only else made.page
    if as_json:
        where = {"folder": str(made.folder), "page": page and str(page)}
        answer("sweep", {**where, "points": sweeping.told([*made.points.items()])})
    elif not quiet and page:
        print(f"page: {page}")


@click.command(hidden=True)
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
def collect(folder: Path, quiet: bool) -> None:
    """Collect the results of a sweep in FOLDER/store.sqlite3.

    Jobs of a sweep do so at its end. `simgen report FOLDER` does it, too. [default: this folder]
    """
    from simgen.cli import present
    from simgen.reports import collecting

    path, count, points = collecting.collect(folder)
    if not quiet:
        print(f"simgen report {folder} collects, too, and reports", file=sys.stderr)
        print(f"{path}: {count} of {present.many(points, 'point')}")
