"""`simgen run --sweep`: the points one after another, those that fail named, the rest beside."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from simgen.errors import RefusedError, RunError, UsageError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simgen.bundle import Bundle
    from simgen.results import Result
    from simgen.sweep import Point
    from simgen.targets import Target


def run(
    bundle: Bundle,
    target: Target,
    points: Sequence[Point],
    once: Callable[[Point], object],
    *,
    again: bool,
    quiet: bool,
) -> None:
    """Run `once` for the points that have no result; all of them, if `again`.

    Raises:
        RefusedError: the target refuses the bundle's place.
        RunError: points failed. What is missing or damaged ends the sweep with its own error.
    """
    from simgen import present

    if refusal := target.refusal(bundle.path):
        raise RefusedError(f"{target.name}: {refusal}")
    todo = [point for point in points if again or not bundle.has(point.name)]
    if not quiet:
        done = len(points) - len(todo)
        print(f"sweep: {present.many(len(points), 'point')}, {done} done before", flush=True)
    failed = []
    for nth, point in enumerate(todo, 1):
        if not quiet:
            print(f"{nth} of {len(todo)}: {point.name}", flush=True)
        try:
            once(point)
        except (RunError, RefusedError, UsageError) as error:
            failed.append(point.name)
            print(f"failed: {point.name}: {one_line(str(error))}", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            left = len(todo) - nth + 1
            print(f"{left} of {len(points)} points left; the same command goes on", file=sys.stderr)
            raise
    if not quiet:
        _table(bundle, target, [point for point in points if point.name not in failed])
    if failed:
        raise RunError(
            f"{bundle.path}: {len(failed)} of {present.many(len(points), 'point')} failed: "
            f"{', '.join(failed)}; the same command runs them again"
        )


def _table(bundle: Bundle, target: Target, points: Sequence[Point]) -> None:
    """A line for each point: its options, simulated time, that of the first divided by it, and the
    instructions; what the target does not count is left out."""
    from simgen import present, results

    found: list[tuple[Point, Result]] = []
    for point in points:
        folder = bundle.results(point.name)
        if folder:
            found.append((point, results.collect(bundle, target, folder, point.name)))
    if not found:
        return
    sums = [_sums(result.launches) for _, result in found]
    heads = list(found[0][0].options)
    rows: list[list[object]] = [list(point.options.values()) for point, _ in found]
    first = sums[0].get("seconds")
    for row, each in zip(rows, sums, strict=True):
        if first:
            time = each.get("seconds")
            row += [present.seconds(time), f"{first / time:.3g}"] if time else ["", ""]
        if "instructions" in sums[0]:
            row.append(present.count(each.get("instructions", 0.0)))
    heads += ["time", "speed-up"] if first else []
    heads += ["instructions"] if "instructions" in sums[0] else []
    present.table(None, heads, rows)


def _sums(launches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for each in launches for name in each)
    return {name: sum(each.get(name, 0.0) for each in launches) for name in names}
