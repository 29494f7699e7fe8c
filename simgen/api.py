"""simgen from Python: plan, build, run, diff, report, and what examines code and simulators.

`import simgen` brings these names.

    plan = simgen.plan("softmax_fwd", set={"n": 4})
    bundle = plan.build("softmax", targets=["host"])
    result = bundle.run("host")
    verdict = bundle.diff()
    simgen.report([bundle], "report")

Each call does what the command of the same name does, with the same checks. Nothing is printed:
progress goes to callbacks, and what goes wrong is an exception of `simgen.errors` with the
command's message. It names an option as the argument here is named (`rate`, not `--rate`).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from simgen.ask.build import BuildChoices, Destination
from simgen.ask.checks import (
    BisectChoices,
    ConformChoices,
    ExportChoices,
    LegaliseChoices,
    LintChoices,
    RatesChoices,
)
from simgen.ask.choice import Asked, asking, choices, in_python, spelled
from simgen.ask.report import ReportChoices
from simgen.ask.run import JobChoices, RunChoices, RunCommand
from simgen.bundle import finding, outputs, planning
from simgen.bundle import writing as bundles
from simgen.bundle.launches import MeasuredLaunch, MeasuredStep
from simgen.bundle.results import Output, Result
from simgen.errors import SimgenError, UsageError, did_you_mean, one_line
from simgen.ground import plugins
from simgen.ground.examined import Bisection, Conformance
from simgen.ground.storage.files import write_atomic
from simgen.isa.lint import checking
from simgen.isa.lint.checking import Linted, Rewritten
from simgen.reports.exports import base as exports
from simgen.reports.exports.base import ExportedFiles
from simgen.reports.pages import reporting
from simgen.reports.pages.reporting import Report, Rows
from simgen.reports.pages.row import Row
from simgen.reports.rates import measuring
from simgen.reports.rates.measuring import RatesOf
from simgen.running import process, runs, sweeps
from simgen.running.sweeps import SweepListener
from simgen.running.workflow import starting
from simgen.running.workflow.starting import SweepOf
from simgen.targets import Target
from simgen.verdict import judging
from simgen.verdict.judging import Judgement

if TYPE_CHECKING:
    from simgen.ground.ir import Workload
    from simgen.targets.base import Progress as Reached

__all__ = [
    "Bisection", "BuiltBundle", "Conformance", "ExportedFiles", "Judgement", "Linted",
    "MeasuredLaunch", "MeasuredStep", "Output", "PlannedBuild", "RatesOf", "Report", "Result",
    "Rewritten", "Row", "Rows", "SweepOf", "conform", "export", "legalise", "lint", "load", "plan",
    "rates", "report", "rows", "sweep",
]  # fmt: skip

Where = str | os.PathLike[str]
Value = str | int | float | bool
# Called with what is done, how much of it, and all of it: "kernels" compiled, "data" and "checking
# data" in bytes, "launches" that have ended, "comparing steps".
Progress = Callable[[str, int, int], None]
Notice = Callable[[str], None]  # called with a line for people

LAUNCHES = "launches"


P = ParamSpec("P")
S = TypeVar("S")
A = TypeVar("A", bound=Asked)
R = TypeVar("R")


def asks(value: Callable[P, A]) -> Callable[[Callable[[S, A], R]], Callable[Concatenate[S, P], R]]:
    """Have a function called with what `value` is made of; its signature and documentation say so.

    The documentation of the choices takes the place of a line "CHOICES".
    """

    def decorate(function: Callable[[S, A], R]) -> Callable[Concatenate[S, P], R]:
        @functools.wraps(function)
        def call(first: S, /, *args: P.args, **given: P.kwargs) -> R:
            with in_python():
                _check_known(function.__name__, value, given)
                return function(first, value(*args, **given))

        _describe(call, function, value)
        return call

    return decorate


def asks_alone(value: Callable[P, A]) -> Callable[[Callable[[A], R]], Callable[P, R]]:
    """The same for a function of nothing else."""

    def decorate(function: Callable[[A], R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **given: P.kwargs) -> R:
            with in_python():
                _check_known(function.__name__, value, given)
                return function(value(*args, **given))

        _describe(call, function, value)
        return call

    return decorate


def _check_known(function: str, value: Any, given: Mapping[str, object]) -> None:
    takes = inspect.signature(value).parameters
    for name in given.keys() - takes.keys():
        cure = did_you_mean(name, takes)
        if "options" in takes:
            near = f" ({cure})" if cure.startswith("did you mean") else ""
            cure = f"an option of a target is options={{{name!r}: ...}}{near}"
        raise UsageError(f"{name}: {function} has no such argument; {cure}")


def _describe(call: Any, function: Callable[..., Any], value: Any) -> None:
    with in_python():
        lines = [f"    {each.name}: {each.help}" for each in choices(value)]
    text = inspect.cleandoc(function.__doc__ or "")
    call.__doc__ = text.replace("    CHOICES", "\n".join(lines))
    own = [*inspect.signature(function).parameters.values()][:-1]
    known = {each.name: each for each in choices(value)}
    made = [
        each.replace(default=known[name].default, annotation=known[name].python)
        if name in known
        else each
        for name, each in inspect.signature(value).parameters.items()
    ]
    call.__signature__ = inspect.Signature([*own, *made])


@asking
class Conforming(ConformChoices):
    """Instructions to try, and whom it tells how that goes."""

    _: KW_ONLY
    notice: Notice | None = None


@asking
class Measuring(RatesChoices):
    """A machine to measure, and whom it tells how that goes."""

    _: KW_ONLY
    progress: Progress | None = None
    notice: Notice | None = None


@asking
class SweepingFile(JobChoices):
    """A sweep's file as jobs."""

    output: Where | None = None
    _: KW_ONLY
    jobs: int | None = None
    dry_run: bool = False
    notice: Notice | None = None


