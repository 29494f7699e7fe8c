"""Models of transformers: masks that an input gives, turned features, ONNX Runtime's operators.

ONNX's evaluator judges its own operators, float64 formulas of this file those of ONNX Runtime, and
what PyTorch computed its programs.
"""

from __future__ import annotations

from math import erf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from census import census
from imported_models import by_evaluator, by_references
from onnx import TensorProto, helper, numpy_helper

from simgen.ask.build import BuildChoices
from simgen.bundle.planning import Plan
from simgen.errors import SimgenError
from simgen.frontend.importing import aten, onnx_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Array = np.ndarray[Any, np.dtype[Any]]
Node = onnx.NodeProto
RANDOM = np.random.default_rng(9)
B, S, H, D = 2, 5, 2, 4  # batch, words, heads, features of a head
LOW = -3.4028234663852886e38
node = helper.make_node


def some(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def f32(value: Any) -> Array:
    return np.array(value, np.float32)


def flags(*shape: int) -> Array:
    """Zeros and ones; the first key is always seen."""
    made = RANDOM.integers(0, 2, shape)
    made[..., 0] = 1
    return made


def model_of(
    nodes: Sequence[Node],
    inputs: Mapping[str, Array],
    tensors: Mapping[str, Array],
    version: int = 17,
) -> onnx.ModelProto:
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for name, v in inputs.items()
    ]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    known = [numpy_helper.from_array(values, name) for name, values in tensors.items()]
    graph = helper.make_graph(list(nodes), "graph", given, made, known)
    sets = [helper.make_opsetid("", version), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets)


def imported(path: Path, model: onnx.ModelProto, inputs: Mapping[str, Array]) -> Array:
    onnx.save(model, path)
    whole = {n: v.astype(np.int32) if v.dtype.kind in "bi" else v for n, v in inputs.items()}
    return np.asarray(by_references(path, whole)["y"])


def check(
    folder: Path,
    nodes: Sequence[Node],
    inputs: Mapping[str, Array],
    tensors: Mapping[str, Array],
    expected: Array | None = None,
    version: int = 17,
) -> list[str]:
    """The sections of the config, once the import computes what the evaluator does, or this."""
    path, model = folder / "m.onnx", model_of(nodes, inputs, tensors, version)
    found = imported(path, model, inputs)
    if expected is None:
        expected = by_evaluator(model, inputs)["y"]
    assert found.size == expected.size
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=3e-5, atol=3e-6)
    return [section.name for section in onnx_model.read_model(path, {}).config.sections]


def softmax(x: Array) -> Array:
    made = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(made / made.sum(axis=-1, keepdims=True))


# ---- Masks that an input gives ----

Masked = tuple[list[Any], dict[str, Array]]  # nodes from `mask` and `x` to `scores`; tensors


def inverted() -> Masked:
    """As BERT has it: (1 - mask) low, added."""
    return [
        node("Unsqueeze", ["mask", "axes"], ["m4"], "m4"),
        node("Cast", ["m4"], ["real"], "real", to=TensorProto.FLOAT),
        node("Sub", ["one", "real"], ["hidden"], "hidden"),
        node("Mul", ["hidden", "low"], ["added"], "added"),
        node("Add", ["x", "added"], ["scores"], "masked"),
    ], {}  # fmt: skip


def filled() -> Masked:
    """As masked_fill has it, of an expanded mask."""
    return [
        node("Unsqueeze", ["mask", "axes"], ["m4"], "m4"),
        node("Expand", ["m4", "extents"], ["wide"], "wide"),
        node("Equal", ["wide", "zero"], ["hidden"], "hidden"),
        node("Where", ["hidden", "low", "x"], ["scores"], "masked"),
    ], {"extents": np.array([B, 1, S, S]), "zero": np.array(0)}  # fmt: skip


def causal() -> Masked:
    """What comes later is hidden too, and the model knows it."""
    return [
        node("Unsqueeze", ["mask", "axes"], ["m4"], "m4"),
        node("Cast", ["m4"], ["seen"], "seen", to=TensorProto.BOOL),
        node("And", ["seen", "before"], ["both"], "both"),
        node("Where", ["both", "nothing", "low"], ["added"], "added"),
        node("Add", ["added", "x"], ["scores"], "masked"),
    ], {"before": np.tril(np.ones((1, 1, S, S), bool)), "nothing": f32(0)}  # fmt: skip


