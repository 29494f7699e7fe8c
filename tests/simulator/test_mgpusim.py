"""The mgpusim target on MGPUSim itself; needs Go and the Go module proxy once."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import narrow
import numpy as np
import pytest
from layer_bundles import Problem, plan
from layer_variants import Variant, problems_of_one_gpu
from loaded import program

from simgen import api
from simgen.bundle import finding, results
from simgen.bundle import writing as bundles
from simgen.errors import RefusedError, RunError
from simgen.ground import metrics
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
from simgen.kernels import render
from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache, simulators_root
from simgen.layers import LAYERS
from simgen.running import process as launch
from simgen.targets.mgpusim.needs import runner_place
from simgen.targets.mgpusim.target import GPUS, MGPUSim
from simgen.tensors import data_file as data

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from simgen import BuiltBundle

lacks = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))

PROVENANCE = {"simgen": "test", "config": {}}
TIMEOUT = 900.0  # seconds; a run takes one, and building the simulator some minutes, once
TIMING_LIMIT = 120.0  # seconds, once the simulator is built: a lost message makes a run endless

# Rows that do not fill a work-group, or that several reductions share; sizes that no block divides.
WORKLOADS = {
    "softmax_fwd": ("n=5", "c=37", "h=1", "w=3"),
    "softmax_bwd": ("n=3", "c=300", "h=1", "w=1"),
    "activation_fwd": ("n=3", "c=5", "h=7", "w=11"),
    "activation_bwd": ("n=3", "c=5", "h=7", "w=11"),
}
# Kernels of other shapes than those of small problems: larger tiles, narrow ones, many of them.
WIDER = [
    ("conv_fwd", "algo=fft n=1 c=3 h=13 w=17 num_output=4 kernel_size=5 pad=2"),
    ("conv_bwd_data", "algo=fft n=1 c=2 h=31 w=29 num_output=3 kernel_size=11 pad=5"),
    ("conv_bwd_weight", "algo=fft n=2 c=3 h=23 w=19 num_output=2 kernel_size=11 pad=5"),
    ("conv_bwd_weight", "algo=winograd n=5 c=3 h=37 w=41 num_output=5 kernel_size=3 pad=1"),
    ("pool_fwd", "n=1 c=1 h=9 w=1027 kernel_size=3 stride=2 pad=0"),
    ("pool_bwd", "n=1 c=1 h=9 w=1027 kernel_size=3 stride=2 pad=0"),
]
PASSES = (Pass.FORWARD, Pass.BACKWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT)
COUNTED = {"instructions", "valu_instructions", "salu_instructions", "wavefronts", "work_groups"}
TIMED = {"seconds", "cycles", "l1_hits", "l1_misses", "l2_hits", "l2_misses", "dram_read_bytes"}


def simgen(*words: object, code: int = 0, where: Path) -> str:
    """What the command line prints: stdout where it ends well, else stderr."""
    done = subprocess.run(
        [program(), *map(str, words)],
        cwd=where,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == code, done.stderr
    # Whoever runs first hears that the simulator is built.
    errors = re.sub("^simgen: mgpusim: .*\n", "", done.stderr, flags=re.MULTILINE)
    return errors if code else done.stdout


def build(where: Path, name: str, *options: str, code: int = 0) -> str:
    sizes = [word for size in WORKLOADS[name] for word in ("--set", size)]
    words = ("build", name, *sizes, "--target", "mgpusim", "-o", "b", *options)
    return simgen(*words, code=code, where=where)


def script(bundle: Path, **environment: object) -> tuple[int, list[str]]:
    """Exit code and errors of run.sh, without simgen."""
    done = subprocess.run(
        ["sh", str(bundle / "mgpusim" / "run.sh")],
        env={**os.environ, **{k: str(v) for k, v in environment.items()}},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    prefix = "simgen: error: mgpusim: "
    lines = [line for line in done.stderr.splitlines() if line.startswith(prefix)]
    return done.returncode, [line.removeprefix(prefix) for line in lines]


def launches(bundle: Path) -> list[dict[str, float]]:
    work = bundles.load(bundle).workload
    return MGPUSim().reader.metrics(bundle / "results" / "mgpusim", work)


def built(
    place: Path, name: str, settings: Iterable[str], arch: str, plan_for: str | None = None
) -> BuiltBundle:
    plan = api.plan(name, set=dict(each.split("=") for each in settings), plan_for=plan_for)
    return plan.build(place / "b", MGPUSim(arch=arch))


def ran(bundle: BuiltBundle, mode: str, timeout: float = TIMEOUT) -> results.Result:
    return bundle.run("mgpusim", timeout=timeout, options={"mode": mode})


def check(bundle: BuiltBundle, result: results.Result) -> None:
    verdict = bundle.diff("mgpusim")
    assert verdict, verdict.failure
    assert all(o.guard_intact and not o.untouched for o in result.outputs.values())


@pytest.mark.parametrize("arch", GPUS.values())
@pytest.mark.parametrize(("name", "settings"), WIDER)
def test_wider_kernels_are_right(tmp_path: Path, name: str, settings: str, arch: str) -> None:
    made = built(tmp_path, name, settings.split(), arch, plan_for="h200")  # which is wide
    check(made, ran(made, "emu"))


def layers(arch: str, *, convolutions: bool) -> dict[str, Problem]:
    """The problems of `small_problems` and WORKLOADS by layer: of convolutions, or of all others.

    Problems take turns with the architectures: what differs between these are instructions, and
    that each is right on each is in test_legalise_runs.py.
    """
    found: dict[str, Problem] = {}
    turns: dict[str, str] = {}  # layer by algorithm -> architecture
    for name, settings in [*problems_of_one_gpu(), *WORKLOADS.items()]:
        kind = max((each for each in LAYERS if name.startswith(f"{each}_")), key=len)
        own = dict(each.split("=") for each in settings)
        images = "nchw" if "h" in own else ""
        extents = [own.pop(each) for each in images] or own.pop("shape", "1").split("x")
        named = "_".join((kind, *extents, own.get("algo", "")))
        turn = turns.setdefault(named, list(GPUS.values())[len(turns) % len(GPUS)])
        if kind.endswith("conv") == convolutions and turn == arch:
            problem = Problem(Variant(kind, tuple(own.items())), tuple(map(int, extents)))
            found.setdefault(named, problem)
    return found


@pytest.mark.parametrize("arch", GPUS.values())
@pytest.mark.parametrize("convolutions", [True, False], ids=["convolutions", "others"])
def test_every_layer_and_pass_is_right_in_both_modes(
    tmp_path: Path, builder: Builder, convolutions: bool, arch: str
) -> None:
    """The reference says so of the emulator; the timing model writes the same bits."""
    target = MGPUSim(arch=arch)
    work = plan(layers(arch, convolutions=convolutions), *PASSES)
    bundle = bundles.write(tmp_path / "b", work, [target], builder, PROVENANCE)
    found: dict[str, results.Result] = {}
    for mode in ("emu", "timing"):
        given = {"SIMGEN_MODE": mode}
        folder = launch.run(bundle, "mgpusim", environment=given, timeout=TIMEOUT)
        found[mode] = results.collect(bundle, target, folder)
        assert all(o.guard_intact and not o.untouched for o in found[mode].outputs.values())
    assert narrow.wrong(bundle, found["emu"]) == []
    assert found["timing"].outputs.keys() == found["emu"].outputs.keys()
    for name, output in found["timing"].outputs.items():
        emulated = found["emu"].outputs[name].values
        assert output.values.tobytes() == emulated.tobytes(), name
    for emulated_launch, timed in zip(found["emu"].launches, found["timing"].launches, strict=True):
        check_metrics(emulated_launch, timed)


def check_metrics(emulated: Mapping[str, float], timed: Mapping[str, float]) -> None:
    """The two modes execute the same instructions; only one knows time, caches and DRAM."""
    counts = {name: value for name, value in emulated.items() if name != "host_seconds"}
    assert counts.keys() >= COUNTED
    assert not counts.keys() & TIMED
    assert counts["wavefronts"] >= counts["work_groups"] > 0
    assert counts["instructions"] > counts["valu_instructions"] > 0
    assert counts["vector_memory_writes"] > 0
    assert {name: timed[name] for name in counts} == counts
    assert timed.keys() >= TIMED
    assert 0 < timed["seconds"] < 1e-3
    assert timed["l1_misses"] > 0
    assert 0 < counts["valu_operations"] <= 64 * counts["valu_instructions"]
    waits = [timed[name] for group in metrics.parts("waits").values() for name in group
             if name in timed]  # fmt: skip
    assert timed["wavefront_cycles"] == sum(waits)
    assert timed["ready_cycles"] >= 0.99 * timed["instructions"]  # each issues in a cycle
    assert 20 * timed["stall_other_cycles"] <= timed["wavefront_cycles"]
    for cache in ("l1", "l2"):
        accesses = [timed[f"{cache}_{what}"] for what in ("hits", "misses", "mshr_hits")]
        assert timed[f"{cache}_reads"] + timed[f"{cache}_writes"] == sum(accesses)
    assert counts["lds_reads"] + counts["lds_writes"] <= counts["lds_instructions"]
    moved = 64 * (counts["lds_reads"] + counts["lds_writes"])  # at most 16 bytes of each
    assert counts["lds_bytes"] <= 16 * moved
    assert 0 < timed["wavefront_cycles"] <= timed["wavefront_slot_cycles"]
    assert timed["wavefront_slot_cycles"] % timed["cu_active_cycles"] == 0  # slots of a unit
    assert 0 < timed["cu_active_cycles"] <= timed["cu_cycles"]


@pytest.mark.parametrize("arch", GPUS.values())
def test_multiply_adds_are_those_of_the_algorithm(tmp_path: Path, arch: str) -> None:
    """A fully connected layer whose tiles fit has one for each of n x inputs x outputs."""
    bundle = built(tmp_path, "fc_fwd", ("n=4", "c=64", "num_output=32"), arch)
    (launch,) = ran(bundle, "emu").launches
    assert launch["f32_fma_operations"] == 4 * 64 * 32


def test_nothing_is_left_but_the_results(tmp_path: Path) -> None:
    build(tmp_path, "activation_fwd")
    before = {p for p in tmp_path.rglob("*") if "results" not in p.parts}
    simgen("run", "b", "--mode", "timing", where=tmp_path)
    assert {p for p in tmp_path.rglob("*") if "results" not in p.parts} == before
    assert {p.name for p in (tmp_path / "b/results/mgpusim@mode=timing").iterdir()} == {
        "launches.csv", "log.txt", "machine.json", "complete", "run.json", "programs.sha256",
        "results.h5",
    }  # fmt: skip
    assert {p.name for p in (tmp_path / "b/results").iterdir()} == {"mgpusim@mode=timing"}


def test_what_legalising_costs_is_in_the_bundle(tmp_path: Path) -> None:
    build(tmp_path, "softmax_fwd", "--arch", "gfx803")
    costs = json.loads((tmp_path / "b/mgpusim/kernels/replaced.json").read_text())
    (cost,) = costs.values()
    assert sum(cost["replaced"].values()) > 0
    assert isinstance(cost["added"], int)


def test_a_panic_is_one_line_with_instruction_kernel_and_layer(tmp_path: Path) -> None:
    # Rows that are long enough for 16-byte reads of LDS, which gfx803 has not in MGPUSim.
    build(tmp_path, "softmax_bwd", "--arch", "gfx803", "--no-legalise")
    assert not json.loads((tmp_path / "b/mgpusim/kernels/replaced.json").read_text())
    error = simgen("run", "b", code=5, where=tmp_path)
    assert error.count("\n") == 1
    for part in ("kernel softmax_bwd", 'layer "softmax", bwd', "cannot execute", "--no-legalise"):
        assert part in error
    assert re.search(
        r"cannot execute \w+ v.* \(src/softmax_bwd\w+\.hip:\d+ of kernels/softmax", error
    )


@pytest.mark.parametrize(
    ("options", "code", "fact"),
    [
        (("--mode", "fast"), 2, "'fast'"),
        (("--gpu", "h100"), 2, "'h100'"),
        (("--gpu", "r9nano"), 4, "the kernels are for gfx942"),
        (("--gpus", "2"), 2, "the batch of layer 'activation' is 3"),
    ],
)
def test_wrong_options_are_one_line(
    tmp_path: Path, options: tuple[str, ...], code: int, fact: str
) -> None:
    build(tmp_path, "activation_fwd")
    error = simgen("run", "b", *options, code=code, where=tmp_path)
    assert error.count("\n") == 1
    assert fact in error


def damage(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)


def test_a_damaged_bundle_is_refused_by_simgen_and_by_the_script(tmp_path: Path) -> None:
    build(tmp_path, "activation_fwd")
    bundle = tmp_path / "b"
    (code_object,) = bundle.glob("mgpusim/kernels/*.co")
    for path in (code_object, bundle / "workload.json"):
        good = path.read_bytes()
        damage(path)
        simgen("run", "b", code=7, where=tmp_path)
        code, (error,) = script(bundle)
        assert (code, "build the bundle again" in error) == (7, True)
        path.write_bytes(good)
    data = bundle / "data.h5"
    with data.open("r+b") as file:
        file.truncate(data.stat().st_size - 1)
    simgen("run", "b", code=7, where=tmp_path)
    assert script(bundle) == (
        7, ["data.h5: not as long as its header says; build the bundle again"],
    )  # fmt: skip
    data.unlink()
    assert script(bundle)[0] == 3


def test_samples_that_are_none_are_damage(tmp_path: Path) -> None:
    build(tmp_path, "activation_fwd")
    results = tmp_path / "b/results/mgpusim"
    simgen("run", "b", where=tmp_path)
    sources = runner_place(tmp_path / "b/mgpusim/runner").name
    runner = next(simulators_root().glob(f"{sources}/*/runner"))
    for samples in ("[null]", "[{}]", '[{"launch": null}]'):
        (results / "run.json").write_text(f'{{"samples": {samples}}}')
        words = [str(runner), "-mode", "timing", str(tmp_path / "b"), str(results)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT)
        assert "run.json: a sample of work-groups that are not there" in done.stderr
        assert "goroutine" not in done.stderr


def test_kernels_of_another_architecture_are_refused(tmp_path: Path) -> None:
    build(tmp_path, "activation_fwd", "--arch", "gfx803")
    (other,) = (tmp_path / "b").glob("mgpusim/kernels/*.co")
    raw = other.read_bytes()
    build(tmp_path, "activation_fwd", "--arch", "gfx942")
    other.write_bytes(raw)
    manifest = tmp_path / "b/manifest.json"
    text = json.loads(manifest.read_text())
    text["files"][f"mgpusim/kernels/{other.name}"] = hashlib.sha256(raw).hexdigest()
    manifest.write_text(json.dumps(text))
    code, (error,) = script(tmp_path / "b")
    assert code == 4
    assert "which the GPU mi300a does not run" in error


def test_a_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    build(tmp_path, "softmax_fwd", "--set", "n=2000")
    code, (error,) = script(tmp_path / "b", SIMGEN_MODE="timing", SIMGEN_TIMEOUT=2)
    assert code == 5
    assert "took longer than 2 s" in error
    assert not (tmp_path / "b/results/mgpusim").exists()


def test_a_launch_that_does_not_fit_into_memory_is_refused(tmp_path: Path) -> None:
    build(tmp_path, "activation_fwd")
    # Nothing is simulated, so the grid may be larger than any data.
    work, manifest = tmp_path / "b/workload.json", tmp_path / "b/manifest.json"
    text = json.loads(work.read_text())
    text["steps"][0]["launches"][0]["grid"] = [1 << 22, 1 << 10, 1]
    work.write_text(json.dumps(text))
    entries = json.loads(manifest.read_text())
    entries["files"]["workload.json"] = hashlib.sha256(work.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(entries))
    code, (error,) = script(tmp_path / "b")
    assert code == 4
    assert 'kernel activation_fwd_relu_1155 (layer "activation", fwd): for 4294967296' in error
    assert re.search(r"needs \d+ MiB of this machine's memory and \d+ MiB are free", error)
    assert "--set" in error


def test_two_runs_at_once_build_two_simulators_and_keep_one(tmp_path: Path) -> None:
    build(tmp_path, "activation_fwd")
    shutil.copytree(tmp_path / "b", tmp_path / "c")
    environment = {**os.environ, "SIMGEN_CACHE_DIR": str(tmp_path / "cache")}
    processes = [
        subprocess.Popen(["sh", str(tmp_path / name / "mgpusim/run.sh")], env=environment)
        for name in "bc"
    ]
    assert [process.wait(timeout=TIMEOUT) for process in processes] == [0, 0]
    sources = runner_place(tmp_path / "b/mgpusim/runner").name
    found = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert {(*p.relative_to(tmp_path / "cache/mgpusim").parts[::2],) for p in found} == {
        (sources, "runner"),
        (sources, "runner.sha256"),
    }


# Kernels of our own. Each launch reads what the one before it wrote.

ADD = """\
    y[blockIdx.x * 64 + threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x] + 1.0f;
