"""A network of layers whose tensors have a narrow type, and what its results must be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.frontend import network, problem
from simgen.ground.ir import Pass
from simgen.ground.machine import NO, fitted
from simgen.tensors import data_file
from simgen.verdict.diff import diff
from simgen.workload import lowering

if TYPE_CHECKING:
    from simgen.bundle.results import Result
    from simgen.bundle.writing import Bundle
    from simgen.ground.ir import Workload
    from simgen.ground.machine import Machine

CONFIG = Path(__file__).parent / "data" / "narrow.dnnmark"
INTEGERS = CONFIG.with_name("integers.dnnmark")
QUANTISED = CONFIG.with_name("quantised.dnnmark")
MIXED = CONFIG.with_name("mixed.dnnmark")
NETWORK = CONFIG.with_name("quantised_network.dnnmark")
TYPES = ("f16", "bf16")
PROVENANCE = {"simgen": "test", "config": {}, "command": "test"}


def planned(
    dtype: str,
    config: Path = CONFIG,
    passes: tuple[Pass, ...] = (Pass.FORWARD, Pass.BACKWARD, Pass.UPDATE),
    machine: Machine | None = None,
) -> Workload:
    """The network, with this type where no layer says another, for machines of any kind."""
    found = problem.find(str(config), (), passes)
    machine = machine or replace(fitted(), use_matrix=NO)
    layers = network.resolve(found.config, found.settings, dtype=dtype, machine=machine)
    return lowering.lower(layers, found.name, found.passes, 0, loss_scale=2.0)


def planned_integers(config: Path = INTEGERS) -> Workload:
    """Products of 8-bit integers."""
    return planned("i8", config, (Pass.FORWARD,))


def wrong(bundle: Bundle, result: Result) -> list[str]:
    """Tensors of a result that are not what they should be, and why."""
    inputs = data_file.load(bundle.path / "data.h5", bundle.workload)
    report = diff(bundle.workload, inputs, result, None)
    assert len(report.verdicts) == len(bundle.workload.outputs)
    return [f"{v.tensor}: {', '.join(v.reasons)}" for v in report.verdicts if not v.passed]
