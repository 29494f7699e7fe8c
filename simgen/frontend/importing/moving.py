"""Operators that only move elements: views, parts, joined tensors, other orders of axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from simgen.frontend.importing.draft import FLOATS, NodeSite
from simgen.frontend.importing.table import operator
from simgen.frontend.importing.values import Refused

MAX_PARTS = 16  # inputs of [Concat], outputs of [Slice]


@operator("Flatten", "Reshape", "Squeeze", "Unsqueeze")
def reshape(site: NodeSite) -> None:
    if site.value(0).element not in FLOATS and not site.keeps_integers:
        raise Refused("changes the extents of indices")
    site.give(site.seen(site.tensor(), site.shape(), site.result() or (1,), ""))


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise Refused(f"its axis is {axis}, of {rank}")
    return axis % rank


@operator("Concat")
def concat(site: NodeSite) -> None:
    count, shape = len(site.operator.inputs), site.result()
    axis = _axis(int(site.attribute("axis", 1)), len(shape))
    if count == 1:
        site.give(site.tensor())
        return
    tensors = [site.tensor(at) for at in range(count)]
    more = int(axis == 0)  # what is joined along the batch has another axis before it, meanwhile
    if more:
        tensors = [
            site.seen(each, site.shape(at), (1, *site.shape(at)), f"in{at}")
            for at, each in enumerate(tensors)
        ]
    part = 0
    while len(tensors) > MAX_PARTS:
        part += 1
        joined = site.layer("Concat", {"axis": axis + more}, tensors[:MAX_PARTS], f"part{part}")
        tensors = [joined, *tensors[MAX_PARTS:]]
    made = site.layer("Concat", {"axis": axis + more}, tensors, "joined" if more else "")
    site.give(site.seen(made, (1, *shape), shape) if more else made)


@operator("Split")
def split(site: NodeSite) -> None:
    shape, count = site.shape(), len(site.operator.outputs)
    axis = _axis(int(site.attribute("axis", 0)), len(shape))
    parts = [site.result(at)[axis] if name else 0 for at, name in enumerate(site.operator.outputs)]
    if count == 1:
        site.give(site.tensor())
    elif (
        axis > 0 and len(set(parts)) == 1 and count <= MAX_PARTS and parts[0] * count == shape[axis]
    ):
        made = site.layer("Slice", {"outputs": count, "axis": axis}, [site.tensor()])
        for at in range(count):
            site.give(f"{made}.y{at}", at)
    else:
        if 0 in parts:
            raise Refused("has parts without a name")
        begin = 0
        for at, extent in enumerate(parts):
            begins = tuple(begin if each == axis else 0 for each in range(len(shape)))
            site.give(_part(site, begins, site.result(at), (1,) * len(shape), f"part{at}"), at)
            begin += extent


def _part(
    site: NodeSite, begin: Sequence[int], extents: Sequence[int], step: Sequence[int], suffix: str
) -> str:
    to = tuple(0 if have == want else want for have, want in zip(site.shape(), extents))
    entries = {"mode": "crop", "begin": tuple(begin), "to": to, "step": tuple(step)}
    return site.layer("Rearrange", entries, [site.tensor()], suffix)


@operator("Slice")
def slice_(site: NodeSite) -> None:
    shape = site.shape()
    starts, ends = site.asked("starts", 1) or [], site.asked("ends", 2) or []
    axes = site.asked("axes", 3) or list(range(len(starts)))
    steps = (site.numbers(4, "steps") if site.has(4) else None) or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Refused("has starts, ends, axes and steps of different lengths")
    begin, every = [0] * len(shape), [1] * len(shape)
    for start, axis, step in zip(starts, axes, steps, strict=True):
        if step < 1:
            raise Refused(f"goes backwards, by {step}")
        at = _axis(axis, len(shape))
        begin[at] = min(max(start + shape[at] if start < 0 else start, 0), shape[at])
        every[at] = step
    extents = site.result()
    if min(extents, default=0) < 1:
        raise Refused("leaves nothing")
    site.give(site.tensor() if extents == shape else _part(site, begin, extents, every, ""))


@operator("Transpose")
def transpose(site: NodeSite) -> None:
    shape = site.shape()
    usual = list(range(len(shape)))[::-1]
    order = [_axis(int(axis), len(shape)) for axis in site.attribute("perm") or usual]
    kept = [axis for axis in order if shape[axis] > 1]
    if kept == sorted(kept):  # axes of one element have no place
        site.give(site.seen(site.tensor(), shape, site.result(), ""))
        return
    entries = {"mode": "permute", "order": tuple(order)}
    site.give(site.layer("Rearrange", entries, [site.tensor()]))


@operator("Pad")
def pad(site: NodeSite) -> None:
    shape = site.shape()
    if site.attribute("mode", "constant") != "constant":
        raise Refused(f"its mode is {site.attribute('mode')!r}, and layers pad with a constant")
    pads = site.asked("pads", 1) or site.attribute("paddings") or []
    value = float(site.attribute("value", 0.0))
    if site.operator.version >= 11 and site.has(2):
        value = float(site.known(2, "value").array().reshape(-1)[0])
    axes = site.numbers(3, "axes") if site.has(3) else list(range(len(shape)))
    if len(pads) != 2 * len(axes) or min(pads, default=0) < 0:
        raise Refused(f"its pads are {pads}")
    before, behind = [0] * len(shape), [0] * len(shape)
    for at, axis in enumerate(axes):
        before[_axis(axis, len(shape))] = pads[at]
        behind[_axis(axis, len(shape))] = pads[len(axes) + at]
    if not any((*before, *behind)):
        site.give(site.tensor())
        return
    entries = {"mode": "pad", "before": tuple(before), "behind": tuple(behind), "value": value}
    site.give(site.layer("Rearrange", entries, [site.tensor()]))


@operator("Expand")
def expand(site: NodeSite) -> None:
    from simgen.frontend.importing.broadcasting import fitted

    site.give(fitted(site, 0, site.result()))


@operator("DepthToSpace", "SpaceToDepth")
def depth_to_space(site: NodeSite) -> None:
    (n, c, h, w), side = site.shape(), int(site.attribute("blocksize"))
    turned_order = site.attribute("mode", "DCR") != "DCR"
    if site.operator.kind == "SpaceToDepth":
        cut: tuple[int, ...] = (n, c, h // side, side, w // side, side)
        order: tuple[int, ...] = (0, 1, 3, 5, 2, 4) if turned_order else (0, 3, 5, 1, 2, 4)
    elif not turned_order:
        cut, order = (n, side, side, c // side**2, h, w), (0, 3, 4, 1, 5, 2)
    else:
        cut, order = (n, c // side**2, side, side, h, w), (0, 1, 4, 2, 5, 3)
    seen = site.seen(site.tensor(), site.shape(), cut, "cut")
    turned = site.layer("Rearrange", {"mode": "permute", "order": order}, [seen])
    after = tuple(cut[axis] for axis in order)
    site.give(site.seen(turned, after, site.result()))


@operator("ReduceMean")
def reduce_mean(site: NodeSite) -> None:
    shape, asked = site.shape(), site.asked("axes", 1)
    if not asked:
        if site.attribute("noop_with_empty_axes", 0):
            site.give(site.tensor())
            return
        asked = list(range(len(shape)))
    axes = sorted({_axis(axis, len(shape)) for axis in asked})
    tensor, now = site.tensor(), shape
    runs: list[list[int]] = []
    for axis in axes:
        if runs and runs[-1][-1] == axis - 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    for number, run in enumerate(runs):  # neighbours are one axis, behind one that is not reduced
        rows, count = prod(now[: run[0]]), prod(now[run[0] : run[-1] + 1])
        rest = prod(now[run[-1] + 1 :])
        seen = site.seen(tensor, now, (rows, count, rest), f"rows{number}")
        last = number == len(runs) - 1
        tensor = site.layer("ReduceMean", {"axis": 1}, [seen], "" if last else f"mean{number}")
        now = tuple(1 if at in run else extent for at, extent in enumerate(now))
        seen_as = (site.result() or (1,)) if last else now
        tensor = site.seen(tensor, (rows, 1, rest), seen_as, f"mean{number}")
    site.give(tensor)
