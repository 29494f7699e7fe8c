"""Simulations that are ended in the middle and go on; simulations of some layers; what a user is
told where gem5 dies."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from interrupting import go_on, outputs, scripts, stop
from network_bundles import TRAINING, built, failures

import simgen
from simgen.bundle import result_names, results
from simgen.bundle import writing as bundles
from simgen.errors import RunError
from simgen.kernels import render
from simgen.running import process, run_folder, selection
from simgen.targets import own_sources
from simgen.targets.gem5 import stats
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.mgpusim.target import MGPUSim
from simgen.tensors import data_file
from simgen.verdict import diff

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen import PlannedBuild
    from simgen.bundle.writing import Bundle
    from simgen.targets import Target

TIMEOUT = 900.0
KEEP = {"SIMGEN_KEEP": "yes"}  # also in runs of seconds
CHAIN = (
    "[Bypass]\nname=copy\nn=4\nc=64\nprevious_layer=null\n"
    "[Activation]\nname=act\nprevious_layer=copy\n"
    "[Softmax]\nname=soft\nprevious_layer=act\n"
)


def lacking(target: Target) -> pytest.MarkDecorator:
    lacks = target.needs.missing()
    return pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))


SIMULATORS = [
    pytest.param(MGPUSim(), marks=lacking(MGPUSim()), id="mgpusim"),
    pytest.param(Gem5Se(), marks=[pytest.mark.gem5, lacking(Gem5Se())], id="gem5-se"),
]
on_gem5 = [pytest.mark.gem5, lacking(Gem5Se())]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder where gem5 does not redirect."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as root:
        if Gem5Se().needs.refusal(Path(root)):
            pytest.skip("/var/tmp is a link to a place that gem5 redirects")
        yield Path(root)


def collected(made: Bundle, target: Target, name: str) -> results.Result:
    folder = made.results(name)
    assert folder
    return results.collect(made, target, folder, name)


def wrong(made: Bundle, result: results.Result) -> list[str]:
    inputs = data_file.load(made.path / bundles.DATA, made.workload)
    report = diff.diff(made.workload, inputs, result, None)
    assert report.verdicts
    return failures(report)


@pytest.mark.parametrize("target", SIMULATORS)
def test_an_ended_simulation_goes_on_to_the_same_bits(place: Path, target: Target) -> None:
    batch = 16 if target.name == "mgpusim" else 1  # seconds on either
    made = built(place / "net", simgen.plan("lenet5", set={"n": batch}), target)
    process.run(made, target.name, timeout=TIMEOUT)
    whole = outputs(made, target.name)
    counted = collected(made, target, target.name).launches
    told = stop(made, target.name, 1, signal.SIGINT)
    assert f"--on {target.name} --resume" in told
    stop(made, target.name, 3, signal.SIGKILL, "--resume")
    go_on(made, target.name)
    assert outputs(made, target.name) == whole
    result = collected(made, target, target.name)
    assert wrong(made, result) == []
    # Caches are cold where it went on, but it executed the same.
    assert [each["instructions"] for each in result.launches] == [
        each["instructions"] for each in counted
    ]
    first, second = result.provenance["resumed"]
    assert 1 <= first < second < len(counted)


@lacking(MGPUSim())
def test_gpus_that_share_the_batch_go_on(place: Path) -> None:
    plan = simgen.plan("lenet5", set={"n": 4}, passes=TRAINING)
    made = built(place / "net", plan, MGPUSim(gpus=2))
    process.run(made, "mgpusim", timeout=TIMEOUT)
    whole = outputs(made, "mgpusim")
    stop(made, "mgpusim", 9, signal.SIGKILL)  # in the backward passes
    go_on(made, "mgpusim")
    assert outputs(made, "mgpusim") == whole
    assert wrong(made, collected(made, MGPUSim(gpus=2), "mgpusim")) == []


@lacking(MGPUSim())
def test_the_timing_model_keeps_nothing_unless_asked(place: Path) -> None:
    made = built(place / "net", chain(place), MGPUSim())
    planned = made.workload
    hits = {}
    for keep in ("no", "yes"):
        variables = {"SIMGEN_MODE": "timing", "SIMGEN_KEEP": keep}
        folder = process.run(made, "mgpusim", environment=variables, timeout=TIMEOUT)
        hits[keep] = [m["l2_hits"] for m in MGPUSim().reader.metrics(folder, planned)]
    default = process.run(made, "mgpusim", environment={"SIMGEN_MODE": "timing"}, timeout=TIMEOUT)
    assert [m["l2_hits"] for m in MGPUSim().reader.metrics(default, planned)] == hits["no"]
    # What the layer before left is in the cache, unless it was emptied to read it.
    assert hits["no"][1] > hits["yes"][1]


@pytest.mark.parametrize("target", SIMULATORS)
def test_some_layers_are_simulated_by_themselves(place: Path, target: Target) -> None:
    made = built(place / "net", simgen.plan("lenet5"), target)
    planned = made.workload
    text = "pool1..pool2"
    name, steps = result_names.of_run(target.name, {}, [text]), selection.selected(planned, text)
    start = run_folder.begin(made, target, name, {}, steps, layers=text, inputs=selection.REFERENCE)
    selection.prepare(start, made, None)
    process.run(made, target.name, start=start, timeout=TIMEOUT)
    result = collected(made, target, name)
    assert wrong(made, result) == []
    assert [bool(each) for each in result.launches] == [
        step.layer in ("pool1", "conv2", "pool2") for step in planned.steps for _ in step.launches
    ]


def chain(place: Path) -> PlannedBuild:
    (place / "chain.dnnmark").write_text(CHAIN)
    return simgen.plan(place / "chain.dnnmark")


# Body of the kernel of the second layer -> what is told.
FAULTS = {
    'asm volatile(".long 0xffffffff"); y[threadIdx.x] = x[threadIdx.x];': (
        "gem5 cannot decode an instruction 0xffffffff"
    ),
    # v_cubeid_f32 v0, v0, v0, v0 in words: by its name, the build refuses it
    'asm volatile(".long 0xd1c40000, 0x04020100" : : : "v0"); y[threadIdx.x] = x[threadIdx.x];': (
        "gem5 does not implement the instruction v_cubeid_f32"
    ),
    "y[threadIdx.x + (1ul << 40)] = x[threadIdx.x];": "touched an address that is not mapped",
}


def spoiled(place: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Bundle, str]:
    """A bundle whose second layer has another kernel, and that kernel's name."""
    plan = chain(place).plan.for_targets([Gem5Se()])
    planned = plan.workload
    sources = render.kernels(planned)
    name = planned.steps[1].launches[0].kernel
    head = f'extern "C" __global__ void __launch_bounds__(64) {name}(const float* x, float* y)'
    sources[name] = f'#include "prelude.h"\n{head}\n{{\n{body}\n}}\n'
    monkeypatch.setattr(render, "kernels", lambda workload: sources)
    monkeypatch.setattr(own_sources, "refuse", lambda *_: None)  # lint tells of these
    return plan.write(place / "net", [Gem5Se()])[0], name


