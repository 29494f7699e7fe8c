"""The gpgpusim target on GPGPU-Sim itself; needs GPGPUSIM_ROOT, the folder of a build."""

from __future__ import annotations

import math
import os
import re
import subprocess
from typing import TYPE_CHECKING

import narrow
import pytest
from layer_bundles import Problem, plan
from layer_variants import Variant, problems_of_one_gpu

from simgen import api
from simgen.bundle import results
from simgen.bundle import writing as bundles
from simgen.ground.ir import DType, Pass
from simgen.ground.machine import named
from simgen.layers import LAYERS
from simgen.running import process
from simgen.targets.gpgpusim.simulator import GpgpuSim

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.kernels.build import Builder

lacks = GpgpuSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(lacks), reason=" | ".join(map(str, lacks)))

TIMEOUT = 900.0  # seconds
LAUNCH_LATENCY = 5000  # cycles, of its configurations
PASSES = (Pass.FORWARD, Pass.BACKWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT)


def problems() -> dict[str, Problem]:
    """The small problems that MGPUSim runs too, by layer and algorithm."""
    found: dict[str, Problem] = {}
    for name, settings in problems_of_one_gpu():
        kind = max((each for each in LAYERS if name.startswith(f"{each}_")), key=len)
        own = dict(each.split("=") for each in settings)
        images = "nchw" if "h" in own else ""
        extents = [own.pop(each) for each in images] or own.pop("shape", "1").split("x")
        named_ = "_".join((kind, *extents, own.get("algo", "")))
        variant = Variant(kind, tuple(own.items()))
        found.setdefault(named_, Problem(variant, tuple(map(int, extents))))
    return found


def narrow_enough(name: str, dtype: str) -> bool:
    """Whether a layer has tensors of the type."""
    return dtype == "f32" or not name.startswith(("adam", "bcm_fc", "sampled_softmax", "sgd"))


@pytest.mark.parametrize(
    ("config", "mode", "dtype"),
    [
        ("SM7_QV100", "functional", "f32"),
        ("SM86_RTX3070", "functional", "f16"),
        ("SM75_RTX2060", "functional", "bf16"),
        ("SM75_RTX2060", "timing", "f32"),  # the fastest
    ],
)
def test_every_layer_and_pass_is_right(
    tmp_path: Path, builder: Builder, config: str, mode: str, dtype: str
) -> None:
    target = GpgpuSim(config=config)
    chosen = {name: each for name, each in problems().items() if narrow_enough(name, dtype)}
    machine = named(target.machine)
    work = plan(chosen, *PASSES, machine=machine, dtype=DType.table[dtype])
    bundle = bundles.write(tmp_path / "b", work, [target], builder, narrow.PROVENANCE)
    given = {"SIMGEN_MODE": mode}
    folder = process.run(bundle, "gpgpusim", environment=given, timeout=TIMEOUT)
    result = results.collect(bundle, target, folder)
    assert narrow.wrong(bundle, result) == []
    assert all(o.guard_intact and not o.untouched for o in result.outputs.values())
    if mode == "timing":
        process.run(bundle, "gpgpusim", timeout=TIMEOUT)  # functional
        emulated = results.collect(bundle, target, folder)
        for name, output in result.outputs.items():
            assert output.values.tobytes() == emulated.outputs[name].values.tobytes(), name
        for launch, told in zip(work.launches, result.launches, strict=True):
            assert told["cycles"] > LAUNCH_LATENCY
            assert told["seconds"] == pytest.approx(told["cycles"] / machine.clock, abs=2e-12)
            assert told["work_groups"] == math.prod(launch.grid)
            warps = -(-work.kernel(launch.kernel).block // 32) * math.prod(launch.grid)
            assert warps < told["instructions"] <= told["thread_instructions"]
            assert min(told.values()) >= 0


def test_a_network_of_bytes_is_right(tmp_path: Path, builder: Builder) -> None:
    target = GpgpuSim()
    work = narrow.planned_integers(narrow.QUANTISED)
    bundle = bundles.write(tmp_path / "b", work, [target], builder, narrow.PROVENANCE)
    folder = process.run(bundle, "gpgpusim", timeout=TIMEOUT)
    assert narrow.wrong(bundle, results.collect(bundle, target, folder)) == []


def test_cycles_repeat(tmp_path: Path) -> None:
    made = api.plan("gemm_fwd", set={"m": 33, "n": 17, "k": 65}).build(
        tmp_path / "b", GpgpuSim(config="SM75_RTX2060")
    )
    runs = [made.run("gpgpusim", options={"mode": "timing"}) for _ in range(2)]
    told = [{k: v for k, v in r.launches[0].items() if k != "host_seconds"} for r in runs]
    assert told[0] == told[1]


def test_layers_run_by_themselves_with_what_others_left(tmp_path: Path) -> None:
    """Through state.bin, in which the launcher finds what they read."""
    made = api.plan("lenet5", set={"n": 1}).build(tmp_path / "b", GpgpuSim())
    whole = made.run("gpgpusim")
    part = made.run("gpgpusim", layers="pool1..ip1", inputs="gpgpusim")
    assert made.diff()
    ran = [at for at, told in enumerate(part.launches) if told]
    assert ran == [1, 2, 3, 4, 5]
    assert all(told["host_seconds"] > 0 for told in whole.launches)
    for name in ("pool1.y", "conv2.y", "pool2.y", "ip1.y"):
        assert part.outputs[name].values.tobytes() == whole.outputs[name].values.tobytes()


def test_a_parse_error_is_told_as_one(tmp_path: Path) -> None:
    """GPGPU-Sim goes on after it, and would lack the kernel."""
    made = api.plan("activation_fwd", set={"n": 1, "c": 3}).build(tmp_path / "b", GpgpuSim())
    path = made.path / "gpgpusim" / "kernels.ptx"
    path.write_text(path.read_text().replace("\tret;", "\tfence.sc.gpu;\n\tret;"))
    done = subprocess.run(
        ["sh", str(made.path / "gpgpusim" / "run.sh")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 4
    (line,) = done.stderr.splitlines()
    assert "GPGPU-Sim does not read this PTX: ./kernels.ptx:" in line
    assert not list((made.path / "results").glob("gpgpusim*"))


def test_a_failed_assertion_is_told(tmp_path: Path) -> None:
    """Its timing model takes no barrier of a part of the warps in a branch."""
    made = api.plan("activation_fwd", set={"n": 1, "c": 3}).build(tmp_path / "b", GpgpuSim())
    path = made.path / "gpgpusim" / "kernels.ptx"
    lines = (
        ".reg .pred %q0", ".reg .b32 %q1", "mov.u32 %q1, %tid.x", "setp.eq.u32 %q0, %q1, 0",
        "@%q0 bar.sync 1, 64", "ret",
    )  # fmt: skip
    text = path.read_text().replace("\tret;\n", "".join(f"\t{line};\n" for line in lines))
    path.write_text(text)
    done = subprocess.run(
        ["sh", str(made.path / "gpgpusim" / "run.sh")],
        env={**os.environ, "SIMGEN_MODE": "timing"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 5
    log = (made.path / "results" / "failed-gpgpusim" / "log.txt").read_text()
    said = GpgpuSim().watcher.diagnosis(log) or ""
    assert re.search(r"an assertion of its sources failed \(shader\.cc:\d+: .*bar_id", said)
