"""The committed set `cachefiles/` builds every built-in workload without a compiler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from simgen.cli import precompute
from simgen.kernels import cache
from simgen.kernels.build import Builder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Python takes a module that is None in sys.modules for one that is not installed.
WITHOUT_COMPILER = """
import json, sys
sys.modules["ziglang"] = None
from pathlib import Path
from simgen.cli import precompute
from simgen.isa import toolchain
from simgen.kernels import cache
from simgen.kernels.build import Builder
from simgen.errors import MissingError
try:
    toolchain.zig()
except MissingError:
    pass
else:
    sys.exit("there is a compiler after all")
store = cache.Cache(Path(sys.argv[1]), (Path(sys.argv[2]),))
try:
    asked = precompute.build_all(Builder(store))
except MissingError as error:
    sys.exit(f"missing: {error}")
print(json.dumps({"asked": sorted(asked), "outcomes": [o.name for o in store.outcomes]}))
"""


def build_all(own: Path, shared: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER, str(own), str(shared)],
        capture_output=True,
        text=True,
        timeout=120,
    )


def pack(compiled: Path, root: Path) -> Path:
    used = precompute.build_all(Builder(cache.Cache(compiled)))
    for digest in used:
        there = cache.entry(compiled, digest).path
        shutil.copytree(there, root / there.relative_to(compiled))
    assert precompute.pack(root) == used
    return root


@pytest.fixture(scope="module")
def packed(once: Callable[..., Any], builder: Builder, of_all: Path) -> Path:
    """What `simgen cache pack` makes now, of what this run compiles; only read by its processes."""
    return once(pack, builder.cache.own, of_all / "packed")


def blobs(root: Path) -> dict[str, bytes]:
    found = {}
    for entry in cache.entries(root):
        state, blob = entry.read()
        assert state is cache.State.GOOD, entry.path
        found[entry.digest] = blob
    return found


def test_the_committed_set_is_not_stale(packed: Path) -> None:
    there, now = blobs(cache.precomputed_root()), blobs(packed)
    changed = [
        digest for digest in there.keys() | now.keys() if there.get(digest) != now.get(digest)
    ]
    assert not changed, "run: simgen cache pack"


def test_no_built_in_workload_needs_a_compiler(tmp_path: Path) -> None:
    done = build_all(tmp_path / "own", cache.precomputed_root())
    assert (done.returncode, done.stderr) == (0, ""), "run: simgen cache pack"
    found = json.loads(done.stdout)
    assert set(found["outcomes"]) == {cache.CacheOutcome.PRECOMPUTED.name}
    assert len(found["outcomes"]) >= 2 * len(precompute.names())  # a program and its code objects
    # What lint says of kernels is kept there too: without a compiler, and for no part of a bundle.
    left = [each.label for each in cache.entries(tmp_path / "own")]
    assert not [label for label in left if not label.startswith("lint ")]


def test_a_set_that_lacks_an_entry_is_found_out(tmp_path: Path, packed: Path) -> None:
    holed = tmp_path / "holed"
    shutil.copytree(packed, holed)
    shutil.rmtree(next(cache.entries(holed)).path)
    done = build_all(tmp_path / "own", holed)
    assert done.returncode == 1
    assert done.stderr.startswith("missing: compiler: ")


def test_packing_again_changes_nothing_and_drops_what_is_not_needed(
    tmp_path: Path, packed: Path
) -> None:
    again, before = tmp_path / "again", blobs(packed)
    shutil.copytree(packed, again)
    cache.entry(again, "ab" * 32).write("[label 3]\nold\n", b"old")
    assert len(blobs(again)) == len(before) + 1
    precompute.pack(again)
    assert blobs(again) == before


def test_cache_verify_finds_the_committed_set_good(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "simgen", "cache", "verify"],
        env={**os.environ, "SIMGEN_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    count = len(list(cache.entries(cache.precomputed_root())))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{count} entr")
    assert done.stdout.endswith("all good\n")
