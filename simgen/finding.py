"""Results by the names that a user gives them: a target, a point of a sweep, a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from simgen import launch, results, sweep
from simgen.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from simgen.bundle import Bundle
    from simgen.results import Result


def find_result(bundle: Bundle, name: str) -> Result:
    """The result of a target or of a sweep's point, or one from a file.

    Raises:
        UsageError: there is no such target, or it has not run.
        DamagedError: the result is not what the run left.
    """
    if name not in (*bundle.targets, *bundle.ran()):
        path = Path(name)
        if path.suffix == ".h5" or path.exists():
            return results.load(path, bundle.workload)
        raise UsageError(
            f"{bundle.path}: {name!r} is no target of it; "
            f"{did_you_mean(name, [*bundle.targets, *bundle.ran(), 'reference'])}"
        )
    folder = bundle.results(name)
    if folder is None:
        raise UsageError(
            f"{bundle.path}: {name} has not run yet; run it with: "
            f"simgen run {bundle.path} --on {name}"
        )
    target = launch.target_of(bundle, sweep.target_of(name))
    return results.settle(bundle, folder, results.collect(bundle, target, folder, name))
