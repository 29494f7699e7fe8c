"""rates: what memories and units of a simulated machine do, beside what it is configured to do."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from simgen.ask.run import RunChoices
from simgen.cli import completing
from simgen.cli.answers import answer, json_option
from simgen.cli.numbers import SECONDS, number
from simgen.cli.options import OptionsCommand, given_options, verbosity

if TYPE_CHECKING:
    from simgen.reports.rates.measuring import RatesOf


@click.command(cls=OptionsCommand)
@click.option("--on", required=True, metavar="T", shell_complete=completing.targets,
              help="Target: mgpusim or gem5-se.")  # fmt: skip
@click.option("--arch", default=None, metavar="A", help="GPU [default: the target's].")
@number("--timeout", kind=SECONDS, help="Stop the run after this time.")
@json_option
@verbosity
def rates(
    on: str,
    arch: str | None,
    timeout: float | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    """Measure the bandwidth, latency and rates of a simulated GPU.

    The results are printed next to configured values. Measured are latency and bandwidth of DRAM,
    both caches and LDS, the rate of multiply-adds, and the cost of a launch. Each follows from two
    launches that differ in a count. Run options of the target change the hardware. A note marks a
    rate that cannot be measured, or that exceeds that of a nearer memory or the configured one. -v
    keeps the bundle.

    \b
    simgen rates --on gem5-se
    simgen rates --on gem5-se --num-compute-units 16
    simgen rates --on mgpusim --json
    """
    from simgen.bundle.planning import chosen_targets
    from simgen.cli.following import Printing
    from simgen.errors import UsageError, did_you_mean
    from simgen.reports.rates import measuring
    from simgen.targets import TARGETS

    settings = {"arch": arch} if arch else {}
    if on not in TARGETS:
        raise UsageError(f"{RunChoices.target} {on}: no such target; {did_you_mean(on, TARGETS)}")
    (target,) = chosen_targets([on], settings)
    options = given_options(given)
    measured = measuring.measure(target, options, Printing(quiet or as_json), timeout, keep=verbose)
    if as_json:
        answer("rates", _as_json(on, measured))
    elif not quiet:
        _print(measured)


def _as_json(on: str, measured: RatesOf) -> dict[str, Any]:
    rows = [dataclasses.asdict(rate) | {"share": rate.share} for rate in measured.rates]
    return {"target": on, "machine": measured.machine.label, "rates": rows}


def _print(measured: RatesOf) -> None:
    from simgen.cli import present
    from simgen.ground.metrics import quantity

    machine = measured.machine
    rows = []
    for rate in measured.rates:
        share = "" if rate.share is None else f"{rate.share:.0%}"
        configured = "" if rate.configured is None else quantity(rate.configured, rate.unit)
        if rate.value is None:
            measured_as, cycles = "not measured", ""
        else:
            measured_as = quantity(rate.value, rate.unit)
            cycles = _cycles(rate.value, rate.unit, machine.clock)
        rows.append((rate.name, measured_as, cycles, configured, share, rate.note))
    print(f"{machine.label}: {machine.units} units at {machine.clock / 1e9:g} GHz")
    heads = ("what", "measured", "in cycles", "configured", "share")
    if any(rate.note for rate in measured.rates):
        present.table(None, (*heads, "note"), rows)
    else:
        present.table(None, heads, [row[:-1] for row in rows])


def _cycles(value: float, unit: str, clock: float) -> str:
    """Time as cycles, and what is done in a cycle."""
    if unit == "s":
        return f"{value * clock:.0f}"
    return f"{value / clock:.4g} {unit.removesuffix('/s')}"
