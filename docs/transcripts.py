"""Pages whose commands are run: what they show is what simgen prints.

A page's blocks of code are taken in their order: `console` is commands and what they print (a line
`...` stands for any lines), `ini` and `python` below a file's name in backticks are that file.

    python docs/transcripts.py README.md docs/first-hour.md   # writes what has changed
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT = 300.0
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w-]+\.(?:dnnmark|py))`[^`]*\Z")  # named before a block
ANY = "..."
SIMGEN = re.compile(r"(?:^|[\s/;|(])simgen (?=[a-z]|--)")  # the command, with what it is told
# What another machine, cache or moment prints otherwise.
VARIES = (
    (re.compile(r"\b\d[\d.]* (ns|us|ms|s)\b"), "TIME"),
    (re.compile(r"^compiled: .*"), "compiled:"),
    (re.compile(r"─+"), "-"),
)
# What is printed only where something takes long.
PROGRESS = re.compile(
    r"(kernels|data|checking data|launches|comparing steps): .* of |.* so far\b"
    r"|simgen: \w+: (building the simulator|the simulator is built)"
)


@dataclass(frozen=True)
class File:
    """A file that the page shows."""

    name: str
    content: str


@dataclass(frozen=True)
class Command:
    """A line for a shell, and what the page shows below it; `start` and `end` are its place."""

    line: str
    shown: str
    start: int
    end: int

    @property
    def fails(self) -> bool:
        """Whether the page shows an error."""
        return "simgen: error: " in self.shown


def parts(page: str) -> Iterator[File | Command]:
    """The files and commands of a page, in their order."""
    for block in BLOCK.finditer(page):
        language, text = block.groups()
        named = FILE.search(page[: block.start()])
        if language == "console":
            for each in re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                at = block.start(2)
                yield Command(each[1], each[2], at + each.start(2), at + each.end(2))
        elif named and language in ("ini", "python"):
            yield File(named[1], text)


def lines(page: str) -> Iterator[str]:
    """Every line for a shell that a page shows and that has simgen in it, in their order: of blocks
    that are indented or of `console` and `sh`, without comments. A loop is one."""
    blocks = re.sub(r"^```(?!console|sh$)(\S+)\n.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    blocks = re.sub(r"^```sh\n(.*?)^```$", _indented, blocks, flags=re.MULTILINE | re.DOTALL)
    loop = ""
    for each in re.findall(r"^(?:    |\$ )((?:.*\\\n)*.*)", blocks, re.MULTILINE):
        line = re.sub(r"\\\n\s*", "", each.strip().removeprefix("$ "))
        line = re.sub(r"(?:^|\s+)#.*", "", line)
        if loop or re.search(r"; do$", line):
            loop = f"{loop}\n{line}".strip()
            line, loop = (loop, "") if line == "done" else ("", loop)
        if SIMGEN.search(line):
            yield line


def _indented(block: re.Match[str]) -> str:
    return re.sub("^", "    ", block[1], flags=re.MULTILINE)


def run(
    command: str, folder: Path, cache: Path | None = None, program: Path | None = None
) -> tuple[str, int]:
    """What a command prints in the folder, on both streams, and its exit code.

    With the user's own cache, if none is given: it has the simulator, once that is built; with
    another program `simgen`, if one is given.
    """
    folders = [str(each.parent) for each in (program, Path(sys.executable)) if each]
    environment = {
        **os.environ,
        "PATH": ":".join([*folders, os.environ["PATH"]]),
        "SIMGEN_CONFIG": ".defaults.toml",  # nobody's own
        **({"SIMGEN_CACHE_DIR": str(cache)} if cache else {}),
    }
    for name in ("GEM5", "COLUMNS"):
        environment.pop(name, None)
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines()), done.returncode


def same(printed: str, shown: str) -> bool:
    """Whether the page shows what was printed, as it is on every machine."""
    pattern = "".join(
        r"(.*\n)*" if line == ANY else re.escape(line) + r"\n" for line in _lines(shown)
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(printed))) is not None


def _lines(text: str) -> list[str]:
    kept = []
    for line in text.splitlines():
        words = " ".join(line.split())
        if PROGRESS.match(words):
            continue
        for pattern, put in VARIES:
            words = pattern.sub(put, words)
        kept.append(words)
    return [line for line in kept if line]


def rewrite(path: Path) -> list[str]:
    """Run the page's commands, and write what they print now; the commands that differed."""
    page, changed = path.read_text(), []
    made: list[tuple[Command, str]] = []
    with tempfile.TemporaryDirectory() as work:
        folder, cache = Path(work, "work"), Path(work, "cache")
        folder.mkdir()
        for each in parts(page):
            if isinstance(each, File):
                (folder / each.name).write_text(each.content)
                continue
            printed, _ = run(each.line, folder, cache)
            if not same(printed, each.shown):
                made.append((each, printed))
                changed.append(each.line)
    for each, printed in reversed(made):
        page = page[: each.start] + printed + page[each.end :]
    path.write_text(page)
    return changed


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for line in rewrite(Path(name)):
            print(f"{name}: {line}")
