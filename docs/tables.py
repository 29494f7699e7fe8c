"""Sphinx directives whose text is made from simgen's code, so that it cannot say anything else.

{layers}          every layer: its section, passes, config keys with ranges and defaults, and the
                  mathematics that its module begins with
{element-types}   every element type that tensors of a network may have
{machines}        every machine that workloads can be planned for
{metrics}         every metric: its unit, what it is, and what it follows from
{schemas}         every schema of JSON: the commands that print it, and its keys
{networks}        every network that comes with simgen, by what its file begins with
{targets}         every target: what it is, and whether it was seen running
{variables}       every variable of the environment: what reads it, and what it is
{settings} NAME   the options of `simgen build` and `simgen run` that the target NAME brings
"""

from __future__ import annotations

import inspect
import sys
from copy import copy
from dataclasses import MISSING, fields
from enum import StrEnum
from itertools import takewhile
from math import log2
from typing import TYPE_CHECKING, Any, ClassVar

import click
from sphinx.util.docutils import SphinxDirective

from simgen.ask.choice import option as flag_of
from simgen.cli import answers
from simgen.cli import variables as environment
from simgen.cli.main import cli
from simgen.cli.options import Commands
from simgen.frontend import problem
from simgen.ground import machine, resources
from simgen.ground.dtypes import DType, Special
from simgen.ground.metrics import METRICS
from simgen.layers import LAYERS
from simgen.layers.base import field_types
from simgen.targets import TARGETS
from simgen.targets.base import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from dataclasses import Field

    from docutils.nodes import Node
    from sphinx.application import Sphinx

    from simgen.layers import Layer
    from simgen.targets import Target
    from simgen.targets.base import RunOption


def _filled(command: click.Command) -> click.Command:
    """The command with all its options where sphinx-click looks for them: some are made on use."""
    context = click.Context(command)
    helps = set(command.get_help_option_names(context))
    found = copy(command)
    found.params = [p for p in command.get_params(context) if not helps & set(p.opts)]
    if isinstance(command, Commands) and isinstance(found, click.Group):
        found.commands = {name: _filled(each) for name, each in command.all().items()}
    return found


commands = _filled(cli)  # what the page about the command line shows
KINDS = {int: "whole number", float: "number", bool: "`true` or `false`", str: "text"}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


def _described(cls: type[Layer]) -> str:
    """What a layer computes: its own docstring or, where a file has one layer, the file's."""
    own = cls.__doc__ or ""
    whole = own if "\n" in own else sys.modules[cls.__module__].__doc__ or ""
    return inspect.cleandoc(whole)


def layer(kind: str, cls: type[Layer]) -> str:
    """A section about a layer, in Markdown."""
    passes = problem.passes_of(cls)
    stored = "any floating-point type up to 32 bits" if cls.any_float else "`f32`"
    stored += "".join(f", `{each}`" for each in cls.integers)
    fact = (
        f"Passes {_listed(passes)}; workloads {_listed(f'{kind}_{each}' for each in passes)}. "
        f"Element type: {stored}."
    )
    parts = [
        f"## {kind}",
        f"Section `[{cls.section}]`. " + (fact if passes else "It computes nothing."),
        f"```text\n{_described(cls)}\n```",
    ]
    if cls.keyed_fields():
        types = field_types(cls)
        rows = [_key(each, types[each.name]) for each in cls.keyed_fields()]
        parts.append(table(("key", "values", "default", "meaning"), rows))
    if cls.algorithms:
        names = _listed(cls.algorithms)
        parts.append(f"Algorithms of simgen, for `--algo` or the key `algo`: {names}.")
    if cls.sample and passes:
        sample = "\n".join(f"{key}={value}" for key, value in cls.sample.items())
        parts.append(f"The built-in workloads have\n\n```ini\n[{cls.section}]\n{sample}\n```")
    return "\n\n".join(parts)


