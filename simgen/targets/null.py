"""A target that runs no kernel: the contract of targets in its smallest form, to be copied.

Its run.sh leaves what a run has to leave: the outputs as they are before any kernel (all canaries),
and a line of metrics for each launch. So `simgen diff` finds every tensor untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.compile import render
from simgen.targets import launch_rows
from simgen.targets.base import File, Package, Reader, Target, Watcher

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from simgen.compile.build import Builder
    from simgen.ir import Workload
    from simgen.targets.base import Job, Progress


@dataclass(frozen=True)
class Null(Target):
    """It has no settings, and needs nothing but a shell."""

    name: ClassVar[str] = "null"
    summary: ClassVar[str] = "an example for those who write targets: it runs no kernel"
    example: ClassVar[bool] = True

    @property
    def package(self) -> Package:
        return NullPackage()

    @property
    def watcher(self) -> Watcher:
        return NullWatcher()

    @property
    def reader(self) -> Reader:
        return NullReader()


class NullPackage(Package):
    """`run.sh`, of the frame that all targets share."""

    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        run = render.text(
            "targets/null.run.sh.j2", target=Null.name, digest=job.digest, workload=job.workload
        )
        return {"run.sh": File(run.encode(), executable=True)}


class NullWatcher(Watcher):
    """Lines of `launches.csv` tell how far a run has come."""

    def watch(self, results: Path, workload: Workload) -> Callable[[], Progress]:
        return launch_rows.watch(results)


class NullReader(Reader):
    """They hold the metrics, too."""

    def metrics(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        return launch_rows.read(results, workload, ("seconds",))
