"""Every lowered layer, pass and choice on a real GPU, against the float64 reference."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import narrow
import pytest
from layer_bundles import Problem, distinct_kernels, failures, plan, worst
from layer_variants import Variant, accepts, inputs_of, lowered, shapes_of, variants
from test_channels_last import PASSES as CONV_PASSES
from test_channels_last import PROBLEMS as CONVOLUTIONS
from test_structured_matrix import CASES as STRUCTURED
from test_structured_matrix import planned as structured

import simgen as package
from simgen.bundle import results
from simgen.bundle import writing as bundles
from simgen.ground.ir import DType, Pass
from simgen.ground.machine import NoRoomError, find
from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache
from simgen.layers import LAYERS
from simgen.layers.conv import channels_last, transform_tiles
from simgen.running import process
from simgen.targets.cuda import Cuda
from simgen.targets.host import Host
from simgen.tensors import data_file as data
from simgen.verdict.diff import diff

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.gpu

if importlib.util.find_spec("cupy") is None or Cuda().needs.missing():
    pytest.skip("no CuPy or no NVIDIA GPU on this machine", allow_module_level=True)

SHAPES = (
    (3, 7, 5, 2),
    (1, 1, 1, 1),
    (2, 5003, 1, 1),
    (5, 64, 14, 14),
    (2, 12, 33, 37),
    (8, 96, 28, 28),  # NVRTC made wild loads where work-groups are full
)
PASSES = [(kind, direction) for kind in lowered() for direction in LAYERS[kind].passes]
PROVENANCE = {"simgen": "test", "config": {}, "command": "test"}


def has_room(variant: Variant, shape: tuple[int, ...], direction: Pass) -> bool:
    """Whether what is asked to stay in local memory fits there; nothing else may be refused."""
    try:
        variant.layer.lower(inputs_of(variant.layer, shape), direction)
    except NoRoomError:
        assert ("algo", "persistent") in variant.parameters
        return False
    return True


@pytest.mark.parametrize(("kind", "direction"), PASSES)
def test_native_agrees_with_the_reference(tmp_path: Path, kind: str, direction: Pass) -> None:
    each = (
        (f"v{number}_{'x'.join(map(str, shape))}", Problem(variant, shape))
        for number, variant in enumerate(variants(kind))
        for shape in dict.fromkeys((*SHAPES, *shapes_of(kind, SHAPES)))
        if direction in variant.layer.able
        and accepts(variant.layer, shape)
        and has_room(variant, shape, direction)
    )
    workload = plan(distinct_kernels(each, direction), direction)
    builder = Builder(Cache(tmp_path / "cache"))
    bundle = bundles.write(tmp_path / "b", workload, [Cuda()], builder, PROVENANCE)

    folder = process.run(bundle, "cuda", timeout=600)

    result = results.collect(bundle, Cuda(), folder)
    inputs = data.load(bundle.path / bundles.DATA, workload)
    wrong = failures(worst(diff(workload, inputs, result, None)))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_matrix_instructions_agree_with_the_reference(tmp_path: Path, dtype: str) -> None:
    large = {"m": "1024", "n": "900", "k": "520", "b_t": "true"}  # what takes the largest tile
    untyped = [
        tuple(given for given in variant.parameters if given[0] != "type")
        for variant in variants("gemm")
    ]
    each = [Variant("gemm", given) for given in (*untyped, tuple(large.items()))]
    problems = {f"v{number}": Problem(variant, (1, 1, 1, 1)) for number, variant in enumerate(each)}
    workload = plan(problems, Pass.FORWARD, Pass.BACKWARD, dtype=DType.table[dtype])
    multiply = [dict(kernel.constants).get("multiply") for kernel in workload.kernels]
    assert multiply.count("mma") > len(each)
    builder = Builder(Cache(tmp_path / "cache"))
    bundle = bundles.write(tmp_path / "b", workload, [Cuda()], builder, PROVENANCE)

    folder = process.run(bundle, "cuda", timeout=600)

    result = results.collect(bundle, Cuda(), folder)
    inputs = data.load(bundle.path / bundles.DATA, workload)
    wrong = failures(worst(diff(workload, inputs, result, None)))
    assert not wrong, "\n".join(wrong)


def tensors(folder: Path) -> dict[str, bytes]:
    """The outputs of a finished run, bit for bit."""
    found = results.load(folder / results.FILE).outputs
    return {name: each.values.tobytes() for name, each in found.items()}


def units_of(machine: str) -> dict[str, str]:
    """Has a run start as many work-groups as a machine of few units would hold: so that each
    computes several tiles."""
    found = re.search(r"num_compute_units=(\d+)", machine)
    return {"SIMGEN_UNITS": found[1]} if found else {}


@pytest.mark.parametrize(
    ("dtype", "machine"),
    [
        ("bf16", "a100"),
        ("bf16", "a100,num_compute_units=3"),
        ("f32", "h200,matrix=tf32"),
        ("f32", "a100,matrix=tf32"),
        ("bf16", "h200,num_compute_units=3"),  # whose work-groups compute several tiles
        ("i8", "h200"),
        ("i8", "h200,num_compute_units=3"),
        ("i8", "a100"),
        ("f8e4m3fn", "h200,matrix=yes"),
        ("f8e5m2", "h200,matrix=yes"),
        ("f8e4m3fn", "h200,matrix=yes,num_compute_units=3"),
    ],
)
def test_factors_along_k_agree_with_the_reference(tmp_path: Path, dtype: str, machine: str) -> None:
    sides = {"large": (520, 264, 1040), "few": (16, 2048, 4096), "deep": (130, 132, 8208)}
    if paired := machine in ("h200", "h200,matrix=yes", "h200,num_compute_units=3"):
        sides["pairs"] = (1000, 2032, 6160)  # the last pair has one tile beyond the end
    problems = {
        name: Problem(
            Variant("gemm", (("m", str(m)), ("n", str(n)), ("k", str(k)), ("b_t", "true"))),
            (1, 1, 1, 1),
        )
        for name, (m, n, k) in sides.items()
    }
    planned = find(machine, "test")
    workload = plan(problems, Pass.FORWARD, dtype=DType.table[dtype], machine=planned)
    multiply = [dict(kernel.constants).get("multiply") for kernel in workload.kernels]
    assert multiply.count("mma") == len(sides)
    in_pairs = any(dict(kernel.constants).get("paired") for kernel in workload.kernels)
    assert in_pairs or not paired
    builder = Builder(Cache(tmp_path / "cache"))
    bundle = bundles.write(tmp_path / "b", workload, [Cuda()], builder, PROVENANCE)

    folder = process.run(bundle, "cuda", timeout=600, environment=units_of(machine))

    result = results.collect(bundle, Cuda(), folder)
    inputs = data.load(bundle.path / bundles.DATA, workload)
    wrong = failures(worst(diff(workload, inputs, result, None)))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("dtype", "machine"),
    [("bf16", "h200"), ("bf16", "h200,num_compute_units=1"), ("f16", "a100")],
)
def test_channels_last_agrees_with_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, machine: str
) -> None:
    """On an H200 by wgmma and the tensor memory accelerator, on others by mma.sync."""
    options = channels_last._options
    monkeypatch.setattr(channels_last, "_options", lambda *given: options(*given)[:1])
    planned = find(machine, "test")
    workload = plan(CONVOLUTIONS, *CONV_PASSES, dtype=DType.table[dtype], machine=planned)
    assert any(kernel.maps for kernel in workload.kernels) is machine.startswith("h200")
    builder = Builder(Cache(tmp_path / "cache"))
    bundle = bundles.write(tmp_path / "b", workload, [Cuda()], builder, PROVENANCE)

    folder = process.run(bundle, "cuda", timeout=600, environment=units_of(machine))

    result = results.collect(bundle, Cuda(), folder)
    inputs = data.load(bundle.path / bundles.DATA, workload)
    wrong = failures(worst(diff(workload, inputs, result, None)))
    assert not wrong, "\n".join(wrong)


def test_complex_products_agree_with_the_reference(tmp_path: Path) -> None:
    """In the tiles that no simulated machine has, with rests along m and n."""
    given = {"kernel_size": "5", "pad": "2", "algo": "fft"}
    problems = {
        f"c{number}": Problem(
            Variant("conv", tuple({**given, "num_output": str(filters)}.items())), shape
        )
        for number, (filters, shape) in enumerate(
            ((250, (98, 96, 5, 6)), (90, (98, 60, 27, 25)), (250, (98, 96, 13, 14)))
        )
    }
    workload = plan(problems, Pass.FORWARD, Pass.BACKWARD, machine=find("h200", "test"))
    sides = [[dict(k.constants).get(f"tile_{side}") for side in "mnk"] for k in workload.kernels]
    for tile in transform_tiles.NARROWER:
        assert [tile.rows, tile.columns, tile.depth] in sides
    builder = Builder(Cache(tmp_path / "cache"))
    bundle = bundles.write(tmp_path / "b", workload, [Cuda()], builder, PROVENANCE)

    folder = process.run(bundle, "cuda", timeout=600)

    result = results.collect(bundle, Cuda(), folder)
    inputs = data.load(bundle.path / bundles.DATA, workload)
    wrong = failures(worst(diff(workload, inputs, result, None)))
    assert not wrong, "\n".join(wrong)


def simgen(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "simgen", *map(str, words)], capture_output=True, text=True
    )


def test_repeats_are_timed_and_recorded(tmp_path: Path) -> None:
    bundle = tmp_path / "b"
    simgen("build", "softmax_fwd", "--target", "cuda", "-o", bundle)
    assert simgen("run", bundle, "--warmup", "2", "--repeats", "5").returncode == 0

    header, line = next((bundle / "results").glob("*/launches.csv")).read_text().splitlines()
    row = dict(zip(header.split(","), line.split(",")))
    assert row["rounds"] == "5"
    order = ("seconds_min", "seconds_q1", "seconds", "seconds_q3", "seconds_max")
    times = [float(row[name]) for name in order]
    assert times[0] > 0
    assert times == sorted(times)


def test_rounds_are_added_and_caches_prepared(tmp_path: Path) -> None:
    outputs = []
    for l2 in ("cold", "clean", "warm"):
        bundle = tmp_path / l2
        simgen("build", "softmax_fwd", "--target", "cuda", "-o", bundle)
        done = simgen("run", bundle, "--repeats", "4", "--noise", "5", "--l2", l2)
        assert done.returncode == 0, done.stderr
        (home,) = (bundle / "results").glob("cuda@*")
        told = json.loads((home / "machine.json").read_text())
        assert told["l2"] == l2
        assert re.fullmatch(r"\d{3,4} MHz, lowest \d{3,4} MHz", told["sm_clock"])
        (row,) = csv.DictReader((home / "launches.csv").read_text().splitlines())
        assert int(row["rounds"]) >= 4
        outputs.append(tensors(home))
    assert outputs[0] == outputs[1] == outputs[2]


def test_loads_past_l1_give_the_same_values(tmp_path: Path) -> None:
    settings = ("--set", "n=2", "--set", "c=3", "--set", "h=32", "--set", "w=32")
    outputs = []
    for policy in ("cached", "bypass"):
        bundle = tmp_path / policy
        simgen("build", "pool_fwd", *settings, "--target", "cuda", "--l1", policy, "-o", bundle)
        assert simgen("run", bundle).returncode == 0
        outputs.append(tensors(bundle / "results/cuda"))
    assert outputs[0] == outputs[1]
    assert not list((tmp_path / "cached/results/cuda").glob("*.ptx"))
    (ptx,) = (tmp_path / "bypass/results/cuda").glob("*.ptx")
    loads = re.findall(r"\bld\.global[.\w]*", ptx.read_text())
    assert loads
    assert all(load.startswith("ld.global.cg.") for load in loads)


def test_a_truncated_data_file_is_refused(tmp_path: Path) -> None:
    bundle = tmp_path / "b"
    simgen("build", "softmax_fwd", "--target", "cuda", "-o", bundle)
    data = bundle / "data.h5"
    data.write_bytes(data.read_bytes()[:-4096])

    script = subprocess.run(["sh", bundle / "cuda/run.sh"], capture_output=True, text=True)

    assert script.returncode == 7, script.stderr
    assert len(script.stderr.splitlines()) == 1


@pytest.mark.parametrize("dtype", narrow.TYPES)
def test_a_network_of_narrow_tensors_is_right(tmp_path: Path, dtype: str) -> None:
    builder = Builder(Cache(tmp_path / "cache"))
    work = narrow.planned(dtype)
    bundle = bundles.write(tmp_path / "b", work, [Cuda()], builder, PROVENANCE)
    folder = process.run(bundle, "cuda", timeout=600)
    assert narrow.wrong(bundle, results.collect(bundle, Cuda(), folder)) == []


def test_a_quantised_model_is_right_to_the_bit(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="no onnx on this machine")  # the others run without it
    from quantised_model import check_on

    check_on("cuda", tmp_path)


def test_several_queues_compute_the_same(tmp_path: Path) -> None:
    """Streams with events: a training step of LeNet-5, whose gradients and updates overlap."""
    made = {}
    for queues in (1, 4):
        plan = package.plan("lenet5", inference=False, set={"n": 4}, queues=queues)
        made[queues] = plan.build(tmp_path / f"{queues}", "cuda")
        made[queues].run("cuda", options={"repeats": 3})
        assert made[queues].diff()
    one, four = (made[queues].result("cuda") for queues in (1, 4))
    for name, output in one.outputs.items():
        assert output.values.tobytes() == four.outputs[name].values.tobytes(), name
    assert all(launch["elapsed_seconds"] >= 0 for launch in four.launches)
    assert sum(launch["elapsed_seconds"] for launch in four.launches) > 0


def test_twenty_training_steps_learn_as_on_the_host(tmp_path: Path) -> None:
    """Every tensor of every step is right, and the loss falls; on the host too, if it can run."""
    small = {"n": 4, "conv1.num_output": 4, "conv2.num_output": 8, "ip1.num_output": 32}
    plan = package.plan(
        "lenet5", inference=False, steps=20, set=small, optimizer="adam", rate=0.005,
        data="digits-images-idx3-ubyte.gz",
    )  # fmt: skip
    lacks = Host().needs.missing() or importlib.util.find_spec("ziglang") is None
    targets = ("cuda",) if lacks else ("host", "cuda")
    bundle = plan.build(tmp_path / "net", targets)
    for target in targets:
        bundle.run(target, timeout=300.0)
    judged = bundle.diff()
    assert judged, judged.failure
    for target in targets:
        losses = [each.results[target] for each in judged.losses]
        assert len(losses) == 20
        assert sum(losses[-5:]) < sum(losses[:5]) / 2


@pytest.mark.parametrize(("dtype", "machine", "parameters"), [case[:3] for case in STRUCTURED])
def test_structured_sparsity_agrees_with_the_reference(
    tmp_path: Path, dtype: str, machine: str, parameters: dict[str, str]
) -> None:
    workload = structured(dtype, machine, parameters)
    builder = Builder(Cache(tmp_path / "cache"))
    bundle = bundles.write(tmp_path / "b", workload, [Cuda()], builder, PROVENANCE)

    folder = process.run(bundle, "cuda")

    result = results.collect(bundle, Cuda(), folder)
    inputs = data.load(bundle.path / bundles.DATA, workload)
    wrong = failures(worst(diff(workload, inputs, result, None)))
    assert not wrong, "\n".join(wrong)


OWN = {
    "tile.cu": """
