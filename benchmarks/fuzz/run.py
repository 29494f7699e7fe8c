"""Structural fuzzing of all files that simgen reads, and of configs and words on the command line.

    python benchmarks/fuzz/run.py --cases 5000 --seed 1 [--kind results.h5] [--case NUMBER]

A table of outcomes by kind of file; each case that ends in another way than a command may is
printed with what was done, and the exit code is 1. `--case` runs one of them again, and tells all
of it.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[2]
MEMORY = 10**9  # bytes that a case may take, Python and its libraries included
sys.path.insert(0, str(ROOT / "tests" / "plain"))

import fuzzing  # noqa: E402 - it lies with the tests, which run some cases of it

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=fuzzing.KINDS)
    parser.add_argument("--case", type=int)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # of h5py and NumPy, as they make the odd files
    started, slowest, largest = time.monotonic(), (0.0, -1), (0, -1)
    outcomes: dict[str, Counter[str]] = {}
    bad = 0
    for number in (signal.SIGINT, signal.SIGTERM):  # which end it, and the table is told
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        for case, seconds in cases(asked):
            slowest = max(slowest, (seconds, case.number))
            nbytes = peak()
            largest = max(largest, (nbytes, case.number))
            if nbytes > MEMORY and not case.wrong:
                case.wrong = f"{nbytes >> 20} MiB of memory"
            outcomes.setdefault(case.kind, Counter())[case.wrong or f"exit {case.code}"] += 1
            bad += bool(case.wrong)
            if case.wrong or asked.case is not None:
                tell(case)
    for kind, counted in outcomes.items():
        told = ", ".join(f"{how}: {count}" for how, count in sorted(counted.items()))
        print(f"{kind:14} {sum(counted.values()):6}  {told}")
    count = sum(sum(counted.values()) for counted in outcomes.values())
    seconds = time.monotonic() - started
    print(f"{count} cases in {seconds:.0f} s; the slowest, {slowest[1]}, {slowest[0]:.1f} s")
    print(f"the largest, {largest[1]}, {largest[0] >> 20} MiB of memory, Python's included")
    return 1 if bad else 0


def cases(asked: argparse.Namespace) -> Iterator[tuple[fuzzing.Case, float]]:
    """The cases asked for, each with the seconds that it took."""
    with tempfile.TemporaryDirectory() as name:
        base = fuzzing.template(Path(name) / "base")
        for number in range(asked.cases) if asked.case is None else (asked.case,):
            folder = Path(name) / "case"
            Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
            begun = time.monotonic()
            case = fuzzing.run_case(asked.seed, number, base, folder, asked.kind)
            shutil.rmtree(folder)
            yield case, time.monotonic() - begun


def peak() -> int:
    """Most bytes of memory that this process has had since the case began."""
    told = Path("/proc/self/status").read_text()
    return int(told.partition("VmHWM:")[2].split()[0]) << 10


def tell(case: fuzzing.Case) -> None:
    print(f"case {case.number} ({case.kind}): {case.wrong}")
    print(f"  {case.change}\n  simgen {' '.join(case.words)[:300]}")
    print(f"  {case.err[:600]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
