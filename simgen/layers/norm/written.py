"""What the kernels of normalisations write: elements, and what there is one of for each feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.layers.written import Places, Writes, cut, dense, partial_sums, writes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.layers.written import Values


@writes("batch_norm")
def _batch_norm(c: Values, block: int) -> Iterator[Writes]:
    features, inner, elements = c["features"], c["inner"], c["elements"]
    tile = c["slices"] * c["held"]  # elements of a chunk
    chunks = cut(partial_sums(elements, tile, features))
    lanes = Places(features, inner, c["lanes"])
    own = Places(elements // inner, features * inner), Places(inner)
    for at, name in enumerate(c["writes"].split(), len(c["reads"].split())):
        if name in ("y", "dx"):
            x = cut(lanes) + cut(*own, group=tile)
        else:
            x = cut(Places(features, 1, c["lanes"])) + chunks
        yield Writes(at, x, items=c["lanes"] * c["slices"])


@writes("batch_norm_finish")
def _finish(c: Values, block: int) -> Iterator[Writes]:
    first, count = len(c["reads"].split()), len(c["writes"].split())
    for at in range(first, first + count):
        x = cut(Places(c["features"], 1, c["lanes"]))
        yield Writes(at, x, items=c["lanes"] * c["slices"])


@writes("batch_norm_apply")
def _apply(c: Values, block: int) -> list[Writes]:
    return [dense(-1, c["size"], c["each"], block)]


@writes("lrn")
def _lrn(c: Values, block: int) -> list[Writes]:
    axis, inner = c["axis"], c["inner"]
    x = cut(Places(c["outer"], axis * inner), Places(inner, 1, c["vector"]), group=block)
    y = cut(Places(axis, inner, c["length"]))
    both = (-2, -1) if c["part"] == "ratio" else (-1,)
    return [Writes(at, x, y, again=c["part"] == "gradient") for at in both]


@writes("layer_norm_forward", "layer_norm_backward")
def _rows(c: Values, block: int) -> Iterator[Writes]:
    rows, axis, group = c["rows"], c["axis"], c["group_rows"]
    items = group * c["slices"]
    forward = c["epsilon"] > 0
    whole = cut(Places(rows, axis), group=group)
    yield Writes(-3 if forward else -1, whole, inside=(Places(axis),), items=items)
    for at in (-2, -1) if forward else ():
        yield Writes(at, cut(Places(rows), group=group), items=items)


@writes("layer_norm_sums")
def _columns(c: Values, block: int) -> Iterator[Writes]:
    chunks = cut(partial_sums(c["rows"], c["slices"] * c["held"], c["axis"]))
    for at in (-2, -1):
        x = cut(Places(c["axis"], 1, c["lanes"])) + chunks
        yield Writes(at, x, items=c["lanes"] * c["slices"])
