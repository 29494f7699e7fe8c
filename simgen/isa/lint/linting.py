"""What a simulator makes of code objects: findings, with the place of each."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.errors import SimgenError, UsageError
from simgen.isa import code_object, legalise
from simgen.isa.legalise import facts, simulators
from simgen.isa.legalise.simulators import Model
from simgen.isa.lint import containers, functions, mgpusim, naming
from simgen.isa.lint.gem5 import Gem5
from simgen.isa.lint.verdicts import ENDS, NOTE, REFUSED, Judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from simgen.isa.legalise.facts import Tables
    from simgen.isa.lint.containers import Held

NOT_LOADED = "lies in a section that is not loaded, and calls of it go anywhere"
INTO_TEXT = "put it into .text"


@dataclass(frozen=True)
class Finding:
    """What a simulator makes of an instruction, or of what a descriptor asks for."""

    path: Path
    inside: str  # the container's name of the code object; empty if the file is one
    arch: str
    kernel: str
    address: int  # in the code object
    instruction: str
    verdict: str
    reason: str
    cure: str
    line: str = ""  # FILE:LINE of the source, where the code object has line tables

    @property
    def refused(self) -> bool:
        return self.verdict in REFUSED


@dataclass(frozen=True)
class Note:
    """What a simulator makes of instructions that nearly all kernels have, for values that hardly
    any has."""

    reason: str
    mnemonics: tuple[str, ...]
    times: int


@dataclass(frozen=True)
class Looked:
    """What was found in a code object."""

    held: Held  # without its code: a library has gigabytes of it
    arch: str
    kernels: int
    instructions: int
    findings: tuple[Finding, ...]
    notes: tuple[Note, ...] = ()
    skipped: str = ""  # why nobody looked: the simulator does not have the processor


@dataclass(frozen=True)
class Unread:
    """A file that could not be looked at, beside others that were."""

    path: Path
    error: SimgenError


def of_files(
    paths: Sequence[Path], arch: str, simulator: str, version: str, own: Tables | None = None
) -> tuple[list[Looked], list[Unread]]:
    """What a version of a simulator makes of the code in files and folders, and which of the files
    could not be read. `arch` as in `containers.code_objects`; `own`: a user's table.

    Raises:
        SimgenError, OSError: as `containers.code_objects`, where the only file is the one.
    """
    looked, unread = list[Looked](), list[Unread]()
    alone = len(paths) == 1 and not paths[0].is_dir()

    def refused(path: Path, error: OSError) -> None:
        fact = f"{path}: {error.strerror or error}; check the path and its permissions"
        unread.append(Unread(path, UsageError(fact)))

    for path in paths:
        folder = path.is_dir()
        listed = containers.files(path, lambda e: refused(Path(e.filename), e))
        for each in listed if folder else (path,):
            held = (
                containers.in_folder(each, arch) if folder else containers.code_objects(each, arch)
            )
            try:
                looked += code_objects(held, simulator, version, own)
            except SimgenError as error:
                if alone:
                    raise
                unread.append(Unread(each, error))
            except OSError as error:
                if alone:
                    raise
                refused(each, error)
    return looked, unread


def code_objects(
    held: Iterable[Held], simulator: str, version: str, own: Tables | None = None
) -> Iterator[Looked]:
    """What a version of a simulator makes of each code object.

    Raises:
        DamagedError: one is not a whole ELF file.
    """
    for each in held:
        yield _code_object(each, simulator, version, own)


def _code_object(held: Held, simulator: str, version: str, own: Tables | None) -> Looked:
    arch = functions.processor(held.code, held.place)
    judge = judge_of(Model(simulator, version, arch), own, contracted=held.contracted)
    told = replace(held, code=b"")
    if isinstance(judge, str):
        return Looked(told, arch, 0, 0, (), (), judge)
    _, found, lines = functions.functions_of(held.code, held.place)
    made = [
        Finding(held.path, held.inside, arch, name, 0, "its code", ENDS, NOT_LOADED, INTO_TEXT)
        for name in functions.not_loaded(held.code, held.place)
    ]
    count, kernels = 0, 0
    noted: dict[str, Counter[str]] = {}
    for function in found:
        kernels += function.is_kernel
        descriptor = function.descriptor
        if asked := code_object.demand(descriptor, simulator) if descriptor else None:
            made.append(
                Finding(held.path, held.inside, arch, function.name, function.address,
                        asked.directive, ENDS, f"the kernel {asked.fact}", asked.cure)
            )  # fmt: skip
        items = naming.decoded(function.code)
        count += len(items)
        for item, judged in judge(items):
            if judged[0] == NOTE:
                noted.setdefault(judged[1], Counter())[naming.name(item, arch)] += 1
                continue
            at = function.address + item.offset
            made.append(
                Finding(held.path, held.inside, arch, function.name, at, naming.written(item, arch),
                        *judged, line=lines.at(at, function.section))
            )  # fmt: skip
    return Looked(told, arch, kernels, count, tuple(made), _notes(noted))


def notes_of(looked: Iterable[Looked]) -> tuple[Note, ...]:
    """What is noted of any of several code objects, once."""
    noted: dict[str, Counter[str]] = {}
    for each in looked:
        for note in each.notes:
            noted.setdefault(note.reason, Counter()).update(dict.fromkeys(note.mnemonics, 0))
            noted[note.reason][note.mnemonics[0]] += note.times
    return _notes(noted)


def _notes(noted: dict[str, Counter[str]]) -> tuple[Note, ...]:
    return tuple(Note(reason, tuple(sorted(of)), of.total()) for reason, of in noted.items())


def simulated(held: Held, simulator: str, version: str) -> bool:
    """Whether a version simulates the processor of a code object."""
    arch = functions.processor(held.code, held.place)
    return not isinstance(judge_of(Model(simulator, version, arch)), str)


@cache
def identity() -> str:
    """A digest of the rules and tables that findings rest on."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    rules = Path(legalise.__file__).parent.glob("*.py")
    asked = Path(code_object.__file__)
    for path in sorted([*here.glob("*.py"), asked, *rules, *facts.files()]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def judge_of(model: Model, own: Tables | None = None, *, contracted: bool = False) -> Judge | str:
    """The judge of instructions for a model; or why no code of that architecture runs there.

    `contracted`: products and sums of the source may have become one instruction.
    """
    if own:
        seen = next((each for each in own.tables if model.arch in each.architectures), None)
        if seen is None:
            return f"the table has nothing of {model.arch}"
        return Gem5(model, seen, ()).judged
    if model.simulator == "mgpusim":
        known = simulators.versions(model.simulator)[model.version].architectures
        if model.arch not in known:
            return f"MGPUSim {model.version} does not simulate {model.arch}"
        return partial(mgpusim.judged, model, contracted=contracted)
    table = facts.table(model.simulator, model.version, model.arch)
    if table is None:
        return f"{model.simulator} {model.version} does not simulate {model.arch}"
    of_version = simulators.versions(model.simulator).get(model.version)
    known = of_version.architectures if of_version else {}
    return Gem5(model, table, known[model.arch].rewritings if model.arch in known else ()).judged
