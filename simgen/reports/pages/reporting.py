"""What `simgen report` writes: the page, the tables and the trace database of several bundles."""

from __future__ import annotations

import contextlib
import os
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simgen.ask.run import RunChoices
from simgen.bundle import (
    commands,
    finding,
    outputs,
    result_names,
    run_record,
    verdict_file,
)
from simgen.bundle import writing as bundles
from simgen.bundle.finding import find_result
from simgen.errors import UsageError, one_line
from simgen.ground import html, tidy
from simgen.ground.metrics import seconds
from simgen.reports.pages import limits, summary, timeline, trace
from simgen.reports.pages import page as report_page
from simgen.reports.pages.trace import TracedRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.ask.report import ReportChoices
    from simgen.bundle.writing import Bundle
    from simgen.reports.pages.figures import Plot
    from simgen.reports.pages.row import Row


REPORT = "report"  # a folder of it


class Rows(tuple["Row", ...], tidy.Tidy):
    """A row for each layer, pass and result. The table has the columns of metrics.csv."""

    def columns(self) -> dict[str, list[Any]]:
        return report_page.columns(self)


@dataclass(frozen=True)
class Report(tidy.Tidy):
    """What a report consists of.

    Attributes:
        page: report.html; metrics.csv, correlation.csv, trace.sqlite3 and timeline.json lie beside
            it.
        rows: one for each layer, pass and result.
        idle: bundles that have not run.
        passed_over: a line for each result that could not be compared with the baseline.
    """

    page: Path
    rows: Rows
    idle: tuple[str, ...]
    passed_over: tuple[str, ...] = ()

    @property
    def figures(self) -> dict[str, Plot]:
        """The figures of the page by title. A notebook shows one, and `save` writes it."""
        return dict(report_page.figures_of(self.rows))

    def __repr__(self) -> str:
        results = len({(row.bundle, row.result) for row in self.rows})
        return f"<Report {self.page}: {results} results, {len(self.rows)} rows>"

    def _repr_html_(self) -> str:
        heads = ("bundle", "result", "layer", "pass", "verdict", "time", "limited by")
        rows = [
            (
                row.bundle, row.result, row.layer, row.pass_, row.verdict,
                seconds(row.metrics["seconds"]) if row.metrics.get("seconds") else "",
                limits.limit_of(row) or "",
            )
            for row in self.rows
        ]  # fmt: skip
        return html.table(heads, rows)

    def columns(self) -> dict[str, list[Any]]:
        """The columns of metrics.csv."""
        return self.rows.columns()

    @property
    def doubts(self) -> list[str]:
        """What a reader must know before believing the numbers."""
        return report_page.doubts(self.rows)


def rows(paths: Sequence[Path]) -> Rows:
    """A row for each layer, pass and result of the bundles; nothing is written.

    Raises:
        UsageError: a bundle is given twice, there is none, or nothing has run.
        DamagedError: a result is not what its run left.
    """
    with contextlib.ExitStack() as held:
        loaded = [held.enter_context(bundles.opened(path)) for path in paths]
        return Rows(_rows(_names(paths), loaded, _all_that_ran(paths, loaded)))


def write(
    paths: Sequence[Path],
    output: Path,
    baseline: str | None = None,
    what: str = REPORT,
    looks: ReportChoices | None = None,
) -> Report:
    """Write what all results in the bundles measured into the folder `output`.

    `baseline` is the result that the others are compared with: TARGET, or BUNDLE:TARGET. The folder
    is one for `what`. `looks` says what lies beside the page, and its title.

    Raises:
        UsageError: a bundle is given twice, there is none, or nothing has run; the baseline is not
            there, counted no time, or is of another workload; the folder is something else.
        DamagedError: a result is not what its run left.
    """
    names = _names(paths)
    outputs.check(output, what)
    with contextlib.ExitStack() as held:
        loaded = [held.enter_context(bundles.opened(path)) for path in paths]
        ran = _all_that_ran(paths, loaded)
        found = _rows(names, loaded, ran)
        places = [(name, run.result.name) for name, runs in zip(names, ran) for run in runs]
        told = [
            summary.run_facts(
                name,
                run.result,
                f"{run.finished:%Y-%m-%d %H:%M:%S} UTC",
                _again(made, run),
                made.workload.contract,
            )
            for name, made, runs in zip(names, loaded, ran)
            for run in runs
        ]
        against = None
        if baseline is not None:
            against = summary.against(found, told, *summary.baseline(baseline, places))
        outputs.folder(output, what)
        page = report_page.write(output, found, told, against, looks)
        trace.write(output / trace.FILE, zip(names, loaded, ran))
        measured = [[run.result for run in runs] for runs in ran]
        timeline.write(output / timeline.FILE, zip(names, loaded, measured))
    idle = tuple(name for name, runs in zip(names, ran) if not runs)
    return Report(page, Rows(found), idle, against.passed_over if against else ())


def _again(bundle: Bundle, run: TracedRun) -> list[str]:
    """The commands that build the bundle and run it again."""
    name = run.result.name
    target = finding.target_of(bundle, result_names.target_of(name))
    record = run_record.read_run(bundle.path / bundles.RESULTS / name, bundle.workload)
    words = commands.run(bundle.path, target, name, record)
    try:
        built = [shlex.join(each) for each in commands.build(bundle)]
    except UsageError as error:  # a file that it was built from is gone, say
        built = [f"# {error}"]
    return [
        one_line(each)
        for each in (
            *built,
            shlex.join([*words, *RunChoices(replace=True).words()]),
        )
    ]  # a path may be no text


def _all_that_ran(paths: Sequence[Path], loaded: Sequence[Bundle]) -> list[list[TracedRun]]:
    """The results of each bundle.

    Raises:
        UsageError: there are none.
    """
    found = [[ran(made, name) for name in made.ran()] for made in loaded]
    if not any(found):
        raise UsageError(
            f"{paths[0]}: nothing has run yet; run it with: simgen run {shlex.quote(str(paths[0]))}"
        )
    return found


def _rows(
    names: Sequence[str], loaded: Sequence[Bundle], ran: Sequence[Sequence[TracedRun]]
) -> list[Row]:
    """A row for each layer, pass and result."""
    return [
        row
        for name, made, runs in zip(names, loaded, ran)
        for row in report_page.rows(
            made,
            [run.result for run in runs],
            name,
            {run.result.name: run.verdict for run in runs},
        )
    ]


def _names(paths: Sequence[Path]) -> list[str]:
    """Their folders' names; paths as given, where two have the same name.

    Raises:
        UsageError: a bundle is given twice.
    """
    homes = [Path(os.path.realpath(path)) for path in paths]  # resolves circular links, too
    for at, home in enumerate(homes):
        if home in homes[:at]:
            raise UsageError(f"{paths[at]}: given twice; name each bundle once")
    names = [one_line(home.name) for home in homes]
    return names if len(set(names)) == len(names) else [one_line(str(path)) for path in paths]


def ran(bundle: Bundle, name: str) -> TracedRun:
    """A target's result, when it was complete, and what `simgen diff` said of it."""
    result = find_result(bundle, name)
    folder = bundle.path / bundles.RESULTS / name
    ended = datetime.fromtimestamp((folder / bundles.COMPLETE).stat().st_mtime, UTC)
    return TracedRun(result, ended, verdict_file.read_outcomes(folder))
