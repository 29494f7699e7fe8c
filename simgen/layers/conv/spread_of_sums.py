"""The spread of honest errors of convolutions that are plain sums: direct, implicit GEMM, im2col.

Kernels add products in the order of `conv_reference`: input channels and then taps, or samples and
then pixels. So what sums are at the ends of blocks is known, and simgen/ground/numerics/spread.py
takes the rest.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from simgen.ground.arrays import np
from simgen.ground.numerics.spread import Walk, order, stages
from simgen.layers.conv import reference

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.conv.geometry import Geometry, Split

BLOCK = 128  # products between sums that are computed, about
BLOCKS = 64  # maximum number of blocks


def result(image: Array, filters: Array, g: Geometry, split: Split) -> tuple[Array, Array]:
    """For each element of the result, (root of the sum of all s_j^2, sum of squared products)."""
    matrices = reference.matrices(filters, g)
    squared = np.square(matrices)
    terms = matrices.shape[2]
    block = min(split.chunk, max(BLOCK, ceil(terms / BLOCKS)))
    roots, squares = [], []
    for one in image:
        columns = reference.columns(one, g)
        walk = Walk((g.groups, g.group_filters, g.pixels))
        for first in range(0, terms, split.chunk):
            last = min(first + split.chunk, terms)
            for start in range(first, last, block):
                end = min(start + block, last)
                walk.add(end - start, matrices[:, :, start:end] @ columns[:, start:end])
            walk.end()
        squares.append(squared @ np.square(columns))
        roots.append(walk.root(order(block), squares[-1]))
    shape = len(image), g.filters, *g.result
    return np.stack(roots).reshape(shape), np.stack(squares).reshape(shape)


def image_gradient(source: Array, filters: Array, g: Geometry, split: Split) -> tuple[Array, Array]:
    """The same of the gradient of the image, whose sums go over filters and then taps."""
    squares = reference.image_gradient(np.square(source), np.square(filters), g)
    if split.splits > 1:  # chunks end anywhere among the taps
        return (stages(split.chunk, split.splits) + 1) * np.sqrt(squares), squares
    n = len(source)
    each = max(1, ceil(BLOCK / g.taps), ceil(g.group_filters / BLOCKS))
    dy = source.reshape(n, g.groups, g.group_filters, *g.result)
    w = filters.reshape(g.groups, g.group_filters, g.group_channels, *g.kernel)
    walk = Walk(squares.shape)
    for start in range(0, g.group_filters, each):
        part = slice(start, start + each)
        some = w[:, part].reshape(-1, g.group_channels, *g.kernel)
        narrow = replace(g, filters=len(some))
        given = dy[:, :, part].reshape(n, len(some), *g.result)
        walk.add(len(some) // g.groups * g.taps, reference.image_gradient(given, some, narrow))
    walk.end()
    return walk.root(order(each * g.taps), squares), squares


def in_any_order(
    source: Array, filters: Array, g: Geometry, split: Split, of_result: bool
) -> tuple[Array, Array]:
    """The same of a result, or of the gradient of an image, in whatever order their sums go."""
    of = reference.result if of_result else reference.image_gradient
    squares = of(np.square(source), np.square(filters), g)
    return (stages(split.chunk, split.splits) + 1) * np.sqrt(squares), squares


def filter_gradient(
    image: Array, gradient: Array, g: Geometry, ends: list[int], inside: tuple[int, ...]
) -> tuple[Array, Array]:
    """The same of the gradient of the filters.

    `ends` are the pixels, counted through all samples, that chunks end before; `inside` the stages
    of the sum of one, or nothing where it goes pixel by pixel.
    """
    total = len(image) * g.pixels
    block = total if inside else max(BLOCK, ceil(total / len(ends) / BLOCKS))
    shape = g.groups, g.group_filters, g.group_channels * g.taps
    walk, squares = Walk(shape), np.zeros(shape)
    chunks, at = iter([*ends, total + 1]), 0
    end = next(chunks)
    for one, dy in zip(image, gradient, strict=True):
        columns = reference.columns(one, g).transpose(0, 2, 1)
        rows = dy.reshape(g.groups, g.group_filters, g.pixels)
        squares += np.square(rows) @ np.square(columns)
        first = 0
        while first < g.pixels:
            last = min(g.pixels, first + block, end - at)
            walk.add(0 if inside else last - first, rows[:, :, first:last] @ columns[:, first:last])
            first = last
            if at + last == end:
                walk.end()
                end = next(chunks)
        at += g.pixels
    root = walk.root(stages(*inside) if inside else order(block), squares)
    whole = g.filters, g.group_channels, *g.kernel
    turned = [reference.turned(each.reshape(whole), g) for each in (root, squares)]
    return turned[0], turned[1]
