"""The arguments of launches in memory, as the code object's metadata lays them out.

Kernels of simgen take addresses alone. Those of users take numbers by value too, and read what the
runtime leaves behind their own arguments: https://llvm.org/docs/AMDGPUUsage.html, "Code Object V5
Metadata", the value kinds `hidden_*`.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from simgen.errors import RefusedError
from simgen.isa import code_object
from simgen.isa.legalise import private_memory
from simgen.isa.lint import naming, rewriting
from simgen.isa.lint.elf import opened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.ground.ir import Kernel, Launch, Workload

POINTER = 8
_SCALAR_LOAD = re.compile(r"s_load_dword(?:x(\d+))?\Z")
ALIGNMENT = 64  # alignment of a launch's area
MOST_PRIVATE = 256 << 20  # bytes of private memory of a launch
NONE: Mapping[str, Private] = MappingProxyType({})
LDS_ALIGNMENT = 16
# Bytes behind the kernel's own arguments, where no runtime leaves anything (LLVM, "Code Object V5
# Metadata": the last hidden argument is hidden_queue_ptr, at 200 of 256): addresses of variables.
VARIABLES = 208
# The upper halves of generic addresses of LDS and private memory, on GPUs without registers of
# them. Compilers list them for each kernel there that reads any hidden argument.
BASES = ("hidden_private_base", "hidden_shared_base")
ZEROS = (
    "hidden_none",
    "hidden_global_offset_x",
    "hidden_global_offset_y",
    "hidden_global_offset_z",
)


@dataclass(frozen=True)
class Private:
    """Memory that is private to work-items: what a kernel of legalise/private_memory looks for."""

    each: int  # bytes of a work-item
    place: int  # index of its address among the arguments

    def nbytes(self, kernel: Kernel, launch: Launch) -> int:
        """Bytes for a launch, in whole wavefronts."""
        wavefronts = -(-kernel.block // private_memory.LANES) * math.prod(launch.grid)
        return wavefronts * private_memory.LANES * private_memory.stride(self.each)


@dataclass(frozen=True)
class Area:
    """The arguments of a launch: bytes, and where in them addresses of the arena come."""

    content: bytes
    pointers: tuple[tuple[int, int], ...]  # (place in the content, offset in the arena)


def areas(
    workload: Workload, objects: Mapping[str, bytes], private: Mapping[str, Private] = NONE
) -> tuple[Area, ...]:
    """Areas of all launches, from the code objects of their kernels; `private` are the areas of
    kernels that look for private memory behind the arena.

    Raises:
        RefusedError: a kernel takes other arguments than the launch gives, or one that only a
            runtime has.
    """
    known: dict[str, tuple[list[dict[str, Any]] | None, int, int]] = {}
    found = []
    for launch in workload.launches:
        kernel = workload.kernel(launch.kernel)
        if kernel.name not in known:
            elf = objects[kernel.name]
            info = code_object.kernels(elf)[kernel.symbol]
            told = _without_bases(_metadata_args(elf, kernel), elf, kernel)
            known[kernel.name] = told, info.kernarg_nbytes, info.lds_nbytes
        area = _area(workload, kernel, launch, *known[kernel.name])
        if memory := private.get(kernel.name):
            more = memory.place + private_memory.BEHIND_NBYTES - len(area.content)
            address = (memory.place, workload.arena_nbytes)
            area = Area(_padded(area.content + bytes(max(more, 0))), (*area.pointers, address))
        found.append(area)
    return tuple(found)


def privates(workload: Workload, objects: Mapping[str, bytes]) -> dict[str, Private]:
    """The kernels that look for private memory, by name.

    Raises:
        RefusedError: a launch would need too much of it.
    """
    found = {}
    for kernel in workload.kernels:
        told = metadata(objects[kernel.name], kernel)
        if each := told.get(".private_segment_fixed_size", 0):
            nbytes = int(told[".kernarg_segment_size"])
            found[kernel.name] = Private(int(each), private_memory.behind(nbytes))
    for launch in workload.launches:
        if memory := found.get(launch.kernel):
            nbytes = memory.nbytes(workload.kernel(launch.kernel), launch)
            if nbytes > MOST_PRIVATE:
                raise RefusedError(
                    f"kernel {launch.kernel}: its work-items need {nbytes >> 20} MiB of private "
                    f"memory in a launch, of {MOST_PRIVATE >> 20} MiB; make arrays in it smaller, "
                    "or launch fewer work-items at once"
                )
    return found


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % ALIGNMENT)


def _metadata_args(elf: bytes, kernel: Kernel) -> list[dict[str, Any]] | None:
    """The arguments of a kernel by its metadata; None where there is none."""
    told = metadata(elf, kernel)
    return list(told.get(".args", [])) if told else None


def _without_bases(
    told: list[dict[str, Any]] | None, elf: bytes, kernel: Kernel
) -> list[dict[str, Any]] | None:
    """The arguments without the bases of generic addresses, where no load can be of them."""
    if not told or not any(each.get(".value_kind") in BASES for each in told):
        return told
    start = min(int(e[".offset"]) for e in told if str(e[".value_kind"]).startswith("hidden_"))
    loaded = _loaded(code_object.instructions(elf, kernel.symbol), code_object.machine(elf))
    return [
        each for each in told
        if each[".value_kind"] not in BASES
        or any(int(each[".offset"]) - base in loaded for base in (0, start))
    ]  # fmt: skip


def _loaded(code: bytes, arch: str) -> set[int]:
    """The bytes behind any address that scalar loads with a constant read."""
    found = set[int]()
    for item in naming.decoded(code):
        words = _SCALAR_LOAD.match(naming.name(item, arch))
        if words and item.bits(17, 17):
            at = item.bits(32, 51)
            found.update(range(at, at + 4 * int(words[1] or 1)))
    return found


def metadata(elf: bytes, kernel: Kernel) -> dict[str, Any]:
    """What the metadata tells of a kernel; empty where there is none."""
    with opened(elf, f"kernel {kernel.name}") as file:
        told = rewriting.metadata_of(file)
    for each in told.get("amdhsa.kernels", []):  # type: ignore[attr-defined]
        if each.get(".name") == kernel.symbol or each.get(".symbol") == f"{kernel.symbol}.kd":
            found: dict[str, Any] = each
            return found
    return {}


def _area(
    workload: Workload, kernel: Kernel, launch: Launch,
    told: Sequence[Mapping[str, Any]] | None, nbytes: int, lds_nbytes: int,
) -> Area:  # fmt: skip
    given = _given_args(workload, launch, -(-lds_nbytes // LDS_ALIGNMENT) * LDS_ALIGNMENT)
    count = len(given) - (len(kernel.source.variables) if kernel.source else 0)
    given, variables = given[:count], given[count:]
    if told is None:
        told = _natural(given)
    own = [each for each in told if not str(each.get(".value_kind", "")).startswith("hidden_")]
    if len(own) != len(given):
        raise RefusedError(
            f"kernel {kernel.name}: it takes {len(own)} arguments, and the launch gives "
            f"{len(given)}; write {len(own)} args"
        )
    content = bytearray(max(nbytes, *(int(e[".offset"]) + int(e[".size"]) for e in told)))
    pointers = [
        (int(own[value.at][".offset"]) + POINTER * word, _place(workload, launch, which))
        for value in launch.values
        for word, which in value.tensors
    ]
    for at, (each, value) in enumerate(zip(own, given, strict=True)):
        place, size = int(each[".offset"]), int(each[".size"])
        if size != (POINTER if isinstance(value, int) else len(value)):
            has = "a tensor" if isinstance(value, int) else f"a number of {len(value)} bytes"
            raise RefusedError(
                f"kernel {kernel.name}: argument {at} takes {size} bytes, and the launch gives "
                f"{has}; write a number of its type, or a tensor"
            )
        if isinstance(value, int):
            pointers.append((place, value))
        else:
            content[place : place + size] = value
    for each in told:
        kind = str(each.get(".value_kind", ""))
        if kind.startswith("hidden_"):
            place, size = int(each[".offset"]), int(each[".size"])
            content[place : place + size] = _hidden(kernel, launch, kind, size)
    end = max((int(each[".offset"]) + int(each[".size"]) for each in own), default=0)
    for at, value in enumerate(variables):
        place = -(-end // POINTER) * POINTER + VARIABLES + POINTER * at
        if place + POINTER <= len(content):  # else the kernel reads nothing behind its arguments
            assert isinstance(value, int)
            pointers.append((place, value))
    return Area(_padded(bytes(content)), tuple(pointers))


def _given_args(workload: Workload, launch: Launch, lds_end: int) -> list[int | bytes]:
    """Arguments in the order of parameters: places in the arena, or bytes."""
    held = {which for value in launch.values for _, which in value.tensors}
    found: list[int | bytes] = [
        _place(workload, launch, which) for which in range(len(launch.args)) if which not in held
    ]
    for value in sorted(launch.values, key=lambda each: each.at):
        first = value.bits + (lds_end if value.local else 0)
        words = b"".join(word.to_bytes(POINTER, "little") for word in (first, *value.more))
        found.insert(value.at, words[: value.nbytes])
    return found


def _place(workload: Workload, launch: Launch, which: int) -> int:
    """Where in the arena an address among a launch's `args` is."""
    name, offset = launch.places[which]
    return workload.buffer(name).offset + offset


