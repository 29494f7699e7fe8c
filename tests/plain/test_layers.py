"""What every lowered layer promises, whichever it is: shapes, gradients, names, counts, bounds."""

from __future__ import annotations

import re
from dataclasses import fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layer_variants import accepts, all_variants, inputs_of, lowered, read_tensors, variants
from scipy import special

from simgen import network, problem, resources
from simgen.config import Config
from simgen.ir import Pass
from simgen.layers import LAYERS
from simgen.layers.base import field_types

if TYPE_CHECKING:
    from collections.abc import Callable

    from layer_variants import Array, Variant

    from simgen.layers import Layer

F, B = Pass.FORWARD, Pass.BACKWARD
SMALL = (2, 6, 2, 3)
SHAPES = (SMALL, (1, 1, 1, 1), (3, 64, 1, 1), (2, 5000, 1, 1), (1, 37, 9, 7))

each_pass = pytest.mark.parametrize(
    ("variant", "direction"), all_variants(), ids=lambda value: str(value)
)
each_kind = pytest.mark.parametrize("kind", lowered())


def shapes_of(layer: Layer) -> list[tuple[int, ...]]:
    found = [shape for shape in SHAPES if accepts(layer, shape)]
    assert found
    return found


def ports_of(layer: Layer, shape: tuple[int, ...], direction: Pass) -> tuple[dict[str, Any], ...]:
    """(read, written): port name -> spec."""
    ports = layer.ports(inputs_of(layer, shape), direction)
    read = {port.name: port.spec for port in ports if port.fill is not None}
    written = {port.name: port.spec for port in ports if port.fill is None}
    assert len(read) + len(written) == len(ports)
    return read, written


# ---- Ports, reference and gradient ----


@each_pass
def test_reference_and_tolerance_have_the_shapes_of_the_written_ports(
    variant: Variant, direction: Pass
) -> None:
    layer = variant.layer
    for shape in shapes_of(layer):
        _, written = ports_of(layer, shape, direction)
        tensors = read_tensors(layer, shape, direction)
        for made in (layer.reference(tensors, direction), layer.tolerance(tensors, direction)):
            assert {name: a.shape for name, a in made.items()} == {
                name: spec.shape for name, spec in written.items()
            }
            assert {a.dtype for a in made.values()} == {np.dtype(np.float64)}


@each_pass
def test_ports_have_their_usual_meaning(variant: Variant, direction: Pass) -> None:
    layer = variant.layer
    for shape in shapes_of(layer):
        read, written = ports_of(layer, shape, direction)
        inputs = inputs_of(layer, shape)
        numbered = {f"x{at}": spec for at, spec in enumerate(inputs)}
        xs = numbered if layer.several_inputs else dict(zip("x", inputs))
        usual = {**xs, "y": layer.output(inputs)}
        for name, spec in (read | written).items():
            assert spec == usual.get(name.removeprefix("d"), spec)
        gradients = {f"d{name}" for name in layer.parameters}
        if direction is F:
            assert set(xs) <= set(read)
            assert "y" in written
            assert not {"dy", *gradients} & set(read | written)
            continue
        assert "dy" in read
        if direction is not Pass.BACKWARD_WEIGHT:
            assert {f"d{name}" for name in xs} <= set(written)
        if direction is not Pass.BACKWARD_DATA:
            assert gradients <= set(written)


def kink_free(right: Array, left: Array, step: float) -> Any:
    """Where the slopes on both sides are those of a smooth function."""
    return np.abs(right - left) < 100 * step


@pytest.mark.parametrize("variant", [v for v, d in all_variants() if d is F], ids=str)
def test_backward_is_the_derivative_of_forward(variant: Variant) -> None:
    layer = variant.layer
    backward = [direction for direction in layer.passes if direction is not F]
    if not backward:
        pytest.skip("there is no backward pass")
    shape = SMALL if accepts(layer, SMALL) else shapes_of(layer)[0]
    tensors = read_tensors(layer, shape, F)
    made = layer.reference(tensors, F)
    dy = np.random.default_rng(3).standard_normal(made["y"].shape)
    known = {**tensors, **made, "dy": dy}
    gradients: dict[str, Array] = {}
    for direction in backward:
        read, _ = ports_of(layer, shape, direction)
        gradients |= layer.reference({name: known[name] for name in read}, direction)

    def loss(name: str, at: int, step: float) -> float:
        moved = tensors[name].copy()
        moved.reshape(-1)[at] += step
        return float((dy * layer.reference({**tensors, name: moved}, F)["y"]).sum())

    step = 1e-4
    for port, gradient in gradients.items():
        name = port.removeprefix("d")
        size = tensors[name].size
        here = loss(name, 0, 0.0)
        right = np.array([loss(name, at, step) - here for at in range(size)]) / step
        left = np.array([here - loss(name, at, -step) for at in range(size)]) / step
        smooth = kink_free(right, left, step)
        assert smooth.mean() > 0.9
        found = gradient.reshape(-1)
        np.testing.assert_allclose(
            found[smooth], ((right + left) / 2)[smooth], rtol=1e-6, atol=1e-6, err_msg=port
        )


