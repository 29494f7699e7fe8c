"""Rotary position embedding: pairs of a head's elements turn by angles that grow with the position.

    forward   (a, b) -> c (a cos t - b sin t, a sin t + b cos t)       t = position * f[i]
    backward  the same with -t

    x, y, dx, dy  (N, H, T, D)      positions  (N, T) int32, or 0, 1, 2, ...
    with sections                   positions  (N, A, T)

Of the first R elements, i and i + R / 2 are a pair, or with interleaved=true 2 i and 2 i + 1; the
rest does not turn. f[i] = base^(-2 i / R), and for longer texts than a model was trained for
(`original` tokens), with c = 1 but for yarn:

    linear  f / factor
    llama3  f where a turn takes less than original / high tokens; f / factor where it takes more
            than original / low; between them a mean by original over the turn's tokens
    yarn    f where original tokens make `fast` turns or more; f / factor where they make `slow` or
            less; between them a mean by i; c = 1 + log(factor) / 10, or `attention`

With truncate=false, the ends of what is between are no whole pairs.

With `sections`, tokens have A positions each, as time, row and column of a part of an image: the
first pairs turn by the first of them, and so on. With `turning_heads`, later heads are copied, as
values that lie behind queries and keys.

The kernel has frequencies as whole numbers, parts of a turn: what 2^-33 of a turn is wrong for each
token of a position is in the bound.

Source: Su et al., "RoFormer", 2021; Peng et al., "YaRN", 2023; P. Wang et al., "Qwen2-VL", 2024,
section 2.1 (sections); modeling_rope_utils.py of Hugging Face's transformers, which has these
scalings and their keys.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, floor, log, pi
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.errors import printable
from simgen.ground.arrays import np
from simgen.ground.ir import Constants, Distribution, DType, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics.rounding import TINY, U, float32, identifier
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.indices import outside
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

LAST = 2**24  # positions
LONGEST = 140  # characters that a kernel's name has for a scaling
TURN = 2.0**32


class RopeScaling(StrEnum):
    NONE = "none"
    LINEAR = "linear"
    LLAMA3 = "llama3"
    YARN = "yarn"


@dataclass(frozen=True)
class Rope(Layer):
    kind = "rope"
    section = "RoPE"
    contract: ClassVar[Contract] = Contract(rounds=True, cancels=True)
    input_names: ClassVar[tuple[str, ...]] = ("x", "positions")
    indices: ClassVar[tuple[str, ...]] = ("positions",)
    per_sample = True
    any_float = True
    axis_names: ClassVar[tuple[str, ...]] = ("batch", "heads", "tokens", "size")
    sample: ClassVar[Mapping[str, str]] = {"shape": "2x8x128x64"}

    rotary: int = key("rotary", 0, "elements of a head that turn; 0: all", 0)
    base: float = key("base", 10000.0, "what frequencies are powers of", 1.0, 1e12)
    interleaved: bool = key("interleaved", False, "neighbours are a pair, not those of two halves")
    scaling: RopeScaling = key("scaling", RopeScaling.NONE, "how frequencies fit longer texts")
    factor: float = key("factor", 8.0, "of the lengths of texts, with a scaling", 1.0, 1e6)
    original: int = key("original", 8192, "tokens of texts that a model was trained for", 1)
    low: float = key("low", 1.0, "llama3: turns in them, up to which they are slowed", 1e-3, 1e6)
    high: float = key("high", 4.0, "llama3: turns in them, from which on they stay", 1e-3, 1e6)
    fast: float = key("fast", 32.0, "yarn: turns in them, from which on they stay", 1e-3, 1e6)
    slow: float = key("slow", 1.0, "yarn: turns in them, up to which they are slowed", 1e-3, 1e6)
    truncate: bool = key("truncate", True, "yarn: what is between the ends begins at whole pairs")
    attention: float = key(
        "attention", 0.0, "yarn: factor of cosines and sines; 0: by `factor`", 0.0, 1e6
    )
    with_positions: bool = key("positions", False, "an input has the tokens' positions")
    sections: str = key("sections", "", "pairs that turn by each position of a token: 16x24x24")
    turning: int = key("turning_heads", 0, "heads that turn, the first ones; 0: all", 0)

    @property
    def _sections(self) -> tuple[int, ...]:
        """Raises ValueError: they are no numbers."""
        if not re.fullmatch(r"(\d{1,4}(x\d{1,4})*)?", self.sections):
            raise ValueError(f"sections is {printable(self.sections)}; write numbers: 16x24x24")
        return tuple(map(int, self.sections.split("x"))) if self.sections else ()

    def _spec(self, x: TensorSpec) -> TensorSpec:
        """Spec of the positions."""
        tokens = x.shape[2] if len(x.shape) == 4 else 1  # `output` tells of other axes
        axes = self._sections
        return TensorSpec((x.shape[0], *([len(axes)] if axes else []), tokens), DType.I32)

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        return (x, self._spec(x)) if self.with_positions else (x,)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        x, *given = inputs
        if len(given) != self.with_positions:
            cure = "leave them out" if given else "name them in previous_layer"
            told = str(self.with_positions).lower()
            raise ValueError(f"positions={told}, and it has {len(inputs)} inputs; {cure}")
        if len(x.shape) != 4:
            raise ValueError("x has other axes than (N, H, T, D); insert [Heads] before it")
        _, heads, _, size = x.shape
        if given and given[0].shape != self._spec(x).shape:
            told, right = (" x ".join(map(str, s.shape)) for s in (given[0], self._spec(x)))
            raise ValueError(f"positions are {told}; give it {right}")
        if self._sections and not given:
            raise ValueError("sections are of positions; add positions=true, or leave them out")
        if self.turning > heads:
            raise ValueError(f"{self.turning} heads of {heads} do not turn; write {heads} or less")
        turning = self.rotary or size
        if self._sections and 2 * sum(self._sections) != turning:
            fact = f"sections have {sum(self._sections)} pairs, and {turning // 2} turn"
            raise ValueError(f"{fact}; make them as many")
        if turning % 2 or turning > size:
            fact = f"{turning} elements of {size} do not turn in pairs"
            raise ValueError(f"{fact}; take an even number of them, with rotary")
        if self.low >= self.high or self.slow >= self.fast:
            raise ValueError("no frequency lies between the ends; make low < high and slow < fast")
        return x

    def frequencies(self, size: int) -> tuple[Array, float]:
        """(radians for a token, by pair; the factor of cosines and sines)."""
        turning = self.rotary or size
        i = np.arange(turning // 2)
        f = float32(self.base) ** (-2.0 * i / turning)
        slowed = f / float32(self.factor)
        turns = self.original * f / (2 * pi)  # in a text of that length
        low, high, fast, slow = map(float32, (self.low, self.high, self.fast, self.slow))
        match self.scaling:
            case RopeScaling.LINEAR:
                return slowed, 1.0
            case RopeScaling.LLAMA3:
                share = np.clip((turns - low) / (high - low), 0.0, 1.0)
            case RopeScaling.YARN:
                ends = [self._pair(turns_there, turning) for turns_there in (fast, slow)]
                whole = (floor(ends[0]), ceil(ends[1])) if self.truncate else ends
                first, last = max(whole[0], 0), min(whole[1], turning - 1)
                share = 1 - np.clip((i - first) / max(last - first, 0.001), 0.0, 1.0)
                c = float32(self.attention) or 1 + log(float32(self.factor)) / 10
                return share * f + (1 - share) * slowed, c
            case _:
                return f, 1.0
        return share * f + (1 - share) * slowed, 1.0

    def _pair(self, turns: float, turning: int) -> float:
        """Which pair makes so many turns in a text."""
        if self.base == 1:
            return 0.0
        return turning * log(self.original / (turns * 2 * pi)) / (2 * log(float32(self.base)))

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Three operations for each element that turns; a cosine and a sine for each pair of a
        token."""
        x = inputs[0]
        n, heads, tokens, size = x.shape
        turning = self.rotary or size
        return 3 * n * tokens * (self.turning or heads) * turning, n * tokens * turning

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        x, y = inputs[0], self.output(inputs)
        source, target = elementwise.ends(direction)
        some = Fill(Distribution.UNIFORM, 0.0, float(max(4096, self.original)))
        given = [Port("positions", spec, some) for spec in inputs[1:]]
        return (Port(source, x, Fill(Distribution.NORMAL, 0.0, 1.0)), *given, Port(target, y))

    def tiles(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Mapping[str, int]:
        return {"batch": 1, "tokens": 1}

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        """None where pairs do not lie by fours."""
        names = tuple(port.name for port in self.ports(inputs, direction))
        return names if self._vector(inputs[0]) == elementwise.VECTOR else ()

    def _vector(self, x: TensorSpec) -> int:
        size = x.shape[3]
        return 1 if (self.rotary or size) % 8 or size % 4 else elementwise.VECTOR

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        x = inputs[0]
        _, heads, tokens, size = x.shape
        source, target = elementwise.ends(direction)
        vector = self._vector(x)
        dtype = x.dtype if vector == elementwise.VECTOR else DType.F32
        frequencies, factor = self.frequencies(size)
        ends = [sum(self._sections[: at + 1]) for at in range(len(self._sections))]
        turns = [round(f * TURN / (2 * pi)) for f in frequencies.tolist()]
        constants: Constants = (
            ("size", x.size),
            ("tokens", tokens),
            ("heads", heads),
            ("dim", size),
            ("pairs", len(turns)),
            ("turns", " ".join(map(str, turns))),
            ("vector", vector),
            ("interleaved", int(self.interleaved)),
            ("back", int(direction is Pass.BACKWARD)),
            ("factor", float32(factor)),
            ("with_positions", int(self.with_positions)),
            ("turning_heads", self.turning or heads),
            ("axes", max(len(ends), 1)),
            ("ends", " ".join(map(str, ends)) or str(len(turns))),
            *elementwise.element(dtype),
        )
        own = (self.factor, self.original, self.low, self.high, self.fast, self.slow)
        scaled = f"_{self.scaling}{'_'.join(map(identifier, own))}"
        scaled += "" if self.truncate else "_between"
        scaled += f"_a{identifier(self.attention)}" if float32(self.attention) else ""
        if len(scaled) > LONGEST:
            scaled = f"_{self.scaling}_{hashlib.sha256(scaled.encode()).hexdigest()[:16]}"
        parts = (
            f"rope_{direction}_{x.shape[0]}x{heads}x{tokens}x{size}_r{2 * len(turns)}",
            f"_b{identifier(self.base)}",
            scaled if self.scaling is not RopeScaling.NONE else "",
            "_interleaved" if self.interleaved else "",
            f"_positions{self.sections}" if self.with_positions else "",
            f"_h{self.turning}" if self.turning else "",
            elementwise.suffix(dtype),
        )
        kernel = Kernel("".join(parts), "rope.hip", elementwise.BLOCK, constants)
        each = ceil(size / (2 * vector)) if self.interleaved else (size - len(turns)) // vector
        items = x.size // size * each
        args = (source, *(("positions",) if self.with_positions else ()), target)
        return Lowering((kernel,), (Launch(kernel.name, (ceil(items / kernel.block), 1, 1), args),))

    def fault(self, given: Mapping[str, NDArray[Any]], inputs: tuple[TensorSpec, ...]) -> str:
        return outside("positions", given.get("positions"), 0, LAST)

    # ---- Reference and bounds ----

    def _positions(self, tensors: Tensors, x: Array) -> Array:
        """(N, 1, T, 1), or with sections (N, 1, T, pairs)."""
        given = tensors["positions"] if self.with_positions else np.arange(x.shape[2])[np.newaxis]
        made: Array = given.astype(np.float64)[:, np.newaxis, :, np.newaxis]
        if self._sections:
            axis = np.repeat(np.arange(len(self._sections)), self._sections)
            made = given.astype(np.float64)[:, axis].swapaxes(1, 2)[:, np.newaxis]
        return made

    def _turned(self, x: Array, along: Array, across: Array) -> Array:
        """(a, b) -> (a along - b across, a across + b along)."""
        y = x.copy()
        turning = self.turning or x.shape[1]
        x = x[:, :turning]
        pairs = along.shape[-1]
        ends = (slice(0, pairs), slice(pairs, 2 * pairs))
        if self.interleaved:
            ends = (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
        a, b = (x[..., end] for end in ends)
        y[:, :turning, :, ends[0]] = a * along - b * across
        y[:, :turning, :, ends[1]] = a * across + b * along
        return y

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        source, target = elementwise.ends(direction)
        x = tensors[source]
        frequencies, factor = self.frequencies(x.shape[3])
        angles = self._positions(tensors, x) * frequencies
        sines = np.sin(angles) * (1 if direction is Pass.FORWARD else -1)
        return {target: self._turned(x, factor * np.cos(angles), factor * sines)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """An angle is off by half of 2^-32 of a turn for each token of its position. What is left
        of a quarter turn is off by two roundings, its polynomials by three, the factor by two. Then
        two products and their sum. What does not turn is a copy."""
        source, target = elementwise.ends(direction)
        x = tensors[source]
        frequencies, factor = self.frequencies(x.shape[3])
        positions = self._positions(tensors, x)
        off = factor * (positions * (pi / TURN) + 8 * U) * np.ones_like(frequencies)
        pairs = frequencies.size
        bound = np.zeros_like(x)
        turning = self.turning or x.shape[1]
        both = self._turned(np.abs(x), off, -off)[:, :turning]  # |a| off + |b| off in one half
        ends = slice(0, 2 * pairs, 2) if self.interleaved else slice(0, pairs)
        most = both[..., ends] + TINY
        of_heads = bound[:, :turning]
        if self.interleaved:
            of_heads[..., 0 : 2 * pairs : 2] = of_heads[..., 1 : 2 * pairs : 2] = most
        else:
            of_heads[..., :pairs] = of_heads[..., pairs : 2 * pairs] = most
        return {target: bound}


@writes("rope")
def _rope(c: Values, block: int) -> list[Writes]:
    """Neighbours lie side by side; otherwise there are first ends, and second ones or the rest."""
    size, pairs, vector = c["dim"], c["pairs"], c["vector"]
    rows = Places(c["size"] // size, size)
    if c["interleaved"]:
        return [Writes(-1, cut_by(rows, Places(size, 1, 2 * vector), group=block))]
    rest = size - 2 * pairs
    first = Places(pairs, 1, vector, empty=rest // vector)
    second = Places(pairs + rest, 1, vector)
    return [
        Writes(-1, cut_by(rows, first, group=block)),
        Writes(-1, cut_by(rows, second, group=block), offset=pairs),
    ]
