"""What the machine that ran a result can do at most: simgen.ground.metrics.PEAKS, for utilizations.

The numbers are those of data/machines, with the options that the run had. A GPU is known by the
name that its driver gives; one that is not known has no peaks, and its utilizations have no values
unless a profiler counted them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simgen.errors import SimgenError
from simgen.ground import machine
from simgen.reports.pages.correlation import HARDWARE, HOST
from simgen.reports.rates import keeping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.bundle.results import Result
    from simgen.ground.machine import Machine

# Bytes in a cycle that an L1 answers with: a line in simulators; 128 of an NVIDIA SM (NVIDIA A100
# Tensor Core GPU Architecture, 2020: "L1 ... 128 bytes/clk/SM").
NVIDIA_L1_RATE = 128.0
NOT_SIMULATED = (HOST, *HARDWARE)


def peaks_of(result: Result) -> Mapping[str, float]:
    """The peaks by name; empty where it is not known what machine it was."""
    found = ran_on(result)
    if found is None:
        return {}
    nvidia = found.is_nvidia
    return {
        "peak_lanes": float(found.wavefront),
        "peak_valu_issue": found.fmas / found.wavefront,
        "peak_l1_rate": NVIDIA_L1_RATE if nvidia else float(found.line_nbytes),
        "peak_l2_rate": found.l2_rate,
        "peak_dram_rate": found.dram_rate,
        "line_bytes": float(found.line_nbytes),
    }


def shortfall(result: Result, machine: Machine | None) -> str | None:
    """Row.shortfall, of a result that ran on that machine."""
    target = str(result.provenance.get("target", ""))
    if target in NOT_SIMULATED:
        return ""
    facts = result.provenance.get("machine", {})
    kept = keeping.find(target, facts, machine) if machine else None
    return kept.shortfall if kept else None


def ran_on(result: Result) -> Machine | None:
    """The machine of data/machines that a result tells of, with the options of its run."""
    told = result.provenance
    facts, settings = told.get("machine", {}), told.get("settings", {})
    options = told.get("options", {})
    name = _name(str(told.get("target", "")), facts, settings, options)
    if name not in machine.descriptions():
        return None
    changed = {**_changed(facts), **options}
    known = {k: str(v) for k, v in changed.items() if k in machine.OPTIONS and k != "matrix"}
    try:
        return machine.named(name).with_options(known, result.name)
    except SimgenError:  # a result of another machine may name what is not known here
        return None


def _changed(facts: Mapping[str, object]) -> dict[str, str]:
    """The options of hardware that a simulator says it had: NAME=VALUE,... or --name=value ..."""
    told = f"{facts.get('hardware', '')} {facts.get('gem5_options', '')}"
    found = re.findall(r"(?:^|[\s,])(?:--)?([a-z][a-z_-]*)[= ]([^\s,]+)", told)
    return {name.replace("-", "_"): value for name, value in found}


def _name(
    target: str,
    facts: Mapping[str, object],
    settings: Mapping[str, object],
    options: Mapping[str, object],
) -> str:
    gpu = str(facts.get("gpu", ""))
    if target == "mgpusim":
        return f"mgpusim-{options.get('gpu', gpu)}"
    if target.startswith("gem5"):
        same = f"gem5-se-{settings.get('arch')}"
        return same if same in machine.descriptions() else f"gem5-{settings.get('arch')}"
    if target == "hip":
        return machine.real(str(settings.get("arch", ""))) or ""
    found = re.search(r"\b([A-Z]\d{2,4}[A-Z]?)\b", gpu)  # "NVIDIA H100 80GB HBM3"
    return found[1].lower() if found else ""
