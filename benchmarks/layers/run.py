"""One layer of each kind and pass, on gem5, MGPUSim and a GPU: host time, counts, how they agree.

    GEM5=/path/to/gem5 python benchmarks/layers/run.py [-o FOLDER] [--on TARGET]... [WORKLOAD]...

makes a bundle of each layer in FOLDER, runs it on each TARGET (default: gem5-se and mgpusim, in its
timing model) where it has not run yet, compares it with the float64 reference, and prints the
tables of all that has run by then, with numbers in the order gem5-se, mgpusim, cuda. `--on none`
only makes the bundles, `--on cuda` runs those of FOLDER on this machine's GPU: the bundles can be
carried there and back, so that all targets run the same kernels. FOLDER must not lie under /tmp,
which gem5's apu_se.py redirects.

Host seconds are those of a run as a whole, by the clock. Instructions are counted once for a
wavefront; gem5's CPU instructions are all simInsts. Simulated time is that in which the GPU was
active.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import simgen
from simgen.bundle import result_names, results
from simgen.bundle import writing as bundles
from simgen.reports.pages import page
from simgen.targets.gem5 import stats as gem5_stats

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from simgen.reports.pages.row import Row

IMAGE = "n=2 c=32 h=64 w=64"
BRANCHES = "n=4 c=64 h=28 w=28"
CONVOLUTION = "n=2 c=16 h=32 w=32 num_output=32 kernel_size=3 pad=1"
PRODUCT = "n=16 c=1024 num_output=256"
WORKLOADS = {  # workload -> settings
    "activation_fwd": IMAGE,
    "activation_bwd": IMAGE,
    "add_fwd": BRANCHES,
    "add_bwd": BRANCHES,
    "bn_fwd": "n=8 c=32 h=28 w=28 batchnorm_mode=spatial",
    "bn_bwd": "n=8 c=32 h=28 w=28 batchnorm_mode=spatial",
    "bypass_fwd": IMAGE,
    "bypass_bwd": IMAGE,
    "concat_fwd": BRANCHES,
    "concat_bwd": BRANCHES,
    "conv_fwd": CONVOLUTION,
    "conv_bwd_data": CONVOLUTION,
    "conv_bwd_weight": CONVOLUTION,
    "dropout_fwd": "n=100 c=1000",
    "dropout_bwd": "n=100 c=1000",
    "fc_fwd": PRODUCT,
    "fc_bwd_data": PRODUCT,
    "fc_bwd_weight": PRODUCT,
    "fused_conv_fwd": f"{CONVOLUTION} batch_norm=true",
    "fused_fc_fwd": PRODUCT,
    "gemm_fwd": "m=192 n=192 k=192",
    "lrn_fwd": "n=2 c=32 h=32 w=32",
    "lrn_bwd": "n=2 c=32 h=32 w=32",
    "pool_fwd": "n=4 c=16 h=64 w=64",
    "pool_bwd": "n=4 c=16 h=64 w=64",
    "sgd_fwd": "n=128 c=1024",
    "softmax_fwd": "n=100 c=1000",
    "softmax_bwd": "n=100 c=1000",
}
TARGETS: dict[str, dict[str, str | int]] = {  # target -> options of its run
    "gem5-se": {},
    "mgpusim": {"mode": "timing"},
    "cuda": {"warmup": 3, "repeats": 20},
}
HOST = "host_seconds.json"  # in FOLDER/WORKLOAD/results: target -> seconds of its run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="default: all")
    parser.add_argument("-o", "--output", type=Path, default=Path("layers-benchmark"))
    parser.add_argument("--again", action="store_true", help="run what has run already too")
    parser.add_argument("--on", action="append", choices=[*TARGETS, "none"])
    given = parser.parse_args()
    wanted = given.workloads or list(WORKLOADS)
    for name in wanted:
        if not (given.output / name / bundles.MANIFEST).exists():
            settings = dict(word.split("=") for word in WORKLOADS[name].split())
            simgen.plan(name, set=settings).build(given.output / name, list(TARGETS))
    for name in wanted:
        for target in given.on or ("gem5-se", "mgpusim"):
            done = has_run(bundles.load(given.output / name), target)
            if target != "none" and (given.again or not done):
                run(given.output / name, target)
    tables([bundles.load(given.output / name) for name in wanted])


def has_run(bundle: bundles.Bundle, target: str) -> bool:
    return any(result_names.target_of(name) == target for name in bundle.ran())


def run(bundle: Path, target: str) -> None:
    """Run the bundle and keep what the host took."""
    start = time.perf_counter()
    simgen.load(bundle).run(target, options=TARGETS[target], replace=True)
    seconds = time.perf_counter() - start
    path = bundle / bundles.RESULTS / HOST
    told = json.loads(path.read_text()) if path.exists() else {}
    told[target] = seconds
    path.write_text(json.dumps(told, indent=1) + "\n")
    print(f"{bundle.name} on {target}: {seconds:.1f} s", file=sys.stderr, flush=True)


def tables(made: list[bundles.Bundle]) -> None:
    found: list[Row] = []
    cpu: dict[str, int] = {}
    columns = (
        "sizes",
        "launches",
        "result",
        "instructions",
        "GPU-active us",
        "host s",
    )
    print(f"| workload | {' | '.join(columns)} |\n|" + "---|" * 7)
    for bundle in made:
        ran = [simgen.load(bundle.path).result(name) for name in TARGETS if has_run(bundle, name)]
        rows = page.rows(bundle, ran)
        print(f"| {' | '.join(cells(bundle, ran, rows))} |", flush=True)
        found += rows
        stats = bundle.path / bundles.RESULTS / "gem5-se" / gem5_stats.FILE
        if stats.exists():
            cpu[bundle.workload.name] = sum(gem5_stats.cpu_instructions(stats))
    if cpu:
        least, most = min(cpu, key=lambda name: cpu[name]), max(cpu, key=lambda name: cpu[name])
        print(f"\nCPU instructions on gem5: {cpu[least]} ({least}) to {cpu[most]} ({most})")
    print("\n| " + " | ".join(page.CORRELATION_TITLES) + " |\n|" + "---|" * 9)
    for each in page.correlations(found):
        print("| " + " | ".join(page.correlation_cells(each)) + " |")


def cells(bundle: bundles.Bundle, ran: list[results.Result], rows: list[Row]) -> Iterator[str]:
    """A line of the table; numbers in the order of TARGETS."""
    made = simgen.load(bundle.path)
    wrong = [each.name for each in ran if not made.diff(each.name, "reference")]
    path = bundle.path / bundles.RESULTS / HOST
    host = json.loads(path.read_text()) if path.exists() else {}
    of: dict[str, list[dict[str, float]]] = {name: [] for name in TARGETS}
    for row in rows:
        of[result_names.target_of(row.result)].append(row.metrics)
    yield bundle.workload.name
    yield WORKLOADS[bundle.workload.name]
    yield str(len(bundle.workload.launches))
    yield f"WRONG: {', '.join(wrong)}" if wrong else "right"
    yield ", ".join(total(metrics, "instructions", 1, 0) for metrics in of.values())
    yield ", ".join(total(metrics, "seconds", 1e6, 1) for metrics in of.values())
    yield ", ".join(f"{host[name]:.1f}" if name in host else "-" for name in TARGETS)


def total(found: list[Mapping[str, float]], name: str, scale: float, digits: int) -> str:
    counted = [metrics[name] for metrics in found if name in metrics]
    return f"{sum(counted) * scale:.{digits}f}" if counted else "-"


if __name__ == "__main__":
    main()
