"""Products of matrices, worked out one element at a time from the places that the manual tells."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from simgen.conform import bundling, description, judging, page
from simgen.conform.judging import Found
from simgen.conform.matrix import RESULT, products

ARCH = "gfx90a"
FORMS = list(products(ARCH, description.words(ARCH)))
# result, source, M, N, K, blocks, elements of a source in a lane
TOLD = {
    "v_mfma_f32_16x16x4f32": ("f32", "f32", 16, 16, 4, 1, 1),
    "v_mfma_f32_16x16x1f32": ("f32", "f32", 16, 16, 1, 4, 1),
    "v_mfma_f32_32x32x1f32": ("f32", "f32", 32, 32, 1, 2, 1),
    "v_mfma_f32_4x4x4f16": ("f32", "f16", 4, 4, 4, 16, 4),
    "v_mfma_f32_32x32x8f16": ("f32", "f16", 32, 32, 8, 1, 4),
    "v_mfma_f32_16x16x2bf16": ("f32", "bf16", 16, 16, 2, 4, 2),
    "v_mfma_f32_32x32x4bf16_1k": ("f32", "bf16", 32, 32, 4, 2, 4),
    "v_mfma_i32_16x16x16i8": ("i32", "i8", 16, 16, 16, 1, 4),
    "v_mfma_f64_16x16x4f64": ("f64", "f64", 16, 16, 4, 1, 1),
    "v_mfma_f64_4x4x4f64": ("f64", "f64", 4, 4, 4, 4, 1),
}


def numbers(words, kind, count):
    """The elements of a lane's two words."""
    data = words.tobytes()
    if kind == "bf16":
        halves = struct.unpack(f"<{count}H", data[: 2 * count])
        return [struct.unpack("<f", struct.pack("<I", each << 16))[0] for each in halves]
    letter = {"f32": "f", "f64": "d", "f16": "e", "i8": "b", "i32": "i"}[kind]
    return struct.unpack_from(f"<{count}{letter}", data)


def expected(form, given, wave):
    """(lane, element of the result) -> number."""
    result, source, m, n, k, blocks, each = TOLD[form.mnemonic]
    lanes = range(64 * wave, 64 * wave + 64)
    a, b = ([numbers(given[at, :, lane], source, each) for lane in lanes] for at in (0, 1))
    c = [numbers(given[2, :, lane], result, 1 if result == "f64" else 2) for lane in lanes]
    modifiers = dict(
        part.split(":") for part in form.text.split() if ":" in part and "[" not in part
    )
    size, chosen = 2 ** int(modifiers.get("cbsz", 0)), int(modifiers.get("abid", 0))
    pattern = int(modifiers.get("blgp", 0))
    moved = {
        0: lambda x: x, 1: lambda x: x & 31, 2: lambda x: x | 32, 3: lambda x: (x + 16) % 64,
        4: lambda x: x & 15, 5: lambda x: x & 15 | 16, 6: lambda x: x & 15 | 32,
        7: lambda x: x & 15 | 48,
    }[pattern]  # fmt: skip
    rows = 1 if result == "f64" else 4
    together = max(1, 64 // (n * m // rows))  # blocks that lie in the same registers
    high = 64 // together // n  # groups of rows that do
    found = {}
    for block in range(blocks):
        taken = block - block % size + chosen
        for i in range(m):
            for j in range(n):
                item = i % rows + rows * (i // (rows * high))
                item += m // high * (block // together)
                lane = j + n * (i // rows % high + high * (block % together))
                total = 1 if form.what == "c constant" else c[lane][item % len(c[lane])]
                for at in range(k):
                    from_a = i + m * (taken + blocks * (at // each))
                    from_b = moved(j + n * (block + blocks * (at // each)))
                    total += a[from_a][at % each] * b[from_b][at % each]
                found[lane, item] = total
    return found


@pytest.mark.parametrize("name", TOLD)
def test_elements_are_where_the_manual_has_them(name):
    forms = [form for form in FORMS if form.mnemonic == name]
    assert forms
    for form in forms:
        given = bundling.tried(form.signature, form.scalar)
        outcome = form.outcome(given)
        for wave in (0, 11):
            wanted = expected(form, given, wave)
            assert len(wanted) == 64 * len(outcome)
            for (lane, item), number in wanted.items():
                assert outcome[item].expected.value[64 * wave + lane] == number, form.text


def test_products_have_more_bits_than_their_factors():
    """So that a simulator which rounds them to the type of the sources, or adds in it, is seen."""
    for name in ("v_mfma_f32_32x32x8f16", "v_mfma_f64_16x16x4f64"):
        form = next(form for form in FORMS if form.mnemonic == name)
        values = form.outcome(bundling.tried(form.signature, form.scalar))[0].expected.value
        narrow = np.float16 if values.dtype == np.float32 else np.float32
        with np.errstate(over="ignore"):
            assert (values.astype(narrow) != values).mean() > 0.9


def test_a_finding_of_one_has_its_element_of_c():
    form = next(form for form in FORMS if form.mnemonic == "v_mfma_f32_32x32x1f32")
    outcome = form.outcome(bundling.tried(form.signature, form.scalar))
    words = np.stack([each.expected.value.view(np.uint32) for each in outcome])
    assert judging.judged(form, words).found is Found.RIGHT
    words[7, 70] ^= 1 << 31
    seen = judging.judged(form, words)
    assert seen.wrong == 1
    lines = page.reproducer(seen)
    assert len(lines) <= page.MOST_LINES
    assert [line for line in lines if f"v{RESULT + 7}," in line]
    assert not [line for line in lines if f"v{RESULT + 8}," in line]
    assert seen.examples[0].expected.startswith(f"v{RESULT + 7}: ")


@pytest.mark.parametrize("arch", ["gfx803", "gfx902"])
def test_architectures_without_matrix_cores_have_none(arch):
    assert not list(products(arch, description.words(arch)))
