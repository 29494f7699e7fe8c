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

from simgen.frontend.importing.draft import BYTES, KeepsIntegers, NodeSite
from simgen.frontend.importing.graph import Graph, Match, Rule, node, rewrite
from simgen.frontend.importing.images import give_image, image_of, windows_of
from simgen.frontend.importing.table import OPERATORS, operator
from simgen.frontend.importing.values import Operator, Refused, Value, Values
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


@dataclass(frozen=True)
class Quantised:
    """What DequantizeLinear makes real, or QuantizeLinear whole: names of values."""

    name: str
    scale: str
    zero: str  # "" where there is none

    @classmethod
    def read_by(cls, node: Operator) -> Quantised:
        return cls(*(node.input(at) for at in range(3)))


@dataclass(frozen=True)
class SumOf:
    """A sum of products of integers; what quantises it again, if anything does."""

    x: Quantised
    w: Quantised
    to: Quantised | None
    bias: str = ""
    bias_scale: str = ""
    rectified: bool = False
    axis: int | None = None  # axis of the scales of w, where the model says it


@dataclass(frozen=True)
class JoinOf:
    """What Add or Concat takes, and what it gives."""

    sources: tuple[Quantised, ...]
    to: Quantised
    rectified: bool


@dataclass(frozen=True)
class Rescaled:
    """What an operator reads, and what quantises its result."""

    of: Quantised
    to: Quantised


def recognised(operators: Sequence[Operator], values: Values) -> list[Operator]:
    """The operators, with those between integers as one of integers."""
    return rewrite(Graph(operators, values), RULES)


def _stored(graph: Graph, node: Operator) -> bool:
    """Whether it makes integers real that the model has."""
    return graph.values.known[node.inputs[0]].is_known


def _computed(graph: Graph, node: Operator) -> bool:
    """Whether it makes 8-bit integers real that are computed, with one scale."""
    known = graph.values.known
    return _eight_bits(graph, node) and known[node.inputs[1]].size == 1


def _factor(graph: Graph, node: Operator) -> bool:
    element = graph.values.known[node.inputs[0]].element
    return element in BYTES and (_stored(graph, node) or _computed(graph, node))


def _words(graph: Graph, node: Operator) -> bool:
    return _stored(graph, node) and graph.values.known[node.inputs[0]].element == WORDS


def _eight_bits(graph: Graph, node: Operator) -> bool:
    first = graph.values.known.get(node.input(0))
    return first is not None and not first.is_known and first.element in BYTES


def _to_eight_bits(graph: Graph, node: Operator) -> bool:
    known = graph.values.known
    first, made = known[node.inputs[0]], known[node.outputs[0]]
    return bool(node.input(1)) and made.element in BYTES and not first.is_known


def _sum(m: Match) -> Operator:
    node, b = m.nodes["sum"], m.nodes.get("b")
    to = Quantised.read_by(m.node) if m.node.kind == Q else None
    x, w = (Quantised.read_by(m.nodes[name]) for name in "xw")
    bias, scale = (b.inputs[0], b.inputs[1]) if b else ("", "")
    axis = m.nodes["w"].attributes.get("axis", 1)
    fact = SumOf(x, w, to, bias, scale, "Relu" in m.nodes, axis)
    return _summed(node, SUMS[node.kind], fact, m.node)


def _summed(node: Operator, kind: str, fact: SumOf, last: Operator) -> Operator:
    inputs = (*_read(fact.x, fact.w), *(_read(fact.to)[1:] if fact.to else ()), fact.bias)
    return Operator(node.node, kind, 0, inputs, last.outputs, node.attributes, fact)


def _read(*given: Quantised) -> tuple[str, ...]:
    return tuple(name for each in given for name in (each.name, each.scale, each.zero))


def _native(m: Match) -> Operator:
    """An operator of ONNX's own that is one already."""
    names = [m.node.input(at) for at in range(9)]
    x, w, to = Quantised(*names[:3]), Quantised(*names[3:6]), Quantised("", *names[6:8])
    return _summed(m.node, m.node.kind, SumOf(x, w, to, names[8]), m.node)


def _joined(m: Match) -> Operator | None:
    node, known = m.nodes["node"], m.graph.values.known
    made = [m.graph.makers.get(name) for name in node.inputs if name]
    parts = [each for each in made if each and each.kind == DQ and _computed(m.graph, each)]
    shapes = {known[name].shape for name in (*node.inputs, *node.outputs)}
    if len(parts) < len(made) or (node.kind == "Add" and len(shapes) > 1):
        return None
    sources, to = tuple(map(Quantised.read_by, parts)), Quantised.read_by(m.node)
    inputs, fact = (*_read(*sources), *_read(to)[1:]), JoinOf(sources, to, "Relu" in m.nodes)
    kind = f"{SAME}{node.kind}"
    return Operator(node.node, kind, 0, inputs, m.node.outputs, node.attributes, fact)


