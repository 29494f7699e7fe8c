"""lint: what a simulator makes of anybody's machine code, before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simgen.ask.checks import SimulatorChoice
from simgen.cli import streams
from simgen.cli.answers import answer, json_option
from simgen.cli.options import asks, verbosity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.isa.lint.linting import Finding, Looked, Unread

MOST_ROWS = 100  # rows of the table, without --verbose


@click.command()
@click.argument("files", nargs=-1, required=True,
                type=click.Path(path_type=Path, exists=True, allow_dash=True))  # fmt: skip
@asks(SimulatorChoice)
@click.option("--table", "own", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              metavar="FILE", help=
                  "Instead of a simulator: lint.json of `simgen conform -o`.")  # fmt: skip
@click.option("--arch", default="", metavar="A", help="Processor of assembly that names none.")
@json_option
@click.option("--as", "form", type=click.Choice(("sarif", "github")), help=
                  "Print SARIF, or annotations of GitHub Actions.")  # fmt: skip
@verbosity
def lint(
    files: tuple[Path, ...],
    simulator: str | None,
    own: Path | None,
    arch: str,
    as_json: bool,
    form: str | None,
    quiet: bool,
    verbose: bool,
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
    from simgen.errors import RefusedError, UsageError
    from simgen.isa.legalise import facts, history
    from simgen.isa.lint import linting

    files = tuple(Path(streams.read(str(each), ".co", ".s")) for each in files)
    if form and as_json:
        raise UsageError(f"lint --as {form} --json: two forms of one output; leave out one of them")
    if bool(simulator) is bool(own):
        raise UsageError(f"lint: take one of {SimulatorChoice.simulator} S[@V] and --table FILE")
    seen = facts.own(own) if own else None
    named, version = (seen.simulator, seen.version) if seen else facts.named(simulator or "")
    looked, unread = linting.of_files(files, arch, named, version, seen)
    if not looked and not unread:
        raise UsageError(f"{files[0]}: no code for an AMD GPU in it; name the files that have some")
    here = [each for each in looked if not each.skipped]
    if not here and not unread:
        raise RefusedError(
            f"{looked[0].held.place}: {looked[0].skipped}; compile it for a processor that it has"
        )
    findings = [finding for each in looked for finding in each.findings]
    refused = [finding for finding in findings if finding.refused]
    title = f"{named} {version}"
    if form:
        from simgen.isa.lint import forges

        shown = findings if verbose else refused
        print(forges.sarif(shown, title) if form == "sarif" else forges.github(shown, title))
    elif as_json:
        source = seen.source if seen else _source(named, version)
        answer("lint", _json(looked, unread, (named, version, source)))
    elif not quiet and looked:
        for reason in sorted({each.skipped for each in looked if each.skipped}):
            present.say(f"not looked at: code for another processor ({reason})")
        _print(here, findings if verbose else refused, verbose)
        edges = len(findings) - len(refused)
        if edges and not verbose:
            print(f"{edges} more are wrong for a few special values only: -v shows them")
        for note in linting.notes_of(here):
            present.say(f"note: {', '.join(note.mnemonics)} ({note.times} times): {note.reason}")
        if named == facts.GEM5 and not seen:
            present.say(f"{title}: {history.provenance(version)}")
            rows = {row for each in here for row in history.launches(version, each.arch)}
            for row in sorted(rows, key=lambda row: row.name):
                present.say(f"launches: {title} {row.does}; {row.cure}")
    as_json = as_json or bool(form)
    # The last line is the error that the command ends with.
    if not as_json:
        for each in unread if refused else unread[1:]:
            click.echo(f"not looked at: {each.error}", err=True)
    kernels = {(f.path, f.inside, f.kernel) for f in refused}
    if refused:
        first = refused[0]
        raise RefusedError(
            f"{first.path}: {title} does not execute {len(refused)} instructions right, in "
            f"{len(kernels)} functions; the first is {first.instruction} in {first.kernel or 'it'}"
        )
    if unread:
        raise unread[0].error
    if not quiet and not as_json:
        print(f"nothing in it that {title} is known to lack or to execute wrongly")


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


def _source(simulator: str, version: str) -> str:
    from simgen.isa.legalise.facts import GEM5, of_version, versions
    from simgen.isa.legalise.history import provenance

    known = version in versions(simulator)
    how = f"; {provenance(version)}" if simulator == GEM5 else ""
    return of_version(simulator, version).source + how if known else "data/isa"


def _json(
    looked: Sequence[Looked], unread: Sequence[Unread], by: tuple[str, str, str]
) -> dict[str, Any]:
    return {
        **dict(zip(("simulator", "version", "source"), by, strict=True)),
        "code_objects": [
            {
                "file": str(each.held.path), "inside": each.held.inside, "arch": each.arch,
                "skipped": each.skipped,
                "kernels": each.kernels, "instructions": each.instructions,
                "findings": [
                    {"kernel": f.kernel, "instruction": f.instruction, "address": f.address,
                     "source": f.line, "finding": f.verdict, "refused": f.refused,
                     "reason": f.reason, "cure": f.cure}
                    for f in each.findings
                ],
                "notes": [{"instructions": list(n.mnemonics), "times": n.times, "reason": n.reason}
                          for n in each.notes],
            }
            for each in looked
        ],
        "unread": [{"file": str(each.path), "reason": str(each.error)} for each in unread],
    }  # fmt: skip
