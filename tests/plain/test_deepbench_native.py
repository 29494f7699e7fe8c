"""benchmarks/deepbench/run.py native: which problems, when it stops, its rows and its tables."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from handmade import lowered

from simgen.frontend import network

ROOM = Path(__file__).resolve().parents[2] / "benchmarks/deepbench"


@pytest.fixture(scope="module")
def native():
    sys.path.insert(0, str(ROOM))
    try:
        import native

        yield native
    finally:
        sys.path.remove(str(ROOM))
        sys.modules.pop("native", None)


class Machine:
    """Takes as long as it is told."""

    name = "a machine"

    def __init__(self, seconds):
        self.seconds, self.seen = seconds, []

    def prepare(self, task, folder):
        return folder

    def measure(self, made, row):
        self.seen.append(made.task.key)
        row.ours, row.library = self.seconds
        row.result, row.algorithm = "right", "direct"


def test_every_problem_is_there_once_and_each_beginning_has_its_share_of_all(native):
    made = native.tasks(["gemm", "conv"], ["f32", "f16"])
    assert len({task.key for task in made}) == len(made) == 1228
    assert len(made) + sum(len(task.twins) for task in made) == 1306
    whole = Counter(task.stratum for task in made)
    for share in (0.1, 0.5):
        some = Counter(task.stratum for task in made[: round(share * len(made))])
        assert all(abs(some[each] - share * whole[each]) <= 1 for each in whole)
    # Of each stratum, the first few are spread over its work.
    flops = sorted(task.flops for task in made if task.stratum == ("gemm", "fwd", "f32"))
    first = [task.flops for task in made if task.stratum == ("gemm", "fwd", "f32")][:4]
    assert sorted(4 * flops.index(each) // len(flops) for each in first) == [0, 1, 2, 3]


def test_it_stops_in_time_and_goes_on_from_its_rows(native, tmp_path):
    todo = native.tasks(["gemm"], ["f32"])[:6]
    path, told = tmp_path / "rows.json", []
    first, second = Machine((2e-3, 1e-3)), Machine((1e-3, 4e-3))
    native.run(
        todo[:2], native.Rows.at(path), first, tmp_path, workers=0, minutes=1, tell=told.append
    )
    native.run(todo, native.Rows.at(path), second, tmp_path, workers=0, minutes=0, tell=told.append)
    assert [line.partition(";")[0] for line in told] == [
        "2 of 2 done",
        "2 of 6 done, the time is over",
    ]
    rows = native.Rows.at(path)
    native.run(todo, rows, second, tmp_path, workers=0, minutes=1, tell=told.append)
    assert first.seen + second.seen == [task.key for task in todo]
    assert native.Rows.at(path).found == rows.found
    (line,) = native.summary(todo, rows)[2:]
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[:5] == ["gemm", "fwd", "f32", "6 of 6", "6"]
    assert cells[7:] == ["2.00", "0.50", "4.00", "4"]  # two of 1/2 and four of 4


def test_what_failed_is_tried_again_and_what_is_refused_is_not(native, tmp_path):
    todo = native.tasks(["gemm"], ["f32"])[:2]
    rows = native.Rows(tmp_path / "rows.json")
    rows.add(native.Row(todo[0], result="failed: of no memory"))
    rows.add(native.Row(todo[1], result="refused: it has no such type"))
    machine, told = Machine((1e-3, 1e-3)), []
    native.run(todo, rows, machine, tmp_path, workers=0, minutes=1, tell=told.append)
    assert machine.seen == [todo[0].key]
    assert native.refusals(rows) == ["- 1 of gemm, f32, refused: it has no such type"]
    text = native.page(todo, rows, ["# head"])
    assert "| 1.00 | right |" in text


def test_a_problem_that_is_refused_says_why_in_its_row(native, tmp_path):
    (task, *_) = native.tasks(["gemm"], ["f32"])
    asked = replace(task, name="deepbench/gemm/0")
    rows = native.Rows(tmp_path / "rows.json")
    native.run([asked], rows, native.OnHost(1e6), tmp_path, workers=0, minutes=1, tell=print)
    assert rows.found[asked.key].result.startswith("refused: gemm has the problems 1 to 248")


def test_a_file_that_holds_no_rows_is_refused(native, tmp_path):
    path = tmp_path / "rows.json"
    for text in ("{", '[{"task": 1}]', '{"a": 2}'):
        path.write_text(text)
        with pytest.raises(SystemExit, match="no rows of this program"):
            native.Rows.at(path)


def test_bounds_are_computed_with_another_library_and_wrong_results_are_told():
    sys.path.insert(0, str(ROOM))
    try:
        import judged
    finally:
        sys.path.remove(str(ROOM))

    class Counting:
        """NumPy, which tells that it was asked."""

        asked = 0

        def __getattr__(self, name):
            self.asked += 1
            return getattr(np, name)

    library = Counting()
    workload = lowered("recurrent_bwd_weight", ("shape", "5x3x8"), ("cell", "gru"))
    random = np.random.default_rng(3)
    tensors = {b.name: random.standard_normal(b.spec.shape) for b in workload.inputs}
    (step,) = workload.steps
    layer = network.make_layer(workload.node(step.layer), workload.machine)
    right = layer.reference({port: tensors[name] for port, name in step.reads}, step.direction)
    tensors |= {name: right[port] for port, name in step.writes}
    assert judged.fault(library, workload, tensors) == ""
    assert library.asked
    dr = tensors[dict(step.writes)["dr"]]
    for wrong, told in ((dr + 1e-3, "beyond their bound"), (np.full_like(dr, np.nan), "beyond")):
        tensors[dict(step.writes)["dr"]] = wrong
        assert told in judged.fault(library, workload, tensors)
