"""`complete`, which closes a result and tells whether it still is what the run left.

    DIGEST                of the workload that ran to its end
    SHA-256  FILE         of each file of the folder, as sha256sum writes it
    results.h5: SHA-256   of the digests in results.h5, which tell of its contents
    SHA-256  complete     of the lines before

`simgen run` writes it, or run.sh that was started by hand, on the machine where the run ends.
Without sha256sum there it has one line; simgen adds the others when it first reads the result.
`sha256sum -c` takes the lines of files. In results of earlier versions results.h5 is one of them.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.errors import DamagedError
from simgen.ground.storage.files import open_regular, write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    Progress = Callable[[int, int], None]

FILE = "complete"
VERDICT = "verdict.json"  # comes later, and tells of itself (simgen.bundle.verdict_file)
CONTENTS = re.compile(r"results\.h5: ([0-9a-f]{64})")
LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")
DIGEST = re.compile(r"[0-9a-f]{64}")
MAX_NBYTES = 2**24  # bytes; a run leaves a few dozen files


@dataclass(frozen=True)
class Seal:
    """What `complete` says."""

    workload: str  # digest
    files: Mapping[str, str]  # relative path -> digest; empty where nobody made digests yet
    contents: str = ""  # digest of the digests in results.h5; empty where the result is not there

    def text(self) -> bytes:
        lines = [self.workload, *(f"{digest}  {name}" for name, digest in self.files.items())]
        lines += [f"results.h5: {self.contents}"] if self.contents else []
        text = "".join(f"{line}\n" for line in lines)
        own = f"{_sha256(os.fsencode(text))}  {FILE}\n" if self.files else ""
        return os.fsencode(text + own)

    @property
    def digest(self) -> str:
        """Digest of the result: its files and what was run."""
        return _sha256(self.text())


def read_seal(folder: Path) -> Seal:
    """The seal of a result's folder; its files are not looked at.

    Raises:
        DamagedError: it is not what was written.
    """
    path = folder / FILE
    try:
        with open_regular(path) as file:
            text = os.fsdecode(file.read(MAX_NBYTES))
    except OSError as error:
        raise DamagedError(f"{path}: {error.strerror}; run it again") from None
    first, *lines = text.split("\n")
    wrong = DamagedError(f"{path}: not what the run left; run it again")
    if not DIGEST.fullmatch(first) or (lines and lines.pop()):
        raise wrong
    if not lines:
        return Seal(first, {})
    told = [CONTENTS.fullmatch(line) for line in lines]
    contents = next((each[1] for each in told if each), "")
    found = [LINE.fullmatch(line) for line in lines]
    files = {each[2]: each[1] for each in found if each}
    own = files.pop(FILE, None)
    if len(files) + 1 + bool(contents) != len(lines) or any(_is_outside(name) for name in files):
        raise wrong
    if _sha256(os.fsencode(text[: text.rindex("\n", 0, -1) + 1])) != own:
        raise wrong
    return Seal(first, files, contents)


def check(folder: Path, found: Seal, progress: Progress | None = None) -> None:
    """Compare the files of a result with their digests.

    Raises:
        DamagedError: one is missing or changed.
    """
    total = sum(_size(folder / name) for name in found.files)
    done = 0
    for name, digest in found.files.items():
        path = folder / name
        if _digest(path) != digest:
            fact = "changed since the run" if path.exists() else "missing"
            raise DamagedError(f"{path}: {fact}; run it again")
        done += _size(path)
        if progress and total:
            progress(done, total)


def write(folder: Path, workload: str, contents: str = "", without: Collection[str] = ()) -> Seal:
    """Close the result of a finished run: digests of all its files but those in `without`.

    `contents` is that of results.h5, where the result is there.

    Raises:
        OSError: the folder cannot be read or written.
    """
    known = {}
    left_out = {FILE, VERDICT, *without, *(["results.h5"] if contents else [])}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.partition("/")[0] not in left_out and not path.is_symlink() and path.is_file():
            with path.open("rb") as file:
                known[name] = hashlib.file_digest(file, "sha256").hexdigest()
    made = Seal(workload, known, contents)
    _replace(folder / FILE, made)
    return made


def _replace(path: Path, made: Seal) -> None:
    """Write the file; its time stays that of the end of the run."""
    ended = path.stat()
    write_atomic(path, made.text())
    os.utime(path, ns=(ended.st_atime_ns, ended.st_mtime_ns))


def _is_outside(name: str) -> bool:
    return name.startswith("/") or ".." in name.split("/")


def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _digest(path: Path) -> str | None:
    """None where there is no regular file."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
