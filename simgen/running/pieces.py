"""A network in pieces, each a simulator of its own: side by side, and equal launches once.

Each piece begins with the tensors that the reference has there (`simgen.workload.pieces`). What
pieces leave is kept in `results/stopped-NAME` until all have ended, so that the same command goes
on after an interruption; then it becomes the result NAME at once.
"""

from __future__ import annotations

import contextlib
import queue
import shutil
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from simgen.ask.build import BuildChoices
from simgen.ask.choice import spelled
from simgen.ask.run import RunChoices, RunCommand
from simgen.bundle import pieces as files
from simgen.bundle import result_names, results, run_record
from simgen.bundle import writing as bundles
from simgen.errors import RefusedError, RunError, UsageError, one_line
from simgen.ground.storage import locks, seal
from simgen.ground.storage.files import PART
from simgen.running import capacity, kept_pieces, process, run_folder, sampling, selection
from simgen.running.kept_pieces import PieceWork
from simgen.targets.base import Progress
from simgen.workload import pieces, reference
from simgen.workload.pieces import Piece, Survey, Warm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.bundle.results import Result
    from simgen.bundle.run_record import Run
    from simgen.bundle.writing import Bundle
    from simgen.ground.ir import Workload
    from simgen.running.run_folder import Start
    from simgen.targets import Target

LOOK = 0.5  # seconds between looks at how far the pieces are


class Cancelled(BaseException):
    """Ends a piece because another one, or the user, has ended the run."""


def plan(workload: Workload, asked: RunChoices) -> tuple[Survey, list[Piece]]:
    """What is measured, and in which pieces.

    Raises:
        UsageError: tensors that steps read are gone after a run, or there are no such layers.
    """
    choice = asked.by_pieces
    if reference.reuses_memory(workload):
        raise UsageError(
            f"{choice}: the bundle reuses memory, so what layers read is gone; build it "
            f"without {BuildChoices.reuse_memory}"
        )
    if workload.queues:
        raise UsageError(
            f"{choice}: a piece is simulated without what several queues would run beside it; "
            f"build it without {BuildChoices.queues}"
        )
    make = pieces.representatives if asked.representatives else pieces.everything
    wanted = None if asked.layers is None else selection.selected(workload, asked.layers)
    survey = make(workload, wanted)
    # On a part of the machine caches are filled, so nothing has to run before a piece.
    usual = Warm.NONE if asked.scale_model else Warm.PREVIOUS
    return survey, pieces.cut_steps(
        workload, survey.steps, Warm(asked.warm or usual), asked.jobs or 1
    )


def check(target: Target, asked: RunChoices) -> None:
    """Refuse what cannot be run by pieces.

    Raises:
        UsageError: the target or its options.
    """
    choice, options = asked.by_pieces, asked.options
    if reason := target.whole_only():
        raise UsageError(f"{choice}: {target.name}: {reason}")
    sampled = RunChoices.scale_model if asked.scale_model else RunChoices.sample
    if (asked.sample or asked.scale_model) and (reason := target.unsampled(options)):
        raise UsageError(f"{sampled}: {target.name}: {reason}")
    if int(options.get("gpus", target.sharing())) > 1:
        cure = f"run it with {spelled('gpus')} 1"
        raise UsageError(f"{choice}: several GPUs share the batch; {cure}")
    if options.get("keep") == "yes":
        cure = f"leave out {spelled('keep')} yes"
        raise UsageError(f"{choice}: finished pieces are kept by themselves; {cure}")


def prepared(
    bundle: Bundle,
    target: Target,
    environment: Mapping[str, str],
    asked: RunChoices,
    recorded: RunCommand,
    name: str,
) -> PieceWork:
    """A run of a workload by pieces, or of some layers of it, that makes the result `name`. Its
    record keeps what is `recorded`, and its time limit is for each process.

    Raises:
        UsageError, RefusedError: it cannot be cut so.
    """
    workload = bundle.workload
    survey, cuts = plan(workload, asked)
    about = ", ".join(each for each in (asked.layers, result_names.of_asked(asked)[-1]) if each)
    record = run_folder.record(
        bundle, target, environment, survey.steps, about, selection.REFERENCE, recorded
    )
    options = {option: str(value) for option, value in asked.options.items()}
    if asked.scale_model:
        taken = sampling.of_part(workload, target, options, asked.scale_model, cuts)
    else:
        taken = sampling.choose(bundle, target, options, asked.sample, cuts)
    record = replace(record, pieces=tuple(cuts), inferred=survey.inferred, samples=taken)
    return PieceWork(bundle, target, record, environment, asked.timeout, name)


