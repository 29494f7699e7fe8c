"""The command lines that make a bundle and its results again, and the names that runs give."""

from __future__ import annotations

import contextlib
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from simgen.ask.build import BuildChoices, Destination
from simgen.ask.choice import option
from simgen.bundle import planned_machine, planning, recipe, result_names
from simgen.errors import UsageError
from simgen.targets import TARGETS, Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simgen.bundle.folder import Bundle
    from simgen.bundle.run_record import Run


def build(bundle: Bundle) -> list[list[str]]:
    """The words that make the bundle again: a command, and others where settings of its targets
    cannot be said in one.

    Raises:
        UsageError, DamagedError: as `recipe.words`.
    """
    asked = recipe.words(bundle)
    made: list[list[str]] = []
    for names, settings in _groups(bundle):
        chosen = planning.chosen_targets(names, settings)
        words = ["simgen", "build", asked[0], *targets(names, settings), *asked[1:]]
        words += planned_for(bundle, asked, chosen)
        made.append([*words, *Destination(output=bundle.path).words()])
    return made


def targets(names: Sequence[str], settings: Mapping[str, Any]) -> list[str]:
    """The words of a build that name targets and their settings."""
    words = [word for name in names for word in Destination(targets=name).words()]
    for name, value in settings.items():
        words += [option(name, value)]
        words += [] if isinstance(value, bool) else [str(value)]
    return words


def planned_for(bundle: Bundle, asked: Sequence[str], chosen: Sequence[Target]) -> list[str]:
    """The option that plans it for its machine, where these targets and words would not."""
    choices = BuildChoices
    if {choices.plan_for.flag, choices.scale_to.flag} & {*asked}:  # which scales the machine, too
        return []
    flag = choices.matrix.flag
    matrix = asked[asked.index(flag) + 1] if flag in asked else None
    with contextlib.suppress(UsageError):  # a machine without such instructions
        if planned_machine.choose(None, chosen, matrix).machine == bundle.workload.machine:
            return []
    return BuildChoices(plan_for=bundle.workload.machine.label).words()


def _groups(bundle: Bundle) -> list[tuple[list[str], dict[str, Any]]]:
    """Targets that one command can name, and the settings that it gives them."""
    found: list[tuple[list[str], dict[str, Any]]] = []
    for name, kept in bundle.targets.items():
        usual = {each.name: each.default for each in fields(TARGETS[name])}
        own = {key: value for key, value in kept.items() if usual.get(key) != value}
        for names, settings in found:
            if _is_of_all(bundle, [*names, name], {**settings, **own}):
                names.append(name)
                settings |= own
                break
        else:
            found.append(([name], own))
    return found


def _is_of_all(bundle: Bundle, names: Sequence[str], settings: Mapping[str, Any]) -> bool:
    """Whether targets that are built with these settings are those of the bundle."""
    try:
        made = planning.chosen_targets(names, settings)
    except UsageError:  # a value that one of them does not take
        return False
    return all(each.settings() == bundle.targets[each.name] for each in made)


def run(path: Path, target: Target, result: str, record: Run | None) -> list[str]:
    """The words that make a result again; without a record, run.sh was started by hand."""
    asked = record.choices if record else result_names.asked(result, target.run_options)
    said = [(name, record.variables.get(name)) for name in target.said_in] if record else []
    env = [f"{name}={value}" for name, value in said if value]
    words = replace(asked, target=target.name).words()
    return [*(["env", *env] if env else []), "simgen", "run", str(path), *words]
