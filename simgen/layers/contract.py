"""What a layer promises less of than others do, and why: declared by it, read by contract tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simgen.ground.ir import Pass


@dataclass(frozen=True)
class Contract:
    """Exceptions of a layer; one that declares none is held to all that any layer is held to.

    cancels: results are sums whose terms may cancel, so that float64 itself knows them to a part of
        the largest one only. (Of layers with parameters that is known.)
    slope_shape: of an input that shows the slopes of the forward pass, where the usual small one
        has samples, or rows, of which nothing but their sign is left.
    cancelling_batch: so many samples leave a gradient in which nearly everything cancels: no bound
        is small beside it.
    copies: passes that compute nothing.
    gathers: what a pass reads a part of, which indices or keys name.
    prepares: some of the work is done once, for however many samples.
    rounds: what sums of whole numbers come to is rounded in any case.
    rounding_algorithms: of those of the layer, those of which `rounds` is true.
    spreading_algorithms: those behind whose transforms an error of one element is found in others.
    exact_settings: with which sums of whole numbers stay exact, where defaults round.
    kernels: what the names of its kernels begin with, where that is not its kind.
    """

    cancels: bool = False
    slope_shape: tuple[int, ...] | None = None
    cancelling_batch: int | None = None
    copies: tuple[Pass, ...] = ()
    gathers: tuple[str, ...] = ()
    prepares: bool = False
    rounds: bool = False
    rounding_algorithms: tuple[str, ...] = ()
    spreading_algorithms: tuple[str, ...] = ()
    exact_settings: tuple[str, ...] = ()
    kernels: str = ""
