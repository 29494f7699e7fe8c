"""The gated delta rule: a state that forgets, and replaces what it holds of each key.

    [GatedDeltaRule]  token by token, of each head's state S (K, V)
        S = e^g S
        S = S + beta k (v - S^T k)^T              y[t] = scale S^T q
        g = -exp(A) softplus(a + dt)              beta = 1 / (1 + exp(-b))
    [ChunkState]      tokens in chunks of C, which others have made w, u and g of
        h[c] = S                                  y = u - w S
        S    = e^G S + k^T (e^(G - g) y)          G: g of the chunk's last token
    [ChunkOutput]     from these
        y    = scale (e^g q h[c] + A v)           A[i, j] = e^(g[i] - g[j]) q[i] . k[j], j <= i

    q, k  (N, T, H, K)      v, u, y  (N, T, G, V)      w  (N, T, G, K)      a, b, g  (N, T, G)
    A, dt  (G)      state, last  (N, G, K, V)      h  (N, ceil(T / C), G, K, V)

G / H heads of values share a head of q and k. With normalised=true, q and k are divided by the
root of the sum of their squares and 1e-6. g of chunks is a sum from the chunk's first token on, in
float32, as are a state that comes in and the one that is left. Forward only.

Source: Yang, Kautz and Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta Rule", 2024,
equations 10 and section 3.3; naive_recurrent_gated_delta_rule of flash-linear-attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, DType, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import rounding
from simgen.ground.numerics.rounding import (
    RCP,
    SECOND_ORDER,
    SQRT,
    TINY,
    U,
    accumulated,
    float32,
    identifier,
)
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

F = Pass.FORWARD
SMALL = 1e-6  # beside sums of squares
SLICES = 16  # work-items of a column of a state
COLUMNS = 16  # columns of a work-group, in steps and chunks of states
WIDE = 64  # columns of a work-group, in outputs of chunks
MOST = 512  # elements of a key
NORMAL = Fill(Distribution.NORMAL, 0.0, 1.0)


def _text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


@dataclass(frozen=True)
class DeltaLayer(Layer, in_configs=False):
    """What all three have in common; their first input is q or k."""

    contract: ClassVar[Contract] = Contract(rounds=True, cancels=True)
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    per_sample = True
    any_float = True
    axis_names: ClassVar[tuple[str, ...]] = ("batch", "tokens", "heads", "size")
    # Inputs -> their axes: sample, tokens, heads of keys and values, key, value, chunks.
    template: ClassVar[str] = ""
    axes: ClassVar[Mapping[str, str]] = {}
    always_f32: ClassVar[tuple[str, ...]] = ()

    value_heads: int = key("value_heads", 0, "heads of values; 0: as many as of keys", 0)
    value_size: int = key("value_size", 0, "elements of a value; 0: as many as of a key", 0)

    @property
    def _chunk(self) -> int:
        return 1

    def _sizes(self, x: TensorSpec) -> dict[str, int]:
        """Axis of `axes` -> its extent.

        Raises:
            ValueError: x has other axes.
        """
        if len(x.shape) != 4:
            fact = f"{self.takes[0]} is {_text(x.shape)}"
            raise ValueError(f"{fact}; give it samples, tokens, heads and elements: 1x64x2x128")
        n, tokens, heads, size = x.shape
        values = (self.value_heads or heads, self.value_size or size)
        chunks = ceil(tokens / self._chunk)
        return dict(zip("nthkgvc", (n, tokens, heads, size, *values, chunks)))

    def _spec(self, name: str, x: TensorSpec) -> TensorSpec:
        sizes = self._sizes(x)
        dtype = DType.F32 if name in self.always_f32 else x.dtype
        return TensorSpec(tuple(sizes[axis] for axis in self.axes[name]), dtype)

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        return tuple(self._spec(name, x) for name in self.takes)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        x = inputs[0]
        sizes = self._sizes(x)
        if sizes["g"] % sizes["h"]:
            fact = f"{sizes['g']} heads of values are no multiple of {sizes['h']} of keys"
            raise ValueError(
                f"{fact}; make value_heads {-(-sizes['g'] // sizes['h']) * sizes['h']}"
            )
        if sizes["k"] > MOST:
            raise ValueError(f"a key has {sizes['k']} elements; {MOST} is the most")
        if len(inputs) != len(self.takes):
            fact = f"it has {len(inputs)} inputs, and wants {', '.join(self.takes)}"
            raise ValueError(f"{fact}; name them in previous_layer")
        for name, given in zip(self.takes, inputs):
            wanted = self._spec(name, x)
            is_right = given.dtype.is_float if name in self.always_f32 else given.dtype == x.dtype
            if given.shape != wanted.shape or not is_right:
                told = f"{name} is {_text(given.shape)} of {given.dtype}"
                raise ValueError(f"{told}; give it {_text(wanted.shape)} of {wanted.dtype}")
        return self._spec("y", x)

    def outputs(self, inputs: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
        self.output(inputs)
        return {name: self._spec(name, inputs[0]) for name in self.output_names}

    def _fill(self, name: str, sizes: Mapping[str, int]) -> Fill:
        return NORMAL

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x = inputs[0]
        sizes = self._sizes(x)
        read = dict(zip(self.takes, inputs)) | {p: self._spec(p, x) for p in self.parameters}
        return (
            *(Port(name, spec, self._fill(name, sizes)) for name, spec in read.items()),
            *(Port(name, spec) for name, spec in self.outputs(inputs).items()),
        )

    def _vector(self, x: TensorSpec) -> int:
        sizes = self._sizes(x)
        return 1 if sizes["k"] % VECTOR or sizes["v"] % VECTOR else VECTOR

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        if self._vector(inputs[0]) != VECTOR:
            return ()
        ports = super().moves(inputs, direction)
        return tuple(name for name in ports if name not in self.always_f32)

    def _lower(
        self, inputs: tuple[TensorSpec, ...], grid: tuple[int, int, int], own: Any, flags: str
    ) -> Lowering:
        x = inputs[0] if self.moves(inputs, F) else TensorSpec(inputs[0].shape)
        sizes = self._sizes(x)
        names = {
            "n": "samples", "t": "tokens", "h": "key_heads", "g": "value_heads", "k": "key_size",
            "v": "value_size",
        }  # fmt: skip
        constants = (
            *((name, sizes[axis]) for axis, name in names.items()),
            ("vector", self._vector(x)),
            *own,
            *elementwise.element(x.dtype),
        )
        extents = "x".join(str(sizes[axis]) for axis in names)
        name = f"{self.kind}_{extents}_{flags}{elementwise.suffix(x.dtype)}"
        kernel = Kernel(name, self.template, BLOCK, constants)
        args = (*self.takes, *self.parameters, *self.output_names)
        return Lowering((kernel,), (Launch(name, grid, args),))


@dataclass(frozen=True)
class GatedDeltaRule(DeltaLayer):
    kind = "delta_rule"
    section = "GatedDeltaRule"
    template: ClassVar[str] = "delta_rule.hip"
    input_names: ClassVar[tuple[str, ...]] = ("q", "k", "v", "a", "b", "state")
    output_names: ClassVar[tuple[str, ...]] = ("y", "last")
    parameters: ClassVar[tuple[str, ...]] = ("decay", "dt")
    axes: ClassVar[Mapping[str, str]] = {
        "q": "nthk", "k": "nthk", "v": "ntgv", "a": "ntg", "b": "ntg", "state": "ngkv",
        "decay": "g", "dt": "g", "y": "ntgv", "last": "ngkv",
    }  # fmt: skip
    always_f32: ClassVar[tuple[str, ...]] = ("state", "last", "decay", "dt")
    sample: ClassVar[Mapping[str, str]] = {"shape": "2x4x2x64", "value_heads": "4"}

    scale: float = key("scale", 0.0, "factor of results; 0: 1 / sqrt(elements of a key)", 0.0, 1e6)
    normalised: bool = key("normalised", True, "q and k are divided by their Euclidean norms")
    with_state: bool = key("state", False, "a sixth input has the states before the first token")

    @property
    def takes(self) -> tuple[str, ...]:
        return self.input_names if self.with_state else self.input_names[:-1]

    def _fill(self, name: str, sizes: Mapping[str, int]) -> Fill:
        """States last some ten tokens. Keys have a norm of about 1, as normalised ones do."""
        if name in ("q", "k") and not self.normalised:
            return Fill(Distribution.NORMAL, 0.0, 0.7 / sqrt(sizes["k"]))
        return Fill(Distribution.NORMAL, -2.0, 0.5) if name == "decay" else NORMAL

    def tiles(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Mapping[str, int]:
        return {"batch": 1, "tokens": 1, "heads": 1}

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """For each element of a state and token a product with e^g, and three products and sums;
        for each of q and k a square and its sum, and a product. Functions of a token and head: four
        for g, two for beta, and two roots."""
        s = self._sizes(inputs[0])
        each = s["n"] * s["t"] * s["g"]
        return each * (7 * s["k"] * s["v"] + 6 * s["k"] * self.normalised), 10 * each

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        s = self._sizes(inputs[0])
        own = (
            ("scale", self._scale(s["k"])),
            ("normalised", int(self.normalised)),
            ("with_state", int(self.with_state)),
        )
        flags = f"{int(self.normalised)}{int(self.with_state)}_{identifier(self._scale(s['k']))}"
        return self._lower(inputs, (ceil(s["v"] / COLUMNS), s["n"] * s["g"], 1), own, flags)

    def _scale(self, size: int) -> float:
        return float32(self.scale) or float32(1 / sqrt(size))

    # ---- Reference and bounds ----

    def _gates(self, tensors: Tensors) -> tuple[Array, Array, Array, Array]:
        """(e^g, its relative error, beta, its): (N, T, G)."""
        x = tensors["a"] + tensors["dt"]
        e = np.exp(-np.abs(x))
        soft = np.maximum(x, 0.0) + np.log1p(e)
        rate = np.exp(tensors["decay"])
        g = -rate * soft
        # x rounds, and the slope of softplus is 1 at most; then e, 1 + e, its logarithm, the sum.
        off = U * np.abs(x) + e * rounding.exp(x) + 2 * U + log(2) * rounding.log2(1 + e)
        off = off + 3 * U * soft + 2 * TINY
        off_g = rate * off + np.abs(g) * (rounding.exp(tensors["decay"]) + 2 * U)
        b = np.exp(-np.abs(tensors["b"]))
        beta = np.where(tensors["b"] >= 0, 1.0, b) / (1 + b)
        off_beta = (1 - beta) * rounding.exp(tensors["b"]) + 2 * U + RCP
        return np.exp(g), off_g + rounding.exp(g), beta, off_beta

    def _unit(self, x: Array, share: int) -> tuple[Array, Array, float]:
        """(x of each head of values, the same divided by its norm, relative error of that)."""
        x = np.repeat(x, share, axis=2)
        if not self.normalised:
            return x, x, 0.0
        root = np.sqrt(np.square(x).sum(axis=-1, keepdims=True) + float32(SMALL))
        return x, x / root, accumulated(self._depth(x.shape[-1])) / 2 + SQRT + RCP + 2 * U

    @staticmethod
    def _depth(size: int) -> int:
        return ceil(size / SLICES) + SLICES + 2

    def _run(self, tensors: Tensors) -> tuple[dict[str, Array], dict[str, Array]]:
        """(results, bounds). A column of a state is off by a vector, of which the norm is known:
        I - beta k k^T makes none longer whose key is a unit, and e^g shortens it. All else is what
        one token's operations lose. Sums are those of q, k and S as they are, products follow."""
        q, k, v = (tensors[name] for name in "qkv")
        n, tokens, heads, size = q.shape
        groups = v.shape[2]
        share, scale = groups // heads, self._scale(size)
        (_, q, off_q), (_, k, off_k) = self._unit(q, share), self._unit(k, share)
        decay, off_decay, beta, off_beta = self._gates(tensors)
        state = tensors.get("state", np.zeros((n, groups, size, v.shape[3]))).copy()
        norm = np.zeros((n, groups, v.shape[3]))
        rounds, y, bound = accumulated(self._depth(size)), np.empty_like(v), np.empty_like(v)
        for t in range(tokens):
            kt, qt = k[:, t, :, :, np.newaxis], q[:, t, :, :, np.newaxis]
            d, off_d = decay[:, t, :, np.newaxis], off_decay[:, t, :, np.newaxis]
            bt, off_b = beta[:, t, :, np.newaxis], off_beta[:, t, :, np.newaxis]
            held, size_held = (kt * state).sum(axis=2), (np.abs(kt) * np.abs(state)).sum(axis=2)
            missing = v[:, t] - d * held
            new = bt * missing
            off_new = bt * d * size_held * (rounds + off_k + off_d + 3 * U)
            off_new += bt * U * np.abs(missing) + np.abs(new) * (off_b + U) + 2 * TINY
            meets = (qt * kt).sum(axis=2)
            off_meets = (np.abs(qt) * np.abs(kt)).sum(axis=2) * (rounds + off_q + off_k + 3 * U)
            read, size_read = (qt * state).sum(axis=2), (np.abs(qt) * np.abs(state)).sum(axis=2)
            y[:, t] = scale * (d * read + meets * new)
            own = d * size_read * (rounds + off_q + off_d + 3 * U)
            own += off_meets * np.abs(new) + np.abs(meets) * (off_new + 2 * U * np.abs(new))
            longer = np.maximum(1.0, np.abs(1 - bt * np.square(kt).sum(axis=2)))
            length = np.sqrt(np.square(qt).sum(axis=2))
            bound[:, t] = scale * (own + length * longer * d * norm) + 2 * U * np.abs(y[:, t])
            after = d[:, :, np.newaxis] * state + kt * new[:, :, np.newaxis]
            lost = np.abs(d[:, :, np.newaxis] * state) * (off_d + U)[:, :, np.newaxis]
            lost += np.abs(kt) * (np.abs(new) * (off_k + 3 * U) + off_new)[:, :, np.newaxis]
            lost += U * np.abs(after) + 2 * TINY
            norm = longer * d * norm + np.sqrt(np.square(lost).sum(axis=2))
            state = after
        error = np.broadcast_to(norm[:, :, np.newaxis], state.shape)
        bounds = {"y": (bound + 2 * TINY) * SECOND_ORDER, "last": error * SECOND_ORDER}
        return {"y": y, "last": state}, bounds

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._run(tensors)[0]

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._run(tensors)[1]


