"""How the runs of a bundle stand: those of this process, of others, and those that have ended."""

from __future__ import annotations

import contextlib
import itertools
import shlex
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from simgen.ask.run import RunChoices
from simgen.bundle import (
    commands,
    finding,
    manifest,
    pieces,
    result_folders,
    result_names,
    run_record,
    verdict_file,
)
from simgen.bundle import folder as bundles
from simgen.errors import DamagedError, UsageError
from simgen.ground.storage import locks, seal
from simgen.tensors import state_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from simgen.bundle.folder import Bundle

LOG = "log.txt"


class RunState(StrEnum):
    NOT_RUN = "not run"
    RUNNING = "running"
    STOPPED = "stopped"  # can be continued
    FAILED = "failed"
    FINISHED = "finished"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class Standing:
    """One result of a bundle, or a target of it that has none."""

    bundle: str
    result: str
    state: RunState
    steps: int | None = None  # layers and passes that are done
    of: int | None = None  # layers and passes in all
    when: str = ""  # UTC: begun, if it is running; otherwise ended
    verdict: str = ""  # for finished runs: how many steps `simgen diff` found right
    fact: str = ""  # what more there is to say
    verdicts: Mapping[str, int] = field(default_factory=dict)  # steps of each verdict

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def bundles_in(paths: Iterable[Path]) -> list[Path]:
    """The bundles at the paths, and those in folders at them.

    Raises:
        UsageError: there is none at a path.
    """
    found: dict[Path, None] = {}
    for path in paths:
        here = [path] if _is_bundle(path) else []
        if not here and path.is_dir():
            here = sorted(each for each in path.iterdir() if _is_bundle(each))
        if not here:
            fact = "no bundle here" if path.exists() else "no such folder"
            fact = manifest.other_format(path / bundles.MANIFEST) or fact
            raise UsageError(f"{path}: {fact}; make one with: simgen build")
        found |= dict.fromkeys(here)
    return list(found)


def at(path: Path) -> list[Standing]:
    """Like `of_bundle`; a damaged bundle gives a line that says so."""
    try:
        return of_bundle(bundles.load(path))
    except DamagedError as error:
        return [Standing(str(path), "", RunState.DAMAGED, fact=str(error))]


def of_bundle(bundle: Bundle) -> list[Standing]:
    """A line for each result that is there or being made, and for targets that have none."""
    found = []
    for target in bundle.targets:
        results = list(_of_target(bundle, target))
        found += results or [Standing(str(bundle.path), target, RunState.NOT_RUN)]
    return found


def _is_bundle(path: Path) -> bool:
    """Whether it is one, or was until its manifest was damaged."""
    file = path / bundles.MANIFEST
    if manifest.has_our_format(file):
        return True
    try:
        manifest.read_manifest(file)
    except (OSError, UsageError):  # there is none, or it is another program's
        return False
    except ValueError:
        return (path / bundles.WORKLOAD).is_file()
    return True


def _of_target(bundle: Bundle, target: str) -> Iterator[Standing]:
    home = bundle.path / bundles.RESULTS
    parts: dict[str, Path] = {}
    failed: dict[str, Path] = {}
    for folder in sorted(home.iterdir() if home.is_dir() else ()):
        part = result_folders.UNFINISHED.fullmatch(folder.name)
        if part and not part["old"]:
            parts[part["name"]] = folder
        elif folder.name.startswith(result_folders.FAILED):
            failed[folder.name.removeprefix(result_folders.FAILED)] = folder
    known = [*result_folders.names(bundle.path, target), *parts, *failed]
    for name in dict.fromkeys(known):
        if name.partition("@")[0] == target:
            yield from _of_result(bundle, name, parts.get(name), failed.get(name))


