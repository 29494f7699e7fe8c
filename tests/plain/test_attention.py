"""Attention and rotary embeddings against those of other hands: PyTorch, transformers, ONNX.

What PyTorch 2.15 and transformers 5.24 gave, in float64, of tensors that are sines of their
elements' numbers is kept here; ONNX's package makes its cases. What is compared is the reference,
by which other tests judge kernels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from test_onnx_node_tests import arrays, cases

import simgen
from simgen.errors import ConfigError
from simgen.ground.ir import Pass, TensorSpec
from simgen.layers import LAYERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx.backend.test.case.test_case import TestCase

Array = np.ndarray[Any, np.dtype[np.float64]]
F, B = Pass.FORWARD, Pass.BACKWARD

# scaled_dot_product_attention(q, k, v, mask, enable_gqa=True) of the last head, and gradients for
# the last head of q and for k and v; those with a float mask and, by flex_attention, with a cap.
TORCH = {
    "y": [
        [0.1197173, -0.1899344, -0.3558475, -0.2524623],
        [-0.3823105, -0.2275946, 0.0993604, 0.3511214],
        [-0.2644455, 0.2261047, 0.5455434, 0.4521257],
    ],
    "dq": [
        [-0.2717508, -0.2808283, -0.1578279, 0.0394015],
        [-0.0213085, -0.0672829, -0.0816131, -0.0575594],
        [0.1062821, 0.1336974, 0.0982328, 0.0165677],
    ],
    "dk": [
        [-0.0086929, 0.0219382, 0.0204298, -0.0110083],
        [0.0634067, -0.0208316, -0.0745515, -0.0190533],
        [-0.0110861, 0.0681989, 0.0475723, -0.0427478],
        [-0.0044631, -0.0181208, -0.0052314, 0.015322],
        [-0.0391646, -0.0511848, 0.0117808, 0.0574875],
    ],
    "dv": [
        [0.0027624, 0.0859079, -0.0895029, 0.0044625],
        [0.0496372, 0.2103742, -0.2620504, 0.054216],
        [0.1416758, 0.094688, -0.2372815, 0.1448933],
        [0.0642595, -0.3869528, 0.3264437, 0.0573451],
        [-0.316603, 0.0689969, 0.2469373, -0.3183277],
    ],
    "bias": [
        [-0.0197685, 0.296596, 0.3885026, 0.1863981],
        [0.297228, 0.4700787, 0.2871832, -0.1130468],
        [0.0984112, -0.3749482, -0.5645543, -0.3269169],
    ],
    "cap": [
        [0.1988621, 0.0902778, -0.0866269, -0.1979741],
        [-0.3560199, -0.452413, -0.206429, 0.1957764],
        [-0.4172894, -0.4204609, -0.105436, 0.2893808],
    ],
    # eager_attention_forward of transformers' gpt-oss
    "sinks": [
        [0.039918, -0.0753475, -0.1335915, -0.0907361],
        [-0.2721006, -0.1689225, 0.0620927, 0.2461174],
        [-0.159484, 0.1696186, 0.3703572, 0.2908169],
    ],
}  # fmt: skip
SINKS = (0.3, -0.2, 0.9, 0.1)

# ROPE_INIT_FUNCTIONS of transformers: frequencies of heads of 16, and the factor.
SCALINGS: dict[str, tuple[dict[str, str], list[float], float]] = {
    "llama3": (
        {"base": "500000", "factor": "32", "low": "1", "high": "4", "original": "8192"},
        [1.0, 0.1939228, 0.03760603, 0.007292665, 0.0004295567, 8.570256e-06,
         1.661967e-06, 3.222933e-07],
        1.0,
    ),
    "yarn": (
        {"base": "10000", "factor": "4", "original": "4096", "fast": "32", "slow": "1"},
        [1.0, 0.3162278, 0.1, 0.02569351, 0.00625, 0.001383497, 0.00025, 7.905695e-05],
        1.138629436111989,
    ),
    "linear": (
        {"base": "10000", "factor": "2"},
        [0.5, 0.1581139, 0.05, 0.01581139, 0.005, 0.001581139, 0.0005, 0.0001581139],
        1.0,
    ),
}  # fmt: skip
# apply_rotary_pos_emb of transformers' Llama: a head of 8 at the position 2.
NEOX = [0.4029071, 0.0318173, 0.8295751, 0.8868228, -0.8590984, -0.9069448, -0.7868227, 0.168254]


def made(kind: str, **keys: str) -> Any:
    return LAYERS[kind].from_config([(name, value, "test") for name, value in keys.items()])


def sines(step: float, *shape: int) -> Array:
    return np.sin(step * np.arange(math.prod(shape))).reshape(shape)


FACTORS = {"q": sines(1.3, 1, 4, 3, 4), "k": sines(0.7, 1, 2, 5, 4), "v": sines(0.9, 1, 2, 5, 4)}


def test_attention_and_its_gradients_are_those_of_pytorch() -> None:
    """Its causal mask of 3 queries and 5 keys, whose last ones see each other."""
    layer = made("attention", causal="true", scale="0.7")
    forward = layer.reference(FACTORS, F)
    given = {**FACTORS, **forward, "dy": sines(2.1, 1, 4, 3, 4)}
    found = {**forward, **layer.reference(given, B)}
    for name, head in (("y", 3), ("dq", 3), ("dk", 1), ("dv", 1)):
        np.testing.assert_allclose(found[name][0, head], TORCH[name], atol=1e-7)


@pytest.mark.parametrize(
    ("keys", "more", "name", "head"),
    [
        ({"mask": "bias"}, {"mask": sines(3.1, 1, 1, 3, 5)}, "bias", 2),
        ({"softcap": "2"}, {}, "cap", 1),
        ({"sinks": "true", "causal": "true"}, {"sinks": np.array(SINKS)}, "sinks", 3),
    ],
)
def test_masks_caps_and_sinks_are_those_of_others(
    keys: dict[str, str], more: dict[str, Array], name: str, head: int
) -> None:
    found = made("attention", **keys).reference({**FACTORS, **more}, F)["y"]
    np.testing.assert_allclose(found[0, head], TORCH[name], atol=1e-7)


def test_a_paged_cache_is_the_same_as_one_that_is_not() -> None:
    """Pages in the order of a table; what lies behind a sample's length is not read."""
    k, v = (np.pad(FACTORS[name], ((0, 0), (0, 0), (0, 1), (0, 0))) for name in "kv")
    pages = {name: np.full((5, 2, 2, 4), np.nan) for name in "kv"}  # pages, tokens, heads, elements
    table = np.array([[3, 0, 4]])
    for name, cache in (("k", k), ("v", v)):
        for at, page in enumerate(table[0]):
            pages[name][page] = np.swapaxes(cache[0, :, 2 * at : 2 * at + 2], 0, 1)
    given = {"q": FACTORS["q"], **pages, "table": table, "lengths": np.array([5])}
    found = made("attention", page="2", lengths="true", causal="true", scale="0.7")
    np.testing.assert_allclose(found.reference(given, F)["y"][0, 3], TORCH["y"], atol=1e-7)


