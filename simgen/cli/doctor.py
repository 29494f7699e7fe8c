"""What this machine has, and what it lacks."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import dataclass

from simgen.errors import MissingError, one_line
from simgen.ground.version import version
from simgen.isa import toolchain
from simgen.kernels import cache
from simgen.targets import TARGETS

DISTRIBUTION = "gpu-simgen"
COMPILER = "compiler"
TARGET = "target "


@dataclass(frozen=True)
class Check:
    what: str
    ok: bool
    fact: str
    cure: str = ""


def check() -> list[Check]:
    """The interpreter, the compiler, the cache, and each target."""
    checks = [
        Check("python", True, platform.python_version()),
        _distribution(),
        _compiler(),
        _cache(),
    ]
    for name, target in TARGETS.items():
        if target.example:  # can run everywhere, and is of no use
            continue
        lacks = target().needs.missing()
        fact = " | ".join(lack.fact for lack in lacks) or target.summary
        cure = " | ".join(lack.cure for lack in lacks)
        checks.append(Check(f"{TARGET}{name}", not lacks, fact, cure))
    return checks


def usable(checks: list[Check]) -> bool:
    """Whether something can be built and run."""
    compiler = any(c.ok for c in checks if c.what == COMPILER)
    return compiler and any(c.ok for c in checks if c.what.startswith(TARGET))


def _distribution() -> Check:
    """On package indexes `simgen` is another project, whose files would lie among ours."""
    owners = set(importlib.metadata.packages_distributions().get("simgen", ()))
    others = sorted(owners - {DISTRIBUTION})
    if not others:
        return Check("simgen", True, f"{version()}, {DISTRIBUTION}")
    fact = f"the distribution {', '.join(others)} has a package of the same name"
    cure = f"python -m pip uninstall {' '.join(others)}, then install {DISTRIBUTION} again"
    return Check("simgen", False, fact, cure)


def _compiler() -> Check:
    try:
        toolchain.check()
        found = toolchain.identity()
    except MissingError as error:
        fact, _, cure = str(error).partition("; ")
        return Check(COMPILER, False, fact.removeprefix("compiler: "), cure)
    wanted = f"ziglang {toolchain.PINNED}"
    if found == wanted:
        return Check(COMPILER, True, found)
    how = f"unset {toolchain.OTHER}" if toolchain.OTHER in os.environ else toolchain.CURE
    cure = f"{how}; the precomputed kernels are for that version"
    return Check(COMPILER, True, f"{found}, not {wanted}", cure)


def _cache() -> Check:
    root = cache.user_root()
    at = root.absolute()
    while not os.path.lexists(at):  # in a folder that may not be looked into, nothing exists
        at = at.parent
    if at.is_dir() and os.access(at, os.W_OK | os.X_OK):
        return Check("kernel cache", True, one_line(str(root)))
    fact = f"{one_line(str(root))} cannot be written"
    return Check("kernel cache", False, fact, "set SIMGEN_CACHE_DIR to a folder of yours")
