"""Running a bundle's `run.sh`: room, time-out, interruption, progress, and why it failed."""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from simgen import errors
from simgen.ask.build import BuildChoices
from simgen.ask.run import RunChoices
from simgen.bundle import commands, finding
from simgen.bundle import writing as bundles
from simgen.errors import (
    DamagedError,
    MissingError,
    RefusedError,
    RunError,
    SimgenError,
    UsageError,
)
from simgen.ground.storage.files import PART
from simgen.isa.child import until_parent_ends
from simgen.running import capacity, run_folder
from simgen.targets.base import Progress, log_text
from simgen.tensors import state_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from simgen.bundle.writing import Bundle
    from simgen.ground.ir import Workload
    from simgen.running.run_folder import Start
    from simgen.targets import Target

GRACE = 5.0  # seconds between asking a run to end and ending it
LOOK = 0.05  # seconds between looks at whether its processes have ended
PREPARATION = 1800.0  # seconds that run.sh may take before the run, where there is a time limit
ERRORS: dict[int, type[SimgenError]] = {
    2: UsageError,
    3: MissingError,
    4: RefusedError,
    5: RunError,
    7: DamagedError,
}


@contextlib.contextmanager
def ended_with_program() -> Iterator[None]:
    """Runs in this block end where SIGTERM or SIGHUP ends the program (errors.end_by_signals).

    In other threads than the first, Python has no handlers.
    """
    first = threading.current_thread() is threading.main_thread()
    found = errors.end_by_signals() if first else []
    try:
        yield
    finally:
        for each in found:
            signal.signal(each, signal.SIG_DFL)


def obstacles(bundle: Bundle, name: str) -> list[str]:
    """All that keeps this machine from running the target here; empty if nothing does."""
    target = finding.target_of(bundle, name)
    return [str(lack) for lack in target.needs.missing(bundle.path)]


def choose(bundle: Bundle) -> tuple[str, dict[str, list[str]]]:
    """The first target that this machine can run, and why not the ones before it.

    Raises:
        MissingError: there is none.
    """
    passed: dict[str, list[str]] = {}
    for name in bundle.targets:
        target = finding.target_of(bundle, name)
        refusal = target.needs.refusal(bundle.path)
        passed[name] = obstacles(bundle, name) + ([refusal] if refusal else [])
        if not passed[name]:
            del passed[name]
            return name, passed
    reasons = " | ".join(f"{name}: {lacks[0]}" for name, lacks in passed.items())
    raise MissingError(f"{bundle.path}: no target can run on this machine: {reasons}")


def run(
    bundle: Bundle,
    name: str,
    *,
    result: str | None = None,
    start: Start | None = None,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
    tick: Callable[[float], None] | None = None,
    say: Callable[[str], None] | None = None,
    progress: Callable[[Progress, float], None] | None = None,
    held: tuple[int, ...] = (),
    preparing: Callable[[str, float], None] | None = None,
) -> Path:
    """Run a target and return its results folder.

    `say` is called with each line in which run.sh tells what it is about, `tick` with the seconds
    since the last of them; or `progress`, where the target tells, with how far the run has come
    too; or `preparing`, before the run, with what run.sh does meanwhile. `timeout` is in seconds;
    what run.sh prepares first (it may build a simulator) does not count. run.sh gets it in
    SIMGEN_TIMEOUT.

    The folder is `result`, of a sweep's point (simgen.bundle.result_names), or the target's own.
    `start` is a folder for the run (simgen.bundle.run_record); without it, all of the workload is
    run anew. `held` are the handles of the run's locks (simgen.ground.storage.locks), which run.sh
    otherwise takes itself.

    Raises:
        DamagedError: a file of the bundle is not what was built, or data.h5 is cut short.
        MissingError: this machine lacks something; all lacks are named.
        RefusedError: the target refuses this place, or there is no room for the run.
        RunError: the run failed or took longer than `timeout` seconds.
    """
    target = finding.target_of(bundle, name)
    result = start.result if start else result or name
    check(bundle, target)
    started, before = time.time(), _identity(bundle, result)
    start = start or run_folder.begin(bundle, target, result, environment or {})
    limit = {} if timeout is None else {"SIMGEN_TIMEOUT": f"{timeout:f}"}
    own = {
        "SIMGEN_RESULT": result,
        "SIMGEN_START": str(start.folder.absolute()),
        "SIMGEN_LAUNCHES": str(len(start.todo.launches)),
        "SIMGEN_LOCKS": " ".join(str(handle) for handle in held),
        "SIMGEN_REPLACE": "yes",  # whoever calls has made sure that it may
    }
    process = _start(bundle.path / name / "run.sh", {**limit, **(environment or {}), **own}, held)
    watched = _Watched(target, bundle, start, process.pid)
    try:
        # A target that ends itself knows in which layer it was: it gets the time to say so.
        grace = GRACE if target.ends_itself else 0.0
        told = watched.told(tick, progress)
        output = _Output(process, timeout, grace, told, say, preparing).wait()
    except RunError as error:
        at = watched.place()
        _end(process)
        raise RunError(f"{name}: {at}{error}{watched.cure()}") from None
    except BaseException:
        done = watched.launches()
        _end(process)
        if say and (cure := watched.cure()):
            say(
                f"simgen: {name}: stopped after {done} of {len(start.todo.launches)} launches{cure}"
            )
        raise
    finally:
        run_folder.discard(start)
    if process.returncode == 0 and bundle.has(result) and _identity(bundle, result) != before:
        return bundle.path / bundles.RESULTS / result
    raise _failure(bundle, target, watched, process.returncode, output, started)


