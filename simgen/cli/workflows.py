"""What `simgen run --executor` does: runs as jobs of a cluster, by Snakemake."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.ask.run import JobChoices, RunCommand
    from simgen.bundle.writing import Bundle
    from simgen.running.workflow.jobs import Workflow


def run_jobs(bundle: Bundle, asked: RunCommand, jobs: JobChoices, quiet: bool) -> None:
    """`simgen run --executor`: the same results, made by jobs."""
    from simgen.cli.following import Printing
    from simgen.running.workflow import planning

    made = planning.of_bundle(bundle, asked, Printing(quiet), jobs.container or "")
    folder = bundle.path.resolve().with_name(f"{bundle.path.resolve().name}.workflow")
    count = (asked.jobs or 1) if asked.by_pieces else len(made.points)
    start(folder, made, jobs, count, quiet)
    if not quiet and not jobs.workflow_only:
        for point in made.points.values():
            print(f"results: {bundle.path / 'results' / point.result}")
        print(f"next: simgen diff {shlex.quote(str(bundle.path))}")


def start(folder: Path, made: Workflow, jobs: JobChoices, count: int, quiet: bool) -> None:
    """Write the workflow and, unless that was all, run it."""
    from dataclasses import replace

    from simgen.cli import defaults
    from simgen.running.workflow import starting

    jobs = replace(jobs, executor=jobs.executor or defaults.value("executor") or None)
    starting.start(folder, made, jobs, count, (lambda _: None) if quiet else _tell)


def _tell(line: str) -> None:
    print(line, flush=True)