def run(
    work: PieceWork,
    jobs: int,
    tell: Callable[[str], None],
    say: Callable[[str], None],
    following: Callable[[Workload], Any],
) -> tuple[Path, Result]:
    """Run all pieces, so many at a time; the folder of the result, and it.

    `say` gets a line where the run ends early, and `following` makes a context with somebody to
    tell how far all pieces together are (simgen.running.runs.Follower).

    Raises:
        RunError: pieces failed; the others are kept.
        Else as `simgen.running.process.run`.
    """
    bundle, workload, name = work.bundle, work.bundle.workload, work.name
    with locks.running(bundle.path, bundle.path / bundles.RESULTS, name):
        cuts = work.run.pieces
        kept_pieces.check_cut(work)
        _check_memory(work.target, workload, min(jobs, len(cuts) - len(kept_pieces.finished(work))))
        done = kept_pieces.prepare(work, cuts)
        tell(_progress_line(workload, work.run, len(done), jobs))
        left = [piece for piece in cuts if piece not in done]
        steps = [at for piece in left for at in piece.all]
        with following(run_record.part(workload, steps)) as follow:
            try:
                failed = _simulate(work, left, jobs, follow.progress if follow else None)
            except BaseException:
                kept = sum(files.path(work.home, piece).exists() for piece in cuts)
                say(f"simgen: {name}: {kept} of {len(cuts)} pieces are kept; the same command "
                    "goes on")  # fmt: skip
                raise
        if failed:
            kept = len(cuts) - len(failed)
            raise RunError(
                f"{name}: {len(failed)} of {len(cuts)} pieces failed: {'; '.join(failed)}; "
                f"{kept} are kept, and the same command runs the others again"
            )
        return _finish(work)


def run_one(
    work: PieceWork, nth: int, tell: Callable[[str], None], following: Callable[[Workload], Any]
) -> None:
    """Run one piece of a run by pieces, the `nth` from 1 on, and keep it for `run`.

    Others may do so at the same time, on this machine or another that shares the bundle's folder.

    Raises:
        UsageError: there is no such piece, or what is kept is of another cut.
        RunError: it failed.
        Else as `simgen.running.process.run`.
    """
    bundle, name = work.bundle, work.name
    with locks.sharing(bundle.path, bundle.path / bundles.RESULTS, name):
        cuts = work.run.pieces
        if not 1 <= nth <= len(cuts):
            count = f"{len(cuts)} piece{'' if len(cuts) == 1 else 's'}"
            raise UsageError(f"{RunCommand.piece} {nth}: there are {count}; write 1 to {len(cuts)}")
        piece = cuts[nth - 1]
        with locks.adding(bundle.path):  # who comes first makes the folder
            kept_pieces.check_cut(work)
            done = kept_pieces.prepare(work, [piece])
        if done:
            tell(f"piece {nth} of {len(cuts)} was simulated before")
            return
        steps = ", ".join(run_record.names(bundle.workload, piece.steps))
        tell(f"piece {nth} of {len(cuts)}: {steps}")
        with following(run_record.part(bundle.workload, piece.all)) as follow:
            failed = _simulate(work, [piece], 1, follow.progress if follow else None)
        if failed:
            raise RunError(f"{name}: piece {nth} of {len(cuts)}: {failed[0]}")


