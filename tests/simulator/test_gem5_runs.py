"""The gem5-se target on gem5 itself. GEM5 names a checkout with build/VEGA_X86/gem5.opt."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import gem5_here
import narrow
import numpy as np
import pytest
from layer_variants import problems_of_one_gpu

import simgen
from simgen.bundle import writing as bundles
from simgen.errors import DamagedError, RunError
from simgen.ground.ir import (
    Buffer,
    Distribution,
    DType,
    Fill,
    Kernel,
    Launch,
    Pass,
    Role,
    Step,
    TensorSpec,
    Workload,
)
from simgen.isa.legalise import history
from simgen.targets.base import Job
from simgen.targets.gem5 import apu_se, stats
from simgen.targets.gem5.se import Gem5Se
from simgen.tensors import data_file

if TYPE_CHECKING:
    from simgen import BuiltBundle, Result
    from simgen.kernels.build import Builder

lacks = Gem5Se().needs.missing()
pytestmark = [
    pytest.mark.gem5,
    pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks))),
]

PROVENANCE = {"simgen": "test", "config": {}, "command": "test"}
TIMEOUT = 1200.0  # seconds; a run here takes a few
DUMPS = pytest.mark.skipif(
    not apu_se.VERSIONS[gem5_here.VERSION].dumps, reason="its apu_se.py dumps no statistics"
)

# A small case of each kernel: rows that do not fill a work-group, and sizes that no block divides.
CASES = [
    ("softmax_fwd", {"n": 5, "c": 37, "h": 1, "w": 1}),
    ("softmax_fwd", {"n": 2, "c": 10, "h": 3, "w": 7}),
    ("softmax_bwd", {"n": 5, "c": 300, "h": 1, "w": 1}),
    ("activation_fwd", {"n": 3, "c": 5, "h": 7, "w": 11}),
    ("activation_bwd", {"n": 3, "c": 5, "h": 7, "w": 11}),
    (  # a work-group has one feature, whose statistics it loads as scalars
        "bn_fwd",
        {
            "n": 1,
            "c": 3,
            "h": 32,
            "w": 32,
            "batchnorm_mode": "spatial",
            "batchnorm_statistics": "running",
        },
    ),
]
SMALL = CASES[0]


def ran(bundle: BuiltBundle, **options: str | int) -> Result:
    return bundle.run("gem5-se", timeout=TIMEOUT, options=options)


def instructions(bundle: BuiltBundle) -> int:
    return sum(stats.cpu_instructions(bundle.path / "results/gem5-se" / stats.FILE))


@pytest.mark.parametrize("arch", gem5_here.ARCHS[:2])
@pytest.mark.parametrize(("name", "settings"), problems_of_one_gpu())
def test_every_layer_and_pass_computes_what_the_reference_says(
    place: Path, name: str, settings: tuple[str, ...], arch: str
):
    plan = simgen.plan(name, set=dict(each.split("=") for each in settings))
    bundle = plan.build(place / "b", Gem5Se(arch=arch))
    result = ran(bundle)
    assert bundle.diff("gem5-se")
    assert all(o.guard_intact and not o.untouched for o in result.outputs.values())


@pytest.mark.parametrize("dtype", narrow.TYPES)
def test_a_network_of_narrow_tensors_is_right(place: Path, builder: Builder, dtype: str):
    bundle = bundles.write(place / "b", narrow.planned(dtype), [Gem5Se()], builder, PROVENANCE)
    result = ran(simgen.load(bundle.path))
    assert narrow.wrong(bundle, result) == []


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_kernels_compute_what_the_reference_says(place: Path, name: str, sizes: dict[str, int]):
    bundle = simgen.plan(name, set=sizes).build(place / "b", "gem5-se")
    result = ran(bundle)
    assert bundle.diff("gem5-se")
    assert all(o.guard_intact and not o.untouched for o in result.outputs.values())
    for metrics in result.launches:
        assert metrics["seconds"] > 0
        assert metrics["shader_active_ticks"] > 0
        assert metrics["instructions"] > 0
        assert metrics["vector_memory_writes"] > 0


MATRIX = [  # each type on each GPU, each form, and each layer that has them
    ("gfx90a", "f32", "gemm_fwd", {"m": 67, "n": 132, "k": 70, "b_t": "true", "beta": 0.5}),
    ("gfx90a", "f16", "gemm_fwd", {"m": 32, "n": 32, "k": 64}),
    ("gfx90a", "i8", "gemm_fwd", {"m": 67, "n": 132, "k": 70}),
    ("gfx942", "f32", "fc_bwd", {"n": 20, "c": 36, "h": 1, "w": 1, "num_output": 40}),
    ("gfx942", "f16", "gemm_fwd", {"m": 67, "n": 132, "k": 70, "beta": 0.5}),
    ("gfx942", "bf16", "gemm_fwd", {"m": 67, "n": 132, "k": 70}),
    ("gfx942", "bf16", "conv_bwd", {"n": 1, "c": 16, "h": 8, "w": 8, "num_output": 32,
                                    "algo": "implicit_gemm"}),
    # The first of two launches has a store to LDS for which two of four wavefronts have no lane.
    ("gfx90a", "f16", "gemm_fwd", {"m": 33, "n": 50, "k": 128, "transb": "true", "b_type": "i4",
                                   "b_scale": 0.02, "group_size": 128}),
]  # fmt: skip


@pytest.mark.skipif("gfx90a" not in gem5_here.ARCHS, reason="has no matrix instructions")
@pytest.mark.parametrize(("arch", "dtype", "name", "sizes"), MATRIX)
def test_matrix_instructions_compute_what_the_reference_says(
    place: Path, arch: str, dtype: str, name: str, sizes: dict[str, int | float | str]
):
    """Of narrow types by the bounds of this gem5, which rounds products."""
    plan = simgen.plan(name, set=sizes, type=dtype, plan_for=f"gem5-se-{arch}", matrix="yes")
    bundle = plan.build(place / "b", Gem5Se(arch=arch))
    result = ran(bundle)
    assert bundle.diff("gem5-se")
    rounded = [each["factors"] for each in result.provenance.get("rounds_products", [])]
    assert rounded == ([dtype] if dtype in ("f16", "bf16") else [])
    assert all(o.guard_intact and not o.untouched for o in result.outputs.values())


def test_loads_past_l1_never_hit_there(place: Path):
    plan = simgen.plan("pool_fwd", set={"n": 1, "c": 2, "h": 16, "w": 16})
    found = {}
    for policy in ("cached", "bypass"):
        bundle = plan.build(place / policy, Gem5Se(l1=policy))
        found[policy] = ran(bundle)
        assert bundle.diff("gem5-se")
    (cached,), (bypass,) = found["cached"].launches, found["bypass"].launches
    assert cached["l1_hits"] > 0
    rows = history.launches(gem5_here.VERSION, gem5_here.ARCHS[0])
    leaves = any(row.name == "bypassed_loads" for row in rows)
    assert (bypass["l1_hits"] > 0) is leaves
    assert leaves or bypass["l1_misses"] == cached["l1_hits"] + cached["l1_misses"]
    assert bypass["instructions"] == cached["instructions"]


def test_the_discrete_gpu_computes_the_same(place: Path):
    archs = gem5_here.ARCHS[:2]
    plan = simgen.plan(SMALL[0], set=SMALL[1], plan_for=apu_se.machine(archs[0]))
    bits = []
    for arch in archs:
        bundle = plan.build(place / arch, Gem5Se(arch=arch))
        result = ran(bundle)
        assert bundle.diff("gem5-se")
        bits.append([o.values.tobytes() for o in result.outputs.values()])
    assert bits[0] == bits[1]


def test_other_hardware_computes_the_same_in_another_time(place: Path):
    plan = simgen.plan("activation_fwd", set={"n": 8, "c": 16, "h": 32, "w": 32})
    bundle = plan.build(place / "b", "gem5-se")
    bits, ticks, said = [], [], []
    for given in ({}, {"num_compute_units": 2}, {"gpu_clock": "750MHz"}):
        result = ran(bundle, **given)
        assert bundle.diff("gem5-se")
        bits.append([output.values.tobytes() for output in result.outputs.values()])
        ticks.append([metrics["shader_active_ticks"] for metrics in result.launches])
        said.append(result.provenance["machine"].get("gem5_options"))
    assert bits[0] == bits[1] == bits[2]
    assert len({tuple(each) for each in ticks}) == len(ticks)
    assert said == [None, "--num-compute-units=2", "--gpu-clock=750MHz"]


@DUMPS
def test_pseudo_instructions_change_no_result(place: Path):
    plan = simgen.plan(SMALL[0], set=SMALL[1])
    bundle = plan.build(place / "b", Gem5Se(m5ops=True))
    ran(bundle)
    assert bundle.diff("gem5-se")
    log = (bundle.path / "results/gem5-se/log.txt").read_text()
    assert log.count("m5 work begin dump and reset") == len(plan.workload.steps)
    assert log.count("m5 work end dump and reset") == len(plan.workload.steps)


def test_the_cpu_has_next_to_nothing_to_do_whatever_the_size(place: Path):
    counts = []
    for c in (64, 4096):
        plan = simgen.plan("activation_fwd", set={"n": 8, "c": c, "h": 1, "w": 1})
        bundle = plan.build(place / str(c), "gem5-se")
        ran(bundle)
        counts.append(instructions(bundle))
        assert counts[-1] < 300 + 150 * len(plan.workload.launches)
    # The polls of the completion signal's value may differ by a few.
    assert max(counts) - min(counts) < 100


def test_simulated_time_does_not_depend_on_place_or_environment(
    place: Path, monkeypatch: pytest.MonkeyPatch
):
    plan, ticks = simgen.plan(SMALL[0], set=SMALL[1]), []
    for folder, home in (("a", "/"), ("a much longer name", "/home/of somebody/else")):
        bundle = plan.build(place / folder, "gem5-se")
        with monkeypatch.context() as changed:
            changed.setenv("HOME", home)
            ran(bundle)
        dumps = stats.blocks(bundle.path / "results/gem5-se" / stats.FILE)
        ticks.append([dump["simTicks"] for dump in dumps])
    assert ticks[0] == ticks[1]


def chain(launches: int) -> Workload:
    """Each launch adds 1 to the output of the one before it: wrong order, wrong result. One step:
    what several steps leave for a run that goes on takes instructions of its own."""
    spec = TensorSpec((256,))
    buffers = [Buffer("in.x", spec, Role.INPUT, 0, Fill(Distribution.UNIFORM, 0.0, 1.0))]
    launched = []
    for i in range(launches):
        buffers.append(Buffer(f"add{i}.y", spec, Role.OUTPUT, (i + 1) * 8192))
        launched.append(Launch("add", (4, 1, 1), (buffers[-2].name, buffers[-1].name)))
    writes = tuple((f"y{i}", buffer.name) for i, buffer in enumerate(buffers[1:]))
    step = Step("add", Pass.FORWARD, (("x", "in.x"),), writes, tuple(launched))
    kernels = (Kernel("add", "add.hip", 64),)
    size = (launches + 1) * 8192
    return Workload("chain", 0, (), tuple(buffers), kernels, (step,), size, 8192)


def exchanged() -> Workload:
    """Each half of the result is made of the other half of x, by arguments that begin there."""
    whole = chain(1)
    (step,) = whole.steps
    halves = tuple(
        Launch("add", (2, 1, 1), ("in.x", "add0.y"), (begin, 512 - begin)) for begin in (512, 0)
    )
    return replace(whole, steps=(replace(step, launches=halves),))


ADD = """\
#include "prelude.h"
extern "C" __global__ void __launch_bounds__(64) add(const float* x, float* y)
{
    y[blockIdx.x * 64 + threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x] + 1.0f;
}
"""
NOTHING = """\
#include "prelude.h"
extern "C" __global__ void __launch_bounds__(64) add(const float* x, float* y)
{
    if (x[threadIdx.x] > 1e30f)
        y[threadIdx.x] = 0.0f;
}
"""
OUTSIDE = """\
#include "prelude.h"
extern "C" __global__ void __launch_bounds__(64) add(const float* x, float* y)
{
    y[threadIdx.x + (1ul << 40)] = x[threadIdx.x];
}
"""


def handmade(
    place: Path,
    builder: Builder,
    source: str,
    launches: int,
    *,
    planned: Workload | None = None,
) -> tuple[Workload, Path]:
    work = planned or chain(launches)
    job = Job(work, {"add": source}, data_file.data_id(work), "0" * 64)
    for name, file in Gem5Se(gem5_version=gem5_here.VERSION).package.folder(job, builder).items():
        path = place / "gem5-se" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(0o755 if file.executable else 0o644)
    data_file.write_data(place / bundles.DATA, work)
    return work, place


def script(place: Path) -> int:
    return os.waitstatus_to_exitcode(os.system(f'sh "{place}/gem5-se/run.sh" 2>"{place}/stderr"'))


def outputs(work: Workload, place: Path) -> dict[str, np.ndarray]:
    raw = (place / "results/gem5-se/outputs.bin").read_bytes()
    return {
        b.name: np.frombuffer(raw, "<u4", b.spec.size + 1024, b.offset - work.outputs_offset)
        for b in work.outputs
    }


def test_more_launches_than_the_ring_has_packets_run_in_order(place: Path, builder: Builder):
    work, root = handmade(place, builder, ADD, 70)
    assert script(root) == 0
    expected = np.array(data_file.load(root / bundles.DATA, work)["in.x"])
    for buffer in outputs(work, root).values():
        expected = expected + np.float32(1)
        np.testing.assert_array_equal(buffer[:256].view("<f4"), expected)
        assert (buffer[256:] == DType.F32.canary).all()
    metrics = Gem5Se().reader.metrics(root / "results/gem5-se", work)
    assert len(metrics) == 70
    path = root / "results/gem5-se" / stats.FILE
    assert sum(stats.cpu_instructions(path)) < 300 + 150 * 70


def test_arguments_may_begin_within_a_tensor(place: Path, builder: Builder):
    work, root = handmade(place, builder, ADD, 1, planned=exchanged())
    assert script(root) == 0
    x = np.array(data_file.load(root / bundles.DATA, work)["in.x"])
    (buffer,) = outputs(work, root).values()
    np.testing.assert_array_equal(buffer[:256].view("<f4"), np.roll(x, 128) + np.float32(1))
    assert (buffer[256:] == DType.F32.canary).all()


def silent(place: Path) -> Path:
    """GEM5 with the apu_se.py of 23.1: no kernel's end and no m5_work_* dumps statistics."""
    root, checkout = Path(os.environ["GEM5"]), place / "gem5"
    shutil.copytree(root / "configs", checkout / "configs")
    (checkout / "build").symlink_to(root / "build")
    path = checkout / "configs/example/apu_se.py"
    text = path.read_text()
    for switch in ("kernel_exit_events=True", "exit_on_work_items = True"):
        assert text.count(switch) == 1
        text = text.replace(switch, switch.replace("True", "False"))
    path.write_text(text)
    return checkout


