"""Structural fuzzing of all files that simgen reads, and of configs and words on the command line.

    python benchmarks/fuzz/run.py --cases 5000 --seed 1 [--kind results.h5] [--case NUMBER]

A table of outcomes by kind of file; each case that ends in another way than a command may is
printed with what was done, and the exit code is 1. `--case` runs one of them again, and tells all
of it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "plain"))

import fuzzing  # noqa: E402 - it lies with the tests, which run some cases of it


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=fuzzing.KINDS)
    parser.add_argument("--case", type=int)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    started, slowest = time.monotonic(), (0.0, -1)
    outcomes: dict[str, Counter[str]] = {}
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        base = fuzzing.template(Path(name) / "base")
        numbers = range(asked.cases) if asked.case is None else (asked.case,)
        for number in numbers:
            folder = Path(name) / "case"
            begun = time.monotonic()
            case = fuzzing.run_case(asked.seed, number, base, folder, asked.kind)
            slowest = max(slowest, (time.monotonic() - begun, number))
            shutil.rmtree(folder)
            how = case.wrong or f"exit {case.code}"
            outcomes.setdefault(case.kind, Counter())[how] += 1
            bad += bool(case.wrong)
            if case.wrong or asked.case is not None:
                print(f"case {number} ({case.kind}): {case.wrong}")
                print(f"  {case.change}\n  simgen {' '.join(case.words)[:300]}")
                print(f"  {case.err[:600]}", flush=True)
    for kind, counted in outcomes.items():
        told = ", ".join(f"{how}: {count}" for how, count in sorted(counted.items()))
        print(f"{kind:14} {sum(counted.values()):6}  {told}")
    seconds = time.monotonic() - started
    print(f"{len(numbers)} cases in {seconds:.0f} s; the slowest, {slowest[1]}, {slowest[0]:.1f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
