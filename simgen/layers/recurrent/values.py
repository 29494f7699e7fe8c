"""What a recurrent layer's passes give in float64, and what float32 arithmetic loses of it.

`proxy` says of all of them what is followed beside the values: a bound on the error, or where it is
true a proxy standard deviation (simgen/ground/numerics/spread.py); None: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.ir import Pass
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, U
from simgen.ground.numerics.running import Bounded
from simgen.ground.numerics.spread import order, sum_spread
from simgen.layers.recurrent import cells
from simgen.layers.recurrent.cells import RecurrentCell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.product.matrix_product import Product
    from simgen.layers.recurrent.unrolled import Unrolled

F, BX, BW = Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT


def followed(
    u: Unrolled, tensors: Tensors, direction: Pass, proxy: bool | None
) -> dict[str, Bounded]:
    """What a pass writes, by port."""
    follow = {F: _forward, BX: _backward, BW: _weights}[direction]
    found, specs = follow(u, tensors, proxy), u.specs
    return {port: _shaped(each, specs[port].shape) for port, each in found.items()}


def _forward(u: Unrolled, tensors: Tensors, proxy: bool | None) -> dict[str, Bounded]:
    state = u.state
    inside, r = _inside(u, tensors, proxy), tensors["r"]
    tile = u.tile(F)

    def made(part: Bounded, h: Array, c: Array, proxy: bool | None) -> dict[str, Bounded]:
        found = tile.sums_of(u.factor(h), r.T, proxy=proxy)
        sums = _shaped(found, (*h.shape[:-1], u.gates, u.hidden))
        if u.bias:
            sums = sums + _exact(tensors["br"].reshape(u.gates, u.hidden), proxy)
        return cells.forward(u.cell, part, sums, _exact(h, proxy), _exact(c, proxy))

    h, c = tensors.get(state), tensors.get("cell")
    if h is None:
        h, c = np.zeros((2, u.steps, u.batch, u.hidden))
        before = np.zeros((2, u.batch, u.hidden))
        before[0], before[1] = tensors.get("h0", 0.0), tensors.get("c0", 0.0)
        for t in u.order:
            each = made(Bounded(inside.value[t]), before[0], before[1], None)
            before[0] = h[t] = each["h"].value
            before[1] = c[t] = each["cell"].value if "cell" in each else 0.0
    c = np.zeros_like(h) if c is None else c
    first = tensors.get("h0"), tensors.get("c0")
    found = made(inside, _shifted(u, h, first[0]), _shifted(u, c, first[1]), proxy)
    found["y"] = found.pop("h")
    if u.final:
        last = {"hy": found["y"], "cy": found.get("cell")}
        found |= {port: _of_step(each, u.order[-1]) for port, each in last.items() if each}
    return found if state == "y" else {**found, "state": found["y"]}


def _of_step(each: Bounded, t: int) -> Bounded:
    return Bounded(each.value[t], None if each.error is None else each.error[t])


def _inside(u: Unrolled, tensors: Tensors, proxy: bool | None) -> Bounded:
    """The parts of the sums that come from x, with their bias: (T, N, gates, units)."""
    x = tensors["x"].reshape(u.rows, u.features)
    bw = tensors["bw"] if u.bias else np.zeros(u.sums)
    if u.skips:
        shape = (u.steps, u.batch, u.gates, u.hidden)
        part = _exact(np.broadcast_to(x.reshape(u.steps, u.batch, 1, u.hidden), shape), proxy)
        return part + _exact(bw.reshape(u.gates, u.hidden), proxy) if u.bias else part
    (product,) = u.products(F).values()
    value = x @ tensors["w"].T + bw
    found = _of_product(product, x, tensors["w"].T, value, proxy)
    return _shaped(found, (u.steps, u.batch, u.gates, u.hidden))


def _shifted(
    u: Unrolled, states: Array, first: Array | None = None, *, behind: bool = False
) -> Array:
    """States of the step before, or behind, each one in the order of the run; where there is
    none, `first`, or zeros."""
    nothing = np.zeros_like(states[:1]) if first is None else first.reshape(states[:1].shape)
    if u.reverse is behind:
        return np.concatenate([nothing, states[:-1]])
    return np.concatenate([states[1:], nothing])


def _backward(u: Unrolled, tensors: Tensors, proxy: bool | None) -> dict[str, Bounded]:
    state, r = u.state, tensors["r"]
    kept = {name: tensors[name] for name in ("gates", "cell", "candidate") if name in tensors}
    if "cell" in kept:
        kept["cell_before"] = _shifted(u, kept["cell"], tensors.get("c0"))
    if u.cell is not RecurrentCell.LSTM:
        before = _shifted(u, tensors[state], tensors.get("h0"))
        kept |= {"h": tensors[state], "h_before": before}
    tile, recurrent = u.tile(BX), u.passed

    def made(
        dy: Bounded, behind: Array, carry: Array, own: Mapping[str, Array], proxy: bool | None
    ) -> dict[str, Bounded]:
        rows = u.factor(behind.reshape(*behind.shape[:-2], u.sums))
        dh = dy + tile.sums_of(rows, r, proxy=proxy)
        if u.cell is RecurrentCell.GRU:
            dh = dh + _exact(carry, proxy)
        return cells.backward(u.cell, dh, _exact(carry, proxy), own)

    dy = _from_behind(u, tensors, proxy)
    passed, carry = tensors.get(recurrent), tensors.get("carry")
    if passed is None:
        passed = np.zeros((u.steps, u.batch, u.gates, u.hidden))
        carry = np.zeros((u.steps, u.batch, u.hidden))
        behind, carried = np.zeros_like(passed[0]), np.zeros_like(carry[0])
        carried = carried + tensors.get("dcy", 0.0)
        for t in u.order[::-1]:
            own = {name: values[t] for name, values in kept.items()}
            each = made(Bounded(dy.value[t]), behind, carried, own, None)
            behind = passed[t] = each[recurrent].value
            carried = carry[t] = each["carry"].value if "carry" in each else 0.0 * carried
    carry = np.zeros((u.steps, u.batch, u.hidden)) if carry is None else carry
    after = (
        _shifted(u, passed, behind=True),
        _shifted(u, carry, tensors.get("dcy"), behind=True),
    )
    found = made(dy, *after, kept, proxy)
    dgates = tensors.get("dgates", found["dgates"].value)
    found["dx"] = _dx(u, dgates, tensors, proxy)
    found |= _to_states(u, passed, tensors.get("carry", carry), r, proxy)
    if "c0" in u.states:  # what the first step leaves for one before
        first, left = u.order[0], found["carry"]
        error = None if left.error is None else left.error[first]
        found["dc0"] = Bounded(left.value[first], error)
    return found


def _from_behind(u: Unrolled, tensors: Tensors, proxy: bool | None) -> Bounded:
    """What gradients of h come from outside: that of the last state is added to the last step's."""
    found, last = _exact(tensors["dy"], proxy), u.order[-1]
    if not u.final:
        return found
    added = _of_step(found, last) + _exact(tensors["dhy"], proxy)
    value = np.array(found.value)
    value[last] = added.value
    if found.error is None or added.error is None:
        return Bounded(value)
    error = np.array(found.error)
    error[last] = added.error
    return Bounded(value, error)


