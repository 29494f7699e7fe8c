"""The operators of a model as a graph, and `rewrite`: others in place of what patterns match.

A pattern is a value: a node, by its kind, and what it reads, each a pattern again or a name.

    node("Where", node("IsNaN", "y"), "!zero", node("Softmax", gives="y", name="rows"))

A name stands for any value, and for the same one wherever it stands; "!name" is one that the model
knows, "?name" one that may be left out. What a node reads beyond its pattern may be anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from simgen.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simgen.frontend.importing.values import Operator, Values

LARGEST = 2**24  # elements of a known tensor that is looked at


@dataclass
class Graph:
    """Operators in order, with what makes and what reads each value."""

    operators: Sequence[Operator]
    values: Values

    def __post_init__(self) -> None:
        self.makers = {name: each for each in self.operators for name in each.outputs if name}
        self.readers: defaultdict[str, list[Operator]] = defaultdict(list)
        for each in self.operators:
            for name in each.inputs:
                self.readers[name].append(each)

    @cached_property
    def ends(self) -> frozenset[str]:
        """Outputs of the model."""
        return frozenset(each.name for each in self.values.model.graph.output)

    def known(self, name: str) -> NDArray[Any] | None:
        """The elements of a value that the model knows, unless they are many."""
        value = self.values.known.get(name)
        return value.array() if value and value.is_known and value.size <= LARGEST else None

    def at_hand(self, name: str) -> NDArray[Any] | None:
        """The same; None where it is in a file that is not there, so that values are drawn."""
        try:
            return self.known(name)
        except ConfigError:
            return None


@dataclass(frozen=True)
class Pattern:
    """A node: its kinds, what it reads, and what else it must be."""

    kinds: tuple[str, ...]  # (): any
    inputs: tuple[Pattern | str, ...]
    name: str = ""  # what a match calls it
    gives: str = ""  # name of its first output
    when: Callable[[Graph, Operator], bool] | None = None
    swaps: bool = False  # whether its two inputs may be exchanged
    optional: bool = False  # whether the value may be left out
    behind: str = ""  # the kind of a node with one input that may follow it


def node(kinds: str | tuple[str, ...], *inputs: Pattern | str, **more: Any) -> Pattern:
    return Pattern((kinds,) if isinstance(kinds, str) else kinds, inputs, **more)


@dataclass
class Match:
    """What a pattern has found."""

    graph: Graph
    node: Operator  # the last one, which is to be replaced
    nodes: Mapping[str, Operator] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    def having(
        self, nodes: Mapping[str, Operator] | None = None, values: Mapping[str, str] | None = None
    ) -> Match:
        found = {**self.nodes, **(nodes or {})}, {**self.values, **(values or {})}
        return Match(self.graph, self.node, *found)

    def array(self, name: str) -> NDArray[Any]:
        """The elements of what is "!name"."""
        found = self.graph.known(self.values[name])
        assert found is not None
        return found


Rule = tuple[Pattern, Callable[[Match], "Operator | Sequence[Operator] | None"]]


def rewrite(graph: Graph, rules: Sequence[Rule]) -> list[Operator]:
    """The operators, each replaced by what the first rule makes that matches it and makes any."""
    found: list[Operator] = []
    for each in graph.operators:
        made: Operator | Sequence[Operator] | None = None
        for pattern, make in rules:
            fits = not pattern.kinds or each.kind in (*pattern.kinds, pattern.behind)
            match = _matched(Match(graph, each), pattern, each) if fits else None
            made = make(match) if match else None
            if made is not None:
                break
        found += [each] if made is None else made if isinstance(made, Sequence) else [made]
    return found


def _matched(match: Match, pattern: Pattern, node: Operator | None) -> Match | None:
    """The match with what a pattern finds from a node on."""
    if node and pattern.behind == node.kind:
        before = match.graph.makers.get(node.input(0))
        if before is not None and before.kind in pattern.kinds:
            match, node = match.having({pattern.behind: node}), before
    if node is None or (pattern.kinds and node.kind not in pattern.kinds):
        return None
    if pattern.when and not pattern.when(match.graph, node):
        return None
    if pattern.gives and match.values.get(pattern.gives, node.outputs[0]) != node.outputs[0]:
        return None
    match = match.having({pattern.name: node}, {pattern.gives: node.outputs[0]})
    for order in (pattern.inputs, pattern.inputs[::-1])[: 1 + pattern.swaps]:
        found: Match | None = match
        for at, wanted in enumerate(order):
            found = _input(found, wanted, node.input(at)) if found else None
        if found:
            return found
    return None


def _input(match: Match, wanted: Pattern | str, name: str) -> Match | None:
    if isinstance(wanted, Pattern):
        left_out = wanted.optional and not name
        return match if left_out else _matched(match, wanted, match.graph.makers.get(name))
    called = wanted.lstrip("!?")
    if match.values.get(called, name) != name or not (name or wanted[0] == "?"):
        return None
    if wanted[0] == "!" and match.graph.known(name) is None:
        return None
    return match.having(values={called: name})
