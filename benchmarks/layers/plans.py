"""What a plan for the machine under study changes: one layer of each kind and pass, planned twice.

    GEM5=/path/to/gem5 python benchmarks/layers/plans.py --on gem5-se [-o FOLDER] [WORKLOAD]...
    python benchmarks/layers/plans.py --on mgpusim --run "--mode timing --num-compute-units 4"

makes two bundles of each layer in FOLDER, one planned for an H200 and one for the machine that the
target simulates (with 4 compute units), runs both with the options of --run, compares what they
compute with the float64 reference, and prints launches, workspace, instructions (each counted once
for a wavefront), bytes from the DRAM and simulated time of both, and their totals. What has run
already is not run again. FOLDER must not lie under /tmp, which gem5's apu_se.py redirects.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from run import WORKLOADS

import simgen
from simgen.errors import SimgenError
from simgen.workload import costs

BEFORE = "h200"
MACHINES = {"gem5-se": "gem5-gfx902", "mgpusim": "mgpusim-mi300a,num_compute_units=4"}
METRICS = ("instructions", "dram_read_bytes", "seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="default: all")
    parser.add_argument("--on", choices=MACHINES, default="gem5-se")
    parser.add_argument("--plan-for", metavar="M", help="default: the target's, with 4 units")
    parser.add_argument("--run", default="", metavar="OPTIONS", help="of simgen run")
    parser.add_argument("-o", "--output", type=Path, default=Path("plans-benchmark"))
    given = parser.parse_args()
    plans = (BEFORE, given.plan_for or MACHINES[given.on])
    print(f"{given.on} {given.run}: planned for {plans[0]} -> {plans[1]}\n")
    print("| workload | launches | workspace KiB | instructions | DRAM read KiB | us | result |")
    print("|---|---|---|---|---|---|---|")
    total = [dict.fromkeys(METRICS, 0.0) for _ in plans]
    for name in given.workloads or WORKLOADS:
        found = [measured(name, plan, given) for plan in plans]
        for sums, each in zip(total, found, strict=True):
            for metric in METRICS:
                sums[metric] += each[metric]
        print(f"| {name} | {' | '.join(cells(*found))} |", flush=True)
    pairs = [arrow(*(sums[m] for sums in total), m) for m in METRICS]
    print(f"| all | | | {' | '.join(pairs)} | |")


def measured(name: str, plan: str, given: argparse.Namespace) -> dict[str, float]:
    """Counts of a workload planned for a machine; it is built and run where it has not been."""
    settings = dict(word.split("=") for word in WORKLOADS[name].split())
    planned = simgen.plan(name, set=settings, plan_for=plan)
    path = given.output / plan / name
    bundle = planned.build(path, [given.on])
    words = shlex.split(given.run)
    options = {w.removeprefix("--").replace("-", "_"): v for w, v in zip(words[::2], words[1::2])}
    try:
        result = bundle.result(given.on)
    except SimgenError:
        result = bundle.run(given.on, options=options)
    work = planned.workload
    found = {m: sum(each.get(m, 0.0) for each in result.launches) for m in METRICS}
    return found | {
        "launches": len(work.launches),
        "workspace": costs.memory(work)["workspaces"],
        "wrong": not bundle.diff(given.on),
    }


def cells(a: dict[str, float], b: dict[str, float]) -> list[str]:
    names = ("launches", "workspace", *METRICS)
    wrong = "WRONG" if a["wrong"] or b["wrong"] else "right"
    return [*(arrow(a[name], b[name], name) for name in names), wrong]


def arrow(before: float, after: float, name: str) -> str:
    """Two values, one where they are equal."""
    scale = {"workspace": 1 / 1024, "dram_read_bytes": 1 / 1024, "seconds": 1e6}.get(name, 1.0)
    digits = 1 if name == "seconds" else 0
    texts = [f"{value * scale:.{digits}f}" for value in (before, after)]
    return texts[0] if texts[0] == texts[1] else " -> ".join(texts)


if __name__ == "__main__":
    main()
