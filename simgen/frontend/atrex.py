"""Operators of LLM serving by name, `atrex/FAMILY/NUMBER`: shapes in data/atrex.csv.

Families and numbers are those of Atrex-Bench. A family is a layer with keys that all of its shapes
have, and the type that they are in; `unlike` says what of the operator in production is not there.
Families of operators that simgen has not are not listed.

Source: *.shapes.json of Atrex-Bench (July 2026), whose shapes come from serving in production.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from io import StringIO

from simgen.errors import UsageError, did_you_mean, printable
from simgen.frontend.config import Entry, Place, Section
from simgen.ground import resources
from simgen.ground.ir import DType, OpCount, TensorSpec
from simgen.ground.storage.files import read_regular
from simgen.layers import FILES, LAYERS
from simgen.layers.base import SHAPE, TYPE

ROOT = "atrex"
MAX_NBYTES = 2**20  # size limit of the list
SMALL = "epsilon=1e-6"
BLOCKS = "format=fp8_group block_rows=128"
# Family -> its layer, keys that all shapes have, type.
OPERATORS = {
    "attention_forward": ("attention", "", "bf16"),
    "block_scaled_mm": ("scaled_fc", f"scaled_x=true {BLOCKS}", None),
    "causal_conv1d": ("causal_conv", "silu=true bias=true state=true", "bf16"),
    "chunk_delta_rule_output": ("chunk_output", "", "bf16"),
    "chunk_gated_delta_rule_state": ("chunk_state", "", "bf16"),
    "fp8_blockscale_fused_moe": ("experts", f"scaled_weights=true {BLOCKS}", "bf16"),
    "fp8_dynamic_per_token_quant": ("quantise", "format=fp8_token", "bf16"),
    "fused_add_rms_norm": ("add_rms_norm", SMALL, "bf16"),
    "fused_moe": ("experts", "", "bf16"),
    "fused_qk_rmsnorm": ("qk_rms_norm", SMALL, "f16"),
    "fused_qkv_rope": ("rope", "positions=true", None),
    "fused_rmsnorm_quant": ("quantised_add_rms_norm", SMALL, "bf16"),
    "gated_delta_rule_update": ("delta_rule", "state=true", "bf16"),
    "gated_rms_norm": ("gated_rms_norm", SMALL, "bf16"),
    "l2_norm": ("l2_norm", SMALL, "bf16"),
    "layer_norm": ("layer_norm", "", "bf16"),
    "mla_decode_attention": ("attention", "kv_heads=1 lengths=true", "bf16"),
    "moe_align_block_size": ("expert_blocks", "", None),
    "moe_count_and_sort": ("expert_blocks", "", None),
    "moe_sum_reduce": ("reduce_sum", "axis=1", "bf16"),
    "moe_topk_gating_softmax": ("router", "normalised=false", "f32"),
    "mrope": ("rope", "positions=true", "bf16"),
    "paged_attention_decode": ("attention", "lengths=true", None),
    "per_token_group_quant_fp8": ("quantise", "format=fp8_group", "bf16"),
    "reshape_and_cache": ("cache", "", "bf16"),
    "rms_norm": ("rms_norm", SMALL, "bf16"),
    "silu_and_mul": ("gate", "gate_mode=swiglu gate_packed=true", "bf16"),
    "topk_filter": ("top_k", "", "f32"),
    "unified_attention": ("attention", "causal=true lengths=true", "bf16"),
}
ONE_TENSOR = "queries, keys and values lie in one tensor"
RANDOM = "lengths are random, from half of the keys on"
ONE_STATE = "a state for the text, in place of a pool"
# Family -> what of the operator in production is not there.
UNLIKE = {
    "attention_forward": "one text, without a list of lengths",
    "chunk_gated_delta_rule_state": ONE_STATE,
    "fused_qk_rmsnorm": ONE_TENSOR,
    "fused_qkv_rope": f"{ONE_TENSOR}; no bias",
    "gated_delta_rule_update": ONE_STATE,
    "mla_decode_attention": f"values are a tensor of their own; {RANDOM}",
    "mrope": f"sines are computed; {ONE_TENSOR}",
    "paged_attention_decode": RANDOM,
    "reshape_and_cache": "slots have 32 bits; caches are copied",
    "topk_filter": "-2^15 in place of -infinity",
    "unified_attention": f"results are bf16; {RANDOM}",
}
# Texts of such shapes in production, of which so many are there as 2^30 elements hold.
CUT = {"unified_attention/13": 3095, "unified_attention/18": 1192, "unified_attention/19": 2056}


@dataclass(frozen=True)
class ServingShape:
    """A shape of a family."""

    family: str
    number: int
    keys: str  # what tells it from others of the family

    @property
    def name(self) -> str:
        return f"{ROOT}/{self.family}/{self.number}"

    @property
    def kind(self) -> str:
        return OPERATORS[self.family][0]

    @property
    def type(self) -> str | None:
        own = re.search(rf"\b{TYPE}=(\w+)", self.keys)
        return own[1] if own else OPERATORS[self.family][2]

    @property
    def unlike(self) -> str:
        """What of the operator in production is not there."""
        texts = CUT.get(f"{self.family}/{self.number}")
        told = (UNLIKE.get(self.family, ""), f"{texts} texts are cut" if texts else "")
        return "; ".join(filter(None, told))

    @property
    def needs(self) -> tuple[OpCount, tuple[str, ...]]:
        """(operations and bytes; extents that --scale-to makes smaller).

        Raises:
            ValueError: simgen's layer does not take the shape.
        """
        texts = {each.key: each.value for each in self.section().entries if each.key != "name"}
        shape = tuple(map(int, texts.pop(SHAPE).split("x")))
        layer = LAYERS[self.kind].from_config((k, v, self.name) for k, v in texts.items())
        inputs = layer.workload_inputs(TensorSpec(shape, DType.table[self.type or "i32"]))
        layer = layer.reading(inputs)
        layer.output(inputs)
        direction = layer.passes[0]
        return layer.count(inputs, direction), tuple(layer.tiles(inputs, direction))

    def section(self) -> Section:
        """Its layer, by itself."""
        where = Place(self.name, 0)
        words = f"name={self.kind} {self.keys} {OPERATORS[self.family][1]}".split()
        entries = (
            Entry(key, value, where)
            for key, value in (word.split("=") for word in words)
            if key != TYPE
        )
        return Section(FILES[self.kind][0], tuple(entries), where)


@cache
def operators(family: str | None = None) -> tuple[ServingShape, ...]:
    """All shapes, or those of a family."""
    path = resources.folder("data") / f"{ROOT}.csv"
    rows = csv.DictReader(StringIO(read_regular(path, MAX_NBYTES).decode()))
    found = (ServingShape(row["family"], int(row["number"]), row["keys"]) for row in rows)
    return tuple(each for each in found if family in (None, each.family))


def find(word: str) -> ServingShape | None:
    """The shape that a word names; None where it is no name of this form.

    Raises:
        UsageError: there is no such family or number.
    """
    root, *parts = word.split("/")
    if root != ROOT or not parts:
        return None
    where, (family, *rest) = f"workload {printable(word)}", parts
    if family not in OPERATORS:
        fact = f"{ROOT} has no family {printable(family)} here"
        raise UsageError(f"{where}: {fact}; {did_you_mean(family, OPERATORS)}")
    known = {str(each.number): each for each in operators(family)}
    if len(rest) == 1 and re.fullmatch(r"\d{1,4}", rest[0]) and rest[0] in known:
        return known[rest[0]]
    cure = f"list them with: simgen list {ROOT} {family}"
    numbers = [each.number for each in known.values()]
    fact = f"{family} has {len(numbers)} numbers, from {min(numbers)} to {max(numbers)}"
    raise UsageError(f"{where}: {fact}; {cure}")
