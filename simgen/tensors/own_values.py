"""A user's own values of input tensors (images, trained weights), from .npz, .npy,
.safetensors and HDF5 files.

The workload keeps the digest of such a tensor's values (`Buffer.values`), so that a bundle is one
of the same workload only with the same values; data.h5 gets the values themselves.
"""

from __future__ import annotations

import functools
import hashlib
import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

from simgen.ask.build import BuildChoices
from simgen.errors import UsageError, did_you_mean, one_line, printable, shortened
from simgen.frontend.network import make_layer
from simgen.ground.ir import Buffer, DType, Workload
from simgen.ground.storage import hdf5
from simgen.ground.storage.files import open_regular
from simgen.tensors import element_types, safetensors
from simgen.tensors.data_file import CANARY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from simgen.frontend.importing.draft import ModelTensor

OPTION = BuildChoices.values
MODEL = "model"  # in place of a file: the parameters of the model that the workload is made of
FORMATS = "give a .npz, .npy, .safetensors or HDF5 file"
NPY = b"\x93NUMPY"
UNREADABLE = (  # what the readers of NumPy and zip raise at a file that is damaged or none
    OSError, ValueError, EOFError, LookupError, TypeError, AttributeError, RuntimeError,
    ArithmeticError, SyntaxError, MemoryError, tokenize.TokenError, struct.error,
    zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip


@dataclass(frozen=True)
class _Array:
    """What a file says that it holds, before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[], NDArray[Any]]


def read_values(
    paths: Sequence[Path], workload: Workload, only: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """The values in the files by input buffer of the workload, in the buffer's shape and type.

    A .npz or HDF5 file names each tensor; a .npy file is named as its tensor (conv1.w.npy).
    Floating-point values are rounded to the type, whole numbers are taken for labels only.
    Shapes are compared before values are read, and no file is read but these. `only` are the
    tensors that are taken; None: all.

    Raises:
        UsageError: a file cannot be read, gives nothing, or holds what is no input or does not fit
            it.
    """
    inputs = {buffer.name: buffer for buffer in workload.inputs}
    found: dict[str, NDArray[Any]] = {}
    for path in paths:
        count = len(found)
        try:
            for name, array in _arrays(path):
                # the canary belongs to a data.h5
                if name != CANARY_NAME and (only is None or name in only):
                    place = f"{_place(path)}: {printable(name)}"
                    _check_name(place, name, inputs, found, workload)
                    found[name] = _fitted(place, array, inputs[name])
        except UNREADABLE as error:
            fact = getattr(error, "strerror", None) or shortened(one_line(str(error)), 200)
            raise UsageError(f"{_place(path)}: {fact}; {FORMATS}") from None
        if len(found) == count:
            raise UsageError(
                f"{_place(path)}: holds no tensor, so that all inputs would be random; {FORMATS} "
                "with values of an input, or leave it out"
            )
    wrong = fault(found, workload)
    if wrong:
        raise UsageError(f"{OPTION}: {wrong}")
    return found


def of_model(
    parameters: Mapping[str, ModelTensor] | None, name: str, workload: Workload
) -> dict[str, NDArray[Any]]:
    """The trained parameters of the model `name`, in the form of `read_values`.

    Raises:
        UsageError: the workload is made of no model, or a parameter does not fit into it.
    """
    if parameters is None:
        fact = f"{OPTION} {MODEL}: {name} is made of no model, which would have parameters"
        raise UsageError(f"{fact}; name a file, or write ./{MODEL}")
    trained = {buffer: each for buffer, each in parameters.items() if each.trained}
    return _of_model(trained, workload, f"{OPTION} {MODEL}")


def constants(parameters: Mapping[str, ModelTensor], workload: Workload) -> dict[str, NDArray[Any]]:
    """What else the model fixes; what exceeds the type, as a mask does, is its end.

    Raises:
        UsageError: a constant does not fit into the workload.
    """
    fixed = {buffer: each for buffer, each in parameters.items() if not each.trained}
    return _of_model(fixed, workload, "constant of the model", within=True)


def _of_model(
    parameters: Mapping[str, ModelTensor], workload: Workload, place: str, *, within: bool = False
) -> dict[str, NDArray[Any]]:
    import numpy as np

    found = {}
    for buffer in workload.inputs:
        if buffer.name in parameters:
            values = parameters[buffer.name].read()
            if within and buffer.spec.dtype.is_float:
                most = buffer.spec.dtype.largest
                wide = np.float64 if values.dtype == np.float64 else np.float32
                values = np.clip(values.astype(wide), -most, most)
            given = _Array(values.shape, values.dtype, functools.partial(_same, values))
            found[buffer.name] = _fitted(f"{place}: {buffer.name}", given, buffer)
    return found


def _same(values: NDArray[Any]) -> NDArray[Any]:
    return values


def fault(found: Mapping[str, NDArray[Any]], workload: Workload) -> str:
    """What is wrong with these values of inputs for a layer that reads them, if anything."""
    for step in workload.steps:
        given = {port: found[name] for port, name in step.reads if name in found}
        if given:
            node = workload.node(step.layer)
            wrong = make_layer(node, workload.machine).fault(given, node.inputs)
            if wrong:
                return f"{step.layer}: {wrong}"
    return ""


def _check_name(
    place: str,
    name: str,
    inputs: Mapping[str, Buffer],
    found: Mapping[str, NDArray[Any]],
    workload: Workload,
) -> None:
    if name not in inputs:
        cure = did_you_mean(name, inputs)
        raise UsageError(f"{place}: not an input of {workload.name}; {cure}")
    if name in found:
        raise UsageError(f"{place}: has values already; give each tensor once")


def with_values(workload: Workload, values: Mapping[str, NDArray[Any]]) -> Workload:
    """The workload with these values of its inputs in place of random ones."""
    buffers = tuple(
        replace(b, values=hashlib.sha256(values[b.name].reshape(-1).view("u1").data).hexdigest())
        if b.name in values
        else b
        for b in workload.buffers
    )
    return replace(workload, buffers=buffers)


def _arrays(path: Path) -> Iterator[tuple[str, _Array]]:
    """What a file holds, by name; arrays of Python objects are never unpickled."""
    with open_regular(path) as file:
        start = file.read(len(NPY))
        file.seek(0)
        if start == NPY:
            yield path.name.removesuffix(".npy"), _npy(file)
        elif start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            yield from _members(file)
        elif path.name.endswith(safetensors.SUFFIX):
            for name, shape, own, read in safetensors.tensors(file):
                yield name, _Array(shape, own.array, read)
        else:  # other bytes may stand before an HDF5 file, as in data.h5
            with hdf5.opened(path) as h5:
                for name, found in hdf5.datasets(h5):
                    dtype = element_types.dtype_of(found)
                    if dtype is None:
                        read = functools.partial(hdf5.values, found)
                        yield name, _Array(found.shape, found.dtype, read)
                    else:
                        read = functools.partial(element_types.read_elements, found, dtype)
                        yield name, _Array(found.shape, dtype.array, read)


def _members(file: IO[bytes]) -> Iterator[tuple[str, _Array]]:
    """The arrays of a .npz file."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name == member.filename:
                raise ValueError(f"its member {printable(name)} is not a .npy file")
            with archive.open(member) as stream:
                yield name, _npy(stream)


def _npy(stream: IO[bytes]) -> _Array:
    """The array of a .npy file; its header is read, and the stream stands behind it."""
    import numpy as np
    from numpy.lib import format as npy

    version = npy.read_magic(stream)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"a .npy file of version {version[0]}.{version[1]}")
    shape, by_columns, dtype = readers[version](stream)

    def values() -> NDArray[Any]:
        size = math.prod(shape)
        content = stream.read(size * dtype.itemsize)
        flat = np.frombuffer(content, dtype, size)  # ValueError where there are fewer
        return flat.reshape(shape, order="F" if by_columns else "C")

    return _Array(shape, dtype, values)


