"""Content-addressed store of build outputs.

    ab/ab3f…/blob         the output, byte for byte
    ab/ab3f…/inputs.txt   everything that was hashed; compare two of these to explain a miss
    ab/ab3f…/sha256       of the blob: without it, or with another one, it is a miss

An entry gets its name when all three are there.

A key holds all that can change the output (source, compiler, flags, architecture) and no path and
no time, so that another checkout hits too. Entries are looked up in the user's cache, then in the
precomputed set that travels with simgen (`cachefiles/`), which is never written here.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from simgen.errors import RefusedError
from simgen.ground import resources
from simgen.ground.storage.files import atomic_folder, open_regular

FORMAT = "1"  # version of keys and entries; increment it when either changes
NOTES = ("built", "rates", "probes")  # which bundles were built here; what was measured


class Key:
    """Labelled fields; labels and lengths keep ("ab", "c") and ("a", "bc") apart."""

    def __init__(self, kind: str) -> None:
        self.text = ""
        self.label = ""  # the field of that name: what people see of the key
        self.add("format", FORMAT)
        self.add("kind", kind)

    def add(self, label: str, value: str | bytes) -> None:
        """Bytes enter as their SHA-256, so that `text` stays readable."""
        if isinstance(value, bytes):
            value = f"sha256 {hashlib.sha256(value).hexdigest()} of {len(value)} bytes"
        if label == "label":
            self.label = value
        self.text += f"[{label} {len(value.encode())}]\n{value}\n"

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


class State(StrEnum):
    GOOD = "good"
    ABSENT = "absent"
    DAMAGED = "damaged"


class CacheOutcome(StrEnum):
    """How a lookup ended; the counters of a build."""

    HIT = "from the cache"
    PRECOMPUTED = "precomputed"
    BUILT = "built"
    REPAIRED = "rebuilt over a damaged entry"


@dataclass(frozen=True)
class CacheEntry:
    """One stored output."""

    path: Path
    mine: bool = False  # only if it is this user's, or root's

    @property
    def digest(self) -> str:
        return self.path.name

    def _file(self, name: str) -> bytes:
        with open_regular(self.path / name) as file:
            if self.mine and not _is_trusted(os.fstat(file.fileno())):
                raise PermissionError
            return file.read()

    def read(self) -> tuple[State, bytes]:
        """The blob, if it is whole."""
        try:
            want = self._file("sha256").decode()
            blob = self._file("blob")
        except FileNotFoundError:
            half = any((self.path / name).exists() for name in ("sha256", "blob"))
            return (State.DAMAGED if half else State.ABSENT), b""
        except (OSError, UnicodeDecodeError):
            return State.DAMAGED, b""
        good = hashlib.sha256(blob).hexdigest() == want
        return (State.GOOD, blob) if good else (State.DAMAGED, b"")

    def write(self, inputs: str, blob: bytes) -> None:
        digest = hashlib.sha256(blob).hexdigest()
        with atomic_folder(self.path) as stage:
            for name, content in (("inputs.txt", inputs.encode()), ("blob", blob)):
                (stage / name).write_bytes(content)
            (stage / "sha256").write_text(digest)

    @property
    def label(self) -> str:
        """What it is, from its inputs: "code object gfx902 softmax_fwd_..."."""
        try:
            lines = self._file("inputs.txt").decode().splitlines()
        except (OSError, UnicodeDecodeError):
            return "?"
        return next((b for a, b in itertools.pairwise(lines) if a.startswith("[label ")), "?")


@dataclass(frozen=True)
class Lookup:
    label: str
    digest: str
    outcome: CacheOutcome


@dataclass
class Cache:
    """`own` is written; `shared` folders are only read."""

    own: Path
    shared: tuple[Path, ...] = ()
    lookups: list[Lookup] = field(default_factory=list)
    unwritten: OSError | None = None  # why an entry could not be written

    @property
    def outcomes(self) -> list[CacheOutcome]:
        return [lookup.outcome for lookup in self.lookups]

    @property
    def asked(self) -> list[str]:
        """Digests of all keys that were looked up."""
        return [lookup.digest for lookup in self.lookups]

    def get_or_build(self, key: Key, build: Callable[[], bytes]) -> bytes:
        """The output for `key`; calls `build` on a miss only.

        No locks: two builders of one key write the same bytes, and if they did not, the digest
        would make the entry a miss. A cache that cannot be written is only slower.
        """
        outcome, blob = self._get_or_build(key, build)
        self.lookups.append(Lookup(key.label, key.digest, outcome))
        return blob

    def kept(self, key: Key, build: Callable[[], bytes]) -> bytes:
        """The same for what is no part of a bundle, and is not counted."""
        return self._get_or_build(key, build)[1]

    def _get_or_build(self, key: Key, build: Callable[[], bytes]) -> tuple[CacheOutcome, bytes]:
        check(self.own)
        damaged = False
        for root in (self.own, *self.shared):
            state, blob = replace(entry(root, key.digest), mine=root == self.own).read()
            if state is State.GOOD:
                return (CacheOutcome.HIT if root == self.own else CacheOutcome.PRECOMPUTED), blob
            damaged |= state is State.DAMAGED
        blob = build()
        try:
            entry(self.own, key.digest).write(key.text, blob)
        except OSError as error:
            self.unwritten = error
        return (CacheOutcome.REPAIRED if damaged else CacheOutcome.BUILT), blob


def check(root: Path) -> None:
    """Refuse a user's cache in which others may have put what simgen would take for its own.

    Raises:
        RefusedError: it is another user's, or others may write it.
    """
    try:
        found = root.stat()
    except OSError:  # none yet
        return
    if not _is_trusted(found):
        raise RefusedError(
            f"{root}: a cache that other users own or may write; run chmod go-w on it, or set "
            "SIMGEN_CACHE_DIR to a folder of yours"
        )


def _is_trusted(found: os.stat_result) -> bool:
    """Nobody else has written it, but root; a group of this user alone may, as distributions do."""
    others = stat.S_IWOTH | (0 if found.st_gid == _own_group() else stat.S_IWGRP)
    return found.st_uid in (os.getuid(), 0) and not found.st_mode & others


@functools.cache
def _own_group() -> int | None:
    """The group that has this user's name and no other members."""
    import grp
    import pwd

    with contextlib.suppress(KeyError):
        user = pwd.getpwuid(os.getuid())
        group = grp.getgrgid(user.pw_gid)
        if group.gr_name == user.pw_name and not {*group.gr_mem} - {user.pw_name}:
            return group.gr_gid
    return None


