"""Ending `simgen run` in the middle of a run, for tests of what can be continued."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from loaded import program

from simgen.bundle import finding
from simgen.bundle import writing as bundles
from simgen.tensors import state_file

if TYPE_CHECKING:
    from simgen.bundle.writing import Bundle

LIMIT = 900.0  # seconds; nothing here takes a tenth of it


def command(made: Bundle, target: str, *options: str) -> list[str]:
    words = ["run", str(made.path), "--on", target, "--replace", *options]
    return [sys.executable, "-m", "simgen", *words]


def finished(made: Bundle, target: str) -> int:
    """Steps that are marked as finished in the folder of a run that goes on."""
    folders = (made.path / bundles.RESULTS).glob(f".part-{target}.*")
    return max(
        (state_file.finished(f / state_file.FILE, made.workload) for f in folders), default=0
    )


def scripts(made: Bundle, target: str) -> list[int]:
    """Processes of run.sh: each leads the group of all that it started."""
    folders = (made.path / bundles.RESULTS).glob(f".part-{target}.*")
    return [int(pid) for f in folders if (pid := f.name.rpartition(".")[2]).isdigit()]


def stop(made: Bundle, target: str, steps: int, how: signal.Signals, *options: str) -> str:
    """Run until `steps` steps are finished, then end it. SIGKILL is for all of run.sh's processes,
    other signals for simgen. Returns what it printed on stderr."""
    process = subprocess.Popen(
        command(made, target, *options),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        # A shell that starts pytest in the background has it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    end = time.monotonic() + LIMIT
    while finished(made, target) < steps:
        assert process.poll() is None, "the run was over too soon"
        assert time.monotonic() < end
        time.sleep(0.001)
    if how is signal.SIGKILL:
        for group in scripts(made, target):
            os.killpg(group, how)
    else:
        process.send_signal(how)
    _, told = process.communicate(timeout=LIMIT)
    assert process.returncode == (5 if how is signal.SIGKILL else 128 + how), (
        process.returncode,
        told,
    )
    return told


def go_on(made: Bundle, target: str, *options: str) -> str:
    """Continue a run; returns what it printed."""
    words = [program(), *command(made, target, "--resume", *options)[3:]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def outputs(made: Bundle, result: str) -> bytes:
    found = finding.find_result(made, result).outputs
    return b"".join(found[name].values.tobytes() for name in sorted(found))
