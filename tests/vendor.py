"""AMD's own pseudocode of instructions, executed for one lane: a judge of another hand.

The texts are those of AMD's manuals as the wheel `tinygrad` has them (MIT). `run` changes an
environment: S0, S1, S2, D0, VCC, SCC, EXEC, laneId, ...
"""

from __future__ import annotations

import ast
import importlib.util
import re
from fractions import Fraction
from functools import cache
from math import floor, isqrt
from pathlib import Path
from typing import Any

import numpy as np

FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}
UNSIGNED = {16: np.uint16, 32: np.uint32, 64: np.uint64}
FORM = {16: (10, 5), 32: (23, 8), 64: (52, 11)}  # bits of fraction and exponent


class Bits:
    """Some bits; `kind` is u, i, b or f, as the manual's suffixes say it. `power`: of 2 exactly."""

    __slots__ = ("bits", "kind", "power", "width")

    def __init__(self, bits: int, width: int = 32, kind: str = "u", power: int | None = None):
        self.bits, self.width, self.kind, self.power = bits & (1 << width) - 1, width, kind, power

    @property
    def n(self) -> Any:
        """The number: Python's whole number or NumPy's float."""
        if self.kind == "f":
            return UNSIGNED[self.width](self.bits).view(FLOATS[self.width])
        return self.bits - (self.kind == "i" and self.bits >> self.width - 1) * (1 << self.width)

    def typed(self, name: str) -> Bits:
        kind, width = name[0], int(name[1:])
        return Bits(self.n if self.kind == "i" else self.bits, width, kind)

    def part(self, high: int, low: int) -> Bits:
        if low > high:  # the manual turns bits round so
            return Bits(
                int(f"{self.part(low, high).bits:0{low - high + 1}b}"[::-1], 2), low - high + 1
            )
        return Bits(self.bits >> low, high - low + 1)

    def _two(self, other: Any, of: Any) -> Bits:
        other = of_number(other)
        if "f" in (self.kind, other.kind):
            width = max(each.width for each in (self, other) if each.kind == "f")
            with np.errstate(all="ignore"):
                return of_float(of(*(FLOATS[width](each.n) for each in (self, other))), width)
        kind = "u" if {"u", "b"} & {self.kind, other.kind} else "i"
        return Bits(of(self.n, other.n), max(self.width, other.width, 32), kind)

    def __add__(self, o: Any) -> Bits:
        return self._two(o, lambda x, y: x + y)

    def __sub__(self, o: Any) -> Bits:
        return self._two(o, lambda x, y: x - y)

    def __mul__(self, o: Any) -> Bits:
        if o.power is not None:
            return rounded(self, Fraction(2) ** o.power)
        return self._two(o, lambda x, y: x * y)

    def __truediv__(self, o: Any) -> Bits:
        return self._two(o, lambda x, y: x / y if self.kind == "f" else x // y)

    def __mod__(self, o: Any) -> Bits:
        return self._two(o, lambda x, y: x % y)

    def __pow__(self, o: Bits) -> Bits:
        if o.kind == "f":
            return self._two(o, lambda x, y: x**y)
        return Bits(0, 32, "f", power=max(-3000, min(3000, int(o))))

    def __and__(self, o: Any) -> Bits:
        return self._two(o, lambda x, y: x & y)

    def __or__(self, o: Any) -> Bits:
        return self._two(o, lambda x, y: x | y)

    def __xor__(self, o: Any) -> Bits:
        return self._two(o, lambda x, y: x ^ y)

    def __lshift__(self, o: Any) -> Bits:
        return Bits(self.n << int(o), max(self.width, 32), self.kind)

    def __rshift__(self, o: Any) -> Bits:
        return Bits(self.n >> int(o), max(self.width, 32), self.kind)

    def __invert__(self) -> Bits:
        return Bits(~self.n, self.width, self.kind)

    def __neg__(self) -> Bits:
        if self.kind == "f":
            return Bits(self.bits ^ 1 << self.width - 1, self.width, "f")
        return Bits(-self.n, max(self.width, 32), "i")

    def __pos__(self) -> Bits:
        return self

    def __int__(self) -> int:
        return int(self.n)

    __index__ = __int__

    def __bool__(self) -> bool:
        return self.bits != 0

    def __lt__(self, o: Any) -> bool:
        return bool(self.n < of_number(o).n)

    def __le__(self, o: Any) -> bool:
        return bool(self.n <= of_number(o).n)

    def __gt__(self, o: Any) -> bool:
        return bool(self.n > of_number(o).n)

    def __ge__(self, o: Any) -> bool:
        return bool(self.n >= of_number(o).n)

    def __eq__(self, o: object) -> bool:
        return bool(self.n == of_number(o).n)

    def __ne__(self, o: object) -> bool:
        return bool(self.n != of_number(o).n)

    __hash__ = None  # type: ignore[assignment]


def of_number(x: Any) -> Bits:
    return x if isinstance(x, Bits) else Bits(int(x), 1 if isinstance(x, (bool, np.bool_)) else 32)


def of_float(x: Any, width: int) -> Bits:
    with np.errstate(all="ignore"):
        return Bits(int(FLOATS[width](x).view(UNSIGNED[width])), width, "f")


def rounded(like: Bits, factor: Fraction, addend: Bits | None = None) -> Bits:
    """`like` times a factor, and a sum: rounded once to the type of `like`."""
    x, width = like.n, like.width
    if not np.isfinite(x) or (x == 0 and addend is None):
        return like
    exact = Fraction(float(x)) * factor + (Fraction(float(addend.n)) if addend else 0)
    return of_exact(exact, width, negative=exact < 0)


def of_exact(exact: Fraction, width: int, *, negative: bool) -> Bits:
    """The float next to a number, ties to even."""
    fraction, exponent = FORM[width]
    bias = (1 << exponent - 1) - 1
    sign, size = negative << width - 1, abs(exact)
    if not size:
        return Bits(sign, width, "f")
    top = size.numerator.bit_length() - size.denominator.bit_length()
    top -= size < Fraction(2) ** top
    last = max(top, 1 - bias) - fraction  # exponent of the last place
    whole = size / Fraction(2) ** last
    near = floor(whole)
    over = whole - near
    near += over > Fraction(1, 2) or (over == Fraction(1, 2) and near & 1)
    bits = near + (max(last + fraction + bias - 1, 0) << fraction)
    return Bits(sign | min(bits, (1 << exponent) - 1 << fraction), width, "f")


def fma(a: Bits, b: Bits, c: Bits) -> Bits:
    x, y, z = a.n, b.n, c.n
    with np.errstate(all="ignore"):
        if not (np.isfinite(x) and np.isfinite(y)):
            return of_float(x * y + z, a.width)
        if not np.isfinite(z):
            return c
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    if exact:
        return of_exact(exact, a.width, negative=exact < 0)
    minus = np.signbit(x) ^ np.signbit(y)
    return Bits(int(bool(minus) and bool(np.signbit(z))) << a.width - 1, a.width, "f")


def to_whole(x: Bits, width: int, kind: str) -> Bits:
    """Cut towards zero; what is too large becomes the largest, NaN zero."""
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if kind == "i" else (0, (1 << width) - 1)
    if np.isnan(x.n):
        return Bits(0, width, kind)
    value = int(x.n) if np.isfinite(x.n) else (high if x.n > 0 else low)
    return Bits(min(max(value, low), high), width, kind)


def cast(width: int, kind: str, x: Any) -> Bits:
    x, kind = of_number(x), kind.lower()
    if kind != "f":
        return Bits(int(x.n), width, kind)
    if x.power is not None:
        return of_exact(Fraction(2) ** x.power, width, negative=False)
    return of_float(x.n, width) if x.kind == "f" else Bits(x.bits, width, "f")


def at(x: Any, high: Any, low: Any = None) -> Any:
    if isinstance(x, (dict, list)):
        return x[int(high)]
    return x.part(int(high), int(high if low is None else low))


def join(*parts: Bits) -> Bits:
    made = Bits(0, 0)
    for each in parts:
        made = Bits(made.bits << each.width | each.bits, made.width + each.width)
    return made


def signext_from_bit(x: Bits, count: Any) -> Bits:
    places = int(count)
    if not places:
        return Bits(0, x.width, x.kind)
    return Bits((x.bits & (1 << places) - 1) - ((x.bits >> places - 1 & 1) << places), x.width, "i")


def _nan(x: Bits, quiet: bool | None = None) -> bool:
    bit = x.bits >> FORM[x.width][0] - 1 & 1
    return bool(np.isnan(x.n)) and (quiet is None or bit == quiet)


def _clamped(low: int, high: int, width: int) -> Any:
    return lambda x: Bits(min(max(x.n, low), high), width, "i" if low else "u")


def _float_of(of: Any) -> Any:
    def made(x: Bits) -> Bits:
        with np.errstate(all="ignore"):
            return of_float(of(x.n), x.width)

    return made


def _root(x: Bits) -> Bits:
    with np.errstate(all="ignore"):
        if not np.isfinite(x.n) or x.n <= 0:
            return of_float(np.sqrt(x.n), x.width)
    exact = Fraction(float(x.n))
    scaled = isqrt(exact.numerator * exact.denominator << 400)
    return of_exact(Fraction(scaled, exact.denominator << 200), x.width, negative=False)


def _fraction(x: Bits) -> Bits:
    return x + -_float_of(np.floor)(x)


HELP: dict[str, Any] = {
    "Bits": Bits, "cast": cast, "at": at, "join": join, "bit": of_number, "fma": fma,
    "of_float": of_float, "signext_from_bit": signext_from_bit,
    "abs": lambda x: Bits(x.bits & (1 << x.width - 1) - 1, x.width, "f") if x.kind == "f"
    else Bits(abs(x.n), x.width, x.kind),
    "signext": lambda x: Bits(x.n, 64, "i"),
    "ABSDIFF": lambda a, b: Bits(abs(a.n - b.n), max(a.width, 32)),
    "u32_to_u16": _clamped(0, 0xFFFF, 16), "i32_to_i16": _clamped(-0x8000, 0x7FFF, 16),
    "floor": _float_of(np.floor), "trunc": _float_of(np.trunc), "sqrt": _root, "fract": _fraction,
    "isNAN": _nan, "isSignalNAN": lambda x: _nan(x, False), "isQuietNAN": lambda x: _nan(x, True),
    "cvtToQuietNAN": lambda x: Bits(x.bits | 1 << FORM[x.width][0] - 1, x.width, "f"),
    "sign": lambda x: Bits(x.bits >> x.width - 1, 1),
    "exponent": lambda x: Bits(
        x.bits >> FORM[x.width][0] & (1 << FORM[x.width][1]) - 1, 32, "i"),
    "mantissa": lambda x: of_float(np.frexp(x.n)[0], x.width),
    "log2": _float_of(lambda x: np.log2(np.float64(x))),
    "sin": _float_of(lambda x: np.sin(np.float64(x))),
    "cos": _float_of(lambda x: np.cos(np.float64(x))),
    "pow": lambda x, y: of_float(np.float64(x.n) ** np.float64(y.n), y.width),
    "isEven": lambda x: float(x.n) % 2 == 0,
    "LT_NEG_ZERO": lambda a, b: a.n < b.n or (a.n == b.n == 0 and a.bits > b.bits),
    "GT_NEG_ZERO": lambda a, b: a.n > b.n or (a.n == b.n == 0 and a.bits < b.bits),
}  # fmt: skip
for _width in (4, 8, 16):
    for _kind in "ui":
        HELP[f"{_kind}{_width}_to_{_kind}32"] = lambda x, kind=_kind: Bits(x.n, 32, kind)
for _width in (16, 32, 64):
    for _other in (16, 32, 64):
        for _kind in "ui":
            HELP[f"f{_width}_to_{_kind}{_other}"] = lambda x, width=_other, kind=_kind: to_whole(
                x, width, kind
            )
            HELP[f"{_kind}{_width}_to_f{_other}"] = lambda x, width=_other: of_exact(
                Fraction(x.n), width, negative=x.n < 0
            )
        HELP[f"f{_width}_to_f{_other}"] = lambda x, width=_other: of_float(x.n, width)

_TOKEN = re.compile(
    r"\s*(\d+'[UIBF](?=\()|\d+'0x[0-9a-fA-F]+|\d+'-?\d+\.\d+|\d+'[-\d]+U?|\d+\.\d+F?|0x[0-9a-fA-F]+U?L*"
    r"|\d+U?L*|[A-Za-z_]\w*|<>|<=|>=|==|!=|<<|>>|&&|\|\||\*\*|[-+*/%&|^~!<>?:(){}\[\],.=])"
)
_LEVELS = [("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "<>", "!="), ("<", "<=", ">", ">="),
           ("<<", ">>"), ("+", "-"), ("*", "/", "%"), ("**",)]  # fmt: skip
_PYTHON = {"||": "or", "&&": "and"}
_TARGET = re.compile(
    r"(\w+)(?:\.([uibf]\d+))?(?:\[\s*(.+?)\s*(?::\s*(.+?))?\])?(?:\.([uibf]\d+))?"
    r"\s*([-+|&]?)=(?!=)\s*(.*)",
    re.DOTALL,
)


class _Expression:
    """A recursive descent over one expression of the manual; its methods return Python."""

    def __init__(self, text: str):
        self.tokens, self.place = _TOKEN.findall(text), 0

    def peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        self.place += 1
        if wanted and token != wanted:
            raise SyntaxError(f"{wanted} expected, {token} found in {self.tokens}")
        return token

    def whole(self) -> str:
        first = self.level(0)
        if self.peek() != "?":
            return first
        self.take()
        yes = self.whole()
        self.take(":")
        return f"({yes} if {first} else {self.whole()})"

    def level(self, n: int) -> str:
        if n == len(_LEVELS):
            return self.unary()
        first = self.level(n + 1)
        while self.peek() in _LEVELS[n]:
            operator = self.take()
            second = self.level(n + 1)
            if operator == "==" and re.fullmatch(r"\([-+]of_float\(0\.0, 64\)\)", second):
                first = f"bit({first}.bits == {second}.bits)"  # the manual tells zeros by signs
            elif operator == "<>":  # less or greater: not with a NaN
                first = f"bit({first} < {second} or {first} > {second})"
            elif n < 2 or 5 <= n < 7:
                first = f"bit({first} {_PYTHON.get(operator, operator)} {second})"
            else:
                first = f"({first} {operator} {second})"
        return first

    def unary(self) -> str:
        if self.peek() in ("-", "~", "!", "+"):
            operator = self.take()
            inner = self.unary()
            return f"bit(not {inner})" if operator == "!" else f"({operator}{inner})"
        return self.post(self.atom())

    def several(self, end: str) -> str:
        parts = []
        while self.peek() != end:
            parts.append(self.whole())
            if self.peek() == ",":
                self.take()
        self.take(end)
        return ", ".join(parts)

    def atom(self) -> str:
        token = self.take()
        if token == "(":
            return f"({self.several(')')})"
        if token == "{":
            return f"join({self.several('}')})"
        if found := re.fullmatch(r"(\d+)'([UIBF])", token):
            self.take("(")
            return f"cast({found[1]}, '{found[2]}', {self.several(')')})"
        if found := re.fullmatch(r"(\d+)'(0x[0-9a-fA-F]+|-?\d+)U?", token):
            return f"Bits({found[2]}, {found[1]})"
        if found := re.fullmatch(r"(\d+)'(-?\d+\.\d+)", token):
            return f"of_float({found[2]}, {found[1]})"
        if found := re.fullmatch(r"(\d+\.\d+)(F?)", token):
            return f"of_float({found[1]}, {32 if found[2] else 64})"
        if found := re.fullmatch(r"(0x[0-9a-fA-F]+|\d+)(U?)(L*)", token):
            kind = "u" if found[2] or found[1][:2] == "0x" else "i"
            return f"Bits({found[1]}, {64 if found[3] else 32}, '{kind}')"
        if token in ("INF", "NAN"):
            width = 64
            if self.peek() == ".":
                self.take()
                width = int(self.take()[1:])
            return f"of_float(float({token.lower()!r}), {width})"
        if self.peek() == "(":
            self.take()
            return f"{token}({self.several(')')})"
        return f"E[{token!r}]"

    def post(self, text: str) -> str:
        while self.peek() in (".", "["):
            if self.take() == ".":
                text = f"{text}.typed('{self.take()}')"
                continue
            high, low = self.whole(), ""
            if self.peek() == ":":
                self.take()
                low = ", " + self.whole()
            self.take("]")
            text = f"at({text}, {high}{low})"
        return text


def _store(env: dict[str, Any], name: str, typed: str, high: Any, low: Any, value: Any) -> None:
    value = of_number(value)
    if high is not None and typed and name != "MEM":  # a part as a type
        value = Bits(value.bits, int(typed[1:]))
    if typed and high is None:
        if typed[0] == "f" and value.kind == "f":
            value = of_float(value.n, int(typed[1:])) if value.width != int(typed[1:]) else value
        whole = value.bits if value.kind == "f" else int(value.n)
        env[name] = Bits(whole, int(typed[1:]), typed[0])
    elif isinstance(env.get(name), dict):
        env[name][int(high)] = value
    elif high is not None:
        low, high = sorted((int(high), int(low)))
        old = env.get(name) or Bits(0, 64)
        mask = (1 << high - low + 1) - 1
        whole = old.bits & ~(mask << low) | (value.bits & mask) << low
        env[name] = Bits(whole, old.width, old.kind)
    else:
        env[name] = value


class _Scope(dict[str, Any]):
    """Instructions that the manual calls as functions."""

    def __missing__(self, name: str) -> Any:
        if name not in texts():
            raise KeyError(name)

        def call(*sources: Any) -> Bits:
            env = environment(*map(of_number, sources))
            program(texts()[name])(env)
            kind = re.fullmatch(r".*_([uibf])(\d+)", name)
            return Bits(env["D0"].bits, max(int(kind[2]), 32 if kind[1] == "u" else 0), kind[1])  # type: ignore[index]

        return call


def environment(*sources: Bits) -> dict[str, Any]:
    """What an instruction finds: sources, zeros elsewhere."""
    env: dict[str, Any] = {f"S{n}": each for n, each in enumerate(sources)}
    return env | {
        "D0": Bits(0, 64),
        "tmp": Bits(0, 64),
        "IEEE": Bits(0, 1),
        "PI": of_float(np.pi, 64),
    }


@cache
def program(text: str) -> Any:
    """A function of an environment, which it changes.

    Raises:
        SyntaxError: this reads no such text.
    """
    text = re.sub(r"\w+ = lambda\(.*?\) \(.*?\);\n", "", text, flags=re.DOTALL)
    text = re.sub(r"addr = Calc\w+\(.*\);", "addr = 0;", text.replace("WAVE_MODE.", ""))
    text = re.sub(r"VGPR\[(\w+)\]\[VDST(?:\.u32)?\] =", r"OUT[\1] =", text)
    out, deep = [], 1
    for line in map(str.strip, re.split(r";\n?|\n", re.sub(r"//[^\n]*", "", text))):
        if not line:
            continue
        put = "    " * deep
        if found := re.fullmatch(r"(els)?if (.*) then", line):
            deep -= bool(found[1])
            put = "    " * deep
            out.append(f"{put}{'el' if found[1] else ''}if {_Expression(found[2]).whole()}:")
            deep += 1
        elif line == "else":
            out.append("    " * (deep - 1) + "else:")
        elif line in ("endif", "endfor"):
            deep -= 1
        elif line == "break":
            out.append(f"{put}break")
        elif found := re.fullmatch(r"for (\w+) in (\d+) : (\d+) do", line):
            out.append(f"{put}for _i in range({found[2]}, {int(found[3]) + 1}):")
            deep += 1
            out.append(f"{put}    E[{found[1]!r}] = Bits(_i, 32, 'i')")
        elif line.startswith("declare"):
            name = repr(line.split()[1])
            old = f"E.setdefault({name}, Bits(0, 64))"
            out.append(put + (f"E[{name}] = {{}}" if line.endswith("[64]") else old))
        elif line.startswith("{"):
            names, value = re.fullmatch(r"\{(.*?)\}\s*=\s*(.*)", line).groups()  # type: ignore[union-attr]
            out.append(f"{put}_v = {_Expression(value).whole()}; _at = 0")
            for name in reversed(names.split(",")):
                own, kind = name.strip().split(".")
                out.append(f"{put}E[{own!r}] = Bits(_v.bits >> _at, {kind[1:]}, {kind[0]!r})")
                out.append(f"{put}_at += {kind[1:]}")
        else:
            also = re.match(r"(EXEC\.u64\[laneId\] = )D0", line)  # VCC and EXEC in one line
            line = line.removeprefix(also[1]) if also else line
            match = _TARGET.fullmatch(line)
            if not match:
                raise SyntaxError(line)
            name, typed, high, low, last, operator, value = match.groups()
            value = _Expression(value).whole()
            of = f"E[{name!r}]" + (f".typed('{typed}')" if typed else "")
            if name == "MEM":
                of = "E['MEM'][0]" + (f".typed('{last}')" if last else "")
            if operator:
                value = f"{of} {operator} {value}"
            ends = [_Expression(e).whole() if e else "None" for e in (high, low or high)]
            out.append(
                f"{put}_store(E, {name!r}, {typed or last!r}, {ends[0]}, {ends[1]}, {value})"
            )
            if also:
                out.append(f"{put}E['EXEC'] = E['D0']")
    scope = _Scope({**HELP, "_store": _store})
    exec("def run(E):\n" + "\n".join(out or ["    pass"]), scope)
    return scope["run"]


@cache
def texts() -> dict[str, str]:
    """Mnemonic without the ending of an encoding -> pseudocode, of CDNA3 and 4."""
    found = importlib.util.find_spec("tinygrad")
    assert found
    assert found.origin
    file = Path(found.origin).parent / "runtime/autogen/amd/cdna/str_pcode.py"
    made: dict[str, str] = {}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                assert isinstance(key, ast.Attribute)
                assert isinstance(value, ast.Constant)
                made.setdefault(re.sub(r"_e(32|64)$", "", key.attr.lower()), str(value.value))
    return made
