"""Tiny models of each family, beside Transformers: their logits, and the tokens that these give.

    python benchmarks/decoders/agree.py FOLDER [FAMILY ...]

Random weights in float32, two layers, two texts of seven tokens. Transformers computes the logits
on the CPU. `simgen`, found in PATH, builds both phases from the model's config.json with the same
weights (--values), runs them on target host and checks them. Printed is the largest difference of
two logits, as a part of the largest logit. It needs torch, transformers,
safetensors and h5py; agree.txt beside
this file has the results.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
import transformers as tf
from safetensors.numpy import save_file

BATCH, TOKENS = 2, 7
USUAL = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 128,
    "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32, "rope_theta": 1e4}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "original_max_position_embeddings": 32, "rope_theta": 1e4}  # fmt: skip
TWO = ["sliding_attention", "full_attention"]
LATENT = {"kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12,
          "moe_intermediate_size": 32, "n_routed_experts": 8, "num_experts_per_tok": 3,
          "n_shared_experts": 2, "first_k_dense_replace": 1}  # fmt: skip
ENCODER = {key: value for key, value in USUAL.items() if key != "num_key_value_heads"}
ENCODERS = ("bert",)
CONFIGS = {
    "llama": lambda: tf.LlamaConfig(
        **USUAL, rope_parameters=LLAMA3, attention_bias=True, mlp_bias=True
    ),
    "mistral": lambda: tf.MistralConfig(**USUAL, sliding_window=5, head_dim=24),
    "qwen2": lambda: tf.Qwen2Config(
        **USUAL, use_sliding_window=True, max_window_layers=1, sliding_window=5
    ),
    "qwen3": lambda: tf.Qwen3Config(**USUAL, head_dim=24, tie_word_embeddings=True),
    "mixtral": lambda: tf.MixtralConfig(**USUAL, num_local_experts=4, sliding_window=None),
    "qwen2_moe": lambda: tf.Qwen2MoeConfig(
        **USUAL, moe_intermediate_size=32, num_experts=8, num_experts_per_tok=3,
        shared_expert_intermediate_size=48, mlp_only_layers=[0],
    ),
    "qwen3_moe": lambda: tf.Qwen3MoeConfig(
        **USUAL, moe_intermediate_size=32, num_experts=8, num_experts_per_tok=3, head_dim=16,
        norm_topk_prob=True, mlp_only_layers=[0],
    ),
    "gemma": lambda: tf.GemmaConfig(**USUAL, head_dim=24),
    "gemma2": lambda: tf.Gemma2Config(
        **USUAL, head_dim=24, sliding_window=5, layer_types=TWO, query_pre_attn_scalar=20,
        attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
    ),
    "gemma3_text": lambda: tf.Gemma3TextConfig(
        **USUAL, head_dim=24, sliding_window=5, layer_types=TWO, query_pre_attn_scalar=20,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    ),
    "phi3": lambda: tf.Phi3Config(
        **USUAL, sliding_window=5,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
    ),
    "olmo2": lambda: tf.Olmo2Config(**USUAL),
    "olmo3": lambda: tf.Olmo3Config(**USUAL, sliding_window=5, layer_types=TWO),
    "olmoe": lambda: tf.OlmoeConfig(
        **{**USUAL, "intermediate_size": 32}, num_experts=8, num_experts_per_tok=3
    ),
    "granite": lambda: tf.GraniteConfig(
        **USUAL, embedding_multiplier=3.0, residual_multiplier=0.5, logits_scaling=4.0,
        attention_multiplier=0.2,
    ),
    "starcoder2": lambda: tf.Starcoder2Config(**USUAL, sliding_window=5),
    "deepseek_v2": lambda: tf.DeepseekV2Config(
        **{**USUAL, "num_key_value_heads": 4}, **LATENT, q_lora_rank=None, n_group=4, topk_group=2,
        topk_method="group_limited_greedy", routed_scaling_factor=2.0,
    ),
    "deepseek_v3": lambda: tf.DeepseekV3Config(
        **{**USUAL, "num_key_value_heads": 4}, **LATENT, q_lora_rank=24, n_group=4, topk_group=2,
        rope_parameters={**YARN, "mscale": 1.0, "mscale_all_dim": 1.0},
    ),
    "gpt2": lambda: tf.GPT2Config(
        n_embd=64, n_layer=2, n_head=4, n_positions=128, vocab_size=256, bos_token_id=0,
        eos_token_id=0,
    ),
    "bert": lambda: tf.BertConfig(**ENCODER),
}  # fmt: skip
NORMS = {  # those before a part, and those behind it
    "both": ("input_layernorm", "pre_feedforward_layernorm",
             "post_attention_layernorm", "post_feedforward_layernorm"),
    "after": ("", "", "post_attention_layernorm", "post_feedforward_layernorm"),
    "before": ("input_layernorm", "post_attention_layernorm", "", ""),
    "gpt2": ("ln_1", "ln_2", "", ""),
    "sum": ("attention.output.LayerNorm", "output.LayerNorm", "", ""),
}  # fmt: skip
STYLE = {"gemma2": "both", "gemma3_text": "both", "olmo2": "after", "olmo3": "after",
         "gpt2": "gpt2", "bert": "sum"}  # fmt: skip
ENDS = {"w": "weight", "b": "bias"}
# Parts of a layer by the names that they have in one family or another.
PARTS = {
    "q": "self_attn.q_proj attention.self.query", "k": "self_attn.k_proj attention.self.key",
    "v": "self_attn.v_proj attention.self.value",
    "out": "self_attn.o_proj attn.c_proj attention.output.dense",
    "q_a": "self_attn.q_a_proj", "gate_up": "mlp.gate_up_proj",
    "up": "mlp.c_fc intermediate.dense", "down": "mlp.down_proj mlp.c_proj output.dense",
    "router": "mlp.gate mlp.router", "shared_switch": "mlp.shared_expert_gate",
    "shared_down": "mlp.shared_expert.down_proj mlp.shared_experts.down_proj",
}  # fmt: skip
PAIRS = {"gate_up": "mlp", "shared_gate_up": "mlp.shared_expert mlp.shared_experts"}
TABLES = "model.embed_tokens transformer.wte embeddings.word_embeddings"
LASTS = "model.norm transformer.ln_f"


def weights(model: Any, family: str) -> dict[str, np.ndarray]:
    """A model's parameters by the names that the workload has."""
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    found: dict[str, np.ndarray] = {}
    turned = family == "gpt2"  # its matrices have inputs first

    def take(to: str, names: str, of: str = "") -> None:
        for name in names.split():
            if name and f"{of}{name}" in state:
                found[to] = state[f"{of}{name}"]

    def norm(to: str, name: str) -> None:
        if f"{name}.weight" in state:
            of_one = family.startswith("gemma")  # it has what is added to 1
            found[f"{to}.gamma"] = state[f"{name}.weight"] + of_one
            take(f"{to}.beta", f"{name}.bias")

    take("embedding.w", " ".join(f"{name}.weight" for name in TABLES.split()))
    for name in LASTS.split():
        norm("norm", name)
    norm("embedding_norm", "embeddings.LayerNorm")
    if not model.config.tie_word_embeddings:
        take("head.w", "lm_head.weight")
    for at in range(2):
        own = next(
            f"{name}.{at}." for name in ("model.layers", "transformer.h", "encoder.layer")
            if any(key.startswith(f"{name}.{at}.") for key in state)
        )  # fmt: skip
        to = f"layer{at}"
        for part, name in zip(
            ("norm1", "norm2", "post1", "post2"), NORMS[STYLE.get(family, "before")]
        ):
            norm(f"{to}_{part}", own + name)
        for part in ("q", "k", "q_a", "kv_a"):
            norm(f"{to}_{part}_norm", f"{own}self_attn.{part}_norm")
            norm(f"{to}_{part}_norm", f"{own}self_attn.{part}_layernorm")
        for end, name in ENDS.items():
            for part, names in PARTS.items():
                take(f"{to}_{part}.{end}", " ".join(f"{n}.{name}" for n in names.split()), own)
            for part, names in PAIRS.items():
                for each in names.split():
                    pair = [f"{own}{each}.{half}_proj.{name}" for half in ("gate", "up")]
                    if pair[0] in state:
                        found[f"{to}_{part}.{end}"] = np.concatenate([state[n] for n in pair])
        if turned:
            found |= {n: v.T for n, v in found.items() if n.startswith(to) and n.endswith(".w")}
        take(f"{to}_routes.bias", "mlp.gate.e_score_correction_bias", own)
        for here, there in (("w_gate_up", "gate_up_proj"), ("w_down", "down_proj")):
            take(f"{to}_experts.{here}", f"mlp.experts.{there}", own)
        for joined in ("attn.c_attn", "self_attn.qkv_proj"):
            for end, name in ENDS.items():
                if f"{own}{joined}.{name}" in state:
                    both = state[f"{own}{joined}.{name}"]
                    _split(found, to, end, both.T if turned else both, model.config)
        if "kv_lora_rank" in vars(model.config):
            _latent(found, to, state, f"{own}self_attn.", model.config)
    return found


