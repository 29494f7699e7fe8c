"""A sweep as a user asks for it: the points one after another, and those that fail named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.errors import RefusedError, RunError, UsageError
from simgen.running import runs, sweep_points
from simgen.running.runs import Listener

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.bundle.writing import Bundle
    from simgen.errors import SimgenError
    from simgen.running.runs import Ended, Options, Wish
    from simgen.running.sweep_points import SweepPoint
    from simgen.targets import Target


class SweepListener(Listener):
    """Is told of the points, too."""

    def begins(self, points: int, done: int) -> None:
        """How many there are, and how many of them have a result that is not made again."""

    def point(self, nth: int, count: int, name: str) -> None:
        """The `nth` of `count` that are to be run is next."""

    def ended(self, bundle: Bundle, ended: Ended) -> None:
        """It has a result."""

    def failed(self, name: str, error: SimgenError) -> None:
        """It has none; the next one follows."""

    def interrupted(self, left: int, points: int) -> None:
        """The user ended the sweep."""


@dataclass(frozen=True)
class Swept:
    """A sweep whose points have all been tried."""

    bundle: Bundle
    target: Target
    points: tuple[SweepPoint, ...]  # that have a result
    failed: tuple[str, ...]  # names of the others

    def check(self) -> None:
        """Raise RunError if points failed."""
        if self.failed:
            count = len(self.points) + len(self.failed)
            raise RunError(
                f"{self.bundle.path}: {len(self.failed)} of {count} "
                f"point{'' if count == 1 else 's'} failed: "
                f"{', '.join(self.failed)}; the same command runs them again"
            )


def run(
    bundle: Bundle,
    target: str | None,
    options: Options,
    grid: Sequence[str],
    wish: Wish,
    listener: SweepListener,
    *,
    again: bool = False,
) -> Swept:
    """Run an opened bundle at the points of a grid of `OPTION=VALUE,VALUE...` that have no result.

    With `again`, at all of them. `options` have one value throughout.

    Raises:
        UsageError: what is asked for does not go together, or the bundle cannot do it.
        RefusedError: the target refuses the bundle's place.
        DamagedError, MissingError: as `simgen.running.process.run`; they end the sweep.
    """
    chosen = runs.choose(bundle, target, options, wish, listener)
    points = sweep_points.points(chosen, grid, options)
    for point in points:
        runs.check(wish, chosen, point.options)
    runs.verify(bundle, listener)
    if refusal := chosen.needs.refusal(bundle.path):
        raise RefusedError(f"{chosen.name}: {refusal}")
    todo = [point for point in points if again or not bundle.has(point.name)]
    listener.begins(len(points), len(points) - len(todo))
    failed = []
    for nth, point in enumerate(todo, 1):
        listener.point(nth, len(todo), point.name)
        try:
            bundle = runs.extended(bundle, chosen, point.options)
            ended = runs.once(bundle, chosen, point.options, wish, listener, point.name)
            listener.ended(bundle, ended)
        except (RunError, RefusedError, UsageError) as error:
            failed.append(point.name)
            listener.failed(point.name, error)
        except KeyboardInterrupt:
            listener.interrupted(len(todo) - nth + 1, len(points))
            raise
    ran = tuple(point for point in points if point.name not in failed)
    return Swept(bundle, chosen, ran, tuple(failed))
