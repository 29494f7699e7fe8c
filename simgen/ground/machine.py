"""Machines and their architectures, as values: what kernels are planned and compiled for.

data/machines/NAME.json is all that simgen knows of one machine: its numbers, where they come from,
and how targets simulate it. data/architectures/NAME.json is an instruction set, which several
machines may have. A machine is added with one file.

A workload has the machine that it was planned for, so that its plan is the same whenever it is
made again, whatever the files say by then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated

from simgen.errors import UsageError, did_you_mean, printable
from simgen.ground import resources
from simgen.ground.storage.files import read_regular
from simgen.ground.storage.schema import Matching, Sized, Within, from_json, parse

FITTED = "h200"  # the machine that the constants of plans were fitted on
MACHINES, ARCHITECTURES = "machines", "architectures"  # folders in data/
MAX_NBYTES = 2**20  # size limit of a file
AUTO, YES, NO = "auto", "yes", "no"  # whether matrix instructions multiply
TF32 = "tf32"  # they do where that pays, and f32 too, of which they keep 11 bits
MODELS = ("gem5-", "mgpusim-", "gpgpusim-")  # begin the names of simulators' models of machines

Name = Annotated[str, Matching(r"[a-z0-9_.-]{1,64}", "a name")]
Count = Annotated[int, Within(1, 2**20)]
Bytes = Annotated[int, Within(0, 2**40)]
Rate = Annotated[float, Within(1e-3, 1e18)]


class NoRoomError(ValueError):
    """A machine has no room for a kernel, however that is planned, or none of the instructions that
    are asked for; the message is "fact; cure"."""


@dataclass(frozen=True)
class Matrix:
    """A matrix instruction of one wavefront: (m, k) times (k, n), added to (m, n)."""

    m: Count
    n: Count
    k: Count
    factors: Name  # element type of what is multiplied
    sums: Name  # type of the sums


@dataclass(frozen=True)
class ProductRounding:
    """How far off a simulator's matrix instructions round products to the type of their factors.

    A place is that type's spacing at 1. A product p is off by at most `relative` |p| places, and by
    `absolute` places of the least normal number.
    """

    factors: Name  # element type
    relative: Rate
    absolute: Rate


@dataclass(frozen=True)
class Machine:
    """What a plan depends on. Rates are those of the whole machine."""

    name: Name
    arch: Name  # what code is compiled for
    units: Count  # compute units, streaming multiprocessors, cores
    wavefront: Count  # work-items that execute an instruction together
    simds: Count  # SIMD units of a compute unit, each with its own registers
    wavefronts: Count  # wavefronts of a SIMD unit
    registers: Count  # registers of a SIMD unit: 32 bits for each work-item of a wavefront
    item_registers: Count  # registers of a work-item, at most
    lds_nbytes: Bytes  # LDS of a unit
    group_lds_nbytes: Bytes  # LDS of a work-group, at most
    l1_nbytes: Bytes  # L1 cache of a unit
    l2_nbytes: Bytes
    line_nbytes: Count  # bytes of a cache line
    l2_rate: Rate  # bytes in a cycle, to and from L2
    dram_rate: Rate  # bytes in a second
    clock: Rate  # Hz
    fmas: Count  # float32 multiply-adds of a unit in a cycle
    alone: Annotated[float, Within(0, 1)]  # part of a unit's rate that very few work-items reach
    busy: Count  # work-items of a unit that reach all of it
    launch_cycles: Count  # cycles that one more kernel costs in any case
    matrix: tuple[Matrix, ...] = ()
    # Types to which matrix instructions round products, as a simulator's may. No plan has any:
    # results report them, and are judged accordingly.
    rounds_products: tuple[ProductRounding, ...] = ()
    # LDS of a work-group, at most, if its launch asks for it: CUDA's dynamic shared memory.
    asked_lds_nbytes: Bytes = 0
    joins_groups: bool = False  # whether all work-groups of a launch can wait for each other
    use_matrix: Name = AUTO  # YES, NO, or where that pays
    options: tuple[tuple[str, str], ...] = ()  # what differs from the file, as a user says it

    @property
    def label(self) -> str:
        """What `find` makes it of again: "h200", "gem5-gfx902,num_compute_units=16"."""
        return ",".join((self.name, *(f"{name}={value}" for name, value in self.options)))

    @property
    def is_nvidia(self) -> bool:
        return self.arch.startswith("sm_")

    @property
    def rate(self) -> float:
        """float32 multiply-adds in a second."""
        return self.units * self.fmas * self.clock

    def with_options(self, given: Mapping[str, str | int], place: str) -> Machine:
        """This machine with other hardware; names and values are those of run options.

        Raises:
            UsageError: there is no such option, or a value is none of it.
        """
        changed: dict[str, int | float | str] = {}
        for name, value in given.items():
            if name not in OPTIONS:
                fact = f"{printable(name)} is not an option of a machine"
                raise UsageError(f"{place}: {fact}; {did_you_mean(name, OPTIONS)}")
            changed[OPTIONS[name]] = _value(name, str(value), place)
        if "lds_nbytes" in changed:
            changed["group_lds_nbytes"] = changed["lds_nbytes"]
        kept = {name: value for name, value in self.options if name not in given}
        told = kept | {name: str(value) for name, value in given.items()}
        ordered = tuple((name, told[name]) for name in OPTIONS if name in told)
        return replace(self, **changed, options=ordered)  # type: ignore[arg-type]


# Options of runs that make another machine -> the field that they set.
OPTIONS = {
    "num_compute_units": "units",
    "wfs_per_simd": "wavefronts",
    "vreg_file_size": "registers",
    "lds_size": "lds_nbytes",
    "tcp_size": "l1_nbytes",
    "tcc_size": "l2_nbytes",
    "gpu_clock": "clock",
    "matrix": "use_matrix",
}
WORDS = {"use_matrix": (AUTO, YES, NO, TF32)}  # words of fields that are no numbers
UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_QUANTITY = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([KMG]i|[kMG])?(B|Hz)?", re.ASCII)


SIZES = ("lds_nbytes", "l1_nbytes", "l2_nbytes")


def _value(name: str, text: str, place: str) -> int | float | str:
    """The value of an option: one of its words, or a number."""
    words = WORDS.get(OPTIONS[name])
    if words and text not in words:
        raise UsageError(f"{place}: {name} is {printable(text)}; {did_you_mean(text, words)}")
    return text if words else _number(name, text, place)


def _number(name: str, text: str, place: str) -> int | float:
    """The value of an option: a count, a size such as 16KiB, or a clock such as 1.5GHz."""
    what = OPTIONS[name]
    unit, form = ("", "a whole number")
    if what in SIZES:
        unit, form = ("B", "a whole number, or a size such as 64KiB")
    elif what == "clock":
        unit, form = ("Hz", "a clock such as 1.5GHz")
    found = _QUANTITY.fullmatch(text)
    value = float(found[1]) * UNITS[found[2] or ""] if found else 0.0
    with_unit = bool(found and found[3] == unit and unit)
    plain = bool(found and not found[2] and not found[3])
    if what == "clock" and with_unit and value > 0:
        return value
    if what != "clock" and (with_unit or plain) and value == int(value) and 1 <= value <= 2**40:
        return int(value)
    raise UsageError(f"{place}: {name} is {printable(text)}; write {form}")


@dataclass(frozen=True)
class Gem5Model:
    """How gem5 simulates a machine in syscall emulation; which versions do, data/isa tells."""

    build: str  # folder in gem5's build/, as scons names it
    gpu_id: int  # under which gem5's driver knows it
    dgpu: bool = False  # a discrete GPU; else it shares the memory of the CPU
    doorbell_nbytes: int = 4  # 4: it takes the number of packets; 8: the index of the last one
    told: str = ""  # the architecture that apu_se.py is told, where code is for another one


@dataclass(frozen=True)
class MgpusimModel:
    """How MGPUSim simulates it."""

    gpu: str  # MGPUSim's name of it
    shader_arrays: int
    emulator: str  # folder of its instructions in MGPUSim's sources


@dataclass(frozen=True)
class GpgpusimModel:
    """How GPGPU-Sim simulates it."""

    config: str  # folder in its configs/tested-cfgs


@dataclass(frozen=True)
class Description:
    """What a file of data/machines holds."""

    title: Annotated[str, Sized(1, 200)]
    machine: Machine
    sources: Mapping[str, Annotated[str, Sized(1, 500)]]  # fields -> where their values come from
    gem5_se: Gem5Model | None = None
    mgpusim: MgpusimModel | None = None
    gpgpusim: GpgpusimModel | None = None


@dataclass(frozen=True)
class Architecture:
    """What a file of data/architectures holds: an instruction set of AMD, by LLVM's name."""

    name: Name
    wavefront: Count
    bypass_l1: str  # the bits of a load that misses in L1
    elf_machine: int | None = None  # EF_AMDGPU_MACH; None: nothing of ours reads its code
    register_granule: Annotated[int, Within(1, 64)] = 4  # vector registers


