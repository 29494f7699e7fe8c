"""Kernels of forms on a machine, until nothing in them ends it any more.

A unit is a file of some kernels, in a process of its own (simgen_examine/templates/ptx_probe.py).
Where the machine refuses a file, its words name lines: those kernels are left out, or the file is
halved until a kernel is alone. Where a process ends, the kernel that was started last ended it;
those behind it become a new unit. What a machine lacks an opcode for, or ends at whatever the
values are, it is taken to lack and to end at with other operands, too.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from simgen.errors import MissingError, RunError
from simgen.ground.storage.files import read_regular
from simgen_examine import HERE
from simgen_examine.conform import judging, values
from simgen_examine.conform.judging import Found, Seen
from simgen_examine.conform.ptx import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from simgen_examine.conform.ptx.forms import PtxForm

LAUNCHER = "ptx_probe.py"
REFUSED = 7  # the launcher's code for a text that is not taken
MOST_ROUNDS = 400
GONE = (Found.MISSING, Found.ENDS)
DIES = "it dies of "  # a signal, for which values may be to blame: divisors that are zero
MOST_LOG = 1 << 26
MOST_SAID = 160  # characters of a machine's words
_LINE = re.compile(r"(?:line |\.ptx:)(\d+)[;:) ]")


class Runs(Protocol):
    """Where kernels run."""

    @property
    def name(self) -> str:
        """Name of the launcher's class."""
        ...

    @property
    def library(self) -> str:
        """Name of the library that it loads."""
        ...

    @property
    def unit(self) -> int:
        """Kernels of a file, at most."""
        ...

    @property
    def processes(self) -> int:
        """At a time."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of the launcher."""
        ...

    def prepare(self, folder: Path, arch: str) -> None:
        """Puts what a unit's process needs into its folder, where kernels.ptx lies."""

    def said(self, log: str) -> str:
        """The machine's last words."""
        ...

    def lacks(self, log: str) -> bool:
        """Whether these say that it has no code for an instruction."""
        ...


