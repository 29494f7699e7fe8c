"""Runs as a timeline that Perfetto and Chrome open: the Trace Event Format's JSON.

Each run is a process with two tracks, layers and passes above launches. Launches follow each other
without pauses, as their times add up; metrics of a launch are its arguments, and `inferred` is the
place of the one that they are of, if it did not run itself. Times are microseconds
(Trace Event Format, Duvall and Sinclair, 2016: `ts`, `dur`), whole nanoseconds: Perfetto rounds
`ts` and `dur` each by itself, and drops a slice that then overlaps another one. So starts and ends
are rounded here, and their difference is taken last.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from simgen.ground.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from simgen.bundle.results import Result
    from simgen.bundle.writing import Bundle

FILE = "timeline.json"
STEPS, LAUNCHES = 1, 2  # tracks
NANOSECONDS = 1e9


def write(path: Path, found: Iterable[tuple[str, Bundle, Sequence[Result]]]) -> None:
    """Write the timeline of all (name, bundle, results); a result without times has no track."""
    events: list[dict[str, Any]] = []
    process = 0
    for name, bundle, ran in found:
        for result in ran:
            if any("seconds" in metrics for metrics in result.launches):
                process += 1
                events += _names(process, f"{name} on {result.name}")
                events += _events(process, bundle, result)
    told = {"traceEvents": events, "displayTimeUnit": "ns"}
    write_atomic(path, (json.dumps(told, separators=(",", ":")) + "\n").encode())


def _names(process: int, name: str) -> Iterator[dict[str, Any]]:
    of = {"ph": "M", "pid": process}
    yield {**of, "name": "process_name", "args": {"name": name}}
    for track, what in ((STEPS, "layers and passes"), (LAUNCHES, "launches")):
        yield {**of, "tid": track, "name": "thread_name", "args": {"name": what}}


def _events(process: int, bundle: Bundle, result: Result) -> Iterator[dict[str, Any]]:
    """Complete events (`ph` X): each launch, and each step over its launches."""
    now, begun, step = 0.0, 0.0, None
    kernels = result.kernels(bundle.workload)
    inferred = result.inferred
    for place, ((at, kernel), metrics) in enumerate(zip(kernels, result.launches, strict=True)):
        if at != step and step is not None:
            yield _step_event(process, bundle, step, begun, now)
        if at != step:
            begun, step = now, at
        length = metrics.get("seconds", 0.0) * NANOSECONDS
        if metrics:
            told: dict[str, Any] = dict(metrics)
            told |= {"inferred": inferred[place]} if place in inferred else {}
            yield _event(process, LAUNCHES, kernel, "launch", now, now + length, told)
        now += length
    if step is not None:
        yield _step_event(process, bundle, step, begun, now)


def _step_event(process: int, bundle: Bundle, at: int, begun: float, now: float) -> dict[str, Any]:
    of = bundle.workload.steps[at]
    told = {
        "layer": of.layer,
        "pass": str(of.direction),
        "kind": bundle.workload.node(of.layer).kind,
    }
    return _event(process, STEPS, f"{of.layer} {of.direction}", "step", begun, now, told)


def _event(
    process: int,
    track: int,
    name: str,
    kind: str,
    begun: float,
    ended: float,
    told: dict[str, Any],
) -> dict[str, Any]:
    """`begun` and `ended` are nanoseconds."""
    start = round(begun)
    times = {"ts": start / 1000, "dur": (round(ended) - start) / 1000}
    of = {"ph": "X", "pid": process, "tid": track, **times}
    return {"name": name, "cat": kind, **of, "args": told}