def counts(workload: Workload, steps: Sequence[int], inferred: int, cuts: Sequence[Piece]) -> str:
    """How many launches these measured steps have, are like theirs, and run uncounted; in words."""
    measured = sum(len(workload.steps[at].launches) for at in steps)
    warm = sum(len(workload.steps[at].launches) for piece in cuts for at in piece.warm)
    parts = [f"{measured} of {len(workload.launches)} launches are measured"]
    parts += [f"{inferred} are like them"] if inferred else []
    parts += [f"{warm} run before them, uncounted"] if warm else []
    parts += ["in one piece" if len(cuts) == 1 else f"in {len(cuts)} pieces"]
    return ", ".join(parts)


def _progress_line(workload: Workload, run: Run, done: int, jobs: int) -> str:
    cuts = run.pieces
    found = counts(workload, run.steps, len(run.inferred), cuts)
    at_once = f", {min(jobs, len(cuts))} at a time" if len(cuts) > 1 else ""
    kept = f"; {done} pieces were simulated before" if done else ""
    sampled = run.choices.sample or run.choices.scale_model
    part = f"; {sampling.sampling_line(workload, run)}" if sampled else ""
    return f"{found}{at_once}{part}{kept}"


def _check_memory(target: Target, workload: Workload, jobs: int) -> None:
    if jobs > 1:
        needed = jobs * target.needs.memory_nbytes(workload)
        cure = f"take fewer {RunChoices.jobs}: "
        capacity.check_memory(f"{target.name}, {jobs} at a time", needed, cure)


# ------------------------------------------------------------------ simulating


def _simulate(
    work: PieceWork,
    left: Sequence[Piece],
    jobs: int,
    progress: Callable[[Progress, float], None] | None,
) -> list[str]:
    """Run pieces; what is said of those that failed."""
    failed: list[str] = []
    began = time.monotonic()
    weights = pieces.weights(work.bundle.workload, left)
    waiting: queue.PriorityQueue[tuple[float, int, Piece, Start]] = queue.PriorityQueue()

    def largest() -> None:
        """Run the largest waiting piece, so that the last ones to end are small."""
        *_, piece, start = waiting.get_nowait()
        _once(work, piece, start)

    with _Prepared(work, left) as prepared, ThreadPoolExecutor(jobs) as pool:
        running: set[Future[None]] = set()
        try:
            for nth, (piece, start) in enumerate(prepared.starts()):
                waiting.put((-weights[piece], nth, piece, start))
                running.add(pool.submit(largest))
                _collect(running, failed, 0.0)
                if progress:
                    progress(_sum(work), time.monotonic() - began)
            while running:
                _collect(running, failed, LOOK)
                if progress:
                    progress(_sum(work), time.monotonic() - began)
        except BaseException:
            work.cancelled.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failed


def _collect(running: set[Future[None]], failed: list[str], seconds: float) -> None:
    """Take those that have ended from `running`, after waiting so long for one."""
    for future in wait(running, seconds, FIRST_COMPLETED).done:
        running.remove(future)
        try:
            future.result()
        except (RunError, RefusedError) as error:
            failed.append(one_line(str(error)))


def _sum(work: PieceWork) -> Progress:
    found = list(work.reached.values())
    times = [each.simulated_seconds for each in found if each.simulated_seconds is not None]
    counts = [each.instructions for each in found if each.instructions is not None]
    launches = sum(each.launches for each in found)
    return Progress(launches, sum(times) if times else None, sum(counts) if counts else None)


