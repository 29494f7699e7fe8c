"""The launches of a recurrent layer: products over all steps, and a kernel for each step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simgen.ground.dtypes import DType
from simgen.ground.ir import Kernel, Launch, Pass
from simgen.layers import conversion, layout
from simgen.layers.base import Lowering
from simgen.layers.product.matrix_product import sum_of
from simgen.layers.recurrent.cells import RecurrentCell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.layers.recurrent.unrolled import Unrolled

F, BX, BW = Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT
FLOAT = DType.F32.nbytes


def forward(u: Unrolled) -> Lowering:
    state, dtype = u.state, u.dtype
    kernels: list[Kernel] = []
    launches: list[Launch] = []
    for port, product in u.products(F).items():
        bias = "bw" if u.bias else None
        made = product.lower("recurrent_fwd", "x", "w", bias, port, f"{port}_partial")
        kernels, launches = [*made[0]], [*made[1]]
    steps, alone = u.kernels(F), u.kernels(F, product=False)
    lstm, gru = u.cell is RecurrentCell.LSTM, u.cell is RecurrentCell.GRU
    unit, gate = u.batch * u.hidden * FLOAT, u.batch * u.sums * FLOAT
    inside = u.batch * u.hidden * steps.x.nbytes if u.skips else gate
    narrow = u.batch * u.hidden * dtype.nbytes
    if u.states and steps.by_matrix:
        widened = conversion.cast(u.batch * u.hidden, dtype, DType.F32, "h0", "h0_wide")
        kernels += widened.kernels
        launches += widened.launches
    before = -1
    for t in u.order:
        begins, last = before < 0, max(before, 0)
        empty = begins and not u.states
        own = alone if empty else steps
        kernel = own.forward(first=empty)
        h, of_y, c = (state, last * unit), ("y", last * narrow), ("cell", last * unit)
        if begins and u.states:
            h, of_y, c = ("h0_wide" if steps.by_matrix else "h0", 0), ("h0", 0), ("c0", 0)
        places = [("x" if u.skips else "sums", t * inside), h, ("r", 0)]
        places += [of_y] if steps.by_matrix else []
        if u.bias:
            places += [("bw", 0), ("br", 0)] if u.skips else [("br", 0)]
        places += [c] if lstm else []
        places += [("gates", t * gate)] if u.cell.gated else []
        places += [("cell", t * unit)] if lstm else []
        places += [("candidate", t * unit)] if gru else []
        places += [(state, t * unit)]
        places += [("y", t * narrow)] if steps.by_matrix else []
        kernels.append(kernel)
        launches.append(_launch(kernel, own.grid, places))
        before = t
    if state != "y" and not steps.by_matrix:
        rounded = conversion.cast(u.rows * u.hidden, DType.F32, dtype, state, "y")
        kernels += rounded.kernels
        launches += rounded.launches
    if u.final:
        ends = dict.fromkeys((state, "cell"), u.order[-1] * unit)
        for copy in _copied(u, state, "hy"), *([_copied(u, "cell", "cy")] if lstm else []):
            kernels += copy.kernels
            launches += [_placed(launch, ends) for launch in copy.launches]
    return Lowering(tuple(dict.fromkeys(kernels)), tuple(launches))


def _copied(u: Unrolled, reads: str, writes: str) -> Lowering:
    """One launch that copies the states of a step, rounded as the port has them."""
    size, dtype = u.batch * u.hidden, u.specs[writes].dtype
    if dtype.is_narrow:
        return conversion.cast(size, DType.F32, dtype, reads, writes)
    copied, grid = sum_of(u.machine, "recurrent_copy", 1, size)
    return Lowering((copied,), (Launch(copied.name, grid, (reads, writes)),))


def backward(u: Unrolled) -> Lowering:
    state = u.state
    steps, alone = u.kernels(BX), u.kernels(BX, product=False)
    lstm, gru = u.cell is RecurrentCell.LSTM, u.cell is RecurrentCell.GRU
    unit, gate = u.batch * u.hidden * FLOAT, u.batch * u.sums * FLOAT
    kernels: list[Kernel] = []
    launches: list[Launch] = []
    prefix, order = f"recurrent_{BX}", u.order
    rounded, recurrent, r = u.rounded(BX), u.passed, "r"
    narrow = u.batch * u.sums * u.dtype.nbytes
    if steps.by_matrix:
        r = "r_turned"
        turned = layout.turn("recurrent_turn", 1, u.sums, u.hidden, u.dtype, u.dtype, "r", r)
        kernels, launches = [*turned.kernels], [*turned.launches]
    for at in range(u.steps - 1, -1, -1):
        t, start = order[at], at == 0
        begins = start and bool(u.states)
        before, behind = order[max(at - 1, 0)], order[min(at + 1, u.steps - 1)]
        end = at == u.steps - 1
        own, final = alone if end else steps, end and u.final
        kernel = own.backward(first=end, start=start and not begins, final=final)
        passed = (recurrent, behind * gate)
        if steps.by_matrix:
            passed = (rounded[recurrent], behind * narrow)
        places = [("dy", t * unit), *([("dhy", 0)] if final else []), passed, (r, 0)]
        if u.cell.gated:
            carried = ("dcy", 0) if final and lstm else ("carry", behind * unit)
            places += [carried, ("gates", t * gate)]
        else:
            places += [(state, t * unit)]
        c, h = ("cell", before * unit), (state, before * unit)
        c, h = (("c0", 0), ("h0", 0)) if begins else (c, h)
        places += [("cell", t * unit), c] if lstm else []
        places += [("candidate", t * unit), h] if gru else []
        places += [("drec", t * gate)] if gru else []
        places += [("carry", t * unit)] if u.cell.gated else []
        places += [("dx", t * unit)] if u.skips else []
        places += [("dgates", t * gate)]
        places += [(rounded["dgates"], t * narrow)] if steps.rounds_gates else []
        places += [(rounded[recurrent], t * narrow)] if steps.by_matrix else []
        kernels.append(kernel)
        launches.append(_launch(kernel, own.grid, places))
    for port, product in u.products(BX).items():
        left = rounded.get("dgates", "dgates")
        if port == "dh0":
            left, added = rounded.get(recurrent, recurrent), "carry" if gru else None
            made = product.lower(prefix, left, "r", added, port, f"{port}_partial")
            size = narrow if rounded else gate
            first = {left: order[0] * size, "carry": order[0] * unit}
            made = made[0], tuple(_placed(launch, first) for launch in made[1])
        else:
            made = product.lower(prefix, left, "w", None, port, f"{port}_partial")
        kernels += made[0]
        launches += made[1]
    if "c0" in u.states:  # what the first step leaves for one before
        copied, grid = sum_of(u.machine, f"{prefix}_dc0", 1, u.batch * u.hidden)
        kernels.append(copied)
        launches.append(_launch(copied, grid, [("carry", order[0] * unit), ("dc0", 0)]))
    return Lowering(tuple(dict.fromkeys(kernels)), tuple(launches))


def weights(u: Unrolled) -> Lowering:
    kernels: list[Kernel] = []
    launches: list[Launch] = []
    prefix, state, recurrent = f"recurrent_{BW}", u.state, u.passed
    rounded = u.rounded(BW)
    for port, space in rounded.items():
        size = u.rows * (u.hidden if port == state else u.sums)
        made_narrow = conversion.cast(size, DType.F32, u.dtype, port, space)
        kernels += made_narrow.kernels
        launches += made_narrow.launches
    nbytes = u.dtype.nbytes if rounded else FLOAT
    h, gradients = rounded.get(state, state), rounded.get(recurrent, recurrent)
    for port, product in u.products(BW).items():
        inside = rounded.get("dgates", "dgates")
        left, right = (inside, "x") if port == "dw" else (gradients, h)
        first: dict[str, int] = {}
        if port == "dr" and u.states:
            right, first = (
                "h0",
                {gradients: u.order[0] * u.batch * u.sums * nbytes},
            )
        elif port != "dw":  # h of each step, and the gradients of the sums of the next one
            side = (h, u.hidden) if u.reverse else (gradients, u.sums)
            first = {side[0]: u.batch * side[1] * nbytes}
        added = "dr_later" if port == "dr" and product.beta else None
        made = product.lower(prefix, left, right, added, port, f"{port}_partial")
        kernels += made[0]
        launches += [_placed(launch, first) if first else launch for launch in made[1]]
    if u.bias:
        total, grid = sum_of(u.machine, f"{prefix}_bias", u.rows, u.sums)
        kernels.append(total)
        launches += [
            Launch(total.name, grid, pair) for pair in (("dgates", "dbw"), (recurrent, "dbr"))
        ]
    return Lowering(tuple(dict.fromkeys(kernels)), tuple(launches))


def _launch(kernel: Kernel, grid: tuple[int, int, int], places: list[tuple[str, int]]) -> Launch:
    """A launch with arguments at (port, bytes from its start)."""
    names, offsets = zip(*places, strict=True)
    return Launch(kernel.name, grid, names, offsets)


def _placed(launch: Launch, starts: Mapping[str, int]) -> Launch:
    """The launch with some arguments moved by so many bytes."""
    return replace(launch, offsets=tuple(starts.get(name, 0) for name in launch.args))
