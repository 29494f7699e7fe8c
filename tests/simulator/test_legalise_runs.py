"""MGPUSim's tables, instruction by instruction, as conform has them from the manuals: right in both
modes once legalised; and what has a rule is wrong without it. Then whole kernels."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from canaries import guarded
from probing import BOTH, outputs, run

from simgen.errors import RefusedError
from simgen.isa import legalise, toolchain
from simgen.isa.legalise import one_by_one
from simgen.isa.legalise.implemented import unimplemented
from simgen.isa.legalise.simulators import native
from simgen.isa.legalise.table import RULES
from simgen.kernels import render
from simgen.targets.mgpusim.target import MGPUSim, model
from simgen_examine.conform import probe
from simgen_examine.conform.catalogue import catalogue
from simgen_examine.conform.float_mode import USUAL
from simgen_examine.conform.judging import Found

if TYPE_CHECKING:
    from pathlib import Path

    from probing import Words

    from simgen_examine.conform.forms import Form
    from simgen_examine.conform.judging import Seen

LACKS = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))

SECONDS = 1200.0  # that a busy machine may take
# Texts of forms that stay different from hardware, by intent (`instruction_rules`):
ROUNDED_TWICE = re.compile(r"v_(pk_)?(fma|fmac|mad|mac|fmaak|fmamk|madak|madmk|div_fmas)_f32")
DIVIDED_ANEW = re.compile(r"v_div_(scale|fixup)_f32 ")  # of the numbers, not of an estimate
SIGNALLING = re.compile(r"v_pack_b32_f16|v_cmp_class_f32_e64 .*\|")  # NaNs
ODD_SHORTS = re.compile(r"(global|flat)_store_short")  # at an odd address, which no compiler has
MODES = re.compile(r"s_setreg_imm32_b32 ")
BY_INTENT = (ROUNDED_TWICE, DIVIDED_ANEW, SIGNALLING, ODD_SHORTS, MODES)
ANY_ZERO = re.compile(r"v_(pk_)?(min|max)3?_f(16|32)")
REFUSED = re.compile(  # what the message says that there is no replacement for
    r"output modifier|its carry|hwreg|no room for the next byte|into SCC, not the overflow"
    r"|carry is wrong|variable shift|variable field|rounds the product"
)
# Control, hints and fences, seen in whole kernels (test_ordinary_kernels.py), and what
# tests/plain executes.
NO_FORM = re.compile(
    r"s_(c?branch|barrier|endpgm|nop|waitcnt|sleep|setprio|bitset|cmovk?_)|s_\w+_saveexec_b64"
    r"|buffer_|ds_permute|flat_atomic_add_f32|v_(swap_b32|pk_mov_b32|div_fixup_f16|mad_legacy_u16|dot4c)"
)


def forms_of(arch: str) -> list[Form]:
    """All forms of the tables' instructions, in the mode that kernels begin in."""
    named = native(model(arch)) | RULES[arch].keys()
    return [f for f in catalogue(arch) if f.mnemonic in named and f.mode == USUAL]


def timed(arch: str) -> list[Form]:
    """One form of each instruction, but for what `run.sh` refuses in the timing model. That is the
    same code for both architectures: what both have takes turns."""
    own = {}
    for each in BOTH:
        alone = {n for n, of in RULES[each].items() if of.__module__ == one_by_one.__name__}
        own[each] = {f.mnemonic: f for f in forms_of(each)[::-1] if f.mnemonic not in alone}
    shared = sorted(set.intersection(*map(set, own.values())))
    elsewhere = set(shared) - set(shared[BOTH.index(arch) :: len(BOTH)])
    return [form for name, form in own[arch].items() if name not in elsewhere]


def refused(forms: list[Form], arch: str) -> dict[str, str]:
    """Text of a form -> why nothing replaces it; told without an assembler."""
    head = f'\t.amdgcn_target "amdgcn-amd-amdhsa--{arch}"\n\t.text\n\t.type\tk,@function\nk:\n'
    tail = (
        "\ts_endpgm\n.Lend_k:\n\t.size\tk, .Lend_k-k\n"
        "\t.set k.num_vgpr, 128\n\t.set k.numbered_sgpr, 64\n"
    )
    names = legalise.names(model(arch), edges=True)
    found = {}
    for text in {form.text for form in forms}:
        try:
            legalise.rewrite(f"{head}\t{text}\n{tail}", model(arch), names)
        except RefusedError as error:
            found[text] = str(error)
    return found


def tried(
    patch: pytest.MonkeyPatch, folder: Path, arch: str, forms: list[Form], **how: object
) -> list[Seen]:
    patch.setattr(probe, "catalogue", lambda _: forms)
    return probe.Trial("mgpusim", arch, limit=SECONDS, **how).findings(folder)  # type: ignore[arg-type]


def is_meant(seen: Seen) -> bool:
    text = seen.form.text
    if seen.found is Found.REFUSED:
        return bool(REFUSED.search(seen.reason))
    zeros = all(_but_zeros(e.expected) == _but_zeros(e.found) for e in seen.examples)
    return any(each.match(text) for each in BY_INTENT) or bool(ANY_ZERO.match(text) and zeros)


