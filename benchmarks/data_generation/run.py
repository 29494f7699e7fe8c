"""How fast `simgen data` writes a file of random float32 values, next to two peers.

    dd        zeros, written and synchronised: what this disk can do
    rand()    the C++ generator of gem5's DNNMark port (peer.cpp), compiled as its README says (no
              optimisation flag) and with -O2: one thread, all in memory, no fsync

Each way runs once per round, one after the other, so that a slow spell of the machine meets all
of them; the table has medians. Peak memory is of the process itself, from wait4. The file lies in
a new folder under --folder, and is deleted after each run.

    python benchmarks/data_generation/run.py --bytes 2147483648 --repeat 5
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
MIB = 2**20
OURS = """
import sys
from pathlib import Path
from simgen.tensors.data_file import write_raw
write_raw(Path(sys.argv[1]), int(sys.argv[2]), seed=1)
"""


@dataclass
class Way:
    """One way to make the file, and what was measured of it."""

    name: str
    command: list[str]
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    peak_mib: list[float] = field(default_factory=list)

    def measure(self, file: Path, nbytes: int) -> None:
        """Run once, in a process of its own."""
        start = time.perf_counter()
        process = subprocess.Popen(self.command, stderr=subprocess.PIPE, env=_environment())
        _, status, usage = os.wait4(process.pid, 0)
        self.seconds.append(time.perf_counter() - start)
        if status != 0 or file.stat().st_size != nbytes:
            message = process.stderr.read().decode() if process.stderr else ""
            raise SystemExit(f"{self.name}: failed with status {status}; {message}")
        self.cpu_seconds.append(usage.ru_utime + usage.ru_stime)
        self.peak_mib.append(usage.ru_maxrss / 1024)  # Linux counts in KiB
        file.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--bytes", type=int, default=2**31, dest="nbytes", help="size of the file")
    parser.add_argument("--repeat", type=int, default=5, help="rounds")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="on the disk to measure")
    arguments = parser.parse_args()
    if arguments.nbytes <= 0 or arguments.nbytes % MIB:
        parser.error("--bytes must be a multiple of 1048576")
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="data_generation-") as folder:
        ways = _ways(Path(folder), arguments.nbytes)
        for _ in range(arguments.repeat):
            for way in ways:
                os.sync()  # nobody pays for what the one before left in the cache
                way.measure(Path(folder) / "file", arguments.nbytes)
    print(_table(ways, arguments.nbytes, arguments.repeat))


def _ways(folder: Path, nbytes: int) -> list[Way]:
    file = str(folder / "file")
    zeros = ["if=/dev/zero", "bs=1M", f"count={nbytes // MIB}", "conv=fsync", "status=none"]
    return [
        Way("simgen data", [sys.executable, "-c", OURS, file, str(nbytes)]),
        Way("dd of zeros, fsync", ["dd", f"of={file}", *zeros]),
        Way("rand() in C++, as documented", [_peer(folder / "peer"), file, str(nbytes)]),
        Way("rand() in C++, -O2", [_peer(folder / "peer-O2", "-O2"), file, str(nbytes)]),
    ]


def _peer(program: Path, *flags: str) -> str:
    """Compile peer.cpp. The port's README gives no optimisation flag."""
    found = shutil.which("g++")
    # zig's own default would add checks that g++ does not
    compiler = [found] if found else [sys.executable, "-m", "ziglang", "c++", "-fno-sanitize=all"]
    command = [*compiler, *flags, "-o", str(program), str(HERE / "peer.cpp")]
    subprocess.run(command, check=True)
    return str(program)


def _environment() -> dict[str, str]:
    """This checkout's simgen, whatever is installed."""
    return {**os.environ, "PYTHONPATH": str(HERE.parents[1])}


def _table(ways: list[Way], nbytes: int, repeat: int) -> str:
    ours = statistics.median(ways[0].seconds)
    cores = len(os.sched_getaffinity(0))
    lines = [
        f"{nbytes / 2**30:g} GiB, {repeat} rounds, {cores} cores, {platform.platform()}",
        "",
        "| way | seconds (median) | least | most | GB/s | CPU s | peak MiB | time / ours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for way in ways:
        seconds = statistics.median(way.seconds)
        lines.append(
            f"| {way.name} | {seconds:.2f} | {min(way.seconds):.2f} | {max(way.seconds):.2f} "
            f"| {nbytes / seconds / 1e9:.2f} | {statistics.median(way.cpu_seconds):.2f} "
            f"| {max(way.peak_mib):.0f} | {seconds / ours:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
