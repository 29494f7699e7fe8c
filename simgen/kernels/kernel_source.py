"""The text of one kernel: a file of templates/kernels/ with its headers and its constants in it.

A kernel file, NAME.hip, is C++ that compiles as it lies there. It includes

    "prelude.h"           the machine's names; stays an include, since bundles hold it once
    "reduce.h"            headers of templates/kernels/, put in where they are first included
    "constants/NAME.h"    what simgen decides; the sample values in it give way to the kernel's

A header of constants is a list of declarations, each on a line of its own:

    #define KERNEL softmax_sample           the entry point: the kernel's name
    constexpr unsigned BLOCK = 256;         its work-items in a work-group
    constexpr unsigned ROWS = 100;          its constant `rows`: unsigned, int, bool or float
    constexpr Algo ALGO = Algo::LOG;        a word, of an `enum class Algo { FAST, LOG };` before
    constexpr unsigned STARTS[] = {0, 8};   numbers; as a constant they are text, "0 8"
    using Element = float;                  a type; the sample's where a kernel says none
    #define WITH_BIAS 1                     a number for the preprocessor: are there parameters?
    #define EACH_INPUT(DO) DO(0) DO(1)      parameters in any number; it is the constant `inputs`

What else it holds stays as it is. A kernel has all of these constants, and no others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeGuard

from simgen.errors import SourceError
from simgen.ground import resources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.ground.ir import Kernel

SUFFIX = ".hip"
PRELUDE = "prelude.h"
CONSTANTS = "constants/"
ELEMENTS = "elements.h"
SAMPLE_TYPE = "float"

_INCLUDE = re.compile(r'^#include "([a-z0-9_/]+\.h)"\n', re.M)
_ONCE = re.compile(r"^#pragma once\n+", re.M)
_ENUM = re.compile(r"^enum class (\w+) \{ ([\w, ]+) \};", re.M)
_VALUE = re.compile(
    r"^constexpr (?P<type>\w+) (?P<constant>\w+)(?P<list>\[\])? = (?P<value>[^;\n]+);"
    r"|^#define (?P<each>EACH_\w+)\(DO\)(?P<calls>(?: DO\(\d+\))+)$"
    r"|^#define (?P<macro>\w+) (?P<text>\w+)(?=\s)"
    r"|^using (?P<alias>\w+) = (?P<aliased>\w+);",
    re.M,
)
_RANGES = {
    "unsigned": (0, 2**32 - 1),
    "int": (-(2**31) + 1, 2**31 - 1),
    "bool": (0, 1),
    "macro": (0, 2**31 - 1),
}
_KERNELS = "templates/kernels/"
_CURE = "Kernel(...) of the layer and constants/*.h of the template must name the same"
_OWN = {"KERNEL": "name", "BLOCK": "block"}  # what a kernel has beside its constants


@dataclass(frozen=True)
class _Slot:
    """Place of a value in the text."""

    name: str  # name of the constant
    # "unsigned", "int", "bool", "float", an enumeration's name, "list", "each", "alias", "macro"
    type: str
    words: tuple[str, ...] = ()  # words of an enumeration


def text(item: Kernel) -> str:
    """Source of a kernel; of what it includes, the prelude alone is left.

    Raises:
        SourceError: there is no such file; a constant is missing, unknown or none of its type.
    """
    pieces = _pieces(item.template)
    values = {"name": item.name, "block": item.block, **dict(item.constants)}
    asked = {"name", "block"} | constants(item.template)
    aliases = [piece.name for piece in pieces if _is_alias(piece)]
    values |= {name: SAMPLE_TYPE for name in aliases if name not in values}
    if asked != set(values):
        lacks, more = sorted(asked - set(values)), sorted(set(values) - asked)
        facts = [f"has no constant {', '.join(lacks)}"] if lacks else []
        facts += [f"has {', '.join(more)}, which no header declares"] if more else []
        raise SourceError(f"{_path(item)} {' and '.join(facts)}; {_CURE}")
    made = "".join(
        piece if isinstance(piece, str) else _literal(item, piece, values[piece.name])
        for piece in pieces
    )
    if any(values[name] != SAMPLE_TYPE for name in aliases):
        include = f'#include "{PRELUDE}"\n'
        made = made.replace(include, include + _elements(), 1)
    return made


@cache
def constants(template: str) -> frozenset[str]:
    """Names of the constants that kernels of a file have."""
    names = {piece.name for piece in _pieces(template) if isinstance(piece, _Slot)}
    return frozenset(names - {"name", "block"})


@cache
def types(template: str) -> frozenset[str]:
    """Constants that are element types: a kernel of float32 may leave them out."""
    return frozenset(piece.name for piece in _pieces(template) if _is_alias(piece))


@cache
def prelude() -> str:
    """The header that makes one kernel text compile for AMD GPUs, NVIDIA GPUs and this CPU."""
    return "".join(part for part, _ in _inlined("prelude", PRELUDE, set()))


def clang_cuda() -> str:
    """What stands before a kernel that clang makes PTX of, without NVIDIA's headers."""
    return (resources.folder("templates") / "prelude" / "clang_cuda.h").read_text()


