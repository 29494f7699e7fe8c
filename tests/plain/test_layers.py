"""What every lowered layer promises, whichever it is: shapes, gradients, names, counts, bounds."""

from __future__ import annotations

import math
import random
import re
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from census import census
from layer_variants import (
    BASE,
    NUMBERS_OF_AXES,
    OF_NARROW_TYPES,
    RESPELLED,
    SMALLEST,
    Variant,
    accepts,
    contract_shapes,
    each_pass,
    each_variant,
    fields_of_floats,
    fitting,
    inputs_of,
    lowered,
    read_tensors,
    variants,
)
from scipy import special  # what else is used of it takes long to import

from simgen.frontend import network, problem
from simgen.frontend.config import Config
from simgen.ground import resources
from simgen.ground.ir import DType, Pass
from simgen.ground.machine import NoRoomError
from simgen.layers import LAYERS
from simgen.layers.base import field_types
from simgen.layers.optimiser import Optimiser

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from layer_variants import Array

    from simgen.ground.numerics.spread import Spread
    from simgen.layers import Layer

F, B = Pass.FORWARD, Pass.BACKWARD
each_kind = pytest.mark.parametrize("kind", lowered())


def ports_of(layer: Layer, shape: tuple[int, ...], direction: Pass) -> tuple[dict[str, Any], ...]:
    """(read, written): port name -> spec."""
    ports = layer.ports(inputs_of(layer, shape), direction)
    read = {port.name: port.spec for port in ports if port.fill is not None}
    written = {port.name: port.spec for port in ports if port.fill is None and not port.scratch}
    assert len(read) + len(written) == sum(not port.scratch for port in ports)
    return read, written


# ---- Ports, reference and gradient ----


@each_pass
def test_references_tolerances_and_spreads_fit_together(variant: Variant, direction: Pass) -> None:
    layer = variant.layer
    for shape in contract_shapes(layer):
        tensors = read_tensors(layer, shape, direction)
        references = layer.reference(tensors, direction)
        tolerance = layer.tolerance(tensors, direction)
        _, written = ports_of(layer, shape, direction)
        for made in (references, tolerance):
            assert {name: a.shape for name, a in made.items()} == {
                name: spec.shape for name, spec in written.items()
            }
            assert {a.dtype for a in made.values()} == {np.dtype(np.float64)}
        the_spread_is_no_more_and_judges_all_that_has_a_tolerance(
            layer.spread(tensors, direction, tolerance), tolerance
        )
        if shape[0] != layer.contract.cancelling_batch:
            tolerance_is_small_and_lets_float32_pass(layer, tensors, references, tolerance)


def the_spread_is_no_more_and_judges_all_that_has_a_tolerance(
    found: Mapping[str, Spread], tolerance: Mapping[str, Array]
) -> None:
    """What has a spread of zero is not judged by it."""
    assert found.keys() == tolerance.keys()
    for name, bound in tolerance.items():
        sigma = found[name].sigma
        assert sigma.shape == bound.shape
        assert ((sigma > 0) == (bound > 0)).all()
        assert (sigma <= bound).all()


def spreads_errors(layer: Layer) -> bool:
    """Whether an error of one element is found in others."""
    return str(getattr(layer, "algo", "")) in layer.contract.spreading_algorithms


def tolerance_is_small_and_lets_float32_pass(
    layer: Layer,
    tensors: dict[str, Array],
    references: Mapping[str, Array],
    tolerance: Mapping[str, Array],
) -> None:
    for name, bound in tolerance.items():
        reference = references[name]
        assert np.isfinite(bound).all()
        assert (bound >= 0).all()
        # Few elements may all be near zero, and have no scale.
        if reference.size >= 64 and reference.any():
            # A dot product may cancel: its bound goes with the sum of the absolute terms.
            most = 1e-3 if layer.parameters or not layer.takes_input else 1e-5
            most *= (2 if spreads_errors(layer) else 1) * layer.magnifies(tensors)
            large = f"the bound is more than {most:g} of the largest result: add long sums in parts"
            assert bound.max() <= most * np.abs(reference).max(), large
        # The result that is nearest to the reference must be accepted.
        nearest = reference.astype(np.float32).astype(np.float64)
        assert (np.abs(nearest - reference) <= bound).all()


@each_pass
def test_ports_have_their_usual_meaning(variant: Variant, direction: Pass) -> None:
    layer = variant.layer
    for shape in contract_shapes(layer):
        read, written = ports_of(layer, shape, direction)
        inputs = inputs_of(layer, shape)
        xs = dict(zip(layer.takes, inputs))
        ys = layer.outputs(inputs)
        usual = {**xs, **ys}
        for name, spec in (read | written).items():
            wanted = usual.get(name.removeprefix("d"), spec)
            shape_there = wanted.shape
            if name.removeprefix("d") in usual and layer.formats == ("nhwc",):
                n, c, h, w = shape_there
                shape_there = (n, h, w, c)
            assert spec.shape == shape_there
            # Master weights are of another type than their gradient.
            assert spec.dtype == wanted.dtype or (name == "dx" and isinstance(layer, Optimiser))
        here = {port.name for port in layer.ports(inputs, F)}  # without a bias there is no db
        gradients = {f"d{name}" for name in layer.parameters if name in here}
        if direction is F:
            assert set(xs) <= set(read)
            assert set(ys) <= set(written)
            assert not {*(f"d{name}" for name in ys), *gradients} & set(read | written)
            continue
        if direction is not Pass.BACKWARD_WEIGHT or not layer.data_first:
            assert {f"d{name}" for name in ys} <= set(read)
        if direction is not Pass.BACKWARD_WEIGHT:
            assert {f"d{name}" for name in xs if name not in layer.indices} <= set(written)
        if direction is not Pass.BACKWARD_DATA:
            assert gradients <= set(written)


LONG = 511  # terms of a sum of both signs: of longer ones, many are near zero beside their bounds
MANY, SOME = 1000, 64  # elements of a tensor; of so many, the slopes at some are enough


def kink_free(right: Array, left: Array, step: float) -> Any:
    """Where the slopes on both sides are those of a smooth function."""
    return np.abs(right - left) < 100 * step


@each_variant
def test_backward_is_the_derivative_of_forward(variant: Variant) -> None:
    """Of products, by small ones: the mathematics of larger ones is the same."""
    if variant.kind == "gemm":
        extents = {key: str(min(int(dict(variant.parameters)[key]), 9)) for key in "mnk"}
        variant = Variant("gemm", tuple((k, extents.get(k, v)) for k, v in variant.parameters))
    layer = variant.layer
    backward = [direction for direction in layer.able if direction is not F]
    if not backward:
        return
    shape = SMALLEST if accepts(layer, SMALLEST) else contract_shapes(layer)[0]
    shape = layer.contract.slope_shape or shape
    tensors = read_tensors(layer, shape, F)
    made = layer.reference(tensors, F)
    random = np.random.default_rng(3)
    outputs = layer.outputs(inputs_of(layer, shape))
    slopes = {f"d{name}": random.standard_normal(made[name].shape) for name in outputs}
    known = {**tensors, **made, **slopes}
    gradients: dict[str, Array] = {}
    for direction in backward:
        read, _ = ports_of(layer, shape, direction)
        drawn = read_tensors(layer, shape, direction)
        shapes = {port: drawn[port] for port in layer.shape_given if port in drawn}
        found = layer.reference(shapes | {name: known[name] for name in read}, direction)
        known |= found
        passed_on = layer.carried(direction)  # from step to step: gradients of what has no port
        gradients |= {port: found[port] for port in found if port not in passed_on}

    def loss(name: str, at: int, step: float) -> float:
        moved = tensors[name].copy()
        moved.reshape(-1)[at] += step
        there = layer.reference({**tensors, name: moved}, F)
        return float(sum((slopes[f"d{y}"] * there[y]).sum() for y in outputs))

    step = 1e-4
    for port, gradient in gradients.items():
        name = port.removeprefix("d")
        places = np.arange(tensors[name].size)
        if places.size > MANY:
            places = random.choice(places, SOME, replace=False)
        here = loss(name, 0, 0.0)
        right = np.array([loss(name, at, step) - here for at in places]) / step
        left = np.array([here - loss(name, at, -step) for at in places]) / step
        smooth = kink_free(right, left, step)
        assert smooth.mean() > 0.9
        found = gradient.reshape(-1)[places]
        np.testing.assert_allclose(
            found[smooth], ((right + left) / 2)[smooth], rtol=1e-6, atol=1e-6, err_msg=port
        )