def _identity(bundle: Bundle, result: str) -> tuple[int, int] | None:
    """Tells the folder of a result from the one that takes its place; None: there is none."""
    try:
        told = (bundle.path / bundles.RESULTS / result).stat()
    except OSError:
        return None
    return told.st_ino, told.st_ctime_ns


def check(bundle: Bundle, target: Target) -> None:
    """Refuse a run that cannot end well.

    Raises:
        DamagedError, MissingError, RefusedError: as `run`.
    """
    if lacks := target.needs.missing(bundle.path):
        raise MissingError(f"{target.name}: " + " | ".join(str(lack) for lack in lacks))
    if refusal := target.needs.refusal(bundle.path):
        raise RefusedError(f"{target.name}: {refusal}")
    bundles.verify(bundle, target.name)
    workload = bundle.workload
    capacity.check_memory(target.name, target.needs.memory_nbytes(workload))
    outputs = workload.arena_nbytes - workload.outputs_offset
    kept = state_file.nbytes(workload) if workload.left else 0
    needed = outputs + kept + target.needs.statistics_nbytes(workload)
    capacity.check_disk(target.name, needed, bundle.path)


class _Watched:
    """How far a run has come, as its files tell, while it runs and after it."""

    def __init__(self, target: Target, bundle: Bundle, start: Start, process: int) -> None:
        self.target, self.bundle, self.start = target, bundle, start
        self.folder = bundle.path / bundles.RESULTS / f"{PART}{start.result}.{process}"
        self.look = target.watcher.watch(self.folder, start.todo)

    def told(
        self,
        tick: Callable[[float], None] | None,
        progress: Callable[[Progress, float], None] | None,
    ) -> Callable[[float], None] | None:
        """What is to be called now and then with the seconds so far."""
        look = self.look
        if progress is None or look is None:
            return tick
        return lambda passed: progress(look(), passed)

    def launches(self) -> int:
        """How many have ended; 0 where the target does not tell."""
        return self.look().launches if self.look else 0

    def place(self) -> str:
        """The launch that is running, to begin an error message with; empty before the first."""
        begun = self.look and self.folder.is_dir()
        return place(self.start.todo, self.launches()) if begun else ""

    def cure(self) -> str:
        """How the run can be continued, to end an error message with; empty if it cannot."""
        folder = run_folder.left(self.bundle, self.start.result)
        if folder is None:
            return ""
        end = time.monotonic() + GRACE
        # What was killed with run.sh takes a moment to end, on a busy machine a long one; whoever
        # goes on before is told to wait.
        while run_folder.worker(folder) and time.monotonic() < end:
            time.sleep(LOOK)
        run = self.start.run
        words = commands.run(self.bundle.path, self.target, self.start.result, run)
        words += RunChoices(resume=True).words()
        return f"; go on after the last finished layer with: {shlex.join(words)}"


def place(workload: Workload, done: int) -> str:
    """The launch after `done` others, its layer, pass and kernel; empty if there is none."""
    pairs = [(step, launch) for step in workload.steps for launch in step.launches]
    if done >= len(pairs):
        return ""
    step, launch = pairs[done]
    return (
        f'launch {done + 1} of {len(pairs)} (layer "{step.layer}", {step.direction}, '
        f"kernel {launch.kernel}): "
    )


