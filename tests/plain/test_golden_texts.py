"""Which kernels a change of templates or layers changes: digests of their texts (golden.py)."""

from __future__ import annotations

import golden

from simgen.ground import resources


def test_the_texts_of_kernels_are_those_that_were_accepted_and_of_every_template() -> None:
    """Was it meant? python tests/golden.py accept texts"""
    _, kept = golden.read(golden.TEXTS)
    assert not golden.differences(kept, golden.texts()), "python tests/golden.py accept texts"
    templates = {path.name for path in resources.folder("templates").glob("kernels/*.hip")}
    assert {kernel.template for kernel in golden.chosen().values()} == templates


def test_differences_are_told_by_name() -> None:
    before = {"a": "1", "b": "2", "c": "3"}
    now = {"a": "1", "b": "9", "d": "4"}
    assert golden.differences(before, now) == ["changed: b", "gone: c", "new: d"]
    assert golden.differences(before, before) == []
