"""Ordinary kernels on MGPUSim: each is right or refused with the reason, in both modes."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import pytest
from canaries import guarded
from ordinary import MODES, Built, built, execute, kernels, texts, wrong
from probing import BOTH

from simgen.isa import legalise, toolchain
from simgen.isa.legalise.assembly import DYNAMIC_LDS
from simgen.targets.mgpusim.target import MGPUSim, model

if TYPE_CHECKING:
    from pathlib import Path

LACKS = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))

# Everything else is right. These are right in emulation and refused in the timing model.
UNTIMED = {
    "count_atomic", "count_shared", "sum_atomic", "extremes_atomic", "append", "bits_atomic",
    "exchange_loop", "shared_extreme", "half_store", "half_axpy", "half_limits", "bfloat_round",
    "grey_image", "threshold_image", "quantise", "audio_mix", "upper_case", "byte_filter",
    "odd_bytes",
}  # fmt: skip
LEAST = 100  # kernels
SHUFFLED = "wave_sum"


@cache
def compiled(arch: str) -> dict[str, Built]:
    return built(kernels(), arch)


def test_every_kernel_has_a_reference() -> None:
    names = [item.name for item in kernels()]
    assert sorted([*names, "clear"]) == sorted(texts())
    assert len(names) >= LEAST


@pytest.mark.parametrize("arch", BOTH)
def test_what_is_refused_is_known_and_says_why(arch: str) -> None:
    refused = {
        mode: {n: w for n, b in compiled(arch).items() if (w := b.refused(mode))} for mode in MODES
    }
    assert set(refused["emu"]) == set()
    assert set(refused["timing"]) == UNTIMED
    for why in refused["timing"].values():
        assert "right in emulation only" in why
        assert "--mode emu" in why


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("arch", BOTH)
def test_what_is_not_refused_is_right(tmp_path: Path, arch: str, mode: str) -> None:
    """In the timing model, whose arithmetic is the emulator's, kernels take turns."""
    refused = {name for name, b in compiled(arch).items() if b.refused(mode)}
    if mode == "timing":
        names = [item.name for item in kernels()]
        refused |= set(names[BOTH.index(arch) ^ 1 :: 2])
    objects = {name: b.elf for name, b in compiled(arch).items() if name not in refused}
    got = execute(tmp_path, arch, mode, objects)
    assert not isinstance(got, str), got
    assert [
        found for item in kernels() if item.name in got and (found := wrong(item, got[item.name]))
    ] == []


def test_a_canary_sees_words_of_a_replacement_in_lds_of_the_launch(tmp_path: Path) -> None:
    assert SHUFFLED in {item.name for item in kernels()}
    text = guarded(toolchain.assembly(texts()[SHUFFLED], "gfx942"))
    unasked = re.sub(rf"\t\.set .*\.{DYNAMIC_LDS}, .*", "", text)
    for asked, end in ((text, dict), (unasked, str)):
        made = legalise.rewrite(asked, model("gfx942")).text
        got = execute(tmp_path / end.__name__, "gfx942", "emu", {
            SHUFFLED: toolchain.assemble(made, "gfx942")
        })  # fmt: skip
        assert isinstance(got, end), got
