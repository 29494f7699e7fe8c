"""A language model's config.json -> a config: the layers that make one step of it.

    prefill  each of `batch` texts has `context` tokens, and the last one gives the next
    decode   each has one new token, whose queries see `context` tokens of a cache

A family is a row of data/decoders.toml; decoder_step.py has the layers. In a decode step, the cache
comes from the data file, with the place of the new token: its key and its value are results, which
a server puts there. Weights of equal layers are those of the first, unless they are `own_weights`.
With `tp`, layers are the share of one GPU of so many, without their all-reduces. An encoder has
prefill alone, and its result is what its last layer gives.

Source: config.json and modeling_*.py of Transformers; names of keys are those of its configs.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from functools import cache
from math import log, sqrt
from typing import TYPE_CHECKING, Any

from simgen.ask.build import BuildChoices
from simgen.errors import ConfigError, UsageError, did_you_mean, one_line, printable
from simgen.frontend import config, decoder_step
from simgen.frontend.decoder_model import FULL, KINDS, OF_FAMILY, SLIDING, USUAL, Decoder, Serving
from simgen.frontend.decoder_step import ACTIVATIONS, GATES
from simgen.ground import resources
from simgen.ground.storage.files import read_regular

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.frontend.config import Config

SUFFIX = ".json"
MAX_NBYTES = 2**20  # the largest config.json
MAX_LAYERS = 512
# Names that the table of families gives its values, by what they are here.
KEYS = {
    "hidden": "hidden_size n_embd",
    "layers": "num_hidden_layers n_layer",
    "heads": "num_attention_heads n_head",
    "kv_heads": "num_key_value_heads",
    "head_size": "head_dim",
    "width": "intermediate_size n_inner",
    "vocabulary": "vocab_size",
    "positions": "max_position_embeddings n_positions",
    "epsilon": "rms_norm_eps layer_norm_epsilon layer_norm_eps norm_epsilon",
    "activation": "hidden_activation hidden_act activation_function",
    "tied": "tie_word_embeddings",
    "window": "sliding_window",
    "theta": "rope_theta",
    "local_theta": "rope_local_base_freq",
    "experts": "n_routed_experts num_routed_experts num_experts num_local_experts",
    "top_k": "num_experts_per_tok",
    "expert_width": "moe_intermediate_size",
    "shared": "n_shared_experts num_shared_experts",
    "shared_width": "shared_expert_intermediate_size",
    "normalised": "norm_topk_prob",
    "routed_scale": "routed_scaling_factor",
    "groups": "n_group",
    "top_groups": "topk_group",
    "dense": "mlp_only_layers",
    "first_sparse": "first_k_dense_replace",
    "sparse_step": "decoder_sparse_step",
    "latent": "kv_lora_rank",
    "query_rank": "q_lora_rank",
    "value_size": "v_head_dim",
    "turned": "qk_rope_head_dim",
    "still": "qk_nope_head_dim",
    "cap": "attn_logit_softcapping",
    "final_cap": "final_logit_softcapping",
    "score_divisor": "query_pre_attn_scalar",
    "score_scale": "attention_multiplier",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "logit_divisor": "logits_scaling",
    "pattern": "sliding_window_pattern _sliding_window_pattern",
}
COMMON = (
    "hidden_size num_hidden_layers num_attention_heads num_key_value_heads head_dim vocab_size "
    "intermediate_size max_position_embeddings rms_norm_eps hidden_act tie_word_embeddings "
    "rope_theta rope_scaling rope_parameters attention_bias mlp_bias quantization_config"
)
# Keys that say nothing of what is computed.
SILENT = (
    "architectures attention_dropout auto_map bos_token_id chunk_size_feed_forward dtype "
    "eos_token_id hidden_dropout id2label initializer_range is_encoder_decoder label2id model_type "
    "_name_or_path output_attentions output_hidden_states pad_token_id pretraining_tp problem_type "
    "return_dict torch_dtype transformers_version use_cache torchscript use_bfloat16 "
    "max_window_layers _attn_implementation name_or_path resid_pdrop embd_pdrop "
    "hidden_dropout_prob attention_probs_dropout_prob classifier_dropout gradient_checkpointing "
    "cache_implementation router_aux_loss_coef output_router_logits finetuning_task"
)
TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
# Ways to store weights that a step has in a wider type, with a note.
WIDENED = {"mxfp4": "blocks of mxfp4", "fp8": "f8 with scales of blocks"}
__all__ = ["USUAL", "Serving"]

SCALINGS = ("default", "linear", "llama3", "yarn")
ROPE_KEYS = {"rope_type": "scaling", "factor": "factor", "low_freq_factor": "low",
             "original_max_position_embeddings": "original", "high_freq_factor": "high",
             "beta_fast": "fast", "beta_slow": "slow", "truncate": "truncate",
             "attention_factor": "attention"}  # fmt: skip


@cache
def families() -> dict[str, dict[str, Any]]:
    """model_type -> its row."""
    return tomllib.loads((resources.folder("data") / "decoders.toml").read_text("utf-8"))


def is_one(path: Path) -> bool:
    """Whether a word names a file that may be a model's config: one of layers begins otherwise."""
    if path.suffix != SUFFIX:
        return False
    try:
        return read_regular(path, MAX_NBYTES).lstrip()[:1] in (b"{", b"")
    except OSError:
        return True