@dataclass
class PtxProbe:
    """All forms of a machine's architecture, tried."""

    machine: Runs
    arch: str
    forms: Sequence[PtxForm]
    limit: float  # seconds without progress
    tell: Callable[[str], None]
    seen: dict[int, Seen] = field(default_factory=dict)
    seconds: float = 0.0
    rounds: int = 0
    _given: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)

    def findings(self, place: Path) -> list[Seen]:
        """Findings for each form; units lie in `place`.

        Raises:
            MissingError: the machine does not start.
            RunError: it fails without a form being to blame.
        """
        self._inputs(place)
        firsts: dict[str, int] = {}
        for at, form in enumerate(self.forms):
            firsts.setdefault(form.kin, at)
        self._tried(sorted(firsts.values()), place)
        for at, form in enumerate(self.forms):
            first = self.seen[firsts[form.kin]]
            if at not in self.seen and first.found in GONE and DIES not in first.reason:
                self.seen[at] = Seen(form, first.found, f"{first.reason}; as the first of it")
        self._tried([at for at in range(len(self.forms)) if at not in self.seen], place)
        return [self.seen[at] for at in range(len(self.forms))]

    def _tried(self, numbers: Sequence[int], place: Path) -> None:
        """Forms, by number, until each was seen."""
        size = self.machine.unit
        todo = [list(numbers[at : at + size]) for at in range(0, len(numbers), size)]
        while todo:
            if self.rounds == MOST_ROUNDS:
                raise RunError(
                    f"{self.machine.name}: {MOST_ROUNDS} runs ended early; try fewer forms with "
                    "--only"
                )
            todo = self._round(todo, place, self.rounds)
            self.rounds += 1

    def _inputs(self, place: Path) -> None:
        """Write each signature's inputs once, in one file."""
        at = 0
        with (place / "inputs.bin").open("wb") as file:
            for form in self.forms:
                if form.signature not in self._given:
                    data = kernels.inputs(form.signature)[: kernels.PLANE * len(form.signature)]
                    self._given[form.signature] = (at, len(data))
                    at += file.write(data)

    def _round(self, todo: list[list[int]], place: Path, turn: int) -> list[list[int]]:
        """Tries units; those that are to be tried then."""
        folders, starts = [], []
        for n, unit in enumerate(todo):
            folder = place / f"{turn}-{n}"
            folder.mkdir()
            names = [name_of(at) for at in unit]
            text, begins = kernels.module(names, [self.forms[at] for at in unit], self.arch)
            (folder / "kernels.ptx").write_text(text)
            (folder / "kernels.json").write_text(json.dumps([self._launch(at) for at in unit]))
            self.machine.prepare(folder, self.arch)
            folders.append(folder)
            starts.append(begins)
        codes = self._launched(place, folders)
        found: list[list[int]] = []
        for unit, folder, begins in zip(todo, folders, starts, strict=True):
            found += self._after(unit, folder, begins, codes[str(folder)])
        return found

    def _launch(self, at: int) -> dict[str, object]:
        form = self.forms[at]
        start, nbytes = self._given[form.signature]
        return {
            "name": name_of(at), "at": start, "nbytes": nbytes, "planes": len(form.results),
            "grid": form.grid, "block": form.block,
        }  # fmt: skip

    def _launched(self, place: Path, folders: Sequence[Path]) -> Mapping[str, object]:
        job = {
            "machine": self.machine.name, "library": self.machine.library,
            "inputs": str(place / "inputs.bin"), "plane": kernels.PLANE, "kept": kernels.KEPT,
            "most_sources": max(len(form.signature) for form in self.forms) or 1,
            "most_results": 1 + max(len(form.results) for form in self.forms),
            "units": list(map(str, folders)), "processes": self.machine.processes,
            "limit": self.limit, "arch": self.arch,
        }  # fmt: skip
        (place / "job.json").write_text(json.dumps(job))
        launcher = HERE / "templates" / LAUNCHER
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, str(launcher), str(place / "job.json")], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, env=dict(self.machine.environment),
        )  # fmt: skip
        self.seconds += time.monotonic() - start
        try:
            codes: Mapping[str, object] = json.loads(done.stdout)
        except ValueError:
            said = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
            raise MissingError(f"{self.machine.name}: no run ({said})") from None
        return codes

    def _after(
        self, unit: list[int], folder: Path, begins: Sequence[int], code: object
    ) -> list[list[int]]:
        """What a unit's process found, and what is left to try."""
        log = read_regular(folder / "log", MOST_LOG).decode(errors="replace")
        if code == REFUSED:
            return self._refused(unit, log, begins)
        started = (folder / "done").exists()  # the text was taken
        done = read_regular(folder / "done", MOST_LOG).decode().split() if started else []
        left = np.fromfile(folder / "results.bin", np.uint32) if done else np.zeros(0, np.uint32)
        first = 0
        for at in unit[: len(done)]:
            count = len(self.forms[at].results) * kernels.PLANE // 4
            self._judge(at, left[first : first + count])
            first += count
        rest = unit[len(done) :]
        if not rest:
            return []
        if code == 0:
            raise RunError(f"{self.machine.name}: kernels are missing and nothing is to blame")
        said = "it hangs" if code == "late" else self.machine.said(log)
        if isinstance(code, int) and code < 0 and -code != signal.SIGABRT:
            said = f"{DIES}{signal.Signals(-code).name}"
        if not started:  # it ended at the text
            return self._refused(unit, log, begins)
        self._blame(rest[0], Found.MISSING if self.machine.lacks(log) else Found.ENDS, said)
        return [rest[1:]] if rest[1:] else []

    def _refused(self, unit: list[int], log: str, begins: Sequence[int]) -> list[list[int]]:
        lines = [(int(found[1]), found) for found in _LINE.finditer(log)]
        guilty = {bisect_right(begins, line) - 1: found for line, found in lines}
        guilty.pop(-1, None)
        if len(unit) == 1:
            guilty = {0: None}  # type: ignore[dict-item]
        if not guilty:
            return [unit[: len(unit) // 2], unit[len(unit) // 2 :]]
        for which, found in guilty.items():
            said = self.machine.said(log) if found is None else _line_of(log, found)
            self._blame(unit[which], Found.MISSING, f"not accepted: {said}")
        rest = [at for n, at in enumerate(unit) if n not in guilty]
        return [rest] if rest else []

    def _blame(self, at: int, found: Found, why: str) -> None:
        self.tell(f"{why}; seen at {self.forms[at].text}"[:200])
        self.seen[at] = Seen(self.forms[at], found, why[:MOST_SAID])

    def _judge(self, at: int, left: np.ndarray) -> None:
        form = self.forms[at]
        given = values.tuples(form.signature)
        self.seen[at] = judging.judged(form, kernels.words(form, left), given)


def name_of(at: int) -> str:
    """A form's kernel."""
    return f"conform_{at}"


def _line_of(log: str, found: re.Match[str]) -> str:
    """The words of the line that a match lies in, behind the place."""
    end = log.find("\n", found.start())
    start = log.rfind("\n", 0, found.start()) + 1
    line = log[start : end if end >= 0 else None]
    return line.partition("error")[2].strip(" :") or "syntax error"
