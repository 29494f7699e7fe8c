"""What hides keys of attention from queries, as [Mask]; and choices that the model knows.

    Where(known condition, scores, low)                  low where the condition is false
    Add(scores, known mask)                              0 and low
    Where(Less(0, 1, ..., lengths), scores, low)         an input of the model has the lengths

With Softmax over keys behind it, any low number gives such keys the weight 0, so that [Mask] gives
what the model does, if nothing before it hides others. A condition that is another, or has another
reader, is a product and a sum.

    Where(IsNaN(Softmax(x)), 0, Softmax(x))              rows of hidden keys are 0

is one Softmax, as attention has it: -inf, which tensors here do not hold, is the lowest number.

Source: masks of torch.nn.functional.scaled_dot_product_attention and of Transformers' models, as
PyTorch exports them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from simgen.frontend.importing.draft import INTEGERS, NodeSite
from simgen.frontend.importing.graph import Graph, Match, Rule, node, rewrite
from simgen.frontend.importing.table import OPERATORS, operator
from simgen.frontend.importing.values import Operator, Refused, Value, Values
from simgen.ground.arrays import np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


MASK = "Mask"
LOW = -1e4  # limit: with such a mask value or less, attention scores count as 0
LOWEST_FLOAT = -3.4028234663852886e38  # lowest finite float32
FLOAT = 1  # TensorProto.FLOAT
DEEPEST = 16  # nodes between a product and the mask of its scores
NAN = (
    "is NaN where a mask leaves a row of nothing but -inf; mask with a finite number, or put 0 "
    "there by Where and IsNaN"
)
INFINITE = "takes an infinity, and tensors here are finite; write a number"
INFINITIES = ("Add", "Sub", "Where", "Mul")
GUARDS = {"IsNaN", "Where"}
# What infinity and the largest number are one to, and what hands both on.
BOUNDED = ("Softmax", "Sigmoid", "Tanh", "Relu", "HardSigmoid", "Clip", "Equal", "IsNaN")
KEEPING = (
    "Add", "Sub", "Where", "Mul", "Div", "Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze",
    "Transpose", "Expand", "Slice", "Split", "Concat",
)  # fmt: skip
VIEWS = ("Unsqueeze", "Reshape", "Cast", "Identity")
SOFTMAXES = ("Softmax", "LogSoftmax", "SoftmaxCrossEntropyLoss")


@dataclass(frozen=True)
class Refusal:
    """Why a node cannot be imported."""

    why: str


@dataclass(frozen=True)
class MaskedRows:
    """Rows of nothing but hidden keys are 0."""


def recognised(operators: Sequence[Operator], values: Values) -> list[Operator]:
    """The operators with masks of attention as one."""
    return rewrite(Graph(operators, values), RULES)


def refused(node: Operator, why: str) -> Operator:
    """The node, which will be refused."""
    return replace(node, fact=Refusal(why))


def _is_infinite(graph: Graph, node: Operator) -> bool:
    """Whether it takes an infinity, and what reads it tells that from the largest number."""
    arrays = [graph.at_hand(name) for name in node.inputs]
    found = any(each is not None and np.isinf(each).any() for each in arrays)
    return found and (node.kind == "Mul" or not _vanishes(graph, node))


def _vanishes(graph: Graph, node: Operator, depth: int = 0) -> bool:
    """Whether all that reads the node makes the same of the largest finite number."""
    if depth > DEEPEST or graph.ends.intersection(node.outputs):
        return False
    return all(
        each.kind in BOUNDED or (each.kind in KEEPING and _vanishes(graph, each, depth + 1))
        for name in node.outputs
        for each in graph.readers[name]
    )


def _guarded(m: Match) -> Operator | None:
    """Softmax whose rows of nothing but -inf are 0."""
    if m.array("zero").any():
        return None
    rows = m.nodes["rows"]
    return replace(rows, outputs=m.node.outputs, fact=MaskedRows())


def _is_nan(graph: Graph, node: Operator) -> bool:
    """Whether known masks leave rows of nothing but -inf, which no choice makes 0."""
    axis = int(node.attributes.get("axis", -1 if node.version >= 13 else 1))
    read = {each.kind for each in graph.readers[node.outputs[0]]}
    rank = len(graph.values.known[node.inputs[0]].shape)
    if (read and read <= GUARDS) or axis not in (-1, rank - 1):
        return False
    hidden: Any = False
    x: str | None = node.inputs[0]
    for _ in range(DEEPEST):
        maker = graph.makers.get(x) if x else None
        known = [graph.at_hand(name) for name in maker.inputs] if maker else []
        x = None
        if maker and maker.kind == "Add":
            for at, mask in enumerate(known):
                if mask is None:
                    x = maker.inputs[at]
                else:
                    hidden = hidden | np.isneginf(mask)
        elif maker and maker.kind == "Where" and known[0] is not None:
            for at in (1, 2):
                side = known[at]
                if side is None:
                    x = maker.inputs[at]
                else:
                    hidden = hidden | (np.isneginf(side) & (known[0].astype(bool) == (at == 1)))
    return bool(np.asarray(hidden).all(axis=-1).any()) if np.ndim(hidden) else bool(hidden)


def _is_plain(graph: Graph, x: str, *, lengths: bool) -> bool:
    """Whether no other mask hides elements: their numbers may be lower than those of [Mask].

    Where it has lengths, of 1 and more, others may hide all keys but the first.
    """
    keys = 1 if lengths else None
    for _ in range(DEEPEST):
        maker = graph.makers.get(x)
        if maker is None or maker.kind in ("MatMul", "Gemm"):
            return True
        if maker.kind == "Where":
            return False
        computed = [name for name in maker.inputs if name and not graph.values.known[name].is_known]
        if maker.kind == "Add":
            known = [graph.known(name) for name in maker.inputs if name not in computed]
            parts = [each if each is None else each[..., :keys] for each in known]
            if len(computed) > 1 or any(each is None or (each <= LOW).any() for each in parts):
                return False
        if not computed:
            return True
        x = computed[0]
    return False


def _for_softmax(graph: Graph, node: Operator) -> bool:
    """Whether all that reads the node is Softmax over keys."""
    rank = len(graph.values.known[node.outputs[0]].shape)
    return not graph.ends.intersection(node.outputs) and all(
        each.kind == "Softmax"
        and rank >= 3
        and int(each.attributes.get("axis", -1)) in (-1, rank - 1)
        for each in graph.readers[node.outputs[0]]
    )


def _later(hides: NDArray[Any], shape: tuple[int, ...]) -> bool:
    """Whether it hides the keys behind each query, and no others."""
    queries, keys = shape[-2:]
    if hides.ndim < 2 or hides.shape[-2:] != (queries, keys) or keys < queries:
        return False
    rows = np.arange(queries)[:, np.newaxis]
    return bool((hides == (np.arange(keys) > rows + keys - queries)).all())


def _causal(m: Match, hides: NDArray[Any]) -> Operator | None:
    """A mask whose place of hidden keys the model knows."""
    return _mask(m) if _later(hides, m.graph.values.known[m.node.outputs[0]].shape) else None


def _added(m: Match) -> Operator | None:
    mask = m.array("mask")
    if mask.dtype.kind != "f":
        return m.node
    hides = mask <= LOW
    return (_causal(m, hides) if bool((hides | (mask == 0)).all()) else None) or m.node


def _chosen(m: Match) -> Operator | None:
    low, keeps = m.array("low"), m.array("keeps").astype(bool)
    first = m.node.inputs[1] == m.values["x"]
    return _causal(m, keeps ^ first) if bool((low <= LOW).all()) else None


def _mask(m: Match, *lengths: str) -> Operator | None:
    known, x = m.graph.values.known, m.values["x"]
    fits = known[x].shape == known[m.node.outputs[0]].shape and not known[x].is_known
    if not fits or not _is_plain(m.graph, x, lengths=bool(lengths)):
        return None
    return Operator(m.node.node, MASK, 0, (x, *lengths), m.node.outputs, {})


def _lengths(m: Match) -> Operator | None:
    """A mask of padding, of which an input of the model has the lengths."""
    known, makers, wanted = m.graph.values.known, m.graph.makers, m.values["lengths"]
    each, shape = m.array("places"), known[m.node.outputs[0]].shape
    batch, keys = shape[0], shape[-1]
    counts = each.shape[-1:] == (keys,) and each.size == keys
    if not counts or not np.array_equal(each.reshape(-1), np.arange(keys)):
        return None
    if (
        known[wanted].shape != (batch, *(1,) * (len(shape) - 1))
        or not (m.array("low") <= LOW).all()
    ):
        return None
    while wanted in makers and makers[wanted].kind in VIEWS:
        wanted = makers[wanted].inputs[0]
    source = known[wanted]
    if wanted in makers or source.element not in INTEGERS or source.shape != (batch,):
        return None
    return _mask(m, wanted)


RULES: tuple[Rule, ...] = (
    (node("Add", "x", "!mask", swaps=True, when=_for_softmax), _added),
    (node("Where", "!keeps", "x", "!low", when=_for_softmax), _chosen),
    (node("Where", "!keeps", "!low", "x", when=_for_softmax), _chosen),
    (node("Where", node("Less", "!places", "lengths"), "x", "!low", when=_for_softmax), _lengths),
    (node("Where", node("Greater", "lengths", "!places"), "x", "!low", when=_for_softmax),
     _lengths),
    (node(("Add", "Where"), when=_for_softmax), lambda m: m.node),  # Softmax hides the rest
    (node(INFINITIES, when=_is_infinite), lambda m: refused(m.node, INFINITE)),
    (node("Where", node("IsNaN", "y"), "!zero", node("Softmax", gives="y", name="rows")), _guarded),
    (node(SOFTMAXES, when=_is_nan), lambda m: refused(m.node, NAN)),
)  # fmt: skip


@operator(MASK)
def mask(site: NodeSite) -> None:
    lengths = [site.indices(1)] if site.has(1) else []
    entries = {"mask": "lengths" if lengths else "causal"}
    site.give(site.layer("Mask", entries, [site.tensor(), *lengths]))


# ---- By products and sums ----


def _one(site: NodeSite, kind: str, *inputs: str, output: str = "") -> str:
    """A node in place of this one, or before it."""
    known, last = site.draft.values.known, site.operator.outputs[0]
    name = output and site.draft.values.fresh(f"{last}_{output}")
    if name:
        shape = np.broadcast_shapes(*(known[each].shape for each in inputs))
        known[name] = Value(tuple(shape), FLOAT)
    made = replace(site.operator, kind=kind, inputs=inputs, outputs=(name or last,))
    OPERATORS[kind](NodeSite(made, site.draft))
    return made.outputs[0]


def _number(site: NodeSite, values: NDArray[Any], name: str) -> str:
    made = site.draft.values.fresh(f"{site.operator.outputs[0]}_{name}")
    held = values.astype(np.float32)
    site.draft.values.known[made] = Value(held.shape, FLOAT, lambda: held)
    return made


@operator("Where")
def where(site: NodeSite) -> None:
    condition = site.known(0, "condition").array()
    if not (site.value(1).is_known or site.value(2).is_known):
        sides = [_number(site, each, name) for each, name in
                 ((condition.astype(bool), "kept"), (~condition.astype(bool), "rest"))]  # fmt: skip
        parts = [_one(site, "Mul", site.operator.inputs[at], side, output=f"part{at}")
                 for at, side in enumerate(sides, 1)]  # fmt: skip
        _one(site, "Add", *parts)
        return
    at = 2 if site.value(1).is_known else 1
    other = site.known(3 - at, "other choice").array()
    if site.value(at).element != FLOAT:
        raise Refused("chooses among others than float32; export the model so")
    keeps = condition.astype(bool) ^ (at == 2)
    kept = _number(site, keeps, "kept")
    rest = _number(site, np.where(keeps, 0.0, np.maximum(other, LOWEST_FLOAT)), "rest")
    part = _one(site, "Mul", site.operator.inputs[at], kept, output="part")
    _one(site, "Add", part, rest)


@operator("Pow")
def power(site: NodeSite) -> None:
    exponent = site.known(1, "exponent")
    if exponent.size != 1 or float(exponent.array().reshape(-1)[0]) != 2:
        raise Refused("is another power than a square, which no layer computes")
    _one(site, "Mul", site.operator.inputs[0], site.operator.inputs[0])
