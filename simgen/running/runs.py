"""Runs as a user asks for them: anew, of some layers, or from where an earlier run was stopped.

`simgen.running.process` runs one script; here it is decided on which target, in which folder and
from which inputs, and the result is collected. What there is to tell goes to a Listener.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from simgen.ask.build import Destination
from simgen.ask.choice import spelled
from simgen.ask.run import RunChoices, RunCommand
from simgen.bundle import finding, result_folders, result_names, results
from simgen.bundle import writing as bundles
from simgen.bundle.finding import find_result
from simgen.errors import DamagedError, RefusedError, RunError, UsageError, did_you_mean
from simgen.ground.storage import locks, seal
from simgen.ground.storage.files import PART
from simgen.kernels import cache
from simgen.kernels.build import Builder
from simgen.running import pieces, process, run_folder, selection
from simgen.targets import TARGETS, Target
from simgen.workload import sharding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from simgen.bundle.results import Result
    from simgen.bundle.writing import Bundle
    from simgen.ground.ir import Workload
    from simgen.running.kept_pieces import PieceWork
    from simgen.running.run_folder import Start
    from simgen.targets.base import Progress, RunOption

    Options = Mapping[str, str | int]


class Follower(Protocol):
    """Called now and then while a run goes on; `passed` are seconds."""

    def tick(self, passed: float) -> None:
        """The target tells nothing more."""

    def preparing(self, what: str, passed: float) -> None:
        """No launch has begun."""

    def progress(self, progress: Progress, passed: float) -> None:
        """How far it has come."""


class Listener:
    """Receives the events of a run. This one ignores them; subclasses override methods."""

    def tell(self, line: str) -> None:
        """What was decided, in a line for people."""

    def notice(self, line: str) -> None:
        """What run.sh says that it is about."""

    def checking(self) -> AbstractContextManager[Callable[[int, int], None] | None]:
        """A callback for bytes of the input data that are compared with their digest, and all."""
        return contextlib.nullcontext()

    def following(self, name: str, todo: Workload) -> AbstractContextManager[Follower | None]:
        """For a run of the workload on the target of this name."""
        return contextlib.nullcontext()


@dataclass(frozen=True)
class Ended:
    """A run that has ended well."""

    folder: Path
    result: Result


def run(
    bundle: Bundle, asked: RunChoices, listener: Listener, *, verified: bool = False
) -> tuple[Bundle, Ended]:
    """Run an opened bundle on a target, or on the first that can; the bundle with what that added.

    `verified` says that the input data have just been written.

    Raises:
        UsageError: what is asked for does not go together, or the bundle cannot do it.
        DamagedError, MissingError, RefusedError, RunError: as `simgen.running.process.run`.
    """
    chosen = choose(bundle, asked, listener)
    if not verified:
        verify(bundle, listener)
    bundle = extended(bundle, chosen, asked.options)
    return bundle, once(bundle, chosen, asked, listener)


def check_options(options: Options) -> None:
    """Refuse values of options that no target takes, before a bundle is looked at.

    Raises:
        UsageError: one of them is none.
    """
    for name, value in options.items():
        having = [each.run_options[name] for each in TARGETS.values() if name in each.run_options]
        faults = [fault for each in having if (fault := _fault(each, value))]
        if faults and len(faults) == len(having):
            raise UsageError(f"{spelled(name)} {faults[0]}")


def _fault(option: RunOption, value: str | int) -> str:
    """What is wrong with a value; empty if nothing is."""
    try:
        option.read(str(value))
    except ValueError as error:
        return str(error)
    return ""


def passing(flag: str, targets: Iterable[Target | type[Target]]) -> str:
    """How an option of a target's own program is passed on to it; empty if none has it."""
    for target in targets:
        for name, each in target.run_options.items():
            if each.passes(flag):
                return f"{target.name} passes it on: {spelled(name)}={flag}=VALUE"
    return ""


