"""Operators of serving: what they refuse, and that they fit together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from simgen import api
from simgen.errors import ConfigError
from simgen.ground.ir import Pass, TensorSpec
from simgen.layers import LAYERS

if TYPE_CHECKING:
    from collections.abc import Mapping

F = Pass.FORWARD
# Workload, settings -> what is said.
REFUSED = {
    ("top_k_fwd", "shape=4x40 top_k=41"): "top_k is 41, and a row has 40 elements; write 40 or",
    ("cache_fwd", "shape=40x2x8 pages=2"): "40 tokens have no room in 2 pages of 16; make pages 3",
    ("cache_fwd", "shape=40x16"): "k is 40 x 16; give it tokens, heads and elements",
    ("causal_conv_fwd", "shape=40x16"): "x is 40 x 16; give it samples, tokens and channels",
    ("delta_rule_fwd", "shape=1x4x4x8 value_heads=6"): "6 heads of values are no multiple of 4",
    ("delta_rule_fwd", "shape=1x4x1x513"): "a key has 513 elements; 512 is the most",
    ("chunk_state_fwd", "shape=4x8"): "k is 4 x 8; give it samples, tokens, heads and elements",
    ("rope_fwd", "shape=1x2x4x16 sections=3x6"): "sections are of positions; add positions=true",
    ("rope_fwd", "shape=1x2x4x16 positions=true sections=3x6"): "9 pairs, and 8 turn; make them",
    ("rope_fwd", "shape=1x2x4x16 sections=a"): "sections is 'a'; write numbers: 16x24x24",
    ("rope_fwd", "shape=1x2x4x16 turning_heads=3"): "3 heads of 2 do not turn; write 2 or less",
    ("qk_rms_norm_fwd", "shape=4x2x8 query_heads=2"): "without 4 heads of queries and keys; give",
    ("attention_fwd", "shape=1x2x4x8 causal=true window=0"): "window is 0: no query sees a key",
    ("sample_fwd", "shape=9"): "x has one axis; give it rows and logits, as 4x1000",
}


@pytest.mark.parametrize(("word", "settings"), REFUSED)
def test_bad_input_is_one_line_with_the_cure(word: str, settings: str) -> None:
    given = dict(each.split("=") for each in settings.split())
    with pytest.raises(ConfigError, match=REFUSED[word, settings]) as caught:
        api.plan(word, set=given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        ("cache", {"slots": [1, 96, 3]}, r"slots\[1\] is 96; write -1 to 95"),
        ("cache", {"slots": [1, -2, 3]}, r"slots\[1\] is -2; write -1 to 95"),
        ("cache", {"slots": [7, -1, 7]}, "slots has 7 twice; give each token its own"),
        ("cache", {"slots": [7, -1, -1]}, "^$"),
        ("sample", {"u": [0.0, 1.0]}, r"u has numbers outside of \[0, 1\)"),
    ],
)
def test_values_of_a_user(kind: str, given: Mapping[str, Any], told: str) -> None:
    layer = LAYERS[kind].from_config([("pages", "6", "test")] if kind == "cache" else [])
    inputs = layer.workload_inputs(TensorSpec((3, 2, 4) if kind == "cache" else (2, 9)))
    said = layer.fault({name: np.array(each) for name, each in given.items()}, inputs)
    assert re.search(told, said)


def test_tokens_that_go_nowhere_leave_pages_as_they_are() -> None:
    draw = np.random.default_rng(3)
    k, v = draw.normal(size=(2, 3, 1, 2))
    caches = {name: draw.normal(size=(2, 4, 1, 2)) for name in ("key_cache", "value_cache")}
    layer = LAYERS["cache"].from_config([("page", "4", "test")])
    made = layer.reference({"k": k, "v": v, "slots": np.array([6.0, -1.0, 0.0]), **caches}, F)
    wanted = caches["key_cache"].reshape(8, 1, 2).copy()
    wanted[6], wanted[0] = k[0], k[2]
    assert np.array_equal(made["key_pages"].reshape(8, 1, 2), wanted)


def test_chunks_of_the_delta_rule_are_its_steps() -> None:
    """w and u of a chunk by the WY representation of section 3.3, as flash-linear-attention's
    chunks have them: then states and results are those of one token after the other."""
    draw = np.random.default_rng(1)
    n, tokens, heads, groups, size, values, chunk = 1, 11, 2, 4, 6, 5, 4
    q, k = draw.normal(size=(2, n, tokens, heads, size))
    v = draw.normal(size=(n, tokens, groups, values))
    a, b = draw.normal(size=(2, n, tokens, groups))
    decay, dt = draw.normal(size=(2, groups))
    state = draw.normal(size=(n, groups, size, values))
    q, k = (each / np.sqrt(np.square(each).sum(-1, keepdims=True) + np.float32(1e-6))
            for each in (q, k))  # fmt: skip
    own = [("value_heads", "4", "test"), ("value_size", "5", "test")]
    steps = LAYERS["delta_rule"].from_config(
        [*own, ("normalised", "false", "test"), ("state", "true", "test")]
    )
    gates = {"a": a, "b": b, "decay": decay, "dt": dt}
    wanted = steps.reference({"q": q, "k": k, "v": v, **gates, "state": state}, F)

    g = -np.exp(decay) * np.logaddexp(0, a + dt)
    beta = 1 / (1 + np.exp(-b))
    sums = np.empty_like(g)
    w, u = np.empty((n, tokens, groups, size)), np.empty_like(v)
    for first in range(0, tokens, chunk):
        span = slice(first, first + chunk)
        sums[:, span] = np.cumsum(g[:, span], axis=1)
        for h in range(groups):
            keys, at, share = k[0, span, h // 2], sums[0, span, h], beta[0, span, h, np.newaxis]
            apart = np.exp(at[:, np.newaxis] - at)
            system = np.eye(len(at)) + np.tril(share * apart * (keys @ keys.T), -1)
            u[0, span, h] = np.linalg.solve(system, share * v[0, span, h])
            w[0, span, h] = np.linalg.solve(system, share * np.exp(at)[:, np.newaxis] * keys)
    chunks = [*own, ("chunk", "4", "test")]
    states = LAYERS["chunk_state"].from_config(chunks)
    made = states.reference({"k": k, "w": w, "u": u, "g": sums, "state": state}, F)
    outputs = LAYERS["chunk_output"].from_config(chunks)
    read = {"q": q, "k": k, "v": made["y"], "h": made["h"], "g": sums}
    np.testing.assert_allclose(outputs.reference(read, F)["y"], wanted["y"], atol=1e-12)
    np.testing.assert_allclose(made["last"], wanted["last"], atol=1e-12)


@pytest.mark.parametrize("u", [0.0, 0.3, 0.95])
def test_a_sample_stays_within_what_filters_leave(u: float) -> None:
    x = np.random.default_rng(2).normal(0, 3, (7, 151_936 // 64))
    filtered = LAYERS["top_k"].from_config([("top_k", "9", "test")]).reference({"x": x}, F)["y"]
    chosen = LAYERS["sample"].from_config([]).reference({"x": filtered, "u": np.full(7, u)}, F)
    ranks = (x > np.take_along_axis(x, chosen["y"].astype(int)[:, None], 1)).sum(axis=1)
    assert ranks.max() < 9
