"""Every rule of simgen.legalise on MGPUSim against exact references; and the defects it meets."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from legalise_cases import rows
from legalise_probe import (
    MASK_PATTERN,
    VCC_PATTERN,
    Case,
    assembled,
    outputs,
    run,
    scalar_inputs,
    text,
    vector_inputs,
)
from legalise_rows import BOTH, MASK, SCC, VCC, Inputs, Row

from simgen import legalise, render, toolchain
from simgen.legalise.implemented import unimplemented
from simgen.targets.mgpusim import MGPUSim

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from legalise_probe import Words

LACKS = MGPUSim().missing()
pytestmark = pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))

INPUTS = {False: vector_inputs(), True: scalar_inputs()}
# The pool of these tests is small: compilers and simulators are processes.
WORKERS = 2


def build(row: Row, arch: str, *, legal: bool) -> bytes:
    return assembled(Case(row.name, row.code), arch, INPUTS[row.scalar].shape[1], legal=legal)


def code_of(elf: bytes) -> bytes:
    """The instructions of a code object."""
    from elftools.elf.elffile import ELFFile

    return ELFFile(io.BytesIO(elf)).get_section_by_name(".text").data()


def is_rewritten(row: Row, arch: str) -> bool:
    source = text(Case(row.name, row.code), arch, INPUTS[row.scalar].shape[1])
    return bool(legalise.rewrite(source, arch).replaced)


def execute(
    folder: Path, arch: str, kernels: dict[str, bytes], which: Iterable[Row]
) -> dict[str, Words]:
    inputs = {row.name: INPUTS[row.scalar] for row in which}
    done = run(folder, arch, kernels, inputs)
    assert (done.returncode, done.stdout[-500:]) == (0, done.stdout[-500:]), done.stderr
    return outputs(folder, inputs)


def wrong(row: Row, got: Words) -> list[str]:
    """The outputs that are not what hardware gives, each with its first example."""
    w = Inputs(INPUTS[row.scalar])
    with np.errstate(all="ignore"):
        expected = dict(row.expected(w))
    expected.setdefault(MASK, w.bit(MASK_PATTERN))
    expected.setdefault(SCC, np.ones(w.items, np.uint32))
    expected.setdefault(VCC, w.bit(VCC_PATTERN))
    found = []
    for number, values in expected.items():
        wanted = np.broadcast_to(np.asarray(values, np.uint32), (w.items,)).copy()
        same = got[number] == wanted
        if row.name[0] in "kp":  # floats: NaNs have no value, zeros no sign
            a, b = got[number].copy().view(np.float32), wanted.view(np.float32)
            same |= (a == b) | (np.isnan(a) & np.isnan(b))
        if not same.all():
            at = int(np.flatnonzero(~same)[0])
            words = ", ".join(f"{x:#x}" for x in w.u[:4, at])
            found.append(
                f"{row.code}: output {number} of ({words}) is {got[number][at]:#x}, "
                f"not {wanted[at]:#x}; {np.count_nonzero(~same)} of {w.items} wrong"
            )
    return found


@pytest.mark.parametrize("arch", BOTH)
def test_every_instruction_is_right_once_legalised(tmp_path: Path, arch: str) -> None:
    table = rows(arch)
    with ThreadPoolExecutor(WORKERS) as pool:
        objects = list(pool.map(lambda row: build(row, arch, legal=True), table))
    for row, elf in zip(table, objects):
        assert unimplemented(code_of(elf), arch) == [], row.code
    kernels = {row.name: elf for row, elf in zip(table, objects)}
    assert len(kernels) == len(table), "two rows of one name"
    got = execute(tmp_path, arch, kernels, table)
    assert [line for row in table for line in wrong(row, got[row.name])] == []


# MGPUSim decodes these, and dies of them.
FATAL = (" mul:", " div:", "v_subb_co_u32_e64", "v_subb_u32_e64")
LOAD_16 = next(row.code for row in rows("gfx942") if row.name == "g_load16")
# Rewritten because the same instruction is wrong with other sources (a signalling NaN), on the
# other architecture, or in the timing model (loads of 16 words).
HARMLESS = {
    "gfx942": ["v_mov_b32_e32 v3, 0x207; v_cmp_class_f32_e32 vcc, v2, v3", LOAD_16],
    "gfx803": ["s_mov_b32 s20, s8; s_cmovk_i32 s20, 0xfffe", LOAD_16],
}


@pytest.mark.parametrize("arch", BOTH)
def test_a_defect_that_is_gone_is_noticed(tmp_path: Path, arch: str) -> None:
    """What MGPUSim decodes and gets wrong, as it is: each of them must still be wrong."""
    table = [row for row in rows(arch) if is_rewritten(row, arch)]
    table = [row for row in table if not any(word in row.code for word in FATAL)]
    with ThreadPoolExecutor(WORKERS) as pool:
        objects = list(pool.map(lambda row: build(row, arch, legal=False), table))
    silent = {
        row.name: elf for row, elf in zip(table, objects) if not unimplemented(code_of(elf), arch)
    }
    which = [row for row in table if row.name in silent]
    got = execute(tmp_path, arch, silent, which)
    right = [row.code for row in which if not wrong(row, got[row.name])]
    assert right == HARMLESS[arch]


@pytest.mark.parametrize("arch", BOTH)
def test_what_the_table_calls_missing_kills_the_simulator(tmp_path: Path, arch: str) -> None:
    """One kernel for each opcode, in a process of its own."""
    dead: dict[str, tuple[Row, bytes]] = {}
    for row in rows(arch):
        if not is_rewritten(row, arch):
            continue
        elf = build(row, arch, legal=False)
        lacks = [str(lack) for lack in unimplemented(code_of(elf), arch)]
        lacks += [word for word in FATAL if word in row.code]
        if lacks:
            dead.setdefault(lacks[0], (row, elf))
    assert len(dead) > 20

    def survives(item: tuple[Row, bytes]) -> str | None:
        row, elf = item
        folder = tmp_path / row.name
        folder.mkdir()
        done = run(folder, arch, {row.name: elf}, {row.name: INPUTS[row.scalar]})
        return None if done.returncode in (4, 5) else f"{row.code}: exit {done.returncode}"

    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(survives, dead.values()))
    assert [line for line in found if line] == []


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
    made = legalise.rewrite(toolchain.assembly(render.self_contained(source), arch), arch)
    assert made.replaced
    elf = toolchain.assemble(made.text, arch)
    assert unimplemented(code_of(elf), arch) == []
    rng = np.random.default_rng(3)
    x = rng.integers(-8, 9, (6, ITEMS)).astype(np.float32).view(np.uint32)
    wanted = reference(x)
    size = {"words_out": len(wanted), "block": BLOCK}
    done = run(tmp_path, arch, {"k": elf}, {"k": x}, **size)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    got = outputs(tmp_path, {"k": x}, **size)["k"]
    np.testing.assert_array_equal(got.view(np.float32), wanted.view(np.float32))