@pytest.mark.parametrize(
    ("made", "element"),
    [
        (made, kind)
        for made in (inverted, filled, causal)
        for kind in (np.int64, np.int32, bool)
        if not (made is filled and kind is bool)
    ],  # what Equal does not compare with a number
)
def test_a_mask_is_an_input_of_zeros_and_ones(
    made: Callable[[], Masked], element: Any, tmp_path: Path
) -> None:
    nodes, tensors = made()
    nodes += [node("Softmax", ["scores"], ["y"], "weights", axis=-1)]
    tensors |= {"axes": np.array([1, 2]), "one": f32(1), "low": f32(LOW)}
    tensors |= {name: tensors[name].astype(element) for name in ("zero",) if name in tensors}
    inputs = {"x": some(B, H, S, S), "mask": flags(B, S).astype(element)}
    sections = check(tmp_path, nodes, inputs, tensors)
    assert "Embedding" in sections
    plan = Plan(str(tmp_path / "m.onnx"), BuildChoices(values=("model",)))
    (fill,) = (b.fill for b in plan.workload.buffers if b.name == "mask.y")
    assert fill is not None
    assert (fill.a, fill.b) == (2.0, 0.0)  # 0 or 1, one as often as the other


def test_the_mask_of_attention_is_read_where_a_mean_is_taken_too(tmp_path: Path) -> None:
    """As sentence transformers have it: the mask weighs words once more."""
    nodes, tensors = inverted()
    nodes += [
        node("Softmax", ["scores"], ["p"], "weights", axis=-1),
        node("Unsqueeze", ["mask", "last"], ["m3"], "m3"),
        node("Cast", ["m3"], ["weight"], "weight", to=TensorProto.FLOAT),
        node("ReduceMean", ["p"], ["rows"], "rows", axes=[1], keepdims=0),
        node("Mul", ["rows", "weight"], ["y"], "weighed"),
    ]
    tensors |= {"axes": np.array([1, 2]), "one": f32(1), "low": f32(-1e4),
                "last": np.array([2])}  # fmt: skip
    check(tmp_path, nodes, {"x": some(B, H, S, S), "mask": flags(B, S)}, tensors)


@pytest.mark.parametrize("case", ["hides nothing", "counts"])
def test_other_numbers_are_no_masks(case: str, tmp_path: Path) -> None:
    """An input of whole numbers that hides nothing may have any; one that is added up is none."""
    nodes = [
        node("Cast", ["mask"], ["real"], "real", to=TensorProto.FLOAT),
        node("Mul", ["real", "low"], ["added"], "added"),
        node("Add", ["x", "added"], ["y"], "sum"),
    ]
    low = 2.0
    if case == "counts":
        low = LOW
        nodes.append(node("CumSum", ["mask", "axis"], ["places"], "places"))
        nodes[2] = node("Add", ["x", "added"], ["s"], "sum")
        nodes.append(node("Gather", ["table", "places"], ["g"], "words"))
        nodes.append(node("MatMul", ["g", "s"], ["y"], "product"))
    tensors = {"low": f32(low), "axis": np.array(1), "table": some(S + 1, B)}
    model = model_of(nodes, {"x": some(B, S), "mask": flags(B, S)}, tensors)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    with pytest.raises(SimgenError, match=r"Cast \(real\) makes floats of integers"):
        onnx_model.read_model(path, {})


def test_other_values_of_a_mask_are_refused(tmp_path: Path) -> None:
    nodes, tensors = inverted()
    nodes += [node("Softmax", ["scores"], ["y"], "weights", axis=-1)]
    tensors |= {"axes": np.array([1, 2]), "one": f32(1), "low": f32(LOW)}
    path = tmp_path / "m.onnx"
    onnx.save(model_of(nodes, {"x": some(B, H, S, S), "mask": flags(B, S)}, tensors), path)
    own = tmp_path / "own.npz"
    given: dict[str, Any] = {"mask.y": np.full((B, S), 2, np.int32)}
    np.savez(own, **given)
    with pytest.raises(SimgenError, match=r"is 2; write 0 to 1"):
        _ = Plan(str(path), BuildChoices(values=("model", str(own)))).workload


# ---- ONNX's own functions ----


