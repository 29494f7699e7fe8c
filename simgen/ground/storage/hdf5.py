"""Reading HDF5 files that anybody may have written.

A file of a few kilobytes can name other files of the machine (external links, external storage,
virtual datasets), and say that it holds more than any memory does. Here nothing outside of the file
is opened, and shapes and types are there to be checked before anything is read. Soft links to a
place in the same file are followed.
"""

from __future__ import annotations

import contextlib
import math
import os
from typing import TYPE_CHECKING, Any

from simgen.errors import one_line, printable, shortened
from simgen.ground.storage.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import h5py
    from numpy.typing import NDArray

MOST_MEMBERS = 100_000  # datasets and groups of a file
DEEPEST = 32  # groups in groups, links to links
MAX_TEXT = 2**24  # bytes
MIN_CHUNK = 2**20  # bytes; a chunk may be so large though its dataset is smaller
# zlib makes no more of a byte than this (zlib's technical details), the other filters of HDF5 less.
MAX_RATIO = 1032
UNREADABLE = (  # what HDF5 and h5py raise at a damaged file
    OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, OverflowError,
    NotImplementedError,
)  # fmt: skip


class FormatError(ValueError):
    """The file is no HDF5 file, or has something in it that is refused; without the file's name."""


@contextlib.contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """An HDF5 file, to be read; whatever HDF5 says of it becomes a FormatError.

    Raises:
        OSError: there is no such regular file.
        FormatError: as the functions below, also of what the block does with the file.
    """
    import h5py

    with open_regular(path) as file:
        # The file that was looked at, whatever its name has become the name of.
        same = f"/proc/self/fd/{file.fileno()}"
        try:
            with h5py.File(same if os.path.exists(same) else path, "r", locking=False) as found:
                yield found
        except FormatError:
            raise
        except UNREADABLE as error:
            fact = shortened(one_line(str(error)).replace(same, "the file"), 100)
            raise FormatError(fact or "HDF5 cannot read it") from None


def group(parent: h5py.Group, name: str) -> h5py.Group:
    """A group in the group `parent`.

    Raises:
        FormatError: there is none.
    """
    import h5py

    found = _member(parent, name)
    if not isinstance(found, h5py.Group):
        raise FormatError(f"{printable(name)} is not a group")
    return found


def names(parent: h5py.Group) -> list[str]:
    """The names in a group, sorted.

    Raises:
        FormatError: they are too many, or no text.
    """
    if len(parent) > MOST_MEMBERS:
        raise FormatError(f"more than {MOST_MEMBERS} datasets")
    found = sorted(parent)
    odd = next((name for name in found if not name.isprintable()), None)
    if odd is not None:
        raise FormatError(f"{printable(odd)} is not a name")
    return found


def dataset(parent: h5py.Group, name: str) -> h5py.Dataset:
    """A dataset in the group `parent`, whose values lie in the file.

    Raises:
        FormatError: there is none, or `checked` refuses it.
    """
    import h5py

    found = _member(parent, name)
    if not isinstance(found, h5py.Dataset):
        raise FormatError(f"{printable(name)} is not a dataset")
    return checked(found, name)


def datasets(file: h5py.File) -> Iterator[tuple[str, h5py.Dataset]]:
    """All datasets of a file by their places in it, those behind soft links too.

    Raises:
        FormatError: a link leads out of the file, or nowhere; `checked` refuses a dataset.
    """
    import h5py

    count = 0
    todo: list[tuple[str, Any]] = [("", file)]
    while todo:
        place, parent = todo.pop()
        for name in names(parent):
            count += 1
            whole = f"{place}/{name}" if place else name
            if count > MOST_MEMBERS or whole.count("/") > DEEPEST:
                raise FormatError("too many groups, or groups that contain themselves")
            found = _member(parent, name, whole)
            if isinstance(found, h5py.Group):
                todo.append((whole, found))
            elif isinstance(found, h5py.Dataset):
                yield whole, checked(found, whole)


def checked(found: h5py.Dataset, name: str) -> h5py.Dataset:
    """A dataset of numbers whose values lie in the file.

    Raises:
        FormatError: it takes values from other files or datasets, or has none, or other elements;
            or it claims to be larger than the file can be.
    """
    import h5py

    shown = f"dataset {printable(name)}"
    plan = found.id.get_create_plist()
    layout = plan.get_layout()
    if plan.get_external_count():
        raise FormatError(f"{shown} takes its values from another file")
    if layout == h5py.h5d.VIRTUAL:
        raise FormatError(f"{shown} takes its values from other datasets")
    if found.shape is None:
        raise FormatError(f"{shown} holds no values")
    kind = found.id.get_type().get_class()
    if kind not in (h5py.h5t.FLOAT, h5py.h5t.INTEGER):
        raise FormatError(f"{shown} has elements that are not numbers")
    nbytes = found.id.get_space().get_simple_extent_npoints() * found.id.get_type().get_size()
    if layout == h5py.h5d.CHUNKED:
        if not _fits(found, plan.get_chunk(), nbytes):
            raise FormatError(f"{shown} claims to be larger than the file can be")
    elif nbytes > found.file.id.get_filesize():
        raise FormatError(f"{shown} claims to be larger than the file")
    return found


