"""Names that are invented: asked for, so that they are no others of the model."""

from __future__ import annotations

from collections.abc import Container


def unlike(taken: Container[str], wanted: str) -> str:
    """A name that is like this, and none of those that are taken."""
    found, count = wanted, 1
    while found in taken:
        count += 1
        found = f"{wanted}_{count}"
    return found
