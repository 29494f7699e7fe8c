"""The runs of a study: which there are, and each of them made, or found where it was made before.

A point is a case at a size of the batch, on a machine, as it is or in a variant. Points with the
same workload and target settings share a bundle, in `runs/` of the study's folder; a point whose
result is there is not run again, so that a study goes on where it was stopped, and grows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices
from simgen.ask.run import RunCommand
from simgen.bundle import finding, manifest, outputs, result_names, verdict_file
from simgen.bundle import writing as bundles
from simgen.bundle.planning import Plan
from simgen.errors import LossError, RefusedError, RunError, SimgenError, UsageError, one_line
from simgen.reports.pages import page
from simgen.reports.studies import definition, machines, operating_points
from simgen.reports.studies.definition import OF_PLAN, Case, Draws, Settings, Study
from simgen.reports.studies.operating_points import CLOCKS, GPUS, UNITS
from simgen.running import runs, sweeps
from simgen.running.sweeps import SweepListener
from simgen.targets import TARGETS, Target
from simgen.verdict import judging

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simgen.bundle.results import Result
    from simgen.bundle.writing import Bundle
    from simgen.ground.ir import Workload
    from simgen.reports.pages.row import Row
    from simgen.reports.studies.machines import StudyPlace

BASE, BYPASS, FUSED, FORWARD = "", "bypass", "fused", "fwd"  # variants
STUDY = "study"  # a folder of it
RUNS = "runs"


@dataclass(frozen=True)
class Scope:
    """What of a study is done: its targets, its sizes, and what the user sets."""

    targets: tuple[str, ...]
    batches: tuple[int, ...]
    settings: Settings = ()
    reduced: bool = False
    timeout: float | None = None  # seconds, of each run
    check: bool = True  # compare results with the reference
    counters: bool = False  # on GPUs, with their profiler
    clocks: tuple[str, ...] = ()  # other clocks of the machine, if its target takes them
    units: tuple[str, ...] = ()  # numbers of compute units, likewise
    gpus: tuple[str, ...] = ()  # numbers of GPUs, likewise
    set_machine: str = "A"  # the one that is run at these clocks and numbers
    elsewhere: tuple[str, ...] = ()  # targets that run on another machine, by hand

    def places(self, target: str) -> tuple[StudyPlace, ...]:
        """The machines of a target."""
        return machines.places(target, self.elsewhere)

    def options(self, point: StudyPoint) -> Mapping[str, str | int]:
        """Options of a point's run."""
        place = point.place
        counts = self.counters and not point.options
        counts = counts and "counters" in TARGETS[place.target].run_options
        return {**place.options, **({"counters": "yes"} if counts else {}), **dict(point.options)}


@dataclass(frozen=True)
class StudyPoint:
    """A run."""

    case: Case
    batch: int
    place: StudyPlace
    variant: str = BASE
    options: tuple[tuple[str, str | int], ...] = ()  # options of its run, which make the variant

    @property
    def bundle(self) -> str:
        """Name of its bundle; points that differ in options of the run alone share it."""
        words = (
            self.case.name,
            f"n{self.batch}",
            self.place.bundle,
            "" if self.options else self.variant,
        )
        return "-".join(word for word in words if word)

    @property
    def title(self) -> str:
        """For people."""
        words = (self.case.name, f"batch {self.batch}", self.place.title, self.variant)
        return ", ".join(word for word in words if word)


@dataclass(frozen=True)
class Measured:
    """What came of a point."""

    point: StudyPoint
    rows: tuple[Row, ...]
    # the kernel that takes the most time, and the metrics of that launch
    longest: tuple[str, Mapping[str, float]] = ("", {})


@dataclass(frozen=True)
class PlannedCase:
    """A case at a size of the batch, as no target has planned it yet: shapes, work, memory."""

    case: Case
    batch: int
    workload: Workload
    factor: float = 1  # by which its images or sentences are larger than usual