@dataclass(frozen=True)
class ChunkState(DeltaLayer):
    kind = "chunk_state"
    section = "ChunkState"
    template: ClassVar[str] = "chunk_state.hip"
    input_names: ClassVar[tuple[str, ...]] = ("k", "w", "u", "g", "state")
    output_names: ClassVar[tuple[str, ...]] = ("y", "h", "last")
    axes: ClassVar[Mapping[str, str]] = {
        "k": "nthk", "w": "ntgk", "u": "ntgv", "g": "ntg", "state": "ngkv", "y": "ntgv",
        "h": "ncgkv", "last": "ngkv",
    }  # fmt: skip
    always_f32: ClassVar[tuple[str, ...]] = ("g", "state", "last")
    sample: ClassVar[Mapping[str, str]] = {"shape": "1x100x2x64", "value_heads": "4"}

    chunk: int = key("chunk", 64, "tokens of a chunk", 1, 128)

    @property
    def _chunk(self) -> int:
        return self.chunk

    def _fill(self, name: str, sizes: Mapping[str, int]) -> Fill:
        """k^T w is shorter than 1, so that states stay as they are."""
        if name in ("k", "w"):
            length = sqrt(min(self.chunk, sizes["t"])) + sqrt(sizes["k"])
            return Fill(Distribution.NORMAL, 0.0, 0.7 / length)
        return Fill(Distribution.UNIFORM, -1.0, 0.0) if name == "g" else NORMAL

    def tiles(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Mapping[str, int]:
        return {"batch": 1, "tokens": self.chunk, "heads": 1}

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Two products of two operations for each element of a state and token."""
        s = self._sizes(inputs[0])
        each = s["n"] * s["t"] * s["g"]
        return each * (4 * s["k"] * s["v"] + 2 * s["v"]), each + s["n"] * s["c"] * s["g"]

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        s = self._sizes(inputs[0])
        grid = (ceil(s["v"] / COLUMNS), s["n"] * s["g"], 1)
        return self._lower(inputs, grid, (("chunk", self.chunk),), str(self.chunk))

    def _run(self, tensors: Tensors) -> tuple[dict[str, Array], dict[str, Array]]:
        """(results, bounds). A column of a state is off by a vector of a known norm, which e^G -
        k^T (e^(G - g) w) makes longer by no more than its own norm."""
        k, w, u, g = (tensors[name] for name in "kwug")
        k = np.repeat(k, u.shape[2] // k.shape[2], axis=2)
        n, tokens, groups, size = w.shape
        state, made = tensors["state"].copy(), []
        norm = np.zeros((n, groups, u.shape[3]))
        norms, y, bound = [], np.empty_like(u), np.empty_like(u)
        by_keys = accumulated(size + 2)
        for first in range(0, tokens, self.chunk):
            made.append(state)
            norms.append(norm)
            span = slice(first, min(first + self.chunk, tokens))
            kc, wc, uc = (each[:, span].swapaxes(1, 2) for each in (k, w, u))  # (N, G, C, ...)
            gc = g[:, span].swapaxes(1, 2)[..., np.newaxis]
            new = uc - wc @ state
            length = np.sqrt(np.square(wc).sum(axis=-1, keepdims=True))
            off = by_keys * (np.abs(wc) @ np.abs(state) + np.abs(uc)) + 2 * TINY
            y[:, span] = new.swapaxes(1, 2)
            bound[:, span] = (off + length * norm[:, :, np.newaxis]).swapaxes(1, 2)
            last = gc[:, :, -1:]
            fade = np.exp(last - gc)
            off_fade = rounding.exp(last - gc) + U * np.abs(last - gc) + 2 * U
            keep, off_keep = np.exp(last), rounding.exp(last) + 2 * U
            kt = kc.swapaxes(-1, -2)
            after = keep * state + kt @ (fade * new)
            size_after = np.abs(keep * state) + np.abs(kt) @ np.abs(fade * new)
            lost = accumulated(gc.shape[2] + 2) * size_after + 2 * TINY
            lost += off_keep * np.abs(keep * state)
            lost += np.abs(kt) @ (fade * (np.abs(new) * off_fade + off))
            step = keep * np.eye(size) - kt @ (fade * wc)
            most = np.abs(step).sum(axis=-1).max(axis=-1) * np.abs(step).sum(axis=-2).max(axis=-1)
            norm = np.sqrt(most)[..., np.newaxis] * norm + np.sqrt(np.square(lost).sum(axis=2))
            state = after
        wide = [np.broadcast_to(each[:, :, np.newaxis], state.shape) for each in (*norms, norm)]
        bounds = {"y": bound, "h": np.stack(wide[:-1], axis=1), "last": wide[-1]}
        results = {"y": y, "h": np.stack(made, axis=1), "last": state}
        return results, {name: each * SECOND_ORDER for name, each in bounds.items()}

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._run(tensors)[0]

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        return self._run(tensors)[1]


@dataclass(frozen=True)
class ChunkOutput(DeltaLayer):
    kind = "chunk_output"
    section = "ChunkOutput"
    template: ClassVar[str] = "chunk_output.hip"
    input_names: ClassVar[tuple[str, ...]] = ("q", "k", "v", "h", "g")
    axes: ClassVar[Mapping[str, str]] = {
        "q": "nthk", "k": "nthk", "v": "ntgv", "h": "ncgkv", "g": "ntg", "y": "ntgv",
    }  # fmt: skip
    always_f32: ClassVar[tuple[str, ...]] = ("g",)
    sample: ClassVar[Mapping[str, str]] = {"shape": "1x100x2x64", "value_heads": "4"}

    chunk: int = key("chunk", 64, "tokens of a chunk", 1, 64)
    scale: float = key("scale", 0.0, "factor of results; 0: 1 / sqrt(elements of a key)", 0.0, 1e6)

    @property
    def _chunk(self) -> int:
        return self.chunk

    def _fill(self, name: str, sizes: Mapping[str, int]) -> Fill:
        return Fill(Distribution.UNIFORM, -1.0, 0.0) if name == "g" else NORMAL

    def tiles(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Mapping[str, int]:
        return {"batch": 1, "tokens": self.chunk, "heads": 1}

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """A token has a product with a state, and two with each token up to itself in its chunk."""
        s = self._sizes(inputs[0])
        rest = s["t"] % self.chunk
        pairs = s["t"] // self.chunk * self.chunk * (self.chunk + 1) // 2 + rest * (rest + 1) // 2
        each = s["n"] * s["g"]
        flops = s["t"] * (2 * s["k"] * s["v"] + 3 * s["v"]) + pairs * 2 * (s["k"] + s["v"])
        return each * flops, each * (s["t"] + pairs)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        s = self._sizes(inputs[0])
        scale = float32(self.scale) or float32(1 / sqrt(s["k"]))
        own = (("chunk", self.chunk), ("scale", scale))
        grid = (ceil(s["v"] / WIDE), s["n"] * s["g"], s["c"])
        return self._lower(inputs, grid, own, f"{self.chunk}_{identifier(scale)}")

    def _run(self, tensors: Tensors) -> tuple[Array, Array]:
        """(results, bounds)."""
        q, k, v, h, g = (tensors[name] for name in "qkvhg")
        q, k = (np.repeat(each, v.shape[2] // q.shape[2], axis=2) for each in (q, k))
        size = q.shape[-1]
        scale = float32(self.scale) or float32(1 / sqrt(size))
        y, bound = np.empty_like(v), np.empty_like(v)
        by_keys, by_tokens = accumulated(size + 2), accumulated(min(self.chunk, v.shape[1]) + 2)
        for at in range(h.shape[1]):
            span = slice(at * self.chunk, (at + 1) * self.chunk)
            qc, kc, vc = (each[:, span].swapaxes(1, 2) for each in (q, k, v))
            gc = g[:, span].swapaxes(1, 2)[..., np.newaxis]
            apart = np.tril(gc - gc.swapaxes(-1, -2))
            fade = np.tril(np.exp(apart))
            scores, size_scores = qc @ kc.swapaxes(-1, -2), np.abs(qc) @ np.abs(kc).swapaxes(-1, -2)
            read, size_read = qc @ h[:, at], np.abs(qc) @ np.abs(h[:, at])
            made = scale * (np.exp(gc) * read + (fade * scores) @ vc)
            off_fade = rounding.exp(apart) + U * np.abs(apart) + 2 * U
            off = np.exp(gc) * size_read * (by_keys + rounding.exp(gc) + 2 * U)
            off = off + (fade * (size_scores * by_keys + np.abs(scores) * off_fade)) @ np.abs(vc)
            off = off + by_tokens * (np.exp(gc) * np.abs(read) + np.abs(fade * scores) @ np.abs(vc))
            y[:, span] = made.swapaxes(1, 2)
            bound[:, span] = (scale * off + 2 * U * np.abs(made) + 4 * TINY).swapaxes(1, 2)
        return y, bound * SECOND_ORDER

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        return {"y": self._run(tensors)[0]}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        return {"y": self._run(tensors)[1]}


def _of_tokens(argument: int, c: Values) -> Writes:
    """Some columns of all tokens of a head."""
    row = c["value_heads"] * c["value_size"]
    heads = (Places(c["samples"], c["tokens"] * row), Places(c["value_heads"], c["value_size"]))
    columns = cut_by(Places(c["value_size"], 1, COLUMNS))
    return Writes(argument, columns, cut_by(*heads), inside=(Places(c["tokens"], row),))


def _of_states(argument: int, c: Values, chunks: int) -> Writes:
    """Some columns of a head's states."""
    size = c["key_size"] * c["value_size"]
    samples = Places(c["samples"], chunks * c["value_heads"] * size)
    inside = (Places(chunks, c["value_heads"] * size), Places(c["key_size"], c["value_size"]))
    columns = cut_by(Places(c["value_size"], 1, COLUMNS))
    heads = cut_by(samples, Places(c["value_heads"], size))
    return Writes(argument, columns, heads, inside=inside)


@writes("delta_rule")
def _steps(c: Values, block: int) -> list[Writes]:
    return [_of_tokens(-2, c), _of_states(-1, c, 1)]


@writes("chunk_state")
def _chunks(c: Values, block: int) -> list[Writes]:
    chunks = ceil(c["tokens"] / c["chunk"])
    return [_of_tokens(-3, c), _of_states(-2, c, chunks), _of_states(-1, c, 1)]


@writes("chunk_output")
def _outputs(c: Values, block: int) -> list[Writes]:
    row = c["value_heads"] * c["value_size"]
    heads = (Places(c["samples"], c["tokens"] * row), Places(c["value_heads"], c["value_size"]))
    columns = cut_by(Places(c["value_size"], 1, WIDE))
    return [Writes(-1, columns, cut_by(*heads), cut_by(Places(c["tokens"], row, c["chunk"])))]