def choose(bundle: Bundle, asked: RunChoices, listener: Listener) -> Target:
    """The target that was named, or the first that can run; it has all of the options.

    Raises:
        UsageError: the bundle has no such target, or the target no such option or value of one.
        MissingError: none can run here.
    """
    name = asked.target
    if name is None and asked.resume:
        name = _stopped_on(bundle)
    if name is None:
        name, passed = process.choose(bundle)
        for other, reasons in passed.items():
            listener.tell(f"not on {other}: {' | '.join(reasons)}")
    elif name not in bundle.targets:
        fact = f"{RunChoices.target} {name!r}: not a target of the bundle"
        raise UsageError(f"{fact}; {_other(name, bundle)}")
    chosen = finding.target_of(bundle, name)
    for option, value in asked.options.items():
        if option not in chosen.run_options:
            cure = passing(spelled(option), [chosen]) or "leave it out"
            raise UsageError(f"{spelled(option)}: {name} has no such option; {cure}")
        # What is right for another target need not be for this one.
        if fault := _fault(chosen.run_options[option], value):
            raise UsageError(f"{spelled(option)} {fault}")
    check(asked, chosen)
    return chosen


def check(asked: RunChoices, target: Target) -> None:
    """Refuse what does not go together on this target.

    Raises:
        UsageError: it does not.
    """
    if asked.by_pieces:
        pieces.check(target, asked)
    reason = target.whole_only()
    if reason and (asked.layers or asked.resume):
        part = RunChoices.layers if asked.layers else RunChoices.resume
        raise UsageError(f"{part}: {target.name}: {reason}")
    if reason and asked.options.get("keep") == "yes":
        raise UsageError(f"{spelled('keep')}: {target.name}: {reason}")


def verify(bundle: Bundle, listener: Listener) -> None:
    """Compare the input data with their digests, once for all runs of a command.

    Raises:
        DamagedError: they are not what was built.
    """
    with listener.checking() as progress:
        bundles.verify_values(bundle, progress)


def extended(bundle: Bundle, target: Target, options: Options) -> Bundle:
    """The bundle with all that a run with these options needs."""
    gpus = int(options.get("gpus", target.sharing()))
    sharding.check_enough(bundle.workload, gpus, f"{spelled('gpus')} {gpus}")
    name = target.package.extension(options)
    folder = f"{target.name}/{name}"
    if not name or any(file.startswith(f"{folder}/") for file in bundle.manifest["files"]):
        return bundle
    files = target.package.extend(options, bundle.workload, Builder(cache.default()))
    return bundles.extend(bundle, folder, files)


def _settled(target: Target, asked: RunChoices) -> dict[str, str]:
    """The options that are not as usual, whether an argument or the environment gives them."""
    known = {name: option.variable for name, option in target.run_options.items()}
    had = {name: str(asked.options.get(name) or os.environ.get(v, "")) for name, v in known.items()}
    return {name: text for name, text in had.items() if text and text != target.default(name)}


def name_of(target: Target, asked: RunChoices) -> str:
    """The name of the result of a run: with what is not as usual, and what it is of."""
    said = {name.lower(): os.environ[name] for name in target.said_in if os.environ.get(name)}
    options = {**_settled(target, asked), **said}
    return result_names.of_run(target.name, options, result_names.of_asked(asked))


def _recorded(target: Target, asked: RunChoices, *, swept: bool) -> RunCommand:
    """What the record of a run keeps: enough to ask for the same again, by the same name."""
    given = asked.lasting.given().items()
    kept = {each.name: value for each, value in given if each.owner is RunChoices}
    point = tuple(f"{name}={value}" for name, value in asked.options.items()) if swept else ()
    options = {} if swept else _settled(target, asked)
    return RunCommand(**{**kept, "target": target.name, "options": options, "grid": point})


def refuse_loss(bundle: Bundle, result: str, listener: Listener) -> None:
    """Refuse a run that would put its result in the place of a finished one.

    Raises:
        RefusedError: there is one, and it is whole.
    """
    folder = bundle.path / bundles.RESULTS / result
    if not folder.is_dir():
        return
    try:
        bundle.results(result)
        results.check_whole(bundle, folder)
    except DamagedError as error:
        listener.tell(f"replaced: {str(error).partition(';')[0]}")
        return
    ended = datetime.fromtimestamp((folder / seal.FILE).stat().st_mtime, UTC)
    raise RefusedError(
        f"{folder}: has the result of this run, of {ended:%Y-%m-%d %H:%M:%S} UTC; use it, or run "
        f"it anew with {RunChoices.replace}"
    )