class StudyListener(SweepListener):
    """Receives a study's points; this one keeps why the last run failed."""

    def __init__(self) -> None:
        self.error: SimgenError | None = None

    def failed(self, name: str, error: SimgenError) -> None:
        self.error = error

    def plans(self, points: int) -> None:
        """How many points the study has."""

    def begins_point(self, nth: int, count: int, title: str) -> None:
        """The next one is looked at."""

    def failed_point(self, title: str, why: str) -> None:
        """It has no result; the next one follows."""


def points(study: Study, scope: Scope) -> list[StudyPoint]:
    """All points of a study, in the order in which they are run: small ones first."""
    found = []
    for target in scope.targets:
        for place in scope.places(target):
            for batch in sorted(scope.batches):
                for case in study.cases:
                    point = StudyPoint(case, batch, place)
                    if place.machine == "A" or _needs_second(study):
                        found += [point, *_variants(study, scope, point)]
                    if place.machine == scope.set_machine and batch == max(scope.batches):
                        found += _set(scope, point)
    return found


def _needs_second(study: Study) -> bool:
    return any("B" in each.machine or each.draws is Draws.SPEED_UP for each in study.figures)


def _variants(study: Study, scope: Scope, point: StudyPoint) -> list[StudyPoint]:
    """Variants at the largest batch, on machine A: without L1, and with fused kernels."""
    if point.place.machine != "A" or point.batch != max(scope.batches):
        return []
    found = []
    if study.draws(Draws.BYPASS) and bypasses(point.place.target):
        found.append(replace(point, variant=BYPASS))
    if study.draws(Draws.FUSION):
        found += [replace(point, variant=FORWARD), replace(point, variant=FUSED)]
    return found


def _set(scope: Scope, point: StudyPoint) -> list[StudyPoint]:
    """A point at other clocks, and with other numbers of compute units and of GPUs."""
    found = []
    for axis, words in ((CLOCKS, scope.clocks), (UNITS, scope.units), (GPUS, scope.gpus)):
        option = TARGETS[point.place.target].run_options.get(axis.option)
        for word in words if option else ():
            options = ((axis.option, option.read(word)),) if option else ()
            name = operating_points.variant(axis, word)
            found.append(replace(point, variant=name, options=options))
    return found


def bypasses(target: str) -> bool:
    """Whether a target's GPU has loads that pass by L1. MGPUSim runs both the same."""
    return target in ("gem5-se", "cuda", "hip")


def planned(study: Study, scope: Scope) -> list[PlannedCase]:
    """The workloads, for figures that need no run.

    Raises:
        UsageError, ConfigError: a setting is none of a case's.
    """
    largest = max(scope.batches)
    sizes = scope.batches if study.draws(Draws.SIZES) else (largest,)
    wanted = sorted({*sizes, largest}) if study.draws(*OF_PLAN) else []
    found = [
        PlannedCase(case, batch, _plan(case, batch, scope, BASE, ()).workload)
        for case in study.cases
        for batch in wanted
    ]
    batch = min(scope.batches)
    factors = definition.FACTORS[1:] if study.draws(Draws.EXTENTS) else ()
    return found + [
        PlannedCase(case, batch, _plan(case, batch, scope, BASE, (), factor).workload, factor)
        for case in study.cases
        for factor in factors
    ]


def _plan(
    case: Case,
    batch: int,
    scope: Scope,
    variant: str,
    targets: Sequence[Target],
    factor: float = 1,
) -> Plan:
    settings = definition.settings_of(
        case, batch, scope.settings, reduced=scope.reduced, factor=factor
    )
    forward = variant in (FORWARD, FUSED)
    choices = BuildChoices(
        set=settings,
        passes=FORWARD if forward else case.passes,
        fuse=variant == FUSED,
    )
    return Plan(case.workload, choices, targets)


@dataclass(frozen=True)
class Done:
    """What came of all points.

    Attributes:
        failed: those that have no result, and why.
        waiting: those that are to be run on another machine.
    """

    measured: list[Measured]
    failed: dict[str, str]
    waiting: list[StudyPoint]