def _fitted(place: str, given: _Array, buffer: Buffer) -> NDArray[Any]:
    import numpy as np

    spec = buffer.spec
    if given.shape != spec.shape:
        fact = f"has shape {_shape(given.shape)}, the input {_shape(spec.shape)}"
        raise UsageError(
            f"{place}: {fact}; reshape it, or change the layer with {BuildChoices.set}"
        )
    if not _converts(given.dtype, spec.dtype):
        fact = (
            f"has elements of type {shortened(str(given.dtype), 60)}, the input {spec.dtype.numpy}"
        )
        raise UsageError(f"{place}: {fact}; convert it")
    array = given.read()
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(array, spec.dtype.array)
    if not spec.dtype.is_float and (values != array).any():
        bits = 8 * spec.dtype.nbytes
        raise UsageError(f"{place}: holds numbers of more than {bits} bits; correct them")
    if not np.isfinite(values).all():
        at = np.unravel_index(int(np.argmin(np.isfinite(values))), spec.shape)
        where = ", ".join(map(str, at))
        raise UsageError(
            f"{place}: [{where}] is {array[at]}, not a finite {spec.dtype.numpy}; correct it"
        )
    return values


def _converts(given: np.dtype[Any], wanted: DType) -> bool:
    """Whether values are numbers of the same kind; NumPy calls the types of others "V"."""
    known = any(given == each.array for each in DType.table.values() if each.is_float)
    if wanted.is_float:
        return given.kind == "f" or known
    return given.kind in "iu"


def _place(path: Path) -> str:
    return f"{OPTION} {one_line(str(path))}"


def _shape(shape: Sequence[int]) -> str:
    return shortened("x".join(map(str, shape)), 60) or "()"
