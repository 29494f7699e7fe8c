"""What simgen does with damaged bundles, with commands at once, and when it is killed.

    python benchmarks/robustness/run.py damage --cases 400
    python benchmarks/robustness/run.py race --cases 100
    python benchmarks/robustness/run.py kill --cases 100

Each campaign makes a network of two layers for the host target, runs and compares it, and then
works on copies. A case that breaks a rule is printed with the seed that repeats it, and the exit
code is 1. The rules are those of `damage`, `race` and `kill` below.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUILD = ["build", "classifier", "--set", "n=8", "-o", "net"]
LAYER = "probability"  # that is run by itself, too
TOLD = (2, 4, 7)  # exit codes of a command that does not do what it is asked
Tree = dict[str, bytes]


class BrokenRuleError(Exception):
    """What simgen did and must not do."""


# ------------------------------------------------------------------ simgen


def simgen(*words: str) -> tuple[int, str, str]:
    """simgen in this process: exit code, stdout, stderr."""
    from simgen.cli import main as cli

    sys.argv = ["simgen", *words]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as stop:
            return int(stop.code or 0), out.getvalue(), err.getvalue()
    raise BrokenRuleError("simgen returned")


def start(*words: str) -> subprocess.Popen[str]:
    """simgen in a process of its own."""
    command = [sys.executable, "-m", "simgen", *words]
    return subprocess.Popen(command, stdout=-1, stderr=-1, text=True, start_new_session=True)


def check_told(code: int, err: str, allowed: tuple[int, ...]) -> None:
    """An error is one line, with one of the exit codes."""
    last = err.rstrip("\n").splitlines()[-1:] or [""]
    if code and (code not in allowed or not last[0].startswith("simgen: error: ")):
        raise BrokenRuleError(f"exit code {code}: {err[-300:]!r}")
    if "Traceback" in err:
        raise BrokenRuleError(f"a traceback: {err[-300:]!r}")


def make(folder: Path) -> None:
    """`net` in `folder`: built, run as a whole and in part, and compared."""
    os.chdir(folder)
    for words in (
        [*BUILD, "--target", "host"],
        ["run", "net", "--on", "host"],
        ["run", "net", "--on", "host", "--layers", LAYER],
        ["diff", "net"],
    ):
        code, _, err = simgen(*words)
        if code:
            raise BrokenRuleError(f"{words}: {err}")


def tree(folder: Path) -> Tree:
    paths = (p for p in sorted(folder.rglob("*")) if p.is_file())
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths}


# ------------------------------------------------------------------ damage


def damage(choice: random.Random, base: Path, foreign: Path) -> str:
    """A damaged file: each command ends with 0 only if all that it leaves and says is what it
    leaves and says without the damage; otherwise with 2, 4 or 7, in one line."""
    name = choice.choice(sorted(tree(base / "net")))
    how = choice.choice(sorted(HARM))
    command = choice.choice(sorted(SEEN))
    shutil.copytree(base / "net", "net")
    HARM[how](choice, Path("net") / name, foreign / "net" / name)
    code, out, err = simgen(*COMMANDS[command])
    said = f"{command} after {how} {name}"
    try:
        check_told(code, err, TOLD)
        if code == 0 and SEEN[command](out) != expected(command, base):
            raise BrokenRuleError("exit code 0, and something else than without the damage")
    except BrokenRuleError as error:
        raise BrokenRuleError(f"{said}: {error}") from None
    return f"{command}: exit code {code}"


def flip(choice: random.Random, path: Path, _: Path) -> None:
    content = bytearray(path.read_bytes() or b"\0")
    content[choice.randrange(len(content))] ^= 1 << choice.randrange(8)
    path.write_bytes(content)


def cut(choice: random.Random, path: Path, _: Path) -> None:
    os.truncate(path, choice.randrange(max(1, path.stat().st_size)))


def replace(_: random.Random, path: Path, other: Path) -> None:
    """By the same file of a bundle with other values."""
    path.write_bytes(other.read_bytes() if other.exists() else b"other\n")


def zero(_: random.Random, path: Path, __: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


HARM: dict[str, Callable[[random.Random, Path, Path], None]] = {
    "flipping a bit of": flip,
    "cutting": cut,
    "replacing": replace,
    "zeroing": zero,
    "removing": lambda _, path, __: path.unlink(),
}
COMMANDS = {
    "diff": ["diff", "net", "--json"],
    "report": ["report", "net", "-o", "report", "-q"],
    "run": ["run", "net", "--on", "host", "--replace", "-q"],
    "part": [
        "run",
        "net",
        "--on",
        "host",
        "--layers",
        LAYER,
        "--inputs",
        "host",
        "--replace",
        "-q",
    ],
    "build": [*BUILD, "--target", "host", "-q"],
}
# What a command leaves or says that must not depend on damage.
SEEN: dict[str, Callable[[str], object]] = {
    "diff": json.loads,
    # A verdict that is not there any more, or not of this result, may be told as such.
    "report": lambda _: Path("report/metrics.csv").read_bytes().replace(b"not checked", b"same"),
    "run": lambda _: Path("net/results/host/outputs.bin").read_bytes(),
    "part": lambda _: Path(f"net/results/host@{LAYER}/outputs.bin").read_bytes(),
    "build": lambda _: {n: c for n, c in tree(Path("net")).items() if n[:8] != "results/"},
}
_expected: dict[str, object] = {}


def expected(command: str, base: Path) -> object:
    """What the command leaves or says without damage."""
    if command not in _expected:
        with elsewhere():
            shutil.copytree(base / "net", "net")
            code, out, err = simgen(*COMMANDS[command])
            if code:
                raise BrokenRuleError(f"{command} without damage: {err}")
            _expected[command] = SEEN[command](out)
    return _expected[command]


# ------------------------------------------------------------------ races


RACERS = {
    "build host": [*BUILD, "--target", "host"],
    "build cuda": [*BUILD, "--target", "cuda"],
    "build mgpusim": [*BUILD, "--target", "mgpusim"],
    "build other values": [*BUILD, "--target", "host", "--seed", "7"],
    "replace by other values": [*BUILD, "--target", "host", "--seed", "7", "--replace"],
    "run": ["run", "net", "--on", "host", "--replace"],
    "run a part": ["run", "net", "--on", "host", "--layers", LAYER, "--replace"],
    "diff": ["diff", "net"],
    "report": ["report", "net", "-o", "report"],
}


def race(choice: random.Random, base: Path, _: Path) -> str:
    """Two or three commands at once, into a bundle that is there or not: each does what it is
    asked, or is refused in one line (2, 4); then the bundle is whole, has the targets of all builds
    that went well and all results, and these are right."""
    names = choice.choices(sorted(RACERS), k=choice.choice((2, 3)))
    there = choice.random() < 0.7
    if there:
        shutil.copytree(base / "net", "net")
    racing = []
    for name in names:
        racing.append(start(*RACERS[name]))
        time.sleep(choice.choice((0.0, 0.05, 0.2)))
    said = f"{' | '.join(names)}, {'there' if there else 'not there'}"
    ended = [(name, process, *process.communicate()) for name, process in zip(names, racing)]
    try:
        for name, process, _, err in ended:
            try:
                check_told(process.returncode, err, (2, 4))
            except BrokenRuleError as error:
                raise BrokenRuleError(f"{name}: {error}") from None
        built = {name for name, process, *_ in ended if process.returncode == 0}
        check_whole(keeps=there and "replace by other values" not in names)
        wanted = {name.split()[1] for name in built if name in RACERS and name.startswith("build ")}
        if wanted and not any("other" in name for name in names):
            missing = wanted - set(json.loads(Path("net/manifest.json").read_text())["targets"])
            if missing:
                raise BrokenRuleError(f"the bundle has no {', '.join(missing)}")
    except BrokenRuleError as error:
        raise BrokenRuleError(f"{said}: {error}") from None
    return "all done" if len(built) == len(set(names)) else "some refused"


def check_whole(*, keeps: bool) -> None:
    """The bundle is whole, and no process has left half of something under a good name."""
    from simgen.bundle import writing as bundles
    from simgen.errors import SimgenError

    if not Path("net").exists():
        if keeps:
            raise BrokenRuleError("the bundle is gone")
        return
    try:
        made = bundles.load(Path("net"))
        bundles.verify_values(made)
        for target in made.targets:
            bundles.verify(made, target)
        with bundles.opened(Path("net")) as made:  # which puts results back that have no name yet
            ran = [name for name in made.ran() if made.results(name)]
    except SimgenError as error:
        raise BrokenRuleError(f"damaged: {error}") from None
    if keeps and not {"host", f"host@{LAYER}"} <= set(ran):
        raise BrokenRuleError(f"results are lost: there is {ran}")
    if ran:
        code, _, err = simgen("diff", "net", "-q")
        if code:
            raise BrokenRuleError(f"diff: {err}")


# ------------------------------------------------------------------ kills


KILLED = {
    "a build that adds": [*BUILD, "--target", "cuda"],
    "a build that repairs": [*BUILD, "--target", "host"],
    "a build that replaces": [*BUILD, "--target", "host", "--seed", "7", "--replace"],
    "a run": ["run", "net", "--on", "host", "--replace"],
    "a run of a part": ["run", "net", "--on", "host", "--layers", LAYER, "--replace"],
    "a diff": ["diff", "net"],
}


def kill(choice: random.Random, base: Path, _: Path) -> str:
    """SIGKILL for a command and all that it has started, at any moment: the bundle is the old one
    or the new one, whole; no result is lost; no lock stays; then the same command does its work."""
    name = choice.choice(sorted(KILLED))
    shutil.copytree(base / "net", "net")
    if "repairs" in name:
        flip(choice, Path("net/data.h5"), Path())
    process = start(*KILLED[name])
    time.sleep(choice.uniform(0.0, 1.2) * DURATION[0])
    at_once = process.poll() is None
    end(process)
    try:
        if "repairs" not in name:
            check_whole(keeps="replaces" not in name)
        code, _, err = simgen(*KILLED[name])
        check_told(code, err, ())
        check_whole(keeps="replaces" not in name)
        left = [p.name for p in Path("net/results").glob(".part-*")]
        if left and "run" in name:
            raise BrokenRuleError(f"left over: {left}")
    except BrokenRuleError as error:
        raise BrokenRuleError(f"{name}: {error}") from None
    return f"{name}: {'killed' if at_once else 'was over'}"


def end(process: subprocess.Popen[str]) -> None:
    """SIGKILL for a process and all that it has started, none of which starts another meanwhile."""
    stopped: set[int] = set()
    while new := {process.pid, *descendants(process.pid)} - stopped:
        stopped |= new
        for pid in new:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()
    while any(Path("/proc", str(pid), "cwd").exists() for pid in stopped):
        time.sleep(0.01)


DURATION = [1.0]  # seconds of a command, about


def descendants(pid: int) -> list[int]:
    """Processes that a process has started, and those that they have."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid:
                found += [int(folder.name), *descendants(int(folder.name))]
    return found


