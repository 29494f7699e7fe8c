"""The mean of a batch's losses: what every loss ends with, in one work-group.

    y = (sum of sums) * share        share = 1 / (sum of counts), or a constant

Each of `sums` is that of some of the losses, or one of them.

Of several GPUs, each has a share of the losses: it adds them up, and those that count; then the
GPUs add up these sums, and each of them makes y and share of what all have.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, ClassVar, Self

from simgen.ground.ir import Distribution, Fill, Kernel, Launch, TensorSpec
from simgen.ground.numerics.rounding import identifier
from simgen.layers.base import Layer, Lowering, Port
from simgen.layers.reduction import BLOCK, FINALS
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.layers.written import Values

ONE = TensorSpec((1,))
GROUP_SUM = ceil(BLOCK / FINALS) + FINALS  # roundings on the longest way through a work-group


TOTALS = ("total", "counted")  # totals over the GPUs: sum of losses, and number of counted terms


@dataclass(frozen=True)
class Loss(Layer):
    """A layer whose output y is the loss of the batch, one number in float32."""

    gpus: int = field(default=1, kw_only=True, repr=False, metadata={"keys": ()})

    training_only = True
    any_float = True
    sample: ClassVar[Mapping[str, str]] = {"n": "100", "c": "1000", "h": "1", "w": "1"}

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        return ONE

    def among(self, gpus: int) -> Self:
        return replace(self, gpus=gpus)


# The gradient of the loss by itself: 1, which lowering makes as large as the loss scale says.
SEED = Port("dy", ONE, Fill(Distribution.NORMAL, 1.0, 0.0))


def additions(parts: int) -> int:
    """Roundings on the longest way from one of `parts` sums to their sum."""
    return ceil(parts / BLOCK) + GROUP_SUM


def launch(
    kind: str, parts: int, share: float | None, args: tuple[str, ...]
) -> tuple[Kernel, Launch]:
    """The launch over `parts` sums; without a constant share, `args` are sums, counts, y, share,
    otherwise sums and y."""
    said = "counted" if share is None else f"by{identifier(share)}"
    constants = (
        ("parts", parts),
        ("share", 0.0 if share is None else share),
        ("with_counts", int(share is None)),
        ("finals", FINALS),
    )
    kernel = Kernel(f"{kind}_mean_{parts}_{said}", "loss_mean.hip", BLOCK, constants)
    return kernel, Launch(kernel.name, (1, 1, 1), args)


def share_of(
    kind: str, parts: int, share: float | None, sums: tuple[str, ...]
) -> tuple[tuple[Kernel, ...], tuple[Launch, ...]]:
    """Launches for one GPU's share of the batch: its totals, before all GPUs add them up."""
    made = [
        launch(kind, parts, 1.0, (each, total))
        for each, total in zip(sums, TOTALS if share is None else TOTALS[:1], strict=True)
    ]
    return tuple(dict.fromkeys(kernel for kernel, _ in made)), tuple(each for _, each in made)


def of_totals(kind: str, share: float | None) -> Lowering:
    """The mean from what the GPUs have added up."""
    args = (*TOTALS, "y", "share") if share is None else (TOTALS[0], "y")
    kernel, at_last = launch(kind, 1, share, args)
    return Lowering((kernel,), (at_last,))


@writes("loss_mean")
def _written(c: Values, block: int) -> list[Writes]:
    arguments = (-1, -2) if c["with_counts"] else (-1,)
    return [Writes(at, cut_by(Places(1)), items=block) for at in arguments]
