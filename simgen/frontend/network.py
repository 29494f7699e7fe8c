"""A config's sections -> layers with their shapes: names, order and extents resolved.

Where DNNMark lets a layer take its shape from `previous_layer`, this is where it gets it. Nothing
is lowered here, so that also layers without kernels can be shown.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from simgen.ask.build import BuildChoices
from simgen.errors import ConfigError, UsageError, did_you_mean, printable
from simgen.frontend.config import Config, Entry, Place, Section
from simgen.frontend.inputs import Source, check_size, layer_inputs
from simgen.frontend.settings import (
    GENERAL,
    in_phase,
    kind_of,
    with_algorithm,
    with_layout,
    with_settings,
)
from simgen.ground.ir import Node, Pass, TensorSpec
from simgen.ground.machine import Machine, fitted
from simgen.layers import LAYERS, Layer
from simgen.layers.base import EXTENTS, PLACE_KEYS, SHAPE, TYPE, Alias, Phase

OWN = "kernel"  # kind of the layer of a user's kernels
STANDALONE = "standalone"
RUN_MODES = ("none", STANDALONE, "composed")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}\Z")


@dataclass(frozen=True)
class Placed:
    """A layer at its place in the network."""

    node: Node
    layer: Layer
    sources: tuple[Source, ...]  # where its inputs come from, in order; (): from the data file
    outputs: tuple[tuple[str, TensorSpec], ...]  # by port
    where: str  # place of its section; not part of the workload's identity
    bound: tuple[tuple[str, str], ...] = ()  # (port, buffer), where that is not the layer's own

    @property
    def previous(self) -> tuple[str, ...]:
        """The layers that its inputs come from, in order."""
        return tuple(source.layer for source in self.sources)

    @property
    def output(self) -> TensorSpec:
        """Spec of its first, or only, output."""
        return self.outputs[0][1]

    @property
    def inputs(self) -> Iterator[tuple[str, Source]]:
        """(port, tensor that it reads there) of what does not come from the data file."""
        return zip(self.layer.takes, self.sources)


@dataclass(frozen=True)
class Network:
    """Layers, each after those that it takes its inputs from.

    In a slice, `previous` may name layers that are not in `layers`: what they would have written
    comes from the data file.
    """

    run_mode: str
    layers: tuple[Placed, ...]
    machine: Machine  # machine that the layers are planned for


def make_layer(node: Node, machine: Machine) -> Layer:
    """The layer that a node stands for, planned for a machine, as `workload.json` has both."""
    entries = ((key, value, node.name) for key, value in node.parameters)
    if node.kind == OWN:
        from simgen.layers.own import OwnKernel

        return OwnKernel.from_config(entries, machine).reading(node.inputs)
    return LAYERS[node.kind].from_config(entries, machine).reading(node.inputs)


def sample_section(kind: str, settings: Iterable[tuple[str, str]] = ()) -> Section:
    """The layer's sample problem as a config section, with other settings."""
    where = Place(f"built-in {kind}", 0)
    layer = LAYERS[kind]
    entries = {"name": kind, **layer.sample, **dict(settings)}.items()
    return Section(layer.section, tuple(Entry(k, v, where) for k, v in entries), where)


