"""Sums of whole numbers: which are exact in float32, and inputs that make them so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from census import census
from hypothesis import given
from hypothesis import strategies as st
from layer_variants import lowered, small_problems

from simgen.errors import UsageError
from simgen.frontend import network, problem
from simgen.ground.ir import Distribution, Pass
from simgen.ground.numerics import exactness
from simgen.layers import LAYERS
from simgen.layers.conv.convolution import Convolution
from simgen.layers.norm.batch_norm import BatchNorm
from simgen.layers.product.fully_connected import FullyConnected
from simgen.layers.product.gemm import Gemm
from simgen.tensors import exact_values
from simgen.tensors.random_values import generate
from simgen.verdict import shares
from simgen.workload import lowering as workloads
from simgen.workload import reference as chain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simgen.ground.ir import Workload

F = Pass.FORWARD
CONV = Convolution(num_output=2, kernel_h=1, kernel_w=1, pad_h=0, pad_w=0, bias=True)


# ---- Which sums are exact ----


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0, -1.0, 0.0], 1.0),
        ([6.0, 4.0], 2.0),
        ([0.375, 12.0], 0.125),
        ([0.0, -0.0], np.inf),
        ([2.0**24, 1.0], 1.0),
        ([2.0**25, 1.0], 0.0),  # more grains than a float32 number has bits
        ([1.0, np.nan], 0.0),
        ([1.0, np.inf], 0.0),
        ([2.0**-126], 2.0**-126),
        ([2.0**-130], 0.0),  # may be flushed to zero
        ([float(np.float32(0.1))], 2.0**-27),
    ],
)
def test_grain_of_one_tensor(values: list[float], expected: float) -> None:
    assert exactness.grain(np.array(values)) == expected


def test_grain_of_products_and_of_large_tensors() -> None:
    assert exactness.grain(np.array([6.0]), np.array([0.25, 3.0])) == 0.5
    assert exactness.grain(np.array([0.0]), np.array([np.nan])) == 0.0
    assert exactness.grain(np.array([2.0**-70]), np.array([2.0**-70])) == 0.0
    large = np.ones(3 * 2**20)
    large[-1] = 0.5  # where a look at the first elements does not find it
    assert exactness.grain(large) == 0.5


def float32_sums(terms: Any, random: np.random.Generator) -> Any:
    """Sums along the last axis in one order by chance, each addition rounded."""
    total = np.zeros(terms.shape[:-1], np.float32)
    for at in random.permutation(terms.shape[-1]):
        total = (total + terms[..., at].astype(np.float32)).astype(np.float32)
    return total


@given(
    seed=st.integers(0, 2**32 - 1), bits=st.integers(1, 14), k=st.integers(1, 300),
    power=st.integers(-60, 60),
)  # fmt: skip
def test_what_is_exact_is_the_same_in_every_order(seed: int, bits: int, k: int, power: int) -> None:
    random = np.random.default_rng(seed)
    a, b = (random.integers(-(2**bits), 2**bits + 1, (3, k)).astype(float) for _ in range(2))
    a *= 2.0**power
    layer = Gemm(m=3, n=3, k=k, transb=True)
    found = layer.exact({"a": a, "b": b}, F)
    terms = a[:, None, :] * b[None, :, :]
    if np.abs(terms).sum(axis=-1).max() <= 2.0**24 * 2.0**power:
        assert not np.isnan(found["y"]).any()
    for _ in range(3 if found else 0):
        sums = float32_sums(terms, random)
        sure = ~np.isnan(found["y"])
        np.testing.assert_array_equal(sums[sure], found["y"][sure])


def test_a_sum_that_may_round_is_not_called_exact() -> None:
    """One grain above 2^24: 2^24 + 1 is no float32 number."""
    layer = Gemm(m=2, n=1, k=2)
    a, b = np.array([[2.0**24, 1.0], [2.0**24 - 1, 1.0]]), np.array([[1.0], [1.0]])
    assert np.isnan(layer.exact({"a": a, "b": b}, F)["y"]).tolist() == [[True], [False]]


def test_one_rounding_behind_an_exact_sum_is_known_too() -> None:
    """alpha = 0.1f; with beta, a fused multiply-add would round another way than two steps."""
    a, b, c = np.array([[3.0, 4.0]]), np.array([[5.0], [7.0]]), np.array([[1.0]])
    tenth = np.float32(0.1)
    found = Gemm(m=1, n=1, k=2, alpha=0.1).exact({"a": a, "b": b}, F)["y"]
    assert found == np.float32(43) * tenth
    found = Gemm(m=1, n=1, k=2, alpha=0.75, beta=2.0).exact({"a": a, "b": b, "c": c}, F)["y"]
    assert found == 43 * 0.75 + 2
    other = Gemm(m=1, n=1, k=2, alpha=0.1, beta=2.0)
    assert np.isnan(other.exact({"a": a, "b": b, "c": c}, F)["y"])


def test_gradients_of_biases_are_exact_by_themselves() -> None:
    """Of whole dy, also where the other gradients are not."""
    dy = np.arange(8.0).reshape(4, 2, 1, 1)
    x = dy + float(np.float32(0.1))
    one = {name: np.ones((1, 2, 1, 1)) for name in ("w", "saved_mean", "saved_invstd")}
    found = BatchNorm().exact({"x": x, "dy": dy, **one}, Pass.BACKWARD)
    assert found.keys() == {"db"}
    assert found["db"].reshape(-1).tolist() == [12.0, 16.0]
    for layer in (FullyConnected(num_output=2, bias=True), CONV):
        found = layer.exact({"x": x, "dy": dy}, Pass.BACKWARD_WEIGHT)
        assert found["db"].tolist() == [12.0, 16.0]
        assert np.isnan(found.get("dw", np.nan)).all()


# ---- Inputs of whole numbers ----


def workload(name: str, *settings: str, passes: str = "", layers: str | None = None) -> Workload:
    pairs = [(k, v) for k, _, v in (text.partition("=") for text in settings)]
    found = problem.find(name, pairs, [Pass(word) for word in passes.split(",") if word] or None)
    made = network.resolve(found.config, found.settings, layers=layers)
    return workloads.lower(made, name, found.passes, 3)


def inputs(planned: Workload) -> dict[str, Any]:
    return {
        b.name: generate(b.name, b.spec, b.fill, planned.seed).reshape(b.spec.shape)
        for b in planned.inputs
        if b.fill
    }


def inexact(planned: Workload) -> set[str]:
    """Tensors that are not judged bit for bit, if the kernels write what the reference does."""
    given, held, found = inputs(planned), {}, set()
    for step in planned.steps:
        layer = network.make_layer(planned.node(step.layer), planned.machine)
        tensors = {
            port: held[name] if name in held else given[name].astype(float)
            for port, name in step.reads
        }
        for port, name in step.writes:
            if port in layer.shape_given:
                tensors[port] = np.broadcast_to(np.nan, planned.buffer(name).spec.shape)
        expected = shares.expected(layer, tensors, step.direction, 1)
        for port, name in step.writes:
            reference, bound, _ = expected[port]
            held[name] = reference.astype(np.float32).astype(float)
            if bound.any():
                found.add(name)
    return found


ROUNDING = {kind for kind in lowered() if LAYERS[kind].contract.rounds}


def exact_problems() -> Iterable[tuple[str, tuple[str, ...]]]:
    """Small problems of all layers whose sums are exact, by all algorithms that may be."""
    for name, settings in small_problems():
        kind = name.rpartition("_fwd")[0] or name.partition("_bwd")[0]
        contract = LAYERS[kind].contract
        rounding = {f"algo={algorithm}" for algorithm in contract.rounding_algorithms}
        if not contract.rounds and not rounding & set(settings):
            yield name, (*settings, *contract.exact_settings)


@census("name, settings", list(exact_problems()))
def test_all_sums_of_a_layer_are_exact(name: str, settings: tuple[str, ...]) -> None:
    planned = workload(name, *settings)
    if any(buffer.spec.dtype.is_float for buffer in planned.inputs):
        planned = exact_values.with_exact_values(planned)
    assert inexact(planned) == set()
    for buffer in planned.inputs:  # so that no product can be left out unseen
        assert buffer.fill
        if not buffer.spec.dtype.is_float:  # indices
            continue
        assert buffer.fill.distribution is Distribution.WHOLE
        assert buffer.fill.low == 0 or np.all(inputs(planned)[buffer.name])


@pytest.mark.parametrize(("mode", "highest"), [("relu", np.inf), ("clipped_relu", 6.0)])
def test_whole_numbers_stay_where_a_layer_leaves_them(mode: str, highest: float) -> None:
    """The outputs of ReLU, which its backward pass reads, are not below 0."""
    words = ("n=2", "c=50", "h=1", "w=1", f"activation_mode={mode}")
    given_values = inputs(exact_values.with_exact_values(workload("activation_bwd", *words)))
    y, dy = given_values["activation.y"], given_values["activation.dy"]
    assert np.array_equal(y, np.rint(y))
    assert (y.min(), y.max() <= highest, y.max() > 4) == (0, True, True)
    assert dy.min() < 0 < dy.max()


def test_every_layer_is_exact_or_known_to_round() -> None:
    kinds = {
        name.rpartition("_fwd")[0] or name.partition("_bwd")[0] for name, _ in exact_problems()
    }
    assert kinds | ROUNDING == set(lowered())


@pytest.mark.parametrize(
    "settings",
    [
        ("pool_mode=avg", "pad=0", "kernel_size=3"),
        ("pool_mode=avg_include_padding", "pad=1", "stride=1"),
        ("pool_mode=max", "pad=1", "stride=1"),
    ],
)
@pytest.mark.parametrize("name", ["pool_fwd", "pool_bwd"])
def test_means_are_exact_but_for_one_known_rounding(name: str, settings: tuple[str, ...]) -> None:
    planned = exact_values.with_exact_values(workload(name, "n=2", "c=3", "h=9", "w=11", *settings))
    assert inexact(planned) == set()


def test_windows_of_several_sizes_are_not() -> None:
    settings = ("n=2", "c=3", "h=9", "w=11", "pool_mode=avg_exclude_padding", "pad=1")
    assert inexact(exact_values.with_exact_values(workload("pool_fwd", *settings))) == {"pool.y"}


def test_random_values_have_tolerances() -> None:
    assert inexact(workload("conv_fwd", "n=1", "c=4", "h=9", "w=9")) == {"conv.y"}


@pytest.mark.parametrize(
    ("name", "settings"),
    [("conv_fwd", ("algo=fft",)), ("softmax_bwd", ()), ("bn_fwd", ()), ("lrn_fwd", ())],
)
def test_where_no_sum_is_exact_that_is_said(name: str, settings: tuple[str, ...]) -> None:
    """Silent random values would look like the strongest check there is."""
    planned = workload(name, "n=1", "c=4", "h=9", "w=9", *settings)
    with pytest.raises(UsageError, match=f"--values exact: no layer of {name} .*; leave it out"):
        exact_values.with_exact_values(planned)


def test_sums_too_long_for_one_are_mostly_zeros() -> None:
    """2^26 pixels in each sum of the gradient: numbers of which most are zeros."""
    settings = ("n=256", "c=1", "h=512", "w=512", "num_output=1", "kernel_size=1", "pad=0")
    planned = exact_values.with_exact_values(workload("conv_bwd_weight", *settings))
    for buffer in planned.inputs:
        assert buffer.fill
        assert (buffer.fill.a, buffer.fill.b) == (1.0, 2.0**-3)


def test_a_network_is_exact_up_to_its_softmax() -> None:
    planned = exact_values.with_exact_values(workload("lenet5", "n=2", passes="fwd"))
    assert inexact(planned) == {"softmax.y"}
    values = dict(kv for _, made in chain.run(planned, inputs(planned)) for kv in made.items())
    assert all(np.count_nonzero(tensor) for tensor in values.values())
    # Gradients too, where the loss is not a softmax, with a learning rate that is a power of two.
    training = workload("lenet5", "n=2", passes="fwd,bwd", layers="conv1..ip2")
    assert inexact(exact_values.with_exact_values(training)) == set()


def test_a_deep_network_stays_exact() -> None:
    planned = exact_values.with_exact_values(
        workload("vgg16", "n=1", "h=16", "w=16", layers="conv1_1..relu4_1")
    )
    assert inexact(planned) == set()
    values = dict(kv for _, made in chain.run(planned, inputs(planned)) for kv in made.items())
    assert np.mean(values["conv4_1.y"] != 0) > 0.5


def test_what_layers_get_that_round_stays_as_it_is() -> None:
    plain = workload("alexnet", "n=1")
    drawn = exact_values.with_exact_values(plain)
    changed = {b.name for b, c in zip(plain.buffers, drawn.buffers, strict=True) if b != c}
    assert changed == {"conv1.x", "conv1.w", "conv1.b"}  # then comes lrn


def test_reused_memory_is_judged_without_tolerance_too() -> None:
    found = problem.find("lenet5", [("n", "2")], None)
    made = network.resolve(found.config, found.settings, layers="conv1..conv2")
    planned = workloads.lower(made, "lenet5", found.passes, 0, reuse_memory=True)
    drawn = exact_values.with_exact_values(planned)
    ((_, bound),) = chain.expected(drawn, inputs(drawn)).values()
    assert not bound.any()
    ((_, bound),) = chain.expected(planned, inputs(planned)).values()
    assert bound.all()
