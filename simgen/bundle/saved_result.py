"""Reading `results.h5`, which may come from another machine: what it may hold.

Its layout is told in simgen/bundle/results.py. Everything in it has a type and bounds, and shapes
are compared with the file's size, and with the workload where there is one, before tensors are
read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from simgen.bundle import result_digest, run_record
from simgen.errors import printable
from simgen.ground.ir import Pass, Workload
from simgen.ground.machine import ProductRounding  # noqa: TC001 - as above
from simgen.ground.storage import hdf5, schema
from simgen.ground.storage.hdf5 import FormatError
from simgen.ground.storage.schema import SchemaError, Sized, Within, from_json
from simgen.ground.version import version
from simgen.tensors import element_types
from simgen.workload import sharding
from simgen.workload.pieces import Piece  # noqa: TC001 - as above
from simgen.workload.samples import Sample  # noqa: TC001 - as above

if TYPE_CHECKING:
    from pathlib import Path

    import h5py
    from numpy.typing import NDArray


SCHEMA = "simgen results 2"
PROVENANCE = "provenance"
GIVEN = "given"
TEXTS = ("layer", "pass", "kernel")  # columns of the launches that are no metrics
MAX_LAUNCHES = 10**7
Index = Annotated[int, Within(0, 2**31)]
Short = Annotated[str, Sized(0, 10_000)]


@dataclass(frozen=True)
class Part:
    """Part of a workload: a run of some layers."""

    layers: Short
    inputs: Short
    steps: tuple[Index, ...]


@dataclass(frozen=True)
class Provenance:
    """What later stages ask a result's provenance for; there may be more in it."""

    simgen: Short
    compiler: Short
    ran_by: Short = ""  # version of simgen that ran it; `simgen` built it
    workload: Short = ""
    planned_for: Short = ""  # a machine, as --plan-for takes it
    data: Short = ""
    inputs: Short = ""
    target: Short = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Short] = field(default_factory=dict)
    rounds_products: tuple[ProductRounding, ...] = ()  # as Machine has it
    gpus: Annotated[int, Within(1, sharding.MAX_GPUS)] = 1  # GPUs that shared the batch
    part: Part | None = None
    resumed: tuple[Index, ...] = ()
    kernels: tuple[tuple[Index, Short], ...] | None = None
    pieces: tuple[Piece, ...] = ()
    inferred: tuple[tuple[Index, Index], ...] = ()
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True)
class SavedTensor:
    values: NDArray[Any]
    untouched: int
    guard_intact: bool


@dataclass(frozen=True)
class Saved:
    tensors: Mapping[str, SavedTensor]
    launches: tuple[Mapping[str, float], ...]
    provenance: Mapping[str, Any]
    digests: str  # as simgen.bundle.result_digest makes them
    given: Mapping[tuple[int, str], NDArray[Any]]  # as simgen.bundle.results has it


def check_provenance(told: Any, workload: Workload | None) -> None:
    """Raise SchemaError unless it is the provenance of a result, and of this workload's layers."""
    found = from_json(Provenance, told, more=True)
    if workload is None:
        return
    steps = {*(found.part.steps if found.part else ()), *(at for at, _ in found.kernels or ())}
    if steps and max(steps) >= len(workload.steps):
        raise SchemaError("steps that the workload does not have").under("Provenance")
    if any(max(pair) >= len(workload.launches) for pair in found.inferred):
        raise SchemaError("launches that the workload does not have").under("Provenance")
    run_record.check_samples(found.samples, workload, "Provenance.samples")
    gpus = found.gpus
    shared = {step.layer for step in workload.steps if step.direction is not Pass.UPDATE}
    nodes = [node for node in workload.nodes if node.inputs and node.name in shared]
    batches = {node.inputs[0].shape[0] for node in nodes}
    if any(n % gpus for n in batches if n > 1):
        raise SchemaError(f"{gpus} GPUs cannot share the batch").under("Provenance.gpus")


def read_saved(path: Path, workload: Workload | None) -> Saved:
    """All of a results file.

    Raises:
        OSError, FormatError, SchemaError: there is none, or it is damaged.
    """
    with hdf5.opened(path) as file:
        told = _provenance(file, workload)
        tensors = hdf5.group(file, "tensors")
        found = {name: _tensor(tensors, name) for name in hdf5.names(tensors)}
        launches = _launches(hdf5.group(file, "launches"))
        digests = hdf5.document(file, result_digest.DATASET)
        given = _given_tensors(hdf5.group(file, GIVEN)) if GIVEN in file else {}
        return Saved(found, launches, told, digests, given)


def _provenance(file: h5py.File, workload: Workload | None) -> Mapping[str, Any]:
    found = hdf5.text(file, "schema", fixed=True) if "schema" in file.attrs else ""
    if found != SCHEMA:
        if not re.fullmatch(r"simgen results [0-9]{1,6}", found):
            raise FormatError("not a results file of simgen")
        fact = f"of format {found.split()[-1]}, written by another version"
        raise FormatError(f"{fact}; simgen {version()} reads format {SCHEMA.split()[-1]}")
    told: Mapping[str, Any] = schema.parse(hdf5.document(file, PROVENANCE))
    check_provenance(told, workload)
    return told


def _tensor(tensors: h5py.Group, name: str) -> SavedTensor:
    found = hdf5.dataset(tensors, name)
    dtype = element_types.dtype_of(found)
    if dtype is None:
        raise FormatError(f"dataset {printable(name)} has elements of type {found.dtype.str}")
    size = math.prod(found.shape)
    untouched = hdf5.whole_attribute(found, "untouched", size)
    intact = bool(hdf5.whole_attribute(found, "guard_intact", 1))
    return SavedTensor(element_types.mapped(found, dtype), untouched, intact)


def _given_tensors(group: h5py.Group) -> dict[tuple[int, str], NDArray[Any]]:
    """For a run by pieces: (step, tensor) -> the values that it began with."""
    found = {}
    for name in hdf5.names(group):
        step, colon, tensor = name.partition(":")
        dataset = hdf5.dataset(group, name)
        dtype = element_types.dtype_of(dataset)
        if not colon or not re.fullmatch(r"\d{1,9}", step, re.ASCII) or dtype is None:
            raise FormatError(f"dataset {printable(name)} is not what a step read")
        found[int(step), tensor] = element_types.mapped(dataset, dtype)
    return found


def _launches(table: h5py.Group) -> tuple[Mapping[str, float], ...]:
    """The metrics of each launch; NaN stands for one that it does not have."""
    import numpy as np

    count = _rows(hdf5.dataset(table, "order"))
    columns = {}
    hdf5.names(table)  # which refuses what is no name
    for name in table:  # in the order in which they were written
        if name in TEXTS or name == "order":
            continue
        column = hdf5.dataset(table, name)
        if _rows(column) != count or column.dtype.str != "<f8":
            raise FormatError(f"column {printable(name)} is not one number for each launch")
        values = hdf5.values(column)
        if not (np.isnan(values) | ((values >= 0) & np.isfinite(values))).all():
            raise FormatError(f"column {printable(name)} holds what is neither a time nor a count")
        columns[name] = values.tolist()
    return tuple(
        {name: values[at] for name, values in columns.items() if not math.isnan(values[at])}
        for at in range(count)
    )


def _rows(column: h5py.Dataset) -> int:
    """The length of a column; it has one axis."""
    if len(column.shape) != 1 or column.shape[0] > MAX_LAUNCHES:
        raise FormatError(f"not one value for each launch, but of shape {column.shape}")
    return int(column.shape[0])
