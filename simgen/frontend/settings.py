"""What the command line says of a network's layers, put into the sections of its config."""

from __future__ import annotations

from dataclasses import replace

from simgen.ask.build import BuildChoices
from simgen.errors import ConfigError, did_you_mean, printable
from simgen.frontend.config import Entry, Place, Section
from simgen.layers import KIND_OF, LAYERS
from simgen.layers.base import EXTENTS, SHAPE, Phase

GENERAL = "DNNMark"  # the section that is no layer
OF_A_PASS = ("algofwd", "algod")  # keys of algorithms of one pass
LAYOUT = "layout"  # the key of storage formats


def kind_of(section: Section) -> str:
    if section.name in KIND_OF:
        return KIND_OF[section.name]
    known = [GENERAL, *KIND_OF]
    fact = f"unknown section {printable(section.name)}"
    raise ConfigError(section.where, f"{fact}; {did_you_mean(section.name, known)}")


def with_settings(named: dict[str, Section], settings: list[tuple[str, str]]) -> dict[str, Section]:
    """The sections with each setting in place of, or added to, the entries of its layer.

    A bare key goes to the only layer. In a network, a bare extent (n, c, h, w), or `shape`, goes
    to every layer that gives it itself, so that `n=1` rescales the whole network: it is the first
    extent of `shape` too. Other extents take the place of `shape`, and it takes that of theirs.
    """
    named = dict(named)
    for key, value in settings:
        where = Place(f"{BuildChoices.set} {key}={value}", 0)
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
            targets = [n for n, e in given.items() if e and e.value != "0" and not _fixed(named[n])]
        else:
            targets = []
        if not targets:
            raise _without_layer(named, field, where)
        for target in targets:
            named[target] = _replaced(named[target], Entry(field, value, where))
    return named


def _fixed(section: Section) -> bool:
    entry = section.get("fixed")
    return entry is not None and entry.value == "true"


def _without_layer(named: dict[str, Section], key: str, where: Place) -> ConfigError:
    """A bare key in a network: it lacks its layer, or no layer here has it."""
    layers = {name: LAYERS[kind_of(section)] for name, section in named.items()}
    known = {n: (*each.config_keys(), *each.common_keys()) for n, each in layers.items()}
    having = [name for name, keys in known.items() if key in keys]
    if having:
        fact = f"there are several layers; write {having[0]}.{key}=..., for example"
        return ConfigError(where, fact)
    cure = did_you_mean(key, {each for keys in known.values() for each in keys})
    return ConfigError(where, f"no layer here has a key {printable(key)}; {cure}")


def with_algorithm(named: dict[str, Section], kept: set[str], algorithm: str) -> dict[str, Section]:
    """The sections with the algorithm in each layer of the slice that has a choice."""
    entry = Entry("algo", algorithm, Place(f"{BuildChoices.algo} {algorithm}", 0))
    having = _having(named, kept, entry, "no layer here has a choice of algorithms")
    own = dict.fromkeys(a for n in having for a in LAYERS[kind_of(named[n])].algorithms)
    if algorithm not in own:  # a config's key may name a library's algorithms too
        cure = did_you_mean(algorithm, own)
        raise ConfigError(entry.where, f"algo is {printable(algorithm)}; {cure}")
    choosing = {n for n in having if algorithm in LAYERS[kind_of(named[n])].algorithms}
    made = {n: _replaced(s, entry) if n in choosing else s for n, s in named.items()}
    for name in choosing:
        for key in OF_A_PASS:
            if made[name].get(key):
                made[name] = _replaced(made[name], replace(entry, key=key))
    return made


def with_layout(named: dict[str, Section], kept: set[str], layout: str) -> dict[str, Section]:
    """The sections with the storage format in each layer of the slice that has a choice.

    `NHWC` is `nhwc`: the libraries that have the choice write it in capitals.
    """
    entry = Entry(LAYOUT, layout.lower(), Place(f"{BuildChoices.layout} {printable(layout)}", 0))
    having = _having(named, kept, entry, "no layer here has a choice of storage formats")
    return {n: _replaced(s, entry) if n in having else s for n, s in named.items()}


def _having(named: dict[str, Section], kept: set[str], entry: Entry, fact: str) -> set[str]:
    """The layers of the slice that have the entry's key; `fact` is said where there is none."""
    having = {n for n in kept if entry.key in LAYERS[kind_of(named[n])].config_keys()}
    if not having:
        known = ", ".join(k for k, each in LAYERS.items() if entry.key in each.config_keys())
        raise ConfigError(entry.where, f"{fact}; leave it out (layers with one: {known})")
    return having


def in_phase(named: dict[str, Section], phase: Phase) -> dict[str, Section]:
    """The sections with what their layers do in the phase."""
    where = Place(f"--{phase}", 0)
    found = {}
    for name, section in named.items():
        for key, value in LAYERS[kind_of(section)].phases.get(phase, {}).items():
            section = _replaced(section, Entry(key, value, where))
        found[name] = section
    return found


def _replaced(section: Section, entry: Entry) -> Section:
    if entry.key in ("name", "previous_layer"):
        raise ConfigError(entry.where, f"{entry.key} cannot be set; edit the config instead")
    gone = [entry.key]
    kept: tuple[Entry, ...] = ()
    if LAYERS[kind_of(section)].takes_input and entry.key in (*EXTENTS, SHAPE):
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
