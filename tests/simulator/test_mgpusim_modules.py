"""Where the runner's Go modules come from: a proxy, a filled cache, a vendor folder, or nowhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

import simgen
from simgen.targets.mgpusim.needs import runner_place
from simgen.targets.mgpusim.target import MGPUSim

if TYPE_CHECKING:
    from pathlib import Path

lacks = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))

TIMEOUT = 900.0  # seconds; a build with nothing in Go's cache takes minutes
SIZES = {"n": 2, "c": 3, "h": 1, "w": 1}


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle, and no simulator built yet; what Go compiled before is in Go's own cache."""
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path / "cache"))
    return simgen.plan("softmax_fwd", set=SIZES).build(tmp_path / "b", "mgpusim").path


def script(bundle: Path, **environment: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(bundle / "mgpusim" / "run.sh")],
        env={**os.environ, **{k: str(v) for k, v in environment.items()}},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def error(done: subprocess.CompletedProcess[str]) -> str:
    (line,) = re.findall("^simgen: error: mgpusim: (.*)$", done.stderr, re.MULTILINE)
    return str(line)


@pytest.mark.parametrize(
    ("proxy", "why"), [("off", "GOPROXY=off"), ("http://127.0.0.1:9", "connection refused")]
)
def test_modules_that_cannot_be_fetched_are_one_line(
    bundle: Path, tmp_path: Path, proxy: str, why: str
) -> None:
    done = script(bundle, GOMODCACHE=tmp_path / "modules", GOPROXY=proxy, GOFLAGS="-modcacherw")
    assert done.returncode == 3
    said = error(done)
    assert said.startswith("Go cannot fetch the modules of MGPUSim (")
    assert why in said
    assert "; allow proxy.golang.org, or set GOPROXY or GOMODCACHE" in said
    assert not list((tmp_path / "cache").rglob("runner"))


def test_a_filled_module_cache_needs_no_proxy(bundle: Path, tmp_path: Path) -> None:
    done = script(bundle, GOPROXY="off")
    if "Go cannot fetch" in done.stderr:  # no test before this one has filled it
        assert script(bundle, SIMGEN_CACHE_DIR=tmp_path / "first").returncode == 0
        done = script(bundle, GOPROXY="off")
    assert done.returncode == 0, done.stderr
    assert (bundle / "results/mgpusim/complete").exists()
    assert list(runner_place(bundle / "mgpusim/runner").glob("*/runner"))


def test_a_vendor_folder_that_does_not_fit_is_told(bundle: Path) -> None:
    folder = bundle / "mgpusim" / "runner" / "vendor"
    folder.mkdir()
    (folder / "modules.txt").write_text("# example.org/other v1.0.0\n")
    done = script(bundle, GOFLAGS="-mod=vendor")
    assert done.returncode == 3
    assert error(done).endswith("make it in the bundle's folder mgpusim/runner with: go mod vendor")


def test_a_build_that_was_killed_is_not_taken_for_a_simulator(bundle: Path) -> None:
    place = runner_place(bundle / "mgpusim/runner")
    process = subprocess.Popen(
        ["sh", str(bundle / "mgpusim" / "run.sh")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while not list(place.glob("*/.part-*/*")):
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGKILL)  # Go and what it started, too
    process.wait(timeout=60)
    assert [path.name[:6] for path in place.glob("*/*")] == [".part-"]
    done = script(bundle)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in place.glob("*/*")} == {"runner", "runner.sha256"}
