"""What each stage takes for networks of 100, 1,000 and 10,000 layers.

    python benchmarks/growth/run.py [LAYERS...]

A chain of small layers, of three kinds in turn, so that what is measured is simgen's own work and
the host launcher's, not the kernels'. Seconds are processor time, user and system, of the command
and all that it starts: other programs on the machine do not count.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZES = (100, 1000, 10000)
WIDTH = 16  # features of every layer
KINDS = (
    ("FullyConnected", f"num_output={WIDTH}\nbias=true"),
    ("Activation", "activation_mode=relu"),
    ("Bypass", ""),
)
SIMGEN = (sys.executable, "-c", "import sys; from simgen.cli.main import main; sys.exit(main())")


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or SIZES
    print("| layers | show | build | build again | run --on host | of it system | diff | report |")
    print("|---|---|---|---|---|---|---|---|")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            print(f"| {size:,} |", end="", flush=True)
            for cell in row(Path(folder), size):
                print(f" {cell} |", end="", flush=True)
            print()


def row(folder: Path, size: int) -> Iterator[str]:
    """Seconds of each command, in the order of the columns, as they are known."""
    config, bundle = folder / "chain.dnnmark", str(folder / "bundle")
    config.write_text(chain(size))
    environment = {**os.environ, "SIMGEN_CACHE_DIR": str(folder / "cache")}
    build = ("build", str(config), "--target", "host", "-o", bundle)
    commands = (
        ("show", str(config)),
        build,
        build,
        ("run", bundle, "--on", "host"),
        ("diff", bundle, "reference", "host"),
        ("report", bundle, "-o", str(folder / "report")),
    )
    for command in commands:
        user, system = seconds((*SIMGEN, *command), environment)
        yield f"{user + system:.1f}"
        if command[0] == "run":
            yield f"{system:.1f}"


def chain(size: int) -> str:
    """A config: each layer reads the one before."""
    sections = ["[DNNMark]\nrun_mode=composed"]
    for at in range(size):
        section, keys = KINDS[at % len(KINDS)]
        source = f"previous_layer=l{at - 1}" if at else f"n=2\nc={WIDTH}\nh=1\nw=1"
        sections.append(f"[{section}]\nname=l{at}\n{source}\n{keys}")
    return "\n\n".join(sections) + "\n"


def seconds(command: tuple[str, ...], environment: dict[str, str]) -> tuple[float, float]:
    """User and system time of a command that must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[3:])}: exit code {done.returncode}\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main()
