"""Operations, bytes and memory of a workload, and how they are shown."""

from __future__ import annotations

import pytest
from handmade import lowered, lowered_text

from simgen.ground.ir import OpCount, Pass
from simgen.workload import costs

TRAINING = (Pass.FORWARD, Pass.BACKWARD, Pass.UPDATE)
# 2 x 12 inputs, 5 outputs: 60 weights and 5 biases.
TWO = (
    "[FullyConnected]\nname=f\nn=2\nc=3\nh=2\nw=2\nnum_output=5\nbias=true\n"
    "[Activation]\nname=a\nprevious_layer=f\n"
)


def test_the_work_of_a_step_is_the_layer_s_count():
    full, relu = costs.costs_of(lowered_text(TWO))
    assert (full.layer, full.kind, full.direction) == ("f", "fc", Pass.FORWARD)
    assert (full.output, relu.output) == ((2, 5, 1, 1), (2, 5, 1, 1))
    assert (full.parameters, relu.parameters) == (65, 0)
    assert (full.tensor_bytes, relu.tensor_bytes) == (40, 40)
    assert relu.count == OpCount(10, 0, 40, 40)
    assert relu.intensity == 10 / 80
    # x, w, b and y once: 24 + 60 + 5 + 10 elements
    assert full.count.read_bytes + full.count.written_bytes == 4 * 99


def test_the_total_is_the_sum_over_steps():
    works = costs.costs_of(lowered_text(TWO, TRAINING))
    total = costs.total(works)
    assert total.flops == sum(each.count.flops for each in works)
    assert total.read_bytes == sum(each.count.read_bytes for each in works)


def test_memory_counts_every_tensor_once_by_what_it_is():
    planned = lowered_text(TWO, TRAINING)
    held = costs.memory(planned)
    assert held["parameters"] == 4 * 65
    assert held["new parameters"] == 4 * 65
    assert held["inputs"] == 4 * (24 + 10)  # x, and the gradient of the last layer's y
    assert held["activations"] == 4 * (10 + 10)
    assert held["gradients"] == 4 * (65 + 24 + 10)  # dw, db, dx and the dy between the layers
    assert held["arena"] == planned.arena_nbytes
    assert sum(n for what, n in held.items() if what != "arena") == sum(
        buffer.spec.nbytes for buffer in planned.buffers
    )


def test_workspaces_are_counted_apart():
    sizes = (("n", "1"), ("c", "1"), ("h", "12"), ("w", "12"), ("kernel_size", "9"))
    planned = lowered("pool_bwd", *sizes)
    (step,) = costs.costs_of(planned)
    scratch = {b.name: b.spec.nbytes for b in planned.buffers if b.name == "pool.first_bwd"}
    assert step.workspace_bytes == costs.memory(planned)["workspaces"] == sum(scratch.values()) > 0
    assert step.tensor_bytes == 4 * 144


def test_the_gradients_of_a_branch_and_their_sum_are_gradients():
    text = "[Activation]\nname=t\nn=1\nc=4\n" + "".join(
        f"[Activation]\nname={name}\nprevious_layer=t\n" for name in "lr"
    )
    held = costs.memory(lowered_text(text, (Pass.FORWARD, Pass.BACKWARD)))
    assert held["gradients"] == 4 * 4 * (2 + 1 + 1)  # l.dx, r.dx, t.dy, t.dx


# ------------------------------------------------------------------ show


def test_show_has_a_line_for_each_layer_and_pass_and_their_sum(simgen):
    out = simgen("show lenet5 --pass fwd,bwd,sgd").out
    lines = [line.split() for line in out.splitlines()]
    assert ["conv1", "Convolution", "1x1x28x28", "1x20x24x24"] in [line[:4] for line in lines]
    assert ["conv2", "fwd"] in [line[:2] for line in lines]
    assert "bwd_weight" in out
    assert ["ip1_w_sgd", "sgd"] in [line[:2] for line in lines]
    assert sum(line[:1] == ["all"] for line in lines) == 1
    assert "memory: parameters 1.6 MiB, new parameters 1.6 MiB" in out


def test_show_prints_launches_only_when_asked(simgen):
    assert "softmax_fwd_accurate" not in simgen("show softmax_fwd").out
    assert "softmax_fwd_accurate" in simgen("show softmax_fwd -v").out


def test_show_s_tables_are_at_most_120_columns_wide(simgen):
    out = simgen("show resnet50 --pass fwd,bwd").out
    rows = [line for line in out.splitlines() if line.startswith(" ")]
    assert len(rows) > 300
    assert max(len(line.rstrip()) for line in rows if "$GEM5" not in line) <= 120


def test_the_json_of_show_has_all_of_it(simgen):
    shown = simgen("show lenet5 --pass fwd,bwd --layers conv2..ip1 --json").json()
    assert [layer["name"] for layer in shown["layers"]] == ["conv2", "pool2", "ip1"]
    assert shown["layers"][0]["previous"] == ["pool1"]
    steps = [(each["layer"], each["pass"]) for each in shown["work"]]
    assert steps[:3] == [("conv2", "fwd"), ("pool2", "fwd"), ("ip1", "fwd")]
    assert {direction for _, direction in steps} == {"fwd", "bwd", "bwd_weight", "bwd_data"}
    for each in shown["work"]:
        moved = each["read_bytes"] + each["written_bytes"]
        operations = each["flops"] + each["transcendentals"]
        assert each["operations_per_byte"] == pytest.approx(operations / moved)
    assert shown["total"]["flops"] == sum(each["flops"] for each in shown["work"])
    assert shown["memory_bytes"]["parameters"] == 4 * (25_050 + 400_500)


# ------------------------------------------------------------------ build


def test_a_build_says_how_to_make_it_again(simgen):
    line = (
        "build lenet5 --target cuda --set n=2 --algo direct --pass fwd,bwd,sgd "
        "--layers conv1..pool1 --rate 0.5"
    )
    done = simgen(line)
    assert done.code == 0, done
    (again,) = [text for text in done.out.splitlines() if text.startswith("reproduce: ")]
    assert set(again.removeprefix("reproduce: simgen ").split()) == set(line.split())


def test_the_learning_rate_reaches_the_update(simgen):
    for words, rate in (("", "0.01"), ("--rate 0.25", "0.25")):
        shown = simgen(f"show lenet5 --pass fwd,bwd,sgd --layers ip2 {words} --json").json()
        nodes = {node["name"]: node for node in shown["workload"]["nodes"]}
        assert nodes["ip2_w_sgd"]["parameters"] == [["rate", rate]]


def test_weights_of_launches_are_operations_and_words():
    workload = lowered_text("[Activation]\nn=4\nc=8\nactivation_mode=tanh\n")
    (weight,) = costs.weights(workload)
    count = costs.of_step(workload, workload.steps[0]).count
    assert count.transcendentals > 0
    assert weight == count.flops + count.transcendentals + 2 * 4 * 8  # x and y