@each_pass
def test_per_sample_layers_treat_each_sample_by_itself(variant: Variant, direction: Pass) -> None:
    layer = variant.layer
    if not layer.per_sample or direction is Pass.BACKWARD_WEIGHT:
        return  # samples depend on each other
    tensors = read_tensors(layer, fitting(layer, 3, 5, 2, 3), direction)
    for method in (layer.reference, layer.tolerance):
        whole = method(tensors, direction)
        for n in range(3):
            alone = method(
                {p: t if p in layer.parameters else t[n : n + 1] for p, t in tensors.items()},
                direction,
            )
            for name, part in alone.items():
                np.testing.assert_array_equal(part, whole[name][n : n + 1])


def softmax(variant: Variant, x: Array) -> Array:
    given = dict(variant.parameters)
    axis: Any = int(given["softmax_axis"])
    if given["softmax_mode"] == "instance":
        axis = tuple(range(1, x.ndim))
    if given["softmax_algo"] == "log":
        return special.log_softmax(x, axis=axis)
    return special.softmax(x, axis=axis)


def cross_entropy(variant: Variant, x: Array, labels: Array) -> Array:
    given = dict(variant.parameters)
    log_p = np.moveaxis(special.log_softmax(x, axis=int(given["axis"])), int(given["axis"]), -1)
    rows = log_p.reshape(-1, log_p.shape[-1])
    pairs = zip(rows, labels.astype(int).flat, strict=True)
    losses = [-row[label] for row, label in pairs if label != int(given["ignore_index"])]
    return np.array([math.fsum(losses) / max(1, len(losses))])


def sampled_softmax(variant: Variant, x: Array, w: Array, labels: Array, samples: Array) -> Array:
    """The mean of a log-softmax over the right word and those samples that are others."""
    zipf = float(np.float32(float(dict(variant.parameters)["zipf"]) * math.log(2)))
    losses = []
    for row, label in zip(x.reshape(-1, x.shape[-1]), labels.astype(int).flat, strict=True):
        words = [label, *(word for word in samples.astype(int) if word != label)]
        scores = [math.fsum(row * w[word]) + zipf * math.log2(word + 1) for word in words]
        losses.append(-special.log_softmax(scores)[0])
    return np.array([math.fsum(losses) / len(losses)])


def squared_error(variant: Variant, x: Array, target: Array) -> Array:
    return np.array([math.fsum((x - target).ravel() ** 2) / x.size])


def activation(variant: Variant, x: Array) -> Array:
    given = dict(variant.parameters)
    ceiling = np.float64(np.float32(float(given["activation_ceiling"])))
    alpha = np.float64(np.float32(float(given["activation_alpha"])))
    # Below -16, both forms of gelu are less than float32 has.
    kept = np.maximum(x, -16.0)
    cubes = 0.044715 * kept**3
    functions: dict[str, Callable[[Array], Array]] = {
        "relu": lambda x: x * np.heaviside(x, 0.0),
        "sigmoid": special.expit,
        "tanh": lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)),
        "clipped_relu": lambda x: np.median([x, np.zeros_like(x), np.full_like(x, ceiling)], 0),
        "soft_relu": lambda x: -special.log_expit(-x),
        "gelu": lambda x: kept * special.ndtr(kept),
        "gelu_tanh": lambda x: kept * special.expit(8**0.5 / np.pi**0.5 * (kept + cubes)),
        "silu": lambda x: x * special.expit(x),
        "elu": lambda x: np.maximum(x, 0) + alpha * special.expm1(np.minimum(x, 0)),
    }
    return functions[given["activation_mode"]](x)


