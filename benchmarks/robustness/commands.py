"""Commands that are killed, meet each other, and meet a full disk: what they work on, and the
rules that hold afterwards.

A world is a folder with a bundle for the host that has run as a whole, in part and was compared
(`net`), one for MGPUSim (`sim`), a report, a sweep that is done, and a cache.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path

LAYER = "probability"  # of `net`, run by itself, too
BUILD = ("build", "classifier", "--set", "n=8", "-o", "net")
SIMULATED = (
    ("build", "softmax_fwd", "--set", "n=2", "--set", "c=16", "-t", "mgpusim", "-o", "sim"),
    ("run", "sim", "--on", "mgpusim"), ("diff", "sim"),
)  # fmt: skip
SWEEP = 'workloads = ["softmax_fwd"]\ntargets = ["host"]\n[build]\nn = [1, 2]\n'
LIMIT = 30.0  # seconds in which a command ends that is asked to, and what it started with it
LONG = 900.0  # seconds in which any command ends
OUTSIDE = tempfile.gettempdir()  # of worlds


class BrokenRuleError(Exception):
    """What simgen did and must not do."""


@dataclass(frozen=True)
class Command:
    """A command, and what it leaves beside the bundles: nothing of it, or all."""

    words: tuple[str, ...]
    output: str = ""
    replaces: bool = False  # an output that is there already; others are refused then
    mends: bool = True  # the same command does the work of one that was killed
    share: int = 8  # of the cases


COMMANDS = {
    "build adds": Command((*BUILD, "--target", "cuda")),
    "build replaces": Command((*BUILD, "--target", "host", "--seed", "7", "--replace")),
    "build": Command((*BUILD[:-1], "new", "--target", "host"), "new", replaces=True),
    "run": Command(("run", "net", "--on", "host", "--replace")),
    "run of a layer": Command(("run", "net", "--on", "host", "--layers", LAYER, "--replace")),
    "run on mgpusim": Command(("run", "sim", "--on", "mgpusim", "--replace")),
    "diff": Command(("diff", "net")),
    "report": Command(("report", "net", "-o", "report"), "report", replaces=True),
    "sweep": Command(("sweep", "sweep.toml"), "sweep", replaces=True, share=5),
    "export csv": Command(("export", "net", "--as", "csv", "-o", "all.csv"), "all.csv"),
    "export chakra": Command(
        ("export", "net", "--as", "chakra", "--result", "host", "-o", "traces"), "traces"
    ),
    "synthesise": Command(
        ("synthesise", "softmax_fwd", "--operations", "1e5", "-o", "x.dnnmark"), "x.dnnmark"
    ),
    "data": Command(("data", "data.bin", "--bytes", "24M"), "data.bin"),
    "data like mnist": Command(
        ("data", "x-images-idx3-ubyte", "--like", "mnist"), "x-images-idx3-ubyte"
    ),
    "cache pack": Command(("cache", "pack", "-o", "packed"), "packed", replaces=True, share=1),
    "cache verify": Command(("cache", "verify"), share=4),
    "cache clear": Command(("cache", "clear"), share=4),
}
SAME = (
    "all.csv",
    "traces",
    "x.dnnmark",
    "data.bin",
    "x-images-idx3-ubyte",
)  # byte for byte, always


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


# ------------------------------------------------------------------ the world


def make(home: Path, durations: dict[str, float]) -> None:
    """A world, and in `expected` what undisturbed commands leave in it; how long commands take."""
    from simgen.kernels import cache

    found = cache.simulators_root()  # the user's: a simulator takes minutes to build
    home.mkdir()
    os.environ["SIMGEN_CACHE_DIR"] = str(home / "cache")
    simulated = "run on mgpusim" in COMMANDS
    if found.is_dir() and simulated:
        (home / "cache").mkdir()
        copy(found, home / "cache/mgpusim")
    (home / "sweep.toml").write_text(SWEEP)
    for words in (
        (*BUILD, "--target", "host"), ("run", "net", "--on", "host"),
        ("run", "net", "--on", "host", "--layers", LAYER), ("diff", "net"),
        ("report", "net", "-o", "report"), *(SIMULATED if simulated else ()),
    ):  # fmt: skip
        asked(words, home)
    (home / "expected").mkdir()
    for name, command in COMMANDS.items():
        if name in ("build adds", "build replaces", "build", "cache clear", "cache pack"):
            continue
        began = time.monotonic()
        asked(command.words, home)
        durations[name] = time.monotonic() - began
        if command.output in SAME:
            for path in home.glob(f"{command.output.partition('-')[0]}*"):
                path.rename(home / "expected" / path.name)
    durations["cache pack"] = 10 * durations.get("diff", 1.0)


def asked(words: tuple[str, ...], home: Path) -> None:
    done = subprocess.run(command_line(words), cwd=home, capture_output=True, text=True)
    if done.returncode:
        raise BrokenRuleError(f"{words}: {done.stderr}")


def command_line(words: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "simgen", *words]


def copy(source: Path, target: Path) -> None:
    """A tree by hard links: simgen writes no file in place."""
    shutil.copytree(source, target, copy_function=os.link, symlinks=True)


def enter(base: Path, *, linked: bool = True) -> None:
    """The world in the current folder, with its own cache and temporary files."""
    for path in base.iterdir():
        if path.name == "expected":
            continue
        if path.name in ("cache", "sweep") and linked:
            copy(path, Path(path.name))
        elif path.is_dir():
            shutil.copytree(path, path.name, symlinks=True)
        else:
            shutil.copy(path, path.name)
    Path("tmp").mkdir()
    os.environ["SIMGEN_CACHE_DIR"] = str(Path("cache").absolute())
    os.environ["TMPDIR"] = tempfile.tempdir = str(Path("tmp").absolute())


# ------------------------------------------------------------------ processes


def adopt() -> None:
    """Be the parent of all that loses its own: who is still there after a case, is an orphan."""
    if ctypes.CDLL(None).prctl(36, 1, 0, 0, 0):  # PR_SET_CHILD_SUBREAPER
        raise OSError("prctl")


def children() -> list[int]:
    """Processes that are left, and live."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid():
                if state == "Z":
                    os.waitpid(int(folder.name), os.WNOHANG)
                else:
                    found.append(int(folder.name))
    return found


