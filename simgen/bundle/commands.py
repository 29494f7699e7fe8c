"""The command lines that make a bundle and its results again, and the names that runs give."""

from __future__ import annotations

import contextlib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from simgen.bundle import planned_machine, planning, recipe, result_names
from simgen.errors import UsageError
from simgen.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simgen.bundle.folder import Bundle
    from simgen.bundle.run_record import Run
    from simgen.targets import Target


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
        made.append([*words, *planned_for(bundle, asked, chosen), "-o", str(bundle.path)])
    return made


def targets(names: Sequence[str], settings: Mapping[str, Any]) -> list[str]:
    """The words of a build that name targets and their settings."""
    words = [word for name in names for word in ("--target", name)]
    for name, value in settings.items():
        words += [planning.spelling(name, value)]
        words += [] if isinstance(value, bool) else [str(value)]
    return words


def planned_for(bundle: Bundle, asked: Sequence[str], chosen: Sequence[Target]) -> list[str]:
    """The option that plans it for its machine, where these targets and words would not."""
    if "--plan-for" in asked or "--scale-to" in asked:  # which scales the machine, too
        return []
    matrix = asked[asked.index("--matrix") + 1] if "--matrix" in asked else None
    with contextlib.suppress(UsageError):  # a machine without such instructions
        if planned_machine.choose(None, chosen, matrix).machine == bundle.workload.machine:
            return []
    return ["--plan-for", bundle.workload.machine.label]


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


def unusual(target: Target, variables: Mapping[str, str]) -> dict[str, str]:
    """The options of a run whose environment has these variables, by their names; those that are as
    usual are left out, and so is what changes no result."""
    known = {name: option.variable for name, option in target.run_options.items()}
    known |= {variable.lower(): variable for variable in target.said_in}
    return {
        name: variables[variable]
        for name, variable in known.items()
        if variables.get(variable)
        and (name not in target.run_options or variables[variable] != target.default(name))
    }


def run(path: Path, target: Target, result: str, record: Run | None) -> list[str]:
    """The words that make a result again; how it was cut is for others to say.

    Without a record (run.sh was started by hand), its options are those of its name.
    """
    options: Mapping[str, str] = result_names.options_of(result)
    if record is not None:
        options = unusual(target, record.variables)
    said = [f"{name.upper()}={value}" for name, value in options.items() if _is_said(target, name)]
    words = [*(["env", *said] if said else []), "simgen", "run", str(path), "--on", target.name]
    named = result_names.of_run(target.name, options, result_names.cut_of(result))
    if record is not None and named != result:  # a point of a sweep, which names all that it sets
        given = {k: record.variables.get(v, "") for k, v in _variables(target).items()}
        of_point = [name for name in result_names.options_of(result) if given.get(name)]
        if of_point:
            return [*words, *(w for name in of_point for w in ("--sweep", f"{name}={given[name]}"))]
    return [*words, *_options(target, options)]


def _options(target: Target, options: Mapping[str, str]) -> Sequence[str]:
    return [
        f"--{name.replace('_', '-')}={line}"
        for name, value in options.items()
        if name in target.run_options
        for line in (value.split("\n") if target.run_options[name].several else [value])
    ]


def _is_said(target: Target, name: str) -> bool:
    return name.upper() in target.said_in


def _variables(target: Target) -> dict[str, str]:
    return {name: option.variable for name, option in target.run_options.items()}
