"""Everything simgen raises on purpose, and the exit code of each.

* SimgenError            1   a bug in simgen (a rendered kernel that does not compile, say)
  + UsageError           2   wrong command line
    + ConfigError        2   a config says something that cannot be accepted (file:line)
    + UnsupportedError   2   the config is valid, but has nothing to run in the passes asked for
  + MissingError         3   this machine lacks a compiler, a simulator, a GPU or disk space
  + RefusedError         4   refused before running: footprint, redirected path, lint
  + RunError             5   the run failed: the simulator died, a time-out
  + MismatchError        6   results differ
  + DamagedError         7   a file is not what it says it is, or is missing from its bundle

Each message is one line, "place: fact; cure". A signal that ends simgen gives 128 + its number.
"""

from __future__ import annotations

import errno
import re
import signal
import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


SHORT = 250  # characters; a message of no more is printed as it is
LONGEST_WORD = 200  # characters of a word in a longer one
LONGEST = 1500  # characters of a message
MOST_NAMES = 20  # in a list of what is known


class SimgenError(Exception):
    """Base class: the command line prints the message on one line and exits with `exit_code`."""

    exit_code: ClassVar[int] = 1


class UsageError(SimgenError):
    """Wrong usage: a word, option or argument that cannot be accepted."""

    exit_code = 2


class ConfigError(UsageError):
    """A config that cannot be accepted, with the place ("file:line" or "--set") in front."""

    def __init__(self, where: object, fact: str) -> None:
        super().__init__(f"{where}: {fact}")


class UnsupportedError(ConfigError):
    """A valid config, but a layer has no kernels for the pass that is asked for."""


class MissingError(SimgenError):
    """This machine lacks a compiler, a simulator, a GPU or disk space."""

    exit_code = 3


class RefusedError(SimgenError):
    """Refused before anything is run or replaced: results would be lost, memory is short, ..."""

    exit_code = 4


class LossError(RefusedError):
    """What would be written takes the place of a bundle whose results would be lost."""


class RunError(SimgenError):
    """The run failed: the simulator died, a kernel hung, the time was over."""

    exit_code = 5


class MismatchError(SimgenError):
    """Results differ."""

    exit_code = 6


class DamagedError(SimgenError):
    """A file is not what was written, or is missing from its bundle."""

    exit_code = 7


def did_you_mean(word: str, known: Iterable[str], listing: str = "") -> str:
    """The cure for an unknown word: the nearest known one, else all of them, or the first.

    Where they are many, `listing` is the command that prints them.
    """
    known = sorted({str(name) for name in known})
    folded = {name.lower(): name for name in known}
    # What is longer than this resembles nothing, and comparing it would take its time.
    near = get_close_matches(word.lower(), folded, n=1) if len(word) <= LONGEST_WORD else []
    if near:
        return f"did you mean {printable(folded[near[0]])}?"
    if listing:
        return f"list them with: {listing}"
    if not known:
        return "none is known here"
    names = ", ".join(one_line(shortened(name, 60)) for name in known[:MOST_NAMES])
    more = len(known) - MOST_NAMES
    return f"known: {names}{f' and {more} more' if more > 0 else ''}"


def resembling(lacking: Iterable[str], settings: Iterable[str]) -> str:
    """The cure where a setting nearly has the name of something without a value; or nothing."""
    folded = {name.lower(): name for name in lacking}
    for given in settings:
        near = get_close_matches(given.lower(), folded, n=1) if len(given) <= LONGEST_WORD else []
        if near:
            return f"--set {one_line(given)}: did you mean {printable(folded[near[0]])}?"
    return ""


def shortened(text: str, limit: int) -> str:
    """`text`, or its beginning and end with "..." between them: at most `limit` characters."""
    if len(text) <= limit:
        return text
    last = (limit - 3) // 2
    return f"{text[: limit - 3 - last]}...{text[len(text) - last :]}"


def one_line(text: str) -> str:
    """`text` with everything escaped that would break the line or the terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable(text: str, limit: int = 60) -> str:
    """User text as it may appear in a one-line message: quoted, escaped and shortened."""
    return repr(shortened(text, limit))


def message(text: str) -> str:
    """A message as it is printed: one line of at most LONGEST characters.

    Words are shortened first, so that the place, the fact and the cure stay readable where a path,
    a name or a value is enormous.
    """
    if len(text) > SHORT:
        text = re.sub(rf"\S{{{LONGEST_WORD + 1},}}", lambda m: shortened(m[0], LONGEST_WORD), text)
    return shortened(one_line(shortened(text, LONGEST)), LONGEST)


def is_full(error: OSError) -> bool:
    """Whether the disk, or what the user may have of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def cure_of(error: OSError, usual: str) -> str:
    """What helps where something cannot be written; `usual` if nothing else is known."""
    if is_full(error):
        return "free some space"
    return "raise the limit (ulimit -f)" if error.errno == errno.EFBIG else usual


ENDING = (signal.SIGTERM, signal.SIGHUP)  # asked to end; the terminal is closed


def end_by_signals() -> list[signal.Signals]:
    """Have ENDING raise SystemExit with 128 + the signal; returns which of them had no handler.

    By default they end Python at once, without a `finally`, and simulators, whose session is their
    own, would go on. What somebody else handles, or ignores as `nohup` does, stays so.
    """
    found = [each for each in ENDING if signal.getsignal(each) is signal.SIG_DFL]
    for each in found:
        signal.signal(each, lambda number, _: sys.exit(128 + number))
    return found
