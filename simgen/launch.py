"""Running a bundle's `run.sh`: time-out, interruption, progress, and why it failed."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from simgen import bundle as bundles
from simgen.errors import (
    DamagedError,
    MissingError,
    RefusedError,
    RunError,
    SimgenError,
    UsageError,
)
from simgen.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from simgen.bundle import Bundle
    from simgen.targets import Target

GRACE = 5.0  # seconds between asking a run to end and ending it
PREPARATION = 1800.0  # seconds that run.sh may take before the run, where there is a time limit
ERRORS: dict[int, type[SimgenError]] = {
    2: UsageError,
    3: MissingError,
    4: RefusedError,
    5: RunError,
    7: DamagedError,
}


def target_of(bundle: Bundle, name: str) -> Target:
    """The target as it was when the bundle was built.

    Raises:
        DamagedError: this version of simgen has no such target, or not with these settings.
    """
    try:
        return TARGETS[name](**bundle.targets[name])
    except (KeyError, TypeError):
        raise DamagedError(
            f"{bundle.path}: target {name!r} was built by another version of simgen; build it again"
        ) from None


def obstacles(bundle: Bundle, name: str) -> list[str]:
    """All that keeps this machine from running the target here; empty if nothing does."""
    target = target_of(bundle, name)
    return [str(lack) for lack in target.missing(bundle.path)]


def choose(bundle: Bundle) -> tuple[str, dict[str, list[str]]]:
    """The first target that this machine can run, and why not the ones before it.

    Raises:
        MissingError: there is none.
    """
    passed: dict[str, list[str]] = {}
    for name in bundle.targets:
        target = target_of(bundle, name)
        refusal = target.refusal(bundle.path)
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
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
    tick: Callable[[float], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> Path:
    """Run a target and return its results folder.

    `tick` is called with the seconds so far, `say` with each line in which run.sh tells what it is
    about. `timeout` is in seconds; what run.sh prepares first (it may build a simulator) does not
    count. run.sh gets it in SIMGEN_TIMEOUT.

    Raises:
        DamagedError: a file of the bundle is not what was built, or data.h5 is cut short.
        MissingError: this machine lacks something; all lacks are named.
        RefusedError: the target refuses this place.
        RunError: the run failed or took longer than `timeout` seconds.
    """
    target = target_of(bundle, name)
    if lacks := target.missing(bundle.path):
        raise MissingError(f"{name}: " + " | ".join(str(lack) for lack in lacks))
    if refusal := target.refusal(bundle.path):
        raise RefusedError(f"{name}: {refusal}")
    bundles.verify(bundle, name)
    started = time.time()
    limit = {} if timeout is None else {"SIMGEN_TIMEOUT": f"{timeout:f}"}
    process = _start(bundle.path / name / "run.sh", {**limit, **(environment or {})})
    try:
        # A target that ends itself knows in which layer it was: it gets the time to say so.
        grace = GRACE if target.ends_itself else 0.0
        output = _Output(process, timeout, grace, tick, say).wait()
    except BaseException:
        _end(process)
        raise
    if process.returncode == 0 and (folder := bundle.results(name)):
        return folder
    raise _failure(bundle, target, process.returncode, output, started)


def _start(script: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["sh", str(script)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # The Python that runs simgen is where its extras (CuPy, Go) are installed.
        env={"SIMGEN_PYTHON": sys.executable, **os.environ, **environment},
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
    ) -> None:
        self.process, self.timeout, self.grace = process, timeout, grace
        self.tick, self.say = tick, say
        self.started = self.since = time.monotonic()  # `since`: of what `timeout` is about
        self.preparing = False
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
                if self.tick:
                    self.tick(time.monotonic() - self.started)
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
        self.preparing = line.endswith("...")
        self.since = time.monotonic()
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
                f"the run took longer than {self.timeout:g} s; give it more with --timeout, "
                "or make the workload smaller with --set"
            )


def _end(process: subprocess.Popen[str]) -> None:
    """Ask the whole process group to end, then make it."""
    for name in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, name)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE)
            return


def _failure(bundle: Bundle, target: Target, code: int, output: str, started: float) -> SimgenError:
    kept = bundle.path / bundles.RESULTS / f"failed-{target.name}" / "log.txt"
    try:
        # A log that is older than the run is of another one, and would explain the wrong failure.
        fresh = kept.stat().st_mtime >= started - 1
        log = kept.read_text(errors="replace") if fresh else ""
        where = f" (log: {kept})" if fresh else ""
    except OSError:
        log, where = "", ""
    fact = target.diagnosis(f"{log}\n{output}") or _last_line(output) or _last_line(log)
    if fact:
        fact = target.located(fact, bundle.path, bundle.workload)
    if code == 0 and not fact:
        fact = "the run left no result of this workload; build the bundle again"
    kind = ERRORS.get(code, RunError)
    fact = fact.removeprefix(f"{target.name}: ") or f"run.sh ended with exit code {code}"
    return kind(f"{target.name}: {fact}{where}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
