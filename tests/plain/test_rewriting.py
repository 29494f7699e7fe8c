"""Patterns of nodes: what matches, and what stands in its place."""

from types import SimpleNamespace

import numpy as np
import pytest

from simgen.frontend.importing.graph import Graph, Match, node, rewrite
from simgen.frontend.importing.values import Operator, Value

KNOWN = Value((2,), 1, lambda: np.ones(2))
GATE = node("Mul", "x", node("Sigmoid", "x", name="gate"), swaps=True)


def graph_of(*given: str) -> Graph:
    """ "y = Mul x gate": a node a text; what begins with k is known."""
    operators, names = [], set()
    for text in given:
        made, _, kind, *inputs = text.split()
        operators.append(Operator(made, kind, 0, tuple(inputs), (made,), {}))
        names |= {made, *inputs}
    known = {each: KNOWN if each[0] == "k" else Value((2,), 1) for each in names}
    return Graph(operators, SimpleNamespace(known=known))  # type: ignore[arg-type]


def swish(m: Match) -> Operator:
    return Operator(m.node.node, "Swish", 0, (m.values["x"],), m.node.outputs, {})


@pytest.mark.parametrize(
    ("last", "kind"),
    [("y = Mul x g", "Swish"), ("y = Mul g x", "Swish"), ("y = Mul z g", "Mul"),
     ("y = Add x g", "Add"), ("y = Mul g g", "Mul")],
)  # fmt: skip
def test_a_name_is_the_same_value_everywhere(last: str, kind: str) -> None:
    made = rewrite(graph_of("g = Sigmoid x", last), [(GATE, swish)])
    assert [each.kind for each in made] == ["Sigmoid", kind]


def test_known_values_those_left_out_and_what_stands_behind() -> None:
    pattern = node("Conv", "x", "!k", "?b", behind="Relu", when=lambda _, each: each.node != "no")
    found = []
    texts = ("a = Conv x k", "b = Conv x w", "c = Conv x k s", "d = Relu a", "no = Conv x k")
    rewrite(graph_of(*texts), [(pattern, lambda m: found.append((m.node.node, m.values["b"])))])
    assert found == [("a", ""), ("c", "s"), ("d", "")]


def test_the_first_rule_that_makes_something_counts() -> None:
    rules = [(GATE, lambda _: None), (GATE, lambda m: [m.nodes["gate"], m.node])]
    made = rewrite(graph_of("g = Sigmoid x", "y = Mul x g"), rules)
    assert [each.kind for each in made] == ["Sigmoid", "Sigmoid", "Mul"]
