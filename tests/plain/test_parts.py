"""Which steps a part of a workload has, and what they read from the others."""

from __future__ import annotations

import csv
import json
import runpy
import sys
from unittest.mock import MagicMock

import numpy as np
import pytest
from command_line import CUDA, fails
from handmade import BOTH, build, computed, lowered, run_by_hand

from simgen.ask.run import RunChoices
from simgen.bundle import result_names, results, run_record
from simgen.bundle import writing as bundles
from simgen.errors import UsageError
from simgen.ground.ir import Pass
from simgen.running import run_folder, selection
from simgen.targets.cuda import Cuda, NvidiaGpu
from simgen.tensors import state_file
from simgen.workload import lowering


def layers(planned, text):
    return [
        (planned.steps[at].layer, str(planned.steps[at].direction))
        for at in selection.selected(planned, text)
    ]


def test_a_slice_is_that_of_the_network_in_all_passes():
    assert layers(lowered("lenet5"), "conv2..ip1") == [
        ("conv2", "fwd"), ("pool2", "fwd"), ("ip1", "fwd"),
    ]  # fmt: skip
    trained = lowered("lenet5", passes=BOTH)
    assert layers(trained, "pool2,relu1") == [
        ("pool2", "fwd"), ("relu1", "fwd"), ("relu1", "bwd"), ("pool2", "bwd"),
    ]  # fmt: skip


def test_a_slice_of_backward_passes_names_the_earlier_layer_first():
    planned = lowered("lenet5", passes=[Pass.BACKWARD])
    assert {name for name, _ in layers(planned, "conv2..ip1")} == {"conv2", "pool2", "ip1"}
    with pytest.raises(UsageError, match="no way from ip1 to conv2"):
        selection.selected(planned, "ip1..conv2")


def test_an_unknown_layer_is_told():
    with pytest.raises(UsageError, match="no layer named 'conv3'; did you mean 'conv"):
        selection.selected(lowered("lenet5"), "conv3")


def test_memory_that_is_used_again_has_no_parts():
    from simgen.frontend import network, problem

    found = problem.find("lenet5", (), None)
    net = network.resolve(found.config, found.settings)
    planned = lowering.lower(net, "lenet5", [Pass.FORWARD], 0, reuse_memory=True)
    with pytest.raises(UsageError, match="build it without --reuse-memory"):
        selection.selected(planned, "conv2")


def test_what_is_given_is_read_and_not_run():
    planned = lowered("lenet5")
    names = [step.layer for step in planned.steps]
    steps = selection.selected(planned, "conv2,ip1")
    assert [names[at] for at in selection.writers_before(planned, steps)] == ["pool1", "pool2"]
    assert selection.writers_before(planned, range(len(names))) == []


@pytest.mark.parametrize(
    ("text", "name"), [("a..b", "cuda@a..b"), ("a,b", "cuda@a_b"), ("a/../é", "cuda@a_..__")]
)
def test_a_part_has_a_name_that_a_folder_may_have(text, name):
    assert result_names.of_run("cuda", {}, result_names.of_asked(RunChoices(layers=text))) == name


def prepared(made, text, source):
    steps = selection.selected(made.workload, text)
    name = result_names.of_run("cuda", {}, result_names.of_asked(RunChoices(layers=text)))
    start = run_folder.begin(made, Cuda(), name, {}, steps, layers=text, inputs="x")
    selection.prepare(start, made, source)
    return start


def left(start, name):
    """A tensor in the state of a run that is about to begin."""
    planned = start.whole
    each = next(each for each in planned.left if each.name == name)
    spec = planned.buffer(name).spec
    at = state_file.head_nbytes(planned) + each.offset - planned.state_offset
    content = (start.folder / state_file.FILE).read_bytes()
    return np.frombuffer(content, spec.dtype.array, spec.size, at).reshape(spec.shape)


def test_inputs_come_from_the_reference(tmp_path):
    made = build(tmp_path / "b", lowered("lenet5"))
    start = prepared(made, "pool2", None)
    data_id = bytes.fromhex(made.manifest["data"]["id"])
    marks = state_file.read_marks(start.folder / state_file.FILE, made.workload, data_id)
    assert [m.name for m in marks] == ["LEFT_OUT"] * 2 + ["GIVEN", "TO_RUN"] + ["LEFT_OUT"] * 4
    exact = computed(made)["conv2.y"]  # rounded after each layer, not only at the end
    np.testing.assert_allclose(left(start, "conv2.y"), exact, rtol=1e-4, atol=1e-4)
    assert [launch.kernel for launch in start.todo.launches] == [
        launch.kernel for step in made.workload.steps[3:4] for launch in step.launches
    ]


def test_inputs_come_from_a_result(tmp_path):
    made = build(tmp_path / "b", lowered("lenet5"))
    folder = run_by_hand(made, lambda tensors: tensors["conv2.y"].fill(3.0))
    source = results.collect(made, Cuda(), folder)
    assert (left(prepared(made, "pool2", source), "conv2.y") == 3.0).all()


