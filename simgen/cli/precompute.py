"""The precomputed set: compiled kernels and programs of the built-in workloads for gem5-se, and
the launcher of all programs for the host.

With it, building them needs no compiler. It is stale when it lacks an entry that a build asks for
(a template, a flag or the compiler changed); a test builds all of them without a compiler.

Inputs of its entries have much in common, the prelude of all kernels for one. Such a text lies in
`texts/` once, by its digest, and a line `@texts/DIGEST` of `inputs.txt` stands for it.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import shutil
from collections import defaultdict
from typing import TYPE_CHECKING

from simgen.bundle.writing import workload_text
from simgen.frontend import network, problem
from simgen.ground.machine import named
from simgen.ground.storage.files import write_atomic
from simgen.kernels import cache, render
from simgen.kernels.build import Builder
from simgen.targets import host
from simgen.targets.base import Job
from simgen.targets.gem5.se import Gem5Se
from simgen.tensors import data_file
from simgen.workload import lowering as workloads

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.ground.ir import Workload


NETWORKS = ("classifier", "lenet5")
TEXTS = "texts"
LEAST = 400  # characters of a text that is worth a file of its own
_SHARED = re.compile(rf"^@{TEXTS}/([0-9a-f]{{16}})\n", re.MULTILINE)


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
    _share(root)
    return used


def inputs(root: Path, entry: cache.CacheEntry) -> str:
    """Everything that was hashed for an entry of the set."""
    text = (entry.path / "inputs.txt").read_text()
    return _SHARED.sub(lambda found: (root / TEXTS / found[1]).read_text(), text)


def _share(root: Path) -> None:
    """Keep once what the inputs of several entries have in common: paragraphs in a row that the
    same entries have. The first one, which holds the label, stays where it is."""
    whole = {entry.path / "inputs.txt": inputs(root, entry) for entry in cache.entries(root)}
    cut = {path: re.split(r"(?<=\n)(?=\n)", text) for path, text in whole.items()}
    having: dict[str, set[Path]] = defaultdict(set)
    for path, (_, *paragraphs) in cut.items():
        for each in paragraphs:
            having[each].add(path)
    texts, shared = {}, {}
    for path, (made, *paragraphs) in cut.items():
        for paths, group in itertools.groupby(paragraphs, having.__getitem__):
            text = "".join(group)
            if len(paths) > 1 and len(text) >= LEAST and text.endswith("\n"):
                digest = hashlib.sha256(text.encode()).hexdigest()[:16]
                texts[digest], text = text, f"@{TEXTS}/{digest}\n"
            made += text
        shared[path] = made
    folder = root / TEXTS
    folder.mkdir(exist_ok=True)
    written = {folder / digest: text for digest, text in texts.items()} | shared
    for path, text in written.items():  # what a line stands for is there before it
        if not path.exists() or path.read_text() != text:
            write_atomic(path, text.encode())
    for each in folder.iterdir():
        if each.name not in texts:
            each.unlink()


def names() -> list[str]:
    """Every layer by itself, and the small networks: the others have hundreds of kernels."""
    large = set(problem.networks()) - set(NETWORKS)
    return [name for name in problem.built_in() if name not in large]


def build_all(builder: Builder) -> set[str]:
    """Build the workloads of `names` for gem5-se, and the host's launcher; returns the digests of
    what was asked for."""
    host.launcher(builder)
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
