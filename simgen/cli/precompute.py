"""The precomputed set: compiled kernels and programs of the built-in workloads for gem5-se.

With it, building them needs no compiler. It is stale when it lacks an entry that a build asks for
(a template, a flag or the compiler changed); a test builds all of them without a compiler.
"""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

from simgen.bundle.writing import workload_text
from simgen.frontend import network, problem
from simgen.ground.machine import named
from simgen.kernels import cache, render
from simgen.kernels.build import Builder
from simgen.targets.base import Job
from simgen.targets.gem5.se import Gem5Se
from simgen.tensors import data_file
from simgen.workload import lowering as workloads

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.ground.ir import Workload


NETWORKS = ("classifier", "lenet5")


def pack(root: Path) -> set[str]:
    """Make `root` hold exactly what the built-in workloads need; returns the digests.

    Raises:
        OSError: it cannot be written.
    """
    store = cache.Cache(root)
    used = build_all(Builder(store))
    lost = [digest for digest in used if cache.entry(root, digest).read()[0] is cache.State.ABSENT]
    if lost and store.unwritten:  # to builds, a cache that cannot be written is only slower
        raise store.unwritten
    for entry in list(cache.entries(root)):
        if entry.digest not in used:
            shutil.rmtree(entry.path, ignore_errors=True)  # another one may do the same
    return used


def names() -> list[str]:
    """Every layer by itself, and the small networks: the others have hundreds of kernels."""
    large = set(problem.networks()) - set(NETWORKS)
    return [name for name in problem.built_in() if name not in large]


def build_all(builder: Builder) -> set[str]:
    """Build the workloads of `names` for gem5-se; returns the digests of what was asked for."""
    target = Gem5Se()
    for name in names():
        found = problem.find(name, (), None)
        resolved = network.resolve(found.config, machine=named(target.machine))
        planned = workloads.lower(resolved, found.name, found.passes, 0)
        job = Job(planned, render.kernels(planned), data_file.data_id(planned), _digest(planned))
        target.package.folder(job, builder)
    return set(builder.cache.asked)


def _digest(planned: Workload) -> str:
    return hashlib.sha256(workload_text(planned)).hexdigest()
