"""The launcher of those who need DNNMark's own binaries: its program of the layers and passes.

DNNMark calls MIOpen and rocBLAS of ROCm 4.0, which gem5's own image has, and so the kernels are
theirs. It keeps no results: a run leaves statistics. The folder holds its config (simgen.targets.
dnnmark), the kernels that MIOpen will ask its database for (simgen_rocm.miopen), and a
script that looks for them there. Command lines are those of gem5-resources'
src/gpu/DNNMark/README.md.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from simgen.ask.build import BuildChoices
from simgen.ask.choice import spelled
from simgen.errors import DamagedError, UsageError
from simgen.isa.legalise import cache_policy
from simgen.kernels import render
from simgen.targets.base import File, Job, Lack
from simgen.targets.gem5.launcher import (
    LEAST_MEMORY,
    Built,
    Command,
    Launcher,
    Simulated,
    memory_for,
    memory_text,
)
from simgen.tensors import mmap_file
from simgen_rocm import dnnmark, miopen, miopen_17

if TYPE_CHECKING:
    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder

CONFIG = "config.dnnmark"
KERNELS = "kernels.csv"  # in the format of gem5-resources' cachefiles.csv
SCRIPT = "kernel_database.py"
BENCHMARKS = "build/benchmarks"  # in DNNMark's folder
GENERATOR = "generate_cachefiles.py"  # there, too
NOTE = "# "
BUILD_CURE = (
    "get src/gpu/DNNMark of gem5-resources, build it in gem5's image with ./setup.sh HIP and make, "
    "and set DNNMARK to its folder"
)
IMAGE_CURE = "install Docker, or set SIMGEN_DOCKER=0 to have gem5 run the MIOpen that is here"


class DnnMark(Launcher):
    name: ClassVar[str] = "dnnmark"
    template: ClassVar[str] = "simgen_rocm:gem5-dnnmark.run.sh.j2"
    own_kernels: ClassVar[bool] = True
    seen_running: ClassVar[bool] = False

    def check(self, simulated: Simulated) -> None:
        lacks = {
            f"{spelled('m5ops')}": simulated.m5ops,
            f"{spelled('l1')} bypass": simulated.l1 != cache_policy.CACHED,
        }
        for option, given in lacks.items():
            if given:
                raise UsageError(
                    f"gem5-se: {option}: it cannot change DNNMark's own program and kernels; "
                    f"leave it out, or take {spelled('launcher')} kfd"
                )

    def missing(self) -> list[Lack]:
        root = os.environ.get("DNNMARK", "")
        if not root.startswith("/"):
            fact = f"DNNMARK is {root}, not a whole path" if root else "DNNMARK is not set"
            return [Lack(fact, BUILD_CURE)]
        lacks = []
        if not Path(root, BENCHMARKS).is_dir():
            lacks.append(Lack(f"{Path(root, BENCHMARKS)} is missing", BUILD_CURE))
        if os.environ.get("SIMGEN_DOCKER", "1") == "1" and shutil.which("docker") is None:
            lacks.append(Lack("there is no docker, and gem5's image has MIOpen", IMAGE_CURE))
        return lacks

    def command(self, simulated: Simulated, workload: Workload) -> Command:
        """Three CPUs: the runtime's threads need one each. The environment is apu_se.py's own."""
        run = dnnmark.plan(workload)
        memory = memory_for(dnnmark.memory_nbytes(run))
        more = (f"--mem-size={memory_text(memory)}",) if memory > LEAST_MEMORY else ()
        return Command(
            before=("-n3", *more, *simulated.options),
            after=(
                f'--benchmark-root="$DNNMARK/{BENCHMARKS}/{run.program}"',
                f"-c {run.executable}",
                f'--options="-config ../../gem5-se/{CONFIG} -mmap ../../{mmap_file.FILE}"',
            ),
            launches=_launches(simulated, run, workload),
            outputs_nbytes=None,
            mounts=(
                '"$DNNMARK:$DNNMARK"',
                f'"$DNNMARK/cachefiles:/root/.cache/miopen/{miopen.VERSION}"',
            ),
            root=True,
            in_image=True,
        )

    def build(self, simulated: Simulated, job: Job, builder: Builder) -> Built:
        """The config, the keys of the kernels, and what looks for them.

        Raises:
            UsageError: DNNMark cannot run the workload, or gem5 would not tell layers apart.
        """
        run = dnnmark.plan(job.workload)
        if not simulated.version.dumps and len(job.workload.steps) > 1:
            raise UsageError(
                f"gem5-se: {spelled('launcher')} dnnmark: gem5 "
                f"{simulated.gem5_version} leaves one table of "
                "statistics for all kernels; build one layer in one pass, or for gem5 24.0"
            )
        rows = keys(run)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        files = {
            CONFIG: File(dnnmark.config(run).encode()),
            KERNELS: File(text.getvalue().encode()),
            SCRIPT: File(render.text(f"simgen_rocm:{SCRIPT}").encode()),
        }
        variables = {
            "program": f"{BENCHMARKS}/{run.program}/{run.executable}",
            "generator": GENERATOR,
            "miopen": miopen.VERSION,
            "arch": simulated.arch,
            "kernels": len(rows),
            "dnnmark_cure": BUILD_CURE,
        }
        return Built(files, variables=variables)

    def stages(self, simulated: Simulated) -> tuple[str, ...]:
        return ()  # its kernels are MIOpen's

    def mapped_nbytes(self, workload: Workload) -> int:
        return dnnmark.mapped_nbytes(dnnmark.plan(workload))

    def ran(self, workload: Workload, launches: int) -> tuple[tuple[int, str], ...]:
        """As MIOpen's sources say; where rocBLAS makes it differ, all are of the only step.

        Raises:
            DamagedError: there are several steps, and no saying whose a kernel is.
        """
        expected = _expected(dnnmark.plan(workload), workload)
        if len(expected) == launches:
            return expected
        if len(workload.steps) == 1:
            return tuple((0, f"kernel {at}") for at in range(1, launches + 1))
        raise DamagedError(
            f"gem5-se: statistics of {launches} kernels, where MIOpen {miopen.VERSION} launches "
            f"{len(expected)} for these layers; read stats.txt in the results, or take one layer "
            f"at a time with {BuildChoices.layers}"
        )

    def whole_only(self) -> str:
        return f"DNNMark runs all layers; build a slice of them with {BuildChoices.layers}"

    def notes(self, folder: Path) -> list[str]:
        """The comments of the config: what DNNMark does otherwise, and in which layers."""
        layers: dict[str, list[str]] = {}
        for line in (folder / CONFIG).read_text().splitlines():
            if line.startswith(NOTE):
                layer, _, text = line.removeprefix(NOTE).partition(": ")
                layers.setdefault(text, []).append(layer)
        return [f"{', '.join(names)}: {text}" for text, names in layers.items()]


def keys(run: dnnmark.DnnmarkPlan, version: str = miopen.VERSION) -> list[tuple[str, str]]:
    """(program, arguments) of every kernel that a run may ask the database for, each once.

    Raises:
        UsageError: what this version of MIOpen asks for is not known.
    """
    of = {each.VERSION: each.dispatches for each in (miopen_17, miopen)}[version]
    found = [
        (dispatch.program, text)
        for _, _, launches in dnnmark.dispatches(run, of)
        for dispatch in launches
        for text in dispatch.arguments
    ]
    return list(dict.fromkeys(found))


def _launches(simulated: Simulated, run: dnnmark.DnnmarkPlan, workload: Workload) -> int | None:
    """How many launches the statistics must tell of; None where that is not known.

    rocBLAS alone knows how many kernels a product takes.
    """
    if any(miopen.GEMM in launches for _, _, launches in dnnmark.dispatches(run)):
        return None
    return len(_expected(run, workload)) if simulated.version.dumps else 1


def _expected(run: dnnmark.DnnmarkPlan, workload: Workload) -> tuple[tuple[int, str], ...]:
    """(step, kernel) of every launch, in order."""
    steps = {(step.layer, step.direction): at for at, step in enumerate(workload.steps)}
    return tuple(
        (steps[layer, direction], dispatch.kernel)
        for layer, direction, launches in dnnmark.dispatches(run)
        for dispatch in launches
    )
