"""What instructions on buffers read and leave, one lane at a time in Python's integers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from census import census

from simgen_examine.conform import bundling, description, judging, lint_table
from simgen_examine.conform.arithmetic import KEPT
from simgen_examine.conform.buffers import Way, buffers
from simgen_examine.conform.judging import Found, Seen
from simgen_examine.conform.page import MOST_LINES, Told, reproducer
from simgen_examine.conform.stores import SIGNATURE, WINDOW

ARCHITECTURES = ("gfx803", "gfx902", "gfx90a", "gfx942")
FORMS = list(buffers("gfx942", description.words("gfx942")))
HALF = 512


def of(word: str, what: str):
    (form,) = (each for each in FORMS if each.mnemonic == word and each.what == what)
    return form


def outcome(form) -> np.ndarray:
    """Words that are expected: (word, tuple)."""
    return np.stack(
        [each.expected.value for each in form.outcome(bundling.tried(form.signature, form.scalar))]
    )


# (what, byte that tuple t reads; None: it is outside)
PLACES = [
    ("offset", lambda t: 16 * t),
    ("offset, constant", lambda t: 16 * t + 8),
    ("offset, scalar offset, constant", lambda t: 16 * t + 8 + 4),
    ("index", lambda t: 16 * t),
    ("index, offset", lambda t: 16 * t + (8 if t % 2 else 0)),
    ("index, offset, scalar offset, constant", lambda t: 16 * t + (4 if t % 2 else 0) + 8 + 4),
    ("offset beyond records", lambda t: 16 * t if 16 * t < 16 * HALF + 8 else None),
    ("offset beyond records less the scalar offset",
     lambda t: 16 * t + 8 if 16 * t < 16 * HALF + 8 else None),
    ("index beyond records", lambda t: 16 * t if t < HALF else None),
    ("nothing", lambda _: 0),
    ("constant", lambda _: 12),
    ("scalar offset", lambda _: 0x80),
    ("index of the lane", lambda t: 4 * (t % 64)),
    ("swizzled by 8", lambda t: ((t // 8 * 8 + (4 if t % 2 else 0)) * 8) + t % 8 * 4),
    ("swizzled by 64", lambda t: ((t // 64 * 8 + (4 if t % 2 else 0)) * 64) + t % 64 * 4 + 0x40),
    ("swizzled by 8, index beyond records",
     lambda t: t // 8 * 64 + t % 8 * 4 if t < HALF else None),
]  # fmt: skip


@census("what, place", PLACES)
def test_a_word_is_loaded_from_its_place_or_is_zero(what: str, place):
    form = of("buffer_load_dword", what)
    held = bundling.tried(form.signature, form.scalar).tobytes()
    (found,) = outcome(form)
    for t in range(1024):
        at = place(t)
        right = 0 if at is None else int.from_bytes(held[at : at + 4], "little")
        assert found[t] == right, t


def test_each_word_of_a_wide_load_is_looked_at_by_itself():
    found = outcome(of("buffer_load_dwordx4", "offset beyond records"))
    held = bundling.tried(SIGNATURE, False).reshape(-1)
    assert found[:, HALF].tolist() == [*held[4 * HALF : 4 * HALF + 2], 0, 0]
    assert (held[4 * HALF + 2 : 4 * HALF + 4] != 0).all(), "or nothing is looked at"
    assert (found[:, HALF + 1 :] == 0).all()
    assert (found[:, HALF - 1] == held[4 * HALF - 4 : 4 * HALF]).all()


@pytest.mark.parametrize(("word", "nbytes", "signed"), [
    ("buffer_load_ubyte", 1, False), ("buffer_load_sbyte", 1, True),
    ("buffer_load_ushort", 2, False), ("buffer_load_sshort", 2, True),
])  # fmt: skip
def test_less_than_a_word_is_extended(word: str, nbytes: int, signed: bool):
    form = of(word, "offset, constant")
    held = bundling.tried(form.signature, form.scalar).tobytes()
    (found,) = outcome(form)
    for t in range(1024):
        at = 16 * t + 8
        value = int.from_bytes(held[at : at + nbytes], "little", signed=signed)
        assert found[t] == value % 2**32


def test_half_a_register_is_loaded_and_is_zero_beyond_the_buffer():
    (wanted,) = of("buffer_load_short_d16_hi", "offset beyond records").outcome(
        bundling.tried(SIGNATURE, False)
    )
    held = bundling.tried(SIGNATURE, False).reshape(-1)
    assert (wanted.expected.value[1, :HALF] == held[0 : 4 * HALF : 4] & 0xFFFF).all()
    assert (wanted.expected.value[1, HALF + 1 :] == 0).all()


@pytest.mark.parametrize(("word", "what", "to", "nbytes", "source"), [
    ("buffer_store_dwordx2", "index, offset", lambda t: 8 if t % 2 else 0, 8, 0),
    ("buffer_store_short_d16_hi", "offset, constant", lambda _: 8, 2, 2),
    ("buffer_store_byte", "offset, scalar offset, constant", lambda _: 20, 1, 0),
])  # fmt: skip
def test_what_is_stored_and_what_stays(word: str, what: str, to, nbytes: int, source: int):
    form = of(word, what)
    given = bundling.tried(form.signature, form.scalar)
    found = outcome(form)
    for t in range(0, 1024, 7):
        expected = bytearray(np.full(WINDOW, KEPT, np.uint32).tobytes())
        expected[to(t) : to(t) + nbytes] = given[:2, :, t].tobytes()[source : source + nbytes]
        assert found[:, t].tobytes() == expected


def test_words_beyond_the_buffer_are_not_stored():
    form = of("buffer_store_dwordx4", "offset beyond records")
    found = outcome(form)
    written = (found != KEPT).sum(0)
    assert (written[:HALF] == 4).all()
    assert written[HALF] == 2
    assert (written[HALF + 1 :] == 0).all()
    # One that looks at the first word alone is wrong in one place.
    given = bundling.tried(form.signature, form.scalar)
    found[:4, HALF] = given[:2, :, HALF].reshape(-1)
    seen = judging.judged(form, found)
    assert (seen.found, seen.wrong) == (Found.WRONG, 1)


def test_an_atomic_returns_where_its_data_was_and_leaves_what_is_beyond():
    form = of("buffer_atomic_add", "offset, returning")
    assert form.outputs == ("v6",)
    old, a = bundling.tried(form.signature, form.scalar)[:2, 0]
    found = outcome(form)
    assert (found[0] == old).all()
    assert (found[1] == old + a).all()
    beyond = outcome(of("buffer_atomic_add", "offset beyond records, not returning"))
    assert (beyond[0, : HALF + 1] == (old + a)[: HALF + 1]).all()
    assert (beyond[0, HALF + 1 :] == old[HALF + 1 :]).all()
    assert (beyond[1:] == KEPT).all()


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_all_widths_are_tried_in_all_ways_that_the_architecture_has(arch: str):
    forms = list(buffers(arch, description.words(arch)))
    assert len({(each.mnemonic, each.what) for each in forms}) == len(forms)
    halves = any("_d16" in each.mnemonic for each in forms)
    assert halves == (arch != "gfx803")
    words = {each.mnemonic for each in forms}
    known = {
        each for each in description.words(arch)
        if re.fullmatch(r"buffer_(load|store|atomic)_(?!format|lds).*", each)
    }  # fmt: skip
    assert words == known
    (flags,) = {
        line.rpartition(" ")[2] for each in forms if each.what.startswith("swizzled by 8")
        for line in each.setup if line.startswith("s_mov_b32 s19")
    }  # fmt: skip
    # The resource of gfx8 says how large elements are (bits 19 and 20).
    assert int(flags, 16) >> 19 & 3 == (1 if arch == "gfx803" else 0)


def test_places_of_windows_are_those_of_their_lanes():
    for form in FORMS:
        way = form.plan.way
        assert isinstance(way, Way)
        if not form.window:
            continue
        place, inside = way.places(1024, 1)
        own = place[:, 0] - 4 * WINDOW * np.arange(1024)
        there = inside[:, 0]
        assert ((own >= 0) & (own < 4 * WINDOW))[there].all(), form.what


def test_what_simulators_lack_is_in_the_table_of_lint():
    seen = [
        Seen(form, Found.WRONG, "", 600, 1024)
        if form.mnemonic == "buffer_load_dword" and "swizzled" in form.what
        else Seen(form, Found.MISSING if "atomic" in form.mnemonic else Found.RIGHT)
        for form in FORMS
    ]
    told = Told("a simulator", "gfx942", tuple(seen), 1.0)
    (table,) = lint_table.rows(told, "gem5", "1")["tables"]
    assert set(table["ends"]) == {each.mnemonic for each in FORMS if "atomic" in each.mnemonic}
    assert set(table["edges"]) == {"buffer_load_dword"}
    assert "swizzled" in table["edges"]["buffer_load_dword"]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_reproducer_is_short_and_names_what_it_reads(arch: str):
    for form in buffers(arch, description.words(arch)):
        if form.signature[0][0] != "b":
            continue  # sums of floats, of which several are right
        words = np.stack([
            each if each.ndim == 1 else each[0] | each[1].astype(np.uint32) << np.uint32(16)
            for each in (
                wanted.expected.value
                for wanted in form.outcome(bundling.tried(form.signature, form.scalar))
            )
        ]).astype(np.uint32)  # fmt: skip
        words[-1] ^= np.uint32(1) << np.uint32(16 * form.mnemonic.endswith("_d16_hi"))
        seen = judging.judged(form, words)
        assert seen.found is Found.WRONG
        lines = reproducer(seen)
        assert len(lines) <= MOST_LINES + 1
        at = lines.index(form.text)
        before = " ".join(lines[:at])
        for register in re.findall(r"\bv2[89]\b|\bs50\b", form.text):
            assert f" {register}," in before, lines
        assert {"s_mov_b32 s18", "s_mov_b32 s19"} <= {line.partition(",")[0] for line in lines}
