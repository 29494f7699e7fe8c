"""DNNMark's config files: text to sections of keys and values, each with its file and line.

    config    ::= { line }
    line      ::= [ section | entry ] [ comment ]
    section   ::= "[" NAME "]"
    entry     ::= KEY "=" [ VALUE ]
    comment   ::= "#" at the start of a line or after white space, up to the end of the line
    variable  ::= "$" WORD | "${" WORD "}"        anywhere outside of comments

White space around names, keys and values does not count, nor do blank lines and indentation. A
variable is replaced before its line is read, so that it may stand for a value, for a whole entry
(`$CUDNN_CBFA` for `algo=fft`) or, when its value is empty, for nothing. A line break in its value
ends the line, and entries may follow: a fork's run_dnnmark_template.sh ends values in one, and
writes `${A}${B}`. This is what the scripts of that name do with a .dnntemplate.

Nothing here knows what a section or a key means: that is the business of `simgen.layers`.

Source: ParseGeneralConfig, ParseLayerConfig and SplitStr of DNNMark (core/src/dnnmark.cc,
core/src/utility.cc at 0c29f80); run_dnnmark_template.sh there and in pyotr777/DNNMark. Trailing
comments and `${WORD}` are additions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices
from simgen.errors import ConfigError, one_line, printable, resembling
from simgen.ground.storage.files import NotRegularError, open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

MAX_NBYTES = 2**20  # the largest config that `read_config` takes

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")
_LINE_BREAK = re.compile(r"\r?\n")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
BUILT_IN = "built-in"  # begins the source of a config that is no file
# Control characters other than the tab, Unicode's two line separators, and lone surrogates: what
# would break a one-line message, a terminal or a UTF-8 file later.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True)
class Place:
    """A line of a config; `str` gives "file:line", and the source alone for line 0: no file."""

    source: str  # name of the file, as the user gave it
    line: int  # from 1

    def __str__(self) -> str:
        source = one_line(self.source)
        return f"{source}:{self.line}" if self.line else source


@dataclass(frozen=True)
class Entry:
    """`key=value`. The value may be empty; neither holds a control character but the tab."""

    key: str
    value: str
    where: Place


@dataclass(frozen=True)
class Section:
    """`[name]` and the entries below it, in order; no key twice."""

    name: str
    entries: tuple[Entry, ...]
    where: Place

    def get(self, key: str) -> Entry | None:
        """The entry of `key`, or None."""
        return next((entry for entry in self.entries if entry.key == key), None)


@dataclass(frozen=True)
class Config:
    """A whole config, in order. It has at least one section; section names may repeat."""

    source: str
    sections: tuple[Section, ...]
    variables: tuple[str, ...]  # names of the variables it uses, in order of first use
    # Its lines without comments, and with variables: what `parse` makes the same config of.
    text: str = field(default="", compare=False, repr=False)


def read_config(path: Path, variables: Mapping[str, str] = {}) -> Config:
    """The config in the file `path`.

    Raises:
        ConfigError: the file cannot be read, is larger than MAX_NBYTES, is not UTF-8 text, or
            `parse` does not accept it.
    """
    source = str(path)
    raw = _content(path)
    if len(raw) > MAX_NBYTES:
        fact = f"larger than {MAX_NBYTES} bytes, so not a config; check the path"
        raise ConfigError(one_line(source), fact)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        where = Place(source, raw.count(b"\n", 0, error.start) + 1)
        raise ConfigError(where, "not UTF-8 text; check the path, or save it as UTF-8") from None
    return parse(text, source, variables)


def parse(text: str, source: str, variables: Mapping[str, str] = {}) -> Config:
    """The config in `text`. `source` is the file name for messages.

    `variables` may hold more names than the config uses; `Config.variables` tells which it uses.

    Raises:
        ConfigError: a line that the grammar does not have, a key given twice in one section, a
            variable without a value, a value with control characters, or no section at all.
    """
    lines = list(_code_lines(text, source))
    uses: dict[str, Place] = {}  # variable -> its first use
    for code, where in lines:
        for name in _names(code):
            uses.setdefault(name, where)
    _check_variables(uses, variables)
    sections: list[tuple[str, Place, dict[str, Entry]]] = []
    for line, where in _expanded(lines, variables):
        if line.startswith("["):
            sections.append((_section_name(line, where), where, {}))
        elif line:
            entry = _entry(line, where)
            _check_place(entry, sections[-1][2] if sections else None)
            sections[-1][2][entry.key] = entry
    if not sections:
        fact = "no [Section] in the file; write one, such as [DNNMark]"
        raise ConfigError(Place(source, 1), fact)
    found = tuple(Section(name, tuple(entries.values()), at) for name, at, entries in sections)
    kept = "\n".join(code.rstrip() for code, _ in lines).rstrip("\n")
    return Config(source, found, tuple(uses), f"{kept}\n")


def built_in(name: str, section: Section) -> Config:
    """The config of a section that comes from no file."""
    lines = [f"[{section.name}]", *(f"{each.key}={each.value}" for each in section.entries)]
    return Config(f"{BUILT_IN} {name}", (section,), (), "".join(f"{line}\n" for line in lines))


def _content(path: Path) -> bytes:
    """The bytes of a file, at most one more than MAX_NBYTES."""
    where = one_line(str(path))
    try:
        with open_regular(path) as file:
            return file.read(MAX_NBYTES + 1)
    except FileNotFoundError:
        fact = "no such file; check the path"
    except NotRegularError as error:
        directory = "a directory, not a config; name a file in it"
        fact = directory if path.is_dir() else f"{error.strerror}; check the path"
    except PermissionError:
        fact = "not readable; check its permissions"
    except OSError as error:
        fact = f"cannot be read ({error.strerror}); check the path"
    except ValueError:  # NUL or a lone surrogate in the name
        fact = "not a file name; check the path"
    raise ConfigError(where, fact)


def _code_lines(text: str, source: str) -> Iterator[tuple[str, Place]]:
    """The lines without their comments. A line ends with LF, CR LF or CR."""
    text = text.removeprefix("\ufeff")
    # str.splitlines would also split at form feeds and others, where no editor counts a line.
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        where = Place(source, number)
        control = _CONTROL.search(line)
        if control:
            cure = "not a text file, check the path" if "\0" in text else "remove it"
            raise ConfigError(where, f"control character {control[0]!a}; {cure}")
        yield _COMMENT.sub("", line), where


def _names(code: str) -> list[str]:
    """Names of the variables in a line, in order."""
    return [match[1] or match[2] for match in _VARIABLE.finditer(code)]


def _check_variables(uses: Mapping[str, Place], variables: Mapping[str, str]) -> None:
    """Raises ConfigError unless every used variable has a value that fits on a line."""
    missing = [name for name in uses if name not in variables]
    if missing:
        noun = "variable" if len(missing) == 1 else "variables"
        fact = f"no value for the {noun} {', '.join(missing)}"
        others = [name for name in variables if name not in uses]
        cure = resembling(missing, others) or f"give them with {BuildChoices.set} NAME=VALUE"
        raise ConfigError(uses[missing[0]], f"{fact}; {cure}")
    for name, where in uses.items():
        value = variables[name]
        first, *more = _LINE_BREAK.split(value)
        if any(_CONTROL.search(each) or "\t" in each for each in (first, *more)):
            fact = f"variable {name} is {printable(value)}"
            raise ConfigError(where, f"{fact}; its value must not contain control characters")
        if any(each.strip() and ("=" not in each or each.strip()[0] == "[") for each in more):
            fact = f"variable {name} is {printable(value)}"
            raise ConfigError(where, f"{fact}; write key=value behind a line break")


def _expanded(
    lines: Iterable[tuple[str, Place]], variables: Mapping[str, str]
) -> Iterator[tuple[str, Place]]:
    """The lines with their variables replaced, one more for each line break in a value."""
    for code, where in lines:
        for line in _LINE_BREAK.split(_expand(code, where, variables)):
            yield line.strip(), where


def _expand(code: str, where: Place, variables: Mapping[str, str]) -> str:
    """A line with its variables replaced; what they stand for is not expanded again."""
    if "$" in _VARIABLE.sub("", code):
        fact = f"a $ that starts no variable in {printable(code.strip())}"
        raise ConfigError(where, f"{fact}; write $NAME or ${{NAME}}")
    return _VARIABLE.sub(lambda match: variables[match[1] or match[2]], code)


def _section_name(line: str, where: Place) -> str:
    if not line.endswith("]") or "[" in line[1:] or "]" in line[:-1]:
        fact = f"{printable(line)} is not a section"
        raise ConfigError(where, f"{fact}; write [NAME] on a line of its own")
    name = line[1:-1].strip()
    if not name:
        raise ConfigError(where, "a section without a name; write [NAME]")
    return name


def _entry(line: str, where: Place) -> Entry:
    key, equals, value = line.partition("=")
    key, value = key.strip(), value.strip()
    if not equals:
        fact = f"{printable(line)} is neither a section nor an entry"
        raise ConfigError(where, f"{fact}; write [NAME] or key=value")
    if not key:
        raise ConfigError(where, f"no key before the = of {printable(line)}; write key=value")
    return Entry(key, value, where)


def _check_place(entry: Entry, above: Mapping[str, Entry] | None) -> None:
    """Raises ConfigError unless the entry stands in a section that does not have its key yet."""
    if above is None:
        fact = f"key {printable(entry.key)} stands before the first section"
        raise ConfigError(entry.where, f"{fact}; write a [Section] above it")
    if entry.key in above:
        fact = f"key {printable(entry.key)} stands on line {above[entry.key].where.line} already"
        raise ConfigError(entry.where, f"{fact}; remove one of the two")
