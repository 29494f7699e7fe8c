"""What a bundle was planned from, as its manifest keeps it: the text of the config and the choices.

So it can be planned again with other choices, as the points of a sweep are, without the file that
it was made from.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from simgen.ask import choice as ask
from simgen.ask.build import BuildChoices
from simgen.bundle import folder
from simgen.errors import ConfigError, DamagedError, MissingError, UsageError, one_line, printable
from simgen.frontend import config, problem
from simgen.ground.ir import Pass
from simgen.ground.storage import schema
from simgen.ground.storage.files import open_regular, read_regular
from simgen.ground.storage.schema import SchemaError, Sized
from simgen.ground.version import version
from simgen.tensors import exact_values

if TYPE_CHECKING:
    from simgen.bundle.folder import Bundle
    from simgen.frontend.problem import Problem

CONFIG, TEXT, ASKED = "config", "config_text", "asked"  # in the manifest
# Choices that name files, and those that the manifest's entry CONFIG keeps in another way.
FILES = (BuildChoices.values, BuildChoices.data)
FLAGS = tuple(each.flag for each in FILES)
ELSEWHERE = {
    *FILES, BuildChoices.set, BuildChoices.passes, BuildChoices.type, BuildChoices.seed,
    BuildChoices.scale_to,
}  # fmt: skip


@dataclass(frozen=True)
class AskedWord:
    """A word of the command that a bundle was built with, or an option with its value."""

    value: Annotated[str, Sized(0, 100_000)]
    option: Annotated[str, Sized(0, 100)] = ""  # empty: the workload
    # digest of a file; its path is relative to the bundle
    sha256: Annotated[str, Sized(0, 64)] = ""


@dataclass(frozen=True)
class Recipe:
    """A problem that is found again, and what was done with it."""

    name: str
    source: str
    text: str
    passes: tuple[Pass, ...]
    choices: BuildChoices
    own: frozenset[str] = frozenset()  # tensors whose values are those of the bundle's data.h5
    constants: tuple[str, ...] = ()  # inputs that a model fixes
    asked: tuple[AskedWord, ...] = ()  # words of the bundle at `home`
    home: str = ""

    @property
    def gives_values(self) -> bool:
        """Whether it has values of a user's own, beside what a model fixes."""
        return bool(self.own.difference(self.constants))

    def problem(self, choices: BuildChoices) -> Problem:
        """The problem with the settings and the type of these choices.

        Raises:
            ConfigError: the text is no config, or a variable has no value.
        """
        kept = (self.name, self.text, self.source)
        return problem.again(*kept, choices.set, self.passes, choices.type)


@dataclass(frozen=True)
class KeptConfig:
    """The manifest's entry CONFIG, which has choices beside."""

    source: Annotated[str, Sized(0, 1000)]
    passes: Annotated[tuple[Pass, ...], Sized(1, len(Pass))]
    exact: bool = False  # whole numbers as values
    constants: tuple[str, ...] = ()  # inputs that a model fixes


def manifest_entries(
    found: Problem, choices: BuildChoices, constants: tuple[str, ...] = ()
) -> dict[str, Any]:
    """What the manifest says of where the workload comes from; a model fixes the `constants`."""
    sections = [
        [section.name, [(entry.key, entry.value) for entry in section.entries]]
        for section in found.config.sections
    ]
    chosen = {
        **{
            each.key: getattr(choices, each.name)
            for each in ask.choices(BuildChoices)
            if each not in ELSEWHERE
        },
        "type": found.dtype,
        "exact": exact_values.WORD in choices.values or None,
        "constants": list(constants) or None,
    }
    return {
        "simgen": version(exactly=True),
        CONFIG: {
            "source": one_line(os.path.basename(found.config.source)),
            "sha256": hashlib.sha256(json.dumps(sections).encode()).hexdigest(),
            BuildChoices.set.key: BuildChoices.set.kind.to_json(choices.set),
            **{name: value for name, value in chosen.items() if value is not None},
            "passes": [str(p) for p in found.passes],
        },
        TEXT: found.config.text,
    }


