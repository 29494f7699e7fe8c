"""Options that several commands share, and what they mean."""

from __future__ import annotations

import functools
import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simgen.cli import completing
from simgen.cli.numbers import SEED, Real, Whole
from simgen.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from dataclasses import Field

    from simgen.bundle.planning import Choices, Plan
    from simgen.bundle.writing import Bundle
    from simgen.targets import Target
    from simgen.targets.base import RunOption


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
        from simgen.bundle.planning import spelling, target_settings

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
                kind = Whole() if isinstance(each.default, int) else type(each.default)
                made[name] = click.Option(
                    [spelling(name), name],
                    type=kind,
                    metavar="V",
                    help=text,
                    shell_complete=completing.of(functools.partial(_choices, name)),
                )
        own = super().get_params(ctx)
        return [*own[:-1], *made.values(), own[-1]]  # --help stays last


class RunCommand(click.Command):
    """A command with the run options of all targets."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        from simgen.bundle.planning import spelling
        from simgen.targets import TARGETS

        found: dict[str, dict[str, list[str]]] = {}  # option -> what it does -> where
        kinds: dict[str, RunOption] = {}
        for target in TARGETS.values():
            for name, option in target.run_options.items():
                found.setdefault(name, {}).setdefault(option.told, []).append(target.name)
                # Words of any target: whether they are the run's own, `running.choose` looks.
                words = kinds[name].choices if name in kinds else ()
                kinds[name] = replace(
                    option, choices=tuple(dict.fromkeys((*words, *option.choices)))
                )
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
    if option.several:

        def join(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
            try:
                return "\n".join(str(option.read(each)) for each in values) or None
            except ValueError as error:
                raise click.BadParameter(str(error), ctx, param) from None

        return {"type": str, "multiple": True, "metavar": "ARG", "callback": join}

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        try:
            return value if value is None else str(option.read(value))
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return {"type": str, "callback": check}


def _of_each(name: str, targets: list[str], what: Callable[[Field[Any]], str]) -> str:
    """What a setting has, or what it has in each target where they differ."""
    from simgen.targets import TARGETS

    values = {t: what(f) for t in targets for f in fields(TARGETS[t]) if f.name == name}
    if len(set(values.values())) == 1:
        return values[targets[0]]
    return "; ".join(f"{value} for {target}" for target, value in values.items())


def _choices(name: str, ctx: click.Context) -> list[str]:
    """The values of a target's setting, of the targets that are written before or of all."""
    from simgen.targets import TARGETS

    wanted = ctx.params.get("targets") or TARGETS
    found = [f for t in wanted if t in TARGETS for f in fields(TARGETS[t]) if f.name == name]
    return list(dict.fromkeys(value for f in found for value in f.metadata.get("choices", ())))


def given_settings(given: dict[str, Any]) -> dict[str, Any]:
    """The targets' settings that the user gave."""
    from simgen.bundle.planning import target_settings

    return {name: given[name] for name in target_settings() if given.get(name) is not None}


def verbosity(command: Callable[..., Any]) -> Callable[..., Any]:
    """-q and -v, the same on every command that prints."""
    quiet = click.option("-q", "--quiet", is_flag=True, help="Print only errors and results.")
    verbose = click.option("-v", "--verbose", is_flag=True, help="Print more details.")
    return quiet(verbose(command))