def read(
    path: Path, serving: Serving, dtype: str | None
) -> tuple[Config, str | None, tuple[str, ...]]:
    """The config of a model's step, the element type, and what is to be said of it.

    Raises:
        ConfigError: it is no config of a model that is known, or says what simgen has not.
        UsageError: the step is none that it has.
    """
    where = one_line(str(path))
    given = _content(path, where)
    model, notes = _decoder(given, where, dtype)
    if model.encoder and serving.phase not in (None, "prefill"):
        fact = f"{BuildChoices.phase} {serving.phase}: {where} is an encoder, without a cache"
        raise UsageError(f"{fact}; take prefill")
    phase = serving.phase or ("prefill" if model.encoder else "decode")
    serving = replace(serving, phase=phase)
    batch = serving.batch or 1
    context = serving.context or min(model.positions, 2048)
    if context > model.positions:
        fact = f"{BuildChoices.context} {context}: {where} has {model.positions} positions"
        raise UsageError(f"{fact}; write {model.positions} or less")
    share, tp = _share(model, serving.tp or 1, where)
    tokens = 1 if phase == "decode" else context
    text = decoder_step.text(share, batch, tokens, context, serving)
    said = [f"{phase}, {batch} x {context} tokens, {model.layers} layers", *notes]
    if (rows := decoder_step.words(share, serving)) < model.vocabulary:
        said.append(f"tokens are of the first {rows} words, whose rows alone are stored")
    if tp > 1:
        said.append(f"the share of one of {tp} GPUs, without all-reduces")
    if not serving.own_weights and model.layers > 1:
        said.append(f"equal layers share weights; {BuildChoices.own_weights} gives each its own")
    return config.parse(text, where), dtype or model.dtype, tuple(said)


