"""Snakemake, started in the folder of a workflow and followed to its end."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.ask.run import JobChoices
from simgen.bundle import manifest
from simgen.bundle import writing as bundles
from simgen.errors import MissingError, RefusedError, RunError, one_line, shortened
from simgen.ground.storage import locks, seal
from simgen.running.workflow import writing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simgen.running.workflow.executors import Executor
    from simgen.running.workflow.jobs import Workflow

DONE, LOGS = "done", "logs"
STORE, PAGE = "store.sqlite3", "report/report.html"
PRINTED = "logs/snakemake.log"
STEPS = re.compile(r"^(\d+) of (\d+) steps")
LOG = re.compile(r"^\s+log: ([^,]+?)(?:,.*| \(check.*)?$")
SUBMITTED = re.compile(
    r"sbatch failed\. The error message was '(.*?)'\.$", re.DOTALL | re.MULTILINE
)
RUN = re.compile(r"^SLURM run ID: ([\w-]+)$", re.MULTILINE)
FULL = "No space left on device"
ERROR = "simgen: error: "
MOST_SHOWN = 5  # jobs that have failed
GRACE = 60.0  # seconds for cancelling jobs


def run(folder: Path, workflow: Workflow, executor: Executor, tell: Callable[[str], None]) -> None:
    """Have snakemake do what is left of the workflow; `tell` gets a line as jobs end.

    Raises:
        RunError: jobs failed.
        RefusedError: another snakemake works there.
        MissingError: the disk is full.
    """
    try:
        with locks.working(folder) as killed:
            if killed and not _is_worked_in(folder):
                shutil.rmtree(folder / LOCKS, ignore_errors=True)
            _run(folder, workflow, executor, tell)
    except BlockingIOError:
        raise _locked(folder) from None


LOCKS = ".snakemake/locks"  # Snakemake's locks; it does not check whether their holder lives


def _is_worked_in(folder: Path) -> bool:
    """Whether a process of this machine stands in the folder, as Snakemake does."""
    home = str(folder.resolve())
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # another user's, or gone
            if os.readlink(process / "cwd") == home and int(process.name) != os.getpid():
                return True
    return False


def _run(folder: Path, workflow: Workflow, executor: Executor, tell: Callable[[str], None]) -> None:
    _forget(folder, workflow)
    words = [
        sys.executable, "-m", "snakemake", "--directory", str(folder.absolute()),
        "--snakefile", str((folder / writing.SNAKEFILE).absolute()),
        "--workflow-profile", str((folder / writing.PROFILE).parent.absolute()),
        *(["--profile", executor.profile] if executor.profile else []),
    ]  # fmt: skip
    (folder / LOGS).mkdir(parents=True, exist_ok=True)
    seen = _Seen(folder, tell)
    process = _started(words)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            seen.take(line)
        code = process.wait()
        _release(process)
    except BaseException:
        _release(process)
        seen.lines.append(_end(process))
        _take_back("".join(seen.lines))
        raise
    finally:
        assert process.stdout is not None
        process.stdout.close()
        seen.keep()
    if code:
        raise _failure(folder, workflow, seen)


# A process beside Snakemake ends it and its jobs where simgen is killed: it reads from a pipe that
# nobody else can write. Snakemake, told alone, would wait for its jobs. What a shell has started in
# the background ignores SIGINT.
GUARDED = """
exec 3<&0
grace=$1
shift
(
    trap '' HUP INT TERM
    read -r line <&3 || {
        kill -s INT -- "-$$"
        sleep 2
        kill -s TERM -- "-$$"
        n=0
        while kill -s 0 "$$" && [ "$n" -lt "$grace" ]; do sleep 1; n=$((n + 1)); done
        kill -s KILL -- "-$$"
    }
) >/dev/null 2>&1 &
exec 3<&- </dev/null
exec "$@"
"""


def _started(words: Sequence[str]) -> subprocess.Popen[str]:
    """A process that leads all that it starts, and ends with them where this one is killed."""
    return subprocess.Popen(
        ["/bin/sh", "-c", GUARDED, "sh", f"{GRACE:g}", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # ^C reaches it once, from here
    )


def _release(process: subprocess.Popen[str]) -> None:
    """It has ended, or is ended from here."""
    if process.stdin:
        with contextlib.suppress(OSError):  # it is gone, and what stood beside it
            process.stdin.write("\n")
            process.stdin.close()
        process.stdin = None


def _end(process: subprocess.Popen[str]) -> str:
    """It cancels the jobs that are under way, and ends; what it prints meanwhile.

    Somebody has to read that, or it would end before it has cancelled them.
    """
    for name in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, name)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=GRACE)[0] or ""
    return ""


def _take_back(text: str) -> None:
    """Cancel the jobs that SLURM had taken when Snakemake was interrupted, before it knew their
    numbers: all jobs of a run are named after it."""
    if found := RUN.search(text):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                ["scancel", f"--name={found[1]}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=GRACE,
            )


class _Seen:
    """What it printed."""

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        self.folder, self.tell = folder, tell
        self.lines: list[str] = []
        self.failed: dict[str, None] = {}  # logs of jobs, below the folder

    def take(self, line: str) -> None:
        self.lines.append(line)
        if found := STEPS.match(line):
            self.tell(f"{found[1]} of {found[2]} jobs done")
        elif found := LOG.match(line):
            self.failed[found[1].strip()] = None

    def keep(self) -> None:
        with contextlib.suppress(OSError):  # a disk that is full
            (self.folder / PRINTED).write_text("".join(self.lines))


def _outputs(folder: Path, workflow: Workflow) -> dict[str, tuple[str, Path]]:
    """Log of a job, as the Snakefile names it -> the job's name, and the file that it makes."""
    found = {}
    for name, home in workflow.bundles.items():
        file = folder / home.path / manifest.FILE
        found[f"bundles/{home.path.lstrip('/')}"] = (f"bundles/{name}", file)
    for key, point in workflow.points.items():
        path = workflow.bundles[point.bundle].path
        result = folder / path / bundles.RESULTS / point.result
        job = f"{path.lstrip('/')}/{point.result}"
        found[f"ran/{job}"] = (f"ran/{key}", result / seal.FILE)
        found[f"judged/{job}"] = (f"judged/{key}", result / seal.VERDICT)
        for nth in range(len(point.pieces)):
            piece = f"pieces/{key}/{nth + 1}"
            # Its mark goes when the result is there.
            done = result / seal.FILE if (result / seal.FILE).exists() else folder / DONE / piece
            found[piece] = (piece, done)
    found |= {"collect": ("collect", folder / STORE), "report": ("report", folder / PAGE)}
    return {f"{LOGS}/{job}.log": each for job, each in found.items()}


