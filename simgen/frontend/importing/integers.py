"""Networks of 8-bit integers: nodes between DequantizeLinear and QuantizeLinear, as one operator.

    DequantizeLinear, Conv, [Relu,] QuantizeLinear        one [Convolution] of i8
    DequantizeLinear, Gemm or MatMul, QuantizeLinear      one [FullyConnected], or [Gemm], of i8
    two DequantizeLinear, Add, QuantizeLinear             one [Add] of i8
    DequantizeLinear, a pooling, Relu, view or Concat, QuantizeLinear     the same of i8

A sum of products that is not quantised again is one of i32, and a [Cast] makes it real. What has no
layer of integers computes with floats, between two [Cast]. A number u of uint8 with the zero point
z is held as u - 128 of i8 with z - 128, which stands for the same.

Source: QuantizeLinear, DequantizeLinear, QLinearConv and QLinearMatMul of ONNX; "Quantize ONNX
models" of ONNX Runtime, whose two forms these are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isclose
from typing import TYPE_CHECKING, Any

from simgen.frontend.importing.draft import BYTES, NodeSite
from simgen.frontend.importing.images import give_image, image_of, windows_of
from simgen.frontend.importing.table import OPERATORS, operator
from simgen.frontend.importing.values import Operator, Refused, Value, Values, linked
from simgen.ground.arrays import np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


LOW, HIGH = -128, 127
WORDS = 6  # TensorProto.INT32
CLOSE = 1e-5  # relative: of a bias' scale, that exporters round
NO_SCALE = "has a scale that is computed, or one for each channel of what is no weight"
CURE = "quantise it to int8 or uint8 with a scale that the model knows"
SUMS = {"Conv": "QLinearConv", "Gemm": "QLinearGemm", "MatMul": "QLinearMatMul"}
ORDERED = ("MaxPool", "GlobalMaxPool", "Relu")  # they choose one of their inputs
VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout")
MEANS = ("AveragePool", "GlobalAveragePool")
SAME = "QLinear"  # before the name of an operator whose result has the scale of its input
ADD, CONCAT = "QLinearAdd", "QLinearConcat"
Q, DQ = "QuantizeLinear", "DequantizeLinear"


@dataclass(frozen=True)
class Scale:
    """What integers of a tensor stand for: scale (q - zero)."""

    scale: float
    zero: int  # as i8 has it

    @property
    def entries(self) -> tuple[float, int]:
        return self.scale, self.zero


def _scale(values: Values, scale: str, zero: str, element: int) -> Scale:
    """The scale of a whole tensor, whose integers have a type.

    Raises:
        Refused: it has none.
    """
    one = values.known.get(scale)
    if one is None or not one.is_known or one.size != 1:
        raise Refused(f"{NO_SCALE}; {CURE}")
    number = float(one.array().reshape(-1)[0])
    if not 0 < number < float("inf"):
        raise Refused(f"its scale is {number:g}; give it one above 0")
    return Scale(number, _zero(values, zero, element))


def _zero(values: Values, name: str, element: int) -> int:
    """A zero point, as i8 has it."""
    if element not in BYTES:
        raise Refused(f"makes or takes other integers than of 8 bits; {CURE}")
    if not name:
        return -BYTES[element]
    value = values.known[name]
    if not value.is_known:
        raise Refused(f"has a zero point that is computed; {CURE}")
    found = sorted({int(each) for each in value.array().reshape(-1)})
    if len(found) != 1:
        fact = "has weights with several zero points"
        raise Refused(f"{fact}; quantise them symmetrically, or with one for the tensor")
    return found[0] - BYTES[element]


# ---- Nodes between integers, as one ----


def recognised(operators: Sequence[Operator], values: Values) -> list[Operator]:
    """The operators, with those between integers as one of integers."""
    return _Fused(operators, values).made()


@dataclass
class _Fused:
    operators: Sequence[Operator]
    values: Values

    def __post_init__(self) -> None:
        self.makers, self.readers = linked(self.operators)

    def made(self) -> list[Operator]:
        found = []
        for each in self.operators:
            made = self._quantised(each) if each.kind == Q else None
            if not made and each.kind in SUMS:
                made = self._sum(each, None)
            if not made and self._eight_bits(each) and each.kind in (*ORDERED, *VIEWS, "Concat"):
                kind = CONCAT if each.kind == "Concat" else SAME + each.kind
                made = replace(each, kind=kind)
            found.append(made or each)
        return found

    def _eight_bits(self, node: Operator) -> bool:
        first = self.values.known.get(node.input(0))
        return first is not None and not first.is_known and first.element in BYTES

    def _integers(self, name: str) -> Operator | None:
        """What makes a value real of integers that are computed."""
        maker = self.makers.get(name)
        if maker is None or maker.kind != DQ:
            return None
        source = self.values.known[maker.inputs[0]]
        scale = self.values.known[maker.inputs[1]]
        plain = not source.is_known and source.element in BYTES and scale.size == 1
        return maker if plain else None

    def _weights(self, name: str) -> Operator | None:
        """The same of integers that the model has."""
        maker = self.makers.get(name)
        if maker is None or maker.kind != DQ or not self.values.known[maker.inputs[0]].is_known:
            return None
        return maker

    def _quantised(self, last: Operator) -> Operator | None:
        """The node whose result this one quantises, with it."""
        if not last.input(1) or self.values.known[last.outputs[0]].element not in BYTES:
            return None
        node, rectified = self.makers.get(last.inputs[0]), False
        if node is None or self.values.known[last.inputs[0]].is_known:
            return None
        before = self.makers.get(node.input(0))
        if node.kind == "Relu" and before is not None and before.kind in (*SUMS, "Add"):
            node, rectified = before, True
        if node.kind in SUMS:
            return self._sum(node, last, rectified=rectified)
        sources = [self._integers(name) for name in node.inputs if name]
        if node.kind == "Add" and None not in sources:
            shapes = {self.values.known[name].shape for name in (*node.inputs, *node.outputs)}
            return self._joined(ADD, node, last, rectified) if len(shapes) == 1 else None
        if node.kind == "Concat" and None not in sources:
            return self._joined(CONCAT, node, last, False)
        if not sources or sources[0] is None or node.kind not in (*ORDERED, *VIEWS, *MEANS):
            return None
        if node.kind in MEANS and self._of(sources[0], "input") != self._of(last, "output"):
            return None  # rounded twice, it would be another
        kept = (*sources[0].inputs[:1], *node.inputs[1:])
        marks = {"of": _three(sources[0].inputs)[1:], "to": _three(last.inputs)[1:]}
        return Operator(
            node.node,
            SAME + node.kind,
            node.version,
            kept,
            last.outputs,
            {**node.attributes, **marks},
        )

    def _of(self, node: Operator, end: str) -> Scale | None:
        name = node.inputs[0] if end == "input" else node.outputs[0]
        try:
            return _scale(self.values, *_three(node.inputs)[1:], self.values.known[name].element)
        except Refused:
            return None

    def _joined(self, kind: str, node: Operator, last: Operator, rectified: bool) -> Operator:
        made = [self.makers[name] for name in node.inputs]
        inputs = [name for each in made for name in _three(each.inputs)]
        inputs += _three(last.inputs)[1:]
        attributes = {**node.attributes, "rectified": rectified}
        return Operator(node.node, kind, 0, tuple(inputs), last.outputs, attributes)

    def _sum(
        self, node: Operator, last: Operator | None, *, rectified: bool = False
    ) -> Operator | None:
        """A sum of products of integers; `last` quantises it, if anything does."""
        left = self._integers(node.inputs[0])
        right = self._weights(node.inputs[1]) or self._integers(node.inputs[1])
        if not left or not right or self.values.known[right.inputs[0]].element not in BYTES:
            return None
        bias = ""
        if node.input(2):
            made = self._weights(node.inputs[2])
            if made is None or self.values.known[made.inputs[0]].element != WORDS:
                return None
            bias = made.inputs[0]
        inputs = (*_three(left.inputs), *_three(right.inputs), *("", ""), bias)
        attributes: dict[str, Any] = {**node.attributes, "rectified": rectified, "quantised": False}
        attributes |= {"weights_axis": right.attributes.get("axis", 1)}
        attributes |= {"bias_scale": self.makers[node.inputs[2]].inputs[1]} if bias else {}
        outputs = node.outputs
        if last:
            inputs = (*inputs[:6], *_three(last.inputs)[1:], bias)
            outputs, attributes["quantised"] = last.outputs, True
        return Operator(node.node, SUMS[node.kind], 0, inputs, outputs, attributes)


def _three(inputs: Sequence[str]) -> tuple[str, str, str]:
    """What a node of DequantizeLinear or QuantizeLinear reads; "" where there is no zero point."""
    return inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else ""


# ---- One by one ----


@operator(Q)
def quantise(site: NodeSite) -> None:
    element = site.draft.values.known[site.operator.outputs[0]].element
    to = _scale_of(site, 1, 2, element)
    entries = {"type": "i8", "y_scale": to.scale, "y_zero_point": to.zero}
    _check_output(site)
    site.give(site.layer("Cast", entries, [site.tensor()]))


@operator(DQ)
def dequantise(site: NodeSite) -> None:
    of = _scale_of(site, 1, 2, site.value(0).element)
    entries = {"type": "f32", "x_scale": of.scale, "x_zero_point": of.zero}
    site.give(site.layer("Cast", entries, [site.integers(0)]))


def _scale_of(site: NodeSite, scale: int, zero: int, element: int) -> Scale:
    inputs = site.operator
    return _scale(site.draft.values, inputs.input(scale), inputs.input(zero), element)


def _check_output(site: NodeSite) -> None:
    """Raises:
    Refused: it is an output of the model, and held otherwise than the model has it.
    """
    values = site.draft.values
    ends = {each.name for each in values.model.graph.output}
    name = site.operator.outputs[0]
    if name in ends and BYTES.get(values.known[name].element):
        raise Refused("gives an output of uint8; end the model in DequantizeLinear, or take int8")


# ---- Sums of products ----


@dataclass(frozen=True)
class _Sum:
    """A sum of products: what its integers stand for."""

    x: Scale
    w: Scale
    y: Scale | None  # None: it is not quantised again
    w_scales: Value | None = None  # weight scales of the output channels

    def entries(self, x: str = "x", w: str = "w") -> dict[str, object]:
        """The config's entries."""
        found: dict[str, object] = {f"{x}_zero_point": self.x.zero, f"{w}_zero_point": self.w.zero}
        if self.y:
            found |= {f"{x}_scale": self.x.scale, f"{w}_scale": self.w.scale}
            found |= {"y_scale": self.y.scale, "y_zero_point": self.y.zero}
        found |= {"w_scale_per_channel": True} if self.w_scales else {}
        return {key: value for key, value in found.items() if value != 0}

    def give(self, site: NodeSite, made: str, shape: Sequence[int]) -> None:
        """Its result, behind the layer `made`."""
        if self.w_scales:
            scales = self.w_scales
            site.parameter(made, "w_scales", shape[:1], lambda: scales.array().reshape(-1))


