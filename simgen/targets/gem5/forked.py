"""The launcher `kfd`, each of whose kernels runs in a gem5 process of its own: what ends one of
them ends no other.

All processes are forks of one that has made the machine (templates/launchers/gem5_forks.py), so
that a kernel costs no start of gem5. For workloads whose steps have one launch each, which read
nothing of each other; `simgen conform` makes such.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from simgen.kernels import render
from simgen.targets.base import File, Job
from simgen.targets.gem5.kfd import Kfd, memory_nbytes
from simgen.targets.gem5.launcher import Built, Command, Simulated, memory_text

if TYPE_CHECKING:
    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder


class Forked(Kfd, registered=False):
    """`jobs` processes at a time, of at most `limit` seconds of a processor each."""

    template = "targets/gem5-se-forks.run.sh.j2"

    def __init__(self, jobs: int, limit: float) -> None:
        self.jobs, self.limit = jobs, limit

    def command(self, simulated: Simulated, workload: Workload) -> Command:
        """As `Kfd.command`; `here` is the folder of each process. One compute unit: gem5 takes its
        time for each cycle of each."""
        state = " here/state.bin" if workload.left else ""
        return Command(
            before=("-n1", "-u1", f"--mem-size={memory_text(memory_nbytes(workload))}",
                    *simulated.options, "--env=/dev/null"),
            after=("-c", "../../gem5-se/binary",
                   f"--options='../../data.h5 here/outputs.bin{state}'"),
            launches=None, outputs_nbytes=None,
        )  # fmt: skip

    def build(self, simulated: Simulated, job: Job, builder: Builder) -> Built:
        """As `Kfd.build`, and what forks."""
        told = {
            "jobs": self.jobs, "limit": self.limit, "id": job.data_id.hex(),
            "kernels": [launch.kernel for launch in job.workload.launches],
        }  # fmt: skip
        made = super().build(simulated, job, builder)
        more = {
            "forks.py": File(render.text("launchers/gem5_forks.py").encode()),
            "forks.json": File((json.dumps(told, indent=1) + "\n").encode()),
        }
        return replace(made, files={**made.files, **more})