def _forget(folder: Path, workflow: Workflow) -> None:
    """Take back marks of pieces that are no longer there. So with logs: of a job that cannot
    start, the last one would be read."""
    for key, point in workflow.points.items():
        results = folder / workflow.bundles[point.bundle].path / bundles.RESULTS
        if not (results / f"{bundles.STOPPED}{point.result}").is_dir():
            for path in (folder / DONE / "pieces" / key).glob("*"):
                path.unlink(missing_ok=True)
    for log, (_, made) in _outputs(folder, workflow).items():
        if not made.exists():
            (folder / log).unlink(missing_ok=True)


# ------------------------------------------------------------------ why it failed


def _failure(
    folder: Path, workflow: Workflow, seen: _Seen
) -> RunError | RefusedError | MissingError:
    text = "".join(seen.lines)
    if "Directory cannot be locked" in text:
        return _locked(folder)
    again = "the same command goes on"
    outputs = _outputs(folder, workflow)  # a job whose output is there has ended well, later
    jobs = [(log, *outputs.get(log, (log, folder / log / "none"))) for log in seen.failed]
    failed = {log: (name, _fact(folder / log)) for log, name, made in jobs if not made.exists()}
    silent = [name for name, fact in failed.values() if fact is None]
    told = [f"{name}: {fact}" for name, fact in failed.values() if fact is not None]
    if FULL in text or any(FULL in line for line in told):
        return MissingError(f"{folder}: the disk is full; free some space, and {again}")
    if not told and (found := SUBMITTED.search(text)):
        said = one_line(found[1].strip().splitlines()[-1])
        return RunError(
            f"{folder}: SLURM does not take the jobs ({shortened(said, 200)}); give them "
            f"another partition, or less memory or time, with {JobChoices.profile}"
        )
    if silent and not told:
        count = f"{len(silent)} job{'' if len(silent) == 1 else 's'}"
        return RunError(
            f"{folder}: {count} ended without a word, as "
            "where machines do not see this folder; put it on storage that they share, under the "
            f"same path (see {folder / PRINTED})"
        )
    if told:
        more = len(failed) - len(told[:MOST_SHOWN])
        shown = "; ".join(told[:MOST_SHOWN]) + (f"; and {more} more" if more else "")
        count = f"{len(failed)} job{'' if len(failed) == 1 else 's'} failed"
        return RunError(f"{folder}: {count}: {shown}; {again}")
    last = next((line.strip() for line in reversed(seen.lines) if line.strip()), "it said nothing")
    return RunError(
        f"{folder}: snakemake failed: {shortened(one_line(last), 300)}; see {folder / PRINTED}"
    )


def _locked(folder: Path) -> RefusedError:
    return RefusedError(
        f"{folder}: another snakemake works here, or was killed; wait until it ends, or: "
        f"snakemake -d {folder} -s {folder / writing.SNAKEFILE} --unlock"
    )


def _fact(path: Path) -> str | None:
    """The last line of a job's log, of an error if there is one; None where it printed nothing."""
    try:
        lines = [line.strip() for line in path.read_text(errors="replace").splitlines()]
    except OSError:
        return None
    lines = [line for line in lines if line]
    if not lines:
        return None
    errors = [line.removeprefix(ERROR) for line in lines if line.startswith(ERROR)]
    if errors:
        return shortened(one_line(errors[-1]), 300)
    return f"it was killed after: {shortened(one_line(lines[-1]), 200)}"
