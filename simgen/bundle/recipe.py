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

from simgen import __version__
from simgen.bundle import folder
from simgen.errors import ConfigError, DamagedError, MissingError, UsageError, one_line, printable
from simgen.frontend import config, own_kernel, problem
from simgen.ir import Pass
from simgen.storage import schema
from simgen.storage.files import open_regular, read_regular
from simgen.storage.schema import SchemaError, Sized
from simgen.tensors import exact_values

if TYPE_CHECKING:
    from simgen.bundle.folder import Bundle
    from simgen.frontend.problem import Problem

# How the choices are written on the command line.
OPTIONS = {
    "layers": "--layers",
    "algorithm": "--algo",
    "type": "--type",
    "rate": "--rate",
    "loss_scale": "--loss-scale",
    "optimizer": "--optimizer",
    "loss": "--loss",
    "steps": "--steps",
    "plan_for": "--plan-for",
    "matrix": "--matrix",
    "layout": "--layout",
    "queues": "--queues",
}
CHOICES = {"passes": "--pass", "data": "--data", "scale_to": "--scale-to"}
FILES = ("--values", "--data")  # may name files
PHASES = {True: "--inference", False: "--training"}
CONFIG, TEXT, ASKED = "config", "config_text", "asked"  # in the manifest
# Choices that it keeps as they are; those that are None are left out.
PLAIN = (
    "layers", "algorithm", "rate", "loss_scale", "inference", "fuse", "reuse_memory", "plan_for",
    "matrix", "layout", "loss", "optimizer", "steps", "queues",
)  # fmt: skip


@dataclass(frozen=True)
class Choices:
    """What is done with a problem; None and empty: as the problem or its config says."""

    settings: tuple[tuple[str, str], ...] = ()  # keys of the config or $VARIABLES, and values
    passes: str | None = None  # with commas between them
    layers: str | None = None
    algorithm: str | None = None
    type: str | None = None  # of elements
    rate: float | None = None
    loss_scale: float | None = None
    inference: bool | None = None
    fuse: bool = False
    reuse_memory: bool = False
    values: tuple[str, ...] = ()  # files, or `exact`
    of_values: frozenset[str] | None = None  # tensors that are taken of these files; None: all
    seed: int = 0
    plan_for: str | None = None  # a machine; None: that of the targets
    matrix: str | None = None  # its matrix instructions: yes, no, auto; None: as it says
    layout: str | None = None  # storage format of images
    loss: str | None = None  # that the network ends in; None: that of training
    optimizer: str | None = None  # of pass sgd, with its settings
    steps: int | None = None  # of training
    queues: int | None = None  # that run steps at once
    data: str | None = None  # a file of samples; recipes have its values, in data.h5
    scale_to: float | None = None  # operations at most; recipes have what came of it


@dataclass(frozen=True)
class Asked:
    """A word of the command that a bundle was built with, or an option with its value."""

    value: Annotated[str, Sized(0, 100_000)]
    option: Annotated[str, Sized(0, 100)] = ""  # empty: the workload
    sha256: Annotated[str, Sized(0, 64)] = ""  # of a file, whose path from the bundle it is


@dataclass(frozen=True)
class Recipe:
    """A problem that is found again, and what was done with it."""

    name: str
    source: str
    text: str
    passes: tuple[Pass, ...]
    choices: Choices
    constants: tuple[str, ...] = ()  # inputs that a model fixes
    asked: tuple[Asked, ...] = ()  # of the bundle, which is `home`
    home: str = ""

    @property
    def gives_values(self) -> bool:
        """Whether it has values of a user's own, beside what a model fixes."""
        return bool((self.choices.of_values or frozenset()).difference(self.constants))

    def problem(self, choices: Choices) -> Problem:
        """The problem with the settings and the type of these choices.

        Raises:
            ConfigError: the text is no config, or a variable has no value.
        """
        kept = (self.name, self.text, self.source)
        return problem.again(*kept, choices.settings, self.passes, choices.type)


@dataclass(frozen=True)
class KeptChoices:
    """The manifest's entry CONFIG."""

    source: Annotated[str, Sized(0, 1000)]
    settings: tuple[str, ...]
    passes: Annotated[tuple[Pass, ...], Sized(1, len(Pass))]
    reuse_memory: bool
    fuse: bool
    layers: str | None = None
    algorithm: str | None = None
    type: str | None = None
    rate: float | None = None
    loss_scale: float | None = None
    inference: bool | None = None
    plan_for: str | None = None
    matrix: str | None = None
    layout: str | None = None
    loss: str | None = None
    optimizer: str | None = None
    steps: int | None = None
    queues: int | None = None
    exact: bool = False  # whole numbers as values
    constants: tuple[str, ...] = ()  # inputs that a model fixes


