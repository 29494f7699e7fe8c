"""Operators that are others of ONNX in a row: each node as the nodes that compute the same.

Those of ONNX Runtime (com.microsoft), which its optimizer writes, and what ONNX itself defines as
functions: RotaryEmbedding and Attention. What has no such form (caches of keys and values, packed
batches) is refused with its reason.

Source: docs/ContribOperators.md and the kernels of ONNX Runtime; the operators' pages of ONNX.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

from simgen.errors import printable
from simgen.frontend.importing import extents
from simgen.frontend.importing.values import Operator, Refused, Value, Values
from simgen.ground.arrays import np

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx
    from numpy.typing import NDArray

    Expansion = Callable[["Parts"], None]

VERSION = 23  # operator set of what is written here
MS = "com.microsoft."
EXPANSIONS: dict[str, Expansion] = {}
FLOAT, BOOL, HALF = 1, 9, 10  # TensorProto
# Operators that programs have before ONNX's operator sets do.
SINCE = {"LayerNormalization": 17, "Gelu": 20}
# lowest float32; threshold below which a value hides as well
LOWEST, LOW = -3.4028234663852886e38, -1e30
LOWEST_OF_HALF = -49152.0  # so that scores may be added
LARGEST = 2**24  # elements of a mask that is combined with others here
MOST_TABLE = 2**26  # elements: 8,192 words that see as many
CACHES = "keeps keys and values of earlier words; export the model without a cache"


def expands(*kinds: str) -> Callable[[Expansion], Expansion]:
    """Declares what writes nodes of these operators in others."""

    def declare(made: Expansion) -> Expansion:
        EXPANSIONS.update(dict.fromkeys(kinds, made))
        return made

    return declare


def has(operator: Operator, version: int) -> bool:
    """Whether the node is to be written in others; `version` is that of ONNX's own operators."""
    return operator.kind in EXPANSIONS and version < SINCE.get(operator.kind, version + 1)


def nodes(node: onnx.NodeProto, operator: Operator, values: Values) -> list[onnx.NodeProto]:
    """The nodes of operator set VERSION that compute what this one does.

    Raises:
        Refused: there are none.
    """
    from onnx import helper

    unknown = [name for name in node.input if name and name not in values.known]
    if unknown:
        raise Refused(f"reads {printable(unknown[0])}, which nothing gives before it")
    own = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    extents.first(replace(operator, attributes=own), values.known)
    parts = Parts(node, operator.node, values)
    EXPANSIONS[operator.kind](parts)
    left = [each.name for each in node.attribute if each.name not in parts.asked]
    if left:
        raise Refused(f"has an attribute {printable(left[0])} that is not known here")
    return parts.made


