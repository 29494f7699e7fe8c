"""Which language a `.cu` file is in: CUDA, or HIP under CUDA's suffix, as hipified samples are.

Its conditional lines decide, read as nvcc reads them: what is of HIP there, outside of comments,
texts and branches that nvcc does not take, makes it HIP.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from simgen.ground.ir import CUDA_MACROS, CUDA_WARP, WAVEFRONT
from simgen.layers.own import expression
from simgen.layers.own.expression import ExpressionError

_OF_HIP = re.compile(r"\bhip/|\b(?:hip[A-Z]|HIP_|__hip_|__HIP_|__builtin_amdgcn_)\w+")
_NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""",
    re.S,
)
_DIRECTIVE = re.compile(r"\s*#\s*(\w+)\s*(.*)")
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_CALL = re.compile(r"\b[A-Za-z_]\w*\s*\([^()]*\)")
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")
_DEEPEST = 16  # macros in macros


def warp(name: str, text: str, defines: Iterable[tuple[str, str]]) -> int:
    """The lanes that `warpSize` and functions of lanes are of in this file, in which lines of
    `OF_SYSTEM` stand for includes of the system."""
    if not name.endswith(".cu"):
        return WAVEFRONT
    macros = dict((*CUDA_MACROS, *defines))
    found: set[str] = set()
    for line in compiled_lines(text, macros):
        found.update(_OF_HIP.findall(line))
    return WAVEFRONT if found.difference(macros) else CUDA_WARP


def compiled_lines(text: str, macros: dict[str, str], *, texts: bool = False) -> Iterator[str]:
    """The lines that a compiler with these macros takes, with or without texts; `macros` becomes
    what it knows there."""
    branches: list[tuple[bool, bool]] = []  # (taken now, one was taken)

    def blank(match: re.Match[str]) -> str:
        kept = texts and match[0][0] != "/"
        return match[0] if kept else re.sub(r"[^\n]+", " ", match[0])

    code = _NO_CODE.sub(blank, text.replace("\\\n", " "))
    for line in code.split("\n"):
        now = all(taken for taken, _ in branches)
        match = _DIRECTIVE.match(line)
        word, rest = match.groups() if match else ("", line)
        if word in ("if", "ifdef", "ifndef"):
            holds = now and _holds(word, rest, macros)
            branches.append((holds, holds))
        elif word in ("elif", "else", "elifdef", "elifndef") and branches:
            done = branches.pop()[1]
            outer = all(taken for taken, _ in branches)
            holds = outer and not done and (word == "else" or _holds(word[2:], rest, macros))
            branches.append((holds, holds or done))
        elif word == "endif" and branches:
            branches.pop()
        elif word == "define" and now and (made := re.match(r"(\w+)(\([^)]*\))?(.*)", rest)):
            macros[made[1]] = "" if made[2] else made[3].strip()
            yield made[3]
        elif word == "undef" and now:
            macros.pop(rest.strip(), None)
        elif now:
            yield rest


def _holds(word: str, rest: str, macros: dict[str, str]) -> bool:
    if word in ("ifdef", "def"):
        return rest.strip() in macros
    if word in ("ifndef", "ndef"):
        return rest.strip() not in macros
    text = _DEFINED.sub(lambda match: str(int((match[1] or match[2]) in macros)), rest)
    for _ in range(_DEEPEST):
        text = _NAME.sub(lambda match: macros.get(match[0], match[0]), text)
    while (plain := _CALL.sub("0", text)) != text:
        text = plain
    text = re.sub(r"\b(0[xX][\da-fA-F]+|\d+)[uUlL]+\b", r"\1", _NAME.sub("0", text))
    while inner := re.search(r"\(([^()]*)\)", text):
        text = f"{text[: inner.start()]} {int(_value(inner[1]))} {text[inner.end() :]}"
    return bool(_value(text))


def _value(text: str) -> int:
    """A condition without parentheses and names; 0 if it is none."""
    if "||" in text:
        return int(any(_value(each) for each in text.split("||")))
    if "&&" in text:
        return int(all(_value(each) for each in text.split("&&")))
    while (plain := re.sub(r"!\s*(\d+)", lambda match: str(int(not int(match[1]))), text)) != text:
        text = plain
    try:
        return int(expression.evaluate(text.replace("/", "//"), {}))
    except (ExpressionError, ValueError, TypeError, OverflowError):
        return 0
