"""diff and report: what came back."""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simgen.commands.options import verbosity
from simgen.errors import MismatchError, UsageError, did_you_mean, one_line

if TYPE_CHECKING:
    from simgen.bundle import Bundle
    from simgen.results import Result
    from simgen.trace import Run
    from simgen.verdict import Diff, Outcome

NO_OUTPUTS = "leaves no outputs to compare: its results are statistics only"


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--strict", is_flag=True, help="Fail where a tensor proves nothing, too.")
@verbosity
def diff(
    bundle: Path,
    a: str | None,
    b: str | None,
    as_json: bool,
    strict: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Compare the results in BUNDLE with the reference and with each other.

    A and B are targets that have run, points of a sweep, results.h5 files, or `reference`. Each is
    compared with the reference, and both with each other. Without them, every result is compared
    with the reference, and every two with each other (a point of a sweep with the first result of
    its target).

    A tensor is the same, different, or proved nothing: it is right, but a kernel that does nothing
    could have left it too. Exit code 6: they differ, or with --strict, one proved nothing.

    \b
    simgen diff softmax_fwd
    simgen diff softmax_fwd cuda gem5-se
    simgen diff softmax_fwd ../other_machine/results.h5 reference --json
    simgen diff softmax_fwd gem5-se@num_compute_units=8 cuda
    """
    from simgen import bundle as bundles
    from simgen import data, present, verdict
    from simgen import diff as diffs

    with bundles.opened(bundle) as made:
        found, pairs, silent = _chosen(made, a, b)
        with present.progress(quiet) as kind:
            bundles.verify_values(made, kind("checking data", present.size))
            inputs = data.load(made.path / bundles.DATA, made.workload)
            told = kind("comparing steps", str)
            reports = diffs.judge(made.workload, inputs, found, pairs, told)
        for result, report in zip(found, reports, strict=False):  # pairs come behind these
            _keep(made, result, report)
    words = ["simgen", "diff", str(bundle), *(word for word in (a, b) if word)]
    words += ["--strict"] if strict else []
    bad = verdict.failure(reports) or (strict and verdict.unproven(reports))
    if as_json:
        print(json.dumps({"bundle": str(bundle), **verdict.to_json(reports)}, indent=1))
    elif not quiet:
        for report in reports:
            present.difference(report, verbose)
        for name in silent:
            print(f"not compared: {name}, which {NO_OUTPUTS}")
        if len(found) > 1:
            present.launches(made.workload, found)
        if not bad:
            print(f"reproduce: {shlex.join(words)}")
        print(verdict.summary(reports))
    if bad:
        raise MismatchError(f"{bundle}: {bad}; see more with: {shlex.join(words)} -v")


def _chosen(
    bundle: Bundle, a: str | None, b: str | None
) -> tuple[list[Result], list[tuple[int, int]], list[str]]:
    """(the results to compare with the reference, those to compare with each other, by their
    places, the results without outputs to compare)."""
    from simgen.results import is_statistics_only, steps
    from simgen.verdict import REFERENCE

    if a is not None:
        chosen = [find_result(bundle, name) for name in (a, b or REFERENCE) if name != REFERENCE]
        if not chosen:
            raise UsageError("diff: the reference equals itself; name a target or a results file")
        return chosen, [(0, 1)] if len(chosen) > 1 else [], []
    found = {name: find_result(bundle, name) for name in bundle.ran()}
    if not found:
        raise UsageError(
            f"{bundle.path}: nothing has run yet; run it with: simgen run {bundle.path}"
        )
    silent = [name for name, result in found.items() if is_statistics_only(result)]
    if len(silent) == len(found):
        fact = f"{' and '.join(silent)} {NO_OUTPUTS}"
        raise UsageError(f"{bundle.path}: {fact}; read them with simgen report")
    found = {name: result for name, result in found.items() if name not in silent}
    ran = {name: steps(result, bundle.workload) for name, result in found.items()}
    names = list(found)
    pairs = [
        (names.index(x), names.index(y))
        for x, y in itertools.combinations(names, 2)
        if ran[x] & ran[y] and _is_shown(x, y, names)
    ]
    return list(found.values()), pairs, silent


def _is_shown(x: str, y: str, names: list[str]) -> bool:
    """Whether a diff of all results compares these two: of a sweep, each point only with the first
    result of its target."""
    from simgen import sweep

    firsts = {sweep.target_of(name): name for name in reversed(names)}
    same = sweep.target_of(x) == sweep.target_of(y)
    return x in firsts.values() and (same or y in firsts.values())


def find_result(bundle: Bundle, name: str) -> Result:
    """The result of a target or of a sweep's point, or one from a file."""
    from simgen import launch, results, sweep

    if name not in (*bundle.targets, *bundle.ran()):
        path = Path(name)
        if path.suffix == ".h5" or path.exists():
            return results.load(path, bundle.workload)
        raise UsageError(
            f"{bundle.path}: {name!r} is no target of it; "
            f"{did_you_mean(name, [*bundle.targets, *bundle.ran(), 'reference'])}"
        )
    folder = bundle.results(name)
    if folder is None:
        raise UsageError(
            f"{bundle.path}: {name} has not run yet; run it with: "
            f"simgen run {bundle.path} --on {name}"
        )
    target = launch.target_of(bundle, sweep.target_of(name))
    return results.settle(bundle, folder, results.collect(bundle, target, folder, name))


def _keep(bundle: Bundle, result: Result, report: Diff) -> None:
    """Leave what the reference says of a result of the bundle for reports."""
    from simgen import bundle as bundles
    from simgen import verdict, verdict_file

    if not result.seal:
        return
    steps: dict[str, list[Outcome]] = {}
    for each in report.verdicts:
        steps.setdefault(f"{each.layer} {each.direction}", []).append(each.outcome)
    outcomes = {step: str(verdict.together(found)) for step, found in steps.items()}
    verdict_file.save(bundle.path / bundles.RESULTS / result.name, result.seal, outcomes)


@click.command()
@click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), required=True, metavar="DIR"
)
@verbosity
def report(bundles: tuple[Path, ...], output: Path, quiet: bool, verbose: bool) -> None:
    """Compare what all results in BUNDLES measured, by layer and pass.

    \b
    DIR/report.html      figures and tables, on one page
    DIR/metrics.csv      metrics of each layer, pass and target
    DIR/correlation.csv  how well every two targets agree
    DIR/trace.sqlite3    metrics of each launch, tied to layer, pass and kernel, to be queried

    \b
    simgen report softmax_fwd -o report
    simgen report alexnet vgg16 -o report
    """
    from simgen import bundle as loader
    from simgen import present, trace
    from simgen import report_page as reports

    names = _names(bundles)
    with contextlib.ExitStack() as held:
        loaded = [held.enter_context(loader.opened(path)) for path in bundles]
        ran = [[_ran(made, name) for name in made.ran()] for made in loaded]
        if not any(ran):
            raise UsageError(
                f"{bundles[0]}: nothing has run yet; run it with: simgen run {bundles[0]}"
            )
        found = [
            row
            for name, made, runs in zip(names, loaded, ran)
            for row in reports.rows(
                made,
                [run.result for run in runs],
                name,
                {run.result.name: run.verdict for run in runs},
            )
        ]
        page = reports.write(output, found)
        trace.write(output / trace.FILE, zip(names, loaded, ran))
    if not quiet:
        present.report(found)
        present.correlations(reports.correlations(found))
        for name, runs in zip(names, ran):
            if not runs:
                print(f"not in the report: {name}, which has not run")
        for line in reports.doubts(found):
            print(line)
        print(f"page: {page}")


def _names(bundles: tuple[Path, ...]) -> list[str]:
    """Their folders' names; paths as given, where two have the same name.

    Raises:
        UsageError: a bundle is given twice.
    """
    homes = [path.resolve() for path in bundles]
    for at, home in enumerate(homes):
        if home in homes[:at]:
            raise UsageError(f"{bundles[at]}: given twice; name each bundle once")
    names = [one_line(home.name) for home in homes]
    return names if len(set(names)) == len(names) else [one_line(str(path)) for path in bundles]


def _ran(bundle: Bundle, name: str) -> Run:
    """A target's result, when it was complete, and what `simgen diff` said of it."""
    from simgen import bundle as bundles
    from simgen import verdict_file
    from simgen.trace import Run

    result = find_result(bundle, name)
    folder = bundle.path / bundles.RESULTS / name
    ended = datetime.fromtimestamp((folder / bundles.COMPLETE).stat().st_mtime, UTC)
    return Run(result, ended, verdict_file.read(folder))