def told_that_none_is_dumped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher is made for this version as if it were as old as 23.1."""
    version = gem5_here.VERSION
    old = replace(apu_se.VERSIONS[version], dumps=False)
    monkeypatch.setitem(apu_se.VERSIONS, version, old)


@DUMPS
def test_launches_are_told_apart_on_a_gem5_that_dumps_no_statistics(
    place: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GEM5", str(silent(place)))
    with monkeypatch.context() as changed:
        told_that_none_is_dumped(changed)
        work, root = handmade(place / "old", builder, ADD, 3)
    assert script(root) == 0
    metrics = Gem5Se().reader.metrics(root / "results/gem5-se", work)
    assert [m["shader_active_ticks"] > 0 for m in metrics] == [True] * 3
    _, root = handmade(place / "new", builder, ADD, 3)
    assert script(root) == 5
    assert "1 kernels ran, of 3, on gem5 " in (root / "stderr").read_text()


@DUMPS
def test_dumping_twice_does_no_harm(place: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch):
    told_that_none_is_dumped(monkeypatch)
    work, root = handmade(place, builder, ADD, 3)
    assert script(root) == 0
    assert len(Gem5Se().reader.metrics(root / "results/gem5-se", work)) == 3


def test_an_output_that_no_kernel_writes_keeps_the_canary(place: Path, builder: Builder):
    work, root = handmade(place, builder, NOTHING, 1)
    assert script(root) == 0
    assert (outputs(work, root)["add0.y"] == DType.F32.canary).all()


def test_an_access_outside_is_explained(place: Path, builder: Builder):
    _, root = handmade(place, builder, OUTSIDE, 1)
    assert script(root) == 5
    log = (root / "results/failed-gem5-se/log.txt").read_text()
    assert "not mapped" in (Gem5Se().watcher.diagnosis(log) or "")


def test_a_changed_data_file_is_refused_by_the_program(place: Path, builder: Builder):
    _, root = handmade(place, builder, ADD, 1)
    path = root / bundles.DATA
    path.write_bytes(path.read_bytes()[:-1])
    assert script(root) == 7
    assert "is truncated or too long" in (root / "stderr").read_text()


def test_a_changed_bundle_is_refused_before_the_run(place: Path):
    bundle = simgen.plan(SMALL[0], set=SMALL[1]).build(place / "b", "gem5-se")
    shutil.copy(bundle.path / "manifest.json", bundle.path / "gem5-se/binary")
    with pytest.raises(DamagedError):
        ran(bundle)


def test_a_run_that_takes_too_long_is_ended(place: Path):
    bundle = simgen.plan(SMALL[0], set=SMALL[1]).build(place / "b", "gem5-se")
    with pytest.raises(RunError, match=r"longer than 0\.1 s"):
        bundle.run("gem5-se", timeout=0.1)
    assert not list((bundle.path / "results").glob("*"))
