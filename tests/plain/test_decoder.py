"""A language model's config.json as a workload, and what is wrong with one, in one line.

Whole models of each family agree with Transformers: benchmarks/decoders/agree.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simgen import api
from simgen.errors import ConfigError, SimgenError, UsageError
from simgen.frontend.decoder import families

SMALL = {
    "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 128,
    "torch_dtype": "bfloat16", "head_dim": 16,
}  # fmt: skip
GPT2 = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128, "vocab_size": 256}
LATENT = {"kv_lora_rank": 32, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
          "v_head_dim": 16, "n_routed_experts": 16, "n_shared_experts": 1, "num_experts_per_tok": 4,
          "moe_intermediate_size": 32, "first_k_dense_replace": 1, "head_dim": None}  # fmt: skip
MORE: dict[str, dict[str, Any]] = {
    "mixtral": {"num_local_experts": 8},
    "qwen2_moe": {"num_experts": 16, "moe_intermediate_size": 32,
                  "shared_expert_intermediate_size": 48},
    "qwen3_moe": {"num_experts": 16, "moe_intermediate_size": 32, "mlp_only_layers": [1]},
    "deepseek_v2": LATENT,
    "deepseek_v3": {**LATENT, "n_group": 4, "topk_group": 2},
    "bert": {"head_dim": None, "num_key_value_heads": None},
}  # fmt: skip
PUBLISHED = json.loads((Path(__file__).parent.parent / "data/model_configs.json").read_text())
ENCODERS = [name for name, row in families().items() if row.get("encoder")]


def written(folder: Path, model_type: str, **more: Any) -> str:
    path = folder / "config.json"
    sizes = GPT2 if model_type == "gpt2" else SMALL
    content = {"model_type": model_type, **sizes, **MORE.get(model_type, {}), **more}
    path.write_text(json.dumps(content))
    return str(path)


def nbytes(plan: api.Plan) -> int:
    return sum(b.spec.nbytes for b in plan.workload.buffers if b.role == "input")


@pytest.mark.parametrize("phase", ["decode", "prefill"])
@pytest.mark.parametrize("family", [name for name in families() if name not in ENCODERS])
def test_each_family_is_planned_in_both_phases(tmp_path: Path, family: str, phase: str) -> None:
    plan = api.plan(written(tmp_path, family), phase=phase, batch=2, context=8)
    shapes = {b.name: b.spec.shape for b in plan.workload.buffers}
    assert shapes["head.y"] == (2, 1, 256)
    assert shapes["embedding.ids"] == ((2, 1) if phase == "decode" else (2, 8))
    names = ("layer2_cache.y", "layer2_keys.y", "layer2_k_rope.y", "layer2_k_heads.y")
    keys = next(shapes[name] for name in names if name in shapes)
    latent = (2, 1, 8, 40) if phase == "decode" else (2, 4, 8, 24)
    wanted = {"gpt2": (2, 4, 8, 16), "deepseek_v2": latent, "deepseek_v3": latent}
    assert keys == wanted.get(family, (2, 2, 8, 16))
    of_types = {b.name: str(b.spec.dtype) for b in plan.workload.buffers}
    assert of_types["head.y"] == ("f32" if family == "gpt2" else "bf16")


@pytest.mark.parametrize("family", ENCODERS)
def test_an_encoder_has_no_cache(tmp_path: Path, family: str) -> None:
    plan = api.plan(written(tmp_path, family), batch=2, context=8)
    shapes = {b.name: b.spec.shape for b in plan.workload.buffers}
    assert shapes["layer2_norm2.y"] == (2, 8, 64)
    assert "head.w" not in shapes
    with pytest.raises(UsageError, match="is an encoder, without a cache; take prefill"):
        api.plan(written(tmp_path, family), phase="decode")


def test_equal_layers_have_one_set_of_weights(tmp_path: Path) -> None:
    path = written(tmp_path, "llama")
    shared = api.plan(path, batch=1, context=8, type="f32")
    own = api.plan(path, batch=1, context=8, type="f32", own_weights=True)
    layer = 4 * (2 * 64 + 64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 128)
    assert nbytes(own) - nbytes(shared) == 2 * layer
    names = {b.name for b in shared.workload.buffers}
    assert "layer0_q.w" in names
    assert "layer1_q.w" not in names


def test_a_tied_head_has_the_weights_of_the_embedding(tmp_path: Path) -> None:
    plan = api.plan(written(tmp_path, "qwen3", tie_word_embeddings=True), context=8)
    assert "head.w" not in {b.name for b in plan.workload.buffers}
    (head,) = [step for step in plan.workload.steps if step.layer == "head"]
    assert ("w", "embedding.w") in head.reads


def test_experts_that_no_launch_reads_take_no_room(tmp_path: Path) -> None:
    """128 experts, of which one token has eight."""
    more = {"num_experts": 128, "num_experts_per_tok": 8, "mlp_only_layers": []}
    plan = api.plan(written(tmp_path, "qwen3_moe", **more), batch=1, context=8)
    shapes = {b.name: b.spec.shape for b in plan.workload.buffers}
    assert shapes["layer0_experts.w_gate_up"] == (8, 64, 64)
    assert shapes["layer0_routes.ids"] == (1, 1, 8)


def test_words_that_no_token_is_take_no_room(tmp_path: Path) -> None:
    for more, rows in (({}, 4096), ({"tie_word_embeddings": True}, 9000)):
        plan = api.plan(written(tmp_path, "llama", vocab_size=9000, **more), context=8)
        shapes = {b.name: b.spec.shape for b in plan.workload.buffers}
        assert shapes["embedding.w"] == (rows, 64)
        assert shapes["head.y"] == (1, 1, 9000)


@pytest.mark.parametrize("name", PUBLISHED)
def test_configs_that_are_published(tmp_path: Path, name: str) -> None:
    """Their keys are known, and their parts fit together; four layers have all kinds."""
    path = tmp_path / "config.json"
    layers = "n_layer" if name == "gpt2" else "num_hidden_layers"
    path.write_text(json.dumps({**PUBLISHED[name], layers: 4}))
    plan = api.plan(str(path), context=64, type="bf16")
    assert plan.workload.steps


def test_layers_by_number(tmp_path: Path) -> None:
    plan = api.plan(written(tmp_path, "llama"), context=8, layers="1..2")
    layers = {step.layer for step in plan.workload.steps}
    assert {name.partition("_")[0] for name in layers} == {"layer1", "layer2"}
    with pytest.raises(UsageError, match=r"it has layers 0\.\.2"):
        api.plan(written(tmp_path, "llama"), context=8, layers="2..3")


def test_one_share_of_several_gpus(tmp_path: Path) -> None:
    plan = api.plan(written(tmp_path, "llama"), context=8, tp=2)
    shapes = {b.name: b.spec.shape for b in plan.workload.buffers}
    wanted = {"q": (32, 64), "k": (16, 64), "out": (64, 32), "down": (64, 64)}
    assert {part: shapes[f"layer0_{part}.w"] for part in wanted} == wanted
    assert shapes["head.w"] == (128, 64)


LINEAR = {"type": "linear", "factor": 2.0}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "near": ({"model_type": "qwen3moe"}, "did you mean 'qwen3_moe'"),
    "none like it": ({"model_type": "rwkv"}, "known: bert, deepseek_v2"),
    "unknown key": ({"final_logit_softcapping": 30.0}, "final_logit_softcapping.*not known"),
    "null is off": ({"final_logit_softcapping": None, "hidden_act": "x"}, "activation is 'x'"),
    "dynamic": ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type is 'dynamic'"),
    "mscale": ({"rope_scaling": {**LINEAR, "mscale": 1.0}}, "'mscale' of rope_scaling"),
    "heads": ({"num_key_value_heads": 3}, "3 heads of keys do not divide 4 heads"),
    "text": ({"num_hidden_layers": "three"}, "num_hidden_layers is '\"three\"'; write a whole"),
    "missing": ({"vocab_size": None}, "vocab_size is missing"),
    "no layers": ({"num_hidden_layers": 0}, "0 layers; write 1 to"),
    "scales": ({"quantization_config": {"fmt": "e4m3"}}, "quantization_config.*with type"),
    "vision": ({"model_type": "llava", "text_config": {}}, "save its text_config as a file"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_with_a_config_is_one_line(tmp_path: Path, wrong: str) -> None:
    more, told = WRONG[wrong]
    with pytest.raises(ConfigError, match=told) as caught:
        api.plan(written(tmp_path, more.pop("model_type", "llama"), **more), context=8)
    assert "\n" not in str(caught.value)


def test_experts_above_the_count(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="num_experts_per_tok is 9, and there are 8 experts"):
        api.plan(written(tmp_path, "mixtral", num_experts_per_tok=9), context=8)
    lines = ("[Router]", "name=r", "shape=4x16", "top_k=3", "[Input]", "name=x", "shape=4x8")
    lines += ("[Experts]", "name=e", "previous_layer=x,r,r.ids", "experts=8", "intermediate=8")
    path = tmp_path / "moe.dnnmark"
    path.write_text("\n".join(("[DNNMark]", "run_mode=composed", *lines)))
    with pytest.raises(ConfigError, match="below 16, not 8; give both as many experts"):
        _ = api.plan(str(path)).workload


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"context": 129}, "has 128 positions; write 128 or less"),
        ({"tp": 3}, "tp 3 does not divide 4 attention heads.*; take 2"),
    ],
)
def test_a_step_that_a_model_has_not(tmp_path: Path, choices: dict[str, int], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        api.plan(written(tmp_path, "llama"), **choices)


@pytest.mark.parametrize("content", ["[]", "{", '{"_class_name": "UNet2DConditionModel"}', "{}"])
def test_other_files(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(SimgenError) as caught:
        api.plan(str(path))
    assert "\n" not in str(caught.value)


def test_a_phase_is_of_models_alone() -> None:
    with pytest.raises(UsageError, match=r"phase: .*no config\.json"):
        api.plan("softmax_fwd", phase="decode")


def test_weights_of_another_layer(tmp_path: Path) -> None:
    def config(weights: str, size: int = 8) -> str:
        lines = ["[DNNMark]", "run_mode=composed", "[FullyConnected]", "name=a", "shape=2x8"]
        lines += ["num_output=8", "[FullyConnected]", "name=b", "previous_layer=a"]
        path = tmp_path / "two.dnnmark"
        path.write_text("\n".join([*lines, f"num_output={size}", f"weights={weights}"]))
        return str(path)

    plan = api.plan(config("a"))
    assert "b.w" not in {b.name for b in plan.workload.buffers}
    with pytest.raises(ConfigError, match="not a layer here"):
        api.plan(config("c"))
    with pytest.raises(ConfigError, match="which are others"):
        api.plan(config("a", 9))
    with pytest.raises(ConfigError, match="in pass fwd alone"):
        _ = api.plan(config("a"), passes="fwd,bwd").workload
