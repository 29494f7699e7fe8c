"""Options that several commands share, and what they mean."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shlex
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simgen import __version__
from simgen.commands.numbers import SEED, Real, Whole
from simgen.errors import UsageError, did_you_mean, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from simgen.ir import Pass, Workload
    from simgen.layers.base import Phase
    from simgen.network import Network
    from simgen.problem import Problem
    from simgen.targets import Target
    from simgen.targets.base import RunOption

DEFAULT_TARGETS = ("gem5-se", "host")
RATE = 0.01  # learning rate
# What is done with a network, and how that is written on the command line.
CHOICES = {"passes": "--pass", "layers": "--layers", "algorithm": "--algo", "rate": "--rate"}
PHASE = {True: "--inference", False: "--training"}


class Commands(click.Group):
    """A group that knows what a mistyped command might have been, and lists in its own order."""

    def __init__(self, *args: Any, **options: Any) -> None:
        # Without a command: an error of one line, as every other one.
        super().__init__(*args, **{**options, "no_args_is_help": False})

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None:
            raise UsageError(
                f"command {args[0]!r}: unknown; {did_you_mean(args[0], self.commands)}"
            )
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class BuildCommand(click.Command):
    """A command with an option for each setting of each target."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        made: dict[str, click.Option] = {}
        for name, (targets, each) in target_settings().items():
            text = f"{', '.join(targets)}: {each.metadata['help']}"
            if isinstance(each.default, bool):
                flag = spelling(name, not each.default)
                made[name] = click.Option(
                    [flag, name], is_flag=True, flag_value=not each.default, default=None, help=text
                )
            else:
                values = _of_each(name, targets, lambda f: ", ".join(f.metadata["choices"]))
                text += f": {values}" if values else ""
                text += f" [default: {_of_each(name, targets, lambda f: str(f.default))}]"
                kind = type(each.default)
                made[name] = click.Option([spelling(name), name], type=kind, metavar="V", help=text)
        own = super().get_params(ctx)
        return [*own[:-1], *made.values(), own[-1]]  # --help stays last


class RunCommand(click.Command):
    """A command with the run options of all targets."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        from simgen.targets import TARGETS

        found: dict[str, dict[str, list[str]]] = {}  # option -> what it does -> where
        kinds: dict[str, RunOption] = {}
        for target in TARGETS.values():
            for name, option in target.run_options.items():
                found.setdefault(name, {}).setdefault(option.text, []).append(target.name)
                kinds[name] = option
        made = {
            name: click.Option(
                [spelling(name), name],
                help="; ".join(f"{', '.join(where)}: {text}" for text, where in texts.items()),
                **_kind(kinds[name]),
            )
            for name, texts in found.items()
        }
        own = super().get_params(ctx)
        return [*own[:-1], *made.values(), own[-1]]


def _kind(option: RunOption) -> dict[str, Any]:
    """What click has to know of an option's values."""
    if option.choices:
        return {"type": click.Choice(option.choices)}
    if not option.pattern:
        return {"type": Whole(option.least), "metavar": "N"}

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        try:
            return value if value is None else str(option.read(value))
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return {"type": str, "callback": check}


def target_settings() -> dict[str, tuple[list[str], Field[Any]]]:
    """Name of a setting -> the targets that have it, and its field in the first of them."""
    from simgen.targets import TARGETS

    found: dict[str, tuple[list[str], Field[Any]]] = {}
    for target in TARGETS.values():
        for each in fields(target):
            found.setdefault(each.name, ([], each))[0].append(target.name)
    return found


def _of_each(name: str, targets: list[str], what: Callable[[Field[Any]], str]) -> str:
    """What a setting has, or what it has in each target where they differ."""
    from simgen.targets import TARGETS

    values = {t: what(f) for t in targets for f in fields(TARGETS[t]) if f.name == name}
    if len(set(values.values())) == 1:
        return values[targets[0]]
    return "; ".join(f"{value} for {target}" for target, value in values.items())


def spelling(name: str, value: object = None) -> str:
    """How a setting is written on the command line; `--no-...` for a flag that is off."""
    return f"--{'no-' if value is False else ''}{name.replace('_', '-')}"