@asks(BuildChoices)
def plan(workload: Where, choices: BuildChoices) -> PlannedBuild:
    """Plan what `simgen build WORKLOAD` with these options makes, without compiling or writing it.

    Args:
        workload: a name that `simgen list` or `simgen list deepbench` prints, a .dnnmark or
            .dnntemplate file, an .onnx model, a problem string or the command line of a driver.
        CHOICES

    Raises:
        UsageError: there is no such workload, or the choices do not go together.
        ConfigError: the config cannot be accepted.
    """
    return PlannedBuild(planning.Plan(_word("workload", workload), choices))


@in_python()
def load(path: Where) -> BuiltBundle:
    """Open the bundle in a folder.

    Raises:
        UsageError: the folder holds no bundle.
        DamagedError: its manifest or workload has changed.
    """
    with bundles.opened(place := _path("path", path)):
        return BuiltBundle(place)


@in_python()
def rows(made: Iterable[BuiltBundle | Where]) -> Rows:
    """What all results in the bundles measured, a row for each layer, pass and result.

    Raises:
        UsageError: a bundle is given twice, there is none, or nothing has run.
        DamagedError: a result has changed since its run.
    """
    return reporting.rows(_paths("rows", made))


@in_python()
def report(
    made: Iterable[BuiltBundle | Where],
    output: Where,
    baseline: str | None = None,
    *,
    title: str = "",
    author: str = "",
    figures: str | Iterable[str] = (),
    width: str | float | None = None,
) -> Report:
    """Write a report of all results in the bundles to the folder `output`, as `simgen report` does.

    `baseline` is the result that the others are compared with: TARGET, or BUNDLE:TARGET. `figures`
    are formats (pdf, svg, png) of files in `output`/figures, of this width. The report's own
    `figures` are shown by a notebook.

    Raises:
        UsageError: a bundle is given twice, nothing has run, or there is no such baseline.
        DamagedError: a result has changed since its run.
    """
    paths = _paths("report", made)
    if baseline is not None:
        _check("baseline", baseline, str, "a result's name")
    looks = ReportChoices(title=title or None, author=author or None, figures=figures, width=width)
    return reporting.write(paths, _path("output", output), baseline, looks=looks)


