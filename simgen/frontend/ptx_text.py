"""What PTX says of its kernels' parameters, before a driver reads it.

Source: https://docs.nvidia.com/cuda/parallel-thread-execution/, "Kernel and Function Directives:
.entry", "Kernel Function Parameters", "Fundamental Types".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from simgen.errors import printable
from simgen.layers.own.expression import ExpressionError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.S)
_ENTRY = re.compile(r"\.entry\s+([\w$%]+)\s*(?:\(([^)]*)\))?")
_PARAM = re.compile(
    r"\.param(?P<said>(?:\s*\.\w+(?:\s+\d+(?=\s))?)*)\s+(?P<name>[\w$%]+)\s*"
    r"(?:\[\s*(?P<count>\d{1,6})\s*\])?"
)
_LAUNCH = re.compile(r"\.(reqntid|maxntid|reqnctapercluster|explicitcluster)\b([\d\s,]*)")
_TYPE = re.compile(r"\.(?:[busf](8|16|32|64|128)|f16x2)(?=[\s.]|$)")
_OPAQUE = re.compile(r"\.(texref|samplerref|surfref)\b")


@dataclass(frozen=True)
class PtxParameter:
    """One of a kernel's."""

    name: str
    nbytes: int
    line: int  # line number in the text, from 1
    letter: str = "b"  # first letter of its type: b for bits, s and u for integers, f


def entries(text: str) -> list[str]:
    """The names of the kernels."""
    return [match[1] for match in _ENTRY.finditer(_without_comments(text))]


def check(text: str, entry: str, file: str, given: list[tuple[str, int]], place: str) -> None:
    """Refuse arguments that are not those of a kernel; `given` are words for each, and its bytes.

    Raises:
        ExpressionError: by their number or size; or a parameter is none that a launch can give.
    """
    taken = parameters(text, entry, f"{place}: {file}")
    if len(taken) != len(given):
        at = f"{file}, line {_line(text, entry)}"
        raise ExpressionError(
            f"{place}: {entry} takes {len(taken)} arguments ({at}), and args has {len(given)}; "
            f"write {len(taken)}"
        )
    for number, (parameter, (words, nbytes)) in enumerate(zip(taken, given, strict=True)):
        if parameter.nbytes != nbytes:
            raise ExpressionError(
                f"{place}: argument {number}: .param {parameter.name} has {parameter.nbytes} bytes "
                f"({file}, line {parameter.line}), and {words} {nbytes}; write a number of its "
                "type, or a tensor"
            )
        kind = words.removesuffix(" has")
        is_float = parameter.letter == "f"
        if parameter.letter != "b" and re.fullmatch(r"[iu]\d+" if is_float else r"f\d+", kind):
            raise ExpressionError(
                f"{place}: argument {number}: .param {parameter.name} is "
                f"{'a float' if is_float else 'an integer'} ({file}, line {parameter.line}), and "
                f"{kind} is none; write a number of its type"
            )


def check_launch(text: str, entry: str, file: str, block: tuple[int, int, int], place: str) -> None:
    """Refuse a work-group that a kernel's directives rule out.

    Raises:
        ExpressionError: it is another than `.reqntid`, larger than `.maxntid`, or one of a cluster.
    """
    plain = _without_comments(text)
    match = next(each for each in _ENTRY.finditer(plain) if each[1] == entry)
    for said in _LAUNCH.finditer(plain, match.end(), plain.find("{", match.end())):
        x, y, z = ([int(n) for n in said[2].replace(",", " ").split()] + [1, 1, 1])[:3]
        at = f"{file}, line {plain.count(chr(10), 0, said.start()) + 1}"
        if said[1].endswith("cluster"):
            raise ExpressionError(
                f"{place}: {entry} asks for clusters of work-groups (.{said[1]}, {at}), which no "
                "launch here has; compile it without"
            )
        if said[1] == "reqntid" and block != (x, y, z):
            raise ExpressionError(
                f"{place}: block is {list(block)}, and {entry} is compiled for {[x, y, z]} alone "
                f"(.reqntid, {at}); write block = {[x, y, z]}"
            )
        if said[1] == "maxntid" and prod(block) > x * y * z:
            raise ExpressionError(
                f"{place}: a work-group of {prod(block)} work-items, and {entry} is compiled for "
                f"{x * y * z} at most (.maxntid, {at}); make block smaller"
            )


def parameters(text: str, entry: str, place: str) -> list[PtxParameter]:
    """Parameters of the kernel, in order.

    Raises:
        ExpressionError: one cannot be read, or is a texture.
    """
    plain = _without_comments(text)
    match = next(each for each in _ENTRY.finditer(plain) if each[1] == entry)
    found = []
    start = match.start(2)
    for said in (match[2] or "").split(",") if (match[2] or "").strip() else ():
        line = plain.count("\n", 0, start + len(said) - len(said.lstrip())) + 1
        found.append(_parameter(said.strip(), line, place))
        start += len(said) + 1
    return found


def _parameter(said: str, line: int, place: str) -> PtxParameter:
    match = _PARAM.fullmatch(said)
    if match and (opaque := _OPAQUE.search(match["said"])):
        raise ExpressionError(
            f"{place}, line {line}: .param {match['name']} is a {opaque[1]}, which no launcher "
            "gives; read from a tensor"
        )
    types = list(_TYPE.finditer(match["said"])) if match else []
    if not match or len(types) != 1:
        raise ExpressionError(
            f"{place}, line {line}: {printable(said[:80])} is no parameter of a kernel; write it "
            "as .param .u64 x"
        )
    nbytes = int(types[0][1] or 32) // 8
    return PtxParameter(match["name"], nbytes * int(match["count"] or 1), line, types[0][0][1])


def _without_comments(text: str) -> str:
    """The same text with blanks in place of comments."""
    return _COMMENT.sub(lambda each: re.sub(r"[^\n]", " ", each[0]), text)


def _line(text: str, entry: str) -> int:
    plain = _without_comments(text)
    return next(
        plain.count("\n", 0, each.start()) + 1
        for each in _ENTRY.finditer(plain)
        if each[1] == entry
    )
