"""Several GPUs on MGPUSim share the batch, add up gradients, and compute what one computes."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest
from loaded import program

import simgen as package
from simgen.bundle import finding, results
from simgen.bundle import writing as bundles
from simgen.frontend import config, network, problem
from simgen.ground.ir import DType, Kernel, Pass, Workload
from simgen.running import process
from simgen.targets.mgpusim.hardware import TOPOLOGIES
from simgen.targets.mgpusim.target import GPUS, MGPUSim
from simgen.tensors import data_file
from simgen.verdict import diff
from simgen.workload import lowering

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.kernels.build import Builder

lacks = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))

PROVENANCE = {"simgen": "test", "config": {}}
TIMEOUT = 900.0  # seconds; a run takes some, and building the simulator some minutes, once
NET = """\
[FullyConnected]
name=one
n=8
c=37
num_output=21
bias=true
[Activation]
name=act
previous_layer=one
[FullyConnected]
name=two
previous_layer=act
num_output=1
"""
GRADIENTS = ("one.dw", "one.db", "two.dw")


def lowered(name: str, *settings: tuple[str, str]) -> Workload:
    found = problem.find(name, settings, None)
    return lowering.lower(network.resolve(found.config, found.settings), name, found.passes, 0)


def training() -> Workload:
    """Forward and backward, with two launches of a step that writes two gradients."""
    made = network.resolve(config.parse(NET, "net.dnnmark"))
    return lowering.lower(made, "net", (Pass.FORWARD, Pass.BACKWARD), 0)


def write(place: Path, work: Workload, builder: Builder, arch: str = "gfx942") -> bundles.Bundle:
    return bundles.write(place / "b", work, [MGPUSim(arch=arch)], builder, PROVENANCE)


def run(bundle: bundles.Bundle, builder: Builder, gpus: int, mode: str = "emu") -> results.Result:
    target = MGPUSim(**bundle.targets["mgpusim"])
    options: Mapping[str, str | int] = {"gpus": gpus}
    name = target.package.extension(options)
    if name:
        files = target.package.extend(options, bundle.workload, builder)
        bundle = bundles.extend(bundle, f"mgpusim/{name}", files)
    environment = {"SIMGEN_GPUS": str(gpus), "SIMGEN_MODE": mode}
    folder = process.run(bundle, "mgpusim", timeout=TIMEOUT, environment=environment)
    result = results.collect(bundle, target, folder)
    results.save(result, bundle.workload, bundle.path / f"{gpus}-{mode}.h5")
    # The outputs are mapped from a file that the next run replaces.
    return results.load(bundle.path / f"{gpus}-{mode}.h5")


def bits(result: results.Result, name: str) -> np.ndarray:
    return result.outputs[name].values.view(np.uint32)


def differences(bundle: bundles.Bundle, a: results.Result, b: results.Result | None) -> diff.Diff:
    inputs = data_file.load(bundle.path / bundles.DATA, bundle.workload)
    return diff.diff(bundle.workload, inputs, a, b)


def check(bundle: bundles.Bundle, one: results.Result, several: results.Result) -> None:
    for other in (None, one):
        report = differences(bundle, several, other)
        assert report.passed, report.first_diverging
    assert all(o.guard_intact and not o.untouched for o in several.outputs.values())


@pytest.mark.parametrize(
    ("name", "arch"),
    [("softmax_fwd", "gfx942"), ("softmax_bwd", "gfx803"), ("activation_fwd", "gfx942")],
)
def test_samples_by_themselves_have_the_same_bits(
    tmp_path: Path, builder: Builder, name: str, arch: str
) -> None:
    work = lowered(name, ("n", "8"), ("c", "37"), ("h", "3"), ("w", "1"))
    bundle = write(tmp_path, work, builder, arch)
    one = run(bundle, builder, 1)
    for gpus in (2, 4):
        several = run(bundle, builder, gpus)
        check(bundle, one, several)
        for output in work.outputs:
            assert (bits(several, output.name) == bits(one, output.name)).all()
        assert several.provenance["gpus"] == gpus
        assert several.launches[0]["work_groups"] >= gpus
        assert not any(name.startswith("all_reduce") for name in several.launches[0])


def test_gradients_are_added_up_over_the_gpus(tmp_path: Path, builder: Builder) -> None:
    work = training()
    bundle = write(tmp_path, work, builder, "gfx942")
    one = run(bundle, builder, 1)
    for gpus in (2, 4):
        several = run(bundle, builder, gpus)
        check(bundle, one, several)
        reduced = [
            (step.layer, several.launches[at].get("all_reduce_launches"))
            for at, step in last_launches(work)
            if step.direction is Pass.BACKWARD_WEIGHT
        ]
        # Each stage launches once on each GPU, unless the tensor has fewer chunks: one.db has 21
        # elements, two.dw has 21 too.
        stages = 2 * (gpus - 1)
        ring = {2: {21: 4, 777: 4}, 4: {21: 18, 777: 24}}[gpus]
        assert reduced == [("two", ring[21]), ("one", ring[777] + ring[21])]
        assert ring[777] == stages * gpus


def last_launches(work: Workload):
    """(place in the order of launches, step) of the last launch of each step."""
    at = -1
    for step in work.steps:
        at += len(step.launches)
        yield at, step


CLASSIFIER = NET + "[CrossEntropy]\nname=loss\nprevious_layer=two\nignore_index=0\n"


def test_training_has_the_loss_of_one_gpu(tmp_path: Path) -> None:
    """Some labels do not count, and not as many on each GPU: no mean of means would be right."""
    (tmp_path / "net.dnnmark").write_text(CLASSIFIER.replace("num_output=1\n", "num_output=3\n"))
    plan = package.plan(
        tmp_path / "net.dnnmark", passes=("fwd", "bwd", "sgd"), optimizer="adam", steps=2
    )
    bundle = plan.build(tmp_path / "b", "mgpusim")
    losses = {}
    for gpus in (1, 4):
        result = bundle.run("mgpusim", options={"gpus": gpus})
        judged = bundle.diff()
        assert judged, judged.first_diverging
        losses[gpus] = [each.results["mgpusim"] for each in judged.losses]
        assert result.provenance["gpus"] == gpus
    inputs = data_file.load(bundle.path / bundles.DATA, plan.workload)
    labels = inputs["loss.labels"]
    assert len({int((part == 0).sum()) for part in np.split(labels, 4)}) > 1
    assert len(losses[1]) == 2
    assert losses[4] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize(("gpu", "arch"), GPUS.items())
def test_the_timing_model_adds_up_the_same(
    tmp_path: Path, builder: Builder, gpu: str, arch: str
) -> None:
    """Its caches keep lines between launches: what a neighbour has overwritten would be stale."""
    work = training()
    bundle = write(tmp_path, work, builder, arch)
    emulated = run(bundle, builder, 2)
    timed = run(bundle, builder, 2, "timing")
    for output in work.outputs:
        assert (bits(timed, output.name) == bits(emulated, output.name)).all()
    for before, after in zip(emulated.launches, timed.launches, strict=True):
        assert after["instructions"] == before["instructions"]
        assert ("all_reduce_seconds" in after) == ("all_reduce_launches" in before)
        assert after.get("all_reduce_seconds", 1.0) > 0
    alone = run(bundle, builder, 1, "timing")
    for together, one in zip(timed.launches, alone.launches, strict=True):
        # Both GPUs run at the same time: the launch overhead of microseconds is there once.
        assert together["seconds"] < 1.5 * one["seconds"]


def test_a_wrong_part_is_found(
    tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum is made by our kernel: with another one, exactly the gradients are wrong."""
    from simgen.kernels import render

    def spoilt(item: Kernel) -> str:
        text = kernel(item)
        assert "+term<i>(in##i.x)" in text or not is_add(item)
        return text.replace("+term<i>(in##i.x)", "-term<i>(in##i.x)") if is_add(item) else text

    def is_add(item: Kernel) -> bool:
        return item.name.startswith("all_reduce_add")

    kernel = render.kernel
    monkeypatch.setattr(render, "kernel", spoilt)
    bundle = write(tmp_path, training(), builder)
    report = differences(bundle, run(bundle, builder, 2), None)
    wrong = {verdict.tensor for verdict in report.verdicts if not verdict.passed}
    assert wrong == set(GRADIENTS)