@asks(LintChoices)
def lint(files: Where | Iterable[Where], choices: LintChoices) -> Linted:
    """What a simulator makes of machine code, before it runs. True when nothing is refused.

    Args:
        files: code objects, programs, libraries, assembly or folders of those.
        CHOICES

    Raises:
        UsageError: there is no such file, simulator or version, or no code of an AMD GPU.
        RefusedError: the simulator has none of the code's processors.
        DamagedError: the only file is damaged.
    """
    paths = [Path(each) for each in _several("files", files, str | os.PathLike, "a file")]
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder; correct the path")
    if not paths:
        raise UsageError("files: none is given; give one or more")
    return checking.lint(paths, choices)


@asks(LegaliseChoices)
def legalise(file: Where, choices: LegaliseChoices) -> Rewritten:
    """Replace the instructions of a code object that a simulator lacks or gets wrong.

    Args:
        file: a code object, or what holds one for the simulator, or assembly.
        CHOICES

    Raises:
        UsageError: there is no such file, simulator or version; `output` is there already.
        RefusedError: nothing replaces an instruction; nothing is written then.
        DamagedError: the file is damaged.
    """
    path = _path("file", file)
    if not path.is_file():
        raise UsageError(f"{path}: no such file; correct the path")
    output = None if choices.output is None else Path(choices.output)
    if output:
        outputs.new_file(output, f"{LegaliseChoices.output} ")
    made = checking.legalise(path, choices)
    if output:
        write_atomic(output, made.code)
    return made


@asks_alone(Conforming)
def conform(choices: Conforming) -> Conformance:
    """Compare single instructions on a simulator, or a GPU, with the vendor's manuals. True when
    all is right or, with `against`, nothing is worse than before.

    Args:
        CHOICES
        notice: called with each line that the command would print meanwhile.

    Raises:
        UsageError: there is no such target, mode or form, or they do not go together.
        MissingError: the target cannot run here.
        RunError: it fails, and no instruction that is tried is to blame.
        DamagedError: `against` is no findings.json.
    """
    examine = plugins.beside("conform", "examine")
    return examine(choices, choices.notice or _nobody)  # type: ignore[no-any-return]


@asks(Measuring)
def rates(target: str, choices: Measuring) -> RatesOf:
    """Measure the bandwidth, latency and rates of a simulated GPU, beside what is configured.

    Args:
        target: mgpusim or gem5-se.
        CHOICES
        progress, notice: as in `BuiltBundle.run`.

    Raises:
        UsageError: the target has no machine of its own, or no such option.
        MissingError, RefusedError, RunError: it cannot run here.
    """
    _check("target", target, str, "a target's name")
    runs.check_options(choices.options)
    return measuring.on(target, choices, _Callbacks(choices.progress, choices.notice))


@asks(ExportChoices)
def export(
    made: BuiltBundle | Where | Iterable[BuiltBundle | Where], choices: ExportChoices
) -> ExportedFiles:
    """Write bundles and measurements in a format of another tool.

    Args:
        made: the bundles.
        CHOICES

    Raises:
        UsageError: there is no such format or result, or `output` is there already.
        MissingError: a package that writes the format is not installed.
        DamagedError: a result has changed since its run.
    """
    paths = _paths("made", made)
    if choices.output is None:
        raise UsageError(f"{ExportChoices.output}: none is given; give a file or folder")
    return exports.export(paths, choices, Path(choices.output))


