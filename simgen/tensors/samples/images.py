"""Images with labels, from the binary files of MNIST and of CIFAR-10 and CIFAR-100.

    MNIST     idx: two bytes of zero, 8 for unsigned bytes, the number of axes; their extents, big
              endian, 32 bits each; then the values. Images have three axes (N, H, W), labels one.
    CIFAR-10  records of 3073 bytes: the label, then 3 x 32 x 32 values, by colours
    CIFAR-100 records of 3074 bytes: the label among 20, the label among 100, then the same

Either may be compressed with gzip. Labels of an idx file of images lie beside it, under the name in
which "images" and "idx3" are "labels" and "idx1", as MNIST's files are named.

Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits"; A. Krizhevsky,
"Learning Multiple Layers of Features from Tiny Images", 2009, and the page of its binary version.
"""

from __future__ import annotations

import errno
import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.ask.build import BuildChoices
from simgen.errors import UsageError, one_line
from simgen.ground.arrays import np
from simgen.ground.storage.files import open_regular

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

OPTION = BuildChoices.data
GZIP = b"\x1f\x8b"
IDX = b"\x00\x00\x08"
MAX_NBYTES = 2**31  # bytes of a file, unpacked
COLOURS, SIDE = 3, 32  # channels and side of CIFAR's images
CIFAR = {"CIFAR-10": (10,), "CIFAR-100": (20, 100)}  # classes of each label of a record
# Files that others read, and this does not: their first bytes, what they are, the cure.
FOREIGN = (
    (b"PK\x03\x04", "a ZIP archive", "unpack it, and name the file in it"),
    (b"BZh", "packed by bzip2", "unpack it with bunzip2"),
    (b"\xfd7zXZ", "packed by xz", "unpack it with unxz"),
    (b"\x80", "a pickle of Python, as CIFAR's files for Python are", "take the binary version"),
    (b"\x89PNG", "an image by itself, without a label", "name a file of MNIST or CIFAR"),
    (b"\xff\xd8\xff", "an image by itself, without a label", "name a file of MNIST or CIFAR"),
    (b"\xff\xfe", "a text in UTF-16", "write it in UTF-8, as with iconv -f UTF-16"),
    (b"\xfe\xff", "a text in UTF-16", "write it in UTF-8, as with iconv -f UTF-16"),
    (b"\x89HDF", "an HDF5 file", f"tensors go with {BuildChoices.values}"),
    (b"\x93NUMPY", "an array of NumPy", f"tensors go with {BuildChoices.values}"),
)
TAR = (257, b"ustar")  # where it stands


@dataclass(frozen=True)
class Images:
    """Pixels (N, C, H, W) from 0 to 255, and the class of each image (N,)."""

    pixels: NDArray[Any]
    labels: NDArray[Any]
    kind: str = "MNIST"
    coarse: NDArray[Any] | None = None  # classes of CIFAR-100 among 20

    @property
    def told(self) -> str:
        extents = " x ".join(map(str, self.pixels.shape[1:]))
        return f"images of {extents} with labels, {len(self.pixels)} of them, as {self.kind}"


def content(path: Path) -> bytes:
    """The bytes of a file, unpacked if gzip has packed them.

    Raises:
        UsageError: it cannot be read, or is too large.
    """
    try:
        with open_regular(path) as file:
            packed = file.read(len(GZIP)) == GZIP
            file.seek(0)
            if packed:
                with gzip.open(file) as unpacked:
                    raw = unpacked.read(MAX_NBYTES + 1)
            else:
                raw = file.read(MAX_NBYTES + 1)
        if len(raw) > MAX_NBYTES:
            raise OSError(errno.EFBIG, f"larger than {MAX_NBYTES} bytes")
    except (OSError, EOFError, zlib.error) as error:
        fact = getattr(error, "strerror", None) or "not whole as gzip has packed it"
        raise fault(path, f"{fact}; name a file of images or a text") from None
    return raw


def fault(path: Path, text: str) -> UsageError:
    return UsageError(f"{OPTION} {one_line(str(path))}: {text}")


def is_idx(raw: bytes) -> bool:
    return raw[: len(IDX)] == IDX


