"""A softmax of several shapes on this CPU, as a table of pandas.

python examples/shapes.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import simgen


def main(folder: Path) -> None:
    bundle = simgen.plan("softmax_fwd").build(folder / "softmax", "host")
    bundle.sweep("host", {"n": [16, 64], "c": [10, 1000]})
    bundles = [each for each in sorted(folder.iterdir()) if simgen.load(each).ran]
    table = simgen.rows(bundles).to_pandas()
    print(table.pivot(index="n", columns="c", values="seconds"))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "shapes-example"))
