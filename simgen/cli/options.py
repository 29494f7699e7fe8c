"""Options that several commands share, and what they mean."""

from __future__ import annotations

import functools
import shlex
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from simgen.ask.build import BuildChoices, Destination
from simgen.ask.choice import Asked, ChoiceField, choices, option
from simgen.ask.kinds import Flag, Word
from simgen.ask.kinds import Path as FilePath
from simgen.cli import completing, defaults, offered, streams
from simgen.errors import MissingError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.metadata import EntryPoint

    from simgen.bundle.planning import Plan
    from simgen.bundle.writing import Bundle
    from simgen.targets import Target

T = TypeVar("T", bound="Asked")


HELP_ALL = "--help-all"
SUMMARY = 400  # characters of a command's first sentence, which the help shows whole


class Commands(click.Group):
    """A group that knows what a mistyped command might have been, and lists in its own order.

    A command is imported when it is asked for. `below` names those of this room and the module of
    each; what other packages bring are entry points of `simgen.commands`, "NAME" or "GROUP NAME".
    """

    below: Mapping[str, str | None] = {}
    groups: Mapping[str, Sequence[str]] = {}  # title in the help -> commands; the others come last
    unlisted: Mapping[str, str] = {}  # commands that are not shown, as `below`
    moved: Mapping[str, Sequence[str]] = {}  # earlier name -> the words that say it now

    def __init__(self, *args: Any, **options: Any) -> None:
        # Without a command: an error of one line, as every other one.
        super().__init__(*args, **{**options, "no_args_is_help": False})

    def _brought(self) -> dict[str, EntryPoint]:
        from simgen.ground import plugins

        start = "" if self.groups else f"{self.name} "
        found = plugins.named("simgen.commands").items()
        return {
            name.removeprefix(start): entry
            for name, entry in found
            if name.startswith(start) and " " not in name.removeprefix(start)
        }

    def names(self) -> list[str]:
        """All commands, those of other packages last where the help does not give them a place."""
        brought = self._brought()
        own = [name for name, module in self.below.items() if module or name in brought]
        return list(dict.fromkeys([*own, *self.commands, *brought]))

    def all(self) -> dict[str, click.Command]:
        """Name -> command, all of them imported."""
        context = click.Context(self)
        found = {name: self.get_command(context, name) for name in self.names()}
        return {name: each for name, each in found.items() if each}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands:
            made: object = None
            if module := self.below.get(cmd_name) or self.unlisted.get(cmd_name):
                room = import_module(f"simgen.cli.{module}")
                made = getattr(room, cmd_name, None) or getattr(room, f"{cmd_name}_")
            elif entry := self._brought().get(cmd_name):
                made = _loaded(entry)
            if isinstance(made, click.Command):
                self.add_command(made, cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if now := self.moved.get(args[0]):
            words = shlex.join([ctx.command_path, *now])
            print(f"{ctx.command_path} {args[0]}: its name is now {words}", file=sys.stderr)
            args = [*now, *args[1:]]
        if self.get_command(ctx, args[0]) is None:
            raise UsageError(f"command {args[0]!r}: unknown; {did_you_mean(args[0], self.names())}")
        name, command, rest = super().resolve_command(ctx, args)
        if not isinstance(command, (TargetsCommand, Commands)):  # they have more to show
            rest = ["--help" if each == HELP_ALL else each for each in rest]
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = self.all()
        grouped = {name for names in self.groups.values() for name in names}
        groups = dict(self.groups) | {"Commands": [name for name in shown if name not in grouped]}
        for title, names in groups.items():
            rows = [(n, shown[n].get_short_help_str(SUMMARY)) for n in names if n in shown]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_spacing=2)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self.groups and args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        if (self.groups and not args) or args[:1] == [HELP_ALL]:
            args = ["--help"]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return self.names()


