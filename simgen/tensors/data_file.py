"""data.h5: the input tensors of a workload, laid out to be mapped or read into place.

    [0, user block)   the header that launchers read: where each dataset lies
    HDF5              one dataset per input, named as its buffer, and "canary"

Each dataset is contiguous and starts on a page of the file. HDF5 calls the first bytes of a file,
which it leaves alone, the user block. The header there (tensors/header.py) spares launchers an
HDF5 parser. It holds the SHA-256 of the recipe, not of the content (`data_id`).

Attributes of a dataset tell its distribution and seed, and the SHA-256 of its content as a tree:
of the digests of its blocks of BLOCK_NBYTES, put together in order. The digest of the file is
made of these trees and of what lies between the datasets; a bundle's manifest has it.

Nothing here imports NumPy or h5py before a tensor's values are needed: `is_current` is on the path
of every build.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.errors import DamagedError, SimgenError, UsageError
from simgen.ground.ir import GUARD, PAGE, Buffer, Distribution, DType, Fill, Workload, to_json
from simgen.ground.storage import hdf5
from simgen.ground.storage.files import atomic_path
from simgen.tensors import element_types
from simgen.tensors.block_io import (
    BLOCK_NBYTES,
    Block,
    BlockFile,
    check_place,
    disk_errors,
    for_each_block,
)
from simgen.tensors.digest import blocks_in, digest_of, gaps, tree_digests, trees
from simgen.tensors.header import DatasetEntry, Header, damaged, header_nbytes, read_header
from simgen.tensors.random_values import (
    GENERATOR,
    block_key,
    check_fill,
    check_seed,
    fill_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from simgen.tensors.block_io import Progress

    Attribute = tuple[str, str | int | float]

__all__ = [
    "CANARY_NAME",
    "DataFile",
    "DatasetEntry",
    "Header",
    "canary_nbytes",
    "data_id",
    "is_current",
    "is_whole",
    "load",
    "read_header",
    "verify",
    "write_data",
    "write_raw",
]

CANARY_NAME = "canary"
RAW_NAME = "raw"  # the tensor whose values `write_raw` writes
RAW_FILL = Fill(Distribution.UNIFORM, 0.0, 1.0)
DIGEST = "sha256"  # attribute
_FORMAT = "data.h5/1"  # change it whenever the same workload gives another file
WORDS = 8  # bytes; a narrow tensor is filled up to a multiple of so many, or half of them
_MAX_CANARY = 4 * 2**20  # bytes; launchers repeat the pattern over larger tensors
# Datasets made before the file is closed and opened again: HDF5 looks for a place through all the
# gaps that aligning has left since then, for every dataset and attribute.
_AT_A_TIME = 256
_METADATA = 2**15  # bytes per dataset, at most, for HDF5's own structures
_PARAMETERS = {  # attribute names of Fill.a and Fill.b
    Distribution.UNIFORM: ("from", "below"),
    Distribution.NORMAL: ("mean", "standard_deviation"),
    Distribution.WHOLE: ("largest", "share_not_zero"),
    Distribution.ROWS: ("matrix_rows", "matrix_columns"),
    Distribution.COLUMNS: ("matrix_rows", "matrix_columns"),
    Distribution.PAIRS: ("from", "below"),
    Distribution.ZIPF: ("words", "exponent"),
    Distribution.ROUTES: ("words", "exponent"),
}


@dataclass(frozen=True)
class DataFile:
    """A data file that was written."""

    path: Path
    header: Header
    digest: str  # as `verify` returns it


@dataclass(frozen=True)
class _Dataset:
    """A dataset to write: `fill` sets elements in a row, given where in the tensor they start."""

    name: str
    shape: tuple[int, ...]
    array: np.dtype[Any]
    nbytes: int  # as in memory: behind the last element zeros may follow
    fill: Callable[[NDArray[Any], int], None]
    attributes: tuple[Attribute, ...]
    stored: Any = None  # its type in HDF5, if not `array`


def data_id(workload: Workload) -> bytes:
    """SHA-256 of all that decides the content of the workload's data file: 32 bytes."""
    recipe = {
        "format": _FORMAT,
        "generator": GENERATOR,
        "seed": workload.seed,
        "inputs": [
            {"name": b.name, "spec": to_json(b.spec), "fill": _fill_recipe(b)}
            for b in workload.inputs
        ],
        "canary_nbytes": canary_nbytes(workload),
    }
    if workload.canary != DType.F32.canary:
        recipe["canary"] = workload.canary
    text = json.dumps(recipe, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()


def _fill_recipe(buffer: Buffer) -> dict[str, str | float]:
    """A fill as JSON in which 1 and 1.0 are the same, as they are in the data."""
    if buffer.values:
        return {DIGEST: buffer.values}
    members = {} if buffer.fill is None else to_json(buffer.fill)
    return {k: v if isinstance(v, str) else float(v) for k, v in members.items() if v is not None}


def canary_nbytes(workload: Workload) -> int:
    """Size of the canary pattern: the largest output with its guard, or 4 MiB and a guard."""
    largest = max((b.spec.held for b in workload.outputs), default=0)
    return min(-(-largest // PAGE) * PAGE, _MAX_CANARY) + GUARD


def write_data(
    path: Path,
    workload: Workload,
    *,
    values: Mapping[str, NDArray[Any]] | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
    shown: Path | None = None,
) -> DataFile:
    """Write the workload's data file; the bytes do not depend on `threads`.

    `values` holds, by name, the inputs of which the workload tells a digest.
    `progress` is called with (bytes done, bytes in all). A failed or interrupted call leaves
    nothing behind and an earlier file as it was. Errors name the file `shown`, where it is written
    in a place that only the program knows.

    Raises:
        MissingError: the disk is too small.
        UsageError: `path` cannot be written, or an input has no possible values.
    """
    datasets = _datasets(workload, values or {})
    user_block = max(PAGE, 1 << (header_nbytes(len(datasets)) - 1).bit_length())
    needed = user_block + sum(d.nbytes + PAGE + _METADATA for d in datasets)
    with disk_errors(shown or path, needed):
        check_place(path, needed, shown)
        with atomic_path(path) as part:
            entries = _create(part, datasets, user_block)
            size = part.stat().st_size
            digests = _write_blocks(part, size, datasets, entries, progress, threads)
            _set_digests(part, datasets, digests)
            if part.stat().st_size != size:
                raise SimgenError(f"{path}: HDF5 moved datasets of a finished file; report this")
            header = Header(data_id(workload), size, entries)
            with part.open("r+b") as file:
                file.write(header.pack())
            between = trees(part, gaps(header), threads, None)
    return DataFile(path, header, digest_of([*digests, *between]))


def write_raw(
    path: Path,
    nbytes: int,
    seed: int,
    *,
    progress: Progress | None = None,
    threads: int | None = None,
) -> None:
    """Write little-endian float32 values, uniform in [0, 1), and nothing else.

    This is the format of DNNMark's `-mmap` option. The values are those of a tensor named "raw",
    so a longer file begins with the bytes of a shorter one.

    Raises:
        MissingError: the disk is too small.
        UsageError: `nbytes` is not a positive multiple of 4, or `path` cannot be written.
    """
    each = DType.F32.nbytes
    if nbytes <= 0 or nbytes % each:
        fact = f"{nbytes} bytes are not a whole number of float32 values"
        raise UsageError(f"{path}: {fact}; give a positive multiple of {each}")
    check_seed(seed)
    fill = functools.partial(_fill_random, block_key(RAW_NAME, seed), RAW_FILL, DType.F32)
    dataset = _Dataset(RAW_NAME, (nbytes // each,), DType.F32.array, nbytes, fill, ())
    with disk_errors(path, nbytes):
        check_place(path, nbytes)
        with atomic_path(path) as part:
            _write_blocks(
                part, nbytes, (dataset,), (DatasetEntry(0, nbytes),), progress, threads, False
            )


def is_current(path: Path, workload: Workload) -> bool:
    """Whether `path` is a whole data file made for exactly this workload. Reads only its header."""
    try:
        return read_header(path).id == data_id(workload)
    except DamagedError:
        return False


def load(path: Path, workload: Workload) -> dict[str, NDArray[Any]]:
    """The input tensors by buffer name, read-only and mapped: a page is read when it is used.

    Raises:
        DamagedError: as `read_header`; also where the file is of another workload.
    """
    import numpy as np

    header = _header_of(path, workload)
    return {
        b.name: np.asarray(np.memmap(path, b.spec.dtype.array, "r", e.offset, b.spec.shape))
        for b, e in zip(workload.inputs, header.entries, strict=False)  # the last is the canary
    }


def verify(
    path: Path,
    workload: Workload,
    digest: str = "",
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> str:
    """Read the whole file and compare it with `digest`, and each dataset with the digest that was
    stored with it. `progress` is called with (bytes done, bytes in all).

    Returns the digest of the file.

    Raises:
        DamagedError: as `load`; it names the first dataset that differs.
    """
    header = _header_of(path, workload)
    names = [*(b.name for b in workload.inputs), CANARY_NAME]
    found = trees(path, [*header.entries, *gaps(header)], threads, progress)
    if digest_of(found) == digest:  # so that nothing needs to be asked of HDF5
        return digest
    stored = _stored_digests(path, names, header.entries)
    for name, tree, expected in zip(names, found, stored, strict=False):
        if tree != expected:
            raise damaged(path, f"dataset {name} does not have the stored {DIGEST}")
    if digest:
        raise damaged(path, "changed since it was built, outside of the datasets")
    return digest_of(found)


def is_whole(
    path: Path, workload: Workload, digest: str, *, progress: Progress | None = None
) -> bool:
    """Whether `path` is the data file of this workload that has this digest. Reads all of it."""
    try:
        return bool(digest) and verify(path, workload, digest, progress=progress) == digest
    except DamagedError:
        return False


def _header_of(path: Path, workload: Workload) -> Header:
    header = read_header(path)
    expected = [*(b.spec.held for b in workload.inputs), canary_nbytes(workload)]
    if header.id != data_id(workload) or [e.nbytes for e in header.entries] != expected:
        raise damaged(path, f"made for other tensors or another seed than {workload.name}")
    return header


def _datasets(workload: Workload, values: Mapping[str, NDArray[Any]]) -> tuple[_Dataset, ...]:
    """What the file holds, in the order of the header."""
    check_seed(workload.seed)
    datasets = []
    for b in workload.inputs:
        if b.fill is None or "/" in b.name or b.name in (".", CANARY_NAME):
            raise SimgenError(f"{b.name}: this input cannot be a dataset; report this")
        attributes: tuple[Attribute, ...] = (("distribution", "given"),)
        fill: Callable[[NDArray[Any], int], None]
        if b.values:
            fill = functools.partial(_fill_given, values[b.name].reshape(-1))
        else:
            check_fill(b.name, b.spec.dtype, b.fill)
            dtype = b.spec.dtype
            key = block_key(b.fill.like or b.name, workload.seed)
            fill = functools.partial(_fill_random, key, b.fill, dtype)
            attributes = (*_fill_attributes(b.fill), ("seed", workload.seed))
        datasets.append(_dataset(b, fill, attributes))
    return (*datasets, _canary(workload))


def _dataset(
    buffer: Buffer, fill: Callable[[NDArray[Any], int], None], attributes: tuple[Attribute, ...]
) -> _Dataset:
    spec, stored = buffer.spec, element_types.stored(buffer.spec.dtype)
    if element_types.is_named(spec.dtype):
        attributes = (*attributes, (element_types.ATTRIBUTE, spec.dtype.name))
    array = spec.dtype.array
    return _Dataset(buffer.name, spec.shape, array, spec.held, fill, attributes, stored)


def _canary(workload: Workload) -> _Dataset:
    import numpy as np

    word, nbytes, value = np.dtype("<u4"), canary_nbytes(workload), workload.canary
    fill = functools.partial(_fill_constant, value)
    shape = (nbytes // word.itemsize,)
    return _Dataset(CANARY_NAME, shape, word, nbytes, fill, (("value", value),))


def _fill_attributes(fill: Fill) -> list[Attribute]:
    first, second = _PARAMETERS[fill.distribution]
    attributes: list[Attribute] = [("distribution", str(fill.distribution))]
    attributes += [(first, float(fill.a)), (second, float(fill.b))]
    clips = (("raised_to", fill.low), ("lowered_to", fill.high))
    attributes += [(name, float(clip)) for name, clip in clips if clip is not None]
    if fill.every and fill.times is not None:
        attributes += [("every", fill.every), ("times", float(fill.times))]
    if fill.nonzeros is not None:
        attributes.append(("nonzeros", fill.nonzeros))
    if fill.like:
        attributes.append(("like", fill.like))
    return [*attributes, ("generator", GENERATOR)]


def _fill_random(key: int, fill: Fill, dtype: DType, part: NDArray[Any], start: int) -> None:
    fill_values(part, start, dtype, key, fill)


def _fill_given(values: NDArray[Any], part: NDArray[Any], start: int) -> None:
    part[:] = values[start:][: part.size]


def _fill_constant(value: int, part: NDArray[Any], start: int) -> None:
    part.fill(value)


def _create(path: Path, datasets: Sequence[_Dataset], user_block: int) -> tuple[DatasetEntry, ...]:
    """Write everything of HDF5 but the values; the same bytes each time.

    The oldest format that holds these datasets is asked for: every reader knows it, and it has no
    checksum that later writes would break.
    """
    import h5py
    import numpy as np

    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    entries = []
    options = {
        "locking": False,  # nobody else knows this file, and not every file system has locks
        "libver": ("earliest", "v108"),
        "alignment_threshold": 1,  # bytes: align the smallest dataset too
        "alignment_interval": PAGE,
    }
    for first in range(0, len(datasets), _AT_A_TIME):
        mode = {"mode": "r+"} if first else {"mode": "w", "userblock_size": user_block}
        with h5py.File(path, **mode, **options) as file:
            for d in datasets[first : first + _AT_A_TIME]:
                kind = d.array if d.stored is None else d.stored
                made = file.create_dataset(d.name, d.shape, kind, dcpl=layout, track_times=False)
                for name, value in d.attributes:
                    made.attrs[name] = np.uint64(value) if isinstance(value, int) else value
                made.attrs.create(DIGEST, np.bytes_(b"0" * 64))  # its place; the value comes later
                entries.append(DatasetEntry(made.id.get_offset(), d.nbytes))
    if any(entry.offset % PAGE for entry in entries):
        raise SimgenError(f"{path}: HDF5 did not align a dataset; report this")
    return tuple(entries)


def _write_blocks(
    path: Path,
    file_nbytes: int,
    datasets: Sequence[_Dataset],
    entries: Sequence[DatasetEntry],
    progress: Progress | None,
    threads: int | None,
    hashed: bool = True,
) -> list[str]:
    """Write the values of all datasets to where they lie; the tree digest of each, in hex."""
    import numpy as np

    file = BlockFile(path, file_nbytes)

    def work(block: Block, buffer: memoryview) -> bytes:
        dataset = datasets[block.tensor]
        elements = np.frombuffer(buffer, dataset.array)
        start = block.index * (BLOCK_NBYTES // dataset.array.itemsize)
        inside = elements[: math.prod(dataset.shape) - start]
        dataset.fill(inside, start)
        elements[inside.size :] = 0
        file.write(buffer, block.offset)
        return hashlib.sha256(buffer).digest() if hashed else b""

    try:
        blocks = blocks_in(entries)
        results = for_each_block(blocks, work, threads, progress)
    finally:
        file.close()
    return tree_digests(blocks, results, len(datasets))


def _set_digests(path: Path, datasets: Sequence[_Dataset], digests: Sequence[str]) -> None:
    import h5py
    import numpy as np

    with h5py.File(path, "r+", locking=False) as file:
        for dataset, digest in zip(datasets, digests, strict=True):
            file[dataset.name].attrs.modify(DIGEST, np.bytes_(digest.encode()))


def _stored_digests(path: Path, names: Sequence[str], entries: Sequence[DatasetEntry]) -> list[str]:
    """The digests in the attributes; also checks that HDF5 and the header tell the same places."""
    try:
        with hdf5.opened(path) as file:
            for name, entry in zip(names, entries, strict=True):
                found = hdf5.dataset(file, name).id
                held = found.get_storage_size() <= entry.nbytes < found.get_storage_size() + WORDS
                if not held or (found.get_offset() or 0) != entry.offset:
                    raise damaged(path, f"the header has dataset {name} in another place")
            return [hdf5.text(file[name], DIGEST) for name in names]
    except (OSError, ValueError) as error:
        fact = getattr(error, "strerror", None) or error
        raise damaged(path, f"HDF5 cannot read it ({fact})") from None
