"""The copies with channels last of the tensors that a convolution multiplies (channels_last.py)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from simgen.ground.ir import Constants, Kernel, Launch
from simgen.layers.base import Lowering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.layers.conv.geometry import Gather, Geometry, Names

BLOCK = 256  # work-items, where nothing is multiplied
RUN = 8  # elements that are moved at once
TILE = 4096  # elements of a tile that is turned
WIDEST = 64  # channels of such a tile; and of a step of windows


@dataclass(frozen=True)
class Turned:
    """A tensor as it is copied: images (batch, channels, pixels), or filters (batch, channels,
    taps)."""

    batch: int
    channels: int
    pixels: int
    images: bool = True
    planes: bool = False  # whether it is multiplied as it is stored
    last: bool = False  # whether it is stored with channels last

    @property
    def held(self) -> int:
        """Channels, with zeros."""
        return filled(self.channels, RUN)

    @property
    def size(self) -> int:
        return self.batch * self.pixels * self.held

    @property
    def is_itself(self) -> bool:
        """Whether nothing would change."""
        lies = self.pixels == 1 or self.last
        return self.planes or (lies and self.held == self.channels)

    @property
    def part(self) -> int:
        """Channels of a tile."""
        return min(WIDEST, 1 << (self.held - 1).bit_length())

    @property
    def groups(self) -> int:
        if not self.images:
            return ceil(self.batch * self.pixels * self.held // RUN / BLOCK)
        return self.batch * ceil(self.held / self.part) * ceil(self.pixels * self.part / TILE)

    def constants(self, prefix: str = "") -> Constants:
        given = (
            ("batch", self.batch), ("channels", self.channels), ("pixels", self.pixels),
            ("held", self.held), ("part", self.part),
        )  # fmt: skip
        return tuple((prefix + name, value) for name, value in given)

    def __str__(self) -> str:
        return f"{self.batch}x{self.channels}x{self.pixels}" + ("" if self.images else "f")


def has_planes(g: Geometry, of_filters: bool) -> bool:
    """Whether tensors are multiplied as they are stored, with channels first: one tap meets all
    pixels, and channels begin with a run."""
    alike = g.kernel == g.stride == (1, 1) and g.pad == (0, 0) and g.pixels % RUN == 0
    return alike and not g.last and (of_filters or g.channels % RUN == 0)


def copied_ports(g: Geometry, gathers: Sequence[Gather], names: Names) -> dict[str, Turned]:
    """Copied tensors by port."""
    planes = has_planes(g, not gathers)
    if not gathers:
        image = Turned(g.batch, g.channels, g.image[0] * g.image[1], planes=planes, last=g.last)
        result = Turned(g.batch, g.filters, g.pixels, planes=planes, last=g.last)
        return {names.source: image, names.filters: result}
    one = gathers[0]
    pixels = one.rows.source * one.columns.source
    source = Turned(g.batch, one.group_in, pixels, planes=planes, last=g.last)
    return {names.source: source, names.filters: Turned(g.filters, g.channels, g.taps, False)}


def last(port: str) -> str:
    return f"{port}_last"


def needed(turned: dict[str, Turned]) -> dict[str, Turned]:
    """Tensors that have to be copied into another order."""
    return {port: each for port, each in turned.items() if not each.is_itself}


def ports_read(turned: dict[str, Turned]) -> list[str]:
    """Ports that a product reads."""
    copied = needed(turned)
    return [last(port) if port in copied else port for port in turned]


def lower(turned: dict[str, Turned]) -> Lowering:
    """One launch; none where tensors are as they shall be."""
    given = list(needed(turned).items())
    if not given:
        return Lowering((), ())
    (port, first), (other, second) = given[0], given[-1]
    name = "_".join(("conv_channels_last", *(str(each) for _, each in given)))
    constants: Constants = (
        *first.constants(),
        ("first_is_images", int(first.images)),
        ("second", len(given) - 1),
        *second.constants("second_"),
        ("second_is_images", int(second.images)),
        ("groups_of_first", first.groups),
    )
    kernel = Kernel(name, "conv_channels_last.hip", BLOCK, constants)
    if len(given) == 1:
        return Lowering((kernel,), (Launch(name, (first.groups, 1, 1), (port, last(port))),))
    args = port, other, last(other), last(port)
    return Lowering((kernel,), (Launch(name, (first.groups + second.groups, 1, 1), args),))


def filled(extent: int, to: int) -> int:
    return ceil(extent / to) * to
