"""What simgen does with damaged bundles, commands at once, full disks, and when it is killed.

    python benchmarks/robustness/run.py damage --cases 400
    python benchmarks/robustness/run.py race --cases 100
    python benchmarks/robustness/run.py kill --cases 100
    python benchmarks/robustness/run.py pair --cases 153      all pairs
    python benchmarks/robustness/run.py disk --cases 45       as root, which may mount a small disk

Each campaign makes bundles and results, and then works on copies. A case that breaks a rule is
printed with the seed that repeats it, and the exit code is 1. The rules are those of `damage`,
`race`, `kill`, `pair` and `disk` below.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
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

import commands
from commands import LAYER, BrokenRuleError, simgen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUILD = ["build", "classifier", "--set", "n=8", "-o", "net"]
TOLD = (2, 4, 7)  # exit codes of a command that does not do what it is asked
Tree = dict[str, bytes]


# ------------------------------------------------------------------ simgen


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


def tensors(path: str) -> dict[str, bytes]:
    """What a run has computed."""
    import h5py

    with h5py.File(path) as file:
        return {name: each[...].tobytes() for name, each in file["tensors"].items()}


# What a command leaves or says that must not depend on damage.
SEEN: dict[str, Callable[[str], object]] = {
    "diff": json.loads,
    # A verdict that is not there any more, or not of this result, may be told as such.
    "report": lambda _: Path("report/metrics.csv").read_bytes().replace(b"not checked", b"same"),
    "run": lambda _: tensors("net/results/host/results.h5"),
    "part": lambda _: tensors(f"net/results/host@{LAYER}/results.h5"),
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


def kill(choice: random.Random, base: Path, _: Path) -> str:
    """A command is ended at any moment, by a signal or because its terminal is closed: it ends in
    time and without a traceback, and nothing that it has started is left. Bundles are the old ones
    or the new ones, whole; no result is lost, and outputs are whole or not there. Then the same
    command does its work, and nothing unfinished lies anywhere."""
    names = list(commands.COMMANDS)
    name = choice.choices(names, [commands.COMMANDS[each].share for each in names])[0]
    command = commands.COMMANDS[name]
    how = choice.choice(sorted(WAYS))
    commands.enter(base)
    if choice.random() < 0.5:  # a sweep from its beginning, and a build that compiles
        shutil.rmtree({"sweep": "sweep", "build": "cache"}.get(name, "none"), ignore_errors=True)
    started = commands.Process(command.words, terminal=how == "closed terminal")
    time.sleep(choice.uniform(0.0, 0.7) * DURATIONS.get(name, 1.0))
    at_once = started.process.poll() is None
    WAYS[how](started)
    said = f"{how} of {name}"
    try:
        code = started.wait(commands.LIMIT)
        if "Traceback" not in started.said() or "/cli/" in started.said():  # Python's start
            commands.check_words(code, started.said(), (*TOLD, *ENDINGS))
        commands.no_orphans()
        replaced = name == "build replaces"
        commands.check_world(base, replaced=replaced)
        if command.output and not command.replaces and Path(command.output).exists():
            for path in Path().glob(f"{command.output.partition('-')[0]}*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        if command.mends:
            again = commands.Process(command.words)
            code = again.wait(commands.LONG)
            commands.check_words(code, again.said(), ())
            commands.check_world(base, replaced=replaced)
        if left := commands.scratch():
            raise BrokenRuleError(f"left over: {left}")
    except BrokenRuleError as error:
        raise BrokenRuleError(f"{said}: {error}") from None
    return f"{name}: {how if at_once else 'was over'}"


def end(started: commands.Process) -> None:
    """SIGKILL for a process and all that it has started, none of which starts another meanwhile."""
    stopped: set[int] = set()
    while new := {started.process.pid, *descendants(started.process.pid)} - stopped:
        stopped |= new
        for pid in new:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


WAYS: dict[str, Callable[[commands.Process], None]] = {
    "SIGKILL": lambda started: started.process.kill(),
    "SIGKILL for all": end,
    "SIGTERM": lambda started: started.process.send_signal(signal.SIGTERM),
    "SIGHUP": lambda started: started.process.send_signal(signal.SIGHUP),
    "SIGINT": lambda started: started.process.send_signal(signal.SIGINT),
    "closed terminal": lambda started: started.close_terminal(),
}
# Exit codes of what was ended; a signal's own where Python has not set out yet.
ENDINGS = (129, 130, 143, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT)
DURATIONS: dict[str, float] = {}  # of commands, in seconds


def descendants(pid: int) -> list[int]:
    """Processes that a process has started, and those that they have."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid:
                found += [int(folder.name), *descendants(int(folder.name))]
    return found


# ------------------------------------------------------------------ pairs


