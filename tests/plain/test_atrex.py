"""Operators of LLM serving by name."""

from __future__ import annotations

import pytest

from simgen import api
from simgen.errors import ConfigError, UsageError
from simgen.frontend.atrex import OPERATORS, operators

# Atrex-Bench's own counts of its shapes, and the elements that one of each has.
COUNTS = {
    "rms_norm": 56, "layer_norm": 13, "fused_add_rms_norm": 19, "gated_rms_norm": 7, "l2_norm": 13,
    "silu_and_mul": 37, "moe_topk_gating_softmax": 10, "moe_align_block_size": 6,
    "moe_count_and_sort": 5, "fused_moe": 23, "attention_forward": 21, "causal_conv1d": 9,
    "chunk_delta_rule_output": 16, "chunk_gated_delta_rule_state": 25, "fused_qk_rmsnorm": 4,
    "fused_qkv_rope": 6, "gated_delta_rule_update": 17, "mla_decode_attention": 3,
    "moe_sum_reduce": 7, "mrope": 5, "paged_attention_decode": 8, "reshape_and_cache": 8,
    "topk_filter": 8, "unified_attention": 25,
    "block_scaled_mm": 24, "fp8_blockscale_fused_moe": 6,
    "fp8_dynamic_per_token_quant": 20, "fused_rmsnorm_quant": 11, "per_token_group_quant_fp8": 19,
}  # fmt: skip
# Bytes that its roofline files say of a shape: read and written.
MOVED = {
    "silu_and_mul/1": (5007360, 2503680),
    "l2_norm/3": (1966080, 1966080),
    "causal_conv1d/1": (1114112, 1048576),
    "chunk_delta_rule_output/0": (2105344, 524288),
    "moe_sum_reduce/0": (361332736, 45166592),
    "topk_filter/0": (607744, 607744),
    "block_scaled_mm/1": (6358016, 8388608),
    "fp8_dynamic_per_token_quant/1": (2490368, 1247616),
    "per_token_group_quant_fp8/1": (153616384, 79208448),
}
# Of more elements than 32 bits count.
TOO_LARGE = {f"atrex/per_token_group_quant_fp8/{number}" for number in (8, 9)}


def test_each_family_has_all_of_its_shapes() -> None:
    assert {family: len(operators(family)) for family in OPERATORS} == COUNTS


@pytest.mark.parametrize("family", OPERATORS)
def test_each_shape_is_a_layer(family: str) -> None:
    for each in operators(family):
        if each.name in TOO_LARGE:
            with pytest.raises(ConfigError, match="more than 2147483647; make shape smaller"):
                api.plan(each.name)
            continue
        count, _ = each.needs  # as a plan makes the layer, without the rest of a plan
        assert count.read_bytes > 0 < count.written_bytes
        last = each
    plan = api.plan(last.name)
    (placed,) = plan.plan.network.layers
    assert placed.node.kind == last.kind
    assert placed.layer.count(placed.node.inputs, placed.layer.passes[0]) == last.needs[0]


@pytest.mark.parametrize("name", MOVED)
def test_a_shape_moves_what_its_roofline_says(name: str) -> None:
    (placed,) = api.plan(f"atrex/{name}").plan.network.layers
    (direction, *_) = placed.layer.passes
    counted = placed.layer.count(placed.node.inputs, direction)
    assert (counted.read_bytes, counted.written_bytes) == MOVED[name]


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("atrex/rmsnorm/3", "did you mean 'rms_norm'"),
        ("atrex/l2_norm/13", "l2_norm has 13 numbers, from 0 to 12"),
        ("atrex/l2_norm", "simgen list atrex l2_norm"),
    ],
)
def test_other_names(word: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        api.plan(word)
