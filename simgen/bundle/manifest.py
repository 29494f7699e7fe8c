"""manifest.json: what a bundle holds, with digests, and the last of them its own."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from simgen.errors import UsageError, printable
from simgen.ground.storage import schema
from simgen.ground.storage.files import read_regular
from simgen.ground.storage.schema import SHA256, SchemaError, Sized, Within
from simgen.ground.version import version

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = "simgen bundle 1"
FILE = "manifest.json"
DIGEST = "sha256"  # digest of the manifest without this entry; in "data", of data.h5


@dataclass(frozen=True)
class DataEntry:
    id: SHA256
    file: str = ""
    sha256: SHA256 | None = None


@dataclass(frozen=True)
class MappedEntry:
    """Entry for mmap.bin."""

    nbytes: Annotated[int, Within(4, 2**50)]
    seed: Annotated[int, Within(0, 2**64 - 1)]
    file: str = ""
    sha256: SHA256 | None = None

    def __post_init__(self) -> None:
        if self.nbytes % 4:
            raise SchemaError(
                f"{self.nbytes} bytes are not a whole number of float32 values"
            ).under(".nbytes")


@dataclass(frozen=True)
class Manifest:
    """What later stages ask a manifest for."""

    format: str
    name: str
    simgen: Annotated[str, Sized(0, 100)]
    compiler: Annotated[str, Sized(0, 1000)]
    config: Mapping[str, Any]
    data: DataEntry
    targets: Mapping[str, Mapping[str, Any]]
    files: Mapping[str, SHA256]
    sha256: SHA256
    mapped: MappedEntry | None = None

    def __post_init__(self) -> None:
        for kind, names in (("files", self.files), ("targets", self.targets)):
            for name in names:
                if not 0 < len(name) <= 1000 or not name.isprintable():
                    raise SchemaError(f"{printable(name)} is not a name").under(f".{kind}")
                if name.startswith("/") or ".." in name.split("/"):
                    fact = f"{printable(name)} lies outside of the bundle"
                    raise SchemaError(fact).under(f".{kind}")


def sealed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with its own digest."""
    rest = {name: value for name, value in manifest.items() if name != DIGEST}
    return {**rest, DIGEST: sha256(_json(rest))}


def text(manifest: Mapping[str, Any]) -> bytes:
    """What the file holds of a sealed manifest."""
    return _json(manifest)


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest in a file, as it was written.

    Raises:
        UsageError: it is another program's.
        OSError, ValueError: it cannot be read, or is damaged.
    """
    found: Any = schema.parse(read_regular(path, schema.MAX_NBYTES))
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        cure = "name another folder, or make one with: simgen build"
        other = _of_other_format(found) or "not the manifest of a simgen bundle"
        raise UsageError(f"{path}: {other}; {cure}")
    schema.from_json(Manifest, found, more=True)  # what stages need not ask for is not theirs
    if found[DIGEST] != sealed(found)[DIGEST]:
        raise ValueError("not what was written")
    return found


def other_format(path: Path) -> str:
    """What a bundle is that another version of simgen has made; empty: it is none."""
    try:
        found = schema.parse(read_regular(path, schema.MAX_NBYTES))
    except (OSError, ValueError):
        return ""
    return _of_other_format(found)


def _of_other_format(found: Any) -> str:
    family, _, number = FORMAT.rpartition(" ")
    told = found if isinstance(found, dict) else {}
    other = re.fullmatch(rf"{family} ([0-9]{{1,6}})", str(told.get("format")))
    if not other or other[0] == FORMAT:
        return ""
    named = str(told.get("simgen"))
    known = named != version() and re.fullmatch(r"[0-9][0-9A-Za-z.+-]{0,40}", named)
    maker = f"simgen {named}" if known else "another version of simgen"
    return (
        f"a bundle of format {other[1]}, which {maker} reads; simgen {version()} reads "
        f"format {number}"
    )


def has_our_format(path: Path) -> bool:
    """Whether a folder may be replaced. One whose manifest is damaged may be anybody's."""
    try:
        found = schema.parse(read_regular(path, schema.MAX_NBYTES))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and bool(found.get("format") == FORMAT)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(manifest: Mapping[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=1) + "\n").encode()
