"""What a sweep and `build --run` print on the host: speed-ups of one workload alone, and which
targets have not run."""

from __future__ import annotations

import re
import subprocess

import pytest
from loaded import program

from simgen.targets.host import Host
from simgen.targets.mgpusim.target import MGPUSim

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)


@pytest.fixture(scope="module", name="place")
def _place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    words = "build softmax_fwd --set c=10 --target host,gem5-se -o net -q"
    said(folder, *words.split())
    return folder


def said(folder, *words):
    done = subprocess.run(
        [program(), *words],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def table(folder, *grid):
    """The heads, and the cells of each line."""
    axes = [word for axis in grid for word in ("--sweep", axis)]
    lines = said(folder, "run", "net", "--on", "host", *axes).splitlines()
    cells = [re.split(r"\s{2,}", line.strip()) for line in lines]
    at = next(nth for nth, line in enumerate(lines) if set(line.strip()) == {"─"})
    end = next(nth for nth in range(at, len(lines)) if not lines[nth].strip())
    return cells[at - 1], cells[at + 1 : end]


def test_points_of_several_workloads_have_rates_and_no_speed_up(place):
    heads, rows = table(place, "n=1,4")
    assert heads == ["n", "time", "operations/s"]
    assert [row[0] for row in rows] == ["1", "4"]
    assert all(len(row) == len(heads) for row in rows)


def test_points_of_one_workload_have_a_speed_up_over_its_first(place):
    heads, rows = table(place, "seed=1,2")
    assert heads == ["seed", "time", "speed-up"]
    assert rows[0][-1] == "1"


def test_a_speed_up_is_between_points_that_do_the_same(place):
    heads, rows = table(place, "n=1,4", "seed=1,2")
    assert heads == ["n", "seed", "time", "operations/s", "speed-up at that n"]
    assert [row[-1] for row in rows if row[1] == "1"] == ["1", "1"]


def test_targets_that_could_run_and_did_not_are_named(tmp_path):
    words = ("build", "softmax_fwd", "--set", "c=10", "--run")
    assert "not run" not in said(tmp_path, *words, "--target", "host", "-o", "one")
    told = said(tmp_path, *words, "--target", "host,mgpusim", "-o", "two")
    line = "not run: mgpusim; simgen run two --on mgpusim\n"
    assert (line in told) == (not MGPUSim().needs.missing())
