"""Code objects of AMD GPUs in files of all kinds.

    ELF for an AMD GPU                  a code object, linked or not
    ELF for a CPU                       programs and libraries of HIP: section .hip_fatbin; others:
                                        code objects and their memory images among their constants
    __CLANG_OFFLOAD_BUNDLE__            a fat binary: code objects of several processors
    CCOB                                the same, compressed by zlib or Zstandard
    !<arch>                             a static library of any of these
    assembly text (.s)                  is assembled, with lines
    a folder                            all files in it, at any depth; links are not followed

Source: https://clang.llvm.org/docs/ClangOffloadBundler.html.
"""

from __future__ import annotations

import importlib
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from simgen.errors import DamagedError, MissingError, UsageError, one_line
from simgen.ground.storage.files import read_regular
from simgen.isa.lint import assembling, elf, embedded

ELF, BUNDLE, COMPRESSED, ARCHIVE = b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB", b"!<arch>\n"
MAGICS = (ELF, BUNDLE, COMPRESSED, ARCHIVE)
FATBIN = ".hip_fatbin"
MOST_NBYTES = 2**31  # size limit of a file, or of a decompressed one
MOST_ENTRIES = 4096  # entries of a fat binary, at most
DEEPEST = 4  # containers in containers
ASSEMBLY = (".s", ".S", ".asm")


@dataclass(frozen=True)
class Held:
    """A code object, and where it was found."""

    path: Path
    inside: str  # the name that the containers give it; empty if it is the file itself
    code: bytes  # ELF
    contracted: bool = False  # its source's products and sums may have become one instruction

    @property
    def place(self) -> str:
        return place(self.path, self.inside)


def place(path: Path, inside: str) -> str:
    """How people see where a code object is."""
    return f"{path}({inside})" if inside else str(path)


def code_objects(path: Path, arch: str = "") -> Iterator[Held]:
    """The code objects in a file, or in all files of a folder.

    `arch` is what assembly text that names no processor is for. Files of a folder that hold nothing
    of an AMD GPU are passed over.

    Raises:
        UsageError: the file is of no such kind, or holds none; assembly text that is wrong.
        DamagedError: a container that is not whole.
        OSError: it cannot be read.
    """
    if path.is_dir():
        for each in files(path, _raised):
            yield from in_folder(each, arch)
        return
    count = 0
    for held in _of_file(path, arch):
        count += 1
        yield held
    if not count:
        raise UsageError(
            f"{path}: no code for an AMD GPU in it; give a code object, a fat binary, a program or "
            "library of HIP, or assembly (.s)"
        )


def files(folder: Path, refused: Callable[[OSError], None]) -> Iterator[Path]:
    """All files in a folder, at any depth; links are not followed.

    `refused` is told of each folder that cannot be listed.
    """
    for root, folders, names in os.walk(folder, onerror=refused):
        folders.sort()
        for each in (Path(root, name) for name in sorted(names)):
            if each.is_file() and not each.is_symlink():
                yield each


def _raised(error: OSError) -> None:
    raise error


def in_folder(path: Path, arch: str = "") -> Iterator[Held]:
    """The code objects in a file of a folder, which may have none. Raises as `code_objects`."""
    if _may_hold(path):
        yield from _of_file(path, arch)


def _may_hold(path: Path) -> bool:
    if path.suffix in ASSEMBLY:
        return assembling.is_amd_assembly(read_regular(path, MOST_NBYTES))
    with path.open("rb") as file:
        return file.read(len(BUNDLE)).startswith(MAGICS)


def _of_file(path: Path, arch: str) -> Iterator[Held]:
    content = read_regular(path, MOST_NBYTES)
    if path.suffix in ASSEMBLY:
        yield Held(path, "", assembling.assembled(content, str(path), arch))
    else:
        yield from _held(path, "", content, 0)


def _held(path: Path, inside: str, content: bytes, depth: int) -> Iterator[Held]:
    """The code objects in the bytes of a container."""
    if depth > DEEPEST:
        raise DamagedError(f"{path}: containers in containers; take out the code object")
    place = f"{path}({inside})" if inside else str(path)
    if content.startswith(ELF):
        if struct.unpack_from("<H", content.ljust(20), 18)[0] == embedded.EM_AMDGPU:
            yield Held(path, inside, content)
            return
        fat, constants = _in_program(content, place)
        for at, section in enumerate(fat):
            yield from _held(path, f"{inside}{FATBIN}{at or ''}", section, depth + 1)
        for start, code in constants:
            yield Held(path, _joined(inside, 0, f"at {start:#x}"), code)
    elif content.startswith((BUNDLE, COMPRESSED)):
        for part, name, code in _bundles(content, place):
            yield from _held(path, _joined(inside, part, name), code, depth + 1)
    elif content.startswith(ARCHIVE):
        for name, member in _members(content, place):
            yield from _held(path, _joined(inside, 0, name), member, depth + 1)


def _joined(inside: str, part: int, name: str) -> str:
    named = f"{part}:{name}" if part else name
    return f"{inside}/{named}" if inside else named


