"""A probe run on a target until nothing in it ends the simulator any more."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from simgen.ask.checks import ConformChoices
from simgen.errors import MissingError, RunError, UsageError
from simgen.ground.storage.files import scratch_folder
from simgen.isa.child import until_parent_ends
from simgen.isa.legalise import facts, gem5_rules
from simgen.isa.lint import rewriting
from simgen.kernels import cache
from simgen.targets import TARGETS
from simgen.targets.gem5.launcher import NAME as GEM5
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.mgpusim import needs
from simgen.targets.mgpusim.needs import NAME as MGPUSIM
from simgen_examine import builds
from simgen_examine.conform import assembly, bundling, judging
from simgen_examine.conform.catalogue import catalogue
from simgen_examine.conform.description import SEQUENCE
from simgen_examine.conform.judging import Found, Seen
from simgen_examine.conform.units import Units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.targets.base import Target
    from simgen_examine.builds import Build
    from simgen_examine.conform.bundling import Probed
    from simgen_examine.conform.forms import Form

    Refused = dict[tuple[str, int], tuple[Found, str]]

ON = (GEM5, MGPUSIM)
EVERY = (*ON, "gpgpusim", "cuda")  # the others are tried in simgen_examine.conform.ptx
LIMIT = 120.0  # seconds that a run may take
MOST_RUNS = 400  # runs of one probe, at most
_KERNEL = re.compile(r"kernel (conform_\d+)\b")
_NUMBERED = re.compile(r"kernel (conform_\d+) .*?instruction (\d+), ")


@dataclass
class Trial:
    """What is tried, on what, and how."""

    on: str
    arch: str = ""  # empty: the target's
    mode: str = ""  # mode of MGPUSim
    version: str = ""  # version of gem5
    limit: float = LIMIT
    only: str = ""  # a regular expression that texts of forms match
    all: bool = False  # also what gem5's sources say that it ends at
    legalised: bool = False  # what `simgen legalise` makes of the forms, in their place
    tell: Callable[[str], None] = field(default=lambda _: None)
    build: Build | None = None  # the one that ON@FOLDER names
    runs: int = 0
    seconds: float = 0.0  # seconds that the simulator took
    _rewritten: dict[bytes, bytes] = field(default_factory=dict)  # code object -> legalised

    def __post_init__(self) -> None:
        self.named = self.on
        self.on, folder = builds.split(self.on)
        if self.on not in ON:
            known = ", ".join(EVERY)
            fact = f"{ConformChoices.on} {self.on}: not a target that is probed"
            raise UsageError(f"{fact}; take one of {known}")
        self.target = self._target()
        if folder:
            self.build, self.target = builds.of(self.named, self.target, folder)

    def _target(self) -> Target:
        if self.on == MGPUSIM:
            return TARGETS[MGPUSIM](arch=self.arch or "gfx942", legalise=False)  # type: ignore[call-arg]
        settings = {"gem5_version": self.version} if self.version else {"gem5_version": "24.1"}
        return TARGETS[GEM5](arch=self.arch or "gfx902", **settings)  # type: ignore[call-arg]

    @property
    def arch_name(self) -> str:
        return str(self.target.arch)  # type: ignore[attr-defined]

    @property
    def title(self) -> str:
        """The simulator, its version and mode."""
        where = f" in {self.named.partition('@')[2]}" if self.build else ""
        if self.on == MGPUSIM:
            mode = "timing" if self.mode == "timing" else "emulation"
            return f"MGPUSim {needs.version()}{where}, {mode}"
        return f"gem5 (as {self.target.gem5_version}){where}"  # type: ignore[attr-defined]

    @property
    def lint_name(self) -> str:
        """The simulator's name in tables of lint."""
        return "gem5" if self.on == GEM5 else self.on

    @property
    def version_name(self) -> str:
        """Its version there."""
        return needs.version() if self.on == MGPUSIM else str(self.target.gem5_version)  # type: ignore[attr-defined]

    @property
    def command(self) -> str:
        """What a user types for the same."""
        asked = ConformChoices(
            on=self.named, arch=self.arch_name, mode=self.mode, gem5_version=self.version,
            legalised=self.legalised,
        )  # fmt: skip
        return shlex.join(asked.command())

    def findings(self, folder: Path | None = None) -> list[Seen]:
        """Findings for every form that is tried.

        The bundle is made in `folder`, or in one of the cache: gem5 takes none under /tmp.

        Raises:
            UsageError: no form matches `only`.
            MissingError: the simulator is not here.
            RunError: it fails without an instruction that is tried being to blame.
        """
        if not self.build and (lacks := self.target.needs.missing()):
            raise MissingError(f"{self.on}: " + "; ".join(map(str, lacks)))
        pattern = re.compile(self.only)
        arch = self.arch_name
        chosen = [each for each in catalogue(arch) if pattern.search(each.text)]
        if self.on == MGPUSIM:  # which has no v_div_scale, and is to end at what is tried alone
            chosen = [each for each in chosen if each.instruction.format != SEQUENCE]
        if not chosen:
            fact = f"{ConformChoices.only} {self.only}: no form of {arch} matches"
            raise UsageError(f"{fact}; leave it out")
        if self.on == GEM5:
            assert isinstance(self.target, Gem5Se)
            version = self.target.gem5_version
            lacking = (
                {} if self.all else _known_gaps(chosen, version, arch, legalised=self.legalised)
            )
            change = self._legalised if self.legalised else None
            if change:
                open_ = [form for at, form in enumerate(chosen) if at not in lacking]
                _, refused_forms = self._taken(open_)
                number = {id(form): at for at, form in enumerate(chosen)}
                lacking |= {number[id(f)]: (Found.REFUSED, why) for f, why in refused_forms}
            left = len(chosen) - len(lacking)
            self.tell(f"{len(chosen)} forms of {arch}, of which {left} are tried")
            units = Units(
                self.target, arch, chosen, self._once, self.limit, lacking, self.tell, change
            )
            with _folder(folder) as place:
                return units.findings(place)
        self.tell(f"{len(chosen)} forms of {arch}: assembling")
        if self.legalised:
            kept, lost = self._taken(chosen)
            with _folder(folder) as place:
                found = self._legalised_findings(kept, place)
            return found + [Seen(form, Found.REFUSED, why) for form, why in lost]
        made = bundling.probe(chosen, arch)
        refused: Refused = {}
        with _folder(folder) as place:
            results = self._run(made, refused, place)
        return judging.findings(made, results, refused)

    def _taken(
        self, forms: Sequence[Form]
    ) -> tuple[list[tuple[Form, ...]], list[tuple[Form, str]]]:
        self.tell(f"{len(forms)} forms of {self.arch_name}: legalising")
        kept, refused = bundling.accepted_groups(
            bundling.groups(forms), self.arch_name, self._legalised
        )
        self.tell(f"{len(refused)} of them are refused")
        return kept, refused

    def _run(self, made: Probed, refused: Refused, place: Path) -> NDArray[np.uint32]:
        while self.runs < MOST_RUNS:
            objects = {
                each.name: assembly.without(
                    each.made, [at for name, at in refused if name == each.name], each.name
                )
                for each in made.batches
            }
            path = place / "bundle"
            shutil.rmtree(path, ignore_errors=True)
            bundling.write(path, made, self.target, objects)
            code, said = self._once(path, self.limit + 600)
            results = path / "results" / self.on
            if code == 0:
                for key, why in _left_out(results / "probe.csv", made).items():
                    refused.setdefault(key, why)  # what was left out is not there to be decoded
                return np.fromfile(results / "outputs.bin", np.uint32)
            if code in (2, 3, 4):
                raise MissingError(
                    said.removeprefix("simgen: error: ").strip() or f"{self.on}: no run"
                )
            more = _culprit(made, refused, said)
            if not more:
                raise RunError(
                    f"{self.on}: the probe fails and no instruction is to blame ({said})"
                )
            self.tell(next(iter(f"{reason}" for _, reason in more.values())))
            refused |= more
        raise _too_many(self.on, MOST_RUNS)

    def _legalised_findings(self, groups: list[tuple[Form, ...]], place: Path) -> list[Seen]:
        """On MGPUSim. Instructions are not where they were made, so of a kernel that ends a run
        both halves are tried apart from the others, down to a form."""
        todo, found = [groups] if groups else [], []
        while todo:
            if self.runs == MOST_RUNS:
                raise _too_many(self.on, MOST_RUNS)
            part = todo.pop()
            made = bundling.batched(part, self.arch_name)
            objects = {
                each.name: self._legalised(each.name, each.made.code) for each in made.batches
            }
            path = place / "bundle"
            shutil.rmtree(path, ignore_errors=True)
            bundling.write(path, made, self.target, objects, moved=True)
            code, said = self._once(path, self.limit + 600)
            if code == 0:
                results = np.fromfile(path / "results" / self.on / "outputs.bin", np.uint32)
                found += judging.findings(made, results, {})
                continue
            blamed = _KERNEL.search(said)
            at = next((n for n, b in enumerate(made.batches) if blamed and b.name == blamed[1]), -1)
            if at < 0:
                raise (MissingError if code in (2, 3, 4) else RunError)(
                    said.removeprefix("simgen: error: ").strip() or f"{self.on}: no run"
                )
            group = part.pop(at)
            todo += [part] if part else []
            if len(group) == 1:
                reason = _reason(said)
                self.tell(reason)
                found.append(Seen(group[0], _kind(said), reason))
            else:
                half = len(group) // 2
                todo += [[group[:half]], [group[half:]]]
        return found

    def _legalised(self, name: str, elf: bytes) -> bytes:
        if elf not in self._rewritten:
            self._rewritten[elf] = self._rewrite(name, elf)
        return self._rewritten[elf]

    def _rewrite(self, name: str, elf: bytes) -> bytes:
        """In every mode: how a simulator rounds is found by a run."""
        return rewriting.rewritten(
            elf, name, self.lint_name, self.version_name, 0, any_rounding=True
        )[0]

    def _once(self, path: Path, limit: float) -> tuple[int, str]:
        """A bundle's run of at most so many seconds: its exit code and last words."""
        self.runs += 1
        start = time.monotonic()
        env = {**os.environ, "SIMGEN_PYTHON": sys.executable, "SIMGEN_TIMEOUT": f"{self.limit:g}"}
        if self.on == MGPUSIM:
            env["SIMGEN_MODE"] = self.mode or "emu"
        if self.build:
            self.build.put(path, self.on)
            env.update(self.build.variables)
        process = subprocess.Popen(
            [*until_parent_ends(signal.SIGTERM), "/bin/sh", str(path / self.on / "run.sh")],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        try:
            _, said = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.communicate()
            self.seconds += time.monotonic() - start
            return 5, "it hangs"
        except BaseException:
            process.terminate()
            process.communicate()
            raise
        self.seconds += time.monotonic() - start
        lines = said.strip().splitlines()
        last = lines[-1] if lines else ""
        return process.returncode, self.build.said(last, path, self.on) if self.build else last


def _known_gaps(
    forms: Sequence[Form], version: str, arch: str, *, legalised: bool
) -> dict[int, tuple[Found, str]]:
    """Forms, by number, that a version of gem5 has no code for, by its sources; but for those that
    a rule replaces, if they are `legalised`."""
    if version not in facts.versions("gem5"):
        return {}
    table = facts.table("gem5", version, arch)
    ends = frozenset(table.ends if table else ())
    lost = ends | set(table.wrong if table else ())
    if legalised:
        ends = frozenset(word for word in ends if not gem5_rules.has_rule(word, "", lost))
    said = (Found.MISSING, f"its sources have no code for it; {ConformChoices.all} tries it")
    return {at: said for at, form in enumerate(forms) if form.mnemonic in ends}


def _culprit(made: Probed, refused: Refused, said: str) -> Refused:
    """The form that ended a run of MGPUSim, by its last words."""
    if numbered := _NUMBERED.search(said):
        batch = next(each for each in made.batches if each.name == numbered[1])
        at = assembly.number_of(batch.forms, made.arch, int(numbered[2]))
        if at is not None and (batch.name, at) not in refused:
            return {(batch.name, at): (Found.ENDS, _reason(said))}
    return {}


def _reason(said: str) -> str:
    found = re.search(r".*\((.*)\)", said)
    return found[1] if found else said


def _left_out(path: Path, made: Probed) -> Refused:
    """What MGPUSim left out, of its own list."""
    if not path.exists():
        return {}
    numbers: Mapping[str, Mapping[int, int]] = {
        each.name: {place[0]: number for number, place in enumerate(each.made.places)}
        for each in made.batches
    }
    with path.open(newline="") as file:
        return {
            (name, numbers[name][int(at)]): (_kind(why), why) for name, at, why in csv.reader(file)
        }


def _kind(why: str) -> Found:
    lacking = re.search(
        r"not implemented|cannot be decoded|not supported|not find|unsupported|decoded as",
        why,
        re.I,
    )
    return Found.MISSING if lacking else Found.ENDS


@contextlib.contextmanager
def _folder(folder: Path | None) -> Iterator[Path]:
    """A new folder for bundles, gone in the end: in `folder`, or in the cache of the user."""
    base = folder or cache.default().own
    base.mkdir(parents=True, exist_ok=True)
    with scratch_folder("conform", base) as made:
        yield made


def _too_many(target: str, runs: int) -> RunError:
    fact = f"{target}: {runs} runs ended early"
    return RunError(f"{fact}; try fewer forms with {ConformChoices.only}")