def given_settings(given: dict[str, Any]) -> dict[str, Any]:
    """The targets' settings that the user gave."""
    return {name: given[name] for name in target_settings() if given.get(name) is not None}


def verbosity(command: Callable[..., Any]) -> Callable[..., Any]:
    """-q and -v, the same on every command that prints."""
    quiet = click.option("-q", "--quiet", is_flag=True, help="Print errors and results only.")
    verbose = click.option("-v", "--verbose", is_flag=True, help="Print more.")
    return quiet(verbose(command))


WORKLOAD_OPTIONS = (  # what names a workload, for `build` and `show`
    click.argument("workload"),
    click.option(
        "--target",
        "-t",
        "targets",
        multiple=True,
        metavar="T",
        help="A target; may be given again. [default: gem5-se and host]",
    ),
    click.option(
        "--output",
        "-o",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The bundle. [default: ./WORKLOAD]",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="K=V",
        help="A config key (n=4; in a network conv1.n=4) or a $VARIABLE of a template.",
    ),
    click.option(
        "--pass",
        "passes",
        metavar="P",
        help="Of a network: fwd, bwd, sgd (weight update), or several: fwd,bwd. [default: fwd]",
    ),
    click.option(
        "--layers",
        metavar="L",
        help="A slice of a network: conv1..pool1, or layers with commas between them.",
    ),
    click.option(
        "--algo",
        "algorithm",
        metavar="A",
        help="The algorithm of all layers that have a choice; see `simgen list algorithms`.",
    ),
    click.option(
        "--rate",
        type=Real(0),
        metavar="R",
        help=f"Learning rate of pass sgd. [default: {RATE}]",
    ),
    click.option(
        "--inference/--training",
        "inference",
        default=None,
        help="Of a network: inference has batch normalisation with running statistics and no "
        "dropout; training has statistics of the batch and passes fwd,bwd,sgd unless --pass says "
        "otherwise. [default: as the config says]",
    ),
    click.option(
        "--fuse",
        is_flag=True,
        help="Of pass fwd: conv and fc do in one kernel what follows them (bn, activation).",
    ),
    click.option(
        "--reuse-memory",
        is_flag=True,
        help="Of pass fwd: a tensor's place is used again after its last reader.",
    ),
    click.option(
        "--values",
        multiple=True,
        metavar="FILE",
        help="Your own values of inputs (.npz, .npy, HDF5), each named as in data.h5; or `exact`: "
        "whole numbers of which sums are not rounded.",
    ),
    click.option(
        "--seed",
        type=SEED,
        metavar="N",
        default=0,
        show_default=True,
        help="Of the random inputs.",
    ),
)