def one_piece(
    bundle: Bundle,
    target: Target,
    asked: RunChoices,
    nth: int,
    listener: Listener,
    name: str | None,
) -> None:
    """Run one piece of what `once` runs by pieces; it is kept for that."""
    work = _pieces(bundle, target, asked, name)
    pieces.run_one(work, nth, listener.tell, lambda todo: listener.following(target.name, todo))


def _pieces(bundle: Bundle, target: Target, asked: RunChoices, name: str | None) -> PieceWork:
    process.check(bundle, target)
    given = {**asked.options, **({"keep": "no"} if "keep" in target.run_options else {})}
    environment = {target.run_options[k].variable: str(v) for k, v in given.items()}
    recorded = _recorded(target, asked, swept=name is not None)
    result = name or name_of(target, asked)
    return pieces.prepared(bundle, target, environment, asked, recorded, result)


def once(
    bundle: Bundle, target: Target, asked: RunChoices, listener: Listener, name: str | None = None
) -> Ended:
    """Run the target; the result is called `name` in a sweep."""
    if asked.by_pieces:
        if not asked.replace:
            refuse_loss(bundle, name or name_of(target, asked), listener)
        work = _pieces(bundle, target, asked, name)
        follow = functools.partial(listener.following, target.name)
        return Ended(*pieces.run(work, asked.jobs or 1, listener.tell, listener.notice, follow))
    steps = None if asked.layers is None else selection.selected(bundle.workload, asked.layers)
    if steps is not None and len(steps) == len(bundle.workload.steps):
        steps, asked = None, replace(asked, layers=None, inputs=None)
    result = name or name_of(target, asked)
    swept = name is not None
    if asked.resume and not swept and run_folder.stopped(bundle, result) is None:
        result = _stopped(bundle, target) if steps is None else result
    with locks.running(bundle.path, bundle.path / bundles.RESULTS, result) as held:
        if not (asked.replace or asked.resume):
            refuse_loss(bundle, result, listener)
        environment = {target.run_options[k].variable: str(v) for k, v in asked.options.items()}
        resumes = asked.resume and not (swept and run_folder.stopped(bundle, result) is None)
        if resumes:
            start, before = run_folder.resume(bundle, target, result, environment)
            _tell_resumed(start, listener)
            environment = {**before, **environment}
        else:
            whole = name_of(target, replace(asked, layers=None, inputs=None))
            recorded = _recorded(target, asked, swept=swept)
            start = _start(bundle, target, environment, recorded, listener, result, steps, whole)
        with _taken_over(bundle, target, result) as aside:
            environment = {**environment, "SIMGEN_OLD": str(aside.absolute())}
            folder = _launch(bundle, target, environment, asked, listener, result, start, held)
            found = results.keep(bundle, target, folder, result)
    return Ended(folder, found)


@contextlib.contextmanager
def _taken_over(bundle: Bundle, target: Target, result: str) -> Iterator[Path]:
    """Place of a result that a run replaces: for good when the new one has been read, or when the
    user interrupts that.

    Raises:
        RunError: the new one cannot be; the old one is in its place again.
    """
    home = bundle.path / bundles.RESULTS
    place, aside = home / result, home / f"{PART}{result}.{os.getpid()}.old"
    begun = _inode(place)
    try:
        yield aside
    except BaseException as error:
        unread = _inode(place) != begun  # run.sh has put the new one there
        if unread and not isinstance(error, Exception):
            raise  # whoever interrupts keeps what has ended: run.sh has closed it
        if unread:
            failed = home / f"{result_folders.FAILED}{result}"
            failed.mkdir(exist_ok=True)
            with contextlib.suppress(OSError):
                shutil.copyfile(place / "log.txt", failed / "log.txt")
            shutil.rmtree(place, ignore_errors=True)
        if aside.is_dir() and not place.exists():
            aside.rename(place)
        if unread and isinstance(error, DamagedError):
            fact = str(error).partition("; ")[0]
            raise RunError(
                f"{target.name}: the run left no whole result ({fact}); read "
                f"{home / f'{result_folders.FAILED}{result}' / 'log.txt'}"
            ) from None
        raise
    finally:
        if place.exists():
            shutil.rmtree(aside, ignore_errors=True)


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _launch(
    bundle: Bundle,
    target: Target,
    environment: Mapping[str, str],
    asked: RunChoices,
    listener: Listener,
    result: str,
    start: Start,
    held: tuple[int, ...],
) -> Path:
    listener.tell(f"running on {target.name}")
    with listener.following(target.name, start.todo) as follow:
        return process.run(
            bundle,
            target.name,
            result=result,
            start=start,
            timeout=asked.timeout,
            environment=environment,
            tick=follow.tick if follow else None,
            progress=follow.progress if follow else None,
            preparing=follow.preparing if follow else None,
            say=listener.notice,
            held=held,
        )