def of_bundle(bundle: Bundle) -> Recipe:
    """What the bundle was planned from. Values of the user's own are those in its data.h5.

    Raises:
        UsageError: an earlier version of simgen has built it, which did not keep that.
        DamagedError: the manifest does not say it.
    """
    text = bundle.manifest.get(TEXT)
    if text is None:
        raise UsageError(
            f"{bundle.path}: built by an earlier version of simgen, which did not keep the config; "
            "build it again"
        )
    try:
        told = bundle.manifest[CONFIG]
        found = schema.from_json(KeptConfig, told, more=True)
        own = frozenset(each.name for each in bundle.workload.inputs if each.values is not None)
        values = [str(bundle.path / folder.DATA)] if own else []
        values += [exact_values.WORD] if found.exact else []
        shown = {**told, BuildChoices.passes.key: None}
        choices = replace(BuildChoices.from_json(shown), values=values, seed=bundle.workload.seed)
        if type(text) is not str or len(text) > config.MAX_NBYTES:
            raise SchemaError("not a text").under(TEXT)
    except (SchemaError, UsageError) as error:
        place = bundle.path / folder.MANIFEST
        raise DamagedError(f"{place}: damaged ({error}); build it again") from None
    kept, home = _kept_words(bundle), _real(bundle.path)
    name = bundle.workload.name
    return Recipe(name, found.source, text, found.passes, choices, own, found.constants, kept, home)


def asked_words(source: str | Recipe, choices: BuildChoices, home: Path) -> tuple[AskedWord, ...]:
    """What the manifest of the bundle at `home` keeps of the command that builds it.

    A bundle that is made of another's recipe is asked for as that one, with other choices; empty
    where nobody knows how that was.
    """
    if isinstance(source, str):
        return tuple(
            _asked_word(option, value, home) for option, value in (("", source), *choices.pairs())
        )
    if not source.asked:
        return ()
    kept = [
        each
        if each.sha256 == "" or os.path.isabs(each.value)
        else replace(
            each, value=os.path.relpath(os.path.join(source.home, each.value), _real(home))
        )
        for each in source.asked
        if each.option in ("", BuildChoices.passes.flag, *FLAGS)
    ]
    rest = replace(choices, values=(), data=None).pairs()
    return (*kept, *(AskedWord(value, option) for option, value in rest))


def _asked_word(option: str, value: str, home: Path) -> AskedWord:
    """A file is told by its path from the bundle and by its digest, so that a bundle is the same
    wherever both lie; one that was written from / on, as it was."""
    if option not in ("", *FLAGS) or len(value) > problem.LONGEST_PATH:
        return AskedWord(value, option)
    try:
        digest = _digest(Path(value))
    except OSError:
        return AskedWord(value, option)
    path = value if os.path.isabs(value) else os.path.relpath(os.path.abspath(value), _real(home))
    return AskedWord(path, option, digest)


def _digest(path: Path) -> str:
    """The digest of a file, and of what a model keeps beside it."""
    made = hashlib.sha256(read_regular(path))
    if path.suffix == ".onnx":
        from simgen.frontend.importing import model_file

        with contextlib.suppress(ConfigError, MissingError):  # no model: then it has none
            for each in model_file.outside(path):
                with open_regular(each) as file:
                    made.update(hashlib.file_digest(file, "sha256").digest())
    return made.hexdigest()


def _real(home: Path) -> str:
    return os.path.realpath(home)


def words(bundle: Bundle) -> list[str]:
    """The words of `simgen build` that the bundle was asked for with, but targets and folder.

    Raises:
        UsageError: an earlier version built it, which did not keep them; or a file has changed.
        DamagedError: the manifest does not say it.
    """
    made: list[str] = []
    found = _kept_words(bundle)
    if not found:
        raise UsageError(f"{bundle.path}: nothing tells what it was built from; keep its config")
    for each in found:
        value = each.value
        if each.sha256:
            value = os.path.normpath(os.path.join(_real(bundle.path), value))
            try:
                same = _digest(Path(value)) == each.sha256
            except OSError:
                same = False
            from simgen.frontend import own_kernel

            text = bundle.manifest.get(TEXT)
            beside, place = "", Path(value).parent
            if same and not each.option and type(text) is str and own_kernel.is_one(text):
                beside = own_kernel.changed(text, place)
            value = value if os.path.isabs(each.value) else os.path.relpath(value)
            if not same or beside:
                fact = "is not any more what it was built from"
                other = os.path.join(os.path.dirname(value), beside) if beside else value
                raise UsageError(f"{bundle.path}: {printable(other)} {fact}")
        made += [each.option] if each.option else []
        made += [value] if value or not each.option else []
    return made


def _kept_words(bundle: Bundle) -> tuple[AskedWord, ...]:
    try:
        return schema.from_json(tuple[AskedWord, ...], bundle.manifest.get(ASKED, []))
    except SchemaError as error:
        place = bundle.path / folder.MANIFEST
        raise DamagedError(f"{place}: damaged ({error}); build it again") from None
