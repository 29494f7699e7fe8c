"""A kernel of your own: is it right, and which of its launches takes how long?

python examples/own_kernel.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import simgen

KERNEL = Path(__file__).parent / "kernels" / "reduce.toml"


def main(folder: Path) -> None:
    bundle = simgen.plan(KERNEL, set={"n": 3000}).build(folder / "reduce", "host")
    result = bundle.run("host")
    verdict = bundle.diff(strict=True)
    verdict.check()  # an exception if it is wrong
    for launch in result.launches:
        print(f"{launch.index} {launch.kernel}: {launch.seconds * 1e6:.0f} us")
    print(verdict.summary)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "own-kernel-example"))