def _split(found: dict[str, Any], to: str, end: str, both: np.ndarray, config: Any) -> None:
    """The rows of q, k and v of one matrix."""
    size = config.hidden_size // config.num_attention_heads
    kept = getattr(config, "num_key_value_heads", config.num_attention_heads)
    cuts = np.cumsum([config.num_attention_heads * size, kept * size])
    for part, rows in zip("qkv", np.split(both, cuts)):
        found[f"{to}_{part}.{end}"] = rows


def _latent(found: dict[str, Any], to: str, state: Any, own: str, config: Any) -> None:
    """What turns comes first; the matrix of keys and values by its two halves."""
    heads = config.num_attention_heads
    still, turned = config.qk_nope_head_dim, config.qk_rope_head_dim
    rank, wide = config.kv_lora_rank, config.v_head_dim
    name = "q_proj" if config.q_lora_rank is None else "q_b_proj"
    rows = state[f"{own}{name}.weight"].reshape(heads, still + turned, -1)
    both = np.concatenate([rows[:, still:], rows[:, :still]], axis=1)
    found[f"{to}_q_b.w"] = both.reshape(heads * (still + turned), -1)
    found.pop(f"{to}_q.w", None)
    rows = state[f"{own}kv_a_proj_with_mqa.weight"]
    found[f"{to}_kv_a.w"] = np.concatenate([rows[rank:], rows[:rank]])
    rows = state[f"{own}kv_b_proj.weight"].reshape(heads, still + wide, rank)
    found[f"{to}_k_b.w"] = rows[:, :still].reshape(-1, rank)
    found[f"{to}_v_b.w"] = rows[:, still:].reshape(-1, rank)
    found[f"{to}_k_up.y"] = rows[:, :still]
    found[f"{to}_v_up.y"] = rows[:, still:].swapaxes(1, 2)


