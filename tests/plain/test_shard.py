"""Cutting a workload along its batch: shapes, parameters, the ring's table, refusals, bundles."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from census import census
from handmade import build, lowered, lowered_text, small, tree

from simgen.bundle import writing as bundles
from simgen.errors import RefusedError, UsageError
from simgen.frontend import config, network
from simgen.frontend.network import make_layer
from simgen.ground.ir import GUARD, PAGE, Pass, Role, Workload, from_json, to_json
from simgen.targets.base import File
from simgen.verdict import shares
from simgen.workload import lowering, sharding
from simgen.workload.sharding import Sharding, split

if TYPE_CHECKING:
    from pathlib import Path

NET = """\
[FullyConnected]
name=one
n=8
c=37
num_output=21
[Activation]
name=act
previous_layer=one
[FullyConnected]
name=two
previous_layer=act
num_output=3
"""
TRAINING = (Pass.FORWARD, Pass.BACKWARD)


def shapes(workload: Workload) -> dict[str, tuple[int, ...]]:
    return {buffer.name: buffer.spec.shape for buffer in workload.buffers}


def reductions(made: Sharding) -> list[sharding.Reduction]:
    return [each for after in made.reductions for each in after]


def test_a_single_gpu_has_the_workload() -> None:
    whole = small()
    made = split(whole, 1)
    assert made.workload is whole
    assert made.reductions == ((),)


def test_gradients_of_narrow_types_are_refused() -> None:
    found = network.resolve(config.parse(NET, "net.dnnmark"), dtype="bf16")
    whole = lowering.lower(found, "net", TRAINING, 0)
    with pytest.raises(RefusedError, match=r"^--gpus 2: gradient two\.dw is bf16, and "):
        split(whole, 2)


@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_tensors_are_cut_along_the_batch_and_parameters_are_not(gpus: int) -> None:
    whole = lowered_text(NET, TRAINING)
    made = split(whole, gpus)
    got = shapes(made.workload)
    for name, shape in shapes(whole).items():
        cut = (shape[0] // gpus, *shape[1:])
        assert got[name] == (shape if name in ("one.w", "two.w", "one.dw", "two.dw") else cut)
    assert [node.inputs[0].shape[0] for node in made.workload.nodes] == [8 // gpus] * 3


def test_a_share_is_the_workload_of_the_smaller_batch() -> None:
    """The same code lowers both: nothing but the way to the gradients differs."""
    share = split(lowered_text(NET), 4).workload
    alone = lowered_text(NET.replace("n=8", "n=2"))
    assert share == alone


def test_the_step_writes_its_part_and_later_steps_read_the_sum() -> None:
    whole = lowered_text(NET, (*TRAINING, Pass.UPDATE))
    made = split(whole, 2)
    assert [each.result for each in reductions(made)] == ["two.dw", "one.dw"]
    for step, original, after in zip(
        made.workload.steps, whole.steps, made.reductions, strict=True
    ):
        assert (step.layer, step.direction) == (original.layer, original.direction)
        written = {name for _, name in step.writes}
        touched = {name for launch in step.launches for name in launch.args}
        assert written <= touched
        for each in after:
            assert each.part in written
            assert each.result not in touched
    updates = [step for step in made.workload.steps if step.layer.endswith("_sgd")]
    assert [dict(step.reads)["dx"] for step in updates] == ["one.dw", "two.dw"]
    assert updates == [step for step in whole.steps if step.layer.endswith("_sgd")]


def test_buffers_of_a_share_have_places_of_their_own() -> None:
    planned = split(lowered_text(NET, TRAINING), 2).workload
    ends = 0
    for buffer in planned.buffers:
        assert buffer.offset % PAGE == 0
        assert buffer.offset >= ends
        ends = buffer.offset + buffer.spec.nbytes + GUARD
        assert (buffer.role is Role.OUTPUT) == (buffer.offset >= planned.outputs_offset)
    assert ends <= planned.arena_nbytes
    known = {kernel.name for kernel in planned.kernels}
    assert {launch.kernel for launch in planned.launches} <= known


@pytest.mark.parametrize(
    ("section", "totals", "shared"),
    [("CrossEntropy", ("total", "counted"), ("y", "share")), ("SquaredError", ("total",), ("y",))],
)
def test_gpus_add_up_their_losses_before_each_makes_the_mean(
    section: str, totals: tuple[str, ...], shared: tuple[str, ...]
) -> None:
    text = NET + f"[{section}]\nname=loss\nprevious_layer=two\n"
    whole = lowered_text(text, TRAINING)
    made = split(whole, 4)
    (at,) = (
        at
        for at, step in enumerate(whole.steps)
        if (step.layer, step.direction) == ("loss", Pass.FORWARD)
    )
    assert [each.result for each in made.reductions[at]] == [f"loss.{t}_fwd" for t in totals]
    (mean,) = made.afterwards[at]
    assert list(mean.args) == [*(f"loss.{t}_fwd" for t in totals), *(f"loss.{s}" for s in shared)]
    written = {name for launch in made.workload.steps[at].launches for name in launch.args}
    assert written.isdisjoint(mean.args)  # no place is written twice
    assert {each.part for each in made.reductions[at]} <= written
    assert not any(after for i, after in enumerate(made.afterwards) if i != at)
    got, had = shapes(made.workload), shapes(whole)
    assert all(got[f"loss.{name}"] == had[f"loss.{name}"] == (1,) for name in shared)
    assert got["loss.losses"] == (2,)
    assert from_json(Sharding, json.loads(json.dumps(to_json(made)))) == made


@pytest.mark.parametrize("section", ["CrossEntropy", "SquaredError"])
def test_the_loss_of_several_gpus_is_that_of_one_with_a_bound_for_their_sums(section: str) -> None:
    text = NET + f"[{section}]\nname=loss\nprevious_layer=two\n"
    planned = lowered_text(text)
    layer = make_layer(planned.node("loss"), planned.machine)
    random = np.random.default_rng(0)
    x = random.normal(size=(8, 3))
    # Rows that do not count are not the same number on each GPU.
    labels = np.array([0, 1, -100, -100, 2, 0, -100, 1], dtype=np.float64)
    right = labels if section == "CrossEntropy" else random.normal(size=(8, 3))
    tensors = {"x": x, layer.from_data: right}
    one = shares.expected(layer, tensors, Pass.FORWARD, 1)
    four = shares.expected(layer, tensors, Pass.FORWARD, 4)
    assert np.array_equal(one["losses"][0], four["losses"][0])
    for name in layer.agreed:
        assert one[name][0] == four[name][0]
        more = four[name][1] - one[name][1]
        assert more == pytest.approx(3 * 2**-24 * abs(one[name][0]), rel=1e-3)  # three additions
    back = {**tensors, "dy": np.ones(1)}
    back |= {name: one[name][0] for name in ("peak", "log_sum", "share") if name in one}
    whole = shares.expected(layer, back, Pass.BACKWARD, 1)["dx"][0]
    assert np.allclose(whole, shares.expected(layer, back, Pass.BACKWARD, 4)["dx"][0], rtol=1e-15)


@census("gpus", [2, 3, 4, 8])
@census("outputs", [1, 2, 5, 16])
def test_chunks_cover_a_gradient_once_and_start_on_16_bytes(gpus: int, outputs: int) -> None:
    made = split(
        lowered("fc_bwd_weight", ("n", "24"), ("c", "7"), ("num_output", str(outputs))), gpus
    )
    (each,) = reductions(made)
    assert len(each.chunks) == gpus
    covered = [at for c in each.chunks for at in range(c.start, c.start + c.size)]
    assert covered == list(range(7 * outputs))
    kernels = {kernel.name: kernel for kernel in made.workload.kernels}
    for chunk in each.chunks:
        if not chunk.size:
            assert (chunk.add, chunk.copy) == ("", "")
            continue
        assert chunk.start % 4 == 0
        for name in (chunk.add, chunk.copy):
            constants = dict(kernels[name].constants)
            assert constants["size"] == chunk.size
            assert 0 <= chunk.groups * kernels[name].block * 4 - chunk.size < 1024


def test_the_table_is_json_and_back() -> None:
    made = split(lowered_text(NET, TRAINING), 2)
    assert from_json(Sharding, json.loads(json.dumps(to_json(made)))) == made


@pytest.mark.parametrize(
    ("batch", "gpus", "cure"),
    [
        (8, 3, "choose 2 or 4 or 8"),
        (6, 4, "choose 2 or 3 or 6"),
        (67, 2, "choose another batch with --set n="),
    ],
)
def test_a_batch_that_cannot_be_shared_is_one_line(batch: int, gpus: int, cure: str) -> None:
    whole = lowered("softmax_fwd", ("n", str(batch)))
    with pytest.raises(UsageError) as caught:
        split(whole, gpus)
    text = (
        f"--gpus {gpus}: the batch of layer 'softmax' is {batch}, which is not a multiple; {cure}"
    )
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("gpus", [-1, 0, 65, 10**9])
def test_impossible_numbers_of_gpus_are_refused(gpus: int) -> None:
    with pytest.raises(UsageError, match="no such number of GPUs; write 1 to 64"):
        split(small(), gpus)


@pytest.mark.parametrize("mode", ["spatial", "per_activation"])
def test_a_normalisation_with_given_statistics_is_shared(mode: str) -> None:
    text = f"[BatchNorm]\nname=b\nn=4\nc=3\nh=2\nw=5\nbatchnorm_mode={mode}\n"
    whole = lowered_text(text + "batchnorm_statistics=running\n", TRAINING)
    got = shapes(split(whole, 2).workload)
    assert got["b.x"] == got["b.dx"] == (2, 3, 2, 5)
    for name in ("w", "b", "running_mean", "running_var", "dw", "db"):
        assert got[f"b.{name}"] == whole.buffer(f"b.{name}").spec.shape
    layer = make_layer(whole.nodes[0], whole.machine)
    generator = np.random.default_rng(1)
    for step in whole.steps:
        tensors = {p: generator.uniform(1, 2, whole.buffer(n).spec.shape) for p, n in step.reads}
        alone = layer.reference(tensors, step.direction)
        found = shares.expected(layer, tensors, step.direction, 2)
        assert all(np.allclose(found[port][0], alone[port], rtol=1e-12) for port in alone)


@pytest.mark.parametrize("word", ["dropout_fwd", "gemm_fwd", "bn_fwd", "bn_bwd"])
def test_what_needs_the_whole_batch_is_refused(word: str) -> None:
    with pytest.raises(RefusedError, match=r"needs the whole batch, .*; run it on one GPU"):
        split(lowered(word), 2)


@pytest.mark.parametrize("gpus", [2, 4])
def test_the_bound_of_a_sum_over_gpus_holds_for_what_they_compute(gpus: int) -> None:
    """Each GPU's part is off by its bound, and the ring rounds: the worst that can be."""
    whole = lowered("fc_bwd_weight", ("n", "8"), ("c", "5"), ("num_output", "3"), ("bias", "true"))
    layer = make_layer(whole.nodes[0], whole.machine)
    generator = np.random.default_rng(1)
    tensors = {
        "x": generator.normal(size=(8, 5, 1, 1)),
        "dy": generator.normal(size=(8, 3, 1, 1)),
    }
    alone = layer.reference(tensors, Pass.BACKWARD_WEIGHT)
    found = shares.expected(layer, tensors, Pass.BACKWARD_WEIGHT, gpus)
    for port in ("dw", "db"):
        reference, bound, spread = found[port]
        assert np.allclose(reference, alone[port], rtol=1e-13, atol=1e-13)
        assert (spread.sigma > 0).all()
        assert (spread.sigma <= bound).all()
        parts = np.zeros_like(reference, dtype=np.float32)
        worst = np.zeros_like(reference)
        for at in range(gpus):
            share = {name: np.split(values, gpus)[at] for name, values in tensors.items()}
            exact = layer.reference(share, Pass.BACKWARD_WEIGHT)[port]
            error = layer.tolerance(share, Pass.BACKWARD_WEIGHT)[port]
            most = (exact + error).astype(np.float32)
            above = most.astype(np.float64) > exact + error
            parts = parts + np.where(above, np.nextafter(most, np.float32(-np.inf)), most)
            worst += error
        assert (np.abs(parts - alone[port]) <= bound).all()
        assert (bound > worst).all()


