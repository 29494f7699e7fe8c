"""A figure for a paper: time by layer of a bundle's results, as PDF.

python examples/plot.py BUNDLE FILE
"""

from __future__ import annotations

import sys
from pathlib import Path

import simgen


def main(bundle: str, path: Path) -> None:
    report = simgen.report([bundle], path.with_suffix(".report"))
    print(", ".join(report.figures))
    report.figures["Time of each layer"].save(path, inches=3.3)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
