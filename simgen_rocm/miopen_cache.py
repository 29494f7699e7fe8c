"""MIOpen's compiled kernels, as each of its generations in gem5's images keeps them.

    1.7.0   gem5 20.1 and 21.0   FOLDER/MD5/PROGRAM.o, a code object, in a folder that is named by
                                 the MD5 of "GPU:" and the arguments
    2.9.0   gem5 21.1 and later  FOLDER/GPU_UNITS.ukdb, an SQLite database, in which a code object
                                 is compressed by bzip2 where that makes it smaller, beside its MD5

The arguments begin with a space and end with " -mcpu=GPU": MIOpen asks for exactly these.

Source: src/binary_cache.cpp and generate_cachefiles.sh of gem5-resources for 1.7; for 2.9,
simgen_rocm/templates/kernel_database.py.
"""

from __future__ import annotations

import csv
import hashlib
import runpy
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simgen.errors import DamagedError, MissingError, RunError, UsageError, one_line, printable
from simgen.ground.storage.files import open_regular, write_atomic

Key = tuple[str, str]  # kernel_name and kernel_args of MIOpen's database
MAX_NBYTES = 2**26  # size limit of a code object, and of a table of rows
ELF = b"\x7fELF"
COMPILER = "/opt/rocm/bin/clang-ocl"  # which MIOpen calls, too
OPTIONS = ("-Wno-everything", "-Xclang", "-target-feature", "-Xclang", "+code-object-v3")
CURE = "read it on the machine that made it, or build it again"


def key(program: str, arguments: str, gpu: str) -> Key:
    """As a run asks for it. "-mcpu" and what follows it in a row of cachefiles.csv count for
    nothing, and neither do spaces around the arguments."""
    text = arguments.split("-mcpu")[0].strip()
    return f"{program.strip()}.o", f" {text} -mcpu={gpu}" if text else f" -mcpu={gpu}"


def read_rows(path: Path) -> list[tuple[str, str]]:
    """(program, arguments) of each line of a cachefiles.csv.

    Raises:
        UsageError: the file cannot be read.
        DamagedError: a line is none of such a file.
    """
    try:
        with open_regular(path) as file:
            content = file.read(MAX_NBYTES + 1)
        if len(content) > MAX_NBYTES:
            fact = f"has more than {MAX_NBYTES} bytes"
            raise DamagedError(f"{path}: {fact}; name a cachefiles.csv")
        lines = content.decode().splitlines()
        rows = list(csv.reader(lines))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}; name a cachefiles.csv") from None
    except UnicodeDecodeError:
        raise DamagedError(f"{path}: is no text; name a cachefiles.csv") from None
    except csv.Error as error:
        raise DamagedError(f"{path}: is no table ({error}); name a cachefiles.csv") from None
    found = []
    for number, row in enumerate(rows, 1):
        if len(row) < 2 or not row[0].strip():
            fact = f"{printable(','.join(row))} is not PROGRAM,ARGUMENTS"
            raise DamagedError(f"{path}:{number}: {fact}; write a line for each kernel")
        if "/" in row[0] or not row[0].isprintable():  # it becomes the name of a file
            fact = f"{printable(row[0])} is no name of a program"
            raise DamagedError(f"{path}:{number}: {fact}; write it like MIOpenSoftmax.cl")
        found.append((row[0].strip(), ",".join(row[1:]).strip()))
    return found


@dataclass(frozen=True)
class KernelCache(ABC):
    """The kernels that a version of MIOpen finds in a folder, for a GPU with some units."""

    folder: Path
    gpu: str
    units: int

    @abstractmethod
    def place(self, wanted: Key) -> Path:
        """The file that a kernel is in."""

    @abstractmethod
    def read(self, wanted: Iterable[Key]) -> dict[Key, bytes]:
        """The code objects that are there, of those that are wanted.

        Raises:
            DamagedError: a file is not what MIOpen, or this, left.
        """

    @abstractmethod
    def add(self, found: Mapping[Key, bytes]) -> None:
        """Add code objects, in place of others of the same keys; whole or not at all."""