def _start(
    bundle: Bundle,
    target: Target,
    environment: Mapping[str, str],
    asked: RunCommand,
    listener: Listener,
    result: str,
    steps: list[int] | None,
    whole: str,
) -> Start:
    """A folder in which it begins anew, with what a part of the workload reads; `whole` is the name
    of the result of all layers."""
    run_folder.sweep_away(bundle, result)
    process.check(bundle, target)
    if steps is None:
        _tell_stopped(bundle, result, listener)
        return run_folder.begin(bundle, target, result, environment, asked=asked)
    source = _source(bundle, target, asked.inputs, whole)
    origin = source.name if source else selection.REFERENCE
    layers = str(asked.layers)
    start = run_folder.begin(
        bundle, target, result, environment, steps, layers=layers, inputs=origin,
        asked=replace(asked, inputs=origin),
    )  # fmt: skip
    try:
        selection.prepare(start, bundle, source)
    except BaseException:
        run_folder.discard(start)
        raise
    count = len(bundle.workload.steps)
    given = f"; inputs: {origin}" if selection.writers_before(bundle.workload, steps) else ""
    listener.tell(
        f"layers {layers}: {len(steps)} of {count} step{'' if count == 1 else 's'}{given}"
    )
    return start


def _source(bundle: Bundle, target: Target, inputs: str | None, whole: str) -> Result | None:
    """The result that a part's inputs come from; None: the reference."""
    if inputs == selection.REFERENCE:
        return None
    if inputs:
        return find_result(bundle, inputs)
    for name in dict.fromkeys((whole, target.name)):  # with the same options, or the usual ones
        if folder := bundle.results(name):
            return results.collect(bundle, target, folder, name)
    return None


def _stopped_on(bundle: Bundle) -> str | None:
    """The first target that a run was stopped on; None if there is none."""
    return next((name for name in bundle.targets if run_folder.results_stopped(bundle, name)), None)


def _stopped(bundle: Bundle, target: Target) -> str:
    """The result that a run was stopped on; the target's own where there is none.

    Raises:
        UsageError: there are several.
    """
    found = run_folder.results_stopped(bundle, target.name)
    if len(found) > 1:
        raise UsageError(
            f"{RunCommand.resume}: several runs were stopped ({', '.join(found)}); say which one "
            f"with the options, the {RunCommand.layers} or the {RunCommand.grid} that it had"
        )
    return found[0] if found else target.name


def _other(target: str, bundle: Bundle) -> str:
    """The cure for a target that the bundle does not have."""
    if target in TARGETS:
        return f"add it: build the bundle again with {Destination.targets} {target}"
    return did_you_mean(target, bundle.targets)


def _tell_resumed(start: Start, listener: Listener) -> None:
    total = sum(len(start.whole.steps[at].launches) for at in start.run.steps)
    done = total - len(start.todo.launches)
    layers = f" of layers {start.run.layers}" if start.run.layers else ""
    listener.tell(f"{start.result}: continues after {done} of {total} launches{layers}")


def _tell_stopped(bundle: Bundle, name: str, listener: Listener) -> None:
    try:
        if run_folder.stopped(bundle, name) is None:
            return
    except UsageError:  # a simulator goes on without its script
        return
    listener.tell(
        f"note: an earlier run on {name} was stopped after a finished layer; this one starts "
        f"from the beginning, and {RunChoices.resume} would continue it"
    )