@asks(SweepingFile)
def sweep(spec: Where, choices: SweepingFile) -> SweepOf:
    """Build, run, check and report what a sweep's file describes, as jobs. Finished jobs are not
    repeated.

    Args:
        spec: a TOML file with workloads, targets, and settings of builds and runs.
        CHOICES
        output: folder of the workflow; None: `spec` without its ending.
        jobs: jobs at a time; None: as the file says.
        dry_run: write and run nothing.
        notice: called with each line that the command would print.

    Returns:
        The folder, the `points` and which have run, the `bundles`, and the report's `page`.

    Raises:
        UsageError, ConfigError: the file cannot be accepted, or the folder is something else.
        MissingError: Snakemake, its plugin or the cluster is not here.
        RunError: jobs failed.
    """
    output = None if choices.output is None else _path("output", choices.output)
    jobs = None if choices.jobs is None else RunChoices.jobs.read(choices.jobs)
    made = starting.sweep(_path("spec", spec), output, jobs, choices)
    if not choices.dry_run:
        starting.start(made.folder, made.workflow, choices, made.jobs, choices.notice or _nobody)
    return made


def _nobody(line: str) -> None:
    """Nobody is told."""


@asking
class Running(RunChoices):
    """A run, and whom it tells how it goes."""

    _: KW_ONLY
    progress: Progress | None = None
    notice: Notice | None = None


@asking
class Sweeping(Running):
    """Runs at the points of a grid."""

    grid: Mapping[str, Iterable[Value]] = field(default_factory=dict)
    _: KW_ONLY
    again: bool = False