def _sum_of(site: NodeSite, channels: int) -> _Sum:
    values, inputs = site.draft.values, site.operator
    x = _scale_of(site, 1, 2, site.value(0).element)
    last = None
    if inputs.input(6):
        last = _scale_of(site, 6, 7, values.known[inputs.outputs[0]].element)
        _check_output(site)
    w, scales = site.value(3), values.known[inputs.input(4)]
    zero = _zero(values, inputs.input(5), w.element)
    if scales.size == 1:
        return _Sum(x, _scale_of(site, 4, 5, w.element), last)
    if not (scales.is_known and scales.size == channels and w.is_known):
        raise Refused("has scales of its weights that are none of output channels; quantise it so")
    if last is None:
        fact = "has scales of channels, and its sums stay real"
        raise Refused(f"{fact}; quantise its result, or its weights with one scale")
    usual = float(np.mean(scales.array().astype(np.float64)))
    return _Sum(x, Scale(usual, zero), last, scales)


def _bias(site: NodeSite, found: _Sum, made: str, channels: int) -> None:
    """The bias of a sum: integers with the scales of both factors."""
    b = site.known(8, "bias")
    if b.size != channels:
        raise Refused("has a bias that is none of output channels")
    name = site.attribute("bias_scale", "")
    if name:
        given = site.draft.values.known[name].array().astype(np.float64).reshape(-1)
        factors = found.w_scales.array().reshape(-1) if found.w_scales else found.w.scale
        if not np.allclose(given, found.x.scale * np.asarray(factors, np.float64), CLOSE, 0):
            fact = "has a bias with another scale than its factors'"
            raise Refused(f"{fact}; quantise it with the product of theirs")
    site.parameter(made, "b", (channels,), lambda: b.array().astype(np.int32).reshape(-1), b)


