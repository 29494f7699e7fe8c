"""Chains of nodes that exporters write in place of one operator, as that operator.

    Gelu                 x (1 + erf(x / sqrt(2))) / 2; the same by tanh, or by sigmoid
    Swish                x sigmoid(a x)
    HardSigmoid          clip(a x + b, 0, c) / c
    HardSwish            x clip(a x + b, 0, c) / c
    LayerNormalization   (x - mean) / sqrt(mean((x - mean)^2) + epsilon) scale + bias, of last axes
    RMSNormalization     x / sqrt(mean(x^2) + epsilon) scale

In whatever order the factors stand, and with roots, reciprocals and powers as they come: what is
compared is the algebra (simgen/frontend/importing/algebra.py), with numbers as float32 rounds them.
Patterns of nodes (graph.py) would need one for each order.

Source: gelu, layer_norm, hardswish and silu in symbolic_opset9.py of PyTorch; activations.py of
Transformers (NewGELUActivation, FastGELUActivation); fusion_gelu.py, fusion_fastgelu.py and
fusion_layernorm.py of ONNX Runtime.
"""

from __future__ import annotations

from functools import partial
from math import isclose, pi, prod, sqrt
from typing import TYPE_CHECKING, Any

from simgen.frontend.importing import algebra
from simgen.frontend.importing.algebra import (
    ONE,
    Algebra,
    NoFormula,
    X,
    plus,
    power,
    product,
    times,
)
from simgen.frontend.importing.graph import Graph
from simgen.frontend.importing.values import Operator, Value, Values
from simgen.ground.arrays import np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from simgen.frontend.importing.algebra import Atom, Polynomial

ANCHORS = ("Erf", "Tanh", "Sigmoid", "HardSigmoid", "Clip", "Sqrt", "Pow")  # a pattern has one
FURTHEST = 8  # nodes between an anchor and either end of its pattern
MAX_CANDIDATES = 48  # values around an anchor that are tried
CLOSE = 1e-5  # relative: constants are rounded to float32, some of them after six digits
NEWEST = 10**6  # operator set of what is found here
FLOAT = 1  # TensorProto.FLOAT
THIRD = 0.044715 * sqrt(2 / pi)  # factor of x^3 in Gelu by tanh

Found = tuple[str, tuple[str, ...], dict[str, Any]]  # operator, inputs, attributes


def recognised(
    operators: Sequence[Operator], values: Values, outputs: Iterable[str]
) -> list[Operator]:
    """The operators with patterns as one; those that only patterns needed are gone."""
    graph = Graph(operators, values)
    replaced: dict[str, Operator] = {}
    for anchor in operators:
        made_of = [name for name in (*anchor.inputs[:1], *anchor.outputs[:1]) if name]
        if anchor.kind not in ANCHORS or len(made_of) < 2 or values.known[made_of[1]].is_known:
            continue
        for made in _around(anchor, graph):
            replaced[made.outputs[0]] = graph.makers[made.outputs[0]] = made
    return _needed([replaced.get(each.outputs[0], each) for each in operators], outputs)


def _needed(operators: Sequence[Operator], outputs: Iterable[str]) -> list[Operator]:
    wanted, found = set(outputs), []
    for each in reversed(operators):
        if wanted.intersection(each.outputs):
            wanted.update(filter(None, each.inputs))
            found.append(each)
    return found[::-1]


def _around(anchor: Operator, graph: Graph) -> Iterator[Operator]:
    """The patterns that have the anchor, the longest one first."""
    values, makers, known = graph.values, graph.makers, graph.values.known
    behind = _reached(
        anchor.outputs[0],
        lambda name: [
            each.outputs[0]
            for each in graph.readers[name]
            if each.kind in algebra.KINDS and each.outputs[0] in known
        ],
    )
    before = _reached(
        anchor.inputs[0],
        lambda name: [
            each
            for each in (makers[name].inputs if name in makers else ())
            if each and makers[name].kind in algebra.KINDS and not known[each].is_known
        ],
    )
    computed = {
        x: Algebra(values, makers, x) for x in reversed(before) if known[x].element == FLOAT
    }
    for end in reversed(behind):
        for x, own in computed.items():
            if known[x].shape != known[end].shape:
                continue
            try:
                found = _operator(own.of(end), values, x, end)
            except (NoFormula, ArithmeticError):
                continue
            if found and found[0] != makers[end].kind:
                kind, inputs, attributes = found
                node = makers[end].node
                yield Operator(node, kind, NEWEST, inputs, (end,), attributes)
                break


def _reached(start: str, further: Callable[[str], list[str]]) -> list[str]:
    """Values from one on, the nearest first."""
    found, now = {start: None}, [start]
    for _ in range(FURTHEST):
        now = [each for name in now for each in further(name) if each not in found]
        found |= dict.fromkeys(now)
        if len(found) > MAX_CANDIDATES:
            break
    return list(found)


def _operator(polynomial: Polynomial, values: Values, x: str, end: str) -> Found | None:
    if any(algebra.is_known(atom) or atom[0] == "of" for each in polynomial for atom, _ in each):
        return _normalised(polynomial, values, x, end)
    return _gelu(polynomial, x) or _gated(polynomial, x)


# ---- Functions of an element ----


def _same(polynomial: Polynomial, expected: Polynomial) -> bool:
    return polynomial.keys() == expected.keys() and all(
        isclose(number, expected[each], rel_tol=CLOSE) for each, number in polynomial.items()
    )


