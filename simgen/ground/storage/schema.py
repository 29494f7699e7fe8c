"""What a JSON file may hold: types with bounds, and the reading that keeps to them.

A schema is a frozen dataclass whose fields have types: bool, int, float, str, an Enum, a
`Registered` value, `X | None`,
`tuple[X, ...]`, `Mapping[str, X]`, another dataclass, `Any` (plain JSON of little depth), each
with bounds as in `Annotated[int, Within(1, 8)]`. `from_json` makes the value, and says where what
it got is something else. What has no bounds of its own has those of `Within` and `LONGEST`.
"""

from __future__ import annotations

import collections.abc
import json
import math
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

from simgen.errors import printable, shortened

WIDEST = 2**64  # limit of whole numbers by default
LONGEST = 2**20  # limit of texts, in characters
DEEPEST = 16  # levels of `Any`
MAX_NBYTES = 2**28  # size limit of a JSON file

T = TypeVar("T")
Decoder = Callable[[Any], Any]


@dataclass(frozen=True)
class Within:
    """Bounds of a number, inclusive."""

    least: float = -WIDEST
    most: float = WIDEST


@dataclass(frozen=True)
class Sized:
    """Bounds of the length of a text, a list or an object, inclusive."""

    least: int = 0
    most: int = LONGEST


@dataclass(frozen=True)
class Matching:
    """A regular expression, for all of a text, and what such a text is called."""

    pattern: str
    what: str


class Registered:
    """A value that a file has by its name, of those in the `table` of its class."""

    table: ClassVar[Mapping[str, Any]]
    name: str


SHA256 = Annotated[str, Matching(r"[0-9a-f]{64}", "a SHA-256")]


class SchemaError(ValueError):
    """A value is not what the schema says; the message has its place in front."""

    def __init__(self, fact: str) -> None:
        super().__init__(fact)
        self.fact = fact
        self.place = ""

    def under(self, name: str) -> SchemaError:
        """The same error, seen from what holds the value by `name`."""
        self.place = shortened(name, 80) + self.place
        return self

    def __str__(self) -> str:
        return f"{self.place}: {self.fact}" if self.place else self.fact


def parse(content: bytes | str) -> Any:
    """The JSON in `content`, which has no key twice and no NaN or infinity.

    Raises:
        SchemaError: it is none.
    """
    try:
        return json.loads(content, object_pairs_hook=_object, parse_constant=_no_number)
    except SchemaError:
        raise
    except RecursionError:
        raise SchemaError("nested too deeply") from None
    except json.JSONDecodeError as error:
        raise SchemaError(f"not JSON: {error.msg} in line {error.lineno}") from None
    except ValueError:  # bytes that are no text, a number of thousands of digits
        raise SchemaError("not JSON that can be read") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise SchemaError(f"{printable(name)} stands twice in an object")
        made[name] = value
    return made


def _no_number(name: str) -> None:
    raise SchemaError(f"{name} is not a number in JSON")


def to_json(value: Any) -> Any:
    """A frozen value as what `json.dumps` takes."""
    if isinstance(value, Registered):
        return value.name
    if is_dataclass(value):
        return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    return value.value if isinstance(value, Enum) else value


def from_json(kind: type[T], value: Any, *, more: bool = False) -> T:
    """The inverse of `to_json`; `value` comes from `parse`, or from `json.loads`.

    With `more`, objects may have fields that the schema does not know, which are left out: those
    of a later version.

    Raises:
        SchemaError: the value does not have the types and bounds of `kind`.
    """
    try:
        made: T = _decoder(kind, more)(value)  # type: ignore[arg-type]  # a type is hashable
        return made
    except SchemaError as error:
        raise error.under(kind.__name__) from None