@dataclass
class Parts:
    """A node, and those that are written for it."""

    node: onnx.NodeProto
    called: str
    values: Values
    made: list[onnx.NodeProto] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    # ---- The node ----

    def has(self, at: int) -> bool:
        return at < len(self.node.input) and bool(self.node.input[at])

    def input(self, at: int, what: str = "") -> str:
        if not self.has(at):
            raise Refused(f"has no input {what or at}")
        return str(self.node.input[at])

    def shape(self, at: int = 0) -> tuple[int, ...]:
        return self.values.known[self.input(at)].shape

    def element(self, at: int) -> int:
        return self.values.known[self.input(at)].element

    def is_known(self, at: int) -> bool:
        """Whether its values are, and not too many to be looked at here."""
        value = self.values.known[self.input(at)]
        return value.is_known and value.size <= LARGEST

    def array(self, at: int) -> NDArray[Any]:
        return self.values.known[self.input(at)].array()

    def like(self, at: int, array: NDArray[Any]) -> NDArray[Any]:
        """Numbers as floats of the type of an input, the lowest of which 16 bits hold too."""
        from onnx import helper

        element = self.element(at)
        low = LOWEST_OF_HALF if element == HALF else LOWEST
        dtype = helper.tensor_dtype_to_np_dtype(element)
        made: NDArray[Any] = np.maximum(array, low).astype(np.float32).astype(dtype)
        return made

    def attribute(self, name: str, usual: Any) -> Any:
        from onnx import helper

        self.asked.add(name)
        for each in self.node.attribute:
            if each.name == name:
                found = helper.get_attribute_value(each)
                found = found.decode() if isinstance(found, bytes) else found
                return type(usual)(found) if usual is not None else found
        return usual

    def room(self, *extents: int) -> None:
        """Refuse what needs a table of these extents, where it is too large to be made here."""
        if prod(extents) > MOST_TABLE:
            text = "x".join(map(str, extents))
            raise Refused(f"needs a table of {text}, and {MOST_TABLE:,} elements are the most")

    def ignore(self, *names: str) -> None:
        """Attributes that change nothing here."""
        self.asked.update(names)

    def refuse(self, condition: bool, reason: str) -> None:
        if condition:
            raise Refused(reason)

    def is_read(self, at: int) -> bool:
        """Whether an output is."""
        name = self.node.output[at] if at < len(self.node.output) else ""
        return bool(name) and name in self.values.read

    # ---- What is written ----

    def fresh(self, suffix: str) -> str:
        """A name of a value in between."""
        first = next(name for name in self.node.output if name)
        return self.values.fresh(f"{first}_{suffix}")

    def constant(self, array: NDArray[Any]) -> str:
        from onnx import helper

        name = self.fresh("known")
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.values.known[name] = Value(array.shape, element, lambda: array)
        return name

    def whole(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def add(self, suffix: str, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node whose name ends so; its output."""
        return self._node(f"{self.called}_{suffix}", kind, inputs, self.fresh(suffix), attributes)

    def give(self, kind: str, *inputs: str, at: int = 0, **attributes: Any) -> str:
        """The node that gives an output of this one."""
        name = self.called if at == 0 else f"{self.called}_{at}"
        return self._node(name, kind, inputs, self.node.output[at], attributes)

    def maybe_given(self, suffix: str, at: int, kind: str, *inputs: str) -> str:
        """A node, whose output is one of this node's where that is read."""
        if self.is_read(at):
            return self.give(kind, *inputs, at=at)
        return self.add(suffix, kind, *inputs)

    def parts(self, suffix: str, count: int, *inputs: str, axis: int) -> list[str]:
        """Split: several outputs."""
        from onnx import helper

        outputs = [self.fresh(f"{suffix}{at}") for at in range(count)]
        name = f"{self.called}_{suffix}"
        more: dict[str, Any] = {} if len(inputs) > 1 else {"num_outputs": count}
        self.made.append(helper.make_node("Split", list(inputs), outputs, name, axis=axis, **more))
        return outputs

    def _node(
        self, name: str, kind: str, inputs: tuple[str, ...], made: str, attributes: dict[str, Any]
    ) -> str:
        from onnx import helper

        self.made.append(helper.make_node(kind, list(inputs), [made], name, **attributes))
        return made

    # ---- What several have ----

    def with_bias(self, x: str, at: int) -> str:
        return self.add("bias", "Add", x, self.input(at)) if self.has(at) else x

    def shaped(self, suffix: str, x: str, *to: int) -> str:
        return self.add(suffix, "Reshape", x, self.whole(*to))


# ---- Activations ----


@expands("Gelu", MS + "Gelu", MS + "BiasGelu", MS + "FastGelu")
def gelu(p: Parts) -> None:
    usual = "tanh" if p.node.op_type == "FastGelu" else "none"
    p.give("Gelu", p.with_bias(p.input(0), 1), approximate=p.attribute("approximate", usual))


@expands(MS + "QuickGelu")
def quick_gelu(p: Parts) -> None:
    x, alpha = p.input(0), p.attribute("alpha", 1.702)
    inner = x if alpha == 1 else p.add("line", "Mul", x, p.number(alpha))
    p.give("Mul", x, p.add("gate", "Sigmoid", inner))


def _activated(p: Parts, x: str, kind: str, alpha: float | None) -> None:
    """What a fused product or convolution ends in."""
    if kind in ("Relu", "Sigmoid", "Tanh"):
        p.give(kind, x)
    elif kind == "LeakyRelu" and alpha is not None:
        p.give(kind, x, alpha=alpha)
    else:
        raise Refused(f"ends in {kind}, and Relu, LeakyRelu, Sigmoid and Tanh are known here")


@expands(MS + "FusedConv")
def fused_conv(p: Parts) -> None:
    p.ignore("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    own = {each.name: p.attribute(each.name, None) for each in p.node.attribute}
    kind, numbers = own.pop("activation", ""), own.pop("activation_params", [])
    inputs = [name for name in p.node.input[:3] if name]
    if not kind and not p.has(3):
        p.give("Conv", *inputs, **own)
        return
    x = p.add("conv", "Conv", *inputs, **own)
    if p.has(3):
        x = p.add("sum", "Add", x, p.input(3)) if kind else p.give("Add", x, p.input(3))
    if kind:
        _activated(p, x, kind, float(numbers[0]) if numbers else None)


# ---- Products ----


@expands(MS + "FusedMatMul", MS + "TransposeMatMul")
def fused_matmul(p: Parts) -> None:
    turned = [bool(p.attribute(name, 0)) for name in ("transA", "transB")]
    alpha = p.attribute("alpha", 1.0)
    for name in ("transBatchA", "transBatchB"):
        p.refuse(bool(p.attribute(name, 0)), f"has {name}, and batches stay in front here")
    sides = []
    for at, turn in enumerate(turned):
        side, rank = p.input(at), len(p.shape(at))
        if turn and rank > 1:
            perm = [*range(rank - 2), rank - 1, rank - 2]
            side = p.add(f"turned{at}", "Transpose", side, perm=perm)
        sides.append(side)
    if alpha == 1:
        p.give("MatMul", *sides)
    else:
        p.give("Mul", p.add("product", "MatMul", *sides), p.number(alpha))


@expands(MS + "FusedGemm")
def fused_gemm(p: Parts) -> None:
    own = {name: p.attribute(name, usual) for name, usual in
           {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}.items()}  # fmt: skip
    kind, alpha = p.attribute("activation", ""), p.attribute("activation_alpha", None)
    p.ignore("activation_beta", "activation_gamma")
    inputs = [name for name in p.node.input if name]
    _activated(p, p.add("product", "Gemm", *inputs, **own), kind, alpha)


# ---- Rows ----


@expands("LayerNormalization", "SimplifiedLayerNormalization")
def normalization(p: Parts) -> None:
    axis, epsilon = p.attribute("axis", -1), p.attribute("epsilon", 1e-5)
    p.ignore("stash_type")
    by_mean = p.node.op_type == "LayerNormalization"
    kind = "LayerNormalization" if by_mean else "RMSNormalization"
    inputs = [name for name in p.node.input if name]
    p.give(kind, *inputs, axis=axis, epsilon=epsilon)


@expands(MS + "SkipLayerNormalization", MS + "SkipSimplifiedLayerNormalization")
def skip_normalization(p: Parts) -> None:
    by_mean = p.node.op_type == "SkipLayerNormalization"
    epsilon = p.attribute("epsilon", 1e-12)
    x = p.with_bias(p.input(0), 4 if by_mean else 3)
    _normalised(p, p.maybe_given("sum", 3, "Add", x, p.input(1)), 2, by_mean, epsilon)


def _normalised(p: Parts, x: str, gamma: int, by_mean: bool, epsilon: float) -> None:
    inputs = [x, p.input(gamma, "gamma")]
    if by_mean and p.has(gamma + 1):
        inputs.append(p.input(gamma + 1))
    kind = "LayerNormalization" if by_mean else "RMSNormalization"
    p.give(kind, *inputs, axis=-1, epsilon=epsilon)


@expands(MS + "EmbedLayerNormalization")
def embedded(p: Parts) -> None:
    """Words, their places, and the segments that they are of."""
    epsilon = p.attribute("epsilon", 1e-12)
    p.ignore("mask_index_type")
    fact = "its output mask_index is read, which counts a mask; fuse with use_raw_attention_mask"
    p.refuse(p.is_read(1), fact)
    words, length = p.add("words", "Gather", p.input(2), p.input(0)), p.shape(0)[1]
    table = p.input(3, "position_embedding")
    if p.has(8):
        places = p.add("places", "Gather", table, p.input(8))
    else:
        places = p.add("places", "Slice", table, p.whole(0), p.whole(length), p.whole(0))
    x = p.add("placed", "Add", words, places)
    if p.has(1):
        of_segments = p.add("segments", "Gather", p.input(4, "segment_embedding"), p.input(1))
        x = p.maybe_given("sum", 2, "Add", x, of_segments)
    elif p.is_read(2):
        x = p.give("Identity", x, at=2)
    _normalised(p, x, 5, True, epsilon)


# ---- Rotation of places ----


@expands("RotaryEmbedding", MS + "RotaryEmbedding")
def rotary(p: Parts) -> None:
    """Pairs of features turned by an angle of their place, whose cosines and sines are given.

    (a, b) -> (a cos - b sin, a sin + b cos), of features i and i + R / 2 of the first R, or of
    neighbours where they are interleaved.
    """
    of_onnx = not p.node.domain or p.node.domain == "ai.onnx"
    order = (0, 1, 2, 3) if of_onnx else (0, 2, 3, 1)
    x, cos, sin = (p.input(at) for at in order[:3])
    ids_at = order[3]
    interleaved, heads = bool(p.attribute("interleaved", 0)), p.attribute("num_heads", 0)
    part = p.attribute("rotary_embedding_dim", 0)
    if not of_onnx:
        p.refuse(p.attribute("scale", 1.0) != 1, "has a scale, which layers do not have")
        p.refuse(bool(p.attribute("is_packed_batching", 0)), "has packed batches; export others")
    shape, last = p.shape(), p.values.known[cos].shape[-1]
    p.refuse(len(shape) not in (3, 4), f"has an input of {len(shape)} axes; give it 3 or 4")
    if len(shape) == 3:
        p.refuse(not heads and not of_onnx and bool(part), "has no num_heads")
        heads = heads or shape[2] // (2 * last)
        batch, length, width = shape[0], shape[1], shape[2] // heads
        x = p.shaped("heads", x, 0, 0, heads, width)
        turned = (batch, length, heads)
        row = (batch, length, 1)
    else:
        batch, heads, length, width = shape
        turned, row = (batch, heads, length), (batch, 1, length)
    part = part or width
    half = part // 2
    p.refuse(last != half, f"turns {part} features, and its cosines have {last}")
    if p.has(ids_at):
        cos, sin = (p.add(name, "Gather", cache, _places(p, ids_at, batch, length), axis=0)
                    for name, cache in (("cos", cos), ("sin", sin)))  # fmt: skip
    rest = ""
    if part < width:
        x, rest = p.parts("part", 2, x, p.whole(part, width - part), axis=3)
    if interleaved:
        ends, axis, step = p.whole(part), p.whole(3), p.whole(2)
        a = p.add("even", "Slice", x, p.whole(0), ends, axis, step)
        b = p.add("odd", "Slice", x, p.whole(1), ends, axis, step)
    else:
        a, b = p.parts("half", 2, x, axis=3)
    c, s = (p.shaped(f"{name}_row", table, *row, half) for name, table in
            (("cos", cos), ("sin", sin)))  # fmt: skip
    real = p.add("real", "Sub", p.add("a_cos", "Mul", a, c), p.add("b_sin", "Mul", b, s))
    other = p.add("other", "Add", p.add("a_sin", "Mul", a, s), p.add("b_cos", "Mul", b, c))
    if interleaved:
        pair = [p.shaped(name, each, *turned, half, 1)
                for name, each in (("real_pair", real), ("other_pair", other))]  # fmt: skip
        joined = p.add("pairs", "Concat", *pair, axis=-1)
        last_of = [p.shaped("turned", joined, *turned, part)]
    else:
        last_of = [real, other]
    last_of += [rest] if rest else []
    if len(shape) == 3:
        joined = p.add("joined", "Concat", *last_of, axis=-1) if len(last_of) > 1 else last_of[0]
        p.give("Reshape", joined, p.whole(*shape))
    elif len(last_of) > 1:
        p.give("Concat", *last_of, axis=-1)
    else:
        p.give("Identity", last_of[0])


def _places(p: Parts, at: int, batch: int, length: int) -> str:
    """The places of words: (batch, length). ONNX Runtime takes the first one's, too."""
    if p.shape(at) == (batch, length):
        return p.input(at)
    p.refuse(
        p.shape(at) != (1,), f"has position_ids of {p.shape(at)}, for {batch} x {length} words"
    )
    p.room(batch, length)
    every = np.tile(np.arange(length, dtype=np.int64), (batch, 1))
    return p.add("places", "Add", p.input(at), p.constant(every))


# ---- Attention ----


@dataclass(frozen=True)
class _Heads:
    """Factors of attention: (batch, heads, words, features), keys with the last two exchanged."""

    q: str
    k: str
    v: str
    queries: int
    keys: int
    features: int


def _of_heads(p: Parts, given: tuple[str, str, str], heads: tuple[int, int, int]) -> list[str]:
    """(batch, words, heads times features) as heads; keys are turned."""
    made = []
    for name, each, count in zip("qkv", given, heads, strict=True):
        seen = p.shaped(f"{name}_heads", each, 0, 0, count, -1)
        perm = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        made.append(p.add(f"{name}_turned", "Transpose", seen, perm=perm))
    return made


def _scores(p: Parts, heads: _Heads, scale: float) -> str:
    product = p.add("scores", "MatMul", heads.q, heads.k)
    scale = scale or 1 / sqrt(heads.features)
    return product if scale == 1 else p.add("scaled", "Mul", product, p.number(scale))


def _causal(p: Parts, scores: str, heads: _Heads, low: float, first: int) -> str:
    """Queries see keys up to their own place, of which the first query has `first`."""
    p.room(heads.queries, heads.keys)
    rows = np.arange(heads.queries)[:, np.newaxis] + first
    hidden = np.where(np.arange(heads.keys) > rows, np.float32(low), np.float32(0))
    return p.add("causal", "Add", scores, p.constant(hidden.astype(np.float32)))


def _weighted(p: Parts, scores: str, v: str, joined: bool, *, empty: bool = False) -> None:
    """`empty`: there may be queries that see no keys, whose weights are 0."""
    weights = p.add("weights", "Softmax", scores, axis=-1)
    if empty:
        lost = p.add("lost", "IsNaN", weights)
        weights = p.add("guarded", "Where", lost, p.number(0.0), weights)
    if not joined:
        p.give("MatMul", weights, v)
        return
    seen = p.add("values", "MatMul", weights, v)
    turned = p.add("turned", "Transpose", seen, perm=[0, 2, 1, 3])
    p.give("Reshape", turned, p.whole(0, 0, -1))


def _masked(p: Parts, scores: str, at: int, heads: _Heads, batch: int, low: float) -> str:
    """Padding: lengths of samples, or 1 for each key that is seen (or query and key)."""
    if not p.has(at):
        return scores
    shape, mask = p.shape(at), p.input(at)
    if shape == (batch,) and batch != heads.keys:
        p.room(heads.keys)
        every = p.constant(np.arange(heads.keys, dtype=np.int32).reshape(1, 1, 1, heads.keys))
        lengths = p.shaped("lengths", mask, batch, 1, 1, 1)
        seen = p.add("seen", "Less", every, lengths)
        return p.add("masked", "Where", seen, scores, p.number(low))
    wanted = {2: (batch, 1, 1, heads.keys), 3: (batch, 1, heads.queries, heads.keys)}
    to = wanted.get(len(shape), ())
    if prod(shape) != prod(to):
        fact = f"has a mask of {'x'.join(map(str, shape))}"
        raise Refused(f"{fact}; give it one for each sample and key")
    seen = p.add("mask", "Cast", p.shaped("mask_seen", mask, *to), to=FLOAT)
    hidden = p.add("hidden", "Sub", p.number(1.0), seen)
    return p.add("masked", "Add", scores, p.add("mask_low", "Mul", hidden, p.number(low)))


@expands(MS + "MultiHeadAttention")
def multi_head(p: Parts) -> None:
    """Inputs: queries, keys, values, bias, mask of padding, what is added to scores."""
    heads, low = p.attribute("num_heads", 0), p.attribute("mask_filter_value", -10000.0)
    scale, causal = p.attribute("scale", 0.0), bool(p.attribute("unidirectional", 0))
    p.refuse(heads < 1, "has no num_heads")
    p.refuse(any(p.has(at) for at in range(6, 10)) or p.is_read(1) or p.is_read(2), CACHES)
    p.refuse(p.is_read(3), "gives its scores; cut the model")
    packed = not (p.has(1) and p.has(2)) or {len(p.shape(at)) for at in range(3)} != {3}
    p.refuse(packed, "has packed queries, keys and values; export three tensors")
    given = [p.input(at) for at in range(3)]
    widths = [p.shape(at)[2] for at in range(3)]
    if p.has(3):
        biases = p.parts("biases", 3, p.input(3), p.whole(*widths), axis=0)
        given = [p.add(f"{name}_bias", "Add", each, bias)
                 for name, each, bias in zip("qkv", given, biases, strict=True)]  # fmt: skip
    q, k, v = _of_heads(p, (given[0], given[1], given[2]), (heads,) * 3)
    made = _Heads(q, k, v, p.shape(0)[1], p.shape(1)[1], widths[0] // heads)
    scores = _scores(p, made, scale)
    if p.has(5):
        scores = p.add("biased", "Add", scores, p.input(5))
    if causal:
        scores = _causal(p, scores, made, low, made.keys - made.queries)
    scores = _masked(p, scores, 4, made, p.shape(0)[0], low)
    _weighted(p, scores, v, True)


@expands(MS + "Attention")
def attention_of_input(p: Parts) -> None:
    """Inputs: rows, weights and bias of all factors, mask, a cache, what is added to scores."""
    heads, low = p.attribute("num_heads", 0), p.attribute("mask_filter_value", -10000.0)
    scale, causal = p.attribute("scale", 0.0), bool(p.attribute("unidirectional", 0))
    p.refuse(heads < 1, "has no num_heads")
    p.refuse(bool(p.attribute("do_rotary", 0)), "turns its features; export RotaryEmbedding")
    p.ignore("rotary_embedding_dim", "past_present_share_buffer")
    p.refuse(p.has(4) or p.has(6) or p.is_read(1), CACHES)
    batch, words, _ = p.shape(0)
    whole = p.shape(1)[1]
    widths = p.attribute("qkv_hidden_sizes", None) or [whole // 3] * 3
    x = p.add("projected", "MatMul", p.input(0), p.input(1, "weights"))
    x = p.with_bias(x, 2)
    q, k, v = p.parts("split", 3, x, p.whole(*map(int, widths)), axis=2)
    q, k, v = _of_heads(p, (q, k, v), (heads,) * 3)
    made = _Heads(q, k, v, words, words, int(widths[0]) // heads)
    scores = _scores(p, made, scale)
    if p.has(5):
        scores = p.add("biased", "Add", scores, p.input(5))
    if causal:
        scores = _causal(p, scores, made, low, 0)
    scores = _masked(p, scores, 3, made, batch, low)
    _weighted(p, scores, v, True)


def _biased(p: Parts, scores: str, heads: _Heads, allowed: NDArray[np.bool_]) -> tuple[str, bool]:
    """Scores with the mask of input 3, where it is, and of keys that queries are `allowed` to see;
    and whether queries may see none.

    What is hidden is -inf, below every finite number that a mask may add; where both are added,
    those are kept above the lowest.
    """
    seen = None if allowed.all() else allowed
    bias = p.array(3) if p.has(3) and p.is_known(3) else np.zeros((1, 1), np.float32)
    hides = seen is not None or bias.dtype == bool or bool(np.isneginf(bias).any())
    lacking = heads.keys - p.shape(3)[-1] if p.has(3) and p.shape(3)[-1] != 1 else 0
    p.refuse(lacking < 0 or (lacking > 0 and not p.is_known(3)),
             f"has a mask of other keys than {heads.keys}")  # fmt: skip
    if not p.has(3) or (p.is_known(3) and (hides or lacking)):
        bias = np.where(bias, 0.0, -np.inf) if bias.dtype == bool else bias.astype(np.float64)
        bias = np.pad(bias, [*[(0, 0)] * (bias.ndim - 1), (0, lacking)], constant_values=-np.inf)
        bias = bias if seen is None else np.where(seen, bias, -np.inf)
        if not bias.any():
            return scores, False
        hidden = np.isneginf(bias)
        made = p.constant(p.like(0, np.where(hidden, LOWEST, np.maximum(bias, LOW))))
        return p.add("masked", "Add", scores, made), bool(hidden.all(axis=-1).any())
    if p.element(3) == BOOL:
        mask = p.input(3)
        if seen is not None:
            mask = p.add("seen", "And", mask, p.constant(seen))
        return p.add("masked", "Where", mask, scores, p.number(LOWEST)), True
    if seen is None:
        return p.add("masked", "Add", scores, p.input(3)), False
    above = p.add("mask_above", "Clip", p.input(3), p.number(LOW))
    added = p.add("masked", "Add", scores, above)
    return p.add("causal", "Where", p.constant(seen), added, p.number(LOWEST)), True


@expands("Attention")
def attention(p: Parts) -> None:
    """ONNX's own: of heads, or of rows with their number; groups of queries may share keys."""
    causal, scale = bool(p.attribute("is_causal", 0)), p.attribute("scale", 0.0)
    counts = [p.attribute(name, 0) for name in ("q_num_heads", "kv_num_heads")]
    p.refuse(p.attribute("softcap", 0.0) != 0, "has a softcap, which no layer computes")
    p.ignore("softmax_precision", "qk_matmul_output_mode")
    windows = [p.attribute(f"{side}_window_size", -1) for side in ("left", "right")]
    p.refuse(p.has(4) or p.has(5) or p.has(6) or p.is_read(1) or p.is_read(2), CACHES)
    p.refuse(p.is_read(3), "gives its scores; cut the model")
    ranks = {len(p.shape(at)) for at in range(3)}
    p.refuse(ranks not in ({3}, {4}), "has factors of other axes; give it 3, or 4 each")
    rows = ranks == {3}
    if rows:
        p.refuse(not all(counts), "has no q_num_heads and kv_num_heads")
        batch, queries, width = p.shape(0)
        keys, features = p.shape(1)[1], width // counts[0]
        given = (p.input(0), p.input(1), p.input(2))
        q, k, v = _of_heads(p, given, (counts[0], counts[1], counts[1]))
    else:
        batch, counts[0], queries, features = p.shape(0)
        counts[1], keys = p.shape(1)[1:3]
        q, v = p.input(0), p.input(2)
        k = p.add("k_turned", "Transpose", p.input(1), perm=[0, 1, 3, 2])
    p.room(queries, keys)
    shared, of_values = counts[0] // counts[1], p.shape(2)[-1] // (counts[1] if rows else 1)
    if shared > 1:
        k = _repeated(p, "k", k, (batch, counts[1], features, keys), shared)
        v = _repeated(p, "v", v, (batch, counts[1], keys, of_values), shared)
    made = _Heads(q, k, v, queries, keys, features)
    scores = _scores(p, made, scale)
    behind = np.arange(keys) - np.arange(queries)[:, np.newaxis]  # how far a key is
    allowed = (behind <= 0) | (not causal)
    allowed &= (behind >= -windows[0]) | (windows[0] < 0)
    allowed &= (behind <= windows[1]) | (windows[1] < 0)
    scores, empty = _biased(p, scores, made, allowed)
    _weighted(p, scores, v, rows, empty=empty)


def _repeated(p: Parts, name: str, x: str, shape: tuple[int, ...], count: int) -> str:
    """Each head so often in a row."""
    batch, heads, *rest = shape
    seen = p.shaped(f"{name}_groups", x, batch, heads, 1, *rest)
    wide = p.add(f"{name}_shared", "Expand", seen, p.whole(batch, heads, count, *rest))
    return p.shaped(f"{name}_all", wide, batch, heads * count, *rest)
