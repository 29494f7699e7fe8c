"""Runs as jobs of a real SLURM: what they leave, killed jobs, a drained node, hidden folders."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest
from by_jobs import as_run_here
from slurm_cluster import SlurmCluster, lacks

import simgen
from simgen.targets.host import Host
from simgen.targets.mgpusim.target import MGPUSim

if not find_spec("snakemake_executor_plugin_slurm"):  # importing it takes long
    pytest.skip("extra `cluster` is not installed", allow_module_level=True)
pytestmark = [
    pytest.mark.skipif(bool(lacks()), reason=lacks()),
    pytest.mark.skipif(bool(Host().needs.missing()), reason="there is no host target here"),
]
TARGET = "host" if MGPUSim().needs.missing() else "mgpusim"
PROFILE = "slurm-init-seconds-before-status-checks: 2\n"  # not 40: a test has no time for that
ENDS_WELL = "retries: 2\njobs: 2\n"


@pytest.fixture(scope="module", name="cluster")
def one_node(tmp_path_factory):
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@pytest.fixture(scope="module", name="bundle")
def softmax(tmp_path_factory):
    path = tmp_path_factory.mktemp("shared") / "softmax"
    return simgen.plan("softmax_fwd", set={"n": 4, "c": 70}).build(path, targets=[TARGET])


def started(cluster, bundle, profile):
    """`simgen run --executor slurm`, as it begins."""
    folder = cluster.home / "profile"
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(PROFILE + profile)
    words = ["run", str(bundle.path), "--on", TARGET, "--representatives"]
    words += ["--executor", "slurm", "--profile", str(folder)]
    return subprocess.Popen(
        [sys.executable, "-m", "simgen", *words], env=cluster.environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_a_folder_that_nodes_do_not_see_is_told_in_one_line(cluster, bundle):
    with cluster.hiding(bundle.path.parent):
        run = started(cluster, bundle, "retries: 0\njobs: 2\n")
        _, err = run.communicate(timeout=300)
    assert run.returncode == 5
    assert len(err.strip().splitlines()) == 1
    assert "do not see this folder; put it on storage that they share" in err


def test_jobs_wait_for_a_drained_node_end_with_their_command_and_start_again_when_killed(
    cluster, bundle
):
    cluster.said(
        "scontrol", "update", f"nodename={cluster.node}", "state=drain", "reason=test of simgen"
    )
    run = started(cluster, bundle, ENDS_WELL)
    number, _, why = cluster.wait_for_job("PENDING")
    assert why != "None"
    # As one that is taken at the moment of the interruption: Snakemake does not know its number.
    name = cluster.said("squeue", "--noheader", "--format=%j", f"--jobs={number}").strip()
    cluster.said("sbatch", f"--job-name={name}", "--output=/dev/null", "--wrap=true")
    run.send_signal(signal.SIGINT)  # takes its jobs back
    _, err = run.communicate(timeout=300)
    assert (run.returncode, err.strip()) == (130, "simgen: error: interrupted")
    assert cluster.jobs() == []
    run = started(cluster, bundle, ENDS_WELL)
    cluster.wait_for_job("PENDING")
    cluster.said("scontrol", "update", f"nodename={cluster.node}", "state=resume")
    number, _, _ = cluster.wait_for_job("RUNNING")
    cluster.said("scancel", "--full", "--signal=KILL", number)
    out, err = run.communicate(timeout=300)
    assert (run.returncode, err) == (0, "")
    assert "results: " in out
    assert (
        "Trying to restart job"
        in (bundle.path.with_name("softmax.workflow") / "logs/snakemake.log").read_text()
    )

    as_run_here(bundle, TARGET)
