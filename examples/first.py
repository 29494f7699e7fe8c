"""A softmax of four sizes on this CPU: built, run, checked against the reference, and reported.

python examples/first.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import simgen


def main(folder: Path) -> None:
    bundles = []
    for classes in (10, 100, 1000, 10000):
        plan = simgen.plan("softmax_fwd", set={"n": 16, "c": classes})
        bundle = plan.build(folder / f"softmax-{classes}", targets=["host"])
        result = bundle.run("host", timeout=60, replace=True)
        verdict = bundle.diff()
        if not verdict:
            raise SystemExit(verdict.failure)
        y = result.outputs["softmax.y"].values
        seconds = sum(launch["seconds"] for launch in result.launches)
        print(f"{y.shape[1]:6} classes: {seconds * 1e6:8.1f} us; {verdict.summary}")
        bundles.append(bundle)
    print(f"all of it: {simgen.report(bundles, folder / 'report').page}")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else "first-example"))
    except simgen.errors.SimgenError as error:
        raise SystemExit(str(error)) from None
