"""Many layers as one bundle for the host target, made by simgen's own stages.

A config without `previous_layer` lines gives a program with one launch (or more) for each layer,
all of them independent, so that one compilation and one run test hundreds of problems.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
from layer_variants import inputs_of

from simgen.bundle import results
from simgen.bundle.writing import COMPLETE, RESULTS, WORKLOAD, Bundle, workload_text
from simgen.frontend import network
from simgen.frontend.config import Config, Entry, Place, Section
from simgen.ground.ir import DType
from simgen.kernels import render
from simgen.layers import LAYERS
from simgen.targets import host
from simgen.targets.base import Job
from simgen.targets.host import Host
from simgen.tensors import data_file
from simgen.tensors.header import read_header
from simgen.verdict.diff import diff
from simgen.verdict.verdict import beyond_rounding
from simgen.workload import lowering as workloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from layer_variants import Variant
    from numpy.typing import NDArray

    from simgen.ground.ir import Pass, Workload
    from simgen.ground.machine import Machine
    from simgen.kernels.build import Builder
    from simgen.verdict.verdict import Diff, Verdict

UNOPTIMISED = (*host.COMMON_FLAGS, "-O0")
LINES = ("-gdwarf-4", "-gline-tables-only")  # a fifth of the time; messages tell no lines without
UNOPTIMISED_SANITIZER = tuple(
    "-O0" if flag == "-O1" else flag for flag in host.SANITIZER_FLAGS if flag not in LINES
)
# What is called needs no copy in each place; copies are a fifth of the time.
COPIED = "#define __forceinline__ inline __attribute__((always_inline))"
# Functions without a body, which optimised code never calls (templates/kernels/elements.h).
DECLARED = re.compile(r"^(__device__ void store\([^;{]*\));$", re.M)
EXTENTS = ("n", "c", "h", "w")


def _extents(shape: tuple[int, ...]) -> Iterable[tuple[str, str]]:
    """Entries of a section."""
    texts = list(map(str, shape))
    return zip(EXTENTS, texts) if len(texts) == len(EXTENTS) else [("shape", "x".join(texts))]


@dataclass(frozen=True)
class Problem:
    """A layer and the shape of its input."""

    variant: Variant
    shape: tuple[int, ...]


def plan(
    problems: Mapping[str, Problem],
    *passes: Pass,
    dtype: DType = DType.F32,
    machine: Machine | None = None,
) -> Workload:
    """A workload of independent layers, named as the keys of `problems`, with inputs of a type;
    planned for a machine."""
    where = Place("test", 0)
    sections = tuple(
        Section(
            LAYERS[p.variant.kind].section,
            tuple(
                Entry(key, value, where)
                for key, value in (
                    ("name", name),
                    *(_extents(p.shape) if p.variant.layer.takes_input else ()),
                    *p.variant.parameters,
                )
            ),
            where,
        )
        for name, p in problems.items()
    )
    found = network.resolve(Config("test", sections, ()), machine=machine, dtype=dtype.name)
    return workloads.lower(found, "contract", passes, 0)


@dataclass(frozen=True)
class Made:
    """A bundle with the host target only."""

    bundle: Bundle
    target: Host

    def rewrite(self, buffer: str, change: Callable[[NDArray[Any]], None]) -> None:
        """Let `change` set other values of an input, where they lie in the data file."""
        path = self.bundle.path / "data.h5"
        pairs = zip(self.bundle.workload.inputs, read_header(path).entries, strict=False)
        entry, spec = next((e, b.spec) for b, e in pairs if b.name == buffer)
        change(np.memmap(path, spec.dtype.array, "r+", entry.offset, spec.shape))

    def run(self, processes: int = 2) -> subprocess.CompletedProcess[str]:
        """Runs `run.sh`; one process keeps the work-groups in order."""
        return subprocess.run(
            ["sh", str(self.bundle.path / "host" / "run.sh")],
            env={"PATH": "/usr/bin:/bin", "SIMGEN_PROCESSES": str(processes)},
            capture_output=True,
            text=True,
            timeout=300,
        )

    def verdicts(self) -> dict[str, Verdict]:
        """Layer -> what `simgen diff` says of the worst of its outputs; after a run."""
        folder = self.bundle.results("host")
        assert folder is not None
        found = results.collect(self.bundle, self.target, folder)
        workload = self.bundle.workload
        inputs = data_file.load(self.bundle.path / "data.h5", workload)
        return worst(diff(workload, inputs, found, None))

    def good(self) -> dict[str, Verdict]:
        """The verdicts of a run that must end well."""
        done = self.run()
        assert (done.returncode, done.stderr) == (0, "")
        assert (self.bundle.path / RESULTS / "host" / COMPLETE).is_file()
        return self.verdicts()

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Buffer -> values; after a run."""
        folder = self.bundle.results("host")
        assert folder is not None
        found = results.collect(self.bundle, self.target, folder)
        return {name: output.values for name, output in found.outputs.items()}