def _natural(given: Sequence[int | bytes]) -> list[dict[str, Any]]:
    """Each argument at a multiple of its size."""
    found, at = [], 0
    for value in given:
        size = POINTER if isinstance(value, int) else len(value)
        at = -(-at // size) * size
        found.append({".offset": at, ".size": size, ".value_kind": "by_value"})
        at += size
    return found


def _hidden(kernel: Kernel, launch: Launch, kind: str, size: int) -> bytes:
    """What a runtime leaves for a kernel.

    Raises:
        RefusedError: it is a service of the runtime.
    """
    axes = dict(zip("xyz", range(3), strict=True))
    axis = axes.get(kind[-1], 0) if kind[-2:-1] == "_" else 0
    values = {
        "hidden_block_count": launch.grid[axis],
        "hidden_group_size": kernel.extents[axis],
        "hidden_remainder": 0,
    }
    number = values.get(kind[:-2])
    if kind in ZEROS:
        number = 0
    elif kind == "hidden_grid_dims":
        number = max(
            (at + 1 for at in range(3) if launch.grid[at] * kernel.extents[at] > 1), default=1
        )
    elif kind == "hidden_dynamic_lds_size":
        number = kernel.lds_nbytes
    if number is None:
        service = kind.removeprefix("hidden_").replace("_", " ")
        cure = "leave out printf, malloc, asserts, launches and tables of functions"
        if kind in BASES:
            cure = "keep pointers to LDS and to memory apart"
        raise RefusedError(
            f"kernel {kernel.name}: it asks the runtime for its {service}, and there is none here; "
            f"{cure}"
        )
    return struct.pack("<Q", number)[:size]
