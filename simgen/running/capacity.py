"""What this machine has room for: memory that can be had without swapping, and space on a disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from simgen.ask.build import BuildChoices
from simgen.errors import RefusedError

MEMINFO = Path("/proc/meminfo")
GROUPS = Path("/proc/self/cgroup")  # ID:CONTROLLERS:PATH
CGROUPS = Path("/sys/fs/cgroup")
MIB = 1 << 20


def check_memory(who: str, needed: int, place: str = "") -> None:
    """Refuse what this machine has not the memory for: it would swap for hours, or the system would
    end the run without a word.

    Raises:
        RefusedError: `who` needs more than is free.
    """
    available = available_memory()
    if available is not None and needed > available:
        raise RefusedError(
            f"{who}: {place}it needs {_mib(needed)} MiB of this machine's memory and "
            f"{available // MIB} MiB are free; make the workload smaller: "
            f"simgen build {BuildChoices.set} n=..."
        )


def check_disk(who: str, needed: int, folder: Path) -> None:
    """Refuse a run whose results do not fit on the disk.

    Raises:
        RefusedError: it needs more than is free where `folder` lies.
    """
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise RefusedError(
            f"{who}: the results need {_mib(needed)} MiB on the disk of {folder} and "
            f"{free // MIB} MiB are free; free some, or build the bundle elsewhere with -o"
        )


def available_memory() -> int | None:
    """What Linux can give without swapping, in bytes: what is free, or what the control groups of
    this process leave of it (a container, a job of a batch system). None where nothing tells."""
    found = [
        int(line.split()[1]) << 10 for line in _lines(MEMINFO) if line.startswith("MemAvailable:")
    ]
    for line in _lines(GROUPS):
        parts = line.split(":", 2)
        if len(parts) < 3:
            continue
        if parts[1] == "":
            files = ("memory.max", "memory.current", "inactive_file")
            found += _room_in_groups(CGROUPS, parts[2], *files)
        elif parts[1] == "memory":
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            found += _room_in_groups(CGROUPS / "memory", parts[2], *files)
    return min(found, default=None)


def _room_in_groups(root: Path, group: str, limit: str, usage: str, droppable: str) -> list[int]:
    """What the limits of a control group and of those above it leave. Files that are used no more
    count as used, but the system drops them where memory is short."""
    found = []
    home = root / os.path.normpath("/" + group).lstrip("/")
    for folder in (home, *home.parents):
        most, used = _number(folder / limit), _number(folder / usage)
        if most is not None and used is not None:
            dropped = next(
                (
                    int(line.split()[1])
                    for line in _lines(folder / "memory.stat")
                    if line.startswith(f"{droppable} ")
                ),
                0,
            )
            found.append(max(0, most - max(0, used - dropped)))
        if folder == root:
            break
    return found


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdecimal() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _mib(nbytes: int) -> int:
    return -(-nbytes // MIB)
