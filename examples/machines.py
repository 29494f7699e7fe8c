"""LeNet-5 on two simulated machines: which layers gain from more compute units.

python examples/machines.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import simgen


def main(folder: Path) -> None:
    bundle = simgen.plan("lenet5", set={"n": 1}).build(folder / "lenet5", "mgpusim")
    small, large = bundle.sweep(
        "mgpusim", {"num_compute_units": [8, 64]}, options={"mode": "timing"}
    ).values()
    for before, after in zip(small.by_layer(), large.by_layer(), strict=True):
        print(f"{before.layer:8} {before.seconds / after.seconds:5.2f} times as fast")
    units = [result.settings["num_compute_units"] for result in (small, large)]
    print(f"all: {small.seconds / large.seconds:.2f} times, from {units[0]} to {units[1]} units")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "machines-example"))
