"""What the kernels of floats.hip and narrow.hip compute, with NumPy.

A reference returns what the output begins with; for values that a machine may round otherwise, with
a bound of the difference for each. Bounds are of OpenCL C, "Relative Error as ULPs": 3 for exp and
log, 4 units of 2^-11 for sines of the native kind, carried through the formula.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from ordinary import BLOCK, ITEMS, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from ordinary import Words

    Array = NDArray[Any]

F = np.float32
EPS = 2.0**-23  # one unit in the last place of 1
at = np.arange(ITEMS)


def wide(x: Array) -> Array:
    return x.astype(np.float64)


def bound(x: Array, ulps: float, plus: Any = 0) -> tuple[Array, Array]:
    """Values in float32, and a bound of so many units in the last place."""
    near = F(x)
    return near, ulps * EPS * abs(wide(near)) + plus + 2.0**-149


def logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


@kernel("edges")
def divide(w: Words) -> Array:
    return w.f[0] / w.f[1]


@kernel("edges")
def reciprocal_root(w: Words) -> Array:
    return F(1) / np.sqrt(abs(w.f[0]))


@kernel("edges")
def root(w: Words) -> Array:
    return np.sqrt(w.f[0])


@kernel("exponents")
def exponential(w: Words) -> Any:
    return bound(np.exp(wide(w.f[0])), 3)


@kernel("positive")
def logarithm(w: Words) -> Any:
    return bound(np.log(wide(w.f[0])), 3, 3 * EPS * 2.0**-6)


@kernel("floats")
def softplus(w: Words) -> Any:
    return bound(np.log1p(np.exp(wide(w.f[0]))), 6, 4 * EPS)


@kernel("floats")
def sigmoid(w: Words) -> Any:
    return bound(logistic(wide(w.f[0])), 6)


@kernel("floats")
def gelu(w: Words) -> Any:
    v = wide(w.f[0])
    u = 0.7978845608 * (v + 0.044715 * v**3)
    part = 1 - 1 / (np.exp(2 * u) + 1)
    return bound(v * part, 8, abs(v) * EPS * (4 + 8 * abs(u) / (1 + np.exp(2 * u))))


@kernel("positive")
def power(w: Words) -> Any:
    x, y = wide(w.f[0]), wide(w.f[1])
    exponent = y * np.log2(x)
    return bound(np.exp2(exponent), 4 + 4 * abs(exponent) + 4 * abs(y))


@kernel("floats")
def rotary_embedding(w: Words) -> Any:
    angle = wide(F(at // 16) * F(np.exp2(F(-0.5) * F(at % 16))))
    a, b = wide(w.f[0]), wide(w.f[1])
    plus = (abs(a) + abs(b)) * (2.0**-11 + angle * 4 * EPS)
    c, s = np.cos(angle), np.sin(angle)
    both = np.concatenate([a * c - b * s, a * s + b * c])
    return bound(both, 4, np.tile(plus, 2))


@kernel("floats")
def normalise_vector(w: Words) -> Array:
    a, b = w.f[:2]
    norm = np.sqrt(a * a + b * b)
    return np.concatenate([a / norm, b / norm])


@kernel("units")
def mandelbrot(w: Words) -> Array:
    steps = np.zeros(ITEMS, F)
    for k, (a, b) in enumerate(w.f[:2].T):
        u = v = F(0)
        while u * u + v * v < 4 and steps[k] < 50:
            u, v = u * u - v * v + a, F(2) * u * v + b
            steps[k] += 1
    return steps


@kernel("floats")
def floor_modulo(w: Words) -> Array:
    a, b = w.f[:2]
    rounded = np.trunc(a) + F(np.sign(a) * (abs(a - np.trunc(a)) >= 0.5))
    return np.concatenate([a - np.floor(a / b) * b, rounded + np.ceil(b) + np.trunc(a * b)])


@kernel("edges")
def scale_by_power(w: Words) -> Array:
    return F(np.ldexp(wide(w.f[0]), at % 301 - 150))


@kernel("positive")
def black_scholes(w: Words) -> Any:
    s, k = wide(w.f[0]), wide(w.f[1])
    v, t, r = 0.3, 1.5, 0.02
    d = (np.log(s / k) + (r + 0.5 * v * v) * t) / (v * np.sqrt(t))
    m = 1 / (1 + 0.2316419 * abs(d))
    c = (0.31938153, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
    p = sum(x * m ** (k + 1) for k, x in enumerate(c))
    tail = 0.39894228 * np.exp(-0.5 * d * d) * p
    # d is wrong by a few units of the logarithm's terms, the tail by |d| times that; the terms of
    # the polynomial add up to less than 5.
    return bound(np.where(d > 0, 1 - tail, tail), 8, (40 + 40 * d * d) * EPS * np.exp(-0.5 * d * d))


@kernel("edges")
def classify(w: Words) -> Array:
    a = w.f[0]
    choices = [np.isnan(a), np.isinf(a), a == 0, a < 0]
    kind = np.select(choices, [1, 2, 3, 4], 5)
    return np.concatenate([kind, (w.u[0] >> 31) + 2 * (abs(a) < F(1.17549435e-38))]).astype("u4")


@kernel("floats")
def limits(w: Words) -> Array:
    a, b = w.f[:2]
    return np.concatenate([np.copysign(np.fmax(a, b), -a), np.clip(a, F(-1), F(1)) + np.fmin(a, b)])


@kernel("floats")
def kahan_sum(w: Words) -> Array:
    total, lost = np.zeros(ITEMS, F), np.zeros(ITEMS, F)
    for k in range(37):
        term = w.f[0][(at + 5 * k) % ITEMS] - lost
        new = total + term
        on = k < at % 37 + 1
        lost = np.where(on, (new - total) - term, lost)
        total = np.where(on, new, total)
    return total


@kernel("floats")
def double_dot(w: Words) -> Array:
    total = np.zeros(ITEMS)
    for k in range(16):
        total += wide(w.f[0][(at + k) % ITEMS]) * wide(w.f[1][(at + k) % ITEMS])
    return F(total)


@kernel("floats")
def bilinear_sample(w: Words) -> Array:
    u, v = abs(w.f[1]), abs(w.f[2])
    p = np.trunc(v).astype(int) % 15 * 32 + np.trunc(u).astype(int) % 31
    fu, fv, x = u - np.floor(u), v - np.floor(v), w.f[0]
    top = x[p] + fu * (x[p + 1] - x[p])
    low = x[p + 32] + fu * (x[p + 33] - x[p + 32])
    return top + fv * (low - top)


@kernel("floats")
def newton_cube_root(w: Words) -> Array:
    a = abs(w.f[0]) + F(0.01)
    r = np.fmax(a, F(1))
    for _ in range(40):
        r = (F(2) * r + a / (r * r)) / F(3)
    return r


@kernel("floats")
def n_body(w: Words) -> Array:
    force = np.zeros(ITEMS, F)
    for k in range(32):
        dx, dy = w.f[0][k] - w.f[0], w.f[1][k] - w.f[1]
        square = dx * dx + dy * dy + F(0.01)
        force += dx / (square * np.sqrt(square))
    return force


@kernel("floats")
def softmax_row(w: Words) -> Any:
    x = wide(w.f[0]).reshape(-1, BLOCK)
    e = np.exp(x - x.max(1, keepdims=True))
    return bound((e / e.sum(1, keepdims=True)).ravel(), 3 + 3 + 8 + 2)


@kernel("floats")
def layer_norm(w: Words) -> Array:
    x = w.f[0].reshape(-1, BLOCK)
    total, squares = x.copy(), x * x
    half = BLOCK // 2
    while half:
        total[:, :half] += total[:, half : 2 * half]
        squares[:, :half] += squares[:, half : 2 * half]
        half //= 2
    mean = total[:, :1] / F(BLOCK)
    variance = squares[:, :1] / F(BLOCK) - mean * mean
    return ((x - mean) / np.sqrt(variance + F(1e-5))).ravel()


# Narrow types --------------------------------------------------------------------------------


@kernel("words")
def half_load(w: Words) -> Array:
    return F(2) * F(w.halves[:ITEMS])


@kernel("half_edges")
def half_store(w: Words) -> Array:
    return w.f[0].astype(np.float16)


@kernel("halves")
def half_axpy(w: Words) -> Array:
    return np.float16(0.5) * w.halves[:ITEMS] + w.halves[ITEMS : 2 * ITEMS]


@kernel("half_edges")
def half_pack(w: Words) -> Array:
    a, b = (x.astype(np.float16).view("u2").astype("u4") for x in w.f[:2])
    return a | b << 16


@kernel("words")
def half_unpack(w: Words) -> Array:
    parts = [(w.u[0] >> shift).astype("u2").view(np.float16) for shift in (0, 16)]
    return F(np.concatenate(parts))


@kernel("halves")
def half_dot(w: Words) -> Array:
    a, b, total = F(w.halves[:ITEMS]), F(w.halves[ITEMS : 2 * ITEMS]), np.zeros(ITEMS, F)
    for k in range(8):
        total += a[(at + k) % ITEMS] * b[(at + k) % ITEMS]
    return total


@kernel("halves")
def half_limits(w: Words) -> Array:
    a, b = w.halves[:ITEMS], w.halves[ITEMS : 2 * ITEMS]
    return np.where(a > b, a - b, a * b)


@kernel("edges")
def bfloat_round(w: Words) -> Array:
    u = w.u[0].astype("u8")
    nearest = (u + 0x7FFF + (u >> 16 & 1)) >> 16
    return np.where(np.isnan(w.f[0]), 0x7FC0, nearest).astype("u2")


@kernel("words")
def bfloat_load(w: Words) -> Array:
    return (w.shorts[:ITEMS].astype("u4") << 16).view(F)


@kernel("words")
def grey_image(w: Words) -> Array:
    r, g, b = w.bytes[: 3 * ITEMS].reshape(-1, 3).T.astype("u4")
    return ((77 * r + 151 * g + 28 * b) >> 8).astype("u1")


@kernel("words")
def threshold_image(w: Words) -> Array:
    return np.where(w.bytes[:ITEMS] > 127, 255, 0).astype("u1")


@kernel("words")
def dequantise(w: Words) -> Array:
    return F(0.125) * F(w.bytes[:ITEMS].view("i1").astype(int) - 3)


def quantised(x: Array) -> Array:
    return np.clip(np.rint(x * F(4)), -128, 127).astype(int).astype("u1")


@kernel("floats")
def quantise(w: Words) -> Array:
    return quantised(w.f[0] * F(1))


@kernel("floats")
def quantise_packed(w: Words) -> Array:
    return np.stack([quantised(row) for row in w.f], 1).ravel()


@kernel("words")
def audio_mix(w: Words) -> Array:
    x = w.shorts.view("i2").astype(int)
    return np.clip(x[:ITEMS] + x[ITEMS : 2 * ITEMS], -32768, 32767).astype("i2")


@kernel("words")
def byte_lookup(w: Words) -> Array:
    return w.bytes[w.bytes[:ITEMS].astype(int) + 256].astype("u4")


@kernel("words")
def byte_bins(w: Words) -> Array:
    digits = w.u[0].reshape(-1, BLOCK, 1) >> (4 * np.arange(8)) & 15
    return np.concatenate([np.bincount(group.ravel(), minlength=16) for group in digits]).astype(
        "u4"
    )


@kernel("words")
def short_tile(w: Words) -> Array:
    x = w.shorts[:ITEMS].view("i2").reshape(-1, 16, 16).transpose(0, 2, 1)
    return x.ravel().astype(int).astype("u4")


@kernel("words")
def swap_bytes(w: Words) -> Array:
    x = w.u[0]
    return np.concatenate([x.byteswap(), (x & 0xFF00FF) << 8 | (x >> 8 & 0xFF00FF)])


@kernel("words")
def upper_case(w: Words) -> Array:
    x = w.bytes[:ITEMS]
    return np.where((x >= 97) & (x <= 122), x - 32, x).astype("u1")


@kernel("words")
def byte_filter(w: Words) -> Array:
    x = np.pad(w.bytes[:ITEMS].astype(int), 1)
    return ((x[:-2] + 2 * x[1:-1] + x[2:] + 2) >> 2).astype("u1")


@kernel("words", cleared=True)
def odd_bytes(w: Words) -> Array:
    return np.where(at % 3, w.bytes[:ITEMS] ^ 0x5A, 0).astype("u1")


@kernel("words")
def byte_dot(w: Words) -> Array:
    a, b = (row.view("i1").reshape(-1, 4).astype(int) for row in w.u[:2])
    return (a * b).sum(1).astype("i4")


@kernel("words")
def colour_floats(w: Words) -> Array:
    c = F(w.u[0].view("u1").reshape(-1, 4))
    return np.concatenate([c[:, 0] * F(0.25) + c[:, 1] * F(0.5), c[:, 2] - c[:, 3]])