def _in_program(content: bytes, place: str) -> tuple[list[bytes], list[tuple[int, bytes]]]:
    """A program's fat binaries, and (offset, code) of the code objects outside of them."""
    with elf.opened(content, place, "ELF file", "copy it again") as file:
        fat = [each for each in file.iter_sections() if each.name == FATBIN]
        fat = [each for each in fat if each["sh_type"] != "SHT_NOBITS"]
        outside = embedded.loaded(file)
        for each in fat:
            start, end = each["sh_offset"], each["sh_offset"] + each["sh_size"]
            outside = [
                piece
                for low, high in outside
                for piece in ((low, min(high, start)), (max(low, end), high))
                if piece[0] < piece[1]
            ]
        return [bytes(each.data()) for each in fat], list(
            embedded.code_objects(content, sorted(outside), place)
        )


def _bundles(content: bytes, place: str) -> Iterator[tuple[int, str, bytes]]:
    """(number of the fat binary, name, bytes) of each entry of fat binaries one behind another."""
    # A library has hundreds, in gigabytes: nothing behind one is copied or searched for each.
    at, number, later = 0, 0, dict.fromkeys((BUNDLE, COMPRESSED), 0)
    try:
        while 0 <= at < len(content):
            whole, end = memoryview(content)[at:], len(content)
            packed = content.startswith(COMPRESSED, at)
            if packed:
                inflated, end = _inflated(whole, place)
                whole, end = memoryview(inflated), end + at
            entries, nbytes = _entries(whole, place)
            for name, start, size in entries:
                if size and start + size <= len(whole):
                    yield number, name, bytes(whole[start : start + size])
                elif size:
                    raise DamagedError(f"{place}: an entry ends behind the file; copy it again")
            end = end if packed else at + nbytes
            number += 1
            for magic, found in later.items():
                if 0 <= found < end:
                    later[magic] = content.find(magic, end)
            at = min((each for each in later.values() if each >= 0), default=-1)
    except (struct.error, UnicodeDecodeError, zlib.error) as error:
        raise DamagedError(f"{place}: not a whole fat binary ({error}); copy it again") from None


def _entries(whole: memoryview, place: str) -> tuple[list[tuple[str, int, int]], int]:
    """(name, offset, size) of each entry, and where the last of them ends."""
    if whole[: len(BUNDLE)] != BUNDLE:
        raise DamagedError(f"{place}: compressed, and holds no fat binary; copy it again")
    (count,) = struct.unpack_from("<Q", whole, len(BUNDLE))
    if count > MOST_ENTRIES:
        raise struct.error("more entries than there can be")
    at, made, end = len(BUNDLE) + 8, [], 0
    for _ in range(count):
        start, size, length = struct.unpack_from("<QQQ", whole, at)
        name = bytes(whole[at + 24 : at + 24 + min(length, 4096)])
        made.append((name.decode(), start, size))
        at += 24 + length
        end = max(end, start + size)
    return made, max(end, at)


def _inflated(whole: memoryview, place: str) -> tuple[bytes, int]:
    """What a compressed fat binary holds, and how many bytes of the file it took."""
    version, method = struct.unpack_from("<HH", whole, 4)
    if version == 1:
        (size,), nbytes, header = struct.unpack_from("<I", whole, 8), len(whole), 20
    elif version == 2:
        (nbytes, size), header = struct.unpack_from("<II", whole, 8), 24
    elif version == 3:
        (nbytes, size), header = struct.unpack_from("<QQ", whole, 8), 32
    else:
        raise DamagedError(f"{place}: compressed as in a version {version} that nobody knows yet")
    if size > MOST_NBYTES:
        raise DamagedError(f"{place}: says that it holds {size} bytes; copy it again")
    packed = whole[header:nbytes]
    if method == 0:
        inflate = zlib.decompressobj()
        return inflate.decompress(packed, size + 1), nbytes
    return _zstandard(packed, size, place), nbytes


def _zstandard(packed: memoryview, size: int, place: str) -> bytes:
    for module in ("compression.zstd", "backports.zstd"):
        try:
            inflate = importlib.import_module(module).ZstdDecompressor()
        except ImportError:
            continue
        try:
            return bytes(inflate.decompress(packed, size + 1))
        except Exception as error:  # each of the libraries has its own
            fact = f"not a whole fat binary ({one_line(str(error))})"
            raise DamagedError(f"{place}: {fact}; copy it again") from None
    raise MissingError(
        f"{place}: compressed by Zstandard, which this Python cannot read; install it: "
        "python -m pip install backports.zstd"
    )


def _members(content: bytes, place: str) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of each file in an archive of ar."""
    at, names = len(ARCHIVE), b""
    while at + 60 <= len(content):
        name, size = (
            content[at : at + 16].decode(errors="replace").rstrip(),
            content[at + 48 : at + 58],
        )
        nbytes = int(size) if size.strip().isdigit() else len(content)
        if at + 60 + nbytes > len(content):
            raise DamagedError(f"{place}: not a whole archive; copy it again")
        member = content[at + 60 : at + 60 + nbytes]
        at += 60 + nbytes + nbytes % 2
        if name == "//":
            names = member
        elif name not in ("/", "/SYM64/"):
            if name[1:].isascii() and name[1:].isdigit():
                start = int(name[1:])
                name = names[start : names.find(b"\n", start)].decode(errors="replace")
            yield name.rstrip("/"), member
    if content[at:].strip(b"\n"):  # part of a header remains
        raise DamagedError(f"{place}: not a whole archive; copy it again")
