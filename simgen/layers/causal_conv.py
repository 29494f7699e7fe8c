"""Causal convolution along the tokens of a text, each channel by itself.

    s[n, t, c] = b[c] + sum over j < W of w[c, j] h[n, t + j, c]
    y          = s, or s / (1 + exp(-s)) with silu=true
    last[n]    = h[n, T : T + W - 1]                        with keep=true: what the next call gets
    h[n]       = the W - 1 tokens of `state`, or zeros; then the T tokens of x

    x, y  (N, T, C)      w  (C, W)      b  (C)      state, last  (N, W - 1, C)

With T = 1, `state` and `last` it is a single step of decoding. Forward only.

Source: Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023,
section 3.4; causal_conv1d_fn and causal_conv1d_update of its package causal-conv1d.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import exactness
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, accumulated
from simgen.layers import elementwise, gelu
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

F = Pass.FORWARD
RUN = 4  # tokens of a work-item


@dataclass(frozen=True)
class CausalConv1d(Layer):
    kind = "causal_conv"
    section = "CausalConv1d"
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    input_names: ClassVar[tuple[str, ...]] = ("x", "state")
    output_names: ClassVar[tuple[str, ...]] = ("y", "last")
    per_sample = True
    any_float = True
    axis_names: ClassVar[tuple[str, ...]] = ("batch", "tokens", "channels")
    sample: ClassVar[Mapping[str, str]] = {"shape": "2x64x256", "bias": "true"}

    width: int = key("width", 4, "tokens that a result is made of", 2, 8)
    bias: bool = key("bias", False, "a bias is added")
    silu: bool = key("silu", False, "s / (1 + exp(-s)) of each sum s")
    with_state: bool = key("state", False, "a second input has the tokens before x")
    keep: bool = key("keep", False, "a second output has the last tokens, for the next call")

    @property
    def takes(self) -> tuple[str, ...]:
        return self.input_names if self.with_state else self.input_names[:1]

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]  # a bias only with its key
        return ("w", "b") if self.bias else ("w",)

    def _history(self, x: TensorSpec) -> TensorSpec:
        return TensorSpec((x.shape[0], self.width - 1, x.shape[-1]), x.dtype)

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        return (x, self._history(x))[: len(self.takes)]

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        x, *given = inputs
        if len(x.shape) != 3:
            told = " x ".join(map(str, x.shape))
            raise ValueError(f"x is {told}; give it samples, tokens and channels: 2x64x256")
        if len(given) != self.with_state:
            cure = "write state=true" if given else "name the state in previous_layer"
            told = str(self.with_state).lower()
            raise ValueError(f"state={told}, and it has {len(inputs)} inputs; {cure}")
        if given and given[0] != self._history(x):
            told, right = (" x ".join(map(str, s.shape)) for s in (given[0], self._history(x)))
            raise ValueError(f"state is {told} of {given[0].dtype}; give it {right} of {x.dtype}")
        return x

    def outputs(self, inputs: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
        made = {"y": self.output(inputs)}
        return {**made, "last": self._history(inputs[0])} if self.keep else made

    def tiles(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Mapping[str, int]:
        return {"batch": 1, "tokens": RUN, "channels": BLOCK * VECTOR}

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Two operations for each product; of silu four more, and two functions."""
        size = inputs[0].size
        return (2 * self.width + 4 * self.silu) * size, 2 * self.silu * size

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x, channels = inputs[0], inputs[0].shape[-1]
        # Sums are about 1, so that silu bends them.
        normal = Fill(Distribution.NORMAL, 0.0, 1.0)
        specs = {"x": x, "w": TensorSpec((channels, self.width), x.dtype)}
        specs |= {"b": TensorSpec((channels,), x.dtype), "state": self._history(x)}
        read = ("x", *self.takes[1:], *self.parameters)
        return (
            *(Port(name, specs[name], normal) for name in read),
            *(Port(name, spec) for name, spec in self.outputs(inputs).items()),
        )

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        whole = inputs[0].shape[-1] % VECTOR == 0
        return super().moves(inputs, direction) if whole else ()

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        x = inputs[0] if self.moves(inputs, direction) else TensorSpec(inputs[0].shape)
        n, tokens, channels = x.shape
        vector = 1 if channels % VECTOR else VECTOR
        run = min(RUN, tokens)
        kinds = (self.bias, self.silu, self.with_state, self.keep)
        constants = (
            ("samples", n),
            ("tokens", tokens),
            ("channels", channels),
            ("width", self.width),
            ("run", run),
            ("vector", vector),
            ("silu", int(self.silu)),
            ("with_bias", int(self.bias)),
            ("with_state", int(self.with_state)),
            ("with_last", int(self.keep)),
            *elementwise.element(x.dtype),
        )
        flags = "".join(str(int(each)) for each in kinds)
        suffix = elementwise.suffix(x.dtype)
        name = f"causal_conv_{n}x{tokens}x{channels}_{self.width}_{flags}{suffix}"
        kernel = Kernel(name, "causal_conv.hip", BLOCK, constants)
        groups = _groups(n * ceil(tokens / run), channels, vector)
        groups += _groups(n * (self.width - 1), channels, vector) if self.keep else 0
        args = ("x", *self.takes[1:], *self.parameters, *self.outputs(inputs))
        return Lowering((kernel,), (Launch(name, (groups, 1, 1), args),))

    # ---- Reference and bounds ----

    def _tokens(self, tensors: Tensors) -> Array:
        """h: (N, W - 1 + T, C)."""
        x = tensors["x"]
        before = np.zeros((x.shape[0], self.width - 1, x.shape[2]))
        return np.concatenate([tensors.get("state", before), x], axis=1)

    def _sums(self, tensors: Tensors) -> Array:
        h, w = self._tokens(tensors), tensors["w"]
        tokens = tensors["x"].shape[1]
        made = np.zeros_like(tensors["x"])
        for j in range(self.width):
            made += w[:, j] * h[:, j : j + tokens]
        return made + tensors["b"] if self.bias else made

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        s = self._sums(tensors)
        made = {"y": gelu.forward(s, gelu.SILU) if self.silu else s}
        if self.keep:
            made["last"] = self._tokens(tensors)[:, tensors["x"].shape[1] :]
        return made

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """A sum of W products and a bias. The slope of silu is 1.1 at most."""
        s = self._sums(tensors)
        magnitude = self._sums({name: np.abs(each) for name, each in tensors.items()})
        error = accumulated(self.width + 1) * magnitude + (self.width + 1) * TINY
        if self.silu:
            own = gelu.forward_bound(s, gelu.forward(s, gelu.SILU), gelu.SILU)
            error = (1.1 * error + own) * SECOND_ORDER
        made = {"y": error}
        if self.keep:
            made["last"] = np.zeros_like(self.reference(tensors, direction)["last"])
        return made

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return None if self.silu else Sums(self.width + 1)

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        grain = exactness.grain(self._tokens(tensors), tensors["w"])
        grain = min(grain, exactness.grain(tensors["b"])) if self.bias else grain
        if self.silu or not grain:
            return {}
        magnitude = self._sums({name: np.abs(each) for name, each in tensors.items()})
        return {"y": exactness.settled(self._sums(tensors), magnitude, grain)}


def _groups(rows: int, channels: int, vector: int) -> int:
    return ceil(rows * ceil(channels / vector) / BLOCK)


@writes("causal_conv")
def _results(c: Values, block: int) -> list[Writes]:
    n, tokens, channels = c["samples"], c["tokens"], c["channels"]
    across = Places(channels, 1, c["vector"])
    samples = Places(n, tokens * channels)
    y = Writes(-1, cut_by(samples, Places(tokens, channels, c["run"]), across, group=block))
    if not c["with_last"]:
        return [y]
    kept = cut_by(Places(n * (c["width"] - 1), channels), across, group=block)
    made = Writes(-2, y.x)
    return [made, Writes(-1, kept, first=made.grid[0])]
