"""What a shell offers where a name is half written. An error offers nothing: it is told later."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from simgen.cli import offered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import click

    from simgen.bundle.folder import Bundle
    from simgen.bundle.planning import Plan
    from simgen.layers.base import Layer

    Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completer(names: Callable[[click.Context], Iterable[str]]) -> Complete:
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
    """Built-in workloads, problems of lists, and files."""
    names = offered.problems() if "/" in text else offered.words("workloads")
    found = [CompletionItem(name) for name in names if name.startswith(text)]
    return [*found, CompletionItem(text, type="file")]


def bundle(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    """Folders."""
    return [CompletionItem(text, type="dir")]


def _targets(ctx: click.Context) -> Iterable[str]:
    if ctx.info_name != "run":
        return offered.targets()
    return _bundle(ctx).targets


def _results(ctx: click.Context) -> Iterable[str]:
    return [*_bundle(ctx).ran(), "reference"]


def _machines(ctx: click.Context) -> Iterable[str]:
    return offered.words("machines")


def _algorithms(ctx: click.Context) -> Iterable[str]:
    return offered.words("algorithms")


def algorithms_of(kinds: Iterable[type[Layer]]) -> Iterable[str]:
    from simgen.layers.base import field_types

    found: dict[str, None] = {}
    for layer in kinds:
        hints = field_types(layer)
        for each in layer.keyed_fields():
            if "algo" in each.metadata["keys"][0]:
                found |= dict.fromkeys(_words_of(hints[each.name]))
    return sorted(found)


def _types(ctx: click.Context) -> Iterable[str]:
    return offered.words("types")


def _passes(ctx: click.Context) -> Iterable[str]:
    from simgen.ground.ir import Pass

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
    """Plan of the workload that the words before name."""
    from simgen.ask.build import BuildChoices
    from simgen.bundle.planning import Plan

    return Plan(_argument(ctx, "workload"), BuildChoices())


def _settings(ctx: click.Context) -> Iterable[str]:
    """Variables of a template, `n=` of a layer by itself, `conv1.n=` in a network."""
    return [f"{key}=" for key in _plan(ctx).settable]


def _set_values(ctx: click.Context, setting: str) -> Iterable[str]:
    kinds = {each.node.name: type(each.layer) for each in _plan(ctx).network.layers}
    return _values_of(setting, kinds)


def _swept(ctx: click.Context) -> tuple[Bundle, Any]:
    """The bundle, and its target that would run."""
    from simgen.bundle import finding

    made = _bundle(ctx)
    return made, finding.target_of(made, ctx.params.get("target") or next(iter(made.targets)))


def _axes(ctx: click.Context) -> Iterable[str]:
    """Run options of the target, and settings of the bundle's build."""
    from simgen.running.siblings import Family

    made, target = _swept(ctx)
    return [f"{name}=" for name in (*target.run_options, *Family(made, target).settings())]


def _axis_values(ctx: click.Context, setting: str) -> Iterable[str]:
    from dataclasses import fields

    from simgen.layers import LAYERS

    made, target = _swept(ctx)
    if setting in target.run_options:
        return [*target.run_options[setting].choices]
    own = {each.name: each for each in fields(target)}
    if setting in own:
        return [*own[setting].metadata.get("choices", ())]
    return _values_of(setting, {node.name: LAYERS[node.kind] for node in made.workload.nodes})


def _values_of(setting: str, kinds: Mapping[str, type[Layer]]) -> Iterable[str]:
    """The values that a setting of a build can have, where they are words."""
    from simgen.layers.base import field_types

    if setting in ("algo", "type"):
        return algorithms_of(kinds.values()) if setting == "algo" else offered.words("types")
    layer, _, key = setting.rpartition(".")
    found: dict[str, None] = {}
    for kind in [kinds[layer]] if layer else kinds.values():
        hints = field_types(kind)
        for name in kind.config_keys().get(key, ()):
            found |= dict.fromkeys(_words_of(hints[name]))
    return found


def _words_of(kind: Any) -> Iterable[str]:
    """The values of a type, where they are words."""
    from enum import Enum

    from simgen.ground.ir import DType

    if kind is bool:
        return ("true", "false")
    if kind is DType:
        return offered.words("types")
    return [str(each) for each in kind] if issubclass(kind, Enum) else ()


