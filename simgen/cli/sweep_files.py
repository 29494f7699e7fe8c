"""sweep: a file of workloads and settings, run as jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from simgen.cli.numbers import Whole
from simgen.cli.options import planned, verbosity
from simgen.cli.pipeline import build
from simgen.cli.workflows import engine_options, start
from simgen.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.bundle.planning import Plan
    from simgen.targets import Target
    from simgen.workflow.sweep_spec import Scalar

# Options of `simgen build` that a sweep gives in its own way.
OWN = ("target", "output", "run", "replace", "set", "quiet", "verbose", "help")


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The folder of the workflow. [default: SPEC without its ending]",
)
@click.option("--jobs", type=Whole(1), metavar="N", help="Jobs at a time. [default: as SPEC says]")
@engine_options
@verbosity
def sweep(
    spec: Path,
    output: Path | None,
    jobs: int | None,
    executor: str | None,
    profile: str | None,
    container: str | None,
    workflow_only: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Build, run, judge and report all that the file SPEC names, as jobs.

    SPEC is TOML: workloads, targets, and settings of builds and runs, whose lists are swept.
    DIR gets a Snakemake workflow with bundles, results and the report. What is done is not
    done again: the same command goes on, and so does `snakemake` in DIR.

    \b
    simgen sweep sweep.toml
    simgen sweep sweep.toml --executor slurm
    simgen sweep sweep.toml -o study --workflow-only

    Exit code 5: jobs failed.
    """
    from dataclasses import replace

    from simgen.workflow import planning, sweep_spec

    told = sweep_spec.read(spec)
    told = told if jobs is None else replace(told, jobs=jobs)
    made = planning.of_spec(told, _planned, spelled, container or "")
    folder = output or spec.with_suffix("")
    if folder == spec:
        raise UsageError(f"{spec}: has no ending to leave out; name the folder with -o")
    start(folder, made, executor or "local", profile, told.jobs, workflow_only, quiet)
    if not quiet and not workflow_only:
        print(f"page: {folder / 'report' / 'report.html'}")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
def collect(folder: Path, quiet: bool) -> None:
    """Put the results of a sweep's FOLDER into its store, FOLDER/store.sqlite3.

    The workflow does so at its end; by hand it can be done before, of the points that have run.
    `simgen report` reads the store. [default: this folder]

    \b
    simgen collect caches
    simgen report caches/store.sqlite3 -o so-far
    """
    from simgen.cli import present
    from simgen.workflow import collecting

    path, count, points = collecting.collect(folder)
    if not quiet:
        print(f"{path}: {count} of {present.many(points, 'point')}")


def _planned(words: Sequence[str]) -> tuple[Plan, Sequence[Target]]:
    """What `simgen build` with these words would make."""
    context = build.make_context("simgen build", list(words))
    plan, _, targets = planned(context.params)
    return plan, targets


def spelled(name: str, value: Scalar) -> list[str]:
    """A setting of a build as words of `simgen build`: an option, or else --set."""
    from simgen.workflow import sweep_spec

    option = f"--{name.replace('_', '-')}"
    for each in build.get_params(click.Context(build, help_option_names=["-h", "--help"])):
        if not isinstance(each, click.Option) or option not in (*each.opts, *each.secondary_opts):
            continue
        if name in OWN:
            raise UsageError(f"build.{name}: the sweep gives it; leave it out")
        if not each.is_flag:
            return [option, sweep_spec.text(value)]
        if not isinstance(value, bool):
            raise UsageError(f"build.{name} = {value!r}: write true or false")
        return [option] if value else []
    return ["--set", f"{name}={sweep_spec.text(value)}"]
