"""What layers with several inputs have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.ir import TensorSpec

MOST = 16  # inputs; each is an argument of the kernel
INPUTS = tuple(f"x{at}" for at in range(MOST))  # names of ports
GRADIENTS = tuple(f"dx{at}" for at in range(MOST))


def check(section: str, inputs: Sequence[TensorSpec], axes: Sequence[int]) -> None:
    """Raise ValueError unless there are 2 to MOST inputs of equal extents along `axes`."""
    if len(inputs) < 2:
        raise ValueError(f"[{section}] has one input; name two or more in previous_layer")
    if len(inputs) > MOST:
        raise ValueError(
            f"[{section}] has {len(inputs)} inputs, more than {MOST}; use two layers in a row"
        )
    for at, x in enumerate(inputs):
        if any(x.shape[axis] != inputs[0].shape[axis] for axis in axes):
            one, other = (" x ".join(map(str, spec.shape)) for spec in (inputs[0], x))
            raise ValueError(f"x0 is {one}, but x{at} is {other}; give them the same extents")
