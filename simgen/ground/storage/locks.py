"""Who works in a bundle: locks that end with the process that holds them, however it ends.

    workload.json        shared by runs and by those who read; exclusive while a build replaces the
                         folder. It is the same file as long as the workload is
    manifest.json        exclusive while a build or a run adds files to the bundle
    results/.lock-NAME   exclusive while a run makes the result NAME; its process stands in it
    .lock                of a workflow's folder, exclusive while simgen follows it

They are `flock` locks of the kernel: of processes on one machine, in containers or not, and on NFS
between machines. Where a file system has none, nothing is locked. `run.sh` takes the same locks,
and what it starts inherits them: a simulator that outlives its script still holds them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from simgen.errors import MissingError, RefusedError, cure_of

USED = "workload.json"
ADDED = "manifest.json"
RESULT = ".lock-"  # begins the name of a result's lock
WORK = ".lock"  # lock of a workflow
NONE = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF, errno.EINVAL)


@contextlib.contextmanager
def reading(bundle: Path) -> Iterator[int | None]:
    """Nobody replaces the bundle meanwhile; a build that does so now is waited for."""
    with _held(bundle / USED, fcntl.LOCK_SH) as handle:
        yield handle


@contextlib.contextmanager
def adding(bundle: Path) -> Iterator[None]:
    """Nobody else adds to the bundle or replaces it; one that does so now is waited for."""
    with _held(bundle / ADDED, fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def replacing(bundle: Path) -> Iterator[None]:
    """Nobody else uses the bundle.

    Raises:
        RefusedError: somebody does, for longer than a moment.
    """
    with adding(bundle), contextlib.ExitStack() as held:
        try:
            held.enter_context(_held(bundle / USED, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError:
            raise RefusedError(
                f"{bundle}: in use by a run or a comparison{holder(bundle / USED)}; wait until "
                "it ends, or choose another folder with -o"
            ) from None
        yield


@contextlib.contextmanager
def running(bundle: Path, results: Path, name: str) -> Iterator[tuple[int, ...]]:
    """Nobody else makes the result `name`; the handles are for the process that makes it.

    Raises:
        RefusedError: another run makes it.
        MissingError: `results` cannot be written.
    """
    path = results / f"{RESULT}{name}"
    try:
        results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(error) from None
    with reading(bundle) as used, contextlib.ExitStack() as held:
        try:
            made = held.enter_context(_held(path, fcntl.LOCK_EX | fcntl.LOCK_NB, make=True))
        except BlockingIOError:
            raise RefusedError(
                f"{bundle}: a run on {name} is under way{holder(path)}; "
                "wait until it ends, or stop it"
            ) from None
        except OSError as error:
            raise _unwritable(error) from None
        try:
            yield tuple(handle for handle in (used, made) if handle is not None)
        finally:
            with contextlib.suppress(OSError):  # while it is locked: who waits for it looks again
                path.unlink()


@contextlib.contextmanager
def sharing(bundle: Path, results: Path, name: str) -> Iterator[None]:
    """Nobody makes the result `name`, but for others that make a part of it as this one does.

    Raises:
        RefusedError: a run makes all of it.
        MissingError: `results` cannot be written.
    """
    path = results / f"{RESULT}{name}"
    with reading(bundle), contextlib.ExitStack() as held:
        try:
            results.mkdir(parents=True, exist_ok=True)
            path.touch()  # it stays: others hold it, too
            held.enter_context(_held(path, fcntl.LOCK_SH | fcntl.LOCK_NB))
        except BlockingIOError:
            raise RefusedError(
                f"{bundle}: a run on {name} is under way{holder(path)}; "
                "wait until it ends, or stop it"
            ) from None
        except OSError as error:
            raise _unwritable(error) from None
        yield


@contextlib.contextmanager
def working(folder: Path) -> Iterator[bool]:
    """Nobody else has simgen work in a folder that is no bundle; whether one that did was killed.

    Raises:
        BlockingIOError: somebody does.
    """
    path = folder / WORK
    left = path.exists()
    with _held(path, fcntl.LOCK_EX | fcntl.LOCK_NB, make=True) as held:
        try:
            yield left and held is not None
        finally:
            with contextlib.suppress(OSError):
                path.unlink()


def is_running(results: Path, name: str) -> bool:
    """Whether a run makes the result `name` now."""
    try:
        with _held(results / f"{RESULT}{name}", fcntl.LOCK_SH | fcntl.LOCK_NB):
            return False
    except BlockingIOError:
        return True


def holder(path: Path) -> str:
    """A process of this machine that has the file open, in words; empty if none can be seen."""
    try:
        wanted = path.stat()
    except OSError:
        return ""
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: int(each.name)):
        if int(process.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # another user's, or gone
            for handle in (process / "fd").iterdir():
                found = handle.stat()
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                    return f" (process {process.name})"
    return ""


@contextlib.contextmanager
def _held(path: Path, how: int, *, make: bool = False) -> Iterator[int | None]:
    """The lock of the file that has the name `path` now; None where there are no locks.

    Raises:
        BlockingIOError: somebody else holds it, and `how` is not to wait.
    """
    handle = _locked(path, how, make=make)
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def _locked(path: Path, how: int, *, make: bool) -> int | None:
    while True:
        handle = _opened(path, how, make=make)
        if handle is None:
            return None
        try:
            fcntl.flock(handle, how)
            if _is(handle, path):  # False if the file was replaced while waiting for it
                if make:
                    os.ftruncate(handle, 0)
                    os.write(handle, f"{os.getpid()}\n".encode())
                return handle
        except OSError as error:
            os.close(handle)
            if error.errno in NONE:
                return None
            raise
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _opened(path: Path, how: int, *, make: bool) -> int | None:
    """A handle; None where the file is not there, which others tell."""
    if make:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    # NFS gives exclusive locks only to those who may write.
    ways = (os.O_RDWR, os.O_RDONLY) if how & fcntl.LOCK_EX else (os.O_RDONLY,)
    for way in ways:
        with contextlib.suppress(OSError):
            return os.open(path, way | os.O_CLOEXEC | os.O_NONBLOCK)
    return None


def _is(handle: int, path: Path) -> bool:
    try:
        there, here = path.stat(), os.fstat(handle)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _unwritable(error: OSError) -> MissingError:
    return MissingError(
        f"results: the folder cannot be written ({error.strerror}); "
        + cure_of(error, "make the bundle's folder writable")
    )
