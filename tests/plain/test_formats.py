"""Formats of numbers that share scales, beside the package ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from simgen.errors import ConfigError
from simgen.frontend import problem
from simgen.frontend.config import parse
from simgen.frontend.network import resolve
from simgen.ground.formats import ELEMENTS, FORMATS, Element

PACKED = [each for each in ELEMENTS if each.is_packed]


@pytest.mark.parametrize("element", PACKED, ids=lambda each: each.name)
def test_all_patterns_and_ties(element: Element) -> None:
    theirs = np.dtype(getattr(ml_dtypes, element.numpy))
    codes = np.arange(1 << element.bits, dtype=np.uint8)
    numbers = codes.view(theirs).astype(float)
    if not element.exponent:
        numbers = codes - 16.0 * (codes > 7)
    bits = (codes[:, np.newaxis] >> np.arange(element.bits)) & 1
    stored = np.packbits(bits.reshape(-1).astype(np.uint8), bitorder="little")
    np.testing.assert_array_equal(element.decoded(stored), numbers)
    assert element.largest == (7 if element.name == "i4" else numbers.max())

    middles = (element.levels[1:] + element.levels[:-1]) / 2
    beside = [np.nextafter(middles.astype(np.float32), np.float32(end)) for end in (0, 99)]
    near = np.concatenate([middles, *beside, -middles])
    x = np.resize(near, -(-near.size // 16) * 16)
    wanted = np.rint(x) if element.name == "i4" else x.astype(theirs).astype(float)
    np.testing.assert_array_equal(element.decoded(element.encoded(x)), wanted)


def test_exponents_are_ml_dtypes_powers() -> None:
    stored = np.arange(256, dtype=np.uint8)
    (groups, *_) = (each for each in FORMATS.values() if each.is_power)
    wanted = stored.view(np.dtype(ml_dtypes.float8_e8m0fnu)).astype(float)
    np.testing.assert_array_equal(groups.scales(stored), wanted)


@pytest.mark.parametrize(
    ("word", "keys", "told"),
    [
        ("quantise_fwd", "format=mxfp4 shape=4x40", "a multiple of a group's 32; make them longer"),
        ("quantise_fwd", "format=fp8_group shape=4x192", "let group_size be 16"),
        ("quantise_fwd", "format=mxfp4 group_size=64", "groups of 32; leave it out"),
        ("quantise_fwd", "format=fp8_group group_size=8", "a multiple of 16"),
        ("quantise_fwd", "format=mxfp5", "format is 'mxfp5'; did you mean"),
        ("quantise_fwd", "shape=64", "x has one axis; give it rows"),
        ("scaled_fc_fwd", "shape=4x192", "let group_size be 16"),
        ("scaled_fc_fwd", "result=i8", "result is i8; write f32, f16 or bf16"),
        ("experts_fwd", "scaled_weights=true intermediate=40", "a multiple of a group's 32"),
        ("quantised_add_rms_norm_fwd", "shape=4x6", "let them be a multiple of 4"),
    ],
)
def test_what_does_not_fit(word: str, keys: str, told: str) -> None:
    given = [(key, value) for key, _, value in (each.partition("=") for each in keys.split())]
    found = problem.find(word, given, None)
    with pytest.raises(ConfigError, match=told):
        resolve(found.config, found.settings)


@pytest.mark.parametrize(
    ("scales", "told"),
    [("4x3", "x_scales are 4 x 3 of f32, and x has 4 x 2 of f32"), ("", "name each, as")],
)
def test_scales_of_the_wrong_extents(scales: str, told: str) -> None:
    inputs = f"[Input]\nname=s\nshape={scales}\n\n" if scales else ""
    previous = "x,s" if scales else "x"
    text = (
        f"[Input]\nname=x\nshape=4x256\ntype=f8e4m3fn\n\n{inputs}"
        f"[ScaledFullyConnected]\nname=y\nscaled_x=true\nprevious_layer={previous}\n"
    )
    with pytest.raises(ConfigError, match=told):
        resolve(parse(text, "a.dnnmark"))