@dataclass(frozen=True)
class PlannedBuild:
    """A workload that is ready to build."""

    plan: planning.Plan

    @property
    def name(self) -> str:
        """The workload's name; the command line uses it for the bundle too."""
        return self.plan.problem.name

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user: its list, how it was scaled down, the detected kind of `data`."""
        return self.plan.notes

    @property
    @in_python()
    def workload(self) -> Workload:
        """Its layers, buffers, kernels and launches.

        Raises:
            UnsupportedError: a layer has no kernels for a pass.
        """
        return self.plan.workload

    @in_python()
    def build(
        self,
        path: Where,
        targets: str | Target | Sequence[str | Target] = planning.DEFAULT_TARGETS,
        *,
        settings: Mapping[str, Any] | None = None,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> BuiltBundle:
        """Make the bundle in the folder `path`, or add the targets to the bundle that is there.

        Args:
            path: the folder.
            targets: names, or target objects such as `Host(sanitize=True)`.
            settings: settings of the targets that are given by name, such as {"arch": "gfx90a"}.
            replace: remove results that this build makes invalid.
            progress: called as kernels are compiled and data are written.

        Raises:
            UsageError: there is no such target or setting; the folder is not a bundle, or cannot be
                written.
            RefusedError: results would be lost, or the bundle is in use.
            MissingError: there is no compiler, or no disk space.
        """
        given = list(_several("targets", targets, str | Target, "a name or a target"))
        _check("settings", {} if settings is None else settings, Mapping, "a mapping")
        _check("replace", replace, bool, "True or False")
        if not given:
            raise UsageError("targets: none is given; give one or more")
        chosen = _targets(given, settings or {})
        plan = self.plan.for_targets(chosen)
        made, _ = plan.write(_path("path", path), chosen, replace_results=replace, tell=progress)
        return BuiltBundle(made.path, made.gone)


@dataclass(frozen=True)
class BuiltBundle:
    """A bundle in its folder; every answer comes from the current files."""

    path: Path
    gone: tuple[str, ...] = ()  # what the build that made it removed

    @property
    @in_python()
    def targets(self) -> dict[str, dict[str, Any]]:
        """The targets that it was built for, with their settings."""
        with bundles.opened(self.path) as made:
            return {name: dict(settings) for name, settings in made.targets.items()}

    @property
    @in_python()
    def ran(self) -> list[str]:
        """The names of its results (targets and points of sweeps)."""
        with bundles.opened(self.path) as made:
            return made.ran()

    @property
    @in_python()
    def workload(self) -> Workload:
        """Its layers, buffers, kernels and launches."""
        with bundles.opened(self.path) as made:
            return made.workload

    @in_python()
    def result(self, name: str) -> Result:
        """The result of a target or of a point of a sweep, or the one in a results.h5.

        Raises:
            UsageError: there is no such result.
            DamagedError: it is not what the run left.
        """
        _check("name", name, str, "a result's name")
        with bundles.opened(self.path) as made:
            return finding.find_result(made, name)

    @asks(Running)
    def run(self, asked: Running) -> Result:
        """Run it on a target; the result is also stored in the bundle.

        Args:
            CHOICES
            progress: called as the input data are checked, and as launches end, where the target
                tells.
            notice: called with each line that the command would print before and during the run.

        Raises:
            UsageError: there is no such target, option or layer, or they do not go together.
            MissingError, RefusedError: it cannot run here.
            RefusedError: a run with the same options has a result, and `replace` is not given.
            RunError: the run failed or took too long.
            DamagedError: a file of the bundle is not what was built.
        """
        runs.check_options(asked.options)
        with process.ended_with_program(), bundles.opened(self.path) as made:
            return runs.run(made, asked, _Callbacks(asked.progress, asked.notice))[1].result

    @asks(Sweeping)
    def sweep(self, asked: Sweeping) -> dict[str, Result]:
        """Run it at each point of a grid of settings that has no result yet.

        Where settings of a build are swept, the points are in bundles beside this one, which are
        built first.

        Args:
            CHOICES
            grid: the values of each option of the target, such as {"num_compute_units": [2, 4]},
                or setting of the build, such as {"n": [1, 4], "algo": ["direct", "winograd"]}.
            again: run the points that have a result, too.
            progress, notice: as in `run`, for each point.

        Returns:
            The results of all points, by their names, TARGET@SETTING=VALUE,...

        Raises:
            RunError: some points failed, which are named; the others have their results.
            UsageError, MissingError, RefusedError, DamagedError: as in `run`.
        """
        _check("grid", asked.grid, Mapping, "a mapping of names to values")
        words = [
            f"{name}={','.join(map(_text, _several(f'grid {name!r}', each, Value, 'a value')))}"
            for name, each in asked.grid.items()
        ]
        if not words:
            raise UsageError("sweep: no option is given; give one with its values, or use run")
        given = {each.name: value for each, value in asked.given().items()}
        command = RunCommand(**given, grid=words, again=asked.again)
        runs.check_options(asked.options)
        with process.ended_with_program(), bundles.opened(self.path) as made:
            swept = sweeps.run(made, command, _Callbacks(asked.progress, asked.notice))
            swept.check()
            return {each.point.name: each.result for each in swept.points}

    def bisect(
        self,
        a: str,
        b: str,
        *,
        code: str | None = None,
        ulps: int = 0,
        notice: Notice | None = None,
    ) -> Bisection:
        """Find the first launch, instruction and lane where two targets differ, or two builds of a
        simulator. It is true when they do not.

        Args:
            a, b: targets of the bundle: TARGET, mgpusim:emu or mgpusim:timing, and TARGET@FOLDER
                for another build, in that checkout of gem5 or MGPUSim.
            code: the target whose code objects both run; None: mgpusim's, or else those of `a`.
            ulps: words that differ by at most this are equal.
            notice: called with a line as the search goes on.

        Raises:
            UsageError: the bundle has no such target, or they are for different processors.
            RefusedError: a target runs no code objects of AMD's.
            MissingError, RunError: one cannot run here, or ends early.
            DamagedError: the bundle's data have changed.
        """
        with in_python(), bundles.opened(self.path) as made:
            names = [_word(name, each) for name, each in (("a", a), ("b", b))]
            find = plugins.beside("bisect", "find")
            asked = BisectChoices(code=code, ulps=ulps)
            return find(made, *names, asked, notice or _nobody)  # type: ignore[no-any-return]

    @in_python()
    def diff(
        self,
        a: Where | None = None,
        b: Where | None = None,
        *,
        strict: bool = False,
        progress: Progress | None = None,
    ) -> Judgement:
        """Compare results with the reference and with each other. It is true when all is right.

        Args:
            a, b: targets that have run, points of a sweep, results.h5 files, or "reference";
                without them, all results and all pairs are compared.
            strict: a tensor that proves nothing is a failure, too.
            progress: called as steps are compared.

        Raises:
            UsageError: there is nothing to compare.
            DamagedError: a file is not what was built, or what the run left.
        """
        if a is None and b is not None:
            raise UsageError("diff: b is given without a; give a, or both")
        both = {"a": a, "b": b}.items()
        names = [None if each is None else _word(name, each) for name, each in both]
        with bundles.opened(self.path) as made:
            return judging.judge(made, *names, strict=strict, tell=progress)


class _Callbacks(SweepListener):
    """A run's news, for functions."""

    def __init__(self, progress: Progress | None, notice: Notice | None) -> None:
        self.told, self.say = progress, notice

    def tell(self, line: str) -> None:
        if self.say:
            self.say(line)

    notice = tell

    def point(self, nth: int, count: int, name: str) -> None:
        self.tell(f"{nth} of {count}: {name}")

    def failed(self, name: str, error: SimgenError) -> None:
        self.tell(f"failed: {name}: {error}")

    @contextlib.contextmanager
    def checking(self) -> Iterator[Callable[[int, int], None] | None]:
        yield planning.about(self.told, judging.CHECKING)

    @contextlib.contextmanager
    def following(self, name: str, todo: Workload) -> Iterator[_Launches | None]:
        if self.told is None:
            yield None
            return
        total = len(todo.launches)
        self.told(LAUNCHES, 0, total)
        yield _Launches(self.told, total)
        self.told(LAUNCHES, total, total)