def check_foreign(path: Path, raw: bytes) -> None:
    """Raises:
    UsageError: it is a file that others read.
    """
    if raw[TAR[0] : TAR[0] + len(TAR[1])] == TAR[1]:
        raise fault(path, "an archive of tar; unpack it, and name the file in it")
    for start, what, cure in FOREIGN:
        if raw.startswith(start):
            raise fault(path, f"{what}; {cure}")


def cifar_kind(path: Path, raw: bytes) -> str:
    """Which of CIFAR it is, by whole records whose labels are classes; empty: none.

    A file that is called .bin is one: of the kind of which it has whole records, if any.
    """
    for kind, classes in CIFAR.items():
        if _holds_records(kind, raw) and all(
            max(raw[at :: _record(kind)]) < most for at, most in enumerate(classes)
        ):
            return kind
    if not path.name.removesuffix(".gz").endswith(".bin"):
        return ""
    return next((kind for kind in CIFAR if _holds_records(kind, raw)), "CIFAR-10")


def _record(kind: str) -> int:
    return len(CIFAR[kind]) + COLOURS * SIDE * SIDE


def _holds_records(kind: str, raw: bytes) -> bool:
    return bool(raw) and len(raw) % _record(kind) == 0


def idx(path: Path, raw: bytes) -> NDArray[Any]:
    """The array in an idx file of unsigned bytes.

    Raises:
        UsageError: it is none, or not whole.
    """
    if not is_idx(raw):
        fact = f"begins with {raw[:4].hex() or 'nothing'}, no idx file of bytes (000008)"
        raise fault(path, f"{fact}; name one of MNIST, CIFAR or a text")
    axes = raw[3] if len(raw) > 3 else 0
    start = 4 + 4 * axes
    if not 1 <= axes <= 3 or len(raw) < start:
        raise fault(path, f"an idx file of {axes} axes; images have 3, and labels 1")
    shape = struct.unpack(f">{axes}I", raw[4:start])
    if len(raw) - start != math.prod(shape):
        said = " x ".join(map(str, shape))
        fact = f"{len(raw) - start} bytes behind its header, which says {said}"
        raise fault(path, f"{fact}; copy it again")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def labels_of(path: Path) -> Path:
    """Where the labels of an idx file of images lie; the file itself if its name does not tell."""
    return path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))


def mnist(path: Path, raw: bytes) -> Images:
    """Images of an idx file, with the labels of the file beside it.

    Raises:
        UsageError: one of them is not what it should be, or they do not fit together.
    """
    pixels = idx(path, raw)
    beside = labels_of(path)
    if pixels.ndim != 3:
        raise fault(path, f"an idx file of {pixels.ndim} axes; name that of the images, with 3")
    if beside == path:
        raise fault(path, 'has no "images" in its name, which tells that of its labels; rename it')
    labels = idx(beside, content(beside))
    if labels.shape != pixels.shape[:1]:
        said = " x ".join(map(str, labels.shape))
        fact = f"{said} labels for {len(pixels)} images of {path.name}"
        raise fault(beside, f"{fact}; take the two that belong together")
    return Images(pixels[:, np.newaxis], labels)


def cifar(path: Path, raw: bytes, kind: str) -> Images:
    """Images and labels of the binary version of CIFAR-10 or CIFAR-100.

    Raises:
        UsageError: it has no whole records, or a label is no class.
    """
    if not _holds_records(kind, raw):
        known = " or ".join(f"{_record(each)} ({each})" for each in CIFAR)
        fact = f"{len(raw)} bytes are no whole records of {known}"
        raise fault(path, f"{fact}, as the binary versions have; copy it again")
    records = np.frombuffer(raw, np.uint8).reshape(-1, _record(kind))
    count = len(CIFAR[kind])
    for at, classes in enumerate(CIFAR[kind]):
        wrong = np.flatnonzero(records[:, at] >= classes)
        if wrong.size:
            fact = f"the label of image {wrong[0]} is {records[wrong[0], at]}, of {classes} classes"
            raise fault(path, f"{fact} of {kind}; copy it again")
    pixels = records[:, count:].reshape(-1, COLOURS, SIDE, SIDE)
    coarse = records[:, 0] if count > 1 else None
    return Images(pixels, records[:, count - 1], kind, coarse)
