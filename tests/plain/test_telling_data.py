"""Default inputs tell variants of a layer apart: a kernel that takes another value of any key than
the one that it was given writes something that no tolerance allows.

For each layer, pass and key, the reference with another value of the key is computed from the
inputs that the data file has. Somewhere it must lie more than 10 tolerances away, wherever the key
means anything: whether it does is found with inputs of all magnitudes. A layer declares the keys
that never do (`hint`).
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from layer_variants import (
    NUMBERS_OF_AXES,
    accepts,
    fields_of_floats,
    inputs_of,
    lowered,
    read_tensors,
    variants,
)

from simgen.ground.ir import DType, Pass
from simgen.layers import LAYERS
from simgen.layers.base import field_types
from simgen.layers.fused import Fused
from simgen.layers.pool.pooling import Pooling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layer_variants import Array

    from simgen.layers import Layer

TOLERANCES = 10
SHAPE = (5, 6, 9, 7)
SHAPE_OF = {
    "bcm_fc": (3, 64, 1, 1),
    "fused_fc": (64, 6, 4, 3),  # samples for a feature that takes another value
    "attention": (5, 6, 9, 8),
    "cache": (5, 2, 6),
    "causal_conv": (5, 9, 8),
    "chunk_output": (2, 70, 2, 8),
    "chunk_state": (2, 70, 2, 8),
    "delta_rule": (2, 9, 2, 8),
    "rope": (2, 2, 300, 16),
    "attention_sum": (5, 60),
    "embedding": (5, 6),
    "heads": (5, 4, 12),
    "mask": (5, 6, 7, 9),
    "gate": (5, 6, 9, 8),
    "router": (5, 12),
    "experts": (5, 128),
    "quantise": (5, 256),
    "quantised_add_rms_norm": (5, 6, 9, 8),
    "scaled_fc": (5, 256),
    "slice": (5, 6, 6, 12),  # to be cut along any axis
}
SAME = 1e-9  # relative: two forms of one function, in float64


def shape_of(layer: Layer) -> tuple[int, ...]:
    return SHAPE_OF.get(layer.kind, SHAPE)


def layers(kind: str) -> list[Layer]:
    """The layer's variants that mean different results."""
    found = dict.fromkeys(
        replace(layer, **{f.name: f.default for f in layer.keyed_fields() if f.metadata["hint"]})
        for layer in (variant.layer for variant in variants(kind))
    )
    return [layer for layer in found if accepts(layer, shape_of(layer))]


def others(layer: Layer, name: str) -> Iterator[Any]:
    """Values that a key might be mistaken for."""
    value = getattr(layer, name)
    if isinstance(value, StrEnum):
        yield from (each for each in field_types(type(layer))[name] if each is not value)
    elif isinstance(value, DType):
        return  # other values are stored, of the same reference
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield from (text for text in NUMBERS_OF_AXES if text != value)
    elif isinstance(value, int):
        near = (value + 1, value - 1)  # a multiple of some number may have no neighbours
        yield from near if any(changed(layer, name, each) for each in near) else (2 * value,)
    else:
        yield from (value * factor for factor in (0.1, 0.9, 1.1, 10.0))
        yield from (0.0, 1.0) if value else (0.5,)


def changed(layer: Layer, name: str, value: Any) -> Layer | None:
    """The layer with another value of a field; None where it cannot have that."""
    limits = next(each.metadata for each in layer.keyed_fields() if each.name == name)
    least, most = limits["least"], limits["most"]
    if (least is not None and value < least) or (most is not None and value > most):
        return None
    made = replace(layer, **{name: value})
    return made if accepts(made, shape_of(made)) else None


def pairs(layer: Layer) -> Iterator[tuple[str, Layer, Layer]]:
    """(what is changed, a layer, the same with one key changed)."""
    known = (
        {each.name for each in layer.first.keyed_fields()} if isinstance(layer, Fused) else set()
    )
    for field in fields_of_floats(type(layer)):
        if field.metadata["hint"] or field.name in known:  # known: of conv, which is tested itself
            continue
        for value in others(layer, field.name):
            one = layer
            if value == "clipped_relu" and isinstance(layer, Fused):
                one = replace(layer, ceiling=1.5)  # sums of size 1 reach 6 in large tensors only
            other = changed(one, field.name, value)
            if other:
                yield f"{field.name}={value} for {one}", one, other


def ports(layer: Layer, direction: Pass) -> dict[str, Any]:
    found = layer.ports(inputs_of(layer, shape_of(layer)), direction)
    return {port.name: port.spec.shape for port in found if not port.scratch}


def results(layer: Layer, tensors: dict[str, Array], direction: Pass) -> dict[str, Array]:
    with np.errstate(all="ignore"):
        ends = {"posinf": 1e300, "neginf": -1e300}  # whose difference is a number
        return {k: np.nan_to_num(v, **ends) for k, v in layer.reference(tensors, direction).items()}


