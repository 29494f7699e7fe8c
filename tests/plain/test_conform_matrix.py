"""Products of matrices, worked out one element at a time from the places that the manual tells."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from simgen_examine.conform import bundling, description, judging, page
from simgen_examine.conform.judging import Found
from simgen_examine.conform.matrix import RESULT, products

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


def eighth(code: int, mantissa: int) -> float:
    """An 8-bit float of gfx942: no infinities, 0x80 is NaN, the bias is a power of two."""
    assert code != 0x80
    exponent, rest = code >> mantissa & (1 << 7 - mantissa) - 1, code & (1 << mantissa) - 1
    bias = {3: 8, 2: 16}[mantissa]
    size = rest / 2.0**mantissa * 2.0 ** (1 - bias) if exponent == 0 else None
    if size is None:
        size = (1 + rest / 2.0**mantissa) * 2.0 ** (exponent - bias)
    return -size if code >> 7 else size


def unpacked(words: bytes, kind: str) -> list[float]:
    if kind in ("fp8", "bf8"):
        return [eighth(code, {"fp8": 3, "bf8": 2}[kind]) for code in words]
    return list(numbers(np.frombuffer(words, np.uint8), kind, len(words) // (1 + ("16" in kind))))


NEW = list(products("gfx942", description.words("gfx942")))
EIGHT_BITS = {
    "v_mfma_f32_16x16x32_fp8_fp8": ("fp8", "fp8"), "v_mfma_f32_16x16x32_bf8_fp8": ("bf8", "fp8"),
    "v_mfma_f32_32x32x16_fp8_bf8": ("fp8", "bf8"), "v_mfma_f32_32x32x16_bf8_bf8": ("bf8", "bf8"),
}  # fmt: skip


@pytest.mark.parametrize("name", EIGHT_BITS)
def test_products_of_8_bit_floats(name):
    forms = [form for form in NEW if form.mnemonic == name]
    assert [form.what for form in forms] == ["registers", "c constant", "some lanes"]
    m, k = (16, 32) if "16x16" in name else (32, 16)
    for form in forms:
        given = bundling.tried(form.signature, form.scalar)
        a, b = (
            [unpacked(given[at, :, lane].tobytes(), kind) for lane in range(64)]
            for at, kind in enumerate(EIGHT_BITS[name])
        )
        c = [numbers(given[2, :, lane], "f32", 2) for lane in range(64)]
        outcome = form.outcome(given)
        for i in range(m):
            for j in range(m):
                item, lane = i % 4 + 4 * (i // 4 // (64 // m)), j + m * (i // 4 % (64 // m))
                total = 1 if form.what == "c constant" else c[lane][item % 2]
                total += sum(a[i + m * (n // 8)][n % 8] * b[j + m * (n // 8)][n % 8]
                             for n in range(k))  # fmt: skip
                assert outcome[item].expected.value[lane] == total, (form.text, i, j)
        values = outcome[0].expected.value
        assert (np.abs(values) > 300).any(), "more than 8-bit floats hold"


# result, A, B, M (and N), K, how many sets of indices
SPARSE = {
    "v_smfmac_f32_16x16x32_f16": ("f32", "f16", "f16", 16, 32, 4),
    "v_smfmac_f32_32x32x16_bf16": ("f32", "bf16", "bf16", 32, 16, 4),
    "v_smfmac_i32_16x16x64_i8": ("i32", "i8", "i8", 16, 64, 2),
    "v_smfmac_i32_32x32x32_i8": ("i32", "i8", "i8", 32, 32, 2),
    "v_smfmac_f32_32x32x32_fp8_bf8": ("f32", "fp8", "bf8", 32, 32, 2),
}


def indices(form, lane):
    """The register of indices, by executing the lines that make it."""
    held = {"v0": lane}
    does = {
        "v_mov_b32_e32": lambda a, _: a, "v_and_b32_e32": lambda a, b: a & b,
        "v_lshlrev_b32_e32": lambda a, b: b << (a & 31), "v_sub_u32_e32": lambda a, b: a - b,
        "v_lshrrev_b32_e32": lambda a, b: b >> (a & 31), "v_or_b32_e32": lambda a, b: a | b,
    }  # fmt: skip
    for line in form.setup:
        word, _, rest = line.partition(" ")
        to, *sources = rest.split(", ")
        if to == "v12":
            break
        a, b = (held[each] if each in held else int(each, 0) for each in (*sources, "0")[:2])
        held[to] = does[word](a, b) & 0xFFFFFFFF
    return held["v15"]


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_products(name):
    _, kind_a, kind_b, m, k, sets = SPARSE[name]
    forms = [form for form in NEW if form.mnemonic == name]
    assert len(forms) == 2 + sets
    width = 2 if "16" in kind_a else 1
    stored = 8 // width  # elements of A in a lane
    for form in forms:
        given = bundling.tried(form.signature, form.scalar)
        held = [given[:, :, lane] for lane in range(64)]
        a = [unpacked(each[0].tobytes(), kind_a) for each in held]
        b = [unpacked(each[1].tobytes() + each[2].tobytes(), kind_b) for each in held]
        first = 0 if "cbsz" in form.text else int(form.text.partition("abid:")[2] or 0)
        places = []
        for lane in range(64):
            word = indices(form, lane) >> first * 2 * stored
            pairs = [(word >> 4 * n & 3, word >> 4 * n + 2 & 3) for n in range(stored // 2)]
            assert all(low < high for low, high in pairs)
            places.append([4 * n + at for n, pair in enumerate(pairs) for at in pair])
        outcome = form.outcome(given)
        for i in range(0, m, 3):
            for j in range(0, m, 5):
                item, lane = i % 4 + 4 * (i // 4 // (64 // m)), j + m * (i // 4 % (64 // m))
                total = -4 if item % 2 else lane
                for part in range(64 // m):
                    for at in range(stored):
                        column = places[i + m * part][at]
                        total += a[i + m * part][at] * b[j + m * part][column]
                assert outcome[item].expected.value[lane] == total, (form.text, i, j)
        assert k == 2 * stored * (64 // m)


def test_a_finding_of_a_sparse_product_has_its_indices():
    form = next(form for form in NEW if form.mnemonic == "v_smfmac_f32_32x32x16_f16")
    outcome = form.outcome(bundling.tried(form.signature, form.scalar))
    words = np.stack([each.expected.value.view(np.uint32) for each in outcome])
    assert judging.judged(form, words).found is Found.RIGHT
    words[6, 70] ^= 1 << 31
    lines = page.reproducer(judging.judged(form, words))
    assert len(lines) <= page.MOST_LINES
    assert f"v_mov_b32_e32 v15, {indices(form, 6):#x}" in lines
    assert "v_cvt_f32_u32_e32 v12, v0" in lines
    assert [line for line in lines if f"v{RESULT + 6}," in line]
    assert not [line for line in lines if f"v{RESULT + 7}," in line]


def test_blgp_of_gfx942_is_tried_where_it_is_told():
    tried = {form.mnemonic for form in NEW if "blgp" in form.text}
    assert "v_mfma_f32_16x16x4_f32" in tried
    assert "v_mfma_f32_4x4x4_16b_f16" in tried
    for name in ("v_mfma_f32_16x16x16_f16", "v_mfma_i32_32x32x16_i8", "v_mfma_f32_16x16x8_xf32"):
        assert name in {form.mnemonic for form in NEW} - tried


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