def test_a_store_behind_a_share_is_seen(
    tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from simgen.kernels import render

    kernel = render.kernel

    def beyond(item: Kernel) -> str:
        text = kernel(item)
        assert "keep4(y + at, out)" in text  # relu's
        return text.replace("keep4(y + at, out)", "keep4(y + at + 4, out)")

    monkeypatch.setattr(render, "kernel", beyond)
    work = lowered("activation_fwd", ("n", "2"), ("c", "32"), ("h", "1"), ("w", "1"))
    bundle = write(tmp_path, work, builder)
    (output,) = run(bundle, builder, 2).outputs.values()
    assert not output.guard_intact
    assert (output.values.view("<u4").reshape(2, 32)[:, :4] == DType.F32.canary).all()


# The command line.


def simgen(where: Path, *words: object, code: int = 0) -> str:
    done = subprocess.run(
        [program(), *map(str, words)],
        cwd=where, capture_output=True, text=True, timeout=TIMEOUT,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def script(bundle: Path, gpus: str, replace: str = "") -> tuple[int, str]:
    done = subprocess.run(
        ["sh", str(bundle / "mgpusim/run.sh")],
        env={**os.environ, "SIMGEN_GPUS": gpus, "SIMGEN_REPLACE": replace},
        capture_output=True, text=True, timeout=TIMEOUT,
    )  # fmt: skip
    return done.returncode, done.stderr


def test_a_run_adds_what_the_bundle_lacks(tmp_path: Path) -> None:
    sizes = ("--set", "n=4", "--set", "c=10", "--set", "h=1", "--set", "w=1")
    simgen(tmp_path, "build", "softmax_fwd", *sizes, "--target", "mgpusim", "-o", "b")
    bundle = tmp_path / "b"
    assert script(bundle, "2")[0] == 2
    simgen(tmp_path, "run", "b", "--gpus", 2)
    simgen(tmp_path, "diff", "b")
    assert script(bundle, "2") == (0, "")
    assert script(bundle, "1")[0] == 4  # it would replace a result of other options
    assert script(bundle, "1", "yes") == (0, "")
    error = simgen(tmp_path, "run", "b", "--gpus", 3, code=2)
    assert error.count("\n") == 1
    assert "the batch of layer 'softmax' is 4, which is not a multiple; choose 2 or 4" in error
    assert "write 1 to 64" in simgen(tmp_path, "run", "b", "--gpus", 65, code=2)
    assert sorted(p.name for p in (bundle / "mgpusim").iterdir()) == [
        "gpus-2", "kernels", "run.sh", "runner",
    ]  # fmt: skip


def test_a_bundle_that_is_built_for_two_runs_on_two(tmp_path: Path) -> None:
    words = ("softmax_fwd", "--set", "n=4", "--set", "c=10", "--target", "mgpusim", "-o", "b")
    built = simgen(tmp_path, "build", *words, "--gpus", 2)
    assert "--gpus 2" in built  # in the command that reproduces it
    simgen(tmp_path, "run", "b")
    assert "emu, 2 x mi300a" in (tmp_path / "b/results/mgpusim/log.txt").read_text()
    error = simgen(tmp_path, "build", *words, "--gpus", "two", code=2)
    assert error.count("\n") == 1
    error = simgen(tmp_path, "build", "dropout_fwd", "--target", "mgpusim", "--gpus", 2, code=4)
    assert "layer 'dropout' ([Dropout]) needs the whole batch" in error


def test_a_damaged_table_is_refused(tmp_path: Path) -> None:
    words = ("softmax_fwd", "--set", "n=4", "--set", "c=10", "--target", "mgpusim", "-o", "b")
    simgen(tmp_path, "build", *words, "--gpus", 2)
    table = tmp_path / "b/mgpusim/gpus-2/shards.json"
    table.write_text(table.read_text().replace('"gpus": 2', '"gpus": 4'))
    assert simgen(tmp_path, "run", "b", code=7).count("\n") == 1
    code, error = script(tmp_path / "b", "2")
    assert code == 7
    assert "shards.json: changed since it was built; build the bundle again" in error


# Launches of an all-reduce of 1001 elements: of a ring 2 (n - 1) stages on all GPUs, of a tree one
# for each edge, up and down.
REDUCED = {"ring": {2: 4, 3: 12, 6: 60}, "tree": {2: 2, 3: 4, 6: 10}}


@pytest.mark.parametrize("route", REDUCED)
def test_an_all_reduce_leaves_the_sum_on_all_gpus(
    tmp_path: Path, builder: Builder, route: str
) -> None:
    settings = (("n", "6"), ("c", "1001"), ("h", "1"), ("w", "1"), ("route", route))
    bundle = write(tmp_path, lowered("all_reduce_fwd", *settings), builder)
    for gpus, launches in REDUCED[route].items():
        several = run(bundle, builder, gpus)  # which compares what the GPUs have
        assert differences(bundle, several, None).passed
        (measured,) = several.launches
        assert measured["all_reduce_launches"] == launches
        assert measured["all_reduce_bytes"] == 4004
        assert measured["all_reduce_bus_bytes"] == pytest.approx(4004 * 2 * (gpus - 1) / gpus)
    timed = run(bundle, builder, 3, "timing")
    assert differences(bundle, timed, several).passed
    assert timed.launches[0]["all_reduce_seconds"] > 0


def test_sixteen_ranks_have_the_sum_and_four_over_every_topology(tmp_path: Path) -> None:
    """A ring takes 2 (n - 1) stages on all n GPUs. Where all are at one switch, neighbours are one
    switch apart; of pairs, every other two are three apart, which takes longer."""
    sizes = ("--set", "n=16", "--set", "c=256")
    simgen(tmp_path, "build", "all_reduce_fwd", *sizes, "-t", "mgpusim", "--gpus", 16, "-o", "b")
    simgen(tmp_path, "run", "b")
    times = {}
    for topology in TOPOLOGIES:
        timing = ("--mode", "timing", "--num-compute-units", 1, "--topology", topology)
        simgen(tmp_path, "run", "b", "--gpus", 4, *timing)
        name = f"mgpusim@mode=timing,num_compute_units=1,topology={topology},gpus=4"
        with bundles.opened(tmp_path / "b") as made:
            (launch,) = finding.find_result(made, name).launches
        assert launch["all_reduce_launches"] == 2 * 3 * 4
        times[topology] = launch["all_reduce_seconds"]
    simgen(tmp_path, "diff", "b", "--strict")
    assert times["star"] < times["pairs"]
    error = simgen(tmp_path, "run", "b", "--topology", "ring", code=2)
    assert error.count("\n") == 1
