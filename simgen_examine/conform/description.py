"""The description of the instruction set: simgen_examine/data/instructions.json.

A row of a vector format is

    [mnemonic, result, sources, function, generation]

with types by blanks. `vcc` among the results is a bit for each lane, among the sources one that the
instruction gets; it is VCC in short encodings and any pair of scalar registers in long ones, but
`=vcc` is always VCC. `=f32` is the result's register, `#f32` a constant of the instruction, and
`@f32` a source that is the same as the first one. `function` is of `integers` or `floats`. The
generation ("gfx8", "gfx9") is there where a mnemonic means something else in another one.

A row of VOPC is [type, functions, comparisons], one of a scalar format

    [mnemonic, result, sources, function, rule of SCC]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from simgen.errors import DamagedError
from simgen.ground.storage import schema
from simgen.ground.storage.files import read_regular
from simgen.isa.lint import naming
from simgen_examine import HERE

FILE = "instructions.json"
MAX_NBYTES = 2**20
VECTOR = ("VOP1", "VOP2", "VOP3", "VOP3P")
SCALAR = ("SOP2", "SOP1", "SOPC", "SOPK")
SCALAR_MEMORY = "SMEM"
SEQUENCE = "several of VOP3"  # for one result, of which the last one is named
SWITCH = "SOPK of MODE"  # what changes how others compute, and is told by the next one


@dataclass(frozen=True)
class Described:
    """A row of the description."""

    name: str
    format: str
    results: tuple[str, ...]
    sources: tuple[str, ...]
    function: str
    scc: str = ""  # rule of SCC, of a scalar instruction

    @property
    def types(self) -> tuple[str, ...]:
        """Types of the sources, without the marks of how the instruction gets them."""
        return tuple(each.lstrip("=#@") for each in self.sources if "vcc" not in each)


@cache
def generation(arch: str) -> str:
    """ "gfx8" or "gfx9": where a mnemonic can mean two things."""
    return arch[:4]


def manual(arch: str) -> str:
    """The vendor's document that has the instructions of an architecture."""
    told = _file()["sources"]
    return str(told.get(arch, told[generation(arch)]))


@cache
def words(arch: str) -> frozenset[str]:
    """The mnemonics of an architecture, with the endings of encodings."""
    return frozenset(
        line.split()[0]
        for of in naming.encodings(arch).values()
        for lines in of.values()
        for line in lines
    )


def instructions(arch: str) -> Iterator[Described]:
    """Instructions of an architecture.

    Raises:
        DamagedError: the file is missing or not what it should be.
    """
    told, known = _file(), words(arch)
    for format_ in VECTOR:
        for name, results, sources, function, *only in told[format_]:
            if only in ([], [generation(arch)]) and {name, f"{name}_e32", f"{name}_e64"} & known:
                yield Described(
                    name, format_, tuple(results.split()), tuple(sources.split()), function
                )
    for type_, function, comparisons in told["VOPC"]:
        for each in comparisons.split():
            for word in ("cmp", "cmpx"):
                name = f"v_{word}_{each}_{type_}"
                results = ("vcc",) if word == "cmp" else ("vcc", "exec")
                yield Described(name, "VOPC", results, (type_, type_), f"{function}_{each}")
    for type_ in ("f16", "f32", "f64"):
        mask = "u16" if type_ == "f16" else "u32"
        yield Described(f"v_cmp_class_{type_}", "VOPC", ("vcc",), (type_, mask), "fclass")
    for format_ in SCALAR:
        for name, results, sources, function, scc in told[format_]:
            if name in known:
                yield Described(
                    name, format_, tuple(results.split()), tuple(sources.split()), function, scc
                )


@cache
def _file() -> Any:
    path = HERE / "data" / FILE
    try:
        return schema.parse(read_regular(path, MAX_NBYTES))
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path}: damaged ({error}); install simgen again") from None
