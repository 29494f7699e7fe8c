"""The covering sets that contract tests run over show what the whole set shows."""

from __future__ import annotations

import itertools

from covering import covering

from simgen.ground.ir import Kernel

MODES, VECTORS, SIZES = ("max", "mean"), (1, 4), (5, 6, 7, 8, 300)
FOUND = {
    f"{mode}{vector}x{size}": (
        Kernel("k", "k.hip", 64, (("mode", mode), ("vector", vector), ("size", size))),
    )
    for mode, vector, size in itertools.product(MODES, VECTORS, SIZES)
}


def constants(names: list[str]) -> list[dict[str, object]]:
    return [dict(kernel.constants) for name in names for kernel in FOUND[name]]


def test_every_value_is_in_the_set_and_few_kernels_are() -> None:
    names = covering(FOUND, pairs=False)
    assert len(names) < len(FOUND) / 3
    kept = constants(names)
    assert {k["mode"] for k in kept} == set(MODES)
    assert {k["vector"] for k in kept} == set(VECTORS)
    assert {k["size"] % 4 for k in kept} == {0, 1, 2, 3}
    assert {k["size"].bit_length() for k in kept} == {3, 4, 9}


def test_sizes_may_be_left_out() -> None:
    names = covering(FOUND, pairs=False, sizes=False)
    kept = constants(names)
    assert {k["mode"] for k in kept} == set(MODES)
    assert {k["vector"] for k in kept} == set(VECTORS)
    assert len(names) < len(covering(FOUND, pairs=False))


def test_every_two_choices_are_together_in_the_set() -> None:
    kept = constants(covering(FOUND, pairs=True))
    assert len(kept) < len(FOUND) / 1.5
    assert {(k["mode"], k["vector"]) for k in kept} == set(itertools.product(MODES, VECTORS))
    assert {(k["mode"], k["size"] % 4) for k in kept} == set(itertools.product(MODES, range(4)))
    assert {(k["vector"], k["size"] % 4) for k in kept} == set(itertools.product(VECTORS, range(4)))


def test_templates_are_covered_each_by_itself() -> None:
    one = Kernel("one", "one.hip", 64, (("n", 1),))
    other = Kernel("other", "other.hip", 64, (("n", 1),))
    found = {"both": (one, other), "one": (one,), "other": (other,)}
    assert covering(found, pairs=True) == ["both"]
    assert covering({"one": (one,), "other": (other,)}, pairs=True) == ["one", "other"]


def test_labels_are_kept_in_the_order_of_all() -> None:
    same = {name: (Kernel(name, "k.hip", 64),) for name in ("c", "b", "a")}
    assert len(covering(same, pairs=True)) == 1
    labels = {name: [("shape", name)] for name in same}
    assert covering(same, pairs=True, labels=labels) == ["c", "b", "a"]