def _fits(found: h5py.Dataset, chunk: tuple[int, ...], nbytes: int) -> bool:
    """Whether what a chunked dataset is said to hold may be made of what is stored, and of no more
    memory than that: a chunk is made as a whole, and zlib makes all that there is in it."""
    one = found.id.get_type().get_size() * math.prod(chunk)
    whole = one * math.prod(-(-extent // each) for extent, each in zip(found.shape, chunk))
    stored = int(found.id.get_storage_size())
    if one > max(MIN_CHUNK, 2 * nbytes) or stored > 2 * whole + MIN_CHUNK:
        return False
    return bool(nbytes <= stored * MAX_RATIO + one)


def values(found: h5py.Dataset) -> NDArray[Any]:
    """All values of a dataset whose shape has been checked."""
    import numpy as np

    return np.asarray(found[()])


def text(item: h5py.HLObject, name: str, *, fixed: bool = False) -> str:
    """An attribute that is one text; `fixed`: of a fixed length.

    Text of variable length lies in a heap of the file, and HDF5 2.0 looks for ever for something
    in a heap with a damaged size: in files of ours all text has a fixed length.

    Raises:
        FormatError: there is none, or it is something else.
    """
    import h5py

    if name in item.attrs:
        attribute = item.attrs.get_id(name)
        kind = attribute.get_type()
        one = attribute.shape == () and kind.get_class() == h5py.h5t.STRING
        if fixed and one and kind.is_variable_str():
            raise FormatError(f"attribute {printable(name)} is text of variable length")
        if one and attribute.get_storage_size() <= MAX_TEXT:
            found = item.attrs[name]
            found = found.decode() if isinstance(found, bytes) else found
            if isinstance(found, str) and len(found) <= MAX_TEXT:
                return found
    raise FormatError(f"attribute {printable(name)} is not text")


def write_text(item: h5py.HLObject, name: str, told: str) -> None:
    """A new attribute that is one short text: HDF5 has no room for more than 64 KiB."""
    import numpy as np

    item.attrs[name] = np.bytes_(told.encode())


def write_document(parent: h5py.Group, name: str, told: str) -> None:
    """A new dataset that is one text of any length, in bytes of UTF-8."""
    import numpy as np

    parent[name] = np.frombuffer(told.encode(), np.uint8)


def document(parent: h5py.Group, name: str) -> str:
    """A text that `write_document` wrote.

    Raises:
        FormatError: there is none, or it is something else.
    """
    import numpy as np

    found = dataset(parent, name)
    if found.ndim != 1 or found.dtype != np.uint8 or found.size > MAX_TEXT:
        raise FormatError(f"dataset {printable(name)} is not text")
    try:
        return bytes(values(found)).decode()
    except UnicodeDecodeError:
        raise FormatError(f"dataset {printable(name)} is not text") from None


def whole_attribute(item: h5py.HLObject, name: str, most: int) -> int:
    """An attribute that is one whole number from 0 to `most`; a truth is 0 or 1.

    Raises:
        FormatError: there is none, or it is something else.
    """
    import h5py

    if name in item.attrs:
        attribute = item.attrs.get_id(name)
        kinds = (h5py.h5t.INTEGER, h5py.h5t.ENUM)
        if attribute.shape == () and attribute.get_type().get_class() in kinds:
            found = int(item.attrs[name])
            if 0 <= found <= most:
                return found
    raise FormatError(f"attribute {printable(name)} is not a number from 0 to {most}")


def _member(parent: h5py.Group, name: str, place: str = "") -> Any:
    """What a name in a group stands for, in the same file."""
    import h5py

    shown = printable(place or name)
    for _ in range(DEEPEST):
        link = parent.get(name, getlink=True)
        if isinstance(link, h5py.HardLink):
            return parent[name]
        if not isinstance(link, h5py.SoftLink):
            raise FormatError(
                f"{shown} is not in the file"
                if link is None
                else f"{shown} is a link to another file"
            )
        # Step by step, so that no part of the way is a link to another file.
        parent, name = _parent(parent, link.path, shown)
    raise FormatError(f"{shown} is a link that leads nowhere")


def _parent(parent: h5py.Group, path: str, shown: str) -> tuple[h5py.Group, str]:
    """The group and the name in it that a path leads to, in which only the last may be a link."""
    import h5py

    at = parent.file["/"] if path.startswith("/") else parent
    words = [word for word in path.split("/") if word not in ("", ".")]
    for word in words[:-1]:
        link = at.get(word, getlink=True)
        at = at[word] if isinstance(link, h5py.HardLink) else None
        if not isinstance(at, h5py.Group):
            raise FormatError(f"{shown} is a link that leads nowhere")
    if not words:
        raise FormatError(f"{shown} is a link to the group that it is in")
    return at, words[-1]