@census("interleaved", [0, 1])
@census("part", [0, 2])
@census("rows", [False, True])
@census("given", [False, True])
def test_rotary_embedding(
    interleaved: int, part: int, rows: bool, given: bool, tmp_path: Path
) -> None:
    half = (part or D) // 2
    angles = RANDOM.uniform(0, 6, (11, half) if given else (B, S, half))
    tensors = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    inputs = {"x": some(B, S, H * D) if rows else some(B, H, S, D)}
    inputs |= {"ids": RANDOM.integers(0, 11, (B, S))} if given else {}
    kinds: dict[str, Any] = {"interleaved": interleaved, "rotary_embedding_dim": part}
    kinds |= {"num_heads": H} if rows else {}
    nodes = [node("RotaryEmbedding", ["x", "cos", "sin", *(["ids"] * given)], ["y"], "r", **kinds)]
    check(tmp_path, nodes, inputs, tensors, version=23)


@census("causal", [0, 1])
@census("mask", ["", "known", "flags", "added"])
@census("shared", [1, 2])
@census("rows", [False, True])
def test_attention(causal: int, mask: str, shared: int, rows: bool, tmp_path: Path) -> None:
    heads = {"q": 2 * H, "k": 2 * H // shared, "v": 2 * H // shared}
    inputs = {
        name: some(B, S, count * D) if rows else some(B, count, S, D)
        for name, count in heads.items()
    }
    seen = flags(B, 1, S, S).astype(bool)
    tensors = {"mask": seen[:1]} if mask == "known" else {}
    inputs |= {"mask": seen} if mask == "flags" else {}
    inputs |= {"mask": some(S, S)} if mask == "added" else {}
    kinds: dict[str, Any] = {"q_num_heads": heads["q"], "kv_num_heads": heads["k"]} if rows else {}
    names = ["q", "k", "v", *(["mask"] if mask else [])]
    nodes = [node("Attention", names, ["y"], "attention", is_causal=causal, **kinds)]
    # In float64: the evaluator of onnx 1.19 has other heads share keys.
    q, k, v = (
        inputs[name].astype(np.float64).reshape(B, S, -1, D).transpose(0, 2, 1, 3)
        if rows else inputs[name].astype(np.float64)
        for name in "qkv"
    )  # fmt: skip
    k, v = (np.repeat(each, shared, axis=1) for each in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(D)
    if mask:
        scores = scores + inputs["mask"] if mask == "added" else np.where(
            {**inputs, **tensors}["mask"], scores, -1e30)  # fmt: skip
    if causal:
        scores = np.where(np.tril(np.ones((S, S))) > 0, scores, -1e30)
    expected = softmax(scores) @ v
    if rows:
        expected = expected.transpose(0, 2, 1, 3).reshape(B, S, -1)
    check(tmp_path, nodes, inputs, tensors, expected, version=23)


def test_the_scale_of_scores_is_the_factor_of_their_product(tmp_path: Path) -> None:
    """No tensor is read for it, and no launch is one of its own."""
    nodes = [
        node("MatMul", ["q", "k"], ["s"], "scores"),
        node("Div", ["s", "root"], ["scaled"], "scaled"),
        node("Softmax", ["scaled"], ["y"], "weights", axis=-1),
    ]
    inputs = {"q": some(B, H, S, D), "k": some(B, H, D, S)}
    sections = check(tmp_path, nodes, inputs, {"root": f32(2.5)})
    assert sections == ["Input", "Input", "Gemm", "Softmax"]


# ---- Programs of torch.export ----

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("name", ["llama", "gpt", "masked_encoder"])
def test_a_transformer_of_torch_export(name: str) -> None:
    """Archives that PyTorch 2.15 has written, without its notes on sources, and what modules gave:

    llama           RMSNorm, turned halves, causal scaled_dot_product_attention, SiLU gates
    gpt             one linear layer split in three, where by a triangle, attention_mask of int64
    masked_encoder  TransformerEncoderLayer with src_key_padding_mask, of bool
    """
    with np.load(DATA / "transformers_io.npz") as known:
        held = {
            each.partition(".")[2]: known[each] for each in known if each.startswith(f"{name}.")
        }
    expected = held.pop("y")
    inputs = {n: v.astype(np.int32) if v.dtype.kind in "bi" else v for n, v in held.items()}
    (found,) = by_references(DATA / f"{name}.pt2", inputs).values()
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=2e-5, atol=2e-6)


def test_numbers_beside_tensors_of_16_bits_have_their_type() -> None:
    call = aten.Call([], {}, {"x": TensorProto.FLOAT16})
    call.target, call.output, call.arguments = "mul.Scalar", "y", {"self": "x", "other": 0.5}
    call.reads = ["x"]
    aten.OPERATORS[call.target](call)
    assert [each.data_type for each in call.tensors] == [TensorProto.FLOAT16]


# ---- Operators of ONNX Runtime ----

erfs = np.vectorize(erf)


def gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + erfs(x / np.sqrt(2))))


def gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def layer_norm(x: Array, gamma: Array, beta: Array | float, epsilon: float) -> Array:
    d = x - x.mean(axis=-1, keepdims=True)
    return np.asarray(d / np.sqrt((d**2).mean(axis=-1, keepdims=True) + epsilon) * gamma + beta)


def rms_norm(x: Array, gamma: Array, epsilon: float) -> Array:
    return np.asarray(x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * gamma)


def ms(kind: str, inputs: Sequence[str], *more: str, **attributes: Any) -> Node:
    return node(kind, inputs, ["y", *more], kind, domain="com.microsoft", **attributes)


X, SKIP, ROW, BIAS = some(B, S, 8), some(B, S, 8), some(8), some(8)
WIDE = (X + BIAS + SKIP).astype(np.float64)
REAL = X.astype(np.float64)
SIDE = some(B, 8, 6)

SIMPLE: dict[str, tuple[Node, dict[str, Array], dict[str, Array], Array]] = {
    "Gelu": (ms("Gelu", ["x"]), {"x": X}, {}, gelu(REAL)),
    "BiasGelu": (ms("BiasGelu", ["x", "b"]), {"x": X}, {"b": BIAS}, gelu(REAL + BIAS)),
    "FastGelu": (ms("FastGelu", ["x", "b"]), {"x": X}, {"b": BIAS}, gelu_tanh(REAL + BIAS)),
    "QuickGelu": (ms("QuickGelu", ["x"]), {"x": X}, {}, REAL / (1 + np.exp(-1.702 * REAL))),
    "SkipLayerNormalization": (
        ms("SkipLayerNormalization", ["x", "s", "g", "h", "b"], epsilon=1e-3),
        {"x": X, "s": SKIP}, {"g": ROW, "h": BIAS, "b": BIAS}, layer_norm(WIDE, ROW, BIAS, 1e-3),
    ),
    "SkipSimplifiedLayerNormalization": (
        ms("SkipSimplifiedLayerNormalization", ["x", "s", "g", "b"], epsilon=1e-3),
        {"x": X, "s": SKIP}, {"g": ROW, "b": BIAS}, rms_norm(WIDE, ROW, 1e-3),
    ),
    "SimplifiedLayerNormalization": (
        node("SimplifiedLayerNormalization", ["x", "g"], ["y"], "n", epsilon=1e-3, stash_type=1),
        {"x": X}, {"g": ROW}, rms_norm(REAL, ROW, 1e-3),
    ),
    "FusedMatMul": (
        ms("FusedMatMul", ["a", "x"], transA=1, transB=1, alpha=0.5),
        {"a": SIDE, "x": some(B, S, 8)}, {}, np.zeros(0),
    ),
    "FusedGemm": (
        ms("FusedGemm", ["a", "w", "b"], activation="LeakyRelu", activation_alpha=0.25, transB=1),
        {"a": X[0]}, {"w": SIDE[0].T.copy(), "b": BIAS[:6]}, np.zeros(0),
    ),
    "FusedConv": (
        ms("FusedConv", ["i", "f", "b", "z"], activation="Relu", pads=[1, 1, 1, 1]),
        {"i": some(1, 1, 4, 4), "z": some(1, 1, 4, 4)}, {"f": np.zeros((1, 1, 3, 3), np.float32),
        "b": f32([0.5])}, np.zeros(0),
    ),
}  # fmt: skip


