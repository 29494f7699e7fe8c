"""What a run does and what it continues: `run.json` in its folder, beside what its program leaves.

A run that is ended leaves its folder, `results/stopped-NAME`, where a step was finished; one that
is killed leaves `results/.part-NAME.PID`. Either can be continued: `state.bin` has the tensors of
the finished steps, and the metrics of their launches go into `run.json` before the program starts
again. What the program left before lies in `earlier/`, a folder for each time.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from simgen.bundle import writing as bundles
from simgen.errors import DamagedError, MissingError, UsageError, printable
from simgen.storage import schema
from simgen.storage.files import PART, read_regular, write_atomic
from simgen.storage.schema import SchemaError, Within, from_json
from simgen.tensors import state_file
from simgen.tensors.state_file import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simgen.bundle.writing import Bundle
    from simgen.ir import Workload
    from simgen.targets import Target

FILE = "run.json"
EARLIER = "earlier"
START = ".start-"  # in the name of a folder in which no program has begun
MAX_NBYTES = 2**28  # of the file; metrics of a million launches take less

Index = Annotated[int, Within(0, 2**31)]
Metrics = Mapping[str, Annotated[float, Within(0)]]


@dataclass(frozen=True)
class Run:
    """What the result in a folder is about."""

    workload: str  # digest
    settings: Mapping[str, Any]  # of the target
    variables: Mapping[str, str]  # of the environment, that change results
    steps: tuple[Index, ...]  # that are run, in order
    layers: str = ""  # as --layers named them; empty: all
    inputs: str = ""  # where the tensors come from that the steps read and none of them writes
    finished: Mapping[str, Metrics] | None = None  # launch -> metrics, of earlier times
    resumed: tuple[Index, ...] = ()  # how many launches were finished, each time it was continued
    machine: Mapping[str, str] = field(default_factory=dict)  # where it began


@dataclass(frozen=True)
class Start:
    """A folder in which a run is about to begin."""

    folder: Path
    result: str  # name of the result
    run: Run
    todo: Workload  # the workload with the steps that are left
    whole: Workload


def read(folder: Path, workload: Workload) -> Run | None:
    """The run of a results folder of the workload; None where run.sh was started by hand.

    Raises:
        DamagedError: the file is not what was written.
    """
    path = folder / FILE
    try:
        run = from_json(Run, schema.parse(read_regular(path, MAX_NBYTES)))
        _check(run, workload)
        return run
    except FileNotFoundError:
        return None
    except (OSError, SchemaError) as error:
        fact = getattr(error, "strerror", None) or error
        raise DamagedError(f"{path}: damaged ({fact}); run it again") from None


def _check(run: Run, workload: Workload) -> None:
    """Raise SchemaError unless it tells of steps and launches of the workload."""
    steps = run.steps
    ordered = all(before < after for before, after in itertools.pairwise(steps))
    if not steps or not ordered or steps[-1] >= len(workload.steps):
        raise SchemaError("not steps of the workload in their order").under("Run.steps")
    count = len(workload.launches)
    for name in run.finished or {}:
        if not re.fullmatch(r"0|[1-9]\d{0,9}", name, re.ASCII) or int(name) >= count:
            fact = f"{printable(name)} is no launch of the workload"
            raise SchemaError(fact).under("Run.finished")


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


def todo(workload: Workload, run: Run) -> list[int]:
    """The steps whose launches have no metrics from earlier times."""
    firsts = first_launches(workload)
    return [at for at in run.steps if str(firsts[at]) not in (run.finished or {})]


def first_launches(workload: Workload) -> list[int]:
    """Of each step, the index of its first launch in the workload."""
    firsts, at = [], 0
    for step in workload.steps:
        firsts.append(at)
        at += len(step.launches)
    return firsts


def begin(
    bundle: Bundle,
    target: Target,
    result: str,
    environment: Mapping[str, str],
    steps: Sequence[int] | None = None,
    *,
    layers: str = "",
    inputs: str = "",
) -> Start:
    """A new folder for a run of all steps, or of some.

    Raises:
        MissingError: the bundle's folder cannot be written.
    """
    workload = bundle.workload
    chosen = tuple(range(len(workload.steps)) if steps is None else steps)
    variables = _variables(target, environment)
    run = Run(bundle.digest, target.settings(), variables, chosen, layers, inputs)
    run = replace(run, machine=machine())
    folder = bundle.path / bundles.RESULTS / f"{PART}{result}{START}{os.getpid()}"
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _write(folder, run)
    except OSError as error:
        raise MissingError(
            f"results: the folder cannot be written ({error.strerror}); "
            "make the bundle's folder writable"
        ) from None
    return Start(folder, result, run, part(workload, chosen), workload)


def discard(start: Start) -> None:
    """Remove the folder of a run that never began; run.sh renames it as it begins."""
    if START in start.folder.name:  # and not one that was stopped
        shutil.rmtree(start.folder, ignore_errors=True)


def stopped(bundle: Bundle, result: str) -> Path | None:
    """The folder of a run that can be continued: the one in which most steps are finished.

    Raises:
        UsageError: run.sh is gone, and a process that it started still works there.
    """
    best: tuple[int, Path] | None = None
    for folder in _left_over(bundle, result):
        run = None if _runs(folder) else _of_this(bundle, folder)
        count = state_file.finished(folder / state_file.FILE, bundle.workload) if run else 0
        if count and (best is None or count > best[0]):
            best = (count, folder)
    if best is None:
        return None
    process = _worker(best[1])
    if process:
        raise UsageError(
            f"{best[1]}: process {process} still works in it; wait for its end, or end it"
        )
    return best[1]


def results_stopped(bundle: Bundle, target: str) -> list[str]:
    """Names of the results of a target that runs were ended on, its own first."""
    names = {_result_of(folder.name) for folder in _left_over(bundle, target, parts=True)}
    return sorted(name for name in names if stopped(bundle, name))


def resume(
    bundle: Bundle, target: Target, result: str, environment: Mapping[str, str]
) -> tuple[Start, dict[str, str]]:
    """Make the folder of a stopped run ready to go on; also the variables that it had.

    Raises:
        UsageError: there is none, a process works in it, or `environment` has other variables.
        DamagedError: what it left cannot be used.
    """
    workload = bundle.workload
    folder = stopped(bundle, result)
    if folder is None:
        kept = ", and with --keep yes to go on later" if "keep" in target.run_options else ""
        raise UsageError(
            f"--resume: {bundle.path} has no run on {result} that was stopped after a finished "
            f"layer; run it without --resume{kept}"
        )
    run = read(folder, workload)
    assert run is not None
    _check_variables(run, _variables(target, environment))
    identity = bytes.fromhex(bundle.manifest["data"]["id"])
    marks = state_file.read(folder / state_file.FILE, workload, identity)
    finished = dict(run.finished or {})
    new = [at for at in todo(workload, run) if marks[at] is Mark.FINISHED]
    finished |= _salvage(target, folder, workload, new)
    run = replace(run, finished=finished, resumed=(*run.resumed, len(finished)))
    if not todo(workload, run):  # ended while it wrote its result: the last step once more
        last = first_launches(workload)[run.steps[-1]]
        run = replace(run, finished={n: m for n, m in finished.items() if int(n) < last})
    left = todo(workload, run)
    state_file.mark(
        folder / state_file.FILE,
        [Mark.TO_RUN if at in left else mark for at, mark in enumerate(marks)],
    )
    _write(folder, run)
    _put_aside(folder)
    return Start(folder, result, run, part(workload, left), workload), dict(run.variables)


def _variables(target: Target, environment: Mapping[str, str]) -> dict[str, str]:
    names = [option.variable for option in target.run_options.values()]
    known = {**os.environ, **environment}
    return {name: known[name] for name in (*names, *target.variables) if known.get(name)}


def _check_variables(run: Run, now: Mapping[str, str]) -> None:
    for name, value in now.items():
        before = run.variables.get(name)
        if before != value:
            fact = f"the stopped run had {before or 'none'}"
            raise UsageError(
                f"--resume: {name} is {value}, and {fact}; leave it as it was, or run it anew "
                "without --resume"
            )


def _salvage(
    target: Target, folder: Path, workload: Workload, steps: Sequence[int]
) -> dict[str, Mapping[str, float]]:
    """The metrics of the launches of finished steps, as long as there are any."""
    if not steps:
        return {}
    firsts = first_launches(workload)
    places = [firsts[at] + i for at in steps for i in range(len(workload.steps[at].launches))]
    found = target.reader.salvaged(folder, part(workload, steps))
    kept = dict(zip(places, found, strict=False))
    whole = [
        at
        for at in steps
        if all(firsts[at] + i in kept for i in range(len(workload.steps[at].launches)))
    ]
    wanted = {firsts[at] + i for at in whole for i in range(len(workload.steps[at].launches))}
    return {str(place): metrics for place, metrics in kept.items() if place in wanted}


def _write(folder: Path, run: Run) -> None:
    write_atomic(folder / FILE, (json.dumps(asdict(run)) + "\n").encode())


def _put_aside(folder: Path) -> None:
    """What the program has left moves to a folder of its own."""
    kept = {state_file.FILE, FILE, EARLIER}
    files = [path for path in folder.iterdir() if path.name not in kept]
    if not files:
        return
    count = len(list((folder / EARLIER).glob("*")))
    aside = folder / EARLIER / str(count + 1)
    aside.mkdir(parents=True)
    for path in files:
        path.rename(aside / path.name)


def _left_over(bundle: Bundle, result: str, *, parts: bool = False) -> Iterator[Path]:
    """Folders that runs of a result have left; with `parts`, of its sweeps and parts too."""
    home = bundle.path / bundles.RESULTS
    name = re.escape(result) + (r"(@[^/]*)?" if parts else "")
    pattern = re.compile(rf"{bundles.STOPPED}{name}|{re.escape(PART)}{name}\.\d+")
    for folder in sorted(home.iterdir() if home.is_dir() else ()):
        if pattern.fullmatch(folder.name) and folder.is_dir():
            yield folder


def _result_of(folder: str) -> str:
    if folder.startswith(bundles.STOPPED):
        return folder.removeprefix(bundles.STOPPED)
    return folder.removeprefix(PART).rpartition(".")[0]


def _of_this(bundle: Bundle, folder: Path) -> Run | None:
    """The run of a folder, where it is one of this bundle as it is now."""
    try:
        run = read(folder, bundle.workload)
    except DamagedError:
        return None
    target = _result_of(folder.name).partition("@")[0]
    same = run and run.workload == bundle.digest and run.settings == bundle.targets.get(target)
    return run if same else None


def _worker(folder: Path) -> int | None:
    """A process that works in the folder, or has a file of it open; of this user's."""
    home = str(folder.resolve())
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [process / "cwd", *(process / "fd").iterdir()]
        except OSError:  # another user's, or gone
            continue
        for link in links:
            try:
                place = os.readlink(link)
            except OSError:
                continue
            if place == home or place.startswith(home + "/"):
                return int(process.name)
    return None


def sweep_away(bundle: Bundle, result: str) -> None:
    """Remove what killed runs of a result have left that cannot be continued."""
    for folder in _left_over(bundle, result):
        if folder.name.startswith(PART) and not _worker(folder) and not _runs(folder):
            run = _of_this(bundle, folder)
            if not run or not state_file.finished(folder / state_file.FILE, bundle.workload):
                shutil.rmtree(folder, ignore_errors=True)
    for folder in (bundle.path / bundles.RESULTS).glob(f"{PART}*{START}*"):
        if not Path("/proc", folder.name.rpartition("-")[2]).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _runs(folder: Path) -> bool:
    """Whether the run.sh that made a folder `.part-NAME.PID` is still there."""
    try:
        command = Path("/proc", folder.name.rpartition(".")[2], "cmdline").read_bytes()
    except OSError:
        return False
    return folder.name.startswith(PART) and b"run.sh" in command


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()
