"""Work on the blocks of a large file with all cores, in memory that does not grow with the file.

Each worker thread owns one buffer of BLOCK_NBYTES and takes the next block that nobody has taken.
Generating, hashing and input/output release the interpreter lock. There are more threads than
cores, so that the cores have work while other threads wait for the disk.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
import threading
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING

from simgen.errors import MissingError, UsageError, is_full
from simgen.ground.ir import PAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    Progress = Callable[[int, int], None]  # (bytes done, bytes in all)

BLOCK_NBYTES = 2**20
MAX_THREADS = 32  # each holds a buffer; more do not help any disk


@dataclass(frozen=True)
class Block:
    """A piece of a tensor, and where it lies in the file."""

    tensor: int  # index
    index: int  # within the tensor
    offset: int  # bytes from the start of the file
    nbytes: int  # at most BLOCK_NBYTES


def blocks_of(tensor: int, offset: int, nbytes: int) -> list[Block]:
    """The blocks of a tensor that lies at `offset` in a file."""
    starts = range(0, nbytes, BLOCK_NBYTES)
    return [
        Block(tensor, index, offset + start, min(BLOCK_NBYTES, nbytes - start))
        for index, start in enumerate(starts)
    ]


def default_threads() -> int:
    """Two for each core that this process may use."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        cores = os.cpu_count() or 1
    return min(2 * cores, MAX_THREADS)


def for_each_block(
    blocks: Sequence[Block],
    work: Callable[[Block, memoryview], bytes],
    threads: int | None = None,
    progress: Progress | None = None,
) -> list[bytes]:
    """`work(block, buffer)` of every block, in the order of `blocks`.

    `buffer` is page-aligned and has the block's size; its content is left from an earlier block.
    `progress` is called in the calling thread. The first exception of any block, or an
    interruption of the calling thread, ends the other threads after their current block and is
    then raised.
    """
    results = [b""] * len(blocks)
    events: SimpleQueue[int | BaseException | None] = SimpleQueue()
    pending = iter(range(len(blocks)))
    lock = threading.Lock()
    stop = threading.Event()

    def worker() -> None:
        try:
            buffer = memoryview(mmap.mmap(-1, BLOCK_NBYTES))
            while not stop.is_set():
                with lock:
                    i = next(pending, None)
                if i is None:
                    break
                results[i] = work(blocks[i], buffer[: blocks[i].nbytes])
                events.put(blocks[i].nbytes)
            events.put(None)
        except BaseException as error:
            events.put(error)

    count = min(threads or default_threads(), MAX_THREADS, len(blocks))
    team = [threading.Thread(target=worker, daemon=True) for _ in range(count)]
    try:
        for thread in team:
            thread.start()
        _watch(events, count, sum(block.nbytes for block in blocks), progress)
    finally:
        stop.set()
        for thread in team:
            if thread.ident is not None:
                thread.join()
    return results


def _watch(
    events: SimpleQueue[int | BaseException | None],
    running: int,
    total: int,
    progress: Progress | None,
) -> None:
    """Report progress until all `running` workers have ended; raise what one of them raised."""
    done = 0
    while running:
        event = events.get()
        if isinstance(event, BaseException):
            raise event
        if event is None:
            running -= 1
        else:
            done += event
            if progress is not None:
                progress(done, total)


class BlockFile:
    """A file that many threads write at once, at offsets, past the page cache where possible.

    Writing whole pages directly saves a copy and, at the end, the wait for the cache to drain. A
    file system that cannot do that, and the last piece of a tensor, go through the cache.
    """

    def __init__(self, path: Path, nbytes: int) -> None:
        """Open an existing file and give it disk space for `nbytes`, so that a full disk shows now.

        Raises:
            OSError: also where the disk is full.
        """
        self._cached = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._direct: int | None = None
        with self._closing_on_error():
            _reserve(self._cached, nbytes)
            with contextlib.suppress(OSError, AttributeError):  # O_DIRECT is of Linux only
                self._direct = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)

    def write(self, content: memoryview, offset: int) -> None:
        """Write all of `content` at `offset`. Direct where both are whole pages."""
        written = 0
        if self._direct is not None and offset % PAGE == len(content) % PAGE == 0:
            try:
                written = os.pwrite(self._direct, content, offset)
            except OSError as error:
                if error.errno != errno.EINVAL:  # the file system wants larger pages, or none
                    raise
        while written < len(content):
            written += os.pwrite(self._cached, content[written:], offset + written)

    def close(self) -> None:
        """Close without waiting for the disk."""
        os.close(self._cached)
        if self._direct is not None:
            os.close(self._direct)

    @contextlib.contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


def _reserve(handle: int, nbytes: int) -> None:
    """Make the file `nbytes` long, with disk space where the file system can promise it."""
    try:
        os.posix_fallocate(handle, 0, nbytes)
    except AttributeError:  # not on every system
        os.truncate(handle, nbytes)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV):
            raise
        os.truncate(handle, nbytes)


def check_place(path: Path, needed: int, shown: Path | None = None) -> None:
    """Refuse early what would fail after a long time of writing. The error names `shown`, if given.

    Raises:
        MissingError: the disk has less than `needed` bytes free.
        OSError: `path` is a folder.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    free = _free_space(path)
    if free < needed:
        raise _disk_full(shown or path, needed, free)


def _free_space(path: Path) -> int:
    """Bytes that are free where `path` is, or will be once its folders are made."""
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _disk_full(path: Path, needed: int, free: int) -> MissingError:
    cure = "make room or choose another disk"
    return MissingError(f"{path}: needs {needed} bytes of disk, {free} are free; {cure}")


@contextlib.contextmanager
def disk_errors(path: Path, needed: int) -> Iterator[None]:
    """Turn what the system says about writing `path` into simgen's errors.

    Raises:
        MissingError: the disk or a quota is full, or the file is larger than allowed.
        UsageError: `path` cannot be written.
    """
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise _disk_full(path, needed, _free_space(path)) from error
        if error.errno == errno.EFBIG:
            cure = "raise the limit (ulimit -f) or choose another disk"
            fact = f"needs {needed} bytes, more than a file may have here"
            raise MissingError(f"{path}: {fact}; {cure}") from error
        # HDF5's texts have several lines
        reason = os.strerror(error.errno) if error.errno else " ".join(str(error).split())
        raise UsageError(f"{path}: cannot be written ({reason}); choose another place") from error