# ------------------------------------------------------------------ campaigns


CAMPAIGNS = {"damage": damage, "race": race, "kill": kill}


@contextlib.contextmanager
def elsewhere() -> Iterator[Path]:
    """A new current folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(dir=before) as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("campaign", choices=sorted(CAMPAIGNS))
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    outcomes: Counter[str] = Counter()
    broken = 0
    with tempfile.TemporaryDirectory(prefix="simgen-robustness-") as work:
        base, foreign = Path(work, "base"), Path(work, "foreign")
        for folder, seed in ((base, "0"), (foreign, "7")):
            folder.mkdir()
            BUILD[:] = [*BUILD[:6], "--seed", seed]
            make(folder)
        BUILD[:] = [*BUILD[:6]]
        os.chdir(work)
        began = time.monotonic()
        start("diff", str(base / "net")).communicate()
        DURATION[0] = time.monotonic() - began
        for case in range(given.seed, given.seed + given.cases):
            with elsewhere():
                try:
                    outcomes[CAMPAIGNS[given.campaign](random.Random(case), base, foreign)] += 1
                except BrokenRuleError as error:
                    broken += 1
                    print(f"seed {case}: {error}", flush=True)
        os.chdir("/")
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:6d}  {outcome}")
    print(f"{given.campaign}: {given.cases} cases, {broken} broke a rule")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