"""
NOTHING = """\
    if (x[threadIdx.x] > 2.0f)
        y[threadIdx.x] = 0.0f;
"""
OUTSIDE = """\
    y[threadIdx.x + (1ul << 40)] = x[threadIdx.x];
"""
# Compiled for gfx942, load and store have a scalar base and a 32-bit offset in a vector register.
SCALAR_BASE = """\
    y[threadIdx.x] = 2.0f * x[threadIdx.x];
"""
# Compiled, EXEC changes right after each store.
DIVERGED = """\
    int i = blockIdx.x * 64 + threadIdx.x;
    if (threadIdx.x % 3 == 0)
        y[i] = 1.0f;
    if (threadIdx.x % 3 == 1)
        y[i] = x[i];
    if (threadIdx.x % 3 == 2)
        y[i] = 3.0f;
"""
UNKNOWN = """\
    unsigned sum, item = threadIdx.x;
    asm volatile("v_add_u32_e64 %0, %1, %2" : "=v"(sum) : "v"(item), "s"(7));
    y[threadIdx.x] = x[threadIdx.x] + sum;
"""


def chain(count: int) -> Workload:
    spec = TensorSpec((256,))
    buffers = [Buffer("in.x", spec, Role.INPUT, 0, Fill(Distribution.UNIFORM, 0.0, 1.0))]
    steps = []
    for i in range(count):
        buffers.append(Buffer(f"add{i}.y", spec, Role.OUTPUT, (i + 1) * 8192))
        reads, writes = buffers[-2].name, buffers[-1].name
        launched = Launch("add", (4, 1, 1), (reads, writes))
        steps.append(Step(f"add{i}", Pass.FORWARD, (("x", reads),), (("y", writes),), (launched,)))
    kernels = (Kernel("add", "add.hip", 64),)
    size = (count + 1) * 8192
    return Workload("chain", 0, (), tuple(buffers), kernels, tuple(steps), size, 8192)


def exchanged() -> Workload:
    """Each half of the result is made of the other half of x, by arguments that begin there."""
    whole = chain(1)
    (step,) = whole.steps
    halves = tuple(
        Launch("add", (2, 1, 1), ("in.x", "add0.y"), (begin, 512 - begin)) for begin in (512, 0)
    )
    return replace(whole, steps=(replace(step, launches=halves),))


def handmade(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    count: int = 1,
    *,
    legalise: bool = True,
    planned: Workload | None = None,
) -> bundles.Bundle:
    source = (
        '#include "prelude.h"\nextern "C" __global__ void __launch_bounds__(64) '
        f"add(const float* x, float* y)\n{{\n{body}}}\n"
    )
    monkeypatch.setattr(render, "kernels", lambda workload: {"add": source})
    builder = Builder(Cache(place / "cache"))
    target = MGPUSim(legalise=legalise)
    return bundles.write(place / "b", planned or chain(count), [target], builder, PROVENANCE)


def run(bundle: bundles.Bundle, mode: str, timeout: float = TIMEOUT) -> results.Result:
    folder = launch.run(bundle, "mgpusim", timeout=timeout, environment={"SIMGEN_MODE": mode})
    return results.collect(bundle, finding.target_of(bundle, "mgpusim"), folder)


@pytest.mark.parametrize("mode", ["emu", "timing"])
def test_launches_run_in_order_and_see_what_came_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    found = run(handmade(tmp_path, monkeypatch, ADD, 5), mode)
    values = [output.values for output in found.outputs.values()]
    assert all(output.guard_intact for output in found.outputs.values())
    for before, after in itertools.pairwise(values):
        assert (after == before + np.float32(1)).all()
    assert [metrics["wavefronts"] for metrics in found.launches] == [4.0] * 5
    assert found.provenance["machine"]["mode"] == mode
    assert found.provenance["machine"]["mgpusim_version"] == "v4.2.0"


@pytest.mark.parametrize("mode", ["emu", "timing"])
def test_arguments_may_begin_within_a_tensor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    bundle = handmade(tmp_path, monkeypatch, ADD, planned=exchanged())
    (output,) = run(bundle, mode).outputs.values()
    x = data.load(bundle.path / bundles.DATA, bundle.workload)["in.x"]
    assert (output.values == np.roll(x, 128) + np.float32(1)).all()
    assert output.guard_intact


@pytest.mark.parametrize("mode", ["emu", "timing"])
def test_more_launches_take_no_more_allocations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The tensors, the instructions of the kernel, and one for what all launches read."""
    for count in (1, 40):
        bundle = handmade(tmp_path / str(count), monkeypatch, ADD, count)
        run(bundle, mode)
        log = (bundle.path / "results/mgpusim/log.txt").read_text()
        assert re.findall("^simgen: allocations: (.*)$", log, re.MULTILINE) == ["3"]


