"""Runs bundles whole and by pieces, and prints how far the totals of the pieces are off.

    python benchmarks/pieces/run.py mgpusim resnet18 n=1 h=32 w=32 pool5.kernel_size=1
    python benchmarks/pieces/run.py gem5-se lenet5

The bundle is built beside the current folder's results, in `pieces-TARGET-WORKLOAD`; what has run
there before is not run again.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import simgen

OPTIONS = {"mgpusim": {"mode": "timing"}}
RUNS = (
    ("representatives", {"representatives": True}),
    ("representatives, cold", {"representatives": True, "warm": "none"}),
    ("all layers, 2 at a time", {"jobs": 2}),
)


def total(result, name):
    return sum(launch[name] for launch in result.launches)


def main() -> None:
    target, word, *pairs = sys.argv[1:]
    settings = dict(pair.split("=") for pair in pairs)
    path = Path(f"pieces-{target}-{word}")
    bundle = simgen.load(path) if path.exists() else None
    if bundle is None:
        bundle = simgen.plan(word, set=settings).build(path, targets=[target])
    options = OPTIONS.get(target, {})
    began = time.monotonic()
    whole = bundle.run(target, options=options, replace=True)
    print("| run | measured | us | error | instructions off | host s | largest error of a launch |")
    print("|---|---|---|---|---|---|---|")
    print(
        f"| whole | {len(whole.launches)} of {len(whole.launches)} | "
        f"{total(whole, 'seconds') * 1e6:.2f} | | | {time.monotonic() - began:.0f} | |"
    )
    for name, how in RUNS:
        began = time.monotonic()
        found = bundle.run(target, options=options, replace=True, **how)
        passed = time.monotonic() - began
        assert bundle.diff(found.name), f"{name}: not right"
        inferred = len(found.provenance["inferred"])
        worst = max(
            abs(a["seconds"] / b["seconds"] - 1)
            for a, b in zip(found.launches, whole.launches, strict=True)
        )
        seconds = total(found, "seconds")
        off = total(found, "instructions") - total(whole, "instructions")
        print(
            f"| {name} | {len(whole.launches) - inferred} of {len(whole.launches)} | "
            f"{seconds * 1e6:.2f} | {seconds / total(whole, 'seconds') - 1:+.2%} | {off:.0f} | "
            f"{passed:.0f} | {worst:.1%} |"
        )


if __name__ == "__main__":
    main()
