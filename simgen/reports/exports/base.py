"""What an export is, and the table of exports."""

from __future__ import annotations

import contextlib
import copy
import re
import shlex
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from simgen.ask.checks import ExportChoices
from simgen.bundle import finding, outputs, writing
from simgen.errors import UsageError, did_you_mean, one_line, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simgen.bundle.folder import Bundle
    from simgen.bundle.results import Result

EXPORTS: dict[str, Export] = {}  # by name; importing simgen.reports.exports fills it
SHOWN = 3  # names in a message


@dataclass(frozen=True)
class Exported:
    """What is exported: a bundle, and what ran of it, as far as the format has use for that."""

    name: str  # name of the bundle's folder
    bundle: Bundle
    results: tuple[Result, ...]

    @property
    def result(self) -> Result:
        """The only one."""
        (found,) = self.results
        return found


class Export(ABC):
    """A format: a name, what it needs, and how it is written."""

    name: ClassVar[str]  # what --as takes
    what: ClassVar[str]  # half a line for people
    readers: ClassVar[tuple[str, ...]] = ()  # tools that read it, in small letters and digits alone
    file: ClassVar[bool] = False  # whether PATH becomes a file; if not, a folder
    reads_results: ClassVar[bool] = True
    all_results: ClassVar[bool] = False  # without --result all that ran; if not, the only one
    several: ClassVar[bool] = False  # bundles at once
    model_keys: ClassVar[tuple[str, ...]] = ()  # facts of a model that it takes
    model: Mapping[str, int] = MappingProxyType({})  # given values of the model

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" in cls.__dict__:
            EXPORTS[cls.name] = cls()

    @abstractmethod
    def write(self, sources: Sequence[Exported], path: Path) -> list[str]:
        """Write `path`, which is not there yet; returns lines that a user has to know.

        Raises:
            UsageError: what is exported lacks what the format is about.
            MissingError: a package that writes the format is not installed.
        """

    @property
    def option(self) -> str:
        """The words that chose it, for messages."""
        return f"{ExportChoices.form} {self.name}"


def find(name: str) -> Export:
    """The export of a name.

    Raises:
        UsageError: there is none.
    """
    if name in EXPORTS:
        return EXPORTS[name]
    tool = re.sub("[^a-z0-9]", "", name.lower())
    if "perfetto" in tool:
        cure = "simgen report writes timeline.json, which Perfetto opens"
    elif read := next((each for each in EXPORTS.values() if tool in each.readers), None):
        cure = f"take {read.option}, which {printable(name)} reads"
    else:
        cure = did_you_mean(name, EXPORTS)
    raise UsageError(f"{ExportChoices.form} {name!r}: no such format; {cure}")


def source(export: Export, bundle: Bundle, wanted: str | None) -> Exported:
    """A bundle with the result that is wanted, or those that the format takes by itself.

    Raises:
        UsageError: there is no such result, none at all, or several where the format takes one.
        DamagedError: a result is not what its run left.
    """
    place = one_line(bundle.path.resolve().name)
    if not export.reads_results:
        if wanted is not None:
            fact = f"{ExportChoices.result} {wanted!r}: {export.name} tells of no result"
            raise UsageError(f"{fact}; leave it out")
        return Exported(place, bundle, ())
    names = [wanted] if wanted is not None else bundle.ran()
    if not names:
        fact = f"nothing has run yet, and {export.option} is about times"
        raise UsageError(
            f"{bundle.path}: {fact}; run it with: simgen run {shlex.quote(str(bundle.path))}"
        )
    if len(names) > 1 and not export.all_results:
        shown = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
        raise UsageError(
            f"{bundle.path}: {len(names)} results have run ({shown}); choose one with "
            f"{ExportChoices.result}"
        )
    return Exported(place, bundle, tuple(finding.find_result(bundle, each) for each in names))


def with_model(export: Export, facts: str | None) -> Export:
    """The format with facts of a model, `KEY=N,KEY=N`.

    Raises:
        UsageError: it takes none of this name, or a value is no number above 0.
    """
    if facts is None:
        return export
    given: dict[str, int] = {}
    for fact in facts.split(","):
        key, _, value = (word.strip() for word in fact.partition("="))
        place = f"{ExportChoices.model} {printable(fact)}"
        if not export.model_keys:
            raise UsageError(f"{place}: {export.option} has no use for it; leave it out")
        if key not in export.model_keys:
            raise UsageError(f"{place}: no fact of a model; {did_you_mean(key, export.model_keys)}")
        if not re.fullmatch("[1-9][0-9]{0,8}", value):
            raise UsageError(f"{place}: not a number of 1 to 999999999; write {key}=32")
        given[key] = int(value)
    made = copy.copy(export)
    made.model = given
    return made


def chosen(asked: ExportChoices) -> Export:
    """The format that is asked for.

    Raises:
        UsageError: there is none of this name, or it does not take the facts of a model.
    """
    return with_model(find(asked.form or ""), asked.model)


@dataclass(frozen=True)
class ExportedFiles:
    """What was exported: the format, its file or folder, and what a user has to know."""

    format: str
    output: Path
    notes: tuple[str, ...]


def export(paths: Sequence[Path], asked: ExportChoices, output: Path) -> ExportedFiles:
    """Export the bundles in folders.

    Raises:
        UsageError, MissingError, DamagedError: as `chosen` and `write`; or a folder is no bundle.
    """
    made = chosen(asked)
    with contextlib.ExitStack() as held:
        opened = [held.enter_context(writing.opened(path)) for path in paths]
        return ExportedFiles(made.name, output, tuple(write(made, opened, output, asked.result)))


def write(
    export: Export, bundles: Sequence[Bundle], path: Path, wanted: str | None = None
) -> list[str]:
    """Export bundles to `path`; returns what a user has to know, a line each.

    Raises:
        UsageError, MissingError, DamagedError: as `source` and `Export.write`; or `path` is there.
    """
    outputs.new_file(path)
    if len(bundles) > 1 and not export.several:
        raise UsageError(
            f"{bundles[1].path}: {export.option} takes one bundle; export each by itself"
        )
    return export.write([source(export, each, wanted) for each in bundles], path)


def seconds(export: Export, bundle: Bundle, result: Result) -> dict[int, float]:
    """Step -> the time of its launches, of those that have one.

    Raises:
        UsageError: no launch has a time.
    """
    found: dict[int, float] = {}
    kernels = result.kernels(bundle.workload)
    for (step, _), metrics in zip(kernels, result.launches, strict=True):
        if "seconds" in metrics:
            found[step] = found.get(step, 0.0) + metrics["seconds"]
    if not found:
        raise UsageError(
            f"{bundle.path}: {result.name} counted no times, which {export.option} is about; run a "
            "target that does, as mgpusim with --mode timing"
        )
    return found


def inferred(result: Result) -> list[str]:
    """A line where some times are those of launches that stand for others."""
    count = len(result.inferred)
    if not count:
        return []
    return [
        f"{result.name}: {count} of {len(result.launches)} launches did not run, and have the "
        "times of others like them"
    ]
