"""What lies in a bundle's results/: names of folders, and what is worth keeping.

NAME             a result: a target's, TARGET@OPTION=VALUE,... of a sweep, TARGET@LAYERS
stopped-NAME     what a run leaves that can be continued
failed-NAME      the log of one that failed
.part-NAME.PID   a run that goes on, or was killed; .part-NAME.PID.old: the result before it
.lock-NAME       see simgen.ground.storage.locks
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from simgen.bundle import result_names
from simgen.errors import DamagedError
from simgen.ground.storage import locks, seal
from simgen.ground.storage.files import PART
from simgen.tensors import state_file

RESULTS = "results"
STOPPED = "stopped-"  # begins the name of what a run leaves in results/ that can be continued
FAILED = "failed-"
UNFINISHED = re.compile(re.escape(PART) + r"(?P<name>.+)\.(?P<process>\d+)(?P<old>\.old)?")
SHOWN = 3  # names in a message


@dataclass(frozen=True)
class ResultEntry:
    """Something in results/ that nobody but its owner may remove."""

    path: Path
    name: str  # name of the result; for anything else, its own

    @property
    def words(self) -> str:
        if self.path.name == self.name:
            return f"results of {self.name}"
        return f"a stopped run of {self.name}"


def names(bundle: Path, target: str) -> list[str]:
    """Names of the results that runs of a target may have left, its own first."""
    patterns = (f"{kind}{target}{result_names.MARK}*" for kind in ("", STOPPED))
    swept = {path.name for pattern in patterns for path in (bundle / RESULTS).glob(pattern)}
    return [target, *sorted({name.removeprefix(STOPPED) for name in swept}, key=result_names.rank)]


def entries(bundle: Path) -> Iterator[ResultEntry]:
    """All that is worth keeping: not logs of failures, locks and runs without a finished layer."""
    home = bundle / RESULTS
    for path in sorted(home.iterdir() if home.is_dir() else ()):
        part = UNFINISHED.fullmatch(path.name)
        if part:
            if state_file.has_finished(path / state_file.FILE):
                yield ResultEntry(path, part["name"])
        elif not path.name.startswith((PART, FAILED, locks.RESULT)):
            yield ResultEntry(path, path.name.removeprefix(STOPPED))


def listing(found: list[ResultEntry]) -> str:
    """What there is, in words: the first few and how many more."""
    words = list(dict.fromkeys(entry.words for entry in found))
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + more


def recover(bundle: Path) -> None:
    """Give results their names that a run was killed over while it put its own in their place."""
    home = bundle / RESULTS
    for old in (None, ".old"):  # the later one first
        for folder in sorted(home.glob(f"{PART}*")):
            part = UNFINISHED.fullmatch(folder.name)
            if not part or part["old"] != old or not (folder / seal.FILE).is_file():
                continue
            place = home / part["name"]
            alive = Path("/proc", part["process"]).exists() or locks.is_running(home, place.name)
            if not alive and not place.exists():
                with contextlib.suppress(OSError, DamagedError):
                    seal.read_seal(folder)
                    folder.rename(place)