def test_rows_that_see_no_key_are_zero() -> None:
    layer = made("attention", lengths="true", causal="true")
    found = layer.reference({**FACTORS, "lengths": np.array([2])}, F)
    assert not found["y"][0, :, 0].any()
    assert not found["lse"][0, :, 0].any()
    np.testing.assert_allclose(found["y"][0, :, 1], np.repeat(FACTORS["v"][0, :, 0], 2, axis=0))


# ---- ONNX ----


KNOWN = {"q_num_heads", "kv_num_heads", "is_causal", "softcap", "scale"}


def by_layer(case: TestCase) -> tuple[Array, Array] | None:
    """(what [Attention] makes of a case, what ONNX expects); None where the case has other things:
    past keys, second outputs, types of softmax, caps of masked scores."""
    (op,) = case.model.graph.node
    given, expected = arrays(case)
    keys = {each.name: onnx.helper.get_attribute_value(each) for each in op.attribute}
    names = dict(zip(("q", "k", "v", "mask"), op.input))
    if not given or len(op.input) > 4 or len(op.output) > 1 or not KNOWN.issuperset(keys):
        return None
    tensors = {n: given[port].astype(np.float64) for n, port in names.items() if port}
    counts = (keys.get("q_num_heads", 1), *[keys.get("kv_num_heads", 1)] * 2)
    for name, count in zip("qkv", counts):
        if tensors[name].ndim == 3:
            rows = tensors[name].reshape(*tensors[name].shape[:2], count, -1)
            tensors[name] = np.swapaxes(rows, 1, 2)
    queries, have = tensors["q"].shape[2], tensors["k"].shape[2]
    causal, cap = keys.get("is_causal", 0), keys.get("softcap", 0.0)
    if (causal and queries != have) or (cap and "mask" in tensors):
        return None
    words = {"causal": str(bool(causal)).lower(), "softcap": str(cap)}
    if "mask" in tensors:
        is_bool = given[names["mask"]].dtype == bool
        mask = tensors["mask"].reshape((1,) * (4 - tensors["mask"].ndim) + tensors["mask"].shape)
        if mask.shape[3] != have:
            return None
        tensors["mask"] = mask
        words["mask"] = "keep" if is_bool else "bias"
    words["scale"] = str(keys.get("scale", 0.0))
    y = made("attention", **words).reference(tensors, F)["y"]
    (wanted,) = expected.values()
    if wanted.ndim == 3:
        y = np.swapaxes(y, 1, 2).reshape(wanted.shape)
    return y, wanted


def test_attention_is_that_of_onnx() -> None:
    done = 0
    for case in cases("attention"):
        found = by_layer(case) if len(case.model.graph.node) == 1 else None
        if found:
            of_16_bits = found[1].dtype != np.float32
            np.testing.assert_allclose(*found, atol=2e-2 if of_16_bits else 1e-5, err_msg=case.name)
            done += 1
    assert done >= 20