@pytest.mark.gem5
@lacking(Gem5Se())
@pytest.mark.parametrize(("body", "told"), FAULTS.items())
def test_a_panic_names_the_launch_and_how_to_go_on(
    place: Path, monkeypatch: pytest.MonkeyPatch, body: str, told: str
) -> None:
    made, name = spoiled(place, body, monkeypatch)
    with pytest.raises(RunError) as failed:
        process.run(made, "gem5-se", environment=KEEP, timeout=TIMEOUT)
    text = str(failed.value)
    assert f'gem5-se: launch 2 of 3 (layer "act", fwd, kernel {name}): ' in text
    assert told in text
    assert text.endswith("--on gem5-se --resume")


@pytest.mark.gem5
@lacking(Gem5Se())
def test_a_kernel_without_end_is_named_when_the_time_is_over(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "const volatile float* p = x; while (p[threadIdx.x] < 1e30f) { } y[threadIdx.x] = 0;"
    made, name = spoiled(place, body, monkeypatch)
    with pytest.raises(RunError, match=f'layer "act", fwd, kernel {name}.: the run took longer'):
        process.run(made, "gem5-se", environment=KEEP, timeout=30)
    assert run_folder.stopped(made, "gem5-se")


@pytest.mark.gem5
@lacking(Gem5Se())
def test_memory_that_is_too_small_is_told(place: Path) -> None:
    plan = simgen.plan("bypass_fwd", set={"n": 8, "c": 16, "h": 64, "w": 64})
    made = built(place / "net", plan, Gem5Se())
    options = {"GEM5_OPTIONS": "--mem-size=1MiB"}
    with pytest.raises(RunError, match="the simulated memory is too small; set GEM5_OPTIONS"):
        process.run(made, "gem5-se", timeout=TIMEOUT, environment=options)


@pytest.mark.gem5
@lacking(Gem5Se())
def test_what_layers_leave_costs_few_instructions(place: Path) -> None:
    made = built(place / "net", chain(place), Gem5Se())
    planned = made.workload
    counts = {}
    for keep in ("yes", "no"):
        process.run(made, "gem5-se", environment={"SIMGEN_KEEP": keep}, timeout=TIMEOUT)
        path = made.path / "results/gem5-se" / stats.FILE
        counts[keep] = sum(stats.cpu_instructions(path))
    more = counts["yes"] - counts["no"]
    # One tensor and one mark for each step: two system calls.
    assert 0 < more < 100 + 50 * len(planned.steps)
    assert scripts(made, "gem5-se") == []
