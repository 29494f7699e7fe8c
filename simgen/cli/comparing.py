"""diff and report: what came back."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from simgen.ask.kinds import Real
from simgen.ask.report import ReportChoices
from simgen.bundle import manifest, result_names
from simgen.cli import completing, streams
from simgen.cli.answers import answer, json_option
from simgen.cli.numbers import number
from simgen.cli.options import asked, asks, folder_of_page, verbosity
from simgen.errors import UsageError, printable

FEW = 2  # results that are shown by tensors, or by layers
MOST = 2  # results that are named
LOSS, PERCENT, PRICE = Real("L"), Real("P", 0, 100, above=True), Real("MONEY", 0, above=True)


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path), shell_complete=completing.bundle)
@click.argument("pair", nargs=-1, metavar="[A] [B]", shell_complete=completing.results)
@json_option
@click.option("--strict", is_flag=True, help="Also fail if a tensor proves nothing.")
@number("--to-loss", kind=LOSS, help="Of training: print the first step with this loss, its time.")
@number("--to-accuracy", kind=PERCENT, help="The same of an accuracy on a batch, in per cent.")
@number("--price", kind=PRICE, help="Print what that costs, from the price of an hour of a GPU.")
@verbosity
def diff(
    bundle: Path,
    pair: tuple[str, ...],
    as_json: bool,
    strict: bool,
    to_loss: float | None,
    to_accuracy: float | None,
    price: float | None,
    quiet: bool,
    verbose: bool,
) -> None:
    """Check whether the results in BUNDLE are right.

    Each result is compared with a float64 reference, and each pair of results with each other. A
    point of a sweep is compared with its target's first result. A or B restricts this to
    targets that have run, points of a sweep, results.h5 files, or `reference`.

    Each tensor is `same`, `different`, or `proved nothing`: right, but a kernel that does nothing
    would pass too. Exit code 6: a tensor is different or, with --strict, proved nothing.

    \b
    simgen diff softmax_fwd
    simgen diff softmax_fwd cuda gem5-se
    simgen diff softmax_fwd ../other_machine/results.h5 reference --json
    simgen diff softmax_fwd gem5-se@num_compute_units=8 cuda
    simgen diff digits --to-loss 0.5 --price 2
    """
    if others := [each for each in pair if (Path(each) / manifest.FILE).is_file()]:
        each_one = shlex.join([str(bundle), *others])
        cure = f'judge each: for b in {each_one}; do simgen diff "$b"; done'
        raise UsageError(f"{others[0]}: a bundle, and diff takes one; {cure}")
    if len(pair) > MOST:
        raise UsageError(f"diff {printable(pair[MOST])}: takes at most two results; leave it out")
    a, b = (*(streams.read(each, ".h5") for each in pair), None, None)[:MOST]
    if price is not None and to_loss is None and to_accuracy is None:
        raise UsageError("--price: nothing to reach; give --to-loss or --to-accuracy")
    goals = Goals(to_loss, to_accuracy, price)
    judge(bundle, a, b, goals, as_json=as_json, strict=strict, quiet=quiet, verbose=verbose)


@dataclass(frozen=True)
class Goals:
    """What training is to reach, and the price of an hour of a GPU."""

    loss: float | None = None
    accuracy: float | None = None
    price: float | None = None


def judge(
    bundle: Path,
    a: str | None,
    b: str | None,
    goals: Goals | None = None,
    *,
    as_json: bool,
    strict: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """What `simgen diff` does."""
    from simgen.bundle import writing as bundles
    from simgen.cli import present
    from simgen.verdict import judging

    with bundles.opened(bundle) as made, present.stages(quiet) as tell:
        judged = judging.judge(made, a, b, strict=strict, tell=tell)
    if as_json:
        answer("diff", judged.as_json())
    elif not quiet:
        names = [each.name for each in judged.results]
        points = a is None and len(names) > 1 and any(map(result_names.options_of, names))
        many = (len(names) > FEW or points) and not verbose
        if many:
            present.differences(judged.reports)
        for report in () if many else judged.reports:
            present.difference(report, verbose)
        for name in judged.silent:
            present.say(f"not compared: {name}, which {judging.NO_OUTPUTS}")
        present.losses(judged.losses)
        if goals and not (judged.losses or goals == Goals()):
            raise UsageError(f"{bundle}: no training with a loss; build it with --training")
        if goals:
            present.reached(judged, goals.loss, goals.accuracy, goals.price)
        if verbose or len(judged.results) > 1:
            present.machine(made.workload)
        if len(judged.results) > 1 and not many:
            present.launches(made.workload, judged.results)
        if many:
            print("-v shows every tensor and launch")
        if judged:
            print(f"reproduce: {shlex.join(judged.words)}")
        print(judged.summary)
    judged.check()


@click.command()
@click.argument(
    "bundles", nargs=-1, required=True, metavar="BUNDLE|FOLDER...", type=click.Path(path_type=Path)
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default="report",
    show_default=True,
    metavar="DIR",
    callback=folder_of_page,
    help="Folder to write to.",
)
@click.option(
    "--baseline",
    metavar="RESULT",
    shell_complete=completing.baselines,
    help="Compute speed-ups over this result: TARGET, a point of a sweep, or BUNDLE:TARGET.",
)
@click.option(
    "--score",
    is_flag=True,
    help="Print AI operations per second of each result, and write nothing.",
)
@asks(ReportChoices)
@json_option
@verbosity
def report(
    bundles: tuple[Path, ...],
    output: Path,
    baseline: str | None,
    score: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    """Report the measurements of bundles, or of a sweep's FOLDER.

    The report has all metrics of all results, by layer and pass:

    \b
    DIR/report.html      figures and tables, on one page
    DIR/metrics.csv      metrics of each layer, pass and target
    DIR/baseline.csv     speed-ups over the result that --baseline names
    DIR/correlation.csv  agreement of each pair of targets
    DIR/figures/         figures for paper, with --figures
    DIR/timeline.json    layers and launches in time, for Perfetto and Chrome
    DIR/trace.sqlite3    metrics of each launch, for queries

    \b
    simgen report softmax_fwd
    simgen report alexnet vgg16 -o side_by_side
    simgen report alexnet --baseline gem5-se@num_compute_units=4 -o report
    simgen report alexnet --figures pdf --width 3.3in --as tex
    simgen report alexnet --score
    simgen report caches -o so-far

    FOLDER is that of `simgen sweep`. Its finished points are collected in FOLDER/store.sqlite3. The
    report has the fast and cheap points (Pareto), the effect of each setting (DIR/sensitivity.csv),
    and speed-ups over the base point (DIR/points.csv).

    A score is the operations of all layers, as `simgen show` counts them, divided by the time of
    all launches, copies included. A target with several bundles gets the geometric mean. A result
    that is different, or has no operations, gets none.
    """
    from click.core import ParameterSource

    from simgen.cli import present
    from simgen.reports import collecting
    from simgen.reports.pages import reporting
    from simgen.reports.pages.page import correlations

    if score:
        source = click.get_current_context().get_parameter_source
        usual = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
        for name in ("output", "baseline", *given):
            if source(name) not in usual:
                spelling = {"output": "-o", "form": "--as"}.get(name, f"--{name}")
                raise UsageError(f"--score: writes nothing, so not with {spelling}; leave one out")
        _score(bundles, as_json)
        return
    quiet = quiet or as_json
    stores = [path for path in bundles if path.is_file() or collecting.is_sweep(path)]
    if stores:
        if len(bundles) > 1:
            raise UsageError(f"{stores[0]}: a sweep is reported by itself; leave out the others")
        if stores[0].is_dir():
            stores = [collecting.collect(stores[0])[0]]
        _report_store(stores[0], output, baseline, quiet, asked(ReportChoices, given), as_json)
        return
    looks = asked(ReportChoices, given)
    made = reporting.write(bundles, output, baseline, looks=looks)
    if as_json:
        table = made.columns()
        rows = [dict(zip(table, line)) for line in zip(*table.values())]
        doubts = [*made.passed_over, *made.doubts]
        told = {"page": str(made.page), "rows": rows, "doubts": doubts, "not_run": made.idle}
        answer("report", told)
    if not quiet:
        if len({(row.bundle, row.result) for row in made.rows}) > FEW and not verbose:
            present.results(made.rows)
            print("-v shows every layer and pass")
        else:
            present.report(made.rows)
        present.correlations(correlations(made.rows))
        for name in made.idle:
            present.say(f"not in the report: {name}, which has not run")
        for line in (*made.passed_over, *made.doubts):
            present.say(line)
        print(f"page: {made.page}")
        if looks.form == "tex":
            print(f"LaTeX: {made.page.with_suffix('.tex')}, with figures beside it")
        again = {"report.tex": "--as tex", "figures": f"{ReportChoices.figures} pdf"}
        kept = looks.form == "tex", looks.form == "tex" or bool(looks.figures)
        for (name, option), is_new in zip(again.items(), kept, strict=True):
            if not is_new and (old := made.page.with_name(name)).exists():
                present.say(f"of an earlier report: {old}; remove it, or write it with {option}")


def _score(bundles: Sequence[Path], as_json: bool) -> None:
    from simgen.cli import present
    from simgen.reports.pages import reporting
    from simgen.reports.pages import score as scoring

    found = scoring.scores(reporting.rows(bundles))
    if not found:
        cure = "run a bundle on a target that measures time"
        raise UsageError(f"{bundles[0]}: no result has times of all layers; {cure}")
    if as_json:
        scores = [
            {"bundle": each.bundle, "result": each.target, "operations": each.operations,
             "seconds": each.seconds, "operations_per_second": each.rate, "doubt": each.doubt}
            for each in found
        ]  # fmt: skip
        answer("score", {"scores": scores})
        return
    heads, named = present.by_settings(list(dict.fromkeys(each.target for each in found)))
    rows = [
        (
            each.bundle,
            *named[each.target],
            present.count(each.operations) if each.operations else "not known: no flops",
            present.seconds(each.seconds),
            "" if each.rate is None else present.count(each.rate),
            each.doubt and f"verdict: {each.doubt}",
        )
        for each in found
    ]
    present.table(None, ("bundle", *heads, "operations", "time", "AI operations / s", ""), rows)
    for target, rate in scoring.of_machines(found).items():
        print(f"{target}: {present.count(rate)} AI operations per second")


def _report_store(
    path: Path,
    output: Path,
    baseline: str | None,
    quiet: bool,
    looks: ReportChoices,
    as_json: bool,
) -> None:
    from simgen.cli import present
    from simgen.reports.pages import explored_page

    made = explored_page.write(path, output, baseline, looks)
    if as_json:
        table = explored_page.columns(made.points)
        rows = [dict(zip(table, line)) for line in zip(*table.values())]
        told = {"page": str(made.page), "rows": rows, "doubts": list(made.doubts), "not_run": []}
        answer("report", told)
    if quiet:
        return
    present.table(None, *explored_page.short(made.points))
    for line in made.doubts:
        present.say(line)
    print(f"page: {made.page}")
