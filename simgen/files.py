"""Writing files so that a reader sees all of one or nothing.

A process killed half-way leaves a file whose name starts with `PART`; no reader looks at those.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PART = ".part-"  # first letters of the name of everything that is not finished


@contextlib.contextmanager
def atomic_path(path: Path, mode: int = 0o644) -> Iterator[Path]:
    """An empty file for a writer that opens its file itself; it becomes `path` as the block ends.

    When the block raises, the file vanishes. The content reaches the disk before the name does,
    so that a power cut cannot leave an empty file under a good name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=PART)
    try:
        try:
            yield Path(temporary)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.chmod(temporary, mode & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def atomic_file(path: Path, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """A binary file that gets the name `path` when the block ends, and vanishes when it raises."""
    with atomic_path(path, mode) as temporary, temporary.open("r+b") as file:
        yield file


def write_atomic(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write `content` to `path` through `atomic_file`."""
    with atomic_file(path, mode) as file:
        file.write(content)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
