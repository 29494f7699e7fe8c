"""Every launch covers what its layer writes: each element of each port once, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from covering import covering
from launch_geometry import misfits, problems_of
from layer_variants import Variant, accepts, inputs_of, lowered, shapes_of, variants

from simgen.ground.ir import Kernel, Launch, Pass
from simgen.layers import LAYERS
from simgen.layers.written import Places, Writes, cut_by, partial_sums, written
from simgen.layers.written_elements import elements

if TYPE_CHECKING:
    from simgen.layers.base import Lowering

# Ones, rests modulo vectors and work-groups, rows that a work-group cannot hold, strided rows.
SHAPES = (
    (1, 1, 1, 1), (5, 13, 1, 1), (67, 4, 1, 1), (1, 1000, 1, 1), (2, 4099, 1, 1), (2, 3, 5, 7),
    (1, 17, 8, 8), (2, 300, 1, 3), (3, 37, 11, 11), (301, 6, 1, 1), (2, 2, 48, 48),
)  # fmt: skip
# Where numbers of pieces lie beside whole work-groups: no other test needs such problems.
FURTHER: dict[str, tuple[tuple[dict[str, str], tuple[int, ...]], ...]] = {
    "conv": (
        ({}, (3, 2, 37, 37)),
        ({"num_output": "65"}, (2, 3, 5, 7)),
        ({"num_output": "75", "group": "3"}, (2, 3, 5, 7)),
    ),
}
PASSES = [(kind, direction) for kind in lowered() for direction in LAYERS[kind].passes]


def chosen(kind: str, direction: Pass) -> list[tuple[Variant, tuple[int, ...], Lowering]]:
    """What covers the constants of the layer's kernels, and each shape; and what is FURTHER."""
    found = {
        (variant, shape): variant.layer.lower(inputs_of(variant.layer, shape), direction)
        for variant in variants(kind)
        for shape in shapes_of(kind, SHAPES)
        if direction in variant.layer.able and accepts(variant.layer, shape)
    }
    names = {str(key): key for key in found}
    kept = covering(
        {name: found[key].kernels for name, key in names.items()},
        pairs=False,
        labels={name: [("shape", shape)] for name, (_, shape) in names.items()},
    )
    usual = dict(variants(kind)[0].parameters)
    further = [
        (Variant(kind, tuple((usual | changed).items())), shape)
        for changed, shape in FURTHER.get(kind, ())
    ]
    return [(*names[name], found[names[name]]) for name in kept] + [
        (variant, shape, variant.layer.lower(inputs_of(variant.layer, shape), direction))
        for variant, shape in further
    ]


@pytest.mark.parametrize(("kind", "direction"), PASSES)
def test_each_element_that_a_pass_writes_is_written_once(kind: str, direction: Pass) -> None:
    wrong = []
    for variant, shape, lowering in chosen(kind, direction):
        ports = variant.layer.ports(inputs_of(variant.layer, shape), direction)
        to = [port for port in ports if port.fill is None]
        wrong += [f"{variant} {shape}: {each}" for each in problems_of(lowering, to)]
    assert not wrong, "\n".join(wrong[:20])


# ---- That it would be seen ----

PRODUCT = Writes(
    2,
    x=cut_by(Places(10, 1, 4)),
    y=cut_by(Places(5, 10, 2)),
    z=cut_by(partial_sums(100, 32, 50)),
    items=8,
)


def test_work_groups_of_a_grid_write_a_corner() -> None:
    assert PRODUCT.grid == (3, 3, 4)
    assert sorted(elements(PRODUCT)) == list(range(4 * 50))
    one = elements(PRODUCT, (1, 1, 1))
    assert sorted(one) == [0, 1, 2, 3, 10, 11, 12, 13]
    edge = sorted(set(elements(PRODUCT, (3, 3, 1))) - set(elements(PRODUCT, (2, 3, 1))))
    assert edge == [row * 10 + column for row in range(5) for column in (8, 9)]


def test_pieces_are_counted_over_all_places_of_a_cut() -> None:
    rows = Writes(0, x=cut_by(Places(3, 10), Places(10, 1, 4), group=2))
    assert rows.grid == (5, 1, 1)  # 3 rows of 3 pieces, the last of 2 elements
    assert sorted(elements(rows)) == list(range(30))
    assert sorted(elements(rows, (2, 1, 1))) == list(range(14))


@pytest.mark.parametrize(
    ("grid", "block"), [((2, 3, 4), 8), ((3, 4, 4), 8), ((3, 3, 3), 8), ((3, 3, 4), 16)]
)
def test_another_grid_or_another_work_group_is_seen(grid: tuple[int, int, int], block: int) -> None:
    assert not misfits(Launch("k", (3, 3, 4), ("a", "b", "y")), [PRODUCT], 8)
    assert misfits(Launch("k", grid, ("a", "b", "y")), [PRODUCT], block)


def test_parts_of_a_grid_follow_each_other() -> None:
    parts = [
        Writes(0, x=cut_by(Places(8), group=4)),
        Writes(1, x=cut_by(Places(4), group=4), first=2),
    ]
    assert not misfits(Launch("k", (3, 1, 1), ("a", "b")), parts, 64)
    moved = [parts[0], replace(parts[1], first=1)]
    assert misfits(Launch("k", (3, 1, 1), ("a", "b")), moved, 64)


def test_a_kernel_without_a_declaration_is_told() -> None:
    with pytest.raises(RuntimeError, match=r"^new\.hip: declare what it writes"):
        written(Kernel("new", "new.hip", 64))
