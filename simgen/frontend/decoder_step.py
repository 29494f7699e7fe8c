"""The layers of one step of a language model, as the text of a config.

Layers are named layerN_PART, of N from 0. Around the two parts of a layer, attention and its
network, normalisations lie by the family's `norms`:

    before  x + f(norm(x))             Llama and most others
    after   x + norm(f(x))             OLMo 2
    both    x + norm(f(norm(x)))       Gemma 2 and 3
    sum     norm(x + f(x))             BERT

Source: modeling_*.py of Transformers; DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1, with appendix
C for `latent` attention, whose decode step has its products with keys and values beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.frontend.decoder_model import Decoder, Serving

GATES = {"silu": "swiglu", "swish": "swiglu", "gelu": "geglu", "gelu_new": "geglu_tanh",
         "gelu_pytorch_tanh": "geglu_tanh"}  # fmt: skip
ACTIVATIONS = {"silu": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu",
               "gelu_pytorch_tanh": "gelu_tanh"}  # fmt: skip
ROWS = 4096  # in a table of words, more than the tokens of a step choose
OF_NETWORK = ("gate_up", "up", "down", "router", "routes", "experts",
              "shared_gate_up", "shared_down", "shared_switch")  # fmt: skip


def text(model: Decoder, batch: int, tokens: int, context: int, serving: Serving) -> str:
    """The config of a step in which each of `batch` texts has `tokens` new ones of `context`."""
    step = _Extents(model, batch, tokens, context, serving)
    return "\n\n".join(("[DNNMark]\nrun_mode=composed", *_sections(step))) + "\n"


def words(model: Decoder, serving: Serving) -> int:
    """Rows of the table of words: some, if nothing else reads it and weights are any."""
    needs_all = serving.own_weights or (model.tied and (serving.tp or 1) == 1)
    return model.vocabulary if needs_all else min(model.vocabulary, ROWS)


def _section(kind: str, name: str, before: str = "", **keys: object) -> str:
    entries = {"name": name, **({"previous_layer": before} if before else {}), **keys}
    lines = (
        f"{key}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in entries.items()
        if value is not None
    )
    return "\n".join((f"[{kind}]", *lines))


def _scaled(name: str, before: str, factor: float) -> str:
    return _section(
        "Piecewise", name, before, piecewise_mode="linear", slope=f"{factor:.9g}", offset=0
    )


@dataclass(frozen=True)
class _Extents:
    """What a step has, and whose weights its layers have."""

    model: Decoder
    batch: int
    tokens: int
    context: int
    serving: Serving

    @property
    def cached(self) -> bool:
        return self.serving.phase != "prefill"

    def first(self, name: str, layer: int) -> int:
        """The layer whose weights layerN_PART has."""
        if self.serving.own_weights:
            return layer
        sparse = self.model.is_sparse
        return next(
            at for at in range(layer + 1)
            if name not in OF_NETWORK or sparse(at) == sparse(layer)
        )  # fmt: skip

    def like(self, name: str, layer: int) -> str | None:
        first = self.first(name, layer)
        return f"layer{first}_{name}" if first != layer else None

    def product(self, layer: int, part: str, before: str, size: int, bias: str = "") -> str:
        return _section(
            "FullyConnected",
            f"layer{layer}_{part}",
            before,
            axis=-1,
            num_output=size,
            bias=True if bias in self.model.biases else None,
            weights=self.like(part, layer),
        )

    def norm(self, layer: int, part: str, before: str, kind: str = "", epsilon: float = 0) -> str:
        return _section(
            kind or self.model.norm,
            f"layer{layer}_{part}",
            before,
            epsilon=epsilon or self.model.epsilon,
            weights=self.like(part, layer),
        )

    def heads(self, name: str, before: str, count: int, size: int) -> str:
        """(N, T, H E) to (N, H, T, E)."""
        if self.tokens > 1:
            return _section("Heads", name, before, heads=count)
        return _section("Reshape", name, before, to=f"0x{count}x1x{size}")

    def together(self, name: str, before: str, count: int, size: int) -> str:
        """(N, H, T, E) to (N, T, H E)."""
        if self.tokens > 1:
            return _section("Heads", name, before, heads=count)
        return _section("Reshape", name, before, to=f"0x1x{count * size}")

    def rotated(self, layer: int, part: str, before: str, size: int = 0) -> str:
        """Heads, turned; in a decode step by the positions of their tokens."""
        rope = self.model.rope_of(layer)
        size, rotary = size or self.model.head_size, self.model.rotary
        return _section(
            "RoPE",
            f"layer{layer}_{part}",
            f"{before},places" if self.cached else before,
            rotary=rotary if rotary != size else None,
            positions=True if self.cached else None,
            interleaved=self.model.interleaved or None,
            **rope,
        )


def _sections(step: _Extents) -> Iterator[str]:
    model, shape = step.model, f"{step.batch}x{step.tokens}"
    yield _section(
        "Embedding", "embedding", shape=shape, vocabulary=words(step.model, step.serving),
        features=model.hidden,
    )  # fmt: skip
    stream, added = "embedding", ""
    if model.rotary and step.cached:
        yield _section("Input", "places", shape=shape, type="i32")
    if model.embedding_scale != 1:
        yield _scaled("scaled", stream, model.embedding_scale)
        stream = "scaled"
    if not model.rotary:
        rows = f"1x{step.tokens}x{model.hidden}"  # the table's rows at the tokens' places
        yield _section("Input", "places", shape=rows)
        yield _section("Broadcast", "positions", f"{stream},places", operation="add")
        stream = "positions"
    if model.embedding_norm:
        yield _section(model.norm, "embedding_norm", stream, epsilon=model.epsilon)
        stream = "embedding_norm"
    for layer in range(model.layers):
        for number, part in enumerate((_attention, _network), 1):
            norm = f"norm{number}"
            weights = step.like(norm, layer)
            given, stream, joined = _joined(model, f"layer{layer}_{norm}", stream, added, weights)
            yield from joined
            added, sections = part(step, layer, given)
            yield from sections
            if model.norms in ("after", "both"):
                yield step.norm(layer, f"post{number}", added)
                added = f"layer{layer}_post{number}"
            if model.residual_scale != 1:
                yield _scaled(f"{added}_scaled", added, model.residual_scale)
                added = f"{added}_scaled"
            if model.norms == "sum":
                yield _section("Add", f"layer{layer}_{norm}_sum", f"{stream},{added}")
                yield step.norm(layer, norm, f"layer{layer}_{norm}_sum")
                stream, added = f"layer{layer}_{norm}", ""
    if not model.encoder:
        yield from _head(step, stream, added)


def _joined(
    model: Decoder, name: str, stream: str, added: str, weights: str | None
) -> tuple[str, str, list[str]]:
    """(what the next part reads, what its result is added to, the layers of both): before the first
    part, nothing is added."""
    norm = model.norms in ("before", "both") or name == "norm"
    keys = {"epsilon": model.epsilon, "weights": weights}
    if added and norm and model.norm == "RMSNorm":
        made = [_section("AddRMSNorm", name, f"{stream},{added}", **keys)]
        return name, f"{name}.s", made
    made = []
    if added:
        made.append(_section("Add", f"{name}_sum", f"{stream},{added}"))
        stream = f"{name}_sum"
    if norm:
        made.append(_section(model.norm, name, stream, **keys))
    return name if norm else stream, stream, made


def _head(step: _Extents, stream: str, added: str) -> Iterator[str]:
    """The normalisation of the last token, and the scores of all words."""
    model = step.model
    given, _, sections = _joined(model, "norm", stream, added, None)
    yield from sections
    if step.tokens > 1:
        begin = f"0x{step.tokens - 1}x0"
        yield _section("Rearrange", "last", given, mode="crop", begin=begin, to="0x1x0")
        given = "last"
    several = step.serving.tp or 1
    yield _section(
        "FullyConnected",
        "head",
        given,
        axis=-1,
        num_output=model.vocabulary // several,
        weights="embedding" if model.tied and several == 1 else None,
    )
    if model.final_cap:
        yield _scaled("head_bent", "head", 1 / model.final_cap)
        yield _section("Activation", "head_tanh", "head_bent", activation_mode="tanh")
        yield _scaled("logits", "head_tanh", model.final_cap)
    elif model.logit_scale != 1:
        yield _scaled("logits", "head", model.logit_scale)


def _attention(step: _Extents, layer: int, before: str) -> tuple[str, Iterator[str]]:
    made = _latent_attention if step.model.latent else _plain_attention
    return f"layer{layer}_out", made(step, layer, before)


def _plain_attention(step: _Extents, layer: int, before: str) -> Iterator[str]:
    model, name = step.model, f"layer{layer}"
    size = model.head_size
    counts = {"q": model.heads, "k": model.kv_heads, "v": model.kv_heads}
    ends = {}
    for part, count in counts.items():
        yield step.product(layer, part, before, count * size, "qkv")
        end = f"{name}_{part}"
        if model.head_norm == "all" and part != "v":
            yield step.norm(layer, f"{part}_norm", end)
            end = f"{name}_{part}_norm"
        yield step.heads(f"{name}_{part}_heads", end, count, size)
        ends[part] = f"{name}_{part}_heads"
        if part == "v":
            continue
        if model.head_norm == "head":
            yield step.norm(layer, f"{part}_norm", ends[part])
            ends[part] = f"{name}_{part}_norm"
        if model.rotary:
            yield step.rotated(layer, f"{part}_rope", ends[part])
            ends[part] = f"{name}_{part}_rope"
    sources = list(ends.values())
    if step.cached:
        extents = f"{step.batch}x{model.kv_heads}x{step.context}x{size}"
        sources = [ends["q"], f"{name}_keys", f"{name}_values"]
        for cached in sources[1:]:
            yield _section("Input", cached, shape=extents)
    window = model.windows[layer]
    yield _section(
        "Attention",
        f"{name}_attention",
        ",".join(sources),
        causal=not model.encoder,
        kv_heads=model.kv_heads if model.kv_heads != model.heads else None,
        window=window if 0 < window < step.context else None,
        scale=f"{model.score_scale:.9g}" if model.score_scale else None,
        softcap=model.cap or None,
        sinks=model.sinks or None,
        weights=step.like("attention", layer) if model.sinks else None,
    )
    yield step.together(f"{name}_joined", f"{name}_attention", model.heads, size)
    yield step.product(layer, "out", f"{name}_joined", model.hidden, "out")


def _latent_attention(step: _Extents, layer: int, before: str) -> Iterator[str]:
    """Elements that turn are first in each head; so they are of keys and of the cache."""
    model, name = step.model, f"layer{layer}"
    heads, turned, rank = model.heads, model.rotary, model.latent
    if model.query_rank:
        yield step.product(layer, "q_a", before, model.query_rank, "latent")
        yield step.norm(layer, "q_a_norm", f"{name}_q_a", epsilon=1e-6)
        yield step.product(layer, "q_b", f"{name}_q_a_norm", heads * model.head_size)
    else:
        yield step.product(layer, "q_b", before, heads * model.head_size)
    yield step.heads(f"{name}_q_heads", f"{name}_q_b", heads, model.head_size)
    yield step.rotated(layer, "q_rope", f"{name}_q_heads")
    yield step.product(layer, "kv_a", before, turned + rank, "latent")
    yield _section("Rearrange", f"{name}_k_part", f"{name}_kv_a", mode="crop", to=f"0x0x{turned}")
    yield _section("Rearrange", f"{name}_kv_part", f"{name}_kv_a", mode="crop",
                   begin=f"0x0x{turned}", to=f"0x0x{rank}")  # fmt: skip
    yield step.norm(layer, "kv_a_norm", f"{name}_kv_part", epsilon=1e-6)
    one = f"0x1x{step.tokens}x"
    yield _section("Reshape", f"{name}_k_head", f"{name}_k_part", to=f"{one}{turned}")
    yield step.rotated(layer, "k_rope", f"{name}_k_head", turned)
    rest = _absorbed if step.cached else _expanded
    yield from rest(step, layer)
    yield step.together(f"{name}_joined", f"{name}_read", heads, model.value_size)
    yield step.product(layer, "out", f"{name}_joined", model.hidden, "out")


def _expanded(step: _Extents, layer: int) -> Iterator[str]:
    """Keys and values of each head, made of what all heads share."""
    model, name = step.model, f"layer{layer}"
    still = model.head_size - model.rotary
    for part, size in (("k", still), ("v", model.value_size)):
        yield step.product(layer, f"{part}_b", f"{name}_kv_a_norm", model.heads * size)
        yield step.heads(f"{name}_{part}_heads", f"{name}_{part}_b", model.heads, size)
    yield _section("Rearrange", f"{name}_k_each", f"{name}_k_rope", mode="expand",
                   to=f"0x{model.heads}x0x0")  # fmt: skip
    yield _section("Concat", f"{name}_keys", f"{name}_k_each,{name}_k_heads", axis=-1)
    yield _section("Attention", f"{name}_read", f"{name}_q_rope,{name}_keys,{name}_v_heads",
                   causal=True, scale=f"{model.score_scale:.9g}")  # fmt: skip


def _absorbed(step: _Extents, layer: int) -> Iterator[str]:
    """Queries become those of the cache's rows, which are keys and values of all heads."""
    model, name, batch = step.model, f"layer{layer}", step.batch
    heads, turned, rank = model.heads, model.rotary, model.latent
    still, wide = model.head_size - turned, turned + rank

    def turned_back(part: str, before: str, extents: str) -> Iterator[str]:
        """Samples and heads exchanged; of one sample a view."""
        if batch > 1:
            yield _section("Rearrange", f"{name}_{part}_order", before, order="1x0x2x3")
            before = f"{name}_{part}_order"
        yield _section("Reshape", f"{name}_{part}", before, to=extents)

    def product(part: str, source: str, deep: int, size: int) -> Iterator[str]:
        """Each head by a matrix of its own: (N, H, 1, deep) to (N, H, 1, size)."""
        yield from turned_back(f"{part}_rows", source, f"{heads}x{batch}x{deep}")
        weights = f"layer{step.first(part, layer)}_{part}_up"
        if weights == f"{name}_{part}_up":
            yield _section("Input", weights, shape=f"{heads}x{deep}x{size}", fixed=True,
                           deviation=f"{1 / sqrt(deep):.6g}")  # fmt: skip
        yield _section("Gemm", f"{name}_{part}_product", f"{name}_{part}_rows,{weights}")
        yield _section("Reshape", f"{name}_{part}_heads", f"{name}_{part}_product",
                       to=f"{heads}x{batch}x1x{size}")  # fmt: skip
        yield from turned_back(f"{part}_end", f"{name}_{part}_heads", f"{batch}x{heads}x1x{size}")

    def part(to: str, before: str, begin: int, size: int) -> str:
        at = f"0x0x0x{begin}" if begin else None
        return _section("Rearrange", f"{name}_{to}", before, mode="crop", begin=at,
                        to=f"0x0x0x{size}")  # fmt: skip

    yield _section("Reshape", f"{name}_kv_head", f"{name}_kv_a_norm", to=f"0x1x1x{rank}")
    yield _section("Concat", f"{name}_cached", f"{name}_k_rope,{name}_kv_head", axis=-1)
    yield part("q_turned", f"{name}_q_rope", 0, turned)
    yield part("q_still", f"{name}_q_rope", turned, still)
    yield from product("k", f"{name}_q_still", still, rank)
    yield _section("Concat", f"{name}_queries", f"{name}_q_turned,{name}_k_end", axis=-1)
    yield _section("Input", f"{name}_cache", shape=f"{batch}x1x{step.context}x{wide}")
    yield _section("Attention", f"{name}_attention",
                   f"{name}_queries,{name}_cache,{name}_cache", causal=True, kv_heads=1,
                   scale=f"{model.score_scale:.9g}")  # fmt: skip
    yield part("latents", f"{name}_attention", turned, rank)
    yield from product("v", f"{name}_latents", rank, model.value_size)
    yield _section("Reshape", f"{name}_read", f"{name}_v_end",
                   to=f"{batch}x{heads}x1x{model.value_size}")  # fmt: skip