def resolve(
    config: Config,
    settings: Iterable[tuple[str, str]] = (),
    *,
    algorithm: str | None = None,
    layout: str | None = None,
    layers: str | None = None,
    phase: Phase | None = None,
    machine: Machine | None = None,
    dtype: str | None = None,
) -> Network:
    """The network that `config` describes, with `settings` ("key" or "layer.key", value) on top.

    `algorithm` is the `algo` of every layer that has that key, where no setting says otherwise, and
    `layout` the key of that name. So is what layers do in a `phase`; in inference, those that are
    for training only are left out.
    `layers` names a slice: words with commas between them, each a layer, or `a..b` for a, b and
    every layer on a way from a to b. Layers are planned for `machine`, or for the one that plans
    were fitted on. `dtype` is the element type of what no layer writes, where no section says
    another.

    Raises:
        ConfigError: an unknown section, key or value, a missing or impossible shape, a wrong or
            duplicate name, a previous layer or one of its tensors that is not there, a cycle.
        UsageError: `layers` names a layer that is not there, or two with no way between them.
    """
    run_mode = _run_mode([s for s in config.sections if s.name == GENERAL])
    sections = [s for s in config.sections if s.name != GENERAL]
    if not sections:
        raise ConfigError(config.source, "no layer section; add one, such as [Softmax]")
    named = _by_name(sections)
    sources = {name: _sources(name, section, named) for name, section in named.items()}
    if run_mode == STANDALONE:
        sources = {name: _alone(name, each, named) for name, each in sources.items()}
    order = _order(named, _layers(sources))
    if phase is not None:
        named = in_phase(named, phase)
    if phase is Phase.INFERENCE:
        named, sources = _without_training(named, sources)
        order = [name for name in order if name in named]
    previous = _layers(sources)
    kept = set(order) if layers is None else selected(layers, previous)
    if algorithm is not None:
        named = with_algorithm(named, kept, algorithm)
    if layout is not None:
        named = with_layout(named, kept, layout)
    named = with_settings(named, list(settings))
    needed = _reached(kept, previous)  # for the shapes
    machine = machine or fitted()
    usual = (
        Entry(TYPE, dtype, Place(f"{BuildChoices.type} {printable(dtype)}", 0)) if dtype else None
    )
    placed: dict[str, Placed] = {}
    for name in (name for name in order if name in needed):
        given = [_tensor(name, named[name], each, placed[each.layer]) for each in sources[name]]
        placed[name] = _place(name, named[name], given, machine, usual)
        if entry := named[name].get("weights"):
            shared = _shared(placed[name], entry, placed, named)
            placed[name] = replace(placed[name], bound=shared)
    chosen = tuple(each for name, each in placed.items() if name in kept)
    _check_formats(chosen)
    return Network(run_mode, chosen, machine)


