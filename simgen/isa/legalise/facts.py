"""What each version of a simulator does with each instruction by its sources: files of data/lint.

One file for each version, `SIMULATOR-VERSION.json`, made by benchmarks/lint/gem5_tables.py from the
simulator's sources:

    source          what the facts were read from
    tables          of each model of an instruction set that the version has:
        architectures   that it is the model of
        ends            mnemonics at which the simulation ends
        no_form         mnemonics of SDWA and DPP forms whose controls it does not read
        no_scalar       mnemonics whose first source may be no scalar register or constant
        cuts            whether it cuts what a lane moves across two lines at an element, not a
                        byte: two words are one, and each of three or four
        cuts_words      whether it takes the wrong part of three and four words, too
        half_mirror     whether the DPP control row_half_mirror does not end the simulation
        mirror, moves   whether the DPP control row_mirror is right; and any other one
        parts           whether SDWA forms can write to a part of a register but the lowest
        keeps           whether SDWA forms can leave the rest of a register as it was
        literals        whether a constant of 32 bits may stand for 64
        infinities      whether v_cvt_f32_f16 keeps the sign of an infinity
        vcc_hi          whether the upper half of VCC can be an operand
        soffset         whether the scalar offset of a buffer may be a constant
        offsets         whether global_* with a scalar base reads one register for its offset
        ignores         abs, neg, clamp, omod -> mnemonics (VOP3) that do not read it; cbsz, blgp
                        of products of matrices; negative: of scalar loads, of constants of 16 bits
                        (SOPK) and of global_*, the constant's sign; base: of global_*, the upper
                        half of the scalar base
        wrong, edges    mnemonic -> what is wrong for most, or for a few special, values
        notes           mnemonic -> the same of what nearly all kernels have, for values that hardly
                        any has
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from simgen.ask.checks import LintChoices, SimulatorChoice
from simgen.errors import DamagedError, UsageError, did_you_mean
from simgen.ground import resources
from simgen.ground.storage import schema
from simgen.ground.storage.files import read_regular
from simgen.isa.legalise import simulators

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.isa.legalise.simulators import Model

FOLDER = "lint"
GEM5 = "gem5"  # name of the simulator whose sources they are
MGPUSIM = "mgpusim"
MAX_NBYTES = 2**24  # size limit of a file


@dataclass(frozen=True)
class Table:
    """What a version's model of an instruction set does."""

    architectures: tuple[str, ...]
    ends: tuple[str, ...] = ()
    no_form: tuple[str, ...] = ()
    no_scalar: tuple[str, ...] = ()
    half_mirror: bool = True
    mirror: bool = True
    moves: bool = True
    parts: bool = True
    keeps: bool = True
    literals: bool = True
    infinities: bool = True
    vcc_hi: bool = True
    soffset: bool = True
    offsets: bool = True
    cuts: bool = False
    cuts_words: bool = False
    ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)
    edges: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Tables:
    """A version of a simulator: one file of data/lint."""

    simulator: str
    version: str
    source: str
    tables: tuple[Table, ...]


@cache
def versions(simulator: str) -> tuple[str, ...]:
    """Versions whose sources were read, oldest first."""
    made = {path.stem.partition("-")[2] for path in _folder().glob(f"{simulator}-*.json")}
    order = sorted(made, key=lambda each: [int(part) for part in each.split(".") if part.isdigit()])
    return tuple(order)


def named(spec: str) -> tuple[str, str]:
    """(simulator, version) of SIMULATOR@VERSION; without a version, the newest whose sources were
    read.

    Raises:
        UsageError: there is no such simulator or version, or nobody has read its sources.
    """
    simulator, _, version = spec.partition("@")
    if simulator not in simulators.simulators():
        cure = did_you_mean(simulator, simulators.simulators())
        raise UsageError(f"{SimulatorChoice.simulator} {spec}: no such simulator; {cure}")
    known = versions(simulator) or tuple(simulators.versions(simulator))
    version = version or known[-1]
    short = ".".join(version.removeprefix("v").split(".")[: 3 if simulator == "mgpusim" else 2])
    if short in known:
        return simulator, short
    if version in simulators.versions(simulator):
        raise UsageError(
            f"{SimulatorChoice.simulator} {spec}: what this version lacks is not known: nobody has "
            f"read its sources; take {simulator}@{known[-1]}"
        )
    fact = f"{SimulatorChoice.simulator} {spec}: no such version"
    raise UsageError(f"{fact}; {did_you_mean(version, known)}")


@cache
def of_version(simulator: str, version: str) -> Tables:
    """The file of a version.

    Raises:
        DamagedError: it is not what it should be.
    """
    path = _folder() / f"{simulator}-{version}.json"
    try:
        return schema.from_json(Tables, schema.parse(read_regular(path, MAX_NBYTES)))
    except (OSError, ValueError) as error:
        fact = getattr(error, "strerror", None) or error
        raise DamagedError(f"{path}: damaged ({fact}); install simgen again") from None


def own(path: Path) -> Tables:
    """A user's table, as `simgen conform -o` writes it.

    Raises:
        UsageError: it cannot be read.
        DamagedError: it is not what it should be.
    """
    cure = "take lint.json of `simgen conform -o`"
    try:
        return schema.from_json(Tables, schema.parse(read_regular(path, MAX_NBYTES)))
    except OSError as error:
        raise UsageError(f"{LintChoices.table} {path}: {error.strerror or error}; {cure}") from None
    except ValueError as error:
        raise DamagedError(f"{path}: no table of lint ({error}); {cure}") from None


def table_of(model: Model) -> Table | None:
    """What a model of gem5's does; None of others, and where nobody has read the sources."""
    if model.simulator != GEM5 or model.version not in versions(GEM5):
        return None
    return table(*model)


def table(simulator: str, version: str, arch: str) -> Table | None:
    """What a version does with an architecture; None if it does not simulate that."""
    tables = of_version(simulator, version).tables
    return next((each for each in tables if arch in each.architectures), None)


def later(word: str, version: str, arch: str) -> str:
    """ " (24.0 has it)", of the first version after one of gem5 that executes an instruction."""
    known = versions(GEM5)
    for each in known[known.index(version) + 1 :] if version in known else ():
        of = table(GEM5, each, arch)
        if of and word not in of.ends and word not in of.wrong:
            return f" ({each} has it)"
    return ""


def files() -> list[Path]:
    """All of data/lint, in order."""
    return sorted(_folder().glob("*.json"))


def _folder() -> Path:
    return resources.folder("data") / FOLDER