@cache
def descriptions() -> Mapping[str, Description]:
    """All machines by name, in the order of the names."""
    found = {}
    for path in sorted((resources.folder("data") / MACHINES).glob("*.json")):
        made = from_json(Description, parse(read_regular(path, MAX_NBYTES)))
        found[made.machine.name] = made
    return found


@cache
def architectures() -> Mapping[str, Architecture]:
    """All architectures of AMD by name, older ones first."""
    folder = resources.folder("data") / ARCHITECTURES
    made = [
        from_json(Architecture, parse(read_regular(path, MAX_NBYTES)))
        for path in folder.glob("*.json")
    ]
    return {each.name: each for each in sorted(made, key=lambda each: (len(each.name), each.name))}


def named(name: str) -> Machine:
    """A machine of data/machines, whose name is known to be right."""
    return descriptions()[name].machine


def real(arch: str) -> str | None:
    """Name of the first machine with an architecture that is no simulator's model of one."""
    for name, told in descriptions().items():
        if told.machine.arch == arch and not name.startswith(MODELS):
            return name
    return None


@cache
def fitted() -> Machine:
    """The machine that layers are planned for where nobody says for which."""
    return named(FITTED)


def find(text: str, place: str) -> Machine:
    """The machine that a user names: NAME, or NAME,OPTION=VALUE,... for another one like it.

    Raises:
        UsageError: there is no such machine or option.
    """
    name, *rest = text.split(",")
    known = descriptions()
    if name.strip() not in known:
        fact = f"no machine {printable(name.strip())}"
        raise UsageError(f"{place}: {fact}; {did_you_mean(name.strip(), known)}")
    given = {}
    for each in rest:
        option, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"{place}: {printable(each)} is not an option; write OPTION=VALUE")
        given[option.strip().replace("-", "_")] = value.strip()
    return named(name.strip()).with_options(given, place)
