"""AI operations per second: what a machine does of the arithmetic that deep learning asks for.

    score of a result = operations / seconds
        operations  that the algorithms of all its layers need: floating-point operations and
                    special functions as `simgen show` counts them; a copy has none
        seconds     of all its launches, one after the other, copies among them
    score of a machine = the geometric mean of the scores of its results, one for each workload

So a machine that is fast in products alone loses by what lies between them. A synthetic network
(`simgen synthesise`) has the mix of the workloads that it was made from, and its score is that of
the mix. Analytical counts in place of counted instructions are those of AIPerf (Z. Ren et al.,
"AIPerf: Automated machine learning as an AI-HPC benchmark", 2021); the mean is that of SPEC.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, fsum, log
from typing import TYPE_CHECKING

from simgen.bundle.verdict_file import RIGHT, WRONG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simgen.reports.pages.row import Row


@dataclass(frozen=True)
class Score:
    """Score of one result."""

    bundle: str
    target: str
    operations: int
    seconds: float
    doubt: str  # what a reader must know before believing it; empty: nothing

    @property
    def rate(self) -> float | None:
        """AI operations per second; None where operations are not known, or the result is wrong."""
        known = self.operations and WRONG not in self.doubt.split(", ")
        return self.operations / self.seconds if known else None


def scores(rows: Iterable[Row]) -> list[Score]:
    """Scores of results that have times for all of their steps, in the order of the rows."""
    results: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        results.setdefault((row.bundle, row.result), []).append(row)
    found = []
    for (bundle, target), own in results.items():
        seconds = [row.metrics.get("seconds") for row in own]
        if all(seconds) and len(own) >= own[0].steps:  # not a run of some layers
            operations = sum(row.operations for row in own)
            verdicts = dict.fromkeys(row.verdict for row in own if row.verdict != RIGHT)
            found.append(
                Score(
                    bundle, target, operations, fsum(s for s in seconds if s), ", ".join(verdicts)
                )
            )
    return found


def of_machines(found: Iterable[Score]) -> dict[str, float]:
    """Target -> the geometric mean of the scores of its results."""
    rates: dict[str, list[float]] = {}
    for each in found:
        if each.rate is not None:
            rates.setdefault(each.target, []).append(each.rate)
    return {target: exp(fsum(map(log, own)) / len(own)) for target, own in rates.items()}
