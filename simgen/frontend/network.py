"""A config's sections -> layers with their shapes: names, order and extents resolved.

Where DNNMark lets a layer take its shape from `previous_layer`, this is where it gets it. Nothing
is lowered here, so that also layers without kernels can be shown.
"""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from simgen.dtypes import WORD
from simgen.errors import ConfigError, UsageError, did_you_mean, printable
from simgen.frontend.config import Entry, Place, Section
from simgen.ir import DType, Node, TensorSpec
from simgen.layers import LAYERS
from simgen.layers.base import (
    EXTENTS,
    MAX_INT,
    PLACE_KEYS,
    SHAPE,
    TYPE,
    Phase,
    check_range,
    parse_value,
)
from simgen.layers.own import OwnKernel
from simgen.machine import Machine, fitted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from simgen.frontend.config import Config
    from simgen.layers import Layer

GENERAL = "DNNMark"  # the section that is no layer
LAYOUT = "layout"  # the key of storage formats
RUN_MODES = ("none", "standalone", "composed")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}\Z")
MAX_RANK = 8  # axes of a tensor


@dataclass(frozen=True)
class Source:
    """A tensor that a layer gives to others. As text, `str`, it is the name of its buffer."""

    layer: str
    tensor: str  # port; "" where the config names the layer alone, until its outputs are known

    def __str__(self) -> str:
        return f"{self.layer}.{self.tensor}"

    @property
    def gradient(self) -> str:
        """Name of the buffer of its gradient."""
        return f"{self.layer}.d{self.tensor}"


@dataclass(frozen=True)
class Placed:
    """A layer at its place in the network."""

    node: Node
    layer: Layer
    sources: tuple[Source, ...]  # where its inputs come from, in order; (): from the data file
    outputs: tuple[tuple[str, TensorSpec], ...]  # by port
    where: str  # of its section; no part of the workload, which is the same from another file
    bound: tuple[tuple[str, str], ...] = ()  # (port, buffer), where that is not the layer's own

    @property
    def previous(self) -> tuple[str, ...]:
        """The layers that its inputs come from, in order."""
        return tuple(source.layer for source in self.sources)

    @property
    def output(self) -> TensorSpec:
        """Of its first, or only, output."""
        return self.outputs[0][1]

    @property
    def inputs(self) -> Iterator[tuple[str, Source]]:
        """(port, tensor that it reads there) of what does not come from the data file."""
        return zip(self.layer.input_names, self.sources)


@dataclass(frozen=True)
class Network:
    """Layers, each after those that it takes its inputs from.

    In a slice, `previous` may name layers that are not in `layers`: what they would have written
    comes from the data file.
    """

    run_mode: str
    layers: tuple[Placed, ...]
    machine: Machine  # that the layers are planned for


def make_layer(node: Node, machine: Machine) -> Layer:
    """The layer that a node stands for, planned for a machine, as `workload.json` has both."""
    entries = ((key, value, node.name) for key, value in node.parameters)
    layer = OwnKernel if node.kind == OwnKernel.kind else LAYERS[node.kind]
    return layer.from_config(entries, machine).reading(node.inputs)


def sample_section(kind: str) -> Section:
    """The layer's sample problem as a config section."""
    where = Place(f"built-in {kind}", 0)
    layer = LAYERS[kind]
    entries = (("name", kind), *layer.sample.items())
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
    order = _order(named, _layers(sources))
    if phase is not None:
        named = _in_phase(named, phase)
    if phase is Phase.INFERENCE:
        named, sources = _without_training(named, sources)
        order = [name for name in order if name in named]
    previous = _layers(sources)
    kept = set(order) if layers is None else selected(layers, previous)
    if algorithm is not None:
        named = _with_algorithm(named, kept, algorithm)
    if layout is not None:
        entry = Entry(LAYOUT, layout, Place(f"--layout {printable(layout)}", 0))
        having = _having(named, kept, entry, "no layer here has a choice of storage formats")
        named = {n: _replaced(s, entry) if n in having else s for n, s in named.items()}
    named = _with_settings(named, list(settings))
    needed = _reached(kept, previous)  # for the shapes
    machine = machine or fitted()
    usual = Entry(TYPE, dtype, Place(f"--type {printable(dtype)}", 0)) if dtype else None
    placed: dict[str, Placed] = {}
    for name in (name for name in order if name in needed):
        given = [_tensor(name, named[name], each, placed[each.layer]) for each in sources[name]]
        placed[name] = _place(name, named[name], given, machine, usual)
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
    where = f"--layers {printable(text)}"
    kept: set[str] = set()
    for word in text.split(","):
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