def _listed(words: Iterable[object]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _key(each: Field[Any], kind: Any) -> tuple[str, str, str, str]:
    keys = "<br>".join(f"`{name}`" for name in each.metadata["keys"])
    return keys, _values(each, kind), f"`{_text(each.default)}`", each.metadata.get("text", "")


def _values(each: Field[Any], kind: Any) -> str:
    """The type of a key, and its range."""
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return ", ".join(f"`{value}`" for value in kind)
    if kind is DType:
        return _listed(name for name, dtype in DType.table.items() if _stored(dtype))
    least, most = each.metadata["least"], each.metadata["most"]
    noun = KINDS[kind]
    if least is not None and most is not None:
        return f"{noun}, {_text(least)} to {_text(most)}"
    if least is not None:
        return f"{noun}, at least {_text(least)}"
    return noun


def _stored(dtype: DType) -> bool:
    """Whether tensors of a network may have the type, in whatever layer takes floats."""
    return dtype.is_float and dtype.nbytes <= DType.F32.nbytes


def _text(value: Any) -> str:
    """A value as configs have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, DType):
        return value.name
    return f"{value:g}" if isinstance(value, float) else str(value)


def target(cls: type[Target]) -> str:
    """The options of a target, in Markdown."""
    build = [_setting(each) for each in fields(cls)]
    run = [_run_option(name, option) for name, option in cls.run_options.items()]
    parts = []
    if build:
        parts += [
            "Options of `simgen build`:",
            table(("option", "values", "default", "meaning"), build),
        ]
    if run:
        parts += ["Options of `simgen run`:", table(("option", "values", "meaning"), run)]
    return "\n\n".join(parts) or "The target has no options of its own."


def _setting(each: Field[Any]) -> tuple[str, str, str, str]:
    assert each.default is not MISSING
    choices, text = each.metadata["choices"], each.metadata["help"]
    if isinstance(each.default, bool):
        return f"`{flag_of(each.name, not each.default)}`", "", "", text
    values = ", ".join(f"`{choice}`" for choice in choices) or KINDS[type(each.default)]
    return f"`{flag_of(each.name)}`", values, f"`{each.default}`", text


def _run_option(name: str, option: RunOption) -> tuple[str, str, str]:
    values = ", ".join(f"`{choice}`" for choice in option.choices)
    if option.pattern:
        values = f"such as `{option.example}`"
    return f"`{flag_of(name)}`", values or f"whole number, at least {option.least}", option.told


def metrics() -> str:
    """All metrics: those that targets count, and those that follow; in Markdown."""
    counted = [(f"`{m.name}`", m.unit, m.title) for m in METRICS.values() if not m.formula]
    follow = [(f"`{m.name}`", m.unit, f"`{m.formula}`") for m in METRICS.values() if m.formula]
    heads = ("metric", "unit", "meaning")
    parts = ("Targets count:", table(heads, counted), "From that follow:", table(heads, follow))
    return "\n\n".join(parts)


def element_types() -> str:
    """All element types that tensors of a network may have, in Markdown."""
    rows = [
        (
            f"`{name}`",
            str(8 * each.nbytes),
            str(each.exponent),
            str(each.mantissa),
            f"{each.largest:.7g}",
            f"2^{log2(each.roundoff):.0f}",
            "yes" if each.special is Special.IEEE else "no",
        )
        for name, each in DType.table.items()
        if _stored(each)
    ]
    heads = ("type", "bits", "exponent", "mantissa", "largest number", "rounding error", "infinity")
    return table(heads, rows)


def machines() -> str:
    """All machines that workloads can be planned for, in Markdown."""
    rows = []
    for name, each in sorted(machine.descriptions().items()):
        m = each.machine
        rates = (f"{m.clock / 1e9:g} GHz", f"{m.dram_rate / 1e9:g} GB/s")
        rows.append((f"`{name}`", each.title, m.arch, str(m.units), *rates))
    return table(("name", "machine", "architecture", "units", "clock", "DRAM"), rows)


def networks() -> str:
    """All networks that come with simgen, in Markdown."""
    rows = []
    for name in problem.networks():
        text = (resources.folder("data") / f"{name}.dnnmark").read_text()
        comment = takewhile(lambda line: line.startswith("#"), text.splitlines())
        says = " ".join(line.lstrip("# ") for line in comment if not line.startswith("#   "))
        rows.append((f"`{name}`", says))
    return table(("name", "network"), rows)


# Where a target is described.
PAGES = {
    "gem5-se": "gem5.md#gem5-se",
    "gem5-fs": "gem5.md#gem5-fs",
    "mgpusim": "mgpusim.md",
    "gpgpusim": "gpgpusim.md",
    **{name: f"cpu-and-gpus.md#{name}" for name in ("host", "cuda", "hip")},
}


def targets() -> str:
    """All targets but examples, in Markdown."""
    rows = [
        (f"[`{name}`]({PAGES[name]})", cls.summary, _seen(cls.unseen()))
        for name, cls in TARGETS.items()
        if not cls.example
    ]
    return table(("target", "description", "tested"), rows)


def _seen(unseen: str) -> str:
    return "no" if unseen == EVERYTHING else f"yes; not `{unseen}`" if unseen else "yes"


def schemas() -> str:
    """A table of what `--json` prints."""
    rows = []
    for name, (command, _) in answers.SHAPES.items():
        made = answers.schema(name)
        keys = [
            f"`{key}`" if key in made["required"] else f"(`{key}`)" for key in made["properties"]
        ]
        rows.append(
            (f"`{answers.schema_name(name)}`", f"`{command}`", ", ".join(keys[1:]) or "any")
        )
    return table(("schema", "printed by", "keys"), rows)


def variables() -> str:
    """A table of environment variables, in Markdown."""
    rows = [
        (
            f"`{each.name}`",
            each.reader,
            f"`{each.option}`: {each.text}" if each.option else each.text,
        )
        for each in environment.table()
    ]
    internal = _listed(environment.INTERNAL)
    return f"{table(('variable', 'read by', 'meaning'), rows)}\n\nsimgen itself sets {internal}."


class Generated(SphinxDirective):
    """Text in Markdown, made anew in every build: the code may have changed, and not the page."""

    def parsed(self, text: str, *, headings: bool = False) -> list[Node]:
        self.env.note_reread()
        return self.parse_text_to_nodes(text, allow_section_headings=headings)


class Layers(Generated):
    """All layers."""

    def run(self) -> list[Node]:
        text = "\n\n".join(layer(kind, cls) for kind, cls in sorted(LAYERS.items()))
        return self.parsed(text, headings=True)


class Metrics(Generated):
    """All metrics."""

    def run(self) -> list[Node]:
        return self.parsed(metrics())


class ElementTypes(Generated):
    """All element types."""

    def run(self) -> list[Node]:
        return self.parsed(element_types())


class Machines(Generated):
    """All machines."""

    def run(self) -> list[Node]:
        return self.parsed(machines())


class Networks(Generated):
    """All networks that come with simgen."""

    def run(self) -> list[Node]:
        return self.parsed(networks())


class Schemas(Generated):
    """All schemas of JSON."""

    def run(self) -> list[Node]:
        return self.parsed(schemas())


class Variables(Generated):
    """All variables of the environment."""

    def run(self) -> list[Node]:
        return self.parsed(variables())


class Targets(Generated):
    """All targets."""

    def run(self) -> list[Node]:
        return self.parsed(targets())


class Settings(Generated):
    """The options that a target brings."""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[Node]:
        return self.parsed(target(TARGETS[self.arguments[0]]))


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("layers", Layers)
    app.add_directive("metrics", Metrics)
    app.add_directive("element-types", ElementTypes)
    app.add_directive("machines", Machines)
    app.add_directive("networks", Networks)
    app.add_directive("schemas", Schemas)
    app.add_directive("variables", Variables)
    app.add_directive("targets", Targets)
    app.add_directive("settings", Settings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
