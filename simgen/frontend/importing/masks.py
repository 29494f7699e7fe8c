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

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from simgen.errors import ConfigError
from simgen.frontend.importing.draft import INTEGERS, NodeSite
from simgen.frontend.importing.table import OPERATORS, operator
from simgen.frontend.importing.values import Operator, Refused, Value, Values, linked
from simgen.ground.arrays import np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


MASK = "Mask"
LOW = -1e4  # limit: with such a mask value or less, attention scores count as 0
LOWEST_FLOAT = -3.4028234663852886e38  # lowest finite float32
FLOAT = 1  # TensorProto.FLOAT
LARGEST = 2**24  # elements of a condition that is looked at
DEEPEST = 16  # nodes between a product and the mask of its scores
REFUSED = "refused"  # the attribute of a node that says why
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


def recognised(operators: Sequence[Operator], values: Values) -> list[Operator]:
    """The operators with masks of attention as one."""
    makers, readers = linked(operators)
    ends = {each.name for each in values.model.graph.output}
    found = []
    for each in operators:
        made = _guarded(each, values, makers)
        if "Softmax" in each.kind and _is_nan(each, values, makers, readers):
            made = refused(each, NAN)
        elif _is_infinite(each, values) and (
            each.kind == "Mul" or not _vanishes(each, readers, ends)
        ):
            made = refused(each, INFINITE)
        if each.kind in ("Where", "Add") and not ends.intersection(each.outputs):
            shape = values.known[each.outputs[0]].shape
            if all(_over_keys(reader, len(shape)) for reader in readers[each.outputs[0]]):
                made = _causal(each, values, shape) or _lengths(each, values, makers, shape)
                if made:
                    plain = _is_plain(made.inputs[0], values, makers, lengths=len(made.inputs) > 1)
                    made = made if plain else None
        found.append(made or each)
    return found


def refused(node: Operator, why: str) -> Operator:
    """The node, which will be refused."""
    return replace(node, attributes={**node.attributes, REFUSED: why})


def _is_infinite(node: Operator, values: Values) -> bool:
    if node.kind not in INFINITIES:
        return False
    arrays = [_at_hand(values, name) for name in node.inputs]
    return any(each is not None and np.isinf(each).any() for each in arrays)


def _vanishes(
    node: Operator, readers: Mapping[str, Sequence[Operator]], ends: set[str], depth: int = 0
) -> bool:
    """Whether all that reads the node makes the same of the largest finite number."""
    if depth > DEEPEST or ends.intersection(node.outputs):
        return False
    return all(
        each.kind in BOUNDED or (each.kind in KEEPING and _vanishes(each, readers, ends, depth + 1))
        for name in node.outputs
        for each in readers[name]
    )


def _guarded(node: Operator, values: Values, makers: Mapping[str, Operator]) -> Operator | None:
    """Softmax whose rows of nothing but -inf are 0."""
    test = makers.get(node.inputs[0]) if node.kind == "Where" else None
    rows = makers.get(node.inputs[2]) if test is not None and test.kind == "IsNaN" else None
    if test is None or rows is None or rows.kind != "Softmax" or test.inputs != node.inputs[2:]:
        return None
    zero = _known_array(values, node.inputs[1])
    if zero is None or zero.any():
        return None
    attributes = {**rows.attributes, "masked": 1}
    return replace(rows, node=rows.node, outputs=node.outputs, attributes=attributes)


def _is_nan(
    node: Operator,
    values: Values,
    makers: Mapping[str, Operator],
    readers: Mapping[str, Sequence[Operator]],
) -> bool:
    """Whether known masks leave rows of nothing but -inf, which no choice makes 0."""
    axis = int(node.attributes.get("axis", -1 if node.version >= 13 else 1))
    read = {each.kind for each in readers[node.outputs[0]]}
    if (read and read <= GUARDS) or axis not in (-1, len(values.known[node.inputs[0]].shape) - 1):
        return False
    hidden: Any = False
    x: str | None = node.inputs[0]
    for _ in range(DEEPEST):
        maker = makers.get(x) if x else None
        known = [_at_hand(values, name) for name in maker.inputs] if maker else []
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