@dataclass
class _Launches:
    """Tells how many launches have ended, whenever that has changed."""

    told: Progress
    total: int
    last: int = 0

    def tick(self, passed: float) -> None:
        """The target does not tell."""

    def preparing(self, what: str, passed: float) -> None:
        """No launch has ended."""

    def progress(self, progress: Reached, passed: float) -> None:
        if progress.launches != self.last:
            self.last = progress.launches
            self.told(LAUNCHES, self.last, self.total)


def _targets(given: Sequence[str | Target], settings: Mapping[str, Any]) -> list[Target]:
    """Targets: those named with the given settings, the others unchanged."""
    names = [each for each in given if isinstance(each, str)]
    if settings and not names:
        raise UsageError(
            f"{spelled(next(iter(settings)))}: no target is given by name; "
            "give the target object its settings"
        )
    named = {t.name: t for t in planning.chosen_targets(names, settings)} if names else {}
    chosen = [named[each] if isinstance(each, str) else each for each in given]
    found: dict[str, Target] = {}
    for target in chosen:
        if found.setdefault(target.name, target) != target:
            raise UsageError(
                f"{Destination.targets} {target.name!r}: given twice, with different settings; "
                "keep one of them"
            )
    return list(found.values())


def _check(name: str, value: object, kind: Any, wanted: str) -> None:
    if not isinstance(value, kind):
        raise UsageError(f"{name}: {one_line(repr(value))} is not {wanted}; give one")


def _word(name: str, value: Where) -> str:
    _check(name, value, str | os.PathLike, "a path or a name")
    return os.fspath(value)


def _path(name: str, value: Where) -> Path:
    return Path(_word(name, value))


def _paths(name: str, made: object) -> list[Path]:
    """The folders of some bundles, or of one."""
    given = _several(name, made, str | os.PathLike | BuiltBundle, "a bundle or its folder")
    paths = [each.path if isinstance(each, BuiltBundle) else _path(name, each) for each in given]
    if not paths:
        raise UsageError(f"{name}: no bundle is given; give one or more")
    return paths


def _several(name: str, given: Any, kind: Any, wanted: str) -> list[Any]:
    """One or several values of a kind."""
    if isinstance(given, kind):
        return [given]
    _check(name, given, Iterable, f"{wanted} or several")
    found = list(given)
    for each in found:
        _check(name, each, kind, wanted)
    return found


def _text(value: Value) -> str:
    """A value as the command line has it."""
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
