"""What a launch finds in a cache that keeps what was touched last by whole launches before it.

Nothing is simulated: a launch is taken to touch each of its tensors once, from its first byte to
its last, in the order of its arguments. Line conflicts do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.ir import Workload

Place = tuple[int, int]  # in the arena: offset and bytes


def found(workload: Workload, nbytes: int) -> Iterator[tuple[Place, ...]]:
    """For each launch, what a cache of so many bytes holds of its own tensors, those that were used
    last at the end."""
    touched: list[str] = []  # buffers, least recently used first
    for launch in workload.launches:
        names = list(dict.fromkeys(launch.args))
        room, places = nbytes, []
        for name in reversed(touched):
            spec = workload.buffer(name)
            size = min(spec.spec.held, room)
            if name in names:  # of what has been evicted in part, the end is there
                places.append((spec.offset + spec.spec.held - size, size))
            room -= size
            if not room:
                break
        yield tuple(reversed(places))
        touched = [name for name in touched if name not in names] + names
