"""What `simgen show --cost` prints: what simulating a workload will take."""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.ask.run import RunChoices
from simgen.cli import present
from simgen.cli.following import duration
from simgen.cli.options import reproduce
from simgen.errors import SimgenError, UsageError, one_line, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.bundle.planning import Plan
    from simgen.ground.ir import Workload
    from simgen.running.budget import Chosen
    from simgen.running.estimates import Cost, Estimate
    from simgen.targets import Target

UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(text: str) -> float:
    """ "10m" -> 600.0."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|min|h|d)", text, re.ASCII)
    if found is None or not float(found[1]):
        raise UsageError(f"--budget {printable(text)}: not a time; write it like 10m, 90s or 2h")
    return float(found[1]) * UNITS[found[2]]


def show(
    plan: Plan,
    targets: Sequence[Target],
    given: dict[str, Any],
    budget: str | None,
    *,
    again: bool,
    as_json: bool,
) -> dict[str, Any]:
    """Print the costs on each target that has some, or return them for JSON."""
    from simgen.running import estimates

    limit = None if budget is None else seconds_of(budget)
    known = [target for target in targets if target.name in estimates.table()]
    if not known:
        names = " and ".join(target.name for target in targets)
        raise UsageError(
            f"--cost: no costs are known for {names}; add --target "
            f"{' or --target '.join(estimates.table())}"
        )
    return {
        target.name: _of_target(plan, target, given, limit, again=again, as_json=as_json)
        for target in known
    }


def _of_target(
    plan: Plan,
    target: Target,
    given: dict[str, Any],
    limit: float | None,
    *,
    again: bool,
    as_json: bool,
) -> dict[str, Any]:
    from simgen.running import budget, estimates, probe

    found = probe.probe_of(target, again=again)
    if isinstance(found, SimgenError):
        print(
            f"note: {target.name}: not measured here ({one_line(str(found))}); times are those of "
            "the machine that costs were fitted on",
            file=sys.stderr,
        )
        factor = 1.0
    else:
        factor = found.factor
    cost = estimates.estimate(plan.workload, target, factor)
    cpus = len(os.sched_getaffinity(0))
    if not as_json:
        _table(plan, target, cost)
        _total(plan, target, cost, cpus)
    if limit is None:
        return _as_json(plan, cost, factor, cpus)
    chosen = budget.choose(plan, target, factor, limit)
    build, run = _commands(plan, target, chosen, given)
    if not as_json:
        for line in chosen.untaken:
            print(f"not taken: {line}")
        for line in chosen.given_up:
            print(f"given up: {line}")
        print(f"build: {build}")
        print(f"run, about {duration(chosen.seconds)}: {run}")
    told = {
        "given_up": list(chosen.given_up),
        "not_taken": list(chosen.untaken),
        "host_seconds": chosen.seconds,
        "build": build,
        "run": run,
    }
    return {**_as_json(plan, cost, factor, cpus), "budget": told}


def _total(plan: Plan, target: Target, cost: Estimate, cpus: int) -> None:
    whole = cost.whole
    print(
        f"{target.name}: {present.count(whole.instructions)} instructions of wavefronts, "
        f"{present.seconds(whole.seconds)} simulated, {duration(whole.host)} of this machine, "
        f"{present.size(cost.memory)} of its memory"
    )
    told = ""
    for each in _by_pieces(plan.workload, cost, cpus):
        if each.alone:
            continue
        jobs = each.jobs if each.jobs > 1 else None
        how = shlex.join(RunChoices(representatives=True, jobs=jobs).words())
        launches = "" if each.told == told else f": {each.told}"
        print(f"with {how} {duration(each.seconds)}{launches}")
        told = each.told


@dataclass(frozen=True)
class _ByPieces:
    """A run of representatives.

    Attributes:
        jobs: processes at a time.
        seconds: that it takes.
        alone: it is a run of all launches in one process.
        told: which launches run, in words, and how long those that do not count.
    """

    jobs: int
    seconds: float
    alone: bool
    told: str


def _by_pieces(workload: Workload, cost: Estimate, cpus: int) -> list[_ByPieces]:
    """Alone and on all processors; none where it would be refused."""
    from simgen.running import pieces

    found = []
    for jobs in dict.fromkeys((1, cpus)):
        try:
            survey, cuts = pieces.plan(workload, RunChoices(representatives=True, jobs=jobs))
        except UsageError:
            return []
        warm = sum(cost.of(workload, at).host for piece in cuts for at in piece.warm)
        told = pieces.counts(workload, survey.steps, len(survey.inferred), cuts)
        told += f"; {duration(warm)} of a process are uncounted" if warm else ""
        alone = len(cuts) == 1 and not survey.inferred
        found.append(_ByPieces(jobs, cost.by_pieces(workload, cuts, jobs), alone, told))
    return found


def _commands(plan: Plan, target: Target, chosen: Chosen, given: dict[str, Any]) -> tuple[str, str]:
    """The command lines that build and run what was chosen."""
    output = given["output"] or plan.problem.name
    own = tuple(f"{key}={value}" for key, value in chosen.settings)
    changed: dict[str, Any] = {
        "targets": (target.name,),
        "set": (*given["set"], *own),
        "scale_to": chosen.scale_to or given["scale_to"],
        "output": output if own or chosen.scale_to else given["output"],
    }
    run = ["simgen", "run", str(output), *chosen.run.words()]
    return reproduce(given, **changed), shlex.join(run)


def _table(plan: Plan, target: Target, cost: Estimate) -> None:
    rows = []
    for at, step in enumerate(plan.workload.steps):
        own = cost.of(plan.workload, at)
        figures = (present.count(own.instructions), present.seconds(own.seconds))
        rows.append((step.layer, step.direction, *figures, duration(own.host)))
    heads = ("layer", "pass", "instructions", "simulated", f"{target.name} takes")
    present.table("foretold", heads, rows)


def _as_json(plan: Plan, cost: Estimate, factor: float, cpus: int) -> dict[str, Any]:
    workload = plan.workload
    return {
        "factor": factor,
        "memory_bytes": cost.memory,
        "total": _figures(cost.whole),
        "representatives_host_seconds": {
            str(each.jobs): each.seconds for each in _by_pieces(workload, cost, cpus)
        },
        "steps": [
            {"layer": step.layer, "pass": str(step.direction), **_figures(cost.of(workload, at))}
            for at, step in enumerate(workload.steps)
        ],
    }


def _figures(cost: Cost) -> dict[str, float]:
    return {
        "instructions": cost.instructions,
        "seconds": cost.seconds,
        "host_seconds": cost.host,
    }
