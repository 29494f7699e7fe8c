"""A language model's config.json -> a config: the layers that make one step of its decoder.

    prefill  each of `batch` texts has `context` tokens, and the last one gives the next
    decode   each has one new token, whose queries see `context` tokens of a cache

A family is a row of data/decoders.toml. Layers are named layerN_PART, of N from 0. In a decode
step, the cache comes from the data file, with the place of the new token: its key and its value are
results, which a server puts there. Weights of equal layers are those of the first, unless they are
`own_weights`. With `tp`, layers are the share of one GPU of so many, without their all-reduces.

Source: config.json and modeling_*.py of Transformers; names of keys are those of its configs.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from simgen.ask.build import BuildChoices
from simgen.errors import ConfigError, UsageError, did_you_mean, one_line, printable
from simgen.frontend import config
from simgen.ground import resources
from simgen.ground.storage.files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
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
    "epsilon": "rms_norm_eps layer_norm_epsilon",
    "activation": "hidden_act activation_function",
    "tied": "tie_word_embeddings",
    "window": "sliding_window",
    "theta": "rope_theta",
    "experts": "num_experts num_local_experts",
    "top_k": "num_experts_per_tok",
    "expert_width": "moe_intermediate_size",
    "normalised": "norm_topk_prob",
    "dense": "mlp_only_layers",
    "sparse_step": "decoder_sparse_step",
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
    "max_window_layers _attn_implementation name_or_path"
)
TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
GATES = {"silu": "swiglu", "swish": "swiglu", "gelu": "geglu", "gelu_new": "geglu_tanh",
         "gelu_pytorch_tanh": "geglu_tanh"}  # fmt: skip
ACTIVATIONS = {"silu": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu",
               "gelu_pytorch_tanh": "gelu_tanh"}  # fmt: skip


SCALINGS = ("default", "linear", "llama3", "yarn")
ROPE_KEYS = {"rope_type": "scaling", "factor": "factor", "low_freq_factor": "low",
             "original_max_position_embeddings": "original", "high_freq_factor": "high",
             "beta_fast": "fast", "beta_slow": "slow"}  # fmt: skip


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
    """What a config says, by the names above."""

    family: Mapping[str, Any]
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
    window: int
    theta: float
    experts: int
    top_k: int
    expert_width: int
    normalised: bool
    dense: tuple[int, ...]
    sparse_step: int
    biases: frozenset[str]  # parts that have one
    rope: Mapping[str, Any]  # what changes its angles
    dtype: str | None

    def is_sparse(self, layer: int) -> bool:
        """Whether its layer has experts."""
        regular = self.experts > 0 and layer not in self.dense
        return regular and (layer + 1) % self.sparse_step == 0


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
    model = _decoder(_content(path, where), where, typed=dtype is not None)
    phase, batch = serving.phase or "decode", serving.batch or 1
    context = serving.context or min(model.positions, 2048)
    if context > model.positions:
        fact = f"{BuildChoices.context} {context}: {where} has {model.positions} positions"
        raise UsageError(f"{fact}; write {model.positions} or less")
    share, tp = _share(model, serving.tp or 1, where)
    tokens = 1 if phase == "decode" else context
    text = "\n\n".join(_sections(share, batch, tokens, context, serving))
    notes = [f"{phase}, {batch} x {context} tokens, {model.layers} layers"]
    if tp > 1:
        notes.append(f"the share of one of {tp} GPUs, without all-reduces")
    if not serving.own_weights and model.layers > 1:
        notes.append(f"equal layers share weights; {BuildChoices.own_weights} gives each its own")
    return config.parse(f"{text}\n", where), dtype or model.dtype, tuple(notes)


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


def _decoder(given: dict[str, Any], where: str, *, typed: bool) -> Decoder:
    kind, known = given["model_type"], families()
    if not isinstance(kind, str) or kind not in known:
        inner = [k for k in ("text_config", "language_config", "llm_config") if k in given]
        if inner:
            fact = f"model_type is {printable(str(kind))}, a model of more than text"
            raise ConfigError(where, f"{fact}; save its {inner[0]} as a file, and give that")
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
        if values.get(key, wanted) != wanted:
            fact = f"{key} is {json.dumps(values[key])}"
            raise ConfigError(where, f"{fact}, which simgen has not; write {json.dumps(wanted)}")
    if values.get("quantization_config") and not typed:
        fact = "quantization_config: weights with scales of blocks are not built"
        raise ConfigError(where, f"{fact}; name a type for all with {BuildChoices.type}")
    return _filled(row, values, where)


def _filled(row: dict[str, Any], values: dict[str, Any], where: str) -> Decoder:
    def number(what: str, usual: int | None = None) -> int:
        names = KEYS[what].split()
        found = next((values[name] for name in names if name in values), usual)
        if type(found) is not int or not 0 <= found < 2**31:
            shown = f"is {printable(json.dumps(found))}" if found is not None else "is missing"
            name = next((name for name in names if name in values), names[0])
            raise ConfigError(where, f"{name} {shown}; write a whole number")
        return found

    def real(what: str, usual: float) -> float:
        names = KEYS[what].split()
        found = next((values[name] for name in names if name in values), usual)
        if type(found) not in (int, float) or not 0 < found < 1e12:
            raise ConfigError(
                where, f"{names[0]} is {printable(json.dumps(found))}; write a number"
            )
        return float(found)

    def one(what: str, usual: Any = None) -> Any:
        return next((values[name] for name in KEYS[what].split() if name in values), usual)

    hidden, heads = number("hidden"), number("heads")
    if not heads or not hidden or (hidden % heads and "head_dim" not in values):
        fact = f"{heads} heads do not divide {hidden} features"
        raise ConfigError(where, f"{fact}; correct one of them, or write head_dim")
    width = number("width", 4 * hidden)
    biases = {
        part
        for part, key in row.get("bias", {}).items()
        if key is True or (key is not False and values.get(key) is True)
    }
    rope = _rope(values.get("rope_parameters") or values.get("rope_scaling") or {}, where)
    theta = rope.pop("rope_theta", None) or one("theta", 10000.0)
    activation = one("activation", "silu")
    allowed = GATES if row.get("gated", True) else ACTIVATIONS
    if activation not in allowed:
        fact = f"the activation is {printable(str(activation))}"
        raise ConfigError(where, f"{fact}; {did_you_mean(str(activation), allowed)}")
    windowed = values.get("use_sliding_window", True) is True
    types = str(values.get("dtype") or values.get("torch_dtype") or "")
    made = Decoder(
        family=row,
        hidden=hidden,
        layers=number("layers"),
        heads=heads,
        kv_heads=number("kv_heads", heads),
        head_size=number("head_size", hidden // heads),
        width=width,
        vocabulary=number("vocabulary"),
        positions=number("positions", 2048),
        epsilon=real("epsilon", 1e-6),
        activation=activation,
        tied=one("tied", False) is True,
        window=number("window", 0) if windowed else 0,
        theta=float(theta),
        experts=number("experts", 0),
        top_k=number("top_k", 0),
        expert_width=number("expert_width", width),
        normalised=one("normalised", True) is True,
        dense=tuple(one("dense", ())),
        sparse_step=max(number("sparse_step", 1), 1),
        biases=frozenset(biases),
        rope=rope,
        dtype=TYPES.get(types),
    )
    _check(made, where)
    return made


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
    known = {*ROPE_KEYS, "rope_theta", "partial_rotary_factor"}
    for key in rope:
        if key not in known and rope[key] is not None:
            fact = f"key {printable(key)} of rope_scaling may change what is computed"
            raise ConfigError(where, f"{fact}, and is not known; remove it if it does not")
    return rope


def _check(model: Decoder, where: str) -> None:
    """Raises ConfigError if what a config says does not fit together."""
    if not 1 <= model.layers <= MAX_LAYERS:
        raise ConfigError(where, f"{model.layers} layers; write 1 to {MAX_LAYERS}")
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
    )
    return split, tp


def _section(kind: str, name: str, before: str = "", **keys: object) -> str:
    entries = {"name": name, **({"previous_layer": before} if before else {}), **keys}
    lines = (
        f"{key}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in entries.items()
        if value is not None
    )
    return "\n".join((f"[{kind}]", *lines))


@dataclass(frozen=True)
class _Extents:
    """What a step has, and whose weights its layers have."""

    model: Decoder
    batch: int
    tokens: int
    context: int
    serving: Serving

    def like(self, name: str, layer: int) -> str | None:
        """The layer that has the weights of layerN_PART."""
        first = next(
            at
            for at in range(layer + 1)
            if self.model.is_sparse(at) == self.model.is_sparse(layer) or not _of_mlp(name)
        )
        shared = not self.serving.own_weights and first != layer
        return f"layer{first}_{name}" if shared else None

    def product(self, layer: int, part: str, before: str, size: int, bias: str) -> str:
        return _section(
            "FullyConnected",
            f"layer{layer}_{part}",
            before,
            axis=-1,
            num_output=size,
            bias=True if bias in self.model.biases else None,
            weights=self.like(part, layer),
        )

    def heads(self, name: str, before: str, count: int) -> str:
        """(N, T, H E) to (N, H, T, E), or back."""
        if self.tokens > 1:
            return _section("Heads", name, before, heads=count)
        return _section("Reshape", name, before, to=f"0x{count}x1x{self.model.head_size}")

    def together(self, name: str, before: str, count: int) -> str:
        if self.tokens > 1:
            return _section("Heads", name, before, heads=count)
        return _section("Reshape", name, before, to=f"0x1x{count * self.model.head_size}")


def _of_mlp(name: str) -> bool:
    return name in ("gate_up", "up", "down", "router", "experts")


def _sections(
    model: Decoder, batch: int, tokens: int, context: int, serving: Serving
) -> Iterator[str]:
    step = _Extents(model, batch, tokens, context, serving)
    yield "[DNNMark]\nrun_mode=composed"
    shape = f"{batch}x{tokens}"
    rotated = model.family.get("position", "rope") == "rope"
    yield _section(
        "Embedding", "embedding", shape=shape, vocabulary=model.vocabulary, features=model.hidden
    )
    stream, added = "embedding", ""
    if rotated and serving.phase != "prefill":
        yield _section("Input", "places", shape=shape, type="i32")
    if not rotated:
        rows = f"1x{tokens}x{model.hidden}"  # the table's rows at the tokens' places
        yield _section("Input", "places", shape=rows)
        yield _section("Broadcast", "positions", "embedding,places", operation="add")
        stream = "positions"
    for layer in range(model.layers):
        yield from _norm(step, f"layer{layer}_norm1", stream, added, step.like("norm1", layer))
        stream = f"layer{layer}_norm1{_sum_of(model)}" if added else stream
        yield from _attention(step, layer, f"layer{layer}_norm1")
        added = f"layer{layer}_out"
        yield from _norm(step, f"layer{layer}_norm2", stream, added, step.like("norm2", layer))
        stream, added = f"layer{layer}_norm2{_sum_of(model)}", f"layer{layer}_down"
        yield from _mlp(step, layer, f"layer{layer}_norm2")
        if model.is_sparse(layer):
            added = f"layer{layer}_experts"
    yield from _norm(step, "norm", stream, added, None)
    last = "norm"
    if tokens > 1:
        yield _section(
            "Rearrange", "last", "norm", mode="crop", begin=f"0x{tokens - 1}x0", to="0x1x0"
        )
        last = "last"
    yield _section(
        "FullyConnected",
        "head",
        last,
        axis=-1,
        num_output=model.vocabulary // (serving.tp or 1),
        weights="embedding" if model.tied and not serving.tp else None,
    )


def _sum_of(model: Decoder) -> str:
    """How readers name the sum that a normalisation is made of."""
    return ".s" if model.family.get("norm", "RMSNorm") == "RMSNorm" else "_sum"


def _norm(step: _Extents, name: str, stream: str, added: str, weights: str | None) -> Iterator[str]:
    kind, epsilon = step.model.family.get("norm", "RMSNorm"), step.model.epsilon
    if added and kind == "RMSNorm":
        yield _section("AddRMSNorm", name, f"{stream},{added}", epsilon=epsilon, weights=weights)
        return
    if added:
        yield _section("Add", f"{name}_sum", f"{stream},{added}")
        stream = f"{name}_sum"
    yield _section(kind, name, stream, epsilon=epsilon, weights=weights)


def _attention(step: _Extents, layer: int, before: str) -> Iterator[str]:
    model, name = step.model, f"layer{layer}"
    counts = {"q": model.heads, "k": model.kv_heads, "v": model.kv_heads}
    ends = {}
    for part, count in counts.items():
        yield step.product(layer, part, before, count * model.head_size, "qkv")
        ends[part] = f"{name}_{part}_heads"
        yield step.heads(ends[part], f"{name}_{part}", count)
        if part == "v":
            continue
        if model.family.get("head_norm"):
            yield _section(
                "RMSNorm",
                f"{name}_{part}_norm",
                ends[part],
                epsilon=model.epsilon,
                weights=step.like(f"{part}_norm", layer),
            )
            ends[part] = f"{name}_{part}_norm"
        if model.family.get("position", "rope") == "rope":
            yield _rotated(step, f"{name}_{part}_rope", ends[part])
            ends[part] = f"{name}_{part}_rope"
    sources = list(ends.values())
    if step.serving.phase != "prefill":
        extents = f"{step.batch}x{model.kv_heads}x{step.context}x{model.head_size}"
        sources = [ends["q"], f"{name}_keys", f"{name}_values"]
        for cached in sources[1:]:
            yield _section("Input", cached, shape=extents)
    yield _section(
        "Attention",
        f"{name}_attention",
        ",".join(sources),
        causal=True,
        kv_heads=model.kv_heads if model.kv_heads != model.heads else None,
        window=model.window if 0 < model.window < step.context else None,
    )
    yield step.together(f"{name}_joined", f"{name}_attention", model.heads)
    yield step.product(layer, "out", f"{name}_joined", model.hidden, "out")


def _rotated(step: _Extents, name: str, before: str) -> str:
    """Heads, turned; in a decode step by the positions of their tokens."""
    model, rope = step.model, step.model.rope
    keys = {own: rope[key] for key, own in ROPE_KEYS.items() if rope.get(key) is not None}
    if rope.get("rope_type", "default") == "default":
        keys = {}
    decode = step.serving.phase != "prefill"
    rotary = int(model.head_size * rope.get("partial_rotary_factor", 1.0))
    return _section(
        "RoPE",
        name,
        f"{before},places" if decode else before,
        base=model.theta,
        rotary=rotary if rotary != model.head_size else None,
        positions=True if decode else None,
        **keys,
    )


def _mlp(step: _Extents, layer: int, before: str) -> Iterator[str]:
    model, name = step.model, f"layer{layer}"
    if model.is_sparse(layer):
        yield step.product(layer, "router", before, model.experts, "router")
        yield _section(
            "Router",
            f"{name}_routes",
            f"{name}_router",
            top_k=model.top_k,
            normalised=model.normalised,
        )
        most = min(model.experts, step.batch * step.tokens * model.top_k)
        stored = None if step.serving.own_weights or most == model.experts else most
        yield _section(
            "Experts",
            f"{name}_experts",
            f"{before},{name}_routes,{name}_routes.ids",
            experts=model.experts,
            intermediate=model.expert_width,
            gate_mode=GATES[model.activation],
            stored=stored,
            weights=step.like("experts", layer),
        )
        return
    if model.family.get("gated", True):
        yield step.product(layer, "gate_up", before, 2 * model.width, "mlp")
        mode = GATES[model.activation]
        yield _section("Gate", f"{name}_gate", f"{name}_gate_up", gate_mode=mode, gate_packed=True)
    else:
        yield step.product(layer, "up", before, model.width, "mlp")
        mode = ACTIVATIONS[model.activation]
        yield _section("Activation", f"{name}_gate", f"{name}_up", activation_mode=mode)
    yield step.product(layer, "down", f"{name}_gate", model.hidden, "mlp")