def _loaded(entry: EntryPoint) -> click.Command:
    """A command of another package; one that cannot be loaded says so in the help and when run."""
    from simgen.ground import plugins

    try:
        made = plugins.load(entry)
        if isinstance(made, click.Command):
            return made
        raise MissingError(plugins.fault(entry, f"{entry.value} is no command of click"))
    except MissingError as error:
        fault = error

    def tell(**_: object) -> None:
        raise fault

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(entry.name, anything, tell, short_help=str(fault), add_help_option=False)


def _option(names: Sequence[str], text: str, **more: Any) -> click.Option:
    """An option whose values are read by what it is for: there, every front has them read alike."""
    return click.Option(names, help=text, default=None, **more)


def _of_choice(each: ChoiceField[Any, Any]) -> click.Option:
    if isinstance(each.kind, Flag):
        return _option(["/".join(each.flags), each.name], each.help, is_flag=True)
    more: dict[str, Any] = {"metavar": each.kind.metavar, "multiple": each.kind.several}
    if isinstance(each.kind, Word):
        values = each.kind.values
        more["metavar"] = f"[{'|'.join(values)}]"
        more["shell_complete"] = completing.completer(lambda _: values)
    if isinstance(each.kind, FilePath):
        more["shell_complete"] = completing.files
    if each.completes:
        more["shell_complete"] = getattr(completing, each.completes)
    return _option([*each.flags, each.name], each.help, **more)


