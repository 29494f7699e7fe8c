"""A user's own values of input tensors (images, trained weights), from .npz, .npy and HDF5 files.

The workload keeps the digest of such a tensor's values (`Buffer.values`), so that a bundle is one
of the same workload only with the same values; data.h5 gets the values themselves.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from simgen.data import CANARY_NAME
from simgen.errors import UsageError, did_you_mean, one_line, printable
from simgen.ir import DType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.ir import Buffer, Workload

OPTION = "--values"
UNREADABLE = (  # what the readers of NumPy, HDF5 and zip raise at a file that is damaged or none
    OSError, ValueError, EOFError, KeyError, TypeError, RuntimeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read(paths: Sequence[Path], workload: Workload) -> dict[str, NDArray[Any]]:
    """The values in the files by input buffer of the workload, in the buffer's shape and type.

    A .npz or HDF5 file names each tensor; a .npy file is named as its tensor (conv1.w.npy).
    Floating-point values are rounded to float32, whole numbers are taken for labels only.

    Raises:
        UsageError: a file cannot be read, or holds what is no input or does not fit it.
    """
    inputs = {buffer.name: buffer for buffer in workload.inputs}
    found: dict[str, NDArray[Any]] = {}
    for path in paths:
        for name, array in _arrays(path).items():
            if name == CANARY_NAME:  # of another bundle's data.h5
                continue
            place = f"{_place(path)}: {printable(name)}"
            if name not in inputs:
                cure = did_you_mean(name, inputs)
                raise UsageError(f"{place}: no input of {workload.name}; {cure}")
            if name in found:
                raise UsageError(f"{place}: has values already; give each tensor once")
            found[name] = _fitted(place, array, inputs[name])
    return found


def given(workload: Workload, values: Mapping[str, NDArray[Any]]) -> Workload:
    """The workload with these values of its inputs in place of random ones."""
    buffers = tuple(
        replace(b, values=hashlib.sha256(values[b.name].data).hexdigest())
        if b.name in values
        else b
        for b in workload.buffers
    )
    return replace(workload, buffers=buffers)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """What a file holds, by name; arrays of Python objects are never unpickled."""
    import h5py
    import numpy as np

    try:
        if h5py.is_hdf5(path):  # also where other bytes stand before it, as in data.h5
            return _datasets(path)
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {path.name.removesuffix(".npy"): loaded}
            return dict(loaded.items())
    except UNREADABLE as error:
        fact = getattr(error, "strerror", None) or one_line(str(error))
        raise UsageError(f"{_place(path)}: {fact}; give a .npz, .npy or HDF5 file") from None


def _datasets(path: Path) -> dict[str, NDArray[Any]]:
    import h5py
    import numpy as np

    found: dict[str, NDArray[Any]] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = np.empty(0) if item.shape is None else np.asarray(item[()])

    with h5py.File(path, "r", locking=False) as file:
        file.visititems(visit)
    return found


def _fitted(place: str, array: NDArray[Any], buffer: Buffer) -> NDArray[Any]:
    import numpy as np

    spec = buffer.spec
    if array.shape != spec.shape:
        fact = f"has shape {_shape(array.shape)}, the input {_shape(spec.shape)}"
        raise UsageError(f"{place}: {fact}; reshape it, or change the layer with --set")
    if array.dtype.kind not in ("f" if spec.dtype is DType.F32 else "iu"):
        fact = f"has elements of type {array.dtype}, the input {spec.dtype.numpy}"
        raise UsageError(f"{place}: {fact}; convert it")
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(array, spec.dtype.numpy)
    if spec.dtype is DType.I32 and (values != array).any():
        raise UsageError(f"{place}: holds numbers of more than 32 bits; correct them")
    if not np.isfinite(values).all():
        at = np.unravel_index(int(np.argmin(np.isfinite(values))), spec.shape)
        where = ", ".join(map(str, at))
        raise UsageError(f"{place}: [{where}] is {array[at]}, no finite float32; correct it")
    return values


def _place(path: Path) -> str:
    return f"{OPTION} {one_line(str(path))}"


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "()"