@pytest.mark.parametrize("mode", ["emu", "timing"])
def test_what_no_kernel_writes_keeps_the_canary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    (output,) = run(handmade(tmp_path, monkeypatch, NOTHING), mode).outputs.values()
    assert (output.values.view("<u4") == DType.F32.canary).all()
    assert output.untouched == 256
    assert output.guard_intact


@pytest.mark.parametrize("mode", ["emu", "timing"])
def test_loads_and_stores_with_a_scalar_base_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    bundle = handmade(tmp_path, monkeypatch, SCALAR_BASE)
    x = data.load(bundle.path / bundles.DATA, bundle.workload)["in.x"]
    (output,) = run(bundle, mode).outputs.values()
    assert (output.values[:64] == 2 * x[:64]).all()
    assert output.untouched == 256 - 64


@pytest.mark.parametrize("mode", ["emu", "timing"])
def test_a_store_writes_the_lanes_of_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    bundle = handmade(tmp_path, monkeypatch, DIVERGED)
    x = data.load(bundle.path / bundles.DATA, bundle.workload)["in.x"].reshape(4, 64)
    (output,) = run(bundle, mode).outputs.values()
    item = np.arange(64) % 3
    assert (output.values.reshape(4, 64) == np.where(item == 1, x, item + 1.0)).all()


@pytest.mark.parametrize("mode", ["emu", "timing"])
def test_an_address_outside_of_memory_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    bundle = handmade(tmp_path, monkeypatch, OUTSIDE)
    where = r" in global_store\w+ .* \(src/add.hip:4 of kernels/add" if mode == "emu" else ""
    with pytest.raises(RunError, match=r'kernel add \(layer "add0", fwd\).*not mapped' + where):
        run(bundle, mode)


@pytest.mark.parametrize("mode", ["emu", "timing"])
def test_an_instruction_that_cannot_be_decoded_is_refused_before_it_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    bundle = handmade(tmp_path, monkeypatch, UNKNOWN, legalise=False)
    place = r'kernel add \(layer "add0", fwd\): '
    wrong = r"MGPUSim cannot decode v_add_u32_e64 .* \(src/add.hip:5 of kernels/add.* --no-legalise"
    with pytest.raises(RefusedError, match=place + wrong):
        run(bundle, mode)
