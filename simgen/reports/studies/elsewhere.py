"""Runs of a study on a machine that has neither simgen nor a simulator, such as one with the GPU.

The study's folder gets TARGET.sh, which runs the bundles of a target that have no result yet, with
the options of the study, and packs what they leave. What is brought back lies where a run here
would have left it, and the same command of the study finds it there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.ground.storage.files import write_atomic
from simgen.kernels import render
from simgen.reports.studies import measuring
from simgen.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from simgen.reports.studies.measuring import Scope, StudyPoint


def script(where: str) -> str:
    return f"{where}.sh"


def packed(where: str) -> str:
    """What it leaves."""
    return f"{where}-results.tar.gz"


def write(output: Path, points: Sequence[StudyPoint], scope: Scope) -> None:
    """The script of each target and machine that these points are on."""
    for where in dict.fromkeys(point.place.where for point in points):
        target = next(p.place.target for p in points if p.place.where == where)
        options = TARGETS[target].run_options
        runs = [
            (
                point.bundle,
                measuring.result_of(point, scope),
                [f"{options[k].variable}={v}" for k, v in scope.options(point).items()],
            )
            for point in points
            if point.place.where == where
        ]
        text = render.text(
            "launchers/study_elsewhere.sh.j2",
            target=target,
            script=script(where),
            packed=packed(where),
            folder=measuring.RUNS,
            runs=runs,
        )
        write_atomic(output / script(where), text.encode(), mode=0o755)


def cure(where: str, output: Path) -> str:
    """What a user does to have its results."""
    return (
        f"copy {script(where)} and {measuring.RUNS}/*-{where}* of {output} there, as they lie, "
        f"run {script(where)}, unpack {packed(where)} here (tar -xzf {packed(where)} -C "
        f"{output}), and give the same command again"
    )
