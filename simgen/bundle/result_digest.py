"""Digests of a result that travels as one file: of its inputs, outputs and statistics.

They are of the values that are read, not of HDF5's bytes: a dataset "digests" of results.h5,
JSON, which is made again from what was read and compared.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Protocol

from simgen.ground import arrays

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

DATASET = "digests"
INPUTS = "inputs"  # in the provenance: the digest of the data.h5 that the run read


class DigestedTensor(Protocol):
    """An output, as simgen.bundle.results has it."""

    @property
    def values(self) -> NDArray[Any]: ...
    @property
    def untouched(self) -> int: ...
    @property
    def guard_intact(self) -> bool: ...


def text(
    outputs: Mapping[str, DigestedTensor],
    launches: Sequence[Mapping[str, float]],
    provenance: Mapping[str, Any],
    given: Mapping[tuple[int, str], NDArray[Any]],
) -> str:
    """The dataset: JSON with the SHA-256 of each output, of what steps of a run by pieces were
    `given`, of the metrics and of the provenance."""
    found: dict[str, Any] = {
        INPUTS: provenance.get(INPUTS, ""),
        "outputs": {name: _tensor(output) for name, output in sorted(outputs.items())},
        "statistics": _of(json.dumps([sorted(each.items()) for each in launches])),
        "provenance": _of(json.dumps(provenance, sort_keys=True)),
    }
    if given:
        found["given"] = {f"{at}:{name}": _values(read) for (at, name), read in given.items()}
    return json.dumps(found, sort_keys=True)


def _tensor(output: DigestedTensor) -> str:
    return _values(output.values, output.untouched, output.guard_intact)


def _values(read: NDArray[Any], *more: int) -> str:
    values = arrays.ascontiguousarray(read)
    told = (str(values.dtype), list(values.shape), *more)
    digest = hashlib.sha256(json.dumps(told).encode())
    digest.update(memoryview(values.reshape(-1).view("u1")))
    return digest.hexdigest()


def _of(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()
