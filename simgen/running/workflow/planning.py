"""The workflow of a sweep's file, or of one bundle that is there."""

from __future__ import annotations

import itertools
import shlex
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from simgen.ask.build import BuildChoices, Destination, Making
from simgen.ask.choice import choices, option
from simgen.ask.kinds import Flag
from simgen.ask.run import JobChoices, RunCommand
from simgen.bundle import commands, manifest, planning, result_names
from simgen.bundle import writing as bundles
from simgen.errors import UsageError, did_you_mean, printable
from simgen.ground.version import version
from simgen.running import runs, siblings, sweep_points
from simgen.running.workflow import jobs, sweep_spec
from simgen.running.workflow.jobs import JobBundle, JobPoint, Workflow
from simgen.targets import TARGETS, Target, usual_targets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simgen.bundle.writing import Bundle
    from simgen.running.runs import Listener
    from simgen.running.workflow.sweep_spec import Scalar, SweepSpec

FOLDER = "bundles"
MOST_POINTS = 10_000
BUILD_MB = 4096


@dataclass(frozen=True)
class _Home:
    """A bundle to be built."""

    plan: planning.Plan
    targets: Sequence[Target]
    words: tuple[str, ...]  # words of `simgen build`
    name: str  # name of its folder


def of_spec(spec: SweepSpec, container: str = "") -> Workflow:
    """All of a sweep: a bundle for each workload and setting, a point for each result.

    Raises:
        UsageError: a word of it is unknown, or it has too many points.
    """
    made_bundles: dict[str, JobBundle] = {}
    made_points: dict[str, JobPoint] = {}
    names: set[str] = set()
    for home in _homes(spec):
        if home.name in names:
            raise UsageError(
                f"workloads: two bundles would be called {home.name}; give each workload once, "
                "and the others in a sweep of their own"
            )
        names.add(home.name)
        path = f"{FOLDER}/{home.name}"
        digest = manifest.sha256(bundles.workload_text(home.plan.workload))
        at = jobs.key(home.name, made_bundles)
        made_bundles[at] = JobBundle(path, digest, shlex.join(home.words), BUILD_MB)
        for target in home.targets:
            for request, asked in _points(spec, target):
                whole = JobPoint(at, request.result, _words(request, asked), 1, 1)
                made = jobs.requested(whole, home.plan.workload, target, asked)
                made_points[jobs.key(f"{at}.{made.result}", made_points)] = made
        if len(made_points) > MOST_POINTS:
            raise UsageError(f"the sweep has more than {MOST_POINTS} points; make several of it")
    return Workflow(
        _command(container), version(), jobs.REPORT, spec.diff, container, made_bundles,
        made_points,
    )  # fmt: skip


def of_bundle(
    bundle: Bundle, asked: RunCommand, listener: Listener, container: str = ""
) -> Workflow:
    """What `simgen run` with these options does, of a bundle that is there.

    Raises:
        UsageError: it does not go together, or the bundle cannot do it.
    """
    ask = RunCommand
    if asked.resume or asked.inputs:
        other = ask.resume if asked.resume else ask.inputs
        raise UsageError(f"{other}: jobs go on by themselves, each from its start; leave it out")
    if asked.layers is not None and not asked.by_pieces:
        cure = f"add {ask.jobs} or {ask.representatives}"
        raise UsageError(f"{ask.layers}: on a cluster they run by pieces; {cure}")
    if asked.target is None and len(bundle.targets) > 1:
        fact = f"on which of the targets {', '.join(bundle.targets)}"
        raise UsageError(f"{JobChoices.executor}: {fact}; say it with {ask.target}")
    asked = replace(asked, target=asked.target or next(iter(bundle.targets)))
    chosen = runs.choose(bundle, asked, listener)
    runs.verify(bundle, listener)
    path = str(bundle.path.resolve())
    at = jobs.key(bundle.path.resolve().name, {})
    home = JobBundle(path, bundle.digest, "", BUILD_MB)
    for text in asked.grid:
        if text.partition("=")[0].strip("- ").replace("-", "_") not in chosen.run_options:
            raise UsageError(
                f"{ask.grid} {printable(text)}: {chosen.name} has no such option of a run; "
                "settings of a build are swept on a cluster by a file: simgen sweep"
            )
    if asked.grid:
        found = sweep_points.points(chosen, asked, list)
        swept = [(each.result, _words(each, asked)) for each in found]
    else:
        once = shlex.join(replace(asked, unless_done=True).words())
        swept = [(runs.name_of(chosen, asked), once)]
    made: dict[str, JobPoint] = {}
    for result, text in swept:
        whole = JobPoint(at, result, text, 1, 1)
        made[jobs.key(result, made)] = jobs.requested(whole, bundle.workload, chosen, asked)
    return Workflow(
        _command(container), version(), jobs.RESULTS, False, container, {at: home}, made
    )


