"""Content-addressed store of build outputs.

    ab/ab3f…/blob         the output, byte for byte
    ab/ab3f…/inputs.txt   everything that was hashed; compare two of these to explain a miss
    ab/ab3f…/sha256       of the blob, written last: without it, or with another one, it is a miss

A key holds all that can change the output (source, compiler, flags, architecture) and no path and
no time, so that another checkout hits too. Entries are looked up in the user's cache, then in the
precomputed set that travels with simgen (`cachefiles/`), which is never written here.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from simgen import resources
from simgen.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORMAT = "1"  # of keys and entries; bump it when either changes


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

    @property
    def digest(self) -> str:
        return self.path.name

    def read(self) -> tuple[State, bytes]:
        """The blob, if it is whole."""
        try:
            want = (self.path / "sha256").read_text()
            blob = (self.path / "blob").read_bytes()
        except FileNotFoundError:
            half = any((self.path / name).exists() for name in ("sha256", "blob"))
            return (State.DAMAGED if half else State.ABSENT), b""
        except (OSError, UnicodeDecodeError):
            return State.DAMAGED, b""
        good = hashlib.sha256(blob).hexdigest() == want
        return (State.GOOD, blob) if good else (State.DAMAGED, b"")

    def write(self, inputs: str, blob: bytes) -> None:
        write_atomic(self.path / "inputs.txt", inputs.encode())
        write_atomic(self.path / "blob", blob)
        write_atomic(self.path / "sha256", hashlib.sha256(blob).hexdigest().encode())

    @property
    def label(self) -> str:
        """What it is, from its inputs: "code object gfx902 softmax_fwd_..."."""
        try:
            lines = (self.path / "inputs.txt").read_text().splitlines()
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
        damaged = False
        for root in (self.own, *self.shared):
            state, blob = entry(root, key.digest).read()
            if state is State.GOOD:
                return (CacheOutcome.HIT if root == self.own else CacheOutcome.PRECOMPUTED), blob
            damaged |= state is State.DAMAGED
        blob = build()
        with contextlib.suppress(OSError):
            entry(self.own, key.digest).write(key.text, blob)
        return (CacheOutcome.REPAIRED if damaged else CacheOutcome.BUILT), blob


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


def clear(root: Path) -> int:
    """Remove all entries under `root`; returns how many there were."""
    found = list(entries(root))
    for item in found:
        shutil.rmtree(item.path, ignore_errors=True)
    return len(found)
