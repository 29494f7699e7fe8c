"""What a build says of targets that run the steps of several queues one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simgen.ground.ir import Workload
    from simgen.targets.base import Target


def notes(target: Target, workload: Workload) -> list[str]:
    """In lines; none where it runs them at once, or where there is one queue."""
    if not workload.queues or not target.one_queue:
        return []
    return [f"{target.name}: runs the queues' layers one after the other: {target.one_queue}"]
