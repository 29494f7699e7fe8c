"""Forms on gem5, which names no instruction when it ends: units of forms, each in a process.

A unit is a kernel. Of one that ends its process, the forms that were last executed become units of
one form each, and the others go on in smaller ones, until each form was seen to the end or was
alone when gem5 ended. Forms that one function of gem5 serves (a control of SDWA or DPP, loads of
several widths) wait for the first of them, and share its fate.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from simgen.ask.checks import ConformChoices
from simgen.errors import MissingError, RefusedError, RunError
from simgen.ground.storage.files import read_regular
from simgen.isa.legalise import facts
from simgen.targets.base import log_text
from simgen.targets.gem5.forked import Forked
from simgen.targets.gem5.launcher import NAME as GEM5
from simgen.targets.gem5.se import Gem5Package, Gem5Se
from simgen_examine.conform import bundling, description, judging
from simgen_examine.conform.judging import Found, Seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from simgen_examine.conform.bundling import Batch
    from simgen_examine.conform.forms import Form

    Runs = Callable[[Path, float], tuple[int, str]]  # a bundle, seconds -> exit code, last words

MOST_ROUNDS = 60
MOST_NBYTES = 2 << 20  # limit of a unit's results
MOST_SUSPECTS = 12  # suspects of a unit that are tried alone, at most
MOST_LOG = 1 << 26
MOST_SECONDS = 1e6  # seconds of all units of a round, at most
STUCK = 20  # limits of real time that a unit takes at most (gem5_forks.py)
HALF_MIRROR = "row_half_mirror"
_EXECUTED = re.compile(r"Inst_([A-Z0-9]+)__(\w+?)7execute")  # pattern of the frames of gem5's stack
_ASSERTION = re.compile(r"Assertion (.*) failed")
_PANIC = re.compile(r"\b(?:panic|fatal): .*")  # gem5's last words
_UNIMPLEMENTED = re.compile(r"unimplemented \w+ instruction: *(\S+)")
_LACKS = re.compile(r"not implemented|cannot be decoded|not supported|unsupported|decoded as", re.I)
_MEMORY = ("FLAT", "DS", "MUBUF", description.SCALAR_MEMORY)  # formats
_CONTROLS = ("sdwa", "dpp")


@dataclass
class Units:
    """The forms of a probe on a gem5, of which `known` (by number) are not tried."""

    target: Gem5Se
    arch: str
    forms: Sequence[Form]
    runs: Runs
    limit: float  # seconds of a processor that a unit may take
    known: dict[int, tuple[Found, str]]
    tell: Callable[[str], None]
    # changes a unit's code; takes its name and code
    change: Callable[[str, bytes], bytes] | None = None
    seen: dict[int, Seen] = field(default_factory=dict)
    held: dict[tuple[str, ...], list[int]] = field(default_factory=lambda: defaultdict(list))

    def findings(self, place: Path) -> list[Seen]:
        """Findings for each form.

        Raises:
            MissingError: gem5 does not start here.
            RunError: it fails without a form being to blame.
        """
        for at, (found, why) in self.known.items():
            self.seen[at] = Seen(self.forms[at], found, why)
        todo = self._first()
        for turn in range(MOST_ROUNDS):
            if not todo:
                return [self.seen[at] for at in range(len(self.forms))]
            todo = self._round(todo, turn, place)
        raise RunError(
            f"gem5: {MOST_ROUNDS} runs ended early; try fewer forms with {ConformChoices.only}"
        )

    def _first(self) -> list[list[int]]:
        """The units to begin with: what gem5's sources are known to end at by one form each."""
        open_ = [at for at in range(len(self.forms)) if at not in self.seen]
        predicted = [at for at in open_ if self._is_predicted(self.forms[at])]
        alone, rest = self._first_of_kin(predicted, open_, {})
        return self._grouped(rest) + [[at] for at in alone]

    def _is_predicted(self, form: Form) -> bool:
        version = self.target.gem5_version
        table = None
        if version in facts.versions("gem5"):
            table = facts.table("gem5", version, self.arch)
        if table is None:
            return False
        mirrored = HALF_MIRROR in form.text and not table.half_mirror
        plain = form.plan.constant is None
        return mirrored or (form.mnemonic in table.no_scalar and not plain)

    def _first_of_kin(
        self, suspects: Iterable[int], open_: Sequence[int], firsts: dict[tuple[str, ...], int]
    ) -> tuple[list[int], list[int]]:
        """The first suspect of each kin, to be tried alone, and those that need not wait for it;
        `firsts` has those of this round, by kin, and gets the new ones."""
        alone = [at for at in suspects if firsts.setdefault(_kin(self.forms[at]), at) == at]
        rest = []
        for at in open_:
            kin = _kin(self.forms[at])
            if kin not in firsts:
                rest.append(at)
            elif firsts[kin] != at:
                self.held[kin].append(at)
        return alone, rest

    def _grouped(self, numbers: Sequence[int], parts: int = 1) -> list[list[int]]:
        """Units of some forms; each unit in so many parts."""
        number_of = {id(self.forms[at]): at for at in numbers}
        found = []
        for group in bundling.groups([self.forms[at] for at in numbers], MOST_NBYTES):
            step = -(-len(group) // parts)
            unit = [number_of[id(form)] for form in group]
            found += [unit[at : at + step] for at in range(0, len(unit), step)]
        return found

    def _round(self, todo: list[list[int]], turn: int, place: Path) -> list[list[int]]:
        """Tries some units; those that are to be tried then."""
        of = bundling.batched(
            [tuple(self.forms[at] for at in unit) for unit in todo], self.arch, apart=True
        )
        path = place / "bundle"
        shutil.rmtree(path, ignore_errors=True)
        jobs = min(len(os.sched_getaffinity(0)), len(todo))
        package = Gem5Package(self.target.simulated, Forked(jobs, self.limit))
        objects = {each.name: each.made.code for each in of.batches}
        for at, (unit, name) in enumerate(zip(todo, objects)):
            try:
                objects[name] = self.change(name, objects[name]) if self.change else objects[name]
            except RefusedError:  # too many forms together; it splits them
                if len(unit) == 1:
                    raise
                half = len(unit) // 2
                halves = [unit[:half], unit[half:]]
                return self._round([*todo[:at], *halves, *todo[at + 1 :]], turn, place)
        bundling.write(path, of, self.target, objects, package)
        most = STUCK * self.limit * (len(todo) + 1)
        code, said = self.runs(path, min(most, MOST_SECONDS))
        if code in (2, 3, 4):
            raise MissingError(said.removeprefix("simgen: error: ").strip() or f"{GEM5}: no run")
        if code:
            raise RunError(f"{GEM5}: the probe fails and no instruction is to blame ({said})")
        alone: list[tuple[int, str, bool]] = []
        ended: list[tuple[list[int], Batch, Path]] = []
        for unit, batch in zip(todo, of.batches, strict=True):
            folder = path / "results" / GEM5 / batch.name
            told = json.loads(read_regular(folder / "ended.json", MOST_LOG))
            if told["code"] == 0:
                results = np.fromfile(folder / "outputs.bin", np.uint32)
                found = judging.of_batch(batch, results)
                self.seen |= dict(zip(unit, found, strict=True))
            elif len(unit) == 1:
                alone.append((unit[0], log_text(folder), told["late"]))
            else:
                ended.append((unit, batch, folder))
        return self._released(todo, alone) + self._next(ended, turn)

    def _released(
        self, todo: list[list[int]], alone: list[tuple[int, str, bool]]
    ) -> list[list[int]]:
        """What is said of forms that ended gem5 alone, and the units that need wait no longer."""
        for at, log, late in alone:
            self._blame(at, log, late=late)
        freed: list[int] = []
        single: list[int] = []
        for unit in todo:
            kin = _kin(self.forms[unit[0]])
            if len(unit) > 1 or kin not in self.held:
                continue
            waiting = [at for at in self.held.pop(kin) if at not in self.seen]
            if self.seen[unit[0]].found is Found.ENDS:
                single += waiting
            else:
                freed += waiting
        return [[at] for at in single] + self._grouped(freed)

    def _blame(self, at: int, log: str, *, late: bool) -> None:
        """A form that ended gem5 alone, and those that it speaks for."""
        form = self.forms[at]
        said = "it hangs" if late else _last_words(log)
        lacks = _UNIMPLEMENTED.search(log) or _LACKS.search(said)
        kind = Found.MISSING if lacks else Found.ENDS
        why = f"{said}; seen at {form.text}"[:200]
        self.tell(why)
        control = next((c for c in _CONTROLS if f"process{c.upper()}" in log), "")
        executed = _EXECUTED.search(log)

        def shares(other: Form) -> bool:
            if kind is Found.MISSING:
                return other.mnemonic == form.mnemonic
            if control:
                return _kin(other) == (control, form.what)
            memory = form.instruction.format in _MEMORY and not executed
            return memory and _kin(other) == _kin(form)

        for number, other in enumerate(self.forms):
            if number == at or (number not in self.seen and shares(other)):
                self.seen[number] = Seen(other, kind, why)

    def _next(self, ended: list[tuple[list[int], Batch, Path]], turn: int) -> list[list[int]]:
        """Smaller units of those that ended gem5."""
        found: list[list[int]] = []
        firsts: dict[tuple[str, ...], int] = {}
        for unit, batch, folder in ended:
            open_ = [at for at in unit if at not in self.seen]
            # Where code is changed, instructions are not where they were made.
            suspects = [] if self.change else [unit[at] for at in _suspects(batch, folder)]
            if not suspects:
                found += self._grouped(open_, 4)
                continue
            alone, rest = self._first_of_kin((at for at in suspects if at in open_), open_, firsts)
            found += [[at] for at in alone]
            found += self._grouped([at for at in rest if at < suspects[0]])
            behind = [at for at in rest if at > suspects[0]]
            found += self._grouped(behind, 1 << min(turn, 4))
        return found


def _kin(form: Form) -> tuple[str, ...]:
    """What one function of gem5 may serve: a control, the widths of a load; or an instruction."""
    ending = form.mnemonic.rpartition("_")[2]
    if ending in _CONTROLS:
        return ending, form.what
    if form.instruction.format in _MEMORY:
        return "memory", _stem(form), form.what
    return "plain", form.mnemonic


def _stem(form: Form) -> str:
    """The mnemonic without the width of what it loads or stores."""
    return re.sub(r"_(x\d+|dword(x\d+)?|[bui]\d+)$", "", form.mnemonic)


def _last_words(log: str) -> str:
    """gem5's last words."""
    if found := _PANIC.search(log):
        return found[0].strip()
    if found := _ASSERTION.search(log):
        return f"Assertion {found[1]} failed"
    errors = re.findall(r"simgen: error: (.*)", log)
    return str(errors[-1]) if errors else "it dies"


def _suspects(batch: Batch, folder: Path) -> list[int]:
    """The numbers in a unit of the forms at which gem5 may have ended; none: nobody knows."""
    told = json.loads(read_regular(folder / "ended.json", MOST_LOG))
    if "start" not in told:
        return []
    places = batch.made.places
    exact = told["last"] - told["start"]
    for number, (at, nbytes, _, _) in enumerate(places):
        if at <= exact < at + nbytes and _EXECUTED.search(log_text(folder)):
            return [number]
    # Decoded before it is executed, or answered after it.
    found: set[int] = set()
    for pc in told["waves"]:
        offset = pc - told["start"]
        last = sum(begin <= offset for *_, begin, _ in places) - 1
        found |= {n for n in (last, last + 1) if 0 <= n < len(places)}
    return sorted(found) if len(found) <= MOST_SUSPECTS else []
