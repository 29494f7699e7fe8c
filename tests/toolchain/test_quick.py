"""`simgen quick`: build, run and diff in one command."""

import subprocess
import sys


def test_quick_builds_runs_and_checks_and_does_nothing_twice(tmp_path):
    words = [
        sys.executable,
        "-m",
        "simgen",
        "quick",
        "softmax_fwd",
        "--set",
        "n=4",
        "--set",
        "c=10",
    ]
    first, second = (
        subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
        for _ in range(2)
    )
    assert "targets: host" in first.stdout
    assert "results: softmax_fwd/results/host" in first.stdout
    assert first.stdout.endswith("1 result, 1 tensor: all right\n")
    assert "results: softmax_fwd/results/host, of a run before" in second.stdout
    assert second.stdout.endswith("1 result, 1 tensor: all right\n")