def _network(step: _Extents, layer: int, before: str) -> tuple[str, Iterator[str]]:
    model, name = step.model, f"layer{layer}"
    if not model.is_sparse(layer):
        return f"{name}_down", _mlp(step, layer, before, "", model.width)
    shared = model.shared_width > 0
    return f"{name}_{'mixed' if shared else 'experts'}", _mixture(step, layer, before)


def _mlp(step: _Extents, layer: int, before: str, prefix: str, width: int) -> Iterator[str]:
    model, name = step.model, f"layer{layer}_{prefix}"
    if model.gated:
        yield step.product(layer, f"{prefix}gate_up", before, 2 * width, "mlp")
        mode = GATES[model.activation]
        yield _section("Gate", f"{name}gate", f"{name}gate_up", gate_mode=mode, gate_packed=True)
    else:
        yield step.product(layer, f"{prefix}up", before, width, "mlp")
        mode = ACTIVATIONS[model.activation]
        yield _section("Activation", f"{name}gate", f"{name}up", activation_mode=mode)
    yield step.product(layer, f"{prefix}down", f"{name}gate", model.hidden, "mlp")


def _mixture(step: _Extents, layer: int, before: str) -> Iterator[str]:
    model, name = step.model, f"layer{layer}"
    yield step.product(layer, "router", before, model.experts, "router")
    grouped = model.groups > 1 and model.top_groups < model.groups
    yield _section(
        "Router",
        f"{name}_routes",
        f"{name}_router",
        top_k=model.top_k,
        normalised=model.normalised,
        scores_mode="sigmoid" if model.sigmoid else None,
        correction=model.sigmoid or None,
        weight_scale=model.routed_scale if model.routed_scale != 1 else None,
        groups=model.groups if grouped else None,
        top_groups=model.top_groups if grouped else None,
        weights=step.like("routes", layer) if model.sigmoid else None,
    )
    most = min(model.experts, step.batch * step.tokens * model.top_k)
    stored = None if step.serving.own_weights or most == model.experts else most
    yield _section(
        "Experts",
        f"{name}_experts",
        f"{before},{name}_routes,{name}_routes.ids",
        experts=model.experts,
        intermediate=model.expert_width,
        gate_mode=model.gate_mode or GATES[model.activation],
        bias=True if "experts" in model.biases else None,
        stored=stored,
        weights=step.like("experts", layer),
    )
    if not model.shared_width:
        return
    yield from _mlp(step, layer, before, "shared_", model.shared_width)
    shared = f"{name}_shared_down"
    if model.switch:
        yield step.product(layer, "shared_switch", before, 1)
        yield _section("Activation", f"{name}_shared_open", f"{name}_shared_switch",
                       activation_mode="sigmoid")  # fmt: skip
        yield _section("Broadcast", f"{name}_shared", f"{shared},{name}_shared_open",
                       operation="multiply")  # fmt: skip
        shared = f"{name}_shared"
    yield _section("Add", f"{name}_mixed", f"{name}_experts,{shared}")
