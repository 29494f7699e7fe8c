"""Triton functions in a Python file: what of the file they need, and what they are compiled for.

A file with kernels has the program beside them that starts them, tunes them and draws figures: it
is left out, with tuning decorators. What stays are functions under `@triton.jit`, imports of Triton
and of `math`, and constants. Lines stay where they are.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.errors import did_you_mean, one_line, printable
from simgen.ground.ir import TritonBuild
from simgen.layers.own import expression
from simgen.layers.own.expression import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simgen.ground.dtypes import DType

LANES = 64  # lanes of a warp on the simulated GPUs
MOST_WARPS = 16
MOST_STAGES = 16
WARPS, STAGES = 4, 2  # Triton's own for AMD GPUs
MULTIPLE = 16  # what the compiler is told that numbers and addresses are multiples of
LIBRARY = "libdevice"
IMPORTED = {"triton", "math", "__future__"}
TYPES = {
    "f64": "fp64", "f32": "fp32", "f16": "fp16", "bf16": "bf16", "f8e4m3fn": "fp8e4nv",
    "f8e5m2": "fp8e5", "f8e4m3fnuz": "fp8e4b8", "f8e5m2fnuz": "fp8e5b16",
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """Parameter of a Triton function."""

    name: str
    constant: bool  # `tl.constexpr`
    default: str | None  # as the file writes it
    specialised: bool  # whether a number 1 is a constant, and multiples of 16 are told


@dataclass(frozen=True)
class Argument:
    """What a launch gives for a parameter: a tensor's type, or a number."""

    type: DType | str
    number: int | float | None = None

    @property
    def text(self) -> str:
        if isinstance(self.type, str):
            return TYPES.get(self.type, self.type)
        return "*" + TYPES.get(self.type.name, self.type.name)


def functions(text: str) -> dict[str, tuple[Parameter, ...]]:
    """The functions under `@triton.jit`, and their parameters.

    Raises:
        ExpressionError: the text is no Python.
    """
    found = {}
    for node in _parsed(text).body:
        if isinstance(node, ast.FunctionDef) and (jit := _jit(node)):
            found[node.name] = tuple(_parameters(node, jit))
    return found


def kernels_only(text: str) -> str:
    """The file without what its Triton functions do not need, line for line.

    Raises:
        ExpressionError: it is no Python.
    """
    lines = text.split("\n")
    kept: set[int] = set()
    constants: set[str] = set()
    for node in _parsed(text).body:
        if isinstance(node, (ast.If, ast.Try)):  # by the version of Triton
            for each in _imported(node):
                kept.add(each.lineno)
                lines[each.lineno - 1] = ast.unparse(each)
        if not _is_kept(node, constants):
            continue
        first, last = node.lineno, node.end_lineno or node.lineno
        if isinstance(node, ast.FunctionDef) and (jit := _jit(node)):
            kept |= set(range(jit.lineno, (jit.end_lineno or jit.lineno) + 1))
        kept |= set(range(first, last + 1))
    return "\n".join(line if at in kept else "" for at, line in enumerate(lines, 1))


def build(
    text: str, entry: str, said: Mapping[str, Any], known: Mapping[str, Any],
    given: Sequence[Argument],
) -> tuple[TritonBuild, tuple[int, ...]]:  # fmt: skip
    """What the function is compiled for, and which of the arguments it takes when it runs.

    Raises:
        ExpressionError: there is no such function, or its parameters are others.
    """
    there = functions(text)
    if entry not in there:
        cure = did_you_mean(entry, there) if there else "write @triton.jit above it"
        raise ExpressionError(
            f"kernel {printable(entry)}: no such Triton function in its source; {cure}"
        )
    parameters = there[entry]
    constants = _constants(entry, said.get("constexprs", {}), parameters, known)
    taken = [each for each in parameters if each.name not in constants]
    if missing := next((each for each in taken if each.constant), None):
        if missing.default is None:
            raise ExpressionError(
                f"kernel {entry}: no value for its constexpr {missing.name}; write "
                f"constexprs = {{ {missing.name} = 64 }}"
            )
        taken = [each for each in taken if not each.constant]
    if len(taken) > len(given):  # what is not said is what the function says
        taken = [each for at, each in enumerate(taken) if at < len(given) or each.default is None]
    if len(taken) != len(given):
        names = ", ".join(each.name for each in taken)
        raise ExpressionError(
            f"kernel {entry}: it takes {len(taken)} arguments beside constexprs ({names}), and the "
            f"launch gives {len(given)}; write {len(taken)} args"
        )
    for each in parameters:
        if each.name not in constants and each not in taken:
            constants[each.name] = str(each.default)
    kept, types, multiples = [], {}, []
    for at, (parameter, argument) in enumerate(zip(taken, given, strict=True)):
        number = argument.number
        if parameter.specialised and type(number) is int and number == 1:
            constants[parameter.name] = "1"  # so does Triton when it runs a function itself
            continue
        kept.append(at)
        types[parameter.name] = argument.text
        if number is None or (parameter.specialised and type(number) is int
                              and number % MULTIPLE == 0):  # fmt: skip
            multiples.append(parameter.name)
    signature = tuple((each.name, types.get(each.name, "constexpr")) for each in parameters)
    made = TritonBuild(
        signature,
        tuple((name, constants[name]) for name, kind in signature if kind == "constexpr"),
        tuple(multiples),
        _count("num_warps", said.get("num_warps", WARPS), known, MOST_WARPS),
        _count("num_stages", said.get("num_stages", STAGES), known, MOST_STAGES),
    )
    if made.warps & made.warps - 1:
        raise ExpressionError(f"num_warps is {made.warps}, no power of two; write 1, 2, 4, 8 or 16")
    return made, tuple(kept)


