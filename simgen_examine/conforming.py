"""conform: what a build of a simulator makes of single instructions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simgen.ask.checks import ConformChoices
from simgen.cli.answers import answer, json_option
from simgen.cli.numbers import SECONDS, number
from simgen.cli.options import asked, asks, verbosity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen_examine.conform.page import Told

FINDINGS = "conformance"  # a folder of it
MOST_ROWS = 60  # rows of the table, without --verbose


@click.command()
@asks(ConformChoices)
@number(
    "--timeout",
    kind=SECONDS,
    help="Time limit: seconds per run; on gem5, CPU seconds per kernel [default: 120]; for PTX, "
    "seconds per kernel [default: 10].",
)
@click.option("-o", "output", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Write page.md, findings.json and a table for lint to DIR.")  # fmt: skip
@click.option("--against", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              metavar="FILE", help=
                  "findings.json of an earlier build: only what is worse now gives exit code 6.",
              )  # fmt: skip
@json_option
@verbosity
def conform(
    timeout: float | None,
    output: Path | None,
    against: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    """Compare single instructions with the vendor's manuals.

    Each lane of each instruction on a simulator is compared. On cuda and gpgpusim, the instructions
    are PTX. A real GPU must have no wrong ones.

    Each instruction is tried in all encodings, with modifiers, kinds of sources and special values.
    A form is `right`, `wrong`, `missing` (the simulator has no code for it), or `ends` the
    simulator. After `ends`, the remaining forms are still tried. Exit code 6: a form is not right.

    \b
    simgen conform --on mgpusim
    simgen conform --on mgpusim --only v_fma_f32 -v
    simgen conform --on gem5-se --only '^v_sin_f32_e' --legalised
    GPGPUSIM_ROOT=~/gpgpu-sim simgen conform --on gpgpusim -o findings
    GEM5=~/gem5 simgen conform --on gem5-se -o findings
    simgen conform --on gem5-se --against findings/findings.json
    """
    import re
    import sys

    from simgen.bundle import outputs
    from simgen.errors import MismatchError, UsageError, did_you_mean
    from simgen.ground.storage.files import write_atomic
    from simgen_examine.conform import lint_table, page, probe
    from simgen_examine.conform.judging import Found
    from simgen_examine.conform.ptx import telling, trial

    context = click.get_current_context()
    if given["on"] is None:
        raise click.MissingParameter(ctx=context, param=context.command.params[0])
    wanted, choices = asked(ConformChoices, given), ConformChoices
    on, mode, version = wanted.on or "", wanted.mode or "", wanted.gem5_version or ""
    only = wanted.only or ""
    modes = {probe.ON[1]: ("emu", "timing"), trial.GPGPUSIM: trial.MODES}.get(on, ())
    if mode and mode not in modes:
        raise UsageError(
            f"{choices.mode} {mode}: "
            + (did_you_mean(mode, modes) if modes else f"{on} has none; leave it out")
        )
    is_ptx = on in trial.ON
    if is_ptx and (wanted.legalised or wanted.all):
        part = choices.legalised if wanted.legalised else choices.all
        raise UsageError(f"{part}: {on} has none; leave it out")
    if version and on != probe.ON[0]:
        raise UsageError(f"{choices.gem5_version} {version}: {on} has none; leave it out")
    if wanted.legalised and output:
        raise UsageError(
            f"-o {output}: {choices.legalised} tells nothing of the simulator; leave it out"
        )
    before = page.read_findings(against) if against else None
    if output:
        outputs.check(output, FINDINGS)
    if timeout is not None and timeout <= 0:
        raise UsageError(f"--timeout {timeout:g}: write seconds, such as 120")
    try:
        re.compile(only)
    except re.error as error:
        fact = f"no regular expression ({error})"
        raise UsageError(f"{choices.only} {only}: {fact}; correct it") from None

    def tell(text: str) -> None:
        if not quiet and not as_json:
            print(text, file=sys.stderr, flush=True)

    run: probe.Trial | trial.PtxTrial
    if is_ptx:
        run = trial.PtxTrial(on, wanted.arch or "", mode, timeout or 0.0, only, tell)
    else:
        run = probe.Trial(
            on, wanted.arch or "", mode, version, timeout or probe.LIMIT, only, wanted.all,
            wanted.legalised, tell,
        )  # fmt: skip
    found = run.findings()
    told = page.Told(
        run.title, run.arch_name, tuple(found), run.seconds, run.command,
        telling.PTX if is_ptx else None,
    )  # fmt: skip
    if output:
        outputs.folder(output, FINDINGS)
        write_atomic(output / "page.md", page.text(told).encode())
        write_atomic(
            output / "findings.json", (json.dumps(page.rows(told), indent=1) + "\n").encode()
        )
        rows = lint_table.opcodes if is_ptx else lint_table.rows
        table = rows(told, run.lint_name, run.version_name)
        write_atomic(output / "lint.json", (json.dumps(table, indent=1) + "\n").encode())
    if as_json:
        answer("conform", page.rows(told))
    elif not quiet:
        _print(told, verbose)
    wrong = [each for each in found if each.found not in (Found.RIGHT, Found.REFUSED)]
    if before is not None:
        _compare(told, before, quiet or as_json)
    elif wrong:
        counts = page.counts(found)
        raise MismatchError(
            f"{run.title}: {counts['wrong']} of {len(found)} forms of instructions are wrong, "
            f"{counts['missing']} missing, and {counts['ends']} end it; -v tells of each"
        )


def _compare(told: Told, before: Mapping[str, str], quiet: bool) -> None:
    """What is worse than before, and by class.

    Raises:
        MismatchError: a form is.
    """
    from simgen.errors import MismatchError
    from simgen_examine.conform import page

    worse, better = page.compared(told, before)
    if not quiet:
        for name, (was, now) in (worse | better).items():
            print(f"{'worse' if name in worse else 'better'}: {name}: {was}, now {now}")
        classes = Counter(f"{was}, now {now}" for was, now in (worse | better).values())
        same = len(told.findings) - len(worse) - len(better)
        print("; ".join([f"{same} as before", *(f"{n} {what}" for what, n in classes.items())]))
    if worse:
        first = next(iter(worse))
        raise MismatchError(
            f"{told.title}: {len(worse)} forms of instructions are worse than before, the first "
            f"is {first}" + ("; without -q each is listed" if quiet else "")
        )


for _each in conform.params:
    _each.required = _each.name == ConformChoices.on.name


def _print(told: Told, verbose: bool) -> None:
    from simgen.cli import present
    from simgen_examine.conform import page

    rows = page.table(told, verbose)
    shown = rows if verbose else rows[:MOST_ROWS]
    if shown:
        heads = (
            "instruction",
            "finding",
            "forms",
            "of",
            "first",
            "lanes",
            "sources",
            "expected",
            "found",
        )
        present.table(None, heads, shown)
    if len(shown) < len(rows):
        print(f"{len(rows) - len(shown)} more rows: -v shows them")
    counts = page.counts(told.findings)
    print(
        f"{told.title}, {told.arch}: {len(told.findings)} forms: "
        + ", ".join(f"{count} {name}" for name, count in counts.items())
        + f"; {told.seconds:.0f} s of simulation"
    )
