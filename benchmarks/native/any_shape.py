"""Products and convolutions of random shapes, beside PyTorch's library in turns, in one run.

    python benchmarks/native/any_shape.py SEED N [--kinds KIND,...] [--candidates FILE]

Each of N shapes of each kind is planned for an H200, its kernels are compiled side by side, and
launched as the `cuda` target launches them. Ours and the library take turns, with a cold L2, behind
a delay that outlasts the CPU's launching; times are medians of ROUNDS. Extents are log-uniform:

    bf16, f16     m of 16 to 6,000, n and k of 64 to 12,000, multiples of 8
    f8, i8, f32   the same, multiples of 16
    odd           bf16, any extents
    conv          bf16; 16 to 512 channels and filters, 7 to 112 pixels, 1, 3, 5 or 7 taps, stride 1
                  or 2, three passes
    small         the same with 1 to 8 images, 8 to 128 channels and filters, 4 to 28 pixels
    rows          bf16 softmax, layer and RMS norms and gradients; any 128 to 151,936 columns,
                  ELEMENTS in all; beside a copy of as many bytes in place of a library

"off" is the largest difference, of the largest result. With --candidates, products are also timed
in every way that could be planned and is estimated to take at most WORTH times the least,
convolutions by each algorithm, and a line of JSON for each goes to FILE: what the estimates of
tile.py and algorithms.py are fitted to.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np
import torch

import simgen
from simgen.ground import ir
from simgen.kernels import render
from simgen.layers.product import tile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 11
L2 = 2**27  # bytes that are written between rounds
ELEMENTS = 2**26
WORTH = 2.5
MOST = 12  # candidates of a shape
ROOT = Path(simgen.__file__).parent.parent
TYPES = {"bf16": "bf16", "f16": "f16", "f8": "f8e4m3fn", "i8": "i8", "f32": "f32", "odd": "bf16"}
NAMES = {
    "bf16": "bfloat16", "f16": "float16", "i8": "int8", "f8e4m3fn": "float8_e4m3fn",
    "f32": "float32", "i32": "int32",
}  # fmt: skip
WRITES = {"fwd": "y", "bwd_data": "dx", "bwd_weight": "dw"}
CONVOLUTIONS = ("conv", "small")
ALGORITHMS = ("direct", "implicit_gemm", "channels_last")
ROWS = {  # tensors of the type's elements, and what is written
    "softmax_fwd": (2, "y"), "softmax_bwd": (3, "dx"), "layer_norm_fwd": (2, "y"),
    "layer_norm_bwd_data": (3, "dx"), "rms_norm_fwd": (2, "y"), "rms_norm_bwd_data": (3, "dx"),
}  # fmt: skip


@dataclass
class Case:
    """A way to compute a shape."""

    words: dict[str, Any]
    kind: str
    way: str
    workload: dict[str, Any]
    chosen: bool = False
    estimate: float = 0.0
    seconds: float = 0.0
    library: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("number", type=int)
    parser.add_argument("--kinds", default="bf16,f8,i8,conv")
    parser.add_argument("--candidates")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    name = torch.cuda.get_device_name()
    print(f"GPU: {name}, PyTorch {torch.__version__}, seed {given.seed}\n")
    for kind in given.kinds.split(","):
        drawn = random.Random(f"{given.seed} {kind}")
        shapes = [draw(kind, drawn) for _ in range(given.number)]
        measure(kind, shapes, given.candidates)


def draw(kind: str, drawn: random.Random) -> dict[str, Any]:
    def extent(least: int, most: int, step: int) -> int:
        return max(step, round(np.exp(drawn.uniform(np.log(least), np.log(most))) / step) * step)

    if kind == "rows":
        columns = extent(128, 151936, 1)
        return {"layer": drawn.choice([*ROWS]), "shape": f"{ELEMENTS // columns}x{columns}"}
    if kind in CONVOLUTIONS:
        taps, stride = drawn.choice((1, 3, 5, 7)), drawn.choice((1, 2))
        channels = (8, 128, 8) if kind == "small" else (16, 512, 16)
        c, k = (extent(*channels) for _ in "ck")
        h = extent(4, 28, 1) if kind == "small" else extent(7, 112, 1)
        images = drawn.choice((1, 2, 4, 8) if kind == "small" else (8, 16, 32))
        return {
            "n": images, "c": c, "h": h, "w": h, "num_output": k,
            "kernel_size": taps, "stride": stride, "pad": taps // 2,
            "pass": drawn.choice([*WRITES]),
        }  # fmt: skip
    step = {"bf16": 8, "f16": 8, "odd": 1}.get(kind, 16)
    least = 32 if kind == "i8" else 16  # torch._int_mm takes no fewer rows
    m, n, k = extent(least, 6000, step), extent(64, 12000, step), extent(64, 12000, step)
    transposed = True if kind in ("f8", "i8") else drawn.random() < 0.5
    return {"m": m, "n": n, "k": k, "transb": "true" if transposed else "false"}


def measure(kind: str, shapes: list[dict[str, Any]], file: str | None) -> None:
    cases = [each for shape in shapes for each in ways(kind, shape, bool(file) and kind != "rows")]
    with tempfile.TemporaryDirectory() as folder:
        launcher, functions = compiled(Path(folder), cases)
        nbytes = max(each.workload["arena_nbytes"] for each in cases)
        arena = filled(kind, nbytes)
        print("| shape | how | ours | library | of it | off |\n|---|---|---|---|---|---|")
        ratios = []
        for shape in shapes:
            some = [each for each in cases if each.words is shape]
            ratios.append(row(kind, some, launcher, functions, arena))
            if file:
                with open(file, "a") as out:
                    for each in some:
                        told = {"kind": kind, **shape, "way": each.way, "chosen": each.chosen}
                        told |= {
                            "estimate": each.estimate,
                            "seconds": each.seconds,
                            "library": each.library,
                        }
                        out.write(json.dumps(told) + "\n")
    found = np.array(ratios)
    mean, share = np.exp(np.log(found).mean()), (found >= 0.95).mean()
    worst = ", ".join(f"{each:.2f}" for each in np.sort(found)[:5])
    print(f"\n{kind}: {len(found)} shapes, library / ours {mean:.3f}, worst {worst}, "
          f"{share:.2f} at 0.95 or above\n", flush=True)  # fmt: skip


def ways(kind: str, shape: dict[str, Any], several: bool) -> list[Case]:
    """The planned one first."""
    made = [planned(kind, shape)]
    made[0].chosen = True
    if not several:
        return made
    if kind in CONVOLUTIONS:
        for each in ALGORITHMS:
            with suppress(ValueError, simgen.errors.SimgenError):
                made.append(planned(kind, {**shape, "algo": each}))
                made[-1].words = shape
        return made
    seen: list[tuple[float, tile.Cut]] = []
    with replaced(tile, "best_cut", lister(seen)):
        planned(kind, shape)
    if not seen:
        return made
    seen.sort(key=lambda each: each[0])
    least = seen[0][0]
    worth = [each for each in seen if each[0] <= WORTH * least]
    # The best of each tile.
    tiles = {each[1].tile for each in seen}
    worth += [next(each for each in seen if each[1].tile == one) for one in tiles]
    first, rest = worth[: MOST // 2], worth[MOST // 2 :]
    random.Random(str(shape)).shuffle(rest)
    for estimate, cut in [*first, *rest[: MOST - len(first)]]:
        with replaced(tile, "best_cut", lambda *_, cut=cut, **__: cut):
            one = planned(kind, shape)
        one.estimate = estimate
        if one.way == made[0].way:
            made[0].estimate = estimate
        if all(one.way != other.way for other in made):
            made.append(one)
    return made


def lister(seen: list[tuple[float, tile.Cut]]) -> Callable[..., tile.Cut]:
    """What takes the place of best_cut, and leaves all that this would compare."""
    original = tile.best_cut

    def listing(
        m: int, n: int, k: int, batch: int = 1, *, machine: Any, tiles: Any, nbytes: Any, rows: Any
    ) -> tile.Cut:
        if not seen:
            most = tile.partial(machine)
            for each in tiles:
                if each.resident(machine):
                    for cut in tile._chunks(each, k, tile.SPLITS):
                        if cut.splits == 1 or cut.splits * m * n * batch <= most:
                            took = tile.cycles(cut, m, n, k, batch, machine, nbytes, rows)
                            seen.append((took, cut))
        return original(m, n, k, batch, machine=machine, tiles=tiles, nbytes=nbytes, rows=rows)

    return listing


@contextmanager
def replaced(place: Any, name: str, value: object) -> Iterator[None]:
    old = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, old)


def planned(kind: str, shape: dict[str, Any]) -> Case:
    given = {key: value for key, value in shape.items() if key not in ("pass", "layer")}
    given["type"] = TYPES.get(kind, "bf16")
    name = "gemm_fwd"
    if kind in CONVOLUTIONS:
        given |= {"conv_mode": "cross_correlation"}
        name = f"conv_{shape['pass']}"
    if kind == "rows":
        name = shape["layer"]
    matrix = "yes" if kind == "f8" else "auto"
    workload = simgen.plan(name, plan_for="h200", matrix=matrix, set=given).workload
    sources = render.kernels(workload)
    told = ir.to_json(workload)
    told["sources"] = sources
    return Case(shape, kind, "+".join(how(each["name"]) for each in told["kernels"]), told)


def how(name: str) -> str:
    found = [part for part in name.split("_") if part[:1] == "t" and part[1:2].isdigit()]
    found += [part for part in name.split("_") if part.startswith(("by", "wg", "m16", "sum"))]
    return "_".join(found) or name.split("_")[-1]


def compiled(folder: Path, cases: list[Case]) -> tuple[Any, dict[str, Any]]:
    """The launcher as a module, and all kernels' functions by name."""
    (folder / "cuda").mkdir()
    (folder / "src").mkdir()
    path = folder / "cuda" / "run.py"
    path.write_text(render.text("launchers/cuda_run.py"))
    (folder / "src" / render.PRELUDE).write_text(render.prelude())
    kernels = {}
    for case in cases:
        for name, text in case.workload["sources"].items():
            (folder / "src" / f"{name}.hip").write_text(text)
        kernels |= {each["name"]: each for each in case.workload["kernels"]}
    spec = importlib.util.spec_from_file_location("launcher", path)
    assert spec
    assert spec.loader
    launcher: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(launcher)
    functions = launcher.functions_of({"kernels": list(kernels.values())})
    print(f"{len(kernels)} kernels are compiled", file=sys.stderr, flush=True)
    return launcher, functions