def entry(root: Path, digest: str) -> CacheEntry:
    return CacheEntry(root / digest[:2] / digest)


def entries(root: Path) -> Iterator[CacheEntry]:
    """All entries under `root`, in order of digest; nothing if there is no such folder."""
    for path in sorted(root.glob("??/" + "?" * 64)):
        yield CacheEntry(path)


def user_root() -> Path:
    """The user's cache: $SIMGEN_CACHE_DIR, or the platform's folder for caches."""
    chosen = os.environ.get("SIMGEN_CACHE_DIR")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("simgen") / "kernels"


def precomputed_root() -> Path:
    """The set that travels with simgen."""
    return resources.folder("cachefiles")


def default() -> Cache:
    return Cache(user_root(), (precomputed_root(),))


def _home() -> Path:
    """Folder of everything that is no build output."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "simgen")
    return Path(os.environ.get("SIMGEN_CACHE_DIR") or default)


def notes(kind: str) -> Path:
    """The folder of one of NOTES."""
    return _home() / kind


def simulators_root() -> Path:
    """Folder in which run.sh keeps the simulators that it builds
    (templates/targets/mgpusim.run.sh.j2)."""
    return _home() / "mgpusim"


def simulators() -> Iterator[tuple[Path, State]]:
    """The programs there, and whether they are what was built."""
    for path in sorted(simulators_root().glob("*/*/runner")):
        try:
            with open_regular(path) as file, open_regular(path.with_name("runner.sha256")) as told:
                good = hashlib.file_digest(file, "sha256").hexdigest() == told.read(64).decode()
        except (OSError, UnicodeDecodeError):
            good = False
        yield path, State.GOOD if good else State.DAMAGED


def clear(root: Path) -> int:
    """Remove all entries under `root`; returns how many there were."""
    found = list(entries(root))
    for item in found:
        shutil.rmtree(item.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            item.path.parent.rmdir()
    return len(found)


def clear_notes() -> int:
    """Remove all NOTES; returns how many there were."""
    found = sum(1 for kind in NOTES for path in notes(kind).glob("*") if path.is_file())
    for kind in NOTES:
        shutil.rmtree(notes(kind), ignore_errors=True)
    return found


def clear_simulators() -> int:
    """Remove all simulators, those of older versions of simgen too, and what Go needed for them;
    returns how many there were."""
    root = simulators_root()
    found = len(list(root.glob("**/runner")))
    for folder in _home().glob("go/path/**/"):  # Go makes its modules read-only
        if not folder.is_symlink():
            folder.chmod(0o700)
    for each in (root, _home() / "go"):
        shutil.rmtree(each, ignore_errors=True)
    return found
