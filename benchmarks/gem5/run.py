"""What a run costs on gem5's GPU model: CPU instructions and host time, by size and launches.

    GEM5=/path/to/gem5 python benchmarks/gem5/run.py [--quick] [--only start|whole] [-o FOLDER]

The first table is what comes before the first kernel, for softmax of three sizes: from the start of
gem5's process to the dump at m5_work_begin, which the program executes right before it submits the
kernel, and on to the dump at the kernel's end.

Second, each workload is built, run on gem5 with `apu_se.py`, and compared with the reference.
Instructions are gem5's own simInsts, summed over all dumps: everything that the simulated CPU
executed, from the first instruction of the program to its exit. FOLDER must not lie under /tmp,
which apu_se.py redirects.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import time
from pathlib import Path

import simgen
from simgen.bundle import finding
from simgen.bundle import writing as bundles
from simgen.targets.gem5 import stats as gem5_stats
from simgen.targets.gem5.se import Gem5Se

SOFTMAX = ["n=1 c=10", "n=100 c=1000", "n=1000 c=1000"]
POLL = 0.005  # seconds
WORKLOADS = [  # name, settings, passes
    ("softmax_fwd", "n=1 c=10", None),
    ("softmax_fwd", "", None),
    ("softmax_bwd", "", None),
    ("softmax_fwd", "n=1000 c=1000", None),
    ("activation_fwd", "n=1 h=64 w=64", None),
    ("activation_bwd", "n=1 h=64 w=64", None),
    ("activation_fwd", "n=1 h=64 w=64 activation_mode=tanh", None),
    ("classifier", "", None),
    ("classifier", "", "fwd,bwd"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the first workload only")
    parser.add_argument("-o", "--output", type=Path, default=Path("gem5-benchmark"))
    parser.add_argument("--only", choices=["start", "whole"], default="")
    given = parser.parse_args()
    if given.only != "whole":
        starts(given.output, SOFTMAX[: 1 if given.quick else None])
    if given.only != "start":
        whole(given.output, WORKLOADS[: 1 if given.quick else None])


def whole(output: Path, workloads: list[tuple[str, str, str | None]]) -> None:
    print("| workload | result | launches | CPU instructions | to first kernel's end | host s |")
    print("|---|---|---|---|---|---|")
    for at, (name, settings, passes) in enumerate(workloads):
        row(output / f"{at}-{name}", name, settings, passes)


def starts(output: Path, sizes: list[str]) -> None:
    print(
        "| softmax_fwd | input bytes | simulated CPU instructions to first kernel | to its end "
        "| to exit | host s to first kernel | to its end | to exit |\n|" + "---|" * 8
    )
    for size in sizes:
        bundle = output / f"start-{size.replace(' ', '-')}"
        plan = simgen.plan("softmax_fwd", set=sizes(size))
        plan.build(bundle, Gem5Se(m5ops=True), replace=True)
        times, dumps = timed(bundle)
        counts = list(itertools.accumulate(dumps))
        nbytes = sum(b.spec.nbytes for b in bundles.load(bundle).workload.inputs)
        print(
            f"| {size} | {nbytes} | {counts[0]} | {counts[1]} | {counts[-1]} | "
            + " | ".join(f"{seconds:.2f}" for seconds in times)
            + " |",
            flush=True,
        )


def timed(bundle: Path) -> tuple[list[float], list[int]]:
    """Seconds from gem5's start to its first two dumps and to its exit; instructions of each dump.

    gem5 is started by the command line that `simgen show` prints, without run.sh before it. It is
    one thread; the seconds are those of the processor, which other work on the host moves little.
    """
    loaded = bundles.load(bundle)
    command = finding.target_of(loaded, "gem5-se").package.commands(bundle, loaded.workload)[
        "direct"
    ]
    folder = bundle / bundles.RESULTS / "m5out"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    stats = folder / gem5_stats.FILE
    times: list[float] = []
    size = 0
    with (folder / "log.txt").open("wb") as log:
        before, _, gem5 = command.rpartition(" && ")  # a folder is made and entered before it
        process = subprocess.Popen(["sh", "-c", f"{before} && exec {gem5}"], stdout=log, stderr=log)
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            if stats.exists() and stats.stat().st_size > size:
                size = stats.stat().st_size
                done = stats.read_text().count(gem5_stats.END)
                times += [processor_seconds(process.pid)] * (min(done, 2) - len(times))
            time.sleep(POLL)
        times.append(processor_seconds(process.pid))
    if process.wait() or len(times) != 3:
        raise SystemExit(f"gem5 ended with {process.returncode}; read {folder / 'log.txt'}")
    return times, gem5_stats.cpu_instructions(stats)


def processor_seconds(pid: int) -> float:
    """User and system time of a process, which may have ended (proc(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def row(path: Path, name: str, settings: str, passes: str | None) -> None:
    plan = simgen.plan(name, set=sizes(settings), passes=passes)
    bundle = plan.build(path, "gem5-se", replace=True)
    before = os.times()
    bundle.run("gem5-se", replace=True)
    after = os.times()
    seconds = sum(after[:4]) - sum(before[:4])  # of the processor, by simgen and gem5
    verdict = bundle.diff("gem5-se")
    worst = max(each.comparison.max_ratio for each in verdict.reports[0].verdicts)
    dumps = gem5_stats.cpu_instructions(path / "results/gem5-se/stats.txt")
    words = " ".join(filter(None, (name, settings, passes and f"--pass {passes}")))
    print(
        f"| {words} | {'right' if verdict else 'WRONG'}, {worst:.2f} of tolerance "
        f"| {len(plan.workload.launches)} | {sum(dumps)} | {dumps[0]} | {seconds:.1f} |",
        flush=True,
    )


def sizes(text: str) -> dict[str, str]:
    """Settings as the command line has them."""
    return dict(word.split("=") for word in text.split())


if __name__ == "__main__":
    main()
