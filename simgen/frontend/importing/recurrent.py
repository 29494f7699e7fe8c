"""LSTM, GRU and RNN. ONNX has other orders of the gates than cuDNN, PyTorch and [Recurrent].

    X  (T, N, C)     W  (D, G H, C)     R  (D, G H, H)     B  (D, 2 G H)     D directions, G gates
    Y  (T, D, N, H)  Y_h, Y_c  (D, N, H)

Each direction is a layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simgen.frontend.importing.table import operator
from simgen.frontend.importing.values import Refused, Value
from simgen.ground.arrays import np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from simgen.frontend.importing.draft import NodeSite

GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}  # ONNX's, in the order of the layer
ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"]}
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
UNKNOWN = {  # what [Recurrent] has not: attribute -> its value where it does nothing
    "clip": 0.0, "input_forget": 0, "layout": 0,
}  # fmt: skip
LENGTHS, H0, C0, PEEPHOLES = 4, 5, 6, 7  # inputs


@operator(*GATES)
def recurrent(site: NodeSite) -> None:
    kind, (steps, batch, features) = site.operator.kind, site.shape()
    hidden = int(site.attribute("hidden_size") or site.shape(2)[-1])
    reverses = DIRECTIONS[site.attribute("direction", "forward")]
    cell = _cell(site, len(reverses))
    for name, usual in UNKNOWN.items():
        if site.attribute(name, usual) != usual:
            raise Refused(f"has {name}={site.attribute(name)}, which [Recurrent] has not")
    if kind == "GRU" and not site.attribute("linear_before_reset", 0):
        raise Refused("resets before the product; export it with linear_before_reset=1")
    if site.has(LENGTHS) and set(site.numbers(LENGTHS, "lengths")) != {steps}:
        raise Refused("has samples of different lengths")
    if kind == "LSTM" and site.has(PEEPHOLES) and site.known(PEEPHOLES, "peepholes").array().any():
        raise Refused("has peepholes, which [Recurrent] has not")
    wanted = [bool(name and site.draft.readers[name]) for name in site.operator.outputs]
    ends = any(wanted[1:])
    made = []
    for at, reverse in enumerate(reverses):
        sources = [site.tensor(), *_states(site, at, len(reverses), steps, (batch, hidden))]
        entries = {
            "cell": cell, "hidden_size": hidden, "bias": site.has(3), "reverse": reverse,
            "initial_state": len(sources) > 1, "final_state": ends,
        }  # fmt: skip
        suffix = "" if len(reverses) == 1 else ("reverse" if reverse else "forward")
        made.append(site.layer("Recurrent", entries, sources, suffix))
        _weights(site, made[-1], at, (hidden, features))
    for at, (port, wants) in enumerate(zip(("y", "hy", "cy"), wanted)):
        if wants:
            one = (steps, batch, hidden) if at == 0 else (batch, hidden)
            site.give(_joined(site, [f"{name}.{port}" for name in made], one, port), at)


def _cell(site: NodeSite, directions: int) -> str:
    kind, given = site.operator.kind, site.attribute("activations")
    names = [each.decode() if isinstance(each, bytes) else str(each) for each in given or ()]
    if kind == "RNN":
        found = set(names[:directions]) or {"Tanh"}  # the operator's own list has both directions
        if found in ({"Tanh"}, {"Relu"}):
            return found.pop().lower()
    elif names in ([], ACTIVATIONS[kind] * directions):
        return kind.lower()
    raise Refused(f"has the activations {', '.join(names)}, and [Recurrent] its own")


def _states(
    site: NodeSite, at: int, directions: int, steps: int, shape: tuple[int, int]
) -> list[str]:
    """What it begins with; none where that is zero and something comes behind it."""
    inputs = [H0, C0] if site.operator.kind == "LSTM" else [H0]
    given = [each for each in inputs if site.has(each)]
    known = all(site.value(each).is_known for each in given)
    if not given or (known and not any(site.value(each).array().any() for each in given)):
        return [] if steps > 1 else [_zeros(site, each, at, shape) for each in inputs]
    if given != inputs:
        raise Refused("begins with one state that is given, and one that is not")
    if directions == 1:
        return [
            site.seen(site.tensor(each), site.shape(each), shape, f"state{each}") for each in given
        ]
    if not known:
        raise Refused("begins with computed states in two directions")
    found = []
    for each in given:
        name, value = f"{site.operator.node}_state{each}_{at}", site.value(each)
        found.append(site.constant(name, shape, _direction(value, at), value))
    return found


def _zeros(site: NodeSite, number: int, at: int, shape: tuple[int, int]) -> str:
    name = f"{site.operator.node}_state{number}_{at}"
    return site.constant(name, shape, lambda: np.zeros(shape, np.float32))


def _direction(value: Value, at: int) -> Callable[[], NDArray[Any]]:
    return lambda: value.array()[at]


def _weights(site: NodeSite, layer: str, at: int, sizes: tuple[int, int]) -> None:
    hidden, features = sizes
    order = GATES[site.operator.kind]
    gates = len(order)

    def turned(value: Value, part: int = 0) -> Callable[[], NDArray[Any]]:
        """A maker of one direction's value, or a part of it, with the gates in the
        layer's order."""
        rows = gates * hidden

        def made() -> NDArray[Any]:
            own = value.array()[at][part * rows : (part + 1) * rows]
            parts = np.split(own, gates)
            return np.concatenate([parts[gate] for gate in order])

        return made

    w, r = site.known(1, "weights"), site.known(2, "recurrent weights")
    site.parameter(layer, "w", (gates * hidden, features), turned(w), w)
    site.parameter(layer, "r", (gates * hidden, hidden), turned(r), r)
    if site.has(3):
        b = site.known(3, "biases")
        site.parameter(layer, "bw", (gates * hidden,), turned(b), b)
        site.parameter(layer, "br", (gates * hidden,), turned(b, 1), b)


def _joined(site: NodeSite, tensors: list[str], shape: tuple[int, ...], port: str) -> str:
    """The tensors of all directions, with an axis of directions before that of samples."""
    first, rest = (shape[0], shape[1:]) if len(shape) == 3 else (1, shape)
    each = (first, 1, *rest)
    seen = [site.seen(tensor, shape, each, f"{port}{at}_view") for at, tensor in enumerate(tensors)]
    result = (first, len(tensors), *rest)
    made = seen[0]
    if len(seen) > 1:
        made = site.layer("Concat", {"axis": 1}, seen, f"{port}_joined")
    return made if len(shape) == 3 else site.seen(made, result, result[1:], f"{port}_view")
