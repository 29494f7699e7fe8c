"""What a target is, and the table of targets."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.compile.legalise import cache_policy
from simgen.errors import UsageError, did_you_mean, printable
from simgen.storage.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from simgen.compile.build import Builder
    from simgen.ir import Workload

MAX_LOG = 2**26  # bytes of a log that are looked at
TARGETS: dict[str, type[Target]] = {}  # by name; importing simgen.targets fills it


def setting(default: Any, text: str, choices: Iterable[str] = ()) -> Any:
    """A setting of a target: an option of `simgen build` with `text` as its help."""
    return field(default=default, metadata={"help": text, "choices": choices})


def l1_setting() -> Any:
    """The setting `l1` of the targets whose GPU has such a cache."""
    text = "whether vector loads use the L1 cache (MGPUSim runs both the same)"
    return setting(cache_policy.CACHED, text, cache_policy.POLICIES)


def log_text(results: Path) -> str:
    """What a finished run printed; empty where its log cannot be read."""
    try:
        with open_regular(results / "log.txt") as file:
            return file.read(MAX_LOG).decode(errors="replace")
    except OSError:
        return ""


@dataclass(frozen=True)
class RunOption:
    """An option of `simgen run`, handed to run.sh in an environment variable."""

    variable: str
    text: str  # help
    choices: tuple[str, ...] = ()  # empty: a whole number
    least: int = 0
    pattern: str = ""  # a regular expression: a text, and all of it must match
    example: str = ""  # such a text

    def read(self, text: str) -> str | int:
        """The value that `text` is.

        Raises:
            ValueError: it is none; the message is "fact; cure".
        """
        if self.choices:
            if text in self.choices:
                return text
            raise ValueError(f"{printable(text)}: unknown; {did_you_mean(text, self.choices)}")
        if self.pattern:
            if re.fullmatch(self.pattern, text, re.ASCII):
                return text
            raise ValueError(f"{printable(text)}: write it like {self.example}")
        if re.fullmatch(r"\d{1,9}", text, re.ASCII) and int(text) >= self.least:
            return int(text)
        raise ValueError(f"{printable(text)}: write a whole number, {self.least} or more")


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
    digest: str  # of workload.json; a finished run leaves it in its results


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    launches: int  # that have ended
    simulated_seconds: float | None = None  # since its start; None: the target has no such time
    instructions: float | None = None  # of the GPU, each counted once for a wavefront


@dataclass(frozen=True)
class Target(ABC):
    """Settings in the dataclass fields, behaviour in pure methods. None of them runs anything.

    A target's folder in the bundle holds a `run.sh` that needs nothing but what `missing` names
    and leaves in `results/NAME/`:

        outputs.bin   the arena from Workload.outputs_offset to its end
        log.txt       what the run printed
        complete      Job.digest and those of the files (storage/seal.py); where the run ended well
        and what `metrics` reads
    """

    name: ClassVar[str]  # of the folder too
    ends_itself: ClassVar[bool] = False  # run.sh obeys SIMGEN_TIMEOUT, and tells where it was
    run_options: ClassVar[Mapping[str, RunOption]] = {}  # by name
    variables: ClassVar[tuple[str, ...]] = ()  # other variables of run.sh that change results
    summary: ClassVar[str]  # one line for `simgen list targets`

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" in cls.__dict__:
            if cls.name in TARGETS:
                raise RuntimeError(f"target {cls.name!r} is registered twice")
            TARGETS[cls.name] = cls

    def __post_init__(self) -> None:
        wrong = [f.name for f in fields(self) if type(getattr(self, f.name)) is not type(f.default)]
        if wrong:  # of a manifest
            raise TypeError(f"{self.name}: values of another type: {', '.join(wrong)}")
        for each in fields(self):
            value, choices = getattr(self, each.name), each.metadata["choices"]
            if choices and value not in choices:
                cure = did_you_mean(value, choices)
                name = each.name.replace("_", "-")
                raise UsageError(f"{self.name}: --{name} {printable(value)}: unknown; {cure}")

    def settings(self) -> dict[str, Any]:
        """The dataclass fields, as the manifest keeps them."""
        return asdict(self)

    @abstractmethod
    def missing(self, bundle: Path | None = None) -> list[Lack]:
        """What this machine lacks to run the target, all at once; empty if it is ready."""

    @abstractmethod
    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        """The target's folder: relative path -> file. `run.sh` is one of them."""

    def extension(self, options: Mapping[str, str | int]) -> str | None:
        """A folder within the target's that a run with these options needs, made by `extend`."""
        return None

    def extend(
        self, options: Mapping[str, str | int], workload: Workload, builder: Builder
    ) -> dict[str, File]:
        """The files of that folder, by their paths in it."""
        return {}

    @abstractmethod
    def metrics(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        """One dictionary for each launch, in order, of a finished run.

        Raises:
            DamagedError: the statistics do not fit the workload's launches.
        """

    def salvaged(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        """As `metrics`, of a run that was ended; it finished all of `workload`, and maybe more."""
        return self.metrics(results, workload)

    def watch(self, results: Path, workload: Workload) -> Callable[[], Progress] | None:
        """What tells how far a run has come that leaves its files in `results`, or None."""
        return None

    def whole_only(self) -> str | None:
        """Why no part of a workload can be run, and no run continued ("fact; cure"), or None."""
        return None

    def memory_nbytes(self, workload: Workload) -> int:
        """What a run takes of this machine's memory, in bytes; 0 where run.sh looks for itself."""
        return 0

    def statistics_nbytes(self, workload: Workload) -> int:
        """What a run leaves on the disk beside the tensors, in bytes, where that is much."""
        return 0

    def launches_done(self, log: str) -> int | None:
        """How many launches had ended when a run failed; None where the log does not tell, or
        where none had begun."""
        return None

    def mapped_nbytes(self, workload: Workload) -> int:
        """The size of mmap.bin that a run maps: float32 values in [0, 1), beside data.h5."""
        return 0

    def ran(self, workload: Workload, launches: int) -> tuple[tuple[int, str], ...] | None:
        """(step, kernel) of each of the `launches` that `metrics` tells of, if not the workload's.

        So it is where a library's kernels run in place of the workload's. Then a run leaves no
        outputs.bin: its results are statistics only.

        Raises:
            DamagedError: no step can be told of a launch.
        """
        return None

    def machine(self, results: Path) -> Mapping[str, str]:
        """What the results of a run tell of the machine that ran it (a GPU, a simulator)."""
        return {}

    def refusal(self, bundle: Path) -> str | None:
        """Why the bundle must not be run where it lies ("fact; cure"), or None."""
        return None

    def commands(self, bundle: Path, workload: Workload) -> Mapping[str, str]:
        """Shell command lines that run the bundle, by the way of running it."""
        return {}

    def notes(self, folder: Path, *, details: bool = False) -> list[str]:
        """What a build tells of the target's folder, in lines; with `details`, more of them."""
        return []

    def located(self, fact: str, bundle: Path, workload: Workload) -> str:
        """A diagnosis with what the bundle's sources add to it (a line of a kernel)."""
        return fact

    def diagnosis(self, log: str) -> str | None:
        """What went wrong ("fact; cure"), where the log of a failed run tells, else None."""
        return None