def pair(choice: random.Random, base: Path, _: Path, number: int = 0) -> str:
    """Two commands at once, on the same bundles, outputs and cache: each does what it is asked, or
    is refused in one line; then all is as after a kill."""
    pairs = list(itertools.combinations_with_replacement(commands.COMMANDS, 2))
    names = pairs[number % len(pairs)]
    commands.enter(base)
    started = []
    for name in names:
        started.append(commands.Process(commands.COMMANDS[name].words))
        time.sleep(choice.choice((0.0, 0.0, 0.2, 0.5)))
    said = " | ".join(names)
    codes: list[int] = []
    try:
        codes += [each.wait(commands.LONG) for each in started]
        for name, each, code in zip(names, started, codes, strict=True):
            try:
                commands.check_words(code, each.said(), TOLD)
            except BrokenRuleError as error:
                raise BrokenRuleError(f"{name}: {error}") from None
        commands.no_orphans()
        commands.check_world(base, replaced="build replaces" in names)
        if left := commands.scratch():
            raise BrokenRuleError(f"left over: {left}")
    except BrokenRuleError as error:
        raise BrokenRuleError(f"{said}: {error}") from None
    for name, each, code in zip(names, started, codes, strict=True):
        if code:
            print(f"  {said}: {name}: {code}: {each.said().strip()[-200:]}", flush=True)
    return f"exit codes {' and '.join(map(str, sorted(codes)))}"


# ------------------------------------------------------------------ full disks


def disk(choice: random.Random, base: Path, _: Path, number: int = 0) -> str:
    """A command on a disk that is full after some more bytes: it does its work, or says in one line
    that the disk is full, and of which path; the old stays. With space, it does its work."""
    names = [name for name in commands.COMMANDS if name not in ("cache verify", "cache clear")]
    name = names[number % len(names)]
    command = commands.COMMANDS[name]
    folder = Path("disk")
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512m", "none", str(folder)],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{done.stderr.strip()}; mounting needs root: unshare -rm")
    above = Path.cwd()
    os.chdir(folder)
    try:
        commands.enter(base, linked=False)
        if choice.random() < 0.5:  # temporary files have room
            os.environ["TMPDIR"] = tempfile.tempdir = str(above)
        room = choice.choice((0, choice.randrange(2**14), choice.randrange(2**18)))
        filled = os.statvfs(".")
        with open("filler", "wb") as file:
            file.write(bytes(max(0, filled.f_bavail * filled.f_frsize - room)))
        started = commands.Process(command.words)
        code = started.wait(commands.LONG)
        text = started.said()
        commands.check_words(code, text, (3, 4))
        if code and not any(fact in text for fact in FULL):
            raise BrokenRuleError(f"the reason is missing: {text!r}")
        if code and "file system" in text:
            raise BrokenRuleError(f"the path is missing: {text!r}")
        commands.no_orphans()
        os.unlink("filler")
        commands.check_world(base, replaced=name == "build replaces")
        if code:
            print(f"  {name}, {room} bytes: {text.strip()}", flush=True)
            again = commands.Process(command.words)
            code_again = again.wait(commands.LONG)
            commands.check_words(code_again, again.said(), ())
            commands.check_world(base, replaced=name == "build replaces")
        if left := commands.scratch():
            raise BrokenRuleError(f"left over: {left}")
    except BrokenRuleError as error:
        raise BrokenRuleError(f"{name}, {room} bytes: {error}") from None
    finally:
        os.chdir(above)
        subprocess.run(["umount", "-l", str(folder)], check=True)
    return f"{name}: exit code {code}"


FULL = ("No space left on device", "no space left", "the disk is full", "are free")


# ------------------------------------------------------------------ campaigns


CAMPAIGNS = {"damage": damage, "race": race, "kill": kill, "pair": pair, "disk": disk}
NUMBERED = (pair, disk)  # that go through all commands


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
    parser.add_argument("--only", metavar="COMMAND,...", help="of those that are killed, say")
    given = parser.parse_args()
    for name in set(commands.COMMANDS) - set((given.only or "").split(",")):
        if given.only:
            del commands.COMMANDS[name]
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="simgen-robustness-") as work:
        base, foreign = Path(work, "base"), Path(work, "foreign")
        campaign = CAMPAIGNS[given.campaign]
        if campaign in (damage, race):
            for folder, seed in ((base, "0"), (foreign, "7")):
                folder.mkdir()
                BUILD[:] = [*BUILD[:6], "--seed", seed]
                make(folder)
            BUILD[:] = [*BUILD[:6]]
        else:
            commands.adopt()
            commands.make(base, DURATIONS)
        os.chdir(work)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # which ends it with its table
        with contextlib.suppress(KeyboardInterrupt):
            for case in range(given.seed, given.seed + given.cases):
                words = (case,) if campaign in NUMBERED else ()
                with elsewhere():
                    try:
                        outcomes[campaign(random.Random(case), base, foreign, *words)] += 1
                    except BrokenRuleError as error:
                        outcomes["broke a rule"] += 1
                        print(f"seed {case}: {error}", flush=True)
        os.chdir("/")
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:6d}  {outcome}")
    broken = outcomes["broke a rule"]
    print(f"{given.campaign}: {sum(outcomes.values())} cases, {broken} broke a rule")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
