"""A target that runs no kernel: the contract of targets in its smallest form, to be copied.

Its run.sh leaves what a run has to leave: the outputs as they are before any kernel (all canaries),
and a line of metrics for each launch. So `simgen diff` finds every tensor untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.kernels import render
from simgen.targets.base import File, Job, Package, Reader, Target, Watcher
from simgen.targets.launch_rows import RowsReader, RowsWatcher

if TYPE_CHECKING:
    from simgen.kernels.build import Builder


@dataclass(frozen=True)
class Null(Target):
    """It has no settings, and needs nothing but a shell."""

    name: ClassVar[str] = "null"
    summary: ClassVar[str] = "runs no kernel: an example for those who write targets"
    example: ClassVar[bool] = True

    @property
    def package(self) -> Package:
        return NullPackage()

    @property
    def watcher(self) -> Watcher:
        return RowsWatcher()  # the lines of launches.csv tell how far a run has come

    @property
    def reader(self) -> Reader:
        return RowsReader(("seconds",))  # results hold the metrics

    def whole_only(self) -> str:
        return "no layer runs at all; take the host target to run some"


class NullPackage(Package):
    """`run.sh`, in the frame that all targets share."""

    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        run = render.text(
            "targets/null.run.sh.j2",
            **job.frame,
            target=Null.name,
            workload=job.workload,
            canary="".join(f"\\{byte:03o}" for byte in job.workload.canary.to_bytes(4, "little")),
        )
        return {"run.sh": File(run.encode(), executable=True)}
