"""What a comparison comes to, in one of three words, and in sentences for people and for scripts.

    same            within what rounding explains
    different       farther apart than that, or never written, written past its end, constant or
                    mostly zero where the reference is not
    proved nothing  right, but a dead kernel could have left it too: dropout of everything, alpha=0,
                    one class, a saturated gradient, nothing but infinities

A pair of results is different where one tensor is. It proved nothing where no tensor of it proved
something. So does all that was compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

import numpy as np

from simgen.verdict.compare import ULP_CLASSES, Comparison, proves_nothing, remarks

REFERENCE = "reference"


class Outcome(StrEnum):
    SAME = "same"
    DIFFERENT = "different"
    NOTHING = "proved nothing"


@dataclass(frozen=True)
class Verdict:
    """One tensor of one step, in A and in B."""

    layer: str
    direction: str
    tensor: str
    comparison: Comparison
    suspicions: tuple[str, ...]  # why it is wrong, whatever its errors say
    wrong: tuple[str, ...] = ()  # sides (A, B) that differ from the reference

    @property
    def outcome(self) -> Outcome:
        compared = self.comparison
        if self.wrong or self.suspicions or not (compared.passed or compared.is_other_order):
            return Outcome.DIFFERENT
        return (
            Outcome.NOTHING
            if compared.is_other_order or proves_nothing(self.comparison)
            else Outcome.SAME
        )

    @property
    def line(self) -> dict[str, Any]:
        """What a table has of it."""
        compared = self.comparison
        return {
            "layer": self.layer, "pass": self.direction, "tensor": self.tensor,
            "type": str(compared.dtype), "verdict": str(self.outcome),
            "elements": compared.elements, "outside_tolerance": compared.outside,
            "max_error": float(compared.max_error),
            "max_reference": float(compared.max_reference),
            "max_error_over_tolerance": float(compared.max_ratio),
        }  # fmt: skip

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong with it; it may prove nothing."""
        return self.outcome is not Outcome.DIFFERENT

    @property
    def exact(self) -> bool:
        """Whether every element had to have the same bits, but for the sign of a zero."""
        return self.comparison.exact == self.comparison.elements

    @property
    def place(self) -> str:
        return f"layer {self.layer}, {self.tensor}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is not the same, or what is to be known of it, in words."""
        compared, found = self.comparison, list(self.suspicions)
        if self.outcome is Outcome.NOTHING and compared.is_other_order:
            return (*found, _other_order(compared), *remarks(compared))
        if compared.outside:
            found.append(f"{compared.outside} of {compared.elements} elements are out of tolerance")
        elif not compared.passed:
            found.append(_beyond_rounding(compared))
        if self.wrong:
            verb = _verb(self.wrong, "is", "are")
            found.append(f"{_and(self.wrong)} {verb} not what the reference says")
        if self.outcome is Outcome.NOTHING:
            found.append(proves_nothing(compared))
        return (*found, *remarks(compared))


@dataclass(frozen=True)
class Diff:
    """A result and the reference, or two results."""

    a: str
    b: str
    verdicts: tuple[Verdict, ...]  # in the order of the workload's steps
    notes: tuple[str, ...] = ()  # what bounds allow for that is no rounding of a GPU

    @property
    def outcome(self) -> Outcome:
        return together(verdict.outcome for verdict in self.verdicts)

    @property
    def passed(self) -> bool:
        """Whether something was compared, and nothing is wrong with it."""
        return bool(self.verdicts) and self.outcome is not Outcome.DIFFERENT

    @property
    def first_diverging(self) -> Verdict | None:
        return next((verdict for verdict in self.verdicts if not verdict.passed), None)

    @property
    def failure(self) -> str:
        """Why the pair does not pass, in half a line; empty where it does."""
        first = self.first_diverging
        if first is None:
            return "" if self.verdicts else f"{self.a} and {self.b} have no tensor to compare"
        if first.comparison.passed and first.wrong:
            return f"{self.a} and {self.b} are alike and wrong in {first.place}"
        if first.comparison.passed:
            return f"{first.place}, is wrong: {first.suspicions[0]}"
        why = "" if first.comparison.outside else f": {_beyond_rounding(first.comparison)}"
        return f"{self.a} and {self.b} differ first in {first.place}{why}"


def beyond_rounding(compared: Comparison) -> float | None:
    """The errors of the whole tensor over what rounding explains; None where that is not known."""
    figures = [each for each in (compared.statistic, compared.peak) if each is not None]
    return max(figures, default=None)


def _beyond_rounding(compared: Comparison) -> str:
    root, peak = compared.statistic or 0.0, compared.peak or 0.0
    if root >= peak:
        fact = f"the errors of the whole tensor are {root:.3g} times"
    else:
        fact = f"its largest error is {peak:.3g} times"
    return f"within its bound, but {fact} what rounding explains"


