"""Every rule of the legaliser on MGPUSim against exact references; and the defects it meets."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from legalise_cases import examples, rows, timed
from legalise_probe import (
    LANES,
    outputs,
    run,
    scalar_inputs,
    text,
    vector_inputs,
    words_of,
    wrong,
)
from legalise_rows import BOTH, Row

from simgen.isa import legalise, toolchain
from simgen.isa.legalise import one_by_one
from simgen.isa.legalise.assembly import Instruction, instruction, parse
from simgen.isa.legalise.implemented import unimplemented
from simgen.isa.legalise.simulators import native
from simgen.isa.legalise.table import RULES
from simgen.kernels import render
from simgen.targets.mgpusim.target import MGPUSim, model

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from legalise_probe import Words

LACKS = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))

INPUTS = {False: vector_inputs(8), True: scalar_inputs(16)}
TIMED_WAVES = 1  # of those, in the timing model
ROWS_OF_KERNEL = 60
# The pool of these tests is small: compilers and simulators are processes.
WORKERS = 2


@dataclass(frozen=True)
class Batch:
    """Rows that make one kernel."""

    name: str
    rows: tuple[Row, ...]

    @property
    def inputs(self) -> Words:
        return INPUTS[self.rows[0].scalar]

    def text(self, arch: str) -> str:
        """Its assembly, not legalised."""
        return text(self.name, self.rows, arch, self.inputs.shape[1])


def batches(which: Iterable[Row], name: str) -> list[Batch]:
    found = []
    for scalar in (False, True):
        rows = [row for row in which if row.scalar == scalar]
        found += [
            Batch(f"{name}{int(scalar)}_{at}", tuple(rows[at : at + ROWS_OF_KERNEL]))
            for at in range(0, len(rows), ROWS_OF_KERNEL)
        ]
    return found


def assembled(texts: Iterable[str], arch: str) -> list[bytes]:
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(lambda source: toolchain.assemble(source, arch), texts))


def code_of(elf: bytes) -> bytes:
    """The instructions of a code object."""
    from elftools.elf.elffile import ELFFile

    return ELFFile(io.BytesIO(elf)).get_section_by_name(".text").data()


def mistakes(
    folder: Path, arch: str, which: list[Batch], objects: dict[str, bytes], mode: str = "emu"
) -> dict[str, list[str]]:
    """What is wrong, by the name of the row."""
    folder.mkdir(exist_ok=True)
    inputs = {batch.name: batch.inputs for batch in which}
    size = {
        "words_out": {batch.name: sum(map(words_of, batch.rows)) for batch in which},
        "blocks": TIMED_WAVES if mode == "timing" else None,
    }
    kernels = {batch.name: objects[batch.name] for batch in which}
    done = run(folder, arch, kernels, inputs, mode=mode, **size)
    assert (done.returncode, done.stdout[-500:]) == (0, done.stdout[-500:]), done.stderr
    got = outputs(folder, inputs, **size)
    found = {}
    for batch in which:
        launched = (size["blocks"] or batch.inputs.shape[1] // LANES) * LANES
        at = 0
        for row in batch.rows:
            words = got[batch.name][at : at + words_of(row)]
            at += words_of(row)
            found[row.name] = wrong(row, words, batch.inputs, launched)
    return {name: lines for name, lines in found.items() if lines}


# Put by rules and not native: right with what they do about SCC behind s_abs_i32, with the
# constants that they give to s_movk_i32, of a value and itself.
PUT_BY_RULES = {
    "gfx942": ["s_abs_i32", "s_movk_i32", "v_max_f32_e32", "v_min_f32_e32"],
    "gfx803": ["v_max_f32_e32", "v_min_f32_e32"],
}


@pytest.mark.parametrize("arch", BOTH)
def test_every_form_of_every_instruction_is_right_once_legalised(tmp_path: Path, arch: str) -> None:
    """In emulation all of them, in the timing model every instruction."""
    also_timed = timed(arch)
    names = {row.name for row in also_timed}
    in_both = batches(also_timed, "both")
    all_of_them = [*in_both, *batches((r for r in rows(arch) if r.name not in names), "emu")]
    texts = [legalise.rewrite(batch.text(arch), model(arch)).text for batch in all_of_them]
    put = {item.mnemonic for source in texts for item in instructions_of(source)}
    assert sorted(put - native(model(arch))) == PUT_BY_RULES[arch]
    objects = dict(zip((batch.name for batch in all_of_them), assembled(texts, arch)))
    for name, elf in objects.items():
        assert unimplemented(code_of(elf), model(arch)) == [], name
    with ThreadPoolExecutor(WORKERS) as pool:
        modes = {"emu": all_of_them, "timing": in_both}
        found = {
            mode: pool.submit(mistakes, tmp_path / mode, arch, which, objects, mode)
            for mode, which in modes.items()
        }
    assert {mode: future.result() for mode, future in found.items()} == {"emu": {}, "timing": {}}


@pytest.mark.parametrize("arch", BOTH)
def test_no_instruction_of_the_tables_is_without_a_row_in_either_mode(arch: str) -> None:
    """Whoever adds a rule says in legalise_semantics (or in a row) what it computes."""
    frame = {i.mnemonic for i in instructions_of(text("k", [], arch, LANES))}
    for which, exempt in ((rows(arch), set()), (timed(arch), emulated_only(arch))):
        assert len({row.name for row in which}) == len(which)
        lines = {part.strip() for row in which for part in row.code.split(";")}
        shown = {instruction(line).mnemonic for line in lines if not line.endswith(":")} | frame
        assert sorted((native(model(arch)) | RULES[arch].keys()) - shown - exempt) == []


def emulated_only(arch: str) -> set[str]:
    """Those that the timing model never sees: `run.sh` refuses their kernels there."""
    return {name for name, of in RULES[arch].items() if of.__module__ == one_by_one.__name__}


def instructions_of(source: str) -> list[Instruction]:
    (kernel,) = parse(source.split("\n"))
    return [item for item in kernel.items.values() if isinstance(item, Instruction)]


@cache
def replaced_of_frame(arch: str) -> Mapping[str, int]:
    return legalise.rewrite(text("k", [FRAME], arch, LANES), model(arch)).replaced


def is_rewritten(row: Row, arch: str) -> bool:
    source = text("k", [row], arch, LANES)
    return legalise.rewrite(source, model(arch)).replaced != replaced_of_frame(arch)


FRAME = Row("frame", "s_nop 0", lambda w: {})


def as_they_are(arch: str) -> tuple[list[Batch], dict[str, bytes]]:
    """A kernel, not legalised, for each example of something that is."""
    which = [row for row in examples(arch) if is_rewritten(row, arch)]
    one_each = [Batch(f"k{k}", (row,)) for k, row in enumerate(which)]
    objects = assembled((batch.text(arch) for batch in one_each), arch)
    return one_each, dict(zip((batch.name for batch in one_each), objects))


# MGPUSim decodes these, and dies of them.
FATAL = (" mul:", " div:", "v_subb_co_u32_e64", "v_subb_u32_e64")
LOAD_16 = next(row.code for row in examples("gfx942") if row.name == "g_load16")
# Rewritten because the same instruction is wrong with other sources (a signalling NaN), on the
# other architecture, or in the timing model (loads of 16 words).
HARMLESS = {
    "gfx942": ["v_mov_b32_e32 v3, 0x207; v_cmp_class_f32_e32 vcc, v2, v3", LOAD_16],
    "gfx803": ["s_mov_b32 s20, s8; s_cmovk_i32 s20, 0xfffe", LOAD_16],
}


@pytest.mark.parametrize("arch", BOTH)
def test_what_is_replaced_is_wrong_or_kills_the_simulator(tmp_path: Path, arch: str) -> None:
    """A defect that is gone is noticed."""
    one_each, objects = as_they_are(arch)
    each_is_still_wrong(tmp_path / "wrong", arch, one_each, objects)
    each_missing_one_kills_it(tmp_path, arch, one_each, objects)


def each_is_still_wrong(
    folder: Path, arch: str, one_each: list[Batch], objects: dict[str, bytes]
) -> None:
    """What MGPUSim decodes and gets wrong, as it is."""
    one_each = [b for b in one_each if not any(word in b.rows[0].code for word in FATAL)]
    silent = [b for b in one_each if not unimplemented(code_of(objects[b.name]), model(arch))]
    found = mistakes(folder, arch, silent, objects)
    right = [batch.rows[0].code for batch in silent if batch.rows[0].name not in found]
    assert right == HARMLESS[arch]


def each_missing_one_kills_it(
    tmp_path: Path, arch: str, one_each: list[Batch], objects: dict[str, bytes]
) -> None:
    """One kernel for each opcode, in a process of its own; rows of both architectures take turns
    with them, as one decoder serves both."""
    dead: dict[str, tuple[Batch, bytes]] = {}
    shared = [row.name for row in examples(arch) if row.archs == BOTH]
    others = set(shared[BOTH.index(arch) ^ 1 :: 2])
    for batch in one_each:
        if batch.rows[0].name in others:
            continue
        elf = objects[batch.name]
        lacks = [str(lack) for lack in unimplemented(code_of(elf), model(arch))]
        lacks += [word for word in FATAL if word in batch.rows[0].code]
        if lacks:
            dead.setdefault(lacks[0], (batch, elf))
    assert len(dead) > 20

    def survives(item: tuple[Batch, bytes]) -> str | None:
        batch, elf = item
        folder = tmp_path / batch.name
        folder.mkdir()
        size = {"words_out": {batch.name: words_of(batch.rows[0])}, "blocks": 1}
        done = run(folder, arch, {batch.name: elf}, {batch.name: batch.inputs}, **size)
        code = batch.rows[0].code
        return None if done.returncode in (4, 5) else f"{code}: exit {done.returncode}"

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
    made = legalise.rewrite(toolchain.assembly(render.self_contained(source), arch), model(arch))
    assert made.replaced
    elf = toolchain.assemble(made.text, arch)
    assert unimplemented(code_of(elf), model(arch)) == []
    rng = np.random.default_rng(3)
    x = rng.integers(-8, 9, (6, ITEMS)).astype(np.float32).view(np.uint32)
    wanted = reference(x)
    size = {"words_out": {"k": len(wanted)}, "block": BLOCK}
    done = run(tmp_path, arch, {"k": elf}, {"k": x}, **size)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    got = outputs(tmp_path, {"k": x}, **size)["k"]
    np.testing.assert_array_equal(got.view(np.float32), wanted.view(np.float32))