def selected(text: str, previous: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Names of the layers of a slice, as `resolve` takes it; `previous` are what each reads from.

    Raises:
        UsageError: it names a layer that is not there, or two with no way between them.
    """
    readers: dict[str, list[str]] = {name: [] for name in previous}
    for name, before in previous.items():
        for each in before:
            readers[each].append(name)
    where = f"{BuildChoices.layers} {printable(text)}"
    kept: set[str] = set()
    for word in text.split(","):
        if numbers := re.fullmatch(r"\s*(\d{1,4})(?:\.\.(\d{1,4}))?\s*", word):
            kept |= _numbered(int(numbers[1]), int(numbers[2] or numbers[1]), previous, where)
            continue
        first, dots, last = (part.strip() for part in word.partition(".."))
        ends = (first, last) if dots else (first,)
        for end in ends:
            if end not in previous:
                fact = f"no layer named {printable(end)}"
                raise UsageError(f"{where}: {fact}; {did_you_mean(end, previous)}")
        found = _reached({first}, readers) & _reached({last}, previous) if dots else {first}
        if not found:
            cure = "write the earlier one first, or name layers with commas between them"
            raise UsageError(f"{where}: no way from {first} to {last}; {cure}")
        kept |= found
    return kept


def _numbered(
    first: int, last: int, previous: Mapping[str, tuple[str, ...]], where: str
) -> set[str]:
    """Names of the layers of a language model's own, from one number to another.

    Raises:
        UsageError: there are none.
    """
    found: dict[int, set[str]] = {}
    for name in previous:
        if number := re.match(r"layer(\d+)_", name):
            found.setdefault(int(number[1]), set()).add(name)
    if not first <= last or not {first, last} <= found.keys():
        there = f"it has layers 0..{max(found)}" if found else "its layers have no numbers"
        raise UsageError(f"{where}: {there}; name some of them")
    return {name for at in range(first, last + 1) for name in found[at]}


def _reached(starts: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """`starts` and all that can be reached from them; each edge is looked at once."""
    found = set(starts)
    todo = list(found)
    while todo:
        new = set(edges[todo.pop()]) - found
        found |= new
        todo += new
    return found


def _run_mode(sections: list[Section]) -> str:
    if len(sections) > 1:
        first, second = sections[0].where, sections[1].where
        raise ConfigError(second, f"[{GENERAL}] is already at {first}; keep one")
    mode = "none"
    for entry in sections[0].entries if sections else ():
        if entry.key != "run_mode":
            fact = f"unknown key {printable(entry.key)} in [{GENERAL}]"
            raise ConfigError(entry.where, f"{fact}; {did_you_mean(entry.key, ['run_mode'])}")
        if entry.value not in RUN_MODES:
            fact = f"run_mode is {printable(entry.value)}"
            raise ConfigError(entry.where, f"{fact}; {did_you_mean(entry.value, RUN_MODES)}")
        mode = entry.value
    return mode


def _by_name(sections: list[Section]) -> dict[str, Section]:
    """Layer name -> section. A layer without a name gets its kind's."""
    named: dict[str, Section] = {}
    for section in sections:
        entry = section.get("name")
        name, where = (entry.value, entry.where) if entry else (kind_of(section), section.where)
        kind_of(section)
        if not NAME.match(name):
            raise ConfigError(
                where,
                f"name is {printable(name)}; use 1 to 63 letters, digits, '_' and '-', "
                "a letter or '_' first",
            )
        if name in named:
            raise ConfigError(
                where, f"name {name!r} is taken by the layer at {named[name].where}; choose another"
            )
        named[name] = section
    return named


def settable(network: Network) -> list[str]:
    """The keys that settings take: `key` of the only layer or of all, and `layer.key`."""
    keys = {
        placed.node.name: (*placed.layer.config_keys(), *placed.layer.common_keys())
        for placed in network.layers
    }
    bare = next(iter(keys.values())) if len(keys) == 1 else (*EXTENTS, SHAPE)
    found = [*bare, *(f"{name}.{key}" for name, of in keys.items() for key in of)]
    return [key for key in found if key.rpartition(".")[2] not in PLACE_KEYS]


def _check_formats(chosen: Sequence[Placed]) -> None:
    """Raises ConfigError if a tensor passes between layers that store it otherwise."""
    names = {each.node.name for each in chosen}
    read = {source.layer for each in chosen for _, source in each.inputs}
    for each in chosen:
        others = [source.layer for _, source in each.inputs if source.layer in names]
        if each.layer.formats and (others or each.node.name in read):
            name, formats = each.node.name, ", ".join(each.layer.formats)
            fact = f"layer {name!r} stores {formats}, which layers before and behind it do not"
            raise ConfigError(
                each.where,
                f"{fact}; leave layout out, or take it alone ({BuildChoices.layers} {name})",
            )


def _without_training(
    named: dict[str, Section], sources: Mapping[str, tuple[Source, ...]]
) -> tuple[dict[str, Section], dict[str, tuple[Source, ...]]]:
    """The layers that do something in inference, and what each reads then.

    Raises:
        ConfigError: one that does nothing reads the data file, and so its readers' extents are
            not known; or there is nothing else.
    """
    gone = {name for name, section in named.items() if LAYERS[kind_of(section)].training_only}
    for name in gone:
        if not sources[name]:
            raise ConfigError(
                named[name].where,
                f"layer {name!r} is first and does nothing in inference; remove it and give its "
                "n, c, h and w to the next layer",
            )

    def before(source: Source) -> Source:
        while source.layer in gone:
            (source,) = sources[source.layer]
        return source

    kept = {name: section for name, section in named.items() if name not in gone}
    return kept, {name: tuple(map(before, sources[name])) for name in kept}


def _sources(name: str, section: Section, named: Mapping[str, Section]) -> tuple[Source, ...]:
    """The tensors that `previous_layer` names: `layer` or `layer.tensor`, with commas between."""
    entry = section.get("previous_layer")
    if entry is None or entry.value in ("", "null"):
        return ()
    layer = LAYERS[kind_of(section)]
    words = [word.strip() for word in entry.value.split(",")]
    found = [Source(*(part.strip() for part in word.partition(".")[::2])) for word in words]
    for word, source in zip(words, found, strict=True):
        if "." in word and not source.tensor:
            fact = f"previous_layer of {name!r} is {printable(word)}"
            raise ConfigError(entry.where, f"{fact}; write layer or layer.tensor")
        if source.layer not in named:
            fact = f"previous_layer of {name!r} is {printable(word)}, which is not a layer here"
            raise ConfigError(entry.where, f"{fact}; {did_you_mean(source.layer, named)}")
    most = len(layer.input_names)
    if len(found) > most:
        fact = f"previous_layer of {name!r} names {len(found)}, but [{layer.section}] takes {most}"
        cure = "join layers with [Add] or [Concat] first" if most == 1 else "leave the rest out"
        if layer.from_data:
            cure = (
                f"its {layer.from_data} come by {BuildChoices.values} or "
                f"{BuildChoices.data}, as {name}.{layer.from_data}"
            )
        raise ConfigError(entry.where, f"{fact}; {cure}")
    return tuple(found)


def _alone(
    name: str, sources: tuple[Source, ...], named: Mapping[str, Section]
) -> tuple[Source, ...]:
    """What a layer reads where each runs by itself: nothing of another layer but [Input].

    DNNMark passes previous_layer over where a layer has extents of its own, and ends where it has
    none (core/include/dnn_layer.h, Setup).

    Raises:
        ConfigError: it has none.
    """
    section = named[name]
    computed = [each.layer for each in sources if not LAYERS[kind_of(named[each.layer])].given]
    if not computed:
        return sources
    extents = {*EXTENTS, SHAPE, *LAYERS[kind_of(section)].input_keys} - {TYPE}
    entry = section.get("previous_layer")
    if entry is not None and not any(section.get(key) for key in extents):
        fact = f"layer {name!r} reads {computed[0]!r}, but run_mode={STANDALONE} runs each alone"
        cure = "give it extents of its own, such as n, c, h and w, or write run_mode=composed"
        raise ConfigError(entry.where, f"{fact}; {cure}")
    return ()


def _layers(sources: Mapping[str, tuple[Source, ...]]) -> dict[str, tuple[str, ...]]:
    """The layers that each layer reads from."""
    return {name: tuple(source.layer for source in found) for name, found in sources.items()}


def _tensor(
    name: str, section: Section, source: Source, before: Placed
) -> tuple[Source, TensorSpec]:
    """The tensor that a layer's section names, of the layer `before`: its first, where it does not
    say which. Of a view, it is the tensor that is seen, with the shape in which it is."""
    outputs = dict(before.outputs)
    tensor = source.tensor or next(iter(outputs))
    if tensor in outputs and isinstance(before.layer, Alias) and before.sources:
        return before.sources[0], outputs[tensor]
    if tensor in outputs:
        return Source(source.layer, tensor), outputs[tensor]
    entry = section.get("previous_layer")
    known = [f"{source.layer}.{each}" for each in outputs]
    fact = f"previous_layer of {name!r} is {printable(str(source))}, but {source.layer!r} has none"
    raise ConfigError(
        entry.where if entry else section.where, f"{fact}; {did_you_mean(str(source), known)}"
    )


def _order(named: Mapping[str, Section], previous: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Layer names, each after its previous layers, otherwise in the order of the file."""
    places = {name: at for at, name in enumerate(named)}
    graph = TopologicalSorter(previous)
    try:
        graph.prepare()
    except CycleError as error:
        circle: list[str] = error.args[1][:0:-1]  # each before the one that it reads
        first = min(circle, key=places.__getitem__)
        at = circle.index(first)
        loop = " <- ".join((*circle[at:], *circle[:at], first))
        entry = named[first].get("previous_layer")
        raise ConfigError(
            entry.where if entry else named[first].where,
            f"layers feed each other in a circle ({loop}); give one of them previous_layer=null",
        ) from None
    names, order = list(named), []
    ready: list[int] = []
    while graph.is_active():
        for name in graph.get_ready():
            heapq.heappush(ready, places[name])
        order.append(names[heapq.heappop(ready)])
        graph.done(order[-1])
    return order


def _shared(
    placed: Placed, entry: Entry, others: Mapping[str, Placed], named: Mapping[str, Section]
) -> tuple[tuple[str, str], ...]:
    """The parameters of another layer, in place of a layer's own.

    Raises:
        ConfigError: there is no such layer, or its parameters are others.
    """
    name, other = placed.node.name, entry.value
    where = entry.where
    if other not in named:
        fact = f"weights of {name!r} is {printable(other)}, which is not a layer here"
        raise ConfigError(where, f"{fact}; {did_you_mean(other, named)}")
    own = _parameters(placed)
    if not own:
        raise ConfigError(where, f"layer {name!r} has no weights; leave the key out")
    if other in others and (theirs := _parameters(others[other])) != own:
        told = "; ".join(f"{port} {spec}" for port, spec in theirs.items()) or "none"
        fact = f"weights of {name!r} are those of {other!r}, which are others ({told})"
        raise ConfigError(where, f"{fact}; name a layer with the same extents, or leave it out")
    bound = dict(others[other].bound) if other in others else {}
    return tuple((port, bound.get(port, f"{other}.{port}")) for port in own)


def _parameters(placed: Placed) -> dict[str, str]:
    """Port -> extents and type of a layer's parameters."""
    layer = placed.layer
    ports = layer.ports(placed.node.inputs, Pass.FORWARD) if layer.parameters else ()
    return {
        port.name: f"{' x '.join(map(str, port.spec.shape))} of {port.spec.dtype}"
        for port in ports
        if port.name in layer.parameters
    }


def _guilty(section: Section, message: str, usual: Entry | None) -> Place:
    """The place of what is most likely wrong: what the command line says of the layer rather than
    the file, and of that what a message names: a key, or the type of all inputs."""
    if message.startswith("--"):  # an option, which it names itself
        return section.where
    words = set(re.findall(r"\w+", message))
    given = [entry for entry in reversed(section.entries) if not entry.where.line]
    named = [entry for entry in given if entry.key in words]
    of_type = [usual] if usual and usual.value in words else []
    return next((entry.where for entry in (*named, *of_type, *given)), section.where)


def _place(
    name: str,
    section: Section,
    given: Sequence[tuple[Source, TensorSpec]],
    machine: Machine,
    usual: Entry | None,
) -> Placed:
    kind = kind_of(section)
    common = LAYERS[kind].common_keys()
    own = [(e.key, e.value, e.where) for e in section.entries if e.key not in common]
    if usual and (LAYERS[kind].own_type or (not given and TYPE in LAYERS[kind].input_keys)):
        own = [(usual.key, usual.value, usual.where), *own]
    layer = LAYERS[kind].from_config(own, machine)
    try:
        inputs = layer_inputs(name, section, layer, given, usual)
        layer = layer.reading(inputs)
        outputs = layer.outputs(inputs)
    except ValueError as error:
        raise ConfigError(_guilty(section, str(error), usual), f"layer {name!r}: {error}") from None
    for output in outputs.values():
        check_size(name, section, output, "output")
    parameters = tuple((key, value) for key, value, _ in own)
    node = Node(name, kind, parameters, inputs)
    sources = tuple(source for source, _ in given)
    return Placed(node, layer, sources, tuple(outputs.items()), str(section.where))