class KernelFiles(KernelCache):
    """Kernel cache of MIOpen 1.7: a file for each kernel."""

    def place(self, wanted: Key) -> Path:
        name, arguments = wanted
        folder = hashlib.md5(f"{self.gpu}:{arguments}".encode(), usedforsecurity=False).hexdigest()
        return self.folder / folder / name

    def read(self, wanted: Iterable[Key]) -> dict[Key, bytes]:
        found = {}
        for each in wanted:
            path = self.place(each)
            if not path.exists():
                continue
            try:
                with open_regular(path) as file:
                    found[each] = _code(file.read(MAX_NBYTES + 1), str(path))
            except OSError as error:
                raise DamagedError(f"{path}: {error.strerror or error}; {CURE}") from None
        return found

    def add(self, found: Mapping[Key, bytes]) -> None:
        for each, content in found.items():
            write_atomic(self.place(each), content)


class KernelDatabase(KernelCache):
    """Kernel cache of MIOpen 2.4 and later: a database."""

    def place(self, wanted: Key) -> Path:
        return self.folder / str(_script().file_name(self.gpu, self.units))

    def read(self, wanted: Iterable[Key]) -> dict[Key, bytes]:
        script = _script()
        path = self.folder / str(script.file_name(self.gpu, self.units))
        try:
            found: dict[Key, bytes] = script.read(path)
        except script.DamagedError as error:
            raise DamagedError(f"{one_line(str(error))}; {CURE}") from None
        return {k: _code(found[k], f"{path}: {k[0]}") for k in wanted if k in found}

    def add(self, found: Mapping[Key, bytes]) -> None:
        script = _script()
        path = self.folder / str(script.file_name(self.gpu, self.units))
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            script.write(path, {**script.read(path), **found})
        except script.DamagedError as error:
            raise DamagedError(f"{one_line(str(error))}; {CURE}") from None


VERSIONS: Mapping[str, type[KernelCache]] = {"1.7.0": KernelFiles, "2.9.0": KernelDatabase}
# The GPUs that each was released for (its databases of find results), and those that gem5 adds.
_FIRST = ("gfx801", "gfx803", "gfx900", "gfx902", "gfx906")
GPUS: Mapping[str, tuple[str, ...]] = {"1.7.0": _FIRST, "2.9.0": (*_FIRST, "gfx908")}


def build(
    wanted: Sequence[tuple[str, str]], gpu: str, sources: Path, compiler: str
) -> dict[Key, bytes]:
    """Compile kernels of MIOpen's sources with its compiler: (program, arguments) each.

    Raises:
        MissingError: there is no such compiler or source.
        RunError: it refuses one.
    """
    found = {}
    with tempfile.TemporaryDirectory() as place:
        for program, arguments in wanted:
            source = sources / program
            if not source.is_file():
                cure = "name the folder src/kernels of MIOpen's sources"
                raise MissingError(f"--sources {sources}: has no {printable(program)}; {cure}")
            made = Path(place) / "kernel.o"
            made.unlink(missing_ok=True)
            _, text = key(program, arguments, gpu)
            words = [compiler, *text.split(), *OPTIONS, str(source), "-o", str(made)]
            try:
                done = subprocess.run(words, capture_output=True, text=True, errors="replace")
            except OSError as error:
                fact = error.strerror or str(error)
                cure = "install ROCm's clang-ocl, or name it"
                raise MissingError(f"--compiler {compiler}: {fact}; {cure}") from None
            if done.returncode or not made.is_file():
                told = next((x for x in done.stderr.splitlines() if "error" in x), "no reason")
                raise RunError(
                    f"{program}: {compiler} refuses it ({one_line(told)}); run it by hand: "
                    f"{' '.join(words)}"
                )
            found[key(program, arguments, gpu)] = _code(made.read_bytes(), str(source))
    return found


def _code(content: bytes, place: str) -> bytes:
    if len(content) > MAX_NBYTES or not content.startswith(ELF):
        raise DamagedError(f"{place}: is no code object; {CURE}")
    return content


def _script() -> Any:
    """The program that bundles bring: it must do the same without simgen."""
    path = Path(__file__).parent / "templates" / "kernel_database.py"
    return SimpleNamespace(**runpy.run_path(str(path), run_name="kernel_database"))
