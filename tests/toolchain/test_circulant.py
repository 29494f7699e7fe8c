"""Block-circulant layers on the host: mistakes in transforms and in products are seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from layer_bundles import Problem, make, plan
from layer_variants import Variant

from simgen.ground.ir import Pass
from simgen.kernels import render
from simgen.targets.host import Host

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

MISTAKES = {
    "a root of one that is conjugate": ("fused(y, C, x * -S)", "fused(y, C, x * S)"),
    "imaginary parts of filters with the wrong sign": ("= -im[f];", "= im[f];"),
    "a frequency that is left out": ("im[HALF] = 0.0f;", "im[HALF] = re[HALF] = 0.0f;"),
    "roots of half of the bits": (
        "static_cast<float>(cosine(K, N))",
        "static_cast<float>(static_cast<int>(cosine(K, N) * 4096) / 4096.0)",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_seen(mistake: str, tmp_path: Path, builder: Builder) -> None:
    keys = (("num_output", "96"), ("block_size", "16"))
    work = plan({"circulant": Problem(Variant("bcm_fc", keys), (3, 128, 1, 1))}, Pass.FORWARD)
    right, by = MISTAKES[mistake]
    texts = {name: text for name, text in render.kernels(work).items() if right in text}
    assert texts
    sources = {name: text.replace(right, by) for name, text in texts.items()}
    verdicts = make(tmp_path, work, builder, sources=sources, optimise=False).good()
    assert not verdicts["circulant"].passed