def folder_of_page(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """The folder that a page is written to; one with the name of a page is a mistake."""
    if value is not None and value.suffix in (".html", ".htm"):
        fact = f"-o {str(value)!r}: the page, and more, is written to a folder"
        raise UsageError(f"{fact}; write -o {shlex.quote(str(value.with_suffix('')))}")
    return value


def _each_word(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """The words of values that may be lists with commas."""
    return tuple(word.strip() for value in values for word in value.split(","))


WORKLOAD_OPTIONS = (  # what names a workload, for `build` and `show`
    click.argument("workload", shell_complete=completing.workload),
    click.option(
        "--target",
        "-t",
        "targets",
        multiple=True,
        metavar="T",
        callback=_each_word,
        shell_complete=completing.build_targets,
        help="A target, or several with commas between them; may be repeated. [default: gem5-se "
        "and host]",
    ),
    click.option(
        "--output",
        "-o",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The folder of the bundle. [default: ./WORKLOAD]",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="K=V",
        shell_complete=completing.settings,
        help="Set a config key (n=4; in a network, conv1.n=4) or a $VARIABLE of a template; may be "
        "repeated.",
    ),
    click.option(
        "--pass",
        "passes",
        metavar="P",
        shell_complete=completing.passes,
        help="Passes of a network: fwd, bwd, sgd (parameter update), or several, such as fwd,bwd. "
        "[default: fwd]",
    ),
    click.option(
        "--layers",
        metavar="L",
        shell_complete=completing.layers,
        help="A slice of a network: conv1..pool1, or layers separated by commas.",
    ),
    click.option(
        "--algo",
        "algorithm",
        metavar="A",
        shell_complete=completing.algorithms,
        help="The algorithm of all layers that have a choice; see `simgen list algorithms`.",
    ),
    click.option(
        "--type",
        "type",
        metavar="T",
        shell_complete=completing.types,
        help="The type of the input's elements, as f16 or bf16; of a layer: --set conv1.type=T. "
        "[default: f32]",
    ),
    click.option(
        "--rate",
        type=Real(0),
        metavar="R",
        help="Learning rate of pass sgd. [default: 0.01; of adam 0.001]",
    ),
    click.option(
        "--loss-scale",
        type=Real(2.0**-24, 2.0**24),
        metavar="S",
        help="Multiply the gradients that the backward pass begins with, and divide steps of pass "
        "sgd by the same: small gradients then do not vanish in f16. [default: 1]",
    ),
    click.option(
        "--optimizer",
        metavar="O",
        help="What pass sgd does: sgd, adam or adamw, with settings behind it: "
        "sgd,momentum=0.9,weight_decay=5e-4,nesterov=true. [default: sgd]",
    ),
    click.option(
        "--loss",
        metavar="L",
        help="The loss that the network ends in: cross_entropy, squared_error, or none. [default: "
        "with --training, cross_entropy in the place of a last softmax]",
    ),
    click.option(
        "--steps",
        type=Whole(1, 10_000),
        metavar="N",
        help="Training steps, each with the parameters that the one before left, and with a batch "
        "and labels of its own. [default: 1]",
    ),
    click.option(
        "--inference/--training",
        "inference",
        default=None,
        help="For the whole network: in inference, batch normalisation uses running statistics and "
        "there is no dropout; in training, it uses those of the batch, and the passes are "
        "fwd,bwd,sgd unless --pass names others. [default: as the config says]",
    ),
    click.option(
        "--fuse",
        is_flag=True,
        help="Merge batch normalisation and activations into the kernel of the convolution or "
        "fully connected layer before them; pass fwd only.",
    ),
    click.option(
        "--reuse-memory",
        is_flag=True,
        help="Give a tensor's memory to later ones after its last use; pass fwd only.",
    ),
    click.option(
        "--values",
        multiple=True,
        metavar="FILE",
        help="Input values of your own: a .npz, .npy or HDF5 file whose arrays are named as in "
        "data.h5; may be repeated. The word `exact` draws whole numbers whose sums are not "
        "rounded, and `model` takes the parameters of the ONNX model that is built.",
    ),
    click.option(
        "--data",
        metavar="FILE",
        help="Samples for inputs and labels: images of MNIST or CIFAR-10 in their binary formats, "
        "a text, or pairs of sentences with tabs between them; or what comes with simgen: "
        "digits-images-idx3-ubyte.gz, words.txt.",
    ),
    click.option(
        "--plan-for",
        metavar="M",
        shell_complete=completing.machines,
        help="The machine to choose tiles, splits and algorithms for, of `simgen list machines`; "
        "with other hardware: gem5-gfx902,num_compute_units=16. [default: that of the first "
        "simulated target, or of the GPU; a bundle keeps its own]",
    ),
    click.option(
        "--scale-to",
        type=Real(1),
        metavar="OPS",
        help="Make a product, convolution or recurrent layer smaller until it has at most so many "
        "operations, as 2e7, and keep what its kernels meet: remainders of tiles, operations per "
        "byte, work-groups per unit. `simgen show` says what became of it.",
    ),
    click.option(
        "--matrix",
        type=click.Choice(("auto", "yes", "no", "tf32")),
        help="Whether the machine's matrix instructions multiply: auto where that pays, and of f32 "
        "nowhere; tf32 so, but products of f32 too, cut off to 11 bits. [default: auto]",
    ),
    click.option(
        "--layout",
        metavar="F",
        help="The storage format of images, nchw or nhwc, of a convolution by itself; filters have "
        "--set filter_layout=krsc. Where kernels want another, launches convert. [default: nchw]",
    ),
    click.option(
        "--queues",
        type=Whole(1, 8),
        metavar="N",
        help="Run layers and passes that do not depend on each other at once, in so many queues: "
        "CUDA streams, command queues of MGPUSim's timing model, AQL queues of gem5. [default: 1]",
    ),
    click.option(
        "--seed",
        type=SEED,
        metavar="N",
        default=0,
        show_default=True,
        help="Seed of the random inputs.",
    ),
)


def workload_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All of WORKLOAD_OPTIONS, in their order."""
    for option in reversed(WORKLOAD_OPTIONS):
        command = option(command)
    return command


def _chosen(given: dict[str, Any]) -> Choices:
    """What the options of WORKLOAD_OPTIONS choose."""
    from simgen.bundle.planning import Choices

    return Choices(
        settings=settings_given(given["settings"]),
        passes=given["passes"],
        layers=given["layers"],
        algorithm=given["algorithm"],
        type=given["type"],
        rate=given["rate"],
        loss_scale=given["loss_scale"],
        optimizer=given["optimizer"],
        loss=given["loss"],
        steps=given["steps"],
        inference=given["inference"],
        fuse=given["fuse"],
        reuse_memory=given["reuse_memory"],
        values=tuple(given["values"]),
        data=given["data"],
        seed=given["seed"],
        plan_for=given["plan_for"],
        scale_to=given["scale_to"],
        matrix=given["matrix"],
        layout=given["layout"],
        queues=given["queues"],
    )


def planned(given: dict[str, Any]) -> tuple[Plan, Path, list[Target]]:
    """What the options of WORKLOAD_OPTIONS ask for: the plan, where it goes, its targets."""
    from simgen.bundle.planning import Plan, chosen_targets

    targets = chosen_targets(given["targets"], given_settings(given))
    plan = Plan(given["workload"], _chosen(given), targets)
    output: Path = given["output"] or Path(plan.problem.name)
    return plan, output, targets


def reproduce(given: dict[str, Any], made: Bundle | None = None) -> str:
    """The command again, with the options that are not at their defaults, and the machine that it
    was planned for, where that follows from what was there before."""
    from simgen.bundle import commands, recipe
    from simgen.bundle.planning import chosen_targets

    settings = given_settings(given)
    words = ["simgen", "build", given["workload"], *commands.targets(given["targets"], settings)]
    asked = [word for pair in recipe.options(_chosen(given)) for word in pair if word]
    words += asked
    if made is not None:
        words += commands.planned_for(made, asked, chosen_targets(given["targets"], settings))
    if given["output"]:
        words += ["-o", str(given["output"])]
    return shlex.join(words)


def settings_given(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    settings = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set {text!r}: not a setting; write KEY=VALUE, such as n=4")
        settings.append((key.strip(), value.strip(" \t")))
    return tuple(settings)
