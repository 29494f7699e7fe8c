"""Operators of rows: softmax, layer normalisation, tables of words."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from simgen.frontend.importing.masks import MaskedRows
from simgen.frontend.importing.table import operator
from simgen.frontend.importing.values import Operator, Refused, Values
from simgen.ground.arrays import np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.frontend.importing.draft import NodeSite

MOVES = ("Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Expand", "Transpose", "Slice",
         "Split", "Concat", "Gather")  # fmt: skip


@operator("Softmax", "LogSoftmax")
def softmax(site: NodeSite) -> None:
    """Until operator set 13, all axes from `axis` on are one row."""
    shape, joined = site.shape(), site.operator.version < 13
    axis = int(site.attribute("axis", 1 if joined else -1))
    axis = axis + len(shape) if axis < 0 else axis
    if not 0 <= axis < len(shape):
        raise Refused(f"its axis is {axis}, of {len(shape)}")
    entries: dict[str, object] = {
        "softmax_algo": "log" if site.operator.kind == "LogSoftmax" else "accurate"
    }
    if isinstance(site.operator.fact, MaskedRows):
        entries["softmax_algo"] = "masked"
    whole, at = shape, axis
    if joined and (axis == 0 or axis < len(shape) - 1):
        whole, at = (prod(shape[:axis]), prod(shape[axis:])), 1
    elif axis == 0:
        whole, at = (1, *shape), 1
    entries |= {"softmax_axis": at} if at != 1 else {}
    seen = site.seen(site.tensor(), shape, whole, "rows")
    site.give(site.seen(site.layer("Softmax", entries, [seen]), whole, shape))


@operator("LayerNormalization", "RMSNormalization")
def layer_norm(site: NodeSite) -> None:
    site.refuse_other_outputs()
    by_mean = site.operator.kind == "LayerNormalization"
    shape = site.shape()
    axis = int(site.attribute("axis", -1)) % len(shape)
    row = shape[axis:]
    whole = shape if axis else (1, *shape)
    seen = site.seen(site.tensor(), shape, whole, "rows")
    # As the decimal that it is meant to be: float32's 1e-12 is less than what a layer takes.
    epsilon = float(str(np.float32(site.attribute("epsilon", 1e-5))))
    entries = {"axis": axis or 1, "epsilon": epsilon}
    made = site.layer("LayerNorm" if by_mean else "RMSNorm", entries, [seen])
    w = site.known(1, "scale")
    site.parameter(made, "gamma", row, lambda: np.broadcast_to(w.array(), row), w)
    if by_mean and site.has(2):
        b = site.known(2, "bias")
        site.parameter(made, "beta", row, lambda: np.broadcast_to(b.array(), row), b)
    elif by_mean:
        site.parameter(made, "beta", row, lambda: np.zeros(row, np.float32))
    site.give(site.seen(made, whole, shape))


def codes(operators: Sequence[Operator], values: Values) -> frozenset[str]:
    """Rows of known tables that are factors of what is computed, as cosines of places are: of an
    ONNX file, these tables are none that training has made."""
    found, seen = set(), {}  # value -> the rows that it is a part of, or a view
    for each in operators:
        given = {name: values.known.get(name) for name in each.inputs if name}
        computed = [name for name, value in given.items() if value and not value.is_known]
        if each.kind == "Gather" and len(computed) == 1 and computed == [each.inputs[1]]:
            seen[each.outputs[0]] = each.outputs[0]
        elif each.kind in MOVES and computed and computed[0] in seen:
            seen |= dict.fromkeys(each.outputs, seen[computed[0]])
        elif each.kind == "Mul" and len(computed) == 2:
            found |= {seen[name] for name in computed if name in seen}
    return frozenset(found)


@operator("Gather")
def gather(site: NodeSite) -> None:
    """Rows of a table that the words of an input name; or one part of a tensor."""
    axis = int(site.attribute("axis", 0))
    table, words = site.value(0), site.value(1)
    if table.is_known and not words.is_known and axis == 0 and len(table.shape) == 2:
        vocabulary, features = table.shape
        entries = {"vocabulary": vocabulary, "features": features}
        made = site.layer("Embedding", entries, [site.indices(1)])
        is_code = (
            site.draft.values.declared is None and site.operator.outputs[0] in site.draft.codes
        )
        site.parameter(made, "w", table.shape, table.array, *(() if is_code else (table,)))
        site.give(made)
        return
    if words.is_known and words.size == 1 and not table.is_known:
        at, shape = int(words.array().reshape(-1)[0]), site.shape()
        axis %= len(shape)
        begin = tuple((at % shape[axis]) * (each == axis) for each in range(len(shape)))
        to = tuple(1 if each == axis else 0 for each in range(len(shape)))
        crop = {"mode": "crop", "begin": begin, "to": to}
        part = site.layer("Rearrange", crop, [site.tensor()])
        one = tuple(1 if each == axis else extent for each, extent in enumerate(shape))
        site.give(site.seen(part, one, site.result() or (1,)))
        return
    raise Refused("takes more than rows of a table that the model knows, or one part of a tensor")
