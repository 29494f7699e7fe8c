"""How far a gem5 has come, by its statistics file, and what its log says of a failure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.targets.base import Progress, Watcher
from simgen.targets.gem5 import stats
from simgen.targets.gem5.launcher import NAME, Launcher, Simulated

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from simgen.ground.ir import Workload

AT_ONCE = r"(?m)^simgen: \d+ queues at once$"  # a line of run.sh
HANGS = r"launch \d+ \("  # begins the program's error about a kernel that does not finish

# What a log holds -> fact and cure. The first that is found counts.
DIAGNOSES: tuple[tuple[str, str], ...] = (
    (
        r"(Cannot connect to the Docker daemon)",
        "Docker does not run here ({}); start it, or set SIMGEN_DOCKER=0",
    ),
    (
        r"unimplemented (?:VEGA|GCN3) instruction: (\S+)",
        "gem5 does not implement the instruction {}; use another algorithm or a newer gem5",
    ),
    (
        r"Invalid opcode encountered: (\S+)|decode instruction without a class()",
        "gem5 cannot decode an instruction {}; use another algorithm or a newer gem5",
    ),
    (
        r"`new_entry' failed()|Page fault detected()|`vma != gpuVmas.end\(\)' failed()"
        r"|flat access at addr \w+ has a memory violation()",
        "a kernel touched an address that is not mapped{}; run the bundle on the host target to "
        "find out which",
    ),
    (
        r"Out of memory, please increase()",
        "the simulated memory is too small{}; set GEM5_OPTIONS=--mem-size=16GiB, say",
    ),
    (
        r"bad ioctl()",
        "this gem5's driver lacks a request of the launcher{}; use gem5 21.0 or later",
    ),
    (
        r"argument --gfx-version: (.+)|Incorrect (gfx version.*)",
        "apu_se.py does not take the options ({}); build for your gem5 with --gem5-version",
    ),
    (
        r"apu_se\.py: error: the following arguments are required: (.+)",
        "this gem5's apu_se.py needs more options ({}); pass each on with --gem5-arg=OPTION=VALUE",
    ),
    (
        r"apu_se\.py: error: (argument .+: (?:invalid|expected|not allowed).*|ambiguous option.*)",
        "apu_se.py refuses a value ({}); write it as apu_se.py --help says",
    ),
    (
        r"([Pp]ossible [Dd]eadlock detected)",
        "gem5's memory system hangs ({}); this is a bug of the simulator or of a change to it",
    ),
    (
        r"instruction '(.+)' unimplemented",
        "gem5's CPU lacks an instruction of the launcher ({}); use a newer gem5",
    ),
)


@dataclass(frozen=True)
class Gem5Watcher(Watcher):
    """Watcher of a run by a launcher."""

    simulated: Simulated
    launcher: Launcher

    def watch(self, results: Path, workload: Workload) -> Callable[[], Progress] | None:
        if self.launcher.own_kernels:
            return None  # what ends is no launch of the workload
        follower = stats.StatsFollower(results / stats.FILE)

        def look() -> Progress:
            follower.update()
            return Progress(follower.kernels, follower.seconds, follower.instructions)

        return look

    def launches_done(self, log: str) -> int | None:
        if self.launcher.own_kernels or re.search(AT_ONCE, log):
            return None  # several end at once, and no one knows which
        told = re.search(r"(?m)^simgen: (\d+) launches had ended$", log)
        own = re.search(rf"simgen: error: (?!{NAME}: |{HANGS})", log)  # before the kernels
        if not told or own or "Entering event queue @" not in log:
            return None
        # Nobody knows whether a runtime failed in the first kernel or before.
        return int(told[1]) or (None if self.launcher.runtime else 0)

    def diagnosis(self, log: str) -> str | None:
        said = re.findall(r"simgen: error: (.+)", log)
        own = f"{NAME}: "  # run.sh's lines; the others are the program's, which knows best
        for line in said:
            if not line.startswith(own):
                hangs = re.fullmatch(rf"{HANGS}.+?\): (.+)", line)
                return str(hangs[1] if hangs else line)
        found = explained(log, self.launcher.diagnoses)
        return found or (str(said[0]).removeprefix(own) if said else None)


def explained(log: str, first: tuple[tuple[str, str], ...]) -> str | None:
    """What a log of gem5 tells ("fact; cure"), by `first` and then DIAGNOSES; None: nothing."""
    for known in (first, _unrecognised(log), DIAGNOSES):
        for pattern, message in known:
            match = re.search(pattern, log)
            if match:
                return message.format(next((g for g in match.groups() if g), "")).strip()
    return None


def _unrecognised(log: str) -> tuple[tuple[str, str], ...]:
    """What to say of options that apu_se.py does not know."""
    match = re.search(r"unrecognized arguments: (.+)", log)
    if not match:
        return ()
    told = re.findall(r"^simgen: option: (.+)$", log, re.MULTILINE)
    passed = {word.partition("=")[0] for word in told}
    unknown = [word for word in match[1].split() if word.startswith("-")]
    if unknown and {word.partition("=")[0] for word in unknown} <= passed:
        message = (
            "this gem5 has no option {}, which the run passes on; leave it out, or set GEM5 to the "
            "gem5 that has it"
        )
    else:
        message = (
            "apu_se.py does not take the options ({}); build for your gem5 with --gem5-version"
        )
    return ((r"unrecognized arguments: (.+)", message),)
