"""Poolings whose one window is the whole image, as at the end of many networks.

With other extents of the network's input their windows have to be of other extents, too; otherwise
they would not fit, or a mean over the image would no longer be one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.layers.pool.pooling import Pooling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.frontend.network import Network

    Settings = tuple[tuple[str, str], ...]

KEY = "kernel_size"  # height and width


def poolings(network: Network) -> tuple[str, ...]:
    """The names of those layers, in their order."""
    return tuple(
        placed.node.name
        for placed in network.layers
        if isinstance(placed.layer, Pooling)
        and (placed.layer.kernel_h, placed.layer.kernel_w) == placed.node.inputs[0].shape[2:]
    )


def least(names: Sequence[str]) -> Settings:
    """Settings with which windows of these layers fit images of any extents."""
    return tuple((f"{name}.{KEY}", "1") for name in names)


def covering(network: Network, names: Sequence[str]) -> Settings | None:
    """Settings with which they are whole images, of a network planned with `least`; None where an
    image is no square."""
    inputs = {each.node.name: each.node.inputs for each in network.layers}
    found = []
    for name in names:
        height, width = inputs[name][0].shape[2:]
        if height != width:
            return None
        found.append((f"{name}.{KEY}", str(height)))
    return tuple(found)