def all_magnitudes(tensors: dict[str, Array], layer: Layer, direction: Pass) -> dict[str, Array]:
    """Numbers of both signs from 1e-3 to 1e3; those that are not negative stay so, and indices are
    what they are."""
    random = np.random.default_rng(7)
    read = layer.ports(inputs_of(layer, shape_of(layer)), direction)
    indices = {port.name for port in read if not port.spec.dtype.is_float}
    made = {name: tensor for name, tensor in tensors.items() if name in indices}
    for name, tensor in tensors.items():
        if name in made:
            continue
        values = 10 ** random.uniform(-3, 3, tensor.shape)
        signs = random.choice((-1.0, 1.0), tensor.shape) if (tensor < 0).any() else 1.0
        made[name] = tensor if np.isnan(tensor).all() else values * signs
    return made


def means_nothing(one: Layer, other: Layer, tensors: dict[str, Array], direction: Pass) -> bool:
    wide = all_magnitudes(tensors, one, direction)
    a, b = (results(each, wide, direction) for each in (one, other))
    return all(np.allclose(a[name], b[name], rtol=SAME, atol=SAME) for name in a)


def distance(a: dict[str, Array], b: dict[str, Array], bounds: dict[str, Array]) -> float:
    """In tolerances, of the element that is farthest apart."""
    found = 0.0
    for name in a:
        error = np.abs(a[name] - b[name])
        with np.errstate(divide="ignore", invalid="ignore"):
            found = max(found, float(np.where(error > 0, error / bounds[name], 0.0).max()))
    return found


@pytest.mark.parametrize("kind", lowered())
def test_default_inputs_tell_each_value_of_each_key_from_others(kind: str) -> None:
    silent = []
    known: dict[tuple[Layer, Pass], tuple[Any, ...]] = {}
    for what, one, other in (pair for layer in layers(kind) for pair in pairs(layer)):
        for direction in (each for each in one.able if each in other.able):
            if ports(one, direction) != ports(other, direction):
                continue  # told apart by its arguments or their shapes
            if (one, direction) not in known:
                tensors = read_tensors(one, shape_of(one), direction)
                bounds = one.tolerance(tensors, direction)
                known[one, direction] = tensors, results(one, tensors, direction), bounds
            tensors, expected, bounds = known[one, direction]
            apart = distance(expected, results(other, tensors, direction), bounds)
            if apart <= TOLERANCES and not means_nothing(one, other, tensors, direction):
                silent.append(f"{direction}: {what}: {apart:.3g} tolerances")
    assert not silent, "\n".join(silent)


@pytest.mark.parametrize("kind", lowered())
def test_every_other_key_changes_some_result(kind: str) -> None:
    """No key is left out of the test above because nothing reads it."""
    told = set()
    for what, one, other in (pair for layer in layers(kind) for pair in pairs(layer)):
        name = what.partition("=")[0]
        if name in told:
            continue
        for direction in (each for each in one.able if each in other.able):
            if ports(one, direction) != ports(other, direction):
                told.add(name)
                continue
            tensors = read_tensors(one, shape_of(one), direction)
            if not means_nothing(one, other, tensors, direction):
                told.add(name)
    own = {
        f.name
        for f in fields_of_floats(LAYERS[kind])
        if not f.metadata["hint"] and not isinstance(f.default, DType)
    }
    first = getattr(LAYERS[kind], "first", None)
    assert told == own - ({f.name for f in first.keyed_fields()} if first else set())


@pytest.mark.parametrize(
    ("kind", "name"),
    [(k, f.name) for k in lowered() for f in LAYERS[k].keyed_fields() if f.metadata["hint"]],
)
def test_a_hint_changes_no_result(kind: str, name: str) -> None:
    layer = layers(kind)[0]
    for value in others(layer, name):
        other = replace(layer, **{name: value})
        for direction in layer.able:
            if accepts(other, SHAPE):
                assert ports(other, direction) == ports(layer, direction)
                tensors = read_tensors(layer, SHAPE, direction)
                assert means_nothing(layer, other, tensors, direction)


def test_many_windows_have_several_maxima() -> None:
    """So that the last of them in place of the first is seen: in an image that is turned around."""
    layer, shape = Pooling(), (2, 3, 9, 9)
    tensors = read_tensors(layer, shape, Pass.BACKWARD)
    turned = {name: tensor[:, :, ::-1, ::-1] for name, tensor in tensors.items()}
    first = layer.reference(tensors, Pass.BACKWARD)["dx"]
    last = layer.reference(turned, Pass.BACKWARD)["dx"][:, :, ::-1, ::-1]
    bounds = layer.tolerance(tensors, Pass.BACKWARD)["dx"]
    assert np.count_nonzero(np.abs(first - last) > TOLERANCES * bounds) >= 8
