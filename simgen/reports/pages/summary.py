"""What a report says first: of each run its verdict, its time, and the steps that took most of it;
of a baseline, how much faster the others are, and what is different about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.bundle import result_names, verdict_file
from simgen.errors import UsageError, did_you_mean
from simgen.ground.ir import CONTRACTS
from simgen.ground.metrics import seconds
from simgen.reports.pages import figures, limits
from simgen.reports.pages.correlation import HOST
from simgen.reports.pages.series import Grouped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.bundle.results import Result
    from simgen.reports.pages.figures import Plot
    from simgen.reports.pages.row import Row

TOP = 10  # steps that are named
FEW = 3  # names in a sentence
TIME = "seconds"
# Settings of the machine that say nothing about what was simulated.
OF_COMPUTER = ("system", "processor", "cpus")
SPEED_UP_COLUMNS = (
    "bundle", "target", "layer", "pass", "baseline_seconds", "seconds", "speed_up",
)  # fmt: skip


@dataclass(frozen=True)
class RunFacts:
    """What is to be said of a run: (name, value) each, and the commands that do it again."""

    bundle: str
    target: str
    facts: tuple[tuple[str, str], ...]
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class TopStep:
    """A layer and pass that takes much of a run's time."""

    step: str
    kind: str
    seconds: str
    share: float
    limit: str


@dataclass(frozen=True)
class RunSummary:
    """A run in a few lines."""

    bundle: str
    target: str
    verdict: str
    mood: str  # good, bad, or open: nobody looked
    seconds: str  # empty: it counted no time
    top: tuple[TopStep, ...]
    rest: str  # what the other steps take
    told: RunFacts | None


@dataclass(frozen=True)
class SpeedUp:
    """A step of a run beside that of the baseline."""

    bundle: str
    target: str
    layer: str
    direction: str
    before: float
    now: float

    @property
    def cells(self) -> tuple[object, ...]:
        """Cells in the order of SPEED_UP_COLUMNS."""
        place = (self.bundle, self.target, self.layer, self.direction)
        return (*place, f"{self.before:.9g}", f"{self.now:.9g}", f"{self.before / self.now:.9g}")


@dataclass(frozen=True)
class ComparedRun:
    """A run beside the baseline: in all, and what was different about it."""

    bundle: str
    target: str
    speed_up: str
    seconds: str
    changes: tuple[tuple[str, str, str], ...]  # what, of the baseline, of this run


@dataclass(frozen=True)
class Against:
    """All runs beside the baseline."""

    name: str
    seconds: str
    compared: tuple[ComparedRun, ...]
    passed_over: tuple[str, ...]  # a line for each run that could not be compared
    lines: tuple[SpeedUp, ...]
    figure: Plot


def run_facts(
    bundle: str, result: Result, ended: str, commands: Sequence[str], contract: str = ""
) -> RunFacts:
    """The facts of a result's provenance, in an order in which they are read; `contract` is that of
    a user's source."""
    of = result.provenance
    machine: Mapping[str, Any] = of.get("machine", {})
    shown = {k: v for k, v in machine.items() if k not in OF_COMPUTER and v not in ("", None)}
    built = of.get("simgen", "")
    facts = [
        ("machine", _words(shown)),
        ("planned for", str(of.get("planned_for", ""))),
        ("built with", _words(of.get("settings", {}))),
        ("multiply-adds", CONTRACTS.get(contract, "")),
        ("options", _words(of.get("options", {}))),
        ("simgen", f"{built}, {of.get('compiler', '')}"),
        ("run by", f"simgen {ran}" if (ran := of.get("ran_by", built)) != built else ""),
        ("ran on", ", ".join(str(machine[k]) for k in OF_COMPUTER if k in machine)),
        ("ended", ended),
    ]
    kept = tuple((name, value) for name, value in facts if value.strip(", "))
    return RunFacts(bundle, result.name, kept, tuple(commands))


