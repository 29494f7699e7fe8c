"""`simgen run` of one result: anew, of some layers, or from where an earlier run was stopped."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.errors import UsageError, message

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.bundle import Bundle
    from simgen.results import Result
    from simgen.runs import Start
    from simgen.targets import Target


@dataclass(frozen=True)
class Wish:
    """What the user asked for, beside the target and its options."""

    timeout: float | None = None  # seconds
    layers: str | None = None
    inputs: str | None = None
    resume: bool = False
    quiet: bool = False
    verbose: bool = False


def check(wish: Wish, target: Target, options: Mapping[str, str | int]) -> None:
    """Refuse what does not go together.

    Raises:
        UsageError: it does not.
    """
    if wish.inputs and not wish.layers:
        raise UsageError("--inputs: the whole network reads from the data file; add --layers")
    if wish.inputs and wish.resume:
        raise UsageError("--inputs: the stopped run has its inputs; leave it out")
    reason = target.whole_only()
    if reason and (wish.layers or wish.resume):
        raise UsageError(f"{'--layers' if wish.layers else '--resume'}: {target.name}: {reason}")
    if reason and options.get("keep") == "yes":
        raise UsageError(f"--keep: {target.name}: {reason}")


def verify(bundle: Bundle, wish: Wish) -> None:
    """Compare the input data with their digests, once for all runs of a command.

    Raises:
        DamagedError: they are not what was built.
    """
    from simgen import bundle as bundles
    from simgen import present

    with present.progress(wish.quiet) as progress:
        bundles.verify_values(bundle, progress("checking data", present.size))


def stopped_on(bundle: Bundle) -> str | None:
    """The first target that a run was stopped on; None if there is none."""
    from simgen import runs

    return next((name for name in bundle.targets if runs.results_stopped(bundle, name)), None)


def once(
    bundle: Bundle,
    target: Target,
    options: Mapping[str, str | int],
    wish: Wish,
    name: str | None = None,
) -> Path:
    """Run the target, and return the folder of its result, which is called `name` in a sweep."""
    from simgen import bundle as bundles
    from simgen import locks, parts, present, results, runs, seal
    from simgen.targets.base import log_text

    steps = None if wish.layers is None else parts.selected(bundle.workload, wish.layers)
    if steps is None or len(steps) == len(bundle.workload.steps):
        steps = None
        result = name or (_stopped(bundle, target) if wish.resume else target.name)
    else:
        result = parts.result_name(target.name, str(wish.layers))
    swept = name is not None
    with locks.running(bundle.path, bundle.path / bundles.RESULTS, result) as held:
        environment = {target.run_options[k].variable: str(v) for k, v in options.items()}
        resumes = wish.resume and not (swept and runs.stopped(bundle, result) is None)
        start, environment = _start(bundle, target, environment, wish, result, steps, resumes)
        folder = _run(bundle, target, environment, wish, result, start, held)
        found = results.collect(bundle, target, folder, result, check=False)
        results.save(found, bundle.workload, folder / results.FILE)
        seal.add(folder, results.FILE)
    if not wish.quiet:
        if not swept or wish.verbose:  # a sweep has one line for each point
            present.launches(bundle.workload, [found])
        if wish.verbose:
            print(log_text(folder), end="")
    return folder


def _run(
    bundle: Bundle,
    target: Target,
    environment: Mapping[str, str],
    wish: Wish,
    result: str,
    start: Start | None,
    held: tuple[int, ...],
) -> Path:
    from simgen import launch
    from simgen.commands import following

    todo = start.todo if start else bundle.workload
    if not wish.quiet:
        print(f"running on {target.name}", flush=True)
    with following.running(target.name, todo, wish.quiet) as follow:
        return launch.run(
            bundle,
            target.name,
            result=result,
            start=start,
            timeout=wish.timeout,
            environment=environment,
            tick=follow.tick if follow else None,
            progress=follow.progress if follow else None,
            preparing=follow.preparing if follow else None,
            say=None if wish.quiet else _notice,
            held=held,
        )


def _start(
    bundle: Bundle,
    target: Target,
    environment: dict[str, str],
    wish: Wish,
    result: str,
    steps: list[int] | None,
    resumes: bool,
) -> tuple[Start | None, dict[str, str]]:
    """A prepared folder and the environment of the run; None: all layers, anew."""
    from simgen import runs

    if resumes:
        start, before = runs.resume(bundle, target, result, environment)
        _tell_resumed(start, wish)
        return start, {**before, **environment}
    runs.sweep_away(bundle, result)
    if steps is None:
        _tell_stopped(bundle, result, wish)
        return None, environment
    return _begin(bundle, target, environment, wish, steps, result), environment


def _begin(
    bundle: Bundle,
    target: Target,
    environment: dict[str, str],
    wish: Wish,
    steps: list[int],
    name: str,
) -> Start:
    """A folder with what a part of the workload reads."""
    from simgen import launch, parts, present, runs

    launch.check(bundle, target)
    source = _source(bundle, target, wish.inputs)
    origin = source.name if source else parts.REFERENCE
    layers = str(wish.layers)
    start = runs.begin(bundle, target, name, environment, steps, layers=layers, inputs=origin)
    try:
        parts.prepare(start, bundle, source)
    except BaseException:
        runs.discard(start)
        raise
    if not wish.quiet:
        whole = present.many(len(bundle.workload.steps), "step")
        given = f"; inputs: {origin}" if parts.given(bundle.workload, steps) else ""
        print(f"layers {layers}: {len(steps)} of {whole}{given}", flush=True)
    return start


def _source(bundle: Bundle, target: Target, inputs: str | None) -> Result | None:
    """The result that a part's inputs come from; None: the reference."""
    from simgen import parts, results
    from simgen.commands.comparing import find_result

    if inputs == parts.REFERENCE:
        return None
    if inputs:
        return find_result(bundle, inputs)
    folder = bundle.results(target.name)
    return results.collect(bundle, target, folder) if folder else None


def _stopped(bundle: Bundle, target: Target) -> str:
    """The result that a run was stopped on; the target's own where there is none.

    Raises:
        UsageError: there are several.
    """
    from simgen import runs

    found = runs.results_stopped(bundle, target.name)
    if len(found) > 1:
        raise UsageError(
            f"--resume: several runs were stopped ({', '.join(found)}); say which one with the "
            "--layers or the --sweep that it had"
        )
    return found[0] if found else target.name


def _tell_resumed(start: Start, wish: Wish) -> None:
    if wish.quiet:
        return
    total = sum(len(start.whole.steps[at].launches) for at in start.run.steps)
    done = total - len(start.todo.launches)
    layers = f" of layers {start.run.layers}" if start.run.layers else ""
    print(f"{start.result}: goes on after {done} of {total} launches{layers}", flush=True)


def _tell_stopped(bundle: Bundle, name: str, wish: Wish) -> None:
    from simgen import runs

    if wish.quiet or wish.resume:
        return
    try:
        if runs.stopped(bundle, name) is None:
            return
    except UsageError:  # a simulator goes on without its script
        return
    print(
        f"note: an earlier run on {name} was stopped after a finished layer; this one starts "
        "anew, and --resume would go on with it",
        flush=True,
    )


def _notice(line: str) -> None:
    print(message(line), file=sys.stderr, flush=True)
