"""ELF files of anybody, which may be damaged anywhere."""

from __future__ import annotations

import contextlib
import io
import struct
import zlib
from typing import TYPE_CHECKING

from simgen.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elftools.elf.elffile import ELFFile


@contextlib.contextmanager
def opened(
    content: bytes, place: str, what: str = "code object", cure: str = "build it again"
) -> Iterator[ELFFile]:
    """The parsed file.

    Raises:
        DamagedError: whatever the parser trips over, also while the file is read.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        yield ELFFile(io.BytesIO(content))
    except (
        ELFError,
        ValueError,
        LookupError,
        AttributeError,
        OverflowError,
        TypeError,
        struct.error,
        zlib.error,
    ) as error:
        raise DamagedError(f"{place}: not a whole {what} ({error}); {cure}") from None