def _to_states(
    u: Unrolled, passed: Array, carry: Array, r: Array, proxy: bool | None
) -> dict[str, Bounded]:
    """The gradient of h0, from what the first step passes on."""
    if not u.states:
        return {}
    first = u.order[0]
    left = u.factor(passed[first].reshape(u.batch, u.sums))
    product, value = u.products(BX)["dh0"], left @ r
    value = value + carry[first] if product.beta else value
    return {"dh0": _of_product(product, left, r, value, proxy)}


def _dx(u: Unrolled, dgates: Array, tensors: Tensors, proxy: bool | None) -> Bounded:
    """From the gradients of the sums as a result has them."""
    if u.skips:
        value = dgates.sum(axis=-2)
        bound = u.gates * U * np.abs(dgates).sum(axis=-2) * SECOND_ORDER + TINY
        return Bounded(value, None if proxy is None else bound)
    product = u.products(BX)["dx"]
    left, right = u.factor(dgates.reshape(u.rows, u.sums)), tensors["w"]
    return _of_product(product, left, right, left @ right, proxy)


def _weights(u: Unrolled, tensors: Tensors, proxy: bool | None) -> dict[str, Bounded]:
    state, products = u.state, u.products(BW)
    drec = tensors[u.passed].reshape(u.steps, u.batch, u.sums)
    dgates = tensors.get("dgates", drec).reshape(u.rows, u.sums)
    found: dict[str, Bounded] = {}
    if "dw" in products:
        x, left = tensors["x"].reshape(u.rows, u.features), u.factor(dgates).T
        found["dw"] = _of_product(products["dw"], left, x, left @ x, proxy)
    h, gradients = (u.factor(each) for each in (tensors[state], drec))
    later, earlier = (gradients[:-1], h[1:]) if u.reverse else (gradients[1:], h[:-1])
    left, right = later.reshape(-1, u.sums).T, earlier.reshape(-1, u.hidden)
    if not u.states:
        found["dr"] = _of_product(products["dr"], left, right, left @ right, proxy)
    else:
        found["dr"] = _with_first(u, products, (left, right), gradients, tensors, proxy)
    if u.bias:
        found["dbw"] = _of_sum(dgates, proxy)
        found["dbr"] = _of_sum(drec.reshape(u.rows, u.sums), proxy)
    return found


def _with_first(
    u: Unrolled,
    products: Mapping[str, Product],
    later: tuple[Array, Array],
    gradients: Array,
    tensors: Tensors,
    proxy: bool | None,
) -> Bounded:
    """The gradient of r where the first step has a state before it, from the factors of all
    other steps and those of this one."""
    left = gradients[u.order[0]].T
    right = u.factor(tensors["h0"])
    if "dr_later" not in products:
        return _of_product(products["dr"], left, right, left @ right, proxy)
    others = _of_product(products["dr_later"], *later, later[0] @ later[1], proxy)
    made = _of_product(products["dr"], left, right, left @ right + others.value, proxy)
    if made.error is None or others.error is None:
        return made
    return Bounded(made.value, made.error + others.error)


def _exact(values: Array, proxy: bool | None) -> Bounded:
    """What was not rounded."""
    return Bounded(values, None if proxy is None else np.zeros_like(values))


def _shaped(each: Bounded, shape: tuple[int, ...]) -> Bounded:
    error = None if each.error is None else each.error.reshape(shape)
    return Bounded(each.value.reshape(shape), error)


def _of_product(product: Product, a: Array, b: Array, y: Array, proxy: bool | None) -> Bounded:
    if proxy is None:
        return Bounded(y)
    hard = product.bound(a, b, y)
    return Bounded(y, product.spread(a, b, y, hard) if proxy else hard)


def _of_sum(rows: Array, proxy: bool | None) -> Bounded:
    """Sums over the rows: in whatever order, each takes part in as many additions at most."""
    value = rows.sum(axis=0)
    if proxy is None:
        return Bounded(value)
    hard = len(rows) * U * np.abs(rows).sum(axis=0) * SECOND_ORDER + TINY
    return Bounded(value, sum_spread(rows.T, order(len(rows)), hard) if proxy else hard)
