"""study: the figures of a publication, by one command."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simgen.ask.build import BuildChoices
from simgen.ask.report import FigureChoices
from simgen.cli import completing
from simgen.cli.answers import answer, json_option
from simgen.cli.numbers import SECONDS, number
from simgen.cli.options import asked, asks, folder_of_page, verbosity
from simgen.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.reports.studies.definition import Study
    from simgen.reports.studies.reporting import Made

MOST_BATCH = 2**20


@click.command()
@click.argument("name", shell_complete=completing.studies)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    callback=folder_of_page,
    help="Folder of the study; finished parts in it are not repeated.",
)
@click.option(
    "--targets",
    metavar="T,T",
    shell_complete=completing.build_targets,
    help="Targets to run on. [default: those of gem5-se, mgpusim, cuda, hip and host that can "
    "run here]",
)
@click.option("--batch", metavar="N,N", help="Batch sizes. [default: the study's]")
@click.option(
    "--reduced", is_flag=True, help="Use small layers and batches: minutes on a simulator."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="[CASE:]K=V",
    shell_complete=completing.words(),
    help="Set a config key of all cases, or of one. Repeatable.",
)
@number(
    "--timeout",
    kind=SECONDS,
    help="Stop each run after this time.",
)
@click.option(
    "--counters",
    is_flag=True,
    help="cuda and hip: also collect hardware counters with the profiler.",
)
@click.option(
    "--clocks",
    metavar="F,F",
    help="gem5-se and mgpusim: also run all layers at each of these GPU clocks, and show the "
    "slowest clock that each layer tolerates.",
)
@click.option(
    "--units",
    metavar="N,N",
    help="gem5-se and mgpusim: the same for these numbers of compute units.",
)
@click.option(
    "--gpus",
    metavar="N,N",
    help="mgpusim and cuda: also share the largest batch between so many GPUs: time, efficiency.",
)
@click.option(
    "--machine",
    type=click.Choice(["A", "B"]),
    help="Machine that --clocks, --units and --gpus apply to. [default: A]",
)
@click.option(
    "--elsewhere",
    metavar="T,T",
    shell_complete=completing.build_targets,
    help="Targets on another machine. simgen writes T.sh, which runs their bundles there; copy "
    "the results back and run the study again. cuda=a,cuda=b are two such machines, A and B.",
)
@click.option("--no-check", is_flag=True, help="Do not compare results with the reference.")
@asks(FigureChoices)
@json_option
@verbosity
def study(name: str, output: Path, as_json: bool, quiet: bool, verbose: bool, **given: Any) -> None:
    """Run the study NAME and draw all of its figures.

    \b
    dnnmark      table 3 and figures 9 to 12 of the DNNMark paper: single layers
    icpe18       table 1 and figures 6 to 17 of "Characterizing ... CNN Execution
                 on GPUs", its L1 bypass, kernel fusion and statements
    workloads    time, memory and hardware counters of whole networks in training

    \b
    DIR/study.html      all figures, and what each metric is on each target
    DIR/figures/        each figure as SVG, and all of its values as CSV
    DIR/statements.csv  sentences of the publication, and whether they hold
    DIR/report.html     all metrics of all runs, and metrics.csv beside it

    \b
    simgen study icpe18 -o icpe18 --targets mgpusim --reduced
    simgen study workloads -o workloads --targets gem5-se,mgpusim --batch 1,4
    simgen study icpe18 -o icpe18 --targets mgpusim --elsewhere cuda --reduced
    """
    from simgen.cli.study_listener import PrintingStudy
    from simgen.reports.pages import still
    from simgen.reports.studies import (
        definition,
        drawing,
        machines,
        measuring,
        operating_points,
        reporting,
    )

    still.need()
    chosen = definition.find(name)
    settings = BuildChoices.set.read(given["settings"])
    definition.check(chosen, settings)
    if given["machine"] and not (given["clocks"] or given["units"] or given["gpus"]):
        raise UsageError("--machine: is for --clocks, --units and --gpus; give one of them")
    elsewhere = _words(given["elsewhere"])
    targets, passed = machines.chosen(_words(given["targets"]), output, elsewhere)
    targets, passed = drawing.drawable(chosen, targets, passed, given["targets"] is not None)
    batches = _batches(given["batch"], chosen, reduced=given["reduced"])
    clocks, units, gpus = (
        operating_points.parse_settings(axis, _words(given[name]), targets, max(batches))
        if given[name] is not None
        else ()
        for axis, name in (
            (operating_points.CLOCKS, "clocks"),
            (operating_points.UNITS, "units"),
            (operating_points.GPUS, "gpus"),
        )
    )
    scope = measuring.Scope(
        tuple(targets),
        batches,
        settings,
        given["reduced"],
        given["timeout"],
        not given["no_check"],
        given["counters"],
        clocks,
        units,
        gpus,
        given["machine"] or "A",
        tuple(elsewhere),
    )
    looks = asked(FigureChoices, given)
    listener = PrintingStudy(quiet or as_json, verbose and not as_json)
    made = reporting.make(chosen, scope, output, listener, passed, looks)
    if as_json:
        answer("study", _as_json(made))
    elif not quiet:
        for target, why in made.passed.items():
            print(f"not on {target}: {why}")
        for target, what in made.waiting.items():
            print(f"{target}: {what}")
        _table(made)
        _statements(made)
        _agreement(made, targets)
        print(f"page: {made.page}")
    made.check()


def _as_json(made: Made) -> dict[str, Any]:
    judged: dict[str, Counter[str]] = {}
    for each in made.judged:
        judged.setdefault(each.target, Counter())[each.verdict] += 1
    return {
        "page": str(made.page), "points": made.points,
        "figures": [
            {"number": each.figure.number, "title": each.figure.title,
             "targets": list(each.targets),
             "values": str(made.page.parent / "figures" / f"{each.figure.name}.csv")}
            for each in made.figures
        ],
        "statements": judged, "failed": dict(made.failed), "not_run": dict(made.passed),
        "waiting": dict(made.waiting),
    }  # fmt: skip


def _table(made: Made) -> None:
    from simgen.cli import present

    rows = [
        (
            each.figure.number,
            each.figure.title,
            ", ".join(each.targets) or ("plan" if each.lines else "none"),
            f"{made.page.parent.name}/figures/{each.figure.name}.csv",
        )
        for each in made.figures
    ]
    present.table(None, ("", "figure", "given by", "values"), rows)


def _statements(made: Made) -> None:
    """How many sentences of the publication hold on each target."""
    for target in dict.fromkeys(each.target for each in made.judged):
        count = Counter(each.verdict for each in made.judged if each.target == target)
        words = ", ".join(f"{verdict}: {n}" for verdict, n in count.items())
        print(f"statements on {target}: {words}; {made.page.parent.name}/statements.csv")


def _agreement(made: Made, targets: Sequence[str]) -> None:
    """How well simulators agree with a GPU, or why there is nothing to say of that."""
    from simgen.cli import present
    from simgen.reports.pages.correlation import HARDWARE, HOST

    native = [name for name in targets if name in HARDWARE]
    simulated = [name for name in targets if name not in (*HARDWARE, HOST)]
    present.correlations(made.agreement)
    if simulated and not native:
        named = f"{' and '.join(simulated)} {'is' if len(simulated) == 1 else 'are'}"
        print(f"no GPU took part, so nothing says how right {named}: add --targets cuda or hip")
    if HOST in targets:
        print("host: its times are this computer's, and no times are compared with them")


def _words(text: str | None) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in (text or "").split(",") if word.strip()))


def _batches(text: str | None, study: Study, *, reduced: bool) -> tuple[int, ...]:
    if text is None:
        return study.reduced_batches if reduced else study.batches
    words = _words(text)
    if not words or not all(
        w.isascii() and w.isdigit() and 1 <= int(w) <= MOST_BATCH for w in words
    ):
        raise UsageError(f"--batch {text!r}: not sizes of a batch; write them like 16,64,128")
    return tuple(sorted({int(word) for word in words}))