def _start(
    script: Path, environment: Mapping[str, str], held: tuple[int, ...]
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*until_parent_ends(signal.SIGTERM), "sh", str(script)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # The Python that runs simgen is where its extras (CuPy, Go) are installed.
        env={"SIMGEN_PYTHON": sys.executable, **os.environ, **environment},
        pass_fds=held,  # so that a run whose simgen is killed has its locks until it has ended
        start_new_session=True,  # so that the simulator ends with its script
    )


class _Output:
    """Follows what a process prints, and its time."""

    def __init__(
        self,
        process: subprocess.Popen[str],
        timeout: float | None,
        grace: float,
        tick: Callable[[float], None] | None,
        say: Callable[[str], None] | None,
        prepare: Callable[[str, float], None] | None = None,
    ) -> None:
        self.process, self.timeout, self.grace = process, timeout, grace
        self.tick, self.say, self.prepare = tick, say, prepare
        self.started = self.since = time.monotonic()  # `since`: of what `timeout` is about
        self.preparing = ""  # what run.sh does before the run
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def wait(self) -> str:
        """All that the process printed, once it has ended.

        Raises:
            RunError: it took too long; it still runs.
        """
        text: list[str] = []
        closed, ended = False, 0.0
        while not (closed and self.process.poll() is not None):
            self._check_time()
            try:
                # A short wait first: many runs are over in a moment.
                line = self.lines.get(timeout=0.5 if time.monotonic() > self.started + 1 else 0.05)
            except queue.Empty:
                passed = time.monotonic() - self.since
                if self.preparing and self.prepare:
                    self.prepare(self.preparing, passed)
                elif self.tick:
                    self.tick(passed)
                if self.process.poll() is not None:  # somebody else holds the pipe open
                    ended = ended or time.monotonic()
                    closed = time.monotonic() > ended + 1
                continue
            if line is None:
                closed = True
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(timeout=0.1)
                continue
            text.append(line)
            self._heed(line.rstrip("\n"))
        return "".join(text)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as printed:
            for line in printed:
                self.lines.put(line)
        self.lines.put(None)

    def _heed(self, line: str) -> None:
        """A notice is "simgen: TARGET: TEXT"; one that ends in "..." tells of a preparation."""
        if not line.startswith("simgen: ") or line.startswith("simgen: error: "):
            return
        text, dots, _ = line.removeprefix("simgen: ").rpartition("...")
        preparing = text.partition(": ")[2].rstrip() if dots else ""
        if not (self.preparing and preparing):  # a preparation may tell how far it is
            self.since = time.monotonic()
        self.preparing = preparing
        if self.say:
            self.say(line)

    def _check_time(self) -> None:
        if self.timeout is None:
            return
        passed = time.monotonic() - self.since
        if self.preparing and passed > PREPARATION:
            raise RunError(f"the preparation of the run took longer than {PREPARATION:g} s")
        if not self.preparing and passed > self.timeout + self.grace:
            raise RunError(
                f"the run took longer than {self.timeout:g} s; give it more with "
                f"{RunChoices.timeout}, or make the workload smaller with {BuildChoices.set}"
            )


def _end(process: subprocess.Popen[str]) -> None:
    """Ask the whole process group to end, then make it."""
    for name in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, name)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE)
            return


def _failure(
    bundle: Bundle, target: Target, watched: _Watched, code: int, output: str, started: float
) -> SimgenError:
    kept = bundle.path / bundles.RESULTS / f"failed-{watched.start.result}" / "log.txt"
    try:
        # A log that is older than the run is of another one, and would explain the wrong failure.
        fresh = kept.stat().st_mtime >= started - 1
        log = log_text(kept.parent) if fresh else ""
        where = f" (log: {kept})" if fresh else ""
    except OSError:
        log, where = "", ""
    fact = target.watcher.diagnosis(f"{log}\n{output}") or _last_line(output) or _last_line(log)
    if fact:
        fact = target.watcher.located(fact, bundle.path, bundle.workload)
    if code == 0 and not fact:
        fact = "the run left no result of this workload; build the bundle again"
    kind = ERRORS.get(code, RunError)
    how = f"was killed (signal {-code})" if code < 0 else f"ended with exit code {code}"
    fact = fact.removeprefix(f"{target.name}: ") or f"run.sh {how}"
    done = target.watcher.launches_done(log)
    at = "" if done is None else place(watched.start.todo, done)
    return kind(f"{target.name}: {at}{fact}{where}{watched.cure()}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
