"""The header at the start of data.h5: where each dataset lies, for readers without HDF5.

It is `struct data_header` of templates/launchers/system.h, little-endian:

    8 bytes      magic, "simgenD1"
    32 bytes     id: SHA-256 of what the file was made from
    u64          size of the file in bytes
    u64          number of entries: the workload's inputs in order, then the canary
    (u64, u64)   offset and size in bytes, for each entry
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.errors import DamagedError
from simgen.ground.ir import PAGE
from simgen.ground.storage.files import open_regular

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = b"simgenD1"
_HEAD = struct.Struct("<8s32sQQ")
_ENTRY = struct.Struct("<QQ")


@dataclass(frozen=True)
class DatasetEntry:
    """Where a dataset lies, in bytes from the start of the file."""

    offset: int
    nbytes: int


@dataclass(frozen=True)
class Header:
    id: bytes  # 32 bytes, as `data_id` makes them
    file_nbytes: int
    entries: tuple[DatasetEntry, ...]  # the workload's inputs in order, then the canary

    def pack(self) -> bytes:
        """The header as it stands at the start of the file."""
        head = _HEAD.pack(MAGIC, self.id, self.file_nbytes, len(self.entries))
        return head + b"".join(_ENTRY.pack(e.offset, e.nbytes) for e in self.entries)


def header_nbytes(entries: int) -> int:
    """Size of a header."""
    return _HEAD.size + _ENTRY.size * entries


def read_header(path: Path) -> Header:
    """The header of a data file, read without HDF5.

    Raises:
        DamagedError: it is missing, cannot be read, is no data file, or was cut or extended.
    """
    try:
        with open_regular(path) as file:
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size or head[: len(MAGIC)] != MAGIC:
                raise damaged(path, "not a simgen data file")
            _, identity, file_nbytes, count = _HEAD.unpack(head)
            actual = os.fstat(file.fileno()).st_size
            if actual != file_nbytes:
                raise damaged(path, f"{actual} bytes long where its header says {file_nbytes}")
            if header_nbytes(count) > file_nbytes:
                raise damaged(path, f"a header of {count} entries is longer than the file")
            table = file.read(count * _ENTRY.size)
    except OSError as error:
        raise damaged(path, f"cannot be read ({error.strerror or error})") from error
    entries = tuple(DatasetEntry(*pair) for pair in _ENTRY.iter_unpack(table))
    if any(e.offset % PAGE or e.offset + e.nbytes > file_nbytes for e in entries):
        raise damaged(path, "a dataset lies outside the file or not on a page")
    return Header(identity, file_nbytes, entries)


def damaged(path: Path, fact: str) -> DamagedError:
    """The error for a data file that is not what it says it is; a build makes it anew."""
    return DamagedError(f"{path}: {fact}; build the bundle again")