def _other_order(compared: Comparison) -> str:
    return (
        f"outside the bound of the reference's own order, by {compared.max_ratio:.2g} tolerances "
        "and a few units in the last place: write the reference in the kernel's order, or give "
        "`tolerance`"
    )


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """Outcome of several comparisons: different if one is; the same if one proved something."""
    found = set(outcomes)
    for each in (Outcome.DIFFERENT, Outcome.SAME):
        if each in found:
            return each
    return Outcome.NOTHING


def summary(reports: Sequence[Diff]) -> str:
    """One line on all pairs of one comparison: how many tensors of results were judged, and how."""
    judged = [report for report in reports if report.b == REFERENCE]
    tensors = [verdict for report in judged for verdict in report.verdicts]
    bad = [verdict for verdict in tensors if not verdict.passed]
    said = []
    if bad:
        said.append(f"{len(bad)} {_verb(bad, 'differs', 'differ')}, first in {bad[0].place}")
    else:
        between = [v for report in reports for v in report.verdicts if not v.passed]
        if between:
            first = next(report for report in reports if not report.passed)
            said.append(f"right by the reference, but {first.failure}")
    nothing = [verdict for verdict in tensors if verdict.outcome is Outcome.NOTHING]
    if nothing and len(nothing) == len(tensors):
        said.append("all right, but none proves anything")
    elif nothing:
        said += [] if said else [f"{len(tensors) - len(nothing)} right"]
        said.append(f"{len(nothing)} {_verb(nothing, 'proves', 'prove')} nothing")
    counted = f"{_count(judged, 'result')}, {_count(tensors, 'tensor')}"
    return f"{counted}: {(', ' if nothing and not bad else '; ').join(said) or 'all right'}"


def unproven(reports: Iterable[Diff]) -> str:
    """The first tensor that proved nothing, and why, in half a line; empty if there is none."""
    for report in reports:
        for verdict in report.verdicts:
            if verdict.outcome is Outcome.NOTHING:
                return f"{verdict.place}, proved nothing: {verdict.reasons[0]}"
    return ""


def failure(reports: Iterable[Diff]) -> str:
    """Why not all pairs pass, in half a line, with all results that are wrong; empty if all do."""
    bad = [report for report in reports if not report.passed]
    if not bad:
        return ""
    others = [report.a for report in bad[1:] if report.b == REFERENCE]
    more = f"; {_and(others)} {_verb(others, 'differs', 'differ')} from it too" if others else ""
    return bad[0].failure + more


def to_json(reports: Sequence[Diff]) -> dict[str, Any]:
    """What `simgen diff --json` prints, but for the bundle's name."""
    return {
        "verdict": str(together(report.outcome for report in reports)),
        "summary": summary(reports),
        "pairs": [_pair_json(report) for report in reports],
    }


def ulp_classes() -> list[str]:
    """Names of the classes of the ULP histogram, in order."""
    names = ["0", "1", "2"]
    names += [f"{low + 1}..{high}" for low, high in pairwise(ULP_CLASSES[2:-1])]
    return [*names, f"> {ULP_CLASSES[-2]}", "NaN or inf"]


def _pair_json(report: Diff) -> dict[str, Any]:
    return {
        "a": report.a,
        "b": report.b,
        "verdict": str(report.outcome),
        "notes": list(report.notes),
        "first_diverging_layer": v.layer if (v := report.first_diverging) else None,
        "tensors": [_verdict_json(verdict) for verdict in report.verdicts],
    }


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    c = verdict.comparison
    return {
        "layer": verdict.layer,
        "pass": verdict.direction,
        "tensor": verdict.tensor,
        "type": str(c.dtype),
        "verdict": str(verdict.outcome),
        "reasons": list(verdict.reasons),
        "elements": c.elements,
        "outside_tolerance": c.outside,
        "without_tolerance": c.exact,
        "max_error": _finite(c.max_error),
        "max_reference": c.max_reference,
        "max_error_over_tolerance": _finite(c.max_ratio),
        "statistic": None if c.statistic is None else _finite(c.statistic),
        "peak": None if c.peak is None else _finite(c.peak),
        "max_ulps": c.max_ulps,
        "ulps": dict(zip(ulp_classes(), c.ulps)),
        "nan_or_inf_on_one_side": c.special,
        "overflowed": c.overflowed,
        "nan_on_both_sides": c.nans,
        "distrusted": list(verdict.suspicions),
        "wrong_by_reference": list(verdict.wrong),
        "worst": [
            {"index": list(p.index), "a": _finite(p.a), "b": _finite(p.b),
             "error": _finite(p.error), "tolerance": _finite(p.bound)}
            for p in c.worst
        ],
    }  # fmt: skip


def _finite(value: float) -> float | str:
    """JSON has no infinity and no NaN."""
    return value if np.isfinite(value) else str(value)


def _count(found: Sequence[object], what: str) -> str:
    return f"{len(found)} {what}{'' if len(found) == 1 else 's'}"


def _verb(found: Sequence[object], one: str, more: str) -> str:
    return one if len(found) == 1 else more


def _and(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1]) if len(names) > 1 else names)
