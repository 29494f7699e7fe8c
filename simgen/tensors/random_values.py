"""Values of input tensors from a counter-based generator.

A tensor's values depend on the seed, its name and its distribution, and on nothing else. The flat
tensor is cut into blocks of BLOCK elements; block i is the start of an independent stream of the
Philox-4x64-10 generator (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011):

    key      the first 16 bytes of SHA-256(seed, name)
    counter  i * 2**64, so that no two blocks of a tensor share a counter

Any block can therefore be made alone, in any order and by any number of threads, with the same
bits. Normal values come from NumPy's ziggurat, which asks the C library for a logarithm in the far
tail: there, and only there, another C library may give another last bit.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

from simgen.errors import UsageError, printable
from simgen.ground.ir import Distribution, DType, Fill, TensorSpec
from simgen.tensors import sparse_pattern, word_ids

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


GENERATOR = "philox-4x64-10/1"  # change it whenever the same seed and name give other values
BLOCK = 2**18  # elements
MAX_SEED = 2**64 - 1
_MAX_WHOLE = 2**22  # twice as many must be told apart by 24 bits


def generate(
    name: str, spec: TensorSpec, fill: Fill, seed: int, start: int = 0, count: int | None = None
) -> NDArray[Any]:
    """Elements [start, start + count) of the flat tensor `name`; all from `start` by default.

    Returns an array of shape (count,) and the type of `spec`.

    Raises:
        UsageError: `check_fill` or `check_seed` refuses the distribution or the seed.
        ValueError: the slice does not lie inside the tensor.
    """
    import numpy as np

    end = spec.size if count is None else start + count
    if not 0 <= start <= end <= spec.size:
        raise ValueError(f"{name}: [{start}, {end}) is not inside a tensor of {spec.size} elements")
    check_seed(seed)
    check_fill(name, spec.dtype, fill)
    values = np.empty(end - start, spec.dtype.array)
    fill_values(values, start, spec.dtype, block_key(fill.like or name, seed), fill)
    return values


def fill_values(values: NDArray[Any], start: int, dtype: DType, key: int, fill: Fill) -> None:
    """Set `values`, which has the type `dtype`, to the elements of a tensor from `start` on.

    Floating-point values are those of float32, rounded to the type once.
    """
    import numpy as np

    if fill.distribution in sparse_pattern.DISTRIBUTIONS:
        sparse_pattern.fill_indices(values, start, key, fill)
        return
    if fill.distribution is Distribution.ROUTES:
        word_ids.fill_routes(values, start, key, fill)
        return
    end = start + values.size
    made = DType.F32 if dtype.is_float else drawn(dtype)
    scratch = np.empty(0, made.array)
    for index in range(start // BLOCK, -(-end // BLOCK)):
        first = index * BLOCK
        part = values[max(first - start, 0) : first + BLOCK - start]
        if first >= start and made == dtype:
            fill_block(part, key, index, fill)
            continue
        scratch = np.resize(scratch, BLOCK) if not scratch.size else scratch
        block = scratch[: min(end - first, BLOCK)]
        fill_block(block, key, index, fill)
        part[:] = _as_type(block, dtype, fill)[max(start - first, 0) :]


def drawn(dtype: DType) -> DType:
    """The type in which whole numbers of a type are drawn."""
    return (
        DType.I32 if dtype.nbytes < DType.I32.nbytes or dtype == DType.I32 else DType.table["i64"]
    )


def _as_type(block: NDArray[Any], dtype: DType, fill: Fill) -> NDArray[Any]:
    """Values in the type; those below the end of a uniform distribution stay below it."""
    import numpy as np

    if dtype.is_float and fill.distribution is Distribution.UNIFORM and fill.every is None:
        np.minimum(block, np.float32(_below(fill.b, dtype)), out=block)
    with np.errstate(over="ignore"):
        return block.astype(dtype.array)


def _below(value: float, dtype: DType) -> float:
    """The largest number of the type that is less than the float32 that `value` is."""
    import numpy as np

    end = np.float32(value)
    found = end.astype(dtype.array)
    if found >= end:
        found = np.nextafter(found, np.array(-dtype.largest, dtype.array))
    return float(found)


def block_key(name: str, seed: int) -> int:
    """The 128-bit Philox key of a tensor."""
    recipe = b"%s\0%d\0%s" % (GENERATOR.encode(), seed, name.encode())
    return int.from_bytes(hashlib.sha256(recipe).digest()[:16], "little")


def fill_block(block: NDArray[Any], key: int, index: int, fill: Fill) -> None:
    """Set `block`, at most BLOCK elements of float32, int32 or int64, to the first values of block
    `index`.

    The values of a short block are the first ones of the full block. Releases the interpreter
    lock for nearly all of its time.
    """
    import numpy as np

    philox = np.random.Philox(key=key, counter=index << 64)
    if fill.distribution is Distribution.PAIRS:
        sparse_pattern.draw_pairs(block, philox)
    elif fill.distribution is Distribution.ZIPF:
        word_ids.draw(block, philox, fill)
    elif block.dtype.kind == "i":
        stream = np.random.Generator(philox)
        block[:] = stream.integers(int(fill.a), int(fill.b), block.size, block.dtype.type)
    elif fill.distribution is Distribution.NORMAL:
        np.random.Generator(philox).standard_normal(out=block, dtype=np.float32)
        block *= np.float32(fill.b)
        block += np.float32(fill.a)
    else:
        _fill_unit(block, philox)
        (_to_whole if fill.distribution is Distribution.WHOLE else _scale_uniform)(block, fill)
    if fill.low is not None:
        np.maximum(block, block.dtype.type(fill.low), out=block)
    if fill.high is not None:
        np.minimum(block, block.dtype.type(fill.high), out=block)
    if fill.every and fill.times is not None:
        block[:: fill.every] *= np.float32(fill.times)  # BLOCK is a multiple of `every`


def _fill_unit(block: NDArray[np.float32], philox: np.random.Philox) -> None:
    """Set `block` to the multiples of 2**-24 in [0, 1) that Generator.random gives, but faster.

    Each word of the stream makes two values, low half first, of the upper 24 bits of a half. NumPy
    takes them one by one; whole-array steps on the raw words take 0.7 of the time.
    """
    import numpy as np

    words = philox.random_raw((block.size + 1) // 2).view(np.uint32)[: block.size]
    words >>= np.uint32(8)
    block[:] = words.view(np.int32)  # the same numbers; processors convert signed ones faster
    block *= np.float32(2**-24)


def _scale_uniform(block: NDArray[np.float32], fill: Fill) -> None:
    """Take float32 values from [0, 1) to [a, b), in place."""
    import numpy as np

    if (fill.a, fill.b) == (0, 1):
        return
    a, b = np.float32(fill.a), np.float32(fill.b)
    block *= b - a
    block += a
    # The product and the sum round to nearest, which can reach b, the one value to leave out.
    np.minimum(block, np.nextafter(b, a), out=block)


def _to_whole(block: NDArray[np.float32], fill: Fill) -> None:
    """Take float32 values from [0, 1) to whole numbers, in place."""
    import numpy as np

    a = np.float32(fill.a)
    block *= np.float32(2 * fill.a / fill.b)
    np.floor(block, out=block)
    # From 2 a on it is a zero; where there shall be none, rounding may have led there.
    np.minimum(block, 2 * a if fill.b < 1 else 2 * a - 1, out=block)
    block -= a
    block += block >= 0
    block *= block <= a


def check_seed(seed: int) -> None:
    """Raise UsageError unless `seed` is a whole number of 64 bits."""
    if not 0 <= seed <= MAX_SEED:
        raise UsageError(f"seed: {printable(str(seed))} is out of range; use 0 to {MAX_SEED}")


def check_fill(name: str, dtype: DType, fill: Fill) -> None:
    """Refuse a distribution that has no values of the type, or infinite ones.

    Raises:
        UsageError: with the tensor's name.
    """
    fact = _fill_fault(dtype, fill)
    if fact:
        raise UsageError(f"{name}: {fact}; correct the fill of this tensor")


def _fill_fault(dtype: DType, fill: Fill) -> str | None:
    clips = [clip for clip in (fill.low, fill.high) if clip is not None]
    given = (fill.a, fill.b, *clips, fill.times or 0.0)
    if not all(math.isfinite(value) for value in given):
        return f"a {fill.distribution} fill with values that are not finite"
    if len(clips) == 2 and clips[0] > clips[1]:
        return f"a lower clip {fill.low} above the upper clip {fill.high}"
    if (fill.every is None) != (fill.times is None):
        return "elements to multiply without a factor, or a factor without elements"
    if fill.every is not None and (not 1 <= fill.every <= BLOCK or BLOCK % fill.every):
        return f"every {fill.every}th element multiplied, which is not a power of two up to {BLOCK}"
    return _float_fault(dtype, fill, given) if dtype.is_float else _integer_fault(dtype, fill)


def _integer_fault(dtype: DType, fill: Fill) -> str | None:
    import numpy as np

    if fill.every is not None:
        return "factors are of real numbers only"
    if fill.distribution in sparse_pattern.DISTRIBUTIONS and dtype == DType.I32:
        return sparse_pattern.fault(fill)
    if fill.distribution is Distribution.PAIRS and dtype == DType.I32:
        return None
    if fill.distribution in (Distribution.ZIPF, Distribution.ROUTES) and dtype == DType.I32:
        return word_ids.fault(fill)
    if fill.distribution is not Distribution.UNIFORM:
        return f"{fill.distribution} is not a distribution of whole numbers"
    limits = np.iinfo(drawn(dtype).array if dtype.is_long else dtype.array)
    least = limits.min if dtype.is_signed else 0
    for value in (fill.a, fill.b - 1, fill.low or 0, fill.high or 0):
        if value != int(value) or not least <= value <= limits.max:
            return f"{value} is not a whole number of {limits.bits} bits"
    return None if fill.a < fill.b else f"no whole number in [{fill.a}, {fill.b})"


def _whole_fault(dtype: DType, fill: Fill) -> str | None:
    most = min(_MAX_WHOLE, 2 ** (dtype.mantissa + 1))
    if fill.a != int(fill.a) or not 1 <= fill.a <= most:
        return f"whole numbers up to {fill.a}, none of 1 to {most}"
    return None if 0 < fill.b <= 1 else f"a share of {fill.b} that is not zero, none of (0, 1]"


def _float_fault(dtype: DType, fill: Fill, given: tuple[float, ...]) -> str | None:
    import numpy as np

    with np.errstate(over="ignore"):
        a, b, *_ = rounded = np.array(given, np.float32)
        ends = rounded.astype(dtype.array).astype(np.float32)
        if not np.isfinite(ends).all() or not np.isfinite(b - a):
            return f"a {fill.distribution} fill that overflows {dtype.numpy}"
    if fill.distribution is Distribution.WHOLE:
        return _whole_fault(dtype, fill)
    if fill.distribution is Distribution.NORMAL:
        return None if fill.b >= 0 else f"a negative standard deviation {fill.b}"
    if fill.distribution in (*sparse_pattern.INDICES, Distribution.ZIPF, Distribution.ROUTES):
        return f"{fill.distribution} is a distribution of whole numbers"
    # Numbers of a narrow type must not lie between two neighbouring float32 values.
    some = a < b and (dtype == DType.F32 or _below(fill.b, dtype) >= a)
    return None if some else f"no {dtype.numpy} value in [{fill.a}, {fill.b})"
