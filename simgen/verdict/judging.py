"""What `simgen diff` judges: results of a bundle with the reference and with each other."""

from __future__ import annotations

import itertools
import shlex
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from simgen.bundle import result_names, verdict_file
from simgen.bundle import writing as bundles
from simgen.bundle.finding import find_result
from simgen.bundle.planning import about
from simgen.errors import MismatchError, UsageError
from simgen.ground import html, tidy
from simgen.tensors import data_file
from simgen.verdict import diff, losses, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from simgen.bundle.planning import Told
    from simgen.bundle.results import Result
    from simgen.bundle.writing import Bundle
    from simgen.verdict.losses import StepLoss
    from simgen.verdict.verdict import Diff, Outcome

NO_OUTPUTS = "leaves only statistics, and no outputs to compare"
CHECKING, COMPARING = "checking data", "comparing steps"  # bytes, steps
TRAINING = "training in float64"  # steps


@dataclass(frozen=True)
class Judgement(tidy.Tidy):
    """All that was compared, and what it comes to. It is true when all of it is right.

    Attributes:
        bundle: the folder.
        planned_for: the machine that its kernels are planned for.
        results: the results that were compared.
        reports: each result against the reference, then the results against each other.
        silent: names of results that have no outputs to compare.
        words: the command line that says the same.
        losses: of each training step, where there are such.
        strict: whether a tensor that proves nothing is a failure.
    """

    bundle: Path
    planned_for: str
    results: tuple[Result, ...]
    reports: tuple[Diff, ...]
    silent: tuple[str, ...]
    words: tuple[str, ...]
    losses: tuple[StepLoss, ...]
    strict: bool

    @property
    def failure(self) -> str:
        """What is not right, in half a line; empty when all is."""
        return verdict.failure(self.reports) or (
            verdict.unproven(self.reports) if self.strict else ""
        )

    @property
    def summary(self) -> str:
        """What was compared, and what it comes to, in one line."""
        return verdict.summary(self.reports)

    @property
    def outcome(self) -> Outcome:
        """same, different, or proved nothing."""
        return verdict.together(report.outcome for report in self.reports)

    def __repr__(self) -> str:
        return f"<Judgement of {self.bundle}: {self.summary}>"

    def _repr_html_(self) -> str:
        rows = [
            (report.a, report.b, each.layer, each.direction, each.tensor, each.outcome)
            for report in self.reports
            for each in report.verdicts
        ]
        heads = ("result", "against", "layer", "pass", "tensor", "verdict")
        return f"{html.table(heads, rows)}<p>{escape(self.summary)}</p>"

    def columns(self) -> dict[str, list[Any]]:
        """A line for each tensor: result, against, layer, pass, tensor, verdict, errors."""
        lines = [
            {"result": report.a, "against": report.b, **each.line}
            for report in self.reports
            for each in report.verdicts
        ]
        return tidy.columns(dict.fromkeys(name for line in lines for name in line), lines)

    def __bool__(self) -> bool:
        return not self.failure

    def check(self) -> None:
        """Raise MismatchError unless all is right."""
        if bad := self.failure:
            raise MismatchError(f"{self.bundle}: {bad}; see more with: {shlex.join(self.words)} -v")

    def as_json(self) -> dict[str, Any]:
        """What `simgen diff --json` prints, but for the name of its schema."""
        told = {"bundle": str(self.bundle), "planned_for": self.planned_for}
        of_steps = {"losses": [each.as_json() for each in self.losses]} if self.losses else {}
        return {**told, **verdict.to_json(self.reports), **of_steps}


def judge(
    bundle: Bundle,
    a: str | None = None,
    b: str | None = None,
    *,
    strict: bool = False,
    tell: Told | None = None,
) -> Judgement:
    """Compare results of an opened bundle; without names, all of them.

    `a` and `b` are targets that have run, points of a sweep, results.h5 files, or `reference`. What
    is found of the bundle's own results is kept beside them, for reports.

    Raises:
        UsageError: a name is none, or there is nothing to compare.
        DamagedError: a file is not what was built, or what the run left.
    """
    found, pairs, silent = _chosen(bundle, a, b)
    bundles.verify_values(bundle, about(tell, CHECKING))
    inputs = data_file.load(bundle.path / bundles.DATA, bundle.workload)
    reports = diff.judge(bundle.workload, inputs, found, pairs, about(tell, COMPARING))
    for result, report in zip(found, reports, strict=False):  # pairs come behind these
        _keep(bundle, result, report)
    words = ("simgen", "diff", str(bundle.path), *(word for word in (a, b) if word))
    words += ("--strict",) if strict else ()
    return Judgement(
        bundle.path,
        bundle.workload.machine.label,
        tuple(found),
        reports,
        tuple(silent),
        words,
        losses.losses_of(bundle.workload, inputs, found, about(tell, TRAINING)),
        strict,
    )


def _chosen(
    bundle: Bundle, a: str | None, b: str | None
) -> tuple[list[Result], list[tuple[int, int]], list[str]]:
    """(the results to compare with the reference, those to compare with each other, by their
    places, the results without outputs to compare)."""
    if a is not None:
        chosen = [
            find_result(bundle, name)
            for name in (a, b or verdict.REFERENCE)
            if name != verdict.REFERENCE
        ]
        if not chosen:
            raise UsageError("diff: the reference equals itself; name a target or a results file")
        return chosen, [(0, 1)] if len(chosen) > 1 else [], []
    found = {name: find_result(bundle, name) for name in bundle.ran()}
    if not found:
        raise UsageError(
            f"{bundle.path}: nothing has run yet; run it with: "
            f"simgen run {shlex.quote(str(bundle.path))}"
        )
    silent = [name for name, result in found.items() if result.is_statistics_only]
    if len(silent) == len(found):
        fact = f"{' and '.join(silent)} {NO_OUTPUTS}"
        raise UsageError(f"{bundle.path}: {fact}; read them with simgen report")
    found = {name: result for name, result in found.items() if name not in silent}
    ran = {name: result.steps(bundle.workload) for name, result in found.items()}
    names = list(found)
    pairs = [(x, y) for x, y in _shown(names) if ran[names[x]] & ran[names[y]]]
    return list(found.values()), pairs, silent


def _shown(names: Sequence[str]) -> list[tuple[int, int]]:
    """The places of results that are compared with each other: the first ones of all targets, and
    in a sweep each point with the first result of its target."""
    targets = [result_names.target_of(name) for name in names]
    firsts = {target: targets.index(target) for target in dict.fromkeys(targets)}
    points = ((firsts[target], at) for at, target in enumerate(targets) if firsts[target] < at)
    return sorted({*points, *itertools.combinations(sorted(firsts.values()), 2)})


def _keep(bundle: Bundle, result: Result, report: Diff) -> None:
    """Leave what the reference says of a result of the bundle for reports."""
    if not result.seal:
        return
    steps: dict[str, list[Outcome]] = {}
    for each in report.verdicts:
        steps.setdefault(f"{each.layer} {each.direction}", []).append(each.outcome)
    outcomes = {step: str(verdict.together(found)) for step, found in steps.items()}
    verdict_file.save(bundle.path / bundles.RESULTS / result.name, result.seal, outcomes)
