"""The kernels on this machine's NVIDIA GPU, beside a device copy and PyTorch, in one run.

    python benchmarks/native/run.py [--quick]

Each problem is built, run with the `cuda` target, and compared with the float64 reference: a time
counts only if the result is right. GB/s counts compulsory bytes: each tensor once. The copy moves
as many bytes as the problem's largest run, from device memory to device memory, and counts bytes
read and written. PyTorch is timed between events too, behind a like delay.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import cupy
import numpy as np

ROUNDS = ["--warmup", "5", "--repeats", "30"]
PROBLEMS = [
    ("softmax_fwd", ["n=100", "c=1000"]),
    ("softmax_bwd", ["n=100", "c=1000"]),
    ("softmax_fwd", ["n=65536", "c=1024"]),
    ("softmax_bwd", ["n=65536", "c=1024"]),
    ("activation_fwd", ["n=100"]),
    ("activation_bwd", ["n=100"]),
]
QUICK = [(name, ["n=7", "c=33"]) for name, _ in PROBLEMS[::2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small problems only: does it work?")
    given = parser.parse_args()
    print(
        f"GPU: {cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}, CuPy {cupy.__version__}"
    )
    copy = copy_rate(2**26 if given.quick else 2**31)
    print(f"device copy: {copy / 1e9:.0f} GB/s, read and written\n")
    print("| problem | result | ours | GB/s | of copy | PyTorch | ours / PyTorch |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in QUICK if given.quick else PROBLEMS:
            row(Path(folder), name, settings, copy)


def row(folder: Path, name: str, settings: list[str], copy: float) -> None:
    bundle = folder / name
    words = [word for setting in settings for word in ("--set", setting)]
    simgen("build", name, "--target", "cuda", "-o", str(bundle), *words, "-q")
    simgen("run", str(bundle), "--on", "cuda", *ROUNDS, "-q")
    report = json.loads(simgen("diff", str(bundle), "--json"))
    tensor = report["pairs"][0]["tensors"][0]
    lines = (bundle / "results/cuda/launches.csv").read_text().splitlines()
    seconds = sum(float(line.split(",")[2]) for line in lines[1:])
    workload = json.loads((bundle / "workload.json").read_text())
    nbytes = sum(4 * int(np.prod(b["spec"]["shape"])) for b in workload["buffers"])
    peer = torch_seconds(name, workload["nodes"][0]["inputs"][0]["shape"])
    print(
        f"| {name} {' '.join(settings)} | {'right' if report['pairs'][0]['passed'] else 'WRONG'}, "
        f"{tensor['max_error_over_tolerance']:.2f} of tolerance | {seconds * 1e6:.1f} us "
        f"| {nbytes / seconds / 1e9:.0f} | {nbytes / seconds / copy:.2f} "
        f"| {peer * 1e6:.1f} us | {seconds / peer:.2f} |",
        flush=True,
    )


def simgen(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "simgen", *words], capture_output=True, text=True)
    if done.returncode not in (0, 6):
        raise SystemExit(f"simgen {' '.join(words)}\n{done.stderr}")
    return done.stdout


def copy_rate(nbytes: int) -> float:
    """Bytes read and written per second."""
    a = cupy.random.random(nbytes // 8)
    b = cupy.empty_like(a)
    return 2 * nbytes / median(lambda: cupy.copyto(b, a))


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


def torch_seconds(name: str, shape: list[int]) -> float:
    """PyTorch's time for the same operation; NaN where there is no PyTorch."""
    try:
        import torch
    except ImportError:
        return float("nan")
    x = torch.randn(shape, device="cuda")
    y = torch.relu(x) if name.startswith("activation") else torch.softmax(x, 1)
    dy = torch.randn_like(x)
    aten = torch.ops.aten
    work = {  # outputs come from PyTorch's caching allocator: no allocation is timed
        "softmax_fwd": lambda: torch.softmax(x, 1),
        "softmax_bwd": lambda: aten._softmax_backward_data(dy, y, 1, x.dtype),
        "activation_fwd": lambda: torch.relu(x),
        "activation_bwd": lambda: aten.threshold_backward(dy, y, 0),
    }[name]
    times = []
    for _ in range(35):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        torch.cuda._sleep(400_000)  # cycles: outlasts the CPU's launching
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return float(np.median(times[5:]))


if __name__ == "__main__":
    main()