def _kind(section: Section) -> str:
    for kind, layer in LAYERS.items():
        if layer.section == section.name:
            return kind
    known = [GENERAL, *(layer.section for layer in LAYERS.values())]
    fact = f"unknown section {printable(section.name)}"
    raise ConfigError(section.where, f"{fact}; {did_you_mean(section.name, known)}")


def _by_name(sections: list[Section]) -> dict[str, Section]:
    """Layer name -> section. A layer without a name gets its kind's."""
    named: dict[str, Section] = {}
    for section in sections:
        entry = section.get("name")
        name, where = (entry.value, entry.where) if entry else (_kind(section), section.where)
        _kind(section)
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


def _with_settings(
    named: dict[str, Section], settings: list[tuple[str, str]]
) -> dict[str, Section]:
    """The sections with each setting in place of, or added to, the entries of its layer.

    A bare key goes to the only layer. In a network, a bare extent (n, c, h, w), or `shape`, goes
    to every layer that gives it itself, so that `n=1` rescales the whole network: it is the first
    extent of `shape` too. Other extents take the place of `shape`, and it takes that of theirs.
    """
    named = dict(named)
    for key, value in settings:
        where = Place(f"--set {key}={value}", 0)
        owner, dot, field = key.rpartition(".")
        if dot and owner not in named:
            fact = f"no layer named {printable(owner)}"
            raise ConfigError(where, f"{fact}; {did_you_mean(owner, named)}")
        if dot:
            targets = [owner]
        elif len(named) == 1:
            targets = list(named)
        elif field in (*EXTENTS, SHAPE):
            keys = (field, SHAPE) if field == "n" else (field,)
            given = {n: next(filter(None, map(s.get, keys)), None) for n, s in named.items()}
            targets = [n for n, e in given.items() if e and e.value != "0"]
        else:
            targets = []
        if not targets:
            raise _without_layer(named, field, where)
        for target in targets:
            named[target] = _replaced(named[target], Entry(field, value, where))
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


def _without_layer(named: dict[str, Section], key: str, where: Place) -> ConfigError:
    """A bare key in a network: it lacks its layer, or no layer here has it."""
    layers = {name: LAYERS[_kind(section)] for name, section in named.items()}
    known = {n: (*each.config_keys(), *each.common_keys()) for n, each in layers.items()}
    having = [name for name, keys in known.items() if key in keys]
    if having:
        fact = f"there are several layers; write {having[0]}.{key}=..., for example"
        return ConfigError(where, fact)
    cure = did_you_mean(key, {each for keys in known.values() for each in keys})
    return ConfigError(where, f"no layer here has a key {printable(key)}; {cure}")


def _with_algorithm(
    named: dict[str, Section], kept: set[str], algorithm: str
) -> dict[str, Section]:
    """The sections with the algorithm in each layer of the slice that has a choice."""
    entry = Entry("algo", algorithm, Place(f"--algo {algorithm}", 0))
    having = _having(named, kept, entry, "no layer here has a choice of algorithms")
    own = dict.fromkeys(a for n in having for a in LAYERS[_kind(named[n])].algorithms)
    if algorithm not in own:  # a config's key may name a library's algorithms too
        cure = did_you_mean(algorithm, own)
        raise ConfigError(entry.where, f"algo is {printable(algorithm)}; {cure}")
    choosing = {n for n in having if algorithm in LAYERS[_kind(named[n])].algorithms}
    return {n: _replaced(s, entry) if n in choosing else s for n, s in named.items()}


