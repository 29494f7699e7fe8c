"""Moves the elements of a tensor: axes in another order, a part, added borders, copies along an
axis. One copy, forward only.

    mode       y[i, j, ...] =
    permute    x with the axes in `order`: y's axis a is x's axis order[a]
    crop       x[begin_i + step_i i, begin_j + step_j j, ...], of the extents `to`
    pad        x[i - before_i, j - before_j, ...] where that is an element, otherwise `value`; y has
               `before` and `behind` elements more along each axis
    expand     x[i, 0, ...] where x has one element along the second axis, and y as many as `to` has

Values separated by x have a number for each axis; in `to`, 0 is x's extent. Without them, permute
reverses the axes, and the other modes copy x.

Source: Transpose, Slice, Pad (mode "constant") and Expand of ONNX.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, prod
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Constants, DType, Kernel, Launch, OpCount, Pass, TensorSpec
from simgen.ground.numerics.rounding import float32, identifier
from simgen.layers import elementwise
from simgen.layers.axes import MAX_INT, extents
from simgen.layers.base import Lowering, Sums, key
from simgen.layers.contract import Contract
from simgen.layers.copying import Copy
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.written import writes_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

Shape = tuple[int, ...]


class Rearrangement(StrEnum):
    PERMUTE = "permute"
    CROP = "crop"
    PAD = "pad"
    EXPAND = "expand"


@dataclass(frozen=True)
class _Axis:
    """An axis of y, with the place of its elements in x."""

    extent: int
    stride: int  # elements of x from one to the next
    before: int = 0  # elements that are padding
    limit: int = 0  # elements behind them that are x's; 0: all, nothing is padded


@dataclass(frozen=True)
class Rearrange(Copy):
    kind = "rearrange"
    section = "Rearrange"
    contract: ClassVar[Contract] = Contract(copies=(Pass.FORWARD,), gathers=("x",))
    passes: ClassVar[tuple[Pass, ...]] = (Pass.FORWARD,)
    per_sample = False
    integers: ClassVar[tuple[DType, ...]] = ()
    sample: ClassVar[Mapping[str, str]] = {"shape": "16x4x29x28x28", "order": "0x2x1x3x4"}

    mode: Rearrangement = key("mode", Rearrangement.PERMUTE, "kind of rearrangement")
    order: str = key("order", "", "permute: axes of x, in the order of y's")
    begin: str = key("begin", "", "crop: first element along each axis")
    to: str = key("to", "", "crop, expand: extents of y; 0: as in x")
    step: str = key("step", "", "crop: step along each axis, in elements of x")
    before: str = key("before", "", "pad: elements added before x along each axis")
    behind: str = key("behind", "", "pad: elements added after x along each axis")
    value: float = key(
        "value",
        0.0,
        "pad: value of the added elements",
        -3.4028234663852886e38,
        3.4028234663852886e38,
    )

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        shape = tuple(axis.extent for axis in self._axes(x.shape)[0])
        if prod(shape) > MAX_INT:
            raise ValueError(f"y has {prod(shape)} elements, more than {MAX_INT}; make it smaller")
        return TensorSpec(shape, x.dtype)

    def _numbers(self, name: str, shape: Shape, usual: int, least: int = 0) -> Shape:
        """The value of a key: a number for each axis."""
        text: str = getattr(self, name)
        found = extents(name, text, least) if text else (usual,) * len(shape)
        if len(found) != len(shape):
            fact = f"{name} is {text}, and the input has {len(shape)} axes"
            raise ValueError(f"{fact}; write a number for each")
        return found

    def _axes(self, shape: Shape) -> tuple[list[_Axis], int]:
        """The axes of y for the shape of x, and where in x its first element is.

        Raises:
            ValueError: the keys do not fit the shape.
        """
        strides = [prod(shape[at + 1 :]) for at in range(len(shape))]
        match self.mode:
            case Rearrangement.PERMUTE:
                order = self._order(shape)
                return [_Axis(shape[axis], strides[axis]) for axis in order], 0
            case Rearrangement.CROP:
                return self._crop(shape, strides)
            case Rearrangement.PAD:
                before, behind = (self._numbers(n, shape, 0) for n in ("before", "behind"))
                wide = [sum(each) for each in zip(before, shape, behind, strict=True)]
                axes = [_Axis(*each) for each in zip(wide, strides, before, shape, strict=True)]
                return axes, 0
            case Rearrangement.EXPAND:
                to = self._to(shape)
                for have, want in zip(shape, to, strict=True):
                    if have not in (1, want):
                        fact = f"to is {self.to}, and x has {have} elements along an axis"
                        raise ValueError(f"{fact} that gets {want}; only one can become several")
                return [
                    _Axis(want, stride if have == want else 0)
                    for have, want, stride in zip(shape, to, strides, strict=True)
                ], 0

    def _order(self, shape: Shape) -> Shape:
        if not self.order:
            return tuple(range(len(shape)))[::-1]
        order = self._numbers("order", shape, 0)
        if sorted(order) != list(range(len(shape))):
            fact = f"order is {self.order}, and the input has the axes 0 to {len(shape) - 1}"
            raise ValueError(f"{fact}; write each of them once")
        return order

    def _to(self, shape: Shape) -> Shape:
        to = self._numbers("to", shape, 0)
        return tuple(want or have for have, want in zip(shape, to, strict=True))

    def _crop(self, shape: Shape, strides: list[int]) -> tuple[list[_Axis], int]:
        begin, step = self._numbers("begin", shape, 0), self._numbers("step", shape, 1, 1)
        room = tuple(-(-(have - b) // s) for have, b, s in zip(shape, begin, step, strict=True))
        asked = self._numbers("to", shape, 0)
        to = tuple(want or most for want, most in zip(asked, room, strict=True))
        if any(not 1 <= want <= most for want, most in zip(to, room, strict=True)):
            fact = f"to is {'x'.join(map(str, to))}, and behind begin there is room for"
            raise ValueError(f"{fact} {'x'.join(map(str, room))}; choose others")
        axes = [_Axis(want, s * stride) for want, s, stride in zip(to, step, strides, strict=True)]
        return axes, sum(b * stride for b, stride in zip(begin, strides, strict=True))

    def count(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> OpCount:
        """Each element of y is written once, and what it is made of read once."""
        (x,), y = inputs, self.output(inputs)
        return OpCount(0, 0, min(x.nbytes, y.nbytes), y.nbytes)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,), y = inputs, self.output(inputs)
        whole, first = self._axes(x.shape)
        axes = _merged(whole)
        by_fours = axes[-1].stride == 1 and not axes[-1].limit
        others = (first, axes[-1].extent, *(axis.stride for axis in axes[:-1]))
        by_fours = by_fours and not any(each % VECTOR for each in others)
        vector = VECTOR if by_fours or x.dtype.is_narrow else 1
        value = float32(self.value) if any(axis.limit for axis in axes) else 0.0
        constants: Constants = (
            ("size", y.size),
            ("first", first),
            ("extents", " ".join(str(axis.extent) for axis in axes)),
            ("strides", " ".join(str(axis.stride) for axis in axes)),
            ("before", " ".join(str(axis.before) for axis in axes)),
            ("limits", " ".join(str(axis.limit) for axis in axes)),
            ("value", value),
            ("vector", vector),
            *elementwise.element(x.dtype),
        )
        text = repr((constants, x.size))
        name = f"rearrange_{self.mode}_{y.size}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        name += f"_v{identifier(value)}" if value else ""
        kernel = Kernel(f"{name}{elementwise.suffix(x.dtype)}", "rearrange.hip", BLOCK, constants)
        grid = (ceil(y.size / (BLOCK * vector)), 1, 1)
        return Lowering((kernel,), (Launch(kernel.name, grid, ("x", "y")),))

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        x = tensors["x"]
        return {"y": np.ascontiguousarray(self._rearranged(x))}

    def _rearranged(self, x: Array) -> Array:
        match self.mode:
            case Rearrangement.PERMUTE:
                return x.transpose(self._order(x.shape))
            case Rearrangement.CROP:
                begin = self._numbers("begin", x.shape, 0)
                step = self._numbers("step", x.shape, 1, 1)
                to = tuple(axis.extent for axis in self._axes(x.shape)[0])
                ends = (b + s * (n - 1) + 1 for b, s, n in zip(begin, step, to, strict=True))
                return x[tuple(slice(b, e, s) for b, e, s in zip(begin, ends, step, strict=True))]
            case Rearrangement.PAD:
                around = [self._numbers(name, x.shape, 0) for name in ("before", "behind")]
                pairs = list(zip(*around, strict=True))
                padded: Array = np.pad(x, pairs, constant_values=float32(self.value))
                return padded
            case Rearrangement.EXPAND:
                return np.broadcast_to(x, self._to(x.shape))

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums(whole=float(self.value).is_integer())


def _merged(axes: list[_Axis]) -> list[_Axis]:
    """The same elements in the same order, with as few axes as possible."""
    found: list[_Axis] = []
    for axis in axes:
        last = found[-1] if found else None
        padded = axis.limit != axis.extent and axis.limit > 0
        plain = _Axis(axis.extent, axis.stride) if not padded else axis
        if (
            last
            and not last.limit
            and not plain.limit
            and (last.stride == plain.extent * plain.stride or last.extent == 1)
        ):
            found[-1] = _Axis(last.extent * plain.extent, plain.stride)
        elif plain.extent > 1 or plain.limit or not found:
            found.append(plain)
    return found


writes_all("rearrange")
