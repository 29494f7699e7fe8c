"""A language model as its config says, and the step that it is run for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simgen.ask.build import BuildChoices

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True)
class Serving:
    """One step that a model is run for."""

    phase: str | None = None
    batch: int | None = None
    context: int | None = None
    tp: int | None = None
    own_weights: bool = False

    @property
    def given(self) -> str:
        """The first option of these that was given; "" without one."""
        pairs = (
            (BuildChoices.phase, self.phase),
            (BuildChoices.batch, self.batch),
            (BuildChoices.context, self.context),
            (BuildChoices.tp, self.tp),
            (BuildChoices.own_weights, self.own_weights or None),
        )
        return next((str(option) for option, value in pairs if value is not None), "")


USUAL = Serving()


@dataclass(frozen=True)
class Decoder:
    """What a config says, by the names above; a scale of 1, and 0 otherwise, is none."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    width: int
    vocabulary: int
    positions: int
    epsilon: float
    activation: str
    tied: bool
    windows: tuple[int, ...]  # by layer; 0: all keys
    ropes: Mapping[str, Mapping[str, Any]]  # by kind of layer
    rotary: int  # elements of a head that turn
    experts: int
    top_k: int
    expert_width: int
    shared_width: int
    normalised: bool
    sigmoid: bool
    routed_scale: float
    groups: int
    top_groups: int
    dense: tuple[int, ...]
    sparse_step: int
    latent: int
    query_rank: int
    value_size: int
    cap: float
    final_cap: float
    score_scale: float
    embedding_scale: float
    residual_scale: float
    logit_scale: float
    biases: frozenset[str]  # parts that have one
    dtype: str | None
    # what a family says
    norm: str = "RMSNorm"
    norms: str = "before"
    head_norm: str = ""
    gated: bool = True
    gate_mode: str = ""
    interleaved: bool = False
    sinks: bool = False
    switch: bool = False
    encoder: bool = False
    embedding_norm: bool = False

    def is_sparse(self, layer: int) -> bool:
        """Whether its layer has experts."""
        regular = self.experts > 0 and layer not in self.dense
        return regular and (layer + 1) % self.sparse_step == 0

    def rope_of(self, layer: int) -> Mapping[str, Any]:
        return self.ropes[SLIDING if self.windows[layer] else FULL]


OF_FAMILY = ("norm", "norms", "head_norm", "gated", "gate_mode", "interleaved", "sinks", "switch",
             "encoder", "embedding_norm")  # fmt: skip
