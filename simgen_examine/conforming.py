"""conform: what a build of a simulator makes of single instructions."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simgen.ask.checks import ConformChoices
from simgen.cli.answers import answer, json_option
from simgen.cli.options import asked, asks, verbosity
from simgen.errors import MismatchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.ground.examined import Conformance
    from simgen_examine.conform.page import Told

FINDINGS = "conformance"  # a folder of it
MOST_ROWS = 60  # rows of the table, without --verbose


@click.command()
@asks(ConformChoices)
@json_option
@verbosity
def conform(as_json: bool, quiet: bool, verbose: bool, **given: Any) -> None:
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
    simgen conform --on mgpusim@~/mgpusim --against findings/findings.json
    """
    context = click.get_current_context()
    if given["on"] is None:
        raise click.MissingParameter(ctx=context, param=context.command.params[0])

    def tell(text: str) -> None:
        if not quiet and not as_json:
            print(text, file=sys.stderr, flush=True)

    told, found = _examined(asked(ConformChoices, given), tell)
    if as_json:
        from simgen_examine.conform import page

        answer("conform", page.rows(told))
    elif not quiet:
        _print(told, verbose)
        _compare(found)
    if found.before and found.failure and (quiet or as_json):
        raise MismatchError(f"{found.failure}; without -q each is listed")
    if not found.before and found.failure:
        raise MismatchError(f"{found.failure}; -v tells of each")
    found.check()


def examine(wanted: ConformChoices, tell: Callable[[str], None] = lambda _: None) -> Conformance:
    """What `simgen conform` finds; `tell` gets a line as runs end.

    Raises:
        UsageError: the choices do not go together, or no form matches.
        MissingError: the target cannot run here.
        RunError: it fails, and no instruction that is tried is to blame.
        DamagedError: `against` is no findings.json.
    """
    return _examined(wanted, tell)[1]


def _examined(wanted: ConformChoices, tell: Callable[[str], None]) -> tuple[Told, Conformance]:
    from simgen.bundle import outputs
    from simgen.errors import UsageError, did_you_mean
    from simgen.ground.storage.files import write_atomic
    from simgen_examine import builds
    from simgen_examine.conform import lint_table, page, probe
    from simgen_examine.conform.ptx import telling, trial

    choices = ConformChoices
    whole = wanted.on or ""
    on, folder = builds.split(whole)
    mode, version = wanted.mode or "", wanted.gem5_version or ""
    only = wanted.only or ""
    modes = {probe.ON[1]: ("emu", "timing"), trial.GPGPUSIM: trial.MODES}.get(on, ())
    if mode and mode not in modes:
        raise UsageError(
            f"{choices.mode} {mode}: "
            + (did_you_mean(mode, modes) if modes else f"{on} has none; leave it out")
        )
    is_ptx = on in trial.ON
    if is_ptx and folder:
        raise UsageError(f"{choices.on} {whole}: {on} has no other builds; leave @{folder} out")
    if is_ptx and (wanted.legalised or wanted.all):
        part = choices.legalised if wanted.legalised else choices.all
        raise UsageError(f"{part}: {on} has none; leave it out")
    if version and on != probe.ON[0]:
        raise UsageError(f"{choices.gem5_version} {version}: {on} has none; leave it out")
    output = Path(wanted.output) if wanted.output else None
    if wanted.legalised and output:
        fact = f"{choices.legalised} tells nothing of the simulator"
        raise UsageError(f"{choices.output} {output}: {fact}; leave it out")
    before = page.read_findings(Path(wanted.against)) if wanted.against else None
    if output:
        outputs.check(output, FINDINGS)
    try:
        re.compile(only)
    except re.error as error:
        fact = f"no regular expression ({error})"
        raise UsageError(f"{choices.only} {only}: {fact}; correct it") from None
    run: probe.Trial | trial.PtxTrial
    if is_ptx:
        run = trial.PtxTrial(whole, wanted.arch or "", mode, wanted.timeout or 0.0, only, tell)
    else:
        run = probe.Trial(
            whole, wanted.arch or "", mode, version, wanted.timeout or probe.LIMIT, only,
            wanted.all, wanted.legalised, tell,
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
    return told, page.conformance(told, before)


def _compare(found: Conformance) -> None:
    """What is worse or better than before, and by class."""
    if not found.before:
        return
    for what, them in (("worse", found.worse), ("better", found.better)):
        for name, (was, now) in them.items():
            print(f"{what}: {name}: {was}, now {now}")
    changed = [*found.worse.values(), *found.better.values()]
    classes = Counter(f"{was}, now {now}" for was, now in changed)
    same = len(found.forms) - len(changed)
    print("; ".join([f"{same} as before", *(f"{n} {what}" for what, n in classes.items())]))


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