def _rescaling(m: Match) -> Operator | None:
    node, of, to = m.nodes["node"], m.nodes["x"], m.node
    if node.kind in MEANS and _of(m.graph, of, of.inputs[0]) != _of(m.graph, to, to.outputs[0]):
        return None  # rounded twice, it would be another
    kept = (of.inputs[0], *node.inputs[1:])
    fact = Rescaled(Quantised.read_by(of), Quantised.read_by(to))
    return replace(node, kind=SAME + node.kind, inputs=kept, outputs=to.outputs, fact=fact)


def _of(graph: Graph, node: Operator, name: str) -> Scale | None:
    try:
        read = Quantised.read_by(node)
        return _scale(graph.values, read.scale, read.zero, graph.values.known[name].element)
    except Refused:
        return None


def _kept(m: Match) -> Operator:
    return replace(m.node, kind=SAME + m.node.kind)


FACTORS = (
    node(DQ, when=_computed, name="x"),
    node(DQ, when=_factor, name="w"),
    node(DQ, when=_words, name="b", optional=True),
)
RULES: tuple[Rule, ...] = (
    (node(Q, node(tuple(SUMS), *FACTORS, name="sum", behind="Relu"), when=_to_eight_bits), _sum),
    (node(Q, node("Add", name="node", behind="Relu"), when=_to_eight_bits), _joined),
    (node(Q, node("Concat", name="node"), when=_to_eight_bits), _joined),
    (node(Q, node((*ORDERED, *VIEWS, *MEANS), FACTORS[0], name="node"), when=_to_eight_bits),
     _rescaling),
    (node(tuple(SUMS), *FACTORS, name="sum"), _sum),
    (node((*ORDERED, *VIEWS, "Concat"), when=_eight_bits), _kept),
    (node(("QLinearConv", "QLinearMatMul")), _native),
)  # fmt: skip


# ---- One by one ----


@operator(Q)
def quantise(site: NodeSite) -> None:
    to = _scale_given(site, Quantised.read_by(site.operator))
    entries = {"type": "i8", "y_scale": to.scale, "y_zero_point": to.zero}
    _check_output(site)
    site.give(site.layer("Cast", entries, [site.tensor()]))


@operator(DQ)
def dequantise(site: NodeSite) -> None:
    of = _scale_of(site, Quantised.read_by(site.operator))
    entries = {"type": "f32", "x_scale": of.scale, "x_zero_point": of.zero}
    site.give(site.layer("Cast", entries, [site.integers(0)]))


def _scale_of(site: NodeSite, read: Quantised) -> Scale:
    """The scale of what a node reads."""
    return _scale(site.draft.values, read.scale, read.zero, site.value(read.name).element)


def _scale_given(site: NodeSite, to: Quantised) -> Scale:
    """The scale of what it gives."""
    element = site.draft.values.known[site.operator.outputs[0]].element
    return _scale(site.draft.values, to.scale, to.zero, element)


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
    fact, last = site.fact(SumOf), None
    x = _scale_of(site, fact.x)
    if fact.to:
        last = _scale_given(site, fact.to)
        _check_output(site)
    w, scales = site.value(fact.w.name), site.value(fact.w.scale)
    zero = _zero(site.draft.values, fact.w.zero, w.element)
    if scales.size == 1:
        return _Sum(x, _scale_of(site, fact.w), last)
    if not (scales.is_known and scales.size == channels and w.is_known):
        raise Refused("has scales of its weights that are none of output channels; quantise it so")
    if last is None:
        fault = "has scales of channels, and its sums stay real"
        raise Refused(f"{fault}; quantise its result, or its weights with one scale")
    usual = float(np.mean(scales.array().astype(np.float64)))
    return _Sum(x, Scale(usual, zero), last, scales)


def _bias(site: NodeSite, found: _Sum, made: str, channels: int) -> None:
    """The bias of a sum, if it has one: integers with the scales of both factors."""
    fact = site.fact(SumOf)
    if not fact.bias:
        return
    b = site.known(fact.bias, "bias")
    if b.size != channels:
        raise Refused("has a bias that is none of output channels")
    if fact.bias_scale:
        given = site.value(fact.bias_scale).array().astype(np.float64).reshape(-1)
        factors = found.w_scales.array().reshape(-1) if found.w_scales else found.w.scale
        if not np.allclose(given, found.x.scale * np.asarray(factors, np.float64), CLOSE, 0):
            fault = "has a bias with another scale than its factors'"
            raise Refused(f"{fault}; quantise it with the product of theirs")
    site.parameter(made, "b", (channels,), lambda: b.array().astype(np.int32).reshape(-1), b)


def _eight(value: Value) -> Callable[[], NDArray[Any]]:
    """Weights as i8."""
    return lambda: (value.array().astype(np.int16) - BYTES[value.element]).astype(np.int8)


def _result(site: NodeSite, found: _Sum, made: str) -> str:
    """What behind a sum makes it what the node gives."""
    if found.y is None:
        scale = {"type": "f32", "x_scale": found.x.scale * found.w.scale}
        made = site.layer("Cast", scale, [made], "real")
    elif site.fact(SumOf).rectified and found.y.zero > LOW:
        made = _rectified(site, made, found.y.zero)
    return made


