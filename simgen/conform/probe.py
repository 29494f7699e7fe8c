"""A probe run on a target, over and over until nothing in it ends the simulator any more."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from simgen.compile import cache
from simgen.compile.legalise import facts
from simgen.conform import assembly, bundling, description, judging
from simgen.conform.atomics import atomics
from simgen.conform.forms import forms
from simgen.conform.ids import ids
from simgen.conform.judging import Found
from simgen.conform.matrix import products
from simgen.conform.movements import movements
from simgen.conform.scalar_memory import scalar_loads, scalar_stores
from simgen.conform.stores import stores
from simgen.errors import MissingError, RunError, UsageError
from simgen.lint import rewriting
from simgen.targets import TARGETS
from simgen.targets.base import log_text
from simgen.targets.gem5.launcher import NAME as GEM5
from simgen.targets.mgpusim import needs
from simgen.targets.mgpusim.needs import NAME as MGPUSIM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from simgen.conform.bundling import Probed
    from simgen.conform.forms import Form
    from simgen.conform.judging import Seen
    from simgen.targets.base import Target

    Refused = dict[tuple[str, int], tuple[Found, str]]

ON = (GEM5, MGPUSIM)
LIMIT = 120.0  # seconds that a run may take
MOST_RUNS = 400  # of one probe
_NUMBERED = re.compile(r"kernel (conform_\d+) .*?instruction (\d+), ")
# gem5: an instruction that it has no code for, and one that it cannot decode.
_EXECUTED = re.compile(r"Inst_([A-Z0-9]+)__(\w+?)7execute")  # of the frames of gem5's stack
_ASSERTION = re.compile(r"Assertion (.*) failed")
_PANIC = re.compile(r"\b(?:panic|fatal): .*")  # gem5's last words
_MEMORY = ("FLAT", "DS", description.SCALAR_MEMORY)  # formats
_UNIMPLEMENTED = re.compile(r"unimplemented \w+ instruction: *(\S+)")


@dataclass
class Trial:
    """What is tried, on what, and how."""

    on: str
    arch: str = ""  # empty: the target's
    mode: str = ""  # of MGPUSim
    version: str = ""  # of gem5
    limit: float = LIMIT
    only: str = ""  # a regular expression that texts of forms match
    all: bool = False  # also what gem5's sources say that it ends at
    legalised: bool = False  # what `simgen legalise` makes of the forms, in their place
    tell: Callable[[str], None] = field(default=lambda _: None)
    runs: int = 0
    seconds: float = 0.0  # of the simulator

    def __post_init__(self) -> None:
        if self.on not in ON:
            raise UsageError(f"--on {self.on}: not a target that is probed; take {' or '.join(ON)}")
        self.target = self._target()

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
        if self.on == MGPUSIM:
            return (
                f"MGPUSim {needs.version()}, {'timing' if self.mode == 'timing' else 'emulation'}"
            )
        return f"gem5 (as {self.target.gem5_version})"  # type: ignore[attr-defined]

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
        mode = f" --mode {self.mode}" if self.mode else ""
        version = f" --gem5-version {self.version}" if self.version else ""
        legalised = " --legalised" if self.legalised else ""
        return f"simgen conform --on {self.on} --arch {self.arch_name}{mode}{version}{legalised}"

    def findings(self, folder: Path | None = None) -> list[Seen]:
        """Of every form that is tried.

        The bundle is made in `folder`, or in one of the cache: gem5 takes none under /tmp.

        Raises:
            UsageError: no form matches `only`.
            RefusedError: `legalised`, and a form cannot be.
            MissingError: the simulator is not here.
            RunError: it fails without an instruction that is tried being to blame.
        """
        if lacks := self.target.needs.missing():
            raise MissingError(f"{self.on}: " + "; ".join(map(str, lacks)))
        pattern = re.compile(self.only)
        arch = self.arch_name
        known = description.words(arch)
        every = [
            *forms(arch), *movements(arch, known), *stores(arch, known), *atomics(arch, known),
            *products(arch, known), *scalar_loads(arch, known), *scalar_stores(arch, known),
            *ids(),
        ]  # fmt: skip
        chosen = [each for each in every if pattern.search(each.text)]
        if not chosen:
            raise UsageError(f"--only {self.only}: no form of {arch} matches; leave it out")
        self.tell(f"{len(chosen)} forms of {arch}: assembling")
        made = bundling.probe(chosen, arch)
        refused = self._known(made)
        with _folder(folder) as place:
            results = self._run(made, refused, place)
        return judging.findings(made, results, refused)

    def _known(self, made: Probed) -> Refused:
        """What a version of gem5 is known to end at, from its sources."""
        if self.on != GEM5 or self.all:
            return {}
        version: str = self.target.gem5_version  # type: ignore[attr-defined]
        if version not in facts.versions("gem5"):
            return {}
        table = facts.table("gem5", version, made.arch)
        ends = frozenset(table.ends if table else ())
        said = (Found.MISSING, "its sources have no code for it; --all tries it")
        return {
            (batch.name, at): said
            for batch in made.batches
            for at, form in enumerate(batch.forms)
            if form.mnemonic in ends
        }

    def _run(self, made: Probed, refused: Refused, place: Path) -> NDArray[np.uint32]:
        while self.runs < MOST_RUNS:
            objects = {
                each.name: assembly.without(
                    each.made, [at for name, at in refused if name == each.name], each.name
                )
                for each in made.batches
            }
            if self.legalised:
                objects = {name: self._legalised(name, elf) for name, elf in objects.items()}
            path = place / "bundle"
            shutil.rmtree(path, ignore_errors=True)
            bundling.write(path, made, self.target, objects)
            code, said = self._once(path)
            results = path / "results" / self.on
            if code == 0:
                for key, why in _told(results / "probe.csv", made).items():
                    refused.setdefault(key, why)  # what was left out is not there to be decoded
                return np.fromfile(results / "outputs.bin", np.uint32)
            if code in (2, 3, 4):
                raise MissingError(
                    said.removeprefix("simgen: error: ").strip() or f"{self.on}: no run"
                )
            more = self._culprits(made, refused, path, said)
            if not more:
                raise RunError(
                    f"{self.on}: the probe fails and no instruction is to blame ({said})"
                )
            self.tell(next(iter(f"{reason}" for _, reason in more.values())))
            refused |= more
        raise RunError(f"{self.on}: {MOST_RUNS} runs ended early; try fewer forms with --only")

    def _legalised(self, name: str, elf: bytes) -> bytes:
        return rewriting.rewritten(elf, name, self.lint_name, self.version_name)[0]

    def _once(self, path: Path) -> tuple[int, str]:
        self.runs += 1
        start = time.monotonic()
        env = {**os.environ, "SIMGEN_PYTHON": sys.executable, "SIMGEN_TIMEOUT": f"{self.limit:g}"}
        if self.on == MGPUSIM:
            env["SIMGEN_MODE"] = self.mode or "emu"
        process = subprocess.Popen(
            ["/bin/sh", str(path / self.on / "run.sh")], env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            _, said = process.communicate(timeout=self.limit + 600 * (self.on == MGPUSIM))
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
        return process.returncode, lines[-1] if lines else ""

    def _culprits(self, made: Probed, refused: Refused, path: Path, said: str) -> Refused:
        """The forms that ended a run."""
        if numbered := _NUMBERED.search(said):
            batch = next(each for each in made.batches if each.name == numbered[1])
            at = assembly.number_of(batch.forms, made.arch, int(numbered[2]))
            if at is not None and (batch.name, at) not in refused:
                return {(batch.name, at): (Found.ENDS, _reason(said))}
        log = log_text(path / "results" / f"failed-{self.on}")
        there = {
            (batch.name, at): form
            for batch in made.batches
            for at, form in enumerate(batch.forms)
            if (batch.name, at) not in refused
        }
        if found := _UNIMPLEMENTED.search(log):
            return {
                key: (Found.MISSING, found[0])
                for key, form in there.items()
                if _same(form.mnemonic, found[1])
            }
        if not (executed := _EXECUTED.search(log)):
            return self._of_memory(there, path.parent)
        assertion = _ASSERTION.search(log)
        why = (assertion[1] if assertion else "it dies").strip()[:200]
        control = "dpp" if "processDPP" in log else "sdwa" if "processSDWA" in log else ""
        suspects = {
            key: form
            for key, form in there.items()
            if _same(form.mnemonic, executed[2]) and _encoded(form, executed[1], control)
        }
        if not control:
            # Each run costs seconds: those of one encoding are left out together.
            said = f"{why}; in one at least of its forms of this encoding"
            return dict.fromkeys(suspects, (Found.ENDS, said))
        guilty = self._isolated(list(suspects.values()), path.parent)
        # The same function does it for all instructions.
        ways = {form.what for form in guilty}
        first = f"{why}; seen at {guilty[0].text}" if guilty else why
        return {
            key: (Found.ENDS, first)
            for key, form in there.items()
            if form.what in ways and form.mnemonic.endswith(f"_{control}")
        }

    def _of_memory(self, there: Mapping[tuple[str, int], Form], place: Path) -> Refused:
        """Where no instruction is named: the first of those that use memory which ends a run, and
        its kin: all forms of an opcode that is not there, or those of other widths."""
        suspects = [form for form in there.values() if form.instruction.format in _MEMORY]
        if not (said := self._ends(suspects, place) if suspects else ""):
            return {}
        while len(suspects) > 1:
            half = suspects[: len(suspects) // 2]
            if found := self._ends(half, place):
                suspects, said = half, found
            else:
                suspects = suspects[len(half) :]
        (guilty,) = suspects
        said = self._ends(suspects, place) or said  # of this one, not of others before it
        why = f"{_reason(said)}; seen at {guilty.text}"[:200]
        kind = _kind(why)

        def is_kin(form: Form) -> bool:
            if kind is Found.MISSING:
                return form.mnemonic == guilty.mnemonic
            return form.what == guilty.what and _stem(form) == _stem(guilty)

        return {key: (kind, why) for key, form in there.items() if is_kin(form)}

    def _isolated(self, suspects: list[Form], place: Path) -> list[Form]:
        """Those of some forms that end a run by themselves."""
        if not suspects or not self._ends(suspects, place):
            return []
        if len(suspects) == 1:
            return suspects
        half = len(suspects) // 2
        first = self._isolated(suspects[:half], place)
        return first + self._isolated(suspects[half:], place)

    def _ends(self, some: list[Form], place: Path) -> str:
        """What a run of some forms that ends early says; empty of one that does not."""
        made = bundling.probe(some, self.arch_name)
        path = place / "part"
        shutil.rmtree(path, ignore_errors=True)
        bundling.write(
            path, made, self.target, {each.name: each.made.code for each in made.batches}
        )
        code, said = self._once(path)
        log = log_text(path / "results" / f"failed-{self.on}")
        if found := _PANIC.search(log) or _ASSERTION.search(log):
            said = found[0]
        return (said or "it dies") if code else ""


def _stem(form: Form) -> str:
    """The mnemonic without the width of what it loads or stores."""
    return re.sub(r"_(x\d+|dword(x\d+)?|[bui]\d+)$", "", form.mnemonic)


def _same(mnemonic: str, said: str) -> bool:
    """Whether a simulator's name of an instruction, without its encoding, is that of a form."""
    return re.sub(r"_(e32|e64|sdwa|dpp)$", "", mnemonic) == re.sub(r"_(e32|e64)$", "", said.lower())


def _encoded(form: Form, format_: str, control: str) -> bool:
    """Whether a form has the format that a class of gem5 is named after, and such controls."""
    ending = form.mnemonic.rpartition("_")[2]
    if control:
        return ending == control
    long = ending == "e64" or form.instruction.format in ("VOP3", "VOP3P")
    return long == format_.startswith("VOP3")


def _reason(said: str) -> str:
    found = re.search(r".*\((.*)\)", said)
    return found[1] if found else said


def _told(path: Path, made: Probed) -> Refused:
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
    with tempfile.TemporaryDirectory(prefix="conform-", dir=base) as made:
        yield Path(made)
