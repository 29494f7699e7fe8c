"""A whole study: its runs, a table beside each figure, the trace database, and one page of all."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from simgen.ask.report import FORMATS, FigureChoices
from simgen.bundle import outputs
from simgen.errors import RunError
from simgen.ground.storage.files import write_atomic
from simgen.kernels import render
from simgen.reports.pages import correlation, reporting
from simgen.reports.pages import page as report_page
from simgen.reports.studies import drawing, elsewhere, explaining, measuring, statements
from simgen.reports.studies.operating_points import CLOCKS, GPUS, UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simgen.reports.pages.correlation import Correlation
    from simgen.reports.pages.row import Row
    from simgen.reports.studies.definition import Study
    from simgen.reports.studies.drawn import Drawn
    from simgen.reports.studies.measuring import Measured, Scope, StudyListener
    from simgen.reports.studies.statements import Judged

PAGE, FIGURES, STATEMENTS = "study.html", "figures", "statements.csv"


@dataclass(frozen=True)
class Made:
    """What a study came to.

    Attributes:
        page: study.html; figures/ with a table and pictures of each figure lies beside it.
        figures: all of them, in the study's order.
        failed: points that have no result, and why.
        waiting: targets of another machine that points have no result of, how many, and what to do.
        passed: targets that cannot run here, and why.
        judged: the publication's sentences beside what was measured.
        agreement: how well each simulator agrees with a GPU, metric by metric.
    """

    page: Path
    figures: tuple[Drawn, ...]
    failed: Mapping[str, str]
    passed: Mapping[str, str]
    points: int
    agreement: tuple[Correlation, ...] = ()
    judged: tuple[Judged, ...] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise RunError if points failed."""
        if self.failed:
            raise RunError(
                f"{self.page.parent}: {len(self.failed)} of {self.points} runs failed: "
                f"{'; '.join(self.failed)}; the same command runs them again"
            )


def make(
    study: Study,
    scope: Scope,
    output: Path,
    listener: StudyListener,
    passed: Mapping[str, str] | None = None,
    looks: FigureChoices | None = None,
) -> Made:
    """Run what has no result yet, and draw all figures.

    `passed` are targets that are left out, and why. `looks` asks for figures for paper.

    Raises:
        UsageError: a setting is none of a case's, or the folder cannot be used.
        MissingError, DamagedError: a run cannot be made here, or a file is not what was built.
    """
    outputs.check(output, measuring.STUDY, measuring.is_study)
    planned = measuring.planned(study, scope)
    done = measuring.measure(study, scope, output, listener)
    outputs.folder(output, measuring.STUDY, measuring.is_study)
    measured, failed = done.measured, done.failed
    elsewhere.write(output, done.waiting, scope)
    count = Counter(point.place.where for point in done.waiting)
    waiting = {
        target: f"{runs} of its runs {'waits' if runs == 1 else 'wait'} for another machine; "
        f"{elsewhere.cure(target, output)}"
        for target, runs in count.items()
    }
    more = ((CLOCKS, scope.clocks), (UNITS, scope.units), (GPUS, scope.gpus))
    figures = (*study.figures, *(axis.figure for axis, given in more if given))
    drawn = [drawing.draw(figure, measured, planned, scope) for figure in figures]
    for each in drawn:
        _write(output / FIGURES, each, looks or FigureChoices())
    judged = statements.judge(study, drawn, scope)
    if judged:
        table = report_page.csv_text(statements.HEAD, [each.cells for each in judged])
        write_atomic(output / STATEMENTS, table.encode())
    if measured:
        homes = {each.point.bundle for each in measured}
        reporting.write(
            [output / measuring.RUNS / home for home in sorted(homes)], output, what=measuring.STUDY
        )
        agreement = report_page.correlation_csv(_alike(measured))
        write_atomic(output / report_page.CORRELATION, agreement.encode())
    rows = [row for each in measured for row in each.rows]
    alike = _alike(measured)
    correlations = report_page.correlations(alike)
    text = render.page(
        "study.html.j2",
        study=study,
        scope=scope,
        figures=drawn,
        statements=judged,
        statements_head=statements.HEAD,
        folder=FIGURES,
        metrics=explaining.explanations(study, scope.targets),
        counts=explaining.counts(study, scope.targets),
        targets=scope.targets,
        places=measuring.places(measured),
        compared=[report_page.correlation_cells(each) for each in correlations],
        compared_head=report_page.CORRELATION_TITLES,
        doubts=report_page.doubts(rows),
        failed=failed,
        waiting=waiting,
        passed=passed or {},
        not_there=explaining.NOT_THERE,
    )
    page = output / PAGE
    write_atomic(page, text.encode())
    native = tuple(each for each in correlations if correlation.is_of_gpu(each))
    points = len(measuring.points(study, scope))
    told = tuple(judged)
    return Made(page, tuple(drawn), failed, passed or {}, points, native, told, waiting)


def _alike(measured: Sequence[Measured]) -> list[Row]:
    """The rows of machines A as they are compared between targets: a case at a size of the batch
    has a name of its own, whatever bundle each target ran it in."""
    return [
        replace(row, bundle=f"{each.point.case.name}-n{each.point.batch}")
        for each in measured
        if each.point.place.machine == "A" and each.point.variant == measuring.BASE
        for row in each.rows
    ]


def _write(folder: Path, drawn: Drawn, looks: FigureChoices) -> None:
    """The table of a figure, and its pictures."""
    write_atomic(folder / f"{drawn.figure.name}.csv", drawn.csv.encode())
    old = {path for form in FORMATS for path in folder.glob(f"{drawn.figure.name}-*.{form}")}
    for nth, (_, plot) in enumerate(drawn.pictures, 1):
        path = folder / f"{drawn.figure.name}-{nth}.svg"
        if "svg" not in looks.figures:
            write_atomic(path, plot.svg.encode())
        paper = [path.with_suffix(f".{form}") for form in looks.figures]
        if paper:
            plot.save(*paper, inches=looks.inches)
        old -= {path, *paper}
    for path in old:  # files of an earlier study with more targets
        with contextlib.suppress(OSError):
            path.unlink()
