"""Everything simgen raises on purpose, and the exit code of each.

* SimgenError            1   a bug in simgen
  + SourceError          1   its sources do not fit together: in a checkout, what was changed last
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
from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar

SHORT = 250  # characters; a message of no more is printed as it is
LONGEST_WORD = 200  # characters of a word in a longer one
LONGEST = 1500  # characters of a message
MOST_NAMES = 20  # in a list of what is known


class SimgenError(Exception):
    """Base class: the command line prints the message on one line and exits with `exit_code`."""

    exit_code: ClassVar[int] = 1


class SourceError(SimgenError, ValueError):
    """Simgen's own sources do not fit together: a mistake of who changes them, with its place."""


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


# Words that people type -> what they may mean: the first one whose beginning is known.
# No entry: the word resembles nothing, however near some name is.
_UNITS = ("--num-compute-units", "num_compute_units")
_TYPES = {"f16": "fp16 half float16", "bf16": "bfloat16", "f32": "fp32 float float32 single",
          "f64": "fp64 double float64", "i8": "int8", "i32": "int32",
          "f8e4m3": "fp8 float8 e4m3", "f8e5m2": "e5m2"}  # fmt: skip
_GPUS = {"gfx942": "mi300 mi300x mi300a mi325x", "gfx90a": "mi200 mi210 mi250 mi250x",
         "gfx908": "mi100", "gfx900": "vega vega10 vega64", "gfx902": "apu raven",
         "gfx803": "fiji polaris nano r9nano", "gfx801": "carrizo"}  # fmt: skip
SYNONYMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(["num_cus", "num_cu", "cus", "cu", "sms", "num_sms"], _UNITS),
    "units": (*_UNITS, "num_output", "hidden_size"),
    **dict.fromkeys(["filters", "num_filters", "out_channels", "out_features"], ("num_output",)),
    **dict.fromkeys(["channels", "in_channels", "in_features"], ("c",)),
    **dict.fromkeys(["n", "batch", "batch_size", "batchsize", "bs"], ("--set n=N", "n")),
    **dict.fromkeys(["dtype", "data_type", "datatype", "precision"], ("--type", "type")),
    **{word: (f"--type {name}", name) for name, words in _TYPES.items() for word in words.split()},
    **{word: (f"--arch {name}", name) for name, words in _GPUS.items() for word in words.split()},
    **dict.fromkeys(["cpu", "x86", "native"], ("host",)),
    **dict.fromkeys(["gpu", "nvidia"], ("--arch", "--on cuda", "cuda")),
    **dict.fromkeys(
        ["device", "sim", "backend", "platform", "simulator", "target", "targets", "on"],
        ("--target", "--on", "--targets", "--simulator"),
    ),
    **dict.fromkeys(["format", "fmt"], ("--as",)),
    **dict.fromkeys(["matmul", "mm", "bmm"], ("gemm_fwd",)),
    **dict.fromkeys(["linear", "dense"], ("fc_fwd",)),
    **dict.fromkeys(["relu", "gelu", "tanh", "sigmoid"], ("activation_fwd",)),
    "gpus": ("machines",),
    "simulators": ("targets",),
    "models": ("networks",),
    "formats": ("exports",),
    **dict.fromkeys(["rocm", "amd"], ("hip",)),
    **dict.fromkeys(["l2", "l2_size"], ("--tcc-size", "tcc_size")),
    **dict.fromkeys(["l1", "l1_size", "l1d_size"], ("--tcp-size", "tcp_size")),
    **dict.fromkeys(["clock", "freq", "frequency"], ("--gpu-clock", "gpu_clock")),
    **dict.fromkeys(["detailed", "cycle"], ("timing",)),
    **dict.fromkeys(["gpgpusim", "gpgpu_sim", "accel_sim"], ("gpgpusim",)),
}
_BOUNDS = "bounds follow from each kernel's sums, so there is none to set (page verdicts)"
_CONFIG = "write it with its config.json, as page models says"
# Words of what simgen has in another way: how it has it.
OTHERWISE: dict[str, str] = {
    **dict.fromkeys(["tolerance", "tol", "atol", "rtol", "threshold"], _BOUNDS),
    "csv": "a report writes metrics.csv; simgen export --as csv writes launches",
    **dict.fromkeys(["bert", "gpt2", "gpt", "llama", "mistral", "qwen", "mixtral"], _CONFIG),
}


def kernel_name(name: str) -> str:
    """A kernel's name for people, without the digest that stands for numbers in it."""
    return re.sub(r"_[0-9a-f]{12,32}(?=_|$)", "", name)


def did_you_mean(word: str, known: Iterable[str], listing: str = "") -> str:
    """The cure for an unknown word: the nearest known one, else all of them, or the first.

    Where they are many, `listing` is the command that prints them.
    """
    known = sorted({str(name) for name in known} - {""})
    folded = {name.lower(): name for name in known}
    meant = SYNONYMS.get(word.lower().lstrip("-").replace("-", "_"))
    for each in meant or ():
        if each.split()[0] in known:
            return f"did you mean {printable(each)}?"
    if newest := _nearest_version(word, known):
        return f"did you mean {printable(newest)}?"
    # What is longer than this resembles nothing, and comparing it would take its time.
    if otherwise := OTHERWISE.get(word.lower().lstrip("-")):
        return otherwise
    short = len(word) <= LONGEST_WORD and meant is None
    near = get_close_matches(word.lower(), folded, n=1) if short else []
    if near:
        return f"did you mean {printable(folded[near[0]])}?"
    if listing:
        return f"list them with: {listing}"
    if not known:
        return "none is known here"
    names = ", ".join(one_line(shortened(name, 60)) for name in known[:MOST_NAMES])
    more = len(known) - MOST_NAMES
    return f"known: {names}{f' and {more} more' if more > 0 else ''}"


def _nearest_version(word: str, known: Iterable[str]) -> str:
    """The newest known version where `word` is a newer one; empty where it is none."""

    def parts(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split(".")))

    pattern = re.compile(r"\d{1,4}(?:\.\d{1,4}){1,2}", re.ASCII)
    if not pattern.fullmatch(word):
        return ""
    versions = sorted((each for each in known if pattern.fullmatch(each)), key=parts)
    return versions[-1] if versions and parts(versions[-1]) < parts(word) else ""


def whole_number(text: str, usual: str) -> str:
    """The cure where `text` should be a whole number: `usual`, unless it says what was meant."""
    scaled = re.fullmatch(r"(\d{1,9})([kKmM])(i?)[bB]?", text, re.ASCII)
    if scaled:
        power = "km".index(scaled[2].lower()) + 1
        decimal, binary = int(scaled[1]) * 1000**power, int(scaled[1]) * 1024**power
        return f"write {binary}" if scaled[3] else f"write {decimal} or {binary}"
    if re.fullmatch(r"\d{1,9}(?:[,;:]\d{1,9})+", text, re.ASCII):
        values = re.sub(r"[;:]", ",", text)
        return f"write one value; simgen run --sweep NAME={values} takes several"
    return usual


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
