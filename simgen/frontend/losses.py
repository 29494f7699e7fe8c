"""The loss that a network ends in, where its config has none: as sections behind the config's own.

`--training` puts `[CrossEntropy]` in the place of a last `[Softmax]`, which is a part of it; with
`--loss`, a loss of that kind goes to whatever the network ends in.
"""

from __future__ import annotations

import re
from dataclasses import replace

from simgen.ask.build import BuildChoices
from simgen.errors import UsageError, did_you_mean, printable
from simgen.frontend.config import Config, Entry, Place, Section
from simgen.layers import KIND_OF, LAYERS

LOSS = BuildChoices.loss
NONE = "none"
KINDS = ("cross_entropy", "sampled_softmax", "squared_error")
NAME = "loss"  # name of the layer
SOFTMAX, CLASSES = "softmax", "cross_entropy"


def ended(config: Config, loss: str | None, *, training: bool) -> Config:
    """The config with a loss at its end, of the kind `loss`; None: where training needs one.

    Raises:
        UsageError: no such kind, or the network has a loss, or ends in several layers.
    """
    if loss == NONE or (loss is None and not training):
        return config
    if loss is not None and loss not in KINDS:
        cure = did_you_mean(loss, (*KINDS, NONE))
        raise UsageError(f"{LOSS} {printable(loss)}: no such loss; {cure}")
    named = {_name(each): each for each in config.sections if each.name in KIND_OF}
    there = [name for name, each in named.items() if KIND_OF[each.name] in KINDS]
    if there and loss is not None:
        raise UsageError(f"{LOSS} {loss}: layer {there[0]!r} is a loss; leave {LOSS} out")
    read = {word for each in named.values() for word in _previous(each)}
    ends = [name for name in named if name not in read]
    if there or (loss is None and len(ends) != 1):
        return config
    if len(ends) != 1:
        fact = f"the network ends in {', '.join(ends) or 'no layer'}"
        raise UsageError(f"{LOSS} {loss}: {fact}; give one of its layers a loss in the config")
    return _with(config, named, ends[0], loss)


def check_slice(layers: str | None, config: Config, made: Config) -> None:
    """Raises:
    UsageError: `layers` names what `ended` has put a loss in the place of.
    """
    before, after = (
        {_name(each) for each in found.sections if each.name in KIND_OF} for found in (config, made)
    )
    gone, loss = before - after, "".join(after - before)
    for word in re.split(r",|\.\.", layers or ""):
        if (name := word.strip()) in gone:
            fact = f"training has {loss!r} in the place of {printable(name)}"
            cure = f"write {loss}, or add {LOSS} none"
            raise UsageError(f"{BuildChoices.layers} {printable(layers or '')}: {fact}; {cure}")


def _with(config: Config, named: dict[str, Section], end: str, loss: str | None) -> Config:
    """The config with a loss behind its end, or in its place where that is a part of it."""
    last = named[end]
    # Over whole images, a softmax is not one over classes.
    mode = last.get("softmax_mode")
    part = KIND_OF[last.name] == SOFTMAX and (mode is None or mode.value == "channel")
    part = part and bool(_previous(last)) and loss != "squared_error"
    if loss is None and not part:
        return config
    where = Place(f"{BuildChoices.inference.off}" if loss is None else f"{LOSS} {loss}", 0)
    name = NAME
    while name in named:
        name += "_"
    axis = last.get("softmax_axis") if part else None
    entries = [Entry("name", name, where)]
    before = last.get("previous_layer") if part else None
    entries.append(before or Entry("previous_layer", end, where))
    entries += [Entry("axis", axis.value, axis.where)] if axis else []
    section = Section(LAYERS[loss or CLASSES].section, tuple(entries), where)
    kept = tuple(each for each in config.sections if not (part and each is last))
    return replace(config, sections=(*kept, section))


def _name(section: Section) -> str:
    entry = section.get("name")
    return entry.value if entry else KIND_OF[section.name]


def _previous(section: Section) -> list[str]:
    """The layers that it reads from."""
    entry = section.get("previous_layer")
    if entry is None or entry.value in ("", "null"):
        return []
    return [word.partition(".")[0].strip() for word in entry.value.split(",")]