def _of_inputs() -> None:
    """What the other results are, from inputs that are drawn above."""
    n, inputs, tensors, _ = SIMPLE["FusedMatMul"]
    a, x = (inputs[name].astype(np.float64) for name in ("a", "x"))
    product = 0.5 * a.transpose(0, 2, 1) @ x.transpose(0, 2, 1)
    SIMPLE["FusedMatMul"] = (n, inputs, tensors, product)
    n, inputs, tensors, _ = SIMPLE["FusedGemm"]
    line = inputs["a"].astype(np.float64) @ tensors["w"].T + tensors["b"]
    SIMPLE["FusedGemm"] = (n, inputs, tensors, np.where(line > 0, line, 0.25 * line))
    n, inputs, tensors, _ = SIMPLE["FusedConv"]
    tensors["f"][0, 0, 1, 1] = 2  # the pixel itself, and the one on its right
    tensors["f"][0, 0, 1, 2] = -3
    i = np.pad(inputs["i"].astype(np.float64), ((0, 0), (0, 0), (0, 0), (0, 1)))
    line = 2 * i[..., :-1] - 3 * i[..., 1:] + 0.5 + inputs["z"]
    SIMPLE["FusedConv"] = (n, inputs, tensors, np.maximum(line, 0))


_of_inputs()


@pytest.mark.parametrize("name", SIMPLE)
def test_operators_of_onnx_runtime(name: str, tmp_path: Path) -> None:
    made, inputs, tensors, expected = SIMPLE[name]
    check(tmp_path, [made], inputs, tensors, expected)


def test_the_sum_before_a_normalisation_is_read(tmp_path: Path) -> None:
    nodes = [
        node("SkipLayerNormalization", ["x", "s", "g"], ["n", "", "", "sum"], "skip",
             domain="com.microsoft", epsilon=1e-3),
        node("Add", ["n", "sum"], ["y"], "end"),
    ]  # fmt: skip
    x = (X + SKIP).astype(np.float64)
    expected = layer_norm(x, ROW, 0.0, 1e-3) + x
    check(tmp_path, nodes, {"x": X, "s": SKIP}, {"g": ROW}, expected)


def test_layer_normalisation_before_onnx_had_it(tmp_path: Path) -> None:
    nodes = [node("LayerNormalization", ["x", "g", "b"], ["y"], "norm", epsilon=1e-3)]
    tensors = {"g": ROW, "b": BIAS}
    check(tmp_path, nodes, {"x": X}, tensors, layer_norm(REAL, ROW, BIAS, 1e-3), version=14)


def test_embedded_words(tmp_path: Path) -> None:
    tables = {"w": some(20, 8), "p": some(16, 8), "t": some(2, 8), "g": ROW, "b": BIAS}
    inputs = {"ids": RANDOM.integers(0, 20, (B, S)), "types": flags(B, S)}
    names = ["ids", "types", "w", "p", "t", "g", "b"]
    x = tables["w"][inputs["ids"]] + tables["p"][:S] + tables["t"][inputs["types"]]
    expected = layer_norm(x.astype(np.float64), ROW, BIAS, 1e-12)
    nodes = [ms("EmbedLayerNormalization", names, "")]
    check(tmp_path, nodes, inputs, tables, expected)


