"""NumPy expressions of users: read as syntax, and nothing in them is executed but what is listed.

Bundles are mailed, and a reference is in them. So an expression is no Python program: names are
tensors and parameters, functions those of the tables below, with or without `np.` in front.

    a + b            (a @ b).sum(axis=1)           np.where(x > 0, x, 0)           x[:, ::-1].T
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from simgen.errors import did_you_mean, printable
from simgen.layers.own import inexact
from simgen.layers.own.functions import CONSTANTS, FUNCTIONS, METHODS, limited
from simgen.layers.own.inexact import FLOAT32, Arithmetic, Decision, Inexact

LONGEST = 4000  # characters
DEEPEST = 60  # levels
MOST_ROUNDS = 10_000  # maximum iterations of loops in an expression
MOST_BITS = 256  # maximum bits of a whole number

_EXACT: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.Div: operator.truediv, ast.Pow: operator.pow, ast.MatMult: operator.matmul,
}  # fmt: skip
_ROUNDED: dict[type, Callable[[Inexact, Inexact], Inexact]] = {
    ast.Add: inexact.add, ast.Sub: inexact.subtract, ast.Mult: inexact.multiply,
    ast.Div: inexact.divide, ast.Pow: inexact.power,
}  # fmt: skip
_COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


# Names in it that are neither tensors nor parameters.
PLAIN = frozenset((*FUNCTIONS, *CONSTANTS, "np", "numpy"))
# Types of NumPy, which are no functions here, and what to write in their place.
TYPES = re.compile(r"u?int(8|16|32|64|p|c)?|float(16|32|64)?|half|single|double|bool_?|dtype")
CAST = "cast with x.astype(int), which has 64 bits, or x.astype(float)"


class ExpressionError(ValueError):
    """An expression that is none, or cannot be worked out: "fact; cure"."""


def parse(text: str) -> ast.expr:
    """The syntax of an expression.

    Raises:
        ExpressionError: it is none.
    """
    if len(text) > LONGEST:
        raise ExpressionError(f"longer than {LONGEST} characters; compute it in a Python file")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"{printable(text)} is not an expression; correct it") from None


def names(text: str) -> set[str]:
    """All names in it that it does not give values itself, as `for i in range(3)` does."""
    found = [each for each in ast.walk(parse(text)) if isinstance(each, ast.Name)]
    own = {each.id for each in found if isinstance(each.ctx, ast.Store)}
    return {each.id for each in found} - own


def evaluate(text: str, known: Mapping[str, Any], u: Arithmetic = FLOAT32) -> Any:
    """What an expression is, where names stand for numbers, arrays of whole numbers and `Inexact`.

    Raises:
        ExpressionError: it cannot be worked out.
    """
    node = parse(text)
    try:
        with np.errstate(all="ignore"):
            return _Evaluator(known, u).value(node)
    except ExpressionError:
        raise
    except MemoryError:
        raise ExpressionError(
            f"{printable(text)}: takes too much memory; make it smaller"
        ) from None
    except (
        ValueError,
        TypeError,
        ArithmeticError,
        LookupError,
        AttributeError,
        RecursionError,
    ) as e:
        said = (str(e).splitlines() or [type(e).__name__])[0]
        raise ExpressionError(f"{printable(text)}: {said}; correct it") from None


def number(text: str | int | float, known: Mapping[str, Any]) -> int | float:
    """A number that an expression of parameters is.

    Raises:
        ExpressionError: it is none.
    """
    found = evaluate(text, known) if isinstance(text, str) else text
    if isinstance(found, (np.integer, np.floating)) or (
        isinstance(found, np.ndarray) and not found.ndim
    ):
        found = found.item()
    if type(found) not in (int, float) or found != found or abs(found) == float("inf"):
        raise ExpressionError(f"{printable(str(text))} is not a number; correct it")
    return found


def _is_maximum(node: ast.expr, of: ast.expr) -> bool:
    """Whether an expression is the maximum of another, as in exp(x - x.max())."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    called = node.func
    of_numpy = isinstance(called.value, ast.Name) and called.value.id in ("np", "numpy")
    argument = (node.args or [called.value])[0] if of_numpy else called.value
    return called.attr == "max" and ast.dump(argument) == ast.dump(of)


