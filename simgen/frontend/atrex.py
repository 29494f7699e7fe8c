"""Operators of LLM serving by name, `atrex/FAMILY/NUMBER`: shapes in data/atrex.csv.

Families and numbers are those of Atrex-Bench. A family is a layer with keys that all of its shapes
have, and the type that they are in. Families of operators that simgen has not are not listed.

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
from simgen.ground.storage.files import read_regular
from simgen.layers import FILES

ROOT = "atrex"
MAX_NBYTES = 2**20  # size limit of the list
SMALL = "epsilon=1e-6"
BLOCKS = "format=fp8_group block_rows=128"
# Family -> its layer, keys that all shapes have, type.
OPERATORS = {
    "block_scaled_mm": ("scaled_fc", f"scaled_x=true {BLOCKS}", None),
    "fp8_blockscale_fused_moe": ("experts", f"scaled_weights=true {BLOCKS}", "bf16"),
    "fp8_dynamic_per_token_quant": ("quantise", "format=fp8_token", "bf16"),
    "fused_add_rms_norm": ("add_rms_norm", SMALL, "bf16"),
    "fused_moe": ("experts", "", "bf16"),
    "fused_rmsnorm_quant": ("quantised_add_rms_norm", SMALL, "bf16"),
    "gated_rms_norm": ("gated_rms_norm", SMALL, "bf16"),
    "l2_norm": ("l2_norm", SMALL, "bf16"),
    "layer_norm": ("layer_norm", "", "bf16"),
    "moe_align_block_size": ("expert_blocks", "", None),
    "moe_count_and_sort": ("expert_blocks", "", None),
    "moe_topk_gating_softmax": ("router", "normalised=false", "f32"),
    "per_token_group_quant_fp8": ("quantise", "format=fp8_group", "bf16"),
    "rms_norm": ("rms_norm", SMALL, "bf16"),
    "silu_and_mul": ("gate", "gate_mode=swiglu gate_packed=true", "bf16"),
}


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
        return OPERATORS[self.family][2]

    def section(self) -> Section:
        """Its layer, by itself."""
        where = Place(self.name, 0)
        words = f"name={self.kind} {self.keys} {OPERATORS[self.family][1]}".split()
        entries = (Entry(*word.partition("=")[::2], where) for word in words)
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