def filled(kind: str, nbytes: int) -> torch.Tensor:
    """Memory with normal numbers of the kind's type."""
    dtype = getattr(torch, NAMES[TYPES.get(kind, "bf16")])
    if kind == "i8":
        return torch.randint(0, 256, (nbytes,), dtype=torch.uint8, device="cuda")
    count = -(-nbytes // dtype.itemsize)
    piece = torch.randn(min(count, 2**26), device="cuda").to(dtype).view(torch.uint8)
    return piece.repeat(-(-nbytes // piece.numel()))[:nbytes].clone()


def row(
    kind: str, cases: list[Case], launcher: Any, functions: dict[str, Any], arena: torch.Tensor
) -> float:
    works = []
    for each in cases:
        launches = [launch for step in each.workload["steps"] for launch in step["launches"]]
        found = launcher.calls_of(each.workload, launches, functions, arena.data_ptr())
        works.append(lambda calls=found[0], kept=found[1]: [launcher.start(one) for one in calls])
    tensors = {
        each["name"].split(".")[-1]: view(each, arena) for each in cases[0].workload["buffers"]
    }
    for each in cases[0].workload["buffers"]:
        if each["role"] == "input":
            given = tensors[each["name"].split(".")[-1]]
            given = given.view(torch.uint8)
            given.copy_(filled(kind, given.nbytes).reshape_as(given))
    theirs = library(kind, cases[0].words, tensors)
    wanted = (expected(cases[0].words, tensors) if kind == "rows" else theirs()).double()
    stream = cupy.cuda.Stream.from_external(torch.cuda.current_stream())
    off = 0.0
    with stream:
        for each, work in zip(cases, works):
            (wrote,) = (one for one in each.workload["buffers"] if is_result(one, cases[0].words))
            work()
            found = view(wrote, arena).double()
            off = max(off, float((found - wanted).abs().max() / wanted.abs().max()))
        times = in_turns([*works, theirs])
    for each, seconds in zip(cases, times):
        each.seconds, each.library = seconds, times[-1]
    shape = " ".join(f"{key}={value}" for key, value in cases[0].words.items())
    best = min(cases, key=lambda each: each.seconds)
    better = f" (best {best.way} {best.seconds * 1e6:.1f})" if not best.chosen else ""
    ratio = times[-1] / times[0]
    ours, library_ = (f"{each * 1e6:.1f} us" for each in (times[0], times[-1]))
    print(f"| {shape} | {cases[0].way}{better} | {ours} | {library_} | {ratio:.2f} | {off:.1e} |",
          flush=True)  # fmt: skip
    return ratio


def is_result(buffer: dict[str, Any], words: dict[str, Any]) -> bool:
    wanted = ROWS[words["layer"]][1] if "layer" in words else WRITES.get(words.get("pass", ""), "y")
    return bool(buffer["name"].split(".")[-1] == wanted)


def view(buffer: dict[str, Any], arena: torch.Tensor) -> torch.Tensor:
    name = buffer["spec"]["dtype"]
    dtype = getattr(torch, NAMES.get(name, "uint8"))
    count = int(np.prod(buffer["spec"]["shape"])) * dtype.itemsize
    part = arena[buffer["offset"] : buffer["offset"] + count]
    return part.view(dtype).reshape(buffer["spec"]["shape"])


def library(
    kind: str, shape: dict[str, Any], of: dict[str, torch.Tensor]
) -> Callable[[], torch.Tensor]:
    if kind == "rows":
        nbytes = ROWS[shape["layer"]][0] * ELEMENTS
        read, written = (torch.zeros(nbytes, dtype=torch.uint8, device="cuda") for _ in "rw")
        return lambda: written.copy_(read)
    if kind not in CONVOLUTIONS:
        a, right = of["a"], of["b"].T if shape["transb"] == "true" else of["b"]
        if kind == "i8":
            return lambda: torch._int_mm(a, right)
        if kind == "f8":
            one = torch.ones((), device="cuda")
            return lambda: torch._scaled_mm(
                a, right, scale_a=one, scale_b=one, scale_result=one, out_dtype=a.dtype
            )
        return lambda: torch.matmul(a, right)
    c, k, h, r = (shape[key] for key in ("c", "num_output", "h", "kernel_size"))
    u, pad = shape["stride"], shape["pad"]
    if shape["pass"] == "fwd":
        return lambda: torch.nn.functional.conv2d(of["x"], of["w"], stride=u, padding=pad)
    x = of["x"] if "x" in of else of["dy"].new_empty(shape["n"], c, h, h)
    w = of["w"] if "w" in of else of["dy"].new_empty(k, c, r, r)
    mask = [shape["pass"] == "bwd_data", shape["pass"] == "bwd_weight", False]
    at = 0 if mask[0] else 1
    return lambda: torch.ops.aten.convolution_backward(
        of["dy"], x, w, None, [u, u], [pad, pad], [1, 1], False, [0, 0], 1, mask
    )[at]


def expected(shape: dict[str, Any], of: dict[str, torch.Tensor]) -> torch.Tensor:
    """What a layer of rows gives, in float32."""
    names, layer = ("y", "dy") if shape["layer"] == "softmax_bwd" else ("x", "dy"), shape["layer"]
    x = of[names[0]].float()
    if layer == "softmax_fwd":
        return torch.softmax(x, -1)
    if layer == "softmax_bwd":
        dy = of["dy"].float()
        return x * (dy - (x * dy).sum(-1, keepdim=True))
    gamma = of["gamma"]
    if layer == "rms_norm_fwd":
        return torch.nn.functional.rms_norm(x, gamma.shape, gamma, 1e-5)
    if layer == "layer_norm_fwd":
        return torch.nn.functional.layer_norm(x, gamma.shape, gamma, of["beta"], 1e-5)
    given = of["dy"].float() * gamma
    invstd = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)
    if "invstd" in of:
        invstd = of["invstd"][:, None]
    x = x * invstd if layer == "rms_norm_bwd_data" else (x - of["mean"][:, None]) * invstd
    less = x * (given * x).mean(-1, keepdim=True)
    if layer == "layer_norm_bwd_data":
        less += given.mean(-1, keepdim=True)
    return (given - less) * invstd


def in_turns(works: list[Callable[[], object]]) -> list[float]:
    """Seconds of each, as medians."""
    flushed = torch.empty(L2, dtype=torch.uint8, device="cuda")
    times: list[list[float]] = [[] for _ in works]
    for at in range(ROUNDS + 2):
        for found, work in zip(times, works):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            torch.cuda._sleep(500_000)
            flushed.fill_(at)
            start.record()
            work()
            end.record()
            end.synchronize()
            if at >= 2:
                found.append(start.elapsed_time(end) / 1e3)
    return [float(np.median(each)) for each in times]


if __name__ == "__main__":
    main()
