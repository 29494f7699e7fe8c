"""What a chain of nodes computes of one tensor x, in a form that is the same however it is written.

The form is a polynomial: a sum of products of atoms, with a number before each. Atoms are x,
tensors that the model knows, and functions (erf, a mean, what a root is taken of) of polynomials;
they have exponents, so that a quotient by a root and a product with its reciprocal are one product.
`x * 0.5 * (1 + erf(x / sqrt(2)))` and `(x + x * erf(x * sqrt(0.5))) / 2` have the same form.

    Polynomial  {product: number before it}
    Product     {(atom, exponent)}          the empty one is 1
    Atom        (what it is, ...)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simgen.frontend.importing.values import Operator, Refused, Values

if TYPE_CHECKING:
    from collections.abc import Mapping

    Atom = tuple[Any, ...]
    Product = frozenset[tuple[Atom, float]]
    Polynomial = dict[Product, float]

ONE: Product = frozenset()
X: Atom = ("x",)
DEEPEST = 24  # nodes in a row
MAX_TERMS = 64  # products of a polynomial
MALFORMED = (ArithmeticError, LookupError, TypeError, ValueError)  # nodes that are damaged
LARGEST_POWER = 4  # largest power that is multiplied out
FUNCTIONS = {"Erf": "erf", "Tanh": "tanh", "Sigmoid": "sigmoid"}
LINEAR = ("Add", "Sum", "Sub", "Neg")
KINDS = (*FUNCTIONS, *LINEAR, "Mul", "Div", "Pow", "Sqrt", "Reciprocal", "ReduceMean", "Clip",
         "HardSigmoid", "Cast", "Identity")  # fmt: skip


class NoFormula(Exception):  # noqa: N818 - it is an answer
    """It computes something else, of more than x, or too much."""


def product(*atoms: tuple[Atom, float]) -> Product:
    return frozenset(atoms)


def is_known(atom: Atom) -> bool:
    """Whether it is a tensor that the model knows."""
    return bool(atom[0] == "known")


def plus(left: Polynomial, right: Polynomial, factor: float = 1.0) -> Polynomial:
    """left + factor right"""
    found = dict(left)
    for each, number in right.items():
        found[each] = found.get(each, 0.0) + factor * number
    return {each: number for each, number in found.items() if number}


def times(left: Polynomial, right: Polynomial) -> Polynomial:
    found: Polynomial = {}
    if len(left) * len(right) > MAX_TERMS:
        raise NoFormula
    for one, first in left.items():
        for other, second in right.items():
            exponents = dict(one)
            for atom, exponent in other:
                exponents[atom] = exponents.get(atom, 0.0) + exponent
            joined = frozenset((a, e) for a, e in exponents.items() if e)
            found[joined] = found.get(joined, 0.0) + first * second
    return {each: number for each, number in found.items() if number}


def atom_of(polynomial: Polynomial) -> Atom:
    """A polynomial as an atom, of which a power is taken."""
    return ("of", frozenset(polynomial.items()))


def power(base: Polynomial, exponent: float) -> Polynomial:
    if exponent in range(1, LARGEST_POWER + 1):
        found: Polynomial = {ONE: 1.0}
        for _ in range(int(exponent)):
            found = times(found, base)
        return found
    if len(base) == 1:
        ((each, number),) = base.items()
        positive = all(atom[0] == "of" for atom, _ in each)  # a root of x^2 is not x
        if (positive or exponent == -1) and number > 0:
            return {frozenset((a, e * exponent) for a, e in each): number**exponent}
    return {product((atom_of(base), exponent)): 1.0}


def function(name: str, of_what: Polynomial, *more: float) -> Polynomial:
    return {product(((name, frozenset(of_what.items()), *more), 1.0)): 1.0}


def mean(axes: tuple[int, ...], of_what: Polynomial) -> Polynomial:
    return {product((("mean", frozenset(of_what.items()), axes), 1.0)): 1.0}


@dataclass
class Algebra:
    """What nodes compute of x."""

    values: Values
    makers: Mapping[str, Operator]  # value -> what gives it
    x: str
    held: dict[str, Polynomial | None] = field(default_factory=dict)

    def of(self, name: str, depth: int = 0) -> Polynomial:
        """The polynomial that a value is.

        Raises:
            NoFormula: it is none of x and what the model knows.
        """
        if name not in self.held:
            try:
                self.held[name] = self._made(name, depth)
            except (NoFormula, Refused, *MALFORMED):
                self.held[name] = None
        found = self.held[name]
        if found is None:
            raise NoFormula
        return found

    def _made(self, name: str, depth: int) -> Polynomial:
        if name == self.x:
            return {product((X, 1.0)): 1.0}
        value = self.values.known.get(name)
        if value is None or depth > DEEPEST:
            raise NoFormula
        if value.is_known:
            if value.size == 1:
                # As a decimal: 1e-12, and not what float32 has in its place.
                return {ONE: float(str(value.array().reshape(-1)[0]))}
            return {product((("known", name), 1.0)): 1.0}
        maker = self.makers.get(name)
        if maker is None or maker.kind not in KINDS:
            raise NoFormula
        return self._computed(maker, depth + 1)

    def _computed(self, node: Operator, depth: int) -> Polynomial:
        if node.kind == "Clip":
            return self._clip(node, depth)
        if node.kind == "ReduceMean":
            return mean(self._axes(node), self.of(node.inputs[0], depth))
        if node.kind == "Cast":
            elements = {self.values.known[each].element for each in (*node.inputs, *node.outputs)}
            if len(elements) > 1:
                raise NoFormula
        first, *rest = [self.of(each, depth) for each in node.inputs if each]
        match node.kind:
            case "Add" | "Sum":
                for each in rest:
                    first = plus(first, each)
                return first
            case "Sub":
                return plus(first, rest[0], -1.0)
            case "Neg":
                return plus({}, first, -1.0)
            case "Mul":
                return times(first, rest[0])
            case "Div":
                return times(first, power(rest[0], -1))
            case "Pow":
                return power(first, _number(rest[0]))
            case "Sqrt":
                return power(first, 0.5)
            case "Reciprocal":
                return power(first, -1)
            case "HardSigmoid":
                slope, offset = (float(node.attributes[name]) for name in ("alpha", "beta"))
                line = plus(times(first, {ONE: slope} if slope else {}), {ONE: offset})
                return function("clip", line, 0.0, 1.0)
            case "Cast" | "Identity":
                return first
            case kind:
                return function(FUNCTIONS[kind], first)

    def _clip(self, node: Operator, depth: int) -> Polynomial:
        ends = [float(node.attributes.get(name, 0.0)) for name in ("min", "max")]
        if node.version >= 11:
            if not (node.input(1) and node.input(2)):
                raise NoFormula
            ends = [_number(self.of(node.input(at), depth)) for at in (1, 2)]
        return function("clip", self.of(node.inputs[0], depth), *ends)

    def _axes(self, node: Operator) -> tuple[int, ...]:
        """Axes that a mean is taken over, and keeps."""
        rank = len(self.values.known[node.inputs[0]].shape)
        asked = node.attributes.get("axes")
        if asked is None and node.input(1) and self.values.known[node.input(1)].is_known:
            asked = self.values.known[node.input(1)].array().reshape(-1)
        if asked is None or not len(asked) or not node.attributes.get("keepdims", 1):
            raise NoFormula
        return tuple(sorted(int(axis) % rank for axis in asked))


def _number(polynomial: Polynomial) -> float:
    """What is a number alone."""
    if set(polynomial) - {ONE}:
        raise NoFormula
    return polynomial.get(ONE, 0.0)