def _is_plain(x: str, values: Values, makers: Mapping[str, Operator], *, lengths: bool) -> bool:
    """Whether no other mask hides elements: their numbers may be lower than those of [Mask].

    Where it has lengths, of 1 and more, others may hide all keys but the first.
    """
    keys = 1 if lengths else None
    for _ in range(DEEPEST):
        maker = makers.get(x)
        if maker is None or maker.kind in ("MatMul", "Gemm"):
            return True
        if maker.kind == "Where":
            return False
        computed = [name for name in maker.inputs if name and not values.known[name].is_known]
        if maker.kind == "Add":
            known = [_known_array(values, name) for name in maker.inputs if name not in computed]
            parts = [each if each is None else each[..., :keys] for each in known]
            if len(computed) > 1 or any(each is None or (each <= LOW).any() for each in parts):
                return False
        if not computed:
            return True
        x = computed[0]
    return False


def _over_keys(node: Operator, rank: int) -> bool:
    axis = int(node.attributes.get("axis", -1))
    return node.kind == "Softmax" and rank >= 3 and axis in (-1, rank - 1)


def _known_array(values: Values, name: str) -> NDArray[Any] | None:
    value = values.known.get(name)
    known = value is not None and value.is_known and value.size <= LARGEST
    return value.array() if value is not None and known else None


def _at_hand(values: Values, name: str) -> NDArray[Any] | None:
    """The same; None where it is in a file that is not there, so that values are drawn."""
    try:
        return _known_array(values, name)
    except ConfigError:
        return None


def _causal(node: Operator, values: Values, shape: tuple[int, ...]) -> Operator | None:
    """A mask whose place of hidden keys the model knows."""
    if node.kind == "Add":
        for x, other in (node.inputs, node.inputs[::-1]):
            mask = _known_array(values, other)
            if mask is not None and mask.dtype.kind == "f":
                hides = mask <= LOW
                plain = bool((hides | (mask == 0)).all())
                return _mask(node, x, shape, values) if plain and _later(hides, shape) else None
        return None
    condition = _known_array(values, node.inputs[0])
    for at in (1, 2):
        low = _known_array(values, node.inputs[3 - at])
        if condition is not None and low is not None and bool((low <= LOW).all()):
            hides = condition.astype(bool) ^ (at == 1)
            return _mask(node, node.inputs[at], shape, values) if _later(hides, shape) else None
    return None


def _later(hides: NDArray[Any], shape: tuple[int, ...]) -> bool:
    """Whether it hides the keys behind each query, and no others."""
    queries, keys = shape[-2:]
    if hides.ndim < 2 or hides.shape[-2:] != (queries, keys) or keys < queries:
        return False
    rows = np.arange(queries)[:, np.newaxis]
    return bool((hides == (np.arange(keys) > rows + keys - queries)).all())


def _mask(
    node: Operator, x: str, shape: tuple[int, ...], values: Values, *lengths: str
) -> Operator | None:
    if values.known[x].shape != shape or values.known[x].is_known:
        return None
    return Operator(node.node, MASK, 0, (x, *lengths), node.outputs, {})


def _lengths(
    node: Operator, values: Values, makers: Mapping[str, Operator], shape: tuple[int, ...]
) -> Operator | None:
    """A mask of padding, of which an input of the model has the lengths."""
    test = makers.get(node.inputs[0])
    if node.kind != "Where" or test is None or test.kind not in ("Less", "Greater"):
        return None
    places, wanted = test.inputs if test.kind == "Less" else test.inputs[::-1]
    each, low = _known_array(values, places), _known_array(values, node.inputs[2])
    if each is None or low is None or not bool((low <= LOW).all()):
        return None
    batch, keys = shape[0], shape[-1]
    counts = each.shape[-1:] == (keys,) and each.size == keys
    if not counts or not np.array_equal(each.reshape(-1), np.arange(keys)):
        return None
    if values.known[wanted].shape != (batch, *(1,) * (len(shape) - 1)):
        return None
    while wanted in makers and makers[wanted].kind in VIEWS:
        wanted = makers[wanted].inputs[0]
    source = values.known[wanted]
    if wanted in makers or source.element not in INTEGERS or source.shape != (batch,):
        return None
    return _mask(node, node.inputs[1], shape, values, wanted)


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