def asks(*values: type[Asked]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options of these values' choices, in their order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        made = [_of_choice(each) for value in values for each in choices(value) if each.flag]
        command.__click_params__ = [  # type: ignore[attr-defined]  # as click.option does
            *getattr(command, "__click_params__", ()),
            *reversed(made),
        ]
        return command

    return add


def asked(value: type[T], given: Mapping[str, Any], **more: Any) -> T:
    """A value that the options on the command line ask for.

    Raises:
        UsageError: what they have is no value of theirs, or they do not go together.
    """
    names = {each.name for each in choices(value) if each.flag}
    return value(**{name: given[name] for name in names}, **more)


class TargetOption(click.Option):
    """An option that some targets have."""

    targets: Sequence[str] = ()


class TargetsCommand(click.Command):
    """A command with options of targets. The help shows those of the targets that are named on the
    command line; `--help-all` all of them."""

    names = "--on"  # the option that names targets
    words: Sequence[str] = ()

    def brought(self) -> list[click.Option]:
        """The options of all targets."""
        raise NotImplementedError

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        every = click.Option(
            [HELP_ALL],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_help_all,
            help="Show the options of all targets, and exit.",
        )
        return [*own[:-1], *self.brought(), every, own[-1]]  # --help stays last

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        self.words = tuple(args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        pairs = zip(self.words, (*self.words[1:], ""))
        named = [value for flag, value in pairs if flag == self.names]
        named += [w.partition("=")[2] for w in self.words if w.startswith(f"{self.names}=")]
        wanted = {name for text in named for name in text.split(",")}
        shown, left, whole = [], False, HELP_ALL in self.words
        for param in self.get_params(ctx):
            if isinstance(param, TargetOption) and not whole and not wanted & {*param.targets}:
                left = True
            elif record := param.get_help_record(ctx):
                shown.append(record)
        with formatter.section("Options"):
            formatter.write_dl(shown)
        if left:
            formatter.write_paragraph()
            formatter.write_text(
                f"Targets have more options: {ctx.command_path} {self.names} T --help shows those "
                "of the target T."
            )


def _help_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        print(ctx.get_help())
        ctx.exit()


class BuildCommand(TargetsCommand):
    """A command with an option for each setting of each target."""

    names = "--target"

    def brought(self) -> list[click.Option]:
        return [_of_setting(*each) for each in offered.settings().items()]


def _of_target(
    targets: Sequence[str], names: Sequence[str], text: str, **more: Any
) -> click.Option:
    made = TargetOption(names, help=text, default=None, **more)
    made.targets = targets
    return made


def _of_setting(name: str, having: Mapping[str, offered.OfTarget]) -> click.Option:
    first = next(iter(having.values()))
    text, targets = f"{', '.join(having)}: {first.text}", list(having)
    if first.flag is not None:
        more = {"is_flag": True, "flag_value": first.flag}
        return _of_target(targets, [option(name, first.flag), name], text, **more)
    values = _of_each({target: ", ".join(each.words) for target, each in having.items()})
    text += f": {values}" if values else ""
    text += f" [default: {_of_each({t: each.default for t, each in having.items()})}]"
    complete = completing.completer(functools.partial(_choices, having))
    names = [option(name), name]
    return _of_target(targets, names, text, metavar=first.metavar, shell_complete=complete)


class OptionsCommand(TargetsCommand):
    """A command with the run options of all targets."""

    def brought(self) -> list[click.Option]:
        return [_of_run(*each) for each in offered.run_options().items()]


def _of_run(name: str, having: Mapping[str, offered.OfTarget]) -> click.Option:
    """The option of these targets: what it does on each, and the values that it has on any."""
    texts: dict[str, list[str]] = {}
    for target, each in having.items():
        texts.setdefault(each.text, []).append(target)
    text = "; ".join(f"{', '.join(where)}: {told}" for told, where in texts.items())
    last = [*having.values()][-1]
    text += last.range
    words = dict.fromkeys(word for each in having.values() for word in each.words)
    more: dict[str, Any] = {"metavar": last.metavar, "multiple": last.several}
    if words:
        complete = completing.completer(lambda _: words)
        more = {"metavar": f"[{'|'.join(words)}]", "shell_complete": complete}
    return _of_target([*having], [option(name), name], text, **more)


def given_options(options: Mapping[str, Any]) -> dict[str, str]:
    """The run options that were given; those that may be given again, one to a line.

    Raises:
        UsageError: a value is none of its option, whichever target runs.
    """
    from simgen.running import runs

    given = {
        name: "\n".join(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if value is not None and value != ()
    }
    runs.check_options(given)
    return given


def _of_each(values: Mapping[str, str]) -> str:
    """What a setting has, or what it has in each target where they differ."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return "; ".join(f"{value} for {target}" for target, value in values.items())


def _choices(having: Mapping[str, offered.OfTarget], ctx: click.Context) -> list[str]:
    """The values of a target's setting, of the targets that are written before or of all."""
    wanted = ctx.params.get("targets") or having
    return list(dict.fromkeys(word for t in wanted if t in having for word in having[t].words))


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


def planned(given: dict[str, Any]) -> tuple[Plan, Path, list[Target]]:
    """What the options of a build ask for: the plan, where it goes, its targets."""
    from simgen.bundle.planning import Plan, chosen_targets

    defaults.of_build(given)
    where = asked(Destination, given)
    targets = chosen_targets(where.targets, given_settings(given))
    if where.output == streams.STREAM:
        raise UsageError(f"{Destination.output} -: a bundle is a folder, and no stream; name one")
    given["workload"] = streams.read(given["workload"], ".dnnmark")
    plan = Plan(given["workload"], asked(BuildChoices, given), targets)
    return plan, Path(where.output or plan.problem.name), targets


def reproduce(given: dict[str, Any], made: Bundle | None = None, **changed: Any) -> str:
    """The command again, with the options that are not at their defaults, and the machine that it
    was planned for, where that follows from what was there before."""
    from simgen.bundle import commands
    from simgen.bundle.planning import chosen_targets

    given = {**given, **changed}
    where, settings = asked(Destination, given), given_settings(given)
    words = ["simgen", "build", given["workload"], *commands.targets(where.targets, settings)]
    words += asked(BuildChoices, given).words()
    if made is not None:
        words += commands.planned_for(made, words, chosen_targets(where.targets, settings))
    return shlex.join([*words, *replace(where, targets=()).words()])
