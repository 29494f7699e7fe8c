"""Scalar loads and stores, worked out by executing the lines of a form one after the other."""

from __future__ import annotations

import re

import numpy as np
import pytest

from simgen_examine.conform import assembly, bundling, description, judging, page
from simgen_examine.conform.arithmetic import KEPT
from simgen_examine.conform.judging import Found
from simgen_examine.conform.scalar_memory import (
    RESULT,
    SIGNATURE,
    WINDOW,
    scalar_loads,
    scalar_stores,
)

LIES = 0x7F_1234_5000  # s[8:9]
OWN = 0x7E_FFFF_FFC0  # s[14:15], of stores
M64 = (1 << 64) - 1


def number(text: str, registers: dict[str, int]) -> int:
    return registers[text] if text in registers else int(text, 0) & 0xFFFFFFFF


def executed(lines: tuple[str, ...], lane: int) -> dict[str, int]:
    """The scalar registers behind lines that set up a load or a store."""
    found = {"s8": LIES & 0xFFFFFFFF, "s9": LIES >> 32, "s44": 64 - lane,
             "s14": OWN & 0xFFFFFFFF, "s15": OWN >> 32}  # fmt: skip
    carry = 0
    does = {
        "s_mov_b32": lambda a, b, c: a, "s_and_b32": lambda a, b, c: a & b,
        "s_mul_i32": lambda a, b, c: a * b, "s_add_u32": lambda a, b, c: a + b,
        "s_addc_u32": lambda a, b, c: a + b + c, "s_sub_u32": lambda a, b, c: a - b,
        "s_subb_u32": lambda a, b, c: a - b - c,
    }  # fmt: skip
    for line in lines:
        word, _, rest = line.partition(" ")
        to, *sources = rest.split(", ")
        a, b = (number(each, found) for each in (*sources, "0")[:2])
        whole = does[word](a, b, carry)
        if word.startswith(("s_add", "s_sub")):
            carry = int(not 0 <= whole < 1 << 32)
        found[to] = whole & 0xFFFFFFFF
    return found


def address(form, lane: int) -> int:
    """As the manuals have it: base + constant, which gfx9 signs, + register."""
    registers = executed(form.setup, lane)
    _, base, offset = re.fullmatch(r"s_\w+ (s\S+), s\[(\d+):\d+\], (.*)", form.text).groups()
    low, high = registers[f"s{base}"], registers[f"s{int(base) + 1}"]
    total = 0
    for each in offset.replace("offset:", "").split():
        total += registers[each] if each[0] in "sm" else int(each, 0)
    if form.mnemonic.startswith("s_buffer"):
        stride, high = high >> 16 & 0x3FFF, high & 0xFFFF
        records = registers["s18"]
        assert 0 <= total < records * (stride or 1)
    return ((high << 32 | low) + total) & M64


@pytest.mark.parametrize("arch", ["gfx803", "gfx902", "gfx90a", "gfx942"])
def test_what_is_loaded_lies_where_the_offsets_lead(arch):
    forms = list(scalar_loads(arch, description.words(arch)))
    assert {form.mnemonic for form in forms} == {
        f"s_{kind}load_dword{width}"
        for kind in ("", "buffer_")
        for width in ("", "x2", "x4", "x8", "x16")
    }
    lying = bundling.signature_memory(SIGNATURE, True).reshape(16, -1)  # work-group, word
    given = bundling.tried(SIGNATURE, True)
    for form in forms:
        outcome = form.outcome(given)
        assert [f"s{RESULT + n}" for n in range(len(outcome))] == list(form.outputs)
        for group, lane in ((0, 0), (3, 17), (15, 63)):
            first, left = divmod(address(form, lane) - LIES, 4)
            assert left == 0, form.text
            assert first in range(lying.shape[1] - len(outcome) + 1), form.text
            for n, each in enumerate(outcome):
                assert each.expected.value[64 * group + lane] == lying[group, first + n], form.text


def test_constants_below_zero_are_of_gfx9_alone():
    def negative(arch):
        return [f for f in scalar_loads(arch, description.words(arch)) if "-0x" in f.text]

    assert negative("gfx902")
    assert not negative("gfx803")


def test_a_finding_of_one_sets_up_what_it_loads():
    form = next(
        form
        for form in scalar_loads("gfx902", description.words("gfx902"))
        if form.mnemonic == "s_buffer_load_dwordx4" and "and constant" in form.what
    )
    given = bundling.tried(form.signature, form.scalar)
    words = np.stack([each.expected.value for each in form.outcome(given)])
    assert judging.judged(form, words).found is Found.RIGHT
    words[2, 70] ^= 1
    seen = judging.judged(form, words)
    assert seen.wrong == 1
    lines = page.reproducer(seen)
    assert len(lines) <= page.MOST_LINES
    assert lines[0].startswith("s_mov_b32 s44, 58  ;")
    assert form.text in lines
    assert f"s{RESULT + 2}: expected" in lines[-1]


@pytest.mark.parametrize("arch", ["gfx803", "gfx902", "gfx942"])
def test_what_is_stored_lies_in_the_tuple_s_own_words(arch):
    forms = list(scalar_stores(arch, description.words(arch)))
    assert {form.mnemonic for form in forms} == {
        f"s_{kind}store_dword{width}" for kind in ("", "buffer_") for width in ("", "x2", "x4")
    }
    given = bundling.tried(SIGNATURE, True)
    for form in forms:
        outcome = form.outcome(given)
        count = {"dword": 1, "dwordx2": 2, "dwordx4": 4}[form.mnemonic.rpartition("_")[2]]
        for group, lane in ((0, 0), (3, 17), (15, 63)):
            first, left = divmod(address(form, lane) - OWN, 4)
            assert left == 0, form.text
            held = [KEPT] * WINDOW
            held[first : first + count] = bundling.signature_memory(SIGNATURE, True).reshape(-1, 8)[
                64 * group + lane, :count
            ]
            assert len(held) == WINDOW, form.text
            assert [each.expected.value[64 * group + lane] for each in outcome] == held


def test_a_store_is_left_out_with_what_writes_it_back():
    """So that a simulator without scalar stores does not end at that."""
    form = next(iter(scalar_stores("gfx902", description.words("gfx902"))))
    lines = assembly.text("k", [form], "gfx902").splitlines()
    assert lines[lines.index(".Lfrom0:") + 1 : lines.index(".Lto0:")] == [form.text]
    together = lines[lines.index(".Lto0:") + 1 : lines.index(".Lwith0:")]
    assert together == ["s_waitcnt lgkmcnt(0)", "s_dcache_wb"]
    assert [line for line in lines if "s_dcache_wb" in line] == ["s_dcache_wb"]


def test_a_finding_of_a_store_has_its_words():
    form = next(
        form
        for form in scalar_stores("gfx902", description.words("gfx902"))
        if form.mnemonic == "s_buffer_store_dwordx4" and "elements, register" in form.what
    )
    given = bundling.tried(form.signature, form.scalar)
    words = np.stack([each.expected.value for each in form.outcome(given)])
    assert judging.judged(form, words).found is Found.RIGHT
    words[5, 70] ^= 1
    lines = page.reproducer(judging.judged(form, words))
    assert len(lines) <= page.MOST_LINES
    assert lines[0].startswith(f"s_mov_b32 s20, {given[0, 0, 70]:#010x}  ; s[14:15]: 32 bytes")
    assert lines[3] == f"s_mov_b32 s23, {given[1, 1, 70]:#010x}"
    assert form.text in lines
    assert "byte 20 of its memory: expected" in lines[-1]