def cache_of(layer: Any, at: int, family: str) -> dict[str, np.ndarray]:
    """The tensors of a layer's cache."""
    keys, values = layer.keys.numpy(), layer.values.numpy()
    if not family.startswith("deepseek"):
        return {f"layer{at}_keys.y": keys, f"layer{at}_values.y": values}
    if family == "deepseek_v3":  # it has the first of all pairs, then the second ones
        values = np.stack(np.split(values, 2, axis=-1), axis=-1).reshape(values.shape)
    return {f"layer{at}_cache.y": np.concatenate([values, keys], axis=-1)}


def simulated(folder: Path, config: Path, phase: str, values: Path) -> np.ndarray:
    """The logits of the last token of each text."""
    bundle = folder / f"{config.stem}_{phase}"
    step = ["--phase", phase, "--batch", str(BATCH), "--context", str(TOKENS), "--own-weights"]
    build = ["simgen", "build", str(config), *step, "--type", "f32", "--values", str(values)]
    commands = (
        [*build, "-t", "host", "-o", str(bundle)],
        ["simgen", "run", str(bundle), "--on", "host"],
        ["simgen", "diff", str(bundle)],
    )
    for command in commands:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout[-400:]}{done.stderr[-400:]}")
    names = ("logits.y", "head.y", "layer1_norm2.y")
    with h5py.File(bundle / "results" / "host" / "results.h5") as file:
        name = next(name for name in names if name in file["tensors"])
        return np.asarray(file[f"tensors/{name}"]).reshape(BATCH, -1)


