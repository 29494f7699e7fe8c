"""All-reduces: routes of sums, bandwidths, and what one GPU cannot do."""

from __future__ import annotations

import numpy as np
import pytest
from command_line import fails
from handmade import lowered

from simgen.errors import UsageError
from simgen.frontend.network import make_layer
from simgen.ground import metrics
from simgen.ground.ir import Pass
from simgen.verdict import shares
from simgen.workload import sharding


def work(n: int, route: str = "ring"):
    given = (("n", str(n)), ("c", "1001"), ("h", "1"), ("w", "1"), ("route", route))
    return lowered("all_reduce_fwd", *given)


@pytest.mark.parametrize(("gpus", "partials"), [(2, 0), (3, 1), (4, 1), (5, 2), (8, 2)])
def test_a_tree_has_a_buffer_for_each_level_but_the_last(gpus, partials):
    made = sharding.split(work(gpus, "tree"), gpus)
    ((each,),) = made.reductions
    assert (each.way, each.result, each.part) == ("tree", "all_reduce.y", "all_reduce.y.part")
    assert len(each.partials) == partials
    assert len({each.part, *each.partials, each.result}) == partials + 2
    assert [(c.start, c.size) for c in each.chunks] == [(0, 1001)]
    names = {buffer.name for buffer in made.workload.buffers}
    assert {each.part, *each.partials, each.result} <= names


def test_each_gpu_has_its_vectors_and_all_have_the_sum():
    made = sharding.split(work(4), 2)
    assert made.workload.buffer("all_reduce.x").spec.shape == (2, 1001, 1, 1)
    assert made.workload.buffer("all_reduce.y").spec.shape == (1001, 1, 1)
    (launch,) = made.workload.launches
    assert launch.args == ("all_reduce.x", "all_reduce.y.part")


def test_the_bound_holds_for_sums_over_gpus_in_any_order():
    whole = work(8)
    layer = make_layer(whole.nodes[0], whole.machine)
    x = np.random.default_rng(3).standard_normal((8, 1001, 1, 1)).astype(np.float32)
    for gpus in (2, 4, 8):
        reference, bound, _ = shares.expected(layer, {"x": x.astype(float)}, Pass.FORWARD, gpus)[
            "y"
        ]
        parts = [np.add.reduce(part, dtype=np.float32) for part in np.split(x, gpus)]
        for order in (parts, parts[::-1]):
            found = order[0]
            for part in order[1:]:
                found = found + part
            assert (np.abs(found - reference) <= bound).all()
        assert bound.max() < 1e-5


def test_bandwidths_are_those_of_nccl_tests():
    counted = {"all_reduce_bytes": 4e5, "all_reduce_bus_bytes": 6e5, "all_reduce_seconds": 2e-4}
    found = metrics.derived(counted)
    assert found["all_reduce_bandwidth"] == pytest.approx(2e9)
    assert found["all_reduce_bus_bandwidth"] == pytest.approx(3e9)


@pytest.mark.parametrize(
    "words",
    [
        "deepbench/allreduce/1 --target host",
        "deepbench/allreduce/1 --target mgpusim --gpus 1",
        "allreduce:elements=1000,route=tree",
    ],
)
def test_one_gpu_is_refused_in_one_line(simgen, tmp_path, words):
    fails(simgen(f"build {words} -o b"), 2, "is of several GPUs, and this is one; take --target")
    assert not (tmp_path / "b").exists()


def test_one_vector_is_no_all_reduce(simgen):
    fails(simgen("show all_reduce_fwd --set n=1"), 2, "one vector is its own sum; set n=2 or more")


def test_enough_is_asked_of_layers_that_need_several():
    sharding.check_enough(work(2), 2, "--gpus 2")
    sharding.check_enough(lowered("softmax_fwd"), 1, "--gpus 1")
    with pytest.raises(UsageError, match=r"^--gpus 1: layer 'all_reduce'"):
        sharding.check_enough(work(2), 1, "--gpus 1")
