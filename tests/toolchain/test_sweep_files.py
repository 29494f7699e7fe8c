"""Sweeps of a file on this machine: all that they leave, what goes on, and a disk that is full."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys

import pytest
from loaded import program

from simgen.reports.pages import store
from simgen.targets.host import Host

pytest.importorskip("snakemake", reason="extra `cluster` is not installed")
pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)
SPEC = """
workloads = ["softmax_fwd"]
targets = ["host"]
[build]
c = 40
"""


def swept(folder, *words):
    (folder / "s.toml").write_text(SPEC)
    return subprocess.run(
        [program(), "sweep", "s.toml", *words],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_sweep_is_built_run_judged_and_reported_and_goes_on_with_what_is_gone(tmp_path):
    first = swept(tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    (point,) = store.read_points(tmp_path / "s" / store.FILE).points
    assert (point.bundle, point.result, point.verdict) == ("softmax_fwd", "host", "same")
    with (tmp_path / "s/report/points.csv").open() as file:
        assert [float(line["speed_up"]) for line in csv.DictReader(file)] == [1.0]

    def snakemake(*words):
        """The program alone, as the page says."""
        words = [sys.executable, "-m", "snakemake", *words]
        return subprocess.run(words, cwd=tmp_path / "s", check=True, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout  # fmt: skip

    bundle = tmp_path / "s/bundles/softmax_fwd"
    before = (bundle / "workload.json").stat().st_mtime_ns
    shutil.rmtree(bundle / "results/host")
    snakemake("--lint")  # ends with 1 where it finds something
    ended = snakemake()
    assert "Nothing to be done" not in ended
    assert (bundle / "results/host/complete").exists()
    assert (bundle / "workload.json").stat().st_mtime_ns == before  # was not built again


def test_a_full_disk_is_told_in_one_line(tmp_path):
    small = tmp_path / "s"
    small.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(small)]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        profile = tmp_path / "profile/config.yaml"
        profile.parent.mkdir()
        profile.write_text("retries: 0\ncores: 2\n")
        ended = swept(tmp_path, "-q", "--profile", "profile")
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
    assert ended.returncode == 3
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "the disk is full; free some space, and the same command goes on" in ended.stderr