def c_float(value: float) -> str:
    """A float literal that reads back to the same float32."""
    literal = repr(float(value))
    if literal in ("inf", "-inf", "nan"):
        raise ValueError(f"{literal} has no literal in C")
    return f"{literal}f"


@cache
def _pieces(template: str) -> tuple[str | _Slot, ...]:
    """The text of a kernel file, cut at its values."""
    if template not in _files():
        raise SourceError(f"{_KERNELS}{template}: there is no such kernel; write it")
    pieces: list[str | _Slot] = []
    words: dict[str, tuple[str, ...]] = {}
    macros = []
    for part, is_constants in _inlined("kernels", template, set()):
        words |= {found[1]: tuple(found[2].split(", ")) for found in _ENUM.finditer(part)}
        if not is_constants:
            pieces.append(part)
            continue
        done = 0
        for found in _VALUE.finditer(part):
            slot, (start, end) = _slot(found, words)
            pieces += [part[done:start], slot]
            done = end
            macros += [name for name in (found["macro"], found["each"]) if name]
        pieces.append(part[done:])
    # If several kernels are compiled together, the next one has macros of the same names.
    return (*pieces, *(f"#undef {name}\n" for name in macros))


def _is_alias(piece: str | _Slot) -> TypeGuard[_Slot]:
    return isinstance(piece, _Slot) and piece.type == "alias"


@cache
def _elements() -> str:
    """The header that kernels of types narrower than a word need."""
    return "".join(part for part, _ in _inlined("kernels", ELEMENTS, {PRELUDE}))


@cache
def _files() -> frozenset[str]:
    folder = resources.folder("templates") / "kernels"
    return frozenset(path.name for path in folder.glob(f"*{SUFFIX}"))


def _inlined(folder: str, name: str, done: set[str]) -> Iterator[tuple[str, bool]]:
    """The text of a file and of what it includes, in order, and whether it declares constants.

    What is in `done` is put in no more; the first include of the prelude stays.
    """
    done.add(name)
    path = resources.folder("templates") / folder / name
    if not path.is_file():
        fact = "a kernel includes it, and it is not there"
        raise SourceError(f"templates/{folder}/{name}: {fact}; write it, or correct its name")
    text = _ONCE.sub("", path.read_text())
    end = 0
    for found in _INCLUDE.finditer(text):
        yield text[end : found.start()], name.startswith(CONSTANTS)
        end = found.end()
        if found[1] in done:
            continue
        if found[1] == PRELUDE:
            done.add(PRELUDE)
            yield found[0], False
        else:
            yield f"\n/* ---- {found[1]} ---- */\n", False
            yield from _inlined(folder, found[1], done)
    yield text[end:], name.startswith(CONSTANTS)


def _slot(found: re.Match[str], words: dict[str, tuple[str, ...]]) -> tuple[_Slot, tuple[int, int]]:
    """What a declaration takes, and where in the text its value is."""
    if found["macro"]:
        name = found["macro"]
        return _Slot(_OWN.get(name, name.lower()), "macro"), found.span("text")
    if found["alias"]:
        return _Slot(found["alias"].lower(), "alias"), found.span("aliased")
    if found["each"]:
        name = found["each"].removeprefix("EACH_").lower() + "s"
        return _Slot(name, "each"), found.span("calls")
    name, kind = found["constant"], "list" if found["list"] else found["type"]
    return _Slot(_OWN.get(name, name.lower()), kind, words.get(kind, ())), found.span("value")


def _literal(item: Kernel, slot: _Slot, value: int | float | str) -> str:
    """The value as it stands in the text."""
    kind = slot.type
    match value:
        case str() if kind == "macro" and value.isidentifier():
            return value
        case str() if kind == "alias" and re.fullmatch(
            r"\w+|Narrow<[\w, :]+>|(?:Whole|Counted|Nibbles)<-?\d+>", value
        ):
            return value
        case str() if kind == "list" and re.fullmatch(r"\d+( \d+)*", value):
            return f"{{{', '.join(value.split())}}}"
        case str() if value.upper() in slot.words:
            return f"{kind}::{value.upper()}"
        case int() | float() if kind == "float":
            return c_float(value)
        case int() if kind in _RANGES and _RANGES[kind][0] <= value <= _RANGES[kind][1]:
            return ("false", "true")[value] if kind == "bool" else str(int(value))
        case int() if kind == "each" and value > 0:
            return "".join(f" DO({at})" for at in range(value))
    raise SourceError(f"{_path(item)}: {slot.name}: {value!r} is no {kind}; {_CURE}")


def _path(item: Kernel) -> str:
    return f"{_KERNELS}{item.template}: kernel {item.name}"