template <int N> __global__ void tile(const float* x, float* y, int n, float factor)
{
    extern __shared__ float held[];
    int i = blockIdx.x * N + threadIdx.x, j = threadIdx.y;
    held[j * N + threadIdx.x] = i < n ? x[j * n + i] : 0;
    __syncthreads();
    if (i < n)
        y[j * n + i] = factor * held[(blockDim.y - 1 - j) * N + threadIdx.x];
}
int main() { return 0; }
""",
    "plain.hip": """
#include <hip/hip_runtime.h>
extern "C" __global__ void plain(const float* x, float* y, int n, float factor)
{
    int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x;
    if (i < 4 * n)
        y[i] = factor * x[i];
}
""",
}


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("tile.cu", 'kernel = "tile<16>"\nitems = ["n", 4]\nblock = [16, 4]\nlds = 256\n'
         'reference = "2.5 * x[::-1]"\n'),
        ("plain.hip", 'items = "4 * n"\nblock = 64\nreference = "2.5 * x"\n'),
        ("twice.ptx", 'args = ["x", "y"]\ngrid = 1\nblock = 64\n'
         'reference = "np.where(np.arange(4 * n).reshape(4, n) < 64, 2 * x, 7)"\n'),
    ],
)  # fmt: skip
def test_kernels_of_users_are_right(tmp_path: Path, file: str, said: str) -> None:
    ptx = """.version 7.0\n.target sm_52\n.address_size 64
