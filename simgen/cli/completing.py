"""What a shell offers where a name is half written. An error offers nothing: it is told later."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import click

    from simgen.bundle.folder import Bundle
    from simgen.bundle.planning import Plan

    Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def of(names: Callable[[click.Context], Iterable[str]]) -> Complete:
    """The names that begin with what is written."""

    def complete(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
        with contextlib.suppress(Exception):
            return [CompletionItem(name) for name in names(ctx) if name.startswith(text)]
        return []

    return complete


def _last(names: Callable[[click.Context], Iterable[str]]) -> Complete:
    """The same of the last part of a list (`a,b`) or of a slice (`a..b`)."""

    def complete(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
        before = text[: max(text.rfind(",") + 1, text.rfind("..") + 2 * (".." in text))]
        with contextlib.suppress(Exception):
            whole = (f"{before}{name}" for name in names(ctx))
            return [CompletionItem(name) for name in whole if name.startswith(text)]
        return []

    return complete


def workload(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    """Built-in workloads, DeepBench's problems, and files."""
    from simgen.frontend import deepbench, problem
    from simgen.frontend.operation import FAMILIES

    names: list[str] = [*problem.built_in()]
    if text.startswith("deepbench/"):
        names = [each.name for family in FAMILIES for each in deepbench.problems(family)]
    found = [CompletionItem(name) for name in names if name.startswith(text)]
    return [*found, CompletionItem(text, type="file")]


def bundle(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    """Folders."""
    return [CompletionItem(text, type="dir")]


def _targets(ctx: click.Context) -> Iterable[str]:
    from simgen.targets import TARGETS

    if ctx.info_name != "run":
        return TARGETS
    return _bundle(ctx).targets


def _results(ctx: click.Context) -> Iterable[str]:
    return [*_bundle(ctx).ran(), "reference"]


def _machines(ctx: click.Context) -> Iterable[str]:
    from simgen.machine import descriptions

    return descriptions()


def _algorithms(ctx: click.Context) -> Iterable[str]:
    from enum import Enum

    from simgen.layers import LAYERS
    from simgen.layers.base import field_types

    found: dict[str, None] = {}
    for layer in LAYERS.values():
        hints = field_types(layer)
        for each in layer.keyed_fields():
            kind = hints[each.name]
            if "algo" in each.metadata["keys"][0] and issubclass(kind, Enum):
                found |= dict.fromkeys(str(value) for value in kind)
    return sorted(found)


def _types(ctx: click.Context) -> Iterable[str]:
    from simgen.ir import DType

    return list(DType.table)


def _passes(ctx: click.Context) -> Iterable[str]:
    from simgen.ir import Pass

    return [each.value for each in Pass]


def _layers(ctx: click.Context) -> Iterable[str]:
    if ctx.info_name != "run":
        return [each.node.name for each in _plan(ctx).network.layers]
    return [node.name for node in _bundle(ctx).workload.nodes]


def _argument(ctx: click.Context, name: str) -> str:
    """The first argument; click leaves it unnamed before an option that has no value yet."""
    found = ctx.params.get(name)
    return str(found) if found is not None else ctx.args[0]


def _bundle(ctx: click.Context) -> Bundle:
    from simgen.bundle import folder

    return folder.load(Path(_argument(ctx, "bundle")))


def _plan(ctx: click.Context) -> Plan:
    """Of the workload that is written before."""
    from simgen.bundle.planning import Choices, Plan

    return Plan(_argument(ctx, "workload"), Choices())


def _settings(ctx: click.Context) -> Iterable[str]:
    """Variables of a template, `n=` of a layer by itself, `conv1.n=` in a network."""
    return [f"{key}=" for key in _plan(ctx).settable]


def _axes(ctx: click.Context) -> Iterable[str]:
    """Run options of the target, and settings of the bundle's build."""
    from simgen.bundle import finding
    from simgen.running.siblings import Family

    made = _bundle(ctx)
    target = finding.target_of(made, ctx.params.get("target") or next(iter(made.targets)))
    return [f"{name}=" for name in (*target.run_options, *Family(made, target).settings())]


def _exports(ctx: click.Context) -> Iterable[str]:
    from simgen.exports import EXPORTS

    return EXPORTS


targets = of(_targets)
build_targets = _last(_targets)
exports = of(_exports)
results = of(_results)
machines = of(_machines)
algorithms = of(_algorithms)
types = of(_types)
passes = _last(_passes)
layers = _last(_layers)
settings = of(_settings)
axes = of(_axes)
