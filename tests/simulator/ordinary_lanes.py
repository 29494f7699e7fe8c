"""What the kernels of lanes.hip and atomics.hip compute, with NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from ordinary import BLOCK, ITEMS, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from ordinary import Words

    Array = NDArray[Any]

at = np.arange(ITEMS)


# Lanes ---------------------------------------------------------------------------------------


def waves(row: Array) -> Array:
    return row.reshape(-1, 64)


@kernel("words")
def wave_sum(w: Words) -> Array:
    return np.repeat(waves(w.i[0]).sum(1, dtype="i4"), 64)


@kernel("words")
def shuffle_down(w: Words) -> Array:
    x = waves(w.i[0])
    return np.cumsum(x[:, ::-1], axis=1, dtype="i4")[:, ::-1].ravel()


@kernel("words")
def shuffle_divergent(w: Words) -> Array:
    x = waves(w.i[0])
    result = x.copy()
    for k in range(ITEMS):
        t = k % BLOCK
        if t % 3 != 1:
            source = ((t + 3) % 63 // 3 * 3 + t % 3) % 64
            active = (k - k % 64) % BLOCK + source
            result[k // 64, k % 64] += x[k // 64, source] if active % 3 != 1 else 0
    return result.ravel()


@kernel("words")
def permute_forward(w: Words) -> Array:
    result = np.zeros((ITEMS // 64, 64), "i4")
    result[:, (np.arange(64) * 5 + 3) % 64] = waves(w.i[0])
    return result.ravel()


@kernel("words")
def swizzle_xor(w: Words) -> Array:
    x = w.i[0]
    v = np.maximum(x, x[at ^ 1])
    v = v + v[at ^ 4]
    return v - v[at ^ 1]


@kernel("words")
def dpp_scan(w: Words) -> Array:
    v = w.i[0].reshape(-1, 16)
    for s in (1, 2, 4, 8):
        v = v + np.pad(v, ((0, 0), (s, 0)))[:, :-s]
    return v.ravel()


@kernel("floats")
def dpp_quads(w: Words) -> Array:
    x = w.f[0]
    return x + x[at ^ 1] - x[at ^ 15]


@kernel("words", cleared=True)
def compact(w: Words) -> Array:
    result = np.zeros((2, ITEMS), "i4")
    for first in range(0, ITEMS, 64):
        kept = [v for v in w.i[0][first : first + 64] if v > 0]
        result[0, first : first + len(kept)] = kept
        result[1, first : first + 64] = len(kept)
    return result.ravel()


@kernel("rare")
def any_and_all(w: Words) -> Array:
    on = waves(w.i[0]) > 0
    first = np.where(on.any(1), on.argmax(1), 64)
    return np.repeat(np.concatenate([on.any(1) + 2 * on.all(1), first]), 64).astype("u4")


@kernel("words")
def read_lane(w: Words) -> Array:
    a, b = waves(w.i[0]), waves(w.i[1])
    picked = np.take_along_axis(b, a[:, :1] & 63, 1)
    return (a + picked + a[:, 13:14]).ravel()


@kernel("words")
def unique_values(w: Words) -> Array:
    results = []
    for wave in waves(w.u[0] % 5):
        order = list(dict.fromkeys(wave.tolist()))
        results += [order.index(v) + 1 for v in wave.tolist()]
    return np.array(results, "u4")


# Atomics -------------------------------------------------------------------------------------


@kernel("words", cleared=True)
def count_atomic(w: Words) -> Array:
    return np.bincount(w.u[0] % 64, minlength=64).astype("u4")


@kernel("words")
def count_shared(w: Words) -> Array:
    groups = w.u[0].reshape(-1, BLOCK) % 64
    return np.concatenate([np.bincount(g, minlength=64) for g in groups]).astype("u4")


@kernel("whole", cleared=True)
def sum_atomic(w: Words) -> Array:
    return w.f[0].reshape(-1, 8).sum(0)  # of small whole numbers: exact in any order


@kernel("words", cleared=True)
def extremes_atomic(w: Words) -> Array:
    x = w.i[0].reshape(-1, 16)
    return np.concatenate([np.maximum(x.max(0), 0), np.minimum(x.min(0), 0)])


@kernel("words", cleared=True)
def append(w: Words) -> Array:
    count = int((w.i[0] > 0).sum())
    result = np.zeros(2 * ITEMS, "i4")
    result[0] = count
    result[ITEMS : ITEMS + count] = 7
    return result


@kernel("words", cleared=True)
def bits_atomic(w: Words) -> Array:
    result = np.zeros(32, "u4")
    for x in w.u[0].tolist():
        result[x // 32 % 16] |= np.uint32(1 << x % 32)
        result[16 + x // 32 % 16] ^= np.uint32(1 << x % 32)
    return result


@kernel("words", cleared=True)
def exchange_loop(w: Words) -> Array:
    return (w.u[0] % 16).reshape(-1, 4).sum(0).astype("u4")


@kernel("words")
def shared_extreme(w: Words) -> Array:
    return np.repeat(w.i[0].reshape(-1, BLOCK).max(1), BLOCK)