# ------------------------------------------------------------------ bundles


def _homes(spec: SweepSpec) -> Iterator[_Home]:
    axes = {name: sweep_spec.axis(name, value) for name, value in spec.build.items()}
    for name in spec.targets:
        if name not in TARGETS:
            raise UsageError(f"targets: {name!r} is unknown; {did_you_mean(name, usual_targets())}")
    varied = [name for name, values in axes.items() if len(values) > 1]
    for word in spec.workloads:
        for values in itertools.product(*axes.values()):
            given = dict(zip(axes, values))
            chosen, settings = _choices(given)
            targets = planning.chosen_targets(spec.targets, settings)
            plan = planning.Plan(word, chosen, targets)
            words = [word, *commands.targets(spec.targets, settings), *chosen.words()]
            home = _folder(plan.problem.name, {n: sweep_spec.text(given[n]) for n in varied})
            yield _Home(plan, targets, tuple(words), home)


def _choices(given: Mapping[str, Scalar]) -> tuple[BuildChoices, dict[str, Scalar]]:
    """What a sweep's [build] asks for: choices, keys of configs, and settings of targets.

    Raises:
        UsageError: a value is none of its choice, or the sweep gives the choice in its own way.
    """
    own = {BuildChoices.set, *choices(Destination), *choices(Making)}
    known = {flag: each for each in (*choices(BuildChoices), *own) for flag in each.flags}
    chosen: dict[str, Any] = {}
    keys: dict[str, Scalar] = {}
    settings: dict[str, Scalar] = {}
    for name, value in given.items():
        flag, bare = option(name), name.replace("-", "_").removeprefix("no_")
        if known.get(flag) in own:
            raise UsageError(f"build.{name}: the sweep gives it; leave it out")
        if bare in planning.target_settings():
            settings[bare] = value if option(bare) == flag else not value
        elif flag not in known:
            keys[name] = value
        elif not isinstance(known[flag].kind, Flag):
            chosen[known[flag].name] = sweep_spec.text(value)
        elif not isinstance(value, bool):
            raise UsageError(f"build.{name} = {value!r}: write true or false")
        elif value:
            chosen[known[flag].name] = flag == known[flag].flag
    return BuildChoices(set=keys, **chosen), settings


def _folder(name: str, swept: Mapping[str, str]) -> str:
    for setting, value in swept.items():
        if not siblings.WORD.fullmatch(value):
            raise UsageError(
                f"{setting} = {value!r}: not a value that the name of a folder can have; use "
                "letters, digits and ._+- only"
            )
    return result_names.of_point(name, swept) if swept else name


# ------------------------------------------------------------------ points


def _points(
    spec: SweepSpec, target: Target
) -> Iterator[tuple[sweep_points.SweepPoint, RunCommand]]:
    given = _options(spec, target)
    grid = tuple(
        f"{name}={','.join(sweep_spec.text(each) for each in sweep_spec.axis(name, value))}"
        for name, value in given.items()
    )
    cut: dict[str, Any] = {}
    if spec.pieces:
        alike = spec.pieces == "representatives"
        cut = {"representatives": alike, "jobs": spec.jobs, "warm": spec.warm}
    for layers in spec.layers or (None,):
        asked = RunCommand(target.name, grid=grid, layers=layers, **cut)
        for point in sweep_points.points(target, asked, list):
            runs.check(replace(asked, options=point.options), target)
            yield point, asked


def _options(spec: SweepSpec, target: Target) -> dict[str, object]:
    """The options of `run` that the target has: those for all, and its own."""
    known = {option for name in spec.targets for option in TARGETS[name].run_options}
    given: dict[str, object] = {}
    for name, value in spec.run.items():
        spelled = name.replace("-", "_")
        if isinstance(value, dict):
            if name not in spec.targets:
                raise UsageError(f"run.{name}: not a target; {did_you_mean(name, spec.targets)}")
            continue
        if spelled not in known:
            raise UsageError(f"run: {name} is no option; {did_you_mean(spelled, known)}")
        if spelled in target.run_options:
            given[spelled] = value
    own = spec.run.get(target.name, {})
    return {**given, **{name.replace("-", "_"): value for name, value in own.items()}}


def _words(point: sweep_points.SweepPoint, asked: RunCommand) -> str:
    """The words of `simgen run` that make a point's result."""
    whole = not asked.by_pieces and TARGETS[point.target]().whole_only() is None
    once = replace(
        asked,
        target=point.target,
        options={},
        grid=[f"{name}={value}" for name, value in point.options.items()],
        unless_done=not point.options,
        resume=bool(point.options) and whole,  # where a job was killed
    )
    return shlex.join(once.words())


def _command(container: str) -> str:
    """simgen, on the machines that the jobs run on: this Python, which they share."""
    return "simgen" if container else shlex.join([sys.executable, "-m", "simgen"])