def _eight(value: Value) -> Callable[[], NDArray[Any]]:
    """Weights as i8."""
    return lambda: (value.array().astype(np.int16) - BYTES[value.element]).astype(np.int8)


def _result(site: NodeSite, found: _Sum, made: str) -> str:
    """What behind a sum makes it what the node gives."""
    if found.y is None:
        scale = {"type": "f32", "x_scale": found.x.scale * found.w.scale}
        made = site.layer("Cast", scale, [made], "real")
    elif site.attribute("rectified") and found.y.zero > LOW:
        made = _rectified(site, made, found.y.zero)
    return made


def _rectified(site: NodeSite, tensor: str, zero: int) -> str:
    entries: dict[str, object] = {"activation_mode": "relu"} | (
        {"zero_point": zero} if zero else {}
    )
    return site.layer("Activation", entries, [tensor], "relu")


@operator("QLinearConv")
def convolution(site: NodeSite) -> None:
    image = image_of(site, site.integers(0))
    filters, channels, *kernel = site.known(3, "filters").shape
    found = _sum_of(site, filters)
    entries, padding = windows_of(site, image, kernel)
    if padding:
        fact = "has padding that differs on two sides, which 8-bit integers have not"
        raise Refused(f"{fact}; pad both sides alike, or in a node before")
    group = int(site.attribute("group", 1))
    more: dict[str, object] = {"group": group} if group > 1 else {}
    more |= {"bias": True} if site.has(8) else {}
    made = site.layer(
        "Convolution", {"num_output": filters, **entries, **more, **found.entries()}, [image.tensor]
    )
    shape = (filters, channels, *(1,) * (2 - image.axes), *kernel)
    weights = _eight(site.value(3))
    site.parameter(made, "w", shape, lambda: weights().reshape(shape), site.value(3))
    found.give(site, made, shape)
    if site.has(8):
        _bias(site, found, made, filters)
    give_image(site, image, _result(site, found, made))


