"""The four roles of a target: what it needs here, what it puts into a bundle, how its runs are
watched and diagnosed, and how their results are read.

Each role is an object of its own, so that a target is composed of them, and shares those of others
where it is the same there. A role has defaults for all that most targets do alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.errors import DamagedError
from simgen.ground.storage.files import open_regular
from simgen.kernels.stages import SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder
    from simgen.workload.samples import Sample

MAX_LOG = 2**26  # bytes of a log that are looked at


@dataclass(frozen=True)
class Lack:
    """Something this machine does not have, and how to get it."""

    fact: str
    cure: str

    def __str__(self) -> str:
        return f"{self.fact}; {self.cure}"


@dataclass(frozen=True)
class File:
    """A file of a target's folder."""

    content: bytes
    executable: bool = False


@dataclass(frozen=True)
class Job:
    """Everything a target is made from: the workload, its rendered kernels, its data file."""

    workload: Workload
    sources: Mapping[str, str]  # kernel name -> rendered text, includes not yet inlined
    data_id: bytes  # 32 bytes: what data.h5 was made from
    digest: str  # digest of workload.json; results of a finished run hold it

    @property
    def frame(self) -> dict[str, object]:
        """What templates/targets/run.sh.j2 has to know of the workload, to tell a whole result:
        its name and digest, the size of outputs.bin, and the lines of launches.csv."""
        workload = self.workload
        return {
            "name": workload.name,
            "digest": self.digest,
            "outputs_nbytes": workload.arena_nbytes - workload.outputs_offset,
            "rows": len(workload.launches),
        }

    @property
    def kernel_sources(self) -> dict[str, str]:
        """`sources` in the order of the workload's kernels."""
        return {kernel.name: self.sources[kernel.name] for kernel in self.workload.kernels}


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    launches: int  # launches that have ended
    simulated_seconds: float | None = None  # since its start; None: the target has no such time
    instructions: float | None = None  # instructions of the GPU, each counted once per wavefront


@dataclass(frozen=True)
class SetupStep:
    """One step on the way to a target that runs here."""

    what: str
    command: str  # or a fact
    found: str = ""  # what this machine has of it, or lacks


class Requirements:
    """What a run needs of the machine that it runs on. By default: a POSIX shell."""

    def missing(self, bundle: Path | None = None) -> list[Lack]:
        """What this machine lacks, all at once; empty if it is ready."""
        return []

    def steps(self) -> list[SetupStep]:
        """How to get what it needs, from nothing: in the order in which to do it."""
        return [SetupStep(lack.fact, lack.cure) for lack in self.missing()]

    def refusal(self, bundle: Path) -> str | None:
        """Why the bundle must not be run where it lies ("fact; cure"), or None."""
        return None

    def identity(self) -> str:
        """Which build of the simulator a run would use, for what is measured of it; empty where
        nobody can tell."""
        return ""

    def memory_nbytes(self, workload: Workload) -> int:
        """What a run takes of this machine's memory, in bytes; 0 where run.sh looks for itself."""
        return 0

    def statistics_nbytes(self, workload: Workload) -> int:
        """What a run leaves on the disk beside the tensors, in bytes, where that is much."""
        return 0


class Package(ABC):
    """What a target puts into a bundle.

    Its folder holds a `run.sh` that needs nothing but what `Requirements.missing` names and leaves
    in `results/NAME/`:

        outputs.bin   the arena from Workload.outputs_offset to its end
        log.txt       what the run printed
        complete      Job.digest and those of the files (simgen.ground.storage.seal); only when the
                      run ended well
        and what the target's Reader reads

    `templates/targets/run.sh.j2` is the frame of that script.
    """

    @abstractmethod
    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        """The target's folder: relative path -> file. `run.sh` is one of them."""

    def stages(self) -> tuple[str, ...]:
        """What a kernel becomes on its way into the folder, in order (simgen.kernels.stages)."""
        return (SOURCE,)

    def extension(self, options: Mapping[str, str | int]) -> str | None:
        """A folder within the target's that a run with these options needs, made by `extend`."""
        return None

    def extend(
        self, options: Mapping[str, str | int], workload: Workload, builder: Builder
    ) -> dict[str, File]:
        """The files of that folder, by their paths in it."""
        return {}

    def mapped_nbytes(self, workload: Workload) -> int:
        """The size of mmap.bin that a run maps: float32 values in [0, 1), beside data.h5."""
        return 0

    def commands(self, bundle: Path, workload: Workload) -> Mapping[str, str]:
        """Shell command lines that run the bundle, by the way of running it."""
        return {}

    def notes(self, folder: Path, *, details: bool = False) -> list[str]:
        """What a build tells of the target's folder, in lines; with `details`, more of them."""
        return []


class Watcher:
    """How a run is followed while it goes on, and why it has failed. By default nobody knows."""

    def watch(self, results: Path, workload: Workload) -> Callable[[], Progress] | None:
        """What tells how far a run has come that leaves its files in `results`, or None."""
        return None

    def launches_done(self, log: str) -> int | None:
        """How many launches had ended when a run failed; None where the log does not tell, or
        where none had begun."""
        return None

    def diagnosis(self, log: str) -> str | None:
        """What went wrong ("fact; cure"), where the log of a failed run tells, else None."""
        return None

    def located(self, fact: str, bundle: Path, workload: Workload) -> str:
        """A diagnosis with what the bundle's sources add to it (a line of a kernel)."""
        return fact


class Reader(ABC):
    """What the files of a finished run say."""

    @abstractmethod
    def metrics(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        """One dictionary for each launch, in order, by the names of simgen.ground.metrics.

        Raises:
            DamagedError: the statistics do not fit the workload's launches.
        """

    def counted(self) -> Mapping[str, str]:
        """The metrics that it may have, each in the target's own words: for those who want to know
        what a number is."""
        return {}

    def salvaged(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        """As `metrics`, of a run that was ended; it finished all of `workload`, and maybe more."""
        return self.metrics(results, workload)

    def ran(self, workload: Workload, launches: int) -> tuple[tuple[int, str], ...] | None:
        """(step, kernel) of each of the `launches` that `metrics` tells of, if not the workload's.

        So it is where a library's kernels run in place of the workload's. Then a run leaves no
        outputs.bin: its results are statistics only.

        Raises:
            DamagedError: no step can be told of a launch.
        """
        return None

    def sampled(
        self,
        results: Path,
        workload: Workload,
        samples: Sequence[Sample],
        rows: Sequence[dict[str, float]],
    ) -> tuple[Sample, ...]:
        """Make the metrics of sampled launches those of whole ones; the samples with their errors.

        `rows` has the metrics of all launches; those of sampled ones are changed.

        Raises:
            DamagedError: the results have no such samples.
        """
        raise DamagedError(f"{results}: this target takes no samples; run it again")

    def machine(self, results: Path) -> Mapping[str, str]:
        """What the results tell of the machine that ran it (a GPU, a simulator)."""
        return {}

    def gpus(self, results: Path) -> int:
        """How many GPUs shared the batch, as the run wrote it down.

        Raises:
            DamagedError: it wrote down what cannot be.
        """
        return 1


def log_text(results: Path) -> str:
    """What a finished run printed; empty where its log cannot be read."""
    try:
        with open_regular(results / "log.txt") as file:
            return file.read(MAX_LOG).decode(errors="replace")
    except OSError:
        return ""
