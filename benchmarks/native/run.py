"""The kernels on this machine's NVIDIA GPU, beside PyTorch, a device copy and cuBLAS, in one run.

    python benchmarks/native/run.py [--quick] [WORD ...]     WORD: of names or of settings

The problems are those of table 3 of the DNNMark paper, and some more, of DeepBench too. Each is
built and run with the `cuda` target; a time counts only if `simgen diff` finds the same kernels
right on a batch of CHECKED samples, or on ROWS rows of a large product. Bytes and operations are
those that the algorithm needs (`simgen show`). The copy is from device memory to device memory and
counts bytes read and written; SGEMM is 8192^3 by cuBLAS. PyTorch runs in the same type with TF32
off and cuDNN's measured choice of algorithm, timed between events, behind a like delay. The L2
cache is cold for both, before all launches of ours and before PyTorch's operation. Products
of 16-bit types are planned once more with mma.sync in place of wgmma.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import cupy
import numpy as np

import simgen
from simgen.frontend import network, problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.ground.ir import DType

ROUNDS: dict[str, str | int] = {"warmup": 5, "repeats": 30, "l2": "cold"}
L2 = 2**27  # bytes that are written between rounds of what ours is compared with: more than a cache
CHECKED = 4  # samples; the float64 reference of a whole batch takes minutes
ROWS = 1024  # the same of a large product: its tile is that of all rows
LARGE = 2**35  # multiply-adds
IMAGES = ["n=100", "c=32", "h=256", "w=256"]
DEEP = [
    "n=16", "c=256", "h=28", "w=28", "num_output=256", "kernel_size=3", "pad=1",
    "conv_mode=cross_correlation",
]  # fmt: skip
WIDE = [
    "n=16", "c=64", "h=56", "w=56", "num_output=64", "kernel_size=5", "pad=2",
    "conv_mode=cross_correlation",
]  # fmt: skip
ALEXNET2 = [
    "n=100", "c=96", "h=27", "w=27", "num_output=256", "kernel_size=5", "pad=2",
    "conv_mode=cross_correlation",
]  # fmt: skip
LENET2 = [
    "n=1", "c=20", "h=12", "w=12", "num_output=50", "kernel_size=5", "pad=0",
    "conv_mode=cross_correlation",
]  # fmt: skip
STEM = [
    "n=32", "c=3", "h=224", "w=224", "num_output=64", "kernel_size=7", "pad=3", "stride=2",
    "conv_mode=cross_correlation",
]  # fmt: skip
# Of ResNet-50, at n=32: channels, filters, extent, taps, stride.
RESNET = ((64, 64, 56, 3, 1), (64, 256, 56, 1, 1), (128, 128, 56, 3, 2), (512, 2048, 7, 1, 1))
PLAN = "plan_for=a100"  # of the setting: by mma.sync, as on every GPU from sm_80 on
PROBLEMS = [
    ("conv_fwd", ["n=100", "conv_mode=cross_correlation"]),
    ("conv_bwd_data", ["n=100", "conv_mode=cross_correlation"]),
    ("conv_bwd_weight", ["n=100", "conv_mode=cross_correlation"]),
    ("conv_fwd", DEEP),
    ("conv_bwd_data", DEEP),
    ("conv_bwd_weight", DEEP),
    ("conv_fwd", WIDE),
    ("conv_bwd_data", WIDE),
    ("conv_bwd_weight", WIDE),
    *((f"conv_{each}", ALEXNET2) for each in ("fwd", "bwd_data", "bwd_weight")),
    *((f"conv_{each}", LENET2) for each in ("fwd", "bwd_data", "bwd_weight")),
    ("conv_bwd_data", STEM),
    *(
        (
            f"conv_{direction}",
            [
                "n=32",
                f"c={c}",
                f"h={h}",
                f"w={h}",
                f"num_output={k}",
                f"kernel_size={r}",
                f"pad={r // 2}",
                f"stride={u}",
                "conv_mode=cross_correlation",
                "type=bf16",
            ],
        )
        for c, k, h, r, u in RESNET
        for direction in ("fwd", "bwd_data", "bwd_weight")
    ),
    ("pool_fwd", ["n=100", "c=3", "h=256", "w=256", "kernel_size=3", "stride=2", "pad=0"]),
    ("pool_bwd", ["n=100", "c=3", "h=256", "w=256", "kernel_size=3", "stride=2", "pad=0"]),
    ("pool_fwd", ["n=100", "c=64", "h=55", "w=55", "kernel_size=3", "stride=2", "pad=0"]),
    ("pool_bwd", ["n=100", "c=64", "h=55", "w=55", "kernel_size=3", "stride=2", "pad=0"]),
    ("lrn_fwd", IMAGES),
    ("lrn_bwd", IMAGES),
    ("activation_fwd", IMAGES),
    ("activation_bwd", IMAGES),
    ("fc_fwd", ["n=100", "c=9216", "h=1", "w=1", "num_output=4096"]),
    ("fc_bwd_data", ["n=100", "c=9216", "h=1", "w=1", "num_output=4096"]),
    ("fc_bwd_weight", ["n=100", "c=9216", "h=1", "w=1", "num_output=4096"]),
    ("softmax_fwd", ["n=100", "c=1000"]),
    ("softmax_bwd", ["n=100", "c=1000"]),
    ("bn_fwd", [*IMAGES, "batchnorm_mode=spatial"]),
    ("bn_bwd", [*IMAGES, "batchnorm_mode=spatial"]),
    ("dropout_fwd", IMAGES),
    ("dropout_bwd", IMAGES),
    ("softmax_fwd", ["n=65536", "c=1024"]),
    ("softmax_bwd", ["n=65536", "c=1024"]),
    ("softmax_fwd", ["n=4096", "c=16384"]),
    ("softmax_fwd", ["n=1024", "c=50257"]),
    ("softmax_bwd", ["n=1024", "c=50257"]),
    ("softmax_fwd", ["n=1024", "c=128256"]),
    ("gemm_fwd", ["m=1024", "n=1024", "k=1024"]),
    ("gemm_fwd", ["m=2048", "n=2048", "k=2048"]),
    ("gemm_fwd", ["m=4096", "n=4096", "k=4096"]),
    ("gemm_fwd", ["m=4096", "n=4096", "k=4096", "transb=true"]),
    ("gemm_fwd", ["m=1760", "n=128", "k=1760"]),
    ("gemm_fwd", ["m=2560", "n=64", "k=2560"]),
    ("gemm_fwd", ["m=7680", "n=16", "k=2560"]),
    ("gemm_fwd", ["m=35", "n=8457", "k=1760"]),
    ("gemm_fwd", ["m=5124", "n=700", "k=2048"]),
    *(
        ("gemm_fwd", [f"m={m}", f"n={n}", f"k={k}", "transb=true", "type=bf16"])
        for m, n, k in (
            (1024, 1024, 1024),
            (2048, 2048, 2048),
            (4096, 4096, 4096),
            (8192, 8192, 8192),
            (2048, 8192, 2048),
            (1024, 1024, 8192),
            (1, 8192, 2048),
            (16, 8192, 2048),
            (128, 8192, 2048),
        )
    ),
    ("gemm_fwd", ["m=4096", "n=4096", "k=4096", "type=bf16"]),
    ("gemm_fwd", ["m=8192", "n=8192", "k=8192", "type=bf16"]),
    *(
        ("gemm_fwd", [f"m={m}", f"n={m}", f"k={m}", "transb=true", "type=f16"])
        for m in (1024, 4096)
    ),
    *(("gemm_fwd", [f"m={m}", f"n={m}", f"k={m}", "transb=true", "type=i8"]) for m in (4096, 8192)),
    *(
        ("gemm_fwd", [f"m={m}", f"n={m}", f"k={m}", "transb=true", "type=bf16", PLAN])
        for m in (4096, 8192)
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small problems only: does it work?")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only problems with it")
    given = parser.parse_args()
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"GPU: {device}, CuPy {cupy.__version__}")
    copy, sgemm = (
        copy_rate(2**26 if given.quick else 2**31),
        sgemm_rate(512 if given.quick else 8192),
    )
    print(f"device copy: {copy / 1e9:.0f} GB/s; SGEMM: {sgemm / 1e12:.1f} TFLOP/s\n")
    print("| problem | result | ours | GB/s | of copy | TFLOP/s | of SGEMM | PyTorch | ours / it |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in PROBLEMS:
            words = " ".join((name, *settings))
            if not given.words or any(word in words for word in given.words):
                if given.quick:
                    settings = [s if s.startswith(("c=", "k")) else shrunk(s) for s in settings]
                row(Path(folder), name, settings, copy, sgemm)


def shrunk(setting: str) -> str:
    key, _, value = setting.partition("=")
    return f"{key}={min(int(value), 24)}" if key in ("n", "h", "w", "m") else setting


def row(folder: Path, name: str, settings: list[str], copy: float, sgemm: float) -> None:
    small = [s for s in settings if not s.startswith("n=") or name.startswith(("gemm", "softmax"))]
    checked = settings if small == settings else [*small, f"n={CHECKED}"]
    sides = dict(s.split("=") for s in settings)
    if name.startswith("gemm") and int(sides["m"]) * int(sides["n"]) * int(sides["k"]) > LARGE:
        checked = [s for s in settings if not s.startswith("m=")] + [f"m={ROWS}"]
    bundle, _ = made(folder / "checked", name, checked, {"repeats": 1})
    (report,) = bundle.diff().reports
    _, result = made(folder / "timed", name, settings, ROUNDS)
    seconds = sum(launch["seconds"] for launch in result.launches)
    given = [tuple(s.split("=")) for s in settings if s != PLAN]
    found = problem.find(name, given, None)
    (placed,) = network.resolve(found.config, found.settings).layers
    work = placed.layer.count(placed.node.inputs, found.passes[0])
    nbytes, flops = work.read_bytes + work.written_bytes, work.flops + work.transcendentals
    ratio = max(tensor.comparison.max_ratio for tensor in report.verdicts)
    peer = torch_seconds(name, placed)
    print(
        f"| {name} {' '.join(settings)} | {'right' if report.passed else 'WRONG'}, "
        f"{ratio:.2f} of tolerance | {seconds * 1e6:.1f} us "
        f"| {nbytes / seconds / 1e9:.0f} | {nbytes / seconds / copy:.2f} "
        f"| {flops / seconds / 1e12:.1f} | {flops / seconds / sgemm:.2f} "
        f"| {peer * 1e6:.1f} us | {seconds / peer:.2f} |",
        flush=True,
    )


def made(
    folder: Path, name: str, settings: list[str], rounds: dict[str, int]
) -> tuple[simgen.BuiltBundle, simgen.Result]:
    given = dict(setting.split("=") for setting in settings)
    plan = simgen.plan(name, plan_for=given.pop("plan_for", "h200"), set=given)
    bundle = plan.build(folder, "cuda", replace=True)
    return bundle, bundle.run("cuda", options=rounds, replace=True)


def copy_rate(nbytes: int) -> float:
    """Bytes read and written per second."""
    a = cupy.random.random(nbytes // 8)
    b = cupy.empty_like(a)
    return 2 * nbytes / median(lambda: cupy.copyto(b, a))


def sgemm_rate(extent: int) -> float:
    """Operations per second of cuBLAS in float32."""
    a, b = (cupy.random.random((extent, extent), dtype=cupy.float32) for _ in range(2))
    c = cupy.empty_like(a)
    return 2 * extent**3 / median(lambda: cupy.matmul(a, b, out=c))


def median(work, rounds: int = 30) -> float:
    """Seconds between two CUDA events, behind a delay that outlasts the CPU's launching."""
    delay = cupy.RawModule(
        code='extern "C" __global__ void wait(){long long s=clock64();while(clock64()-s<200000);}'
    ).get_function("wait")
    times = []
    for _ in range(rounds + 5):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        cupy.cuda.Device().synchronize()
        delay((1,), (1,), ())
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return float(np.median(times[5:]))


