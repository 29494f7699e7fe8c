"""What a bundle was planned from, as its manifest keeps it: the text of the config and the choices.

So it can be planned again with other choices, as the points of a sweep are, without the file that
it was made from.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from simgen import __version__
from simgen.bundle import folder
from simgen.errors import DamagedError, UsageError, one_line
from simgen.frontend import config, problem
from simgen.ir import Pass
from simgen.storage import schema
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
PHASES = {True: "--inference", False: "--training"}
CONFIG, TEXT = "config", "config_text"  # in the manifest
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
class Recipe:
    """A problem that is found again, and what was done with it."""

    name: str
    source: str
    text: str
    passes: tuple[Pass, ...]
    choices: Choices
    constants: tuple[str, ...] = ()  # inputs that a model fixes

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
            "settings": [f"{key}={value}" for key, value in choices.settings],
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
    name = bundle.workload.name
    return Recipe(name, found.source, text, found.passes, choices, found.constants)


def command(bundle: Bundle) -> list[str]:
    """The words of a `simgen build` that makes the bundle again, for all of its targets.

    Raises:
        UsageError: it had a problem, values or a version that no such words name.
    """
    made = of_bundle(bundle)
    chosen = made.choices
    names = (made.name, made.name.rpartition("_")[0])
    known = made.name in problem.built_in() and made.source in (
        f"{made.name}.dnnmark",
        *(f"{config.BUILT_IN} {name}" for name in names),
    )
    if made.gives_values or (not known and made.source.startswith(config.BUILT_IN)):
        raise UsageError(f"{bundle.path}: no words name what it was built from; keep its config")
    words = ["simgen", "build", made.name if known else made.source]
    for target in bundle.targets:
        words += ["--target", target]
    for key, value in chosen.settings:
        words += ["--set", f"{key}={value}"]
    if not known or made.source.endswith(".dnnmark"):
        words += ["--pass", ",".join(made.passes)]
    for name, option in OPTIONS.items():
        value = getattr(chosen, name)
        words += [option, str(value)] if value is not None else []
    words += [PHASES[chosen.inference]] if chosen.inference is not None else []
    words += ["--fuse"] if chosen.fuse else []
    words += ["--reuse-memory"] if chosen.reuse_memory else []
    words += ["--values", exact_values.WORD] if exact_values.WORD in chosen.values else []
    words += ["--seed", str(chosen.seed)] if chosen.seed else []
    return [*words, "-o", str(bundle.path)]
