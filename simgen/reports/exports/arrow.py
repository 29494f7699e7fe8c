"""Parquet files, through pyarrow, which is not installed with simgen."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from simgen.errors import MissingError
from simgen.ground.storage.files import atomic_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

CURE = "install it: python -m pip install pyarrow"


def is_here() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def write(
    path: Path,
    columns: Mapping[str, Sequence[Any]],
    units: Mapping[str, str],
    told: Mapping[str, str],
) -> None:
    """Write columns of one length, None where there is no value; each field's metadata has its
    unit, if it has one, and the file's has what is `told`.

    Raises:
        MissingError: pyarrow is not installed.
    """
    if not is_here():
        raise MissingError(f"{path}: Parquet needs pyarrow, which is not installed; {CURE}")
    import pyarrow
    from pyarrow import parquet

    arrays = {name: pyarrow.array(values) for name, values in columns.items()}
    fields = [
        pyarrow.field(name, array.type, metadata={"unit": units[name]} if units.get(name) else None)
        for name, array in arrays.items()
    ]
    schema = pyarrow.schema(fields, metadata=dict(told))
    table = pyarrow.Table.from_arrays(list(arrays.values()), schema=schema)
    with atomic_path(path) as temporary:
        parquet.write_table(table, temporary)
