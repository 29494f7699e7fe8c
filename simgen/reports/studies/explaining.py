"""What the metrics of a study are: each in one line, and what it is on each target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simgen.ground import metrics
from simgen.reports.studies.definition import Draws, Figure, Study
from simgen.targets import TARGETS

NOT_THERE = "not to be had"


@dataclass(frozen=True)
class Explained:
    """A metric: its unit, what it is, and what it is on each target, or NOT_THERE."""

    name: str
    unit: str
    title: str
    on: Mapping[str, str]


def explanations(study: Study, targets: Sequence[str]) -> list[Explained]:
    """Every metric that the study's figures show, as a formula of what each target counts."""
    counted = _counted(targets)
    return [_explained(name, targets, counted) for name in shown(study)]


def counts(study: Study, targets: Sequence[str]) -> list[Explained]:
    """What these formulas are made of, in each target's own words."""
    counted = _counted(targets)
    formulas = [text for each in explanations(study, targets) for text in each.on.values()]
    names = [n for text in formulas if text != NOT_THERE for n in metrics.terms(text)]
    return [
        Explained(
            name,
            metrics.unit(name),
            metrics.METRICS[name].title,
            {target: counted[target].get(name, NOT_THERE) for target in targets},
        )
        for name in dict.fromkeys(names)
    ]


def _counted(targets: Sequence[str]) -> dict[str, Mapping[str, str]]:
    return {target: TARGETS[target]().reader.counted() for target in targets}


def _explained(
    name: str, targets: Sequence[str], counted: Mapping[str, Mapping[str, str]]
) -> Explained:
    formulas = {t: metrics.expressed(name, counted[t]) or NOT_THERE for t in targets}
    said = metrics.METRICS[name]
    return Explained(name, said.unit, said.title, formulas)


def shown(study: Study) -> list[str]:
    """The metrics that a study's figures show."""
    return list(dict.fromkeys(name for each in study.figures for name in of_figure(each)))


def of_figure(figure: Figure) -> list[str]:
    """The metrics that a figure shows."""
    if figure.draws is not Draws.PARTS:
        return list(figure.metrics)
    return [name for group in metrics.parts(figure.part).values() for name in group]
