"""The probes built, run and checked on a target."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from simgen.ask.build import BuildChoices, Destination
from simgen.ask.choice import spelled
from simgen.ask.run import RunChoices
from simgen.bundle import writing as bundles
from simgen.bundle.planning import Plan, chosen_targets
from simgen.errors import RunError, UsageError, did_you_mean
from simgen.ground import html, resources, tidy
from simgen.ground import machine as machines
from simgen.ground.metrics import quantity
from simgen.kernels import cache
from simgen.reports.rates import keeping, probes
from simgen.reports.rates.probes import MeasuredRate, Sizes
from simgen.running import process, runs
from simgen.targets import TARGETS, usual_targets
from simgen.verdict import judging

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.ask.checks import RatesChoices
    from simgen.ground.machine import Machine
    from simgen.running.runs import Listener
    from simgen.targets import Target

TIMING = "timing"  # MGPUSim's mode for timing
SOURCE = "data/rates/rates.toml"
FILLING = "initial_values"  # begins the names of kernels that write what outputs hold before


HEADS = ("rate", "measured", "configured", "share", "note")


@dataclass(frozen=True)
class RatesOf(tidy.Tidy):
    """What a machine does on a target: `rates`, each with what is measured and configured."""

    machine: Machine
    rates: tuple[MeasuredRate, ...]

    def __repr__(self) -> str:
        measured = sum(rate.value is not None for rate in self.rates)
        return f"<RatesOf {self.machine.label}: {measured} of {len(self.rates)} measured>"

    def _repr_html_(self) -> str:
        def told(value: float | None, unit: str) -> str:
            return "" if value is None else quantity(value, unit)

        rows = [
            (each.name, told(each.value, each.unit), told(each.configured, each.unit),
             "" if each.share is None else f"{each.share:.0%}", each.note)
            for each in self.rates
        ]  # fmt: skip
        return html.table(HEADS, rows)

    def columns(self) -> dict[str, list[Any]]:
        """A line for each rate: name, value, unit, configured, note, share."""
        lines = self.as_json()["rates"]
        return tidy.columns(lines[0], lines)

    def as_json(self) -> dict[str, Any]:
        """What `simgen rates --json` prints, but for the name of its schema and the target."""
        rows = [asdict(rate) | {"share": rate.share} for rate in self.rates]
        return {"machine": self.machine.label, "rates": rows}


def on(name: str, asked: RatesChoices, listener: Listener, *, keep: bool = False) -> RatesOf:
    """As `measure`, on the target of this name.

    Raises:
        UsageError: there is none.
    """
    if name not in TARGETS:
        cure = did_you_mean(name, usual_targets())
        raise UsageError(f"{RunChoices.target} {name}: no such target; {cure}")
    (target,) = chosen_targets([name], {"arch": asked.arch} if asked.arch else {})
    return measure(target, asked.options, listener, asked.timeout, keep=keep)


def measure(
    target: Target,
    options: Mapping[str, str | int],
    listener: Listener,
    timeout: float | None,
    *,
    keep: bool = False,
) -> RatesOf:
    """Run the probes with these run options, for the machine that they make.

    What is found is kept for reports (`keeping`). The bundle goes away unless it is to be kept, or
    the run fails, whose message names its log.

    Raises:
        UsageError: the target has no machine of its own, no such option, or no times with it.
        MissingError, RefusedError, RunError: it cannot run here.
    """
    if not target.simulates or not target.machine:
        raise UsageError(
            f"{RunChoices.target} {target.name}: it simulates no machine; take gem5-se or mgpusim"
        )
    if options.get("mode", TIMING) != TIMING:
        raise UsageError(f"{spelled('mode')} {options['mode']}: it measures no time; leave it out")
    hardware = {name: value for name, value in options.items() if name in machines.OPTIONS}
    machine = machines.find(target.machine, str(RunChoices.target)).with_options(
        hardware, f"{RunChoices.target} {target.name}"
    )
    sizes = Sizes.of(machine)
    source = resources.folder("data") / "rates" / "rates.toml"
    plan = Plan(str(source), BuildChoices(set=sizes.settings), [target])
    home = cache.notes(keeping.FOLDER) / f"{target.name}.{os.getpid()}"
    timing = {"mode": TIMING} if "mode" in target.run_options else {}
    try:
        plan.write(home, [target])
        seconds, facts = _run(home, target, {**options, **timing}, listener, timeout)
    except RunError:
        keep = True
        raise
    finally:
        if keep:
            listener.tell(f"bundle: {home}")
        else:
            shutil.rmtree(home, ignore_errors=True)
    try:
        found = RatesOf(machine, tuple(probes.rates(seconds, sizes, machine)))
    except ValueError as error:
        raise RunError(f"{target.name}: {error}; its times tell nothing") from None
    keeping.keep(target.name, facts, machine, found.rates)
    return found


def _run(
    home: Path,
    target: Target,
    options: Mapping[str, str | int],
    listener: Listener,
    timeout: float | None,
) -> tuple[list[float], Mapping[str, object]]:
    """The seconds of the launches, without those that write initial values; what the simulator says
    of itself.

    Raises:
        RunError: what the kernels computed is wrong: so may be the counts behind the times.
    """
    with bundles.opened(home) as made:
        process.check(made, target)
        asked = RunChoices(target.name, options=options, timeout=timeout)
        _, ended = runs.run(made, asked, listener, verified=True)
        right, launches = judging.judge(made, target.name), made.workload.launches
    if not right:
        cure = f"simgen build {SOURCE} {Destination.targets.flag} {target.name} shows what"
        raise RunError(f"{target.name}: it computes the probes wrongly; {cure}")
    kernels = [launch.kernel for launch in launches]
    rows = zip(kernels, ended.result.launches, strict=True)
    seconds = [float(row["seconds"]) for kernel, row in rows if not kernel.startswith(FILLING)]
    return seconds, ended.result.provenance.get("machine", {})
