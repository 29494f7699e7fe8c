"""What the kernels of integers.hip and groups.hip compute, with NumPy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from ordinary import BLOCK, ITEMS, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from ordinary import Words

    Array = NDArray[Any]

F = np.float32
at = np.arange(ITEMS)
lane = at % 64


def u32(values: Any) -> Array:
    """The lower 32 bits of Python's or NumPy's integers."""
    return np.array([int(v) & 0xFFFFFFFF for v in values], "u4")


def leading(x: int, width: int) -> int:
    return width - x.bit_length()


def trailing(x: int, width: int) -> int:
    return (x & -x).bit_length() - 1 if x else width


@kernel("words")
def count_bits(w: Words) -> Array:
    a, b = w.u[0].tolist(), w.u[1].tolist()
    first = [x.bit_count() + 100 * trailing(y, 32) for x, y in zip(a, b)]
    return u32([*first, *(leading(x, 32) for x in a)])


@kernel("words")
def count_bits_64(w: Words) -> Array:
    x = w.u64[:ITEMS].tolist()
    first = [v.bit_count() + 100 * leading(v, 64) for v in x]
    return u32([*first, *(trailing(v, 64) for v in x)])


@kernel("words")
def rotate(w: Words) -> Array:
    def left(x: int, n: int) -> int:
        return x << n | x >> (32 - n)

    x = w.u[0].tolist()
    turned = [left(a, b & 31) ^ left(a, 7) for a, b in zip(x, w.u[1].tolist())]
    return u32([*turned, *(int(f"{a:032b}"[::-1], 2) for a in x)])


@kernel("words")
def morton(w: Words) -> Array:
    return u32(int(f"{x & 0xFFFF:b}".replace("0", "00").replace("1", "01"), 2) for x in w.u[0])


@kernel("words")
def divide_unsigned(w: Words) -> Array:
    a, b = w.u[0], np.where(w.u[1] == 0, 1, w.u[1]).astype("u4")
    return np.concatenate([a // b, a % b + a // 7])


@kernel("words")
def divide_signed(w: Words) -> Array:
    b = w.i[1] >> 16
    pairs = [(int(x), int(y) or 3) for x, y in zip(w.i[0], b)]
    quotients = [abs(x) // abs(y) * (1 if x * y >= 0 else -1) for x, y in pairs]
    tens = [abs(x) // 10 * (1 if x >= 0 else -1) for x, _ in pairs]
    rest = [x - q * y - t for (x, y), q, t in zip(pairs, quotients, tens)]
    return u32([*quotients, *rest])


@kernel("words")
def divide_64(w: Words) -> Array:
    half = ITEMS // 2
    return w.u64[:half] // (w.u64[half : 2 * half] >> np.uint64(20) | np.uint64(1))


@kernel("words")
def multiply_64(w: Words) -> Array:
    x, half = w.u64.tolist(), ITEMS // 2
    products = [x[k] * x[half + k] for k in range(half)]
    return np.array([((p >> 64) + p) & (2**64 - 1) for p in products], "u8")


@kernel("words")
def split_mix(w: Words) -> Array:
    z = w.u[0].astype("u8") * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.concatenate([z, z >> np.uint64(32)]).astype("u4")


@kernel("words")
def signed_64(w: Words) -> Array:
    a = w.u64[:ITEMS].view("i8")
    b = a[(at + 1) % ITEMS]
    bits = (a < b) + 2 * (a == b) + 4 * (a + b > 0) + 8 * (a - b >= -1)
    return np.concatenate([bits, np.minimum(a, b) >> lane]).astype("u4")


@kernel("words")
def common_divisor(w: Words) -> Array:
    return np.gcd(w.u[0] & 0xFFFF, w.u[1] & 0xFFFF)


@kernel("words")
def binary_divisor(w: Words) -> Array:
    return np.gcd(w.u[0] | 1, w.u[1] | 1)


@kernel("words")
def state_machine(w: Words) -> Array:
    table = {  # state: (next for 0, next for 1, what happens to the count)
        0: (0, 1, lambda n: n), 1: (3, 2, lambda n: n + 1), 2: (0, 4, lambda n: n + 10),
        3: (5, 0, lambda n: n ^ 3), 4: (1, 4, lambda n: n + 100), 5: (6, 2, lambda n: n + 7),
        6: (0, 0, lambda n: n - 1),
    }  # fmt: skip
    results = []
    for x in w.u[0].tolist():
        state = count = 0
        for k in range(32):
            *following, change = table[state]
            count, state = change(count) & 0xFFFFFFFF, following[x >> k & 1]
        results.append(count * 8 + state)
    return u32(results)


@kernel("words")
def opcode_switch(w: Words) -> Array:
    a, b = w.u[0], w.u[1]
    n = b & 31
    choices = [a + b, a - b, a * b, a & b, a | b, a ^ b, a << n, a >> n, ~a]
    return np.choose(a % 9, choices)


@kernel("sorted")
def binary_search(w: Words) -> Array:
    return np.searchsorted(w.u[0], w.u[1]).astype("u4")


@kernel("words")
def collatz(w: Words) -> Array:
    def steps(n: int) -> int:
        count = 0
        while n != 1:
            n, count = (3 * n + 1 if n & 1 else n // 2), count + 1
        return count

    return u32(steps((x & 1023) + 1) for x in w.u[0].tolist())


@kernel("words")
def saturating(w: Words) -> Array:
    a, b = w.i[0].astype(int), w.i[1].astype(int)
    total = np.clip(a + b, -(2**31), 2**31 - 1)
    product = np.where(abs(a * b + 0.5) > 2.0**31, -1, a * b)
    return np.concatenate([total, product]).astype("i4")


@kernel("words")
def xor_shift(w: Words) -> Array:
    s = w.u[0] | 1
    for _ in range(20):
        s = s ^ s << 13
        s = s ^ s >> 17
        s = s ^ s << 5
    return s


@kernel("words")
def integer_root(w: Words) -> Array:
    return u32(math.isqrt(x) for x in w.u[0].tolist())


@kernel("words")
def checksum(w: Words) -> Array:
    crc = ~w.u[0]
    for _ in range(32):
        crc = crc >> 1 ^ np.where(crc & 1, 0xEDB88320, 0).astype("u4")
    return ~crc


@kernel("words")
def absolute_differences(w: Words) -> Array:
    a, b = (row.view("u1").reshape(-1, 4).astype(int) for row in w.u[:2])
    return abs(a - b).sum(1).astype("u4")


@kernel("words")
def magic_square(w: Words) -> Array:
    a, b = (row.astype(int) >> 20 for row in w.i[:2])
    return (abs(a - b) * np.maximum(a, b) + np.where(a < 0, -1, 1) * (b & -b)).astype("i4")


# Work-groups ---------------------------------------------------------------------------------


def folded(rows: Array) -> Array:
    """Sums of rows, added up as a tree."""
    rows = rows.copy()
    while (half := rows.shape[1] // 2) > 0:
        rows = rows[:, :half] + rows[:, half : 2 * half]
    return rows[:, 0]


@kernel("floats")
def block_sum(w: Words) -> Array:
    return folded(w.f[0].reshape(-1, BLOCK))


@kernel("words")
def scan(w: Words) -> Array:
    return np.cumsum(w.u[0].reshape(-1, BLOCK), axis=1, dtype="u4").ravel()


@kernel("words")
def tree_scan(w: Words) -> Array:
    x = w.u[0].reshape(-1, BLOCK)
    return (np.cumsum(x, axis=1, dtype="u4") - x).ravel()


@kernel("floats")
def transpose(w: Words) -> Array:
    return w.f[0].reshape(16, 32).T.ravel()


@kernel("words")
def bitonic_sort(w: Words) -> Array:
    return np.sort(w.i[0].reshape(-1, BLOCK), axis=1).ravel()


@kernel("floats")
def sorting_network(w: Words) -> Array:
    return np.sort(w.f, axis=0)[[1, 3]].ravel()


@kernel("floats")
def stencil(w: Words) -> Array:
    x = np.pad(w.f[0], 1)
    return F(0.25) * x[:-2] + F(0.5) * x[1:-1] + F(0.25) * x[2:]


@kernel("floats")
def stencil_2d(w: Words) -> Array:
    x = w.f[0]
    column, zero = at % 23, F(0)
    total = F(-4) * x
    total = total + np.where(column > 0, np.roll(x, 1), zero)
    total = total + np.where(column < 22, np.append(x[1:], w.f[1][0]), zero)
    total = total + np.where(at >= 23, np.roll(x, 23), zero)
    return total + np.where(at + 23 < ITEMS, np.roll(x, -23), zero)


@kernel("floats")
def matrix_tile(w: Words) -> Array:
    a, b = (row.reshape(-1, 16, 16) for row in w.f[:2])
    total = np.zeros_like(a)
    for k in range(16):
        total += a[:, :, k : k + 1] * b[:, k : k + 1, :]
    return total.ravel()


@kernel("words")
def gather(w: Words) -> Array:
    return w.u[0][w.u[1] % ITEMS]


@kernel("words")
def scatter(w: Words) -> Array:
    result = np.empty(ITEMS, "u4")
    result[(at * 77 + 5) % ITEMS] = w.u[0]
    return result


@kernel("ties")
def arg_max(w: Words) -> Array:
    return w.f[0].reshape(-1, BLOCK).argmax(1).astype("u4")


@kernel("floats")
def vector_four(w: Words) -> Array:
    a, b = (row.reshape(-1, 4).T for row in w.f[:2])
    return np.stack([a[0] + b[1], a[1] - b[0], a[2] * b[3], a[3]], 1).ravel()


@kernel("floats")
def shared_vectors(w: Words) -> Array:
    x = w.f[0].reshape(-1, BLOCK // 4, 4)
    return x[:, (np.arange(BLOCK // 4) * 5 + 1) % (BLOCK // 4)].ravel()


@kernel("counts")
def sparse_rows(w: Words) -> Array:
    total = np.zeros(ITEMS, F)
    for item in range(ITEMS):
        first, count = w.u[0][item] % 400, w.u[1][item] % 20
        for value in w.f[2][first : first + count]:
            total[item] += value
    return total


@kernel("words")
def local_table(w: Words) -> Array:
    results = []
    for item in range(ITEMS):
        table = [int(w.u[0][(item + k * k) % ITEMS]) for k in range(8)]
        for k in range(8):
            table[table[k] % 8] += k
        results.append(table[int(w.u[0][item]) % 8])
    return u32(results)