def _but_zeros(told: str) -> str:
    """Words without the signs of zeros, and without what they are as numbers."""
    words = re.findall(r"0x([0-9a-f]+)", told)
    return re.sub(r"8000(0000)?(?=$|....$)", r"0000\1", "".join(words)).lstrip("0")


@pytest.mark.parametrize("mode", ["emu", "timing"])
@pytest.mark.parametrize("arch", BOTH)
def test_every_form_is_right_once_legalised(
    tmp_path: Path, arch: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forms = forms_of(arch) if mode == "emu" else timed(arch)
    without = refused(forms, arch)
    assert [why for why in without.values() if not REFUSED.search(why)] == []
    left = [form for form in forms if form.text not in without]
    found = tried(monkeypatch, tmp_path, arch, left, mode=mode, legalised=True)
    assert len(found) > 200
    bad = [s for s in found if s.found is not Found.RIGHT and not is_meant(s)]
    assert [(s.form.text, s.found, s.reason, s.examples[:1]) for s in bad] == []


@pytest.mark.parametrize("arch", BOTH)
def test_what_has_a_rule_is_wrong_as_it_is(
    tmp_path: Path, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect that is gone is noticed."""
    ruled = RULES[arch].keys() - native(model(arch))  # native ones are wrong with some sources
    forms = [f for f in forms_of(arch) if f.mnemonic in ruled]
    found = tried(monkeypatch, tmp_path, arch, forms)
    wrong = {s.form.mnemonic for s in found if s.found is not Found.RIGHT}
    assert sorted({f.mnemonic for f in forms} - wrong) == HARMLESS[arch]


# Wrong in the timing model.
HARMLESS: dict[str, list[str]] = {"gfx942": [], "gfx803": ["s_load_dwordx16"]}


@pytest.mark.parametrize("arch", BOTH)
def test_no_instruction_of_the_tables_is_without_a_form(arch: str) -> None:
    named = native(model(arch)) | RULES[arch].keys()
    left = named - {f.mnemonic for f in forms_of(arch)}
    assert [name for name in sorted(left) if not NO_FORM.match(name)] == []


def code_of(elf: bytes) -> bytes:
    """The instructions of a code object."""
    from elftools.elf.elffile import ELFFile

    return ELFFile(io.BytesIO(elf)).get_section_by_name(".text").data()


# Whole kernels: registers, SCC, VCC and EXEC stay intact ---------------------------------------

HELD = 80  # values that a work-item keeps in registers
ITEMS = 512
BLOCK = 256
PRESSURE = f"""
#include "prelude.h"
extern "C" __global__ __launch_bounds__({BLOCK}) void k(
    const float* __restrict__ x, float* __restrict__ y)
{{
    const unsigned at = blockIdx.x * {BLOCK} + threadIdx.x;
    float v[{HELD}];
#pragma unroll
    for (unsigned j = 0; j < {HELD}; j++)
        v[j] = x[(at * 5 + j * 37) % {ITEMS}];
    unsigned taken = 0;
    for (unsigned step = 0; step < at % 7; step++) {{
        if ((at + step) % 3 == 0) {{
#pragma unroll
            for (unsigned j = 0; j < {HELD}; j++)
                v[j] = maximum(v[j], v[(j + 1) % {HELD}]);
            taken += 1;
        }} else if ((at + step) % 5 == 1) {{
#pragma unroll
            for (unsigned j = 0; j < {HELD}; j++)
                v[j] = __builtin_floorf(v[j] * 0.5f);
            taken += 100;
        }} else {{
#pragma unroll
            for (unsigned j = 0; j < {HELD}; j++)
                v[j] = v[j] == v[(j + 3) % {HELD}] || v[j] > 40.0f
                    ? -v[j] : v[j] - v[(j + 3) % {HELD}];
            taken += 10000;
        }}
    }}
    float sum = 0;
#pragma unroll
    for (unsigned j = 0; j < {HELD}; j++)
        sum += v[j] * (float)(j % 4);
    y[at] = sum;
    y[{ITEMS} + at] = (float)taken;
}}
"""


def pressure(x: Words) -> Words:
    """The same with NumPy, item by item; all values are small whole numbers."""
    result = np.zeros((2, ITEMS), np.float32)
    for at in range(ITEMS):
        v = x[0].view(np.float32)[(at * 5 + np.arange(HELD) * 37) % ITEMS].copy()
        taken = 0
        for step in range(at % 7):
            if (at + step) % 3 == 0:
                for j in range(HELD):
                    v[j] = max(v[j], v[(j + 1) % HELD])
                taken += 1
            elif (at + step) % 5 == 1:
                v = np.floor(v * np.float32(0.5))
                taken += 100
            else:
                for j in range(HELD):
                    other = v[(j + 3) % HELD]
                    v[j] = -v[j] if v[j] == other or v[j] > 40 else v[j] - other
                taken += 10000
        result[:, at] = (v * (np.arange(HELD) % 4)).sum(), taken
    return result.view(np.uint32)


ORDINARY = f"""
#include "prelude.h"
static __device__ __forceinline__ unsigned high(unsigned a, unsigned b)
{{
    return (unsigned)(((unsigned long long)a * b) >> 32);
}}
extern "C" __global__ __launch_bounds__({BLOCK}) void k(
    const float* __restrict__ x, float* __restrict__ y)
{{
    __shared__ float tile[{BLOCK} * 2];
    const unsigned item = threadIdx.x, at = blockIdx.x * {BLOCK} + item;
    tile[item] = x[at];
    tile[item + {BLOCK}] = x[{ITEMS} + at];
    __syncthreads();
    const float a = tile[{BLOCK} - 1 - item], b = tile[2 * {BLOCK} - 1 - item];
    /* a window that is cut off at the edges, with narrow indices */
    const int column = at % 11, row = at / 11 % 13;
    float most = -3.0e38f;
    int best = -1;
    for (int r = -1; r < 2; r++)
        for (int c = -1; c < 2; c++)
            if (row + r >= 0 && row + r < 13 && column + c >= 0 && column + c < 11) {{
                const float t = x[(row + r) * 11 + column + c];
                if (t > most || best < 0) {{
                    most = t;
                    best = (row + r) * 11 + column + c;
                }}
            }}
    /* rounds of a counter-based generator */
    unsigned c0 = at, c1 = 7, key = 1234;
    for (int k = 0; k < 5; k++) {{
        const unsigned h = high(0xD2511F53u, c0), l = 0xD2511F53u * c0;
        c0 = h ^ c1 ^ key;
        c1 = l;
        key += 0x9E3779B9u;
    }}
    y[at] = __builtin_copysignf(a, b);
    y[{ITEMS} + at] = most;
    y[2 * {ITEMS} + at] = (float)best;
    y[3 * {ITEMS} + at] = (float)(c0 >> 8);
    y[4 * {ITEMS} + at] = c1 > 0x80000000u ? 2.0f * a : 0.0f;
    y[5 * {ITEMS} + at] = a != b ? __builtin_ceilf(a * 0.25f) : -1.0f;
}}
"""


def ordinary(x: Words) -> Words:
    f = x.view(np.float32)
    item = np.arange(ITEMS)
    mirrored = item // BLOCK * BLOCK + BLOCK - 1 - item % BLOCK
    a, b = f[0][mirrored], f[1][mirrored]
    most, best = np.full(ITEMS, np.float32(-3e38)), np.full(ITEMS, -1)
    column, row = item % 11, item // 11 % 13
    for r in (-1, 0, 1):
        for c in (-1, 0, 1):
            inside = (row + r >= 0) & (row + r < 13) & (column + c >= 0) & (column + c < 11)
            where = np.where(inside, (row + r) * 11 + column + c, 0)
            better = inside & ((f[0][where] > most) | (best < 0))
            most, best = np.where(better, f[0][where], most), np.where(better, where, best)
    c0, c1, key = item.astype(np.uint64), np.full(ITEMS, 7, np.uint64), 1234
    for _ in range(5):
        wide = c0 * np.uint64(0xD2511F53)
        c0, c1 = (wide >> np.uint64(32)) ^ c1 ^ np.uint64(key), wide & np.uint64(0xFFFFFFFF)
        key = (key + 0x9E3779B9) & 0xFFFFFFFF
    kept = np.where(c1 > 0x80000000, 2 * a, 0)
    rounded = np.where(a != b, np.ceil(a * np.float32(0.25)), -1)
    results = [np.copysign(a, b), most, best, c0 >> np.uint64(8), kept, rounded]
    return np.stack(results).astype(np.float32).view(np.uint32)


@pytest.mark.parametrize("arch", BOTH)
@pytest.mark.parametrize(("source", "reference"), [(PRESSURE, pressure), (ORDINARY, ordinary)])
def test_kernels_with_pressure_and_divergence(tmp_path: Path, arch: str, source, reference) -> None:
    text = guarded(toolchain.assembly(render.self_contained(source), arch))
    made = legalise.rewrite(text, model(arch))
    assert made.replaced
    elf = toolchain.assemble(made.text, arch)
    left = {(each.format, each.opcode) for each in unimplemented(code_of(elf), model(arch))}
    assert left == {("SOP1", 29)}, "the canary's end"
    rng = np.random.default_rng(3)
    x = rng.integers(-8, 9, (6, ITEMS)).astype(np.float32).view(np.uint32)
    wanted = reference(x)
    size = {"words_out": {"k": len(wanted)}, "block": BLOCK}
    done = run(tmp_path, arch, {"k": elf}, {"k": x}, **size)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    got = outputs(tmp_path, {"k": x}, **size)["k"]
    np.testing.assert_array_equal(got.view(np.float32), wanted.view(np.float32))
