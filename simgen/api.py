"""simgen from Python: plan, build, run, diff, report. `import simgen` brings these names.

    plan = simgen.plan("softmax_fwd", set={"n": 4})
    bundle = plan.build("softmax", targets=["host"])
    result = bundle.run("host")
    verdict = bundle.diff()
    simgen.report([bundle], "report")

Each call does what the command of the same name does, with the same checks. Nothing is printed:
progress goes to callbacks, and what goes wrong is an exception of `simgen.errors` with the message
of the command. Where a message names an option (`--rate`), the argument has the same name, except
for `passes` (`--pass`), and `options` of a run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simgen.bundle import finding, planning
from simgen.bundle import writing as bundles
from simgen.bundle.results import Result
from simgen.check import judging
from simgen.check.judging import Judgement
from simgen.errors import UsageError, did_you_mean, printable
from simgen.running import process, runs, sweeps
from simgen.running.pieces import Cutting
from simgen.running.runs import Wish
from simgen.running.sweeps import SweepListener
from simgen.study import reporting
from simgen.study.reporting import Report
from simgen.targets import TARGETS, Target
from simgen.workload.pieces import Warm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.errors import SimgenError
    from simgen.ir import Workload
    from simgen.targets.base import Progress as Reached

__all__ = ["BuiltBundle", "Judgement", "PlannedBuild", "Report", "Result", "load", "plan", "report"]

Where = str | os.PathLike[str]
Value = str | int | float | bool
# Called with what is done, how much of it, and all of it: "kernels" compiled, "data" and "checking
# data" in bytes, "launches" that have ended, "comparing steps".
Progress = Callable[[str, int, int], None]
Notice = Callable[[str], None]  # called with a line for people

LAUNCHES = "launches"


def plan(
    workload: Where,
    *,
    set: Mapping[str, Value] | None = None,
    passes: str | Iterable[str] | None = None,
    layers: str | Iterable[str] | None = None,
    algo: str | None = None,
    type: str | None = None,
    rate: float | None = None,
    loss_scale: float | None = None,
    optimizer: str | None = None,
    loss: str | None = None,
    steps: int | None = None,
    inference: bool | None = None,
    fuse: bool = False,
    reuse_memory: bool = False,
    values: Where | Iterable[Where] = (),
    data: Where | None = None,
    seed: int = 0,
    plan_for: str | None = None,
    scale_to: float | None = None,
    matrix: str | None = None,
    layout: str | None = None,
    queues: int | None = None,
) -> PlannedBuild:
    """What `simgen build WORKLOAD` with these options would make; nothing is compiled or written.

    Args:
        workload: a name that `simgen list` or `simgen list deepbench` prints, a .dnnmark or
            .dnntemplate file, an .onnx model, a problem string or the command line of a driver.
        set: config keys ("n", or "conv1.n" in a network) or $VARIABLES of a template.
        passes: passes of a network: "fwd", "bwd", "sgd" (parameter update), or several.
        layers: a slice of a network, "conv1..pool1", or names of layers.
        algo: the algorithm of all layers that have a choice.
        type: the element type of inputs, as "f16" or "bf16", of layers that give none.
        rate: the learning rate of pass sgd.
        loss_scale: what the gradients are multiplied by that the backward pass begins with, and the
            steps of pass sgd divided by.
        optimizer: of pass sgd: "sgd", "adam" or "adamw", with settings behind it:
            "sgd,momentum=0.9,weight_decay=5e-4".
        loss: that the network is to end in: "cross_entropy", "squared_error" or "none"; None: in
            training, cross-entropy in the place of a last softmax.
        steps: training steps, each from what the one before left, with inputs of its own.
        inference: True: the network as in inference; False: as in training; None: as the config
            says.
        fuse: merge batch normalisation and activations into the kernels before them.
        reuse_memory: give a tensor's memory to later ones after its last use.
        values: files with input values of your own, or "exact": whole numbers whose sums are not
            rounded, or "model": the parameters of the ONNX model that it is.
        data: a file of samples for inputs and labels: images of MNIST or CIFAR-10, a text, pairs of
            sentences; or the name of one that comes with simgen.
        seed: the seed of the random inputs.
        plan_for: the machine to choose tiles, splits and algorithms for, of `simgen list
            machines`; None: that of the first simulated target that is built, or of the GPU.
        scale_to: make a product, convolution or recurrent layer smaller, until it has at most so
            many operations.
        layout: the storage format of images, "nchw" or "nhwc", of layers that have a choice.
        matrix: whether the machine's matrix instructions multiply: "yes", "no", or "auto", where
            that pays; "tf32" is as "auto", but they multiply f32 too, of which they keep 11 bits.
        queues: how many queues of the GPU run layers and passes that do not depend on each other.

    Raises:
        UsageError: there is no such workload, or the choices do not go together.
        ConfigError: the config cannot be accepted.
    """
    files = [values] if isinstance(values, str | os.PathLike) else values
    choices = planning.Choices(
        settings=tuple((key, _text(value)) for key, value in (set or {}).items()),
        passes=_joined(passes),
        layers=_joined(layers),
        algorithm=algo,
        type=type,
        rate=rate,
        loss_scale=loss_scale,
        optimizer=optimizer,
        loss=loss,
        steps=steps,
        inference=inference,
        fuse=fuse,
        reuse_memory=reuse_memory,
        values=tuple(os.fspath(each) for each in files),
        data=None if data is None else os.fspath(data),
        seed=seed,
        plan_for=plan_for,
        scale_to=scale_to,
        matrix=matrix,
        layout=layout,
        queues=queues,
    )
    return PlannedBuild(planning.Plan(os.fspath(workload), choices))


def load(path: Where) -> BuiltBundle:
    """Open the bundle in a folder.

    Raises:
        UsageError: the folder holds no bundle.
        DamagedError: its manifest or workload is not what was written.
    """
    with bundles.opened(Path(path)):
        return BuiltBundle(Path(path))


def report(
    made: Iterable[BuiltBundle | Where], output: Where, baseline: str | None = None
) -> Report:
    """Write what all results in the bundles measured into the folder `output`, as `simgen report`.

    `baseline` is the result that the others are compared with: TARGET, or BUNDLE:TARGET.

    Raises:
        UsageError: a bundle is given twice, nothing has run, or the baseline is none.
        DamagedError: a result is not what its run left.
    """
    paths = [each.path if isinstance(each, BuiltBundle) else Path(each) for each in made]
    if not paths:
        raise UsageError("report: no bundle is given; give one or more")
    return reporting.write(paths, Path(output), baseline)


@dataclass(frozen=True)
class PlannedBuild:
    """A workload that is ready to be built."""

    plan: planning.Plan

    @property
    def name(self) -> str:
        """The workload's name, which the command line gives to the bundle, too."""
        return self.plan.problem.name

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to be said: its list, how it was scaled down, what `data` was taken for."""
        return self.plan.notes

    @property
    def workload(self) -> Workload:
        """Its layers, buffers, kernels and launches.

        Raises:
            UnsupportedError: a layer has no kernels for a pass.
        """
        return self.plan.workload

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
        given = [targets] if isinstance(targets, str | Target) else list(targets)
        if not given:
            raise UsageError("targets: none is given; give one or more")
        chosen = _targets(given, settings or {})
        plan = self.plan.for_targets(chosen)
        made, _ = plan.write(Path(path), chosen, replace_results=replace, tell=progress)
        return BuiltBundle(made.path, made.gone)


@dataclass(frozen=True)
class BuiltBundle:
    """A bundle in its folder; every question is answered from the files, as they are now."""

    path: Path
    gone: tuple[str, ...] = ()  # what the build that made it removed

    @property
    def targets(self) -> dict[str, dict[str, Any]]:
        """The targets that it was built for, with their settings."""
        with bundles.opened(self.path) as made:
            return {name: dict(settings) for name, settings in made.targets.items()}

    @property
    def ran(self) -> list[str]:
        """The names of its results (targets and points of sweeps)."""
        with bundles.opened(self.path) as made:
            return made.ran()

    def result(self, name: str) -> Result:
        """The result of a target or of a point of a sweep, or the one in a results.h5.

        Raises:
            UsageError: there is no such result.
            DamagedError: it is not what the run left.
        """
        with bundles.opened(self.path) as made:
            return finding.find_result(made, name)

    def run(
        self,
        target: str | None = None,
        *,
        timeout: float | None = None,
        layers: str | Iterable[str] | None = None,
        inputs: Where | None = None,
        resume: bool = False,
        replace: bool = False,
        representatives: bool = False,
        jobs: int | None = None,
        warm: str = "previous",
        sample: float | None = None,
        scale_model: int | None = None,
        options: Mapping[str, str | int] | None = None,
        progress: Progress | None = None,
        notice: Notice | None = None,
    ) -> Result:
        """Run it on a target; the result is kept in the bundle, too.

        Args:
            target: the target's name; without one, the first that this machine can run.
            timeout: seconds after which the run is ended.
            layers: run only these layers: "conv1..pool1", or names.
            inputs: where these layers' inputs come from: a target, a results.h5 or "reference".
            resume: continue a stopped run after its last finished layer.
            replace: run it anew where a run with the same options has a result, which goes when
                the new one is whole.
            representatives: simulate only the first of launches that are alike; the others get its
                metrics.
            jobs: simulate pieces of the network side by side, so many at a time.
            warm: what fills the caches of a piece: "previous", the layer before it, or "none".
            sample: simulate about this part of a launch's work-groups (0.05) and extrapolate.
            scale_model: simulate an eighth of each launch (8) on an eighth of the machine.
            options: options of the target, as in `simgen run --help`: {"num_compute_units": 8}.
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
        cutting = _cutting(representatives, jobs, warm, sample, scale_model)
        source = os.fspath(inputs) if inputs else None
        wish = Wish(timeout, _joined(layers), source, resume, cutting, replace)
        with process.ended_with_program(), bundles.opened(self.path) as made:
            _check_options(made, target, options or {})
            listener = _Callbacks(progress, notice)
            return runs.run(made, target, options or {}, wish, listener)[1].result

    def sweep(
        self,
        target: str | None,
        grid: Mapping[str, Iterable[Value]],
        *,
        timeout: float | None = None,
        representatives: bool = False,
        jobs: int | None = None,
        warm: str = "previous",
        sample: float | None = None,
        scale_model: int | None = None,
        options: Mapping[str, str | int] | None = None,
        again: bool = False,
        progress: Progress | None = None,
        notice: Notice | None = None,
    ) -> dict[str, Result]:
        """Run it at each point of a grid of settings that has no result yet.

        Where settings of a build are swept, the points are in bundles beside this one, which are
        built first.

        Args:
            target: the target's name; None: the first that this machine can run.
            grid: the values of each option of the target, such as {"num_compute_units": [2, 4]},
                or setting of the build, such as {"n": [1, 4], "algo": ["direct", "winograd"]}.
            options: options that have one value throughout.
            again: run the points that have a result, too.
            timeout, representatives, jobs, warm, sample, scale_model, progress, notice: as in
                `run`, for each point.

        Returns:
            The results of all points, by their names, TARGET@SETTING=VALUE,...

        Raises:
            RunError: some points failed, which are named; the others have their results.
            UsageError, MissingError, RefusedError, DamagedError: as in `run`.
        """
        words = [f"{name}={','.join(map(_text, values))}" for name, values in grid.items()]
        if not words:
            raise UsageError("sweep: no option is given; give one with its values, or use run")
        wish = Wish(timeout, cutting=_cutting(representatives, jobs, warm, sample, scale_model))
        with process.ended_with_program(), bundles.opened(self.path) as made:
            _check_options(made, target, options or {})
            listener = _Callbacks(progress, notice)
            swept = sweeps.run(made, target, options or {}, words, wish, listener, again=again)
            swept.check()
            return {each.point.name: each.result for each in swept.points}

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
        names = [None if each is None else os.fspath(each) for each in (a, b)]
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


