"""Tensors of the extents that others have: ONNX's broadcasting."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.frontend.importing.draft import NodeSite

SECTIONS = {"Add": "add", "Subtract": "subtract", "Multiply": "multiply", "Divide": "divide"}


def fitted(site: NodeSite, at: int, wanted: tuple[int, ...]) -> str:
    """An input in the extents `wanted`, which it can be broadcast to: a view, and a copy."""
    tensor, shape = site.tensor(at), site.shape(at)
    aligned = (*(1,) * (len(wanted) - len(shape)), *shape)
    seen = site.seen(tensor, shape or (1,), aligned or (1,), f"in{at}")
    if aligned == wanted:
        return seen
    to = tuple(0 if have == want else want for have, want in zip(aligned, wanted, strict=True))
    return site.layer("Rearrange", {"mode": "expand", "to": to}, [seen], f"expand{at}")


def of_two(site: NodeSite, section: str, tensors: Sequence[str], suffix: str = "") -> str:
    """The sum, difference, product or quotient of both inputs, which are these tensors; smaller
    ones are read, and not copied."""
    wanted, shapes = site.result(), [site.shape(at) for at in range(2)]
    kept = list(tensors)
    for at in range(2):
        layer = site.draft.layers.get(kept[at])
        copies = layer is not None and layer.entries.get("mode") == "expand"
        if copies and shapes[1 - at] == wanted and site.draft.behind(kept[at])[0] == kept[at]:
            kept[at], shapes[at] = site.draft.without(kept[at], [], ""), ()
    if shapes[0] == shapes[1]:
        return site.layer(section, {}, kept, suffix)
    return site.layer("Broadcast", {"operation": SECTIONS[section]}, kept, suffix)
