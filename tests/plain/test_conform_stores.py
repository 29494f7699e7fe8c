"""What stores leave in memory, byte by byte, and that a byte which is wrong is seen."""

from __future__ import annotations

import numpy as np
import pytest

from simgen_examine.conform import bundling, description, judging
from simgen_examine.conform.arithmetic import KEPT
from simgen_examine.conform.forms import forms
from simgen_examine.conform.judging import Found
from simgen_examine.conform.stores import SOME_LANES, stores

FORMS = list(stores("gfx942", description.words("gfx942")))


def _of(text: str, what: str):
    (form,) = (each for each in FORMS if each.text.startswith(text) and each.what == what)
    return form


def _left(form) -> np.ndarray:
    outcomes = form.outcome(bundling.tried(form.signature, form.scalar))
    return np.stack([each.expected.value for each in outcomes])


@pytest.mark.parametrize(
    ("text", "what", "nbytes"),
    [("global_store_byte_d16_hi ", "offset 0", [(0, 2)]),
     ("global_store_short ", "address + 1", [(1, 0), (2, 1)]),
     ("flat_store_dwordx3", "offset 8", [(8 + n, n) for n in range(12)]),
     ("ds_write2_b32", "offsets 1 and 3", [(4 + n, n) for n in range(4)]
      + [(12 + n, 4 + n) for n in range(4)])],
)  # fmt: skip
def test_bytes_that_are_written_and_no_others(text: str, what: str, nbytes: list[tuple[int, int]]):
    form = _of(text, what)
    given = bundling.tried(form.signature, form.scalar)
    found = _left(form)
    for lane in range(0, 1024, 97):
        sources = given[:2, :, lane].tobytes()
        expected = bytearray(np.full(8, KEPT, np.uint32).tobytes())
        for to, source in nbytes:
            expected[to] = sources[source]
        assert found[:, lane].tobytes() == expected


def test_lanes_without_a_bit_in_exec_write_nothing():
    found = _left(_of("global_store_dword ", "offset 0, some lanes"))
    written = (found != KEPT).any(0)
    assert written.any()
    assert not written[[lane for lane in range(1024) if not SOME_LANES >> lane % 64 & 1]].any()


@pytest.mark.parametrize("text", ["global_store_short ", "ds_write_b8 "])
def test_a_neighbouring_byte_that_changes_is_seen(text: str):
    form = _of(text, "offset 0")
    words = _left(form)
    assert judging.judged(form, words).found is Found.RIGHT
    words[0, 77] ^= 1 << 16
    seen = judging.judged(form, words)
    assert seen.found is Found.WRONG
    assert [each.number for each in seen.examples] == [77]


def test_words_of_windows_lie_lane_by_lane():
    form = _of("global_store_dwordx4 ", "offset 0")
    region = np.arange(form.window * 1024, dtype=np.uint32)
    assert judging.result_words(form, region)[:, 1].tolist() == list(range(8, 16))


@pytest.mark.parametrize("arch", ["gfx803", "gfx942"])
def test_as_many_words_are_looked_at_as_are_stored(arch: str):
    for form in forms(arch):
        if form.mnemonic.endswith(("_sdwa", "_dpp")) and "v_add" in form.mnemonic:
            outcomes = form.outcome(bundling.tried(form.signature, form.scalar))
            assert sum(each.words for each in outcomes) == len(form.outputs), form.text
