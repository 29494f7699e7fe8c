"""What `simgen lint` and `simgen legalise` answer, from the shell and from Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simgen.ask.checks import LintChoices
from simgen.errors import RefusedError, UsageError
from simgen.ground import html, tidy
from simgen.isa.legalise import facts, history
from simgen.isa.lint import containers, forges, linting, rewriting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.ask.checks import LegaliseChoices
    from simgen.isa.lint.linting import Finding, Looked, Note, Unread

HEADS = ("kernel", "instruction", "address", "finding", "reason", "cure")


@dataclass(frozen=True)
class Linted(tidy.Tidy):
    """What a simulator makes of the code in files. It is true when nothing in it is refused.

    Attributes:
        simulator, version: whose.
        source: where the facts about it come from.
        looked: code objects, each with its findings.
        unread: files that could not be looked at.
    """

    simulator: str
    version: str
    source: str
    looked: tuple[Looked, ...]
    unread: tuple[Unread, ...] = ()

    @property
    def title(self) -> str:
        """The simulator and its version."""
        return f"{self.simulator} {self.version}"

    @property
    def findings(self) -> list[Finding]:
        """All findings; those that are `refused` end a simulation or make its results wrong."""
        return [finding for each in self.looked for finding in each.findings]

    @property
    def refused(self) -> list[Finding]:
        """The findings `ends` and `wrong`."""
        return [each for each in self.findings if each.refused]

    @property
    def notes(self) -> tuple[Note, ...]:
        """Defects of instructions that nearly all kernels have."""
        return linting.notes_of(each for each in self.looked if not each.skipped)

    @property
    def failure(self) -> str:
        """What is refused, in a line; empty where nothing is."""
        refused = self.refused
        if not refused:
            return ""
        count, first = len({(f.path, f.inside, f.kernel) for f in refused}), refused[0]
        return (
            f"{first.path}: {self.title} does not execute {len(refused)} instructions right, in "
            f"{count} functions; the first is {first.instruction} in {first.kernel or 'it'}"
        )

    def __bool__(self) -> bool:
        return not self.refused and not self.unread

    def check(self) -> None:
        """Raise RefusedError if something is refused, or the error of the first unread file."""
        if failure := self.failure:
            raise RefusedError(failure)
        if self.unread:
            raise self.unread[0].error

    def __repr__(self) -> str:
        return f"<Linted for {self.title}: {len(self.looked)} code objects, " + (
            f"{len(self.refused)} instructions refused>"
        )

    def _repr_html_(self) -> str:
        rows = [
            (f.kernel, f.instruction, f"{f.address:#x}", f.verdict, f.reason, f.cure)
            for f in self.findings
        ]
        return html.table(HEADS, rows)

    def columns(self) -> dict[str, list[Any]]:
        """A line for each finding: file, inside, arch, kernel, instruction, address, source,
        finding, refused, reason, cure."""
        lines = [
            {"file": str(each.held.path), "inside": each.held.inside, "arch": each.arch, **line}
            for each in self.looked
            for line in map(_line, each.findings)
        ]
        return tidy.columns(dict.fromkeys(name for line in lines for name in line), lines)

    def sarif(self, *, edges: bool = True) -> str:
        """A log of SARIF 2.1.0, of findings `edges` too."""
        return forges.sarif(self.findings if edges else self.refused, self.title)

    def github(self, *, edges: bool = True) -> str:
        """Annotations of GitHub Actions."""
        return forges.github(self.findings if edges else self.refused, self.title)

    def as_json(self) -> dict[str, Any]:
        """What `simgen lint --json` prints, but for the name of its schema."""
        return {
            "simulator": self.simulator, "version": self.version, "source": self.source,
            "code_objects": [
                {
                    "file": str(each.held.path), "inside": each.held.inside, "arch": each.arch,
                    "skipped": each.skipped,
                    "kernels": each.kernels, "instructions": each.instructions,
                    "findings": [_line(f) for f in each.findings],
                    "notes": [{"instructions": list(n.mnemonics), "times": n.times,
                               "reason": n.reason} for n in each.notes],
                }
                for each in self.looked
            ],
            "unread": [{"file": str(each.path), "reason": str(each.error)} for each in self.unread],
        }  # fmt: skip


def _line(finding: Finding) -> dict[str, Any]:
    return {
        "kernel": finding.kernel, "instruction": finding.instruction, "address": finding.address,
        "source": finding.line, "finding": finding.verdict, "refused": finding.refused,
        "reason": finding.reason, "cure": finding.cure,
    }  # fmt: skip


def lint(files: Sequence[Path], asked: LintChoices) -> Linted:
    """What a simulator makes of the code in files and folders.

    Raises:
        UsageError: there is no such simulator, or no code of an AMD GPU in the files.
        RefusedError: the simulator has none of their processors.
        DamagedError: the only file is no whole code object.
    """
    if bool(asked.simulator) is bool(asked.table):
        fact = f"lint: take one of {LintChoices.simulator} S[@V] and {LintChoices.table} FILE"
        raise UsageError(fact)
    own = facts.own(Path(asked.table)) if asked.table else None
    named, version = (own.simulator, own.version) if own else facts.named(asked.simulator or "")
    looked, unread = linting.of_files(files, asked.arch or "", named, version, own)
    if not looked and not unread:
        raise UsageError(f"{files[0]}: no code for an AMD GPU in it; name the files that have some")
    if not unread and all(each.skipped for each in looked):
        raise _skipped(looked[0])
    source = own.source if own else _source(named, version)
    return Linted(named, version, source, tuple(looked), tuple(unread))


def _skipped(looked: Looked) -> RefusedError:
    cure = "compile it for a processor that it has"
    return RefusedError(f"{looked.held.place}: {looked.skipped}; {cure}")


def _source(simulator: str, version: str) -> str:
    if version not in facts.versions(simulator):
        return "data/isa"
    how = f"; {history.provenance(version)}" if simulator == facts.GEM5 else ""
    return facts.of_version(simulator, version).source + how


@dataclass(frozen=True)
class Rewritten:
    """A code object in which instructions were replaced.

    Attributes:
        code: it.
        before, after: the number of instructions.
        replaced: mnemonic -> how often it was replaced.
        emulated: mnemonic -> why its replacement is right in emulation only.
    """

    code: bytes
    before: int
    after: int
    replaced: Mapping[str, int]
    emulated: Mapping[str, str]

    def __repr__(self) -> str:
        return (
            f"<Rewritten: {self.before} instructions became {self.after}, "
            f"{sum(self.replaced.values())} were replaced>"
        )

    def as_json(self) -> dict[str, Any]:
        """What `simgen legalise --json` prints, but for the output and the name of its schema."""
        return {
            "instructions_before": self.before,
            "instructions": self.after,
            "replaced": dict(self.replaced),
            "right_in_emulation_only": dict(self.emulated),
        }


def legalise(file: Path, asked: LegaliseChoices) -> Rewritten:
    """The one code object in a file for a processor of the simulator, as it executes it right.

    Raises:
        UsageError: there is no such simulator, or there are several code objects, or none.
        RefusedError: the simulator has no such processor, or nothing replaces an instruction.
        DamagedError: it is no whole code object.
    """
    named, version = facts.named(asked.simulator or "")
    held = list(containers.code_objects(file, asked.arch or ""))
    fits = [each for each in held if linting.simulated(each, named, version)]
    if held and not fits:
        raise _skipped(*linting.code_objects(held[:1], named, version))
    if len(fits) != 1:
        have = "none" if not fits else f"{len(fits)}"
        raise UsageError(
            f"{file}: {have} of its {len(held)} code objects are for processors of {named} "
            f"{version}; give one code object"
        )
    (chosen,) = fits
    code, made = rewriting.rewritten(chosen.code, chosen.place, named, version, asked.dynamic_lds)
    after = Linted(
        named,
        version,
        "",
        tuple(linting.code_objects([containers.Held(file, "", code)], named, version)),
    )
    if left := after.refused:
        raise RefusedError(
            f"{chosen.place}: kernel {left[0].kernel}: {left[0].instruction}: {left[0].reason}, "
            f"and nothing replaces it; {left[0].cure}"
        )
    (before,) = linting.code_objects([chosen], named, version)
    return Rewritten(
        code, before.instructions, after.looked[0].instructions, made.replaced, made.emulated
    )