def test_rows_of_a_layer_without_sums_have_the_bounds_of_their_share() -> None:
    whole = lowered("fc_fwd", ("n", "4"), ("c", "5"), ("num_output", "3"))
    layer = make_layer(whole.nodes[0], whole.machine)
    generator = np.random.default_rng(1)
    tensors = {"x": generator.normal(size=(4, 5, 1, 1)), "w": generator.normal(size=(3, 5))}
    reference, bound, spread = shares.expected(layer, tensors, Pass.FORWARD, 2)["y"]
    assert spread.sigma.shape == bound.shape
    assert np.allclose(reference, layer.reference(tensors, Pass.FORWARD)["y"])
    half = {**tensors, "x": tensors["x"][2:]}
    assert (bound[2:] == layer.tolerance(half, Pass.FORWARD)["y"]).all()


# A bundle gets the folder with the shares when a run asks for it.


def test_a_folder_is_added_and_all_else_stays(tmp_path: Path) -> None:
    made = build(tmp_path / "b", small())
    (made.path / "results/cuda").mkdir(parents=True)
    (made.path / "results/cuda/complete").write_text(made.digest)
    before = tree(made.path)
    for content in (b"one", b"two"):
        made = bundles.extend(made, "cuda/gpus-2", {"src/a": File(content), "run": File(b"", True)})
        after = tree(made.path)
        assert after.pop("cuda/gpus-2/src/a") == content
        assert after.pop("cuda/gpus-2/run") == b""
        assert {k: v for k, v in after.items() if k != "manifest.json"} == {
            k: v for k, v in before.items() if k != "manifest.json"
        }
        assert bundles.load(made.path) == made
        bundles.verify(made, "cuda")
        assert made.results("cuda")


