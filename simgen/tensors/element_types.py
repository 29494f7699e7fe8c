"""Element types in HDF5: readers without simgen see numbers, wherever HDF5 can tell them.

A type that NumPy lacks is a float of HDF5 with as many bits as it has; HDF5 converts that. Of types
whose largest exponent is no infinity it would make wrong numbers: they are stored as what their
bits are as whole numbers. An attribute names all of these types.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from simgen.ground.dtypes import DType, Special
from simgen.ground.storage import hdf5

if TYPE_CHECKING:
    import h5py
    from numpy.typing import NDArray

ATTRIBUTE = "type"


def is_named(dtype: DType) -> bool:
    """Whether the attribute tells the type, since NumPy does not know it."""
    return dtype.array.isbuiltin == 2


def stored(dtype: DType) -> Any:
    """The type of a dataset, as h5py takes it."""
    import h5py
    import numpy as np

    if not is_named(dtype):
        return dtype.array
    if dtype.special is not Special.IEEE:
        return np.dtype(f"<u{dtype.nbytes}")
    made = h5py.h5t.IEEE_F32LE.copy()
    made.set_fields(
        dtype.exponent + dtype.mantissa, dtype.mantissa, dtype.exponent, 0, dtype.mantissa
    )
    made.set_size(dtype.nbytes)
    made.set_ebias(dtype.bias)
    return h5py.Datatype(made)


def dtype_of(found: h5py.Dataset) -> DType | None:
    """The element type of a dataset; None where it is none of ours."""
    if ATTRIBUTE in found.attrs:
        dtype = DType.table.get(hdf5.text(found, ATTRIBUTE))
        fits = dtype and is_named(dtype) and found.id.get_type().equal(_id(dtype))
        return dtype if fits else None
    plain = (each for each in DType.table.values() if not is_named(each))
    return next((each for each in plain if found.id.get_type().equal(_id(each))), None)


def mapped(found: h5py.Dataset, dtype: DType) -> NDArray[Any]:
    """As `read`; where the values lie in the file in one piece, a page is read when it is used."""
    import numpy as np

    place, file = found.id.get_offset(), found.file.filename
    whole = place is not None and place + found.size * dtype.nbytes <= os.stat(file).st_size
    if not whole or not found.size or place % dtype.nbytes:
        return read_elements(found, dtype)
    return np.asarray(np.memmap(file, dtype.array, "r", place, found.shape))


def read_elements(found: h5py.Dataset, dtype: DType) -> NDArray[Any]:
    """All values of a dataset of this type, whose shape has been checked: its bits as they are."""
    import h5py
    import numpy as np

    values = np.empty(found.shape, dtype.array)
    if values.size:
        bits = values.view(f"<u{dtype.nbytes}")
        found.id.read(h5py.h5s.ALL, h5py.h5s.ALL, bits, mtype=found.id.get_type())
    return values


def place(parent: h5py.Group, name: str, values: NDArray[Any]) -> h5py.Dataset:
    """A new dataset for these values, which have one of our types; they are written later."""
    import h5py

    dtype = next(each for each in DType.table.values() if each.array == values.dtype)
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    made = parent.create_dataset(name, values.shape, stored(dtype), dcpl=layout)
    if is_named(dtype):
        hdf5.write_text(made, ATTRIBUTE, dtype.name)
    return made


def _id(dtype: DType) -> h5py.h5t.TypeID:
    import h5py
    import numpy as np

    kind = stored(dtype)
    return h5py.h5t.py_create(kind) if isinstance(kind, np.dtype) else kind.id
