"""A sweep as a user asks for it: the points one after another, and those that fail named."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simgen.ask.run import RunCommand
from simgen.bundle import finding
from simgen.bundle import writing as bundles
from simgen.errors import RefusedError, RunError, SimgenError, UsageError
from simgen.running import runs, siblings, sweep_points
from simgen.running.runs import Ended, Listener

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from simgen.bundle.planning import Told
    from simgen.bundle.results import Result
    from simgen.bundle.writing import Bundle
    from simgen.running.siblings import Family
    from simgen.running.sweep_points import SweepPoint


class SweepListener(Listener):
    """Receives the events of points, too."""

    def building(self, path: Path) -> AbstractContextManager[Told | None]:
        """For the build of a bundle beside the one that is swept; a callback for how it goes on."""
        return contextlib.nullcontext()

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
class RanPoint:
    """A point that has a result, and the bundle that has it."""

    point: SweepPoint
    bundle: Bundle

    @property
    def result(self) -> Result:
        """It, from its folder.

        Raises:
            DamagedError: it is not what the run left.
        """
        return finding.find_result(self.bundle, self.point.result)


@dataclass(frozen=True)
class Swept:
    """A sweep whose points have all been tried."""

    bundle: Bundle
    points: tuple[RanPoint, ...]  # points that have a result
    failed: tuple[str, ...]  # names of the others

    @property
    def bundles(self) -> list[Path]:
        """Bundles that hold the results."""
        return list(dict.fromkeys(each.bundle.path for each in self.points))

    def check(self) -> None:
        """Raise RunError if points failed."""
        if self.failed:
            count = len(self.points) + len(self.failed)
            raise RunError(
                f"{self.bundle.path}: {len(self.failed)} of {count} "
                f"point{'' if count == 1 else 's'} failed: "
                f"{', '.join(self.failed)}; the same command runs them again"
            )


def run(bundle: Bundle, asked: RunCommand, listener: SweepListener) -> Swept:
    """Run an opened bundle at the points of a grid of `SETTING=VALUE,VALUE...` that have no result.

    With `again` or `replace`, at all of them. Options have one value throughout. Where settings of
    a build are among the grid's, the bundles that have them are built beside this one, all before
    the first run.

    Raises:
        UsageError: what is asked for does not go together, or the bundle cannot do it.
        RefusedError: the target refuses the bundle's place.
        DamagedError, MissingError: as `simgen.running.process.run`; they end the sweep.
    """
    chosen = runs.choose(bundle, asked, listener)
    again = asked.again or asked.replace
    family = functools.cache(lambda: siblings.Family(bundle, chosen))
    points = sweep_points.points(chosen, asked, lambda: family().settings())
    for point in points:
        runs.check(replace(asked, options=point.options), chosen)
    with contextlib.ExitStack() as held:
        if any(point.built for point in points):
            homes = _homes(family(), points, listener, held, again=again)
        else:
            runs.verify(bundle, listener)
            homes = [bundle] * len(points)
        for path in dict.fromkeys(home.path for home in homes if home):
            if refusal := chosen.needs.refusal(path):
                raise RefusedError(f"{chosen.name}: {refusal}")
        return _run(list(zip(points, homes, strict=True)), bundle, asked, listener, again=again)


def listed(bundle: Bundle, asked: RunCommand, listener: Listener) -> list[tuple[SweepPoint, bool]]:
    """The points of a grid, and whether each has a result; nothing is built or run.

    Raises:
        UsageError: what is asked for does not go together, or the bundle cannot do it.
    """
    chosen = runs.choose(bundle, asked, listener)
    family = functools.cache(lambda: siblings.Family(bundle, chosen))
    found = []
    for point in sweep_points.points(chosen, asked, lambda: family().settings()):
        runs.check(replace(asked, options=point.options), chosen)
        home = family().sibling(point.built).path if point.built else bundle.path
        done = home / bundles.RESULTS / point.result / bundles.COMPLETE
        found.append((point, done.exists()))
    return found


def run_piece(bundle: Bundle, asked: RunCommand, listener: Listener) -> None:
    """Run one piece, counted from 1, of a run by pieces: of the bundle, or of the one point of a
    grid of its run options. What it leaves is kept for the run itself.

    Raises:
        UsageError: there is no such piece, or the grid has several points.
        Else as `simgen.running.runs.run`.
    """
    nth, ask = asked.piece or 0, RunCommand
    if asked.by_pieces is None:
        raise UsageError(f"{ask.piece} {nth}: of what; add {ask.representatives} or {ask.jobs}")
    chosen = runs.choose(bundle, asked, listener)
    point = None
    if asked.grid:
        points = sweep_points.points(chosen, asked, list)
        if len(points) > 1:
            fact = f"{ask.grid} has {len(points)} points"
            raise UsageError(f"{ask.piece} {nth}: {fact}; give one value each")
        point = points[0]
        runs.check(replace(asked, options=point.options), chosen)
    runs.verify(bundle, listener)
    asked = replace(asked, options=point.options) if point else asked
    made = runs.extended(bundle, chosen, asked.options)
    runs.one_piece(made, chosen, asked, nth, listener, point.result if point else None)


def _homes(
    family: Family,
    points: Sequence[SweepPoint],
    listener: SweepListener,
    held: contextlib.ExitStack,
    *,
    again: bool,
) -> list[Bundle | None]:
    """The bundle of each point, built and opened; None: it cannot be built."""
    planned = {point.home: point.built for point in points}
    named = {home: family.sibling(built) for home, built in planned.items()}
    made: dict[str, Bundle | None] = dict.fromkeys(named)
    for home, sibling in named.items():
        try:
            with listener.building(sibling.path) as tell:
                sibling.build(again=again, tell=tell)
            made[home] = held.enter_context(bundles.opened(sibling.path))
        except (RefusedError, UsageError) as error:
            listener.failed(sibling.path.name, error)
    return [made[point.home] for point in points]


def _run(
    places: Sequence[tuple[SweepPoint, Bundle | None]],
    swept: Bundle,
    asked: RunCommand,
    listener: SweepListener,
    *,
    again: bool,
) -> Swept:
    """Run the points that have a bundle and no result."""
    failed = [point.name for point, home in places if home is None]
    ready = [(point, home) for point, home in places if home is not None]
    todo = [(point, home) for point, home in ready if again or not home.has(point.result)]
    listener.begins(len(places), len(ready) - len(todo))
    now = {home.path: home for _, home in ready}  # with what runs have added
    for nth, (point, home) in enumerate(todo, 1):
        listener.point(nth, len(todo), point.name)
        try:
            target = finding.target_of(home, point.target)
            now[home.path] = made = runs.extended(now[home.path], target, point.options)
            wanted = replace(asked, options=point.options, replace=again)
            ended = runs.once(made, target, wanted, listener, point.result)
            listener.ended(made, ended)
        except (RunError, RefusedError, UsageError) as error:
            failed.append(point.name)
            listener.failed(point.name, error)
        except KeyboardInterrupt:
            listener.interrupted(len(todo) - nth + 1, len(places))
            raise
    ran = [RanPoint(point, now[home.path]) for point, home in ready if point.name not in failed]
    return Swept(now.get(swept.path, swept), tuple(ran), tuple(failed))
