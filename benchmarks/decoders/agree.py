"""Tiny models of each family, beside Transformers: their logits, and the tokens that these give.

    python benchmarks/decoders/agree.py FOLDER [FAMILY ...]

Random weights in float32, two layers, two texts of seven tokens. Transformers computes the logits
on the CPU. `simgen`, found in PATH, builds both phases from the model's config.json with the same
weights (--values), runs them on target host and checks them. Printed is the largest difference of
two logits, as a part of the largest logit. It needs torch, transformers and h5py; agree.txt beside
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

BATCH, TOKENS = 2, 7
USUAL = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 128,
    "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32, "rope_theta": 1e4}  # fmt: skip
CONFIGS = {
    "llama": lambda: tf.LlamaConfig(
        **USUAL, rope_parameters=LLAMA3, attention_bias=True, mlp_bias=True
    ),
    "mistral": lambda: tf.MistralConfig(**USUAL, sliding_window=5, head_dim=24),
    "qwen2": lambda: tf.Qwen2Config(**USUAL),
    "qwen3": lambda: tf.Qwen3Config(**USUAL, head_dim=24, tie_word_embeddings=True),
    "mixtral": lambda: tf.MixtralConfig(**USUAL, num_local_experts=4, sliding_window=None),
    "qwen3_moe": lambda: tf.Qwen3MoeConfig(
        **USUAL, moe_intermediate_size=32, num_experts=8, num_experts_per_tok=3, head_dim=16,
        norm_topk_prob=True, mlp_only_layers=[0],
    ),
    "gpt2": lambda: tf.GPT2Config(
        n_embd=64, n_layer=2, n_head=4, n_positions=128, vocab_size=256, bos_token_id=0,
        eos_token_id=0,
    ),
}  # fmt: skip


def weights(model: Any, family: str) -> dict[str, np.ndarray]:
    """A model's parameters by the names that the workload has."""
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    found: dict[str, np.ndarray] = {}

    def take(to: str, *names: str, turned: bool = False, part: slice = slice(None)) -> None:
        if all(name in state for name in names):
            values = [state[name].T if turned else state[name] for name in names]
            found[to] = np.concatenate([value[part] for value in values])

    if family == "gpt2":
        size = state["transformer.wte.weight"].shape[1]
        take("embedding.w", "transformer.wte.weight")
        for at in range(2):
            own = f"transformer.h.{at}"
            for here, there in (("norm1", "ln_1"), ("norm2", "ln_2")):
                take(f"layer{at}_{here}.gamma", f"{own}.{there}.weight")
                take(f"layer{at}_{here}.beta", f"{own}.{there}.bias")
            for number, part in enumerate("qkv"):
                rows = slice(number * size, (number + 1) * size)
                take(f"layer{at}_{part}.w", f"{own}.attn.c_attn.weight", turned=True, part=rows)
                take(f"layer{at}_{part}.b", f"{own}.attn.c_attn.bias", part=rows)
            for here, there in (("out", "attn.c_proj"), ("up", "mlp.c_fc"), ("down", "mlp.c_proj")):
                take(f"layer{at}_{here}.w", f"{own}.{there}.weight", turned=True)
                take(f"layer{at}_{here}.b", f"{own}.{there}.bias")
        take("norm.gamma", "transformer.ln_f.weight")
        take("norm.beta", "transformer.ln_f.bias")
        return found
    take("embedding.w", "model.embed_tokens.weight")
    take("norm.gamma", "model.norm.weight")
    if not model.config.tie_word_embeddings:
        take("head.w", "lm_head.weight")
    for at in range(2):
        own = f"model.layers.{at}"
        take(f"layer{at}_norm1.gamma", f"{own}.input_layernorm.weight")
        take(f"layer{at}_norm2.gamma", f"{own}.post_attention_layernorm.weight")
        take(f"layer{at}_router.w", f"{own}.mlp.gate.weight")
        take(f"layer{at}_experts.w_gate_up", f"{own}.mlp.experts.gate_up_proj")
        take(f"layer{at}_experts.w_down", f"{own}.mlp.experts.down_proj")
        for part in "qk":
            take(f"layer{at}_{part}_norm.gamma", f"{own}.self_attn.{part}_norm.weight")
        for end, name in (("w", "weight"), ("b", "bias")):
            for part in "qkv":
                take(f"layer{at}_{part}.{end}", f"{own}.self_attn.{part}_proj.{name}")
            take(f"layer{at}_out.{end}", f"{own}.self_attn.o_proj.{name}")
            pair = (f"{own}.mlp.gate_proj.{name}", f"{own}.mlp.up_proj.{name}")
            take(f"layer{at}_gate_up.{end}", *pair)
            take(f"layer{at}_down.{end}", f"{own}.mlp.down_proj.{name}")
    return found


def simulated(folder: Path, config: Path, phase: str, values: Path) -> np.ndarray:
    """The logits of the last token of each text."""
    bundle = folder / f"{config.stem}_{phase}"
    step = ["--phase", phase, "--batch", str(BATCH), "--context", str(TOKENS), "--own-weights"]
    build = ["simgen", "build", str(config), *step, "--type", "f32", "--values", str(values)]
    subprocess.run([*build, "-t", "host", "-o", str(bundle)], check=True, capture_output=True)
    subprocess.run(["simgen", "run", str(bundle), "--on", "host"], check=True, capture_output=True)
    subprocess.run(["simgen", "diff", str(bundle)], check=True, capture_output=True)
    with h5py.File(bundle / "results" / "host" / "results.h5") as file:
        return np.asarray(file["tensors/head.y"]).reshape(BATCH, -1)


def main(folder: Path, families: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    print(f"transformers {tf.__version__}, torch {torch.__version__}, float32, 2 layers of 64")
    for family in families or list(CONFIGS):
        torch.manual_seed(11)
        config = CONFIGS[family]()
        config._attn_implementation = "eager"
        model = tf.AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for value in model.parameters():  # zeros and ones would hide what is missing
                value += torch.randn_like(value) * (0.2 if value.ndim == 1 else 0.05)
            ids = torch.randint(1, config.vocab_size, (BATCH, TOKENS))
            cache = tf.DynamicCache()
            wanted = model(ids, past_key_values=cache, use_cache=True).logits[:, -1].numpy()
        path = folder / f"{family}.json"
        config.to_json_file(str(path), use_diff=False)
        common = weights(model, family)
        for phase in ("prefill", "decode"):
            given, last = dict(common), phase == "decode"
            given["embedding.ids"] = ids.numpy()[:, -1:] if last else ids.numpy()
            places = np.full((BATCH, 1), TOKENS - 1) if last else None
            if family == "gpt2":
                table = model.state_dict()["transformer.wpe.weight"].numpy()
                given["places.y"] = table[TOKENS - 1 if last else 0 : TOKENS][None]
            elif last:
                given["places.y"] = places
            for at, layer in enumerate(cache.layers if last else ()):
                given[f"layer{at}_keys.y"] = layer.keys.numpy()
                given[f"layer{at}_values.y"] = layer.values.numpy()
            ints = {n: v.astype(np.int32) if v.dtype.kind == "i" else v for n, v in given.items()}
            values = folder / f"{family}_{phase}.npz"
            np.savez(values, **ints)
            found = simulated(folder, path, phase, values)
            off = np.abs(found - wanted).max() / np.abs(wanted).max()
            same = (found.argmax(axis=1) == wanted.argmax(axis=1)).all()
            told = "same tokens" if same else "OTHER TOKENS"
            print(f"{family:10} {phase:8} {off:.1e} {told}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
