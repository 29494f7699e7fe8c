"""Reproducers: short, and whole: what their last lines read, earlier ones have set."""

from __future__ import annotations

import re

import numpy as np
import pytest

from simgen_examine.conform import bundling, consequences, description, judging, page
from simgen_examine.conform.arithmetic import KEPT
from simgen_examine.conform.atomics import atomics
from simgen_examine.conform.forms import Form, forms
from simgen_examine.conform.judging import Found, Seen
from simgen_examine.conform.stores import stores

LANE = 77


def in_lds(arch: str) -> list[Form]:
    known = description.words(arch)
    return [each for each in (*stores(arch, known), *atomics(arch, known)) if each.after]


def held(values: np.ndarray) -> np.ndarray:
    """As registers hold them: (word, tuple)."""
    if values.ndim == 2:  # halves
        values = np.ascontiguousarray(values.T).view(np.uint32)[:, 0]
    return values.view(np.uint32).reshape(len(values), -1).T


def wrong(form: Form, word: int) -> Seen:
    """A form whose result is what it has to be, but for a bit of a word."""
    given = bundling.tried(form.signature, form.scalar)
    words = np.concatenate([held(each.expected.value) for each in form.outcome(given)])
    words[word, LANE] ^= 1 << 30
    return judging.judged(form, words)


def touched(line: str) -> tuple[set[str], set[str]]:
    """The vector registers that a line sets, and those that it reads."""
    word, _, rest = line.partition(" ")
    named = [
        {f"v{n}" for n in range(int(low), int(high or low) + 1)}
        for low, high in re.findall(r"\bv\[?(\d+)(?::(\d+)\])?", rest)
    ]
    sets = bool(re.match(r"v_|ds_read|ds_\w*rtn", word))
    return (named[0] if sets else set()), set().union(*named[sets:])


@pytest.mark.parametrize("arch", ["gfx803", "gfx942"])
def test_those_of_lds_are_short_and_whole(arch: str):
    tried = in_lds(arch)
    assert len(tried) > 100
    for form in tried:
        for word in range(len(form.outputs)):
            seen = wrong(form, word)
            if seen.found is Found.RIGHT:
                continue  # a sum that may be flushed
            *lines, comment = page.reproducer(seen)
            assert len(lines) <= page.MOST_LINES, form.text
            assert form.text in lines
            known = {"v0"}
            for line in lines:
                sets, reads = touched(line)
                assert reads <= known, (form.text, line)
                known |= sets
            (example,) = seen.examples
            assert example.number == LANE
            holder, expected, found = example.first
            named, _ = touched(f"v_ {holder}")
            assert form.outputs[word] in named <= known, (form.text, word)
            given, got = (
                int(re.sub(r" \([^)]*\)|:0x", "", each), 16) for each in (expected, found)
            )
            assert given ^ got == 1 << 30 + 32 * sorted(named).index(form.outputs[word])
            assert f", {holder}: expected {expected}, found {found}" in comment
            if holder.startswith(("v3", "v[3")):  # of the window: filled before, or a source
                offset = line_of(form.after, form.outputs[word]).partition("offset:")[2] or "0"
                fills = [line for line in lines[: lines.index(form.text)] if "ds_write" in line]
                assert offset in [fill.partition("offset:")[2] or "0" for fill in fills]


def line_of(lines: tuple[str, ...], register: str) -> str:
    (line,) = (each for each in lines if each.startswith(f"ds_read_b32 {register},"))
    return line


def test_the_whole_of_one():
    (form,) = (f for f in in_lds("gfx942") if f.text.startswith("ds_add_u64") and "some" in f.what)
    held = form.outputs[2]
    lines = page.reproducer(wrong(form, 2))
    sources = bundling.tried(form.signature, form.scalar)[:2, :, LANE].reshape(-1)
    assert lines == [
        *(f"v_mov_b32 v{4 + n}, {word:#010x}" for n, word in enumerate(sources)),
        "v_lshlrev_b32_e32 v14, 5, v0",
        f"v_mov_b32_e32 v15, {KEPT:#x}",
        "ds_write_b32 v14, v4",
        "ds_write_b32 v14, v5 offset:4",
        "ds_write_b32 v14, v15 offset:8",
        "s_waitcnt lgkmcnt(0)",
        "ds_add_u64 v14, v[6:7]",
        f"ds_read_b32 {held}, v14 offset:8",
        "s_waitcnt lgkmcnt(0)",
        f"; lane {LANE % 64} with EXEC 0x0f35a5c396c3ff01 there, {held}: "
        f"expected {KEPT:#010x}, found {KEPT ^ 1 << 30:#010x}",
    ]


@pytest.mark.parametrize("arch", ["gfx803", "gfx942"])
def test_no_form_has_a_longer_one(arch: str):
    """Of the others: the values of all sources, what goes before, and the instruction."""
    most = max((2 * len(f.signature) + len(f.setup) + 2, f.text) for f in forms(arch))
    assert most[0] <= page.MOST_LINES, most


def test_loads_and_stores_that_cross_lines_have_a_consequence():
    tried = [
        form for form in stores("gfx902", description.words("gfx902"))
        if form.text.startswith("global_store_dword ") and form.what in ("offset 0", "address + 1")
    ]  # fmt: skip
    assert [bool(consequences.consequence_of(form)) for form in tried] == [False, True]
    assert "crosses a 64-byte line" in consequences.consequence_of(tried[1])
