"""Products of 8-bit integers on the host: exact, and mistakes in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narrow
import pytest
from layer_bundles import make

from simgen.bundle import results
from simgen.kernels import render
from simgen.targets.host import Host

if TYPE_CHECKING:
    from pathlib import Path

    from layer_bundles import Made

    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)


def wrong(made: Made) -> set[str]:
    """Layers whose results are not what they should be, bit for bit."""
    done = made.run()
    assert (done.returncode, done.stderr) == (0, "")
    folder = made.bundle.results("host")
    assert folder is not None
    found = narrow.wrong(made.bundle, results.collect(made.bundle, made.target, folder))
    return {line.split(".")[0] for line in found}


def test_products_of_integers_are_exact(tmp_path: Path, builder: Builder) -> None:
    """With every access checked: nothing is read or written behind the last word of a tensor."""
    work = narrow.planned_integers()
    assert {b.spec.dtype.name for b in work.outputs} == {"i32"}
    assert wrong(make(tmp_path, work, builder, sanitize=True)) == set()


TILED = {"fc", "odd", "chunks", "batched", "product"}
DIRECT = {"direct", "phases"}
EVERY = TILED | DIRECT | {"few", "rows"}
NARROWED = "static_cast<signed char>({})"
SUMS = {  # by tiles, directly, and by both kernels of a short side
    "fused(left[i], right[j], sum[i][j])": NARROWED,
    "fused(pixel[set][at], weight[k], sum[set][i][k])": NARROWED,
    "fused(a.w, b.w, fused(a.z, b.z, fused(a.y, b.y, fused(a.x, b.x, sum))))": NARROWED,
    "fused(factor, of.x, sum.x)": NARROWED,
}
MISTAKES = {
    "no sign": (
        {"(static_cast<int>(word << (32 - BITS)) >> (32 - BITS))": "int(word & 255)"},
        EVERY,
    ),
    "a sum in the narrow type": (SUMS, EVERY),
    "a sum in bfloat16": (
        {
            "fused(left[i], right[j], sum[i][j])": "static_cast<int>(as_float(as_uint("
            "static_cast<float>({})) & 0xffff0000u))"
        },
        TILED,
    ),
    "a step of k that is left out": (
        {
            "next < last;": "next + Tile::K < last;",
            "k < last; k += SLICES)": "k + SLICES < last; k += SLICES)",
            "c < channels;": "c + 1 < channels;",
        },
        EVERY - {"few", "batched"},
    ),
    "no bias": ({"load(bias, ": "0 * load(bias, "}, {"fc", "few", "direct", "product"}),
    "no c": ({"load(c, ": "0 * load(c, "}, {"chunks", "rows"}),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_products_are_seen(tmp_path: Path, builder: Builder, mistake: str) -> None:
    assert seen(tmp_path, builder, narrow.planned_integers(), *MISTAKES[mistake])


ALL = {"first", "second", "classes", "wide", "chunks", "turned"}
INSIDE = "minimum(maximum(static_cast<float>(sum) * scale, LOW), HIGH)"
ROUNDED = "static_cast<int>(as_uint(inside + 12582912.0f) - 0x4b400000u)"
QUANTISED_MISTAKES = {
    "truncation": ({ROUNDED: "static_cast<int>(inside)"}, ALL),
    "ties away from zero": (
        {ROUNDED: "static_cast<int>(inside + (inside < 0 ? -0.5f : 0.5f))"},
        {"first", "wide", "turned"},
    ),
    "no saturation": ({INSIDE: "static_cast<float>(sum) * scale + 0 * (LOW + HIGH)"}, ALL),
    "saturation that forgets the zero point": (
        {"scale, LOW), HIGH)": "scale, LOW + ZERO_POINT), HIGH + ZERO_POINT)"},
        ALL - {"classes", "turned"},
    ),
    "no zero points of factors": ({" - ZERO;": ";"}, {"first", "second", "classes", "chunks"}),
    "no zero point of the result": ({") + ZERO_POINT;": ");"}, ALL - {"classes", "turned"}),
    "one factor for all channels": (
        {"channel_scales[channel]": "channel_scales[0]"},
        {"second", "classes"},
    ),
    "padding that is not zero": (
        {": Vector<Held, 1>{};": ": Vector<Held, 1>{20};"},
        {"second"},
    ),
}


def test_integers_of_8_bits_again(tmp_path: Path, builder: Builder) -> None:
    """With every access checked, stored by fours and by another kernel."""
    work = narrow.planned_integers(narrow.QUANTISED)
    assert {b.spec.dtype.name for b in work.outputs} == {"i8"}
    assert wrong(make(tmp_path, work, builder, sanitize=True)) == set()


@pytest.mark.parametrize("mistake", QUANTISED_MISTAKES)
def test_mistakes_in_requantisation_are_seen(
    tmp_path: Path, builder: Builder, mistake: str
) -> None:
    work = narrow.planned_integers(narrow.QUANTISED)
    assert seen(tmp_path, builder, work, *QUANTISED_MISTAKES[mistake])


NETWORK_MISTAKES = {
    "none": ({}, set()),
    "truncation": (
        {"(as_uint(x + WHOLE) + ZERO)": "static_cast<unsigned>(static_cast<int>(x) + ZERO)"},
        {"quantise", "sum", "again"},
    ),
    "no saturation": (
        {"keep(minimum(maximum(x, LOW), HIGH))": "keep(x + 0 * (LOW + HIGH))"},
        {"quantise", "sum"},
    ),
    "means that are truncated": (
        {"near + (more - less)": "static_cast<int>(sum * reciprocal) + 0 * (more - less)"},
        {"clipped", "padded", "means"},
    ),
    "ties away from zero": (
        {
            "(over == 0.0f && odd)": "(over == 0.0f && (odd | (sum > 0)))",
            "(under == 0.0f && odd)": "(under == 0.0f && (odd | (sum < 0)))",
        },
        {"clipped"},
    ),
    "a rectifier without its zero point": (
        {"activate<FUNCTION>(x, CEILING, ALPHA)": "maximum(x, Element::widen(0))"},
        {"rectified"},
    ),
    "one factor for both": ({"I ? FACTOR1 : FACTOR0": "FACTOR0"}, {"sum"}),
    "one zero point for both": ({"I ? ZERO1 : ZERO0": "0 * ZERO0"}, {"sum"}),
    "no scale": ({"in.x * SCALE": "in.x"}, {"quantise", "again", "real"}),
}


@pytest.mark.parametrize("mistake", NETWORK_MISTAKES)
def test_a_network_of_integers(tmp_path: Path, builder: Builder, mistake: str) -> None:
    """From floats to floats: every layer that has integers, bit for bit, and mistakes in them."""
    work = narrow.planned_integers(narrow.NETWORK)
    texts, layers = NETWORK_MISTAKES[mistake]
    if not texts:
        assert wrong(make(tmp_path, work, builder, sanitize=True)) == set()
    else:
        assert seen(tmp_path, builder, work, texts, layers)


def seen(
    tmp_path: Path,
    builder: Builder,
    work: Workload,
    texts: dict[str, str],
    layers: set[str],
) -> bool:
    """Whether these layers, and no others, are wrong where texts of kernels are others."""
    sources = render.kernels(work)
    for right, mistaken in texts.items():
        assert any(right in text for text in sources.values()), right
        by = mistaken.replace("{}", right)
        sources = {name: text.replace(right, by) for name, text in sources.items()}
    found = wrong(make(tmp_path, work, builder, sources=sources, optimise=False))
    assert found == layers
    return True
