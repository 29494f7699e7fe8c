"""What `simgen run --executor` does: runs as jobs of a cluster, by Snakemake."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from simgen.bundle.writing import Bundle
    from simgen.running.runs import Wish
    from simgen.workflow.jobs import Workflow

ENGINE = (
    click.option(
        "--executor",
        metavar="E",
        help="Have Snakemake run it as jobs: local, slurm, kubernetes, or another of its executor "
        "plugins.",
    ),
    click.option(
        "--profile",
        metavar="P",
        help="A profile of Snakemake's, with options of your cluster: a name, or a folder.",
    ),
    click.option(
        "--container",
        metavar="IMAGE",
        help="Run the jobs in this image, such as docker://you/simgen: with Apptainer, or as pods.",
    ),
    click.option("--workflow-only", is_flag=True, help="Write the workflow, and start nothing."),
)


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All of ENGINE, in their order."""
    for option in reversed(ENGINE):
        command = option(command)
    return command


def run_jobs(
    bundle: Bundle,
    target: str | None,
    options: dict[str, Any],
    grid: tuple[str, ...],
    wish: Wish,
    given: dict[str, Any],
    quiet: bool,
) -> None:
    """`simgen run --executor`: the same results, made by jobs."""
    from simgen.cli.following import Printing
    from simgen.workflow import planning

    made = planning.of_bundle(
        bundle, target, options, grid, wish, Printing(quiet), given["container"] or ""
    )
    folder = bundle.path.resolve().with_name(f"{bundle.path.resolve().name}.workflow")
    count = wish.cutting.jobs if wish.cutting else len(made.points)
    start(folder, made, given["executor"], given["profile"], count, given["workflow_only"], quiet)
    if not quiet and not given["workflow_only"]:
        for point in made.points.values():
            print(f"results: {bundle.path / 'results' / point.result}")
        print(f"next: simgen diff {shlex.quote(str(bundle.path))}")


def start(
    folder: Path,
    made: Workflow,
    executor: str,
    profile: str | None,
    count: int,
    workflow_only: bool,
    quiet: bool,
) -> None:
    """Write the workflow and, unless that was all, run it."""
    from simgen.cli import present
    from simgen.workflow import engine, executors, writing

    chosen = executors.find(executor, profile or "", starts=not workflow_only)
    if chosen.name == executors.KUBERNETES:
        chosen, made = executors.in_pods(chosen, made)
    writing.write(folder, made, chosen, count)
    if not quiet:
        print(
            f"workflow: {folder}: {present.many(len(made.points), 'point')}, about "
            f"{present.many(made.jobs, 'job')}",
            flush=True,
        )
    if workflow_only:
        if not quiet:
            print(f"next: {chosen.command} -d {shlex.quote(str(folder))} "
                  f"-s {shlex.quote(str(folder / writing.SNAKEFILE))}")  # fmt: skip
        return
    engine.run(folder, made, chosen, (lambda _: None) if quiet else _tell)


def _tell(line: str) -> None:
    print(line, flush=True)
