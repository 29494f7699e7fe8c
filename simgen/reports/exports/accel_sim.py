"""Accel-Sim's job launcher: a suite of native bundles, to be traced and simulated.

A folder of a program for each bundle and the file that its scripts read from
`util/job_launching/apps` (parse_app_definition_yaml in util/job_launching/common.py):

    define-simgen.yml   the suite, with `exec_dir`, `data_dirs` and `execs`
    NAME                runs the bundle NAME once on this machine's GPU

Traces are made on a machine with a GPU by util/tracer_nvbit/run_hw_trace.py. Its tracer is loaded
by the driver of whatever process the program starts, so that a script will do.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, ClassVar

from simgen.errors import UsageError
from simgen.ground.storage.files import atomic_folder, new_mode
from simgen.reports.exports import base
from simgen.targets.cuda import Cuda

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from simgen.reports.exports.base import Exported

FILE = "define-simgen.yml"
SUITE = "simgen"
MEMORY = "4G"  # memory of a job; the default of its parser
ONCE = {"SIMGEN_WARMUP": 0, "SIMGEN_REPEATS": 1}  # each launch is in the trace once


class AccelSimSuite(base.Export):
    """A folder, to be linked or copied."""

    name: ClassVar[str] = "accel-sim"
    what: ClassVar[str] = "a suite of bundles of the target cuda, for Accel-Sim's job launcher"
    reads_results: ClassVar[bool] = False
    several: ClassVar[bool] = True

    def write(self, sources: Sequence[Exported], path: Path) -> list[str]:
        programs: dict[str, str] = {}
        for source in sources:
            if Cuda.name not in source.bundle.targets:
                raise UsageError(
                    f"{source.bundle.path}: it has no target {Cuda.name}, which is what Accel-Sim "
                    f"traces; build it with --target {Cuda.name}"
                )
            name = re.sub(r"[^\w.-]", "_", source.name, flags=re.ASCII)
            if name in programs or name == FILE:
                raise UsageError(
                    f"{source.bundle.path}: another program is called {name}; rename the folder"
                )
            programs[name] = _program(source.bundle.path / Cuda.name / "run.sh")
        home = path.resolve()
        with atomic_folder(path, new=True) as folder:
            (folder / FILE).write_text(_suite(home, list(programs)))
            for name, text in programs.items():
                (folder / name).write_text(text)
                (folder / name).chmod(new_mode(0o755))
        return [
            f"link {home / FILE} into util/job_launching/apps of Accel-Sim, then trace with: "
            f"util/tracer_nvbit/run_hw_trace.py -B {SUITE} -D 0"
        ]


def _program(script: Path) -> str:
    told = " ".join(f"{name}={value}" for name, value in ONCE.items())
    return f"#!/bin/sh\n{told} exec {shlex.quote(str(script.resolve()))}\n"


def _suite(home: Path, names: Sequence[str]) -> str:
    """The suite in YAML, whose texts are quoted as JSON's."""
    lines = [
        f"{SUITE}:",
        f"    exec_dir: {json.dumps(str(home))}",
        f"    data_dirs: {json.dumps(str(home))}",
        "    execs:",
    ]
    for name in names:
        lines += [
            f"        - {json.dumps(name)}:",
            "            - args:",
            f"              accel-sim-mem: {MEMORY}",
        ]
    return "\n".join(lines) + "\n"