@each_pass
def test_per_sample_layers_treat_each_sample_by_itself(variant: Variant, direction: Pass) -> None:
    layer = variant.layer
    if not layer.per_sample or direction is Pass.BACKWARD_WEIGHT:
        pytest.skip("samples depend on each other")
    tensors = read_tensors(layer, (3, 5, 2, 3), direction)
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
    axis = 1 if given["softmax_mode"] == "channel" else (1, 2, 3)
    if given["softmax_algo"] == "log":
        return special.log_softmax(x, axis=axis)
    return special.softmax(x, axis=axis)


def activation(variant: Variant, x: Array) -> Array:
    given = dict(variant.parameters)
    ceiling = np.float64(np.float32(float(given["activation_ceiling"])))
    alpha = np.float64(np.float32(float(given["activation_alpha"])))
    functions: dict[str, Callable[[Array], Array]] = {
        "relu": lambda x: x * np.heaviside(x, 0.0),
        "sigmoid": special.expit,
        "tanh": lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)),
        "clipped_relu": lambda x: np.median([x, np.zeros_like(x), np.full_like(x, ceiling)], 0),
        "soft_relu": lambda x: -special.log_expit(-x),
        "elu": lambda x: np.maximum(x, 0) + alpha * special.expm1(np.minimum(x, 0)),
    }
    return functions[given["activation_mode"]](x)


INDEPENDENT = {"softmax": softmax, "activation": activation}


@pytest.mark.parametrize(
    "variant", [v for v, direction in all_variants() if direction is F], ids=str
)
def test_forward_agrees_with_an_independent_implementation(variant: Variant) -> None:
    assert variant.kind in INDEPENDENT, "add one, from a library where there is one"
    layer = variant.layer
    for shape in shapes_of(layer):
        tensors = read_tensors(layer, shape, F)
        y = layer.reference(tensors, F)["y"]
        expected = INDEPENDENT[variant.kind](variant, **tensors)
        sums = 1e-13 * np.abs(expected).max() if layer.parameters else 0.0  # cancel
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=max(sums, 1e-300))


# ---- Tolerance ----


@each_pass
def test_tolerance_is_small_and_lets_float32_pass(variant: Variant, direction: Pass) -> None:
    layer = variant.layer
    for shape in shapes_of(layer):
        tensors = read_tensors(layer, shape, direction)
        references = layer.reference(tensors, direction)
        for name, bound in layer.tolerance(tensors, direction).items():
            reference = references[name]
            assert np.isfinite(bound).all()
            assert (bound >= 0).all()
            if reference.size >= 64:  # few elements may all be near zero, and have no scale
                # A dot product may cancel: its bound goes with the sum of the absolute terms.
                most = 1e-3 if layer.parameters or not layer.takes_input else 1e-5
                assert bound.max() <= most * np.abs(reference).max()
            # The result that is nearest to the reference must be accepted.
            nearest = reference.astype(np.float32).astype(np.float64)
            assert (np.abs(nearest - reference) <= bound).all()


@each_pass
def test_tolerance_tells_a_wrong_element(variant: Variant, direction: Pass) -> None:
    """Three of four elements are known to better than a thousandth of themselves."""
    layer = variant.layer
    tensors = read_tensors(layer, (8, 16, 4, 4), direction)
    references = layer.reference(tensors, direction)
    for name, bound in layer.tolerance(tensors, direction).items():
        values = np.abs(references[name])
        assert np.mean(bound[values > 0] < 1e-3 * values[values > 0]) > 0.75


# ---- Lowering ----


