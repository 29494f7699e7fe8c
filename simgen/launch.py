"""Running a bundle's `run.sh`: time-out, interruption, progress, and why it failed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
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
) -> Path:
    """Run a target and return its results folder. `tick` is called with the seconds so far.

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
    command = ["sh", str(bundle.path / name / "run.sh")]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # The Python that runs simgen is where its extras (CuPy, Go) are installed.
        env={"SIMGEN_PYTHON": sys.executable, **os.environ, **(environment or {})},
        start_new_session=True,  # so that the simulator ends with its script
    )
    try:
        output = _wait(process, timeout, tick)
    except BaseException:
        _end(process)
        raise
    if process.returncode == 0 and (folder := bundle.results(name)):
        return folder
    raise _failure(bundle, target, process.returncode, output, started)


def _wait(
    process: subprocess.Popen[str], timeout: float | None, tick: Callable[[float], None] | None
) -> str:
    start = time.monotonic()
    while True:
        passed = time.monotonic() - start
        if timeout is not None and passed > timeout:
            raise RunError(
                f"the run took longer than {timeout:g} s; give it more with --timeout, "
                "or make the workload smaller with --set"
            )
        try:
            output, _ = process.communicate(timeout=0.5 if passed > 0.5 else 0.05)
        except subprocess.TimeoutExpired:
            if tick:
                tick(time.monotonic() - start)
            continue
        return output


def _end(process: subprocess.Popen[str]) -> None:
    """Ask the whole process group to end, then make it."""
    for name in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, name)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=GRACE)
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
    kind = ERRORS.get(code, RunError)
    return kind(f"{target.name}: {fact or f'run.sh ended with exit code {code}'}{where}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