def test_a_result_without_the_inputs_is_refused(tmp_path):
    made = build(tmp_path / "b", lowered("lenet5"))
    source = results.collect(made, Cuda(), run_by_hand(made))
    lacking = results.Result(
        source.name,
        {name: o for name, o in source.outputs.items() if name != "conv2.y"},
        source.launches,
        {**source.provenance, "part": {"layers": "pool1", "steps": [1]}},
    )
    with pytest.raises(UsageError, match=r"in which pool1 ran, has no conv2\.y; name another"):
        prepared(made, "pool2", lacking)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--inputs cuda", "--inputs: the whole network reads from the data file; add --layers"),
        ("--layers s --sweep warmup=1,2", "--layers: a sweep runs the whole network"),
        ("--layers x", "no layer named 'x'"),
        ("--resume --layers classifier --inputs cuda", "--inputs: the stopped run has its inputs"),
        ("--resume", "--resume: b has no run on cuda that was stopped after a finished layer"),
    ],
)
def test_what_does_not_go_together_is_told(simgen, monkeypatch, options, words):
    monkeypatch.setattr(NvidiaGpu, "missing", lambda self, bundle=None: [])
    simgen(f"build softmax_fwd {CUDA} -o b")
    fails(simgen(f"run b --on cuda {options}"), 2, words)


def test_parts_without_a_layer_in_common_are_not_said_to_agree(simgen, tmp_path):
    made = build(tmp_path / "b", lowered("lenet5"))
    for layers in ("conv1", "conv2"):
        folder = run_by_hand(made, target=f"cuda@{layers}")
        steps = tuple(selection.selected(made.workload, layers))
        settings = made.targets["cuda"]
        run_record.write(
            folder, run_record.Run(made.digest, settings, {}, steps, layers, "reference")
        )
        rows = (folder / "launches.csv").read_text().splitlines()
        first, count = (
            made.workload.first_launches,
            len(made.workload.steps[steps[0]].launches),
        )
        kept = rows[1 + first[steps[0]] :][:count]
        (folder / "launches.csv").write_text("\n".join([rows[0], *kept]) + "\n")
    fails(simgen("diff b cuda@conv1 cuda@conv2"), 2, "cuda@conv1, cuda@conv2: no layer ran in both")
    pairs = simgen("diff b --json").json()["pairs"]
    assert [pair["b"] for pair in pairs] == ["reference", "reference"]


def test_a_part_is_judged_and_reported_alone(simgen, tmp_path):
    made = build(tmp_path / "b", lowered("lenet5"))
    steps = selection.selected(made.workload, "conv2..pool2")
    folder = run_by_hand(made, target="cuda@conv2..pool2")
    settings = made.targets["cuda"]
    run = run_record.Run(made.digest, settings, {}, tuple(steps), "conv2..pool2", "reference")
    run_record.write(folder, run)
    rows = (folder / "launches.csv").read_text().splitlines()
    firsts = [*made.workload.first_launches, len(rows) - 1]
    kept = rows[1 + firsts[steps[0]] : 1 + firsts[steps[-1] + 1]]
    (folder / "launches.csv").write_text("\n".join([rows[0], *kept]) + "\n")
    found = simgen("diff b --json").json()["pairs"][0]
    assert found["verdict"] == "same"
    assert [tensor["layer"] for tensor in found["tensors"]] == ["conv2", "pool2"]
    done = simgen("report b -o r")
    assert done.code == 0
    with (tmp_path / "r/metrics.csv").open(newline="") as table:
        assert [row["layer"] for row in csv.DictReader(table)] == ["conv2", "pool2"]
    told = results.collect(made, Cuda(), folder, "cuda@conv2..pool2").provenance["part"]
    assert told == {"layers": "conv2..pool2", "inputs": "reference", "steps": steps}
    assert bundles.load(made.path).ran() == ["cuda@conv2..pool2"]


class Arena:
    """As much of a CuPy array as run.py of the cuda target needs."""

    def __init__(self, values):
        self.values = values

    def __getitem__(self, where):
        return Arena(self.values[where])

    def set(self, values):
        self.values[...] = values


def test_the_cuda_program_takes_what_the_others_left(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", MagicMock())
    monkeypatch.setitem(sys.modules, "cupy.cuda", MagicMock())
    made = build(tmp_path / "b", lowered("lenet5"))
    program = runpy.run_path(str(made.path / "cuda/run.py"), run_name="run")
    planned = json.loads((made.path / "workload.json").read_text())
    buffers = {each["name"]: each for each in planned["buffers"]}
    arena = Arena(np.zeros(planned["arena_nbytes"], np.uint8))
    start = prepared(made, "pool2,ip2", None)
    steps = program["restore"](start.folder / state_file.FILE, planned, buffers, arena)
    assert [planned["steps"][at]["layer"] for at in steps] == ["pool2", "ip2"]
    for buffer in made.workload.outputs:
        found = arena.values[buffer.offset : buffer.offset + buffer.spec.nbytes].view("<f4")
        if buffer.name in ("conv2.y", "relu1.y"):
            np.testing.assert_array_equal(
                found.reshape(buffer.spec.shape), left(start, buffer.name)
            )
        else:
            assert not found.any()
    everything = program["restore"](tmp_path / "none", planned, buffers, arena)
    assert everything == [*range(len(planned["steps"]))]