@each_pass
def test_launches_name_ports_kernels_and_templates(variant: Variant, direction: Pass) -> None:
    layer = variant.layer
    for shape in shapes_of(layer):
        read, written = ports_of(layer, shape, direction)
        lowering = layer.lower(inputs_of(layer, shape), direction)
        assert layer.lower(inputs_of(layer, shape), direction) == lowering
        used = {arg for launch in lowering.launches for arg in launch.args}
        assert used == set(read) | set(written)
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


def parameter_texts(layer: type[Layer]) -> st.SearchStrategy[tuple[tuple[str, str], ...]]:
    """All parameters of a layer as config text, with numbers that are easily taken for equal."""
    drawn: list[st.SearchStrategy[Any]] = []
    for f in fields(layer):
        type_, limits = field_types(layer)[f.name], f.metadata
        values: st.SearchStrategy[Any]
        if issubclass(type_, StrEnum):
            values = st.sampled_from(type_)
        elif type_ is bool:
            values = st.sampled_from(["false", "true"])
        elif type_ is int:
            least = limits["least"] or 0
            values = st.integers(least, least + 3)
        else:
            # Neighbours in float64 are one number in float32.
            near = [f.default, float(np.nextafter(f.default, 2.0)), f.default * (1 + 1e-6)]
            values = st.sampled_from(near) | st.floats(limits["least"], limits["most"])
        name = limits["keys"][0]
        drawn.append(values.map(lambda value, name=name: (name, str(value))))
    return st.tuples(*drawn)


@pytest.mark.parametrize(
    ("kind", "direction"), [(k, d) for k in lowered() for d in LAYERS[k].passes]
)
@given(data=st.data())
def test_one_kernel_name_never_stands_for_two_kernels(
    kind: str, direction: Pass, data: st.DataObject
) -> None:
    extents = st.lists(st.sampled_from([1, 2, 3, 4, 6, 12, 64]), min_size=4, max_size=4)
    one = data.draw(extents)
    shapes = st.permutations(one) | st.just(data.draw(extents))
    texts = parameter_texts(LAYERS[kind])
    named: dict[str, Any] = {}
    for parameters, shape in data.draw(st.lists(st.tuples(texts, shapes), min_size=2, max_size=8)):
        layer = LAYERS[kind].from_config([(k, v, "test") for k, v in parameters])
        if not accepts(layer, tuple(shape)):
            continue
        for kernel in layer.lower(inputs_of(layer, tuple(shape)), direction).kernels:
            assert named.setdefault(kernel.name, kernel) == kernel
            assert kernel.name.startswith(kind)  # or it could be another layer's


@each_pass
def test_numbers_that_are_one_in_float32_give_one_kernel(variant: Variant, direction: Pass) -> None:
    floats = {
        f.metadata["keys"][0]
        for f in fields(variant.layer)
        if field_types(type(variant.layer))[f.name] is float
    }
    moved = [
        (name, str(np.nextafter(float(value), 2.0)) if name in floats else value, "test")
        for name, value in variant.parameters
    ]
    inputs = inputs_of(variant.layer, SMALL)
    near = LAYERS[variant.kind].from_config(moved)
    assert near.lower(inputs, direction) == variant.layer.lower(inputs, direction)


# ---- Counts ----


@each_pass
def test_counted_bytes_are_those_of_the_ports(variant: Variant, direction: Pass) -> None:
    layer = variant.layer
    for shape in shapes_of(layer):
        read, written = ports_of(layer, shape, direction)
        count = layer.count(inputs_of(layer, shape), direction)
        assert count.read_bytes >= sum(spec.nbytes for spec in read.values())
        assert count.written_bytes >= sum(spec.nbytes for spec in written.values())
        assert count.flops + count.transcendentals > 0


@each_pass
def test_counts_of_per_sample_layers_grow_with_the_samples(
    variant: Variant, direction: Pass
) -> None:
    layer = variant.layer
    if not layer.per_sample:
        pytest.skip("samples depend on each other")
    one, three = (layer.count(inputs_of(layer, (n, 5, 2, 3)), direction) for n in (1, 3))
    assert three.flops == 3 * one.flops
    assert three.transcendentals == 3 * one.transcendentals
    if not layer.parameters:
        assert three == one + one + one


# ---- Samples ----


@pytest.mark.parametrize("kind", sorted(LAYERS))
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
    for f in fields(LAYERS[kind]):
        type_ = field_types(LAYERS[kind])[f.name]
        if issubclass(type_, StrEnum):
            assert {(f.metadata["keys"][0], str(choice)) for choice in type_} <= chosen
