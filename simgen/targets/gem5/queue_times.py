"""Times of launches that ran at once: what the launcher saw, and when gem5's GPU was active.

gem5 dumps its statistics when no compute unit runs any more, so they are those of all launches that
overlapped. The launcher's program writes when the doorbell of each launch rang, and when the
simulated CPU saw its end. Both are taken as positions in the time in which the GPU was active, so
that times of all launches together are the simulator's own.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from simgen.errors import DamagedError
from simgen.ground.storage.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from simgen.targets.gem5.stats import Interval

FILE = "times.bin"  # two 64-bit numbers for each launch: nanoseconds
NANOSECOND = 1e-9
NAMED = {
    "elapsed_seconds": "of several queues: shaderActiveTicks / simFreq from the last end before it "
    "to its own, as the simulated CPU saw them"
}


def metrics(path: Path, active: Sequence[Interval], launches: int) -> list[dict[str, float]]:
    """Metrics of each launch in the workload's order, from its doorbell to its end. `seconds` is
    the time in which the GPU was active, `simulated_seconds` the whole time, `cycles` count the
    shader's clock. `elapsed_seconds` is the active time since the previous end, so that their sum
    is the run's.

    Raises:
        DamagedError: the file is not one of so many launches that ended after they began.
    """
    times = _read_times(path, launches)
    found: list[dict[str, float]] = [{} for _ in times]
    last = 0.0
    order = sorted(range(launches), key=lambda at: times[at][1])
    for at in order:
        begin, end = (each * NANOSECOND for each in times[at])
        # The last end is seen after the GPU's own.
        until = _until(active, max(end, active[-1].end) if at == order[-1] else end)
        seconds = max(0.0, until - _until(active, begin))
        found[at] = {
            "seconds": seconds,
            "elapsed_seconds": until - last,
            "simulated_seconds": end - begin,
            "cycles": seconds * active[0].clock // 1,
        }
        last = until
    return found


def _until(active: Sequence[Interval], time: float) -> float:
    """Seconds before a time in which the GPU was active."""
    return sum(min(each.end, time) - each.start for each in active if each.start < time)


def _read_times(path: Path, launches: int) -> list[tuple[int, int]]:
    each = struct.Struct("<QQ")
    try:
        with open_regular(path) as file:
            content = file.read(launches * each.size + 1)
    except OSError as error:
        raise DamagedError(f"{path}: {error.strerror}; run it again") from None
    if len(content) != launches * each.size:
        raise DamagedError(f"{path}: not the times of {launches} launches; run it again")
    found: list[tuple[int, int]] = list(each.iter_unpack(content))
    if not all(0 < begin <= end for begin, end in found):
        raise DamagedError(f"{path}: a launch ends before it begins; run it again")
    return found
