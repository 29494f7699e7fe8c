"""The same bytes from any checkout, and a cache that parallel and killed builds cannot spoil."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simgen.kernels import cache

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
BUILD = ("build", "softmax_fwd", "--target", "gem5-se", "--target", "host", "-q")
START = "import sys; from simgen.cli.main import main; sys.argv[0] = 'simgen'; main()"


def checkout(to: Path) -> Path:
    """A copy of what simgen is, without the precomputed set."""
    for name in ("simgen", "templates", "data"):
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    return to


def environment(source: Path, own: Path, **more: str) -> dict[str, str]:
    """Variables for a simgen that is imported from `source`; its files go below `own`."""
    folders = {name: own / name for name in ("cache", "home", "tmp")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    return {
        "PATH": os.defpath,
        "PYTHONPATH": str(source),
        "PYTHONPYCACHEPREFIX": str(source.parent / "bytecode"),  # not in the checkout
        "SIMGEN_CACHE_DIR": str(folders["cache"]),
        "HOME": str(folders["home"]),
        "TMPDIR": str(folders["tmp"]),
        **more,
    }


def start(env: Mapping[str, str], out: Path) -> subprocess.Popen[str]:
    """A build into `out`, in a process group of its own."""
    out.parent.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-c", START, *BUILD, "-o", str(out)],
        env=dict(env),
        cwd=out.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def build(env: Mapping[str, str], out: Path) -> None:
    process = start(env, out)
    _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")


def contents(bundle: Path) -> dict[str, str]:
    """Relative path -> SHA-256 of each file."""
    return {
        str(path.relative_to(bundle)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(bundle.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def entries(root: Path) -> dict[str, tuple[cache.State, bytes]]:
    return {entry.digest: entry.read() for entry in cache.entries(root)}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, str]]:
    """(checkout, bundle, environment) of one undisturbed build."""
    own = tmp_path_factory.mktemp("built")
    source = checkout(own / "checkout")
    env = environment(source, own)
    build(env, own / "bundle")
    return source, own / "bundle", env


def test_two_checkouts_give_the_same_bytes(
    tmp_path: Path, built: tuple[Path, Path, dict[str, str]]
) -> None:
    _, bundle, env = built
    poison = tmp_path / "include"
    poison.mkdir()
    for name in ("prelude.h", "stdint.h", "system.h", "plan.h"):
        (poison / name).write_text('#error "the caller\'s environment reached the compiler"\n')
    source = checkout(tmp_path / "a much longer path" / "with blanks")
    variables = {
        name: str(poison)
        for name in ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "HIP_PATH", "ROCM_PATH")
    }
    other = environment(
        source, tmp_path / "own", **variables,
        CCC_OVERRIDE_OPTIONS="+-DPOISON", SOURCE_DATE_EPOCH="1", LANG="de_DE.UTF-8",
        TZ="Asia/Tokyo",
    )  # fmt: skip
    build(other, tmp_path / "elsewhere" / "b")

    assert contents(tmp_path / "elsewhere" / "b") == contents(bundle)
    manifests = [
        json.loads((path / "manifest.json").read_text())
        for path in (bundle, tmp_path / "elsewhere" / "b")
    ]
    assert manifests[0]["files"] == manifests[1]["files"]
    here, there = (entries(Path(e["SIMGEN_CACHE_DIR"])) for e in (env, other))
    assert here == there
    assert len(here) >= 3  # a code object and two programs


def test_no_path_of_this_machine_gets_into_the_output(
    built: tuple[Path, Path, dict[str, str]],
) -> None:
    source, bundle, env = built
    for path in bundle.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            for place in (str(source), str(ROOT), env["HOME"], env["TMPDIR"]):
                assert place.encode() not in content, path


def test_four_builds_at_once_share_an_empty_cache(
    tmp_path: Path, built: tuple[Path, Path, dict[str, str]]
) -> None:
    source, bundle, env = built
    shared = environment(source, tmp_path)
    running = [start(shared, tmp_path / f"bundle{i}") for i in range(4)]
    for process in running:
        _, errors = process.communicate(timeout=300)
        assert (process.returncode, errors) == (0, "")
    for i in range(4):
        assert contents(tmp_path / f"bundle{i}") == contents(bundle)
    assert entries(tmp_path / "cache") == entries(Path(env["SIMGEN_CACHE_DIR"]))
    assert not unfinished(tmp_path / "cache")


def unfinished(root: Path) -> list[Path]:
    return list(root.rglob(".part-*"))


def kill_when(env: Mapping[str, str], out: Path, sign: str) -> bool:
    """SIGKILL a build and its compilers as soon as a path matches `sign`; False: it was over."""
    process = start(env, out)
    root = Path(env["TMPDIR"]).parent
    while process.poll() is None:
        if any(True for _ in root.glob(sign)):
            break
    was_running = process.poll() is None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return was_running


@pytest.mark.parametrize(
    "sign",
    [
        "tmp/simgen-*",  # a compiler starts
        "tmp/simgen-*/kernel.s",  # between two of its steps
        "tmp/simgen-*/main.o",
        "cache/??",  # an entry is being written
        "cache/??/*/inputs.txt",
        "cache/??/*/blob",
    ],
)
def test_a_killed_build_leaves_nothing_that_is_taken_for_good(
    tmp_path: Path, built: tuple[Path, Path, dict[str, str]], sign: str
) -> None:
    source, bundle, env = built
    for attempt in range(10):  # a step may pass unseen where all processors are busy
        own = tmp_path / str(attempt)
        mine = environment(source, own)
        if kill_when(mine, own / "bundle", sign):
            break
    else:
        pytest.fail(f"no build was running when {sign} was there")
    right = entries(Path(env["SIMGEN_CACHE_DIR"]))
    for digest, (state, blob) in entries(own / "cache").items():
        assert state is not cache.State.GOOD or (state, blob) == right[digest]
    shutil.rmtree(own / "tmp")
    (own / "tmp").mkdir()

    build(mine, own / "bundle")
    assert contents(own / "bundle") == contents(bundle)
    assert {d: s for d, (s, _) in entries(own / "cache").items()} == dict.fromkeys(
        right, cache.State.GOOD
    )
