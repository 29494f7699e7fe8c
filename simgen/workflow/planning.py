"""The workflow of a sweep's file, or of one bundle that is there."""

from __future__ import annotations

import itertools
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen import __version__
from simgen.bundle import manifest, result_names
from simgen.bundle import writing as bundles
from simgen.errors import UsageError, did_you_mean, printable
from simgen.running import runs, selection, siblings, sweep_points
from simgen.running.pieces import Cutting
from simgen.targets import TARGETS
from simgen.workflow import jobs, sweep_spec
from simgen.workflow.jobs import JobBundle, JobPoint, Workflow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from simgen.bundle.planning import Plan
    from simgen.bundle.writing import Bundle
    from simgen.running.runs import Listener, Options, Wish
    from simgen.targets import Target
    from simgen.workflow.sweep_spec import Scalar, SweepSpec

    # Words of `simgen build` -> what they ask for.
    Planned = Callable[[Sequence[str]], tuple[Plan, Sequence[Target]]]
    # A setting's name and value -> words of `simgen build`.
    Spelled = Callable[[str, Scalar], list[str]]

FOLDER = "bundles"
MOST_POINTS = 10_000
BUILD_MB = 4096


@dataclass(frozen=True)
class _Home:
    """A bundle to be built."""

    plan: Plan
    targets: Sequence[Target]
    words: tuple[str, ...]  # of `simgen build`
    name: str  # of its folder


def of_spec(spec: SweepSpec, planned: Planned, spelled: Spelled, container: str = "") -> Workflow:
    """All of a sweep: a bundle for each workload and setting, a point for each result.

    Raises:
        UsageError: a word of it is unknown, or it has too many points.
    """
    made_bundles: dict[str, JobBundle] = {}
    made_points: dict[str, JobPoint] = {}
    names: set[str] = set()
    for home in _homes(spec, planned, spelled):
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
            for point in _points(spec, target):
                request, cutting, layers = point
                whole = JobPoint(at, request.result, _words(request, cutting, layers), 1, 1)
                made = jobs.requested(whole, home.plan.workload, target, cutting, layers)
                made_points[jobs.key(f"{at}.{made.result}", made_points)] = made
        if len(made_points) > MOST_POINTS:
            raise UsageError(f"the sweep has more than {MOST_POINTS} points; make several of it")
    return Workflow(
        _command(container), __version__, jobs.REPORT, spec.diff, container, made_bundles,
        made_points,
    )  # fmt: skip


def of_bundle(
    bundle: Bundle,
    target: str | None,
    options: Options,
    grid: Sequence[str],
    wish: Wish,
    listener: Listener,
    container: str = "",
) -> Workflow:
    """What `simgen run` with these options does, of a bundle that is there.

    Raises:
        UsageError: it does not go together, or the bundle cannot do it.
    """
    if wish.resume or wish.inputs:
        other = "--resume" if wish.resume else "--inputs"
        raise UsageError(f"{other}: jobs go on by themselves, each from its start; leave it out")
    if wish.layers is not None and not wish.cutting:
        raise UsageError(
            "--layers: on a cluster they run by pieces; add --jobs or --representatives"
        )
    if target is None and len(bundle.targets) > 1:
        known = ", ".join(bundle.targets)
        raise UsageError(f"--executor: on which of the targets {known}; say it with --on")
    target = target or next(iter(bundle.targets))
    chosen = runs.choose(bundle, target, options, wish, listener)
    runs.verify(bundle, listener)
    path = str(bundle.path.resolve())
    at = jobs.key(bundle.path.resolve().name, {})
    home = JobBundle(path, bundle.digest, "", BUILD_MB)
    cut = ",".join(_cut(wish.cutting, wish.layers))
    for text in grid:
        if text.partition("=")[0].strip("- ").replace("-", "_") not in chosen.run_options:
            raise UsageError(
                f"--sweep {printable(text)}: {chosen.name} has no such option of a run; settings "
                "of a build are swept on a cluster by a file: simgen sweep"
            )
    if grid:
        found = sweep_points.points(chosen, grid, options, list, cut)
        swept = [(each.result, _words(each, wish.cutting, wish.layers)) for each in found]
    else:
        result = runs.name_of(chosen, options, wish)
        given = [word for k, v in options.items() for word in (f"--{k.replace('_', '-')}", str(v))]
        words = ["--on", chosen.name, *given, *_how(wish.cutting, wish.layers), "--unless-done"]
        swept = [(result, shlex.join(words))]
    made: dict[str, JobPoint] = {}
    limit = [] if wish.timeout is None else ["--timeout", f"{wish.timeout:g}"]
    for result, text in swept:
        whole = JobPoint(at, result, shlex.join([*shlex.split(text), *limit]), 1, 1)
        point = jobs.requested(whole, bundle.workload, chosen, wish.cutting, wish.layers)
        made[jobs.key(result, made)] = point
    return Workflow(
        _command(container), __version__, jobs.RESULTS, False, container, {at: home}, made
    )