def measure(study: Study, scope: Scope, output: Path, listener: StudyListener) -> Done:
    """Run all points that have no result yet, but those of targets that run elsewhere.

    Raises:
        UsageError: a setting is none of a case's, or the folder holds a study of other settings.
        MissingError, DamagedError: as `simgen.running.process.run`; they end the study.
    """
    todo = points(study, scope)
    listener.plans(len(todo))
    done = Done([], {}, [])
    for nth, point in enumerate(todo, 1):
        listener.begins_point(nth, len(todo), point.title)
        try:
            measured = _measured(point, scope, output, listener)
        except (RunError, RefusedError) as error:
            done.failed[point.title] = one_line(str(error))
            listener.failed_point(point.title, done.failed[point.title])
            continue
        if measured is None:
            done.waiting.append(point)
        else:
            done.measured.append(measured)
    return done


def places(measured: Sequence[Measured]) -> list[StudyPlace]:
    """The machines that have results, each once."""
    found = {(each.point.place.target, each.point.place.machine): each for each in measured}
    return [each.point.place for each in found.values()]


def result_of(point: StudyPoint, scope: Scope) -> str:
    """The name of its result, as `simgen.running.sweeps` has it."""
    name = point.place.target
    options = scope.options(point)
    given = {each: options[each] for each in TARGETS[name].run_options if each in options}
    return result_names.of_point(name, given) if given else name


def _measured(
    point: StudyPoint, scope: Scope, output: Path, listener: StudyListener
) -> Measured | None:
    """What a point measured, after a run if there was none; None: another machine is to run it."""
    own = {"l1": BYPASS} if point.variant == BYPASS else {}
    target = point.place.made(**own)
    plan = _plan(point.case, point.batch, scope, point.variant, (target,))
    path = output / RUNS / point.bundle
    outputs.folder(output, STUDY, is_study)
    with listener.building(path) as tell:
        try:
            plan.write(path, [target], tell=tell)
        except LossError as error:
            raise UsageError(
                f"{path}: is of a study with other settings, or of another simgen; give another "
                f"-o, or remove it ({one_line(str(error))})"
            ) from None
    if point.place.target in machines.away(scope.elsewhere):
        with bundles.opened(path) as made:
            name = result_of(point, scope)
            found = finding.find_result(made, name) if made.has(name) else None
            if found is None:
                runs.extended(made, target, scope.options(point))
            return _of_result(point, made, found, scope) if found else None
    listener.error = None
    with bundles.opened(path) as made:
        options = scope.options(point)
        asked = RunCommand(target.name, options=options, timeout=scope.timeout)
        swept = sweeps.run(made, asked, listener)
    if listener.error is not None:
        raise listener.error
    (ran,) = swept.points
    with bundles.opened(path) as made:
        return _of_result(point, made, ran.result, scope)


def is_study(output: Path) -> bool:
    """One that an earlier version made."""
    return any(manifest.has_our_format(home / manifest.FILE) for home in (output / RUNS).glob("*"))


def _of_result(point: StudyPoint, made: Bundle, result: Result, scope: Scope) -> Measured:
    verdicts = _verdicts(made, result.name, check=scope.check)
    rows = tuple(page.rows(made, [result], made.path.name, verdicts))
    names = [name for _, name in result.kernels(made.workload)]
    launches: list[tuple[str, Mapping[str, float]]] = [
        (n, m) for n, m in zip(names, result.launches, strict=True) if "seconds" in m
    ]
    longest = max(launches, key=lambda each: each[1]["seconds"], default=("", {}))
    return Measured(point, rows, longest)


def _verdicts(bundle: Bundle, result: str, *, check: bool) -> Mapping[str, Mapping[str, str]]:
    """What `simgen diff` says of a result; it is asked if it has said nothing yet."""
    folder = bundle.path / bundles.RESULTS / result
    said = verdict_file.read_outcomes(folder)
    if not said and check:
        judging.judge(bundle, result, "reference")
        said = verdict_file.read_outcomes(folder)
    return {result: said}
