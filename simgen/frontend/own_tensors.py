"""Tensors of a user's own kernels, as their file writes them: `f32[n, 64] uniform(-1, 1)`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any

from simgen.ask.build import BuildChoices
from simgen.errors import did_you_mean, printable
from simgen.ground import dtypes
from simgen.ground.dtypes import DType
from simgen.ground.ir import Distribution, Fill, TensorSpec
from simgen.layers.base import MAX_INT, MAX_RANK
from simgen.layers.own import OwnTensor, expression
from simgen.layers.own.definition import BEFORE, EXPECTED
from simgen.layers.own.expression import ExpressionError

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}", re.ASCII)
_SPEC = re.compile(r"\s*(\w+)\s*\[([^\[\]]*)\]\s*(?:(\w+)\s*(?:\((.*)\))?)?\s*", re.ASCII)
FILLS = ("normal", "uniform", "constant", "zeros", "whole")


def parse_tensors(
    said: Mapping[str, Any], parameters: Mapping[str, int | float]
) -> tuple[OwnTensor, ...]:
    """The tensors under `inputs`, `outputs` and `scratch`, in this order.

    Raises:
        ExpressionError: one cannot be what it is said to be.
    """
    found: dict[str, OwnTensor] = {}
    for key in ("inputs", "outputs", "scratch"):
        given = said.get(key, {})
        if not isinstance(given, dict):
            raise ExpressionError(f'{key} is no table; write {key} = {{ x = "f32[n]" }}')
        for name, text in given.items():
            if not NAME.fullmatch(name) or name.startswith(EXPECTED) or name.endswith(BEFORE):
                raise ExpressionError(
                    f"{printable(name)} is not a name for a tensor; choose another"
                )
            if name in found or name in parameters:
                raise ExpressionError(f"{name} stands twice; choose another name")
            found[name] = _tensor(key, name, text, parameters)
    if not any(each.output for each in found.values()):
        raise ExpressionError("no outputs, so that nothing can be compared; name one")
    return tuple(found.values())


def _tensor(key: str, name: str, text: Any, parameters: Mapping[str, int | float]) -> OwnTensor:
    match = _SPEC.fullmatch(text) if isinstance(text, str) else None
    if not match:
        raise ExpressionError(f"tensor {name}: {printable(str(text))}: write it like f32[n, 64]")
    kind, extents, fill, numbers = match.groups()
    if kind not in DType.table:
        raise ExpressionError(f"tensor {name}: no type {printable(kind)}; {dtypes.cure(kind)}")
    dtype = DType.table[kind]
    shape = tuple(whole_number(f"tensor {name}", each, parameters) for each in split(extents))
    if not 0 < len(shape) <= MAX_RANK or prod(shape) > MAX_INT:
        raise ExpressionError(
            f"tensor {name}: shape {shape} has too many axes or elements; make it smaller"
        )
    spec = TensorSpec(shape, dtype)
    if key == "scratch" and fill:
        raise ExpressionError(f"tensor {name}: a workspace holds nothing before; leave {fill} out")
    made = _fill(name, dtype, fill, numbers, parameters) if fill else None
    if key == "inputs" and made is None:
        made = Fill.usual(dtype)
    return OwnTensor(name, spec, made, output=key == "outputs")


def _fill(
    name: str, dtype: DType, fill: str, numbers: str | None, parameters: Mapping[str, int | float]
) -> Fill:
    if fill not in FILLS:
        raise ExpressionError(
            f"tensor {name}: no values {printable(fill)}; {did_you_mean(fill, FILLS)}"
        )
    try:
        exact = [expression.number(each, parameters) for each in split(numbers or "")]
        given = [float(each) for each in exact]
    except OverflowError:
        raise ExpressionError(
            f"tensor {name}: a number of {fill} is too large; correct it"
        ) from None
    if not dtype.is_float and any(
        each != number for each, number in zip(given, exact, strict=True)
    ):
        fact = f"tensor {name}: a number of {fill} has more than 53 bits"
        raise ExpressionError(f"{fact}; give such values with {BuildChoices.values} FILE.npz")
    usual = {
        "normal": [0.0, 1.0],
        "uniform": [0.0, 1.0],
        "zeros": [],
        "constant": None,
        "whole": None,
    }
    if not given and usual[fill] is not None:
        given = list(usual[fill] or [])
    wanted = {"normal": 2, "uniform": 2, "zeros": 0, "constant": 1, "whole": 1}[fill]
    if len(given) != wanted:
        raise ExpressionError(
            f"tensor {name}: {fill} takes {wanted} numbers; write {_EXAMPLES[fill]}"
        )
    if fill in ("zeros", "constant"):
        value = given[0] if given else 0.0
        if dtype.is_float:
            return Fill(Distribution.NORMAL, value, 0.0)
        return Fill(Distribution.UNIFORM, value, value + 1)
    if fill == "whole":
        if not dtype.is_float:
            return Fill(Distribution.UNIFORM, -given[0] if dtype.is_signed else 0, given[0] + 1)
        return Fill(Distribution.WHOLE, given[0], 1.0)
    if fill == "normal" and not dtype.is_float:
        raise ExpressionError(f"tensor {name}: normal is of real numbers; write uniform(0, 100)")
    kind = Distribution.UNIFORM if fill == "uniform" else Distribution.NORMAL
    return Fill(kind, given[0], given[1])


_EXAMPLES = {
    "normal": "normal(0, 1)", "uniform": "uniform(0, 1)", "zeros": "zeros",
    "constant": "constant(3)", "whole": "whole(8)",
}  # fmt: skip


def split(text: str) -> list[str]:
    """Expressions between commas that are in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part for part in parts if part.strip()] if text.strip() else []


def whole_number(
    place: str, text: Any, known: Mapping[str, Any], least: int = 1, most: int = MAX_INT
) -> int:
    """The whole number that an expression is.

    Raises:
        ExpressionError: it is none, or out of range.
    """
    if type(text) not in (int, float, str):
        raise ExpressionError(
            f"{place}: {printable(str(text))} is no number; write one, or an expression"
        )
    try:
        found = expression.number(text, known)
    except ExpressionError as error:
        raise ExpressionError(f"{place}: {error}") from None
    if found != int(found):
        raise ExpressionError(
            f"{place}: {printable(str(text))} is {found}; write // for whole numbers"
        )
    if not least <= found <= most:
        raise ExpressionError(
            f"{place}: {printable(str(text))} is {found}, none of {least} to {most}"
        )
    return int(found)
