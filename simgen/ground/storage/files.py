"""Reading what may be anything, and writing so that a reader sees all of a file or nothing.

A process killed half-way leaves something whose name starts with `PART` or `SCRATCH`; no reader
looks at those, and the next process that writes there removes them.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import re
import shutil
import stat
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

PART = ".part-"  # first letters of the name of everything that is not finished
SCRATCH = "simgen-"  # the same of what is needed for a while
ATTEMPTS = 4  # to name a folder, while other processes name theirs the same


class NotRegularError(OSError):
    """A name that was given for a file is that of something else: a folder, a pipe, a device."""


KINDS = (
    (stat.S_ISDIR, errno.EISDIR, "a folder, not a file"),
    (stat.S_ISFIFO, errno.ESPIPE, "a pipe, not a file"),
    (stat.S_ISSOCK, errno.ENXIO, "a socket, not a file"),
    (lambda mode: True, errno.ENODEV, "a device, not a file"),
)


def open_regular(path: Path) -> BufferedReader:
    """A regular file, opened for reading; nothing else is waited for or read.

    A pipe without a writer would hang, and a device may never end. What was opened is looked at,
    not the name, which may get another meaning in between.

    Raises:
        OSError: there is none; a NotRegularError where it is something else.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except ValueError:  # NUL in the name
        raise NotRegularError(errno.EINVAL, "not a file name", str(path)) from None
    except OSError as error:
        if error.errno == errno.ENXIO:  # what opening a socket gives
            raise NotRegularError(errno.ENXIO, "a socket, not a file", str(path)) from None
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        number, fact = next((number, fact) for is_it, number, fact in KINDS if is_it(mode))
        raise NotRegularError(number, fact, str(path))
    return os.fdopen(handle, "rb")


def leads_out(path: Path, home: Path) -> bool:
    """Whether a name in the folder `home` stands for a place outside of it, by links or `..`."""
    inside = os.path.realpath(home)
    return os.path.commonpath((inside, os.path.realpath(path))) != inside


def read_regular(path: Path, most: int | None = None) -> bytes:
    """The content of a regular file of at most `most` bytes.

    Raises:
        OSError: as `open_regular`, or it is larger.
    """
    with open_regular(path) as file:
        content = file.read(-1 if most is None else most + 1)
    if most is not None and len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
    return content


@contextlib.contextmanager
def atomic_path(path: Path, mode: int = 0o644) -> Iterator[Path]:
    """An empty file for a writer that opens its file itself; it becomes `path` as the block ends.

    When the block raises, the file vanishes. The content reaches the disk before the name does,
    so that a power cut cannot leave an empty file under a good name. An OSError tells `path`, where
    it tells no other file.
    """
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_mine(PART))
        try:
            yield Path(temporary)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.chmod(temporary, new_mode(mode))
        os.replace(temporary, path)
    except BaseException as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        _tell_place(error, path)
        raise


def _tell_place(error: BaseException, path: Path) -> None:
    """Have an OSError about what is unfinished, or about no file, tell the name that it gets."""
    if isinstance(error, OSError) and PART in os.fsdecode(error.filename or PART):
        error.filename, error.filename2 = str(path), None


@contextlib.contextmanager
def atomic_file(path: Path, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """A binary file that gets the name `path` when the block ends, and vanishes when it raises."""
    with atomic_path(path, mode) as temporary, temporary.open("r+b") as file:
        yield file


def write_atomic(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write `content` to `path` through `atomic_file`."""
    with atomic_file(path, mode) as file:
        file.write(content)


class OvertakenError(Exception):
    """Another process wrote first what this one was about to write."""


@contextlib.contextmanager
def atomic_folder(path: Path, *, new: bool = False) -> Iterator[Path]:
    """A new folder that takes the place of `path` when the block ends, and vanishes otherwise.

    Where `path` is a link, the folder behind it is replaced. An OSError tells `path`, where it
    tells no other file.

    Raises:
        OvertakenError: with `new`, somebody has put something into the place meanwhile.
    """
    home = Path(os.path.realpath(path))
    stage: Path | None = None
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        _sweep(home.parent)
        stage = Path(tempfile.mkdtemp(dir=home.parent, prefix=_mine(f"{PART}{home.name}-")))
        stage.chmod(new_mode(0o777))
        yield stage
        if new:
            _place(stage, home)
        else:
            _replace(stage, home)
    except OSError as error:
        _tell_place(error, path)
        raise
    finally:
        if stage is not None:
            shutil.rmtree(stage, ignore_errors=True)


@contextlib.contextmanager
def scratch_folder(kind: str, home: Path | None = None) -> Iterator[Path]:
    """An empty folder in `home`, or where temporary files lie; it is gone when the block ends.

    An OSError that tells no file tells `home`.
    """
    home = home or Path(tempfile.gettempdir())
    _sweep(home)
    try:
        with tempfile.TemporaryDirectory(prefix=_mine(f"{SCRATCH}{kind}-"), dir=home) as made:
            yield Path(made)
    except OSError as error:
        error.filename = error.filename or str(home)
        raise


def _mine(first: str) -> str:
    """First letters of the name of what this process has not finished."""
    return f"{first}{platform.node()}-{os.getpid()}-"


_swept: set[Path] = set()


def _sweep(home: Path) -> None:
    """Remove, once in a process, what killed processes of this machine left in a folder."""
    if home in _swept:
        return
    _swept.add(home)
    killed = re.compile(
        rf"({re.escape(PART)}|{SCRATCH}).*{re.escape(platform.node())}-(\d+)-\w+(\.old)?"
    )
    with contextlib.suppress(OSError), os.scandir(home) as entries:
        for entry in entries:
            match = killed.fullmatch(entry.name)
            if not match or Path(f"/proc/{match[2]}").exists():
                continue
            if entry.stat(follow_symlinks=False).st_uid != os.getuid():
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def _place(stage: Path, home: Path) -> None:
    """Give `stage` the name `home`, which nothing but an empty folder has."""
    try:
        os.rename(stage, home)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise OvertakenError from None


def _replace(stage: Path, home: Path) -> None:
    """Give `stage` the name `home`; what had it goes. Linux swaps two names in one step."""
    exchange = 2  # RENAME_EXCHANGE
    here = -100  # AT_FDCWD
    swap = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    aside = stage.with_name(f"{stage.name}.old")
    for left in reversed(range(ATTEMPTS)):
        if swap and swap(here, os.fsencode(stage), here, os.fsencode(home), exchange) == 0:
            return  # the old one is now `stage`, which the caller removes
        if not swap or ctypes.get_errno() != errno.ENOENT:  # a file system that swaps no names
            with contextlib.suppress(FileNotFoundError):
                os.rename(home, aside)
        try:
            os.rename(stage, home)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.rename(aside, home)
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not left:
                raise
        else:
            shutil.rmtree(aside, ignore_errors=True)
            return


def new_mode(mode: int) -> int:
    """The permissions that the system gives to a new file for which `mode` is asked."""
    mask = os.umask(0)
    os.umask(mask)
    return mode & ~mask
