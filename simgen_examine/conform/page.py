"""Findings told: a table, JSON, and a page that fits into a bug report."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.ask.checks import ConformChoices
from simgen.errors import DamagedError, UsageError
from simgen.ground.examined import Conformance
from simgen.ground.storage.files import read_regular
from simgen_examine.conform import buffers, consequences, description, ids, matrix, scalar_memory
from simgen_examine.conform.float_mode import FLUSHING, USUAL
from simgen_examine.conform.forms import SOURCE, Form
from simgen_examine.conform.judging import Found, Seen
from simgen_examine.conform.values import LANES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


MAX_NBYTES = 2**28  # size of a findings.json that is read, at most
MOST_LINES = 15  # lines of assembly in a reproducer, at most
_FILLER = "v15"  # holds what LDS is filled with before a store or an atomic


@dataclass(frozen=True)
class InstructionSet:
    """How findings of an instruction set are told."""

    name: str  # name of its assembly, in Markdown
    manual: Callable[[str], str]  # architecture -> its manual
    source: Callable[[Seen, str], tuple[str, str]]  # what differs, and where the manual tells of it
    reproducer: Callable[[Seen], list[str]]
    consequence: Callable[[Any], str]  # form -> consequence of its difference


@dataclass(frozen=True)
class Told:
    """All findings of a run."""

    title: str  # the simulator, its version and mode
    arch: str
    findings: tuple[Seen, ...]
    seconds: float
    command: str = ""  # command that gives them
    told_in: InstructionSet | None = None  # None: AMD's

    @property
    def words(self) -> InstructionSet:
        return self.told_in or AMD


def counts(findings: Sequence[Seen]) -> dict[str, int]:
    """Forms by what was found; those that legalise refuses only where there are some."""
    found = {each.value: sum(f.found is each for f in findings) for each in Found}
    return {name: n for name, n in found.items() if n or name != Found.REFUSED}


def by_instruction(told: Told) -> dict[tuple[str, Found], list[Seen]]:
    """Findings that are not right, by instruction and kind."""
    found: dict[tuple[str, Found], list[Seen]] = {}
    order = (Found.WRONG, Found.ENDS, Found.MISSING, Found.REFUSED)
    for kind in order:
        for each in told.findings:
            if each.found is kind:
                found.setdefault((each.form.instruction.name, kind), []).append(each)
    return found


def table(told: Told, verbose: bool) -> list[tuple[Any, ...]]:
    """A row for each instruction and kind of finding; of each form, if `verbose`."""
    tried: dict[str, int] = {}
    for each in told.findings:
        name = each.form.instruction.name
        tried[name] = tried.get(name, 0) + 1
    rows = []
    for (name, kind), members in by_instruction(told).items():
        for each in members if verbose else members[:1]:
            example = each.examples[0] if each.examples else None
            rows.append((
                name, kind.value, 1 if verbose else len(members), tried[name], each.form.text,
                f"{each.wrong}/{each.lanes}" if each.lanes else "",
                " ".join(example.sources) if example else each.reason[:80],
                example.expected if example else "", example.found if example else "",
            ))  # fmt: skip
    return rows


def rows(told: Told) -> dict[str, Any]:
    """All of it, as JSON."""
    return {
        "simulator": told.title,
        "architecture": told.arch,
        "manual": told.words.manual(told.arch),
        "seconds": round(told.seconds, 1),
        "counts": counts(told.findings),
        "forms": [
            {
                "instruction": each.form.instruction.name, "text": each.form.text,
                "form": each.form.what, "finding": each.found.value, "reason": each.reason,
                "lanes": each.lanes, "wrong": each.wrong,
                "examples": [vars(example) for example in each.examples],
                "consequence": told.words.consequence(each.form),
            }
            for each in told.findings
        ],
    }  # fmt: skip


def conformance(told: Told, before: Mapping[str, str] | None = None) -> Conformance:
    """All of it as a value; `before` is what an earlier build made of each form."""
    found = {**rows(told), "forms": tuple(rows(told)["forms"])}
    worse, better = ({}, {}) if before is None else compared(told, before)
    return Conformance(**found, before=before is not None, worse=worse, better=better)


def read_findings(path: Path) -> dict[str, str]:
    """What `rows` said of each form before, by its text.

    Raises:
        UsageError: it cannot be read.
        DamagedError: it is no such file.
    """
    try:
        told = json.loads(read_regular(path, MAX_NBYTES))
        found = {f"{each['form']}: {each['text']}": each["finding"] for each in told["forms"]}
    except OSError as error:
        fact = f"{ConformChoices.against} {path}: {error.strerror}"
        raise UsageError(f"{fact}; name findings.json of simgen conform -o DIR") from None
    except (ValueError, KeyError, TypeError) as error:
        fact = f"no findings.json of simgen conform ({type(error).__name__})"
        raise DamagedError(f"{path}: {fact}; make it with: simgen conform -o DIR") from None
    known = {each.value for each in Found}
    if not all(isinstance(each, str) and each in known for each in found.values()):
        raise DamagedError(f"{path}: not what simgen conform writes; make it again with -o DIR")
    return found


def compared(
    told: Told, before: Mapping[str, str]
) -> tuple[dict[str, tuple[str, str]], dict[str, tuple[str, str]]]:
    """Forms that are worse than before, and those that are better: what each was, and is now.

    A form that was not tried before is worse where it is not right.
    """
    fine = (Found.RIGHT.value, Found.REFUSED.value)
    order = (*fine, Found.WRONG.value, Found.MISSING.value, Found.ENDS.value)
    worse, better = {}, {}
    for each in told.findings:
        name, now = f"{each.form.what}: {each.form.text}", each.found.value
        was = before.get(name, Found.RIGHT.value)
        if order.index(now) > order.index(was) and now not in fine:
            worse[name] = (before.get(name, "not tried"), now)
        elif order.index(now) < order.index(was):
            better[name] = (was, now)
    return worse, better


def reproducer(finding: Seen) -> list[str]:
    """Assembly that shows a finding, at most MOST_LINES, and what comes out of it as a comment.

    Of LDS, only the word that differs is filled before and read back, beside what is changed.
    """
    form = finding.form
    example = finding.examples[0] if finding.examples else None
    holder, expected, found = example.first if example else ("", "", "")
    lines = [*_filled(form, holder), form.text, *_read_back(form, holder)]
    if form.mode not in (USUAL, FLUSHING):
        told = (f".amdhsa_{key} {value}" for key, value in form.mode.directives.items()
                if value != USUAL.directives[key])  # fmt: skip
        lines = [f"; {' '.join(told)}", *lines]
    if not example:
        return lines
    if form.shape:
        made = ids.reproducer(form.shape, example.number)
        return [*made, f"; expected {example.expected}, found {example.found}"]
    if form.instruction.format == description.SCALAR_MEMORY:
        lines = scalar_memory.reproducer(form, example.number, example.sources)
        return [*lines, f"; {holder}: expected {expected}, found {found}"]
    if form.instruction.format == matrix.FORMAT:
        # The other lanes have sources of their own; of C, the element that differs counts.
        before = matrix.setup(form, example.number % LANES, _registers(holder))
        lines = [*before, *lines[len(form.setup) :]]
    if form.instruction.format == buffers.FORMAT:
        lines = [*buffers.reproducer(form, example.number), form.text]
    values = []
    given = example.sources[:-1] if form.scalar else example.sources
    register, word = ("s", 20) if form.scalar else ("v", SOURCE)
    for at, value in enumerate(given):
        words = [value.removeprefix("0x")[n : n + 8] for n in range(0, len(value) - 2, 8)][::-1]
        values += [(f"{register}{word + 2 * at + n}", each) for n, each in enumerate(words)]
    read = {each for line in lines for each in _registers(line)}
    setting = "s_mov_b32" if form.scalar else "v_mov_b32"
    made = [f"{setting} {to}, 0x{each}" for to, each in values if form.scalar or to in read]
    if form.scalar:
        made.append(f"s_cmp_lg_u32 {example.sources[-1].removeprefix('scc=')}, 0")
    some = "" if form.lanes == Form.lanes else f" with EXEC {form.lanes:#018x} there"
    if form.after or form.window:
        some += f", {holder}"
    else:
        expected, found = example.expected, example.found
    if form.instruction.format == matrix.FORMAT:
        some += f", with what the other lanes have of tuples {example.number // LANES * LANES} on"
    comment = f"; lane {example.number % LANES}{some}: expected {expected}, found {found}"
    return [*made, *lines, comment]


def _filled(form: Form, holder: str) -> list[str]:
    """The lines before a form; of those that fill a window of LDS, the one of the word that
    differs, and those of sources."""
    if not form.after:
        return list(form.setup)
    places = {_place(line) for line in _read_back(form, holder)}
    fills = f"ds_write_b32 v14, {_FILLER}"
    kept = [line for line in form.setup if not line.startswith(fills) or _place(line) in places]
    if not any(line.startswith(fills) for line in kept):
        kept = [line for line in kept if not line.startswith(f"v_mov_b32_e32 {_FILLER},")]
    return kept


def _read_back(form: Form, holder: str) -> list[str]:
    """The lines behind a form without those that read words which do not differ."""
    read = tuple(f"ds_read_b32 {each}," for each in _registers(holder))
    return [line for line in form.after if not line.startswith("ds_read") or line.startswith(read)]


def _place(line: str) -> int:
    """The offset of an access to LDS; -1 of what is none."""
    if not line.startswith("ds_"):
        return -1
    return int(line.partition("offset:")[2] or 0)


def _registers(line: str) -> set[str]:
    """The vector registers that a line names."""
    found = set(re.findall(r"\bv\d+\b", line))
    for low, high in re.findall(r"\bv\[(\d+):(\d+)\]", line):
        found |= {f"v{n}" for n in range(int(low), int(high) + 1)}
    return found


def text(told: Told) -> str:
    """The page, in Markdown."""
    found = by_instruction(told)
    total = counts(told.findings)
    lines = [
        f"# Instructions of {told.arch} on {told.title}", "",
        f"{len(told.findings)} forms tried: "
        + ", ".join(f"{count} {name}" for name, count in total.items())
        + f". Right is what the manual says ({told.words.manual(told.arch)}); where it leaves "
        "freedom, all that it allows.", "",
    ]  # fmt: skip
    wrong = {name: each for (name, kind), each in found.items() if kind is Found.WRONG}
    ends = {name: each for (name, kind), each in found.items() if kind is Found.ENDS}
    missing = {name: each for (name, kind), each in found.items() if kind is Found.MISSING}
    if wrong:
        lines += ["## Wrong results", ""]
    for name, members in wrong.items():
        lines += _section(told, name, members)
    if ends:
        lines += ["## The simulator ends", ""]
        lines += [f"- `{each[0].form.text}`: {each[0].reason}" for each in ends.values()] + [""]
    if missing:
        lines += ["## Not implemented", ""]
        lines += [
            f"- {name}: {', '.join(sorted({f.form.what for f in each}))}"
            for name, each in missing.items()
        ]
        lines.append("")
    return "\n".join(lines)


def _section(told: Told, name: str, members: Sequence[Seen]) -> list[str]:
    first = members[0]
    what, source = told.words.source(first, told.arch)
    lines = [
        f"### {name}", "",
        f"{first.wrong} of {first.lanes} {what} differ in `{first.form.text}` ({source}).",
    ]  # fmt: skip
    if len(members) > 1:
        forms = ", ".join(dict.fromkeys(each.form.what for each in members))
        lines.append(f"Wrong in these forms: {forms}.")
    if consequence := told.words.consequence(first.form):
        lines.append(f"What kernels of deep learning notice: {consequence}.")
    lines += ["", f"```{told.words.name}", *told.words.reproducer(first), "```", ""]
    if told.command:
        pattern = first.form.pattern if told.told_in else f"\\b{name}"
        lines += [f"    {told.command} {ConformChoices.only} '{pattern}'", ""]
    lines += ["| sources | expected | found |", "|---|---|---|"]
    lines += [f"| {' '.join(e.sources)} | {e.expected} | {e.found} |" for e in first.examples]
    return [*lines, ""]


def _source(seen: Seen, arch: str) -> tuple[str, str]:
    if seen.form.shape:
        return "work-items", ids.SOURCE
    format_ = seen.form.instruction.format
    return "tuples of values", f"{format_} Instructions in {description.manual(arch)}"


AMD = InstructionSet("asm", description.manual, _source, reproducer, consequences.consequence_of)