def torch_seconds(name: str, placed: network.Placed) -> float:
    """PyTorch's time for the same operation; NaN where there is no PyTorch."""
    try:
        import torch
    except ImportError:
        return float("nan")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    work = torch_work(name, placed)
    times = []
    flushed = torch.empty(L2, dtype=torch.uint8, device="cuda")
    for at in range(35):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        torch.cuda._sleep(3_000_000)  # cycles: outlasts the CPU's launching
        flushed.fill_(at)
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return float(np.median(times[5:]))


def torch_work(name: str, placed: network.Placed) -> Callable[[], object]:
    """What PyTorch does. Outputs come from its caching allocator: no allocation is timed."""
    import torch
    from torch.nn import functional as f

    layer, kind, direction = placed.layer, *name.split("_", 1)

    def of(dtype: DType) -> torch.dtype:
        return {"bf16": torch.bfloat16, "f16": torch.float16}.get(dtype.name, torch.float32)

    if kind == "gemm":
        extents = (layer.m, layer.k), (layer.n, layer.k) if layer.transb else (layer.k, layer.n)
        if layer.type.name == "i8":
            a, b = (
                torch.randint(-128, 128, shape, dtype=torch.int8, device="cuda")
                for shape in extents
            )
            return lambda: torch._int_mm(a, b.T if layer.transb else b)
        a, b = (torch.randn(shape, device="cuda").to(of(layer.type)) for shape in extents)
        return lambda: torch.matmul(a, b.T if layer.transb else b)
    made = {"device": "cuda", "dtype": of(placed.node.inputs[0].dtype), "requires_grad": True}
    x = torch.randn(placed.node.inputs[0].shape, **made)
    c = x.shape[1]
    ports = layer.ports(placed.node.inputs, placed.layer.passes[0])
    spec = {port.name: port.spec.shape for port in ports}
    w, b = (torch.randn(spec[port], **made) if port in spec else None for port in ("w", "b"))
    forward = {
        "conv": lambda: f.conv2d(x, w, padding=layer.pad_h, stride=layer.stride_h),
        "pool": lambda: f.max_pool2d(
            x, layer.kernel_h, layer.stride_h, layer.pad_h, ceil_mode=layer.rounding == "ceil"
        ),
        "lrn": lambda: f.local_response_norm(x, layer.local_size, layer.alpha, layer.beta, layer.k),
        "activation": lambda: f.relu(x),
        "fc": lambda: f.linear(x.flatten(1), w, b),
        "softmax": lambda: f.softmax(x, 1),
        "bn": lambda: f.batch_norm(
            x, None, None, w.reshape(c), b.reshape(c), training=True, eps=layer.epsilon
        ),
        "dropout": lambda: f.dropout(x, layer.probability, training=True),
    }[kind]
    if direction == "fwd":

        def work() -> object:
            with torch.no_grad():
                return forward()

        return work
    y = forward()
    dy = torch.randn_like(y)
    wanted = {"bwd_data": [x], "bwd_weight": [t for t in (w, b) if t is not None]}.get(direction)
    wanted = wanted or [t for t in (x, w, b) if t is not None]
    return lambda: torch.autograd.grad(y, wanted, dy, retain_graph=True)


if __name__ == "__main__":
    try:
        main()
    except simgen.errors.SimgenError as error:
        raise SystemExit(str(error)) from None