def attended(q: Array, k: Array, v: Array, added: Array, scale: float) -> Array:
    """Rows of heads: softmax(q k^T scale + added) v, in float64."""
    heads = [
        each.astype(np.float64).reshape(B, -1, H, each.shape[2] // H).transpose(0, 2, 1, 3)
        for each in (q, k, v)
    ]
    weights = softmax(heads[0] @ heads[1].transpose(0, 1, 3, 2) * scale + added)
    return np.asarray((weights @ heads[2]).transpose(0, 2, 1, 3).reshape(B, q.shape[1], -1))


@census("mask", ["", "keys", "lengths", "pairs"])
@census("causal", [0, 1])
@census("of_input", [False, True])
def test_attention_of_onnx_runtime(mask: str, causal: int, of_input: bool, tmp_path: Path) -> None:
    keys = S if of_input or causal else 7
    given = {"keys": flags(B, keys), "pairs": flags(B, S, keys), "lengths": np.array([2, keys])}
    added = np.zeros((B, 1, S, keys))
    if mask == "lengths":
        added += np.where(np.arange(keys) < given[mask].reshape(B, 1, 1, 1), 0, -1e4)
    elif mask:
        seen = given[mask].reshape(B, 1, -1, keys)
        added = added + (1 - seen) * -1e4
    if causal:
        added = added + np.where(np.tril(np.ones((S, keys))) > 0, 0, -1e4)
    inputs = {"m": given[mask].astype(np.int32)} if mask else {}
    bias, kinds = some(3 * H * D), {"num_heads": H, "unidirectional": causal}
    if of_input:
        inputs["x"], weights = some(B, S, 6), some(6, 3 * H * D)
        tensors = {"w": weights, "b": bias}
        made = ms("Attention", ["x", "w", "b", *(["m"] if mask else [])], **kinds)
        q, k, v = np.split(inputs["x"].astype(np.float64) @ weights + bias, 3, axis=2)
    else:
        inputs |= {"q": some(B, S, H * D), "k": some(B, keys, H * D), "v": some(B, keys, H * D)}
        tensors = {"b": bias}
        names = ["q", "k", "v", "b", *(["m"] if mask else [])]
        made = ms("MultiHeadAttention", names, **kinds, scale=0.75)
        q, k, v = (inputs[name].astype(np.float64) + part
                   for name, part in zip("qkv", np.split(bias, 3), strict=True))  # fmt: skip
    scale = D**-0.5 if of_input else 0.75
    sections = check(tmp_path, [made], inputs, tensors, attended(q, k, v, added, scale))
    assert ("Mask" in sections) == (mask == "lengths" or (causal and not mask))


def test_rotary_embedding_of_onnx_runtime_from_a_place(tmp_path: Path) -> None:
    """The place of the first word is given; halves are turned."""
    angles = RANDOM.uniform(0, 6, (11, D // 2))
    tensors = {"p": np.array([3]), "cos": np.cos(angles).astype(np.float32),
               "sin": np.sin(angles).astype(np.float32)}  # fmt: skip
    x = some(B, S, H * D)
    made = ms("RotaryEmbedding", ["x", "p", "cos", "sin"])
    pairs = x.astype(np.float64).reshape(B, S, H, 2, D // 2)
    c, s = (np.asarray(tensors[n][3 : 3 + S], np.float64)[:, np.newaxis] for n in ("cos", "sin"))
    turned = [pairs[..., 0, :] * c - pairs[..., 1, :] * s,
              pairs[..., 0, :] * s + pairs[..., 1, :] * c]  # fmt: skip
    expected = np.stack(turned, axis=-2).reshape(B, S, H * D)
    check(tmp_path, [made], {"x": x}, tensors, expected)


REFUSED: dict[str, tuple[Node, dict[str, Array], str]] = {
    "cache": (
        ms("MultiHeadAttention", ["x", "x", "x", "", "", "", "c", "c"], num_heads=2),
        {"x": X, "c": some(B, 2, 3, 4)}, "keeps keys and values of earlier words",
    ),
    "packed": (
        ms("MultiHeadAttention", ["p"], num_heads=2), {"p": some(B, S, 2, 3, 4)},
        "has packed queries, keys and values",
    ),
    "attribute": (ms("FastGelu", ["x"], fast=1), {"x": X}, "has an attribute 'fast'"),
    "another": (ms("BiasSoftmax", ["x", "x"]), {"x": X}, "an operator of another domain"),
    "batches": (ms("FusedMatMul", ["x", "x"], transBatchA=1), {"x": X}, "has transBatchA"),
    "softcap": (
        node("Attention", ["q", "q", "q"], ["y"], "a", softcap=2.0), {"q": some(1, 2, 3, 4)},
        "has a softcap",
    ),
    "heads": (ms("MultiHeadAttention", ["x", "x", "x"]), {"x": X}, "has no num_heads"),
    "missing": (ms("SkipLayerNormalization", ["x", "x"]), {"x": X}, "has no input gamma"),
    "no shape": (
        ms("MultiHeadAttention", ["x", "x", "x"], num_heads=3), {"x": X}, "makes 2x5x3x-1 of 2x5x8"
    ),
    "kind": (ms("QuickGelu", ["x"], alpha="wide"), {"x": X}, "is not as its operator has it"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_layers_is_refused(case: str, tmp_path: Path) -> None:
    made, inputs, reason = REFUSED[case]
    path = tmp_path / "m.onnx"
    onnx.save(model_of([made], inputs, {}, 23), path)
    with pytest.raises(SimgenError, match=reason):
        onnx_model.read_model(path, {})