def _check_options(bundle: bundles.Bundle, target: str | None, options: Mapping[str, Any]) -> None:
    """The command line reads each option as it is written; here their values are checked, before
    anything else is looked at. `running.choose` does so for the target that will run.

    Raises:
        UsageError: a value is none of its option, in no target that may run.
    """
    names = [target] if target in TARGETS else [each for each in bundle.targets if each in TARGETS]
    for option, value in options.items():
        errors = []
        for of_target in (TARGETS[name].run_options for name in names):
            if option in of_target:
                try:
                    of_target[option].read(str(value))
                    break
                except ValueError as error:
                    errors.append(error)
        else:
            if errors:
                raise UsageError(f"{planning.spelling(option)} {errors[0]}")


def _cutting(
    representatives: bool, jobs: int | None, warm: str, sample: float | None, part: int | None
) -> Cutting | None:
    """How a network is to be cut; None: it is run whole."""
    if warm not in list(Warm):
        raise UsageError(f"--warm {printable(warm)}: unknown; {did_you_mean(warm, list(Warm))}")
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs}: write a whole number, 1 or more")
    if sample is not None and not 0 < sample <= 0.5:
        raise UsageError(f"--sample {sample!r}: write a part of the whole, such as 0.05")
    if part is not None and part < 2:
        raise UsageError(f"--scale-model {part}: write a whole number, 2 or more")
    if representatives or jobs is not None or sample is not None or part is not None:
        return Cutting(representatives, Warm(warm), jobs or 1, sample or 0.0, part or 0)
    return None


def _targets(given: Sequence[str | Target], settings: Mapping[str, Any]) -> list[Target]:
    """Those given by name with the settings that they have; the others as they are."""
    names = [each for each in given if isinstance(each, str)]
    if settings and not names:
        raise UsageError(
            f"{planning.spelling(next(iter(settings)))}: no target is given by name; "
            "give the target object its settings"
        )
    named = {t.name: t for t in planning.chosen_targets(names, settings)} if names else {}
    chosen = [named[each] if isinstance(each, str) else each for each in given]
    found: dict[str, Target] = {}
    for target in chosen:
        if found.setdefault(target.name, target) != target:
            raise UsageError(
                f"--target {target.name!r}: given twice, with different settings; keep one of them"
            )
    return list(found.values())


def _text(value: Value) -> str:
    """A value as configs have it."""
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def _joined(words: str | Iterable[str] | None) -> str | None:
    """Words with commas between them."""
    return words if words is None or isinstance(words, str) else ",".join(words)
