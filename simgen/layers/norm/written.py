"""What the kernels of normalisations write: elements, and what there is one of for each feature."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from simgen.layers.written import Places, Writes, cut_by, dense, partial_sums, writes, writes_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen.layers.written import Cuts, Values


@writes("batch_norm_forward")
def _batch_norm(c: Values, block: int) -> Iterator[Writes]:
    per_feature = 2 + 2 * c["with_statistics"]
    yield _elements(c, -1 - per_feature)
    yield from (_features(c, at) for at in range(-per_feature, 0))


@writes("batch_norm_backward")
def _batch_norm_backward(c: Values, block: int) -> list[Writes]:
    return [_elements(c, -3), _features(c, -2), _features(c, -1)]


@writes("batch_norm_moments", "batch_norm_sums")
def _chunks(c: Values, block: int) -> list[Writes]:
    tile = c["slices"] * c["held"]  # elements of a chunk
    chunks = cut_by(partial_sums(c["elements"], tile, c["features"]))
    return [_features(c, -2, chunks), _features(c, -1, chunks)]


@writes("batch_norm_moments_end")
def _moments_end(c: Values, block: int) -> Iterator[Writes]:
    yield from (_features(c, at) for at in range(-2 - 2 * c["with_update"], 0))


@writes("batch_norm_sums_end")
def _sums_end(c: Values, block: int) -> list[Writes]:
    return [_features(c, -2), _features(c, -1)]


@writes("batch_norm_apply", "batch_norm_apply_backward", "batch_norm_apply_frozen")
def _apply(c: Values, block: int) -> list[Writes]:
    return [dense(-1, c["size"], c["each"], block)]


def _features(c: Values, argument: int, chunks: Cuts = ()) -> Writes:
    """One place for each feature, or for each chunk of one."""
    lanes = cut_by(Places(c["features"], 1, c["lanes"]))
    return Writes(argument, lanes + chunks, items=c["lanes"] * c["slices"])


def _elements(c: Values, argument: int) -> Writes:
    """All elements of the features."""
    features, inner, elements = c["features"], c["inner"], c["elements"]
    own = Places(elements // inner, features * inner), Places(inner)
    x = cut_by(Places(features, inner, c["lanes"])) + cut_by(*own, group=c["slices"] * c["held"])
    return Writes(argument, x, items=c["lanes"] * c["slices"])


@writes("lrn_forward", "lrn_backward")
def _lrn(c: Values, block: int) -> list[Writes]:
    return [_lines(c, block, -1)]


@writes("lrn_ratio")
def _ratio(c: Values, block: int) -> list[Writes]:
    return [_lines(c, block, -2), _lines(c, block, -1)]


@writes("lrn_gradient")
def _gradient(c: Values, block: int) -> list[Writes]:
    return [_lines(c, block, -1, again=True)]


def _lines(c: Values, block: int, argument: int, *, again: bool = False) -> Writes:
    axis, inner = c["axis"], c["inner"]
    x = cut_by(Places(c["outer"], axis * inner), Places(inner, 1, c["vector"]), group=block)
    return Writes(argument, x, cut_by(Places(axis, inner, c["length"])), again=again)


@writes("layer_norm_forward", "layer_norm_backward")
def _rows(c: Values, block: int) -> Iterator[Writes]:
    rows, axis, group = c["rows"], c["axis"], c["group_rows"]
    items = group * c["slices"]
    forward, whole = c["epsilon"] > 0, c["with_result"]
    if whole:
        x = cut_by(Places(rows, axis), group=group)
        yield Writes(-3 if forward else -1, x, inside=(Places(axis),), items=items)
    for at in (-2, -1) if forward or not whole else ():
        yield Writes(at, cut_by(Places(rows), group=group), items=items)


def _own_rows(c: Values, argument: int) -> Writes:
    group = c["group_rows"]
    x = cut_by(Places(c["rows"], c["axis"]), group=group)
    return Writes(argument, x, inside=(Places(c["axis"]),), items=group * c["slices"])


@writes("rms_norm", "rms_norm_gated", "rms_norm_heads", "l2_norm")
def _one_of_rows(c: Values, block: int) -> list[Writes]:
    return [_own_rows(c, -1)]


@writes("rms_norm_add")
def _two_of_rows(c: Values, block: int) -> list[Writes]:
    return [_own_rows(c, -2), _own_rows(c, -1)]


@writes("rms_norm_quantised")
def _rows_and_scales(c: Values, block: int) -> list[Writes]:
    group = c["group_rows"]
    scales = Writes(-2, cut_by(Places(c["rows"]), group=group), items=group * c["slices"])
    return [_own_rows(c, -3), scales, _own_rows(c, -1)]


@writes("rms_norm_backward")
def _rows_or_roots(c: Values, block: int) -> list[Writes]:
    if c["with_result"]:
        return [_own_rows(c, -1)]
    group = c["group_rows"]
    return [Writes(-1, cut_by(Places(c["rows"]), group=group), items=group * c["slices"])]


writes_all("layer_norm_apply", "layer_norm_apply_backward")


@writes("layer_norm_sums")
def _columns(c: Values, block: int) -> Iterator[Writes]:
    chunks = cut_by(partial_sums(c["rows"], c["slices"] * c["held"], c["axis"]))
    for at in (-2, -1) if c["centred"] else (-1,):
        x = cut_by(Places(c["axis"], 1, c["lanes"] * c["vector"])) + chunks
        yield Writes(at, x, items=c["lanes"] * c["slices"])


@writes("layer_norm_sums_end")
def _columns_end(c: Values, block: int) -> list[Writes]:
    each = c["lanes"] * c["vector"]
    groups = ceil(c["axis"] / each)
    items = c["lanes"] * c["slices"]
    x = cut_by(Places(c["axis"], 1, each))
    if not c["centred"]:
        return [Writes(-1, x, items=items)]
    return [Writes(-2, x, items=items), Writes(-1, x, first=groups, items=items)]
