"""Workflows written and run, from the shell and from Python."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.ask.build import Destination
from simgen.errors import UsageError
from simgen.running.workflow import engine, executors, planning, sweep_spec, writing

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.ask.run import JobChoices
    from simgen.running.workflow.jobs import Workflow


@dataclass(frozen=True)
class SweepOf:
    """A sweep's file, and the folder of its workflow."""

    workflow: Workflow
    folder: Path
    jobs: int

    @property
    def bundles(self) -> list[Path]:
        """The bundles, built or not."""
        return [self.folder / each.path for each in self.workflow.bundles.values()]

    @property
    def points(self) -> dict[str, bool]:
        """BUNDLE:RESULT -> whether it has run."""
        homes = {key: Path(each.path) for key, each in self.workflow.bundles.items()}
        return {
            f"{homes[each.bundle].name}:{each.result}": (
                self.folder / homes[each.bundle] / "results" / each.result
            ).is_dir()
            for each in self.workflow.points.values()
        }

    @property
    def page(self) -> Path:
        """The report that the jobs write at their end."""
        return self.folder / engine.PAGE


def sweep(spec: Path, output: Path | None, jobs: int | None, how: JobChoices) -> SweepOf:
    """What a sweep's file describes; nothing is written.

    Raises:
        UsageError: a word of it is unknown, it has too many points, or its folder has no name.
        ConfigError: a workload of it cannot be accepted.
    """
    told = sweep_spec.read_spec(spec)
    made = planning.of_spec(replace(told, jobs=jobs or told.jobs), how.container or "")
    folder = output or spec.with_suffix("")
    if folder == spec:
        raise UsageError(
            f"{spec}: has no ending to leave out; name the folder with {Destination.output}"
        )
    return SweepOf(made, folder, jobs or told.jobs)


def start(
    folder: Path, made: Workflow, jobs: JobChoices, count: int, tell: Callable[[str], None]
) -> None:
    """Write the workflow and, unless that was all, run it. `tell` gets lines for people.

    Raises:
        UsageError: there is no such executor, or the folder is something else.
        MissingError: Snakemake, its plugin or the cluster is not here.
        RunError: jobs failed.
    """
    chosen = executors.find(
        jobs.executor or executors.LOCAL, jobs.profile or "", starts=not jobs.workflow_only
    )
    writing.write(folder, made, chosen, count)
    points, count = len(made.points), made.jobs
    tell(f"workflow: {folder}: {points} point{'s' * (points != 1)}, about {count} "
         f"job{'s' * (count != 1)}")  # fmt: skip
    if jobs.workflow_only:
        tell(f"next: snakemake -d {shlex.quote(str(folder))} "
             f"-s {shlex.quote(str(folder / writing.SNAKEFILE))}")  # fmt: skip
        return
    engine.run(folder, made, chosen, tell)