def make(
    path: Path,
    workload: Workload,
    builder: Builder,
    *,
    sanitize: bool = False,
    sources: Mapping[str, str] | None = None,
    optimise: bool | None = None,
) -> Made:
    """The bundle at `path`; `sources` stands in for rendered kernels of the same names.

    Compiling takes longer than all else; a test that looks for what the text says need not
    `optimise`. Without it, which is the default where `sanitize` is given, the checked program
    checks accesses too that a compiler would drop; a call that a compiler leaves out, as nothing
    can reach it, ends the run.
    """
    target = Host(sanitize=sanitize)
    digest = hashlib.sha256(workload_text(workload)).hexdigest()
    rendered = {**render.kernels(workload), **(sources or {})}
    optimise = not sanitize if optimise is None else optimise
    if not optimise:
        rendered = {k: DECLARED.sub(r"\1 { __builtin_trap(); }", v) for k, v in rendered.items()}
    job = Job(workload, rendered, data_file.data_id(workload), digest)
    flags = {"FLAGS": UNOPTIMISED, "SANITIZER_FLAGS": UNOPTIMISED_SANITIZER}
    prelude = render.prelude()
    assert COPIED in prelude
    with ExitStack() as changed:
        if not optimise:
            changed.enter_context(mock.patch.multiple(host, **flags))
            called = prelude.replace(COPIED, "#define __forceinline__ inline")
            changed.enter_context(mock.patch.object(render, "prelude", return_value=called))
        folder = target.package.folder(job, builder)
    for name, file in folder.items():
        to = path / "host" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(file.content)
        to.chmod(0o755 if file.executable else 0o644)
    data_file.write_data(path / "data.h5", workload)
    manifest = {
        "simgen": "test",
        "compiler": "test",
        "config": {},
        "data": {"file": "data.h5", "id": job.data_id.hex()},
        "targets": {"host": target.settings()},
        "files": {WORKLOAD: digest},
    }
    return Made(Bundle(path, manifest, workload), target)


def worst(report: Diff) -> dict[str, Verdict]:
    """Layer -> the verdict of the worst of its outputs."""
    found: dict[str, Verdict] = {}
    for verdict in report.verdicts:
        found[verdict.layer] = max(found.get(verdict.layer, verdict), verdict, key=_badness)
    return found


def _badness(verdict: Verdict) -> tuple[bool, int, float]:
    """By what fails it, and of those that pass by the second judge."""
    made = verdict.comparison
    return not verdict.passed, made.outside, beyond_rounding(made) or 0.0


def distinct_kernels(
    problems: Iterable[tuple[str, Problem]], direction: Pass
) -> dict[str, Problem]:
    """The problems whose kernels no earlier one has: modes that map to the same rows are one."""
    seen: set[str] = set()
    kept = {}
    for name, problem in problems:
        layer = problem.variant.layer
        lowering = layer.lower(inputs_of(layer, problem.shape), direction)
        names = {kernel.name for kernel in lowering.kernels}
        if not names <= seen:
            kept[name] = problem
        seen |= names
    return kept


def failures(verdicts: Mapping[str, Verdict]) -> list[str]:
    """What is wrong, one line for each layer."""
    lines = []
    for name, verdict in verdicts.items():
        if not verdict.passed:
            lines.append(f"{name}: {'; '.join(verdict.reasons)}, {verdict.comparison.worst[:1]}")
    return lines
