"""What a run by pieces keeps until all of them have ended: `results/stopped-NAME`.

The next command of the same cut, options and build goes on with it, and so do jobs of one piece
each, on as many machines as share the folder.
"""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from simgen.ask.run import RunChoices
from simgen.bundle import pieces as files
from simgen.bundle import result_names, results, run_record
from simgen.bundle import writing as bundles
from simgen.errors import DamagedError, UsageError
from simgen.running import run_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simgen.bundle.run_record import Run
    from simgen.bundle.writing import Bundle
    from simgen.targets import Target
    from simgen.targets.base import Progress
    from simgen.workload.pieces import Piece


@dataclass
class PieceWork:
    """A run by pieces while it goes on."""

    bundle: Bundle
    target: Target
    run: Run
    environment: Mapping[str, str]
    timeout: float | None
    name: str
    cancelled: threading.Event = field(default_factory=threading.Event)
    reached: dict[int, Progress] = field(default_factory=dict)  # by piece

    @property
    def home(self) -> Path:
        """Folder of finished pieces."""
        return self.bundle.path / bundles.RESULTS / f"{bundles.STOPPED}{self.name}"

    def result_of(self, piece: Piece) -> str:
        mark = "." if result_names.MARK in self.name else result_names.MARK
        return f"{self.name}{mark}{piece.steps[0]}"


def before(work: PieceWork) -> Run | None:
    """What is kept is of this run; None where nothing is, or where it can be of no run."""
    try:
        return run_record.read_run(work.home, work.bundle.workload)
    except DamagedError:
        return None


def is_same(work: PieceWork) -> bool:
    """What is kept is of this very cut, with these options."""
    found = before(work)
    now = work.run
    return found is not None and replace(found, machine=now.machine, asked=now.asked) == now


def check_cut(work: PieceWork) -> None:
    """Refuse to remove finished pieces of this build that were cut, or set, in another way.

    Raises:
        UsageError: there are some.
    """
    found = before(work)
    if found is None or found.workload != work.run.workload or is_same(work):
        return
    count = sum(files.path(work.home, piece).exists() for piece in found.pieces)
    if count:
        ask = RunChoices
        raise UsageError(
            f"{work.name}: {count} finished piece{'' if count == 1 else 's'} of another cut or of "
            f"other options are kept; use the same {ask.jobs}, {ask.warm}, {ask.sample}, "
            f"{ask.scale_model} and options, or remove {work.home}"
        )


def finished(work: PieceWork) -> list[Piece]:
    """The pieces of this run that have files."""
    if not is_same(work):
        return []
    return [piece for piece in work.run.pieces if files.path(work.home, piece).exists()]


def prepare(work: PieceWork, pieces: Sequence[Piece]) -> list[Piece]:
    """Keep those of these pieces that an earlier command has finished; delete what is left of the
    others.

    The folder is this run's then: what it had of another one is removed.
    """
    now = work.run
    if not is_same(work):
        shutil.rmtree(work.home, ignore_errors=True)
        (work.home / files.FOLDER).mkdir(parents=True)
        run_record.write(work.home, now)
    for piece in pieces:  # a command was killed between a process's end and what follows it
        shutil.rmtree(work.bundle.path / bundles.RESULTS / work.result_of(piece), True)
        run_folder.sweep_away(work.bundle, work.result_of(piece))
    return [piece for piece in pieces if is_whole(work, piece)]


def is_whole(work: PieceWork, piece: Piece) -> bool:
    """Its file is there, and of this build; one that is damaged is removed."""
    path = files.path(work.home, piece)
    try:
        found = results.load(path, work.bundle.workload)
    except (UsageError, DamagedError):
        path.unlink(missing_ok=True)
        return False
    return found.provenance.get("workload") == work.bundle.digest
