"""Inputs of zeros and ones that say what attention sees: what nodes make of them are tables.

    (1 - Cast(mask)) * low                  0 where the mask is 1, low where it is 0
    Where(Cast(mask), scores, low)          scores times (0, 1), plus (low, 0)
    Where(And(causal, mask), 0, low)        0 where what the model knows, and the mask, are 1

Elements of such a tensor have two values each: one where the input is 0, and one where it is 1. As
the rows of an [Embedding] of one feature, that the input chooses from, they are exact; where the
values differ over the tensor, they are a product of the input and a sum, if float32 has both, or
else two products with (1, 0) and (0, 1), and their sum, of which one term is 0.

Inputs of bool are taken so, and whole numbers whose nodes hide something, by -10,000 or less.

Source: attention_mask of Transformers' models (modeling_attn_mask_utils.py), as PyTorch exports it;
key_padding_mask of ONNX Runtime's MultiHeadAttention.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from simgen.frontend.importing.draft import FLAGS, FLOATS, INTEGERS, NodeSite
from simgen.frontend.importing.graph import Graph, Match, node, rewrite
from simgen.frontend.importing.masks import LOW, LOWEST_FLOAT
from simgen.frontend.importing.table import operator
from simgen.frontend.importing.values import Operator, Value, Values
from simgen.ground.arrays import np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    Made = Callable[..., NDArray[Any]]

TABLE = "Flag"  # an operator of its own: what a table has where its input is 0 or 1
FLOAT = 1  # TensorProto.FLOAT
LARGEST = 2**24  # elements of what is combined with a flag
VIEWS = ("Unsqueeze", "Squeeze", "Reshape", "Flatten")
ELEMENTS: Mapping[str, str] = {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Neg": "negative", "Not": "logical_not",
    "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor", "Equal": "equal",
    "Less": "less", "LessOrEqual": "less_equal", "Greater": "greater",
    "GreaterOrEqual": "greater_equal", "Where": "where",
}  # fmt: skip


@dataclass(frozen=True)
class _Flag:
    """A tensor whose elements follow from an input of zeros and ones, and what the model knows."""

    source: str
    extents: tuple[int, ...]  # the input's extents as seen in this tensor
    either: tuple[NDArray[Any], NDArray[Any]]  # where it is 0, and where it is 1

    @property
    def is_table(self) -> bool:
        return all(each.size == 1 for each in self.either)


@dataclass(frozen=True)
class RowOf:
    """What a table has where its input is 0, and where it is 1; the input's extents in it."""

    table: tuple[float, ...]
    extents: tuple[int, ...]


def recognised(operators: Sequence[Operator], values: Values) -> list[Operator]:
    """The operators with what follows from flags as tables."""
    return _Flags(Graph(operators, values)).made()