@operator("QLinearMatMul", "QLinearGemm")
def product(site: NodeSite) -> None:
    gemm = site.operator.kind == "QLinearGemm"
    turned = bool(site.attribute("transB", 0))
    plain = all(site.attribute(name, 1.0) == 1 for name in ("alpha", "beta"))
    if not plain or site.attribute("transA", 0):
        raise Refused("multiplies by alpha or beta, or turns its first factor; leave that out")
    a, b = site.shape(0), site.shape(3)
    if min(len(a), len(b)) < 2:
        raise Refused("multiplies by a vector; give it a matrix of one row or column")
    outputs = site.result()[-1]
    found, w = _sum_of(site, outputs), site.value(3)
    if not (w.is_known and len(b) == 2):
        if found.w_scales or a[:-2] != b[:-2]:
            raise Refused("multiplies batches of other extents; expand them before")
        sources = [site.integers(0), site.integers(3)]
        entries = found.entries("a", "b") | ({"transb": True} if turned else {})
        site.give(_result(site, found, site.layer("Gemm", entries, sources)))
        return
    if found.w_scales and int(site.attribute("weights_axis", 1 - turned)) % 2 != 1 - turned:
        raise Refused("has scales of rows of its sums; quantise weights by output channel")
    more: dict[str, object] = {"bias": True} if site.has(8) else {}
    more |= {} if gemm and len(a) == 2 else {"axis": -1}
    made = site.layer(
        "FullyConnected", {"num_output": outputs, **more, **found.entries()}, [site.integers(0)]
    )
    shape, weights = (outputs, a[-1]), _eight(w)
    site.parameter(made, "w", shape, lambda: weights() if turned else weights().T, w)
    found.give(site, made, shape)
    if site.has(8):
        _bias(site, found, made, outputs)
    site.give(_result(site, found, made))


