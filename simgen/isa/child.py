"""Children that end with their parent; compilers, Triton's too, with limits of time, memory and
output.

A few lines of assembly (`.rept 2000000000`) or of macros keep a compiler busy for ever, and what it
prints about them fills any memory.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

from simgen.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

SECONDS = 300  # processor seconds; the slowest kernel of simgen takes about 10
WALL_SECONDS = 12 * SECONDS  # a machine may do other work
MEMORY_NBYTES = 8 << 30  # address space
FILE_NBYTES = 1 << 30  # size limit of each file that it writes, including its messages
READ_NBYTES = 1 << 20  # limit of its messages that are read


class LimitError(UsageError):
    """A compiler exceeds a limit; the message tells which."""


def run(
    words: Sequence[str], place: str, *, cwd: Path | str, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a compiler to its end; what it prints, up to READ_NBYTES of each stream.

    `place` begins the message of an error.

    Raises:
        LimitError: it takes more time or memory than the limits, or writes more.
        OSError: there is no such program.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [*until_parent_ends(signal.SIGKILL), *words], cwd=cwd, env=env,
            stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
        )  # fmt: skip
        ending = getattr(_thread, "ending", None)
        _running[process] = ending
        try:
            if ending and ending.is_set():
                _kill(process)
            _limit(process.pid)
            code = _wait(process)
        except BaseException as error:
            _kill(process)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise LimitError(_fact(place, f"{WALL_SECONDS} s")) from None
            raise
        finally:
            del _running[process]
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(READ_NBYTES).decode(errors="replace"))
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        raise LimitError(_fact(place, f"{SECONDS} s of a processor"))
    if code == -signal.SIGXFSZ:
        raise LimitError(_fact(place, f"{FILE_NBYTES >> 20} MiB for a file"))
    if code and any(said in texts[1] for said in NO_MEMORY):
        raise LimitError(_fact(place, f"{MEMORY_NBYTES >> 30} GiB of memory"))
    return subprocess.CompletedProcess(list(words), code, *texts)


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Its exit code, once it has ended. Python's own wait with a limit looks now and then, up to 50
    ms late: half as long as most compilations take."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:  # Linux before 5.3
        return process.wait(timeout=WALL_SECONDS)
    try:
        watched = select.poll()
        watched.register(handle, select.POLLIN)
        watched.poll(WALL_SECONDS * 1000)
    finally:
        os.close(handle)
    return process.wait(timeout=0)


@contextlib.contextmanager
def pool(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that call `run`. Where the block raises, and a signal makes it do so, their compilers
    are killed: nobody waits for them."""
    ending = threading.Event()
    of_thread = (_thread, "ending", ending)
    with ThreadPoolExecutor(workers, initializer=setattr, initargs=of_thread) as made:
        try:
            yield made
        except BaseException:
            ending.set()
            made.shutdown(wait=False, cancel_futures=True)
            for process in [each for each, of in _running.copy().items() if of is ending]:
                _kill(process)
            raise


_thread = threading.local()  # `ending`: of the pool that the thread is of
_running: dict[subprocess.Popen[bytes], threading.Event | None] = {}


def _kill(process: subprocess.Popen[bytes]) -> None:
    """A compiler and all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


# What LLVM and the C++ library print where memory cannot be had.
NO_MEMORY = ("out of memory", "std::bad_alloc", "Allocation failed", "Cannot allocate memory")


def _fact(place: str, limit: str) -> str:
    return f"{place}: the compiler takes more than {limit}; make the source smaller"


def _limit(pid: int) -> None:
    limits = {
        resource.RLIMIT_CPU: SECONDS,
        resource.RLIMIT_AS: MEMORY_NBYTES,
        resource.RLIMIT_FSIZE: FILE_NBYTES,
        resource.RLIMIT_CORE: 0,
    }
    with contextlib.suppress(ProcessLookupError):  # it has ended
        for which, most in limits.items():
            _, hard = resource.prlimit(pid, which)
            held = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(pid, which, (held, held))


@cache
def until_parent_ends(how: signal.Signals) -> tuple[str, ...]:
    """Words ahead of a command, so that it gets a signal when its parent is killed, where
    util-linux is."""
    words = (shutil.which("setpriv") or "", "--pdeathsig", how.name.removeprefix("SIG"), "--")
    # Other systems have a setpriv that does less.
    tried = words[0] and subprocess.run([*words, "true"], capture_output=True, check=False)
    return words if tried and tried.returncode == 0 else ()