def no_orphans() -> None:
    end = time.monotonic() + LIMIT
    while left := children():
        if time.monotonic() > end:
            said = []
            for pid in left:
                with contextlib.suppress(OSError):
                    said.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:200])
                    os.kill(pid, signal.SIGKILL)
            raise BrokenRuleError(f"orphans: {said}")
        time.sleep(0.02)


class Process:
    """simgen in a session of its own, at a terminal or not; what it says is kept in files."""

    def __init__(self, words: tuple[str, ...], *, terminal: bool = False) -> None:
        self.master = -1
        self.err = tempfile.TemporaryFile("w+", dir=OUTSIDE)  # noqa: SIM115 - as the process
        out, slave = subprocess.DEVNULL, -1
        if terminal:
            self.master, slave = pty.openpty()
            out = slave

        def before() -> None:
            # Ignored in a shell's background, and by nohup.
            for each in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
                signal.signal(each, signal.SIG_DFL)
            if terminal:
                ioctl(1, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            command_line(words), stdin=subprocess.DEVNULL, stdout=out, stderr=self.err,
            start_new_session=True, preexec_fn=before,
        )  # type: ignore[call-overload] # fmt: skip
        if terminal:
            os.close(slave)

    def close_terminal(self) -> None:
        os.close(self.master)
        self.master = -1

    def wait(self, seconds: float) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise BrokenRuleError(f"hangs: {self.said()!r}") from None
        finally:
            if self.master >= 0:
                self.close_terminal()

    def said(self) -> str:
        self.err.seek(0)
        return self.err.read()


# ------------------------------------------------------------------ rules


def check_words(code: int, said: str, allowed: tuple[int, ...]) -> None:
    """An error is one line, and ends with one of the exit codes."""
    if "Traceback" in said or "Error:" in said:
        raise BrokenRuleError(f"a traceback: {said[-1500:]!r}")
    told = [line for line in said.splitlines() if line.startswith("simgen: error: ")]
    if code and (code not in allowed or (code > 0 and len(told) != 1 and code not in ENDED)):
        raise BrokenRuleError(f"exit code {code}: {said[-300:]!r}")


ENDED = (128 + signal.SIGTERM, 128 + signal.SIGHUP)  # without a word


def check_world(base: Path, *, replaced: bool) -> None:
    """Bundles are whole, results are there and right, outputs are whole or not there."""
    from simgen.bundle import writing as bundles
    from simgen.errors import SimgenError
    from simgen.kernels import cache

    wanted = {"net": set() if replaced else {"host", f"host@{LAYER}"}, "sim": {"mgpusim"}}
    for name, results in wanted.items():
        if not (base / name).exists():
            continue
        try:
            made = bundles.load(Path(name))
            bundles.verify_values(made)
            for target in made.targets:
                bundles.verify(made, target)
            # Opened, it puts a result back that has no name yet.
            with bundles.opened(Path(name)) as made:
                ran = {each for each in made.ran() if made.results(each)}
        except SimgenError as error:
            raise BrokenRuleError(f"damaged: {error}") from None
        if not results <= ran:
            raise BrokenRuleError(f"{name}: results are lost: there is {sorted(ran)}")
        if ran:
            code, _, said = simgen("diff", name, "-q")
            if code:
                raise BrokenRuleError(f"diff {name}: {said}")
    for name in SAME:
        for path in (base / "expected").glob(f"{name.partition('-')[0]}*"):
            here = Path(path.name)
            if here.exists() and contents(here) != contents(path):
                raise BrokenRuleError(f"{name}: half of it, or something else")
    if Path("new").exists():
        try:
            made = bundles.load(Path("new"))
            bundles.verify_values(made)
            bundles.verify(made, "host")
        except SimgenError as error:
            raise BrokenRuleError(f"new: damaged: {error}") from None
    page = Path("report/report.html")
    if not page.exists() or not page.read_text().rstrip().endswith("</html>"):
        raise BrokenRuleError("the report is lost, or half of it is there")
    for root in (Path("cache"), Path("packed")):
        states = {each.path: each.read()[0] for each in cache.entries(root)}
        bad = [path for path, state in states.items() if state is not cache.State.GOOD]
        if bad:
            raise BrokenRuleError(f"{bad[0]}: a damaged entry of the cache")


def contents(path: Path) -> dict[str, bytes]:
    paths = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return {str(each.relative_to(path)): each.read_bytes() for each in paths}


def scratch() -> list[str]:
    """What nobody needs any more: unfinished things in the folders that commands write to."""
    first = (".part-", "simgen-", "bisect-", "conform-")
    kept = ("sweep/.snakemake",)
    return [
        str(path)
        for path in sorted(Path().rglob("*"))
        if path.name.startswith(first) and not str(path).startswith(kept)
    ]
