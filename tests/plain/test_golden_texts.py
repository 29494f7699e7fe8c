"""Which kernels a change of templates or layers changes: digests of their texts (golden.py)."""

from __future__ import annotations

import golden


def test_the_texts_of_kernels_are_those_that_were_accepted() -> None:
    """Was it meant? python tests/golden.py accept texts"""
    _, kept = golden.read(golden.TEXTS)
    assert not golden.differences(kept, golden.texts()), "python tests/golden.py accept texts"


def test_what_is_kept_has_every_template() -> None:
    from simgen import resources

    templates = {path.name for path in resources.folder("templates").glob("kernels/*.hip")}
    shown = {kernel.template for kernel in golden.chosen().values()}
    assert shown == templates


def test_differences_are_told_by_name() -> None:
    before = {"a": "1", "b": "2", "c": "3"}
    now = {"a": "1", "b": "9", "d": "4"}
    assert golden.differences(before, now) == ["changed: b", "gone: c", "new: d"]
    assert golden.differences(before, before) == []
