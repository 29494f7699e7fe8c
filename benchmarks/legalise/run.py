"""How many ordinary kernels MGPUSim runs right: as compiled, and with instructions replaced.

    python benchmarks/legalise/run.py [--as-compiled] [--arch ARCH] [--mode MODE]

The kernels are those of tests/simulator/ordinary_kernels/, with their NumPy references. Each is
right, wrong, refused before it runs, or dead: the simulator panics or does not end. Kernels run in
one process; where it dies, each half of them in one of its own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2] / "tests" / "simulator"
sys.path.insert(0, str(TESTS))

from ordinary import (  # noqa: E402
    CLEAR,
    DEAD,
    MODES,
    REFUSED,
    RIGHT,
    WRONG,
    Built,
    Ordinary,
    built,
    execute,
    kernels,
    wrong,
)  # fmt: skip
from probing import BOTH  # noqa: E402

SECONDS = 60  # that a kernel of this size never takes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--as-compiled", action="store_true", help="replace nothing")
    parser.add_argument("--arch", action="append", choices=BOTH)
    parser.add_argument("--mode", action="append", choices=MODES)
    options = parser.parse_args()
    print("| architecture | mode | kernels | right | refused | wrong | dead |")
    print("|---|---|---|---|---|---|---|")
    notes: list[str] = []
    for arch in options.arch or BOTH:
        made = built(kernels(), arch, legal=not options.as_compiled)
        for mode in options.mode or MODES:
            found = judged(made, arch, mode)
            count = Counter(kind for kind, _ in found.values())
            cells = [count[kind] for kind in (RIGHT, REFUSED, WRONG, DEAD)]
            print(f"| {arch} | {mode} | {len(found)} | {' | '.join(map(str, cells))} |", flush=True)
            notes += [
                f"{arch} {mode} {kind}: {name}: {why}"
                for name, (kind, why) in found.items()
                if kind != RIGHT
            ]
    print("", *notes, sep="\n")


def judged(made: dict[str, Built], arch: str, mode: str) -> dict[str, tuple[str, str]]:
    """What becomes of each kernel, and why."""
    items = {item.name: item for item in kernels()}
    found = {name: (REFUSED, why) for name in items if (why := made[name].refused(mode))}
    runs = [item for name, item in items.items() if name not in found]
    return found | _run(runs, made, arch, mode)


def _run(
    items: list[Ordinary], made: dict[str, Built], arch: str, mode: str
) -> dict[str, tuple[str, str]]:
    if not items:
        return {}
    objects = {name: made[name].elf for name in (*(item.name for item in items), CLEAR)}
    with tempfile.TemporaryDirectory(prefix="simgen-") as folder:
        got = execute(Path(folder), arch, mode, objects, SECONDS * len(items))
    if not isinstance(got, str):
        mistakes = {item.name: wrong(item, got[item.name]) for item in items}
        return {name: (WRONG if why else RIGHT, why) for name, why in mistakes.items()}
    if len(items) == 1:
        return {items[0].name: (DEAD, got)}
    half = len(items) // 2
    return _run(items[:half], made, arch, mode) | _run(items[half:], made, arch, mode)


if __name__ == "__main__":
    main()