@cache
def _decoder(kind: Any, more: bool) -> Decoder:
    """What makes a value of type `kind` of JSON; made once for each type."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _bounded(args[0], args[1:], more)
    if isinstance(kind, type) and issubclass(kind, Registered):
        return _registered(kind)
    if is_dataclass(kind):
        return _fields(kind, more)
    if origin is tuple:
        return _items(args, more)
    if origin in (dict, collections.abc.Mapping):
        return _members(args[1], more)
    if origin in (Union, types.UnionType):
        return _alternatives(args, more)
    if kind is Any:
        return _plain
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind)
    return {bool: _bool, int: _whole_number, float: _real, str: _text, types.NoneType: _none}[kind]


_WORDS = {bool: "boolean", int: "integer", float: "number", str: "string", types.NoneType: "null"}


def json_schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema (2020-12) of what `to_json` makes of a value of type `kind`."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        more = [{"pattern": f"^({b.pattern})$"} for b in args[1:] if isinstance(b, Matching)]
        return {**json_schema(args[0]), **(more[0] if more else {})}
    if is_dataclass(kind) and not (isinstance(kind, type) and issubclass(kind, Registered)):
        hints = get_type_hints(kind, include_extras=True)
        found = {each.name: json_schema(hints[each.name]) for each in fields(kind)}
        return {"type": "object", "properties": found, "required": list(found),
                "additionalProperties": False}  # fmt: skip
    if origin is tuple:
        items = [json_schema(each) for each in args if each is not ...]
        if args[-1] is ...:
            return {"type": "array", "items": items[0]}
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if origin in (dict, collections.abc.Mapping):
        return {"type": "object", "additionalProperties": json_schema(args[1])}
    if origin in (Union, types.UnionType):
        return {"anyOf": [json_schema(each) for each in args]}
    if isinstance(kind, type) and issubclass(kind, Registered):
        return {"type": "string"}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [each.value for each in kind]}
    return {} if kind is Any else {"type": _WORDS[kind]}


def _fields(kind: Any, more: bool) -> Decoder:
    decoders = {
        name: _decoder(hint, more)
        for name, hint in get_type_hints(kind, include_extras=True).items()
        if name in {f.name for f in fields(kind)}
    }
    # Fields that came later have defaults: what an older simgen wrote lacks them.
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}

    def decode(value: Any) -> Any:
        known = type(value) is dict and needed <= value.keys()
        if not known or not (more or value.keys() <= decoders.keys()):
            raise SchemaError(f"expected the fields {', '.join(decoders)}{_but(value, decoders)}")
        made = {}
        for name, item in value.items():
            if name in decoders:
                try:
                    made[name] = decoders[name](item)
                except SchemaError as error:
                    raise error.under(f".{name}") from None
        return kind(**made)

    return decode


def _but(value: Any, known: Mapping[str, Decoder]) -> str:
    if type(value) is not dict:
        return f", got {_shown(value)}"
    unknown = next((name for name in value if name not in known), None)
    return "" if unknown is None else f", got {printable(unknown)}"


def _items(kinds: tuple[Any, ...], more: bool) -> Decoder:
    endless = kinds[-1] is ...
    decoders = [_decoder(kind, more) for kind in kinds if kind is not ...]

    def decode(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise SchemaError(f"expected a list, got {_shown(value)}")
        if not endless and len(value) != len(decoders):
            raise SchemaError(f"expected {len(decoders)} items, got {len(value)}")
        made = []
        for at, item in enumerate(value):
            try:
                made.append(decoders[0 if endless else at](item))
            except SchemaError as error:
                raise error.under(f"[{at}]") from None
        return tuple(made)

    return decode


def _members(kind: Any, more: bool) -> Decoder:
    decoder = _decoder(kind, more)

    def decode(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise SchemaError(f"expected an object, got {_shown(value)}")
        made = {}
        for name, item in value.items():
            try:
                made[_text(name)] = decoder(item)
            except SchemaError as error:
                raise error.under(f"[{printable(name)}]") from None
        return made

    return decode


def _alternatives(kinds: tuple[Any, ...], more: bool) -> Decoder:
    decoders = [_decoder(kind, more) for kind in kinds if kind is not types.NoneType]
    optional = types.NoneType in kinds

    def decode(value: Any) -> Any:
        if value is None and optional:
            return None
        for decoder in decoders[:-1]:
            try:
                return decoder(value)
            except SchemaError:
                pass
        try:
            return decoders[-1](value)
        except SchemaError:
            if len(decoders) > 1:
                raise SchemaError(f"unexpected {_shown(value)}") from None
            raise

    return decode


def _member(kind: type[Enum]) -> Decoder:
    def decode(value: Any) -> Enum:
        try:
            return kind(value)
        except (ValueError, TypeError):
            raise SchemaError(f"{_shown(value)} is not a valid {kind.__name__}") from None

    return decode


def _registered(kind: type[Registered]) -> Decoder:
    def decode(value: Any) -> Registered:
        if type(value) is not str or value not in kind.table:
            raise SchemaError(f"{_shown(value)} is not a valid {kind.__name__}")
        found: Registered = kind.table[value]
        return found

    return decode


def _bounded(kind: Any, bounds: tuple[Any, ...], more: bool) -> Decoder:
    inner = _decoder(kind, more)

    def decode(value: Any) -> Any:
        made = inner(value)
        for bound in bounds:
            fact = _outside(bound, made)
            if fact:
                raise SchemaError(fact)
        return made

    return decode


def _outside(bound: Any, value: Any) -> str:
    """Why a value does not keep to a bound; empty if it does."""
    match bound:
        case Within(least, most) if not least <= value <= most:
            return f"{_shown(value)} is not from {least} to {most}"
        case Sized(least, most) if not least <= len(value) <= most:
            return f"has {len(value)} items, not from {least} to {most}"
        case Matching(pattern, what) if not re.fullmatch(pattern, value):
            return f"{printable(value)} is not {what}"
    return ""


def _none(value: Any) -> None:
    if value is not None:
        raise SchemaError(f"expected null, got {_shown(value)}")


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise SchemaError(f"expected bool, got {_shown(value)}")
    return value


def _whole_number(value: Any) -> int:
    if type(value) is not int:
        raise SchemaError(f"expected int, got {_shown(value)}")
    if not -WIDEST <= value <= WIDEST:
        raise SchemaError(f"{_shown(value)} is out of range")
    return value


def _real(value: Any) -> float:
    if type(value) is int:
        try:
            value = float(value)
        except OverflowError:
            raise SchemaError("a number too large for float64") from None
    if type(value) is not float:
        raise SchemaError(f"expected float, got {_shown(value)}")
    if not math.isfinite(value):  # as 1e999 is
        raise SchemaError("a number too large for float64")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise SchemaError(f"expected str, got {_shown(value)}")
    if len(value) > LONGEST:
        raise SchemaError(f"a text of {len(value)} characters, more than {LONGEST}")
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise SchemaError(f"{printable(value)} is not Unicode text")
    return value


def _plain(value: Any, depth: int = 0) -> Any:
    """JSON of any kind, with the bounds of all."""
    if depth > DEEPEST:
        raise SchemaError("nested too deeply")
    if type(value) is dict:
        return {_text(name): _plain(item, depth + 1) for name, item in value.items()}
    if type(value) is list:
        return [_plain(item, depth + 1) for item in value]
    scalar: dict[type, Decoder] = {int: _whole_number, float: _real, str: _text}
    return scalar[type(value)](value) if type(value) in scalar else value


def _shown(value: Any) -> str:
    """What stands where something else should, shortly."""
    if type(value) is list:
        return f"a list of {len(value)}"
    if type(value) is dict:
        return f"an object of {len(value)}"
    if type(value) is int and abs(value) > WIDEST:
        return "a number of more than 64 bits"
    return printable(value) if type(value) is str else repr(value)
