"""What pass sgd does with each parameter: an optimiser with its settings, from `--optimizer`.

sgd                                            plain steps, as by default
sgd,momentum=0.9,weight_decay=5e-4             keys are those of the layer [SGD]
adam,beta2=0.99     adamw,weight_decay=0.01    and of [Adam]; adamw is adam,decoupled=true
"""

from __future__ import annotations

from dataclasses import dataclass

from simgen.ask.build import BuildChoices
from simgen.errors import ConfigError, UsageError, did_you_mean, printable
from simgen.ground.ir import TensorSpec
from simgen.layers import LAYERS

# Optimiser name -> kind of layer, its preset keys, and the usual learning rate.
NAMES: dict[str, tuple[str, dict[str, str], float]] = {
    "sgd": ("sgd", {}, 0.01),
    "adam": ("adam", {}, 0.001),
    "adamw": ("adam", {"decoupled": "true", "weight_decay": "0.01"}, 0.001),
}
OWN = ("rate", "loss_scale", "gradient_type", "copy_type")  # options and lowering say these


@dataclass(frozen=True)
class Descent:
    """The kind of the layers of pass sgd, and their keys and values."""

    kind: str = "sgd"
    entries: tuple[tuple[str, str], ...] = (("rate", "0.01"),)


def parse_descent(text: str | None, rate: float | None) -> Descent:
    """The optimiser that `text` names, with a learning rate; None: the usual ones.

    Raises:
        UsageError: no such optimiser, or it has no such key or value.
    """
    name, *words = (part.strip() for part in (text or "sgd").split(","))
    where = f"{BuildChoices.optimizer} {printable(text or name)}"
    if name not in NAMES:
        raise UsageError(f"{where}: no such optimizer; {did_you_mean(name, NAMES)}")
    kind, usual, usual_rate = NAMES[name]
    layer = LAYERS[kind]
    known = [key for key in layer.config_keys() if key not in OWN]
    said = dict(usual)
    for word in words:
        key, equals, value = (part.strip() for part in word.partition("="))
        if not equals:
            raise UsageError(f"{where}: {printable(word)} is no setting; write KEY=VALUE")
        if key == "rate":
            raise UsageError(
                f"{where}: the learning rate is an option; write {BuildChoices.rate} {value}"
            )
        if key not in known:
            fact = f"{name} has no key {printable(key)}"
            raise UsageError(f"{where}: {fact}; {did_you_mean(key, known)}")
        said[key] = value
    entries = {"rate": str(usual_rate if rate is None else rate), **said}
    try:
        places = {"rate": where if rate is None else f"{BuildChoices.rate} {rate:g}"}
        made = layer.from_config([(k, v, places.get(k, where)) for k, v in entries.items()])
        made.output((TensorSpec((1,)),))
    except ConfigError as error:
        raise UsageError(str(error)) from None
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    return Descent(kind, tuple(entries.items()))