def _assigned(
    names: Callable[[click.Context], Iterable[str]],
    values: Callable[[click.Context, str], Iterable[str]],
    several: bool = False,
) -> Complete:
    """`KEY=`, and behind it the values of the key, of which a comma may part `several`."""

    def complete(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
        setting, equals, _ = text.partition("=")
        if not equals:
            return completer(names)(ctx, param, text)
        before = text[: max(len(setting) + 1, (text.rfind(",") + 1) * several)]
        return completer(lambda ctx: [f"{before}{each}" for each in values(ctx, setting)])(
            ctx, param, text
        )

    return complete


def _baselines(ctx: click.Context) -> Iterable[str]:
    """Results of the bundles that are written before: TARGET, and BUNDLE:TARGET of several."""
    from simgen.bundle import folder

    # What click has not parsed yet, before an option without a value, lies in args.
    paths = [*(ctx.params.get("bundles") or ()), *(each for each in ctx.args if each[:1] != "-")]
    bundles = [folder.load(Path(each)) for each in dict.fromkeys(map(str, paths))]
    names = [(made.path.name, result) for made in bundles for result in made.ran()]
    if len(bundles) == 1:
        return [result for _, result in names]
    return [f"{bundle}:{result}" for bundle, result in names]


def _exports(ctx: click.Context) -> Iterable[str]:
    from simgen.ground import plugins

    return [*offered.words("exports"), *plugins.named("simgen.exports")]


def _simulators(ctx: click.Context) -> Iterable[str]:
    from simgen.isa.legalise import facts, simulators

    return [
        name
        for each in sorted(simulators.simulators())
        for name in (
            each,
            *(f"{each}@{v}" for v in facts.versions(each) or simulators.versions(each)),
        )
    ]


def _archs(ctx: click.Context) -> Iterable[str]:
    """GPUs of the target that is named before, or all."""
    having = offered.settings()["arch"]
    named = ctx.params.get("on") or ctx.params.get("simulator") or ""
    plain = named.partition("@")[0]
    plain = "gem5-se" if plain == "gem5" else plain
    wanted = [plain] if plain in having else having
    return dict.fromkeys(word for each in wanted for word in having[each].words)


def _gem5_versions(ctx: click.Context) -> Iterable[str]:
    return offered.settings()["gem5_version"]["gem5-se"].words


def _simulated(ctx: click.Context) -> Iterable[str]:
    names = list(_bundle(ctx).targets)
    return [*names, *("mgpusim:emu", "mgpusim:timing") * ("mgpusim" in names)]


def _modes(ctx: click.Context) -> Iterable[str]:
    modes = {"mgpusim": ("emu", "timing"), "gpgpusim": ("functional", "timing")}
    return modes.get(ctx.params.get("on") or "", ("emu", "functional", "timing"))


def _parts(ctx: click.Context) -> Iterable[str]:
    """Families of a list of problems."""
    found = (each.split("/") for each in offered.problems())
    return dict.fromkeys(each[1] for each in found if each[0] == ctx.params.get("what"))


def _studies(ctx: click.Context) -> Iterable[str]:
    from simgen.reports.studies import STUDIES

    return STUDIES


def _forms(ctx: click.Context) -> Iterable[str]:
    from simgen.frontend.drivers import table

    return table.FORMS


def _defaults(ctx: click.Context) -> Iterable[str]:
    from simgen.cli import defaults

    return [f"{key}=" for key in defaults.DEFAULTS]


def _default_values(ctx: click.Context, key: str) -> Iterable[str]:
    from simgen.cli import defaults

    known = defaults.DEFAULTS[key].known
    return known() if known else EXECUTORS


def _inputs(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    """Results of the bundle, and files."""
    return [*results(ctx, param, text), *files(ctx, param, text)]


def _values(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    """Words for values, and files."""
    return [*words("exact", "model")(ctx, param, text), *files(ctx, param, text)]


def files(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    return [CompletionItem(text, type="file")]


def words(*names: str) -> Complete:
    return completer(lambda _: names)


LISTS = ("workloads", "networks", "layers", "targets", "algorithms", "machines", "metrics",
         "exports", "schemas", "deepbench", "atrex")  # fmt: skip
EXECUTORS = ("local", "slurm")
examined = words("mgpusim", "gem5-se", "gpgpusim", "cuda")
optimizers = words("sgd", "sgd,momentum=0.9", "adam", "adamw")
losses = words("cross_entropy", "squared_error", "none")
layouts = words("nchw", "nhwc")
executors = words(*EXECUTORS)
figures = _last(lambda _: ("pdf", "svg", "png"))
model_facts = _last(lambda _: ("n_head=", "n_kv_head=", "vocab_size="))
forms = completer(_forms)
studies = completer(_studies)
simulators = completer(_simulators)
archs = completer(_archs)
gem5_versions = completer(_gem5_versions)
simulated = completer(_simulated)
modes = completer(_modes)
lists = words(*LISTS)
parts = completer(_parts)
defaults = _assigned(_defaults, _default_values)
inputs, values = _inputs, _values
targets = completer(_targets)
build_targets = _last(_targets)
exports = completer(_exports)
results = completer(_results)
machines = completer(_machines)
algorithms = completer(_algorithms)
types = completer(_types)
passes = _last(_passes)
layers = _last(_layers)
settings = _assigned(_settings, _set_values)
axes = _assigned(_axes, _axis_values, several=True)
baselines = completer(_baselines)


class _Bash(BashComplete):
    """Bash cuts words at `=` and `:`, and puts what is offered in place of the last part."""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        words: list[str] = []
        for word in (*args, incomplete):
            last = words[-1] if words else ""
            if word == "=" and last.startswith("--"):
                continue  # before the value of an option
            if last[-1:] in BREAKS or (last and word[:1] in BREAKS):
                words[-1] += word
            else:
                words.append(word)
        if incomplete == "=" and words[-1].startswith("--"):
            words.append("")
        self.cut = len(words[-1]) - (0 if incomplete in BREAKS else len(incomplete))
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        return f"{item.type},{item.value[self.cut :] if item.type == 'plain' else item.value}"


BREAKS = ("=", ":")  # characters of COMP_WORDBREAKS that split words
add_completion_class(_Bash)
