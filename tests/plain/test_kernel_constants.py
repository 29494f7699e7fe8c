"""Kernels have the constants that their templates read, and no others.

A constant that nobody reads hides which of two kernels' texts differ, and why.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import jinja2
from jinja2 import meta
from layer_variants import SHAPES_OF, Variant, accepts, each_pass, inputs_of

from simgen import resources
from simgen.compile import kernel_source, render

if TYPE_CHECKING:
    from simgen.ir import Pass

SHAPES = ((2, 3, 5, 7), (2, 300, 1, 1))
ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(resources.folder("templates")), autoescape=False
)
ENVIRONMENT.filters.update(c_float=render.c_float)


@cache
def read_by(template: str) -> frozenset[str]:
    """Names that a template takes from outside, with those of what it includes and imports."""
    if template.endswith(kernel_source.SUFFIX):
        return kernel_source.constants(template.removeprefix("kernels/"))
    assert ENVIRONMENT.loader
    parsed = ENVIRONMENT.parse(ENVIRONMENT.loader.get_source(ENVIRONMENT, template)[0])
    names = set(meta.find_undeclared_variables(parsed))
    for other in meta.find_referenced_templates(parsed):
        assert other is not None, "a template's name must be known"
        names |= read_by(other)
    return frozenset(names)


@each_pass
def test_every_constant_is_read(variant: Variant, direction: Pass) -> None:
    for shape in SHAPES_OF.get(variant.kind, SHAPES):
        if not accepts(variant.layer, shape):
            continue
        for kernel in variant.layer.lower(inputs_of(variant.layer, shape), direction).kernels:
            names = [name for name, _ in kernel.constants]
            assert len(set(names)) == len(names)
            assert set(names) <= read_by(f"kernels/{kernel.template}"), kernel.name