def places_of(model: Any, family: str, last: bool) -> np.ndarray | None:
    """The rows of learned positions, or where the last tokens are."""
    if family == "gpt2":
        table = model.state_dict()["transformer.wpe.weight"].numpy()
        return table[TOKENS - 1 if last else 0 : TOKENS][None]
    if family in ENCODERS:
        state = {n: v.numpy() for n, v in model.state_dict().items()}
        rows = state["embeddings.position_embeddings.weight"][:TOKENS]
        return (rows + state["embeddings.token_type_embeddings.weight"][0])[None]
    return np.full((BATCH, 1), TOKENS - 1) if last else None


def main(folder: Path, families: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    print(f"transformers {tf.__version__}, torch {torch.__version__}, float32, 2 layers of 64")
    for family in families or list(CONFIGS):
        torch.manual_seed(11)
        config = CONFIGS[family]()
        config._attn_implementation = "eager"
        made = tf.AutoModel if family in ENCODERS else tf.AutoModelForCausalLM
        model = made.from_config(config).eval()
        with torch.no_grad():
            for value in [*model.parameters(), *routers(model)]:  # zeros would hide what is missing
                value += torch.randn_like(value) * (0.2 if value.ndim == 1 else 0.05)
            ids = torch.randint(3, config.vocab_size, (BATCH, TOKENS))
            cache = None
            if family in ENCODERS:
                wanted = model(ids).last_hidden_state.reshape(BATCH, -1).numpy()
            else:
                cache = tf.DynamicCache()
                wanted = model(ids, cache=cache, use_cache=True).logits[:, -1].numpy()
        path = folder / f"{family}.json"
        config.to_json_file(str(path), use_diff=False)
        common = weights(model, family)
        for phase in ("prefill",) if family in ENCODERS else ("prefill", "decode"):
            given, last = dict(common), phase == "decode"
            given["embedding.ids"] = ids.numpy()[:, -1:] if last else ids.numpy()
            places = places_of(model, family, last)
            if places is not None:
                given["places.y"] = places
            for at, layer in enumerate(cache.layers if cache and last else ()):
                given |= cache_of(layer, at, family)
            drop = ("k_b.w", "v_b.w") if last else ("k_up.y", "v_up.y")
            given = {n: v for n, v in given.items() if not n.endswith(drop)}
            ints = {n: v.astype(np.int32) if v.dtype.kind == "i" else v for n, v in given.items()}
            values = folder / f"{family}_{phase}.safetensors"
            save_file({n: np.ascontiguousarray(v) for n, v in ints.items()}, values)
            try:
                found = simulated(folder, path, phase, values)
            except RuntimeError as error:
                print(f"{family:12} {phase:8} {error}", flush=True)
                continue
            off = np.abs(found - wanted).max() / np.abs(wanted).max()
            same = (found.argmax(axis=1) == wanted.argmax(axis=1)).all()
            told = "same tokens" if same else "OTHER TOKENS"
            print(f"{family:12} {phase:8} {off:.1e} {told}", flush=True)


def routers(model: Any) -> list[Any]:
    """What choices of experts are corrected by, which is no parameter."""
    return [v for n, v in model.named_buffers() if n.endswith("e_score_correction_bias")]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
