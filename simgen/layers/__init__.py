"""One file per layer, in rooms where a layer is several: parameters, shapes, operation counts,
launches, reference, tolerance. A layer's file is imported when `LAYERS` is asked for the layer.

May import: ask, errors, ground.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from simgen.errors import SourceError
from simgen.layers.base import REGISTERED
from simgen.layers.base import Layer as Layer

# Kind -> the layer's section in configs, and its file, in the order of messages.
FILES = {
    "activation": ("Activation", "activation"),
    "adam": ("Adam", "adam"),
    "add": ("Add", "add"),
    "all_reduce": ("AllReduce", "all_reduce"),
    "attention": ("Attention", "attention"),
    "attention_sum": ("AttentionSum", "attention_sum"),
    "broadcast": ("Broadcast", "broadcast"),
    "bypass": ("Bypass", "bypass"),
    "cache": ("Cache", "cache"),
    "cast": ("Cast", "cast"),
    "causal_conv": ("CausalConv1d", "causal_conv"),
    "chunk_output": ("ChunkOutput", "delta_rule"),
    "chunk_state": ("ChunkState", "delta_rule"),
    "concat": ("Concat", "concat"),
    "delta_rule": ("GatedDeltaRule", "delta_rule"),
    "divide": ("Divide", "pointwise"),
    "dropout": ("Dropout", "dropout"),
    "embedding": ("Embedding", "embedding"),
    "conv": ("Convolution", "conv.convolution"),
    "bn": ("BatchNorm", "norm.batch_norm"),
    "fc": ("FullyConnected", "product.fully_connected"),
    "fused_conv": ("FusedConvolution", "fused"),
    "fused_fc": ("FusedFullyConnected", "fused"),
    "expert_blocks": ("ExpertBlocks", "experts.expert_blocks"),
    "experts": ("Experts", "experts.experts"),
    "gate": ("Gate", "pointwise"),
    "heads": ("Heads", "permute"),
    "input": ("Input", "input"),
    "mask": ("Mask", "mask"),
    "multiply": ("Multiply", "pointwise"),
    "piecewise": ("Piecewise", "pointwise"),
    "quantise": ("Quantise", "quantise"),
    "rearrange": ("Rearrange", "rearrange"),
    "reduce_mean": ("ReduceMean", "reduce_mean"),
    "reduce_sum": ("ReduceSum", "reduce_mean"),
    "reshape": ("Reshape", "reshape"),
    "rope": ("RoPE", "rope"),
    "sample": ("Sample", "sampling"),
    "scaled_fc": ("ScaledFullyConnected", "product.scaled_fc"),
    "sgd": ("SGD", "sgd"),
    "slice": ("Slice", "slice"),
    "softmax": ("Softmax", "softmax"),
    "subtract": ("Subtract", "pointwise"),
    "top_k": ("TopK", "sampling"),
    "top_p": ("TopP", "sampling"),
    "transpose": ("Transpose", "permute"),
    "cross_entropy": ("CrossEntropy", "loss.cross_entropy"),
    "sampled_softmax": ("SampledSoftmax", "loss.sampled_softmax"),
    "squared_error": ("SquaredError", "loss.squared_error"),
    "layer_norm": ("LayerNorm", "norm.layer_norm"),
    "lrn": ("LRN", "norm.lrn"),
    "router": ("Router", "experts.router"),
    "rms_norm": ("RMSNorm", "norm.rms_norm"),
    "add_rms_norm": ("AddRMSNorm", "norm.rms_norm"),
    "quantised_add_rms_norm": ("QuantisedAddRMSNorm", "norm.rms_norm"),
    "gated_rms_norm": ("GatedRMSNorm", "norm.rms_norm"),
    "qk_rms_norm": ("QKRMSNorm", "norm.rms_norm"),
    "l2_norm": ("L2Norm", "norm.rms_norm"),
    "pool": ("Pooling", "pool.pooling"),
    "bcm_fc": ("BCMFullyConnected", "product.circulant"),
    "gemm": ("Gemm", "product.gemm"),
    "recurrent": ("Recurrent", "recurrent.recurrent"),
    "sparse_gemm": ("SparseGemm", "sparse.sparse_gemm"),
    "structured_gemm": ("StructuredGemm", "sparse.structured_gemm"),
}
KIND_OF = {section: kind for kind, (section, _) in FILES.items()}


def _check(module: str) -> None:
    """Raises SourceError if a file's layers are not those that the table says."""
    for kind, layer in REGISTERED.items():
        section, file = FILES.get(kind, ("", ""))
        if layer.__module__ == module and f"simgen.layers.{file}" != module:
            fact = f"kind {kind!r} is that of {f'simgen.layers.{file} too' if file else 'no layer'}"
            raise SourceError(f"{module}: {fact}; choose another, or add it to {__name__}")
        if layer.__module__ == module and layer.section != section:
            fact = f"its section is {layer.section!r}, and in {__name__} {section!r}"
            raise SourceError(f"{module}: {fact}; correct one of them")


class _Layers(Mapping[str, type[Layer]]):
    """All layers by kind."""

    def __getitem__(self, kind: str) -> type[Layer]:
        if kind not in REGISTERED:
            _check(import_module(f"simgen.layers.{FILES[kind][1]}").__name__)
        return REGISTERED[kind]

    def __contains__(self, kind: object) -> bool:
        return kind in FILES

    def __iter__(self) -> Iterator[str]:
        return iter(FILES)

    def __len__(self) -> int:
        return len(FILES)


LAYERS = _Layers()
