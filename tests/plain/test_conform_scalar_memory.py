"""Scalar loads, worked out by executing the lines of a form one after the other."""

from __future__ import annotations

import re

import numpy as np
import pytest

from simgen.conform import bundling, description, judging, page
from simgen.conform.judging import Found
from simgen.conform.scalar_memory import RESULT, SIGNATURE, scalar_loads

LIES = 0x7F_1234_5000  # s[8:9]
M64 = (1 << 64) - 1


def number(text: str, registers: dict[str, int]) -> int:
    return registers[text] if text in registers else int(text, 0) & 0xFFFFFFFF


def executed(lines: tuple[str, ...], lane: int) -> dict[str, int]:
    """The scalar registers behind lines that set up a load."""
    found = {"s8": LIES & 0xFFFFFFFF, "s9": LIES >> 32, "s44": 64 - lane}
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
        total += registers[each] if each[0] == "s" else int(each, 0)
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
    lying = bundling.given(SIGNATURE, True).reshape(16, -1)  # work-group, word
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
