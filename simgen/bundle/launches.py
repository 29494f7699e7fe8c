"""The launches of a result, and what they come to by layer and pass."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

TIME, ELAPSED = "seconds", "elapsed_seconds"


class MeasuredLaunch(dict[str, float]):
    """One launch of a kernel: its metrics by name, such as `launch["cycles"]`.

    Attributes:
        index: its place in the workload, from 0.
        layer: the layer that it is of.
        pass_: fwd, bwd, bwd_data, bwd_weight or sgd.
        kernel: the kernel's name.
    """

    def __init__(
        self,
        metrics: Mapping[str, float] | Iterable[tuple[str, float]] = (),
        index: int = 0,
        layer: str = "",
        pass_: str = "",
        kernel: str = "",
    ) -> None:
        super().__init__(metrics)
        self.index, self.layer, self.pass_, self.kernel = index, layer, pass_, kernel

    @property
    def seconds(self) -> float:
        """Its time; NaN where the target counts none, or it did not run."""
        return self.get(TIME, math.nan)


@dataclass(frozen=True)
class MeasuredStep:
    """A layer in a pass, as one result has it."""

    layer: str
    pass_: str
    launches: tuple[MeasuredLaunch, ...]

    @property
    def metrics(self) -> dict[str, float]:
        """The sums of its launches' metrics."""
        return summed(self.launches)

    @property
    def seconds(self) -> float:
        """Its time; NaN where the target counts none."""
        return self.metrics.get(TIME, math.nan)


def summed(launches: Iterable[MeasuredLaunch]) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in launches:
        for name, value in each.items():
            found[name] = found.get(name, 0.0) + value
    return found


def by_layer(launches: Iterable[MeasuredLaunch]) -> tuple[MeasuredStep, ...]:
    """The layers and passes in the order in which they ran; none of what did not."""
    found: dict[tuple[str, str], list[MeasuredLaunch]] = {}
    for each in launches:
        if each:
            found.setdefault((each.layer, each.pass_), []).append(each)
    return tuple(MeasuredStep(*place, tuple(of)) for place, of in found.items())


def seconds(launches: Iterable[MeasuredLaunch]) -> float:
    """The time of them all; NaN where none is counted. What ran at once counts once."""
    ran = list(launches)
    name = ELAPSED if any(ELAPSED in each for each in ran) else TIME
    known = [each[name] for each in ran if name in each]
    return math.fsum(known) if known else math.nan
