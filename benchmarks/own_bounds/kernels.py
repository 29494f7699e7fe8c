"""Kernels of 16-bit tensors, each as a description, as right float32 arithmetic, and as mutants.

The arithmetic is NumPy's in float32, one rounding per operation, with sums in orders that kernels
have; nothing here uses simgen's bounds. `Kernel.compute` takes the place of a GPU.
"""

# ruff: noqa: E501
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

F = np.float32
ORDERS = ("sequential", "backward", "strided", "warps", "pairwise")


def total(terms, order):
    """Float32 sums along the last axis, in one of `ORDERS` or in "shuffled NUMBER"."""
    terms = np.asarray(terms, F)
    n = terms.shape[-1]
    if order.startswith("shuffled"):
        terms = terms[..., np.random.default_rng(int(order.split()[1])).permutation(n)]
    if order == "backward":
        terms = terms[..., ::-1]
    if order == "pairwise":
        return terms.sum(-1, dtype=F)
    lanes = {"strided": 256, "warps": 32}.get(order, 1)
    padded = np.zeros((*terms.shape[:-1], -(-n // lanes) * lanes), F)
    padded[..., :n] = terms
    parts = np.add.accumulate(padded.reshape(*terms.shape[:-1], -1, lanes), axis=-2, dtype=F)
    parts = parts[..., -1, :]
    while parts.shape[-1] > 1:
        half = parts.shape[-1] // 2
        parts = parts[..., :half] + parts[..., half:]
    return parts[..., 0]


def narrow_total(terms, kind):
    """The same in the narrow type, term by term."""
    found = np.zeros(terms.shape[:-1], kind)
    for at in range(terms.shape[-1]):
        found = (found.astype(F) + terms[..., at].astype(F)).astype(kind)
    return found.astype(F)


@dataclass(frozen=True)
class Kernel:
    """`body` is what its source does; `compute(tensors, order, fault, kind)` gives the output."""

    name: str
    inputs: dict[str, str]
    output: str
    body: str
    reference: str
    compute: Callable
    faults: tuple[str, ...]
    accumulate: str = ""


def summed(terms, order, fault, kind):
    """A sum of terms, with the faults that sums have."""
    terms = np.asarray(terms, F)
    n = terms.shape[-1]
    if fault == "last term missing":
        terms = terms[..., :-1]
    elif fault == "first term missing":
        terms = terms[..., 1:]
    elif fault == "first term twice":
        terms = np.concatenate([terms, terms[..., :1]], -1)
    elif fault == "tail missing":
        terms = terms[..., : max(1, (n - 1) // 32 * 32)]
    elif fault == "a lane missing":
        terms = terms.copy()
        terms[..., 5::32] = 0
    elif fault == "narrow sum":
        return narrow_total(terms, kind)
    return total(terms, order)


SUM = ("last term missing", "first term missing", "first term twice", "tail missing",
       "a lane missing", "narrow sum")  # fmt: skip
OUT = ("one element", "neighbours swapped", "row before", "cut off", "last not written")


def spoilt(y, fault, kind):
    """What is stored, with the faults that storing has."""
    if fault == "cut off":  # towards zero, not to nearest
        near = y.astype(kind)
        far = np.nextafter(near, np.zeros_like(near)) if kind == np.float16 else _towards_zero(near)
        y = np.where(np.abs(near.astype(F)) > np.abs(y), far.astype(F), near.astype(F))
    y = y.astype(kind)
    flat = y.reshape(-1)
    if fault == "one element":
        flat[flat.size // 3] = (flat[flat.size // 3].astype(F) * F(1.05) + F(0.05)).astype(kind)
    elif fault == "neighbours swapped":
        flat[[0, 1]] = flat[[1, 0]]
    elif fault == "row before" and y.ndim > 1:
        y[1] = y[0]
    elif fault == "last not written":
        flat[-1] = np.nan  # the canary
    return y


def _towards_zero(values):
    bits = values.view(np.uint16)
    return np.where(bits & 0x7FFF, bits - 1, bits).astype(np.uint16).view(values.dtype)


def rms_norm(t, order, fault, kind):
    x, w = t["x"].astype(F), t["w"].astype(F)
    n = F(x.shape[1])
    mean = summed(x * x, order, fault, kind) / (n - 1 if fault == "n - 1" else n)
    r = F(1) / np.sqrt(mean + F(0.05 if fault == "epsilon" else 1e-5))
    if fault == "no root":
        r = r * r
    if fault == "weights shifted":
        w = np.roll(w, 1)
    return x * r[:, None] * w


def layer_norm(t, order, fault, kind):
    x, w = t["x"].astype(F), t["w"].astype(F)
    n = F(x.shape[1])
    mean = (
        total(x, order) / n
        if fault != "mean of the row before"
        else np.roll(total(x, order) / n, 1)
    )
    d = x - mean[:, None]
    var = summed(d * d, order, fault, kind) / (n - 1 if fault == "n - 1" else n)
    r = F(1) / np.sqrt(var + F(1e-5))
    return d * r[:, None] * w + (F(0) if fault == "no shift" else t["b"].astype(F))


def softmax(t, order, fault, kind):
    x = t["x"].astype(F)
    d = x - x.max(1, keepdims=True)
    e = np.exp2(d) if fault == "exp2" else np.exp(d)
    s = summed(e, order, fault, kind)
    return e * (F(1) / s)[:, None]


def log_sum_exp(t, order, fault, kind):
    x = t["x"].astype(F)
    m = x.max(1)
    s = summed(np.exp(x - m[:, None]), order, fault, kind)
    return np.log(s) + (F(0) if fault == "no maximum" else m)


def gemv(t, order, fault, kind):
    return summed(t["a"].astype(F) * t["x"].astype(F), order, fault, kind)


def gemm(t, order, fault, kind):
    products = t["a"].astype(F)[:, None, :] * t["b"].astype(F).T[None]
    return summed(products, order, fault, kind)


def attention(t, order, fault, kind, rounded=False):
    q, k, v = (t[name].astype(F) for name in "qkv")
    scale = F(1 / q.shape[1]) if fault == "scale" else F(1) / np.sqrt(F(q.shape[1]))
    s = total(q[:, None] * k[None], order) * scale
    e = np.exp(s - s.max(1, keepdims=True))
    p = e * (F(1) / summed(e, order, fault, kind))[:, None]
    if rounded:
        p = p.astype(kind).astype(F)
    if fault == "keys shifted":
        v = np.roll(v, 1, 0)
    return total(p[:, None] * v.T[None], order)


def attention_by_parts(t, order, fault, kind):
    return attention(t, order, fault, kind, rounded=True)


def squared_distance(t, order, fault, kind):
    d = t["a"].astype(F) - t["b"].astype(F)
    return summed(d * d, order, fault, kind) / F(d.shape[1] - (fault == "n - 1"))


def unit_rows(t, order, fault, kind):
    x = t["x"].astype(F)
    s = summed(x * x, order, fault, kind)
    return x / np.sqrt(s)[:, None]


def swiglu(t, order, fault, kind):
    a, b = t["a"].astype(F), t["b"].astype(F)
    e = np.exp2(-a) if fault == "exp2" else np.exp(-a)
    y = a / (F(1) + e) * b
    return y * b if fault == "gate twice" else y


def narrow_gemv(t, order, fault, kind):
    terms = t["a"].astype(F) * t["x"].astype(F)
    if fault in ("last term missing", "tail missing", "a lane missing"):
        n = terms.shape[-1]
        terms = terms[..., : n // 2] if fault == "tail missing" else terms
    return narrow_total(terms, kind)


ROWS = {"x": "{t}[m, n]"}
X, W = "(float)x[row * n + i]", "(float)w[i]"
KERNELS = (
    Kernel("rms_norm", {**ROWS, "w": "{t}[n]"}, "{t}[m, n]",
           f"float s = 0; for (int i = 0; i < n; i++) s += {X} * {X}; float r = rsqrtf(s / n + 1e-5f); for (int i = 0; i < n; i++) y[row * n + i] = (T)({X} * r * {W});",
           "x / np.sqrt(np.mean(x ** 2, axis=1, keepdims=True) + 1e-5) * w", rms_norm, (*SUM, *OUT, "n - 1", "epsilon", "no root", "weights shifted")),
    Kernel("layer_norm", {**ROWS, "w": "{t}[n]", "b": "{t}[n]"}, "{t}[m, n]",
           f"float s = 0; for (int i = 0; i < n; i++) s += {X}; y[row * n] = (T)(s);",
           "(x - x.mean(axis=1, keepdims=True)) / np.sqrt(np.mean((x - x.mean(axis=1, keepdims=True)) ** 2, axis=1, keepdims=True) + 1e-5) * w + b",
           layer_norm, (*SUM, *OUT, "n - 1", "mean of the row before", "no shift")),
    Kernel("softmax", ROWS, "{t}[m, n]", f"float s = 0; for (int i = 0; i < n; i++) s += expf({X}); y[row * n] = (T)(s);",
           "np.exp(x - x.max(axis=1, keepdims=True)) / np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)",
           softmax, (*SUM, *OUT, "exp2")),
    Kernel("log_sum_exp", ROWS, "{t}[m]", f"float s = 0; for (int i = 0; i < n; i++) s += expf({X}); y[row] = (T)(logf(s));",
           "np.log(np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1)) + x.max(axis=1)", log_sum_exp, (*SUM[3:], "one element", "no maximum")),
    Kernel("gemv", {"a": "{t}[m, n]", "x": "{t}[n]"}, "{t}[m]", "float s = 0; for (int i = 0; i < n; i++) s += (float)a[row * n + i] * (float)x[i]; y[row] = (T)s;",
           "a @ x", gemv, (*SUM, *OUT[:2], "cut off", "last not written")),
    Kernel("gemm", {"a": "{t}[m, n]", "b": "{t}[n, 24]"}, "{t}[m, 24]", "float s = 0; for (int i = 0; i < n; i++) s += (float)a[row * n + i] * (float)b[i]; y[row] = (T)s;",
           "a @ b", gemm, (*SUM, *OUT)),
    Kernel("attention", {"q": "{t}[m, 64]", "k": "{t}[n, 64]", "v": "{t}[n, 64]"}, "{t}[m, 64]", "float s = 0; y[row] = (T)s;",
           "np.exp((q @ k.T) / 8 - (q @ k.T / 8).max(axis=1, keepdims=True)) / np.exp((q @ k.T) / 8 - (q @ k.T / 8).max(axis=1, keepdims=True)).sum(axis=1, keepdims=True) @ v",
           attention, (*SUM[3:], *OUT, "scale", "keys shifted")),
    Kernel("attention_by_parts", {"q": "{t}[m, 64]", "k": "{t}[n, 64]", "v": "{t}[n, 64]"}, "{t}[m, 64]", "float s = 0; T p = (T)s; y[row] = (T)((float)p * s);",
           "np.exp((q @ k.T) / 8 - (q @ k.T / 8).max(axis=1, keepdims=True)) / np.exp((q @ k.T) / 8 - (q @ k.T / 8).max(axis=1, keepdims=True)).sum(axis=1, keepdims=True) @ v",
           attention_by_parts, ("row before", "last not written", "scale", "keys shifted")),
    Kernel("squared_distance", {"a": "{t}[m, n]", "b": "{t}[m, n]"}, "{t}[m]", "float s = 0; y[row] = (T)s;",
           "np.mean((a - b) ** 2, axis=1)", squared_distance, (*SUM[3:], "one element", "cut off")),
    Kernel("unit_rows", ROWS, "{t}[m, n]", "float s = 0; y[row] = (T)s;", "x / np.sqrt(np.sum(x ** 2, axis=1, keepdims=True))", unit_rows, (*SUM, *OUT)),
    Kernel("swiglu", {"a": "{t}[m, n]", "b": "{t}[m, n]"}, "{t}[m, n]", "float s = 0; y[row] = (T)s;", "a / (1 + np.exp(-a)) * b", swiglu, ("exp2", "gate twice", *OUT)),
    Kernel("narrow_gemv", {"a": "{t}[m, n]", "x": "{t}[n]"}, "{t}[m]", "T s = 0; for (int i = 0; i < n; i++) s = s + (T)(a[row * n + i] * x[i]); y[row] = s;",
           "a @ x", narrow_gemv, (), accumulate="{t}"),
)  # fmt: skip
TYPES = {"f16": "_Float16", "bf16": "__hip_bfloat16"}
