"""Tensors of the extents that others have: ONNX's broadcasting, as views and copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simgen.frontend.importing.draft import NodeSite


def fitted(site: NodeSite, at: int, wanted: tuple[int, ...]) -> str:
    """An input in the extents `wanted`, which it can be broadcast to."""
    tensor, shape = site.tensor(at), site.shape(at)
    aligned = (*(1,) * (len(wanted) - len(shape)), *shape)
    seen = site.seen(tensor, shape or (1,), aligned or (1,), f"in{at}")
    if aligned == wanted:
        return seen
    to = tuple(0 if have == want else want for have, want in zip(aligned, wanted, strict=True))
    return site.layer("Rearrange", {"mode": "expand", "to": to}, [seen], f"expand{at}")
