"""MIOpen's kernel database, as MIOpen 2.4 and later keep it: does it have what a run asks for?

Usage: kernel_database.py FOLDER GPU UNITS KERNELS.csv

Names on standard output the kernels that FOLDER's database for GPU with UNITS compute units lacks,
one in each line, and exits with 3 if there are any; with 2 if the database is damaged.

The database is an SQLite file with the table kern_db: for each program and its arguments a code
object, compressed by bzip2 where that makes it smaller (else uncompressed_size is 0), and the MD5
of what was compressed. generate_cachefiles.py of gem5-resources gives the file a name that MIOpen
looks for up to 64 compute units only; of a larger GPU the entries are taken over under the name
that MIOpen looks for.

Source: src/include/miopen/kern_db.hpp, src/bz2.cpp and Handle::GetDbBasename at tag rocm-4.0.1.
"""

from __future__ import annotations

import bz2
import csv
import hashlib
import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

SCHEMA = """
CREATE TABLE kern_db (
    id INTEGER PRIMARY KEY ASC,
    kernel_name TEXT NOT NULL,
    kernel_args TEXT NOT NULL,
    kernel_blob BLOB NOT NULL,
    kernel_hash TEXT NOT NULL,
    uncompressed_size INT NOT NULL
);
CREATE UNIQUE INDEX idx_kern_db ON kern_db (kernel_name, kernel_args);
"""
COLUMNS = "kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size"
MOST_UNITS = 64  # compute units up to which their number stands in decimal, behind an underscore


class DamagedError(Exception):
    """The file is not a kernel database, or a code object in it is not what was stored."""


def file_name(gpu: str, units: int) -> str:
    """Of the user's database, for a GPU with a number of compute units."""
    return f"{gpu}_{units}.ukdb" if units <= MOST_UNITS else f"{gpu}{units:x}.ukdb"


def wanted(rows: Path, gpu: str) -> list[tuple[str, str]]:
    """(kernel_name, kernel_args) of each line "PROGRAM,ARGUMENTS" of a cachefiles.csv.

    As in generate_cachefiles.py, "-mcpu" and what follows it counts for nothing.
    """
    with rows.open(newline="") as lines:
        return [
            (f"{program}.o", f" {arguments.split('-mcpu')[0].strip()} -mcpu={gpu}")
            for program, arguments in csv.reader(lines)
        ]


def read(path: Path) -> dict[tuple[str, str], bytes]:
    """The code objects by (kernel_name, kernel_args); empty where there is no file.

    Raises:
        DamagedError: as the class says.
    """
    if not path.is_file():
        return {}
    found = {}
    try:
        uri = path.resolve().as_uri() + "?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as database:
            for name, arguments, blob, digest, size in database.execute(
                f"SELECT {COLUMNS} FROM kern_db ORDER BY id"
            ):
                content = bz2.decompress(blob) if size else blob
                if _md5(content) != digest or len(content) != (size or len(content)):
                    raise DamagedError(f"{path}: {name} with{arguments} differs from its digest")
                found[name, arguments] = content
    except (sqlite3.Error, OSError, TypeError, ValueError) as error:
        raise DamagedError(f"{path}: {error}") from None
    return found


def write(path: Path, entries: dict[tuple[str, str], bytes]) -> None:
    """Make the database of these code objects, whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    os.close(handle)
    try:
        with closing(sqlite3.connect(name)) as database:
            database.executescript(SCHEMA)
            for (kernel, arguments), content in entries.items():
                small = bz2.compress(content)
                size = len(content) if len(small) < len(content) else 0
                row = (kernel, arguments, small if size else content, _md5(content), size)
                database.execute(f"INSERT INTO kern_db ({COLUMNS}) VALUES (?, ?, ?, ?, ?)", row)
            database.commit()
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def database(folder: Path, gpu: str, units: int) -> dict[tuple[str, str], bytes]:
    """What MIOpen will find, with the entries of generate_cachefiles.py's file taken over."""
    path = folder / file_name(gpu, units)
    found = read(path)
    made = folder / f"{gpu}_{units}.ukdb"
    if made != path:
        both = {**read(made), **found}
        if both != found:
            write(path, both)
        return both
    return found


def main(folder: str, gpu: str, units: str, rows: str) -> int:
    try:
        found = database(Path(folder), gpu, int(units))
    except DamagedError as error:
        print(error)
        return 2
    missing = [key for key in wanted(Path(rows), gpu) if key not in found]
    for name, arguments in missing:
        print(f"{name}{arguments}")
    return 3 if missing else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