def test_rotary_embeddings_are_those_of_onnx() -> None:
    """Its table of cosines and sines is given; that of positions and a base makes the same."""
    done = 0
    for case in cases("rotaryembedding"):
        (op,) = case.model.graph.node if len(case.model.graph.node) == 1 else (None,)
        given, expected = arrays(case)
        if op is None or not given:
            continue
        keys = {each.name: onnx.helper.get_attribute_value(each) for each in op.attribute}
        x, cos, sin = (given[name].astype(np.float64) for name in op.input[:3])
        if x.ndim != 4 or len(op.input) < 4:
            continue
        places = given[op.input[3]]
        layer = made("rope", interleaved=str(bool(keys.get("interleaved", 0))).lower(),
                     rotary=str(keys.get("rotary_embedding_dim", 0)))  # fmt: skip
        along, across = (table[places][:, np.newaxis] for table in (cos, sin))
        y = layer._turned(x, along, across)
        np.testing.assert_allclose(y, *expected.values(), atol=1e-5, err_msg=case.name)
        done += 1
    assert done >= 3


# ---- Rotary embeddings ----


@pytest.mark.parametrize("scaling", SCALINGS)
def test_scaled_frequencies_are_those_of_transformers(scaling: str) -> None:
    keys, wanted, factor = SCALINGS[scaling]
    found, own = made("rope", scaling=scaling, **keys).frequencies(16)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert own == pytest.approx(factor, rel=1e-7)


def test_halves_turn_as_in_transformers() -> None:
    y = made("rope").reference({"x": sines(1.1, 1, 1, 3, 8)}, F)["y"]
    np.testing.assert_allclose(y[0, 0, 2], NEOX, atol=1e-6)


# ---- Mistakes ----


@pytest.mark.parametrize(
    ("kind", "settings", "wanted"),
    [
        ("attention", {"kv_heads": "3"}, "8 heads of queries are no multiple of 3 of keys; take 2"),
        ("attention", {"window": "0"}, "window is 0: no query sees a key; write 1 or more, or -1"),
        ("attention", {"window": "-2"}, "window is -2; it must be at least -1"),
        ("attention", {"causal": "false", "window": "4"}, "add causal=true, or leave it out"),
        ("attention", {"page": "16"}, "pages of a cache are filled to some length; add lengths"),
        ("attention", {"keys": "100"}, "of 128 queries, the first see none of 100 keys; give it"),
        ("attention", {"shape": "8x64"}, "write four extents"),
        ("attention", {"shape": "1x8x64x4096"}, "heads of 4096 elements have no room in LDS"),
        ("attention", {"page": "16", "lengths": "true", "mask": "keep"}, "leave mask or page out"),
        ("rope", {"rotary": "7"}, "7 elements of 64 do not turn in pairs; take an even number"),
        ("rope", {"rotary": "66"}, "66 elements of 64 do not turn in pairs"),
        ("rope", {"low": "4", "high": "4"}, "make low < high and slow < fast"),
        ("rope", {"scaling": "ntk"}, "scaling is 'ntk'"),
        ("rope", {"shape": "8"}, "x has other axes than (N, H, T, D)"),
        ("rope", {"shape": "2x4x6", "positions": "true"}, "x has other axes than (N, H, T, D)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line(kind: str, settings: dict[str, str], wanted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        simgen.plan(f"{kind}_fwd", set=settings)
    (line,) = str(caught.value).splitlines()
    assert wanted in line
    assert "; " in line


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"table": np.array([[0, 6]])}, "table[0, 1] is 6; write 0 to 5"),
        ({"table": np.array([[-1, 0]])}, "table[0, 0] is -1; write 0 to 5"),
        ({"lengths": np.array([33])}, "lengths[0] is 33; write 0 to 32"),
        ({"lengths": np.array([32]), "table": np.array([[5, 5]])}, ""),
    ],
)
def test_pages_and_lengths_outside_are_refused(given: Mapping[str, Any], wanted: str) -> None:
    layer = made("attention", page="16", lengths="true")
    cache = TensorSpec((6, 16, 2, 64))
    table = TensorSpec((1, 2))
    inputs = (TensorSpec((1, 4, 1, 64)), cache, cache, TensorSpec((1,)), table)
    assert layer.output(inputs).shape == (1, 4, 1, 64)
    assert layer.fault(given, inputs) == wanted


@pytest.mark.parametrize(
    ("extents", "wanted"),
    [
        (((1, 2, 9, 32), (1, 2, 9, 64)), "k is 1 x 2 x 9 x 32, but q is 1 x 4 x 5 x 64; give k 1"),
        (((1, 2, 9, 64), (1, 2, 8, 64)), "v is 1 x 2 x 8 x 64, but k is 1 x 2 x 9 x 64; give v 1"),
        (((2, 2, 9, 64), (2, 2, 9, 64)), "k is 2 x 2 x 9 x 64, but q is 1 x 4 x 5 x 64; give k 1"),
        (((1, 2, 9), (1, 2, 9, 64)), "k is 1 x 2 x 9; give it samples, heads, tokens and size"),
    ],
)  # fmt: skip
def test_extents_that_do_not_fit_are_refused(extents: Any, wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        made("attention").output((TensorSpec((1, 4, 5, 64)), *map(TensorSpec, extents)))
