"""What libraries log of a model's run -> problems, and how often each was called.

    MIOpen      MIOPEN_ENABLE_LOGGING_CMD=1     lines of MIOpenDriver
    rocBLAS     ROCBLAS_LAYER=2                 lines of rocblas-bench
                ROCBLAS_LAYER=4                 a line of YAML for each problem, with its call_count
    hipBLASLt   HIPBLASLT_LOG_MASK=32           lines of hipblaslt-bench

A call begins its line, or stands behind the name of the function that MIOpen logs it with, and has
the form of the program's arguments. Other lines of the file are passed over. MIOpen logs the search
for an algorithm as a call too (LogCmdFindConvolution), which is none of the model's.

Source: "Debugging and logging" of MIOpen's documentation, "rocBLAS logging", "Logging and
heuristics" of hipBLASLt; GEMMs of rocBLAS's log_profile, library/src/include/logging.hpp.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.errors import SimgenError, UsageError, one_line, printable
from simgen.frontend.drivers import table
from simgen.ground.storage.files import NotRegularError, open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from simgen.frontend.operation import LibraryOperation

MAX_NBYTES = 2**30  # size limit of a log
MAX_LINE = 2**14  # bytes of a line that may be a call
SEARCHES = "[LogCmdFind"
PROFILE = "rocblas_function"
_PROFILED = re.compile(rf"\s*-\s*\{{\s*{PROFILE}:")
_CALL = re.compile(
    r"(?:^\s*(?:[+$>]\s+)?|\[LogCmd\w+\]\s+)(?:\S*/)?"
    r"(?:(?:rocblas-bench|hipblaslt-bench|benchdnn|cutlass_profiler)\s+-"
    r"|MIOpenDriver(?:\.exe)?\s+\w+(?:\s+-|\s*$)"
    r"|(?:gemm|conv|rnn)_bench\s+(?:train|inference)\s)"
)
PRECISIONS = {"s": "f32_r", "h": "f16_r", "d": "f64_r", "c": "f32_c", "z": "f64_c"}
# Key in a line of the profile -> option of rocblas-bench.
OPTIONS = {
    "transA": "--transposeA", "transB": "--transposeB", "M": "-m", "N": "-n", "K": "-k",
    **{name: f"--{name}" for name in ("alpha", "beta", "batch_count", "compute_type")},
    **{f"{each}_type": f"--{each}_type" for each in "abcd"},
    **{f"ld{each}": f"--ld{each}" for each in "abcd"},
    **{f"stride_{each}": f"--stride_{each}" for each in "abcd"},
}  # fmt: skip


@dataclass(frozen=True)
class CallLog:
    """The calls of a log."""

    calls: Mapping[LibraryOperation, int]  # how often, the first one first
    unread: Mapping[str, int]  # why lines are no problem -> calls


def read_log(path: Path) -> CallLog:
    """The calls in a log.

    Raises:
        UsageError: the file cannot be read, or has no calls.
    """
    calls: Counter[LibraryOperation] = Counter()
    unread: Counter[str] = Counter()
    for line in _lines(path):
        count = _count(line)
        if not count:
            continue
        try:
            operation = _operation(line)
        except SimgenError as error:
            unread[one_line(str(error))] += count
            continue
        if operation is not None:
            calls[operation] += count
    if not calls and not unread:
        raise UsageError(
            f"{one_line(str(path))}: no call of MIOpen, rocBLAS or hipBLASLt in this log; run the "
            "model with MIOPEN_ENABLE_LOGGING_CMD=1, ROCBLAS_LAYER=2 or HIPBLASLT_LOG_MASK=32"
        )
    return CallLog(calls, unread)


def _lines(path: Path) -> Iterator[str]:
    where = one_line(str(path))
    try:
        with open_regular(path) as file:
            if file.seek(0, 2) > MAX_NBYTES:
                raise UsageError(f"{where}: larger than {MAX_NBYTES} bytes; give a part of it")
            file.seek(0)
            while raw := file.readline(MAX_LINE):
                yield raw.decode(errors="replace")
    except (NotRegularError, OSError, ValueError) as error:
        fact = getattr(error, "strerror", None) or "not a file name"
        raise UsageError(f"{where}: cannot be read ({fact}); check the path") from None


def _count(line: str) -> int:
    """How often the problem of a line was called; 0: the line is no call."""
    if SEARCHES in line:
        return 0
    if _PROFILED.match(line):
        found = re.search(r"\bcall_count:\s*([0-9]{1,12})\b", line)
        return int(found[1]) if found else 1
    return int(bool(_CALL.search(line)))


def _operation(line: str) -> LibraryOperation | None:
    """The operation of a line that is a call.

    Raises:
        SimgenError: it cannot be read.
    """
    return table.parse_line(_bench_line(line) if _PROFILED.match(line) else line.strip())


def _bench_line(line: str) -> str:
    """A line of rocBLAS's profile, which is a YAML mapping, as one of rocblas-bench."""
    found = dict(re.findall(r"(\w+):\s*['\"]?([^\s,'\"{}]+)", line))
    name = found.get(PROFILE, "")
    plain = re.fullmatch(r"rocblas_(?:([shdcz])(?=gemm))?(gemm\w*)", name)
    if not plain:
        raise UsageError(f"rocBLAS profile: {printable(name)} is no product; it is left out")
    words = ["rocblas-bench", "-f", plain[2]]
    words += ["-r", PRECISIONS[plain[1]]] if plain[1] else []
    for key, option in OPTIONS.items():
        words += [option, found[key]] if key in found else []
    return " ".join(words)