def _content(path: Path, where: str) -> dict[str, Any]:
    try:
        found = json.loads(read_regular(path, MAX_NBYTES))
    except (OSError, UnicodeDecodeError, RecursionError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise ConfigError(where, f"cannot be read ({told}); check the path") from None
    if not isinstance(found, dict) or "model_type" not in found:
        diffusers = isinstance(found, dict) and "_class_name" in found
        fact = "a config of diffusers" if diffusers else "no key model_type"
        fact += ", which models of Hugging Face have" if not diffusers else ""
        raise ConfigError(where, f"{fact}; give the config.json of a language model")
    return found


def _decoder(
    given: dict[str, Any], where: str, dtype: str | None
) -> tuple[Decoder, tuple[str, ...]]:
    """What a config says, and what is to be said of it."""
    kind, known = given["model_type"], families()
    if not isinstance(kind, str) or kind not in known:
        inner = [k for k in ("text_config", "language_config", "llm_config") if k in given]
        if inner:
            fact = f"model_type is {printable(str(kind))}, a model of more than text"
            raise ConfigError(where, f"{fact}; save its {inner[0]} as a file, and give that")
        if "vision_config" in given or "image_size" in given:
            fact = f"model_type is {printable(str(kind))}, a model of images"
            raise ConfigError(where, f"{fact}; give the config.json of a language model")
        near = did_you_mean(str(kind), known)
        raise ConfigError(where, f"model_type is {printable(str(kind))}; {near}")
    row = known[kind]
    listed = {*COMMON.split(), *SILENT.split(), *row.get("keys", "").split()}
    for key, value in given.items():
        if key not in listed and value is not None:
            fact = f"key {printable(key)} of {kind} may change what is computed, and is not known"
            raise ConfigError(where, f"{fact}; remove it if it does not")
    values = {**row.get("usual", {}), **{k: v for k, v in given.items() if v is not None}}
    for key, wanted in row.get("must", {}).items():
        allowed = wanted if isinstance(wanted, list) else [wanted]
        if values.get(key, allowed[0]) not in allowed:
            fact = f"{key} is {printable(json.dumps(values[key]))}"
            cure = f"write {' or '.join(map(json.dumps, allowed))}"
            raise ConfigError(where, f"{fact}, which simgen has not; {cure}")
    model = _filled(row, values, where)
    return model, _widened(values.get("quantization_config"), where, dtype, model)


def _widened(given: Any, where: str, dtype: str | None, model: Decoder) -> tuple[str, ...]:
    """What is said of weights that have blocks with scales."""
    if not given or dtype is not None:
        return ()
    method = given.get("quant_method") if isinstance(given, dict) else None
    if method not in WIDENED:
        fact = f"quantization_config: weights of {printable(json.dumps(method))} are not built"
        raise ConfigError(where, f"{fact}; name a type for all with {BuildChoices.type}")
    stored = model.dtype or "f32"
    return (f"weights are {stored}, which the model has as {WIDENED[method]}",)


def _filled(row: dict[str, Any], values: dict[str, Any], where: str) -> Decoder:
    def named(what: str) -> str:
        names = KEYS[what].split()
        return next((name for name in names if name in values), names[0])

    def number(what: str, usual: int | None = None) -> int:
        found = values.get(named(what), usual)
        if type(found) is not int or not 0 <= found < 2**31:
            shown = f"is {printable(json.dumps(found))}" if found is not None else "is missing"
            raise ConfigError(where, f"{named(what)} {shown}; write a whole number")
        return found

    def real(what: str, usual: float) -> float:
        found = values.get(named(what), usual)
        if found == usual:
            return float(usual)
        if type(found) not in (int, float) or not 1e-12 <= found < 1e12:
            shown = printable(json.dumps(found))
            raise ConfigError(where, f"{named(what)} is {shown}; write a number")
        return float(found)

    def one(what: str, usual: Any = None) -> Any:
        return values.get(named(what), usual)

    hidden, heads, latent = number("hidden"), number("heads"), number("latent", 0)
    turned, still = number("turned", 0), number("still", 0)
    if not heads or not hidden or (hidden % heads and "head_dim" not in values and not latent):
        fact = f"{heads} heads do not divide {hidden} features"
        raise ConfigError(where, f"{fact}; correct one of them, or write head_dim")
    if latent and not (turned and still):
        raise ConfigError(where, "qk_rope_head_dim or qk_nope_head_dim is missing; write both")
    size = turned + still if latent else number("head_size", hidden // heads)
    width, layers = number("width", 4 * hidden), number("layers")
    if not 1 <= layers <= MAX_LAYERS:
        raise ConfigError(where, f"{layers} layers; write 1 to {MAX_LAYERS}")
    activation = one("activation", "silu")
    allowed = GATES if row.get("gated", True) else ACTIVATIONS
    if activation not in allowed:
        fact = f"the activation is {printable(str(activation))}"
        raise ConfigError(where, f"{fact}; {did_you_mean(str(activation), allowed)}")
    ropes, share, sharper = _ropes(values, real("theta", 1e4), one("local_theta"), where)
    divisor = real("score_divisor", 0) or (float(size) if latent or sharper != 1 else 0)
    expert_width = number("expert_width", width)
    shared = number("shared", 0) * expert_width or number("shared_width", 0)
    first = number("first_sparse", 0)
    by_root = row.get("embedding") == "root"
    types = str(values.get("dtype") or values.get("torch_dtype") or "")
    made = Decoder(
        **{name: row[name] for name in OF_FAMILY if name in row},
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=heads if latent else number("kv_heads", heads),
        head_size=size,
        width=width,
        vocabulary=number("vocabulary"),
        positions=number("positions", 2048),
        epsilon=real("epsilon", 1e-6),
        activation=activation,
        tied=one("tied", False) is True,
        windows=_windows(values, number("window", 0), number("pattern", 0), layers, where),
        ropes=ropes,
        rotary=turned or (int(size * share) if row.get("position", "rope") == "rope" else 0),
        experts=number("experts", 0),
        top_k=number("top_k", 0),
        expert_width=expert_width,
        shared_width=shared,
        normalised=one("normalised", True) is True,
        sigmoid=row.get("scores") == "sigmoid",
        routed_scale=real("routed_scale", 1.0),
        groups=number("groups", 1) if values.get("topk_method") != "greedy" else 1,
        top_groups=number("top_groups", 1),
        dense=(*one("dense", ()), *range(first)),
        sparse_step=max(number("sparse_step", 1), 1),
        latent=latent,
        query_rank=number("query_rank", 0),
        value_size=number("value_size", size),
        cap=real("cap", 0.0),
        final_cap=real("final_cap", 0.0),
        score_scale=real("score_scale", 0.0) or (sharper / sqrt(divisor) if divisor else 0.0),
        embedding_scale=sqrt(hidden) if by_root else real("embedding_scale", 1.0),
        residual_scale=real("residual_scale", 1.0),
        logit_scale=1 / real("logit_divisor", 1.0),
        biases=frozenset(
            part
            for part, key in row.get("bias", {}).items()
            if key is True or (key is not False and values.get(key) is True)
        ),
        dtype=TYPES.get(types),
    )
    _check(made, where)
    return made


def _windows(
    values: dict[str, Any], window: int, pattern: int, layers: int, where: str
) -> tuple[int, ...]:
    """The window of each layer; 0: all keys."""
    if values.get("use_sliding_window", True) is not True:
        window = 0
    kinds = values.get("layer_types")
    if kinds is None:
        first = values.get("max_window_layers", 0) if "use_sliding_window" in values else 0
        full = [(bool(pattern) and (at + 1) % pattern == 0) or at < first for at in range(layers)]
        return tuple(0 if each else window for each in full)
    if not isinstance(kinds, list) or len(kinds) < layers:
        raise ConfigError(where, f"layer_types has no {layers} kinds; write one for each layer")
    for kind in kinds:
        if kind not in KINDS:
            told = did_you_mean(str(kind), KINDS)
            raise ConfigError(where, f"layer_types has {printable(str(kind))}; {told}")
    return tuple(window if kind == SLIDING else 0 for kind in kinds[:layers])


def _ropes(
    values: dict[str, Any], theta: float, local: Any, where: str
) -> tuple[dict[str, dict[str, Any]], float, float]:
    """(keys of [RoPE] by kind of layer, the share of a head that turns, the factor of scores).

    Raises:
        ConfigError: a config says what [RoPE] has not.
    """
    given = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(given, dict):
        raise ConfigError(where, "rope_scaling is no object; write null, or one with rope_type")
    if any(kind in given for kind in KINDS):
        each = {kind: given.get(kind) or {} for kind in KINDS}
    else:
        each = {FULL: given, SLIDING: given if local is None else {}}
    bases = {FULL: theta, SLIDING: local or theta}
    made, share, sharper = {}, values.get("partial_rotary_factor", 1.0), 1.0
    for kind, said in each.items():
        rope = _rope(said, where)
        whole = {"original_max_position_embeddings": values.get("max_position_embeddings")}
        share = rope.get("partial_rotary_factor", share)
        keys: dict[str, Any] = {"base": float(rope.get("rope_theta", bases[kind]))}
        if rope.get("rope_type", "default") != "default":
            rope = {**whole, **rope}
            if rope.get("mscale_all_dim"):
                sharper = _sharper(rope, "mscale_all_dim") ** 2
            if rope.get("mscale") and rope.get("mscale_all_dim"):
                ratio = _sharper(rope, "mscale") / _sharper(rope, "mscale_all_dim")
                rope.setdefault("attention_factor", ratio)
            keys |= {own: rope[key] for key, own in ROPE_KEYS.items() if rope.get(key) is not None}
        made[kind] = keys
    if type(share) not in (int, float) or not 0 < share <= 1:
        fact = f"partial_rotary_factor is {printable(json.dumps(share))}"
        raise ConfigError(where, f"{fact}; write a number above 0, and 1 at most")
    return made, float(share), sharper


def _sharper(rope: dict[str, Any], key: str) -> float:
    factor: float = rope.get("factor", 1.0)
    return 1.0 if factor <= 1 else 0.1 * float(rope[key]) * log(factor) + 1.0


def _rope(given: Any, where: str) -> dict[str, Any]:
    """What a config says of the angles of positions.

    Raises:
        ConfigError: it says what [RoPE] has not.
    """
    if not isinstance(given, dict):
        raise ConfigError(where, "rope_scaling is no object; write null, or one with rope_type")
    rope = {("rope_type" if key == "type" else key): value for key, value in given.items()}
    if rope.get("rope_type", "default") not in SCALINGS:
        fact = f"rope_type is {printable(str(rope['rope_type']))}"
        raise ConfigError(where, f"{fact}; {did_you_mean(str(rope['rope_type']), SCALINGS)}")
    known = {*ROPE_KEYS, "rope_theta", "partial_rotary_factor", "mscale", "mscale_all_dim"}
    for key in rope:
        if key not in known and rope[key] is not None:
            fact = f"key {printable(key)} of rope_scaling may change what is computed"
            raise ConfigError(where, f"{fact}, and is not known; remove it if it does not")
    if "mscale" in rope and not rope.get("mscale_all_dim"):
        fact = "key 'mscale' of rope_scaling is without mscale_all_dim"
        raise ConfigError(where, f"{fact}; write both, or attention_factor")
    return rope


def _check(model: Decoder, where: str) -> None:
    """Raises ConfigError if what a config says does not fit together."""
    if not model.kv_heads or model.heads % model.kv_heads:
        fact = f"{model.kv_heads} heads of keys do not divide {model.heads} heads"
        raise ConfigError(where, f"{fact}; correct num_key_value_heads")
    if model.top_k > model.experts:
        fact = f"num_experts_per_tok is {model.top_k}, and there are {model.experts} experts"
        raise ConfigError(where, f"{fact}; write {model.experts} or less")
    if model.experts and not model.top_k:
        raise ConfigError(where, "num_experts_per_tok is missing; write a whole number")


def _share(model: Decoder, tp: int, where: str) -> tuple[Decoder, int]:
    """What one of several GPUs has of each layer."""
    parts = {
        "attention heads": model.heads,
        "heads of keys": max(model.kv_heads, tp) if tp % model.kv_heads == 0 else model.kv_heads,
        "intermediate elements": model.width,
        "words": model.vocabulary,
    }
    if model.experts:
        parts |= {"elements of an expert": model.expert_width}
        parts |= {"elements of shared experts": model.shared_width}
    if model.encoder:
        del parts["words"]
    for what, count in parts.items():
        if count % tp:
            several = [n for n in range(2, 65) if not any(c % n for c in parts.values())]
            cure = f"take {', '.join(map(str, several[:4]))}" if several else "leave it out"
            fact = f"{BuildChoices.tp} {tp} does not divide {count} {what} of {where}"
            raise UsageError(f"{fact}; {cure}")
    split = replace(
        model,
        heads=model.heads // tp,
        kv_heads=max(model.kv_heads // tp, 1),
        width=model.width // tp,
        expert_width=model.expert_width // tp,
        shared_width=model.shared_width // tp,
    )
    return split, tp