def sentences(found: Sequence[Row]) -> list[str]:
    """Three sentences: what ran on which machine; how long it took, and whether it is right; what
    limits it."""
    runs: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        runs.setdefault((row.bundle, row.result), []).append(row)
    workloads = " and ".join(_few({row.workload: None for row in found}))
    targets = " and ".join(_few({result_names.target_of(row.result): None for row in found}))
    planned = " and ".join(_few({row.planned_for: None for row in found}))
    varied = {name: each for name, each in settings(found).items() if len(each) > 1}
    ranges = "".join(f", {name} from {each[0]} to {each[-1]}" for name, each in varied.items())
    count = f"{len(runs)} results of {workloads}" if len(runs) > 1 else workloads
    said = [f"{count} ran on {targets}, planned for {planned}{ranges}."]
    totals = {place: sum(r.metrics.get(TIME, 0.0) for r in rows) for place, rows in runs.items()}
    timed = {place: total for place, total in totals.items() if total}
    gpus = {place: t for place, t in timed.items() if result_names.target_of(place[1]) != HOST}
    timed = gpus or timed  # times of this computer's CPU are not those of a GPU
    verdict = verdict_file.counted([row.verdict for row in found])
    checked = f"layers and passes: {verdict}" if len(found) > 1 else f"verdict: {verdict}"
    if not timed:
        return [*said, f"No time was counted; {checked}."]
    fastest = min(timed, key=lambda place: timed[place])
    rows = runs[fastest]
    slowest = max(rows, key=lambda row: row.metrics.get(TIME, 0.0))
    share = slowest.metrics.get(TIME, 0.0) / timed[fastest]
    most = f"{slowest.step} took most of it ({share:.0%})" if len(rows) > 1 else ""
    if len(timed) > 1:
        last = max(timed, key=lambda place: timed[place])
        ends = [f"{seconds(timed[at])} ({_point(runs[at][0], varied)})" for at in (fastest, last)]
        facts = f"Times are from {' to '.join(ends)}"
    else:
        facts = f"It took {seconds(timed[fastest])}" + (f", and {most}" if most else "")
    said.append(f"{facts}; {checked}.")
    if parts := limits.shares(rows):
        listed = [f"{name} limits {part:.0%}" for name, part in parts.items()]
        which = "its time" if len(timed) == 1 else "the time of the fastest"
        said.append(f"{' and '.join(listed)} of {which}.".capitalize())
    return said


def _few(names: Mapping[str, object]) -> list[str]:
    kept = [*names][:FEW]
    return [*kept, f"{len(names) - FEW} more"] if len(names) > FEW else kept


def settings(found: Sequence[Row]) -> dict[str, list[str]]:
    """The settings of these rows by name, with their values; numbers by size."""
    values: dict[str, dict[str, None]] = {}
    for row in found:
        for name, value in row.settings.items():
            values.setdefault(name, {})[value] = None
    return {
        name: sorted(given, key=lambda value: result_names.magnitude(value) or 0.0)
        for name, given in values.items()
    }


def _point(row: Row, varied: Mapping[str, object]) -> str:
    """A result's name, shortly: what was given."""
    given = {name: value for name, value in row.settings.items() if name in varied}
    return ", ".join(f"{name}={value}" for name, value in given.items()) or row.result


def run_summaries(found: Sequence[Row], told: Sequence[RunFacts]) -> list[RunSummary]:
    """A summary of each run, in the order of the rows."""
    said = {(each.bundle, each.target): each for each in told}
    runs: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        runs.setdefault((row.bundle, row.result), []).append(row)
    return [_of_run(rows, said.get(place)) for place, rows in runs.items()]


def _of_run(rows: Sequence[Row], told: RunFacts | None) -> RunSummary:
    times = {row.step: row.metrics.get(TIME, 0.0) for row in rows}
    total = sum(times.values())
    ranked = sorted(rows, key=lambda row: -times[row.step])[:TOP] if total else []
    top = tuple(
        TopStep(
            row.step,
            row.kind,
            seconds(times[row.step]),
            times[row.step] / total,
            str(limits.limit_of(row) or ""),
        )
        for row in ranked
    )
    left = total - sum(times[row.step] for row in ranked)
    rest = f"{len(rows) - len(top)} others {left / total:.1%}" if top and len(rows) > TOP else ""
    outcomes = {row.verdict for row in rows}
    verdict = verdict_file.counted([row.verdict for row in rows])
    if len(outcomes) == 1 and verdict_file.RIGHT not in outcomes:
        verdict = rows[0].verdict
    mood = "good" if outcomes == {verdict_file.RIGHT} else "open"
    if any(row.verdict == verdict_file.WRONG for row in rows):
        mood = "bad"
    first = rows[0]
    shown = seconds(total) if total else ""
    return RunSummary(first.bundle, first.result, verdict, mood, shown, top, rest, told)


