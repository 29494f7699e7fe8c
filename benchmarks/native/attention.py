"""Attention of 16-bit floats on this machine's NVIDIA GPU, beside PyTorch's and a device copy.

    python benchmarks/native/attention.py [WORD ...]     WORD: of the settings

Each problem is built and run with the `cuda` target, in turns with PyTorch's
scaled_dot_product_attention, whose backend PyTorch chooses; both behind a cold L2, medians of 30
rounds. A smaller one with the same tile, CHECKED, is judged by `simgen diff`. Prefill has the
operations per second, of causal problems half of all; decode has the bytes of keys and values per
second beside those that a copy of as many reads and writes. With `plan_for=a100`, mma.sync
multiplies.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import cupy
import numpy as np
import run as native
import torch
from torch.nn import functional

import simgen

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKED = 2, 256, 2048  # heads of queries, that share keys; queries of each; and keys
TURNS = 2
DEFAULTS = ["causal=false", "kv_heads=0"]  # where the built-in workload has others
PREFILL = ["causal=true", "type=bf16"]
PROBLEMS = (
    *([f"shape=1x32x4096x{size}", *PREFILL] for size in (64, 72, 96, 128, 256)),
    ["shape=1x32x4096x192", "value_size=128", *PREFILL],
    ["shape=1x32x2048x128", *PREFILL],
    ["shape=1x32x4096x128", "type=f16"],
    ["shape=2x32x4096x128", "kv_heads=8", *PREFILL],
    *([f"shape=1x32x4096x{size}", *PREFILL, native.PLAN] for size in (64, 128, 256)),
    ["shape=16x32x1x128", "kv_heads=8", "keys=4096", "type=bf16"],
    ["shape=64x32x1x128", "kv_heads=8", "keys=4096", "type=bf16"],
    ["shape=8x64x1x128", "kv_heads=8", "keys=32768", "type=bf16"],
    ["shape=16x32x1x128", "keys=4096", "type=bf16"],
)


def main() -> None:
    words = sys.argv[1:]
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{name}, PyTorch {torch.__version__}\n")
    print("| problem | diff | time | PyTorch | PyTorch / ours | TFLOP/s | of a copy |")
    print("|---|---|---|---|---|---|---|")
    for settings in PROBLEMS:
        if all(any(word in each for each in settings) for word in words):
            with tempfile.TemporaryDirectory() as folder:
                row(Path(folder), list(settings))


def row(folder: Path, settings: list[str]) -> None:
    given = dict(each.split("=") for each in settings if each != native.PLAN)
    n, heads, queries, size = map(int, given["shape"].split("x"))
    groups, keys = int(given.get("kv_heads", heads)), int(given.get("keys", queries))
    value_size, causal = int(given.get("value_size", size)), "causal" in given
    few = f"shape=1x{CHECKED[0]}x{min(queries, CHECKED[1])}x{size}", "kv_heads=1"
    others = (e for e in settings if not e.startswith(("shape", "kv_heads", "keys")))
    checked = [*DEFAULTS, *others, *few, f"keys={min(keys, CHECKED[2])}"]
    bundle, _ = native.made(folder / "checked", "attention_fwd", checked, {"repeats": 1})
    (report,) = bundle.diff().reports
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[given["type"]]
    shapes = (n, heads, queries, size), (n, groups, keys, size), (n, groups, keys, value_size)
    q, k, v = (torch.randn(shape, device="cuda").to(dtype) for shape in shapes)
    same = {"is_causal": causal, "enable_gqa": groups != heads}
    ours, theirs = [], []
    for _ in range(TURNS):
        _, result = native.made(
            folder / "timed", "attention_fwd", DEFAULTS + settings, native.ROUNDS
        )
        ours.append(sum(launch["seconds"] for launch in result.launches))
        theirs.append(timed(lambda: functional.scaled_dot_product_attention(q, k, v, **same)))
    seconds, peer = float(np.mean(ours)), float(np.mean(theirs))
    flops = 2 * n * heads * queries * keys * (size + value_size) / (1 + causal)
    cache = (k.numel() + v.numel()) * k.element_size()
    to = torch.empty_like(k), torch.empty_like(v)
    copied = timed(lambda: (to[0].copy_(k), to[1].copy_(v)))
    of_copy = f"{copied / 2 / seconds:.2f}" if cache > native.L2 else ""
    print(
        f"| {' '.join(settings)} | {'right' if report.passed else 'WRONG'} "
        f"| {seconds * 1e6:.1f} us | {peer * 1e6:.1f} us | {peer / seconds:.2f} "
        f"| {flops / seconds / 1e12:.0f} | {of_copy} |",
        flush=True,
    )


def timed(work: Callable[[], object]) -> float:
    """Seconds, as those of run.py."""
    times = []
    flushed = torch.empty(native.L2, dtype=torch.uint8, device="cuda")
    for at in range(35):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        torch.cuda._sleep(1_000_000)  # cycles: outlasts the CPU's launching
        flushed.fill_(at)
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return float(np.median(times[5:]))


if __name__ == "__main__":
    try:
        main()
    except simgen.errors.SimgenError as error:
        raise SystemExit(str(error)) from None
