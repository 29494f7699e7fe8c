"""What matrix instructions and narrow types buy on gem5: the same product, four ways.

    GEM5=/path/to/gem5 python benchmarks/matrix/run.py [-o FOLDER] [--arch A] [WORKLOAD]...

makes bundles of a matrix product and of a layer of ResNet-50 in FOLDER, in float32 and in half
precision, by scalar and by matrix instructions, runs them on gem5's model of the architecture,
compares what they compute with the float64 reference, and prints launches, instructions (each
counted once for a wavefront), simulated time and seconds of the host. What has run already is not
run again, and then without seconds of the host. FOLDER must not lie under /tmp, which gem5's
apu_se.py redirects.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import simgen
from simgen.errors import RefusedError, SimgenError
from simgen.targets.gem5.se import Gem5Se

WORKLOADS = {  # name -> (workload, settings)
    "GEMM 512": ("gemm_fwd", "m=512 n=512 k=512"),
    "ResNet-50 conv3 1x1": (
        "conv_fwd",
        "n=1 c=512 h=28 w=28 num_output=128 kernel_size=1 pad=0 algo=implicit_gemm "
        "conv_mode=cross_correlation",
    ),
    "ResNet-50 conv4 3x3": (
        "conv_fwd",
        "n=1 c=256 h=14 w=14 num_output=256 kernel_size=3 pad=1 algo=implicit_gemm "
        "conv_mode=cross_correlation",
    ),
}
WAYS = (("f32", "no"), ("f32", "yes"), ("f16", "no"), ("f16", "yes"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="default: all")
    parser.add_argument("--arch", default="gfx942", help="default: %(default)s")
    parser.add_argument("-o", "--output", type=Path, default=Path("matrix-benchmark"))
    given = parser.parse_args()
    print("| workload | type | matrix | launches | instructions | us | host s | result |")
    print("|---|---|---|---|---|---|---|---|")
    for name in given.workloads or WORKLOADS:
        for dtype, matrix in WAYS:
            print(
                f"| {name} | {dtype} | {matrix} | {row(name, dtype, matrix, given)} |", flush=True
            )


def row(name: str, dtype: str, matrix: str, given: argparse.Namespace) -> str:
    """The rest of a row; what cannot be built says why."""
    workload, words = WORKLOADS[name]
    settings = dict(word.split("=") for word in words.split())
    target = Gem5Se(arch=given.arch)
    machine = f"{target.name}-{given.arch}"
    path = given.output / f"{name.replace(' ', '-')}-{given.arch}-{dtype}-{matrix}"
    try:
        planned = simgen.plan(
            workload,
            set=settings,
            type=dtype,
            matrix=matrix,
            plan_for=machine,
        )
        bundle = planned.build(path, [target])
    except RefusedError as error:
        return f" | | | | {error}"
    before, took = time.monotonic(), "-"
    try:
        result = bundle.result(target.name)
    except SimgenError:
        result = bundle.run(target.name)
        took = f"{time.monotonic() - before:.0f}"
    sums = {m: sum(each[m] for each in result.launches) for m in ("instructions", "seconds")}
    verdict = bundle.diff(target.name)
    return (
        f"{len(planned.workload.launches)} | {sums['instructions']:.0f} | "
        f"{sums['seconds'] * 1e6:.1f} | {took} | "
        f"{'right' if verdict else verdict.failure}"
    )


if __name__ == "__main__":
    main()