def _having(named: dict[str, Section], kept: set[str], entry: Entry, fact: str) -> set[str]:
    """The layers of the slice that have the entry's key; `fact` is said where there is none."""
    having = {n for n in kept if entry.key in LAYERS[_kind(named[n])].config_keys()}
    if not having:
        known = ", ".join(k for k, each in LAYERS.items() if entry.key in each.config_keys())
        raise ConfigError(entry.where, f"{fact}; leave it out (layers with one: {known})")
    return having


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
                each.where, f"{fact}; leave layout out, or take it alone (--layers {name})"
            )


def _in_phase(named: dict[str, Section], phase: Phase) -> dict[str, Section]:
    """The sections with what their layers do in the phase."""
    where = Place(f"--{phase}", 0)
    found = {}
    for name, section in named.items():
        for key, value in LAYERS[_kind(section)].phases.get(phase, {}).items():
            section = _replaced(section, Entry(key, value, where))
        found[name] = section
    return found


def _without_training(
    named: dict[str, Section], sources: Mapping[str, tuple[Source, ...]]
) -> tuple[dict[str, Section], dict[str, tuple[Source, ...]]]:
    """The layers that do something in inference, and what each reads then.

    Raises:
        ConfigError: one that does nothing reads the data file, and so its readers' extents are
            not known; or there is nothing else.
    """
    gone = {name for name, section in named.items() if LAYERS[_kind(section)].training_only}
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


def _replaced(section: Section, entry: Entry) -> Section:
    if entry.key in ("name", "previous_layer"):
        raise ConfigError(entry.where, f"{entry.key} cannot be set; edit the config instead")
    gone = [entry.key]
    kept: tuple[Entry, ...] = ()
    if LAYERS[_kind(section)].takes_input and entry.key in (*EXTENTS, SHAPE):
        shape = section.get(SHAPE)
        n, *rest = shape.value.split("x") if shape else ("",)
        if entry.key == SHAPE:
            gone += EXTENTS
        elif shape and entry.key == "n":
            entry = Entry(SHAPE, "x".join((entry.value, *rest)), entry.where)
            gone.append(SHAPE)
        elif shape:
            gone.append(SHAPE)
            kept = (Entry("n", n, shape.where),)
    kept += tuple(e for e in section.entries if e.key not in gone)
    return Section(section.name, (*kept, entry), section.where)


def _sources(name: str, section: Section, named: Mapping[str, Section]) -> tuple[Source, ...]:
    """The tensors that `previous_layer` names: `layer` or `layer.tensor`, with commas between."""
    entry = section.get("previous_layer")
    if entry is None or entry.value in ("", "null"):
        return ()
    layer = LAYERS[_kind(section)]
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
            cure = f"its {layer.from_data} come by --values or --data, as {name}.{layer.from_data}"
        raise ConfigError(entry.where, f"{fact}; {cure}")
    return tuple(found)


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
    if tensor in outputs and before.layer.is_view and before.sources:
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


