"""Folders that runs begin in, leave and go on from.

A run that is ended leaves its folder, `results/stopped-NAME`, where a step was finished; one that
is killed leaves `results/.part-NAME.PID`. Either can be continued: `state.bin` has the tensors of
the finished steps, and the metrics of their launches go into `run.json` before the program starts
again. What the program left before lies in `earlier/`, a folder for each time.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.ask.choice import spelled
from simgen.ask.run import RunChoices, RunCommand
from simgen.bundle import run_record
from simgen.bundle import writing as bundles
from simgen.bundle.run_record import Run
from simgen.errors import DamagedError, MissingError, UsageError, cure_of
from simgen.ground.storage.files import PART
from simgen.ground.version import version
from simgen.tensors import state_file
from simgen.tensors.state_file import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simgen.bundle.writing import Bundle
    from simgen.ground.ir import Workload
    from simgen.targets import Target
    from simgen.workload.samples import Sample

EARLIER = "earlier"
START = ".start-"  # in the name of a folder in which no program has begun


@dataclass(frozen=True)
class Start:
    """A folder in which a run is about to begin."""

    folder: Path
    result: str  # name of the result
    run: Run
    todo: Workload  # the workload with the steps that are left
    whole: Workload


def begin(
    bundle: Bundle,
    target: Target,
    result: str,
    environment: Mapping[str, str],
    steps: Sequence[int] | None = None,
    *,
    layers: str = "",
    inputs: str = "",
    samples: Sequence[Sample] = (),
    asked: RunCommand | None = None,
) -> Start:
    """A new folder for a run of all steps, or of some; of launches with a sample, of that alone.

    Raises:
        MissingError: the bundle's folder cannot be written.
    """
    workload = bundle.workload
    chosen = range(len(workload.steps)) if steps is None else steps
    run = record(bundle, target, environment, chosen, layers, inputs, asked)
    run = replace(run, samples=tuple(samples))
    here = f"{platform.node()}-{os.getpid()}"
    folder = bundle.path / bundles.RESULTS / f"{PART}{result}{START}{here}"
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        run_record.write(folder, run)
    except OSError as error:
        raise MissingError(
            f"results: the folder cannot be written ({error.strerror}); "
            + cure_of(error, "make the bundle's folder writable")
        ) from None
    return Start(folder, result, run, run_record.part(workload, run.steps), workload)


def record(
    bundle: Bundle,
    target: Target,
    environment: Mapping[str, str],
    steps: Sequence[int],
    layers: str,
    inputs: str,
    asked: RunCommand | None,
) -> Run:
    """What a run of these steps is about, on this machine."""
    variables = _variables(target, environment)
    run = Run(bundle.digest, target.settings(), variables, tuple(steps), layers, inputs)
    told = asked.to_json() if asked else {}
    return replace(run, machine=run_record.machine(), asked=told, simgen=version(exactly=True))


def discard(start: Start) -> None:
    """Remove the folder of a run that never began; run.sh renames it as it begins."""
    if START in start.folder.name:  # False for a stopped run
        shutil.rmtree(start.folder, ignore_errors=True)


def left(bundle: Bundle, result: str) -> Path | None:
    """The folder that a run has left, of several the one in which most steps are finished; a
    process of the run may still work there."""
    best: tuple[int, Path] | None = None
    for folder in _left_over(bundle, result):
        run = None if _runs(folder) else _of_this(bundle, folder)
        count = state_file.finished(folder / state_file.FILE, bundle.workload) if run else 0
        if count and (best is None or count > best[0]):
            best = (count, folder)
    return best and best[1]


def stopped(bundle: Bundle, result: str) -> Path | None:
    """The folder of a run that can be continued.

    Raises:
        UsageError: run.sh is gone, and a process that it started still works there.
    """
    folder = left(bundle, result)
    process = folder and worker(folder)
    if process:
        raise UsageError(
            f"{folder}: process {process} still works in it; wait until it ends, or stop it"
        )
    return folder


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
        keep = f", and with {spelled('keep')} yes to go on later"
        kept = keep if "keep" in target.run_options else ""
        raise UsageError(
            f"{RunChoices.resume}: {bundle.path} has no run on {result} that was stopped after a "
            f"finished layer; run it without {RunChoices.resume}{kept}"
        )
    run = run_record.read_run(folder, workload)
    assert run is not None
    _check_variables(run, _variables(target, environment))
    identity = bytes.fromhex(bundle.manifest["data"]["id"])
    marks = state_file.read_marks(folder / state_file.FILE, workload, identity)
    finished = dict(run.finished or {})
    new = [at for at in run_record.todo(workload, run) if marks[at] is Mark.FINISHED]
    finished |= _salvage(target, folder, workload, new)
    run = replace(run, finished=finished, resumed=(*run.resumed, len(finished)))
    if not run_record.todo(
        workload, run
    ):  # ended while it wrote its result: the last step once more
        last = workload.first_launches[run.steps[-1]]
        run = replace(run, finished={n: m for n, m in finished.items() if int(n) < last})
    left = run_record.todo(workload, run)
    state_file.mark(
        folder / state_file.FILE,
        [Mark.TO_RUN if at in left else mark for at, mark in enumerate(marks)],
    )
    run_record.write(folder, run)
    _put_aside(folder)
    return Start(folder, result, run, run_record.part(workload, left), workload), dict(
        run.variables
    )


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
                f"{RunChoices.resume}: {name} is {value}, and {fact}; leave it as it was, or run "
                f"it again without {RunChoices.resume}"
            )


def _salvage(
    target: Target, folder: Path, workload: Workload, steps: Sequence[int]
) -> dict[str, Mapping[str, float]]:
    """The metrics of the launches of finished steps, as long as there are any."""
    if not steps:
        return {}
    firsts = workload.first_launches
    places = [firsts[at] + i for at in steps for i in range(len(workload.steps[at].launches))]
    found = target.reader.salvaged(folder, run_record.part(workload, steps))
    kept = dict(zip(places, found, strict=False))
    whole = [
        at
        for at in steps
        if all(firsts[at] + i in kept for i in range(len(workload.steps[at].launches)))
    ]
    wanted = {firsts[at] + i for at in whole for i in range(len(workload.steps[at].launches))}
    return {str(place): metrics for place, metrics in kept.items() if place in wanted}


def _put_aside(folder: Path) -> None:
    """What the program has left moves to a folder of its own."""
    kept = {state_file.FILE, run_record.FILE, EARLIER}
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
        run = run_record.read_run(folder, bundle.workload)
    except DamagedError:
        return None
    target = _result_of(folder.name).partition("@")[0]
    same = run and run.workload == bundle.digest and run.settings == bundle.targets.get(target)
    return run if same else None


def worker(folder: Path) -> int | None:
    """Another process that works in the folder, or has a file of it open; of this user's.

    This one may have a file open too, where ^C came while it looked how far the run is.
    """
    home = str(folder.resolve())
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
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
        if folder.name.startswith(PART) and not worker(folder) and not _runs(folder):
            run = _of_this(bundle, folder)
            if not run or not state_file.finished(folder / state_file.FILE, bundle.workload):
                shutil.rmtree(folder, ignore_errors=True)
    home = bundle.path / bundles.RESULTS
    replaced = re.compile(rf"{re.escape(f'{PART}{result}.')}(\d+)\.old")
    for folder in home.iterdir() if bundle.has(result) else ():
        match = replaced.fullmatch(folder.name)
        if match and not Path("/proc", match[1]).exists():
            shutil.rmtree(folder, ignore_errors=True)
    for folder in home.glob(f"{PART}*{START}*"):
        machine, _, process = folder.name.partition(START)[2].rpartition("-")
        if machine == platform.node() and not Path("/proc", process).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _runs(folder: Path) -> bool:
    """Whether the run.sh that made a folder `.part-NAME.PID` is still there."""
    try:
        command = Path("/proc", folder.name.rpartition(".")[2], "cmdline").read_bytes()
    except OSError:
        return False
    return folder.name.startswith(PART) and b"run.sh" in command
