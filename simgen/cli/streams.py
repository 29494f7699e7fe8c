"""`-` in place of a file: what is read from stdin, and what is written to stdout.

Both go through a file of their own, which is gone when the command ends: so whatever reads and
writes files does the same, and nothing half-written reaches a pipe.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STREAM = "-"
MOST = 2**31  # bytes of stdin that are believed
BLOCK = 2**20


def read(word: str, ending: str, of_text: str = "") -> str:
    """The name of a file; for `-`, of one that holds what stdin has, until the command ends. It has
    the ending `of_text` if it is one without zeros.

    Raises:
        UsageError: stdin is a terminal, or does not end.
    """
    from simgen.errors import UsageError
    from simgen.ground.storage import files

    if word != STREAM:
        return word
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("-: stdin is a terminal; give it a file, as in: simgen ... - < FILE")
    folder = click.get_current_context().with_resource(files.scratch_folder("stdin"))
    path, left, is_text = folder / f"stdin{ending}", MOST, bool(of_text)
    with path.open("wb") as file:
        while block := sys.stdin.buffer.read(BLOCK):
            file.write(block)
            is_text = is_text and b"\0" not in block
            left -= len(block)
            if left < 0:
                raise UsageError(f"-: stdin has more than {MOST} bytes; write them to a file")
    return str(path.rename(path.with_suffix(of_text)) if is_text else path)


@contextlib.contextmanager
def written(output: Path) -> Iterator[Path]:
    """Where to write a file that may be stdout."""
    from simgen.ground.storage import files

    if str(output) != STREAM:
        yield output
        return
    with files.scratch_folder("stdout") as folder:
        path = folder / "stdout"
        yield path
        with path.open("rb") as file:
            sys.stdout.flush()
            shutil.copyfileobj(file, sys.stdout.buffer)
