"""What a launch finds in a cache that keeps what was touched last by whole launches before it.

Nothing is simulated: a launch is taken to touch each of its tensors once, from its first byte to
its last, in the order of its arguments. Line conflicts do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.ground.ir import Workload

Place = tuple[int, int]  # in the arena: offset and bytes


def cached_places(workload: Workload, nbytes: int) -> Iterator[tuple[Place, ...]]:
    """For each launch, what a cache of so many bytes holds of its own tensors, those that were used
    last at the end."""
    touched: dict[str, None] = {}  # buffers, least recently used first
    for launch in workload.launches:
        names = dict.fromkeys(launch.args)
        wanted, room, places = touched.keys() & names, nbytes, []
        for name in reversed(touched):
            if not wanted or not room:
                break
            buffer = workload.buffer(name)
            size = min(buffer.spec.held, room)
            if name in wanted:  # after a partial eviction, the end is still there
                places.append((buffer.offset + buffer.spec.held - size, size))
                wanted.remove(name)
            room -= size
        yield tuple(reversed(places))
        for name in names:
            touched.pop(name, None)
            touched[name] = None
