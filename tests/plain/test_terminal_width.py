"""What every command prints fits into a terminal: at 80, 100 and 120 columns of a real one."""

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios

import click
import pytest
from handmade import build, lowered_text, run_by_hand

from simgen.cli.main import cli

LONG = "a_layer_with_a_long_name"
NET = f"""[Softmax]
name={LONG}
n=4
c=10
h=1
w=1
[Activation]
name=limit
previous_layer={LONG}
"""
POINTS = [f"cuda@repeats={repeats},warmup=3" for repeats in (2, 10, 100)]
COMMANDS = (
    "doctor", "status", "list", "list layers", "list targets", "list metrics", "list machines",
    "list exports", "list deepbench", "cache list", "show net", "show net -v",
    "diff net", "diff net -v", "diff net cuda", "report net -o out", "report net -o out -v",
    "report net --score", "report wide net -o out", "status wide", "diff wide",
    "run net --on cuda --sweep repeats=2,3 --dry-run",
)  # fmt: skip
HELP = ("--help", "-h", "--help-all")  # there, lines to copy are short, too
# Lines to copy are not broken: commands and paths.
COPIED = re.compile(
    r"(reproduce|next|page|left): |  simgen | *(/|mkdir |docker )|.*/store\.sqlite3"
)
DRIVER = """
import shlex, sys
from simgen.cli.main import cli
for line in sys.stdin.read().splitlines():
    print("\\x01" + line)
    try:
        cli.main(shlex.split(line), prog_name="simgen", standalone_mode=False)
    except SystemExit:
        pass
    except Exception as error:
        print(f"\\x02{type(error).__name__}: {error}")
"""


def in_terminal(columns, lines, folder):
    """What a process prints that runs the lines, in a terminal of so many columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    environment |= {"TERM": "dumb", "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdin=subprocess.PIPE, stdout=slave,
        stderr=subprocess.DEVNULL, cwd=folder, env=environment,
    ) as process:  # fmt: skip
        os.close(slave)
        process.stdin.write("\n".join(lines).encode())
        process.stdin.close()
        told = b""
        while part := _read(master):
            told += part
    os.close(master)
    return told.decode().replace("\r", "")


def _read(master):
    try:
        return os.read(master, 2**16)
    except OSError:  # nobody writes any more
        return b""


def helps(group=cli, words=()):
    """The line that prints the help of each command, and of each below it."""
    for name, command in group.all().items():
        here = (*words, name)
        yield shlex.join([*here, "--help"])
        if isinstance(command, click.Group):
            yield from helps(command, here)


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_no_line_of_any_command_is_longer_than_the_terminal(tmp_path, columns):
    made = build(tmp_path / "net", lowered_text(NET))
    for name in ("cuda", *POINTS):
        run_by_hand(made, target=name)
    made = build(tmp_path / "wide", lowered_text(NET))
    for name in POINTS[:2]:
        run_by_hand(made, target=name)
    # Help is never wider than 80.
    shown = ["--help", *helps(), "run --help-all", "build --help-all"] if columns == 80 else []
    lines = [*COMMANDS, *shown]
    told = in_terminal(columns, lines, tmp_path)
    command, ran, wide = "", 0, []
    for line in told.splitlines():
        shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).rstrip()
        if shown.startswith("\x01"):
            command, ran = shown[1:], ran + 1
        elif shown.startswith("\x02"):
            wide.append(f"{command}: {shown[1:]}")
        elif len(shown) > columns and (command.endswith(HELP) or not COPIED.match(shown)):
            wide.append(f"{command}: {shown}")
    assert ran == len(lines)
    assert wide == []