def _of_result(
    bundle: Bundle, name: str, part: Path | None, failed: Path | None
) -> Iterator[Standing]:
    home, path = bundle.path / bundles.RESULTS, str(bundle.path)
    whole, stopped = home / name, home / f"{result_folders.STOPPED}{name}"
    runs = locks.is_running(home, name)
    if whole.is_dir():
        yield _finished(bundle, name, whole)
    if runs:
        process = locks.holder(home / f"{locks.RESULT}{name}").strip(" ()")
        left = part or (stopped if stopped.is_dir() else None)
        done = _done(bundle, left) if left else (None, None)
        fact = process
        if part and not done[0] and done[1]:
            steps, launches = _followed(bundle, name, part)
            done = (steps, done[1])
            fact = ", ".join(filter(None, (process, launches)))
        begun = _time(part or home / f"{locks.RESULT}{name}")
        yield Standing(path, name, RunState.RUNNING, *done, begun, fact=fact)
    elif stopped.is_dir() or part:
        left = stopped if stopped.is_dir() else part
        assert left is not None
        done = _done(bundle, left)
        if done[0]:
            by_pieces = (left / pieces.FOLDER).is_dir()
            cure = f"continue: {shlex.join(_continued(bundle, name, left))}"
            cure = "the command that began it goes on" if by_pieces else cure
            yield Standing(path, name, RunState.STOPPED, *done, _time(left), fact=cure)
    if failed and not runs and not whole.is_dir():
        log = failed / LOG if failed.is_dir() else failed
        yield Standing(path, name, RunState.FAILED, when=_time(failed), fact=f"log: {log}")


def _continued(bundle: Bundle, name: str, left: Path) -> list[str]:
    target = finding.target_of(bundle, result_names.target_of(name))
    run = run_record.read_run(left, bundle.workload)
    return [*commands.run(bundle.path, target, name, run), *RunChoices(resume=True).words()]


def _finished(bundle: Bundle, name: str, folder: Path) -> Standing:
    path = str(bundle.path)
    try:
        bundle.results(name)
        run = run_record.read_run(folder, bundle.workload)
        outcomes = verdict_file.read_outcomes(folder)
    except DamagedError as error:
        return Standing(path, name, RunState.DAMAGED, fact=str(error))
    count = len(run.steps) if run else len(bundle.workload.steps)
    verdict = verdict_file.counted([*outcomes.values()]) if outcomes else verdict_file.UNCHECKED
    verdict = "right" if set(outcomes.values()) == {verdict_file.RIGHT} else verdict
    return Standing(
        path, name, RunState.FINISHED, count, count, _time(folder / seal.FILE), verdict,
        verdicts=dict(Counter(outcomes.values())),
    )  # fmt: skip


def _done(bundle: Bundle, folder: Path) -> tuple[int | None, int | None]:
    """Steps that are done, and all that the run is about; None where it does not tell."""
    try:
        run = run_record.read_run(folder, bundle.workload)
    except DamagedError:
        return None, None
    if run is None:
        return None, None
    if run.pieces:
        there = (piece for piece in run.pieces if pieces.path(folder, piece).exists())
        return sum(len(piece.steps) for piece in there), len(run.steps)
    marked = state_file.finished(folder / state_file.FILE, bundle.workload)
    return min(marked, len(run.steps)), len(run.steps)


def _followed(bundle: Bundle, name: str, part: Path) -> tuple[int, str]:
    """Steps that are done, and "3 of 8 launches", by what a simulator tells that marks no steps."""
    try:
        target = finding.target_of(bundle, result_names.target_of(name))
        run = run_record.read_run(part, bundle.workload)
    except DamagedError:
        return 0, ""
    look = target.watcher.watch(part, bundle.workload)
    if look is None or run is None or run.pieces:
        return 0, ""
    steps = [bundle.workload.steps[at] for at in run.steps]
    ends = list(itertools.accumulate(len(step.launches) for step in steps))
    ended = min(look().launches, ends[-1] if ends else 0)
    return sum(end <= ended for end in ends), f"{ended} of {ends[-1]} launches" if ended else ""


def _time(path: Path) -> str:
    with contextlib.suppress(OSError):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    return ""
