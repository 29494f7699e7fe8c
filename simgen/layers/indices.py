"""Indices that a user gives to layers that read memory where these say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simgen.ground.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def outside(port: str, given: NDArray[Any] | None, least: int, most: int) -> str:
    """What is wrong with a user's indices that go from `least` to `most`, if anything."""
    if given is None:
        return ""
    wrong = (given < least) | (given > most)
    if not wrong.any():
        return ""
    at = np.unravel_index(int(np.argmax(wrong)), given.shape)
    place = ", ".join(map(str, at))
    return f"{port}[{place}] is {given[at]}; write {least} to {most}"