def _place(
    name: str,
    section: Section,
    given: Sequence[tuple[Source, TensorSpec]],
    machine: Machine,
    usual: Entry | None,
) -> Placed:
    kind = _kind(section)
    common = LAYERS[kind].common_keys()
    own = [(e.key, e.value, e.where) for e in section.entries if e.key not in common]
    if usual and (LAYERS[kind].own_type or (not given and TYPE in LAYERS[kind].input_keys)):
        own = [(usual.key, usual.value, usual.where), *own]
    layer = LAYERS[kind].from_config(own, machine)
    inputs = _inputs(name, section, layer, given, usual)
    layer = layer.reading(inputs)
    try:
        outputs = layer.outputs(inputs)
    except ValueError as error:
        # What the command line says of the layer is more likely wrong than the file.
        given_there = (e.where for e in reversed(section.entries) if not e.where.line)
        where = next(given_there, section.where)
        raise ConfigError(where, f"layer {name!r}: {error}") from None
    for output in outputs.values():
        _check_size(name, section, output, "output")
    parameters = tuple((key, value) for key, value, _ in own)
    node = Node(name, kind, parameters, inputs)
    sources = tuple(source for source, _ in given)
    return Placed(node, layer, sources, tuple(outputs.items()), str(section.where))


def _inputs(
    name: str,
    section: Section,
    layer: Layer,
    given: Sequence[tuple[Source, TensorSpec]],
    usual: Entry | None,
) -> tuple[TensorSpec, ...]:
    if given:
        for entry in section.entries:
            if entry.key in layer.input_keys:
                fact = f"{entry.key} is {printable(entry.value)}, but layer {name!r} has its inputs"
                raise ConfigError(entry.where, f"{fact} from previous_layer; leave one out")
    elif not layer.takes_input:
        _dtype(name, section, layer, None, usual)
        return ()
    for before, each in given:
        if layer.rank not in (None, len(each.shape)):
            raise ConfigError(
                section.where,
                f"layer {name!r} takes a tensor (N, C, H, W), but {before.layer!r} gives one of "
                f"{_times(each.shape)}; take another previous_layer",
            )
    types = [
        _index_type(name, section, port, source, each)
        if port in layer.indices
        else _dtype(name, section, layer, each, usual)
        for port, (source, each) in zip(layer.input_names, given)
    ]
    if given:
        checked = layer.takes_input
        return tuple(
            _input(name, section, each, dtype) if checked else each
            for (_, each), dtype in zip(given, types, strict=True)
        )
    indices = any(port in layer.indices for port in layer.input_names[:1])
    dtype = DType.I32 if indices else _dtype(name, section, layer, None, usual)
    return layer.workload_inputs(_input(name, section, None, dtype, layer.rank))


def _index_type(name: str, section: Section, port: str, source: Source, given: TensorSpec) -> DType:
    """Raises:
    ConfigError: what the layer is given in place of indices is something else.
    """
    if given.dtype != DType.I32:
        fact = f"layer {name!r}: {port} are indices of type i32, and {source} is {given.dtype}"
        raise ConfigError(section.where, f"{fact}; name an [Input] that has type=i32")
    return DType.I32


def _dtype(
    name: str, section: Section, layer: Layer, given: TensorSpec | None, usual: Entry | None
) -> DType:
    """The type of an input's elements: the previous layer's, or what the section or --type says.

    Raises:
        ConfigError: no such type, another one than the previous layer has, or the layer lacks it.
    """
    found = given.dtype if given else DType.F32
    said = section.get(layer.type_key) or (None if given else usual)
    where = said.where if said else section.where
    asked = parse_value(DType, said.key, said.value, said.where) if said else found
    narrow = layer.any_float and asked.is_float and asked.nbytes <= WORD
    if asked != DType.F32 and not narrow and asked not in layer.integers:
        takes = "floating-point types up to 32 bits" if layer.any_float else "type f32 alone"
        takes += "".join(f", {each}" for each in layer.integers)
        fact = f"layer {name!r}: [{section.name}] has {takes}, and its input is {asked}"
        cure = "choose another type"
        if given and not said:
            cure = "insert [Cast] with type=f32 before it"
            if not asked.is_float:
                cure = "insert [Cast] with type=f32 and its x_scale before it"
                cure += ", or give the layer before scales" if DType.I8 in layer.integers else ""
            if asked == DType.I32:
                cure = f"of words, let [Embedding] stand before it; of sums, {cure}"
        raise ConfigError(where, f"{fact}; {cure}")
    if given and asked != found:
        raise ConfigError(
            where,
            f"{layer.type_key} is {asked}, but the previous layer's output is {found}; leave it "
            f"out, or insert [Cast] with type={asked} before layer {name!r}",
        )
    return asked