def _gelu(polynomial: Polynomial, x: str) -> Found | None:
    one, three = product((X, 1.0)), product((X, 3.0))
    by_tanh: Polynomial = {one: sqrt(2 / pi), three: THIRD}
    forms: tuple[tuple[str, Polynomial, str], ...] = (
        ("erf", {one: sqrt(0.5)}, "none"),
        ("tanh", by_tanh, "tanh"),
        ("sigmoid", times(by_tanh, {ONE: 2.0}), "tanh"),
    )
    for name, inner, approximate in forms:
        for atom in {a for each in polynomial for a, _ in each if a[0] == name}:
            gate = product((X, 1.0), (atom, 1.0))
            whole = {gate: 1.0} if name == "sigmoid" else {one: 0.5, gate: 0.5}
            if _same(polynomial, whole) and _same(dict(atom[1]), inner):
                return "Gelu", (x,), {"approximate": approximate}
    return None


def _gated(polynomial: Polynomial, x: str) -> Found | None:
    """A gate, or x times one."""
    if len(polynomial) != 1:
        return None
    ((whole, number),) = polynomial.items()
    atoms = dict(whole)
    times_x = atoms.pop(X, 0.0)
    if times_x not in (0.0, 1.0) or list(atoms.values()) != [1.0]:
        return None
    ((name, inner, *ends),) = atoms
    one, line = product((X, 1.0)), dict(inner)
    if name == "sigmoid" and times_x and isclose(number, 1.0, rel_tol=CLOSE):
        return ("Swish", (x,), {"alpha": line[one]}) if line.keys() == {one} else None
    if name != "clip" or set(line) - {ONE} != {one} or ends[0] != 0:
        return None
    if not times_x and number == 1 and line == {one: 1.0}:
        return None  # Clip itself
    if not isclose(number * ends[1], 1.0, rel_tol=CLOSE):
        return None
    told = {"alpha": number * line[one], "beta": number * line.get(ONE, 0.0)}
    return "HardSwish" if times_x else "HardSigmoid", (x,), told


# ---- Normalisation of rows ----


def _normalised(polynomial: Polynomial, values: Values, x: str, end: str) -> Found | None:
    roots = {pair for each in polynomial for pair in each if pair[0][0] == "of"}
    if len(roots) != 1:
        return None
    ((atom, exponent),) = roots
    axes = {each[2] for part, _ in atom[1] for each, _ in part if each[0] == "mean"}
    shape = values.known[x].shape
    if exponent != -0.5 or len(axes) != 1:
        return None
    (row,) = axes
    if row != tuple(range(row[0], len(shape))):
        return None
    this: Polynomial = {product((X, 1.0)): 1.0}
    centred = plus(this, algebra.mean(row, this), -1.0)
    kind, rest = "LayerNormalization", _beside(atom, row, centred)
    if rest is None:
        kind, rest, centred = "RMSNormalization", _beside(atom, row, this), this
    if rest is None:
        return None
    scaled: Polynomial = {}
    bias: Polynomial = {}
    for each, number in polynomial.items():
        if (atom, exponent) in each:
            scaled[each - {(atom, exponent)}] = number
        else:
            bias[each] = number
    scale: Polynomial = {
        each - {(X, 1.0)}: number for each, number in scaled.items() if (X, 1.0) in each
    }
    if not _same(times(scale, centred), scaled):
        return None
    if bias and centred is this:
        return None
    inputs = [x]
    for name, numbers in (("scale", scale), ("bias", bias)):
        inputs += [_row(numbers, values, shape, row[0], f"{end}_{name}")] if numbers else []
    if len(inputs) == 1:
        return None
    return kind, tuple(inputs), {"axis": row[0], "epsilon": rest}


def _beside(atom: Atom, row: tuple[int, ...], x: Polynomial) -> float | None:
    """What is added to the mean of squares under a root; None: there is another, or nothing."""
    rest = plus(dict(atom[1]), algebra.mean(row, power(x, 2)), -1.0)
    return rest[ONE] if rest.keys() == {ONE} and rest[ONE] > 0 else None


def _row(numbers: Polynomial, values: Values, shape: Sequence[int], axis: int, name: str) -> str:
    """A tensor of a row that the model knows: sums of products of those that it has."""
    row = tuple(shape[axis:])
    for each in numbers:
        for atom, exponent in each:
            if not algebra.is_known(atom) or exponent != 1:
                raise NoFormula
            own = values.known[atom[1]].shape
            if prod(own[: -len(row)] if len(own) > len(row) else ()) != 1:
                raise NoFormula
    if len(numbers) == 1:  # as it is, in most models
        ((each, number),) = numbers.items()
        atoms = [atom for atom, _ in each]
        if number == 1 and len(atoms) == 1 and values.known[atoms[0][1]].shape == row:
            return str(atoms[0][1])
    name = values.fresh(name)
    values.known[name] = Value(row, FLOAT, partial(_sum, numbers, values, row))
    return name


def _sum(numbers: Polynomial, values: Values, row: tuple[int, ...]) -> NDArray[Any]:
    found = np.zeros(row, np.float32)
    for each, number in numbers.items():
        part: NDArray[Any] = np.full(row, number, np.float32)
        for atom, _ in each:
            own = values.known[atom[1]].array()
            part = part * own.reshape(own.shape[-len(row) :])
        found = found + part
    return found
