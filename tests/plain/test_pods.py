"""What a user has left out before pods can run: one line each, without a cluster."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

pytest.importorskip("snakemake", reason="extra `cluster` is not installed")
pytest.importorskip("snakemake_executor_plugin_kubernetes", reason="the plugin is not installed")
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:PORT"}}]
contexts: [{name: c, context: {cluster: c, user: c}}]
users: [{name: c, user: {}}]
current-context: c
"""
VOLUME = "kubernetes-persistent-volumes"
# lines of the profile, exit code, words of the message
CASES = [
    ("", 2, "no image is named that has simgen and Snakemake; name one: --container"),
    ("container-image: x", 2, "nothing says how many pods may run at a time; add to your profile"),
    ("container-image: x\njobs: 2", 2, "pods would not see it: no volume is mounted in pods"),
    (f"container-image: x\njobs: 2\n{VOLUME}: ['c=/x']", 2, "has to be <name>:<path>"),
    (f"container-image: x\njobs: 2\n{VOLUME}: ['c:/elsewhere']", 2, "only /elsewhere are on volum"),
    (f"container-image: x\njobs: 2\n{VOLUME}: ['c:HERE']", 3, "does not answer ([Errno 111]"),
]


def started(folder, profile, kubeconfig):
    (folder / "config.yaml").write_text(profile.replace("HERE", str(folder)) + "\nverbose: false\n")
    words = ["--directory", str(folder), "--profile", str(folder), "--executor", "kubernetes"]
    return subprocess.Popen(
        [sys.executable, "-m", "simgen.running.workflow.kubernetes", *words],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)}, cwd=folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def test_what_pods_need_and_is_not_here_is_told_in_one_line(tmp_path):
    taken = socket.socket()  # bound, and nobody listens
    taken.bind(("127.0.0.1", 0))
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.replace("PORT", str(taken.getsockname()[1])))
    cases = [(*case, kubeconfig) for case in CASES]
    cases.append((CASES[-1][0], 3, "no cluster is configured here", tmp_path / "none"))
    (tmp_path / "damaged").write_text("a: [")
    cases.append((CASES[-1][0], 3, "the kubeconfig cannot be read", tmp_path / "damaged"))
    running = []
    for nth, (profile, code, words, config) in enumerate(cases):
        folder = tmp_path / str(nth)
        folder.mkdir()
        running.append((started(folder, profile, config), code, words))
    for process, code, words in running:
        out, _ = process.communicate(timeout=300)
        assert process.returncode == code, out
        (line,) = [line for line in out.splitlines() if line.startswith("simgen: error: ")]
        assert words in line
    taken.close()
