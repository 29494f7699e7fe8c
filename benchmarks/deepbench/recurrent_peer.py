"""Recurrent layers: cuDNN through PyTorch, and the layer's formulas in PyTorch, step by step.

Sums of functions are never exact, so that results are judged otherwise than those of products: by
their distance from the formulas in float64, which may be MORE times that of the same formulas in
float32, and the rounding of what is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simgen.ir import Pass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MORE = 16.0  # orders of summation differ, and functions are approximated


def formulas(torch: Any, layer: Any, direction: Pass, t: Mapping[str, Any]) -> dict[str, Any]:
    """What a pass writes, computed in the type of `t` (simgen/layers/recurrent/recurrent.py)."""
    if direction is Pass.BACKWARD_WEIGHT:
        return _weights(torch, layer, t)
    return (_forward if direction is Pass.FORWARD else _backward)(torch, layer, t)


def _order(layer: Any, steps: int) -> list[int]:
    return list(range(steps))[:: -1 if layer.reverse else 1]


def _forward(torch: Any, layer: Any, t: Mapping[str, Any]) -> dict[str, Any]:
    x, r, cell = t["x"].flatten(2), t["r"], str(layer.cell)
    gates, hidden = r.shape[0] // r.shape[1], r.shape[1]
    inside = (x @ t["w"].T).unflatten(2, (gates, hidden))
    br = torch.zeros(gates, hidden, device=x.device, dtype=x.dtype)
    if layer.bias:
        inside = inside + t["bw"].view(gates, hidden)
        br = t["br"].view(gates, hidden)
    h = c = torch.zeros(x.shape[1], hidden, device=x.device, dtype=x.dtype)
    made: dict[str, list[Any]] = {}
    for at in _order(layer, x.shape[0]):
        sums = (h @ r.T).unflatten(1, (gates, hidden)) + br
        kept = {}
        if cell == "gru":
            reset, update = (torch.sigmoid(inside[at, :, g] + sums[:, g]) for g in (0, 1))
            new = torch.tanh(inside[at, :, 2] + reset * sums[:, 2])
            h = (1 - update) * new + update * h
            kept = {"gates": torch.stack((reset, update, new), 1), "candidate": sums[:, 2]}
        elif cell == "lstm":
            i, f, g, o = (inside[at, :, g] + sums[:, g] for g in range(4))
            i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
            c = f * c + i * g
            h = o * torch.tanh(c)
            kept = {"gates": torch.stack((i, f, g, o), 1), "cell": c}
        else:
            h = (torch.relu if cell == "relu" else torch.tanh)(inside[at, :, 0] + sums[:, 0])
        for name, each in {"y": h, "state": h, **kept}.items():
            made.setdefault(name, []).append(each)
    return {name: torch.stack(each[:: -1 if layer.reverse else 1]) for name, each in made.items()}


def _backward(torch: Any, layer: Any, t: Mapping[str, Any]) -> dict[str, Any]:
    dy, r, cell = t["dy"], t["r"], str(layer.cell)
    steps, batch, hidden = dy.shape
    state = t.get("state", t.get("y"))
    zero = torch.zeros(batch, hidden, device=dy.device, dtype=dy.dtype)
    order, behind, carry = _order(layer, steps), None, zero
    made: dict[str, list[Any]] = {}
    for place in range(steps - 1, -1, -1):
        at, before = order[place], order[place - 1] if place else None
        dh = dy[at] if behind is None else dy[at] + behind.flatten(1) @ r
        if cell == "lstm":
            i, f, g, o = t["gates"][at].unbind(1)
            squashed = torch.tanh(t["cell"][at])
            last = zero if before is None else t["cell"][before]
            dc = dh * o * (1 - squashed**2) + carry
            parts = [dc * g * i * (1 - i), dc * last * f * (1 - f), dc * i * (1 - g**2)]
            parts.append(dh * squashed * o * (1 - o))
            carry, own = dc * f, parts
        elif cell == "gru":
            dh = dh + carry
            reset, update, new = t["gates"][at].unbind(1)
            last = zero if before is None else state[before]
            dn = dh * (1 - update) * (1 - new**2)
            dr = dn * t["candidate"][at] * reset * (1 - reset)
            dz = dh * (last - new) * update * (1 - update)
            parts, own, carry = [dr, dz, dn], [dr, dz, dn * reset], dh * update
        else:
            h = state[at]
            parts = own = [dh * ((h > 0) if cell == "relu" else (1 - h**2))]
        behind = torch.stack(own, 1)
        for name, each in {
            "dgates": torch.stack(parts, 1), "drec": behind, "carry": carry
        }.items():  # fmt: skip
            made.setdefault(name, []).append(each)
    # What was made last is of the step that comes first.
    found = {
        name: torch.stack(each if layer.reverse else each[::-1]) for name, each in made.items()
    }
    dx = found["dgates"].flatten(2) @ t["w"]
    return {**found, "dx": dx.view(t["dx"].shape)}


def _weights(torch: Any, layer: Any, t: Mapping[str, Any]) -> dict[str, Any]:
    inner = t["drec"] if "drec" in t else t["dgates"]
    state = t.get("state", t.get("y"))
    # h of each step, and the gradients of the sums of the one behind it.
    h, of_next = (state[1:], inner[:-1]) if layer.reverse else (state[:-1], inner[1:])
    made = {"dr": of_next.flatten(2).flatten(0, 1).T @ h.flatten(0, 1)}
    if "x" in t:
        made["dw"] = t["dgates"].flatten(2).flatten(0, 1).T @ t["x"].flatten(2).flatten(0, 1)
    if layer.bias:
        made |= {"dbw": t["dgates"].flatten(2).sum((0, 1)), "dbr": inner.flatten(2).sum((0, 1))}
    return made


def library(
    torch: Any, layer: Any, direction: Pass, t: Mapping[str, Any]
) -> tuple[Callable[[], object], Callable[[], object] | None]:
    """(what is timed, what of it is not of the pass: cuDNN makes the gradients of weights only
    after those of the data). Its values are random: times do not depend on them."""
    r = t["r"] if "r" in t else t["dr"]
    given = next(t[name] for name in ("x", "dx") if name in t).flatten(2)
    kinds = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
    cell, more = str(layer.cell), {"bias": layer.bias, "device": r.device, "dtype": r.dtype}
    if cell not in kinds:
        more["nonlinearity"] = cell
    module = kinds.get(cell, torch.nn.RNN)(given.shape[2], r.shape[1], **more)
    x = torch.randn(given.shape, device=r.device).to(r.dtype)
    if direction is Pass.FORWARD:

        def forward() -> object:
            with torch.no_grad():
                return module(x)

        return forward, None
    x.requires_grad_()
    y, _ = module(x)
    dy = torch.randn(y.shape, device=r.device).to(r.dtype)

    def of_data() -> object:
        return torch.autograd.grad(y, [x], dy, retain_graph=True)

    def of_all() -> object:
        return torch.autograd.grad(y, [x, *module.parameters()], dy, retain_graph=True)

    return (of_data, None) if direction is Pass.BACKWARD_DATA else (of_all, of_data)
