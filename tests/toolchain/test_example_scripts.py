"""The scripts of the page about Python run, and print what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import simgen
from simgen.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]


def run(name: str, *words: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name, *map(str, words)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        },
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_shapes_as_a_table_of_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    heads, _, *lines = run("shapes.py", tmp_path / "made")
    assert heads.split() == ["c", "10", "1000"]
    assert [line.split()[0] for line in lines] == ["16", "64"]


@pytest.mark.skipif(bool(TARGETS["mgpusim"]().needs.missing()), reason="MGPUSim cannot run here")
def test_two_machines(tmp_path: Path) -> None:
    *lines, last = run("machines.py", tmp_path / "made")
    assert [line.split()[0] for line in lines][:2] == ["conv1", "pool1"]
    assert last.startswith("all: ")
    assert last.endswith("from 8 to 64 units")


def test_an_own_kernel_earlier_results_and_a_figure(tmp_path: Path) -> None:
    first, second, last = run("own_kernel.py", tmp_path)
    assert first.startswith("0 reduce")
    assert second.startswith("1 reduce")
    assert last == "1 result, 1 tensor: all right"
    heads, result, step = run("yesterday.py", tmp_path / "reduce")
    assert heads == "reduce, 2 launches"
    assert result.endswith(f"by simgen {simgen.__version__}")
    assert step.split() == ["reduce", "fwd:", "100.0%"]
    (figures,) = run("plot.py", tmp_path / "reduce", tmp_path / "time.pdf")
    assert "Time of each layer" in figures
    assert (tmp_path / "time.pdf").read_bytes().startswith(b"%PDF")


def test_the_page_shows_them() -> None:
    page = (ROOT / "docs/reference/python.md").read_text()
    assert all(f"examples/{each.name}\n" in page for each in (ROOT / "examples").glob("*.py"))
