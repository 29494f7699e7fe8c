"""What a run costs on gem5's GPU model: CPU instructions and host time, by size and launches.

    GEM5=/path/to/gem5 python benchmarks/gem5/run.py [--quick] [-o FOLDER]

Each workload is built, run on gem5 with `apu_se.py`, and compared with the float64 reference.
Instructions are gem5's own simInsts, summed over all dumps: everything that the simulated CPU
executed, from the first instruction of the program to its exit. FOLDER must not lie under /tmp,
which apu_se.py redirects.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from simgen import gem5_stats

WORKLOADS = [
    ("softmax_fwd", ["n=1", "c=10"]),
    ("softmax_fwd", []),
    ("softmax_bwd", []),
    ("softmax_fwd", ["n=1000", "c=1000"]),
    ("activation_fwd", ["n=1", "h=64", "w=64"]),
    ("activation_bwd", ["n=1", "h=64", "w=64"]),
    ("activation_fwd", ["n=1", "h=64", "w=64", "activation_mode=tanh"]),
    ("classifier", []),
    ("classifier", ["--pass", "fwd,bwd"]),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the first workload only")
    parser.add_argument("-o", "--output", type=Path, default=Path("gem5-benchmark"))
    given = parser.parse_args()
    print("| workload | result | launches | CPU instructions | to first kernel's end | host s |")
    print("|---|---|---|---|---|---|")
    for at, (name, words) in enumerate(WORKLOADS[: 1 if given.quick else None]):
        row(given.output / f"{at}-{name}", name, words)


def row(bundle: Path, name: str, words: list[str]) -> None:
    options = words if words[:1] == ["--pass"] else [w for s in words for w in ("--set", s)]
    simgen("build", name, "--target", "gem5-se", "-o", str(bundle), *options, "-q")
    start = time.perf_counter()
    simgen("run", str(bundle), "--on", "gem5-se", "-q")
    seconds = time.perf_counter() - start
    pair = json.loads(simgen("diff", str(bundle), "--json"))["pairs"][0]
    worst = max(tensor["max_error_over_tolerance"] for tensor in pair["tensors"])
    dumps = gem5_stats.cpu_instructions(bundle / "results/gem5-se/stats.txt")
    workload = json.loads((bundle / "workload.json").read_text())
    launches = sum(len(step["launches"]) for step in workload["steps"])
    print(
        f"| {name} {' '.join(words)} | {'right' if pair['passed'] else 'WRONG'}, "
        f"{worst:.2f} of tolerance | {launches} | {sum(dumps)} | {dumps[0]} | {seconds:.1f} |",
        flush=True,
    )


def simgen(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "simgen", *words], capture_output=True, text=True)
    if done.returncode not in (0, 6):
        raise SystemExit(f"simgen {' '.join(words)}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