.visible .entry twice(.param .u64 x, .param .u64 y)\n{
.reg .b64 %a<5>; .reg .b32 %i; .reg .f32 %v;
ld.param.u64 %a1, [x]; ld.param.u64 %a2, [y]; mov.u32 %i, %tid.x; mul.wide.u32 %a3, %i, 4;
add.u64 %a1, %a1, %a3; add.u64 %a2, %a2, %a3;
ld.global.f32 %v, [%a1]; add.f32 %v, %v, %v; st.global.f32 [%a2], %v; ret;\n}\n"""
    (tmp_path / file).write_text(OWN.get(file, ptx))
    args = "" if "args" in said else 'args = ["x", "y", "i32 n", "f32 2.5"]\n'
    (tmp_path / "k.toml").write_text(
        f'source = "{file}"\nparameters = {{ n = 37 }}\ninputs = {{ x = "f32[4, n]" }}\n'
        f'outputs = {{ y = "f32[4, n] constant(7)" }}\n{args}{said}'
    )
    bundle = package.plan(str(tmp_path / "k.toml")).build(tmp_path / "k", "cuda")
    bundle.run(timeout=300)
    assert bundle.diff(strict=True)


@pytest.mark.parametrize(
    ("said", "pragma", "wanted"),
    [
        ("", "", 2.0**-24), ('contract = "on"', "", 2.0**-24), ('contract = "off"', "", 0.0),
        ("", "#pragma clang fp contract(off)", 0.0),
    ],
)  # fmt: skip
def test_multiply_adds_of_users_are_fused_as_nvcc_does(
    tmp_path: Path, said: str, pragma: str, wanted: float
) -> None:
    """(1 + 2^-12)^2 less what float32 has of it."""
    (tmp_path / "k.hip").write_text(
        f"__global__ void k(const float* x, const float* z, float* r)\n{{\n{pragma}\n"
        "int i = threadIdx.x; r[i] = x[i] * x[i] + z[i];\n}\n"
    )
    (tmp_path / "k.toml").write_text(
        f'source = "k.hip"\n{said}\noutputs = {{ r = "f32[64]" }}\nargs = ["x", "z", "r"]\n'
        'inputs = { x = "f32[64] constant(1 + 2**-12)", z = "f32[64] constant(-1 - 2**-11)" }\n'
        'grid = 1\nblock = 64\nreference = "x * x + z"\n'
    )
    bundle = package.plan(str(tmp_path / "k.toml")).build(tmp_path / "k", "cuda")
    bundle.run(timeout=600)
    assert (bundle.result("cuda").outputs["k.r"].values == wanted).all()