def test_files_that_the_new_folder_has_not_are_gone(tmp_path: Path) -> None:
    made = build(tmp_path / "b", small())
    made = bundles.extend(made, "cuda/gpus-2", {"a": File(b"a"), "b": File(b"b")})
    made = bundles.extend(made, "cuda/gpus-2", {"a": File(b"a")})
    assert not (made.path / "cuda/gpus-2/b").exists()
    bundles.verify(bundles.load(made.path), "cuda")


def test_a_folder_of_a_run_that_was_killed_is_replaced(tmp_path: Path) -> None:
    made = build(tmp_path / "b", small())
    torn = made.path / "cuda/gpus-2/half"
    torn.parent.mkdir()
    torn.write_text("half")
    made = bundles.extend(made, "cuda/gpus-2", {"a": File(b"a")})
    assert sorted(p.name for p in (made.path / "cuda").iterdir()) == ["gpus-2", "run.py", "run.sh"]
    assert [p.name for p in torn.parent.iterdir()] == ["a"]


def test_building_again_without_the_folder_keeps_the_results(tmp_path: Path) -> None:
    made = build(tmp_path / "b", small())
    made = bundles.extend(made, "cuda/gpus-2", {"a": File(b"a")})
    (made.path / "results/cuda").mkdir(parents=True)
    (made.path / "results/cuda/complete").write_text(made.digest)
    again = build(tmp_path / "b", small())
    assert again.results("cuda")
    assert not (again.path / "cuda/gpus-2").exists()


