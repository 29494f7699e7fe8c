"""lint: what a simulator makes of anybody's machine code, before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simgen.ask.checks import LintChoices
from simgen.cli import streams
from simgen.cli.answers import answer, json_option
from simgen.cli.options import asked, asks, verbosity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.isa.lint.linting import Finding, Looked

MOST_ROWS = 100  # rows of the table, without --verbose


@click.command()
@click.argument("files", nargs=-1, required=True,
                type=click.Path(path_type=Path, exists=True, allow_dash=True))  # fmt: skip
@asks(LintChoices)
@json_option
@click.option("--as", "form", type=click.Choice(("sarif", "github")), help=
                  "Print SARIF, or annotations of GitHub Actions.")  # fmt: skip
@verbosity
def lint(
    files: tuple[Path, ...],
    as_json: bool,
    form: str | None,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    """Report instructions that a simulator lacks or gets wrong.

    Files may come from any compiler: code objects, fat binaries (compressed too), HIP programs and
    libraries, static libraries, assembly, or folders of those, such as a bundle. Damaged ones are
    reported; the rest are still checked.

    A finding is `ends` (the simulation ends there), `wrong` (it continues with another result than
    a GPU's), or `edges` (wrong for a few special values; shown with -v). Exit code 4: there is a
    finding `ends` or `wrong`. A note is a defect of instructions that nearly all kernels have; it
    is printed once.

    \b
    simgen lint kernel.co --simulator gem5@24.0
    simgen lint libmine.so build/ --simulator mgpusim --json
    simgen lint kernel.co --table findings/lint.json
    simgen lint build/ --simulator gem5 --as sarif > lint.sarif
    """
    from simgen.cli import present
    from simgen.errors import UsageError
    from simgen.isa.legalise import facts, history
    from simgen.isa.lint import checking

    files = tuple(Path(streams.read(str(each), ".co", ".s")) for each in files)
    if form and as_json:
        raise UsageError(f"lint --as {form} --json: two forms of one output; leave out one of them")
    asking = asked(LintChoices, given)
    found = checking.lint(files, asking)
    findings, refused = found.findings, found.refused
    here = [each for each in found.looked if not each.skipped]
    if form:
        print(getattr(found, form)(edges=verbose))
    elif as_json:
        answer("lint", found.as_json())
    elif not quiet and found.looked:
        for reason in sorted({each.skipped for each in found.looked if each.skipped}):
            present.say(f"not looked at: code for another processor ({reason})")
        _print(here, findings if verbose else refused, verbose)
        edges = len(findings) - len(refused)
        if edges and not verbose:
            print(f"{edges} more are wrong for a few special values only: -v shows them")
        for note in found.notes:
            present.say(f"note: {', '.join(note.mnemonics)} ({note.times} times): {note.reason}")
        if found.simulator == facts.GEM5 and not asking.table:
            present.say(f"{found.title}: {history.provenance(found.version)}")
            rows = {row for each in here for row in history.launches(found.version, each.arch)}
            for row in sorted(rows, key=lambda row: row.name):
                present.say(f"launches: {found.title} {row.does}; {row.cure}")
    as_json = as_json or bool(form)
    # The last line is the error that the command ends with.
    if not as_json:
        for each in found.unread if refused else found.unread[1:]:
            click.echo(f"not looked at: {each.error}", err=True)
    found.check()
    if not quiet and not as_json:
        print(f"nothing in it that {found.title} is known to lack or to execute wrongly")


def _print(looked: Sequence[Looked], findings: Sequence[Finding], verbose: bool) -> None:
    from simgen.cli import present
    from simgen.isa.lint import containers

    shown = findings if verbose else _first_of_each(findings)[:MOST_ROWS]
    several = len({(each.held.path, each.held.inside) for each in looked}) > 1
    if shown:
        heads = ("kernel", "instruction", "address", "times", "source", "finding", "reason", "cure")
        present.table(
            None,
            (*(("file",) if several else ()), *heads),
            [
                (*((containers.place(f.path, f.inside),) if several else ()),
                 f.kernel, f.instruction, f"{f.address:#x}", 1 if verbose else _times(f, findings),
                 f.line, f.verdict, f.reason, f.cure)
                for f in shown
            ],
        )  # fmt: skip
        if not verbose:
            left = len(_first_of_each(findings)) - len(shown)
            print(
                f"{left} more rows: -v shows them"
                if left
                else "each instruction once: -v shows all"
            )
    kernels, count = sum(e.kernels for e in looked), sum(e.instructions for e in looked)
    print(f"looked at {len(looked)} code objects: {kernels} kernels, {count} instructions")


def _key(finding: Finding) -> tuple[object, ...]:
    return finding.path, finding.inside, finding.kernel, finding.instruction, finding.reason


def _first_of_each(findings: Sequence[Finding]) -> list[Finding]:
    found: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        found.setdefault(_key(finding), finding)
    return list(found.values())


def _times(finding: Finding, findings: Sequence[Finding]) -> int:
    return sum(_key(each) == _key(finding) for each in findings)
