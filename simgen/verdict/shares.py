"""What comes out of a step that several GPUs did, each on its share of the samples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.numerics import exactness, storing
from simgen.ground.numerics.rounding import accumulated
from simgen.ground.numerics.spread import Spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.ir import Pass, TensorSpec
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Layer, Tensors

Expected = dict[str, "tuple[Array, Array, Spread]"]  # by port: reference, tolerance, spread


def expected(
    layer: Layer,
    tensors: Tensors,
    direction: Pass,
    gpus: int,
    specs: Mapping[str, TensorSpec] = {},
) -> Expected:
    """(reference, tolerance, spread) of a step that `gpus` GPUs did, each its share of the samples.

    `tensors` are what the layer's `reference` takes, `specs` those of ports that may be narrow. A
    gradient's parts have the layer's tolerance for a share, and each goes through `gpus` - 1
    additions at most, as do sums that a loss is made of. What the layer knows to the bit has no
    tolerance: sums that are exact over the whole batch are so over parts of it.
    """
    found = _rounded(layer, tensors, direction, gpus)
    # Whole numbers are not exact where the machine rounds their products, as gem5 does.
    known = {} if layer.machine.rounds_products else layer.exact(tensors, direction)
    for port, values in known.items():
        reference, bound, spread = found[port]
        sigma = exactness.cleared(spread.sigma, values)
        found[port] = (
            exactness.filled(reference, values),
            exactness.cleared(bound, values),
            replace(spread, sigma=sigma),
        )
    for port, spec in specs.items():
        found[port] = storing.stored(*found[port], spec.dtype)
    return found


def _rounded(layer: Layer, tensors: Tensors, direction: Pass, gpus: int) -> Expected:
    """The same for sums that are all rounded."""
    if gpus == 1:
        reference = layer.reference(tensors, direction)
        tolerance = layer.tolerance(tensors, direction)
        spread = layer.spread(tensors, direction, tolerance)
        return {port: (reference[port], tolerance[port], spread[port]) for port in reference}
    one = layer.among(gpus)
    shares = [_rounded(one, _rows(layer, tensors, at, gpus), direction, 1) for at in range(gpus)]
    whole = _rounded(layer, tensors, direction, 1) if layer.agreed else {}
    found: Expected = {}
    for port in shares[0]:
        if port in layer.agreed:
            # Sums over a share have no more additions than those over all samples.
            value, error, around = whole[port]
            more = accumulated(gpus - 1) * (abs(value) + error)
            found[port] = value, error + more, Spread(around.sigma + more, around.shared)
            continue
        values, errors, spreads = zip(*(share[port] for share in shares), strict=True)
        sigmas = [spread.sigma for spread in spreads]
        shared = max(spread.shared for spread in spreads)
        if port in layer.reduced:
            magnitude = sum(abs(v) + e for v, e in zip(values, errors, strict=True))
            bound = np.sum(errors, axis=0) + accumulated(gpus - 1) * magnitude
            sigma = np.sum(sigmas, axis=0) + accumulated(gpus - 1) * magnitude
            found[port] = np.sum(values, axis=0), bound, Spread(sigma, shared)
        else:
            sigma = np.concatenate(sigmas)
            found[port] = np.concatenate(values), np.concatenate(errors), Spread(sigma, shared)
    return found


def _rows(layer: Layer, tensors: Tensors, at: int, gpus: int) -> Tensors:
    """What GPU `at` has of the tensors; given statistics (1, C, ...) are those of all samples."""
    whole = (*layer.parameters, *layer.gradients)
    return {
        port: values if port in whole or len(values) == 1 else np.split(values, gpus)[at]
        for port, values in tensors.items()
    }
