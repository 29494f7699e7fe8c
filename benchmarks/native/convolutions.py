"""ResNet-50's convolutions in bf16 on this machine's NVIDIA GPU, beside cuDNN in turns, in one run.

    python benchmarks/native/convolutions.py [WORD ...]     WORD: `64-256-56-1-1`, or of a pass

A layer is C-K-H-R-stride of n=32 images of H x H, as ours and cuDNN's: NCHW, its measured choice of
algorithm. Ours are all launches of a bundle that is planned for an H200. They take turns, with a
cold L2, behind a delay that outlasts the CPU's launching; times are medians of products.ROUNDS.
"off" is the largest difference, of the largest result.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from products import Launches, in_turns

import simgen

if TYPE_CHECKING:
    from collections.abc import Callable

    import cupy

BATCH = 32
LAYERS = [
    (3, 64, 224, 7, 2),
    *((c, k, 56, r, u) for c, k, r, u in (
        (64, 64, 1, 1), (64, 64, 3, 1), (64, 256, 1, 1), (256, 64, 1, 1), (256, 128, 1, 1),
        (128, 128, 3, 2), (256, 512, 1, 2),
    )),
    *((c, k, 28, r, u) for c, k, r, u in (
        (128, 512, 1, 1), (512, 128, 1, 1), (128, 128, 3, 1), (512, 256, 1, 1), (256, 256, 3, 2),
        (512, 1024, 1, 2),
    )),
    *((c, k, 14, r, u) for c, k, r, u in (
        (256, 1024, 1, 1), (1024, 256, 1, 1), (256, 256, 3, 1), (1024, 512, 1, 1), (512, 512, 3, 2),
        (1024, 2048, 1, 2),
    )),
    *((c, k, 7, r, u) for c, k, r, u in ((512, 2048, 1, 1), (2048, 512, 1, 1), (512, 512, 3, 1))),
]  # fmt: skip
WRITES = {"fwd": "y", "bwd_data": "dx", "bwd_weight": "dw"}


def main() -> None:
    torch.backends.cudnn.benchmark = True
    print(f"GPU: {torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
    print("| layer | pass | tiles | ours | cuDNN | of it | off |\n|---|---|---|---|---|---|---|")
    ratios = []
    for layer, which in itertools.product(LAYERS, WRITES):
        name = "-".join(map(str, layer))
        if layer[0] == 3 and which == "bwd_data":
            continue
        if not sys.argv[1:] or any(word in (name, which) for word in sys.argv[1:]):
            with tempfile.TemporaryDirectory() as folder:
                told, ratio = row(layer, which, Path(folder) / "bundle")
            ratios.append(ratio)
            print(f"| {name} | {which} | {told}", flush=True)
    print(f"\nnot slower than cuDNN: {sum(each >= 1 for each in ratios)} of {len(ratios)}")


def row(layer: tuple[int, ...], which: str, folder: Path) -> tuple[str, float]:
    c, k, h, r, u = layer
    given: dict[str, str | int] = {
        "n": BATCH, "c": c, "h": h, "w": h, "num_output": k, "kernel_size": r, "stride": u,
        "pad": r // 2, "conv_mode": "cross_correlation", "type": "bf16",
    }  # fmt: skip
    plan = simgen.plan(f"conv_{which}", plan_for="h200", set=given)
    plan.build(folder, "cuda")
    ours = Launches(folder)
    ours()
    torch.cuda.synchronize()
    found = {
        name: tensor(folder, name, ours.arena)
        for name in ("x", "w", "y", "dx", "dy", "dw")
        if name == WRITES[which] or name not in WRITES.values()
    }
    theirs = library(found, which, layer)
    got, wanted = found[WRITES[which]].double(), theirs().double()
    off = float((got - wanted).abs().max() / wanted.abs().max())
    seconds = in_turns(ours, theirs)
    kernels = "+".join(cut_of(folder, name) for name in ours.names)
    times = " | ".join(f"{each * 1e6:.1f} us" for each in seconds)
    ratio = seconds[1] / seconds[0]
    return f"{kernels} | {times} | {ratio:.2f} | {off:.1e} |", ratio


def cut_of(folder: Path, kernel: str) -> str:
    """Of a kernel: its tile and work-groups of a unit; whether some move, or compute several."""
    text = (folder / "src" / f"{kernel}.hip").read_text()
    names = "TILE_M", "TILE_N", "STAGES", "LAUNCH_GROUPS", "MOVERS", "STREAMS"
    found = [
        re.search(rf"(?:constexpr unsigned|#define) {name} (?:= )?(\d+)", text) for name in names
    ]
    if not all(found[:5]):
        return kernel.split("_")[-1]
    m, n, stages, held, movers, several = (each[1] if each else "0" for each in found)
    words = [f"{m}x{n}s{stages}", f"{held} at once"]
    words += [name for name, value in (("movers", movers), ("several", several)) if value != "0"]
    return ", ".join(words)


def tensor(folder: Path, name: str, arena: cupy.ndarray) -> torch.Tensor:
    """A tensor of the layer where it lies in the arena; empty where its pass has none."""
    workload = json.loads((folder / "workload.json").read_text())
    buffers = {each["name"].split(".")[-1]: each for each in workload["buffers"]}
    if name not in buffers:
        return torch.empty(0)
    shape = buffers[name]["spec"]["shape"]
    start, count = buffers[name]["offset"], 2
    for extent in shape:
        count *= extent
    part = torch.as_tensor(arena[start : start + count], device="cuda")
    return part.view(torch.bfloat16).reshape(shape)


def library(
    of: dict[str, torch.Tensor], which: str, layer: tuple[int, ...]
) -> Callable[[], torch.Tensor]:
    c, k, h, r, u = layer
    if which == "fwd":
        return lambda: torch.nn.functional.conv2d(of["x"], of["w"], stride=u, padding=r // 2)
    x = of["x"] if of["x"].numel() else of["dy"].new_empty(BATCH, c, h, h)
    w = of["w"] if of["w"].numel() else of["dy"].new_empty(k, c, r, r)
    mask = [which == "bwd_data", which == "bwd_weight", False]
    at = 0 if which == "bwd_data" else 1
    return lambda: torch.ops.aten.convolution_backward(
        of["dy"], x, w, None, [u, u], [r // 2, r // 2], [1, 1], False, [0, 0], 1, mask
    )[at]


if __name__ == "__main__":
    main()
