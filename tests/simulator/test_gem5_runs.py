"""The gem5-se target on gem5 itself. GEM5 names a checkout with build/VEGA_X86/gem5.opt."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import narrow
import numpy as np
import pytest
from layer_variants import small_problems

from simgen.bundle import finding, results
from simgen.bundle import writing as bundles
from simgen.check import diff
from simgen.errors import DamagedError, RunError
from simgen.frontend import config, network, problem
from simgen.ir import (
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
from simgen.running import process
from simgen.targets.base import Job
from simgen.targets.gem5 import stats
from simgen.targets.gem5.se import Gem5Se
from simgen.tensors import data_file
from simgen.workload import lowering

if TYPE_CHECKING:
    from simgen.bundle.writing import Bundle
    from simgen.compile.build import Builder

lacks = Gem5Se().needs.missing()
pytestmark = [
    pytest.mark.gem5,
    pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks))),
]

PROVENANCE = {"simgen": "test", "config": {}, "command": "test"}
TIMEOUT = 1200.0  # seconds; a run here takes a few

# A small case of each kernel: rows that do not fill a work-group, and sizes that no block divides.
CASES = [
    ("softmax", "fwd", {"n": "5", "c": "37", "h": "1", "w": "1"}),
    ("softmax", "fwd", {"n": "2", "c": "10", "h": "3", "w": "7"}),
    ("softmax", "bwd", {"n": "5", "c": "300", "h": "1", "w": "1"}),
    ("activation", "fwd", {"n": "3", "c": "5", "h": "7", "w": "11"}),
    ("activation", "bwd", {"n": "3", "c": "5", "h": "7", "w": "11"}),
    (  # a work-group has one feature, whose statistics it loads as scalars
        "bn",
        "fwd",
        {
            "n": "1",
            "c": "3",
            "h": "32",
            "w": "32",
            "batchnorm_mode": "spatial",
            "batchnorm_statistics": "running",
        },
    ),
]


def lowered(kind: str, direction: str, sizes: dict[str, str]) -> Workload:
    sections = (network.sample_section(kind),)
    resolved = network.resolve(config.Config("test", sections, ()), list(sizes.items()))
    return lowering.lower(resolved, f"{kind}_{direction}", [Pass(direction)], 0)


def ran(bundle: Bundle) -> results.Result:
    folder = process.run(bundle, "gem5-se", timeout=TIMEOUT)
    return results.collect(bundle, finding.target_of(bundle, "gem5-se"), folder)


def judged(bundle: Bundle, result: results.Result) -> diff.Diff:
    inputs = data_file.load(bundle.path / bundles.DATA, bundle.workload)
    return diff.diff(bundle.workload, inputs, result, None)


def instructions(bundle: Bundle) -> int:
    return sum(stats.cpu_instructions(bundle.path / "results/gem5-se" / stats.FILE))


@pytest.mark.parametrize("arch", ["gfx902", "gfx900"])
@pytest.mark.parametrize(("name", "settings"), small_problems())
def test_every_layer_and_pass_computes_what_the_reference_says(
    place: Path, builder: Builder, name: str, settings: tuple[str, ...], arch: str
):
    found = problem.find(name, [(k, v) for k, _, v in (s.partition("=") for s in settings)], None)
    resolved = network.resolve(found.config, found.settings)
    work = lowering.lower(resolved, name, found.passes, 0)
    bundle = bundles.write(place / "b", work, [Gem5Se(arch=arch)], builder, PROVENANCE)
    result = ran(bundle)
    assert judged(bundle, result).passed
    assert all(o.guard_intact and not o.untouched for o in result.outputs.values())


@pytest.mark.parametrize("dtype", narrow.TYPES)
def test_a_network_of_narrow_tensors_is_right(place: Path, builder: Builder, dtype: str):
    bundle = bundles.write(place / "b", narrow.planned(dtype), [Gem5Se()], builder, PROVENANCE)
    assert narrow.wrong(bundle, ran(bundle)) == []


@pytest.mark.parametrize(("kind", "direction", "sizes"), CASES)
def test_kernels_compute_what_the_reference_says(
    place: Path, builder: Builder, kind: str, direction: str, sizes: dict[str, str]
):
    work = lowered(kind, direction, sizes)
    bundle = bundles.write(place / "b", work, [Gem5Se()], builder, PROVENANCE)
    result = ran(bundle)
    assert judged(bundle, result).passed
    assert all(o.guard_intact and not o.untouched for o in result.outputs.values())
    for metrics in result.launches:
        assert metrics["seconds"] > 0
        assert metrics["shader_active_ticks"] > 0
        assert metrics["instructions"] > 0
        assert metrics["vector_memory_writes"] > 0


def test_loads_past_l1_never_hit_there(place: Path, builder: Builder):
    work = lowered("pool", "fwd", {"n": "1", "c": "2", "h": "16", "w": "16"})
    found = {}
    for policy in ("cached", "bypass"):
        bundle = bundles.write(place / policy, work, [Gem5Se(l1=policy)], builder, PROVENANCE)
        found[policy] = ran(bundle)
        assert judged(bundle, found[policy]).passed
    (cached,), (bypass,) = found["cached"].launches, found["bypass"].launches
    assert cached["l1_hits"] > 0
    assert bypass["l1_hits"] == 0
    assert bypass["l1_misses"] == cached["l1_hits"] + cached["l1_misses"]
    assert bypass["instructions"] == cached["instructions"]


def test_the_discrete_gpu_computes_the_same(place: Path, builder: Builder):
    work = lowered(*CASES[0])
    bits = []
    for arch in ("gfx902", "gfx900"):
        target = Gem5Se(arch=arch)
        bundle = bundles.write(place / arch, work, [target], builder, PROVENANCE)
        result = ran(bundle)
        assert judged(bundle, result).passed
        bits.append([o.values.tobytes() for o in result.outputs.values()])
    assert bits[0] == bits[1]


def test_other_hardware_computes_the_same_in_another_time(place: Path, builder: Builder):
    work = lowered("activation", "fwd", {"n": "8", "c": "16", "h": "32", "w": "32"})
    bundle = bundles.write(place / "b", work, [Gem5Se()], builder, PROVENANCE)
    bits, ticks, said = [], [], []
    for given in ({}, {"num_compute_units": "2"}, {"gpu_clock": "750MHz"}):
        variables = {Gem5Se.run_options[name].variable: value for name, value in given.items()}
        folder = process.run(bundle, "gem5-se", timeout=TIMEOUT, environment=variables)
        result = results.collect(bundle, Gem5Se(), folder)
        assert judged(bundle, result).passed
        bits.append([output.values.tobytes() for output in result.outputs.values()])
        ticks.append([metrics["shader_active_ticks"] for metrics in result.launches])
        said.append(Gem5Se().reader.machine(folder).get("gem5_options"))
    assert bits[0] == bits[1] == bits[2]
    assert len({tuple(each) for each in ticks}) == len(ticks)
    assert said == [None, "--num-compute-units=2", "--gpu-clock=750MHz"]


def test_pseudo_instructions_change_no_result(place: Path, builder: Builder):
    work = lowered(*CASES[0])
    bundle = bundles.write(place / "b", work, [Gem5Se(m5ops=True)], builder, PROVENANCE)
    assert judged(bundle, ran(bundle)).passed
    log = (bundle.path / "results/gem5-se/log.txt").read_text()
    assert log.count("m5 work begin dump and reset") == len(work.steps)
    assert log.count("m5 work end dump and reset") == len(work.steps)


def test_the_cpu_has_next_to_nothing_to_do_whatever_the_size(place: Path, builder: Builder):
    counts = []
    for c in ("64", "4096"):
        work = lowered("activation", "fwd", {"n": "8", "c": c, "h": "1", "w": "1"})
        bundle = bundles.write(place / c, work, [Gem5Se()], builder, PROVENANCE)
        ran(bundle)
        counts.append(instructions(bundle))
    # The polls of the completion signal's value may differ by a few.
    assert max(counts) - min(counts) < 100
    assert max(counts) < 300 + 150 * len(work.launches)


def test_simulated_time_does_not_depend_on_place_or_environment(place: Path, builder: Builder):
    work = lowered(*CASES[0])
    ticks = []
    for folder, home in (("a", "/"), ("a much longer name", "/home/of somebody/else")):
        bundle = bundles.write(place / folder, work, [Gem5Se()], builder, PROVENANCE)
        process.run(bundle, "gem5-se", timeout=TIMEOUT, environment={"HOME": home})
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
    place: Path, builder: Builder, source: str, launches: int, *, gem5_version: str = "24.0"
) -> tuple[Workload, Path]:
    work = chain(launches)
    job = Job(work, {"add": source}, data_file.data_id(work), "0" * 64)
    for name, file in Gem5Se(gem5_version=gem5_version).package.folder(job, builder).items():
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


def test_launches_are_told_apart_on_a_gem5_that_dumps_no_statistics(
    place: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GEM5", str(silent(place)))
    work, root = handmade(place / "old", builder, ADD, 3, gem5_version="23.1")
    assert script(root) == 0
    metrics = Gem5Se().reader.metrics(root / "results/gem5-se", work)
    assert [m["shader_active_ticks"] > 0 for m in metrics] == [True] * 3
    _, root = handmade(place / "new", builder, ADD, 3, gem5_version="24.0")
    assert script(root) == 5
    assert "1 kernels ran, of 3, on gem5 " in (root / "stderr").read_text()


def test_dumping_twice_does_no_harm(place: Path, builder: Builder):
    work, root = handmade(place, builder, ADD, 3, gem5_version="23.1")
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


def test_a_changed_bundle_is_refused_before_the_run(place: Path, builder: Builder):
    bundle = bundles.write(place / "b", lowered(*CASES[0]), [Gem5Se()], builder, PROVENANCE)
    shutil.copy(bundle.path / "manifest.json", bundle.path / "gem5-se/binary")
    with pytest.raises(DamagedError):
        process.run(bundle, "gem5-se", timeout=TIMEOUT)


def test_a_run_that_takes_too_long_is_ended(place: Path, builder: Builder):
    bundle = bundles.write(place / "b", lowered(*CASES[0]), [Gem5Se()], builder, PROVENANCE)
    with pytest.raises(RunError, match=r"longer than 0\.1 s"):
        process.run(bundle, "gem5-se", timeout=0.1)
    assert not list((bundle.path / "results").glob("*"))