def _rectified(site: NodeSite, tensor: str, zero: int) -> str:
    entries: dict[str, object] = {"activation_mode": "relu"} | (
        {"zero_point": zero} if zero else {}
    )
    return site.layer("Activation", entries, [tensor], "relu")


@operator("QLinearConv")
def convolution(site: NodeSite) -> None:
    fact = site.fact(SumOf)
    image = image_of(site, site.integers(fact.x.name))
    w = site.known(fact.w.name, "filters")
    filters, channels, *kernel = w.shape
    found = _sum_of(site, filters)
    entries, padding = windows_of(site, image, kernel)
    if padding:
        fault = "has padding that differs on two sides, which 8-bit integers have not"
        raise Refused(f"{fault}; pad both sides alike, or in a node before")
    group = int(site.attribute("group", 1))
    more: dict[str, object] = {"group": group} if group > 1 else {}
    more |= {"bias": True} if fact.bias else {}
    made = site.layer(
        "Convolution", {"num_output": filters, **entries, **more, **found.entries()}, [image.tensor]
    )
    shape = (filters, channels, *(1,) * (2 - image.axes), *kernel)
    weights = _eight(w)
    site.parameter(made, "w", shape, lambda: weights().reshape(shape), w)
    found.give(site, made, shape)
    _bias(site, found, made, filters)
    give_image(site, image, _result(site, found, made))


@operator("QLinearMatMul", "QLinearGemm")
def product(site: NodeSite) -> None:
    gemm = site.operator.kind == "QLinearGemm"
    turned = bool(site.attribute("transB", 0))
    plain = all(site.attribute(name, 1.0) == 1 for name in ("alpha", "beta"))
    if not plain or site.attribute("transA", 0):
        raise Refused("multiplies by alpha or beta, or turns its first factor; leave that out")
    fact = site.fact(SumOf)
    a, b = site.shape(fact.x.name), site.shape(fact.w.name)
    if min(len(a), len(b)) < 2:
        raise Refused("multiplies by a vector; give it a matrix of one row or column")
    outputs = site.result()[-1]
    found, w = _sum_of(site, outputs), site.value(fact.w.name)
    if not (w.is_known and len(b) == 2):
        if found.w_scales or a[:-2] != b[:-2]:
            raise Refused("multiplies batches of other extents; expand them before")
        sources = [site.integers(each.name) for each in (fact.x, fact.w)]
        entries = found.entries("a", "b") | ({"transb": True} if turned else {})
        site.give(_result(site, found, site.layer("Gemm", entries, sources)))
        return
    if found.w_scales and fact.axis is not None and fact.axis % 2 != 1 - turned:
        raise Refused("has scales of rows of its sums; quantise weights by output channel")
    more: dict[str, object] = {"bias": True} if fact.bias else {}
    more |= {} if gemm and len(a) == 2 else {"axis": -1}
    entries = {"num_output": outputs, **more, **found.entries()}
    made = site.layer("FullyConnected", entries, [site.integers(fact.x.name)])
    shape, weights = (outputs, a[-1]), _eight(w)
    site.parameter(made, "w", shape, lambda: weights() if turned else weights().T, w)
    found.give(site, made, shape)
    _bias(site, found, made, outputs)
    site.give(_result(site, found, made))


# ---- What keeps integers, or adds two ----


@operator(ADD)
def add(site: NodeSite) -> None:
    fact = site.fact(JoinOf)
    scales = [_scale_of(site, each) for each in fact.sources]
    y = _scale_given(site, fact.to)
    entries: dict[str, object] = {}
    for name, each in zip(("x0", "x1", "y"), (*scales, y), strict=True):
        entries |= {f"{name}_scale": each.scale, f"{name}_zero_point": each.zero}
    _check_output(site)
    made = site.layer("Add", entries, [site.integers(each.name) for each in fact.sources])
    rectify = fact.rectified and y.zero > LOW
    site.give(_rectified(site, made, y.zero) if rectify else made)


@operator(CONCAT)
def concat(site: NodeSite) -> None:
    fact = site.operator.fact
    if isinstance(fact, JoinOf):
        to = _scale_given(site, fact.to)
        of = [_scale_of(site, each) for each in fact.sources]
        tensors = [_rescaled(site, site.integers(read.name), each, to, f"in{at}")
                   for at, (read, each) in enumerate(zip(fact.sources, of))]  # fmt: skip
    else:
        tensors = [site.integers(at) for at in range(len(site.operator.inputs))]
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
    fact, scales = site.operator.fact, None
    if isinstance(fact, Rescaled):
        scales = _scale_of(site, fact.of), _scale_given(site, fact.to)
    kind = site.operator.kind.removeprefix(SAME)
    kept = KeepsIntegers(scales[0].zero if scales else 0)
    site.operator = replace(site.operator, kind=kind, fact=kept)
    if kind == "Relu" and not scales:
        raise Refused("rectifies integers without a zero point; put it between real numbers")
    OPERATORS[kind](site)
    output = site.operator.outputs[0]
    if scales:
        tensor = site.draft.tensors[output]
        site.give(_rescaled(site, tensor, *scales, suffix="rescaled"))
    _check_output(site)
