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
from simgen.errors import UsageError


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
    from dataclasses import replace

    from simgen.running.workflow import planning, sweep_spec

    told = sweep_spec.read_spec(spec)
    told = replace(told, jobs=jobs or told.jobs)
    how = asked(JobChoices, given)
    made = planning.of_spec(told, how.container or "")
    folder = output or spec.with_suffix("")
    if folder == spec:
        raise UsageError(f"{spec}: has no ending to leave out; name the folder with -o")
    quiet = quiet or as_json

    def points() -> list[tuple[str, bool]]:
        homes = {key: Path(each.path) for key, each in made.bundles.items()}
        return [
            (f"{homes[each.bundle].name}:{each.result}",
             (folder / homes[each.bundle] / "results" / each.result).is_dir())
            for each in made.points.values()
        ]  # fmt: skip

    from simgen.cli import sweeping

    if dry_run:
        sweeping.points(points(), as_json)
        return
    start(folder, made, how, told.jobs, quiet)
    looks = asked(FigureChoices, given)
    if looks.figures and not how.workflow_only:
        from simgen.reports.pages import explored_page, store

        explored_page.write(folder / store.FILE, folder / "report", looks=looks)
    page = None if how.workflow_only else folder / "report" / "report.html"
    if as_json:
        where = {"folder": str(folder), "page": page and str(page)}
        answer("sweep", {**where, "points": sweeping.told(points())})
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
