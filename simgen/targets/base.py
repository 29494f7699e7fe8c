"""What a target is, and the table of targets.

A target is its settings and four roles (simgen.targets.roles). A file of a target imports all that
it needs for that from here. simgen/targets/null.py is a small one, to be read and copied.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ask.choice import spelled
from simgen.ask.run import RunChoices
from simgen.errors import UsageError, did_you_mean, printable, whole_number
from simgen.isa.legalise import Model, cache_policy
from simgen.targets.roles import File as File
from simgen.targets.roles import Job as Job
from simgen.targets.roles import Lack as Lack
from simgen.targets.roles import Package as Package
from simgen.targets.roles import Progress as Progress
from simgen.targets.roles import Reader as Reader
from simgen.targets.roles import Requirements as Requirements
from simgen.targets.roles import SetupStep as SetupStep
from simgen.targets.roles import Watcher as Watcher
from simgen.targets.roles import log_text as log_text

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.ground.ir import Kernel, Language, Workload

EVERYTHING = "all of it"
# Patterns of options, as gem5 writes them.
SIZE = r"[1-9]\d{0,8}([KMG]i|[kMG])B"
CLOCK = r"[1-9]\d{0,4}(\.\d{1,6})?[MG]Hz"
TARGETS: dict[str, type[Target]] = {}  # by name; importing simgen.targets fills it


def usual_targets() -> list[str]:
    """Targets that users are told of: all but examples for those who write targets."""
    return [name for name, target in TARGETS.items() if not target.example]


def setting(default: Any, text: str, choices: Iterable[str] = ()) -> Any:
    """A setting of a target: an option of `simgen build` with `text` as its help.

    `choices` that are the keys of a table are looked up when they are asked for: others may add to
    the table.
    """
    known = choices if isinstance(choices, Mapping) else tuple(choices)
    return field(default=default, metadata={"help": text, "choices": known})


def l1_setting() -> Any:
    """The setting `l1` of the targets whose GPU has such a cache."""
    text = "vector loads use the L1 cache (MGPUSim runs both the same)"
    return setting(cache_policy.CACHED, text, cache_policy.POLICIES)


def legalise_setting() -> Any:
    """The setting `legalise` of the targets whose simulator gets kernels rewritten."""
    return setting(True, "keep instructions that the simulator lacks or executes wrongly")


@dataclass(frozen=True)
class RunOption:
    """An option of `simgen run`, handed to run.sh in an environment variable."""

    variable: str
    text: str  # help
    choices: tuple[str, ...] = ()  # empty: a whole number
    least: int = 0
    pattern: str = ""  # a regular expression: a text, and all of it must match
    example: str = ""  # such a text
    several: bool = False  # may be given again; texts, one to a line
    default: str = ""  # what it is where nobody says it; empty: that depends
    # Why a text that matches is refused all the same ("fact; cure"), or nothing.
    fault: Callable[[str], str] = field(default=lambda _: "", compare=False)
    # Whether a word is an option of the program that texts are passed on to.
    passes: Callable[[str], bool] = field(default=lambda _: False, compare=False)

    @property
    def told(self) -> str:
        """Its help, with the default."""
        return f"{self.text} [default: {self.default}]" if self.default else self.text

    def read(self, text: str) -> str | int:
        """The value that `text` is.

        Raises:
            ValueError: it is none; the message is "fact; cure".
        """
        if self.choices:
            if text in self.choices:
                return text
            raise ValueError(f"{printable(text)}: unknown; {did_you_mean(text, self.choices)}")
        if self.several and "\n" in text:
            return "\n".join(str(self.read(each)) for each in text.split("\n"))
        if self.pattern:
            if not re.fullmatch(self.pattern, text, re.ASCII):
                size = re.fullmatch(r"(\d{1,9}) ?([kmg])i?b?", text, re.ASCII | re.IGNORECASE)
                meant = f"{size[1]}{size[2].upper()}iB" if size and self.pattern == SIZE else ""
                raise ValueError(f"{printable(text)}: write {meant or f'it like {self.example}'}")
            if fault := self.fault(text):
                raise ValueError(fault)
            return text
        if re.fullmatch(r"\d{1,9}", text, re.ASCII) and int(text) >= self.least:
            return int(text)
        cure = whole_number(text, f"write a whole number, {self.least} or more")
        raise ValueError(f"{printable(text)}: {cure}")


@dataclass(frozen=True)
class Target(ABC):
    """A place to run: settings in the dataclass fields, behaviour in the roles.

    Nothing here runs a workload; the `run.sh` that the package puts into a bundle does.
    """

    name: ClassVar[str]  # name of the target and of its folder
    summary: ClassVar[str]  # one line for `simgen list targets`
    example: ClassVar[bool] = False  # it runs no kernel: for those who write targets
    ends_itself: ClassVar[bool] = False  # run.sh obeys SIMGEN_TIMEOUT, and tells where it was
    simulates: ClassVar[bool] = False  # a machine of its own, which need not be here
    run_options: ClassVar[Mapping[str, RunOption]] = {}  # by name
    own_languages: ClassVar[tuple[Language, ...]] = ()  # languages of users' kernels
    own_variables: ClassVar[bool] = False  # whether tensors may stand for variables of theirs
    # Why it runs what several queues could run at once one after the other; empty: at once.
    one_queue: ClassVar[str] = "its program starts one launch after the other"
    variables: ClassVar[tuple[str, ...]] = ()  # other variables of run.sh that change results
    said_in: ClassVar[tuple[str, ...]] = ()  # variables among them that hold options

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" in cls.__dict__:
            if cls.name in TARGETS:
                raise RuntimeError(f"target {cls.name!r} is registered twice")
            TARGETS[cls.name] = cls

    def __post_init__(self) -> None:
        wrong = [f.name for f in fields(self) if type(getattr(self, f.name)) is not type(f.default)]
        if wrong:  # a manifest's settings may have wrong types
            raise TypeError(f"{self.name}: values of another type: {', '.join(wrong)}")
        for each in fields(self):
            value, choices = getattr(self, each.name), each.metadata["choices"]
            if choices and value not in choices:
                cure = did_you_mean(value, choices)
                name = each.name.replace("_", "-")
                raise UsageError(f"{self.name}: --{name} {printable(value)}: unknown; {cure}")

    @property
    def machine(self) -> str | None:
        """Name of the machine (data/machines) that kernels run on; None: there is no such one."""
        return None

    def sharing(self) -> int:
        """GPUs that share the batch, if a run does not say another number."""
        return 1

    @property
    def model(self) -> Model | None:
        """The simulated machine, as the table of simulators has it (data/isa); None: none is."""
        return None

    @classmethod
    def implied(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that a user gives, and what follows from them for those he does not."""
        return dict(settings)

    @classmethod
    def unseen(cls) -> str:
        """What of it its authors have never seen running; empty: nothing. They had no such GPU,
        disk image or runtime: it is tested as far as stand-ins for these go."""
        return ""

    @classmethod
    def variables_of_options(cls) -> list[str]:
        """Variables that tell run.sh its non-default options."""
        return [*(option.variable for option in cls.run_options.values()), *cls.said_in]

    def default(self, option: str) -> str:
        """What a run option is where nobody says it; empty where that depends on the run."""
        return self.run_options[option].default

    def settings(self) -> dict[str, Any]:
        """The dataclass fields, as the manifest keeps them."""
        return asdict(self)

    @property
    def needs(self) -> Requirements:
        """What a run needs of this machine."""
        return Requirements()

    @property
    @abstractmethod
    def package(self) -> Package:
        """What it puts into a bundle."""

    @property
    def watcher(self) -> Watcher:
        """How a run is followed, and why it has failed."""
        return Watcher()

    @property
    @abstractmethod
    def reader(self) -> Reader:
        """How results are read."""

    def unsampled(self, options: Mapping[str, str | int]) -> str | None:
        """Why a run cannot take a sample of a launch's work-groups ("fact; cure"), or None."""
        return f"it runs whole launches; use {RunChoices.target} mgpusim {spelled('mode')} timing"

    def held(self, folder: Path, kernel: Kernel, options: Mapping[str, str | int]) -> int:
        """Work-groups of a kernel that the machine of a run with these options holds at once;
        `folder` is the target's in the bundle."""
        raise NotImplementedError

    def caches_of_part(
        self, workload: Workload, options: Mapping[str, str | int], part: int
    ) -> tuple[int, int]:
        """Bytes that L2 holds, and the pages of its TLB, on a part of the machine of a run with
        these options; 8 is an eighth.

        Raises:
            UsageError: it has no such part.
        """
        raise UsageError(
            f"{RunChoices.scale_model}: {self.name}: it simulates whole machines; use "
            f"{RunChoices.target} mgpusim {spelled('mode')} timing"
        )

    def whole_only(self) -> str | None:
        """Why no part of a workload can be run, and no run continued ("fact; cure"), or None."""
        return None
