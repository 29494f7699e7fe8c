"""Sentences of a publication beside what was measured: each holds, does not, or cannot be said."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.reports.studies.definition import OF_PLAN, Read, Sentence, Study

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.reports.studies.drawn import Drawn
    from simgen.reports.studies.measuring import Scope

HOLDS, NOT, UNSAID = "holds", "does not", "cannot be said"
HEAD = ("statement", "read in its", "target", "is", "value", "stated", "read from")
FACTORS = {"about": 1.5, "~": 2.0}  # factors by which values of these relations may differ
SAME = 0.01  # part of a value by which an equal one may differ
PLAN = "plan"


@dataclass(frozen=True)
class Judged:
    """A sentence on a target."""

    statement: Sentence
    target: str
    verdict: str
    value: float | None
    why: str  # where it was read, or why there is no value

    @property
    def cells(self) -> tuple[str, ...]:
        """By HEAD."""
        of = self.statement
        value = "" if self.value is None else f"{self.value:.4g}"
        factor = FACTORS.get(of.relation)
        how = f"within a factor of {factor:g} of" if factor else of.relation
        bound = "" if of.over is None else f"{how} {of.bound:g}"
        return (of.text, of.place, self.target, self.verdict, value, bound, self.why)


def judge(study: Study, drawn: Sequence[Drawn], scope: Scope) -> list[Judged]:
    """Every sentence of the study on every target, in its order."""
    return [
        _judged(each, drawn, target, scope)
        for each in study.statements
        for target in ([PLAN] if _of_plan(each, drawn) else scope.targets)
    ]


def _of_plan(each: Sentence, drawn: Sequence[Drawn]) -> bool:
    """Whether it is read from a figure that needs no run."""
    return each.over is not None and _figure(drawn, each.over.figure).figure.draws in OF_PLAN


def _judged(of: Sentence, drawn: Sequence[Drawn], target: str, scope: Scope) -> Judged:
    if of.over is None:
        return Judged(of, target, UNSAID, None, of.unsaid)
    reads = [of.over, *([of.under] if of.under else [])]
    numbers = [_number(read, drawn, target, max(scope.batches)) for read in reads]
    if None in numbers or (of.under and not numbers[-1]):
        lacks = next((r for r, n in zip(reads, numbers, strict=True) if not n), reads[-1])
        notes = [note for note in _figure(drawn, lacks.figure).notes if target in note]
        what = lacks.quantity.replace("_", " ")
        why = "; ".join(notes) or f"{lacks.figure} has no {what} of it on machine {lacks.machine}"
        return Judged(of, target, UNSAID, None, why)
    if target == PLAN and scope.reduced:
        return Judged(of, target, UNSAID, None, "layers are made smaller; leave --reduced out")
    over, *under = (number for number in numbers if number is not None)
    value = (over / under[0] if under else over) - of.minus
    figures = ", ".join(dict.fromkeys(read.figure for read in reads))
    return Judged(of, target, HOLDS if _holds(of, value) else NOT, value, figures)


def _holds(of: Sentence, value: float) -> bool:
    match of.relation:
        case ">":
            return value > of.bound
        case "<":
            return value < of.bound
        case "=":
            return abs(value - of.bound) <= SAME * of.bound
    return of.bound / FACTORS[of.relation] <= value <= FACTORS[of.relation] * of.bound


def _figure(drawn: Sequence[Drawn], name: str) -> Drawn:
    return next(each for each in drawn if each.figure.name == name)


def _number(read: Read, drawn: Sequence[Drawn], target: str, batch: int) -> float | None:
    """What a figure says; None where it does not."""
    found = [
        float(str(value))
        for of, machine, _, n, place, quantity, _, value in _figure(drawn, read.figure).lines
        if of == target
        and machine in ("", read.machine)
        and n == batch
        and quantity == read.quantity
        and re.search(read.places, str(place))
    ]
    if not found:
        return None
    match read.how:
        case "mean":
            return sum(found) / len(found)
        case "most":
            return max(found)
        case "least":
            return min(found)
    return sum(found)