def workload_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All of WORKLOAD_OPTIONS, in their order."""
    for option in reversed(WORKLOAD_OPTIONS):
        command = option(command)
    return command


class Plan:
    """What `build` and `show` make of their options."""

    def __init__(self, given: dict[str, Any]) -> None:
        from simgen import fuse, network, problem
        from simgen.ir import Pass
        from simgen.layers.base import Phase

        self.given = given
        phase = _phase(given["inference"])
        step = (Pass.FORWARD, Pass.BACKWARD, Pass.UPDATE)
        usual = step if phase is Phase.TRAINING else (Pass.FORWARD,)
        self.problem: Problem = problem.find(
            given["workload"], _settings(given["settings"]), _passes(given["passes"]), usual
        )
        if phase is Phase.INFERENCE and set(self.problem.passes) != {Pass.FORWARD}:
            raise UsageError(
                "--inference: is pass fwd alone; leave it out, or set batchnorm_statistics=running "
                "of the layers that are to be frozen in training"
            )
        self.network: Network = network.resolve(
            self.problem.config,
            self.problem.settings,
            algorithm=given["algorithm"],
            layers=given["layers"],
            phase=phase,
        )
        if given["rate"] is not None and Pass.UPDATE not in self.problem.passes:
            raise UsageError("--rate: no weights are updated; add sgd to --pass, or leave it out")
        if given["fuse"]:
            self.network = fuse.fuse(self.network, self.problem.passes)
        self.output: Path = given["output"] or Path(self.problem.name)
        self.targets = _targets(given)

    @functools.cached_property
    def workload(self) -> Workload:
        """Lowered on first use: `show` prints layers also where not all can be lowered."""
        from simgen import own_values

        return own_values.given(self._lowered, self.values) if self.values else self._lowered

    @functools.cached_property
    def values(self) -> dict[str, NDArray[Any]]:
        """The user's own values of inputs."""
        from simgen import exact_values, own_values

        paths = [Path(word) for word in self.given["values"] if word != exact_values.WORD]
        return own_values.read(paths, self._lowered) if paths else {}

    @functools.cached_property
    def _lowered(self) -> Workload:
        from simgen import exact_values
        from simgen import workload as workloads

        rate = self.given["rate"]
        made = workloads.lower(
            self.network,
            self.problem.name,
            self.problem.passes,
            self.given["seed"],
            rate=RATE if rate is None else rate,
            reuse_memory=self.given["reuse_memory"],
        )
        return exact_values.given(made) if exact_values.WORD in self.given["values"] else made

    def provenance(self) -> dict[str, Any]:
        sections = [
            [section.name, [(entry.key, entry.value) for entry in section.entries]]
            for section in self.problem.config.sections
        ]
        text = json.dumps(sections)
        return {
            "simgen": __version__,
            "config": {
                "source": one_line(os.path.basename(self.problem.config.source)),
                "sha256": hashlib.sha256(text.encode()).hexdigest(),
                "settings": list(self.given["settings"]),
                "reuse_memory": self.given["reuse_memory"],
                "fuse": self.given["fuse"],
                **{n: v for n in (*CHOICES, "inference") if (v := self.given[n]) is not None},
                "passes": [str(p) for p in self.problem.passes],
            },
        }

    def reproduce(self) -> str:
        """The command again, with the options that are not at their defaults."""
        words = ["simgen", "build", self.given["workload"]]
        for name in self.given["targets"]:
            words += ["--target", name]
        for name, value in given_settings(self.given).items():
            words += [spelling(name, value), *([] if isinstance(value, bool) else [str(value)])]
        for setting in self.given["settings"]:
            words += ["--set", setting]
        if self.given["inference"] is not None:
            words.append(PHASE[self.given["inference"]])
        words += ["--fuse"] if self.given["fuse"] else []
        words += ["--reuse-memory"] if self.given["reuse_memory"] else []
        for name, option in CHOICES.items():
            if self.given[name] is not None:
                words += [option, str(self.given[name])]
        for word in self.given["values"]:
            words += ["--values", word]
        if self.given["seed"]:
            words += ["--seed", str(self.given["seed"])]
        if self.given["output"]:
            words += ["-o", str(self.given["output"])]
        return shlex.join(words)


def _settings(texts: Sequence[str]) -> list[tuple[str, str]]:
    settings = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set {text!r}: no setting; write KEY=VALUE, such as n=4")
        settings.append((key.strip(), value.strip()))
    return settings


def _passes(text: str | None) -> list[Pass] | None:
    from simgen.ir import Pass

    if text is None:
        return None
    for word in text.split(","):
        if word not in set(Pass):
            raise UsageError(f"--pass {word!r}: no such pass; {did_you_mean(word, list(Pass))}")
    return [Pass(word) for word in text.split(",")]


def _phase(inference: bool | None) -> Phase | None:
    """What --inference and --training say."""
    from simgen.layers.base import Phase

    return None if inference is None else Phase.INFERENCE if inference else Phase.TRAINING


def _listed(names: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def _targets(given: dict[str, Any]) -> list[Target]:
    """The targets with the options that they have; an option that none of them has is an error."""
    from simgen.targets import TARGETS

    for name in given["targets"]:
        if name not in TARGETS:
            raise UsageError(f"--target {name!r}: no such target; {did_you_mean(name, TARGETS)}")
    names = tuple(dict.fromkeys(given["targets"])) or DEFAULT_TARGETS
    options = given_settings(given)
    known = {name: {f.name for f in fields(TARGETS[name])} for name in names}
    for option, value in options.items():
        if not any(option in of_target for of_target in known.values()):
            having = target_settings()[option][0]
            raise UsageError(
                f"{spelling(option, value)}: no option of {_listed(names)}; "
                f"it belongs to {_listed(having)}"
            )
    return [
        TARGETS[name](**{k: v for k, v in options.items() if k in known[name]}) for name in names
    ]
