"""Digests of a result that travels as one file: of its inputs, outputs and statistics.

They are of the values that are read, not of HDF5's bytes: a dataset "digests" of results.h5,
JSON, which is made again from what was read and compared. In a bundle, the seal has its digest
(simgen.ground.storage.seal).
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Protocol

from simgen.ground import arrays
from simgen.tensors import pouring
from simgen.tensors.block_io import BLOCK_NBYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

DATASET = "digests"
BLOCKS = "block_nbytes"  # in it: tensors are digested in blocks (simgen.tensors.digest)
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
    made: Sequence[str] | None = None,
) -> str:
    """The dataset: JSON with the SHA-256 of each output, of what steps of a run by pieces were
    `given`, of the metrics and of the provenance.

    `made` are the tree digests of `outputs` and then of `given`, where they are known.
    """
    values = [*(output.values for output in outputs.values()), *given.values()]
    trees = made or pouring.trees(values)
    tensors = dict(zip(outputs, trees, strict=False))
    read = trees[len(outputs) :]
    found = _frame(launches, provenance) | {
        BLOCKS: BLOCK_NBYTES,
        "outputs": {
            name: of_text(
                _told(output.values, output.untouched, output.guard_intact) + tensors[name]
            )
            for name, output in sorted(outputs.items())
        },
    }
    if given:
        found["given"] = {
            f"{at}:{name}": of_text(_told(each) + tree)
            for ((at, name), each), tree in zip(given.items(), read, strict=True)
        }
    return json.dumps(found, sort_keys=True)


def of_file(
    digests: str,
    outputs: Mapping[str, DigestedTensor],
    launches: Sequence[Mapping[str, float]],
    provenance: Mapping[str, Any],
    given: Mapping[tuple[int, str], NDArray[Any]],
) -> str:
    """What `digests`, of a file, is to be: in files of earlier versions, tensors have no blocks."""
    if f'"{BLOCKS}"' in digests:
        return text(outputs, launches, provenance, given)
    found = _frame(launches, provenance) | {
        "outputs": {
            name: _whole(each.values, each.untouched, each.guard_intact)
            for name, each in outputs.items()
        }
    }
    if given:
        found["given"] = {f"{at}:{name}": _whole(read) for (at, name), read in given.items()}
    return json.dumps(found, sort_keys=True)


def _frame(
    launches: Sequence[Mapping[str, float]], provenance: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        INPUTS: provenance.get(INPUTS, ""),
        "statistics": of_text(json.dumps([sorted(each.items()) for each in launches])),
        "provenance": of_text(json.dumps(provenance, sort_keys=True)),
    }


def _told(values: NDArray[Any], *more: int) -> str:
    return json.dumps((str(values.dtype), list(values.shape), *more))


def _whole(read: NDArray[Any], *more: int) -> str:
    digest = hashlib.sha256(_told(read, *more).encode())
    digest.update(memoryview(arrays.ascontiguousarray(read).reshape(-1).view("u1")))
    return digest.hexdigest()


def of_text(content: str) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(content.encode()).hexdigest()