# ------------------------------------------------------------------ bundles


def _homes(spec: SweepSpec, planned: Planned, spelled: Spelled) -> Iterator[_Home]:
    axes = {name: sweep_spec.axis(name, value) for name, value in spec.build.items()}
    for name in spec.targets:
        if name not in TARGETS:
            raise UsageError(f"targets: {name!r} is unknown; {did_you_mean(name, TARGETS)}")
    varied = [name for name, values in axes.items() if len(values) > 1]
    for word in spec.workloads:
        for values in itertools.product(*axes.values()):
            given = dict(zip(axes, values))
            words = [word, *(each for name in spec.targets for each in ("--target", name))]
            for name, value in given.items():
                words += spelled(name, value)
            plan, targets = planned(words)
            home = _folder(plan.problem.name, {n: sweep_spec.text(given[n]) for n in varied})
            yield _Home(plan, targets, tuple(words), home)


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
) -> Iterator[tuple[sweep_points.SweepPoint, Cutting | None, str | None]]:
    cutting = None
    if spec.pieces:
        cutting = Cutting(spec.pieces == "representatives", spec.warm, spec.jobs)
    given = _options(spec, target)
    grid = [
        f"{name}={','.join(sweep_spec.text(each) for each in sweep_spec.axis(name, value))}"
        for name, value in given.items()
    ]
    for layers in spec.layers or (None,):
        cut = ",".join(_cut(cutting, layers))
        for point in sweep_points.points(target, grid, {}, list, cut):
            runs.check(runs.Wish(layers=layers, cutting=cutting), target, point.options)
            yield point, cutting, layers


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


def _cut(cutting: Cutting | None, layers: str | None) -> list[str]:
    return [*selection.words(layers), *cutting.names] if cutting else []


def _how(cutting: Cutting | None, layers: str | None) -> list[str]:
    """The words of `simgen run` that say how it is cut."""
    if cutting is None:
        return []
    words = ["--representatives"] if cutting.representatives else []
    words += ["--jobs", str(cutting.jobs), "--warm", cutting.warm.value]
    words += ["--sample", repr(cutting.sample)] if cutting.sample else []
    words += ["--scale-model", str(cutting.part)] if cutting.part else []
    return [*words, *(["--layers", layers] if layers is not None else [])]


def _words(point: sweep_points.SweepPoint, cutting: Cutting | None, layers: str | None) -> str:
    words = ["--on", point.target]
    for name, value in point.options.items():
        words += ["--sweep", f"{name}={value}"]
    if not point.options:
        words.append("--unless-done")
    elif cutting is None and TARGETS[point.target]().whole_only() is None:
        words.append("--resume")  # where a job was killed
    return shlex.join([*words, *_how(cutting, layers)])


def _command(container: str) -> str:
    """simgen, on the machines that the jobs run on: this Python, which they share."""
    return "simgen" if container else shlex.join([sys.executable, "-m", "simgen"])
