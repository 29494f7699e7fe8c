"""Rates from launches: two that differ in a count tell what one more of it takes.

A launch's time has what it costs to start one, to fill caches and to drain; the difference of two
has not. The launches are those of data/rates/rates.toml, in its order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simgen.ground.machine import Machine

WORD = 4  # bytes
MOST_L2 = 2**17  # words that rates.toml has for L2's run
BLOCK = 256  # work-items of a work-group
PART = 4 * 16 * BLOCK  # bytes that a work-group reads in one round: four loads of 16 bytes each
FLOPS = 2 * 32  # operations of a work-item in one round: 32 multiply-adds


@dataclass(frozen=True)
class MeasuredRate:
    """What was measured, and what the machine is configured for; None: nothing says it.

    Attributes:
        unit: of both.
        note: why it was not measured, or why it is doubtful.
    """

    name: str
    value: float | None
    unit: str
    configured: float | None = None
    note: str = ""

    @property
    def share(self) -> float | None:
        """Part of the configured that is reached."""
        if self.configured is None or self.value is None:
            return None
        return self.value / self.configured


@dataclass(frozen=True)
class Sizes:
    """The parameters of rates.toml for a machine."""

    units: int
    l2: int  # words
    cold: int
    rounds: int

    @classmethod
    def of(cls, machine: Machine) -> Sizes:
        """L2's run is four times as large as L1, so that nothing of it is left there when it comes
        round again; few units read and compute more, so that it takes long enough."""
        words = 4 * machine.l1_nbytes // WORD
        l2 = min(max(1 << (words - 1).bit_length(), 2**12), MOST_L2)
        cold = min(max(64 // machine.units, 1), 16)
        rounds = min(max(128 // machine.units, 4), 64)
        return cls(machine.units, l2, cold, rounds)

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        return (("units", str(self.units)), ("l2", str(self.l2)), ("cold", str(self.cold)),
                ("rounds", str(self.rounds)))  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """Two launches, by their places, and how much more of a count the second has."""

    name: str
    unit: str
    first: int
    second: int
    more: Callable[[Sizes], float]
    configured: Callable[[Machine], float] | None = None


def _bytes(rounds: int) -> Callable[[Sizes], float]:
    return lambda sizes: float(rounds * PART * sizes.units)


# A chase grows in its number of loads: the unit is the time of each.
PAIRS = (
    Pair("DRAM, latency", "s", 5, 6, lambda _: 64.0),
    Pair("L2, latency", "s", 9, 10, lambda _: 128.0),
    Pair("L1, latency", "s", 7, 8, lambda _: 128.0),
    Pair("LDS, latency", "s", 27, 28, lambda _: 128.0),
    Pair("DRAM, bandwidth", "B/s", 11, 12, lambda s: _bytes(s.cold)(s), lambda m: m.dram_rate),
    Pair("L2, bandwidth", "B/s", 14, 15, _bytes(1), lambda m: m.l2_rate * m.clock),
    Pair("L1, bandwidth", "B/s", 17, 18, _bytes(2)),
    Pair("LDS, bandwidth of a unit", "B/s", 21, 22, lambda _: 8.0 * 16 * 4 * BLOCK),
    Pair("LDS, every 2nd word", "B/s", 23, 24, lambda _: 8.0 * 16 * 4 * BLOCK),
    Pair("LDS, every 32nd word", "B/s", 25, 26, lambda _: 8.0 * 16 * 4 * BLOCK),
    Pair("multiply-adds, f32", "FLOP/s", 19, 20, lambda s: 4.0 * FLOPS * BLOCK * s.rounds * s.units,
         lambda m: 2 * m.rate),
)  # fmt: skip
LEVELS = ("L1", "L2", "DRAM")  # what is farther from a unit is slower
MOST_SHARE = 1.02  # part of the configured rate; more is no measurement
LAUNCH = 30  # index of the launch of an empty kernel whose code is in a cache


def rates(seconds: Sequence[float], sizes: Sizes, machine: Machine) -> list[MeasuredRate]:
    """Rates from the seconds of all launches of rates.toml.

    A rate whose longer launch took no longer is not measured; one of a level of memory that is
    faster than the level before it is doubtful, and one above what is configured. A note says so.

    Raises:
        ValueError: none is measured: the target measures no time.
    """
    found: dict[str, MeasuredRate] = {}
    for pair in PAIRS:
        took = seconds[pair.second] - seconds[pair.first]
        more = pair.more(sizes)
        configured = pair.configured(machine) if pair.configured else None
        value, note = None, "more work took no more time"
        if took > 0:
            value, note = took / more if pair.unit == "s" else more / took, ""
        found[pair.name] = MeasuredRate(pair.name, value, pair.unit, configured, note)
    if all(each.value is None for each in found.values()):
        raise ValueError("more work took no more time in any launch")
    for what in ("latency", "bandwidth"):
        levels = [(level, found[f"{level}, {what}"]) for level in LEVELS]
        known = [(level, each.value, each) for level, each in levels if each.value is not None]
        for (nearer, before, _), (_, value, each) in pairwise(known):
            if value < before if each.unit == "s" else value > before:
                found[each.name] = replace(each, note=f"doubtful: faster than {nearer}")
    for each in found.values():
        if each.unit != "s" and (each.share or 0) > MOST_SHARE and not each.note:
            found[each.name] = replace(each, note="doubtful: more than is configured")
    launch = machine.launch_cycles / machine.clock
    return [*found.values(), MeasuredRate("a launch", seconds[LAUNCH], "s", launch)]
