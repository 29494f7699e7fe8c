"""Results of earlier runs by layer: nothing is run.

python examples/yesterday.py BUNDLE
"""

from __future__ import annotations

import sys

import simgen


def main(path: str) -> None:
    bundle = simgen.load(path)
    print(f"{bundle.workload.name}, {len(bundle.workload.launches)} launches")
    for name in bundle.ran:
        result = bundle.result(name)
        print(f"{name}: {result.seconds:.3e} s, by simgen {result.provenance['simgen']}")
        for step in sorted(result.by_layer(), key=lambda each: -each.seconds)[:5]:
            print(f"  {step.layer} {step.pass_}: {step.seconds / result.seconds:6.1%}")


if __name__ == "__main__":
    main(sys.argv[1])
