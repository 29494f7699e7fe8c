"""Arguments of a launch against the parameters that C, C++ or PTX declares: numbers of one kind.

Bits are passed on as they are, so an integer for a float parameter would be another number on every
target. What the text does not name plainly (a type of a macro, a structure) is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from simgen.frontend import kernel_pieces, narrow_text
from simgen.frontend.narrow_text import closed
from simgen.layers.own.expression import ExpressionError

FLOATS = {"float": "f32", "double": "f64", "float_t": "f32", "double_t": "f64"} | {
    name: kind for name, kind in narrow_text.TYPES.items() if not name.endswith("2")
}
_WHOLE = re.compile(
    r"(?:(?:un)?signed|int|long|short|char|bool|size_t|ptrdiff_t|u?int\d+_t|uchar|ushort|uint|ulong"
    r"|__u?int64|std::size_t|std::u?int\d+_t)(?:\s+(?:(?:un)?signed|int|long|short|char))*"
)
_QUALIFIERS = re.compile(
    r"\b(?:const|volatile|restrict|__restrict__|__restrict|__grid_constant__|__global|global"
    r"|__constant|constant|__local|local|__private|private|typename)\b"
)
_ALIASES = (
    re.compile(r"\busing\s+(\w+)\s*=\s*([\w:\s]+?)\s*;"),
    re.compile(r"\btypedef\s+([\w:\s]+?)\s+(\w+)\s*;"),
    re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([\w \t]+?)[ \t]*$", re.M),
)
DEEPEST = 8  # names of names


def check(text: str, entry: str, defines: Mapping[str, str], given: Mapping[int, str], place: str,
          said: list[str], types: Mapping[str, str]) -> None:  # fmt: skip
    """Refuse numbers for parameters of the other kind, or for addresses, and tensors of floats for
    addresses of other floats; `given` has the kind of each number by its place, `said` all
    arguments as the file has them, `types` the element types of tensors.

    Raises:
        ExpressionError: one is.
    """
    code = kernel_pieces.plain(text)
    taken = _parameters(code, entry)
    if len(taken) != len(said):
        return  # the compiler tells, on each target, where the text is not misread here
    aliases = _aliases(code, entry) | dict(defines)
    for at, parameter in enumerate(taken):
        kind = given.get(at)
        if kind == "structure" or "{" in said[at]:
            continue
        wanted = _kind(parameter, aliases)
        if kind is None:  # a tensor
            if wanted in ("whole", *FLOATS.values()):
                raise ExpressionError(
                    f"{place}: argument {at + 1}, {said[at]!r}, is a tensor, and {entry} takes a "
                    f"number, {parameter!r}; write one, such as 'i32 n'"
                )
            held, pointee = types.get(said[at], ""), parameter.partition("*")[0] + " p"
            kind = _kind(pointee, aliases) if parameter.count("*") == 1 else ""
            if held in FLOATS.values() and kind in FLOATS.values() and kind != held:
                raise ExpressionError(
                    f"{place}: argument {at + 1}, {said[at]!r}, holds {held}, and {entry} takes "
                    f"{parameter!r}; write the tensor as {kind}"
                )
        elif wanted == "address":
            raise ExpressionError(
                f"{place}: argument {at + 1}, {said[at]!r}, is a number, and {entry} takes an "
                f"address, {parameter!r}; write a tensor"
            )
        elif wanted and (wanted == "whole") != (kind[0] != "f"):
            is_not, right = ("integer", "i32") if wanted == "whole" else ("float", wanted)
            raise ExpressionError(
                f"{place}: argument {at + 1}, {said[at]!r}, is no {is_not}, and {entry} takes "
                f"{parameter!r}; write a number such as {right}"
            )


def check_inputs(
    text: str, entry: str, said: list[str], inputs: frozenset[str], place: str
) -> None:
    """Refuse a kernel that writes a tensor of `inputs`; `said` are all of its arguments.

    Raises:
        ExpressionError: its text does. What functions do that it calls is not looked at: `host`
            ends where they write an input.
    """
    code = kernel_pieces.plain(text)
    taken, body = _parameters(code, entry), _body(code, entry)
    if len(taken) != len(said):
        return
    for parameter, name in zip(taken, said, strict=True):
        pointee = parameter.partition("*")[0]
        if name in inputs and "*" in parameter and not re.search(r"\bconst\b", pointee):
            own = re.findall(r"\w+", parameter)[-1]
            if any(_writes(body, each) for each in _derived(body, own)):
                raise ExpressionError(
                    f"{place}: {entry} writes {name}, an input; make it an output that holds "
                    f'values before, as outputs = {{ {name} = "f32[n] normal(0, 1)" }}'
                )


def _derived(body: str, name: str) -> list[str]:
    """A pointer, and those that are made of it: `float* row = x + 4 * i;`."""
    found = [name]
    for each in found:
        made = re.findall(
            r"\*\s*(?:(?:const|__restrict__|__restrict)\s+)*(\w+)\s*=\s*"
            rf"(?:\([^()]*\*\s*\)|reinterpret_cast\s*<[^<>]*>\s*\(|[&(\s])*\b{each}\b",
            body,
        )
        found += [other for other in made if other not in found]
    return found


def _writes(body: str, name: str) -> bool:
    """Whether a statement writes what the pointer leads to."""
    assigned = re.compile(r"\s*(?:\.\w+\s*)*(?:=(?!=)|(?:[-+*/%&|^]|<<|>>)=|\+\+|--)")
    for found in re.finditer(rf"(?<![\w.])(?:(\+\+|--)\s*)?{name}\s*\[", body):
        if found[1]:
            return True
        end = closed(body, found.end())
        while body[end : end + 1] == "[":
            end = closed(body, end + 1)
        if assigned.match(body, end):
            return True
    through = rf"(?:^|[;{{}})])\s*\*\s*(?:{name}\b(?:\+\+|--)?|\(\s*{name}\b[^;=()]*\))\s*"
    if re.search(through + r"(?:=(?!=)|(?:[-+*/%&|^]|<<|>>)=)", body):
        return True
    atomic = rf"\batomic(?!_?[lL]oad)\w*\s*\(\s*(?:\([^()]*\*\s*\)\s*)?&?\s*\(?\s*{name}\b"
    return bool(re.search(rf"{atomic}|\bvstore\w*\s*\([^;]*,\s*{name}\s*\)", body))


def _body(code: str, entry: str) -> str:
    """What stands in the braces of a kernel."""
    name = re.escape(re.sub(r"<.*", "", entry).split("::")[-1])
    found = re.search(rf"\bvoid\b[^;{{}}]*?\b{name}\s*\([^{{;]*\{{", code)
    return code[found.end() : closed(code, found.end())] if found else ""


def _parameters(code: str, entry: str) -> list[str]:
    """The parameters of a kernel as its text has them."""
    name = re.escape(re.sub(r"<.*", "", entry).split("::")[-1])
    found = re.search(rf"\bvoid\b[^;{{}}]*?\b{name}\s*\(", code)
    if not found:
        return []
    parts, depth = [""], 0
    for c in code[found.end() :]:
        if c == ")" and not depth:
            break
        depth += (c in "([<{") - (c in ")]>}")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [" ".join(part.split()) for part in parts if part.strip() not in ("", "void")]


def _aliases(code: str, entry: str) -> dict[str, str]:
    using, typedef, define = _ALIASES
    found = dict(define.findall(code)) | dict(using.findall(code))
    found |= {name: kind for kind, name in typedef.findall(code)}
    values = re.sub(r"^[^<]*<|>$", "", entry).split(",") if "<" in entry else []
    name = re.escape(re.sub(r"<.*", "", entry).split("::")[-1])
    template = re.search(rf"template\s*<([^>]*)>[^;{{}}]*?\b{name}\s*\(", code)
    names = [part.split("=")[0].split()[-1:] for part in template[1].split(",")] if template else []
    found |= {n[0]: v.strip() for n, v in zip(names, values, strict=False) if n}
    return found


def _kind(parameter: str, aliases: Mapping[str, str]) -> str:
    """The element type of a float, "whole", "address", or "" where the text does not tell."""
    plain = _QUALIFIERS.sub(" ", parameter.partition("=")[0]).strip()
    if "*" in plain or "[" in plain:
        return "address"
    words = plain.split()
    if len(words) < 2 or "&" in plain or "<" in plain:
        return ""
    kind = " ".join(words[:-1])
    for _ in range(DEEPEST):
        if kind in FLOATS:
            return FLOATS[kind]
        if _WHOLE.fullmatch(kind):
            return "whole"
        if kind not in aliases:
            break
        kind = _QUALIFIERS.sub(" ", aliases[kind]).strip()
    return "address" if kind.endswith("*") else ""
