"""Rates that were measured, kept for reports.

`rates/KEY.json` in the user's cache; the key holds the simulator, its version, and the machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

from simgen.ground.storage.files import read_regular, write_atomic
from simgen.ground.storage.schema import SchemaError, Within, from_json, parse
from simgen.kernels import cache

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.ground.machine import Machine
    from simgen.reports.rates.probes import MeasuredRate

FOLDER = "rates"
MAX_NBYTES = 2**16
VERSION = "_version"  # ends the names of what a simulator says its version is
# A GPU reaches most of its configured value for these rates. A machine that reaches less than half
# of one is limited by something that a GPU does not have.
TELLING = ("DRAM, bandwidth", "L2, bandwidth", "multiply-adds, f32")
MIN_SHARE = 0.5

Share = Annotated[float, Within(0, 1e6)]


@dataclass(frozen=True)
class Kept:
    """What an earlier `simgen rates` found.

    Attributes:
        of: what the key was made of.
        shares: of TELLING, the part of the configured rate that is reached; None: what is
            configured could not be measured.
    """

    of: str
    shares: Mapping[str, Share | None]

    @property
    def shortfall(self) -> str:
        """The rate that is furthest below what is configured, or that could not be measured; empty,
        where all are near it."""
        known = ((share, name) for name, share in self.shares.items() if share is not None)
        found = sorted((share, name) for share, name in known if share < MIN_SHARE)
        if found:
            return f"{found[0][1]} reaches {found[0][0]:.0%} of what is configured"
        lacking = next((name for name, share in self.shares.items() if share is None), "")
        return f"{lacking} could not be measured" if lacking else ""


def keep(
    target: str, facts: Mapping[str, object], machine: Machine, rates: Sequence[MeasuredRate]
) -> None:
    """Keep them for reports on results of this target, simulator and machine.

    `facts` are what a result has of its simulator.
    """
    told = _machine_text(target, facts, machine)
    shares = {each.name: each.share for each in rates if each.name in TELLING and each.configured}
    write_atomic(_path(told), (json.dumps(asdict(Kept(told, shares))) + "\n").encode())


def find(target: str, facts: Mapping[str, object], machine: Machine) -> Kept | None:
    """What was kept; None where these rates were never measured."""
    told = _machine_text(target, facts, machine)
    try:
        found = from_json(Kept, parse(read_regular(_path(told), MAX_NBYTES)))
    except (OSError, SchemaError):
        return None
    return found if found.of == told else None


def _machine_text(target: str, facts: Mapping[str, object], machine: Machine) -> str:
    """The machine's numbers and not its name, which says the same hardware in several ways. What
    its matrix instructions do is in none of the probes."""
    versions = {name: str(fact) for name, fact in facts.items() if name.endswith(VERSION)}
    plain = replace(machine, name="", options=(), matrix=(), rounds_products=(), use_matrix="")
    told = {"target": target, "versions": versions, "machine": asdict(plain)}
    return json.dumps(told, sort_keys=True)


def _path(told: str) -> Path:
    name = hashlib.sha256(told.encode()).hexdigest()
    return cache.notes(FOLDER) / f"{name}.json"