# ---- What keeps integers, or adds two ----


@operator(ADD)
def add(site: NodeSite) -> None:
    one, other = (
        _scale_of(site, 1, 2, site.value(0).element),
        _scale_of(site, 4, 5, site.value(3).element),
    )
    y = _scale_of(site, 6, 7, site.draft.values.known[site.operator.outputs[0]].element)
    entries: dict[str, object] = {}
    for name, each in (("x0", one), ("x1", other), ("y", y)):
        entries |= {f"{name}_scale": each.scale, f"{name}_zero_point": each.zero}
    _check_output(site)
    made = site.layer("Add", entries, [site.integers(0), site.integers(3)])
    rectify = site.attribute("rectified") and y.zero > LOW
    site.give(_rectified(site, made, y.zero) if rectify else made)


@operator(CONCAT)
def concat(site: NodeSite) -> None:
    inputs = site.operator.inputs
    element = site.draft.values.known[site.operator.outputs[0]].element
    if "rectified" in site.operator.attributes:
        *parts, scale, zero = inputs
        to = _scale(site.draft.values, scale, zero, element)
        places = range(0, len(parts), 3)
        of = [_scale_of(site, at + 1, at + 2, site.value(at).element) for at in places]
        tensors = [_rescaled(site, site.integers(at), each, to, f"in{at // 3}")
                   for at, each in zip(places, of, strict=True)]  # fmt: skip
    else:
        tensors = [site.integers(at) for at in range(len(inputs))]
    rank, axis = len(site.result()), int(site.attribute("axis", 1))
    if axis % rank == 0 or not 2 <= len(tensors) <= 16:
        raise Refused("joins integers along the batch, or more than 16; join them as floats")
    _check_output(site)
    site.give(site.layer("Concat", {"axis": axis % rank}, tensors))


def _rescaled(site: NodeSite, tensor: str, of: Scale, to: Scale, suffix: str) -> str:
    """Integers with another scale."""
    if _alike(of, to):
        return tensor
    entries = {"type": "i8", "x_scale": of.scale, "x_zero_point": of.zero, "y_scale": to.scale,
               "y_zero_point": to.zero}  # fmt: skip
    return site.layer("Cast", entries, [tensor], suffix)


def _alike(one: Scale, other: Scale) -> bool:
    return one.zero == other.zero and isclose(one.scale, other.scale, rel_tol=1e-7)


@operator(*(SAME + kind for kind in (*ORDERED, *VIEWS, *MEANS)))
def same(site: NodeSite) -> None:
    """An operator that has its layer of floats, with integers."""
    attributes = dict(site.operator.attributes)
    of, to = attributes.pop("of", None), attributes.pop("to", None)
    scales = None
    if of and to:
        ends = (site.operator.inputs[0], site.operator.outputs[0])
        known = site.draft.values.known
        before = _scale(site.draft.values, of[0], of[1], known[ends[0]].element)
        scales = before, _scale(site.draft.values, to[0], to[1], known[ends[1]].element)
    kind = site.operator.kind.removeprefix(SAME)
    zero = scales[0].zero if scales else 0
    site.operator = replace(site.operator, kind=kind, attributes=attributes | {"zero_point": zero})
    if kind == "Relu" and not scales:
        raise Refused("rectifies integers without a zero point; put it between real numbers")
    OPERATORS[kind](site)
    output = site.operator.outputs[0]
    if scales:
        tensor = site.draft.tensors[output]
        site.give(_rescaled(site, tensor, *scales, suffix="rescaled"))
    _check_output(site)
