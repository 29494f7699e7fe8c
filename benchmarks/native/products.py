"""Matrix products on this machine's NVIDIA GPU, beside PyTorch's library in turns, in one run.

    python benchmarks/native/products.py [WORD ...]     WORD: of a problem's words

Ours are the launches of a bundle that is planned for an H200 (or what `plan_for=` says), started
as its own program starts them. Both multiply the same numbers. They take turns, with a cold L2,
behind a delay that outlasts the CPU's launching; times are medians of ROUNDS. "equal" is the share
of results that have the same bits, "off" the largest difference, of the largest result.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np
import torch

import simgen

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 21
L2 = 2**27  # bytes that are written between rounds
CUBES = (1024, 2048, 4096, 8192)
OTHERS = ((2048, 8192, 2048), (1024, 1024, 8192), (128, 8192, 2048))
F8 = "f8e4m3fn"
MMA = "plan_for=a100,num_compute_units=132"  # by mma.sync, as on every GPU from sm_80 on
NAMES = {"bf16": "bfloat16", "f16": "float16", "i8": "int8", F8: "float8_e4m3fn", "f32": "float32"}
PROBLEMS = [
    *((f"m={m} n={m} k={m} transb=true type=bf16") for m in CUBES),
    *((f"m={m} n={n} k={k} transb=true type=bf16") for m, n, k in OTHERS),
    *((f"m={m} n={m} k={m} type=bf16") for m in CUBES[2:]),
    *((f"m={m} n={m} k={m} transb=true type=f16") for m in CUBES[2:]),
    "m=1024 n=1024 k=8192 transb=true type=f16",
    *((f"m={m} n={m} k={m} transb=true type={F8} matrix=yes") for m in CUBES),
    *((f"m={m} n={n} k={k} transb=true type={F8} matrix=yes") for m, n, k in OTHERS),
    *((f"m={m} n={m} k={m} transb=true type=i8") for m in CUBES),
    "m=1024 n=1024 k=8192 transb=true type=i8",
    *((f"m={m} n={m} k={m} transb=true type=bf16 {MMA}") for m in CUBES),
    *((f"m={m} n={n} k={k} transb=true type=bf16 {MMA}") for m, n, k in OTHERS),
    *((f"m={m} n={m} k={m} transb=true") for m in CUBES[:3]),
]


def main() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"GPU: {torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
    print("| product | kernel | ours | TFLOP/s | library | TFLOP/s | of it | equal | off |")
    print("|---|---|---|---|---|---|---|---|---|")
    for words in PROBLEMS:
        if not sys.argv[1:] or any(word in words for word in sys.argv[1:]):
            with tempfile.TemporaryDirectory() as folder:
                print(row(words, Path(folder) / "bundle"), flush=True)


def row(words: str, folder: Path) -> str:
    given = dict(word.split("=", 1) for word in words.split())
    plan_for, matrix = given.pop("plan_for", "h200"), given.pop("matrix", "auto")
    plan = simgen.plan("gemm_fwd", plan_for=plan_for, matrix=matrix, set=given)
    plan.build(folder, "cuda")
    ours, y = launches_of(folder)
    a, b = (tensor(folder, f"gemm.{name}", given, ours.arena) for name in "ab")
    theirs = library(a, b, given)
    found, wanted = y(given), theirs()
    ours()
    torch.cuda.synchronize()
    found, wanted = found.double(), wanted.double()
    equal = float((found == wanted).double().mean())
    off = float((found - wanted).abs().max() / wanted.abs().max())
    seconds = in_turns(ours, theirs)
    flops = 2 * int(given["m"]) * int(given["n"]) * int(given["k"])
    rates = [f"{each * 1e6:.1f} us | {flops / each / 1e12:.0f}" for each in seconds]
    kernel = "+".join(tile_of(name) for name in ours.names)
    ratio = seconds[1] / seconds[0]
    return f"| {words} | {kernel} | {' | '.join(rates)} | {ratio:.2f} | {equal:.2%} | {off:.1e} |"


def tile_of(name: str) -> str:
    found = [part for part in name.split("_") if part[:1] == "t" and part[1:2].isdigit()]
    return "_".join(found) or name.split("_")[-1]


class Launches:
    """All launches of a bundle, in its own arena."""

    def __init__(self, folder: Path) -> None:
        path = folder / "cuda" / "run.py"
        spec = importlib.util.spec_from_file_location("launcher", path)
        assert spec
        assert spec.loader
        self.launcher: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.launcher)
        self.workload = json.loads((folder / "workload.json").read_text())
        manifest = json.loads((folder / "manifest.json").read_text())
        self.arena = self.launcher.make_arena(self.workload, manifest["data"]["id"])
        functions = self.launcher.functions_of(self.workload)
        launches = [each for step in self.workload["steps"] for each in step["launches"]]
        self.names = [each["kernel"] for each in launches]
        self.calls, self.kept = self.launcher.calls_of(
            self.workload, launches, functions, self.arena.data.ptr
        )

    def __call__(self) -> None:
        for call in self.calls:
            self.launcher.start(call)


def launches_of(folder: Path) -> tuple[Launches, Callable[[dict[str, str]], torch.Tensor]]:
    made = Launches(folder)
    return made, lambda given: tensor(folder, "gemm.y", given, made.arena)


def tensor(folder: Path, name: str, given: dict[str, str], arena: cupy.ndarray) -> torch.Tensor:
    """A tensor of the bundle where it lies in the arena."""
    workload = json.loads((folder / "workload.json").read_text())
    (buffer,) = (each for each in workload["buffers"] if each["name"] == name)
    shape, dtype = buffer["spec"]["shape"], getattr(torch, as_torch(buffer["spec"]["dtype"]))
    count = int(np.prod(shape)) * torch.empty((), dtype=dtype).element_size()
    part = arena[buffer["offset"] : buffer["offset"] + count]
    return torch.as_tensor(part, device="cuda").view(dtype).reshape(shape)


def as_torch(name: str) -> str:
    return {**NAMES, "i32": "int32"}[name]


def library(a: torch.Tensor, b: torch.Tensor, given: dict[str, str]) -> Callable[[], torch.Tensor]:
    right = b.T if given.get("transb") == "true" else b
    if a.dtype == torch.int8:
        return lambda: torch._int_mm(a, right)
    if a.dtype == torch.float8_e4m3fn:
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(
            a, right, scale_a=one, scale_b=one, scale_result=one, out_dtype=a.dtype
        )
    return lambda: torch.matmul(a, right)


def in_turns(*works: Callable[[], object]) -> list[float]:
    """Seconds of each, as medians."""
    flushed = torch.empty(L2, dtype=torch.uint8, device="cuda")
    stream = cupy.cuda.Stream.from_external(torch.cuda.current_stream())
    times: list[list[float]] = [[] for _ in works]
    with stream:
        for at in range(ROUNDS + 3):
            for found, work in zip(times, works):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                torch.cuda.synchronize()
                torch.cuda._sleep(1_000_000)
                flushed.fill_(at)
                start.record()
                work()
                end.record()
                end.synchronize()
                if at >= 3:
                    found.append(start.elapsed_time(end) / 1e3)
    return [float(np.median(each)) for each in times]


if __name__ == "__main__":
    main()
