"""How fast this machine simulates: a small convolution is run once, and what that took kept.

`probes/KEY.json` in the user's cache; the key holds what the time depends on: the target with its
settings, the simulator's build, the processor, and the fit that it is compared with. A probe is
rough where other work goes on beside it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from simgen.ask.build import BuildChoices
from simgen.ask.run import RunChoices
from simgen.bundle import run_record
from simgen.bundle import writing as bundles
from simgen.bundle.planning import Plan
from simgen.errors import SimgenError
from simgen.ground.storage.files import read_regular, scratch_folder, write_atomic
from simgen.ground.storage.schema import SchemaError, Within, from_json, parse
from simgen.kernels import cache
from simgen.running import estimates, process, runs
from simgen.running.runs import Listener

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.targets import Target

FOLDER = "probes"
WORKLOAD = "conv_fwd"
SETTINGS = {
    "n": 1, "c": 8, "h": 14, "w": 14, "num_output": 16, "kernel_size": 3, "pad": 1,
}  # fmt: skip
# for targets that have the option; costs are those of the timing model
OPTIONS = {"mode": "timing"}
MAX_NBYTES = 2**16


@dataclass(frozen=True)
class Probe:
    """What one found."""

    # This machine's time divided by that of the machine of the fit.
    factor: Annotated[float, Within(1e-6, 1e6)]
    of: str  # what the key was made of


def kept_probe(target: Target) -> Probe | None:
    """Probe of an earlier command; None: there is none."""
    told = _machine_text(target)
    try:
        found = from_json(Probe, parse(read_regular(_path(told), MAX_NBYTES)))
    except (OSError, SchemaError):
        return None
    return found if found.of == told else None


def measured(target: Target) -> Probe:
    """A new one; it takes seconds, and longer where the simulator has to be built first.

    Raises:
        MissingError, RefusedError, RunError: the target cannot run here.
    """
    told = _machine_text(target)
    path = _path(told)
    path.parent.mkdir(parents=True, exist_ok=True)
    plan = Plan(WORKLOAD, BuildChoices(set=SETTINGS), [target])
    options = {name: value for name, value in OPTIONS.items() if name in target.run_options}
    asked = RunChoices(target.name, options=options)
    with scratch_folder("probe", path.parent) as home:
        plan.write(home / "bundle", [target])
        with bundles.opened(home / "bundle") as made:
            process.check(made, target)
            _, ended = runs.run(made, asked, Listener(), verified=True)
            expected = estimates.estimate(made.workload, target)
            ran = ended.result.launches
    took = sum(each.get("host_seconds", 0.0) for each in ran)
    # Scale to the instructions that ran: the quality of their prediction is another matter.
    foretold = sum(
        each.host / each.instructions * (there.get("instructions") or each.instructions)
        for each, there in zip(expected.launches, ran, strict=True)
    )
    found = Probe(min(max(took / foretold, 1e-6), 1e6), told)
    write_atomic(path, (json.dumps(asdict(found)) + "\n").encode())
    return found


def probe_of(target: Target, *, again: bool = False) -> Probe | SimgenError:
    """The one that is kept, or a new one; or why there is none."""
    found = None if again else kept_probe(target)
    if found is not None:
        return found
    try:
        return measured(target)
    except SimgenError as error:
        return error


def _machine_text(target: Target) -> str:
    machine = run_record.machine()
    facts = {
        "target": target.name,
        "settings": target.settings(),
        "simulator": target.needs.identity(),
        "processor": machine["processor"],
        "fit": hashlib.sha256(repr(estimates.table().get(target.name)).encode()).hexdigest(),
    }
    return json.dumps(facts, sort_keys=True)


def _path(told: str) -> Path:
    name = hashlib.sha256(told.encode()).hexdigest()
    return cache.notes(FOLDER) / f"{name}.json"
