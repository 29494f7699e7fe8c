"""What is right of ids: each lane's own, and nothing that is swapped, shifted or repeated."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from simgen_examine.conform import page, values
from simgen_examine.conform.ids import SHAPES, ids
from simgen_examine.conform.judging import Found, judged


def stored(shape, wrong=lambda item, group: (item, group)):
    """What kernels leave whose ids are `wrong` of the right ones: each lane stores where its ids
    say that it is."""
    words = np.full((7, values.TUPLES), 0xDEADBEEF, np.uint32)
    a, b, _ = shape.group
    x, y, _ = shape.grid
    for group in np.ndindex(shape.grid[::-1]):
        for at in range(prod(shape.group)):
            item = (at % a, at // a % b, at // (a * b))
            told, of = wrong(item, group[::-1])
            number = of[0] + x * (of[1] + y * of[2])
            place = number * prod(shape.group) + told[0] + a * (told[1] + b * told[2])
            words[:, min(place, values.TUPLES - 1)] = (at % values.LANES, *told, *of)
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


def test_a_reproducer_says_where_the_ids_are():
    form = next(each for each in ids() if each.shape.ids == "yz")
    seen = judged(form, stored(form.shape, lambda item, group: ((item[0], 0, 0), group)))
    lines = page.reproducer(seen)
    assert len(lines) <= page.MOST_LINES
    assert [line for line in lines if line.startswith("v_mov_b32")] == [
        "v_mov_b32 v9, s2  ; y of the work-group", "v_mov_b32 v10, s3  ; z of the work-group",
    ]  # fmt: skip
    assert lines[-1].startswith("; expected 0x")
    assert not any(each.sources for each in seen.examples)


def test_shapes_cover_what_kernels_use():
    assert max(prod(each.group) * prod(each.grid) for each in SHAPES) <= values.TUPLES
    assert {each.ids for each in SHAPES} == {"x", "y", "z", "xy", "xz", "yz", "xyz"}
    assert all(each.grid[n] == 1 for each in SHAPES for n, axis in enumerate("xyz")
               if axis not in each.ids)  # fmt: skip
    assert {prod(each.group) % values.LANES == 0 for each in SHAPES} == {True, False}
    assert {prod(each.group) > values.LANES for each in SHAPES} == {True, False}