def gate(variant: Variant, x0: Array, x1: Array | None = None) -> Array:
    given = dict(variant.parameters)
    if x1 is None:
        x0, x1 = x0[..., : x0.shape[-1] // 2], x0[..., x0.shape[-1] // 2 :]
    return gate_of(given["gate_mode"], x0) * x1


def gate_of(mode: str, x: Array) -> Array:
    units: dict[str, Callable[[Array], Array]] = {
        "swiglu": lambda x: x * special.expit(x),
        "geglu": lambda x: x * special.ndtr(x),
        "geglu_tanh": lambda x: x * special.expit(8**0.5 / np.pi**0.5 * (x + 0.044715 * x**3)),
        "glu": special.expit,
    }
    return units[mode](x)


def router(variant: Variant, x: Array, bias: Array | None = None) -> Array:
    given = dict(variant.parameters)
    k, groups, kept = (int(given[name]) for name in ("top_k", "groups", "top_groups"))
    softmax = given["scores_mode"] == "softmax"
    y = np.empty((*x.shape[:-1], k))
    for place in np.ndindex(x.shape[:-1]):
        row = x[place]
        s = special.softmax(row) if softmax else special.expit(row)
        scores = row if bias is None else s + bias
        parts = np.split(scores, groups)
        best = [max(p) if bias is None else sum(sorted(p)[-2:]) for p in parts]
        open_groups = sorted(range(groups), key=lambda g: -best[g])[:kept]
        allowed = [e for e in range(len(row)) if e * groups // len(row) in open_groups]
        chosen = s[sorted(allowed, key=lambda e: -scores[e])[:k]]
        y[place] = chosen / math.fsum(chosen) if given["normalised"] == "true" else chosen
    return y * np.float64(np.float32(float(given["weight_scale"])))


def causal_conv(
    variant: Variant, x: Array, w: Array, state: Array | None = None, b: Array | None = None
) -> Array:
    """By SciPy's correlation of each channel."""
    y = np.empty_like(x)
    for n, c in np.ndindex(x.shape[0], x.shape[2]):
        before = np.zeros(w.shape[1] - 1) if state is None else state[n, :, c]
        y[n, :, c] = np.correlate(np.concatenate([before, x[n, :, c]]), w[c], "valid")
        y[n, :, c] += 0.0 if b is None else b[c]
    return y * special.expit(y) if dict(variant.parameters)["silu"] == "true" else y


def cache(variant: Variant, k: Array, v: Array, slots: Array, **caches: Array) -> Array:
    """Token by token, as the paper tells it."""
    given = dict(variant.parameters)
    pages = caches["key_cache"].copy()
    factor = float(np.float32(1 / float(given["k_scale"])))
    for token, slot in zip(k, slots.astype(int).tolist()):
        pages[slot // int(given["page"]), slot % int(given["page"])] = token * factor
    return pages


def delta_rule(
    variant: Variant, q: Array, k: Array, v: Array, a: Array, b: Array, decay: Array, dt: Array,
    state: Array | None = None,
) -> Array:  # fmt: skip
    """One head after the other, the state as a matrix that is multiplied by I - beta k k^T."""
    given, y = dict(variant.parameters), np.empty_like(v)
    scale = float(np.float32(float(given["scale"]))) or float(np.float32(q.shape[3] ** -0.5))
    for n, g in np.ndindex(v.shape[0], v.shape[2]):
        s = np.zeros((q.shape[3], v.shape[3])) if state is None else state[n, g]
        for t in range(v.shape[1]):
            query, key = (each[n, t, g * q.shape[2] // v.shape[2]] for each in (q, k))
            if given["normalised"] == "true":
                query, key = (x / math.sqrt(x @ x + float(np.float32(1e-6))) for x in (query, key))
            alpha = math.exp(-math.exp(decay[g]) * np.logaddexp(0, a[n, t, g] + dt[g]))
            beta = special.expit(b[n, t, g])
            gone = np.eye(len(key)) - beta * np.outer(key, key)
            s = alpha * gone @ s + beta * np.outer(key, v[n, t, g])
            y[n, t, g] = scale * query @ s
    return y


def chunk_state(variant: Variant, k: Array, w: Array, u: Array, g: Array, state: Array) -> Array:
    """Token by token: what a state has at the end of a chunk is a sum over its tokens."""
    chunk, y = int(dict(variant.parameters)["chunk"]), np.empty_like(u)
    for n, h in np.ndindex(u.shape[0], u.shape[2]):
        s, key_head = state[n, h], h * k.shape[2] // u.shape[2]
        for first in range(0, u.shape[1], chunk):
            tokens = range(first, min(first + chunk, u.shape[1]))
            for t in tokens:
                y[n, t, h] = u[n, t, h] - w[n, t, h] @ s
            end = g[n, tokens[-1], h]
            s = s * math.exp(end) + sum(
                np.outer(k[n, t, key_head], y[n, t, h]) * math.exp(end - g[n, t, h]) for t in tokens
            )
    return y


def chunk_output(variant: Variant, q: Array, k: Array, v: Array, h: Array, g: Array) -> Array:
    given, y = dict(variant.parameters), np.empty_like(v)
    scale = float(np.float32(float(given["scale"]))) or float(np.float32(q.shape[3] ** -0.5))
    chunk = int(given["chunk"])
    for n, t, head in np.ndindex(v.shape[:3]):
        own, first = head * q.shape[2] // v.shape[2], t // chunk * chunk
        y[n, t, head] = math.exp(g[n, t, head]) * q[n, t, own] @ h[n, t // chunk, head]
        for j in range(first, t + 1):
            score = q[n, t, own] @ k[n, j, own] * math.exp(g[n, t, head] - g[n, j, head])
            y[n, t, head] += score * v[n, j, head]
    return scale * y


def qk_rms_norm(variant: Variant, x: Array, gamma: Array) -> Array:
    given, y = dict(variant.parameters), x.copy()
    queries, keys = int(given["query_heads"]), int(given["key_heads"])
    epsilon = float(np.float32(float(given["epsilon"])))
    for place in np.ndindex(x.shape[:-1]):
        if place[-1] < queries + keys:
            mean = math.fsum(x[place] ** 2) / x.shape[-1]
            y[place] *= gamma[int(place[-1] >= queries)] / math.sqrt(mean + epsilon)
    return y


def top_k(variant: Variant, x: Array) -> Array:
    most = int(dict(variant.parameters)["top_k"])
    kept = [row >= sorted(row.tolist())[-most] for row in x.reshape(-1, x.shape[-1])]
    return np.where(np.array(kept).reshape(x.shape), x, -(2.0**15))


def top_p(variant: Variant, x: Array) -> Array:
    """The filter of Hugging Face's transformers: the smallest elements whose sum is little go."""
    share = float(np.float32(float(dict(variant.parameters)["share"])))
    y = np.empty_like(x)
    for place in np.ndindex(x.shape[:-1]):
        p = special.softmax(x[place])
        kept, total = set[int](), 0.0
        for i in np.argsort(-p).tolist():
            if total >= share:
                break
            kept.add(i)
            total += p[i]
        y[place] = [each if i in kept else -(2.0**15) for i, each in enumerate(x[place])]
    return y


def sample(variant: Variant, x: Array, u: Array | None = None) -> Array:
    if u is None:
        return np.argmax(x, axis=-1).astype(float)
    sums = np.cumsum(special.softmax(x, axis=-1), axis=-1)
    sums /= sums[..., -1:]
    found = [np.searchsorted(sums[at], u[at], "right") for at in np.ndindex(u.shape)]
    return np.array(found, float).reshape(u.shape)


def reduce_sum(variant: Variant, x: Array) -> Array:
    given = dict(variant.parameters)
    y = np.apply_along_axis(math.fsum, int(given["axis"]), x)
    return np.expand_dims(y, int(given["axis"])) * float(np.float32(float(given["factor"])))


def expert_blocks(variant: Variant, ids: Array) -> Array:
    given = dict(variant.parameters)
    rows, experts, order = int(given["block_rows"]), int(given["experts"]), list[float]()
    for e in range(experts):
        order += np.flatnonzero(ids.reshape(-1) == e).tolist()
        order += [ids.size] * (-len(order) % rows)
    most = ids.size if ids.size <= experts else experts + (ids.size - experts) // rows
    return np.array(order + [ids.size] * (most * rows - len(order)), float)


# Of formats: the names of ml_dtypes of elements and of scales, bits of an element, of a group.
MX, E4M3 = "float8_e8m0fnu", "float8_e4m3fn"
STORED = {
    "fp8_token": (E4M3, "float32", 8, 0), "fp8_group": (E4M3, "float32", 8, 128),
    "mxfp8": (E4M3, MX, 8, 32), "mxfp8_e5m2": ("float8_e5m2", MX, 8, 32),
    "mxfp6": ("float6_e2m3fn", MX, 6, 32), "mxfp6_e3m2": ("float6_e3m2fn", MX, 6, 32),
    "mxfp4": ("float4_e2m1fn", MX, 4, 32), "nvfp4": ("float4_e2m1fn", E4M3, 4, 16),
    "int4": ("int4", "float16", 4, 128),
}  # fmt: skip


def typed(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def quantise(variant: Variant, x: Array) -> Array:
    """OCP's algorithm and vLLM's formulae; elements are those of ml_dtypes."""
    given = dict(variant.parameters)
    kind, scale_kind, bits, group = STORED[given["format"]]
    groups = x.reshape(*x.shape[:-1], -1, int(given["group_size"]) or group or x.shape[-1])
    most = 7 if kind == "int4" else float(ml_dtypes.finfo(typed(kind)).max)
    m = np.abs(groups).max(axis=-1, keepdims=True)
    if scale_kind == MX:
        scale = 2.0 ** (np.floor(np.log2(m)) - np.floor(np.log2(most)))
        assert (scale.astype(typed(MX)).astype(float) == scale).all()
    elif scale_kind == "float32":
        scale = np.maximum(m, 1e-10) / most
    else:
        fraction, exponent = np.frexp(m)  # 14 bits of float32, a tie upward
        m = np.ldexp(np.floor(fraction * 2**14 + 0.5), exponent - 14)
        scale = (m / most).astype(typed(scale_kind)).astype(float)
    number = np.clip(groups / scale, -most, most).reshape(x.shape)
    if bits == 8:
        return np.asarray(number)
    if kind == "int4":
        codes = np.rint(number).astype(int) % 16
    else:
        codes = number.astype(typed(kind)).view("u1").astype(int)
    stored = b"".join(
        sum(code << bits * i for i, code in enumerate(row)).to_bytes(len(row) * bits // 8, "little")
        for row in codes.reshape(-1, x.shape[-1]).tolist()
    )
    made = np.frombuffer(stored, "i1" if kind == "int4" else "u1")
    return made.reshape(*x.shape[:-1], -1).astype(float)


def unscaled(form: str, stored: Array, scales: Array, rows: int = 1) -> Array:
    """The numbers of a matrix, whose scales are of so many rows."""
    kind, scale_kind, bits, _ = STORED[form]
    numbers = stored
    if bits < 8:
        streams = [int.from_bytes(bytes(row), "little") for row in (stored % 256).astype("u1")]
        places = range(0, stored.shape[-1] * 8, bits)
        codes = np.array([[s >> at & 2**bits - 1 for at in places] for s in streams])
        if kind == "int4":
            numbers = codes - 16.0 * (codes > 7)
        else:
            numbers = codes.astype("u1").view(typed(kind)).astype(float)
    if scale_kind == MX:
        scales = scales.astype("u1").view(typed(MX)).astype(float)
    group = numbers.shape[-1] // scales.shape[-1]
    at = np.arange(len(numbers))[:, np.newaxis] // rows, np.arange(numbers.shape[1]) // group
    return np.asarray(numbers * scales[at])


def scaled_fc(
    variant: Variant, x: Array, w: Array, w_scales: Array, x_scales: Array | None = None
) -> Array:
    given = dict(variant.parameters)
    matrix = x.reshape(-1, x.shape[-1])
    if x_scales is not None:
        matrix = unscaled(given["format"], matrix, x_scales.reshape(len(matrix), -1))
    weights = unscaled(given["format"], w, w_scales, int(given["block_rows"]))
    return np.einsum("mk,nk->mn", matrix, weights).reshape(*x.shape[:-1], -1)


def experts(
    variant: Variant, x: Array, weights: Array, ids: Array, w_gate_up: Array, w_down: Array,
    w_gate_up_scales: Array | None = None, w_down_scales: Array | None = None,
) -> Array:  # fmt: skip
    given = dict(variant.parameters)
    if w_gate_up_scales is not None and w_down_scales is not None:
        form, rows = given["format"], int(given["block_rows"])
        w_gate_up, w_down = (
            np.stack([unscaled(form, *each, rows) for each in zip(*both, strict=True)])
            for both in ((w_gate_up, w_gate_up_scales), (w_down, w_down_scales))
        )
    used = sorted(set(ids.reshape(-1).tolist()))
    y = np.zeros_like(x)
    for place in np.ndindex(x.shape[:-1]):
        for weight, e in zip(weights[place], ids[place].tolist(), strict=True):
            at = used.index(e) % int(given["stored"]) if int(given["stored"]) else int(e)
            gate, up = np.split(np.einsum("d,fd->f", x[place], w_gate_up[at]), 2)
            gated = gate_of(given["gate_mode"], gate) * up
            y[place] += weight * np.einsum("f,df->d", gated, w_down[at])
    return y


def gemm(variant: Variant, a: Array, b: Array, c: Array | None = None) -> Array:
    given = dict(variant.parameters)
    alpha, beta = (np.float64(np.float32(float(given[name]))) for name in ("alpha", "beta"))
    if a.ndim > 2:
        cs = [None] * len(a) if c is None else c
        return np.stack([gemm(variant, *each) for each in zip(a, b, cs, strict=True)])
    rows = a.T if given["a_t"] == "true" else a
    columns = b if given["b_t"] == "true" else b.T
    y = alpha * np.array([[math.fsum(row * column) for column in columns] for row in rows])
    return y if c is None else y + beta * c


def all_reduce(variant: Variant, x: Array) -> Array:
    columns = x.reshape(len(x), -1).T
    return np.array([math.fsum(column) for column in columns]).reshape(x.shape[1:])


def sparse_gemm(variant: Variant, values: Array, columns: Array, rows: Array, b: Array) -> Array:
    from scipy import sparse

    side = 1 if values.ndim == 1 else values.shape[1]
    blocks = values.reshape(-1, side, side)
    shape = ((len(rows) - 1) * side, len(b))
    a = sparse.bsr_array((blocks, columns.astype(int), rows.astype(int)), shape=shape)
    y: Array = a @ b
    return y


def structured_gemm(variant: Variant, values: Array, positions: Array, b: Array) -> Array:
    y = np.zeros((len(values), b.shape[1]))
    for i, g in np.ndindex(len(values), len(b) // 4):
        pair = int(positions[i, g // 8]) % 2**32 >> 4 * (g % 8) & 15
        for at, place in enumerate((pair & 3, pair >> 2)):
            y[i] += values[i, 2 * g + at] * b[4 * g + place]
    return y


def fully_connected(variant: Variant, x: Array, w: Array, b: Array | None = None) -> Array:
    axis = int(dict(variant.parameters)["axis"]) % x.ndim
    rows = x.reshape(*x.shape[:axis], -1)
    y = np.array(
        [[math.fsum(row * weights) for weights in w] for row in rows.reshape(-1, w.shape[1])]
    )
    y = (y if b is None else y + b).reshape(*rows.shape[:-1], len(w))
    return y[..., np.newaxis, np.newaxis] if axis == 1 else y


def layer_norm(variant: Variant, x: Array, gamma: Array, beta: Array) -> Array:
    given = dict(variant.parameters)
    epsilon = float(np.float32(float(given["epsilon"])))
    axis = int(given["axis"]) % x.ndim
    y = np.empty_like(x)
    for place in np.ndindex(x.shape[:axis]):
        row = x[place]
        mean = math.fsum(row.flat) / row.size
        var = math.fsum((row - mean).ravel() ** 2) / row.size
        y[place] = gamma * (row - mean) / math.sqrt(var + epsilon) + beta
    return y


def rms_norm(variant: Variant, x: Array, gamma: Array) -> Array:
    given = dict(variant.parameters)
    epsilon = float(np.float32(float(given["epsilon"])))
    axis = int(given["axis"]) % x.ndim
    y = np.empty_like(x)
    for place in np.ndindex(x.shape[:axis]):
        row = x[place]
        y[place] = gamma * row / math.sqrt(math.fsum(row.ravel() ** 2) / row.size + epsilon)
    return y


def add_rms_norm(variant: Variant, x0: Array, x1: Array, gamma: Array) -> Array:
    return rms_norm(variant, x0 + x1, gamma)


def quantised_add_rms_norm(variant: Variant, x0: Array, x1: Array, gamma: Array) -> Array:
    rows = rms_norm(variant, x0 + x1, gamma)
    behind = tuple(range(int(dict(variant.parameters)["axis"]) % x0.ndim, x0.ndim))
    scale = np.maximum(np.abs(rows).max(axis=behind, keepdims=True), 1e-10) / 448
    return np.asarray(rows / scale)


def gated_rms_norm(variant: Variant, x: Array, z: Array, gamma: Array) -> Array:
    return rms_norm(variant, x, gamma) * z * special.expit(z)


def l2_norm(variant: Variant, x: Array) -> Array:
    given = dict(variant.parameters)
    epsilon = float(np.float32(float(given["epsilon"])))
    axes = tuple(range(int(given["axis"]) % x.ndim, x.ndim))
    y: Array = x / np.hypot(np.linalg.norm(x, axis=axes, keepdims=True), math.sqrt(epsilon))
    return y


def slice_(variant: Variant, x: Array) -> Array:
    """The first part: where the others lie, numerical derivatives and `Concat` tell."""
    given = dict(variant.parameters)
    axis = int(given["axis"])
    return x.take(range(x.shape[axis] // int(given["outputs"])), axis)


def bypass(variant: Variant, x: Array) -> Array:
    return x


def add(variant: Variant, **xs: Array) -> Array:
    return np.einsum("i...->...", [xs[f"x{at}"] for at in range(len(xs))])


def concat(variant: Variant, **xs: Array) -> Array:
    axis = int(dict(variant.parameters)["axis"])
    parts = [np.moveaxis(xs[f"x{at}"], axis, 0) for at in range(len(xs))]
    y = np.full((len(parts) * len(parts[0]), *parts[0].shape[1:]), np.nan)
    for at, part in enumerate(parts):
        y[at * len(part) : (at + 1) * len(part)] = part
    return np.moveaxis(y, 0, axis)


def sgd(variant: Variant, x: Array, dx: Array, v: Array | None = None) -> Array:
    given = dict(variant.parameters)
    names = ("rate", "loss_scale", "momentum", "weight_decay")
    rate, scale, momentum, decay = (float(given[name]) for name in names)
    if not momentum and not decay:
        rate = np.float64(np.float32(rate / scale))
        steps = [math.fsum([a, -rate * b]) for a, b in zip(x.flat, dx.flat)]
        return np.array(steps).reshape(x.shape)
    rate, scale, momentum, decay = map(float, np.float32([rate, 1 / scale, momentum, decay]))
    g = scale * dx + decay * x
    way = g if v is None else momentum * v + g
    return x - rate * (g + momentum * way if given["nesterov"] == "true" else way)


def adam(variant: Variant, x: Array, dx: Array, m: Array, v: Array, c: Array) -> Array:
    """Algorithm 1 of the paper; 1 - c is its power of beta."""
    given = dict(variant.parameters)
    names = ("rate", "loss_scale", "beta1", "beta2", "epsilon", "weight_decay")
    rate, scale, beta1, beta2, epsilon, decay = (float(given[name]) for name in names)
    rests = (float(np.float32(1 - beta)) for beta in (beta1, beta2))
    decoupled = given["decoupled"] == "true"
    kept = float(np.float32(1 - rate * decay)) if decoupled else 1.0
    rate, scale, beta1, beta2, epsilon = map(
        float, np.float32([rate, 1 / scale, beta1, beta2, epsilon])
    )
    rest1, rest2 = rests
    g = dx * scale + (0.0 if decoupled else float(np.float32(decay)) * x)
    first, second = beta1 * m + rest1 * g, beta2 * v + rest2 * g * g
    first, second = first / (beta1 * c[0] + rest1), second / (beta2 * c[1] + rest2)
    return kept * x - rate * first / (np.sqrt(second) + epsilon)


def philox(counter: int, seed: int) -> list[int]:
    """Philox-4x32-7 as the paper's figure 3 has it: two words at a time."""
    words, keys = [counter, 0, 0, 0], [seed, 0]
    for _ in range(7):
        high_0, low_0 = divmod(0xD2511F53 * words[0], 2**32)
        high_1, low_1 = divmod(0xCD9E8D57 * words[2], 2**32)
        words = [high_1 ^ words[1] ^ keys[0], low_1, high_0 ^ words[3] ^ keys[1], low_0]
        keys = [(keys[0] + 0x9E3779B9) % 2**32, (keys[1] + 0xBB67AE85) % 2**32]
    return words


def test_philox_gives_the_known_answer_of_random123() -> None:
    assert philox(0, 0) == [0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48]


def dropout(variant: Variant, x: Array) -> Array:
    given = dict(variant.parameters)
    p, seed = float(given["dropout_probability"]), int(given["random_seed"])
    random = [w for counter in range(-(-x.size // 4)) for w in philox(counter, seed)][: x.size]
    keep = np.array([word / 2**32 >= p for word in random]).reshape(x.shape)
    return x * keep * np.float64(np.float32(1 / (1 - p))) if p < 1 else np.zeros_like(x)


def batch_norm(
    variant: Variant, x: Array, w: Array, b: Array,
    running_mean: Array | None = None, running_var: Array | None = None,
) -> Array:  # fmt: skip
    given = dict(variant.parameters)
    epsilon = float(np.float32(float(given["epsilon"])))
    y = np.empty_like(x)
    _, c, height, width = x.shape
    places = [(slice(None), i, j, k) for i, j, k in np.ndindex(c, height, width)]
    if given["batchnorm_mode"] == "spatial":
        places = [(slice(None), i, slice(None), slice(None)) for i in range(c)]
    for at, place in enumerate(places):
        each = x[place].ravel()
        mean = math.fsum(each) / each.size
        var = math.fsum(v * v for v in each - mean) / each.size
        if given["batchnorm_statistics"] == "running":
            assert running_mean is not None
            assert running_var is not None
            mean, var = running_mean.flat[at], running_var.flat[at]
        y[place] = w.flat[at] * ((x[place] - mean) / math.sqrt(var + epsilon)) + b.flat[at]
    return y


def pool(variant: Variant, x: Array) -> Array:
    """By slices that end at the image, or at its padding."""
    given = dict(variant.parameters)
    mode = given["pool_mode"]
    spans = []
    for axis, extent in zip("hw", x.shape[2:]):
        kernel, pad, stride = (int(given[f"{k}_{axis}"]) for k in ("kernel_size", "pad", "stride"))
        ends = extent + 2 * pad - kernel + (stride - 1 if given["round_mode"] == "ceil" else 0)
        starts = [p for p in range(-pad, ends - pad + 1, stride) if p < extent]
        margin = pad if mode == "avg_include_padding" else 0
        spans.append(
            [
                (slice(max(p, 0), p + kernel), min(p + kernel, extent + margin) - max(p, -margin))
                for p in starts
            ]
        )
    y = np.empty((*x.shape[:2], len(spans[0]), len(spans[1])))
    for p, (rows, height) in enumerate(spans[0]):
        for q, (columns, width) in enumerate(spans[1]):
            part = x[:, :, rows, columns]
            largest = part.max(axis=(2, 3))
            y[:, :, p, q] = largest if mode == "max" else part.sum(axis=(2, 3)) / (height * width)
    return y


def lrn(variant: Variant, x: Array) -> Array:
    """By a correlation with ones, which has the window's shape."""
    from scipy import ndimage

    given = dict(variant.parameters)
    alpha, beta, k = (np.float64(np.float32(given[name])) for name in ("alpha", "beta", "k"))
    size, within = int(given["local_size"]), given["lrn_mode"] == "within_channel"
    window = np.ones((1, 1, size, size) if within else (1, size, 1, 1))
    # An even window has its centre before the middle; ndimage's has it behind.
    energy = ndimage.correlate(
        x * x, window, mode="constant", origin=[-1 if n % 2 == 0 else 0 for n in window.shape]
    )
    return x / (k + alpha * energy / window.size) ** beta


def convolution(variant: Variant, x: Array, w: Array, b: Array | None = None) -> Array:
    from scipy import signal

    given = dict(variant.parameters)
    if given.get("layout") == "nhwc":
        flat = {**given, "layout": "nchw"}
        y = convolution(Variant(variant.kind, tuple(flat.items())), np.moveaxis(x, 3, 1), w, b)
        return np.moveaxis(y, 1, 3)
    if given.get("filter_layout") == "krsc":
        w = np.moveaxis(w, 3, 1)
    pad, stride, dilation = (
        tuple(int(given[f"{name}_{axis}"]) for axis in "hw")
        for name in ("pad", "stride", "dilation")
    )
    groups = int(given["group"])
    shift = 0 if b is None else b[:, None, None]
    extents = [(size - 1) * apart + 1 for size, apart in zip(w.shape[2:], dilation)]
    spread = np.zeros((*w.shape[:2], *extents))
    spread[:, :, :: dilation[0], :: dilation[1]] = w
    if given["conv_mode"] == "convolution":
        spread = np.flip(spread, (2, 3))
    parts = zip(np.split(x, groups, axis=1), np.split(spread, groups))
    if given["conv_mode"] == "transpose":
        made = [transposed(images, filters, stride) for images, filters in parts]
        whole = np.concatenate(made, axis=1)
        h, w_ = whole.shape[2:]
        return whole[:, :, pad[0] : h - pad[0], pad[1] : w_ - pad[1]] + shift
    padded = [(np.pad(images, [(0, 0), (0, 0), *zip(pad, pad)]), f) for images, f in parts]
    made = [
        [[signal.correlate(image, f, "valid", "direct")[0] for f in filters] for image in images]
        for images, filters in padded
    ]
    y: Array = np.concatenate(made, axis=1)[:, :, :: stride[0], :: stride[1]]
    return y + shift


def transposed(images: Array, filters: Array, stride: tuple[int, ...]) -> Array:
    """Every pixel (N, C) stamps its filters (C, K, R, S) onto the result."""
    n, _, h, w = images.shape
    _, k, r, s = filters.shape
    made = np.zeros((n, k, (h - 1) * stride[0] + r, (w - 1) * stride[1] + s))
    for i, j in np.ndindex(h, w):
        top, left = i * stride[0], j * stride[1]
        made[:, :, top : top + r, left : left + s] += np.tensordot(images[:, :, i, j], filters, 1)
    return made


def fused(
    variant: Variant, x: Array, w: Array, b: Array | None = None, **statistics: Array
) -> Array:
    given = dict(variant.parameters)
    y = (convolution if variant.kind == "fused_conv" else fully_connected)(variant, x, w, b)
    if given["batch_norm"] == "true":
        epsilon = float(np.float32(float(given["epsilon"])))
        bn_w, bn_b, mean, var = (
            statistics[name].reshape(-1, 1, 1)
            for name in ("bn_w", "bn_b", "running_mean", "running_var")
        )
        y = bn_w * (y - mean) / np.sqrt(var + epsilon) + bn_b
    return activation(variant, y) if given["activation"] == "true" else y


def heads(variant: Variant, x: Array) -> Array:
    count = int(dict(variant.parameters)["heads"])
    if x.ndim == 4:
        return np.concatenate([x[:, head] for head in range(count)], axis=2)
    return np.stack(np.split(x, count, axis=2), axis=1)


def recurrent(
    variant: Variant, x: Array, r: Array,
    w: Array | None = None, bw: Array | None = None, br: Array | None = None,
    h0: Array | None = None, c0: Array | None = None,
) -> Array:  # fmt: skip
    """The equations of torch.nn.RNN, LSTM and GRU as their documentation has them, by samples."""
    given = dict(variant.parameters)
    hidden = r.shape[1]
    time = range(len(x))[:: -1 if given["reverse"] == "true" else 1]
    y = np.empty((*x.shape[:2], hidden))
    for sample in range(x.shape[1]):
        h, c = (np.zeros(hidden) if at is None else at[sample] for at in (h0, c0))
        for t in time:
            x_t = x[t, sample].ravel()
            of_x = np.tile(x_t, len(r) // hidden) if w is None else w @ x_t
            a = np.split(of_x if bw is None else of_x + bw, len(r) // hidden)
            b = np.split(r @ h if br is None else r @ h + br, len(r) // hidden)
            match given["cell"]:
                case "lstm":
                    i, f, g, o = (p + q for p, q in zip(a, b))
                    c = special.expit(f) * c + special.expit(i) * np.tanh(g)
                    h = special.expit(o) * np.tanh(c)
                case "gru":
                    reset, update = (special.expit(p + q) for p, q in zip(a[:2], b[:2]))
                    h = (1 - update) * np.tanh(a[2] + reset * b[2]) + update * h
                case "tanh":
                    h = np.tanh(a[0] + b[0])
                case "relu":
                    h = (a[0] + b[0]) * (a[0] + b[0] > 0)
            y[t, sample] = h
    return y


def embedding(variant: Variant, w: Array, ids: Array) -> Array:
    count = int(dict(variant.parameters)["vocabulary"])
    one_hot = np.eye(count)[ids.astype(int)]
    return np.einsum("...v,ve->...e", one_hot, w)


def mask(variant: Variant, x: Array, lengths: Array | None = None) -> Array:
    y = x.copy()
    for sample in range(len(y)):
        if lengths is not None:
            y[sample, ..., int(lengths[sample]) :] = -32768
            continue
        later = np.triu_indices(x.shape[-2], x.shape[-1] - x.shape[-2] + 1, x.shape[-1])
        y[sample][..., later[0], later[1]] = -32768
    return y


def transpose(variant: Variant, x: Array) -> Array:
    return np.einsum("nt...->tn...", x)


def reduce_mean(variant: Variant, x: Array) -> Array:
    axis = int(dict(variant.parameters)["axis"])
    factor = np.float64(np.float32(1 / x.shape[axis]))
    sums = np.apply_along_axis(math.fsum, axis, x)
    return factor * np.expand_dims(sums, axis)


def rearrange(variant: Variant, x: Array) -> Array:
    given = dict(variant.parameters)
    rank = x.ndim

    def numbers(name: str, usual: int) -> Array:
        text = given[name]
        return np.array([int(each) for each in text.split("x")] if text else [usual] * rank)

    begin, to, step = numbers("begin", 0), numbers("to", 0), numbers("step", 1)
    match given["mode"]:
        case "permute":
            order = numbers("order", 0) if given["order"] else np.arange(rank)[::-1]
            return np.einsum(x, list(range(rank)), list(order))
        case "crop":
            for axis in range(rank):
                index = np.arange(begin[axis], x.shape[axis], step[axis])
                x = x.take(index[: to[axis] or None], axis)
            return x
        case "pad":
            before, behind = numbers("before", 0), numbers("behind", 0)
            y = np.full(before + x.shape + behind, np.float32(float(given["value"])), np.float64)
            y[tuple(slice(b, b + n) for b, n in zip(before, x.shape))] = x
            return y
        case _:
            return np.tile(x, [1 if n == 0 or n == have else n for n, have in zip(to, x.shape)])


def piecewise(variant: Variant, x: Array) -> Array:
    given = dict(variant.parameters)
    slope, offset, low, high = (
        np.float64(np.float32(float(given[name]))) for name in ("slope", "offset", "low", "high")
    )
    points = np.array([-offset / slope, (1 - offset) / slope])
    match given["piecewise_mode"]:
        case "leaky_relu":
            return np.maximum(x, 0) + slope * np.minimum(x, 0)
        case "clip":
            return np.median([x, np.full_like(x, low), np.full_like(x, high)], axis=0)
        case "linear":
            return np.polyval([slope, offset], x)
        case "swish":
            return x * special.expit(slope * x)
        case "hard_sigmoid":
            return np.where(x < points[0], 0, np.where(x > points[1], 1, slope * x + offset))
        case _:
            return np.where(x < points[0], 0, np.where(x > points[1], x, x * (slope * x + offset)))


def broadcast(variant: Variant, x0: Array, x1: Array) -> Array:
    """Both tensors written out, then term by term."""
    function = {"add": math.fsum, "subtract": lambda each: each[0] - each[1],
                "multiply": math.prod, "divide": lambda each: each[0] / each[1]}  # fmt: skip
    wanted = [max(each) for each in zip(x0.shape, x1.shape, strict=True)]
    whole = [np.tile(x, [w // e for w, e in zip(wanted, x.shape, strict=True)]) for x in (x0, x1)]
    pairs = zip(*(x.ravel().tolist() for x in whole), strict=True)
    made = [function[dict(variant.parameters)["operation"]](each) for each in pairs]
    return np.array(made).reshape(wanted)


def multiply(variant: Variant, x0: Array, x1: Array) -> Array:
    return np.einsum("...,...->...", x0, x1)


def subtract(variant: Variant, x0: Array, x1: Array) -> Array:
    return np.einsum("i,i...->...", [1.0, -1.0], np.stack([x0, x1]))


def divide(variant: Variant, x0: Array, x1: Array) -> Array:
    pairs = zip(x0.flat, x1.flat, strict=True)
    return np.array([float(Fraction(a) / Fraction(b)) for a, b in pairs]).reshape(x0.shape)


def attention(
    variant: Variant, q: Array, k: Array, v: Array, mask: Array | None = None,
    lengths: Array | None = None, table: Array | None = None, sinks: Array | None = None,
) -> Array:  # fmt: skip
    """Query by query, over a list of the keys that it sees."""
    given = dict(variant.parameters)
    size, window = int(given["page"]), int(given["window"])
    factor = float(np.float32(float(given["scale"]) or 1 / math.sqrt(q.shape[3])))
    cap = float(np.float32(float(given["softcap"])))
    groups = k.shape[2] if size else k.shape[1]
    y = np.zeros((*q.shape[:3], v.shape[3]))
    for n, h, i in np.ndindex(q.shape[:3]):
        g = h // (q.shape[1] // groups)
        if table is not None:
            keys, values = (np.concatenate([x[int(p), :, g] for p in table[n]]) for x in (k, v))
        else:
            keys, values = k[n, g], v[n, g]
        have = len(keys) if lengths is None else int(lengths[n])
        own = have - q.shape[2] + i
        causal = given["causal"] == "true"
        seen = list(
            range(max(0, own - window + 1 if window > 0 else 0), own + 1 if causal else have)
        )
        masks = None if mask is None else np.broadcast_to(mask, (*q.shape[:3], len(keys)))[n, h, i]
        if masks is not None and given["mask"] == "keep":
            seen = [j for j in seen if masks[j]]
        scores = [factor * math.fsum(q[n, h, i] * keys[j]) for j in seen]
        scores = [cap * math.tanh(s / cap) for s in scores] if cap else scores
        if masks is not None and given["mask"] == "bias":
            scores = [s + masks[j] for s, j in zip(scores, seen)]
        if not seen:
            continue
        weights = special.softmax([*scores, *([] if sinks is None else [sinks[h]])])
        y[n, h, i] = [math.fsum(c) for c in (weights[: len(seen), None] * values[seen]).T]
    return y


def rope(variant: Variant, x: Array, positions: Array | None = None) -> Array:
    """Pairs as complex numbers, by the formulas of the papers in radians for a token."""
    given = dict(variant.parameters)
    numbers = ("base", "factor", "low", "high", "fast", "slow")
    base, factor, low, high, fast, slow = (float(np.float32(float(given[n]))) for n in numbers)
    size = int(given["rotary"]) or x.shape[3]
    half, length, c = size // 2, int(given["original"]), 1.0
    f = [math.pow(base, -2 * i / size) for i in range(half)]
    match given["scaling"]:
        case "linear":
            f = [each / factor for each in f]
        case "llama3":
            for i, each in enumerate(f):
                turns = length / (2 * math.pi / each)
                smooth = min(max((turns - low) / (high - low), 0), 1)
                f[i] = (1 - smooth) * each / factor + smooth * each
        case "yarn":
            ends = [
                size * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))
                for turns in (fast, slow)
            ]
            if given["truncate"] == "true":
                ends = [math.floor(ends[0]), math.ceil(ends[1])]
            first, last = max(ends[0], 0), min(ends[1], size - 1)
            c = float(np.float32(float(given["attention"]))) or 0.1 * math.log(factor) + 1
            for i, each in enumerate(f):
                ramp = min(max((i - first) / max(last - first, 0.001), 0), 1)
                f[i] = each / factor * ramp + each * (1 - ramp)
    y = x.copy()
    ends_of = [(2 * i, 2 * i + 1) if given["interleaved"] == "true" else (i, i + half)
               for i in range(half)]  # fmt: skip
    for n, h, t in np.ndindex(x.shape[:3]):
        if h >= (int(given["turning_heads"]) or x.shape[1]):
            continue
        sections = [int(each) for each in given["sections"].split("x") if each]
        rows = [row for row, pairs in enumerate(sections) for _ in range(pairs)]
        for i, ((a, b), each) in enumerate(zip(ends_of, f)):
            at = t if positions is None else positions[(n, *rows[i : i + 1], t)]
            turned = complex(x[n, h, t, a], x[n, h, t, b]) * c * np.exp(1j * at * each)
            y[n, h, t, [a, b]] = turned.real, turned.imag
    return y


def attention_sum(variant: Variant, x: Array, ids: Array, candidates: Array) -> Array:
    given = dict(variant.parameters)
    with_log = given["log"] == "true"
    start = float(np.float32(float(given["epsilon"]))) if with_log else 0.0
    y = np.empty(candidates.shape)
    for n, own in enumerate(x.reshape(ids.shape)):
        for c, word in enumerate(candidates[n]):
            y[n, c] = math.fsum([start, *own[ids[n] == word]])
    return np.log(y) if with_log else y


def block_circulant(variant: Variant, x: Array, w: Array) -> Array:
    """By NumPy's transforms."""
    k = w.shape[-1]
    blocks = np.fft.rfft(x.reshape(len(x), -1, k))
    y = np.fft.irfft(np.einsum("nqf,pqf->npf", blocks, np.fft.rfft(w)), k)
    found: Array = y.reshape(len(x), -1, 1, 1)
    return found


INDEPENDENT = {
    "reduce_mean": reduce_mean,
    "rearrange": rearrange,
    "piecewise": piecewise,
    "broadcast": broadcast,
    "multiply": multiply,
    "subtract": subtract,
    "divide": divide,
    "attention": attention,
    "rope": rope,
    "attention_sum": attention_sum,
    "embedding": embedding,
    "mask": mask,
    "transpose": transpose,
    "recurrent": recurrent,
    "heads": heads,
    "fused_conv": fused,
    "fused_fc": fused,
    "conv": convolution,
    "pool": pool,
    "lrn": lrn,
    "add": add,
    "all_reduce": all_reduce,
    "bn": batch_norm,
    "bypass": bypass,
    "cast": bypass,  # what is stored has another type: tests/toolchain/test_narrow.py
    "concat": concat,
    "dropout": dropout,
    "sgd": sgd,
    "adam": adam,
    "softmax": softmax,
    "cross_entropy": cross_entropy,
    "sampled_softmax": sampled_softmax,
    "squared_error": squared_error,
    "activation": activation,
    "gate": gate,
    "cache": cache,
    "causal_conv": causal_conv,
    "chunk_output": chunk_output,
    "chunk_state": chunk_state,
    "delta_rule": delta_rule,
    "qk_rms_norm": qk_rms_norm,
    "reduce_sum": reduce_sum,
    "router": router,
    "sample": sample,
    "top_k": top_k,
    "top_p": top_p,
    "expert_blocks": expert_blocks,
    "experts": experts,
    "gemm": gemm,
    "sparse_gemm": sparse_gemm,
    "structured_gemm": structured_gemm,
    "fc": fully_connected,
    "bcm_fc": block_circulant,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "add_rms_norm": add_rms_norm,
    "quantised_add_rms_norm": quantised_add_rms_norm,
    "quantise": quantise,
    "scaled_fc": scaled_fc,
    "gated_rms_norm": gated_rms_norm,
    "l2_norm": l2_norm,
    "slice": slice_,
}


@each_variant
def test_forward_agrees_with_an_independent_implementation(variant: Variant) -> None:
    assert variant.kind in INDEPENDENT, "add one, from a library where there is one"
    layer = variant.layer
    for shape in contract_shapes(layer):
        tensors = read_tensors(layer, shape, F)
        y = layer.reference(tensors, F)[layer.output_names[0]]
        expected = INDEPENDENT[variant.kind](variant, **tensors)
        cancels = layer.parameters or layer.contract.cancels
        sums = 1e-13 * np.abs(expected).max() if cancels else 0.0
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=max(sums, 1e-300))


# ---- Tolerance ----


@each_pass
def test_tolerance_tells_a_wrong_element(variant: Variant, direction: Pass) -> None:
    """Three of four elements are known to better than a thousandth of themselves.

    Where errors spread, of the largest; and where there are few, which may all be near zero.
    """
    layer = variant.layer
    shape = fitting(layer, 8, 16, 4, 4)
    sums = layer.sums(inputs_of(layer, shape), direction)
    if sums and sums.terms > LONG:
        shape = fitting(layer, 2, 4, 4, 4)
    tensors = read_tensors(layer, shape, direction)
    references = layer.reference(tensors, direction)
    for name, bound in layer.tolerance(tensors, direction).items():
        values = np.abs(references[name])
        of_largest = spreads_errors(layer) or values.size < 64
        scale = np.full_like(values, values.max()) if of_largest else values
        told = bound[scale > 0] < 1e-3 * scale[scale > 0]
        assert told.sum() >= 0.75 * told.size, "bounds are large: choose inputs that cancel less"
        assert values.any() or bound.max() < 1e-30


# ---- Lowering ----


@each_pass
def test_launches_name_ports_kernels_and_templates(variant: Variant, direction: Pass) -> None:
    layer = variant.layer
    for shape in contract_shapes(layer):
        read, written = ports_of(layer, shape, direction)
        lowering = layer.lower(inputs_of(layer, shape), direction)
        assert layer.lower(inputs_of(layer, shape), direction) == lowering
        used = {arg for launch in lowering.launches for arg in launch.args}
        ports = layer.ports(inputs_of(layer, shape), direction)
        assert used == set(read) | set(written) | {port.name for port in ports if port.scratch}
        names = [kernel.name for kernel in lowering.kernels]
        assert len(set(names)) == len(names)
        assert {launch.kernel for launch in lowering.launches} == set(names)
        for launch in lowering.launches:
            assert min(launch.grid) >= 1
        for kernel in lowering.kernels:
            assert re.fullmatch(r"[a-z]\w*", kernel.name)
            assert (resources.folder("templates") / "kernels" / kernel.template).is_file()
            assert 1 <= kernel.block <= 1024
            assert kernel.block % 64 == 0
            constants = [constant for constant, _ in kernel.constants]
            assert len(set(constants)) == len(constants)


def parameter_texts(layer: type[Layer], draw: random.Random) -> tuple[tuple[str, str, str], ...]:
    """All parameters of a layer as config text, with numbers that are easily taken for equal."""
    drawn = []
    for f in fields_of_floats(layer):
        type_, limits = field_types(layer)[f.name], f.metadata
        value: Any
        if issubclass(type_, StrEnum):
            value = draw.choice(list(type_))
        elif type_ is DType:
            value = draw.choice(["bf16", "f16", "f32"])
        elif type_ is bool:
            value = draw.choice(["false", "true"])
        elif type_ is int:
            value = (limits["least"] or 0) + draw.randrange(4)
        elif type_ is str:  # numbers of axes
            value = draw.choice(["", *NUMBERS_OF_AXES])
        else:
            # Neighbours in float64 are one number in float32.
            inside = (f.default, 0.7)  # some defaults are the end of their range
            near = [f.default, float(np.nextafter(*inside)), float(np.interp(1e-6, (0, 1), inside))]
            least, most = limits["least"], limits["most"]
            any_ = (
                (least or 0.0) + draw.expovariate(1)
                if most is None
                else draw.uniform(most - 10 if least is None else least, most)
            )
            value = draw.choice([*near, any_])
        drawn.append((limits["keys"][0], str(value), "test"))
    return tuple(drawn)


@each_kind
def test_one_kernel_name_never_stands_for_two_kernels(kind: str) -> None:
    """Each of 500 layers differs from one before in one or two parameters, or in its input, which
    has the same extents in another order, or others."""
    draw = random.Random(kind)
    named: dict[str, Any] = {}
    kept = None
    for turn in range(500):
        if turn % 20 == 0 or not kept:
            extents = [draw.choices([1, 2, 3, 4, 6, 12, 64], k=4) for _ in range(2)]
            shape, texts = extents[0], parameter_texts(LAYERS[kind], draw)
        elif draw.random() < 0.3:
            shape, texts = draw.choice([draw.sample(kept[0], 4), *extents]), kept[1]
        else:
            moved = draw.choices(range(len(kept[1]) or 1), k=draw.randint(1, 2))
            others = enumerate(zip(kept[1], parameter_texts(LAYERS[kind], draw)))
            shape, texts = kept[0], tuple(pair[at in moved] for at, pair in others)
        layer = LAYERS[kind].from_config(texts)
        if not accepts(layer, tuple(shape)):
            continue
        kept = shape, texts
        for direction in layer.able:
            try:
                lowering = layer.lower(inputs_of(layer, tuple(shape)), direction)
            except NoRoomError:  # kept weights of a layer of this size
                continue
            for kernel in lowering.kernels:
                assert named.setdefault(kernel.name, kernel) == kernel
                # Or it could be another layer's.
                assert kernel.name.startswith(layer.contract.kernels or kind)


@each_pass
def test_numbers_that_are_one_in_float32_give_one_kernel(variant: Variant, direction: Pass) -> None:
    floats = {
        f.metadata["keys"][0]
        for f in variant.layer.keyed_fields()
        if field_types(type(variant.layer))[f.name] is float
    }
    moved = [
        (name, str(np.nextafter(float(value), 0.7)) if name in floats else value, "test")
        for name, value in variant.parameters
    ]
    inputs = inputs_of(variant.layer, fitting(variant.layer, *SMALLEST))
    near = LAYERS[variant.kind].from_config(moved)
    assert near.lower(inputs, direction) == variant.layer.lower(inputs, direction)


# ---- Counts ----


@each_pass
def test_counted_bytes_are_those_of_the_ports(variant: Variant, direction: Pass) -> None:
    layer = variant.layer
    for shape in contract_shapes(layer):
        read, written = ports_of(layer, shape, direction)
        count = layer.count(inputs_of(layer, shape), direction)
        whole = [spec.nbytes for port, spec in read.items() if port not in layer.contract.gathers]
        assert count.read_bytes >= sum(whole)
        assert count.written_bytes >= sum(spec.nbytes for spec in written.values())
        computes = count.flops + count.transcendentals > 0
        assert computes == (direction not in layer.contract.copies)


@each_pass
def test_counts_of_per_sample_layers_grow_with_the_samples(
    variant: Variant, direction: Pass
) -> None:
    layer = variant.layer
    if not layer.per_sample:
        return  # samples depend on each other
    one, two, three = (
        layer.count(inputs_of(layer, fitting(layer, n, 5, 2, 3)), direction) for n in (1, 2, 3)
    )
    assert three + one == two + two  # what goes with parameters alone stays the same
    if not layer.contract.prepares:
        assert three.flops == 3 * one.flops
        assert three.transcendentals == 3 * one.transcendentals
    if not layer.parameters:
        assert three == one + one + one


# ---- Samples ----


@census("kind", sorted(LAYERS))
def test_the_sample_problem_is_a_valid_config(kind: str) -> None:
    config = Config(f"built-in {kind}", (network.sample_section(kind),), ())
    (placed,) = network.resolve(config).layers
    assert placed.node.kind == kind
    assert placed.output.size > 0


@each_kind
def test_each_pass_is_a_built_in_workload(kind: str) -> None:
    for direction in LAYERS[kind].passes:
        name = f"{kind}_{direction}"
        assert name in problem.built_in()
        assert problem.find(name, (), None).passes == (direction,)


@each_kind
def test_variants_cover_every_choice(kind: str) -> None:
    chosen = {pair for variant in variants(kind) for pair in variant.parameters}
    for f in fields_of_floats(LAYERS[kind]):
        type_ = field_types(LAYERS[kind])[f.name]
        if issubclass(type_, StrEnum) and f.metadata["keys"][0] not in BASE.get(kind, {}):
            wanted = {(f.metadata["keys"][0], str(choice)) for choice in type_}
            assert wanted - OF_NARROW_TYPES - RESPELLED <= chosen
