"""What is right of ids: each lane's own, and nothing that is swapped, shifted or repeated."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from simgen.conform import values
from simgen.conform.ids import SHAPES, ids
from simgen.conform.judging import Found, judged


def stored(shape, wrong=lambda item, group: (item, group)):
    """What kernels leave whose ids are `wrong` of the right ones: each lane stores where its ids
    say that it is."""
    words = np.full((7, values.TUPLES), 0xDEADBEEF, np.uint32)
    a, b, _ = shape.group
    x, y, _ = shape.grid
    for group in np.ndindex(shape.grid[::-1]):
        for at in range(prod(shape.group)):
            item = (at % a, at // a % b, at // (a * b))
            ids, of = wrong(item, group[::-1])
            number = of[0] + x * (of[1] + y * of[2])
            place = number * prod(shape.group) + ids[0] + a * (ids[1] + b * ids[2])
            words[:, min(place, values.TUPLES - 1)] = (at % values.LANES, *ids, *of)
    return words


@pytest.mark.parametrize("form", list(ids()), ids=lambda form: form.text)
def test_right_is_what_a_gpu_leaves(form):
    assert judged(form, stored(form.shape)).found is Found.RIGHT


@pytest.mark.parametrize("wrong", [
    lambda item, group: (item[1::-1] + item[2:], group),  # x and y swapped
    lambda item, group: ((item[0], 0, 0), group),  # the first dimension alone
    lambda item, group: (item, group[1::-1] + group[2:]),
    lambda item, group: (item, (0, 0, 0)),
    lambda item, group: ((item[0] ^ 1, *item[1:]), group),  # of the neighbour
    lambda item, group: (item, (group[0], *group[:0:-1])),
])  # fmt: skip
def test_faults_are_seen_in_some_shape(wrong):
    found = [judged(form, stored(form.shape, wrong)).found for form in ids()]
    assert Found.WRONG in found


def test_shapes_cover_what_kernels_use():
    assert max(prod(each.group) * prod(each.grid) for each in SHAPES) <= values.TUPLES
    assert {each.ids for each in SHAPES} == {"x", "y", "z", "xy", "xz", "yz", "xyz"}
    assert all(each.grid[n] == 1 for each in SHAPES for n, axis in enumerate("xyz")
               if axis not in each.ids)  # fmt: skip
    assert {prod(each.group) % values.LANES == 0 for each in SHAPES} == {True, False}
    assert {prod(each.group) > values.LANES for each in SHAPES} == {True, False}
