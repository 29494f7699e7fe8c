"""The committed set `cachefiles/` builds every built-in workload without a compiler."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from loaded import program

from simgen.cli import precompute
from simgen.kernels import cache
from simgen.kernels.build import Builder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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
names = sys.argv[3:] or precompute.names()
precompute.names = lambda: names
try:
    asked = precompute.build_all(Builder(store))
except MissingError as error:
    sys.exit(f"missing: {error}")
print(json.dumps({"asked": sorted(asked), "outcomes": [o.name for o in store.outcomes]}))
"""


FEW = ("softmax_fwd", "add_fwd")  # what is so of two workloads is so of all


def build_all(own: Path, shared: Path, *names: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER, str(own), str(shared), *names],
        capture_output=True,
        text=True,
        timeout=600,
    )


def compiled_now(compiled: Path) -> dict[str, bytes]:
    """Digest -> entry, of what `simgen cache pack` makes now; this run may have compiled it."""
    used = precompute.build_all(Builder(cache.Cache(compiled)))
    return {digest: cache.entry(compiled, digest).read()[1] for digest in used}


def blobs(root: Path) -> dict[str, bytes]:
    found = {}
    for entry in cache.entries(root):
        state, blob = entry.read()
        assert state is cache.State.GOOD, entry.path
        found[entry.digest] = blob
    return found


def test_the_committed_set_is_not_stale(builder: Builder) -> None:
    there, now = blobs(cache.precomputed_root()), compiled_now(builder.cache.own)
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


def test_a_set_is_packed_again_and_one_that_lacks_an_entry_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precompute, "names", lambda: FEW)
    packed = tmp_path / "packed"
    used = precompute.pack(packed)
    before = blobs(packed)
    assert used == before.keys()
    assert len(used) >= 2 * len(FEW)
    cache.entry(packed, "ab" * 32).write("[label 3]\nold\n", b"old")
    assert len(blobs(packed)) == len(before) + 1
    assert precompute.pack(packed) == used
    assert blobs(packed) == before
    assert build_all(tmp_path / "own", packed, *FEW).returncode == 0
    shutil.rmtree(next(cache.entries(packed)).path)
    done = build_all(tmp_path / "another", packed, *FEW)
    assert done.returncode == 1
    assert done.stderr.startswith("missing: compiler: ")


def test_what_inputs_have_in_common_is_there_once_and_the_whole_is_what_was_hashed() -> None:
    root = cache.precomputed_root()
    texts = {path.name: path.read_text() for path in (root / precompute.TEXTS).iterdir()}
    used = [
        name for path in root.glob("??/*/inputs.txt") for name in texts if name in path.read_text()
    ]
    assert {name for name in texts if used.count(name) > 1} == texts.keys()
    for entry in cache.entries(root):
        text = precompute.inputs(root, entry)
        assert hashlib.sha256(text.encode()).hexdigest() == entry.digest
        assert entry.label in text
    paths = root.glob("??/*/inputs.txt")
    assert not [path for path in paths if "SIMGEN_INDEX(" in path.read_text()]


def test_cache_verify_finds_the_committed_set_good(tmp_path: Path) -> None:
    done = subprocess.run(
        [program(), "cache", "verify"],
        env={**os.environ, "SIMGEN_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    count = len(list(cache.entries(cache.precomputed_root())))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{count} entr")
    assert done.stdout.endswith("all good\n")
