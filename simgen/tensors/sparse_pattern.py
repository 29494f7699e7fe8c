"""Where the elements of a random sparse matrix lie, as compressed rows (CSR) say it.

All sets of so many places are equally likely. DeepBench's program keeps each element with a
probability (`generate_sparse_matrix` of code/nvidia/sparse_bench.cu); that is the same, given how
many it has kept. So rows have different lengths, and the number of elements is known before any is
drawn.

Places are drawn one after the other until there are enough different ones: those that have an
element or, where these are more than half, those that have none.
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from simgen.ground.ir import Distribution, Fill

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Indices = NDArray[np.int32]

DISTRIBUTIONS = (Distribution.ROWS, Distribution.COLUMNS)
INDICES = (*DISTRIBUTIONS, Distribution.PAIRS)
PAIRS = tuple(low | high << 2 for high in range(4) for low in range(high))  # 4 bits each
MAX_PLACES = 2**30  # places of a matrix
_LOCK = Lock()  # threads fill parts of one tensor: the first makes the pattern for all


def fill_indices(values: Indices, start: int, key: int, fill: Fill) -> None:
    """Set `values` to the elements from `start` on of the row pointers, or of the column indices.

    The matrix has `fill.a` rows, `fill.b` columns and `fill.nonzeros` elements.
    """
    with _LOCK:
        pointers, columns = pattern(key, int(fill.a), int(fill.b), fill.nonzeros or 0)
    whole = pointers if fill.distribution is Distribution.ROWS else columns
    values[:] = whole[start : start + values.size]


@lru_cache(maxsize=2)
def pattern(key: int, rows: int, columns: int, count: int) -> tuple[Indices, Indices]:
    """(row pointers, (rows + 1,); column indices, (count,), ascending in each row)."""
    import numpy as np

    places = _places(np.random.Philox(key=key), rows * columns, count)
    ends = np.searchsorted(places, np.arange(rows + 1, dtype=np.int64) * columns)
    return ends.astype(np.int32), (places % columns).astype(np.int32)


def _places(stream: np.random.Philox, size: int, count: int) -> NDArray[np.int64]:
    """So many different whole numbers of [0, size), in order."""
    import numpy as np

    wanted = count if 2 * count <= size else size - count
    found = np.empty(0, np.int64)
    while found.size < wanted:
        words = np.atleast_1d(stream.random_raw(wanted - found.size))
        drawn = (words >> np.uint64(11)) * (2.0**-53 * size)  # 53 bits, as NumPy takes them
        found = np.union1d(found, np.minimum(drawn.astype(np.int64), size - 1))
    if wanted == count:
        return found
    kept = np.ones(size, bool)
    kept[found] = False
    return np.flatnonzero(kept)


def draw_pairs(block: Indices, stream: np.random.Philox) -> None:
    """Set each word to 8 pairs, all equally likely."""
    import numpy as np

    drawn = np.atleast_1d(stream.random_raw(block.size)) >> np.uint64(11)
    words = np.zeros(block.size, np.uint32)
    for shift in range(0, 32, 4):
        drawn, chosen = np.divmod(drawn, np.uint64(len(PAIRS)))
        words |= np.array(PAIRS, np.uint32)[chosen] << np.uint32(shift)
    block[:] = words.view(np.int32)


def fault(fill: Fill) -> str | None:
    """What is wrong with a fill of these distributions, if anything."""
    rows, columns, count = fill.a, fill.b, fill.nonzeros
    if rows != int(rows) or columns != int(columns) or not 1 <= rows * columns <= MAX_PLACES:
        return f"a sparse matrix of {rows} x {columns}"
    if count is None or not 1 <= count <= rows * columns:
        return f"{count} elements of a sparse matrix of {rows} x {columns}"
    return None