@dataclass
class _Flags:
    graph: Graph
    found: dict[str, _Flag] = field(default_factory=dict)  # by tensor
    last: list[Operator] = field(default_factory=list)
    numbers: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)
    room: int = 2 * LARGEST  # for elements of all that is combined

    def __post_init__(self) -> None:
        self.values = self.graph.values
        for each in self.values.model.graph.input:
            value = self.values.known.get(each.name)
            if value is not None and not value.is_known and value.element in (*INTEGERS, *FLAGS):
                ones = np.ones((1,) * len(value.shape), self._dtype(value.element))
                self.found[each.name] = _Flag(each.name, value.shape, (np.zeros_like(ones), ones))
        self.bools = {n for n in self.found if self.values.known[n].element in FLAGS}

    def made(self) -> list[Operator]:
        if not self.found:
            return list(self.graph.operators)
        makers = [each for each in self.graph.operators if self._follows(each)]
        gone = {id(each) for each in makers}
        ends = self._ends(gone)
        hides, lost = set(), set()
        for name, readers in ends.items():
            flag = self.found[name]
            hides |= {flag.source} if self._hides(name, readers) else set()
            lost |= set() if self._can(name, readers) else {flag.source}
        taken = (hides | self.bools) - lost

        def replaced(m: Match) -> list[Operator]:
            each, self.last = m.node, []
            name = each.outputs[0]
            made = self.found[name] if id(each) in gone else None
            if made is None or made.source not in taken:
                self._kept(each, taken)
            elif name in ends and self._as_floats(ends[name], each):
                self._table(each, name, made.either, made)
            return self.last

        return rewrite(self.graph, [(node(()), replaced)])

    @staticmethod
    def _dtype(element: int) -> Any:
        from onnx import helper

        return helper.tensor_dtype_to_np_dtype(element)

    # ---- What follows from flags ----

    def _follows(self, node: Operator) -> bool:
        """Whether the node's result is a flag, which is found."""
        name = node.outputs[0]
        value = self.values.known.get(name)
        if value is None or value.is_known or len([each for each in node.outputs if each]) > 1:
            return False
        flags = [self.found[each] for each in node.inputs if each in self.found]
        if not flags or len({flag.source for flag in flags}) > 1:
            return False
        made = self._seen(node, flags[0], value) or self._combined(node, flags, value)
        if made is None:
            return False
        self.found[name] = made
        return True

    def _seen(self, node: Operator, flag: _Flag, value: Value) -> _Flag | None:
        shape = self.values.known[node.inputs[0]].shape
        if node.kind in ("Identity", "Cast"):
            dtype = self._dtype(value.element)
            zero, one = (each.astype(dtype) for each in flag.either)
            return _Flag(flag.source, flag.extents, (zero, one))
        if node.kind == "Expand" and node.inputs[0] in self.found:
            more = len(value.shape) - len(shape)
            return _Flag(flag.source, (*(1,) * more, *flag.extents), flag.either)
        if node.kind in VIEWS and flag.is_table and flag.extents == shape:
            rank = (1,) * len(value.shape)
            zero, one = (each.reshape(rank) for each in flag.either)
            return _Flag(flag.source, value.shape, (zero, one))
        return None

    def _combined(self, node: Operator, flags: Sequence[_Flag], value: Value) -> _Flag | None:
        """A function of elements, of flags and of what the model knows."""
        if node.kind not in ELEMENTS:
            return None
        rank = len(value.shape)
        seen = {(*(1,) * (rank - len(flag.extents)), *flag.extents) for flag in flags}
        if len(seen) != 1:
            return None
        # Whole numbers that are compared with several are lengths, or places.
        whole = any(
            self.values.known[n].element in INTEGERS for n in node.inputs if n in self.found
        )
        most = 1 if whole else LARGEST
        sides: tuple[list[NDArray[Any]], list[NDArray[Any]]] = ([], [])
        for name in node.inputs:
            flag, other = self.found.get(name), self.values.known[name]
            if flag is None and (not other.is_known or other.size > most):
                return None
            held = flag.either if flag else (other.array(),) * 2
            for side, array in zip(sides, held, strict=True):
                side.append(array)
        self.room -= prod(np.broadcast_shapes(*(each.shape for each in sides[0])))
        if self.room < 0:
            return None
        function: Made = getattr(np, ELEMENTS[node.kind])
        with np.errstate(all="ignore"):
            zero, one = (np.asarray(function(*side)) for side in sides)
        if zero.ndim != rank:
            zero, one = (np.reshape(each, (1,) * rank) for each in (zero, one))
        if np.array_equal(zero, one):
            return None  # it tells other numbers apart
        dtype = self._dtype(value.element)
        return _Flag(flags[0].source, seen.pop(), (zero.astype(dtype), one.astype(dtype)))

    # ---- Who reads them ----

    def _ends(self, gone: Iterable[int]) -> dict[str, list[Operator | None]]:
        """Flags that others read, which are none; None: the model gives it."""
        found: defaultdict[str, list[Operator | None]] = defaultdict(list)
        for each in self.graph.operators:
            first = self.values.known.get(each.outputs[0])
            if id(each) in gone or (first is not None and first.is_known):
                continue
            for name in set(each.inputs) & self.found.keys():
                found[name].append(each)
        for given in self.values.model.graph.output:
            if given.name in self.found:
                found[given.name].append(None)
        return found

    def _choice(self, name: str, reader: Operator | None) -> NDArray[Any] | None:
        """What is chosen in place of a computed tensor, where a flag is a condition."""
        if reader is None or reader.kind != "Where" or reader.inputs[0] != name:
            return None
        one, other = (self.values.known[each] for each in reader.inputs[1:])
        if one.is_known == other.is_known or name in reader.inputs[1:]:
            return None
        computed, given = (other, one) if one.is_known else (one, other)
        fits = computed.element == FLOAT and given.size <= LARGEST
        return given.array() if fits else None

    def _hides(self, name: str, readers: Sequence[Operator | None]) -> bool:
        chosen = [self._choice(name, reader) for reader in readers]
        values = [each for each in chosen if each is not None]
        if self.values.known[name].element in FLOATS:
            values += list(self.found[name].either)
        return any(bool((each <= LOW).any()) for each in values)

    def _can(self, name: str, readers: Sequence[Operator | None]) -> bool:
        """Whether all that read a flag can have it as a tensor, or be a product and a sum."""
        value = self.values.known[name]
        flag = self.found[name]
        as_float = value.element == FLOAT and not any(np.isnan(each).any() for each in flag.either)
        return all(self._choice(name, each) is not None or as_float for each in readers)

    def _as_floats(self, readers: Sequence[Operator | None], maker: Operator) -> bool:
        return any(self._choice(maker.outputs[0], each) is None for each in readers)

    # ---- What they become ----

    def _kept(self, node: Operator, taken: Iterable[str]) -> None:
        """A node that is no flag: as it is, or a choice by one as a product and a sum."""
        flag = self.found.get(node.inputs[0]) if node.inputs else None
        chosen = self._choice(node.inputs[0], node) if flag else None
        if flag is None or flag.source not in taken or chosen is None:
            self.last.append(node)
            return
        at = 2 if self.values.known[node.inputs[1]].is_known else 1
        keeps = tuple(each.astype(bool) ^ (at == 2) for each in flag.either)
        rank = max(len(flag.extents), chosen.ndim, 1)
        chosen = chosen.reshape((1,) * (rank - chosen.ndim) + chosen.shape)
        kept, rest = (self.values.fresh(f"{node.outputs[0]}_{each}") for each in ("kept", "rest"))
        self._table(node, kept, tuple(each.astype(np.float32) for each in keeps), flag, "kept")
        others = tuple(np.where(each, np.float32(0), chosen) for each in keeps)
        self._table(node, rest, others, flag, "rest")
        part = self.values.fresh(f"{node.outputs[0]}_part")
        self._two(node, "Mul", node.inputs[at], kept, part)
        self._two(node, "Add", part, rest, node.outputs[0])

    def _two(self, node: Operator, kind: str, one: str, other: str, name: str) -> str:
        """A product or sum of two tensors, under this name."""
        known = self.values.known
        shape = np.broadcast_shapes(known[one].shape, known[other].shape)
        known.setdefault(name, Value(tuple(shape), FLOAT))
        self.last.append(Operator(self._called(node, name), kind, 0, (one, other), (name,), {}))
        return name

    @staticmethod
    def _called(node: Operator, name: str) -> str:
        return node.node if name == node.outputs[0] else f"{node.node}_{name.rpartition('_')[2]}"

    def _table(
        self, node: Operator, name: str, either: Sequence[NDArray[Any]], flag: _Flag, end: str = ""
    ) -> None:
        """A flag's tensor, under this name."""
        finite = [_fewest(np.maximum(each, LOWEST_FLOAT).astype(np.float32)) for each in either]
        if all(each.size == 1 for each in finite):
            table = tuple(float(each.reshape(-1)[0]) for each in finite)
            shape = self.values.known[name].shape if name in self.values.known else flag.extents
            self._rows(node, name, table, flag, shape)
            return
        zero, one = finite
        with np.errstate(over="ignore"):
            change = one - zero
        if np.isfinite(change).all() and (zero + change == one).all():
            ones = self._ones(node, name, flag)
            part = name if not zero.any() else self.values.fresh(f"{name}_part")
            self._two(node, "Mul", ones, self._held(f"{name}_change", change), part)
            if zero.any():
                self._two(node, "Add", part, self._held(f"{name}_zero", zero), name)
            return
        parts = []
        for side, array in enumerate(finite):
            held = self._held(f"{name}_values{side}", array)
            which = self.values.fresh(f"{name}_is{side}")
            self._rows(node, which, (1.0 - side, float(side)), flag, flag.extents)
            part = self.values.fresh(f"{name}_part{side}")
            parts.append(self._two(node, "Mul", which, held, part))
        self._two(node, "Add", parts[0], parts[1], name)

    def _held(self, name: str, array: NDArray[Any]) -> str:
        name = self.values.fresh(name)
        self.values.known[name] = Value(array.shape, FLOAT, lambda: array)
        return name

    def _ones(self, node: Operator, name: str, flag: _Flag) -> str:
        """The flag as a number, which all that it decides read."""
        key = flag.source, flag.extents
        if key not in self.numbers:
            self.numbers[key] = self.values.fresh(f"{name}_ones")
            self._rows(node, self.numbers[key], (0.0, 1.0), flag, flag.extents)
        return self.numbers[key]

    def _rows(
        self, node: Operator, name: str, table: tuple[float, ...], flag: _Flag,
        shape: tuple[int, ...],
    ) -> None:  # fmt: skip
        self.values.known.setdefault(name, Value(shape, FLOAT))
        called, fact = self._called(node, name), RowOf(table, flag.extents)
        self.last.append(Operator(called, TABLE, 0, (flag.source,), (name,), {}, fact))


def _fewest(array: NDArray[Any]) -> NDArray[Any]:
    """One element, where all are the same."""
    alike = array.size > 1 and bool((array == array.reshape(-1)[0]).all())
    return array.reshape(-1)[:1].reshape((1,) * array.ndim) if alike else array


@operator(TABLE)
def table(site: NodeSite) -> None:
    """The row of a table of two numbers for each flag."""
    fact, shape, result = site.fact(RowOf), site.shape(), site.result()
    extents, values = fact.extents, np.array(fact.table, np.float32).reshape(2, 1)
    entries = {"vocabulary": 2, "features": 1, "zipf": 0.0}
    made = site.layer("Embedding", entries, [site.indices(0)])
    site.parameter(made, "w", (2, 1), lambda: values)
    seen = site.seen(made, (*shape, 1), extents or (1,))
    if extents != result:
        to = tuple(0 if have == want else want for have, want in zip(extents, result, strict=True))
        seen = site.layer("Rearrange", {"mode": "expand", "to": to}, [seen], "expand")
    site.give(seen)
