"""The API with runs on this machine's CPU, and the example that uses it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import simgen
from simgen.bundle import results
from simgen.targets.host import Host

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)
ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 300.0


@pytest.fixture(autouse=True)
def _silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[None]:
    """Nothing is printed, by the programs that run either."""
    monkeypatch.chdir(tmp_path)
    yield
    assert capfd.readouterr() == ("", "")


def test_planned_built_run_compared_and_reported() -> None:
    told: list[tuple[str, int, int]] = []
    lines: list[str] = []

    def tell(what: str, done: int, total: int) -> None:
        told.append((what, done, total))

    plan = simgen.plan("classifier", set={"n": 8}, passes="fwd,bwd")
    bundle = plan.build("net", "host", progress=tell)
    assert {what for what, _, _ in told} == {"data"}, "one program, which is no list of kernels"
    told.clear()
    result = bundle.run(timeout=TIMEOUT, progress=tell, notice=lines.append)
    launches = len(plan.workload.launches)
    assert {what for what, _, _ in told} == {"checking data", "launches"}
    assert [each for each in told if each[0] == "launches"][-1] == ("launches", launches, launches)
    assert lines[0] == "running on host"
    assert (result.name, len(result.launches), bundle.ran) == ("host", launches, ["host"])
    kept = bundle.result("host").outputs
    assert all(np.array_equal(each.values, kept[n].values) for n, each in result.outputs.items())
    part = bundle.run("host", timeout=TIMEOUT, layers=[plan.workload.steps[0].layer])
    assert part.name == f"host@{plan.workload.steps[0].layer}"
    verdict = bundle.diff(strict=True)
    assert verdict, verdict.failure
    assert [(each.a, each.b) for each in verdict.reports] == [
        ("host", "reference"), (part.name, "reference"), ("host", part.name),
    ]  # fmt: skip
    report = simgen.report([bundle, simgen.plan("softmax_fwd").build("idle", "host")], "out")
    assert report.page.read_text().startswith("<!doctype html>")
    assert report.idle == ("idle",)
    assert {row.result for row in report.rows} == {"host", part.name}


def test_a_run_that_takes_too_long_is_an_exception() -> None:
    plan = simgen.plan("gemm_fwd", set={"m": 2048, "n": 2048, "k": 2048})
    bundle = plan.build("net", "host")
    with pytest.raises(simgen.errors.RunError, match=r"longer than 0\.01 s"):
        bundle.run("host", timeout=0.01)
    assert bundle.ran == []


def test_the_example_does_what_it_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples/first.py", "made"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    *lines, last = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["10", "100", "1000", "10000"]
    assert all(line.endswith("us; 1 result, 1 tensor: all right") for line in lines)
    assert last == "all of it: made/report/report.html"
    assert (tmp_path / "made/report/report.html").is_file()


@pytest.mark.parametrize("replaces", [False, True])
def test_what_has_ended_stays_when_its_reading_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaces: bool
) -> None:
    bundle = simgen.plan("softmax_fwd", set={"n": 2, "c": 3}).build(tmp_path / "b", "host")
    if replaces:
        bundle.run("host")
    old = tmp_path / "b/results/host"
    before = old.stat().st_ino if replaces else None

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(results, "save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bundle.run("host", replace=replaces)
    assert old.stat().st_ino != before
    assert [each.name for each in old.parent.iterdir() if each.is_dir()] == ["host"]
    assert simgen.load(tmp_path / "b").diff()
