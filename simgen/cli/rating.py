"""rates: what memories and units of a simulated machine do, beside what it is configured to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from simgen.ask.checks import RatesChoices
from simgen.cli import completing
from simgen.cli.answers import answer, json_option
from simgen.cli.options import OptionsCommand, asks, given_options, verbosity

if TYPE_CHECKING:
    from simgen.reports.rates.measuring import RatesOf


@click.command(cls=OptionsCommand)
@click.option("--on", required=True, metavar="T", shell_complete=completing.targets,
              help="Target: mgpusim or gem5-se.")  # fmt: skip
@asks(RatesChoices)
@json_option
@verbosity
def rates(on: str, as_json: bool, quiet: bool, verbose: bool, **given: Any) -> None:
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
    from simgen.cli.following import Printing
    from simgen.reports.rates import measuring

    options = {name: each for name, each in given.items() if name not in ("arch", "timeout")}
    wanted = RatesChoices(given_options(options), arch=given["arch"], timeout=given["timeout"])
    measured = measuring.on(on, wanted, Printing(quiet or as_json), keep=verbose)
    if as_json:
        answer("rates", {"target": on, **measured.as_json()})
    elif not quiet:
        _print(measured)


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
