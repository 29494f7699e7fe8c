"""Files of safetensors: the length of a header, the header in JSON, and the tensors' bytes.

Source: README of github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import functools
import math
import struct
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Annotated, Any

from simgen.errors import printable
from simgen.ground.dtypes import DType
from simgen.ground.storage import schema
from simgen.ground.storage.schema import Sized, Within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

SUFFIX = ".safetensors"
LONGEST = 10**8  # bytes of a header, as its own reader has it
TYPES = {"F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "F8_E4M3": "f8e4m3fn",
         "F8_E5M2": "f8e5m2", "I64": "i64", "I32": "i32", "I16": "i16", "I8": "i8",
         "U8": "u8"}  # fmt: skip
Extent = Annotated[int, Within(0, 2**40)]


@dataclass(frozen=True)
class HeaderEntry:
    """What a header says of one; offsets are behind the header."""

    dtype: Annotated[str, Sized(1, 20)]
    shape: Annotated[tuple[Extent, ...], Sized(0, 32)]
    data_offsets: tuple[Extent, Extent]


def tensors(
    file: IO[bytes],
) -> Iterator[tuple[str, tuple[int, ...], DType, Callable[[], NDArray[Any]]]]:
    """(name, shape, type, a function that reads the values) of each.

    Raises:
        ValueError: it is no such file, or damaged.
    """
    (length,) = struct.unpack("<Q", file.read(8))
    if not 2 <= length <= LONGEST:
        raise ValueError(f"a header of {length} bytes")
    found = schema.parse(file.read(length))
    if not isinstance(found, dict):
        raise ValueError("a header that is no object")
    found.pop("__metadata__", None)
    for name, told in found.items():
        try:
            tensor = schema.from_json(HeaderEntry, told)
        except schema.SchemaError as error:
            raise error.under(printable(name)) from None
        if tensor.dtype not in TYPES:
            raise ValueError(f"{printable(name)} has elements of type {printable(tensor.dtype)}")
        dtype = DType.table[TYPES[tensor.dtype]]
        begin, end = tensor.data_offsets
        if end - begin != math.prod(tensor.shape) * dtype.nbytes:
            raise ValueError(f"{printable(name)} has {end - begin} bytes, which its shape has not")
        read = functools.partial(_values, file, 8 + length + begin, tensor.shape, dtype)
        yield name, tensor.shape, dtype, read


def _values(file: IO[bytes], at: int, shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
    import numpy as np

    file.seek(at)
    size = math.prod(shape)
    return np.frombuffer(file.read(size * dtype.nbytes), dtype.array, size).reshape(shape)
