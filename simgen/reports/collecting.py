"""The results of a sweep's folder, put into its store."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.bundle import writing as bundles
from simgen.errors import UsageError
from simgen.reports.pages import reporting, store, trace
from simgen.running.workflow import writing

if TYPE_CHECKING:
    from simgen.bundle.writing import Bundle
    from simgen.running.workflow.jobs import Workflow


def is_sweep(folder: Path) -> bool:
    """Whether it is the folder of a sweep."""
    return folder.is_dir() and writing.read_workflow(folder) is not None


def collect(folder: Path) -> tuple[Path, int, int]:
    """Write the store of the points that have run; its path, how many they are, and of how many.

    Raises:
        UsageError: the folder is that of no sweep, nothing has run, or a bundle is another build.
        DamagedError: a file is not what was written.
    """
    workflow = writing.read_workflow(folder)
    if workflow is None:
        raise UsageError(f"{folder}: not the folder of a sweep; make one with: simgen sweep")
    if any(Path(each.path).is_absolute() for each in workflow.bundles.values()):
        raise UsageError(f"{folder}: of one bundle's runs; report that with: simgen report")
    wanted: dict[str, list[str]] = {}
    for point in workflow.points.values():
        wanted.setdefault(point.bundle, []).append(point.result)
    with contextlib.ExitStack() as held:
        found = []
        count = 0
        for key, home in workflow.bundles.items():
            path = folder / home.path
            if not (path / bundles.MANIFEST).exists():
                continue
            made = held.enter_context(bundles.opened(path))
            _check(folder, made, home.digest, workflow)
            there = set(made.ran())
            runs = [reporting.ran(made, name) for name in wanted.get(key, ()) if name in there]
            count += len(runs)
            found.append((path.name, made, runs))
        if not count:
            raise UsageError(f"{folder}: none of its points has run; run the sweep first")
        points = [
            (Path(workflow.bundles[each.bundle].path).name, each.result,
             workflow.bundles[each.bundle].digest)
            for each in workflow.points.values()
        ]  # fmt: skip
        path = folder / store.FILE
        trace.write(path, found, points)
    return path, count, len(workflow.points)


def _check(folder: Path, bundle: Bundle, digest: str, workflow: Workflow) -> None:
    if bundle.digest != digest:
        raise UsageError(
            f"{bundle.path}: another build than the sweep's, which simgen {workflow.version} "
            f"planned; build it again with: snakemake -d {folder} -s {folder}/Snakefile "
            "--forcerun build, or remove it"
        )
