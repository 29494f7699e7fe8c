"""What a driver is, and how its options are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeVar

from simgen.errors import UsageError, did_you_mean, printable
from simgen.frontend.drivers.defaults import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from simgen.frontend.operation import LibraryOperation

MEASURING = ""  # in a table of options: passed over, since it does not change what is computed
MOST_DIGITS = 10  # digits of a number, at most
NARROW_SUMS = "sums are of f32 here, where the program's are of f16"
T = TypeVar("T")


class Driver(ABC):
    """A program that times a library's operations."""

    name: ClassVar[str]  # name of its form, for `simgen show --as`
    program: ClassVar[str]
    programs: ClassVar[tuple[str, ...]] = ()  # their names, where there are several

    @abstractmethod
    def read(self, words: list[str], program: str) -> LibraryOperation:
        """The operation that the words behind the program's name ask for.

        Raises:
            UsageError: there is no such option, or simgen has not what it asks for.
        """

    def notes(self, words: list[str]) -> tuple[str, ...]:
        """What a user has to know of a line that was read."""
        return ()

    def by_rows(self, words: list[str]) -> bool:
        """Whether the line is a product of matrices by rows, which [Gemm] has as they are."""
        return False

    @abstractmethod
    def lines(self, operation: LibraryOperation) -> list[str]:
        """Command lines that run the operation, one for each pass where a line has one.

        Raises:
            UsageError: the program cannot run it.
        """

    def cannot(self, what: str) -> UsageError:
        """The error of an operation that the program does not have."""
        return UsageError(f"--as {self.name}: {self.program} has no {what}; choose another form")


class GivenOptions:
    """The options of a line, by their names in the program's table, and its defaults."""

    def __init__(self, place: str, found: Mapping[str, str], usual: Mapping[str, str]) -> None:
        self.place, self.found, self.usual = place, dict(found), usual

    def refuse(self, name: str, cure: str) -> UsageError:
        """The error of an option whose value simgen cannot have."""
        text = printable(self.text(name))
        given = text if name in self.found else f"{text} where it is not given"
        return UsageError(f"{self.place}: {name} is {given}; {cure}")

    def text(self, name: str) -> str:
        return self.found.get(name, self.usual.get(name, ""))

    def whole(self, name: str, least: int = 1) -> int:
        """A whole number."""
        text = self.text(name)
        if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
            raise self.refuse(name, "write one whole number")
        if int(text) < least:
            raise self.refuse(name, f"it must be at least {least}")
        return int(text)

    def flag(self, name: str) -> bool:
        """0 or 1."""
        return self.one_of(name, {"0": False, "1": True})

    def number(self, name: str) -> float:
        try:
            return float(self.text(name))
        except ValueError:
            raise self.refuse(name, "write one number") from None

    def one_of(self, name: str, values: Mapping[str, T]) -> T:
        """What the option's word stands for."""
        text = self.text(name)
        if text not in values:
            raise UsageError(
                f"{self.place}: {name} is {printable(text)}; {did_you_mean(text, values)}"
            )
        return values[text]

    def only(self, name: str, values: Iterable[str], cure: str) -> None:
        """Raises UsageError if the option is given, with a value that is none of these."""
        if name in self.found and self.found[name] not in values:
            raise self.refuse(name, cure)


def value_in(words: list[str], *names: str) -> str:
    """The value of an option in a line that was read; "" where it is not given."""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else words[at + 1]
    return ""


def read_options(
    words: list[str],
    spellings: Mapping[str, str],
    place: str,
    program: str = "",
    *,
    joined: bool = False,
) -> GivenOptions:
    """Each option with its value: "-n 4", "--lda 4" or "--lda=4"; the latter alone, if `joined`.

    `spellings` is what an option may be written as -> its name, or MEASURING; `program` is the row
    of DEFAULTS, where that is not the place.

    Raises:
        UsageError: an unknown option, one without a value, or what is no option.
    """
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name not in spellings:
            what = "option" if name.startswith("-") else "word"
            raise UsageError(
                f"{place}: unknown {what} {printable(name)}; {did_you_mean(name, spellings)}"
            )
        if not equals and not joined:
            value, equals = next(rest, ""), "="
        if not value and spellings[name]:
            raise UsageError(f"{place}: {name} has no value; write it behind the option")
        if spellings[name]:
            found[spellings[name]] = value
    return GivenOptions(place, found, DEFAULTS[program or place].values)
