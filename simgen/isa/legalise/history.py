"""What commits of gem5 say of its versions: data/history/gem5.json.

    instructions    of each defect: the instructions, the condition, what it does, the families of
                    architectures, the first version that is right (empty: none is) and its commit;
                    a `sample` that has it
    launches        the same of what concerns whole launches, and its cure
    run             version -> the day on which it was run here; others are known from sources alone

benchmarks/lint/gem5_candidates.py lists the commits of a checkout that may be rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from simgen.errors import DamagedError
from simgen.ground import resources
from simgen.ground.storage import schema
from simgen.ground.storage.files import read_regular
from simgen.isa.legalise import simulators

FOLDER, FILE = "history", "gem5.json"
MAX_NBYTES = 2**20
SCALAR_CACHE = "scalar_cache"  # the row for launches that kernels are compiled for
WRITE_BACK = ("write_back_loads", "write_back_l2")  # rows of --WB_L2: any kernel, and atomics


@dataclass(frozen=True)
class Defect:
    """What versions of gem5 do wrongly with instructions."""

    instructions: str
    does: str
    families: tuple[str, ...]  # gfx8, gfx9
    first_good: str  # version; empty: none
    commit: str
    condition: str = ""
    sample: str = ""


@dataclass(frozen=True)
class LaunchDefect:
    """What versions of gem5 do wrongly with launches."""

    name: str
    does: str
    families: tuple[str, ...]
    first_good: str
    commit: str
    cure: str


@dataclass(frozen=True)
class History:
    """The file."""

    instructions: tuple[Defect, ...]
    launches: tuple[LaunchDefect, ...]
    run: Mapping[str, str] = field(default_factory=dict)


@cache
def of_gem5() -> History:
    """The file.

    Raises:
        DamagedError: it is not what it should be.
    """
    path = resources.folder("data") / FOLDER / FILE
    try:
        return schema.from_json(History, schema.parse(read_regular(path, MAX_NBYTES)))
    except (OSError, ValueError) as error:
        fact = getattr(error, "strerror", None) or error
        raise DamagedError(f"{path}: damaged ({fact}); install simgen again") from None


def concerns(row: Defect | LaunchDefect, version: str, arch: str) -> bool:
    """Whether a version has a defect."""
    before = not row.first_good or simulators.age(version) < simulators.age(row.first_good)
    return before and arch.startswith(row.families)


def launches(version: str, arch: str) -> list[LaunchDefect]:
    """What a version does wrongly with launches."""
    return [row for row in of_gem5().launches if concerns(row, version, arch)]


def deadlock(version: str, arch: str, *, atomics: bool) -> LaunchDefect | None:
    """What makes kernels wait for good where the L2 cache writes back (--WB_L2)."""
    names = (WRITE_BACK[0], *(WRITE_BACK[1:] if atomics else ()))
    rows = launches(version, arch)
    return next((row for name in names for row in rows if row.name == name), None)


def keeps_scalars(model: simulators.Model) -> bool:
    """Whether a kernel may find in the cache of scalars what memory held before another one."""
    found = model.simulator == "gem5" and launches(model.version, model.arch)
    return any(row.name == SCALAR_CACHE for row in found or ())


def provenance(version: str) -> str:
    """How what is said of a version is known."""
    day = of_gem5().run.get(version)
    return f"run on {day}, and its sources" if day else "known from its sources alone"