class _Prepared:
    """Folders with what pieces read, made as the reference comes to it; those that no run has taken
    are removed at the end."""

    def __init__(self, work: PieceWork, left: Sequence[Piece]) -> None:
        self.work = work
        self.workload = work.bundle.workload
        self.wanted = {piece: set(self._names(piece)) for piece in left}
        self.made: list[Start] = []

    def __enter__(self) -> _Prepared:
        return self

    def __exit__(self, *_: object) -> None:
        for start in self.made:
            run_folder.discard(start)

    def _names(self, piece: Piece) -> Iterator[str]:
        for at in self._given(piece):
            yield from (name for _, name in self.workload.steps[at].writes)

    def _given(self, piece: Piece) -> list[int]:
        """The steps whose tensors the piece begins with."""
        filled = sampling.filled(self.workload, self.work.run, piece)
        return [*selection.writers_before(self.workload, piece.all), *filled]

    def starts(self) -> Iterator[tuple[Piece, Start]]:
        """Each piece as soon as all that it reads is known."""
        held: dict[str, NDArray[Any]] = {}
        yield from self._whole(held)
        steps = {at for piece in self.wanted for at in self._given(piece)}
        if not self.wanted:
            return
        for made in selection.references(self.work.bundle, steps):
            held |= made
            yield from self._whole(held)
            needed = set().union(*self.wanted.values())
            held = {name: values for name, values in held.items() if name in needed}

    def _whole(self, held: Mapping[str, NDArray[Any]]) -> Iterator[tuple[Piece, Start]]:
        for piece in [piece for piece, names in self.wanted.items() if names <= held.keys()]:
            names = self.wanted.pop(piece)
            work = self.work
            taken = sampling.of_piece(self.workload, work.run, piece)
            start = run_folder.begin(
                work.bundle, work.target, work.result_of(piece), work.environment, piece.all,
                layers=work.run.layers, inputs=work.run.inputs, samples=taken,
                asked=work.run.choices,
            )  # fmt: skip
            self.made.append(start)
            filled = sampling.filled(self.workload, work.run, piece)
            if filled or len(piece.all) < len(self.workload.steps):
                tensors = {name: held[name] for name in names}
                tensors |= sampling.left_out(self.workload, taken, filled, tensors)
                selection.give(start, work.bundle, tensors, filled)
            yield piece, start


def _once(work: PieceWork, piece: Piece, start: Start) -> None:
    """Run a piece to its end and keep what it leaves."""
    if work.cancelled.is_set():
        return

    def look(reached: Progress, passed: float) -> None:
        work.reached[piece.steps[0]] = reached
        tick(passed)

    def tick(_: float) -> None:
        if work.cancelled.is_set():
            raise Cancelled

    result = work.result_of(piece)
    home = work.bundle.path / bundles.RESULTS
    with contextlib.suppress(Cancelled), locks.running(work.bundle.path, home, result) as held:
        folder = process.run(
            work.bundle, work.target.name, result=result, start=start, timeout=work.timeout,
            environment=work.environment, tick=tick, progress=look, preparing=lambda _, s: tick(s),
            say=None, held=held,
        )  # fmt: skip
        _keep(work, piece, folder, result)
        work.reached[piece.steps[0]] = Progress(len(start.todo.launches), *_measured(work, piece))


def _measured(work: PieceWork, piece: Piece) -> tuple[float | None, float | None]:
    """Simulated seconds and instructions of a piece that has ended, of what targets tell."""
    before = work.reached.get(piece.steps[0])
    return (before.simulated_seconds, before.instructions) if before else (None, None)


def _keep(work: PieceWork, piece: Piece, folder: Path, result: str) -> None:
    """Reduce what a process left to what its piece is about."""
    workload = work.bundle.workload
    found = results.collect(work.bundle, work.target, folder, result, check=False)
    wanted = files.tensors(workload, piece)
    found = replace(found, outputs={name: found.outputs[name] for name in wanted})
    path = files.path(work.home, piece)
    shutil.copyfile(folder / "log.txt", path.with_suffix(".log"))
    results.save(found, workload, path)
    shutil.rmtree(folder)


# ------------------------------------------------------------------ the end


def _finish(work: PieceWork) -> tuple[Path, Result]:
    """Make the result of all pieces, in place of the one before."""
    place = work.bundle.path / bundles.RESULTS / work.name
    logs = [files.path(work.home, piece).with_suffix(".log") for piece in work.run.pieces]
    text = "".join(log.read_text(errors="replace") for log in logs if log.exists())
    (work.home / "log.txt").write_text(text)
    (work.home / seal.FILE).write_text(f"{work.bundle.digest}\n")
    found = results.keep(work.bundle, work.target, work.home, work.name)
    old = place.with_name(f"{PART}{work.name}.0.old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    work.home.rename(place)
    shutil.rmtree(old, ignore_errors=True)
    return place, found