class _Evaluator:
    def __init__(self, known: Mapping[str, Any], u: Arithmetic) -> None:
        self.known, self.u, self.depth = known, u, 0

    def value(self, node: ast.expr) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ExpressionError("nested too deeply; write it in parts, one for each output")
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise ExpressionError(
                f"{printable(ast.unparse(node))} is not of the expressions that simgen evaluates; "
                "compute it in a Python file: reference = 'FILE.py:FUNCTION'"
            )
        found = method(node)
        self.depth -= 1
        return limited(found)

    def _constant(self, node: ast.Constant) -> Any:
        if type(node.value) in (int, float, bool, type(None), type(...)):
            return node.value
        raise ExpressionError(f"{printable(ast.unparse(node))}: write a number")

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.known:
            return self.known[node.id]
        if node.id in CONSTANTS:
            return CONSTANTS[node.id]
        raise ExpressionError(
            f"no tensor or parameter {printable(node.id)}; {did_you_mean(node.id, self.known)}"
        )

    def _tuple(self, node: ast.Tuple | ast.List) -> Any:
        return tuple(self.value(each) for each in node.elts)

    _list = _tuple

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp) -> Any:
        """A value for each of some whole numbers: `[x[i:i + n] for i in range(3)]`."""
        before = self.known
        found: list[Any] = []
        for known in self._rounds(node.generators, dict(before)):
            if len(found) == MOST_ROUNDS:
                raise ExpressionError(
                    f"more than {MOST_ROUNDS} rounds; compute it in a Python file"
                )
            self.known = known
            found.append(self.value(node.elt))
        self.known = before
        return tuple(found)

    _generatorexp = _listcomp

    def _rounds(
        self, loops: list[ast.comprehension], known: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        if not loops:
            yield known
            return
        (loop, *inner), self.known = loops, known
        values = self.value(loop.iter)
        if not isinstance(loop.target, ast.Name) or not isinstance(values, (range, tuple)):
            raise ExpressionError(
                f"{printable(ast.unparse(loop.iter))} is no range; write for i in range(3)"
            )
        for value in values:
            here = {**known, loop.target.id: value}
            self.known = here
            if all(self._truth(each) for each in loop.ifs):
                yield from self._rounds(inner, here)

    def _slice(self, node: ast.Slice) -> slice:
        return slice(*(each and self.value(each) for each in (node.lower, node.upper, node.step)))

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return not self._truth(node.operand)
        found = self.value(node.operand)
        if isinstance(node.op, ast.Invert) and isinstance(found, Decision):
            return Decision(~found.value, found.unsure)
        if isinstance(found, Decision):
            found = inexact.inexact_of(found, self.u)
        if isinstance(node.op, ast.USub):
            if isinstance(found, Inexact):
                return replace(found, value=-found.value)
            return -found
        if isinstance(node.op, ast.Invert):
            return ~found
        return found

    def _binop(self, node: ast.BinOp) -> Any:
        a, b = self.value(node.left), self.value(node.right)
        kind = type(node.op)
        if isinstance(a, Decision) and isinstance(b, Decision) and kind in (ast.BitAnd, ast.BitOr):
            return Decision(_EXACT[kind](a.value, b.value), a.unsure | b.unsure)
        if not any(isinstance(each, (Inexact, Decision)) for each in (a, b)):
            self._check_size(kind, a, b)
            return self._whole(kind, a, b, _EXACT[kind](a, b))
        x, y = inexact.inexact_of(a, self.u), inexact.inexact_of(b, self.u)
        if kind is ast.MatMult:
            return FUNCTIONS["matmul"](x, y)
        if kind is ast.Sub and x.u.likely and _is_maximum(node.right, node.left):
            y = inexact.by_element(y, x)
        if kind not in _ROUNDED:
            raise ExpressionError(
                f"{printable(ast.unparse(node))}: only of whole numbers; correct it"
            )
        return _ROUNDED[kind](x, y)

    @staticmethod
    def _whole(kind: type, a: Any, b: Any, found: Any) -> Any:
        """NumPy makes floats of numbers with signs and such of 64 bits without."""
        types = [each.dtype.kind for each in (a, b) if isinstance(each, (np.ndarray, np.generic))]
        made = found.dtype.kind if isinstance(found, (np.ndarray, np.generic)) else ""
        if kind not in (ast.Div, ast.Pow) and {*types} == {"i", "u"} and made == "f":
            raise ExpressionError(
                "numbers with signs and numbers from 2**63 on have no type for both; compute it in "
                "a Python file: reference = 'FILE.py:FUNCTION'"
            )
        return found

    @staticmethod
    def _check_size(kind: type, a: Any, b: Any) -> None:
        """Whole numbers of Python grow without end."""
        if type(a) is int and type(b) is int:
            bits: dict[type, int] = {
                ast.Pow: a.bit_length() * max(b, 0),
                ast.LShift: a.bit_length() + max(b, 0),
            }
            if bits.get(kind, 0) > MOST_BITS:
                raise ExpressionError("a number that is too large; correct it")

    def _compare(self, node: ast.Compare) -> Any:
        if len(node.ops) != 1 or type(node.ops[0]) not in _COMPARED:
            raise ExpressionError(
                f"{printable(ast.unparse(node))}: compare two values, with & between"
            )
        a, b = self.value(node.left), self.value(node.comparators[0])
        function = _COMPARED[type(node.ops[0])]
        if isinstance(a, Inexact) or isinstance(b, Inexact):
            return inexact.compare(
                inexact.inexact_of(a, self.u), inexact.inexact_of(b, self.u), function
            )
        return function(a, b)

    def _ifexp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self._truth(node.test) else node.orelse)

    def _truth(self, node: ast.expr) -> bool:
        """Truth of one condition. A condition that is an array cannot choose a branch."""
        found = self.value(node)
        if isinstance(found, (Inexact, Decision)) or np.size(found) != 1:
            raise ExpressionError(
                f"{printable(ast.unparse(node))} has a value for each element; choose with "
                "np.where(CONDITION, A, B)"
            )
        return bool(found)

    def _subscript(self, node: ast.Subscript) -> Any:
        found, at = self.value(node.value), self.value(node.slice)
        if isinstance(at, Decision):
            at = at.value
        if isinstance(found, Inexact):
            return found.moved(lambda each: each[at])
        return found[at]

    def _attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy"):
            if node.attr in CONSTANTS:
                return CONSTANTS[node.attr]
            cure = CAST if TYPES.fullmatch(node.attr) else did_you_mean(node.attr, CONSTANTS)
            raise ExpressionError(f"np.{node.attr}: {cure}")
        found = self.value(node.value)
        if node.attr == "T":
            return FUNCTIONS["transpose"](found)
        if node.attr in ("shape", "size", "ndim"):
            array = found.value if isinstance(found, (Inexact, Decision)) else np.asarray(found)
            return getattr(array, node.attr)
        raise ExpressionError(f".{node.attr}: not known; known: T, shape, size, ndim and methods")

    def _call(self, node: ast.Call) -> Any:
        said = {each.arg or "**": self.value(each.value) for each in node.keywords}
        called = node.func
        if isinstance(called, ast.Attribute) and not (
            isinstance(called.value, ast.Name) and called.value.id in ("np", "numpy")
        ):
            if called.attr not in METHODS:
                raise ExpressionError(f".{called.attr}(): {did_you_mean(called.attr, METHODS)}")
            first, name = [self.value(called.value)], called.attr
        else:
            first, name = (
                [],
                called.attr if isinstance(called, ast.Attribute) else ast.unparse(called),
            )
        if name not in FUNCTIONS:
            cure = CAST if TYPES.fullmatch(name) else did_you_mean(name, FUNCTIONS)
            raise ExpressionError(f"no function {printable(name)} here; {cure}")
        args = [self.value(each) for each in node.args]
        if first and name in ("reshape", "transpose") and args and type(args[0]) is int:
            args = [tuple(args)]  # x.reshape(4, 5), as NumPy's methods allow
        return FUNCTIONS[name](*first, *args, **said)
