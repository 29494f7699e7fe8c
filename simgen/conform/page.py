"""Findings told: a table, JSON, and a page that fits into a bug report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.conform import consequences, description, ids
from simgen.conform.judging import Found

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.conform.judging import Seen

MOST_LINES = 15  # of a reproducer


@dataclass(frozen=True)
class Told:
    """All findings of a run."""

    title: str  # the simulator, its version and mode
    arch: str
    findings: tuple[Seen, ...]
    seconds: float
    command: str = ""  # that gives them


def counts(findings: Sequence[Seen]) -> dict[str, int]:
    """Forms by what was found."""
    return {each.value: sum(f.found is each for f in findings) for each in Found}


def by_instruction(told: Told) -> dict[tuple[str, Found], list[Seen]]:
    """Findings that are not right, by instruction and kind."""
    found: dict[tuple[str, Found], list[Seen]] = {}
    order = (Found.WRONG, Found.ENDS, Found.MISSING)
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
        "manual": description.manual(told.arch),
        "seconds": round(told.seconds, 1),
        "counts": counts(told.findings),
        "forms": [
            {
                "instruction": each.form.instruction.name, "text": each.form.text,
                "form": each.form.what, "finding": each.found.value, "reason": each.reason,
                "lanes": each.lanes, "wrong": each.wrong,
                "examples": [vars(example) for example in each.examples],
                "consequence": consequences.of(each.form),
            }
            for each in told.findings
        ],
    }  # fmt: skip


def reproducer(finding: Seen) -> list[str]:
    """Assembly that shows a finding, with its values as comments."""
    form = finding.form
    lines = []
    example = finding.examples[0] if finding.examples else None
    if example and not form.scalar:
        for at, value in enumerate(example.sources):
            words = [value.removeprefix("0x")[n : n + 8] for n in range(0, len(value) - 2, 8)][::-1]
            lines += [f"v_mov_b32 v{4 + 2 * at + n}, 0x{word}" for n, word in enumerate(words)]
    elif example:
        for at, value in enumerate(example.sources[:-1]):
            words = [value.removeprefix("0x")[n : n + 8] for n in range(0, len(value) - 2, 8)][::-1]
            lines += [f"s_mov_b32 s{20 + 2 * at + n}, 0x{word}" for n, word in enumerate(words)]
        lines.append(f"s_cmp_lg_u32 {example.sources[-1].removeprefix('scc=')}, 0")
    lines += [*form.setup, form.text]
    where = f"lane {example.number % 64}: " if example else ""
    if example and form.shape:
        lines, where = ids.reproducer(form.shape, example.number), ""
    if example:
        lines.append(f"; {where}expected {example.expected}, found {example.found}")
    return lines[-MOST_LINES:]


def text(told: Told) -> str:
    """The page, in Markdown."""
    found = by_instruction(told)
    total = counts(told.findings)
    lines = [
        f"# Instructions of {told.arch} on {told.title}", "",
        f"{len(told.findings)} forms tried: "
        + ", ".join(f"{count} {name}" for name, count in total.items())
        + f". Right is what the manual says ({description.manual(told.arch)}); where it leaves "
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
    instruction = first.form.instruction
    what, source = "tuples of values", f"{instruction.format} Instructions in "
    source += description.manual(told.arch)
    if first.form.shape:
        what, source = "work-items", ids.SOURCE
    lines = [
        f"### {name}", "",
        f"{first.wrong} of {first.lanes} {what} differ in `{first.form.text}` ({source}).",
    ]  # fmt: skip
    if len(members) > 1:
        forms = ", ".join(dict.fromkeys(each.form.what for each in members))
        lines.append(f"Wrong in these forms: {forms}.")
    if consequence := consequences.of(first.form):
        lines.append(f"What kernels of deep learning notice: {consequence}.")
    lines += ["", "```asm", *reproducer(first), "```", ""]
    if told.command:
        lines += [f"    {told.command} --only '\\b{name}'", ""]
    lines += ["| sources | expected | found |", "|---|---|---|"]
    lines += [f"| {' '.join(e.sources)} | {e.expected} | {e.found} |" for e in first.examples]
    return [*lines, ""]
