"""Targets and results of a bundle, by the names that a user gives them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.ask.run import RunChoices
from simgen.bundle import result_names, results
from simgen.bundle.folder import RESULTS
from simgen.bundle.result_folders import SHOWN
from simgen.errors import DamagedError, UsageError, did_you_mean
from simgen.ground.storage.files import ATTEMPTS
from simgen.targets import TARGETS, Target

if TYPE_CHECKING:
    from simgen.bundle.results import Result
    from simgen.bundle.writing import Bundle


def find_result(bundle: Bundle, name: str) -> Result:
    """The result of a target or of a sweep's point, or one from a file.

    Raises:
        UsageError: there is no such target, or it has not run.
        DamagedError: the result is not what the run left.
    """
    if name not in bundle.targets and not bundle.ran_as(name):
        path = Path(name)
        if path.suffix == ".h5" or path.exists():
            return results.load(path, bundle.workload)
        raise UsageError(
            f"{bundle.path}: {name!r} is not a target of it; "
            f"{did_you_mean(name, [*bundle.targets, *bundle.ran(), 'reference'])}"
        )
    name = _only(bundle, name)
    folder = bundle.results(name)
    if folder is None:
        raise UsageError(
            f"{bundle.path}: {name} has not run yet; run it with: "
            f"{shlex.join(['simgen', 'run', str(bundle.path), *RunChoices(name).words()])}"
        )
    target = target_of(bundle, result_names.target_of(name))
    for left in reversed(range(ATTEMPTS)):
        before = _which(folder)
        try:
            return results.settle(bundle, folder, results.collect(bundle, target, folder, name))
        except DamagedError:  # or a run has put another result in its place meanwhile
            if _which(folder) == before or not left:
                raise
    raise AssertionError


def _which(folder: Path) -> int:
    """Tells the folder from others that had or get its name."""
    return folder.stat().st_ino if folder.is_dir() else 0


def _only(bundle: Bundle, name: str) -> str:
    """The result that a target's name stands for: its own, or the only other one.

    Raises:
        UsageError: there are several others.
    """
    if name not in bundle.targets or (bundle.path / RESULTS / name).is_dir():
        return name
    others = [each for each in bundle.ran() if result_names.target_of(each) == name]
    others = [each for each in others if not result_names.words_of(each)] or others  # whole ones
    if len(others) > 1:
        raise UsageError(
            f"{bundle.path}: {name} has {len(others)} results, each with options of its own; "
            f"name one: {', '.join(others[:SHOWN])}{', ...' if len(others) > SHOWN else ''}"
        )
    return others[0] if others else name


def target_of(bundle: Bundle, name: str) -> Target:
    """The target as it was when the bundle was built.

    Raises:
        DamagedError: this version of simgen has no such target, or not with these settings.
    """
    try:
        return TARGETS[name](**bundle.targets[name])
    except (KeyError, TypeError, UsageError):  # UsageError: a value that the setting has no more
        raise DamagedError(
            f"{bundle.path}: target {name!r} was built by another version of simgen; build it again"
        ) from None
