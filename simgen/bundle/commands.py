"""The command lines of runs, from what is known of their results, and the names that they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.bundle import result_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simgen.bundle.run_record import Run
    from simgen.targets import Target


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
    named = result_names.of_run(target.name, options, result_names.words_of(result))
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
