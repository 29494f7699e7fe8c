"""Every lowered layer with every choice of its keys: what contract tests run over.

A layer that is registered in LAYERS and says which passes it has gets all contract tests.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

import numpy as np

from simgen.ir import Pass, TensorSpec
from simgen.layers import LAYERS, Layer
from simgen.layers.base import field_types
from simgen.random_values import generate

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Variant:
    """A layer with all of its parameters given, as config text."""

    kind: str
    parameters: tuple[tuple[str, str], ...]

    @property
    def layer(self) -> Layer:
        return LAYERS[self.kind].from_config([(k, v, "test") for k, v in self.parameters])

    def __str__(self) -> str:
        return "-".join((self.kind, *(value for _, value in self.parameters)))


def lowered() -> list[str]:
    """Kinds of the layers that have kernels."""
    return sorted(kind for kind, layer in LAYERS.items() if layer.passes)


MOST = 40  # combinations of a layer's choices; with more, one choice at a time is varied

# Parameters that a layer's contract is tested with too, beside its defaults.
EXTRA: dict[str, list[dict[str, str]]] = {}


def variants(kind: str) -> list[Variant]:
    """Combinations of a layer's choices; numbers at their default and at one other value."""
    layer = LAYERS[kind]
    choices = [
        [(f.metadata["keys"][0], text) for text in _texts(field_types(layer)[f.name], f)]
        for f in fields(layer)
    ]
    if math.prod(map(len, choices)) <= MOST:
        made = list(itertools.product(*choices))
    else:
        base = tuple(choice[0] for choice in choices)
        made = [base]
        for at, choice in enumerate(choices):
            made += [(*base[:at], other, *base[at + 1 :]) for other in choice[1:]]
    for extra in EXTRA.get(kind, []):
        made.append(tuple((key, extra.get(key, value)) for key, value in made[0]))
        assert set(extra) <= dict(made[0]).keys(), extra
    return [Variant(kind, parameters) for parameters in dict.fromkeys(made)]


def _texts(type_: Any, field: Any) -> list[str]:
    if issubclass(type_, StrEnum):
        return [str(choice) for choice in type_]
    if type_ is bool:
        return ["false", "true"]
    return (
        [str(field.default), str(field.default * 0.375)] if type_ is float else [str(field.default)]
    )


def all_variants() -> list[tuple[Variant, Pass]]:
    """(variant, pass) of everything that is lowered."""
    return [
        (variant, direction)
        for kind in lowered()
        for variant in variants(kind)
        for direction in LAYERS[kind].passes
    ]


def inputs_of(layer: Layer, shape: tuple[int, ...]) -> tuple[TensorSpec, ...]:
    """The inputs of the layer by itself, for an input of this shape where it takes one."""
    return layer.workload_inputs(TensorSpec(shape)) if layer.takes_input else ()


def accepts(layer: Layer, shape: tuple[int, ...]) -> bool:
    """Whether the layer takes an input of this shape."""
    try:
        layer.output(inputs_of(layer, shape))
    except ValueError:
        return False
    return True


def read_tensors(layer: Layer, shape: tuple[int, ...], direction: Pass) -> dict[str, Array]:
    """What the pass reads, by port, from the ports' own distributions; float64."""
    return {
        port.name: generate(port.name, port.spec, port.fill, 1)
        .reshape(port.spec.shape)
        .astype(np.float64)
        for port in layer.ports(inputs_of(layer, shape), direction)
        if port.fill is not None
    }


# A small problem of a layer in the simulators: settings as `--set` takes them.
SMALL = {"n": "2", "c": "6", "h": "5", "w": "7"}
SMALL_OF: dict[str, dict[str, str]] = {"gemm": {"m": "33", "n": "17", "k": "19"}}


def small_problems() -> list[tuple[str, tuple[str, ...]]]:
    """(workload, settings) for every pass of every lowered layer."""
    return [
        (f"{kind}_{direction}", tuple(f"{k}={v}" for k, v in SMALL_OF.get(kind, SMALL).items()))
        for kind in lowered()
        for direction in LAYERS[kind].passes
    ]
