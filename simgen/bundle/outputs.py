"""Where commands write: new files, and folders that are new, empty, or marked as simgen's own.

One rule for all of them: what is somebody else's stays as it is, and nothing is written into a
bundle but by those who build and run it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from simgen.bundle import manifest
from simgen.errors import UsageError
from simgen.ground.storage.files import read_regular, write_atomic

MARK = ".simgen"  # in a folder: what simgen writes there, in a word
LONGEST = 100


def folder(path: Path, what: str, is_own: Callable[[Path], bool] = lambda path: False) -> None:
    """Make a folder for `what` (a report), and mark it; or see that it is one already.

    `is_own` tells one that an earlier version made, which marked none.

    Raises:
        UsageError: it is something else, or lies in a bundle.
    """
    check(path, what, is_own)
    path.mkdir(parents=True, exist_ok=True)
    write_atomic(path / MARK, f"{what}\n".encode())


def check(path: Path, what: str, is_own: Callable[[Path], bool] = lambda path: False) -> None:
    """As `folder`, and nothing is made: for who has long work to do before.

    Raises:
        UsageError: as `folder`.
    """
    outside(path)
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        raise UsageError(f"-o {path}: there is a file already, and not a folder; choose another")
    try:
        marked = read_regular(path / MARK, LONGEST).decode(errors="replace").strip()
    except OSError:
        marked = ""
    if marked != what and any(path.iterdir()) and not is_own(path):
        fact = f"holds a {marked}" if marked.isalpha() else "holds files that are not simgen's"
        raise UsageError(f"-o {path}: {fact}, and not a {what}; choose another folder")


def new_file(path: Path, option: str = "-o ") -> None:
    """See that nothing is there, and that it lies in no bundle; `option` is what names the path.

    Raises:
        UsageError: it is otherwise.
    """
    outside(path, option=option)
    if os.path.lexists(path):
        raise UsageError(f"{option}{path}: it is there already; remove it, or choose another name")


def outside(path: Path, *, itself: bool = False, option: str = "-o ") -> None:
    """See that a path lies in no bundle and, unless it may be one `itself`, is none.

    Raises:
        UsageError: it is, or it does.
    """
    if str(path) == "-":
        raise UsageError(f"{option}-: what is written there is no stream; name a file or folder")
    real = Path(os.path.realpath(path))
    for home in real.parents if itself else (real, *real.parents):
        if manifest.has_our_format(home / manifest.FILE):
            fact = "is a bundle" if home == real else f"lies in the bundle {home}"
            raise UsageError(f"{option}{path}: {fact}; choose another place")