def kept(found: Problem, choices: Choices, constants: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the manifest says of where the workload comes from; a model fixes the `constants`."""
    sections = [
        [section.name, [(entry.key, entry.value) for entry in section.entries]]
        for section in found.config.sections
    ]
    chosen = {
        **{name: getattr(choices, name) for name in PLAIN},
        "type": found.dtype,
        "exact": exact_values.WORD in choices.values or None,
        "constants": list(constants) or None,
    }
    return {
        "simgen": __version__,
        CONFIG: {
            "source": one_line(os.path.basename(found.config.source)),
            "sha256": hashlib.sha256(json.dumps(sections).encode()).hexdigest(),
            "settings": [f"{key}={value}" for key, value in dict(choices.settings).items()],
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
        found = schema.from_json(KeptChoices, bundle.manifest[CONFIG], more=True)
        if type(text) is not str or len(text) > config.MAX_NBYTES:
            raise SchemaError("not a text").under(TEXT)
    except SchemaError as error:
        place = bundle.path / folder.MANIFEST
        raise DamagedError(f"{place}: damaged ({error}); build it again") from None
    own = frozenset(each.name for each in bundle.workload.inputs if each.values is not None)
    choices = Choices(
        settings=tuple((k, v) for k, _, v in (each.partition("=") for each in found.settings)),
        type=found.type,
        values=(str(bundle.path / folder.DATA),) if own else (),
        of_values=own or None,
        seed=bundle.workload.seed,
        **{name: getattr(found, name) for name in PLAIN},
    )
    if found.exact:
        choices = replace(choices, values=(*choices.values, exact_values.WORD))
    kept, home = _kept_words(bundle), _real(bundle.path)
    name = bundle.workload.name
    return Recipe(name, found.source, text, found.passes, choices, found.constants, kept, home)


def options(choices: Choices) -> list[tuple[str, str]]:
    """(option, value) of a `simgen build` with these choices; of a flag, the value is empty.

    Those of one setting come once, with the last value, which is what counts.
    """
    made = [("--set", f"{key}={value}") for key, value in dict(choices.settings).items()]
    made += [(PHASES[choices.inference], "")] if choices.inference is not None else []
    made += [("--fuse", "")] if choices.fuse else []
    made += [("--reuse-memory", "")] if choices.reuse_memory else []
    for name, option in {**CHOICES, **OPTIONS}.items():
        value = getattr(choices, name)
        made += [(option, str(value))] if value is not None else []
    made += [("--values", word) for word in choices.values]
    made += [("--seed", str(choices.seed))] if choices.seed else []
    return made


def asked(source: str | Recipe, choices: Choices, home: Path) -> tuple[Asked, ...]:
    """What the manifest of the bundle at `home` keeps of the command that builds it.

    A bundle that is made of another's recipe is asked for as that one, with other choices; empty
    where nobody knows how that was.
    """
    if isinstance(source, str):
        return tuple(
            _asked(option, value, home) for option, value in (("", source), *options(choices))
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
        if each.option in ("", "--pass", *FILES)
    ]
    rest = options(replace(choices, values=(), data=None))
    return (*kept, *(Asked(value, option) for option, value in rest))


def _asked(option: str, value: str, home: Path) -> Asked:
    """A file is told by its path from the bundle and by its digest, so that a bundle is the same
    wherever both lie; one that was written from / on, as it was."""
    if option not in ("", *FILES) or len(value) > problem.LONGEST_PATH:
        return Asked(value, option)
    try:
        digest = _digest(Path(value))
    except OSError:
        return Asked(value, option)
    path = value if os.path.isabs(value) else os.path.relpath(os.path.abspath(value), _real(home))
    return Asked(path, option, digest)


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


def _kept_words(bundle: Bundle) -> tuple[Asked, ...]:
    try:
        return schema.from_json(tuple[Asked, ...], bundle.manifest.get(ASKED, []))
    except SchemaError as error:
        place = bundle.path / folder.MANIFEST
        raise DamagedError(f"{place}: damaged ({error}); build it again") from None