def test_every_stage_of_the_ring_has_another_chunk_on_every_gpu() -> None:
    """What the Go program does with the table, in Python: all GPUs end with the sum of all parts,
    and no launch reads what another of the same stage writes."""
    for gpus in range(2, sharding.MAX_GPUS + 1):
        parts = [{c: {(gpu, c)} for c in range(gpus)} for gpu in range(gpus)]
        sums: list[dict[int, set[tuple[int, int]]]] = [{} for _ in range(gpus)]
        for stage in range(gpus - 1):
            chunks = [(gpu - stage - 1) % gpus for gpu in range(gpus)]
            assert sorted(chunks) == list(range(gpus))
            before = [dict(each) for each in (sums if stage else parts)]
            for gpu, c in enumerate(chunks):
                sums[gpu][c] = parts[gpu][c] | before[gpu - 1][c]
        results = [{(gpu + 1) % gpus: sums[gpu][(gpu + 1) % gpus]} for gpu in range(gpus)]
        for stage in range(gpus - 1):
            before = [dict(each) for each in results]
            for gpu in range(gpus):
                c = (gpu - stage) % gpus
                results[gpu][c] = before[gpu - 1][c]
        everything = {c: set(itertools.product(range(gpus), [c])) for c in range(gpus)}
        assert results == [everything] * gpus
