"""Runs as pods of a real Kubernetes: what they leave; pods that wait, are deleted, are killed or
cannot start.

SIMGEN_TEST_KUBERNETES=IMAGE,CLAIM:PATH names what docs/sweeps.md has one make: an image with
simgen as it is here, and a claim of a volume that is mounted at PATH on this machine, too.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from by_jobs import as_run_here

import simgen
from simgen.targets.host import Host
from simgen.targets.mgpusim.target import MGPUSim

pytest.importorskip("snakemake_executor_plugin_kubernetes", reason="the plugin is not installed")
from kubernetes import client, config

GIVEN = os.environ.get("SIMGEN_TEST_KUBERNETES", "")
TARGET = "host" if MGPUSim().needs.missing() else "mgpusim"
ENDS_WELL = "retries: 2\n"
SECONDS = 120.0  # for anything to happen
LABEL = "simgen-run"


def lacks():
    """Why there is no cluster for tests; empty if there is."""
    if not GIVEN:
        return "SIMGEN_TEST_KUBERNETES=IMAGE,CLAIM:PATH is not set"
    try:
        config.load_config()
        client.VersionApi().get_code(_request_timeout=10)
    except Exception as error:  # whatever it is, there is no cluster
        return f"no cluster answers: {type(error).__name__}"
    return ""


WHY = lacks()
pytestmark = [
    pytest.mark.skipif(bool(WHY), reason=WHY),
    pytest.mark.skipif(bool(Host().needs.missing()), reason="there is no host target here"),
]


@pytest.fixture(scope="module", name="bundle")
def softmax():
    home = tempfile.mkdtemp(dir=GIVEN.rpartition(":")[2])
    path = Path(home) / "softmax"
    yield simgen.plan("softmax_fwd", set={"n": 4, "c": 70}).build(path, targets=[TARGET])
    shutil.rmtree(home)


def started(bundle, profile, *more):
    """`simgen run --executor kubernetes`, as it begins."""
    image, _, volume = GIVEN.partition(",")
    folder = bundle.path.parent / "profile"
    folder.mkdir(exist_ok=True)
    common = f'container-image: {image}\nkubernetes-persistent-volumes: ["{volume}"]\njobs: 2\n'
    (folder / "config.yaml").write_text(common + profile)
    words = ["run", str(bundle.path), "--on", TARGET, "--representatives"]
    words += ["--executor", "kubernetes", "--profile", str(folder), *more]
    return subprocess.Popen(
        [sys.executable, "-m", "simgen", *words], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_for(look):
    end = time.monotonic() + SECONDS
    while not (found := look()):
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.2)
    return found


def pods():
    return client.CoreV1Api().list_namespaced_pod("default", label_selector=LABEL).items


def jobs():
    found = client.BatchV1Api().list_namespaced_job("default", label_selector=LABEL).items
    return [job.metadata.name for job in found]


def test_why_pods_wait_is_said_and_an_interruption_takes_them_back(bundle):
    run = started(bundle, 'set-resources: ["piece:mem_mb=100000000"]\n')
    for line in run.stdout:
        if line.startswith("jobs wait: "):
            break
    assert "Insufficient memory" in line
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=300)
    assert (run.returncode, err.strip()) == (130, "simgen: error: interrupted")
    assert (pods(), jobs()) == ([], [])


@pytest.mark.parametrize(
    ("profile", "more", "words"),
    [
        ("", ["--container", "localhost/no-such-image:1"], "name one that nodes can pull"),
        ('retries: 0\nset-resources: ["piece:mem_mb=30"]\n', [], "its pod ended: OOMKilled"),
    ],
)
def test_pods_that_cannot_start_or_are_killed_are_told_in_one_line(bundle, profile, more, words):
    run = started(bundle, profile, *more)
    _, err = run.communicate(timeout=300)
    assert run.returncode == 5
    assert len(err.strip().splitlines()) == 1
    assert words in err
    assert (pods(), jobs()) == ([], [])


def test_deleted_pods_and_jobs_start_again_and_leave_what_a_run_here_does(bundle):
    run = started(bundle, ENDS_WELL)
    pod = wait_for(pods)[0].metadata
    client.CoreV1Api().delete_namespaced_pod(pod.name, "default", grace_period_seconds=0)
    first = pod.labels["job-name"]
    second = wait_for(lambda: [name for name in jobs() if name != first])[0]
    client.BatchV1Api().delete_namespaced_job(second, "default", propagation_policy="Background")
    out, err = run.communicate(timeout=300)
    assert (run.returncode, err) == (0, "")
    assert "results: " in out
    printed = (bundle.path.with_name("softmax.workflow") / "logs/snakemake.log").read_text()
    assert printed.count("Trying to restart job") == 2
    assert (pods(), jobs()) == ([], [])

    as_run_here(bundle, TARGET)
