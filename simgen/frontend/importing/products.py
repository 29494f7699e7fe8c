"""Products of matrices. Those with a parameter are fully connected layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simgen.frontend.importing.broadcasting import fitted
from simgen.frontend.importing.table import operator
from simgen.frontend.importing.values import Refused
from simgen.ground.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simgen.frontend.importing.draft import DraftLayer, NodeSite

MOST_FACTOR = (1e-6, 1e6)  # limits of [Gemm]'s factors


@operator("Gemm")
def gemm(site: NodeSite) -> None:
    alpha, beta = float(site.attribute("alpha", 1.0)), float(site.attribute("beta", 1.0))
    turned_a, turned_b = bool(site.attribute("transA", 0)), bool(site.attribute("transB", 0))
    _m, n = site.result()
    weights = site.value(1)
    c_is_row = site.has(2) and site.value(2).is_known and site.shape(2) in ((n,), (1, n), (1,), ())
    if not weights.is_known or turned_a or not (c_is_row or not site.has(2)):
        _product(site, alpha, beta, turned_a, turned_b)
        return
    made = site.layer(
        "FullyConnected",
        {"num_output": n, **({"bias": True} if site.has(2) else {})},
        [site.tensor()],
    )

    def w() -> NDArray[Any]:
        values = weights.array() if turned_b else weights.array().T
        return values if alpha == 1 else values * np.float32(alpha)

    # What a factor scales is a value of the model: drawn, it would be without the factor.
    site.parameter(made, "w", (n, site.shape()[1]), w, *([weights] if alpha == 1 else []))
    if site.has(2):
        c = site.value(2)

        def b() -> NDArray[Any]:
            return np.broadcast_to(c.array() * np.float32(beta), (1, n)).reshape(n)

        site.parameter(made, "b", (n,), b, *([c] if beta == 1 else []))
    site.give(made)


def _product(site: NodeSite, alpha: float, beta: float, turned_a: bool, turned_b: bool) -> None:
    added = site.has(2) and beta != 0
    sources, alpha = _unscaled(site, [site.tensor(0), site.tensor(1)], alpha)
    if added:
        sources.append(fitted(site, 2, site.result()))
    entries: dict[str, object] = {"transa": turned_a, "transb": turned_b, "alpha": alpha}
    entries |= {"beta": beta} if added else {}
    site.give(site.layer("Gemm", entries, sources))


@operator("MatMul")
def matmul(site: NodeSite) -> None:
    a, b = site.shape(0), site.shape(1)
    if min(len(a), len(b)) < 2:
        raise Refused("multiplies by a vector; give it a matrix of one row or column")
    weights = site.value(1)
    if weights.is_known and len(b) == 2:
        made = site.layer("FullyConnected", {"num_output": b[1], "axis": -1}, [site.tensor()])
        site.parameter(made, "w", b[::-1], lambda: weights.array().T, weights)
        site.give(made)
        return
    batch = site.result()[:-2]
    sources = [fitted(site, 0, (*batch, *a[-2:])), fitted(site, 1, (*batch, *b[-2:]))]
    sources, alpha = _unscaled(site, sources, 1.0)
    site.give(site.layer("Gemm", {"alpha": alpha} if alpha != 1 else {}, sources))


def scales(layer: DraftLayer, number: float) -> bool:
    """Whether the factor of the layer's product takes a number into it."""
    alpha = float(layer.entries.get("alpha", "1")) * number
    if "beta" in layer.entries or not MOST_FACTOR[0] <= abs(alpha) <= MOST_FACTOR[1]:
        return False
    layer.entries["alpha"] = repr(alpha)
    return True


def _unscaled(site: NodeSite, sources: list[str], alpha: float) -> tuple[list[str], float]:
    """Factors without the numbers that they were multiplied by, which are part of alpha."""
    for at, tensor in enumerate(sources):
        found, way = site.draft.behind(tensor)
        layer = site.draft.layers.get(found)
        if layer is None or layer.entries.get("piecewise_mode") != "linear":
            continue
        number = alpha * float(layer.entries["slope"])
        plain = float(layer.entries["offset"]) == 0 and tensor not in sources[:at]
        if plain and MOST_FACTOR[0] <= abs(number) <= MOST_FACTOR[1]:
            sources[at], alpha = site.draft.without(found, way, tensor), number
    return sources, alpha
