"""What a run does and what it continues: `run.json`, beside what its program leaves."""

from __future__ import annotations

import itertools
import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from simgen.ask.run import RunCommand
from simgen.errors import DamagedError, UsageError, printable
from simgen.ground.storage import schema
from simgen.ground.storage.files import read_regular, write_atomic
from simgen.ground.storage.schema import SchemaError, Within, from_json
from simgen.workload.pieces import Piece  # noqa: TC001 - a schema's types are read when it is used
from simgen.workload.samples import Sample  # noqa: TC001 - as above

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.ground.ir import Workload

FILE = "run.json"
MAX_NBYTES = 2**28  # size limit of the file; metrics of a million launches take less

Index = Annotated[int, Within(0, 2**31)]
Metrics = Mapping[str, Annotated[float, Within(0)]]


@dataclass(frozen=True)
class Run:
    """What the result in a folder is about."""

    workload: str  # digest
    settings: Mapping[str, Any]  # settings of the target
    variables: Mapping[str, str]  # environment variables that change results
    steps: tuple[Index, ...]  # indices of the steps that are run, in order
    layers: str = ""  # as the user named them; empty: all
    inputs: str = ""  # where the tensors come from that the steps read and none of them writes
    finished: Mapping[str, Metrics] | None = None  # launch -> metrics, of earlier times
    resumed: tuple[Index, ...] = ()  # how many launches were finished, each time it was continued
    machine: Mapping[str, str] = field(default_factory=dict)  # where it began
    # For a run by pieces, a process each, which begin with the reference's tensors:
    pieces: tuple[Piece, ...] = ()
    inferred: tuple[tuple[Index, Index], ...] = ()  # (launch, the one that stands for it)
    samples: tuple[Sample, ...] = ()  # samples of launches' work-groups
    asked: Mapping[str, Any] = field(default_factory=dict)  # RunCommand.to_json
    simgen: str = ""  # version that ran it

    @property
    def choices(self) -> RunCommand:
        """What the user asked for."""
        return RunCommand.from_json(self.asked)


def read_run(folder: Path, workload: Workload) -> Run | None:
    """The run of a results folder of the workload; None where run.sh was started by hand.

    Raises:
        DamagedError: the file is not what was written.
    """
    path = folder / FILE
    try:
        run = from_json(Run, schema.parse(read_regular(path, MAX_NBYTES)))
        _check(run, workload)
        _ = run.choices
        return run
    except FileNotFoundError:
        return None
    except (OSError, SchemaError, UsageError) as error:
        fact = getattr(error, "strerror", None) or error
        raise DamagedError(f"{path}: damaged ({fact}); run it again") from None


def _check(run: Run, workload: Workload) -> None:
    """Raise SchemaError unless it tells of steps and launches of the workload."""
    steps = run.steps
    ordered = all(before < after for before, after in itertools.pairwise(steps))
    if not steps or not ordered or steps[-1] >= len(workload.steps):
        raise SchemaError("not steps of the workload in their order").under("Run.steps")
    _check_pieces(run)
    count = len(workload.launches)
    if any(max(pair) >= count for pair in run.inferred):
        raise SchemaError("not launches of the workload").under("Run.inferred")
    check_samples(run.samples, workload, "Run.samples")
    for name in run.finished or {}:
        if not re.fullmatch(r"0|[1-9]\d{0,9}", name, re.ASCII) or int(name) >= count:
            fact = f"{printable(name)} is not a launch of the workload"
            raise SchemaError(fact).under("Run.finished")


def check_samples(samples: Sequence[Sample], workload: Workload, place: str) -> None:
    """Raise SchemaError unless they are of launches of the workload, one of each at most."""
    launches = workload.launches
    known = {each.launch for each in samples}
    if len(known) < len(samples) or any(at >= len(launches) for at in known):
        raise SchemaError("not launches of the workload").under(place)
    if len({each.part for each in samples}) > 1:
        raise SchemaError("samples of several parts of the machine").under(place)
    if any(not each.fits(launches[each.launch].grid) for each in samples):
        raise SchemaError("not work-groups of a launch").under(place)


def _check_pieces(run: Run) -> None:
    if not run.pieces:
        return
    for piece in run.pieces:
        steps = piece.all
        ordered = all(before < after for before, after in itertools.pairwise(steps))
        if not piece.steps or not ordered or steps[0] < 0:
            raise SchemaError("not steps in their order").under("Run.pieces")
    if tuple(at for piece in run.pieces for at in piece.steps) != run.steps:
        raise SchemaError("not the steps that ran").under("Run.pieces")


def machine() -> dict[str, str]:
    """The machine that this process runs on."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cpus": str(len(os.sched_getaffinity(0))),
    }


def part(workload: Workload, steps: Sequence[int]) -> Workload:
    """The workload with some of its steps."""
    return replace(workload, steps=tuple(workload.steps[at] for at in steps))


def names(workload: Workload, steps: Sequence[int]) -> list[str]:
    """What these steps are called, "LAYER PASS"."""
    return [f"{workload.steps[at].layer} {workload.steps[at].direction}" for at in steps]


def todo(workload: Workload, run: Run) -> list[int]:
    """The steps whose launches have no metrics from earlier times."""
    firsts = workload.first_launches
    return [at for at in run.steps if str(firsts[at]) not in (run.finished or {})]


def write(folder: Path, run: Run) -> None:
    write_atomic(folder / FILE, (json.dumps(asdict(run)) + "\n").encode())


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()
