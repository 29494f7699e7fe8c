"""A choice: one option, with its spelling, its values and what it does, as a field of a value.

    class RunChoices(Asked):
        warm: ChoiceField[str | None, str | None] = choice("--warm", Word(values=...), text="...")

`RunChoices.warm` is the choice, and `RunChoices(warm="none").warm` the value, which has been read
and checked. In a text for people, a choice is spelled as the user has it: `--warm`, or `warm`
where Python called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any, Generic, Self, TypeVar, dataclass_transform, overload

from simgen.ask.kinds import Flag, Options, ValueKind
from simgen.errors import UsageError, printable

G = TypeVar("G")
K = TypeVar("K")
T = TypeVar("T")
_PYTHON: ContextVar[bool] = ContextVar("_PYTHON", default=False)


@contextlib.contextmanager
def in_python() -> Iterator[None]:
    """Within this block, texts for people spell choices as keywords."""
    before = _PYTHON.set(True)
    try:
        yield
    finally:
        _PYTHON.reset(before)


def option(name: str, value: object = None) -> str:
    """A setting or an option of a target on the command line; `--no-...` for a flag that is off."""
    return f"--{'no-' if value is False else ''}{name.replace('_', '-')}"


def spelled(name: str, value: object = None) -> str:
    """A setting or an option of a target, in a text for people."""
    return name if _PYTHON.get() else option(name, value)


class ChoiceField(Generic[G, K]):
    """An option, which is given as a G and kept as a K.

    Attributes:
        flag: its spelling on the command line; empty where it has none.
        also: another spelling.
        text: what it does, where `{name}` is another choice of the same value.
        completes: what a shell offers for it (simgen.cli.completing).
        key: its name in files.
    """

    def __init__(self, flag: str, kind: ValueKind, default: Any, text: str, **more: str) -> None:
        self.flag, self.kind, self.default, self.text = flag, kind, default, text
        self.also, self.completes = more["also"], more["completes"]
        self.key, self.name = more["key"], ""
        self.owner: type = object

    def __set_name__(self, owner: type, name: str) -> None:
        if not self.name:  # a class that has it as a default does not own it
            self.name, self.owner, self.key = name, owner, self.key or name

    @overload
    def __get__(self, asked: None, owner: type) -> Self: ...
    @overload
    def __get__(self, asked: object, owner: type) -> K: ...
    def __get__(self, asked: object, owner: type) -> Any:
        return self if asked is None else asked.__dict__[self.name]

    def __set__(self, asked: object, value: G) -> None:
        given = value is not None and value is not self
        asked.__dict__[self.name] = self.read(value) if given else self.default

    def __str__(self) -> str:
        if not _PYTHON.get():
            return self.flag
        return f"{self.name}=True" if isinstance(self.kind, Flag) else self.name

    def __repr__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"

    @property
    def python(self) -> str:
        """The type of what it is given in Python."""
        return self.kind.python if self.default is not None else f"{self.kind.python} | None"

    @property
    def flags(self) -> tuple[str, ...]:
        """All its spellings on the command line; the last of two says no."""
        off = self.kind.off if isinstance(self.kind, Flag) else ""
        return tuple(each for each in (self.flag, self.also, off) if each)

    @property
    def off(self) -> str:
        """The spelling of no, of a flag that has one."""
        assert isinstance(self.kind, Flag)
        return f"{self.name}=False" if _PYTHON.get() else self.kind.off

    def read(self, value: Any) -> K:
        """The value that `value`, or its text, is.

        Raises:
            UsageError: it is none.
        """
        try:
            found: K = self.kind.read(value)
        except ValueError as error:
            fact, wrong = (*error.args, value)[:2]  # an item, where there are several
            raise UsageError(f"{self} {printable(str(wrong))}: {fact}") from None
        return found

    def spelling(self, value: K) -> str:
        """It in a text for people, where it has this value: a flag may have one for no."""
        return self.off if isinstance(self.kind, Flag) and value is False else str(self)

    @property
    def help(self) -> str:
        """What it does, and the range of its values."""
        text = self.text.format_map({each.name: each for each in choices(self.owner)})
        return f"{text} [{self.kind.range}]" if self.kind.range else text

    def pairs(self, value: Any) -> list[tuple[str, str]]:
        """The options that give the value, each with a word behind it; of flags, it is empty."""
        if isinstance(self.kind, Flag):
            return [(self.flag if value else self.kind.off, "")]
        if isinstance(self.kind, Options):
            lines = ((k, line) for k, v in value.items() for line in str(v).split("\n"))
            return [
                (f"{option(k)}={line}", "") if line[:1] in ("", "-") else (option(k), line)
                for k, line in lines
            ]
        items = value if self.kind.several else (value,)
        return [(self.flag, self.kind.word(each)) for each in items]


def choice(
    flag: str,
    kind: ValueKind,
    default: Any = None,
    *,
    text: str,
    also: str = "",
    completes: str = "",
    key: str = "",
) -> Any:
    """A field of a value that a user asks for."""
    return ChoiceField(flag, kind, default, text, also=also, completes=completes, key=key)


def choices(asked: type | Asked) -> list[ChoiceField[Any, Any]]:
    """The choices of a value, in their order."""
    owner = asked if isinstance(asked, type) else type(asked)
    found = (getattr(owner, each.name, None) for each in fields(owner))
    return [each for each in found if isinstance(each, ChoiceField)]


@dataclass_transform()
def asking(cls: type[T]) -> type[T]:
    """A frozen dataclass. Type checkers are not told that it is frozen: mypy would take what its
    choices are given for what they keep."""
    return dataclass(frozen=True)(cls)


@asking
class Asked:
    """A value whose fields are choices."""

    def given(self) -> dict[ChoiceField[Any, Any], Any]:
        """The choices that are not as usual, and their values."""
        made = {each: getattr(self, each.name) for each in choices(self)}
        return {each: value for each, value in made.items() if value != each.default}

    def pairs(self) -> list[tuple[str, str]]:
        """The options that ask for it, each with the word behind it; of a flag, it is empty."""
        return [pair for each, value in self.given().items() for pair in each.pairs(value)]

    def words(self) -> list[str]:
        """The words of the command line that ask for it."""
        return [word for flag, text in self.pairs() for word in ((flag, text) if text else (flag,))]

    def to_json(self) -> dict[str, Any]:
        """What is not as usual, as `json.dumps` takes it."""
        return {each.key: each.kind.to_json(value) for each, value in self.given().items()}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`; what it does not know is left out.

        Raises:
            UsageError: a value is none of its choice.
        """
        return cls(**{each.name: told[each.key] for each in choices(cls) if each.key in told})
