"""Bundles beside a bundle, `BUNDLE@n=4`: its workload and targets with other settings of a build.

A sweep over settings of `simgen build` runs in them. They are planned for the machine that the
bundle is planned for, so that its points differ in what is swept alone; where it is the machine
that is swept, or a setting of the target, such as `arch`, each is planned for its own.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from simgen.ask.build import BuildChoices
from simgen.ask.run import RunCommand
from simgen.bundle import finding, recipe, result_names
from simgen.bundle.planned_machine import PlannedMachine, with_matrix
from simgen.bundle.planning import Plan, setting_of
from simgen.bundle.writing import Bundle, Cures
from simgen.errors import UsageError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.bundle.planning import Told
    from simgen.bundle.recipe import Recipe
    from simgen.running.sweep_points import SweepPoint
    from simgen.targets import Target


ASK = BuildChoices
SWEPT = {
    each.name: each
    for each in (
        ASK.algo, ASK.type, ASK.rate, ASK.fuse, ASK.reuse_memory, ASK.plan_for, ASK.matrix,
        ASK.layout, ASK.queues, ASK.seed,
    )
}  # fmt: skip
WORD = re.compile(r"[A-Za-z0-9._+-]{1,60}", re.ASCII)  # may stand in the name of a folder
CURES = Cures("sweep a copy of the bundle in another folder", RunCommand.again)


@dataclass(frozen=True)
class Sibling:
    """A bundle that is planned, and may be there already."""

    path: Path
    plan: Plan
    targets: tuple[Target, ...]

    def build(self, *, again: bool, tell: Told | None) -> None:
        """Make it, or what is missing of it; with `again`, results that are no longer valid go.

        Raises:
            UsageError, RefusedError, MissingError: as `simgen.bundle.planning.Plan.write`.
        """
        self.plan.make(self.path, self.targets, replace_results=again, cures=CURES, tell=tell)


class Family:
    """A bundle that siblings can be made of, for runs on one of its targets."""

    def __init__(self, bundle: Bundle, target: Target) -> None:
        """
        Raises:
            UsageError, DamagedError: it cannot be planned again.
        """
        self.bundle, self.target = bundle, target
        self.recipe: Recipe = recipe.of_bundle(bundle)
        machine = PlannedMachine(bundle.workload.machine, f"{bundle.path} is planned for it")
        self.planned_for = machine
        self.own = {each.name: each for each in fields(target)}  # settings of the target
        self.keys = Plan(self.recipe, self.recipe.choices, planned_for=machine).settable

    def settings(self) -> list[str]:
        """What can be swept."""
        return list(dict.fromkeys((*SWEPT, *self.own, *self.keys)))

    def sibling(self, given: Mapping[str, str]) -> Sibling:
        """The one with these values.

        Raises:
            UsageError: one is no value of its setting, or they do not go together.
        """
        for setting, text in given.items():
            if not WORD.fullmatch(text):
                raise UsageError(
                    f"{RunCommand.grid} {setting}={printable(text)}: not a value that the name "
                    "of a folder can have; use letters, digits and ._+- only"
                )
        here = self.bundle.path
        here = here if here.name not in ("", "..") else here.resolve()
        name = here.name
        before = result_names.options_of(name)  # the bundle may be a sibling itself
        home = result_names.target_of(name) if before else name
        path = here.with_name(result_names.of_point(home, {**before, **given}))
        try:
            return Sibling(path, *self._planned(given))
        except UsageError as error:
            raise UsageError(f"{RunCommand.grid} {path.name}: {error}") from None

    def _planned(self, given: Mapping[str, str]) -> tuple[Plan, tuple[Target, ...]]:
        chosen_anew: dict[str, Any] = {}
        own, settings = asdict(self.target), dict(self.recipe.choices.set)
        for name, text in given.items():
            if name in SWEPT:
                chosen_anew[name] = text
            elif name in self.own:
                own[name] = setting_of(self.own[name], text)
            else:
                settings = {**settings, name: text}
        choices = replace(self.recipe.choices, set=settings, **chosen_anew)
        chosen = type(self.target)(**own)
        moved = choices.plan_for != self.recipe.choices.plan_for or chosen != self.target
        planned_for = None if moved else with_matrix(self.planned_for, choices.matrix)
        plan = Plan(self.recipe, choices, (chosen,), planned_for)
        _ = plan.workload  # what cannot be lowered is said before anything is built
        others = {name: finding.target_of(self.bundle, name) for name in self.bundle.targets}
        return plan, tuple({**others, chosen.name: chosen}.values())


def workload_of(bundle: Bundle, point: SweepPoint) -> dict[str, str]:
    """The settings of a point that make its workload another one: keys of the config, with their
    values. What is left says how the same work is done."""
    own = {each.name for each in fields(finding.target_of(bundle, point.target))}
    return {name: text for name, text in point.built.items() if name not in {*SWEPT, *own}}