def _input(
    name: str,
    section: Section,
    given: TensorSpec | None,
    dtype: DType,
    rank: int | None = None,
) -> TensorSpec:
    """The input as the section says it, and as the previous layer does where that says nothing."""
    entry = section.get(SHAPE)
    extents = next((e for e in section.entries if e.key in EXTENTS), None)
    if entry and extents:
        fact = f"{extents.key} is given beside shape, which says all extents"
        raise ConfigError(extents.where, f"{fact}; leave one of them out")
    if entry:
        shape = _shape(entry)
        if rank not in (None, len(shape)):
            fact = f"shape is {printable(entry.value)}, but layer {name!r} takes (N, C, H, W)"
            raise ConfigError(entry.where, f"{fact}; write four extents, such as 1x3x224x224")
    elif given and len(given.shape) != len(EXTENTS):
        if extents:
            fact = f"{extents.key} is one of (N, C, H, W), but layer {name!r} gets a tensor of"
            raise ConfigError(extents.where, f"{fact} {_times(given.shape)}; leave it out")
        shape = given.shape
    else:
        shape = _extents(name, section, given)
    if given and shape != given.shape:
        assert entry is not None
        raise ConfigError(
            entry.where,
            f"shape is {printable(entry.value)}, but the previous layer's output has "
            f"{_times(given.shape)}; leave it out",
        )
    x = TensorSpec(shape, dtype)
    _check_size(name, section, x, "input")
    return x


def _shape(entry: Entry) -> tuple[int, ...]:
    """Extents with x between them."""
    words = entry.value.split("x")
    if not all(word.isascii() and word.isdigit() for word in words):
        fact = f"{entry.key} is {printable(entry.value)}"
        raise ConfigError(entry.where, f"{fact}; write extents with x between them, as 16x128x768")
    if len(words) > MAX_RANK:
        fact = f"{entry.key} is {printable(entry.value)}, which has {len(words)} axes"
        raise ConfigError(entry.where, f"{fact}; write {MAX_RANK} at most")
    where = entry.where
    return tuple(check_range("an extent of shape", int(word), 1, None, where) for word in words)


def _extents(name: str, section: Section, given: TensorSpec | None) -> tuple[int, ...]:
    """The input's (N, C, H, W): from the section, and from the previous layer where that has 0.

    A first layer without h or w has 1 there, as DNNMark's fully connected sample leaves them out.
    """
    shape: list[int] = []
    for axis, key in enumerate(EXTENTS):
        entry = section.get(key)
        value = 0
        if entry is not None:
            value = parse_value(int, key, entry.value, entry.where)
            check_range(key, value, 0, None, entry.where)
        if given is not None:
            if value not in (0, given.shape[axis]):
                assert entry is not None
                raise ConfigError(
                    entry.where,
                    f"{key} is {value}, but the previous layer's output has {given.shape[axis]}; "
                    "leave it out",
                )
            value = given.shape[axis]
        elif value == 0 and key in ("h", "w") and entry is None:
            value = 1
        elif value == 0:
            raise ConfigError(
                entry.where if entry else section.where,
                f"layer {name!r} has no {key}; give it, or a previous_layer to take it from",
            )
        shape.append(value)
    return tuple(shape)


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _check_size(name: str, section: Section, spec: TensorSpec, what: str) -> None:
    if spec.size > MAX_INT:
        smaller = "shape" if section.get(SHAPE) else "n, c, h or w"
        raise ConfigError(
            section.where,
            f"the {what} of layer {name!r} has {_times(spec.shape)} elements, more than {MAX_INT}; "
            f"make {smaller} smaller",
        )
