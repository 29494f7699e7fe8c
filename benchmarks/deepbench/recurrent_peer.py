"""Recurrent layers: cuDNN through PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simgen.ground.ir import Pass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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