def against(found: Sequence[Row], told: Sequence[RunFacts], bundle: str, target: str) -> Against:
    """All other runs of the same workload beside one of them; runs of some layers are passed over.

    Raises:
        UsageError: it counted no time, or nothing else did that has its layers.
    """
    runs: dict[tuple[str, str], dict[str, Row]] = {}
    for row in found:
        runs.setdefault((row.bundle, row.result), {})[row.step] = row
    alone = sum(place[1] == target for place in runs) == 1
    called = target if alone else f"{bundle}:{target}"
    base = {step: row for step, row in runs[bundle, target].items() if row.metrics.get(TIME)}
    if not base:
        raise UsageError(f"--baseline {called}: it counted no time; name a result that did")
    said = {(each.bundle, each.target): each for each in told}
    lines, compared, passed, series = [], [], [], {}
    for place, rows in runs.items():
        timed = {step: row for step, row in rows.items() if row.metrics.get(TIME)}
        if place == (bundle, target):
            continue
        if (result_names.target_of(target) == HOST) != (result_names.target_of(place[1]) == HOST):
            fact = "the times of this computer's CPU are not those of a GPU"
            passed.append(f"not compared with {called}: {place[0]} on {place[1]}, as {fact}")
            continue
        if timed.keys() < base.keys():
            few = f"it has times of {len(timed)} of {len(base)} layers and passes"
            fact = few if timed else "it counted no time"
            passed.append(f"not compared with {called}: {place[0]} on {place[1]}, as {fact}")
            continue
        if timed.keys() != base.keys():
            other = sorted(timed.keys() ^ base.keys())[0]
            raise UsageError(
                f"--baseline {called}: {place[0]} on {place[1]} has other layers ({other}); "
                "compare results of one workload"
            )
        speeds = [_speed_up(row, base[step]) for step, row in timed.items()]
        lines += speeds
        before, now = sum(each.before for each in speeds), sum(each.now for each in speeds)
        name = place[1] if place[0] == bundle else f"{place[0]}, {place[1]}"
        series[name] = [each.before / each.now for each in speeds]
        changes = _changed_facts(said.get((bundle, target)), said.get(place))
        compared.append(ComparedRun(*place, f"{before / now:.3g}", seconds(now), changes))
    if not compared:
        raise UsageError(
            f"--baseline {called}: no other result can be compared with it, by time of all its "
            "layers; run the bundle on another simulator or GPU, or a sweep"
        )
    figure = figures.Plot(Grouped(list(base), series, f"speed-up over {called}"))
    total = sum(row.metrics[TIME] for row in base.values())
    name = f"{bundle} on {target}"
    return Against(name, seconds(total), tuple(compared), tuple(passed), tuple(lines), figure)


def baseline(word: str, names: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The bundle and the result that `word` names: TARGET, or BUNDLE:TARGET.

    Raises:
        UsageError: there is none, or there are several.
    """
    found = [place for place in names if word in (place[1], ":".join(place))]
    if len(found) == 1:
        return found[0]
    known = list(dict.fromkeys([*(place[1] for place in names), *map(":".join, names)]))
    fact = "several bundles have it" if found else "no such result"
    cure = f"write {':'.join(found[0])}" if found else did_you_mean(word, known)
    raise UsageError(f"--baseline {word}: {fact}; {cure}")


def _speed_up(row: Row, base: Row) -> SpeedUp:
    times = (base.metrics[TIME], row.metrics[TIME])
    return SpeedUp(row.bundle, row.result, row.layer, row.pass_, *times)


def _changed_facts(base: RunFacts | None, now: RunFacts | None) -> tuple[tuple[str, str, str], ...]:
    """The facts that differ, but when it ended."""
    if base is None or now is None:
        return ()
    before, after = dict(base.facts), dict(now.facts)
    found = []
    for name in dict.fromkeys((*before, *after)):
        old, new = _different(before.get(name, ""), after.get(name, ""))
        if name != "ended" and old != new:
            found.append((name, old, new))
    return tuple(found)


def _different(old: str, new: str) -> tuple[str, str]:
    """Settings in a row "a=1, b=2" that the other row does not have."""
    sides = [text.split(", ") if text else [] for text in (old, new)]
    if not all("=" in part for side in sides for part in side):
        return old, new
    left, right = (
        ", ".join(part for part in side if part not in other)
        for side, other in (sides, sides[::-1])
    )
    return left, right


def _words(settings: Mapping[str, Any]) -> str:
    """Settings as options have them."""
    shown = {k: ("no", "yes")[v] if type(v) is bool else v for k, v in settings.items()}
    return ", ".join(f"{name}={value}" for name, value in shown.items())