def _count(key: str, text: Any, known: Mapping[str, Any], most: int) -> int:
    try:
        found = expression.number(text, known) if type(text) in (int, float, str) else 0
    except ExpressionError as error:
        raise ExpressionError(f"{key}: {error}") from None
    if found != int(found) or not 1 <= found <= most:
        raise ExpressionError(f"{key} is {printable(str(text))}; write a whole number, 1 to {most}")
    return int(found)


def _constants(
    entry: str, given: Any, parameters: Sequence[Parameter], known: Mapping[str, Any]
) -> dict[str, str]:
    """Values of parameters that are constants, as Python writes them."""
    if not isinstance(given, dict):
        raise ExpressionError("constexprs is no table; write constexprs = { BLOCK_SIZE = 64 }")
    names = [each.name for each in parameters]
    found = {}
    for name, value in given.items():
        if name not in names:
            raise ExpressionError(
                f"constexprs: kernel {entry} has no parameter {printable(name)}; "
                f"{did_you_mean(name, names)}"
            )
        found[name] = _constant(f"constexpr {name}", value, known)
    return found


def _constant(place: str, value: Any, known: Mapping[str, Any]) -> str:
    """A constant: a number, an expression of parameters, `'a text'`, True, None or a type of Triton
    (`tl.float16`)."""
    if type(value) in (bool, int, float):
        return repr(value)
    if not isinstance(value, str):
        raise ExpressionError(f"{place} is no number and no text; write one")
    node = expression.parse(value)
    if isinstance(node, ast.Constant) and (
        node.value is None or isinstance(node.value, (bool, str))
    ):
        return repr(node.value)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (
        node.value.id == "tl"
    ):  # fmt: skip
        return f"tl.{node.attr}"
    try:
        return repr(expression.number(value, known))
    except ExpressionError as error:
        raise ExpressionError(f"{place}: {error}, or write a text as \"'a text'\"") from None


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        fact = one_line(error.msg)
        raise ExpressionError(f"the source, line {error.lineno}: {fact}; correct it") from None
    except (ValueError, RecursionError, MemoryError):
        raise ExpressionError("the source is no Python; correct it") from None


def _jit(node: ast.FunctionDef) -> ast.expr | None:
    """The decorator that makes it a function of Triton."""
    for each in node.decorator_list:
        if _dotted(each.func if isinstance(each, ast.Call) else each) in ("triton.jit", "jit"):
            return each
    return None


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _parameters(node: ast.FunctionDef, jit: ast.expr) -> Iterator[Parameter]:
    given = [*node.args.posonlyargs, *node.args.args]
    if node.args.vararg or node.args.kwarg:
        raise ExpressionError(f"kernel {node.name}: it has parameters without number; name each")
    defaults: list[ast.expr | None] = [None] * (len(given) - len(node.args.defaults))
    defaults += [*node.args.defaults, *node.args.kw_defaults]
    plain = _unspecialised(jit)
    for at, (each, default) in enumerate(zip([*given, *node.args.kwonlyargs], defaults)):
        constant = each.annotation is not None and "constexpr" in ast.unparse(each.annotation)
        text = None if default is None else ast.unparse(default)
        yield Parameter(each.arg, constant, text, not {at, each.arg} & plain)


def _unspecialised(jit: ast.expr) -> set[object]:
    """Names and numbers of the parameters that Triton is told not to specialise."""
    for each in jit.keywords if isinstance(jit, ast.Call) else ():
        if each.arg == "do_not_specialize" and isinstance(each.value, (ast.List, ast.Tuple)):
            return {item.value for item in each.value.elts if isinstance(item, ast.Constant)}
    return set()


def _imported(node: ast.stmt) -> list[ast.ImportFrom]:
    """What a statement imports of Triton in one branch or another, each name once: of its own
    functions rather than of a library of a GPU's vendor."""
    found: dict[str, ast.ImportFrom] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.ImportFrom) and _is_kept(each, set()):
            for alias in each.names:
                name = alias.asname or alias.name
                if name not in found or LIBRARY in str(found[name].module):
                    found[name] = each
    return list({each.lineno: each for each in found.values()}.values())


def _is_kept(node: ast.stmt, constants: set[str]) -> bool:
    """Whether Triton functions may need a statement of the file; `constants` gets its names."""
    if isinstance(node, ast.Import):
        return all(each.name.split(".")[0] in IMPORTED for each in node.names)
    if isinstance(node, ast.ImportFrom):
        return not node.level and str(node.module).split(".")[0] in IMPORTED
    if isinstance(node, ast.FunctionDef):
        return _jit(node) is not None
    targets = node.targets if isinstance(node, ast.Assign) else (
        [node.target] if isinstance(node, ast.AnnAssign) else []
    )  # fmt: skip
    value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
    if value is None or not all(isinstance(each, ast.Name) for each in targets):
        return False
    if not _is_constant(value, constants):
        return False
    constants |= {each.id for each in targets if isinstance(each, ast.Name)}
    return True


def _is_constant(node: ast.expr, constants: set[str]) -> bool:
    """Whether it is made of numbers, texts, constants, `math` and `tl.constexpr` alone."""

    def inner(*nodes: ast.expr) -> bool:
        return all(_is_constant(each, constants) for each in nodes)

    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name in constants
        case ast.UnaryOp(operand=operand):
            return inner(operand)
        case ast.BinOp(left=left, right=right):
            return inner(left, right)
        case ast.Attribute():
            root, _, name = _dotted(node).rpartition(".")
            return root == "math" and hasattr(math, name)
        case ast.Call(func=function, args=args, keywords=[]):
            name = _dotted(function)
            of_math = isinstance(function, ast.Attribute) and inner(function)
            return (of_math or name.split(".")[-1] == "constexpr") and inner(*args)
    return False
